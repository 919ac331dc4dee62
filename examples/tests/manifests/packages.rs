//! What a registry wants to know of the crates that are published.

use std::fs;

use super::manifest::{crates, root};

#[test]
fn published_crates_say_what_they_are() {
    let licence = fs::read(root().join("LICENSE")).unwrap();
    let mut count = 0;
    for manifest in crates().into_iter().filter(|manifest| manifest.is_published()) {
        let name = manifest.name();
        let stated = |key: &str| {
            manifest
                .value("package", key)
                .or_else(|| manifest.value("package", &format!("{key}.workspace")))
        };
        for key in [
            "description",
            "version",
            "license",
            "keywords",
            "categories",
            "rust-version",
            "include",
        ] {
            assert!(stated(key).is_some(), "{name}: no {key}");
        }
        let packed = fs::read(manifest.folder.join("LICENSE"));
        assert!(packed.is_ok_and(|packed| packed == licence), "{name}: no copy of the licence");
        let readme = fs::read_to_string(manifest.folder.join("README.md")).unwrap_or_default();
        assert!(readme.starts_with(&format!("# {name}\n")), "{name}: no README.md with its name");
        // What stands beside a crate is not there when it comes from a registry.
        assert!(!readme.contains("](.."), "{name}: README.md has links that lead out of it");
        count += 1;
    }
    assert!(count >= 9, "only {count} crates are published");
}

#[test]
fn published_crates_need_only_published_ones_of_known_version() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let all = crates();
    for manifest in all.iter().filter(|manifest| manifest.is_published()) {
        for used in manifest.dependencies() {
            let Some(ours) = all.iter().find(|other| other.name() == used.name) else { continue };
            assert!(ours.is_published(), "{}: {} is not published", manifest.name(), used.name);
            let line =
                workspace.lines().find(|line| line.starts_with(&format!("{} = ", used.name)));
            assert!(
                line.is_some_and(|line| line.contains("version = ")),
                "{} has no version in the workspace's manifest",
                used.name
            );
        }
    }
}
