//! An allocator that counts the memory which is held, and the most that was held at once, of all
//! threads: a test binary that has it in measures one thing at a time.

#![allow(unreachable_pub)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged. Those of `realloc` and
// `alloc_zeroed` come through these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        MOST.fetch_max(held, Ordering::SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Begins to look for the most again; the bytes that are held now.
pub fn begin() -> usize {
    let held = HELD.load(Ordering::SeqCst);
    MOST.store(held, Ordering::SeqCst);
    held
}

/// The most bytes that were held at once since [`begin`], beyond those of `start`.
pub fn most_above(start: usize) -> usize {
    MOST.load(Ordering::SeqCst).saturating_sub(start)
}
