//! The codec `jpeg` on streams of other encoders: golden records, and files of public test suites.
#![cfg(any(feature = "jpeg", feature = "jpeg-decoder"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;
mod corpus;
mod images;

use std::io::Read as _;
use std::time::Instant;

use base64::Engine as _;
use common::golden;
use iac_codec::jpeg::{JpegBackend, JpegOptions};
use iac_codec::{
    Codec, CodecErrorKind, DamageHandling, DecodeOptions, Image, Registry, SamplesRef,
};
use serde_json::Value;

const GOLDENS: [&str; 7] = [
    "foreign_jpeg_a",
    "jpeg_a0",
    "jpeg_a1",
    "jpeg_a2",
    "jpeg_a3",
    "jpeg_tiff_rgb_a",
    "jpeg_tiff_ycbcr_a",
];

fn backends() -> Vec<JpegBackend> {
    vec![
        #[cfg(feature = "jpeg")]
        JpegBackend::Turbo,
        #[cfg(feature = "jpeg-decoder")]
        JpegBackend::PureRust,
    ]
}

fn is_turbo(backend: JpegBackend) -> bool {
    format!("{backend:?}") == "Turbo"
}

/// The pixels of a golden record, little-endian.
fn pixels(expected: &Value) -> Vec<u8> {
    let packed = expected["pixels_zlib_base64"].as_str().unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).unwrap();
    let mut pixels = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut pixels).unwrap();
    pixels
}

fn differences(image: &Image, expected: &[u8]) -> Vec<u32> {
    match image.samples() {
        SamplesRef::U8(samples) => {
            samples.iter().zip(expected).map(|(a, b)| u32::from(a.abs_diff(*b))).collect()
        }
        SamplesRef::U16(samples) => samples
            .iter()
            .zip(expected.chunks(2))
            .map(|(a, b)| u32::from(a.abs_diff(u16::from_le_bytes([b[0], b[1]]))))
            .collect(),
        _ => panic!("{}", image.sample_type()),
    }
}

fn codec(golden: &common::Golden, backend: JpegBackend) -> Codec {
    let options = JpegOptions::from_parameters(golden.spec.parameters().unwrap()).unwrap();
    options.with_backend(backend).codec().unwrap()
}

#[test]
fn golden_records_decode_to_what_the_reference_decoded() {
    for backend in backends() {
        let mut largest = 0;
        for name in GOLDENS {
            let golden = golden("container", name);
            let codec = codec(&golden, backend);
            let records = golden.json["records"].as_array().unwrap();
            for (row, (payload, record)) in golden.payloads.iter().zip(records).enumerate() {
                let what = format!("{name} row {row}, {backend:?}");
                let expected = &record["decoded"];
                let options = DecodeOptions::default();
                let decoded = codec.decode_image(payload, &options);
                let decoded = match decoded {
                    Err(error) if !is_turbo(backend) => {
                        // Lossy streams of 12 bits only.
                        assert_eq!(error.kind(), CodecErrorKind::Unsupported, "{what}: {error}");
                        assert_eq!(codec.image_info(payload).unwrap().bits, Some(12), "{what}");
                        continue;
                    }
                    other => other.unwrap_or_else(|error| panic!("{what}: {error}")),
                };
                if expected["lossless"] == true {
                    images::assert_golden(&decoded, expected, &what);
                } else {
                    let wanted = pixels(expected);
                    let shape: Vec<u64> = expected["shape"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|side| side.as_u64().unwrap())
                        .collect();
                    assert_eq!(decoded.shape().dimensions(), shape, "{what}");
                    assert_eq!(decoded.sample_type().name(), expected["dtype"], "{what}");
                    assert_eq!(decoded.samples().to_le_bytes().len(), wanted.len(), "{what}");
                    let difference = differences(&decoded, &wanted).into_iter().max().unwrap();
                    // Colours of images of few columns are enlarged in another way.
                    if is_turbo(backend) || decoded.shape().width() > 4 {
                        largest = largest.max(difference);
                    }
                }
                let mut place = decoded.clone();
                codec.decode_image_into(payload, &mut place.as_view_mut(), &options).unwrap();
                assert_eq!(place, decoded, "{what}");
            }
        }
        assert!(largest <= if is_turbo(backend) { 0 } else { 4 }, "{backend:?}: {largest}");
    }
}

#[test]
fn parameters_of_golden_headers_are_persisted_as_they_are() {
    for name in GOLDENS {
        let golden = golden("container", name);
        let codec = Registry::builtin().create(&golden.spec).unwrap();
        // One file was made from payloads without any parameters.
        if name != "foreign_jpeg_a" {
            let defaults = JpegOptions::default().codec().unwrap().parameters();
            let mut wanted = defaults;
            wanted.extend(golden.spec.parameters().unwrap().clone());
            assert_eq!(codec.parameters(), wanted, "{name}");
        }
        assert!(codec.encode_members().is_empty());
    }
}

#[test]
fn damaged_payloads_fail_where_the_reference_fails() {
    for backend in backends() {
        for name in ["payload_jpeg_a", "jpeg_geometry_a"] {
            let golden = golden("malformed", name);
            let codec = codec(&golden, backend);
            let steps = golden.json["reference_steps"]["decode_each_record"].as_array().unwrap();
            for (row, (payload, step)) in golden.payloads.iter().zip(steps).enumerate() {
                let what = format!("{name} row {row}, {backend:?}");
                let decoded = codec.decode_image(payload, &DecodeOptions::default());
                match (decoded, step["result"] == "ok") {
                    (Ok(image), true) => {
                        // The start of the hash is listed.
                        let wanted = step["value"].as_str().unwrap().split(':').next_back();
                        let same = images::sha256(&image).starts_with(wanted.unwrap());
                        assert!(!is_turbo(backend) || same, "{what}");
                    }
                    (Err(error), false) => assert!(
                        matches!(error.kind(), CodecErrorKind::Decode | CodecErrorKind::Limit),
                        "{what}: {error}"
                    ),
                    (Err(error), true) => panic!("{what}: {error}"),
                    (Ok(image), false) => panic!("{what}: {}", image.shape()),
                }
            }
        }
    }
}

/// What is refused, with a part of the reason: by every backend, or by the one in pure Rust only.
/// The reference packages refuse the first kind as well.
const REFUSED: [(&str, &str); 10] = [
    ("jpegdec_dc-predictor-overflow.jpg", "premature end of data segment"),
    ("jpegdec_invalid-dimensions.jpg", "0 rows of 3360 pixels"),
    ("jpegdec_its_8a9cc8eeed66aeb423a91c44111d9450.jpg", "two SOF markers"),
    ("jpegdec_its_f012a4321f00f12af6b1eee7580ffb9c.jpg", "starts with 0xff 0x00"),
    ("jpegdec_missing-sof.jpg", "segment 0xee at byte 2 has length 12336"),
    ("jpegdec_null_height.jpg", "800 rows of 0 pixels"),
    ("jpegdec_partial_progressive.jpg", "premature end of data segment"),
    ("jpegdec_subtract-with-overflow.jpg", "956 extraneous bytes"),
    ("pillow_jpeg_ff00_header.jpg", "byte 21794 is 0 where a marker should be"),
    ("pillow_truncated_jpeg.jpg", "premature end of JPEG file"),
];
const REFUSED_BY_PURE: [(&str, &str); 3] = [
    ("imagecodecs_gray.u2.jpg", "12 bits per sample"),
    ("pylibjpeg_t83_p4_E1.JPG", "12 bits per sample"),
    ("turbo_testimgari.jpg", "arithmetic coding"),
];

#[test]
fn corpus_files_decode_to_the_known_pixels_or_are_refused_with_a_reason() {
    let options = DecodeOptions::default();
    for backend in backends() {
        let codec = JpegOptions::default().with_backend(backend).codec().unwrap();
        let turbo = is_turbo(backend);
        for entry in corpus::entries("jpeg") {
            let (name, started) = (entry.name.as_str(), Instant::now());
            let decoded = codec.decode_image(&entry.bytes, &options);
            let refused = REFUSED.iter().find(|(file, _)| *file == name);
            let by_pure = REFUSED_BY_PURE.iter().find(|(file, _)| !turbo && *file == name);
            match (decoded, refused, by_pure) {
                (Ok(image), None, None) => {
                    assert_known(&entry, &image, turbo);
                    let mut place = image.clone();
                    codec
                        .decode_image_into(&entry.bytes, &mut place.as_view_mut(), &options)
                        .unwrap();
                    assert_eq!(place, image, "{name}");
                }
                (Err(error), Some((_, reason)), _) => {
                    assert_eq!(error.kind(), CodecErrorKind::Decode, "{name}: {error}");
                    assert!(!turbo || error.to_string().contains(reason), "{name}: {error}");
                    // Those that the reference decoder passed over come back if that is wanted.
                    let options = options.with_damage(DamageHandling::Tolerate);
                    let rest = codec.decode_image(&entry.bytes, &options);
                    if turbo && entry.is_ok() {
                        assert_known(&entry, &rest.unwrap(), turbo);
                    }
                }
                (Err(error), None, Some((_, reason))) => {
                    assert_eq!(error.kind(), CodecErrorKind::Unsupported, "{name}: {error}");
                    assert!(error.to_string().contains(reason), "{name}: {error}");
                }
                (Ok(image), ..) => panic!("{name}, {backend:?}: {}", image.shape()),
                (Err(error), ..) => panic!("{name}, {backend:?}: {error}"),
            }
            assert!(started.elapsed().as_secs() < 10, "{name}");
        }
    }
}

/// libjpeg-turbo gives what the reference decoder gives, and lossless streams leave no choice.
fn assert_known(entry: &corpus::Entry, image: &Image, turbo: bool) {
    if turbo || entry.expected["frame"]["process"] == "lossless" {
        entry.assert_exact(image);
    } else if entry.pixels()["grid8"].is_array() {
        // Blocks of small images are means of few pixels, each of which may be a level or two off.
        entry.assert_close(image, if image.shape().width() < 64 { 2.0 } else { 0.5 });
    } else {
        // Images too small for a grid of means are exact, which says more.
        entry.assert_exact(image);
    }
}

#[test]
fn histology_and_photographs_decode_to_the_known_pixels() {
    for backend in backends() {
        let codec = JpegOptions::default().with_backend(backend).codec().unwrap();
        for folder in ["histology", "photo"] {
            for entry in corpus::entries(folder) {
                if entry.name.ends_with(".jpg") {
                    let image = codec.decode_image(&entry.bytes, &DecodeOptions::default());
                    entry.assert_close(&image.unwrap(), 0.5);
                }
            }
        }
    }
}

#[cfg(feature = "jpeg-decoder")]
#[test]
fn encoding_without_native_code_names_the_feature_that_it_needs() {
    let codec = JpegOptions::default().with_backend(JpegBackend::PureRust).codec().unwrap();
    let image = images::noise(images::shape(4, 4, 1), 8, 1);
    for error in
        [codec.check_encode().unwrap_err(), codec.encode_image(&image.as_view()).unwrap_err()]
    {
        assert_eq!(error.kind(), CodecErrorKind::MissingFeature);
        assert!(error.to_string().contains("`jpeg`"), "{error}");
    }
    let capabilities = codec.image_capabilities().unwrap();
    assert!(capabilities.channels.is_empty() && capabilities.scales.len() == 4);
}
