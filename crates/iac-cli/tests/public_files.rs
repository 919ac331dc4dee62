//! Public files of every kind with altered bytes and cut: images through the codecs, as tiles and as
//! slides; volumes and files of NumPy made of them as arrays. Each ends in data or an error: no panic,
//! nothing over 10 seconds, no allocation over 1 GiB.
//!
//! A few places of each file of `IAC_CORPUS`; `IAC_FLIPS=full` takes 400 of each. (The DICOM files are
//! part of `flips.rs` of the adapters, the Arrow streams of the tests of the format.)
#![cfg(all(
    feature = "tiles",
    feature = "wsi-import",
    feature = "arrays",
    feature = "jxl",
    feature = "jpeg",
    feature = "jpeg2000",
    feature = "jpegls"
))]
#![allow(unsafe_code)] // an allocator that remembers
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![allow(clippy::panic, clippy::print_stdout, missing_docs)]

#[path = "../../iac-codec/tests/common/watched.rs"]
mod watched;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iatrocache::adapters::TileRecord;
use iatrocache::adapters::manifest::write_manifest;
use iatrocache::adapters::tiles::{TilePackBuilder, TilePackReader};
use iatrocache::adapters::wsi::{Mpp, WsiImporter, WsiProfile};
use iatrocache::arrays::blocking::ArrayStore;
use iatrocache::arrays::convert::{self, ExportOptions, ImportOptions};
use iatrocache::arrays::{Location, StoreOptions};
use iatrocache::{CodecSpec, DecodeOptions, Limits, NoProgress, Registry, WriteOptions};

const MOST_MEMORY: usize = 1 << 30;

fn is_full() -> bool {
    std::env::var_os("IAC_FLIPS").is_some_and(|size| size == "full")
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }
}

/// Files of a folder of the corpus that have one of these ends and are not larger.
fn files(folder: &str, ends: &[&str], most: usize) -> Vec<(PathBuf, Vec<u8>)> {
    let Some(corpus) = std::env::var_os("IAC_CORPUS") else {
        println!("not run: IAC_CORPUS is not set");
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = fs::read_dir(Path::new(&corpus).join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let end = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
            ends.contains(&end.to_lowercase().as_str())
        })
        .collect();
    paths.sort();
    let files = paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap()));
    files.filter(|(_, bytes)| !bytes.is_empty() && bytes.len() <= most).collect()
}

/// Alters and cuts each file in some places, and looks at what comes of it.
fn damage(
    what: &str,
    files: Vec<(PathBuf, Vec<u8>)>,
    full: usize,
    mut run: impl FnMut(&Path, &[u8]),
) {
    if files.is_empty() {
        return;
    }
    let count = files.len();
    let mut numbers = Numbers(20_261_130);
    let mut runs = 0_u64;
    let mut longest = Duration::ZERO;
    let mut most = 0;
    let begun = Instant::now();
    for (path, bytes) in files {
        for round in 0..if is_full() { full } else { 6 } {
            let mut altered = bytes.clone();
            // What describes the rest lies in front or at the end.
            let at = match round % 4 {
                0 => numbers.below(bytes.len()),
                1 => bytes.len() - 1 - numbers.below(bytes.len().min(1024)),
                _ => numbers.below(bytes.len().min(1024)),
            };
            if round % 5 == 4 {
                altered.truncate(at);
            } else {
                altered[at] ^= [0x01, 0x80, 0xFF][round % 3];
            }
            let started = Instant::now();
            let look = AssertUnwindSafe(|| run(&path, &altered));
            let (outcome, largest) = watched::largest_in(|| catch_unwind(look));
            let place = format!("{what}: {}: byte {at}, round {round}", path.display());
            assert!(outcome.is_ok(), "{place}: a panic");
            let took = started.elapsed();
            assert!(took < Duration::from_secs(10), "{place}: {took:?}");
            assert!(largest <= MOST_MEMORY, "{place}: {largest} bytes at once");
            longest = longest.max(took);
            most = most.max(largest);
            runs += 1;
        }
    }
    println!(
        "{what}: {count} files, {runs} alterations and cuts in {:?}; the longest {longest:?}, at most {most} bytes at once",
        begun.elapsed()
    );
}

fn decode(codec: &str, folder: &str, ends: &[&str]) {
    let codec = Registry::global().create(&CodecSpec::new(codec, Default::default())).unwrap();
    let limits = Limits::default().with_max_samples(1 << 25).with_max_decoded_bytes(128 << 20);
    damage(folder, files(folder, ends, usize::MAX), 400, |_, bytes| {
        drop(codec.image_info(bytes));
        drop(codec.decode_image(bytes, &DecodeOptions::from(limits)));
    });
}

#[test]
fn altered_public_jpeg_files_are_decoded_or_refused() {
    decode("jpeg", "jpeg", &["jpg", "jpeg"]);
}

#[test]
fn altered_public_jpeg_2000_files_are_decoded_or_refused() {
    decode("jpeg2000", "jpeg2000", &["j2k", "j2c", "jp2", "jph", "jhc"]);
}

#[test]
fn altered_public_jpeg_ls_files_are_decoded_or_refused() {
    decode("jpegls", "jpegls", &["jls"]);
}

#[test]
fn altered_public_jpeg_xl_files_are_decoded_or_refused() {
    decode("jxl", "jxl", &["jxl"]);
}

#[test]
fn altered_public_images_become_tiles_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (from, ends) in [
        ("tiff", &["tif", "tiff"][..]),
        ("photo", &["png", "jpg"]),
        ("histology", &["jpg"]),
        ("jpeg", &["jpg", "jpeg"]),
    ] {
        let what = format!("tiles of {from}");
        damage(&what, files(from, ends, 100 << 10), 100, |path, bytes| {
            let image = folder.path().join(path.file_name().unwrap());
            fs::write(&image, bytes).unwrap();
            let record = TileRecord { tile_path: image, ..TileRecord::default() };
            let manifest = folder.path().join("m.csv");
            write_manifest(&manifest, [&record]).unwrap();
            let pack = folder.path().join("a.iac");
            let options = WriteOptions::new().sync(false).overwrite(true);
            let builder = TilePackBuilder::new().lossless(true).effort(1).options(options);
            if builder.build_from_manifest(&manifest, &pack, &NoProgress).is_ok() {
                TilePackReader::open(&pack).unwrap().read_rgb(0).unwrap();
            }
        });
    }
}

#[test]
fn altered_public_slides_are_imported_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let slides = files("tiff", &["tif", "tiff", "svs"], 200 << 10);
    damage("slides of tiff", slides, 300, |path, bytes| {
        let source = folder.path().join(path.file_name().unwrap());
        fs::write(&source, bytes).unwrap();
        for profile in [WsiProfile::Passthrough, WsiProfile::Lossless] {
            let importer = WsiImporter::new("s")
                .profile(profile)
                .native_mpp(Mpp::both(0.5))
                .options(WriteOptions::new().sync(false).overwrite(true));
            let importer = match profile {
                WsiProfile::Lossless => importer.effort(1),
                _ => importer,
            };
            drop(importer.import(&source, folder.path().join("a.pat.iac"), &NoProgress));
        }
    });
}

#[test]
fn altered_public_volumes_and_files_made_of_them_are_imported_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let memory = || ArrayStore::create(Location::memory(), StoreOptions::default()).unwrap();
    let mut all = files("nifti", &["nii", "gz"], usize::MAX);
    // The same volumes as files of other kinds.
    for (number, (path, _)) in all.clone().into_iter().enumerate() {
        let mut store = memory();
        let options = ImportOptions::default().name("a");
        convert::import(&mut store, &path, &options).unwrap();
        store.flush().unwrap();
        for end in ["npy", "npz", "nii.gz", "nii"] {
            let made = folder.path().join(format!("{number}.{end}"));
            convert::export(&store.snapshot(), Some("a"), &made, &ExportOptions::default())
                .unwrap();
            let bytes = fs::read(&made).unwrap();
            all.push((made, bytes));
        }
    }
    let arrays = Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-array/tests/data/arrf");
    for name in ["s1_fixed_none.af", "s2_vlen_zstd.af", "s3_volume_lz4.af"] {
        all.push((arrays.join(name), fs::read(arrays.join(name)).unwrap()));
    }
    all.retain(|(_, bytes)| bytes.len() <= 4 << 20);
    let scratch = tempfile::tempdir().unwrap();
    let options = ImportOptions::default().max_bytes(256 << 20);
    damage("arrays", all, 400, |path, bytes| {
        let source = scratch.path().join(path.file_name().unwrap());
        fs::write(&source, bytes).unwrap();
        let mut store = memory();
        if let Ok(report) = convert::import(&mut store, &source, &options) {
            for name in report.arrays {
                drop(store.meta(&name).unwrap().to_json());
            }
        }
    });
}
