//! A contact sheet: many images of a pack, made small, on one sheet.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use iac_codec::{DecodeOptions, Image, ImageShape, Limits, Samples, SamplesRef, Scale};
use iac_format::ErrorKind;
use iac_reader::{PackReader, VariableRecordPack};

use crate::decode::{Decoder, selected_rows, stored_bytes};
use crate::error::{OpsError, Result};
use crate::ordered::{Bounds, for_each_ordered};
use crate::progress::{Progress, Task};
use crate::rows::RowSelection;

/// Images on a sheet whose rows nobody named.
const SPREAD_ROWS: u64 = 100;
/// Colour between the images, and behind transparent ones.
const BACKGROUND: u8 = 255;
/// Colour of the cross in the place of an image that cannot be decoded.
const CROSS: [u8; 3] = [200, 0, 0];

/// How samples that have more than 8 bits, or are no integers, become shades.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Window {
    /// From the least to the greatest sample of each image.
    MinMax,
    /// From one percentile of an image's samples to another; those beyond become black and white.
    Percentiles {
        /// The one that becomes black: 0 to 100.
        low: f64,
        /// The one that becomes white.
        high: f64,
    },
}

/// Makes the image of a row that is to be shown, for packs whose records are not meant to be seen
/// as they are.
#[derive(Clone)]
pub struct Renderer(Arc<dyn Fn(u64) -> Result<Image> + Send + Sync>);

impl Renderer {
    /// Images are what `render` makes of their rows.
    pub fn new(render: impl Fn(u64) -> Result<Image> + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }
}

impl fmt::Debug for Renderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renderer")
    }
}

/// How a sheet is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MontageOptions {
    /// Images in a row of the sheet; default (`None`) about as many as there are rows.
    pub columns: Option<NonZeroUsize>,
    /// Pixels of each side of the place for one image; default 128.
    pub cell: u32,
    /// Pixels between images; default 2.
    pub gap: u32,
    /// How samples become shades; samples of type `uint8` are taken as they are. Default: the
    /// percentiles 1 and 99 of each image.
    pub window: Window,
    /// What is shown of a row; default (`None`) the image as it is stored.
    pub render: Option<Renderer>,
    /// Bounds on what one image, and the sheet, may have.
    pub limits: Limits,
    /// Most threads; default (`None`) all cores.
    pub workers: Option<NonZeroUsize>,
    /// Bytes of images that are in memory at once, unless one has more; default 64 MiB.
    pub memory: u64,
}

impl Default for MontageOptions {
    fn default() -> Self {
        Self {
            columns: None,
            cell: 128,
            gap: 2,
            window: Window::Percentiles { low: 1.0, high: 99.0 },
            render: None,
            limits: Limits::default(),
            workers: None,
            memory: 64 << 20,
        }
    }
}

/// A contact sheet.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Montage {
    /// The sheet: RGB, 8 bits.
    pub image: Image,
    /// The rows that are on it, from left to right and from top to bottom.
    pub rows: Vec<u64>,
    /// Images in a row of the sheet.
    pub columns: usize,
    /// Rows that could not be decoded, and why: crosses on the sheet.
    pub failed: Vec<FailedImage>,
}

/// A row that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedImage {
    /// The row.
    pub row: u64,
    /// The kind that callers branch on.
    pub kind: ErrorKind,
    /// What is wrong with it.
    pub message: String,
}

/// Puts images on one sheet, each reduced to fit into its place; `rows` absent: up to 100 that are
/// spread over the pack.
///
/// Images are decoded at the smallest scale that still fills their place, and areas are averaged
/// from there. Of images with more than four channels the first three are shown; the second of two
/// channels and the fourth of four count as transparency, save in packs of codec `jpeg`, where four
/// channels are inks. Images smaller than half a place are enlarged by whole factors.
///
/// An image that cannot be decoded becomes a cross. Progress counts images.
///
/// # Errors
///
/// [`OpsError::Usage`] when the pack's records are no images, when there are none to show, or for
/// options that make no sheet; [`OpsError::RowOutOfRange`]; [`OpsError::Codec`] (kind `limit`) when
/// the sheet would have more samples than the limits allow; [`OpsError::Read`] for a damaged pack or
/// a codec that is not there.
pub fn montage(
    pack: &PackReader,
    rows: Option<&RowSelection>,
    options: &MontageOptions,
    progress: &dyn Progress,
) -> Result<Montage> {
    check_options(options)?;
    let decoder = Decoder::new(pack, options.limits)?;
    let images = decoder.images();
    // What renders rows itself need not have the header's codec.
    if images.is_none() && options.render.is_none() {
        return Err(OpsError::usage(format!("{}: its records are no images", pack.path())));
    }
    let selected = selected_rows(pack, rows)?;
    let rows: Vec<u64> = match rows {
        Some(_) => selected.iter().collect(),
        None => spread(selected.len()),
    };
    if rows.is_empty() {
        return Err(OpsError::usage(format!("{}: there are no images to show", pack.path())));
    }
    let columns = options.columns.map_or_else(|| rows.len().isqrt(), NonZeroUsize::get);
    let columns = columns.clamp(1, rows.len());
    let columns = if options.columns.is_none() && columns.saturating_mul(columns) < rows.len() {
        columns.saturating_add(1)
    } else {
        columns
    };
    let mut sheet = Sheet::new(rows.len(), columns, options)
        .map_err(|source| OpsError::codec(pack.path(), None, source))?;
    let mut failed = Vec::new();
    let task = Task::begin(progress, "making the sheet", u64::try_from(rows.len()).ok());
    let bounds = Bounds { workers: options.workers, cost: options.memory };
    let mut position = 0_usize;
    for_each_ordered(
        rows.iter().copied(),
        bounds,
        progress,
        |row| decoder.cost(*row, stored_bytes(pack, *row)),
        |row| Ok((row, thumbnail(images, row, options))),
        |(row, thumbnail)| {
            match thumbnail {
                Ok(thumbnail) => sheet.put(position, &thumbnail),
                Err(error) if error.row().is_some() || options.render.is_some() => {
                    sheet.cross(position);
                    failed.push(FailedImage { row, kind: error.kind(), message: error.reason() });
                }
                Err(error) => return Err(error),
            }
            position = position.saturating_add(1);
            task.advance(1);
            Ok(())
        },
    )?;
    let image = Image::new(sheet.shape, Samples::U8(sheet.pixels))
        .map_err(|source| OpsError::codec(pack.path(), None, source))?;
    Ok(Montage { image, rows, columns, failed })
}

fn check_options(options: &MontageOptions) -> Result<()> {
    if options.cell == 0 {
        return Err(OpsError::usage("the place for an image must have at least 1 pixel"));
    }
    if let Window::Percentiles { low, high } = options.window
        && !(0.0 <= low && low < high && high <= 100.0)
    {
        return Err(OpsError::usage(format!(
            "percentiles must rise and lie between 0 and 100, found {low} and {high}"
        )));
    }
    Ok(())
}

/// Rows that are spread evenly.
fn spread(rows: u64) -> Vec<u64> {
    let places = rows.min(SPREAD_ROWS);
    (0..places)
        .map(|place| {
            let row = u128::from(place).saturating_mul(u128::from(rows));
            u64::try_from(row.checked_div(u128::from(places)).unwrap_or(0)).unwrap_or(u64::MAX)
        })
        .collect()
}

/// A small RGB picture.
struct Thumbnail {
    height: usize,
    width: usize,
    pixels: Vec<[u8; 3]>,
}

fn thumbnail(
    images: Option<&VariableRecordPack>,
    row: u64,
    options: &MontageOptions,
) -> Result<Thumbnail> {
    if let Some(Renderer(render)) = &options.render {
        let image = render(row)?;
        let shape = image.shape();
        let pixels = to_rgb(&to_shades(&image, options.window), to_usize(shape.channels()), false);
        return Ok(fit(
            &pixels,
            to_usize(shape.height()),
            to_usize(shape.width()),
            to_usize(options.cell),
        ));
    }
    let images = images.ok_or_else(|| OpsError::usage("the records are no images"))?;
    let full = images.image_info(row)?.shape;
    let fills = |scale: &Scale| {
        let small = scale.apply(full);
        small.height().max(small.width()) >= options.cell
    };
    let scale = Scale::ALL.into_iter().rev().find(fills).unwrap_or_default();
    let decode = DecodeOptions::from(options.limits).with_scale(scale);
    let image = images.with_images(decode).read_image(row)?;
    let is_ink = images.codec()?.name() == "jpeg";
    let shape = image.shape();
    let pixels = to_rgb(&to_shades(&image, options.window), to_usize(shape.channels()), is_ink);
    Ok(fit(&pixels, to_usize(shape.height()), to_usize(shape.width()), to_usize(options.cell)))
}

/// Samples as shades from 0 to 255.
fn to_shades(image: &Image, window: Window) -> Vec<u8> {
    let values: Vec<f32> = match image.samples() {
        SamplesRef::U8(samples) => return samples.to_vec(),
        SamplesRef::U16(samples) => samples.iter().map(|sample| f32::from(*sample)).collect(),
        SamplesRef::I16(samples) => samples.iter().map(|sample| f32::from(*sample)).collect(),
        SamplesRef::F16(samples) => samples.iter().map(|sample| sample.to_f32()).collect(),
        SamplesRef::F32(samples) => samples.to_vec(),
        _ => return vec![0; image.shape().samples()],
    };
    let (low, high) = range(&values, window);
    let scale = if high > low { 255.0 / (high - low) } else { 0.0 };
    values
        .iter()
        .map(|value| {
            // Infinities go to the ends, and what is no number to black.
            let shade = if value.is_nan() { 0.0 } else { (value - low) * scale };
            to_shade(if high > low { shade } else { 128.0 })
        })
        .collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn to_shade(value: f32) -> u8 {
    value.clamp(0.0, 255.0).round() as u8
}

/// The samples that become black and white.
fn range(values: &[f32], window: Window) -> (f32, f32) {
    let mut finite: Vec<f32> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let (low, high) = match window {
        Window::MinMax => (0.0, 100.0),
        Window::Percentiles { low, high } => (low, high),
    };
    let last = finite.len().saturating_sub(1);
    let mut at = |percent: f64| {
        let place = nearest(last, percent);
        let (_, value, _) = finite.select_nth_unstable_by(place, f32::total_cmp);
        *value
    };
    if values.iter().any(|value| value.is_finite()) { (at(low), at(high)) } else { (0.0, 0.0) }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place in a slice, clamped to it"
)]
fn nearest(last: usize, percent: f64) -> usize {
    ((last as f64 * percent / 100.0).round() as usize).min(last)
}

fn to_rgb(shades: &[u8], channels: usize, is_ink: bool) -> Vec<[u8; 3]> {
    let over = |shade: u8, alpha: u8| {
        let (shade, alpha) = (u32::from(shade), u32::from(alpha));
        let behind = u32::from(BACKGROUND).saturating_mul(255_u32.saturating_sub(alpha));
        let sum = shade.saturating_mul(alpha).saturating_add(behind).saturating_add(127) / 255;
        u8::try_from(sum).unwrap_or(u8::MAX)
    };
    // Inks are stored inverted: 255 is none.
    let ink = |shade: u8, black: u8| {
        let product = u32::from(shade).saturating_mul(u32::from(black)).saturating_add(127) / 255;
        u8::try_from(product).unwrap_or(u8::MAX)
    };
    shades
        .chunks_exact(channels.max(1))
        .map(|pixel| match *pixel {
            [grey] => [grey; 3],
            [grey, alpha] => [over(grey, alpha); 3],
            [cyan, magenta, yellow, black] if is_ink => {
                [ink(cyan, black), ink(magenta, black), ink(yellow, black)]
            }
            [red, green, blue, alpha] => [over(red, alpha), over(green, alpha), over(blue, alpha)],
            [red, green, blue, ..] => [red, green, blue],
            [] => [0; 3],
        })
        .collect()
}

/// The picture at the size at which it fits into a square.
fn fit(pixels: &[[u8; 3]], height: usize, width: usize, side: usize) -> Thumbnail {
    let longer = height.max(width).max(1);
    let scaled = |length: usize| {
        if longer <= side {
            // Enlarged by a whole factor, so that pixels stay what they are.
            let factor = side.checked_div(longer).unwrap_or(1).max(1);
            return length.saturating_mul(factor);
        }
        let exact = length.saturating_mul(side).saturating_add(longer / 2);
        exact.checked_div(longer).unwrap_or(1).max(1)
    };
    let (to_height, to_width) = (scaled(height), scaled(width));
    let columns = spans(width, to_width);
    let rows = spans(height, to_height);
    let mut small = Vec::with_capacity(to_height.saturating_mul(to_width));
    for row in &rows {
        for column in &columns {
            small.push(mean(pixels, width, row, column));
        }
    }
    Thumbnail { height: to_height, width: to_width, pixels: small }
}

/// Which pixels each of `to` pixels covers, with the share of each in units of 1/`to`.
fn spans(from: usize, to: usize) -> Vec<Vec<(usize, u64)>> {
    (0..to)
        .map(|place| {
            let start = place.saturating_mul(from);
            let end = start.saturating_add(from);
            let first = start.checked_div(to).unwrap_or(0);
            let last = end.saturating_sub(1).checked_div(to).unwrap_or(0);
            (first..=last)
                .map(|pixel| {
                    let pixel_start = pixel.saturating_mul(to);
                    let pixel_end = pixel_start.saturating_add(to);
                    let covered = end.min(pixel_end).saturating_sub(start.max(pixel_start));
                    (pixel, u64::try_from(covered).unwrap_or(0))
                })
                .collect()
        })
        .collect()
}

fn mean(
    pixels: &[[u8; 3]],
    width: usize,
    rows: &[(usize, u64)],
    columns: &[(usize, u64)],
) -> [u8; 3] {
    let mut sums = [0_u64; 3];
    let mut weights = 0_u64;
    for (row, high) in rows {
        for (column, wide) in columns {
            let at = row.saturating_mul(width).saturating_add(*column);
            let weight = high.saturating_mul(*wide);
            weights = weights.saturating_add(weight);
            for (sum, shade) in sums.iter_mut().zip(pixels.get(at).copied().unwrap_or_default()) {
                *sum = sum.saturating_add(u64::from(shade).saturating_mul(weight));
            }
        }
    }
    sums.map(|sum| {
        let rounded = sum.saturating_add(weights / 2).checked_div(weights).unwrap_or(0);
        u8::try_from(rounded).unwrap_or(u8::MAX)
    })
}

/// The sheet on which pictures are put.
struct Sheet {
    shape: ImageShape,
    pixels: Vec<u8>,
    columns: usize,
    cell: usize,
    gap: usize,
}

impl Sheet {
    fn new(
        count: usize,
        columns: usize,
        options: &MontageOptions,
    ) -> std::result::Result<Self, iac_codec::CodecError> {
        let (cell, gap) = (to_usize(options.cell), to_usize(options.gap));
        let lines = count.div_ceil(columns.max(1));
        let side = |cells: usize| {
            let pixels = cells.saturating_mul(cell.saturating_add(gap)).saturating_add(gap);
            u32::try_from(pixels).unwrap_or(u32::MAX)
        };
        let shape = ImageShape::new(side(lines), side(columns), 3)?;
        shape.check(&options.limits)?;
        let mut pixels = Vec::new();
        pixels.try_reserve_exact(shape.samples()).map_err(|_| iac_codec::CodecError::Limit {
            what: "samples",
            found: u64::try_from(shape.samples()).unwrap_or(u64::MAX),
            allowed: 0,
        })?;
        pixels.resize(shape.samples(), BACKGROUND);
        Ok(Self { shape, pixels, columns, cell, gap })
    }

    /// Where a place begins: row and column of pixels.
    fn corner(&self, position: usize) -> (usize, usize) {
        let at = |cells: usize| {
            cells.saturating_mul(self.cell.saturating_add(self.gap)).saturating_add(self.gap)
        };
        let line = position.checked_div(self.columns).unwrap_or(0);
        let column = position.checked_rem(self.columns).unwrap_or(0);
        (at(line), at(column))
    }

    fn put(&mut self, position: usize, picture: &Thumbnail) {
        let (top, left) = self.corner(position);
        // In the middle of its place.
        let top = top.saturating_add(self.cell.saturating_sub(picture.height) / 2);
        let left = left.saturating_add(self.cell.saturating_sub(picture.width) / 2);
        let lines = picture.pixels.chunks_exact(picture.width.max(1));
        for (line, pixels) in (top..).zip(lines) {
            for (column, pixel) in (left..).zip(pixels) {
                self.set(line, column, *pixel);
            }
        }
    }

    fn cross(&mut self, position: usize) {
        let (top, left) = self.corner(position);
        for step in 0..self.cell {
            let back = self.cell.saturating_sub(step).saturating_sub(1);
            self.set(top.saturating_add(step), left.saturating_add(step), CROSS);
            self.set(top.saturating_add(step), left.saturating_add(back), CROSS);
        }
    }

    fn set(&mut self, line: usize, column: usize, pixel: [u8; 3]) {
        let width = to_usize(self.shape.width());
        let at = line.saturating_mul(width).saturating_add(column).saturating_mul(3);
        if let Some(place) = self.pixels.get_mut(at..at.saturating_add(3)) {
            place.copy_from_slice(&pixel);
        }
    }
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_averaged_whatever_the_ratio_and_small_pictures_grow_by_whole_factors() {
        let pixels: Vec<[u8; 3]> = [0, 90, 180, 30, 120, 210].map(|grey| [grey; 3]).to_vec();
        // 2 x 3 into 2: 1.33 rounds to 1 row; columns cover one and a half pixels each.
        let small = fit(&pixels, 2, 3, 2);
        assert_eq!((small.height, small.width), (1, 2));
        assert_eq!(small.pixels, [[45; 3], [165; 3]]);
        let same = fit(&pixels, 2, 3, 3);
        assert_eq!(same.pixels, pixels);
        let large = fit(&pixels, 2, 3, 7);
        assert_eq!((large.height, large.width), (4, 6));
        assert_eq!(large.pixels[..7], [0, 0, 90, 90, 180, 180, 0].map(|grey| [grey; 3]));
        let constant = fit(&[[7, 8, 9]; 35 * 21], 35, 21, 16);
        assert!(constant.pixels.iter().all(|pixel| *pixel == [7, 8, 9]));
    }

    #[test]
    fn shades_follow_the_window_and_odd_numbers_do_no_harm() {
        let shape = ImageShape::new(1, 6, 1).unwrap();
        let shades =
            |samples: Samples, window| to_shades(&Image::new(shape, samples).unwrap(), window);
        let signed = Samples::I16(vec![-1000, -1000, 0, 500, 1000, 1000]);
        assert_eq!(shades(signed, Window::MinMax), [0, 0, 128, 191, 255, 255]);
        let floats = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, 1.0, 0.5];
        assert_eq!(shades(floats.into(), Window::MinMax), [0, 255, 0, 0, 255, 128]);
        assert_eq!(shades(vec![7_u16; 6].into(), Window::MinMax), [128; 6]);
        assert_eq!(shades(vec![f32::NAN; 6].into(), Window::MinMax), [128; 6]);
        let middle = Window::Percentiles { low: 20.0, high: 80.0 };
        let words = vec![0_u16, 10, 20, 30, 40, 60_000];
        assert_eq!(shades(words.into(), middle), [0, 0, 85, 170, 255, 255]);
    }

    #[test]
    fn any_number_of_channels_becomes_colour() {
        assert_eq!(to_rgb(&[9], 1, false), [[9; 3]]);
        assert_eq!(to_rgb(&[0, 255, 0, 0], 2, false), [[0; 3], [255; 3]]);
        assert_eq!(to_rgb(&[1, 2, 3, 255], 4, false), [[1, 2, 3]]);
        assert_eq!(to_rgb(&[1, 2, 3, 0], 4, true), [[0; 3]]);
        assert_eq!(to_rgb(&[1, 2, 3, 4, 5, 6], 6, false), [[1, 2, 3]]);
    }

    #[test]
    fn rows_are_spread_over_the_pack() {
        assert_eq!(spread(3), [0, 1, 2]);
        let rows = spread(1000);
        assert_eq!((rows.len(), rows[1], rows[99]), (100, 10, 990));
    }
}
