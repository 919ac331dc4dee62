//! Slides that the reference packages made, and altered ones.
#![cfg(feature = "wsi")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_adapters::AdapterError;
use iac_adapters::validate::{ValidateOptions, validate_reader};
use iac_adapters::wsi::{
    Mpp, NativeRegion, OnDamage, OverviewUse, RasterCodec, Region, RegionImage, Resolution,
    WsiOpenOptions, WsiPackReader, WsiReadOptions,
};
use iac_codec::{Codec, CodecSpec, Limits, Registry, compiled_codecs};
use iac_format::ErrorKind;
use iac_reader::{PackReader, ReadOptions};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi")
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data().join(name)).unwrap()).unwrap()
}

/// The files of an archive.
fn files(name: &str) -> BTreeMap<String, Vec<u8>> {
    let zstd = Registry::global().create(&CodecSpec::new("zstd", Default::default())).unwrap();
    let frame = std::fs::read(data().join(format!("{name}.zst"))).unwrap();
    let all = zstd.decode_bytes(&frame, &Limits::default()).unwrap();
    let mut rest = all.as_slice();
    let mut files = BTreeMap::new();
    for entry in json(&format!("{name}.json")).as_array().unwrap() {
        let length = usize::try_from(entry[1].as_u64().unwrap()).unwrap();
        let (file, behind) = rest.split_at(length);
        files.insert(entry[0].as_str().unwrap().to_owned(), file.to_vec());
        rest = behind;
    }
    files
}

fn open_with(bytes: &[u8], options: &WsiOpenOptions) -> Result<WsiPackReader, AdapterError> {
    WsiPackReader::from_reader(PackReader::from_bytes(bytes.to_vec())?, options)
}

fn open(bytes: &[u8]) -> Result<WsiPackReader, AdapterError> {
    open_with(bytes, &WsiOpenOptions::default())
}

/// Whether this build decodes the tiles of a pack as the reference does.
fn decodes(reader: &WsiPackReader) -> bool {
    let codecs = compiled_codecs();
    codecs.contains(&reader.info().codec.name())
        && (reader.info().codec.name() != "jpeg" || has_turbo())
}

/// Whether JPEG is decoded by libjpeg-turbo, whose arithmetic the hashes have.
fn has_turbo() -> bool {
    let codec = Registry::global().create(&CodecSpec::new("jpeg", Default::default()));
    codec.is_ok_and(|codec: Codec| {
        codec.image_capabilities().is_ok_and(|it| !it.sample_types.is_empty())
    })
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn native(entry: &Value) -> NativeRegion {
    NativeRegion {
        x: entry["x"].as_i64().unwrap(),
        y: entry["y"].as_i64().unwrap(),
        width: entry["width"].as_u64().unwrap().try_into().unwrap(),
        height: entry["height"].as_u64().unwrap().try_into().unwrap(),
    }
}

fn region(entry: &Value) -> Region {
    let number = |value: &Value| value.as_f64().unwrap();
    let mpp = match &entry["mpp"] {
        Value::Array(pair) => Mpp { x: number(&pair[0]), y: number(&pair[1]) },
        both => Mpp::both(number(both)),
    };
    Region {
        x_um: number(&entry["x_um"]),
        y_um: number(&entry["y_um"]),
        width: entry["width"].as_u64().unwrap().try_into().unwrap(),
        height: entry["height"].as_u64().unwrap().try_into().unwrap(),
        mpp,
    }
}

fn whole(reader: &WsiPackReader) -> NativeRegion {
    let info = reader.info();
    let side = |pixels: u64| u32::try_from(pixels).unwrap();
    NativeRegion { x: 0, y: 0, width: side(info.width), height: side(info.height) }
}

fn variants() -> Vec<WsiReadOptions> {
    let two = NonZeroUsize::new(2).unwrap();
    vec![
        WsiReadOptions::new(),
        WsiReadOptions::new().workers(two),
        // So little memory that regions are made in stripes and bands of one row of tiles.
        WsiReadOptions::new().memory(1).workers(two),
    ]
}

fn check_regions(reader: &WsiPackReader, name: &str, case: &Value) {
    for options in variants() {
        let options = options.raw_components(true);
        for entry in case["native_regions"].as_array().unwrap() {
            let image = reader.read_native(&native(entry), &options).unwrap();
            assert_eq!(sum(&image.pixels), entry["sha256"], "{name} {entry}");
        }
        for entry in case["regions"].as_array().unwrap() {
            let image = reader.read_region(&region(entry), &options).unwrap();
            assert_eq!(sum(&image.pixels), entry["sha256"], "{name} {entry} {options:?}");
        }
    }
}

#[test]
fn every_region_of_every_golden_pack_has_the_bytes_of_the_reference() {
    let packs = files("packs");
    let expected = json("expected.json");
    let mut checked = 0;
    for (name, case) in expected.as_object().unwrap() {
        let reader = open(&packs[name]).unwrap();
        if !decodes(&reader) {
            continue;
        }
        if case["pixel_exact"].as_bool().unwrap() {
            check_regions(&reader, name, case);
            checked += 1;
            continue;
        }
        let Some(wanted) = packs.get(&format!("{name}.native")) else {
            check_regions(&reader, name, case);
            continue;
        };
        let options = WsiReadOptions::new().raw_components(true);
        let found = reader.read_native(&whole(&reader), &options).unwrap().pixels;
        let worst = found.iter().zip(wanted).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
        assert_eq!(found.len(), wanted.len());
        // libjpeg-turbo and OpenJPEG are the reference's libraries too; libjxl may differ by a bit.
        assert!(worst <= 2, "{name}: differs by {worst}");
        if worst == 0 {
            check_regions(&reader, name, case);
        }
        checked += 1;
    }
    if compiled_codecs().contains(&"jxl") {
        assert!(checked > 15, "{checked}");
    }
}

#[test]
fn descriptions_metadata_profiles_and_associated_images_are_those_of_the_reference() {
    let packs = files("packs");
    let expected = json("expected.json");
    for (name, case) in expected.as_object().unwrap() {
        let reader = open(&packs[name]).unwrap();
        let info = reader.info();
        assert_eq!(case["dimensions"], serde_json::json!([info.width, info.height]), "{name}");
        assert_eq!(case["native_mpp"], serde_json::json!([info.mpp.x, info.mpp.y]), "{name}");
        let (width, height) = info.physical_size();
        assert_eq!(case["physical_dimensions"], serde_json::json!([width, height]), "{name}");
        assert_eq!(case["identity"]["slide_id"], info.slide_id);
        assert_eq!(case["identity"]["patient_id"].as_str(), info.patient_id.as_deref());
        let icc = reader.icc_profile().unwrap().map(|icc| sum(&icc));
        assert_eq!(case["icc_profile"]["sha256"].as_str(), icc.as_deref(), "{name}");
        let metadata = reader.scanner_metadata().unwrap();
        assert!(metadata.contains_key("source_info"), "{name}");
        let images = reader.associated_images();
        assert_eq!(images.len(), case["associated_images"].as_array().unwrap().len());
        for (image, entry) in images.iter().zip(case["associated_images"].as_array().unwrap()) {
            assert_eq!(entry["name"], image.name);
            assert_eq!(entry["width"], image.width);
            assert_eq!(entry["icc_profile"].is_null(), !image.has_icc);
            if compiled_codecs().contains(&"jxl") {
                let pixels = reader.read_associated(&image.name).unwrap().pixels;
                assert_eq!(entry["sha256"], sum(&pixels), "{name} {}", image.name);
            }
            let icc = reader.associated_icc(&image.name).unwrap().map(|icc| sum(&icc));
            assert_eq!(entry["icc_profile"]["sha256"].as_str(), icc.as_deref());
        }
        let missing = reader.read_associated("no such image").unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Usage);
    }
}

#[test]
fn validator_agrees_with_the_reference_on_sound_packs() {
    let packs = files("packs");
    let expected = json("expected.json");
    for (name, case) in expected.as_object().unwrap() {
        let reader = open(&packs[name]).unwrap();
        if !decodes(&reader) || !compiled_codecs().contains(&"jxl") {
            continue;
        }
        let pack = PackReader::from_bytes(packs[name].clone()).unwrap();
        let line =
            validate_reader(&pack, &ValidateOptions::default().max_decode(0)).unwrap().to_string();
        let stated = |field: &str| case["validate"][field].as_u64().unwrap();
        assert_eq!(
            line,
            format!(
                "package_valid type=wsi_image records={} dimensions={}x{} decoded={} crc_checked={}",
                stated("records"),
                stated("width"),
                stated("height"),
                stated("decoded"),
                stated("crc_checked")
            ),
            "{name}"
        );
    }
}

/// Where we refuse more than the reference, as the specification allows or asks.
const STRICTER: [&str; 2] = ["schema_version_true", "mpp_string"];
/// Damage that checksums tell when a record is read; the reference looks at them when validating.
const TOLD_BY_SUMS: [&str; 2] = ["crc_icc_flipped", "crc_raster_flipped"];

#[test]
fn altered_packs_are_refused_with_typed_errors_or_read_as_by_the_reference() {
    let packs = files("invalid");
    let can_decode = compiled_codecs().contains(&"jxl");
    for outcome in json("outcomes.json").as_array().unwrap() {
        let name = outcome["name"].as_str().unwrap();
        let pack = PackReader::from_bytes(packs[name].clone());
        let opened = pack
            .map_err(AdapterError::from)
            .and_then(|pack| WsiPackReader::from_reader(pack, &WsiOpenOptions::default()));
        let should_open = outcome["open"].as_bool().unwrap() && !STRICTER.contains(&name);
        let reader = match opened {
            Ok(reader) => {
                assert!(should_open, "{name} must not open");
                reader
            }
            Err(error) => {
                assert!(!should_open, "{name}: {error}");
                let kinds = [ErrorKind::Schema, ErrorKind::Damaged, ErrorKind::Unsupported];
                assert!(kinds.contains(&error.kind()), "{name}: {:?} {error}", error.kind());
                let text = error.to_string();
                assert!(!text.contains('\n') && !text.ends_with('.'), "{name}: {text}");
                continue;
            }
        };
        assert_eq!(reader.scanner_metadata().is_ok(), outcome["metadata"].as_bool().unwrap());
        if !can_decode {
            continue;
        }
        let read = reader.read_native(&whole(&reader), &WsiReadOptions::new());
        match (read, outcome["read"]["ok"].as_bool().unwrap()) {
            (Ok(image), true) => {
                assert_eq!(sum(&image.pixels), outcome["read"]["sha256"], "{name}")
            }
            (Err(error), false) => {
                assert!(
                    matches!(error.kind(), ErrorKind::Decode | ErrorKind::Checksum),
                    "{name}: {error}"
                );
                // Only what touches the tile fails, and the reader is as good as before.
                let far = NativeRegion { x: -50, y: -50, width: 4, height: 4 };
                reader.read_native(&far, &WsiReadOptions::new()).unwrap();
            }
            (read, expected) => panic!("{name}: expected {expected}, found {read:?}"),
        }
        for (image, is_sound) in outcome["associated"].as_object().unwrap() {
            let read = reader.read_associated(image);
            assert_eq!(read.is_ok(), is_sound.as_bool().unwrap(), "{name} {image}");
        }
        if TOLD_BY_SUMS.contains(&name) && name.contains("icc") {
            assert_eq!(reader.icc_profile().unwrap_err().kind(), ErrorKind::Checksum);
        }
        let pack = PackReader::from_bytes(packs[name].clone()).unwrap();
        let valid = validate_reader(&pack, &ValidateOptions::default());
        assert_eq!(valid.is_ok(), outcome["validate"].as_bool().unwrap(), "{name}: {valid:?}");
    }
}

#[test]
fn damaged_tile_is_filled_and_reported_on_request_and_fails_no_other_call() {
    if !compiled_codecs().contains(&"jxl") {
        return;
    }
    let packs = files("invalid");
    let reader = open(&packs["crc_raster_flipped"]).unwrap();
    let fill = WsiReadOptions::new().on_damage(OnDamage::Fill);
    let image = reader.read_native(&whole(&reader), &fill).unwrap();
    assert_eq!(image.damaged.len(), 1);
    let tile = &image.damaged[0];
    assert_eq!((tile.tile_x, tile.tile_y, tile.row, tile.kind), (0, 0, 0, ErrorKind::Checksum));
    assert_eq!(image.pixels[..3], reader.info().background);
    let sound = open(&packs["schema_version_1_0"]).unwrap();
    let beside = NativeRegion { x: 16, y: 0, width: 16, height: 16 };
    assert_eq!(
        reader.read_native(&beside, &WsiReadOptions::new()).unwrap(),
        sound.read_native(&beside, &WsiReadOptions::new()).unwrap()
    );
    // Without comparison of checksums the codec has the say.
    let unchecked = WsiOpenOptions::new().reading(ReadOptions::default().check_crc(false));
    let pack = PackReader::from_bytes(packs["crc_raster_flipped"].clone()).unwrap();
    let reader = WsiPackReader::from_reader(pack.with_crc(false), &unchecked).unwrap();
    let error = reader.read_native(&whole(&reader), &WsiReadOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Decode, Some(0)));
}

#[test]
fn batch_fails_where_one_of_its_regions_does_and_nowhere_else() {
    if !compiled_codecs().contains(&"jxl") {
        return;
    }
    let reader = open(&files("invalid")["crc_raster_flipped"]).unwrap();
    let info = reader.info();
    let (mut failed, mut fine) = (0, 0);
    for exponent in [0, 1, 3, 5, 20, 61, 62, 65, 107] {
        for (x, y) in [(20.95, 37.6), (0.0, 0.0), (-900.0, 3.0), (17.0, 1.0), (-1e20, 0.0)] {
            let step = 2_f64.powi(exponent);
            let region = |x, y| Region {
                x_um: x * info.mpp.x,
                y_um: y * info.mpp.y,
                width: 8,
                height: 5,
                mpp: Mpp { x: info.mpp.x * step, y: info.mpp.y * step },
            };
            for resolution in [Resolution::Exact, Resolution::Fast] {
                let options = WsiReadOptions::new().resolution(resolution).memory(1 << 16);
                let regions = [region(x, y), region(30.0, 40.0)];
                let alone = regions.iter().all(|it| reader.read_region(it, &options).is_ok());
                let together = reader.read_regions(&regions, &options);
                assert_eq!(alone, together.is_ok(), "({x}, {y}) {step} {together:?}");
                (failed, fine) = (failed + u32::from(!alone), fine + u32::from(alone));
            }
        }
    }
    assert!(failed > 10 && fine > 10, "{failed} {fine}");
}

#[test]
fn odd_places_sizes_and_resolutions_are_background_or_usage_errors() {
    let reader = open(&files("packs")["svs_j2k_33005"]).unwrap();
    let background = reader.info().background;
    let far = |x_um, y_um| Region { x_um, y_um, width: 2, height: 1, mpp: Mpp::both(4.0) };
    for (x, y) in [(1e17, 0.0), (0.0, -1e30), (1e308, 1e308), (-1e308, 0.0)] {
        let image = reader.read_region(&far(x, y), &WsiReadOptions::new()).unwrap();
        assert_eq!(image.pixels, [background, background].concat(), "{x} {y}");
    }
    // So coarse that the slide vanishes in one pixel, for which its tiles are decoded.
    for mpp in [1e200, 1e308, 1e12].into_iter().filter(|_| decodes(&reader)) {
        let region = Region { mpp: Mpp::both(mpp), ..far(0.0, 0.0) };
        let image = reader.read_region(&region, &WsiReadOptions::new()).unwrap();
        assert_eq!(image.pixels, [background, background].concat(), "{mpp}");
    }
    let usage = |region: Region| {
        let error = reader.read_region(&region, &WsiReadOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    };
    usage(far(f64::NAN, 0.0));
    usage(far(0.0, f64::INFINITY));
    usage(Region { width: 0, ..far(0.0, 0.0) });
    usage(Region { width: u32::MAX, height: u32::MAX, ..far(0.0, 0.0) });
    usage(Region { width: 2_000_000_000, ..far(0.0, 0.0) });
    for mpp in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.01] {
        usage(Region { mpp: Mpp::both(mpp), ..far(0.0, 0.0) });
    }
    let edge = NativeRegion { x: i64::MAX, y: i64::MIN, width: 3, height: 2 };
    let image = reader.read_native(&edge, &WsiReadOptions::new()).unwrap();
    assert_eq!(image.pixels, background.repeat(6));
    let zero = NativeRegion { x: 0, y: 0, width: 0, height: 2 };
    let error = reader.read_native(&zero, &WsiReadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn upsampling_needs_leave_and_keeps_native_pixels_at_a_factor_of_one() {
    let packs = files("packs");
    let reader = open(&packs["tiff_deflate_auto_lossless"]).unwrap();
    if !decodes(&reader) {
        return;
    }
    let native = reader.info().mpp;
    let finer = Mpp { x: native.x / 1.05, y: native.y / 1.05 };
    let region = Region { x_um: 0.0, y_um: 0.0, width: 40, height: 30, mpp: finer };
    let error = reader.read_region(&region, &WsiReadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let allowed = WsiReadOptions::new().allow_upsample(1.1);
    let image = reader.read_region(&region, &allowed).unwrap();
    assert_eq!(image.pixels.len(), 40 * 30 * 3);
    let too_fine = Region { mpp: Mpp::both(native.x / 1.2), ..region };
    assert!(reader.read_region(&too_fine, &allowed).is_err());
}

#[test]
fn batch_has_the_pixels_of_its_regions_and_decodes_a_shared_tile_once() {
    let packs = files("packs");
    let expected = json("expected.json");
    for name in ["tiff_deflate_auto_lossless", "png_rgba_override", "svs_jpeg_ycbcr_tables"] {
        let reader = open(&packs[name]).unwrap();
        if !decodes(&reader) {
            continue;
        }
        let mut regions = Vec::new();
        for entry in expected[name]["regions"].as_array().unwrap() {
            let region = region(entry);
            regions.push(Region { width: 17, height: 11, ..region });
        }
        regions.push(regions[0]);
        for options in variants() {
            let batch = reader.read_regions(&regions, &options).unwrap();
            assert_eq!((batch.count, batch.height, batch.width), (regions.len(), 11, 17));
            for (region, pixels) in regions.iter().zip(batch.pixels.chunks(17 * 11 * 3)) {
                let alone = reader.read_region(region, &WsiReadOptions::new()).unwrap();
                assert!(alone.pixels == pixels, "{name} {region:?}");
            }
        }
        let mut other = regions.clone();
        other[1].width = 5;
        let error = reader.read_regions(&other, &WsiReadOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert_eq!(reader.read_regions(&[], &WsiReadOptions::new()).unwrap().count, 0);
    }
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

#[test]
fn fast_regions_of_golden_packs_stay_near_the_exact_ones() {
    let mut wrong = Vec::new();
    let packs = files("packs");
    let expected = json("expected.json");
    for name in expected.as_object().unwrap().keys() {
        let options = WsiOpenOptions::new().overview(OverviewUse::Never);
        let reader = open_with(&packs[name], &options).unwrap();
        if !decodes(&reader) {
            continue;
        }
        let native = reader.info().mpp;
        for factor in [1.0, 2.0, 3.3, 4.0, 8.0, 16.0, 20.5, 32.0] {
            let mpp = Mpp { x: native.x * factor, y: native.y * factor };
            let side = |size: f64, mpp: f64| (size / mpp).ceil().max(1.0) as u32;
            let (width, height) = reader.info().physical_size();
            let region = Region {
                x_um: 0.0,
                y_um: 0.0,
                width: side(width, mpp.x),
                height: side(height, mpp.y),
                mpp,
            };
            let exact = reader.read_region(&region, &WsiReadOptions::new()).unwrap();
            let fast = WsiReadOptions::new().resolution(Resolution::Fast);
            let fast = reader.read_region(&region, &fast).unwrap();
            let (mean, psnr) = distance(&exact, &fast);
            if mean > 1.0 || psnr < 36.0 {
                wrong.push(format!("{name} at {factor}: mean {mean:.2}, {psnr:.1} dB"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Uses a pack in several ways; whatever it holds, that ends soon, in pixels or errors.
fn use_all(bytes: Vec<u8>) {
    let Ok(pack) = PackReader::from_bytes(bytes) else { return };
    let Ok(reader) = WsiPackReader::from_reader(pack, &WsiOpenOptions::new()) else { return };
    let native = reader.info().mpp;
    let fill = WsiReadOptions::new().on_damage(OnDamage::Fill);
    let fast = fill.resolution(Resolution::Fast);
    let region = Region {
        x_um: native.x * -3.0,
        y_um: native.y * 2.5,
        width: 9,
        height: 7,
        mpp: Mpp { x: native.x * 3.7, y: native.y * 4.0 },
    };
    let block = NativeRegion { x: -2, y: 3, width: 20, height: 20 };
    let results = [
        reader.read_native(&block, &fill),
        reader.read_region(&region, &fill),
        reader.read_region(&region, &fast),
    ];
    for image in results.into_iter().flatten() {
        let pixels = u64::from(image.width) * u64::from(image.height);
        assert_eq!(image.pixels.len() as u64, pixels * 3);
    }
    let _ = reader.read_regions(&[region, region], &fill);
    let _ = reader.scanner_metadata();
    let _ = reader.icc_profile();
    for image in reader.associated_images() {
        let _ = reader.read_associated(&image.name);
    }
}

#[test]
fn odd_header_members_end_in_errors_or_pixels() {
    let packs = files("packs");
    let odd = [
        "0",
        "1",
        "-1",
        "3",
        "255",
        "256",
        "65535",
        "4294967296",
        "9007199254740992",
        "9223372036854775807",
        "18446744073709551615",
        "1e308",
        "5e-324",
        "0.5",
        "null",
        "true",
        "\"x\"",
        "[]",
        "{}",
        "[1,2,3]",
        "[[1]]",
    ];
    for name in ["png_rgba_override", "svs_jpeg_rgb_tables"] {
        let pack = &packs[name];
        let reader = PackReader::from_bytes(pack.clone()).unwrap();
        let members = reader.header().members().clone();
        for field in members.keys() {
            for value in odd {
                let mut changed = members.clone();
                changed.insert(field.clone(), serde_json::from_str(value).unwrap());
                let text = serde_json::to_string(&changed).unwrap();
                let mut bytes = iac_format::header_block(&text).unwrap();
                bytes.extend_from_slice(&pack[65_536..]);
                use_all(bytes);
            }
        }
        // Several that belong together, so that more gets past the checks.
        for (width, height) in [(1, 1), (1 << 40, 1), (1 << 53, 1 << 53), (133, 1 << 50)] {
            let mut changed = members.clone();
            let side = |name: &str| members[name].as_u64().unwrap();
            let (across, down) = (
                u64::div_ceil(width, side("tile_width")),
                u64::div_ceil(height, side("tile_height")),
            );
            let stored = side("stored_tile_count");
            let implicit = across.saturating_mul(down).saturating_sub(stored);
            for (name, value) in [
                ("width", width),
                ("height", height),
                ("grid_width", across),
                ("grid_height", down),
                ("implicit_background_tile_count", implicit),
            ] {
                changed.insert(name.to_owned(), value.into());
            }
            let text = serde_json::to_string(&changed).unwrap();
            let mut bytes = iac_format::header_block(&text).unwrap();
            bytes.extend_from_slice(&pack[65_536..]);
            use_all(bytes);
        }
    }
}

#[test]
fn flipped_bytes_end_in_errors_or_pixels() {
    let packs = files("packs");
    let mut state = 7_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for name in ["png_rgba_override", "svs_jpeg_rgb_tables", "svs_j2k_33005"] {
        let pack = &packs[name];
        for _ in 0..400 {
            let mut bytes = pack.clone();
            for _ in 0..=next() % 3 {
                let text = next() % 4 == 0;
                let at = if text {
                    16 + next() % 3000
                } else {
                    65_536 + next() % (bytes.len() - 65_536)
                };
                bytes[at] ^= 1 << (next() % 8);
            }
            use_all(bytes);
        }
    }
}

#[cfg(feature = "wsi-icc")]
#[test]
fn colours_are_converted_by_a_sound_profile_alone() {
    use iac_adapters::wsi::{SrgbTransform, to_srgb};

    let packs = files("packs");
    let reader = open(&packs["svs_jpeg_ycbcr_tables"]).unwrap();
    let profile = reader.icc_profile().unwrap().unwrap();
    let mut pixels = vec![0, 0, 0, 255, 255, 255, 120, 130, 140, 9];
    SrgbTransform::new(&profile).unwrap().apply(&mut pixels);
    // White and black stay, and so does what is no whole pixel.
    assert!(pixels[..3].iter().all(|value| *value <= 3), "{pixels:?}");
    assert!(pixels[3..6].iter().all(|value| *value >= 250), "{pixels:?}");
    assert_eq!(pixels[9], 9);
    assert!(to_srgb(&reader, &mut pixels).unwrap());
    assert!(!to_srgb(&open(&packs["png_rgba_override"]).unwrap(), &mut pixels).unwrap());
    for length in [0, 19, 20, 100, profile.len() / 2] {
        assert!(SrgbTransform::new(&profile[..length]).is_err(), "{length}");
    }
    let mut damaged = profile.to_vec();
    for at in (128..damaged.len()).step_by(5) {
        damaged[at] ^= 0x81;
        if let Ok(transform) = SrgbTransform::new(&damaged) {
            transform.apply(&mut pixels);
        }
    }
}

#[test]
fn components_of_compression_33003_are_converted_unless_asked_for_as_stored() {
    let reader = open(&files("packs")["svs_j2k_33003"]).unwrap();
    if !decodes(&reader) {
        return;
    }
    let RasterCodec::Jpeg2000 { source_compression, .. } = &reader.info().codec else { panic!() };
    assert_eq!(source_compression, "APERIO_JP2000_YCBC");
    let raw = WsiReadOptions::new().raw_components(true);
    let raw = reader.read_native(&whole(&reader), &raw).unwrap();
    let converted = reader.read_native(&whole(&reader), &WsiReadOptions::new()).unwrap();
    assert!(raw.pixels != converted.pixels);
}
