//! Native codecs used by several threads at once, each with its own images: what they share is their
//! own affair. `make valgrind` runs this under helgrind, so the threads meet nowhere but at their end.
#![cfg(any(feature = "jpeg", feature = "jpeg2000", feature = "jpegls", feature = "jxl"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![allow(clippy::arithmetic_side_effects, missing_docs)]

use iac_codec::{
    Codec, CodecSpec, DecodeOptions, Image, ImageShape, Parameters, Registry, SampleType, Samples,
};

/// The native codecs of this build that lose nothing, or not more than the same each time.
fn codecs() -> Vec<Codec> {
    let known = [
        ("jpeg", cfg!(feature = "jpeg")),
        ("jpeg2000", cfg!(feature = "jpeg2000")),
        ("jpegls", cfg!(feature = "jpegls")),
        ("jxl", cfg!(feature = "jxl")),
    ];
    let names = known.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
    let spec = |name| CodecSpec::new(name, Parameters::new());
    names.map(|name| Registry::global().create_encoder(&spec(name)).unwrap()).collect()
}

fn image(side: u32, channels: u32, seed: u32) -> Image {
    let shape = ImageShape::new(side, side + 3, channels).unwrap();
    let samples = (0..shape.samples()).map(|at| (at as u32 * (seed + 3) / 2) as u8).collect();
    Image::new(shape, Samples::U8(samples)).unwrap()
}

/// What each codec makes of an image, and the image that comes back.
fn made(codecs: &[Codec], seed: u32) -> Vec<(Vec<u8>, Image)> {
    let mut all = Vec::new();
    for codec in codecs {
        for channels in [1, 3] {
            let image = image(17 + seed, channels, seed);
            assert_eq!(image.sample_type(), SampleType::U8);
            let payload = codec.encode_image(&image.as_view()).unwrap();
            let again = codec.decode_image(&payload, &DecodeOptions::default()).unwrap();
            all.push((payload, again));
        }
    }
    all
}

#[test]
fn threads_with_images_of_their_own_get_what_one_thread_gets() {
    let codecs = codecs();
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            let codecs = codecs.clone();
            std::thread::spawn(move || (made(&codecs, seed), made(&codecs, seed)))
        })
        .collect();
    for (seed, thread) in (0..3).zip(threads) {
        let (first, second) = thread.join().unwrap();
        let alone = made(&codecs, seed);
        assert!(first == alone && second == alone, "thread {seed}");
    }
}
