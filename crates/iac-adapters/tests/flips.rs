//! Golden packs of every kind with altered bytes: opened, validated, verified, and decoded in full.
//!
//! No alteration may end the process, take longer than 10 seconds or memory beyond the limits, or
//! change a record that a checksum covers without an error. A few bytes of each pack are altered;
//! `IAC_FLIPS=full` alters every byte of small packs and 2,000 of the others, and takes the packs of
//! `IAC_FIXTURES` and the DICOM files of `IAC_CORPUS` along. The zeros behind the header's text stay:
//! nobody reads them.
#![cfg(all(feature = "tiles", feature = "features", feature = "text", feature = "dicom"))]
#![cfg(all(feature = "wsi", feature = "jxl"))]
#![allow(unsafe_code)] // an allocator that remembers
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![allow(clippy::panic, missing_docs)]

#[path = "../../iac-codec/tests/common/watched.rs"]
mod watched;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use iac_adapters::dicom::{DicomFile, DicomPackReader, ExportOptions};
use iac_adapters::features::FeaturePackReader;
use iac_adapters::text::{ClinicalDoc, TextReadOptions, TextReader};
use iac_adapters::text_pair::ClinicalDocPair;
use iac_adapters::tiles::{TilePackReader, TileReadOptions};
use iac_adapters::validate::{ValidateOptions, validate_reader};
use iac_adapters::wsi::{WsiOpenOptions, WsiPackReader, WsiReadOptions};
use iac_codec::{CodecSpec, Limits, Registry};
use iac_reader::{PackKind, PackReader, VerifyOptions};
use serde_json::Value;

/// No default limit lets more be taken in one piece.
const MOST_MEMORY: usize = 1 << 30;
/// Bytes behind the zeros up to which a pack is small.
const SMALL: usize = 2048;

fn is_full() -> bool {
    std::env::var_os("IAC_FLIPS").is_some_and(|size| size == "full")
}

fn files_below(folder: &Path, suffix: &str, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files_below(&path, suffix, found);
        } else if path.to_str().unwrap().ends_with(suffix) {
            found.push(path);
        }
    }
}

/// The golden packs of slides, which lie in one file.
fn slides() -> Vec<(String, Vec<u8>)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wsi");
    let zstd = Registry::global().create(&CodecSpec::new("zstd", Default::default())).unwrap();
    let frame = std::fs::read(data.join("packs.zst")).unwrap();
    let all = zstd.decode_bytes(&frame, &Limits::default()).unwrap();
    let list: Value =
        serde_json::from_slice(&std::fs::read(data.join("packs.json")).unwrap()).unwrap();
    let mut rest = all.as_slice();
    let mut packs = Vec::new();
    for entry in list.as_array().unwrap() {
        let (file, behind) = rest.split_at(usize::try_from(entry[1].as_u64().unwrap()).unwrap());
        packs.push((format!("wsi/{}", entry[0].as_str().unwrap()), file.to_vec()));
        rest = behind;
    }
    packs
}

fn goldens() -> Vec<(String, Vec<u8>)> {
    let mut paths = Vec::new();
    files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"), ".iac", &mut paths);
    if let Some(fixtures) = std::env::var_os("IAC_FIXTURES").filter(|_| is_full()) {
        files_below(Path::new(&fixtures), ".iac", &mut paths);
    }
    let read = |path: &PathBuf| (path.display().to_string(), std::fs::read(path).unwrap());
    // Many packs of the fixtures are goldens here.
    let mut seen = HashSet::new();
    let all = paths.iter().map(read).chain(slides());
    all.filter(|(_, bytes)| seen.insert(bytes.clone())).collect()
}

/// Reads everything that a pack holds, by the rules of its kind, and forgets it.
fn decode(pack: &PackReader) {
    let _ = validate_reader(pack, &ValidateOptions::default());
    let rows = pack.num_records().unwrap_or(0).min(64);
    match pack.header().payload_type().unwrap_or_default() {
        "clinical_text" => texts::<ClinicalDoc>(pack, rows),
        "clinical_text_pair" => texts::<ClinicalDocPair>(pack, rows),
        kind if kind.starts_with("dicom") => {
            let Ok(reader) = DicomPackReader::from_reader(pack.clone(), true) else { return };
            for row in 0..reader.row_count().min(64) {
                let _ = reader.data_set(row);
                let _ = reader.read_pixels(row);
                let _ = reader.export(row, &ExportOptions::default());
            }
        }
        kind if kind.starts_with("wsi") => {
            let Ok(slide) = WsiPackReader::from_reader(pack.clone(), &WsiOpenOptions::default())
            else {
                return;
            };
            let _ = slide.read_thumbnail(48, &WsiReadOptions::new());
            for image in slide.associated_images() {
                let _ = slide.read_associated(&image.name);
            }
        }
        _ => {
            if let Ok(tiles) = TilePackReader::from_reader(pack.clone(), &TileReadOptions::new()) {
                for row in 0..rows {
                    let _ = tiles.read(row);
                    let _ = tiles.record(row);
                }
            }
            if let Ok(features) = FeaturePackReader::from_reader(pack.clone()) {
                for row in 0..rows {
                    let _ = features.read_f32(row);
                    let _ = features.record(row);
                }
            }
        }
    }
}

fn texts<D: iac_adapters::text::TextDocument>(pack: &PackReader, rows: u64) {
    let Ok(reader) = TextReader::<D>::from_reader(pack.clone(), TextReadOptions::default()) else {
        return;
    };
    for row in 0..rows {
        let _ = reader.read_at(row);
        let _ = reader.read_manifest_at(row);
    }
}

/// The stored records of a sound pack whose index has a sum for each.
fn covered(pack: &PackReader) -> Option<Vec<Bytes>> {
    let has_sums = pack.index_table().ok()?.schema().field_with_name("crc32").is_ok();
    if !has_sums || pack.kind().ok()? != PackKind::Variable {
        return None;
    }
    (0..pack.num_records().ok()?).map(|row| pack.read(row).ok()).collect()
}

struct Golden {
    name: String,
    bytes: Vec<u8>,
    /// Where records begin, which sums cover.
    data_at: usize,
    records: Option<Vec<Bytes>>,
}

impl Golden {
    fn new(name: String, bytes: Vec<u8>) -> Self {
        let pack = PackReader::from_bytes(bytes.clone());
        let data_at = pack.as_ref().map_or(usize::MAX, |pack| {
            usize::try_from(pack.layout().data.offset).unwrap_or(usize::MAX)
        });
        let records = pack.ok().and_then(|pack| covered(&pack));
        Self { name, bytes, data_at, records }
    }

    /// Alters one byte and looks at what comes of it.
    fn alter(&self, at: usize, flip: u8) {
        let mut altered = self.bytes.clone();
        altered[at] ^= flip;
        let started = Instant::now();
        let look = || {
            let Ok(pack) = PackReader::from_bytes(altered) else { return };
            let _ = pack.verify(&VerifyOptions::default());
            decode(&pack);
            let Some(records) = self.records.as_ref().filter(|_| at >= self.data_at) else {
                return;
            };
            let mut failed = 0;
            for (row, record) in (0_u64..).zip(records) {
                match pack.read(row) {
                    Ok(found) => assert!(found == *record, "row {row} is another, silently"),
                    Err(_) => failed += 1,
                }
            }
            let sound = pack.verify(&VerifyOptions::default()).is_sound();
            assert!(failed == 0 || !sound, "{failed} bad rows that verify does not tell");
        };
        let (outcome, largest) = watched::largest_in(|| catch_unwind(AssertUnwindSafe(look)));
        let what = format!("{}: byte {at} ^ {flip:#04x}", self.name);
        assert!(outcome.is_ok(), "{what}: a panic");
        assert!(started.elapsed() < Duration::from_secs(10), "{what}: {:?}", started.elapsed());
        assert!(largest <= MOST_MEMORY, "{what}: {largest} bytes at once");
    }
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

/// The bytes of a pack that mean something.
fn places(bytes: &[u8]) -> Vec<usize> {
    let text = bytes
        .get(8..12)
        .map_or(0, |four| usize::try_from(u32::from_le_bytes(four.try_into().unwrap())).unwrap());
    let text_end = text.saturating_add(16).min(65_536).min(bytes.len());
    (0..text_end).chain(65_536.min(bytes.len())..bytes.len()).collect()
}

#[test]
fn altered_goldens_give_errors_or_the_same_records() {
    if is_full() && std::env::var_os("IAC_FIXTURES").is_none() {
        println!("without further packs: IAC_FIXTURES is not set");
    }
    let mut numbers = Numbers(20_240_917);
    let (mut packs, mut small, mut covered, mut opened, mut runs) = (0, 0, 0, 0, 0_u64);
    let started = Instant::now();
    for (name, bytes) in goldens() {
        let places = places(&bytes);
        if places.is_empty() {
            continue;
        }
        let is_small = bytes.len().saturating_sub(65_536) <= SMALL;
        let golden = Golden::new(name, bytes);
        packs += 1;
        small += u32::from(is_small);
        covered += u32::from(golden.records.is_some());
        opened += u32::from(golden.data_at != usize::MAX);
        let mut alter = |at: usize| {
            golden.alter(at, [0x01, 0x80, 0xFF][at % 3]);
            runs += 1;
        };
        match (is_full(), is_small) {
            (true, true) => places.iter().copied().for_each(&mut alter),
            (full, _) => {
                for _ in 0..if full { 2000 } else { 12 } {
                    alter(places[numbers.below(places.len())]);
                }
            }
        }
    }
    assert!(packs > 100 && covered > 10, "{packs}, {covered}");
    println!(
        "{packs} packs, {small} of them small, {opened} that open, {covered} whose records have a sum each: {runs} \
         alterations in {:?}",
        started.elapsed()
    );
}

#[test]
fn altered_and_cut_public_dicom_files_never_end_the_process() {
    let Some(corpus) = std::env::var_os("IAC_CORPUS") else {
        println!("not run: IAC_CORPUS is not set");
        return;
    };
    let mut paths = Vec::new();
    files_below(&Path::new(&corpus).join("dicom"), "", &mut paths);
    let mut numbers = Numbers(7);
    let mut runs = 0_u64;
    for path in &paths {
        let bytes = std::fs::read(path).unwrap();
        if bytes.is_empty() {
            continue;
        }
        for _ in 0..if is_full() { 2000 } else { 10 } {
            let mut altered = bytes.clone();
            // Headers lie in front, and most of a file is pixels.
            let end = if runs.is_multiple_of(4) { bytes.len() } else { bytes.len().min(4096) };
            let at = numbers.below(end);
            if runs.is_multiple_of(5) {
                altered.truncate(at);
            } else {
                altered[at] ^= [0x01, 0x80, 0xFF][at % 3];
            }
            runs += 1;
            let started = Instant::now();
            let outcome = catch_unwind(|| {
                if let Ok(file) = DicomFile::parse(&Bytes::from(altered), "altered") {
                    let _ = file.metadata_json();
                }
            });
            assert!(outcome.is_ok(), "{}: byte {at}: a panic", path.display());
            assert!(started.elapsed() < Duration::from_secs(10), "{}: {at}", path.display());
        }
    }
    println!("{} files: {runs} alterations", paths.len());
}
