//! Packs of teacher features: batches of random rows as `f32`.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use iac_adapters::features::{ElementType, FeaturePackBuilder, FeaturePackReader, FeatureRow};
use iac_adapters::{AdapterError, RecordTable};
use iac_reader::ReadOptions;
use serde_json::{Value, json};

use crate::Result;
use crate::clock::{Sample, measure};
use crate::peer::Program;
use crate::random::Random;
use crate::report::{Basis, Goal, Line, Section, Series};
use crate::sample::{self, BATCH_ROWS};

/// What is measured, and what should be reached.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// Vectors.
    pub rows: usize,
    /// `float16` elements of each.
    pub dim: usize,
    /// Batches per round.
    pub batches: usize,
    /// Repetitions.
    pub rounds: usize,
    /// The reference's processor time over ours.
    pub times: f64,
}

impl Features {
    /// Makes the pack in `folder`, measures, and removes it.
    ///
    /// # Errors
    ///
    /// What the reader, the writer, the system or the reference reports, or when the two sides
    /// read different numbers.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let (path, rows_path) = (folder.join("bench.features.iac"), folder.join("features.rows"));
        self.build(&path)?;
        sample::warm(&path)?;
        let rows = u64::try_from(self.rows)?;
        let batches = sample::random_batches(rows, self.batches * self.rounds, 41);
        sample::save_batches(&rows_path, &batches)?;
        let options = ReadOptions::default().workers(NonZeroUsize::new(1));
        let pack = FeaturePackReader::open_with(&path, &options)?;
        let mut buffer = vec![1.0; BATCH_ROWS * self.dim];
        let source = vec![1.0_f32; BATCH_ROWS * self.dim];
        // The first touch of a page of a mapping is a page fault.
        let all: Vec<u64> = (0..rows).collect();
        for rows in all.chunks(BATCH_ROWS) {
            pack.read_many_f32_into(rows, &mut buffer[..rows.len() * self.dim])?;
        }
        let mut peer = reference.map(Program::start).transpose()?;
        if let Some(peer) = &mut peer {
            peer.call(&json!({"op": "use_features", "path": path, "rows": rows_path,
                              "batch": BATCH_ROWS}))?;
            let answer = peer.call(&json!({"op": "check_features", "first": 0, "count": 1}))?;
            let ours = pack.read_many_f32(&batches[0])?;
            let bytes: Vec<u8> = ours.iter().flat_map(|element| element.to_le_bytes()).collect();
            let sum = u64::from(crc32fast::hash(&bytes));
            if answer.get("sum").and_then(Value::as_u64) != Some(sum) {
                return Err("the reference's vectors are not ours".into());
            }
        }
        let mut series = Series::default();
        for (round, some) in batches.chunks(self.batches).enumerate() {
            let count = u64::try_from(some.len() * BATCH_ROWS)?;
            let into = over(some, |rows| {
                pack.read_many_f32_into(rows, &mut buffer)?;
                black_box(&buffer);
                Ok(())
            })?;
            series.add("into", into.per(count));
            if let Some(peer) = &mut peer {
                let first = round * self.batches;
                let command = json!({"op": "read_features", "first": first, "count": some.len()});
                series.add("reference", peer.sample(&command)?.per(count));
            }
            let copy = over(some, |_| {
                buffer.copy_from_slice(black_box(&source));
                black_box(&buffer);
                Ok(())
            })?;
            series.add("copy", copy.per(count));
            // A batch lives until the next one is there, as in a loop that uses it.
            let mut kept = None;
            let fresh = over(some, |rows| {
                kept = Some(black_box(pack.read_many_f32(rows)?));
                Ok(())
            })?;
            drop(kept);
            series.add("fresh", fresh.per(count));
        }
        drop(peer);
        std::fs::remove_file(&path)?;
        std::fs::remove_file(&rows_path)?;
        let line = |what, ours, goal| Line {
            what,
            ours,
            reference: Some("reference"),
            plain: Some("copy"),
            basis: Basis::Cpu,
            goal,
        };
        Ok(Section {
            title: format!(
                "features, random batches of {BATCH_ROWS} as f32, {} vectors of {} x float16",
                self.rows, self.dim
            ),
            unit: ("us/row", 1e-6),
            series,
            lines: vec![
                line(
                    "read_many_f32_into, memory used again",
                    "into",
                    Some(Goal::TimesReference(self.times)),
                ),
                line("read_many_f32, new memory", "fresh", None),
            ],
            facts: Vec::new(),
        })
    }

    fn build(&self, path: &Path) -> Result<()> {
        let mut records = RecordTable::new();
        for record in &crate::tiles::records(self.rows) {
            records.push(record)?;
        }
        let mut random = Random::new(40);
        let mut bytes = vec![0; self.dim * 2];
        let rows = (0..self.rows).map(|_| {
            random.fill(&mut bytes);
            // No exponent of 31: infinities and NaN have several forms, which need not be equal.
            for high in bytes.iter_mut().skip(1).step_by(2) {
                *high &= 0xbf;
            }
            Ok::<_, AdapterError>(FeatureRow::from_bytes(ElementType::Float16, bytes.clone()))
        });
        FeaturePackBuilder::new("benchmark")
            .dtype(ElementType::Float16)
            .options(sample::options())
            .build_streaming(path, records, rows, &iac_ops::NoProgress)?;
        Ok(())
    }
}

fn over(batches: &[Vec<u64>], mut work: impl FnMut(&[u64]) -> Result<()>) -> Result<Sample> {
    let ((), sample) = measure(|| batches.iter().try_for_each(|rows| work(rows)))?;
    Ok(sample)
}
