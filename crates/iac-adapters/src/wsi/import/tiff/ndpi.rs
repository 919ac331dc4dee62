//! Hamamatsu's NDPI: a page is one JPEG stream, too large for any decoder, whose restart intervals are
//! listed. Those of one column, with the header in front, make tiles.

use std::ops::Range;

use super::file::TiffFile;
use super::tags;
use crate::error::Result;

/// Where restart intervals begin, counted from the strip's start.
const STARTS: u16 = 65426;
/// The upper halves of these, where 32 bits are too few.
const STARTS_UPPER: u16 = 65432;
/// Rows of pixels that tiles have, about.
const TILE_ROWS: u64 = 512;
/// Bytes that the intervals of a tile may have.
const MAX_TILE: u64 = 1 << 30;
/// Bytes of the stream's header that are believed.
const MAX_HEADER: u64 = 64 << 10;
const START_OF_SCAN: u8 = 0xDA;
const RESTART_INTERVAL: u8 = 0xDD;

/// The restart intervals of a page.
#[derive(Debug, Clone)]
pub(super) struct Ndpi {
    /// Tables, as they stand in the header.
    tables: Vec<u8>,
    frame: Vec<u8>,
    scan: Vec<u8>,
    /// Coded units of an interval.
    interval: u16,
    /// Where each interval begins, and where the last one ends.
    starts: Vec<u64>,
    /// Width and height of the pixels of an interval.
    pub(super) piece: (u64, u64),
    /// Intervals across and down.
    pub(super) pieces: (u64, u64),
    /// Intervals of a tile, one below the other.
    pub(super) rows: u64,
}

impl Ndpi {
    /// Reads the list of a page of the given size whose strip lies there; nothing where it has none.
    pub(super) fn read(
        file: &TiffFile,
        page: usize,
        size: (u64, u64),
        strip: (u64, u64),
    ) -> Result<Option<Self>> {
        let Some(mut list) = file.integers(page, STARTS)? else { return Ok(None) };
        let wrong = |reason: String| file.wrong(page, STARTS, reason);
        if let Some(upper) = file.integers(page, STARTS_UPPER)? {
            if upper.len() != list.len() {
                return Err(wrong(format!(
                    "has {} values, and their upper halves are {}",
                    list.len(),
                    upper.len()
                )));
            }
            for (start, upper) in list.iter_mut().zip(upper) {
                *start |= upper.wrapping_shl(32);
            }
        }
        let (at, length) = strip;
        let first = list.first().copied().unwrap_or(0);
        if first == 0 || first > MAX_HEADER.min(length) {
            return Err(wrong(format!("begins at byte {first} of a strip of {length}")));
        }
        if list.windows(2).any(|two| two.first() >= two.last())
            || list.last().is_none_or(|last| *last >= length)
        {
            return Err(wrong(format!("does not ascend within a strip of {length} bytes")));
        }
        let header = file.bytes(at, first, "the header of an NDPI page")?;
        let parts = Parts::of(&header)
            .ok_or_else(|| file.decode(format!("page {page}: the JPEG header cannot be read")))?;
        let unit = parts
            .unit()
            .ok_or_else(|| file.decode(format!("page {page}: the JPEG frame cannot be read")))?;
        let (across, down) = (size.0.div_ceil(unit.0), size.1.div_ceil(unit.1));
        let interval = u64::from(parts.interval);
        if interval == 0 || !across.is_multiple_of(interval) {
            return Err(file.unsupported(format!(
                "page {page} has restart intervals of {interval} units, of which {across} make a row"
            )));
        }
        let columns = across.checked_div(interval).unwrap_or(0);
        let wanted = columns.saturating_mul(down);
        if u64::try_from(list.len()).ok() != Some(wanted) {
            return Err(wrong(format!("has {} values instead of {wanted}", list.len())));
        }
        let mut starts: Vec<u64> = list.iter().map(|start| at.saturating_add(*start)).collect();
        starts.push(at.saturating_add(length));
        let rows = TILE_ROWS.checked_div(unit.1).unwrap_or(1).max(1).min(down);
        Ok(Some(Self {
            tables: parts.tables,
            frame: parts.frame,
            scan: parts.scan,
            interval: parts.interval,
            starts,
            piece: (unit.0.saturating_mul(interval), unit.1),
            pieces: (columns, down),
            rows,
        }))
    }

    /// A tile as a stream of its own. Below the last row, that is repeated.
    pub(super) fn tile(&self, file: &TiffFile, what: &str, x: u64, y: u64) -> Result<Vec<u8>> {
        let bad = || file.decode(format!("{what} lies outside of the page"));
        let side = |side: u64| u16::try_from(side).map_err(|_| bad());
        let mut out = vec![0xFF, 0xD8];
        out.extend_from_slice(&self.tables);
        let mut frame = self.frame.clone();
        let size = frame.get_mut(5..9).ok_or_else(bad)?;
        let height = side(self.piece.1.saturating_mul(self.rows))?.to_be_bytes();
        let width = side(self.piece.0)?.to_be_bytes();
        size.copy_from_slice(&[height, width].concat());
        out.extend_from_slice(&frame);
        out.extend_from_slice(&[0xFF, RESTART_INTERVAL, 0, 4]);
        out.extend_from_slice(&self.interval.to_be_bytes());
        out.extend_from_slice(&self.scan);
        let first = y.saturating_mul(self.rows);
        let mut bytes = 0_u64;
        for number in 0..self.rows {
            let row = first.saturating_add(number).min(self.pieces.1.saturating_sub(1));
            let position = row.saturating_mul(self.pieces.0).saturating_add(x);
            let Range { start, end } = self.span(position).ok_or_else(bad)?;
            bytes = bytes.saturating_add(end.saturating_sub(start));
            if bytes > MAX_TILE {
                return Err(file.limit(format!(
                    "{what} has {bytes} or more bytes, but at most {MAX_TILE} are read"
                )));
            }
            let piece = file.bytes(start, end.saturating_sub(start), what)?;
            let data = match piece.split_last_chunk::<2>() {
                Some((data, [0xFF, 0xD0..=0xD7 | 0xD9])) => data,
                _ => {
                    return Err(file.decode(format!(
                        "{what}: restart interval {position} does not end in a marker"
                    )));
                }
            };
            // A marker inside would be one that the list does not know.
            if data.windows(2).any(|two| matches!(two, [0xFF, second] if *second != 0)) {
                return Err(file.decode(format!(
                    "{what}: there is a marker inside of restart interval {position}"
                )));
            }
            if let Some(before) = number.checked_sub(1) {
                out.extend_from_slice(&[0xFF, 0xD0 | u8::try_from(before % 8).unwrap_or(0)]);
            }
            out.extend_from_slice(data);
        }
        out.extend_from_slice(&[0xFF, 0xD9]);
        Ok(out)
    }

    fn span(&self, position: u64) -> Option<Range<u64>> {
        let at = usize::try_from(position).ok()?;
        Some(*self.starts.get(at)?..*self.starts.get(at.checked_add(1)?)?)
    }
}

/// The header of a stream.
struct Parts {
    tables: Vec<u8>,
    frame: Vec<u8>,
    scan: Vec<u8>,
    interval: u16,
}

impl Parts {
    fn of(header: &[u8]) -> Option<Self> {
        let mut rest = header.strip_prefix(&[0xFF, 0xD8])?;
        let (mut tables, mut frame, mut interval) = (Vec::new(), None, 0);
        loop {
            let [0xFF, marker, high, low, ..] = *rest else { return None };
            let length = usize::from(u16::from_be_bytes([high, low])).checked_add(2)?;
            let (segment, after) = rest.split_at_checked(length)?;
            match marker {
                START_OF_SCAN => {
                    return Some(Self { tables, frame: frame?, scan: segment.to_vec(), interval });
                }
                0xC0 | 0xC1 if frame.is_none() => frame = Some(segment.to_vec()),
                0xC4 | 0xDB => tables.extend_from_slice(segment),
                RESTART_INTERVAL => {
                    interval = u16::from_be_bytes(*segment.get(4..6)?.first_chunk::<2>()?);
                }
                0xE0..=0xEF | 0xFE => {}
                _ => return None,
            }
            rest = after;
        }
    }

    /// Pixels that a coded unit covers.
    fn unit(&self) -> Option<(u64, u64)> {
        let count = usize::from(*self.frame.get(9)?);
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

/// The magnification of a page: -1 stands for the macro image, -2 for the map.
pub(super) fn lens(file: &TiffFile, page: usize) -> Result<Option<f64>> {
    file.number(page, tags::NDPI_LENS)
}
