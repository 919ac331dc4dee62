//! WebP files.

use std::io::{BufRead, Seek};

use iac_codec::Limits;
use image_webp::WebPDecoder;

use super::{Channels, Raster, Samples, check_size};

pub(super) fn probe(source: impl BufRead + Seek) -> Result<(u32, u32, bool), String> {
    let decoder = WebPDecoder::new(source).map_err(|error| error.to_string())?;
    let (width, height) = decoder.dimensions();
    Ok((width, height, false))
}

pub(super) fn load(source: impl BufRead + Seek, limits: &Limits) -> Result<Raster, String> {
    let fail = |error: image_webp::DecodingError| error.to_string();
    let mut decoder = WebPDecoder::new(source).map_err(fail)?;
    decoder.set_memory_limit(usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX));
    let (width, height) = decoder.dimensions();
    let channels = if decoder.has_alpha() { Channels::RgbAlpha } else { Channels::Rgb };
    let count = u32::try_from(channels.count()).unwrap_or(4);
    let size = check_size(width, height, count, limits)?;
    if decoder.output_buffer_size() != Some(size) {
        return Err("says different things of its size".to_owned());
    }
    let mut buffer = vec![0; size];
    if decoder.is_animated() {
        decoder.read_frame(&mut buffer).map_err(fail)?;
    } else {
        decoder.read_image(&mut buffer).map_err(fail)?;
    }
    let exif = decoder.exif_metadata().ok().flatten();
    let orientation = exif.map_or(1, |exif| super::orient::of_exif(&exif));
    Ok(Raster { width, height, channels, samples: Samples::U8(buffer), orientation })
}
