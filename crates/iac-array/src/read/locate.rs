//! Finding the newest row of each chunk in the layers of a snapshot.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::CONCURRENCY;
use crate::error::{ArrayError, Result};
use crate::grid::Grid;
use crate::index::{Batch, ChunkKind, ChunkRow};
use crate::layer::Layer;
use crate::meta::ArrayMeta;
use crate::per_process::PerProcess;
use crate::snapshot::Inner;

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

/// A layer that has chunks of an array.
#[derive(Debug)]
struct Step {
    layer: usize,
    grid: Grid,
    /// How far chunks of this layer count along each axis, by what newer layers say.
    clip: Vec<u64>,
    chunks: u64,
}

/// The layers that have chunks of an array, newest first.
#[derive(Debug)]
pub(crate) struct Trail {
    steps: Vec<Step>,
}

/// What a snapshot of several layers has found out: where chunks are, and that they are nowhere. So
/// the number of layers costs once for each chunk and not with each read.
///
/// A forked child begins with nothing, as with the cache.
#[derive(Debug, Default)]
pub(crate) struct Trails(PerProcess<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    arrays: HashMap<u64, KnownArray>,
    chunks: usize,
}

#[derive(Debug)]
struct KnownArray {
    trail: Arc<Trail>,
    /// The shape that it had: one that is being changed has other numbers.
    shape: Vec<u64>,
    /// By number in the array's grid: which step of the trail has it, and its row.
    chunks: HashMap<u64, Option<(usize, ChunkRow)>>,
}

/// Chunks that a snapshot remembers the places of; about 16 MiB.
const KEPT_CHUNKS: usize = 1 << 16;
/// Bytes of the element of a constant chunk that is remembered.
const KEPT_ELEMENT: usize = 64;
/// Arrays of which it remembers anything.
const KEPT_ARRAYS: usize = 1 << 12;

impl Trails {
    fn lock(&self) -> Option<MutexGuard<'_, Known>> {
        let known = self.0.get(|| Some(Mutex::default()))?;
        Some(known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What one look for chunks has found so far.
struct Search<'a> {
    meta: &'a ArrayMeta,
    chunks: &'a [Vec<u64>],
    /// How far older chunks count because of changes that are in no layer.
    clip: Option<&'a [u64]>,
    found: Vec<Option<(usize, ChunkRow)>>,
    /// Which chunks are still looked for, row-major.
    open: Vec<usize>,
}

impl Search<'_> {
    fn coordinates(&self, at: usize) -> &[u64] {
        self.chunks.get(at).map_or(&[], Vec::as_slice)
    }

    fn take(&mut self, at: usize, step: usize, row: ChunkRow) {
        if let Some(slot) = self.found.get_mut(at) {
            *slot = Some((step, row));
        }
    }
}

impl Inner {
    /// The newest row of each chunk within a run of layers, if one of them has it. Chunks come
    /// row-major.
    ///
    /// `clip` is how far older chunks count from the beginning: changes that are not in any layer.
    pub(crate) async fn locate(
        &self,
        layers: Range<usize>,
        meta: &ArrayMeta,
        chunks: &[Vec<u64>],
        clip: Option<&[u64]>,
    ) -> Result<Vec<Option<Found>>> {
        let mut search = Search {
            meta,
            chunks,
            clip,
            found: vec![None; chunks.len()],
            open: (0..chunks.len()).collect(),
        };
        let remembers = layers == (0..self.layers.len()) && layers.len() > 1;
        let known = if remembers { self.recall(&mut search)? } else { None };
        let trail = match known {
            Some(trail) => trail,
            None => Arc::new(self.trail(layers, meta)?),
        };
        if !search.open.is_empty() {
            let asked = search.open.clone();
            self.follow(&trail, &mut search).await?;
            if remembers {
                self.remember(&trail, &search, &asked)?;
            }
        }
        let clip = search.clip;
        let placed = search.found.into_iter().zip(chunks).map(|(found_row, chunk)| {
            let (step, row) = found_row?;
            let step = trail.steps.get(step)?;
            let mut visible = step.clip.clone();
            if let Some(clip) = clip {
                visible
                    .iter_mut()
                    .zip(clip)
                    .for_each(|(visible, clip)| *visible = *clip.min(visible));
            }
            Some(found(step.layer, row, &step.grid, chunk, &visible))
        });
        Ok(placed.collect())
    }

    /// The layers of a run that have chunks of an array.
    fn trail(&self, layers: Range<usize>, meta: &ArrayMeta) -> Result<Trail> {
        let mut steps = Vec::new();
        let mut clip = vec![u64::MAX; meta.shape.len()];
        for number in layers.rev() {
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
            if entry.chunks_written > 0 {
                let grid = entry.meta.grid()?;
                let chunks = entry.chunks_written;
                steps.push(Step { layer: number, grid, clip: clip.clone(), chunks });
            }
            if let Some(smaller) = &entry.clip {
                clip.iter_mut().zip(smaller).for_each(|(clip, smaller)| *clip = *smaller.min(clip));
            }
        }
        Ok(Trail { steps })
    }

    /// Takes what is known of the chunks of a search.
    fn recall(&self, search: &mut Search<'_>) -> Result<Option<Arc<Trail>>> {
        let Some(known) = self.trails.lock() else {
            return Ok(None);
        };
        let array = known.arrays.get(&search.meta.id);
        let Some(array) = array.filter(|array| array.shape == search.meta.shape) else {
            return Ok(None);
        };
        if !array.chunks.is_empty() {
            let grid = search.meta.grid()?;
            let mut open = std::mem::take(&mut search.open);
            open.retain(|at| {
                let number = grid.number(search.coordinates(*at));
                let Some(place) = number.and_then(|number| array.chunks.get(&number)) else {
                    return true;
                };
                if let Some((step, row)) = place {
                    search.take(*at, *step, row.clone());
                }
                false
            });
            search.open = open;
        }
        Ok(Some(Arc::clone(&array.trail)))
    }

    /// Notes what a search has found.
    fn remember(&self, trail: &Arc<Trail>, search: &Search<'_>, asked: &[usize]) -> Result<()> {
        let Some(mut known) = self.trails.lock() else {
            return Ok(());
        };
        let few = asked.len() <= KEPT_CHUNKS / 2;
        let full = known.chunks.saturating_add(asked.len()) > KEPT_CHUNKS;
        if (few && full) || known.arrays.len() >= KEPT_ARRAYS {
            *known = Known::default();
        }
        let grid = search.meta.grid()?;
        let array = known.arrays.entry(search.meta.id).or_insert_with(|| KnownArray {
            trail: Arc::clone(trail),
            shape: search.meta.shape.clone(),
            chunks: HashMap::new(),
        });
        if !few || array.shape != search.meta.shape {
            return Ok(());
        }
        let before = array.chunks.len();
        for at in asked {
            let place = search.found.get(*at).and_then(Option::as_ref);
            let is_large = place.is_some_and(|(_, row)| match &row.kind {
                ChunkKind::Constant(element) => element.len() > KEPT_ELEMENT,
                ChunkKind::Data | ChunkKind::Erased => false,
            });
            if let (Some(number), false) = (grid.number(search.coordinates(*at)), is_large) {
                array.chunks.insert(number, place.cloned());
            }
        }
        let more = array.chunks.len().saturating_sub(before);
        known.chunks = known.chunks.saturating_add(more);
        Ok(())
    }

    /// Looks for open chunks in one layer after the other.
    ///
    /// The index batches of several layers are fetched together, of twice as many each time: what
    /// lies in the newest layer takes one request, and many layers take few round trips.
    async fn follow(&self, trail: &Trail, search: &mut Search<'_>) -> Result<()> {
        let mut together = 1_usize;
        let mut rest = trail.steps.as_slice();
        let mut number = 0_usize;
        while !rest.is_empty() && !search.open.is_empty() {
            let (now, later) = rest.split_at(together.min(rest.len()));
            let mut wanted = Vec::new();
            for step in now {
                if let Some(layer) = self.layers.get(step.layer) {
                    let batches = candidates(layer, step, search);
                    wanted.extend(batches.into_iter().map(|batch| (step.layer, batch)));
                }
            }
            let loaded = self.batches_of(&wanted).await?;
            for step in now {
                if let Some(layer) = self.layers.get(step.layer) {
                    if is_few(step, search) {
                        take_few(layer, step, number, &loaded, search);
                    } else {
                        take_each(layer, step, number, &loaded, search);
                    }
                }
                number = number.saturating_add(1);
            }
            rest = later;
            together = together.saturating_mul(2).min(CONCURRENCY);
        }
        Ok(())
    }
}

/// Whether a layer has so few chunks of the array that each of them is looked for among the open
/// ones, and not the other way round: many small layers then cost what is in them.
fn is_few(step: &Step, search: &Search<'_>) -> bool {
    usize::try_from(step.chunks).is_ok_and(|chunks| chunks < search.open.len() / 4)
}

/// The batches of a layer that may hold open chunks, rising.
fn candidates(layer: &Layer, step: &Step, search: &Search<'_>) -> Vec<usize> {
    let id = search.meta.id;
    if !is_few(step, search) {
        let keys = search
            .open
            .iter()
            .filter_map(|at| step.grid.number(search.coordinates(*at)).map(|number| (id, number)));
        let mut batches: Vec<usize> = keys.filter_map(|key| layer.batch_of(key)).collect();
        batches.sort_unstable();
        batches.dedup();
        return batches;
    }
    // Only batches in whose range an open chunk lies.
    let mut batches = Vec::new();
    for batch in layer.batches_of(id) {
        let Some(place) = layer.batches.get(batch) else {
            continue;
        };
        let first = if place.first.0 < id { 0 } else { place.first.1 };
        let last = if place.last.0 > id { u64::MAX } else { place.last.1 };
        let Some(from) = step.grid.coordinates(first) else {
            continue;
        };
        let next = search.open.partition_point(|at| search.coordinates(*at) < from.as_slice());
        let open = search.open.get(next..).unwrap_or_default().iter();
        // The grid of the layer may be smaller: chunks outside of it are in none of its rows.
        let mut numbers = open.filter_map(|at| step.grid.number(search.coordinates(*at)));
        if numbers.next().is_some_and(|number| number <= last) {
            batches.push(batch);
        }
    }
    batches
}

type Loaded = HashMap<(usize, usize), Arc<Batch>>;

/// Finds open chunks in a layer by looking for each; those that are not there stay open.
fn take_each(layer: &Layer, step: &Step, number: usize, loaded: &Loaded, search: &mut Search<'_>) {
    let id = search.meta.id;
    let mut open = std::mem::take(&mut search.open);
    open.retain(|at| {
        let key = step.grid.number(search.coordinates(*at)).map(|chunk| (id, chunk));
        let row = key.and_then(|key| loaded.get(&(step.layer, layer.batch_of(key)?))?.find(key));
        match row {
            Some(row) => {
                search.take(*at, number, row);
                false
            }
            None => true,
        }
    });
    search.open = open;
}

/// The same for a layer that has few chunks of the array.
fn take_few(layer: &Layer, step: &Step, number: usize, loaded: &Loaded, search: &mut Search<'_>) {
    let id = search.meta.id;
    let mut taken = Vec::new();
    for batch in layer.batches_of(id) {
        let Some(rows) = loaded.get(&(step.layer, batch)) else {
            continue;
        };
        for row in rows.rows_of(id).filter_map(|row| rows.row(row)) {
            let Some(chunk) = step.grid.coordinates(row.chunk) else {
                continue;
            };
            let open = search.open.binary_search_by(|at| search.coordinates(*at).cmp(&chunk));
            let Ok(place) = open else {
                continue;
            };
            if let Some(at) = search.open.get(place).copied() {
                search.take(at, number, row);
                taken.push(place);
            }
        }
    }
    if taken.is_empty() {
        return;
    }
    taken.sort_unstable();
    let mut taken = taken.into_iter().peekable();
    let mut place = 0_usize;
    search.open.retain(|_| {
        let gone = taken.next_if_eq(&place).is_some();
        place = place.saturating_add(1);
        !gone
    });
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
