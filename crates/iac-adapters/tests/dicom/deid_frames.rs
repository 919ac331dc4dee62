//! De-identified packs of schema 2: clean as they are made, and found out when something was put back.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use bytes::Bytes;
use iac_adapters::dicom::{
    DataSet, DeidCheck, DeidKey, DeidProfile, Deidentifier, DicomFile, DicomInput,
    DicomPackBuilder, DicomPackReader, Element, ElementValue, ExportOptions, ExportSyntax,
    OnBadInput, PayloadCodec, Tag, VR,
};
use iac_codec::zstd::ZstdOptions;
use iac_writer::{PackWriter, Table, WriteOptions};
use serde_json::{Map, Value, json};

use crate::support::has_codec;

const MARK: &str = "ZQX";
const PIXELS: Tag = Tag(0x7FE0, 0x0010);

fn text(tag: Tag, vr: VR, value: &str) -> Element {
    let mut bytes = value.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(if vr == VR::UI { 0 } else { b' ' });
    }
    Element::new(tag, vr, bytes)
}

fn word(tag: Tag, number: u16) -> Element {
    Element::new(tag, VR::US, number.to_le_bytes().to_vec())
}

fn sequence(tag: Tag, items: Vec<Vec<Element>>) -> Element {
    let mut element = Element::new(tag, VR::SQ, Vec::new());
    element.value = ElementValue::Items(items.into_iter().map(DataSet::from_elements).collect());
    element
}

/// Three frames of 16 x 16 words of which 12 bits are samples, with something of the patient's in
/// every place that schema 2 has and schema 1 has not.
fn object() -> DataSet {
    let group = |frame: u16| {
        vec![
            text(Tag(0x0010, 0x0010), VR::PN, &format!("{MARK}GROUP^{frame}")),
            sequence(
                Tag(0x0020, 0x9113),
                vec![vec![text(Tag(0x0020, 0x0032), VR::DS, &format!("0\\0\\{frame}"))]],
            ),
            sequence(
                Tag(0x0020, 0x9111),
                vec![vec![
                    text(Tag(0x0018, 0x9074), VR::DT, "19870913101112"),
                    text(Tag(0x0020, 0x9158), VR::LT, &format!("{MARK}COMMENT")),
                ]],
            ),
        ]
    };
    // Unused bits hold something, and so do the bytes behind the last frame.
    let mut pixels: Vec<u8> =
        (0..3 * 256_u16).flat_map(|it| ((it * 5 % 4096) | 0x5000).to_le_bytes()).collect();
    pixels.extend(MARK.as_bytes().iter().cycle().take(100));
    DataSet::from_elements(vec![
        text(Tag(0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.2.1"),
        text(Tag(0x0008, 0x0018), VR::UI, "1.2.999.1"),
        text(Tag(0x0008, 0x0060), VR::CS, "CT"),
        text(Tag(0x0010, 0x0010), VR::PN, &format!("{MARK}NAME")),
        text(Tag(0x0010, 0x0020), VR::LO, &format!("{MARK}ID")),
        text(Tag(0x0020, 0x000D), VR::UI, "1.2.999.2"),
        text(Tag(0x0020, 0x000E), VR::UI, "1.2.999.3"),
        text(Tag(0x0020, 0x0013), VR::IS, "1"),
        word(Tag(0x0028, 0x0002), 1),
        text(Tag(0x0028, 0x0004), VR::CS, "MONOCHROME2"),
        text(Tag(0x0028, 0x0008), VR::IS, "3"),
        word(Tag(0x0028, 0x0010), 16),
        word(Tag(0x0028, 0x0011), 16),
        word(Tag(0x0028, 0x0100), 16),
        word(Tag(0x0028, 0x0101), 12),
        word(Tag(0x0028, 0x0102), 11),
        word(Tag(0x0028, 0x0103), 0),
        // A large value that may stay, and large ones that must not.
        Element::new(Tag(0x0028, 0x1201), VR::OW, (0..2000).map(|it| it as u8).collect::<Vec<_>>()),
        Element::new(Tag(0x0009, 0x1001), VR::UN, MARK.repeat(1000).into_bytes()),
        Element::new(Tag(0x6000, 0x3000), VR::OW, MARK.repeat(1000).into_bytes()),
        sequence(Tag(0x5200, 0x9230), (0..3).map(group).collect()),
        Element::new(PIXELS, VR::OW, pixels),
    ])
}

fn deidentifier() -> Arc<Deidentifier> {
    let key = DeidKey::new(b"0123456789abcdef".to_vec()).unwrap();
    Arc::new(Deidentifier::new(DeidProfile::new(), key))
}

fn input(data: DataSet) -> DicomInput {
    let bytes = DicomFile::new(data).to_bytes().unwrap();
    DicomInput::Bytes("one".to_owned(), Bytes::from(bytes))
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn findings(pack: &DicomPackReader) -> BTreeSet<(String, &'static str)> {
    let check = DeidCheck::run(pack, None).unwrap();
    check.findings.into_iter().map(|finding| (finding.place, finding.code)).collect()
}

#[test]
fn frames_groups_and_large_values_hold_nothing_that_identifies() {
    let folder = tempfile::tempdir().unwrap();
    let codecs = [
        (PayloadCodec::Zstd, true),
        (PayloadCodec::None, true),
        (PayloadCodec::JpegXl, has_codec("jxl")),
        (PayloadCodec::JpegLs, has_codec("jpegls")),
        (PayloadCodec::Htj2k, has_codec("jpeg2000")),
    ];
    for (codec, _) in codecs.into_iter().filter(|(_, has)| *has) {
        let path = folder.path().join(format!("{}.rad.iac", codec.name()));
        let report = DicomPackBuilder::new()
            .payload(codec)
            .effort(1)
            .deidentify(deidentifier())
            .build_from(&path, [input(object())])
            .unwrap();
        assert_eq!((report.schema_version, report.frames), (2, 3));
        assert_eq!(report.deidentification.unwrap().objects, 1);
        let pack = DicomPackReader::open(&path).unwrap();
        assert_eq!(findings(&pack), BTreeSet::new(), "{}", codec.name());
        assert!(pack.reader().header().extensions().contains(&"iac.dicom_deid"));
        let explicit = ExportOptions::default().with_syntax(ExportSyntax::ExplicitLittleEndian);
        let export = pack.export(0, &explicit).unwrap();
        let told = pack.delta_json(0).unwrap().to_string();
        let file = std::fs::read(&path).unwrap();
        for text in [MARK, "1.2.999.", "19870913"] {
            assert!(!holds(&export, text), "{text}");
            assert!(!holds(told.as_bytes(), text), "{text}");
            assert!(!holds(&file, text), "{text}");
        }
        // What may stay did: a table of 2,000 bytes lies apart, and samples are what they were.
        let table = pack.data_set(0).unwrap().bytes(Tag(0x0028, 0x1201)).unwrap().len();
        assert_eq!(table, 2000);
        for frame in 0..3_u16 {
            let samples = pack.read_frame(0, frame.into()).unwrap().samples;
            let wanted: Vec<f64> =
                (0..256).map(|it| f64::from((frame * 256 + it) * 5 % 4096)).collect();
            assert_eq!(samples.iter().collect::<Vec<_>>(), wanted);
        }
    }
}

#[test]
fn streams_of_sources_and_unknown_pixels_are_not_kept_with_de_identification() {
    if !has_codec("jpeg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::read(crate::support::data().join("src_jpeg_baseline/in/00.dcm"));
    if let Ok(file) = file {
        for deidentified in [false, true] {
            let path = folder.path().join(format!("{deidentified}.rad.iac"));
            let mut builder = DicomPackBuilder::new().payload(PayloadCodec::Zstd);
            if deidentified {
                builder = builder.deidentify(deidentifier());
            }
            let input = DicomInput::Bytes("one".to_owned(), file.clone().into());
            builder.build_from(&path, [input]).unwrap();
            let pack = DicomPackReader::open(&path).unwrap();
            assert_eq!(pack.stored_as(0).unwrap() == "source", !deidentified);
            let told = findings(&pack).contains(&("payload".to_owned(), "payload_metadata"));
            assert_eq!(told, !deidentified);
        }
    }
    let mut bad = object();
    bad.put(Element::new(PIXELS, VR::OW, vec![7; 100]));
    let builder = DicomPackBuilder::new().on_bad_input(OnBadInput::Keep);
    let builder = builder.payload(PayloadCodec::Zstd).deidentify(deidentifier());
    let refused = builder.build_from(folder.path().join("bad.rad.iac"), [input(bad)]);
    assert!(refused.is_err());
}

/// What a pack is made of.
pub(crate) struct Parts {
    header: Map<String, Value>,
    series: RecordBatch,
    frames: RecordBatch,
    front: Vec<u8>,
    records: Vec<Bytes>,
    /// What lies behind the records.
    behind: Vec<u8>,
    /// Where that begins.
    end: u64,
    pub(crate) delta: Value,
}

pub(crate) fn clean(folder: &Path) -> Parts {
    let path = folder.join("clean.rad.iac");
    DicomPackBuilder::new()
        .payload(PayloadCodec::Zstd)
        .options(WriteOptions::new().overwrite(true))
        .deidentify(deidentifier())
        .build_from(&path, [input(object())])
        .unwrap();
    let pack = DicomPackReader::open(&path).unwrap();
    let reader = pack.reader();
    let mut header = reader.header().members().clone();
    header.retain(|name, _| {
        !["format", "version", "header_bytes", "num_slides", "num_records", "checksums"]
            .contains(&name.as_str())
            && !name.ends_with("_table_offset")
            && !name.ends_with("_table_length")
            && !["data_offset", "data_length", "extensions"].contains(&name.as_str())
    });
    let first = reader.span(0).unwrap().offset;
    let last = reader.span(2).unwrap();
    Parts {
        header,
        series: reader.slide_table().unwrap().batches().unwrap()[0].clone(),
        frames: reader.index_table().unwrap().batches().unwrap()[0].clone(),
        front: reader.read_data_span(0, first).unwrap().to_vec(),
        records: (0..3).map(|row| reader.read(row).unwrap()).collect(),
        behind: Vec::new(),
        end: last.offset + last.length,
        delta: pack.delta_json(0).unwrap(),
    }
}

impl Parts {
    pub(crate) fn set(&mut self, name: &str, column: ArrayRef) {
        let mut columns: Vec<(String, ArrayRef)> = self
            .frames
            .schema()
            .fields()
            .iter()
            .zip(self.frames.columns())
            .map(|(field, column)| (field.name().clone(), Arc::clone(column)))
            .collect();
        match columns.iter_mut().find(|(known, _)| known == name) {
            Some(known) => known.1 = column,
            None => columns.push((name.to_owned(), column)),
        }
        let columns = columns.into_iter().map(|(name, column)| (name, column, true));
        self.frames = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    }

    /// Puts bytes behind the records; says where they lie.
    pub(crate) fn append(&mut self, value: &Value) -> (u64, u32, u32) {
        let codec = ZstdOptions::new(3).codec().unwrap();
        let bytes = codec.encode_bytes(value.to_string().as_bytes()).unwrap();
        let offset = self.end + self.behind.len() as u64;
        self.behind.extend(&bytes);
        (offset, bytes.len() as u32, crc32fast::hash(&bytes))
    }

    /// Gives the object another delta.
    pub(crate) fn replace_delta(&mut self) {
        let (offset, length, crc32) = self.append(&self.delta.clone());
        self.set("delta_offset", Arc::new(UInt64Array::from(vec![offset; 3])));
        self.set("delta_length", Arc::new(UInt32Array::from(vec![length; 3])));
        self.set("delta_crc32", Arc::new(UInt32Array::from(vec![crc32; 3])));
    }

    fn found(self, folder: &Path) -> BTreeSet<(String, &'static str)> {
        findings(&self.write(folder))
    }

    /// The pack that they make.
    pub(crate) fn write(self, folder: &Path) -> DicomPackReader {
        let path = folder.join("tampered.rad.iac");
        let options = WriteOptions::new().overwrite(true);
        let (series, frames) = (Table::from(self.series), Table::from(self.frames));
        let mut writer =
            PackWriter::with_index(&path, self.header, &series, &frames, &options).unwrap();
        writer.push_unindexed(&self.front).unwrap();
        for record in &self.records {
            writer.push(record).unwrap();
        }
        if !self.behind.is_empty() {
            writer.push_unindexed(&self.behind).unwrap();
        }
        writer.finish().unwrap();
        DicomPackReader::open(&path).unwrap()
    }
}

type Change<'a> = &'a dyn Fn(&mut Parts);

#[test]
fn what_was_put_back_into_packs_of_frames_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(clean(folder).found(folder), BTreeSet::new());
    let cases: &[(&str, &str, Change<'_>)] = &[
        ("bulk", "header", &|it| it.header["bulk"]["note"] = "Smith".into()),
        ("codec", "column", &|it| {
            it.set("codec", Arc::new(StringArray::from(vec!["zstd-delta", "Smith", "zstd-delta"])));
        }),
        ("payload", "payload_metadata", &|it| {
            let column = it.frames.column_by_name("codec").unwrap();
            assert!(column.as_any_dictionary_opt().is_some());
            it.set("codec", Arc::new(StringArray::from(vec!["source"; 3])));
        }),
        ("stream_photometric", "column", &|it| {
            it.set("stream_photometric", Arc::new(StringArray::from(vec!["smith, john"; 3])));
        }),
        ("dimension_index", "column", &|it| {
            it.set("dimension_index", Arc::new(StringArray::from(vec!["Smith"; 3])));
        }),
        ("data", "hidden", &|it| it.behind = b"Smith".to_vec()),
        ("00100010", "person_name", &|it| {
            it.delta["dataset"]["00100010"] =
                json!({"vr": "PN", "Value": [{"Alphabetic": "Smith^John"}]});
            it.replace_delta();
        }),
        ("iac.tail", "unused_bits", &|it| {
            it.delta["iac"]["tail"] = format!("sha256:{}", "0".repeat(64)).into();
            it.replace_delta();
        }),
        ("iac.groups", "record", &|it| {
            it.delta["iac"]["groups"]["note"] = "Smith".into();
            it.replace_delta();
        }),
        ("extra", "unused_bits", &|it| {
            let (offset, length, crc32) = it.append(&json!("Smith"));
            it.set("extra_offset", Arc::new(UInt64Array::from(vec![offset; 3])));
            it.set("extra_length", Arc::new(UInt32Array::from(vec![length; 3])));
            it.set("extra_crc32", Arc::new(UInt32Array::from(vec![crc32; 3])));
        }),
        ("52009230/1/00100010", "person_name", &|it| {
            let named = json!({"00100010": {"vr": "PN", "Value": [{"Alphabetic": "Smith"}]}});
            let block = json!({"errors": [], "first": 0, "text": [], "items": [{}, named, {}]});
            let (offset, length, crc32) = it.append(&block);
            it.delta["iac"]["groups"] =
                json!({"items": 3, "block": 32, "blocks": [[offset, length, crc32]]});
            it.replace_delta();
        }),
        ("groups", "document", &|it| {
            let block = json!({"errors": [], "first": 0, "text": [], "items": [{}, {}, {}], "note": "Smith"});
            let (offset, length, crc32) = it.append(&block);
            it.delta["iac"]["groups"] =
                json!({"items": 3, "block": 32, "blocks": [[offset, length, crc32]]});
            it.replace_delta();
        }),
    ];
    for (place, code, change) in cases {
        let mut parts = clean(folder);
        change(&mut parts);
        let found = parts.found(folder);
        assert!(found.contains(&((*place).to_owned(), *code)), "{place} {code}: {found:?}");
    }
    // What nobody cleaned.
    let path = folder.join("plain.rad.iac");
    DicomPackBuilder::new()
        .payload(PayloadCodec::Zstd)
        .build_from(&path, [input(object())])
        .unwrap();
    let found = findings(&DicomPackReader::open(&path).unwrap());
    for (place, code) in [
        ("52009230/2/00100010", "person_name"),
        ("52009230/0/00209111/0/00189074", "date"),
        ("iac.tail", "unused_bits"),
        ("extra", "unused_bits"),
        ("00091001", "private"),
    ] {
        assert!(found.contains(&(place.to_owned(), code)), "{place}: {found:?}");
    }
}

#[test]
fn large_files_whose_pixels_are_read_piece_by_piece_are_de_identified_alike() {
    let folder = tempfile::tempdir().unwrap();
    let mut data = object();
    data.put(word(Tag(0x0028, 0x0010), 1536));
    data.put(word(Tag(0x0028, 0x0011), 1024));
    data.put(text(Tag(0x0008, 0x0060), VR::CS, "US"));
    let mut pixels: Vec<u8> = (0..3 * 1024 * 1536_u32).flat_map(|it| [it as u8, 0x51]).collect();
    pixels.extend(MARK.as_bytes().iter().cycle().take(300));
    data.put(Element::new(PIXELS, VR::OW, pixels));
    let file = folder.path().join("large.dcm");
    let bytes = DicomFile::new(data).to_bytes().unwrap();
    assert!(bytes.len() > 8 << 20);
    std::fs::write(&file, &bytes).unwrap();
    let inputs = [DicomInput::File(file), DicomInput::Bytes("large.dcm".to_owned(), bytes.into())];
    let made = inputs.map(|input| {
        let path = folder.path().join("a.rad.iac");
        let report = DicomPackBuilder::new()
            .payload(PayloadCodec::Zstd)
            .options(WriteOptions::new().overwrite(true))
            .deidentify(deidentifier())
            .build_from(&path, [input])
            .unwrap();
        // That there are pixels is known, though they were not read yet.
        assert_eq!(report.deidentification.unwrap().burned_in.len(), 1);
        let pack = DicomPackReader::open(&path).unwrap();
        assert_eq!(findings(&pack), BTreeSet::new());
        let last = pack.read_frame(0, 2).unwrap().samples;
        assert!(last.iter().take(300).all(|it| it < 512.0));
        let file = std::fs::read(&path).unwrap();
        assert!(!holds(&file, MARK));
        file
    });
    assert!(made[0] == made[1]);
}
