//! The rules by which pixels of a file become those of a tile.

use iac_codec::{Image, ImageShape, SamplesRef};
use iac_format::ErrorKind;

use super::{Channels, Raster, Samples};
use crate::tiles::options::{Alpha, ImageRules, TileColor, WideSamples};

type Failure = (ErrorKind, String);

/// Applies the rules.
pub(super) fn apply(raster: Raster, rules: &ImageRules) -> Result<Image, Failure> {
    let Raster { width, height, channels, samples, .. } = raster;
    let shape = |channels: usize| {
        let channels = u32::try_from(channels).unwrap_or(u32::MAX);
        ImageShape::new(height, width, channels)
            .map_err(|error| (ErrorKind::Decode, error.to_string()))
    };
    let is_wide = !matches!(samples, Samples::U8(_));
    if is_wide && rules.wide == WideSamples::Keep {
        return keep(channels, samples, rules, shape);
    }
    let bytes = match samples {
        Samples::U8(bytes) => bytes,
        Samples::U16(_) | Samples::Wide(_) if rules.wide == WideSamples::Refuse => {
            return Err((
                ErrorKind::Unsupported,
                "its samples have more than 8 bits: say how they are to be stored".to_owned(),
            ));
        }
        Samples::U16(samples) => {
            // Only pure grey is cut off by the reference.
            let clips = rules.wide == WideSamples::Clip && channels == Channels::Gray;
            let narrow = |sample: u16| match (clips, rules.wide) {
                (true, _) => u8::try_from(sample).unwrap_or(u8::MAX),
                (false, WideSamples::Clip) => upper(sample),
                // The nearest of 256 steps.
                _ => u8::try_from(
                    (u32::from(sample).saturating_mul(255).saturating_add(32_767)) / 65_535,
                )
                .unwrap_or(u8::MAX),
            };
            samples.into_iter().map(narrow).collect()
        }
        Samples::Wide(samples) => {
            let scale = if rules.wide == WideSamples::Scale { 255.0 } else { 1.0 };
            let round = if rules.wide == WideSamples::Scale { 0.5 } else { 0.0 };
            samples.into_iter().map(|sample| clipped(sample * scale + round)).collect()
        }
    };
    let stored = stored_channels(channels, rules);
    let pixels = convert(bytes, channels, stored, rules.alpha);
    let image = Image::new(shape(stored.count())?, pixels);
    image.map_err(|error| (ErrorKind::Decode, error.to_string()))
}

const fn upper(sample: u16) -> u8 {
    let [upper, _] = sample.to_be_bytes();
    upper
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is cut off on purpose
fn clipped(sample: f64) -> u8 {
    sample.clamp(0.0, 255.0) as u8
}

/// What is stored of an image with these channels.
const fn stored_channels(channels: Channels, rules: &ImageRules) -> Channels {
    match (rules.color, channels, rules.alpha) {
        (TileColor::Native, Channels::Gray | Channels::GrayAlpha, _) => Channels::Gray,
        (TileColor::Native, Channels::RgbAlpha, Alpha::Drop) => Channels::RgbAlpha,
        _ => Channels::Rgb,
    }
}

fn convert(bytes: Vec<u8>, from: Channels, to: Channels, alpha: Alpha) -> Vec<u8> {
    if from == to {
        return bytes;
    }
    let blends = alpha == Alpha::BlendWhite;
    let pixels = bytes.len().checked_div(from.count()).unwrap_or(0);
    let mut out = Vec::with_capacity(pixels.saturating_mul(to.count()));
    let over_white = |value: u8, alpha: u8| {
        let (value, alpha) = (u32::from(value), u32::from(alpha));
        let sum = value
            .saturating_mul(alpha)
            .saturating_add(255_u32.saturating_mul(255_u32.saturating_sub(alpha)));
        u8::try_from(sum.saturating_add(127) / 255).unwrap_or(u8::MAX)
    };
    let gray = |value: u8, out: &mut Vec<u8>| match to {
        Channels::Gray => out.push(value),
        _ => out.extend_from_slice(&[value; 3]),
    };
    match from {
        Channels::Gray => bytes.iter().for_each(|value| gray(*value, &mut out)),
        Channels::GrayAlpha => {
            for [value, alpha] in bytes.as_chunks().0 {
                gray(if blends { over_white(*value, *alpha) } else { *value }, &mut out);
            }
        }
        Channels::Rgb => out.extend_from_slice(&bytes),
        Channels::RgbAlpha => {
            for [red, green, blue, alpha] in bytes.as_chunks().0 {
                let color = [*red, *green, *blue];
                out.extend(
                    color.map(|value| if blends { over_white(value, *alpha) } else { value }),
                );
            }
        }
        Channels::Cmyk => {
            for [cyan, magenta, yellow, key] in bytes.as_chunks().0 {
                let light = 255_u8.saturating_sub(*key);
                out.extend([*cyan, *magenta, *yellow].map(|ink| {
                    light.saturating_sub(divided(u32::from(ink).saturating_mul(u32::from(light))))
                }));
            }
        }
    }
    out
}

/// A product of two bytes divided by 255, rounded as the reference's image library does it.
fn divided(product: u32) -> u8 {
    let sum = product.saturating_add(128);
    u8::try_from((sum >> 8).saturating_add(sum) >> 8).unwrap_or(u8::MAX)
}

/// Wide samples as they are; only alpha channels may go.
fn keep(
    channels: Channels,
    samples: Samples,
    rules: &ImageRules,
    shape: impl Fn(usize) -> Result<ImageShape, Failure>,
) -> Result<Image, Failure> {
    if channels == Channels::Cmyk {
        return Err((ErrorKind::Unsupported, "16-bit CMYK cannot be kept".to_owned()));
    }
    let kept = match (rules.color, channels) {
        (TileColor::Native, Channels::GrayAlpha) | (_, Channels::Gray | Channels::GrayAlpha) => 1,
        (TileColor::Native, Channels::RgbAlpha) => 4,
        _ => 3,
    };
    let shape = shape(kept)?;
    let image = match samples {
        Samples::U16(samples) => Image::new(shape, first_channels(&samples, channels, kept)),
        Samples::Wide(samples) => {
            let floats: Vec<f32> =
                first_channels(&samples, channels, kept).into_iter().map(nearest).collect();
            Image::new(shape, floats)
        }
        Samples::U8(samples) => Image::new(shape, first_channels(&samples, channels, kept)),
    };
    image.map_err(|error| (ErrorKind::Decode, error.to_string()))
}

fn first_channels<T: Copy>(samples: &[T], channels: Channels, kept: usize) -> Vec<T> {
    if channels.count() == kept {
        return samples.to_vec();
    }
    samples.chunks(channels.count()).flat_map(|pixel| pixel.iter().take(kept).copied()).collect()
}

#[allow(clippy::cast_possible_truncation)] // the nearest f32 is what is wanted
const fn nearest(sample: f64) -> f32 {
    sample as f32
}

/// A decoded tile as RGB: one channel is repeated, a fourth dropped; nothing for samples that are
/// no bytes and for two channels.
pub(crate) fn to_rgb(image: &Image, out: &mut [u8]) -> Option<()> {
    let SamplesRef::U8(bytes) = image.samples() else { return None };
    let (targets, rest) = out.as_chunks_mut::<3>();
    let pixels = bytes.len().checked_div(usize::try_from(image.shape().channels()).ok()?)?;
    if !rest.is_empty() || targets.len() != pixels {
        return None;
    }
    match image.shape().channels() {
        1 => {
            for (target, value) in targets.iter_mut().zip(bytes) {
                *target = [*value; 3];
            }
        }
        3 => {
            for (target, pixel) in targets.iter_mut().zip(bytes.as_chunks::<3>().0) {
                *target = *pixel;
            }
        }
        4 => {
            for (target, [red, green, blue, _]) in targets.iter_mut().zip(bytes.as_chunks().0) {
                *target = [*red, *green, *blue];
            }
        }
        _ => return None,
    }
    Some(())
}
