//! High-throughput streams against classic ones: the same samples in both, with the same wavelet, come
//! back the same in every way of decoding, and no cut of either passes for the whole.
//!
//! Both profiles are decoded by OpenJPEG; the high-throughput encoder is ours. An input is what
//! `arbitrary` makes a [`Picture`] of.
#![no_main]

use iac_codec::jpeg2000::{Jpeg2000Options, Profile, Region, decode_region};
use iac_codec::{Codec, DecodeOptions, Image, ImageShape, Limits, Samples, Scale};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Samples of an image, so that a run does not spend its time on large ones.
const MOST: u32 = 1 << 12;

/// What a picture is made of.
#[derive(Debug, Arbitrary)]
struct Picture<'a> {
    height: u8,
    width: u8,
    channels: u8,
    kind: Kind,
    bits: u8,
    levels: u8,
    transform: bool,
    lossy: Option<u8>,
    region: [u8; 4],
    cut: u16,
    fill: Fill,
    samples: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
enum Kind {
    U8,
    U16,
    I16,
}

/// How samples go on when the input's have ended.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Fill {
    Again,
    Last,
    Ramp,
}

fuzz_target!(
    init: seeds::write(seeds::noise),
    |input: &[u8]| {
        if let Ok(picture) = Picture::arbitrary_take_rest(Unstructured::new(input)) {
            run(&picture);
        }
    }
);

fn run(picture: &Picture<'_>) {
    let channels = u32::from(picture.channels % 4) + 1;
    let width = u32::from(picture.width) + 1;
    let height = (u32::from(picture.height) + 1).min(MOST / (width * channels)).max(1);
    let shape = ImageShape::new(height, width, channels).unwrap();
    let bits = match picture.kind {
        Kind::U8 => picture.bits % 8 + 1,
        Kind::U16 => picture.bits % 8 + 9,
        Kind::I16 => 16,
    };
    let image = Image::new(shape, samples(picture, bits, shape)).unwrap();
    let lossless = |profile| {
        let mut options = Jpeg2000Options::lossless()
            .extended()
            .with_profile(profile)
            .with_levels(picture.levels % 8)
            .with_color_transform(picture.transform && channels >= 3);
        if picture.kind != Kind::I16 {
            options = options.with_bits_per_sample(bits);
        }
        options.codec().unwrap()
    };
    let (classic, fast) = (lossless(Profile::Classic), lossless(Profile::Ht));
    let old = classic.encode_image(&image.as_view()).unwrap();
    let new = fast.encode_image(&image.as_view()).unwrap();
    let options = DecodeOptions::from(Limits::default());
    assert!(decode(&classic, &old, &options) == image, "classic stream: other samples");
    assert!(decode(&fast, &new, &options) == image, "high-throughput stream: other samples");
    for scale in [Scale::Half, Scale::Quarter, Scale::Eighth] {
        let options = options.with_scale(scale);
        let (old, new) = (classic.decode_image(&old, &options), fast.decode_image(&new, &options));
        match (old, new) {
            (Ok(old), Ok(new)) => assert!(old == new, "other samples at 1/{}", scale.denominator()),
            (Err(_), Err(_)) => {}
            (old, new) => panic!("classic {:?}, high-throughput {:?}", old.err(), new.err()),
        }
    }
    let region = region(picture.region, shape);
    let old_part = decode_region(&old, region, &options).unwrap();
    let new_part = decode_region(&new, region, &options).unwrap();
    assert!(old_part == new_part, "{region:?}: other samples");

    for (codec, stream) in [(&classic, &old), (&fast, &new)] {
        let cut = usize::from(picture.cut) % stream.len();
        assert!(codec.decode_image(&stream[..cut], &options).is_err(), "cut at byte {cut}");
    }
    if let Some(quality) = picture.lossy {
        let quality = f32::from(quality % 100) + 1.0;
        let codec = Jpeg2000Options::with_quality(quality).extended().with_profile(Profile::Ht);
        let codec = codec.codec().unwrap();
        let stream = codec.encode_image(&image.as_view()).unwrap();
        let again = decode(&codec, &stream, &options);
        assert_eq!((again.shape(), again.sample_type()), (shape, image.sample_type()));
    }
}

fn decode(codec: &Codec, stream: &[u8], options: &DecodeOptions) -> Image {
    codec.decode_image(stream, options).unwrap()
}

fn samples(picture: &Picture<'_>, bits: u8, shape: ImageShape) -> Samples {
    let wide = picture.kind != Kind::U8;
    let given: Vec<u16> = if wide {
        picture.samples.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect()
    } else {
        picture.samples.iter().map(|byte| u16::from(*byte)).collect()
    };
    let mask = u16::MAX >> (16 - u32::from(bits));
    let values = (0..shape.samples()).map(|at| {
        let value = match (given.get(at), picture.fill) {
            (Some(value), _) => *value,
            (None, Fill::Again) if !given.is_empty() => given[at % given.len()],
            (None, Fill::Last) => given.last().copied().unwrap_or(0),
            (None, _) => (at as u16).wrapping_mul(3),
        };
        value & mask
    });
    match picture.kind {
        Kind::U8 => Samples::U8(values.map(|value| value as u8).collect()),
        Kind::U16 => Samples::U16(values.collect()),
        Kind::I16 => Samples::I16(values.map(|value| value.cast_signed()).collect()),
    }
}

/// A part of an image that lies in it.
fn region([x, y, width, height]: [u8; 4], shape: ImageShape) -> Region {
    let x = u32::from(x) % shape.width();
    let y = u32::from(y) % shape.height();
    Region {
        x,
        y,
        width: u32::from(width) % (shape.width() - x) + 1,
        height: u32::from(height) % (shape.height() - y) + 1,
    }
}
