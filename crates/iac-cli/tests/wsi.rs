//! `iac wsi`, and what the other commands make of slides.
#![cfg(feature = "wsi")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

mod common;

use std::path::{Path, PathBuf};

use iatrocache::adapters::wsi::{EncodedTile, Mpp, RasterCodec, WsiHeader, WsiPackWriter};
use iatrocache::{CodecSpec, ImageShape, ImageView, Registry, WriteOptions};
use serde_json::{Map, Value, json};

/// A slide of 100 x 70 pixels in tiles of 32; nothing where this build cannot encode tiles.
fn slide(folder: &Path) -> Option<PathBuf> {
    if !cfg!(feature = "jxl") {
        return None;
    }
    let Value::Object(parameters) = json!({"lossless": true, "effort": 1}) else { panic!() };
    let codec = Registry::global().create_encoder(&CodecSpec::new("jxl", parameters)).ok()?;
    let path = folder.join("slide.pat.iac");
    let header = WsiHeader {
        slide_id: "slide-1".into(),
        patient_id: String::new(),
        specimen_id: String::new(),
        width: 100,
        height: 70,
        mpp: Mpp::both(0.5),
        mpp_provenance: "user_override".into(),
        tile_width: 32,
        tile_height: 32,
        background: [255; 3],
        background_is_counted: false,
        codec: RasterCodec::Jxl { lossless: true, distance: 0.0, effort: 1 },
        selection: Value::Null,
        original_orientation: 1,
        source_format: "png".into(),
        import_backend: "test".into(),
        associated_images_preserved: false,
        extra: Map::new(),
    };
    let options = WriteOptions::new().sync(false);
    let mut writer = WsiPackWriter::create(&path, header, &options).unwrap();
    let shape = ImageShape::new(32, 32, 3).unwrap();
    for (x, y) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
        let pixels = vec![u8::try_from(x + y).unwrap(); 32 * 32 * 3];
        let payload = codec.encode_image(&ImageView::new(shape, &pixels[..]).unwrap()).unwrap();
        writer.push_tile(&EncodedTile { x, y, payload: &payload }).unwrap();
    }
    writer.finish(Map::new(), Some(b"a profile"), Vec::new()).unwrap();
    Some(path)
}

#[test]
fn regions_thumbnails_and_profiles_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = slide(folder.path()) else { return };
    let out = folder.path().join("out.raw");
    let place = ["--x", "-2", "--y", "0", "--width", "5", "--height", "1"];
    let told = iac![
        "wsi", "native", &path, place[0], place[1], place[2], place[3], place[4], place[5],
        place[6], place[7], "-o", &out, "--json"
    ]
    .succeeded()
    .json();
    assert_eq!((&told["width"], &told["height"]), (&json!(5), &json!(1)));
    let pixels = std::fs::read(&out).unwrap();
    assert_eq!(pixels, [[255_u8; 6].as_slice(), &[0; 9]].concat());
    // An existing file stays.
    let again = iac![
        "wsi", "native", &path, place[0], place[1], place[2], place[3], place[4], place[5],
        place[6], place[7], "-o", &out, "--json"
    ]
    .ended_with(2);
    assert_eq!(again.json_error()["kind"], "exists");
    for (name, fast) in [("a.png", "--exact"), ("b.npy", "--fast")] {
        let out = folder.path().join(name);
        iac!["wsi", "thumbnail", &path, "--size", "10", fast, "-o", &out].succeeded();
        assert!(out.metadata().unwrap().len() > 60);
    }
    let made = iac!["wsi", "overview", &path, "--json"].succeeded().json();
    assert_eq!(made["levels"], json!([3, 6]));
    let out = folder.path().join("c.raw");
    let mpp = ["--mpp", "4,4", "--x-um", "0", "--y-um", "0", "--width", "2", "--height", "1"];
    iac![
        "wsi", "region", &path, mpp[0], mpp[1], mpp[2], mpp[3], mpp[4], mpp[5], mpp[6], mpp[7],
        mpp[8], mpp[9], "--fast", "-o", &out
    ]
    .succeeded();
    assert_eq!(std::fs::read(&out).unwrap(), [0; 6]);
    let out = folder.path().join("slide.icc");
    iac!["wsi", "icc", &path, "-o", &out].succeeded();
    assert_eq!(std::fs::read(&out).unwrap(), b"a profile");
    assert_eq!(iac!["wsi", "associated", &path].succeeded().text(), "");
}

#[test]
fn wrong_arguments_end_with_2_and_damage_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = slide(folder.path()) else { return };
    let out = folder.path().join("out.png");
    let finer = iac![
        "wsi", "region", &path, "--x-um", "0", "--y-um", "0", "--width", "2", "--height", "2",
        "--mpp", "0.4", "-o", &out, "--json"
    ]
    .ended_with(2);
    assert!(finer.json_error()["message"].as_str().unwrap().contains("finer"));
    iac!["wsi", "thumbnail", &path, "-o", folder.path().join("out.jpg")].ended_with(2);
    iac!["wsi", "thumbnail", &path, "--size", "0", "-o", &out].ended_with(2);
    assert!(!out.exists());
    // One bit of the first tile.
    let mut bytes = std::fs::read(&path).unwrap();
    let pack = iatrocache::PackReader::open(&path).unwrap();
    let start = usize::try_from(pack.layout().data.offset).unwrap();
    bytes[start + 3] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let refused = iac!["wsi", "thumbnail", &path, "-o", &out, "--json"].ended_with(1);
    assert_eq!(refused.json_error()["kind"], "checksum");
    let filled =
        iac!["wsi", "thumbnail", &path, "-o", &out, "--fill-damage", "--json"].ended_with(1);
    assert_eq!(filled.json()["damaged"][0]["row"], 0);
    assert!(out.exists());
}

#[test]
fn other_commands_know_slides() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = slide(folder.path()) else { return };
    let page = iac!["info", &path].succeeded();
    assert!(page.text().contains("100 x 70 pixels"), "{}", page.text());
    iac!["verify", &path, "--full"].succeeded();
    let line = iac!["validate", "--input", &path].succeeded();
    assert_eq!(
        line.text(),
        "package_valid type=wsi_image records=6 dimensions=100x70 decoded=4 crc_checked=6\n"
    );
    let sheet = folder.path().join("sheet.png");
    let made = iac!["montage", &path, "-o", &sheet, "--json"].succeeded().json();
    assert_eq!(made["rows"], json!([0, 1, 2, 3]));
    iac!["wsi", "overview", &path].succeeded();
    // Beside its overview the folder is still sound.
    iac!["validate", "--input", folder.path()].succeeded();
    iac!["verify", folder.path(), "--full"].succeeded();
}
