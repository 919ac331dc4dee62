//! BMP files without compression.

use std::io::{Read, Seek};

use iac_codec::Limits;

use super::{Channels, Raster, Samples, check_size};

/// Bytes that hold every header that is understood.
const HEADER_BYTES: usize = 14 + 56;

/// What the header says.
#[derive(Debug)]
struct Header {
    width: u32,
    height: u32,
    bottom_up: bool,
    bits: u16,
    data: usize,
    palette: usize,
    palette_entry: usize,
    colors: usize,
}

pub(super) fn probe(mut source: impl Read + Seek) -> Result<(u32, u32, bool), String> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    let most = u64::try_from(HEADER_BYTES).unwrap_or(u64::MAX);
    source.by_ref().take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let header = Header::parse(&bytes)?;
    Ok((header.width, header.height, false))
}

pub(super) fn load(bytes: &[u8], limits: &Limits) -> Result<Raster, String> {
    let header = Header::parse(bytes)?;
    let samples = check_size(header.width, header.height, 3, limits)?;
    let too_large = || "is larger than the memory".to_owned();
    let width = usize::try_from(header.width).map_err(|_| too_large())?;
    let height = usize::try_from(header.height).map_err(|_| too_large())?;
    // Rows begin at multiples of four bytes.
    let row_bits = width.checked_mul(usize::from(header.bits)).ok_or_else(too_large)?;
    let row_bytes = row_bits.div_ceil(32).checked_mul(4).ok_or_else(too_large)?;
    let data = bytes.get(header.data..).unwrap_or_default();
    if row_bytes.checked_mul(height).is_none_or(|needed| needed > data.len()) {
        return Err("is cut inside its pixels".to_owned());
    }
    let palette = bytes.get(header.palette..header.data).unwrap_or_default();
    let mut pixels = Vec::with_capacity(samples);
    for row in 0..height {
        let row = if header.bottom_up { height.saturating_sub(row).saturating_sub(1) } else { row };
        let start = row.saturating_mul(row_bytes);
        let row = data.get(start..start.saturating_add(row_bytes)).unwrap_or_default();
        match header.bits {
            24 => pixels.extend(
                row.as_chunks()
                    .0
                    .iter()
                    .take(width)
                    .flat_map(|[blue, green, red]| [*red, *green, *blue]),
            ),
            32 => pixels.extend(
                row.as_chunks()
                    .0
                    .iter()
                    .take(width)
                    .flat_map(|[blue, green, red, _]| [*red, *green, *blue]),
            ),
            bits => {
                for place in 0..width {
                    let index = index_at(row, place, bits);
                    let at = index.saturating_mul(header.palette_entry);
                    let entry = palette.get(at..).filter(|_| index < header.colors);
                    let Some([blue, green, red, ..]) = entry else {
                        return Err("has a pixel that is not in its palette".to_owned());
                    };
                    pixels.extend_from_slice(&[*red, *green, *blue]);
                }
            }
        }
    }
    Ok(Raster {
        width: header.width,
        height: header.height,
        channels: Channels::Rgb,
        samples: Samples::U8(pixels),
        orientation: 1,
    })
}

/// Number of a pixel of 1, 4 or 8 bits in the palette.
fn index_at(row: &[u8], place: usize, bits: u16) -> usize {
    let per_byte = usize::from(8_u16.checked_div(bits).unwrap_or(1)).max(1);
    let byte = row.get(place.checked_div(per_byte).unwrap_or(0)).copied().unwrap_or(0);
    let in_byte = place.checked_rem(per_byte).unwrap_or(0);
    let last = per_byte.saturating_sub(1).saturating_sub(in_byte);
    let shift = u32::try_from(last).unwrap_or(0).saturating_mul(u32::from(bits));
    let mask = 0xff_u8.checked_shr(8_u32.saturating_sub(u32::from(bits))).unwrap_or(0xff);
    usize::from(byte.checked_shr(shift).unwrap_or(0) & mask)
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let cut = || "is cut inside its header".to_owned();
        let u16_at = |at: usize| -> Result<u16, String> {
            let bytes = bytes.get(at..at.saturating_add(2)).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u16::from_le_bytes).ok_or_else(cut)
        };
        let u32_at = |at: usize| -> Result<u32, String> {
            let bytes = bytes.get(at..at.saturating_add(4)).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes).ok_or_else(cut)
        };
        let size = |value: u32| usize::try_from(value).map_err(|_| cut());
        let data = size(u32_at(10)?)?;
        let info = size(u32_at(14)?)?;
        let (width, height, bottom_up, bits, compression, colors, palette_entry);
        if info == 12 {
            (width, height) = (u16_at(18)?.into(), u16_at(20)?.into());
            (bottom_up, bits, compression, colors, palette_entry) = (true, u16_at(24)?, 0, 0, 3);
        } else if info >= 40 {
            let signed = |value: u32| i32::from_le_bytes(value.to_le_bytes());
            let (w, h) = (signed(u32_at(18)?), signed(u32_at(22)?));
            width = u32::try_from(w).map_err(|_| format!("has a width of {w}"))?;
            (height, bottom_up) = (h.unsigned_abs(), h > 0);
            (bits, compression) = (u16_at(28)?, u32_at(30)?);
            (colors, palette_entry) = (size(u32_at(46)?)?, 4);
        } else {
            return Err(format!("has a header of {info} bytes, which is not supported"));
        }
        let is_plain = match (compression, bits) {
            (0, 1 | 4 | 8 | 24 | 32) => true,
            // Masks that say what the plain order is.
            (3, 32) => {
                [u32_at(54)?, u32_at(58)?, u32_at(62)?] == [0x00ff_0000, 0x0000_ff00, 0x0000_00ff]
            }
            _ => false,
        };
        if !is_plain {
            return Err(format!(
                "has {bits} bits per pixel and compression {compression}, which is not supported"
            ));
        }
        let full = 1_usize.checked_shl(u32::from(bits.min(8))).unwrap_or(256);
        Ok(Self {
            width,
            height,
            bottom_up,
            bits,
            data,
            palette: info.saturating_add(14),
            palette_entry,
            colors: if colors == 0 { full } else { colors.min(full) },
        })
    }
}
