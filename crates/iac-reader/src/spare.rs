//! Memory of batches that nobody holds any more, to be filled again.
//!
//! Large memory that is fresh from the system costs a page fault for every 4 KiB, which takes about
//! as long as copying records into it; and it goes back to the system when the batch is dropped.

use std::sync::{Mutex, MutexGuard, TryLockError};

use bytes::Bytes;

/// Smaller buffers are kept by the allocator itself.
const LEAST_BYTES: usize = 128 << 10;
/// What is kept at most, for all packs of the process together.
const KEPT_BYTES: usize = 32 << 20;

/// Buffers that can be filled again, the one that waits longest first.
///
/// Never waited for: whoever finds it taken does without, also in a forked child whose parent held
/// it at the moment of the fork.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn spare() -> Option<MutexGuard<'static, Vec<Vec<u8>>>> {
    match SPARE.try_lock() {
        Ok(spare) => Some(spare),
        // Every state of the list is a good one.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A buffer with room for so many bytes; nothing where there is no memory. It has the length that it
/// had before, so that filling it in parts need not begin with zeros.
pub(crate) fn buffer(bytes: usize) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    if bytes < LEAST_BYTES {
        buffer.try_reserve_exact(bytes).ok()?;
        return Some(buffer);
    }
    if let Some(mut spare) = spare() {
        // A small batch shall not hold the memory of a large one.
        let fits = bytes..=bytes.saturating_mul(2);
        let found =
            spare.iter().enumerate().filter(|(_, buffer)| fits.contains(&buffer.capacity()));
        if let Some((at, _)) = found.min_by_key(|(_, buffer)| buffer.capacity()) {
            return Some(spare.remove(at));
        }
    }
    // Batches of as many records differ a little in size. Memory that is not touched costs nothing.
    let step = (bytes / 8).checked_next_power_of_two()?;
    buffer.try_reserve_exact(bytes.checked_next_multiple_of(step)?).ok()?;
    Some(buffer)
}

/// Keeps the memory of a buffer, or gives it back to the system.
pub(crate) fn keep(buffer: Vec<u8>) {
    let bytes = buffer.capacity();
    if !(LEAST_BYTES..=KEPT_BYTES).contains(&bytes) {
        return;
    }
    let Some(mut spare) = spare() else { return };
    spare.push(buffer);
    let mut kept: usize = spare.iter().map(Vec::capacity).sum();
    let mut gone = Vec::new();
    while kept > KEPT_BYTES && !spare.is_empty() {
        let oldest = spare.remove(0);
        kept = kept.saturating_sub(oldest.capacity());
        gone.push(oldest);
    }
    // Giving memory back takes long.
    drop(spare);
    drop(gone);
}

/// Shares a buffer, whose memory is kept when the last of its slices is dropped.
pub(crate) fn share(buffer: Vec<u8>) -> Bytes {
    struct Shared(Vec<u8>);

    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Shared {
        fn drop(&mut self) {
            keep(std::mem::take(&mut self.0));
        }
    }

    if buffer.capacity() < LEAST_BYTES {
        return Bytes::from(buffer);
    }
    Bytes::from_owner(Shared(buffer))
}

/// Gives everything that is kept back to the system.
pub(crate) fn clear() {
    let kept = spare().map(|mut spare| std::mem::take(&mut *spare));
    drop(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        SPARE.lock().unwrap().iter().map(Vec::capacity).sum()
    }

    // One test, as what is kept is the process's.
    #[test]
    fn memory_is_used_again_up_to_a_bound() {
        clear();
        assert_eq!(buffer(10).unwrap().capacity(), 10);
        let mut first = buffer(1_000_000).unwrap();
        assert!(first.capacity() >= 1_000_000);
        first.extend_from_slice(b"patient");
        let place = first.as_ptr();
        let bytes = share(first);
        let (a, b) = (bytes.slice(..3), bytes.slice(3..));
        drop(bytes);
        drop(a);
        assert_eq!((kept(), &*b), (0, b"ient".as_slice()), "a slice still holds it");
        drop(b);

        // Slightly more fits too, much less does not.
        let small = buffer(400_000).unwrap();
        assert!(small.as_ptr() != place);
        let again = buffer(1_010_000).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (place, 7));

        for _ in 0..40 {
            keep(Vec::with_capacity(1 << 20));
        }
        assert_eq!(kept(), KEPT_BYTES);
        keep(Vec::with_capacity(KEPT_BYTES + 1));
        keep(Vec::with_capacity(LEAST_BYTES - 1));
        assert_eq!(kept(), KEPT_BYTES);
        let held = SPARE.lock().unwrap();
        assert!(buffer(1 << 20).is_some(), "nobody waits");
        keep(Vec::with_capacity(1 << 20));
        drop(held);
        clear();
        assert_eq!(kept(), 0);
        assert!(buffer(usize::MAX).is_none());
    }
}
