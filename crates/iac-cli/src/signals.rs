//! Signals whose usual effect is to end the process.
#![cfg_attr(unix, allow(unsafe_code))] // one call that no safe crate in use offers

/// Makes a file that grows beyond the allowed size an error of the write, in place of the end of
/// the process: only then is what was begun removed.
#[cfg(unix)]
pub(crate) fn ignore_file_size_limit() {
    // SAFETY: nothing but the disposition of one signal changes, no handler is installed, and
    // other threads are no more affected by it than by any other setting of the process.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// There is no such signal here.
#[cfg(not(unix))]
pub(crate) const fn ignore_file_size_limit() {}
