//! `iac pack wsi` and `iac wsi original`.
#![cfg(feature = "wsi-import")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

mod common;

use std::path::{Path, PathBuf};

fn input(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-adapters/tests/data/wsi/inputs").join(name)
}

const fn can_encode() -> bool {
    cfg!(feature = "jxl")
}

#[test]
fn a_slide_is_packed_and_its_tiles_come_back() {
    if !can_encode() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = input("svs_jpeg_ycbcr_tables.svs");
    let kept = folder.path().join("kept.pat.iac");
    let told = iac!["pack", "wsi", &source, "-o", &kept, "--json"].succeeded().json();
    assert_eq!(told["slide_id"], "svs_jpeg_ycbcr_tables");
    assert_eq!(told["strategy"], "native_passthrough_v1");
    assert_eq!((&told["width"], &told["codec"]), (&700.into(), &"jpeg".into()));
    assert_eq!(told["associated"], serde_json::json!(["label", "macro", "thumbnail"]));
    let smaller = folder.path().join("smaller.pat.iac");
    let line =
        iac!["pack", "wsi", &source, "-o", &smaller, "--transcode", "--drop", "label"].succeeded();
    let line = line.text();
    assert!(line.contains("9 tiles of jxl (transcode)"), "{line}");
    let tile = |pack: &Path, name: &str| {
        let file = folder.path().join(name);
        iac!["wsi", "original", pack, "--x", "2", "--y", "1", "-o", &file].succeeded();
        std::fs::read(file).unwrap()
    };
    assert_eq!(tile(&kept, "a.jpg"), tile(&smaller, "b.jpg"));
    iac!["validate", "--input", &smaller].succeeded();
    let zoom = folder.path().join("kept.dzi");
    let told = iac!["wsi", "deepzoom", &kept, "-o", &zoom, "--png", "--json"].succeeded().json();
    assert_eq!((&told["levels"], &told["tiles"]), (&11.into(), &17.into()));
    assert!(zoom.exists());
    let tiff = folder.path().join("kept.ome.tif");
    let told = iac!["wsi", "tiff", &kept, "-o", &tiff, "--json"].succeeded().json();
    assert_eq!((&told["compression"], &told["as_stored"]), (&"jpeg".into(), &true.into()));
    assert_eq!(told["file_bytes"], std::fs::metadata(&tiff).unwrap().len());
    let again = folder.path().join("again.pat.iac");
    iac!["pack", "wsi", &tiff, "-o", &again, "--passthrough", "--resume"].succeeded();
    assert_eq!(tile(&again, "c.jpg"), tile(&kept, "d.jpg"));
    let tiles = folder.path().join("tiles");
    let told = iac!["wsi", "tiles", &kept, "-d", &tiles, "--size", "300", "--json"];
    assert_eq!(told.succeeded().json()["tiles"], 6);
    assert!(tiles.join("2_1.png").exists() && tiles.join("tiles.csv").exists());
}

#[test]
fn what_cannot_be_packed_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("a.pat.iac");
    for (name, kind, reason) in [
        ("not_tiff.svs", "decode", "is no TIFF file"),
        ("tiff_no_resolution.tif", "usage", "micrometres per pixel"),
        ("tiff_uint16.tif", "unsupported", "samples of 16 bits"),
    ] {
        let run = iac!["pack", "wsi", input(name), "-o", &pack, "--json"];
        assert_ne!(run.code, 0);
        let error = run.json_error();
        assert_eq!(error["kind"], kind, "{error}");
        assert!(error["message"].as_str().unwrap().contains(reason), "{error}");
    }
    assert!(!pack.exists());
}
