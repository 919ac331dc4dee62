//! From the path of a pack to its first record.

use std::hint::black_box;
use std::path::Path;

use iac_reader::{PackReader, ReadOptions};
use serde_json::json;

use crate::Result;
use crate::clock::measure;
use crate::peer::{Program, number};
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::sample;

/// What is measured, and what should be reached.
#[derive(Debug, Clone, Copy)]
pub struct Opens {
    /// Rows of the index table.
    pub rows: u64,
    /// Repetitions.
    pub rounds: usize,
    /// How often we open per round.
    pub ours: u64,
    /// How often the reference opens per round.
    pub reference: u64,
    /// The reference's processor time over ours.
    pub times: f64,
    /// The most that may be resident before a row is touched, in MiB.
    pub resident: Option<f64>,
}

const MIB: f64 = 1_048_576.0;

impl Opens {
    /// Makes the pack in `folder`, measures, and removes it.
    ///
    /// # Errors
    ///
    /// What a reader, the writer or the system reports.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let path = folder.join("opens.iac");
        sample::write_small_records(&path, self.rows)?;
        sample::warm(&path)?;
        let row = self.rows / 3;
        let mut peer = reference.map(Program::start).transpose()?;
        let options = ReadOptions::default().use_header_cache(false);
        let mut series = Series::default();
        let command =
            |repeat| json!({"op": "open_first", "path": path, "row": row, "repeat": repeat});
        let (once, often) = (command(1), command(self.reference));
        // The first round of each side is for warming up.
        for round in 0..=self.rounds {
            let ((), ours) = measure(|| {
                for _ in 0..self.ours {
                    let pack = PackReader::open_with(&path, &options)?;
                    black_box(pack.read(row)?);
                }
                Ok(())
            })?;
            let theirs = peer.as_mut().map(|peer| peer.sample(&often)).transpose()?;
            let first = Program::Ours.start()?.sample(&once)?;
            let their_first = reference.map(|program| program.start()?.sample(&once));
            let their_first = their_first.transpose()?;
            if round == 0 {
                continue;
            }
            series.add("ours", ours.per(self.ours));
            series.add("ours first", first);
            if let (Some(theirs), Some(first)) = (theirs, their_first) {
                series.add("reference", theirs.per(self.reference));
                series.add("reference first", first);
            }
        }
        drop(peer);

        let command = json!({"op": "open_memory", "path": path, "row": row});
        let ours = Program::Ours.once(&command)?;
        let theirs = reference.map(|program| program.once(&command)).transpose()?;
        let fact = |what, name, at_most| -> Result<Fact> {
            let theirs = theirs.as_ref().map(|theirs| number(theirs, name));
            Ok(Fact {
                what,
                unit: "MiB",
                ours: number(&ours, name)? / MIB,
                reference: theirs.transpose()?.map(|bytes| bytes / MIB),
                at_most,
            })
        };
        let facts = vec![
            fact("resident before a row is touched", "opened", self.resident)?,
            fact("resident after the first record", "first", None)?,
        ];
        std::fs::remove_file(&path)?;
        Ok(Section {
            title: format!("open to first record, {} rows", self.rows),
            unit: ("ms", 1e-3),
            series,
            lines: vec![
                self.line("again and again", "ours", "reference"),
                self.line("first of a process", "ours first", "reference first"),
            ],
            facts,
        })
    }
    const fn line(&self, what: &'static str, ours: &'static str, theirs: &'static str) -> Line {
        Line {
            what,
            ours,
            reference: Some(theirs),
            plain: None,
            basis: Basis::Cpu,
            goal: Some(Goal::TimesReference(self.times)),
        }
    }
}
