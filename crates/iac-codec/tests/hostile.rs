//! Payloads that are cut, altered, followed by something, empty, or much larger than they look.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;

use common::{codecs, note};
use iac_codec::{Codec, CodecError, CodecErrorKind, Limits, Result};

/// Decodes in every way and holds them against each other.
fn decode(codec: &Codec, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
    let decoded = codec.decode_bytes(payload, limits);
    let mut joined = b"kept".to_vec();
    let appended = codec.decode_bytes_append(payload, &mut joined, limits);
    assert_eq!(&joined[..4], b"kept");
    match &decoded {
        Ok(record) => {
            appended.unwrap();
            assert_eq!(&joined[4..], record);
            let mut out = vec![0xA5; record.len()];
            codec.decode_bytes_into(payload, &mut out, limits).unwrap();
            assert_eq!(&out, record);
            let mut longer = vec![0; record.len() + 1];
            let found = record.len() as u64;
            let error = codec.decode_bytes_into(payload, &mut longer, limits);
            if found < limits.max_decoded_bytes {
                let error = error.unwrap_err();
                assert!(matches!(&error, CodecError::OutputSize { found: f, .. } if *f == found));
            }
            if let Some(shorter) = record.len().checked_sub(1) {
                let error = codec.decode_bytes_into(payload, &mut vec![0; shorter], limits);
                assert!(
                    matches!(error, Err(CodecError::OutputSize { expected, .. })
                        if expected == shorter as u64),
                    "{error:?}"
                );
            }
        }
        Err(error) => {
            assert_eq!(appended.unwrap_err().to_string(), error.to_string());
            assert_eq!(joined, b"kept");
            assert!(codec.decode_bytes_into(payload, &mut [0; 100], limits).is_err());
        }
    }
    decoded
}

fn own_codecs() -> impl Iterator<Item = (String, Codec)> {
    codecs().into_iter().filter(|(_, codec)| codec.name() != "none")
}

#[test]
fn payload_cut_at_any_byte_is_an_error() {
    for (name, codec) in own_codecs() {
        let payload = codec.encode_bytes(&note(1).as_bytes()[..300]).unwrap();
        for cut in 0..payload.len() {
            let error = decode(&codec, &payload[..cut], &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Decode, "{name} cut at {cut}: {error}");
            assert!(error.to_string().contains(codec.name()));
        }
    }
}

#[test]
fn payload_with_any_altered_byte_is_an_error_or_a_record_within_the_limit() {
    let limits = Limits::default().with_max_decoded_bytes(4096);
    for (name, codec) in own_codecs() {
        let payload = codec.encode_bytes(&note(2).as_bytes()[..300]).unwrap();
        for at in 0..payload.len() {
            for flip in [0x01, 0x10, 0x80, 0xFF] {
                let mut payload = payload.clone();
                payload[at] ^= flip;
                match decode(&codec, &payload, &limits) {
                    Ok(record) => assert!(record.len() <= 4096, "{name}"),
                    Err(error) => assert!(
                        matches!(error.kind(), CodecErrorKind::Decode | CodecErrorKind::Limit),
                        "{name}: {error}"
                    ),
                }
            }
        }
    }
}

#[test]
fn what_follows_a_record_is_refused_except_by_brotli() {
    for (name, codec) in own_codecs() {
        for record in [&b""[..], note(3).as_bytes()] {
            let payload = codec.encode_bytes(record).unwrap();
            for junk in [&b"\0"[..], b"x", b"junk", b"\0\0\0\0\0\0\0\0", &[0xFF; 40]] {
                let decoded = decode(&codec, &[&payload, junk].concat(), &Limits::default());
                if codec.name() == "brotli" {
                    assert_eq!(decoded.unwrap(), record, "{name}");
                } else {
                    let error = decoded.unwrap_err();
                    assert_eq!(error.kind(), CodecErrorKind::Decode, "{name}: {error}");
                }
            }
        }
    }
}

#[test]
fn empty_payload_is_an_error() {
    for (name, codec) in own_codecs() {
        let error = decode(&codec, b"", &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode, "{name}");
    }
}

#[test]
fn bombs_stop_at_the_limit() {
    let record = vec![0; 50 << 20];
    for (name, codec) in own_codecs() {
        // Level 19 and quality 11 take long and make the same bomb.
        if name.contains(" 19") || name.contains(" 11 ") || name.contains(" 9 ") {
            continue;
        }
        let payload = codec.encode_bytes(&record).unwrap();
        for limit in [0, 1, 100_000, 8 << 20, (50 << 20) - 1] {
            let limits = Limits::default().with_max_decoded_bytes(limit);
            for error in [
                codec.decode_bytes(&payload, &limits).unwrap_err(),
                codec.decode_bytes_append(&payload, &mut Vec::new(), &limits).unwrap_err(),
            ] {
                assert!(
                    matches!(error, CodecError::Limit { found, allowed, .. }
                        if allowed == limit && found > limit),
                    "{name}: {error}"
                );
            }
        }
        let limits = Limits::default().with_max_decoded_bytes(50 << 20);
        assert_eq!(codec.decode_bytes(&payload, &limits).unwrap().len(), 50 << 20, "{name}");
        assert_eq!(codec.decode_bytes(&payload, &Limits::unlimited()).unwrap(), record, "{name}");
    }
}

#[test]
fn limit_that_fits_exactly_is_enough() {
    for (name, codec) in codecs() {
        for length in [0, 1, 5, 1000] {
            let record =
                note(4).as_bytes().iter().copied().cycle().take(length).collect::<Vec<_>>();
            let payload = codec.encode_bytes(&record).unwrap();
            let limits = Limits::default().with_max_decoded_bytes(length as u64);
            assert_eq!(decode(&codec, &payload, &limits).unwrap(), record, "{name}");
            if let Some(less) = (length as u64).checked_sub(1) {
                let limits = limits.with_max_decoded_bytes(less);
                let error = codec.decode_bytes(&payload, &limits).unwrap_err();
                assert_eq!(error.kind(), CodecErrorKind::Limit, "{name}");
            }
        }
    }
}

/// The library lets an untrue size pass in streams when the last block of the frame is empty; what
/// decodes whole payloads does not.
#[cfg(feature = "zstd")]
#[test]
fn untrue_size_of_a_frame_is_an_error_also_beside_a_frame_without_one() {
    const UNTRUE: [u8; 9] = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 5, 1, 0, 0];
    const SIZELESS: [u8; 11] = [0x28, 0xB5, 0x2F, 0xFD, 0, 0x58, 0x11, 0, 0, b'a', b'b'];
    let codec = common::make("zstd", &serde_json::json!({}));
    let limits = Limits::default();
    assert_eq!(codec.decode_bytes(&SIZELESS, &limits).unwrap(), b"ab");
    for payload in
        [UNTRUE.to_vec(), [&UNTRUE[..], &SIZELESS].concat(), [&SIZELESS[..], &UNTRUE].concat()]
    {
        let error = decode(&codec, &payload, &limits).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode, "{error}");
    }
}

/// Bits in the order in which Brotli reads them.
#[cfg(feature = "brotli")]
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

#[cfg(feature = "brotli")]
impl Bits {
    fn put(&mut self, value: u64, count: u32) {
        for bit in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((value >> bit & 1) as u8) << (self.used % 8);
            self.used += 1;
        }
    }
}

/// A stream with more commands than the only block of them has. Decoders that take that for missing
/// input never end, or run over their buffers.
#[cfg(feature = "brotli")]
#[test]
fn brotli_block_of_the_only_kind_that_runs_out_is_an_error() {
    const COMMANDS: usize = 1 << 24;
    let mut bits = Bits::default();
    bits.put(0b1111, 4); // a window of 2^24 bytes
    // A metablock of 100 bytes as they are.
    bits.put(0, 1); // not the last one
    bits.put(0, 2); // four digits of 4 bits
    bits.put(99, 16);
    bits.put(1, 1);
    bits.bytes.extend([b'b'; 100]);
    bits.used = 0;
    // The last metablock, of 65,536 bytes.
    bits.put(0b01, 2);
    bits.put(0, 2);
    bits.put(0xFFFF, 16);
    bits.put(0, 3); // one kind of block for literals, commands and distances
    bits.put(0, 6); // no postfix, no direct distances
    bits.put(0, 2); // context mode
    bits.put(0, 2); // one tree for literals, one for distances
    // Trees of one symbol, which takes no bits. Commands: no literals, a word of four characters.
    // Distances: 32,765 and 14 more bits.
    for (symbol, width) in [(u64::from(b'a'), 8), (130, 10), (42, 6)] {
        bits.put(0b0001, 4);
        bits.put(symbol, width);
    }
    // The first word, of which the first four characters are left out: nothing at all.
    for _ in 0..16 {
        bits.put(34 * 1024 + 100 - 32_764, 14);
    }
    let mut payload = bits.bytes;
    payload.pop(); // perhaps not whole
    let length = COMMANDS * 14 / 8 + 1000;
    // Four commands have seven bytes.
    while payload.len() < length {
        payload.push(payload[payload.len() - 7]);
    }
    let codec = iac_codec::brotli::BrotliOptions::default().codec().unwrap();
    let error = codec.decode_bytes(&payload, &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Decode, "{error}");
    assert!(error.to_string().contains("damaged"), "{error}");
    // It is cut, not damaged, where it ends before the block does.
    payload.truncate(COMMANDS);
    let error = codec.decode_bytes(&payload, &Limits::default()).unwrap_err();
    assert!(error.to_string().contains("cut"), "{error}");
}
