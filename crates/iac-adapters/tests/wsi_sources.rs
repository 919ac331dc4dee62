//! Slides of makers whose files are not one raster of tiles: DICOM, Leica, Ventana. All are made up here.
#![cfg(all(feature = "wsi-import", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::print_stderr,
    dead_code
)]

#[path = "common/slides.rs"]
mod slides;

use std::path::{Path, PathBuf};

use iac_adapters::AdapterError;
use iac_adapters::validate::{ValidateOptions, validate_reader};
use iac_adapters::wsi::{
    Mpp, NativeRegion, WsiImportSummary, WsiImporter, WsiPackReader, WsiProfile, WsiReadOptions,
};
use iac_codec::{CodecSpec, DecodeOptions, ImageShape, ImageView, Registry, compiled_codecs};
use iac_format::ErrorKind;
use iac_ops::NoProgress;
use iac_reader::PackReader;
use iac_writer::WriteOptions;
use serde_json::Value;
use slides::{DicomSlide, TiffPage, tiff, tiff_of, tiff_pixels};

fn importer() -> WsiImporter {
    WsiImporter::new("s")
        .profile(WsiProfile::Lossless)
        .effort(1)
        .options(WriteOptions::new().sync(false).overwrite(true))
}

fn import(
    importer: &WsiImporter,
    source: &Path,
) -> Result<(WsiImportSummary, WsiPackReader), AdapterError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pat.iac");
    let summary = importer.import(source, &path, &NoProgress)?;
    let pack = PackReader::from_bytes(std::fs::read(&path).unwrap()).unwrap();
    validate_reader(&pack, &ValidateOptions::default()).unwrap();
    Ok((summary, WsiPackReader::from_reader(pack, &Default::default()).unwrap()))
}

fn message(importer: &WsiImporter, source: &Path) -> (ErrorKind, String) {
    let error = import(importer, source).unwrap_err();
    (error.kind(), error.to_string())
}

fn pixels(reader: &WsiPackReader) -> Vec<u8> {
    let info = reader.info();
    let region = NativeRegion { x: 0, y: 0, width: info.width as u32, height: info.height as u32 };
    reader.read_native(&region, &WsiReadOptions::new()).unwrap().pixels
}

/// Rows of RGB of a raster of tiles of one value each.
fn tiled(
    width: usize,
    height: usize,
    (tile_width, tile_height): (usize, usize),
    values: &[u8],
) -> Vec<u8> {
    let across = width.div_ceil(tile_width);
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            pixels.extend([values[y / tile_height * across + x / tile_width]; 3]);
        }
    }
    pixels
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[cfg(feature = "dicom")]
mod dicom {
    use super::*;

    #[test]
    fn tiles_in_order_make_a_raster_with_resolution_and_profile() {
        let folder = tempfile::tempdir().unwrap();
        let slide = DicomSlide::default();
        let values = [10, 20, 30, 40, 50, 60];
        let path = write(folder.path(), "a.dcm", &slide.native(&values));
        write(folder.path(), "notes.txt", b"no object");
        for source in [path.as_path(), folder.path()] {
            let (summary, reader) = import(&importer().tile_size(7, 9), source).unwrap();
            assert_eq!((summary.width, summary.height), (20, 10));
            assert_eq!(summary.mpp, Mpp { x: 0.25, y: 0.5 });
            assert_eq!(pixels(&reader), tiled(20, 10, (8, 6), &values));
            assert_eq!(reader.icc_profile().unwrap().unwrap(), "profile of 1".as_bytes());
            let metadata = reader.scanner_metadata().unwrap();
            assert_eq!(metadata["source_info"]["dicom.Manufacturer"], "Maker");
            assert!(!Value::Object(metadata).to_string().contains("Nobody"));
        }
        // What lost nothing before loses nothing.
        let (summary, _) = import(&importer().profile(WsiProfile::Auto), &path).unwrap();
        assert_eq!(summary.codec, "jxl");
    }

    #[test]
    fn optical_paths_and_focal_planes_must_be_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let slide = DicomSlide {
            frames: 24,
            optical_paths: &["a", "b"],
            focal_planes: 2,
            ..DicomSlide::default()
        };
        let values: Vec<u8> = (0..24).map(|number| number * 10).collect();
        // Frames 0 to 15 in one file, the others in a second one.
        let (mut one, mut two) = (slide.clone(), slide);
        (one.frames, two.frames) = (16, 8);
        one.concatenation = Some(("1.9", 2, 0));
        two.concatenation = Some(("1.9", 2, 16));
        let path = write(folder.path(), "one.dcm", &one.native(&values[..16]));
        let second = write(folder.path(), "two.dcm", &two.native(&values[16..]));
        let (kind, text) = message(&importer(), &path);
        assert!(text.contains("2 optical paths: choose one of a, b"), "{text}");
        assert_eq!(kind, ErrorKind::Usage);
        let chosen = importer().optical_path("b".to_owned());
        let (_, text) = message(&chosen, &path);
        assert!(text.contains("2 focal planes: choose one"), "{text}");
        for (identifier, plane, first) in [("a", 1, 0), ("a", 2, 6), ("b", 1, 12), ("b", 2, 18)] {
            let made = importer().optical_path(identifier.to_owned()).focal_plane(plane);
            let (_, reader) = import(&made, &second).unwrap();
            assert_eq!(pixels(&reader), tiled(20, 10, (8, 6), &values[first..first + 6]));
            let wanted = format!("profile of {identifier}");
            assert_eq!(reader.icc_profile().unwrap().unwrap(), wanted.as_bytes());
        }
        let (_, text) = message(&chosen.clone().focal_plane(3), &path);
        assert!(text.contains("the focal plane 3 was chosen"), "{text}");
        let (_, text) = message(&importer().optical_path("c".to_owned()), &path);
        assert!(text.contains("the optical path c was chosen"), "{text}");
        // A file of the concatenation that is not there.
        std::fs::remove_file(second).unwrap();
        let (_, text) = message(&chosen.focal_plane(1), &path);
        assert!(text.contains("2 files of a concatenation, of which 1 are here"), "{text}");
    }

    #[test]
    fn sparse_frames_lie_where_they_say_and_missing_ones_are_white() {
        let folder = tempfile::tempdir().unwrap();
        let slide =
            |places| DicomSlide { frames: 4, places: Some(places), ..DicomSlide::default() };
        let places =
            vec![(17, 7, "0", "1"), (1, 1, "0", "1"), (9, 1, "0", "1"), (9, 1, "0.5", "1")];
        let path = write(folder.path(), "a.dcm", &slide(places).native(&[10, 20, 30, 40]));
        let (_, text) = message(&importer(), &path);
        assert!(text.contains("2 focal planes"), "{text}");
        let (summary, reader) = import(&importer().focal_plane(1), &path).unwrap();
        assert_eq!(summary.missing_tiles, 3);
        assert_eq!(pixels(&reader), tiled(20, 10, (8, 6), &[20, 30, 255, 255, 255, 10]));
        let (_, reader) = import(&importer().focal_plane(2), &path).unwrap();
        assert_eq!(pixels(&reader), tiled(20, 10, (8, 6), &[255, 40, 255, 255, 255, 255]));
        for (places, reason) in [
            (
                vec![(1, 1, "0", "1"), (9, 1, "0", "1"), (9, 7, "0", "1"), (10, 7, "0", "1")],
                "not on a grid",
            ),
            (
                vec![(1, 1, "0", "1"), (9, 1, "0", "1"), (9, 1, "0", "1"), (1, 7, "0", "1")],
                "several frames",
            ),
            (
                vec![(1, 1, "0", "1"), (9, 1, "0", "1"), (25, 1, "0", "1"), (1, 7, "0", "1")],
                "not on a grid",
            ),
            (
                vec![(1, 1, "0", "1"), (0, 1, "0", "1"), (9, 1, "0", "1"), (1, 7, "0", "1")],
                "not on a grid",
            ),
            (vec![(1, 1, "0", "1")], "has 1 items, but there are 4 frames"),
        ] {
            write(folder.path(), "a.dcm", &slide(places).native(&[10, 20, 30, 40]));
            let (_, text) = message(&importer(), &path);
            assert!(text.contains(reason), "{text}");
        }
    }

    #[test]
    fn jpeg_frames_are_passed_through_and_transcoded() {
        if !compiled_codecs().contains(&"jpeg") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let shape = ImageShape::new(16, 16, 3).unwrap();
        let codec =
            Registry::global().create_encoder(&CodecSpec::new("jpeg", Default::default())).unwrap();
        let frames: Vec<Vec<u8>> = (0..6_usize)
            .map(|number| {
                let pixels: Vec<u8> =
                    (0..shape.samples()).map(|at| (at / (3 + number) % 256) as u8).collect();
                codec.encode_image(&ImageView::new(shape, &pixels[..]).unwrap()).unwrap()
            })
            .collect();
        let slide = DicomSlide {
            width: 40,
            height: 30,
            tile: (16, 16),
            photometric: "YBR_FULL_422",
            ..DicomSlide::default()
        };
        let file = slide.elements().fragments(&frames).file("1.2.840.10008.1.2.4.50");
        let path = write(folder.path(), "a.dcm", &file);
        let build = |profile| import(&importer().profile(profile), &path).unwrap();
        let (summary, passed) = build(WsiProfile::Passthrough);
        assert_eq!((summary.codec, summary.stored_tiles), ("jpeg", 6));
        let (_, lossless) = build(WsiProfile::Lossless);
        let (summary, transcoded) = build(WsiProfile::Transcode);
        assert_eq!(summary.kept_tiles, 0);
        assert_eq!(pixels(&passed), pixels(&lossless));
        assert_eq!(pixels(&passed), pixels(&transcoded));
        for (number, frame) in (0..).zip(&frames) {
            let (x, y) = (number % 3, number / 3);
            assert_eq!(passed.original_tile(x, y).unwrap().unwrap(), frame, "{number}");
            assert_eq!(transcoded.original_tile(x, y).unwrap().unwrap(), frame, "{number}");
        }
        let decoded = codec.decode_image(&frames[0], &DecodeOptions::default()).unwrap();
        let iac_codec::SamplesRef::U8(decoded) = decoded.samples() else { panic!() };
        assert_eq!(pixels(&passed)[..48], decoded[..48]);
        // A frame of another size than the object says.
        let other = codec.encode_image(
            &ImageView::new(ImageShape::new(8, 8, 3).unwrap(), &[9_u8; 192][..]).unwrap(),
        );
        let frames = [&frames[..5], &[other.unwrap()]].concat();
        let file = slide.elements().fragments(&frames).file("1.2.840.10008.1.2.4.50");
        write(folder.path(), "a.dcm", &file);
        for profile in [WsiProfile::Passthrough, WsiProfile::Lossless, WsiProfile::Transcode] {
            let (_, text) = message(&importer().profile(profile), &path);
            assert!(text.contains("frame 6") && text.contains("a.dcm"), "{text}");
        }
    }

    #[test]
    fn labels_and_smaller_versions_lie_beside_the_raster() {
        let folder = tempfile::tempdir().unwrap();
        let slide = DicomSlide::default();
        let path = write(folder.path(), "b.dcm", &slide.native(&[10, 20, 30, 40, 50, 60]));
        let small = DicomSlide { width: 8, height: 5, frames: 1, ..slide.clone() };
        write(folder.path(), "a.dcm", &small.native(&[77]));
        let label = DicomSlide { flavor: "LABEL", width: 8, height: 6, frames: 1, ..slide.clone() };
        write(folder.path(), "c.dcm", &label.native(&[88]));
        let overview = DicomSlide { flavor: "OVERVIEW", ..label };
        write(folder.path(), "d.dcm", &overview.native(&[99]));
        let (summary, reader) = import(&importer(), folder.path()).unwrap();
        assert_eq!((summary.width, summary.height), (20, 10));
        assert_eq!(summary.associated, ["label", "macro"]);
        assert_eq!(reader.read_associated("label").unwrap().pixels, [88; 8 * 6 * 3]);
        assert_eq!(reader.read_associated("macro").unwrap().pixels, [99; 8 * 6 * 3]);
        let (summary, _) = import(&importer().drop_associated(["label"]), &path).unwrap();
        assert!(summary.associated.is_empty());
        // Another series in the folder: a file says which one is meant, the folder does not.
        let other = DicomSlide { series: "1.2.4", ..slide };
        let other = write(folder.path(), "e.dcm", &other.native(&[1, 2, 3, 4, 5, 6]));
        let (_, reader) = import(&importer(), &other).unwrap();
        assert_eq!(pixels(&reader), tiled(20, 10, (8, 6), &[1, 2, 3, 4, 5, 6]));
        let (_, text) = message(&importer(), folder.path());
        assert!(text.contains("several series"), "{text}");
    }

    #[test]
    fn cut_and_altered_objects_are_refused_or_have_all_pixels() {
        let folder = tempfile::tempdir().unwrap();
        // `IAC_FLIPS=full` takes three times as many places.
        let sparsely =
            if std::env::var_os("IAC_FLIPS").is_some_and(|it| it == "full") { 1 } else { 3 };
        let whole = DicomSlide::default().native(&[10, 20, 30, 40, 50, 60]);
        for cut in (140..whole.len()).step_by(31 * sparsely) {
            let path = write(folder.path(), "a.dcm", &whole[..cut]);
            let (_, text) = message(&importer(), &path);
            assert!(text.contains("a.dcm"), "{text}");
        }
        for at in (132..whole.len().min(1100)).step_by(4 * sparsely - 1) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x11;
            let path = write(folder.path(), "a.dcm", &bytes);
            let _ = import(&importer().overview(false), &path);
        }
    }

    #[test]
    fn slides_of_the_corpus_have_the_pixels_of_another_decoder() {
        let Some(corpus) = std::env::var_os("IAC_CORPUS").map(PathBuf::from) else {
            eprintln!("not run: IAC_CORPUS is not set");
            return;
        };
        use sha2::{Digest, Sha256};
        let folder = tempfile::tempdir().unwrap();
        let expected = std::fs::read(corpus.join("dicom/expected.json")).unwrap();
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        for name in ["highdicom_sm_image.dcm", "highdicom_sm_image_jpegls_nobot.dcm"] {
            if name.contains("jpegls") && !compiled_codecs().contains(&"jpegls") {
                continue;
            }
            // By itself: both are of one series.
            let path = folder.path().join(name);
            std::fs::copy(corpus.join("dicom").join(name), &path).unwrap();
            let (summary, reader) = import(&importer(), &path).unwrap();
            std::fs::remove_file(path).unwrap();
            assert_eq!((summary.width, summary.height, summary.mpp), (50, 50, Mpp::both(0.499)));
            let pixels = pixels(&reader);
            // The decoder gives frame after frame.
            let mut frames = Vec::new();
            for number in 0..25 {
                for row in 0..10 {
                    let at = ((number / 5 * 10 + row) * 50 + number % 5 * 10) * 3;
                    frames.extend_from_slice(&pixels[at..at + 30]);
                }
            }
            let sum: String = Sha256::digest(frames).iter().map(|it| format!("{it:02x}")).collect();
            assert_eq!(sum, expected[name]["pixels_raw"]["sha256"].as_str().unwrap());
            assert_eq!(reader.icc_profile().unwrap().unwrap().len(), 3144);
        }
        for name in ["highdicom_ct_image.dcm", "highdicom_seg_image_sm_dots_tiled_full.dcm"] {
            let (kind, text) = message(&importer(), &corpus.join("dicom").join(name));
            assert!(text.contains("no image of the class VL Whole Slide"), "{text}");
            assert_eq!(kind, ErrorKind::Unsupported);
        }
    }
}

/// Leica's description: images by their place in nanometres and their pages.
fn scn(light: &str, images: &[(u32, u32, u32, u32, &str)]) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\"?><scn xmlns=\"http://www.leica-microsystems.com/scn/2010/10/01\">\
         <collection name=\"x\" sizeX=\"100000\" sizeY=\"80000\"><barcode/>",
    );
    for (x, y, width, height, dimensions) in images {
        text.push_str(&format!(
            "<image name=\"i\" uuid=\"u\"><device model=\"Leica SCN400\" version=\"1\"/>\
             <pixels sizeX=\"1\" sizeY=\"1\">{dimensions}</pixels>\
             <view sizeX=\"{width}\" sizeY=\"{height}\" offsetX=\"{x}\" offsetY=\"{y}\"/>\
             <scanSettings><objectiveSettings><objective>40</objective></objectiveSettings>\
             <illuminationSettings><illuminationSource>{light}</illuminationSource>\
             </illuminationSettings></scanSettings></image>"
        ));
    }
    text + "</collection></scn>"
}

fn dimension(width: u32, height: u32, page: usize) -> String {
    format!("<dimension sizeX=\"{width}\" sizeY=\"{height}\" r=\"0\" ifd=\"{page}\"/>")
}

#[test]
fn areas_of_leica_slides_are_put_where_they_were_scanned() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, one, two) = (dimension(10, 8, 0), dimension(40, 30, 1), dimension(20, 10, 2));
    let smaller = "<dimension sizeX=\"10\" sizeY=\"8\" r=\"1\" ifd=\"3\"/>";
    let one = one + smaller;
    let images = [
        (0, 0, 100_000, 80_000, whole.as_str()),
        (20_000, 10_000, 10_000, 7_500, one.as_str()),
        (40_000, 5_000, 5_000, 2_500, two.as_str()),
    ];
    let pages =
        |text: &str| tiff(&[(text, 10, 8, 0), ("", 40, 30, 16), ("", 20, 10, 16), ("", 10, 8, 16)]);
    let text = scn("brightfield", &images);
    let path = write(folder.path(), "a.scn", &pages(&text));
    let (summary, reader) = import(&importer().tile_size(32, 32), &path).unwrap();
    // 250 nanometres per pixel; from (20000, 5000) on.
    assert_eq!(summary.mpp, Mpp::both(0.25));
    assert_eq!((summary.width, summary.height), (100, 50));
    assert_eq!(summary.associated, ["macro"]);
    let found = pixels(&reader);
    let (one, two) = (tiff_pixels(40, 30, 16), tiff_pixels(20, 10, 16));
    for y in 0..50_usize {
        for x in 0..100_usize {
            let pixel = &found[(y * 100 + x) * 3..][..3];
            let wanted = if x < 40 && (20..50).contains(&y) {
                &one[((y - 20) * 40 + x) * 3..][..3]
            } else if x >= 80 && y < 10 {
                &two[(y * 20 + x - 80) * 3..][..3]
            } else {
                &[255; 3]
            };
            assert_eq!(pixel, wanted, "({x}, {y})");
        }
    }
    let (_, text) = message(&importer().profile(WsiProfile::Passthrough), &path);
    assert!(text.contains("cannot be passed through"), "{text}");
    for (light, images, reason) in [
        ("fluorescence", images.to_vec(), "scanned by fluorescence"),
        (
            "brightfield",
            vec![images[0], images[1], (22_000, 12_000, 5_000, 2_500, images[2].4)],
            "lie over",
        ),
        (
            "brightfield",
            vec![images[0], images[1], (40_000, 5_000, 9_000, 2_500, images[2].4)],
            "nanometres per pixel",
        ),
        ("brightfield", vec![images[0]], "names no scanned area"),
        ("brightfield", vec![images[0], (0, 5, 10_000, 7_500, images[2].4)], ""),
    ] {
        let text = scn(light, &images);
        write(folder.path(), "a.scn", &pages(&text));
        match import(&importer(), &path) {
            Err(error) => assert!(error.to_string().contains(reason), "{error}"),
            Ok((summary, _)) => assert_eq!((reason, summary.width), ("", 20)),
        }
    }
    // One area is the page itself.
    let text = scn("brightfield", &images[..2]);
    write(folder.path(), "a.scn", &pages(&text));
    let (_, reader) = import(&importer(), &path).unwrap();
    assert_eq!(pixels(&reader), one);
    // A page of another size than the description says.
    let wrong = dimension(41, 30, 1);
    let text = scn("brightfield", &[images[0], (20_000, 10_000, 10_250, 7_500, wrong.as_str())]);
    write(folder.path(), "a.scn", &pages(&text));
    let (_, text) = message(&importer(), &path);
    assert!(text.contains("page 1 has 40 x 30 pixels, but the description says 41 x 30"), "{text}");
}

#[test]
fn ventana_slides_are_read_unless_their_tiles_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let scan =
        "<Metadata><iScan ScanRes=\"0.2500\" Magnification=\"40\" Z-layers=\"1\"/></Metadata>";
    let joint = |x: i32| {
        format!(
            "<EncodeInfo Ver=\"2\"><SlideStitchInfo><ImageInfo AOIScanned=\"1\">\
             <TileJointInfo FlagJoined=\"1\" Direction=\"RIGHT\" Tile1=\"1\" Tile2=\"2\" \
             OverlapX=\"{x}\" OverlapY=\"0\"/></ImageInfo></SlideStitchInfo></EncodeInfo>"
        )
    };
    let build = |name: &str, scan: &str, xml: &str| {
        let page = |text, width, height, tile, xml: &str| TiffPage {
            text,
            width,
            height,
            tile,
            tags: if xml.is_empty() { Vec::new() } else { vec![(700, xml.as_bytes().to_vec())] },
        };
        let pages = [
            page("Label Image", 12, 30, 0, scan),
            page("Thumbnail", 10, 8, 0, ""),
            page("level=0 mag=40 quality=95", 50, 40, 16, xml),
            page("level=1 mag=20 quality=95", 25, 20, 16, ""),
        ];
        write(folder.path(), name, &tiff_of(&pages))
    };
    let path = build("a.bif", scan, &joint(0));
    let (summary, reader) = import(&importer(), &path).unwrap();
    assert_eq!((summary.mpp, summary.width, summary.height), (Mpp::both(0.25), 50, 40));
    assert_eq!(summary.associated, ["macro", "thumbnail"]);
    assert_eq!(pixels(&reader), tiff_pixels(50, 40, 16));
    let (summary, _) = import(&importer().drop_associated(["label"]), &path).unwrap();
    assert_eq!(summary.associated, ["thumbnail"]);
    build("a.bif", scan, &joint(24));
    let (kind, text) = message(&importer(), &path);
    assert!(text.contains("tiles 1 and 2 overlap by 24 x 0 pixels"), "{text}");
    assert_eq!(kind, ErrorKind::Unsupported);
    build("a.bif", scan, "");
    let (_, text) = message(&importer(), &path);
    assert!(text.contains("does not say whether its tiles overlap"), "{text}");
    build("a.bif", &scan.replace("Z-layers=\"1\"", "Z-layers=\"3\""), &joint(0));
    let (_, text) = message(&importer(), &path);
    assert!(text.contains("3 focal planes"), "{text}");
    build("a.bif", "", &joint(0));
    let (_, text) = message(&importer(), &path);
    assert!(text.contains("no description of a scan by Ventana"), "{text}");
    // Files that were made from such by other programs are joined.
    let (summary, _) = import(&importer(), &build("a.tif", scan, "")).unwrap();
    assert_eq!(summary.associated, ["macro", "thumbnail"]);
}
