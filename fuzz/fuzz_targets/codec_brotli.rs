//! Brotli payloads: the C library accepts and refuses the same, with the same bytes, and what either
//! backend writes is read.
//!
//! An input is one byte that chooses parameters, then a payload, which is also a record.
#![no_main]

use brotlic::{BrotliDecoder, decode::DecoderInfo};
use iac_codec::CodecErrorKind;
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
        let mut out = vec![0; usize::try_from(codecs::limits().max_decoded_bytes).unwrap() + 1];
        let theirs = BrotliDecoder::new().decompress(payload, &mut out);
        match (codecs::decode(&pure, payload), theirs) {
            (Ok(record), Ok(found)) => {
                assert!(matches!(found.info, DecoderInfo::Finished));
                assert!(record == out[..found.bytes_written]);
            }
            (Err(error), Ok(found)) => match found.info {
                DecoderInfo::Finished => assert_eq!(found.bytes_written, out.len(), "{error}"),
                DecoderInfo::NeedsMoreInput => {
                    assert_eq!(error.kind(), CodecErrorKind::Decode, "{error}");
                }
                DecoderInfo::NeedsMoreOutput => {
                    assert_eq!(error.kind(), CodecErrorKind::Limit, "{error}");
                }
            },
            (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => panic!("{error}"),
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
