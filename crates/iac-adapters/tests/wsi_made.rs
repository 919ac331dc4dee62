//! Slides that are made here: writing, overviews, tissue, and histology images where there are some.
#![cfg(all(feature = "wsi", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::print_stderr
)]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_adapters::validate::{ValidateOptions, validate_pack};
use iac_adapters::wsi::{
    EncodedTile, GridOptions, GridSampler, Mpp, NativeRegion, OverviewOptions, OverviewUse,
    RasterCodec, Region, RegionImage, Resolution, TileColors, TissueMask, TissueOptions,
    WsiAssociated, WsiHeader, WsiOpenOptions, WsiPackReader, WsiPackWriter, WsiReadOptions,
    build_overview, overview_path,
};
use iac_codec::jxl::JxlOptions;
use iac_codec::{Codec, CodecSpec, Image, ImageShape, ImageView, Limits, Registry};
use iac_format::ErrorKind;
use iac_ops::NoProgress;
use iac_ops::pictures::read_picture;
use iac_writer::WriteOptions;
use serde_json::{Map, Value, json};

/// RGB pixels.
struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    /// Something smooth with sharp blobs, and white margins.
    fn made(width: usize, height: usize) -> Self {
        let mut pixels = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                let (u, v) = (x as f64 / 37.0, y as f64 / 23.0);
                let wave = (u.sin() * v.cos() + 1.0) / 2.0;
                let blob = if (x / 9 + y / 7) % 5 == 0 { 60.0 } else { 0.0 };
                let margin = x < width / 8 || y < height / 8;
                let color = if margin {
                    [255.0; 3]
                } else {
                    [225.0 - 40.0 * wave - blob, 130.0 + 60.0 * wave - blob, 200.0 - 50.0 * wave]
                };
                pixels.extend(color.map(|value| value as u8));
            }
        }
        Self { width, height, pixels }
    }

    fn tile(&self, x: usize, y: usize, side: usize) -> Vec<u8> {
        let mut tile = Vec::with_capacity(side * side * 3);
        for row in y * side..(y + 1) * side {
            for column in x * side..(x + 1) * side {
                if row < self.height && column < self.width {
                    let at = (row * self.width + column) * 3;
                    tile.extend_from_slice(&self.pixels[at..at + 3]);
                } else {
                    tile.extend([255; 3]);
                }
            }
        }
        tile
    }
}

fn header(picture: &Picture, side: u32, codec: RasterCodec) -> WsiHeader {
    WsiHeader {
        slide_id: "slide-1".into(),
        patient_id: "patient-1".into(),
        specimen_id: String::new(),
        width: picture.width as u64,
        height: picture.height as u64,
        mpp: Mpp::both(0.25),
        mpp_provenance: "user_override".into(),
        tile_width: side,
        tile_height: side,
        background: [255; 3],
        background_is_counted: false,
        codec,
        selection: Value::Null,
        original_orientation: 1,
        source_format: "png".into(),
        import_backend: "test".into(),
        associated_images_preserved: true,
        extra: Map::new(),
    }
}

fn write(path: &Path, picture: &Picture, side: u32, codec: RasterCodec, encoder: &Codec) {
    let options = WriteOptions::new().sync(false).overwrite(true);
    let mut writer = WsiPackWriter::create(path, header(picture, side, codec), &options).unwrap();
    let edge = side as usize;
    let shape = ImageShape::new(side, side, 3).unwrap();
    for y in 0..picture.height.div_ceil(edge) {
        for x in 0..picture.width.div_ceil(edge) {
            let tile = picture.tile(x, y, edge);
            if tile.iter().all(|value| *value == 255) {
                continue;
            }
            let payload = encoder.encode_image(&ImageView::new(shape, &tile[..]).unwrap()).unwrap();
            let tile = EncodedTile { x: x as u32, y: y as u32, payload: &payload };
            writer.push_tile(&tile).unwrap();
        }
    }
    let label = Image::new(ImageShape::new(5, 7, 3).unwrap(), vec![9_u8; 105]).unwrap();
    let payload = JxlOptions::lossless().codec().unwrap().encode_image(&label.as_view()).unwrap();
    let label = WsiAssociated {
        name: "label".into(),
        width: 7,
        height: 5,
        payload,
        icc: Some(b"its profile".to_vec()),
        source_mode: "RGB".into(),
        composited_on_white: false,
        source_info: Map::new(),
    };
    let mut metadata = Map::new();
    metadata.insert("source_info".into(), json!({"b": 2, "a": "\u{e9}"}));
    writer.finish(metadata, Some(b"a profile"), vec![label]).unwrap();
}

fn lossless() -> (RasterCodec, Codec) {
    (
        RasterCodec::Jxl { lossless: true, distance: 0.0, effort: 1 },
        JxlOptions::lossless().with_effort(1).codec().unwrap(),
    )
}

/// Lossy codecs with their encoders, as far as this build has them.
fn lossy() -> Vec<(&'static str, RasterCodec, Codec)> {
    let make = |name: &str, params: Value| {
        let Value::Object(params) = params else { panic!() };
        Registry::global().create_encoder(&CodecSpec::new(name, params)).ok()
    };
    let jxl = RasterCodec::Jxl { lossless: false, distance: 1.0, effort: 3 };
    let jpeg = RasterCodec::Jpeg { colors: TileColors::YCbCr, tables: None, associated_effort: 3 };
    let jpeg2000 =
        RasterCodec::Jpeg2000 { source_compression: "JPEG2000".into(), associated_effort: 3 };
    [
        ("jxl", jxl, make("jxl", json!({"distance": 1.0, "effort": 3}))),
        ("jpeg", jpeg, make("jpeg", json!({"quality": 85}))),
        ("jpeg2000", jpeg2000, make("jpeg2000", json!({"lossless": false, "quality": 42.0}))),
    ]
    .into_iter()
    .filter_map(|(name, codec, encoder)| Some((name, codec, encoder?)))
    .collect()
}

fn open(path: &Path, overview: OverviewUse) -> WsiPackReader {
    WsiPackReader::open_with(path, &WsiOpenOptions::new().overview(overview)).unwrap()
}

/// Mean of the differences and peak signal-to-noise ratio.
fn distance(one: &RegionImage, other: &RegionImage) -> (f64, f64) {
    let count = one.pixels.len() as f64;
    let differences = one.pixels.iter().zip(&other.pixels).map(|(a, b)| f64::from(a.abs_diff(*b)));
    let (sum, squares) =
        differences.fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d));
    let psnr = if squares == 0.0 { 99.0 } else { 10.0 * (65025.0 * count / squares).log10() };
    (sum / count, psnr)
}

/// Compares fast regions, without an overview and with one, with exact ones at several resolutions
/// and places.
fn compare(name: &str, path: &Path, (factors, starts): (&[f64], &[f64]), wrong: &mut Vec<String>) {
    let plain = open(path, OverviewUse::Never);
    build_overview(&plain, &OverviewOptions::new(), &NoProgress).unwrap();
    let overview = open(path, OverviewUse::Automatic);
    assert_eq!(overview.overview_levels(), [3, 6]);
    let native = plain.info().mpp.x;
    let (width, height) = plain.info().physical_size();
    for factor in factors {
        for start in starts.iter().map(|pixels| pixels * native) {
            let mpp = native * factor;
            let side = |size: f64| ((size - start) / mpp).floor().max(1.0) as u32;
            let region = Region {
                x_um: start,
                y_um: start,
                width: side(width),
                height: side(height),
                mpp: Mpp::both(mpp),
            };
            let exact = plain.read_region(&region, &WsiReadOptions::new()).unwrap();
            let fast = WsiReadOptions::new().resolution(Resolution::Fast);
            for (reader, with) in [(&plain, ""), (&overview, " with overview")] {
                let (mean, psnr) = distance(&exact, &reader.read_region(&region, &fast).unwrap());
                // Off the grid pixels are cut, which costs a little more.
                let most = if start == 0.0 { 1.25 } else { 1.5 };
                if mean > most || psnr < 36.0 {
                    wrong.push(format!(
                        "{name}{with} at {factor} from {start}: {mean:.2}, {psnr:.1} dB"
                    ));
                }
            }
        }
    }
}

#[test]
fn what_is_written_reads_back_and_keeps_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.pat.iac");
    let picture = Picture::made(300, 170);
    let (codec, encoder) = lossless();
    write(&path, &picture, 64, codec, &encoder);
    let reader = open(&path, OverviewUse::Automatic);
    let all = NativeRegion { x: 0, y: 0, width: 300, height: 170 };
    let image = reader.read_native(&all, &WsiReadOptions::new()).unwrap();
    assert!(image.pixels == picture.pixels);
    assert_eq!(reader.icc_profile().unwrap().unwrap(), &b"a profile"[..]);
    assert_eq!(reader.associated_icc("label").unwrap().unwrap(), &b"its profile"[..]);
    assert_eq!(reader.read_associated("label").unwrap().pixels, [9; 105]);
    assert_eq!(reader.scanner_metadata().unwrap()["source_info"], json!({"a": "\u{e9}", "b": 2}));
    let valid = validate_pack(&path, &ValidateOptions::default()).unwrap().to_string();
    assert!(valid.contains("dimensions=300x170"), "{valid}");
    // A tile that lies outside, and one that is there already.
    let options = WriteOptions::new().sync(false);
    let header = header(&picture, 64, lossless().0);
    let mut writer =
        WsiPackWriter::create(folder.path().join("other.iac"), header, &options).unwrap();
    writer.push_tile(&EncodedTile { x: 0, y: 0, payload: b"x" }).unwrap();
    for place in [(0, 0), (5, 0), (0, 3)] {
        let tile = EncodedTile { x: place.0, y: place.1, payload: b"x" };
        assert_eq!(writer.push_tile(&tile).unwrap_err().kind(), ErrorKind::Schema);
    }
    drop(writer);
    assert!(!folder.path().join("other.iac").exists());
}

#[test]
fn overview_is_the_average_of_the_raster_and_is_passed_over_when_it_is_another_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.pat.iac");
    let picture = Picture::made(700, 333);
    let (codec, encoder) = lossless();
    write(&path, &picture, 64, codec, &encoder);
    let plain = open(&path, OverviewUse::Never);
    assert!(plain.overview_levels().is_empty());
    let mut options = OverviewOptions::new();
    options.workers = NonZeroUsize::new(2).unwrap();
    let summary = build_overview(&plain, &options, &NoProgress).unwrap();
    assert_eq!(summary.path, overview_path(&path));
    let reader = open(&path, OverviewUse::Automatic);
    assert_eq!(reader.overview_levels(), [3, 6]);
    // On the grid of a level the averages are the exact ones.
    let region = Region { x_um: 0.0, y_um: 0.0, width: 88, height: 42, mpp: Mpp::both(0.25 * 8.0) };
    let fast = WsiReadOptions::new().resolution(Resolution::Fast);
    let exact = plain.read_region(&region, &WsiReadOptions::new()).unwrap();
    assert!(exact == reader.read_region(&region, &fast).unwrap());
    let coarse = Region { width: 11, height: 6, mpp: Mpp::both(0.25 * 64.0), ..region };
    let exact = plain.read_region(&coarse, &WsiReadOptions::new()).unwrap();
    let averaged = reader.read_region(&coarse, &fast).unwrap();
    let worst = exact.pixels.iter().zip(&averaged.pixels).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(worst.unwrap() <= 1, "{worst:?}");
    // A batch uses it too, and a second reading comes from memory.
    let batch = reader.read_regions(&[region, region], &fast).unwrap();
    assert!(batch.pixels[..88 * 42 * 3] == reader.read_region(&region, &fast).unwrap().pixels);

    // Another slide's overview.
    let other = folder.path().join("other.pat.iac");
    write(&other, &Picture::made(700, 334), 64, lossless().0, &lossless().1);
    std::fs::copy(overview_path(&path), overview_path(&other)).unwrap();
    assert!(open(&other, OverviewUse::Automatic).overview_levels().is_empty());
    let use_it = WsiOpenOptions::new().overview(OverviewUse::File(overview_path(&path)));
    let error = WsiPackReader::open_with(&other, &use_it).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);

    // One that was damaged: the raster serves.
    let mut bytes = std::fs::read(overview_path(&path)).unwrap();
    let end = bytes.len() - 20;
    bytes[end] ^= 0xFF;
    for at in 0..2000 {
        bytes[end - at * 7] ^= 0x55;
    }
    std::fs::write(overview_path(&path), bytes).unwrap();
    let reader = open(&path, OverviewUse::Automatic);
    let read = reader.read_region(&coarse, &fast).unwrap();
    let (mean, _) = distance(&plain.read_region(&coarse, &WsiReadOptions::new()).unwrap(), &read);
    assert!(mean <= 1.0);
}

#[test]
fn fast_regions_of_made_slides_stay_near_the_exact_ones() {
    let folder = tempfile::tempdir().unwrap();
    let picture = Picture::made(700, 520);
    let places = (&[2.0, 3.3, 4.0, 8.0, 16.0, 32.0, 64.0][..], &[0.0, 3.0, 17.3][..]);
    let mut wrong = Vec::new();
    for (name, codec, encoder) in lossy() {
        let path = folder.path().join(format!("{name}.pat.iac"));
        write(&path, &picture, 128, codec, &encoder);
        compare(name, &path, places, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn fast_regions_of_histology_stay_near_the_exact_ones() {
    let Some(corpus) = std::env::var_os("IAC_CORPUS").map(PathBuf::from) else {
        eprintln!("IAC_CORPUS is not set: histology images were not looked at");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let places = (&[2.0, 3.3, 16.0, 64.0][..], &[0.0, 17.3][..]);
    let mut wrong = Vec::new();
    for file in std::fs::read_dir(corpus.join("histology")).unwrap() {
        let file = file.unwrap().path();
        let Ok(image) = read_picture(&std::fs::read(&file).unwrap(), &Limits::default()) else {
            continue;
        };
        let shape = image.shape();
        if shape.channels() < 3 {
            continue;
        }
        let channels = shape.channels() as usize;
        let bytes = image.samples().to_le_bytes();
        let picture = Picture {
            width: shape.width() as usize,
            height: shape.height() as usize,
            pixels: bytes
                .chunks(channels)
                .flat_map(|pixel| [pixel[0], pixel[1], pixel[2]])
                .collect(),
        };
        for (name, codec, encoder) in lossy() {
            let path = folder.path().join("slide.pat.iac");
            write(&path, &picture, 256, codec, &encoder);
            let name = format!("{name} {}", file.file_name().unwrap().to_string_lossy());
            compare(&name, &path, places, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn tissue_is_found_and_the_grid_leaves_glass_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.pat.iac");
    let (codec, encoder) = lossless();
    write(&path, &Picture::made(1600, 1200), 256, codec, &encoder);
    let reader = open(&path, OverviewUse::Never);
    let mut options = TissueOptions::new();
    options.mpp = 2.0;
    let mask = TissueMask::compute(&reader, &options, &WsiReadOptions::new()).unwrap();
    assert_eq!((mask.width(), mask.height()), (200, 150));
    // An eighth of each side is glass.
    let share = mask.pixels().iter().filter(|is_tissue| **is_tissue).count() as f64 / 30_000.0;
    assert!(share < 0.77 && share > 0.3, "{share}");
    let mut grid = GridOptions::new(100, 100, Mpp::both(0.5));
    let regions: Vec<Region> = GridSampler::new(&reader, &mask, grid).unwrap().collect();
    assert!(!regions.is_empty());
    assert!(regions.iter().all(|region| mask.fraction(region) > 0.5));
    assert!(regions.iter().all(|region| region.x_um >= 50.0 || region.y_um >= 0.0));
    grid.min_tissue = -1.0;
    assert_eq!(GridSampler::new(&reader, &mask, grid).unwrap().count(), 8 * 6);
    grid.partial = true;
    grid.stride = (70, 70);
    assert_eq!(GridSampler::new(&reader, &mask, grid).unwrap().count(), 12 * 9);
    grid.stride = (0, 1);
    assert!(GridSampler::new(&reader, &mask, grid).is_err());
}

#[test]
fn threads_that_read_at_once_decode_a_shared_tile_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.pat.iac");
    let (codec, encoder) = lossless();
    let picture = Picture::made(512, 512);
    write(&path, &picture, 256, codec, &encoder);
    let reader = open(&path, OverviewUse::Never);
    let region = NativeRegion { x: 100, y: 100, width: 300, height: 300 };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let reader = reader.clone();
            scope.spawn(move || {
                let two = WsiReadOptions::new().workers(NonZeroUsize::new(2).unwrap());
                let image = reader.read_native(&region, &two).unwrap();
                assert_eq!(image.pixels.len(), 300 * 300 * 3);
            });
        }
    });
}
