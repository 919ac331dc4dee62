//! The beginning of a record, without decoding the rest.
#![cfg(all(feature = "zstd", feature = "brotli"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use iac_codec::brotli::{BrotliBackend, BrotliOptions};
use iac_codec::zstd::{ZstdOptions, train_dictionary};
use iac_codec::{Codec, CodecErrorKind, Limits};

fn record(bytes: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let words = ["biopsy", "margin", "benign", "necrosis", "grade", "normal", "left", "right"];
    let mut text = String::new();
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(words[usize::try_from(state >> 61).unwrap()]);
        text.push_str(&format!(" {} ", state >> 44));
    }
    text.truncate(bytes);
    text.into_bytes()
}

fn codecs() -> Vec<Codec> {
    let samples: Vec<Vec<u8>> = record(400_000).chunks(500).map(|chunk| chunk.to_vec()).collect();
    let dictionary = train_dictionary(&samples, 4096).unwrap();
    let mut codecs = vec![
        Codec::none(),
        ZstdOptions::new(3).codec().unwrap(),
        ZstdOptions::new(3).with_dictionary(dictionary).codec().unwrap(),
        BrotliOptions::default()
            .with_quality(5)
            .with_backend(BrotliBackend::PureRust)
            .codec()
            .unwrap(),
    ];
    #[cfg(feature = "brotli-c")]
    codecs.push(
        BrotliOptions::default().with_quality(5).with_backend(BrotliBackend::C).codec().unwrap(),
    );
    if cfg!(feature = "lz4") {
        codecs.push(iac_codec::Registry::global().create_encoder(&"lz4".parse_spec()).unwrap());
    }
    codecs
}

trait ParseSpec {
    fn parse_spec(&self) -> iac_codec::CodecSpec;
}

impl ParseSpec for str {
    fn parse_spec(&self) -> iac_codec::CodecSpec {
        iac_codec::CodecSpec::new(self, iac_codec::Parameters::new())
    }
}

#[test]
fn a_prefix_is_the_beginning_of_the_record_and_at_least_what_is_wanted() {
    for codec in codecs() {
        for bytes in [0, 1, 1000, 700_000] {
            let record = record(bytes);
            let payload = codec.encode_bytes(&record).unwrap();
            for wanted in [0, 1, 4, 1023, 1024, 100_000, 699_999, 700_000, 700_001, usize::MAX] {
                let start = codec
                    .decode_bytes_prefix(&payload, &mut |_| wanted, &Limits::default())
                    .unwrap();
                assert!(record.starts_with(&start), "{codec:?} {bytes} {wanted}");
                assert!(start.len() >= wanted.min(bytes), "{codec:?} {bytes} {wanted}");
            }
        }
    }
}

#[test]
fn what_is_wanted_may_grow_with_what_is_seen() {
    let mut record = record(700_000);
    record[..4].copy_from_slice(&5000_u32.to_le_bytes());
    for codec in codecs() {
        let payload = codec.encode_bytes(&record).unwrap();
        let start = codec
            .decode_bytes_prefix(
                &payload,
                &mut |seen| {
                    assert!(record.starts_with(seen));
                    seen.first_chunk::<4>()
                        .map_or(4, |head| 4 + usize::try_from(u32::from_le_bytes(*head)).unwrap())
                },
                &Limits::default(),
            )
            .unwrap();
        assert!(start.len() >= 5004, "{codec:?}");
        if ["brotli", "zstd", "none"].contains(&codec.name()) {
            assert!(start.len() <= 140_000, "{codec:?} decoded {}", start.len());
        }
    }
}

#[test]
fn damage_behind_what_is_wanted_does_not_matter_and_before_it_is_an_error() {
    let record = record(700_000);
    for codec in codecs().into_iter().filter(|codec| codec.name() == "brotli") {
        let payload = codec.encode_bytes(&record).unwrap();
        let cut = &payload[..payload.len() / 2];
        let limits = Limits::default();
        let start = codec.decode_bytes_prefix(cut, &mut |_| 1000, &limits).unwrap();
        assert!(record.starts_with(&start) && start.len() >= 1000);
        let error = codec.decode_bytes_prefix(cut, &mut |_| record.len(), &limits).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode);
        codec.decode_bytes_prefix(&[], &mut |_| 1, &limits).unwrap_err();
    }
}

#[test]
fn limits_hold_for_prefixes() {
    let record = vec![b'x'; 3_000_000];
    let limits = Limits::default().with_max_decoded_bytes(300_000);
    for codec in codecs() {
        let payload = codec.encode_bytes(&record).unwrap();
        let error = codec.decode_bytes_prefix(&payload, &mut |_| usize::MAX, &limits).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Limit, "{codec:?}: {error}");
        if ["brotli", "none"].contains(&codec.name()) {
            codec.decode_bytes_prefix(&payload, &mut |_| 300_000, &limits).unwrap();
        }
    }
}
