//! Writing a large pack from a stream of payloads.

use std::path::Path;

use serde_json::{Value, json};

use crate::Result;
use crate::clock::Sample;
use crate::peer::{Program, number};
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::sample;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Writes {
    /// Bytes of a record.
    pub record: u64,
    /// Number of records.
    pub count: u64,
    /// Repetitions.
    pub rounds: usize,
}

/// Records in memory that the stream takes its payloads from again and again.
const POOL_RECORDS: u64 = 128;
const MIB: f64 = 1_048_576.0;

impl Writes {
    /// Writes packs in `folder` and removes them, each in a process of its own.
    ///
    /// # Errors
    ///
    /// What a writer or the system reports.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let (path, pool) = (folder.join("writes.iac"), folder.join("writes.pool"));
        sample::write_pool(&pool, usize::try_from(self.record * POOL_RECORDS)?, 7)?;
        let command = |op: &str, sync: bool| {
            json!({"op": op, "path": path, "pool": pool, "sync": sync,
                   "record": self.record, "count": self.count})
        };
        let mut tasks = vec![
            ("ours", &Program::Ours, command("write", false)),
            ("plain", &Program::Ours, command("plain_write", false)),
            ("ours synced", &Program::Ours, command("write", true)),
            ("plain synced", &Program::Ours, command("plain_write", true)),
        ];
        if let Some(program) = reference {
            tasks.insert(1, ("reference", program, command("write", false)));
        }
        let mut series = Series::default();
        let mut answers: Vec<Value> = vec![Value::Null; tasks.len()];
        for _ in 0..self.rounds {
            for ((name, program, command), kept) in tasks.iter().zip(&mut answers) {
                let answer = program.once(command)?;
                std::fs::remove_file(&path)?;
                let sample =
                    Sample { cpu: number(&answer, "cpu")?, wall: number(&answer, "wall")? };
                series.add(name, sample.per(self.count));
                *kept = answer;
            }
        }
        std::fs::remove_file(&pool)?;
        let of = |wanted: &str| {
            let mut found = tasks.iter().zip(&answers);
            found.find(|((name, ..), _)| *name == wanted).map(|(_, answer)| answer)
        };
        Ok(Section {
            title: format!("write, {} records of {} bytes", self.count, self.record),
            unit: ("us/record", 1e-6),
            lines: lines(),
            facts: facts(of("ours"), of("reference"))?,
            series,
        })
    }
}

fn lines() -> Vec<Line> {
    let line = |what, ours, plain, basis, goal| Line {
        what,
        ours,
        reference: Some("reference"),
        plain: Some(plain),
        basis,
        goal,
    };
    let goal = Some(Goal::TimesReference(1.8));
    vec![
        line("not synced", "ours", "plain", Basis::Cpu, goal),
        line("synced", "ours synced", "plain synced", Basis::Cpu, goal),
        line("not synced (wall)", "ours", "plain", Basis::Wall, None),
        line(
            "synced (wall; the reference never syncs)",
            "ours synced",
            "plain synced",
            Basis::Wall,
            None,
        ),
    ]
}

fn facts(ours: Option<&Value>, theirs: Option<&Value>) -> Result<Vec<Fact>> {
    let ours = ours.ok_or("nothing was written")?;
    let fact = |what, unit, at_most, value: &dyn Fn(&Value) -> Result<f64>| -> Result<Fact> {
        Ok(Fact {
            what,
            unit,
            ours: value(ours)?,
            reference: theirs.map(value).transpose()?,
            at_most,
        })
    };
    let per_file_byte = |name: &'static str| {
        move |answer: &Value| Ok(number(answer, name)? / number(answer, "file")?)
    };
    Ok(vec![
        fact("bytes given to write", "file sizes", Some(1.02), &per_file_byte("wchar"))?,
        fact(
            "bytes of page cache dirtied",
            "file sizes",
            Some(1.02),
            &per_file_byte("write_bytes"),
        )?,
        fact("peak memory", "MiB", Some(96.0), &|answer| Ok(number(answer, "peak")? / MIB))?,
    ])
}
