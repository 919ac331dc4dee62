//! Values that a forked child must not share with its parent.

use std::fmt;
use std::sync::OnceLock;

/// Generations of forked children that can each have a value of their own.
const GENERATIONS: usize = 8;

/// A value for each process, made when it is first asked for.
///
/// Threads do not survive a fork, and a lock that one of them held stays held in the child. A child
/// therefore never touches what its parent made.
pub(crate) struct PerProcess<T> {
    made: [OnceLock<(u32, T)>; GENERATIONS],
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self { made: [const { OnceLock::new() }; GENERATIONS] }
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

impl<T> PerProcess<T> {
    /// This process's value; none when `make` has none to give, or there were too many
    /// generations.
    pub(crate) fn get(&self, make: impl Fn() -> Option<T>) -> Option<&T> {
        let process = std::process::id();
        for slot in &self.made {
            if slot.get().is_none() {
                // Another thread may be faster; what is made in vain is dropped.
                drop(slot.set((process, make()?)));
            }
            if let Some((owner, value)) = slot.get()
                && *owner == process
            {
                return Some(value);
            }
        }
        None
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let process = std::process::id();
        for slot in &mut self.made {
            // Dropping what belongs to a parent could wait for threads that are not there.
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
    fn a_process_keeps_its_value() {
        let value = PerProcess::default();
        assert_eq!(value.get(|| None), None);
        assert_eq!(value.get(|| Some(1)), Some(&1));
        assert_eq!(value.get(|| Some(2)), Some(&1));
    }
}
