//! Files of slides: any is refused, or becomes a pack that is sound and can be read; the same pixels
//! come from tiles that are passed through, transcoded, and encoded without loss.
//!
//! An input is one byte that chooses the name's suffix, one that chooses how tiles are made, and the file.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/iac-adapters/tests/common/slides.rs"]
mod slides;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use iac_adapters::validate::{ValidateOptions, validate_reader};
use iac_adapters::wsi::{
    Mpp, NativeRegion, WsiImportSummary, WsiImporter, WsiPackReader, WsiProfile, WsiReadOptions,
};
use iac_codec::Limits;
use iac_fuzz::slides::is_of_the_source;
use iac_fuzz::{Limited, seeds};
use iac_ops::NoProgress;
use iac_reader::PackReader;
use iac_writer::WriteOptions;
use libfuzzer_sys::fuzz_target;
use slides::{DicomSlide, TiffPage, tiff, tiff_of};

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Samples that a tile, strip or plain image may have.
const MOST: u64 = 1 << 16;
/// Pixels of rasters that are read back.
const READ: u64 = 1 << 20;
/// Suffixes of names.
const SUFFIXES: [&str; 8] = ["tif", "svs", "ndpi", "scn", "bif", "qptiff", "png", "dcm"];

/// Files are written to memory where that is possible.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = folder.join(format!("iac-fuzz-slides-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
});

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some(([suffix, how], file)) = input.split_first_chunk::<2>() else { return };
        let suffix = SUFFIXES[usize::from(*suffix) % SUFFIXES.len()];
        let source = FOLDER.join(format!("slide.{suffix}"));
        std::fs::write(&source, file).unwrap();
        run(&source, *how);
        // Nothing is left in memory when the process ends.
        std::fs::remove_dir_all(&*FOLDER).unwrap();
        std::fs::create_dir_all(&*FOLDER).unwrap();
    }
);

fn run(source: &Path, how: u8) {
    let limits = Limits::default().with_max_samples(MOST).with_max_decoded_bytes(MOST * 4);
    let mut importer = WsiImporter::new("slide")
        .effort(1)
        .workers(NonZeroUsize::MIN)
        .limits(limits)
        .memory(1 << 20)
        .lossless_associated(how & 8 != 0)
        .options(WriteOptions::new().overwrite(true).sync(false));
    if how & 16 == 0 {
        importer = importer.native_mpp(Mpp { x: 0.5, y: 0.25 });
    }
    if how & 32 != 0 {
        importer = importer.tile_size(24, 16);
    }
    let profile = match how % 8 {
        0 => WsiProfile::Auto,
        1 => WsiProfile::Distance(1.0),
        2 => WsiProfile::Passthrough,
        3 => WsiProfile::Transcode,
        _ => WsiProfile::Lossless,
    };
    let Some((summary, pixels)) = import(&importer.clone().profile(profile), source) else {
        return;
    };
    if how & 64 == 0 || profile == WsiProfile::Lossless {
        return;
    }
    // What can be passed on was looked at only by its header, so that decoding may still fail.
    let exact = matches!(profile, WsiProfile::Passthrough | WsiProfile::Transcode);
    let again = import(&importer.profile(WsiProfile::Lossless), source);
    if let (true, Some(pixels), Some((other, Some(again)))) = (exact, pixels, again) {
        assert_eq!((summary.width, summary.height), (other.width, other.height));
        assert!(pixels == again, "other pixels");
    }
}

/// A pack of the file, read back; nothing where it is refused.
fn import(importer: &WsiImporter, source: &Path) -> Option<(WsiImportSummary, Option<Vec<u8>>)> {
    let path = source.with_file_name("slide.pat.iac");
    let summary = match importer.import(source, &path, &NoProgress) {
        Ok(summary) => summary,
        Err(error) => {
            assert!(is_of_the_source(&error), "{error:?}");
            return None;
        }
    };
    let pack = PackReader::open(&path).unwrap();
    let reader = WsiPackReader::from_reader(pack.clone(), &Default::default()).unwrap();
    let info = reader.info();
    assert_eq!((info.width, info.height), (summary.width, summary.height));
    let few = info.width.saturating_mul(info.height) <= READ;
    let is_passed = info.codec.name() != "jxl";
    if !few {
        return Some((summary, None));
    }
    let region = NativeRegion {
        x: 0,
        y: 0,
        width: u32::try_from(info.width).unwrap(),
        height: u32::try_from(info.height).unwrap(),
    };
    let pixels = reader.read_native(&region, &WsiReadOptions::new());
    if !is_passed {
        validate_reader(&pack, &ValidateOptions::default()).unwrap();
        for image in reader.associated_images() {
            reader.read_associated(&image.name).unwrap();
        }
        return Some((summary, Some(pixels.unwrap().pixels)));
    }
    Some((summary, pixels.ok().map(|image| image.pixels)))
}

/// Sources of the golden packs that are small enough.
fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = root.join("crates/iac-adapters/tests/data/wsi/inputs");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut made = Vec::new();
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 8190 {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let suffix = match name.rsplit('.').next() {
            _ if name.contains("ndpi") => 2,
            Some("svs") => 1,
            Some("png" | "jpg" | "czi") => 6,
            _ => 0,
        };
        for (number, how) in [4_u8, 64 + 2, 64 + 3, 32 + 1].into_iter().enumerate() {
            made.push((format!("{name}.{number}"), [&[suffix, how][..], &bytes].concat()));
        }
    }
    for (name, suffix, bytes) in made_up() {
        for how in [4_u8, 64 + 2] {
            made.push((format!("{name}.{how}"), [&[suffix, how][..], &bytes].concat()));
        }
    }
    made
}

/// Small slides of makers whose files are no plain TIFF files.
fn made_up() -> Vec<(&'static str, u8, Vec<u8>)> {
    let full = DicomSlide::default();
    let places = vec![(17, 7, "0", "1"), (1, 1, "0", "1"), (9, 1, "0", "1")];
    let sparse = DicomSlide { frames: 3, places: Some(places), ..DicomSlide::default() };
    let leica = "<scn xmlns=\"http://www.leica-microsystems.com/scn/2010/10/01\">\
                 <collection sizeX=\"100000\" sizeY=\"80000\"><image><pixels>\
                 <dimension sizeX=\"20\" sizeY=\"12\" r=\"0\" ifd=\"0\"/></pixels>\
                 <view sizeX=\"5000\" sizeY=\"3000\" offsetX=\"1000\" offsetY=\"0\"/>\
                 <illuminationSource>brightfield</illuminationSource></image><image><pixels>\
                 <dimension sizeX=\"10\" sizeY=\"8\" r=\"0\" ifd=\"1\"/></pixels>\
                 <view sizeX=\"2500\" sizeY=\"2000\" offsetX=\"9000\" offsetY=\"500\"/></image>\
                 </collection></scn>";
    let scan =
        b"<iScan ScanRes=\"0.25\" Z-layers=\"1\"/><EncodeInfo><TileJointInfo OverlapX=\"0\"/>";
    let page = |text, tile, tags| TiffPage { text, width: 20, height: 12, tile, tags };
    let ventana = tiff_of(&[
        page("Label Image", 0, vec![(700, scan.to_vec())]),
        page("level=0 mag=40", 16, vec![(700, scan.to_vec())]),
    ]);
    vec![
        ("dicom-full", 7, full.native(&[10, 20, 30, 40, 50, 60])),
        ("dicom-sparse", 7, sparse.native(&[10, 20, 30])),
        ("leica", 3, tiff(&[(leica, 20, 12, 16), ("", 10, 8, 0)])),
        ("ventana", 4, ventana),
    ]
}
