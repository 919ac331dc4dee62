//! Making layers, or finished blocks in the temporary file, of changes.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::catalogue::CatalogueRow;
use crate::data::Values;
use crate::error::{ArrayError, Result, u64_len};
use crate::flush::without_bytes;
use crate::index::{Block, ChunkKind, ChunkRow};
use crate::layer::{self, BuiltLayer, LayerId, LayerParts};
use crate::meta::ArrayMeta;
use crate::pack::{Blocks, Item, Packings, Raw, too_many};
use crate::pending::{PendingArray, PendingChunk, SpooledChunk, reshape};
use crate::spool::{Piece, Spool, SpooledBlock, SpooledBytes};
use crate::stats::StoredStats;
use crate::store::ArrayStore;

/// How a chunk of a layer in the making is stored.
enum Shape<'a> {
    Erased,
    Constant(Vec<u8>),
    Raw(Raw<'a>, Option<StoredStats>),
    /// As it is in the temporary file.
    Stored(&'a SpooledChunk),
}

/// A chunk that goes into a layer.
struct Job<'a> {
    array_id: u64,
    number: u64,
    held: &'a PendingArray,
    extents: Vec<u64>,
    chunk: &'a PendingChunk,
}

/// Chunks of the temporary file that are still wanted, in bytes by the place of their block.
type Wanted = HashMap<u64, u64>;

impl Job<'_> {
    /// The chunk, if it is in the temporary file as it is wanted.
    fn spooled(&self) -> Option<&SpooledChunk> {
        match self.chunk {
            PendingChunk::Spooled { chunk, extents } if *extents == self.extents => Some(chunk),
            _ => None,
        }
    }

    /// Bytes that packing it takes, roughly.
    fn bytes(&self, wanted: &Wanted) -> u64 {
        match self.chunk {
            PendingChunk::Spooled { chunk, .. } => match self.spooled() {
                Some(_) if is_whole(chunk, wanted) => 0,
                _ => u64::from(chunk.block.raw_length),
            },
            other => other.memory(),
        }
    }
}

/// Whether all chunks of a chunk's block are wanted, so that it can be copied as it is.
fn is_whole(chunk: &SpooledChunk, wanted: &Wanted) -> bool {
    wanted.get(&chunk.block.bytes.offset) == Some(&u64::from(chunk.block.raw_length))
}

impl ArrayStore {
    /// The layer of all changes, and how many chunks are in it.
    pub(crate) fn build(&self, id: LayerId) -> Result<(BuiltLayer, u64)> {
        let mut catalogue = Vec::with_capacity(self.pending.len());
        let mut jobs = Vec::new();
        for (array_id, held) in &self.pending {
            let grid = held.meta.grid()?;
            let mut written = 0_u64;
            for (coordinates, chunk) in &held.chunks {
                if let Some(number) = grid.number(coordinates) {
                    let (array_id, extents) = (*array_id, grid.extents(coordinates));
                    jobs.push(Job { array_id, number, held, extents, chunk });
                    written = written.saturating_add(1);
                }
            }
            catalogue.push(CatalogueRow {
                meta: Arc::new(held.meta.clone()),
                deleted: held.deleted,
                clip: held.clip.clone(),
                chunks_written: written,
                through: None,
            });
        }
        let base = self.base.layers() == 0;
        let mut packings = Packings::new(&self.options.packing, &self.backend.registry);
        for held in self.pending.values() {
            packings.add(&held.meta);
        }
        let mut wanted = Wanted::new();
        for chunk in jobs.iter().filter_map(Job::spooled) {
            let bytes = wanted.entry(chunk.block.bytes.offset).or_default();
            *bytes = bytes.saturating_add(u64::from(chunk.in_length));
        }
        self.backend.install(|| {
            let mut blocks = Blocks::new(&self.options.scratch);
            let mut rows = Vec::with_capacity(jobs.len());
            let mut copied = HashMap::new();
            let mut rest = jobs.as_slice();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(self.window(rest, &wanted));
                self.pack(now, &wanted, &packings, &mut blocks, &mut copied, &mut rows)?;
                rest = later;
            }
            rows.sort_unstable_by_key(|row| (row.array_id, row.chunk));
            let built = layer::build(LayerParts {
                id,
                base,
                catalogue: &catalogue,
                index: &rows,
                codecs: &blocks.codecs,
                data: blocks.pieces,
            })?;
            Ok((built, u64_len(rows.len())))
        })
    }

    /// Chunks that are packed at once: at least one, and as many as memory may have.
    fn window(&self, jobs: &[Job<'_>], wanted: &Wanted) -> usize {
        let mut bytes = 0_u64;
        let fits = |job: &&Job<'_>| {
            bytes = bytes.saturating_add(job.bytes(wanted));
            bytes <= self.options.scratch.memory
        };
        jobs.iter().take_while(fits).count().max(1)
    }

    fn pack(
        &self,
        jobs: &[Job<'_>],
        wanted: &Wanted,
        packings: &Packings<'_>,
        blocks: &mut Blocks,
        copied: &mut HashMap<u64, Block>,
        rows: &mut Vec<ChunkRow>,
    ) -> Result<()> {
        let shapes: Vec<Shape<'_>> = jobs
            .par_iter()
            .map(|job| match job.spooled() {
                Some(chunk) if is_whole(chunk, wanted) => Ok(Shape::Stored(chunk)),
                _ => self.shape(&job.held.meta, &job.extents, job.chunk),
            })
            .collect::<Result<_>>()?;
        let mut items = Vec::new();
        for (job, shape) in jobs.iter().zip(shapes) {
            let meta = &job.held.meta;
            let kind = match shape {
                Shape::Erased => ChunkKind::Erased,
                Shape::Constant(element) => ChunkKind::Constant(element),
                Shape::Raw(raw, stats) => {
                    let (array_id, chunk) = (job.array_id, job.number);
                    items.push(item(array_id, chunk, meta, &job.extents, raw, stats, packings));
                    continue;
                }
                Shape::Stored(chunk) => {
                    let from = &chunk.block;
                    let block = match copied.get(&from.bytes.offset) {
                        Some(block) => *block,
                        None => copy(from, blocks)?,
                    };
                    copied.insert(from.bytes.offset, block);
                    rows.push(ChunkRow {
                        array_id: job.array_id,
                        chunk: job.number,
                        block,
                        in_offset: chunk.in_offset,
                        in_length: chunk.in_length,
                        kind: ChunkKind::Data,
                        stats: chunk.stats,
                    });
                    continue;
                }
            };
            rows.push(without_bytes(job.array_id, job.number, kind));
        }
        blocks.pack(&items, packings.list(), self.options.block_bytes, rows)
    }

    /// How a chunk is stored that is not copied.
    fn shape<'a>(
        &self,
        meta: &ArrayMeta,
        wanted: &[u64],
        chunk: &'a PendingChunk,
    ) -> Result<Shape<'a>> {
        let shape = match chunk {
            PendingChunk::Erased => Shape::Erased,
            PendingChunk::Constant { element, extents } if extents == wanted => {
                Shape::Constant(element.clone())
            }
            PendingChunk::Data { values, extents } if extents == wanted => {
                match (simple(meta, values), &**values) {
                    (Some(simple), _) => simple,
                    (None, Values::Fixed(_)) if !meta.nullable => {
                        Shape::Raw(Raw::Held(values), None)
                    }
                    (None, other) => Shape::Raw(Raw::Made(meta.encode(other)?), None),
                }
            }
            other => match other.values(meta)? {
                None => Shape::Erased,
                Some((values, extents)) => {
                    // The array may have grown since the chunk was written.
                    let values = reshape(meta, &values, extents, wanted)?;
                    match simple(meta, &values) {
                        Some(simple) => simple,
                        None => Shape::Raw(Raw::Made(meta.encode(&values)?), None),
                    }
                }
            },
        };
        Ok(match shape {
            Shape::Raw(raw, _) if self.options.statistics => {
                let stats = crate::stats::of_bytes(meta, &raw);
                Shape::Raw(raw, stats)
            }
            other => other,
        })
    }

    /// The temporary file, made when there is none.
    pub(crate) fn spool(&mut self) -> Result<Arc<Spool>> {
        if let Some(spool) = &self.spool {
            return Ok(Arc::clone(spool));
        }
        let spool = Spool::new(self.options.scratch.folder.as_deref())?;
        self.spool = Some(Arc::clone(&spool));
        Ok(spool)
    }

    /// Moves what waits in memory into the temporary file. Nothing is changed when it fails but that
    /// some of it is there already.
    pub(crate) fn spool_pending(&mut self) -> Result<()> {
        let spool = self.spool()?;
        let is_data = |chunk: &PendingChunk| matches!(chunk, PendingChunk::Data { .. });
        let ids: Vec<u64> = self.pending.keys().copied().collect();
        for id in ids {
            let Some(held) = self.pending.get(&id) else {
                continue;
            };
            let chunks = held.chunks.iter().filter(|(_, chunk)| is_data(chunk));
            // Elements are shared, not copied.
            let chunks: Vec<(Vec<u64>, PendingChunk)> =
                chunks.map(|(at, chunk)| (at.clone(), chunk.clone())).collect();
            let meta = held.meta.clone();
            let mut rest = chunks.as_slice();
            while !rest.is_empty() {
                let mut bytes = 0_u64;
                let fits = |(_, chunk): &&(Vec<u64>, PendingChunk)| {
                    bytes = bytes.saturating_add(chunk.memory());
                    bytes <= self.options.scratch.window()
                };
                let count = rest.iter().take_while(fits).count().max(1);
                let (now, later) = rest.split_at(count);
                let spooled = self.spooled(&spool, &meta, now)?;
                self.put_chunks(&meta, spooled);
                rest = later;
            }
        }
        Ok(())
    }

    /// Chunks of an array as they are when their bytes are in the temporary file.
    pub(crate) fn spooled(
        &self,
        spool: &Arc<Spool>,
        meta: &ArrayMeta,
        chunks: &[(Vec<u64>, PendingChunk)],
    ) -> Result<Vec<(Vec<u64>, PendingChunk)>> {
        let mut packings = Packings::new(&self.options.packing, &self.backend.registry);
        packings.add(meta);
        self.backend.install(|| {
            let shapes: Vec<Shape<'_>> = chunks
                .par_iter()
                .map(|(_, chunk)| match chunk {
                    PendingChunk::Data { extents, .. } => self.shape(meta, extents, chunk),
                    _ => Ok(Shape::Erased),
                })
                .collect::<Result<_>>()?;
            let mut done = Vec::with_capacity(chunks.len());
            let (mut items, mut packed) = (Vec::new(), Vec::new());
            for ((at, chunk), shape) in chunks.iter().zip(shapes) {
                let PendingChunk::Data { extents, .. } = chunk else {
                    done.push((at.clone(), chunk.clone()));
                    continue;
                };
                match shape {
                    Shape::Constant(element) => {
                        let extents = extents.clone();
                        done.push((at.clone(), PendingChunk::Constant { element, extents }));
                    }
                    Shape::Raw(raw, stats) => {
                        items.push(item(meta.id, 0, meta, extents, raw, stats, &packings));
                        packed.push((at, extents));
                    }
                    Shape::Erased | Shape::Stored(_) => {
                        done.push((at.clone(), PendingChunk::Erased));
                    }
                }
            }
            // These blocks go into the file whatever memory there is.
            let (mut blocks, mut rows) = (Blocks::in_memory(), Vec::new());
            blocks.pack(&items, packings.list(), self.options.block_bytes, &mut rows)?;
            drop(items);
            let pieces: Vec<_> = blocks.pieces.iter().map(Piece::bytes).collect::<Result<_>>()?;
            let start = spool.append(&pieces)?;
            let mut last: Option<Arc<SpooledBlock>> = None;
            for ((at, extents), row) in packed.into_iter().zip(rows) {
                let offset = start.saturating_add(row.block.offset);
                let block = match last.take().filter(|last| last.bytes.offset == offset) {
                    Some(block) => block,
                    None => {
                        let codec = blocks.codecs.get(usize::from(row.block.codec));
                        Arc::new(SpooledBlock {
                            bytes: SpooledBytes {
                                spool: Arc::clone(spool),
                                offset,
                                length: u64::from(row.block.length),
                                crc32: row.block.crc32,
                            },
                            raw_length: row.block.raw_length,
                            codec: codec.cloned().ok_or_else(too_many)?,
                        })
                    }
                };
                last = Some(Arc::clone(&block));
                let chunk = SpooledChunk {
                    block,
                    in_offset: row.in_offset,
                    in_length: row.in_length,
                    stats: row.stats,
                };
                let extents = extents.clone();
                done.push((at.clone(), PendingChunk::Spooled { chunk, extents }));
            }
            Ok(done)
        })
    }
}

/// Lists a block of the temporary file in a layer.
fn copy(from: &SpooledBlock, blocks: &mut Blocks) -> Result<Block> {
    let codec = blocks.codec(&from.codec).ok_or_else(too_many)?;
    let length = u32::try_from(from.bytes.length).map_err(|_| ArrayError::TooLarge {
        what: "block (bytes)",
        found: from.bytes.length,
        allowed: u64::from(u32::MAX),
    })?;
    let (crc32, raw_length) = (from.bytes.crc32, from.raw_length);
    let offset = blocks.take(Piece::Spooled(from.bytes.clone()));
    Ok(Block { offset, length, crc32, raw_length, codec })
}

fn item<'a>(
    array_id: u64,
    chunk: u64,
    meta: &ArrayMeta,
    extents: &[u64],
    raw: Raw<'a>,
    stats: Option<StoredStats>,
    packings: &Packings<'_>,
) -> Item<'a> {
    let (packing, planes) = packings.of(meta, extents);
    Item { array_id, chunk, lane: meta.dtype.lane(), raw, packing, planes, stats }
}

/// How a chunk is stored whose elements are all alike.
fn simple<'a>(meta: &ArrayMeta, values: &Values) -> Option<Shape<'a>> {
    let element = values.constant(meta.element_width())?;
    Some(if meta.is_fill(element) { Shape::Erased } else { Shape::Constant(element.to_vec()) })
}
