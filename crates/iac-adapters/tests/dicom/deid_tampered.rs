//! De-identified packs into which somebody put something back.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray, UInt32Array};
use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DeidCheck, DeidKey, DeidProfile, Deidentifier, DicomFile, DicomInput,
    DicomPackBuilder, DicomPackReader, Element, Tag, VR,
};
use iac_codec::zstd::ZstdOptions;
use iac_writer::{PackWriter, Table, WriteOptions};
use serde_json::{Map, Value, json};

/// What a pack is made of.
struct Parts {
    header: Map<String, Value>,
    series: RecordBatch,
    instances: RecordBatch,
    template: Value,
    deltas: Vec<Value>,
    behind: Vec<u8>,
}

fn object(instance: u32) -> DicomFile {
    let text = |group, element, vr, value: &str| {
        let mut bytes = value.as_bytes().to_vec();
        if bytes.len() % 2 == 1 {
            bytes.push(b' ');
        }
        Element::new(Tag(group, element), vr, bytes)
    };
    DicomFile::new(DataSet::from_elements(vec![
        text(0x0008, 0x0016, VR::UI, "1.2.840.10008.5.1.4.1.1.4\0"),
        text(0x0008, 0x0018, VR::UI, &format!("1.2.3.{instance}")),
        text(0x0008, 0x0060, VR::CS, "MR"),
        text(0x0010, 0x0010, VR::PN, "Smith^John"),
        text(0x0010, 0x0020, VR::LO, "4711"),
        text(0x0020, 0x000D, VR::UI, "1.2.3"),
        text(0x0020, 0x000E, VR::UI, "1.2.4"),
        text(0x0020, 0x0013, VR::IS, &instance.to_string()),
    ]))
}

fn clean(folder: &Path) -> Parts {
    let path = folder.join("clean.rad.iac");
    let key = DeidKey::new(b"0123456789abcdef".to_vec()).unwrap();
    let inputs = (1..3).map(|instance| {
        let bytes = Bytes::from(object(instance).to_bytes().unwrap());
        DicomInput::Bytes(instance.to_string(), bytes)
    });
    DicomPackBuilder::new()
        .deidentify(Arc::new(Deidentifier::new(DeidProfile::new(), key)))
        .build_from(&path, inputs)
        .unwrap();
    let pack = DicomPackReader::open(&path).unwrap();
    let reader = pack.reader();
    let mut header = reader.header().members().clone();
    // The writer puts these in itself.
    for name in ["checksums", "extensions"] {
        header.remove(name);
    }
    header.retain(|name, _| {
        !["format", "version", "header_bytes", "num_slides", "num_records"].contains(&name.as_str())
            && !name.ends_with("_table_offset")
            && !name.ends_with("_table_length")
            && !["data_offset", "data_length"].contains(&name.as_str())
    });
    Parts {
        header,
        series: reader.slide_table().unwrap().batches().unwrap()[0].clone(),
        instances: reader.index_table().unwrap().batches().unwrap()[0].clone(),
        template: pack.template_json(&pack.series()[0]).unwrap(),
        deltas: (0..2).map(|row| pack.delta_json(row).unwrap()).collect(),
        behind: Vec::new(),
    }
}

fn with_column(batch: &RecordBatch, name: &str, column: ArrayRef) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef)> = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| (field.name().clone(), Arc::clone(column)))
        .collect();
    match columns.iter_mut().find(|(known, _)| known == name) {
        Some(known) => known.1 = column,
        None => columns.insert(1, (name.to_owned(), column)),
    }
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

/// Puts the parts together again, and says what the check finds.
fn found(folder: &Path, parts: Parts) -> BTreeSet<(String, &'static str)> {
    let path = folder.join("tampered.rad.iac");
    let codec = ZstdOptions::new(3).codec().unwrap();
    let packed = |value: &Value| codec.encode_bytes(value.to_string().as_bytes()).unwrap();
    let template = packed(&parts.template);
    let deltas: Vec<Vec<u8>> = parts.deltas.iter().map(packed).collect();
    let number = |bytes: usize| u32::try_from(bytes).unwrap();
    let series = with_column(
        &parts.series,
        "template_length",
        Arc::new(UInt32Array::from(vec![number(template.len())])),
    );
    let series = with_column(
        &series,
        "template_crc32",
        Arc::new(UInt32Array::from(vec![crc32fast::hash(&template)])),
    );
    let bytes: BinaryArray = deltas.iter().map(|delta| Some(delta.as_slice())).collect();
    let sums: UInt32Array = deltas.iter().map(|delta| Some(crc32fast::hash(delta))).collect();
    let instances = with_column(&parts.instances, "dicom_delta", Arc::new(bytes));
    let instances = with_column(&instances, "dicom_delta_crc32", Arc::new(sums));
    let mut header = parts.header;
    header.insert("metadata_length".to_owned(), template.len().into());
    let options = WriteOptions::new().overwrite(true);
    let (series, instances) = (Table::from(series), Table::from(instances));
    let mut writer = PackWriter::with_index(&path, header, &series, &instances, &options).unwrap();
    writer.push_unindexed(&template).unwrap();
    for _ in 0..2 {
        writer.push(b"").unwrap();
    }
    if !parts.behind.is_empty() {
        writer.push_unindexed(&parts.behind).unwrap();
    }
    writer.finish().unwrap();
    let pack = DicomPackReader::open(&path).unwrap();
    let check = DeidCheck::run(&pack, None).unwrap();
    assert_eq!(check.total, u64::try_from(check.findings.len()).unwrap());
    check.findings.into_iter().map(|finding| (finding.place, finding.code)).collect()
}

type Change<'a> = &'a dyn Fn(&mut Parts);

#[test]
fn what_was_put_back_is_found_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let look = |change: &dyn Fn(&mut Parts)| {
        let mut parts = clean(folder);
        std::fs::remove_file(folder.join("clean.rad.iac")).unwrap();
        change(&mut parts);
        found(folder, parts)
    };
    assert_eq!(look(&|_| {}), BTreeSet::new());
    let cases: &[(&str, &str, Change<'_>)] = &[
        ("header", "header", &|it| {
            it.header.insert("note".to_owned(), "Smith".into());
        }),
        ("note", "path", &|it| {
            it.header.insert("note".to_owned(), json!({"from": ["/data/smith/1.dcm"]}));
        }),
        ("file", "column", &|it| {
            let names: ArrayRef = Arc::new(StringArray::from(vec!["a.dcm", "b.dcm"]));
            it.instances = with_column(&it.instances, "file", names);
        }),
        ("series_description", "column", &|it| {
            let names: ArrayRef = Arc::new(StringArray::from(vec!["Smith"]));
            it.series = with_column(&it.series, "series_description", names);
        }),
        ("series_description", "path", &|it| {
            let names: ArrayRef = Arc::new(StringArray::from(vec!["C:\\smith\\1"]));
            it.series = with_column(&it.series, "series_description", names);
        }),
        ("sop_instance_uid", "column", &|it| {
            let names: ArrayRef = Arc::new(StringArray::from(vec!["1.2.3.1", "1.2.3.2"]));
            it.instances = with_column(&it.instances, "sop_instance_uid", names);
        }),
        ("data", "hidden", &|it| it.behind = b"Smith".to_vec()),
        // A template's name that every delta hides.
        ("00100010", "person_name", &|it| {
            let name = it.template["dataset"]["00100010"].clone();
            for delta in &mut it.deltas {
                delta["dataset"]["00100010"] = name.clone();
            }
            it.template["dataset"]["00100010"]["Value"][0]["Alphabetic"] = "Smith".into();
        }),
        // The JSON that the reference sees says one thing, the spelling beside it another.
        ("00100020", "attribute", &|it| {
            it.deltas[0]["errors"] = json!([{
                "code": "lexical_form", "exception": "LexicalForm", "path": ["00100020"],
                "raw_base64": "NDcxMQ==", "scope": "dataset", "source_vr": "LO", "stored_vr": "LO",
            }]);
        }),
        ("00100010", "person_name", &|it| {
            it.deltas[0]["iac"] =
                json!({"text": [{"path": ["00100010"], "raw_base64": "U21pdGg="}]});
        }),
        ("00181000", "record", &|it| {
            it.deltas[1]["errors"] = json!([{
                "code": "invalid_element_value", "exception": "OSError", "path": ["00181000"],
                "raw_base64": "", "scope": "dataset", "source_vr": "LO", "stored_vr": "LO",
            }]);
        }),
        ("00081140/0/00081155", "uid", &|it| {
            let reference = json!({"00081155": {"vr": "UI", "Value": ["1.2.3.4"]}});
            it.deltas[1]["dataset"]["00081140"] = json!({"vr": "SQ", "Value": [reference]});
        }),
        ("00080021", "date", &|it| {
            it.template["dataset"]["00080021"] = json!({"vr": "DA", "Value": ["19870913"]});
        }),
        ("00091001", "private", &|it| {
            it.template["dataset"]["00091001"] = json!({"vr": "UN", "InlineBinary": "U21pdGg="});
        }),
        ("template of series 0", "document", &|it| it.template["note"] = "Smith".into()),
        ("dicom_delta", "document", &|it| {
            it.deltas[0]["dataset"]["00080060"] =
                json!({"vr": "CS", "Value": ["MR"], "was": "Smith"});
        }),
        ("iac", "record", &|it| it.deltas[0]["iac"] = json!({"source": "Smith"})),
        ("00020016", "file_meta", &|it| {
            it.template["file_meta"]["00020016"] = json!({"vr": "AE", "Value": ["SMITH"]});
        }),
        ("00120062", "mark", &|it| {
            it.template["dataset"]["00120062"]["Value"][0] = "NO".into();
        }),
        ("00120063", "attribute", &|it| {
            it.template["dataset"]["00120063"]["Value"][0] = "by Dr Smith".into();
        }),
    ];
    for (place, code, change) in cases {
        let found = look(change);
        assert!(found.contains(&((*place).to_owned(), code)), "{place} {code}: {found:?}");
    }
}
