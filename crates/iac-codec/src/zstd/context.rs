//! Contexts of the library, one of each per thread.

use std::cell::Cell;

use zstd_safe::{CCtx, DCtx};

/// A compression context with more memory than this is given back after use. Contexts for short
/// records stay far below, so only those that saw large records at high levels are made anew.
const MAX_KEPT_BYTES: usize = 64 << 20;

thread_local! {
    static COMPRESS: Cell<Option<CCtx<'static>>> = const { Cell::new(None) };
    static DECOMPRESS: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

// Contexts are taken out for the time of the call. While a thread ends, or when one codec runs
// inside another, a fresh one is made.

/// Runs with this thread's compression context; nothing if there is no memory for one.
pub(super) fn with_compressor<T>(run: impl FnOnce(&mut CCtx<'static>) -> T) -> Option<T> {
    let kept = COMPRESS.try_with(Cell::take).ok().flatten();
    let mut context = kept.or_else(CCtx::try_create)?;
    let result = run(&mut context);
    if context.sizeof() <= MAX_KEPT_BYTES {
        let _ = COMPRESS.try_with(|cell| cell.set(Some(context)));
    }
    Some(result)
}

/// Runs with this thread's decompression context; nothing if there is no memory for one.
///
/// One-shot decoding needs no window besides its output, so the context never grows.
pub(super) fn with_decompressor<T>(run: impl FnOnce(&mut DCtx<'static>) -> T) -> Option<T> {
    let kept = DECOMPRESS.try_with(Cell::take).ok().flatten();
    let mut context = kept.or_else(DCtx::try_create)?;
    let result = run(&mut context);
    let _ = DECOMPRESS.try_with(|cell| cell.set(Some(context)));
    Some(result)
}
