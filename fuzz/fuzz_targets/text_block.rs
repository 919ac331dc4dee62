//! Blocks of text packs: any bytes are refused, or are a patient that comes back from the block
//! that it is written as, and whose parts read alone are the same. Also the importers of patients.
//!
//! The first byte says what the rest is: a block of text, a block of pairs, JSON or CSV.
#![no_main]

use iac_adapters::text::import::{ColumnMapping, CsvPatients, Grouping, JsonPatients};
use iac_adapters::text::{
    ClinicalDoc, DocLabels, Patient, TextDocument, decode_block, decode_manifest, encode_block,
};
use iac_adapters::text_pair::ClinicalDocPair;
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((kind, rest)) = input.split_first() else { return };
        match kind % 4 {
            0 => block::<ClinicalDoc>(rest),
            1 => block::<ClinicalDocPair>(rest),
            2 => json(rest),
            _ => csv(rest),
        }
    }
);

fn block<D: TextDocument>(block: &[u8]) {
    let manifest = decode_manifest::<D>(block);
    let patient = match decode_block::<D>(block) {
        Ok(patient) => patient,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            // What lies outside of the body, or has no manifest, is an error either way.
            return;
        }
    };
    let manifest = manifest.unwrap();
    assert_eq!(manifest.patient_id, patient.patient_id);
    assert_eq!(manifest.docs.len(), patient.docs.len());
    for (said, doc) in manifest.docs.iter().zip(&patient.docs) {
        assert_eq!(said.labels.borrowed(), doc.labels());
        for (number, span) in said.spans.iter().enumerate() {
            assert_eq!(span.length, doc.text(number).len() as u64);
        }
    }
    let written = encode_block(&patient).unwrap();
    assert_eq!(decode_block::<D>(&written).unwrap(), patient);
    assert_eq!(encode_block(&decode_block::<D>(&written).unwrap()).unwrap(), written);
}

fn json(text: &[u8]) {
    let patients: Vec<Patient<ClinicalDoc>> =
        JsonPatients::new("input", text).map_while(Result::ok).collect();
    // What was understood is understood again when it is written one behind the other.
    let lines: String =
        patients.iter().map(|patient| serde_json::to_string(patient).unwrap() + "\n").collect();
    let again: Vec<Patient<ClinicalDoc>> =
        JsonPatients::new("again", lines.as_bytes()).map(Result::unwrap).collect();
    assert_eq!(again, patients);
}

fn csv(text: &[u8]) {
    for grouping in [Grouping::Consecutive, Grouping::Anywhere] {
        let mapping = ColumnMapping::default().grouping(grouping);
        let Ok(patients) = CsvPatients::<ClinicalDoc, _>::new("input", text, &mapping) else {
            continue;
        };
        for patient in patients.map_while(Result::ok) {
            assert!(!patient.docs.is_empty());
        }
    }
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    let mut add = |name: &str, kind: u8, bytes: &[u8]| {
        let mut input = vec![kind];
        input.extend_from_slice(bytes);
        made.push((name.to_owned(), input));
    };
    add("text", 0, &encode_block(&patient::<ClinicalDoc>()).unwrap());
    add("pair", 1, &encode_block(&patient::<ClinicalDocPair>()).unwrap());
    add("empty", 0, &encode_block(&Patient::<ClinicalDoc>::new("")).unwrap());
    let foreign = br#"{"docs": [{"doc_id": "a", "offset": 0, "length": 9}, {"doc_id": "b",
        "offset": 6, "length": 3, "episode_index": "12", "more": [1]}], "patient_id": "f"}"#;
    let mut block = u32::try_from(foreign.len()).unwrap().to_le_bytes().to_vec();
    block.extend_from_slice(foreign);
    block.extend_from_slice("正文正".as_bytes());
    add("foreign", 0, &block);
    let json = serde_json::to_string(&patient::<ClinicalDoc>()).unwrap();
    add("json_lines", 2, format!("{json}\n{json}\n").as_bytes());
    add("json_array", 2, format!(" [{json} , {json}]").as_bytes());
    add(
        "csv",
        3,
        b"patient_id,doc_id,text,episode_index\na,1,\"x, \"\"y\"\"\nz\",4\nb,1,,\na,2,w,-1\n",
    );
    made
}

fn patient<D: TextDocument>() -> Patient<D> {
    let mut patient = Patient::new("合成\0\"\\\u{1}");
    patient.institution = "i".to_owned();
    for number in 0..3 {
        let mut labels = DocLabels::new(format!("d{number}"));
        labels.doc_type = "progress_note".to_owned();
        labels.episode_index = number;
        let texts = [format!("text {number} \u{1f9ec}\r\n"), "é".repeat(3)];
        patient.docs.push(D::from_parts(labels, texts));
    }
    patient
}
