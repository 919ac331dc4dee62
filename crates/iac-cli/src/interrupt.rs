//! Ctrl-C: ends the process with code 130, and without a partial file.

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use iatrocache::ops::Cancel;

use crate::failure::{Failure, INTERRUPTED, Result};

static REQUESTED: Cancel = Cancel::new();
static WRITING: AtomicUsize = AtomicUsize::new(0);

/// From now on the first Ctrl-C (or request to terminate) ends the process: at once, or, while
/// something is [written](writing), as soon as that is cleaned up. A second one does not wait.
pub(crate) fn install() {
    // Without a handler the system's own ends the process, which is nearly as good.
    drop(ctrlc::set_handler(|| {
        let again = REQUESTED.is_set();
        REQUESTED.cancel();
        if again || WRITING.load(Ordering::SeqCst) == 0 {
            process::exit(i32::from(INTERRUPTED));
        }
    }));
}

/// Whether Ctrl-C was pressed.
pub(crate) fn requested() -> bool {
    REQUESTED.is_set()
}

/// Ends a command that was interrupted.
pub(crate) fn check() -> Result<()> {
    if requested() {
        return Err(Failure::Interrupted);
    }
    Ok(())
}

/// While this lives there may be temporary files, whose owner asks whether to stop
/// ([`requested`]) and removes them.
pub(crate) struct Writing(());

/// Begins work that must be cleaned up.
pub(crate) fn writing() -> Result<Writing> {
    WRITING.fetch_add(1, Ordering::SeqCst);
    let writing = Writing(());
    check()?;
    Ok(writing)
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITING.fetch_sub(1, Ordering::SeqCst);
    }
}
