//! Variable packs, payload by payload.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use iac_format::RowSpan;
use serde_json::{Map, Value};

use crate::columns::{ComputedColumns, IndexPlan};
use crate::data::Appender;
use crate::draft::{DataSum, Draft, WriteSummary, shortest_header_text};
use crate::error::{Result, WriteError};
use crate::options::WriteOptions;
use crate::platform;
use crate::publish::{Target, Temporary};
use crate::table::{Table, check_fields};

/// Where a pushed payload went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushedRow {
    /// Row of the index table.
    pub row: u64,
    /// Place in the data segment, and checksum.
    pub span: RowSpan,
}

/// Writes a variable pack payload by payload.
///
/// [`PackWriter::with_index`] takes the whole index table beforehand and puts every payload at
/// its final place at once. [`PackWriter::create`] learns the rows while it goes: payloads are
/// collected in a nameless file in the destination's folder and joined to the tables inside the
/// kernel at the end, so the disk must hold them twice for a moment (not where the file system
/// shares extents and the data segment is aligned to its blocks, usually 4096 bytes).
///
/// Nothing appears under the destination's name before [`finish`](PackWriter::finish) succeeds. A
/// writer that is dropped leaves nothing behind.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.iac");
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray};
/// use iac_writer::{PackWriter, Table, WriteOptions};
///
/// let ids: ArrayRef = Arc::new(StringArray::from(vec!["first"]));
/// let rows = RecordBatch::try_from_iter([("item_id", ids)])?;
/// let header = serde_json::Map::new();
/// let mut writer =
///     PackWriter::create(&path, header, &Table::empty(), rows.schema(), &WriteOptions::new())?;
/// writer.push(b"payload")?;
/// writer.push_rows(&rows)?;
/// writer.header_mut().insert("payload_type".into(), "notes".into());
/// let summary = writer.finish()?;
/// assert_eq!((summary.rows, summary.data_bytes), (1, 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PackWriter {
    place: Place,
    header: Map<String, Value>,
    options: WriteOptions,
    appender: Appender,
    columns: ComputedColumns,
    /// After a failed write nobody knows what the file holds.
    failed: bool,
}

/// Where payloads go.
#[derive(Debug)]
enum Place {
    /// To their final place.
    Final(Box<Draft>),
    /// To a file of their own, until the rows are known.
    Spool(Box<Spool>),
}

#[derive(Debug)]
struct Spool {
    target: Target,
    file: Temporary,
    slides: Table,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl PackWriter {
    /// Begins a pack whose rows come while it is written.
    ///
    /// `index_schema` describes the caller's columns of the index table, which come through
    /// [`push_rows`](Self::push_rows) or [`finish_with_index`](Self::finish_with_index).
    ///
    /// # Errors
    ///
    /// [`WriteError::Exists`] when the destination exists and may not be replaced;
    /// [`WriteError::Argument`], [`WriteError::Column`] and [`WriteError::Format`] for what cannot
    /// be written; [`WriteError::Io`].
    pub fn create(
        path: impl AsRef<Path>,
        header: Map<String, Value>,
        slides: &Table,
        index_schema: SchemaRef,
        options: &WriteOptions,
    ) -> Result<Self> {
        let mut target = Target::new(path.as_ref(), options)?;
        // What can be refused is refused before any payload.
        let no_rows = Table::new(index_schema.clone(), Vec::new())?;
        IndexPlan::variable(target.shown(), &no_rows)?;
        shortest_header_text(&header, options.checksums)
            .map_err(WriteError::format(target.shown()))?;
        target.prepare()?;
        let mut file = target.create_temporary()?;
        file.make_unnamed();
        let spool = Spool {
            target,
            file,
            slides: slides.clone(),
            schema: index_schema,
            batches: Vec::new(),
        };
        Ok(Self {
            place: Place::Spool(Box::new(spool)),
            header,
            options: *options,
            appender: Appender::new(0),
            columns: ComputedColumns::default(),
            failed: false,
        })
    }

    /// Begins a pack whose index table is known: one payload must come for each of its rows.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn with_index(
        path: impl AsRef<Path>,
        header: Map<String, Value>,
        slides: &Table,
        index: &Table,
        options: &WriteOptions,
    ) -> Result<Self> {
        Self::with_index_and_data(path.as_ref(), header, slides, index, options, 0)
    }

    /// The same for a data segment that will have at least `data` bytes.
    pub(crate) fn with_index_and_data(
        path: &Path,
        header: Map<String, Value>,
        slides: &Table,
        index: &Table,
        options: &WriteOptions,
        data: u64,
    ) -> Result<Self> {
        let mut target = Target::new(path, options)?;
        let plan = IndexPlan::variable(path, index)?;
        let columns = ComputedColumns::with_capacity(path, plan.rows())?;
        target.prepare()?;
        let sum = DataSum::Records;
        let draft = Draft::begin(target, &header, slides, plan, options, data, sum)?;
        Ok(Self {
            appender: Appender::new(draft.data_offset()),
            place: Place::Final(Box::new(draft)),
            header,
            options: *options,

            columns,
            failed: false,
        })
    }

    /// The destination as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Final(draft) => draft.path(),
            Place::Spool(spool) => spool.target.shown(),
        }
    }

    /// Payloads pushed so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        u64::try_from(self.columns.lengths.len()).unwrap_or(u64::MAX)
    }

    /// Bytes pushed so far.
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.appender.accepted()
    }

    /// The caller's header members, which may be changed until the pack is finished.
    pub const fn header_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.header
    }

    /// Replaces the slide table, for writers that learn it while they go.
    ///
    /// # Errors
    ///
    /// [`WriteError::Argument`] in a writer made [with its index](Self::with_index), whose slide
    /// table is written already.
    pub fn set_slides(&mut self, slides: &Table) -> Result<()> {
        match &mut self.place {
            Place::Spool(spool) => {
                spool.slides = slides.clone();
                Ok(())
            }
            Place::Final(draft) => Err(WriteError::argument(
                draft.path(),
                "the slide table of a writer that was given its index is written already",
            )),
        }
    }

    /// Appends the payload of the next row.
    ///
    /// # Errors
    ///
    /// [`WriteError::RecordTooLarge`] for more than 4,294,967,295 bytes and
    /// [`WriteError::RowCount`] for a payload without a row: the writer stays usable.
    /// [`WriteError::Io`] when the payload cannot be written: the pack cannot be finished then.
    pub fn push(&mut self, payload: impl AsRef<[u8]>) -> Result<PushedRow> {
        let payload = payload.as_ref();
        self.check_usable()?;
        let row = self.rows();
        let length = record_length(self.path(), row, payload.len())?;
        if let Place::Final(draft) = &self.place
            && row >= draft.rows()
        {
            return Err(WriteError::RowCount {
                path: self.path().to_owned(),
                rows: draft.rows(),
                payloads: row.saturating_add(1),
                more: true,
            });
        }
        let offset = self.appender.accepted();
        let file = match &self.place {
            Place::Final(draft) => draft.file(),
            Place::Spool(spool) => spool.file.file(),
        };
        let crc32 = match self.appender.append_summed(file, payload) {
            Ok(crc32) => crc32,
            Err(error) => {
                self.failed = true;
                return Err(WriteError::io(self.path(), "cannot write a payload")(error));
            }
        };
        self.columns.offsets.push(offset);
        self.columns.lengths.push(length);
        self.columns.crc32s.push(crc32);
        Ok(PushedRow { row, span: RowSpan { offset, length, crc32: Some(crc32) } })
    }

    /// Appends bytes to the data segment that belong to no row, and says where they lie: schemas
    /// keep there what rows share. A writer that was not given its index puts them where they come
    /// in the order of payloads.
    ///
    /// No checksum of the container covers them; schemas bring their own.
    ///
    /// # Errors
    ///
    /// [`WriteError::Io`] when they cannot be written: the pack cannot be finished then.
    pub fn push_unindexed(&mut self, bytes: impl AsRef<[u8]>) -> Result<u64> {
        self.check_usable()?;
        let offset = self.appender.accepted();
        let file = match &self.place {
            Place::Final(draft) => draft.file(),
            Place::Spool(spool) => spool.file.file(),
        };
        if let Err(error) = self.appender.append(file, bytes.as_ref()) {
            self.failed = true;
            return Err(WriteError::io(self.path(), "cannot write data")(error));
        }
        Ok(offset)
    }

    /// Appends rows with the caller's columns of the index table; each call makes one record
    /// batch. Payloads and rows may come in any interleaving, as long as their numbers agree in
    /// the end.
    ///
    /// # Errors
    ///
    /// [`WriteError::Batch`] when the fields differ from those of the schema, and
    /// [`WriteError::Argument`] in a writer made [with its index](Self::with_index).
    pub fn push_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        match &mut self.place {
            Place::Spool(spool) => {
                check_fields(&spool.schema, rows, spool.batches.len())?;
                spool.batches.push(rows.clone());
                Ok(())
            }
            Place::Final(draft) => Err(WriteError::argument(
                draft.path(),
                "the writer was given its index and takes no further rows",
            )),
        }
    }

    /// Completes the pack and publishes it.
    ///
    /// # Errors
    ///
    /// [`WriteError::RowCount`] when payloads and rows differ in number, [`WriteError::Exists`]
    /// when somebody else has taken the destination's name meanwhile, [`WriteError::Format`] for a
    /// header that cannot be written, [`WriteError::Io`].
    pub fn finish(mut self) -> Result<WriteSummary> {
        self.check_usable()?;
        let path = self.path().to_owned();
        match self.place {
            Place::Final(draft) => {
                check_rows(&path, draft.rows(), &self.columns)?;
                self.appender
                    .flush(draft.file())
                    .map_err(WriteError::io(&path, "cannot write a payload"))?;
                let data = self.appender.accepted();
                draft.finish(&self.header, self.columns, data, DataSum::Records)
            }
            Place::Spool(spool) => {
                let index = Table::new(spool.schema.clone(), spool.batches.clone())?;
                spool.join(&self.header, &index, &self.options, &mut self.appender, self.columns)
            }
        }
    }

    /// Completes the pack with an index table that holds all rows, and publishes it.
    ///
    /// The fields of the table may differ from the schema given at the beginning.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish); [`WriteError::Argument`] after rows were pushed, and in a
    /// writer made [with its index](Self::with_index).
    pub fn finish_with_index(mut self, index: &Table) -> Result<WriteSummary> {
        self.check_usable()?;
        match self.place {
            Place::Spool(spool) if spool.batches.is_empty() => {
                spool.join(&self.header, index, &self.options, &mut self.appender, self.columns)
            }
            _ => Err(WriteError::argument(self.path(), "the writer has its rows already")),
        }
    }

    fn check_usable(&self) -> Result<()> {
        let own = match &self.place {
            Place::Final(draft) => draft.is_own(),
            Place::Spool(spool) => spool.file.is_own(),
        };
        if !own {
            return Err(WriteError::argument(
                self.path(),
                "the pack was begun by another process, of which this one is a fork",
            ));
        }
        if self.failed {
            return Err(WriteError::argument(
                self.path(),
                "an earlier payload could not be written, so the pack cannot be completed",
            ));
        }
        Ok(())
    }
}

impl Spool {
    /// Makes the pack from tables and collected payloads.
    fn join(
        self: Box<Self>,
        header: &Map<String, Value>,
        index: &Table,
        options: &WriteOptions,
        appender: &mut Appender,
        columns: ComputedColumns,
    ) -> Result<WriteSummary> {
        let path = self.target.shown().to_owned();
        let plan = IndexPlan::variable(&path, index)?;
        check_rows(&path, plan.rows(), &columns)?;
        let spooled = self.file.file();
        appender.flush(spooled).map_err(WriteError::io(&path, "cannot write a payload"))?;
        let data = appender.accepted();
        let sum = DataSum::Records;
        let draft = Draft::begin(self.target, header, &self.slides, plan, options, data, sum)?;
        let copied = platform::copy_range(spooled, 0, draft.file(), draft.data_offset(), data)
            .map_err(WriteError::io(&path, "cannot join tables and payloads"))?;
        if copied != data {
            return Err(WriteError::Io {
                path,
                action: "the collected payloads were cut",
                source: std::io::ErrorKind::UnexpectedEof.into(),
            });
        }
        // The payloads need not be on the disk twice any longer than this.
        drop(self.file);
        draft.finish(header, columns, data, sum)
    }
}

impl ComputedColumns {
    /// Makes room for the spans of so many rows, or says that there is none.
    fn with_capacity(path: &Path, rows: u64) -> Result<Self> {
        let too_many = || WriteError::TooManyRows { path: path.to_owned(), rows };
        let wanted = usize::try_from(rows).map_err(|_| too_many())?;
        let mut columns = Self::default();
        columns
            .offsets
            .try_reserve_exact(wanted)
            .and_then(|()| columns.lengths.try_reserve_exact(wanted))
            .and_then(|()| columns.crc32s.try_reserve_exact(wanted))
            .map_err(|_| too_many())?;
        Ok(columns)
    }
}

fn check_rows(path: &Path, rows: u64, columns: &ComputedColumns) -> Result<()> {
    let payloads = u64::try_from(columns.lengths.len()).unwrap_or(u64::MAX);
    if payloads == rows {
        return Ok(());
    }
    Err(WriteError::RowCount { path: path.to_owned(), rows, payloads, more: false })
}

/// A record's length as the index stores it.
pub(crate) fn record_length(path: &Path, row: u64, bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| WriteError::RecordTooLarge {
        path: path.to_owned(),
        row,
        length: u64::try_from(bytes).unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_format::ErrorKind;

    #[test]
    fn records_beyond_32_bits_are_refused() {
        let path = Path::new("a.iac");
        assert_eq!(record_length(path, 0, u32::MAX as usize).unwrap(), u32::MAX);
        let error = record_length(path, 7, u32::MAX as usize + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert_eq!(error.row(), Some(7));
        assert!(error.to_string().contains("4294967296"), "{error}");
    }

    #[test]
    fn more_rows_than_memory_can_hold_are_refused() {
        let error = ComputedColumns::with_capacity(Path::new("a.iac"), 1 << 61).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
