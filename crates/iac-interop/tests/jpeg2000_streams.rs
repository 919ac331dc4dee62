//! JPEG 2000 streams of ours in other decoders: OpenJPEG and OpenJPH (both through imagecodecs) and
//! the reference packages, over sizes from 1 x 1 to 2048 x 2048 with noise of the full range, for
//! which encoders are known to fail.
//!
//! `IAC_FLIPS=full` takes every kind of the largest sizes, and otherwise a few are enough.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use std::path::Path;

use iac_codec::jpeg2000::{Container, Jpeg2000Options, Profile};
use iac_codec::{DecodeOptions, Image, ImageShape};
use iac_interop::reference;
use serde_json::{Value, json};

/// Samples over the full range of a type, or a picture with some noise in it.
fn image(shape: ImageShape, is_wide: bool, is_noise: bool) -> Image {
    let mut state = u64::from(shape.height() * 4099 + shape.width() * 3 + shape.channels()) | 1;
    let (width, channels) = (shape.width() as usize, shape.channels() as usize);
    let samples = (0..shape.samples()).map(|at| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let chance = (state >> 24) as u16;
        if is_noise {
            return chance;
        }
        let (x, y) = (at / channels % width, at / channels / width);
        ((x * 131 + y * 57 + at % channels * 9000) as u16 / 2).saturating_add(chance >> 8)
    });
    if is_wide {
        Image::new(shape, samples.collect::<Vec<u16>>()).unwrap()
    } else {
        Image::new(shape, samples.map(|sample| (sample >> 8) as u8).collect::<Vec<u8>>()).unwrap()
    }
}

struct Case {
    what: String,
    command: Value,
    /// What the reference may be off by; it does not invert transforms of high-throughput streams.
    reference_reads_it: bool,
    tolerance: u64,
}

fn cases(folder: &Path) -> Vec<Case> {
    let lossless = Jpeg2000Options::lossless();
    let ht = lossless.with_profile(Profile::Ht);
    let ways = [
        ("classic", lossless),
        ("jp2", lossless.with_container(Container::Jp2)),
        ("classic at 40 dB", Jpeg2000Options::with_quality(40.0)),
        ("ht", ht),
        ("ht, transformed", ht.with_color_transform(true)),
        ("ht at 40 dB", Jpeg2000Options::with_quality(40.0).with_profile(Profile::Ht)),
    ];
    let sizes = [
        (1, 1),
        (1, 70),
        (3, 2),
        (23, 19),
        (40, 50),
        (64, 64),
        (65, 129),
        (90, 70),
        (300, 513),
        (512, 512),
        (2048, 2048),
    ];
    let all = std::env::var("IAC_FLIPS").is_ok_and(|flips| flips == "full");
    let mut cases = Vec::new();
    for (height, width) in sizes {
        for channels in [1, 3, 4] {
            for (is_wide, is_noise) in [(false, true), (true, true), (true, false)] {
                let shape = ImageShape::new(height, width, channels).unwrap();
                let image = image(shape, is_wide, is_noise);
                for (name, options) in ways {
                    let is_ht = name.starts_with("ht");
                    // Large images take their time, and classic streams have no bad sizes.
                    let is_large = height > 300;
                    if is_large && (!is_ht || channels == 4 || (height > 512 && !is_noise)) {
                        continue;
                    }
                    // One of one component and one of three, of both widths.
                    let is_chosen = match (height, channels) {
                        (2048, 1) => !is_wide && name == "ht",
                        (2048, 3) => is_wide && name == "ht, transformed",
                        (300, 3) => name != "jp2",
                        (300, _) => is_ht,
                        _ => true,
                    };
                    if !all && !is_chosen {
                        continue;
                    }
                    let codec = options.codec().unwrap();
                    let is_lossy = codec.parameters()["lossless"] == false;
                    // OpenJPH in imagecodecs lets samples that leave their range wrap around.
                    if is_lossy && is_noise {
                        continue;
                    }
                    let stream = codec.encode_image(&image.as_view()).unwrap();
                    let decoded = codec.decode_image(&stream, &DecodeOptions::default()).unwrap();
                    if !is_lossy {
                        assert!(decoded == image, "{name} {shape}");
                    }
                    let file = |kind: &str| folder.join(format!("{}.{kind}", cases.len()));
                    std::fs::write(file("j2k"), stream).unwrap();
                    std::fs::write(file("pixels"), decoded.samples().to_le_bytes()).unwrap();
                    cases.push(Case {
                        what: format!("{name}, {shape} of {}", image.sample_type()),
                        command: json!({
                            "path": file("j2k"),
                            "pixels": file("pixels"),
                            "shape": shape.dimensions(),
                            "dtype": image.sample_type().name(),
                            "ht": is_ht,
                        }),
                        reference_reads_it: channels == 1 || name != "ht, transformed",
                        tolerance: if is_lossy { 4 } else { 0 },
                    });
                }
            }
        }
    }
    cases
}

#[test]
fn streams_decode_to_the_same_samples_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases(folder.path());
    let commands: String = cases.iter().map(|case| format!("{}\n", case.command)).collect();
    let seen = reference::run_json::<&str>("read_jpeg2000.py", &[], &commands);
    assert_eq!(seen.len(), cases.len());
    for (case, seen) in cases.iter().zip(seen) {
        for (decoder, off) in seen.as_object().unwrap() {
            if decoder == "reference" && !case.reference_reads_it {
                continue;
            }
            let is_near = off.as_u64().is_some_and(|off| off <= case.tolerance);
            assert!(is_near, "{} in {decoder}: off by {off}", case.what);
        }
    }
}
