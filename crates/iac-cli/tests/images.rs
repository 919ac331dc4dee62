//! Packs of images on the command line: `decode`, `extract`, `montage`, `pack raw`, `recode`.
//!
//! What a build has no codec for ends with code 4, whatever the features.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{golden, golden_json, malformed, names_in, sha256};
use iatrocache::ops::pictures::{read_picture, write_png};
use iatrocache::{Image, ImageShape, Limits};
use serde_json::{Value, json};
use tempfile::tempdir;

/// Packs of a codec that this build decodes; none where it decodes no images at all.
fn packs_that_decode() -> Vec<&'static str> {
    let there = iatrocache::compiled_codecs();
    [("jpeg", "jpeg_a1"), ("jxl", "jxl_a0"), ("jpegls", "jpegls_a0"), ("jpeg2000", "jpeg2000_a0")]
        .into_iter()
        .filter_map(|(codec, pack)| there.contains(&codec).then_some(pack))
        .collect()
}

fn picture(path: &Path) -> Image {
    read_picture(&fs::read(path).unwrap(), &Limits::default()).unwrap()
}

/// PNG files of 20 x 30 pixels.
fn png_files(folder: &Path, count: u8) -> PathBuf {
    let dir = folder.join("tiles");
    fs::create_dir_all(&dir).unwrap();
    let shape = ImageShape::new(20, 30, 3).unwrap();
    for n in 0..count {
        let samples: Vec<u8> =
            (0..shape.samples()).map(|at| (at as u8).wrapping_mul(3).wrapping_add(n)).collect();
        let image = Image::new(shape, samples).unwrap();
        fs::write(dir.join(format!("{n:02}.png")), write_png(&image.as_view()).unwrap()).unwrap();
    }
    dir
}

/// A `.npy` file of signed samples.
fn signed_file(folder: &Path) -> PathBuf {
    let text = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }\n";
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.as_bytes());
    for sample in [-1000_i16, -1, 0, 1, 40, 3071] {
        file.extend(sample.to_le_bytes());
    }
    let path = folder.join("ct.npy");
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn decoded_images_are_described_and_written_in_every_format() {
    for name in packs_that_decode() {
        let folder = tempdir().unwrap();
        let expected = golden_json(name);
        let records = expected["records"].as_array().unwrap();
        let dir = folder.path().join("raw");
        let rows = format!("0..{}", records.len());
        let run = iac!("decode", golden(name), "--rows", rows, "--dir", dir, "--json").succeeded();
        for (line, record) in run.json_lines().iter().zip(records) {
            let decoded = &record["decoded"];
            assert_eq!(line["kind"], "image", "{name}");
            assert_eq!((&line["shape"], &line["dtype"]), (&decoded["shape"], &decoded["dtype"]));
            let raw = fs::read(dir.join(format!("{}.raw", line["row"]))).unwrap();
            assert_eq!(json!(sha256(&raw)), line["sha256"]);
            if decoded["lossless"] == true {
                assert_eq!(line["sha256"], decoded["sha256"], "{name} {line}");
            }
        }
        let run = iac!("digest", golden(name), "--json");
        for (line, raw) in run.json_lines().iter().zip(0..) {
            let raw = fs::read(dir.join(format!("{raw}.raw"))).unwrap();
            assert_eq!(line["decoded"]["sha256"], json!(sha256(&raw)), "{name} {line}");
        }
        // Row 0 of each is a picture of 8 bits.
        let raw = fs::read(dir.join("0.raw")).unwrap();
        for format in ["png", "npy"] {
            let out = folder.path().join(format!("0.{format}"));
            iac!("decode", golden(name), "--rows", "0", "--format", format, "-o", out).succeeded();
            assert_eq!(*picture(&out).samples().to_le_bytes(), raw, "{name} {format}");
            let run = iac!("decode", golden(name), "--rows", "0", "--format", format).succeeded();
            assert_eq!(run.out, fs::read(out).unwrap());
            let run = iac!("decode", golden(name), "--rows", "0,0", "--format", format);
            assert!(run.ended_with(2).err.contains("--dir"));
        }
        let run = iac!("decode", golden(name), "--rows", "0", "--format", "json").succeeded();
        let value: Value = run.json();
        let data: Vec<u8> =
            value["data"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u8).collect();
        assert_eq!(data, raw);
        let out = folder.path().join("small.npy");
        let run = iac!(
            "decode",
            golden(name),
            "--rows",
            "0",
            "--scale",
            "4",
            "--format",
            "npy",
            "-o",
            out,
            "--json"
        );
        assert_eq!(run.succeeded().json()["shape"][0], 6, "{name}");
    }
}

#[test]
fn numbers_and_notes_can_be_decoded_to_json_and_arrays() {
    let run = iac!("decode", golden("fixed_float32_4x3_a"), "--rows", "1", "--format", "json");
    let value = run.succeeded().json();
    assert_eq!((&value["kind"], &value["dtype"]), (&json!("vector"), &json!("float32")));
    assert_eq!(value["data"].as_array().unwrap().len(), 3);
    let run = iac!("decode", golden("fixed_float32_4x3_a"), "--rows", "1", "--format", "npy");
    assert!(run.succeeded().out.starts_with(b"\x93NUMPY"));
    let run = iac!("decode", golden("fixed_float32_4x3_a"), "--rows", "1", "--format", "png");
    assert!(run.ended_with(4).err.contains("no image"));
    let run = iac!("decode", golden("none_a"), "--rows", "0", "--scale", "3");
    run.ended_with(2);
}

#[test]
fn names_that_say_another_format_are_refused() {
    let folder = tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let run = iac!("montage", golden("none_a"), "-o", place("sheet.jpg")).ended_with(2);
    assert!(run.err.contains("sheet.jpg") && run.err.contains("PNG"), "{}", run.err);
    for (format, name, hint) in [
        ("raw", "0.png", "--format png"),
        ("png", "0.NPY", "--format npy"),
        ("npy", "0.tif", "npy"),
    ] {
        let run =
            iac!("decode", golden("none_a"), "--rows", "0", "--format", format, "-o", place(name));
        let run = run.ended_with(2);
        assert!(run.err.contains(name) && run.err.contains(hint), "{}", run.err);
        assert!(!place(name).exists());
    }
}

#[test]
fn nobody_is_told_to_replace_a_folder() {
    let folder = tempdir().unwrap();
    let (source, there) = (folder.path().join("source"), folder.path().join("there"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&there).unwrap();
    fs::write(source.join("a.txt"), "note").unwrap();
    let run = iac!("pack", "raw", source, "-o", there).ended_with(2);
    assert!(run.err.contains("folder") && !run.err.contains("--overwrite"), "{}", run.err);
}

#[test]
fn a_sheet_is_made_of_any_pack_of_images() {
    for name in packs_that_decode() {
        let folder = tempdir().unwrap();
        let out = folder.path().join("sheet.png");
        let run =
            iac!("montage", golden(name), "-o", out, "--columns", "3", "--cell", "24", "--json")
                .succeeded();
        let sheet = run.json();
        let count = golden_json(name)["records"].as_array().unwrap().len();
        assert_eq!(sheet["rows"].as_array().unwrap().len(), count, "{name}");
        assert_eq!((&sheet["columns"], &sheet["failed"]), (&json!(3), &json!([])), "{name}");
        let shape = picture(&out).shape();
        assert_eq!(json!(shape.dimensions()), sheet["shape"]);
        assert_eq!(shape.width(), 3 * 26 + 2);
        iac!("montage", golden(name), "-o", out).ended_with(2);
        let run = iac!("montage", golden(name), "-o", out, "--overwrite", "--rows", "0,1");
        assert!(run.succeeded().text().contains("2 images"));
    }
    let folder = tempdir().unwrap();
    let out = folder.path().join("sheet.png");
    iac!("montage", golden("none_a"), "-o", out).ended_with(2);
    iac!("montage", golden("jpeg_a0"), "-o", out, "--rows", "99")
        .ended_with(if iatrocache::compiled_codecs().contains(&"jpeg") { 2 } else { 4 });
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

#[test]
fn damaged_images_are_crosses_and_the_code_says_so() {
    if !iatrocache::compiled_codecs().contains(&"jpeg") {
        return;
    }
    let folder = tempdir().unwrap();
    let out = folder.path().join("sheet.png");
    let run = iac!("montage", malformed("payload_jpeg_a"), "-o", out, "--json").ended_with(1);
    let failed = run.json()["failed"].clone();
    assert_eq!(failed.as_array().unwrap().len(), 5, "{failed}");
    assert_eq!((&failed[0]["row"], &failed[0]["kind"]), (&json!(0), &json!("decode")));
    assert!(out.exists());
}

#[test]
fn codecs_that_are_not_compiled_in_are_named_with_code_4() {
    let folder = tempdir().unwrap();
    let tiles = png_files(folder.path(), 1);
    let out = folder.path().join("out.iac");
    for (name, encodes) in [
        ("jxl", cfg!(feature = "jxl")),
        ("jpeg", cfg!(feature = "jpeg")),
        ("jpeg2000", cfg!(feature = "jpeg2000")),
        ("jpegls", cfg!(feature = "jpegls")),
    ] {
        if encodes {
            continue;
        }
        let run = iac!("pack", "raw", tiles, "-o", out, "--codec", name, "--json").ended_with(4);
        let error = run.json_error();
        assert_eq!(error["kind"], "missing_feature", "{error}");
        let feature = format!("the feature `{name}`");
        assert!(error["message"].as_str().unwrap().contains(&feature), "{error}");
        let pack = if name == "jpegls" { "jxl_a0" } else { "jpegls_a0" };
        iac!("recode", golden(pack), "-o", out, "--codec", name).ended_with(4);
    }
    if !cfg!(feature = "jxl") {
        let run = iac!("recode", golden("jpeg_a0"), "-o", out, "--codec", "jxl:transcode");
        assert!(run.ended_with(4).err.contains("the feature `jxl`"));
    }
    assert!(!out.exists());
}

#[cfg(feature = "jxl")]
#[test]
fn tiles_are_packed_shown_recoded_and_extracted() {
    let folder = tempdir().unwrap();
    let tiles = png_files(folder.path(), 5);
    let pack = folder.path().join("tiles.iac");
    iac!("pack", "raw", tiles, "-o", pack, "--codec", "jxl:lossless=true,effort=3").succeeded();
    let info = iac!("info", pack, "--json").succeeded().json();
    assert_eq!(info["header"]["codec_params"]["effort"], 3);
    iac!("verify", pack, "--decode", "all").succeeded();
    let dir = folder.path().join("png");
    iac!("extract", pack, "--dir", dir, "--format", "png").succeeded();
    for name in names_in(&tiles) {
        assert_eq!(picture(&dir.join(&name)), picture(&tiles.join(&name)), "{name}");
    }
    let dir = folder.path().join("native");
    iac!("extract", pack, "--dir", dir).succeeded();
    assert_eq!(names_in(&dir)[0], "00.jxl");
    let run = iac!("recode", pack, "--codec", "zstd", "-o", folder.path().join("x")).ended_with(2);
    assert!(run.err.contains("its records are images"), "{}", run.err);
    let lossy = folder.path().join("lossy.iac");
    iac!("recode", pack, "--codec", "jxl:distance=2", "-o", lossy).succeeded();
    iac!("montage", lossy, "-o", folder.path().join("sheet.png")).succeeded();
    // Wrong parameters are told before anything is written.
    iac!("pack", "raw", tiles, "-o", folder.path().join("y"), "--codec", "jxl:effort=99")
        .ended_with(2);
}

#[cfg(feature = "jxl")]
#[test]
fn jpeg_packs_go_into_jpeg_xl_and_come_out_the_same() {
    let folder = tempdir().unwrap();
    let (jxl, back) = (folder.path().join("jxl.iac"), folder.path().join("back.iac"));
    iac!("recode", golden("jpeg_a0"), "--codec", "jxl:transcode", "-o", jxl).succeeded();
    iac!("recode", jxl, "--codec", "jpeg:transcode", "-o", back).succeeded();
    let sums = |path: PathBuf| -> Vec<Value> {
        let lines = iac!("digest", path, "--json").succeeded().json_lines();
        lines.into_iter().map(|line| line["stored_sha256"].clone()).collect()
    };
    assert_eq!(sums(back), sums(golden("jpeg_a0")));
    let run =
        iac!("recode", golden("jxl_a0"), "--codec", "jpeg:transcode", "-o", jxl, "--overwrite");
    assert!(run.ended_with(1).err.contains("row 0"));
}

#[cfg(feature = "jpegls")]
#[test]
fn signed_slices_stay_signed() {
    let folder = tempdir().unwrap();
    let slice = signed_file(folder.path());
    let pack = folder.path().join("ct.iac");
    iac!("pack", "raw", slice, "-o", pack, "--codec", "jpegls").succeeded();
    let header = iac!("info", pack, "--json").succeeded().json()["header"].clone();
    assert_eq!(header["iac_sample"], json!({"type": "int16", "offset": 32768}));
    let value = iac!("decode", pack, "--rows", "0", "--format", "json").succeeded().json();
    assert_eq!(value["data"], json!([-1000, -1, 0, 1, 40, 3071]));
    let run = iac!("decode", pack, "--rows", "0", "--format", "png").ended_with(4);
    assert!(run.err.contains("int16"), "{}", run.err);
    let out = folder.path().join("out.npy");
    iac!("decode", pack, "--rows", "0", "--format", "npy", "-o", out).succeeded();
    assert_eq!(picture(&out), picture(&slice));
}

#[test]
fn files_that_are_no_images_are_named() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("note.txt");
    fs::write(&path, "a note").unwrap();
    if cfg!(feature = "jpegls") {
        let out = folder.path().join("out.iac");
        let run = iac!("pack", "raw", path, "-o", out, "--codec", "jpegls").ended_with(4);
        assert!(run.err.contains("note.txt"), "{}", run.err);
    }
    let _ = signed_file(folder.path());
}
