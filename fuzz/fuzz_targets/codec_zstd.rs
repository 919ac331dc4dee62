//! Zstandard payloads: what our one-shot decoder accepts is what the library's streaming decoder
//! accepts, with the same bytes; strict reading accepts less, never something else.
//!
//! An input is a payload.
#![no_main]

use std::sync::OnceLock;

use iac_codec::zstd::{ZstdOptions, train_dictionary};
use iac_codec::{Codec, CodecError};
use iac_fuzz::{Limited, codecs, seeds};
use libfuzzer_sys::fuzz_target;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

#[global_allocator]
static ALLOCATOR: Limited = Limited;

struct Codecs {
    plain: Codec,
    strict: Codec,
    dictionary: Codec,
}

fn all() -> &'static Codecs {
    static CODECS: OnceLock<Codecs> = OnceLock::new();
    CODECS.get_or_init(|| {
        let samples =
            (0..600).map(|n| format!("Case {n}: {} mm, margins clear, {}", n % 41, n * 7));
        let dictionary = train_dictionary(samples, 1024).unwrap();
        Codecs {
            plain: ZstdOptions::new(1).codec().unwrap(),
            strict: ZstdOptions::new(1).with_strict(true).codec().unwrap(),
            dictionary: ZstdOptions::new(1).with_dictionary(dictionary).codec().unwrap(),
        }
    })
}

fuzz_target!(
    init: {
        let codecs = all();
        seeds::write(|| {
            let mut made = codecs::seeds(&codecs.plain);
            let note = b"Case 77: 12 mm, margins clear, 539";
            made.push(("dictionary".into(), codecs.dictionary.encode_bytes(note).unwrap()));
            made
        });
    },
    |payload: &[u8]| {
        let codecs = all();
        let decoded = codecs::decode(&codecs.plain, payload);
        match (&decoded, streamed(payload)) {
            (Ok(ours), Streamed::Whole(theirs)) => assert!(*ours == theirs),
            (Err(_), Streamed::Refused | Streamed::TooLarge) => {}
            // The library wants no window above 128 MiB for itself; decoding in one go needs none.
            (_, Streamed::LargeWindow) => {}
            (Err(error), Streamed::Whole(theirs)) if is_refused_rightly(error, payload, &theirs) => {}
            (ours, theirs) => panic!("{:?} but {theirs:?}", ours.as_ref().map(Vec::len)),
        }
        let strict = codecs::decode(&codecs.strict, payload);
        if let Ok(record) = strict {
            assert!(decoded.is_ok_and(|decoded| decoded == record));
        }
        let _ = codecs::decode(&codecs.dictionary, payload);
        codecs::round_trip(&codecs.plain, payload);
        codecs::round_trip(&codecs.dictionary, payload);
    }
);

/// Two faults that the library lets pass when a last block of no bytes comes in a stream: a
/// compressed block that cannot be, and a content size that is not the truth.
fn is_refused_rightly(error: &CodecError, payload: &[u8], record: &[u8]) -> bool {
    let words = error.to_string();
    let claim = all().plain.decoded_len(payload);
    words.ends_with("a compressed block without any bytes")
        || words.contains("it claims")
        || claim.is_ok_and(|claim| claim.is_some_and(|claim| claim != record.len() as u64))
}

#[derive(Debug)]
enum Streamed {
    Whole(Vec<u8>),
    TooLarge,
    LargeWindow,
    Refused,
}

/// What the library does when it is given the payload as a stream.
fn streamed(payload: &[u8]) -> Streamed {
    if payload.is_empty() {
        return Streamed::Refused;
    }
    let mut context = DCtx::create();
    let mut input = InBuffer::around(payload);
    let mut whole = Vec::new();
    let mut piece = vec![0; 1 << 17];
    loop {
        let mut output = OutBuffer::around(&mut piece[..]);
        let hint = match context.decompress_stream(&mut output, &mut input) {
            Ok(hint) => hint,
            Err(code) if zstd_safe::get_error_name(code).contains("too much memory") => {
                return Streamed::LargeWindow;
            }
            Err(_) => return Streamed::Refused,
        };
        let written = output.as_slice();
        let full = written.len() == 1 << 17;
        whole.extend_from_slice(written);
        if whole.len() as u64 > codecs::MOST {
            return Streamed::TooLarge;
        }
        if input.pos() == payload.len() && !full {
            return if hint == 0 { Streamed::Whole(whole) } else { Streamed::Refused };
        }
    }
}
