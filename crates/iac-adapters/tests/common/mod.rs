//! The golden files and what they say, for all tests of this crate.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use iac_adapters::TileRecord;
use iac_reader::{PackReader, Table};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Header members that the container writes.
const LAYOUT: [&str; 13] = [
    "format",
    "version",
    "header_bytes",
    "slide_table_offset",
    "slide_table_length",
    "index_table_offset",
    "index_table_length",
    "data_offset",
    "data_length",
    "num_slides",
    "num_records",
    "checksums",
    "extensions",
];

pub(crate) fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

pub(crate) fn json_file(path: &str) -> Value {
    serde_json::from_slice(&fs::read(data(path)).unwrap()).unwrap()
}

/// Folders with an `expected.json`, by name.
pub(crate) fn cases(kind: &str) -> Vec<(String, Value)> {
    let mut names: Vec<String> = fs::read_dir(data(kind))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| data(kind).join(name).join("expected.json").exists())
        .collect();
    names.sort();
    assert!(names.len() >= 10);
    names
        .into_iter()
        .map(|name| {
            let expected = json_file(&format!("{kind}/{name}/expected.json"));
            (name, expected)
        })
        .collect()
}

/// Restores a pack whose header padding was left out to save space.
pub(crate) fn trimmed(path: &str, folder: &Path) -> PathBuf {
    let bytes = fs::read(data(&format!("{path}.trim"))).unwrap();
    let text = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let mut whole = bytes[..16 + text].to_vec();
    whole.resize(65_536, 0);
    whole.extend_from_slice(&bytes[16 + text..]);
    let target = folder.join(Path::new(path).file_name().unwrap());
    fs::write(&target, whole).unwrap();
    target
}

/// Writes pixels as a PNG file.
#[cfg(feature = "tiles")]
pub(crate) fn write_png(
    path: &Path,
    color: png::ColorType,
    depth: png::BitDepth,
    size: [u32; 2],
    bytes: &[u8],
) {
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), size[0], size[1]);
    encoder.set_color(color);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(bytes).unwrap();
}

/// Whether bytes differ by so much at most.
pub(crate) fn close(found: &[u8], told: &[u8], most: u8) -> bool {
    found.len() == told.len() && found.iter().zip(told).all(|(a, b)| a.abs_diff(*b) <= most)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A record as the descriptions have it.
pub(crate) fn record_json(record: &TileRecord) -> Value {
    json!({
        "tile_id": record.tile_id,
        "patient_id": record.patient_id,
        "slide_id": record.slide_id,
        "tile_path": record.tile_path.to_str().unwrap(),
        "x": record.x,
        "y": record.y,
        "split": record.split,
    })
}

/// Header members that are not the container's.
pub(crate) fn own_members(header: &Map<String, Value>) -> Map<String, Value> {
    header
        .iter()
        .filter(|(name, _)| !LAYOUT.contains(&name.as_str()))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect()
}

/// The schema of a table as the descriptions have it.
pub(crate) fn schema_json(table: &Table) -> Vec<Value> {
    table
        .schema()
        .fields()
        .iter()
        .map(|field| {
            let name = match field.data_type() {
                DataType::Utf8 => "string".to_owned(),
                DataType::LargeUtf8 => "large_string".to_owned(),
                other => other.to_string().to_lowercase(),
            };
            json!({"name": field.name(), "type": name, "nullable": field.is_nullable()})
        })
        .collect()
}

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Null => Value::Null,
        other => panic!("{other}"),
    }
}

/// The rows of a table as the descriptions have them, without some columns.
pub(crate) fn rows_json(table: &Table, without: &[&str]) -> Vec<Value> {
    let mut rows = Vec::new();
    for batch in table.batches().unwrap() {
        for row in 0..batch.num_rows() {
            let schema = batch.schema();
            let members: Map<String, Value> = schema
                .fields()
                .iter()
                .zip(batch.columns())
                .filter(|(field, _)| !without.contains(&field.name().as_str()))
                .map(|(field, array)| (field.name().clone(), value(array, row)))
                .collect();
            rows.push(Value::Object(members));
        }
    }
    rows
}

/// Rows of a description without some columns.
pub(crate) fn rows_without(rows: &Value, without: &[&str]) -> Vec<Value> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| {
        let members = row.as_object().unwrap().iter();
        let members = members.filter(|(name, _)| !without.contains(&name.as_str()));
        Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
    })
    .collect()
}

/// Whether a pack of ours has the header and tables of a description, lengths and sums aside.
pub(crate) fn assert_like(context: &str, pack: &PackReader, expected: &Value, without: &[&str]) {
    assert_eq!(
        Value::Object(own_members(pack.header().members())),
        Value::Object(own_members(expected["header"].as_object().unwrap())),
        "{context}: header"
    );
    for (table, kind) in
        [(pack.slide_table().unwrap(), "slide"), (pack.index_table().unwrap(), "index")]
    {
        let schema: Vec<Value> = schema_json(table)
            .into_iter()
            .filter(|field| {
                kind == "slide"
                    || expected["index_schema"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .any(|other| other["name"] == field["name"])
            })
            .collect();
        assert_eq!(Value::from(schema), expected[format!("{kind}_schema")], "{context}: {kind}");
        assert_eq!(
            rows_json(table, without),
            rows_without(&expected[format!("{kind}_rows")], without),
            "{context}: {kind}"
        );
    }
}
