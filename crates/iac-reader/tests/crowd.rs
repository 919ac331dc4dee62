//! Many threads and many forked processes read one pack at once, and compare every byte.
//!
//! `IAC_SOAK_SECONDS` says for how long, one second unless it is set.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unsafe_code)]
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::print_stdout)]
#![allow(clippy::cast_possible_truncation)]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use iac_codec::CodecSpec;
use iac_reader::{ContiguousRecordBatch, PackReader, VariableRecordPack, read_header};
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use serde_json::json;

const THREADS: usize = 16;
const PROCESSES: usize = 8;
const ROWS: u64 = 500;

/// What a row holds: a length and bytes that follow from its number.
fn content(row: u64) -> Vec<u8> {
    let length = usize::try_from(row * 7919 % 9000).unwrap();
    (0..length).map(|at| ((at as u64 * (row + 3)) >> 3) as u8).collect()
}

fn seconds() -> Duration {
    let given = std::env::var("IAC_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs_f64(given.unwrap_or(1.0))
}

fn pack(path: &Path) {
    let numbers = UInt32Array::from_iter_values(0..u32::try_from(ROWS).unwrap());
    let index = RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef)]).unwrap();
    let records: Vec<Vec<u8>> = (0..ROWS).map(content).collect();
    let serde_json::Value::Object(parameters) = json!({"level": 3}) else { panic!() };
    VariablePackBuilder::new("raw_bytes", Table::from(index))
        .codec_spec(CodecSpec::new("zstd", parameters))
        .options(WriteOptions::default().sync(false))
        .build(path, &records)
        .unwrap();
}

/// Reads in every way until the time is over; how many records were compared.
fn read_until(end: Instant, path: &Path, shared: &VariableRecordPack, seed: u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let expected: Vec<Vec<u8>> = (0..ROWS).map(content).collect();
    let own = VariableRecordPack::open(path).unwrap();
    let mut buffer = ContiguousRecordBatch::new();
    let mut compared = 0;
    while Instant::now() < end {
        let rows: Vec<u64> = (0..=random(80)).map(|_| random(ROWS)).collect();
        let pack = if random(4) == 0 { &own } else { shared };
        match random(5) {
            0 => {
                for row in &rows {
                    let record = pack.read(*row).unwrap();
                    assert!(record == expected[*row as usize], "row {row}");
                }
            }
            1 | 2 => {
                let records = pack.read_many(&rows).unwrap();
                for (row, record) in rows.iter().zip(&records) {
                    assert!(*record == expected[*row as usize], "row {row}");
                }
            }
            3 => {
                let stored = pack.reader().read_rows(&rows).unwrap();
                pack.reader().read_contiguous_into(&rows, &mut buffer).unwrap();
                let whole: Vec<u8> = stored.iter().flat_map(|it| it.iter().copied()).collect();
                assert!(buffer.buffer() == whole);
            }
            _ => {
                // Opening and closing while others read; the cache of headers is shared.
                assert_eq!(read_header(path).unwrap().num_records().unwrap(), ROWS);
                let fresh = PackReader::open(path).unwrap();
                assert_eq!(fresh.num_records().unwrap(), ROWS);
                assert_eq!(
                    fresh.clone().read(rows[0]).unwrap(),
                    shared.reader().read(rows[0]).unwrap()
                );
            }
        }
        compared += rows.len() as u64;
    }
    compared
}

#[test]
fn threads_and_forked_processes_read_the_same_pack_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    pack(&path);
    let shared =
        VariableRecordPack::open(&path).unwrap().with_workers(NonZeroUsize::new(3).unwrap());
    // Pool, cache and codec are there before the fork.
    assert_eq!(shared.read_many(&[1, 2, 3]).unwrap().len(), 3);
    read_header(&path).unwrap();
    let end = Instant::now() + seconds();
    let mut children = Vec::new();
    for number in 0..PROCESSES {
        // SAFETY: this thread alone is known to the child, which reads and leaves with `_exit`; what
        // the parent's other threads hold is what this test is about.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: plain system calls.
            unsafe { libc::alarm(u32::try_from(seconds().as_secs()).unwrap() + 120) };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                std::thread::scope(|scope| {
                    let other =
                        scope.spawn(|| read_until(end, &path, &shared, number as u64 * 2 + 900));
                    read_until(end, &path, &shared, number as u64 * 2 + 901) + other.join().unwrap()
                })
            }));
            // SAFETY: nothing of the parent's is cleaned up here.
            unsafe { libc::_exit(i32::from(!done.is_ok_and(|compared| compared > 0))) };
        }
        children.push(child);
    }
    let compared = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (compared, path, shared) = (&compared, &path, &shared);
            scope.spawn(move || {
                let count = read_until(end, path, shared, number as u64 + 1);
                assert!(count > 0);
                compared.fetch_add(count, Ordering::Relaxed);
            });
        }
    });
    for child in children {
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "a child met something else than the right records");
    }
    let compared = compared.into_inner();
    println!("{compared} records compared by {THREADS} threads, beside {PROCESSES} processes");
}
