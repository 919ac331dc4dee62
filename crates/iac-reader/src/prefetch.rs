//! Telling the processor what will be read next.
#![allow(unsafe_code)] // the prefetch instruction

/// Bytes of one cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// Longer records are found by the processor's own prefetching once their start is read.
#[cfg(target_arch = "x86_64")]
const MOST_BYTES: usize = 4096;

/// Has the page that `bytes` begin in found while other work goes on, with the first line of it.
///
/// A record far from the last ones lies in a page whose place in memory the processor must look up
/// first, which takes about as long as loading a line.
#[inline]
pub(crate) fn find_ahead(bytes: &[u8]) {
    load_ahead(bytes.get(..1).unwrap_or_default());
}

/// Has the start of `bytes` loaded into the cache while other work goes on.
///
/// Records of a random batch lie far apart, and a copy alone waits for memory at each of them.
#[inline]
pub(crate) fn load_ahead(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes.len().min(MOST_BYTES)).step_by(LINE) {
        // SAFETY: a prefetch reads nothing and never faults, whatever the address; this one lies
        // inside a slice.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
                bytes.as_ptr().add(at).cast(),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
