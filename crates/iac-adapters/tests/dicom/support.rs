//! What the tests of patient packs share.

use std::path::{Path, PathBuf};

use iac_adapters::dicom::Pixels;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dicom")
}

/// Names of all golden cases, with what is expected of them.
pub(crate) fn cases() -> Vec<(String, PathBuf, Value)> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let expected = std::fs::read(path.join("expected.json")).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            cases.push((name, path, serde_json::from_slice(&expected).unwrap()));
        }
    }
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(cases.len() > 60);
    cases
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn pixel_hash(pixels: &Pixels) -> String {
    sha256(&pixels.samples.to_le_bytes())
}

/// Whether a codec is there with a backend that also encodes.
pub(crate) fn has_codec(name: &str) -> bool {
    let spec = iac_codec::CodecSpec::new(name, iac_codec::Parameters::new());
    iac_codec::Registry::builtin().create(&spec).is_ok_and(|codec| {
        codec.image_capabilities().map_or(true, |found| !found.sample_types.is_empty())
    })
}

/// The files of a case, in the order of their names.
pub(crate) fn inputs(case: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(case.join("in")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
