//! The raster of a pack as it is made from a source: turned upright and cut into tiles.

use super::source::{RasterSource, Rect};
use crate::error::Result;
use crate::tiles::source::{Channels, Raster, Samples, oriented};

/// A source, seen as the tiles of a pack.
pub(super) struct StoredRaster<'a> {
    source: &'a dyn RasterSource,
    pub(super) width: u64,
    pub(super) height: u64,
    /// Width and height.
    pub(super) tile: (u32, u32),
}

impl<'a> StoredRaster<'a> {
    pub(super) fn new(source: &'a dyn RasterSource, tile: (u32, u32)) -> Self {
        let (width, height) = source.description().stored_size();
        Self { source, width, height, tile }
    }

    /// Tiles across and down.
    pub(super) fn grid(&self) -> (u64, u64) {
        let divided = |side: u64, tile: u32| side.div_ceil(u64::from(tile).max(1));
        (divided(self.width, self.tile.0), divided(self.height, self.tile.1))
    }

    /// The places of all tiles, row by row.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, u32)> + Send + use<> {
        let (across, down) = self.grid();
        let limited = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let (across, down) = (limited(across), limited(down));
        (0..down).flat_map(move |y| (0..across).map(move |x| (x, y)))
    }

    /// Bytes of a tile's pixels.
    pub(super) fn tile_bytes(&self) -> u64 {
        u64::from(self.tile.0).saturating_mul(self.tile.1.into()).saturating_mul(3)
    }

    /// The part of a tile that lies inside of the raster.
    pub(super) fn valid(&self, (x, y): (u32, u32)) -> Rect {
        let start = |at: u32, tile: u32| u64::from(at).saturating_mul(tile.into());
        let (left, top) = (start(x, self.tile.0), start(y, self.tile.1));
        Rect {
            x: left,
            y: top,
            width: self.width.saturating_sub(left).min(self.tile.0.into()),
            height: self.height.saturating_sub(top).min(self.tile.1.into()),
        }
    }

    /// Whether a tile is known to be white without being read.
    pub(super) fn is_blank(&self, place: (u32, u32)) -> bool {
        let description = self.source.description();
        let size = (description.width, description.height);
        self.source.is_blank(in_source(self.valid(place), description.orientation, size))
    }

    /// Rows of RGB of the part of a tile that lies inside of the raster.
    pub(super) fn pixels(&self, place: (u32, u32)) -> Result<Vec<u8>> {
        let rect = self.valid(place);
        let description = self.source.description();
        let orientation = description.orientation;
        if orientation == 1 {
            return self.source.read(rect);
        }
        let from = in_source(rect, orientation, (description.width, description.height));
        let pixels = self.source.read(from)?;
        let side = |side: u64| u32::try_from(side).unwrap_or(u32::MAX);
        let turned = oriented(Raster {
            width: side(from.width),
            height: side(from.height),
            channels: Channels::Rgb,
            samples: Samples::U8(pixels),
            orientation,
        });
        Ok(match turned.samples {
            Samples::U8(pixels) => pixels,
            _ => Vec::new(),
        })
    }

    /// A tile with background where it reaches out of the raster.
    pub(super) fn padded(&self, place: (u32, u32), background: [u8; 3]) -> Result<Vec<u8>> {
        let valid = self.valid(place);
        let pixels = self.pixels(place)?;
        if u64::try_from(pixels.len()).ok() == Some(self.tile_bytes()) {
            return Ok(pixels);
        }
        let side = |side: u64| usize::try_from(side).unwrap_or(usize::MAX);
        let (width, height) = (side(self.tile.0.into()), side(self.tile.1.into()));
        let mut tile = Vec::with_capacity(side(self.tile_bytes()));
        let missing = width.saturating_sub(side(valid.width));
        for line in pixels.chunks_exact(side(valid.width).saturating_mul(3).max(1)) {
            tile.extend_from_slice(line);
            tile.extend(std::iter::repeat_n(background, missing).flatten());
        }
        let missing = width.saturating_mul(height).saturating_sub(tile.len() / 3);
        tile.extend(std::iter::repeat_n(background, missing).flatten());
        Ok(tile)
    }
}

/// Where a rectangle of the upright raster lies in a source of the given size.
fn in_source(rect: Rect, orientation: u8, (width, height): (u64, u64)) -> Rect {
    let Rect { x, y, width: w, height: h } = rect;
    // Counted from the other edge.
    let from_right = |at: u64, length: u64| width.saturating_sub(at.saturating_add(length));
    let from_bottom = |at: u64, length: u64| height.saturating_sub(at.saturating_add(length));
    let (x, y, width, height) = match orientation {
        2 => (from_right(x, w), y, w, h),
        3 => (from_right(x, w), from_bottom(y, h), w, h),
        4 => (x, from_bottom(y, h), w, h),
        5 => (y, x, h, w),
        6 => (y, from_bottom(x, w), h, w),
        7 => (from_right(y, h), from_bottom(x, w), h, w),
        8 => (from_right(y, h), x, h, w),
        _ => (x, y, w, h),
    };
    Rect { x, y, width, height }
}
