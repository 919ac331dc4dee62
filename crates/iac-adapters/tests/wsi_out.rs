//! Slides that leave their packs: TIFF files that are imported again, and folders of tiles; and imports that
//! go on after they were stopped.
#![cfg(all(feature = "wsi-import", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use iac_adapters::TileRecord;
use iac_adapters::manifest::ManifestReader;
use iac_adapters::wsi::{
    Mpp, NativeRegion, Region, TiffExportOptions, TiffFlavor, TiffTiles, TileFolderOptions,
    WsiImporter, WsiPackReader, WsiProfile, WsiReadOptions,
};
use iac_codec::compiled_codecs;
use iac_format::ErrorKind;
use iac_ops::{Cancel, NoProgress, Progress};
use iac_writer::WriteOptions;

fn input(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi/inputs").join(name)
}

fn importer(profile: WsiProfile) -> WsiImporter {
    WsiImporter::new("s")
        .profile(profile)
        .effort(1)
        .tile_size(64, 48)
        .options(WriteOptions::new().sync(false).overwrite(true))
}

fn import(importer: &WsiImporter, source: &Path, folder: &Path) -> WsiPackReader {
    let path = folder.join("slide.pat.iac");
    importer.import(source, &path, &NoProgress).unwrap();
    WsiPackReader::open(&path).unwrap()
}

fn whole(slide: &WsiPackReader) -> NativeRegion {
    let info = slide.info();
    NativeRegion { x: 0, y: 0, width: info.width as u32, height: info.height as u32 }
}

fn pixels(slide: &WsiPackReader) -> Vec<u8> {
    slide.read_native(&whole(slide), &WsiReadOptions::new()).unwrap().pixels
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn exported_files_become_the_same_slide_again() {
    for (name, profile) in [
        ("svs_jpeg_ycbcr_tables.svs", WsiProfile::Passthrough),
        ("svs_jpeg_rgb_tables.svs", WsiProfile::Transcode),
        // A tile is missing.
        ("tiff_empty_tile.tif", WsiProfile::Passthrough),
        ("tiff_deflate.tif", WsiProfile::Lossless),
        ("tiff_near_background.tif", WsiProfile::Lossless),
        ("svs_j2k_33005.svs", WsiProfile::Passthrough),
    ] {
        if name.contains("j2k") && !compiled_codecs().contains(&"jpeg2000") {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let slide = import(&importer(profile), &input(name), folder.path());
        let (wanted, info) = (pixels(&slide), slide.info().clone());
        let images: Vec<_> = slide
            .associated_images()
            .into_iter()
            .map(|image| slide.read_associated(&image.name).unwrap().pixels)
            .collect();
        for flavor in [TiffFlavor::Pages, TiffFlavor::Ome] {
            let path = folder.path().join("out.tif");
            let mut options = TiffExportOptions::new();
            (options.flavor, options.tile, options.overwrite) = (flavor, 32, true);
            let summary = slide.export_tiff(&path, &options, &NoProgress).unwrap();
            assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
            let again = tempfile::tempdir().unwrap();
            let profile =
                if summary.as_stored { WsiProfile::Passthrough } else { WsiProfile::Lossless };
            let back = import(&importer(profile), &path, again.path());
            assert_eq!(pixels(&back), wanted, "{name} {flavor:?}");
            let apart = |one: f64, other: f64| (one / other - 1.0).abs();
            let (one, other) = (back.info().mpp, info.mpp);
            assert!(apart(one.x, other.x) < 1e-8 && apart(one.y, other.y) < 1e-8, "{name}");
            assert_eq!(back.icc_profile().unwrap(), slide.icc_profile().unwrap());
            let found: Vec<_> = back.associated_images();
            assert_eq!(found.len(), images.len(), "{name} {flavor:?}");
            for image in &found {
                let image = back.read_associated(&image.name).unwrap().pixels;
                assert!(images.contains(&image), "{name}");
            }
            if flavor == TiffFlavor::Ome {
                let names = |slide: &WsiPackReader| -> Vec<_> {
                    slide.associated_images().into_iter().map(|image| image.name).collect()
                };
                assert_eq!(names(&back), names(&slide));
            }
            let is_whole = info.stored_tiles == info.grid_width * info.grid_height;
            if summary.as_stored && is_whole {
                for y in 0..info.grid_height {
                    for x in 0..info.grid_width {
                        let tile = |slide: &WsiPackReader| slide.original_tile(x, y).unwrap();
                        assert_eq!(tile(&back), tile(&slide), "{name} ({x}, {y})");
                    }
                }
            }
        }
    }
}

#[test]
fn exports_do_not_depend_on_threads_and_leave_nothing_when_they_fail() {
    let folder = tempfile::tempdir().unwrap();
    let slide = import(&importer(WsiProfile::Lossless), &input("tiff_deflate.tif"), folder.path());
    let made = |workers, memory| {
        let mut options = TiffExportOptions::new();
        (options.workers, options.memory) = (NonZeroUsize::new(workers), memory);
        (options.tile, options.overwrite) = (64, true);
        let path = folder.path().join("out.tif");
        slide.export_tiff(&path, &options, &NoProgress).unwrap();
        std::fs::read(path).unwrap()
    };
    assert_eq!(made(1, 1 << 26), made(3, 1));
    let before = files(folder.path());
    let cancel = Cancel::new();
    cancel.cancel();
    let options = TiffExportOptions::new();
    let other = folder.path().join("other.tif");
    assert!(slide.export_tiff(&other, &options, &cancel).unwrap_err().is_cancelled());
    let error =
        slide.export_tiff(folder.path().join("out.tif"), &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    for change in [
        |options: &mut TiffExportOptions| options.tile = 100,
        |options: &mut TiffExportOptions| options.tile = 0,
        |options: &mut TiffExportOptions| options.step = 1,
        |options: &mut TiffExportOptions| options.quality = 0,
        |options: &mut TiffExportOptions| options.tiles = TiffTiles::Jpeg(101),
    ] {
        let mut options = TiffExportOptions::new();
        change(&mut options);
        let error = slide.export_tiff(&other, &options, &NoProgress).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    let tiles = folder.path().join("tiles");
    let error = slide.export_tiles(&tiles, &TileFolderOptions::new(), &cancel).unwrap_err();
    assert!(error.is_cancelled());
    assert_eq!(files(folder.path()), before);
}

#[test]
fn tiles_of_a_grid_are_the_regions_that_their_list_names() {
    let folder = tempfile::tempdir().unwrap();
    let importer = importer(WsiProfile::Lossless).native_mpp(Mpp { x: 0.5, y: 0.25 });
    let slide = import(&importer, &input("tiff_deflate.tif"), folder.path());
    let path = folder.path().join("tiles");
    let mut options = TileFolderOptions::new();
    options.tile = 100;
    options.stride = Some(150);
    options.mpp = Some(Mpp::both(1.0));
    options.workers = NonZeroUsize::new(2);
    let summary = slide.export_tiles(&path, &options, &NoProgress).unwrap();
    // 350 x 125 micrometres.
    assert_eq!(summary.tiles, 3);
    assert_eq!(files(&path), ["0_0.png", "1_0.png", "2_0.png", "tiles.csv"]);
    let list = std::fs::read_to_string(&summary.list).unwrap();
    for line in list.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().unwrap();
        let region = Region {
            x_um: number(9),
            y_um: number(10),
            width: number(11) as u32,
            height: number(12) as u32,
            mpp: Mpp { x: number(13), y: number(14) },
        };
        let wanted = slide.read_region(&region, &WsiReadOptions::new()).unwrap();
        let file = std::io::BufReader::new(std::fs::File::open(path.join(cells[3])).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels[..frame.buffer_size()], wanted.pixels, "{line}");
    }
    // The list is what packs of tiles are made of.
    let records: Vec<TileRecord> =
        ManifestReader::open(&summary.list).unwrap().map(Result::unwrap).collect();
    let last = records.last().unwrap();
    assert_eq!((last.x, last.y, last.split.as_deref()), (300, 0, Some("")));
    assert_eq!(last.tile_path, Path::new("2_0.png"));
    assert_eq!(last.tile_id, format!("{}_2_0", slide.info().slide_id));
    let error = slide.export_tiles(&path, &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    options.min_tissue = Some(2.0);
    let none = slide.export_tiles(folder.path().join("none"), &options, &NoProgress).unwrap();
    assert_eq!(none.tiles, 0);
}

/// Stops when so many tiles were written.
struct StopAfter {
    tiles: u64,
    left: AtomicU64,
}

impl StopAfter {
    const fn new(tiles: u64) -> Self {
        Self { tiles, left: AtomicU64::new(u64::MAX) }
    }
}

impl Progress for StopAfter {
    fn begin(&self, what: &str, _: Option<u64>) {
        let counts = matches!(what, "encoding tiles" | "transcoding tiles");
        self.left.store(if counts { self.tiles } else { u64::MAX }, Ordering::Relaxed);
    }

    fn advance(&self, units: u64) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(units), Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

#[test]
fn imports_go_on_where_they_were_stopped() {
    for (name, profile) in [
        ("tiff_deflate.tif", WsiProfile::Lossless),
        ("svs_jpeg_ycbcr_tables.svs", WsiProfile::Transcode),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("a.pat.iac");
        let plain = importer(profile).workers(NonZeroUsize::new(1));
        let resuming = plain.clone().resume(true);
        let journal = folder.path().join("a.pat.iac.journal");
        let mut sizes = Vec::new();
        for stop in [2_u64, 4] {
            let stopped = StopAfter::new(stop);
            let error = resuming.import(input(name), &pack, &stopped).unwrap_err();
            assert!(error.is_cancelled(), "{error}");
            assert_eq!(files(folder.path()), ["a.pat.iac.journal"]);
            sizes.push(std::fs::metadata(&journal).unwrap().len());
        }
        assert!(sizes[0] > 40 && sizes[1] > sizes[0], "{sizes:?}");
        // With other options, what is there is of no use.
        let other = resuming.clone().effort(2);
        let stopped = StopAfter::new(1);
        other.import(input(name), &pack, &stopped).unwrap_err();
        assert!(std::fs::metadata(&journal).unwrap().len() < sizes[1]);
        resuming.import(input(name), &pack, &NoProgress).unwrap();
        assert_eq!(files(folder.path()), ["a.pat.iac"]);
        let resumed = std::fs::read(&pack).unwrap();
        plain.import(input(name), &pack, &NoProgress).unwrap();
        assert!(resumed == std::fs::read(&pack).unwrap(), "{name}");
    }
}
