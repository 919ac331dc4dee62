//! Regions somewhat finer than the raster, by bilinear interpolation.

use super::options::{DamagedTile, WsiReadOptions};
use super::plan::Axis;
use super::read::{Placed, WsiPackReader, output};
use crate::error::Result;

/// Makes a region's pixels; gives the tiles that are damaged.
///
/// The value at the middle of each pixel is interpolated between the middles of the four native
/// pixels around it.
pub(super) fn render(
    reader: &WsiPackReader,
    placed: &Placed,
    pixels: &mut [u8],
    options: &WsiReadOptions,
) -> Result<Vec<DamagedTile>> {
    let [x, y] = [0_usize, 1].map(|axis| {
        let at = |values: [f64; 2]| values.get(axis).copied().unwrap_or(0.0);
        let count = placed.size.get(axis).copied().unwrap_or(0);
        middles(at(placed.start), at(placed.step), count)
    });
    let (Some(x), Some(y)) = (x, y) else {
        // Out of reach of whole numbers: outside of every raster.
        for pixel in pixels.as_chunks_mut::<3>().0 {
            *pixel = reader.info().background;
        }
        return Ok(Vec::new());
    };
    let (width, height) = (x.count, y.count);
    let mut native = output(1, width, height)?;
    let source = reader.native(options, true);
    let info = reader.info();
    let axis_x = Axis::new(x.first, 1.0, width, info.width);
    let axis_y = Axis::new(y.first, 1.0, height, info.height);
    super::stream::render(&source, &axis_x, &axis_y, &mut native, options.stream())?;
    let row_bytes = usize::try_from(width).unwrap_or(usize::MAX).saturating_mul(3);
    let out_row = x.places.len().saturating_mul(3).max(1);
    for (out, (row, down)) in pixels.chunks_exact_mut(out_row).zip(&y.places) {
        let line = |row: usize| {
            let start = row.saturating_mul(row_bytes);
            native.get(start..start.saturating_add(row_bytes)).unwrap_or_default()
        };
        let (upper, lower) = (line(*row), line(row.saturating_add(1)));
        for (out, (column, across)) in out.as_chunks_mut::<3>().0.iter_mut().zip(&x.places) {
            let pixel = |line: &[u8], column: usize| {
                line.as_chunks::<3>().0.get(column).copied().unwrap_or_default()
            };
            let next = column.saturating_add(1);
            let corners = [
                (pixel(upper, *column), (1.0 - across) * (1.0 - down)),
                (pixel(upper, next), across * (1.0 - down)),
                (pixel(lower, *column), (1.0 - across) * down),
                (pixel(lower, next), across * down),
            ];
            let mut sum = [0.0_f64; 3];
            for (color, weight) in corners {
                for (sum, value) in sum.iter_mut().zip(color) {
                    *sum += f64::from(value) * weight;
                }
            }
            *out = sum.map(to_byte);
        }
    }
    Ok(source.damaged())
}

/// Where the middles of a region's pixels lie along an axis.
struct Middles {
    /// The first native pixel that is needed.
    first: f64,
    /// Native pixels that are needed.
    count: u32,
    /// The pixel in front of each middle, counted from the first, and how far behind it that is.
    places: Vec<(usize, f64)>,
}

fn middles(start: f64, step: f64, count: u32) -> Option<Middles> {
    const REACH: f64 = 9_007_199_254_740_992.0;
    let middle = |at: u32| start + (f64::from(at) + 0.5) * step - 0.5;
    let first = middle(0).floor();
    let last = middle(count.saturating_sub(1)).floor();
    if !(first.abs() < REACH && last.abs() < REACH) {
        return None;
    }
    let places = (0..count)
        .map(|at| {
            let at = middle(at);
            let before = at.floor();
            (to_usize(before - first), at - before)
        })
        .collect();
    Some(Middles { first, count: to_u32(last - first + 2.0), places })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn to_byte(value: f64) -> u8 {
    value.clamp(0.0, 255.0).round_ties_even() as u8
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is meant")]
const fn to_usize(number: f64) -> usize {
    number as usize
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is meant")]
const fn to_u32(number: f64) -> u32 {
    number as u32
}
