//! What the reference writes, we read: every builder, every shape of table.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use bytes::Bytes;
use iac_format::ErrorKind;
use iac_interop::arrow_json;
use iac_interop::json::{header_members, sha256, shuffled, sums};
use iac_interop::reference::{self, ReferencePack};
use iac_reader::{
    Memory, PackKind, PackReader, ReadOptions, SourceKind, Table, VerifyOptions, read_header,
};
use serde_json::{Value, json};

/// The same pack over every source.
fn open_everywhere(pack: &ReferencePack) -> Vec<(String, PackReader)> {
    let options = ReadOptions::default();
    let bytes = Bytes::from(std::fs::read(&pack.path).unwrap());
    let memory = PackReader::from_source(Arc::new(Memory::new(bytes)), &pack.name, &options);
    let positional = options.clone().source(SourceKind::Positional);
    vec![
        ("mapped", PackReader::open(&pack.path).unwrap()),
        ("positional", PackReader::open_with(&pack.path, &positional).unwrap()),
        ("memory", memory.unwrap()),
    ]
    .into_iter()
    .map(|(source, reader)| (format!("{} ({source})", pack.name), reader))
    .collect()
}

fn check_table(table: &Table, expected: &Value, batches: &Value, context: &str) {
    let found = arrow_json::table(table.schema(), table.batches().unwrap());
    assert_eq!(&found, expected, "{context}");
    assert_eq!(&json!(table.batch_rows()), batches, "{context}");
    assert_eq!(json!(table.num_rows()), expected["rows"], "{context}");
}

fn check_all(context: &str, reader: &PackReader, expected: &Value) {
    assert_eq!(header_members(reader.header().members()), expected["header"], "{context}");
    assert_eq!(json!(reader.header().text()), expected["header_text"], "{context}");
    assert_eq!(json!(reader.file_bytes()), expected["file_bytes"], "{context}");
    assert_eq!(reader.trailing_bytes(), 0, "{context}");
    check_table(
        reader.slide_table().unwrap(),
        &expected["slide_table"],
        &expected["slide_batches"],
        context,
    );
    check_table(
        reader.index_table().unwrap(),
        &expected["index_table"],
        &expected["index_batches"],
        context,
    );
    for span in expected["spans"].as_array().unwrap() {
        let (offset, length) = (span["offset"].as_u64().unwrap(), span["length"].as_u64().unwrap());
        let bytes = reader.read_data_span(offset, length).unwrap();
        assert_eq!(json!(sha256(&bytes)), span["sha256"], "{context}");
    }
    let report = reader.verify(&VerifyOptions::default());
    assert!(report.is_sound(), "{context}: {:?}", report.faults);
}

/// All ways of reading records give what was written.
fn check_records(context: &str, reader: &PackReader, expected: &[Value]) {
    let expected: Value = expected
        .iter()
        .map(|record| json!({ "bytes": record["bytes"], "sha256": record["sha256"] }))
        .collect();
    let count = reader.num_records().unwrap();
    let rows: Vec<u64> = (0..count).collect();
    let single = rows.iter().map(|row| reader.read(*row).unwrap());
    assert_eq!(sums(single), expected, "{context}: one by one");
    let all = reader.iter_payloads().unwrap().map(Result::unwrap);
    assert_eq!(sums(all), expected, "{context}: in sequence");

    let order = shuffled(count);
    let place = |row: &u64| expected[usize::try_from(*row).unwrap()].clone();
    let expected: Value = order.iter().map(place).collect();
    let batch = reader.read_rows(&order).unwrap();
    assert_eq!(sums(batch), expected, "{context}: a batch");
    let batch = reader.read_contiguous(&order).unwrap();
    assert_eq!(sums(batch.iter()), expected, "{context}: contiguous");
    match reader.views(&order) {
        Ok(views) => assert_eq!(sums(views), expected, "{context}: views"),
        Err(error) => assert!(context.contains("positional"), "{context}: {error}"),
    }
    let past = reader.read(count).unwrap_err();
    assert_eq!(past.kind(), ErrorKind::RowOutOfRange, "{context}");
}

#[test]
fn variable_packs_hold_what_the_reference_was_given() {
    let folder = tempfile::tempdir().unwrap();
    for pack in reference::write_packs(folder.path()) {
        if pack.expected["kind"] != "variable" {
            continue;
        }
        let records = pack.expected["records"].as_array().unwrap();
        for (context, reader) in open_everywhere(&pack) {
            check_all(&context, &reader, &pack.expected);
            assert_eq!(reader.kind().unwrap(), PackKind::Variable, "{context}");
            check_records(&context, &reader, records);
            let index = reader.record_index().unwrap().unwrap();
            for (row, record) in (0..).zip(records) {
                let span = index.span(row).unwrap();
                let found = json!([span.offset, span.length, span.crc32]);
                let told = json!([record["offset"], record["bytes"], record["crc32"]]);
                assert_eq!(found, told, "row {row} of {context}");
            }
        }
    }
}

#[test]
fn fixed_packs_hold_the_rows_of_the_matrix() {
    let folder = tempfile::tempdir().unwrap();
    for pack in reference::write_packs(folder.path()) {
        if pack.expected["kind"] != "fixed" {
            continue;
        }
        let rows = pack.expected["rows"].as_array().unwrap();
        for (context, reader) in open_everywhere(&pack) {
            check_all(&context, &reader, &pack.expected);
            assert_eq!(reader.kind().unwrap(), PackKind::Fixed, "{context}");
            let shape = reader.header().fixed_shape().unwrap().unwrap();
            assert_eq!(
                json!([shape.element.name(), shape.dim]),
                json!([pack.expected["dtype"], pack.expected["dim"]]),
                "{context}"
            );
            check_records(&context, &reader, rows);
        }
    }
}

#[test]
fn data_segments_are_readable_by_span_and_have_no_records() {
    let folder = tempfile::tempdir().unwrap();
    for pack in reference::write_packs(folder.path()) {
        if pack.expected["kind"] != "segment" {
            continue;
        }
        for (context, reader) in open_everywhere(&pack) {
            check_all(&context, &reader, &pack.expected);
            assert_eq!(reader.kind().unwrap(), PackKind::Segment, "{context}");
            let error = reader.read(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoRecordIndex, "{context}");
        }
    }
}

#[test]
fn headers_are_read_without_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    for pack in reference::write_packs(folder.path()) {
        let header = read_header(&pack.path).unwrap();
        let found = header_members(header.members());
        assert_eq!(found, pack.expected["header"], "{}", pack.name);
    }
}
