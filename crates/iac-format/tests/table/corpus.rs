//! Streams of the Arrow project: integration files of several versions and findings of fuzzers.

use std::path::PathBuf;

use arrow_array::Array;
use arrow_schema::DataType;
use iac_format::FormatError;
use serde_json::{Value, json};

use super::golden::metadata_json;
use super::{PANICKED, exercise, parse, pyarrow_name};

/// The corpus, if it is there.
fn entries() -> Option<Vec<(String, Value, Vec<u8>)>> {
    let Some(folder) = std::env::var_os("IAC_CORPUS") else {
        println!("not run: IAC_CORPUS is not set");
        return None;
    };
    let folder = PathBuf::from(folder).join("arrow");
    let expected = std::fs::read(folder.join("expected.json")).unwrap();
    let expected: serde_json::Map<String, Value> = serde_json::from_slice(&expected).unwrap();
    let entries: Vec<_> = expected
        .into_iter()
        .map(|(name, facts)| {
            let bytes = std::fs::read(folder.join(&name)).unwrap();
            (name, facts, bytes)
        })
        .collect();
    assert!(entries.len() >= 25);
    Some(entries)
}

#[test]
fn public_streams_are_read_or_refused_as_expected() {
    for (name, facts, bytes) in entries().into_iter().flatten() {
        if name.contains("bigendian") {
            let error = parse(bytes).unwrap_err();
            assert!(matches!(error, FormatError::UnsupportedTable { .. }), "{name}: {error}");
            continue;
        }
        if facts["status"] == "error" {
            let error = parse(bytes).and_then(|table| table.decode()).unwrap_err();
            println!("{name}: {error}");
            assert!(!error.to_string().contains(PANICKED), "{name}: {error}");
            continue;
        }
        let table = parse(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let batches = table.decode().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(json!(table.batch_rows()), facts["rows"], "{name}");
        let fields = facts["schema"].as_array().unwrap();
        assert_eq!(table.schema().fields().len(), fields.len(), "{name}");
        for (index, (field, expected)) in table.schema().fields().iter().zip(fields).enumerate() {
            let found = json!({
                "name": field.name(),
                "type": pyarrow_name(field.data_type()),
                "nullable": field.is_nullable(),
            });
            assert_eq!(found, *expected, "{name}");
            let nulls: usize = batches
                .iter()
                .map(|batch| match field.data_type() {
                    DataType::Null => batch.num_rows(),
                    _ => batch.column(index).null_count(),
                })
                .sum();
            assert_eq!(json!(nulls), facts["nulls"][index], "{name} column {index}");
        }
        if let Some(metadata) = facts.get("schema_metadata") {
            assert_eq!(metadata_json(table.schema().metadata().iter()), *metadata, "{name}");
        }
    }
}

#[test]
fn columns_with_one_name_are_read_until_addressed_by_it() {
    for (name, _, bytes) in entries().into_iter().flatten() {
        if !name.contains("duplicate_fieldnames") {
            continue;
        }
        let table = parse(bytes).unwrap();
        assert!(table.decode().is_ok());
        for result in [
            table.column_index("ints").map(|_| ()),
            table.fixed_column("ints", &[DataType::Int8]).map(|_| ()),
        ] {
            match result {
                Err(FormatError::Column { column, reason, .. }) => {
                    assert_eq!(column, "ints");
                    assert_eq!(reason, "2 columns have this name");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Damage at some 500 places of each stream, so that the whole corpus takes a second or two.
#[test]
fn damaged_public_streams_never_stop_the_process() {
    for (_, _, bytes) in entries().into_iter().flatten() {
        let step = (bytes.len() / 500).max(1);
        for at in (0..bytes.len()).step_by(step) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80 >> (at % 8);
            let _ = exercise(&damaged);
            let _ = exercise(&bytes[..at]);
        }
    }
}
