//! Golden packs of images: pixels as the reference package decodes them, or as it should.
//!
//! What a build has no codec for is passed over: the tests run with every set of features.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::print_stdout)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

mod common;

use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{all_sources, data_dir, golden_names, json, sha256};
use iac_codec::half::f16;
use iac_codec::{Image, SampleType, SamplesRef};
use iac_format::ErrorKind;
use iac_reader::{ReadError, VariableRecordPack};
use serde_json::Value;

fn is_compiled_in(pack: &VariableRecordPack) -> bool {
    match pack.codec() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::MissingFeature, "{error}");
            false
        }
    }
}

/// Whether the libraries that the reference uses are compiled in: others decode lossy streams to
/// slightly other pixels, and not every kind.
fn has_native(codec: &str, pack: &VariableRecordPack) -> bool {
    let backend = pack.codec().unwrap().image_capabilities().unwrap().backend;
    match codec {
        "jpeg" => backend.contains("turbo"),
        "jxl" => backend.contains("libjxl"),
        _ => true,
    }
}

fn values(samples: SamplesRef<'_>) -> Vec<f64> {
    match samples {
        SamplesRef::U8(samples) => samples.iter().map(|sample| f64::from(*sample)).collect(),
        SamplesRef::U16(samples) => samples.iter().map(|sample| f64::from(*sample)).collect(),
        SamplesRef::I16(samples) => samples.iter().map(|sample| f64::from(*sample)).collect(),
        SamplesRef::F16(samples) => samples.iter().map(|sample| sample.to_f64()).collect(),
        SamplesRef::F32(samples) => samples.iter().map(|sample| f64::from(*sample)).collect(),
        _ => panic!(),
    }
}

fn values_of(bytes: &[u8], dtype: &str) -> Vec<f64> {
    match dtype {
        "uint8" => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        "uint16" => {
            bytes.chunks(2).map(|two| f64::from(u16::from_le_bytes([two[0], two[1]]))).collect()
        }
        "float16" => {
            bytes.chunks(2).map(|two| f16::from_le_bytes([two[0], two[1]]).to_f64()).collect()
        }
        "float32" => bytes
            .chunks(4)
            .map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap())))
            .collect(),
        other => panic!("{other}"),
    }
}

/// How far samples of lossy streams may lie from those of the reference.
fn tolerance(codec: &str, native: bool, sample_type: SampleType) -> f64 {
    match (codec, sample_type) {
        ("jpegls", _) => 0.0,
        ("jpeg", _) if native => 0.0,
        // Another arithmetic, and other edges where colours are enlarged.
        ("jpeg", _) => 24.0,
        ("jxl", SampleType::U8) => 1.0,
        ("jxl", SampleType::U16) => 257.0,
        ("jxl", SampleType::F16) => 1e-3,
        ("jxl", _) => 1e-4,
        ("jpeg2000", SampleType::U8) => 1.0,
        // The wavelet's own rounding, which two libraries do differently.
        _ => 4.0,
    }
}

fn check(context: &str, codec: &str, native: bool, image: &Image, expected: &Value) {
    let shape: Vec<Value> = image.shape().dimensions().into_iter().map(Value::from).collect();
    assert_eq!(Value::Array(shape), expected["shape"], "{context}");
    assert_eq!(image.sample_type().name(), expected["dtype"], "{context}");
    let hash = sha256(&image.samples().to_le_bytes());
    if hash == expected["sha256"] {
        return;
    }
    let allowed = tolerance(codec, native, image.sample_type());
    assert!(expected["lossless"] == false && allowed > 0.0, "{context}: other pixels");
    let packed = BASE64_STANDARD.decode(expected["pixels_zlib_base64"].as_str().unwrap()).unwrap();
    let mut pixels = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut pixels).unwrap();
    assert_eq!(sha256(&pixels), expected["sha256"], "{context}: the description is damaged");
    let theirs = values_of(&pixels, image.sample_type().name());
    let ours = values(image.samples());
    assert_eq!(ours.len(), theirs.len(), "{context}");
    let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst <= allowed, "{context}: {worst} off");
}

#[test]
fn every_golden_image_has_the_pixels_of_the_reference() {
    let mut decoded = 0;
    let mut codecs = std::collections::BTreeSet::new();
    for name in golden_names("container") {
        let path = data_dir("container").join(format!("{name}.iac"));
        let expected = json(&path.with_extension("json"));
        let Some(records) = expected.get("records").and_then(Value::as_array) else { continue };
        if records.is_empty() || records.iter().any(|record| record["decoded"]["kind"] != "image") {
            continue;
        }
        for (source, pack) in all_sources(&path) {
            let pack = VariableRecordPack::from_reader(pack.unwrap());
            let context = format!("{name} ({source})");
            let spec = pack.codec_spec().unwrap();
            let codec = spec.name();
            if !is_compiled_in(&pack) {
                let error = pack.read_images(&[0]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::MissingFeature, "{context}: {error}");
                continue;
            }
            let native = has_native(codec, &pack);
            codecs.insert(codec.to_owned());
            let rows: Vec<u64> = (0..records.len() as u64).rev().collect();
            let (found, skipped) = pack.read_images_lossy(&rows).unwrap();
            for row in &skipped.rows {
                // Pure Rust decoders lack some kinds of streams, and say so.
                assert!(!native, "{context}: {}", row.error);
                assert_eq!(row.error.kind(), ErrorKind::Unsupported, "{context}: {}", row.error);
            }
            for (row, image) in rows.iter().zip(&found) {
                let Some(image) = image else { continue };
                let context = format!("{context} row {row}");
                check(&context, codec, native, image, &records[*row as usize]["decoded"]);
                let info = pack.image_info(*row).unwrap();
                assert_eq!((info.shape, info.sample_type), (image.shape(), image.sample_type()));
                assert_eq!(pack.read_image(*row).unwrap(), *image, "{context}");
                // The same in one buffer, twice.
                let batch = pack.read_image_batch(&[*row, *row]).unwrap();
                assert!(batch.iter().all(|view| view == image.as_view()), "{context}");
                assert_eq!(batch.len(), 2);
                decoded += 1;
            }
        }
    }
    println!("{decoded} images of {codecs:?} were compared");
}

type Images = Vec<Result<Image, ReadError>>;

/// The images of a malformed golden pack, or why they are none.
fn malformed(name: &str) -> Option<(Value, bool, Images)> {
    let path = data_dir("malformed").join(format!("{name}.iac"));
    let pack = VariableRecordPack::open(&path).unwrap();
    if !is_compiled_in(&pack) {
        println!("{name} was not decoded: its codec is not compiled in");
        return None;
    }
    let rows = pack.record_count().unwrap();
    let images = (0..rows).map(|row| pack.read_image(row)).collect();
    let native = has_native(pack.codec_spec().unwrap().name(), &pack);
    Some((json(&path.with_extension("json")), native, images))
}

#[test]
fn damaged_payloads_are_errors_where_the_format_can_tell_and_pixels_of_the_reference_else() {
    for name in [
        "payload_jpeg_a",
        "payload_jpeg2000_a",
        "payload_jpegls_a",
        "payload_jxl_a",
        "payload_ht_a",
    ] {
        let Some((description, native, images)) = malformed(name) else { continue };
        let steps = description["reference_steps"]["decode_each_record"].as_array().unwrap();
        // Cut in half, cut by 3 bytes, 10 bytes, empty, text, one byte flipped, 4 bytes appended.
        assert_eq!(images.len(), 7, "{name}");
        for (row, image) in images.iter().enumerate().take(5) {
            let error = image.as_ref().unwrap_err();
            assert_eq!(
                (error.kind(), error.row()),
                (ErrorKind::Decode, Some(row as u64)),
                "{error}"
            );
        }
        for (row, image) in images.iter().enumerate().skip(5) {
            match (image, steps[row]["value"].as_str()) {
                (Ok(image), Some(value)) => {
                    let hash = sha256(&image.samples().to_le_bytes());
                    // Damage that nothing tells may look otherwise with another decoder.
                    assert!(
                        row == 5 || !native || hash.starts_with(value.rsplit(':').next().unwrap()),
                        "{name} row {row}: {value}"
                    );
                }
                // Less is passed over in silence than by the reference.
                (Err(error), _) => {
                    assert_eq!(row, 5, "{name}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Decode, "{name} row {row}: {error}");
                }
                (Ok(_), None) => panic!("{name} row {row} was decoded"),
            }
        }
    }
}

#[test]
fn claims_of_sides_that_the_payload_cannot_fill_are_refused() {
    let Some((_, _, images)) = malformed("jpeg_geometry_a") else { return };
    let error = images[0].as_ref().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit | ErrorKind::Decode), "{error}");
}

#[test]
fn streams_that_the_reference_misreads_have_their_true_pixels() {
    for name in ["ht_rgb_foreign_a", "jpegls_planar_a"] {
        let Some((description, _, images)) = malformed(name) else { continue };
        let hash = description["recommended"].as_str().unwrap().rsplit(' ').next().unwrap();
        let image = images[0].as_ref().unwrap();
        assert_eq!(sha256(&image.samples().to_le_bytes()), hash, "{name}");
        assert_eq!(image.shape().dimensions(), [23, 19, 3], "{name}");
    }
}

#[test]
fn signed_and_two_channel_streams_that_the_reference_refuses_are_decoded() {
    let Some((_, _, images)) = malformed("jpeg2000_signed_a") else { return };
    let signed = images[0].as_ref().unwrap();
    assert_eq!(signed.sample_type(), SampleType::I16);
    assert_eq!(images[1].as_ref().unwrap().shape().channels(), 2);
}
