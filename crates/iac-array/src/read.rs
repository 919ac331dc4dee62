//! Finding chunks in the layers of a snapshot, and reading their elements.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use crate::backend::is_missing;
use crate::cache::{Entry, Key};
use crate::data::{
    Place, Source, Target, Values, check_element, check_fixed, copy_out, decode_variable,
};
use crate::error::{ArrayError, Result, u64_len, usize_len};
use crate::grid::{Grid, Selection, product};
use crate::index::{BatchPlace, Block, ChunkKind, ChunkRow, decode_batch};
use crate::meta::ArrayMeta;
use crate::pending::{PendingArray, PendingChunk};
use crate::snapshot::Inner;

/// Stored bytes that are in memory at once while a call reads.
const WINDOW_STORED: u64 = 64 << 20;
/// Decoded bytes that are in memory at once while a call reads, beside the result.
const WINDOW_RAW: u64 = 256 << 20;

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
                let keys: Vec<Option<(u64, u64)>> = (open.iter())
                    .map(|at| Some((meta.id, grid.number(chunks.get(*at)?)?)))
                    .collect();
                let mut batches: Vec<usize> =
                    keys.iter().flatten().filter_map(|key| layer.batch_of(*key)).collect();
                batches.sort_unstable();
                batches.dedup();
                let loaded = self.batches(number, &batches).await?;
                let mut left = Vec::with_capacity(open.len());
                for (at, key) in open.iter().zip(keys) {
                    let row = key.and_then(|key| {
                        let rows = loaded.get(&layer.batch_of(key)?)?;
                        let row = rows.binary_search_by_key(&key, |row| (row.array_id, row.chunk));
                        rows.get(row.ok()?).cloned()
                    });
                    let (Some(row), Some(chunk)) = (row, chunks.get(*at)) else {
                        left.push(*at);
                        continue;
                    };
                    let found = found(number, row, &grid, chunk, &clip);
                    if let Some(slot) = all.get_mut(*at) {
                        *slot = Some(found);
                    }
                }
                open = left;
            }
            if let Some(smaller) = &entry.clip {
                clip.iter_mut().zip(smaller).for_each(|(clip, smaller)| *clip = *smaller.min(clip));
            }
        }
        Ok(all)
    }

    /// Decoded batches of a layer's index, by number.
    pub(crate) async fn batches(
        &self,
        layer: usize,
        numbers: &[usize],
    ) -> Result<HashMap<usize, Arc<Vec<ChunkRow>>>> {
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
            decode_batch(&open.object, place, bytes, open.layout.data.length, open.codecs.len())
        };
        let decoded: Vec<Result<Vec<ChunkRow>>> = if pairs.len() <= 1 {
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
        let mut rest = pieces.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(window(rest));
            let blocks: Vec<(usize, Block)> = now
                .iter()
                .filter(|piece| piece.found.row.kind == ChunkKind::Data)
                .map(|piece| (piece.found.layer, piece.found.row.block))
                .collect();
            let blocks = self.blocks(&blocks).await?;
            for (number, request) in requests.iter_mut().enumerate() {
                let pieces: Vec<&Piece> =
                    now.iter().filter(|piece| piece.request == number).collect();
                self.paste(request, &pieces, &blocks)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Decoded blocks; the list is sorted.
    pub(crate) async fn blocks(
        &self,
        wanted: &[(usize, Block)],
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
        let stored = self.stored_blocks(&missing).await?;
        let pairs: Vec<_> = missing.iter().zip(stored).collect();
        let decode = |((layer, block), stored): (&(usize, Block), Bytes)| {
            self.decode_block(*layer, block, stored)
        };
        // Waking another thread takes longer than a block or two.
        let decoded: Vec<Result<Bytes>> = if pairs.len() <= 2 {
            pairs.into_iter().map(decode).collect()
        } else {
            self.backend.install(|| pairs.into_par_iter().map(decode).collect())
        };
        for ((layer, block), bytes) in missing.into_iter().zip(decoded) {
            let bytes = bytes?;
            if let Some(layer) = self.layers.get(layer) {
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
                let width = meta.dtype.width();
                if width.is_some_and(|width| element.len() != width) {
                    return Err(corrupt(format!("its element has {} bytes", element.len())));
                }
                check_element(&meta.dtype, element).map_err(corrupt)?;
                return Ok(Bytes::copy_from_slice(element));
            }
            ChunkKind::Erased => return Ok(Bytes::new()),
        };
        if meta.dtype.width().is_some() {
            check_fixed(&meta.dtype, &bytes, elements).map_err(corrupt)?;
        }
        Ok(bytes)
    }

    /// The elements of a chunk whose elements differ in length.
    fn decode_values(&self, meta: &ArrayMeta, found: &Found, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let elements = product(&found.extents).unwrap_or(u64::MAX);
        decode_variable(&meta.dtype, bytes, elements)
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
            return Values::filled(&meta.dtype, Some(&bytes), elements);
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
    let PendingChunk::Data { values, extents } = chunk else {
        return Ok(());
    };
    let place = Place { origin, extents, visible: extents };
    copy_out(values.as_source(), place, target, selection, meta.width())
}

/// Pieces that are read together; those of one block are not separated. Constant chunks have no block, and
/// are never given the memory of their elements.
fn window(pieces: &[Piece]) -> usize {
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
        if number > 0 && (stored > WINDOW_STORED || raw > WINDOW_RAW) {
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
        assert_eq!(window(&blocks(|_| 0)), 9);
        assert_eq!(window(&blocks(|at| at)), 1);
        let constant = || piece(ChunkKind::Constant(vec![7]), Block::default());
        let constants: Vec<Piece> = (0..9).map(|_| constant()).collect();
        assert_eq!(window(&constants), 9);
    }
}
