//! What samples mean: rescaled, windowed, in colours; and bits beside them.

use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element, ExportOptions,
    ExportSyntax, Tag, VR, Window,
};

use crate::support::{data, has_codec};

fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(b' ');
    }
    Element::new(tag, vr, bytes)
}

fn number(element: u16, value: u16) -> Element {
    Element::new(Tag(0x0028, element), VR::US, value.to_le_bytes().to_vec())
}

/// An image of one row.
fn image(
    photometric: &str,
    channels: u16,
    bits: u16,
    signed: u16,
    samples: Vec<u8>,
    more: Vec<Element>,
) -> Bytes {
    let width = samples.len() as u16 / channels / (bits / 8);
    let mut elements = vec![
        text(Tag(8, 0x16), VR::UI, "1.2.840.10008.5.1.4.1.1.7"),
        text(Tag(8, 0x18), VR::UI, "2.25.77"),
        number(0x0002, channels),
        text(Tag(0x0028, 0x0004), VR::CS, photometric),
        number(0x0010, 1),
        number(0x0011, width),
        number(0x0100, bits),
        number(0x0101, bits),
        number(0x0102, bits - 1),
        number(0x0103, signed),
        Element::new(Tag(0x7FE0, 0x0010), if bits == 8 { VR::OB } else { VR::OW }, samples),
    ];
    elements.extend(more);
    DicomFile::new(DataSet::from_elements(elements)).to_bytes().unwrap().into()
}

fn pack(file: Bytes) -> (tempfile::TempDir, DicomPackReader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rad.iac");
    let input = DicomInput::Bytes("image".to_owned(), file);
    DicomPackBuilder::new().effort(1).build_from(&path, [input]).unwrap();
    (folder, DicomPackReader::open(path).unwrap())
}

#[test]
fn grey_images_are_rescaled_windowed_and_inverted() {
    if !has_codec("jxl") {
        return;
    }
    let samples: Vec<u8> = [-100_i16, 0, 50, 1000].iter().flat_map(|it| it.to_le_bytes()).collect();
    let rescale = || {
        vec![
            text(Tag(0x0028, 0x1052), VR::DS, "-10"),
            text(Tag(0x0028, 0x1053), VR::DS, "2"),
            text(Tag(0x0028, 0x1050), VR::DS, "0.5"),
            text(Tag(0x0028, 0x1051), VR::DS, "101"),
        ]
    };
    let (_folder, plain) = pack(image("MONOCHROME2", 1, 16, 1, samples.clone(), rescale()));
    assert_eq!(plain.read_values(0).unwrap().1, [-210.0, -10.0, 90.0, 1990.0]);
    let shown = plain.read_rendered(0, None).unwrap().1;
    assert_eq!(shown, [0, 102, 255, 255]);
    let wide = Window { center: 890.5, width: 2201.0 };
    assert_eq!(plain.read_rendered(0, Some(wide)).unwrap().1, [0, 23, 35, 255]);
    let (_folder, inverted) = pack(image("MONOCHROME1", 1, 16, 1, samples, rescale()));
    assert_eq!(inverted.read_rendered(0, None).unwrap().1, [255, 153, 0, 0]);
    assert_eq!(inverted.read_rgb(0).unwrap().0.channels(), 3);
}

#[test]
fn modality_tables_take_the_place_of_slope_and_intercept() {
    if !has_codec("jxl") {
        return;
    }
    let words = |words: &[u16]| words.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let item = DataSet::from_elements(vec![
        Element::new(Tag(0x0028, 0x3002), VR::US, words(&[3, 10, 16])),
        Element::new(Tag(0x0028, 0x3006), VR::OW, words(&[7, 700, 7000])),
    ]);
    let mut table = Element::new(Tag(0x0028, 0x3000), VR::SQ, Vec::new());
    table.value = iac_adapters::dicom::ElementValue::Items(vec![item]);
    let (_folder, found) =
        pack(image("MONOCHROME2", 1, 8, 0, vec![0, 10, 11, 12, 200], vec![table]));
    assert_eq!(found.read_values(0).unwrap().1, [7.0, 7.0, 700.0, 7000.0, 7000.0]);
}

#[test]
fn palettes_and_ybr_become_rgb() {
    if !has_codec("jxl") {
        return;
    }
    let words = |words: &[u16]| words.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let mut palette = Vec::new();
    for channel in 0..3_u16 {
        palette.push(Element::new(Tag(0x0028, 0x1101 + channel), VR::US, words(&[2, 1, 16])));
        let entries = words(&[0x1000 * (channel + 1), 0x8000 + 0x100 * channel]);
        palette.push(Element::new(Tag(0x0028, 0x1201 + channel), VR::OW, entries));
    }
    let (_folder, found) = pack(image("PALETTE COLOR", 1, 8, 0, vec![0, 1, 2, 9], palette));
    let low = [0x10, 0x20, 0x30];
    let high = [0x80, 0x81, 0x82];
    assert_eq!(found.read_rgb(0).unwrap().1, [low, low, high, high].concat());
    let (_folder, found) =
        pack(image("YBR_FULL", 3, 8, 0, vec![128, 128, 128, 76, 85, 255], Vec::new()));
    assert_eq!(found.read_rgb(0).unwrap().1, [128, 128, 128, 254, 0, 0]);
    let (_folder, found) = pack(image("PALETTE COLOR", 1, 8, 0, vec![0, 1], Vec::new()));
    assert!(found.read_rgb(0).is_err());
}

#[test]
fn bits_that_no_image_uses_are_put_back() {
    if !has_codec("jxl") {
        return;
    }
    let bytes = std::fs::read(data().join("high_bit_overlay/in/00.dcm")).unwrap();
    let source = DicomFile::parse(&bytes.clone().into(), "source").unwrap();
    let (_folder, found) = pack(bytes.into());
    assert!(found.reader().header().extensions().contains(&"iac.dicom_source"));
    let options = ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian);
    for syntax in [ExportSyntax::ExplicitLittleEndian, ExportSyntax::Rle] {
        let export = found.export(0, &options.with_syntax(syntax)).unwrap();
        // Through run lengths and a second pack as well.
        let (_folder, again) = pack(export.into());
        let plain = DicomFile::parse(&again.export(0, &options).unwrap().into(), "export").unwrap();
        let pixels = Tag(0x7FE0, 0x0010);
        assert_eq!(plain.data.bytes(pixels).unwrap(), source.data.bytes(pixels).unwrap());
    }
}

#[test]
fn jpeg_xl_exports_are_taken_without_being_encoded_again() {
    if !has_codec("jxl") {
        return;
    }
    let (_folder, first) = pack(std::fs::read(data().join("ct_series/in/00.dcm")).unwrap().into());
    let export = first.export(0, &ExportOptions::default()).unwrap();
    let (_folder, second) = pack(export.into());
    let payload = |pack: &DicomPackReader| pack.reader().read(0).unwrap();
    // One byte of padding may have come along.
    assert!(payload(&second).starts_with(&payload(&first)));
    assert_eq!(first.read_pixels(0).unwrap(), second.read_pixels(0).unwrap());
}
