//! Filters before Zstandard: differences of neighbours, bytes of equal weight together, bits packed.

use crate::dicom::samples::PixelSamplesMut;

/// Puts the first bytes of all samples together, then the second ones, and so on.
pub(crate) fn shuffle(bytes: &[u8], width: usize) -> Vec<u8> {
    fn planes<const N: usize>(bytes: &[u8]) -> Vec<u8> {
        let (samples, _) = bytes.as_chunks::<N>();
        let mut planes = vec![0; samples.len().saturating_mul(N)];
        for (byte, plane) in planes.chunks_exact_mut(samples.len().max(1)).enumerate() {
            for (to, from) in plane.iter_mut().zip(samples) {
                *to = from.get(byte).copied().unwrap_or(0);
            }
        }
        planes
    }
    match width {
        2 => planes::<2>(bytes),
        4 => planes::<4>(bytes),
        8 => planes::<8>(bytes),
        _ => bytes.to_vec(),
    }
}

/// The reverse of [`shuffle`].
pub(crate) fn unshuffle(planes: &[u8], width: usize) -> Vec<u8> {
    if width <= 1 {
        return planes.to_vec();
    }
    let count = planes.len().checked_div(width).unwrap_or(0).max(1);
    let mut bytes = vec![0; planes.len()];
    for (byte, plane) in planes.chunks(count).enumerate() {
        for (to, from) in bytes.iter_mut().skip(byte).step_by(width).zip(plane) {
            *to = *from;
        }
    }
    bytes
}

/// Replaces each sample by its difference from the one `step` before it in its row (from 0 at the
/// beginning), where small differences of either sign are small numbers: 0, -1, 1, -2, 2 are 0, 1,
/// 2, 3, 4.
pub(crate) fn delta(bytes: &[u8], width: usize, step: usize, row: usize) -> Vec<u8> {
    fn rows<const N: usize>(
        bytes: &[u8],
        (step, row): (usize, usize),
        difference: impl Fn([u8; N], [u8; N]) -> [u8; N],
    ) -> Vec<u8> {
        let (samples, _) = bytes.as_chunks::<N>();
        let mut out = vec![0; samples.len().saturating_mul(N)];
        let (places, _) = out.as_chunks_mut::<N>();
        for (samples, places) in samples.chunks(row.max(1)).zip(places.chunks_mut(row.max(1))) {
            let first = samples.len().min(step);
            let (begin, rest) = places.split_at_mut(first);
            for (place, sample) in begin.iter_mut().zip(samples) {
                *place = difference(*sample, [0; N]);
            }
            let behind = samples.get(first..).unwrap_or_default();
            for (place, (sample, before)) in rest.iter_mut().zip(behind.iter().zip(samples)) {
                *place = difference(*sample, *before);
            }
        }
        out
    }
    let step = (step.max(1), row);
    match width {
        1 => rows(bytes, step, |sample: [u8; 1], before| {
            let by = u8::from_le_bytes(sample).wrapping_sub(u8::from_le_bytes(before));
            let by = by.cast_signed();
            ((by << 1) ^ (by >> 7)).to_le_bytes()
        }),
        2 => rows(bytes, step, |sample: [u8; 2], before| {
            let by = u16::from_le_bytes(sample).wrapping_sub(u16::from_le_bytes(before));
            let by = by.cast_signed();
            ((by << 1) ^ (by >> 15)).to_le_bytes()
        }),
        _ => rows(bytes, step, |sample: [u8; 4], before| {
            let by = u32::from_le_bytes(sample).wrapping_sub(u32::from_le_bytes(before));
            let by = by.cast_signed();
            ((by << 1) ^ (by >> 31)).to_le_bytes()
        }),
    }
}

/// Fills `out` with samples from the planes of their differences: the reverse of [`delta`] and
/// [`shuffle`]. Floating-point samples have no differences, and nothing happens to them.
pub(crate) fn undelta(planes: &[u8], out: PixelSamplesMut<'_>, step: usize, row: usize) {
    let step = (step.max(1), row.max(1));
    match out {
        PixelSamplesMut::U8(out) => undelta_bytes(planes, out, step),
        PixelSamplesMut::I8(out) => undelta_bytes(planes, bytemuck::cast_slice_mut(out), step),
        PixelSamplesMut::U16(out) => undelta_shorts(planes, out, step),
        PixelSamplesMut::I16(out) => undelta_shorts(planes, bytemuck::cast_slice_mut(out), step),
        PixelSamplesMut::U32(out) => undelta_longs(planes, out, step),
        PixelSamplesMut::I32(out) => undelta_longs(planes, bytemuck::cast_slice_mut(out), step),
        PixelSamplesMut::F32(_) | PixelSamplesMut::F64(_) => {}
    }
}

fn undelta_bytes(planes: &[u8], out: &mut [u8], (step, row): (usize, usize)) {
    for (out, bytes) in out.chunks_mut(row).zip(planes.chunks(row)) {
        for (to, from) in out.iter_mut().zip(bytes) {
            *to = (from >> 1) ^ (from & 1).wrapping_neg();
        }
        sum(out, step, u8::wrapping_add);
    }
}

// Row by row, so that what was unfolded at once is still at hand when it is added up.
fn undelta_shorts(planes: &[u8], out: &mut [u16], (step, row): (usize, usize)) {
    let (low, high) = planes.split_at(planes.len() / 2);
    for (out, (low, high)) in out.chunks_mut(row).zip(low.chunks(row).zip(high.chunks(row))) {
        for (to, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
            let word = u16::from_le_bytes([*low, *high]);
            *to = (word >> 1) ^ (word & 1).wrapping_neg();
        }
        sum(out, step, u16::wrapping_add);
    }
}

fn undelta_longs(planes: &[u8], out: &mut [u32], (step, row): (usize, usize)) {
    let bytes = unshuffle(planes, 4);
    let (words, _) = bytes.as_chunks::<4>();
    for (out, words) in out.chunks_mut(row).zip(words.chunks(row)) {
        for (to, word) in out.iter_mut().zip(words) {
            let word = u32::from_le_bytes(*word);
            *to = (word >> 1) ^ (word & 1).wrapping_neg();
        }
        sum(out, step, u32::wrapping_add);
    }
}

/// Adds up the differences of a row.
fn sum<T: Copy>(row: &mut [T], step: usize, add: impl Fn(T, T) -> T) {
    if step == 1 {
        let Some((first, rest)) = row.split_first_mut() else {
            return;
        };
        let mut before = *first;
        for sample in rest {
            before = add(*sample, before);
            *sample = before;
        }
        return;
    }
    for position in step..row.len() {
        let before = position.checked_sub(step).and_then(|before| row.get(before)).copied();
        if let (Some(before), Some(sample)) = (before, row.get_mut(position)) {
            *sample = add(*sample, before);
        }
    }
}

/// Packs samples of 0 and 1 into bits, the first one lowest.
pub(crate) fn pack_bits(samples: &[u8]) -> Vec<u8> {
    samples
        .chunks(8)
        .map(|eight| {
            eight.iter().rev().fold(0, |byte: u8, sample| (byte << 1) | u8::from(*sample != 0))
        })
        .collect()
}

/// Unpacks `count` bits from the `start`-th on; bits that are not there are 0.
pub(crate) fn unpack_bits(bytes: &[u8], start: usize, count: usize) -> Vec<u8> {
    (start..start.saturating_add(count))
        .map(|bit| bytes.get(bit / 8).map_or(0, |byte| (byte >> (bit % 8)) & 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dicom::samples::{PixelSamples, PixelType};

    #[test]
    fn filters_are_reversed_whatever_the_samples() {
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..6 * 4 * 8)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.to_le_bytes()[7]
            })
            .collect();
        for pixel_type in PixelType::ALL {
            let width = pixel_type.bytes();
            assert_eq!(unshuffle(&shuffle(&noise, width), width), noise);
            if pixel_type.is_float() {
                continue;
            }
            for (step, row) in [(1, 6), (3, 6), (1, 1), (4, 8)] {
                let planes = shuffle(&delta(&noise, width, step, row), width);
                let mut back = PixelSamples::zeroed(pixel_type, noise.len() / width).unwrap();
                undelta(&planes, back.as_mut(), step, row);
                assert_eq!(back, PixelSamples::from_le_bytes(pixel_type, &noise));
            }
        }
    }

    #[test]
    fn differences_of_either_sign_are_small_numbers() {
        let samples: Vec<u8> =
            [0_u16, 0xFFFF, 0, 0xFFFE, 0].iter().flat_map(|it| it.to_le_bytes()).collect();
        let words = delta(&samples, 2, 1, 5);
        assert_eq!(words, [0, 0, 1, 0, 2, 0, 3, 0, 4, 0]);
    }

    #[test]
    fn bits_begin_anywhere() {
        let samples = [1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1];
        let packed = pack_bits(&samples);
        assert_eq!(packed, [0b0011_1001, 0b101]);
        assert_eq!(unpack_bits(&packed, 0, 11), samples);
        assert_eq!(unpack_bits(&packed, 3, 6), samples[3..9]);
        assert_eq!(unpack_bits(&packed, 14, 4), [0; 4]);
    }
}
