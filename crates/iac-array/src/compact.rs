//! Compaction: several layers become one that says the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use crate::backend::Commit;
use crate::catalogue::CatalogueRow;
use crate::error::{ArrayError, Result, u64_len};
use crate::flush::{FlushReport, next_version, pause, without_bytes};
use crate::grid::product;
use crate::index::{Block, ChunkKind, ChunkRow};
use crate::layer::{self, BuiltLayer, LayerId, LayerParts};
use crate::manifest::{LayerEntry, Manifest};
use crate::meta::{ArrayMeta, NodeKind};
use crate::options::StoreOptions;
use crate::pack::{Blocks, Item, Packings, Raw, too_many};
use crate::pending::reshape;
use crate::read::Found;
use crate::snapshot::{Inner, Snapshot};
use crate::store::{ArrayStore, newest};

/// Times that publishing begins anew because others were faster.
const TRIES: u32 = 16;
/// A layer this many times larger than the newer ones together is left alone.
const TIER_FACTOR: u64 = 8;

/// Which layers a compaction joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CompactPolicy {
    /// The newest layers, down to one that is at least eight times as large as all of them
    /// together: small layers are joined often, large ones seldom.
    #[default]
    Tiers,
    /// All layers.
    All,
}

/// A chunk that the joined layer keeps.
struct Live {
    meta: Arc<ArrayMeta>,
    /// The chunk's number in the grid of the joined layer.
    number: u64,
    wanted: Vec<u64>,
    found: Found,
}

/// What is in a run of layers, newest rows only.
struct Joined {
    catalogue: Vec<CatalogueRow>,
    live: Vec<Live>,
    /// Chunks without bytes.
    rows: Vec<ChunkRow>,
}

impl CompactPolicy {
    fn run(self, layers: &[LayerEntry]) -> Range<usize> {
        let end = layers.len();
        let mut start = match self {
            Self::All => return 0..end,
            Self::Tiers => end,
        };
        let mut newer = 0_u64;
        for layer in layers.iter().rev() {
            let alone = layer.bytes >= newer.saturating_mul(TIER_FACTOR);
            if alone && end.saturating_sub(start) >= 2 {
                break;
            }
            newer = newer.saturating_add(layer.bytes);
            start = start.saturating_sub(1);
        }
        start..end
    }
}

impl ArrayStore {
    /// Joins layers into one and publishes the result as a version; the arrays do not change.
    ///
    /// Blocks whose chunks are all in use are copied as they are stored. Other writers may go on:
    /// what they publish meanwhile stays on top. Nothing is deleted; see [`ArrayStore::gc`].
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] while changes are pending, [`ArrayError::Conflict`] when somebody
    /// else compacted the same layers, else what reading and the object store report.
    pub async fn compact(&mut self, policy: CompactPolicy) -> Result<FlushReport> {
        self.refresh().await?;
        let run = policy.run(&self.base.inner.manifest.layers);
        let nothing = run.len() < 2;
        if nothing {
            return Ok(FlushReport {
                version: self.base.version(),
                chunks: 0,
                layer_bytes: 0,
                needs_compaction: false,
            });
        }
        let id = LayerId::random()?;
        let base = Arc::clone(&self.base.inner);
        let (built, chunks) = join(&base, run.clone(), id, &self.options, true).await?;
        let path = format!("layers/{id}.iac");
        self.backend.put_layer(&self.backend.within(&path), &built).await?;
        let replaced = base.manifest.layers.get(run.clone()).unwrap_or_default();
        let entry = LayerEntry {
            layer_id: id,
            path,
            bytes: built.bytes,
            head_bytes: built.head_bytes,
            header_crc32: built.header_sum,
            rows: chunks,
            through: replaced.iter().map(|layer| layer.through).max().unwrap_or(0),
            joined: true,
        };
        let mut top = self.base.clone();
        for tries in 0..TRIES {
            let layers = &top.inner.manifest.layers;
            let at = layers.windows(run.len()).position(|window| window == replaced);
            let Some(at) = at else {
                let what = "the layers that were to be joined".to_owned();
                return Err(ArrayError::Conflict { version: top.version(), what });
            };
            let mut layers = layers.clone();
            layers.splice(at..at.saturating_add(run.len()), [entry.clone()]);
            let version = next_version(&top)?;
            let store_id = top.inner.manifest.store_id.clone();
            let manifest = Manifest::new(version, top.version(), store_id, layers);
            match self.backend.commit(&manifest, id).await? {
                Commit::Done => {
                    let opened = Inner::open(&self.backend, manifest, &top.inner.layers).await?;
                    self.base = Snapshot { inner: Arc::new(opened) };
                    return Ok(FlushReport {
                        version,
                        chunks,
                        layer_bytes: built.bytes,
                        needs_compaction: false,
                    });
                }
                Commit::Taken => {
                    pause(tries).await;
                    top = newest(&self.backend, &top.inner.layers).await?;
                }
            }
        }
        Err(ArrayError::Conflict { version: top.version(), what: "the store 16 times".to_owned() })
    }
}

/// One layer that says what a run of layers says, and how many chunks it has; for a store it is
/// noted which version changed which array.
pub(crate) async fn join(
    inner: &Inner,
    run: Range<usize>,
    id: LayerId,
    options: &StoreOptions,
    noted: bool,
) -> Result<(BuiltLayer, u64)> {
    let oldest = run.start == 0;
    let Joined { catalogue, live, mut rows } = collect(inner, run, oldest, noted).await?;
    let mut blocks = Blocks::new(&options.scratch);
    let (copied, packed) = sort_out(inner, live).await?;
    copy(inner, &copied, options.scratch.window(), &mut blocks, &mut rows).await?;
    repack(inner, &packed, options, &mut blocks, &mut rows).await?;
    rows.sort_unstable_by_key(|row| (row.array_id, row.chunk));
    let built = layer::build(LayerParts {
        id,
        base: oldest,
        catalogue: &catalogue,
        index: &rows,
        codecs: &blocks.codecs,
        data: blocks.pieces,
    })?;
    Ok((built, u64_len(rows.len())))
}

/// The newest row of every array and chunk of a run.
async fn collect(inner: &Inner, run: Range<usize>, oldest: bool, noted: bool) -> Result<Joined> {
    let layers = inner.layers.get(run.clone()).unwrap_or_default();
    let ids: BTreeSet<u64> = layers.iter().flat_map(|layer| layer.rows.keys().copied()).collect();
    let mut joined = Joined { catalogue: Vec::new(), live: Vec::new(), rows: Vec::new() };
    for id in ids {
        let newest = layers.iter().rev().find_map(|layer| layer.rows.get(&id));
        let Some(newest) = newest.filter(|row| !(row.deleted && oldest)) else {
            continue;
        };
        let meta = Arc::clone(&newest.meta);
        let clips = layers.iter().filter_map(|layer| layer.rows.get(&id)?.clip.as_ref());
        let clip = clips.fold(None, |all: Option<Vec<u64>>, clip| {
            let least = |all: Vec<u64>| all.iter().zip(clip).map(|(a, b)| *a.min(b)).collect();
            Some(all.map_or_else(|| clip.clone(), least))
        });
        let mut written = 0_u64;
        if !newest.deleted && meta.kind == NodeKind::Array {
            let chunks = chunks_of(inner, run.clone(), &meta).await?;
            let located = inner.locate(run.clone(), &meta, &chunks, None).await?;
            let grid = meta.grid()?;
            for (chunk, found) in chunks.iter().zip(located) {
                let (Some(number), Some(found)) = (grid.number(chunk), found) else {
                    continue;
                };
                let wanted = grid.extents(chunk);
                let whole = found.extents == wanted && found.visible == wanted;
                // An erased chunk hides older ones, of which the oldest layer has none below it.
                let kind = match &found.row.kind {
                    ChunkKind::Erased if oldest => continue,
                    ChunkKind::Erased => Some(ChunkKind::Erased),
                    ChunkKind::Constant(element) if whole => {
                        Some(ChunkKind::Constant(element.clone()))
                    }
                    _ => None,
                };
                written = written.saturating_add(1);
                match kind {
                    Some(kind) => joined.rows.push(without_bytes(id, number, kind)),
                    None => {
                        joined.live.push(Live { meta: Arc::clone(&meta), number, wanted, found })
                    }
                }
            }
        }
        joined.catalogue.push(CatalogueRow {
            meta: Arc::clone(&newest.meta),
            deleted: newest.deleted,
            clip: clip.filter(|_| !oldest),
            chunks_written: written,
            through: noted.then(|| changed(inner, run.clone(), id)).flatten(),
        });
    }
    Ok(joined)
}

/// The newest version of a run that changed an array.
fn changed(inner: &Inner, run: Range<usize>, id: u64) -> Option<u64> {
    let entries = inner.manifest.layers.get(run.clone())?.iter();
    let layers = inner.layers.get(run)?.iter();
    entries.zip(layers).filter_map(|(entry, layer)| Some(entry.changed(layer.rows.get(&id)?))).max()
}

/// Coordinates of all chunks that a run has of an array.
async fn chunks_of(inner: &Inner, run: Range<usize>, meta: &ArrayMeta) -> Result<Vec<Vec<u64>>> {
    let mut chunks = BTreeSet::new();
    for number in run {
        let Some(layer) = inner.layers.get(number) else {
            continue;
        };
        let Some(row) = layer.rows.get(&meta.id).filter(|row| row.chunks_written > 0) else {
            continue;
        };
        let grid = row.meta.grid()?;
        let numbers: Vec<usize> = layer.batches_of(meta.id).collect();
        for rows in inner.batches(number, &numbers).await?.values() {
            for row in rows.rows_of(meta.id).filter_map(|row| rows.row(row)) {
                let outside = || {
                    let reason = format!("array `{}` has no chunk {}", meta.name, row.chunk);
                    ArrayError::corrupt(&layer.object, reason)
                };
                chunks.insert(grid.coordinates(row.chunk).ok_or_else(outside)?);
            }
        }
    }
    Ok(chunks.into_iter().collect())
}

/// Chunks whose blocks can be copied, and those that must be packed again.
async fn sort_out(inner: &Inner, live: Vec<Live>) -> Result<(Vec<Live>, Vec<Live>)> {
    let whole =
        |live: &Live| live.found.extents == live.wanted && live.found.visible == live.wanted;
    let mut used: HashMap<(usize, Block), u64> = HashMap::new();
    for live in live.iter().filter(|live| whole(live)) {
        let bytes = used.entry((live.found.layer, live.found.row.block)).or_default();
        *bytes = bytes.saturating_add(u64::from(live.found.row.in_length));
    }
    // Chunks of a block do not overlap in what we write, so a block is in use as a whole when its
    // chunks have as many bytes together as it has.
    Ok(live.into_iter().partition(|live| {
        let block = live.found.row.block;
        let known = inner.layers.get(live.found.layer);
        let codec = known.and_then(|layer| layer.codecs.get(usize::from(block.codec)));
        whole(live)
            && live.found.row.kind == ChunkKind::Data
            && codec.is_some()
            && used.get(&(live.found.layer, block)) == Some(&u64::from(block.raw_length))
    }))
}

/// How many things are at hand at once: at least one, and as many as memory may have.
fn window<T>(all: &[T], memory: u64, bytes: impl Fn(&T) -> u64) -> usize {
    let mut sum = 0_u64;
    let fits = |one: &&T| {
        sum = sum.saturating_add(bytes(one));
        sum <= memory
    };
    all.iter().take_while(fits).count().max(1)
}

async fn copy(
    inner: &Inner,
    live: &[Live],
    memory: u64,
    blocks: &mut Blocks,
    rows: &mut Vec<ChunkRow>,
) -> Result<()> {
    let wanted: BTreeSet<(usize, Block)> =
        live.iter().map(|live| (live.found.layer, live.found.row.block)).collect();
    let wanted: Vec<(usize, Block)> = wanted.into_iter().collect();
    let mut moved: BTreeMap<(usize, Block), Block> = BTreeMap::new();
    let mut rest = wanted.as_slice();
    while !rest.is_empty() {
        let length = |(_, block): &(usize, Block)| u64::from(block.length);
        let (now, later) = rest.split_at(window(rest, memory, length));
        copy_blocks(inner, now, blocks, &mut moved).await?;
        rest = later;
    }
    for live in live {
        let row = &live.found.row;
        if let Some(block) = moved.get(&(live.found.layer, row.block)) {
            rows.push(ChunkRow { chunk: live.number, block: *block, ..row.clone() });
        }
    }
    Ok(())
}

/// Copies blocks as they are stored, once their checksums have been compared.
async fn copy_blocks(
    inner: &Inner,
    wanted: &[(usize, Block)],
    blocks: &mut Blocks,
    moved: &mut BTreeMap<(usize, Block), Block>,
) -> Result<()> {
    let stored = inner.stored_blocks(wanted).await?;
    let sums: Vec<u32> =
        inner.backend.install(|| stored.par_iter().map(|bytes| crc32fast::hash(bytes)).collect());
    let dense = is_dense(wanted);
    for (((layer, block), bytes), sum) in wanted.iter().zip(stored).zip(sums) {
        let Some(from) = inner.layers.get(*layer) else {
            continue;
        };
        if sum != block.crc32 {
            return Err(ArrayError::corrupt(
                &from.object,
                format!(
                    "checksum of the block at {} is {sum:08x} instead of {:08x}",
                    block.offset, block.crc32
                ),
            ));
        }
        let codec = from.codecs.get(usize::from(block.codec));
        let codec = codec.and_then(|codec| blocks.codec(codec)).ok_or_else(too_many)?;
        // Joined requests share memory: a copy lets go of what is not needed, where that is much.
        let bytes = if dense { bytes } else { Bytes::copy_from_slice(&bytes) };
        let offset = blocks.push(bytes, sum)?;
        moved.insert((*layer, *block), Block { offset, codec, ..*block });
    }
    Ok(())
}

/// Whether nearly all that lies between sorted blocks of a layer is wanted, too.
fn is_dense(wanted: &[(usize, Block)]) -> bool {
    let (mut all, mut gaps) = (0_u64, 0_u64);
    let mut before: Option<(usize, u64)> = None;
    for (layer, block) in wanted {
        all = all.saturating_add(u64::from(block.length));
        if let Some((_, end)) = before.filter(|(other, _)| other == layer) {
            gaps = gaps.saturating_add(block.offset.saturating_sub(end));
        }
        before = Some((*layer, block.offset.saturating_add(u64::from(block.length))));
    }
    gaps <= all / 8
}

async fn repack(
    inner: &Inner,
    live: &[Live],
    options: &StoreOptions,
    blocks: &mut Blocks,
    rows: &mut Vec<ChunkRow>,
) -> Result<()> {
    let mut packings = Packings::new(&options.packing, &inner.backend.registry);
    live.iter().for_each(|live| packings.add(&live.meta));
    let mut rest = live;
    while !rest.is_empty() {
        let bytes = |live: &Live| {
            let elements = product(&live.wanted).unwrap_or(u64::MAX);
            let chunk = elements.saturating_mul(u64_len(live.meta.width()));
            chunk.saturating_add(u64::from(live.found.row.block.raw_length))
        };
        let (now, later) = rest.split_at(window(rest, options.scratch.memory, bytes));
        repack_some(inner, now, &packings, options, blocks, rows).await?;
        rest = later;
    }
    Ok(())
}

async fn repack_some(
    inner: &Inner,
    live: &[Live],
    packings: &Packings<'_>,
    options: &StoreOptions,
    blocks: &mut Blocks,
    rows: &mut Vec<ChunkRow>,
) -> Result<()> {
    let wanted: BTreeSet<(usize, Block)> = live
        .iter()
        .filter(|live| live.found.row.kind == ChunkKind::Data)
        .map(|live| (live.found.layer, live.found.row.block))
        .collect();
    let wanted: Vec<(usize, Block)> = wanted.into_iter().collect();
    let decoded = inner.blocks(&wanted, true).await?;
    let statistics = options.statistics;
    let mut items = Vec::with_capacity(live.len());
    for live in live {
        let meta = &*live.meta;
        let values = inner.chunk_values(meta, &live.found, &decoded)?;
        let found = &live.found;
        // First what is still visible, then the rest of the chunk as fill.
        let values = reshape(meta, &values, &found.extents, &found.visible)?;
        let values = reshape(meta, &values, &found.visible, &live.wanted)?;
        let raw = meta.encode(&values)?;
        let (packing, planes) = packings.of(meta, &live.wanted);
        items.push(Item {
            packing,
            planes,
            array_id: meta.id,
            chunk: live.number,
            lane: meta.dtype.lane(),
            stats: statistics.then(|| crate::stats::of_bytes(meta, &raw)).flatten(),
            raw: Raw::Made(raw),
        });
    }
    inner.backend.install(|| blocks.pack(&items, packings.list(), options.block_bytes, rows))
}
