//! Packs of text against the golden files: blocks to the byte, packs in both directions, and
//! everything that is wrong.
#![cfg(feature = "text")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice
)]

use std::fs;
use std::path::{Path, PathBuf};

use iac_adapters::AdapterError;
use iac_adapters::text::{
    BlockError, ClinicalDoc, Patient, TextDocument, TextReadOptions, TextReader, TextWriteOptions,
    TextWriter, decode_block, decode_manifest, encode_block,
};
use iac_adapters::text_pair::ClinicalDocPair;
use iac_codec::brotli::BrotliOptions;
use iac_format::ErrorKind;
use iac_reader::PackReader;
use iac_writer::WriteOptions;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn data(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(kind)
}

fn json_of(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn sha(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A malformed pack; its header lies there without the zeros that fill it up.
fn malformed(kind: &str, name: &str) -> PackReader {
    let mut bytes = fs::read(data(kind).join("invalid").join(format!("{name}.trim"))).unwrap();
    let text = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    bytes.splice(16 + text..16 + text, vec![0; 65536 - 16 - text]);
    PackReader::from_bytes(bytes).unwrap()
}

/// Folders with a pack, and with `patients.json` if wanted.
fn cases(kind: &str, with_patients: bool) -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(data(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").exists())
        .filter(|path| !with_patients || path.join("patients.json").exists())
        .collect();
    cases.sort();
    assert!(cases.len() >= 4, "only {} golden packs", cases.len());
    cases
}

fn patients<D: TextDocument>(case: &Path) -> Vec<Patient<D>> {
    serde_json::from_slice(&fs::read(case.join("patients.json")).unwrap()).unwrap()
}

/// What a golden file says about a record's patient, of what is here.
fn described<D: TextDocument>(patient: &Patient<D>) -> Value {
    let docs: Vec<Value> = patient
        .docs
        .iter()
        .map(|doc| {
            let labels = doc.labels();
            let mut object = json!({
                "doc_id": labels.doc_id, "doc_type": labels.doc_type,
                "encounter": labels.encounter, "doc_category": labels.doc_category,
                "source": labels.source, "doc_timestamp": labels.doc_timestamp,
                "episode_index": labels.episode_index,
            });
            for (number, field) in D::TEXTS.iter().enumerate() {
                let text = doc.text(number);
                object[format!("{}_bytes", field.name)] = json!(text.len());
                object[format!("{}_sha256", field.name)] = json!(sha(text.as_bytes()));
            }
            object
        })
        .collect();
    json!({ "patient_id": patient.patient_id, "institution": patient.institution, "docs": docs })
}

fn expected_patient(record: &Value) -> Value {
    json!({
        "patient_id": record["patient_id"], "institution": record["institution"],
        "docs": record["docs"],
    })
}

fn blocks_are_byte_exact<D: TextDocument>(kind: &str) {
    for case in cases(kind, true) {
        let expected = json_of(case.join("expected.json"));
        let records = expected["records"].as_array().unwrap();
        let patients = patients::<D>(&case);
        assert_eq!(patients.len(), records.len(), "{case:?}");
        for (patient, record) in patients.iter().zip(records) {
            let block = encode_block(patient).unwrap();
            let manifest = u32::from_le_bytes(block[..4].try_into().unwrap()) as usize;
            assert_eq!(
                std::str::from_utf8(&block[4..4 + manifest]).unwrap(),
                record["manifest_json"].as_str().unwrap()
            );
            assert_eq!(sha(&block), record["block_sha256"].as_str().unwrap(), "{case:?}");
            assert_eq!(json!(block.len()), record["block_length"]);
            assert_eq!(&decode_block::<D>(&block).unwrap(), patient);
        }
    }
}

#[test]
fn blocks_of_text_are_byte_exact() {
    blocks_are_byte_exact::<ClinicalDoc>("text");
}

#[test]
fn blocks_of_pairs_are_byte_exact() {
    blocks_are_byte_exact::<ClinicalDocPair>("text_pair");
}

fn golden_packs_read_as_described<D: TextDocument>(kind: &str) {
    for case in cases(kind, false) {
        let expected = json_of(case.join("expected.json"));
        let records = expected["records"].as_array().unwrap();
        let reader = TextReader::<D>::open(case.join("pack.iac")).unwrap();
        assert_eq!(reader.len(), u64::try_from(records.len()).unwrap());
        let mut all = Vec::new();
        for (row, record) in (0_u64..).zip(records) {
            let patient = reader.read_at(row).unwrap();
            assert_eq!(described(&patient), expected_patient(record), "{case:?} row {row}");
            assert_eq!(
                sha(&reader.block_at(row).unwrap()),
                record["block_sha256"].as_str().unwrap()
            );
            reader.verify_crc(row).unwrap();
            let manifest = reader.read_manifest_at(row).unwrap();
            assert_eq!(manifest.patient_id, patient.patient_id);
            assert_eq!(manifest.docs.len(), patient.docs.len());
            for (number, doc) in (0_u64..).zip(&patient.docs) {
                assert_eq!(&reader.read_doc(row, number).unwrap(), doc, "{case:?} row {row}");
                let id = doc.labels().doc_id;
                let first = patient.docs.iter().position(|d| d.labels().doc_id == id).unwrap();
                let found = reader.read_doc_by_id(row, id).unwrap().unwrap();
                assert_eq!(found, (u64::try_from(first).unwrap(), patient.docs[first].clone()));
            }
            let behind = u64::try_from(patient.docs.len()).unwrap();
            let error = reader.read_doc(row, behind).unwrap_err();
            let AdapterError::Block { source, .. } = error else { panic!("{error}") };
            assert!(matches!(*source, BlockError::NoDocument { .. }), "{source}");
            assert!(reader.read_doc_by_id(row, "no such document").unwrap().is_none());
            all.push(patient);
        }
        let backwards: Vec<u64> = (0..reader.len()).rev().chain([0]).collect();
        let many = reader.read_many(&backwards).unwrap();
        for (row, patient) in backwards.iter().zip(&many) {
            assert_eq!(patient, &all[usize::try_from(*row).unwrap()]);
        }
        let iterated: Vec<Patient<D>> = reader.iter().map(Result::unwrap).collect();
        assert_eq!(iterated, all);

        let said = &expected["reader"]["patient_ids"]["value"];
        assert_eq!(&json!(reader.patient_ids().unwrap()), said, "{case:?}");
        let index = expected["index_rows"].as_array().unwrap();
        for id in reader.patient_ids().unwrap() {
            let rows: Vec<u64> = (0_u64..)
                .zip(index)
                .filter(|(_, entry)| entry["patient_id"] == *id)
                .map(|(row, _)| row)
                .collect();
            assert_eq!(reader.rows_of(id).unwrap(), rows);
            assert_eq!(Some(&reader.row_of(id).unwrap()), rows.last());
            let last = usize::try_from(*rows.last().unwrap()).unwrap();
            assert_eq!(reader.read(id).unwrap(), all[last]);
        }
        let error = reader.read("nobody").unwrap_err();
        assert!(matches!(error, AdapterError::UnknownId { .. }), "{error}");
        let error = reader.read_at(reader.len()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
    }
}

#[test]
fn golden_packs_of_text_read_as_described() {
    golden_packs_read_as_described::<ClinicalDoc>("text");
}

#[test]
fn golden_packs_of_pairs_read_as_described() {
    golden_packs_read_as_described::<ClinicalDocPair>("text_pair");
}

fn written_packs_have_the_golden_tables<D: TextDocument>(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    for case in cases(kind, true) {
        let expected = json_of(case.join("expected.json"));
        let path = folder.path().join("pack.iac");
        let quality = u8::try_from(expected["header"]["codec_params"]["quality"].as_u64().unwrap());
        let mut extra = expected["header"].as_object().unwrap().clone();
        extra.retain(|name, _| ["note", "task"].contains(&name.as_str()));
        let options = TextWriteOptions::default()
            .header(extra)
            .codec(BrotliOptions::default().with_quality(quality.unwrap()).codec().unwrap())
            .duplicates(true)
            .write(WriteOptions::new().sync(false).overwrite(true));
        let mut writer = TextWriter::<D>::create(&path, &options).unwrap();
        for patient in patients::<D>(&case) {
            writer.push(&patient).unwrap();
        }
        writer.finish().unwrap();
        let pack = PackReader::open(&path).unwrap();
        let mut header = Value::Object(pack.header().members().clone());
        let object = header.as_object_mut().unwrap();
        assert!(object.remove("checksums").is_some());
        assert_eq!(object.remove("extensions"), Some(json!(["iac.checksums"])));
        let layout = [
            "data_length",
            "data_offset",
            "index_table_length",
            "index_table_offset",
            "slide_table_length",
            "slide_table_offset",
        ];
        let mut golden = expected["header"].clone();
        for name in layout {
            object.remove(name);
            golden.as_object_mut().unwrap().remove(name);
        }
        assert_eq!(header, golden, "{case:?}");
        for (table, name) in [(pack.slide_table(), "slide"), (pack.index_table(), "index")] {
            let table = table.unwrap();
            let names: Vec<&str> =
                table.schema().fields().iter().map(|field| field.name().as_str()).collect();
            let schema = expected[format!("{name}_schema")].as_array().unwrap();
            let golden: Vec<&str> = schema.iter().map(|f| f["name"].as_str().unwrap()).collect();
            assert_eq!(names, golden, "{case:?}");
            assert!(table.schema().fields().iter().all(|field| field.is_nullable()));
            let query = iac_ops::view::TableQuery::default();
            let mut query = query;
            query.table = table.kind();
            let view = iac_ops::view::TableView::new(&pack, &query).unwrap();
            let mut lines = Vec::new();
            view.write_json_lines(&mut lines, &iac_ops::NoProgress).unwrap();
            let rows = expected[format!("{name}_rows")].as_array().unwrap();
            let lines = String::from_utf8(lines).unwrap();
            assert_eq!(lines.lines().count(), rows.len());
            for (line, row) in lines.lines().zip(rows) {
                let mut line: Value = serde_json::from_str(line).unwrap();
                let mut row = row.clone();
                for object in [&mut line, &mut row] {
                    for name in ["row", "offset", "length", "crc32"] {
                        object.as_object_mut().unwrap().remove(name);
                    }
                }
                assert_eq!(line, row, "{case:?}");
            }
        }
    }
}

#[test]
fn written_packs_of_text_have_the_golden_tables() {
    written_packs_have_the_golden_tables::<ClinicalDoc>("text");
}

#[test]
fn written_packs_of_pairs_have_the_golden_tables() {
    written_packs_have_the_golden_tables::<ClinicalDocPair>("text_pair");
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn malformed_blocks_are_refused<D: TextDocument>(kind: &str) {
    let cases = json_of(data(kind).join("invalid/block_errors.json"));
    for case in cases.as_array().unwrap() {
        // The reference takes some of these, spans outside of the body and numbers for ids among
        // them. They are refused all the same.
        let name = case["name"].as_str().unwrap();
        let block = hex(case["block_hex"].as_str().unwrap());
        let row = case["row"].as_u64().unwrap();
        let reader = TextReader::<D>::from_reader(
            malformed(kind, case["pack"].as_str().unwrap()),
            TextReadOptions::default(),
        )
        .unwrap();
        let fault = decode_block::<D>(&block).expect_err(name);
        match reader.read_at(row).expect_err(name) {
            AdapterError::Block { source, row: at, .. } => assert_eq!((*source, at), (fault, row)),
            other => panic!("{name}: {other}"),
        }
        reader.read_doc(row, 0).expect_err(name);
        assert!(decode_manifest::<D>(&block).is_err() || name == "cuts_utf8", "{name}");
    }
}

#[test]
fn malformed_blocks_of_text_are_refused() {
    malformed_blocks_are_refused::<ClinicalDoc>("text");
}

#[test]
fn malformed_blocks_of_pairs_are_refused() {
    malformed_blocks_are_refused::<ClinicalDocPair>("text_pair");
}

#[test]
fn each_fault_of_a_block_has_its_own_kind() {
    let cases = json_of(data("text").join("invalid/block_errors.json"));
    let fault = |name: &str| {
        let case = cases.as_array().unwrap().iter().find(|case| case["name"] == name).unwrap();
        decode_block::<ClinicalDoc>(&hex(case["block_hex"].as_str().unwrap())).unwrap_err().name()
    };
    for (name, kind) in [
        ("empty_block", "block_too_short"),
        ("three_bytes", "block_too_short"),
        ("manifest_overrun", "manifest_overrun"),
        ("manifest_not_json", "manifest_not_json"),
        ("manifest_empty", "manifest_not_json"),
        ("manifest_not_utf8", "manifest_not_utf8"),
        ("manifest_is_list", "manifest_shape"),
        ("no_doc_id", "manifest_shape"),
        ("negative_offset", "manifest_shape"),
        ("offset_past_end", "span"),
        ("length_past_end", "span"),
        ("cuts_utf8", "text_not_utf8"),
    ] {
        assert_eq!(fault(name), kind, "{name}");
    }
}

fn malformed_packs_fail_where_they_are_damaged<D: TextDocument>(kind: &str) {
    let cases = json_of(data(kind).join("invalid/pack_errors.json"));
    for case in cases.as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        if case["pack"].as_str().unwrap().starts_with("..") {
            continue; // a sound pack of the other kind, which has a test of its own
        }
        let pack = malformed(kind, case["pack"].as_str().unwrap());
        let reader = TextReader::<D>::from_reader(pack, TextReadOptions::default());
        if name == "wrong_payload_type" {
            let error = reader.unwrap_err();
            assert!(matches!(error, AdapterError::PayloadType { .. }), "{error}");
            continue;
        }
        let reader = reader.unwrap();
        let read = reader.read_at(0);
        match case["read_patient_at_0"]["ok"].as_bool().unwrap() {
            true => drop(read.unwrap_or_else(|error| panic!("{name}: {error}"))),
            false => {
                let kind = read.expect_err(name).kind();
                let expected = match name {
                    // A codec that this library has and the reference has not: the bytes are none.
                    "unknown_codec" => {
                        vec![ErrorKind::UnknownCodec, ErrorKind::Decode, ErrorKind::MissingFeature]
                    }
                    _ => vec![ErrorKind::Decode],
                };
                assert!(expected.contains(&kind), "{name}: {kind}");
            }
        }
        let ids = reader.patient_ids();
        match name {
            "no_patient_column" => {
                assert_eq!(ids.unwrap_err().kind(), ErrorKind::Schema);
                assert_eq!(reader.row_of("p").unwrap_err().kind(), ErrorKind::Schema);
            }
            "null_patient_index" => {
                assert_eq!(ids.unwrap_err().row(), Some(0));
                assert!(matches!(reader.row_of("p"), Err(AdapterError::UnknownId { .. })));
            }
            _ => assert_eq!(ids.unwrap(), ["p"], "{name}"),
        }
    }
}

#[test]
fn malformed_packs_of_text_fail_where_they_are_damaged() {
    malformed_packs_fail_where_they_are_damaged::<ClinicalDoc>("text");
}

#[test]
fn malformed_packs_of_pairs_fail_where_they_are_damaged() {
    malformed_packs_fail_where_they_are_damaged::<ClinicalDocPair>("text_pair");
}

#[test]
fn a_pack_of_the_other_kind_is_refused_when_it_is_opened() {
    let text = data("text").join("basic/pack.iac");
    let error = TextReader::<ClinicalDocPair>::open(&text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.to_string().contains("clinical_text_pair"), "{error}");
    TextReader::<ClinicalDoc>::open(data("text_pair").join("basic/pack.iac")).unwrap_err();
}
