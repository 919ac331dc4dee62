//! Decoded blocks and index batches that are kept for the next read.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::error::u64_len;
use crate::index::{Block, ChunkRow};
use crate::layer::LayerId;

/// Memory for decoded blocks and index batches, shared by any number of stores.
///
/// Layers have random names that are never used twice, so stores cannot get each other's bytes,
/// whatever their paths are. What was used longest ago goes first.
#[derive(Clone)]
pub struct ArrayCache {
    inner: Arc<Mutex<Inner>>,
}

impl fmt::Debug for ArrayCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("ArrayCache")
            .field("budget", &inner.budget)
            .field("bytes", &inner.bytes)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Block(LayerId, Block),
    Batch(LayerId, usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Block(Bytes),
    Batch(Arc<Vec<ChunkRow>>),
}

impl Entry {
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Block(bytes) => bytes.len(),
            Self::Batch(rows) => rows.len().saturating_mul(size_of::<ChunkRow>()),
        };
        u64_len(bytes).saturating_add(128)
    }
}

struct Inner {
    budget: u64,
    bytes: u64,
    clock: u64,
    entries: HashMap<Key, (u64, Entry)>,
    /// Keys by the time of their last use.
    order: BTreeMap<u64, Key>,
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
        let inner =
            Inner { budget, bytes: 0, clock: 0, entries: HashMap::new(), order: BTreeMap::new() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    pub(crate) fn get(&self, key: Key) -> Option<Entry> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = inner.clock.wrapping_add(1);
        inner.clock = now;
        let (used, entry) = inner.entries.get_mut(&key)?;
        let before = std::mem::replace(used, now);
        let entry = entry.clone();
        inner.order.remove(&before);
        inner.order.insert(now, key);
        Some(entry)
    }

    pub(crate) fn put(&self, key: Key, entry: Entry) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = entry.bytes();
        // A piece that would drive out most of the rest is not worth it.
        if bytes > inner.budget / 4 || inner.entries.contains_key(&key) {
            return;
        }
        while inner.bytes.saturating_add(bytes) > inner.budget {
            let Some((_, oldest)) = inner.order.pop_first() else {
                break;
            };
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
        assert!(cache.get(key(0)).is_some());
        cache.put(key(4), Entry::Block(Bytes::from(vec![0; 100])));
        assert!(cache.get(key(1)).is_none());
        assert!(cache.get(key(0)).is_some());
        assert!(cache.get(key(4)).is_some());
    }
}
