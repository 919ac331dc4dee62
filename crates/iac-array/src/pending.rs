//! Changes that are not published yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data::{Place, Values, copy_in};
use crate::error::{ArrayError, Result};
use crate::grid::{Selection, product};
use crate::meta::ArrayMeta;
use crate::spool::SpooledBlock;
use crate::stats::StoredStats;

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
    /// Every element is this one.
    Constant {
        element: Vec<u8>,
        extents: Vec<u64>,
    },
    /// In the temporary file.
    Spooled {
        chunk: SpooledChunk,
        extents: Vec<u64>,
    },
}

/// A chunk within a finished block.
#[derive(Debug, Clone)]
pub(crate) struct SpooledChunk {
    pub(crate) block: Arc<SpooledBlock>,
    pub(crate) in_offset: u32,
    pub(crate) in_length: u32,
    pub(crate) stats: Option<StoredStats>,
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

impl SpooledChunk {
    /// Its elements.
    pub(crate) fn values(&self, meta: &ArrayMeta, extents: &[u64]) -> Result<Values> {
        let lost = |reason| ArrayError::corrupt("the temporary file of pending changes", reason);
        let block = self.block.decode()?;
        let from = usize::try_from(self.in_offset).unwrap_or(usize::MAX);
        let end = from.saturating_add(usize::try_from(self.in_length).unwrap_or(usize::MAX));
        if end > block.len() {
            return Err(lost(format!("a chunk ends at {end} of {} bytes", block.len())));
        }
        let (bytes, elements) = (block.slice(from..end), product(extents).unwrap_or(u64::MAX));
        match meta.dtype.width() {
            Some(_) => {
                meta.decode_fixed(&bytes, elements).map(|bytes| Values::Fixed(bytes.into_owned()))
            }
            None => meta.decode_variable(&bytes, elements).map(Values::Variable),
        }
        .map_err(lost)
    }
}

impl PendingChunk {
    /// The elements and their shape; none where they are as nobody wrote them.
    pub(crate) fn values(&self, meta: &ArrayMeta) -> Result<Option<(Arc<Values>, &[u64])>> {
        Ok(Some(match self {
            Self::Erased => return Ok(None),
            Self::Data { values, extents } => (Arc::clone(values), extents),
            Self::Constant { element, extents } => {
                let elements = product(extents).unwrap_or(u64::MAX);
                let values = Values::filled(meta.element_width(), Some(element), elements)?;
                (Arc::new(values), extents)
            }
            Self::Spooled { chunk, extents } => (Arc::new(chunk.values(meta, extents)?), extents),
        }))
    }

    const fn extents(&self) -> Option<&Vec<u64>> {
        match self {
            Self::Erased => None,
            Self::Data { extents, .. }
            | Self::Constant { extents, .. }
            | Self::Spooled { extents, .. } => Some(extents),
        }
    }

    /// Bytes of elements that are held in memory.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Data { values, .. } => values.memory(),
            _ => 0,
        }
    }
}

impl PendingArray {
    pub(crate) fn of(meta: ArrayMeta, is_new: bool) -> Self {
        Self { meta, is_new, deleted: false, clip: None, chunks: BTreeMap::new() }
    }

    /// Gives the array another shape; what is cut off is gone, also when it grows again. Nothing is
    /// changed when it fails.
    pub(crate) fn resize(&mut self, shape: &[u64]) -> Result<()> {
        let before = &self.meta.shape;
        if before.iter().zip(shape).all(|(before, now)| now >= before) {
            self.meta.shape = shape.to_vec();
            return Ok(());
        }
        let clip = self.clip.as_ref().unwrap_or(before);
        let clip = clip.iter().zip(shape).map(|(clip, now)| *clip.min(now)).collect();
        let mut meta = self.meta.clone();
        meta.shape = shape.to_vec();
        let grid = meta.grid()?;
        let mut cut = Vec::new();
        for (chunk, held) in &self.chunks {
            let (Some(_), Some(extents)) = (grid.number(chunk), held.extents()) else {
                continue;
            };
            let room = grid.extents(chunk);
            let kept: Vec<u64> =
                extents.iter().zip(&room).map(|(extent, room)| *extent.min(room)).collect();
            if kept == *extents {
                continue;
            }
            let smaller = match held {
                PendingChunk::Constant { element, .. } => {
                    PendingChunk::Constant { element: element.clone(), extents: kept }
                }
                other => match other.values(&meta)? {
                    Some((values, extents)) => {
                        let values = Arc::new(reshape(&meta, &values, extents, &kept)?);
                        PendingChunk::Data { values, extents: kept }
                    }
                    None => continue,
                },
            };
            cut.push((chunk.clone(), smaller));
        }
        self.chunks.retain(|chunk, _| grid.number(chunk).is_some());
        self.chunks.extend(cut);
        self.meta = meta;
        self.clip = Some(clip);
        Ok(())
    }

    /// Bytes that are held in memory.
    pub(crate) fn memory(&self) -> u64 {
        self.chunks.values().fold(0, |all, chunk| all.saturating_add(chunk.memory()))
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
