//! Objects that tests of frames make, and packs of them.

use std::path::Path;

use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DicomBuildReport, DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element,
    ElementValue, ExportOptions, ExportSyntax, PayloadCodec, Tag, VR,
};
use iac_reader::PackReader;
use tempfile::TempDir;

use crate::support::has_codec;

pub(crate) const PIXELS: Tag = Tag(0x7FE0, 0x0010);
pub(crate) const FRAMES: Tag = Tag(0x0028, 0x0008);
pub(crate) const PER_FRAME: Tag = Tag(0x5200, 0x9230);

pub(crate) fn text(tag: Tag, vr: VR, text: &str) -> Element {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

pub(crate) fn word(tag: Tag, number: u16) -> Element {
    Element::new(tag, VR::US, number.to_le_bytes().to_vec())
}

pub(crate) fn sequence(tag: Tag, items: Vec<Vec<Element>>) -> Element {
    let mut element = Element::new(tag, VR::SQ, Vec::new());
    element.value = ElementValue::Items(items.into_iter().map(DataSet::from_elements).collect());
    element
}

/// How the samples of a test object are described.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) size: [u16; 2],
    pub(crate) channels: u16,
    pub(crate) allocated: u16,
    pub(crate) stored: u16,
    pub(crate) signed: bool,
}

pub(crate) const CT: Form =
    Form { size: [8, 10], channels: 1, allocated: 16, stored: 12, signed: true };

pub(crate) fn object(number: u32, form: Form, frames: Option<&str>, pixels: Vec<u8>) -> DataSet {
    let mut elements = vec![
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.7"),
        text(Tag(0x0008, 0x0018), VR::UI, &format!("1.2.3.{number}")),
        text(Tag(0x0008, 0x0060), VR::CS, "OT"),
        text(Tag(0x0020, 0x000D), VR::UI, "1.2.3"),
        text(Tag(0x0020, 0x000E), VR::UI, "1.2.3.4"),
        text(Tag(0x0020, 0x0013), VR::IS, &number.to_string()),
        word(Tag(0x0028, 0x0002), form.channels),
        text(Tag(0x0028, 0x0004), VR::CS, if form.channels == 3 { "RGB" } else { "MONOCHROME2" }),
        word(Tag(0x0028, 0x0010), form.size[0]),
        word(Tag(0x0028, 0x0011), form.size[1]),
        word(Tag(0x0028, 0x0100), form.allocated),
        word(Tag(0x0028, 0x0101), form.stored),
        word(Tag(0x0028, 0x0102), form.stored - 1),
        word(Tag(0x0028, 0x0103), form.signed.into()),
        Element::new(PIXELS, if form.allocated > 8 { VR::OW } else { VR::OB }, pixels),
    ];
    if let Some(frames) = frames {
        elements.push(text(FRAMES, VR::IS, frames));
    }
    if form.channels == 3 {
        elements.push(word(Tag(0x0028, 0x0006), 0));
    }
    DataSet::from_elements(elements)
}

/// Samples that compress, are never all the same, and fit so many bits.
pub(crate) fn samples(form: Form, frames: usize) -> Vec<u8> {
    let per_frame =
        usize::from(form.size[0]) * usize::from(form.size[1]) * usize::from(form.channels);
    let count = per_frame * frames;
    let value = |n: usize| (n * 7 + n / per_frame * 131) as u32 % (1 << form.stored.min(31));
    match form.allocated {
        8 => (0..count).map(|n| value(n).to_le_bytes()[0]).collect(),
        16 => (0..count)
            .flat_map(|n| {
                let mut word = value(n) as u16;
                if form.signed && word >> (form.stored - 1) & 1 == 1 {
                    word |= !((1_u32 << form.stored) - 1) as u16;
                }
                word.to_le_bytes()
            })
            .collect(),
        32 => (0..count).flat_map(|n| (value(n) << 1 | 0x8000_0000).to_le_bytes()).collect(),
        other => panic!("{other} bits"),
    }
}

pub(crate) fn with(mut data: DataSet, elements: Vec<Element>) -> DataSet {
    elements.into_iter().for_each(|element| data.put(element));
    data
}

pub(crate) fn input(data: DataSet) -> DicomInput {
    let bytes = DicomFile::new(data).to_bytes().unwrap();
    DicomInput::Bytes("test".to_owned(), bytes.into())
}

pub(crate) struct Made {
    pub(crate) pack: DicomPackReader,
    pub(crate) report: DicomBuildReport,
    pub(crate) folder: TempDir,
}

pub(crate) fn try_build(
    builder: &DicomPackBuilder,
    inputs: Vec<DicomInput>,
) -> iac_adapters::Result<Made> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rad.iac");
    let report = builder.build_from(&path, inputs)?;
    let pack = DicomPackReader::open(&path)?;
    Ok(Made { pack, report, folder })
}

pub(crate) fn build(builder: &DicomPackBuilder, inputs: Vec<DicomInput>) -> Made {
    try_build(builder, inputs).unwrap()
}

/// A builder that needs no native library.
pub(crate) fn plain() -> DicomPackBuilder {
    DicomPackBuilder::new().payload(PayloadCodec::Zstd)
}

/// The codecs of this build that encode.
pub(crate) fn codecs() -> Vec<PayloadCodec> {
    PayloadCodec::ALL
        .into_iter()
        .filter(|codec| match codec {
            PayloadCodec::JpegXl => has_codec("jxl"),
            PayloadCodec::Htj2k => has_codec("jpeg2000"),
            PayloadCodec::JpegLs => has_codec("jpegls"),
            _ => true,
        })
        .collect()
}

pub(crate) fn find_no_fault(path: &Path) {
    let pack = PackReader::open(path).unwrap();
    for schema in iac_adapters::validate::Schemas::all() {
        if schema.handles("dicom_patient") {
            let report = schema.check(&pack, 10).unwrap();
            assert!(report.faults.is_empty(), "{:?}", report.faults);
        }
    }
    let options = iac_adapters::validate::ValidateOptions::default();
    iac_adapters::validate::validate_reader(&pack, &options).unwrap();
}

pub(crate) fn export(pack: &DicomPackReader, row: u64, syntax: ExportSyntax) -> DicomFile {
    let options = ExportOptions::default().with_syntax(syntax).with_verify(true);
    let bytes = pack.export(row, &options).unwrap();
    DicomFile::parse(&Bytes::from(bytes), "export").unwrap()
}

/// Functional groups as enhanced objects have them; spellings that JSON would lose among them.
pub(crate) fn groups(frames: usize) -> Vec<Element> {
    let shared = vec![
        sequence(
            Tag(0x0028, 0x9110),
            vec![vec![
                text(Tag(0x0018, 0x0050), VR::DS, "2.50"),
                text(Tag(0x0028, 0x0030), VR::DS, "0.50\\0.250"),
            ]],
        ),
        sequence(
            Tag(0x0020, 0x9116),
            vec![vec![text(Tag(0x0020, 0x0037), VR::DS, "1\\0\\0\\0\\1\\0")]],
        ),
    ];
    let own = (0..frames)
        .map(|frame| {
            let n = u32::try_from(frame).unwrap();
            vec![
                sequence(
                    Tag(0x0020, 0x9111),
                    vec![vec![Element::new(
                        Tag(0x0020, 0x9157),
                        VR::UL,
                        [1, n + 1]
                            .iter()
                            .flat_map(|it: &u32| it.to_le_bytes())
                            .collect::<Vec<u8>>(),
                    )]],
                ),
                sequence(
                    Tag(0x0020, 0x9113),
                    vec![vec![text(Tag(0x0020, 0x0032), VR::DS, &format!("-1.50\\2\\{frame}.0"))]],
                ),
                sequence(
                    Tag(0x0028, 0x9145),
                    vec![vec![
                        text(Tag(0x0028, 0x1052), VR::DS, "-1024"),
                        text(Tag(0x0028, 0x1053), VR::DS, &format!("{}.5", frame + 1)),
                    ]],
                ),
            ]
        })
        .collect();
    vec![sequence(Tag(0x5200, 0x9229), vec![shared]), sequence(PER_FRAME, own)]
}

/// A file with streams as fragments, without an offset table.
pub(crate) fn encapsulated(mut data: DataSet, uid: &str, streams: &[Bytes]) -> Vec<u8> {
    data.remove(PIXELS);
    let mut file = DicomFile::new(data);
    file.transfer_syntax = uid.to_owned();
    let mut bytes = file.to_bytes().unwrap();
    bytes.extend([0xE0, 0x7F, 0x10, 0, b'O', b'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    bytes.extend([0xFE, 0xFF, 0x00, 0xE0, 0, 0, 0, 0]);
    for stream in streams {
        bytes.extend([0xFE, 0xFF, 0x00, 0xE0]);
        let length = stream.len() + stream.len() % 2;
        bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
        bytes.extend_from_slice(stream);
        bytes.extend(vec![0; stream.len() % 2]);
    }
    bytes.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
    bytes
}
