//! An allocator that stops the process when a single allocation is absurdly large.
//!
//! libFuzzer has such a limit of its own, but it works with sanitizers only, which the stable
//! toolchain does not have.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one allocation may have: what a Zstandard buffer of
/// 8 KiB may stand for at most. Targets therefore run with inputs of at most 8 KiB.
const MOST: usize = 512 << 20;

/// Bytes that one allocation may have at the moment.
static LIMIT: AtomicUsize = AtomicUsize::new(MOST);

/// The system's allocator with a limit on single allocations.
#[derive(Debug)]
pub struct Limited;

fn check(bytes: usize) {
    if bytes > LIMIT.load(Ordering::Relaxed) {
        // What is said and done from here on may allocate.
        LIMIT.store(usize::MAX, Ordering::Relaxed);
        eprintln!("allocation of {bytes} bytes");
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
        std::process::abort();
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}
