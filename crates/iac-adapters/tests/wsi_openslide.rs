//! Slides that are read by libopenslide: the same pixels as by our own sources. Not run where the library
//! is not installed.
#![cfg(all(feature = "wsi-openslide", feature = "jxl", unix))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::print_stderr
)]

use std::path::{Path, PathBuf};

use iac_adapters::AdapterError;
use iac_adapters::wsi::{
    Mpp, NativeRegion, WsiImporter, WsiPackReader, WsiProfile, WsiReadOptions,
};
use iac_format::ErrorKind;
use iac_ops::NoProgress;
use iac_writer::WriteOptions;

fn input(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi/inputs").join(name)
}

fn importer() -> WsiImporter {
    WsiImporter::new("s")
        .profile(WsiProfile::Lossless)
        .effort(1)
        .tile_size(96, 64)
        .options(WriteOptions::new().sync(false).overwrite(true))
}

fn import(importer: &WsiImporter, source: &Path) -> Result<WsiPackReader, AdapterError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pat.iac");
    importer.import(source, &path, &NoProgress)?;
    Ok(WsiPackReader::open(&path).unwrap())
}

fn pixels(reader: &WsiPackReader) -> Vec<u8> {
    let info = reader.info();
    let region = NativeRegion { x: 0, y: 0, width: info.width as u32, height: info.height as u32 };
    reader.read_native(&region, &WsiReadOptions::new()).unwrap().pixels
}

/// Whether the library is there.
fn is_installed() -> bool {
    match import(&importer().openslide(true), &input("tiff_deflate.tif")) {
        Err(error) if error.to_string().contains("is not installed") => {
            eprintln!("not run: {error}");
            false
        }
        result => {
            result.unwrap();
            true
        }
    }
}

#[test]
fn slides_have_the_pixels_and_the_resolution_that_our_own_sources_read() {
    if !is_installed() {
        return;
    }
    for name in ["tiff_deflate.tif", "tiff_pyramid.tif", "tiff_lzw.tif", "svs_jpeg_rgb_tables.svs"]
    {
        let importer = importer().native_mpp(Mpp { x: 0.5, y: 0.25 });
        let ours = import(&importer, &input(name)).unwrap();
        let theirs = import(&importer.openslide(true), &input(name)).unwrap();
        assert_eq!(pixels(&ours), pixels(&theirs), "{name}");
        assert_eq!(theirs.reader().header().get("import_backend").unwrap(), "OpenSlide");
    }
    let slide = import(&importer().openslide(true), &input("svs_jpeg_ycbcr_tables.svs")).unwrap();
    assert_eq!(slide.info().mpp, Mpp::both(0.499));
    let names: Vec<_> = slide.associated_images().into_iter().map(|image| image.name).collect();
    assert_eq!(names, ["thumbnail"]);
    let metadata = slide.scanner_metadata().unwrap();
    assert_eq!(metadata["source_info"]["openslide.vendor"], "aperio");
}

#[test]
fn what_is_no_slide_is_refused_with_a_reason() {
    if !is_installed() {
        return;
    }
    for name in ["not_image.czi", "image_rgba.png"] {
        let error = import(&importer().openslide(true), &input(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("OpenSlide knows"), "{error}");
    }
    // A file that is cut is refused when it is opened, or when the first tile is read.
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(input("svs_jpeg_rgb_tables.svs")).unwrap();
    let path = folder.path().join("cut.svs");
    for cut in [100, 5000, whole.len() - 200] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = import(&importer().openslide(true), &path).unwrap_err();
        assert!(error.to_string().contains("cut.svs"), "{error}");
    }
    let error = import(
        &importer().openslide(true).profile(WsiProfile::Passthrough),
        &input("tiff_deflate.tif"),
    );
    assert!(error.unwrap_err().to_string().contains("cannot be passed through"));
}
