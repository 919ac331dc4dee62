//! Records that the reference and other encoders wrote.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;

use common::golden;
use iac_codec::{CodecErrorKind, Limits, Registry};
use sha2::{Digest as _, Sha256};

const GOLDENS: [&str; 7] = [
    "none_a",
    "zstd_a0",
    "zstd_a1",
    "brotli_a0",
    "brotli_a1",
    "foreign_zstd_a",
    "foreign_brotli_a",
];

fn compiled(name: &str) -> bool {
    iac_codec::compiled_codecs().contains(&name)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_records_decode_to_what_the_reference_decoded() {
    for name in GOLDENS {
        let golden = golden("container", name);
        if !compiled(golden.spec.name()) {
            continue;
        }
        let codec = Registry::builtin().create(&golden.spec).unwrap();
        let records = golden.json["records"].as_array().unwrap();
        let mut joined = b"before".to_vec();
        for (payload, record) in golden.payloads.iter().zip(records) {
            let limits = Limits::default();
            let decoded = codec.decode_bytes(payload, &limits).unwrap();
            assert_eq!(sha256(&decoded), record["decoded"]["sha256"].as_str().unwrap(), "{name}");
            let mut out = vec![1; decoded.len()];
            codec.decode_bytes_into(payload, &mut out, &limits).unwrap();
            assert_eq!(out, decoded);
            let before = joined.len();
            codec.decode_bytes_append(payload, &mut joined, &limits).unwrap();
            assert_eq!(joined[before..], decoded);
            if let Some(len) = codec.decoded_len(payload).unwrap() {
                assert_eq!(len, decoded.len() as u64);
            }
        }
        assert!(joined.starts_with(b"before"));
    }
}

#[test]
fn parameters_of_golden_headers_are_persisted_as_they_are() {
    for name in GOLDENS {
        let golden = golden("container", name);
        // One file was made from payloads without any parameters.
        if compiled(golden.spec.name()) && name != "foreign_brotli_a" {
            let codec = Registry::builtin().create_encoder(&golden.spec).unwrap();
            assert_eq!(codec.spec(), golden.spec, "{name}");
        }
    }
}

#[test]
fn damaged_payloads_fail_where_the_reference_fails() {
    for name in ["payload_zstd_a", "payload_brotli_a"] {
        let golden = golden("malformed", name);
        if !compiled(golden.spec.name()) {
            continue;
        }
        let codec = Registry::builtin().create(&golden.spec).unwrap();
        let steps = golden.json["reference_steps"]["decode_each_record"].as_array().unwrap();
        for (row, (payload, step)) in golden.payloads.iter().zip(steps).enumerate() {
            let decoded = codec.decode_bytes(payload, &Limits::default());
            if step["result"] == "ok" {
                let length = step["value"].as_u64().unwrap();
                assert_eq!(decoded.unwrap().len() as u64, length, "{name} row {row}");
            } else {
                assert_eq!(decoded.unwrap_err().kind(), CodecErrorKind::Decode, "{name} row {row}");
            }
        }
    }
}
