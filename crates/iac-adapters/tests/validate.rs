//! The validator against what the reference's says of every golden pack.
#![cfg(all(feature = "tiles", feature = "features"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod common;

use std::path::PathBuf;

use common::{cases, data, json_file, trimmed};
use iac_adapters::TileRecord;
use iac_adapters::tiles::{TilePackBuilder, TileSize};
use iac_adapters::validate::{Schemas, ValidateOptions, find_packs, validate_pack};
use iac_ops::NoProgress;
use iac_ops::check::{CheckOptions, PackCheck, check};
use iac_writer::WriteOptions;
use serde_json::Value;

fn has_jxl() -> bool {
    iac_codec::compiled_codecs().contains(&"jxl")
}

/// The path of a golden pack, restored if need be; nothing for those of other crates.
fn restored(pack: &str, folder: &std::path::Path) -> Option<PathBuf> {
    let whole = data(pack);
    if whole.exists() {
        return Some(whole);
    }
    data(&format!("{pack}.trim")).exists().then(|| trimmed(pack, folder))
}

#[test]
fn every_golden_pack_passes_or_fails_as_with_the_reference() {
    if !has_jxl() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for case in json_file("validate/validate_package.json").as_array().unwrap() {
        let name = case["pack"].as_str().unwrap();
        // The rules of other payload types are tested with them.
        if !name.starts_with("tiles/") && !name.starts_with("features/") {
            continue;
        }
        let Some(path) = restored(name, folder.path()) else { continue };
        let runs = [
            ("default", ValidateOptions::default()),
            ("max_decode_1_max_crc_1", ValidateOptions::default().max_decode(1).max_crc(1)),
        ];
        for (run, options) in runs {
            let Some(told) = case.get(run) else { continue };
            let found = validate_pack(&path, &options);
            assert_eq!(found.is_ok(), told["ok"] == true, "{name} {run}: {found:?}");
            match found {
                Ok(valid) => {
                    let line = valid.to_string();
                    for (key, value) in told["value"].as_object().unwrap() {
                        let value = match value {
                            Value::String(text) => text.clone(),
                            other => other.to_string(),
                        };
                        assert!(line.contains(&format!("{key}={value}")), "{name}: {line}");
                    }
                }
                Err(error) => {
                    // Messages of a codec and of the container are our own.
                    let told = told["message"].as_str().unwrap();
                    let own =
                        ["Jxl", "segment outside", "Invalid mode", "Cannot handle", "expected ("];
                    if !own.iter().any(|own| told.contains(own)) {
                        assert_eq!(error.reason(), told, "{name}");
                    }
                }
            }
            seen += 1;
        }
    }
    assert!(seen >= 60, "{seen}");
}

#[test]
fn lines_are_those_of_the_reference() {
    if !has_jxl() {
        return;
    }
    let mut seen = 0;
    for run in json_file("validate/runs.json").as_array().unwrap() {
        let arguments: Vec<&str> = run["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|argument| argument.as_str().unwrap())
            .collect();
        let lines = run["stdout"].as_array().unwrap();
        if run["exit_code"] != 0 || lines.len() != 1 || arguments.contains(&"-1") {
            continue;
        }
        let mut options = ValidateOptions::default();
        let mut path = None;
        for pair in arguments.chunks(2) {
            match pair[0] {
                "--input" => path = Some(data(pair[1])),
                "--max-decode" => options = options.max_decode(pair[1].parse().unwrap()),
                "--max-crc" => options = options.max_crc(pair[1].parse().unwrap()),
                other => panic!("{other}"),
            }
        }
        let path = path.unwrap();
        assert_eq!(validate_pack(&path, &options).unwrap().to_string(), lines[0].as_str().unwrap());
        assert_eq!(find_packs(&path).unwrap(), [path]);
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
    let packs = find_packs(&data("validate/mixed")).unwrap();
    let names: Vec<&str> =
        packs.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["a_bad.iac", "b_good.iac", "a.features.iac", "c_bad.iac"]);
    assert!(find_packs(&data("validate/empty_dir")).is_err());
}

#[test]
fn tiles_at_both_ends_are_among_the_few_that_are_decoded() {
    if !has_jxl() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let payload = std::fs::read(data("tiles/from_records/payload1.jxl")).unwrap();
    let records: Vec<TileRecord> = (0..100)
        .map(|row| TileRecord {
            tile_id: format!("t{row}"),
            patient_id: "p".to_owned(),
            slide_id: "s".to_owned(),
            x: row * 12,
            ..TileRecord::default()
        })
        .collect();
    for (damaged, is_found) in [(99, true), (0, true), (1, false), (98, false)] {
        let path = folder.path().join(format!("{damaged}.iac"));
        let mut payloads = vec![payload.clone(); records.len()];
        payloads[damaged].truncate(payload.len() / 2);
        TilePackBuilder::new()
            .check_payloads(false)
            .options(WriteOptions::new().sync(false))
            .build_from_records(&records, &payloads, TileSize { width: 12, height: 12 }, &path)
            .unwrap();
        let found = validate_pack(&path, &ValidateOptions::default());
        assert_eq!(found.is_err(), is_found, "{damaged}: {found:?}");
        assert!(validate_pack(&path, &ValidateOptions::default().max_decode(0)).is_err());
    }
}

fn checked(path: PathBuf) -> PackCheck {
    let mut options = CheckOptions::default();
    options.decode = u64::MAX;
    options.schemas = Schemas::all();
    let mut found = None;
    check(&[path], &options, &NoProgress, &mut |pack| {
        found = Some(pack);
        Ok(())
    })
    .unwrap();
    found.unwrap()
}

#[test]
fn golden_packs_have_no_faults_and_broken_ones_tell_all_of_theirs() {
    if !has_jxl() {
        return;
    }
    for kind in ["tiles", "features"] {
        for (name, _) in cases(kind) {
            let found = checked(data(&format!("{kind}/{name}/pack.iac")));
            assert!(found.is_sound(), "{name}: {:?}", found.faults);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, rows, fields) in [
        ("tiles/invalid/packs/duplicate_ids.iac", vec![Some(1)], vec!["tile_id"]),
        ("tiles/invalid/packs/unknown_slide_idx.iac", vec![Some(1)], vec!["slide_idx"]),
        ("tiles/invalid/packs/no_flags_column.iac", vec![None], vec!["flags"]),
        ("tiles/invalid/packs/size_mismatch.iac", vec![Some(0), Some(1)], vec!["tile_width"; 2]),
        ("tiles/invalid/packs/uint16_stream.iac", vec![Some(1)], vec!["codec"]),
        ("tiles/invalid/packs/gray_alpha_stream.iac", vec![Some(1)], vec!["codec"]),
        ("features/invalid/packs/empty_teacher.iac", vec![None], vec!["teacher"]),
        ("features/invalid/packs/zero_dim.iac", vec![None], vec!["feature_dim"]),
    ] {
        let found = checked(trimmed(name, folder.path()));
        let faults = found.faults.iter().filter(|fault| fault.check == "schema");
        let faults: Vec<(Option<u64>, &str)> =
            faults.map(|fault| (fault.row, fault.field.as_deref().unwrap())).collect();
        let expected: Vec<(Option<u64>, &str)> = rows.into_iter().zip(fields).collect();
        assert_eq!(faults, expected, "{name}: {:?}", found.faults);
    }
    let found = checked(trimmed("tiles/invalid/packs/no_stride.iac", folder.path()));
    assert!(found.is_sound());
    assert!(found.notes.iter().any(|note| note.contains("stride_x")), "{:?}", found.notes);
}
