//! Process-wide values that a forked child must not inherit.

use std::sync::OnceLock;

/// Generations of forked children that can have a value of their own.
const GENERATIONS: usize = 16;

/// One value for each process: a forked child finds none and makes its own.
///
/// A lock that another thread held at the moment of the fork stays locked in the child for ever,
/// and threads do not come along at all. So nothing of the parent's value is touched in the child.
pub(crate) struct PerProcess<T> {
    slots: [OnceLock<(u32, T)>; GENERATIONS],
}

impl<T> std::fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: [const { OnceLock::new() }; GENERATIONS] }
    }

    /// This process's value, made on first use; `None` after more generations of children than
    /// there are places, and where `make` has nothing to offer.
    pub(crate) fn get(&self, make: impl FnOnce() -> Option<T>) -> Option<&T> {
        let process = std::process::id();
        let mut made = None;
        let mut make = Some(make);
        for slot in &self.slots {
            if slot.get().is_none() {
                if let Some(make) = make.take() {
                    made = make();
                }
                // Made before it is put in: `set` holds the slot only for the move.
                if let Err((_, value)) = slot.set((process, made.take()?)) {
                    made = Some(value);
                }
            }
            match slot.get() {
                Some((owner, value)) if *owner == process => return Some(value),
                _ => {}
            }
        }
        None
    }
}

impl<T> Drop for PerProcess<T> {
    /// What belongs to a parent is left alone in the child: dropping it could wait for a lock that
    /// nobody will ever give back.
    fn drop(&mut self) {
        let process = std::process::id();
        for slot in &mut self.slots {
            if let Some((owner, value)) = slot.take()
                && owner != process
            {
                std::mem::forget(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_made_once() {
        static VALUE: PerProcess<u32> = PerProcess::new();
        assert_eq!(VALUE.get(|| None), None);
        assert_eq!(VALUE.get(|| Some(1)), Some(&1));
        assert_eq!(VALUE.get(|| Some(2)), Some(&1));
    }

    #[test]
    fn a_value_of_another_process_is_passed_over() {
        let value = PerProcess::new();
        value.slots[0].set((std::process::id().wrapping_add(1), 1)).unwrap();
        assert_eq!(value.get(|| Some(2)), Some(&2));
        assert_eq!(value.slots[1].get(), Some(&(std::process::id(), 2)));
    }
}
