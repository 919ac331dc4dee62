//! Finding chunks in the layers of a snapshot, and reading their elements.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use crate::backend::{LocalFile, is_missing};
use crate::cache::{Entry, Key};
use crate::data::{ArrayData, Place, Source, Target, Values, check_fixed, copy_out};
use crate::error::{ArrayError, Result, u64_len, usize_len};
use crate::grid::{Grid, Selection, product};
use crate::index::{Batch, BatchPlace, Block, ChunkKind, ChunkRow, decode_batch};
use crate::layer::Layer;
use crate::meta::ArrayMeta;
use crate::pending::{PendingArray, PendingChunk};
use crate::snapshot::Inner;

/// Stored bytes that are in memory at once while a call reads.
const WINDOW_STORED: u64 = 64 << 20;
/// Decoded bytes that are in memory at once while a call reads, beside the result.
const WINDOW_RAW: u64 = 256 << 20;
/// The same for files, which are at hand: memory that is used again need not be made anew.
const WINDOW_LOCAL: u64 = 16 << 20;

/// A chunk in a layer.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) layer: usize,
    pub(crate) row: ChunkRow,
    /// The chunk's shape when it was written.
    pub(crate) extents: Vec<u64>,
    /// The part of it that no shrinking has cut off since.
    pub(crate) visible: Vec<u64>,
}

/// A box of one array, and where its elements go.
pub(crate) struct Request<'a> {
    pub(crate) meta: &'a ArrayMeta,
    pub(crate) pending: Option<&'a PendingArray>,
    pub(crate) selection: Selection,
    pub(crate) target: Target<'a>,
}

/// A chunk whose elements a request needs.
struct Piece {
    request: usize,
    origin: Vec<u64>,
    found: Found,
}

impl Inner {
    /// The newest row of each chunk within a run of layers, if one of them has it.
    ///
    /// `clip` is how far older chunks count from the beginning: changes that are not in any layer.
    pub(crate) async fn locate(
        &self,
        layers: std::ops::Range<usize>,
        meta: &ArrayMeta,
        chunks: &[Vec<u64>],
        clip: Option<&[u64]>,
    ) -> Result<Vec<Option<Found>>> {
        let mut all: Vec<Option<Found>> = vec![None; chunks.len()];
        let mut open: Vec<usize> = (0..chunks.len()).collect();
        let mut clip = clip.map_or_else(|| vec![u64::MAX; meta.shape.len()], <[u64]>::to_vec);
        for number in layers.rev() {
            if open.is_empty() {
                break;
            }
            let Some(layer) = self.layers.get(number) else {
                continue;
            };
            let Some(entry) = layer.rows.get(&meta.id) else {
                continue;
            };
            if entry.meta.chunk != meta.chunk || entry.meta.dtype != meta.dtype {
                return Err(ArrayError::corrupt(
                    &layer.object,
                    format!("array `{}` has other chunks or another type than before", meta.name),
                ));
            }
            let grid = entry.meta.grid()?;
            if entry.chunks_written > 0 {
                let few = usize::try_from(entry.chunks_written)
                    .is_ok_and(|written| written < open.len() / 4);
                open = if few {
                    self.take_few(number, layer, meta.id, &grid, chunks, open, &clip, &mut all)
                        .await?
                } else {
                    self.take(number, layer, meta.id, &grid, chunks, open, &clip, &mut all).await?
                };
            }
            if let Some(smaller) = &entry.clip {
                clip.iter_mut().zip(smaller).for_each(|(clip, smaller)| *clip = *smaller.min(clip));
            }
        }
        Ok(all)
    }

    /// Finds open chunks in a layer by looking for each; those that are not there stay open.
    #[expect(clippy::too_many_arguments, reason = "a step of `locate`, which has all of these")]
    async fn take(
        &self,
        number: usize,
        layer: &Layer,
        id: u64,
        grid: &Grid,
        chunks: &[Vec<u64>],
        open: Vec<usize>,
        clip: &[u64],
        all: &mut [Option<Found>],
    ) -> Result<Vec<usize>> {
        let keys: Vec<Option<(u64, u64)>> =
            open.iter().map(|at| Some((id, grid.number(chunks.get(*at)?)?))).collect();
        let mut batches: Vec<usize> =
            keys.iter().flatten().filter_map(|key| layer.batch_of(*key)).collect();
        batches.sort_unstable();
        batches.dedup();
        let loaded = self.batches(number, &batches).await?;
        let mut left = Vec::with_capacity(open.len());
        for (at, key) in open.into_iter().zip(keys) {
            let row = key.and_then(|key| loaded.get(&layer.batch_of(key)?)?.find(key));
            match row.zip(chunks.get(at)).zip(all.get_mut(at)) {
                Some(((row, chunk), slot)) => *slot = Some(found(number, row, grid, chunk, clip)),
                None => left.push(at),
            }
        }
        Ok(left)
    }

    /// The same for a layer that has few chunks of the array: each of them is looked for among the
    /// open ones, which are row-major, so that many small layers cost what is in them.
    #[expect(clippy::too_many_arguments, reason = "a step of `locate`, which has all of these")]
    async fn take_few(
        &self,
        number: usize,
        layer: &Layer,
        id: u64,
        grid: &Grid,
        chunks: &[Vec<u64>],
        mut open: Vec<usize>,
        clip: &[u64],
        all: &mut [Option<Found>],
    ) -> Result<Vec<usize>> {
        let coordinates = |at: &usize| chunks.get(*at).map_or(&[][..], Vec::as_slice);
        // Only batches in whose range an open chunk lies.
        let mut batches = Vec::new();
        for batch in layer.batches_of(id) {
            let Some(place) = layer.batches.get(batch) else {
                continue;
            };
            let first = if place.first.0 < id { 0 } else { place.first.1 };
            let last = if place.last.0 > id { u64::MAX } else { place.last.1 };
            let Some(from) = grid.coordinates(first) else {
                continue;
            };
            let next = open.partition_point(|at| coordinates(at) < from.as_slice());
            let wanted = open.get(next..).unwrap_or_default().iter();
            // The grid of the layer may be smaller: chunks outside of it are in none of its rows.
            let mut numbers = wanted.filter_map(|at| grid.number(coordinates(at)));
            if numbers.next().is_some_and(|number| number <= last) {
                batches.push(batch);
            }
        }
        let loaded = self.batches(number, &batches).await?;
        let mut taken = Vec::new();
        for batch in &batches {
            let Some(rows) = loaded.get(batch) else {
                continue;
            };
            for row in rows.rows_of(id).filter_map(|row| rows.row(row)) {
                let Some(chunk) = grid.coordinates(row.chunk) else {
                    continue;
                };
                let at = open.binary_search_by(|at| coordinates(at).cmp(chunk.as_slice()));
                let Ok(at) = at else {
                    continue;
                };
                let slot = open.get(at).and_then(|at| all.get_mut(*at));
                if let Some(slot) = slot {
                    *slot = Some(found(number, row, grid, &chunk, clip));
                    taken.push(at);
                }
            }
        }
        if !taken.is_empty() {
            taken.sort_unstable();
            let mut at = 0_usize;
            open.retain(|_| {
                let gone = taken.binary_search(&at).is_ok();
                at = at.saturating_add(1);
                !gone
            });
        }
        Ok(open)
    }

    /// Decoded batches of a layer's index, by number.
    pub(crate) async fn batches(
        &self,
        layer: usize,
        numbers: &[usize],
    ) -> Result<HashMap<usize, Arc<Batch>>> {
        let mut loaded = HashMap::with_capacity(numbers.len());
        let (Some(open), Some(path)) = (self.layers.get(layer), self.paths.get(layer)) else {
            return Ok(loaded);
        };
        let cache = &self.backend.cache;
        let key = |number: usize, place: &BatchPlace| Key::Batch(open.id, number, place.crc32);
        let mut missing = Vec::new();
        for number in numbers {
            let Some(place) = open.batches.get(*number) else {
                continue;
            };
            match cache.get(key(*number, place)) {
                Some(Entry::Batch(rows)) => {
                    loaded.insert(*number, rows);
                }
                _ => missing.push((*number, place)),
            }
        }
        if missing.is_empty() {
            return Ok(loaded);
        }
        let keys = missing.iter().map(|(number, place)| key(*number, place)).collect();
        let _loading = cache.load(keys).await;
        missing.retain(|(number, place)| match cache.get(key(*number, place)) {
            Some(Entry::Batch(rows)) => {
                loaded.insert(*number, rows);
                false
            }
            _ => true,
        });
        let wanted: Vec<_> = (missing.iter())
            .map(|(_, place)| {
                let start = open.layout.index_table.offset.saturating_add(place.offset);
                (path.clone(), start..start.saturating_add(place.length))
            })
            .collect();
        let fetched = self.backend.ranges(&wanted).await.map_err(|error| self.explained(error))?;
        let pairs: Vec<_> = missing.iter().zip(&fetched).collect();
        let decode = |((_, place), bytes): (&(usize, &BatchPlace), &Bytes)| {
            let (data, codecs) = (open.layout.data.length, open.codecs.len());
            decode_batch(&open.object, place, bytes, data, codecs, open.validity)
        };
        let decoded: Vec<Result<Batch>> = if pairs.len() <= 1 {
            pairs.into_iter().map(decode).collect()
        } else {
            self.backend.install(|| pairs.into_par_iter().map(decode).collect())
        };
        for ((number, place), rows) in missing.iter().zip(decoded) {
            let rows = Arc::new(rows?);
            cache.put(key(*number, place), Entry::Batch(Arc::clone(&rows)));
            loaded.insert(*number, rows);
        }
        Ok(loaded)
    }

    /// Reads boxes; their targets hold fill values already.
    pub(crate) async fn read(&self, requests: &mut [Request<'_>]) -> Result<()> {
        let mut pieces = Vec::new();
        for (number, request) in requests.iter_mut().enumerate() {
            let grid = request.meta.grid()?;
            let mut chunks = grid.touched(&request.selection)?;
            if let Some(pending) = request.pending {
                let (chunks_left, target) = (&mut chunks, &mut request.target);
                let (meta, selection) = (request.meta, &request.selection);
                let mut failed = None;
                chunks_left.retain(|chunk| {
                    let Some(held) = pending.chunks.get(chunk) else {
                        return true;
                    };
                    let done = paste_pending(held, &grid.origin(chunk), meta, selection, target);
                    failed = failed.take().or(done.err());
                    false
                });
                if let Some(error) = failed {
                    return Err(error);
                }
                if pending.is_new {
                    continue;
                }
            }
            let clip = request.pending.and_then(|pending| pending.clip.as_deref());
            let every = 0..self.layers.len();
            let located = self.locate(every, request.meta, &chunks, clip).await?;
            for (chunk, found) in chunks.iter().zip(located) {
                if let Some(found) = found.filter(|found| found.row.kind != ChunkKind::Erased) {
                    pieces.push(Piece { request: number, origin: grid.origin(chunk), found });
                }
            }
        }
        // Pieces of one block come together, and blocks in the order of their places.
        pieces.sort_by_key(|piece| (piece.found.layer, piece.found.row.block));
        let wanted = pieces.iter().map(|piece| (piece.request, &piece.found, &*piece.origin));
        crate::expand::check(requests, wanted)?;
        // One large read would drive out all that others have in the cache, itself included.
        let keep = raw_bytes(&pieces) <= self.backend.cache.budget() / 2;
        let most = if self.backend.is_local() { WINDOW_LOCAL } else { WINDOW_RAW };
        let mut rest = pieces.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(window(rest, most));
            let blocks: Vec<(usize, Block)> = now
                .iter()
                .filter(|piece| piece.found.row.kind == ChunkKind::Data)
                .map(|piece| (piece.found.layer, piece.found.row.block))
                .collect();
            let blocks = self.blocks(&blocks, keep).await?;
            for (number, request) in requests.iter_mut().enumerate() {
                let pieces: Vec<&Piece> =
                    now.iter().filter(|piece| piece.request == number).collect();
                self.paste(request, &pieces, &blocks)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Reads an array of a single chunk whole, if all that this takes is in the cache: no lists are
    /// made, which is most of the work for small arrays. None when it is not as simple as that.
    pub(crate) fn read_warm(&self, meta: &ArrayMeta, selection: &Selection) -> Option<ArrayData> {
        let single = meta.shape.iter().zip(&meta.chunk).all(|(extent, chunk)| extent <= chunk);
        let whole = selection.count == meta.shape && selection.step.iter().all(|step| *step == 1);
        if !single || !whole || meta.nullable || meta.shape.contains(&0) {
            return None;
        }
        let elements = product(&meta.shape)?;
        let key = (meta.id, 0);
        for layer in self.layers.iter().rev() {
            let Some(entry) = layer.rows.get(&meta.id) else {
                continue;
            };
            let alike = entry.meta.shape == meta.shape
                && entry.meta.chunk == meta.chunk
                && entry.meta.dtype == meta.dtype;
            if !alike || entry.clip.is_some() {
                return None;
            }
            let batch = layer.batch_of(key).filter(|_| entry.chunks_written > 0);
            let Some((number, place)) = batch.and_then(|at| Some((at, layer.batches.get(at)?)))
            else {
                continue;
            };
            let batch = Key::Batch(layer.id, number, place.crc32);
            let Some(Entry::Batch(rows)) = self.backend.cache.get(batch) else {
                return None;
            };
            let Some(row) = rows.find(key) else {
                continue;
            };
            if row.kind != ChunkKind::Data {
                return None;
            }
            let Some(Entry::Block(block)) = self.backend.cache.get(Key::Block(layer.id, row.block))
            else {
                return None;
            };
            let from = usize::try_from(row.in_offset).ok()?;
            let end = from.checked_add(usize::try_from(row.in_length).ok()?)?;
            let bytes = block.get(from..end)?;
            // What is wrong is told by the way that all other reads take.
            check_fixed(&meta.dtype, bytes, elements).ok()?;
            return Some(ArrayData {
                dtype: meta.dtype.clone(),
                shape: meta.shape.clone(),
                values: Values::Fixed(bytes.to_vec()),
                validity: None,
            });
        }
        None
    }

    /// The layers' files that blocks lie in, by number, where the store is a folder.
    fn local_files(&self, blocks: &[(usize, Block)]) -> Result<Option<HashMap<usize, LocalFile>>> {
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

    /// Reads and decodes blocks of files on the threads of the store, so that a block is still at
    /// hand for the processor when it is summed and decoded.
    fn decode_local(
        &self,
        blocks: &[(usize, Block)],
        files: &HashMap<usize, LocalFile>,
    ) -> Vec<Result<Bytes>> {
        let decode = |(layer, block): &(usize, Block)| {
            let (Some(open), Some(file)) = (self.layers.get(*layer), files.get(layer)) else {
                return Ok(Bytes::new());
            };
            let start = open.layout.data.offset.saturating_add(block.offset);
            let stored = file.read(start..start.saturating_add(u64::from(block.length)))?;
            self.decode_block(*layer, block, stored)
        };
        if blocks.len() <= 2 {
            return blocks.iter().map(decode).collect();
        }
        self.backend.install(|| blocks.par_iter().map(decode).collect())
    }

    /// Decoded blocks; the list is sorted. Those that are to be kept stay in the cache.
    pub(crate) async fn blocks(
        &self,
        wanted: &[(usize, Block)],
        keep: bool,
    ) -> Result<BTreeMap<(usize, Block), Bytes>> {
        let mut blocks = BTreeMap::new();
        let mut missing: Vec<(usize, Block)> = Vec::new();
        for (layer, block) in wanted {
            if missing.last() == Some(&(*layer, *block)) || blocks.contains_key(&(*layer, *block)) {
                continue;
            }
            let id = self.layers.get(*layer).map(|layer| layer.id);
            match id.and_then(|id| self.backend.cache.get(Key::Block(id, *block))) {
                Some(Entry::Block(bytes)) => {
                    blocks.insert((*layer, *block), bytes);
                }
                _ => missing.push((*layer, *block)),
            }
        }
        if missing.is_empty() {
            return Ok(blocks);
        }
        let key = |(layer, block): &(usize, Block)| {
            self.layers.get(*layer).map(|layer| Key::Block(layer.id, *block))
        };
        let _loading = self.backend.cache.load(missing.iter().filter_map(key).collect()).await;
        missing.retain(|wanted| match key(wanted).and_then(|key| self.backend.cache.get(key)) {
            Some(Entry::Block(bytes)) => {
                blocks.insert(*wanted, bytes);
                false
            }
            _ => true,
        });
        let decoded = match self.local_files(&missing)? {
            Some(files) => self.decode_local(&missing, &files),
            None => {
                let stored = self.stored_blocks(&missing).await?;
                let pairs: Vec<_> = missing.iter().zip(stored).collect();
                let decode = |((layer, block), stored): (&(usize, Block), Bytes)| {
                    self.decode_block(*layer, block, stored)
                };
                // Waking another thread takes longer than a block or two.
                if pairs.len() <= 2 {
                    pairs.into_iter().map(decode).collect()
                } else {
                    self.backend.install(|| pairs.into_par_iter().map(decode).collect())
                }
            }
        };
        for ((layer, block), bytes) in missing.into_iter().zip(decoded) {
            let bytes = bytes?;
            if let Some(layer) = self.layers.get(layer).filter(|_| keep) {
                self.backend.cache.put(Key::Block(layer.id, block), Entry::Block(bytes.clone()));
            }
            blocks.insert((layer, block), bytes);
        }
        Ok(blocks)
    }

    /// Blocks as they are stored, not compared with their checksums.
    pub(crate) async fn stored_blocks(&self, blocks: &[(usize, Block)]) -> Result<Vec<Bytes>> {
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

    pub(crate) fn decode_block(&self, layer: usize, block: &Block, stored: Bytes) -> Result<Bytes> {
        let Some(layer) = self.layers.get(layer) else {
            return Ok(Bytes::new());
        };
        let corrupt = |reason: String| ArrayError::corrupt(&layer.object, reason);
        let sum = crc32fast::hash(&stored);
        if sum != block.crc32 {
            return Err(corrupt(format!(
                "checksum of the block at {} is {sum:08x} instead of {:08x}",
                block.offset, block.crc32
            )));
        }
        let codec = layer.codecs.get(usize::from(block.codec));
        let codec = codec.ok_or_else(|| corrupt(format!("codec {} is not listed", block.codec)))?;
        if codec.is_none() {
            if u64_len(stored.len()) != u64::from(block.raw_length) {
                return Err(corrupt(format!(
                    "the block at {} has {} bytes instead of {}",
                    block.offset,
                    stored.len(),
                    block.raw_length
                )));
            }
            return Ok(stored);
        }
        codec.decode(&layer.object, &stored, block.raw_length).map(Bytes::from)
    }

    /// Copies chunks to where a request wants their elements.
    fn paste(
        &self,
        request: &mut Request<'_>,
        pieces: &[&Piece],
        blocks: &BTreeMap<(usize, Block), Bytes>,
    ) -> Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        let meta = request.meta;
        let width = meta.width();
        let sources: Vec<(&Piece, Bytes)> = pieces
            .iter()
            .map(|piece| Ok((*piece, self.chunk_bytes(meta, &piece.found, blocks)?)))
            .collect::<Result<_>>()?;
        if let Target::Variable(values) = &mut request.target {
            for (piece, bytes) in &sources {
                let decoded;
                let source = if piece.is_constant() {
                    Source::Every(bytes)
                } else {
                    decoded = self.decode_values(meta, &piece.found, bytes)?;
                    Source::Variable(&decoded)
                };
                let place = piece.place();
                let mut target = Target::Variable(values);
                copy_out(source, place, &mut target, &request.selection, 1)?;
            }
            return Ok(());
        }
        let Target::Fixed(bytes) = &mut request.target else {
            return Ok(());
        };
        // Parts along the first axis lie one after the other in memory, so threads can share them.
        let selection = &request.selection;
        let rows = selection.count.first().copied().unwrap_or(1).max(1);
        let row_bytes = u64_len(bytes.len()).checked_div(rows).unwrap_or(0).max(1);
        let copy = |bytes: &mut [u8], own: &Selection| {
            for (piece, source) in &sources {
                let mut target = Target::Fixed(bytes);
                let source = match piece.is_constant() {
                    true => Source::Every(source),
                    false => Source::Fixed(source),
                };
                copy_out(source, piece.place(), &mut target, own, width)?;
            }
            Ok(())
        };
        if u64_len(bytes.len()) < 1 << 20 {
            return copy(bytes, selection);
        }
        self.backend.install(|| {
            let threads = u64_len(rayon::current_num_threads()).max(1);
            let part = rows.div_ceil(threads.saturating_mul(4)).max(1);
            let part_bytes = usize_len("part", part.saturating_mul(row_bytes))?;
            bytes.par_chunks_mut(part_bytes).enumerate().try_for_each(|(number, bytes)| {
                let first = u64_len(number).saturating_mul(part);
                let mut own = selection.clone();
                if let (Some(start), Some(count), Some(step)) =
                    (own.start.first_mut(), own.count.first_mut(), own.step.first())
                {
                    *start = start.saturating_add(first.saturating_mul(*step));
                    *count = count.saturating_sub(first).min(part);
                }
                copy(bytes, &own)
            })
        })
    }

    /// The bytes of a chunk, checked against its shape where elements have one width; of a constant
    /// chunk those of one element.
    pub(crate) fn chunk_bytes(
        &self,
        meta: &ArrayMeta,
        found: &Found,
        blocks: &BTreeMap<(usize, Block), Bytes>,
    ) -> Result<Bytes> {
        let row = &found.row;
        let corrupt = |reason: String| self.chunk_error(meta, found, &reason);
        let elements = product(&found.extents).unwrap_or(u64::MAX);
        // What no writer makes is not given memory either.
        let least = u64_len(meta.dtype.width().unwrap_or(4));
        if elements.checked_mul(least).is_none_or(|bytes| bytes > crate::meta::MAX_CHUNK_BYTES) {
            return Err(corrupt(format!("it has {elements} elements, more than a chunk may have")));
        }
        let bytes = match &row.kind {
            ChunkKind::Data => {
                let block = blocks.get(&(found.layer, row.block));
                let block = block.ok_or_else(|| corrupt("its block is missing".to_owned()))?;
                let from = usize::try_from(row.in_offset).unwrap_or(usize::MAX);
                let end = from.saturating_add(usize::try_from(row.in_length).unwrap_or(usize::MAX));
                if end > block.len() {
                    return Err(corrupt(format!("it ends at {end} of {} bytes", block.len())));
                }
                block.slice(from..end)
            }
            ChunkKind::Constant(element) => {
                meta.check_element(element).map_err(corrupt)?;
                return Ok(Bytes::copy_from_slice(element));
            }
            ChunkKind::Erased => return Ok(Bytes::new()),
        };
        match meta.dtype.width() {
            Some(_) => meta.decode_fixed(bytes, elements).map_err(corrupt),
            None => Ok(bytes),
        }
    }

    /// The elements of a chunk whose elements differ in length.
    fn decode_values(&self, meta: &ArrayMeta, found: &Found, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let elements = product(&found.extents).unwrap_or(u64::MAX);
        meta.decode_variable(bytes, elements)
            .map_err(|reason| self.chunk_error(meta, found, &reason))
    }

    /// Finds out whether a chunk can be read, without taking memory for chunks of one value.
    pub(crate) fn check_chunk(
        &self,
        meta: &ArrayMeta,
        found: &Found,
        blocks: &BTreeMap<(usize, Block), Bytes>,
    ) -> Result<()> {
        let bytes = self.chunk_bytes(meta, found, blocks)?;
        if meta.dtype.width().is_none() && found.row.kind == ChunkKind::Data {
            self.decode_values(meta, found, &bytes)?;
        }
        Ok(())
    }

    /// The elements of a found chunk.
    pub(crate) fn chunk_values(
        &self,
        meta: &ArrayMeta,
        found: &Found,
        blocks: &BTreeMap<(usize, Block), Bytes>,
    ) -> Result<Values> {
        let bytes = self.chunk_bytes(meta, found, blocks)?;
        if matches!(found.row.kind, ChunkKind::Constant(_)) {
            let elements = product(&found.extents).unwrap_or(u64::MAX);
            return Values::filled(meta.element_width(), Some(&bytes), elements);
        }
        match meta.dtype.width() {
            Some(_) => Ok(Values::Fixed(bytes.to_vec())),
            None => self.decode_values(meta, found, &bytes).map(Values::Variable),
        }
    }

    fn chunk_error(&self, meta: &ArrayMeta, found: &Found, reason: &str) -> ArrayError {
        let object = self.layers.get(found.layer).map_or("layer", |layer| layer.object.as_str());
        let reason = format!("array `{}`, chunk {}: {reason}", meta.name, found.row.chunk);
        ArrayError::corrupt(object, reason)
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

impl Piece {
    const fn is_constant(&self) -> bool {
        matches!(self.found.row.kind, ChunkKind::Constant(_))
    }

    fn place(&self) -> Place<'_> {
        Place { origin: &self.origin, extents: &self.found.extents, visible: &self.found.visible }
    }
}

/// Places a row of the index, with what is visible of it.
pub(crate) fn found(
    layer: usize,
    row: ChunkRow,
    grid: &Grid,
    chunk: &[u64],
    clip: &[u64],
) -> Found {
    let extents = grid.extents(chunk);
    let origin = grid.origin(chunk);
    let visible = extents
        .iter()
        .zip(origin.iter().zip(clip))
        .map(|(extent, (origin, clip))| clip.saturating_sub(*origin).min(*extent))
        .collect();
    Found { layer, row, extents, visible }
}

fn paste_pending(
    chunk: &PendingChunk,
    origin: &[u64],
    meta: &ArrayMeta,
    selection: &Selection,
    target: &mut Target<'_>,
) -> Result<()> {
    if let PendingChunk::Constant { element, extents } = chunk {
        let place = Place { origin, extents, visible: extents };
        return copy_out(Source::Every(element), place, target, selection, meta.width());
    }
    let Some((values, extents)) = chunk.values(meta)? else {
        return Ok(());
    };
    let place = Place { origin, extents, visible: extents };
    copy_out(values.as_source(), place, target, selection, meta.width())
}

/// Decoded bytes of the blocks that pieces lie in; the pieces of a block come together.
fn raw_bytes(pieces: &[Piece]) -> u64 {
    let (mut raw, mut before) = (0_u64, None);
    for piece in pieces.iter().filter(|piece| piece.found.row.kind == ChunkKind::Data) {
        let key = (piece.found.layer, piece.found.row.block);
        if before != Some(key) {
            raw = raw.saturating_add(u64::from(piece.found.row.block.raw_length));
            before = Some(key);
        }
    }
    raw
}

/// Pieces that are read together; those of one block are not separated. Constant chunks have no block, and
/// are never given the memory of their elements.
fn window(pieces: &[Piece], most: u64) -> usize {
    let (mut stored, mut raw, mut before) = (0_u64, 0_u64, None);
    for (number, piece) in pieces.iter().enumerate() {
        let row = &piece.found.row;
        if row.kind == ChunkKind::Data {
            let key = (piece.found.layer, row.block);
            if before == Some(key) {
                continue;
            }
            before = Some(key);
            stored = stored.saturating_add(u64::from(row.block.length));
            raw = raw.saturating_add(u64::from(row.block.raw_length));
        }
        if number > 0 && (stored > WINDOW_STORED || raw > most) {
            return number;
        }
    }
    pieces.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(kind: ChunkKind, block: Block) -> Piece {
        let row = ChunkRow {
            array_id: 1,
            chunk: 0,
            block,
            in_offset: 0,
            in_length: 0,
            kind,
            stats: None,
        };
        let extents = vec![1 << 24];
        let visible = extents.clone();
        Piece { request: 0, origin: vec![0], found: Found { layer: 0, row, extents, visible } }
    }

    #[test]
    fn blocks_are_counted_once_and_constant_chunks_not_at_all() {
        let raw_length = u32::try_from(WINDOW_RAW).unwrap();
        let blocks = |offset: fn(u64) -> u64| -> Vec<Piece> {
            let block = |at| Block { offset: offset(at), raw_length, ..Block::default() };
            (0..9).map(|at| piece(ChunkKind::Data, block(at))).collect()
        };
        assert_eq!(window(&blocks(|_| 0), WINDOW_RAW), 9);
        assert_eq!(window(&blocks(|at| at), WINDOW_RAW), 1);
        let constant = || piece(ChunkKind::Constant(vec![7]), Block::default());
        let constants: Vec<Piece> = (0..9).map(|_| constant()).collect();
        assert_eq!(window(&constants, WINDOW_RAW), 9);
    }
}
