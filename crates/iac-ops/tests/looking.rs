//! Digest, decode, info and views of the golden files against their expected values.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;

use std::num::NonZeroUsize;

use common::{expected, golden};
use iac_ops::decode::{DecodeOptions, DecodedKind, decode};
use iac_ops::digest::{DigestOptions, DigestSummary, RowDigest, digest};
use iac_ops::info::info;
use iac_ops::predicate::Predicate;
use iac_ops::rows::RowSelection;
use iac_ops::view::{TableQuery, TableView, select_rows};
use iac_ops::{ErrorKind, NoProgress, TableKind};
use iac_reader::PackReader;
use serde_json::{Value, json};

fn open(name: &str) -> PackReader {
    PackReader::open(golden(name)).unwrap()
}

fn digests(pack: &PackReader, workers: usize) -> (DigestSummary, Vec<RowDigest>) {
    let mut options = DigestOptions::default();
    options.workers = NonZeroUsize::new(workers);
    let mut rows = Vec::new();
    let summary = digest(pack, None, &options, &NoProgress, &mut |row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    (summary, rows)
}

#[test]
fn digests_of_variable_packs_are_those_of_the_goldens() {
    for name in ["none_a", "tol_signed_no_crc_a", "column_types_a", "zero_length_a", "chunked_a"] {
        let (summary, rows) = digests(&open(name), 3);
        assert_eq!(summary.failed, 0, "{name}");
        let records = expected(name)["records"].as_array().unwrap().clone();
        assert_eq!(rows.len(), records.len());
        for (row, record) in rows.iter().zip(&records) {
            let found = serde_json::to_value(row).unwrap();
            assert_eq!(found["row"], record["row"]);
            assert_eq!(found["bytes"], record["length"]);
            assert_eq!(found["stored_sha256"], record["sha256"]);
            assert_eq!(found["crc32"], *record.get("crc32").unwrap_or(&Value::Null));
            assert_eq!(found["crc_ok"], *record.get("crc32_matches").unwrap_or(&Value::Null));
            assert_eq!(
                found["decoded"],
                json!({
                    "kind": "bytes",
                    "shape": [record["decoded"]["length"]],
                    "dtype": "uint8",
                    "bytes": record["decoded"]["length"],
                    "sha256": record["decoded"]["sha256"],
                })
            );
            assert!(found.get("error").is_none());
        }
    }
}

#[test]
fn digests_of_fixed_rows_are_vectors() {
    let (_, rows) = digests(&open("fixed_float16_5x8_a"), 1);
    let golden = expected("fixed_float16_5x8_a");
    for (row, record) in rows.iter().zip(golden["fixed"]["rows"].as_array().unwrap()) {
        assert_eq!(
            serde_json::to_string(row).unwrap(),
            format!(
                concat!(
                    r#"{{"row":{},"bytes":16,"crc32":null,"crc_ok":null,"stored_sha256":{},"#,
                    r#""decoded":{{"kind":"vector","shape":[8],"dtype":"float16","bytes":16,"sha256":{}}}}}"#
                ),
                record["row"], record["sha256"], record["sha256"]
            )
        );
    }
    assert_eq!(rows.len(), 5);
}

#[test]
fn records_that_cannot_be_decoded_have_an_error_and_the_others_follow() {
    let (summary, rows) = digests(&open("crc_mismatch_a"), 2);
    assert_eq!((summary.rows, summary.failed), (3, 1));
    assert_eq!(summary.first_error, Some(ErrorKind::Checksum));
    assert!(rows[1].decoded.is_some());
    let bad = serde_json::to_value(&rows[2]).unwrap();
    assert_eq!(bad["crc_ok"], false);
    assert_eq!(bad["error"]["kind"], "checksum");
    assert!(bad.get("decoded").is_none());

    let pack = open("codec_unknown_a");
    let (summary, rows) = digests(&pack, 1);
    assert_eq!(summary.failed, pack.num_records().unwrap());
    for row in &rows {
        let row = serde_json::to_value(row).unwrap();
        assert_eq!(row["error"]["kind"], "unknown_codec");
        assert!(row["stored_sha256"].is_string());
    }
    let options = DigestOptions::default();
    let error = digest(&open("data_segment_a"), None, &options, &NoProgress, &mut |_| Ok(()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NoRecordIndex);
}

#[test]
fn decoded_records_come_in_the_order_asked_for() {
    let pack = open("none_a");
    let rows = RowSelection::parse("4,0,4,1..3").unwrap();
    let mut seen = Vec::new();
    decode(&pack, Some(&rows), &DecodeOptions::default(), &NoProgress, &mut |record| {
        assert_eq!(record.bytes, pack.read(record.row).unwrap());
        assert_eq!(record.kind, DecodedKind::Bytes);
        seen.push(record.row);
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [4, 0, 4, 1, 2]);
    let mut described = Vec::new();
    let row = RowSelection::parse("0").unwrap();
    let fixed = open("fixed_float16_5x8_a");
    decode(&fixed, Some(&row), &DecodeOptions::default(), &NoProgress, &mut |record| {
        described.push(serde_json::to_value(record.describe()).unwrap());
        Ok(())
    })
    .unwrap();
    assert_eq!(described[0]["shape"], json!([8]));
    assert_eq!(described[0]["dtype"], "float16");
    let error =
        decode(&open("crc_mismatch_a"), None, &DecodeOptions::default(), &NoProgress, &mut |_| {
            Ok(())
        });
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Checksum, Some(2)));
}

#[test]
fn info_is_the_document_of_the_command() {
    for name in ["column_types_a", "fixed_float16_5x8_a", "data_segment_a", "chunked_a"] {
        let pack = open(name);
        let found = info(&pack).unwrap();
        let json = serde_json::to_value(&found).unwrap();
        let golden = expected(name);
        let kind = golden["kind"].as_str().unwrap().trim_start_matches("data_");
        assert_eq!(json["kind"], kind, "{name}");
        assert_eq!(json["header"], golden["header"]);
        assert_eq!(json["file_bytes"], golden["file_size"]);
        for (table, key) in [("slide_table", "slide_table"), ("index_table", "index_table")] {
            let golden = &golden[key];
            assert_eq!(json[table]["rows"], golden["num_rows"]);
            assert_eq!(
                json[table]["batches"],
                golden["record_batch_rows"].as_array().unwrap().len()
            );
            let columns = json[table]["columns"].as_array().unwrap();
            for (column, field) in columns.iter().zip(golden["schema"].as_array().unwrap()) {
                assert_eq!(column["name"], field["name"]);
                assert_eq!(column["type"], field["type"]);
                assert_eq!(column["nullable"], field["nullable"]);
            }
            assert_eq!(columns.len(), golden["schema"].as_array().unwrap().len());
        }
        let mut members: Vec<&String> = json.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(
            members,
            [
                "data_alignment",
                "file_bytes",
                "header",
                "index_table",
                "kind",
                "path",
                "slide_table",
                "trailing_bytes"
            ]
        );
    }
    let facts = info(&open("none_a")).unwrap().facts;
    let sizes = facts.payloads.unwrap();
    assert_eq!(
        (sizes.count, sizes.min, sizes.median, sizes.max, sizes.total),
        (6, 0, 64, 3000, 4265)
    );
    assert_eq!(facts.codec.as_deref(), Some("none"));
    assert!(facts.rows_have_checksums);
    let facts = info(&open("fixed_float16_5x8_a")).unwrap().facts;
    assert_eq!(facts.payloads.unwrap().median, 16);
    assert!(!facts.rows_have_checksums);
    assert_eq!(info(&open("data_segment_a")).unwrap().facts.payloads, None);
}

fn json_lines(view: &TableView) -> Vec<String> {
    let mut out = Vec::new();
    view.write_json_lines(&mut out, &NoProgress).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

/// A golden's value in the form of ours.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            if let Some(hex) = object.get("hex").and_then(Value::as_str) {
                use base64::Engine as _;
                let bytes: Vec<u8> = (0..hex.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap())
                    .collect();
                return Value::from(base64::engine::general_purpose::STANDARD.encode(bytes));
            }
            if let Some(text) = object.get("text").and_then(Value::as_str) {
                return Value::from(text.replace(' ', "T").replace("+00:00", "Z"));
            }
            match object.get("float").and_then(Value::as_str) {
                Some("nan") => Value::from("NaN"),
                Some("inf") => Value::from("Infinity"),
                Some("-inf") => Value::from("-Infinity"),
                _ => value.clone(),
            }
        }
        other => other.clone(),
    }
}

#[test]
fn values_of_every_type_are_those_of_the_goldens() {
    for name in ["column_types_a", "chunked_a", "none_a"] {
        let view = TableView::new(&open(name), &TableQuery::default()).unwrap();
        let golden = expected(name);
        let columns = golden["index_table"]["columns"].as_array().unwrap();
        for (row, line) in json_lines(&view).iter().enumerate() {
            assert!(line.starts_with(&format!("{{\"row\":{row},")), "{line}");
            let line: Value = serde_json::from_str(line).unwrap();
            for column in columns {
                let column_name = column["name"].as_str().unwrap();
                let (found, wanted) = (&line[column_name], plain(&column["values"][row]));
                let same = match (found.as_f64(), wanted.as_f64()) {
                    // Singles are shown as short as singles can be.
                    (Some(a), Some(b)) if column_name == "f32" => {
                        (a as f32).to_bits() == (b as f32).to_bits()
                    }
                    _ => *found == wanted,
                };
                assert!(same, "{name}: {column_name}: {found} instead of {wanted}");
            }
        }
    }
}

#[test]
fn rows_columns_conditions_and_limits_select() {
    let pack = open("column_types_a");
    let mut query = TableQuery::default();
    query.columns = Some(vec!["dict".to_owned(), "row".to_owned(), "i8".to_owned()]);
    query.rows = Some(RowSelection::parse("5,0..2,0").unwrap());
    let view = TableView::new(&pack, &query).unwrap();
    assert_eq!(view.names(), ["row", "dict", "i8"]);
    assert_eq!(
        json_lines(&view),
        [
            r#"{"row":5,"dict":null,"i8":3}"#,
            r#"{"row":0,"dict":"tumor","i8":-2}"#,
            r#"{"row":1,"dict":"stroma","i8":-1}"#,
            r#"{"row":0,"dict":"tumor","i8":-2}"#,
        ]
    );
    query.predicate = Some(Predicate::parse("i8 < 0").unwrap());
    query.limit = Some(2);
    let view = TableView::new(&pack, &query).unwrap();
    assert_eq!(view.rows().iter().collect::<Vec<_>>(), [0, 1]);
    let rows = select_rows(&pack, &Predicate::parse("i8 < 0 or i8 = 3").unwrap()).unwrap();
    assert_eq!(rows.iter().collect::<Vec<_>>(), [0, 1, 5]);

    let mut query = TableQuery::default();
    query.table = TableKind::Slide;
    query.predicate = Some(Predicate::parse("slide_idx >= 1").unwrap());
    let view = TableView::new(&pack, &query).unwrap();
    assert_eq!(view.num_rows(), 2);

    query.columns = Some(vec!["nope".to_owned()]);
    let error = TableView::new(&pack, &query).unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Usage, Some("nope")));
    assert!(error.to_string().contains("slide_id"), "{error}");
    let mut query = TableQuery::default();
    query.rows = Some(RowSelection::parse("0..1152921504606846976").unwrap());
    let error = TableView::new(&pack, &query).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::RowOutOfRange, Some(6)));
    query.rows = None;
    query.predicate = Some(Predicate::parse("nope = 1").unwrap());
    assert_eq!(TableView::new(&pack, &query).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn csv_quotes_what_needs_it() {
    let pack = open("column_types_a");
    let mut query = TableQuery::default();
    query.columns = Some(vec!["item_id".into(), "large".into(), "list".into(), "bin".into()]);
    let view = TableView::new(&pack, &query).unwrap();
    let mut out = Vec::new();
    view.write_csv(&mut out, &NoProgress).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "row,item_id,large,list,bin");
    assert_eq!(lines[1], "0,ASCII#0,,[],\"\"");
    assert_eq!(lines[3], "2,日本語#2,\"\",,AgD/AgD/");
    assert_eq!(lines[4], "3,#3,,\"[0,1,2]\",\"\"");
    assert_eq!(lines[6], "5,\"tab\tquote\"\"back\\slash#5\",ASCII,\"[0,1,2,3,4]\",BQD/BQD/");
}

#[test]
fn arrow_output_reads_back_with_the_row_in_front() {
    for (name, rows) in
        [("column_types_a", "5,0..3"), ("chunked_a", "6,0..7,1"), ("none_a", "0..6")]
    {
        let pack = open(name);
        let mut query = TableQuery::default();
        query.rows = Some(RowSelection::parse(rows).unwrap());
        let view = TableView::new(&pack, &query).unwrap();
        let mut out = Vec::new();
        view.write_arrow(&mut out).unwrap();
        let stream = iac_format::table::TableStream::parse(out.into(), TableKind::Index).unwrap();
        assert_eq!(stream.schema().field(0).name(), "row");
        assert_eq!(stream.num_rows(), view.num_rows());
        let mut expected = Vec::new();
        view.for_each_row(&NoProgress, &mut |_, values| {
            expected.push(values);
            Ok(())
        })
        .unwrap();
        let mut found = Vec::new();
        for batch in stream.decode().unwrap() {
            for row in 0..batch.num_rows() {
                let values: Vec<Value> = batch
                    .columns()
                    .iter()
                    .map(|column| iac_ops::cell::to_json(column, row).unwrap())
                    .collect();
                found.push(values);
            }
        }
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_closed_pipe_is_told_apart() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let view = TableView::new(&open("none_a"), &TableQuery::default()).unwrap();
    for result in [
        view.write_csv(&mut Closed, &NoProgress),
        view.write_json_lines(&mut Closed, &NoProgress),
        view.write_arrow(&mut Closed),
    ] {
        assert!(result.unwrap_err().is_broken_pipe());
    }
}
