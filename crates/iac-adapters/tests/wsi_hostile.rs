//! Slides whose headers and pages claim what nobody has: refused before memory or time is spent on it.
#![cfg(all(feature = "wsi", feature = "jxl"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::path::Path;

use iac_adapters::wsi::{
    DeepZoomOptions, Mpp, NativeRegion, OverviewOptions, OverviewUse, Region, Resolution,
    WsiOpenOptions, WsiPackReader, WsiReadOptions, build_overview, overview_path,
};
use iac_codec::{CodecSpec, Limits, Registry};
use iac_format::{Header, header_block};
use iac_ops::NoProgress;
use iac_reader::PackReader;
use serde_json::{Value, json};

/// A golden pack.
fn golden(wanted: &str) -> Vec<u8> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi");
    let zstd = Registry::global().create(&CodecSpec::new("zstd", Default::default())).unwrap();
    let frame = std::fs::read(data.join("packs.zst")).unwrap();
    let all = zstd.decode_bytes(&frame, &Limits::default()).unwrap();
    let list: Value =
        serde_json::from_slice(&std::fs::read(data.join("packs.json")).unwrap()).unwrap();
    let mut rest = all.as_slice();
    for entry in list.as_array().unwrap() {
        let length = usize::try_from(entry[1].as_u64().unwrap()).unwrap();
        let (file, behind) = rest.split_at(length);
        if entry[0] == wanted {
            return file.to_vec();
        }
        rest = behind;
    }
    Vec::new()
}

/// A file with some members of its header replaced.
fn with_members(file: &[u8], members: &[(&str, Value)]) -> Vec<u8> {
    let header = Header::parse(&file[..65_536], u64::try_from(file.len()).unwrap()).unwrap();
    let mut all = header.members().clone();
    // Sums of another header would not fit.
    if let Some(Value::Array(extensions)) = all.get_mut("extensions") {
        extensions.retain(|name| name != "iac.checksums");
    }
    all.remove("checksums");
    for (name, value) in members {
        all.insert((*name).to_owned(), value.clone());
    }
    let mut made = header_block(&serde_json::to_string(&all).unwrap()).unwrap();
    made.extend_from_slice(&file[65_536..]);
    made
}

/// A pack without a tile that claims so many pixels.
fn claiming(width: u64, height: u64, tile: u64) -> WsiPackReader {
    let (across, down) = (width.div_ceil(tile), height.div_ceil(tile));
    let file = with_members(
        &golden("all_background"),
        &[
            ("width", width.into()),
            ("height", height.into()),
            ("tile_width", tile.into()),
            ("tile_height", tile.into()),
            ("grid_width", across.into()),
            ("grid_height", down.into()),
            ("stored_tile_count", 0.into()),
            ("implicit_background_tile_count", (across * down).into()),
        ],
    );
    let pack = PackReader::from_bytes(file).unwrap();
    WsiPackReader::from_reader(pack, &WsiOpenOptions::default()).unwrap()
}

#[test]
fn regions_that_cover_more_than_anybody_waits_for_are_refused() {
    let options = WsiReadOptions::new();
    for (width, height, tile) in [
        (1 << 53, 1, 1),
        (1, 1 << 53, 65_535),
        (1 << 53, 1024, 65_535),
        (1 << 31, 1 << 31, 256),
        (1 << 21, 1 << 18, 1),
    ] {
        let slide = claiming(width, height, tile);
        for options in [options, options.resolution(Resolution::Fast)] {
            let error = slide.read_thumbnail(64, &options).unwrap_err().to_string();
            assert!(error.starts_with("the region covers"), "{error}");
            let region = slide.thumbnail_region(64).unwrap();
            assert!(slide.read_regions(&[region, region], &options).is_err());
        }
        // Elsewhere the slide can be read.
        let mpp = slide.info().mpp;
        let region = Region { x_um: 0.0, y_um: 0.0, width: 300, height: 200, mpp };
        assert_eq!(slide.read_region(&region, &options).unwrap().pixels.len(), 180_000);
    }
}

#[test]
fn claims_of_which_nothing_is_stored_cost_no_work() {
    // 2^40 pixels: averaging them would take an hour.
    let slide = claiming(1 << 20, 1 << 20, 1024);
    let one = NativeRegion { x: 0, y: 0, width: 1, height: 1 };
    let background = slide.read_native(&one, &WsiReadOptions::new()).unwrap().pixels;
    for edge in [64, 63] {
        let thumbnail = slide.read_thumbnail(edge, &WsiReadOptions::new()).unwrap();
        let pixels = thumbnail.pixels.as_chunks::<3>().0;
        assert_eq!(pixels.len(), usize::try_from(edge * edge).unwrap());
        assert!(pixels.iter().all(|pixel| pixel[..] == background[..]));
    }
}

#[test]
fn columns_that_need_more_of_a_row_than_memory_holds_are_refused() {
    let slide = claiming(1 << 27, 2, 1);
    let mpp = Mpp { x: slide.info().mpp.x * 1.5e6, y: slide.info().mpp.y * 1.5 };
    let region = Region { x_um: 0.0, y_um: 0.0, width: 8, height: 1, mpp };
    let error = slide.read_region(&region, &WsiReadOptions::new()).unwrap_err().to_string();
    assert!(error.starts_with("a column of the region covers 15"), "{error}");
}

#[test]
fn deep_zoom_of_too_many_tiles_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dzi");
    for (width, height) in [(1 << 53, 1), (1 << 31, 1 << 31)] {
        let slide = claiming(width, height, 65_535);
        let error = slide.export_deep_zoom(&path, &DeepZoomOptions::new(), &NoProgress);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("at most 16777216 are written"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn overviews_of_another_background_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pat.iac");
    std::fs::write(&path, golden("tiff_pyramid")).unwrap();
    build_overview(&WsiPackReader::open(&path).unwrap(), &OverviewOptions::new(), &NoProgress)
        .unwrap();
    let beside = overview_path(&path);
    let sound = std::fs::read(&beside).unwrap();
    assert!(!WsiPackReader::open(&path).unwrap().overview_levels().is_empty());
    for value in [json!([1, 2, 3]), json!(null), json!("white")] {
        std::fs::write(&beside, with_members(&sound, &[("background_rgb", value)])).unwrap();
        let slide = WsiPackReader::open(&path).unwrap();
        assert!(slide.overview_levels().is_empty());
        let options = WsiOpenOptions::new().overview(OverviewUse::File(beside.clone()));
        let error = WsiPackReader::open_with(&path, &options).unwrap_err().to_string();
        assert!(error.contains("background_rgb is not ["), "{error}");
    }
}

#[cfg(feature = "wsi-import")]
mod import {
    use super::*;
    use iac_adapters::wsi::{WsiImporter, WsiProfile};
    use iac_writer::WriteOptions;

    /// A page of one grey pixel, with further entries: tag, type, count, value.
    fn page(at: usize, more: &[(u16, u16, u32, u32)], is_last: bool) -> Vec<u8> {
        let mut entries = vec![
            (256, 3, 1, 1),
            (257, 3, 1, 1),
            (258, 3, 1, 8),
            (259, 3, 1, 1),
            (262, 3, 1, 1),
            (273, 4, 1, 8),
            (277, 3, 1, 1),
            (278, 3, 1, 1),
            (279, 4, 1, 1),
        ];
        entries.extend_from_slice(more);
        let mut bytes = u16::try_from(entries.len()).unwrap().to_le_bytes().to_vec();
        for (tag, kind, count, value) in &entries {
            bytes.extend(u16::to_le_bytes(*tag));
            bytes.extend(u16::to_le_bytes(*kind));
            bytes.extend(u32::to_le_bytes(*count));
            bytes.extend(u32::to_le_bytes(*value));
        }
        let next = if is_last { 0 } else { u32::try_from(at + bytes.len() + 4).unwrap() };
        bytes.extend(next.to_le_bytes());
        bytes
    }

    fn file(pages: usize, more: &[(u16, u16, u32, u32)], filler: usize) -> Vec<u8> {
        let mut file = b"II*\0".to_vec();
        file.extend(u32::try_from(8 + filler).unwrap().to_le_bytes());
        file.resize(8 + filler, b'x');
        for number in 0..pages {
            let at = file.len();
            file.extend(page(at, more, number + 1 == pages));
        }
        file
    }

    fn refusal(file: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let (source, pack) = (folder.path().join("a.tif"), folder.path().join("a.pat.iac"));
        std::fs::write(&source, file).unwrap();
        let importer = WsiImporter::new("s")
            .native_mpp(Mpp::both(0.5))
            .profile(WsiProfile::Lossless)
            .effort(1)
            .options(WriteOptions::new().sync(false));
        let result = importer.import(&source, &pack, &NoProgress);
        assert_eq!(pack.exists(), result.is_ok());
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn more_associated_images_than_slides_have_are_refused() {
        assert_eq!(refusal(&file(5, &[], 8)), "");
        let error = refusal(&file(1000, &[], 8));
        assert!(error.contains("pages 1 to 257 have 257 associated images"), "{error}");
    }

    #[test]
    fn pages_that_share_a_profile_do_not_multiply_it() {
        let profile = (34_675, 7, 2 << 20, 8);
        let error = refusal(&file(200, &[profile], 2 << 20));
        assert!(error.contains("bytes of descriptions, profiles and lists"), "{error}");
    }
}
