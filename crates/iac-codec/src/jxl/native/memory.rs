//! Memory that the library takes, counted and bounded.
//!
//! The library takes several MiB for each image and gives them back at its end. A thread keeps the
//! large blocks for the next image: the allocator would return them to the system, which hands out
//! fresh pages one by one at the first touch, a considerable part of the time of a small image.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use gamut_jxl_sys::types::JxlMemoryManager;

use crate::{CodecError, Limits, Result};

/// Bytes before each block, which hold its size; also the alignment of blocks, which is that of
/// `malloc`.
const HEAD: usize = 16;

/// Smaller blocks are left to the allocator, which keeps those itself.
const KEPT_FROM: usize = 32 << 10;
/// Bytes that a thread keeps.
const KEPT_BYTES: usize = 32 << 20;
/// Blocks that a thread keeps.
const KEPT_BLOCKS: usize = 128;

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept { blocks: Vec::new(), bytes: 0 }) };
}

/// Blocks that a thread has given back, the oldest first.
struct Kept {
    blocks: Vec<(Layout, NonNull<u8>)>,
    bytes: usize,
}

impl Kept {
    /// The smallest block that has room for `layout` and is not much larger.
    fn take(&mut self, layout: Layout) -> Option<(Layout, NonNull<u8>)> {
        let most = layout.size().saturating_add(layout.size() >> 3);
        let fits = |size: usize| (layout.size()..=most).contains(&size);
        let (position, _) = self
            .blocks
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, (kept, _))| fits(kept.size()))
            .min_by_key(|(_, (kept, _))| kept.size())?;
        let block = self.blocks.remove(position);
        self.bytes = self.bytes.saturating_sub(block.0.size());
        Some(block)
    }

    /// Keeps a block, and frees the oldest ones for it.
    fn put(&mut self, layout: Layout, block: NonNull<u8>) {
        self.blocks.push((layout, block));
        self.bytes = self.bytes.saturating_add(layout.size());
        while self.bytes > KEPT_BYTES || self.blocks.len() > KEPT_BLOCKS {
            if self.blocks.is_empty() {
                break;
            }
            let (layout, block) = self.blocks.remove(0);
            self.bytes = self.bytes.saturating_sub(layout.size());
            // SAFETY: kept blocks were allocated with their layouts, and nobody else has them.
            unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (layout, block) in self.blocks.drain(..) {
            // SAFETY: as above.
            unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        }
    }
}

/// Memory for a block, perhaps a little more.
fn obtain(layout: Layout) -> Option<(Layout, NonNull<u8>)> {
    if layout.size() >= KEPT_FROM {
        // A thread that ends keeps nothing.
        let kept = KEPT.try_with(|kept| kept.borrow_mut().take(layout));
        if let Ok(Some(block)) = kept {
            return Some(block);
        }
    }
    // SAFETY: the size is at least that of a head, so it is not 0.
    NonNull::new(unsafe { std::alloc::alloc(layout) }).map(|block| (layout, block))
}

/// # Safety
///
/// The block came from [`obtain`] with this layout, and nobody uses it any more.
unsafe fn give_back(layout: Layout, block: NonNull<u8>) {
    if layout.size() >= KEPT_FROM
        && KEPT.try_with(|kept| kept.borrow_mut().put(layout, block)).is_ok()
    {
        return;
    }
    // SAFETY: by the contract of this function.
    unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
}

struct Count {
    used: Cell<u64>,
    allowed: u64,
    /// What would have been used, had it been allowed.
    refused: Cell<Option<u64>>,
}

/// What one handle may use. It must outlive the handle.
pub(super) struct Memory {
    count: NonNull<Count>,
}

impl Memory {
    /// Without a bound.
    pub(super) fn unbounded() -> Self {
        Self::new(&Limits::default().with_max_native_memory(u64::MAX))
    }

    pub(super) fn new(limits: &Limits) -> Self {
        let count = Count {
            used: Cell::new(0),
            allowed: limits.max_native_memory,
            refused: Cell::new(None),
        };
        Self { count: NonNull::from(Box::leak(Box::new(count))) }
    }

    /// For the library, which copies it.
    pub(super) fn manager(&self) -> JxlMemoryManager {
        JxlMemoryManager {
            opaque: self.count.as_ptr().cast(),
            alloc: allocate as unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void
                as *mut c_void,
            free: release as unsafe extern "C" fn(*mut c_void, *mut c_void) as *mut c_void,
        }
    }

    fn count(&self) -> &Count {
        // SAFETY: it was made in `new` and is freed in `drop` only; nobody has a mutable
        // reference to it.
        unsafe { self.count.as_ref() }
    }

    /// Whether the library failed because it was refused memory.
    pub(super) fn check(&self) -> Result<()> {
        match self.count().refused.get() {
            None => Ok(()),
            Some(found) => Err(CodecError::Limit {
                what: "bytes of native memory",
                found,
                allowed: self.count().allowed,
            }),
        }
    }

    /// Bytes that are in use.
    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.count().used.get()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made from a box in `new`, and owners of a handle destroy it before this.
        drop(unsafe { Box::from_raw(self.count.as_ptr()) });
    }
}

/// # Safety
///
/// `opaque` is the one that [`Memory::manager`] gave, of a [`Memory`] that still lives.
unsafe extern "C" fn allocate(opaque: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: by the contract of this function; the count is only read through shared references.
    let count = unsafe { &*opaque.cast::<Count>() };
    let layout = size.checked_add(HEAD).and_then(|all| Layout::from_size_align(all, HEAD).ok());
    let Some(layout) = layout else { return ptr::null_mut() };
    let with = |bytes: usize| count.used.get().saturating_add(crate::codec::u64_len(bytes));
    let used = with(layout.size());
    if used > count.allowed {
        count.refused.set(Some(used));
        return ptr::null_mut();
    }
    let Some((layout, block)) = obtain(layout) else { return ptr::null_mut() };
    count.used.set(with(layout.size()));
    // SAFETY: the block has room for its head, is aligned for it, and for `size` bytes after it.
    unsafe {
        block.cast::<usize>().write(layout.size());
        block.add(HEAD).as_ptr().cast()
    }
}

/// # Safety
///
/// `opaque` as for [`allocate`]; `address` is null or what [`allocate`] returned for it and was
/// not released yet.
unsafe extern "C" fn release(opaque: *mut c_void, address: *mut c_void) {
    if address.is_null() {
        return;
    }
    // SAFETY: by the contract, the block's head lies before the address and holds its size.
    unsafe {
        let block = address.cast::<u8>().sub(HEAD);
        let size = block.cast::<usize>().read();
        let count = &*opaque.cast::<Count>();
        count.used.set(count.used.get().saturating_sub(crate::codec::u64_len(size)));
        if let (Ok(layout), Some(block)) =
            (Layout::from_size_align(size, HEAD), NonNull::new(block))
        {
            give_back(layout, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_are_kept_for_the_next_that_is_about_as_large_within_bounds() {
        let layout = |size: usize| Layout::from_size_align(size, HEAD).unwrap();
        let mut kept = Kept { blocks: Vec::new(), bytes: 0 };
        let put = |kept: &mut Kept, size: usize| {
            let (layout, block) = obtain(layout(size)).unwrap();
            kept.put(layout, block);
            block
        };
        let first = put(&mut kept, 1 << 20);
        assert!(kept.take(layout(1 << 19)).is_none());
        assert!(kept.take(layout((1 << 20) + 1)).is_none());
        let (found, block) = kept.take(layout((1 << 20) - 100)).unwrap();
        assert_eq!((found.size(), block), (1 << 20, first));
        kept.put(found, block);
        for _ in 0..100 {
            put(&mut kept, 1 << 20);
            assert!(kept.bytes <= KEPT_BYTES);
        }
        assert_eq!(kept.blocks.len(), KEPT_BYTES >> 20);
        for _ in 0..300 {
            put(&mut kept, KEPT_FROM);
        }
        assert!(kept.blocks.len() <= KEPT_BLOCKS);
        put(&mut kept, KEPT_BYTES + 1);
        assert_eq!((kept.blocks.len(), kept.bytes), (0, 0));
    }

    #[test]
    fn blocks_are_counted_aligned_and_bounded() {
        let memory = Memory::new(&Limits::default().with_max_native_memory(1000));
        let manager = memory.manager();
        // SAFETY: as the library would call them, with the memory alive.
        unsafe {
            let first = allocate(manager.opaque, 500);
            assert!(!first.is_null() && first.addr().is_multiple_of(HEAD));
            first.cast::<u8>().write_bytes(7, 500);
            assert_eq!(memory.used(), 516);
            assert!(allocate(manager.opaque, 500).is_null());
            assert!(allocate(manager.opaque, usize::MAX).is_null());
            assert!(memory.check().is_err());
            release(manager.opaque, first);
            release(manager.opaque, ptr::null_mut());
        }
        assert_eq!(memory.used(), 0);
    }
}
