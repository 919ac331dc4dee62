//! The size of JPEG files, and what their channels are; their pixels are the codec's business.

use std::io::{BufRead, Seek};

use super::{Channels, Raster, Samples};

/// What the frame header says: width, height, whether samples have more than 8 bits, and channels.
pub(super) fn probe(mut source: impl BufRead + Seek) -> Result<(u32, u32, bool, u8), String> {
    let mut read = |bytes: &mut [u8]| {
        source.read_exact(bytes).map_err(|_| "is cut inside its header".to_owned())
    };
    let mut start = [0; 2];
    read(&mut start)?;
    loop {
        let mut byte = [0; 1];
        read(&mut byte)?;
        if byte != [0xff] {
            return Err("has something else where a marker is expected".to_owned());
        }
        // Any number of 0xff may stand before a marker.
        while byte == [0xff] {
            read(&mut byte)?;
        }
        let [marker] = byte;
        if matches!(marker, 0x01 | 0xd0..=0xd8) {
            continue;
        }
        if matches!(marker, 0xd9 | 0xda) {
            return Err("has no frame before its first scan".to_owned());
        }
        let mut length = [0; 2];
        read(&mut length)?;
        let length = u16::from_be_bytes(length).checked_sub(2);
        let length = length.ok_or("has a segment without its length")?;
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        let mut segment = vec![0; usize::from(length)];
        read(&mut segment)?;
        if is_frame {
            let [precision, h0, h1, w0, w1, channels, ..] = *segment else {
                return Err("has a frame header that is too short".to_owned());
            };
            let height = u16::from_be_bytes([h0, h1]);
            let width = u16::from_be_bytes([w0, w1]);
            return Ok((width.into(), height.into(), precision > 8, channels));
        }
    }
}

/// Says what the channels of a decoded file are: four are CMYK, which is stored inverted.
pub(super) fn interpreted(raster: Raster) -> Result<Raster, String> {
    match (raster.channels, raster.samples) {
        (Channels::GrayAlpha, _) => {
            Err("has two channels, and nothing says what they are".to_owned())
        }
        (Channels::RgbAlpha, Samples::U8(mut samples)) => {
            for sample in &mut samples {
                *sample = 255_u8.saturating_sub(*sample);
            }
            Ok(Raster { channels: Channels::Cmyk, samples: Samples::U8(samples), ..raster })
        }
        (Channels::RgbAlpha, _) => {
            Err("is CMYK of more than 8 bits, which is not supported".to_owned())
        }
        (channels, samples) => Ok(Raster { channels, samples, ..raster }),
    }
}
