//! Packs that nobody's builder writes, but the schema allows, or forbids.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Int64Array, LargeStringArray, RecordBatch, StringArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use iac_adapters::dicom::{DicomPackReader, Tag};
use iac_writer::{PackWriter, Table, WriteOptions};
use serde_json::{Map, Value, json};

use crate::support::has_codec;

/// A pack of one series and one instance, piece by piece.
struct Made {
    header: Value,
    series: Vec<(&'static str, ArrayRef)>,
    instances: Vec<(&'static str, ArrayRef)>,
    template: Vec<u8>,
    payload: Vec<u8>,
}

fn packed(document: &Value) -> Vec<u8> {
    let codec = iac_codec::zstd::ZstdOptions::new(19).codec().unwrap();
    codec.encode_bytes(document.to_string().as_bytes()).unwrap()
}

/// As few columns as a reader needs, the whole object in its delta.
fn made() -> Made {
    let template = packed(&json!({"dataset": {}, "file_meta": {}}));
    let delta = packed(&json!({
        "dataset": {
            "00080018": {"vr": "UI", "Value": ["2.25.1"]},
            "0020000D": {"vr": "UI", "Value": ["2.25.2"]},
            "0020000E": {"vr": "UI", "Value": ["2.25.3"]},
            // Whole numbers, texts and nulls where others have fractions.
            "00180050": {"vr": "DS", "Value": [2]},
            "00280030": {"vr": "DS", "Value": ["0.5", 0.25]},
            "00201041": {"vr": "DS", "Value": [null, 3.5]},
        },
        "file_meta": {},
        "preamble": null,
        "unheard": {"of": [1, 2]},
    }));
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let (length, sum) = (u32::try_from(template.len()).unwrap(), crc32(&template));
    Made {
        header: json!({
            "payload_type": "dicom_patient",
            "dicom_schema_version": "1",
            "codec": "jxl",
            "codec_params": {"lossless": true, "effort": 3, "usecontainer": true},
            "metadata_length": template.len(),
            "something_else": true,
        }),
        series: vec![
            ("series_idx", Arc::new(Int64Array::from(vec![7]))),
            ("study_uid", text("2.25.2")),
            ("series_uid", Arc::new(LargeStringArray::from(vec!["2.25.3"]))),
            ("template_offset", Arc::new(UInt64Array::from(vec![0]))),
            ("template_length", Arc::new(UInt32Array::from(vec![length]))),
            ("template_crc32", Arc::new(UInt32Array::from(vec![sum]))),
        ],
        instances: vec![
            ("series_idx", Arc::new(UInt16Array::from(vec![7]))),
            ("sop_instance_uid", text("2.25.1")),
            ("rows", Arc::new(UInt32Array::from(vec![2]))),
            ("columns", Arc::new(UInt8Array::from(vec![3]))),
            ("pixel_dtype", text("uint16")),
            ("dicom_delta", Arc::new(BinaryArray::from(vec![&delta[..]]))),
            ("dicom_delta_crc32", Arc::new(UInt32Array::from(vec![crc32(&delta)]))),
            ("offset", Arc::new(UInt64Array::from(vec![0]))),
            ("length", Arc::new(UInt32Array::from(vec![0]))),
            ("crc32", Arc::new(UInt32Array::from(vec![0]))),
        ],
        template,
        payload: Vec::new(),
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    // The polynomial of zip files, bit by bit: nothing that the code under test uses.
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xEDB8_8320 } else { sum >> 1 };
        }
    }
    !sum
}

impl Made {
    fn table(columns: &[(&'static str, ArrayRef)]) -> Table {
        Table::from(RecordBatch::try_from_iter(columns.iter().cloned()).unwrap())
    }

    fn write(&self, folder: &Path) -> iac_adapters::Result<DicomPackReader> {
        let path = folder.join("made.iac");
        let header: Map<String, Value> = self.header.as_object().unwrap().clone();
        let options = WriteOptions::new().overwrite(true).sync(false);
        let (series, instances) = (Self::table(&self.series), Self::table(&self.instances));
        let mut writer =
            PackWriter::with_index(&path, header, &series, &instances, &options).unwrap();
        writer.push_unindexed(&self.template).unwrap();
        writer.push(&self.payload).unwrap();
        writer.finish().unwrap();
        DicomPackReader::open(&path)
    }

    fn put(&mut self, name: &'static str, column: ArrayRef) {
        let columns = [&mut self.series, &mut self.instances];
        for columns in columns {
            if let Some(place) = columns.iter_mut().find(|(known, _)| *known == name) {
                place.1 = column.clone();
            }
        }
    }
}

#[test]
fn packs_with_the_fewest_columns_and_an_empty_template_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = made();
    if has_codec("jxl") {
        // A bare codestream, where builders write containers.
        let spec = json!({"lossless": true, "usecontainer": false, "bits": 16});
        let spec = iac_codec::CodecSpec::new("jxl", spec.as_object().unwrap().clone());
        let codec = iac_codec::Registry::builtin().create_encoder(&spec).unwrap();
        let shape = iac_codec::ImageShape::new(2, 3, 1).unwrap();
        let samples = [0_u16, 1, 2, 300, 40_000, 65_535];
        let view = iac_codec::ImageView::new(shape, &samples[..]).unwrap();
        made.payload = codec.encode_image(&view).unwrap();
    }
    let pack = made.write(folder.path()).unwrap();
    let series = &pack.series()[0];
    assert_eq!((series.series_idx, series.series_uid.as_str()), (7, "2.25.3"));
    assert_eq!((series.modality.as_str(), series.instance_count), ("", None));
    let attributes = pack.attributes(0).unwrap();
    assert_eq!(attributes.number(Tag(0x0018, 0x0050)), Some(2.0));
    assert_eq!(attributes.numbers(Tag(0x0028, 0x0030)), Some(vec![0.5, 0.25]));
    let data = pack.data_set(0).unwrap();
    let text = |tag| String::from_utf8(data.bytes(tag).unwrap().to_vec()).unwrap();
    assert_eq!(text(Tag(0x0028, 0x0030)).trim(), "0.5\\0.25");
    assert_eq!(text(Tag(0x0020, 0x1041)).trim(), "\\3.5");
    assert_eq!(pack.rows_of(series).unwrap(), [0]);
    if has_codec("jxl") {
        let pixels = pack.read_pixels(0).unwrap();
        assert_eq!(
            pixels.samples.iter().collect::<Vec<_>>(),
            [0.0, 1.0, 2.0, 300.0, 40_000.0, 65_535.0]
        );
        pack.export(0, &iac_adapters::dicom::ExportOptions::default()).unwrap();
    }
}

#[test]
fn tables_that_contradict_themselves_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = |numbers: &[u64]| -> ArrayRef { Arc::new(UInt64Array::from(numbers.to_vec())) };
    // What is wrong with header or series table is said when the pack is opened.
    for (name, value) in [
        ("dicom_schema_version", json!(99)),
        ("dicom_schema_version", Value::Null),
        ("codec", json!("jpeg")),
        ("codec_params", json!({"lossless": false})),
        ("payload_type", json!("image_tiles")),
    ] {
        let mut made = made();
        made.header[name] = value;
        let error = made.write(folder.path()).unwrap_err();
        assert!(error.to_string().contains("made.iac"), "{error}");
    }
    for (name, column) in [
        ("series_idx", numbers(&[70_000])),
        ("series_idx", Arc::new(StringArray::from(vec!["7"])) as ArrayRef),
        ("template_length", Arc::new(UInt32Array::from(vec![None::<u32>])) as ArrayRef),
        ("study_uid", numbers(&[2])),
    ] {
        let mut made = made();
        let columns = made.series.iter_mut().find(|(known, _)| *known == name);
        columns.unwrap().1 = column;
        let error = made.write(folder.path()).unwrap_err();
        assert_eq!(error.field(), Some(name), "{error}");
    }
    let mut twice = made();
    twice.series = vec![
        ("series_idx", numbers(&[7, 7])),
        ("template_offset", numbers(&[0, 0])),
        ("template_length", numbers(&[1, 1])),
    ];
    assert!(twice.write(folder.path()).unwrap_err().to_string().contains("twice"));
    // What is wrong with a row, when that is read.
    let mut unknown = made();
    unknown.instances[0].1 = numbers(&[8]);
    let pack = unknown.write(folder.path()).unwrap();
    let error = pack.attributes(0).unwrap_err();
    assert!(error.to_string().contains("series 8"), "{error}");
    let mut outside = made();
    outside.put("template_offset", numbers(&[1 << 40]));
    outside.write(folder.path()).unwrap().attributes(0).unwrap_err();
    let mut altered = made();
    altered.put("dicom_delta_crc32", Arc::new(UInt32Array::from(vec![1])));
    let error = altered.write(folder.path()).unwrap().attributes(0).unwrap_err();
    assert!(error.to_string().contains("checksum mismatch"), "{error}");
    let pack = made().write(folder.path()).unwrap();
    assert!(pack.attributes(1).is_err() && pack.attributes(u64::MAX).is_err());
}
