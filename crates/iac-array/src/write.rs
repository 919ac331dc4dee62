//! Changes of elements and shapes: they wait for the next flush.

use std::sync::Arc;

use rayon::prelude::*;

use crate::data::{ArrayData, Place, Values, copy_in};
use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len};
use crate::grid::{Grid, Selection, product};
use crate::meta::ArrayMeta;
use crate::pending::PendingChunk;
use crate::snapshot::read_boxes;
use crate::store::ArrayStore;

/// A chunk that a write touches: its coordinates, origin and extents, whether the write covers it,
/// and what is in it otherwise.
type Touched = (Vec<u64>, Vec<u64>, Vec<u64>, bool, Option<Values>);

/// Bytes from which on several threads cut what is written into chunks.
const SHARED_COPY: u64 = 4 << 20;

impl ArrayStore {
    /// Writes a box that begins at `start` and has the shape of the data.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`], [`ArrayError::OutOfBounds`], [`ArrayError::Argument`] for data of
    /// another type; chunks that are covered in part are read first, with the errors of reading.
    /// Nothing is changed by a call that fails.
    pub async fn write(
        &mut self,
        name: &str,
        start: &[u64],
        data: impl Into<ArrayData>,
    ) -> Result<()> {
        let data = data.into();
        let meta = self.current_array(name)?.clone();
        check_type(&meta, &data)?;
        let selection = Selection::new(name, &meta.shape, start, &data.shape, None)?;
        let values = meta.elements(&data)?;
        let written = self.changed(&meta, &selection, Some(&values)).await?;
        self.put_chunks(&meta, written);
        Ok(())
    }

    /// Makes the elements of a box what they are when nobody wrote them.
    ///
    /// # Errors
    ///
    /// As [`ArrayStore::write`].
    pub async fn erase(&mut self, name: &str, start: &[u64], shape: &[u64]) -> Result<()> {
        let meta = self.current_array(name)?.clone();
        let selection = Selection::new(name, &meta.shape, start, shape, None)?;
        let erased = self.changed(&meta, &selection, None).await?;
        self.put_chunks(&meta, erased);
        Ok(())
    }

    /// The chunks that a box touches, with new elements in it. When they are more than may wait in
    /// memory, they are made some at a time and go into the temporary file, and what waited before
    /// goes there first.
    async fn changed(
        &mut self,
        meta: &ArrayMeta,
        selection: &Selection,
        data: Option<&Values>,
    ) -> Result<Vec<(Vec<u64>, PendingChunk)>> {
        let grid = meta.grid()?;
        let touched = grid.touched(selection)?;
        let chunks = u64_len(touched.len()).max(1);
        let least = product(&meta.chunk).unwrap_or(u64::MAX).min(product(&meta.shape).unwrap_or(0));
        let least = least.saturating_mul(u64_len(meta.width()));
        let given = data.map_or(0, Values::memory).div_ceil(chunks);
        // Chunks that are erased as a whole take no memory.
        let made = match data {
            Some(_) => chunks,
            None => u64_len(touched.iter().filter(|at| !covers(selection, &grid, at)).count()),
        };
        let bytes = least.max(given).saturating_mul(made);
        let (limit, window) = (self.options.scratch.memory, self.options.scratch.window());
        // Chunks that are written again take the place of what they were.
        let held = self.pending.get(&meta.id);
        let held = touched.iter().filter_map(|at| held?.chunks.get(at));
        let replaced = held.fold(0, |all: u64, chunk| all.saturating_add(chunk.memory()));
        let others = self.memory.saturating_sub(replaced);
        if others > 0 && others.saturating_add(bytes) > limit {
            self.spool_pending()?;
        }
        // One chunk has to be in memory as a whole anyway, and is likely to be written again.
        if bytes <= limit / 2 || (touched.len() < 2 && bytes <= limit) {
            return self.patched(meta, selection, touched, data).await;
        }
        let spool = self.spool()?;
        let count = window.checked_div(least.max(given)).unwrap_or(1).max(1);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut done = Vec::with_capacity(touched.len());
        for some in touched.chunks(count) {
            let made = self.patched(meta, selection, some.to_vec(), data).await?;
            done.extend(self.spooled(&spool, meta, &made)?);
        }
        Ok(done)
    }

    /// Some of the chunks that a box touches, with new elements in it.
    async fn patched(
        &self,
        meta: &ArrayMeta,
        selection: &Selection,
        touched: Vec<Vec<u64>>,
        data: Option<&Values>,
    ) -> Result<Vec<(Vec<u64>, PendingChunk)>> {
        let grid = meta.grid()?;
        let held = self.pending.get(&meta.id);
        let mut chunks: Vec<Touched> = Vec::new();
        let mut partial = Vec::new();
        for chunk in touched {
            let (origin, extents) = (grid.origin(&chunk), grid.extents(&chunk));
            let whole = covers(selection, &grid, &chunk);
            if !whole {
                partial.push((
                    chunks.len(),
                    Selection {
                        start: origin.clone(),
                        count: extents.clone(),
                        step: vec![1; extents.len()],
                    },
                ));
            }
            chunks.push((chunk, origin, extents, whole, None));
        }
        let asked = partial.iter().map(|(_, selection)| (meta, held, selection.clone())).collect();
        let before = read_boxes(&self.base.inner, asked).await?;
        for ((at, _), before) in partial.iter().zip(before) {
            if let Some(chunk) = chunks.get_mut(*at) {
                chunk.4 = Some(meta.owned_elements(before)?);
            }
        }
        let make = |(chunk, origin, extents, whole, before): Touched| {
            if whole && data.is_none() {
                return Ok((chunk, PendingChunk::Erased));
            }
            let mut values = match before {
                Some(values) => values,
                None => meta.filled(product(&extents).unwrap_or(u64::MAX))?,
            };
            let place = Place { origin: &origin, extents: &extents, visible: &extents };
            match data {
                Some(data) => {
                    copy_in(
                        data.as_source(),
                        place,
                        &mut values.as_target(),
                        selection,
                        meta.width(),
                    )?;
                }
                None => {
                    let common = selection.common(&origin, &extents);
                    let fill = meta.filled(common.elements()?)?;
                    let source = fill.as_source();
                    copy_in(source, place, &mut values.as_target(), &common, meta.width())?;
                }
            }
            Ok((chunk, PendingChunk::Data { values: Arc::new(values), extents }))
        };
        let bytes = data.map_or(0, Values::memory);
        if chunks.len() < 2 || bytes < SHARED_COPY {
            return chunks.into_iter().map(make).collect();
        }
        self.backend.install(|| chunks.into_par_iter().map(make).collect())
    }

    /// Gives an array another shape of as many axes. What is cut off is gone; what is new reads as
    /// fill.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`], [`ArrayError::Argument`], [`ArrayError::TooLarge`].
    pub fn resize(&mut self, name: &str, shape: &[u64]) -> Result<()> {
        let meta = self.current_array(name)?.clone();
        let mut wanted = meta.clone();
        wanted.shape = shape.to_vec();
        if shape.len() != meta.shape.len() {
            return Err(ArrayError::argument(format!(
                "array `{name}` has {} axes, the new shape {}",
                meta.shape.len(),
                shape.len()
            )));
        }
        wanted.check().map_err(ArrayError::argument)?;
        wanted.check_chunk_bytes()?;
        self.reshape_pending(&meta, shape)
    }

    /// Lengthens an array along an axis and writes the new part; the other extents must be equal.
    ///
    /// # Errors
    ///
    /// As [`ArrayStore::resize`] and [`ArrayStore::write`]; the array keeps its shape then.
    pub async fn append(
        &mut self,
        name: &str,
        axis: usize,
        data: impl Into<ArrayData>,
    ) -> Result<()> {
        let data = data.into();
        let meta = self.current_array(name)?.clone();
        let mut shape = meta.shape.clone();
        let fits = data.shape.len() == shape.len()
            && (data.shape.iter().zip(&shape).enumerate())
                .all(|(at, (data, array))| at == axis || data == array);
        let slot = shape.get_mut(axis).zip(data.shape.get(axis)).filter(|_| fits);
        let Some((extent, more)) = slot else {
            return Err(ArrayError::argument(format!(
                "data of shape {:?} cannot follow array `{name}` of shape {:?} along axis {axis}",
                data.shape, meta.shape
            )));
        };
        let mut start = vec![0; meta.shape.len()];
        if let Some(start) = start.get_mut(axis) {
            *start = *extent;
        }
        *extent = extent.checked_add(*more).ok_or(ArrayError::TooLarge {
            what: "axis",
            found: u64::MAX,
            allowed: u64::MAX,
        })?;
        let mut wanted = meta.clone();
        wanted.shape = shape;
        wanted.check().map_err(ArrayError::argument)?;
        wanted.check_chunk_bytes()?;
        check_type(&meta, &data)?;
        let selection = Selection::new(name, &wanted.shape, &start, &data.shape, None)?;
        let values = meta.elements(&data)?;
        let written = self.changed(&wanted, &selection, Some(&values)).await?;
        self.reshape_pending(&meta, &wanted.shape)?;
        self.put_chunks(&wanted, written);
        Ok(())
    }
}

/// Whether a box covers a chunk.
fn covers(selection: &Selection, grid: &Grid, chunk: &[u64]) -> bool {
    let (origin, extents) = (grid.origin(chunk), grid.extents(chunk));
    origin.iter().zip(&extents).enumerate().all(|(axis, (origin, extent))| {
        let start = selection.start.get(axis).copied().unwrap_or(0);
        let count = selection.count.get(axis).copied().unwrap_or(0);
        start <= *origin && origin.saturating_add(*extent) <= start.saturating_add(count)
    })
}

/// Refuses data whose elements are not those of the array.
fn check_type(meta: &ArrayMeta, data: &ArrayData) -> Result<()> {
    let timestamp = matches!(meta.dtype, DType::Timestamp(..)) && data.dtype == DType::Int64;
    if data.dtype != meta.dtype && !timestamp {
        return Err(ArrayError::argument(format!(
            "array `{}` has elements of `{}`, the data of `{}`",
            meta.name, meta.dtype, data.dtype
        )));
    }
    data.check()
}
