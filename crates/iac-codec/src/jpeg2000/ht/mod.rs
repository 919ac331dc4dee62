//! High-throughput streams (ITU-T T.814), encoding: one tile, one layer, blocks of 64 x 64.
//!
//! Written for this project, as no encoder that cargo can build was right for every image.

mod block;
mod packets;
mod tables;
mod wavelet;

use super::native::{Order, Quality};
use super::{Loss, NAME};
use crate::codec::u64_len;
use crate::{CodecError, ImageView, Result, SamplesRef};
use block::{SIDE, Scratch};
use packets::Blocks;
use wavelet::{Plane, forward};

/// The exponent of the largest precincts, which all resolutions use.
const PRECINCT: u32 = 15;
/// The base step of streams whose quality is left open.
const DEFAULT_STEP: f64 = 0.01;
/// Bit planes that every decoder takes.
const MOST_PLANES: u32 = 30;

/// Encodes an image.
pub(super) fn encode(order: &Order, loss: Option<Loss>, image: &ImageView<'_>) -> Result<Vec<u8>> {
    let mut planes = planes(order, image)?;
    if order.quality == Quality::Lossless {
        if order.transform {
            reversible_colors(&mut planes);
        }
        for plane in &mut planes {
            forward(plane, order.levels.into());
        }
        let bands = bands(order);
        let conventional =
            |band: &Band| nominal(order, band).saturating_add(order.transform.into());
        let steps: Vec<Step> = bands
            .iter()
            .map(|band| Step {
                exponent: conventional(band).max(width(&planes, band)),
                mantissa: 0,
            })
            .collect();
        return write(order, &planes, &bands, &steps, 1);
    }
    let mut wide: Vec<Plane<f32>> = planes.iter().map(to_float).collect();
    if order.transform {
        irreversible_colors(&mut wide);
    }
    for plane in &mut wide {
        forward(plane, order.levels.into());
    }
    let bands = bands(order);
    let base = match loss {
        Some(Loss::Quality(psnr)) => base_step(order, &wide, &bands, psnr.into()),
        _ => DEFAULT_STEP,
    };
    let steps: Vec<Step> = bands.iter().map(|band| Step::near(band, base)).collect();
    for (plane, to) in wide.iter().zip(&mut planes) {
        for (band, step) in bands.iter().zip(&steps) {
            quantise(plane, to, band, step.size(order, band));
        }
    }
    // Guard bits make room for whatever a band holds.
    let missing = bands
        .iter()
        .zip(&steps)
        .map(|(band, step)| width(&planes, band).saturating_add(1).saturating_sub(step.exponent));
    let guard = missing.max().unwrap_or(1).max(1);
    let most = steps.iter().map(|step| step.planes(guard)).max().unwrap_or(0);
    if guard > 7 || most > MOST_PLANES {
        return Err(CodecError::encode(
            NAME,
            format!("quality asks for {most} bit planes, but {MOST_PLANES} are the most"),
        ));
    }
    write(order, &planes, &bands, &steps, guard)
}

/// The samples of each channel around 0.
fn planes(order: &Order, image: &ImageView<'_>) -> Result<Vec<Plane<i32>>> {
    let [height, width, channels] = [order.height, order.width, order.channels]
        .map(|side| usize::try_from(side).unwrap_or(usize::MAX));
    let shift =
        if order.signed { 0 } else { 1_i32.wrapping_shl(order.bits.wrapping_sub(1).into()) };
    let mut planes = Vec::with_capacity(channels);
    for channel in 0..channels {
        let mut samples = Vec::new();
        samples.try_reserve_exact(height.saturating_mul(width)).map_err(|_| CodecError::Limit {
            what: "samples",
            found: u64_len(height.saturating_mul(width)),
            allowed: 0,
        })?;
        match image.samples() {
            SamplesRef::U8(from) => take(from, channel, channels, shift, &mut samples),
            SamplesRef::U16(from) => take(from, channel, channels, shift, &mut samples),
            SamplesRef::I16(from) => take(from, channel, channels, shift, &mut samples),
            _ => {}
        }
        planes.push(Plane { samples, width, height });
    }
    Ok(planes)
}

fn take<T: Copy + Into<i32>>(
    from: &[T],
    channel: usize,
    channels: usize,
    shift: i32,
    to: &mut Vec<i32>,
) {
    let samples = from.iter().skip(channel).step_by(channels.max(1));
    to.extend(samples.map(|sample| (*sample).into().wrapping_sub(shift)));
}

/// Turns red, green and blue into luma and differences that can be turned back exactly.
fn reversible_colors(planes: &mut [Plane<i32>]) {
    let [red, green, blue, ..] = planes else { return };
    let three = red.samples.iter_mut().zip(&mut green.samples).zip(&mut blue.samples);
    for ((red, green), blue) in three {
        let (r, g, b) = (*red, *green, *blue);
        *red = r.wrapping_add(g.wrapping_mul(2)).wrapping_add(b) >> 2;
        *green = b.wrapping_sub(g);
        *blue = r.wrapping_sub(g);
    }
}

/// Turns red, green and blue into luma and scaled differences.
fn irreversible_colors(planes: &mut [Plane<f32>]) {
    let [red, green, blue, ..] = planes else { return };
    let three = red.samples.iter_mut().zip(&mut green.samples).zip(&mut blue.samples);
    for ((red, green), blue) in three {
        let (r, g, b) = (*red, *green, *blue);
        *red = 0.299 * r + 0.587 * g + 0.114 * b;
        *green = -0.168_75 * r - 0.331_26 * g + 0.5 * b;
        *blue = 0.5 * r - 0.418_69 * g - 0.081_31 * b;
    }
}

#[allow(clippy::cast_precision_loss, reason = "samples have at most 16 bits")]
fn to_float(plane: &Plane<i32>) -> Plane<f32> {
    Plane {
        samples: plane.samples.iter().map(|sample| *sample as f32).collect(),
        width: plane.width,
        height: plane.height,
    }
}

/// A band of coefficients and where it lies in a plane.
struct Band {
    /// The halvings that made it.
    level: u32,
    x: usize,
    y: usize,
    width: usize,
    height: usize,
    high_across: bool,
    high_down: bool,
}

impl Band {
    /// How many bits more than a sample its coefficients are taken to have.
    fn gain(&self) -> u32 {
        u32::from(self.high_across).wrapping_add(self.high_down.into())
    }

    /// The rows of a rectangle of it.
    fn rows<'a, T>(
        &self,
        plane: &'a Plane<T>,
        (x, y): (usize, usize),
        (width, height): (usize, usize),
    ) -> impl Iterator<Item = &'a [T]> + use<'a, T> {
        let x = self.x.saturating_add(x);
        let rows = plane.samples.chunks_exact(plane.width.max(1));
        rows.skip(self.y.saturating_add(y))
            .take(height)
            .map(move |row| row.get(x..x.saturating_add(width)).unwrap_or_default())
    }
}

/// The bits that a band's coefficients are taken to have.
fn nominal(order: &Order, band: &Band) -> u32 {
    u32::from(order.bits).wrapping_add(band.gain())
}

/// The bands in the order of their resolutions: the lowest first, then three for each level.
fn bands(order: &Order) -> Vec<Band> {
    let levels = u32::from(order.levels);
    let side = |side: u32, level: u32| {
        let side = u64::from(side).div_ceil(1 << level.min(32));
        usize::try_from(side).unwrap_or(usize::MAX)
    };
    let (width, height) = (|level| side(order.width, level), |level| side(order.height, level));
    let mut bands = vec![Band {
        level: levels,
        x: 0,
        y: 0,
        width: width(levels),
        height: height(levels),
        high_across: false,
        high_down: false,
    }];
    for level in (1..=levels).rev() {
        for (high_across, high_down) in [(true, false), (false, true), (true, true)] {
            let (low_width, low_height) = (width(level), height(level));
            let above = level.saturating_sub(1);
            bands.push(Band {
                level,
                x: if high_across { low_width } else { 0 },
                y: if high_down { low_height } else { 0 },
                width: if high_across { width(above).saturating_sub(low_width) } else { low_width },
                height: if high_down {
                    height(above).saturating_sub(low_height)
                } else {
                    low_height
                },
                high_across,
                high_down,
            });
        }
    }
    bands
}

/// The bits of the largest magnitude in a band.
fn width(planes: &[Plane<i32>], band: &Band) -> u32 {
    let mut any = 0;
    for plane in planes {
        for row in band.rows(plane, (0, 0), (band.width, band.height)) {
            any = row.iter().fold(any, |any, coefficient| any | coefficient.unsigned_abs());
        }
    }
    u32::BITS.saturating_sub(any.leading_zeros())
}

/// The quantiser of a band as the header stores it.
struct Step {
    exponent: u32,
    mantissa: u16,
}

impl Step {
    /// The storable step next to what spreads the base step's noise evenly.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    fn near(band: &Band, base: f64) -> Self {
        let norm = wavelet::norm(band.level, band.high_across, band.high_down);
        // In units of the band's nominal range.
        let step = base / norm / 2_f64.powi(band.gain().cast_signed());
        let whole = step.log2().floor();
        let mantissa = ((step / whole.exp2() - 1.0) * 2048.0).round().clamp(0.0, 2047.0) as u16;
        Self { exponent: (-whole).clamp(0.0, 31.0) as u32, mantissa }
    }

    /// The bit planes of the band with so many guard bits.
    const fn planes(&self, guard: u32) -> u32 {
        self.exponent.saturating_add(guard).saturating_sub(1)
    }

    #[allow(clippy::cast_possible_truncation, reason = "rounding to the coefficients' type")]
    fn size(&self, order: &Order, band: &Band) -> f32 {
        let exponent = nominal(order, band).cast_signed().wrapping_sub(self.exponent.cast_signed());
        (2_f64.powi(exponent) * (1.0 + f64::from(self.mantissa) / 2048.0)) as f32
    }
}

/// The base step for a peak signal to noise ratio, found from what quantising would lose.
fn base_step(order: &Order, planes: &[Plane<f32>], bands: &[Band], psnr: f64) -> f64 {
    // Quantised evenly, a twelfth of the squared step is lost; small coefficients lose more.
    let mut base = 10_f64.powf((10.792 - psnr) / 20.0);
    for _ in 0..6 {
        let found = expected_psnr(order, planes, bands, base);
        let missing = psnr - found;
        if (-0.2..=0.0).contains(&missing) {
            break;
        }
        // A little more than is missing, so that the ratio is reached from above.
        base *= 10_f64.powf(-(missing + 0.1) / 20.0);
        base = base.clamp(1e-6, 0.5);
    }
    base
}

/// The ratio that decoding will give. Bands are nearly orthogonal, so losses add up.
fn expected_psnr(order: &Order, planes: &[Plane<f32>], bands: &[Band], base: f64) -> f64 {
    let mut lost = 0.0;
    for (at, plane) in planes.iter().enumerate() {
        // What a loss in luma or a difference costs in red, green and blue together.
        let weight = match at {
            0 if order.transform => 3.0,
            1 if order.transform => 3.258,
            2 if order.transform => 2.475,
            _ => 1.0,
        };
        for band in bands {
            let step = Step::near(band, base).size(order, band);
            let inverse = 1.0 / step;
            let mut sum = 0.0_f64;
            for row in band.rows(plane, (0, 0), (band.width, band.height)) {
                sum +=
                    f64::from(row.iter().map(|value| squared_loss(value * inverse)).sum::<f32>());
            }
            let norm = wavelet::norm(band.level, band.high_across, band.high_down);
            lost += weight * sum * (f64::from(step) * norm).powi(2);
        }
    }
    let samples = f64::from(order.height) * f64::from(order.width) * f64::from(order.channels);
    let peak = f64::from(u32::MAX >> 32_u32.saturating_sub(order.bits.into()));
    // Rounding to integers loses a twelfth more.
    10.0 * (peak * peak / (lost / samples + 1.0 / 12.0)).log10()
}

/// The squared loss of a value that is cut to an integer and put back half a step above it.
fn squared_loss(value: f32) -> f32 {
    let magnitude = value.abs();
    let whole = magnitude.trunc();
    let loss = if whole == 0.0 { magnitude } else { magnitude - whole - 0.5 };
    loss * loss
}

/// Divides the coefficients of a band by a step, towards 0.
#[allow(clippy::cast_possible_truncation, reason = "too large ones saturate and are refused")]
fn quantise(from: &Plane<f32>, to: &mut Plane<i32>, band: &Band, step: f32) {
    let inverse = 1.0 / step;
    let rows = to.samples.chunks_exact_mut(to.width.max(1)).skip(band.y);
    let sources = band.rows(from, (0, 0), (band.width, band.height));
    for (row, source) in rows.zip(sources) {
        for (to, from) in row.iter_mut().skip(band.x).zip(source) {
            *to = (from * inverse) as i32;
        }
    }
}

/// Writes the codestream of coefficients.
fn write(
    order: &Order,
    planes: &[Plane<i32>],
    bands: &[Band],
    steps: &[Step],
    guard: u32,
) -> Result<Vec<u8>> {
    let is_reversible = order.quality == Quality::Lossless;
    let most = steps.iter().map(|step| step.planes(guard)).max().unwrap_or(0);
    if most > MOST_PLANES {
        return Err(CodecError::encode(
            NAME,
            format!("coefficients have {most} bit planes, but {MOST_PLANES} are the most"),
        ));
    }
    let mut out = Vec::new();
    write_main_header(order, steps, guard, most, is_reversible, &mut out);
    let part = out.len();
    // The length of the tile-part follows later.
    out.extend([0xFF, 0x90, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0x93]);
    let mut scratch = Scratch::new();
    let mut body = Vec::new();
    let (mut bands, mut steps) = (bands, steps);
    for resolution in 0..=u32::from(order.levels) {
        let count = if resolution == 0 { 1 } else { 3 };
        let (Some((here, later)), Some((own, rest))) =
            (bands.split_at_checked(count), steps.split_at_checked(count))
        else {
            break;
        };
        (bands, steps) = (later, rest);
        let level = u32::from(order.levels).saturating_sub(resolution);
        let cells = |side: u32| u64::from(side).div_ceil(1 << level).div_ceil(1 << PRECINCT);
        // A precinct is half as wide and high in the bands that double the resolution.
        let cell = 1_usize << if resolution == 0 { PRECINCT } else { PRECINCT.saturating_sub(1) };
        for row in 0..cells(order.height) {
            for column in 0..cells(order.width) {
                let place = [column, row]
                    .map(|at| usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(cell));
                for plane in planes {
                    body.clear();
                    let blocks: Vec<Blocks> = here
                        .iter()
                        .zip(own)
                        .map(|(band, step)| {
                            let empty = step.planes(guard).saturating_sub(1);
                            encode_blocks(plane, band, place, cell, empty, &mut scratch, &mut body)
                        })
                        .collect();
                    packets::write_header(&blocks, &mut out);
                    out.extend_from_slice(&body);
                }
            }
        }
    }
    // A length of 0 stands for the rest of the codestream.
    let length = u32::try_from(out.len().saturating_sub(part)).unwrap_or(0);
    let at = part.saturating_add(6);
    if let Some(place) = out.get_mut(at..at.saturating_add(4)) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    out.extend([0xFF, 0xD9]);
    out.shrink_to_fit();
    Ok(out)
}

/// Encodes the blocks of a band that lie in a precinct.
fn encode_blocks(
    plane: &Plane<i32>,
    band: &Band,
    [x, y]: [usize; 2],
    cell: usize,
    empty_planes: u32,
    scratch: &mut Scratch,
    body: &mut Vec<u8>,
) -> Blocks {
    let width = band.width.saturating_sub(x).min(cell);
    let height = band.height.saturating_sub(y).min(cell);
    let mut blocks = Blocks {
        across: width.div_ceil(SIDE),
        down: height.div_ceil(SIDE),
        lengths: Vec::new(),
        empty_planes,
    };
    if width == 0 || height == 0 {
        (blocks.across, blocks.down) = (0, 0);
        return blocks;
    }
    for top in (0..height).step_by(SIDE) {
        for left in (0..width).step_by(SIDE) {
            let size = (width.saturating_sub(left).min(SIDE), height.saturating_sub(top).min(SIDE));
            let place = (x.saturating_add(left), y.saturating_add(top));
            let rows = band.rows(plane, place, size);
            blocks.lengths.push(scratch.encode(rows, size.0, body));
        }
    }
    blocks
}

fn write_main_header(
    order: &Order,
    steps: &[Step],
    guard: u32,
    most: u32,
    is_reversible: bool,
    out: &mut Vec<u8>,
) {
    out.extend([0xFF, 0x4F]);
    let mut sizes = vec![0x40, 0];
    for side in [order.width, order.height, 0, 0, order.width, order.height, 0, 0] {
        sizes.extend(side.to_be_bytes());
    }
    sizes.extend(u16::try_from(order.channels).unwrap_or(u16::MAX).to_be_bytes());
    let depth = order.bits.saturating_sub(1) | if order.signed { 0x80 } else { 0 };
    for _ in 0..order.channels {
        sizes.extend([depth, 1, 1]);
    }
    push_segment(out, 0x51, &sizes);
    // Part 15 alone, one pass for each block, and a bound on bit planes.
    let bound = match most {
        0..=8 => 0,
        9..=27 => most.saturating_sub(8),
        28..=47 => (most >> 2).saturating_add(13),
        _ => 31,
    };
    let bound = u8::try_from(bound).unwrap_or(31) | if is_reversible { 0 } else { 0x20 };
    push_segment(out, 0x50, &[0, 2, 0, 0, 0, bound]);
    let transform = u8::from(order.transform);
    let wavelet = u8::from(is_reversible);
    push_segment(out, 0x52, &[0, 2, 0, 1, transform, order.levels, 4, 4, 0x40, wavelet]);
    let guard = u8::try_from(guard).unwrap_or(7).wrapping_shl(5);
    let mut quantisation = vec![if is_reversible { guard } else { guard | 2 }];
    for step in steps {
        let exponent = u8::try_from(step.exponent).unwrap_or(31).wrapping_shl(3);
        if is_reversible {
            quantisation.push(exponent);
        } else {
            let both = u16::from(exponent).wrapping_shl(8) | step.mantissa;
            quantisation.extend(both.to_be_bytes());
        }
    }
    push_segment(out, 0x5C, &quantisation);
    if order.transform {
        // Without a comment decoders that know the reference packages' streams would take the
        // transform for a flag without meaning.
        push_segment(out, 0x64, &[&[0, 1][..], b"IatroCache"].concat());
    }
}

fn push_segment(out: &mut Vec<u8>, marker: u8, contents: &[u8]) {
    let length = u16::try_from(contents.len().saturating_add(2)).unwrap_or(u16::MAX);
    out.extend([0xFF, marker]);
    out.extend(length.to_be_bytes());
    out.extend_from_slice(contents);
}
