//! DICOM files, and the documents of patient packs: any bytes are refused, or come back from what
//! is stored of them.
//!
//! The first byte says what the rest is: a file, a delta, or a template and a delta of which a zero
//! byte parts; or the text of a de-identification profile. Files are de-identified as well: what is
//! left of them can be stored.
#![no_main]

use bytes::Bytes;
use iac_adapters::dicom::{
    Attributes, DeidKey, DeidOption, DeidProfile, Deidentifier, DicomFile, Element, ElementValue,
    Tag,
};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

const EMPTY: &[u8] = br#"{"dataset":{},"file_meta":{}}"#;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((kind, rest)) = input.split_first() else { return };
        match kind % 4 {
            0 => file(rest),
            1 => documents(EMPTY, rest),
            3 => profile(rest),
            _ => {
                let middle = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                let (template, delta) = rest.split_at(middle);
                documents(template, delta.get(1..).unwrap_or_default());
            }
        }
    }
);

fn file(bytes: &[u8]) {
    let Ok(file) = DicomFile::parse(&Bytes::copy_from_slice(bytes), "input") else { return };
    let json = file.metadata_json();
    let found = Attributes::parse(EMPTY, json.as_bytes()).unwrap().to_data_set().unwrap();
    let pixels = Tag(0x7FE0, 0x0010);
    let source: Vec<Element> =
        file.data.elements().iter().filter(|element| element.tag != pixels).cloned().collect();
    assert!(same(&source, found.elements()), "{json}");
    deidentify(file);
}

fn deidentify(mut file: DicomFile) {
    const RULES: &str = r#"
        name = "fuzz"
        options = ["retain-modified-dates", "retain-safe-private", "clean-descriptors",
                   "clean-structured-content", "retain-patient-characteristics"]
    "#;
    let key = DeidKey::new(b"0123456789abcdef".to_vec()).unwrap();
    let profile = DeidProfile::parse(RULES, "rules").unwrap();
    Deidentifier::new(profile, key).deidentify(&mut file);
    let json = file.metadata_json();
    let found = Attributes::parse(EMPTY, json.as_bytes()).unwrap();
    assert_eq!(found.text(Tag(0x0012, 0x0062)), Some("YES"));
    // What could not be interpreted is gone.
    assert!(found.records().iter().all(|record| record["code"] == "lexical_form"), "{json}");
}

fn profile(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match DeidProfile::parse(text, "profile") {
        Ok(profile) => assert!(profile.options().count() <= DeidOption::ALL.len()),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

fn documents(template: &[u8], delta: &[u8]) {
    let Ok(attributes) = Attributes::parse(template, delta) else { return };
    if let Err(error) = attributes.to_data_set() {
        assert!(!error.to_string().is_empty());
    }
}

/// Whether elements are the same, apart from what makes lengths even.
fn same(ones: &[Element], others: &[Element]) -> bool {
    ones.len() == others.len()
        && ones.iter().zip(others).all(|(one, other)| {
            one.tag == other.tag
                && match (&one.value, &other.value) {
                    (ElementValue::Items(ones), ElementValue::Items(others)) => {
                        ones.len() == others.len()
                            && ones
                                .iter()
                                .zip(others)
                                .all(|(a, b)| same(a.elements(), b.elements()))
                    }
                    (ElementValue::Bytes(one), ElementValue::Bytes(other)) => {
                        one == other
                            || (one.len() == other.len() + 1 && one.starts_with(other))
                            || (other.len() == one.len() + 1 && other.starts_with(one))
                    }
                    _ => false,
                }
        })
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/iac-adapters/tests/data/dicom");
    let mut made = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(bytes) = std::fs::read(folder.join("in/00.dcm")) else { continue };
        if bytes.len() > 4096 {
            continue;
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let with = |kind: u8, rest: &[u8]| [&[kind][..], rest].concat();
        if let Ok(file) = DicomFile::parse(&Bytes::copy_from_slice(&bytes), "seed") {
            made.push((format!("{name}.delta"), with(1, file.metadata_json().as_bytes())));
        }
        made.push((format!("{name}.file"), with(0, &bytes)));
    }
    let rules = b"\x03name = \"t\"\noptions = [\"retain-uids\"]\n[elements]\nStudyID = \"hash\"\n";
    made.push(("profile".to_owned(), rules.to_vec()));
    made.push(("both".to_owned(), [&[2][..], EMPTY, &[0], EMPTY].concat()));
    made
}
