//! Image tiles against the golden packs.
#![cfg(all(feature = "tiles", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use common::{assert_like, cases, close, data, json_file, record_json, sha256, trimmed, write_png};
use iac_adapters::manifest::{read_manifest, write_manifest};
use iac_adapters::tiles::{
    TilePackBuilder, TilePackReader, TileRect, TileSize, TileWarning, WideSamples,
};
use iac_adapters::{AdapterError, TileRecord};
use iac_codec::Scale;
use iac_format::ErrorKind;
use iac_ops::{NoProgress, Progress};
use iac_reader::{PackReader, VerifyOptions};
use iac_writer::WriteOptions;
use serde_json::{Value, json};

fn png(path: &Path) -> (u32, u32, Vec<u8>) {
    let mut decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(path).unwrap()));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    pixels.truncate(info.buffer_size());
    (info.width, info.height, pixels)
}

#[test]
fn golden_packs_read_to_what_is_stated() {
    for (name, expected) in cases("tiles") {
        let pack = TilePackReader::open(data(&format!("tiles/{name}/pack.iac"))).unwrap();
        let told = expected["records"].as_array().unwrap();
        assert_eq!(pack.record_count(), told.len() as u64, "{name}");
        let mut tiles = pack.iter_rgb().unwrap();
        let rows: Vec<u64> = (0..pack.record_count()).rev().collect();
        let batch = pack.read_rgb_batch(&rows).unwrap();
        let mut batch = batch.chunks(batch.len() / rows.len());
        for told in told.iter().rev() {
            let row = told["row"].as_u64().unwrap();
            let context = format!("{name}, row {row}");
            let pixels = batch.next().unwrap();
            if let Some(decoded) = told["decoded_png"].as_str() {
                let (_, _, decoded) = png(&data(&format!("tiles/{name}/{decoded}")));
                assert!(close(pixels, &decoded, 1), "{context}");
            } else {
                assert_eq!(sha256(pixels), told["decoded_rgb_sha256"], "{context}");
            }
            assert_eq!(sha256(&pack.payload(row).unwrap()), told["payload_sha256"], "{context}");
            let id = told["record"]["tile_id"].as_str().unwrap();
            assert_eq!(pack.row_of(id).unwrap(), row);
            assert_eq!(pack.read_rgb_by_id(id).unwrap().pixels, pixels, "{context}");
        }
        for told in told {
            let (record, tile) = tiles.next().unwrap().unwrap();
            assert_eq!(record_json(&record), told["record"], "{name}");
            assert_eq!(json!([tile.height, tile.width, 3]), told["decoded_shape"], "{name}");
        }
        assert!(tiles.next().is_none());
        let error = pack.row_of("no-such-tile").unwrap_err();
        assert!(matches!(error, AdapterError::UnknownId { .. }));
        assert_eq!(pack.read(pack.record_count()).unwrap_err().kind(), ErrorKind::RowOutOfRange);
        assert!(pack.read_rgb_batch(&[]).unwrap().is_empty());
        let mut csv = Vec::new();
        pack.write_manifest(&mut csv, Path::new("x")).unwrap();
        let again = iac_adapters::manifest::ManifestReader::from_source(&csv[..], "x").unwrap();
        assert_eq!(again.count(), told.len());
    }
}

/// A builder with the arguments of a description.
fn builder(arguments: &Value) -> TilePackBuilder {
    let number = |name: &str| arguments[name].as_u64();
    let mut builder = TilePackBuilder::new()
        .lossless(arguments["lossless"].as_bool().unwrap_or(false))
        .stride(number("stride_x"), number("stride_y"))
        .options(WriteOptions::new().sync(false));
    if let Some(distance) = arguments.get("distance") {
        builder = builder.distance(distance.as_f64());
    }
    if arguments.get("effort").is_some() {
        builder = builder.effort(number("effort"));
    }
    if let Some(header) = arguments["extra_header"].as_object() {
        builder = builder.header(header.clone());
    }
    builder
}

const OWN: [&str; 3] = ["offset", "length", "crc32"];

#[test]
fn golden_inputs_become_the_golden_packs() {
    let folder = tempfile::tempdir().unwrap();
    let mut built = 0;
    for (name, expected) in cases("tiles") {
        let build = &expected["build"];
        let base = data(&format!("tiles/{name}"));
        let path = folder.path().join(format!("{name}.iac"));
        let mut builder = builder(&build["arguments"]);
        let summary = if let Some(manifest) = build["manifest"].as_str() {
            if name == "image_modes" {
                let refused = builder.clone().tile_root(base.join("images"));
                let refused = refused.build_from_manifest(base.join(manifest), &path, &NoProgress);
                assert_eq!(refused.unwrap_err().row(), Some(6));
                builder = builder.wide_samples(WideSamples::Clip);
            }
            builder = builder.tile_root(base.join("images"));
            builder.build_from_manifest(base.join(manifest), &path, &NoProgress).unwrap()
        } else if let Some(payloads) = build["payloads"].as_array() {
            let records = read_manifest(base.join("records.csv")).unwrap();
            let payloads: Vec<Vec<u8>> = payloads
                .iter()
                .map(|payload| fs::read(base.join(payload.as_str().unwrap())).unwrap())
                .collect();
            let size = TileSize { width: 12, height: 12 };
            let wrong = TileSize { width: 11, height: 12 };
            let error = builder.build_from_records(&records, &payloads, wrong, &path).unwrap_err();
            assert_eq!(error.row(), Some(0));
            builder.build_from_records(&records, &payloads, size, &path).unwrap()
        } else {
            continue;
        };
        let told = expected["records"].as_array().unwrap();
        assert_eq!(summary.rows, told.len() as u64, "{name}");
        let pack = PackReader::open(&path).unwrap();
        assert_like(&name, &pack, &expected, &OWN);
        assert!(pack.verify(&VerifyOptions::default()).faults.is_empty());
        let pack = TilePackReader::open(&path).unwrap();
        for told in told {
            let row = told["row"].as_u64().unwrap();
            let tile = pack.read_rgb(row).unwrap();
            if told["max_abs_diff_to_source"] == 0 {
                assert_eq!(sha256(&tile.pixels), told["source_rgb_sha256"], "{name}, row {row}");
            } else {
                let golden = TilePackReader::open(base.join("pack.iac")).unwrap();
                assert!(close(&tile.pixels, &golden.read_rgb(row).unwrap().pixels, 2), "{name}");
            }
        }
        built += 1;
    }
    assert!(built >= 9, "{built}");
}

#[test]
fn inputs_that_make_no_pack_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = data("tiles/invalid");
    for case in json_file("tiles/invalid/build_errors.json").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let Some(manifest) = case["manifest"].as_str() else { continue };
        let path = match case["output"].as_str() {
            Some(output) => root.join(output),
            None => folder.path().join(format!("{name}.iac")),
        };
        if case["arguments"]["stride_y"].as_i64().is_some_and(|stride| stride < 0) {
            continue; // cannot be expressed
        }
        let builder = builder(&case["arguments"])
            .tile_root(&root)
            .effort(case["arguments"].get("effort").map_or(Some(1), Value::as_u64));
        let result = builder.build_from_manifest(root.join(manifest), &path, &NoProgress);
        let accepted = case["result"]["ok"] == true
            || ["bom", "too_many_slides", "grid_overflow", "grid_overflow_inferred"]
                .contains(&name);
        assert_eq!(result.is_ok(), accepted, "{name}: {result:?}");
        match name {
            "missing_image" => assert_eq!(result.unwrap_err().kind(), ErrorKind::Io),
            "destination_exists" => assert_eq!(result.unwrap_err().kind(), ErrorKind::Exists),
            "duplicate_tile_id" => {
                assert!(result.unwrap_err().to_string().contains("count=2 sample=t0, t0"));
            }
            "unequal_sizes" | "not_an_image" | "truncated_image" => {
                let error = result.unwrap_err();
                assert!(error.row().is_some() && error.path().is_some(), "{name}: {error}");
            }
            _ => {}
        }
    }
    // Only packs were left.
    for entry in fs::read_dir(folder.path()).unwrap() {
        assert_eq!(entry.unwrap().path().extension().unwrap(), "iac");
    }
}

#[test]
fn errors_about_records_name_the_line_of_the_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_png(&at("a.png"), png::ColorType::Rgb, png::BitDepth::Eight, [8, 8], &[7; 192]);
    fs::write(at("cut.png"), &fs::read(at("a.png")).unwrap()[..60]).unwrap();
    fs::write(at("text.png"), "no image").unwrap();
    let good = "t0,p0,s0,a.png,0,0,train\n\n";
    for (name, line, said) in [
        ("t0,p0,s0,a.png,8,0,train", 4, "duplicate tile_id values"),
        ("t1,p1,s0,a.png,8,0,train", 4, "belongs to patient \"p1\" here"),
        ("t1,p0,s0,a.png,-8,0,train", 4, "-8"),
        ("t1,p0,s0,gone.png,8,0,train", 4, "gone.png: cannot open the image"),
        ("t1,p0,s0,text.png,8,0,train", 4, "text.png: is no image of a known kind"),
        ("t1,p0,s0,cut.png,8,0,train", 4, "cut.png: "),
        ("t1,p0,s0,.,8,0,train", 4, "cannot read the image"),
    ] {
        let manifest = at("m.csv");
        let head = "tile_id,patient_id,slide_id,tile_path,x,y,split\n";
        fs::write(&manifest, format!("{head}{good}{name}\n")).unwrap();
        let builder = TilePackBuilder::new().beside_manifest(true).effort(1);
        let error = builder.build_from_manifest(&manifest, at("m.iac"), &NoProgress).unwrap_err();
        let told = error.to_string();
        assert!(told.contains(said), "{name}: {told}");
        let place = format!(" (listed in {}, line {line})", manifest.display());
        assert!(told.ends_with(&place), "{name}: {told}");
        assert!(!error.is_cancelled());
    }
}

/// A folder with a manifest of tiles of 8 x 8, one colour each.
struct Cohort {
    folder: tempfile::TempDir,
    manifest: PathBuf,
}

impl Cohort {
    fn new(count: i64, columns: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let records: Vec<TileRecord> = (0..count)
            .map(|row| {
                let shade = u8::try_from(row * 7 % 256).unwrap();
                let path = format!("{row}.png");
                let pixels: Vec<u8> = (0..192_u8).map(|place| place ^ shade).collect();
                write_png(
                    &folder.path().join(&path),
                    png::ColorType::Rgb,
                    png::BitDepth::Eight,
                    [8, 8],
                    &pixels,
                );
                TileRecord {
                    tile_id: format!("t{row}"),
                    patient_id: "p".to_owned(),
                    slide_id: format!("s{}", row % 2),
                    tile_path: path.into(),
                    x: row / 2 % columns * 8,
                    y: row / 2 / columns * 8,
                    split: Some("train".to_owned()),
                }
            })
            .collect();
        let manifest = folder.path().join("m.csv");
        write_manifest(&manifest, &records).unwrap();
        Self { folder, manifest }
    }

    fn builder(&self) -> TilePackBuilder {
        TilePackBuilder::new()
            .beside_manifest(true)
            .lossless(true)
            .effort(1)
            .options(WriteOptions::new().sync(false))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let cohort = Cohort::new(40, 5);
    let mut packs = Vec::new();
    for workers in [1, 2, 5] {
        let path = cohort.path(&format!("{workers}.iac"));
        let builder = cohort.builder().workers(std::num::NonZeroUsize::new(workers)).memory(4000);
        builder.build_from_manifest(&cohort.manifest, &path, &NoProgress).unwrap();
        packs.push(fs::read(path).unwrap());
    }
    assert!(packs[0] == packs[1] && packs[0] == packs[2]);
}

/// Stops after so many tiles.
struct StopAfter {
    left: AtomicU64,
    encoding: std::sync::atomic::AtomicBool,
}

impl Progress for StopAfter {
    fn begin(&self, what: &str, _: Option<u64>) {
        self.encoding.store(what == "encoding", Ordering::SeqCst);
    }

    fn advance(&self, units: u64) {
        if self.encoding.load(Ordering::SeqCst) {
            let left = self.left.load(Ordering::SeqCst);
            self.left.store(left.saturating_sub(units), Ordering::SeqCst);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }
}

#[test]
fn an_interrupted_build_continues_where_it_was() {
    let cohort = Cohort::new(30, 5);
    let path = cohort.path("a.iac");
    let builder = cohort.builder().journal(true);
    let stop = StopAfter { left: 12.into(), encoding: false.into() };
    let error = builder.build_from_manifest(&cohort.manifest, &path, &stop).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert!(!path.exists());
    let journal = cohort.path(".a.iac.journal.part");
    assert!(journal.exists());
    // Another build does not take it for its own; nor is what changed taken from it.
    let saved = fs::read(&journal).unwrap();
    let other = builder.clone().effort(2).build_from_manifest(&cohort.manifest, &path, &NoProgress);
    assert_eq!(other.unwrap().resumed, 0);
    assert!(!journal.exists());
    fs::remove_file(&path).unwrap();
    fs::write(&journal, &saved).unwrap();
    let summary = builder.build_from_manifest(&cohort.manifest, &path, &NoProgress).unwrap();
    assert_eq!(summary.resumed, 12);
    let resumed = fs::read(&path).unwrap();
    assert!(!journal.exists());
    fs::remove_file(&path).unwrap();
    cohort.builder().build_from_manifest(&cohort.manifest, &path, &NoProgress).unwrap();
    assert!(resumed == fs::read(&path).unwrap());
    fs::remove_file(&path).unwrap();
    fs::write(&journal, &saved).unwrap();
    let changed = cohort.path("5.png");
    write_png(&changed, png::ColorType::Grayscale, png::BitDepth::Eight, [8, 8], &[9; 64]);
    let summary = builder.build_from_manifest(&cohort.manifest, &path, &NoProgress).unwrap();
    assert_eq!(summary.resumed, 5);
    let pack = TilePackReader::open(&path).unwrap();
    assert_eq!(pack.read_rgb(5).unwrap().pixels, [9; 192]);
}

#[test]
fn tiles_are_found_by_place() {
    let cohort = Cohort::new(50, 5);
    let path = cohort.path("a.iac");
    cohort.builder().build_from_manifest(&cohort.manifest, &path, &NoProgress).unwrap();
    let grid = TilePackReader::open(&path).unwrap();
    assert_eq!(grid.record(49).unwrap().slide_id, "s1");
    // Columns and rows of slide s0: row 2 * (y * 5 + x).
    let at = |x: u64, y: u64| 2 * (y * 5 + x);
    let rect = |x, y, width, height| TileRect { x, y, width, height };
    let starting = |rect| grid.rows_starting_in("s0", rect).unwrap();
    assert_eq!(starting(rect(0, 0, 8, 8)), [0]);
    assert_eq!(starting(rect(1, 0, 8, 8)), [at(1, 0)]);
    assert_eq!(starting(rect(8, 16, 9, 1)), [at(1, 2), at(2, 2)]);
    assert_eq!(starting(rect(-100, -100, 1000, 1000)).len(), 25);
    assert!(starting(rect(3, 3, 4, 4)).is_empty());
    let touching = |rect| grid.rows_touching("s0", rect).unwrap();
    assert_eq!(touching(rect(3, 3, 4, 4)), [0]);
    assert_eq!(touching(rect(7, 7, 2, 2)), [at(0, 0), at(1, 0), at(0, 1), at(1, 1)]);
    assert_eq!(touching(rect(8, 8, 8, 8)), [at(1, 1)]);
    assert!(touching(rect(8, 8, 0, 0)).is_empty());
    assert_eq!(touching(rect(i64::MIN, i64::MIN, u64::MAX, u64::MAX)).len(), 25);
    assert_eq!(grid.neighbours(0).unwrap(), [at(1, 0), at(0, 1), at(1, 1)]);
    assert_eq!(grid.neighbours(at(2, 2)).unwrap().len(), 8);
    assert!(grid.rows_touching("s9", rect(0, 0, 1, 1)).is_err());
    // The same tiles with positions in pixels.
    let tall = cohort.path("0.png");
    write_png(&tall, png::ColorType::Rgb, png::BitDepth::Eight, [8, 12], &[1; 288]);
    let path = cohort.path("b.iac");
    let builder = cohort.builder();
    let error = builder.build_from_manifest(&cohort.manifest, &path, &NoProgress).unwrap_err();
    assert_eq!(error.row(), Some(1));
    builder.several_sizes(true).build_from_manifest(&cohort.manifest, &path, &NoProgress).unwrap();
    let pixels = TilePackReader::open(&path).unwrap();
    assert_eq!(pixels.reader().header().payload_type(), Some("image_tiles_v2"));
    assert_eq!(pixels.tile_size(), None);
    assert_eq!(pixels.tile_size_at(0).unwrap(), TileSize { width: 8, height: 12 });
    assert_eq!(pixels.rows_touching("s0", rect(0, 11, 1, 1)).unwrap(), [0, at(0, 1)]);
    assert_eq!(pixels.neighbours(at(0, 1)).unwrap().len(), 5);
    assert_eq!(pixels.neighbours(at(0, 2)).unwrap().len(), 5);
    assert_eq!(pixels.read_rgb(0).unwrap().pixels, [1; 288]);
    assert!(pixels.read_rgb_batch(&[0, 1]).is_err());
    assert_eq!(pixels.read_rgb_batch(&[1, 2, 1]).unwrap().len(), 576);
    assert_eq!(pixels.record(49).unwrap(), grid.record(49).unwrap());
}

#[test]
fn tiles_are_decoded_smaller() {
    let cohort = Cohort::new(4, 2);
    let path = cohort.path("a.iac");
    cohort.builder().build_from_manifest(&cohort.manifest, &path, &NoProgress).unwrap();
    let pack = TilePackReader::open(&path).unwrap();
    let small = pack.with_scale(Scale::Quarter);
    let tile = small.read_rgb(3).unwrap();
    assert_eq!((tile.width, tile.height), (2, 2));
    assert_eq!(small.read_rgb_batch(&[3, 0]).unwrap()[..12], tile.pixels[..]);
    assert_eq!(pack.read_rgb(3).unwrap().pixels.len(), 192);
}

#[test]
fn what_is_seldom_meant_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let image = data("tiles/image_modes/images/RGB.png");
    let tile = |id: &str, x: i64, split: &str| TileRecord {
        tile_id: id.to_owned(),
        tile_path: image.clone(),
        x,
        split: Some(split.to_owned()),
        ..TileRecord::default()
    };
    let records =
        [tile("a", 0, "train"), tile("b", 16, "val"), tile("c", 16, "train"), tile("d", 17, "")];
    let manifest = folder.path().join("m.csv");
    write_manifest(&manifest, &records).unwrap();
    let builder = TilePackBuilder::new().effort(1);
    let summary =
        builder.build_from_manifest(&manifest, folder.path().join("a.iac"), &NoProgress).unwrap();
    assert_eq!(
        summary.warnings,
        [
            TileWarning::RepeatedPositions { count: 1, row: 2 },
            TileWarning::SplitLeaks {
                count: 1,
                patient_id: String::new(),
                splits: vec!["train".to_owned(), "val".to_owned()],
            },
            TileWarning::NarrowStride { axis: "x", stride: 1, row: 3, tile_id: "d".to_owned() },
        ]
    );
}

#[test]
fn invalid_packs_are_refused_where_they_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for case in json_file("tiles/invalid/read_errors.json").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let pack = case["pack"].as_str().unwrap();
        let path = trimmed(&format!("tiles/invalid/{pack}"), folder.path());
        let pack = TilePackReader::open(&path);
        match name {
            "wrong_payload_type" | "wrong_codec" | "truncated" => {
                let error = pack.unwrap_err();
                assert!(
                    [ErrorKind::Schema, ErrorKind::Damaged].contains(&error.kind()),
                    "{name}: {error}"
                );
            }
            "duplicate_ids" => {
                let pack = pack.unwrap();
                assert!(pack.read_rgb(1).is_ok());
                assert!(pack.find("t0").is_err() && pack.records().is_err());
            }
            "unknown_slide_idx" => {
                let pack = pack.unwrap();
                assert!(pack.read_rgb_by_id("t1").is_ok());
                let error = pack.records().unwrap().nth(1).unwrap().unwrap_err();
                assert_eq!((error.row(), error.field()), (Some(1), Some("slide_idx")));
            }
            "no_stride" | "no_split_column" => {
                let pack = pack.unwrap();
                assert!(pack.records().is_err() && pack.read_rgb(1).is_ok());
            }
            "size_mismatch" | "bad_payload" | "empty_payload" | "crc_mismatch" | "span_outside" => {
                let pack = pack.unwrap();
                assert!(pack.read_rgb(1).is_err(), "{name}");
                assert!(pack.read_rgb_batch(&[1]).is_err(), "{name}");
                let bad = pack.iter_rgb().unwrap().filter(Result::is_err).count();
                assert!(bad >= if name == "size_mismatch" { 2 } else { 1 }, "{name}");
            }
            "uint16_stream" | "gray_alpha_stream" => {
                let pack = pack.unwrap();
                assert!(pack.read(1).is_ok());
                assert_eq!(pack.read_rgb(1).unwrap_err().kind(), ErrorKind::Unsupported);
                assert_eq!(pack.read_rgb_batch(&[1]).unwrap_err().kind(), ErrorKind::Unsupported);
            }
            "zero_records" => {
                let pack = pack.unwrap();
                assert_eq!(pack.iter_rgb().unwrap().count(), 0);
                assert!(pack.row_of("t1").is_err());
            }
            _ => assert!(pack.unwrap().read_rgb(1).is_ok(), "{name}"),
        }
    }
}

#[test]
fn more_slides_and_wider_grids_are_stored_wider() {
    let folder = tempfile::tempdir().unwrap();
    let image = data("tiles/image_modes/images/L.png");
    let records: Vec<TileRecord> = (0..300)
        .map(|row| TileRecord {
            tile_id: format!("t{row}"),
            slide_id: format!("s{row}"),
            patient_id: "p".to_owned(),
            tile_path: image.clone(),
            x: row * 1000,
            y: 0,
            split: None,
        })
        .collect();
    let manifest = folder.path().join("m.csv");
    write_manifest(&manifest, &records).unwrap();
    let path = folder.path().join("a.iac");
    let builder = TilePackBuilder::new().effort(1).stride(4, 4);
    builder.build_from_manifest(&manifest, &path, &NoProgress).unwrap();
    let pack = TilePackReader::open(&path).unwrap();
    let header = pack.reader().header();
    assert_eq!(header.payload_type(), Some("image_tiles"));
    assert_eq!(header.get("slide_idx_dtype").unwrap(), "uint16");
    assert_eq!(header.get("max_slides_per_pack").unwrap(), 65_535);
    assert_eq!(header.get("tile_xy_dtype").unwrap(), "uint32");
    let last = pack.record(299).unwrap();
    assert_eq!(
        (last.slide_id.as_str(), last.x, last.split),
        ("s299", 299_000, Some(String::new()))
    );
}
