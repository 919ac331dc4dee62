//! Files of public test suites, found through `IAC_CORPUS`, and what they are to decode to.
#![allow(dead_code, unreachable_pub, clippy::arithmetic_side_effects, clippy::print_stderr)]

use std::path::PathBuf;

use iac_codec::{Image, SampleType, Samples};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A file of the corpus.
pub struct Entry {
    pub name: String,
    pub bytes: Vec<u8>,
    /// What `expected.json` says about it.
    pub expected: Value,
}

/// The files of one folder; nothing, and a note, when there is no corpus.
pub fn entries(folder: &str) -> Vec<Entry> {
    let Some(corpus) = std::env::var_os("IAC_CORPUS") else {
        eprintln!("not run: IAC_CORPUS does not name the folder of the public test files");
        return Vec::new();
    };
    let folder = PathBuf::from(corpus).join(folder);
    let expected = std::fs::read(folder.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let files = expected.as_object().unwrap().iter();
    files
        .map(|(name, expected)| Entry {
            name: name.clone(),
            bytes: std::fs::read(folder.join(name)).unwrap(),
            expected: expected.clone(),
        })
        .collect()
}

impl Entry {
    /// Whether the reference decoder read it.
    pub fn is_ok(&self) -> bool {
        self.expected["status"] == "ok"
    }

    /// What is known of the pixels.
    pub fn pixels(&self) -> &Value {
        &self.expected["pixels"]
    }

    /// Fails unless shape, type and every sample are those of the reference.
    pub fn assert_exact(&self, image: &Image) {
        self.assert_shape(image);
        assert_eq!(sha256(image, self.pixels()), self.pixels()["sha256"], "{}", self.name);
    }

    /// Fails unless shape and type are those of the reference and the means of 8 x 8 blocks of
    /// each channel are near; `levels` are those of 8-bit samples.
    pub fn assert_close(&self, image: &Image, levels: f64) {
        self.assert_shape(image);
        let grid = self.pixels()["grid8"].as_array().unwrap();
        let highest = self.pixels()["max"].as_f64().unwrap().max(255.0);
        let levels = levels * highest / 255.0;
        for (channel, grid) in grid.iter().enumerate() {
            let found = block_means(image, channel);
            for (y, row) in grid.as_array().unwrap().iter().enumerate() {
                for (x, mean) in row.as_array().unwrap().iter().enumerate() {
                    let Some(mean) = mean.as_f64() else { continue };
                    let found = found[y][x];
                    assert!(
                        (found - mean).abs() <= levels,
                        "{}: block {y} {x} of channel {channel}: {found} instead of {mean}",
                        self.name
                    );
                }
            }
        }
    }

    fn assert_shape(&self, image: &Image) {
        let shape: Vec<u64> = self.pixels()["shape"]
            .as_array()
            .unwrap()
            .iter()
            .map(|side| side.as_u64().unwrap())
            .collect();
        assert_eq!(image.shape().dimensions(), shape, "{}", self.name);
        let dtype = self.pixels()["dtype"].as_str().unwrap();
        // Signed bytes decode to 16 bits.
        let wanted = if dtype == "int8" { "int16" } else { dtype };
        assert_eq!(image.sample_type().name(), wanted, "{}", self.name);
    }
}

fn sha256(image: &Image, pixels: &Value) -> String {
    let bytes = match (pixels["dtype"].as_str(), image.samples().to_owned()) {
        (Some("int8"), Samples::I16(samples)) => {
            samples.iter().map(|sample| i8::try_from(*sample).unwrap().to_le_bytes()[0]).collect()
        }
        _ => image.samples().to_le_bytes().into_owned(),
    };
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Means of the 8 x 8 blocks that a channel is cut into, at i * side / 8.
fn block_means(image: &Image, channel: usize) -> Vec<Vec<f64>> {
    let shape = image.shape();
    let [height, width, channels] = [shape.height(), shape.width(), shape.channels()]
        .map(|side| usize::try_from(side).unwrap());
    let samples: Vec<f64> = match image.samples().to_owned() {
        Samples::U8(samples) => samples.into_iter().map(f64::from).collect(),
        Samples::U16(samples) => samples.into_iter().map(f64::from).collect(),
        Samples::I16(samples) => samples.into_iter().map(f64::from).collect(),
        Samples::F16(samples) => samples.into_iter().map(f64::from).collect(),
        Samples::F32(samples) => samples.into_iter().map(f64::from).collect(),
        _ => panic!("samples of type {}", image.sample_type()),
    };
    let edges = |side: usize| (0..=8).map(move |block| block * side / 8).collect::<Vec<_>>();
    let (rows, columns) = (edges(height), edges(width));
    let mean = |y: usize, x: usize| {
        let (mut sum, mut count) = (0.0, 0_u32);
        for row in rows[y]..rows[y + 1] {
            for column in columns[x]..columns[x + 1] {
                sum += samples[(row * width + column) * channels + channel];
                count += 1;
            }
        }
        sum / f64::from(count.max(1))
    };
    (0..8).map(|y| (0..8).map(|x| mean(y, x)).collect()).collect()
}

/// The types that a corpus names.
pub fn sample_type(dtype: &str) -> SampleType {
    match dtype {
        "uint8" => SampleType::U8,
        "uint16" => SampleType::U16,
        "int8" | "int16" => SampleType::I16,
        "float16" => SampleType::F16,
        "float32" => SampleType::F32,
        other => panic!("{other}"),
    }
}
