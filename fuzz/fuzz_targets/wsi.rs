//! Packs of slides: any is refused, or read in all ways, which never do more than fail, and agree:
//! from shared memory and by copying, one by one and in batches, natively and by micrometres.
//!
//! An input is four bytes that choose a region, and the parts of a pack (see `pack_input`).
#![no_main]

use std::path::Path;

use iac_codec::{CodecSpec, Limits, Registry};
use iac_fuzz::pack_input::{FILL_IN, Parts, ROW_SUMS, SUMS};
use iac_fuzz::{Limited, assemble, seeds, slides};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((choice, rest)) = input.split_first_chunk::<4>() else { return };
        if let Some(file) = assemble(rest) {
            slides::exercise(*choice, file);
        }
    }
);

/// Golden packs and altered ones.
fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = root.join("crates/iac-adapters/tests/data/wsi");
    let zstd = Registry::global().create(&CodecSpec::new("zstd", Default::default())).unwrap();
    let mut made = Vec::new();
    for set in ["packs", "invalid"] {
        let frame = std::fs::read(folder.join(format!("{set}.zst"))).unwrap();
        let all = zstd.decode_bytes(&frame, &Limits::default()).unwrap();
        let list = std::fs::read(folder.join(format!("{set}.json"))).unwrap();
        let list: Vec<(String, usize)> = serde_json::from_slice(&list).unwrap();
        let mut rest = all.as_slice();
        for (number, (name, length)) in (0_u8..).zip(list) {
            let (bytes, behind) = rest.split_at(length);
            rest = behind;
            let Some(pack) = seeds::take_bytes_apart(name, bytes) else { continue };
            let text = seeds::own_members(&pack);
            // Differs from seed to seed, so that all ways of cutting are there from the start.
            let choice = [
                number.wrapping_mul(37),
                number.wrapping_mul(11),
                number.wrapping_mul(23),
                number.wrapping_mul(59),
            ];
            for (what, flags) in [("plain", FILL_IN), ("sums", FILL_IN | SUMS | ROW_SUMS)] {
                let parts = Parts {
                    flags,
                    text: text.as_bytes(),
                    slides: &pack.slides,
                    index: &pack.index,
                    data: &pack.data,
                };
                let Some(input) = parts.to_input().filter(|input| input.len() < 8188) else {
                    continue;
                };
                // Sums of altered packs are made anew, which says nothing that the others do not.
                if set == "packs" || flags == FILL_IN {
                    let name = format!("{set}.{}.{what}", pack.name);
                    made.push((name, [&choice[..], &input].concat()));
                }
            }
        }
    }
    made
}
