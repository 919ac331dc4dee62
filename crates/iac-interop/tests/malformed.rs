//! The reference and we judge damaged files alike, but where the golden files recommend otherwise.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::BTreeSet;
use std::path::Path;

use iac_interop::json::header_members;
use iac_interop::{malformed, reference};
use iac_reader::PackReader;
use serde_json::Value;

/// How far a reader came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    NotOpened,
    /// Opened, but tables or some records are refused.
    InPart,
    Whole,
}

fn ours(path: &Path) -> Verdict {
    let Ok(pack) = PackReader::open(path) else {
        return Verdict::NotOpened;
    };
    let whole = || -> iac_reader::Result<()> {
        pack.slide_table()?.batches()?;
        pack.index_table()?.batches()?;
        for row in 0..pack.num_records()? {
            pack.read(row)?;
        }
        Ok(())
    };
    if whole().is_ok() { Verdict::Whole } else { Verdict::InPart }
}

fn theirs(seen: &Value) -> Verdict {
    let is_ok = |step: &Value| step.get("ok").is_some();
    if !is_ok(&seen["header"]) {
        return Verdict::NotOpened;
    }
    let steps = ["read_payload", "fixed_read"]
        .iter()
        .filter_map(|name| seen.get(name))
        .flat_map(|steps| steps.as_array().unwrap());
    let others =
        ["slide_table", "index_table", "fixed_matrix"].iter().filter_map(|name| seen.get(name));
    if steps.chain(others).all(is_ok) { Verdict::Whole } else { Verdict::InPart }
}

/// What the reference sees in each of these files; it takes long over damaged JPEG-LS streams, and
/// verdicts need no decoded records.
fn look<P: AsRef<Path>>(paths: &[P], depth: &str) -> Vec<Value> {
    let lines: String =
        paths.iter().map(|path| format!("{}\n", path.as_ref().to_str().unwrap())).collect();
    let seen = reference::run_json("read_pack.py", &[depth], &lines);
    assert_eq!(seen.len(), paths.len());
    seen
}

/// Stored bytes that the reference refuses or takes otherwise than recommended.
const STRICTER: &[&str] = &["crc_mismatch_a", "num_records_fraction_a", "offset_float64_zero_a"];

#[test]
fn malformed_files_are_taken_or_refused_alike() {
    let scratch = tempfile::tempdir().unwrap();
    let files = malformed::all(scratch.path());
    assert!(files.len() > 60, "only {} files", files.len());
    let paths: Vec<_> = files.iter().map(|file| &file.path).collect();
    let mut stricter = BTreeSet::new();
    for (file, seen) in files.iter().zip(look(&paths, "--undecoded")) {
        let (ours, theirs) = (ours(&file.path), theirs(&seen));
        if ours == theirs {
            continue;
        }
        assert!(
            file.differs && ours < theirs,
            "{}: we say {ours:?}, the reference {theirs:?}: {seen}",
            file.name
        );
        stricter.insert(file.name.as_str());
    }
    assert_eq!(stricter, STRICTER.iter().copied().collect());
}

#[test]
fn a_bad_span_costs_its_row_and_not_the_table() {
    let scratch = tempfile::tempdir().unwrap();
    let names = ["length_huge_a", "offset_out_of_range_a", "offset_overflow_a"];
    let files: Vec<_> = malformed::all(scratch.path())
        .into_iter()
        .filter(|file| names.contains(&file.name.as_str()))
        .collect();
    assert_eq!(files.len(), names.len());
    let paths: Vec<_> = files.iter().map(|file| &file.path).collect();
    for (file, seen) in files.iter().zip(look(&paths, "--undecoded")) {
        assert!(seen["index_table"].get("ok").is_none(), "{}", file.name);
        let pack = PackReader::open(&file.path).unwrap();
        let rows = 0..pack.num_records().unwrap();
        let bad = rows.filter(|row| pack.read(*row).is_err()).count();
        assert_eq!(bad, 1, "{}", file.name);
    }
}

/// Writes each altered copy of a valid file, then compares what both sides say about its header.
fn compare_headers(copies: impl Iterator<Item = Vec<u8>>) {
    let scratch = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (number, bytes) in copies.enumerate() {
        let path = scratch.path().join(format!("{number}.iac"));
        std::fs::write(&path, bytes).unwrap();
        paths.push(path);
    }
    for (path, seen) in paths.iter().zip(look(&paths, "--header")) {
        match (PackReader::open(path), seen["header"].get("ok")) {
            (Ok(pack), Some(theirs)) => {
                assert_eq!(&header_members(pack.header().members()), theirs);
            }
            (Err(_), None) => {}
            (ours, _) => panic!("{}: we say {ours:?}, the reference {seen}", path.display()),
        }
    }
}

fn valid_file() -> Vec<u8> {
    std::fs::read(malformed::folder().join("base_variable_a.iac")).unwrap()
}

#[test]
fn altered_header_bytes_are_judged_alike() {
    let bytes = valid_file();
    let text = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    let end = 16 + usize::try_from(text).unwrap();
    let copies = [0x01, 0x10, 0x80].map(|flip| {
        (0..end + 4).map({
            let bytes = &bytes;
            move |at| {
                let mut copy = bytes.clone();
                copy[at] ^= flip;
                copy
            }
        })
    });
    compare_headers(copies.into_iter().flatten());
}

#[test]
fn cut_files_are_judged_alike() {
    let bytes = valid_file();
    let lengths = (0..65_000).step_by(5_000).chain(65_530..bytes.len() + 1);
    compare_headers(lengths.step_by(3).map(|length| bytes[..length].to_vec()));
}
