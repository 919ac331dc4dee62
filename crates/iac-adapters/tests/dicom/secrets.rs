//! What objects say of patients stays out of messages, whatever is wrong with a file.

use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element, OnBadInput, Tag, VR,
};

/// Part of every text and number of the object.
const SECRET: &str = "7771234";

/// An object that has its secret in elements of every sort.
fn object() -> Vec<u8> {
    let value = |prefix: &str| {
        let mut text = format!("{prefix}{SECRET}");
        if text.len() % 2 == 1 {
            text.push(' ');
        }
        text.into_bytes()
    };
    let mut elements = vec![
        Element::new(Tag(0x0008, 0x0005), VR::CS, value("X")),
        Element::new(Tag(0x0008, 0x0018), VR::UI, value("2.25")),
        Element::new(Tag(0x0008, 0x0060), VR::CS, value("M")),
        Element::new(Tag(0x0020, 0x000D), VR::UI, value("1.2.")),
        Element::new(Tag(0x0020, 0x000E), VR::UI, value("1.3.")),
        // None of these is what its representation wants.
        Element::new(Tag(0x0020, 0x0013), VR::IS, value("n")),
        Element::new(Tag(0x0018, 0x0050), VR::DS, value("x")),
        Element::new(Tag(0x0028, 0x0010), VR::US, value("")[..7].to_vec()),
        Element::new(Tag(0x0028, 0x0008), VR::IS, value("f")),
        Element::new(Tag(0x7FE0, 0x0010), VR::OW, value("p")),
    ];
    let texts = [VR::AE, VR::AS, VR::DA, VR::DT, VR::LO, VR::LT, VR::PN, VR::SH, VR::ST, VR::TM]
        .into_iter()
        .chain([VR::UC, VR::UR, VR::UT, VR::UN, VR::OB]);
    for (number, vr) in (0_u16..).zip(texts) {
        elements.push(Element::new(Tag(0x0011, 0x1000 + number), vr, value("S")));
    }
    DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap()
}

#[track_caller]
fn is_silent(text: &str) {
    assert!(!text.contains(SECRET), "{text}");
    // As numbers of bytes.
    let digits = SECRET.as_bytes();
    assert!(!text.contains(&format!("{digits:?}")), "{text}");
}

#[test]
fn messages_about_cut_and_altered_objects_hold_no_values() {
    let whole = object();
    let try_it = |bytes: Vec<u8>| {
        if let Err(error) = DicomFile::parse(&Bytes::from(bytes), "input") {
            is_silent(&format!("{error} {error:?}"));
        }
    };
    for end in 0..whole.len() {
        try_it(whole[..end].to_vec());
    }
    for position in 132..whole.len() {
        for value in [0, 9, b'Q', 0xFF] {
            let mut altered = whole.clone();
            altered[position] = value;
            try_it(altered);
        }
    }
    let file = DicomFile::parse(&whole.into(), "input").unwrap();
    is_silent(&format!("{file:?} {:?}", file.data));
}

#[test]
fn reports_headers_and_readers_hold_no_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rad.iac");
    let input = || [DicomInput::Bytes("input".to_owned(), object().into())];
    let builder = DicomPackBuilder::new().effort(1);
    let error = builder.build_from(&path, input()).unwrap_err();
    is_silent(&format!("{error} {error:?}"));
    let report = builder.clone().on_bad_input(OnBadInput::Keep).build_from(&path, input()).unwrap();
    is_silent(&format!("{:?} {:?}", report.kept, report.diagnostics));
    assert!(!report.malformed.is_empty());
    let codes = report.malformed.iter().flat_map(|input| &input.elements);
    is_silent(&format!("{:?}", codes.collect::<Vec<_>>()));
    let pack = DicomPackReader::open(&path).unwrap();
    is_silent(pack.reader().header().text());
    is_silent(&format!("{pack:?} {:?}", pack.attributes(0).unwrap()));
    let error = pack.read_pixels(0).unwrap_err();
    is_silent(&format!("{error} {error:?}"));
}
