//! The push-style writer.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::fs;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use common::{Pack, batch, header, items, names_in};
use iac_format::ErrorKind;
use iac_writer::{PackWriter, Table, WriteOptions};
use serde_json::json;

fn quick() -> WriteOptions {
    WriteOptions::new().sync(false)
}

#[test]
fn rows_and_payloads_come_in_any_interleaving() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let rows = items(4).batches()[0].clone();
    let mut writer =
        PackWriter::create(&path, header(), &Table::empty(), rows.schema(), &quick()).unwrap();
    let first = writer.push("one").unwrap();
    assert_eq!((first.row, first.span.offset, first.span.length), (0, 0, 3));
    assert_eq!(first.span.crc32, Some(crc32fast::hash(b"one")));
    writer.push_rows(&rows.slice(0, 3)).unwrap();
    let second = writer.push(vec![5; 300_000]).unwrap();
    assert_eq!((second.row, second.span.offset), (1, 3));
    writer.push([]).unwrap();
    writer.push("four").unwrap();
    writer.push_rows(&rows.slice(3, 1)).unwrap();
    assert_eq!((writer.rows(), writer.data_bytes()), (4, 300_007));
    assert_eq!(writer.path(), path);
    writer.header_mut().insert("learned".to_owned(), json!(42));
    writer.set_slides(&items(2)).unwrap();
    let summary = writer.finish().unwrap();
    assert_eq!((summary.rows, summary.slides, summary.data_bytes), (4, 2, 300_007));

    let pack = Pack::read(&path);
    assert_eq!(pack.records()[3], "four");
    assert_eq!(pack.index.batch_rows(), [3, 1]);
    assert_eq!(pack.slides.num_rows(), 2);
    assert_eq!(pack.header.get("learned"), Some(&json!(42)));
    assert_eq!(names_in(folder.path()), ["a.iac"]);
}

#[test]
fn the_index_may_come_whole_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let schema = items(0).schema().clone();
    let create =
        |path| PackWriter::create(path, header(), &items(1), schema.clone(), &quick()).unwrap();
    let mut writer = create(&path);
    writer.push("one").unwrap();
    writer.push("two").unwrap();
    writer.finish_with_index(&items(2)).unwrap();
    assert_eq!(Pack::read(&path).records(), ["one", "two"]);

    let path = folder.path().join("b.iac");
    create(&path).finish().unwrap();
    assert!(Pack::read(&path).records().is_empty());

    let path = folder.path().join("c.iac");
    let mut writer = create(&path);
    writer.push("one").unwrap();
    let error = writer.finish_with_index(&items(2)).unwrap_err();
    assert!(error.to_string().contains("2 rows, but there are 1 payloads"), "{error}");
    let mut writer = create(&path);
    writer.push_rows(&items(1).batches()[0]).unwrap();
    let error = writer.finish_with_index(&items(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(!path.exists());
}

#[test]
fn refusals_leave_the_writer_usable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut writer =
        PackWriter::with_index(&path, header(), &items(1), &items(2), &quick()).unwrap();
    writer.push("one").unwrap();
    assert!(writer.set_slides(&items(2)).is_err());
    assert!(writer.push_rows(&items(1).batches()[0]).is_err());
    writer.header_mut().insert("learned".to_owned(), json!(true));
    writer.push("two").unwrap();
    let error = writer.push("three").unwrap_err();
    assert!(error.to_string().contains("2 rows"), "{error}");
    assert!(error.to_string().contains("at least 3 payloads"), "{error}");
    writer.finish().unwrap();
    let pack = Pack::read(&path);
    assert_eq!(pack.records(), ["one", "two"]);
    assert_eq!(pack.header.get("learned"), Some(&json!(true)));

    let path = folder.path().join("b.iac");
    let schema = items(0).schema().clone();
    let mut writer = PackWriter::create(&path, header(), &items(1), schema, &quick()).unwrap();
    let foreign = batch([("item_id", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    let error = writer.push_rows(&foreign).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    writer.push_rows(&items(1).batches()[0]).unwrap();
    writer.push("one").unwrap();
    writer.finish().unwrap();
    assert_eq!(Pack::read(&path).records(), ["one"]);
}

#[test]
fn too_few_payloads_are_noticed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut writer =
        PackWriter::with_index(&path, header(), &items(1), &items(3), &quick()).unwrap();
    writer.push("one").unwrap();
    let error = writer.finish().unwrap_err();
    assert!(error.to_string().contains("3 rows, but there are 1 payloads"), "{error}");
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_header_that_grew_too_long_is_noticed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut writer =
        PackWriter::with_index(&path, header(), &items(1), &items(0), &quick()).unwrap();
    let long = "x".repeat(65_536);
    writer.header_mut().insert("long".to_owned(), json!(long));
    let too_long = writer.header_mut().clone();
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let schema = items(0).schema().clone();
    PackWriter::create(&path, too_long, &items(1), schema, &quick()).unwrap_err();
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let mut writer =
        PackWriter::with_index(&path, header(), &items(1), &items(3), &quick()).unwrap();
    writer.push(vec![0; 1_000_000]).unwrap();
    let names = names_in(folder.path());
    assert_eq!(names.len(), 1);
    assert!(names[0].starts_with(".a.iac.") && names[0].ends_with(".part"), "{names:?}");
    drop(writer);
    assert!(names_in(folder.path()).is_empty());

    let schema = items(0).schema().clone();
    let mut writer = PackWriter::create(&path, header(), &items(1), schema, &quick()).unwrap();
    writer.push(vec![0; 1_000_000]).unwrap();
    if cfg!(unix) {
        assert!(names_in(folder.path()).is_empty(), "the collected payloads have no name");
    }
    drop(writer);
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn two_writers_of_one_name_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let options = quick().overwrite(true);
    let begin = || PackWriter::with_index(&path, header(), &items(1), &items(1), &options).unwrap();
    let mut first = begin();
    let mut second = begin();
    first.push("first").unwrap();
    second.push("second").unwrap();
    second.finish().unwrap();
    assert_eq!(Pack::read(&path).records(), ["second"]);
    first.finish().unwrap();
    assert_eq!(Pack::read(&path).records(), ["first"]);
    assert_eq!(names_in(folder.path()), ["a.iac"]);
    fs::remove_file(&path).unwrap();
}

#[test]
fn writers_may_move_between_threads() {
    fn movable<T: Send + Sync + 'static>() {}
    movable::<PackWriter>();
    movable::<iac_writer::WriteError>();
}
