//! The codec `jpegls`.
#![cfg(feature = "jpegls")]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;
mod corpus;
mod images;

use common::{golden, make};
use iac_codec::jpegls::{Interleave, JpeglsOptions, Preset};
use iac_codec::{
    Codec, CodecErrorKind, DecodeOptions, Image, Limits, Registry, SampleType, SamplesRef, Scale,
};
use images::{
    assert_every_cut_is_refused, assert_golden, assert_round_trip, assert_threads_agree,
    largest_difference, noise, numbers, shape, smooth, survive_flips,
};
use serde_json::json;

const MODES: [Interleave; 3] = [Interleave::None, Interleave::Line, Interleave::Sample];

fn options() -> DecodeOptions {
    DecodeOptions::default()
}

fn lossless() -> Codec {
    JpeglsOptions::lossless().codec().unwrap()
}

#[test]
fn goldens_decode_to_the_pixels_of_the_reference() {
    for name in ["jpegls_a0", "jpegls_a1", "jpegls_a2", "jpegls_a3", "foreign_jpegls_a"] {
        let golden = golden("container", name);
        let codec = Registry::builtin().create_encoder(&golden.spec).unwrap();
        for (row, payload) in golden.payloads.iter().enumerate() {
            let image = codec.decode_image(payload, &options()).unwrap();
            let expected = &golden.json["records"][row]["decoded"];
            assert_golden(&image, expected, &format!("{name} {row}"));
        }
    }
}

#[test]
fn streams_and_parameters_are_those_of_the_reference() {
    for name in ["jpegls_a0", "jpegls_a1", "jpegls_a2", "jpegls_a3"] {
        let golden = golden("container", name);
        let codec = Registry::builtin().create_encoder(&golden.spec).unwrap();
        assert_eq!(codec.spec(), golden.spec);
        for payload in &golden.payloads {
            let image = codec.decode_image(payload, &options()).unwrap();
            let again = codec.encode_image(&image.as_view());
            // Coding what near-lossless decoding gave need not give the same stream.
            if golden.spec.parameters().unwrap()["near_lossless"] == 0 {
                assert_eq!(again.unwrap(), *payload, "{name}");
            }
        }
    }
}

#[test]
fn planes_of_separate_scans_become_pixels() {
    let golden = golden("malformed", "jpegls_planar_a");
    let codec = Registry::builtin().create(&golden.spec).unwrap();
    for payload in &golden.payloads {
        let image = codec.decode_image(payload, &options()).unwrap();
        let again = JpeglsOptions::lossless().with_interleave(Interleave::Sample).codec().unwrap();
        let sample = again.encode_image(&image.as_view()).unwrap();
        assert!(again.decode_image(&sample, &options()).unwrap() == image);
        assert!(golden.json.to_string().contains(&images::sha256(&image)));
    }
}

#[test]
fn damaged_payloads_fail_where_the_reference_fails() {
    let golden = golden("malformed", "payload_jpegls_a");
    let codec = Registry::builtin().create(&golden.spec).unwrap();
    let steps = golden.json["reference_steps"]["decode_each_record"].as_array().unwrap();
    for (row, (payload, step)) in golden.payloads.iter().zip(steps).enumerate() {
        let decoded = codec.decode_image(payload, &options());
        assert_eq!(decoded.is_ok(), step["result"] == "ok", "row {row}: {decoded:?}");
        if let Err(error) = decoded {
            assert_eq!(error.kind(), CodecErrorKind::Decode, "row {row}: {error}");
        }
    }
}

#[test]
fn corpus_decodes_exactly_or_is_refused() {
    for entry in corpus::entries("jpegls") {
        let decoded = lossless().decode_image(&entry.bytes, &options());
        if entry.is_ok() {
            entry.assert_exact(&decoded.unwrap_or_else(|error| panic!("{}: {error}", entry.name)));
        } else {
            let error = decoded.unwrap_err();
            let kind = if entry.name.contains("t8sse3") {
                CodecErrorKind::Unsupported
            } else {
                CodecErrorKind::Decode
            };
            assert_eq!(error.kind(), kind, "{}: {error}", entry.name);
        }
    }
}

#[test]
fn every_small_shape_type_and_interleave_comes_back() {
    for interleave in MODES {
        let options = JpeglsOptions::lossless().extended();
        // By sample unless that would lose something.
        let options = match interleave {
            Interleave::Sample => options,
            other => options.with_interleave(other),
        };
        let codec = options.codec().unwrap();
        for channels in 1..=4 {
            for height in [1, 2, 3, 7, 8, 16, 33] {
                for width in [1, 2, 5, 8, 15, 17, 33] {
                    for bits in [8, 16] {
                        let shape = shape(height, width, channels);
                        let what = format!("{shape} {bits} {interleave:?}");
                        let seed = u64::from(height * 100 + width);
                        assert_round_trip(&codec, &noise(shape, bits, seed), &what);
                        assert_round_trip(&codec, &smooth(shape, bits, seed), &what);
                    }
                }
            }
        }
    }
}

#[test]
fn every_depth_comes_back_and_near_lossless_keeps_its_bound() {
    for bits in 2..=16 {
        for near in [0, 1, 3, 100] {
            let options = JpeglsOptions::lossless().with_bits_per_sample(bits);
            let codec = options.with_near_lossless(near).codec().unwrap();
            for channels in [1, 3, 4] {
                let image = noise(shape(19, 23, channels), bits, u64::from(bits));
                let payload = codec.encode_image(&image.as_view());
                if u32::from(near) > ((1 << bits) - 1) / 2 {
                    assert_eq!(payload.unwrap_err().kind(), CodecErrorKind::Usage);
                    continue;
                }
                let payload = payload.unwrap();
                assert_eq!(codec.image_info(&payload).unwrap().bits, Some(bits));
                let decoded = codec.decode_image(&payload, &self::options()).unwrap();
                assert!(largest_difference(&decoded, &image) <= i64::from(near));
            }
        }
    }
}

#[test]
fn preset_parameters_are_kept_in_the_stream() {
    let preset = Preset { threshold1: 5, threshold2: 40, threshold3: 300, reset_value: 31 };
    let codec =
        JpeglsOptions::lossless().with_bits_per_sample(10).with_preset(preset).codec().unwrap();
    let image = smooth(shape(40, 30, 1), 10, 3);
    let payload = assert_round_trip(&codec, &image, "preset");
    let segment = [0xFF, 0xF8, 0, 13, 1, 3, 0xFF, 0, 5, 0, 40, 1, 44, 0, 31];
    let at = payload.windows(15).position(|bytes| bytes == segment).unwrap();
    let mut odd = payload.clone();
    odd[at + 6] = 0xFE;
    let error = codec.decode_image(&odd, &options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "codec `jpegls`: its highest sample value is 1022, only the 1023 of 10 bits is supported"
    );
    let bad = Preset { threshold1: 50, threshold2: 40, threshold3: 30, ..preset };
    let codec =
        JpeglsOptions::lossless().with_bits_per_sample(10).with_preset(bad).codec().unwrap();
    assert!(codec.encode_image(&image.as_view()).is_err());
}

#[test]
fn opacity_that_changes_alone_is_not_lost() {
    let mut next = numbers(11);
    for (height, width) in [(1, 1), (1, 9), (9, 1), (16, 16)] {
        for colors in [1, 2] {
            // Few colours, so that runs of them meet changes of the fourth channel.
            let samples: Vec<u8> = (0..height * width * 4)
                .map(|at| if at % 4 == 3 { next() as u8 } else { (next() % colors) as u8 })
                .collect();
            let image = Image::new(shape(height, width, 4), samples).unwrap();
            assert_round_trip(&lossless(), &image, "changing opacity");
            for mode in [Interleave::None, Interleave::Line] {
                let codec = JpeglsOptions::lossless().with_interleave(mode).codec().unwrap();
                assert_round_trip(&codec, &image, "changing opacity");
            }
        }
    }
    let image = Image::new(shape(1, 2, 4), vec![1_u8, 2, 3, 4, 1, 2, 3, 5]).unwrap();
    let codec = JpeglsOptions::lossless().with_interleave(Interleave::Sample).codec().unwrap();
    let error = codec.encode_image(&image.as_view()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Usage, "{error}");
    assert_round_trip(&lossless(), &image, "changing opacity");
    let near = JpeglsOptions::lossless().with_near_lossless(1).codec().unwrap();
    let payload = near.encode_image(&image.as_view()).unwrap();
    let decoded = near.decode_image(&payload, &options()).unwrap();
    assert!(largest_difference(&decoded, &image) <= 1);
}

#[test]
fn reset_values_that_the_library_mistakes_are_refused() {
    let image = smooth(shape(9, 11, 3), 16, 3);
    let preset = |reset_value| Preset { reset_value, ..Preset::default() };
    for mode in MODES {
        let options = JpeglsOptions::lossless().with_interleave(mode);
        assert_round_trip(&options.with_preset(preset(64)).codec().unwrap(), &image, "64");
        let other = options.with_preset(preset(31)).codec().unwrap();
        if mode == Interleave::Sample {
            let error = other.encode_image(&image.as_view()).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Usage, "{error}");
        } else {
            assert_round_trip(&other, &image, "31");
        }
        // Streams of 16 bits hold a segment of preset parameters.
        let mut payload = options.codec().unwrap().encode_image(&image.as_view()).unwrap();
        let segment = payload.windows(4).position(|four| four == [0xFF, 0xF8, 0, 13]).unwrap();
        for reset in [31_u16, 300] {
            payload[segment + 13..segment + 15].copy_from_slice(&reset.to_be_bytes());
            let decoded = lossless().decode_image(&payload, &self::options());
            if reset == 300 || mode == Interleave::Sample {
                assert_eq!(decoded.unwrap_err().kind(), CodecErrorKind::Unsupported);
            }
        }
    }
}

#[test]
fn images_that_would_come_back_otherwise_are_refused() {
    let options = JpeglsOptions::lossless();
    let cases: [(JpeglsOptions, Image, &str); 7] = [
        (
            options.with_bits_per_sample(5),
            Image::new(shape(1, 2, 1), vec![31_u8, 32]).unwrap(),
            "a sample is 32, but the highest that 5 bits may hold is 31",
        ),
        (
            options.with_bits_per_sample(8),
            Image::new(shape(1, 2, 1), vec![1_u16, 2]).unwrap(),
            "8 bits for samples of type uint16 instead of 9 to 16, they would come back as uint8",
        ),
        (
            options.with_near_lossless(128),
            Image::new(shape(1, 1, 1), vec![1_u8]).unwrap(),
            "a near-lossless bound of 128 instead of at most 127, half the highest sample value",
        ),
        (
            options.with_bits_per_sample(9),
            Image::new(shape(1, 1, 1), vec![1_u8]).unwrap(),
            "9 bits for samples of type uint8",
        ),
        (
            options,
            Image::new(shape(1, 1, 2), vec![1_u8, 2]).unwrap(),
            "2 channels are stored with the option `extended` only, other readers refuse them",
        ),
        (
            options.extended(),
            Image::new(shape(1, 1, 5), vec![1_u8; 5]).unwrap(),
            "5 channels instead of 1 to 4",
        ),
        (
            options,
            Image::new(shape(1, 1, 1), vec![1_i16]).unwrap(),
            "samples of type int16 instead of uint8 or uint16",
        ),
    ];
    for (options, image, reason) in cases {
        let error = options.codec().unwrap().encode_image(&image.as_view()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage);
        assert_eq!(
            error.to_string(),
            format!("codec `jpegls`: cannot encode the record: {reason}")
        );
    }
}

#[test]
fn signed_samples_come_back_through_the_shift() {
    let codec = lossless().with_int16_samples().unwrap();
    let image = Image::new(shape(2, 2, 1), vec![i16::MIN, -1, 0, i16::MAX]).unwrap();
    assert_round_trip(&codec, &image, "signed");
}

#[test]
fn two_channels_need_the_extension_and_name_it() {
    let codec = make("jpegls", &json!({"extended": true}));
    assert_eq!(codec.required_extensions(), ["iac.image.extended"]);
    assert_eq!(codec.parameters(), lossless().parameters());
    assert!(codec.image_capabilities().unwrap().encodes(SampleType::U16, 2));
    assert!(lossless().required_extensions().is_empty());
    let image = noise(shape(9, 5, 2), 16, 1);
    let payload = codec.encode_image(&image.as_view()).unwrap();
    assert!(lossless().decode_image(&payload, &options()).unwrap() == image);
}

#[test]
fn scales_are_averaged() {
    let image = smooth(shape(33, 20, 3), 8, 1);
    let payload = lossless().encode_image(&image.as_view()).unwrap();
    let options = options().with_scale(Scale::Quarter);
    let small = lossless().decode_image(&payload, &options).unwrap();
    assert_eq!(small.shape(), shape(9, 5, 3));
}

#[test]
fn sides_above_65535_are_kept_in_their_own_segment() {
    for shape in [shape(70_000, 1, 1), shape(1, 70_001, 3), shape(66_000, 2, 3)] {
        for interleave in MODES {
            let codec = JpeglsOptions::lossless().with_interleave(interleave).codec().unwrap();
            assert_round_trip(&codec, &noise(shape, 8, 5), &shape.to_string());
        }
    }
}

#[test]
fn every_cut_is_refused() {
    for (interleave, channels, bits) in [
        (Interleave::None, 1, 16),
        (Interleave::None, 3, 8),
        (Interleave::Line, 3, 8),
        (Interleave::Sample, 4, 16),
    ] {
        let codec = JpeglsOptions::lossless().with_interleave(interleave).codec().unwrap();
        let image = smooth(shape(11, 13, channels), bits, 2);
        let payload = codec.encode_image(&image.as_view()).unwrap();
        assert_every_cut_is_refused(&codec, &payload);
        let mut longer = payload.clone();
        longer.extend([0; 9]);
        assert!(codec.decode_image(&longer, &options()).unwrap() == image);
        let limits = Limits::default().with_max_samples(1 << 16);
        survive_flips(&codec, &payload, &options().with_limits(limits));
    }
}

/// A stream of one scan for each component, with its second scan header to be altered.
fn planar() -> (Vec<u8>, usize) {
    let codec = JpeglsOptions::lossless().with_interleave(Interleave::None).codec().unwrap();
    let payload = codec.encode_image(&noise(shape(6, 40, 3), 8, 9).as_view()).unwrap();
    let scans: Vec<usize> =
        (0..payload.len() - 1).filter(|at| payload[*at..at + 2] == [0xFF, 0xDA]).collect();
    assert_eq!(scans.len(), 3);
    (payload, scans[1])
}

#[test]
fn scans_that_change_their_interleave_are_refused_before_decoding() {
    let (payload, scan) = planar();
    for (offset, value) in [(8, 1), (8, 2), (8, 9), (4, 2), (4, 3), (5, 1), (5, 99), (6, 1)] {
        let mut altered = payload.clone();
        assert_eq!(altered[scan + 2..scan + 4], [0, 8]);
        altered[scan + offset] = value;
        let error = lossless().decode_image(&altered, &options()).unwrap_err();
        assert!(
            matches!(error.kind(), CodecErrorKind::Decode | CodecErrorKind::Unsupported),
            "{offset} {value}: {error}"
        );
    }
}

#[test]
fn scans_in_another_order_reach_their_channels() {
    let (payload, scan) = planar();
    let third =
        scan + 4 + payload[scan + 4..].windows(2).position(|two| two == [0xFF, 0xDA]).unwrap();
    let image = lossless().decode_image(&payload, &options()).unwrap();
    let end = payload.len() - 2;
    let swapped =
        [&payload[..scan], &payload[third..end], &payload[scan..third], &payload[end..]].concat();
    assert!(lossless().decode_image(&swapped, &options()).unwrap() == image);
}

#[test]
fn mapping_tables_and_subsampling_are_unsupported() {
    let image = noise(shape(4, 4, 1), 8, 1);
    let payload = lossless().encode_image(&image.as_view()).unwrap();
    let table = [&[0xFF, 0xD8, 0xFF, 0xF8, 0, 5, 2, 1, 1][..], &payload[2..]].concat();
    let mut subsampled = payload.clone();
    assert_eq!(subsampled[13], 0x11);
    subsampled[13] = 0x21;
    for payload in [table, subsampled] {
        let error = lossless().decode_image(&payload, &options()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Unsupported, "{error}");
    }
}

#[test]
fn claims_beyond_the_limits_cost_nothing() {
    let image = noise(shape(4, 4, 3), 8, 1);
    let payload = lossless().encode_image(&image.as_view()).unwrap();
    let mut huge = payload.clone();
    huge[7..11].fill(0xFF);
    let error = lossless().decode_image(&huge, &options()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Limit, "{error}");
    let mut oversize = payload[..2].to_vec();
    oversize.extend([0xFF, 0xF8, 0, 12, 4, 4, 0x40, 0, 0, 0, 0x40, 0, 0, 0]);
    oversize.extend(&payload[2..]);
    oversize[2 + 14 + 5..2 + 14 + 9].fill(0);
    for bytes in [&oversize, &huge] {
        let error = lossless().decode_image(bytes, &options()).unwrap_err();
        assert!(error.to_string().contains("samples"), "{error}");
    }
    let limits = Limits::default().with_max_decoded_bytes(47);
    let error = lossless().decode_image(&payload, &limits.into()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Limit);
    for zero in [7, 9] {
        let mut none = payload.clone();
        none[zero..zero + 2].fill(0);
        let error = lossless().decode_image(&none, &options()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode, "{error}");
    }
}

#[test]
fn threads_agree_with_one() {
    let mut next = numbers(4);
    let images: Vec<Image> = (0..24)
        .map(|seed| {
            let shape =
                shape(1 + (next() % 90) as u32, 1 + (next() % 90) as u32, [1, 3, 4][seed % 3]);
            smooth(shape, [8, 16][seed % 2], seed as u64)
        })
        .collect();
    assert_threads_agree(&lossless(), &images);
    let planes = JpeglsOptions::lossless().with_interleave(Interleave::None).codec().unwrap();
    assert_threads_agree(&planes, &images);
}

#[test]
fn noise_that_grows_still_fits() {
    // Samples that alternate between both ends of the range cost more bits than they have.
    let samples: Vec<u16> =
        (0..64 * 64).map(|at| if (at * 7919) % 3 == 0 { 0 } else { u16::MAX }).collect();
    let image = Image::new(shape(64, 64, 1), samples).unwrap();
    assert_round_trip(&lossless(), &image, "both ends");
    let preset = Preset { threshold1: 1, threshold2: 1, threshold3: 1, ..Preset::default() };
    let codec = JpeglsOptions::lossless().with_preset(preset).codec().unwrap();
    let image = noise(shape(64, 64, 3), 16, 8);
    assert!(matches!(image.samples(), SamplesRef::U16(_)));
    assert_round_trip(&codec, &image, "odd thresholds");
}

/// A scan whose last byte is 0xFF gets a byte with a stuffed bit in front of the marker.
#[test]
fn scans_that_end_in_a_stuffed_byte_before_the_end_marker_are_read() {
    let mut found = 0;
    for seed in 0..4000 {
        let image = noise(shape(3, 5, 1), 8, seed);
        let payload = lossless().encode_image(&image.as_view()).unwrap();
        let [before, stuffed, 0xFF, 0xD9] = payload[payload.len() - 4..] else { panic!() };
        if before != 0xFF {
            continue;
        }
        assert!(stuffed < 0x80, "a marker inside of the scan");
        found += 1;
        assert!(lossless().decode_image(&payload, &options()).unwrap() == image, "{seed}");
        // Without the stuffed byte the 0xFF belongs to the marker, and bits are missing or not: the
        // image or an error, never other pixels.
        let mut without = payload.clone();
        without.remove(payload.len() - 3);
        if let Ok(decoded) = lossless().decode_image(&without, &options()) {
            assert!(decoded == image, "{seed}");
        }
    }
    assert!(found > 1, "{found} of the streams end so");
}

#[test]
fn fill_bytes_before_the_end_marker_are_passed_over() {
    for interleave in MODES {
        let codec = JpeglsOptions::lossless().with_interleave(interleave).codec().unwrap();
        let image = noise(shape(6, 9, 3), 8, 5);
        let payload = codec.encode_image(&image.as_view()).unwrap();
        let at = payload.len() - 2;
        for count in 1..4 {
            let mut filled = payload.clone();
            filled.splice(at..at, vec![0xFF; count]);
            let decoded = codec.decode_image(&filled, &options());
            assert!(decoded.unwrap_or_else(|it| panic!("{interleave:?} {count}: {it}")) == image);
        }
        // Zeros in front of the marker are no filling: the image, or an error.
        for count in 1..4 {
            let mut zeros = payload.clone();
            zeros.splice(at..at, vec![0; count]);
            if let Ok(decoded) = codec.decode_image(&zeros, &options()) {
                assert!(decoded == image, "{interleave:?} {count}");
            }
        }
    }
}

/// A stream of one component, with other parameters than those of the standard or not.
fn grey(image: &Image, preset: Option<Preset>) -> Vec<u8> {
    let mut options = JpeglsOptions::lossless();
    if let Some(preset) = preset {
        options = options.with_preset(preset);
    }
    options.codec().unwrap().encode_image(&image.as_view()).unwrap()
}

/// The segments of a stream with their markers: SOI and EOI left out, a scan with its bits.
fn segments(payload: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    let mut at = 2;
    while payload[at..] != [0xFF, 0xD9] {
        let marker = payload[at + 1];
        let length = usize::from(u16::from_be_bytes([payload[at + 2], payload[at + 3]])) + 2;
        let end = if marker == 0xDA { payload.len() - 2 } else { at + length };
        found.push((marker, payload[at..end].to_vec()));
        at = end;
    }
    found
}

/// Each segment of parameters counts from there on (T.87, C.2.4.1.1): scans behind it are coded
/// with them, those in front of it are not.
#[test]
fn parameters_after_the_first_scan_count_for_the_scans_behind_them_alone() {
    let planes: Vec<Image> = (0..3).map(|it| smooth(shape(20, 30, 1), 8, it)).collect();
    let other = Preset { threshold1: 2, threshold2: 5, threshold3: 12, reset_value: 32 };
    let streams =
        [grey(&planes[0], None), grey(&planes[1], Some(other)), grey(&planes[2], Some(other))];
    let mut made = vec![0xFF, 0xD8];
    // Height, width, three components of which each has a scan.
    made.extend([0xFF, 0xF7, 0, 17, 8, 0, 20, 0, 30, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]);
    let mut parameters = None;
    for (number, stream) in (1_u8..).zip(&streams) {
        for (marker, mut bytes) in segments(stream) {
            match marker {
                0xF8 if number == 2 => {
                    made.extend(&bytes);
                    parameters = Some(bytes);
                }
                0xDA => {
                    // The number of the component, behind length and count.
                    bytes[5] = number;
                    made.extend(bytes);
                }
                _ => {}
            }
        }
    }
    made.extend([0xFF, 0xD9]);
    let expected: Vec<u8> = (0..600)
        .flat_map(|at| {
            planes.iter().map(move |plane| {
                let SamplesRef::U8(samples) = plane.samples() else { panic!() };
                samples[at]
            })
        })
        .collect();
    let expected = Image::new(shape(20, 30, 3), expected).unwrap();
    let decoded = lossless().decode_image(&made, &options());
    assert!(decoded.unwrap_or_else(|error| panic!("{error}")) == expected);
    // The same segment in front of the first scan would count for that too: refused, or other
    // pixels that no reader could tell from the right ones, and never a panic.
    let parameters = parameters.unwrap();
    let mut early = made.clone();
    early.splice(21..21, parameters.clone());
    let decoded = lossless().decode_image(&early, &options());
    assert!(decoded.is_err() || decoded.unwrap() != expected);
    // Values that no stream may have are refused behind the first scan as in front of it.
    let at = made.windows(parameters.len()).position(|it| it == parameters).unwrap();
    for (offset, value) in [(4, 0), (5, 1), (6, 1), (13, 2), (13, 1), (3, 2), (3, 3), (3, 9)] {
        let mut altered = made.clone();
        altered[at + offset] = value;
        if let Ok(decoded) = lossless().decode_image(&altered, &options()) {
            assert!(decoded != expected || altered == made, "{offset} {value}");
        }
    }
}
