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
    let stopped = iac!["pack", "dicom", &good, &bad, "-o", &pack, "--schema", "1"].ended_with(4);
    assert!(stopped.err.contains("it has 2 frames"), "{}", stopped.err);
    assert!(!pack.exists());
    let listed =
        iac!["pack", "dicom", &good, &bad, "-o", &pack, "--schema", "1", "--keep-going", "--json"]
            .ended_with(1);
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

#[test]
fn rows_without_images_are_passed_over_not_failed_at() {
    let pack = source("mixed_pixels_and_metadata").join("../package.rad.iac");
    let sums = iac!["digest", &pack, "--json"].succeeded().json_lines();
    let without: Vec<usize> = (0..sums.len()).filter(|row| sums[*row]["bytes"] == 0).collect();
    assert!(!without.is_empty() && without.len() < sums.len());
    for (row, sum) in sums.iter().enumerate() {
        let is_decoded = sum.get("decoded").is_some();
        assert_eq!(is_decoded, !without.contains(&row), "{sum}");
        assert!(sum.get("error").is_none(), "{sum}");
    }
    let folder = tempfile::tempdir().unwrap();
    let rows = format!("0..{}", sums.len());
    let out = folder.path().join("out");
    let decoded = iac!["decode", &pack, "--rows", &rows, "--dir", &out].succeeded();
    assert!(decoded.err.contains("left out, which store no record"), "{}", decoded.err);
    let files = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(files, sums.len() - without.len());
    let one = without[0].to_string();
    let refused = iac!["decode", &pack, "--rows", &one].ended_with(2);
    assert!(refused.err.contains("stores no record"), "{}", refused.err);
    let pictures = folder.path().join("pictures");
    iac!["extract", &pack, "--dir", &pictures].succeeded();
    assert_eq!(std::fs::read_dir(&pictures).unwrap().count(), files);
    if !encodes() {
        return;
    }
    // Only the effort can be changed, and all that the pack holds besides its rows stays.
    let small = folder.path().join("small.rad.iac");
    iac!["recode", &pack, "--codec", "jpegls", "-o", &small].ended_with(2);
    iac!["recode", &pack, "--codec", "jxl:effort=9,lossless=false", "-o", &small].ended_with(2);
    iac!["recode", &pack, "--codec", "jxl:effort=9", "-o", &small].succeeded();
    iac!["verify", &small, "--full"].succeeded();
    let again = iac!["digest", &small, "--json"].succeeded().json_lines();
    for (old, new) in sums.iter().zip(&again) {
        assert_eq!(old["decoded"]["sha256"], new["decoded"]["sha256"]);
    }
    for pack in [&pack, &small] {
        iac!["dicom", "export", pack, "--dir", &out, "--overwrite"].succeeded();
    }
    // Bits beside the payloads are found by their place.
    let aside = folder.path().join("aside.rad.iac");
    iac!["pack", "dicom", source("high_bit_overlay"), "-o", &aside].succeeded();
    let other = folder.path().join("other.rad.iac");
    let refused = iac!["recode", &aside, "--codec", "jxl:effort=9", "-o", &other].ended_with(2);
    assert!(refused.err.contains("lie behind its records"), "{}", refused.err);
}

#[test]
fn pages_tell_studies_series_and_syntaxes_and_nothing_of_patients() {
    let pack = source("mixed_pixels_and_metadata").join("../package.rad.iac");
    let page = iac!["info", &pack].succeeded();
    for part in ["1 study, 2 series", "with an image", "1.2.840.10008.1.2", "bits stored"] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    let told = iac!["stats", &pack, "--json"].succeeded().json();
    let objects = &told["objects"];
    assert_eq!((&objects["studies"], &objects["series"]), (&1.into(), &2.into()));
    let images = objects["images"].as_u64().unwrap();
    assert!(images > 0 && images < objects["instances"].as_u64().unwrap());
    let sum = |name: &str| -> u64 {
        let tallies = objects[name].as_array().unwrap();
        tallies.iter().map(|tally| tally["count"].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("sizes"), sum("bits_stored"), sum("modalities")), (images, images, 2));
    assert!(told["ratio"].as_f64().unwrap() > 0.0);
    let pages = format!("{}{}{told}", page.text(), iac!["stats", &pack].succeeded().text());
    for value in ["Doe", "Jane", "PAT-1"] {
        assert!(!pages.contains(value), "{pages}");
    }
}

#[test]
fn pixel_data_that_cannot_be_used_is_stored_as_it_is_on_request() {
    if !encodes() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("a.rad.iac");
    let sources = [source("ct_series"), source("reject_multiframe")];
    let made = iac![
        "pack",
        "dicom",
        &sources[0],
        &sources[1],
        "-o",
        &pack,
        "--as-is",
        "--schema",
        "1",
        "--json"
    ]
    .succeeded()
    .json();
    assert_eq!((&made["instances"], &made["images"]), (&6.into(), &5.into()));
    assert!(made["kept"][0]["reason"].as_str().unwrap().contains("2 frames"));
    iac!["verify", &pack, "--full"].succeeded();
    let out = folder.path().join("out");
    iac!["dicom", "export", &pack, "--dir", &out, "--transfer-syntax", "deflated"].succeeded();
    let again = folder.path().join("b.rad.iac");
    iac!["pack", "dicom", &out, "-o", &again, "--as-is", "--schema", "1"].succeeded();
    let told = |pack: &Path| iac!["stats", pack, "--json"].succeeded().json()["objects"].clone();
    assert_eq!(told(&pack)["sizes"], told(&again)["sizes"]);
}

#[test]
fn salvaged_packs_keep_what_their_objects_share() {
    if !encodes() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("a.rad.iac");
    let sources = [source("ct_series"), source("high_bit_overlay")];
    // Of one patient, or the second one would be left out.
    let made =
        iac!["pack", "dicom", &sources[0], &sources[1], "-o", &pack, "--keep-going", "--json"];
    let count = made.json()["instances"].as_u64().unwrap();
    let (saved, out) = (folder.path().join("b.rad.iac"), folder.path().join("out"));
    iac!["salvage", &pack, "-o", &saved].succeeded();
    iac!["verify", &saved, "--full"].succeeded();
    // The payload of the first row is damaged: the others come out as they were.
    let rows = iac!["ls", &pack, "--format", "jsonl"].succeeded().json_lines();
    let header = iac!["info", &pack, "--json"].succeeded().json()["header"].clone();
    let place = header["data_offset"].as_u64().unwrap() + rows[0]["offset"].as_u64().unwrap() + 60;
    let mut bytes = std::fs::read(&pack).unwrap();
    bytes[usize::try_from(place).unwrap()] ^= 0xFF;
    std::fs::write(&pack, bytes).unwrap();
    iac!["salvage", &pack, "-o", &saved, "--overwrite"].ended_with(1);
    let arguments = ["--transfer-syntax", "explicit"];
    iac!["dicom", "export", &saved, "--dir", &out, arguments[0], arguments[1]].succeeded();
    let files = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(u64::try_from(files).unwrap(), count - 1);
}

#[test]
fn frames_are_packed_listed_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("a.rad.iac");
    let source = source("reject_multiframe");
    let made = iac!["pack", "dicom", &source, "-o", &pack, "--payload", "zstd", "--json"]
        .succeeded()
        .json();
    assert_eq!((&made["schema"], &made["frames"]), (&2.into(), &2.into()));
    assert_eq!(made["instances"], 1);
    let objects = iac!["dicom", "frames", &pack, "--json"].succeeded().json_lines();
    assert_eq!(objects.len(), 1);
    assert_eq!((&objects[0]["frames"], &objects[0]["codec"]), (&2.into(), &"zstd-delta".into()));
    let frames =
        iac!["dicom", "frames", &pack, "--instance", "0", "--json"].succeeded().json_lines();
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[1]["row"], 1);
    assert!(iac!["dicom", "frames", &pack].succeeded().text().contains("2 frames of"));
    iac!["dicom", "frames", &pack, "--instance", "1"].ended_with(2);
    iac!["verify", &pack, "--full", "--strict"].succeeded();
    iac!["validate", "--input", &pack].succeeded();
    let sheet = folder.path().join("a.png");
    iac!["montage", &pack, "-o", &sheet].succeeded();
    assert!(sheet.is_file());
    let dir = folder.path().join("out");
    let files = iac![
        "dicom",
        "export",
        &pack,
        "--dir",
        &dir,
        "--rows",
        "0..2",
        "--transfer-syntax",
        "rle",
        "--json"
    ]
    .succeeded()
    .json_lines();
    assert_eq!(files[1]["summary"]["files"], 1);
    let again = folder.path().join("b.rad.iac");
    iac!["pack", "dicom", &dir, "-o", &again, "--payload", "none"].succeeded();
    for wrong in [["--payload", "gif"], ["--schema", "3"], ["--lossy", "x"]] {
        iac!["pack", "dicom", &source, "-o", &again, wrong[0], wrong[1]].ended_with(2);
    }
    iac![
        "pack",
        "dicom",
        &source,
        "-o",
        &again,
        "--schema",
        "1",
        "--payload",
        "zstd",
        "--overwrite"
    ]
    .ended_with(2);
}

#[test]
fn packs_of_frames_are_summed_up_and_salvaged_and_refused_where_they_would_lose_something() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("a.rad.iac");
    let sources = [source("ct_series"), source("reject_multiframe")];
    iac!["pack", "dicom", &sources[0], &sources[1], "-o", &pack, "--payload", "zstd"].succeeded();
    let sums = iac!["digest", &pack, "--json"].succeeded().json_lines();
    assert_eq!(sums.len(), 7);
    // What is stored, not what it would be with the codec of another pack.
    assert!(sums.iter().all(|sum| sum.get("decoded").is_none() && sum.get("error").is_none()));
    let told = iac!["stats", &pack, "--json"].succeeded().json();
    // Five slices of 20 x 24 words, and two frames of 4 x 6 bytes.
    assert!(told["codec"].is_null());
    assert_eq!(told["decoded_bytes"], 4800 + 48);
    let told = &told["objects"];
    assert_eq!(
        (&told["instances"], &told["images"], &told["frames"]),
        (&6.into(), &6.into(), &7.into())
    );
    assert!(iac!["info", &pack].succeeded().text().contains("6 instances"));
    let other = folder.path().join("b.rad.iac");
    for codec in ["zstd", "jxl:effort=3", "none"] {
        let refused = iac!["recode", &pack, "--codec", codec, "-o", &other].ended_with(2);
        assert!(refused.err.contains("has a codec of its own"), "{}", refused.err);
    }
    iac!["decode", &pack, "--rows", "0"].ended_with(2);
    iac!["extract", &pack, "--dir", folder.path().join("records")].ended_with(2);
    assert_ne!(iac!["subset", &pack, "-o", &other, "--rows", "0..2"].code, 0);
    assert!(!other.exists());

    iac!["salvage", &pack, "-o", &other].succeeded();
    iac!["verify", &other, "--full", "--strict"].succeeded();
    let exported = |pack: &Path, name: &str| {
        let out = folder.path().join(name);
        iac!["dicom", "export", pack, "--dir", &out, "--transfer-syntax", "explicit"].succeeded();
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|it| (it.file_name().into_string().unwrap(), std::fs::read(it.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let whole = exported(&pack, "whole");
    assert!(whole == exported(&other, "salvaged"));
    // One frame of the object with two of them is damaged: all of that object is lost, no other.
    let objects = iac!["dicom", "frames", &pack, "--json"].succeeded().json_lines();
    let object = objects.iter().find(|object| object["frames"] == 2).unwrap();
    let row = usize::try_from(object["row"].as_u64().unwrap()).unwrap();
    let rows = iac!["ls", &pack, "--format", "jsonl"].succeeded().json_lines();
    let header = iac!["info", &pack, "--json"].succeeded().json()["header"].clone();
    let place = header["data_offset"].as_u64().unwrap() + rows[row + 1]["offset"].as_u64().unwrap();
    let mut bytes = std::fs::read(&pack).unwrap();
    bytes[usize::try_from(place).unwrap() + 6] ^= 0xFF;
    std::fs::write(&pack, bytes).unwrap();
    iac!["salvage", &pack, "-o", &other, "--overwrite"].ended_with(1);
    // The table of series still says that there was an object more, and nothing else is wrong.
    let checked = iac!["verify", &other, "--full", "--strict"].ended_with(1);
    assert!(checked.text().starts_with("1 fault"), "{}", checked.text());
    assert!(checked.text().contains("has 0 rows, but 1 are stated"), "{}", checked.text());
    let rest = exported(&other, "rest");
    assert_eq!(rest.len(), 5);
    assert!(rest.iter().all(|file| whole.contains(file)));
    assert_eq!(iac!["info", &other, "--json"].succeeded().json()["header"]["num_instances"], 5);
}
