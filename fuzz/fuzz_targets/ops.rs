//! What becomes of whole packs: salvaging, subsets, merging, recoding, extracting and sums of any pack
//! fail with an error or make what is sound, and what is sound loses nothing on the way.
//!
//! An input holds the parts of a pack (see `pack_input`).
#![no_main]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use iac_codec::{CodecSpec, Limits};
use iac_fuzz::{Limited, assemble, seeds};
use iac_ops::digest::{DecodedDigest, DigestOptions, digest};
use iac_ops::extract::{ExtractOptions, extract};
use iac_ops::info::info;
use iac_ops::merge::{MergeOptions, merge};
use iac_ops::recode::{RecodeOptions, recode};
use iac_ops::rows::RowSelection;
use iac_ops::salvage::{SalvageOptions, salvage};
use iac_ops::stats::stats;
use iac_ops::subset::{SubsetOptions, subset};
use iac_ops::{NoProgress, OpsError};
use iac_reader::{PackReader, ReadOptions, SourceKind, VerifyOptions};
use iac_writer::WriteOptions;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Rows of packs that are worked on.
const ROWS: u64 = 64;
/// Bytes that a record may decode to, so that a run does not spend its time on bombs.
const MOST: u64 = 1 << 20;

/// A folder for the files, in memory where that is possible.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = folder.join(format!("iac-fuzz-ops-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
});

fuzz_target!(
    init: seeds::write(seeds::pack_inputs),
    |input: &[u8]| {
        let Some(file) = assemble(input) else { return };
        let path = FOLDER.join("in.iac");
        std::fs::write(&path, file).unwrap();
        run(&path);
        // Nothing partial is left, whatever happened.
        let left: Vec<String> = std::fs::read_dir(&*FOLDER)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.contains(".part"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        std::fs::remove_dir_all(&*FOLDER).unwrap();
        std::fs::create_dir_all(&*FOLDER).unwrap();
    }
);

fn write_options() -> WriteOptions {
    WriteOptions::new().overwrite(true).sync(false)
}

/// Positional and not cached: files of one name follow one another here.
fn open(path: &Path) -> Option<PackReader> {
    let options = ReadOptions::default()
        .workers(NonZeroUsize::MIN)
        .source(SourceKind::Positional)
        .use_header_cache(false);
    PackReader::open_with(path, &options).ok()
}

fn run(path: &Path) {
    let saved = FOLDER.join("saved.iac");
    let mut options = SalvageOptions::default();
    options.write = write_options();
    let report = salvage(path, &saved, &options, &NoProgress);
    let pack = open(path);
    match report {
        Ok(report) => {
            assert_eq!(report.kept + report.dropped, report.rows);
            assert!(!report.to_json_lines().is_empty());
            let saved = open(&saved).unwrap();
            let verified = saved.verify(&VerifyOptions::default());
            assert!(verified.is_sound(), "{verified:?} of {report:?}");
        }
        Err(error) => {
            check(&error);
            assert!(!saved.exists());
        }
    }
    let Some(pack) = pack else { return };
    let _ = info(&pack);
    let _ = stats(&pack, 8);
    let Ok(rows) = pack.num_records() else { return };
    if rows > ROWS {
        return;
    }
    let is_sound = pack.verify(&VerifyOptions::default()).is_sound();
    let before = sums(&pack);
    let part = FOLDER.join("part-of.iac");
    let mut options = SubsetOptions::default();
    (options.write, options.keep_slides) = (write_options(), true);
    let all = RowSelection::all(rows);
    match subset(&pack, &all, &part, &options, &NoProgress) {
        Ok(summary) => {
            assert_eq!(summary.rows, rows);
            let again = open(&part).unwrap();
            if is_sound && let (Some(before), Some(after)) = (&before, sums(&again)) {
                assert!(*before == after, "a subset of all rows is another pack");
            }
        }
        Err(error) => check(&error),
    }
    let merged = FOLDER.join("merged.iac");
    let mut options = MergeOptions::default();
    options.write = write_options();
    match merge(&[pack.clone(), pack.clone()], &merged, &options, &NoProgress) {
        Ok(summary) => {
            assert_eq!(summary.rows, rows * 2);
            open(&merged).unwrap();
        }
        Err(error) => check(&error),
    }
    let recoded = FOLDER.join("recoded.iac");
    let mut options = RecodeOptions::default();
    options.codec = CodecSpec::new("lz4", Default::default());
    options.write = write_options();
    options.limits = Limits::default().with_max_decoded_bytes(MOST).with_max_samples(MOST);
    options.workers = Some(NonZeroUsize::MIN);
    match recode(&pack, &recoded, &options, &NoProgress) {
        Ok(summary) => {
            assert_eq!(summary.rows, rows);
            let again = open(&recoded).unwrap();
            assert!(again.verify(&VerifyOptions::default()).is_sound());
        }
        Err(error) => check(&error),
    }
    let mut options = ExtractOptions::default();
    options.workers = Some(NonZeroUsize::MIN);
    options.limits = Limits::default().with_max_decoded_bytes(MOST).with_max_samples(MOST);
    let folder = FOLDER.join("out");
    let mut files = Vec::new();
    let extracted = extract(&pack, None, &folder, &options, &NoProgress, &mut |file| {
        files.push(file);
        Ok(())
    });
    for file in &files {
        assert!(!file.file.split('/').any(|part| part == ".." || part.is_empty()), "{}", file.file);
        let length = std::fs::symlink_metadata(folder.join(&file.file)).unwrap().len();
        assert_eq!(length, file.bytes);
    }
    match extracted {
        Ok(summary) => assert_eq!(summary.files, files.len() as u64),
        Err(error) => check(&error),
    }
}

/// Sums of stored and decoded bytes: errors name files.
fn sums(pack: &PackReader) -> Option<Vec<(Option<String>, Option<DecodedDigest>)>> {
    let mut options = DigestOptions::default();
    options.workers = Some(NonZeroUsize::MIN);
    let mut rows = Vec::new();
    let summed = digest(pack, None, &options, &NoProgress, &mut |row| {
        rows.push((row.stored_sha256, row.decoded));
        Ok(())
    });
    match summed {
        Ok(_) => Some(rows),
        Err(error) => {
            check(&error);
            None
        }
    }
}

fn check(error: &OpsError) {
    assert!(!error.to_string().is_empty());
    let _ = error.kind();
}
