//! Parameters: tolerant on read where the reference is, strict on encode.
// What only some features need is unused with the others.
#![allow(dead_code, unused_imports)]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use common::make;
use iac_codec::{CodecErrorKind, CodecSpec, Registry};
use serde_json::{Value, json};

/// Says what encoding with parameters fails with, having seen that reading with them does not.
fn complaint(name: &str, parameters: &Value) -> String {
    let codec = make(name, parameters);
    let error = codec.check_encode().unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Usage);
    let message = error.to_string();
    assert_eq!(codec.encode_bytes(b"x").unwrap_err().to_string(), message);
    let spec = CodecSpec::from_members(Some(&json!(name)), Some(parameters)).unwrap();
    let error = Registry::builtin().create_encoder(&spec).unwrap_err();
    assert_eq!(error.to_string(), message);
    message
}

/// Says what reading with parameters fails with, and encoding too.
fn refusal(name: &str, parameters: &Value) -> String {
    let spec = CodecSpec::from_members(Some(&json!(name)), Some(parameters)).unwrap();
    let registry = Registry::builtin();
    let error = registry.create(&spec).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Decode);
    assert_eq!(error.field(), Some("codec_params"));
    let message = error.to_string();
    let error = registry.create_encoder(&spec).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (CodecErrorKind::Usage, message.clone()));
    message
}

fn persisted(name: &str, parameters: &Value) -> Value {
    Value::Object(make(name, parameters).parameters())
}

#[test]
fn none_ignores_all_parameters() {
    let codec = make("none", &json!({"level": "high", "x": null}));
    codec.check_encode().unwrap();
    assert!(codec.parameters().is_empty());
    assert!(codec.required_extensions().is_empty());
}

#[cfg(feature = "zstd")]
mod zstd {
    use super::*;
    use common::{dictionary, note};
    use iac_codec::zstd::{ZstdOptions, train_dictionary};
    use iac_codec::{CodecError, Limits};

    #[test]
    fn level_is_persisted_as_given_and_clamped_by_the_library() {
        assert_eq!(persisted("zstd", &json!({})), json!({"level": 19}));
        let payload = |level| make("zstd", &json!({"level": level})).encode_bytes(&[9; 500]);
        for level in [i32::MIN, -5, 0, 23, 100, i32::MAX] {
            assert_eq!(persisted("zstd", &json!({"level": level})), json!({"level": level}));
            let decoded =
                make("zstd", &json!({})).decode_bytes(&payload(level).unwrap(), &Limits::default());
            assert_eq!(decoded.unwrap(), [9; 500]);
        }
        assert_eq!(payload(23).unwrap(), payload(22).unwrap());
        assert_eq!(payload(0).unwrap(), payload(3).unwrap());
    }

    #[test]
    fn wrong_level_reads_as_the_default_and_does_not_encode() {
        for (level, found) in [
            (json!(null), "null"),
            (json!("3"), "a text"),
            (json!(3.0), "3.0"),
            (json!(true), "a boolean"),
            (json!(1_u64 << 63), "9223372036854775808"),
            (json!(3e9), "3000000000.0"),
        ] {
            let parameters = json!({"level": level});
            assert_eq!(persisted("zstd", &parameters), json!({"level": 19}));
            assert_eq!(
                complaint("zstd", &parameters),
                format!(
                    "codec `zstd`: parameter `level`: {found} instead of an integer from \
                     -2147483648 to 2147483647"
                )
            );
        }
        assert_eq!(
            complaint("zstd", &json!({"lvl": 3})),
            "codec `zstd`: parameter `lvl`: is not known, there are level, dictionary"
        );
    }

    #[test]
    fn level_beyond_32_bits_is_refused_even_on_read() {
        for level in [2_147_483_648, -2_147_483_649, i64::MAX, i64::MIN] {
            assert_eq!(
                refusal("zstd", &json!({"level": level, "other": 1})),
                format!(
                    "codec `zstd`: parameter `level`: {level} instead of an integer from \
                     -2147483648 to 2147483647"
                )
            );
        }
    }

    #[test]
    fn options_of_a_header_read_what_the_header_describes() {
        let written = ZstdOptions::new(7).with_dictionary(dictionary().to_vec()).codec().unwrap();
        let options = ZstdOptions::from_spec(&written.spec()).unwrap();
        assert_eq!(options, ZstdOptions::new(7).with_dictionary(dictionary().to_vec()));
        let strict = options.with_strict(true).codec().unwrap();
        assert_eq!(strict.spec(), written.spec());
        let payload = written.encode_bytes(b"a note").unwrap();
        assert_eq!(strict.decode_bytes(&payload, &Limits::default()).unwrap(), b"a note");
        let twice = [&payload[..], &payload].concat();
        strict.decode_bytes(&twice, &Limits::default()).unwrap_err();

        let error = ZstdOptions::from_spec(&CodecSpec::none()).unwrap_err();
        assert_eq!(error.to_string(), "the records are of codec `none`, not of `zstd`");
        assert_eq!(error.kind(), CodecErrorKind::Usage);
        let bad = make_spec(&json!({"dictionary": "*"}));
        assert_eq!(ZstdOptions::from_spec(&bad).unwrap_err().kind(), CodecErrorKind::Decode);
    }

    fn make_spec(parameters: &Value) -> CodecSpec {
        CodecSpec::from_members(Some(&json!("zstd")), Some(parameters)).unwrap()
    }

    #[test]
    fn dictionary_is_persisted_and_must_be_named_as_an_extension() {
        let codec = ZstdOptions::new(3).with_dictionary(dictionary().to_vec()).codec().unwrap();
        assert_eq!(codec.required_extensions(), ["iac.zstd.dictionary"]);
        assert!(make("zstd", &json!({})).required_extensions().is_empty());
        let record = note(99_999);
        let payload = codec.encode_bytes(record.as_bytes()).unwrap();
        let parameters = Value::Object(codec.parameters());
        let again = make("zstd", &parameters);
        assert_eq!(again.spec(), codec.spec());
        let limits = Limits::default();
        assert_eq!(again.decode_bytes(&payload, &limits).unwrap(), record.as_bytes());
        let plain = make("zstd", &json!({"level": 3}));
        assert!(plain.encode_bytes(record.as_bytes()).unwrap().len() > payload.len());
        let error = plain.decode_bytes(&payload, &limits).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode);
        assert!(error.to_string().contains("needs dictionary"), "{error}");
        // A frame without a dictionary is readable with one.
        let payload = plain.encode_bytes(record.as_bytes()).unwrap();
        assert_eq!(codec.decode_bytes(&payload, &limits).unwrap(), record.as_bytes());
    }

    #[test]
    fn frame_of_another_dictionary_is_refused() {
        let other = train_dictionary((5000..7000).map(note), 2048).unwrap();
        let other = ZstdOptions::new(3).with_dictionary(other).codec().unwrap();
        let own = ZstdOptions::new(3).with_dictionary(dictionary().to_vec()).codec().unwrap();
        let payload = other.encode_bytes(note(1).as_bytes()).unwrap();
        let error = own.decode_bytes(&payload, &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("but the codec has dictionary"), "{error}");
    }

    #[test]
    fn dictionary_that_is_none_is_refused_even_on_read() {
        use base64::Engine as _;
        let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let mut no_id = dictionary().to_vec();
        no_id[4..8].fill(0);
        let mut cut = dictionary().to_vec();
        cut.truncate(20);
        for (text, reason) in [
            ("*".to_owned(), "is no base64"),
            (encode(b"raw content"), "an id other than 0"),
            (encode(&no_id), "an id other than 0"),
            (encode(&cut), "is damaged"),
            (encode(&[0; 32_769]), "32769 bytes, above the 32768"),
            ("A".repeat(50_000), "50000 characters"),
        ] {
            let parameters = json!({"dictionary": text});
            let error = Registry::builtin().create(&make_spec(&parameters)).unwrap_err();
            assert!(matches!(&error, CodecError::HeaderParameter { parameter, .. }
                if parameter == "dictionary"));
            assert!(refusal("zstd", &parameters).contains(reason), "{error}");
        }
        assert!(
            complaint("zstd", &json!({"dictionary": 5})).contains("a number instead of a text")
        );
    }

    #[test]
    fn dictionaries_of_32_kib_are_allowed() {
        let large = train_dictionary((0..6000).map(note), 32 << 10).unwrap();
        assert!(large.len() > 20_000);
        let codec = ZstdOptions::new(3).with_dictionary(large).codec().unwrap();
        make("zstd", &Value::Object(codec.parameters()));
    }

    #[test]
    fn training_on_too_little_is_refused() {
        assert!(train_dictionary([b"a"; 0], 1024).is_err());
        assert!(train_dictionary([b"a"; 3], 1024).is_err());
        assert!(train_dictionary((0..2000).map(note), (32 << 10) + 1).is_err());
        assert!(train_dictionary((0..2000).map(note), 0).is_err());
    }

    #[test]
    fn strict_wants_exactly_one_frame() {
        let tolerant = ZstdOptions::default().codec().unwrap();
        let strict = ZstdOptions::default().with_strict(true).codec().unwrap();
        let limits = Limits::default();
        let frame = strict.encode_bytes(b"abc").unwrap();
        let skippable = [0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 9];
        assert_eq!(strict.decode_bytes(&frame, &limits).unwrap(), b"abc");
        for (payload, record) in [
            ([&frame[..], &frame].concat(), &b"abcabc"[..]),
            ([&skippable, &frame[..]].concat(), b"abc"),
            ([&frame, &skippable[..]].concat(), b"abc"),
            (skippable.to_vec(), b""),
        ] {
            assert_eq!(tolerant.decode_bytes(&payload, &limits).unwrap(), record);
            assert_eq!(tolerant.decoded_len(&payload).unwrap(), Some(record.len() as u64));
            let error = strict.decode_bytes(&payload, &limits).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Decode);
        }
        assert_eq!(strict.spec(), tolerant.spec());
    }

    #[test]
    fn frames_without_a_content_size_grow_as_they_are_decoded() {
        let codec = ZstdOptions::default().codec().unwrap();
        let text: Vec<u8> = (0..9000).flat_map(|n| note(n).into_bytes()).collect();
        let zeros = vec![0; 20 << 20];
        for record in [&text[..0], &text[..100], &text[..131_073], &text, &zeros] {
            let mut context = zstd_safe::CCtx::create();
            context.set_parameter(zstd_safe::CParameter::ContentSizeFlag(false)).unwrap();
            context.set_parameter(zstd_safe::CParameter::ChecksumFlag(true)).unwrap();
            let mut payload = Vec::with_capacity(zstd_safe::compress_bound(record.len()));
            context.compress2(&mut payload, record).unwrap();
            assert_eq!(codec.decoded_len(&payload).unwrap(), None);
            let twice = [&payload[..], &payload].concat();
            let limits = Limits::default();
            assert_eq!(codec.decode_bytes(&payload, &limits).unwrap(), record);
            assert_eq!(codec.decode_bytes(&twice, &limits).unwrap(), [record, record].concat());
            let mut joined = b"kept".to_vec();
            codec.decode_bytes_append(&payload, &mut joined, &limits).unwrap();
            assert_eq!(joined, [b"kept", record].concat());
            let mut out = vec![0; record.len()];
            codec.decode_bytes_into(&payload, &mut out, &limits).unwrap();
            assert_eq!(out, record);
            out.push(0);
            assert!(matches!(
                codec.decode_bytes_into(&payload, &mut out, &limits),
                Err(CodecError::OutputSize { found, .. }) if found == record.len() as u64
            ));
            let exact = limits.with_max_decoded_bytes(record.len() as u64);
            assert_eq!(codec.decode_bytes(&payload, &exact).unwrap(), record);
            if let Some(less) = (record.len() as u64).checked_sub(1) {
                let error = codec.decode_bytes(&payload, &limits.with_max_decoded_bytes(less));
                assert_eq!(error.unwrap_err().kind(), CodecErrorKind::Limit);
            }
            // The checksum at the end is not there for nothing.
            *payload.last_mut().unwrap() ^= 1;
            let error = codec.decode_bytes(&payload, &limits).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Decode);
        }
    }

    #[test]
    fn content_size_that_lies_is_an_error_before_memory_is_taken() {
        let codec = ZstdOptions::default().codec().unwrap();
        let mut payload = codec.encode_bytes(&common::noise(70_000)).unwrap();
        let honest = u32::from_le_bytes(payload[5..9].try_into().unwrap());
        assert_eq!((payload[4], honest), (0xA0, 70_000));
        for claim in [0, 69_999, 70_001, u32::MAX] {
            payload[5..9].copy_from_slice(&claim.to_le_bytes());
            let error = codec.decode_bytes(&payload, &Limits::unlimited()).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Decode, "{error}");
            let mut out = vec![0; 70_000];
            assert!(codec.decode_bytes_into(&payload, &mut out, &Limits::unlimited()).is_err());
        }
    }
}

#[cfg(feature = "brotli")]
mod brotli {
    use super::*;
    use common::brotli_backends;
    use iac_codec::Limits;
    use iac_codec::brotli::BrotliOptions;

    #[test]
    fn both_parameters_are_always_persisted() {
        assert_eq!(persisted("brotli", &json!({})), json!({"lgwin": 24, "quality": 11}));
        let given = json!({"quality": 0, "lgwin": 10});
        assert_eq!(persisted("brotli", &given), given);
    }

    #[test]
    fn values_out_of_range_are_refused_even_on_read() {
        for (parameters, message) in [
            (json!({"quality": 12}), "`quality`: 12 instead of an integer from 0 to 11"),
            (
                json!({"quality": u64::MAX, "lgwin": -1}),
                "`quality`: 18446744073709551615 instead of an integer from 0 to 11",
            ),
            (json!({"lgwin": 9}), "`lgwin`: 9 instead of an integer from 10 to 24"),
            (json!({"lgwin": 25}), "`lgwin`: 25 instead of an integer from 10 to 24"),
        ] {
            let found = refusal("brotli", &parameters);
            assert_eq!(found, format!("codec `brotli`: parameter {message}"));
        }
    }

    #[test]
    fn wrong_values_read_as_the_default_and_do_not_encode() {
        for (parameters, message) in [
            (json!({"quality": -1}), "`quality`: -1 instead of an integer from 0 to 11"),
            (json!({"quality": null}), "`quality`: null instead of an integer from 0 to 11"),
            (json!({"quality": 12.0}), "`quality`: 12.0 instead of an integer from 0 to 11"),
            (json!({"lgwin": "22"}), "`lgwin`: a text instead of an integer from 10 to 24"),
            (json!({"mode": 1}), "`mode`: is not known, there are lgwin, quality"),
        ] {
            assert_eq!(persisted("brotli", &parameters), json!({"lgwin": 24, "quality": 11}));
            let found = complaint("brotli", &parameters);
            assert_eq!(found, format!("codec `brotli`: parameter {message}"));
        }
        assert!(BrotliOptions::default().with_quality(12).codec().is_err());
        assert!(BrotliOptions::default().with_lgwin(9).codec().is_err());
    }

    #[test]
    fn streams_with_a_large_window_are_refused() {
        for backend in brotli_backends() {
            let codec = BrotliOptions::default().with_backend(backend).codec().unwrap();
            // Window of 2^30 bytes, then an empty last block.
            let error = codec.decode_bytes(&[0x11, 0xDE, 0x00], &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Decode);
        }
    }

    #[cfg(feature = "brotli-c")]
    #[test]
    fn backends_read_each_others_streams() {
        use iac_codec::brotli::BrotliBackend;
        let text: Vec<u8> = (0..100).flat_map(|n| common::note(n).into_bytes()).collect();
        let noise = common::noise(40_000);
        for quality in 0..=11 {
            for lgwin in [10, 17, 24] {
                let options = BrotliOptions::default().with_quality(quality).with_lgwin(lgwin);
                let pure = options.with_backend(BrotliBackend::PureRust).codec().unwrap();
                let c = options.with_backend(BrotliBackend::C).codec().unwrap();
                for record in [&b""[..], b"a", &text, &noise] {
                    for (writer, reader) in [(&pure, &c), (&c, &pure)] {
                        let payload = writer.encode_bytes(record).unwrap();
                        let decoded = reader.decode_bytes(&payload, &Limits::default());
                        assert_eq!(decoded.unwrap(), record, "{quality} {lgwin}");
                    }
                }
            }
        }
    }
}

#[cfg(feature = "lz4")]
mod lz4 {
    use super::*;
    use iac_codec::{CodecError, Limits};

    #[test]
    fn lz4_has_no_parameters_and_is_an_extension() {
        let codec = make("lz4", &json!({}));
        codec.check_encode().unwrap();
        assert!(codec.parameters().is_empty());
        assert_eq!(codec.required_extensions(), ["iac.codec.lz4"]);
        assert_eq!(
            complaint("lz4", &json!({"level": 1})),
            "codec `lz4`: parameter `level`: is not known, this codec has none"
        );
    }

    #[test]
    fn payload_is_the_size_and_one_block() {
        let codec = make("lz4", &json!({}));
        assert_eq!(codec.encode_bytes(b"").unwrap(), [0; 4]);
        assert_eq!(codec.encode_bytes(b"abc").unwrap(), b"\x03\0\0\0\x30abc");
        // Four literals `abcd`, a match of 13 bytes four back, five literals.
        let block = b"\x16\0\0\0\x49abcd\x04\0\x50vwxyz";
        let decoded = codec.decode_bytes(block, &Limits::default()).unwrap();
        assert_eq!(decoded, b"abcdabcdabcdabcdavwxyz");
    }

    #[test]
    fn claims_that_cannot_be_are_errors_before_memory_is_taken() {
        let codec = make("lz4", &json!({}));
        let limits = Limits::unlimited();
        for (payload, reason) in [
            (&b""[..], "0 bytes, fewer than the 4"),
            (b"\x03\0\0", "3 bytes, fewer than the 4"),
            (b"\xFF\xFF\xFF\x7F\x30abc", "a block of 4 bytes has 1020 at most"),
            (b"\0\0\0\x80\x30abc", "above the 2147483647"),
            (b"\0\0\0\0\0", "1 bytes follow an empty record"),
            (b"\x02\0\0\0\x30abc", "has another size"),
            (b"\x04\0\0\0\x30abc", "claims 4 decoded bytes, but has 3"),
        ] {
            let error = codec.decode_bytes(payload, &limits).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            assert!(matches!(error, CodecError::Decode { .. }));
        }
    }
}
