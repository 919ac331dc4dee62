//! Checking a whole pack: every fault is listed, not only the first.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use iac_format::{Crc32State, ErrorKind, TableKind};

use crate::content::RowAddresses;
use crate::error::{ReadError, Result};
use crate::pack::{PackKind, PackReader};

/// Bytes that are read at once where a long stretch is summed up.
const STRETCH: u64 = 4 << 20;
/// Most parts that a table is decoded in, to keep only one of them in memory. Each part costs a
/// walk over all columns, so one for each column would take the square of their number.
const DECODINGS: usize = 64;
/// Rows that a thread checks before it looks whether there are too many faults.
const ROWS_AT_ONCE: u64 = 1024;

/// What [`PackReader::verify`] checks.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    sample: Option<u64>,
    max_faults: usize,
    workers: Option<NonZeroUsize>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { sample: None, max_faults: 10_000, workers: None }
    }
}

impl VerifyOptions {
    /// Checks the checksums of only so many records, spread evenly over the file. Default
    /// (`None`): all. Spans are always checked for all rows.
    #[must_use]
    pub fn sample(mut self, records: impl Into<Option<u64>>) -> Self {
        self.sample = records.into();
        self
    }

    /// Most faults that are listed; the others are only counted. Default: 10,000.
    #[must_use]
    pub fn max_faults(mut self, faults: usize) -> Self {
        self.max_faults = faults;
        self
    }

    /// Most threads. Default (`None`): as the pack was opened.
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        self.workers = workers.into();
        self
    }
}

/// One thing that is wrong with a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// What was checked: `layout`, `table`, `span`, `checksum`, `read`.
    pub check: &'static str,
    /// The kind of the error.
    pub kind: ErrorKind,
    /// Row of the index table, where one row is at fault.
    pub row: Option<u64>,
    /// Header member or column, where one is at fault.
    pub field: Option<String>,
    /// What is wrong, without the pack's name.
    pub message: String,
}

impl Fault {
    /// The fault that an error of this crate stands for.
    #[must_use]
    pub fn from_error(check: &'static str, error: &ReadError) -> Self {
        Self {
            check,
            kind: error.kind(),
            row: error.row(),
            field: error.field().map(str::to_owned),
            message: error.reason(),
        }
    }
}

/// What [`PackReader::verify`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The faults, those of the whole pack first, then by row.
    pub faults: Vec<Fault>,
    /// All faults, the listed ones included.
    pub total_faults: u64,
    /// What is no fault, but good to know: what could not be checked, and why.
    pub notes: Vec<String>,
    /// Rows of the index table.
    pub rows: u64,
    /// Rows whose bytes were compared with a checksum.
    pub rows_compared: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.total_faults == 0
    }
}

impl PackReader {
    /// Checks everything that the container promises: the sums of header and tables, row counts,
    /// every span, every record's checksum, and that columns can be decoded.
    ///
    /// What is wrong is in the report, also when the system fails on the way; nothing stops at the
    /// first fault.
    #[must_use]
    pub fn verify(&self, options: &VerifyOptions) -> VerifyReport {
        let pack = match options.workers {
            None => self.with_crc(true),
            some => self.with_options(&self.options.as_ref().clone().check_crc(true).workers(some)),
        };
        let mut list = Faults::new(options.max_faults);
        let mut report = VerifyReport::default();
        if self.trailing_bytes() > 0 {
            report.notes.push(format!(
                "{} bytes behind the data segment belong to no record",
                self.trailing_bytes()
            ));
        }
        if self.header().checksums().is_none() {
            report.notes.push(
                "the pack keeps no checksums of its header and tables, so these were not compared"
                    .to_owned(),
            );
        }
        pack.verify_tables(&mut list);
        if let Ok(table) = pack.index_table() {
            report.rows = table.num_rows();
        }
        pack.verify_data(options, &mut list, &mut report);
        report.total_faults = list.total;
        report.faults = list.listed;
        report
    }

    /// Checks that every row's span lies inside the data segment.
    ///
    /// # Errors
    ///
    /// The [`ReadError::Format`] of the first row that does not, or of the length of the data
    /// segment in a fixed pack.
    pub fn check_spans(&self) -> Result<()> {
        let rows = self.num_records()?;
        match self.row_addresses()? {
            RowAddresses::Variable(_) => (0..rows).try_for_each(|row| self.span(row).map(|_| ())),
            // One comparison serves for all rows, which may be more than anybody could count.
            RowAddresses::Fixed { shape, rows, data_length, .. } => shape
                .check_data_length(*data_length, *rows)
                .map_err(|source| self.inner.content.format_error(source)),
            RowAddresses::None => Ok(()),
        }
    }

    fn verify_tables(&self, list: &mut Faults) {
        let layout = self.layout();
        for (kind, segment) in
            [(TableKind::Slide, layout.slide_table), (TableKind::Index, layout.index_table)]
        {
            if let Some(sums) = self.header().checksums() {
                let (what, stored) = match kind {
                    TableKind::Slide => ("slide table", sums.slide_table),
                    TableKind::Index => ("index table", sums.index_table),
                };
                match self.sum(segment.offset, segment.length) {
                    Ok(computed) if computed != stored => {
                        let source = iac_format::FormatError::Checksum { what, stored, computed };
                        list.add(Fault::from_error(
                            "checksum",
                            &self.inner.content.format_error(source),
                        ));
                        // Loading would only say the same again.
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) => list.add(Fault::from_error("read", &error)),
                }
            }
            let table = match kind {
                TableKind::Slide => self.slide_table(),
                TableKind::Index => self.index_table(),
            };
            match table.and_then(|table| self.decode_all(table)) {
                Ok(()) => {}
                Err(error) => list.add(Fault::from_error("table", &error)),
            }
        }
    }

    /// Decodes every column once, without keeping them.
    fn decode_all(&self, table: &crate::table::Table) -> Result<()> {
        let content = &self.inner.content;
        content.guarded(|| {
            let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
            for group in columns.chunks(columns.len().div_ceil(DECODINGS).max(1)) {
                table
                    .stream()
                    .decode_columns(group)
                    .map_err(|source| content.format_error(source))?;
            }
            Ok(())
        })
    }

    fn verify_data(&self, options: &VerifyOptions, list: &mut Faults, report: &mut VerifyReport) {
        let addresses = match self.row_addresses() {
            Ok(addresses) => addresses,
            Err(error) => {
                // A damaged index table is listed already.
                if self.index_table().is_ok() {
                    list.add(Fault::from_error("table", &error));
                }
                return;
            }
        };
        let has_sums = match addresses {
            RowAddresses::Variable(index) => match index.crc32_state() {
                Crc32State::Present => true,
                Crc32State::Absent => {
                    report.notes.push(
                        "the index has no `crc32` column, so records were not compared".to_owned(),
                    );
                    false
                }
                Crc32State::Unusable(reason) => {
                    report.notes.push(format!(
                        "the index column `crc32` counts as absent ({reason}), so records were not compared"
                    ));
                    false
                }
            },
            RowAddresses::Fixed { sums, .. } => {
                if sums.is_none() && self.header().checksums().is_none_or(|s| s.data.is_none()) {
                    report
                        .notes
                        .push("fixed rows have no checksums, so they were not compared".to_owned());
                }
                sums.is_some()
            }
            RowAddresses::None => false,
        };
        if let Some(stored) = self.header().checksums().and_then(|sums| sums.data) {
            self.verify_data_sum(stored, list);
        } else if matches!(self.kind(), Ok(PackKind::Segment)) {
            report
                .notes
                .push("the data segment has no checksum, so it was not compared".to_owned());
        }
        if let RowAddresses::Fixed { shape, rows, data_length, .. } = addresses
            && let Err(source) = shape.check_data_length(*data_length, *rows)
        {
            list.add(Fault::from_error("layout", &self.inner.content.format_error(source)));
        }
        // That says all about the spans of fixed rows, which may be more than anybody could count:
        // only their sums are left to compare.
        if has_sums || matches!(addresses, RowAddresses::Variable(_)) {
            self.verify_rows(options, has_sums, list, report);
        }
    }

    fn verify_data_sum(&self, stored: u32, list: &mut Faults) {
        let data = self.layout().data;
        match self.sum(data.offset, data.length) {
            Ok(computed) if computed != stored => list.add(Fault {
                check: "checksum",
                kind: ErrorKind::Checksum,
                row: None,
                field: None,
                message: format!(
                    "data segment: checksum mismatch (stored {stored:#010x}, computed {computed:#010x})"
                ),
            }),
            Ok(_) => {}
            Err(error) => list.add(Fault::from_error("read", &error)),
        }
    }

    /// Checks the span of every row, and the checksums of all or of a sample.
    fn verify_rows(
        &self,
        options: &VerifyOptions,
        has_sums: bool,
        list: &mut Faults,
        report: &mut VerifyReport,
    ) {
        let rows = report.rows;
        let wanted = if has_sums { options.sample.unwrap_or(rows).min(rows) } else { 0 };
        let next = AtomicU64::new(0);
        let compared = AtomicU64::new(0);
        let found = Mutex::new(Blocks::new(options.max_faults));
        let work = || {
            loop {
                let first = next.fetch_add(ROWS_AT_ONCE, Ordering::Relaxed);
                if first >= rows {
                    break;
                }
                let mut faults = Faults::new(options.max_faults);
                let behind = first.saturating_add(ROWS_AT_ONCE).min(rows);
                let sound =
                    self.sound_from_afar(first..behind, |row| is_sampled(row, rows, wanted));
                for row in first..behind {
                    let result = if is_sampled(row, rows, wanted) {
                        compared.fetch_add(1, Ordering::Relaxed);
                        if sound.contains(&row) { Ok(()) } else { self.compare(row) }
                    } else {
                        self.span(row).map(|_| ())
                    };
                    if let Err(error) = result {
                        let check = match error.kind() {
                            ErrorKind::Checksum => "checksum",
                            ErrorKind::Damaged => "span",
                            _ => "read",
                        };
                        let mut fault = Fault::from_error(check, &error);
                        fault.row = Some(row);
                        faults.add(fault);
                    }
                }
                if faults.total > 0 {
                    found.lock().unwrap_or_else(PoisonError::into_inner).add(first, faults);
                }
            }
        };
        let parts = self.options.workers.count();
        self.options.workers.scope(|scope| {
            for _ in 1..parts {
                scope.spawn(|_| work());
            }
            work();
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (_, faults) in found.blocks {
            list.append(faults);
        }
        list.total = list.total.saturating_add(found.dropped);
        report.rows_compared = compared.into_inner();
    }

    /// The rows that a source far away gives in large batches, and that are sound; the others are to
    /// be looked at one by one. Nothing for near sources, where one by one costs no more.
    fn sound_from_afar(&self, rows: Range<u64>, is_wanted: impl Fn(u64) -> bool) -> BTreeSet<u64> {
        let mut sound = BTreeSet::new();
        if !self.inner.content.source.prefers_batches() {
            return sound;
        }
        let mut first = rows.start;
        while first < rows.end {
            let most = rows.end.saturating_sub(first);
            let behind = self.rows_within(first, most, STRETCH.saturating_mul(4));
            let wanted: Vec<u64> = (first..behind).filter(|row| is_wanted(*row)).collect();
            if self.read_rows(&wanted).is_ok() {
                sound.extend(wanted);
            }
            first = behind.max(first.saturating_add(1));
        }
        sound
    }

    /// Compares one record with its checksum: where the source has memory without copying it, else
    /// piece by piece, as a record may have 4 GiB.
    fn compare(&self, row: u64) -> Result<()> {
        let span = self.span(row)?;
        if self.inner.content.source.memory().is_none() {
            let start = self.layout().data.offset.saturating_add(span.offset);
            let computed = self.sum(start, span.length)?;
            return span.crc32.map_or(Ok(()), |stored| self.compare_sums(row, stored, computed));
        }
        let Some(stored) = span.crc32 else {
            return Ok(());
        };
        let record = self.view(row)?;
        let content = &self.inner.content;
        let computed = content.guarded(|| Ok(crc32fast::hash(&record)))?;
        self.compare_sums(row, stored, computed)
    }

    /// CRC-32 of a stretch of the file, read piece by piece.
    fn sum(&self, offset: u64, length: u64) -> Result<u32> {
        let content = &self.inner.content;
        content.guarded(|| {
            let mut hasher = crc32fast::Hasher::new();
            let mut done = 0_u64;
            let mut buffer = Vec::new();
            while done < length {
                let bytes =
                    usize::try_from(length.saturating_sub(done).min(STRETCH)).unwrap_or(usize::MAX);
                buffer.resize(bytes, 0);
                content
                    .source
                    .read_into(offset.saturating_add(done), &mut buffer)
                    .map_err(|source| content.io_error("read", source))?;
                hasher.update(&buffer);
                done = done.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            }
            Ok(hasher.finalize())
        })
    }
}

/// Whether a row belongs to the `wanted` ones that are spread evenly over all `rows`: the first of
/// each of as many equal stretches.
fn is_sampled(row: u64, rows: u64, wanted: u64) -> bool {
    if wanted >= rows {
        return true;
    }
    let (row, rows, wanted) = (u128::from(row), u128::from(rows), u128::from(wanted));
    // floor((row + 1) * wanted / rows) counts the stretches that have begun before row + 1.
    let begun = |row: u128| {
        row.saturating_mul(wanted).saturating_add(rows.saturating_sub(1)).checked_div(rows)
    };
    begun(row.saturating_add(1)) != begun(row)
}

/// Faults with a bound on how many are kept.
struct Faults {
    listed: Vec<Fault>,
    total: u64,
    most: usize,
}

impl Faults {
    const fn new(most: usize) -> Self {
        Self { listed: Vec::new(), total: 0, most }
    }

    fn add(&mut self, fault: Fault) {
        self.total = self.total.saturating_add(1);
        if self.listed.len() < self.most {
            self.listed.push(fault);
        }
    }

    fn append(&mut self, other: Self) {
        let room = self.most.saturating_sub(self.listed.len());
        self.total = self.total.saturating_add(other.total);
        self.listed.extend(other.listed.into_iter().take(room));
    }
}

/// Faults of blocks of rows that threads find in any order. Of more than may be listed, those of
/// the first rows are kept, so that the report does not depend on the threads.
struct Blocks {
    blocks: BTreeMap<u64, Faults>,
    /// Faults of all blocks that are listed.
    listed: usize,
    /// Faults of blocks that are not kept.
    dropped: u64,
    most: usize,
}

impl Blocks {
    const fn new(most: usize) -> Self {
        Self { blocks: BTreeMap::new(), listed: 0, dropped: 0, most }
    }

    fn add(&mut self, first: u64, faults: Faults) {
        self.listed = self.listed.saturating_add(faults.listed.len());
        self.blocks.insert(first, faults);
        while let Some(last) = self.blocks.last_entry() {
            let left = self.listed.saturating_sub(last.get().listed.len());
            if left < self.most {
                break;
            }
            self.dropped = self.dropped.saturating_add(last.remove().total);
            self.listed = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_faults_those_of_the_first_rows_are_kept() {
        let fault = |row| Fault {
            check: "span",
            kind: ErrorKind::Damaged,
            row: Some(row),
            field: None,
            message: String::new(),
        };
        let mut blocks = Blocks::new(5);
        for first in [40, 0, 30, 10, 20] {
            let mut faults = Faults::new(5);
            (first..first + 3).for_each(|row| faults.add(fault(row)));
            blocks.add(first, faults);
            assert!(blocks.listed < 5 + 3);
        }
        let mut list = Faults::new(5);
        assert_eq!(blocks.dropped, 9);
        blocks.blocks.into_values().for_each(|faults| list.append(faults));
        let rows: Vec<_> = list.listed.iter().map(|fault| fault.row.unwrap()).collect();
        assert_eq!((rows, list.total), (vec![0, 1, 2, 10, 11], 6));
    }

    #[test]
    fn a_sample_has_the_size_asked_for() {
        for (rows, wanted) in [(10, 3), (7, 7), (1000, 1), (1000, 999), (5, 0), (1, 1), (3, 9)] {
            let sampled = (0..rows).filter(|row| is_sampled(*row, rows, wanted)).count() as u64;
            assert_eq!(sampled, wanted.min(rows), "{wanted} of {rows}");
        }
        let spread: Vec<u64> = (0..100).filter(|row| is_sampled(*row, 100, 4)).collect();
        assert_eq!(spread, [0, 25, 50, 75]);
    }
}
