//! Zstandard payloads, held against the library's two decoders, for whole payloads and for streams.
//!
//! The two disagree about damaged frames: one counts on true sizes of content, the other on blocks
//! that fit their window. What both accept must be accepted here, and nothing that the first does
//! not accept; always with the same bytes. Strict reading accepts less, never something else.
//!
//! An input is a payload.
#![no_main]

use std::cell::RefCell;
use std::sync::OnceLock;

use iac_codec::Codec;
use iac_codec::zstd::{ZstdOptions, train_dictionary};
use iac_fuzz::{Limited, codecs, seeds};
use libfuzzer_sys::fuzz_target;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

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
            // A frame that says 5 bytes and has none, and one that does not say its size.
            let untrue = b"\x28\xB5\x2F\xFD\x20\x05\x01\0\0\x28\xB5\x2F\xFD\0\x58\x11\0\0ab";
            made.push(("untrue-size".into(), untrue.to_vec()));
            made
        });
    },
    |payload: &[u8]| {
        let codecs = all();
        let decoded = codecs::decode(&codecs.plain, payload);
        let whole = in_one_go(payload);
        let stream = streamed(payload);
        match (&decoded, &whole, &stream) {
            (Ok(ours), Some(whole), None) => assert!(ours == whole),
            (Ok(ours), Some(whole), Some(stream)) => assert!(ours == whole && ours == stream),
            (Err(_), None, _) | (Err(_), _, None) => {}
            _ => panic!(
                "{:?}, but the library says {:?} and, of a stream, {:?}",
                decoded.as_ref().map(Vec::len),
                whole.map(|record| record.len()),
                stream.map(|record| record.len())
            ),
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

/// Bytes that a frame's header has at most.
const HEADER_BYTES: usize = 18;

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; codecs::MOST as usize]);
}

/// The record, if the library accepts the payload as a whole and it is not too large.
fn in_one_go(payload: &[u8]) -> Option<Vec<u8>> {
    if payload.is_empty() {
        return None;
    }
    ROOM.with_borrow_mut(|room| {
        let written = DCtx::create().decompress(&mut room[..], payload).ok()?;
        Some(room[..written].to_vec())
    })
}

/// The record, if the library accepts the payload as a stream and it is not too large.
///
/// All output stays in one buffer, else what a damaged frame decodes to would depend on how large
/// the library makes its window. Headers come byte by byte, else the library would decode frames
/// that fit their buffers in one go.
fn streamed(payload: &[u8]) -> Option<Vec<u8>> {
    if payload.is_empty() {
        return None;
    }
    ROOM.with_borrow_mut(|room| {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::StableOutBuffer(true)).unwrap();
        context.set_parameter(DParameter::WindowLogMax(31)).unwrap();
        let mut output = OutBuffer::around(&mut room[..]);
        let (mut position, mut start) = (0, 0);
        loop {
            let end = if position - start < HEADER_BYTES { position + 1 } else { payload.len() };
            let mut input = InBuffer::around(&payload[..end]);
            input.set_pos(position);
            let hint = context.decompress_stream(&mut output, &mut input).ok()?;
            position = input.pos();
            if hint == 0 {
                start = position;
            }
            if position == payload.len() {
                return (hint == 0).then(|| output.as_slice().to_vec());
            }
        }
    })
}
