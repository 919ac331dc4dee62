//! Flipped bits of four stores: an error or the right values, and no more memory than is due.
//!
//! `IAC_FLIPS=full` flips every bit of every byte, as `make soak` does; otherwise one bit of some
//! bytes is flipped. Of the zeros behind a header's text one in 4,999 is tried.
#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout
)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

mod common;
#[path = "../../iac-codec/tests/common/counting.rs"]
mod counting;

use std::sync::Arc;

use common::objects;
use iac_array::{
    ArrayCache, ArrayData, ArraySpec, ArrayStore, CompactPolicy, DType, Filter, Location, Packing,
    Result, StoreOptions,
};
use ndarray::{Array1, Array2, array};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

/// Memory that opening, reading and verifying a sample may take; all of them are far smaller.
const MOST_BYTES: usize = 16 << 20;

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().unwrap().block_on(future)
}

fn options(packing: Packing, pool: &Arc<rayon::ThreadPool>) -> StoreOptions {
    StoreOptions::default()
        .packing(packing)
        .block_bytes(64)
        .cache(&ArrayCache::new(0))
        .pool(Arc::clone(pool))
}

fn at(memory: &Arc<InMemory>) -> Location {
    Location::object_store(Arc::clone(memory) as Arc<dyn ObjectStore>, "s")
}

/// Numbers and texts in two layers.
async fn numbers(mut store: ArrayStore) -> ArrayStore {
    let spec = ArraySpec::new(DType::Int32, &[8, 6]).chunks(&[4, 4]).fill(-1_i32);
    store.define("n", spec.attr("unit", "mm")).unwrap();
    store.define("t", ArraySpec::new(DType::Utf8, &[3])).unwrap();
    let numbers = Array2::from_shape_fn((8, 6), |(y, x)| (y * 10 + x / 2) as i32);
    store.write("n", &[0, 0], &numbers).await.unwrap();
    store.write("t", &[0], ArrayData::from_texts(&[3], ["a", "", "long"]).unwrap()).await.unwrap();
    store.flush().await.unwrap();
    store.write("n", &[1, 1], array![[7, 8, 9]]).await.unwrap();
    store.erase("n", &[4, 0], &[4, 4]).await.unwrap();
    store.flush().await.unwrap();
    store
}

/// Nulls, lists, truth values, chunks of one value, a cut and a lengthened array.
async fn kinds(mut store: ArrayStore) -> ArrayStore {
    let list = DType::List(Box::new(DType::Int16));
    store.define("null", ArraySpec::new(DType::Float32, &[20]).chunks(&[6]).nullable()).unwrap();
    store.define("list", ArraySpec::new(list, &[4]).chunks(&[3])).unwrap();
    store.define("bool", ArraySpec::new(DType::Bool, &[9]).chunks(&[4])).unwrap();
    store.define("text", ArraySpec::new(DType::Utf8, &[6]).chunks(&[3]).nullable()).unwrap();
    let some: Array1<Option<f32>> = (0..15_u8).map(|at| (at % 4 > 0).then(|| at.into())).collect();
    store.write("null", &[2], ArrayData::from_options(&some)).await.unwrap();
    let lists = ArrayData::from_lists::<i16>(&[4], [&[1, 2][..], &[], &[-3], &[4, 5, 6]]).unwrap();
    store.write("list", &[0], lists).await.unwrap();
    let truth: Array1<bool> = (0..9).map(|at| at % 3 == 0).collect();
    store.write("bool", &[0], truth).await.unwrap();
    store.write("text", &[0], ArrayData::from_texts(&[3], ["same"; 3]).unwrap()).await.unwrap();
    store.flush().await.unwrap();
    store.resize("null", &[7]).unwrap();
    store.resize("null", &[18]).unwrap();
    store.erase("bool", &[2], &[3]).await.unwrap();
    store.flush().await.unwrap();
    store
}

/// Groups, attributes, deleted arrays, layers that were joined twice.
async fn joined(mut store: ArrayStore) -> ArrayStore {
    store.define_group("g").unwrap();
    store.define("g/a", ArraySpec::new(DType::UInt16, &[30]).chunks(&[4])).unwrap();
    store.define("gone", ArraySpec::new(DType::UInt8, &[3])).unwrap();
    store.set_store_attr("study", vec![1.5, 2.5]).unwrap();
    store.flush().await.unwrap();
    for round in 0..4_u16 {
        let part: Array1<u16> = (0..11).map(|at| at * 7 + round).collect();
        store.write("g/a", &[u64::from(round) * 5], part).await.unwrap();
        store.set_attr("g", "round", i64::from(round)).unwrap();
        store.flush().await.unwrap();
        if round % 2 == 1 {
            store.compact(CompactPolicy::Tiers).await.unwrap();
        }
    }
    store.delete("gone").unwrap();
    store.flush().await.unwrap();
    store
}

/// Blocks as they are, of many chunks, in one layer.
async fn plain(mut store: ArrayStore) -> ArrayStore {
    let spec = ArraySpec::new(DType::Float64, &[6, 5, 4]).chunks(&[2, 2, 2]).dims(&["z", "y", "x"]);
    store.define("a", spec).unwrap();
    store.define("scalar", ArraySpec::new(DType::Int64, &[])).unwrap();
    let volume = ndarray::Array3::from_shape_fn((6, 5, 4), |(z, y, x)| (z * y + x) as f64 / 3.0);
    store.write("a", &[0, 0, 0], &volume).await.unwrap();
    store.write("scalar", &[], ndarray::arr0(77_i64)).await.unwrap();
    store.flush().await.unwrap();
    store
}

async fn contents(store: &ArrayStore) -> Result<Vec<ArrayData>> {
    let mut all = Vec::new();
    for name in store.names() {
        if store.meta(&name)?.kind() == iac_array::NodeKind::Array {
            all.push(store.read_all(&name).await?);
        }
    }
    Ok(all)
}

/// Flips bits of a store one by one; how often that was refused, and how often nothing was changed.
async fn flip(
    memory: Arc<InMemory>,
    store: ArrayStore,
    options: StoreOptions,
    step: usize,
) -> (u64, u64) {
    let (names, expected) = (store.names(), contents(&store).await.unwrap());
    drop(store);
    let gc = iac_array::GcOptions { grace: std::time::Duration::ZERO, keep_versions: 1 };
    ArrayStore::open(at(&memory), options.clone()).await.unwrap().gc(gc).await.unwrap();
    let (mut refused, mut right) = (0, 0);
    let every = step == 1;
    for (path, bytes) in objects(&memory).await {
        let padding = 4096..65_536_usize;
        for at_byte in (0..bytes.len()).filter(|at| !padding.contains(at) || at % 4999 == 0) {
            if at_byte % step != 0 {
                continue;
            }
            let bits = if every { 0..8 } else { at_byte / step % 8..at_byte / step % 8 + 1 };
            for bit in bits {
                let mut damaged = bytes.clone();
                damaged[at_byte] ^= 1 << bit;
                memory.put(&path, PutPayload::from(damaged)).await.unwrap();
                let before = counting::begin();
                match ArrayStore::open(at(&memory), options.clone()).await {
                    Err(_) => refused += 1,
                    Ok(store) => {
                        match contents(&store).await {
                            Err(_) => refused += 1,
                            Ok(found) => {
                                assert_eq!(store.names(), names, "{path} byte {at_byte}");
                                assert_eq!(found, expected, "{path} byte {at_byte} bit {bit}");
                                right += 1;
                            }
                        }
                        let faults = store.snapshot().verify().await.unwrap();
                        assert!(
                            !faults.is_empty(),
                            "{path} byte {at_byte} bit {bit} is not noticed"
                        );
                    }
                }
                let taken = counting::most_above(before);
                assert!(taken < MOST_BYTES, "{path} byte {at_byte} bit {bit}: {taken} bytes");
            }
        }
        memory.put(&path, PutPayload::from(bytes)).await.unwrap();
    }
    let store = ArrayStore::open(at(&memory), options).await.unwrap();
    assert_eq!(contents(&store).await.unwrap(), expected);
    (refused, right)
}

#[test]
fn every_flipped_bit_gives_an_error_or_the_right_values() {
    let all = std::env::var("IAC_FLIPS").is_ok_and(|flips| flips == "full");
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let filtered = Packing::zstd(3).unwrap().with_filters(&[Filter::Delta, Filter::Shuffle]);
    let bits = Packing::lz4().with_filters(&[Filter::BitShuffle]);
    block_on(async {
        let (mut refused, mut right) = (0, 0);
        for (sample, packing) in
            [Packing::lz4(), filtered, bits, Packing::none()].into_iter().enumerate()
        {
            let memory = Arc::new(InMemory::new());
            let options = options(packing, &pool);
            let store = ArrayStore::create(at(&memory), options.clone()).await.unwrap();
            let store = match sample {
                0 => numbers(store).await,
                1 => kinds(store).await,
                2 => joined(store).await,
                _ => plain(store).await,
            };
            let step = if all { 1 } else { 3 };
            let (more_refused, more_right) = flip(memory, store, options, step).await;
            assert!(more_refused > 200, "{more_refused}");
            refused += more_refused;
            right += more_right;
        }
        println!("{refused} flips refused, {right} without effect");
        assert!(right > 10, "{right}");
    });
}
