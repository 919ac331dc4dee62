//! How long work tells about itself, and how it is stopped.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{OpsError, Result};

/// Hears how far a piece of work is, and may ask it to stop.
///
/// Every method does nothing unless it is overridden. Calls may come from any thread.
pub trait Progress: Send + Sync {
    /// A piece of work begins: what it is (`packing`), and of how many units, where that is known.
    /// Units are bytes or rows, as the operation says.
    fn begin(&self, what: &str, total: Option<u64>) {
        let _ = (what, total);
    }

    /// Units are done.
    fn advance(&self, units: u64) {
        let _ = units;
    }

    /// The piece of work that was begun last has ended, well or not.
    fn finish(&self) {}

    /// Whether the work should stop: asked between records. The operation then ends with
    /// [`OpsError::Cancelled`] and leaves no partial file.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Hears nothing and never stops anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// A flag that stops work, for signal handlers and other threads.
///
/// It is a [`Progress`] of its own, for callers who show none.
///
/// ```
/// use iac_ops::Cancel;
///
/// static CANCEL: Cancel = Cancel::new();
/// CANCEL.cancel();
/// assert!(CANCEL.is_set());
/// ```
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    /// A flag that is not set.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Asks the work to stop. Safe in a signal handler.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the work was asked to stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Progress for Cancel {
    fn is_cancelled(&self) -> bool {
        self.is_set()
    }
}

/// A piece of work that is shown; it ends with its scope.
pub struct Task<'a> {
    progress: &'a dyn Progress,
}

impl<'a> Task<'a> {
    /// Begins a piece of work of so many units, where their number is known.
    pub fn begin(progress: &'a dyn Progress, what: &str, total: Option<u64>) -> Self {
        progress.begin(what, total);
        Self { progress }
    }

    /// Counts units as done.
    pub fn advance(&self, units: u64) {
        self.progress.advance(units);
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        self.progress.finish();
    }
}

/// Ends the work if it was asked to stop.
pub(crate) fn check_cancelled(progress: &dyn Progress) -> Result<()> {
    if progress.is_cancelled() {
        return Err(OpsError::Cancelled);
    }
    Ok(())
}
