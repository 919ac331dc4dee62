//! Manifests against the golden files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod common;

use std::io::Read;

use common::{cases, data, json_file, record_json};
use iac_adapters::manifest::{COLUMNS, ManifestReader, read_manifest, write_manifest};
use iac_adapters::{AdapterError, TileRecord};

#[test]
fn golden_manifests_are_read_as_stated() {
    for (name, expected) in cases("tiles") {
        let Some(manifest) = expected["build"]["manifest"].as_str() else { continue };
        let records = read_manifest(data(&format!("tiles/{name}/{manifest}"))).unwrap();
        let told = expected["records"].as_array().unwrap();
        assert_eq!(records.len(), told.len(), "{name}");
        for (record, told) in records.iter().zip(told) {
            let mut found = record_json(record);
            found["tile_path"] = told["record"]["tile_path"].clone();
            assert_eq!(found, told["record"], "{name}");
        }
    }
}

#[test]
fn invalid_manifests_are_refused_with_line_and_column() {
    for case in json_file("tiles/invalid/build_errors.json").as_array().unwrap() {
        let Some(manifest) = case["manifest"].as_str() else { continue };
        let name = case["name"].as_str().unwrap();
        let result = read_manifest(data(&format!("tiles/invalid/{manifest}")));
        let place = match name {
            "missing_column" | "missing_several" | "empty_file" | "spaced_header" => {
                let error = result.unwrap_err();
                let AdapterError::MissingColumns { columns, .. } = &error else {
                    panic!("{error}")
                };
                let told = case["result"]["message"].as_str().unwrap();
                let told = told.split_once('[').unwrap().1.trim_end_matches(']');
                let told: Vec<&str> =
                    told.split(", ").map(|name| name.trim_matches('\'')).collect();
                assert_eq!(*columns, told, "{name}");
                continue;
            }
            "latin1" => (2, 0),
            "float_coordinate" | "empty_coordinate" | "short_row" | "unterminated_quote" => (2, 0),
            _ => {
                result.unwrap_or_else(|error| panic!("{name}: {error}"));
                continue;
            }
        };
        let error = result.unwrap_err();
        let AdapterError::Manifest { line, column, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!(*line, place.0, "{name}: {error}");
        assert!(*column > 0);
    }
}

fn read(text: &str) -> Result<Vec<TileRecord>, AdapterError> {
    ManifestReader::from_source(text.as_bytes(), "m.csv")?.collect()
}

#[test]
fn errors_name_file_line_column_and_field() {
    let head = "tile_id,patient_id,slide_id,tile_path,x,y,split\n";
    let error = read(&format!("{head}a,p,s,i,0,0,\n\na,p,s,ä,0,1.5,\n")).unwrap_err();
    assert_eq!(error.to_string(), "m.csv:4:11: y: \"1.5\" is no integer");
    assert_eq!(error.field(), Some("y"));
    let error = read(&format!("{head}a,p,s\n")).unwrap_err();
    assert_eq!(error.to_string(), "m.csv:2:1: tile_path: missing, because the row is too short");
    let error = read(&format!("{head}a,p,s,i,99999999999999999999,0,")).unwrap_err();
    assert!(error.to_string().contains("beyond 64 bits"), "{error}");
    let records = read(&format!("{head}a,p,s,i,0,0\n")).unwrap();
    assert_eq!(records[0].split, None);
    let error = read(&head.replace(',', ";")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "m.csv:1:1: columns are separated by ';', but commas are expected"
    );
    let error = read(&head.replace(',', "\t")).unwrap_err();
    assert!(error.to_string().contains(r"separated by '\t'"), "{error}");
    // After an error there is nothing more.
    let text = format!("{head}a,p,s,i,x,0,\nb,p,s,i,0,0,\n");
    let mut reader = ManifestReader::from_source(text.as_bytes(), "m.csv").unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn paths_are_made_normal() {
    let head = "tile_id,patient_id,slide_id,tile_path,x,y,split\n";
    for (text, path) in [
        ("a//b/./c.png", "a/b/c.png"),
        ("./a", "a"),
        ("../a/../b", "../a/../b"),
        ("", "."),
        (".", "."),
        ("/a//b", "/a/b"),
        ("a/", "a"),
    ] {
        let records = read(&format!("{head}a,p,s,{text},0,0,")).unwrap();
        assert_eq!(records[0].tile_path.to_str(), Some(path), "{text}");
    }
}

#[test]
fn written_manifests_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/m.csv");
    let odd = TileRecord {
        tile_id: "a,\"b\"\r\nc".to_owned(),
        patient_id: " p ".to_owned(),
        slide_id: "ß\0".to_owned(),
        tile_path: "x/y.png".into(),
        x: -7,
        y: i64::MAX,
        split: Some(String::new()),
    };
    write_manifest(&path, [&odd, &odd]).unwrap();
    assert_eq!(read_manifest(&path).unwrap(), [odd.clone(), odd.clone()]);
    write_manifest(&path, []).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), COLUMNS.join(",") + "\r\n");
}

/// A manifest as long as wanted that is nowhere at once.
struct Endless {
    rows: u64,
    row: u64,
    rest: Vec<u8>,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() && self.row < self.rows {
            self.rest = match self.row {
                0 => b"tile_id,patient_id,slide_id,tile_path,x,y,split\n".to_vec(),
                row => format!("tile-{row},p,s,images/{row}.png,{row},0,train\n").into_bytes(),
            };
            self.row += 1;
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

#[test]
fn long_manifests_are_read_in_bounded_memory() {
    let source = Endless { rows: 200_001, row: 0, rest: Vec::new() };
    let mut reader = ManifestReader::from_source(source, "m.csv").unwrap();
    let mut count = 0;
    for record in &mut reader {
        assert_eq!(record.unwrap().y, 0);
        count += 1;
    }
    assert_eq!(count, 200_000);
}
