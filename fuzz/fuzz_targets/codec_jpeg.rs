//! JPEG payloads: both backends, in every way to decode.
//!
//! Where both accept a lossless payload they must give the same samples; of lossy ones, whose
//! numbers the two reckon differently, the same shape and type. All ways of one backend must agree,
//! and stay within the limits.
//!
//! An input is a payload.
#![no_main]

use std::sync::OnceLock;

use iac_codec::jpeg::{EncodedColorSpace, JpegBackend, JpegOptions, Subsampling};
use iac_codec::{
    Codec, CodecErrorKind, ColorHandling, DamageHandling, DecodeOptions, Image, ImageShape, Limits,
    Scale,
};
use iac_fuzz::{Limited, codecs, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Samples of an image, so that a run does not spend its time on large ones.
const MOST: u64 = 1 << 20;

struct Codecs {
    turbo: Codec,
    pure: Codec,
    tiff: Codec,
}

fn all() -> &'static Codecs {
    static CODECS: OnceLock<Codecs> = OnceLock::new();
    CODECS.get_or_init(|| {
        let options = JpegOptions::default();
        let pure = options.clone().with_backend(JpegBackend::PureRust);
        let tiff = options.clone().with_encoded_color_space(EncodedColorSpace::Rgb);
        Codecs {
            turbo: options.codec().unwrap(),
            pure: pure.codec().unwrap(),
            tiff: tiff.codec().unwrap(),
        }
    })
}

fuzz_target!(
    init: {
        // The crate `jpeg-decoder` panics on some payloads, which is caught and becomes an error.
        // What is not caught still ends the run.
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
        seeds::write(make);
    },
    |payload: &[u8]| {
        let codecs = all();
        let turbo = decode(&codecs.turbo, payload);
        let pure = decode(&codecs.pure, payload);
        if let (Some(turbo), Some(pure)) = (turbo, pure) {
            assert_eq!((turbo.shape(), turbo.sample_type()), (pure.shape(), pure.sample_type()));
            if payload.windows(2).any(|two| two == [0xFF, 0xC3])
                && !payload.windows(2).any(|two| matches!(two, [0xFF, 0xC0..=0xC2]))
            {
                assert!(turbo == pure);
            }
        }
        decode(&codecs.tiff, payload);
    }
);

/// Decodes in every way.
fn decode(codec: &Codec, payload: &[u8]) -> Option<Image> {
    let limits = Limits::default().with_max_samples(MOST).with_max_native_memory(64 << 20);
    let options = DecodeOptions::from(limits);
    let info = codec.image_info(payload);
    let decoded = codec.decode_image(payload, &options);
    match &decoded {
        Ok(image) => {
            let info = info.unwrap();
            assert_eq!((info.shape, info.sample_type), (image.shape(), image.sample_type()));
            let mut place = image.clone();
            codec.decode_image_into(payload, &mut place.as_view_mut(), &options).unwrap();
            assert!(place == *image);
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
    let tolerant = options.with_damage(DamageHandling::Tolerate);
    let _ = codec.decode_image(payload, &tolerant);
    let _ = codec.decode_image(payload, &tolerant.with_color(ColorHandling::Stored));
    decoded.ok()
}

/// Small streams of each kind, and golden ones.
fn make() -> Vec<(String, Vec<u8>)> {
    let mut made = codecs::payloads("jpeg");
    let lossy = JpegOptions::default();
    for (name, options, channels) in [
        ("sequential", lossy.clone(), 3),
        ("444", lossy.clone().with_subsampling(Subsampling::S444).with_restart_rows(1), 3),
        ("progressive", lossy.clone().with_progressive(true), 3),
        ("grey", lossy, 1),
        ("lossless", JpegOptions::lossless().with_predictor(4), 3),
    ] {
        let shape = ImageShape::new(20, 21, channels).unwrap();
        let samples: Vec<u8> = (0..shape.samples()).map(|at| (at * at / 7) as u8).collect();
        let image = Image::new(shape, samples).unwrap();
        let payload = options.codec().unwrap().encode_image(&image.as_view()).unwrap();
        made.push((name.to_owned(), payload));
    }
    made
}
