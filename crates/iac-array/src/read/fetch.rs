//! Bringing batches of indexes and blocks into memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rayon::prelude::*;

use crate::backend::{LocalFile, is_missing};
use crate::cache::{Entry, Key};
use crate::codec::BlockCodec;
use crate::error::{ArrayError, Result, u64_len};
use crate::index::{Batch, Block, decode_batch};
use crate::layer::Layer;
use crate::snapshot::Inner;

/// Stored bytes that are in memory at once while a call reads from a store that is not a folder.
const WINDOW_STORED: u64 = 64 << 20;
/// Bytes up to which two blocks are read by the calling thread: waking others takes longer.
const ALONE_BYTES: u64 = 1 << 20;

/// A block of a layer of the snapshot.
pub(crate) type LayerBlock = (usize, Block);

/// What a block decodes to: memory of its own, or memory that the next block is decoded into.
pub(super) enum Decoded<'a> {
    Own(Bytes),
    Lent(&'a [u8]),
}

impl Decoded<'_> {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(bytes) => bytes,
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(bytes) => Bytes::copy_from_slice(bytes),
        }
    }
}

/// Where the stored bytes of a block are.
enum Stored<'a> {
    Decoded(Bytes),
    Fetched(Bytes),
    File(&'a LocalFile),
}

/// Memory that a thread uses again from block to block, while it is still in the processor's cache.
#[derive(Default)]
struct Scratch {
    stored: Vec<u8>,
    raw: Vec<u8>,
}

impl Inner {
    /// Decoded batches of a layer's index, by number.
    pub(crate) async fn batches(
        &self,
        layer: usize,
        numbers: &[usize],
    ) -> Result<HashMap<usize, Arc<Batch>>> {
        let wanted: Vec<(usize, usize)> = numbers.iter().map(|number| (layer, *number)).collect();
        let loaded = self.batches_of(&wanted).await?;
        Ok(loaded.into_iter().map(|((_, number), rows)| (number, rows)).collect())
    }

    /// Decoded batches of the indexes of layers, by layer and number.
    pub(super) async fn batches_of(
        &self,
        wanted: &[(usize, usize)],
    ) -> Result<HashMap<(usize, usize), Arc<Batch>>> {
        let cache = &self.backend.cache;
        let mut loaded = HashMap::with_capacity(wanted.len());
        let mut missing = Vec::new();
        {
            let mut view = cache.view();
            for at @ (layer, number) in wanted {
                let (Some(layer), Some(path)) = (self.layers.get(*layer), self.paths.get(*layer))
                else {
                    continue;
                };
                let Some(place) = layer.batches.get(*number) else {
                    continue;
                };
                let key = Key::Batch(layer.id, *number, place.crc32);
                match view.as_mut().and_then(|view| view.get(&key)) {
                    Some(Entry::Batch(rows)) => {
                        loaded.insert(*at, Arc::clone(rows));
                    }
                    _ => missing.push((*at, key, layer, path, place)),
                }
            }
        }
        if missing.is_empty() {
            return Ok(loaded);
        }
        let _loading = cache.load(missing.iter().map(|(_, key, ..)| *key).collect()).await;
        missing.retain(|(at, key, ..)| match cache.get(key) {
            Some(Entry::Batch(rows)) => {
                loaded.insert(*at, rows);
                false
            }
            _ => true,
        });
        let ranges: Vec<_> = (missing.iter())
            .map(|(_, _, layer, path, place)| {
                let start = layer.layout.index_table.offset.saturating_add(place.offset);
                ((*path).clone(), start..start.saturating_add(place.length))
            })
            .collect();
        let fetched = self.backend.ranges(&ranges).await.map_err(|error| self.explained(error))?;
        let decode = |(number, bytes): (usize, &Bytes)| {
            let (_, _, layer, _, place) = missing.get(number)?;
            let (data, codecs) = (layer.layout.data.length, layer.codecs.len());
            Some(decode_batch(&layer.object, place, bytes, data, codecs, layer.validity))
        };
        let decoded: Vec<Option<Result<Batch>>> = if fetched.len() <= 1 {
            fetched.iter().enumerate().map(decode).collect()
        } else {
            self.backend.install(|| fetched.par_iter().enumerate().map(decode).collect())
        };
        for ((at, key, ..), rows) in missing.iter().zip(decoded) {
            let Some(rows) = rows else {
                continue;
            };
            let rows = Arc::new(rows?);
            cache.put(*key, Entry::Batch(Arc::clone(&rows)));
            loaded.insert(*at, rows);
        }
        Ok(loaded)
    }

    /// Decoded blocks; the list is sorted. Those that are to be kept stay in the cache.
    pub(crate) async fn blocks(
        &self,
        wanted: &[LayerBlock],
        keep: bool,
    ) -> Result<BTreeMap<LayerBlock, Bytes>> {
        let mut distinct = wanted.to_vec();
        distinct.dedup();
        let blocks = Mutex::new(BTreeMap::new());
        self.each_block(&distinct, keep, 0, |at, decoded| {
            if let Some(block) = distinct.get(at) {
                let mut blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
                blocks.insert(*block, decoded.into_bytes());
            }
            Ok(())
        })
        .await?;
        Ok(blocks.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands each block, decoded, to `then` with its place in the list, on several threads where
    /// there is much to do. The list is sorted and names no block twice. `keep` says whether the
    /// blocks shall stay in the cache, `then_bytes` how many bytes `then` writes in all.
    pub(super) async fn each_block(
        &self,
        wanted: &[LayerBlock],
        keep: bool,
        then_bytes: u64,
        then: impl Fn(usize, Decoded<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let (mut ready, mut missing) = self.cached(wanted, (0..wanted.len()).collect());
        let mut _loading = None;
        if keep && !missing.is_empty() {
            let blocks = missing.iter().filter_map(|at| wanted.get(*at));
            let keys = blocks.filter_map(|block| self.key(block)).collect();
            _loading = Some(self.backend.cache.load(keys).await);
            let (more, left) = self.cached(wanted, missing);
            ready.extend(more);
            missing = left;
        }
        let spread = |jobs: Vec<(usize, Stored<'_>)>| {
            let run = |scratch: &mut Scratch, (at, stored): (usize, Stored<'_>)| {
                let Some(block) = wanted.get(at) else {
                    return Ok(());
                };
                then(at, self.decoded(block, stored, keep, scratch)?)
            };
            let made = jobs.iter().filter(|(_, stored)| !matches!(stored, Stored::Decoded(_)));
            let raw = made.filter_map(|(at, _)| Some(u64::from(wanted.get(*at)?.1.raw_length)));
            let work = raw.fold(then_bytes, u64::saturating_add);
            if work <= ALONE_BYTES / 2 || (jobs.len() <= 2 && then_bytes <= ALONE_BYTES) {
                let mut scratch = Scratch::default();
                return jobs.into_iter().try_for_each(|job| run(&mut scratch, job));
            }
            self.backend.install(|| jobs.into_par_iter().try_for_each_init(Scratch::default, run))
        };
        if missing.is_empty() {
            return spread(ready);
        }
        if let Some(files) = self.local_files(missing.iter().filter_map(|at| wanted.get(*at)))? {
            let file =
                |at: usize| files.get(&wanted.get(at)?.0).map(|file| (at, Stored::File(file)));
            ready.extend(missing.into_iter().filter_map(file));
            ready.sort_unstable_by_key(|(at, _)| *at);
            return spread(ready);
        }
        spread(ready)?;
        let mut rest = missing.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(window(wanted, rest));
            let blocks: Vec<LayerBlock> =
                now.iter().filter_map(|at| wanted.get(*at).copied()).collect();
            let fetched = self.stored_blocks(&blocks).await?;
            let jobs = now.iter().zip(fetched).map(|(at, bytes)| (*at, Stored::Fetched(bytes)));
            spread(jobs.collect())?;
            rest = later;
        }
        Ok(())
    }

    fn key(&self, (layer, block): &LayerBlock) -> Option<Key> {
        self.layers.get(*layer).map(|layer| Key::Block(layer.id, *block))
    }

    /// Blocks of a list that are in the cache, and the places of those that are not.
    fn cached(
        &self,
        wanted: &[LayerBlock],
        places: Vec<usize>,
    ) -> (Vec<(usize, Stored<'_>)>, Vec<usize>) {
        let mut view = self.backend.cache.view();
        let (mut ready, mut missing) = (Vec::new(), Vec::new());
        for at in places {
            let key = wanted.get(at).and_then(|block| self.key(block));
            match key.zip(view.as_mut()).and_then(|(key, view)| view.get(&key)) {
                Some(Entry::Block(bytes)) => ready.push((at, Stored::Decoded(bytes.clone()))),
                _ => missing.push(at),
            }
        }
        (ready, missing)
    }

    /// The layers' files that blocks lie in, by number, where the store is a folder.
    fn local_files<'a>(
        &self,
        blocks: impl Iterator<Item = &'a LayerBlock>,
    ) -> Result<Option<HashMap<usize, LocalFile>>> {
        let mut files = HashMap::new();
        for (layer, _) in blocks {
            if files.contains_key(layer) {
                continue;
            }
            let Some(path) = self.paths.get(*layer) else {
                continue;
            };
            match self.backend.open_local(path).map_err(|error| self.explained(error))? {
                Some(file) => files.insert(*layer, file),
                None => return Ok(None),
            };
        }
        Ok(Some(files))
    }

    /// Reads a block, where that is still to be done, compares its checksum and decodes it.
    fn decoded<'s>(
        &self,
        (number, block): &LayerBlock,
        stored: Stored<'_>,
        keep: bool,
        scratch: &'s mut Scratch,
    ) -> Result<Decoded<'s>> {
        let Some(layer) = self.layers.get(*number) else {
            return Ok(Decoded::Lent(&[]));
        };
        let Scratch { stored: room, raw } = scratch;
        let stored = match stored {
            Stored::Decoded(bytes) => return Ok(Decoded::Own(bytes)),
            Stored::Fetched(bytes) => Read::Own(bytes),
            Stored::File(file) => {
                let start = layer.layout.data.offset.saturating_add(block.offset);
                let range = start..start.saturating_add(u64::from(block.length));
                if keep && layer.stores_as_is(block) {
                    Read::Own(file.read(range)?)
                } else {
                    Read::Lent(file.read_into(range, room)?)
                }
            }
        };
        let codec = layer.check_block(block, stored.as_slice())?;
        let decoded = match stored {
            Read::Own(bytes) if codec.is_none() => Decoded::Own(bytes),
            Read::Lent(bytes) if codec.is_none() => Decoded::Lent(bytes),
            stored if keep => {
                let bytes = codec.decode(&layer.object, stored.as_slice(), block.raw_length)?;
                Decoded::Own(Bytes::from(bytes))
            }
            stored => {
                codec.decode_into(&layer.object, stored.as_slice(), block.raw_length, raw)?;
                Decoded::Lent(raw)
            }
        };
        if let (true, Decoded::Own(bytes)) = (keep, &decoded) {
            let key = Key::Block(layer.id, *block);
            self.backend.cache.put(key, Entry::Block(bytes.clone()));
        }
        Ok(decoded)
    }

    /// Blocks as they are stored, not compared with their checksums.
    pub(crate) async fn stored_blocks(&self, blocks: &[LayerBlock]) -> Result<Vec<Bytes>> {
        let mut wanted = Vec::with_capacity(blocks.len());
        for (layer, block) in blocks {
            let (Some(open), Some(path)) = (self.layers.get(*layer), self.paths.get(*layer)) else {
                continue;
            };
            let start = open.layout.data.offset.saturating_add(block.offset);
            wanted.push((path.clone(), start..start.saturating_add(u64::from(block.length))));
        }
        self.backend.ranges(&wanted).await.map_err(|error| self.explained(error))
    }

    /// A missing layer means that the snapshot is too old.
    pub(crate) fn explained(&self, error: ArrayError) -> ArrayError {
        match &error {
            ArrayError::Store { object, .. } if is_missing(&error) => {
                let object = object.clone();
                ArrayError::SnapshotExpired { object, version: self.manifest.version }
            }
            _ => error,
        }
    }
}

impl Layer {
    fn codec(&self, block: &Block) -> Result<&BlockCodec> {
        self.codecs.get(usize::from(block.codec)).ok_or_else(|| {
            ArrayError::corrupt(&self.object, format!("codec {} is not listed", block.codec))
        })
    }

    /// Whether a block decodes to its stored bytes.
    fn stores_as_is(&self, block: &Block) -> bool {
        self.codec(block).is_ok_and(BlockCodec::is_none)
    }

    /// Compares a block with its checksum; the codec that it decodes with.
    fn check_block(&self, block: &Block, stored: &[u8]) -> Result<&BlockCodec> {
        let corrupt = |reason: String| ArrayError::corrupt(&self.object, reason);
        let sum = crc32fast::hash(stored);
        if sum != block.crc32 {
            return Err(corrupt(format!(
                "checksum of the block at {} is {sum:08x} instead of {:08x}",
                block.offset, block.crc32
            )));
        }
        let codec = self.codec(block)?;
        if codec.is_none() && u64_len(stored.len()) != u64::from(block.raw_length) {
            return Err(corrupt(format!(
                "the block at {} has {} bytes instead of {}",
                block.offset,
                stored.len(),
                block.raw_length
            )));
        }
        Ok(codec)
    }
}

/// The stored bytes of a block.
enum Read<'a> {
    Own(Bytes),
    Lent(&'a [u8]),
}

impl Read<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(bytes) => bytes,
        }
    }
}

/// How many of the next missing blocks are fetched together.
fn window(wanted: &[LayerBlock], missing: &[usize]) -> usize {
    let mut stored = 0_u64;
    for (number, at) in missing.iter().enumerate() {
        let length = wanted.get(*at).map_or(0, |(_, block)| block.length);
        stored = stored.saturating_add(u64::from(length));
        if number > 0 && stored > WINDOW_STORED {
            return number;
        }
    }
    missing.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fetched_together_stay_below_a_limit_and_are_at_least_one() {
        let length = u32::try_from(WINDOW_STORED / 4).unwrap();
        let block = |offset| (0, Block { offset, length, ..Block::default() });
        let wanted: Vec<LayerBlock> = (0..9).map(block).collect();
        let missing: Vec<usize> = (0..9).collect();
        assert_eq!(window(&wanted, &missing), 4);
        assert_eq!(window(&wanted, &missing[7..]), 2);
        let large = Block { length: u32::MAX, ..Block::default() };
        assert_eq!(window(&[(0, large), (0, large)], &[0, 1]), 1);
    }
}
