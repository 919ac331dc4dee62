//! Situations of slides and TIFF files that readers have met: each a file that is built here.
#![cfg(all(feature = "wsi-import", feature = "jxl"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use iac_adapters::AdapterError;
use iac_adapters::TileRecord;
use iac_adapters::manifest::write_manifest;
use iac_adapters::tiles::{TilePackBuilder, TilePackReader};
use iac_adapters::wsi::{
    Mpp, NativeRegion, WsiImporter, WsiPackReader, WsiProfile, WsiReadOptions,
};
use iac_codec::{Codec, CodecSpec, ImageShape, ImageView, Registry};
use iac_format::ErrorKind;
use iac_ops::NoProgress;
use iac_writer::WriteOptions;
use serde_json::json;

fn import(profile: WsiProfile, source: &Path) -> Result<WsiPackReader, AdapterError> {
    let importer = WsiImporter::new("s")
        .profile(profile)
        .native_mpp(Mpp::both(0.5))
        .options(WriteOptions::new().sync(false).overwrite(true));
    // Only what is encoded anew has an effort.
    let importer = match profile {
        WsiProfile::Lossless => importer.effort(1),
        _ => importer,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pat.iac");
    importer.import(source, &path, &NoProgress)?;
    WsiPackReader::open(&path)
}

fn pixels(reader: &WsiPackReader) -> Vec<u8> {
    let info = reader.info();
    let region = NativeRegion { x: 0, y: 0, width: info.width as u32, height: info.height as u32 };
    reader.read_native(&region, &WsiReadOptions::new()).unwrap().pixels
}

fn tile(source: &Path) -> Result<Vec<u8>, AdapterError> {
    let folder = tempfile::tempdir().unwrap();
    let record = TileRecord { tile_path: source.to_owned(), ..TileRecord::default() };
    let manifest = folder.path().join("m.csv");
    write_manifest(&manifest, [&record]).unwrap();
    let path = folder.path().join("a.iac");
    let builder = TilePackBuilder::new().lossless(true).effort(1);
    builder.build_from_manifest(&manifest, &path, &NoProgress)?;
    Ok(TilePackReader::open(path)?.read_rgb(0)?.pixels)
}

const SIDE: u32 = 16;

/// A TIFF file of one tile of 16 x 16 pixels, RGB of 8 bits, with these further tags (of bytes).
fn tiff(compression: u16, photometric: u16, payload: &[u8], more: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = b"II*\0\0\0\0\0".to_vec();
    let mut put = |part: &[u8]| {
        let at = bytes.len() as u32;
        bytes.extend_from_slice(part);
        at
    };
    let payload_at = put(payload);
    let bits = put(&[8, 0, 8, 0, 8, 0]);
    let mut tags: Vec<(u16, u16, u32, u32)> = vec![
        (256, 4, 1, SIDE),
        (257, 4, 1, SIDE),
        (258, 3, 3, bits),
        (259, 3, 1, compression.into()),
        (262, 3, 1, photometric.into()),
        (277, 3, 1, 3),
        (322, 4, 1, SIDE),
        (323, 4, 1, SIDE),
        (324, 4, 1, payload_at),
        (325, 4, 1, payload.len() as u32),
    ];
    for (tag, value) in more {
        tags.push((*tag, 7, value.len() as u32, put(value)));
    }
    tags.sort_unstable();
    let at = put(&(tags.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in tags {
        put(&tag.to_le_bytes());
        put(&kind.to_le_bytes());
        put(&count.to_le_bytes());
        put(&value.to_le_bytes());
    }
    put(&[0; 4]);
    bytes[4..8].copy_from_slice(&at.to_le_bytes());
    bytes
}

/// Colours that change slowly, so that JPEG keeps them nearly.
fn slopes() -> Vec<u8> {
    (0..SIDE * SIDE)
        .flat_map(|at| {
            let (x, y) = ((at % SIDE) as u8, (at / SIDE) as u8);
            [200 - x * 4, 40 + y * 5, 90 + x * 3 + y]
        })
        .collect()
}

#[test]
fn unknown_compression_schemes_of_tiff_are_refused_by_their_number_and_never_read_as_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    let plain = slopes();
    std::fs::write(&path, tiff(1, 2, &plain, &[])).unwrap();
    assert!(pixels(&import(WsiProfile::Lossless, &path).unwrap()) == plain);
    assert!(tile(&path).unwrap() == plain);
    // CCITT, old JPEG, JBIG, ThunderScan, SGI LogLuv, lossy DNG, LZMA, LERC, and what nobody named.
    for number in [
        0, 2, 3, 4, 6, 9, 10, 99, 32_766, 32_767, 32_771, 32_809, 32_908, 33_002, 33_006, 34_676,
        34_677, 34_887, 34_892, 34_925, 50_003, 65_535,
    ] {
        std::fs::write(&path, tiff(number, 2, &plain, &[])).unwrap();
        for profile in [WsiProfile::Auto, WsiProfile::Lossless, WsiProfile::Passthrough] {
            let error = import(profile, &path).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{number}: {error}");
            let text = error.to_string();
            assert!(text.contains("page 0 is compressed by"), "{number}: {text}");
            assert!(text.contains("a.tif"), "{number}: {text}");
        }
        let error = tile(&path).err().unwrap();
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Decode),
            "{number}: {error}"
        );
    }
}

#[test]
fn profiles_larger_than_their_image_are_kept_and_change_no_pixel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    let plain = slopes();
    for length in [1000, 768, 70_000, 5 << 20] {
        let profile: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
        std::fs::write(&path, tiff(1, 2, &plain, &[(34_675, &profile)])).unwrap();
        let slide = import(WsiProfile::Lossless, &path).unwrap();
        assert!(pixels(&slide) == plain, "{length}");
        assert!(slide.icc_profile().unwrap().as_deref() == Some(&profile[..]), "{length}");
        assert!(tile(&path).unwrap() == plain, "{length}");
    }
    // More than any profile has.
    let profile = vec![7; (64 << 20) + 1];
    std::fs::write(&path, tiff(1, 2, &plain, &[(34_675, &profile)])).unwrap();
    let error = import(WsiProfile::Lossless, &path).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Limit | ErrorKind::Decode), "{error}");
    // A profile that reaches out of the file.
    let mut bytes = tiff(1, 2, &plain, &[(34_675, &[1; 64])]);
    let entry = [34_675_u16.to_le_bytes(), 7_u16.to_le_bytes()].concat();
    let at = bytes.windows(4).rposition(|it| it == entry).unwrap();
    bytes[at + 4..at + 8].copy_from_slice(&60_000_000_u32.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = import(WsiProfile::Lossless, &path).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    assert!(error.to_string().contains("ICCProfile"), "{error}");
}

fn jpeg() -> Option<Codec> {
    let parameters = json!({"quality": 100, "subsampling": "444"});
    let spec = CodecSpec::new("jpeg", parameters.as_object().unwrap().clone());
    Registry::global().create_encoder(&spec).ok()
}

/// The largest difference between samples.
fn apart(a: &[u8], b: &[u8]) -> u8 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

/// The components of a stream are what its page says: red, green and blue where that is stated,
/// whatever a JPEG file without the page would be taken for.
#[test]
fn rgb_jpeg_in_tiff_has_the_colours_that_the_page_states() {
    let Some(jpeg) = jpeg() else {
        println!("not run: no encoder of JPEG");
        return;
    };
    let plain = slopes();
    let shape = ImageShape::new(SIDE, SIDE, 3).unwrap();
    let stream = jpeg.encode_image(&ImageView::new(shape, &plain[..]).unwrap()).unwrap();
    // What the components hold (JFIF 1.02, page 3).
    let stored: Vec<u8> = plain
        .chunks(3)
        .flat_map(|rgb| {
            let [r, g, b] = [rgb[0], rgb[1], rgb[2]].map(f64::from);
            let y = 0.299 * r + 0.587 * g + 0.114 * b;
            let cb = 128.0 - 0.168_736 * r - 0.331_264 * g + 0.5 * b;
            let cr = 128.0 + 0.5 * r - 0.418_688 * g - 0.081_312 * b;
            #[allow(clippy::cast_sign_loss)]
            [y, cb, cr].map(|value| value.round().clamp(0.0, 255.0) as u8)
        })
        .collect();
    assert_eq!(stream[2..4], [0xFF, 0xE0]);
    let length = usize::from(u16::from_be_bytes([stream[4], stream[5]]));
    let bare = [&stream[..2], &stream[4 + length..]].concat();
    let adobe = |transform: u8| {
        let marker =
            [0xFF, 0xEE, 0, 14, b'A', b'd', b'o', b'b', b'e', 0, 100, 0, 0, 0, 0, transform];
        [&bare[..2], &marker, &bare[2..]].concat()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    for (photometric, stream, expected, what) in [
        (2, bare.clone(), &stored, "RGB without a marker"),
        (2, adobe(0), &stored, "RGB with Adobe's marker for RGB"),
        (6, bare.clone(), &plain, "YCbCr without a marker"),
        (6, stream.clone(), &plain, "YCbCr with the marker of JFIF"),
        (6, adobe(1), &plain, "YCbCr with Adobe's marker for YCbCr"),
    ] {
        std::fs::write(&path, tiff(7, photometric, &stream, &[])).unwrap();
        let mut shown = Vec::new();
        for profile in [WsiProfile::Lossless, WsiProfile::Transcode, WsiProfile::Passthrough] {
            // Refusing is right too; other colours are not.
            match import(profile, &path) {
                Ok(slide) => shown.push(pixels(&slide)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}"),
            }
        }
        assert!(!shown.is_empty(), "{what}: nobody reads it");
        for found in shown.iter().chain(&[tile(&path).unwrap()]) {
            let difference = apart(found, expected);
            assert!(difference <= 4, "{what}: {difference}");
        }
    }
    // Marker and page contradict each other: one of both, or refused.
    for (photometric, stream) in [(2, adobe(1)), (2, stream.clone()), (6, adobe(0))] {
        std::fs::write(&path, tiff(7, photometric, &stream, &[])).unwrap();
        for profile in [WsiProfile::Lossless, WsiProfile::Transcode, WsiProfile::Passthrough] {
            match import(profile, &path) {
                Ok(slide) => {
                    let found = pixels(&slide);
                    assert!(apart(&found, &plain) <= 4 || apart(&found, &stored) <= 4);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
            }
        }
    }
}

/// The golden file like Hamamatsu's, in the form of those of 4 GiB and more: its parts lie behind
/// so many bytes that are not stored.
fn ndpi(path: &Path, shift: u64, change: impl Fn(&mut Vec<(u16, u16, u32, u64)>)) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi/inputs");
    let golden = std::fs::read(data.join("tiff_ndpi_like.tif")).unwrap();
    let word = |at: usize| u32::from_le_bytes(golden[at..at + 4].try_into().unwrap());
    let half = |at: usize| u16::from_le_bytes(golden[at..at + 2].try_into().unwrap());
    let first = word(4) as usize;
    let mut entries = Vec::new();
    for number in 0..usize::from(half(first)) {
        let at = first + 2 + number * 12;
        let (tag, kind, count) = (half(at), half(at + 2), word(at + 4));
        let width = match kind {
            1 | 2 | 7 => 1,
            3 => 2,
            4 | 11 => 4,
            _ => 8,
        };
        let outside = width * count > 4 || kind == 2;
        let value =
            if outside && width * count <= 4 { at as u64 + 8 } else { u64::from(word(at + 8)) };
        // Offsets of values, and those of the strip.
        let moved = outside || tag == 273;
        entries.push((tag, kind, count, value + if moved { shift } else { 0 }));
    }
    assert_eq!(word(first + 2 + entries.len() * 12), 0, "one page");
    if !entries.iter().any(|entry| entry.0 == 65_420) {
        entries.push((65_420, 4, 1, 1));
    }
    change(&mut entries);
    entries.sort_unstable();
    let mut table = (entries.len() as u16).to_le_bytes().to_vec();
    for (tag, kind, count, value) in &entries {
        table.extend(tag.to_le_bytes());
        table.extend(kind.to_le_bytes());
        table.extend(count.to_le_bytes());
        table.extend((*value as u32).to_le_bytes());
    }
    table.extend([0; 8]);
    for (.., value) in &entries {
        table.extend(((value >> 32) as u32).to_le_bytes());
    }
    let mut file = File::create(path).unwrap();
    file.write_all(b"II*\0").unwrap();
    let table_at = shift + golden.len() as u64;
    file.write_all(&table_at.to_le_bytes()).unwrap();
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(shift)).unwrap();
    file.write_all(&golden).unwrap();
    file.write_all(&table).unwrap();
    // Larger than 32 bits can say, whatever the shift is.
    let end = table_at + table.len() as u64;
    file.set_len(end.max((1 << 32) + 4096)).unwrap();
}

#[test]
fn parts_of_ndpi_files_beyond_4_gib_are_found() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi/inputs");
    let expected = pixels(&import(WsiProfile::Lossless, &data.join("tiff_ndpi_like.tif")).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ndpi");
    // In front of the border, across it, and far behind it.
    for shift in [4096, (1 << 32) - 3000, (1 << 32) + 8, 9 << 32] {
        ndpi(&path, shift, |_| {});
        for profile in [WsiProfile::Lossless, WsiProfile::Passthrough] {
            let slide = import(profile, &path).unwrap_or_else(|error| panic!("{shift}: {error}"));
            assert!(pixels(&slide) == expected, "{shift}");
        }
    }
    // With the upper half of the strip's offset lost, other bytes would be read: refused.
    ndpi(&path, 9 << 32, |entries| {
        for entry in entries.iter_mut().filter(|entry| entry.0 == 273) {
            entry.3 &= 0xFFFF_FFFF;
        }
    });
    for profile in [WsiProfile::Lossless, WsiProfile::Passthrough] {
        let error = import(profile, &path).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Decode | ErrorKind::Limit), "{error}");
    }
    // Offsets at the end of 64 bits.
    for value in [u64::MAX, u64::MAX - 4000, 1 << 63, 10 << 32] {
        ndpi(&path, 9 << 32, |entries| {
            for entry in entries.iter_mut().filter(|entry| entry.0 == 273) {
                entry.3 = value;
            }
        });
        let error = import(WsiProfile::Passthrough, &path).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Decode | ErrorKind::Limit), "{value}: {error}");
    }
}
