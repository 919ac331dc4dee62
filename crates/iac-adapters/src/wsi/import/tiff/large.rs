//! Hamamatsu's files of more than 4 GiB, made up in memory.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "numbers of a file that the test makes itself"
)]

use std::path::Path;

use iac_reader::{ByteSource, Memory};

use super::TiffSource;
use crate::wsi::import::source::{Opening, RasterSource, Rect};

/// Where everything but the header lies.
const BASE: u64 = 5 << 30;

/// A header, and what lies far behind it.
#[derive(Debug)]
struct Far {
    header: Vec<u8>,
    body: Vec<u8>,
}

impl ByteSource for Far {
    fn size(&self) -> u64 {
        BASE + self.body.len() as u64
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        for (at, byte) in (offset..).zip(buffer) {
            let (from, at) = match at.checked_sub(BASE) {
                Some(at) => (&self.body, at),
                None => (&self.header, at),
            };
            let at = usize::try_from(at).unwrap();
            *byte = from.get(at).copied().unwrap_or(0);
        }
        Ok(())
    }
}

fn small() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi/inputs");
    std::fs::read(folder.join("tiff_ndpi_like.tif")).unwrap()
}

/// The same file, moved behind 4 GiB, with the upper halves of offsets where these files have them.
fn far(small: &[u8]) -> Far {
    let u16_at = |at: usize| u16::from_le_bytes(small[at..at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(small[at..at + 4].try_into().unwrap());
    let start = u32_at(4) as usize;
    let mut body = small.to_vec();
    let mut entries = Vec::new();
    for number in 0..usize::from(u16_at(start)) {
        let row = start + 2 + number * 12;
        let (tag, kind, count) = (u16_at(row), u16_at(row + 2), u32_at(row + 4));
        let bytes = [0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8][usize::from(kind)] * count;
        let value = u64::from(u32_at(row + 8));
        let value = if bytes > 4 || tag == 273 {
            BASE + value
        } else if kind == 2 {
            body.extend(&small[row + 8..row + 12]);
            BASE + body.len() as u64 - 4
        } else {
            value
        };
        entries.push((tag, kind, count, value));
        if tag == 65426 {
            // Their upper halves, which are 0 as the strip is small.
            let at = BASE + body.len() as u64;
            body.extend(vec![0; count as usize * 4]);
            entries.push((65432, 4, count, at));
        }
    }
    if entries.iter().all(|(tag, ..)| *tag != 65420) {
        entries.push((65420, 4, 1, 1));
    }
    let directory = BASE + body.len() as u64;
    body.extend((entries.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in &entries {
        body.extend(tag.to_le_bytes());
        body.extend(kind.to_le_bytes());
        body.extend(count.to_le_bytes());
        body.extend((*value as u32).to_le_bytes());
    }
    body.extend(0_u64.to_le_bytes());
    for (.., value) in &entries {
        body.extend(((value >> 32) as u32).to_le_bytes());
    }
    let header = [&small[..4], &directory.to_le_bytes()].concat();
    Far { header, body }
}

fn open(source: Box<dyn ByteSource>) -> crate::error::Result<TiffSource> {
    TiffSource::read_from(Path::new("a.ndpi"), source, &Opening::default())
}

#[test]
fn slides_behind_four_gibibytes_have_the_pixels_of_smaller_ones() {
    let small = small();
    let far_source = open(Box::new(far(&small))).unwrap();
    let near = open(Box::new(Memory::new(small))).unwrap();
    let (width, height) = (near.description().width, near.description().height);
    let all = Rect { x: 0, y: 0, width, height };
    assert_eq!(far_source.read(all).unwrap(), near.read(all).unwrap());
    assert_eq!(far_source.native(), near.native());
    for place in [(0, 0), (1, 0), (1, 1)] {
        let tile = |source: &TiffSource| source.native_tile(place.0, place.1).unwrap();
        assert_eq!(tile(&far_source), tile(&near));
    }
}

#[test]
fn directories_that_lose_their_upper_halves_are_refused() {
    let small = small();
    let whole = far(&small);
    for missing in 1..40 {
        let mut cut = far(&small);
        cut.body.truncate(whole.body.len() - missing);
        assert!(open(Box::new(cut)).is_err(), "{missing}");
    }
}
