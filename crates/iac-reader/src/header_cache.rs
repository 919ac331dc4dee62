//! The process-wide cache of header texts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::per_process::PerProcess;
use crate::spare;

/// Bounds of the header cache, and whether there is one at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheConfig {
    /// Whether headers are kept. Default: yes.
    pub enabled: bool,
    /// Most headers that are kept. Default: 4096; 0 keeps none.
    pub max_entries: usize,
    /// Most bytes of JSON text that are kept. Default: 64 MiB; a larger header is never kept.
    pub max_bytes: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { enabled: true, max_entries: 4096, max_bytes: 64 << 20 }
    }
}

/// Replaces the whole configuration of the header cache and trims it at once; a cache that is
/// switched off is emptied.
pub fn configure_cache(config: CacheConfig) {
    if let Some(cache) = CACHE.get(new_cache) {
        let mut state = cache.lock();
        state.config = config;
        state.generation = state.generation.wrapping_add(1);
        if config.enabled {
            state.trim();
        } else {
            state.clear();
        }
    }
}

/// Empties the header cache and keeps its configuration, and gives memory of earlier batches back
/// to the system.
pub fn clear_caches() {
    spare::clear();
    if let Some(cache) = CACHE.get(new_cache) {
        let mut state = cache.lock();
        state.generation = state.generation.wrapping_add(1);
        state.clear();
    }
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
    pub(crate) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileKey {
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Without inode and change time a replaced file cannot be told: no caching.
    #[cfg(not(unix))]
    pub(crate) fn of(_metadata: &Metadata) -> Option<Self> {
        None
    }
}

static CACHE: PerProcess<Cache> = PerProcess::new();

fn new_cache() -> Option<Cache> {
    Some(Cache::default())
}

/// The header text of a file: from the cache, or loaded and kept.
///
/// Threads that miss the same file at once load it once; the others wait. Failures are not kept.
pub(crate) fn text_of<E>(
    path: &Path,
    key: FileKey,
    load: impl FnOnce() -> Result<Arc<str>, E>,
) -> Result<Arc<str>, E> {
    let absolute = std::path::absolute(path).map(|path| fold(&path));
    match (CACHE.get(new_cache), absolute) {
        (Some(cache), Ok(absolute)) => cache.text_of(absolute, key, load),
        _ => load(),
    }
}

/// Folds `.` and `..` without asking the file system, so that links keep entries of their own.
fn fold(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut folded = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                folded.pop();
            }
            Component::CurDir => {}
            other => folded.push(other),
        }
    }
    folded
}

#[derive(Default)]
struct Cache {
    state: Mutex<State>,
    loaded: Condvar,
}

#[derive(Default)]
struct State {
    config: CacheConfig,
    entries: HashMap<PathBuf, Entry>,
    /// Paths by the time of their last use.
    by_use: BTreeMap<u64, PathBuf>,
    bytes: usize,
    clock: u64,
    loading: HashSet<(PathBuf, FileKey)>,
    /// Changes when the cache is cleared or reconfigured: loads in flight then are not kept.
    generation: u64,
}

struct Entry {
    key: FileKey,
    text: Arc<str>,
    used: u64,
}

/// Ends a load, also when it panics, so that nobody waits for ever.
struct Loading<'a> {
    cache: &'a Cache,
    id: (PathBuf, FileKey),
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.cache.lock().loading.remove(&self.id);
        self.cache.loaded.notify_all();
    }
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text_of<E>(
        &self,
        path: PathBuf,
        key: FileKey,
        load: impl FnOnce() -> Result<Arc<str>, E>,
    ) -> Result<Arc<str>, E> {
        let id = (path, key);
        let mut state = self.lock();
        loop {
            if !state.config.enabled {
                drop(state);
                return load();
            }
            if let Some(text) = state.find(&id.0, key) {
                return Ok(text);
            }
            if !state.loading.contains(&id) {
                break;
            }
            state = self.loaded.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let generation = state.generation;
        state.loading.insert(id.clone());
        drop(state);

        let loading = Loading { cache: self, id };
        let text = load()?;
        let mut state = self.lock();
        if state.generation == generation {
            state.keep(loading.id.0.clone(), key, Arc::clone(&text));
        }
        drop(state);
        Ok(text)
    }
}

impl State {
    fn find(&mut self, path: &Path, key: FileKey) -> Option<Arc<str>> {
        let entry = self.entries.get_mut(path).filter(|entry| entry.key == key)?;
        self.clock = self.clock.saturating_add(1);
        if let Some(path) = self.by_use.remove(&entry.used) {
            self.by_use.insert(self.clock, path);
        }
        entry.used = self.clock;
        Some(Arc::clone(&entry.text))
    }

    fn keep(&mut self, path: PathBuf, key: FileKey, text: Arc<str>) {
        self.remove(&path);
        self.clock = self.clock.saturating_add(1);
        self.bytes = self.bytes.saturating_add(text.len());
        self.by_use.insert(self.clock, path.clone());
        self.entries.insert(path, Entry { key, text, used: self.clock });
        self.trim();
    }

    fn remove(&mut self, path: &Path) {
        if let Some(entry) = self.entries.remove(path) {
            self.by_use.remove(&entry.used);
            self.bytes = self.bytes.saturating_sub(entry.text.len());
        }
    }

    /// Drops the longest unused entries until the bounds hold. An entry larger than all the room
    /// goes first: keeping it would only push out everything else.
    fn trim(&mut self) {
        let room = self.config.max_bytes;
        let too_large: Vec<PathBuf> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.text.len() > room)
            .map(|(path, _)| path.clone())
            .collect();
        for path in too_large {
            self.remove(&path);
        }
        while self.entries.len() > self.config.max_entries || self.bytes > room {
            let Some(path) = self.by_use.first_key_value().map(|(_, path)| path.clone()) else {
                break;
            };
            self.remove(&path);
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.by_use.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn key(size: u64) -> FileKey {
        FileKey { device: 1, inode: 2, size, modified: (3, 4), changed: (5, 6) }
    }

    fn load(text: &str) -> impl FnOnce() -> Result<Arc<str>, ()> {
        let text: Arc<str> = Arc::from(text);
        move || Ok(text)
    }

    fn no_load() -> Result<Arc<str>, ()> {
        Err(())
    }

    fn cache(max_entries: usize, max_bytes: usize) -> Cache {
        let cache = Cache::default();
        cache.lock().config = CacheConfig { enabled: true, max_entries, max_bytes };
        cache
    }

    #[test]
    fn a_hit_needs_the_same_file_state() {
        let cache = cache(10, 100);
        let path = PathBuf::from("a");
        assert_eq!(&*cache.text_of(path.clone(), key(1), load("one")).unwrap(), "one");
        assert_eq!(&*cache.text_of(path.clone(), key(1), no_load).unwrap(), "one");
        assert!(cache.text_of(path.clone(), key(2), no_load).is_err());
        assert_eq!(&*cache.text_of(path.clone(), key(2), load("two")).unwrap(), "two");
        assert!(cache.text_of(path, key(1), no_load).is_err(), "one entry for each path");
        assert_eq!(cache.lock().bytes, 3);
    }

    #[test]
    fn the_longest_unused_entry_goes_first() {
        let cache = cache(2, 100);
        for name in ["a", "b"] {
            cache.text_of(PathBuf::from(name), key(1), load(name)).unwrap();
        }
        cache.text_of(PathBuf::from("a"), key(1), no_load).unwrap();
        cache.text_of(PathBuf::from("c"), key(1), load("c")).unwrap();
        assert!(cache.text_of(PathBuf::from("a"), key(1), no_load).is_ok());
        assert!(cache.text_of(PathBuf::from("b"), key(1), no_load).is_err());
    }

    #[test]
    fn an_entry_larger_than_the_room_is_not_kept_and_pushes_nothing_out() {
        let cache = cache(10, 4);
        cache.text_of(PathBuf::from("a"), key(1), load("abc")).unwrap();
        cache.text_of(PathBuf::from("b"), key(1), load("abcde")).unwrap();
        assert!(cache.text_of(PathBuf::from("a"), key(1), no_load).is_ok());
        assert!(cache.text_of(PathBuf::from("b"), key(1), no_load).is_err());
        assert_eq!(cache.lock().bytes, 3);
    }

    #[test]
    fn a_load_in_flight_while_the_cache_is_cleared_is_not_kept() {
        let cache = cache(10, 100);
        cache
            .text_of::<()>(PathBuf::from("a"), key(1), || {
                let mut state = cache.lock();
                state.generation += 1;
                state.clear();
                Ok(Arc::from("old"))
            })
            .unwrap();
        assert!(cache.text_of(PathBuf::from("a"), key(1), no_load).is_err());
    }

    #[test]
    fn threads_that_miss_together_load_once() {
        let cache = cache(10, 100);
        let loads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let text = cache.text_of::<()>(PathBuf::from("a"), key(1), || {
                        loads.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(Arc::from("text"))
                    });
                    assert_eq!(&*text.unwrap(), "text");
                });
            }
        });
        assert_eq!(loads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_failed_load_wakes_the_others() {
        let cache = cache(10, 100);
        assert!(cache.text_of(PathBuf::from("a"), key(1), no_load).is_err());
        assert!(cache.lock().loading.is_empty());
    }

    #[test]
    fn paths_are_folded_without_the_file_system() {
        assert_eq!(fold(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(fold(Path::new("/../a")), Path::new("/a"));
    }
}
