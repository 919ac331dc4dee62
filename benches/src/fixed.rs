//! Reading batches of random rows from a fixed pack.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use bytes::Bytes;
use iac_reader::{FixedRecordPack, ReadOptions};
use serde_json::json;

use crate::Result;
use crate::clock::{Sample, measure};
use crate::peer::{Peer, Program};
use crate::report::{Basis, Goal, Line, Section, Series};
use crate::sample::{self, BATCH_ROWS};

/// What is measured, and what should be reached.
#[derive(Debug, Clone, Copy)]
pub struct Fixed {
    /// Number of rows.
    pub rows: u64,
    /// `float16` elements of a row.
    pub dim: u64,
    /// Batches per round.
    pub batches: usize,
    /// Repetitions.
    pub rounds: usize,
    /// The reference's processor time over ours.
    pub times: f64,
}

impl Fixed {
    /// Makes the pack in `folder`, measures, and removes it.
    ///
    /// # Errors
    ///
    /// What the reader, the writer or the system reports, or when the two sides read different
    /// bytes.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let (path, rows_path) = (folder.join("fixed.iac"), folder.join("fixed.rows"));
        sample::write_halves(&path, self.rows, self.dim, 9)?;
        sample::warm(&path)?;
        let batches = sample::random_batches(self.rows, self.batches * self.rounds, 10);
        sample::save_batches(&rows_path, &batches)?;
        let options = ReadOptions::default().workers(NonZeroUsize::new(1));
        let pack = FixedRecordPack::open_with(&path, &options)?;
        let data = pack.reader().layout().data;
        // The mapping that our reader uses.
        let memory = pack.reader().data_view(0, data.length)?;
        let mut buffer = vec![1; BATCH_ROWS * pack.row_bytes()];
        // The first touch of a page of a mapping is a page fault.
        black_box(crc32fast::hash(&memory));
        let mut peer = reference.map(Program::start).transpose()?;
        if let Some(peer) = &mut peer {
            let open = json!({"op": "use_matrix", "path": path, "rows": rows_path,
                              "batch": BATCH_ROWS});
            peer.call(&open)?;
            compare(peer, &pack, &batches)?;
        }
        let mut series = Series::default();
        for (round, some) in batches.chunks(self.batches).enumerate() {
            let count = u64::try_from(some.len() * BATCH_ROWS)?;
            let into = over(some, |rows| {
                pack.read_matrix_into(rows, &mut buffer)?;
                black_box(&buffer);
                Ok(())
            })?;
            series.add("matrix into", into.per(count));
            if let Some(peer) = &mut peer {
                let first = round * self.batches;
                let command = json!({"op": "matrix", "first": first, "count": some.len()});
                series.add("reference matrix", peer.sample(&command)?.per(count));
            }
            let copied = over(some, |rows| copy(&memory, rows, pack.row_bytes(), &mut buffer))?;
            series.add("copy", copied.per(count));
            // A batch lives until the next one is there, as in a loop that uses it.
            let mut kept = None;
            let matrix = over(some, |rows| {
                kept = Some(black_box(pack.read_matrix(rows)?));
                Ok(())
            })?;
            drop(kept);
            series.add("matrix", matrix.per(count));
        }
        drop(peer);
        std::fs::remove_file(&path)?;
        std::fs::remove_file(&rows_path)?;
        Ok(Section {
            title: format!(
                "fixed pack, random batches of 256, {} rows of {} x float16",
                self.rows, self.dim
            ),
            unit: ("us/row", 1e-6),
            series,
            lines: self.lines(),
            facts: Vec::new(),
        })
    }

    fn lines(&self) -> Vec<Line> {
        let line = |what, ours| Line {
            what,
            ours,
            reference: Some("reference matrix"),
            plain: Some("copy"),
            basis: Basis::Cpu,
            goal: Some(Goal::TimesReference(self.times)),
        };
        vec![
            line("read_matrix_into, memory used again", "matrix into"),
            line("read_matrix, new memory", "matrix"),
        ]
    }
}

/// Whether the reference reads the same bytes in the same order.
fn compare(peer: &mut Peer, pack: &FixedRecordPack, batches: &[Vec<u64>]) -> Result<()> {
    let answer = peer.call(&json!({"op": "check_matrix", "first": 0, "count": 1}))?;
    let mut sum = crc32fast::Hasher::new();
    for rows in batches.iter().take(1) {
        sum.update(pack.read_matrix(rows)?.bytes());
    }
    if answer.get("sum").and_then(serde_json::Value::as_u64) != Some(u64::from(sum.finalize())) {
        return Err("the reference's rows are not ours".into());
    }
    Ok(())
}

fn copy(memory: &Bytes, rows: &[u64], row_bytes: usize, buffer: &mut [u8]) -> Result<()> {
    for (row, target) in rows.iter().zip(buffer.chunks_exact_mut(row_bytes)) {
        let start = usize::try_from(*row)? * row_bytes;
        target.copy_from_slice(&memory[start..start + row_bytes]);
    }
    black_box(buffer);
    Ok(())
}

fn over(batches: &[Vec<u64>], mut work: impl FnMut(&[u64]) -> Result<()>) -> Result<Sample> {
    let ((), sample) = measure(|| batches.iter().try_for_each(|rows| work(rows)))?;
    Ok(sample)
}
