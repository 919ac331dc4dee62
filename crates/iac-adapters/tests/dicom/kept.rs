//! Pixel data that no image can be made of, stored as it is.

use iac_adapters::dicom::{
    DicomFile, DicomInput, DicomPackBuilder, DicomPackReader, Element, ElementValue, ExportOptions,
    ExportSyntax, OnBadInput, PayloadCodec, SchemaChoice, Tag, VR,
};
use iac_format::ErrorKind;

use crate::support::{data, has_codec};

const PIXEL_DATA: Tag = Tag(0x7FE0, 0x0010);

fn file(case: &str) -> Vec<u8> {
    std::fs::read(data().join(case).join("in/00.dcm")).unwrap()
}

#[test]
fn objects_with_unusable_pixels_come_back_as_they_were() {
    if !has_codec("jxl") {
        println!("not run: without the feature jxl nothing is encoded");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut damaged = file("src_jpeg2000_u16");
    let whole = DicomFile::parse(&damaged.clone().into(), "whole").unwrap();
    let ElementValue::Fragments(pieces) = &whole.data.get(PIXEL_DATA).unwrap().value else {
        panic!("no fragments");
    };
    // In the middle of the stream's headers.
    let start = damaged.windows(8).position(|bytes| pieces[1].starts_with(bytes)).unwrap();
    damaged[start + 4..start + 40].fill(0xAA);
    for (name, bytes) in [
        ("multiframe", file("reject_multiframe")),
        ("32 bits", file("reject_32bit")),
        ("1 bit", file("reject_1bit")),
        ("damaged", damaged),
    ] {
        let source = DicomFile::parse(&bytes.clone().into(), name).unwrap();
        let path = folder.path().join(format!("{name}.rad.iac"));
        let inputs = || {
            [("bad", bytes.clone()), ("good", file("ct_series")), ("no file", b"none".to_vec())]
                .map(|(name, bytes)| DicomInput::Bytes(name.to_owned(), bytes.into()))
        };
        let builder = DicomPackBuilder::new().effort(1).schema(SchemaChoice::One);
        assert!(builder.build_from(&path, inputs()).is_err());
        let report = builder.on_bad_input(OnBadInput::Keep).build_from(&path, inputs()).unwrap();
        assert_eq!(report.kept.len(), 1, "{name}");
        assert_eq!(report.kept[0].input, "bad");
        assert_eq!((report.instances, report.images), (2, 1));
        assert_eq!(report.skipped.len(), 1);
        assert_eq!(report.skipped[0].input, "no file");

        let pack = DicomPackReader::open(&path).unwrap();
        let row = (0..2).find(|row| !pack.has_pixels(*row).unwrap()).unwrap();
        assert_eq!(pack.read_pixels(row).unwrap_err().kind(), ErrorKind::Usage);
        assert!(pack.reader().header().extensions().contains(&"iac.dicom_source"));
        // Whatever syntax is asked for: nobody can encode what nobody can decode.
        for syntax in [ExportSyntax::JpegXl, ExportSyntax::Rle] {
            let options = ExportOptions::default().with_syntax(syntax);
            let export = pack.export(row, &options).unwrap();
            let found = DicomFile::parse(&export.into(), "export").unwrap();
            assert_eq!(found.transfer_syntax, source.transfer_syntax, "{name}");
            assert!(found.data.get(PIXEL_DATA) == source.data.get(PIXEL_DATA), "{name}");
        }
        let validated = iac_adapters::validate::validate_pack(&path, &Default::default());
        validated.unwrap();
    }
}

#[test]
fn packs_of_frames_keep_unusable_pixels_as_they_were() {
    // Two frames are stated, and not even one is there.
    let mut file = DicomFile::parse(&file("reject_multiframe").into(), "source").unwrap();
    let good = file.to_bytes().unwrap();
    file.data.put(Element::new(PIXEL_DATA, VR::OW, vec![7; 2]));
    file.data.put(Element::new(Tag(0x0008, 0x0018), VR::UI, b"1.2.3.44".to_vec()));
    let bad = file.to_bytes().unwrap();
    for schema in [SchemaChoice::WhenNeeded, SchemaChoice::Two] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rad.iac");
        let inputs = || {
            [("bad", bad.clone()), ("good", good.clone())]
                .map(|(name, bytes)| DicomInput::Bytes(name.to_owned(), bytes.into()))
        };
        let builder = DicomPackBuilder::new().payload(PayloadCodec::Zstd).schema(schema);
        assert!(builder.build_from(&path, inputs()).is_err());
        let report = builder.on_bad_input(OnBadInput::Keep).build_from(&path, inputs()).unwrap();
        assert_eq!((report.schema_version, report.instances, report.images), (2, 2, 1));
        assert_eq!(report.kept.len(), 1);
        assert_eq!(report.kept[0].input, "bad");
        let pack = DicomPackReader::open(&path).unwrap();
        let rows = pack.first_rows().unwrap();
        let row = rows.into_iter().find(|row| !pack.has_pixels(*row).unwrap()).unwrap();
        let export = pack.export(row, &ExportOptions::default()).unwrap();
        let found = DicomFile::parse(&export.into(), "export").unwrap();
        assert_eq!(found.transfer_syntax, file.transfer_syntax);
        assert!(found.data == file.data);
        iac_adapters::validate::validate_pack(&path, &Default::default()).unwrap();
    }
}
