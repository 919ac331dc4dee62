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

use common::{assert_like, cases, data, json_file, record_json, sha256, trimmed};
use iac_adapters::manifest::{read_manifest, write_manifest};
use iac_adapters::tiles::{
    Alpha, JpegSources, TileColor, TilePackBuilder, TilePackReader, TileRect, TileSize,
    TileWarning, WideSamples,
};
use iac_adapters::{AdapterError, TileRecord};
use iac_codec::{ImageShape, ImageView, SampleType, Scale};
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

fn write_png(
    path: &Path,
    color: png::ColorType,
    depth: png::BitDepth,
    size: [u32; 2],
    bytes: &[u8],
) {
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), size[0], size[1]);
    encoder.set_color(color);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(bytes).unwrap();
}

fn close(found: &[u8], told: &[u8], most: u8) -> bool {
    found.len() == told.len() && found.iter().zip(told).all(|(a, b)| a.abs_diff(*b) <= most)
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

/// One image as a pack with these options.
fn one_tile(image: &Path, builder: TilePackBuilder) -> Result<TilePackReader, AdapterError> {
    let folder = tempfile::tempdir().unwrap();
    let record = TileRecord { tile_path: image.to_owned(), ..TileRecord::default() };
    let manifest = folder.path().join("m.csv");
    write_manifest(&manifest, [&record]).unwrap();
    let path = folder.path().join("a.iac");
    builder.lossless(true).effort(1).build_from_manifest(&manifest, &path, &NoProgress)?;
    TilePackReader::open(path)
}

#[test]
fn colours_follow_the_rules() {
    use png::{BitDepth, ColorType};
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.png");
    let new = TilePackBuilder::new;
    write_png(&image, ColorType::Rgba, BitDepth::Eight, [2, 1], &[10, 20, 30, 0, 10, 20, 30, 128]);
    let pixels = |builder| one_tile(&image, builder).unwrap().read_rgb(0).unwrap().pixels;
    assert_eq!(pixels(new()), [10, 20, 30, 10, 20, 30]);
    let blended = new().alpha(Alpha::BlendWhite);
    assert_eq!(pixels(blended), [255, 255, 255, 132, 137, 142]);
    let native = one_tile(&image, new().color(TileColor::Native)).unwrap();
    assert_eq!(native.read(0).unwrap().shape().channels(), 4);
    assert_eq!(native.read_rgb(0).unwrap().pixels, [10, 20, 30, 10, 20, 30]);
    assert_eq!(native.read_rgb_batch(&[0]).unwrap(), [10, 20, 30, 10, 20, 30]);
    assert_eq!(native.reader().header().get("codec_params").unwrap()["tile_color_space"], "RGBA");
    write_png(&image, ColorType::Grayscale, BitDepth::Eight, [2, 1], &[7, 9]);
    let native = one_tile(&image, new().color(TileColor::Native)).unwrap();
    assert_eq!(native.read(0).unwrap().shape().channels(), 1);
    assert_eq!(native.reader().header().payload_type(), Some("image_tiles"));
    let wide: Vec<u8> = [100_u16, 40_000].iter().flat_map(|v| v.to_be_bytes()).collect();
    write_png(&image, ColorType::Grayscale, BitDepth::Sixteen, [2, 1], &wide);
    let error = one_tile(&image, new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(pixels(new().wide_samples(WideSamples::Clip)), [100, 100, 100, 255, 255, 255]);
    assert_eq!(pixels(new().wide_samples(WideSamples::Scale)), [0, 0, 0, 156, 156, 156]);
    let kept = one_tile(&image, new().wide_samples(WideSamples::Keep)).unwrap();
    assert_eq!(kept.reader().header().payload_type(), Some("image_tiles_v2"));
    let kept_image = kept.read(0).unwrap();
    assert_eq!(kept_image.sample_type(), SampleType::U16);
    let shape = ImageShape::new(1, 2, 1).unwrap();
    assert_eq!(kept_image.as_view(), ImageView::new(shape, &[100_u16, 40_000][..]).unwrap());
    assert_eq!(kept.read_rgb(0).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn orientation_is_applied_only_on_request() {
    let image = data("tiles/image_modes/images/exif6.png");
    let stored = one_tile(&image, TilePackBuilder::new()).unwrap().read_rgb(0).unwrap();
    let builder = TilePackBuilder::new().apply_orientation(true);
    let turned = one_tile(&image, builder).unwrap().read_rgb(0).unwrap();
    let at = |tile: &iac_adapters::tiles::RgbTile, x: usize, y: usize| {
        let start = (y * tile.width as usize + x) * 3;
        tile.pixels[start..start + 3].to_vec()
    };
    for (x, y) in [(0, 0), (5, 1), (15, 15)] {
        assert_eq!(at(&turned, x, y), at(&stored, y, 15 - x));
    }
}

fn bmp(bits: u16, width: i32, height: i32, palette: &[u8], pixels: &[u8]) -> Vec<u8> {
    let mut bytes = b"BM".to_vec();
    bytes.extend([0; 8]);
    bytes.extend((54 + palette.len() as u32).to_le_bytes());
    bytes.extend(40_u32.to_le_bytes());
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(bits.to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend((palette.len() as u32 / 4).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend_from_slice(palette);
    bytes.extend_from_slice(pixels);
    bytes
}

#[test]
fn bitmaps_of_all_plain_kinds_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.bmp");
    let palette = [1, 2, 3, 0, 4, 5, 6, 0];
    for (bytes, expected) in [
        (bmp(24, 1, 2, &[], &[1, 2, 3, 0, 4, 5, 6, 0]), vec![6, 5, 4, 3, 2, 1]),
        (bmp(24, 1, -2, &[], &[1, 2, 3, 0, 4, 5, 6, 0]), vec![3, 2, 1, 6, 5, 4]),
        (bmp(32, 2, 1, &[], &[1, 2, 3, 99, 4, 5, 6, 99]), vec![3, 2, 1, 6, 5, 4]),
        (bmp(8, 2, 1, &palette, &[1, 0, 0, 0]), vec![6, 5, 4, 3, 2, 1]),
        (bmp(4, 2, 1, &palette, &[0x10, 0, 0, 0]), vec![6, 5, 4, 3, 2, 1]),
        (bmp(1, 2, 1, &palette, &[0x80, 0, 0, 0]), vec![6, 5, 4, 3, 2, 1]),
    ] {
        fs::write(&image, &bytes).unwrap();
        let tile = one_tile(&image, TilePackBuilder::new()).unwrap().read_rgb(0).unwrap();
        assert_eq!(tile.pixels, expected);
        for cut in 0..bytes.len() {
            fs::write(&image, &bytes[..cut]).unwrap();
            assert!(one_tile(&image, TilePackBuilder::new()).is_err(), "{cut}");
        }
    }
    fs::write(&image, bmp(8, 2, 1, &palette, &[2, 0, 0, 0])).unwrap();
    assert!(one_tile(&image, TilePackBuilder::new()).is_err());
    fs::write(&image, bmp(24, i32::MAX, i32::MIN, &[], &[0; 8])).unwrap();
    assert!(one_tile(&image, TilePackBuilder::new()).is_err());
}

#[test]
fn cut_images_of_every_kind_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for source in [
        "tiles/image_modes/images/RGB.png",
        "tiles/image_modes/images/CMYK.tif",
        "tiles/from_records/payload0.jxl",
        "tiles/from_records/payload3.jxl",
    ] {
        let whole = fs::read(data(source)).unwrap();
        let image = folder.path().join("image");
        fs::write(&image, &whole).unwrap();
        one_tile(&image, TilePackBuilder::new()).unwrap();
        for cut in [0, 1, 7, 12, 20, whole.len() / 2, whole.len() * 9 / 10] {
            fs::write(&image, &whole[..cut]).unwrap();
            let error = one_tile(&image, TilePackBuilder::new()).unwrap_err();
            assert_eq!(error.path(), Some(image.as_path()), "{source} at {cut}: {error}");
        }
    }
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

#[test]
fn jpeg_files_are_kept_or_turned_into_jpeg_xl_without_loss() {
    let Ok(codec) = iac_codec::Registry::global()
        .create_encoder(&iac_codec::CodecSpec::new("jpeg", iac_codec::Parameters::new()))
    else {
        return; // this build has no encoder
    };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.jpg");
    let pixels: Vec<u8> = (0..32 * 16 * 3_u32).map(|place| (place * 7 / 5 % 251) as u8).collect();
    let shape = ImageShape::new(16, 32, 3).unwrap();
    let jpeg = codec.encode_image(&ImageView::new(shape, &pixels[..]).unwrap()).unwrap();
    fs::write(&image, &jpeg).unwrap();
    let decoded = one_tile(&image, TilePackBuilder::new()).unwrap().read_rgb(0).unwrap();
    assert_eq!((decoded.width, decoded.height), (32, 16));
    let kept = one_tile(&image, TilePackBuilder::new().jpeg_sources(JpegSources::Keep)).unwrap();
    assert_eq!(kept.payload(0).unwrap(), jpeg);
    assert_eq!(
        (kept.codec_name(), kept.reader().header().payload_type()),
        ("jpeg", Some("image_tiles_v2"))
    );
    assert_eq!(kept.read_rgb(0).unwrap().pixels, decoded.pixels);
    let builder = TilePackBuilder::new().jpeg_sources(JpegSources::Transcode);
    let transcoded = one_tile(&image, builder).unwrap();
    assert_eq!(transcoded.reader().header().payload_type(), Some("image_tiles"));
    let rebuilt = iac_codec::jxl::reconstruct_jpeg(
        &transcoded.payload(0).unwrap(),
        &iac_codec::Limits::default(),
    );
    assert_eq!(rebuilt.unwrap().unwrap(), jpeg);
    assert!(close(&transcoded.read_rgb(0).unwrap().pixels, &decoded.pixels, 48));
    let png = data("tiles/image_modes/images/L.png");
    let error = one_tile(&png, TilePackBuilder::new().jpeg_sources(JpegSources::Keep)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    for cut in [2, 3, 20, 160, jpeg.len() / 2] {
        fs::write(&image, &jpeg[..cut]).unwrap();
        assert!(one_tile(&image, TilePackBuilder::new()).is_err(), "{cut}");
    }
}
