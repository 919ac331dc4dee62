//! Arrays that come out of files of other kinds, and go into them.
#![cfg(feature = "convert")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::panic
)]

use std::fs;
use std::path::{Path, PathBuf};

use iac_array::blocking::ArrayStore;
use iac_array::convert::{self, AFFINE, ExportOptions, ImportOptions};
use iac_array::{ArrayData, ArrayError, ArraySpec, Attr, DType, Location, StoreOptions, TimeUnit};
use ndarray::{Array3, array};
use serde_json::{Value, json};
use tempfile::tempdir;

fn memory() -> ArrayStore {
    ArrayStore::create(Location::memory(), StoreOptions::default()).unwrap()
}

fn arrf(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/arrf").join(name)
}

fn import(path: &Path) -> ArrayStore {
    let mut store = memory();
    convert::import(&mut store, path, &ImportOptions::default()).unwrap();
    store.flush().unwrap();
    store
}

fn volume() -> Array3<i16> {
    Array3::from_shape_fn((5, 6, 7), |(z, y, x)| (z * 100 + y * 10 + x) as i16 - 300)
}

fn with_volume() -> ArrayStore {
    let mut store = memory();
    let affine =
        vec![-0.5, 0.0, 0.0, 90.0, 0.0, -0.5, 0.1, 80.0, 0.0, 0.05, 2.5, -70.0, 0.0, 0.0, 0.0, 1.0];
    let spec = ArraySpec::new(DType::Int16, &[5, 6, 7]).chunks(&[2, 6, 4]).attr(AFFINE, affine);
    store.define("ct", spec.attr("scale", vec![2.0, -1.0])).unwrap();
    store.write("ct", &[0, 0, 0], volume()).unwrap();
    store.flush().unwrap();
    store
}

#[test]
fn files_of_version_6_give_the_values_that_an_independent_reader_found() {
    for name in ["s1_fixed_none", "s2_vlen_zstd", "s3_volume_lz4"] {
        let store = import(&arrf(&format!("{name}.af")));
        let text = fs::read_to_string(arrf(&format!("{name}.parsed.json"))).unwrap();
        let expected: Value = serde_json::from_str(&text).unwrap();
        for array in expected["arrays"].as_array().unwrap() {
            let name = array["name"].as_str().unwrap();
            let attrs = array["attrs"].as_object().unwrap();
            if name == "__file__" {
                let found = store.snapshot().as_async().store_attrs();
                assert_eq!(found["title"], Attr::Text("sample one".to_owned()));
                continue;
            }
            let meta = store.meta(name).unwrap();
            let found = meta.to_json();
            assert_eq!(found["shape"], array["shape"], "{name}");
            assert_eq!(found["chunks"], array["chunk"], "{name}");
            assert_eq!(found["dims"], array["dims"], "{name}");
            for (key, value) in attrs {
                let expected = match value[0].as_str().unwrap() {
                    "Float32List" => value[1].clone(),
                    _ => value[1].clone(),
                };
                assert_eq!(found["attrs"][key], expected, "{name}.{key}");
            }
            if array["fill"][0] == "Int" || array["fill"][0] == "Float" {
                assert_eq!(found["fill"], array["fill"][1], "{name}");
            }
            for chunk in array["chunks"].as_array().unwrap() {
                let numbers = |value: &Value| -> Vec<u64> {
                    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
                };
                let (shape, extents) = (numbers(&array["shape"]), numbers(&array["chunk"]));
                let start: Vec<u64> =
                    numbers(&chunk["coord"]).iter().zip(&extents).map(|(a, b)| a * b).collect();
                let count: Vec<u64> = (0..shape.len())
                    .map(|axis| extents[axis].min(shape[axis] - start[axis]))
                    .collect();
                let data = store.read(name, &start, &count).unwrap().to_json().unwrap();
                let mut flat = Vec::new();
                flatten(&data, &mut flat);
                for (found, expected) in flat.iter().zip(chunk["values"].as_array().unwrap()) {
                    if expected != "..." {
                        assert_eq!(found, expected, "{name} {start:?}");
                    }
                }
            }
        }
        assert!(store.snapshot().verify().unwrap().is_empty());
    }
}

fn flatten(value: &Value, flat: &mut Vec<Value>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| flatten(value, flat)),
        other => flat.push(other.clone()),
    }
}

#[test]
fn parts_that_nobody_wrote_read_as_in_the_other_system() {
    let store = import(&arrf("s1_fixed_none.af"));
    let grid = store.read_all("grid").unwrap().to_ndarray::<f32>().unwrap();
    let expected =
        [-1.0, 0.0, 1.0, 2.0, -1.0, -1.0, 10.0, 11.0, 12.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0];
    assert!(grid.iter().eq(expected.iter()), "{grid}");
    let unwritten = store.read_all("unwritten").unwrap().to_json().unwrap();
    assert_eq!(unwritten, json!([-9, -9, -9, -9]));
    let store = import(&arrf("s2_vlen_zstd.af"));
    // Its text fill is not applied there, and is kept as an attribute here.
    let names = store.read_all("names").unwrap();
    assert_eq!(names.texts().unwrap(), ["cat", "", "elephant", "", ""]);
    assert_eq!(store.meta("names").unwrap().attrs()["arrf.fill"], Attr::Text("n/a".to_owned()));
}

#[test]
fn layers_of_version_5_are_merged() {
    let store = import(&arrf("layered_v5/layered.af"));
    assert_eq!(store.names(), ["a"]);
    let found = store.read_all("a").unwrap().to_json().unwrap();
    assert_eq!(found, json!([1, 1, 2, 2, 2, 1, 1, 1, -1, -1]));
    assert_eq!(store.meta("a").unwrap().attrs()["units"], Attr::Text("m".to_owned()));
    let error =
        convert::import(&mut memory(), &arrf("layered_v5/layered.2.af"), &ImportOptions::default());
    assert!(error.unwrap_err().to_string().contains("name the base file"));
}

#[test]
fn every_changed_byte_of_other_files_is_an_error_or_harmless() {
    let folder = tempdir().unwrap();
    let mut files: Vec<PathBuf> =
        ["s1_fixed_none", "s2_vlen_zstd"].map(|name| arrf(&format!("{name}.af"))).to_vec();
    let store = with_volume();
    for (name, nifti2) in [("a.nii", false), ("b.nii", true), ("c.npz", false), ("d.npy", false)] {
        let path = folder.path().join(name);
        let options = ExportOptions::default().nifti2(nifti2);
        convert::export(&store.snapshot(), Some("ct"), &path, &options).unwrap();
        files.push(path);
    }
    let mut target = memory();
    let options = ImportOptions::default().max_bytes(1 << 20);
    for file in files {
        let end = file.extension().unwrap().to_str().unwrap();
        let path = folder.path().join(format!("damaged.{end}"));
        let sound = fs::read(&file).unwrap();
        for at in 0..sound.len() {
            {
                let mut bytes = sound.clone();
                bytes[at] ^= [0x01, 0x80, 0xFF][at % 3];
                fs::write(&path, &bytes).unwrap();
                match convert::import(&mut target, &path, &options) {
                    Ok(report) => {
                        for name in report.arrays {
                            let meta = target.meta(&name).unwrap();
                            let width = meta.dtype().width().unwrap_or(8) as u64;
                            let mut shape = meta.shape().iter();
                            let bytes = shape.try_fold(width, |all, side| all.checked_mul(*side));
                            if bytes.is_some_and(|bytes| bytes < 1 << 22) {
                                target.read_all(&name).unwrap();
                            }
                        }
                    }
                    Err(_) => assert!(target.names().is_empty()),
                }
                target.discard();
            }
            // Cut files are never shorter arrays.
            if at % 5 != 0 {
                continue;
            }
            fs::write(&path, &sound[..at]).unwrap();
            convert::import(&mut target, &path, &options).unwrap_err();
        }
    }
}

#[test]
fn numpy_files_come_back() {
    let folder = tempdir().unwrap();
    let mut store = memory();
    let data = [
        ("a", ArrayData::from(volume())),
        ("g/b", ArrayData::from(array![1.5_f64, f64::NAN])),
        ("t", ArrayData::from_texts(&[2], ["ü", ""]).unwrap()),
        (
            "when",
            ArrayData::from_bytes(
                DType::Timestamp(TimeUnit::Second, None),
                &[1],
                9_i64.to_le_bytes().to_vec(),
            )
            .unwrap(),
        ),
    ];
    for (name, data) in &data {
        store.define(name, ArraySpec::new(data.dtype().clone(), data.shape())).unwrap();
        store.write(name, &vec![0; data.shape().len()], data.clone()).unwrap();
    }
    store.flush().unwrap();
    let path = folder.path().join("all.npz");
    convert::export(&store.snapshot(), None, &path, &ExportOptions::default()).unwrap();
    let back = import(&path);
    for (name, data) in &data {
        assert_eq!(back.read_all(name).unwrap().as_bytes(), data.as_bytes(), "{name}");
    }
    assert_eq!(back.read_all("t").unwrap(), data[2].1);
    let again = convert::export(&store.snapshot(), None, &path, &ExportOptions::default());
    assert!(matches!(again, Err(ArrayError::Exists { what: "file", .. })));
    let grouped = ImportOptions::default().name("x");
    let mut other = memory();
    let report = convert::import(&mut other, &path, &grouped).unwrap();
    assert_eq!(report.arrays, ["x/a", "x/g/b", "x/t", "x/when"]);
    // What fails at the second array leaves nothing of the first.
    let mut taken = memory();
    taken.define("t", ArraySpec::new(DType::Int8, &[1])).unwrap();
    let error = convert::import(&mut taken, &path, &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, ArrayError::Exists { .. }), "{error}");
    assert_eq!(taken.names(), ["t"]);
}

#[test]
fn nifti_files_come_back_with_their_place_and_scale() {
    let folder = tempdir().unwrap();
    let store = with_volume();
    for (name, nifti2) in [("a.nii", false), ("b.nii.gz", false), ("c.nii", true)] {
        let path = folder.path().join(name);
        let options = ExportOptions::default().nifti2(nifti2);
        convert::export(&store.snapshot(), None, &path, &options).unwrap();
        let name = name.split('.').next().unwrap();
        let back = import(&path);
        let meta = back.meta(name).unwrap();
        assert_eq!(meta.dims(), ["z", "y", "x"]);
        let (Attr::Floats(found), Attr::Floats(expected)) =
            (&meta.attrs()[AFFINE], &store.meta("ct").unwrap().attrs()[AFFINE])
        else {
            panic!("no affine");
        };
        let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near, "{found:?}");
        assert_eq!(meta.attrs()["scale"], Attr::Floats(vec![2.0, -1.0]));
        assert_eq!(back.read_all(name).unwrap(), store.read_all("ct").unwrap());

        let mut scaled = memory();
        convert::import(&mut scaled, &path, &ImportOptions::default().scaled(true)).unwrap();
        let real = scaled.read_all(name).unwrap().to_ndarray::<f32>().unwrap();
        let expected = volume().mapv(|value| f32::from(value) * 2.0 - 1.0).into_dyn();
        assert_eq!(real, expected);

        // A second time round nothing changes, to the last byte.
        let again = folder.path().join(format!("again-{nifti2}-{name}.nii"));
        convert::export(&back.snapshot(), None, &again, &options).unwrap();
        if path.extension().unwrap() == "nii" {
            assert_eq!(fs::read(&again).unwrap(), fs::read(&path).unwrap());
        }
    }
}

#[test]
fn high_bytes_first_and_elements_in_a_second_file_are_read() {
    let folder = tempdir().unwrap();
    let store = with_volume();
    let path = folder.path().join("a.nii");
    convert::export(&store.snapshot(), None, &path, &ExportOptions::default()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let image = bytes.split_off(352);
    bytes.truncate(348);
    bytes[344..348].copy_from_slice(b"ni1\0");
    bytes[108..112].copy_from_slice(&0_f32.to_le_bytes());
    // Every number of the header the other way round.
    let fields: Vec<(usize, usize, usize)> = vec![
        (0, 4, 1),
        (32, 4, 1),
        (36, 2, 1),
        (40, 2, 8),
        (56, 4, 3),
        (68, 2, 4),
        (76, 4, 11),
        (120, 2, 1),
        (124, 4, 6),
        (252, 2, 2),
        (256, 4, 18),
    ];
    for (start, width, count) in fields {
        bytes[start..start + width * count].chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    fs::write(folder.path().join("p.hdr"), &bytes).unwrap();
    let swapped: Vec<u8> = image.chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    fs::write(folder.path().join("p.img"), swapped).unwrap();
    for name in ["p.hdr", "p.img"] {
        let back = import(&folder.path().join(name));
        assert_eq!(back.read_all("p").unwrap(), store.read_all("ct").unwrap());
        assert_eq!(back.meta("p").unwrap().attrs()["scale"], Attr::Floats(vec![2.0, -1.0]));
    }
}

#[test]
fn a_single_file_becomes_a_version_without_decoding() {
    let folder = tempdir().unwrap();
    let store = with_volume();
    let path = folder.path().join("ct.iac");
    convert::export(&store.snapshot(), None, &path, &ExportOptions::default()).unwrap();
    let place = || Location::folder(folder.path()).unwrap();
    let mut other = memory();
    other.define("mask", ArraySpec::new(DType::UInt8, &[4])).unwrap();
    assert!(other.import_file(place(), "ct.iac").is_err(), "changes are pending");
    other.flush().unwrap();
    let report = other.import_file(place(), "ct.iac").unwrap();
    assert_eq!(report.version, 2);
    assert_eq!(other.names(), ["ct", "mask"]);
    assert_eq!(other.read_all("ct").unwrap(), store.read_all("ct").unwrap());
    assert!(other.snapshot().verify().unwrap().is_empty());
    let error = other.import_file(place(), "ct.iac").unwrap_err();
    assert!(matches!(error, ArrayError::Exists { .. }), "{error}");

    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut fresh = memory();
    assert!(matches!(fresh.import_file(place(), "ct.iac"), Err(ArrayError::Corrupt { .. })));
    assert!(fresh.names().is_empty());
    assert_eq!(fresh.history().unwrap(), [0]);
}
