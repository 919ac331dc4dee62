//! An open pack: header, tables, and the ways to its records.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use iac_format::{
    FixedShape, FormatError, HEADER_BYTES, Header, Layout, RecordIndex, RowSums, Segment, TableKind,
};

use crate::error::{ReadError, Result};
use crate::header_cache::{self, FileKey};
use crate::options::{ReadOptions, SourceKind};
use crate::source::{Advice, ByteSource, MappedFile, Memory, PositionalFile, open_regular};
use crate::table::{Table, load_stream};

/// Tables up to this size do not make a file be mapped.
const READ_AT_ONCE: u64 = 64 << 10;

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

/// The bytes of a pack and its checked header.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) path: Arc<str>,
    pub(crate) source: Arc<dyn ByteSource>,
    pub(crate) header: Header,
    /// What is wrong with the header, where that was asked for instead of an error.
    damage: Vec<FormatError>,
}

/// How rows are found in the data segment.
#[derive(Debug)]
pub(crate) enum RowAddresses {
    Variable(RecordIndex),
    Fixed { shape: FixedShape, rows: u64, sums: Option<RowSums>, data_length: u64 },
    None,
}

/// Where one record lies in the data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSpan {
    /// First byte, relative to the data segment.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// CRC-32 of the stored bytes, where the pack has one.
    pub crc32: Option<u32>,
}

impl Content {
    pub(crate) fn format_error(&self, source: FormatError) -> ReadError {
        ReadError::Format { path: Arc::clone(&self.path), source }
    }

    pub(crate) fn io_error(&self, action: &'static str, source: io::Error) -> ReadError {
        ReadError::Io { path: Arc::clone(&self.path), action, source }
    }

    /// Runs a call that touches the source's memory: checks before that the file still has its
    /// size, and after that nothing was lost meanwhile. A loss explains every other error.
    pub(crate) fn guarded<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let wrap = |source| self.io_error("read", source);
        self.source.check_size(self.header.layout().end()).map_err(wrap)?;
        let result = call();
        self.source.check_lost().map_err(wrap)?;
        result
    }

    /// The same for calls that read one record, with a size that may be a few milliseconds old.
    #[inline]
    pub(crate) fn guarded_lately<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let wrap = |source| self.io_error("read", source);
        self.source.check_size_lately(self.header.layout().end()).map_err(wrap)?;
        let result = call();
        self.source.check_lost().map_err(wrap)?;
        result
    }

    /// The bytes of a table: shared with the source's memory, or copied.
    pub(crate) fn segment_bytes(&self, segment: Segment, max_copied: u64) -> Result<Bytes> {
        let too_large = |allowed: String| ReadError::Memory {
            path: Arc::clone(&self.path),
            what: "a table",
            bytes: segment.length,
            allowed,
        };
        let length = usize::try_from(segment.length)
            .map_err(|_| too_large("this machine cannot address that".to_owned()))?;
        // Mapping a file costs more than reading a few pages of it.
        let memory = if segment.length <= READ_AT_ONCE.min(max_copied) {
            self.source.memory_at_hand()
        } else {
            self.source.memory()
        };
        if let Some(memory) = memory {
            let start = usize::try_from(segment.offset).ok();
            let end = start.and_then(|start| start.checked_add(length));
            return match (start, end) {
                (Some(start), Some(end)) if end <= memory.len() => Ok(memory.slice(start..end)),
                _ => Err(self.io_error("read a table", io::ErrorKind::UnexpectedEof.into())),
            };
        }
        if let Some(bytes) = self.source.shared(segment.offset, length) {
            return Ok(bytes);
        }
        if segment.length > max_copied {
            return Err(too_large(format!("the options allow {max_copied}")));
        }
        let mut buffer = Vec::new();
        buffer
            .try_reserve_exact(length)
            .map_err(|_| too_large("that much is not available".to_owned()))?;
        buffer.resize(length, 0);
        self.source
            .read_into(segment.offset, &mut buffer)
            .map_err(|source| self.io_error("read a table", source))?;
        Ok(Bytes::from(buffer))
    }
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

impl RowAddresses {
    #[inline]
    pub(crate) fn span(&self, row: u64) -> Result<RecordSpan, FormatError> {
        match self {
            Self::Variable(index) => {
                let span = index.span(row)?;
                Ok(RecordSpan {
                    offset: span.offset,
                    length: u64::from(span.length),
                    crc32: span.crc32,
                })
            }
            Self::Fixed { shape, rows, sums, data_length } => {
                if row >= *rows {
                    return Err(FormatError::RowOutOfRange { row, rows: *rows });
                }
                let offset = row.saturating_mul(shape.record_bytes);
                let length = shape.record_bytes;
                // Only a pack that is rescued can have rows behind its data segment.
                if offset.checked_add(length).is_none_or(|end| end > *data_length) {
                    let data_length = *data_length;
                    return Err(FormatError::Span { row, offset, length, data_length });
                }
                Ok(RecordSpan {
                    offset,
                    length,
                    crc32: sums.as_ref().and_then(|sums| sums.get(row)),
                })
            }
            Self::None => Err(FormatError::NoRecordIndex),
        }
    }
}

/// Whether this build takes a path for the URL of an object: one of a known scheme, where the
/// feature `object-store` is compiled in.
#[must_use]
pub fn is_url(path: impl AsRef<Path>) -> bool {
    #[cfg(feature = "object-store")]
    return path.as_ref().to_str().is_some_and(crate::object::ObjectLocation::is_url);
    #[cfg(not(feature = "object-store"))]
    {
        let _ = path;
        false
    }
}

/// Reads only a pack's header, from the process-wide cache where that has it: one `stat`, no open.
///
/// # Errors
///
/// As [`PackReader::open`].
pub fn read_header(path: impl AsRef<Path>) -> Result<Header> {
    let path = path.as_ref();
    if is_url(path) {
        return Ok(PackReader::open(path)?.header().clone());
    }
    let name = display_name(path);
    let load = || {
        let (file, size) = open_regular(path).map_err(|source| io_error(&name, "open", source))?;
        load_header(&name, &file, size)
    };
    let key = std::fs::metadata(path).ok().as_ref().and_then(FileKey::of);
    let Some(key) = key else {
        return load();
    };
    let text = header_cache::text_of(path, key, || load().map(|header| header.shared_text()))?;
    Header::from_text(text, key.size).map_err(|source| ReadError::Format { path: name, source })
}

/// The header of an open file; its text may come from the cache.
fn open_header(
    path: &Path,
    name: &Arc<str>,
    file: &File,
    size: u64,
    use_cache: bool,
) -> Result<Header> {
    let key = if use_cache { file.metadata().ok().as_ref().and_then(FileKey::of) } else { None };
    let Some(key) = key.filter(|key| key.size == size) else {
        return load_header(name, file, size);
    };
    let text = header_cache::text_of(path, key, || {
        load_header(name, file, size).map(|header| header.shared_text())
    })?;
    Header::from_text(text, size)
        .map_err(|source| ReadError::Format { path: Arc::clone(name), source })
}

fn load_header(name: &Arc<str>, file: &File, size: u64) -> Result<Header> {
    let block =
        read_header_block(size, |offset, buffer| crate::source::read_file(file, offset, buffer))
            .map_err(|source| io_error(name, "read the header", source))?;
    Header::parse(&block, size)
        .map_err(|source| ReadError::Format { path: Arc::clone(name), source })
}

/// A header as far as it can be interpreted, and what is wrong with it.
fn load_damaged_header(
    name: &Arc<str>,
    size: u64,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Result<(Header, Vec<FormatError>)> {
    let block = read_header_block(size, read)
        .map_err(|source| io_error(name, "read the header", source))?;
    iac_format::header_text(&block, size)
        .and_then(|text| Header::from_damaged_text(text, size))
        .map_err(|source| ReadError::Format { path: Arc::clone(name), source })
}

/// Reads the part of the fixed header that holds something: most have a few hundred bytes.
fn read_header_block(
    size: u64,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    const FIRST_READ: u64 = 4096;
    let whole = size.min(HEADER_BYTES);
    let first = whole.min(FIRST_READ);
    let mut block = vec![0; usize::try_from(first).unwrap_or(usize::MAX)];
    read(0, &mut block)?;
    // The rest is only needed when it holds text; what is wrong is said by the parser.
    let needs_rest = block
        .get(8..12)
        .and_then(|word| word.first_chunk::<4>())
        .is_some_and(|word| u64::from(u32::from_le_bytes(*word)).saturating_add(16) > first);
    if needs_rest && whole > first {
        block.resize(usize::try_from(whole).unwrap_or(usize::MAX), 0);
        let rest =
            block.get_mut(usize::try_from(first).unwrap_or(usize::MAX)..).unwrap_or_default();
        read(first, rest)?;
    }
    Ok(block)
}

fn display_name(path: &Path) -> Arc<str> {
    Arc::from(path.to_string_lossy().as_ref())
}

fn io_error(path: &Arc<str>, action: &'static str, source: io::Error) -> ReadError {
    ReadError::Io { path: Arc::clone(path), action, source }
}
