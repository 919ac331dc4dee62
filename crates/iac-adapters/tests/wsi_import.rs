//! Importing slides: the sources of the golden packs become packs like those, and bad ones are
//! refused with a reason.
//!
//! `IAC_FLIPS=full` alters every byte of the starts of files, and otherwise some.
#![cfg(all(feature = "wsi-import", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    dead_code
)]

#[path = "common/slides.rs"]
mod slides;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_adapters::AdapterError;
use iac_adapters::validate::{ValidateOptions, validate_reader};
use iac_adapters::wsi::{
    DeepZoomOptions, Mpp, NativeRegion, Region, Resolution, WsiImportSummary, WsiImporter,
    WsiPackReader, WsiProfile, WsiReadOptions,
};
use iac_codec::jxl::reconstruct_jpeg;
use iac_codec::{CodecSpec, DecodeOptions, Limits, Registry, compiled_codecs};
use iac_format::ErrorKind;
use iac_ops::{Cancel, NoProgress};
use iac_reader::PackReader;
use iac_writer::WriteOptions;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use slides::tiff;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi")
}

fn input(name: &str) -> PathBuf {
    data().join("inputs").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data().join(name)).unwrap()).unwrap()
}

/// The golden packs.
fn packs() -> BTreeMap<String, Vec<u8>> {
    let zstd = Registry::global().create(&CodecSpec::new("zstd", Default::default())).unwrap();
    let frame = std::fs::read(data().join("packs.zst")).unwrap();
    let all = zstd.decode_bytes(&frame, &Limits::default()).unwrap();
    let mut rest = all.as_slice();
    let mut files = BTreeMap::new();
    for entry in json("packs.json").as_array().unwrap() {
        let length = usize::try_from(entry[1].as_u64().unwrap()).unwrap();
        let (file, behind) = rest.split_at(length);
        files.insert(entry[0].as_str().unwrap().to_owned(), file.to_vec());
        rest = behind;
    }
    files
}

fn importer(slide_id: &str) -> WsiImporter {
    WsiImporter::new(slide_id).options(WriteOptions::new().sync(false))
}

/// An importer with the arguments of a golden build.
fn golden_importer(build: &Value) -> WsiImporter {
    let text = |name: &str| build[name].as_str().unwrap_or_default();
    let mut made = importer(text("slide_id"))
        .lossless_associated(true)
        .patient_id(text("patient_id"))
        .specimen_id(text("specimen_id"));
    if let Some(effort) = build["effort"].as_u64() {
        made = made.effort(effort as u8);
    }
    let pair = |value: &Value| match value {
        Value::Array(pair) => Some((pair[0].clone(), pair[1].clone())),
        Value::Null => None,
        both => Some((both.clone(), both.clone())),
    };
    if let Some((x, y)) = pair(&build["tile_size"]) {
        made = made.tile_size(x.as_u64().unwrap() as u32, y.as_u64().unwrap() as u32);
    }
    if let Some((x, y)) = pair(&build["native_mpp"]) {
        made = made.native_mpp(Mpp { x: x.as_f64().unwrap(), y: y.as_f64().unwrap() });
    }
    if build["lossless"] == true {
        made = made.profile(WsiProfile::Lossless);
    } else if let Some(distance) = build["distance"].as_f64() {
        made = made.profile(WsiProfile::Distance(distance));
    }
    made
}

/// Whether every byte that can be altered is.
fn all_places() -> bool {
    std::env::var_os("IAC_FLIPS").is_some_and(|size| size == "full")
}

fn import(
    importer: &WsiImporter,
    source: &Path,
) -> Result<(WsiImportSummary, Vec<u8>), AdapterError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pat.iac");
    let result = importer.import(source, &path, &NoProgress);
    if result.is_err() {
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    Ok((result?, std::fs::read(&path).unwrap()))
}

fn open(bytes: &[u8]) -> WsiPackReader {
    WsiPackReader::from_reader(PackReader::from_bytes(bytes.to_vec()).unwrap(), &Default::default())
        .unwrap()
}

fn pixels(reader: &WsiPackReader) -> Vec<u8> {
    let info = reader.info();
    let region = NativeRegion { x: 0, y: 0, width: info.width as u32, height: info.height as u32 };
    reader.read_native(&region, &WsiReadOptions::new()).unwrap().pixels
}

fn is_valid(bytes: &[u8]) {
    let pack = PackReader::from_bytes(bytes.to_vec()).unwrap();
    validate_reader(&pack, &ValidateOptions::default()).unwrap();
}

/// Members that are allowed to differ from the reference's.
fn comparable(header: &Map<String, Value>) -> Map<String, Value> {
    let mut members = header.clone();
    for name in [
        "created_by",
        "extensions",
        "checksums",
        "data_length",
        "data_offset",
        "index_table_length",
        "index_table_offset",
        "slide_table_length",
        "slide_table_offset",
    ] {
        members.remove(name);
    }
    if let Some(Value::Object(selection)) = members.get_mut("raster_profile_selection") {
        // Digits of metrics depend on the encoder, and hopeless candidates are not tried.
        selection.remove("candidate_metrics");
        selection.remove("jxl_candidate_metrics");
    }
    members
}

/// Cases whose outcome is meant to be another one, and are tested by themselves.
const DIFFERENT: [&str; 2] = ["svs_j2k_33003", "tiff_planar_lossless"];

#[test]
fn golden_sources_become_packs_like_the_golden_ones() {
    let packs = packs();
    let mut checked = 0;
    for case in json("imports.json").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        if DIFFERENT.contains(&name) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut source = input(case["input"].as_str().unwrap());
        if let Some(zeros) = case["build"]["append_zero_bytes_to_input_first"].as_u64() {
            let mut bytes = std::fs::read(&source).unwrap();
            bytes.resize(bytes.len() + zeros as usize, 0);
            source = folder.path().join(case["input"].as_str().unwrap());
            std::fs::write(&source, bytes).unwrap();
        }
        let golden = open(&packs[name]);
        if golden.info().codec.name() == "jpeg2000" && !compiled_codecs().contains(&"jpeg2000") {
            continue;
        }
        let (summary, bytes) = import(&golden_importer(&case["build"]), &source).unwrap();
        is_valid(&bytes);
        let ours = open(&bytes);
        assert_eq!(
            comparable(ours.reader().header().members()),
            comparable(golden.reader().header().members()),
            "{name}"
        );
        assert_eq!(summary.stored_tiles, golden.info().stored_tiles, "{name}");
        assert_eq!(ours.tile_rows(), golden.tile_rows(), "{name}");
        assert_eq!(ours.icc_profile().unwrap(), golden.icc_profile().unwrap(), "{name}");
        let (mine, theirs) = (ours.associated_images(), golden.associated_images());
        let names = |images: &[_]| -> Vec<_> {
            images
                .iter()
                .map(|it: &iac_adapters::wsi::AssociatedImage| {
                    (it.name.clone(), it.width, it.height)
                })
                .collect()
        };
        assert_eq!(names(&mine), names(&theirs), "{name}");
        for image in &mine {
            let read = |reader: &WsiPackReader| reader.read_associated(&image.name).unwrap().pixels;
            assert_eq!(read(&ours), read(&golden), "{name} {}", image.name);
        }
        let mut metadata = ours.scanner_metadata().unwrap();
        let mut theirs = golden.scanner_metadata().unwrap();
        if let Some(Value::Object(info)) = metadata.get_mut("source_info") {
            info.retain(|key, _| !key.starts_with("iac.text."));
        }
        // PNG files are known to lose nothing.
        if theirs["source_format"] == "png" {
            theirs["source_storage"]["lossy"] = false.into();
        }
        assert_eq!(metadata, theirs, "{name}");
        if golden.info().codec.name() == "jxl" {
            let lossless = ours.info().codec == golden.info().codec
                && ours.info().codec.params()["lossless"] == true;
            if lossless {
                assert_eq!(pixels(&ours), pixels(&golden), "{name}");
            }
        } else {
            for y in 0..golden.info().grid_height {
                for x in 0..golden.info().grid_width {
                    let payload = |it: &WsiPackReader| it.tile_payload(x, y).unwrap();
                    assert_eq!(payload(&ours), payload(&golden), "{name} ({x}, {y})");
                    assert_eq!(ours.original_tile(x, y).unwrap(), payload(&golden));
                }
            }
        }
        checked += 1;
    }
    assert!(checked >= 20, "{checked}");
}

#[test]
fn tiles_whose_colours_the_reference_would_show_wrong_are_not_passed_through_unasked() {
    let source = input("svs_j2k_33003.svs");
    let error = import(&importer("s"), &source).unwrap_err();
    assert!(matches!(error, AdapterError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("YCbCr"), "{error}");
    if !compiled_codecs().contains(&"jpeg2000") {
        return;
    }
    let (_, passed) = import(&importer("s").profile(WsiProfile::Passthrough), &source).unwrap();
    let (_, encoded) =
        import(&importer("s").profile(WsiProfile::Lossless).effort(1), &source).unwrap();
    // Both show the colours that are meant.
    assert_eq!(pixels(&open(&passed)), pixels(&open(&encoded)));
    is_valid(&passed);
}

#[test]
fn planes_that_are_kept_apart_are_read() {
    let golden = open(&packs()["tiff_planar_lossless"]);
    let importer = importer("s").tile_size(32, 32).effort(1);
    let (summary, bytes) = import(&importer, &input("tiff_planar.tif")).unwrap();
    // It is known to lose nothing, which the reference does not find out.
    assert_eq!(summary.strategy, "source_matched_v1");
    assert_eq!(pixels(&open(&bytes)), pixels(&golden));
}

#[test]
fn sources_that_cannot_become_packs_are_refused_with_a_reason() {
    for (name, profile, kind, reason) in [
        ("tiff_no_resolution.tif", WsiProfile::Auto, ErrorKind::Usage, "does not state its micro"),
        ("tiff_uint16.tif", WsiProfile::Auto, ErrorKind::Unsupported, "samples of 16 bits"),
        ("tiff_jpeg_strips.tif", WsiProfile::Auto, ErrorKind::Unsupported, "no JPEG XL profile"),
        ("tiff_jpeg_strips.tif", WsiProfile::Passthrough, ErrorKind::Unsupported, "no strips"),
        ("tiff_deflate.tif", WsiProfile::Transcode, ErrorKind::Unsupported, "no JPEG tiles"),
        ("not_tiff.svs", WsiProfile::Auto, ErrorKind::Decode, "is no TIFF file"),
        ("not_image.czi", WsiProfile::Auto, ErrorKind::Unsupported, "OpenSlide"),
    ] {
        let error = import(&importer("s").profile(profile), &input(name)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(reason) && text.contains(name), "{text}");
        assert_eq!(error.kind(), kind, "{text}");
    }
}

#[test]
fn arguments_are_tested_before_anything_is_read() {
    let source = input("tiff_1x1.tif");
    for wrong in [
        importer(""),
        importer("s").effort(0),
        importer("s").effort(11),
        importer("s").tile_size(0, 5),
        importer("s").tile_size(5, 65_536),
        importer("s").profile(WsiProfile::Distance(0.0)),
        importer("s").profile(WsiProfile::Distance(f64::NAN)),
        importer("s").native_mpp(Mpp { x: 1.0, y: 0.0 }),
    ] {
        assert_eq!(import(&wrong, &source).unwrap_err().kind(), ErrorKind::Usage);
    }
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("a.pat.iac");
    std::fs::write(&pack, "old").unwrap();
    let error = importer("s").import(&source, &pack, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    let same = importer("s").options(WriteOptions::new().overwrite(true));
    assert_eq!(same.import(&pack, &pack, &NoProgress).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(std::fs::read(&pack).unwrap(), b"old");
}

#[test]
fn extra_pages_are_named_and_kept() {
    let (summary, bytes) = import(&importer("s").effort(1), &input("tiff_two_pages.tif")).unwrap();
    assert_eq!(summary.associated, ["page_2"]);
    is_valid(&bytes);
    let image = open(&bytes).read_associated("page_2").unwrap();
    assert_eq!((image.width, image.height), (20, 10));
}

#[test]
fn missing_tiles_are_white_and_counted() {
    let (summary, bytes) =
        import(&importer("s").profile(WsiProfile::Passthrough), &input("tiff_empty_tile.tif"))
            .unwrap();
    is_valid(&bytes);
    assert_eq!((summary.stored_tiles, summary.missing_tiles, summary.background_tiles), (3, 1, 1));
    let passed = open(&bytes);
    let (_, bytes) = import(
        &importer("s").profile(WsiProfile::Lossless).effort(1),
        &input("tiff_empty_tile.tif"),
    )
    .unwrap();
    assert_eq!(pixels(&open(&bytes)), pixels(&passed));
}

#[test]
fn grey_slides_become_rgb() {
    let (_, bytes) =
        import(&importer("s").profile(WsiProfile::Lossless), &input("tiff_gray.tif")).unwrap();
    let pixels = pixels(&open(&bytes));
    assert_eq!(pixels.len(), 16 * 20 * 3);
    assert!(pixels.as_chunks::<3>().0.iter().all(|[r, g, b]| r == g && g == b));
    assert!(pixels.iter().any(|level| *level != pixels[0]));
}

#[test]
fn packs_do_not_depend_on_the_number_of_threads() {
    let source = input("tiff_deflate.tif");
    let build = |workers| {
        let workers = NonZeroUsize::new(workers);
        let importer = importer("s").tile_size(128, 100).effort(2).workers(workers).memory(1);
        import(&importer, &source).unwrap().1
    };
    assert_eq!(build(1), build(3));
}

#[test]
fn cut_sources_never_make_a_pack_with_other_pixels() {
    let whole = std::fs::read(input("svs_jpeg_rgb_tables.svs")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for cut in (0..whole.len()).step_by(211) {
        let path = folder.path().join("cut.svs");
        std::fs::write(&path, &whole[..cut]).unwrap();
        match import(&importer("s").profile(WsiProfile::Passthrough), &path) {
            Ok((_, bytes)) => is_valid(&bytes),
            Err(error) => {
                assert!(error.to_string().contains("cut.svs"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

#[test]
fn altered_sources_give_packs_or_errors_but_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = 0;
    for name in ["tiff_planar.tif", "tiff_1x1.tif", "tiff_two_pages.tif", "tiff_gray.tif"] {
        let whole = std::fs::read(input(name)).unwrap();
        let path = folder.path().join(name);
        // The start is the folder of the file's tags, where most bytes matter.
        for at in (0..whole.len().min(500)).filter(|at| all_places() || *at % 4 == at / 4 % 4) {
            let mut bytes = whole.clone();
            bytes[at] = bytes[at].wrapping_add(0x81);
            std::fs::write(&path, bytes).unwrap();
            let limits = Limits::default().with_max_samples(1 << 20);
            let importer = importer("s").profile(WsiProfile::Lossless).effort(1).limits(limits);
            made += u32::from(import(&importer.native_mpp(Mpp::both(1.0)), &path).is_ok());
        }
    }
    assert!(made > 25, "{made}");
}

#[test]
fn labels_and_texts_can_be_left_out() {
    let importer = importer("s").drop_associated(["label", "macro"]).scrub_metadata(true);
    let (summary, bytes) = import(&importer, &input("svs_jpeg_ycbcr_tables.svs")).unwrap();
    assert_eq!(summary.associated, ["thumbnail"]);
    let metadata = open(&bytes).scanner_metadata().unwrap();
    assert_eq!(metadata["source_info"], Value::Object(Map::new()));
    assert_eq!(metadata["iac.privacy"]["metadata_scrubbed"], true);
    assert!(!metadata.iter().any(|(_, value)| value.to_string().contains("SS700")));
    is_valid(&bytes);
}

#[test]
fn transcoded_tiles_show_the_same_pixels_and_come_back_to_the_byte() {
    for name in ["svs_jpeg_ycbcr_tables.svs", "svs_jpeg_rgb_tables.svs", "tiff_jpeg_no_tables.tif"]
    {
        let build =
            |profile| import(&importer("s").profile(profile).effort(3), &input(name)).unwrap();
        let (_, passed) = build(WsiProfile::Passthrough);
        let (summary, transcoded) = build(WsiProfile::Transcode);
        is_valid(&transcoded);
        assert_eq!((summary.codec, summary.kept_tiles), ("jxl", 0), "{name}");
        let (passed, transcoded) = (open(&passed), open(&transcoded));
        assert_eq!(pixels(&transcoded), pixels(&passed), "{name}");
        let info = passed.info();
        let (mut before, mut after) = (0, 0);
        for y in 0..info.grid_height {
            for x in 0..info.grid_width {
                let original = passed.tile_payload(x, y).unwrap().unwrap();
                assert_eq!(transcoded.original_tile(x, y).unwrap().unwrap(), original, "{name}");
                before += original.len();
                after += transcoded.tile_payload(x, y).unwrap().unwrap().len();
            }
        }
        println!("{name}: {before} bytes of tiles became {after}");
    }
}

#[test]
fn imports_that_are_stopped_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cancel = Cancel::new();
    cancel.cancel();
    let pack = folder.path().join("a.pat.iac");
    let error = importer("s").import(input("tiff_deflate.tif"), &pack, &cancel).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn labels_are_dropped_whatever_they_are_called() {
    // The second page is called a thumbnail, and says that it is a label.
    let build = |made: WsiImporter| import(&made.effort(1), &input("invalid_base.svs")).unwrap().0;
    assert_eq!(build(importer("s")).associated, ["thumbnail"]);
    assert!(build(importer("s").drop_associated(["label"])).associated.is_empty());
}

/// Files of the corpus that are refused, and why.
const REFUSED: [(&str, &str); 16] = [
    ("histolab_broken.svs", "is no TIFF file"),
    ("imagecodecs_gray.bigendian.u2.tif", "16 bits"),
    ("imagecodecs_gray.tiled.u2.tif", "16 bits"),
    ("imagetiff_tiled-gray-i1.tif", "1 bits"),
    ("imagetiff_ycbcr-cat.tif", "photometric interpretation 6"),
    ("imagetiff_zackthecat.tif", "OJPEG"),
    ("largeimage_zero_gi.tif", "ImageLength is 0"),
    ("openslide_unopenable.tiff", "compressed by 52479"),
    ("pillow_crash-0e16d3bfb83be87356d026d66919deaefca44dac.tif", "the strip 0 lies at bytes"),
    ("pillow_crash-86214e58da443d2b80820cff9677a38a33dcbbca.tif", "ICCProfile lies at bytes"),
    ("pillow_multipage_single_frame_loop.tiff", "comes back to the one at byte 28"),
    ("pillow_seek_too_large.tif", "directory 0 lies at bytes"),
    ("pillow_tiff_strip_cmyk_jpeg.tif", "photometric interpretation 5"),
    ("pillow_tiff_tiled_planar_16bit_RGB.tiff", "16 bits"),
    ("README.md", ""),
    ("expected.json", ""),
];

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Pixels of a page as another decoder has them, turned into RGB where they are planes or grey.
fn same_pixels(name: &str, pixels: &[u8], page: &Value) -> bool {
    let wanted = page["pixels"]["sha256"].as_str().unwrap_or_default();
    let shape: Vec<u64> =
        page["pixels"]["shape"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
    let (rgb, _) = pixels.as_chunks::<3>();
    let found = match shape.as_slice() {
        [_, _] => rgb.iter().map(|[grey, ..]| *grey).collect(),
        [3, ..] => (0..3).flat_map(|plane| rgb.iter().map(move |it| it[plane])).collect(),
        [.., 3] => pixels.to_vec(),
        // Transparency is put on white here.
        other => panic!("{name}: {other:?}"),
    };
    sum(&found) == wanted
}

#[test]
fn slides_of_the_corpus_have_the_pixels_of_another_decoder_or_are_refused_with_a_reason() {
    let Some(corpus) = std::env::var_os("IAC_CORPUS").map(PathBuf::from) else {
        eprintln!("not run: IAC_CORPUS is not set");
        return;
    };
    let folder = corpus.join("tiff");
    let expected = std::fs::read(folder.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let (mut same, mut other) = (0, Vec::new());
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let made = importer("s").profile(WsiProfile::Lossless).effort(1).native_mpp(Mpp::both(0.5));
        let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
        match (import(&made, &path), refused) {
            (Err(error), Some((_, reason))) => {
                assert!(error.to_string().contains(reason), "{error}");
            }
            (Ok((_, bytes)), None) => {
                let page = &expected[&name]["pages"][0];
                // Some files have no pixels that were worth writing down, or transparency.
                let lacks = page["pixels"]["sha256"].is_null() || page["samples"] == 4;
                if lacks || same_pixels(&name, &pixels(&open(&bytes)), page) {
                    same += 1;
                } else {
                    other.push(name);
                }
            }
            (Ok(_), Some(_)) => panic!("{name} was read"),
            (Err(error), None) => panic!("{error}"),
        }
    }
    assert!(same >= 18, "{same}");
    assert!(other.is_empty(), "{other:?}");
}

/// A PNG file with a picture that changes slowly.
fn picture(path: &Path, width: u32, height: u32) {
    let mut encoder = png::Encoder::new(std::fs::File::create(path).unwrap(), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().unwrap();
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            // Some tiles are background.
            let is_empty = x / 64 % 5 == 2;
            let color = [(x / 9 % 200) as u8, (y * 3 % 250) as u8, ((x + y) / 5 % 256) as u8];
            pixels.extend(if is_empty { [250, 249, 251] } else { color });
        }
    }
    writer.write_image_data(&pixels).unwrap();
}

#[test]
fn overviews_inside_of_packs_are_the_averages_of_their_slides() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("wide.png");
    picture(&source, 32_790, 75);
    let made = importer("s")
        .tile_size(64, 64)
        .effort(1)
        .native_mpp(Mpp::both(0.25))
        .workers(NonZeroUsize::new(2));
    let (_, with) = import(&made, &source).unwrap();
    let (_, without) = import(&made.clone().overview(false), &source).unwrap();
    is_valid(&with);
    let (with, without) = (open(&with), open(&without));
    assert_eq!(with.overview_levels(), [3, 6]);
    assert!(without.overview_levels().is_empty());
    assert_eq!(with.info(), without.info());
    for scale in [8.0, 64.0] {
        let region = Region {
            x_um: 0.0,
            y_um: 0.0,
            width: (32_790.0_f64 / scale).ceil() as u32,
            height: (75.0_f64 / scale).ceil() as u32,
            mpp: Mpp::both(0.25 * scale),
        };
        let fast = WsiReadOptions::new().resolution(Resolution::Fast);
        let fast = with.read_region(&region, &fast).unwrap().pixels;
        let exact = without.read_region(&region, &WsiReadOptions::new()).unwrap().pixels;
        let most = fast.iter().zip(&exact).map(|(a, b)| a.abs_diff(*b)).max();
        // Averages of averages are rounded twice.
        assert!(most <= Some(1), "{scale}: {most:?}");
    }
}

#[test]
fn associated_jpeg_images_stay_jpeg_in_their_new_form() {
    let source = input("svs_jpeg_ycbcr_tables.svs");
    let (_, small) = import(&importer("s"), &source).unwrap();
    let (_, exact) = import(&importer("s").lossless_associated(true), &source).unwrap();
    is_valid(&small);
    let (small, exact) = (open(&small), open(&exact));
    for image in small.associated_images() {
        let read = |reader: &WsiPackReader| reader.read_associated(&image.name).unwrap().pixels;
        let (ours, theirs) = (read(&small), read(&exact));
        let sum: u64 = ours.iter().zip(&theirs).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
        if image.name == "label" {
            assert_eq!(sum, 0);
            continue;
        }
        // The strips are one file again, in which colours flow over their edges.
        assert!(sum > 0 && sum < 3 * ours.len() as u64, "{} {sum}", image.name);
        let bytes = |reader: &WsiPackReader, row| reader.reader().read(row).unwrap();
        let payload = bytes(&small, image.row);
        let file = reconstruct_jpeg(&payload, &Limits::default()).unwrap().unwrap();
        assert!(file.starts_with(&[0xFF, 0xD8]));
    }
}

#[test]
fn descriptions_of_other_makers_tell_resolution_and_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.tif");
    let build = |made: WsiImporter, pages: &[(&str, u32, u32, u32)]| {
        std::fs::write(&path, tiff(pages)).unwrap();
        import(&made.effort(1), &path).map(|it| it.0)
    };
    let ome = "<OME xmlns=\"x\"><Image ID=\"0\" Name=\"slide\"><Pixels PhysicalSizeX=\"0.25\" \
               PhysicalSizeY=\"250\" PhysicalSizeYUnit=\"nm\"></Pixels></Image>\
               <Image ID=\"1\" Name=\"Label\"></Image></OME>";
    let summary = build(importer("s"), &[(ome, 96, 64, 32), ("", 20, 30, 0)]).unwrap();
    assert_eq!(summary.mpp, Mpp::both(0.25));
    assert_eq!(summary.associated, ["label"]);
    let kind =
        |name: &str| format!("<PerkinElmer-QPI><ImageType>{name}</ImageType></PerkinElmer-QPI>");
    let (full, half, label) = (kind("FullResolution"), kind("ReducedResolution"), kind("Label"));
    let pages =
        [(full.as_str(), 96, 64, 32), (half.as_str(), 48, 32, 32), (label.as_str(), 9, 7, 0)];
    let summary = build(importer("s").native_mpp(Mpp::both(0.5)), &pages).unwrap();
    assert_eq!(summary.associated, ["label"]);
    assert_eq!((summary.width, summary.height), (96, 64));
    let scn = "<scn xmlns=\"http://www.leica-microsystems.com/scn/2010/10/01\">";
    let error = build(importer("s"), &[(scn, 8, 8, 0)]).unwrap_err();
    assert!(error.to_string().contains("states no size of the slide"), "{error}");
    // A further page as large as the first is no level, and here small enough to be kept.
    let summary =
        build(importer("s").native_mpp(Mpp::both(0.5)), &[("", 40, 40, 0), ("", 40, 40, 0)]);
    assert_eq!(summary.unwrap().associated, ["page_2"]);
}

#[test]
fn resolutions_that_no_scanner_has_must_be_given() {
    let mut bytes = tiff(&[("Aperio x|MPP = 352.8", 40, 40, 0)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.svs");
    std::fs::write(&path, &bytes).unwrap();
    let error = import(&importer("s"), &path).unwrap_err();
    assert!(error.to_string().contains("352.8"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Usage);
    import(&importer("s").effort(1).native_mpp(Mpp::both(352.8)), &path).unwrap();
    // The same with the byte order of the entries turned, which makes sizes absurd.
    bytes[0..2].copy_from_slice(b"MM");
    std::fs::write(&path, &bytes).unwrap();
    assert!(import(&importer("s"), &path).is_err());
}

/// The size and pixels of a PNG file of RGB.
fn decoded(path: &Path) -> (usize, usize, Vec<u8>) {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    pixels.truncate(frame.buffer_size());
    (frame.width as usize, frame.height as usize, pixels)
}

#[test]
fn deep_zoom_folders_have_the_native_pixels_and_every_size() {
    let (_, bytes) =
        import(&importer("s").effort(1).tile_size(128, 128), &input("tiff_deflate.tif")).unwrap();
    let slide = open(&bytes);
    let (width, height) = (700_usize, 500_usize);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slide.dzi");
    let mut options = DeepZoomOptions::new();
    options.quality = None;
    options.workers = NonZeroUsize::new(2).unwrap();
    let summary = slide.export_deep_zoom(&path, &options, &NoProgress).unwrap();
    assert_eq!(summary.levels, 11);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("Overlap=\"1\" TileSize=\"254\"><Size Width=\"700\" Height=\"500\"/>"),
        "{text}"
    );
    let native = pixels(&slide);
    for row in 0..2 {
        for column in 0..3 {
            let file = summary.folder.join(format!("10/{column}_{row}.png"));
            let (tile_width, tile_height, tile) = decoded(&file);
            let start = |at: usize| (at * 254).saturating_sub(1);
            let (left, top) = (start(column), start(row));
            assert_eq!(tile_width, ((column + 1) * 254 + 1).min(width) - left);
            assert_eq!(tile_height, ((row + 1) * 254 + 1).min(height) - top);
            for (y, line) in tile.chunks(tile_width * 3).enumerate() {
                let at = ((top + y) * width + left) * 3;
                assert_eq!(line, &native[at..at + line.len()], "{column} {row} {y}");
            }
        }
    }
    let (small_width, small_height, _) = decoded(&summary.folder.join("8/0_0.png"));
    assert_eq!((small_width, small_height), (175, 125));
    assert_eq!(decoded(&summary.folder.join("0/0_0.png")).0, 1);
    // What is there already stays.
    let error = slide.export_deep_zoom(&path, &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(summary.folder.join("0/0_0.png").exists());
    let cancel = Cancel::new();
    cancel.cancel();
    let other = folder.path().join("other.dzi");
    assert!(slide.export_deep_zoom(&other, &options, &cancel).unwrap_err().is_cancelled());
    assert!(!folder.path().join("other_files").exists());
}

#[test]
fn restart_intervals_of_ndpi_files_become_tiles() {
    let source = input("tiff_ndpi_like.tif");
    let (summary, passed) = import(&importer("s"), &source).unwrap();
    is_valid(&passed);
    assert_eq!((summary.codec, summary.stored_tiles), ("jpeg", 4));
    // The whole strip is one JPEG file, small enough here to be decoded at once.
    let bytes = std::fs::read(&source).unwrap();
    let codec = Registry::global().create(&CodecSpec::new("jpeg", Default::default())).unwrap();
    let whole = codec.decode_image(&bytes[848..848 + 4981], &DecodeOptions::default()).unwrap();
    let iac_codec::SamplesRef::U8(whole) = whole.samples() else { panic!() };
    assert_eq!(pixels(&open(&passed)), whole);
    let (_, encoded) =
        import(&importer("s").profile(WsiProfile::Lossless).effort(1), &source).unwrap();
    assert_eq!(pixels(&open(&encoded)), whole);
    let (summary, transcoded) =
        import(&importer("s").profile(WsiProfile::Transcode), &source).unwrap();
    assert_eq!(summary.kept_tiles, 0);
    assert_eq!(pixels(&open(&transcoded)), whole);
    // A list that is wrong, and a stream that is cut into.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ndpi");
    let places = (322..322 + 512).chain(848..1500);
    for at in places.filter(|at| all_places() || *at % 3 == at / 3 % 3) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, bytes).unwrap();
        if let Ok((_, bytes)) = import(&importer("s").profile(WsiProfile::Passthrough), &path) {
            PackReader::from_bytes(bytes).unwrap();
        }
    }
}

#[test]
fn small_files_that_claim_huge_rasters_are_refused() {
    let mut bytes = tiff(&[("", 16, 16, 16)]);
    let mut set = |tag: u16, value: u32| {
        let entry = [&tag.to_le_bytes()[..], &4_u16.to_le_bytes(), &1_u32.to_le_bytes()].concat();
        let at = bytes.windows(8).rposition(|window| window == entry).unwrap() + 8;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    };
    // One tile, for which there is no data.
    for (tag, value) in [(256, 16_384), (257, 16_384), (322, 16_384), (323, 16_384), (324, 0)] {
        set(tag, value);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.tif");
    std::fs::write(&path, bytes).unwrap();
    let made = importer("s").native_mpp(Mpp::both(0.5)).tile_size(1, 1);
    let error = import(&made, &path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}
