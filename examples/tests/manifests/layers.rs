//! The crates as rooms: who may use whom, and what each keeps out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::documents;
use super::manifest::{Dependency, crates, of, root};

/// From the bottom upwards: each crate with all that it may use, beside what it tests itself with.
const LAYERS: [(&str, &[&str]); 12] = [
    ("iac-crc", &[]),
    ("iac-format", &[]),
    ("iac-codec", &[]),
    ("iac-reader", &["iac-crc", "iac-format", "iac-codec"]),
    ("iac-writer", &["iac-crc", "iac-format", "iac-codec"]),
    ("iac-ops", &["iac-format", "iac-codec", "iac-reader", "iac-writer"]),
    ("iac-array", &["iac-format", "iac-codec"]),
    (
        "iac-adapters",
        &["iac-format", "iac-codec", "iac-reader", "iac-writer", "iac-ops", "iac-array"],
    ),
    (
        "iatrocache",
        &[
            "iac-format",
            "iac-codec",
            "iac-reader",
            "iac-writer",
            "iac-ops",
            "iac-array",
            "iac-adapters",
        ],
    ),
    ("iac-cli", &["iatrocache"]),
    ("iac-python", &["iac-crc", "iatrocache", "iac-array", "iac-cli"]),
    ("iac-interop", &[]),
];

/// What would bring files, threads, tables or a modality to where they have no business.
const KEPT_OUT: [(&str, &[&str]); 4] = [
    ("iac-format", &["libc", "memmap2", "rayon", "rustix", "tempfile", "tokio", "object_store"]),
    (
        "iac-codec",
        &["arrow-array", "arrow-ipc", "libc", "memmap2", "rayon", "rustix", "tempfile", "tokio"],
    ),
    ("iac-reader", &["dicom-core", "tiff", "png"]),
    ("iac-writer", &["dicom-core", "tiff", "png", "memmap2", "object_store", "tokio"]),
];

/// What a crate uses of the workspace, other than in tests.
fn ours(dependencies: &[Dependency]) -> Vec<&Dependency> {
    dependencies
        .iter()
        .filter(|it| !it.is_for_tests && LAYERS.iter().any(|(name, _)| *name == it.name))
        .collect()
}

fn table(_: &str) -> String {
    let mut table = "| crate | uses |\n|---|---|".to_owned();
    for (name, _) in LAYERS {
        let dependencies = of(name).dependencies();
        let mut uses: Vec<String> = ours(&dependencies)
            .into_iter()
            .map(|it| {
                let when = if it.is_optional { " (by a feature)" } else { "" };
                format!("`{}`{when}", it.name)
            })
            .collect();
        uses.sort();
        let uses = if uses.is_empty() { "none of them".to_owned() } else { uses.join(", ") };
        table.push_str(&format!("\n| `{name}` | {uses} |"));
    }
    table
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let known: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    for manifest in crates() {
        let name = manifest.name();
        assert!(known.contains(name), "{name} has no place among the layers");
        let (_, allowed) = LAYERS.iter().find(|(layer, _)| *layer == name).unwrap();
        for used in ours(&manifest.dependencies()) {
            assert!(allowed.contains(&used.name.as_str()), "{name} may not use {}", used.name);
        }
    }
    // A layer is allowed nothing that stands above it.
    for (place, (name, allowed)) in LAYERS.iter().enumerate() {
        for below in *allowed {
            let at = LAYERS.iter().position(|(layer, _)| layer == below).unwrap();
            assert!(at < place, "{name} stands below {below}");
        }
    }
}

#[test]
fn lower_crates_stay_free_of_what_belongs_to_higher_ones() {
    for (name, kept_out) in KEPT_OUT {
        for used in of(name).dependencies() {
            assert!(
                used.is_for_tests || !kept_out.contains(&used.name.as_str()),
                "{name} may not use {}",
                used.name
            );
        }
    }
}

#[test]
fn the_table_of_crates_is_that_of_the_manifests() {
    assert_eq!(documents::hold("crates", table).len(), 1, "no table of the crates");
}

/// All Rust files below a folder.
pub fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn unsafe_code_is_where_the_page_says() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let start = page.find("`unsafe` lives in").expect("where `unsafe` lives");
    let rule = &page[start..];
    let rule = &rule[..rule.find("\n- ").unwrap_or(rule.len())];
    let mut count = 0;
    for manifest in crates() {
        let source = manifest.folder.join("src");
        let mut files = Vec::new();
        rust_files(&source, &mut files);
        for path in files {
            let text = fs::read_to_string(&path).unwrap();
            if !text.contains("allow(unsafe_code)") && !text.contains("unsafe {") {
                continue;
            }
            count += 1;
            let place = path.strip_prefix(&source).unwrap().to_str().unwrap();
            let is_named = rule.contains(&format!("`{place}`"))
                || place.split_once("/native").is_some_and(|(codec, _)| {
                    manifest.name() == "iac-codec" && rule.contains(&format!("`{codec}`"))
                });
            let name = manifest.name();
            assert!(is_named && rule.contains(name), "{name}: {place} is not named in {rule}");
        }
    }
    assert!(count > 8, "only {count} files with `unsafe` were found");
}
