//! Packet headers (ITU-T T.800, annex B): which blocks are there, and how long they are.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "sizes are those that the trees were made for"
)]

/// The blocks of one band in one precinct, in rows.
pub(super) struct Blocks {
    pub(super) across: usize,
    pub(super) down: usize,
    /// Bytes of each block; 0 for one that is left out.
    pub(super) lengths: Vec<usize>,
    /// The bit planes above those that each block codes.
    pub(super) empty_planes: u32,
}

/// Writes the header of a packet.
pub(super) fn write_header(bands: &[Blocks], out: &mut Vec<u8>) {
    let mut bits = Bits { out, byte: 0, room: 8 };
    if bands.iter().all(|band| band.lengths.iter().all(|length| *length == 0)) {
        bits.put(0, 1);
        bits.finish();
        return;
    }
    bits.put(1, 1);
    for band in bands {
        let mut inclusion = Tree::new(band, |length| u32::from(length == 0));
        let mut planes = Tree::new(band, |_| band.empty_planes);
        for (at, length) in band.lengths.iter().enumerate() {
            inclusion.code(at, 1, &mut bits);
            if *length == 0 {
                continue;
            }
            planes.code(at, band.empty_planes + 1, &mut bits);
            // One coding pass.
            bits.put(0, 1);
            let width = usize::BITS - length.leading_zeros();
            let more = width.saturating_sub(3);
            for _ in 0..more {
                bits.put(1, 1);
            }
            bits.put(0, 1);
            bits.put(u32::try_from(*length).unwrap_or(u32::MAX), 3 + more);
        }
    }
    bits.finish();
}

/// Bits from the highest on; after 0xFF a byte has seven.
struct Bits<'a> {
    out: &'a mut Vec<u8>,
    byte: u8,
    room: u32,
}

impl Bits<'_> {
    fn put(&mut self, bits: u32, count: u32) {
        for at in (0..count).rev() {
            self.byte = self.byte << 1 | u8::from(bits >> at & 1 != 0);
            self.room -= 1;
            if self.room == 0 {
                self.out.push(self.byte);
                self.room = if self.byte == 0xFF { 7 } else { 8 };
                self.byte = 0;
            }
        }
    }

    /// Fills the last byte; one that follows 0xFF is written even when it is empty.
    fn finish(&mut self) {
        if self.room < 8 {
            self.out.push(self.byte << self.room);
        }
    }
}

/// A tag tree: each node has the least value of the four below it.
struct Tree {
    levels: Vec<Level>,
}

struct Level {
    across: usize,
    /// Value, the bound below which it is known not to be, and whether it is known.
    nodes: Vec<(u32, u32, bool)>,
}

impl Tree {
    fn new(band: &Blocks, value: impl Fn(usize) -> u32) -> Self {
        let leaves = band.lengths.iter().map(|length| (value(*length), 0, false)).collect();
        let mut levels = vec![Level { across: band.across, nodes: leaves }];
        let (mut across, mut down) = (band.across, band.down);
        while across * down > 1 {
            let (wide, high) = (across.div_ceil(2), down.div_ceil(2));
            let mut nodes = vec![(u32::MAX, 0, false); wide * high];
            if let Some(below) = levels.last() {
                for (at, (value, _, _)) in below.nodes.iter().enumerate() {
                    let node = &mut nodes[at / across / 2 * wide + at % across / 2];
                    node.0 = node.0.min(*value);
                }
            }
            (across, down) = (wide, high);
            levels.push(Level { across, nodes });
        }
        Self { levels }
    }

    /// Tells whether the value of a leaf is below a bound, and which it is if so.
    fn code(&mut self, leaf: usize, bound: u32, bits: &mut Bits<'_>) {
        let across = self.levels[0].across;
        let (x, y) = (leaf % across, leaf / across);
        let mut least = 0;
        for (depth, level) in self.levels.iter_mut().enumerate().rev() {
            let node = &mut level.nodes[(y >> depth) * level.across + (x >> depth)];
            node.1 = node.1.max(least);
            while node.1 < bound && !node.2 {
                node.2 = node.1 >= node.0;
                bits.put(u32::from(node.2), 1);
                if !node.2 {
                    node.1 += 1;
                }
            }
            least = node.1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_without_blocks_is_one_empty_byte() {
        let band = Blocks { across: 2, down: 1, lengths: vec![0, 0], empty_planes: 3 };
        let mut out = Vec::new();
        write_header(&[band], &mut out);
        assert_eq!(out, [0]);
    }

    #[test]
    fn lone_block_is_told_with_its_planes_and_length() {
        let band = Blocks { across: 1, down: 1, lengths: vec![5], empty_planes: 2 };
        let mut out = Vec::new();
        write_header(&[band], &mut out);
        // There is a packet; included; two empty planes; one pass; three bits hold the length 5.
        assert_eq!(out, [0b1100_1001, 0b0100_0000]);
    }
}
