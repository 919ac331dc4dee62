//! Whether the scans of a lossy stream have all their data.
//!
//! Every code is read and nothing is made of it: what ends early, has no sound code or goes on
//! after its last block is damaged, as libjpeg finds too.

use super::huffman::{Bits, Table, Tables, read_tables};
use super::marker::{DHT, DRI, EOI, Header, Process, SOS, Walk};
use super::{damaged, max_scans, too_many_scans};
use crate::Result;

/// Tests all scans of a stream with Huffman codes.
pub(super) fn check(stream: &[u8], header: &Header) -> Result<()> {
    let mut frame = Frame::new(header)?;
    let mut tables: [Tables; 2] = Default::default();
    let mut restart = 0_u16;
    let mut scans = 0_u16;
    let mut walk = Walk::new(stream, 2, false);
    loop {
        let segment = walk.next_segment()?;
        let body = stream.get(segment.body.clone()).unwrap_or_default();
        match segment.marker {
            DHT => read_tables(body, &mut tables)?,
            DRI => {
                let &[high, low] = body else {
                    return Err(damaged(format!("a restart interval of {} bytes", body.len())));
                };
                restart = u16::from_be_bytes([high, low]);
            }
            SOS => {
                scans = scans.saturating_add(1);
                if scans > max_scans(header) {
                    return Err(too_many_scans(header));
                }
                let data = stream.get(walk.position()..).unwrap_or_default();
                let used = frame.check_scan(body, data, &tables, restart)?;
                walk.seek(walk.position().saturating_add(used));
            }
            EOI => return frame.finish(),
            _ => {}
        }
    }
}

/// A component of the frame.
struct Part {
    id: u8,
    across: usize,
    down: usize,
    /// Blocks in a row and in a column of the image, in a scan of this component alone.
    columns: usize,
    rows: usize,
    /// Blocks in a row of what is kept.
    stride: usize,
    /// Which coefficients of each block are known not to be 0: later passes have bits for them.
    known: Vec<u64>,
    seen: bool,
}

struct Frame {
    parts: Vec<Part>,
    progressive: bool,
    /// Units in a row and in a column, in a scan of several components.
    columns: usize,
    rows: usize,
}

/// The part of the coefficients that a scan has.
#[derive(Clone, Copy)]
struct Band {
    first: u8,
    last: u8,
    /// Whether it has a further bit of numbers that are known already.
    refines: bool,
}

impl Frame {
    fn new(header: &Header) -> Result<Self> {
        let (horizontal, vertical) = header.sampling();
        let progressive = header.process == Process::Progressive;
        let ceil = |pixels: u16, factor: u8, of: u8| -> usize {
            let unit = usize::from(of).saturating_mul(8).max(1);
            usize::from(pixels).saturating_mul(factor.into()).div_ceil(unit)
        };
        let columns = ceil(header.width, 1, horizontal);
        let rows = ceil(header.height, 1, vertical);
        let mut parts = Vec::new();
        for component in header.components() {
            let (across, down) = (component.horizontal.into(), component.vertical.into());
            let stride = columns.saturating_mul(across);
            let blocks =
                if progressive { stride.saturating_mul(rows).saturating_mul(down) } else { 0 };
            let mut known = Vec::new();
            known
                .try_reserve_exact(blocks)
                .map_err(|_| damaged(format!("no memory for {blocks} blocks")))?;
            known.resize(blocks, 0);
            parts.push(Part {
                id: component.id,
                across,
                down,
                columns: ceil(header.width, component.horizontal, horizontal),
                rows: ceil(header.height, component.vertical, vertical),
                stride,
                known,
                seen: false,
            });
        }
        Ok(Self { parts, progressive, columns, rows })
    }

    fn finish(&self) -> Result<()> {
        match self.parts.iter().filter(|part| !part.seen).count() {
            0 => Ok(()),
            missing => Err(damaged(format!("{missing} components have no scan"))),
        }
    }

    /// Tests one scan, and gives how many bytes its data has.
    fn check_scan(
        &mut self,
        body: &[u8],
        data: &[u8],
        tables: &[Tables; 2],
        restart: u16,
    ) -> Result<usize> {
        let odd = || damaged(format!("a scan header of {} bytes", body.len()));
        let (&count, rest) = body.split_first().ok_or_else(odd)?;
        let (selectors, rest) =
            rest.split_at_checked(usize::from(count).saturating_mul(2)).ok_or_else(odd)?;
        let &[first, last, approximation] = rest else { return Err(odd()) };
        let band = if self.progressive {
            Band { first, last, refines: approximation >> 4 != 0 }
        } else {
            Band { first: 0, last: 63, refines: false }
        };
        let several_ac = self.progressive && band.first > 0 && count != 1;
        if band.last > 63 || band.first > band.last || several_ac || count == 0 {
            return Err(damaged(format!(
                "a scan of {count} components with coefficients {first} to {last}"
            )));
        }
        // Which component, and its two tables.
        let mut chosen: Vec<(usize, Option<&Table>, Option<&Table>)> = Vec::new();
        for pair in selectors.chunks_exact(2) {
            let &[id, numbers] = pair else { continue };
            let at = self.parts.iter().position(|part| part.id == id);
            let at =
                at.ok_or_else(|| damaged(format!("a scan of component {id}, which is not there")))?;
            if chosen.iter().any(|(other, ..)| *other == at) {
                return Err(damaged(format!("component {id} is twice in one scan")));
            }
            let [dc, ac] = tables;
            let dc = dc.get(usize::from(numbers >> 4)).and_then(Option::as_ref);
            let ac = ac.get(usize::from(numbers & 15)).and_then(Option::as_ref);
            let needs_dc = band.first == 0 && !band.refines;
            let needs_ac = band.last > 0 && (band.first > 0 || !self.progressive);
            if (needs_dc && dc.is_none()) || (needs_ac && ac.is_none()) {
                return Err(damaged("a Huffman table is missing".to_owned()));
            }
            chosen.push((at, dc, ac));
        }
        let mut run = Run { bits: Bits::new(data), band, progressive: self.progressive, ends: 0 };
        let alone = chosen.len() == 1;
        let (columns, rows) = match chosen.first().and_then(|(at, ..)| self.parts.get(*at)) {
            Some(part) if alone => (part.columns, part.rows),
            _ => (self.columns, self.rows),
        };
        let (mut left, mut markers) = (restart, 0_u8);
        for row in 0..rows {
            for column in 0..columns {
                if restart > 0 {
                    if left == 0 {
                        run.bits.restart(markers)?;
                        markers = markers.wrapping_add(1);
                        run.ends = 0;
                        left = restart;
                    }
                    left = left.wrapping_sub(1);
                }
                for (at, dc, ac) in &chosen {
                    let Some(part) = self.parts.get_mut(*at) else { continue };
                    let (across, down) = if alone { (1, 1) } else { (part.across, part.down) };
                    for y in 0..down {
                        for x in 0..across {
                            let line = row.wrapping_mul(down).wrapping_add(y);
                            let block = column.wrapping_mul(across).wrapping_add(x);
                            let block = line.wrapping_mul(part.stride).wrapping_add(block);
                            let mut unknown = 0;
                            let known = part.known.get_mut(block).unwrap_or(&mut unknown);
                            run.block(*dc, *ac, known).ok_or_else(|| {
                                damaged(format!(
                                    "row {row} of a scan has no sound code at byte {} of it",
                                    run.bits.at
                                ))
                            })?;
                        }
                    }
                }
            }
        }
        for (at, ..) in &chosen {
            if let Some(part) = self.parts.get_mut(*at) {
                part.seen = true;
            }
        }
        run.bits.finish()?;
        Ok(run.bits.at)
    }
}

/// The state of a scan.
struct Run<'a> {
    bits: Bits<'a>,
    band: Band,
    progressive: bool,
    /// Blocks that follow without anything new.
    ends: u32,
}

impl Run<'_> {
    /// Reads one block; nothing where its data is not sound.
    #[inline]
    fn block(&mut self, dc: Option<&Table>, ac: Option<&Table>, known: &mut u64) -> Option<()> {
        let mut at = self.band.first;
        if at == 0 {
            if self.band.refines {
                self.bits.number(1)?;
            } else {
                let size = self.bits.symbol(dc?)?;
                if size > 16 {
                    return None;
                }
                self.bits.number(size)?;
            }
            if self.progressive {
                return Some(());
            }
            at = 1;
        }
        if self.band.refines {
            return self.refine(at, ac?, known);
        }
        if self.ends > 0 {
            self.ends = self.ends.wrapping_sub(1);
            return Some(());
        }
        let ac = ac?;
        while at <= self.band.last {
            let symbol = self.bits.symbol(ac)?;
            let (zeros, size) = (symbol >> 4, symbol & 15);
            if size == 0 {
                if zeros < 15 {
                    if self.progressive {
                        let more = self.bits.number(zeros)?;
                        self.ends = (1_u32 << zeros).wrapping_add(more).wrapping_sub(1);
                    }
                    return Some(());
                }
                at = at.wrapping_add(16);
                continue;
            }
            at = at.wrapping_add(zeros);
            self.bits.number(size)?;
            if at > self.band.last {
                return None;
            }
            *known |= 1_u64.checked_shl(at.into())?;
            at = at.wrapping_add(1);
        }
        Some(())
    }

    /// Reads one more bit of each coefficient, and those that become known by it.
    fn refine(&mut self, mut at: u8, ac: &Table, known: &mut u64) -> Option<()> {
        let last = self.band.last;
        let is_known = |known: u64, at: u8| known.checked_shr(at.into()).unwrap_or(0) & 1 == 1;
        while self.ends == 0 && at <= last {
            let symbol = self.bits.symbol(ac)?;
            let (mut zeros, size) = (symbol >> 4, symbol & 15);
            match size {
                0 if zeros < 15 => {
                    self.ends = (1_u32 << zeros).wrapping_add(self.bits.number(zeros)?);
                    break;
                }
                0 => {}
                1 => {
                    self.bits.number(1)?;
                }
                _ => return None,
            }
            while at <= last {
                if is_known(*known, at) {
                    self.bits.number(1)?;
                } else if zeros == 0 {
                    break;
                } else {
                    zeros = zeros.wrapping_sub(1);
                }
                at = at.wrapping_add(1);
            }
            if size == 1 {
                if at > last {
                    return None;
                }
                *known |= 1_u64.checked_shl(at.into())?;
            }
            at = at.wrapping_add(1);
        }
        if self.ends > 0 {
            while at <= last {
                if is_known(*known, at) {
                    self.bits.number(1)?;
                }
                at = at.wrapping_add(1);
            }
            self.ends = self.ends.wrapping_sub(1);
        }
        Some(())
    }
}
