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

/// How many sources there are.
pub const SOURCES: usize = if cfg!(feature = "object-store") { 5 } else { 3 };

/// Whether a source, by its name, has no memory to show.
pub fn only_copies(source: &str) -> bool {
    source.contains("positional") || source.contains("object")
}

/// The sources over the same file.
pub fn all_sources(path: &Path) -> Vec<(&'static str, Result<PackReader>)> {
    let sources = local_sources(path).into_iter();
    #[cfg(feature = "object-store")]
    let sources = sources.chain(object_sources(path));
    sources.collect()
}

/// In a store in memory, also behind a cache of small blocks.
#[cfg(feature = "object-store")]
fn object_sources(path: &Path) -> Vec<(&'static str, Result<PackReader>)> {
    use iac_reader::object::object_store::memory::InMemory;
    use iac_reader::object::object_store::path::Path as Key;
    use iac_reader::object::object_store::{ObjectStoreExt, PutPayload};
    use iac_reader::object::{BlockCache, ObjectLocation, ObjectOptions, block_on};

    let store = Arc::new(InMemory::new());
    let key = Key::from("pack.iac");
    let bytes = PutPayload::from(std::fs::read(path).unwrap());
    block_on(store.put(&key, bytes)).unwrap().unwrap();
    let place = ObjectLocation::in_store(store, key, &path.to_string_lossy());
    let (read, options) = (ReadOptions::default(), ObjectOptions::default());
    let cache = Arc::new(BlockCache::new(1 << 20).block_bytes(4096));
    vec![
        ("object", PackReader::open_object(&place, &read, &options)),
        ("cached object", PackReader::open_cached(&place, &read, &options, &cache)),
    ]
}

fn local_sources(path: &Path) -> Vec<(&'static str, Result<PackReader>)> {
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
