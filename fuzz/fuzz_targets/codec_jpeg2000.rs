//! JPEG 2000 payloads, classic and high-throughput, bare and in JP2 files, in every way to decode.
//!
//! What decodes must come back from a lossless stream of ours, of either kind; all ways to decode
//! agree and stay within the limits.
//!
//! An input is a payload.
#![no_main]

use std::sync::OnceLock;

use iac_codec::jpeg2000::{Container, Jpeg2000Options, Profile, Region, decode_region};
use iac_codec::{
    Codec, CodecErrorKind, ColorHandling, DecodeOptions, Image, ImageShape, Limits, Scale,
};
use iac_fuzz::{Limited, codecs, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Samples of an image, so that a run does not spend its time on large ones.
const MOST: u64 = 1 << 14;

fn all() -> &'static [Codec; 2] {
    static CODECS: OnceLock<[Codec; 2]> = OnceLock::new();
    CODECS.get_or_init(|| {
        [Profile::Classic, Profile::Ht].map(|profile| {
            Jpeg2000Options::lossless().with_profile(profile).extended().codec().unwrap()
        })
    })
}

fuzz_target!(
    init: { seeds::write(make) },
    |payload: &[u8]| {
        let [codec, _] = all();
        let limits = Limits::default().with_max_samples(MOST).with_max_native_memory(64 << 20);
        let options = DecodeOptions::from(limits);
        let info = codec.image_info(payload);
        match codec.decode_image(payload, &options) {
            Ok(image) => {
                let info = info.unwrap();
                assert_eq!((info.shape, info.sample_type), (image.shape(), image.sample_type()));
                ways(codec, payload, &image, &options);
                if image.shape().channels() <= 255 {
                    for codec in all() {
                        let again = codec.encode_image(&image.as_view()).unwrap();
                        assert!(codec.decode_image(&again, &options).unwrap() == image);
                    }
                }
            }
            Err(error) => assert!(matches!(
                error.kind(),
                CodecErrorKind::Decode | CodecErrorKind::Limit | CodecErrorKind::Unsupported
            )),
        }
        let _ = codec.decode_image(payload, &options.with_color(ColorHandling::Stored));
    }
);

fn ways(codec: &Codec, payload: &[u8], image: &Image, options: &DecodeOptions) {
    let mut place = image.clone();
    codec.decode_image_into(payload, &mut place.as_view_mut(), options).unwrap();
    assert!(place == *image);
    for scale in [Scale::Half, Scale::ThirtySecond] {
        if let Ok(small) = codec.decode_image(payload, &options.with_scale(scale)) {
            assert_eq!(small.shape(), scale.apply(image.shape()));
        }
    }
    let (height, width) = (image.shape().height(), image.shape().width());
    let (x, y) = (width / 3, height / 3);
    let region = Region { x, y, width: (width - x).div_ceil(2), height: (height - y).div_ceil(2) };
    if let Ok(part) = decode_region(payload, region, options) {
        assert_eq!((part.shape().height(), part.shape().width()), (region.height, region.width));
    }
}

/// Small streams of each kind, and golden ones.
fn make() -> Vec<(String, Vec<u8>)> {
    let mut made = codecs::payloads("jpeg2000");
    let lossless = Jpeg2000Options::lossless().extended();
    for (name, options, channels) in [
        ("grey", lossless, 1),
        ("rgb", lossless, 3),
        ("lossy", Jpeg2000Options::lossy(), 3),
        ("jp2", lossless.with_container(Container::Jp2), 4),
        ("ht", lossless.with_profile(Profile::Ht), 1),
        ("ht-transform", lossless.with_profile(Profile::Ht).with_color_transform(true), 3),
        ("ht-lossy", Jpeg2000Options::lossy().with_profile(Profile::Ht), 1),
    ] {
        for side in [5, 20] {
            let shape = ImageShape::new(side, side + 1, channels).unwrap();
            let samples: Vec<u8> = (0..shape.samples()).map(|at| (at * at / 7) as u8).collect();
            let image = Image::new(shape, samples).unwrap();
            let payload = options.codec().unwrap().encode_image(&image.as_view()).unwrap();
            made.push((format!("{name}-{side}"), payload));
        }
    }
    made
}
