//! Changes that are more than memory may hold wait in a temporary file.
#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

#[path = "../../iac-codec/tests/common/counting.rs"]
mod counting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use iac_array::blocking::ArrayStore;
use iac_array::{
    ArrayCache, ArrayData, ArrayError, ArraySpec, CompactPolicy, DType, Location, LockFuture,
    Packing, PublishGuard, PublishLock, StoreOptions,
};
use ndarray::{Array1, array};

/// Tests of this file run one after the other: they count the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;

/// Bytes that do not shrink, of a number.
fn noise(seed: u64, count: usize) -> Array1<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    Array1::from_shape_simple_fn(count, || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

fn options(memory: usize) -> StoreOptions {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    StoreOptions::default()
        .packing(Packing::lz4())
        .pending_bytes(memory as u64)
        .cache(&ArrayCache::new(0))
        .pool(Arc::new(pool))
}

#[test]
fn writing_and_compacting_take_bounded_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    const ALL: usize = 96;
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("tmp");
    std::fs::create_dir(&spool).unwrap();
    let location = Location::folder(folder.path().join("s")).unwrap();
    let options = options(4 * MIB).temporary_folder(&spool);
    let mut store = ArrayStore::create(location, options).unwrap();
    let spec = ArraySpec::new(DType::UInt8, &[(ALL * MIB) as u64]).chunks(&[MIB as u64 / 2]);
    store.define("a", spec).unwrap();
    let start = counting::begin();
    for part in 0..ALL {
        store.write("a", &[(part * MIB) as u64], noise(part as u64, MIB)).unwrap();
        assert!(store.as_async().pending_bytes() <= 5 * MIB as u64);
    }
    assert!(store.as_async().spooled_bytes() > (ALL - 6) as u64 * MIB as u64);
    assert_eq!(store.read("a", &[0], &[MIB as u64]).unwrap(), noise(0, MIB).into());
    store.flush().unwrap();
    assert_eq!((store.as_async().pending_bytes(), store.as_async().spooled_bytes()), (0, 0));
    let most = |what: &str| {
        let taken = counting::most_above(start);
        assert!(taken < 32 * MIB, "{what} took {} MiB", taken / MIB);
        counting::begin();
    };
    most("writing");
    // Half of a chunk: its block is packed again, the others are copied.
    store.write("a", &[MIB as u64 / 4], noise(500, MIB / 4)).unwrap();
    store.flush().unwrap();
    counting::begin();
    store.compact(CompactPolicy::All).unwrap();
    most("compacting");
    for part in [1, 50, ALL - 1] {
        let read = store.read("a", &[(part * MIB) as u64], &[MIB as u64]).unwrap();
        assert_eq!(read, noise(part as u64, MIB).into());
    }
    let read = store.read("a", &[MIB as u64 / 4], &[MIB as u64 / 4]).unwrap();
    assert_eq!(read, noise(500, MIB / 4).into());
    assert!(store.snapshot().verify().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0, "temporary files have no names");
}

#[test]
fn one_write_that_is_larger_than_memory_is_made_some_chunks_at_a_time() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let location = Location::folder(folder.path()).unwrap();
    let mut store = ArrayStore::create(location, options(2 * MIB)).unwrap();
    let spec = ArraySpec::new(DType::UInt8, &[32 * MIB as u64]).chunks(&[100_000]);
    store.define("a", spec).unwrap();
    let all = ArrayData::from(noise(1, 32 * MIB));
    let start = counting::begin();
    store.write("a", &[0], all.clone()).unwrap();
    store.flush().unwrap();
    let taken = counting::most_above(start);
    // The clone that is written is 32 MiB of it.
    assert!(taken < 32 * MIB + 24 * MIB, "{} MiB", taken / MIB);
    assert_eq!(store.read_all("a").unwrap(), all);
    assert!(store.snapshot().verify().unwrap().is_empty());
}

#[test]
fn chunks_that_are_written_again_leave_no_dead_bytes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for chunk in [3000_u64, 700_000] {
        let mut store = ArrayStore::create(Location::memory(), options(MIB)).unwrap();
        let length = 4 * MIB;
        let spec = ArraySpec::new(DType::UInt8, &[length as u64]).chunks(&[chunk]);
        store.define("a", spec).unwrap();
        let mut model = Array1::zeros(length);
        for round in 0..3 {
            for at in (0..length).step_by(200_000) {
                // In later rounds only every other part: blocks are needed in part.
                if round == 0 || at % 400_000 == 0 {
                    let part = noise((round * length + at) as u64, 200_000.min(length - at));
                    model.slice_mut(ndarray::s![at..at + part.len()]).assign(&part);
                    store.write("a", &[at as u64], part).unwrap();
                }
            }
        }
        assert_eq!(store.read_all("a").unwrap(), ArrayData::from(&model));
        assert!(store.as_async().spooled_bytes() > length as u64 * 3 / 2);
        let report = store.flush().unwrap();
        assert!(report.layer_bytes < length as u64 * 105 / 100, "{} bytes", report.layer_bytes);
        assert_eq!(store.read_all("a").unwrap(), ArrayData::from(&model));
        assert!(store.snapshot().verify().unwrap().is_empty());
    }
}

#[test]
fn what_waits_in_the_file_is_cut_erased_lengthened_and_forgotten() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut store = ArrayStore::create(Location::memory(), options(0)).unwrap();
    let spec = ArraySpec::new(DType::Int32, &[100]).chunks(&[30]).fill(-1_i32).nullable();
    store.define("n", spec).unwrap();
    store.define("t", ArraySpec::new(DType::Utf8, &[5]).chunks(&[2])).unwrap();
    store.flush().unwrap();
    let mut model: Vec<Option<i32>> = (0..100).map(|at| (at % 7 != 0).then_some(at)).collect();
    let numbers = Array1::from_vec(model.clone());
    store.write("n", &[0], ArrayData::from_options(&numbers)).unwrap();
    store.write("n", &[60], Array1::from_elem(30, 5_i32)).unwrap();
    model[60..90].fill(Some(5));
    let texts = ["a", "", "long text", "long text", "µ"];
    store.write("t", &[0], ArrayData::from_texts(&[5], texts).unwrap()).unwrap();
    let spooled = store.as_async().spooled_bytes();
    assert!(spooled > 0);
    store.erase("n", &[25], &[10]).unwrap();
    model[25..35].fill(Some(-1));
    store.resize("n", &[70]).unwrap();
    store.resize("n", &[110]).unwrap();
    model.truncate(70);
    model.resize(110, Some(-1));
    store.append("n", 0, array![1, 2]).unwrap();
    model.extend([Some(1), Some(2)]);
    let check = |store: &ArrayStore| {
        let found = store.read_all("n").unwrap().to_options::<i32>().unwrap();
        assert_eq!(found, Array1::from_vec(model.clone()).into_dyn());
        assert_eq!(store.read_all("t").unwrap().texts().unwrap(), texts);
    };
    check(&store);
    store.flush().unwrap();
    check(&store);
    assert_eq!(store.as_async().spooled_bytes(), 0);
    store.write("n", &[0], Array1::from_elem(100, 9_i32)).unwrap();
    store.delete("t").unwrap();
    store.discard();
    check(&store);
    store.compact(CompactPolicy::All).unwrap();
    check(&store);
    assert!(store.snapshot().verify().unwrap().is_empty());
}

/// A lock that fails while it is told to.
#[derive(Debug, Default)]
struct Lock(AtomicBool);

struct Held;

impl PublishLock for Lock {
    fn acquire<'a>(&'a self, _: &'a str) -> LockFuture<'a, Box<dyn PublishGuard>> {
        let fails = self.0.load(Ordering::SeqCst);
        Box::pin(async move {
            if fails { Err("not now".into()) } else { Ok(Box::new(Held) as Box<dyn PublishGuard>) }
        })
    }
}

impl PublishGuard for Held {
    fn release(self: Box<Self>) -> LockFuture<'static, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn a_flush_that_fails_keeps_what_is_in_the_file() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = Arc::new(Lock::default());
    let options = options(MIB).lock(lock.clone());
    let mut store = ArrayStore::create(Location::memory(), options).unwrap();
    let spec = ArraySpec::new(DType::UInt8, &[4 * MIB as u64]).chunks(&[70_000]);
    store.define("a", spec).unwrap();
    let all = ArrayData::from(noise(1, 4 * MIB));
    store.write("a", &[0], all.clone()).unwrap();
    let spooled = store.as_async().spooled_bytes();
    assert!(spooled >= 4 * MIB as u64);
    lock.0.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert!(matches!(store.flush(), Err(ArrayError::Lock { .. })));
        assert_eq!(store.as_async().spooled_bytes(), spooled);
        assert_eq!(store.read_all("a").unwrap(), all);
    }
    lock.0.store(false, Ordering::SeqCst);
    store.flush().unwrap();
    assert_eq!(store.read_all("a").unwrap(), all);
    assert_eq!(store.history().unwrap(), [0, 1]);
}

#[test]
fn a_write_that_finds_no_room_changes_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let options = options(1000).temporary_folder(folder.path().join("missing"));
    let mut store = ArrayStore::create(Location::memory(), options).unwrap();
    store.define("a", ArraySpec::new(DType::UInt8, &[4000]).chunks(&[400])).unwrap();
    store.write("a", &[0], noise(1, 400)).unwrap();
    let before = store.read_all("a").unwrap();
    let error = store.write("a", &[0], noise(2, 4000)).unwrap_err();
    assert!(matches!(error, ArrayError::System { what: "a temporary file", .. }), "{error}");
    assert_eq!(store.read_all("a").unwrap(), before);
    store.flush().unwrap();
    assert_eq!(store.read_all("a").unwrap(), before);
}

#[test]
fn a_large_chunk_that_is_written_row_by_row_stays_in_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut store = ArrayStore::create(Location::memory(), options(4 * MIB)).unwrap();
    let spec = ArraySpec::new(DType::UInt8, &[48, MIB as u64 / 16]).chunks(&[48, MIB as u64 / 16]);
    store.define("a", spec).unwrap();
    for row in 0..48 {
        let data = noise(row, MIB / 16).into_shape_with_order((1, MIB / 16)).unwrap();
        store.write("a", &[row, 0], data).unwrap();
        assert_eq!(store.as_async().spooled_bytes(), 0);
        assert_eq!(store.as_async().pending_bytes(), 3 * MIB as u64);
    }
    assert!(store.flush().unwrap().layer_bytes < 3 * MIB as u64 * 105 / 100);
}
