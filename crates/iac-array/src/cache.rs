//! Decoded blocks and index batches that are kept for the next read.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;

use crate::error::u64_len;
use crate::index::{Batch, Block};
use crate::layer::LayerId;
use crate::per_process::PerProcess;

/// Memory for decoded blocks and index batches, shared by any number of stores.
///
/// Layers have random names that are never used twice, so stores cannot get each other's bytes,
/// whatever their paths are. What was used longest ago goes first.
#[derive(Clone)]
pub struct ArrayCache {
    budget: u64,
    /// A forked child begins with nothing: a lock may be held by a thread that it does not have.
    inner: Arc<PerProcess<Mutex<Inner>>>,
}

impl fmt::Debug for ArrayCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.lock().map_or(0, |inner| inner.bytes);
        f.debug_struct("ArrayCache")
            .field("budget", &self.budget)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Block(LayerId, Block),
    /// By its number and its checksum, so that a file which took another's id gets none of its rows.
    Batch(LayerId, usize, u32),
}

impl Hash for Key {
    /// Of a few numbers only, which tell blocks apart as well as all of them do.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (LayerId(id), one, other) = match self {
            Self::Block(id, block) => {
                (id, block.offset, (u64::from(block.length) << 32) | u64::from(block.crc32))
            }
            Self::Batch(id, number, crc32) => (id, u64_len(*number), u64::from(*crc32)),
        };
        state.write_u128(u128::from_le_bytes(*id));
        state.write_u64(one);
        state.write_u64(other);
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Block(Bytes),
    Batch(Arc<Batch>),
}

impl Entry {
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Block(bytes) => bytes.len(),
            Self::Batch(rows) => rows.memory(),
        };
        u64_len(bytes).saturating_add(128)
    }
}

#[derive(Default)]
struct Inner {
    bytes: u64,
    clock: u64,
    entries: HashMap<Key, (u64, Entry)>,
    /// Keys by a time at which they were used: the last one, unless they were found since, which
    /// is looked up when something has to go.
    order: BTreeMap<u64, Key>,
    /// What is being loaded: the second who wants it waits for the first.
    loading: HashMap<Key, Arc<Gate>>,
}

type Gate = tokio::sync::Mutex<()>;

/// The right to load some entries, which others wait for until it is dropped.
pub(crate) struct Loading<'a> {
    cache: &'a ArrayCache,
    keys: Vec<Key>,
    held: Vec<OwnedMutexGuard<()>>,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.held.clear();
        if let Some(mut inner) = self.cache.lock() {
            for key in &self.keys {
                // Whoever waits has a reference of their own.
                if inner.loading.get(key).is_some_and(|gate| Arc::strong_count(gate) == 1) {
                    inner.loading.remove(key);
                }
            }
        }
    }
}

impl Default for ArrayCache {
    fn default() -> Self {
        Self::new(256 << 20)
    }
}

impl ArrayCache {
    /// A cache of at most so many bytes; 0 keeps nothing.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        Self { budget, inner: Arc::default() }
    }

    pub(crate) const fn budget(&self) -> u64 {
        self.budget
    }

    fn lock(&self) -> Option<MutexGuard<'_, Inner>> {
        let inner = self.inner.get(|| Some(Mutex::default()))?;
        Some(inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until nobody else loads any of these; they may be there then. A load that fails or is
    /// given up lets the next one try. Without a budget nothing would be there, so nobody waits.
    pub(crate) async fn load(&self, mut keys: Vec<Key>) -> Loading<'_> {
        // All in one order, so that no two wait for each other.
        keys.sort_unstable();
        keys.dedup();
        let mut gates = Vec::new();
        if self.budget == 0 {
            keys.clear();
        } else if let Some(mut inner) = self.lock() {
            gates.extend(keys.iter().map(|key| Arc::clone(inner.loading.entry(*key).or_default())));
        }
        let mut loading = Loading { cache: self, keys, held: Vec::with_capacity(gates.len()) };
        for gate in gates {
            loading.held.push(gate.lock_owned().await);
        }
        loading
    }

    /// The cache as it is now, for several lookups; nobody else gets at it meanwhile.
    pub(crate) fn view(&self) -> Option<View<'_>> {
        self.lock().map(View)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Entry> {
        self.view()?.get(key).cloned()
    }

    pub(crate) fn put(&self, key: Key, entry: Entry) {
        let Some(mut inner) = self.lock() else {
            return;
        };
        let bytes = entry.bytes();
        // A piece that would drive out most of the rest is not worth it.
        if bytes > self.budget / 4 || inner.entries.contains_key(&key) {
            return;
        }
        while inner.bytes.saturating_add(bytes) > self.budget {
            let Some((noted, oldest)) = inner.order.pop_first() else {
                break;
            };
            let used = inner.entries.get(&oldest).map(|(used, _)| *used);
            if let Some(used) = used.filter(|used| *used != noted) {
                inner.order.insert(used, oldest);
                continue;
            }
            if let Some((_, entry)) = inner.entries.remove(&oldest) {
                inner.bytes = inner.bytes.saturating_sub(entry.bytes());
            }
        }
        let now = inner.clock.wrapping_add(1);
        inner.clock = now;
        inner.bytes = inner.bytes.saturating_add(bytes);
        inner.entries.insert(key, (now, entry));
        inner.order.insert(now, key);
    }
}

/// A cache that is being looked into.
pub(crate) struct View<'a>(MutexGuard<'a, Inner>);

impl View<'_> {
    pub(crate) fn get(&mut self, key: &Key) -> Option<&Entry> {
        let inner = &mut *self.0;
        inner.clock = inner.clock.wrapping_add(1);
        let (used, entry) = inner.entries.get_mut(key)?;
        *used = inner.clock;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let cache = ArrayCache::new(1000);
        let key = |offset| Key::Block(LayerId([0; 16]), Block { offset, ..Block::default() });
        for offset in 0..4 {
            cache.put(key(offset), Entry::Block(Bytes::from(vec![0; 100])));
        }
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(4), Entry::Block(Bytes::from(vec![0; 100])));
        assert!(cache.get(&key(1)).is_none());
        assert!(cache.get(&key(0)).is_some());
        assert!(cache.get(&key(4)).is_some());
    }
}
