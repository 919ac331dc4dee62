//! `iac pack dicom` and `iac dicom`.
#![cfg(feature = "dicom")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::path::{Path, PathBuf};

fn source(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../iac-adapters/tests/data/dicom")
        .join(case)
        .join("in")
}

fn encodes() -> bool {
    cfg!(feature = "jxl")
}

#[test]
fn a_study_is_packed_listed_checked_and_exported() {
    if !encodes() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("a.rad.iac");
    let made = iac!["pack", "dicom", source("slice_gap"), "-o", &pack, "--verify", "--json"]
        .succeeded()
        .json();
    assert_eq!(made["instances"], 4);
    assert_eq!(made["diagnostics"][0]["code"], "geometric_slice_gap");
    assert_eq!(made["gaps"][0]["before"]["position"], 2.0);
    let again = iac!["pack", "dicom", source("slice_gap"), "-o", &pack, "--json"].ended_with(2);
    assert_eq!(again.json_error()["kind"], "exists");
    let series = iac!["dicom", "series", &pack, "--json"].succeeded().json_lines();
    assert_eq!(series[0]["stacks"][0]["positions"], 4);
    assert_eq!(series[0]["gaps"][0]["after"], 4.0);
    let told = iac!["dicom", "series", &pack].succeeded();
    assert!(told.text().contains("slices are missing between 2.00 mm"));
    iac!["verify", &pack, "--full", "--strict"].succeeded();
    let line = iac!["validate", "--input", &pack].succeeded();
    assert_eq!(
        line.text(),
        "package_valid type=dicom_patient records=4 series=1 codec=jxl decoded=4 crc_checked=4\n"
    );
    for syntax in ["jxl", "explicit", "rle"] {
        let dir = folder.path().join(syntax);
        let arguments = ["--transfer-syntax", syntax, "--verify", "--json"];
        let files = iac![
            "dicom",
            "export",
            &pack,
            "--dir",
            &dir,
            "--rows",
            "1..3",
            arguments[0],
            arguments[1],
            arguments[2],
            arguments[3]
        ]
        .succeeded()
        .json_lines();
        assert_eq!(files[2]["summary"]["files"], 2);
        assert!(Path::new(files[0]["path"].as_str().unwrap()).is_file());
        let copy = folder.path().join(format!("{syntax}.rad.iac"));
        iac!["pack", "dicom", &dir, "-o", &copy].succeeded();
    }
    iac!["dicom", "export", &pack, "--dir", folder.path(), "--rows", "9"].ended_with(2);
    iac!["dicom", "export", &pack, "--dir", folder.path(), "--transfer-syntax", "gif"]
        .ended_with(2);
}

#[test]
fn packs_of_the_reference_are_understood() {
    let pack = source("mixed_pixels_and_metadata").join("../package.rad.iac");
    let series = iac!["dicom", "series", &pack, "--json"].succeeded().json_lines();
    assert_eq!(series.len(), 2);
    let folder = tempfile::tempdir().unwrap();
    iac!["dicom", "export", &pack, "--dir", folder.path()].succeeded();
    iac!["verify", &pack, "--full"].succeeded();
}

#[test]
fn bad_inputs_stop_the_work_or_are_listed() {
    if !encodes() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("a.rad.iac");
    let bad = source("reject_multiframe");
    let good = source("ct_series");
    let stopped = iac!["pack", "dicom", &good, &bad, "-o", &pack].ended_with(4);
    assert!(stopped.err.contains("it has 2 frames"), "{}", stopped.err);
    assert!(!pack.exists());
    let listed =
        iac!["pack", "dicom", &good, &bad, "-o", &pack, "--keep-going", "--json"].ended_with(1);
    let told = listed.json();
    assert_eq!(told["instances"], 5);
    assert_eq!(told["skipped"][0]["kind"], "unsupported");
    iac!["pack", "dicom", folder.path().join("nothing"), "-o", &pack].ended_with(3);
}

#[test]
fn a_folder_of_several_patients_becomes_a_pack_for_each() {
    if !encodes() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("a.rad.iac");
    let mixed = iac!["pack", "dicom", source("two_patients"), "-o", &one].ended_with(1);
    assert!(!mixed.err.contains("PAT"), "{}", mixed.err);
    let packs = folder.path().join("packs");
    let made =
        iac!["pack", "dicom", source("two_patients"), "-o", &packs, "--by-patient", "--json"]
            .succeeded()
            .json_lines();
    assert_eq!(made.len(), 2);
    assert_eq!(std::fs::read_dir(&packs).unwrap().count(), 2);
}
