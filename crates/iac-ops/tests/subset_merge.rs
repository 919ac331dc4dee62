//! Rows of packs carried into new ones.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt16Type};
use arrow_array::{
    ArrayRef, NullArray, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array,
};
use iac_format::ErrorKind;
use iac_ops::check::{CheckOptions, check};
use iac_ops::merge::{MergeOptions, merge};
use iac_ops::stats::stats;
use iac_ops::subset::{SubsetOptions, subset};
use iac_ops::{Cancel, NoProgress};
use iac_reader::{FixedRecordPack, PackReader};
use iac_writer::{FixedPackBuilder, Table, WriteOptions, build_pack};
use serde_json::{Map, Value, json};

fn slides(names: &[&str]) -> Table {
    let count = u8::try_from(names.len()).unwrap();
    let numbers: ArrayRef = Arc::new(UInt8Array::from_iter_values(0..count));
    let ids: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
    let owners: ArrayRef = Arc::new(StringArray::from(vec!["p"; names.len()]));
    let columns = [("slide_idx", numbers), ("slide_id", ids), ("patient_id", owners)];
    Table::from(RecordBatch::try_from_iter(columns).unwrap())
}

fn members(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// A variable pack with one record for each id, spread over the slides.
fn variable(
    folder: &Path,
    name: &str,
    ids: &[&str],
    of: &[&str],
    wide: bool,
    split: bool,
) -> PackReader {
    let path = folder.join(name);
    let count = of.len();
    let numbers = ids.iter().enumerate().map(|(row, _)| u8::try_from(row % count).unwrap());
    let places = ids.iter().enumerate().map(|(row, _)| u16::try_from(row).unwrap());
    let x: ArrayRef = if wide {
        Arc::new(UInt32Array::from_iter_values(places.map(u32::from)))
    } else {
        Arc::new(UInt16Array::from_iter_values(places))
    };
    let splits: ArrayRef = if split {
        Arc::new(StringArray::from(vec!["train"; ids.len()]))
    } else {
        Arc::new(NullArray::new(ids.len()))
    };
    let index = RecordBatch::try_from_iter([
        ("slide_idx", Arc::new(UInt8Array::from_iter_values(numbers)) as ArrayRef),
        ("tile_x", x),
        ("tile_id", Arc::new(StringArray::from(ids.to_vec())) as ArrayRef),
        ("split", splits),
    ])
    .unwrap();
    let header = members(
        json!({"payload_type": "notes", "slide_idx_dtype": "uint8", "tile_xy_dtype": "uint16"}),
    );
    let options = WriteOptions::new().sync(false);
    build_pack(&path, &header, &slides(of), &Table::from(index), ids, &options).unwrap();
    PackReader::open(path).unwrap()
}

fn sound(path: &PathBuf) {
    let checked =
        check(std::slice::from_ref(path), &CheckOptions::default(), &NoProgress, &mut |pack| {
            assert!(pack.is_sound(), "{:?}", pack.faults);
            Ok(())
        });
    assert_eq!(checked.unwrap().packs, 1);
}

fn quick() -> WriteOptions {
    WriteOptions::new().sync(false)
}

#[test]
fn a_subset_keeps_order_bytes_and_the_slides_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let pack = variable(folder.path(), "a.iac", &["a", "b", "c", "d"], &["s0", "s1"], false, true);
    let out = folder.path().join("out.iac");
    let mut options = SubsetOptions::default();
    options.write = quick();
    let rows = [3, 1].into_iter().collect();
    let summary = subset(&pack, &rows, &out, &options, &NoProgress).unwrap();
    assert_eq!((summary.of_rows, summary.rows, summary.slides), (4, 2, 1));
    sound(&out);
    let found = PackReader::open(&out).unwrap();
    assert_eq!((found.read(0).unwrap(), found.read(1).unwrap()), ("d".into(), "b".into()));
    let slides = found.slide_table().unwrap().batches().unwrap();
    assert_eq!(slides[0].column(0).as_primitive::<UInt8Type>().values(), &[1]);
    assert_eq!(found.header().get("payload_type").unwrap(), "notes");
    let error = subset(&pack, &rows, &out, &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let out = folder.path().join("all.iac");
    options.keep_slides = true;
    assert_eq!(subset(&pack, &rows, &out, &options, &NoProgress).unwrap().slides, 2);
    let bad = [4].into_iter().collect();
    let error = subset(&pack, &bad, &folder.path().join("x"), &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
    let cancel = Cancel::new();
    cancel.cancel();
    let path = folder.path().join("y");
    assert!(subset(&pack, &rows, &path, &options, &cancel).unwrap_err().is_cancelled());
    assert!(!path.exists());
}

#[test]
fn fixed_rows_are_carried_with_their_sums() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, ids: [&str; 2], values: [f32; 4]| {
        let path = folder.path().join(name);
        let ids: ArrayRef = Arc::new(StringArray::from(ids.to_vec()));
        let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)]).unwrap());
        FixedPackBuilder::new("f", index).options(quick()).build(&path, 2, &values).unwrap();
        PackReader::open(path).unwrap()
    };
    let first = build("a.iac", ["a", "b"], [0.0, 1.0, 2.0, 3.0]);
    let second = build("b.iac", ["c", "d"], [4.0, 5.0, 6.0, 7.0]);
    let out = folder.path().join("both.iac");
    let mut options = MergeOptions::default();
    options.write = quick();
    let summary = merge(&[first.clone(), second.clone()], &out, &options, &NoProgress).unwrap();
    assert_eq!((summary.rows, summary.packs), (4, 2));
    sound(&out);
    let both = FixedRecordPack::open(&out).unwrap();
    assert_eq!(both.read_many_f32(&[3, 0]).unwrap(), [6.0, 7.0, 0.0, 1.0]);
    let some = folder.path().join("some.iac");
    let rows = [2, 1].into_iter().collect();
    let pack = PackReader::open(&out).unwrap();
    let mut cut = SubsetOptions::default();
    cut.write = quick();
    subset(&pack, &rows, &some, &cut, &NoProgress).unwrap();
    sound(&some);
    let some = FixedRecordPack::open(&some).unwrap();
    assert_eq!(some.read_many_f32(&[0, 1]).unwrap(), [4.0, 5.0, 2.0, 3.0]);
    let error = merge(&[first.clone(), first], &folder.path().join("x"), &options, &NoProgress);
    assert!(error.unwrap_err().to_string().contains("stands in several rows"));
}

#[test]
fn merged_packs_share_slides_and_the_wider_types() {
    let folder = tempfile::tempdir().unwrap();
    let first = variable(folder.path(), "a.iac", &["a", "b"], &["s0", "s1"], false, false);
    let second = variable(folder.path(), "b.iac", &["c", "d"], &["s1", "s2"], true, true);
    let out = folder.path().join("out.iac");
    let mut options = MergeOptions::default();
    options.write = quick();
    let summary = merge(&[first.clone(), second], &out, &options, &NoProgress).unwrap();
    assert_eq!((summary.rows, summary.slides), (4, 3));
    sound(&out);
    let both = PackReader::open(&out).unwrap();
    assert_eq!(both.header().get("tile_xy_dtype").unwrap(), "uint32");
    let numbers: Vec<u8> = both
        .index_table()
        .unwrap()
        .columns(&["slide_idx"])
        .unwrap()
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<UInt8Type>().values().to_vec())
        .collect();
    assert_eq!(numbers, [0, 1, 1, 2]);
    let found = stats(&both, 1).unwrap();
    let split = found.groups.iter().find(|group| group.column == "split").unwrap();
    assert_eq!((split.values, split.counts.len()), (2, 1));
    let slide = found.groups.iter().find(|group| group.column == "slide.slide_id").unwrap();
    assert_eq!(
        (slide.values, slide.counts[0].value.as_deref(), slide.counts[0].rows),
        (3, Some("s1"), 2)
    );
    // Many slides need wider numbers.
    let names: Vec<String> = (0..200).map(|row| format!("m{row}")).collect();
    let ids: Vec<String> = (0..200).map(|row| format!("i{row}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let many = variable(folder.path(), "c.iac", &ids, &names, false, true);
    let more: Vec<String> = (0..200).map(|row| format!("n{row}")).collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let more = variable(folder.path(), "d.iac", &more, &more, false, true);
    let wide = folder.path().join("wide.iac");
    assert_eq!(merge(&[many, more], &wide, &options, &NoProgress).unwrap().slides, 400);
    sound(&wide);
    let wide = PackReader::open(&wide).unwrap();
    let slides = wide.slide_table().unwrap().batches().unwrap();
    assert_eq!(slides[0].column(0).as_primitive::<UInt16Type>().value(399), 399);
    assert_eq!(wide.header().get("slide_idx_dtype").unwrap(), "uint16");
}

#[test]
fn packs_that_are_not_alike_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let first = variable(folder.path(), "a.iac", &["a"], &["s0"], false, true);
    let path = folder.path().join("b.iac");
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let index = Table::from(RecordBatch::try_from_iter([("tile_id", ids)]).unwrap());
    let header = members(json!({"payload_type": "other"}));
    build_pack(&path, &header, &slides(&["s0"]), &index, &["x"], &quick()).unwrap();
    let other = PackReader::open(&path).unwrap();
    let out = folder.path().join("out.iac");
    let options = MergeOptions::default();
    let error = merge(&[first, other], &out, &options, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("`payload_type` is \"other\""), "{error}");
    assert!(merge(&[], &out, &options, &NoProgress).is_err());
    assert!(!out.exists());
}
