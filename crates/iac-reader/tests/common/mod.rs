//! What the test files share: golden files and their expected values.
#![allow(dead_code, unreachable_pub, clippy::arithmetic_side_effects)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use iac_reader::{PackReader, ReadOptions, Result, SourceKind};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub fn data_dir(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder)
}

/// Names of the golden files of a folder, from its INDEX.json.
pub fn golden_names(folder: &str) -> Vec<String> {
    let names = json(&data_dir(folder).join("INDEX.json"));
    let names = names.as_array().unwrap();
    assert!(!names.is_empty());
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The three sources over the same file.
pub fn all_sources(path: &Path) -> Vec<(&'static str, Result<PackReader>)> {
    let options = ReadOptions::default();
    vec![
        ("mapped", PackReader::open(path)),
        (
            "positional",
            PackReader::open_with(path, &options.clone().source(SourceKind::Positional)),
        ),
        (
            "memory",
            PackReader::from_source(
                Arc::new(iac_reader::Memory::new(Bytes::from(std::fs::read(path).unwrap()))),
                &path.to_string_lossy(),
                &options,
            ),
        ),
    ]
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
