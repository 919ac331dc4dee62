//! JPEG-LS payloads, in every way to decode.
//!
//! What decodes must come back from a lossless stream of ours, in every interleave; all ways to
//! decode agree and stay within the limits. The library hangs on cut scans and writes past planes
//! of mixed ones, so this also holds what keeps such payloads from it.
//!
//! An input is a payload.
#![no_main]

use std::sync::OnceLock;

use iac_codec::jpegls::{Interleave, JpeglsOptions};
use iac_codec::{Codec, CodecErrorKind, DecodeOptions, Image, ImageShape, Limits};
use iac_fuzz::{Limited, codecs, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Samples of an image, so that a run does not spend its time on large ones.
const MOST: u64 = 1 << 16;

const MODES: [Interleave; 3] = [Interleave::None, Interleave::Line, Interleave::Sample];

fn all() -> &'static [Codec; 3] {
    static CODECS: OnceLock<[Codec; 3]> = OnceLock::new();
    CODECS.get_or_init(|| {
        MODES
            .map(|mode| JpeglsOptions::lossless().with_interleave(mode).extended().codec().unwrap())
    })
}

fuzz_target!(
    init: { seeds::write(make) },
    |payload: &[u8]| {
        let [codec, ..] = all();
        let limits = Limits::default().with_max_samples(MOST);
        let options = DecodeOptions::from(limits);
        let info = codec.image_info(payload);
        match codec.decode_image(payload, &options) {
            Ok(image) => {
                let info = info.unwrap();
                assert_eq!((info.shape, info.sample_type), (image.shape(), image.sample_type()));
                let mut place = image.clone();
                codec.decode_image_into(payload, &mut place.as_view_mut(), &options).unwrap();
                assert!(place == image);
                if image.shape().channels() <= 4 {
                    for codec in all() {
                        // Interleaving by sample is refused where the library would lose samples.
                        if let Ok(again) = codec.encode_image(&image.as_view()) {
                            assert!(codec.decode_image(&again, &options).unwrap() == image);
                        }
                    }
                }
            }
            Err(error) => assert!(matches!(
                error.kind(),
                CodecErrorKind::Decode | CodecErrorKind::Limit | CodecErrorKind::Unsupported
            )),
        }
    }
);

/// Small streams of each kind, and golden ones.
fn make() -> Vec<(String, Vec<u8>)> {
    let mut made = codecs::payloads("jpegls");
    for (mode, channels) in [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3), (1, 4), (2, 4)] {
        for near in [0, 2] {
            let shape = ImageShape::new(9, 11, channels).unwrap();
            let samples: Vec<u8> = (0..shape.samples()).map(|at| (at * at / 7) as u8).collect();
            let image = Image::new(shape, samples).unwrap();
            let options = JpeglsOptions::lossless().with_interleave(MODES[mode]).extended();
            let codec = options.with_near_lossless(near).codec().unwrap();
            // By sample is refused where the library would lose samples.
            let Ok(payload) = codec.encode_image(&image.as_view()) else { continue };
            made.push((format!("{mode}-{channels}-{near}"), payload));
        }
    }
    made
}
