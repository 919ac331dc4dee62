//! Two writers of hundreds of versions, and readers that stay at one while they come and go.
//!
//! `IAC_ARRAY_FLUSHES` says how many flushes each writer makes: 1000 in `make soak`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::print_stdout
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use iac_array::{
    ArrayCache, ArrayError, ArraySpec, ArrayStore, CompactPolicy, DType, GcOptions, Location,
    Packing, StoreOptions,
};
use ndarray::{Array1, array};
use object_store::ObjectStore;
use object_store::memory::InMemory;

fn flushes() -> u64 {
    std::env::var("IAC_ARRAY_FLUSHES").map_or(40, |number| number.parse().unwrap())
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}

fn options() -> StoreOptions {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    StoreOptions::default().packing(Packing::lz4()).cache(&ArrayCache::new(0)).pool(Arc::new(pool))
}

fn at(memory: &Arc<InMemory>) -> Location {
    Location::object_store(Arc::clone(memory) as Arc<dyn ObjectStore>, "s")
}

async fn with_arrays(memory: &Arc<InMemory>, names: &[&str], elements: u64) -> ArrayStore {
    let mut store = ArrayStore::create(at(memory), options()).await.unwrap();
    for name in names {
        store.define(name, ArraySpec::new(DType::UInt64, &[elements]).chunks(&[1])).unwrap();
    }
    store.flush().await.unwrap();
    store
}

/// Writes element after element of an array, each as a version; layers are joined on the way.
/// Conflicts of writers of one array are counted and tried anew.
async fn writer(memory: Arc<InMemory>, name: &str, first: u64, step: u64) -> u64 {
    let mut store = ArrayStore::open(at(&memory), options()).await.unwrap();
    let mut conflicts = 0;
    for number in 0..flushes() {
        let place = first + number * step;
        loop {
            store.write(name, &[place], array![place + 1]).await.unwrap();
            match store.flush().await {
                Ok(_) => break,
                // All 16 tries lost: changes are still there, and nobody changed the array.
                Err(ArrayError::Conflict { what, .. }) if what.starts_with("the store") => continue,
                Err(ArrayError::Conflict { .. }) => conflicts += 1,
                Err(error) => panic!("flush {number} of `{name}`: {error}"),
            }
            store.discard();
            store.refresh().await.unwrap();
        }
        if number % 25 == 24 {
            // The other writer may join the same layers first.
            match store.compact(CompactPolicy::Tiers).await {
                Ok(_) | Err(ArrayError::Conflict { .. }) => {}
                Err(error) => panic!("compaction after flush {number}: {error}"),
            }
        }
    }
    conflicts
}

#[test]
fn every_flush_of_two_writers_of_different_arrays_is_there() {
    block_on(async {
        let (memory, begin) = (Arc::new(InMemory::new()), Instant::now());
        drop(with_arrays(&memory, &["a", "b"], flushes()).await);
        let run = |name: &'static str| writer(Arc::clone(&memory), name, 0, 1);
        let (a, b) = tokio::join!(tokio::spawn(run("a")), tokio::spawn(run("b")));
        assert_eq!(a.unwrap() + b.unwrap(), 0, "joining layers changes no array");
        let store = ArrayStore::open(at(&memory), options()).await.unwrap();
        let expected: Array1<u64> = (1..=flushes()).collect();
        for name in ["a", "b"] {
            let found = store.read_all(name).await.unwrap().to_ndarray::<u64>().unwrap();
            assert_eq!(found, expected.clone().into_dyn());
        }
        assert!(store.snapshot().version() > 2 * flushes());
        println!(
            "2 writers x {} flushes, two arrays: no conflict, {:?}",
            flushes(),
            begin.elapsed()
        );
    });
}

#[test]
fn no_flush_that_two_writers_of_one_array_were_told_of_is_lost() {
    block_on(async {
        let (memory, begin) = (Arc::new(InMemory::new()), Instant::now());
        drop(with_arrays(&memory, &["n"], 2 * flushes()).await);
        let run = |first| writer(Arc::clone(&memory), "n", first, 2);
        let (even, odd) = tokio::join!(tokio::spawn(run(0)), tokio::spawn(run(1)));
        let conflicts = even.unwrap() + odd.unwrap();
        let store = ArrayStore::open(at(&memory), options()).await.unwrap();
        let found = store.read_all("n").await.unwrap().to_ndarray::<u64>().unwrap();
        assert_eq!(found, (1..=2 * flushes()).collect::<Array1<u64>>().into_dyn());
        println!(
            "2 writers x {} flushes, one array: {conflicts} conflicts, {:?}",
            flushes(),
            begin.elapsed()
        );
    });
}

#[test]
fn pinned_readers_read_the_same_through_flushes_compactions_and_gc() {
    block_on(async {
        let (memory, begin) = (Arc::new(InMemory::new()), Instant::now());
        let mut store = with_arrays(&memory, &["n"], 16).await;
        let mut pinned = Vec::new();
        for number in 0..flushes() {
            store.write("n", &[number % 16], array![number + 1]).await.unwrap();
            store.flush().await.unwrap();
            if number % 10 == 0 {
                store.compact(CompactPolicy::Tiers).await.unwrap();
                // What the grace time protects: everything, for all of this test.
                let gc = GcOptions { grace: Duration::from_secs(3600), keep_versions: 1 };
                let report = store.gc(gc).await.unwrap();
                assert!(report.layers.is_empty() && report.versions.is_empty(), "{report:?}");
            }
            if number % (flushes() / 4).max(1) == 0 {
                let reader = store.open_at(store.snapshot().version()).await.unwrap();
                let before = reader.read_all("n").await.unwrap();
                pinned.push((number, reader, before));
            }
            for (since, reader, before) in &pinned {
                let now = reader.read_all("n").await.unwrap();
                assert_eq!(now, *before, "pinned at {since}, flush {number}");
            }
        }
        println!("{} readers pinned, {} flushes: {:?}", pinned.len(), flushes(), begin.elapsed());
    });
}
