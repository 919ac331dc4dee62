//! Slides that are written as TIFF files: other programs read the native pixels of the pack.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use std::path::{Path, PathBuf};

use iac_adapters::wsi::{
    Mpp, NativeRegion, TiffExportOptions, TiffFlavor, TiffTiles, WsiImporter, WsiPackReader,
    WsiProfile, WsiReadOptions,
};
use iac_interop::reference::{repository, run_json};
use iac_ops::NoProgress;
use iac_writer::WriteOptions;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn input(name: &str) -> PathBuf {
    repository().join("crates/iac-adapters/tests/data/wsi/inputs").join(name)
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pack(source: &Path, folder: &Path, profile: WsiProfile) -> WsiPackReader {
    let path = folder.join("slide.pat.iac");
    WsiImporter::new("slide <1>")
        .profile(profile)
        .effort(1)
        .tile_size(48, 32)
        .native_mpp(Mpp { x: 0.25, y: 0.5 })
        .options(WriteOptions::new().sync(false).overwrite(true))
        .import(source, &path, &NoProgress)
        .unwrap();
    WsiPackReader::open(&path).unwrap()
}

fn native(slide: &WsiPackReader) -> String {
    let info = slide.info();
    let region = NativeRegion { x: 0, y: 0, width: info.width as u32, height: info.height as u32 };
    sum(&slide.read_native(&region, &WsiReadOptions::new()).unwrap().pixels)
}

/// What other programs read.
fn read(path: &Path) -> Value {
    run_json::<&str>("read_tiff.py", &[], &format!("{}\n", json!({"path": path})))[0].clone()
}

#[test]
fn exported_files_have_the_native_pixels_for_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let mut by_openslide = 0;
    for (name, profile, as_stored) in [
        ("svs_jpeg_ycbcr_tables.svs", WsiProfile::Passthrough, true),
        ("svs_jpeg_rgb_tables.svs", WsiProfile::Passthrough, true),
        ("svs_jpeg_ycbcr_tables.svs", WsiProfile::Transcode, true),
        ("tiff_jpeg_no_tables.tif", WsiProfile::Passthrough, true),
        ("tiff_deflate.tif", WsiProfile::Lossless, false),
        ("svs_j2k_33005.svs", WsiProfile::Passthrough, false),
        ("tiff_background_tie.tif", WsiProfile::Lossless, false),
    ] {
        let slide = pack(&input(name), folder.path(), profile);
        let (wanted, info) = (native(&slide), slide.info().clone());
        for flavor in [TiffFlavor::Pages, TiffFlavor::Ome] {
            let path =
                folder.path().join(if flavor == TiffFlavor::Ome { "a.ome.tif" } else { "a.tif" });
            let mut options = TiffExportOptions::new();
            options.flavor = flavor;
            options.tile = 64;
            options.overwrite = true;
            let summary = slide.export_tiff(&path, &options, &NoProgress).unwrap();
            assert_eq!(summary.as_stored, as_stored, "{name}");
            assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
            let found = read(&path);
            let theirs = &found["tifffile"];
            assert_eq!(theirs["native"], wanted.as_str(), "{name} {flavor:?} {theirs}");
            assert_eq!(theirs["is_bigtiff"], true);
            assert_eq!(theirs["is_ome"], flavor == TiffFlavor::Ome);
            let names: Vec<_> = slide.associated_images().into_iter().map(|it| it.name).collect();
            let others = theirs["others"].as_array().unwrap();
            assert_eq!(others.len(), names.len(), "{name} {theirs}");
            for (name, other) in names.iter().zip(others) {
                let image = slide.read_associated(name).unwrap();
                assert_eq!(other["pixels"], sum(&image.pixels), "{name}");
                if flavor == TiffFlavor::Ome {
                    assert_eq!(other["name"], name.as_str());
                }
            }
            let theirs = &found["tiffslide"];
            assert_eq!(theirs["native"], wanted.as_str(), "{name} {flavor:?}");
            assert_eq!(theirs["size"], json!([info.width, info.height]));
            let mpp = [theirs["mpp"][0].as_f64().unwrap(), theirs["mpp"][1].as_f64().unwrap()];
            assert!((mpp[0] - 0.25).abs() < 1e-9 && (mpp[1] - 0.5).abs() < 1e-9, "{mpp:?}");
            if !found["openslide"].is_null() {
                assert_eq!(found["openslide"]["native"], wanted.as_str(), "{name} {flavor:?}");
                by_openslide += 1;
            }
        }
    }
    if by_openslide == 0 {
        eprintln!("OpenSlide was not asked: the environment has none");
    }
}

#[test]
fn smaller_versions_are_read_by_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("wide.png");
    let image = iac_codec::ImageShape::new(300, 5000, 3).unwrap();
    let pixels: Vec<u8> = (0..image.samples()).map(|at| (at / 40 % 250) as u8).collect();
    let view = iac_codec::ImageView::new(image, &pixels[..]).unwrap();
    std::fs::write(&source, iac_ops::pictures::write_png(&view).unwrap()).unwrap();
    let slide = pack(&source, folder.path(), WsiProfile::Lossless);
    for flavor in [TiffFlavor::Pages, TiffFlavor::Ome] {
        for tiles in [TiffTiles::Stored, TiffTiles::Jpeg(95)] {
            let path =
                folder.path().join(if flavor == TiffFlavor::Ome { "a.ome.tif" } else { "a.tif" });
            let mut options = TiffExportOptions::new();
            (options.flavor, options.tiles) = (flavor, tiles);
            (options.tile, options.overwrite) = (256, true);
            let summary = slide.export_tiff(&path, &options, &NoProgress).unwrap();
            assert_eq!(summary.levels, 3);
            let found = read(&path);
            let sizes = json!([[300, 5000, 3], [75, 1250, 3], [19, 313, 3]]);
            assert_eq!(found["tifffile"]["levels"], sizes, "{flavor:?}");
            let is_exact = tiles == TiffTiles::Stored;
            assert_eq!(found["tifffile"]["native"] == sum(&pixels), is_exact);
            let mean = found["tifffile"]["smallest"][0].as_f64().unwrap();
            let wanted = pixels.iter().map(|it| f64::from(*it)).sum::<f64>() / pixels.len() as f64;
            assert!((mean - wanted).abs() < 3.0, "{mean} {wanted}");
            let sizes = json!([[5000, 300], [1250, 75], [313, 19]]);
            assert_eq!(found["tiffslide"]["levels"], sizes);
            if !found["openslide"].is_null() && flavor == TiffFlavor::Pages {
                assert_eq!(found["openslide"]["levels"], sizes);
            }
        }
    }
}
