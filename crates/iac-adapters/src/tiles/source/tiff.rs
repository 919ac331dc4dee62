//! TIFF files: the first image of a file, in strips or tiles, its channels together or apart.

use std::io::{Cursor, Read, Seek};

use iac_codec::{Codec, Limits};
use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult};
use tiff::tags::Tag;

use super::{Channels, Raster, Samples, check_size, tiff_jpeg};

/// Values of the tag that says what colours are.
pub(super) const BLACK_IS_ZERO: u16 = 1;
pub(super) const PALETTE: u16 = 3;
/// Value of the tag `Compression` for JPEG streams.
const JPEG: u16 = 7;

pub(super) fn fail(error: tiff::TiffError) -> String {
    error.to_string()
}

pub(super) fn probe(source: impl Read + Seek) -> Result<(u32, u32, bool), String> {
    let mut decoder = Decoder::new(source).map_err(fail)?;
    let (width, height) = decoder.dimensions().map_err(fail)?;
    let bits = decoder.find_tag_unsigned_vec::<u16>(Tag::BitsPerSample).map_err(fail)?;
    let is_wide = bits.unwrap_or_default().into_iter().any(|bits| bits > 8);
    let is_palette = number(&mut decoder, Tag::PhotometricInterpretation)? == Some(PALETTE);
    if !is_palette && number(&mut decoder, Tag::Compression)? != Some(JPEG) {
        // Says now what could not be read later.
        decoder.colortype().map_err(fail)?;
    }
    Ok((width, height, is_wide))
}

fn number(decoder: &mut Decoder<impl Read + Seek>, tag: Tag) -> Result<Option<u16>, String> {
    decoder.find_tag_unsigned(tag).map_err(fail)
}

/// Reads an image; `jpeg` decodes streams inside of it.
pub(super) fn load(
    mut file: Vec<u8>,
    limits: &Limits,
    jpeg: Result<&Codec, String>,
) -> Result<Raster, String> {
    let mut bounds = tiff::decoder::Limits::default();
    let most = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX);
    bounds.decoding_buffer_size = most;
    bounds.intermediate_buffer_size = most;
    let mut decoder = Decoder::new(Cursor::new(file.as_slice())).map_err(fail)?;
    let (width, height) = decoder.dimensions().map_err(fail)?;
    check_size(width, height, 4, limits)?;
    let orientation = number(&mut decoder, Tag::Orientation)?;
    let orientation = orientation.and_then(|value| u8::try_from(value).ok());
    let orientation = orientation.filter(|value| (1..=8).contains(value)).unwrap_or(1);
    let colors = number(&mut decoder, Tag::PhotometricInterpretation)?;
    if number(&mut decoder, Tag::Compression)? == Some(JPEG) {
        let (channels, samples) =
            tiff_jpeg::load(&mut decoder, &file, colors.unwrap_or_default(), limits, jpeg?)?;
        return Ok(Raster { width, height, channels, samples, orientation });
    }
    let palette = match colors {
        Some(PALETTE) => Some(decoder.get_tag_u16_vec(Tag::ColorMap).map_err(fail)?),
        _ => None,
    };
    drop(decoder);
    if palette.is_some() {
        // The library reads no palettes, but it reads their numbers as if they were grey.
        call_it_gray(&mut file).ok_or("says in an odd way that it has a palette")?;
    }
    let mut decoder = Decoder::new(Cursor::new(file)).map_err(fail)?.with_limits(bounds);
    let color = decoder.colortype().map_err(fail)?;
    let channels = match (&palette, color) {
        (Some(_), ColorType::Gray(1 | 2 | 4 | 8)) => Channels::Rgb,
        (Some(_), _) => return Err("has a palette of more than 8 bits".to_owned()),
        (None, ColorType::Gray(_)) => Channels::Gray,
        (None, ColorType::GrayA(_)) => Channels::GrayAlpha,
        (None, ColorType::Multiband { num_samples: 2, .. }) if colors == Some(BLACK_IS_ZERO) => {
            Channels::GrayAlpha
        }
        (None, ColorType::RGB(_)) => Channels::Rgb,
        (None, ColorType::RGBA(_)) => Channels::RgbAlpha,
        (None, ColorType::CMYK(_) | ColorType::CMYKA(_)) => Channels::Cmyk,
        (None, other) => return Err(format!("its pixels are {other:?}, which is not supported")),
    };
    let bits = color.bit_depth();
    if bits < 8 && !matches!(color, ColorType::Gray(1 | 2 | 4)) {
        return Err(format!("has {bits} bits in each of several channels, which is not supported"));
    }
    let stored = usize::from(color.num_samples());
    let planes = decoder.image_buffer_layout().map_err(fail)?.planes;
    let mut decoded = DecodingResult::U8(Vec::new());
    decoder.read_image_to_buffer(&mut decoded).map_err(fail)?;
    let pixels = check_size(width, height, 1, limits)?;
    let samples = match (decoded, palette) {
        (DecodingResult::U8(bytes), Some(palette)) => {
            Samples::U8(colored(&unpacked(bytes, width, bits, pixels, 1)?, &palette)?)
        }
        (DecodingResult::U8(bytes), None) if bits < 8 => {
            let steps = 255_u8.checked_div(mask(bits)).unwrap_or(1);
            Samples::U8(unpacked(bytes, width, bits, pixels, steps)?)
        }
        (decoded, None) => {
            let kept = if channels == Channels::Cmyk { 4 } else { stored };
            match samples_of(decoded) {
                Samples::U8(all) => Samples::U8(arranged(all, planes, pixels, stored, kept)?),
                Samples::U16(all) => Samples::U16(arranged(all, planes, pixels, stored, kept)?),
                Samples::Wide(all) => Samples::Wide(arranged(all, planes, pixels, stored, kept)?),
            }
        }
        (_, Some(_)) => return Err("has a palette for samples that are no bytes".to_owned()),
    };
    Ok(Raster { width, height, channels, samples, orientation })
}

/// Samples pixel by pixel, the first `kept` of `stored` ones; `planes` says whether each channel
/// stands for itself.
fn arranged<T: Copy>(
    all: Vec<T>,
    planes: usize,
    pixels: usize,
    stored: usize,
    kept: usize,
) -> Result<Vec<T>, String> {
    let expected = pixels.checked_mul(stored).ok_or("is larger than the memory")?;
    if all.len() != expected {
        return Err(format!("has {} samples instead of {expected}", all.len()));
    }
    if planes > 1 {
        let planes: Vec<&[T]> = all.chunks(pixels.max(1)).take(kept).collect();
        let pixel = |at: usize| planes.iter().filter_map(move |plane| plane.get(at).copied());
        return Ok((0..pixels).flat_map(pixel).collect());
    }
    if stored == kept {
        return Ok(all);
    }
    Ok(all.chunks(stored.max(1)).flat_map(|pixel| pixel.iter().take(kept).copied()).collect())
}

#[allow(clippy::cast_precision_loss)] // such integers are cut off or scaled afterwards
fn samples_of(decoded: DecodingResult) -> Samples {
    match decoded {
        DecodingResult::U8(samples) => Samples::U8(samples),
        DecodingResult::U16(samples) => Samples::U16(samples),
        DecodingResult::U32(samples) => Samples::Wide(samples.into_iter().map(f64::from).collect()),
        DecodingResult::U64(samples) => {
            Samples::Wide(samples.into_iter().map(|s| s as f64).collect())
        }
        DecodingResult::F16(samples) => {
            Samples::Wide(samples.into_iter().map(|s| s.to_f64()).collect())
        }
        DecodingResult::F32(samples) => Samples::Wide(samples.into_iter().map(f64::from).collect()),
        DecodingResult::F64(samples) => Samples::Wide(samples),
        DecodingResult::I8(samples) => Samples::Wide(samples.into_iter().map(f64::from).collect()),
        DecodingResult::I16(samples) => Samples::Wide(samples.into_iter().map(f64::from).collect()),
        DecodingResult::I32(samples) => Samples::Wide(samples.into_iter().map(f64::from).collect()),
        DecodingResult::I64(samples) => {
            Samples::Wide(samples.into_iter().map(|s| s as f64).collect())
        }
    }
}

/// The greatest number of so many bits.
const fn mask(bits: u8) -> u8 {
    match bits {
        1 => 1,
        2 => 3,
        4 => 15,
        _ => 255,
    }
}

/// Pixels of 1, 2, 4 or 8 bits, whose rows begin at whole bytes, each times `steps`.
fn unpacked(
    bytes: Vec<u8>,
    width: u32,
    bits: u8,
    pixels: usize,
    steps: u8,
) -> Result<Vec<u8>, String> {
    let width = usize::try_from(width).map_err(|_| "is larger than the memory")?;
    let per_byte = usize::from(8_u8.checked_div(bits).unwrap_or(1)).max(1);
    let mut found = Vec::with_capacity(pixels);
    for row in bytes.chunks(width.div_ceil(per_byte).max(1)) {
        let values = row.iter().flat_map(|byte| {
            (1..=per_byte).map(move |place| {
                let behind = per_byte.saturating_sub(place).saturating_mul(usize::from(bits));
                let shift = u32::try_from(behind).unwrap_or(0);
                byte.checked_shr(shift).unwrap_or(0) & mask(bits)
            })
        });
        found.extend(values.take(width).map(|value| value.saturating_mul(steps)));
    }
    if found.len() != pixels {
        return Err(format!("has {} pixels instead of {pixels}", found.len()));
    }
    Ok(found)
}

fn colored(indices: &[u8], palette: &[u16]) -> Result<Vec<u8>, String> {
    let entries = palette.len() / 3;
    let mut pixels = Vec::with_capacity(indices.len().saturating_mul(3));
    for index in indices {
        let index = usize::from(*index);
        for channel in 0..3_usize {
            let at = channel.saturating_mul(entries).saturating_add(index);
            let value = palette.get(at).filter(|_| index < entries);
            let value = value.ok_or("has a pixel that is not in its palette")?;
            let [upper, _] = value.to_be_bytes();
            pixels.push(upper);
        }
    }
    Ok(pixels)
}

/// Says of the first image of a file that it is grey.
fn call_it_gray(file: &mut [u8]) -> Option<()> {
    let is_little = file.starts_with(b"II");
    let number = |place: usize, bytes: usize| -> Option<usize> {
        let bytes = file.get(place..place.checked_add(bytes)?)?;
        let add = |sum: u64, byte: &u8| sum.checked_mul(256)?.checked_add(u64::from(*byte));
        let value = if is_little {
            bytes.iter().rev().try_fold(0, add)
        } else {
            bytes.iter().try_fold(0, add)
        };
        usize::try_from(value?).ok()
    };
    let is_big = number(2, 2)? == 43;
    let (first, count_bytes, entry_bytes, value_at) =
        if is_big { (number(8, 8)?, 8, 20, 12) } else { (number(4, 4)?, 2, 12, 8) };
    let entries = number(first, count_bytes)?;
    let start = first.checked_add(count_bytes)?;
    let tag = usize::from(Tag::PhotometricInterpretation.to_u16());
    let place = (0..entries).find_map(|entry| {
        let place = start.checked_add(entry.checked_mul(entry_bytes)?)?;
        // Behind the end of the file no entry is found, but looked for only once.
        Some((number(place, 2).is_none_or(|found| found == tag), place))
            .filter(|(ends, _)| *ends)
            .map(|(_, place)| place)
    })?;
    let place = place.checked_add(value_at)?;
    let gray = if is_little { BLACK_IS_ZERO.to_le_bytes() } else { BLACK_IS_ZERO.to_be_bytes() };
    file.get_mut(place..place.checked_add(2)?)?.copy_from_slice(&gray);
    Some(())
}
