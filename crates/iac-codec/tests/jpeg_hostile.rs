//! The codec `jpeg` on payloads that are cut, altered or boast.
#![cfg(feature = "jpeg")]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod images;

use std::time::{Duration, Instant};

use iac_codec::jpeg::{EncodedColorSpace, JpegBackend, JpegOptions, Subsampling};
use iac_codec::{
    Codec, CodecErrorKind, DamageHandling, DecodeOptions, Image, Limits, SamplesMut, SamplesRef,
    Scale,
};
use images::{assert_every_cut_is_refused, noise, shape, smooth, survive_flips};

fn decoders() -> Vec<Codec> {
    vec![
        JpegOptions::default().with_backend(JpegBackend::Turbo).codec().unwrap(),
        #[cfg(feature = "jpeg-decoder")]
        JpegOptions::default().with_backend(JpegBackend::PureRust).codec().unwrap(),
    ]
}

/// One small stream of each kind.
fn streams() -> Vec<Vec<u8>> {
    let lossy = JpegOptions::default().with_quality(60);
    let encode = |options: JpegOptions, image: &Image| {
        options.codec().unwrap().encode_image(&image.as_view()).unwrap()
    };
    let colours = smooth(shape(17, 19, 3), 8, 3);
    vec![
        encode(lossy.clone(), &colours),
        encode(lossy.clone().with_subsampling(Subsampling::S444).with_restart_rows(1), &colours),
        encode(lossy.clone().with_progressive(true), &colours),
        encode(lossy, &smooth(shape(9, 9, 1), 8, 3)),
        encode(JpegOptions::lossless(), &noise(shape(5, 6, 3), 8, 3)),
        encode(JpegOptions::lossless().with_restart_rows(1), &noise(shape(5, 6, 1), 16, 3)),
        encode(
            JpegOptions::lossless().with_bits(12).with_predictor(5),
            &noise(shape(5, 6, 1), 12, 3),
        ),
    ]
}

#[test]
fn every_cut_is_refused_by_every_backend() {
    for stream in streams() {
        for decoder in decoders() {
            decoder.decode_image(&stream, &DecodeOptions::default()).unwrap();
            assert_every_cut_is_refused(&decoder, &stream);
            let mut more = stream.clone();
            more.extend(b"\xFF\xD8 what follows the end is ignored");
            decoder.decode_image(&more, &DecodeOptions::default()).unwrap();
        }
    }
}

#[test]
fn missing_data_before_an_end_marker_is_refused() {
    for stream in streams() {
        for decoder in decoders() {
            for missing in [3, 8, 20] {
                let mut short = stream[..stream.len() - 2 - missing].to_vec();
                while short.last() == Some(&0xFF) {
                    short.pop();
                }
                short.extend([0xFF, 0xD9]);
                let decoded = decoder.decode_image(&short, &DecodeOptions::default());
                assert!(decoded.is_err(), "{missing} bytes less, {decoder:?}");
            }
        }
    }
}

#[test]
fn altered_bytes_never_stop_the_process() {
    let options = DecodeOptions::from(Limits::default().with_max_samples(1 << 20));
    for stream in streams() {
        for decoder in decoders() {
            survive_flips(&decoder, &stream, &options);
            let tolerant = options.with_damage(DamageHandling::Tolerate).with_scale(Scale::Half);
            survive_flips(&decoder, &stream, &tolerant);
        }
    }
}

#[test]
fn tolerant_decoding_gives_what_there_is() {
    let image = smooth(shape(64, 64, 3), 8, 3);
    let options = DecodeOptions::default().with_damage(DamageHandling::Tolerate);
    for encoding in [
        JpegOptions::default(),
        JpegOptions::default().with_progressive(true),
        JpegOptions::lossless(),
    ] {
        let lossless = encoding.clone().codec().unwrap().parameters()["lossless"] == true;
        let payload = encoding.clone().codec().unwrap().encode_image(&image.as_view()).unwrap();
        let cut = &payload[..payload.len() * 3 / 4];
        for decoder in decoders() {
            let whole = decoder.decode_image(&payload, &DecodeOptions::default()).unwrap();
            assert_eq!(decoder.decode_image(&payload, &options).unwrap(), whole);
            let rest = decoder.decode_image(cut, &options).unwrap();
            assert_eq!(rest.shape(), whole.shape());
            let (SamplesRef::U8(rest), SamplesRef::U8(whole)) = (rest.samples(), whole.samples())
            else {
                panic!()
            };
            if encoding == JpegOptions::default() || lossless {
                assert_eq!(rest[..64 * 8 * 3], whole[..64 * 8 * 3], "{decoder:?}");
            }
            assert_ne!(rest, whole);
        }
    }
}

#[test]
fn claims_of_many_pixels_cost_neither_time_nor_memory() {
    for mut stream in streams() {
        let at =
            stream.windows(2).position(|two| matches!(two, [0xFF, 0xC0 | 0xC2 | 0xC3])).unwrap();
        for (sides, kind) in [
            ([0xFF, 0xDC, 0xFF, 0xDC], CodecErrorKind::Limit),
            ([0xFF, 0xFF, 0xFF, 0xFF], CodecErrorKind::Unsupported),
            ([0x20, 0x00, 0x20, 0x00], CodecErrorKind::Decode),
            ([0x00, 0x00, 0x00, 0x08], CodecErrorKind::Decode),
            ([0x00, 0x08, 0x00, 0x00], CodecErrorKind::Decode),
        ] {
            stream[at + 5..at + 9].copy_from_slice(&sides);
            for decoder in decoders() {
                let started = Instant::now();
                let decoded = decoder.decode_image(&stream, &DecodeOptions::default());
                let time = started.elapsed();
                let error = decoded.map(|image| image.shape()).unwrap_err();
                assert_eq!(error.kind(), kind, "{sides:?} {decoder:?}: {error}");
                assert!(time < Duration::from_secs(10), "{sides:?} {decoder:?}: {time:?}");
            }
        }
    }
}

#[test]
fn scans_without_end_are_bounded() {
    // A progressive stream of one block whose first scan comes again and again.
    let image = smooth(shape(8, 8, 1), 8, 3);
    let codec = JpegOptions::default().with_progressive(true).codec().unwrap();
    let payload = codec.encode_image(&image.as_view()).unwrap();
    let scan = payload.windows(2).position(|two| two == [0xFF, 0xDA]).unwrap();
    let rest = &payload[scan + 2..];
    let end = rest.windows(2).position(|two| two[0] == 0xFF && two[1] != 0).unwrap();
    let mut stream = payload[..scan].to_vec();
    for _ in 0..3000 {
        stream.extend(&payload[scan..scan + 2 + end]);
    }
    stream.extend([0xFF, 0xD9]);
    let error = decoders()[0].decode_image(&stream, &DecodeOptions::default()).unwrap_err();
    assert!(matches!(error.kind(), CodecErrorKind::Limit | CodecErrorKind::Decode), "{error}");
}

#[test]
fn what_damage_leaves_out_is_black_whatever_was_there_before() {
    let options = DecodeOptions::default().with_damage(DamageHandling::Tolerate);
    for stream in streams() {
        let cut = &stream[..stream.len() - stream.len() / 8];
        for decoder in decoders() {
            let Ok(image) = decoder.decode_image(cut, &options) else { continue };
            let mut place = image.clone();
            match place.as_view_mut().samples_mut() {
                SamplesMut::U8(samples) => samples.fill(0xAA),
                SamplesMut::U16(samples) => samples.fill(0xAAAA),
                _ => panic!(),
            }
            decoder.decode_image_into(cut, &mut place.as_view_mut(), &options).unwrap();
            assert!(place == image, "{decoder:?}");
        }
    }
}

#[test]
fn parts_of_tiff_files_that_lack_later_scans_are_refused() {
    let tiff = JpegOptions::default().with_encoded_color_space(EncodedColorSpace::YCbCr);
    let image = smooth(shape(17, 19, 3), 8, 3);
    let progressive = JpegOptions::default().with_progressive(true).codec().unwrap();
    let stream = progressive.encode_image(&image.as_view()).unwrap();
    let decoder = tiff.codec().unwrap();
    let whole = decoder.decode_image(&stream, &DecodeOptions::default()).unwrap();
    for end in 0..stream.len() {
        assert!(decoder.decode_image(&stream[..end], &DecodeOptions::default()).is_err(), "{end}");
    }
    let padded = [&stream[..], &[0]].concat();
    assert_eq!(decoder.decode_image(&padded, &DecodeOptions::default()).unwrap(), whole);
}

#[test]
fn unknown_revisions_of_jfif_change_no_pixel() {
    let options = JpegOptions::default().with_quality(60);
    let image = smooth(shape(17, 19, 3), 8, 3);
    let stream = options.codec().unwrap().encode_image(&image.as_view()).unwrap();
    let at = stream.windows(5).position(|five| five == b"JFIF\0").unwrap();
    assert_eq!(stream[at + 5], 1);
    for major in [0, 2, 255] {
        let mut altered = stream.clone();
        altered[at + 5] = major;
        for decoder in decoders() {
            let options = DecodeOptions::default();
            let expected = decoder.decode_image(&stream, &options).unwrap();
            assert!(decoder.decode_image(&altered, &options).unwrap() == expected, "{major}");
        }
    }
}
