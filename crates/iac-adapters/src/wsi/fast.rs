//! Regions from what is there at a lower resolution already, or can be decoded at one.

use bytes::Bytes;
use iac_codec::Scale;

use super::cache::{Cache, RenderKey};
use super::native::{NativeRaster, is_damage};
use super::options::{DamagedTile, OnDamage, Resolution, WsiReadOptions};
use super::raster::TileSource;
use super::read::{Placed, WsiPackReader};
use super::schema::{WsiInfo, as_f64};
use super::stream::render;
use super::tile::Sampling;
use crate::error::{AdapterError, Result};

/// Regions that are kept.
pub(super) type Renders = Cache<RenderKey>;

/// How many pixels of an overview each pixel of a region must cover along a side where the two do not
/// lie on one grid: of pixels that are cut only the slope is known.
const CUT_STEP: f64 = 4.0;

/// The same for tiles that are decoded smaller, whose pixels are not quite averages.
const CUT_TILE_STEP: f64 = 8.0;

/// Makes a region's pixels; gives the tiles that are damaged.
pub(super) fn render_fast(
    reader: &WsiPackReader,
    placed: &Placed,
    pixels: &mut [u8],
    options: &WsiReadOptions,
) -> Result<Vec<DamagedTile>> {
    // A region with damage filled in is nobody else's.
    if options.on_damage == OnDamage::Fill {
        return render_uncached(reader, placed, pixels, options);
    }
    let key = RenderKey {
        start: placed.start.map(f64::to_bits),
        step: placed.step.map(f64::to_bits),
        size: placed.size,
        raw: options.raw_components,
    };
    let fits = pixels.len() <= reader.inner.renders.budget() / 2;
    if !fits {
        return render_uncached(reader, placed, pixels, options);
    }
    let mut done = false;
    let kept = reader.inner.renders.get_or_make::<AdapterError>(key, true, || {
        render_uncached(reader, placed, pixels, options)?;
        done = true;
        Ok(Bytes::copy_from_slice(pixels))
    })?;
    if !done {
        pixels.copy_from_slice(&kept);
    }
    Ok(Vec::new())
}

/// What a region is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Choice {
    /// Native tiles, decoded at a scale.
    Native(Scale),
    /// A level of the overview.
    Level(u32),
}

/// What serves a region best.
pub(super) fn choose(reader: &WsiPackReader, placed: &Placed, options: &WsiReadOptions) -> Choice {
    if options.resolution != Resolution::Fast {
        return Choice::Native(Scale::Full);
    }
    // Overviews are of colours as they are meant.
    let overview = if options.raw_components { None } else { reader.overview() };
    let level = overview.and_then(|overview| {
        overview
            .levels()
            .into_iter()
            .rev()
            .find(|level| serves(placed, as_f64(1_u64.wrapping_shl(*level)), CUT_STEP))
    });
    level.map_or_else(
        || Choice::Native(cheaper_scale(reader, placed).unwrap_or(Scale::Full)),
        Choice::Level,
    )
}

/// How many native pixels each pixel along a side covers, and by how much of its own pixels it lies
/// behind their middle.
pub(super) fn raster_of(reader: &WsiPackReader, choice: Choice) -> (f64, f64) {
    match choice {
        Choice::Level(level) => (as_f64(1_u64.wrapping_shl(level)), 0.0),
        Choice::Native(scale) => {
            let factor = f64::from(scale.denominator());
            match reader.inner.decoder.sampling() {
                Sampling::Corners if scale != Scale::Full => (factor, 0.5 - 0.5 / factor),
                _ => (factor, 0.0),
            }
        }
    }
}

fn render_uncached(
    reader: &WsiPackReader,
    placed: &Placed,
    pixels: &mut [u8],
    options: &WsiReadOptions,
) -> Result<Vec<DamagedTile>> {
    let mut choice = choose(reader, placed, options);
    if let Choice::Level(level) = choice
        && let Some(overview) = reader.overview()
    {
        let source = overview.level(reader, level)?;
        let grid = source.grid();
        let (x, y) = placed.axes(raster_of(reader, choice), grid.width, grid.height);
        match render(&source, &x, &y, pixels, options.stream()) {
            Ok(()) => return Ok(Vec::new()),
            // An overview can be made anew; until then the raster serves.
            Err(error) if is_damage(error.kind()) => {
                choice = Choice::Native(cheaper_scale(reader, placed).unwrap_or(Scale::Full));
            }
            Err(error) => return Err(error),
        }
    }
    let Choice::Native(scale) = choice else {
        return reader.render_exact(placed, pixels, options);
    };
    if scale == Scale::Full {
        return reader.render_exact(placed, pixels, options);
    }
    let factor = f64::from(scale.denominator());
    let keep = reader.worth_keeping(placed.native_pixels() / (factor * factor));
    let source = NativeRaster { scale, ..reader.native(options, keep) };
    let grid = source.grid();
    let (x, y) = placed.axes(raster_of(reader, choice), grid.width, grid.height);
    render(&source, &x, &y, pixels, options.stream())?;
    Ok(source.damaged())
}

/// Whether a raster of which each pixel covers `factor` native ones along a side serves a region.
fn serves(placed: &Placed, factor: f64, cut_step: f64) -> bool {
    let on_grid = placed.start.iter().chain(&placed.step).all(|it| (it / factor).fract() == 0.0);
    let least = if on_grid { 1.0 } else { cut_step };
    placed.step.iter().all(|step| step / factor >= least)
}

/// The smallest scale that tiles are decoded at cheaply and that serves a region.
fn cheaper_scale(reader: &WsiPackReader, placed: &Placed) -> Option<Scale> {
    let info = reader.info();
    let decoder = &reader.inner.decoder;
    let scales = decoder.scales().iter().rev().copied();
    scales.filter(|scale| *scale != Scale::Full).find(|scale| {
        let divisor = scale.denominator();
        let fits =
            info.tile_width.is_multiple_of(divisor) && info.tile_height.is_multiple_of(divisor);
        let factor = f64::from(divisor);
        let covers = |least: f64| placed.step.iter().all(|step| step / factor >= least);
        fits && match (decoder.sampling(), scale) {
            (Sampling::Areas, Scale::Quarter | Scale::Eighth) => {
                serves(placed, factor, CUT_TILE_STEP)
            }
            // Colours of JPEG tiles that are stored at half size are not smoothed there.
            (Sampling::Areas, Scale::Half) => serves(placed, factor, CUT_TILE_STEP) && covers(4.0),
            // Samples of a wavelet never lie on the grid of averages.
            (Sampling::Corners, Scale::Half) => covers(4.0),
            (Sampling::Corners, Scale::Quarter) => covers(8.0),
            _ => false,
        }
    })
}

/// A full tile at a smaller scale: averages of blocks, in which pixels outside of the raster are
/// background.
pub(super) fn reduce_edge_tile(
    info: &WsiInfo,
    (tile_x, tile_y): (u64, u64),
    pixels: &[u8],
    scale: Scale,
) -> Vec<u8> {
    let divisor = usize::try_from(scale.denominator()).unwrap_or(1).max(1);
    let side = |tile: u32| usize::try_from(tile).unwrap_or(usize::MAX);
    let (width, height) = (side(info.tile_width), side(info.tile_height));
    let inside = |size: u64, tile: u32, at: u64| {
        let left = size.saturating_sub(at.saturating_mul(tile.into()));
        usize::try_from(left).unwrap_or(usize::MAX)
    };
    let valid_width = inside(info.width, info.tile_width, tile_x);
    let valid_height = inside(info.height, info.tile_height, tile_y);
    let across = width.div_ceil(divisor);
    let area = u32::try_from(divisor.saturating_mul(divisor)).unwrap_or(u32::MAX).max(1);
    let row_bytes = width.saturating_mul(3).max(1);
    let mut out = Vec::with_capacity(pixels.len().div_ceil(divisor.saturating_mul(divisor).max(1)));
    let mut sums = vec![[0_u32; 3]; across];
    let blocks = pixels.chunks(row_bytes.saturating_mul(divisor));
    for (block, rows) in blocks.enumerate().take(height.div_ceil(divisor)) {
        sums.fill([0; 3]);
        let first = block.saturating_mul(divisor);
        for (row, line) in rows.chunks(row_bytes).enumerate() {
            let is_row_inside = first.saturating_add(row) < valid_height;
            let groups = line.as_chunks::<3>().0.chunks(divisor);
            for (group, (sum, pixels)) in sums.iter_mut().zip(groups).enumerate() {
                for (column, pixel) in pixels.iter().enumerate() {
                    let at = group.saturating_mul(divisor).saturating_add(column);
                    let is_inside = is_row_inside && at < valid_width;
                    let pixel = if is_inside { pixel } else { &info.background };
                    for (sum, value) in sum.iter_mut().zip(pixel) {
                        *sum = sum.wrapping_add(u32::from(*value));
                    }
                }
            }
        }
        let mean = |sum: u32| {
            let rounded = sum.saturating_add(area / 2).checked_div(area).unwrap_or(0);
            u8::try_from(rounded).unwrap_or(u8::MAX)
        };
        out.extend(sums.iter().flat_map(|sum| sum.map(mean)));
    }
    out
}
