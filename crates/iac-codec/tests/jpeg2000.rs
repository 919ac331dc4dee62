//! The codec `jpeg2000`.
#![cfg(feature = "jpeg2000")]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;
mod corpus;
mod images;

use common::{golden, make};
use iac_codec::jpeg2000::{Container, Jpeg2000Options, Profile, Region, decode_region};
use iac_codec::{
    Codec, CodecErrorKind, ColorHandling, DecodeOptions, Image, Limits, Registry, SampleType,
    SamplesRef, Scale,
};
use images::{
    assert_every_cut_is_refused, assert_golden, assert_round_trip, assert_threads_agree,
    largest_difference, noise, numbers, shape, smooth, survive_flips,
};
use serde_json::json;

fn options() -> DecodeOptions {
    DecodeOptions::default()
}

fn lossless() -> Codec {
    Jpeg2000Options::lossless().codec().unwrap()
}

#[test]
fn goldens_decode_to_the_pixels_of_the_reference() {
    let names = ["jpeg2000_a0", "jpeg2000_a1", "jpeg2000_a2", "jpeg2000_a3", "foreign_jpeg2000_a"];
    for name in names {
        let golden = golden("container", name);
        let codec = Registry::builtin().create_encoder(&golden.spec).unwrap();
        assert_eq!(codec.spec(), golden.spec, "{name}");
        for (row, payload) in golden.payloads.iter().enumerate() {
            let what = format!("{name} {row}");
            let image = codec.decode_image(payload, &options());
            let image = image.unwrap_or_else(|error| panic!("{what}: {error}"));
            let expected = &golden.json["records"][row]["decoded"];
            if expected["lossless"] == false {
                // What two decoders make of a lossy stream may differ by one.
                let wanted: Vec<u64> = expected["shape"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|side| side.as_u64().unwrap())
                    .collect();
                assert_eq!(image.shape().dimensions(), wanted, "{what}");
                assert_eq!(image.sample_type().name(), expected["dtype"], "{what}");
                if !name.ends_with("a3") {
                    assert_golden(&image, expected, &what);
                }
            } else {
                assert_golden(&image, expected, &what);
            }
        }
    }
}

#[test]
fn damaged_payloads_are_refused() {
    // A flipped bit in the classic stream cannot be told from a sample; four bytes behind the end
    // have no meaning.
    for (name, sound) in [("payload_jpeg2000_a", [5, 6].as_slice()), ("payload_ht_a", &[6])] {
        let golden = golden("malformed", name);
        let codec = Registry::builtin().create(&golden.spec).unwrap();
        for (row, payload) in golden.payloads.iter().enumerate() {
            let decoded = codec.decode_image(payload, &options());
            assert_eq!(decoded.is_ok(), sound.contains(&row), "{name} {row}: {decoded:?}");
            if let Err(error) = decoded {
                assert_eq!(error.kind(), CodecErrorKind::Decode, "{name} {row}: {error}");
            }
        }
    }
}

#[test]
fn signed_and_two_component_streams_are_read() {
    let golden = golden("malformed", "jpeg2000_signed_a");
    let codec = Registry::builtin().create(&golden.spec).unwrap();
    let signed = codec.decode_image(&golden.payloads[0], &options()).unwrap();
    assert_eq!(signed.sample_type(), SampleType::I16);
    let two = codec.decode_image(&golden.payloads[1], &options()).unwrap();
    assert_eq!(two.shape().channels(), 2);
}

#[test]
fn foreign_transform_of_high_throughput_streams_is_inverted() {
    let golden = golden("malformed", "ht_rgb_foreign_a");
    let codec = Registry::builtin().create(&golden.spec).unwrap();
    let image = codec.decode_image(&golden.payloads[0], &options()).unwrap();
    assert!(golden.json.to_string().contains(&images::sha256(&image)));
}

/// Files that this codec refuses although another decoder reads them, with a part of the reason.
const REFUSED: [(&str, CodecErrorKind, &str); 2] = [
    // A wavelet of its own (part 2).
    (
        "openjph_simple_dec_irv53_bhvhb_low_latency.jph",
        CodecErrorKind::Unsupported,
        "marker 0xFF79 of JPEG 2000 part 2",
    ),
    // Most of its tiles are missing.
    ("opj_issue726.j2k", CodecErrorKind::Decode, "1 x 97 tiles in 328 bytes"),
];

#[test]
fn corpus_decodes_as_expected_or_is_refused() {
    for entry in corpus::entries("jpeg2000") {
        let decoded = lossless().decode_image(&entry.bytes, &options());
        let name = entry.name.as_str();
        if let Some((_, kind, reason)) = REFUSED.iter().find(|(refused, _, _)| *refused == name) {
            let error = decoded.unwrap_err();
            assert_eq!(error.kind(), *kind, "{name}: {error}");
            assert!(error.to_string().contains(reason), "{name}: {error}");
            continue;
        }
        match entry.expected["status"].as_str().unwrap() {
            "ok" => {
                let image = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
                let info = lossless().image_info(&entry.bytes).unwrap();
                assert_eq!(info.shape, image.shape(), "{name}");
                assert_eq!(info.sample_type, image.sample_type(), "{name}");
                let wavelet = entry.expected["codestream"]["wavelet"].as_str().unwrap();
                if wavelet.starts_with("5-3") {
                    entry.assert_exact(&image);
                } else {
                    entry.assert_close(&image, 0.5);
                }
            }
            "error" => {
                let error = decoded.unwrap_err();
                assert_eq!(error.kind(), CodecErrorKind::Decode, "{name}: {error}");
            }
            _ => {
                // Subsampled components, which the reference cannot put together.
                let image = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
                let (height, width) = (image.shape().height(), image.shape().width());
                let stream = &entry.expected["codestream"];
                // Sizes there are those of the reference grid, whose origin may be cut off.
                assert!(u64::from(height) <= stream["height"].as_u64().unwrap(), "{name}");
                assert!(u64::from(width) <= stream["width"].as_u64().unwrap(), "{name}");
            }
        }
    }
}

#[test]
fn sparse_components_of_a_conformance_stream_are_those_of_the_standard() {
    for entry in corpus::entries("jpeg2000") {
        if entry.name != "opj_p1_07.j2k" {
            continue;
        }
        let image = lossless().decode_image(&entry.bytes, &options()).unwrap();
        let SamplesRef::U8(samples) = image.samples() else { panic!() };
        let mut components: [Vec<u8>; 2] = [Vec::new(), Vec::new()];
        for (at, pixel) in samples.chunks_exact(2).enumerate() {
            // The grid starts at 4, so every fourth column has a sample of the sparse component.
            if at % 8 % 4 == 0 {
                components[0].push(pixel[0]);
            }
            components[1].push(pixel[1]);
        }
        let references = entry.expected["iso_reference_class1"].as_object().unwrap();
        for (samples, reference) in components.iter().zip(references.values()) {
            let shape = shape(12, samples.len() as u32 / 12, 1);
            let component = Image::new(shape, samples.clone()).unwrap();
            assert_eq!(images::sha256(&component), reference["sha256"].as_str().unwrap());
        }
    }
}

#[test]
fn every_small_shape_and_type_comes_back() {
    let many = Jpeg2000Options::lossless().extended().codec().unwrap();
    for channels in [1, 2, 3, 4, 7] {
        for height in [1, 2, 3, 7, 8, 16, 33] {
            for width in [1, 2, 5, 8, 15, 17, 33] {
                for bits in [8, 16] {
                    let shape = shape(height, width, channels);
                    let what = format!("{shape} {bits}");
                    let seed = u64::from(height * 100 + width);
                    assert_round_trip(&many, &noise(shape, bits, seed), &what);
                    assert_round_trip(&many, &smooth(shape, bits, seed), &what);
                }
            }
        }
    }
}

#[test]
fn scales_are_those_of_the_resolution_levels() {
    for (height, width, channels) in [(1, 1, 1), (33, 20, 3), (100, 77, 1), (7, 300, 4)] {
        let image = smooth(shape(height, width, channels), 8, 1);
        let payload = lossless().encode_image(&image.as_view()).unwrap();
        for scale in Scale::ALL {
            let options = options().with_scale(scale);
            let small = lossless().decode_image(&payload, &options).unwrap();
            assert_eq!(small.shape(), scale.apply(image.shape()));
            let mut place = small.clone();
            lossless().decode_image_into(&payload, &mut place.as_view_mut(), &options).unwrap();
            assert!(place == small);
        }
    }
}

#[cfg(feature = "htj2k")]
#[test]
fn high_throughput_streams_come_back_at_every_small_shape() {
    for transform in [false, true] {
        let options = Jpeg2000Options::lossless().with_profile(Profile::Ht);
        let codec = options.with_color_transform(transform).extended().codec().unwrap();
        for channels in [1, 2, 3, 4, 7] {
            for height in [1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 65] {
                for width in [1, 2, 3, 4, 5, 8, 15, 17, 33, 64, 67] {
                    for bits in [8, 16] {
                        let shape = shape(height, width, channels);
                        let what = format!("{shape} {bits} {transform}");
                        let seed = u64::from(height * 100 + width);
                        assert_round_trip(&codec, &noise(shape, bits, seed), &what);
                        assert_round_trip(&codec, &smooth(shape, bits, seed), &what);
                    }
                }
            }
        }
    }
}

#[cfg(feature = "htj2k")]
#[test]
fn lossy_high_throughput_streams_are_as_good_as_asked() {
    for (psnr, transform) in [(30.0, false), (40.0, false), (50.0, false), (45.0, true)] {
        let options = Jpeg2000Options::with_quality(psnr).with_profile(Profile::Ht);
        let codec = options.with_color_transform(transform).codec().unwrap();
        for bits in [8, 16] {
            let image = [smooth, noise][usize::from(bits == 8)](shape(131, 150, 3), bits, 3);
            let payload = codec.encode_image(&image.as_view()).unwrap();
            let decoded = codec.decode_image(&payload, &self::options()).unwrap();
            let found = images::psnr(&image, &decoded, bits);
            // A smooth image is better than asked where no step is coarse enough.
            let above = found - f64::from(psnr);
            assert!(above > -1.0 && (above < 1.0 || bits == 16), "{psnr} {transform}: {found}");
        }
    }
    // The default of the reference: a base step of 1/100.
    let codec = Jpeg2000Options::lossy().with_profile(Profile::Ht).codec().unwrap();
    let image = smooth(shape(64, 64, 1), 8, 3);
    let payload = codec.encode_image(&image.as_view()).unwrap();
    let decoded = codec.decode_image(&payload, &options()).unwrap();
    assert!(largest_difference(&decoded, &image) <= 8);
}

#[cfg(feature = "htj2k")]
#[test]
fn high_throughput_streams_of_wide_and_tall_images_come_back() {
    // Above 32,768 a resolution has more than one precinct.
    let codec = Jpeg2000Options::lossless().with_profile(Profile::Ht).codec().unwrap();
    for shape in [shape(2, 70_000, 1), shape(66_000, 3, 3), shape(40, 33_000, 1)] {
        assert_round_trip(&codec, &noise(shape, 8, 1), &shape.to_string());
    }
}

#[cfg(feature = "htj2k")]
#[test]
fn high_throughput_streams_of_every_depth_come_back() {
    for bits in 1..=16 {
        for transform in [false, true] {
            let options = Jpeg2000Options::lossless().with_profile(Profile::Ht);
            let codec = options.with_bits_per_sample(bits).with_color_transform(transform);
            let codec = codec.codec().unwrap();
            let image = noise(shape(70, 90, 3), bits, bits.into());
            let payload = assert_round_trip(&codec, &image, &format!("{bits} bits"));
            assert_eq!(codec.image_info(&payload).unwrap().bits, Some(bits));
        }
    }
}

#[cfg(feature = "htj2k")]
#[test]
fn our_high_throughput_streams_are_not_taken_for_defective_ones() {
    let image = noise(shape(32, 32, 3), 8, 1);
    for transform in [false, true] {
        for loss in [Jpeg2000Options::lossless(), Jpeg2000Options::with_quality(60.0)] {
            let options = loss.with_profile(Profile::Ht).with_color_transform(transform);
            let codec = options.codec().unwrap();
            let payload = codec.encode_image(&image.as_view()).unwrap();
            let trusting = options.trusting_transform_flag().codec().unwrap();
            let decoded = codec.decode_image(&payload, &self::options()).unwrap();
            assert!(decoded == trusting.decode_image(&payload, &self::options()).unwrap());
            assert_eq!(payload.windows(2).any(|two| two == [0xFF, 0x64]), transform);
        }
    }
}

#[test]
fn transform_flag_of_the_reference_is_believed_only_when_asked() {
    let golden = golden("container", "jpeg2000_a2");
    let tolerant = Registry::builtin().create(&golden.spec).unwrap();
    let strict = make("jpeg2000", &json!({"trust_transform_flag": true}));
    for (row, payload) in golden.payloads.iter().enumerate() {
        let image = tolerant.decode_image(payload, &options()).unwrap();
        let other = strict.decode_image(payload, &options()).unwrap();
        assert_eq!(image == other, image.shape().channels() != 3, "row {row}");
    }
}

#[cfg(feature = "htj2k")]
#[test]
fn high_throughput_streams_that_were_broken_from_birth_are_refused() {
    let Some((image, stream)) = images::fixture_of_a_broken_stream() else { return };
    let error = lossless().decode_image(&stream, &options()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Decode, "{error}");
    let codec = Jpeg2000Options::lossless().with_profile(Profile::Ht).codec().unwrap();
    assert_round_trip(&codec, &image, "the image");
    let codec = Jpeg2000Options::lossless().with_profile(Profile::Ht).with_bits_per_sample(12);
    assert_round_trip(&codec.codec().unwrap(), &image, "the image with 12 bits");
}

#[test]
fn parts_of_an_image_are_those_of_the_whole() {
    let mut next = numbers(5);
    let mut kinds = vec![(Profile::Classic, 3, 8), (Profile::Classic, 1, 16)];
    if cfg!(feature = "htj2k") {
        kinds.extend([(Profile::Ht, 3, 8), (Profile::Ht, 1, 16)]);
    }
    for (profile, channels, bits) in kinds {
        let codec = Jpeg2000Options::lossless().with_profile(profile).codec().unwrap();
        let image = smooth(shape(150, 131, channels), bits, 1);
        let payload = codec.encode_image(&image.as_view()).unwrap();
        for _ in 0..20 {
            let (x, y) = ((next() % 131) as u32, (next() % 150) as u32);
            let width = 1 + (next() % u64::from(131 - x)) as u32;
            let height = 1 + (next() % u64::from(150 - y)) as u32;
            let region = Region { x, y, width, height };
            let part = decode_region(&payload, region, &options()).unwrap();
            assert!(part == images::crop(&image, region.x, region.y, width, height), "{region:?}");
        }
        for (x, y, width, height) in [(0, 0, 0, 1), (131, 0, 1, 1), (130, 149, 1, 2)] {
            let region = Region { x, y, width, height };
            let error = decode_region(&payload, region, &options()).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Usage, "{error}");
        }
    }
}

#[test]
fn jp2_files_name_colours_and_opacity() {
    for channels in [1, 2, 3, 4, 5] {
        for bits in [8, 12] {
            let options = Jpeg2000Options::lossless().with_container(Container::Jp2);
            let codec = options.with_bits_per_sample(bits).extended().codec().unwrap();
            let image = noise(shape(20, 30, channels), bits, 1);
            let payload = assert_round_trip(&codec, &image, &format!("{channels} {bits}"));
            assert!(payload.starts_with(b"\0\0\0\x0cjP  "));
            assert_every_cut_is_refused(&codec, &payload);
            assert_eq!(codec.parameters()["container"], "jp2");
        }
    }
}

/// Puts other boxes into a JP2 file in place of its colour specification.
fn with_header_boxes(channels: u32, boxes: &[(&[u8; 4], Vec<u8>)]) -> (Vec<u8>, Image) {
    let codec = Jpeg2000Options::lossless().with_container(Container::Jp2).extended();
    let codec = codec.codec().unwrap();
    let image = noise(shape(6, 5, channels), 8, 1);
    let image = match image.samples() {
        SamplesRef::U8(samples) => {
            Image::new(image.shape(), samples.iter().map(|s| s % 4).collect::<Vec<u8>>()).unwrap()
        }
        _ => panic!(),
    };
    let payload = codec.encode_image(&image.as_view()).unwrap();
    let header = payload.windows(4).position(|four| four == b"jp2h").unwrap();
    let stream = payload.windows(4).position(|four| four == b"jp2c").unwrap();
    let mut contents = payload[header + 4..header + 4 + 22].to_vec();
    for (kind, data) in boxes {
        contents.extend((data.len() as u32 + 8).to_be_bytes());
        contents.extend(*kind);
        contents.extend(data);
    }
    let mut file = payload[..header - 4].to_vec();
    file.extend((contents.len() as u32 + 8).to_be_bytes());
    file.extend(b"jp2h");
    file.extend(contents);
    file.extend(&payload[stream - 4..]);
    (file, image)
}

#[test]
fn palettes_are_applied_unless_the_indices_are_asked_for() {
    let palette = vec![0, 4, 3, 7, 7, 7, 1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 33];
    let mapping = vec![0, 0, 1, 2, 0, 0, 1, 1, 0, 0, 1, 0];
    let color = vec![1, 0, 0, 0, 0, 0, 16];
    let (file, indices) =
        with_header_boxes(1, &[(b"colr", color), (b"pclr", palette), (b"cmap", mapping)]);
    let image = lossless().decode_image(&file, &options()).unwrap();
    assert_eq!(image.shape(), shape(6, 5, 3));
    assert_eq!(lossless().image_info(&file).unwrap().shape, image.shape());
    let (SamplesRef::U8(colors), SamplesRef::U8(from)) = (image.samples(), indices.samples())
    else {
        panic!()
    };
    for (color, index) in colors.chunks_exact(3).zip(from) {
        assert_eq!(color, [index * 10 + 3, index * 10 + 2, index * 10 + 1]);
    }
    let stored = options().with_color(ColorHandling::Stored);
    assert!(lossless().decode_image(&file, &stored).unwrap() == indices);
    let short = vec![0, 2, 1, 7, 1, 2];
    let mapping = vec![0, 0, 1, 0];
    let (file, _) = with_header_boxes(1, &[(b"pclr", short), (b"cmap", mapping)]);
    let error = lossless().decode_image(&file, &options()).unwrap_err();
    assert!(error.to_string().contains("but the palette has 2 entries"), "{error}");
}

#[test]
fn channels_go_where_their_definitions_put_them() {
    let mut definitions = vec![0, 3];
    for (channel, place) in [(0, 3), (1, 2), (2, 1)] {
        definitions.extend([0, channel, 0, 0, 0, place]);
    }
    let color = vec![1, 0, 0, 0, 0, 0, 16];
    let (file, stored) = with_header_boxes(3, &[(b"colr", color), (b"cdef", definitions)]);
    let image = lossless().decode_image(&file, &options()).unwrap();
    let (SamplesRef::U8(found), SamplesRef::U8(from)) = (image.samples(), stored.samples()) else {
        panic!()
    };
    for (found, from) in found.chunks_exact(3).zip(from.chunks_exact(3)) {
        assert_eq!([found[2], found[1], found[0]], *from);
    }
    let raw = options().with_color(ColorHandling::Stored);
    assert!(lossless().decode_image(&file, &raw).unwrap() == stored);
}

#[test]
fn luma_and_differences_become_colours() {
    let (file, stored) = with_header_boxes(3, &[(b"colr", vec![1, 0, 0, 0, 0, 0, 18])]);
    let image = lossless().decode_image(&file, &options()).unwrap();
    let (SamplesRef::U8(found), SamplesRef::U8(from)) = (image.samples(), stored.samples()) else {
        panic!()
    };
    for (found, from) in found.chunks_exact(3).zip(from.chunks_exact(3)) {
        let (y, cb, cr) =
            (f64::from(from[0]), f64::from(from[1]) - 128.0, f64::from(from[2]) - 128.0);
        let exact = [y + 1.402 * cr, y - 0.344_14 * cb - 0.714_14 * cr, y + 1.772 * cb];
        for (found, exact) in found.iter().zip(exact) {
            assert!((f64::from(*found) - exact.clamp(0.0, 255.0)).abs() <= 1.1);
        }
    }
    let raw = options().with_color(ColorHandling::Stored);
    assert!(lossless().decode_image(&file, &raw).unwrap() == stored);
}

#[test]
fn signed_samples_are_stored_as_such_only_in_extended_streams() {
    let samples: Vec<i16> = (0..30 * 20).map(|at| (at * 211 - 32_768 + at % 7) as i16).collect();
    let image = Image::new(shape(30, 20, 1), samples).unwrap();
    let error = lossless().encode_image(&image.as_view()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Usage, "{error}");
    for options in
        [Jpeg2000Options::lossless(), Jpeg2000Options::lossless().with_profile(Profile::Ht)]
    {
        if cfg!(not(feature = "htj2k")) && options != Jpeg2000Options::lossless() {
            continue;
        }
        let codec = options.extended().codec().unwrap();
        assert_eq!(codec.required_extensions(), ["iac.image.extended"]);
        assert_round_trip(&codec, &image, "signed");
        let shifted = options.codec().unwrap().with_int16_samples().unwrap();
        assert!(shifted.required_extensions().is_empty());
        assert_round_trip(&shifted, &image, "shifted");
    }
}

#[test]
fn quality_and_rate_are_kept() {
    let image = smooth(shape(200, 180, 3), 8, 1);
    let image = &image;
    for ratio in [4.0, 10.0, 40.0] {
        let codec = Jpeg2000Options::with_rate(ratio).codec().unwrap();
        let size = codec.encode_image(&image.as_view()).unwrap().len() as f64;
        assert!(size <= 200.0 * 180.0 * 3.0 / f64::from(ratio) + 300.0, "{ratio}: {size}");
    }
    for psnr in [30.0, 40.0, 45.0] {
        let codec = Jpeg2000Options::with_quality(psnr).codec().unwrap();
        let payload = codec.encode_image(&image.as_view()).unwrap();
        let decoded = codec.decode_image(&payload, &options()).unwrap();
        let found = images::psnr(image, &decoded, 8);
        assert!((found - f64::from(psnr)).abs() < 2.0, "{psnr}: {found}");
    }
}

#[test]
fn images_that_the_streams_cannot_hold_are_refused() {
    let classic = Jpeg2000Options::lossless();
    let cases: [(Jpeg2000Options, Image, &str); 5] = [
        (
            classic,
            noise(shape(2, 2, 2), 8, 1),
            "2 channels are stored with the option `extended` only, other readers refuse them",
        ),
        (classic, noise(shape(2, 2, 256), 8, 1), "256 channels instead of 1 to 255"),
        (
            classic.with_bits_per_sample(4),
            Image::new(shape(1, 2, 1), vec![3_u8, 16]).unwrap(),
            "samples go from 0 to 16, but 4 bits hold 0 to 15 only",
        ),
        (
            classic.with_bits_per_sample(8),
            Image::new(shape(1, 2, 1), vec![3_u16, 16]).unwrap(),
            "8 bits for samples of type uint16 instead of 9 to 16",
        ),
        (
            classic,
            Image::new(shape(1, 1, 1), vec![1.0_f32]).unwrap(),
            "samples of type float32 instead of uint8 or uint16",
        ),
    ];
    for (options, image, reason) in cases {
        let error = options.codec().unwrap().encode_image(&image.as_view()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage);
        let text = format!("codec `jpeg2000`: cannot encode the record: {reason}");
        assert_eq!(error.to_string(), text);
    }
}

/// Codecs whose streams the tests below damage, with an image for each.
fn small_streams() -> Vec<(Codec, Vec<u8>)> {
    let mut streams = Vec::new();
    for (options, channels, bits) in [
        (Jpeg2000Options::lossless(), 3, 8),
        (Jpeg2000Options::lossy(), 1, 16),
        (Jpeg2000Options::lossless().with_container(Container::Jp2), 4, 8),
        (Jpeg2000Options::lossless().with_profile(Profile::Ht), 1, 16),
        (Jpeg2000Options::lossy().with_profile(Profile::Ht).with_color_transform(true), 3, 8),
    ] {
        let codec = options.codec().unwrap();
        let image = smooth(shape(19, 23, channels), bits, 1);
        match codec.encode_image(&image.as_view()) {
            Ok(payload) => streams.push((codec, payload)),
            Err(error) => assert_eq!(error.kind(), CodecErrorKind::MissingFeature),
        }
    }
    streams
}

#[test]
fn every_cut_is_refused() {
    for (codec, payload) in small_streams() {
        assert_every_cut_is_refused(&codec, &payload);
        let whole = codec.decode_image(&payload, &options()).unwrap();
        let mut longer = payload.clone();
        longer.extend([0; 9]);
        assert!(codec.decode_image(&longer, &options()).unwrap() == whole);
    }
}

#[test]
fn altered_bytes_give_errors_or_images() {
    for (codec, payload) in small_streams() {
        let limits = Limits::default().with_max_samples(1 << 16).with_max_native_memory(64 << 20);
        survive_flips(&codec, &payload, &options().with_limits(limits));
    }
}

/// A grey stream of 8 x 8, whose headers are altered.
fn tiny() -> Vec<u8> {
    lossless().encode_image(&noise(shape(8, 8, 1), 8, 1).as_view()).unwrap()
}

#[test]
fn sizes_that_lie_are_refused_quickly() {
    let start = std::time::Instant::now();
    let word = |at: usize, value: u32| {
        let mut payload = tiny();
        payload[at..at + 4].copy_from_slice(&value.to_be_bytes());
        payload
    };
    let byte = |at: usize, value: u8| {
        let mut payload = tiny();
        payload[at] = value;
        payload
    };
    let both = |mut payload: Vec<u8>, at: usize, value: u32| {
        payload[at..at + 4].copy_from_slice(&value.to_be_bytes());
        payload
    };
    let huge = both(both(both(word(8, 1 << 30), 12, 1 << 30), 24, 1 << 30), 28, 1 << 30);
    let cases = [
        ("no columns", word(8, 0), CodecErrorKind::Decode),
        ("no rows", word(12, 0), CodecErrorKind::Decode),
        ("huge", huge, CodecErrorKind::Decode),
        ("too many tiles", both(word(24, 1), 28, 1), CodecErrorKind::Decode),
        ("no tile width", word(24, 0), CodecErrorKind::Decode),
        ("origin behind the end", word(16, 9), CodecErrorKind::Decode),
        ("tiles that miss the image", word(32, 9), CodecErrorKind::Decode),
        ("no components", byte(41, 0), CodecErrorKind::Decode),
        ("components that are not there", byte(40, 0x40), CodecErrorKind::Decode),
        ("38 bits", byte(42, 37), CodecErrorKind::Unsupported),
        ("39 bits", byte(42, 38), CodecErrorKind::Decode),
        ("17 bits", byte(42, 16), CodecErrorKind::Unsupported),
        ("no distance", byte(43, 0), CodecErrorKind::Decode),
    ];
    for (what, payload, kind) in cases {
        let error = lossless().decode_image(&payload, &options()).unwrap_err();
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
    // One sample for 255 columns and rows of an image of 8 x 8.
    let sparse = both(byte(43, 255), 12, 8);
    let mut sparse = sparse;
    sparse[44] = 255;
    let decoded = lossless().decode_image(&sparse, &options());
    assert!(decoded.is_err() || decoded.unwrap().shape() == shape(8, 8, 1));
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn layers_and_precincts_that_no_payload_could_fill_are_refused() {
    let start = std::time::Instant::now();
    let payload = tiny();
    let coding = payload.windows(2).position(|two| two == [0xFF, 0x52]).unwrap();
    let mut layers = payload.clone();
    layers[coding + 6..coding + 8].fill(0xFF);
    let error = lossless().decode_image(&layers, &options()).unwrap_err();
    assert!(error.to_string().contains("packets in"), "{error}");
    let mut levels = payload;
    levels[coding + 9] = 33;
    let error = lossless().decode_image(&levels, &options()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::Decode, "{error}");
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn limits_are_kept_before_memory_is_taken() {
    let image = smooth(shape(64, 64, 3), 8, 1);
    let payload = lossless().encode_image(&image.as_view()).unwrap();
    for (limits, what) in [
        (Limits::default().with_max_samples(64 * 64 * 3 - 1), "samples"),
        (Limits::default().with_max_decoded_bytes(64 * 64 * 3 - 1), "decoded bytes"),
        (Limits::default().with_max_native_memory(64 * 64 * 3 * 4), "bytes of native memory"),
    ] {
        let error = lossless().decode_image(&payload, &limits.into()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Limit);
        assert!(error.to_string().contains(what), "{error}");
    }
    // The full image counts, also where a small one is asked for.
    let limits = Limits::default().with_max_samples(64 * 64);
    let small = options().with_limits(limits).with_scale(Scale::Eighth);
    assert_eq!(
        lossless().decode_image(&payload, &small).unwrap_err().kind(),
        CodecErrorKind::Limit
    );
}

#[test]
fn threads_agree_with_one() {
    let mut next = numbers(4);
    let images: Vec<Image> = (0..18)
        .map(|seed| {
            let (height, width) = (1 + (next() % 90) as u32, 1 + (next() % 90) as u32);
            smooth(shape(height, width, [1, 3, 4][seed % 3]), [8, 16][seed % 2], seed as u64)
        })
        .collect();
    assert_threads_agree(&lossless(), &images);
    if cfg!(feature = "htj2k") {
        let ht = Jpeg2000Options::lossless().with_profile(Profile::Ht).codec().unwrap();
        assert_threads_agree(&ht, &images);
    }
}

#[test]
fn small_scale_of_a_smooth_image_is_near_its_average() {
    let image = smooth(shape(128, 128, 1), 8, 1);
    let payload = lossless().encode_image(&image.as_view()).unwrap();
    let small = options().with_scale(Scale::Quarter);
    let small = lossless().decode_image(&payload, &small).unwrap();
    let SamplesRef::U8(found) = small.samples() else { panic!() };
    let SamplesRef::U8(full) = image.samples() else { panic!() };
    for (at, found) in found.iter().enumerate() {
        let (x, y) = (at % 32 * 4, at / 32 * 4);
        let sum: i32 = (0..16).map(|n| i32::from(full[(y + n / 4) * 128 + x + n % 4])).sum();
        assert!((i32::from(*found) - sum / 16).abs() < 24, "{x} {y}");
    }
}

/// DICOM pads fragments to even lengths, and some writers pad with what a marker begins with.
#[test]
fn streams_with_padding_behind_their_end_have_the_same_pixels() {
    for (codec, payload) in small_streams() {
        let whole = codec.decode_image(&payload, &options()).unwrap();
        for padding in [&[0][..], &[0, 0], &[0xFF], &[0x20], &[0xFF, 0xD9], &[0, 0xFF, 0xD9]] {
            let padded = [&payload[..], padding].concat();
            let found = codec.decode_image(&padded, &options());
            let found = found.unwrap_or_else(|error| panic!("{padding:?}: {error}"));
            assert!(found == whole, "{padding:?}");
            assert_eq!(codec.image_info(&padded).unwrap(), codec.image_info(&payload).unwrap());
        }
        // In front of it, nothing is padding.
        codec.decode_image(&[&[0][..], &payload].concat(), &options()).unwrap_err();
    }
}
