//! Decoded tiles and rendered regions that are kept, within a budget of bytes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Which decoded tile: row, denominator of its scale, whether components were left as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TileKey {
    /// Which raster: 0 the native one, otherwise the level of an overview.
    pub(crate) level: u32,
    pub(crate) row: u64,
    pub(crate) scale: u32,
    pub(crate) raw: bool,
}

/// Which region: all that its pixels depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RenderKey {
    pub(crate) start: [u64; 2],
    pub(crate) step: [u64; 2],
    pub(crate) size: [u32; 2],
    pub(crate) raw: bool,
}

/// Values by key, of which those used longest ago go first when the budget is spent. A value that
/// several threads want at once is made by one of them.
///
/// A forked child neither finds what the parent had nor waits for its threads: it works without.
pub(crate) struct Cache<K> {
    budget: usize,
    process: u32,
    state: Mutex<State<K>>,
    made: Condvar,
}

struct State<K> {
    entries: HashMap<K, Entry>,
    bytes: usize,
    clock: u64,
}

enum Entry {
    /// Some thread is at it.
    Pending,
    Ready {
        value: Bytes,
        used: u64,
    },
}

/// Takes the mark of a thread that makes a value away again, whatever becomes of the thread.
struct Making<'a, K: Hash + Eq + Copy> {
    cache: &'a Cache<K>,
    key: K,
}

impl<K: Hash + Eq + Copy> Drop for Making<'_, K> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        if matches!(state.entries.get(&self.key), Some(Entry::Pending)) {
            state.entries.remove(&self.key);
        }
        drop(state);
        self.cache.made.notify_all();
    }
}

impl<K: Hash + Eq + Copy> Cache<K> {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            budget,
            process: std::process::id(),
            state: Mutex::new(State { entries: HashMap::new(), bytes: 0, clock: 0 }),
            made: Condvar::new(),
        }
    }

    pub(crate) const fn budget(&self) -> usize {
        self.budget
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is ever kept.
    fn is_off(&self) -> bool {
        self.budget == 0 || self.process != std::process::id()
    }

    /// The value of a key. It is made where it is not there, and kept if `keep` and it fits.
    /// What others make at the moment is waited for; an error is theirs alone.
    pub(crate) fn get_or_make<E>(
        &self,
        key: K,
        keep: bool,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        if self.is_off() {
            return make();
        }
        let mut state = self.lock();
        loop {
            state.clock = state.clock.wrapping_add(1);
            let now = state.clock;
            match state.entries.get_mut(&key) {
                Some(Entry::Ready { value, used }) => {
                    *used = now;
                    return Ok(value.clone());
                }
                Some(Entry::Pending) => {
                    state = self.made.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        if !keep {
            drop(state);
            return make();
        }
        state.entries.insert(key, Entry::Pending);
        drop(state);
        let making = Making { cache: self, key };
        let value = make()?;
        self.put(key, &value);
        drop(making);
        Ok(value)
    }

    /// Keeps a value, unless it alone is beyond the budget.
    fn put(&self, key: K, value: &Bytes) {
        if self.is_off() || value.len() > self.budget {
            return;
        }
        let mut state = self.lock();
        state.clock = state.clock.wrapping_add(1);
        let used = state.clock;
        let before = state.entries.insert(key, Entry::Ready { value: value.clone(), used });
        if let Some(Entry::Ready { value, .. }) = before {
            state.bytes = state.bytes.saturating_sub(value.len());
        }
        state.bytes = state.bytes.saturating_add(value.len());
        if state.bytes > self.budget {
            state.shrink(self.budget);
        }
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

impl<K: Hash + Eq + Copy> State<K> {
    /// Lets go of what was used longest ago. Somewhat more than needed, so that it is seldom done.
    fn shrink(&mut self, budget: usize) {
        let goal = budget.saturating_sub(budget / 8);
        let mut ages: Vec<(u64, K)> = self
            .entries
            .iter()
            .filter_map(|(key, entry)| match entry {
                Entry::Ready { used, .. } => Some((*used, *key)),
                Entry::Pending => None,
            })
            .collect();
        ages.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in ages {
            if self.bytes <= goal {
                break;
            }
            if let Some(Entry::Ready { value, .. }) = self.entries.remove(&key) {
                self.bytes = self.bytes.saturating_sub(value.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn bytes(length: usize) -> Bytes {
        vec![7; length].into()
    }

    #[test]
    fn threads_that_want_the_same_value_make_it_once() {
        let cache = Cache::new(1000);
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let value = cache.get_or_make(1, true, || {
                        made.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok::<_, ()>(bytes(10))
                    });
                    assert_eq!(value.unwrap().len(), 10);
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn an_error_or_a_panic_leaves_the_key_free() {
        let cache = Cache::new(1000);
        assert_eq!(cache.get_or_make(1, true, || Err("no")), Err("no"));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cache.get_or_make::<()>(1, true, || panic!("as planned"))
        }));
        assert!(caught.is_err());
        assert_eq!(cache.get_or_make::<()>(1, true, || Ok(bytes(3))).unwrap().len(), 3);
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_the_budget_is_kept() {
        let cache = Cache::new(100);
        for key in 0..4 {
            cache.get_or_make::<()>(key, true, || Ok(bytes(30))).unwrap();
        }
        assert!(cache.bytes() <= 100);
        // The last one is still there, the first one is not.
        cache.get_or_make::<()>(3, true, || panic!("it is kept")).unwrap();
        let remade = AtomicUsize::new(0);
        cache
            .get_or_make::<()>(0, true, || {
                remade.fetch_add(1, Ordering::SeqCst);
                Ok(bytes(30))
            })
            .unwrap();
        assert_eq!(remade.load(Ordering::SeqCst), 1);
        let before = cache.bytes();
        cache.get_or_make::<()>(9, true, || Ok(bytes(101))).unwrap();
        assert_eq!(cache.bytes(), before, "a value beyond the budget is not kept");
    }
}
