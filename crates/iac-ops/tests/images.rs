//! Packs of images: from files, to files, onto a sheet, to another codec.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation, missing_docs)]

mod common;
#[path = "../../iac-reader/tests/common/image_codec.rs"]
#[allow(dead_code)]
mod image_codec;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use common::tree;
use iac_codec::{
    Codec, CodecSpec, Image, ImageShape, Limits, Parameters, Registry, SampleType, Scale,
    compiled_codecs,
};
use iac_ops::decode::{DecodeOptions, Decoded, DecodedKind, decode};
use iac_ops::digest::{DigestOptions, digest};
use iac_ops::extract::{ExtractFormat, ExtractOptions, extract};
use iac_ops::montage::{MontageOptions, Window, montage};
use iac_ops::pictures::{read_picture, write_png};
use iac_ops::raw::{RawPackOptions, pack_raw};
use iac_ops::recode::{RecodeOptions, recode};
use iac_ops::rows::RowSelection;
use iac_ops::{ErrorKind, NoProgress, OpsError};
use iac_reader::{PackReader, VariableRecordPack};
use image_codec::{Pixels, picture, u8_samples};
use serde_json::json;

fn spec(name: &str) -> CodecSpec {
    // Registered once for all tests of this file; the second time it is taken.
    let _ = Registry::global()
        .register("test.pixels", |_: &Parameters| Ok(Codec::from_image_codec(Pixels)));
    CodecSpec::new(name, Parameters::new())
}

fn shape(height: u32, width: u32, channels: u32) -> ImageShape {
    ImageShape::new(height, width, channels).unwrap()
}

fn npy(image: &Image) -> Vec<u8> {
    record(image).to_npy()
}

/// An image as `decode` gives it.
fn record(image: &Image) -> Decoded {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    fs::write(&file, write_any(image)).unwrap();
    let pack = pack_files(folder.path(), &[file], "test.pixels");
    let mut records = records(&pack, &DecodeOptions::default());
    records.remove(0)
}

/// An image as a `.npy` file, made here.
fn write_any(image: &Image) -> Vec<u8> {
    let descr = match image.sample_type() {
        SampleType::U8 => "|u1",
        SampleType::U16 => "<u2",
        SampleType::I16 => "<i2",
        other => panic!("{other}"),
    };
    let sides = image.shape().dimensions();
    let sides: Vec<String> = sides.iter().map(ToString::to_string).collect();
    let text = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}\n",
        sides.join(", ")
    );
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.as_bytes());
    file.extend_from_slice(&image.samples().to_le_bytes());
    file
}

fn raw_options(codec: &str) -> RawPackOptions {
    let mut options = RawPackOptions::default();
    options.codec = spec(codec);
    options.write = options.write.sync(false).overwrite(true);
    options
}

fn pack_files(folder: &Path, files: &[PathBuf], codec: &str) -> PackReader {
    let out = folder.join("images.iac");
    pack_raw(files, &out, &raw_options(codec), &NoProgress).unwrap();
    PackReader::open(out).unwrap()
}

fn records(pack: &PackReader, options: &DecodeOptions) -> Vec<Decoded> {
    let mut records = Vec::new();
    decode(pack, None, options, &NoProgress, &mut |record| {
        records.push(record);
        Ok(())
    })
    .unwrap();
    records
}

/// A folder with a PNG file, a `.npy` file and a TIFF file, and the images in them.
fn sources(folder: &Path) -> (Vec<PathBuf>, Vec<Image>) {
    let mut files = Vec::new();
    let mut images = Vec::new();
    let mut add = |name: &str, image: Image, bytes: Vec<u8>| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        files.push(path);
        images.push(image);
    };
    let rgb = picture(1, shape(40, 30, 3));
    let png = write_png(&rgb.as_view()).unwrap();
    add("a.png", rgb, png);
    let grey = Image::new(shape(20, 33, 1), (0..660_u16).map(|n| n * 99).collect::<Vec<_>>());
    let grey = grey.unwrap();
    let array = write_any(&grey);
    add("b.npy", grey, array);
    let small = picture(2, shape(7, 9, 1));
    let mut tiff = std::io::Cursor::new(Vec::new());
    tiff::encoder::TiffEncoder::new(&mut tiff)
        .unwrap()
        .write_image::<tiff::encoder::colortype::Gray8>(9, 7, u8_samples(small.samples()))
        .unwrap();
    add("c.tif", small, tiff.into_inner());
    (files, images)
}

#[test]
fn images_in_files_of_any_kind_become_records_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (files, images) = sources(folder.path());
    let pack = pack_files(folder.path(), &files, "test.pixels");
    assert_eq!(pack.header().members()["codec"], "test.pixels");
    let found = records(&pack, &DecodeOptions::default());
    for (row, (record, image)) in found.iter().zip(&images).enumerate() {
        assert_eq!((record.row, record.kind), (row as u64, DecodedKind::Image));
        assert_eq!(record.shape, image.shape().dimensions());
        assert_eq!(record.dtype, image.sample_type().name());
        assert_eq!(record.bytes, *image.samples().to_le_bytes());
        // Out to files and in again.
        assert_eq!(read_picture(&record.to_npy(), &Limits::default()).unwrap(), *image);
        assert_eq!(read_picture(&record.to_png().unwrap(), &Limits::default()).unwrap(), *image);
    }
    let mut options = DecodeOptions::default();
    options.scale = Scale::Quarter;
    let small = records(&pack, &options);
    assert_eq!(small[0].shape, [10, 8, 3]);
    let mut seen = Vec::new();
    digest(&pack, None, &DigestOptions::default(), &NoProgress, &mut |row| {
        seen.push(row);
        Ok(())
    })
    .unwrap();
    for (digest, record) in seen.iter().zip(&found) {
        let decoded = digest.decoded.as_ref().unwrap();
        assert_eq!((decoded.kind, &decoded.shape), (DecodedKind::Image, &record.shape));
        assert_eq!(decoded.sha256, record.describe().sha256);
    }
}

#[test]
fn the_pack_of_images_does_not_depend_on_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = sources(folder.path());
    let mut packs = Vec::new();
    for workers in [1, 3] {
        let mut options = raw_options("test.pixels");
        options.workers = NonZeroUsize::new(workers);
        let out = folder.path().join("out.iac");
        pack_raw(&files, &out, &options, &NoProgress).unwrap();
        packs.push(fs::read(out).unwrap());
    }
    assert_eq!(packs[0], packs[1]);
}

#[test]
fn a_file_that_is_no_image_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, _) = sources(folder.path());
    let path = folder.path().join("d.txt");
    fs::write(&path, "a note").unwrap();
    files.push(path.clone());
    let out = folder.path().join("out.iac");
    let error = pack_raw(&files, &out, &raw_options("test.pixels"), &NoProgress).unwrap_err();
    assert!(matches!(&error, OpsError::Picture { path: named, .. } if *named == path), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(!out.exists());
    // One that the codec cannot hold, too.
    let path = folder.path().join("e.npy");
    fs::write(&path, write_any(&Image::new(shape(1, 1, 2), vec![1_u8, 2]).unwrap())).unwrap();
    *files.last_mut().unwrap() = path;
    let error = pack_raw(&files, &out, &raw_options("test.pixels"), &NoProgress).unwrap_err();
    assert!(error.to_string().contains("e.npy"), "{error}");
}

#[test]
fn signed_samples_stay_signed_and_do_not_mix_with_others() {
    let folder = tempfile::tempdir().unwrap();
    let image = Image::new(shape(2, 2, 1), vec![-1000_i16, 0, 40, 3000]).unwrap();
    let file = folder.path().join("a.npy");
    fs::write(&file, write_any(&image)).unwrap();
    let pack = pack_files(folder.path(), std::slice::from_ref(&file), "test.pixels");
    assert!(pack.header().extensions().contains(&"iac.sample"));
    let record = &records(&pack, &DecodeOptions::default())[0];
    assert_eq!((record.dtype, &record.bytes[..2]), ("int16", &(-1000_i16).to_le_bytes()[..]));
    let error = record.to_png().unwrap_err();
    assert!(error.to_string().contains("int16"), "{error}");
    assert!(record.to_json().ends_with("\"data\":[-1000,0,40,3000]}"));

    let (mut files, _) = sources(folder.path());
    files.insert(0, file);
    // Sorted by name, so an unsigned one comes first.
    fs::rename(&files[0], folder.path().join("z.npy")).unwrap();
    files[0] = folder.path().join("z.npy");
    let out = folder.path().join("out.iac");
    assert!(pack_raw(&files, &out, &raw_options("test.pixels"), &NoProgress).is_err());

    // And on to another codec.
    if compiled_codecs().contains(&"jpegls") {
        let mut options = RecodeOptions::default();
        options.codec = spec("jpegls");
        let out = folder.path().join("jls.iac");
        recode(&pack, &out, &options, &NoProgress).unwrap();
        let pack = VariableRecordPack::open(&out).unwrap();
        assert_eq!(pack.read_image(0).unwrap(), image);
        assert_eq!(pack.reader().header().members()["iac_sample"]["type"], "int16");
    }
}

#[test]
fn extracted_images_are_files_that_others_open() {
    let folder = tempfile::tempdir().unwrap();
    let (files, images) = sources(folder.path());
    let pack = pack_files(folder.path(), &files, "test.pixels");
    for (format, names) in [
        (ExtractFormat::Png, ["a.png", "b.png", "c.png"]),
        (ExtractFormat::Npy, ["a.npy", "b.npy", "c.npy"]),
    ] {
        let dir = folder.path().join(format!("{format:?}"));
        let mut options = ExtractOptions::default();
        options.format = format;
        let summary = extract(&pack, None, &dir, &options, &NoProgress, &mut |_| Ok(())).unwrap();
        assert_eq!((summary.files, summary.renamed), (3, 0));
        let files = tree(&dir);
        assert_eq!(files.keys().map(String::as_str).collect::<Vec<_>>(), names);
        for (file, image) in files.values().zip(&images) {
            assert_eq!(read_picture(file, &Limits::default()).unwrap(), *image);
        }
    }
    // As they are stored.
    let dir = folder.path().join("native");
    let options = ExtractOptions::default();
    extract(&pack, None, &dir, &options, &NoProgress, &mut |_| Ok(())).unwrap();
    assert_eq!(tree(&dir)["c.tif"][..4], [7, 9, 1, 1]);
}

#[test]
fn a_sheet_shows_the_rows_that_were_asked_for_and_crosses_damaged_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = sources(folder.path());
    let pack = pack_files(folder.path(), &files, "test.pixels");
    let mut options = MontageOptions::default();
    options.cell = 16;
    options.gap = 1;
    options.columns = NonZeroUsize::new(2);
    options.window = Window::MinMax;
    let sheet = montage(&pack, None, &options, &NoProgress).unwrap();
    assert_eq!((sheet.rows, sheet.columns), (vec![0, 1, 2], 2));
    assert_eq!(sheet.image.shape(), shape(35, 35, 3));
    assert!(sheet.failed.is_empty());
    let rows = RowSelection::parse("2,0").unwrap();
    let sheet = montage(&pack, Some(&rows), &options, &NoProgress).unwrap();
    assert_eq!(sheet.rows, [2, 0]);
    // Row 2 is 7 x 9, so it stays as large as it is, in the middle of its place.
    let pixels = u8_samples(sheet.image.samples());
    let at = |line: usize, column: usize| &pixels[(line * 35 + column) * 3..][..3];
    let first = u8_samples(picture(2, shape(7, 9, 1)).samples())[0];
    assert_eq!(at(5, 4), [first; 3]);
    assert_eq!(at(0, 0), [255; 3]);

    options.columns = None;
    options.limits = Limits::default().with_max_samples(100);
    let error = montage(&pack, None, &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    options.limits = Limits::default();

    let path = folder.path().join("images.iac");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let pack = PackReader::open(&path).unwrap();
    let sheet = montage(&pack, None, &options, &NoProgress).unwrap();
    assert_eq!((sheet.failed.len(), sheet.failed[0].row), (1, 2));
    assert_eq!(sheet.failed[0].kind, ErrorKind::Checksum);
    let empty: RowSelection = std::iter::empty().collect();
    assert!(montage(&pack, Some(&empty), &options, &NoProgress).is_err());
}

#[test]
fn images_go_to_codecs_for_images_only() {
    let folder = tempfile::tempdir().unwrap();
    let (files, images) = sources(folder.path());
    let pack = pack_files(folder.path(), &files, "test.pixels");
    let out = folder.path().join("out.iac");
    let mut options = RecodeOptions::default();
    options.codec = spec("none");
    let error = recode(&pack, &out, &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert!(error.to_string().contains("its records are images"), "{error}");
    options.codec = spec("test.pixels");
    let summary = recode(&pack, &out, &options, &NoProgress).unwrap();
    let bytes: usize = images.iter().map(|image| image.samples().to_le_bytes().len()).sum();
    assert_eq!(summary.decoded_bytes, bytes as u64);
    let again = VariableRecordPack::open(&out).unwrap();
    assert_eq!(again.read_images(&[0, 1, 2]).unwrap(), images);

    let bytes = folder.path().join("bytes.iac");
    pack_raw(&files, &bytes, &raw_options("none"), &NoProgress).unwrap();
    let bytes = PackReader::open(&bytes).unwrap();
    options.write = options.write.overwrite(true);
    let error = recode(&bytes, &out, &options, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("its records are bytes"), "{error}");
    assert!(montage(&bytes, None, &MontageOptions::default(), &NoProgress).is_err());
}

#[test]
fn every_codec_for_images_that_is_there_takes_them_over_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let (files, images) = sources(folder.path());
    let pack = pack_files(folder.path(), &files, "test.pixels");
    for name in ["jxl", "jpeg", "jpeg2000", "jpegls"] {
        let mut parameters = Parameters::new();
        if name != "jpegls" {
            parameters.insert("lossless".into(), json!(true));
        }
        let mut options = RecodeOptions::default();
        options.codec = CodecSpec::new(name, parameters);
        let out = folder.path().join(format!("{name}.iac"));
        match recode(&pack, &out, &options, &NoProgress) {
            Ok(_) => {
                let again = VariableRecordPack::open(&out).unwrap();
                assert_eq!(again.read_images(&[0, 1, 2]).unwrap(), images, "{name}");
                let dir = folder.path().join(name);
                let options = ExtractOptions::default();
                extract(again.reader(), None, &dir, &options, &NoProgress, &mut |_| Ok(()))
                    .unwrap();
                // What is stored is a file that can be read by its first bytes.
                for (file, image) in tree(&dir).values().zip(&images) {
                    let read = read_picture(file, &Limits::default()).unwrap();
                    assert_eq!(read, *image, "{name}");
                }
            }
            Err(error) => {
                let absent =
                    matches!(error.kind(), ErrorKind::MissingFeature | ErrorKind::Unsupported);
                assert!(absent, "{name}: {error}");
                println!("{name} was not tried: {error}");
            }
        }
    }
}

#[test]
fn jpeg_files_go_into_jpeg_xl_and_come_out_bit_by_bit() {
    let folder = tempfile::tempdir().unwrap();
    let golden = |name: &str| {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-reader/tests/data/container");
        PackReader::open(data.join(format!("{name}.iac"))).unwrap()
    };
    for name in ["jpeg_a0", "jpeg_a1", "jpeg_tiff_ycbcr_a", "jpeg_tiff_rgb_a"] {
        let pack = golden(name);
        let mut options = RecodeOptions::default();
        options.codec = spec("jxl");
        options.transcode = true;
        let jxl = folder.path().join(format!("{name}.jxl.iac"));
        if !cfg!(feature = "jxl") {
            let error = recode(&pack, &jxl, &options, &NoProgress).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MissingFeature, "{error}");
            continue;
        }
        recode(&pack, &jxl, &options, &NoProgress)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let jxl = PackReader::open(&jxl).unwrap();
        assert_eq!(jxl.header().members()["codec"], "jxl");
        assert_eq!(jxl.header().members()["iac_encode"], json!({"transcoded": "jpeg"}));
        options.codec = spec("jpeg");
        let back = folder.path().join(format!("{name}.back.iac"));
        recode(&jxl, &back, &options, &NoProgress).unwrap();
        let back = PackReader::open(&back).unwrap();
        assert_eq!(back.header().members().get("iac_encode"), None);
        let images = VariableRecordPack::from_reader(back.clone());
        let old = VariableRecordPack::from_reader(pack.clone());
        for row in 0..pack.num_records().unwrap() {
            if !name.contains("tiff") {
                assert_eq!(back.read(row).unwrap(), pack.read(row).unwrap(), "{name} row {row}");
            }
            assert_eq!(images.read_image(row).unwrap(), old.read_image(row).unwrap());
        }
    }
    // Other codecs have no JPEG files.
    let mut options = RecodeOptions::default();
    options.codec = spec("jxl");
    options.transcode = true;
    let error =
        recode(&golden("jpegls_a0"), &folder.path().join("x"), &options, &NoProgress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
}

#[test]
fn arrays_are_written_as_numpy_does() {
    let image = Image::new(shape(2, 3, 1), vec![1_u16, 2, 3, 4, 5, 6]).unwrap();
    let file = npy(&image);
    assert_eq!(file.len(), 128 + 12);
    assert_eq!(read_picture(&file, &Limits::default()).unwrap(), image);
}
