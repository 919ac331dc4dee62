//! Brotli payloads: the backend in pure Rust and the one in C accept and refuse the same, with the
//! same bytes, and each reads what the other writes.
//!
//! An input is one byte that chooses parameters, then a payload, which is also a record.
#![no_main]

use iac_codec::brotli::{BrotliBackend, BrotliOptions};
use iac_fuzz::{Limited, codecs, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fuzz_target!(
    init: seeds::write(|| {
        let codec = BrotliOptions::default().with_quality(5).codec().unwrap();
        let made = codecs::seeds(&codec).into_iter();
        made.map(|(name, payload)| (name, [&[5][..], &payload].concat())).collect()
    }),
    |input: &[u8]| {
        let Some((choice, payload)) = input.split_first() else { return };
        let quality = choice % 12;
        let lgwin = 10 + (choice / 12) % 15;
        let options = BrotliOptions::default().with_quality(quality).with_lgwin(lgwin);
        let pure = options.with_backend(BrotliBackend::PureRust).codec().unwrap();
        let c = options.with_backend(BrotliBackend::C).codec().unwrap();
        match (codecs::decode(&pure, payload), codecs::decode(&c, payload)) {
            (Ok(a), Ok(b)) => assert!(a == b),
            (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind(), "{a} but {b}"),
            (a, b) => panic!("{:?} but {:?}", a.map(|a| a.len()), b.map(|b| b.len())),
        }
        // The best qualities take long; that they work is tested elsewhere.
        if quality < 10 {
            let limits = codecs::limits();
            let by_pure = pure.encode_bytes(payload).unwrap();
            assert_eq!(c.decode_bytes(&by_pure, &limits).unwrap(), payload);
            let by_c = c.encode_bytes(payload).unwrap();
            assert_eq!(pure.decode_bytes(&by_c, &limits).unwrap(), payload);
        }
    }
);
