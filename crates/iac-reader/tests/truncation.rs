//! Files that are cut while they are open: an I/O error, never a dead process.
//!
//! What may kill the process runs in a child: this test binary, started again with the name of a
//! scene in the environment.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::arithmetic_side_effects, clippy::print_stdout)]

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use iac_format::ErrorKind;
use iac_reader::{PackReader, ReadOptions, SourceKind};
use iac_writer::{Table, WriteOptions, build_pack};
use serde_json::Map;

const SCENE: &str = "IAC_TRUNCATION_SCENE";
const PACK: &str = "IAC_TRUNCATION_PACK";
const RECORDS: u64 = 512;
const RECORD_BYTES: usize = 20_000;

fn write_pack(folder: &Path) -> PathBuf {
    let path = folder.join("cut.iac");
    let ids = StringArray::from_iter_values((0..RECORDS).map(|row| format!("r{row}")));
    let index = RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap();
    let payloads: Vec<Vec<u8>> =
        (0..RECORDS).map(|row| vec![u8::try_from(row % 251).unwrap() + 1; RECORD_BYTES]).collect();
    build_pack(
        &path,
        &Map::new(),
        &Table::empty(),
        &Table::from(index),
        &payloads,
        &WriteOptions::default(),
    )
    .unwrap();
    path
}

fn cut(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// Lets the time pass in which reads of single records rely on the size that was seen last.
fn wait_beyond_a_tick() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// Runs one scene in a child process.
fn run(scene: &str) -> ExitStatus {
    let folder = tempfile::tempdir().unwrap();
    let path = write_pack(folder.path());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "scene_in_a_child_process", "--nocapture", "--test-threads", "1"])
        .env(SCENE, scene)
        .env(PACK, &path)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap()
}

/// Not a test of its own: does what the environment says, when it says something.
#[test]
fn scene_in_a_child_process() {
    let Ok(scene) = std::env::var(SCENE) else {
        return;
    };
    let path = PathBuf::from(std::env::var(PACK).unwrap());
    let rows: Vec<u64> = (0..RECORDS).collect();
    match scene.as_str() {
        "read after the cut, mapped" => {
            let pack = PackReader::open(&path).unwrap();
            pack.read(0).unwrap();
            cut(&path, 100_000);
            wait_beyond_a_tick();
            expect_io(&pack, &rows);
        }
        "read just after the cut, guarded" => {
            iac_reader::guard::install().unwrap();
            let whole = std::fs::read(&path).unwrap();
            for _ in 0..20 {
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, &whole).unwrap();
                let pack = PackReader::open(&path).unwrap();
                pack.read(0).unwrap();
                cut(&path, 100_000);
                // Whether or not the size is asked for: what is lost is noticed.
                for row in [RECORDS - 1, 0, RECORDS - 1] {
                    match pack.read(row) {
                        Ok(record) => assert!(row == 0 && record.iter().all(|byte| *byte == 1)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
                    }
                }
                wait_beyond_a_tick();
                assert_eq!(pack.read(0).unwrap_err().kind(), ErrorKind::Io);
                assert_eq!(pack.check_intact_lately().unwrap_err().kind(), ErrorKind::Io);
            }
        }
        "tables after the cut, mapped" => {
            let pack = PackReader::open(&path).unwrap();
            cut(&path, 65_536);
            assert_eq!(pack.index_table().unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(pack.verify(&Default::default()).faults[0].kind, ErrorKind::Io);
        }
        "read after the cut, positional" => {
            let options = ReadOptions::default().source(SourceKind::Positional);
            let pack = PackReader::open_with(&path, &options).unwrap();
            pack.read(0).unwrap();
            cut(&path, 100_000);
            let last = pack.read(RECORDS - 1).unwrap_err();
            assert_eq!(last.kind(), ErrorKind::Io);
            assert!(last.to_string().contains("cut to 100000 bytes"), "{last}");
        }
        "touch a view after the cut, unguarded" => {
            let pack = PackReader::open(&path).unwrap();
            let view = pack.view(RECORDS - 1).unwrap();
            cut(&path, 100_000);
            assert_eq!(view.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 0);
        }
        "touch views after the cut, guarded" => {
            iac_reader::guard::install().unwrap();
            iac_reader::guard::install().unwrap();
            let pack = PackReader::open(&path).unwrap();
            let views = pack.views(&rows).unwrap();
            cut(&path, 100_000);
            for view in &views[10..] {
                assert!(view.iter().all(|byte| *byte == 0));
            }
            // The file is put back to its size, but what was mapped is lost.
            cut(&path, pack.file_bytes());
            let error = pack.read(RECORDS - 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains("was cut"), "{error}");
            assert_eq!(pack.view(0).unwrap_err().kind(), ErrorKind::Io);
        }
        "cut during reads, guarded" => {
            iac_reader::guard::install().unwrap();
            let whole = std::fs::read(&path).unwrap();
            let mut met = 0;
            for round in 0..30_u64 {
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, &whole).unwrap();
                let pack = PackReader::open(&path).unwrap();
                pack.index_table().unwrap();
                let cutter = {
                    let path = path.clone();
                    std::thread::spawn(move || {
                        std::thread::sleep(std::time::Duration::from_micros(round * 40));
                        cut(&path, 70_000);
                    })
                };
                for _ in 0..20 {
                    match pack.read_rows(&rows) {
                        Ok(records) => {
                            assert!(records.iter().zip(&rows).all(|(record, row)| {
                                record.iter().all(|b| u64::from(*b) == row % 251 + 1)
                            }));
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                            met += 1;
                            break;
                        }
                    }
                }
                cutter.join().unwrap();
                assert!(pack.read_rows(&rows).is_err());
            }
            assert!(met > 0);
        }
        "a fault of somebody else's, guarded" => {
            iac_reader::guard::install().unwrap();
            let _pack = PackReader::open(&path).unwrap();
            let file = std::fs::File::open(&path).unwrap();
            #[allow(unsafe_code)]
            // SAFETY: the mapping is meant to fault; that is what the test is about.
            let foreign = unsafe { memmap2::Mmap::map(&file).unwrap() };
            cut(&path, 0);
            println!("{}", foreign[100_000]);
        }
        other => panic!("unknown scene {other}"),
    }
}

fn expect_io(pack: &PackReader, rows: &[u64]) {
    for error in [
        pack.read(RECORDS - 1).unwrap_err(),
        pack.read(0).unwrap_err(),
        pack.read_rows(rows).unwrap_err(),
        pack.read_contiguous(rows).unwrap_err(),
        pack.view(0).unwrap_err(),
        pack.read_data_span(0, 1).unwrap_err(),
        pack.clone().iter_payloads().unwrap().next().unwrap().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("cut to 100000 bytes"), "{error}");
    }
}

#[test]
fn a_read_after_the_cut_is_an_io_error() {
    for scene in [
        "read after the cut, mapped",
        "tables after the cut, mapped",
        "read after the cut, positional",
    ] {
        assert!(run(scene).success(), "{scene}");
    }
}

#[test]
fn the_guard_keeps_the_process_alive() {
    for scene in [
        "touch views after the cut, guarded",
        "read just after the cut, guarded",
        "cut during reads, guarded",
    ] {
        let status = run(scene);
        assert!(status.success(), "{scene}: {status}");
    }
}

#[test]
fn faults_that_are_not_ours_keep_their_effect() {
    for scene in ["touch a view after the cut, unguarded", "a fault of somebody else's, guarded"] {
        assert_eq!(run(scene).signal(), Some(libc::SIGBUS), "{scene}");
    }
}
