//! Changes that are not published yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data::{Place, Values, copy_in};
use crate::error::Result;
use crate::grid::{Selection, product};
use crate::meta::ArrayMeta;

/// A chunk that was written or erased.
#[derive(Debug, Clone)]
pub(crate) enum PendingChunk {
    Erased,
    Data {
        /// Shared with the layer that a flush makes of them.
        values: Arc<Values>,
        /// The shape that the values have.
        extents: Vec<u64>,
    },
}

/// What changed in one array.
#[derive(Debug, Clone)]
pub(crate) struct PendingArray {
    pub(crate) meta: ArrayMeta,
    /// No layer knows it.
    pub(crate) is_new: bool,
    pub(crate) deleted: bool,
    /// How far chunks of layers still count.
    pub(crate) clip: Option<Vec<u64>>,
    /// By coordinates in the grid, which growing does not change.
    pub(crate) chunks: BTreeMap<Vec<u64>, PendingChunk>,
}

impl PendingArray {
    pub(crate) fn of(meta: ArrayMeta, is_new: bool) -> Self {
        Self { meta, is_new, deleted: false, clip: None, chunks: BTreeMap::new() }
    }

    /// Gives the array another shape; what is cut off is gone, also when it grows again.
    pub(crate) fn resize(&mut self, shape: &[u64]) -> Result<()> {
        let before = std::mem::replace(&mut self.meta.shape, shape.to_vec());
        if before.iter().zip(shape).all(|(before, now)| now >= before) {
            return Ok(());
        }
        let clip = self.clip.take().unwrap_or(before);
        self.clip = Some(clip.iter().zip(shape).map(|(clip, now)| *clip.min(now)).collect());
        let grid = self.meta.grid()?;
        self.chunks.retain(|chunk, _| grid.number(chunk).is_some());
        for (chunk, held) in &mut self.chunks {
            let PendingChunk::Data { values, extents } = held else {
                continue;
            };
            let room = grid.extents(chunk);
            let kept: Vec<u64> =
                extents.iter().zip(&room).map(|(extent, room)| *extent.min(room)).collect();
            if kept != *extents {
                *values = Arc::new(reshape(&self.meta, values, extents, &kept)?);
                *extents = kept;
            }
        }
        Ok(())
    }

    /// Bytes that are held.
    pub(crate) fn memory(&self) -> u64 {
        self.chunks.values().fold(0, |all, chunk| match chunk {
            PendingChunk::Erased => all.saturating_add(64),
            PendingChunk::Data { values, .. } => all.saturating_add(values.memory()),
        })
    }
}

/// A box of values with other extents: cut, or with fill values behind.
pub(crate) fn reshape(
    meta: &ArrayMeta,
    values: &Values,
    from: &[u64],
    to: &[u64],
) -> Result<Values> {
    let mut out = meta.filled(product(to).unwrap_or(u64::MAX))?;
    let origin = vec![0; from.len()];
    let all = Selection { start: origin.clone(), count: from.to_vec(), step: vec![1; from.len()] };
    let visible: Vec<u64> = from.iter().zip(to).map(|(from, to)| *from.min(to)).collect();
    let place = Place { origin: &origin, extents: to, visible: &visible };
    copy_in(values.as_source(), place, &mut out.as_target(), &all, meta.width())?;
    Ok(out)
}
