//! Arrays in files of NumPy, nibabel and zarr: what these write is imported, what we export they
//! read, and shapes, elements and places are equal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

use std::path::Path;

use iac_array::blocking::ArrayStore;
use iac_array::convert::{self, AFFINE, ExportOptions, FileKind, ImportOptions};
use iac_array::{
    ArrayData, ArraySpec, Attr, CompactPolicy, DType, Location, Packing, StoreOptions,
};
use iac_interop::json::sum;
use iac_interop::reference::{look, run_json};
use iac_reader::PackReader;
use ndarray::{Array1, Array3};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::tempdir;

fn memory() -> ArrayStore {
    ArrayStore::create(Location::memory(), StoreOptions::default()).unwrap()
}

fn import(path: &Path, scaled: bool) -> ArrayStore {
    let mut store = memory();
    let options = ImportOptions::default().scaled(scaled);
    convert::import(&mut store, path, &options)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    store.flush().unwrap();
    store
}

fn sha256(data: &ArrayData) -> String {
    let bytes = match data.as_bytes() {
        Some(bytes) => bytes.to_vec(),
        None => data.texts().unwrap().join("\0").into_bytes(),
    };
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The extents as NumPy has them: elements of several numbers are an axis more.
fn shape(data: &ArrayData) -> Vec<u64> {
    let mut shape = data.shape().to_vec();
    if let DType::FixedList(_, count) = data.dtype() {
        shape.push(u64::from(*count));
    }
    shape
}

fn affine(store: &ArrayStore, name: &str) -> Vec<f64> {
    match &store.meta(name).unwrap().attrs()[AFFINE] {
        Attr::Floats(numbers) => numbers.clone(),
        other => panic!("{other:?}"),
    }
}

fn is_near(found: &[f64], rows: &Value) -> bool {
    let expected = rows.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    let expected: Vec<f64> = expected.map(|number| number.as_f64().unwrap()).collect();
    found.len() == 16 && found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5)
}

/// Whether this build knows Zarr.
const ZARR: bool = cfg!(feature = "zarr");
/// The arrays that are written as Zarr.
const ZARR_NAMES: &[&str] = if ZARR { &["ct", "g/real", "truth", "rgb"] } else { &[] };

fn check(line: &Value) {
    let path = Path::new(line["file"].as_str().unwrap());
    let store = import(path, false);
    let only = store.names()[0].clone();
    let name = line["name"].as_str().map_or(only, str::to_owned);
    let data = store.read_all(&name).unwrap();
    let expected: Vec<u64> = serde_json::from_value(line["shape"].clone()).unwrap();
    assert_eq!(shape(&data), expected, "{line}");
    assert_eq!(sha256(&data), line["sha256"].as_str().unwrap(), "{line}");
    if FileKind::of(path) == Some(FileKind::Nifti) {
        if !line["affine"].is_null() {
            assert!(is_near(&affine(&store, &name), &line["affine"]), "{line}");
        }
        if let Some(expected) = line["scaled"].as_str() {
            let real = import(path, true).read_all(&name).unwrap();
            if *real.dtype() == DType::Float32 {
                assert_eq!(sha256(&real), expected, "{line}");
            }
        }
    }
}

#[test]
fn files_of_numpy_nibabel_and_zarr_are_imported_with_equal_elements() {
    let folder = tempdir().unwrap();
    let lines = run_json("arrays.py", &["write", folder.path().to_str().unwrap()], "");
    assert!(lines.len() > 30);
    for line in &lines {
        if ZARR || !line["file"].as_str().unwrap().ends_with(".zarr") {
            check(line);
        }
    }
}

#[test]
fn exported_files_are_read_with_equal_elements() {
    let folder = tempdir().unwrap();
    let mut store = memory();
    let volume = Array3::from_shape_fn((4, 5, 6), |(z, y, x)| (z * 30 + y * 6 + x) as i16 - 60);
    let place =
        vec![-0.7, 0.1, 0.0, 90.0, 0.0, 0.7, 0.2, -80.0, 0.05, 0.0, 2.5, 7.0, 0.0, 0.0, 0.0, 1.0];
    let rgb = DType::FixedList(Box::new(DType::UInt8), 3);
    let all = [
        ("ct", ArrayData::from(&volume)),
        ("g/real", ArrayData::from(volume.mapv(|value| f64::from(value) / 7.0))),
        ("truth", ArrayData::from(volume.mapv(|value| value > 0))),
        ("rgb", ArrayData::from_bytes(rgb, &[2, 3], (0..18).collect()).unwrap()),
        ("texts", ArrayData::from_texts(&[2], ["ä", "bcd"]).unwrap()),
    ];
    for (name, data) in &all {
        let spec = ArraySpec::new(data.dtype().clone(), data.shape()).attr(AFFINE, place.clone());
        store.define(name, spec.attr("unit", "mm")).unwrap();
        store.write(name, &vec![0; data.shape().len()], data.clone()).unwrap();
    }
    store.flush().unwrap();
    let mut files = Vec::new();
    let mut export = |file: &str, name: Option<&str>, nifti2: bool| {
        let path = folder.path().join(file);
        let options = ExportOptions::default().nifti2(nifti2);
        convert::export(&store.snapshot(), name, &path, &options).unwrap();
        files.push(path.to_str().unwrap().to_owned());
    };
    for (name, _) in &all {
        export(&format!("{}.npy", name.replace('/', "-")), Some(name), false);
    }
    export("all.npz", None, false);
    for name in ["ct", "g/real", "rgb"] {
        let file = name.replace('/', "-");
        export(&format!("{file}.nii"), Some(name), false);
        export(&format!("{file}-2.nii.gz"), Some(name), true);
    }
    // Texts have no place in what is written of Zarr.
    for name in ZARR_NAMES {
        export(&format!("{}.zarr", name.replace('/', "-")), Some(name), false);
    }
    let mut arguments = vec!["read".to_owned()];
    arguments.extend(files);
    let lines = run_json("arrays.py", &arguments, "");
    assert_eq!(lines.len(), all.len() * 2 + 6 + ZARR_NAMES.len());
    for line in &lines {
        let file = Path::new(line["file"].as_str().unwrap()).file_name().unwrap().to_str().unwrap();
        let stem = file.split('.').next().unwrap().trim_end_matches("-2").replace('-', "/");
        let name = line["name"].as_str().map_or(stem, str::to_owned);
        let data = store.read_all(&name).unwrap();
        let expected: Vec<u64> = serde_json::from_value(line["shape"].clone()).unwrap();
        assert_eq!(shape(&data), expected, "{line}");
        assert_eq!(sha256(&data), line["sha256"].as_str().unwrap(), "{line}");
        if !line["affine"].is_null() {
            assert!(is_near(&place, &line["affine"]), "{line}");
        }
    }
}

/// Layers of every kind, in a folder: what was written, changed, erased, deleted, joined.
fn layers(folder: &Path) -> Vec<std::path::PathBuf> {
    let options = StoreOptions::default().packing(Packing::lz4()).block_bytes(4096);
    let location = Location::folder(folder.join("s")).unwrap();
    let mut store = ArrayStore::create(location, options.clone()).unwrap();
    store.set_store_attr("study", 7_i64).unwrap();
    store.flush().unwrap();
    store.define("n", ArraySpec::new(DType::Int16, &[4000]).chunks(&[100])).unwrap();
    store.define("t", ArraySpec::new(DType::Utf8, &[3])).unwrap();
    store.define("u", ArraySpec::new(DType::Float32, &[90]).chunks(&[40]).nullable()).unwrap();
    store.define_group("g").unwrap();
    let numbers: Array1<i16> = (0..4000).map(|at| at / 3 % 91).collect();
    store.write("n", &[0], &numbers).unwrap();
    store.write("t", &[0], ArrayData::from_texts(&[3], ["", "ä", "long"]).unwrap()).unwrap();
    let some: Array1<Option<f32>> = (0..80_u8).map(|at| (at % 7 > 0).then(|| at.into())).collect();
    store.write("u", &[0], ArrayData::from_options(&some)).unwrap();
    store.flush().unwrap();
    store.write("n", &[150], Array1::from_elem(300, 9_i16)).unwrap();
    store.erase("n", &[1000], &[200]).unwrap();
    store.delete("t").unwrap();
    store.flush().unwrap();
    store.compact(CompactPolicy::All).unwrap();
    convert::export(&store.snapshot(), None, &folder.join("one.iac"), &ExportOptions::default())
        .unwrap();
    let listed = std::fs::read_dir(folder.join("s/layers")).unwrap();
    let mut all: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    all.push(folder.join("one.iac"));
    all
}

#[test]
fn every_layer_opens_in_the_reference_reader_and_payloads_agree() {
    let folder = tempdir().unwrap();
    let files = layers(folder.path());
    assert_eq!(files.len(), 5);
    let mut records = 0;
    for (path, seen) in files.iter().zip(look(&files)) {
        let context = path.display();
        assert_eq!(seen["header"]["ok"]["payload_type"], "nd_array", "{context}: {seen}");
        assert!(seen["slide_table"]["ok"].is_object(), "{context}: {seen}");
        let pack = PackReader::open(path).unwrap();
        let rows = seen["index_table"]["ok"]["rows"].as_u64().unwrap();
        let all: Vec<u64> = (0..rows).collect();
        // Our container reader compares every payload with its checksum.
        let payloads = pack.read_rows(&all).unwrap();
        let expected: Vec<Value> = payloads.iter().map(|bytes| json!({"ok": sum(bytes)})).collect();
        assert_eq!(seen["read_payload"], Value::Array(expected), "{context}");
        let fields = seen["index_table"]["ok"]["fields"].as_array().unwrap();
        let sums = fields.iter().position(|field| field.to_string().contains("\"crc32\"")).unwrap();
        let sums = &seen["index_table"]["ok"]["columns"][sums];
        for (row, bytes) in payloads.iter().enumerate() {
            // Chunks without bytes have the sum of nothing.
            assert_eq!(sums[row], json!(crc32fast::hash(bytes)), "{context} row {row}");
        }
        records += payloads.iter().filter(|bytes| !bytes.is_empty()).count();
    }
    assert!(records > 40, "{records}");
}
