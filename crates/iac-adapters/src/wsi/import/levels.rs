//! Overviews that are made while a slide is imported: averages at 1/8 and 1/64, kept in the pack.
//!
//! Tiles come row by row, each made smaller by the thread that had its pixels; here they are put
//! together, a band of tiles of the level at a time.

use iac_codec::Codec;

use super::profile::{codec_error, encode, encoder};
use super::raster::StoredRaster;
use crate::error::Result;
use crate::wsi::overview::level_name;
use crate::wsi::write::WsiPackWriter;

/// How much smaller each level is than the one before.
const STEP: u32 = 8;
/// Sides of a level below which it is not worth its bytes.
const LEAST: u64 = 512;
/// The loss of levels of packs that have lost something: far below what averaging leaves out.
const DISTANCE: f64 = 1.0;

/// The levels of a slide while it is imported.
pub(super) struct Levels {
    codec: Codec,
    tile: (u32, u32),
    background: [u8; 3],
    /// Finest first.
    levels: Vec<Band>,
}

/// Rows of a level that are not complete yet.
struct Band {
    level: u32,
    /// Pixels of a row.
    width: usize,
    /// The band's place among those of the level.
    number: u32,
    /// One tile high.
    pixels: Vec<u8>,
    touched: bool,
}

impl Levels {
    /// The levels that a raster is given; nothing where it is too small for one, its tiles cannot be
    /// made smaller by themselves, or a row of the level's tiles does not fit into memory.
    pub(super) fn new(
        raster: &StoredRaster<'_>,
        background: [u8; 3],
        lossless: bool,
        effort: u8,
        memory: u64,
    ) -> Result<Option<Self>> {
        let (width, height) = (raster.width, raster.height);
        let tile = raster.tile;
        if !tile.0.is_multiple_of(STEP) || !tile.1.is_multiple_of(STEP) {
            return Ok(None);
        }
        let mut levels = Vec::new();
        for (level, scale) in [(3, 8_u64), (6, 64)] {
            let (across, down) = (width.div_ceil(scale), height.div_ceil(scale));
            if across.max(down) < LEAST {
                break;
            }
            // Whole tiles, so that what is cut from a band always has its size.
            let columns = across.div_ceil(tile.0.into());
            let padded = columns.saturating_mul(tile.0.into());
            let bytes = padded.saturating_mul(tile.1.into()).saturating_mul(3);
            if bytes > memory {
                return Ok(None);
            }
            let (Ok(width), Ok(bytes)) = (usize::try_from(padded), usize::try_from(bytes)) else {
                return Ok(None);
            };
            let pixels = background.iter().copied().cycle().take(bytes).collect();
            levels.push(Band { level, width, number: 0, pixels, touched: false });
        }
        if levels.is_empty() {
            return Ok(None);
        }
        let codec = encoder(lossless, DISTANCE, effort.min(5)).map_err(codec_error)?;
        Ok(Some(Self { codec, tile, background, levels }))
    }

    /// Adds a tile that was made smaller. Tiles must come row by row.
    pub(super) fn add(
        &mut self,
        (x, y): (u32, u32),
        small: &[u8],
        writer: &mut WsiPackWriter,
    ) -> Result<()> {
        self.advance(0, y / STEP, writer)?;
        let (width, height) = (self.tile.0 / STEP, self.tile.1 / STEP);
        let left = x.saturating_mul(width);
        let top = (y % STEP).saturating_mul(height);
        if let Some(band) = self.levels.first_mut() {
            band.put((left, top), small, width);
        }
        Ok(())
    }

    /// Writes what is left.
    pub(super) fn finish(mut self, writer: &mut WsiPackWriter) -> Result<Vec<u32>> {
        for at in 0..self.levels.len() {
            self.flush(at, writer)?;
        }
        Ok(self.levels.iter().map(|band| band.level).collect())
    }

    /// Writes the band of a level unless it is the wanted one, and begins that.
    fn advance(&mut self, at: usize, wanted: u32, writer: &mut WsiPackWriter) -> Result<()> {
        if self.levels.get(at).is_some_and(|band| band.number != wanted) {
            self.flush(at, writer)?;
        }
        if let Some(band) = self.levels.get_mut(at) {
            band.number = wanted;
        }
        Ok(())
    }

    /// Writes a band's tiles, and hands it on to the next level.
    fn flush(&mut self, at: usize, writer: &mut WsiPackWriter) -> Result<()> {
        let Some(band) = self.levels.get_mut(at) else { return Ok(()) };
        if !band.touched {
            return Ok(());
        }
        let (number, width) = (band.number, band.width);
        let fresh = self.background.iter().copied().cycle().take(band.pixels.len()).collect();
        let pixels = std::mem::replace(&mut band.pixels, fresh);
        band.touched = false;
        let level = band.level;
        let line = usize::try_from(self.tile.0).unwrap_or(1).saturating_mul(3).max(1);
        let row = width.saturating_mul(3).max(1);
        for (column, left) in (0_u32..).zip((0..row).step_by(line)) {
            let mut tile =
                Vec::with_capacity(pixels.len().checked_div(row).unwrap_or(0).saturating_mul(line));
            for pixels in pixels.chunks_exact(row) {
                let part = pixels.get(left..left.saturating_add(line));
                tile.extend_from_slice(part.unwrap_or_default());
            }
            let is_background =
                tile.as_chunks::<3>().0.iter().all(|pixel| *pixel == self.background);
            if !is_background {
                let payload = encode(&self.codec, &tile, self.tile).map_err(codec_error)?;
                writer.push_private(&level_name(level, column, number), &payload)?;
            }
        }
        let next = at.saturating_add(1);
        if next < self.levels.len() {
            self.advance(next, number / STEP, writer)?;
            let height = self.tile.1 / STEP;
            let top = (number % STEP).saturating_mul(height);
            let small = smaller(&pixels, width);
            let small_width = u32::try_from(width).unwrap_or(u32::MAX) / STEP;
            if let Some(band) = self.levels.get_mut(next) {
                band.put((0, top), &small, small_width);
            }
        }
        Ok(())
    }
}

impl Band {
    /// Puts pixels at a place. What reaches out of the level, or of the band, is left out.
    fn put(&mut self, (left, top): (u32, u32), pixels: &[u8], width: u32) {
        let side = |side: u32| usize::try_from(side).unwrap_or(usize::MAX);
        let (left, top, width) = (side(left), side(top), side(width));
        let row = self.width.saturating_mul(3).max(1);
        let length = width.min(self.width.saturating_sub(left)).saturating_mul(3);
        let start = left.saturating_mul(3);
        let targets = self.pixels.chunks_exact_mut(row).skip(top);
        for (target, source) in targets.zip(pixels.chunks_exact(width.saturating_mul(3).max(1))) {
            if let (Some(target), Some(source)) =
                (target.get_mut(start..start.saturating_add(length)), source.get(..length))
            {
                target.copy_from_slice(source);
            }
        }
        self.touched = true;
    }
}

/// Averages of squares of 8 x 8 pixels, halves rounded up; sides must be multiples of 8.
pub(super) fn smaller(pixels: &[u8], width: usize) -> Vec<u8> {
    const SIDE: usize = 8;
    let row = width.saturating_mul(3).max(1);
    let mut out = Vec::with_capacity(pixels.len() / 64);
    let mut sums = vec![[0_u16; 3]; width / SIDE];
    for rows in pixels.chunks_exact(row.saturating_mul(SIDE)) {
        sums.fill([0; 3]);
        for line in rows.chunks_exact(row) {
            let squares = line.as_chunks::<3>().0.chunks_exact(SIDE);
            for (sum, square) in sums.iter_mut().zip(squares) {
                for pixel in square {
                    for (sum, value) in sum.iter_mut().zip(pixel) {
                        *sum = sum.wrapping_add(u16::from(*value));
                    }
                }
            }
        }
        let mean = |sum: u16| u8::try_from(sum.saturating_add(32) / 64).unwrap_or(u8::MAX);
        out.extend(sums.iter().flatten().map(|sum| mean(*sum)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_averaged() {
        let mut pixels = vec![10_u8; 16 * 8 * 3];
        for line in pixels.chunks_exact_mut(16 * 3) {
            for pixel in line[24..].as_chunks_mut::<3>().0 {
                *pixel = [255, 0, 7];
            }
        }
        assert_eq!(smaller(&pixels, 16), [10, 10, 10, 255, 0, 7]);
        pixels[0] = 42;
        assert_eq!(smaller(&pixels, 16)[0], 11);
    }
}
