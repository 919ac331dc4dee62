//! The malformed golden files that lie with `iac-reader`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::reference::repository;

/// One malformed file, or one of the valid files that they were made from.
#[derive(Debug)]
pub struct MalformedFile {
    /// The name of its case.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Whether a reader is to do something else than the reference does.
    pub differs: bool,
}

/// Where the malformed golden files lie.
#[must_use]
pub fn folder() -> PathBuf {
    repository().join("crates/iac-reader/tests/data/malformed")
}

/// All cases. Those that are kept as patches on a valid file are made in `scratch`.
///
/// # Panics
///
/// When the golden files are not as they should be.
#[must_use]
pub fn all(scratch: &Path) -> Vec<MalformedFile> {
    let folder = folder();
    let mut files = Vec::new();
    for name in json(&folder.join("INDEX.json")).as_array().expect("a list of names") {
        let name = text(name);
        let description = json(&folder.join(format!("{name}.json")));
        files.push(MalformedFile {
            path: folder.join(format!("{name}.iac")),
            differs: !description["recommended"].is_null(),
            name,
        });
    }
    for case in json(&folder.join("PATCHED.json")).as_array().expect("a list of patches") {
        let name = text(&case["name"]);
        let base = std::fs::read(folder.join(format!("{}.iac", text(&case["base"]))))
            .expect("the file that is patched");
        let (head, tail) = base.split_at(65_536);
        let mut bytes = splice(head, &case["patch"]["head"]);
        bytes.extend(splice(tail, &case["patch"]["tail"]));
        let path = scratch.join(format!("{name}.iac"));
        std::fs::write(&path, bytes).expect("the scratch folder can be written");
        files.push(MalformedFile { path, differs: !case["recommended"].is_null(), name });
    }
    files
}

fn splice(part: &[u8], patch: &Value) -> Vec<u8> {
    let count = |name: &str| -> usize {
        let count = patch[name].as_u64().expect("a count of bytes");
        count.try_into().expect("a small count")
    };
    let insert = text(&patch["insert_hex"]);
    let insert = (0..insert.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&insert[at..at + 2], 16).expect("hex digits"));
    let mut bytes = part[..count("keep_prefix")].to_vec();
    bytes.extend(insert);
    bytes.extend(&part[part.len() - count("keep_suffix")..]);
    bytes
}

fn json(path: &Path) -> Value {
    let bytes = std::fs::read(path).expect("the golden files are there");
    serde_json::from_slice(&bytes).expect("their descriptions are JSON")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
