//! Memory that the library takes, counted and bounded.

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use gamut_jxl_sys::types::JxlMemoryManager;

use crate::{CodecError, Limits, Result};

/// Bytes before each block, which hold its size; also the alignment of blocks, which is that of
/// `malloc`.
const HEAD: usize = 16;

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
    let used = count.used.get().saturating_add(crate::codec::u64_len(layout.size()));
    if used > count.allowed {
        count.refused.set(Some(used));
        return ptr::null_mut();
    }
    // SAFETY: the size is at least `HEAD`, so it is not 0.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return ptr::null_mut();
    }
    count.used.set(used);
    // SAFETY: the block has room for its head, is aligned for it, and for `size` bytes after it.
    unsafe {
        block.cast::<usize>().write(layout.size());
        block.add(HEAD).cast()
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
        if let Ok(layout) = Layout::from_size_align(size, HEAD) {
            std::alloc::dealloc(block, layout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
