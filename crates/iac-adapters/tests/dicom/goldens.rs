//! Packs that the reference wrote.

use iac_adapters::dicom::{DicomPackReader, ElementValue, Tag};
use serde_json::Value;

use crate::support::{cases, has_codec, hex, pixel_hash};

#[test]
fn golden_packs_read_to_what_is_expected_of_them() {
    let mut read = 0;
    for (name, path, expected) in cases() {
        let pack = path.join("package.rad.iac");
        if !pack.exists() {
            continue;
        }
        read += 1;
        let pack = DicomPackReader::open(&pack).unwrap();
        let series = expected["series_table"]["rows"].as_array().unwrap();
        assert_eq!(pack.series().len(), series.len(), "{name}");
        for (found, row) in pack.series().iter().zip(series) {
            assert_eq!(found.series_uid, row["series_uid"].as_str().unwrap(), "{name}");
            assert_eq!(found.study_uid, row["study_uid"].as_str().unwrap(), "{name}");
            assert_eq!(found.modality, row["modality"].as_str().unwrap(), "{name}");
            assert_eq!(found.instance_count, row["instance_count"].as_u64(), "{name}");
            assert_eq!(pack.template_json(found).unwrap(), row["template_json"], "{name}");
        }
        let rows = expected["instance_table"]["rows"].as_array().unwrap();
        assert_eq!(pack.instance_count(), rows.len() as u64, "{name}");
        for (position, row) in (0_u64..).zip(rows) {
            let at = format!("{name}, row {position}");
            assert_eq!(pack.delta_json(position).unwrap(), row["dicom_delta_json"], "{at}");
            assert_eq!(pack.has_pixels(position).unwrap(), row["has_pixel_data"], "{at}");
            if row["has_pixel_data"] == true && has_codec("jxl") {
                let pixels = pack.read_pixels(position).unwrap();
                let wanted = &row["pixels"];
                assert_eq!(pixels.samples.pixel_type().name(), wanted["dtype"], "{at}");
                assert_eq!(Value::from(pixels.shape.dimensions()), wanted["shape"], "{at}");
                assert_eq!(pixel_hash(&pixels), wanted["sha256_little_endian_c_order"], "{at}");
            }
            if row.get("restored").is_some() {
                check_restored(&pack, position, row, &at);
            }
        }
    }
    assert!(read >= 39, "{read}");
}

fn check_restored(pack: &DicomPackReader, position: u64, row: &Value, at: &str) {
    let data = pack.data_set(position).unwrap();
    let wanted = row["restored"]["elements"].as_object().unwrap();
    let tag = |text: &str| {
        let number = u32::from_str_radix(text, 16).unwrap();
        Tag((number >> 16) as u16, number as u16)
    };
    for (key, element) in wanted {
        let found = data.get(tag(key)).unwrap_or_else(|| panic!("{at}: {key} is missing"));
        assert_eq!(found.vr.to_string(), element["vr"].as_str().unwrap(), "{at}: {key}");
        let Some(raw) = element.get("raw_hex").and_then(Value::as_str) else {
            continue;
        };
        // The reference exports those of big-endian sources in their byte order.
        let big_endian = row["source_transfer_syntax"] == "1.2.840.10008.1.2.2";
        if let (ElementValue::Bytes(bytes), false) = (&found.value, big_endian) {
            let found = hex(bytes);
            let padded = raw.len() == found.len() + 2 && bytes.len() % 2 == 1;
            assert!(
                found == raw || (padded && raw.starts_with(&found)),
                "{at}: {key}: {found} {raw}"
            );
        }
    }
}
