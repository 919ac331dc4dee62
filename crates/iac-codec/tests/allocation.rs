//! Memory that hostile payloads make a decoder ask for. One test, as others would be counted too.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation, unsafe_code)]

mod common;
#[path = "common/watched.rs"]
mod watched;

use common::codecs;
use iac_codec::{CodecError, Limits};
use watched::largest_in;

#[test]
fn nothing_is_allocated_past_the_limit_or_for_a_claim() {
    const LIMIT: usize = 3 << 20;
    let record = vec![5; 50 << 20];
    let limits = Limits::default().with_max_decoded_bytes(LIMIT as u64);
    for (name, codec) in codecs() {
        if name == "none" || name.contains("19") || name.contains("11") {
            continue;
        }
        let payload = codec.encode_bytes(&record).unwrap();
        // A Brotli stream may ask for a window of 16 MiB and a little, whatever it decodes to.
        let window = if codec.name() == "brotli" { 17 << 20 } else { 0 };
        let ((), largest) = largest_in(|| {
            for error in [
                codec.decode_bytes(&payload, &limits).unwrap_err(),
                codec.decode_bytes_append(&payload, &mut Vec::new(), &limits).unwrap_err(),
            ] {
                assert!(matches!(error, CodecError::Limit { .. }), "{error}");
            }
        });
        assert!(largest <= LIMIT.max(window), "{name}: {largest}");
    }
    // Two gigabytes, claimed by a few bytes.
    let zstd = [0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0, 0, 0, 0x7F, 3 << 3 | 1, 0, 0, b'a', b'b', b'c'];
    let lz4 = [0, 0, 0, 0x7F, 0x30, b'a', b'b', b'c'];
    for (name, codec) in codecs() {
        let payload = match codec.name() {
            "zstd" => &zstd[..],
            "lz4" => &lz4[..],
            _ => continue,
        };
        let ((), largest) = largest_in(|| {
            let error = codec.decode_bytes(payload, &Limits::unlimited()).unwrap_err();
            assert!(matches!(error, CodecError::Decode { .. }), "{error}");
            assert!(codec.decoded_len(payload).is_err());
        });
        assert!(largest < 4096, "{name}: {largest}");
    }
}
