//! Inputs to start from, made when a target starts.
//!
//! A target that finds the environment variable `IAC_FUZZ_SEEDS` writes its seeds into the folder
//! that it names, before libFuzzer reads that folder: those that it makes, out of golden files and by
//! itself, and those that are kept of earlier runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use iac_format::table::encode_table;
use serde_json::{Map, Value};

use crate::pack_input::{DATA_SUM, FILL_IN, Parts, ROW_SUMS, SUMS};

/// Golden files and bad ones, from the root of the repository.
const FOLDERS: [&str; 2] =
    ["crates/iac-reader/tests/data/container", "crates/iac-reader/tests/data/malformed"];

/// Writes seeds, if they are asked for. Each name should say what the seed is.
pub fn write(make: impl FnOnce() -> Vec<(String, Vec<u8>)>) {
    let Some(folder) = std::env::var_os("IAC_FUZZ_SEEDS").map(PathBuf::from) else {
        return;
    };
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in make().into_iter().chain(kept()) {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Inputs that earlier runs found, as few as reach what they reached: `scripts/fuzz.sh keep` writes
/// them, each behind its length in two bytes.
fn kept() -> Vec<(String, Vec<u8>)> {
    let program = std::env::current_exe().unwrap();
    let target = program.file_name().unwrap().to_string_lossy().into_owned();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept").join(target);
    let Ok(bytes) = fs::read(path) else { return Vec::new() };
    let mut rest = bytes.as_slice();
    let mut made = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length));
        let (input, behind) = behind.split_at(length);
        made.push((format!("kept.{:04}", made.len()), input.to_vec()));
        rest = behind;
    }
    made
}

/// Bytes that look random and are the same in each run.
#[derive(Debug, Clone)]
pub struct Noise(u64);

impl Noise {
    /// Each seed has bytes of its own.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next byte.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 56) as u8
    }
}

/// Inputs for targets whose inputs have a structure: what `arbitrary` makes of them is anything.
pub fn noise() -> Vec<(String, Vec<u8>)> {
    let lengths = [16_usize, 40, 100, 250, 600, 1500];
    let of = |number: u64, length: usize, sparse: bool| {
        let mut noise = Noise::new(number);
        // Small numbers are what structures mostly have.
        let mut next =
            || if sparse && noise.next() < 128 { noise.next() % 8 } else { noise.next() };
        (0..length).map(|_| next()).collect()
    };
    let mut made = Vec::new();
    for (number, length) in (1_u64..).zip(lengths.iter().cycle().take(24).copied()) {
        let sparse = number % 2 == 0;
        made.push((format!("noise.{number:02}"), of(number, length, sparse)));
    }
    made
}

/// A file taken apart.
#[derive(Debug, Clone)]
pub struct Pack {
    /// Its name without folder and extension.
    pub name: String,
    /// The header's text.
    pub text: String,
    /// The header's members.
    pub members: Map<String, Value>,
    /// Bytes of the slide table, where the header points at some.
    pub slides: Vec<u8>,
    /// Bytes of the index table.
    pub index: Vec<u8>,
    /// What follows.
    pub data: Vec<u8>,
    /// Size of the file.
    pub file_len: u64,
}

/// All golden files and bad ones whose header can be read at all.
pub fn packs() -> Vec<Pack> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths: Vec<PathBuf> = FOLDERS
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "iac"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no golden files in {}", root.display());
    paths.iter().filter_map(|path| take_apart(path)).collect()
}

fn take_apart(path: &Path) -> Option<Pack> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    take_bytes_apart(name, &fs::read(path).unwrap())
}

/// A pack in memory taken apart; nothing where its header cannot be read at all.
pub fn take_bytes_apart(name: String, bytes: &[u8]) -> Option<Pack> {
    let file_len = bytes.len() as u64;
    let text = iac_format::header_text(bytes, file_len).ok()?.to_owned();
    let members: Map<String, Value> = serde_json::from_str(&text).ok()?;
    let number = |name: &str| members.get(name)?.as_u64().and_then(|n| usize::try_from(n).ok());
    let slides = number("slide_table_length")?;
    let index = number("index_table_length")?;
    let rest = bytes.get(usize::try_from(iac_format::HEADER_BYTES).unwrap()..)?;
    let (slides, rest) = rest.split_at_checked(slides)?;
    let (index, data) = rest.split_at_checked(index)?;
    Some(Pack {
        name,
        text,
        slides: slides.to_vec(),
        index: index.to_vec(),
        data: data.to_vec(),
        members,
        file_len,
    })
}

/// The header's members without those that say where parts lie, as [`FILL_IN`] takes them.
pub fn own_members(pack: &Pack) -> String {
    let own: Map<String, Value> = (pack.members.clone().into_iter())
        .filter(|(name, _)| !name.ends_with("_offset") && !name.ends_with("_length"))
        .collect();
    Value::Object(own).to_string()
}

/// Golden files and bad ones as inputs of the targets that put packs together.
pub fn pack_inputs() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    // Long data and long text only slow the fuzzer down.
    for pack in packs().into_iter().filter(|pack| pack.text.len() < 2048) {
        let mut push = |what: &str, flags, text: &str, data| {
            let parts = Parts {
                flags,
                text: text.as_bytes(),
                slides: &pack.slides,
                index: &pack.index,
                data,
            };
            if let Some(input) = parts.to_input().filter(|input| input.len() < 8192) {
                made.push((format!("{}.{what}", pack.name), input));
            }
        };
        push("raw", 0, &pack.text, &pack.data);
        let own = own_members(&pack);
        push("filled", FILL_IN, &own, &pack.data);
        push("sums", FILL_IN | SUMS, &own, &pack.data);
        push("data-sum", FILL_IN | SUMS | DATA_SUM, &own, &pack.data);
        push("row-sums", FILL_IN | SUMS | ROW_SUMS, &own, &pack.data);
    }
    made.extend(rows_without_bytes());
    made
}

/// A fixed pack whose table claims any number of rows, since neither has any bytes.
fn rows_without_bytes() -> Option<(String, Vec<u8>)> {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(300));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
    let table = encode_table(&schema, &[batch]).unwrap();
    let parts = Parts {
        flags: FILL_IN | SUMS,
        text: br#"{"feature_record_bytes":0,"feature_dim":0,"dtype":"float32"}"#,
        slides: &table,
        index: &table,
        data: b"",
    };
    Some(("rows-without-bytes".to_owned(), parts.to_input()?))
}
