//! An open pack: header, tables, and the ways to its records.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use iac_format::{FormatError, Header, Layout, RecordIndex, RowSums, TableKind};

use crate::content::{Content, RecordSpan, RowAddresses};
use crate::error::{ReadError, Result};
use crate::open::{display_name, io_error, load_damaged_header, open_header, read_header_block};
use crate::options::{ReadOptions, SourceKind};
use crate::source::{Advice, ByteSource, MappedFile, Memory, PositionalFile, open_regular};
use crate::table::{Table, load_stream};

/// How a pack stores its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PackKind {
    /// Every index row addresses one payload by offset and length.
    Variable,
    /// Row *n* is the n-th stretch of equal length in the data segment.
    Fixed,
    /// The data segment has a structure of its own; rows address nothing.
    Segment,
}

impl PackKind {
    /// The name in machine-readable output: `variable`, `fixed` or `segment`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Variable => "variable",
            Self::Fixed => "fixed",
            Self::Segment => "segment",
        }
    }
}

/// Reads a pack.
///
/// Opening is cheap: the file is opened and its header checked once; tables follow on first use,
/// decoded column by column. Clones are cheap too, share everything, and work from any number of
/// threads at once without locks. Nothing is ever reopened by path, so a reader goes on with the
/// content that it opened when the path is replaced or unlinked.
///
/// ```no_run
/// use iac_reader::PackReader;
///
/// let pack = PackReader::open("cohort.tiles.iac")?;
/// let batch = pack.read_rows(&[12, 7, 12])?;
/// let view = pack.view(3)?;
/// # Ok::<(), iac_reader::ReadError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PackReader {
    pub(crate) inner: Arc<Inner>,
    pub(crate) options: Arc<ReadOptions>,
}

/// What is loaded of a pack, each part at most once.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) content: Arc<Content>,
    tables: Arc<Tables>,
}

/// What is decoded of a pack's tables, each part at most once.
#[derive(Debug, Default)]
struct Tables {
    slides: OnceLock<Table>,
    index: OnceLock<Table>,
    rows: OnceLock<RowAddresses>,
}

impl PackReader {
    /// Opens a pack with default options: mapped, checksums checked on owned reads.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`] when the file cannot be opened or read, [`ReadError::Format`] when it is
    /// not an `.iac` file or its header is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// Opens a pack. With the feature `object-store` the path may also be a URL (`s3://`, `gs://`,
    /// `az://`, `http(s)://`, `file://`), for which the module `object` has calls with more options.
    ///
    /// # Errors
    ///
    /// As [`PackReader::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        let path = path.as_ref();
        #[cfg(feature = "object-store")]
        if let Some(location) = crate::object::location_of(path)? {
            return match location.local_path() {
                Some(local) => Self::open_file(local, options),
                None => crate::object::open_remote(&location, options),
            };
        }
        Self::open_file(path, options)
    }

    fn open_file(path: &Path, options: &ReadOptions) -> Result<Self> {
        let name = display_name(path);
        let (file, size) = open_regular(path).map_err(|source| io_error(&name, "open", source))?;
        let (header, damage) = if options.rescue {
            load_damaged_header(&name, size, |offset, buffer| {
                crate::source::read_file(&file, offset, buffer)
            })?
        } else {
            (open_header(path, &name, &file, size, options.use_header_cache)?, Vec::new())
        };
        let source: Arc<dyn ByteSource> = match options.source {
            SourceKind::Mapped => match MappedFile::from_file(file, size) {
                Ok(mapped) => Arc::new(mapped),
                Err((file, _)) => Arc::new(PositionalFile::from_file(file, size)),
            },
            SourceKind::Positional => Arc::new(PositionalFile::from_file(file, size)),
        };
        Ok(Self::assemble(name, source, header, damage, options))
    }

    /// Opens a pack that is in memory.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the bytes are not an `.iac` file or the header is damaged.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self> {
        Self::from_source(Arc::new(Memory::new(bytes)), "memory", &ReadOptions::default())
    }

    /// Opens a pack from any source; `name` stands in messages where a path would.
    ///
    /// # Errors
    ///
    /// As [`PackReader::open`].
    pub fn from_source(
        source: Arc<dyn ByteSource>,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Self> {
        let name: Arc<str> = Arc::from(name);
        let size = source.size();
        let read = |offset, buffer: &mut [u8]| source.read_into(offset, buffer);
        let (header, damage) = if options.rescue {
            load_damaged_header(&name, size, read)?
        } else {
            let block = read_header_block(size, read)
                .map_err(|source| io_error(&name, "read the header", source))?;
            let header = Header::parse(&block, size)
                .map_err(|source| ReadError::Format { path: Arc::clone(&name), source })?;
            (header, Vec::new())
        };
        Ok(Self::assemble(name, source, header, damage, options))
    }

    fn assemble(
        path: Arc<str>,
        source: Arc<dyn ByteSource>,
        header: Header,
        damage: Vec<FormatError>,
        options: &ReadOptions,
    ) -> Self {
        let content = Arc::new(Content { path, source, header, damage });
        let inner = Inner { content, tables: Arc::default() };
        Self { inner: Arc::new(inner), options: Arc::new(options.clone()) }
    }

    /// The same pack, header and tables included, with records that come from another source of
    /// the same bytes.
    pub(crate) fn with_source(&self, source: Arc<dyn ByteSource>) -> Self {
        let Content { path, header, damage, .. } = &*self.inner.content;
        let (path, header, damage) = (Arc::clone(path), header.clone(), damage.clone());
        let content = Arc::new(Content { path, source, header, damage });
        let inner = Inner { content, tables: Arc::clone(&self.inner.tables) };
        Self { inner: Arc::new(inner), options: Arc::clone(&self.options) }
    }

    /// Where the stored bytes of rows lie in the file, in the order of the rows.
    pub(crate) fn stretches(&self, rows: &[u64]) -> Result<Vec<std::ops::Range<u64>>> {
        let content = &self.inner.content;
        content.guarded(|| {
            let data = self.layout().data.offset;
            let addresses = self.row_addresses()?;
            let stretch = |row: &u64| {
                let span = addresses.span(*row).map_err(|source| content.format_error(source))?;
                let start = data.saturating_add(span.offset);
                Ok(start..start.saturating_add(span.length))
            };
            rows.iter().map(stretch).collect()
        })
    }

    /// The same pack read with other options. What concerns the opening of files has no effect.
    #[must_use]
    pub fn with_options(&self, options: &ReadOptions) -> Self {
        Self { inner: Arc::clone(&self.inner), options: Arc::new(options.clone()) }
    }

    /// The same pack with the comparison of checksums on owned reads switched on or off.
    #[must_use]
    pub fn with_crc(&self, check: bool) -> Self {
        self.with_options(&self.options.as_ref().clone().check_crc(check))
    }

    /// The same pack with calls that use at most so many threads; `None`: all cores.
    #[must_use]
    pub fn with_workers(&self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        self.with_options(&self.options.as_ref().clone().workers(workers))
    }

    /// The pack's path, or the name that its source was given.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.content.path
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.inner.content.header
    }

    /// What is wrong with the header in a pack that was opened for [`ReadOptions::rescue`]; nothing
    /// in any other, since it would be an error.
    #[must_use]
    pub fn damage(&self) -> &[FormatError] {
        &self.inner.content.damage
    }

    /// Where the segments lie.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.header().layout()
    }

    /// Bytes of the file when it was opened, with what may have been appended to the pack.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.inner.content.source.size()
    }

    /// Bytes behind the data segment, which belong to no record.
    #[must_use]
    pub fn trailing_bytes(&self) -> u64 {
        self.file_bytes().saturating_sub(self.layout().end())
    }

    /// The slide table.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the table is damaged or its row count is not the header's.
    pub fn slide_table(&self) -> Result<&Table> {
        self.table(TableKind::Slide, &self.inner.tables.slides)
    }

    /// The index table.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the table is damaged or its row count is not the header's.
    pub fn index_table(&self) -> Result<&Table> {
        self.table(TableKind::Index, &self.inner.tables.index)
    }

    fn table<'a>(&'a self, kind: TableKind, cell: &'a OnceLock<Table>) -> Result<&'a Table> {
        if let Some(table) = cell.get() {
            return Ok(table);
        }
        let content = &self.inner.content;
        let loaded = content.guarded(|| load_stream(content, kind, &self.options))?;
        // Threads that come here together parse the same bytes; one result is kept.
        Ok(cell.get_or_init(|| Table::new(Arc::clone(content), loaded)))
    }

    /// How the pack stores its records.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the index table is damaged.
    pub fn kind(&self) -> Result<PackKind> {
        let has_offsets = self
            .index_table()?
            .schema()
            .fields()
            .iter()
            .any(|field| field.name() == iac_format::OFFSET_COLUMN);
        Ok(match (has_offsets, self.header().claims_fixed_shape()) {
            (true, _) => PackKind::Variable,
            (false, true) => PackKind::Fixed,
            (false, false) => PackKind::Segment,
        })
    }

    /// Number of rows of the index table.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the index table is damaged.
    pub fn num_records(&self) -> Result<u64> {
        Ok(self.index_table()?.num_rows())
    }

    /// The storage columns of a variable pack; `None` for the other kinds.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the index table or one of its storage columns is damaged.
    pub fn record_index(&self) -> Result<Option<&RecordIndex>> {
        match self.row_addresses()? {
            RowAddresses::Variable(index) => Ok(Some(index)),
            RowAddresses::Fixed { .. } | RowAddresses::None => Ok(None),
        }
    }

    /// Where a record lies in the data segment.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the row does not exist or its span is damaged, or the pack
    /// addresses no records.
    pub fn span(&self, row: u64) -> Result<RecordSpan> {
        let content = &self.inner.content;
        content.guarded(|| {
            self.row_addresses()?.span(row).map_err(|source| content.format_error(source))
        })
    }

    #[inline]
    pub(crate) fn row_addresses(&self) -> Result<&RowAddresses> {
        match self.inner.tables.rows.get() {
            Some(rows) => Ok(rows),
            None => self.load_row_addresses(),
        }
    }

    fn load_row_addresses(&self) -> Result<&RowAddresses> {
        let content = &self.inner.content;
        let table = self.index_table()?;
        let wrap = |source| content.format_error(source);
        let data_length = self.layout().data.length;
        let loaded = content.guarded(|| {
            if let Some(index) = RecordIndex::new(table.stream(), data_length).map_err(wrap)? {
                return Ok(RowAddresses::Variable(index));
            }
            let Some(shape) = self.header().fixed_shape().map_err(wrap)? else {
                return Ok(RowAddresses::None);
            };
            let rows = table.num_rows();
            if !self.options.rescue {
                shape.check_data_length(data_length, rows).map_err(wrap)?;
            }
            let sums = match self.header().checksums() {
                Some(sums) if sums.rows => {
                    Some(RowSums::new(table.stream()).map_err(wrap)?.ok_or_else(|| {
                        wrap(FormatError::Column {
                            table: TableKind::Index,
                            column: iac_format::CRC32_COLUMN.to_owned(),
                            reason: "missing, although the header says that rows have checksums"
                                .to_owned(),
                        })
                    })?)
                }
                _ => None,
            };
            Ok(RowAddresses::Fixed { shape, rows, sums, data_length })
        })?;
        Ok(self.inner.tables.rows.get_or_init(|| loaded))
    }

    /// Whether the pack's bytes are all still there: for those who have used views or decoded
    /// columns of a mapped file, which read as zeros where the guard stepped in.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`] when the file was cut since it was opened.
    pub fn check_intact(&self) -> Result<()> {
        self.inner.content.guarded(|| Ok(()))
    }

    /// The same, for code that reads single records through views and asks around each: the system
    /// is asked for the size of a mapped file at most once in each tick of its coarse clock (4 ms
    /// on most machines). So a file that was cut may go unnoticed for that long.
    ///
    /// # Errors
    ///
    /// As [`check_intact`](Self::check_intact).
    #[inline]
    pub fn check_intact_lately(&self) -> Result<()> {
        self.inner.content.guarded_lately(|| Ok(()))
    }

    /// Tells the operating system how the pack will be read.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`] with what the operating system reports; the advice has no effect then.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        let content = &self.inner.content;
        content.source.advise(advice).map_err(|source| content.io_error("advise", source))
    }

    /// Asks the operating system to load records that will be read soon.
    ///
    /// # Errors
    ///
    /// As [`PackReader::span`], and [`ReadError::Io`] with what the operating system reports.
    pub fn prefetch(&self, rows: &[u64]) -> Result<()> {
        let content = &self.inner.content;
        let start = self.layout().data.offset;
        for row in rows {
            let span = self.span(*row)?;
            content
                .source
                .will_need(start.saturating_add(span.offset), span.length)
                .map_err(|source| content.io_error("prefetch", source))?;
        }
        Ok(())
    }
}
