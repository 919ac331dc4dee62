//! De-identification at import: what identifies a patient is nowhere in the pack.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DeidAction, DeidCheck, DeidKey, DeidProfile, Deidentifier, DicomFile, DicomInput,
    DicomInputs, DicomPackBuilder, DicomPackReader, Element, ElementValue, OnBadInput, Tag, VR,
};
use iac_codec::Limits;
use iac_codec::zstd::ZstdOptions;
use serde_json::Value;

use crate::support::has_codec;

/// Stands in every text that must go.
const MARK: &str = "ZQX";
/// Begins every UID that must go.
const ROOT: &str = "1.2.999.";
/// Every date that must go.
const DATE: &str = "19870913";
const CYRILLIC: &str = "Щукин";

fn key(text: &str) -> DeidKey {
    DeidKey::new(format!("{text:0>32}")).unwrap()
}

fn deidentifier(profile: &str, key_text: &str) -> Arc<Deidentifier> {
    let profile = DeidProfile::parse(&format!("name = \"t\"\n{profile}"), "p.toml").unwrap();
    Arc::new(Deidentifier::new(profile, key(key_text)))
}

fn text(tag: (u16, u16), vr: VR, value: impl AsRef<[u8]>) -> Element {
    let mut bytes = value.as_ref().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI || vr == VR::OB || vr == VR::UN { 0 } else { b' ' });
    }
    Element::new(Tag(tag.0, tag.1), vr, bytes)
}

fn sequence(tag: (u16, u16), items: Vec<Vec<Element>>) -> Element {
    let items = items.into_iter().map(DataSet::from_elements).collect();
    let mut element = Element::new(Tag(tag.0, tag.1), VR::SQ, Bytes::new());
    element.value = ElementValue::Items(items);
    element
}

fn number(tag: (u16, u16), value: u16) -> Element {
    Element::new(Tag(tag.0, tag.1), VR::US, value.to_le_bytes().to_vec())
}

/// An object with something that identifies its patient in each sort of place.
fn object(instance: u32, with_pixels: bool) -> DicomFile {
    let m = |place: &str| format!("{MARK}{place}");
    let uid = |place: &str| format!("{ROOT}{place}");
    let name = [&[0xC9_u8, 0xE3, 0xDA, 0xD8, 0xDD][..], b"^", m("NAME").as_bytes()].concat();
    let nested = |depth: u32| -> Element {
        let mut inner = vec![
            text((0x0010, 0x0010), VR::PN, m("DEEP")),
            text((0x0010, 0x0020), VR::LO, m("DEEPID")),
            text((0x0008, 0x1155), VR::UI, uid("7.1")),
            text((0x0009, 0x0010), VR::LO, m("CREATOR")),
            text((0x0009, 0x1001), VR::UN, m("PRIVATE")),
            text((0x0040, 0xA123), VR::PN, m("PERSON")),
            text((0x0002, 0x0016), VR::AE, m("DEEPAET")),
            text((0x0004, 0x1500), VR::CS, m("DEEPFILE")),
            text((0x0008, 0x0023), VR::DA, DATE),
        ];
        for level in 0..depth {
            let tag = if level % 2 == 0 { (0x0008, 0x1140) } else { (0x0008, 0x2112) };
            inner = vec![sequence(tag, vec![inner]), text((0x0020, 0x4000), VR::LT, m("LEVEL"))];
        }
        inner.remove(0)
    };
    let mut elements = vec![
        text((0x0008, 0x0000), VR::UL, [1, 0, 0, 0]),
        text((0x0008, 0x0005), VR::CS, "ISO_IR 144"),
        text((0x0008, 0x0008), VR::CS, "ORIGINAL\\PRIMARY"),
        text((0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.4"),
        text((0x0008, 0x0018), VR::UI, uid(&format!("3.{instance}"))),
        text((0x0008, 0x0020), VR::DA, DATE),
        text((0x0008, 0x0022), VR::DA, DATE),
        text((0x0008, 0x002A), VR::DT, format!("{DATE}120000.5+0100")),
        text((0x0008, 0x0030), VR::TM, "113355"),
        text((0x0008, 0x0050), VR::SH, m("ACC")),
        text((0x0008, 0x0060), VR::CS, "MR"),
        text((0x0008, 0x0070), VR::LO, "ACME"),
        text((0x0008, 0x0080), VR::LO, m("HOSPITAL")),
        text((0x0008, 0x0090), VR::PN, m("REFERRER")),
        text((0x0008, 0x1030), VR::LO, m("STUDY")),
        text((0x0008, 0x103E), VR::LO, m("SERIES")),
        text((0x0008, 0x1090), VR::LO, format!("Model\0{}", m("HIDDEN"))),
        text((0x0008, 0x1190), VR::UR, format!("http://{}/x", m("HOST"))),
        nested(6),
        text((0x0010, 0x0010), VR::PN, &name),
        text((0x0010, 0x0020), VR::LO, m("ID")),
        text((0x0010, 0x0021), VR::LO, m("ISSUER")),
        text((0x0010, 0x0030), VR::DA, DATE),
        text((0x0010, 0x0040), VR::CS, "F"),
        text((0x0010, 0x1000), VR::LO, format!("{}\\{}", m("OTHER1"), m("OTHER2"))),
        text((0x0010, 0x1010), VR::AS, "094Y"),
        sequence((0x0010, 0x1002), vec![vec![text((0x0010, 0x0020), VR::LO, m("OTHERID"))]]),
        // A decimal string and numbers that are none: records beside the data set.
        text((0x0018, 0x0050), VR::DS, m("SLICE")),
        text((0x0018, 0x0080), VR::DS, "2.500000"),
        text((0x0018, 0x1000), VR::LO, m("SERIAL")),
        text((0x0018, 0x9073), VR::FD, m("FD")),
        text((0x0020, 0x000D), VR::UI, uid("1")),
        text((0x0020, 0x000E), VR::UI, uid("2")),
        text((0x0020, 0x0010), VR::SH, m("STUDYID")),
        text((0x0020, 0x0013), VR::IS, instance.to_string()),
        text((0x0020, 0x0052), VR::UI, uid("4")),
        // Unknown to every dictionary, or with another representation than that says.
        text((0x0018, 0xFFF1), VR::LO, m("NOBODY")),
        text((0x0020, 0x0100), VR::UN, m("UNKNOWN")),
        text((0x0028, 0x0034), VR::LO, m("ASPECT")),
        text((0x0029, 0x0010), VR::LO, "ACME 1.0"),
        text((0x0029, 0x1010), VR::LO, m("PRIVATETEXT")),
        sequence((0x0029, 0x1011), vec![vec![text((0x0010, 0x0010), VR::PN, m("PRIVATESQ"))]]),
        text((0x0029, 0x1012), VR::OB, m("PRIVATEBYTES")),
        text((0x0029, 0x1020), VR::DS, "1.25"),
        text((0x0040, 0x0275), VR::SQ, m("GARBAGE")),
        text((0x0042, 0x0010), VR::ST, m("TITLE")),
        text((0x0042, 0x0011), VR::OB, m("DOCUMENT")),
        text((0x5000, 0x2500), VR::LO, m("CURVE")),
        text((0x6000, 0x0022), VR::LO, m("OVERLAYTEXT")),
        text((0x6000, 0x1500), VR::LO, m("OVERLAYLABEL")),
        text((0x6000, 0x3000), VR::OB, m("OVERLAYDATA")),
        text((0x6000, 0x4000), VR::LT, m("OVERLAYCOMMENT")),
        text((0xFFFC, 0xFFFC), VR::OB, m("PADDING")),
    ];
    if with_pixels {
        elements.extend([
            number((0x0028, 0x0002), 1),
            text((0x0028, 0x0004), VR::CS, "MONOCHROME2"),
            number((0x0028, 0x0010), 4),
            number((0x0028, 0x0011), 4),
            number((0x0028, 0x0100), 16),
            number((0x0028, 0x0101), 12),
            number((0x0028, 0x0102), 11),
            number((0x0028, 0x0103), 0),
        ]);
        // Bits above the stored ones hold an overlay; bytes behind the samples a name.
        let mut samples: Vec<u8> =
            (0..16_u16).flat_map(|it| ((it * 3) | 0x5000).to_le_bytes()).collect();
        samples.extend(m("BEHINDPIXELS").as_bytes());
        elements.push(text((0x7FE0, 0x0010), VR::OW, samples));
    }
    let mut file = DicomFile::new(DataSet::from_elements(elements));
    let mut preamble = [0; 128];
    preamble[..MARK.len()].copy_from_slice(MARK.as_bytes());
    file.preamble = Some(Bytes::copy_from_slice(&preamble));
    file.meta = DataSet::from_elements(vec![
        text((0x0002, 0x0002), VR::UI, "1.2.840.10008.5.1.4.1.1.4"),
        text((0x0002, 0x0003), VR::UI, uid(&format!("3.{instance}"))),
        text((0x0002, 0x0012), VR::UI, uid("99")),
        text((0x0002, 0x0013), VR::SH, m("IMPL")),
        text((0x0002, 0x0016), VR::AE, m("AET")),
        text((0x0002, 0x0100), VR::UI, uid("98")),
        text((0x0002, 0x0102), VR::OB, m("METAPRIVATE")),
    ]);
    file
}

fn inputs(folder: &Path, count: u32) -> Vec<DicomInput> {
    let with_pixels = has_codec("jxl");
    (0..count)
        .map(|instance| {
            let path = folder.join(format!("{MARK}-file-{instance}.dcm"));
            // Some without pixels, so that both ways are gone.
            let file = object(instance, with_pixels && instance % 2 == 0);
            std::fs::write(&path, file.to_bytes().unwrap()).unwrap();
            DicomInput::File(path)
        })
        .collect()
}

fn build(folder: &Path, name: &str, deidentifier: Option<Arc<Deidentifier>>) -> Vec<u8> {
    let target = folder.join(name);
    let sources = tempfile::tempdir().unwrap();
    let builder = DicomPackBuilder::new().effort(1).deidentify(deidentifier);
    builder.build_from(&target, inputs(sources.path(), 4)).unwrap();
    std::fs::read(&target).unwrap()
}

/// Everything in a pack: the file, the documents in it, what those hold in base64, the samples.
fn all_bytes(path: &Path) -> Vec<Vec<u8>> {
    let mut found = vec![std::fs::read(path).unwrap()];
    let pack = DicomPackReader::open(path).unwrap();
    let codec = ZstdOptions::new(3).codec().unwrap();
    let whole = found[0].clone();
    // Every frame, wherever it lies: templates, deltas, bits beside payloads.
    for start in 0..whole.len().saturating_sub(4) {
        if whole[start..].starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) {
            for end in [whole.len()] {
                if let Ok(text) = codec.decode_bytes(&whole[start..end], &Limits::default()) {
                    found.push(text);
                }
            }
        }
    }
    for series in pack.series() {
        found.push(pack.template_json(series).unwrap().to_string().into_bytes());
    }
    for row in 0..pack.instance_count() {
        found.push(pack.delta_json(row).unwrap().to_string().into_bytes());
        if pack.has_pixels(row).unwrap() {
            found.push(pack.read_pixels(row).unwrap().samples.to_le_bytes());
        }
    }
    let mut decoded = Vec::new();
    for bytes in &found {
        if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
            unpack(&value, &mut decoded);
        }
    }
    found.extend(decoded);
    found
}

fn unpack(value: &Value, into: &mut Vec<Vec<u8>>) {
    match value {
        Value::String(text) => {
            if let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(text) {
                into.push(bytes);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| unpack(value, into)),
        Value::Object(members) => members.values().for_each(|value| unpack(value, into)),
        _ => {}
    }
}

fn holds(haystack: &[Vec<u8>], needle: &[u8]) -> bool {
    haystack.iter().any(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
}

#[test]
fn nothing_that_identifies_is_anywhere_in_the_pack() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), "plain.rad.iac", None);
    build(folder.path(), "deid.rad.iac", Some(deidentifier("", "k")));
    let (plain, deid) = (
        all_bytes(&folder.path().join("plain.rad.iac")),
        all_bytes(&folder.path().join("deid.rad.iac")),
    );
    let in_charset = [0xC9_u8, 0xE3, 0xDA, 0xD8, 0xDD];
    for needle in [
        MARK.as_bytes(),
        ROOT.as_bytes(),
        DATE.as_bytes(),
        CYRILLIC.as_bytes(),
        b"113355",
        b"094Y",
        b"ACME 1.0",
    ] {
        // The search finds them where they are.
        assert!(holds(&plain, needle), "{}", String::from_utf8_lossy(needle));
        assert!(!holds(&deid, needle), "{}", String::from_utf8_lossy(needle));
    }
    assert!(!holds(&deid, &in_charset));
    // What says nothing about anybody is still there.
    for kept in ["ACME", "\"MR\"", "ISO_IR 144", "Model", "2.500000"] {
        assert!(holds(&deid, kept.as_bytes()), "{kept}");
    }
    let pack = DicomPackReader::open(folder.path().join("deid.rad.iac")).unwrap();
    let check = DeidCheck::run(&pack, None).unwrap();
    assert!(check.is_clean(), "{:?}", check.findings);
    assert_eq!(check.objects, 4);
    if has_codec("jxl") {
        let row = (0..4).find(|row| pack.has_pixels(*row).unwrap()).unwrap();
        let samples = pack.read_pixels(row).unwrap().samples;
        let wanted: Vec<f64> = (0..16).map(|it| f64::from(it * 3)).collect();
        assert_eq!(samples.iter().collect::<Vec<f64>>(), wanted);
    }
}

#[test]
fn a_pack_that_still_holds_identifiers_is_told_place_by_place() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), "plain.rad.iac", None);
    let pack = DicomPackReader::open(folder.path().join("plain.rad.iac")).unwrap();
    let check = DeidCheck::run(&pack, None).unwrap();
    let found: BTreeSet<(&str, &str)> =
        check.findings.iter().map(|it| (it.place.as_str(), it.code)).collect();
    for wanted in [
        ("00100010", "person_name"),
        ("00100020", "attribute"),
        ("00080020", "date"),
        ("0020000D", "uid"),
        ("00291010", "private"),
        ("00180050", "record"),
        ("00020016", "file_meta"),
        ("00020003", "file_meta"),
        ("00120062", "mark"),
        ("template of series 0", "preamble"),
        ("study_uid", "column"),
        ("sop_instance_uid", "column"),
        ("series_description", "column"),
        ("60004000", "attribute"),
        ("0018FFF1", "attribute"),
        ("00082112/0/00081140/0/00204000", "attribute"),
        ("00081090", "unsound"),
    ] {
        assert!(found.contains(&wanted), "{wanted:?} is not in {found:?}");
    }
    if has_codec("jxl") {
        assert!(found.contains(&("iac.bits", "unused_bits")));
    }
    // Findings hold no values.
    assert!(check.findings.iter().all(|it| !it.place.contains(MARK)));
}

#[test]
fn the_same_key_gives_the_same_bytes_and_another_key_other_identifiers() {
    let folder = tempfile::tempdir().unwrap();
    let one = build(folder.path(), "a.rad.iac", Some(deidentifier("", "k")));
    let same = build(folder.path(), "b.rad.iac", Some(deidentifier("", "k")));
    assert_eq!(one, same);
    build(folder.path(), "c.rad.iac", Some(deidentifier("", "other")));
    let uids = |name: &str| -> BTreeSet<String> {
        let pack = DicomPackReader::open(folder.path().join(name)).unwrap();
        (0..4)
            .flat_map(|row| {
                let it = pack.attributes(row).unwrap();
                [Tag(0x0008, 0x0018), Tag(0x0020, 0x000D), Tag(0x0020, 0x0052), Tag(0x0010, 0x0020)]
                    .map(|tag| it.text(tag).unwrap().to_owned())
            })
            .collect()
    };
    assert_eq!(uids("a.rad.iac").len(), 4 + 3);
    assert!(uids("a.rad.iac").is_disjoint(&uids("c.rad.iac")));
}

fn deidentified(profile: &str, file: &DicomFile) -> DataSet {
    let mut file = file.clone();
    deidentifier(profile, "k").deidentify(&mut file);
    file.data
}

fn shown(data: &DataSet, group: u16, element: u16) -> Option<String> {
    let bytes = data.bytes(Tag(group, element))?;
    Some(String::from_utf8_lossy(bytes).trim_matches([' ', '\0']).to_owned())
}

#[test]
fn references_agree_over_sequences_and_files() {
    let target = format!("{ROOT}3.1");
    let mut referring = object(2, false);
    referring.data.put(sequence(
        (0x0008, 0x1140),
        vec![vec![
            text((0x0008, 0x1150), VR::UI, "1.2.840.10008.5.1.4.1.1.4"),
            text((0x0008, 0x1155), VR::UI, &target),
        ]],
    ));
    let referred = deidentified("", &object(1, false));
    let referring = deidentified("", &referring);
    let item = &referring.get(Tag(0x0008, 0x1140)).unwrap().items().unwrap()[0];
    assert_eq!(shown(item, 0x0008, 0x1155), shown(&referred, 0x0008, 0x0018));
    assert_eq!(shown(item, 0x0008, 0x1150).unwrap(), "1.2.840.10008.5.1.4.1.1.4");
    assert_eq!(shown(&referring, 0x0020, 0x000D), shown(&referred, 0x0020, 0x000D));
    assert_eq!(shown(&referred, 0x0008, 0x0016).unwrap(), "1.2.840.10008.5.1.4.1.1.4");
}

#[test]
fn dates_of_a_patient_move_together_and_those_of_another_otherwise() {
    let profile = "options = [\"retain-modified-dates\"]";
    let day = |text: &str| {
        let days = |y: i64, m: i64, d: i64| {
            // Howard Hinnant's formula, written down once more.
            let y = if m <= 2 { y - 1 } else { y };
            let (era, yoe) = (y.div_euclid(400), y.rem_euclid(400));
            let doy = (153 * ((m + 9) % 12) + 2) / 5 + d - 1;
            era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy
        };
        let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
        days(part(0..4), part(4..6), part(6..8))
    };
    let mut file = object(1, false);
    file.data.put(text((0x0008, 0x0021), VR::DA, "19880301"));
    file.data.put(text((0x0008, 0x0025), VR::DA, "JUNE"));
    let moved = deidentified(profile, &file);
    let study = shown(&moved, 0x0008, 0x0020).unwrap();
    assert!(day(&study) < day(DATE) && day(&study) >= day(DATE) - 3650);
    let series = shown(&moved, 0x0008, 0x0021).unwrap();
    assert_eq!(day(&series) - day(&study), day("19880301") - day(DATE));
    assert_eq!(shown(&moved, 0x0008, 0x002A).unwrap(), format!("{study}120000.5+0100"));
    assert_eq!(shown(&moved, 0x0008, 0x0030).unwrap(), "113355");
    assert_eq!(shown(&moved, 0x0008, 0x0025).unwrap(), "");
    assert_eq!(shown(&moved, 0x0010, 0x0030).unwrap(), "", "birth dates do not stay");
    assert_eq!(shown(&moved, 0x0028, 0x0303).unwrap(), "MODIFIED");
    // Another spelling is the same patient.
    let mut same = object(1, false);
    same.data.put(text((0x0010, 0x0020), VR::LO, format!(" {MARK}id")));
    assert_eq!(shown(&deidentified(profile, &same), 0x0008, 0x0020).unwrap(), study);
    let mut other = object(1, false);
    other.data.put(text((0x0010, 0x0020), VR::LO, "SOMEBODY ELSE"));
    assert_ne!(shown(&deidentified(profile, &other), 0x0008, 0x0020).unwrap(), study);
    let kept = deidentified("options = [\"retain-full-dates\"]", &file);
    assert_eq!(shown(&kept, 0x0008, 0x0020).unwrap(), DATE);
    assert_eq!(shown(&kept, 0x0028, 0x0303).unwrap(), "UNMODIFIED");
}

#[test]
fn options_and_rules_do_what_they_say_and_nothing_more() {
    let file = object(1, false);
    let data = deidentified(
        r#"options = ["retain-patient-characteristics", "retain-institution-identity",
            "retain-device-identity", "retain-safe-private", "clean-descriptors"]
        [patient]
        prefix = "T-"
        age-cap = 89
        [descriptors]
        vocabulary = ["zqxstudy"]
        [private]
        safe = false
        allow = [{ creator = "ACME 1.0", group = "0029", elements = ["20"] }]
        [elements]
        AccessionNumber = "hash"
        ReferringPhysicianName = { replace = "NOBODY" }
        StudyID = "remove"
        "#,
        &file,
    );
    assert_eq!(shown(&data, 0x0010, 0x0040).unwrap(), "F");
    assert_eq!(shown(&data, 0x0010, 0x1010).unwrap(), "090Y");
    assert_eq!(shown(&data, 0x0008, 0x0080).unwrap(), "ZQXHOSPITAL");
    assert_eq!(shown(&data, 0x0018, 0x1000).unwrap(), "ZQXSERIAL");
    assert_eq!(shown(&data, 0x0008, 0x1030).unwrap(), "ZQXSTUDY", "its words are known");
    assert_eq!(shown(&data, 0x0008, 0x103E), None, "its words are not");
    assert_eq!(shown(&data, 0x0029, 0x0010).unwrap(), "ACME 1.0");
    assert_eq!(shown(&data, 0x0029, 0x1020).unwrap(), "1.25");
    assert_eq!(data.get(Tag(0x0029, 0x1010)), None);
    assert_eq!(shown(&data, 0x0008, 0x0090).unwrap(), "NOBODY");
    assert_eq!(shown(&data, 0x0020, 0x0010), None);
    let hash = shown(&data, 0x0008, 0x0050).unwrap();
    assert!(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(shown(&data, 0x0010, 0x0020).unwrap().starts_with("T-"));
    assert_eq!(shown(&data, 0x0010, 0x0010), shown(&data, 0x0010, 0x0020));
    let codes = data.get(Tag(0x0012, 0x0064)).unwrap().items().unwrap();
    let codes: Vec<String> =
        codes.iter().map(|item| shown(item, 0x0008, 0x0100).unwrap()).collect();
    assert_eq!(codes, ["113100", "113111", "113109", "113112", "113108", "113105"]);
    assert_eq!(shown(&data, 0x0012, 0x0062).unwrap(), "YES");
    let named = deidentified("[elements]\nPatientName = \"keep\"", &file);
    assert_eq!(shown(&named, 0x0012, 0x0062).unwrap(), "NO");
}

#[test]
fn structured_content_stays_without_texts_and_names() {
    let concept = |code: &str| {
        let item =
            vec![text((0x0008, 0x0100), VR::SH, code), text((0x0008, 0x0102), VR::SH, "DCM")];
        sequence((0x0040, 0xA043), vec![item])
    };
    let item = |kind: &str, code: &str, more: Element| {
        vec![text((0x0040, 0xA040), VR::CS, kind), concept(code), more]
    };
    let mut file = object(1, false);
    file.data.put(sequence(
        (0x0040, 0xA730),
        vec![
            item("TEXT", "121071", text((0x0040, 0xA160), VR::UT, "ZQXTEXT")),
            item("PNAME", "121008", text((0x0040, 0xA123), VR::PN, "ZQXPERSON")),
            item("NUM", "121033", text((0x0040, 0xA30A), VR::DS, "94")),
            item("NUM", "121206", text((0x0040, 0xA30A), VR::DS, "12.5")),
            item("UIDREF", "112040", text((0x0040, 0xA124), VR::UI, "1.2.999.5")),
            item(
                "CONTAINER",
                "121070",
                sequence(
                    (0x0040, 0xA730),
                    vec![item("TEXT", "1", text((0x0040, 0xA160), VR::UT, "ZQX"))],
                ),
            ),
        ],
    ));
    let data = deidentified("options = [\"clean-structured-content\"]", &file);
    let items = data.get(Tag(0x0040, 0xA730)).unwrap().items().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(shown(&items[0], 0x0040, 0xA30A).unwrap(), "12.5");
    assert!(shown(&items[1], 0x0040, 0xA124).unwrap().starts_with("2.25."));
    assert!(items[2].get(Tag(0x0040, 0xA730)).is_none());
    let basic = deidentified("", &file);
    let items = basic.get(Tag(0x0040, 0xA730)).unwrap().items().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(shown(&items[0], 0x0040, 0xA160).unwrap(), "REMOVED");
}

#[test]
fn what_was_done_is_counted_without_values() {
    let folder = tempfile::tempdir().unwrap();
    let sources = tempfile::tempdir().unwrap();
    let target = folder.path().join("a.rad.iac");
    let builder = DicomPackBuilder::new().effort(1).deidentify(deidentifier("", "k"));
    let report = builder.build_from(&target, inputs(sources.path(), 3)).unwrap();
    let deid = report.deidentification.unwrap();
    assert_eq!(deid.objects, 3);
    let count = |name: &str, action| deid.elements.get(&(name.to_owned(), action)).copied();
    assert_eq!(count("00100020", DeidAction::Pseudonymised), Some(6), "once in an item");
    assert_eq!(count("0020000D", DeidAction::Remapped), Some(3));
    assert_eq!(count("00180050", DeidAction::Unsound), Some(3));
    assert_eq!(count("unknown", DeidAction::Removed), Some(3));
    assert_eq!(count("0029xxxx", DeidAction::Removed), Some(15));
    let pack = DicomPackReader::open(&target).unwrap();
    let header = pack.reader().header();
    let told = header.get("iac_deid").unwrap();
    assert_eq!(told["objects"], 3);
    assert_eq!(told["options"], serde_json::json!([]));
    let extensions = header.get("extensions").unwrap().as_array().unwrap();
    assert!(extensions.contains(&"iac.dicom_deid".into()));
    assert!(!deid.to_json().to_string().contains("SMITH"));
}

#[test]
fn burned_in_text_is_told_or_refused() {
    if !has_codec("jxl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut file = object(0, true);
    file.data.put(text((0x0028, 0x0301), VR::CS, "YES"));
    let input = || {
        let bytes = Bytes::from(file.to_bytes().unwrap());
        [DicomInput::Bytes("one".to_owned(), bytes)]
    };
    let run = |profile: &str, name: &str| {
        DicomPackBuilder::new()
            .effort(1)
            .deidentify(deidentifier(profile, "k"))
            .build_from(folder.path().join(name), input())
    };
    let report = run("", "a.rad.iac").unwrap().deidentification.unwrap();
    assert_eq!(report.burned_in.len(), 1);
    let error = run("[pixels]\nburned-in = \"refuse\"", "b.rad.iac").unwrap_err().to_string();
    assert!(error.contains("burned into its pixels (stated)"), "{error}");
    assert!(!folder.path().join("b.rad.iac").exists());
}

#[test]
fn left_justified_samples_lose_the_bits_beside_them() {
    if !has_codec("jxl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut file = object(0, true);
    file.data.put(number((0x0028, 0x0102), 15));
    let samples: Vec<u8> = (0..16_u16).flat_map(|it| ((it << 4) | 0x5).to_le_bytes()).collect();
    file.data.put(Element::new(Tag(0x7FE0, 0x0010), VR::OW, samples));
    let bytes = Bytes::from(file.to_bytes().unwrap());
    let target = folder.path().join("a.rad.iac");
    DicomPackBuilder::new()
        .effort(1)
        .deidentify(deidentifier("", "k"))
        .build_from(&target, [DicomInput::Bytes("one".to_owned(), bytes)])
        .unwrap();
    let pixels = DicomPackReader::open(&target).unwrap().read_pixels(0).unwrap();
    assert_eq!(
        pixels.samples.iter().collect::<Vec<f64>>(),
        (0..16).map(|it| f64::from(it << 4)).collect::<Vec<f64>>()
    );
}

#[test]
fn odd_values_are_made_harmless_and_pass_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = object(1, false);
    for element in [
        text((0x0020, 0x000D), VR::UI, format!("{ROOT}1\\{ROOT}2")),
        text((0x0008, 0x0060), VR::CS, "\\\\"),
        text((0x0020, 0x0012), VR::IS, "\\ "),
        text((0x0018, 0x0050), VR::DS, "1.5\\\\2"),
        // A date of birth that the table does not list.
        text((0x0010, 0x0033), VR::LO, "ZQX 12 Nisan 5710"),
        text((0x0008, 0x0005), VR::CS, "ISOLDE ZQX"),
        Element::new(Tag(0x0012, 0x0010), VR::AT, b"ZQXZQXZQ".to_vec()),
        Element::new(Tag(0x0028, 0x0106), VR::OB, b"ZQX^JOHN".to_vec()),
    ] {
        file.data.put(element);
    }
    let bytes = Bytes::from(file.to_bytes().unwrap());
    let path = folder.path().join("p.rad.iac");
    DicomPackBuilder::new()
        .deidentify(deidentifier("", "k"))
        .build_from(&path, [DicomInput::Bytes("one".to_owned(), bytes)])
        .unwrap();
    let pack = DicomPackReader::open(&path).unwrap();
    let check = DeidCheck::run(&pack, None).unwrap();
    assert!(check.is_clean(), "{:?}", check.findings);
    assert!(!holds(&all_bytes(&path), b"ZQX"));
    let data = pack.data_set(0).unwrap();
    for (group, element) in [(0x0010, 0x0033), (0x0020, 0x0012), (0x0018, 0x0050), (0x0028, 0x0106)]
    {
        assert_eq!(shown(&data, group, element), None);
    }
}

#[test]
fn packs_by_patient_are_named_by_pseudonyms_and_maps_tell_who_is_who() {
    let folder = tempfile::tempdir().unwrap();
    inputs(folder.path(), 2);
    let profile =
        DeidProfile::parse("name = \"t\"\noptions = [\"retain-modified-dates\"]", "p").unwrap();
    let deidentifier = Arc::new(Deidentifier::new(profile, key("k")).recording());
    let found = DicomInputs::find(&[folder.path().to_owned()]).unwrap();
    let grouped = found.by_patient(None, &iac_ops::NoProgress).unwrap();
    let patient = grouped.patients.into_iter().next().unwrap();
    let name = deidentifier.pack_name(&patient.name);
    let target = folder.path().join("p.rad.iac");
    DicomPackBuilder::new()
        .effort(1)
        .on_bad_input(OnBadInput::Stop)
        .deidentify(Arc::clone(&deidentifier))
        .build_from(&target, patient.inputs)
        .unwrap();
    let pack = DicomPackReader::open(&target).unwrap();
    let attributes = pack.attributes(0).unwrap();
    assert_eq!(attributes.text(Tag(0x0010, 0x0020)).unwrap(), name);
    let map = folder.path().join("map.json");
    deidentifier.write_map(&map).unwrap();
    let map: Value = serde_json::from_slice(&std::fs::read(&map).unwrap()).unwrap();
    assert_eq!(map["patients"][0]["patient_id"], "ZQXID");
    assert_eq!(map["patients"][0]["pseudonym"], name.as_str());
    assert!(map["patients"][0]["days"].as_i64().unwrap() < 0);
    let study = attributes.text(Tag(0x0020, 0x000D)).unwrap();
    assert_eq!(map["uids"][format!("{ROOT}1")], study);
    assert!(
        Deidentifier::new(DeidProfile::new(), key("k")).write_map(folder.path().join("m")).is_err()
    );
}

#[test]
fn real_cases_pass_the_check_and_their_exports_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut built = 0;
    for (name, case, _) in crate::support::cases() {
        for (number, profile) in ["", "options = [\"retain-modified-dates\", \"clean-structured-content\", \"retain-patient-characteristics\"]"].iter().enumerate() {
            let target = folder.path().join(format!("{name}-{number}.rad.iac"));
            let sources = crate::support::inputs(&case).into_iter().map(DicomInput::File);
            let builder = DicomPackBuilder::new().effort(1).deidentify(deidentifier(profile, "k"));
            if builder.build_from(&target, sources).is_err() {
                continue;
            }
            built += 1;
            let pack = DicomPackReader::open(&target).unwrap();
            let check = DeidCheck::run(&pack, None).unwrap();
            assert!(check.is_clean(), "{name}: {:?}", check.findings);
        }
    }
    assert!(built > if has_codec("jxl") { 100 } else { 10 }, "{built}");
}

#[test]
fn altered_objects_end_in_metadata_without_spellings_that_nobody_understands() {
    let deidentifier = deidentifier(
        r#"options = ["retain-modified-dates", "retain-safe-private", "clean-descriptors",
            "clean-structured-content", "retain-patient-characteristics", "retain-device-identity"]
        [private]
        allow = [{ creator = "ACME 1.0", group = "0029", elements = ["10", "11", "12", "20"] }]
        [descriptors]
        vocabulary = ["zqxstudy", "zqxlevel"]
        "#,
        "k",
    );
    let whole = object(1, false).to_bytes().unwrap();
    let mut state = 1_u64;
    let mut read = 0;
    for _ in 0..4000 {
        let mut altered = whole.clone();
        for _ in 0..3 {
            // A linear congruential generator is random enough.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let place = 128 + (state >> 33) as usize % (whole.len() - 128);
            altered[place] = (state >> 24) as u8;
        }
        let Ok(mut file) = DicomFile::parse(&Bytes::from(altered), "altered") else { continue };
        read += 1;
        deidentifier.deidentify(&mut file);
        let json: Value = serde_json::from_str(&file.metadata_json()).unwrap();
        let errors = json["errors"].as_array().cloned().unwrap_or_default();
        assert!(errors.iter().all(|record| record["code"] == "lexical_form"), "{errors:?}");
        assert_eq!(json["dataset"]["00120062"]["Value"][0], "YES");
        for gone in ["00080050", "00101000", "00102000", "60004000", "00080000"] {
            assert!(json["dataset"].get(gone).is_none_or(|it| it.get("Value").is_none()), "{gone}");
        }
    }
    assert!(read > 500, "{read}");
}

#[test]
fn public_files_pass_the_check() {
    let Some(corpus) = std::env::var_os("IAC_CORPUS") else {
        println!("not run: IAC_CORPUS is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut open = vec![std::path::PathBuf::from(corpus)];
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    let (mut built, mut refused) = (0, 0);
    for (number, file) in files.iter().enumerate() {
        let Ok(bytes) = std::fs::read(file) else { continue };
        if bytes.get(128..132) != Some(b"DICM") {
            continue;
        }
        let target = folder.path().join(format!("{number}.rad.iac"));
        let builder = DicomPackBuilder::new().effort(1).deidentify(deidentifier("", "k"));
        let Ok(report) = builder.build_from(&target, [DicomInput::File(file.clone())]) else {
            refused += 1;
            continue;
        };
        built += 1;
        let pack = DicomPackReader::open(&target).unwrap();
        let check = DeidCheck::run(&pack, None).unwrap();
        assert!(check.is_clean(), "{}: {:?}", file.display(), check.findings);
        let unsound: Vec<&String> = report
            .deidentification
            .as_ref()
            .unwrap()
            .elements
            .keys()
            .filter(|(_, action)| *action == DeidAction::Unsound)
            .map(|(tag, _)| tag)
            .collect();
        println!("{} unsound {unsound:?}", file.file_name().unwrap().display());
        std::fs::remove_file(&target).unwrap();
    }
    println!("{built} packs, {refused} refused");
}
