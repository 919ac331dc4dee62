//! Which requests serve the stretches of a batch, and how their bodies are handed out.

use std::ops::Range;

use crate::source::SourceRead;

/// One request, and the buffers that its body fills.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) range: Range<u64>,
    /// In the order of their offsets.
    targets: Vec<SourceRead<'a>>,
    /// Targets before this one are full.
    first: usize,
}

/// Sorts stretches and joins near ones. None is longer than `most` bytes, and what lies between two
/// joined ones is no longer than `gap`.
pub(crate) fn plan<'a>(reads: &'a mut [SourceRead<'_>], gap: u64, most: u64) -> Vec<Request<'a>> {
    let piece = usize::try_from(most).unwrap_or(usize::MAX).max(1);
    let mut targets: Vec<SourceRead<'a>> = Vec::with_capacity(reads.len());
    for read in reads {
        let mut offset = read.offset;
        for buffer in read.buffer.chunks_mut(piece) {
            let length = length_of(buffer);
            targets.push(SourceRead { offset, buffer });
            offset = offset.saturating_add(length);
        }
    }
    targets.sort_unstable_by_key(|target| target.offset);
    let mut requests: Vec<Request<'a>> = Vec::new();
    for target in targets {
        let end = target.offset.saturating_add(length_of(target.buffer));
        if let Some(last) = requests.last_mut() {
            let longest = last.range.end.max(end);
            let is_near = target.offset <= last.range.end.saturating_add(gap);
            if is_near && longest.saturating_sub(last.range.start) <= most {
                last.range.end = longest;
                last.targets.push(target);
                continue;
            }
        }
        requests.push(Request { range: target.offset..end, targets: vec![target], first: 0 });
    }
    requests
}

impl Request<'_> {
    /// Copies a part of the body, the first byte of which lies at `offset` of the object, to where
    /// it belongs. Parts come in order.
    pub(crate) fn hand_out(&mut self, offset: u64, part: &[u8]) {
        let end = offset.saturating_add(length_of(part));
        while let Some(target) = self.targets.get(self.first)
            && target.offset.saturating_add(length_of(target.buffer)) <= offset
        {
            self.first = self.first.saturating_add(1);
        }
        for target in self.targets.iter_mut().skip(self.first) {
            if target.offset >= end {
                break;
            }
            let start = target.offset.max(offset);
            let inside = start.saturating_sub(target.offset);
            let behind = start.saturating_sub(offset);
            let (Ok(inside), Ok(behind)) = (usize::try_from(inside), usize::try_from(behind))
            else {
                continue;
            };
            let (Some(to), Some(from)) = (target.buffer.get_mut(inside..), part.get(behind..))
            else {
                continue;
            };
            let count = to.len().min(from.len());
            if let (Some(to), Some(from)) = (to.get_mut(..count), from.get(..count)) {
                to.copy_from_slice(from);
            }
        }
    }
}

pub(crate) fn length_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::single_range_in_vec_init
)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(wanted: &[(u64, usize)], gap: u64, most: u64) -> Vec<Range<u64>> {
        let mut buffers: Vec<Vec<u8>> = wanted.iter().map(|(_, length)| vec![0; *length]).collect();
        let mut reads: Vec<SourceRead<'_>> = wanted
            .iter()
            .zip(&mut buffers)
            .map(|((offset, _), buffer)| SourceRead { offset: *offset, buffer })
            .collect();
        plan(&mut reads, gap, most).into_iter().map(|request| request.range).collect()
    }

    #[test]
    fn near_stretches_share_a_request_and_far_ones_do_not() {
        assert_eq!(ranges(&[(100, 10), (0, 10), (15, 5)], 5, 1000), [0..20, 100..110]);
        assert_eq!(ranges(&[(100, 10), (0, 10), (15, 5)], 4, 1000), [0..10, 15..20, 100..110]);
        assert_eq!(ranges(&[(7, 3), (7, 3), (8, 1)], 0, 1000), [7..10], "duplicates");
    }

    #[test]
    fn a_request_has_a_bound_and_longer_stretches_take_several() {
        assert_eq!(ranges(&[(0, 10), (10, 10), (20, 10)], 5, 20), [0..20, 20..30]);
        assert_eq!(ranges(&[(5, 25)], 0, 10), [5..15, 15..25, 25..30]);
        assert_eq!(ranges(&[(5, 0)], 0, 10), []);
        assert_eq!(ranges(&[], 0, 10), []);
    }

    proptest! {
        #[test]
        fn every_buffer_gets_its_bytes(
            wanted in prop::collection::vec((0_u64..400, 0_usize..80), 0..20),
            gap in 0_u64..30,
            most in 1_u64..90,
            part in 1_usize..50,
        ) {
            let object: Vec<u8> = (0..480_u32).map(|at| (at * 37 % 251) as u8).collect();
            let mut buffers: Vec<Vec<u8>> =
                wanted.iter().map(|(_, length)| vec![0; *length]).collect();
            let mut reads: Vec<SourceRead<'_>> = wanted
                .iter()
                .zip(&mut buffers)
                .map(|((offset, _), buffer)| SourceRead { offset: *offset, buffer })
                .collect();
            for mut request in plan(&mut reads, gap, most) {
                prop_assert!(request.range.end - request.range.start <= most);
                let mut offset = request.range.start;
                let body = &object[request.range.start as usize..request.range.end as usize];
                for part in body.chunks(part) {
                    request.hand_out(offset, part);
                    offset += part.len() as u64;
                }
            }
            for ((offset, length), buffer) in wanted.iter().zip(&buffers) {
                prop_assert_eq!(&object[*offset as usize..*offset as usize + *length], buffer);
            }
        }
    }
}
