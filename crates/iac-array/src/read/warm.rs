//! The short way for small arrays whose bytes are at hand.

use crate::cache::{Entry, Key};
use crate::data::{ArrayData, Values, check_fixed};
use crate::grid::{Selection, product};
use crate::meta::ArrayMeta;
use crate::snapshot::Inner;

/// Layers that are looked through in this way; where there are more, places are remembered.
const FEW_LAYERS: usize = 8;

/// Elements that are copied in this way; more are worth several threads.
const FEW_ELEMENTS: u64 = 1 << 17;

impl Inner {
    /// Reads a box that is a whole array as [`Inner::read_warm`] does.
    pub(crate) fn read_warm_box(
        &self,
        meta: &ArrayMeta,
        selection: &Selection,
    ) -> Option<ArrayData> {
        let whole = selection.count == meta.shape && selection.step.iter().all(|step| *step == 1);
        if whole { self.read_warm(meta) } else { None }
    }

    /// Reads an array of a single chunk whole, if all that this takes is in the cache: no lists are
    /// made, which is most of the work for small arrays. None when it is not as simple as that.
    pub(crate) fn read_warm(&self, meta: &ArrayMeta) -> Option<ArrayData> {
        let single = meta.shape.iter().zip(&meta.chunk).all(|(extent, chunk)| extent <= chunk);
        if !single || meta.nullable || meta.shape.contains(&0) || self.layers.len() > FEW_LAYERS {
            return None;
        }
        let elements = product(&meta.shape)?;
        if elements > FEW_ELEMENTS {
            return None;
        }
        let key = (meta.id, 0);
        let mut cache = self.backend.cache.view()?;
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
            let Some(Entry::Batch(rows)) = cache.get(&batch) else {
                return None;
            };
            let Some(row) = rows.position(key) else {
                continue;
            };
            // Where it has no bytes, this is not the way.
            let (block, in_offset, in_length) = rows.data(row)?;
            let Some(Entry::Block(block)) = cache.get(&Key::Block(layer.id, block)).cloned() else {
                return None;
            };
            drop(cache);
            let from = usize::try_from(in_offset).ok()?;
            let end = from.checked_add(usize::try_from(in_length).ok()?)?;
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
}
