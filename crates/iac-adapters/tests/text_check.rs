//! Checking packs of text.
#![cfg(feature = "text")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use iac_adapters::text::check::{TextCheck, TextCheckOptions, check_text_pack};
use iac_adapters::text::{ClinicalDoc, PatientText, encode_block};
use iac_adapters::text_pair::{ClinicalDocPair, PatientTextPair};
use iac_adapters::validate::{Schemas, ValidateOptions, validate_pack};
use iac_codec::brotli::BrotliOptions;
use iac_ops::check::{CheckOptions, check};
use iac_reader::PackReader;
use iac_writer::{Table, VariablePackBuilder, WriteOptions};
use serde_json::{Value, json};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn all() -> TextCheckOptions {
    TextCheckOptions::default().decode(u64::MAX)
}

fn checked(pack: &PackReader, options: &TextCheckOptions) -> TextCheck {
    check_text_pack(pack, options).unwrap()
}

fn faults(check: &TextCheck) -> Vec<(&'static str, Option<u64>)> {
    check.faults.iter().map(|fault| (fault.check, fault.row)).collect()
}

fn warnings(check: &TextCheck) -> Vec<(&'static str, Option<u64>)> {
    check.warnings.iter().map(|fault| (fault.check, fault.row)).collect()
}

#[test]
fn golden_packs_are_sound_and_summed_up_as_the_validator_prints_it() {
    for (name, rows) in
        [("basic", 3), ("empties", 3), ("odd_characters", 0), ("many_non_streaming", 0)]
    {
        let pack = PackReader::open(data("text").join(name).join("pack.iac")).unwrap();
        let check = checked(&pack, &all());
        assert!(check.is_sound(), "{name}: {:?}", check.faults);
        assert!(check.warnings.is_empty(), "{name}: {:?}", check.warnings);
        assert_eq!(check.decoded, check.records);
        if rows > 0 {
            let expected = format!(
                "type=clinical_text records={rows} codec=brotli decoded={rows} crc_checked={rows}"
            );
            assert_eq!(check.summary(), expected);
        }
    }
    for name in ["basic", "empties", "many", "odd_characters"] {
        let pack = PackReader::open(data("text_pair").join(name).join("pack.iac")).unwrap();
        let check = checked(&pack, &all());
        assert!(check.is_sound() && check.warnings.is_empty(), "{name}: {:?}", check.faults);
        assert!(check.summary().starts_with("type=clinical_text_pair records="));
    }
    let tiles = PackReader::open(data("features/dtype_int8/pack.iac")).unwrap();
    assert!(check_text_pack(&tiles, &all()).is_none());
}

#[test]
fn what_is_legal_but_odd_is_a_warning_and_a_fault_when_strict() {
    let pack = PackReader::open(data("text/duplicate_patients/pack.iac")).unwrap();
    let check = checked(&pack, &all());
    assert!(check.is_sound(), "{:?}", check.faults);
    assert!(!check.warnings.is_empty());
    assert!(check.warnings.iter().all(|fault| fault.check == "patient_id"));
    let strict = all().strict(true);
    let check = checked(&pack, &strict);
    assert!(!check.is_sound() && check.warnings.is_empty());

    let pack = PackReader::open(data("text_pair/foreign_shared_span/pack.iac")).unwrap();
    let check = checked(&pack, &all());
    assert!(check.is_sound(), "{:?}", check.faults);
    assert!(warnings(&check).contains(&("body", Some(0))), "{:?}", check.warnings);
    assert!(warnings(&check).contains(&("table", None)));
}

#[test]
fn a_block_that_is_another_patient_than_the_index_says_is_a_fault() {
    let pack = PackReader::open(data("text/foreign_zstd/pack.iac")).unwrap();
    let check = checked(&pack, &all());
    assert_eq!(faults(&check), [("index", Some(0)), ("index", Some(1))]);
    assert!(check.faults[0].message.contains("\"f1\" in the block, but \"index-name-1\""));
    assert!(warnings(&check).contains(&("block", Some(0))), "{:?}", check.warnings);
}

#[test]
fn every_malformed_block_is_a_fault_of_its_row() {
    for kind in ["text", "text_pair"] {
        let folder = data(kind).join("invalid");
        let cases: Value =
            serde_json::from_slice(&fs::read(folder.join("block_errors.json")).unwrap()).unwrap();
        let mut bytes = fs::read(folder.join("packs/bad_blocks.iac.trim")).unwrap();
        let text = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
        bytes.splice(16 + text..16 + text, vec![0; 65536 - 16 - text]);
        let pack = PackReader::from_bytes(bytes).unwrap();
        let check = checked(&pack, &all());
        for case in cases.as_array().unwrap() {
            let row = case["row"].as_u64();
            assert!(faults(&check).contains(&("block", row)), "{case}: {:?}", check.faults);
        }
    }
}

fn write(
    path: &Path,
    kind: &str,
    columns: Vec<(&str, ArrayRef)>,
    blocks: &[Vec<u8>],
) -> PackReader {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let version =
        if kind == "clinical_text" { "text_schema_version" } else { "pair_schema_version" };
    VariablePackBuilder::new(kind, Table::from(batch))
        .header(json!({ version: 1 }).as_object().unwrap().clone())
        .codec(BrotliOptions::default().with_quality(2).codec().unwrap())
        .options(WriteOptions::new().sync(false))
        .build(path, blocks)
        .unwrap();
    PackReader::open(path).unwrap()
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn patient(id: &str) -> PatientText {
    let mut patient = PatientText::new(id);
    patient.institution = "i".to_owned();
    patient.docs.push(ClinicalDoc::new("1", "text"));
    patient
}

#[test]
fn what_the_index_says_is_compared_with_every_block() {
    let folder = tempfile::tempdir().unwrap();
    let blocks: Vec<Vec<u8>> =
        ["a", "b", "c", "d"].iter().map(|id| encode_block(&patient(id)).unwrap()).collect();
    let pack = write(
        &folder.path().join("a.iac"),
        "clinical_text",
        vec![
            ("patient_id", texts(&[Some("a"), None, Some("c"), Some("d")])),
            ("institution", texts(&[Some("i"), Some("i"), Some("j"), Some("i")])),
            ("num_docs", Arc::new(UInt32Array::from(vec![1, 1, 1, 2]))),
        ],
        &blocks,
    );
    let check = checked(&pack, &all());
    assert_eq!(
        faults(&check),
        [("patient_id", Some(1)), ("index", Some(1)), ("index", Some(2)), ("index", Some(3)),]
    );
    assert_eq!(check.faults[2].field.as_deref(), Some("institution"));
    assert_eq!(check.faults[3].field.as_deref(), Some("num_docs"));

    let mut pair = PatientTextPair::new("p");
    pair.docs.push(ClinicalDocPair::new("1", "long", "é"));
    let pack = write(
        &folder.path().join("b.iac"),
        "clinical_text_pair",
        vec![
            ("patient_id", texts(&[Some("p")])),
            ("institution", texts(&[Some("")])),
            ("num_docs", Arc::new(UInt32Array::from(vec![1]))),
            ("source_raw_bytes", Arc::new(UInt64Array::from(vec![4]))),
            ("compressed_raw_bytes", Arc::new(UInt64Array::from(vec![1]))),
        ],
        &[encode_block(&pair).unwrap()],
    );
    let check = checked(&pack, &all());
    assert_eq!(faults(&check), [("index", Some(0))]);
    assert_eq!(check.faults[0].field.as_deref(), Some("compressed_raw_bytes"));
}

#[test]
fn damaged_records_are_told_by_checksum_and_by_decoding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let blocks: Vec<Vec<u8>> =
        ["a", "b", "c"].iter().map(|id| encode_block(&patient(id)).unwrap()).collect();
    let ids = texts(&[Some("a"), Some("b"), Some("c")]);
    let pack = write(&path, "clinical_text", vec![("patient_id", ids)], &blocks);
    let span = pack.span(1).unwrap();
    let at = usize::try_from(pack.layout().data.offset + span.offset).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[at + 1..at + usize::try_from(span.length).unwrap()].fill(0xff);
    let pack = PackReader::from_bytes(bytes).unwrap();
    let check = checked(&pack, &all());
    assert_eq!(faults(&check), [("checksum", Some(1)), ("decode", Some(1))]);
    assert_eq!((check.decoded, check.crc_checked), (3, 3));

    let some = TextCheckOptions::default().decode(1).crc(0).spread(false);
    let check = checked(&pack, &some);
    assert!(check.is_sound());
    assert_eq!((check.decoded, check.crc_checked), (1, 0));
    let some = some.spread(true).decode(2);
    assert!(checked(&pack, &some).is_sound());
    let some = some.max_faults(0).decode(3);
    let check = checked(&pack, &some);
    assert_eq!((check.total_faults, check.faults.len()), (1, 0));
}

#[test]
fn the_validator_and_the_general_check_know_these_packs() {
    let sound = data("text/basic/pack.iac");
    let line = validate_pack(&sound, &ValidateOptions::default()).unwrap().to_string();
    assert_eq!(
        line,
        "package_valid type=clinical_text records=3 codec=brotli decoded=3 crc_checked=3"
    );
    let some = ValidateOptions::default().max_decode(1).max_crc(2);
    let line = validate_pack(data("text_pair/basic/pack.iac"), &some).unwrap().to_string();
    assert!(
        line.ends_with("type=clinical_text_pair records=3 codec=brotli decoded=1 crc_checked=2")
    );
    let odd = data("text/foreign_raw/pack.iac");
    let error = validate_pack(&odd, &ValidateOptions::default()).unwrap_err();
    assert_eq!((error.row(), error.field()), (Some(0), Some("patient_id")));

    let mut options = CheckOptions::default();
    options.schemas = Schemas::all();
    let mut found = Vec::new();
    check(&[sound, odd], &options, &iac_ops::NoProgress, &mut |pack| {
        found.push(pack);
        Ok(())
    })
    .unwrap();
    assert!(found[0].is_sound(), "{:?}", found[0].faults);
    let rows: Vec<Option<u64>> = found[1].faults.iter().map(|fault| fault.row).collect();
    assert_eq!(rows, [Some(0), Some(1)], "{:?}", found[1].faults);
    assert!(found[1].notes.iter().any(|note| note.contains("institution")));
}
