//! Telling about work, and being stopped.

pub(crate) use iac_ops::Task;
use iac_ops::{OpsError, Progress};

use crate::error::Result;

/// Ends the work if it was asked to stop.
pub(crate) fn check_cancelled(progress: &dyn Progress) -> Result<()> {
    if progress.is_cancelled() {
        return Err(OpsError::Cancelled.into());
    }
    Ok(())
}
