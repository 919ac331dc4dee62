//! Every command that writes, on small inputs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::common::{command, iac};

/// A command that writes: `IN` is the folder of inputs, `DATA` that of the adapters' test data, and
/// `OUT` an empty folder for what is written.
pub struct Writer {
    pub name: &'static str,
    words: &'static str,
}

const fn writer(name: &'static str, words: &'static str) -> Writer {
    Writer { name, words }
}

pub const WRITERS: &[Writer] = &[
    writer("raw", "pack raw IN/files --recursive -o OUT/a.iac --overwrite"),
    writer("raw-zstd", "pack raw IN/files --recursive --codec zstd -o OUT/a.iac --overwrite"),
    writer("images", "pack raw IN/pictures --codec jxl:effort=3 -o OUT/a.iac --overwrite"),
    writer("tiles", "pack tiles IN/tiles.csv --beside-manifest -o OUT/a.iac --overwrite"),
    writer("text", "pack text IN/patients.jsonl -o OUT/a.iac --overwrite"),
    writer("text-pair", "pack text-pair IN/pairs.jsonl -o OUT/a.iac --overwrite"),
    writer(
        "features",
        "pack features DATA/features/float32_multi_slide/records.csv \
         DATA/features/float32_multi_slide/features.npy --teacher t -o OUT/a.iac --overwrite",
    ),
    writer("dicom", "pack dicom DATA/dicom/slice_gap/in -o OUT/a.iac --overwrite"),
    writer("dicom-2", "pack dicom DATA/dicom/slice_gap/in --schema 2 -o OUT/a.iac --overwrite"),
    writer("wsi", "pack wsi DATA/wsi/inputs/tiff_pyramid.tif -o OUT/a.iac --overwrite"),
    writer(
        "wsi-transcode",
        "pack wsi DATA/wsi/inputs/svs_jpeg_ycbcr_tables.svs --transcode -o OUT/a.iac --overwrite",
    ),
    writer("subset", "subset IN/raw.iac --rows 3,9,4,30..200 -o OUT/a.iac --overwrite"),
    writer("merge", "merge IN/half.iac IN/rest.iac -o OUT/a.iac --overwrite"),
    writer("recode", "recode IN/raw.iac --codec zstd:level=3 -o OUT/a.iac --overwrite"),
    writer("salvage", "salvage IN/raw.iac -o OUT/a.iac --overwrite"),
    writer("cp", "cp IN/raw.iac OUT/a.iac --overwrite"),
    writer("extract", "extract IN/raw.iac --dir OUT/files --rows 0..60 --overwrite"),
    writer("cat", "cat IN/raw.iac --rows 0..300 -o OUT/a.bin --overwrite"),
    writer("decode", "decode IN/raw.iac --rows 0..40 --dir OUT/records --overwrite"),
    writer("montage", "montage IN/tiles.iac -o OUT/a.png --overwrite"),
    writer("text-export", "text export IN/text.iac -o OUT/a.jsonl --overwrite"),
    writer("text-folder", "text export IN/text.iac --dir OUT/notes --overwrite"),
    writer("dicom-export", "dicom export IN/dicom.iac --dir OUT/objects --overwrite"),
    writer("dicom-volume", "dicom volume IN/dicom.iac -o OUT/a.nii.gz --overwrite"),
    writer("wsi-tiff", "wsi tiff IN/wsi.iac --tiles deflate -o OUT/a.tif --overwrite"),
    writer("wsi-deepzoom", "wsi deepzoom IN/wsi.iac -o OUT/a.dzi"),
    writer("wsi-tiles", "wsi tiles IN/wsi.iac --size 100 -d OUT/grid"),
    writer("wsi-thumbnail", "wsi thumbnail IN/wsi.iac -o OUT/a.png --overwrite"),
    writer("array-npz", "arrays export IN/store.arrays -o OUT/a.npz --overwrite"),
];

/// The files of a folder and of those below it.
pub type Tree = BTreeMap<String, Vec<u8>>;

pub fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Whether a part of a path is a temporary name.
pub fn is_temporary(path: &str) -> bool {
    // The system shows a file that never had a name as `#` and a number.
    path.split('/')
        .any(|part| part.starts_with('.') && part.ends_with(".part") || part.starts_with('#'))
}

pub fn put(folder: &Path, files: &Tree) {
    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Removes a folder's content.
pub fn empty(folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
    fs::create_dir(folder).unwrap();
}

/// The inputs of all writers, and a folder for what one test has them write.
pub struct Work {
    pub inputs: Arc<tempfile::TempDir>,
    pub folder: tempfile::TempDir,
}

/// The inputs while a test uses them.
static INPUTS: Mutex<Weak<tempfile::TempDir>> = Mutex::new(Weak::new());

/// What undisturbed runs wrote, by the name of the writer.
static WRITTEN: Mutex<BTreeMap<&str, Tree>> = Mutex::new(BTreeMap::new());

impl Work {
    pub fn new() -> Self {
        let mut made = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        if let Some(inputs) = made.upgrade() {
            return Self { inputs, folder };
        }
        let work = Self { inputs: Arc::new(tempfile::tempdir().unwrap()), folder };
        work.make_inputs();
        *made = Arc::downgrade(&work.inputs);
        work
    }

    fn make_inputs(&self) {
        let at = |name: &str| self.inputs.path().join(name);
        for folder in ["in/files/b", "in/pictures"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in 0..300_usize {
            let content = noise(file as u32, 200 + file * 37 % 9000);
            fs::write(at(&format!("in/files/{}{file}", ["", "b/"][file % 2])), content).unwrap();
        }
        let mut manifest = "tile_id,patient_id,slide_id,tile_path,x,y,split\n".to_owned();
        for tile in 0..12 {
            write_bmp(&at(&format!("in/{tile}.bmp")), tile);
            manifest += &format!("t{tile},p,s,{tile}.bmp,{},0,train\n", tile * EDGE);
        }
        fs::write(at("in/tiles.csv"), manifest).unwrap();
        let picture = data().join("wsi/inputs/image_rgba.png");
        for copy in 0..8 {
            fs::copy(&picture, at(&format!("in/pictures/{copy}.png"))).unwrap();
        }
        let (mut patients, mut pairs) = (String::new(), String::new());
        for patient in 0..40 {
            let text = "No residual tumour in the material sent. ".repeat(50 + patient);
            patients += &format!(
                r#"{{"patient_id":"P{patient}","institution":"a","docs":[{{"doc_id":"P{patient}/1","text":"{text}","doc_type":"","encounter":"","doc_category":"","source":"","doc_timestamp":"","episode_index":0}}]}}"#
            );
            pairs += &format!(
                r#"{{"patient_id":"P{patient}","institution":"a","docs":[{{"doc_id":"P{patient}/1","source_text":"{text}","compressed_text":"none","doc_type":"","encounter":"","doc_category":"","source":"","doc_timestamp":"","episode_index":0}}]}}"#
            );
            patients.push('\n');
            pairs.push('\n');
        }
        fs::write(at("in/patients.jsonl"), patients).unwrap();
        fs::write(at("in/pairs.jsonl"), pairs).unwrap();
        let mut npy = b"\x93NUMPY\x01\0v\0".to_vec();
        let header = "{'descr': '<u2', 'fortran_order': False, 'shape': (64, 500), }";
        npy.extend(format!("{header:<117}\n").into_bytes());
        npy.extend(noise(7, 64_000));
        fs::write(at("in/numbers.npy"), npy).unwrap();
        for words in [
            "pack raw IN/files --recursive -o IN/raw.iac",
            "subset IN/raw.iac --rows 0..150 -o IN/half.iac",
            "subset IN/raw.iac --rows 150..300 -o IN/rest.iac",
            "pack tiles IN/tiles.csv --beside-manifest -o IN/tiles.iac",
            "pack text IN/patients.jsonl -o IN/text.iac",
            "pack dicom DATA/dicom/ct_series/in -o IN/dicom.iac",
            "pack wsi DATA/wsi/inputs/tiff_pyramid.tif -o IN/wsi.iac",
            "arrays import IN/numbers.npy -o IN/store.arrays --name a --chunks 16,100",
        ] {
            iac(self.arguments(words)).succeeded();
        }
    }

    pub fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn arguments(&self, words: &str) -> Vec<String> {
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        let (input, out) = (path(self.inputs.path().join("in")), path(self.out()));
        let data = path(data());
        let replaced = words.split_whitespace().map(|word| {
            let word = word.replace("IN/", &format!("{input}/"));
            word.replace("OUT/", &format!("{out}/")).replace("DATA/", &format!("{data}/"))
        });
        replaced.collect()
    }

    pub fn arguments_of(&self, writer: &Writer) -> Vec<String> {
        self.arguments(writer.words)
    }

    pub fn start(&self, writer: &Writer) -> Command {
        let mut command = command();
        command.args(self.arguments_of(writer)).arg("--quiet");
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        command
    }

    /// What an undisturbed run writes, or wrote.
    pub fn written(&self, writer: &Writer) -> Tree {
        let written = || WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = written().get(writer.name) {
            return known.clone();
        }
        let new = self.undisturbed(writer);
        written().insert(writer.name, new.clone());
        new
    }

    /// What an undisturbed run writes.
    pub fn undisturbed(&self, writer: &Writer) -> Tree {
        empty(&self.out());
        iac(self.arguments_of(writer)).succeeded();
        let written = tree(&self.out());
        assert!(!written.is_empty() && !written.keys().any(|name| is_temporary(name)));
        written
    }
}

impl Writer {
    /// Whether it can be told to replace what is there.
    pub fn replaces(&self) -> bool {
        self.words.ends_with("--overwrite")
    }

    /// Whether it makes a pack, and so takes away what a killed writer of that name left.
    pub fn makes_packs(&self) -> bool {
        self.words.contains("-o OUT/a.iac") && !self.words.starts_with("arrays")
    }

    /// Whether it makes one file, which is synced; those that make many leave that to the system.
    pub fn makes_one_file(&self) -> bool {
        self.words.contains("OUT/a.") && !self.words.contains("OUT/a.dzi")
    }
}

/// Another content for each file, which is to be replaced.
pub fn old(new: &Tree) -> Tree {
    new.keys().map(|name| (name.clone(), format!("old {name}").into_bytes())).collect()
}

pub fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../iac-adapters/tests/data")
}

const EDGE: u32 = 96;

fn noise(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn write_bmp(path: &Path, seed: u32) {
    let bytes = EDGE * EDGE * 3;
    let mut file = b"BM".to_vec();
    for word in [54 + bytes, 0, 54, 40, EDGE, EDGE, 24 << 16 | 1, 0, bytes, 0, 0, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    let samples = noise(seed, bytes as usize);
    let slope = samples.iter().enumerate().map(|(at, it)| ((at / 9) as u8).wrapping_add(it / 32));
    file.extend(slope);
    fs::write(path, file).unwrap();
}
