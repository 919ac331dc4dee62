//! The cleanup pass of high-throughput code blocks (ITU-T T.814, clause 7), encoding.
//!
//! A block is coded in quads of 2 x 2 samples, two at a time, into three bit streams: magnitudes
//! and signs (forward), run lengths of insignificant quads (MEL, forward) and codewords with
//! exponent offsets (VLC, backward from the end). One pass codes all bit planes.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the loops that encoding spends its time in; sizes are those of the fixed arrays"
)]

use super::tables::{self, Codewords, FIRST, OTHER};

/// The side of code blocks.
pub(super) const SIDE: usize = 64;
const QUADS: usize = SIDE / 2;
/// Runs of the MEL coder double with its state.
const MEL_EXPONENTS: [u32; 13] = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5];

/// The memory that encoding blocks reuses.
pub(super) struct Scratch {
    /// For each sample 2 (magnitude - 1) + sign; 0 where it is 0.
    values: Box<[u32; SIDE * SIDE]>,
    /// For each sample the bits that 2 magnitude - 1 has; 0 where it is 0.
    exponents: Box<[u8; SIDE * SIDE]>,
    magnitudes: Forward,
    runs: Runs,
    words: Backward,
}

/// Bytes that a stream of a block has at most: 32 bits for each sample, and stuffed ones.
const MOST: usize = SIDE * SIDE * 5;

/// Bits from the lowest on into bytes; after 0xFF a byte has seven.
struct Forward {
    bytes: Box<[u8; MOST]>,
    length: usize,
    bits: u64,
    count: u32,
    /// Whether the byte before was 0xFF.
    after_ff: bool,
}

impl Forward {
    fn clear(&mut self) {
        self.length = 0;
        (self.bits, self.count, self.after_ff) = (0, 0, false);
    }

    /// Takes up to 32 bits; those above `count` are 0.
    #[inline]
    fn put(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.flush();
        }
    }

    /// Writes all whole bytes.
    #[inline]
    fn flush(&mut self) {
        let word = self.bits as u32;
        // Where a byte of the complement is 0, adding 0x7F to its lower bits leaves the highest 0.
        let inverse = !word;
        let filled = ((inverse & 0x7F7F_7F7F) + 0x7F7F_7F7F) | inverse;
        if filled & 0x8080_8080 == 0x8080_8080 && !self.after_ff && self.count >= 32 {
            self.bytes[self.length..self.length + 4].copy_from_slice(&word.to_le_bytes());
            self.length += 4;
            self.bits >>= 32;
            self.count -= 32;
            return;
        }
        while self.count >= 8 {
            let stuffed = u32::from(self.after_ff);
            let byte = (self.bits as u8) & (0xFF >> stuffed);
            self.push(byte);
            self.bits >>= 8 - stuffed;
            self.count -= 8 - stuffed;
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
        self.after_ff = byte == 0xFF;
    }

    /// Fills the last byte with ones; a last 0xFF is left out, as decoders read ones anyway.
    fn finish(&mut self) -> &[u8] {
        while self.count >= 8 {
            self.flush();
        }
        if self.count > 0 {
            // Bits above those that a stuffed byte has are cut off.
            let filled = (self.bits | u64::MAX << self.count) as u8;
            self.push(filled & (0xFF >> u32::from(self.after_ff)));
        }
        if self.length > 0 && self.bytes[self.length - 1] == 0xFF {
            self.length -= 1;
        }
        &self.bytes[..self.length]
    }
}

/// The adaptive run-length coder, bits from the highest on.
#[derive(Default)]
struct Runs {
    bytes: Vec<u8>,
    byte: u8,
    room: u32,
    run: u32,
    state: usize,
}

impl Runs {
    fn clear(&mut self) {
        self.bytes.clear();
        (self.byte, self.room, self.run, self.state) = (0, 8, 0, 0);
    }

    fn bit(&mut self, bit: u32) {
        self.byte = self.byte << 1 | bit as u8;
        self.room -= 1;
        if self.room == 0 {
            self.bytes.push(self.byte);
            self.room = if self.byte == 0xFF { 7 } else { 8 };
            self.byte = 0;
        }
    }

    #[inline]
    fn put(&mut self, event: bool) {
        let exponent = MEL_EXPONENTS[self.state];
        if event {
            self.bit(0);
            for at in (0..exponent).rev() {
                self.bit(self.run >> at & 1);
            }
            self.run = 0;
            self.state = self.state.saturating_sub(1);
        } else {
            self.run += 1;
            if self.run >= 1 << exponent {
                self.bit(1);
                self.run = 0;
                self.state = (self.state + 1).min(12);
            }
        }
    }

    fn finish(&mut self) {
        if self.run > 0 {
            self.bit(1);
        }
        // After 0xFF a byte has to follow, or the next stream's could complete a marker.
        if self.room < 8 {
            self.bytes.push(self.byte << self.room);
        }
    }
}

/// Bits from the lowest on into bytes that are later laid out backwards.
struct Backward {
    bytes: Box<[u8; MOST]>,
    length: usize,
    bits: u64,
    count: u32,
    /// Whether the byte before was above 0x8F.
    after_high: bool,
}

impl Backward {
    fn clear(&mut self) {
        // The last byte and half of the one before it will hold a length.
        self.bytes[0] = 0xFF;
        self.length = 1;
        (self.bits, self.count, self.after_high) = (0xF, 4, true);
    }

    /// Takes up to 32 bits; those above `count` are 0.
    #[inline]
    fn put(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.flush();
        }
    }

    /// Writes all whole bytes.
    #[inline]
    fn flush(&mut self) {
        let word = self.bits as u32;
        // As in the other stream, but for bytes whose lower seven bits are ones.
        let filled = (!word & 0x7F7F_7F7F) + 0x7F7F_7F7F;
        if filled & 0x8080_8080 == 0x8080_8080 && self.count >= 32 {
            self.bytes[self.length..self.length + 4].copy_from_slice(&word.to_le_bytes());
            self.length += 4;
            self.after_high = word >> 24 > 0x8F;
            self.bits >>= 32;
            self.count -= 32;
            return;
        }
        while self.count >= 8 {
            self.byte();
        }
    }

    fn byte(&mut self) {
        // Seven ones before a byte above 0x8F would look like a marker when read forwards.
        let stuffed = u32::from(self.after_high && self.bits & 0x7F == 0x7F);
        let byte = self.bits as u8 & (0xFF >> stuffed);
        self.bytes[self.length] = byte;
        self.length += 1;
        self.bits >>= 8 - stuffed;
        self.count = self.count.saturating_sub(8 - stuffed);
        self.after_high = byte > 0x8F;
    }

    fn finish(&mut self) -> &[u8] {
        while self.count > 0 {
            self.byte();
        }
        &self.bytes[..self.length]
    }
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            values: Box::new([0; SIDE * SIDE]),
            exponents: Box::new([0; SIDE * SIDE]),
            magnitudes: Forward {
                bytes: Box::new([0; MOST]),
                length: 0,
                bits: 0,
                count: 0,
                after_ff: false,
            },
            runs: Runs::default(),
            words: Backward {
                bytes: Box::new([0; MOST]),
                length: 0,
                bits: 0,
                count: 0,
                after_high: false,
            },
        }
    }

    /// Encodes a block of up to 64 x 64 coefficients and appends its bytes. Gives their number: 0
    /// when all coefficients are 0. `rows` are its rows, at least `width` long.
    pub(super) fn encode<'a>(
        &mut self,
        rows: impl Iterator<Item = &'a [i32]>,
        width: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let width = width.min(SIDE);
        let height = self.take(rows, width);
        if height == 0 {
            return 0;
        }
        self.magnitudes.clear();
        self.runs.clear();
        self.words.clear();
        let across = width.div_ceil(2);
        // The exponents of the samples above, one place to the right.
        let mut above = [0_u8; SIDE + 4];
        let mut below = [0_u8; SIDE + 4];
        for quads in 0..height.div_ceil(2) {
            let table = if quads == 0 { &FIRST } else { &OTHER };
            self.row(quads, across, table, &above, &mut below);
            std::mem::swap(&mut above, &mut below);
        }
        self.runs.finish();
        let words = self.words.finish();
        let before = out.len();
        out.extend_from_slice(self.magnitudes.finish());
        out.extend_from_slice(&self.runs.bytes);
        out.extend(words.iter().rev());
        let suffix = self.runs.bytes.len() + words.len();
        let end = out.len();
        out[end - 1] = (suffix >> 4) as u8;
        out[end - 2] = out[end - 2] & 0xF0 | (suffix & 0xF) as u8;
        end - before
    }

    /// Takes the coefficients over; gives the number of rows, or 0 when all are 0.
    fn take<'a>(&mut self, rows: impl Iterator<Item = &'a [i32]>, width: usize) -> usize {
        let mut any = 0;
        let mut height = 0;
        for (y, row) in rows.take(SIDE).enumerate() {
            let start = y * SIDE;
            let values = &mut self.values[start..start + SIDE];
            let exponents = &mut self.exponents[start..start + SIDE];
            let places = values.iter_mut().zip(&mut *exponents);
            for ((value, exponent), coefficient) in places.zip(&row[..width]) {
                let magnitude = coefficient.unsigned_abs();
                any |= magnitude;
                *exponent = bits_of(magnitude);
                *value = magnitude.wrapping_mul(2).saturating_sub(2) | u32::from(*coefficient < 0);
            }
            if width % 2 == 1 {
                values[width] = 0;
                exponents[width] = 0;
            }
            height = y + 1;
        }
        if height % 2 == 1 && height < SIDE {
            self.values[height * SIDE..][..SIDE].fill(0);
            self.exponents[height * SIDE..][..SIDE].fill(0);
        }
        if any == 0 { 0 } else { height }
    }

    #[inline]
    fn row(
        &mut self,
        quads: usize,
        across: usize,
        table: &Codewords,
        above: &[u8; SIDE + 4],
        below: &mut [u8; SIDE + 4],
    ) {
        let first = quads == 0;
        let start = quads * 2 * SIDE;
        let mut left = 0_u32;
        let mut at = 0;
        while at < across {
            let one = self.quad(start, at, first, left, table, above, below);
            left = one.significance;
            let mut two = 0;
            if at + 1 < across {
                let quad = self.quad(start, at + 1, first, left, table, above, below);
                left = quad.significance;
                two = quad.offset;
            }
            self.offsets(one.offset, two, first);
            at += 2;
        }
        below[across * 2 + 1] = 0;
        below[across * 2 + 2] = 0;
    }

    /// Codes one quad but for its exponent offset, which the caller codes for two quads at once.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "inlined into the only caller")]
    fn quad(
        &mut self,
        start: usize,
        at: usize,
        first: bool,
        left: u32,
        table: &Codewords,
        above: &[u8; SIDE + 4],
        below: &mut [u8; SIDE + 4],
    ) -> Quad {
        let x = at.min(QUADS - 1) * 2;
        let upper = start + x;
        let lower = upper + SIDE;
        let exponents = [
            self.exponents[upper],
            self.exponents[lower],
            self.exponents[upper + 1],
            self.exponents[lower + 1],
        ];
        below[x + 1] = exponents[1];
        below[x + 2] = exponents[3];
        let significance = bits_where(&exponents, |exponent| exponent != 0);
        let highest = exponents.iter().fold(0, |most, exponent| (*exponent).max(most));
        let [nw, n, ne, nf] = [above[x], above[x + 1], above[x + 2], above[x + 3]];
        let (context, predicted) = if first {
            (left >> 1 | left & 1, 1)
        } else {
            let context = u32::from(nw | n != 0)
                | u32::from(left & 0b1100 != 0) << 1
                | u32::from(ne | nf != 0) << 2;
            let predicted = if significance & significance.wrapping_sub(1) != 0 {
                nw.max(n).max(ne).max(nf).saturating_sub(1).max(1)
            } else {
                1
            };
            (context, predicted)
        };
        if context == 0 {
            self.runs.put(significance != 0);
            if significance == 0 {
                return Quad { significance, offset: 0 };
            }
        }
        let exponent = highest.max(predicted);
        let offset = u32::from(exponent - predicted);
        let pattern = if offset == 0 { 0 } else { bits_where(&exponents, |one| one == exponent) };
        let word = u32::from(table[tables::index(context, significance, pattern)]);
        self.words.put(word & 0x7F, word >> 7 & 7);
        let known = word >> 10;
        let values = [
            self.values[upper],
            self.values[lower],
            self.values[upper + 1],
            self.values[lower + 1],
        ];
        for (sample, value) in values.into_iter().enumerate() {
            if significance >> sample & 1 != 0 {
                let count = u32::from(exponent) - (known >> sample & 1);
                self.magnitudes.put(value & ((1_u64 << count) - 1) as u32, count);
            }
        }
        Quad { significance, offset }
    }

    /// Codes the exponent offsets of two quads.
    #[inline]
    fn offsets(&mut self, one: u32, two: u32, first: bool) {
        if first && one > 0 && two > 0 {
            let both_large = one > 2 && two > 2;
            self.runs.put(both_large);
            if both_large {
                self.pair(prefixed(one - 2), prefixed(two - 2));
                return;
            }
            if one > 2 {
                // The other one is 1 or 2 then, which one bit tells.
                let code = prefixed(one);
                self.words.put(code.prefix, code.prefix_bits);
                self.words.put(two - 1, 1);
                self.words.put(code.suffix, code.suffix_bits);
                return;
            }
        }
        self.pair(prefixed(one), prefixed(two));
    }

    #[inline]
    fn pair(&mut self, one: Offset, two: Offset) {
        self.words
            .put(one.prefix | two.prefix << one.prefix_bits, one.prefix_bits + two.prefix_bits);
        self.words
            .put(one.suffix | two.suffix << one.suffix_bits, one.suffix_bits + two.suffix_bits);
    }
}

struct Quad {
    /// Which samples are not 0: upper left, lower left, upper right, lower right.
    significance: u32,
    /// By how much the exponent is above the predicted one.
    offset: u32,
}

/// The code of an exponent offset.
#[derive(Clone, Copy)]
struct Offset {
    prefix: u32,
    prefix_bits: u32,
    suffix: u32,
    suffix_bits: u32,
}

#[inline]
fn prefixed(offset: u32) -> Offset {
    let (prefix, prefix_bits, suffix, suffix_bits) = match offset {
        0 => (0, 0, 0, 0),
        1 => (1, 1, 0, 0),
        2 => (2, 2, 0, 0),
        3 | 4 => (4, 3, offset - 3, 1),
        _ => (0, 3, offset - 5, 5),
    };
    Offset { prefix, prefix_bits, suffix, suffix_bits }
}

/// The bits that 2 magnitude - 1 has; 0 for 0. Magnitudes are below 2^30.
#[inline]
#[allow(clippy::cast_precision_loss, reason = "the highest bit alone counts, and is kept")]
fn bits_of(magnitude: u32) -> u8 {
    let doubled = magnitude.wrapping_mul(2).wrapping_sub(u32::from(magnitude != 0));
    // The exponent of a float is the place of the highest bit, which processors find for many
    // numbers at once. Without the bit below it, rounding cannot reach the next power.
    let float = (doubled & !(doubled >> 1)).cast_signed() as f32;
    (float.to_bits() >> 23).saturating_sub(126) as u8
}

#[inline]
fn bits_where(exponents: &[u8; 4], holds: impl Fn(u8) -> bool) -> u32 {
    u32::from(holds(exponents[0]))
        | u32::from(holds(exponents[1])) << 1
        | u32::from(holds(exponents[2])) << 2
        | u32::from(holds(exponents[3])) << 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_magnitudes_are_those_of_the_number_below_the_double() {
        for magnitude in (0..5000_u32).chain((0..30).flat_map(|bit| [(1 << bit) - 1, 1 << bit])) {
            let exact = 32 - (2 * magnitude).saturating_sub(1).leading_zeros();
            assert_eq!(u32::from(bits_of(magnitude)), exact, "{magnitude}");
        }
    }

    #[test]
    fn streams_hold_no_marker() {
        let mut scratch = Scratch::new();
        let mut state = 1_u32;
        for bits in [1, 2, 5, 9, 17, 25] {
            let block: Vec<i32> = (0..SIDE * SIDE)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state.cast_signed() >> 3) >> (29 - bits)
                })
                .collect();
            let mut out = Vec::new();
            let count = scratch.encode(block.chunks(SIDE), SIDE, &mut out);
            assert_eq!(count, out.len());
            assert!(out.windows(2).all(|two| two[0] != 0xFF || two[1] <= 0x8F));
            assert_ne!(out.last(), Some(&0xFF));
        }
        let mut out = Vec::new();
        assert_eq!(scratch.encode([0; SIDE * 3].chunks(SIDE), SIDE, &mut out), 0);
        assert!(out.is_empty());
    }
}
