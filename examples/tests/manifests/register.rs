//! The register of extensions and the schemas in the page on the format.

use std::collections::BTreeSet;
use std::fs;

use iatrocache::adapters::{dicom, features, tiles, wsi};
use iatrocache::ops::raw;

use super::layers::rust_files;
use super::manifest::{crates, root};

fn page() -> String {
    fs::read_to_string(root().join("docs/format.md")).unwrap()
}

/// Names that a constant gives to an extension: `const SOMETHING: &str = "iac....";`. What ends
/// with a slash begins names of records.
fn names_in_code() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for manifest in crates() {
        let mut files = Vec::new();
        rust_files(&manifest.folder.join("src"), &mut files);
        for path in files {
            for line in fs::read_to_string(path).unwrap().lines() {
                let value = line.contains("const ").then(|| line.split_once("str = \"iac."));
                if let Some((_, rest)) = value.flatten() {
                    let name = rest.split('"').next().unwrap_or_default();
                    if !name.ends_with('/') {
                        names.insert(format!("iac.{name}"));
                    }
                }
            }
        }
    }
    names
}

#[test]
fn every_extension_is_registered_and_described() {
    let page = page();
    let names = names_in_code();
    assert!(names.len() > 9, "only {names:?}");
    for name in &names {
        assert!(page.contains(&format!("\n| `{name}` |")), "{name} is not registered");
        assert!(page.contains(&format!("\n### `{name}`\n")), "{name} is not described");
    }
    for row in page.lines().filter(|line| line.starts_with("| `iac.")) {
        let name = row.split('`').nth(1).unwrap();
        assert!(names.contains(name), "{name} is in no code");
    }
}

#[test]
fn every_schema_is_described() {
    let page = page();
    for name in [
        raw::RAW_FILES,
        tiles::IMAGE_TILES,
        tiles::IMAGE_TILES_V2,
        features::TEACHER_FEATURES,
        features::TEACHER_FEATURES_V2,
        dicom::DICOM_PATIENT,
        wsi::WSI_IMAGE,
        wsi::WSI_OVERVIEW,
        "nd_array",
        "clinical_text",
        "clinical_text_pair",
    ] {
        let start = page.find("\n## Schemas\n").expect("schemas");
        let is_head = |line: &str| line.starts_with("### ") && line.contains(&format!("`{name}`"));
        assert!(page[start..].lines().any(is_head), "{name} is not described");
    }
}
