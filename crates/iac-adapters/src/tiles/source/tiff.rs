//! TIFF files: the first image of a file, in strips or tiles, its channels together or apart.

use std::io::{Cursor, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};

use iac_codec::{Codec, Limits};
use tiff::ColorType;
use tiff::decoder::{ChunkType, Decoder, DecodingResult};
use tiff::tags::Tag;

use super::{Channels, Raster, Samples, check_size, tiff_jpeg};

/// Values of the tag that says what colours are.
pub(super) const BLACK_IS_ZERO: u16 = 1;
pub(super) const PALETTE: u16 = 3;
/// Value of the tag `Compression` for JPEG streams.
const JPEG: u16 = 7;
/// The type of values of 8 bytes.
const LONG8: u64 = 16;

pub(super) fn fail(error: tiff::TiffError) -> String {
    error.to_string()
}

/// The size of the first image, and whether its samples have more than 8 bits.
pub(super) fn probe(source: impl Read + Seek) -> Result<(u32, u32, bool), String> {
    fenced(|| look(source))
}

fn look(source: impl Read + Seek) -> Result<(u32, u32, bool), String> {
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
    file: Vec<u8>,
    limits: &Limits,
    jpeg: Result<&Codec, String>,
) -> Result<Raster, String> {
    fenced(|| read(file, limits, jpeg))
}

/// Turns a panic of the library into an error: its assertions can be reached by files.
fn fenced<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err("the TIFF library failed on it".to_owned()))
}

fn read(file: Vec<u8>, limits: &Limits, jpeg: Result<&Codec, String>) -> Result<Raster, String> {
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
    let stored = number(&mut decoder, Tag::SamplesPerPixel)?.unwrap_or(1);
    let is_apart = stored > 1 && number(&mut decoder, Tag::PlanarConfiguration)? == Some(2);
    // The library reads neither palettes nor channels that lie apart, but their numbers as if each
    // were a grey image.
    let color = if palette.is_some() {
        let bits = number(&mut decoder, Tag::BitsPerSample)?.and_then(|bits| bits.try_into().ok());
        ColorType::Gray(bits.unwrap_or(1))
    } else {
        decoder.colortype().map_err(fail)?
    };
    let channels = match (&palette, color) {
        (Some(_), ColorType::Gray(1 | 2 | 4 | 8)) if stored == 1 => Channels::Rgb,
        (Some(_), _) => {
            return Err("has a palette with more than 8 bits or further channels".to_owned());
        }
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
    // Of a palette one number is stored, of other pixels what their channels are.
    let kept = channels.count();
    let planes = if is_apart { kept } else { 1 };
    let file = if is_apart {
        gray_images(&mut decoder, &file, usize::from(stored), planes)?
    } else if palette.is_some() {
        gray_images(&mut decoder, &file, 1, 1)?
    } else {
        file
    };
    let mut decoder = Decoder::new(Cursor::new(file)).map_err(fail)?.with_limits(bounds);
    let mut decoded = Vec::new();
    for plane in 0..planes {
        if plane > 0 {
            decoder.next_image().map_err(fail)?;
        }
        decoded.push(decoder.read_image().map_err(fail)?);
    }
    let stored = if is_apart { usize::from(stored) } else { usize::from(color.num_samples()) };
    let pixels = check_size(width, height, 1, limits)?;
    let first = decoded.first();
    let samples = match (first, palette) {
        (Some(DecodingResult::U8(bytes)), Some(palette)) => {
            Samples::U8(colored(&unpacked(bytes, width, bits, pixels, 1)?, &palette)?)
        }
        (Some(DecodingResult::U8(bytes)), None) if bits < 8 => {
            let steps = 255_u8.checked_div(mask(bits)).unwrap_or(1);
            Samples::U8(unpacked(bytes, width, bits, pixels, steps)?)
        }
        (_, Some(_)) => return Err("has a palette for samples that are no bytes".to_owned()),
        (_, None) if is_apart => woven(decoded, pixels, kept)?,
        (_, None) => {
            let samples = decoded.pop().map(samples_of).ok_or("has no samples")?;
            match samples {
                Samples::U8(all) => Samples::U8(first_channels(all, pixels, stored, kept)?),
                Samples::U16(all) => Samples::U16(first_channels(all, pixels, stored, kept)?),
                Samples::Wide(all) => Samples::Wide(first_channels(all, pixels, stored, kept)?),
            }
        }
    };
    Ok(Raster { width, height, channels, samples, orientation })
}

/// The first `kept` of `stored` samples of each pixel.
fn first_channels<T: Copy>(
    all: Vec<T>,
    pixels: usize,
    stored: usize,
    kept: usize,
) -> Result<Vec<T>, String> {
    let expected = pixels.checked_mul(stored).ok_or("is larger than the memory")?;
    if all.len() != expected || kept > stored {
        return Err(format!("has {} samples instead of {expected}", all.len()));
    }
    if stored == kept {
        return Ok(all);
    }
    Ok(all.chunks(stored.max(1)).flat_map(|pixel| pixel.iter().take(kept).copied()).collect())
}

/// The samples of channels that were read apart, pixel by pixel.
fn woven(planes: Vec<DecodingResult>, pixels: usize, kept: usize) -> Result<Samples, String> {
    fn weave<T: Copy>(planes: &[Vec<T>], pixels: usize) -> Vec<T> {
        let pixel = |at: usize| planes.iter().filter_map(move |plane| plane.get(at).copied());
        (0..pixels).flat_map(pixel).collect()
    }
    let (mut bytes, mut words, mut wide) = (Vec::new(), Vec::new(), Vec::new());
    for plane in planes.into_iter().take(kept).map(samples_of) {
        match plane {
            Samples::U8(plane) => bytes.push(plane),
            Samples::U16(plane) => words.push(plane),
            Samples::Wide(plane) => wide.push(plane),
        }
    }
    fn are_whole<T>(planes: &[Vec<T>], pixels: usize, kept: usize) -> bool {
        planes.len() == kept && planes.iter().all(|plane| plane.len() == pixels)
    }
    if are_whole(&bytes, pixels, kept) {
        Ok(Samples::U8(weave(&bytes, pixels)))
    } else if are_whole(&words, pixels, kept) {
        Ok(Samples::U16(weave(&words, pixels)))
    } else if are_whole(&wide, pixels, kept) {
        Ok(Samples::Wide(weave(&wide, pixels)))
    } else {
        Err("has channels of several lengths or types".to_owned())
    }
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
    bytes: &[u8],
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

/// The file in front of directories which say that it holds grey images: the first `wanted` of its
/// `count` channels.
fn gray_images(
    decoder: &mut Decoder<impl Read + Seek>,
    file: &[u8],
    count: usize,
    wanted: usize,
) -> Result<Vec<u8>, String> {
    let is_little = file.starts_with(b"II");
    let bytes_of = |value: u64, bytes: usize| -> Vec<u8> {
        let all = if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
        let part =
            if is_little { all.get(..bytes) } else { all.get(8_usize.saturating_sub(bytes)..) };
        part.unwrap_or_default().to_vec()
    };
    // A header of the kind with long offsets takes 16 bytes, so everything moves by as many.
    let mut whole = if is_little { b"II".to_vec() } else { b"MM".to_vec() };
    for (value, bytes) in [(43, 2), (8, 2), (0, 2)] {
        whole.extend(bytes_of(value, bytes));
    }
    let moved = u64::try_from(whole.len()).unwrap_or(0).saturating_add(8);
    let first_at = whole.len();
    whole.extend([0; 8]);
    whole.extend_from_slice(file);
    let strips = (Tag::StripOffsets, Tag::StripByteCounts);
    let tiles = (Tag::TileOffsets, Tag::TileByteCounts);
    let (offsets, lengths) = match decoder.get_chunk_type() {
        ChunkType::Strip => strips,
        ChunkType::Tile => tiles,
    };
    let mut pointer_at = first_at;
    for plane in 0..wanted {
        let mut entries: Vec<(u16, Vec<u64>)> = Vec::new();
        for tag in [
            Tag::ImageWidth,
            Tag::ImageLength,
            Tag::BitsPerSample,
            Tag::Compression,
            Tag::RowsPerStrip,
            Tag::Predictor,
            Tag::TileWidth,
            Tag::TileLength,
            Tag::SampleFormat,
        ] {
            let values = decoder.find_tag_unsigned_vec::<u64>(tag).map_err(fail)?;
            if let Some(first) = values.and_then(|values| values.first().copied()) {
                entries.push((tag.to_u16(), vec![first]));
            }
        }
        entries.push((Tag::PhotometricInterpretation.to_u16(), vec![BLACK_IS_ZERO.into()]));
        entries.push((Tag::SamplesPerPixel.to_u16(), vec![1]));
        for (tag, moved) in [(offsets, moved), (lengths, 0)] {
            let values = decoder.get_tag_u64_vec(tag).map_err(fail)?;
            let each = values.len().checked_div(count).unwrap_or(0).max(1);
            let part = values.chunks(each).nth(plane).unwrap_or_default();
            let part = part.iter().map(|value| value.saturating_add(moved)).collect();
            entries.push((tag.to_u16(), part));
        }
        entries.sort();
        // Values that do not fit into their entry stand in front of the directory.
        let mut places = Vec::new();
        for (_, values) in &entries {
            places.push(u64::try_from(whole.len()).unwrap_or(u64::MAX));
            if values.len() > 1 {
                whole.extend(values.iter().flat_map(|value| bytes_of(*value, 8)));
            }
        }
        let start = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        if let Some(pointer) = whole.get_mut(pointer_at..pointer_at.saturating_add(8)) {
            pointer.copy_from_slice(&bytes_of(start, 8));
        }
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        whole.extend(bytes_of(number(entries.len()), 8));
        for ((tag, values), place) in entries.iter().zip(places) {
            whole.extend(bytes_of((*tag).into(), 2));
            whole.extend(bytes_of(LONG8, 2));
            whole.extend(bytes_of(number(values.len()), 8));
            let value = if values.len() > 1 { place } else { values.first().copied().unwrap_or(0) };
            whole.extend(bytes_of(value, 8));
        }
        pointer_at = whole.len();
        whole.extend([0; 8]);
    }
    Ok(whole)
}
