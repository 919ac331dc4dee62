//! What the comparison with the field found: a row for each side.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::{OPENED, RAW, ROWS, TEXTS, WRITERS};
use crate::clock::Sample;
use crate::report::{Basis, digits, median, write_table};

/// Whose a side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// This workspace's crates.
    Ours,
    /// Its Python package.
    OursFromPython,
    /// Another format.
    Peer,
    /// A physical limit.
    Plain,
}

impl Who {
    /// Whether this program itself serves the side.
    #[must_use]
    pub const fn is_rust(self) -> bool {
        matches!(self, Self::Ours | Self::Plain)
    }
}

/// What ours is compared with.
#[derive(Debug, Clone, Copy)]
pub enum Of {
    /// The fastest of the other formats.
    BestPeer,
    /// The fastest of these two rows, which may be one.
    Fastest([&'static str; 2]),
    /// So many seconds.
    Seconds(f64),
}

/// What should be reached: our time is at most so many times that of another.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// Which time.
    pub op: &'static str,
    /// Our row.
    pub ours: &'static str,
    /// The other.
    pub of: Of,
    /// Ours over the other's.
    pub most: f64,
    /// Which clock.
    pub basis: Basis,
}

const fn goal(op: &'static str, ours: &'static str, of: Of, most: f64, basis: Basis) -> Goal {
    Goal { op, ours, of, most, basis }
}

impl Goal {
    /// Records as they are.
    pub const RAW: &'static [Self] = &[
        goal("batch", RAW[0].0, Of::BestPeer, 1.0, Basis::Cpu),
        goal("batch", RAW[2].0, Of::BestPeer, 1.0, Basis::Cpu),
        goal("batch", RAW[3].0, Of::Fastest([RAW[17].0, RAW[17].0]), 1.0 / 0.9, Basis::Cpu),
        goal("batch", RAW[4].0, Of::BestPeer, 1.0, Basis::Cpu),
        goal("write", RAW[0].0, Of::BestPeer, 1.0, Basis::Cpu),
        goal("write", RAW[4].0, Of::BestPeer, 1.0, Basis::Cpu),
    ];
    /// Compressed texts.
    pub const TEXTS: &'static [Self] = &[
        goal("batch", TEXTS[1].0, Of::BestPeer, 0.55, Basis::Cpu),
        goal("batch", TEXTS[2].0, Of::BestPeer, 0.33, Basis::Cpu),
        goal("batch", TEXTS[3].0, Of::BestPeer, 1.0, Basis::Cpu),
    ];
    /// Rows of numbers.
    pub const ROWS: &'static [Self] = &[
        goal("batch", ROWS[0].0, Of::Fastest([ROWS[5].0, ROWS[5].0]), 1.0, Basis::Cpu),
        goal("batch", ROWS[1].0, Of::Fastest([ROWS[6].0, ROWS[6].0]), 1.0, Basis::Cpu),
        goal("batch", ROWS[2].0, Of::Fastest([ROWS[5].0, ROWS[5].0]), 1.0, Basis::Cpu),
    ];
    /// Writing.
    pub const WRITERS: &'static [Self] = &[
        goal("write", WRITERS[0].0, Of::Fastest([WRITERS[1].0, WRITERS[2].0]), 1.25, Basis::Wall),
        goal("write", WRITERS[3].0, Of::Fastest([WRITERS[4].0, WRITERS[5].0]), 1.15, Basis::Wall),
    ];
    /// Opening.
    pub const OPENED: &'static [Self] = &[
        goal("open", OPENED[0].0, Of::Seconds(0.3e-3), 1.0, Basis::Cpu),
        goal("open", OPENED[0].0, Of::BestPeer, 1.0, Basis::Cpu),
    ];
}

/// One side.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub label: &'static str,
    /// Whose it is.
    pub who: Who,
    /// The version that was measured.
    pub version: String,
    /// Per operation: `write` for everything once, the others for one record.
    pub seconds: BTreeMap<&'static str, Vec<Sample>>,
    /// Bytes: `file`, `write peak`, `memory`.
    pub facts: BTreeMap<&'static str, f64>,
}

impl Row {
    fn median(&self, op: &str, basis: Basis) -> Option<f64> {
        let mut times: Vec<f64> =
            self.seconds.get(op)?.iter().map(|sample| sample.on(basis)).collect();
        times.sort_by(f64::total_cmp);
        median(&times)
    }
}

/// One section.
#[derive(Debug)]
pub struct Table {
    /// Heading.
    pub title: String,
    /// All sides.
    pub rows: Vec<Row>,
    /// Bytes of all records.
    pub bytes: u64,
    /// Number of records.
    pub count: u64,
    /// What should be reached.
    pub goals: &'static [Goal],
    /// Who is missing, and why.
    pub notes: Vec<String>,
}

/// Operations with the unit of their times.
const OPS: [(&str, &str, f64); 4] = [
    ("batch", "us", 1e-6),
    ("single", "us", 1e-6),
    ("sequential", "us", 1e-6),
    ("open", "ms", 1e-3),
];
const MB: f64 = 1e6;

impl Table {
    fn best_peer(&self, op: &str, basis: Basis) -> Option<f64> {
        let peers = self.rows.iter().filter(|row| row.who == Who::Peer);
        peers.filter_map(|row| row.median(op, basis)).min_by(f64::total_cmp)
    }

    fn measure(&self, goal: &Goal) -> Option<f64> {
        let of = |label: &str| {
            let row = self.rows.iter().find(|row| row.label == label)?;
            row.median(goal.op, goal.basis)
        };
        let other = match goal.of {
            Of::BestPeer => self.best_peer(goal.op, goal.basis)?,
            Of::Fastest(labels) => {
                labels.iter().filter_map(|label| of(label)).min_by(f64::total_cmp)?
            }
            Of::Seconds(seconds) => seconds,
        };
        Some(of(goal.ours)? / other)
    }

    /// All of it in a form for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let time = |sample: &Sample| json!({"cpu": sample.cpu, "wall": sample.wall});
        let row = |row: &Row| {
            let seconds: serde_json::Map<String, Value> = row
                .seconds
                .iter()
                .map(|(op, samples)| {
                    let median = |basis| json!(row.median(op, basis));
                    let value = json!({
                        "median": {"cpu": median(Basis::Cpu), "wall": median(Basis::Wall)},
                        "rounds": samples.iter().map(time).collect::<Vec<_>>(),
                    });
                    ((*op).to_owned(), value)
                })
                .collect();
            json!({"side": row.label, "who": format!("{:?}", row.who), "version": row.version,
                   "seconds": seconds, "bytes": row.facts})
        };
        let goal = |goal: &Goal| {
            let is = self.measure(goal);
            json!({"what": goal.to_string(), "is": is, "at_most": goal.most,
                   "reached": is.map(|is| is <= goal.most)})
        };
        json!({
            "title": self.title,
            "records": self.count,
            "bytes": self.bytes,
            "sides": self.rows.iter().map(row).collect::<Vec<_>>(),
            "goals": self.goals.iter().map(goal).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.of {
            Of::BestPeer => "the fastest other format".to_owned(),
            Of::Fastest([first, second]) if first == second => first.to_owned(),
            Of::Fastest(labels) => labels.join(" or "),
            Of::Seconds(seconds) => format!("{} ms", digits(seconds * 1e3)),
        };
        let clock = if self.basis == Basis::Cpu { "" } else { " (wall)" };
        write!(f, "{}{clock}: {} / {of}", self.op, self.ours)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{}, {} MB; processor time unless it says wall",
            self.title,
            digits(self.bytes as f64 / MB)
        )?;
        let has = |op: &str| self.rows.iter().any(|row| row.seconds.contains_key(op));
        let ops: Vec<_> = OPS.iter().filter(|(op, ..)| has(op)).collect();
        let mut headings = vec!["".to_owned()];
        for (op, unit, _) in &ops {
            headings.extend([format!("{op} {unit}"), "/ ours".to_owned(), "wall".to_owned()]);
        }
        headings.extend(["write MB/s", "wall", "file", "writing MB", "held MB"].map(str::to_owned));
        let mut table = vec![headings];
        for row in &self.rows {
            let mut cells = vec![format!("{} {}", row.label, peer_version(row))];
            for (op, _, unit) in &ops {
                let ours = self.rows.first().and_then(|row| row.median(op, Basis::Cpu));
                let cpu = row.median(op, Basis::Cpu);
                let ratio = cpu.zip(ours).map(|(cpu, ours)| cpu / ours);
                cells.push(shown(cpu.map(|cpu| cpu / unit)));
                cells.push(shown(ratio));
                cells.push(shown(row.median(op, Basis::Wall).map(|wall| wall / unit)));
            }
            let speed =
                |basis| row.median("write", basis).map(|time| self.bytes as f64 / time / MB);
            let fact = |name, part: f64| row.facts.get(name).map(|bytes| bytes / part);
            cells.extend([
                shown(speed(Basis::Cpu)),
                shown(speed(Basis::Wall)),
                shown(fact("file", self.bytes as f64)),
                shown(fact("write peak", MB)),
                shown(fact("memory", MB)),
            ]);
            table.push(cells);
        }
        write_table(f, &table)?;
        if !self.goals.is_empty() {
            writeln!(f)?;
        }
        let mut table = Vec::new();
        for goal in self.goals {
            let is = self.measure(goal);
            let ok = is.map_or("-", |is| if is <= goal.most { "yes" } else { "NO" });
            table.push(vec![
                goal.to_string(),
                shown(is),
                format!("<= {}", digits(goal.most)),
                ok.to_owned(),
            ]);
        }
        write_table(f, &table)?;
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}

fn peer_version(row: &Row) -> &str {
    if row.who == Who::Peer && !row.label.starts_with("reference") { &row.version } else { "" }
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), digits)
}
