//! The codec `jxl` on streams that others made: golden files and public test files.
#![cfg(any(feature = "jxl", feature = "jxl-decoder"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation, clippy::print_stderr)]

mod common;
mod corpus;
mod images;

use std::io::Read as _;

use base64::Engine as _;
use common::golden;
use iac_codec::half::f16;
use iac_codec::jxl::{JxlBackend, JxlOptions};
use iac_codec::{Codec, CodecErrorKind, DecodeOptions, DepthHandling, Image, Registry, SamplesRef};
use serde_json::Value;

fn codecs() -> Vec<(JxlBackend, Codec)> {
    let backends = [
        #[cfg(feature = "jxl")]
        JxlBackend::Libjxl,
        #[cfg(feature = "jxl-decoder")]
        JxlBackend::PureRust,
    ];
    backends
        .map(|backend| (backend, JxlOptions::default().with_backend(backend).codec().unwrap()))
        .into()
}

fn samples(image: &Image) -> Vec<f64> {
    match image.samples() {
        SamplesRef::U8(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
        SamplesRef::U16(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
        SamplesRef::F16(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
        SamplesRef::F32(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
        _ => panic!("{}", image.sample_type()),
    }
}

/// The pixels that a golden file lists, and by how much another decoder may differ.
fn listed(expected: &Value) -> (Vec<f64>, f64) {
    let text = expected["pixels_zlib_base64"].as_str().unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let two = |bytes: &[u8]| u16::from_le_bytes(bytes.try_into().unwrap());
    match expected["dtype"].as_str().unwrap() {
        "uint8" => (bytes.iter().map(|byte| f64::from(*byte)).collect(), 1.0),
        "uint16" => (bytes.chunks(2).map(|b| f64::from(two(b))).collect(), 257.0),
        "float16" => (bytes.chunks(2).map(|b| f64::from(f16::from_bits(two(b)))).collect(), 1e-3),
        "float32" => {
            let four = |b: &[u8]| f64::from(f32::from_le_bytes(b.try_into().unwrap()));
            (bytes.chunks(4).map(four).collect(), 1e-4)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn golden_records_decode_to_what_the_reference_decoded() {
    for name in ["jxl_a0", "jxl_a1", "jxl_a2", "foreign_jxl_a"] {
        let golden = golden("container", name);
        let stored = Registry::builtin().create(&golden.spec).unwrap();
        // One file was made from payloads without any parameters.
        if name != "foreign_jxl_a" {
            assert_eq!(stored.spec(), golden.spec, "{name}");
        }
        for (backend, codec) in codecs() {
            let records = golden.json["records"].as_array().unwrap();
            for (row, (payload, record)) in golden.payloads.iter().zip(records).enumerate() {
                let what = format!("{name} row {row} {backend:?}");
                let expected = &record["decoded"];
                let options = DecodeOptions::default();
                let image = codec.decode_image(payload, &options);
                let image = image.unwrap_or_else(|error| panic!("{what}: {error}"));
                if expected["lossless"] == true {
                    images::assert_golden(&image, expected, &what);
                } else {
                    assert_eq!(image.sample_type().name(), expected["dtype"], "{what}");
                    let (listed, tolerance) = listed(expected);
                    let found = samples(&image);
                    assert_eq!(found.len(), listed.len(), "{what}");
                    for (found, listed) in found.iter().zip(&listed) {
                        let difference = (found - listed).abs();
                        assert!(difference <= tolerance, "{what}: {found} for {listed}");
                    }
                }
                let mut place = image.clone();
                codec.decode_image_into(payload, &mut place.as_view_mut(), &options).unwrap();
                assert!(place == image, "{what}");
            }
        }
    }
}

#[test]
fn damaged_payloads_fail_where_the_reference_fails() {
    let golden = golden("malformed", "payload_jxl_a");
    let steps = golden.json["reference_steps"]["decode_each_record"].as_array().unwrap();
    for (backend, codec) in codecs() {
        for (row, (payload, step)) in golden.payloads.iter().zip(steps).enumerate() {
            let decoded = codec.decode_image(payload, &DecodeOptions::default());
            if step["result"] == "ok" {
                decoded.unwrap();
            } else {
                let error = decoded.map(|image| image.shape()).unwrap_err();
                assert_eq!(error.kind(), CodecErrorKind::Decode, "row {row} {backend:?}");
            }
        }
    }
}

/// Files of the corpus that are coded without loss, so that every sample is known.
const LOSSLESS: [&str; 9] = [
    "conf_delta_palette.jxl",
    "conf_lossless_pfm.jxl",
    "jxlrs_3x3_srgb_lossless.jxl",
    "jxlrs_gray_alpha_lossless.jxl",
    "jxlrs_grayscale_patches_modular.jxl",
    "jxlrs_orientation2_flip_horizontal.jxl",
    "jxlrs_orientation5_transpose.jxl",
    "jxlrs_strategic_solid_blue.jxl",
    "libjxl_square-extended-size-container.jxl",
];

/// Files with colours that the backend in Rust cannot convert.
const CONVERTED: [&str; 2] = ["conf_grayscale.jxl", "conf_patches.jxl"];

#[test]
fn public_files_decode_to_what_the_reference_decoded_or_are_refused() {
    let entries = corpus::entries("jxl");
    for (backend, codec) in codecs() {
        // The expected numbers of odd depths are those in the streams.
        let options = DecodeOptions::default().with_depth(DepthHandling::Unscaled);
        for entry in &entries {
            let what = format!("{} {backend:?}", entry.name);
            let decoded = codec.decode_image(&entry.bytes, &options);
            let frames = entry.pixels()["shape"].as_array().filter(|shape| shape.len() == 4);
            if let Some(shape) = frames {
                let error = decoded.map(|image| image.shape()).unwrap_err();
                assert_eq!(error.kind(), CodecErrorKind::Unsupported, "{what}");
                // Its parts are out of order, which the backend in Rust takes for damage.
                if entry.name.contains("invalid") && format!("{backend:?}") == "PureRust" {
                    continue;
                }
                assert_frames(entry, shape[0].as_u64().unwrap() as u32, &codec, &what);
                continue;
            }
            if !entry.is_ok() {
                let error = decoded.map(|image| image.shape()).unwrap_err();
                assert_eq!(error.kind(), CodecErrorKind::Decode, "{what}");
                continue;
            }
            let image = match decoded {
                Err(error) if CONVERTED.contains(&entry.name.as_str()) => {
                    assert_eq!(error.kind(), CodecErrorKind::Unsupported, "{what}");
                    assert_eq!(format!("{backend:?}"), "PureRust");
                    continue;
                }
                decoded => decoded.unwrap_or_else(|error| panic!("{what}: {error}")),
            };
            let info = codec.image_info(&entry.bytes).unwrap();
            assert_eq!((info.shape, info.sample_type), (image.shape(), image.sample_type()));
            if LOSSLESS.contains(&entry.name.as_str()) {
                entry.assert_exact(&image);
            } else if entry.pixels()["grid8"].is_null() {
                let found = samples(&image);
                let mean = found.iter().sum::<f64>() / found.len() as f64;
                assert!((mean - entry.pixels()["mean"].as_f64().unwrap()).abs() < 1.0, "{what}");
            } else {
                entry.assert_close(&image, 0.5);
            }
        }
    }
}

fn assert_frames(entry: &corpus::Entry, count: u32, codec: &Codec, what: &str) {
    let all = format!("{:?}", codec.image_capabilities().unwrap().backend).contains("libjxl");
    let mut sum = 0.0;
    // Each is decoded from the start on, so the slower backend has to do with the last one.
    for frame in if all { 0 } else { count - 1 }..count {
        let options = DecodeOptions::default().with_frame(frame);
        let image = codec.decode_image(&entry.bytes, &options);
        let image = image.unwrap_or_else(|error| panic!("{what} frame {frame}: {error}"));
        let samples = samples(&image);
        sum += samples.iter().sum::<f64>() / samples.len() as f64;
    }
    let mean = sum / f64::from(count);
    let expected = entry.pixels()["mean"].as_f64().unwrap();
    assert!(!all || (mean - expected).abs() < 0.5, "{what}: mean {mean} instead of {expected}");
    let options = DecodeOptions::default().with_frame(count);
    let error = codec.decode_image(&entry.bytes, &options).map(|i| i.shape()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Decode);
    assert!(error.to_string().ends_with(&format!("it has no frame {count}")), "{error}");
}

#[cfg(all(feature = "jxl", feature = "jxl-decoder"))]
#[test]
fn both_backends_decode_public_files_to_the_same_samples_or_nearly() {
    let codecs = codecs();
    let [(_, native), (_, pure)] = &codecs[..] else { panic!() };
    for entry in corpus::entries("jxl") {
        let options = DecodeOptions::default().with_frame(0);
        let (Ok(one), Ok(other)) = (
            native.decode_image(&entry.bytes, &options),
            pure.decode_image(&entry.bytes, &options),
        ) else {
            continue;
        };
        assert_eq!((one.shape(), one.sample_type()), (other.shape(), other.sample_type()));
        let (one, other) = (samples(&one), samples(&other));
        let worst = one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst <= 1.0, "{}: {worst}", entry.name);
        if LOSSLESS.contains(&entry.name.as_str()) {
            assert!(worst == 0.0, "{}: {worst}", entry.name);
        }
    }
}

#[cfg(feature = "jxl")]
#[test]
fn public_jpeg_files_come_back_byte_for_byte_or_are_refused() {
    use iac_codec::Limits;
    use iac_codec::jxl::{TranscodeOptions, reconstruct_jpeg, transcode_jpeg};
    let (mut before, mut after) = (0, 0);
    for entry in corpus::entries("jpeg") {
        match transcode_jpeg(&entry.bytes, TranscodeOptions::default()) {
            Ok(payload) => {
                let rebuilt = reconstruct_jpeg(&payload, &Limits::default()).unwrap().unwrap();
                assert!(rebuilt == entry.bytes, "{}", entry.name);
                before += entry.bytes.len();
                after += payload.len();
            }
            Err(error) => {
                assert!(
                    matches!(error.kind(), CodecErrorKind::Usage | CodecErrorKind::Limit),
                    "{}: {error}",
                    entry.name
                );
            }
        }
    }
    assert!(after <= before);
}
