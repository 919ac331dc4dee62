//! Rasters of tiles, whatever tiles come from.

use bytes::Bytes;

use crate::error::Result;

/// Bytes that are kept about a tile while a region is made.
const TILE_COST: u64 = 256;

/// The measures of a raster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) tile_width: u64,
    pub(crate) tile_height: u64,
    /// The colour where there is no tile, and outside of the raster.
    pub(crate) background: [u8; 3],
}

impl Grid {
    /// Bytes of a decoded tile.
    pub(crate) const fn tile_bytes(&self) -> u64 {
        self.tile_width.saturating_mul(self.tile_height).saturating_mul(3)
    }

    /// Bytes that a decoded tile takes with what is kept about it, which is most of a tile of few pixels.
    pub(crate) fn tile_cost(&self) -> u64 {
        self.tile_bytes().max(TILE_COST)
    }
}

/// A raster whose tiles can be had.
pub(crate) trait TileSource: Sync {
    /// Its measures.
    fn grid(&self) -> Grid;

    /// A tile's pixels: rows of RGB, the whole tile also at the edges of the raster. Nothing where
    /// there is none.
    fn tile(&self, x: u64, y: u64) -> Result<Option<Bytes>>;
}
