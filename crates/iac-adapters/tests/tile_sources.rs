//! Image files of every kind as tiles, and by which rules their colours are stored.
#![cfg(all(feature = "tiles", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod common;

use std::fs;
use std::path::Path;

use common::{close, data, json_file, write_png};
use iac_adapters::manifest::write_manifest;
use iac_adapters::tiles::{
    Alpha, JpegSources, TileColor, TilePackBuilder, TilePackReader, WideSamples,
};
use iac_adapters::{AdapterError, TileRecord};
use iac_codec::{ImageShape, ImageView, SampleType};
use iac_format::ErrorKind;
use iac_ops::NoProgress;

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

/// The files, and what the reference makes of them, come from `make.py` in their folder.
#[test]
fn files_that_the_reference_takes_become_the_same_pixels() {
    let expected = json_file("tile_sources/expected.json");
    let files = expected["files"].as_object().unwrap();
    assert!(files.len() >= 30, "{}", files.len());
    let mut others = Vec::new();
    for (name, told) in files {
        let image = data(&format!("tile_sources/{name}"));
        let builder = TilePackBuilder::new().wide_samples(WideSamples::Clip);
        let found = one_tile(&image, builder).and_then(|pack| pack.read_rgb(0));
        let Some(pixels) = told["rgb"].as_str() else {
            assert!(found.is_err(), "{name}");
            continue;
        };
        let digits: Vec<u8> =
            pixels.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
        let pixels: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let most = told["tolerance"].as_u64().unwrap_or(0) as u8;
        let size = |side: &str| told[side].as_u64().unwrap() as u32;
        match &found {
            Ok(tile) if (tile.width, tile.height) != (size("width"), size("height")) => {
                others.push(format!("{name}: {} x {}", tile.width, tile.height));
            }
            Ok(tile) if !close(&tile.pixels, &pixels, most) => {
                let differences = tile.pixels.iter().zip(&pixels).map(|(a, b)| a.abs_diff(*b));
                others.push(format!("{name}: pixels differ by {}", differences.max().unwrap()));
            }
            Ok(_) => {}
            Err(error) => others.push(format!("{name}: {error}")),
        }
        // Whatever is left of it never stops the process, nor passes for the whole.
        let whole = fs::read(&image).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let cut_image = folder.path().join(name);
        for cut in (0..whole.len()).step_by(whole.len() / 6 + 1) {
            fs::write(&cut_image, &whole[..cut]).unwrap();
            let _ = one_tile(&cut_image, TilePackBuilder::new());
        }
    }
    assert!(others.is_empty(), "{others:#?}");
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
