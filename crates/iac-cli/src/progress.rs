//! How far long work is, on standard error.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use iatrocache::ops::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::Common;
use crate::{human, interrupt, output};

/// Time between two lines where there is no terminal to draw a bar on.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Work that is done sooner gets no bar, which would only flicker.
const BAR_AFTER: Duration = Duration::from_millis(400);

/// When progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// When standard error is a terminal
    Auto,
    /// Also elsewhere, as a line from time to time
    Always,
    /// Not at all
    Never,
}

/// What an operation counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Rows,
}

/// Shows the progress of library calls, and stops them on Ctrl-C.
pub(crate) struct Shown {
    unit: Unit,
    shown: bool,
    terminal: bool,
    work: Mutex<Option<Work>>,
}

/// One piece of work that is being shown.
struct Work {
    what: String,
    total: Option<u64>,
    done: u64,
    begun: Instant,
    /// Of the last line.
    last: Instant,
    bar: Option<ProgressBar>,
}

impl Shown {
    pub(crate) fn new(common: &Common, unit: Unit) -> Self {
        use std::io::IsTerminal;
        let terminal = std::io::stderr().is_terminal();
        let shown = match common.progress {
            When::Auto => terminal && !common.quiet,
            When::Always => true,
            When::Never => false,
        };
        Self { unit, shown, terminal, work: Mutex::new(None) }
    }

    /// For results that are listed while the work goes on: a bar would lie between their lines
    /// when both go to one terminal.
    pub(crate) fn beside_list(common: &Common, unit: Unit) -> Self {
        use std::io::IsTerminal;
        let mut shown = Self::new(common, unit);
        shown.shown &= !std::io::stdout().is_terminal();
        shown
    }

    fn with_work(&self, change: impl FnOnce(&mut Option<Work>)) {
        if self.shown {
            change(&mut self.work.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn bar(&self, what: &str, total: Option<u64>) -> ProgressBar {
        let template = match (self.unit, total) {
            (Unit::Bytes, Some(_)) => {
                "{msg} [{wide_bar}] {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left"
            }
            (Unit::Bytes, None) => "{msg} {spinner} {bytes}  {bytes_per_sec}",
            (Unit::Rows, Some(_)) => {
                "{msg} [{wide_bar}] {human_pos}/{human_len}  {per_sec}  {eta} left"
            }
            (Unit::Rows, None) => "{msg} {spinner} {human_pos}  {per_sec}",
        };
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        bar
    }
}

impl Work {
    /// Where there is no terminal: a line that says how far it is.
    fn print(&self, unit: Unit) {
        let shown = |number| match unit {
            Unit::Bytes => human::bytes(number),
            Unit::Rows => human::count(number),
        };
        let done = match self.total {
            Some(total) => format!(": {} of {}", shown(self.done), shown(total)),
            None if self.done == 0 => String::new(),
            None => format!(": {}", shown(self.done)),
        };
        output::error_line(&format!("{}{done}", self.what));
    }
}

impl Progress for Shown {
    fn begin(&self, what: &str, total: Option<u64>) {
        self.with_work(|work| {
            let now = Instant::now();
            let begun =
                Work { what: what.to_owned(), total, done: 0, begun: now, last: now, bar: None };
            if !self.terminal {
                begun.print(self.unit);
            }
            *work = Some(begun);
        });
    }

    fn advance(&self, units: u64) {
        self.with_work(|work| {
            let Some(work) = work else { return };
            work.done = work.done.saturating_add(units);
            if let Some(bar) = &work.bar {
                bar.inc(units);
            } else if self.terminal {
                if work.begun.elapsed() >= BAR_AFTER {
                    let bar = self.bar(&work.what, work.total);
                    bar.inc(work.done);
                    work.bar = Some(bar);
                }
            } else if work.last.elapsed() >= LINE_EVERY {
                work.last = Instant::now();
                work.print(self.unit);
            }
        });
    }

    fn finish(&self) {
        self.with_work(|work| match work.take() {
            Some(Work { bar: Some(bar), .. }) => bar.finish_and_clear(),
            Some(work) if !self.terminal => work.print(self.unit),
            _ => {}
        });
    }

    fn is_cancelled(&self) -> bool {
        interrupt::requested()
    }
}
