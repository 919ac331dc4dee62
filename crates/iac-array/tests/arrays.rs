//! What arrays can hold, and the calls around them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use std::sync::Arc;

use iac_array::blocking::{ArrayStore, Snapshot};
use iac_array::{
    ArrayData, ArrayError, ArraySpec, Attr, CompactPolicy, DType, Filter, Location, NodeKind,
    Packing, StoreOptions, TimeUnit,
};
use iac_codec::{ByteCodec, Codec, CodecError, Limits, Parameters, Registry};
use ndarray::{arr0, array};

fn memory() -> ArrayStore {
    ArrayStore::create(Location::memory(), StoreOptions::default()).unwrap()
}

/// Writes part of an array, publishes, and reads the whole back, before and after compaction.
fn round_trip(dtype: DType, fill: Option<ArrayData>, part: ArrayData, expected: ArrayData) {
    for packing in [Packing::none(), Packing::lz4(), Packing::zstd(3).unwrap()] {
        for chunk in [1, 2, 9] {
            let options = StoreOptions::default().packing(packing.clone());
            let mut store = ArrayStore::create(Location::memory(), options).unwrap();
            let mut spec = ArraySpec::new(dtype.clone(), expected.shape()).chunks(&[chunk]);
            if let Some(fill) = fill.clone() {
                spec = spec.fill_data(fill);
            }
            store.define("a", spec).unwrap();
            store.write("a", &[1], part.clone()).unwrap();
            assert_eq!(store.read_all("a").unwrap(), expected, "{dtype}");
            store.flush().unwrap();
            assert_eq!(store.read_all("a").unwrap(), expected, "{dtype}");
            store.set_attr("a", "k", 1_i64).unwrap();
            store.flush().unwrap();
            store.compact(CompactPolicy::All).unwrap();
            assert_eq!(store.read_all("a").unwrap(), expected, "{dtype}");
            assert!(store.snapshot().verify().unwrap().is_empty());
        }
    }
}

#[test]
fn numbers_of_every_width_come_back() {
    let fixed = [
        DType::Bool,
        DType::Int8,
        DType::UInt16,
        DType::BFloat16,
        DType::Float32,
        DType::Float64,
        DType::Complex128,
        DType::Timestamp(TimeUnit::Microsecond, Some("UTC".to_owned())),
        DType::FixedBinary(5),
        DType::FixedList(Box::new(DType::Int16), 3),
    ];
    for dtype in fixed {
        let width = dtype.width().unwrap();
        let bytes: Vec<u8> = (0..3 * width).map(|i| (i % 2) as u8).collect();
        let mut whole = vec![0; width];
        whole.extend_from_slice(&bytes);
        whole.extend_from_slice(&vec![0; width]);
        let part = ArrayData::from_bytes(dtype.clone(), &[3], bytes).unwrap();
        let expected = ArrayData::from_bytes(dtype.clone(), &[5], whole).unwrap();
        round_trip(dtype, None, part, expected);
    }
    round_trip(
        DType::Float32,
        Some(arr0(f32::NAN).into()),
        array![1.0_f32, 2.0].into(),
        array![f32::NAN, 1.0, 2.0, f32::NAN].into(),
    );
}

#[test]
fn texts_bytes_and_lists_come_back_with_their_fill() {
    let texts = |texts: &[&str]| {
        ArrayData::from_texts(&[texts.len() as u64], texts.iter().copied()).unwrap()
    };
    let fill = ArrayData::from_texts(&[], ["-"]).unwrap();
    round_trip(DType::Utf8, Some(fill), texts(&["", "µ"]), texts(&["-", "", "µ", "-"]));
    let binary = |values: &[&[u8]]| {
        let values = values.iter().map(|value| value.to_vec());
        ArrayData::from_binary(&[values.len() as u64], values).unwrap()
    };
    round_trip(DType::Binary, None, binary(&[&[255, 0]]), binary(&[&[], &[255, 0], &[]]));
    let lists = |lists: &[&[f32]]| ArrayData::from_lists(&[lists.len() as u64], lists).unwrap();
    let dtype = DType::List(Box::new(DType::Float32));
    round_trip(dtype, None, lists(&[&[1.5, 2.5], &[]]), lists(&[&[], &[1.5, 2.5], &[], &[]]));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut store = memory();
    let spec = || ArraySpec::new(DType::UInt8, &[4]);
    store.define("a/b", spec()).unwrap();
    assert!(matches!(store.define("a/b", spec()), Err(ArrayError::Exists { .. })));
    for name in ["", "/", "a//b", "a/"] {
        assert!(matches!(store.define(name, spec()), Err(ArrayError::Argument { .. })), "{name}");
    }
    assert!(store.define("c", spec().chunks(&[0])).is_err());
    assert!(store.define("c", spec().chunks(&[1, 1])).is_err());
    assert!(store.define("c", spec().dims(&["x", "y"])).is_err());
    assert!(store.define("c", spec().fill(1_u16)).is_err());
    assert!(store.define("c", ArraySpec::new(DType::UInt8, &[1; 33])).is_err());
    let huge = ArraySpec::new(DType::UInt8, &[1 << 40]).chunks(&[1 << 31]);
    assert!(matches!(store.define("c", huge), Err(ArrayError::TooLarge { .. })));
    let growing = ArraySpec::new(DType::UInt8, &[4]).chunks(&[1 << 40]);
    store.define("growing", growing).unwrap();
    assert!(matches!(store.resize("growing", &[1 << 31]), Err(ArrayError::TooLarge { .. })));
    assert!(store.write("a/b", &[0], array![1_u16]).is_err());
    assert!(matches!(
        store.write("a/b", &[3], array![1_u8, 2]),
        Err(ArrayError::OutOfBounds { axis: 0, end: 5, extent: 4, .. })
    ));
    assert!(matches!(store.read("a/b", &[0], &[5]), Err(ArrayError::OutOfBounds { .. })));
    assert!(matches!(store.read_all("a"), Err(ArrayError::NotFound { .. })));
    assert!(store.append("a/b", 1, array![1_u8]).is_err());
    assert_eq!(store.names(), ["a/b", "growing"]);
    assert_eq!(store.read_all("a/b").unwrap(), array![0_u8, 0, 0, 0].into());
}

#[test]
fn an_array_that_is_defined_again_has_nothing_of_the_old_one() {
    let mut store = memory();
    store.define("a", ArraySpec::new(DType::Int32, &[4])).unwrap();
    store.write("a", &[0], array![1, 2, 3, 4]).unwrap();
    store.flush().unwrap();
    store.delete("a").unwrap();
    assert!(store.meta("a").is_err());
    store.define("a", ArraySpec::new(DType::Float64, &[2]).fill(0.5)).unwrap();
    assert_eq!(store.read_all("a").unwrap(), array![0.5, 0.5].into());
    store.flush().unwrap();
    assert_eq!(store.read_all("a").unwrap(), array![0.5, 0.5].into());
    store.compact(CompactPolicy::All).unwrap();
    assert_eq!(store.read_all("a").unwrap(), array![0.5, 0.5].into());
    assert_eq!(store.open_at(1).unwrap().read_all("a").unwrap(), array![1, 2, 3, 4].into());
}

#[test]
fn attributes_and_groups_are_versions_too() {
    let mut store = memory();
    store.define_group("ct").unwrap();
    store.define("ct/volume", ArraySpec::new(DType::Int16, &[2, 2]).dims(&["y", "x"])).unwrap();
    store.set_attr("ct", "spacing", vec![0.5, 0.5]).unwrap();
    store.set_attr("ct/volume", "unit", "HU").unwrap();
    store.set_store_attr("study", 7_i64).unwrap();
    store.flush().unwrap();
    store.remove_attr("ct/volume", "unit").unwrap();
    store.set_store_attr("study", 8_i64).unwrap();
    store.flush().unwrap();
    let (old, new) = (store.open_at(1).unwrap(), store.snapshot());
    let (old, new) = (old.as_async(), new.as_async());
    assert_eq!(old.meta("ct/volume").unwrap().attrs()["unit"], Attr::from("HU"));
    assert!(new.meta("ct/volume").unwrap().attrs().is_empty());
    assert_eq!(old.store_attrs()["study"], Attr::Int(7));
    assert_eq!(new.store_attrs()["study"], Attr::Int(8));
    assert_eq!(new.meta("ct").unwrap().kind(), NodeKind::Group);
    assert_eq!(new.meta("ct/volume").unwrap().dims(), ["y", "x"]);
    assert_eq!(new.attr_column("spacing").count(), 1);
    assert_eq!(new.names().collect::<Vec<_>>(), ["ct", "ct/volume"]);
}

#[test]
fn several_boxes_and_memory_of_the_caller_are_filled() {
    let mut store = memory();
    for name in ["a", "b"] {
        store.define(name, ArraySpec::new(DType::UInt16, &[3, 3]).chunks(&[2, 2])).unwrap();
        store.write(name, &[0, 0], array![[1_u16, 2, 3], [4, 5, 6], [7, 8, 9]]).unwrap();
    }
    store.flush().unwrap();
    let boxes: [(&str, &[u64], &[u64]); 3] =
        [("a", &[1, 1], &[2, 2]), ("b", &[0, 2], &[3, 1]), ("a", &[0, 0], &[0, 3])];
    let read = store.read_many(&boxes).unwrap();
    assert_eq!(read[0], array![[5_u16, 6], [8, 9]].into());
    assert_eq!(read[1], array![[3_u16], [6], [9]].into());
    assert_eq!(read[2].shape(), [0, 3]);
    let mut out = [0xFF; 8];
    store.read_into("a", &[1, 1], &[2, 2], &mut out).unwrap();
    assert_eq!(out, [5, 0, 6, 0, 8, 0, 9, 0]);
    assert!(store.read_into("a", &[1, 1], &[2, 2], &mut [0; 7]).is_err());
}

#[test]
fn a_folder_is_read_by_another_process_and_as_a_single_file() {
    let folder = tempfile::tempdir().unwrap();
    let location = || Location::folder(folder.path().join("x.arrays")).unwrap();
    let options = StoreOptions::default();
    let mut store = ArrayStore::create(location(), options.clone()).unwrap();
    assert!(matches!(
        ArrayStore::create(location(), options.clone()),
        Err(ArrayError::Exists { .. })
    ));
    store.define("a", ArraySpec::new(DType::Int32, &[100]).chunks(&[7])).unwrap();
    let numbers = ndarray::Array1::from_iter(0..100_i32);
    store.write("a", &[0], &numbers).unwrap();
    store.flush().unwrap();
    store.write("a", &[50], array![-1, -2]).unwrap();
    store.flush().unwrap();
    let again = ArrayStore::open(location(), options.clone()).unwrap();
    let expected = store.read_all("a").unwrap();
    assert_eq!(again.read_all("a").unwrap(), expected);
    assert_eq!(again.history().unwrap(), [0, 1, 2]);

    let target = object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    let path = object_store::path::Path::from("x.iac");
    again.snapshot().export(&target, &path, &options).unwrap();
    let files = Location::folder(folder.path()).unwrap();
    let file = Snapshot::open_file(files.clone(), "x.iac", &options).unwrap();
    assert_eq!(file.read_all("a").unwrap(), expected);
    assert!(file.verify().unwrap().is_empty());
    let bytes = std::fs::read(folder.path().join("x.iac")).unwrap();
    for cut in [0, 7, 65_535, 65_536, bytes.len() - 1] {
        std::fs::write(folder.path().join("cut.iac"), &bytes[..cut]).unwrap();
        assert!(Snapshot::open_file(files.clone(), "cut.iac", &options).is_err(), "{cut}");
    }
}

#[test]
fn a_huge_array_costs_what_is_written_of_it() {
    let mut store = memory();
    let shape = [1 << 40, 1 << 20, 3];
    store.define("a", ArraySpec::new(DType::UInt8, &shape).chunks(&[512, 512, 3])).unwrap();
    let at = [(1 << 40) - 2, 700, 1];
    store.write("a", &at, array![[[1_u8, 2]], [[3, 4]]]).unwrap();
    assert!(store.flush().unwrap().layer_bytes < 80_000);
    let back = store.read("a", &[(1 << 40) - 3, 699, 0], &[3, 2, 3]).unwrap();
    let back = back.to_ndarray::<u8>().unwrap();
    assert_eq!(back.iter().map(|value| u32::from(*value)).sum::<u32>(), 10);
    assert_eq!(back[[2, 1, 2]], 4);
    assert!(matches!(
        store.read_all("a"),
        Err(ArrayError::System { .. } | ArrayError::TooLarge { .. })
    ));
    assert!(matches!(store.snapshot().stats("a"), Err(ArrayError::TooLarge { .. })));
    store.resize("a", &[0, 1, u64::MAX]).unwrap();
    store.resize("a", &shape).unwrap();
    store.flush().unwrap();
    assert_eq!(store.read("a", &at, &[2, 1, 2]).unwrap(), array![[[0_u8, 0]], [[0, 0]]].into());
}

#[test]
fn steps_start_anywhere_and_may_be_wider_than_chunks() {
    let mut store = memory();
    store.define("a", ArraySpec::new(DType::Int32, &[100, 10]).chunks(&[3, 4])).unwrap();
    let numbers = ndarray::Array2::from_shape_fn((100, 10), |(y, x)| (y * 10 + x) as i32);
    store.write("a", &[0, 0], &numbers).unwrap();
    store.flush().unwrap();
    for (step, count) in [([7, 3], [13, 3]), ([1, 9], [98, 1]), ([50, 1], [2, 7])] {
        let read = store.read_step("a", &[2, 3], &count, &step).unwrap();
        let expected =
            ndarray::Array2::from_shape_fn((count[0] as usize, count[1] as usize), |(y, x)| {
                numbers[[2 + y * step[0] as usize, 3 + x * step[1] as usize]]
            });
        assert_eq!(read, expected.into());
    }
}

/// Stores every byte inverted, and a run of one byte as one.
struct Runs;

impl ByteCodec for Runs {
    fn name(&self) -> &str {
        "test.runs"
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>, CodecError> {
        let runs = record.chunk_by(|a, b| a == b);
        Ok(runs
            .flat_map(|run| run.chunks(255))
            .flat_map(|run| [run.len() as u8, !run[0]])
            .collect())
    }

    fn decode(&self, payload: &[u8], _: &Limits) -> Result<Vec<u8>, CodecError> {
        Ok(payload.chunks(2).flat_map(|run| vec![!run[1]; usize::from(run[0])]).collect())
    }
}

#[test]
fn a_codec_of_the_caller_is_read_by_those_who_know_it() {
    let location = Location::memory();
    let registry = Registry::builtin();
    registry.register("test.runs", |_| Ok(Codec::from_byte_codec(Runs))).unwrap();
    let options = StoreOptions::default()
        .packing(Packing::new(Codec::from_byte_codec(Runs)).unwrap())
        .registry(Arc::new(registry));
    let mut store = ArrayStore::create(location.clone(), options.clone()).unwrap();
    store.define("a", ArraySpec::new(DType::UInt8, &[300])).unwrap();
    store.write("a", &[0], ndarray::Array1::from_elem(299, 9_u8)).unwrap();
    store.flush().unwrap();
    store.write("a", &[10], array![1_u8]).unwrap();
    store.flush().unwrap();
    let expected = store.read_all("a").unwrap();
    let again = ArrayStore::open(location.clone(), options).unwrap();
    assert_eq!(again.read_all("a").unwrap(), expected);
    let other = ArrayStore::open(location, StoreOptions::default()).unwrap();
    assert_eq!(other.meta("a").unwrap().shape(), [300]);
    let error = other.read_all("a").unwrap_err();
    assert!(
        matches!(error, ArrayError::UnknownCodec { ref name } if name == "test.runs"),
        "{error}"
    );
}

#[test]
fn an_array_keeps_its_own_packing_whoever_writes_it() {
    let memory = Arc::new(object_store::memory::InMemory::new());
    let place = || {
        let store = Arc::clone(&memory) as Arc<dyn object_store::ObjectStore>;
        Location::object_store(store, "")
    };
    let numbers: ndarray::Array1<u32> = (0..100_000_u32).map(|at| at % 7 * 1000).collect();
    let tight = Packing::zstd(19).unwrap().with_filters(&[Filter::BitShuffle]);
    let loose = StoreOptions::default().packing(Packing::none());
    let mut store = ArrayStore::create(place(), loose.clone()).unwrap();
    let spec = ArraySpec::new(DType::UInt32, &[100_000]).chunks(&[10_000]);
    store.define("tight", spec.clone().packing(&tight)).unwrap();
    store.define("loose", spec).unwrap();
    store.flush().unwrap();
    let mut store = ArrayStore::open(place(), loose).unwrap();
    store.write("tight", &[0], &numbers).unwrap();
    let small = store.flush().unwrap().layer_bytes;
    store.write("loose", &[0], &numbers).unwrap();
    let large = store.flush().unwrap().layer_bytes;
    assert!(large > 400_000 && small < large / 3, "{small} and {large}");
    for name in ["tight", "loose"] {
        let found = store.read_all(name).unwrap().to_ndarray::<u32>().unwrap();
        assert_eq!(found, numbers.clone().into_dyn());
    }
}

#[test]
fn chunks_that_are_hidden_or_deleted_ask_for_compaction() {
    let mut store = memory();
    for name in ["a", "b"] {
        store.define(name, ArraySpec::new(DType::Int32, &[400]).chunks(&[100])).unwrap();
        store.write(name, &[0], (0..400).collect::<ndarray::Array1<i32>>()).unwrap();
    }
    assert!(!store.flush().unwrap().needs_compaction);
    store.write("a", &[0], (5..105).collect::<ndarray::Array1<i32>>()).unwrap();
    assert!(!store.flush().unwrap().needs_compaction, "one chunk of nine");
    store.delete("b").unwrap();
    assert!(store.flush().unwrap().needs_compaction);
    assert!(!store.compact(CompactPolicy::All).unwrap().needs_compaction);
    store.write("a", &[0], (7..407).collect::<ndarray::Array1<i32>>()).unwrap();
    assert!(store.flush().unwrap().needs_compaction);
}

#[test]
fn a_long_fill_text_of_many_elements_is_refused_before_memory_is_taken() {
    let mut store = memory();
    let fill = ArrayData::from_texts(&[], ["x".repeat(1 << 20)]).unwrap();
    let spec = ArraySpec::new(DType::Utf8, &[1 << 20]).chunks(&[1 << 10]).fill_data(fill);
    store.define("t", spec).unwrap();
    let error = store.read_all("t").unwrap_err();
    assert!(matches!(error, ArrayError::TooLarge { found, .. } if found == 1 << 40), "{error}");
    assert_eq!(store.read("t", &[7], &[3]).unwrap().shape(), [3]);
}

#[test]
fn limits_are_kept_at_and_refused_one_above() {
    let mut store = memory();
    let spec = |shape: &[u64]| ArraySpec::new(DType::UInt8, shape);
    let too_large = |result: Result<(), ArrayError>, what: &str| {
        assert!(matches!(result, Err(ArrayError::TooLarge { .. })), "{what}");
    };
    // Rank.
    store.define("rank", spec(&[1; 32])).unwrap();
    store
        .write("rank", &[0; 32], ArrayData::from_bytes(DType::UInt8, &[1; 32], vec![7]).unwrap())
        .unwrap();
    assert_eq!(store.read_all("rank").unwrap().as_bytes(), Some(&[7][..]));
    assert!(store.define("x", spec(&[1; 33])).is_err());
    // Names and attributes.
    store.define(&"n".repeat(4096), spec(&[1])).unwrap();
    assert!(store.define(&"n".repeat(4097), spec(&[1])).is_err());
    let bytes = |count: usize| Attr::Bytes(vec![1; count]);
    store.set_attr("rank", "k", bytes(16 << 20)).unwrap();
    assert!(store.set_attr("rank", "k", bytes((16 << 20) + 1)).is_err());
    store.set_attr("rank", "k", bytes(1)).unwrap();
    // Bytes of a chunk, of one element, and number of chunks.
    let wide = |chunk: u64| spec(&[1 << 40]).chunks(&[chunk]);
    store.define("chunk", wide(1 << 30)).unwrap();
    too_large(store.define("x", wide((1 << 30) + 1)), "chunk");
    let two = |chunk: u64| ArraySpec::new(DType::UInt16, &[1 << 40]).chunks(&[chunk]);
    store.define("two", two(1 << 29)).unwrap();
    too_large(store.define("x", two((1 << 29) + 1)), "chunk of two bytes");
    store.define("axis", spec(&[(1 << 63) - 1]).chunks(&[1])).unwrap();
    assert!(store.define("x", spec(&[1 << 63]).chunks(&[1])).is_err());
    assert!(store.define("x", spec(&[1 << 62, 2]).chunks(&[1, 1])).is_err());
    assert!(store.define("x", spec(&[u64::MAX, u64::MAX]).chunks(&[1, 1])).is_err());
    store.define("longest", spec(&[u64::MAX]).chunks(&[1 << 10])).unwrap();
    store.write("longest", &[u64::MAX - 1], array![9_u8]).unwrap();
    let past = store.write("longest", &[u64::MAX], array![9_u8]);
    assert!(matches!(past, Err(ArrayError::OutOfBounds { .. })));
    let past = store.append("longest", 0, array![9_u8]);
    assert!(past.is_err());
    store.define("element", ArraySpec::new(DType::FixedBinary(16 << 20), &[2])).unwrap();
    assert!(store.define("x", ArraySpec::new(DType::FixedBinary((16 << 20) + 1), &[2])).is_err());
    too_large(store.erase("axis", &[0], &[(1 << 24) + 1]), "chunks of a call");
    // What is at the limits is read back.
    store.flush().unwrap();
    assert_eq!(store.read("longest", &[u64::MAX - 2], &[2]).unwrap(), array![0_u8, 9].into());
    assert_eq!(store.meta(&"n".repeat(4096)).unwrap().shape(), [1]);
    assert_eq!(store.meta("axis").unwrap().shape(), [(1 << 63) - 1]);
    // Fill values are elements of the type, not numbers that may be converted.
    assert!(store.define("x", spec(&[1]).fill(-1_i16)).is_err());
    let two = ArrayData::from(array![1_u8, 2]);
    assert!(store.define("x", spec(&[1]).fill_data(two)).is_err());
}

#[test]
fn what_was_cut_off_reads_as_fill_when_the_array_grows_again() {
    for packing in [Packing::none(), Packing::zstd(3).unwrap()] {
        let options = StoreOptions::default().packing(packing);
        let mut store = ArrayStore::create(Location::memory(), options).unwrap();
        let spec = ArraySpec::new(DType::Int32, &[4, 10]).chunks(&[2, 4]).fill(-1);
        store.define("a", spec).unwrap();
        let all = ndarray::Array2::from_shape_fn((4, 10), |(y, x)| (y * 10 + x) as i32);
        store.write("a", &[0, 0], &all).unwrap();
        store.flush().unwrap();
        for flushed in [true, false] {
            store.resize("a", &[3, 5]).unwrap();
            if flushed {
                store.flush().unwrap();
            }
            store.resize("a", &[5, 9]).unwrap();
            store.flush().unwrap();
        }
        let expected =
            ndarray::Array2::from_shape_fn(
                (5, 9),
                |(y, x)| {
                    if y < 3 && x < 5 { all[[y, x]] } else { -1 }
                },
            );
        for policy in [None, Some(CompactPolicy::Tiers), Some(CompactPolicy::All)] {
            if let Some(policy) = policy {
                store.compact(policy).unwrap();
            }
            assert_eq!(store.read_all("a").unwrap(), (&expected).into());
        }
        assert_eq!(store.open_at(1).unwrap().read_all("a").unwrap(), (&all).into());
    }
}

#[test]
fn a_shared_cache_never_serves_the_bytes_of_another_store() {
    let cache = iac_array::ArrayCache::default();
    let options = StoreOptions::default().cache(&cache);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| Location::folder(folder.path().join(name)).unwrap();
    let fill = |location: Location, value: i32| {
        let mut store = ArrayStore::create(location, options.clone()).unwrap();
        store.define("a", ArraySpec::new(DType::Int32, &[64]).chunks(&[8])).unwrap();
        let numbers: ndarray::Array1<i32> = (0..64).map(|at| at * 100 + value).collect();
        store.write("a", &[0], &numbers).unwrap();
        store.flush().unwrap();
        (store, ArrayData::from(&numbers))
    };
    // The same path in memory, in two folders, and once more where a store was before.
    let mut stores = vec![
        fill(Location::memory(), 1),
        fill(Location::memory(), 2),
        fill(at("x"), 3),
        fill(at("y"), 4),
    ];
    for _ in 0..2 {
        for (store, expected) in &stores {
            assert_eq!(store.read_all("a").unwrap(), *expected);
        }
    }
    let (old, _) = stores.remove(2);
    std::fs::remove_dir_all(folder.path().join("x")).unwrap();
    stores.push(fill(at("x"), 5));
    for (store, expected) in &stores {
        assert_eq!(store.read_all("a").unwrap(), *expected);
        let other = ArrayStore::open(at("x"), options.clone()).unwrap();
        assert_eq!(other.read_all("a").unwrap(), stores[3].1);
    }
    // The one that is gone gives what it has in the cache, or says so.
    match old.read_all("a") {
        Ok(found) => assert_eq!(found.as_bytes().unwrap()[..4], [3, 0, 0, 0]),
        Err(error) => assert!(matches!(error, ArrayError::SnapshotExpired { .. }), "{error}"),
    }
}

#[test]
fn statistics_of_floats_are_those_of_a_look_at_every_element() {
    for fill in [0.0_f32, -1.5, f32::NAN] {
        let mut store = memory();
        let spec = ArraySpec::new(DType::Float32, &[40]).chunks(&[7]).fill(fill);
        store.define("a", spec).unwrap();
        let mut model = [fill; 40];
        for round in 0..12_u64 {
            let start = (round * 11 % 35) as usize;
            let part: Vec<f32> = (0..5_u64)
                .map(|at| match (round * 5 + at) % 7 {
                    0 => f32::NAN,
                    1 => fill,
                    2 if round % 3 == 0 => f32::INFINITY,
                    _ => ((round * 13 + at * 7) % 23) as f32 - 11.0,
                })
                .collect();
            if round % 5 == 4 {
                store.erase("a", &[start as u64], &[5]).unwrap();
                model[start..start + 5].fill(fill);
            } else {
                store.write("a", &[start as u64], ndarray::Array1::from_vec(part.clone())).unwrap();
                model[start..start + 5].copy_from_slice(&part);
            }
            store.flush().unwrap();
            if round % 4 == 3 {
                store.compact(CompactPolicy::All).unwrap();
            }
            let stats = store.snapshot().stats("a").unwrap();
            assert!(stats.exact);
            let is_fill = |value: &&f32| value.to_bits() == fill.to_bits();
            let others = || model.iter().filter(|value| !is_fill(value));
            let values = || others().copied().filter(|value| !value.is_nan());
            assert_eq!(stats.fill_count, model.iter().filter(is_fill).count() as u64);
            assert_eq!(stats.nan_count, others().filter(|value| value.is_nan()).count() as u64);
            assert_eq!(stats.value_count, values().count() as u64);
            let range = values().reduce(f32::min).zip(values().reduce(f32::max));
            assert_eq!(stats.range, range.map(|(a, b)| (a.into(), b.into())));
        }
    }
}

/// A store of a one-dimensional array whose chunks lie in so many layers.
fn layered(layers: u64) -> ArrayStore {
    let mut store = memory();
    store.define("a", ArraySpec::new(DType::Int32, &[layers * 4]).chunks(&[2])).unwrap();
    for layer in 0..layers {
        let at = i32::try_from(layer * 4).unwrap();
        store.write("a", &[layer * 4], array![at, at + 1, at + 2, at + 3]).unwrap();
        store.flush().unwrap();
    }
    store
}

#[test]
fn what_is_known_of_many_layers_is_not_used_for_another_shape_or_version() {
    let mut store = layered(40);
    let counted = |end: i32| ArrayData::from((0..end).collect::<ndarray::Array1<i32>>());
    for _ in 0..2 {
        assert_eq!(store.read_all("a").unwrap(), counted(160));
        assert_eq!(store.read("a", &[77], &[1]).unwrap(), array![77_i32].into());
    }
    let old = store.snapshot();
    // Chunks have other places in what is pending, and less of them counts.
    store.resize("a", &[31]).unwrap();
    store.resize("a", &[200]).unwrap();
    let mut cut: Vec<i32> = (0..31).collect();
    cut.resize(200, 0);
    let cut = ArrayData::from(ndarray::Array1::from_vec(cut));
    for _ in 0..2 {
        assert_eq!(store.read_all("a").unwrap(), cut);
        assert_eq!(store.read("a", &[190], &[1]).unwrap(), array![0_i32].into());
        assert_eq!(old.read_all("a").unwrap(), counted(160));
    }
    store.flush().unwrap();
    store.write("a", &[0], array![-1_i32]).unwrap();
    store.flush().unwrap();
    assert_eq!(store.read("a", &[0], &[2]).unwrap(), array![-1_i32, 1].into());
    assert_eq!(store.read("a", &[31], &[2]).unwrap(), array![0_i32, 0].into());
    assert_eq!(old.read_all("a").unwrap(), counted(160));
}

#[test]
fn arrays_are_found_by_name_however_many_were_looked_for() {
    let mut store = memory();
    for number in 0..300 {
        let name = format!("group {}/{number}", number % 7);
        store.define(&name, ArraySpec::new(DType::Int32, &[2])).unwrap();
        store.write(&name, &[0], array![number, -number]).unwrap();
    }
    store.flush().unwrap();
    store.delete("group 3/101").unwrap();
    store.flush().unwrap();
    let snapshot = store.snapshot();
    for _ in 0..2 {
        for number in 0..300 {
            let name = format!("group {}/{number}", number % 7);
            if number == 101 {
                let error = snapshot.read_all(&name).unwrap_err();
                assert!(matches!(error, ArrayError::NotFound { .. }));
                continue;
            }
            assert_eq!(snapshot.read_all(&name).unwrap(), array![number, -number].into());
        }
    }
    let names: Vec<&str> = snapshot.as_async().names().collect();
    assert_eq!(names.len(), 299);
    assert!(names.is_sorted());
}

#[test]
fn large_boxes_are_put_together_by_several_threads() {
    // Boxes of several MiB, with steps, over chunks that do not divide them, and over one chunk.
    let shape = [3_u64, 700, 900];
    let number = |z: u64, y: u64, x: u64| i32::try_from((z * 700 + y) * 900 + x).unwrap();
    let whole = ndarray::Array3::from_shape_fn((3, 700, 900), |(z, y, x)| {
        number(z as u64, y as u64, x as u64)
    });
    for chunks in [[1, 129, 900], [2, 64, 100], [3, 700, 900]] {
        for packing in [Packing::none(), Packing::lz4()] {
            let folder = tempfile::tempdir().unwrap();
            let options = StoreOptions::default().packing(packing);
            let place = Location::folder(folder.path()).unwrap();
            let mut store = ArrayStore::create(place, options.clone()).unwrap();
            store.define("a", ArraySpec::new(DType::Int32, &shape).chunks(&chunks)).unwrap();
            store.write("a", &[0, 0, 0], &whole).unwrap();
            store.flush().unwrap();
            let small = iac_array::ArrayCache::new(1 << 20);
            for options in [options.clone(), options.cache(&small)] {
                let place = Location::folder(folder.path()).unwrap();
                let store = ArrayStore::open(place, options).unwrap();
                for _ in 0..2 {
                    assert_eq!(store.read_all("a").unwrap(), ArrayData::from(&whole));
                    let found = store.read("a", &[1, 3, 5], &[1, 690, 880]).unwrap();
                    let expected = whole.slice(ndarray::s![1..2, 3..693, 5..885]);
                    assert_eq!(found, ArrayData::from(&expected));
                    let found =
                        store.read_step("a", &[0, 1, 2], &[2, 349, 299], &[2, 2, 3]).unwrap();
                    let expected = whole.slice(ndarray::s![0..3;2, 1..698;2, 2..899;3]);
                    assert_eq!(found, ArrayData::from(&expected));
                }
            }
        }
    }
}
