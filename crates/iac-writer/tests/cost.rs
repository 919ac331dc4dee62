//! What a write costs: bytes that pass to the system, memory.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

mod common;

use std::fs;
use std::io;

use common::{child, child_argument, header, items, run};
use iac_writer::{PackWriter, Table, WriteOptions, build_pack_streaming};

/// A number from one of the process's own tables.
fn own(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn nothing_is_written_twice() {
    let Some(folder) = child_argument() else {
        let folder = tempfile::tempdir().unwrap();
        return run(child("nothing_is_written_twice", folder.path()));
    };
    for (rows, size, calls) in [(20_000, 1000, 200), (400, 65_536, 500), (0, 0, 20)] {
        let path = folder.join(format!("{size}.iac"));
        let payload = vec![3; size];
        let payloads = (0..rows).map(|_| Ok::<_, io::Error>(&payload));
        let (index, options) = (items(rows), WriteOptions::new().sync(false));
        let before = (own("/proc/self/io", "wchar"), own("/proc/self/io", "syscw"));
        let summary =
            build_pack_streaming(&path, &header(), &items(3), &index, payloads, &options).unwrap();
        let bytes = own("/proc/self/io", "wchar") - before.0;
        let writes = own("/proc/self/io", "syscw") - before.1;
        assert_eq!(bytes, summary.file_bytes);
        assert!(writes <= calls, "{rows} rows of {size} bytes: {writes} writes");
    }
}

#[test]
fn memory_holds_rows_and_no_payloads() {
    const ROWS: usize = 3000;
    const SIZE: usize = 64 << 10;
    let Some(folder) = child_argument() else {
        let folder = tempfile::tempdir().unwrap();
        return run(child("memory_holds_rows_and_no_payloads", folder.path()));
    };
    let payload = vec![3; SIZE];
    let (index, options) = (items(ROWS), WriteOptions::new().sync(false));
    let payloads = (0..ROWS).map(|_| Ok::<_, io::Error>(&payload));
    let before = own("/proc/self/status", "VmHWM");
    let path = folder.join("a.iac");
    build_pack_streaming(&path, &header(), &items(1), &index, payloads, &options).unwrap();
    let growth = own("/proc/self/status", "VmHWM") - before;
    assert!(growth < 8 << 10, "streaming: {growth} KiB");
    fs::remove_file(&path).unwrap();

    let schema = index.schema().clone();
    let mut writer =
        PackWriter::create(&path, header(), &Table::empty(), schema, &options).unwrap();
    for _ in 0..ROWS {
        writer.push(&payload).unwrap();
    }
    writer.finish_with_index(&index).unwrap();
    let growth = own("/proc/self/status", "VmHWM") - before;
    assert!(growth < 8 << 10, "collected: {growth} KiB");
}

#[test]
fn spans_take_sixteen_bytes_a_row() {
    const ROWS: usize = 1_000_000;
    let Some(folder) = child_argument() else {
        let folder = tempfile::tempdir().unwrap();
        return run(child("spans_take_sixteen_bytes_a_row", folder.path()));
    };
    let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(ROWS));
    let schema = Table::empty().schema().clone();
    let rows = arrow_array::RecordBatch::try_new_with_options(schema, vec![], &rows).unwrap();
    let payloads = (0..ROWS).map(|_| Ok::<_, io::Error>([1; 10]));
    let options = WriteOptions::new().sync(false);
    let before = own("/proc/self/status", "VmHWM");
    let path = folder.join("a.iac");
    build_pack_streaming(&path, &header(), &items(1), &rows.into(), payloads, &options).unwrap();
    let growth = own("/proc/self/status", "VmHWM") - before;
    assert!(growth < ((16 * ROWS as u64) >> 10) + (8 << 10), "{growth} KiB");
}
