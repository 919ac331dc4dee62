//! Huffman codes, and the bits of a scan.

use super::damaged;
use crate::Result;

/// Bits that the table of short codes is indexed with.
const SHORT_BITS: u32 = 9;

/// A Huffman table.
pub(super) struct Table {
    /// For each start of a code: its length and its value; length 0 for longer codes.
    short: Vec<(u8, u8)>,
    /// For each length: the first code that is longer, as 16 bits from the left.
    limit: [u32; 17],
    /// For each length: what is added to a code for the index of its value.
    offset: [i32; 17],
    values: Vec<u8>,
}

impl Table {
    fn new(counts: &[u8], values: &[u8]) -> Result<Self> {
        let invalid = || damaged("a Huffman table has more codes than fit".to_owned());
        let mut short = vec![(0, 0); 1 << SHORT_BITS];
        let (mut limit, mut offset) = ([0_u32; 17], [0_i32; 17]);
        let (mut code, mut index) = (0_u32, 0_usize);
        for (length, count) in (1_u32..=16).zip(counts) {
            let first = i32::try_from(code).map_err(|_| invalid())?;
            let at = usize::try_from(length).map_err(|_| invalid())?;
            if let Some(offset) = offset.get_mut(at) {
                *offset = i32::try_from(index).map_err(|_| invalid())?.saturating_sub(first);
            }
            for _ in 0..*count {
                if code >> length != 0 {
                    return Err(invalid());
                }
                let value = *values.get(index).ok_or_else(invalid)?;
                if let Some(spare) = SHORT_BITS.checked_sub(length) {
                    let from = usize::try_from(code << spare).map_err(|_| invalid())?;
                    let room = short.iter_mut().skip(from).take(1 << spare);
                    for entry in room {
                        *entry = (u8::try_from(length).map_err(|_| invalid())?, value);
                    }
                }
                code = code.saturating_add(1);
                index = index.saturating_add(1);
            }
            if code > 1 << length {
                return Err(invalid());
            }
            if let Some(limit) = limit.get_mut(at) {
                *limit = code << 16_u32.saturating_sub(length);
            }
            code <<= 1;
        }
        Ok(Self { short, limit, offset, values: values.to_vec() })
    }
}

/// Tables of one class, by their number.
pub(super) type Tables = [Option<Table>; 4];

/// Reads a segment of tables: first those of first coefficients and differences, then the others.
pub(super) fn read_tables(mut body: &[u8], tables: &mut [Tables; 2]) -> Result<()> {
    let cut = || damaged("a segment of Huffman tables is cut".to_owned());
    while let [kind, rest @ ..] = body {
        let (counts, rest) = rest.split_at_checked(16).ok_or_else(cut)?;
        let sum = counts.iter().map(|count| usize::from(*count)).sum();
        let (values, rest) = rest.split_at_checked(sum).ok_or_else(cut)?;
        let place = tables
            .get_mut(usize::from(kind >> 4))
            .and_then(|tables| tables.get_mut(usize::from(kind & 15)));
        let place =
            place.ok_or_else(|| damaged(format!("a Huffman table has the number {kind:#04x}")))?;
        *place = Some(Table::new(counts, values)?);
        body = rest;
    }
    Ok(())
}

/// Bits of a scan, without the zeros that follow each byte FF.
pub(super) struct Bits<'a> {
    data: &'a [u8],
    /// How many bytes were taken in.
    pub(super) at: usize,
    /// The next bits, from the left.
    window: u64,
    count: u32,
}

impl<'a> Bits<'a> {
    pub(super) const fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, window: 0, count: 0 }
    }

    #[inline]
    fn refill(&mut self) {
        while self.count <= 56 {
            let Some(&byte) = self.data.get(self.at) else { return };
            let mut step = 1;
            if byte == 0xFF {
                if self.data.get(self.at.wrapping_add(1)) != Some(&0) {
                    return;
                }
                step = 2;
            }
            self.at = self.at.wrapping_add(step);
            self.window |= u64::from(byte) << 56_u32.wrapping_sub(self.count);
            self.count = self.count.wrapping_add(8);
        }
    }

    /// Takes bits that are there.
    #[inline]
    fn take(&mut self, count: u32) -> bool {
        let Some(left) = self.count.checked_sub(count) else { return false };
        self.count = left;
        self.window = self.window.checked_shl(count).unwrap_or(0);
        true
    }

    /// The value of the next code; nothing where the data ends or no code is.
    #[inline]
    pub(super) fn symbol(&mut self, table: &Table) -> Option<u8> {
        if self.count < 32 {
            self.refill();
        }
        let top = u32::try_from(self.window >> 48).ok()?;
        let short = usize::try_from(top >> 16_u32.wrapping_sub(SHORT_BITS)).ok()?;
        let (mut length, mut value) = *table.short.get(short)?;
        if length == 0 {
            (length, value) = Self::long(top, table)?;
        }
        if self.take(length.into()) { Some(value) } else { None }
    }

    /// The next bits, up to 16, as a number.
    #[inline]
    pub(super) fn number(&mut self, count: u8) -> Option<u32> {
        if count == 0 {
            return Some(0);
        }
        if self.count < 16 {
            self.refill();
        }
        let count = u32::from(count);
        let number = self.window >> 64_u32.wrapping_sub(count);
        if self.take(count) { u32::try_from(number).ok() } else { None }
    }

    /// The next difference of lossless samples.
    #[inline]
    pub(super) fn difference(&mut self, table: &Table) -> Option<i32> {
        match self.symbol(table)? {
            0 => Some(0),
            size @ 1..=15 => {
                let bits = i32::try_from(self.number(size)?).ok()?;
                let half = 1_i32 << size.wrapping_sub(1);
                // Numbers that start with 0 are negative, counted from the lowest.
                if bits >= half {
                    Some(bits)
                } else {
                    Some(bits.wrapping_sub(half.wrapping_mul(2)).wrapping_add(1))
                }
            }
            16 => Some(32_768),
            _ => None,
        }
    }

    fn long(top: u32, table: &Table) -> Option<(u8, u8)> {
        let found = (0_u8..).zip(table.limit).skip(1).find(|(_, limit)| top < *limit)?;
        let length = found.0;
        let code = i32::try_from(top >> 16_u32.saturating_sub(length.into())).ok()?;
        let index = code.checked_add(*table.offset.get(usize::from(length))?)?;
        let value = table.values.get(usize::try_from(index).ok()?)?;
        Some((length, *value))
    }

    /// Ends a run of data: nothing but the bits that fill the last byte may be left.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.refill();
        let marker = self.data.get(self.at).is_none_or(|byte| *byte == 0xFF);
        if self.count >= 8 || !marker {
            return Err(damaged(format!("a scan has data left at byte {} of it", self.at)));
        }
        self.window = 0;
        self.count = 0;
        Ok(())
    }

    /// Passes over the restart marker of that number.
    pub(super) fn restart(&mut self, number: u8) -> Result<()> {
        self.finish()?;
        // Any number of bytes FF may stand before a marker.
        while self.data.get(self.at) == Some(&0xFF)
            && self.data.get(self.at.saturating_add(1)) == Some(&0xFF)
        {
            self.at = self.at.saturating_add(1);
        }
        let wanted = 0xD0 | (number & 7);
        match self.data.get(self.at..).unwrap_or_default() {
            [0xFF, found, ..] if *found == wanted => {
                self.at = self.at.saturating_add(2);
                Ok(())
            }
            _ => Err(damaged(format!("restart marker {wanted:#04x} is missing"))),
        }
    }
}
