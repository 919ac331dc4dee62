//! Strips of JPEG as one JPEG stream: each strip begins anew, which is what a restart interval does.

use std::borrow::Cow;

use iac_codec::jpeg::complete_stream;

use super::chunk::place;
use super::file::TiffFile;
use super::page::Page;
use super::tags::{Compression, Photometric};
use crate::error::Result;
use crate::wsi::codec_params::TileColors;
use crate::wsi::tile::{jpeg_parameters, own_colors};

const START_OF_SCAN: u8 = 0xDA;
const RESTART_INTERVAL: u8 = 0xDD;

/// The parts of a stream of one scan.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    /// Tables, as they stand in the stream.
    tables: Vec<u8>,
    frame: &'a [u8],
    scan: &'a [u8],
    data: &'a [u8],
}

/// A page's strips as one stream, without the tables that they share; nothing where they cannot be put
/// together without being decoded.
pub(super) fn joined(file: &TiffFile, page: &Page) -> Result<Option<Vec<u8>>> {
    let layout = &page.layout;
    let is_rgb = layout.photometric == Photometric::Rgb;
    let fits = layout.compression == Compression::Jpeg
        && !layout.tiled
        && page.orientation == 1
        && matches!(layout.samples, 1 | 3);
    if !fits {
        return Ok(None);
    }
    let mut strips = Vec::new();
    for y in 0..layout.grid.1 {
        let Some((at, count)) = layout.span(0, y, 0) else { return Ok(None) };
        let bytes = file.bytes(at, count, &place(page, 0, y))?;
        strips.push(own_colors(&bytes, is_rgb).into_owned());
    }
    Ok(assembled(page, &strips))
}

fn assembled(page: &Page, strips: &[Vec<u8>]) -> Option<Vec<u8>> {
    let rows = page.layout.chunk.1;
    let first = Parts::of(strips.first()?)?;
    let block = first.block()?;
    let per_row = page.width.div_ceil(block.0);
    let interval = per_row.checked_mul(rows.checked_div(block.1)?)?;
    let interval = u16::try_from(interval).ok()?;
    if strips.len() > 1 && !rows.is_multiple_of(block.1) {
        return None;
    }
    let height = u16::try_from(page.height).ok()?;
    let mut out = vec![0xFF, 0xD8];
    out.extend_from_slice(&first.tables);
    let mut frame = first.frame.to_vec();
    frame.get_mut(5..7)?.copy_from_slice(&height.to_be_bytes());
    out.extend_from_slice(&frame);
    if strips.len() > 1 {
        out.extend_from_slice(&[0xFF, RESTART_INTERVAL, 0, 4]);
        out.extend_from_slice(&interval.to_be_bytes());
    }
    out.extend_from_slice(first.scan);
    for (number, strip) in (0_u64..).zip(strips) {
        let parts = Parts::of(strip)?;
        let left = page.height.checked_sub(number.checked_mul(rows)?)?;
        let same = parts.tables == first.tables
            && parts.scan == first.scan
            && parts.frame.get(..5) == first.frame.get(..5)
            && parts.frame.get(7..) == first.frame.get(7..)
            && parts.size()? == (page.width, left.min(rows));
        if !same {
            return None;
        }
        if let Some(before) = number.checked_sub(1) {
            out.extend_from_slice(&[0xFF, 0xD0 | u8::try_from(before % 8).ok()?]);
        }
        out.extend_from_slice(parts.data);
    }
    out.extend_from_slice(&[0xFF, 0xD9]);
    Some(out)
}

/// A joined stream of a page as a file of its own.
pub(super) fn complete(page: &Page, stream: &[u8]) -> Option<Vec<u8>> {
    let is_rgb = page.layout.photometric == Photometric::Rgb;
    let colors = if is_rgb { TileColors::Rgb } else { TileColors::YCbCr };
    let tables = page.layout.tables.as_ref().map(|tables| own_colors(tables, is_rgb));
    let parameters = jpeg_parameters(colors.name(), tables.as_deref());
    complete_stream(&parameters, stream).ok().map(Cow::into_owned)
}

impl<'a> Parts<'a> {
    fn of(stream: &'a [u8]) -> Option<Self> {
        let mut rest = stream.strip_prefix(&[0xFF, 0xD8])?;
        let mut tables = Vec::new();
        let mut frame = None;
        loop {
            let [0xFF, marker, high, low, ..] = *rest else { return None };
            if marker == 0xFF {
                rest = rest.get(1..)?;
                continue;
            }
            let length = usize::from(u16::from_be_bytes([high, low])).checked_add(2)?;
            let (segment, after) = rest.split_at_checked(length)?;
            match marker {
                START_OF_SCAN => {
                    let data = after.strip_suffix(&[0xFF, 0xD9])?;
                    // Markers inside would be restarts, or further scans.
                    let is_one =
                        data.windows(2).all(|two| !matches!(two, [0xFF, second] if *second != 0));
                    return is_one.then_some(Self { tables, frame: frame?, scan: segment, data });
                }
                // Baseline and extended sequential frames.
                0xC0 | 0xC1 if frame.is_none() => frame = Some(segment),
                0xC4 | 0xDB => tables.extend_from_slice(segment),
                0xE0..=0xEF | 0xFE => {}
                _ => return None,
            }
            rest = after;
        }
    }

    /// Width and height.
    fn size(&self) -> Option<(u64, u64)> {
        let [high, low, wide, narrow] = *self.frame.get(5..9)?.first_chunk::<4>()?;
        let side = |a, b| u64::from(u16::from_be_bytes([a, b]));
        Some((side(wide, narrow), side(high, low)))
    }

    /// Pixels that the smallest coded unit covers.
    fn block(&self) -> Option<(u64, u64)> {
        let count = usize::from(*self.frame.get(9)?);
        // One component alone is not interleaved with others.
        if count == 1 {
            return Some((8, 8));
        }
        let factors = self.frame.get(10..)?.chunks_exact(3).take(count);
        let factors =
            factors.map(|it| it.get(1).copied().unwrap_or(0)).map(|it| (it >> 4, it & 15));
        let most = factors.fold((0, 0), |most: (u8, u8), it| (most.0.max(it.0), most.1.max(it.1)));
        let side = |factor: u8| u64::from(factor).checked_mul(8).filter(|side| *side > 0);
        Some((side(most.0)?, side(most.1)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_taken_apart_and_odd_ones_left_alone() {
        let stream =
            b"\xFF\xD8\xFF\xE0\x00\x03x\xFF\xDB\x00\x03q\xFF\xC0\x00\x11\x08\x00\x10\x00\x20\
            \x03\x01\x22\x00\x02\x11\x01\x03\x11\x01\xFF\xDA\x00\x03s\x01\xFF\x00\x02\xFF\xD9";
        let parts = Parts::of(stream).unwrap();
        assert_eq!(parts.tables, b"\xFF\xDB\x00\x03q");
        assert_eq!(parts.data, b"\x01\xFF\x00\x02");
        assert_eq!((parts.size(), parts.block()), (Some((32, 16)), Some((16, 16))));
        for cut in 0..stream.len() {
            assert_eq!(Parts::of(&stream[..cut]), None);
        }
        let mut restarts = stream.to_vec();
        let at = restarts.len() - 4;
        restarts[at] = 0xD0;
        assert_eq!(Parts::of(&restarts), None);
    }
}
