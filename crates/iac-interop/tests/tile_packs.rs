//! Packs of image tiles and teacher features: what the reference builds, we read, and what we
//! build, it reads and its validator accepts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fs;
use std::path::{Path, PathBuf};

use iac_adapters::features::{ElementType, FeatureFile, FeaturePackBuilder, FeaturePackReader};
use iac_adapters::manifest::read_manifest;
use iac_adapters::tiles::{JpegSources, TileColor, TilePackBuilder, TilePackReader};
use iac_adapters::validate::{ValidateOptions, validate_pack};
use iac_adapters::{RecordTable, TileRecord};
use iac_codec::{CodecSpec, ImageShape, ImageView, Parameters, Registry};
use iac_interop::json::sha256;
use iac_interop::reference::run_json;
use iac_ops::NoProgress;
use iac_writer::WriteOptions;
use serde_json::{Value, json};

fn record_json(record: &TileRecord) -> Value {
    json!({
        "tile_id": record.tile_id,
        "patient_id": record.patient_id,
        "slide_id": record.slide_id,
        "tile_path": record.tile_path.to_str().unwrap(),
        "x": record.x,
        "y": record.y,
        "split": record.split.as_deref().unwrap_or_default(),
    })
}

fn sum(bytes: &[u8]) -> Value {
    json!({"bytes": bytes.len(), "sha256": sha256(bytes)})
}

fn le_bytes(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// What we find in a pack, in the form of the script; pixels or `f32`.
fn look(path: &Path) -> (Vec<Value>, Vec<Vec<u8>>) {
    if path.to_str().unwrap().contains(".features.") {
        let pack = FeaturePackReader::open(path).unwrap();
        let records = pack.records().unwrap().map(|record| record_json(&record.unwrap()));
        let rows = (0..pack.record_count()).map(|row| le_bytes(&pack.read_f32(row).unwrap()));
        return (records.collect(), rows.collect());
    }
    let pack = TilePackReader::open(path).unwrap();
    pack.iter_rgb()
        .unwrap()
        .map(|tile| {
            let (record, tile) = tile.unwrap();
            (record_json(&record), tile.pixels)
        })
        .unzip()
}

#[test]
fn both_sides_find_the_same_in_the_references_packs() {
    let folder = tempfile::tempdir().unwrap();
    let told = run_json("tile_packs.py", &[Path::new("write"), folder.path()], "");
    assert_eq!(told.len(), 5);
    for told in told {
        let path = PathBuf::from(told["path"].as_str().unwrap());
        assert!(told.get("error").is_none(), "{told}");
        let (records, values) = look(&path);
        assert_eq!(Value::from(records), told["records"], "{}", path.display());
        let sums: Vec<Value> = values.iter().map(|bytes| sum(bytes)).collect();
        assert_eq!(Value::from(sums), told["values"], "{}", path.display());
        let line = validate_pack(&path, &ValidateOptions::default().max_decode(0)).unwrap();
        for (name, value) in told["valid"].as_object().unwrap() {
            let wanted = format!("{name}={}", value.as_str().unwrap());
            assert!(line.to_string().contains(&wanted), "{line}: {wanted}");
        }
    }
    rebuilt(folder.path());
}

/// Builds the same packs from the same inputs, and has the reference read them.
fn rebuilt(folder: &Path) {
    let ours = folder.join("ours");
    fs::create_dir(&ours).unwrap();
    let write = WriteOptions::new().sync(false);
    let mut paths = Vec::new();
    for (name, builder) in [
        ("lossless", TilePackBuilder::new().lossless(true).effort(3)),
        ("lossy", TilePackBuilder::new().distance(2.0).effort(4).stride(4, 8)),
    ] {
        let path = ours.join(format!("{name}.tiles.iac"));
        let builder = builder.beside_manifest(true).options(write);
        let manifest = folder.join(name).join("manifest.csv");
        builder.build_from_manifest(manifest, &path, &NoProgress).unwrap();
        paths.push(path);
    }
    let tiles = TilePackReader::open(&paths[0]).unwrap();
    for (name, dtype) in [
        ("halves", ElementType::Float16),
        ("singles", ElementType::Float32),
        ("bytes", ElementType::Int8),
    ] {
        let path = ours.join(format!("{name}.features.iac"));
        let builder = FeaturePackBuilder::new(name).dtype(dtype).options(write);
        let builder = builder.for_tiles(&tiles).unwrap();
        let vectors = FeatureFile::open(folder.join(format!("{name}.npy"))).unwrap();
        let records = tiles.record_table().unwrap();
        builder.build_streaming(&path, records, vectors, &NoProgress).unwrap();
        let theirs = FeaturePackReader::open(folder.join(format!("{name}.features.iac"))).unwrap();
        let found = FeaturePackReader::open(&path).unwrap();
        for row in 0..found.record_count() {
            assert_eq!(found.read(row).unwrap(), theirs.read(row).unwrap(), "{name}");
        }
        paths.push(path);
    }
    accepted(&paths);
}

/// Has the reference read packs, and compares what it finds with what we find.
fn accepted(paths: &[PathBuf]) {
    let input: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    let told = run_json("tile_packs.py", &["read"], &input);
    assert_eq!(told.len(), paths.len());
    for (path, told) in paths.iter().zip(told) {
        assert!(told.get("error").is_none(), "{told}");
        let (records, values) = look(path);
        assert_eq!(Value::from(records), told["records"], "{}", path.display());
        let sums: Vec<Value> = values.iter().map(|bytes| sum(bytes)).collect();
        assert_eq!(Value::from(sums), told["values"], "{}", path.display());
    }
}

#[test]
fn packs_beyond_the_old_limits_stay_readable_where_we_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let write = WriteOptions::new().sync(false);
    let shape = ImageShape::new(8, 8, 3).unwrap();
    let pixels: Vec<u8> = (0..192_u8).collect();
    let jpeg = Registry::global().create_encoder(&CodecSpec::new("jpeg", Parameters::new()));
    let jpeg = jpeg.unwrap().encode_image(&ImageView::new(shape, &pixels[..]).unwrap()).unwrap();
    fs::write(folder.path().join("a.jpg"), jpeg).unwrap();
    let grey = folder.path().join("grey.png");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../iac-adapters/tests/data/tiles/origin_only/images/o.png");
    fs::copy(golden, &grey).unwrap();
    let list = |name: &str, image: &str, count: i64| {
        let records: Vec<TileRecord> = (0..count)
            .map(|row| TileRecord {
                tile_id: format!("t{row}"),
                patient_id: "p".to_owned(),
                slide_id: format!("s{row}"),
                tile_path: image.into(),
                x: row * 1000,
                y: 0,
                split: Some("train".to_owned()),
            })
            .collect();
        let path = folder.path().join(name);
        iac_adapters::manifest::write_manifest(&path, &records).unwrap();
        path
    };
    let new = || TilePackBuilder::new().beside_manifest(true).effort(1).options(write);
    let mut paths = Vec::new();
    for (name, image, count, builder) in [
        ("slides", "grey.png", 300, new().stride(4, 4)),
        ("native", "grey.png", 2, new().color(TileColor::Native)),
        ("transcoded", "a.jpg", 2, new().jpeg_sources(JpegSources::Transcode)),
    ] {
        let manifest = list(&format!("{name}.csv"), image, count);
        let path = folder.path().join(format!("{name}.tiles.iac"));
        builder.build_from_manifest(&manifest, &path, &NoProgress).unwrap();
        paths.push(path);
    }
    let manifest = list("f.csv", "x", 300);
    let mut records = RecordTable::new();
    for record in read_manifest(manifest).unwrap() {
        records.push(&record).unwrap();
    }
    let vectors: Vec<[f32; 3]> = (0..300_i16).map(|row| [row.into(), 0.5, -1.0]).collect();
    let path = folder.path().join("slides.features.iac");
    let builder = FeaturePackBuilder::new("t").stride(1, 1).options(write);
    builder.build(&path, records, &vectors).unwrap();
    paths.push(path);
    accepted(&paths);
}
