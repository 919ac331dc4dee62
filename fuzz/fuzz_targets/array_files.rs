//! Files that arrays are imported from: any bytes are refused and leave the store as it was, or give
//! arrays that can be read, and for NumPy come back from the file that is made of them.
//!
//! The first byte of an input says what the rest is.
#![no_main]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use iac_array::blocking::ArrayStore;
use iac_array::convert::{self, ExportOptions, ImportOptions, npy_bytes, parse_npy};
use iac_array::{ArrayData, ArraySpec, DType, Location, Packing, StoreOptions};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

const KINDS: [&str; 6] = ["npy", "npz", "nii", "nii.gz", "af", "1.af"];
/// Bytes of elements that are worth the time.
const MOST: u64 = 1 << 20;

/// A folder for the files, in memory where that is possible.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = folder.join(format!("iac-fuzz-arrays-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // An empty base for layers of version 5.
    std::fs::copy(data("layered_v5/layered.af"), folder.join("layered.af")).unwrap();
    folder
});

static STORE: LazyLock<Mutex<ArrayStore>> = LazyLock::new(|| {
    let options = StoreOptions::default().packing(Packing::lz4());
    Mutex::new(ArrayStore::create(Location::memory(), options).unwrap())
});

fn data(name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/iac-array/tests/data/arrf");
    Path::new(root).join(name)
}

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Some((kind, file)) = input.split_first() else { return };
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        if kind == "npy"
            && let Ok(array) = parse_npy(file)
        {
            let again = parse_npy(&npy_bytes(&array).unwrap()).unwrap();
            assert_eq!(again, array);
        }
        let path = FOLDER.join(format!("layered.{kind}"));
        let restore = kind == "af";
        std::fs::File::create(&path).unwrap().write_all(file).unwrap();
        let mut store = STORE.lock().unwrap_or_else(PoisonError::into_inner);
        for scaled in [false, true] {
            let options = ImportOptions::default().max_bytes(MOST).scaled(scaled);
            let source = if kind == "1.af" { FOLDER.join("layered.af") } else { path.clone() };
            match convert::import(&mut store, &source, &options) {
                Ok(report) => {
                    for name in &report.arrays {
                        check(&store, name);
                    }
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    assert!(store.names().is_empty(), "{error}: {:?}", store.names());
                }
            }
            store.discard();
        }
        std::fs::remove_file(&path).unwrap();
        if restore {
            std::fs::copy(data("layered_v5/layered.af"), &path).unwrap();
        }
    }
);

fn check(store: &ArrayStore, name: &str) {
    let meta = store.meta(name).unwrap();
    let width = meta.dtype().width().map_or(32, |width| width as u64);
    let bytes = meta.shape().iter().try_fold(width, |all, extent| all.checked_mul(*extent));
    if bytes.is_some_and(|bytes| bytes <= 4 * MOST) {
        let shape = meta.shape().to_vec();
        assert_eq!(store.read_all(name).unwrap().shape(), shape);
    }
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    let mut add = |name: &str, kind: &str, file: Vec<u8>| {
        let number = KINDS.iter().position(|known| *known == kind).unwrap();
        made.push((name.to_owned(), [&[number as u8][..], &file].concat()));
    };
    let numbers =
        ndarray::Array3::from_shape_fn((2, 3, 4), |(z, y, x)| (z * 12 + y * 4 + x) as i16);
    let all = [
        ArrayData::from(&numbers),
        ArrayData::from_texts(&[2], ["a", "ü"]).unwrap(),
        ArrayData::from(ndarray::array![true, false]),
    ];
    for (at, data) in all.iter().enumerate() {
        add(&format!("npy.{at}"), "npy", npy_bytes(data).unwrap());
    }
    let options = StoreOptions::default().packing(Packing::lz4());
    let mut store = ArrayStore::create(Location::memory(), options).unwrap();
    store.define("v", ArraySpec::new(DType::Int16, &[2, 3, 4])).unwrap();
    store.write("v", &[0, 0, 0], &numbers).unwrap();
    store.flush().unwrap();
    for (name, kind, nifti2) in [
        ("npz", "npz", false),
        ("nii.1", "nii", false),
        ("nii.2", "nii", true),
        ("gz", "nii.gz", false),
    ] {
        let path = FOLDER.join(format!("seed.{kind}"));
        let options = ExportOptions::default().overwrite(true).nifti2(nifti2);
        convert::export(&store.snapshot(), Some("v"), &path, &options).unwrap();
        add(name, kind, std::fs::read(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
    }
    for name in ["s1_fixed_none", "s2_vlen_zstd", "s3_volume_lz4"] {
        add(name, "af", std::fs::read(data(&format!("{name}.af"))).unwrap());
    }
    for layer in [1, 2, 3] {
        let file = std::fs::read(data(&format!("layered_v5/layered.{layer}.af"))).unwrap();
        add(&format!("layer.{layer}"), "1.af", file);
    }
    made
}
