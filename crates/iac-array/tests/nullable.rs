//! Arrays whose elements can be null.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use std::sync::Arc;

use futures_util::TryStreamExt;
use iac_array::blocking::{ArrayStore, Snapshot};
use iac_array::{
    ArrayData, ArrayError, ArraySpec, CompactPolicy, DType, Filter, Location, Packing, StoreOptions,
};
use iac_format::Header;
use ndarray::{Array1, array};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(future)
}

fn memory(packing: Packing) -> ArrayStore {
    let options = StoreOptions::default().packing(packing).block_bytes(64);
    ArrayStore::create(Location::memory(), options).unwrap()
}

/// `data` written at element 1 of an array of `expected.len()`, read in every state of the store.
fn round_trip(spec: &ArraySpec, data: &ArrayData, expected: &ArrayData) {
    for packing in [
        Packing::none(),
        Packing::lz4(),
        Packing::zstd(3).unwrap().with_filters(&[Filter::Delta, Filter::Shuffle]),
    ] {
        for chunk in [1, 2, 7, 64] {
            let mut store = memory(packing.clone());
            store.define("a", spec.clone().chunks(&[chunk])).unwrap();
            store.write("a", &[1], data.clone()).unwrap();
            assert_eq!(store.read_all("a").unwrap(), *expected);
            store.flush().unwrap();
            assert_eq!(store.read_all("a").unwrap(), *expected);
            store.set_attr("a", "k", 1_i64).unwrap();
            store.flush().unwrap();
            store.compact(CompactPolicy::All).unwrap();
            assert_eq!(store.read_all("a").unwrap(), *expected);
            assert!(store.snapshot().verify().unwrap().is_empty());
        }
    }
}

#[test]
fn elements_of_every_kind_can_be_null() {
    let mask = array![true, false, true, false];
    let wide = |front: bool, back: bool| array![front, true, false, true, false, back];
    let fixed = [
        DType::Bool,
        DType::Int8,
        DType::Float32,
        DType::UInt64,
        DType::Complex128,
        DType::FixedBinary(3),
        DType::FixedList(Box::new(DType::Int16), 2),
    ];
    for dtype in fixed {
        let width = dtype.width().unwrap();
        let bytes = |count: usize| vec![1_u8; count * width];
        let of = |count: u64| {
            ArrayData::from_bytes(dtype.clone(), &[count], bytes(count as usize)).unwrap()
        };
        let (data, filled) = (of(4).with_validity(&mask).unwrap(), of(6));
        assert_eq!((data.null_count(), data.as_bytes()), (2, None));
        let spec = ArraySpec::new(dtype.clone(), &[6]).nullable();
        let expected = filled.clone().with_validity(&wide(false, false)).unwrap();
        round_trip(&spec, &data, &expected);
        let one = ArrayData::from_bytes(dtype.clone(), &[], bytes(1)).unwrap();
        let expected = filled.with_validity(&wide(true, true)).unwrap();
        round_trip(&spec.fill_data(one), &data, &expected);
    }
    let texts = |texts: &[&str], mask: &Array1<bool>| {
        let shape = [texts.len() as u64];
        let data = ArrayData::from_texts(&shape, texts.iter().copied()).unwrap();
        data.with_validity(mask).unwrap()
    };
    let data = texts(&["a", "gone", "", "gone"], &mask);
    let spec = ArraySpec::new(DType::Utf8, &[6]).nullable();
    let expected = texts(&["", "a", "", "", "", ""], &wide(false, false));
    round_trip(&spec, &data, &expected);
    assert_eq!(expected.text_options().unwrap()[..4], [None, Some("a"), None, Some("")]);
    // An empty text is not null, and may be what nobody wrote.
    let spec = spec.fill_data(ArrayData::from_texts(&[], [""]).unwrap());
    round_trip(&spec, &data, &texts(&["", "a", "", "", "", ""], &wide(true, true)));
    let lists = ArrayData::from_lists::<f32>(&[4], [&[1.5, 2.5][..], &[9.0], &[], &[]]).unwrap();
    let lists = lists.with_validity(&mask).unwrap();
    let list = DType::List(Box::new(DType::Float32));
    let expected =
        ArrayData::from_lists::<f32>(&[6], [&[][..], &[1.5, 2.5], &[], &[], &[], &[]]).unwrap();
    let expected = expected.with_validity(&wide(false, false)).unwrap();
    round_trip(&ArraySpec::new(list, &[6]).nullable(), &lists, &expected);
    assert!(lists.binary().is_err());
    assert_eq!(lists.binary_options().unwrap()[1], None);
}

#[test]
fn nulls_are_never_taken_for_numbers() {
    let mut store = memory(Packing::lz4());
    store.define("plain", ArraySpec::new(DType::Int16, &[3])).unwrap();
    store.define("null", ArraySpec::new(DType::Int16, &[3]).nullable()).unwrap();
    let nulls = ArrayData::from_options(&array![Some(1_i16), None, Some(0)]);
    let error = store.write("plain", &[0], nulls.clone()).unwrap_err();
    assert!(error.to_string().contains("`plain` is not nullable"), "{error}");
    // A mask without nulls changes nothing.
    let sound = ArrayData::from(array![1_i16, 2, 3]).with_validity(&array![true, true, true]);
    store.write("plain", &[0], sound.unwrap()).unwrap();
    store.write("null", &[0], nulls).unwrap();
    let read = store.read_all("null").unwrap();
    assert!(read.to_ndarray::<i16>().unwrap_err().to_string().starts_with("1 elements are null"));
    assert_eq!(read.to_json().unwrap().to_string(), "[1,null,0]");
    let (values, known) = read.to_masked::<i16>().unwrap();
    assert_eq!(values, array![1, 0, 0].into_dyn());
    assert_eq!(known, array![true, false, true].into_dyn());
    assert_eq!(known, read.validity().unwrap());
    assert!(matches!(
        store.read_into("null", &[0], &[3], &mut [0; 6]),
        Err(ArrayError::Argument { .. })
    ));
    store.read_into("plain", &[0], &[3], &mut [0; 6]).unwrap();
    assert!(store.read("null", &[2], &[1]).unwrap().to_ndarray::<i16>().is_ok());
    let wrong = ArrayData::from(array![1_i16]).with_validity(&array![true, false]);
    assert!(matches!(wrong, Err(ArrayError::Argument { .. })));
    let fill = ArrayData::from_options(&ndarray::arr0(None::<i16>));
    let spec = ArraySpec::new(DType::Int16, &[1]).nullable().fill_data(fill);
    assert!(matches!(store.define("x", spec), Err(ArrayError::Argument { .. })));
    assert!(store.meta("null").unwrap().is_nullable());
    assert!(!store.meta("plain").unwrap().is_nullable());
}

#[test]
fn parts_of_chunks_are_written_and_erased() {
    for fill in [None, Some(5_i32)] {
        let mut store = memory(Packing::lz4());
        let mut spec = ArraySpec::new(DType::Int32, &[10]).chunks(&[4]).nullable();
        if let Some(fill) = fill {
            spec = spec.fill(fill);
        }
        store.define("a", spec).unwrap();
        let mut model = vec![fill; 10];
        let mut seen = Vec::new();
        for (start, part) in [
            (1, vec![Some(1), None, Some(3), Some(4), None]),
            (0, vec![None, None]),
            (7, vec![Some(7), Some(8), Some(9)]),
            (8, vec![None]),
        ] {
            let data = ArrayData::from_options(&Array1::from_vec(part.clone()));
            store.write("a", &[start], data).unwrap();
            model[start as usize..start as usize + part.len()].copy_from_slice(&part);
            store.flush().unwrap();
            let found = store.read_all("a").unwrap().to_options::<i32>().unwrap();
            assert_eq!(found, Array1::from_vec(model.clone()).into_dyn());
        }
        store.erase("a", &[3], &[2]).unwrap();
        model[3..5].fill(fill);
        seen.push(store.read_all("a").unwrap());
        store.flush().unwrap();
        store.resize("a", &[8]).unwrap();
        store.resize("a", &[11]).unwrap();
        model.truncate(8);
        model.resize(11, fill);
        seen.push(store.read_all("a").unwrap());
        store.flush().unwrap();
        store.compact(CompactPolicy::All).unwrap();
        let found = store.read_all("a").unwrap();
        assert_eq!(&found, seen.last().unwrap());
        assert_eq!(found.to_options::<i32>().unwrap(), Array1::from_vec(model).into_dyn());
    }
}

#[test]
fn statistics_count_nulls_and_leave_them_out() {
    let mut store = memory(Packing::lz4());
    let spec = |name: &str| match name {
        "null" => ArraySpec::new(DType::Float32, &[12]).chunks(&[4]).nullable(),
        _ => ArraySpec::new(DType::Float32, &[12]).chunks(&[4]).nullable().fill(0.0_f32),
    };
    let part = array![None, Some(0.0_f32), Some(-2.0), Some(f32::NAN), None, None, None, None];
    for (name, fills, nulls) in [("null", 0, 9), ("zero", 5, 5)] {
        store.define(name, spec(name)).unwrap();
        store.write(name, &[0], ArrayData::from_options(&part)).unwrap();
        store.flush().unwrap();
        for _ in 0..2 {
            let stats = store.snapshot().stats(name).unwrap();
            let least = -2.0_f32;
            let greatest = if fills > 0 { -2.0_f32 } else { 0.0 };
            assert_eq!(stats.range, Some((least.into(), greatest.into())), "{name}");
            assert_eq!((stats.fill_count, stats.null_count, stats.nan_count), (fills, nulls, 1));
            assert_eq!(stats.value_count, 12 - fills - nulls - 1);
            assert!(stats.exact);
            let chunks = store.snapshot().chunk_stats(name).unwrap();
            assert_eq!(chunks[1].stats.null_count, 4);
            store.set_attr(name, "k", 1_i64).unwrap();
            store.flush().unwrap();
            store.compact(CompactPolicy::All).unwrap();
        }
        let zero = store.snapshot().select(name, 0.0, 0.0).unwrap();
        assert!(zero.contains(&(vec![0], vec![4])) && !zero.contains(&(vec![4], vec![4])));
        // What nobody wrote is zero in one of them.
        assert_eq!(zero.contains(&(vec![8], vec![4])), fills > 0);
    }
}

#[test]
fn only_files_that_need_it_carry_the_feature() {
    let memory = Arc::new(InMemory::new());
    let place = || Location::object_store(Arc::clone(&memory) as Arc<dyn ObjectStore>, "");
    let options = StoreOptions::default();
    let mut store = ArrayStore::create(place(), options.clone()).unwrap();
    let features = |path: &Path| {
        let bytes = block_on(async { memory.get(path).await.unwrap().bytes().await.unwrap() });
        let header = Header::parse(&bytes[..65_536], bytes.len() as u64).unwrap();
        header.get("nd_array").unwrap()["features"].to_string()
    };
    let all = || -> Vec<String> {
        let prefix = Path::from("layers");
        let listed: Vec<ObjectMeta> =
            block_on(async { memory.list(Some(&prefix)).try_collect().await.unwrap() });
        let mut found: Vec<String> = listed.iter().map(|it| features(&it.location)).collect();
        found.sort_unstable();
        found
    };
    store.define("plain", ArraySpec::new(DType::Int16, &[3])).unwrap();
    store.write("plain", &[0], array![1_i16, 2, 3]).unwrap();
    store.flush().unwrap();
    assert_eq!(all(), ["[]"]);
    store.define("null", ArraySpec::new(DType::Int16, &[3]).nullable()).unwrap();
    store.flush().unwrap();
    store.write("plain", &[0], array![7_i16]).unwrap();
    store.flush().unwrap();
    assert_eq!(all(), ["[\"validity\"]", "[]", "[]"]);
    store.write("null", &[0], ArrayData::from_options(&array![None, Some(4_i16)])).unwrap();
    store.flush().unwrap();
    let expected = store.read_all("null").unwrap();
    let path = Path::from("x.iac");
    store.snapshot().export(&*memory, &path, &options).unwrap();
    assert_eq!(features(&path), "[\"validity\"]");
    let file = Snapshot::open_file(place(), "x.iac", &options).unwrap();
    assert_eq!(file.read_all("null").unwrap(), expected);
    assert!(file.verify().unwrap().is_empty());
    let mut other = ArrayStore::create(Location::memory(), options).unwrap();
    other.import_file(place(), "x.iac").unwrap();
    assert_eq!(other.read_all("null").unwrap(), expected);
    // Without its nullable array the store does without the feature again.
    store.delete("null").unwrap();
    store.flush().unwrap();
    store.compact(CompactPolicy::All).unwrap();
    assert_eq!(all().iter().filter(|features| *features == "[]").count(), 3);
}

#[cfg(feature = "convert")]
#[test]
fn files_without_a_mask_take_no_nulls() {
    use iac_array::convert::{ExportOptions, export, npy_bytes};

    let folder = tempfile::tempdir().unwrap();
    let mut store = memory(Packing::lz4());
    store.define("a", ArraySpec::new(DType::Int16, &[4]).nullable()).unwrap();
    store.write("a", &[0], array![1_i16, 2, 3]).unwrap();
    store.flush().unwrap();
    for name in ["a.npy", "a.npz", "a.nii"] {
        let path = folder.path().join(name);
        let error = export(&store.snapshot(), Some("a"), &path, &ExportOptions::default());
        let error = error.unwrap_err();
        assert!(error.to_string().contains("1 elements are null"), "{name}: {error}");
        assert!(!path.exists());
    }
    assert!(npy_bytes(&store.read_all("a").unwrap()).is_err());
    store.write("a", &[3], array![4_i16]).unwrap();
    store.flush().unwrap();
    let path = folder.path().join("a.npy");
    export(&store.snapshot(), Some("a"), &path, &ExportOptions::default()).unwrap();
    assert_eq!(npy_bytes(&store.read_all("a").unwrap()).unwrap(), std::fs::read(path).unwrap());
}
