//! Figures side by side.

use std::fmt;
use std::process::Command;
use std::time::Instant;

use crate::Result;

/// Waits until the disk has written what others left to it, so that nobody's time holds another's writing.
pub fn settle() -> Result<()> {
    if Command::new("sync").status()?.success() { Ok(()) } else { Err("sync failed".into()) }
}

/// Measurements of one side.
#[derive(Debug, Default, Clone)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Seconds that some work takes.
    pub fn time<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        let done = work()?;
        self.0.push(begun.elapsed().as_secs_f64());
        Ok(done)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// A line of figures.
#[derive(Debug)]
struct Line {
    what: String,
    unit: &'static str,
    ours: f64,
    array_format: Option<f64>,
    zarrs: Option<f64>,
    target: String,
    reached: Option<bool>,
}

/// All figures.
#[derive(Debug, Default)]
pub struct Table(Vec<Line>);

impl Table {
    /// Times in seconds, shown in milliseconds, with the most that ours may be of theirs.
    pub fn times(
        &mut self,
        what: &str,
        ours: &Samples,
        array_format: Option<(&Samples, f64)>,
        zarrs: Option<(&Samples, f64)>,
    ) {
        let ours = ours.median() * 1e3;
        let a = array_format.map(|(samples, most)| (samples.median() * 1e3, most));
        let z = zarrs.map(|(samples, most)| (samples.median() * 1e3, most));
        let sides = [("A", a), ("Z", z)];
        let mut target = Vec::new();
        let mut reached = None;
        for (name, side) in sides {
            if let Some((theirs, most)) = side
                && most.is_finite()
            {
                target.push(format!("<= {most:.2} x {name}"));
                reached = Some(reached.unwrap_or(true) && ours <= theirs * most);
            }
        }
        self.push(Line {
            what: what.to_owned(),
            unit: "ms",
            ours,
            array_format: a.map(|a| a.0),
            zarrs: z.map(|z| z.0),
            target: target.join(", "),
            reached,
        });
    }

    /// A number that has a most of its own.
    pub fn fact(
        &mut self,
        what: &str,
        unit: &'static str,
        ours: f64,
        theirs: Option<f64>,
        most: f64,
    ) {
        let known = most.is_finite();
        self.push(Line {
            what: what.to_owned(),
            unit,
            ours,
            array_format: theirs,
            zarrs: None,
            target: if known { format!("<= {most:.3}") } else { String::new() },
            reached: known.then_some(ours <= most),
        });
    }

    fn push(&mut self, line: Line) {
        eprintln!("{line}");
        self.0.push(line);
    }
}

fn shown(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.4}"),
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = |theirs: Option<f64>| shown(theirs.map(|theirs| theirs / self.ours));
        write!(
            f,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            self.what,
            self.unit,
            shown(Some(self.ours)),
            shown(self.array_format),
            ratio(self.array_format),
            shown(self.zarrs),
            ratio(self.zarrs),
            self.target,
            self.reached.map_or("", |reached| if reached { "yes" } else { "no" })
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| check | unit | ours | array-format | A/ours | zarrs | Z/ours | target | reached |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
