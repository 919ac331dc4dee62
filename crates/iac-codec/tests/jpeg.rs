//! The codec `jpeg` on images and streams that are made here.
#![cfg(feature = "jpeg")]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
#![allow(clippy::cast_sign_loss, clippy::cast_possible_wrap)]

mod images;

use iac_codec::jpeg::{EncodedColorSpace, JpegBackend, JpegOptions, Subsampling};
use iac_codec::{
    Codec, CodecErrorKind, CodecSpec, ColorHandling, DamageHandling, DecodeOptions, Image, Limits,
    Registry, SampleType, SamplesRef, Scale,
};
use images::{assert_round_trip, largest_difference, noise, shape, smooth};
use serde_json::json;

/// Every backend, with the same options.
fn codecs(options: &JpegOptions) -> Vec<Codec> {
    vec![
        options.clone().with_backend(JpegBackend::Turbo).codec().unwrap(),
        #[cfg(feature = "jpeg-decoder")]
        options.clone().with_backend(JpegBackend::PureRust).codec().unwrap(),
    ]
}

fn decoders() -> Vec<Codec> {
    codecs(&JpegOptions::default())
}

fn encode(options: &JpegOptions, image: &Image) -> Vec<u8> {
    options.clone().codec().unwrap().encode_image(&image.as_view()).unwrap()
}

fn decode(codec: &Codec, payload: &[u8]) -> Image {
    codec.decode_image(payload, &DecodeOptions::default()).unwrap()
}

#[test]
fn lossless_images_of_every_small_size_come_back_from_every_backend() {
    let codec = JpegOptions::lossless().codec().unwrap();
    for height in 1..=33 {
        for width in 1..=33 {
            for (channels, bits) in [(1, 8), (3, 8), (1, 16), (3, 16)] {
                let image = noise(shape(height, width, channels), bits, u64::from(height * width));
                let what = format!("{height} x {width} x {channels} of {bits} bits");
                let payload = if height == width {
                    assert_round_trip(&codec, &image, &what)
                } else {
                    codec.encode_image(&image.as_view()).unwrap()
                };
                for decoder in decoders() {
                    assert!(decode(&decoder, &payload) == image, "{what}, {decoder:?}");
                }
            }
        }
    }
}

#[test]
fn every_depth_predictor_and_restart_interval_comes_back_exactly() {
    for bits in 2..=16 {
        for predictor in 1..=7 {
            for restart in [0, 1, 3, 40] {
                let options = JpegOptions::lossless()
                    .with_bits(bits)
                    .with_predictor(predictor)
                    .with_restart_rows(restart);
                for channels in [1, 3] {
                    for image in [
                        noise(shape(13, 9, channels), bits, 5),
                        smooth(shape(21, 18, channels), bits, 6),
                    ] {
                        let payload = encode(&options, &image);
                        for decoder in decoders() {
                            let what = format!("{bits} {predictor} {restart}, {decoder:?}");
                            let info = decoder.image_info(&payload).unwrap();
                            assert_eq!(info.bits, Some(bits), "{what}");
                            assert!(decode(&decoder, &payload) == image, "{what}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn images_that_a_stream_cannot_hold_are_refused() {
    let lossless = JpegOptions::lossless();
    let lossy = JpegOptions::default();
    let u8s = |channels| noise(shape(4, 4, channels), 8, 1);
    let u16s = |bits| noise(shape(4, 4, 1), bits, 1);
    let floats = Image::new(shape(1, 1, 1), vec![1.0_f32]).unwrap();
    let signed = Image::new(shape(1, 1, 1), vec![1_i16]).unwrap();
    let long = noise(shape(65_501, 1, 1), 8, 1);
    for (options, image, reason) in [
        (&lossy, u8s(2), "2 channels"),
        (&lossless, u8s(4), "4 channels"),
        (&lossless, u8s(5), "5 channels"),
        (&lossy, u16s(16), "uint16 is stored without loss"),
        (&lossless, floats, "type float32"),
        (&lossy, signed, "type int16"),
        (&lossy, long, "above 65500"),
        (&lossless.clone().with_bits(12), u16s(13), "which does not fit 12 bits"),
        (&lossless.clone().with_bits(12), u8s(1), "12 bits instead of 2 to 8"),
        (&lossless.clone().with_bits(8), u16s(9), "8 bits instead of 9 to 16"),
    ] {
        let codec = options.clone().codec().unwrap();
        let error = codec.encode_image(&image.as_view()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn lossy_images_come_back_nearly_and_alike_from_every_backend() {
    for subsampling in [Subsampling::S444, Subsampling::S422, Subsampling::S420] {
        for progressive in [false, true] {
            for (rows, optimize) in [(0, false), (1, true)] {
                let options = JpegOptions::default()
                    .with_quality(95)
                    .with_subsampling(subsampling)
                    .with_progressive(progressive)
                    .with_restart_rows(rows)
                    .with_optimize(optimize);
                for channels in [1, 3] {
                    for (height, width) in [(1, 5), (8, 8), (17, 33), (64, 47), (150, 200)] {
                        let image = smooth(shape(height, width, channels), 8, 3);
                        let payload = encode(&options, &image);
                        let found: Vec<_> =
                            decoders().iter().map(|decoder| decode(decoder, &payload)).collect();
                        let what = format!("{options:?} {height} x {width} x {channels}");
                        let loss = largest_difference(&found[0], &image);
                        assert!(loss <= 24, "{what}: {loss}");
                        for other in &found[1..] {
                            let difference = largest_difference(&found[0], other);
                            assert!(difference <= 4, "{what}: {difference}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn twelve_lossy_bits_are_an_explicit_choice() {
    let image = smooth(shape(33, 40, 3), 12, 4);
    for subsampling in [Subsampling::S444, Subsampling::S420] {
        let options =
            JpegOptions::default().with_bits(12).with_quality(98).with_subsampling(subsampling);
        let payload = encode(&options, &image);
        let turbo = &decoders()[0];
        assert_eq!(turbo.image_info(&payload).unwrap().bits, Some(12));
        let decoded = decode(turbo, &payload);
        assert_eq!(decoded.sample_type(), SampleType::U16);
        let loss = largest_difference(&decoded, &image);
        assert!(loss < 250, "{loss}");
    }
}

#[test]
fn scaled_images_have_sides_rounded_up_and_the_means_of_the_full_one() {
    for (height, width) in [(1, 1), (7, 9), (8, 8), (16, 16), (33, 17), (65, 130), (128, 96)] {
        for (channels, progressive) in [(1, false), (3, false), (3, true)] {
            let image = smooth(shape(height, width, channels), 8, 9);
            let options = JpegOptions::default().with_progressive(progressive).with_quality(96);
            let payload = encode(&options, &image);
            for decoder in decoders() {
                for scale in Scale::ALL {
                    let options = DecodeOptions::default().with_scale(scale);
                    let small = decoder.decode_image(&payload, &options).unwrap();
                    let what = format!("{height} x {width} x {channels} {scale} {decoder:?}");
                    assert_eq!(small.shape(), scale.apply(image.shape()), "{what}");
                    let mut place = noise(small.shape(), 8, 2);
                    decoder
                        .decode_image_into(&payload, &mut place.as_view_mut(), &options)
                        .unwrap();
                    assert_eq!(place, small, "{what}");
                    if height < 65 || scale.denominator() > 8 {
                        continue;
                    }
                    let (small, full) = (mean(&small), mean(&image));
                    assert!((small - full).abs() < 4.0, "{what}: {small} {full}");
                }
            }
        }
    }
}

fn mean(image: &Image) -> f64 {
    let SamplesRef::U8(samples) = image.samples() else { panic!() };
    let count = u32::try_from(samples.len()).unwrap();
    samples.iter().map(|sample| f64::from(*sample)).sum::<f64>() / f64::from(count)
}

#[cfg(feature = "jpeg-decoder")]
#[test]
fn scaled_images_without_subsampling_are_alike_from_every_backend() {
    let options = JpegOptions::default().with_subsampling(Subsampling::S444);
    for channels in [1, 3] {
        let payload = encode(&options, &smooth(shape(100, 75, channels), 8, 9));
        for scale in [Scale::Half, Scale::Quarter, Scale::Eighth] {
            let options = DecodeOptions::default().with_scale(scale);
            let found = decoders()
                .iter()
                .map(|decoder| decoder.decode_image(&payload, &options).unwrap())
                .collect::<Vec<_>>();
            let difference = largest_difference(&found[0], &found[1]);
            assert!(difference <= 6, "{channels} {scale}: {difference}");
        }
    }
}

#[test]
fn scaled_lossless_images_are_averaged() {
    for bits in [8, 12] {
        let image = noise(shape(19, 10, 3), bits, 3);
        let payload = encode(&JpegOptions::lossless().with_bits(bits), &image);
        for decoder in decoders() {
            let options = DecodeOptions::default().with_scale(Scale::Quarter);
            let small = decoder.decode_image(&payload, &options).unwrap();
            assert_eq!(small.shape(), shape(5, 3, 3));
            let at = |y: usize, x: usize, c: usize| -> u32 {
                match image.samples() {
                    SamplesRef::U8(samples) => samples[(y * 10 + x) * 3 + c].into(),
                    SamplesRef::U16(samples) => samples[(y * 10 + x) * 3 + c].into(),
                    _ => panic!(),
                }
            };
            let sum: u32 = (0..16).map(|n| at(4 + n / 4, 4 + n % 4, 1)).sum();
            let found = match small.samples() {
                SamplesRef::U8(samples) => u32::from(samples[(3 + 1) * 3 + 1]),
                SamplesRef::U16(samples) => u32::from(samples[(3 + 1) * 3 + 1]),
                _ => panic!(),
            };
            assert_eq!(found, (sum + 8) / 16);
        }
    }
}

/// A stream of one block for each component, all its samples of one value.
fn flat(components: &[(u8, u8)], markers: &[u8]) -> Vec<u8> {
    let count = components.len() as u8;
    let mut stream = vec![0xFF, 0xD8];
    stream.extend(markers);
    stream.extend([0xFF, 0xDB, 0, 67, 0]);
    stream.extend([8; 64]);
    stream.extend([0xFF, 0xC0, 0, 8 + 3 * count, 8, 0, 8, 0, 8, count]);
    for (id, _) in components {
        stream.extend([*id, 0x11, 0]);
    }
    // Sizes 0 to 8 of the first coefficient have codes of 4 bits; the end of a block has one bit.
    stream.extend([0xFF, 0xC4, 0, 19 + 9, 0x00, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    stream.extend(0..9);
    stream.extend([0xFF, 0xC4, 0, 19 + 1, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    stream.extend([0xFF, 0xDA, 0, 6 + 2 * count, count]);
    for (id, _) in components {
        stream.extend([*id, 0]);
    }
    stream.extend([0, 63, 0]);
    let mut bits = String::new();
    for (_, value) in components {
        let number = i32::from(*value) - 128;
        let size = 32 - number.unsigned_abs().leading_zeros();
        bits.push_str(&format!("{size:04b}"));
        if size > 0 {
            let stored = if number < 0 { number + (1 << size) - 1 } else { number };
            bits.push_str(&format!("{stored:0width$b}", width = size as usize));
        }
        bits.push('0');
    }
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    for byte in bits.as_bytes().chunks(8) {
        let byte = u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap();
        stream.push(byte);
        if byte == 0xFF {
            stream.push(0);
        }
    }
    stream.extend([0xFF, 0xD9]);
    stream
}

const fn adobe(transform: u8) -> [u8; 16] {
    [0xFF, 0xEE, 0, 14, b'A', b'd', b'o', b'b', b'e', 0, 100, 0, 0, 0, 0, transform]
}

const JFIF: [u8; 18] = [0xFF, 0xE0, 0, 16, b'J', b'F', b'I', b'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0];

fn pixel(image: &Image) -> Vec<u8> {
    let SamplesRef::U8(samples) = image.samples() else { panic!() };
    let channels = image.shape().channels() as usize;
    assert!(samples.chunks(channels).all(|pixel| pixel == &samples[..channels]));
    samples[..channels].to_vec()
}

#[test]
fn colours_follow_jfif_then_adobe_then_the_identifiers() {
    let numbered = [(1, 100), (2, 110), (3, 150)];
    let named = [(b'R', 100), (b'G', 110), (b'B', 150)];
    let odd = [(7, 100), (8, 110), (9, 150)];
    let stored = vec![100, 110, 150];
    let converted = vec![131, 90, 68];
    let jfif_and_adobe = [&JFIF[..], &adobe(0)].concat();
    for (components, markers, wanted) in [
        (&numbered, &[][..], &converted),
        (&named, &[], &stored),
        (&odd, &[], &converted),
        (&numbered, &adobe(0), &stored),
        (&named, &adobe(1), &converted),
        (&named, &JFIF, &converted),
        (&named, &jfif_and_adobe, &converted),
    ] {
        for decoder in decoders() {
            let stream = flat(components, markers);
            let options = DecodeOptions::default();
            let image = decoder.decode_image(&stream, &options).unwrap();
            assert_eq!(&pixel(&image), wanted, "{components:?} {decoder:?}");
            let options = options.with_color(ColorHandling::Stored);
            let image = decoder.decode_image(&stream, &options).unwrap();
            assert_eq!(pixel(&image), stored, "{components:?} {decoder:?}");
        }
    }
}

#[test]
fn four_components_stay_four_as_they_are_stored() {
    let components = [(1, 100), (2, 110), (3, 150), (4, 30)];
    let stored = vec![100, 110, 150, 30];
    for decoder in decoders() {
        for markers in [&[][..], &adobe(0)] {
            let image = decode(&decoder, &flat(&components, markers));
            assert_eq!(pixel(&image), stored, "{decoder:?}");
        }
        // YCCK: the first three become the complements of RGB, whatever that means to whoever
        // stored them; the fourth stays.
        let ycck = flat(&components, &adobe(2));
        assert_eq!(pixel(&decode(&decoder, &ycck)), [255 - 131, 255 - 90, 255 - 68, 30]);
        let options = DecodeOptions::default().with_color(ColorHandling::Stored);
        assert_eq!(pixel(&decoder.decode_image(&ycck, &options).unwrap()), stored);
    }
}

#[test]
fn transforms_and_counts_of_components_that_cannot_be_are_refused() {
    for decoder in decoders() {
        for count in [2_u8, 5, 6] {
            let components: Vec<_> = (1..=count).map(|id| (id, 100)).collect();
            let error = decoder.decode_image(&flat(&components, &[]), &DecodeOptions::default());
            assert_eq!(error.unwrap_err().kind(), CodecErrorKind::Unsupported);
        }
        let odd = flat(&[(1, 100), (2, 110), (3, 150)], &adobe(7));
        let options = DecodeOptions::default();
        let error = decoder.decode_image(&odd, &options).unwrap_err();
        assert!(error.to_string().contains("transform 7"), "{error}");
        let options = options.with_damage(DamageHandling::Tolerate);
        assert_eq!(pixel(&decoder.decode_image(&odd, &options).unwrap()), [131, 90, 68]);
    }
}

/// The segments before the first scan that hold tables, as a stream of their own, and the rest.
fn abbreviated(stream: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut tables, mut rest) = (vec![0xFF, 0xD8], vec![0xFF, 0xD8]);
    let mut at = 2;
    loop {
        let length = usize::from(u16::from_be_bytes([stream[at + 2], stream[at + 3]]));
        let segment = &stream[at..at + 2 + length];
        match stream[at + 1] {
            0xDA => {
                tables.extend([0xFF, 0xD9]);
                rest.extend(&stream[at..]);
                return (tables, rest);
            }
            0xDB | 0xC4 => tables.extend(segment),
            0xE0 => {}
            _ => rest.extend(segment),
        }
        at += 2 + length;
    }
}

#[test]
fn parts_of_a_tiff_file_are_joined_with_their_tables() {
    let image = smooth(shape(30, 21, 3), 8, 8);
    let options = JpegOptions::default().with_subsampling(Subsampling::S444);
    let whole = encode(&options, &image);
    let (tables, rest) = abbreviated(&whole);
    let wanted: Vec<_> = decoders().iter().map(|decoder| decode(decoder, &whole)).collect();
    let stored = DecodeOptions::default().with_color(ColorHandling::Stored);
    for space in [None, Some(EncodedColorSpace::YCbCr), Some(EncodedColorSpace::Rgb)] {
        let mut options = JpegOptions::default().with_tables(Some(tables.clone()));
        if let Some(space) = space {
            options = options.with_encoded_color_space(space);
        }
        for (tiff, wanted) in codecs(&options).iter().zip(&wanted) {
            let decoded = decode(tiff, &rest);
            let is_rgb = space == Some(EncodedColorSpace::Rgb);
            assert_eq!(decoded == *wanted, !is_rgb, "{space:?} {tiff:?}");
            if is_rgb {
                assert_eq!(decoded, tiff.decode_image(&whole, &stored).unwrap());
                // JFIF wins over the marker that is put in.
                assert_eq!(decode(tiff, &whole), *wanted);
            }
            // Tables without start and end are the same.
            let bare = tables[2..tables.len() - 2].to_vec();
            let bare = codecs(&options.clone().with_tables(Some(bare)));
            assert_eq!(decode(&bare[0], &rest), decode(&codecs(&options)[0], &rest));
        }
    }
    for (tiff, wanted) in codecs(&JpegOptions::default().with_tables(None)).iter().zip(&wanted) {
        assert_eq!(decode(tiff, &whole), *wanted, "a whole stream, without tables");
        let error = tiff.decode_image(&rest, &DecodeOptions::default()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode, "{error}");
    }
}

#[test]
fn interpretation_leaves_grey_and_refuses_lossless_colours() {
    let grey = smooth(shape(9, 9, 1), 8, 1);
    let colours = noise(shape(9, 9, 3), 8, 1);
    for space in [EncodedColorSpace::YCbCr, EncodedColorSpace::Rgb] {
        let options = JpegOptions::lossless().with_encoded_color_space(space);
        for tiff in codecs(&options) {
            assert_eq!(decode(&tiff, &encode(&options, &grey)), grey);
            let decoded = tiff.decode_image(&encode(&options, &colours), &DecodeOptions::default());
            match space {
                EncodedColorSpace::Rgb => assert_eq!(decoded.unwrap(), colours),
                _ => assert_eq!(decoded.unwrap_err().kind(), CodecErrorKind::Unsupported),
            }
            let stored = DecodeOptions::default().with_color(ColorHandling::Stored);
            let decoded = tiff.decode_image(&encode(&options, &colours), &stored);
            assert_eq!(decoded.unwrap(), colours);
        }
    }
}

#[test]
fn tables_of_one_stream_are_not_there_for_the_next() {
    let whole = encode(&JpegOptions::default(), &smooth(shape(16, 16, 3), 8, 1));
    let (_, rest) = abbreviated(&whole);
    for decoder in decoders() {
        for _ in 0..3 {
            decode(&decoder, &whole);
            assert!(decoder.decode_image(&rest, &DecodeOptions::default()).is_err());
        }
    }
    // Nor does one image change how the next is coded.
    let image = smooth(shape(40, 40, 3), 8, 2);
    let plain = encode(&JpegOptions::default(), &image);
    encode(&JpegOptions::default().with_optimize(true), &image);
    encode(&JpegOptions::default().with_progressive(true), &image);
    assert_eq!(encode(&JpegOptions::default(), &image), plain);
}

#[test]
fn parameters_are_persisted_as_the_reference_does() {
    let spec = |value: &serde_json::Value| {
        CodecSpec::from_members(Some(&json!("jpeg")), Some(value)).unwrap()
    };
    let made = |value: serde_json::Value| Registry::builtin().create(&spec(&value)).unwrap();
    let plain =
        json!({"quality": 90, "lossless": false, "progressive": false, "subsampling": "420"});
    assert_eq!(json!(made(json!({})).parameters()), plain);
    let mut tiff = plain.clone();
    tiff["tables_base64"] = json!(null);
    tiff["encoded_color_space"] = json!("YCbCr");
    assert_eq!(json!(made(json!({"tables_base64": null})).parameters()), tiff);
    assert_eq!(json!(made(json!({"encoded_color_space": "YCbCr"})).parameters()), tiff);
    tiff["tables_base64"] = json!("/9j/2Q==");
    assert_eq!(json!(made(json!({"tables_base64": "/9j/2Q=="})).parameters()), tiff);
    let further = json!({"bits": 12, "predictor": 4, "restart_rows": 2, "optimize": true});
    let mut all = further.clone();
    all["lossless"] = json!(true);
    let codec = made(all);
    assert_eq!(json!(codec.encode_members()), further);
    assert_eq!(codec.parameters().len(), 4);
    for (odd, reason) in [
        (json!({"quality": 0}), "0 instead of an integer from 1 to 100"),
        (json!({"quality": 90.0}), "90.0 instead of"),
        (json!({"quality": null}), "null instead of"),
        (json!({"lossless": 1}), "1 instead of true or false"),
        (json!({"subsampling": "411"}), "`411` instead of"),
        (json!({"subsampling": 420}), "420 instead of"),
        (json!({"encoded_color_space": null}), "null instead of"),
        (json!({"encoded_color_space": "rgb"}), "`rgb` instead of"),
        (json!({"tables_base64": "/9j/2Q"}), "no base64"),
        (json!({"tables_base64": 1}), "1 instead of"),
        (json!({"level": 3}), "is not known"),
        (json!({"bits": 17}), "17 instead of"),
        (json!({"bits": 10}), "lossy images have 8 or 12"),
    ] {
        let error = Registry::builtin().create(&spec(&odd)).unwrap_err();
        assert!(error.to_string().contains(reason), "{odd}: {error}");
    }
    assert!(JpegOptions::default().with_quality(101).codec().is_err());
    assert!(JpegOptions::default().with_predictor(0).codec().is_err());
}

#[test]
fn many_threads_get_what_one_gets() {
    let images: Vec<Image> = (1..40_u32)
        .map(|n| {
            smooth(
                shape(n * 3 % 50 + 1, n * 7 % 90 + 1, if n % 2 == 0 { 1 } else { 3 }),
                8,
                n.into(),
            )
        })
        .collect();
    for options in [
        JpegOptions::default(),
        JpegOptions::default().with_progressive(true),
        JpegOptions::lossless(),
        JpegOptions::default().with_tables(None),
    ] {
        images::assert_threads_agree(&options.codec().unwrap(), &images);
    }
}

#[test]
fn decoding_into_a_place_of_another_shape_is_refused() {
    let image = smooth(shape(16, 24, 3), 8, 1);
    let payload = encode(&JpegOptions::default(), &image);
    for decoder in decoders() {
        for other in [shape(24, 16, 3), shape(16, 24, 1), shape(15, 24, 3), shape(16, 25, 3)] {
            let mut place = noise(other, 8, 1);
            let before = place.clone();
            let options = DecodeOptions::default();
            assert!(
                decoder.decode_image_into(&payload, &mut place.as_view_mut(), &options).is_err()
            );
            assert_eq!(place, before);
        }
        let mut place = noise(image.shape(), 16, 1);
        let options = DecodeOptions::default();
        assert!(decoder.decode_image_into(&payload, &mut place.as_view_mut(), &options).is_err());
    }
}

#[test]
fn batches_go_into_one_buffer() {
    let images: Vec<Image> = (0..10).map(|n| smooth(shape(32, 32, 3), 8, n)).collect();
    let codec = JpegOptions::default().codec().unwrap();
    let views: Vec<_> = images.iter().map(Image::as_view).collect();
    let workers = std::num::NonZeroUsize::new(2).unwrap();
    let payloads = codec.encode_images(&views, workers).unwrap();
    let mut out = vec![0_u8; 10 * 32 * 32 * 3];
    let options = DecodeOptions::default();
    codec.decode_images_into(&payloads, shape(32, 32, 3), &mut out[..], &options, workers).unwrap();
    for (payload, found) in payloads.iter().zip(out.chunks(32 * 32 * 3)) {
        let image = codec.decode_image(payload, &options).unwrap();
        assert_eq!(image.samples(), SamplesRef::U8(found));
    }
}

#[test]
fn limits_are_kept_before_pixels_are_made() {
    let image = smooth(shape(64, 64, 3), 8, 1);
    let sequential = encode(&JpegOptions::default(), &image);
    let progressive = encode(&JpegOptions::default().with_progressive(true), &image);
    let limits = Limits::default();
    for decoder in decoders() {
        for (payload, limits, what) in [
            (&sequential, limits.with_max_samples(64 * 64 * 3 - 1), "samples"),
            (&sequential, limits.with_max_decoded_bytes(64 * 64 * 3 - 1), "decoded bytes"),
            (&progressive, limits.with_max_native_memory(64 * 64 * 3 - 1), "native memory"),
        ] {
            let error = decoder.decode_image(payload, &limits.into()).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Limit, "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        // Fewer bytes are needed for fewer pixels, but the samples are those of the whole.
        let options = DecodeOptions::from(limits.with_max_decoded_bytes(64 * 64 * 3 / 4))
            .with_scale(Scale::Half);
        decoder.decode_image(&sequential, &options).unwrap();
        let options = DecodeOptions::from(limits.with_max_samples(64 * 64 * 3 / 4));
        assert!(decoder.decode_image(&sequential, &options.with_scale(Scale::Half)).is_err());
    }
}
