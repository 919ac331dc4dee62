//! Teacher features against the golden packs.
#![cfg(feature = "features")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod common;

use common::{assert_like, cases, data, json_file, record_json, sha256, trimmed};
use iac_adapters::features::{
    ElementType, FeatureFile, FeatureJoin, FeaturePackBuilder, FeaturePackReader, FeatureRow,
    NonFinite,
};
use iac_adapters::manifest::ManifestReader;
use iac_adapters::{AdapterError, RecordTable, Result, TileRecord};
use iac_format::ErrorKind;
use iac_ops::{Cancel, NoProgress};
use iac_reader::PackReader;
use iac_writer::WriteOptions;
use serde_json::Value;

fn le_bytes(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes()).collect()
}

fn table(records: &[TileRecord]) -> RecordTable {
    let mut table = RecordTable::new();
    records.iter().for_each(|record| table.push(record).unwrap());
    table
}

fn records(count: i64) -> RecordTable {
    let records: Vec<TileRecord> =
        (0..count).map(|row| tile(&format!("t{row}"), row * 8)).collect();
    table(&records)
}

fn tile(id: &str, x: i64) -> TileRecord {
    TileRecord {
        tile_id: id.to_owned(),
        patient_id: "p".to_owned(),
        slide_id: "s".to_owned(),
        x,
        ..TileRecord::default()
    }
}

#[test]
fn golden_packs_read_to_what_is_stated() {
    for (name, expected) in cases("features") {
        let pack = FeaturePackReader::open(data(&format!("features/{name}/pack.iac"))).unwrap();
        let all = expected["records"].as_array().unwrap();
        assert_eq!(pack.record_count(), all.len() as u64, "{name}");
        assert_eq!(pack.teacher(), expected["header"]["teacher"].as_str(), "{name}");
        let mut records = pack.records().unwrap();
        for (row, told) in all.iter().enumerate() {
            let context = format!("{name}, row {row}");
            let row = row as u64;
            let mut record = record_json(&records.next().unwrap().unwrap());
            // Without a column the reference says that the split is empty.
            if record["split"].is_null() {
                record["split"] = "".into();
            }
            assert_eq!(record, told["record"], "{context}");
            let id = told["record"]["tile_id"].as_str().unwrap();
            assert_eq!(pack.tile_id(row).unwrap(), id);
            assert_eq!(pack.row_of(id).unwrap(), row);
            let floats = pack.read_f32(row).unwrap();
            assert_eq!(sha256(&le_bytes(&floats)), told["float32_le_sha256"], "{context}");
            assert_eq!(le_bytes(&pack.read_f32_by_id(id).unwrap()), le_bytes(&floats));
            if name != "foreign_big_endian" {
                assert_eq!(sha256(&pack.read(row).unwrap()), told["stored_sha256"], "{context}");
            }
        }
        assert!(records.next().is_none());
        let batch = &expected["batch"];
        let rows: Vec<u64> =
            batch["rows"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap()).collect();
        let floats = pack.read_many_f32(&rows).unwrap();
        assert_eq!(sha256(&le_bytes(&floats)), batch["float32_le_sha256"], "{name}");
        assert!(pack.read_many_f32(&[]).unwrap().is_empty());
        let error = pack.row_of("no-such-tile").unwrap_err();
        assert!(matches!(error, AdapterError::UnknownId { .. }));
        let error = pack.read_f32(pack.record_count()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
        assert!(pack.read_many_f32(&[0, pack.record_count()]).is_err());
    }
}

/// A builder with the arguments of a description.
fn builder(arguments: &Value) -> FeaturePackBuilder {
    let number = |name: &str| arguments[name].as_u64();
    let dtype = arguments["dtype"].as_str().unwrap_or("float32");
    FeaturePackBuilder::new(arguments["teacher_name"].as_str().unwrap_or_default())
        .dtype(ElementType::from_name(dtype).unwrap())
        .dim(number("feature_dim"))
        .tile_size(number("tile_width"), number("tile_height"))
        .stride(number("stride_x"), number("stride_y"))
        .options(WriteOptions::new().sync(false))
}

#[test]
fn golden_inputs_become_the_golden_packs() {
    let folder = tempfile::tempdir().unwrap();
    let mut built = 0;
    for (name, expected) in cases("features") {
        let build = &expected["build"];
        let mut builder = builder(&build["arguments"]);
        let base = data(&format!("features/{name}"));
        let golden = FeaturePackReader::open(base.join("pack.iac")).unwrap();
        let mut records = RecordTable::new();
        if let Some(manifest) = build["records"].as_str() {
            for record in ManifestReader::open(base.join(manifest)).unwrap() {
                records.push(&record.unwrap()).unwrap();
            }
        } else if build["tile_package"].is_string() {
            // What a pack of tiles gives; that it does is tested with the tiles.
            let members = &expected["header"];
            let number = |name: &str| members[name].as_u64();
            builder = builder
                .tile_size(number("tile_width"), number("tile_height"))
                .stride(number("stride_x"), number("stride_y"));
            records = golden.record_table().unwrap();
        } else {
            continue;
        }
        let path = folder.path().join(format!("{name}.iac"));
        let file = FeatureFile::open(base.join("features.npy")).unwrap();
        let summary = if let Some(keys) = build["map_keys_in_array_order"].as_array() {
            let vectors: Vec<Vec<f32>> = file
                .map(|row| {
                    let row = row.unwrap();
                    assert_eq!(row.element(), ElementType::Float32);
                    row.bytes()
                        .as_chunks()
                        .0
                        .iter()
                        .map(|bytes| f32::from_le_bytes(*bytes))
                        .collect()
                })
                .collect();
            let vector = |id: &str| keys.iter().position(|key| key == id).map(|at| &vectors[at]);
            builder.build_from_map(&path, records, vector).unwrap()
        } else {
            builder.build_streaming(&path, records, file, &NoProgress).unwrap()
        };
        assert_eq!(summary.rows, expected["records"].as_array().unwrap().len() as u64);
        let pack = PackReader::open(&path).unwrap();
        assert_like(&name, &pack, &expected, &["crc32"]);
        let data = pack.read_data_span(0, pack.layout().data.length).unwrap();
        assert_eq!(sha256(&data), expected["data_segment_sha256"], "{name}");
        assert!(pack.layout().data.offset.is_multiple_of(64));
        assert!(pack.verify(&iac_reader::VerifyOptions::default()).faults.is_empty());
        built += 1;
    }
    assert!(built >= 9, "{built}");
}

#[test]
fn inputs_that_make_no_pack_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for case in json_file("features/invalid/build_errors.json").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let dtype = case["arguments"]["dtype"].as_str();
        if dtype.is_some_and(|dtype| ElementType::from_name(dtype).is_none()) {
            assert!(["bad_dtype", "string_dtype"].contains(&name), "{name}");
            continue;
        }
        // Lists in lists cannot be handed over.
        if ["two_dimensional", "scalar"].contains(&name) {
            continue;
        }
        let records: Vec<TileRecord> = match &case["records_id_patient_slide_x_y"] {
            Value::Array(records) => records
                .iter()
                .map(|record| TileRecord {
                    tile_id: record[0].as_str().unwrap().to_owned(),
                    patient_id: record[1].as_str().unwrap().to_owned(),
                    slide_id: record[2].as_str().unwrap().to_owned(),
                    x: record[3].as_i64().unwrap(),
                    y: record[4].as_i64().unwrap(),
                    ..TileRecord::default()
                })
                .collect(),
            Value::String(_) => (0..256)
                .map(|row| TileRecord {
                    slide_id: format!("s{row}"),
                    ..tile(&format!("t{row}"), 0)
                })
                .collect(),
            _ => continue,
        };
        let vectors: Vec<Vec<f32>> = case["features"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect())
            .collect();
        let path = folder.path().join(format!("{name}.iac"));
        let result = builder(&case["arguments"]).build(&path, table(&records), &vectors);
        // Limits that are lifted.
        let accepted = ["too_many_slides", "grid_overflow", "bfloat16", "zero_dim_is_accepted"];
        assert_eq!(result.is_ok(), accepted.contains(&name), "{name}: {result:?}");
        assert_eq!(path.exists(), result.is_ok());
        seen += 1;
    }
    assert!(seen >= 17, "{seen}");
}

#[test]
fn packs_beyond_the_old_limits_say_so_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let many: Vec<TileRecord> = (0..300)
        .map(|row| TileRecord {
            slide_id: format!("s{row}"),
            ..tile(&format!("t{row}"), row * 70_001)
        })
        .collect();
    let vectors: Vec<[f32; 2]> = (0..300_i16).map(|row| [row.into(), 0.5]).collect();
    let path = folder.path().join("a.iac");
    let builder = FeaturePackBuilder::new("t").dtype(ElementType::Bfloat16).stride(1, 1);
    let summary = builder.build(&path, table(&many), &vectors).unwrap();
    assert_eq!((summary.rows, summary.dim, summary.non_finite), (300, 2, 0));
    let pack = FeaturePackReader::open(&path).unwrap();
    let header = pack.reader().header();
    assert_eq!(header.payload_type(), Some("teacher_features_v2"));
    assert_eq!(header.get("slide_idx_dtype").unwrap(), "uint16");
    assert_eq!(header.get("tile_xy_dtype").unwrap(), "uint32");
    assert_eq!(header.get("dtype").unwrap(), "bfloat16");
    assert_eq!(pack.read_f32(299).unwrap(), [300.0, 0.5]); // 8 bits of precision
    let record = pack.record(299).unwrap();
    assert_eq!((record.slide_id.as_str(), record.x), ("s299", 299 * 70_001));
    let all: &[half::bf16] = pack.as_slice().unwrap();
    assert_eq!(all.len(), 600);
}

#[test]
fn odd_numbers_are_counted_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = [[1.0_f32, f32::NAN], [70_000.0, f32::NEG_INFINITY]];
    let builder = FeaturePackBuilder::new("t").dtype(ElementType::Float16);
    let summary = builder.build(folder.path().join("a.iac"), records(2), &vectors).unwrap();
    assert_eq!(summary.non_finite, 3);
    let path = folder.path().join("b.iac");
    let builder = builder.non_finite(NonFinite::Refuse);
    let error = builder.build(&path, records(2), &vectors).unwrap_err();
    assert_eq!((error.row(), error.kind()), (Some(0), ErrorKind::Schema));
    assert!(!path.exists());
}

#[test]
fn nothing_is_taken_or_left_when_the_build_cannot_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    std::fs::write(&path, "other").unwrap();
    let untouched =
        std::iter::from_fn(|| -> Option<Result<FeatureRow<'_>>> { panic!("a vector was taken") });
    let builder = FeaturePackBuilder::new("t");
    let error = builder.build_streaming(&path, records(2), untouched, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let path = folder.path().join("b.iac");
    let failing = [
        Ok(FeatureRow::new(&[1.0_f32])),
        Err(AdapterError::Unsupported { path: "x".into(), reason: "y".into() }),
    ];
    let error = builder.build_streaming(&path, records(2), failing, &NoProgress).unwrap_err();
    assert!(matches!(error, AdapterError::Unsupported { .. }), "{error}");
    let cancel = Cancel::new();
    cancel.cancel();
    let vectors = (0..2).map(|_| Ok(FeatureRow::new(&[1.0_f32])));
    let error = builder.build_streaming(&path, records(2), vectors, &cancel).unwrap_err();
    assert!(error.is_cancelled());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn invalid_packs_are_refused_where_they_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for case in json_file("features/invalid/read_errors.json").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let path =
            trimmed(&format!("features/invalid/{}", case["pack"].as_str().unwrap()), folder.path());
        let pack = FeaturePackReader::open(&path);
        match name {
            "wrong_payload_type"
            | "record_bytes_mismatch"
            | "short_data"
            | "long_data"
            | "unknown_dtype"
            | "no_dtype" => {
                let error = pack.unwrap_err();
                assert!(
                    [ErrorKind::Schema, ErrorKind::Damaged].contains(&error.kind()),
                    "{name}: {error}"
                );
            }
            "duplicate_ids" => {
                let pack = pack.unwrap();
                assert!(pack.read_f32(1).is_ok());
                let error = pack.find("t0").unwrap_err();
                assert!(error.to_string().contains("count=1 sample=t0"), "{error}");
                assert!(pack.records().is_err());
            }
            "unknown_slide_idx" => {
                let pack = pack.unwrap();
                assert_eq!(pack.record(1).unwrap_err().row(), Some(1));
                assert!(pack.read_f32_by_id("t1").is_ok());
            }
            "no_stride" => assert!(pack.unwrap().records().is_err()),
            _ => assert!(pack.unwrap().read_f32(0).is_ok(), "{name}"),
        }
    }
}

#[test]
fn packs_are_joined_by_id_and_what_is_missing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, ids: &[&str], dim: usize| {
        let path = folder.path().join(name);
        let records: Vec<TileRecord> = ids.iter().map(|id| tile(id, 0)).collect();
        let vectors: Vec<Vec<f32>> = ids
            .iter()
            .map(|id| {
                vec![id.trim_start_matches('t').parse::<f32>().unwrap() + dim as f32 / 10.0; dim]
            })
            .collect();
        FeaturePackBuilder::new(name).build(&path, table(&records), &vectors).unwrap();
        FeaturePackReader::open(path).unwrap()
    };
    let first = build("a.iac", &["t0", "t1", "t2"], 1);
    let second = build("b.iac", &["t2", "t0", "t9"], 2);
    let join = FeatureJoin::with_features(&first, [&first, &second]).unwrap();
    assert_eq!((join.dim(), join.tile_count()), (3, 3));
    assert_eq!((join.missing(0), join.missing(1)), (&[][..], &[1][..]));
    assert_eq!(join.complete_rows(), [0, 2]);
    assert_eq!(join.read_f32(&[2, 0]).unwrap(), [2.1, 2.2, 2.2, 0.1, 0.2, 0.2]);
    let error = join.read_f32(&[0, 1]).unwrap_err();
    assert!(matches!(error, AdapterError::UnknownId { .. }));
    let (elements, missing) = join.read_f32_or(&[1, 0], -1.0).unwrap();
    assert_eq!(elements, [1.1, -1.0, -1.0, 0.1, 0.2, 0.2]);
    assert_eq!(
        (missing.len(), missing[0].position, missing[0].tile_row, missing[0].pack),
        (1, 0, 1, 1)
    );
    assert!(join.read_f32(&[3]).is_err());
}

#[test]
fn ids_of_any_length_and_content_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    let ids = ["../../etc/passwd", "a\0b\u{1b}[31m\n", "", &"長".repeat(21_845), "c"];
    let records: Vec<TileRecord> = ids.iter().map(|id| tile(id, 0)).collect();
    let vectors: Vec<[f32; 1]> = (0..5_u8).map(|row| [row.into()]).collect();
    FeaturePackBuilder::new("t").build(&path, table(&records), &vectors).unwrap();
    let pack = FeaturePackReader::open(&path).unwrap();
    for (row, id) in ids.iter().enumerate() {
        assert_eq!(pack.row_of(id).unwrap(), row as u64);
    }
    let error = pack.row_of(&"長".repeat(21_844)).unwrap_err();
    assert!(error.to_string().len() < 1000);
}
