//! Readers go on working in a forked child, where the parent's threads and locks are gone.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unsafe_code)]
#![allow(clippy::arithmetic_side_effects)]

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use iac_reader::{PackReader, read_header};
use iac_writer::{Table, WriteOptions, build_pack};
use serde_json::Map;

#[test]
fn a_forked_child_reads_in_parallel_and_uses_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let numbers = UInt32Array::from_iter_values(0..200);
    let index = RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef)]).unwrap();
    let payloads = vec![vec![7_u8; 50_000]; 200];
    build_pack(
        &path,
        &Map::new(),
        &Table::empty(),
        &Table::from(index),
        &payloads,
        &WriteOptions::default().sync(false),
    )
    .unwrap();
    let rows: Vec<u64> = (0..200).rev().collect();
    let pack = PackReader::open(&path).unwrap();
    // The parent's pool and cache exist before the fork.
    assert_eq!(pack.read_rows(&rows).unwrap().len(), 200);
    read_header(&path).unwrap();

    // SAFETY: the child reads, forks once more in the same way, and leaves with `_exit`.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            let grandchild = libc::fork();
            let read = || {
                pack.read_rows(&rows).is_ok_and(|records| records.len() == 200)
                    && read_header(&path).is_ok()
                    && PackReader::open(&path).is_ok_and(|pack| pack.read(3).is_ok())
            };
            let sound = read();
            if grandchild == 0 {
                libc::_exit(i32::from(!sound));
            }
            let mut status = 0;
            libc::waitpid(grandchild, &raw mut status, 0);
            libc::_exit(i32::from(!(sound && status == 0)));
        }
        assert!(child > 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    };
    assert_eq!(status, 0, "the child did not read everything");
    assert_eq!(pack.read_rows(&rows).unwrap().len(), 200);
}
