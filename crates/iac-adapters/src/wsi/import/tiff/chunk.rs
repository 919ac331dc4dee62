//! From the bytes of a tile or strip to its pixels.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use iac_codec::jpeg::{EncodedColorSpace, JpegOptions};
use iac_codec::{
    Codec, CodecError, CodecSpec, DecodeOptions, Image, Limits, Parameters, Registry, SampleType,
    SamplesRef, Scale,
};

use super::file::TiffFile;
use super::page::Page;
use super::tags::{APERIO_YCBCR, Compression, Photometric};
use crate::error::{AdapterError, Result};
use crate::wsi::tile::{own_colors, rgb_of_ycbcr};

/// Bytes that a chunk may have before it is decoded.
const MAX_STORED: u64 = 1 << 30;

/// Decodes the chunks of one page.
pub(crate) struct ChunkDecoder {
    codec: Option<Result<Codec, CodecError>>,
    limits: Limits,
}

/// The pixels of a chunk: rows of RGB.
pub(crate) struct Chunk {
    pub(crate) width: u64,
    pub(crate) rows: u64,
    pub(crate) pixels: Vec<u8>,
}

impl ChunkDecoder {
    pub(crate) fn new(page: &Page, limits: Limits) -> Self {
        let named =
            |name: &str| Registry::global().create(&CodecSpec::new(name, Parameters::new()));
        let codec = match page.layout.compression {
            Compression::Jpeg => Some(jpeg_codec(page)),
            Compression::Jpeg2000 => Some(named("jpeg2000")),
            Compression::Jxl => Some(named("jxl")),
            Compression::Zstd => Some(named("zstd")),
            _ => None,
        };
        Self { codec, limits }
    }

    /// The codec of tiles that are streams of their own.
    pub(crate) fn codec(&self) -> Result<Option<&Codec>, CodecError> {
        self.codec.as_ref().map(|codec| codec.as_ref().map_err(Clone::clone)).transpose()
    }

    /// Decodes a JPEG tile at 1/8 of its size; nothing where that is not possible.
    pub(crate) fn eighth(
        &self,
        page: &Page,
        payload: &[u8],
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let Some(codec) = self.codec()? else { return Ok(None) };
        let layout = &page.layout;
        let can = layout.compression == Compression::Jpeg
            && codec.image_capabilities()?.scales.contains(&Scale::Eighth);
        if !can {
            return Ok(None);
        }
        let options = DecodeOptions::from(self.limits).with_scale(Scale::Eighth);
        let image = codec.decode_image(payload, &options)?;
        let shape = image.shape();
        let fits = u64::from(shape.width()).saturating_mul(8) == layout.chunk.0
            && u64::from(shape.height()).saturating_mul(8) == layout.chunk.1;
        if fits { to_rgb(&image, layout.photometric).map(Some) } else { Ok(None) }
    }

    /// Decodes a chunk; nothing where the file has none.
    pub(crate) fn decode(
        &self,
        file: &TiffFile,
        page: &Page,
        x: u64,
        y: u64,
    ) -> Result<Option<Chunk>> {
        let layout = &page.layout;
        let (width, full) = layout.chunk;
        // The last strip may be shorter; tiles never are.
        let rows = if layout.tiled {
            full
        } else {
            full.min(page.height.saturating_sub(y.saturating_mul(full)))
        };
        let what = place(page, x, y);
        let samples = width.saturating_mul(rows).saturating_mul(u64::from(layout.samples).max(3));
        self.limits.check_samples(samples).map_err(|source| failed(file.path(), &what, source))?;
        let mut planes = Vec::new();
        for plane in 0..layout.planes() {
            let Some(bytes) = layout.bytes(file, &what, (x, y, plane), MAX_STORED)? else {
                // All planes of a place are there, or none.
                if (0..layout.planes()).all(|plane| layout.span(x, y, plane).is_none()) {
                    return Ok(None);
                }
                return Err(file.decode(format!("{what} lacks its plane {plane}")));
            };
            planes.push(bytes);
        }
        let pixels = if let Some(decoded) = self.image(page, &planes, (width, rows)) {
            decoded.map_err(|source| failed(file.path(), &what, source))?
        } else {
            self.raw(page, planes, (width, rows))
                .map_err(|reason| file.decode(format!("{what}: {reason}")))?
        };
        Ok(Some(Chunk { width, rows, pixels }))
    }

    /// Decodes chunks that are images of their own.
    fn image(
        &self,
        page: &Page,
        planes: &[Vec<u8>],
        size: (u64, u64),
    ) -> Option<Result<Vec<u8>, CodecError>> {
        let layout = &page.layout;
        let payload = planes.first()?;
        let decoded = match layout.compression {
            Compression::Jpeg => {
                let is_rgb = layout.photometric == Photometric::Rgb;
                self.decode_image(&own_colors(payload, is_rgb), size)
            }
            Compression::Jpeg2000 | Compression::Jxl => self.decode_image(payload, size),
            Compression::WebP => return Some(webp(payload, size)),
            _ => return None,
        };
        Some(decoded.and_then(|image| {
            let mut pixels = to_rgb(&image, layout.photometric)?;
            let converts = layout.compression_number == APERIO_YCBCR;
            if converts {
                for pixel in pixels.as_chunks_mut::<3>().0 {
                    *pixel = rgb_of_ycbcr(*pixel);
                }
            }
            Ok(pixels)
        }))
    }

    fn decode_image(&self, payload: &[u8], (width, rows): (u64, u64)) -> Result<Image, CodecError> {
        let codec = match &self.codec {
            Some(codec) => codec.as_ref().map_err(Clone::clone)?,
            None => return Err(CodecError::decode("image", "no codec was made for the page")),
        };
        let image = codec.decode_image(payload, &DecodeOptions::from(self.limits))?;
        let shape = image.shape();
        let fits = u64::from(shape.width()) == width
            && u64::from(shape.height()) == rows
            && image.sample_type() == SampleType::U8;
        if !fits {
            return Err(CodecError::decode(
                codec.name(),
                format!(
                    "the image is {shape} of type {} instead of {rows} x {width} of type uint8",
                    image.sample_type()
                ),
            ));
        }
        Ok(image)
    }

    /// Decodes chunks of bare samples.
    fn raw(
        &self,
        page: &Page,
        planes: Vec<Vec<u8>>,
        (width, rows): (u64, u64),
    ) -> Result<Vec<u8>, String> {
        let layout = &page.layout;
        let channels = if layout.planar { 1 } else { usize::from(layout.samples) };
        let too_large = || "is larger than the memory".to_owned();
        let line = usize::try_from(width)
            .ok()
            .and_then(|width| width.checked_mul(channels))
            .filter(|line| *line > 0)
            .ok_or_else(too_large)?;
        let length = usize::try_from(rows)
            .ok()
            .and_then(|rows| rows.checked_mul(line))
            .ok_or_else(too_large)?;
        let mut decoded = Vec::new();
        for plane in planes {
            let mut bytes = self.decompress(layout.compression, plane, length)?;
            if bytes.len() < length {
                return Err(format!("has {} bytes of samples instead of {length}", bytes.len()));
            }
            bytes.truncate(length);
            if layout.predictor {
                for row in bytes.chunks_exact_mut(line) {
                    undo_differences(row, channels);
                }
            }
            decoded.push(bytes);
        }
        let samples =
            if layout.planar { interleaved(&decoded) } else { decoded.pop().unwrap_or_default() };
        Ok(colors(page, &samples))
    }

    fn decompress(
        &self,
        compression: Compression,
        bytes: Vec<u8>,
        length: usize,
    ) -> Result<Vec<u8>, String> {
        match compression {
            Compression::None => Ok(bytes),
            Compression::PackBits => Ok(unpacked(&bytes, length)),
            Compression::Lzw => lzw(&bytes, length),
            Compression::Deflate => {
                let mut out = Vec::new();
                let most = u64::try_from(length).unwrap_or(u64::MAX);
                flate2::read::ZlibDecoder::new(bytes.as_slice())
                    .take(most)
                    .read_to_end(&mut out)
                    .map_err(|error| error.to_string())?;
                Ok(out)
            }
            Compression::Zstd => {
                let codec = self.codec().map_err(|error| error.to_string())?;
                let codec = codec.ok_or("no codec was made for the page")?;
                let most = u64::try_from(length).unwrap_or(u64::MAX);
                let limits = self.limits.with_max_decoded_bytes(most);
                codec.decode_bytes(&bytes, &limits).map_err(|error| error.to_string())
            }
            _ => Err("is of a compression that has no bare samples".to_owned()),
        }
    }
}

/// The codec of a page's JPEG chunks.
fn jpeg_codec(page: &Page) -> Result<Codec, CodecError> {
    let is_rgb = page.layout.photometric == Photometric::Rgb;
    let space = if is_rgb { EncodedColorSpace::Rgb } else { EncodedColorSpace::YCbCr };
    // JFIF markers would beat the declared colours.
    let tables = page.layout.tables.as_ref().map(|tables| own_colors(tables, is_rgb).into_owned());
    JpegOptions::default().with_tables(tables).with_encoded_color_space(space).codec()
}

/// How messages call a chunk.
pub(crate) fn place(page: &Page, x: u64, y: u64) -> String {
    if page.layout.tiled {
        format!("page {}: the tile at ({x}, {y})", page.number)
    } else {
        format!("page {}: the strip {y}", page.number)
    }
}

pub(crate) fn failed(path: &Path, what: &str, source: CodecError) -> AdapterError {
    let kind = iac_format::ErrorKind::from_name(source.kind().as_str())
        .unwrap_or(iac_format::ErrorKind::Decode);
    AdapterError::Source {
        path: path.to_owned(),
        row: None,
        kind,
        reason: format!("{what}: {source}"),
    }
}

/// A decoded image as RGB: grey is repeated, transparency put on white.
fn to_rgb(image: &Image, photometric: Photometric) -> Result<Vec<u8>, CodecError> {
    let SamplesRef::U8(samples) = image.samples() else {
        return Err(CodecError::decode("image", "the samples are no bytes"));
    };
    let inverted = photometric == Photometric::WhiteIsZero;
    match image.shape().channels() {
        1 => Ok(samples
            .iter()
            .flat_map(|grey| [if inverted { 255_u8.saturating_sub(*grey) } else { *grey }; 3])
            .collect()),
        3 => Ok(samples.to_vec()),
        4 => Ok(samples
            .as_chunks::<4>()
            .0
            .iter()
            .flat_map(|[red, green, blue, alpha]| {
                [*red, *green, *blue].map(|value| on_white(value, *alpha))
            })
            .collect()),
        other => Err(CodecError::decode("image", format!("the image has {other} channels"))),
    }
}

fn webp(payload: &[u8], (width, rows): (u64, u64)) -> Result<Vec<u8>, CodecError> {
    let fail = |reason: String| CodecError::decode("webp", reason);
    let mut decoder = image_webp::WebPDecoder::new(std::io::Cursor::new(payload))
        .map_err(|error| fail(error.to_string()))?;
    let (found_width, found_rows) = decoder.dimensions();
    if (u64::from(found_width), u64::from(found_rows)) != (width, rows) {
        return Err(fail(format!(
            "the image is {found_rows} x {found_width} instead of {rows} x {width}"
        )));
    }
    let size = decoder.output_buffer_size().ok_or_else(|| fail("is too large".to_owned()))?;
    let mut pixels = vec![0; size];
    decoder.read_image(&mut pixels).map_err(|error| fail(error.to_string()))?;
    if !decoder.has_alpha() {
        return Ok(pixels);
    }
    let colors = pixels.as_chunks::<4>().0.iter();
    Ok(colors
        .flat_map(|[red, green, blue, alpha]| [*red, *green, *blue].map(|it| on_white(it, *alpha)))
        .collect())
}

/// Bare samples as RGB.
fn colors(page: &Page, samples: &[u8]) -> Vec<u8> {
    let layout = &page.layout;
    let channels = usize::from(layout.samples).max(1);
    let capacity = samples.len().checked_div(channels).unwrap_or(0).saturating_mul(3);
    let mut out = Vec::with_capacity(capacity);
    for pixel in samples.chunks_exact(channels) {
        let color = match (layout.photometric, pixel) {
            (Photometric::Palette, [index, ..]) => {
                let palette = layout.palette.as_deref().unwrap_or_default();
                palette.get(usize::from(*index)).copied().unwrap_or_default()
            }
            (Photometric::WhiteIsZero, [grey, ..]) => [255_u8.saturating_sub(*grey); 3],
            (_, [red, green, blue, ..]) => [*red, *green, *blue],
            (_, [grey, ..]) => [*grey; 3],
            _ => [0; 3],
        };
        match pixel.last() {
            Some(alpha) if layout.has_alpha => out.extend(color.map(|it| on_white(it, *alpha))),
            _ => out.extend(color),
        }
    }
    out
}

/// A colour value over white.
fn on_white(value: u8, alpha: u8) -> u8 {
    let (value, alpha) = (u32::from(value), u32::from(alpha));
    let over = 255_u32.saturating_mul(255_u32.saturating_sub(alpha));
    let sum = value.saturating_mul(alpha).saturating_add(over).saturating_add(127);
    u8::try_from(sum / 255).unwrap_or(u8::MAX)
}

fn interleaved(planes: &[Vec<u8>]) -> Vec<u8> {
    let length = planes.first().map_or(0, Vec::len);
    let mut out = Vec::with_capacity(length.saturating_mul(planes.len()));
    for at in 0..length {
        out.extend(planes.iter().map(|plane| plane.get(at).copied().unwrap_or(0)));
    }
    out
}

/// Each sample of a row is the difference from the one of the pixel before.
fn undo_differences(row: &mut [u8], channels: usize) {
    for channel in 0..channels {
        let mut sum = 0_u8;
        for sample in row.iter_mut().skip(channel).step_by(channels.max(1)) {
            sum = sum.wrapping_add(*sample);
            *sample = sum;
        }
    }
}

/// Runs of bytes (TIFF 6.0, section 9), up to a length.
fn unpacked(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let [head, after @ ..] = rest {
        if out.len() >= length {
            break;
        }
        let head = head.cast_signed();
        let count = usize::from(head.unsigned_abs()).saturating_add(1);
        if head >= 0 {
            let (run, behind) = after.split_at(count.min(after.len()));
            out.extend_from_slice(run);
            rest = behind;
        } else if head == i8::MIN {
            rest = after;
        } else if let [value, behind @ ..] = after {
            out.resize(out.len().saturating_add(count), *value);
            rest = behind;
        } else {
            break;
        }
    }
    out
}

fn lzw(bytes: &[u8], length: usize) -> Result<Vec<u8>, String> {
    let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
    let mut out = vec![0; length];
    let (mut input, mut at) = (bytes, 0_usize);
    while let Some(target) = out.get_mut(at..).filter(|target| !target.is_empty()) {
        let result = decoder.decode_bytes(input, target);
        input = input.get(result.consumed_in..).unwrap_or_default();
        at = at.saturating_add(result.consumed_out);
        match result.status {
            Ok(weezl::LzwStatus::Ok) => {}
            Ok(weezl::LzwStatus::Done | weezl::LzwStatus::NoProgress) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    out.truncate(at);
    Ok(out)
}

/// JPEG bytes of a chunk as they are passed on.
pub(crate) fn passed_on(page: &Page, payload: Vec<u8>) -> Vec<u8> {
    if page.layout.compression != Compression::Jpeg {
        return payload;
    }
    match own_colors(&payload, page.layout.photometric == Photometric::Rgb) {
        Cow::Owned(cleaned) => cleaned,
        Cow::Borrowed(_) => payload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_unpacked_and_cut_runs_end() {
        assert_eq!(unpacked(&[2, 7, 8, 9, 0xFE, 5, 0x80, 0, 1], 100), [7, 8, 9, 5, 5, 5, 1]);
        assert_eq!(unpacked(&[5, 1, 2], 100), [1, 2]);
        assert_eq!(unpacked(&[0x81], 100), [0; 0]);
        assert_eq!(unpacked(&[0x81, 3].repeat(1000), 10).len(), 128);
    }

    #[test]
    fn differences_are_summed_for_each_channel() {
        let mut row = [1, 2, 3, 1, 1, 255];
        undo_differences(&mut row, 3);
        assert_eq!(row, [1, 2, 3, 2, 3, 2]);
    }

    #[test]
    fn damaged_lzw_gives_an_error_or_too_few_bytes() {
        for cut in [&b""[..], &[0x80], &[0xFF; 40], &[0x80, 0x0B, 0x60]] {
            assert!(lzw(cut, 100).is_ok_and(|bytes| bytes.len() < 100) || lzw(cut, 100).is_err());
        }
    }
}
