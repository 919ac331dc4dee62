//! Folders of Zarr that were written here come back.
#![cfg(feature = "zarr")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap
)]

use std::fs;
use std::path::Path;

use iac_array::blocking::ArrayStore;
use iac_array::convert::{self, ExportOptions, ImportOptions};
use iac_array::{ArrayData, ArrayError, ArraySpec, Attr, DType, Location, StoreOptions};
use ndarray::Array3;
use serde_json::json;
use tempfile::tempdir;

fn memory() -> ArrayStore {
    ArrayStore::create(Location::memory(), StoreOptions::default()).unwrap()
}

fn sample() -> ArrayStore {
    let mut store = memory();
    let volume = Array3::from_shape_fn((5, 6, 7), |(z, y, x)| (z * 42 + y * 7 + x) as i16);
    let spec = ArraySpec::new(DType::Int16, &[5, 6, 9]).chunks(&[2, 4, 5]).fill(-7_i16);
    let spec = spec.dims(&["z", "y", "x"]).attr("unit", "HU").attr("spacing", vec![0.5, 2.5]);
    let nested = json!({"a": [1, null]}).to_string();
    store.define("g/ct", spec.attr("more.json", nested.as_str())).unwrap();
    store.write("g/ct", &[0, 0, 0], &volume).unwrap();
    let rgb = DType::FixedList(Box::new(DType::UInt8), 3);
    store.define("rgb", ArraySpec::new(rgb.clone(), &[4])).unwrap();
    let colours = ArrayData::from_bytes(rgb, &[4], (0..12).collect()).unwrap();
    store.write("rgb", &[0], colours).unwrap();
    store.set_store_attr("title", "sample").unwrap();
    store.flush().unwrap();
    store
}

#[test]
fn exported_folders_are_imported_with_equal_elements_and_attributes() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("s.zarr");
    let store = sample();
    convert::export(&store.snapshot(), None, &path, &ExportOptions::default()).unwrap();
    let again = convert::export(&store.snapshot(), None, &path, &ExportOptions::default());
    assert!(matches!(again, Err(ArrayError::Exists { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    let mut back = memory();
    let report = convert::import(&mut back, &path, &ImportOptions::default()).unwrap();
    assert_eq!(report.arrays, ["g/ct", "rgb"]);
    assert_eq!(back.read_all("g/ct").unwrap(), store.read_all("g/ct").unwrap());
    let found = back.meta("g/ct").unwrap().to_json();
    let mut expected = store.meta("g/ct").unwrap().to_json();
    // JSON has one way to write an object.
    expected["attrs"]["more.json"] = found["attrs"]["more.json"].clone();
    assert_eq!(found, expected);
    let text = fs::read_to_string(path.join("g/ct/zarr.json")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stored["attributes"]["more"], json!({"a": [1, null]}));
    // Elements of three numbers are an axis more there.
    assert_eq!(back.meta("rgb").unwrap().shape(), [4, 3]);
    assert_eq!(back.read_all("rgb").unwrap().as_bytes(), store.read_all("rgb").unwrap().as_bytes());
    // One array alone.
    let one = folder.path().join("one.zarr");
    convert::export(&store.snapshot(), Some("rgb"), &one, &ExportOptions::default()).unwrap();
    let mut grouped = memory();
    let options = ImportOptions::default().name("from");
    assert_eq!(convert::import(&mut grouped, &one, &options).unwrap().arrays, ["from/rgb"]);
    assert_eq!(back.meta("g/ct").unwrap().attrs()["unit"], Attr::Text("HU".to_owned()));
}

#[test]
fn damaged_folders_are_refused_and_leave_nothing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("s.zarr");
    convert::export(&sample().snapshot(), None, &path, &ExportOptions::default()).unwrap();
    let chunk = |folder: &Path| folder.join("g/ct/c/0/0/0");
    let bytes = fs::read(chunk(&path)).unwrap();
    for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        fs::write(chunk(&path), &bytes[..cut]).unwrap();
        let mut store = memory();
        convert::import(&mut store, &path, &ImportOptions::default()).unwrap_err();
        assert!(store.names().is_empty());
    }
    fs::write(path.join("rgb/zarr.json"), "{").unwrap();
    let mut store = memory();
    convert::import(&mut store, &path, &ImportOptions::default()).unwrap_err();
    let missing =
        convert::import(&mut store, &folder.path().join("no.zarr"), &ImportOptions::default());
    missing.unwrap_err();
}

#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    let folder = tempdir().unwrap();
    let inner = folder.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    for name in ["../x", "../../../x", "a/../../x", "..", ".", "a/./b", "..\\x"] {
        let mut store = memory();
        store.define(name, ArraySpec::new(DType::UInt8, &[1])).unwrap();
        store.flush().unwrap();
        let path = inner.join("s.zarr");
        let error = convert::export(&store.snapshot(), None, &path, &ExportOptions::default());
        assert!(matches!(error, Err(ArrayError::Unsupported { .. })), "{name}: {error:?}");
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 0, "{name}");
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 1, "{name}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
    }
}
