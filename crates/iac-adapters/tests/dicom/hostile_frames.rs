//! Packs of schema 2 whose parts name each other in ways that no writer has.

use std::sync::Arc;

use arrow_array::{StringArray, UInt32Array, UInt64Array};
use iac_adapters::dicom::{DicomPackReader, ExportOptions, ExportSyntax, Tag};
use iac_format::ErrorKind;
use serde_json::{Value, json};

use crate::deid_frames::clean;

const LUT: Tag = Tag(0x0028, 0x1201);

/// Items of a sequence, so many, each of which has the same large value.
fn many(name: &Value, count: usize) -> Value {
    let item = json!({"00281201": {"vr": "OW", "BulkDataURI": name}});
    json!({"vr": "SQ", "Value": vec![item; count]})
}

fn kind(result: Result<impl Sized, iac_adapters::AdapterError>) -> ErrorKind {
    match result {
        Ok(_) => panic!("is accepted"),
        Err(error) => error.kind(),
    }
}

#[test]
fn large_values_that_are_named_without_end_are_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut parts = clean(folder.path());
    let pack = DicomPackReader::open(folder.path().join("clean.rad.iac")).unwrap();
    let template = pack.template_json(&pack.series()[0]).unwrap();
    let name = &template["dataset"]["00281201"]["BulkDataURI"];
    assert!(name.is_string(), "{template}");
    parts.delta["dataset"]["0040A730"] = many(name, 500);
    parts.replace_delta();
    let pack = parts.write(folder.path());
    // A megabyte, of a value that is stored once.
    let data = pack.data_set(0).unwrap();
    let items = data.get(Tag(0x0040, 0xA730)).unwrap().items().unwrap();
    assert_eq!(items.len(), 500);
    assert_eq!(items[499].bytes(LUT), data.bytes(LUT));
    let pack = pack.with_max_document_bytes(400_000);
    assert_eq!(kind(pack.data_set(0)), ErrorKind::Limit);
    assert_eq!(kind(pack.export(0, &ExportOptions::default())), ErrorKind::Limit);
}

#[test]
fn blocks_of_functional_groups_that_are_named_without_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut parts = clean(folder.path());
    let groups = &mut parts.delta["iac"]["groups"];
    let block = groups["blocks"][0].clone();
    *groups = json!({"items": 30_000, "block": 3, "blocks": vec![block; 10_000]});
    parts.replace_delta();
    let pack = parts.write(folder.path());
    let error = pack.data_set(0).unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
    // One frame has one block.
    assert!(!pack.frame_groups(0, 2).unwrap().elements().is_empty());
}

#[test]
fn deltas_that_begin_in_one_place_are_not_taken_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut parts = clean(folder.path());
    let (offset, length, crc32) = parts.append(&parts.delta.clone());
    parts.set("delta_offset", Arc::new(UInt64Array::from(vec![offset; 3])));
    parts.set("delta_length", Arc::new(UInt32Array::from(vec![length, length, length - 1])));
    parts.set("delta_crc32", Arc::new(UInt32Array::from(vec![crc32, crc32 ^ 1, crc32])));
    let pack = parts.write(folder.path());
    for _ in 0..2 {
        pack.delta_json(0).unwrap();
        assert_eq!(kind(pack.delta_json(1)), ErrorKind::Schema);
        assert_eq!(kind(pack.delta_json(2)), ErrorKind::Schema);
    }
}

#[test]
fn exported_files_have_names_of_their_own_whatever_the_uids_are() {
    let folder = tempfile::tempdir().unwrap();
    for (uids, wanted) in [
        (["a", "a-2", "A"], ["a.dcm", "a-2.dcm", "A-2-1.dcm"]),
        (["CON", "../x", "..."], ["rowCON-0.dcm", "row..x-1.dcm", "row...-2.dcm"]),
    ] {
        let mut parts = clean(folder.path());
        parts.set("sop_instance_uid", Arc::new(StringArray::from(uids.to_vec())));
        let pack = parts.write(folder.path());
        let out = tempfile::tempdir().unwrap();
        let mut names = Vec::new();
        let mut told = |file: iac_adapters::dicom::ExportedFile| {
            names.push(file.path.file_name().unwrap().to_str().unwrap().to_owned());
            Ok(())
        };
        let options = ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian);
        let none = &iac_ops::NoProgress;
        pack.export_many(&[0, 1, 2], out.path(), &options, None, none, &mut told).unwrap();
        assert_eq!(names, wanted);
    }
}
