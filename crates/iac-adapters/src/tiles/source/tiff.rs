//! TIFF files.

use std::io::{Read, Seek};

use iac_codec::Limits;
use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult};
use tiff::tags::Tag;

use super::{Channels, Raster, Samples, check_size};

pub(super) fn probe(source: impl Read + Seek) -> Result<(u32, u32, bool), String> {
    let fail = |error: tiff::TiffError| error.to_string();
    let mut decoder = Decoder::new(source).map_err(fail)?;
    let (width, height) = decoder.dimensions().map_err(fail)?;
    let color = decoder.colortype().map_err(fail)?;
    Ok((width, height, color.bit_depth() > 8))
}

pub(super) fn load(source: impl Read + Seek, limits: &Limits) -> Result<Raster, String> {
    let fail = |error: tiff::TiffError| error.to_string();
    let mut bounds = tiff::decoder::Limits::default();
    bounds.decoding_buffer_size = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX);
    let mut decoder = Decoder::new(source).map_err(fail)?.with_limits(bounds);
    let (width, height) = decoder.dimensions().map_err(fail)?;
    check_size(width, height, 4, limits)?;
    let color = decoder.colortype().map_err(fail)?;
    let planes = decoder.find_tag_unsigned::<u16>(Tag::PlanarConfiguration).map_err(fail)?;
    if planes == Some(2) && color.num_samples() > 1 {
        return Err("stores each channel for itself, which is not supported".to_owned());
    }
    let orientation = decoder.find_tag_unsigned::<u16>(Tag::Orientation).map_err(fail)?;
    let orientation = orientation.and_then(|value| u8::try_from(value).ok());
    let orientation = orientation.filter(|value| (1..=8).contains(value)).unwrap_or(1);
    let palette = match color {
        ColorType::Palette(8) => Some(decoder.get_tag_u16_vec(Tag::ColorMap).map_err(fail)?),
        _ => None,
    };
    let decoded = decoder.read_image().map_err(fail)?;
    let pixels = check_size(width, height, 1, limits)?;
    let (channels, samples) = match (color, decoded) {
        (ColorType::Gray(1), DecodingResult::U8(bytes)) => {
            (Channels::Gray, Samples::U8(unpacked(&bytes, width, height)?))
        }
        (ColorType::Palette(8), DecodingResult::U8(bytes)) => {
            let palette = palette.unwrap_or_default();
            (Channels::Rgb, Samples::U8(colored(&bytes, &palette)?))
        }
        (color, decoded) => {
            let channels = match color {
                ColorType::Gray(_) => Channels::Gray,
                ColorType::GrayA(_) => Channels::GrayAlpha,
                ColorType::RGB(_) => Channels::Rgb,
                ColorType::RGBA(_) => Channels::RgbAlpha,
                ColorType::CMYK(_) => Channels::Cmyk,
                other => return Err(format!("its pixels are {other:?}, which is not supported")),
            };
            (channels, samples_of(decoded))
        }
    };
    let count = match &samples {
        Samples::U8(samples) => samples.len(),
        Samples::U16(samples) => samples.len(),
        Samples::Wide(samples) => samples.len(),
    };
    if Some(count) != pixels.checked_mul(channels.count()) {
        return Err(format!("has {count} samples, which are not those of {width} x {height}"));
    }
    Ok(Raster { width, height, channels, samples, orientation })
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

/// Pixels of one bit, whose rows begin at whole bytes.
fn unpacked(bytes: &[u8], width: u32, height: u32) -> Result<Vec<u8>, String> {
    let width = usize::try_from(width).map_err(|_| "is larger than the memory")?;
    let rows = usize::try_from(height).map_err(|_| "is larger than the memory")?;
    let mut pixels = Vec::with_capacity(width.saturating_mul(rows));
    for row in bytes.chunks(width.div_ceil(8).max(1)).take(rows) {
        let bits = row.iter().flat_map(|byte| (0..8).map(move |bit| byte & (0x80 >> bit)));
        pixels.extend(bits.take(width).map(|bit| if bit == 0 { 0 } else { 255 }));
    }
    Ok(pixels)
}

fn colored(bytes: &[u8], palette: &[u16]) -> Result<Vec<u8>, String> {
    let entries = palette.len() / 3;
    let mut pixels = Vec::with_capacity(bytes.len().saturating_mul(3));
    for byte in bytes {
        let index = usize::from(*byte);
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
