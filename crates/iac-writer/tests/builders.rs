//! What the four builders write, and what they refuse.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

mod common;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int32Array, RecordBatch, RecordBatchOptions, StringArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema};
use common::{Pack, batch, header, items, members, names_in};
use iac_format::{ErrorKind, STORAGE_COLUMNS};
use iac_writer::{
    PackWriter, Table, WriteError, WriteOptions, build_pack, build_pack_data_segment,
    build_pack_data_segment_from_file, build_pack_streaming,
};
use serde_json::{Map, Value, json};

const EMPTY: [&[u8]; 0] = [];

fn quick() -> WriteOptions {
    WriteOptions::new().sync(false)
}

fn payloads(count: usize) -> Vec<Vec<u8>> {
    let sizes = (0..count).map(|n| n * 1000 % 70_001);
    (0..=255).cycle().zip(sizes).map(|(byte, size)| vec![byte; size]).collect()
}

#[test]
fn packs_are_aligned_and_summed_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let payloads = payloads(200);
    let options = WriteOptions::new();
    let summary =
        build_pack(&path, &header(), &items(2), &items(200), &payloads, &options).unwrap();
    let pack = Pack::read(&path);
    assert_eq!(pack.records(), payloads);
    assert_eq!(summary.path, path);
    assert_eq!(summary.file_bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(summary.data_bytes, pack.data().len() as u64);
    assert_eq!((summary.rows, summary.slides), (200, 2));
    assert_eq!(summary.layout, pack.header.layout());
    assert_eq!(pack.header.layout().data.offset % 64, 0);
    assert_eq!(pack.header.extensions(), ["iac.checksums"]);
    let sums = pack.header.checksums().unwrap();
    assert_eq!((sums.data, sums.rows), (None, false));
    assert_eq!(pack.index_columns(), ["item_id", "offset", "length", "crc32"]);
}

#[test]
fn the_same_input_gives_the_same_bytes_whichever_way_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = payloads(100);
    let (slides, index) = (items(3), items(100));
    for options in [quick(), quick().checksums(false).data_alignment(1)] {
        let options = options.overwrite(true);
        let path = |name: &str| folder.path().join(name);
        build_pack(path("a"), &header(), &slides, &index, &payloads, &options).unwrap();
        let stream = payloads.iter().map(Ok::<_, io::Error>);
        build_pack_streaming(path("b"), &header(), &slides, &index, stream, &options).unwrap();
        let mut writer =
            PackWriter::with_index(path("c"), header(), &slides, &index, &options).unwrap();
        for payload in &payloads {
            writer.push(payload).unwrap();
        }
        writer.finish().unwrap();
        let schema = index.schema().clone();
        let mut writer =
            PackWriter::create(path("d"), header(), &slides, schema, &options).unwrap();
        writer.push_rows(&index.batches()[0]).unwrap();
        for payload in &payloads {
            writer.push(payload).unwrap();
        }
        writer.finish().unwrap();
        let expected = fs::read(path("a")).unwrap();
        for name in ["b", "c", "d"] {
            assert!(fs::read(path(name)).unwrap() == expected, "{name}");
        }
    }
}

#[test]
fn storage_columns_are_replaced_where_they_stand_or_appended() {
    let folder = tempfile::tempdir().unwrap();
    let noted = HashMap::from([("unit".to_owned(), "px".to_owned())]);
    let fields = vec![
        Field::new("offset", DataType::Utf8, false).with_metadata(noted.clone()),
        Field::new("item_id", DataType::Utf8, false).with_metadata(noted.clone()),
        Field::new("crc32", DataType::Float64, true),
        Field::new("x", DataType::Int32, true),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["p", "q"])),
        Arc::new(StringArray::from(vec!["a", "b"])),
        Arc::new(Float64Array::from(vec![Some(0.5), None])),
        Arc::new(Int32Array::from(vec![7, 8])),
    ];
    let schema = Arc::new(Schema::new_with_metadata(fields, noted.clone()));
    let index = Table::from(RecordBatch::try_new(schema, columns).unwrap());
    let path = folder.path().join("a.iac");
    build_pack(&path, &header(), &Table::empty(), &index, &["one", "four"], &quick()).unwrap();
    let pack = Pack::read(&path);
    assert_eq!(pack.records(), ["one", "four"]);
    assert_eq!(pack.index_columns(), ["offset", "item_id", "crc32", "x", "length"]);
    let schema = pack.index.schema();
    assert_eq!(*schema.metadata(), noted);
    let field = |name: &str| schema.field_with_name(name).unwrap();
    assert_eq!(*field("offset"), Field::new("offset", DataType::UInt64, true));
    assert_eq!(*field("crc32"), Field::new("crc32", DataType::UInt32, true));
    assert_eq!(*field("item_id").metadata(), noted);
    assert!(!field("item_id").is_nullable());
    let x = |batch: &RecordBatch| batch.column_by_name("x").cloned().unwrap();
    let written = pack.index.decode().unwrap();
    assert_eq!(x(&written[0]).as_ref(), x(&index.batches()[0]).as_ref());
}

#[test]
fn a_storage_column_that_occurs_twice_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/a.iac");
    for name in STORAGE_COLUMNS {
        let column = || (name, Arc::new(Int32Array::from(vec![1])) as ArrayRef);
        let index = Table::from(batch([column(), column()]));
        let errors = [
            build_pack(&path, &header(), &items(1), &index, &["x"], &quick()).unwrap_err(),
            PackWriter::create(&path, header(), &items(1), index.schema().clone(), &quick())
                .unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert_eq!(error.field(), Some(name));
            assert_eq!(error.path(), Some(path.as_path()));
        }
    }
    assert!(names_in(folder.path()).is_empty(), "not even the folder");
}

#[test]
fn batches_are_kept_and_only_empty_ones_at_the_end_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let whole = items(7).batches()[0].clone();
    for (lengths, expected) in [
        (vec![3, 1, 0, 3], vec![3, 1, 0, 3]),
        (vec![0, 3, 0, 0], vec![0, 3]),
        (vec![0, 0], vec![]),
        (vec![], vec![]),
    ] {
        let mut start = 0;
        let mut batches = Vec::new();
        for length in &lengths {
            batches.push(whole.slice(start, *length));
            start += length;
        }
        let table = Table::new(whole.schema(), batches).unwrap();
        let payloads: Vec<String> = (0..start).map(|n| "x".repeat(n)).collect();
        let options = quick().overwrite(true);
        build_pack(&path, &header(), &table, &table, &payloads, &options).unwrap();
        let pack = Pack::read(&path);
        assert_eq!(pack.index.batch_rows(), expected);
        assert_eq!(pack.slides.batch_rows(), expected);
        assert_eq!(pack.records(), payloads);
    }
}

#[test]
fn batches_of_different_tables_do_not_mix() {
    let other = batch([("name", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    let batches = vec![items(1).batches()[0].clone(), other];
    let error = Table::try_from(batches).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().starts_with("batch 1: "), "{error}");
    let none = Table::try_from(Vec::new()).unwrap();
    assert!(none.schema().fields().is_empty());
}

#[test]
fn the_data_segment_starts_where_the_alignment_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    for alignment in [1, 2, 8, 64, 4096, 1 << 20] {
        let options = quick().overwrite(true).data_alignment(alignment);
        build_pack(&path, &header(), &items(3), &items(2), &["a", "bc"], &options).unwrap();
        let pack = Pack::read(&path);
        assert_eq!(pack.header.layout().data.offset % alignment, 0);
        let padding = pack.header.layout().index_table.length - pack.index.stream_bytes();
        assert!(padding < alignment);
        assert_eq!(pack.records(), ["a", "bc"]);
    }
    for alignment in [0, 3, 48, 1 << 21] {
        let options = quick().overwrite(true).data_alignment(alignment);
        let error =
            build_pack(&path, &header(), &items(3), &items(0), &EMPTY, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(&alignment.to_string()), "{error}");
    }
}

#[test]
fn packs_without_rows_columns_or_bytes_are_ordinary_packs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let none = Table::empty();
    for options in [quick(), quick().checksums(false).data_alignment(1)] {
        let options = options.overwrite(true);
        build_pack(path("a"), &Map::new(), &none, &none, &EMPTY, &options).unwrap();
        let pack = Pack::read(&path("a"));
        assert_eq!(pack.index_columns(), STORAGE_COLUMNS);
        assert!(pack.records().is_empty() && pack.data().is_empty());
        assert!(pack.index.batch_rows().is_empty());
        assert_eq!(pack.slide_segment().len(), 64);

        build_pack(path("b"), &header(), &items(0), &items(0), &EMPTY, &options).unwrap();
        assert_eq!(Pack::read(&path("b")).index_columns().len(), 4);

        build_pack(path("c"), &header(), &none, &items(3), &["", "", ""], &options).unwrap();
        let pack = Pack::read(&path("c"));
        assert_eq!(pack.records(), ["", "", ""]);
        assert!(pack.data().is_empty());

        let rows = RecordBatchOptions::new().with_row_count(Some(2));
        let rows = RecordBatch::try_new_with_options(none.schema().clone(), vec![], &rows).unwrap();
        build_pack(path("d"), &header(), &none, &rows.into(), &["x", "yz"], &options).unwrap();
        assert_eq!(Pack::read(&path("d")).records(), ["x", "yz"]);

        build_pack_data_segment(path("e"), &header(), &none, &none, b"", &options).unwrap();
        let pack = Pack::read(&path("e"));
        assert!(pack.data().is_empty() && pack.index_columns().is_empty());
    }
}

#[test]
fn rows_and_payloads_must_agree_in_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    for count in [0, 2, 4, 9] {
        let payloads = payloads(count);
        let given = build_pack(&path, &header(), &items(1), &items(3), &payloads, &quick());
        let stream = payloads.iter().map(Ok::<_, io::Error>);
        let streamed =
            build_pack_streaming(&path, &header(), &items(1), &items(3), stream, &quick());
        for (error, seen) in [(given, count), (streamed, count.min(4))] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            let message = error.to_string();
            assert!(message.contains("3 rows"), "{message}");
            assert!(message.contains(&format!("{seen} payloads")), "{message}");
        }
        assert!(names_in(folder.path()).is_empty());
    }
}

#[test]
fn an_iterator_that_fails_or_panics_publishes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let failing = (0..5).map(|n| match n {
        3 => Err(io::Error::other("no third slide")),
        _ => Ok(vec![0; 100_000]),
    });
    let error = build_pack_streaming(&path, &header(), &items(1), &items(5), failing, &quick())
        .unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Io, Some(3)));
    assert!(error.to_string().contains("no third slide"), "{error}");
    assert!(names_in(folder.path()).is_empty());

    let inner = || WriteError::RecordTooLarge { path: path.clone(), row: 0, length: 1 << 40 };
    let failing = std::iter::once_with(|| Err::<Vec<u8>, _>(inner()));
    let error = build_pack_streaming(&path, &header(), &items(1), &items(1), failing, &quick())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);

    let panicking = (0..5).map(|n| {
        assert!(n < 3, "expected by the test");
        Ok::<_, io::Error>([0; 10])
    });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        build_pack_streaming(&path, &header(), &items(1), &items(5), panicking, &quick())
    }));
    assert!(result.is_err());
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn members_of_the_checksums_extension_are_the_packs_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut header = header();
    header.insert("extensions".to_owned(), json!(["x.mine"]));
    header.insert("num_records".to_owned(), json!("overwritten"));
    build_pack(&path, &header, &items(1), &items(1), &["x"], &quick()).unwrap();
    let pack = Pack::read(&path);
    assert_eq!(pack.header.extensions(), ["x.mine", "iac.checksums"]);

    // Members copied from another pack bring nothing of its sums along.
    let copied = pack.header.members().clone();
    let options = quick().overwrite(true);
    build_pack(&path, &copied, &items(1), &items(2), &["x", "y"], &options).unwrap();
    assert_eq!(Pack::read(&path).records(), ["x", "y"]);
    let options = options.checksums(false);
    build_pack(&path, &copied, &items(1), &items(2), &["x", "y"], &options).unwrap();
    assert_eq!(Pack::read(&path).header.checksums(), None);
    assert_eq!(Pack::read(&path).header.extensions(), ["x.mine"]);

    header.insert("checksums".to_owned(), json!("my own"));
    let before = fs::read(&path).unwrap();
    let options = quick().overwrite(true);
    let error = build_pack(&path, &header, &items(1), &items(1), &["x"], &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn data_segments_leave_the_index_alone_and_are_summed_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let index = Table::from(batch([
        ("crc32", Arc::new(StringArray::from(vec!["mine"])) as ArrayRef),
        ("x", Arc::new(UInt32Array::from(vec![1]))),
    ]));
    let data: Vec<u8> = (0..=250).cycle().take(3_000_001).collect();
    build_pack_data_segment(&path, &header(), &items(2), &index, &data, &quick()).unwrap();
    let pack = Pack::read(&path);
    assert!(pack.data() == data);
    assert_eq!(pack.index.decode().unwrap(), index.batches());
    let sums = pack.header.checksums().unwrap();
    assert_eq!(sums.data, Some(crc32fast::hash(&data)));
    assert!(!sums.rows);
}

#[test]
fn data_segments_refuse_columns_that_would_be_read_as_a_record_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    for name in ["offset", "length"] {
        let index = Table::from(batch([(name, Arc::new(UInt32Array::from(vec![0])) as ArrayRef)]));
        for options in [quick(), quick().checksums(false)] {
            let error =
                build_pack_data_segment(&path, &header(), &items(0), &index, b"x", &options)
                    .unwrap_err();
            assert_eq!((error.kind(), error.field()), (ErrorKind::Usage, Some(name)));
        }
    }
    assert!(names_in(folder.path()).is_empty());
}

fn fixed_header(dim: u64, dtype: &str, record_bytes: u64) -> Map<String, Value> {
    members(json!({
        "payload_type": "teacher_features",
        "codec": "none",
        "feature_dim": dim,
        "dtype": dtype,
        "feature_record_bytes": record_bytes,
    }))
}

#[test]
fn rows_of_fixed_packs_are_summed_in_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    for (dim, record_bytes, rows) in [(3, 12, 5), (300_000, 1_200_000, 3), (4, 16, 0), (0, 0, 3)] {
        let header = fixed_header(dim, "float32", record_bytes);
        let bytes = usize::try_from(record_bytes).unwrap() * rows;
        let data: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        let expected: Vec<u32> = (0..rows)
            .map(|row| {
                let size = usize::try_from(record_bytes).unwrap();
                crc32fast::hash(&data[row * size..][..size])
            })
            .collect();
        fs::write(&source, &data).unwrap();
        let options = quick().overwrite(true);
        let (a, b) = (folder.path().join("a.iac"), folder.path().join("b.iac"));
        let index = items(rows);
        build_pack_data_segment(&a, &header, &items(1), &index, &data, &options).unwrap();
        build_pack_data_segment_from_file(
            &b,
            &header,
            &items(1),
            &index,
            &source,
            data.len() as u64,
            &options,
        )
        .unwrap();
        assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap());
        let pack = Pack::read(&a);
        assert!(pack.data() == data);
        assert_eq!(pack.index_columns(), ["item_id", "crc32"]);
        assert_eq!(pack.row_sums().unwrap(), expected);
        let sums = pack.header.checksums().unwrap();
        assert!(sums.rows && sums.data.is_none());

        let options = options.checksums(false);
        build_pack_data_segment(&a, &header, &items(1), &index, &data, &options).unwrap();
        assert_eq!(Pack::read(&a).index_columns(), ["item_id"]);
    }
}

#[test]
fn a_callers_crc32_column_and_row_sums_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let index = Table::from(batch([("crc32", Arc::new(UInt32Array::from(vec![9])) as ArrayRef)]));
    let header = fixed_header(2, "uint8", 2);
    let error =
        build_pack_data_segment(&path, &header, &items(0), &index, b"xy", &quick()).unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Usage, Some("crc32")));
    assert!(error.to_string().contains("switch checksums off"), "{error}");
    let options = quick().checksums(false);
    build_pack_data_segment(&path, &header, &items(0), &index, b"xy", &options).unwrap();
    assert_eq!(Pack::read(&path).index.decode().unwrap(), index.batches());
}

#[test]
fn fixed_packs_that_could_not_be_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut without_dtype = fixed_header(3, "float32", 12);
    without_dtype.remove("dtype");
    for (header, bytes, field) in [
        (fixed_header(3, "float32", 12), 23, "data_length"),
        (fixed_header(3, "float32", 12), 36, "data_length"),
        (fixed_header(3, "float32", 12), 0, "data_length"),
        (fixed_header(3, "float32", 11), 22, "feature_record_bytes"),
        (fixed_header(u64::MAX, "float32", 12), 24, "feature_record_bytes"),
        (fixed_header(3, "object", 12), 24, "dtype"),
        (fixed_header(3, ">float32", 12), 24, "dtype"),
        (without_dtype, 24, "dtype"),
    ] {
        for options in [quick(), quick().checksums(false)] {
            let data = vec![0; bytes];
            let error =
                build_pack_data_segment(&path, &header, &items(0), &items(2), &data, &options)
                    .unwrap_err();
            assert_eq!((error.kind(), error.field()), (ErrorKind::Usage, Some(field)));
            assert_eq!(error.path(), Some(path.as_path()));
        }
    }
    assert!(names_in(folder.path()).is_empty());
}

fn from_file(
    path: &Path,
    source: &Path,
    length: u64,
    options: WriteOptions,
) -> Result<(), WriteError> {
    let header = header();
    let (slides, index) = (items(1), items(2));
    build_pack_data_segment_from_file(path, &header, &slides, &index, source, length, &options)
        .map(|summary| assert_eq!(summary.data_bytes, length))
}

#[test]
fn a_source_must_have_exactly_the_announced_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let source = folder.path().join("source");
    fs::write(&source, vec![7; 2_500_000]).unwrap();
    for options in [quick(), quick().checksums(false)] {
        for length in [0, 2_499_999, 2_500_001, u64::MAX] {
            let error = from_file(&path, &source, length, options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            let message = error.to_string();
            assert!(message.contains("has 2500000 bytes"), "{message}");
            assert!(message.contains(&length.to_string()), "{message}");
            assert_eq!(names_in(folder.path()), ["source"]);
        }
        from_file(&path, &source, 2_500_000, options).unwrap();
        assert!(Pack::read(&path).data() == vec![7; 2_500_000]);
        fs::remove_file(&path).unwrap();
    }
    let missing = from_file(&path, &folder.path().join("none"), 1, quick()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
    assert_eq!(missing.path(), Some(folder.path().join("none").as_path()));
    let a_folder = from_file(&path, folder.path(), 1, quick()).unwrap_err();
    assert_eq!(a_folder.kind(), ErrorKind::Io);
    assert_eq!(names_in(folder.path()), ["source"]);
}

#[cfg(target_os = "linux")]
#[test]
fn sources_that_are_no_regular_files_are_counted_while_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    for options in [quick(), quick().checksums(false)] {
        let endless = from_file(&path, Path::new("/dev/zero"), 3_000_000, options).unwrap_err();
        assert!(endless.to_string().contains("at least"), "{endless}");
        let empty = from_file(&path, Path::new("/dev/null"), 5, options).unwrap_err();
        assert!(empty.to_string().contains("has 0 bytes"), "{empty}");
        assert!(names_in(folder.path()).is_empty());
    }
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let bytes: Vec<u8> = (0..=250).cycle().take(200_000).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, &bytes).unwrap());
        from_file(&path, &pipe, 200_000, quick()).unwrap();
    });
    assert!(Pack::read(&path).data() == bytes);
}
