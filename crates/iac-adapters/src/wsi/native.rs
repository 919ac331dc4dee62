//! The native raster as a source of tiles, at full size or smaller.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use iac_codec::Scale;
use iac_format::ErrorKind;

use super::options::{DamagedTile, OnDamage, RegionImage};
use super::raster::{Grid, TileSource};
use super::read::WsiPackReader;
use crate::error::Result;

/// The native raster, at full size or smaller.
pub(super) struct NativeRaster<'a> {
    pub(super) reader: &'a WsiPackReader,
    pub(super) scale: Scale,
    pub(super) raw: bool,
    pub(super) keep: bool,
    pub(super) on_damage: OnDamage,
    pub(super) damaged: Mutex<Vec<DamagedTile>>,
}

impl NativeRaster<'_> {
    /// Tiles that background stands for, in the order of the grid.
    pub(super) fn damaged(self) -> Vec<DamagedTile> {
        let mut damaged = self.damaged.into_inner().unwrap_or_else(PoisonError::into_inner);
        damaged.sort_unstable_by_key(|tile| (tile.tile_y, tile.tile_x));
        damaged.dedup();
        damaged
    }

    pub(super) fn image(self, width: u32, height: u32, pixels: Vec<u8>) -> RegionImage {
        RegionImage { width, height, pixels, damaged: self.damaged() }
    }
}

impl TileSource for NativeRaster<'_> {
    fn grid(&self) -> Grid {
        let info = self.reader.info();
        let divisor = u64::from(self.scale.denominator());
        Grid {
            width: info.width.div_ceil(divisor),
            height: info.height.div_ceil(divisor),
            tile_width: u64::from(info.tile_width).div_ceil(divisor),
            tile_height: u64::from(info.tile_height).div_ceil(divisor),
            background: info.background,
        }
    }

    fn tile(&self, x: u64, y: u64) -> Result<Option<Bytes>> {
        let Some(row) = self.reader.tile_row(x, y) else { return Ok(None) };
        match self.reader.decoded((x, y), row, self.scale, self.raw, self.keep) {
            Ok(pixels) => Ok(Some(pixels)),
            Err(error) if self.on_damage == OnDamage::Fill && is_damage(error.kind()) => {
                self.damaged.lock().unwrap_or_else(PoisonError::into_inner).push(DamagedTile {
                    tile_x: x,
                    tile_y: y,
                    row,
                    kind: error.kind(),
                    reason: error.reason(),
                });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether an error lies in the data of one tile, so that others may be sound.
pub(super) const fn is_damage(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Damaged
            | ErrorKind::Checksum
            | ErrorKind::Decode
            | ErrorKind::Limit
            | ErrorKind::Unsupported
    )
}
