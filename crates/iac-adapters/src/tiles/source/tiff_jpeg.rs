//! JPEG streams inside of TIFF files, which leave their tables to the file.

use std::io::{Read, Seek};

use iac_codec::{Codec, ColorHandling, DecodeOptions, Image, Limits, SamplesRef};
use tiff::decoder::{ChunkType, Decoder};
use tiff::tags::Tag;

use super::tiff::{BLACK_IS_ZERO, fail};
use super::{Channels, Samples, check_size};

const WHITE_IS_ZERO: u16 = 0;
const RGB: u16 = 2;
const CMYK: u16 = 5;
const YCBCR: u16 = 6;

/// Decodes every stream and puts the pixels together.
pub(super) fn load(
    decoder: &mut Decoder<impl Read + Seek>,
    file: &[u8],
    colors: u16,
    limits: &Limits,
    codec: &Codec,
) -> Result<(Channels, Samples), String> {
    let (channels, handling) = match colors {
        WHITE_IS_ZERO | BLACK_IS_ZERO => (Channels::Gray, ColorHandling::Stored),
        RGB => (Channels::Rgb, ColorHandling::Stored),
        YCBCR => (Channels::Rgb, ColorHandling::Interpreted),
        CMYK => (Channels::Cmyk, ColorHandling::Stored),
        other => {
            return Err(format!("has JPEG streams of colours {other}, which is not supported"));
        }
    };
    let planes = decoder.find_tag_unsigned::<u16>(Tag::PlanarConfiguration).map_err(fail)?;
    if planes == Some(2) && channels.count() > 1 {
        return Err("has a JPEG stream for each channel, which is not supported".to_owned());
    }
    let tables = decoder.find_tag(Tag::JPEGTables).map_err(fail)?;
    let tables = tables.map(|tables| tables.into_u8_vec().map_err(fail)).transpose()?;
    let (offsets, lengths) = match decoder.get_chunk_type() {
        ChunkType::Strip => (Tag::StripOffsets, Tag::StripByteCounts),
        ChunkType::Tile => (Tag::TileOffsets, Tag::TileByteCounts),
    };
    let offsets = decoder.get_tag_u64_vec(offsets).map_err(fail)?;
    let lengths = decoder.get_tag_u64_vec(lengths).map_err(fail)?;
    let (width, height) = decoder.dimensions().map_err(fail)?;
    let (chunk_width, chunk_height) = decoder.chunk_dimensions();
    let across = width.div_ceil(chunk_width.max(1));
    let down = height.div_ceil(chunk_height.max(1));
    if u64::try_from(offsets.len()).ok() != Some(u64::from(across).saturating_mul(u64::from(down)))
    {
        return Err(format!("has {} streams instead of {across} x {down}", offsets.len()));
    }
    let count = u32::try_from(channels.count()).unwrap_or(4);
    let mut canvas = Canvas {
        samples: vec![0; check_size(width, height, count, limits)?],
        width: size(width)?,
        channels: channels.count(),
    };
    let options = DecodeOptions::from(*limits).with_color(handling);
    for (number, (offset, length)) in (0_u32..).zip(offsets.iter().zip(&lengths)) {
        let column = number.checked_rem(across).unwrap_or(0);
        let row = number.checked_div(across).unwrap_or(0);
        let (left, top) = (column.saturating_mul(chunk_width), row.saturating_mul(chunk_height));
        let stream = stream_at(file, *offset, *length, tables.as_deref())
            .ok_or_else(|| format!("is cut inside of stream {number}"))?;
        // Streams that claim more than their part of the image would cost any time.
        let shape =
            codec.image_info(&stream).map_err(|error| format!("stream {number}: {error}"))?.shape;
        if shape.width() > chunk_width || shape.height() > chunk_height {
            return Err(format!(
                "stream {number} is {} x {}, but parts are {chunk_width} x {chunk_height}",
                shape.width(),
                shape.height()
            ));
        }
        let image = codec
            .decode_image(&stream, &options)
            .map_err(|error| format!("stream {number}: {error}"))?;
        let wanted = [
            width.saturating_sub(left).min(chunk_width),
            height.saturating_sub(top).min(chunk_height),
        ];
        canvas.paste(&image, [size(left)?, size(top)?], wanted).ok_or_else(|| {
            format!("stream {number} is {} instead of what it is part of", image.shape())
        })?;
    }
    if colors == WHITE_IS_ZERO {
        for sample in &mut canvas.samples {
            *sample = 255_u8.saturating_sub(*sample);
        }
    }
    Ok((channels, Samples::U8(canvas.samples)))
}

fn size(value: u32) -> Result<usize, String> {
    usize::try_from(value).map_err(|_| "is larger than the memory".to_owned())
}

/// A whole stream: the tables without their end, then what stands in the file without its start.
fn stream_at(file: &[u8], offset: u64, length: u64, tables: Option<&[u8]>) -> Option<Vec<u8>> {
    let start = usize::try_from(offset).ok()?;
    let stored = file.get(start..start.checked_add(usize::try_from(length).ok()?)?)?;
    let Some(tables) = tables else { return Some(stored.to_vec()) };
    let mut stream = tables.strip_suffix(b"\xff\xd9").unwrap_or(tables).to_vec();
    stream.extend_from_slice(stored.strip_prefix(b"\xff\xd8")?);
    Some(stream)
}

struct Canvas {
    samples: Vec<u8>,
    width: usize,
    channels: usize,
}

impl Canvas {
    /// Copies the wanted part of an image, which begins at its corner.
    fn paste(&mut self, image: &Image, [left, top]: [usize; 2], wanted: [u32; 2]) -> Option<()> {
        let SamplesRef::U8(from) = image.samples() else { return None };
        let shape = image.shape();
        let [width, height] = wanted;
        let fits = usize::try_from(shape.channels()).ok()? == self.channels
            && shape.width() >= width
            && shape.height() >= height;
        if !fits {
            return None;
        }
        let from_row = usize::try_from(shape.width()).ok()?.checked_mul(self.channels)?;
        let bytes = usize::try_from(width).ok()?.checked_mul(self.channels)?;
        for row in 0..usize::try_from(height).ok()? {
            let line = from.get(row.checked_mul(from_row)?..)?.get(..bytes)?;
            let start = top.checked_add(row)?.checked_mul(self.width)?.checked_add(left)?;
            let start = start.checked_mul(self.channels)?;
            self.samples.get_mut(start..start.checked_add(bytes)?)?.copy_from_slice(line);
        }
        Some(())
    }
}
