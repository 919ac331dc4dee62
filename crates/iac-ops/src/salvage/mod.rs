//! Copies what is sound out of a damaged pack.
//!
//! | damage | what becomes of it |
//! |---|---|
//! | a record differs from its checksum, or its span lies outside the data segment | its row is dropped |
//! | the file was cut inside the data segment | rows that reach past the cut are dropped |
//! | one byte of the header was altered, in a pack with checksums | put right |
//! | the header or a table differs from its checksum | kept, as long as it can be read |
//! | a column of a table cannot be decoded | the column is dropped |
//! | a column stands for far more than its bytes, and rows are dropped | the column is dropped |
//! | memory or a limit is too small for a column | nothing is written: more memory may save all |
//! | the slide table cannot be read | the new pack's is empty |
//! | the index table cannot be read, or where records lie | nothing can be salvaged |
//! | a data segment without records differs from its checksum or was cut | nothing can be salvaged |

mod copy;
mod repair;
mod report;
mod tables;

use std::collections::HashSet;
use std::path::Path;

use arrow_schema::{ArrowError, FieldRef};
use iac_format::{CRC32_COLUMN, Crc32State, ErrorKind, FormatError, STORAGE_COLUMNS};
use iac_reader::{PackKind, PackReader, ReadError, ReadOptions, SourceKind};
use iac_writer::{Table, WriteError, WriteOptions, WriteSummary};

use crate::carry::{column, integers};
use crate::error::{OpsError, Result};
use crate::expansion::check_expansion;
use crate::progress::{Progress, Task, check_cancelled};
pub use report::{Action, SalvageLine, SalvageReport};
use tables::{LostColumn, SoundColumns};

/// The columns that tell which frame of which object a row is.
const OBJECT: &str = "instance_idx";
const FRAME: &str = "frame_idx";

/// Lines that a report keeps unless told otherwise.
const MAX_LINES: usize = 10_000;

/// How a pack is salvaged.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SalvageOptions {
    /// How the new pack is written.
    pub write: WriteOptions,
    /// Most lines of the report; the faults beyond are only counted. Default 10,000.
    pub max_lines: usize,
    /// Also write far more than the pack holds, where records overlap; default `false`.
    pub allow_expansion: bool,
}

impl Default for SalvageOptions {
    fn default() -> Self {
        Self { write: WriteOptions::default(), max_lines: MAX_LINES, allow_expansion: false }
    }
}

impl SalvageOptions {
    /// Sets whether far more may be written than the pack holds.
    #[must_use]
    pub const fn allow_expansion(mut self, allow: bool) -> Self {
        self.allow_expansion = allow;
        self
    }
}

/// Copies every sound record and its row into a new pack.
///
/// Stored bytes are copied as they are, so no codec is needed. The slide table, the header's
/// members and the order of the rows are kept. Progress counts rows, or bytes where there are none.
///
/// # Errors
///
/// [`OpsError::BeyondSalvage`] when nothing can be saved (see the module's table),
/// [`OpsError::Read`] when the file cannot be opened, is no pack, or its header cannot be read, and
/// when memory or a limit is too small for it, [`OpsError::Expansion`] when records overlap so much
/// that far more would be written than the pack holds, [`OpsError::Write`], and [`OpsError::Cancelled`].
pub fn salvage(
    path: &Path,
    out: &Path,
    options: &SalvageOptions,
    progress: &dyn Progress,
) -> Result<SalvageReport> {
    // Positional reads give errors where a failing disk does; a mapping would give signals.
    let read = ReadOptions::default()
        .source(SourceKind::Positional)
        .use_header_cache(false)
        .object_cache(crate::check::OBJECT_CACHE)
        .rescue(true);
    let (pack, repair) = open(path, &read)?;
    let mut work = Salvage {
        pack: &pack,
        out,
        options,
        progress,
        lines: Vec::new(),
        faults: 0,
        notes: Vec::new(),
        objects: None,
    };
    if let Some(message) = repair {
        work.push("checksum", None, None, ErrorKind::Checksum, Action::Kept, || message);
    }
    work.run()
}

/// Opens a pack as far as it can be opened; with what was wrong with a header that was repaired.
fn open(path: &Path, read: &ReadOptions) -> Result<(PackReader, Option<String>)> {
    let opened = PackReader::open_with(path, read);
    let is_sound = match &opened {
        // A cut data segment says nothing about the header.
        Ok(pack) => pack.damage().iter().all(|error| error.field() == Some("data_length")),
        Err(error) => error.kind() == ErrorKind::Io,
    };
    if !is_sound && let Some((pack, what)) = repair::repaired(path, read) {
        return Ok((pack, Some(what)));
    }
    Ok((opened?, None))
}

struct Salvage<'a> {
    pack: &'a PackReader,
    out: &'a Path,
    options: &'a SalvageOptions,
    progress: &'a dyn Progress,
    lines: Vec<SalvageLine>,
    faults: u64,
    notes: Vec<String>,
    /// Objects that are kept, where some of those with frames are not.
    objects: Option<u64>,
}

impl Salvage<'_> {
    fn run(mut self) -> Result<SalvageReport> {
        // The writer says so too, but only after everything has been read.
        if !self.options.write.overwrite && self.out.exists() {
            return Err(OpsError::Write(WriteError::Exists { path: self.out.to_owned() }));
        }
        for error in self.pack.damage() {
            let check = if error.kind() == ErrorKind::Checksum { "checksum" } else { "layout" };
            self.add(check, None, error, Action::Kept);
        }
        let slides = self.slides()?;
        let index = self.pack.index_table().map_err(|error| self.beyond(error))?;
        for error in index.damage() {
            let check = if error.kind() == ErrorKind::Checksum { "checksum" } else { "table" };
            self.add(check, None, error, Action::Kept);
        }
        // Says what is wrong with the columns that tell where records lie.
        self.pack.record_index().map_err(|error| self.beyond(error))?;
        let kind = self.pack.kind().map_err(|error| self.beyond(error))?;
        let (columns, lost) = self.index_columns(index, kind)?;
        self.add_lost(lost);
        let rows = index.num_rows();
        if kind == PackKind::Segment {
            let table = self.index_of(&columns, None)?;
            let written = self.copy_segment(&slides, &table)?;
            return Ok(self.report(rows, rows, written));
        }
        self.note_missing_sums(kind)?;
        let has_bytes = self
            .pack
            .header()
            .fixed_shape()
            .ok()
            .flatten()
            .is_none_or(|shape| shape.record_bytes > 0);
        if !self.options.allow_expansion {
            check_expansion(self.pack, 0..rows, self.progress)?;
        }
        let sound = if kind == PackKind::Variable || has_bytes {
            let sound = self.sound_rows(rows)?;
            Some(self.whole_objects(index, sound, rows)?)
        } else {
            // Rows of no bytes cannot be damaged, and there may be more than could be counted.
            None
        };
        let table = self.index_of(&columns, sound.as_deref())?;
        let kept = table.num_rows();
        let written = match kind {
            PackKind::Fixed => self.copy_fixed(&slides, &table, sound.as_deref())?,
            _ => self.copy_records(&slides, &table, sound.as_deref().unwrap_or_default())?,
        };
        Ok(self.report(rows, kept, written))
    }

    fn report(mut self, rows: u64, kept: u64, written: WriteSummary) -> SalvageReport {
        let listed = u64::try_from(self.lines.len()).unwrap_or(u64::MAX);
        let hidden = self.faults.saturating_sub(listed);
        if hidden > 0 {
            self.notes.push(format!("{hidden} more faults are not listed"));
        }
        SalvageReport {
            faults: self.faults,
            lines: self.lines,
            rows,
            kept,
            dropped: rows.saturating_sub(kept),
            notes: self.notes,
            written,
        }
    }

    fn add(
        &mut self,
        check: &'static str,
        field: Option<String>,
        error: &FormatError,
        action: Action,
    ) {
        let field = field.or_else(|| error.field().map(str::to_owned));
        self.push(check, error.row(), field, error.kind(), action, || error.to_string());
    }

    fn add_read(&mut self, check: &'static str, row: Option<u64>, error: &ReadError) {
        let field = error.field().map(str::to_owned);
        let row = row.or_else(|| error.row());
        self.push(check, row, field, error.kind(), Action::Dropped, || error.reason());
    }

    fn add_lost(&mut self, columns: Vec<LostColumn>) {
        for LostColumn { name, message, kind } in columns {
            self.push("table", None, Some(name), kind, Action::Dropped, || message);
        }
    }

    /// Every row of a large pack may be bad, so lines have a limit; the count has none.
    fn push(
        &mut self,
        check: &'static str,
        row: Option<u64>,
        field: Option<String>,
        kind: ErrorKind,
        action: Action,
        message: impl FnOnce() -> String,
    ) {
        self.faults = self.faults.saturating_add(1);
        if self.lines.len() < self.options.max_lines {
            let path = self.pack.path().to_owned();
            let message = message();
            self.lines.push(SalvageLine { path, check, row, field, message, kind, action });
        }
    }

    fn beyond(&self, error: ReadError) -> OpsError {
        match error.kind() {
            // Another machine, or another limit, might save all of it.
            ErrorKind::Limit => OpsError::Read(error),
            _ => self.beyond_reason(error.reason()),
        }
    }

    fn beyond_reason(&self, reason: String) -> OpsError {
        OpsError::BeyondSalvage { path: self.pack.path().to_owned(), reason }
    }

    fn not_a_table(&self) -> impl Fn(ArrowError) -> OpsError {
        let path = self.pack.path().to_owned();
        move |error| OpsError::BeyondSalvage { path: path.clone(), reason: error.to_string() }
    }

    /// The slide table, as far as it can be read.
    fn slides(&mut self) -> Result<Table> {
        let table = match self.pack.slide_table() {
            Ok(table) => table,
            Err(error) if error.kind() == ErrorKind::Limit => return Err(error.into()),
            Err(error) => {
                self.add_read("table", None, &error);
                return Ok(Table::empty());
            }
        };
        for error in table.damage() {
            let check = if error.kind() == ErrorKind::Checksum { "checksum" } else { "table" };
            self.add(check, None, error, Action::Kept);
        }
        let (columns, lost) =
            SoundColumns::of(table, self.pack.path(), &|_, _| true, self.progress)?;
        self.add_lost(lost);
        self.index_of(&columns, None)
    }

    /// The columns of the index that the new one takes over. The writer computes the storage
    /// columns anew, in the place of the first ones of their names.
    fn index_columns(
        &self,
        index: &iac_reader::Table,
        kind: PackKind,
    ) -> Result<(SoundColumns, Vec<LostColumn>)> {
        let fields = index.schema().fields();
        let row_sums = self.pack.header().checksums().is_some_and(|sums| sums.rows);
        let wanted = |position: usize, field: &FieldRef| match kind {
            PackKind::Variable if STORAGE_COLUMNS.contains(&field.name().as_str()) => {
                fields.iter().position(|other| other.name() == field.name()) == Some(position)
            }
            PackKind::Fixed if field.name() == CRC32_COLUMN => !row_sums,
            _ => true,
        };
        SoundColumns::of(index, self.pack.path(), &wanted, self.progress)
    }

    fn index_of(&mut self, columns: &SoundColumns, rows: Option<&[u64]>) -> Result<Table> {
        let (table, lost) = columns.to_table(rows).map_err(self.not_a_table())?;
        self.add_lost(lost);
        Ok(table)
    }

    fn note_missing_sums(&mut self, kind: PackKind) -> Result<()> {
        let sums = match (kind, self.pack.record_index()?) {
            (PackKind::Variable, Some(index)) => *index.crc32_state() == Crc32State::Present,
            _ => self.pack.header().checksums().is_some_and(|sums| sums.rows),
        };
        if !sums {
            self.notes.push(
                "the pack keeps no checksums of its records, so they were copied unchecked"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The rows whose records are sound, in order; the others are reported.
    fn sound_rows(&mut self, rows: u64) -> Result<Vec<u64>> {
        let pack = self.pack;
        let progress = self.progress;
        let task = Task::begin(progress, "checking", Some(rows));
        let mut sound = Vec::new();
        for (row, record) in (0_u64..).zip(pack.iter_payloads().map_err(|e| self.beyond(e))?) {
            check_cancelled(progress)?;
            match record {
                Ok(_) => sound.push(row),
                Err(error) if error.kind() == ErrorKind::Limit => return Err(error.into()),
                Err(error) => {
                    let check = match error.kind() {
                        ErrorKind::Checksum => "checksum",
                        ErrorKind::Damaged => "span",
                        _ => "read",
                    };
                    self.add_read(check, Some(row), &error);
                }
            }
            task.advance(1);
        }
        Ok(sound)
    }

    /// The rows of objects of which no frame is lost: the frames of an object count on each other.
    fn whole_objects(
        &mut self,
        index: &iac_reader::Table,
        sound: Vec<u64>,
        rows: u64,
    ) -> Result<Vec<u64>> {
        let numbers = |name| -> Result<Option<Vec<Option<i128>>>> {
            let Some(arrays) = column(index, name)? else { return Ok(None) };
            let parts: Option<Vec<_>> = arrays.iter().map(integers).collect();
            Ok(parts.map(|parts| parts.concat()))
        };
        if u64::try_from(sound.len()).ok() == Some(rows) {
            return Ok(sound);
        }
        let (Some(objects), Some(_)) = (numbers(OBJECT)?, numbers(FRAME)?) else {
            return Ok(sound);
        };
        let object = |row: &u64| {
            usize::try_from(*row).ok().and_then(|row| objects.get(row).copied().flatten())
        };
        let is_sound: HashSet<u64> = sound.iter().copied().collect();
        let lost: HashSet<Option<i128>> =
            (0..rows).filter(|row| !is_sound.contains(row)).map(|row| object(&row)).collect();
        let (kept, left): (Vec<u64>, Vec<u64>) =
            sound.into_iter().partition(|row| !lost.contains(&object(row)));
        for row in left {
            let field = Some(OBJECT.to_owned());
            self.push("read", Some(row), field, ErrorKind::Damaged, Action::Dropped, || {
                format!("row {row} is a frame of an object of which another frame is lost")
            });
        }
        let objects: HashSet<Option<i128>> = kept.iter().map(object).collect();
        self.objects = u64::try_from(objects.len()).ok();
        Ok(kept)
    }
}
