//! What the tests of image codecs share.
#![allow(dead_code, unreachable_pub, clippy::arithmetic_side_effects, clippy::print_stderr)]
#![allow(clippy::cast_possible_truncation, clippy::unwrap_used, clippy::indexing_slicing)]

use std::num::NonZeroUsize;

use iac_codec::{Codec, DecodeOptions, Image, ImageShape, SampleType};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A stream of numbers that is the same for the same seed.
pub fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    }
}

pub fn shape(height: u32, width: u32, channels: u32) -> ImageShape {
    ImageShape::new(height, width, channels).unwrap()
}

/// Samples over the full range of so many bits, each as likely as the others.
pub fn noise(shape: ImageShape, bits: u8, seed: u64) -> Image {
    let mut next = numbers(seed);
    let mask = (1_u64 << bits) - 1;
    let samples = (0..shape.samples()).map(|_| next() & mask);
    if bits <= 8 {
        Image::new(shape, samples.map(|sample| sample as u8).collect::<Vec<u8>>()).unwrap()
    } else {
        Image::new(shape, samples.map(|sample| sample as u16).collect::<Vec<u16>>()).unwrap()
    }
}

/// A smooth image with some noise in its lowest bits.
pub fn smooth(shape: ImageShape, bits: u8, seed: u64) -> Image {
    let mut next = numbers(seed);
    let highest = f64::from((1_u32 << bits) - 1);
    let channels = shape.channels() as usize;
    let width = shape.width() as usize;
    let samples = (0..shape.samples()).map(|at| {
        let (x, y, channel) = (at / channels % width, at / channels / width, at % channels);
        let wave = (x as f64 / 17.0 + channel as f64).sin() * (y as f64 / 23.0).cos();
        let noise = (next() % 4) as f64;
        ((wave * 0.45 + 0.5) * highest + noise).clamp(0.0, highest)
    });
    if bits <= 8 {
        #[allow(clippy::cast_sign_loss)]
        Image::new(shape, samples.map(|sample| sample as u8).collect::<Vec<u8>>()).unwrap()
    } else {
        #[allow(clippy::cast_sign_loss)]
        Image::new(shape, samples.map(|sample| sample as u16).collect::<Vec<u16>>()).unwrap()
    }
}

/// Fails unless the image comes back as it is, by all ways of decoding.
pub fn assert_round_trip(codec: &Codec, image: &Image, what: &str) -> Vec<u8> {
    let payload =
        codec.encode_image(&image.as_view()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let options = DecodeOptions::default();
    let info = codec.image_info(&payload).unwrap();
    assert_eq!((info.shape, info.sample_type), (image.shape(), image.sample_type()), "{what}");
    let decoded =
        codec.decode_image(&payload, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(decoded == *image, "{what}: other samples came back");
    let mut place = image.clone();
    clear(&mut place);
    codec.decode_image_into(&payload, &mut place.as_view_mut(), &options).unwrap();
    assert!(place == *image, "{what}: other samples came back into a place");
    payload
}

fn clear(image: &mut Image) {
    let shape = image.shape();
    *image = match image.sample_type() {
        SampleType::U8 => Image::new(shape, vec![77_u8; shape.samples()]).unwrap(),
        SampleType::U16 => Image::new(shape, vec![7777_u16; shape.samples()]).unwrap(),
        _ => Image::new(shape, vec![-7777_i16; shape.samples()]).unwrap(),
    };
}

/// The largest difference between two images of one shape and type.
pub fn largest_difference(a: &Image, b: &Image) -> i64 {
    assert_eq!((a.shape(), a.sample_type()), (b.shape(), b.sample_type()));
    let wide = |image: &Image| -> Vec<i64> {
        match image.samples() {
            iac_codec::SamplesRef::U8(samples) => samples.iter().map(|s| i64::from(*s)).collect(),
            iac_codec::SamplesRef::U16(samples) => samples.iter().map(|s| i64::from(*s)).collect(),
            iac_codec::SamplesRef::I16(samples) => samples.iter().map(|s| i64::from(*s)).collect(),
            _ => panic!("{}", image.sample_type()),
        }
    };
    wide(a).into_iter().zip(wide(b)).map(|(a, b)| (a - b).abs()).max().unwrap()
}

/// Fails if a cut payload decodes, or anything but an error comes of it.
pub fn assert_every_cut_is_refused(codec: &Codec, payload: &[u8]) {
    for end in 0..payload.len() {
        let cut = &payload[..end];
        let error = codec.decode_image(cut, &DecodeOptions::default());
        assert!(error.is_err(), "{end} of {} bytes decoded", payload.len());
        let _ = codec.image_info(cut);
    }
}

/// Decodes a payload with each of its bytes altered; whatever comes is right as long as it comes.
pub fn survive_flips(codec: &Codec, payload: &[u8], options: &DecodeOptions) {
    for at in 0..payload.len() {
        for flip in [1_u8, 0x80, 0xFF] {
            let mut altered = payload.to_vec();
            altered[at] ^= flip;
            if let Ok(image) = codec.decode_image(&altered, options) {
                assert!(image.shape().samples() as u64 <= options.limits.max_samples);
            }
            let _ = codec.image_info(&altered);
        }
    }
}

/// Encodes and decodes many images of many sizes on many threads; fails unless each comes back
/// as it does alone.
pub fn assert_threads_agree(codec: &Codec, images: &[Image]) {
    let options = DecodeOptions::default();
    let views: Vec<_> = images.iter().map(Image::as_view).collect();
    let alone = codec.encode_images(&views, NonZeroUsize::MIN).unwrap();
    let decoded = codec.decode_images(&alone, &options, NonZeroUsize::MIN).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let (views, alone, decoded) = (&views, &alone, &decoded);
            scope.spawn(move || {
                for round in 0..3 {
                    for at in 0..views.len() {
                        let at = (at * 7 + thread * 3 + round) % views.len();
                        assert!(codec.encode_image(&views[at]).unwrap() == alone[at]);
                        assert!(codec.decode_image(&alone[at], &options).unwrap() == decoded[at]);
                    }
                }
            });
        }
    });
    let workers = NonZeroUsize::new(8).unwrap();
    assert!(codec.encode_images(&views, workers).unwrap() == alone);
    assert!(codec.decode_images(&alone, &options, workers).unwrap() == decoded);
}

pub fn sha256(image: &Image) -> String {
    Sha256::digest(image.samples().to_le_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fails unless the image has the shape, type and samples that a golden file describes.
pub fn assert_golden(image: &Image, expected: &Value, what: &str) {
    let wanted: Vec<u64> =
        expected["shape"].as_array().unwrap().iter().map(|side| side.as_u64().unwrap()).collect();
    assert_eq!(image.shape().dimensions(), wanted, "{what}");
    assert_eq!(image.sample_type().name(), expected["dtype"].as_str().unwrap(), "{what}");
    assert_eq!(sha256(image), expected["sha256"].as_str().unwrap(), "{what}");
}

/// A part of an image.
pub fn crop(image: &Image, x: u32, y: u32, width: u32, height: u32) -> Image {
    let whole = image.shape();
    let channels = whole.channels() as usize;
    let part = shape(height, width, whole.channels());
    let places: Vec<usize> = (0..height as usize)
        .flat_map(|row| {
            let start = ((y as usize + row) * whole.width() as usize + x as usize) * channels;
            start..start + width as usize * channels
        })
        .collect();
    match image.samples() {
        iac_codec::SamplesRef::U8(samples) => {
            Image::new(part, places.iter().map(|at| samples[*at]).collect::<Vec<u8>>()).unwrap()
        }
        iac_codec::SamplesRef::U16(samples) => {
            Image::new(part, places.iter().map(|at| samples[*at]).collect::<Vec<u16>>()).unwrap()
        }
        _ => panic!("{}", image.sample_type()),
    }
}

/// Peak signal to noise ratio in dB.
pub fn psnr(a: &Image, b: &Image, bits: u8) -> f64 {
    let wide = |image: &Image| -> Vec<f64> {
        match image.samples() {
            iac_codec::SamplesRef::U8(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
            iac_codec::SamplesRef::U16(samples) => samples.iter().map(|s| f64::from(*s)).collect(),
            _ => panic!("{}", image.sample_type()),
        }
    };
    let (a, b) = (wide(a), wide(b));
    let squares: f64 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
    let peak = f64::from((1_u32 << bits) - 1);
    10.0 * (peak * peak * a.len() as f64 / squares).log10()
}

/// An image that the reference's encoder destroys, and what it made of it; found through
/// `IAC_FIXTURES`.
pub fn fixture_of_a_broken_stream() -> Option<(Image, Vec<u8>)> {
    let Some(fixtures) = std::env::var_os("IAC_FIXTURES") else {
        eprintln!("not run: IAC_FIXTURES does not name the folder of the fixtures");
        return None;
    };
    let path = std::path::Path::new(&fixtures).join("htj2k/htj2k_reference_mismatch.npz");
    let archive = std::fs::read(path).unwrap();
    let image = unpacked(&archive, "image.npy");
    let samples: Vec<u16> = image[image.len() - 512 * 512 * 2..]
        .chunks_exact(2)
        .map(|two| u16::from_le_bytes([two[0], two[1]]))
        .collect();
    let image = Image::new(shape(512, 512, 1), samples).unwrap();
    let stream = unpacked(&archive, "reference_stream.npy");
    let start = stream.windows(4).position(|four| four == [0xFF, 0x4F, 0xFF, 0x51]).unwrap();
    Some((image, stream[start..].to_vec()))
}

/// A deflated member of a zip archive.
fn unpacked(archive: &[u8], name: &str) -> Vec<u8> {
    let at = archive.windows(name.len()).position(|bytes| bytes == name.as_bytes()).unwrap();
    let header = at - 30;
    assert_eq!(archive[header..header + 4], *b"PK\x03\x04");
    let extra = u16::from_le_bytes([archive[header + 28], archive[header + 29]]);
    let data = &archive[at + name.len() + usize::from(extra)..];
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::DeflateDecoder::new(data), &mut out).unwrap();
    out
}
