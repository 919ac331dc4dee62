//! Lossless streams (SOF3), decoded without native code: predictors 1 to 7, point transform,
//! 2 to 16 bits, whole sampling factors, one scan or several, restarts at ends of rows.

use super::damaged;
use super::huffman::{Bits, Table, Tables, read_tables};
use super::marker::{Component, DHT, DRI, EOI, Header, SOS, Walk, unsupported};
use crate::image::SamplesMut;
use crate::{CodecError, Result};

/// Decodes a stream into a place of its full size.
pub(super) fn decode(
    stream: &[u8],
    header: &Header,
    lenient: bool,
    out: SamplesMut<'_>,
) -> Result<()> {
    match out {
        SamplesMut::U8(out) if header.precision <= 8 => {
            decode_samples(stream, header, lenient, out)
        }
        SamplesMut::U16(out) if header.precision > 8 => {
            decode_samples(stream, header, lenient, out)
        }
        other => Err(damaged(format!(
            "{} bits do not fit a place of type {}",
            header.precision,
            other.as_ref().sample_type()
        ))),
    }
}

/// A type of samples; they were tested to fit.
trait Sample: Copy {
    fn from_u16(sample: u16) -> Self;
}

impl Sample for u8 {
    #[inline]
    fn from_u16(sample: u16) -> Self {
        Self::try_from(sample).unwrap_or(Self::MAX)
    }
}

impl Sample for u16 {
    #[inline]
    fn from_u16(sample: u16) -> Self {
        sample
    }
}

fn decode_samples<T: Sample>(
    stream: &[u8],
    header: &Header,
    lenient: bool,
    out: &mut [T],
) -> Result<()> {
    if out.len() != header.shape()?.samples() {
        return Err(damaged(format!("a place of {} samples is not its size", out.len())));
    }
    let (horizontal, vertical) = header.sampling();
    let whole = |component: &Component| {
        horizontal.checked_rem(component.horizontal) == Some(0)
            && vertical.checked_rem(component.vertical) == Some(0)
    };
    if !header.components().iter().all(whole) {
        return Err(unsupported("sampling factors that do not divide each other"));
    }
    let mut tables: [Tables; 2] = Default::default();
    let mut restart = 0_u16;
    let mut seen = [false; 4];
    let mut walk = Walk::new(stream, 2, lenient);
    loop {
        let segment = match walk.next_segment() {
            // A missing end takes nothing from what was decoded.
            Err(CodecError::Decode { .. }) if lenient && seen.contains(&true) => return Ok(()),
            other => other?,
        };
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
                let scan = Scan::read(body, header, &tables[0], restart)?;
                for (index, _) in &scan.parts {
                    match seen.get_mut(*index) {
                        Some(seen) if !*seen => *seen = true,
                        _ => return Err(damaged(format!("component {index} comes twice"))),
                    }
                }
                let data = stream.get(walk.position()..).unwrap_or_default();
                match scan.decode(data, header, lenient, out) {
                    Ok(used) => walk.seek(walk.position().saturating_add(used)),
                    Err(CodecError::Decode { .. }) if lenient => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            EOI => break,
            0xC0..=0xC2 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                return Err(damaged("it has two frame headers".to_owned()));
            }
            _ => {}
        }
    }
    let missing = header.components().iter().zip(seen).filter(|(_, seen)| !seen).count();
    if missing > 0 && !lenient {
        return Err(damaged(format!("{missing} components have no scan")));
    }
    Ok(())
}

/// How samples are predicted from the left, upper, and upper left ones.
#[inline]
fn predict(predictor: u8, left: i32, above: i32, corner: i32) -> i32 {
    match predictor {
        1 => left,
        2 => above,
        3 => corner,
        4 => left.wrapping_add(above).wrapping_sub(corner),
        5 => left.wrapping_add(above.wrapping_sub(corner) >> 1),
        6 => above.wrapping_add(left.wrapping_sub(corner) >> 1),
        _ => left.wrapping_add(above) >> 1,
    }
}

/// One component in a scan, with the lines of it that are in work.
struct Part<'a> {
    table: &'a Table,
    /// Samples of a unit, across and down.
    across: usize,
    down: usize,
    /// Pixels of the image for one sample, across and down.
    stretch: (usize, usize),
    /// The last line of the units above, then those of the present ones; the samples of the last
    /// unit included.
    lines: Vec<Vec<u16>>,
}

struct Scan<'a> {
    /// Positions in the frame, and what there is of them.
    parts: Vec<(usize, Part<'a>)>,
    predictor: u8,
    point: u8,
    /// Units in a row, and rows of them.
    columns: usize,
    rows: usize,
    /// Rows of units between restart markers; 0 for none.
    restart: usize,
}

impl<'a> Scan<'a> {
    fn read(body: &[u8], header: &Header, tables: &'a Tables, restart: u16) -> Result<Self> {
        let odd = || damaged(format!("a scan header of {} bytes", body.len()));
        let (&count, rest) = body.split_first().ok_or_else(odd)?;
        let (selectors, rest) =
            rest.split_at_checked(usize::from(count).saturating_mul(2)).ok_or_else(odd)?;
        let &[predictor, _, approximation] = rest else { return Err(odd()) };
        let point = approximation & 15;
        if !(1..=7).contains(&predictor) || point >= header.precision || !(1..=4).contains(&count) {
            return Err(damaged(format!(
                "a scan of {count} components with predictor {predictor} and point transform {point}"
            )));
        }
        let (horizontal, vertical) = header.sampling();
        let ceil = |pixels: u16, factor: u8, of: u8| -> usize {
            usize::from(pixels).saturating_mul(factor.into()).div_ceil(usize::from(of).max(1))
        };
        let mut size = (ceil(header.width, 1, horizontal), ceil(header.height, 1, vertical));
        let mut parts = Vec::new();
        for pair in selectors.chunks_exact(2) {
            let &[id, table] = pair else { continue };
            let mut all = header.components().iter().enumerate();
            let (index, component) = all
                .find(|(_, component)| component.id == id)
                .ok_or_else(|| damaged(format!("a scan of component {id}, which is not there")))?;
            let table = tables.get(usize::from(table >> 4)).and_then(Option::as_ref);
            let table = table.ok_or_else(|| damaged("a Huffman table is missing".to_owned()))?;
            let (mut across, mut down) = (component.horizontal, component.vertical);
            if count == 1 {
                size =
                    (ceil(header.width, across, horizontal), ceil(header.height, down, vertical));
                (across, down) = (1, 1);
            }
            let width = size.0.saturating_mul(across.into());
            let stretch = (
                usize::from(horizontal).checked_div(component.horizontal.into()).unwrap_or(1),
                usize::from(vertical).checked_div(component.vertical.into()).unwrap_or(1),
            );
            let lines = vec![vec![0; width]; usize::from(down).saturating_add(1)];
            let (across, down) = (usize::from(across), usize::from(down));
            parts.push((index, Part { table, across, down, stretch, lines }));
        }
        let (columns, rows) = size;
        let interval = usize::from(restart);
        if interval.checked_rem(columns).unwrap_or(0) != 0 {
            return Err(damaged(format!(
                "restart markers every {restart} units, which rows of {columns} cannot have"
            )));
        }
        let restart = interval.checked_div(columns).unwrap_or(0);
        Ok(Self { parts, predictor, point, columns, rows, restart })
    }

    /// Decodes all rows, and gives how many bytes that took.
    fn decode<T: Sample>(
        mut self,
        data: &[u8],
        header: &Header,
        lenient: bool,
        out: &mut [T],
    ) -> Result<usize> {
        let mut bits = Bits::new(data);
        let depth = header.precision.saturating_sub(self.point);
        let mut first = true;
        let mut markers = 0_u8;
        for row in 0..self.rows {
            if row > 0 && row.checked_rem(self.restart) == Some(0) {
                bits.restart(markers)?;
                markers = markers.wrapping_add(1);
                first = true;
            }
            self.decode_row(&mut bits, depth, first, lenient, row)?;
            first = false;
            for (index, part) in &mut self.parts {
                for (line, number) in part.lines.iter().skip(1).zip(row.saturating_mul(part.down)..)
                {
                    put(header, *index, part.stretch, number, line, self.point, out);
                }
                // The last line is what the next units are predicted from.
                let last = part.lines.len().saturating_sub(1);
                part.lines.swap(0, last);
            }
        }
        bits.finish()?;
        Ok(bits.at)
    }

    fn decode_row(
        &mut self,
        bits: &mut Bits<'_>,
        depth: u8,
        first: bool,
        lenient: bool,
        row: usize,
    ) -> Result<()> {
        let start = 1_i32 << depth.saturating_sub(1);
        let ends = |at: usize| {
            damaged(format!("row {row} of a scan has no sound code at byte {at} of it"))
        };
        let too_large = |sample: u16| {
            damaged(format!("row {row} of a scan has a sample {sample}, above {depth} bits"))
        };
        // One sample of each component makes a unit mostly, without a loop over more.
        for column in 0..self.columns {
            for (_, part) in &mut self.parts {
                for down in 0..part.down {
                    let [.., above, line] =
                        part.lines.get_mut(..=down.wrapping_add(1)).unwrap_or_default()
                    else {
                        continue;
                    };
                    for across in 0..part.across {
                        let at = column.wrapping_mul(part.across).wrapping_add(across);
                        let difference =
                            bits.difference(part.table).ok_or_else(|| ends(bits.at))?;
                        let before = at.checked_sub(1);
                        let predicted = match (first && down == 0, before) {
                            (true, None) => start,
                            (true, Some(before)) => sample(line, before),
                            (false, None) => sample(above, 0),
                            (false, Some(before)) => predict(
                                self.predictor,
                                sample(line, before),
                                sample(above, at),
                                sample(above, before),
                            ),
                        };
                        let found = predicted.wrapping_add(difference) & 0xFFFF;
                        let found = u16::try_from(found).unwrap_or(0);
                        if depth < 16 && found >> depth != 0 && !lenient {
                            return Err(too_large(found));
                        }
                        if let Some(place) = line.get_mut(at) {
                            *place = found;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

#[inline]
fn sample(line: &[u16], at: usize) -> i32 {
    line.get(at).copied().map_or(0, i32::from)
}

/// Writes one line of a component to all pixels that it stands for.
fn put<T: Sample>(
    header: &Header,
    index: usize,
    stretch: (usize, usize),
    number: usize,
    line: &[u16],
    point: u8,
    out: &mut [T],
) {
    let (width, channels) = (usize::from(header.width), usize::from(header.count));
    let row_samples = width.saturating_mul(channels);
    let from = number.saturating_mul(stretch.1).saturating_mul(row_samples);
    let rows = out.get_mut(from..).unwrap_or_default().chunks_exact_mut(row_samples.max(1));
    for row in rows.take(stretch.1) {
        let places = row.iter_mut().skip(index).step_by(channels.max(1));
        if stretch.0 == 1 {
            for (place, sample) in places.zip(line) {
                *place = T::from_u16(sample << point);
            }
        } else {
            let samples = line.iter().flat_map(|sample| std::iter::repeat_n(sample, stretch.0));
            for (place, sample) in places.zip(samples) {
                *place = T::from_u16(sample << point);
            }
        }
    }
}
