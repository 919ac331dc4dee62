//! How fast records are read, and how fast they are copied from memory on the same machine.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use iatrocache::ops::view::{TableQuery, TableView};
use iatrocache::ops::{NoProgress, raw};
use iatrocache::{ContiguousRecordBatch, ErrorKind, PackReader};

use super::cohort::Random;
use crate::failure::{Failure, Report, Result};
use crate::interrupt;

/// Records that are read in one call.
pub(super) const BATCH: usize = 256;
/// Time for which each way of reading is measured.
const AT_LEAST: Duration = Duration::from_millis(300);

/// Work that was done in some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// The ways of reading that are compared.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates {
    pub(super) files: Rate,
    pub(super) single: Rate,
    pub(super) batches: Rate,
    pub(super) contiguous: Rate,
    pub(super) views: Rate,
    pub(super) copy: Rate,
}

/// A pack and, in the order of its rows, the files that it was made of.
pub(super) struct Cohort {
    pack: PackReader,
    paths: Vec<PathBuf>,
    contents: Vec<Vec<u8>>,
}

impl Cohort {
    pub(super) fn load(pack: &PackReader, folder: &std::path::Path) -> Result<Self> {
        let mut query = TableQuery::default();
        query.columns = Some(vec![raw::PATH_COLUMN.to_owned()]);
        let view = TableView::new(pack, &query)?;
        let mut paths = Vec::new();
        view.for_each_row(&NoProgress, &mut |_, cells| {
            if let Some(path) = cells.get(1).and_then(serde_json::Value::as_str) {
                paths.push(folder.join(path));
            }
            Ok(())
        })?;
        let contents = paths.iter().map(read_file).collect::<Result<_>>()?;
        Ok(Self { pack: pack.clone(), paths, contents })
    }

    /// Reads every record in each way, in random order, and compares it with its file. Gives the
    /// number of records.
    pub(super) fn compare(&self) -> Result<u64> {
        let rows = self.random_rows();
        let mut batch = ContiguousRecordBatch::new();
        for rows in rows.chunks(BATCH) {
            interrupt::check()?;
            let owned = self.pack.read_rows(rows)?;
            let views = self.pack.views(rows)?;
            self.pack.read_contiguous_into(rows, &mut batch)?;
            for (place, row) in rows.iter().enumerate() {
                let ways = [
                    owned.get(place).map(AsRef::as_ref),
                    views.get(place).map(AsRef::as_ref),
                    batch.get(place),
                ];
                let expected = usize::try_from(*row).ok().and_then(|row| self.contents.get(row));
                let expected = expected.map(Vec::as_slice);
                if ways.iter().any(|way| *way != expected) {
                    let message = format!("row {row} differs from the file that it was made of");
                    return Err(Report::new(ErrorKind::Damaged, message).into());
                }
            }
        }
        Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
    }

    /// Measures each way of reading.
    pub(super) fn measure(&self) -> Result<Rates> {
        let rows = self.random_rows();
        let mut batch = ContiguousRecordBatch::new();
        let mut views = Vec::new();
        let mut copied = Vec::new();
        let places: Vec<usize> = rows.iter().filter_map(|row| usize::try_from(*row).ok()).collect();
        Ok(Rates {
            files: rate(|rate| {
                for path in places.iter().filter_map(|place| self.paths.get(*place)) {
                    rate.add(1, read_file(path)?.len());
                }
                Ok(())
            })?,
            single: rate(|rate| {
                for row in &rows {
                    rate.add(1, black_box(self.pack.read(*row)?).len());
                }
                Ok(())
            })?,
            batches: rate(|rate| {
                for rows in rows.chunks(BATCH) {
                    for record in black_box(self.pack.read_rows(rows)?) {
                        rate.add(1, record.len());
                    }
                }
                Ok(())
            })?,
            contiguous: rate(|rate| {
                for rows in rows.chunks(BATCH) {
                    self.pack.read_contiguous_into(rows, &mut batch)?;
                    rate.add(rows.len(), black_box(&batch).buffer().len());
                }
                Ok(())
            })?,
            views: rate(|rate| {
                for rows in rows.chunks(BATCH) {
                    self.pack.views_into(rows, &mut views)?;
                    rate.add(black_box(&views).len(), 0);
                }
                Ok(())
            })?,
            copy: rate(|rate| {
                for places in places.chunks(BATCH) {
                    copied.clear();
                    for content in places.iter().filter_map(|place| self.contents.get(*place)) {
                        copied.extend_from_slice(content);
                    }
                    rate.add(places.len(), black_box(&copied).len());
                }
                Ok(())
            })?,
        })
    }

    fn random_rows(&self) -> Vec<u64> {
        let count = u64::try_from(self.paths.len()).unwrap_or(u64::MAX);
        let mut rows: Vec<u64> = (0..count).collect();
        Random(1).shuffle(&mut rows);
        rows
    }
}

impl Rate {
    fn add(&mut self, records: usize, bytes: usize) {
        let wide = |number| u64::try_from(number).unwrap_or(u64::MAX);
        self.records = self.records.saturating_add(wide(records));
        self.bytes = self.bytes.saturating_add(wide(bytes));
    }
}

/// Repeats work until it has taken long enough to be measured.
fn rate(mut work: impl FnMut(&mut Rate) -> Result<()>) -> Result<Rate> {
    let mut warm = Rate::default();
    work(&mut warm)?;
    let mut rate = Rate::default();
    let start = Instant::now();
    while rate.time < AT_LEAST {
        interrupt::check()?;
        work(&mut rate)?;
        rate.time = start.elapsed();
    }
    Ok(rate)
}

fn read_file(path: &PathBuf) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Failure::io(path, "cannot read the file", &error))
}
