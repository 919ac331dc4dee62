//! Very large packs of which nearly nothing is stored: maps that the system refuses, and records of
//! as many bytes as 32 bits can say.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // an allocator that counts
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

#[path = "../../iac-codec/tests/common/counting.rs"]
mod counting;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::Schema;
use iac_format::table::encode_table;
use iac_format::{Checksums, ErrorKind, HeaderFacts, Layout, build_header_text, header_block};
use iac_reader::{ByteSource as _, MappedFile, PackReader, ReadOptions, SourceKind, VerifyOptions};
use serde_json::{Map, Value};

/// Writes a pack whose data segment has so many bytes, all zero and not stored but for `written`;
/// records are given by offset, length and sum.
fn write(path: &Path, data: u64, records: &[(u64, u32, u32)], written: &[(u64, &[u8])]) {
    let slides = encode_table(&Schema::empty(), &[]).unwrap();
    let ids: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..records.len()).map(|row| format!("r{row}"))));
    let offsets: ArrayRef =
        Arc::new(UInt64Array::from_iter_values(records.iter().map(|record| record.0)));
    let lengths: ArrayRef =
        Arc::new(UInt32Array::from_iter_values(records.iter().map(|record| record.1)));
    let sums: ArrayRef =
        Arc::new(UInt32Array::from_iter_values(records.iter().map(|record| record.2)));
    let columns = [("item_id", ids), ("offset", offsets), ("length", lengths), ("crc32", sums)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let index = encode_table(&batch.schema(), &[batch]).unwrap();
    let layout = Layout::new(slides.len() as u64, index.len() as u64, data).unwrap();
    let facts = HeaderFacts {
        layout,
        num_slides: 0,
        num_records: records.len() as u64,
        checksums: Some(Checksums::of_tables(crc32fast::hash(&slides), crc32fast::hash(&index))),
    };
    let mut members = Map::new();
    members.insert("payload_type".to_owned(), Value::from("x"));
    let text = build_header_text(&members, &facts).unwrap();
    let file = File::create(path).unwrap();
    file.write_all_at(&header_block(&text).unwrap(), 0).unwrap();
    file.write_all_at(&slides, layout.slide_table.offset).unwrap();
    file.write_all_at(&index, layout.index_table.offset).unwrap();
    for (at, bytes) in written {
        file.write_all_at(bytes, layout.data.offset + at).unwrap();
    }
    file.set_len(layout.end()).unwrap();
}

const SCENE: &str = "IAC_SPARSE_SCENE";
const WIDE: u64 = 64 << 30;

/// Not a test of its own: what is done where no map of the pack fits into the address space.
#[test]
fn scene_without_room_for_a_map() {
    let Ok(path) = std::env::var(SCENE) else {
        return;
    };
    let path = PathBuf::from(path);
    let map = MappedFile::open(&path).unwrap();
    assert!(map.memory().is_none(), "there is room for a map after all");
    for source in [SourceKind::Mapped, SourceKind::Positional] {
        let pack = PackReader::open_with(&path, &ReadOptions::default().source(source)).unwrap();
        assert_eq!(pack.read(0).unwrap().as_ref(), b"first");
        assert_eq!(pack.read(1).unwrap().as_ref(), b"last");
        let found = pack.read_rows(&[1, 0, 1]).unwrap();
        assert_eq!(found, [b"last".as_slice(), b"first", b"last"]);
        let batch = pack.read_contiguous(&[1, 0]).unwrap();
        assert_eq!(batch.buffer(), b"lastfirst");
        // There is nothing that a view could borrow.
        pack.view(0).unwrap_err();
        let report = pack.verify(&VerifyOptions::default());
        assert!(report.faults.iter().all(|fault| fault.kind != ErrorKind::Io), "{report:?}");
    }
}

/// A limit of address space stands for every reason for which a map is refused.
#[test]
fn maps_that_the_system_refuses_are_made_up_for_by_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.iac");
    let (first, last) = (b"first".as_slice(), b"last".as_slice());
    let end = WIDE - 4;
    let records = [(0, 5, crc32fast::hash(first)), (end, 4, crc32fast::hash(last))];
    write(&path, WIDE, &records, &[(0, first), (end, last)]);
    // 16 GiB: enough for any number of threads, and far less than the pack has.
    let status = Command::new("sh")
        .args(["-c", "ulimit -v 16777216; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "scene_without_room_for_a_map", "--nocapture", "--test-threads", "1"])
        .env(SCENE, &path)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Files of the system's own that are regular by their type and cannot be mapped.
#[test]
fn kinds_of_files_that_cannot_be_mapped_are_read() {
    let path = Path::new("/sys/kernel/notes");
    let Ok(content) = std::fs::read(path) else {
        println!("not run: there is no {}", path.display());
        return;
    };
    let file = MappedFile::open(path).unwrap();
    assert!(file.memory().is_none());
    let mut found = vec![0; content.len()];
    file.read_into(0, &mut found).unwrap();
    assert!(found == content);
    let error = PackReader::open(path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotIac, "{error}");
}

/// The sum of so many zeros.
fn sum_of_zeros(count: u64) -> u32 {
    // Of one zero, two, four and so on, each from two of the one before.
    let mut stretch = crc32fast::Hasher::new();
    stretch.update(&[0]);
    let mut sum = crc32fast::Hasher::new();
    for bit in 0..u64::BITS - count.leading_zeros() {
        if count >> bit & 1 == 1 {
            sum.combine(&stretch);
        }
        let twice = stretch.clone();
        stretch.combine(&twice);
    }
    sum.finalize()
}

#[test]
fn records_of_4294967295_bytes_are_verified_in_bounded_memory_and_seen_without_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.iac");
    let length = u64::from(u32::MAX);
    let sum = {
        // One more byte that is not zero at the very end.
        let mut sum = crc32fast::Hasher::new_with_initial_len(sum_of_zeros(length - 1), length - 1);
        sum.update(b"e");
        sum.finalize()
    };
    let records = [(0, u32::MAX, sum), (length, 3, crc32fast::hash(b"end"))];
    write(&path, length + 3, &records, &[(length - 1, b"e"), (length, b"end")]);
    let before = counting::begin();
    let positional = ReadOptions::default().source(SourceKind::Positional);
    let pack = PackReader::open_with(&path, &positional).unwrap();
    let report = pack.verify(&VerifyOptions::default());
    assert!(report.is_sound(), "{report:?}");
    let most = counting::most_above(before);
    assert!(most < 256 << 20, "{most} bytes were held");
    assert_eq!(pack.span(0).unwrap().length, length);
    assert_eq!(pack.read(1).unwrap().as_ref(), b"end");
    drop(pack);
    // A map shows the record where it lies.
    let pack = PackReader::open(&path).unwrap();
    let view = pack.view(0).unwrap();
    assert_eq!((view.len() as u64, view[view.len() - 1], view[0]), (length, b'e', 0));
    // A byte in the middle of it: as long again, for runs that take their time.
    if std::env::var_os("IAC_FLIPS").is_none_or(|size| size != "full") {
        return;
    }
    let data = pack.layout().data.offset;
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"x", data + length / 2).unwrap();
    let pack = PackReader::open_with(&path, &positional).unwrap();
    let report = pack.verify(&VerifyOptions::default());
    assert_eq!(report.faults.len(), 1, "{report:?}");
    assert_eq!((report.faults[0].kind, report.faults[0].row), (ErrorKind::Checksum, Some(0)));
}
