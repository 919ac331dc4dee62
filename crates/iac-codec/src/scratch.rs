//! Memory that decoding reuses from record to record.

use std::cell::Cell;

/// Bytes of a thread's buffer: one Zstandard block, and more than most records of text have.
pub(crate) const SCRATCH_BYTES: usize = 128 << 10;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Runs with this thread's buffer of [`SCRATCH_BYTES`]; its contents are arbitrary.
///
/// The buffer is taken out for the time of the call, so a codec that calls another one is safe,
/// and so is a call while the thread ends: both get a fresh one.
pub(crate) fn with_scratch<T>(run: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut buffer = SCRATCH.try_with(Cell::take).unwrap_or_default();
    // Only the first use on a thread has to grow it.
    buffer.resize(SCRATCH_BYTES, 0);
    let result = run(&mut buffer);
    let _ = SCRATCH.try_with(|cell| cell.set(buffer));
    result
}
