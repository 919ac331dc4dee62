//! `iac pack dicom --deidentify` and `iac dicom deid-check`.
#![cfg(feature = "dicom")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

fn source(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../iac-adapters/tests/data/dicom")
        .join(case)
        .join("in")
}

#[test]
fn a_study_is_deidentified_checked_and_told() {
    if !cfg!(feature = "jxl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("p.toml");
    fs::write(
        &profile,
        "name = \"t\"\noptions = [\"retain-modified-dates\"]\n[key]\nfile = \"key\"\n",
    )
    .unwrap();
    let (plain, pack) = (folder.path().join("plain.rad.iac"), folder.path().join("a.rad.iac"));
    let map = folder.path().join("map.json");
    iac!["pack", "dicom", source("ct_series"), "-o", &plain].succeeded();
    // Without a key nothing is made.
    iac!["pack", "dicom", source("ct_series"), "-o", &pack, "--deidentify", &profile].ended_with(3);
    fs::write(folder.path().join("key"), "short").unwrap();
    iac!["pack", "dicom", source("ct_series"), "-o", &pack, "--deidentify", &profile].ended_with(2);
    assert!(!pack.exists());
    fs::write(folder.path().join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let made = iac![
        "pack",
        "dicom",
        source("ct_series"),
        "-o",
        &pack,
        "--deidentify",
        &profile,
        "--pseudonym-map",
        &map,
        "--json"
    ]
    .succeeded()
    .json();
    assert_eq!(made["deidentification"]["objects"], 5);
    assert!(made["deidentification"]["totals"]["remapped"].as_u64().unwrap() >= 15);
    assert!(fs::read_to_string(&map).unwrap().contains("\"pseudonym\""));
    let clean = iac!["dicom", "deid-check", &pack].succeeded();
    assert!(clean.text().contains("5 objects looked at, nothing found"), "{}", clean.text());
    iac!["dicom", "deid-check", &pack, "--profile", &profile].succeeded();
    let found = iac!["dicom", "deid-check", &plain, "--json"].ended_with(1).json_lines();
    let summary = &found.last().unwrap()["summary"];
    assert_eq!(summary["clean"], false);
    assert!(found.iter().any(|it| it["place"] == "00100020" && it["code"] == "attribute"));
    iac!["verify", &pack, "--full", "--strict"].succeeded();
    iac!["validate", "--input", &pack].succeeded();
    // A map is not written over another one.
    iac![
        "pack",
        "dicom",
        source("ct_series"),
        "-o",
        &pack,
        "--overwrite",
        "--deidentify",
        &profile,
        "--pseudonym-map",
        &map
    ]
    .ended_with(2);
}

#[test]
fn a_profile_with_an_unknown_rule_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("p.toml");
    fs::write(&profile, "name = \"t\"\n[elements]\nPatientName = \"publish\"\n").unwrap();
    let pack = folder.path().join("a.rad.iac");
    let run =
        iac!["pack", "dicom", source("ct_series"), "-o", &pack, "--deidentify", &profile, "--json"]
            .ended_with(2);
    let error = run.json_error();
    assert_eq!(error["kind"], "usage");
    assert!(error["message"].as_str().unwrap().contains("elements.PatientName"), "{error}");
    iac!["pack", "dicom", source("ct_series"), "-o", &pack, "--deid-key", &profile].ended_with(2);
    assert!(!pack.exists());
}

#[test]
fn packs_of_patients_are_named_by_pseudonyms() {
    if !cfg!(feature = "jxl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("p.toml");
    fs::write(&profile, "name = \"t\"\n[patient]\nprefix = \"T7-\"\n[key]\nfile = \"key\"\n")
        .unwrap();
    fs::write(folder.path().join("key"), "0123456789abcdef").unwrap();
    let packs = folder.path().join("packs");
    iac![
        "pack",
        "dicom",
        source("two_patients"),
        "-o",
        &packs,
        "--by-patient",
        "--deidentify",
        &profile
    ]
    .succeeded();
    let names: Vec<String> = fs::read_dir(&packs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.starts_with("T7-")), "{names:?}");
    for name in names {
        iac!["dicom", "deid-check", packs.join(name)].succeeded();
    }
}
