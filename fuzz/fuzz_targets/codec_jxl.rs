//! JPEG XL payloads: both backends, in every way to decode, and images that are encoded.
//!
//! All ways of one backend must agree and stay within the limits. The two backends reckon floats
//! differently, so where both accept a payload only shape and type must be the same. Each input is
//! also taken for the samples of an image, which must come back from both as they are.
//!
//! An input is a payload. Its first bytes also choose type, channels and effort of the image.
#![no_main]

use std::sync::OnceLock;

use iac_codec::half::f16;
use iac_codec::jxl::{JxlBackend, JxlOptions, TranscodeOptions, reconstruct_jpeg, transcode_jpeg};
use iac_codec::{
    Codec, CodecErrorKind, DecodeOptions, DepthHandling, Image, ImageShape, Limits, Samples, Scale,
};
use iac_fuzz::{Limited, codecs, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Samples of an image, so that a run does not spend its time on large ones.
const MOST: u64 = 1 << 18;

struct Codecs {
    native: Codec,
    pure: Codec,
}

fn all() -> &'static Codecs {
    static CODECS: OnceLock<Codecs> = OnceLock::new();
    CODECS.get_or_init(|| Codecs {
        native: JxlOptions::default().codec().unwrap(),
        pure: JxlOptions::default().with_backend(JxlBackend::PureRust).codec().unwrap(),
    })
}

fn limits() -> Limits {
    Limits::default().with_max_samples(MOST).with_max_native_memory(64 << 20)
}

fuzz_target!(
    init: {
        // A panic of the crate `jxl` is caught and becomes an error. What is not caught still ends
        // the run.
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
        seeds::write(make);
    },
    |payload: &[u8]| {
        let codecs = all();
        let native = decode(&codecs.native, payload);
        let pure = decode(&codecs.pure, payload);
        if let (Some(native), Some(pure)) = (native, pure) {
            assert_eq!((native.shape(), native.sample_type()), (pure.shape(), pure.sample_type()));
        }
        let _ = reconstruct_jpeg(payload, &limits());
        if payload.starts_with(&[0xFF, 0xD8]) {
            let _ = transcode_jpeg(payload, TranscodeOptions::default().with_limits(limits()));
        }
        encode(codecs, payload);
    }
);

/// Decodes in every way.
fn decode(codec: &Codec, payload: &[u8]) -> Option<Image> {
    let options = DecodeOptions::from(limits());
    let info = codec.image_info(payload);
    let decoded = codec.decode_image(payload, &options);
    match &decoded {
        Ok(image) => {
            let info = info.unwrap();
            assert_eq!((info.shape, info.sample_type), (image.shape(), image.sample_type()));
            let mut place = image.clone();
            codec.decode_image_into(payload, &mut place.as_view_mut(), &options).unwrap();
            assert!(place.samples().to_le_bytes() == image.samples().to_le_bytes());
            let unscaled = options.with_depth(DepthHandling::Unscaled);
            assert_eq!(codec.decode_image(payload, &unscaled).unwrap().shape(), image.shape());
        }
        Err(error) => assert!(matches!(
            error.kind(),
            CodecErrorKind::Decode | CodecErrorKind::Limit | CodecErrorKind::Unsupported
        )),
    }
    for scale in [Scale::Half, Scale::Eighth] {
        let small = codec.decode_image(payload, &options.with_scale(scale));
        if let (Ok(small), Ok(image)) = (small, &decoded) {
            assert_eq!(small.shape(), scale.apply(image.shape()));
        }
    }
    let _ = codec.decode_image(payload, &options.with_frame(1));
    decoded.ok()
}

/// Encodes the input as an image, without loss.
fn encode(codecs: &Codecs, input: &[u8]) {
    let Some(([kind, effort, width], rest)) = input.split_first_chunk() else { return };
    let (channels, bytes) = (u32::from(kind & 3) + 1, [1, 2, 2, 4][usize::from(kind >> 2 & 3)]);
    let width = u32::from(width % 24) + 1;
    let row = width as usize * channels as usize * bytes;
    let height = (rest.len() / row).min(24);
    let Ok(shape) = ImageShape::new(height as u32, width, channels) else { return };
    let rest = &rest[..height * row];
    let two = |two: &[u8]| u16::from_le_bytes([two[0], two[1]]);
    let finite = |sample: f32| if sample.is_finite() { sample } else { -0.0 };
    let samples: Samples = match kind >> 2 & 3 {
        0 => rest.to_vec().into(),
        1 => rest.chunks_exact(2).map(two).collect::<Vec<u16>>().into(),
        2 => (rest.chunks_exact(2).map(|bytes| f16::from_bits(two(bytes))))
            .map(|sample| f16::from_f32(finite(sample.to_f32())))
            .collect::<Vec<f16>>()
            .into(),
        _ => (rest.chunks_exact(4))
            .map(|b| finite(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
            .collect::<Vec<f32>>()
            .into(),
    };
    let image = Image::new(shape, samples).unwrap();
    let options = JxlOptions::lossless().with_effort(effort % 7 + 1);
    let payload = options.codec().unwrap().encode_image(&image.as_view()).unwrap();
    for codec in [&codecs.native, &codecs.pure] {
        let decoded = codec.decode_image(&payload, &DecodeOptions::default()).unwrap();
        assert!(decoded.samples().to_le_bytes() == image.samples().to_le_bytes());
    }
}

/// Small streams of each kind, and golden ones.
fn make() -> Vec<(String, Vec<u8>)> {
    let mut made = codecs::payloads("jxl");
    made.extend(codecs::payloads("jpeg"));
    for (name, options, channels) in [
        ("lossless", JxlOptions::lossless().with_effort(1), 3),
        ("lossless-alpha", JxlOptions::lossless().with_effort(4), 4),
        ("boxed", JxlOptions::lossless().with_container(Some(true)), 1),
        ("lossy", JxlOptions::lossy(4.0), 3),
        ("lossy-alpha", JxlOptions::lossy(1.0).with_effort(3), 2),
        ("five-bits", JxlOptions::lossless().with_bits(Some(5)), 1),
    ] {
        let shape = ImageShape::new(20, 21, channels).unwrap();
        let samples: Vec<u8> = (0..shape.samples()).map(|at| (at * at / 7 % 32) as u8).collect();
        let image = Image::new(shape, samples).unwrap();
        let payload = options.codec().unwrap().encode_image(&image.as_view()).unwrap();
        made.push((name.to_owned(), payload));
    }
    made
}
