//! PNG files.

use std::io::{BufRead, Seek};

use iac_codec::Limits;
use png::{BitDepth, ColorType, Decoder, Transformations};

use super::{Channels, Raster, Samples, check_size};

pub(super) fn probe(source: impl BufRead + Seek) -> Result<(u32, u32, bool), String> {
    let mut decoder = Decoder::new(source);
    let info = decoder.read_header_info().map_err(|error| error.to_string())?;
    Ok((info.width, info.height, info.bit_depth == BitDepth::Sixteen))
}

pub(super) fn load(source: impl BufRead + Seek, limits: &Limits) -> Result<Raster, String> {
    let fail = |error: png::DecodingError| error.to_string();
    let bytes = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX);
    let mut decoder = Decoder::new_with_limits(source, png::Limits { bytes });
    // Palettes become colours, and samples of less than 8 bits are stretched to them.
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(fail)?;
    let (width, height) = (reader.info().width, reader.info().height);
    check_size(width, height, 4, limits)?;
    let size = reader.output_buffer_size().ok_or("is larger than the memory")?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(size).map_err(|_| "is larger than the memory")?;
    buffer.resize(size, 0);
    let frame = reader.next_frame(&mut buffer).map_err(fail)?;
    if (frame.width, frame.height) != (width, height) {
        return Err("its first frame has another size than the image".to_owned());
    }
    buffer.truncate(frame.buffer_size());
    let orientation =
        reader.info().exif_metadata.as_ref().map_or(1, |exif| super::orient::of_exif(exif));
    let channels = match frame.color_type {
        ColorType::Grayscale => Channels::Gray,
        ColorType::GrayscaleAlpha => Channels::GrayAlpha,
        ColorType::Rgb => Channels::Rgb,
        ColorType::Rgba => Channels::RgbAlpha,
        ColorType::Indexed => return Err("its palette cannot be applied".to_owned()),
    };
    let samples = match frame.bit_depth {
        BitDepth::Eight => Samples::U8(buffer),
        BitDepth::Sixteen => {
            let (pairs, _) = buffer.as_chunks::<2>();
            Samples::U16(pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect())
        }
        other => return Err(format!("its samples have a depth of {other:?}")),
    };
    Ok(Raster { width, height, channels, samples, orientation })
}
