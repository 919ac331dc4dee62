//! Steps before compression that make numbers easier to compress, and their way back.

/// A step before compression that makes numbers easier to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// All first bytes of the numbers, then all second bytes, and so on.
    Shuffle,
    /// All lowest bits of the numbers, then all second bits, and so on: for numbers of which few
    /// bits differ, such as labels and stored samples of 12 bits.
    BitShuffle,
    /// Every byte less the byte of the number before it, number by number.
    Delta,
}

impl Filter {
    pub(crate) const ALL: [Self; 3] = [Self::Shuffle, Self::BitShuffle, Self::Delta];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shuffle => "shuffle",
            Self::BitShuffle => "bitshuffle",
            Self::Delta => "delta",
        }
    }

    /// Filters the bytes of numbers of `lane` bytes.
    pub(crate) fn apply(self, lane: usize, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Shuffle => {
                let whole = bytes.chunks_exact(lane);
                let rest = whole.remainder();
                let mut out = Vec::with_capacity(bytes.len());
                for place in 0..lane {
                    out.extend(whole.clone().filter_map(|number| number.get(place)));
                }
                out.extend_from_slice(rest);
                out
            }
            Self::BitShuffle => bit_shuffle(lane, bytes),
            Self::Delta => {
                let before = std::iter::repeat_n(&0, lane).chain(bytes);
                bytes.iter().zip(before).map(|(byte, before)| byte.wrapping_sub(*before)).collect()
            }
        }
    }

    /// The bytes that [`apply`](Self::apply) made these of.
    pub(crate) fn undo(self, lane: usize, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Shuffle => {
                let numbers = bytes.len().checked_div(lane).unwrap_or(0);
                let mut out = vec![0; bytes.len()];
                for (place, plane) in bytes.chunks_exact(numbers.max(1)).take(lane).enumerate() {
                    let slots = out.iter_mut().skip(place).step_by(lane.max(1));
                    slots.zip(plane).for_each(|(slot, byte)| *slot = *byte);
                }
                let tail = numbers.saturating_mul(lane);
                if let (Some(slot), Some(rest)) = (out.get_mut(tail..), bytes.get(tail..)) {
                    slot.copy_from_slice(rest);
                }
                out
            }
            Self::BitShuffle => bit_unshuffle(lane, bytes),
            Self::Delta => {
                let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
                for (at, byte) in bytes.iter().enumerate() {
                    let before =
                        at.checked_sub(lane).and_then(|at| out.get(at)).copied().unwrap_or(0);
                    out.push(byte.wrapping_add(before));
                }
                out
            }
        }
    }
}

/// Numbers that are turned together: as many as a byte has bits.
const GROUP: usize = 8;

/// Bit `b` of byte `p` of eight numbers goes into one byte of plane `8 p + b`.
fn bit_shuffle(lane: usize, bytes: &[u8]) -> Vec<u8> {
    let groups = bytes.chunks_exact(lane.saturating_mul(GROUP).max(1));
    let (count, rest) = (groups.len(), groups.remainder());
    let mut out = vec![0; bytes.len()];
    for (at, group) in groups.enumerate() {
        for place in 0..lane {
            let mut word = [0; GROUP];
            let numbers = group.iter().skip(place).step_by(lane.max(1));
            word.iter_mut().zip(numbers).for_each(|(slot, byte)| *slot = *byte);
            let planes = out.iter_mut().skip(place.saturating_mul(GROUP).saturating_mul(count));
            let slots = planes.skip(at).step_by(count.max(1));
            slots.zip(turned(word)).for_each(|(slot, byte)| *slot = byte);
        }
    }
    let end = bytes.len().saturating_sub(rest.len());
    if let Some(tail) = out.get_mut(end..) {
        tail.copy_from_slice(rest);
    }
    out
}

fn bit_unshuffle(lane: usize, bytes: &[u8]) -> Vec<u8> {
    let group_bytes = lane.saturating_mul(GROUP).max(1);
    let count = bytes.len().checked_div(group_bytes).unwrap_or(0);
    let mut out = vec![0; bytes.len()];
    for (at, group) in out.chunks_exact_mut(group_bytes).enumerate() {
        for place in 0..lane {
            let mut word = [0; GROUP];
            let planes = bytes.iter().skip(place.saturating_mul(GROUP).saturating_mul(count));
            let numbers = planes.skip(at).step_by(count.max(1));
            word.iter_mut().zip(numbers).for_each(|(slot, byte)| *slot = *byte);
            let slots = group.iter_mut().skip(place).step_by(lane.max(1));
            slots.zip(turned(word)).for_each(|(slot, byte)| *slot = byte);
        }
    }
    let end = count.saturating_mul(group_bytes);
    if let (Some(slot), Some(rest)) = (out.get_mut(end..), bytes.get(end..)) {
        slot.copy_from_slice(rest);
    }
    out
}

/// Rows of eight bits as columns: bit `b` of byte `n` becomes bit `n` of byte `b`.
const fn turned(rows: [u8; GROUP]) -> [u8; GROUP] {
    let mut word = u64::from_le_bytes(rows);
    // Exchanges single bits of 2 x 2, then pairs of 4 x 4, then fours of the whole.
    let mut change = (word ^ (word >> 7)) & 0x00AA_00AA_00AA_00AA;
    word ^= change ^ (change << 7);
    change = (word ^ (word >> 14)) & 0x0000_CCCC_0000_CCCC;
    word ^= change ^ (change << 14);
    change = (word ^ (word >> 28)) & 0x0000_0000_F0F0_F0F0;
    word ^= change ^ (change << 28);
    word.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_undone_whatever_the_length() {
        for lane in [1, 2, 4, 8, 16] {
            for length in 0..200_u8 {
                let bytes: Vec<u8> = (0..length).map(|i| i.wrapping_mul(37) ^ (i >> 3)).collect();
                for filter in Filter::ALL {
                    let there = filter.apply(lane, &bytes);
                    assert_eq!(filter.undo(lane, &there), bytes, "{filter:?} {lane} {length}");
                }
            }
        }
    }

    #[test]
    fn bits_of_one_place_lie_together() {
        // Eight numbers of two bytes; number n has bit n of its lowest eight.
        let bytes: Vec<u8> = (0..8).flat_map(|n| [1_u8 << n, 0x80]).collect();
        let planes = Filter::BitShuffle.apply(2, &bytes);
        let low: Vec<u8> = (0..8).map(|bit| 1 << bit).collect();
        assert_eq!(planes[..8], low);
        assert_eq!(planes[8..], [0, 0, 0, 0, 0, 0, 0, 0xFF]);
    }
}
