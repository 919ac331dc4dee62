//! Blocks of objects that are kept in memory and on disk.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::disk::Disk;
use super::location::ObjectLocation;
use super::options::ObjectOptions;
use super::ranges::length_of;
use super::source::ObjectSource;
use crate::error::{ReadError, Result};
use crate::options::ReadOptions;
use crate::pack::PackReader;
use crate::per_process::PerProcess;
use crate::source::{Advice, ByteSource, SourceRead};

/// Blocks that are loaded along where reads follow each other.
const MOST_AHEAD: u64 = 32;

/// What a cache has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUse {
    /// Blocks that were found in memory.
    pub from_memory: u64,
    /// Blocks that were found on disk.
    pub from_disk: u64,
    /// Blocks that were loaded from where they come from.
    pub loaded: u64,
    /// Bytes of the blocks that are in memory.
    pub memory_bytes: u64,
}

/// Keeps blocks of objects within a budget of memory, and on request within one of disk.
///
/// One cache serves any number of objects and threads. Threads that miss the same block at once
/// load it once. The folder on disk may be shared by several processes and may be deleted at any
/// time; what is damaged there is loaded again. A forked child begins with empty memory.
///
/// ```no_run
/// use std::sync::Arc;
/// use iac_reader::object::{BlockCache, ObjectLocation, ObjectOptions, StoreOptions};
/// use iac_reader::{PackReader, ReadOptions};
///
/// let cache = Arc::new(BlockCache::new(256 << 20).with_disk("/var/cache/iac", 20 << 30)?);
/// let place = ObjectLocation::parse("s3://cohort/slide.tiles.iac", &StoreOptions::default())?;
/// let (read, options) = (ReadOptions::default(), ObjectOptions::default());
/// let pack = PackReader::open_cached(&place, &read, &options, &cache)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BlockCache {
    memory_bytes: u64,
    block_bytes: u64,
    memory: PerProcess<Kept>,
    disk: Option<Disk>,
    from_memory: AtomicU64,
    from_disk: AtomicU64,
    loaded: AtomicU64,
}

/// An object and the number of a block of it.
type Key = (Arc<str>, u64);

#[derive(Debug, Default)]
struct Kept {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    blocks: HashMap<Key, Block>,
    /// Keys by the time of their last use.
    by_use: BTreeMap<u64, Key>,
    bytes: u64,
    clock: u64,
    loading: HashSet<Key>,
}

#[derive(Debug)]
struct Block {
    bytes: Bytes,
    used: u64,
}

impl BlockCache {
    /// A cache that takes so many bytes of memory, in blocks of 256 KiB. 0 keeps nothing in memory.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            block_bytes: 256 << 10,
            memory: PerProcess::new(),
            disk: None,
            from_memory: AtomicU64::new(0),
            from_disk: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
        }
    }

    /// Bytes of a block; at least 4 KiB, at most 16 MiB. Small ones suit small records read at
    /// random, large ones long reads. Blocks of another size in the same folder are of no use to
    /// this cache.
    #[must_use]
    pub fn block_bytes(mut self, bytes: u64) -> Self {
        self.block_bytes = bytes.clamp(4 << 10, 16 << 20);
        self
    }

    /// Keeps blocks in a folder too, which is made if it is missing, within so many bytes.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made or read.
    pub fn with_disk(mut self, folder: impl AsRef<Path>, bytes: u64) -> io::Result<Self> {
        self.disk = Some(Disk::open(folder.as_ref(), bytes)?);
        Ok(self)
    }

    /// What the cache has done so far in this process and its parents.
    #[must_use]
    pub fn usage(&self) -> CacheUse {
        CacheUse {
            from_memory: self.from_memory.load(Ordering::Relaxed),
            from_disk: self.from_disk.load(Ordering::Relaxed),
            loaded: self.loaded.load(Ordering::Relaxed),
            memory_bytes: self.kept().map_or(0, |kept| kept.lock().bytes),
        }
    }

    fn kept(&self) -> Option<&Kept> {
        self.memory.get(|| Some(Kept::default()))
    }

    /// Blocks of an object, in the order of their numbers, which are unique. `load` fills what is
    /// nowhere else.
    fn blocks(
        &self,
        object: &Object,
        numbers: &[u64],
        load: &dyn Fn(&[u64]) -> io::Result<Vec<Bytes>>,
    ) -> io::Result<HashMap<u64, Bytes>> {
        let mut found = HashMap::with_capacity(numbers.len());
        let Some(kept) = self.kept() else {
            // More generations of forks than can have memory of their own.
            found.extend(numbers.iter().copied().zip(load(numbers)?));
            return Ok(found);
        };
        let mut wanted: Vec<u64> = numbers.to_vec();
        while !wanted.is_empty() {
            let mut ours = Loading { kept, keys: Vec::new() };
            let mut theirs = Vec::new();
            let mut state = kept.lock();
            for number in wanted {
                let key = (Arc::clone(&object.name), number);
                if let Some(bytes) = state.find(&key) {
                    self.from_memory.fetch_add(1, Ordering::Relaxed);
                    found.insert(number, bytes);
                } else if state.loading.contains(&key) {
                    theirs.push(number);
                } else {
                    state.loading.insert(key.clone());
                    ours.keys.push(key);
                }
            }
            drop(state);
            // Ours first: nobody waits for somebody who waits.
            let loaded = self.load_missing(object, &ours.keys, load)?;
            let mut state = kept.lock();
            for (key, bytes) in ours.keys.iter().zip(loaded) {
                found.insert(key.1, bytes.clone());
                state.keep(key.clone(), bytes, self.memory_bytes);
            }
            drop(state);
            drop(ours);
            let mut state = kept.lock();
            for number in &theirs {
                let key = (Arc::clone(&object.name), *number);
                while state.loading.contains(&key) {
                    state = kept.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
            // What did not come, or has gone again, is loaded in the next round.
            wanted = theirs;
        }
        Ok(found)
    }

    /// Blocks from the disk, or from where they come from.
    fn load_missing(
        &self,
        object: &Object,
        keys: &[Key],
        load: &dyn Fn(&[u64]) -> io::Result<Vec<Bytes>>,
    ) -> io::Result<Vec<Bytes>> {
        let disk = self.disk.as_ref().filter(|_| object.is_lasting);
        let mut blocks: Vec<Option<Bytes>> = Vec::with_capacity(keys.len());
        for (name, number) in keys {
            let length = object.block_length(self.block_bytes, *number);
            let block = disk.and_then(|disk| disk.read(name, self.block_bytes, *number, length));
            blocks.push(block);
        }
        let missing: Vec<u64> = keys
            .iter()
            .zip(&blocks)
            .filter(|(_, block)| block.is_none())
            .map(|((_, number), _)| *number)
            .collect();
        let hits = keys.len().saturating_sub(missing.len());
        self.from_disk.fetch_add(u64::try_from(hits).unwrap_or(0), Ordering::Relaxed);
        if !missing.is_empty() {
            let mut loaded = missing.iter().copied().zip(load(&missing)?);
            self.loaded.fetch_add(u64::try_from(missing.len()).unwrap_or(0), Ordering::Relaxed);
            for block in blocks.iter_mut().filter(|block| block.is_none()) {
                if let Some((number, bytes)) = loaded.next() {
                    if let Some(disk) = disk {
                        disk.write(&object.name, self.block_bytes, number, &bytes);
                    }
                    *block = Some(bytes);
                }
            }
        }
        Ok(blocks.into_iter().flatten().collect())
    }
}

/// Ends loads, also after an error or a panic, so that nobody waits for ever.
struct Loading<'a> {
    kept: &'a Kept,
    keys: Vec<Key>,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let mut state = self.kept.lock();
        for key in &self.keys {
            state.loading.remove(key);
        }
        drop(state);
        self.kept.changed.notify_all();
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&mut self, key: &Key) -> Option<Bytes> {
        let block = self.blocks.get_mut(key)?;
        self.clock = self.clock.saturating_add(1);
        if let Some(key) = self.by_use.remove(&block.used) {
            self.by_use.insert(self.clock, key);
        }
        block.used = self.clock;
        Some(block.bytes.clone())
    }

    fn keep(&mut self, key: Key, bytes: Bytes, budget: u64) {
        let length = length_of(&bytes);
        if length > budget {
            return;
        }
        self.remove(&key);
        while self.bytes.saturating_add(length) > budget {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            self.remove(&oldest);
        }
        self.clock = self.clock.saturating_add(1);
        self.bytes = self.bytes.saturating_add(length);
        self.by_use.insert(self.clock, key.clone());
        self.blocks.insert(key, Block { bytes, used: self.clock });
    }

    fn remove(&mut self, key: &Key) {
        if let Some(block) = self.blocks.remove(key) {
            self.by_use.remove(&block.used);
            self.bytes = self.bytes.saturating_sub(length_of(&block.bytes));
        }
    }
}

#[derive(Debug)]
struct Object {
    /// Names the object's content: another one after every change.
    name: Arc<str>,
    size: u64,
    /// Whether the name means the same in another process.
    is_lasting: bool,
}

impl Object {
    /// The last block is shorter.
    fn block_length(&self, block_bytes: u64, number: u64) -> u64 {
        let start = number.saturating_mul(block_bytes);
        self.size.saturating_sub(start).min(block_bytes)
    }
}

/// A source whose blocks are kept in a [`BlockCache`].
#[derive(Debug)]
pub struct CachedSource {
    beneath: Arc<dyn ByteSource>,
    object: Object,
    cache: Arc<BlockCache>,
    run: Mutex<Run>,
}

/// Reads that follow each other.
#[derive(Debug)]
struct Run {
    /// The last block that was read.
    last: u64,
    /// How many blocks were loaded beyond it at the last turn.
    ahead: u64,
    /// Blocks before this one were loaded.
    until: u64,
}

/// Names for objects whose servers give none.
static UNNAMED: AtomicU64 = AtomicU64::new(0);

impl CachedSource {
    /// Puts a cache before a source.
    ///
    /// `name` stands for the content of the source: it must change when that does, and differ from
    /// the names of all others (an URL with an entity tag, say). Without one the blocks serve this
    /// source only and stay off the disk.
    pub fn new(source: Arc<dyn ByteSource>, name: Option<String>, cache: &Arc<BlockCache>) -> Self {
        let is_lasting = name.is_some();
        let name = name.unwrap_or_else(|| {
            format!("\n{}.{}", std::process::id(), UNNAMED.fetch_add(1, Ordering::Relaxed))
        });
        let object = Object { name: Arc::from(name), size: source.size(), is_lasting };
        let cache = Arc::clone(cache);
        let run = Mutex::new(Run { last: u64::MAX, ahead: 0, until: 0 });
        Self { beneath: source, object, cache, run }
    }

    /// The blocks of a stretch.
    fn numbers(&self, offset: u64, length: u64) -> std::ops::RangeInclusive<u64> {
        let block = self.cache.block_bytes;
        let last = offset.saturating_add(length.saturating_sub(1));
        offset.checked_div(block).unwrap_or(0)..=last.checked_div(block).unwrap_or(0)
    }

    /// Adds the blocks that are likely to be read next: more and more while reads follow each
    /// other.
    fn look_ahead(&self, numbers: &mut Vec<u64>) {
        let (Some(first), Some(last)) = (numbers.first().copied(), numbers.last().copied()) else {
            return;
        };
        let is_one_stretch = last.saturating_sub(first).saturating_add(1)
            == u64::try_from(numbers.len()).unwrap_or(0);
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let follows =
            is_one_stretch && (first == run.last || Some(first) == run.last.checked_add(1));
        run.last = last;
        if !follows {
            run.ahead = 0;
            run.until = last.saturating_add(1);
        } else if last >= run.until {
            // Only at the end of what was loaded ahead, so that blocks do not come one by one.
            run.ahead = run.ahead.saturating_mul(2).clamp(1, MOST_AHEAD);
            let blocks = self.object.size.div_ceil(self.cache.block_bytes);
            run.until = last.saturating_add(1).saturating_add(run.ahead).min(blocks);
            numbers.extend(last.saturating_add(1)..run.until);
        }
    }

    fn load(&self, numbers: &[u64]) -> io::Result<Vec<Bytes>> {
        let block = self.cache.block_bytes;
        let mut buffers = Vec::with_capacity(numbers.len());
        for number in numbers {
            let length = self.object.block_length(block, *number);
            let length = usize::try_from(length).map_err(io::Error::other)?;
            let mut buffer = Vec::new();
            buffer.try_reserve_exact(length).map_err(io::Error::other)?;
            buffer.resize(length, 0_u8);
            buffers.push(buffer);
        }
        let mut reads: Vec<SourceRead<'_>> = numbers
            .iter()
            .zip(&mut buffers)
            .map(|(number, buffer)| SourceRead { offset: number.saturating_mul(block), buffer })
            .collect();
        self.beneath.read_batch(&mut reads)?;
        drop(reads);
        Ok(buffers.into_iter().map(Bytes::from).collect())
    }
}

impl ByteSource for CachedSource {
    fn size(&self) -> u64 {
        self.object.size
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_batch(&mut [SourceRead { offset, buffer }])
    }

    fn read_batch(&self, reads: &mut [SourceRead<'_>]) -> io::Result<()> {
        let mut numbers: Vec<u64> = Vec::new();
        let mut cached: Vec<SourceRead<'_>> = Vec::with_capacity(reads.len());
        for read in reads {
            let length = length_of(read.buffer);
            let end = read.offset.checked_add(length);
            if end.is_none_or(|end| end > self.object.size) {
                // Says what is wrong.
                return self.beneath.read_into(read.offset, read.buffer);
            }
            if let Some(found) = self.beneath.shared(read.offset, read.buffer.len()) {
                read.buffer.copy_from_slice(&found);
            } else if length > 0 {
                numbers.extend(self.numbers(read.offset, length));
                cached.push(SourceRead { offset: read.offset, buffer: read.buffer });
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        self.look_ahead(&mut numbers);
        let blocks = self.cache.blocks(&self.object, &numbers, &|numbers| self.load(numbers))?;
        let block_bytes = self.cache.block_bytes;
        for read in cached {
            let mut done = 0_usize;
            for number in self.numbers(read.offset, length_of(read.buffer)) {
                let at = read.offset.saturating_add(u64::try_from(done).unwrap_or(u64::MAX));
                let inside = at.saturating_sub(number.saturating_mul(block_bytes));
                let from = blocks
                    .get(&number)
                    .and_then(|block| block.get(usize::try_from(inside).ok()?..))
                    .unwrap_or_default();
                let Some(to) = read.buffer.get_mut(done..) else {
                    break;
                };
                let count = to.len().min(from.len());
                if let (Some(to), Some(from)) = (to.get_mut(..count), from.get(..count)) {
                    to.copy_from_slice(from);
                }
                done = done.saturating_add(count);
            }
            if done < read.buffer.len() {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("a block of the cache was too short at offset {}", read.offset),
                ));
            }
        }
        Ok(())
    }

    fn prefers_batches(&self) -> bool {
        self.beneath.prefers_batches()
    }

    fn shared(&self, offset: u64, length: usize) -> Option<Bytes> {
        self.beneath.shared(offset, length)
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        self.beneath.advise(advice)
    }

    fn will_need(&self, offset: u64, length: u64) -> io::Result<()> {
        self.beneath.will_need(offset, length)
    }
}

impl PackReader {
    /// Opens a pack that is an object, and keeps what is read of it in a cache. Local files, and
    /// objects that came as a whole, need none.
    ///
    /// # Errors
    ///
    /// As [`PackReader::open_object`].
    pub fn open_cached(
        location: &ObjectLocation,
        read: &ReadOptions,
        options: &ObjectOptions,
        cache: &Arc<BlockCache>,
    ) -> Result<Self> {
        let source = ObjectSource::open(location, options).map_err(|source| ReadError::Io {
            path: Arc::from(location.name()),
            action: "open",
            source,
        })?;
        let name = source.identity().zip(location.memory_key());
        let name = name.map(|(identity, place)| format!("{place}\n{identity}"));
        let is_remote = source.is_remote();
        let source: Arc<dyn ByteSource> = Arc::new(source);
        let source =
            if is_remote { Arc::new(CachedSource::new(source, name, cache)) } else { source };
        Self::from_source(source, location.name(), read)
    }
}
