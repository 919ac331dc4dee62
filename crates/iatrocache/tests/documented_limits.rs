//! The tables of limits in `docs/reliability.md` say what the code says, and leave nothing out.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Constants with a name like a limit that bound no work on input: what is kept between calls, sizes
/// of buffers, what a format can say, what only writers or the command line's own options are held to.
const NO_LIMITS: &[(&str, &str)] = &[
    ("iac-adapters/src/grid.rs", "MAX_NARROW"),
    ("iac-adapters/src/dicom/volume/segmentation.rs", "MOST_STRANGERS"),
    ("iac-adapters/src/wsi/import/grid.rs", "MAX_LOOKED_AT"),
    ("iac-adapters/src/wsi/import/tiff/mod.rs", "MAX_PACK_TABLES"),
    ("iac-adapters/src/wsi/import/transcode.rs", "MOST_DIFFERENT"),
    ("iac-adapters/src/wsi/overview.rs", "MAX_LEVEL"),
    ("iac-adapters/src/wsi/tile.rs", "MOST_CHANNELS"),
    ("iac-array/src/planes.rs", "MOST_SIDE"),
    ("iac-codec/src/jpeg/mod.rs", "MAX_KEPT_BYTES"),
    ("iac-codec/src/jpeg/native.rs", "MAX_KEPT_BYTES"),
    ("iac-codec/src/jpeg2000/ht/block.rs", "MOST"),
    ("iac-codec/src/jpeg2000/ht/mod.rs", "MOST_PLANES"),
    ("iac-codec/src/zstd/context.rs", "MAX_KEPT_BYTES"),
    ("iac-ops/src/names.rs", "LONGEST_EXTENSION"),
    ("iac-ops/src/object/publish.rs", "MOST_PARTS"),
    ("iac-ops/src/raw/mod.rs", "MAX_SKIPPED"),
    ("iac-reader/src/object/cache.rs", "MOST_AHEAD"),
    ("iac-reader/src/object/error.rs", "MOST_CHARACTERS"),
    ("iac-reader/src/object/runtime.rs", "MOST_THREADS"),
    ("iac-reader/src/prefetch.rs", "MOST_BYTES"),
    ("iac-reader/src/read_ahead.rs", "MOST_THREADS"),
    ("iac-writer/src/options.rs", "MAX_ALIGNMENT"),
    ("iac-writer/src/publish.rs", "LONGEST_NAME"),
];

/// Constants that limits are computed from.
const KNOWN: &[(&str, u128)] = &[
    ("iac_format::HEADER_BYTES", 65_536),
    ("HEADER_BYTES", 65_536),
    ("iac_format::table::MAX_EXPANDED_BYTES", 1 << 30),
    ("MAX_NESTING", 256),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row of a table: what it says, the file, the name.
fn documented() -> Vec<(String, String, String)> {
    let text = fs::read_to_string(root().join("docs/reliability.md")).unwrap();
    let (_, limits) = text.split_once("\n## Limits\n").unwrap();
    let limits = limits.split("\n## ").next().unwrap();
    let rows = limits.lines().filter(|line| line.contains(".rs`: `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{line}");
        let (file, name) = cells[2].split_once("`: `").unwrap();
        (cells[1].to_owned(), file.trim_matches('`').to_owned(), name.trim_matches('`').to_owned())
    })
    .collect()
}

fn number(text: &str) -> Option<u128> {
    let text: String = text.chars().filter(|it| !matches!(it, ',' | '_')).collect();
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.strip_suffix(".0").unwrap_or(&text).parse().ok(),
    }
}

/// What a cell says: `4096`, `2^24`, `16 MiB`, `65,520 bytes`, `1 GiB and 64 KiB more`, `256 and 2^30`.
fn said(text: &str) -> Vec<u128> {
    if let Some((all, more)) = text.strip_suffix(" more").and_then(|text| text.split_once(" and "))
    {
        return vec![said(all)[0] + said(more)[0]];
    }
    let one = |text: &str| {
        let mut words = text.split(' ');
        let first = words.next().unwrap();
        let value = match first.strip_prefix("2^") {
            Some(power) => 1 << power.parse::<u32>().unwrap(),
            None => number(first).unwrap_or_else(|| panic!("`{text}` is no number")),
        };
        let unit = match words.next() {
            None | Some("bytes") => 1,
            Some("KiB") => 1 << 10,
            Some("MiB") => 1 << 20,
            Some("GiB") => 1 << 30,
            Some("TiB") => 1 << 40,
            Some(other) => panic!("`{other}` is no unit"),
        };
        value * unit
    };
    text.split(" and ").map(one).collect()
}

/// The value of a constant expression of the few kinds that limits have.
fn value(expression: &str) -> Option<u128> {
    let expression = expression.trim();
    if let Some((left, right)) = expression.split_once(" + ") {
        return Some(value(left)? + value(right)?);
    }
    if let Some((left, right)) = expression.split_once(" - ") {
        return value(left)?.checked_sub(value(right)?);
    }
    if let Some((left, right)) = expression.split_once(" << ") {
        return Some(value(left)? << value(right)?);
    }
    if let Some((left, right)) = expression.split_once(" * ") {
        return Some(value(left)? * value(right)?);
    }
    for (call, sum) in [(".saturating_add(", true), (".saturating_mul(", false)] {
        if let Some((left, right)) =
            expression.strip_suffix(')').and_then(|inner| inner.rsplit_once(call))
        {
            let (left, right) = (value(left)?, value(right)?);
            return Some(if sum { left + right } else { left * right });
        }
    }
    let known = KNOWN.iter().find(|(name, _)| *name == expression).map(|(_, value)| *value);
    known.or_else(|| number(expression))
}

fn values(expression: &str) -> Option<Vec<u128>> {
    let inner = expression.trim().strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    match inner {
        Some(inner) if !expression.contains(".saturating") => {
            inner.split(", ").map(value).collect()
        }
        _ => value(expression).map(|value| vec![value]),
    }
}

/// The expression behind a constant's name, or behind the name of a member of a default.
fn defined(source: &str, name: &str) -> Option<String> {
    for line in source.lines().map(str::trim) {
        let constant = line.strip_prefix("pub ").or_else(|| {
            line.strip_prefix("pub(").and_then(|it| it.split_once(") ")).map(|(_, it)| it)
        });
        let constant = constant.unwrap_or(line).strip_prefix("const ");
        if let Some(rest) = constant.and_then(|rest| rest.strip_prefix(name))
            && let Some((_, expression)) =
                rest.strip_prefix(':').and_then(|it| it.split_once(" = "))
        {
            return expression.strip_suffix(';').map(str::to_owned);
        }
    }
    // A member of what the type's default is.
    let (_, default) = source.split_once("fn default() -> Self {")?;
    let (_, rest) = default.split_once(&format!("{name}: "))?;
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    rest.get(..end).map(|value| value.trim().to_owned())
}

#[test]
fn every_documented_limit_is_the_one_of_the_code() {
    let rows = documented();
    assert!(rows.len() > 90, "{} rows", rows.len());
    let mut seen = BTreeSet::new();
    for (text, file, name) in rows {
        let path = root().join("crates").join(&file);
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let expression =
            defined(&source, &name).unwrap_or_else(|| panic!("{file}: there is no `{name}`"));
        let found =
            values(&expression).unwrap_or_else(|| panic!("{file}: `{name}` is `{expression}`"));
        assert_eq!(said(&text), found, "{file}: `{name}`");
        assert!(seen.insert((file.clone(), name.clone())), "{file}: `{name}` is there twice");
    }
}

/// Source files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_constant_that_is_named_as_a_limit_is_documented() {
    let mut known: BTreeMap<(String, String), bool> =
        documented().into_iter().map(|(_, file, name)| ((file, name), true)).collect();
    for (file, name) in NO_LIMITS {
        let before = known.insert(((*file).to_owned(), (*name).to_owned()), true);
        assert!(before.is_none(), "{file}: `{name}` is documented, and listed as no limit");
    }
    let crates = root().join("crates");
    let mut files = Vec::new();
    for library in [
        "iac-format",
        "iac-codec",
        "iac-reader",
        "iac-writer",
        "iac-ops",
        "iac-adapters",
        "iac-array",
    ] {
        sources(&crates.join(library).join("src"), &mut files);
    }
    let mut missing = Vec::new();
    for path in files {
        let file = path.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let Some((_, rest)) = line.split_once("const ") else { continue };
            let name = rest.split(':').next().unwrap_or_default();
            let is_named_so = ["MAX_", "MOST_", "LONGEST"].iter().any(|it| name.starts_with(it))
                || name == "MOST";
            let is_constant =
                name.chars().all(|it| it.is_ascii_uppercase() || matches!(it, '_' | '0'..='9'));
            if is_named_so && is_constant && !known.contains_key(&(file.clone(), name.to_owned())) {
                missing.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "limits that no table of docs/reliability.md has: {missing:#?}");
}
