//! Measurements brought together: the table that people read, and JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::clock::Sample;
use crate::field::Table;

/// Measurements of one section by name, each one sample per round, per operation.
#[derive(Debug, Default)]
pub struct Series(BTreeMap<&'static str, Vec<Sample>>);

impl Series {
    /// Adds a round's sample.
    pub fn add(&mut self, name: &'static str, sample: Sample) {
        self.0.entry(name).or_default().push(sample);
    }
}

/// Which of the two times counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Processor time.
    Cpu,
    /// Time on the wall.
    Wall,
}

/// What a line of times should reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The reference takes at least so many times our time.
    TimesReference(f64),
    /// The plain limit takes at least this part of our time.
    PartOfPlain(f64),
    /// We take at most so many times the plain limit's time.
    TimesPlain(f64),
}

/// One line of times: names of series of its section.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// What was done.
    pub what: &'static str,
    /// Our series.
    pub ours: &'static str,
    /// The reference's, if it can do that.
    pub reference: Option<&'static str>,
    /// The limit that nobody can beat.
    pub plain: Option<&'static str>,
    /// Which time counts.
    pub basis: Basis,
    /// What should be reached.
    pub goal: Option<Goal>,
}

/// A number that is no time: bytes of memory, bytes written.
#[derive(Debug, Clone)]
pub struct Fact {
    /// What was counted.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Ours.
    pub ours: f64,
    /// The reference's.
    pub reference: Option<f64>,
    /// The most that ours should be.
    pub at_most: Option<f64>,
}

/// Everything that was measured on one pack or in one task.
#[derive(Debug)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Unit of the times: name, and seconds of one.
    pub unit: (&'static str, f64),
    /// All measurements.
    pub series: Series,
    /// What is shown of them.
    pub lines: Vec<Line>,
    /// Other numbers.
    pub facts: Vec<Fact>,
}

/// Median and smallest of a series, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Summary {
    median: Sample,
    least: Sample,
}

impl Sample {
    /// One of the two times.
    #[must_use]
    pub const fn on(self, basis: Basis) -> f64 {
        match basis {
            Basis::Cpu => self.cpu,
            Basis::Wall => self.wall,
        }
    }
}

impl Goal {
    /// What was measured of it, and whether that is enough.
    fn measure(self, ours: f64, reference: Option<f64>, plain: Option<f64>) -> Option<(f64, bool)> {
        match self {
            Self::TimesReference(least) => {
                reference.map(|time| (time / ours, time / ours >= least))
            }
            Self::PartOfPlain(least) => plain.map(|time| (time / ours, time / ours >= least)),
            Self::TimesPlain(most) => plain.map(|time| (ours / time, ours / time <= most)),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimesReference(least) => write!(f, "ref/ours >= {least}"),
            Self::PartOfPlain(least) => write!(f, "plain/ours >= {least}"),
            Self::TimesPlain(most) => write!(f, "ours/plain <= {most}"),
        }
    }
}

impl Section {
    fn summary(&self, name: &str) -> Option<Summary> {
        let samples = self.series.0.get(name)?;
        let sorted = |basis| {
            let mut times: Vec<f64> = samples.iter().map(|sample| sample.on(basis)).collect();
            times.sort_by(f64::total_cmp);
            times
        };
        let (cpu, wall) = (sorted(Basis::Cpu), sorted(Basis::Wall));
        Some(Summary {
            median: Sample { cpu: median(&cpu)?, wall: median(&wall)? },
            least: Sample { cpu: *cpu.first()?, wall: *wall.first()? },
        })
    }

    /// The median of the ratios of two series' rounds: what slows a whole round falls out of it.
    fn ratio(&self, above: &str, below: &str, basis: Basis) -> Option<f64> {
        let (above, below) = (self.series.0.get(above)?, self.series.0.get(below)?);
        let pairs = above.iter().zip(below);
        let mut ratios: Vec<f64> = pairs.map(|(a, b)| a.on(basis) / b.on(basis)).collect();
        ratios.sort_by(f64::total_cmp);
        median(&ratios)
    }

    fn json(&self) -> Value {
        let seconds = |sample: Sample| json!({"cpu": sample.cpu, "wall": sample.wall});
        let series: serde_json::Map<String, Value> = self
            .series
            .0
            .iter()
            .filter_map(|(name, samples)| {
                let summary = self.summary(name)?;
                let samples: Vec<Value> = samples.iter().map(|s| seconds(*s)).collect();
                let value = json!({
                    "median": seconds(summary.median),
                    "least": seconds(summary.least),
                    "rounds": samples,
                });
                Some(((*name).to_owned(), value))
            })
            .collect();
        let lines: Vec<Value> = self.lines.iter().filter_map(|l| self.line_json(l)).collect();
        let facts: Vec<Value> = self
            .facts
            .iter()
            .map(|fact| {
                json!({
                    "what": fact.what,
                    "unit": fact.unit,
                    "ours": fact.ours,
                    "reference": fact.reference,
                    "at_most": fact.at_most,
                    "reached": fact.at_most.map(|most| fact.ours <= most),
                })
            })
            .collect();
        json!({"title": self.title, "seconds": series, "lines": lines, "facts": facts})
    }

    fn line_json(&self, line: &Line) -> Option<Value> {
        let shown = self.shown(line)?;
        Some(json!({
            "what": line.what,
            "basis": if line.basis == Basis::Cpu { "cpu" } else { "wall" },
            "ours": line.ours,
            "reference": line.reference,
            "plain": line.plain,
            "reference_over_ours": shown.reference.map(|time| time / shown.ours.on(line.basis)),
            "ours_over_plain": shown.plain.map(|time| shown.ours.on(line.basis) / time),
            "paired_reference_over_ours": shown.paired_reference,
            "paired_ours_over_plain": shown.paired_plain,
            "target": line.goal.map(|goal| goal.to_string()),
            "reached": shown.goal.map(|(_, reached)| reached),
        }))
    }

    fn shown(&self, line: &Line) -> Option<Shown> {
        let ours = self.summary(line.ours)?.median;
        let time = |name: Option<&str>| Some(self.summary(name?)?.median.on(line.basis));
        let (reference, plain) = (time(line.reference), time(line.plain));
        Some(Shown {
            ours,
            reference,
            plain,
            paired_reference: line
                .reference
                .and_then(|name| self.ratio(name, line.ours, line.basis)),
            paired_plain: line.plain.and_then(|name| self.ratio(line.ours, name, line.basis)),
            goal: line.goal.and_then(|goal| goal.measure(ours.on(line.basis), reference, plain)),
        })
    }
}

/// The numbers of one line.
struct Shown {
    ours: Sample,
    reference: Option<f64>,
    plain: Option<f64>,
    paired_reference: Option<f64>,
    paired_plain: Option<f64>,
    goal: Option<(f64, bool)>,
}

/// The middle of times that rise.
#[must_use]
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return sorted.get(middle).copied();
    }
    Some(f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, *sorted.get(middle)?))
}

/// Three significant digits.
#[must_use]
pub fn digits(value: f64) -> String {
    let precision = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.0995 => 3,
        _ => 4,
    };
    format!("{value:.precision$}")
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

const HEADINGS: [&str; 11] =
    ["", "ours", "least", "wall", "ref", "ref/ours", "plain", "ours/plain", "target", "is", "ok"];

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, seconds) = self.unit;
        writeln!(f, "\n{} [{unit}]", self.title)?;
        let time = |value: f64| digits(value / seconds);
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        for line in &self.lines {
            let (Some(shown), Some(summary)) = (self.shown(line), self.summary(line.ours)) else {
                continue;
            };
            let ours = shown.ours.on(line.basis);
            rows.push([
                line.what.to_owned(),
                time(ours),
                time(summary.least.on(line.basis)),
                time(shown.ours.wall),
                or_dash(shown.reference.map(time)),
                or_dash(shown.reference.map(|other| digits(other / ours))),
                or_dash(shown.plain.map(time)),
                or_dash(shown.plain.map(|other| digits(ours / other))),
                or_dash(line.goal.map(|goal| goal.to_string())),
                or_dash(shown.goal.map(|(value, _)| digits(value))),
                or_dash(shown.goal.map(|(_, reached)| yes_or_no(reached))),
            ]);
        }
        write_columns(f, &rows)?;
        if self.facts.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let headings = ["", "ours", "ref", "ref/ours", "target", "ok"];
        let mut rows = vec![headings.map(str::to_owned)];
        for fact in &self.facts {
            rows.push([
                format!("{} [{}]", fact.what, fact.unit),
                digits(fact.ours),
                or_dash(fact.reference.map(digits)),
                or_dash(fact.reference.map(|other| digits(other / fact.ours))),
                or_dash(fact.at_most.map(|most| format!("ours <= {most}"))),
                or_dash(fact.at_most.map(|most| yes_or_no(fact.ours <= most))),
            ]);
        }
        write_columns(f, &rows)
    }
}

fn yes_or_no(reached: bool) -> String {
    if reached { "yes" } else { "NO" }.to_owned()
}

fn write_columns<const N: usize>(f: &mut fmt::Formatter<'_>, rows: &[[String; N]]) -> fmt::Result {
    write_table(f, &rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>())
}

/// Rows of cells below each other, the first column to the left and the others to the right.
///
/// # Errors
///
/// When the formatter takes no more.
pub fn write_table(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    for row in rows {
        let mut text = String::new();
        for (column, (width, cell)) in widths.iter().zip(row).enumerate() {
            match column {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        writeln!(f, "  {}", text.trim_end())?;
    }
    Ok(())
}

/// All sections in a form for programs.
#[must_use]
pub fn to_json(machine: &Value, settings: &Value, sections: &[Section], field: &[Table]) -> Value {
    let sections: Vec<Value> = sections.iter().map(Section::json).collect();
    let field: Vec<Value> = field.iter().map(Table::json).collect();
    json!({"machine": machine, "settings": settings, "sections": sections, "field": field})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [(1234.5, "1234"), (12.34, "12.3"), (1.0, "1.00"), (0.05, "0.0500")] {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn goals_look_in_the_direction_that_they_name() {
        let measure = |goal: Goal| goal.measure(2.0, Some(5.0), Some(1.0)).unwrap();
        assert_eq!(measure(Goal::TimesReference(2.5)), (2.5, true));
        assert_eq!(measure(Goal::PartOfPlain(0.6)), (0.5, false));
        assert_eq!(measure(Goal::TimesPlain(1.9)), (2.0, false));
    }
}
