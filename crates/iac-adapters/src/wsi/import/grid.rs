//! Rasters that are cut into chunks of one size: putting rectangles together from them.

use bytes::Bytes;

use super::source::Rect;
use crate::error::Result;

/// A raster that is cut into chunks from its upper left corner on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkGrid {
    /// Width and height of a chunk.
    pub(super) chunk: (u64, u64),
    /// Those of the raster.
    pub(super) size: (u64, u64),
}

/// Chunks in a rectangle beyond which it is not worth looking whether any is there.
const MAX_LOOKED_AT: u64 = 1 << 12;

impl ChunkGrid {
    /// Whether a rectangle has none of the chunks that are there; no where it has too many to look.
    pub(super) fn is_blank(&self, rect: Rect, is_there: impl Fn(u64, u64) -> bool) -> bool {
        let span = |start: u64, length: u64, side: u64| {
            let end = start.saturating_add(length).div_ceil(side.max(1));
            start.checked_div(side).unwrap_or(0)..end
        };
        let columns = span(rect.x, rect.width, self.chunk.0);
        let lines = span(rect.y, rect.height, self.chunk.1);
        let count = |range: &std::ops::Range<u64>| range.end.saturating_sub(range.start);
        if count(&columns).saturating_mul(count(&lines)) > MAX_LOOKED_AT {
            return false;
        }
        lines.into_iter().all(|line| columns.clone().all(|column| !is_there(column, line)))
    }

    /// Copies a rectangle of the raster to a place of an image whose rows have `row` pixels.
    ///
    /// `get` gives the pixels of a chunk by column and row, nothing where there is none, which leaves the
    /// image as it is; its last argument says whether others will need the chunk too. Where a chunk
    /// has too few pixels, `None` stands for the copy and the chunk's place is told.
    pub(super) fn copy(
        &self,
        rect: Rect,
        (out, row, at): (&mut [u8], u64, (u64, u64)),
        mut get: impl FnMut(u64, u64, bool) -> Result<Option<Bytes>>,
    ) -> Result<std::result::Result<(), (u64, u64)>> {
        let (chunk_width, chunk_height) = self.chunk;
        let (right, bottom) =
            (rect.x.saturating_add(rect.width), rect.y.saturating_add(rect.height));
        let last = |end: u64, side: u64| end.div_ceil(side.max(1));
        let first = |start: u64, side: u64| start.checked_div(side).unwrap_or(0);
        for line in first(rect.y, chunk_height)..last(bottom, chunk_height) {
            for column in first(rect.x, chunk_width)..last(right, chunk_width) {
                let (left, top) =
                    (column.saturating_mul(chunk_width), line.saturating_mul(chunk_height));
                let (end_x, end_y) =
                    (left.saturating_add(chunk_width), top.saturating_add(chunk_height));
                let inside = left >= rect.x
                    && top >= rect.y
                    && end_x.min(self.size.0) <= right
                    && end_y.min(self.size.1) <= bottom;
                let Some(pixels) = get(column, line, !inside)? else { continue };
                let part = Rect {
                    x: left.max(rect.x),
                    y: top.max(rect.y),
                    width: end_x.min(right).saturating_sub(left.max(rect.x)),
                    height: end_y.min(bottom).saturating_sub(top.max(rect.y)),
                };
                let from = (part.x.saturating_sub(left), part.y.saturating_sub(top));
                let to = (
                    at.0.saturating_add(part.x.saturating_sub(rect.x)),
                    at.1.saturating_add(part.y.saturating_sub(rect.y)),
                );
                let size = (part.width, part.height);
                if copy(&pixels, chunk_width, from, out, row, to, size).is_none() {
                    return Ok(Err((column, line)));
                }
            }
        }
        Ok(Ok(()))
    }
}

/// A white image; nothing where there is no memory for it.
pub(super) fn white(width: u64, height: u64) -> Option<Vec<u8>> {
    let bytes = usize::try_from(width.checked_mul(height)?.checked_mul(3)?).ok()?;
    let mut pixels = Vec::new();
    pixels.try_reserve_exact(bytes).ok()?;
    pixels.resize(bytes, 255);
    Some(pixels)
}

/// Copies a rectangle of RGB pixels between images of given row lengths; nothing where it does not
/// lie in both.
pub(super) fn copy(
    from: &[u8],
    from_width: u64,
    from_at: (u64, u64),
    to: &mut [u8],
    to_width: u64,
    to_at: (u64, u64),
    size: (u64, u64),
) -> Option<()> {
    let start = |width: u64, (x, y): (u64, u64), row: u64| -> Option<usize> {
        let pixel = y.checked_add(row)?.checked_mul(width)?.checked_add(x)?;
        usize::try_from(pixel.checked_mul(3)?).ok()
    };
    let length = usize::try_from(size.0.checked_mul(3)?).ok()?;
    for row in 0..size.1 {
        let (source, target) = (start(from_width, from_at, row)?, start(to_width, to_at, row)?);
        let source = from.get(source..source.checked_add(length)?)?;
        to.get_mut(target..target.checked_add(length)?)?.copy_from_slice(source);
    }
    Some(())
}
