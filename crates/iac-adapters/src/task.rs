//! Telling about work, and being stopped.

use iac_ops::{OpsError, Progress};

use crate::error::Result;

/// A piece of work that is shown; it ends with its scope.
pub(crate) struct Task<'a> {
    progress: &'a dyn Progress,
}

impl<'a> Task<'a> {
    pub(crate) fn begin(progress: &'a dyn Progress, what: &str, total: Option<u64>) -> Self {
        progress.begin(what, total);
        Self { progress }
    }

    pub(crate) fn advance(&self, units: u64) {
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
        return Err(OpsError::Cancelled.into());
    }
    Ok(())
}
