//! Tables of features.

use super::documents;
use super::manifest::{Feature, crates, of};

/// Sets of other features, which have columns in place of rows.
const SETS: [&str; 2] = ["default", "full"];

fn table(name: &str) -> String {
    let manifest = of(name.trim_start_matches("of "));
    let features = manifest.features();
    let sets: Vec<&str> = SETS
        .into_iter()
        .filter(|set| features.iter().any(|feature| feature.name == *set))
        .collect();
    let mut table = "| feature | what it adds |".to_owned();
    for set in &sets {
        table.push_str(&format!(" `{set}` |"));
    }
    table.push_str("\n|---|---|");
    table.push_str(&"---|".repeat(sets.len()));
    for feature in features.iter().filter(|feature| !SETS.contains(&feature.name.as_str())) {
        table.push_str(&format!("\n| `{}` | {} |", feature.name, sentence(feature)));
        for set in &sets {
            let is_in = manifest.implies(&features, set, &feature.name);
            table.push_str(if is_in { " yes |" } else { " |" });
        }
    }
    table
}

/// The comment as it stands in a cell.
fn sentence(feature: &Feature) -> String {
    feature.comment.trim_end_matches('.').replace('|', "\\|")
}

#[test]
fn tables_of_features_are_those_of_the_manifests() {
    let found = documents::hold("features ", table);
    for manifest in crates().into_iter().filter(|manifest| !manifest.features().is_empty()) {
        let page = manifest.folder.join("src/lib.rs");
        assert!(
            !manifest.is_published()
                || found.iter().any(|(path, about)| {
                    *path == page && about.trim_start_matches("of ") == manifest.name()
                }),
            "{}: no table of its features",
            page.display()
        );
    }
    for page in ["README.md", "cli.md"] {
        assert!(found.iter().any(|(path, _)| path.ends_with(page)), "{page}: no table of features");
    }
}

#[test]
fn every_feature_says_what_it_adds() {
    for manifest in crates() {
        for feature in manifest.features() {
            assert!(
                feature.comment.ends_with('.') || feature.comment.ends_with(')'),
                "{}: the feature {} has no sentence above it",
                manifest.name(),
                feature.name
            );
        }
    }
}
