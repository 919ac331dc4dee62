//! LZ4 payloads: held against a decoder of a few lines that follows the description of the block
//! format.
//!
//! An input is a payload.
#![no_main]

use iac_fuzz::{Limited, codecs, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fuzz_target!(
    init: seeds::write(|| codecs::seeds(&iac_codec::lz4::codec())),
    |payload: &[u8]| {
        let codec = iac_codec::lz4::codec();
        let ours = codecs::decode(&codec, payload).ok();
        let theirs = plain(payload);
        assert!(ours == theirs, "{:?} but {:?}", ours.map(|o| o.len()), theirs.map(|t| t.len()));
        codecs::round_trip(&codec, payload);
    }
);

/// The record, or nothing if the payload is no sound one.
fn plain(payload: &[u8]) -> Option<Vec<u8>> {
    let (size, mut block) = payload.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes(*size) as usize;
    if size as u64 > codecs::MOST {
        return None;
    }
    let mut out = Vec::new();
    if size == 0 {
        return block.is_empty().then_some(out);
    }
    loop {
        let token = *block.split_off_first()?;
        let literals = length(token >> 4, &mut block)?;
        out.extend_from_slice(block.split_off(..literals)?);
        if block.is_empty() {
            return (out.len() == size).then_some(out);
        }
        let (offset, rest) = block.split_first_chunk::<2>()?;
        block = rest;
        let offset = usize::from(u16::from_le_bytes(*offset));
        let count = length(token & 15, &mut block)? + 4;
        let start = out.len().checked_sub(offset).filter(|_| offset != 0)?;
        if out.len() + count > size {
            return None;
        }
        for at in start..start + count {
            out.push(out[at]);
        }
    }
}

fn length(start: u8, block: &mut &[u8]) -> Option<usize> {
    let mut length = usize::from(start);
    if start == 15 {
        loop {
            let more = *block.split_off_first()?;
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Some(length)
}
