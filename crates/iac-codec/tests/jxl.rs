//! The codec `jxl` on images that are made here.
#![cfg(feature = "jxl")]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::print_stderr
)]

mod common;
mod images;

use common::golden;
use iac_codec::half::f16;
#[cfg(feature = "jxl-decoder")]
use iac_codec::jxl::JxlBackend;
use iac_codec::jxl::{JxlOptions, TranscodeOptions, reconstruct_jpeg, transcode_jpeg};
use iac_codec::{
    Codec, CodecError, CodecErrorKind, CodecSpec, DecodeOptions, DepthHandling, Image, ImageShape,
    ImageView, Limits, Registry, SampleType, Samples, SamplesRef, Scale,
};
use serde_json::json;

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Every bit at random, of finite numbers.
    Bits,
    /// Both signs around 0.
    Normal,
    /// Smooth.
    Ramp,
    /// Few values.
    Few,
}

const KINDS: [Kind; 4] = [Kind::Bits, Kind::Normal, Kind::Ramp, Kind::Few];
const TYPES: [SampleType; 4] = [SampleType::U8, SampleType::U16, SampleType::F16, SampleType::F32];

fn image(shape: ImageShape, sample_type: SampleType, kind: Kind, seed: u64) -> Image {
    let mut noise = Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let count = shape.samples();
    let width = (shape.width() * shape.channels()) as usize;
    let float = |noise: &mut Noise, n: usize| match kind {
        Kind::Bits => f32::NAN,
        Kind::Normal => {
            (0..6).map(|_| (noise.next() % 10_000) as f32 / 10_000.0).sum::<f32>() - 3.0
        }
        Kind::Ramp => ((n % width) as f32).mul_add(0.01, (n / width) as f32 * 0.003),
        Kind::Few => [-1.5, 0.0, 2.0, -0.0][(noise.next() % 4) as usize],
    };
    let integer = |noise: &mut Noise, n: usize| match kind {
        Kind::Bits => noise.next(),
        Kind::Normal => 128 + noise.next() % 16,
        Kind::Ramp => (n % width + n / width) as u64,
        Kind::Few => [0, 7, 255, 65535][(noise.next() % 4) as usize],
    };
    let samples: Samples = match sample_type {
        SampleType::U8 => {
            (0..count).map(|n| integer(&mut noise, n) as u8).collect::<Vec<_>>().into()
        }
        SampleType::U16 => {
            (0..count).map(|n| integer(&mut noise, n) as u16).collect::<Vec<_>>().into()
        }
        SampleType::F16 if matches!(kind, Kind::Bits) => {
            std::iter::repeat_with(|| f16::from_bits(noise.next() as u16))
                .filter(|sample| sample.is_finite())
                .take(count)
                .collect::<Vec<_>>()
                .into()
        }
        SampleType::F16 => {
            (0..count).map(|n| f16::from_f32(float(&mut noise, n))).collect::<Vec<_>>().into()
        }
        SampleType::F32 if matches!(kind, Kind::Bits) => {
            std::iter::repeat_with(|| f32::from_bits(noise.next() as u32))
                .filter(|sample| sample.is_finite())
                .take(count)
                .collect::<Vec<_>>()
                .into()
        }
        SampleType::F32 => (0..count).map(|n| float(&mut noise, n)).collect::<Vec<_>>().into(),
        other => panic!("{other}"),
    };
    Image::new(shape, samples).unwrap()
}

fn shape(height: u32, width: u32, channels: u32) -> ImageShape {
    ImageShape::new(height, width, channels).unwrap()
}

fn same(a: &ImageView<'_>, b: &ImageView<'_>) -> bool {
    (a.shape(), a.sample_type()) == (b.shape(), b.sample_type())
        && a.samples().to_le_bytes() == b.samples().to_le_bytes()
}

fn decoders() -> Vec<Codec> {
    vec![
        JxlOptions::default().codec().unwrap(),
        #[cfg(feature = "jxl-decoder")]
        JxlOptions::default().with_backend(JxlBackend::PureRust).codec().unwrap(),
    ]
}

fn assert_lossless(codec: &Codec, decoders: &[Codec], image: &Image, what: &str) {
    let payload = codec.encode_image(&image.as_view()).unwrap_or_else(|error| {
        panic!("{what}: {error}");
    });
    for (number, decoder) in decoders.iter().enumerate() {
        let decoded = decoder.decode_image(&payload, &DecodeOptions::default());
        let decoded = decoded.unwrap_or_else(|error| panic!("{what}, {number}: {error}"));
        assert!(same(&decoded.as_view(), &image.as_view()), "{what}, {number}");
    }
}

#[test]
fn every_type_count_of_channels_and_effort_comes_back_bit_for_bit() {
    let decoders = decoders();
    for effort in 1..=10 {
        let codec = JxlOptions::lossless().with_effort(effort).codec().unwrap();
        for sample_type in TYPES {
            for channels in 1..=4 {
                for (number, kind) in KINDS.into_iter().enumerate() {
                    let side = if effort > 8 { 9 } else { 17 + number as u32 };
                    let image = image(shape(side, side + 3, channels), sample_type, kind, 5);
                    let what = format!("{sample_type} x {channels}, {kind:?}, effort {effort}");
                    assert_lossless(&codec, &decoders, &image, &what);
                }
            }
        }
    }
}

/// Streams at the limits of what is asked for: seeds, sizes over several groups.
#[test]
fn lossless_images_of_many_sizes_come_back_bit_for_bit() {
    let decoders = decoders();
    let mut seed = 0;
    let mut check = |height, width, channels, efforts: &[u8]| {
        for sample_type in TYPES {
            for kind in KINDS {
                seed += 1;
                let effort = efforts[seed as usize % efforts.len()];
                let codec = JxlOptions::lossless().with_effort(effort).codec().unwrap();
                let image = image(shape(height, width, channels), sample_type, kind, seed);
                let what = format!("{} {sample_type} {kind:?} effort {effort}", image.shape());
                assert_lossless(&codec, &decoders, &image, &what);
            }
        }
    };
    for height in 1..=33 {
        let width = height * 7 % 33 + 1;
        check(height, width, height % 4 + 1, &[1, 2, 3, 4, 5, 6, 7]);
    }
    for (height, width) in [(1, 700), (700, 1), (257, 300), (530, 10)] {
        check(height, width, 3, &[1, 2, 3, 4, 7]);
        check(height, width, 4, &[1, 3, 5]);
    }
}

#[test]
fn what_is_no_number_is_kept_without_loss_and_refused_with_it() {
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE / 8.0, 1e10];
    let wide = Image::new(shape(2, 3, 1), odd.to_vec()).unwrap();
    let half: Vec<f16> = odd[..4].iter().map(|sample| f16::from_f32(*sample)).collect();
    let half = Image::new(shape(2, 2, 1), half).unwrap();
    for image in [wide, half] {
        for effort in 1..=10 {
            let codec = JxlOptions::lossless().with_effort(effort).codec().unwrap();
            assert_lossless(&codec, &decoders(), &image, &format!("effort {effort}"));
        }
        let error = JxlOptions::lossy(1.0).codec().unwrap().encode_image(&image.as_view());
        let error = error.unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage);
        assert!(error.to_string().contains("sample 0 of it is not finite"), "{error}");
    }
}

#[test]
fn colours_under_an_alpha_of_zero_are_kept() {
    let mut samples = vec![0_u8; 32 * 32 * 4];
    for (n, pixel) in samples.chunks_mut(4).enumerate() {
        pixel[..3].copy_from_slice(&[n as u8, 200, (n / 32) as u8 * 7]);
    }
    let image = Image::new(shape(32, 32, 4), samples).unwrap();
    let codec = JxlOptions::lossy(0.5).codec().unwrap();
    let payload = codec.encode_image(&image.as_view()).unwrap();
    let decoded = codec.decode_image(&payload, &DecodeOptions::default()).unwrap();
    assert!(images::largest_difference(&image, &decoded) < 60);
}

#[test]
fn lossy_images_of_every_type_are_near_and_nearer_with_less_distance() {
    for sample_type in TYPES {
        for channels in 1..=4 {
            let image = image(shape(40, 50, channels), sample_type, Kind::Ramp, 3);
            let mut last = f64::INFINITY;
            for distance in [8.0, 1.0, 0.05] {
                let codec = JxlOptions::lossy(distance).with_effort(3).codec().unwrap();
                let payload = codec.encode_image(&image.as_view()).unwrap();
                let mut errors = Vec::new();
                for decoder in decoders() {
                    let decoded =
                        decoder.decode_image(&payload, &DecodeOptions::default()).unwrap();
                    errors.push(mean_difference(&image, &decoded));
                }
                assert!(errors.iter().all(|error| (error - errors[0]).abs() < 0.6), "{errors:?}");
                let what = format!("{sample_type} {channels} {distance}: {} {last}", errors[0]);
                assert!(errors[0] <= last, "{what}");
                last = errors[0];
            }
            let range = if sample_type == SampleType::U8 { 255.0 } else { 1.0 };
            let range = if sample_type == SampleType::U16 { 65535.0 } else { range };
            assert!(last < range * 0.01, "{sample_type} {channels}: {last}");
        }
    }
}

fn values(image: &Image) -> Vec<f64> {
    match image.samples() {
        SamplesRef::U8(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
        SamplesRef::U16(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
        SamplesRef::F16(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
        SamplesRef::F32(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
        _ => panic!("{}", image.sample_type()),
    }
}

fn mean_difference(a: &Image, b: &Image) -> f64 {
    assert_eq!((a.shape(), a.sample_type()), (b.shape(), b.sample_type()));
    let (a, b) = (values(a), values(b));
    a.iter().zip(&b).map(|(a, b)| (a - b).abs()).sum::<f64>() / a.len() as f64
}

#[test]
fn lossy_floats_keep_an_alpha_of_both_signs() {
    for channels in [2, 4] {
        let image = image(shape(33, 41, channels), SampleType::F32, Kind::Normal, 3);
        for effort in 1..=9 {
            let codec = JxlOptions::lossy(1.0).with_effort(effort).codec().unwrap();
            let payload = codec.encode_image(&image.as_view()).unwrap();
            for decoder in decoders() {
                let decoded = decoder.decode_image(&payload, &DecodeOptions::default()).unwrap();
                let pairs = values(&image).into_iter().zip(values(&decoded));
                let alpha = pairs.skip(channels as usize - 1).step_by(channels as usize);
                assert!(alpha.into_iter().all(|(a, b)| a == b), "effort {effort}");
            }
        }
    }
}

#[test]
fn half_floats_with_alpha_are_encoded_at_large_distances() {
    for channels in [2, 4] {
        let image = image(shape(32, 32, channels), SampleType::F16, Kind::Ramp, 3);
        for distance in [15.0, 25.0] {
            for effort in [1, 3, 7] {
                let codec = JxlOptions::lossy(distance).with_effort(effort).codec().unwrap();
                let payload = codec.encode_image(&image.as_view()).unwrap();
                let decoded = codec.decode_image(&payload, &DecodeOptions::default()).unwrap();
                assert_eq!(decoded.shape(), image.shape());
            }
        }
    }
}

#[test]
fn containers_are_there_when_asked_for_and_when_the_library_needs_one() {
    let boxed = |options: JxlOptions, sample_type| {
        let image = image(shape(9, 9, 1), sample_type, Kind::Ramp, 1);
        let payload = options.codec().unwrap().encode_image(&image.as_view()).unwrap();
        payload.starts_with(b"\0\0\0\x0CJXL ")
    };
    for asked in [None, Some(false), Some(true)] {
        let yes = asked == Some(true);
        let lossless = JxlOptions::lossless().with_container(asked);
        assert_eq!(boxed(lossless, SampleType::U8), yes);
        assert_eq!(boxed(lossless.with_bits(Some(12)), SampleType::U16), yes);
        assert!(boxed(lossless, SampleType::U16));
        assert!(boxed(lossless, SampleType::F16));
        assert!(boxed(lossless, SampleType::F32));
        let lossy = JxlOptions::lossy(1.0).with_container(asked);
        assert_eq!(boxed(lossy, SampleType::U8), yes);
        assert_eq!(boxed(lossy, SampleType::U16), yes);
    }
}

#[test]
fn fewer_bits_come_back_as_they_are_or_stretched() {
    for bits in (1..=7).chain(9..=15) {
        let sample_type = if bits < 9 { SampleType::U8 } else { SampleType::U16 };
        for channels in 1..=4 {
            for effort in [1, 4, 7] {
                let image = images::noise(shape(21, 18, channels), bits, u64::from(bits));
                assert_eq!(image.sample_type(), sample_type);
                let options = JxlOptions::lossless().with_bits(Some(bits)).with_effort(effort);
                let codec = options.with_verify(true).codec().unwrap();
                let payload = codec.encode_image(&image.as_view()).unwrap();
                for decoder in decoders() {
                    let what = format!("{bits} bits, {:?}", decoder.image_capabilities());
                    let info = decoder.image_info(&payload).unwrap();
                    assert_eq!((info.bits, info.sample_type), (Some(bits), sample_type));
                    let unscaled = DecodeOptions::default().with_depth(DepthHandling::Unscaled);
                    let decoded = decoder.decode_image(&payload, &unscaled).unwrap();
                    assert!(decoded == image, "{what}");
                    let decoded =
                        decoder.decode_image(&payload, &DecodeOptions::default()).unwrap();
                    let from = f64::from((1_u32 << bits) - 1);
                    let to = if bits < 9 { 255.0 } else { 65535.0 };
                    for (value, stretched) in values(&image).iter().zip(values(&decoded)) {
                        // Samples of 8 bits may be dithered.
                        let exact = value / from * to;
                        let off = (exact - stretched).abs();
                        assert!(off <= if bits < 9 { 1.0 } else { 0.51 }, "{what}: {value}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_references_stretched_number_comes_back() {
    let image = Image::new(shape(1, 1, 1), vec![594_u16]).unwrap();
    let codec = JxlOptions::lossless().with_bits(Some(12)).codec().unwrap();
    let payload = codec.encode_image(&image.as_view()).unwrap();
    let decoded = codec.decode_image(&payload, &DecodeOptions::default()).unwrap();
    assert_eq!(decoded.into_samples(), Samples::U16(vec![9506]));
}

#[test]
fn samples_above_the_declared_bits_and_odd_combinations_are_refused() {
    let refusal = |bits: u8, samples: Samples| {
        let image = Image::new(shape(1, 2, 1), samples).unwrap();
        let codec = JxlOptions::lossless().with_bits(Some(bits)).codec().unwrap();
        let error = codec.encode_image(&image.as_view()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage);
        error.to_string()
    };
    assert!(
        refusal(12, vec![0_u16, 4096].into())
            .ends_with("a sample of it is 4096, but 12 bits hold up to 4095")
    );
    assert!(refusal(1, vec![0_u8, 2].into()).ends_with("1 bits hold up to 1"));
    assert!(refusal(12, vec![0_u8, 2].into()).contains("1 to 8 bits can be declared, not 12"));
    assert!(refusal(8, vec![0_u16, 2].into()).contains("9 to 16 bits can be declared, not 8"));
    assert!(refusal(12, vec![0_f32, 2.0].into()).contains("can be declared for integers"));
    let full = JxlOptions::lossless().with_bits(Some(16)).codec().unwrap();
    let image = images::noise(shape(5, 5, 1), 16, 1);
    images::assert_round_trip(&full, &image, "16 of 16 bits");
}

#[test]
fn images_beyond_the_codec_are_refused_with_what_it_has() {
    let codec = JxlOptions::lossless().codec().unwrap();
    let refusal = |image: Image| {
        let error = codec.encode_image(&image.as_view()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage);
        error.to_string()
    };
    let five = Image::new(shape(2, 2, 5), vec![0_u8; 20]).unwrap();
    assert!(refusal(five).ends_with("it has 5 channels instead of 1 to 4"));
    let signed = Image::new(shape(2, 2, 1), vec![0_i16; 4]).unwrap();
    assert!(refusal(signed.clone()).contains("of type int16"));
    let codec = codec.with_int16_samples().unwrap();
    let payload = codec.encode_image(&signed.as_view()).unwrap();
    assert!(codec.decode_image(&payload, &DecodeOptions::default()).unwrap() == signed);
}

#[test]
fn parameters_are_persisted_as_the_reference_does_and_checked_as_it_does() {
    let make = |parameters: serde_json::Value| {
        let spec = CodecSpec::from_members(Some(&json!("jxl")), Some(&parameters)).unwrap();
        Registry::builtin().create(&spec)
    };
    for (given, persisted) in [
        (json!({}), json!({"lossless": false, "distance": 1.0, "effort": 7, "usecontainer": null})),
        (
            json!({"distance": null, "effort": null, "usecontainer": null, "nope": 1}),
            json!({"lossless": false, "distance": 1.0, "effort": 7, "usecontainer": null}),
        ),
        (
            json!({"lossless": true, "distance": 0, "effort": 255, "usecontainer": false}),
            json!({"lossless": true, "distance": 0.0, "effort": 255, "usecontainer": false}),
        ),
        (
            json!({"distance": -1, "effort": 0, "bits": 12, "verify": true}),
            json!({"lossless": false, "distance": -1.0, "effort": 0, "usecontainer": null}),
        ),
    ] {
        let codec = make(given).unwrap();
        assert_eq!(serde_json::Value::Object(codec.parameters()), persisted);
    }
    for wrong in [
        json!({"lossless": null}),
        json!({"lossless": 1}),
        json!({"distance": "1"}),
        json!({"distance": true}),
        json!({"effort": 300}),
        json!({"effort": -1}),
        json!({"effort": 7.0}),
        json!({"effort": true}),
        json!({"usecontainer": 1}),
    ] {
        let error = make(wrong.clone()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode, "{wrong}");
        assert_eq!(error.field(), Some("codec_params"), "{wrong}");
    }
    for (unfit, named) in [
        (json!({"distance": 0}), "distance"),
        (json!({"distance": 25.5}), "distance"),
        (json!({"distance": -1}), "distance"),
        (json!({"effort": 0}), "effort"),
        (json!({"effort": 11}), "effort"),
        (json!({"bits": 17}), "bits"),
        (json!({"bits": "x"}), "bits"),
        (json!({"verify": "yes"}), "verify"),
        (json!({"efort": 3}), "efort"),
    ] {
        let codec = make(unfit).unwrap();
        let image = images::noise(shape(2, 2, 1), 8, 1);
        for error in
            [codec.check_encode().unwrap_err(), codec.encode_image(&image.as_view()).unwrap_err()]
        {
            assert!(error.to_string().contains(&format!("parameter `{named}`")), "{error}");
        }
    }
    let codec = make(json!({"lossless": true, "distance": 77, "bits": 12, "verify": true}));
    let members = serde_json::Value::Object(codec.unwrap().encode_members());
    assert_eq!(members, json!({"bits": 12, "verify": true}));
    assert!(make(json!({"distance": 1})).unwrap().encode_members().is_empty());
    assert!(JxlOptions::lossy(f64::NAN).codec().is_err());
    assert!(JxlOptions::lossless().with_effort(11).codec().is_err());
}

#[test]
fn small_sizes_have_their_shape_and_are_near_the_mean_of_the_pixels() {
    for (options, exact) in [(JxlOptions::lossless(), true), (JxlOptions::lossy(0.5), false)] {
        let codec = options.with_effort(3).codec().unwrap();
        for (height, width) in [(1, 1), (7, 9), (64, 64), (130, 257)] {
            for channels in 1..=4 {
                let image = images::smooth(shape(height, width, channels), 8, 1);
                let payload = codec.encode_image(&image.as_view()).unwrap();
                let full = codec.decode_image(&payload, &DecodeOptions::default()).unwrap();
                for scale in Scale::ALL {
                    let options = DecodeOptions::default().with_scale(scale);
                    let small = codec.decode_image(&payload, &options).unwrap();
                    let what = format!("{} {scale}", image.shape());
                    assert_eq!(small.shape(), scale.apply(image.shape()), "{what}");
                    let mut place = small.clone();
                    codec.decode_image_into(&payload, &mut place.as_view_mut(), &options).unwrap();
                    assert!(place == small);
                    let expected = averaged(&full, scale.denominator());
                    let worst = expected.iter().zip(values(&small)).map(|(a, b)| (a - b).abs());
                    let worst = worst.fold(0.0, f64::max);
                    assert!(worst <= if exact { 0.5 } else { 24.0 }, "{what}: {worst}");
                }
            }
        }
    }
}

/// Means of squares, the simple way.
fn averaged(image: &Image, side: u32) -> Vec<f64> {
    let (all, side) = (values(image), side as usize);
    let [height, width, channels] =
        [image.shape().height(), image.shape().width(), image.shape().channels()]
            .map(|side| side as usize);
    let mut means = Vec::new();
    for y in (0..height).step_by(side) {
        for x in (0..width).step_by(side) {
            for channel in 0..channels {
                let (mut sum, mut count) = (0.0, 0.0);
                for row in y..(y + side).min(height) {
                    for column in x..(x + side).min(width) {
                        sum += all[(row * width + column) * channels + channel];
                        count += 1.0;
                    }
                }
                means.push(sum / count);
            }
        }
    }
    means
}

#[test]
fn cut_and_altered_streams_are_refused_or_decode_within_limits() {
    let image = images::smooth(shape(19, 23, 3), 8, 4);
    let limits = Limits::default().with_max_samples(1 << 20).with_max_native_memory(64 << 20);
    let options = DecodeOptions::from(limits);
    for encoder in [
        JxlOptions::lossless().with_effort(1),
        JxlOptions::lossless().with_container(Some(true)),
        JxlOptions::lossy(4.0),
    ] {
        let payload = encoder.codec().unwrap().encode_image(&image.as_view()).unwrap();
        for decoder in decoders() {
            images::assert_every_cut_is_refused(&decoder, &payload);
            images::survive_flips(&decoder, &payload, &options);
            let mut longer = payload.clone();
            longer.extend(b"what follows");
            let decoded = decoder.decode_image(&longer, &options).unwrap();
            assert!(decoded == decoder.decode_image(&payload, &options).unwrap());
        }
    }
}

#[test]
fn other_files_are_named_by_their_first_bytes() {
    for decoder in decoders() {
        for (payload, reason) in [
            (
                &b"\x89PNG\r\n\x1A\n...."[..],
                "it starts with \"\\x89PNG\\r\\n\\x1a\\n....\", as no JPEG XL stream does",
            ),
            (b"", "its 0 bytes end before the image does"),
            (b"\xFF", "its 1 bytes end before the image does"),
        ] {
            for error in [
                decoder.image_info(payload).map(|_| ()).unwrap_err(),
                decoder.decode_image(payload, &DecodeOptions::default()).map(|_| ()).unwrap_err(),
            ] {
                assert_eq!(error.kind(), CodecErrorKind::Decode);
                assert!(error.to_string().ends_with(reason), "{error}");
            }
        }
    }
}

/// A header of an image with so many rows and columns, without anything after it.
fn bomb(side: u32) -> Vec<u8> {
    // Not small; 30 bits for the height less 1; as wide as high; all else as usual.
    let bits = 0b110_u64 | (u64::from(side - 1) << 3) | (1 << 33) | (1 << 36);
    let mut stream = vec![0xFF, 0x0A];
    stream.extend(bits.to_le_bytes());
    stream.extend([0; 64]);
    stream
}

#[test]
fn claims_beyond_the_limits_are_refused_before_memory_is_taken() {
    for decoder in decoders() {
        for side in [1 << 20, 1 << 30] {
            let payload = bomb(side);
            let error = decoder.decode_image(&payload, &DecodeOptions::default());
            let error = error.map(|_| ()).unwrap_err();
            let what = format!("{side}: {error}");
            assert!(
                matches!(error.kind(), CodecErrorKind::Limit | CodecErrorKind::Decode),
                "{what}"
            );
        }
        let image = images::smooth(shape(512, 512, 3), 8, 4);
        let codec = JxlOptions::lossy(1.0).with_effort(3).codec().unwrap();
        let payload = codec.encode_image(&image.as_view()).unwrap();
        for (limits, what) in [
            (Limits::default().with_max_samples(512 * 512 * 3 - 1), "samples"),
            (Limits::default().with_max_decoded_bytes(512 * 512 * 3 - 1), "decoded bytes"),
        ] {
            let error = decoder.decode_image(&payload, &limits.into()).map(|_| ()).unwrap_err();
            assert!(matches!(error, CodecError::Limit { what: found, .. } if found == what));
            let small = DecodeOptions::from(limits).with_scale(Scale::Eighth);
            let error = decoder.decode_image(&payload, &small).map(|_| ()).unwrap_err();
            assert!(matches!(error, CodecError::Limit { what: found, .. } if found == what));
        }
    }
}

#[test]
fn native_memory_is_bounded_and_the_bound_is_named() {
    let image = images::smooth(shape(512, 512, 3), 8, 4);
    let codec = JxlOptions::lossy(1.0).with_effort(3).codec().unwrap();
    let payload = codec.encode_image(&image.as_view()).unwrap();
    let mut refused = 0;
    for bytes in (0..22).map(|power| 100_u64 << power) {
        let limits = Limits::default().with_max_native_memory(bytes);
        match codec.decode_image(&payload, &limits.into()) {
            Ok(_) => assert!(bytes > 1 << 20),
            Err(CodecError::Limit { what, found, allowed }) => {
                assert_eq!((what, allowed), ("bytes of native memory", bytes));
                assert!(found > bytes);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!((10..22).contains(&refused), "{refused}");
}

#[test]
fn eight_threads_get_what_one_gets() {
    let images: Vec<Image> = (1..9)
        .map(|n| {
            images::smooth(shape(n * 9, 70 - n * 7, n % 4 + 1), if n % 2 == 0 { 8 } else { 16 }, 2)
        })
        .collect();
    for options in [JxlOptions::lossless().with_effort(2), JxlOptions::lossy(2.0).with_effort(4)] {
        images::assert_threads_agree(&options.codec().unwrap(), &images);
    }
}

#[test]
fn jpeg_files_come_back_byte_for_byte() {
    for name in ["jpeg_a0", "jpeg_a1", "jpeg_a2"] {
        for (row, jpeg) in golden("container", name).payloads.iter().enumerate() {
            let transcoded = transcode_jpeg(jpeg, TranscodeOptions::default());
            let lossless = jpeg.windows(2).any(|marker| marker == [0xFF, 0xC3]);
            let Ok(payload) = transcoded else {
                assert!(lossless, "{name} row {row}: {}", transcoded.unwrap_err());
                continue;
            };
            let limits = Limits::default();
            let rebuilt = reconstruct_jpeg(&payload, &limits).unwrap();
            assert!(rebuilt.as_deref() == Some(&jpeg[..]), "{name} row {row}");
            let tight = limits.with_max_decoded_bytes(jpeg.len() as u64);
            assert!(reconstruct_jpeg(&payload, &tight).unwrap().is_some());
            let tight = limits.with_max_decoded_bytes(jpeg.len() as u64 - 1);
            assert_eq!(
                reconstruct_jpeg(&payload, &tight).unwrap_err().kind(),
                CodecErrorKind::Limit
            );
            assert!(reconstruct_jpeg(&payload[..payload.len() / 2], &limits).is_err());
            let mut shapes = Vec::new();
            for decoder in decoders() {
                shapes.push(decoder.decode_image(&payload, &limits.into()).unwrap().shape());
            }
            assert!(shapes.iter().all(|shape| *shape == shapes[0]));
        }
    }
}

#[test]
fn what_is_no_jpeg_is_not_transcoded_and_what_holds_none_gives_none() {
    let error = transcode_jpeg(b"GIF89a", TranscodeOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("it starts with \"GIF89a\", as no JPEG file does"));
    for broken in [&b"\xFF\xD8"[..], b"\xFF\xD8\xFF\xD9", b"\xFF\xD8\xFF\xC0\x00"] {
        let error = transcode_jpeg(broken, TranscodeOptions::default()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage, "{error}");
    }
    assert!(transcode_jpeg(b"\xFF\xD8", TranscodeOptions::default().with_effort(0)).is_err());
    let image = images::noise(shape(4, 4, 1), 8, 1);
    let codec = JxlOptions::lossless().codec().unwrap();
    let payload = codec.encode_image(&image.as_view()).unwrap();
    assert_eq!(reconstruct_jpeg(&payload, &Limits::default()).unwrap(), None);
    assert!(reconstruct_jpeg(b"GIF89a", &Limits::default()).is_err());
}

#[test]
fn verified_encoding_gives_the_same_stream() {
    for sample_type in TYPES {
        let image = image(shape(20, 20, 2), sample_type, Kind::Normal, 8);
        for options in [JxlOptions::lossless(), JxlOptions::lossy(1.0)] {
            let plain = options.codec().unwrap().encode_image(&image.as_view()).unwrap();
            let verified = options.with_verify(true).codec().unwrap();
            assert!(verified.encode_image(&image.as_view()).unwrap() == plain);
        }
    }
}

#[cfg(feature = "jxl-decoder")]
#[test]
fn backend_that_decodes_only_says_which_feature_encodes() {
    let codec = JxlOptions::lossless().with_backend(JxlBackend::PureRust).codec().unwrap();
    let image = images::noise(shape(4, 4, 1), 8, 1);
    let error = codec.encode_image(&image.as_view()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::MissingFeature);
    assert!(!codec.image_capabilities().unwrap().encodes(SampleType::U8, 1));
}
