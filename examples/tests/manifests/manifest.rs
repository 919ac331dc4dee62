//! Manifests as far as the tests need them, with the comments that a parser would drop.

use std::fs;
use std::path::{Path, PathBuf};

/// A feature: its name, the comment above it, and what it switches on.
pub struct Feature {
    pub name: String,
    pub comment: String,
    pub on: Vec<String>,
}

/// A dependency of a crate on another one.
pub struct Dependency {
    pub name: String,
    pub is_optional: bool,
    pub is_for_tests: bool,
}

pub struct Manifest {
    pub folder: PathBuf,
    pub text: String,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The manifests of all crates in `crates/`.
pub fn crates() -> Vec<Manifest> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("Cargo.toml").is_file())
        .collect();
    folders.sort();
    folders.into_iter().map(Manifest::read).collect()
}

/// The manifest of one crate.
pub fn of(name: &str) -> Manifest {
    Manifest::read(root().join("crates").join(name))
}

impl Manifest {
    fn read(folder: PathBuf) -> Self {
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        Self { folder, text }
    }

    pub fn name(&self) -> &str {
        self.folder.file_name().unwrap().to_str().unwrap()
    }

    pub fn is_published(&self) -> bool {
        self.value("package", "publish").is_none_or(|value| value != "false")
    }

    /// The lines of a table, comments included.
    fn section<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let start = format!("[{name}]");
        let mut lines = self.text.lines();
        lines.find(|line| *line == start);
        lines.take_while(|line| !line.starts_with('[')).map(str::trim)
    }

    /// A value as it is written.
    pub fn value(&self, section: &str, key: &str) -> Option<&str> {
        self.section(section).find_map(|line| {
            let (found, value) = line.split_once('=')?;
            (found.trim() == key).then_some(value.trim())
        })
    }

    pub fn features(&self) -> Vec<Feature> {
        let mut features = Vec::new();
        let mut comment: Vec<&str> = Vec::new();
        let mut open: Option<Feature> = None;
        for line in self.section("features") {
            if let Some(line) = line.strip_prefix('#') {
                comment.push(line.trim());
                continue;
            }
            let mut feature = match (open.take(), line.split_once('=')) {
                (Some(feature), _) => feature,
                (None, Some((name, _))) => Feature {
                    name: name.trim().to_owned(),
                    comment: std::mem::take(&mut comment).join(" "),
                    on: Vec::new(),
                },
                (None, None) => continue,
            };
            feature.on.extend(quoted(line));
            if line.contains(']') {
                features.push(feature);
            } else {
                open = Some(feature);
            }
        }
        features
    }

    /// Whether a feature is on where another one is.
    pub fn implies(&self, features: &[Feature], whole: &str, part: &str) -> bool {
        let Some(feature) = features.iter().find(|feature| feature.name == whole) else {
            return false;
        };
        feature.on.iter().any(|on| on == part || self.implies(features, on, part))
    }

    /// Everything that this crate depends on.
    pub fn dependencies(&self) -> Vec<Dependency> {
        let mut found = Vec::new();
        let mut kind = None;
        for line in self.text.lines() {
            if let Some(section) = line.strip_prefix('[') {
                let section = section.trim_end_matches(']');
                kind = section.ends_with("dependencies").then(|| section.contains("dev-"));
                continue;
            }
            let (Some(is_for_tests), Some((name, rest))) = (kind, line.split_once('=')) else {
                continue;
            };
            let name = name.trim().trim_end_matches(".workspace");
            if !name.starts_with('#') {
                found.push(Dependency {
                    name: name.to_owned(),
                    is_optional: rest.contains("optional = true"),
                    is_for_tests,
                });
            }
        }
        found
    }
}

/// The texts in double quotes of a line.
fn quoted(line: &str) -> Vec<String> {
    line.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
