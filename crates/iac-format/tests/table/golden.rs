//! Tables that pyarrow wrote, as the reference packages store them.

use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use iac_format::table::{TableStream, encode_table, encoded_table_len};
use iac_format::{FormatError, TableKind};
use serde_json::{Map, Value, json};

use super::{parse, pyarrow_name};

const NAMES: &[&str] = &[
    "build_pack_a",
    "caller_columns_a",
    "chunked_a",
    "column_types_a",
    "empty_a",
    "many_slides_a",
    "no_columns_a",
    "tol_ipc_compressed_a",
    "tol_ipc_legacy_a",
    "tol_ipc_no_eos_a",
];

struct Golden {
    facts: Value,
    bytes: Vec<u8>,
}

impl Golden {
    fn read(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/container");
        let facts = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
        Self {
            facts: serde_json::from_slice(&facts).unwrap(),
            bytes: std::fs::read(folder.join(format!("{name}.iac"))).unwrap(),
        }
    }

    fn segment(&self, table: &str) -> Vec<u8> {
        let number = |what: &str| {
            let value = &self.facts["header"][format!("{table}_{what}")];
            value.as_u64().unwrap() as usize
        };
        let start = number("offset");
        self.bytes[start..start + number("length")].to_vec()
    }
}

fn tables() -> impl Iterator<Item = (String, Value, Vec<u8>)> {
    NAMES.iter().flat_map(|name| {
        let golden = Golden::read(name);
        ["slide_table", "index_table"].map(|table| {
            let place = format!("{name} {table}");
            (place, golden.facts[table].clone(), golden.segment(table))
        })
    })
}

#[test]
fn schema_rows_and_values_are_those_of_the_reference() {
    for (place, facts, bytes) in tables() {
        let table = parse(bytes.clone()).unwrap();
        assert_eq!(json!(table.num_rows()), facts["num_rows"], "{place}");
        assert_eq!(json!(table.batch_rows()), facts["record_batch_rows"], "{place}");
        // The slide table of one file has bytes behind its end marker.
        let stray = if place == "tol_ipc_no_eos_a slide_table" { 24 } else { 0 };
        let length = bytes.len() as u64 - stray;
        assert_eq!(table.stream_bytes(), length, "{place}");
        assert_eq!(schema_json(table.schema()), facts["schema"], "{place}");
        let metadata = metadata_json(table.schema().metadata().iter());
        assert_eq!(metadata, facts["schema_metadata"], "{place}");
        let batches = table.decode().unwrap();
        for (index, column) in facts["columns"].as_array().unwrap().iter().enumerate() {
            let name = column["name"].as_str().unwrap();
            assert_eq!(table.column_index(name).unwrap(), Some(index), "{place}");
            let found = values(&batches, index);
            assert_eq!(found, *column["values"].as_array().unwrap(), "{place} {name}");
            let alone = table.decode_columns(&[index]).unwrap();
            assert_eq!(found, values(&alone, 0), "{place} {name}");
        }
    }
}

#[test]
fn storage_columns_are_the_raw_values() {
    for (place, facts, bytes) in tables() {
        let table = parse(bytes).unwrap();
        for column in facts["columns"].as_array().unwrap() {
            let name = column["name"].as_str().unwrap();
            if !["offset", "length"].contains(&name) {
                continue;
            }
            let types = [DataType::UInt64, DataType::UInt32];
            let fixed = table.fixed_column(name, &types).unwrap().unwrap();
            let found: Vec<Value> = fixed
                .chunks
                .iter()
                .flat_map(|chunk| chunk.chunks(fixed.width))
                .map(|value| {
                    let mut whole = [0; 8];
                    whole[..value.len()].copy_from_slice(value);
                    json!(u64::from_le_bytes(whole))
                })
                .collect();
            assert_eq!(found, *column["values"].as_array().unwrap(), "{place} {name}");
            assert_eq!(fixed.chunks.len(), table.batch_rows().len(), "{place}");
        }
    }
}

#[test]
fn re_encoded_tables_are_as_long_as_those_of_pyarrow_behind_the_schema() {
    let schema_bytes = |stream: &[u8]| {
        let length = u32::from_le_bytes(stream[4..8].try_into().unwrap());
        length as usize + 8
    };
    for (place, _, bytes) in tables() {
        let table = parse(bytes.clone()).unwrap();
        let batches = table.decode().unwrap();
        let again = encode_table(table.schema(), &batches).unwrap();
        let length = encoded_table_len(table.schema(), &batches).unwrap();
        assert_eq!(length, again.len() as u64, "{place}");
        let second = parse(again.clone()).unwrap();
        assert_eq!(second.schema(), table.schema(), "{place}");
        assert_eq!(second.batch_rows(), table.batch_rows(), "{place}");
        assert_eq!(second.decode().unwrap(), batches, "{place}");
        if place.starts_with("tol_ipc") {
            continue;
        }
        // The two writers arrange the fields of a schema in different ways.
        let (ours, theirs) = (schema_bytes(&again), schema_bytes(&bytes));
        assert!(ours.abs_diff(theirs) <= 24, "{place}");
        let (ours, theirs) = (again.len() - ours, bytes.len() - theirs);
        if place.starts_with("chunked_a") {
            // pyarrow writes validity that a slice does not need.
            assert!(ours <= theirs, "{place}");
        } else {
            assert_eq!(ours, theirs, "{place}");
        }
    }
}

#[test]
fn a_table_without_columns_takes_64_bytes() {
    let golden = Golden::read("no_columns_a").segment("slide_table");
    let ours = encode_table(&Schema::empty(), &[]).unwrap();
    assert_eq!((ours.len(), golden.len()), (64, 64));
    assert_eq!(ours[56..], golden[56..]);
}

#[test]
fn every_golden_table_is_read_at_every_alignment() {
    for (place, _, bytes) in tables() {
        let expected = parse(bytes.clone()).unwrap().decode().unwrap();
        for shift in 1..8 {
            let mut moved = vec![0; shift];
            moved.extend_from_slice(&bytes);
            let moved = bytes::Bytes::from(moved).slice(shift..);
            let table = TableStream::parse(moved, TableKind::Slide).unwrap();
            assert_eq!(table.decode().unwrap(), expected, "{place} {shift}");
        }
    }
}

#[test]
fn wrong_types_and_nulls_name_what_was_found() {
    let table = parse(Golden::read("column_types_a").segment("index_table")).unwrap();
    let error = |name: &str, data_type: DataType| match table
        .fixed_column(name, &[data_type, DataType::UInt64])
    {
        Err(FormatError::Column { column, reason, .. }) => {
            assert_eq!(column, name);
            reason
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(error("i32", DataType::UInt32), "has type Int32, expected UInt32 or UInt64");
    assert_eq!(error("i16", DataType::Int16), "has 1 nulls in 6 rows, expected none");
    assert!(error("dict", DataType::Int8).starts_with("has type Dictionary"));
    assert!(table.fixed_column("none", &[DataType::Int8]).unwrap().is_none());
}

/// Metadata as the JSON files state it: nothing instead of an empty object.
pub(crate) fn metadata_json<'m>(pairs: impl Iterator<Item = (&'m String, &'m String)>) -> Value {
    let pairs: Map<String, Value> = pairs.map(|(k, v)| (k.clone(), json!(v))).collect();
    if pairs.is_empty() {
        return Value::Null;
    }
    Value::Object(pairs)
}

fn schema_json(schema: &Schema) -> Value {
    let fields = schema.fields().iter().map(|field| {
        let metadata = metadata_json(field.metadata().iter());
        json!({
            "name": field.name(),
            "type": pyarrow_name(field.data_type()),
            "nullable": field.is_nullable(),
            "metadata": metadata,
        })
    });
    fields.collect()
}

fn values(batches: &[RecordBatch], column: usize) -> Vec<Value> {
    let mut values = Vec::new();
    for batch in batches {
        let array = batch.column(column).as_ref();
        values.extend((0..array.len()).map(|row| value(array, row)));
    }
    values
}

fn float(value: f64) -> Value {
    if value.is_nan() {
        json!({"float": "nan"})
    } else if value.is_infinite() {
        json!({"float": if value > 0.0 { "inf" } else { "-inf" }})
    } else {
        json!(value)
    }
}

fn hex(bytes: &[u8]) -> Value {
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "hex": text })
}

/// Year, month and day of a day counted from 1970, by counting.
fn date(mut days: i64) -> String {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(leap(year)) {
        days -= 365 + i64::from(leap(year));
        year += 1;
    }
    let february = 28 + i64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

fn timestamp(micros: i64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    let fraction = match micros {
        0 => String::new(),
        micros => format!(".{micros:06}"),
    };
    format!("{} {time}{fraction}+00:00", date(days))
}

fn value(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int8 => json!(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => json!(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => json!(array.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt16 => json!(array.as_primitive::<UInt16Type>().value(row)),
        DataType::UInt32 => json!(array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => json!(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float16 => float(array.as_primitive::<Float16Type>().value(row).into()),
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => json!(array.as_string::<i64>().value(row)),
        DataType::Binary => hex(array.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => hex(array.as_fixed_size_binary().value(row)),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row);
            json!({ "text": date(days.into()) })
        }
        DataType::Timestamp(..) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            json!({ "text": timestamp(micros) })
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|row| value(&items, row)).collect()
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let members = fields.iter().zip(columns);
            let members: Map<String, Value> =
                members.map(|(field, column)| (field.name().clone(), value(column, row))).collect();
            Value::Object(members)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            value(dictionary.values(), key)
        }
        other => panic!("no value of type {other}"),
    }
}
