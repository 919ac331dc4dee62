//! A writer that is killed at random moments leaves a whole version, and the newest one that it
//! was told of.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout
)]
#![cfg(unix)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use iac_array::blocking::ArrayStore;
use iac_array::{ArraySpec, CompactPolicy, DType, GcOptions, Location, StoreOptions};
use ndarray::Array1;

const FOLDER: &str = "IAC_ARRAY_KILLED_WRITER";
const KILLS: u64 = 25;

fn open(folder: &str) -> ArrayStore {
    ArrayStore::open(Location::folder(folder).unwrap(), StoreOptions::default()).unwrap()
}

/// The writer: every version has the same number everywhere in two arrays.
#[test]
fn writer_that_is_to_be_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let mut store = open(&folder);
    let mut number = store.read("a", &[0], &[1]).unwrap().to_ndarray::<i64>().unwrap()[[0]];
    loop {
        number += 1;
        for name in ["a", "b"] {
            let pattern: Array1<i64> = (0..500).map(|at| number + at).collect();
            store.write(name, &[0], pattern).unwrap();
        }
        store.flush().unwrap();
        println!("\nwritten {number}");
        std::io::stdout().flush().unwrap();
        if number % 4 == 0 {
            store.compact(CompactPolicy::Tiers).unwrap();
        }
        if number % 6 == 0 {
            store.gc(GcOptions { grace: Duration::ZERO, keep_versions: 2 }).unwrap();
        }
    }
}

#[test]
fn killed_writers_leave_whole_versions() {
    kill_writers(KILLS);
}

/// For `make soak`: minutes.
#[test]
#[ignore = "takes minutes"]
fn five_hundred_killed_writers_leave_whole_versions() {
    kill_writers(500);
}

fn kill_writers(kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let options = StoreOptions::default();
    let mut store = ArrayStore::create(Location::folder(path).unwrap(), options).unwrap();
    for name in ["a", "b"] {
        store.define(name, ArraySpec::new(DType::Int64, &[500]).chunks(&[64])).unwrap();
        store.write(name, &[0], (0..500_i64).collect::<Array1<i64>>()).unwrap();
    }
    store.flush().unwrap();
    let mut reached = 0;
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_that_is_to_be_killed", "--nocapture", "--test-threads=1"])
            .env(FOLDER, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(40 + kill * 37 % 120));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        let told = told.lines().filter_map(|line| line.strip_prefix("written "));
        let told = told.filter_map(|number| number.parse::<i64>().ok()).max().unwrap_or(reached);
        let store = open(path);
        let a = store.read_all("a").unwrap().to_ndarray::<i64>().unwrap();
        assert_eq!(a, store.read_all("b").unwrap().to_ndarray::<i64>().unwrap());
        let number = a[[0]];
        assert_eq!(a, (0..500).map(|at| number + at).collect::<Array1<i64>>().into_dyn());
        assert!(number >= told && number >= reached, "{number} after {told} and {reached}");
        assert!(store.snapshot().verify().unwrap().is_empty());
        reached = number;
    }
    assert!(reached > 0, "no writer lived long enough to publish");
    println!("{kills} writers were killed, the last version has number {reached}");
}
