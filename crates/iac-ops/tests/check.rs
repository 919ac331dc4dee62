//! Verifying many packs at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use common::golden;
use iac_ops::check::{CheckOptions, CheckSummary, PackCheck, check, find_packs};
use iac_ops::{Cancel, ErrorKind, NoProgress};
use iac_writer::{Table, WriteOptions, build_pack};

fn run(paths: &[PathBuf], options: &CheckOptions) -> (CheckSummary, Vec<PackCheck>) {
    let mut packs = Vec::new();
    let summary = check(paths, options, &NoProgress, &mut |pack| {
        packs.push(pack);
        Ok(())
    })
    .unwrap();
    (summary, packs)
}

fn copy(name: &str, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, fs::read(golden(name)).unwrap()).unwrap();
}

#[test]
fn one_bad_pack_does_not_keep_the_others_from_being_checked() {
    let folder = tempfile::tempdir().unwrap();
    copy("none_a", &folder.path().join("sub/z.iac"));
    copy("crc_mismatch_a", &folder.path().join("sub-x.iac"));
    copy("fixed_float16_5x8_a", &folder.path().join(".hidden/f.iac"));
    copy("none_a", &folder.path().join("other.txt"));
    fs::write(folder.path().join("a.iac"), "text").unwrap();
    fs::create_dir(folder.path().join("folder.iac")).unwrap();
    let missing = folder.path().join("missing.iac");
    let (summary, packs) =
        run(&[missing.clone(), folder.path().to_owned()], &CheckOptions::default());
    let names: Vec<PathBuf> = packs.iter().map(|pack| pack.path.clone()).collect();
    let below = |name: &str| folder.path().join(name);
    assert_eq!(
        names,
        [missing, below(".hidden/f.iac"), below("a.iac"), below("sub/z.iac"), below("sub-x.iac")]
    );
    assert_eq!((summary.packs, summary.rows, summary.faults), (5, 5 + 6 + 3, 3));
    assert_eq!(summary.kinds, [ErrorKind::Io, ErrorKind::NotIac, ErrorKind::Checksum]);
    assert_eq!(packs[0].faults[0].check, "open");
    assert!(packs[1].is_sound() && packs[1].rows_decoded == 5);
    assert!(packs[2].faults[0].message.starts_with("not an IAC file"));
    assert!(packs[3].is_sound() && packs[3].rows_compared == 6);
    let line = serde_json::to_string(&packs[4].faults[0]).unwrap();
    let start = format!("{{\"path\":{:?},\"check\":\"checksum\",\"row\":2,", below("sub-x.iac"));
    assert!(line.starts_with(&start), "{line}");
    assert_eq!(serde_json::to_string(&summary).unwrap(), r#"{"packs":5,"rows":14,"faults":3}"#);
}

#[test]
fn strict_checks_take_notes_for_faults() {
    let path = golden("fixed_float16_5x8_a");
    let mut options = CheckOptions::default();
    let (summary, packs) = run(std::slice::from_ref(&path), &options);
    assert_eq!(summary.faults, 0);
    let notes = packs[0].notes.len() as u64;
    assert!(notes > 0);
    options.strict = true;
    let (summary, packs) = run(&[path], &options);
    assert_eq!(summary.faults, notes);
    assert!(packs[0].notes.is_empty());
    assert_eq!(packs[0].faults[0].check, "note");
}

#[test]
fn codecs_that_are_not_there_are_noted_and_damaged_parameters_are_faults() {
    let (_, packs) = run(&[golden("codec_unknown_a")], &CheckOptions::default());
    assert!(packs[0].is_sound());
    assert!(packs[0].notes.iter().any(|note| note.contains("not decoded")));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.iac");
    let mut header = serde_json::Map::new();
    header.insert("codec_params".to_owned(), serde_json::json!([1]));
    let index = Table::try_from(vec![
        RecordBatch::try_from_iter([(
            "item_id",
            Arc::new(StringArray::from(vec!["a"])) as ArrayRef,
        )])
        .unwrap(),
    ])
    .unwrap();
    build_pack(&path, &header, &Table::empty(), &index, &["x"], &WriteOptions::new()).unwrap();
    let (summary, packs) = run(std::slice::from_ref(&path), &CheckOptions::default());
    assert_eq!(packs[0].faults[0].field.as_deref(), Some("codec_params"));
    assert_eq!(packs[0].faults[0].check, "decode");
    assert_eq!(summary.kinds, [ErrorKind::Decode]);
    let mut options = CheckOptions::default();
    options.decode = 0;
    assert_eq!(run(&[path], &options).0.faults, 0);
}

#[test]
fn samples_and_limits_are_kept() {
    let mut options = CheckOptions::default();
    options.sample = Some(2);
    options.decode = 3;
    let (_, packs) = run(&[golden("none_a")], &options);
    assert_eq!((packs[0].rows_compared, packs[0].rows_decoded), (2, 3));
    options.decode = u64::MAX;
    let (_, packs) = run(&[golden("none_a")], &options);
    assert_eq!(packs[0].rows_decoded, 6);
    options.max_faults = 0;
    options.sample = None;
    let (summary, packs) = run(&[golden("crc_mismatch_a")], &options);
    assert!(packs[0].faults.is_empty());
    assert!(packs[0].total_faults >= 1 && summary.faults >= 1);
}

#[test]
fn folders_without_packs_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let error = find_packs(&[folder.path().to_owned()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let (summary, _) = run(&[folder.path().to_owned()], &CheckOptions::default());
    assert_eq!((summary.packs, summary.faults), (1, 1));
    assert_eq!(find_packs(&[golden("none_a")]).unwrap(), [golden("none_a")]);
    let cancel = Cancel::new();
    cancel.cancel();
    let error = check(&[golden("none_a")], &CheckOptions::default(), &cancel, &mut |_| Ok(()));
    assert!(error.unwrap_err().is_cancelled());
}

#[cfg(unix)]
#[test]
fn links_to_files_are_followed_and_links_to_folders_are_not() {
    use std::os::unix::fs::symlink;
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy("none_a", &other.path().join("a.iac"));
    symlink(other.path().join("a.iac"), folder.path().join("link.iac")).unwrap();
    symlink(other.path(), folder.path().join("folder")).unwrap();
    symlink("nowhere", folder.path().join("dangling.iac")).unwrap();
    symlink(folder.path(), folder.path().join("loop.iac")).unwrap();
    assert_eq!(find_packs(&[folder.path().to_owned()]).unwrap(), [folder.path().join("link.iac")]);
}
