//! Every golden container file, read through every source, against the reference's own values.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

mod common;

use common::{all_sources, data_dir, golden_names, json, sha256};
use iac_reader::{ContiguousRecordBatch, PackKind, PackReader, VerifyOptions};
use serde_json::Value;

#[test]
fn every_golden_file_reads_as_the_reference_says() {
    for name in golden_names("container") {
        let path = data_dir("container").join(format!("{name}.iac"));
        let expected = json(&path.with_extension("json"));
        for (source, pack) in all_sources(&path) {
            let context = format!("{name} ({source})");
            let pack = pack.unwrap_or_else(|error| panic!("{context}: {error}"));
            check_header(&pack, &expected, &context);
            check_tables(&pack, &expected, &context);
            check_records(&pack, &expected, &context);
            check_fixed_rows(&pack, &expected, &context);
            check_data(&pack, &expected, &context);
            let report = pack.verify(&VerifyOptions::default());
            assert!(report.is_sound(), "{context}: {:?}", report.faults);
        }
    }
}

fn check_header(pack: &PackReader, expected: &Value, context: &str) {
    assert_eq!(Value::Object(pack.header().members().clone()), expected["header"], "{context}");
    let text = pack.header().text();
    assert_eq!(text.len() as u64, expected["header_json_length"].as_u64().unwrap(), "{context}");
    assert_eq!(sha256(text.as_bytes()), expected["header_json_sha256"], "{context}");
    assert_eq!(pack.file_bytes(), expected["file_size"].as_u64().unwrap(), "{context}");
    assert_eq!(pack.trailing_bytes(), expected["trailing_bytes"].as_u64().unwrap(), "{context}");
    let kind = match expected["kind"].as_str().unwrap() {
        "variable" => PackKind::Variable,
        "fixed" => PackKind::Fixed,
        _ => PackKind::Segment,
    };
    assert_eq!(pack.kind().unwrap(), kind, "{context}");
}

fn check_tables(pack: &PackReader, expected: &Value, context: &str) {
    for (table, expected) in [
        (pack.slide_table().unwrap(), &expected["slide_table"]),
        (pack.index_table().unwrap(), &expected["index_table"]),
    ] {
        assert_eq!(table.num_rows(), expected["num_rows"].as_u64().unwrap(), "{context}");
        let rows: Vec<Value> = table.batch_rows().iter().map(|rows| Value::from(*rows)).collect();
        assert_eq!(&Value::Array(rows), &expected["record_batch_rows"], "{context}");
        let names: Vec<&str> =
            table.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let expected_names: Vec<&str> = expected["schema"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| field["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected_names, "{context}");
        let decoded: usize = table.batches().unwrap().iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(decoded as u64, table.num_rows(), "{context}");
        // One column alone, and two in another order than the schema's.
        if let [first, .., last] = names.as_slice() {
            let columns = table.columns(&[last, first]).unwrap();
            for (part, whole) in columns.iter().zip(table.batches().unwrap()) {
                assert_eq!(part.schema().field(0).name(), last, "{context}");
                assert_eq!(part.column(0), whole.column(names.len() - 1), "{context}");
                assert_eq!(part.column(1), whole.column(0), "{context}");
            }
        }
    }
}

fn check_records(pack: &PackReader, expected: &Value, context: &str) {
    let Some(records) = expected.get("records").and_then(Value::as_array) else {
        return;
    };
    assert_eq!(pack.num_records().unwrap(), records.len() as u64, "{context}");
    let has_memory = !common::only_copies(context);
    for (row, record) in records.iter().enumerate() {
        let row = row as u64;
        let span = pack.span(row).unwrap();
        assert_eq!(span.offset, record["offset"].as_u64().unwrap(), "{context} row {row}");
        assert_eq!(span.length, record["length"].as_u64().unwrap(), "{context} row {row}");
        assert_eq!(
            span.crc32.map(u64::from),
            record.get("crc32").and_then(Value::as_u64),
            "{context} row {row}"
        );
        let owned = pack.read(row).unwrap();
        assert_eq!(sha256(&owned), record["sha256"], "{context} row {row}");
        if has_memory {
            assert_eq!(pack.view(row).unwrap(), owned, "{context} row {row}");
        }
        assert_eq!(pack.read_data_span(span.offset, span.length).unwrap(), owned, "{context}");
    }
    // Backwards, every row twice: order and duplicates are kept.
    let rows: Vec<u64> = (0..records.len() as u64).rev().flat_map(|row| [row, row]).collect();
    let batch = pack.read_rows(&rows).unwrap();
    let contiguous = pack.read_contiguous(&rows).unwrap();
    assert_eq!(batch.len(), rows.len(), "{context}");
    assert_eq!(contiguous.len(), rows.len(), "{context}");
    for (at, row) in rows.iter().enumerate() {
        let hash = &records[*row as usize]["sha256"];
        assert_eq!(sha256(&batch[at]), *hash, "{context} row {row}");
        assert_eq!(sha256(contiguous.get(at).unwrap()), *hash, "{context} row {row}");
    }
    if has_memory {
        assert_eq!(pack.views(&rows).unwrap(), batch, "{context}");
    } else if !rows.is_empty() {
        assert!(pack.views(&rows).is_err(), "{context}");
    }
    let all: Vec<String> =
        pack.iter_payloads().unwrap().map(|record| sha256(&record.unwrap())).collect();
    assert_eq!(all.len(), records.len(), "{context}");
    for (found, record) in all.iter().zip(records) {
        assert_eq!(*found, record["sha256"], "{context}");
    }
}

fn check_fixed_rows(pack: &PackReader, expected: &Value, context: &str) {
    let Some(fixed) = expected.get("fixed").and_then(Value::as_object) else {
        return;
    };
    let shape = pack.header().fixed_shape().unwrap().unwrap();
    assert_eq!(shape.dim, fixed["feature_dim"].as_u64().unwrap(), "{context}");
    assert_eq!(shape.element.name(), fixed["dtype"], "{context}");
    let rows = fixed["rows"].as_array().unwrap();
    for (row, expected) in rows.iter().enumerate() {
        let record = pack.read(row as u64).unwrap();
        assert_eq!(record.len() as u64, shape.record_bytes, "{context}");
        assert_eq!(sha256(&record), expected["sha256"], "{context} row {row}");
    }
    assert!(pack.read(rows.len() as u64).is_err(), "{context}");
    let all: Vec<u64> = (0..rows.len() as u64).collect();
    let mut batch = ContiguousRecordBatch::new();
    pack.read_contiguous_into(&all, &mut batch).unwrap();
    if let Some(hash) = fixed.get("read_matrix_sha256").and_then(Value::as_str) {
        assert_eq!(sha256(batch.buffer()), hash, "{context}");
    }
}

fn check_data(pack: &PackReader, expected: &Value, context: &str) {
    let length = pack.layout().data.length;
    let data = pack.read_data_span(0, length).unwrap();
    assert_eq!(sha256(&data), expected["data_sha256"], "{context}");
    assert!(pack.read_data_span(0, length + 1).is_err(), "{context}");
    assert!(pack.read_data_span(length + 1, 0).is_err(), "{context}");
    assert!(pack.read_data_span(u64::MAX, 2).is_err(), "{context}");
    assert!(pack.read_data_span(length, 0).unwrap().is_empty(), "{context}");
    assert!(pack.read_data_spans(&[]).unwrap().is_empty(), "{context}");
    if length > 2 {
        let joined = pack.read_data_spans(&[(2, length - 2), (0, 1), (1, 0), (0, 1)]).unwrap();
        assert_eq!(joined[..(length - 2) as usize], data[2..], "{context}");
        assert_eq!(joined[(length - 2) as usize..], [data[0], data[0]], "{context}");
    }
}
