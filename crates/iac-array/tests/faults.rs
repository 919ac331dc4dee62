//! Damage, lost requests, other writers: an error or the right values, never anything else.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::panic)]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use common::objects;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use iac_array::{
    ArrayCache, ArrayData, ArrayError, ArraySpec, ArrayStore, CompactPolicy, DType, GcOptions,
    Location, Packing, Result, StoreOptions,
};
use ndarray::{Array1, Array2, array};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().unwrap().block_on(future)
}

fn options() -> StoreOptions {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    StoreOptions::default()
        .packing(Packing::lz4())
        .block_bytes(64)
        .cache(&ArrayCache::new(0))
        .pool(Arc::new(pool))
}

fn at(store: &Arc<InMemory>) -> Location {
    Location::object_store(Arc::clone(store) as Arc<dyn ObjectStore>, "s")
}

/// A store of two layers with numbers and texts.
async fn sample(memory: &Arc<InMemory>) -> ArrayStore {
    let mut store = ArrayStore::create(at(memory), options()).await.unwrap();
    let spec = ArraySpec::new(DType::Int32, &[8, 6]).chunks(&[4, 4]).fill(-1_i32);
    store.define("n", spec.attr("unit", "mm")).unwrap();
    store.define("t", ArraySpec::new(DType::Utf8, &[3])).unwrap();
    let spec = ArraySpec::new(DType::Int16, &[6]).chunks(&[4]).nullable();
    store.define("m", spec).unwrap();
    let known = array![Some(3_i16), None, Some(0), Some(-3), None];
    store.write("m", &[0], ArrayData::from_options(&known)).await.unwrap();
    let numbers = Array2::from_shape_fn((8, 6), |(y, x)| (y * 10 + x / 2) as i32);
    store.write("n", &[0, 0], &numbers).await.unwrap();
    store.write("t", &[0], ArrayData::from_texts(&[3], ["a", "", "long"]).unwrap()).await.unwrap();
    store.flush().await.unwrap();
    store.write("n", &[1, 1], array![[7, 8, 9]]).await.unwrap();
    store.erase("n", &[4, 0], &[4, 4]).await.unwrap();
    store.flush().await.unwrap();
    store
}

async fn contents(store: &ArrayStore) -> Result<Vec<ArrayData>> {
    let mut all = Vec::new();
    for name in store.names() {
        all.push(store.read_all(&name).await?);
    }
    Ok(all)
}

async fn with(
    objects: &[(Path, Vec<u8>)],
    changed: usize,
    bytes: Option<Vec<u8>>,
) -> Arc<InMemory> {
    let memory = InMemory::new();
    for (number, (path, original)) in objects.iter().enumerate() {
        let bytes = if number == changed { bytes.clone() } else { Some(original.clone()) };
        if let Some(bytes) = bytes {
            memory.put(path, PutPayload::from(bytes)).await.unwrap();
        }
    }
    Arc::new(memory)
}

/// Places worth changing: all but most of the zeros behind a header's text.
fn places(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let padding = 4096..65_536_usize;
    (0..bytes.len()).filter(move |at| !padding.contains(at) || at % 4999 == 0)
}

#[test]
fn every_cut_and_every_missing_object_gives_an_error_or_an_older_version() {
    block_on(async {
        let memory = Arc::new(InMemory::new());
        let expected = contents(&sample(&memory).await).await.unwrap();
        let objects = objects(&memory).await;
        for (number, (path, bytes)) in objects.iter().enumerate() {
            let cuts = places(bytes).step_by(3).map(|cut| Some(bytes[..cut].to_vec()));
            for cut in cuts.chain([None]) {
                let what = cut.as_ref().map(Vec::len);
                let memory = with(&objects, number, cut).await;
                let Ok(store) = ArrayStore::open(at(&memory), options()).await else {
                    continue;
                };
                if store.snapshot().version() < 2 {
                    assert!(what.is_none() && path.as_ref().contains("versions"));
                    continue;
                }
                if let Ok(found) = contents(&store).await {
                    assert_eq!(found, expected, "{path} cut at {what:?}");
                }
            }
        }
    });
}

/// A store whose n-th request fails: before it is carried out, or after, so that the answer is lost.
#[derive(Debug)]
struct Faulty {
    inner: Arc<InMemory>,
    left: AtomicI64,
    after: bool,
    /// What answers say of the bytes that they have, made of what is true.
    says: fn(Range<u64>) -> Range<u64>,
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("faulty")
    }
}

impl Faulty {
    fn fails(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 0
    }

    async fn around<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        let fails = self.fails();
        let lost = || object_store::Error::Generic { store: "faulty", source: "lost".into() };
        if fails && !self.after {
            return Err(lost());
        }
        let answer = request.await;
        if fails { Err(lost()) } else { answer }
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.around(self.inner.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.around(self.inner.put_multipart_opts(path, options)).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let mut answer = self.around(self.inner.get_opts(path, options)).await?;
        answer.range = (self.says)(answer.range);
        Ok(answer)
    }

    async fn get_ranges(
        &self,
        path: &Path,
        ranges: &[Range<u64>],
    ) -> object_store::Result<Vec<Bytes>> {
        self.around(self.inner.get_ranges(path, ranges)).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        if !self.fails() {
            return self.inner.delete_stream(paths);
        }
        let lost = || object_store::Error::Generic { store: "faulty", source: "lost".into() };
        if self.after {
            let deleted = self.inner.delete_stream(paths);
            return deleted.map(move |_| Err(lost())).boxed();
        }
        paths.map(move |_| Err(lost())).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        if self.fails() {
            let lost = object_store::Error::Generic { store: "faulty", source: "lost".into() };
            return futures_util::stream::once(async { Err(lost) }).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.around(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.around(self.inner.copy_opts(from, to, options)).await
    }
}

fn faulty(memory: &Arc<InMemory>, after: bool) -> Arc<Faulty> {
    let left = AtomicI64::new(i64::MAX);
    Arc::new(Faulty { inner: Arc::clone(memory), left, after, says: |range| range })
}

#[test]
fn answers_that_say_they_are_other_bytes_are_refused() {
    block_on(async {
        let memory = Arc::new(InMemory::new());
        sample(&memory).await;
        let lies: [fn(Range<u64>) -> Range<u64>; 5] = [
            |range| range.end..range.start,
            |range| range.start..range.end + 1,
            |range| range.start..u64::MAX,
            |range| range.start + 1..range.end + 1,
            |range| range.start..range.start,
        ];
        for (number, says) in lies.into_iter().enumerate() {
            let store = Faulty {
                inner: Arc::clone(&memory),
                left: AtomicI64::new(i64::MAX),
                after: false,
                says,
            };
            let location = Location::object_store(Arc::new(store), "s");
            let error = ArrayStore::open(location, options()).await.err().unwrap();
            assert!(matches!(error, ArrayError::Corrupt { .. }), "{number}: {error}");
            assert!(error.to_string().contains(" came for bytes 0 to "), "{number}: {error}");
        }
    });
}

#[test]
fn a_flush_that_fails_at_any_request_leaves_old_or_new_and_can_be_repeated() {
    block_on(async {
        for after in [false, true] {
            let mut request = 0;
            loop {
                let memory = Arc::new(InMemory::new());
                let old = contents(&sample(&memory).await).await.unwrap();
                let faulty = faulty(&memory, after);
                let location = Location::object_store(faulty.clone(), "s");
                let mut store = ArrayStore::open(location, options()).await.unwrap();
                store.write("n", &[0, 0], array![[100, 101]]).await.unwrap();
                store.append("t", 0, ArrayData::from_texts(&[1], ["x"]).unwrap()).await.unwrap();
                let new = contents(&store).await.unwrap();
                faulty.left.store(request, Ordering::SeqCst);
                let flushed = store.flush().await;
                let triggered = faulty.left.load(Ordering::SeqCst) < 0;
                faulty.left.store(i64::MAX, Ordering::SeqCst);
                let seen = ArrayStore::open(at(&memory), options()).await.unwrap();
                let seen = contents(&seen).await.unwrap();
                assert!(seen == new || (flushed.is_err() && seen == old), "request {request}");
                store.flush().await.unwrap();
                let seen = ArrayStore::open(at(&memory), options()).await.unwrap();
                assert_eq!(contents(&seen).await.unwrap(), new, "request {request}");
                assert!(seen.snapshot().verify().await.unwrap().is_empty());
                if !triggered {
                    break;
                }
                request += 1;
            }
            assert!(request >= 2, "{request} requests");
        }
    });
}

#[test]
fn requests_are_few() {
    block_on(async {
        let memory = Arc::new(InMemory::new());
        let counted = faulty(&memory, false);
        let location = || Location::object_store(counted.clone(), "s");
        let requests = || i64::MAX - counted.left.swap(i64::MAX, Ordering::SeqCst);
        let options = StoreOptions::default().packing(Packing::none());
        let mut store = ArrayStore::create(location(), options.clone()).await.unwrap();
        let spec = ArraySpec::new(DType::Int32, &[1024, 1024]).chunks(&[64, 64]);
        store.define("a", spec).unwrap();
        let numbers = Array2::from_shape_fn((1024, 1024), |(y, x)| (y * 1024 + x) as i32);
        store.write("a", &[0, 0], &numbers).await.unwrap();
        store.flush().await.unwrap();
        requests();
        let mut store = ArrayStore::open(location(), options.clone()).await.unwrap();
        assert!(requests() <= 3);
        store.read("a", &[100, 100], &[1, 1]).await.unwrap();
        assert_eq!(requests(), 2);
        store.read("a", &[100, 100], &[1, 1]).await.unwrap();
        assert_eq!(requests(), 0);
        // 256 blocks of 16 KiB that lie side by side.
        store.read_all("a").await.unwrap();
        assert!(requests() <= 3);
        store.write("a", &[5, 5], array![[0]]).await.unwrap();
        requests();
        store.flush().await.unwrap();
        assert!(requests() <= 3);
    });
}

#[test]
fn rewriting_a_chunk_before_a_flush_leaves_no_dead_bytes() {
    block_on(async {
        let memory = Arc::new(InMemory::new());
        let options = StoreOptions::default().packing(Packing::none());
        let mut store = ArrayStore::create(at(&memory), options).await.unwrap();
        store.define("a", ArraySpec::new(DType::UInt8, &[64, 65_536])).unwrap();
        for row in 0..64_u64 {
            let data = Array2::from_shape_fn((1, 65_536), |(_, x)| (x as u64 + row) as u8);
            store.write("a", &[row, 0], &data).await.unwrap();
        }
        let bytes = store.flush().await.unwrap().layer_bytes;
        assert!(bytes < (4 << 20) * 105 / 100, "{bytes} bytes");
    });
}

#[test]
fn a_compaction_that_fails_at_any_request_changes_no_value() {
    block_on(async {
        for after in [false, true] {
            let mut request = 0;
            loop {
                let memory = Arc::new(InMemory::new());
                let expected = contents(&sample(&memory).await).await.unwrap();
                let faulty = faulty(&memory, after);
                let location = Location::object_store(faulty.clone(), "s");
                let mut store = ArrayStore::open(location, options()).await.unwrap();
                faulty.left.store(request, Ordering::SeqCst);
                let done = store.compact(CompactPolicy::All).await;
                let triggered = faulty.left.load(Ordering::SeqCst) < 0;
                let seen = ArrayStore::open(at(&memory), options()).await.unwrap();
                assert_eq!(contents(&seen).await.unwrap(), expected);
                if !triggered {
                    assert_eq!(done.unwrap().version, 3);
                    assert_eq!(seen.snapshot().layers(), 1);
                    break;
                }
                request += 1;
            }
            assert!(request >= 5, "{request} requests");
        }
    });
}

#[test]
fn garbage_collection_that_fails_at_any_request_takes_nothing_that_is_needed() {
    block_on(async {
        for after in [false, true] {
            let mut request = 0;
            loop {
                let memory = Arc::new(InMemory::new());
                let mut store = sample(&memory).await;
                let expected = contents(&store).await.unwrap();
                store.tag("old", 1).await.unwrap();
                let tagged = store.open_at(1).await.unwrap().read_all("n").await.unwrap();
                store.compact(CompactPolicy::All).await.unwrap();
                let faulty = faulty(&memory, after);
                let location = Location::object_store(faulty.clone(), "s");
                let store = ArrayStore::open(location, options()).await.unwrap();
                faulty.left.store(request, Ordering::SeqCst);
                let gc = GcOptions { grace: Duration::ZERO, keep_versions: 1 };
                let done = store.gc(gc).await;
                let triggered = faulty.left.load(Ordering::SeqCst) < 0;
                faulty.left.store(i64::MAX, Ordering::SeqCst);
                assert_eq!(done.is_err(), triggered, "request {request}: {done:?}");
                for _ in 0..2 {
                    let seen = ArrayStore::open(at(&memory), options()).await.unwrap();
                    assert_eq!(contents(&seen).await.unwrap(), expected, "request {request}");
                    let old = seen.open_tag("old").await.unwrap();
                    assert_eq!(old.read_all("n").await.unwrap(), tagged, "request {request}");
                    store.gc(gc).await.unwrap();
                }
                assert_eq!(store.history().await.unwrap(), [1, 3]);
                if !triggered {
                    break;
                }
                request += 1;
            }
            assert!(request >= 8, "{request} requests");
        }
    });
}

#[test]
fn writers_of_different_arrays_both_get_through() {
    block_on(async {
        let memory = Arc::new(InMemory::new());
        let mut store = ArrayStore::create(at(&memory), options()).await.unwrap();
        for name in ["a", "b"] {
            store.define(name, ArraySpec::new(DType::Int32, &[40]).chunks(&[1])).unwrap();
        }
        store.flush().await.unwrap();
        let write = |name: &'static str| {
            let location = at(&memory);
            async move {
                let mut store = ArrayStore::open(location, options()).await.unwrap();
                for number in 0..40 {
                    store.write(name, &[number], array![number as i32 + 1]).await.unwrap();
                    store.flush().await.unwrap();
                }
            }
        };
        let (a, b) = tokio::join!(tokio::spawn(write("a")), tokio::spawn(write("b")));
        a.and(b).unwrap();
        let store = ArrayStore::open(at(&memory), options()).await.unwrap();
        let expected: Array1<i32> = (1..41).collect();
        for name in ["a", "b"] {
            let found = store.read_all(name).await.unwrap().to_ndarray::<i32>().unwrap();
            assert_eq!(found, expected.clone().into_dyn());
        }
        assert_eq!(store.snapshot().version(), 81);
    });
}

#[test]
fn of_two_writers_of_one_array_or_name_exactly_one_wins() {
    block_on(async {
        let memory = Arc::new(InMemory::new());
        let mut first = sample(&memory).await;
        let mut second = ArrayStore::open(at(&memory), options()).await.unwrap();
        first.write("n", &[0, 0], array![[1]]).await.unwrap();
        second.write("n", &[7, 5], array![[2]]).await.unwrap();
        first.flush().await.unwrap();
        for _ in 0..2 {
            let error = second.flush().await.unwrap_err();
            assert!(matches!(error, ArrayError::Conflict { version: 3, .. }), "{error}");
        }
        assert_eq!(second.read("n", &[7, 5], &[1, 1]).await.unwrap(), array![[2]].into());
        second.discard();
        second.refresh().await.unwrap();
        first.define("new", ArraySpec::new(DType::Int8, &[1])).unwrap();
        second.define("new", ArraySpec::new(DType::Int16, &[1])).unwrap();
        second.flush().await.unwrap();
        assert!(matches!(first.flush().await, Err(ArrayError::Conflict { .. })));
    });
}

#[test]
fn a_compaction_does_not_disturb_a_writer_nor_a_writer_a_compaction() {
    block_on(async {
        let memory = Arc::new(InMemory::new());
        let mut writer = sample(&memory).await;
        let mut other = ArrayStore::open(at(&memory), options()).await.unwrap();
        writer.write("n", &[0, 0], array![[42]]).await.unwrap();
        let expected = contents(&writer).await.unwrap();
        other.compact(CompactPolicy::All).await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(contents(&writer).await.unwrap(), expected);
        assert_eq!(writer.snapshot().layers(), 2);
    });
}

/// Two stores open at the same version of `sample`, and one that joins layers meanwhile.
async fn three(memory: &Arc<InMemory>) -> [ArrayStore; 3] {
    drop(sample(memory).await);
    let open = || ArrayStore::open(at(memory), options());
    [open().await.unwrap(), open().await.unwrap(), open().await.unwrap()]
}

#[test]
fn joining_layers_with_changes_of_others_changes_no_array() {
    block_on(async {
        for policy in [CompactPolicy::All, CompactPolicy::Tiers] {
            let memory = Arc::new(InMemory::new());
            let [mut n, mut t, mut third] = three(&memory).await;
            n.write("n", &[0, 0], array![[42]]).await.unwrap();
            t.write("t", &[1], ArrayData::from_texts(&[1], ["x"]).unwrap()).await.unwrap();
            t.define("u", ArraySpec::new(DType::UInt8, &[2])).unwrap();
            t.flush().await.unwrap();
            third.compact(policy).await.unwrap();
            // Joined layers are joined again: what is noted of them is kept.
            t.set_attr("t", "k", "v").unwrap();
            t.flush().await.unwrap();
            third.compact(policy).await.unwrap();
            n.define("v", ArraySpec::new(DType::UInt8, &[2])).unwrap();
            let report = n.flush().await.unwrap();
            let store = ArrayStore::open(at(&memory), options()).await.unwrap();
            assert_eq!(store.snapshot().version(), report.version);
            assert_eq!(store.names(), ["m", "n", "t", "u", "v"]);
            assert_eq!(store.read("n", &[0, 0], &[1, 1]).await.unwrap(), array![[42]].into());
            assert_eq!(store.read_all("t").await.unwrap().texts().unwrap(), ["a", "x", "long"]);
            assert!(store.snapshot().verify().await.unwrap().is_empty());
        }
    });
}

#[test]
fn of_changes_of_one_array_one_wins_although_layers_were_joined() {
    block_on(async {
        // The other's change, and which array the writer wanted to change.
        for change in ["write", "resize", "delete", "define", "again"] {
            for policy in [None, Some(CompactPolicy::All), Some(CompactPolicy::Tiers)] {
                let memory = Arc::new(InMemory::new());
                let [mut loser, mut winner, mut third] = three(&memory).await;
                match change {
                    "write" => winner.write("n", &[7, 5], array![[2]]).await.unwrap(),
                    "resize" => winner.resize("n", &[9, 6]).unwrap(),
                    "delete" => winner.delete("n").unwrap(),
                    "again" => {
                        winner.delete("n").unwrap();
                        winner.define("n", ArraySpec::new(DType::Int8, &[1])).unwrap();
                    }
                    _ => winner.define("new", ArraySpec::new(DType::Int8, &[1])).unwrap(),
                }
                if change == "define" {
                    loser.define("new", ArraySpec::new(DType::Int16, &[1])).unwrap();
                } else {
                    loser.write("n", &[0, 0], array![[1]]).await.unwrap();
                }
                winner.flush().await.unwrap();
                if let Some(policy) = policy {
                    third.compact(policy).await.unwrap();
                }
                let before = third.snapshot().version();
                let error = loser.flush().await.unwrap_err();
                assert!(
                    matches!(error, ArrayError::Conflict { .. }),
                    "{change} {policy:?}: {error}"
                );
                let store = ArrayStore::open(at(&memory), options()).await.unwrap();
                assert!(store.snapshot().version() >= before);
                assert_eq!(store.names(), winner.names(), "{change} {policy:?}");
            }
        }
    });
}

#[test]
fn a_pinned_reader_sees_nothing_of_what_others_do_until_it_expires() {
    block_on(async {
        let memory = Arc::new(InMemory::new());
        let mut store = sample(&memory).await;
        let pinned = store.open_at(2).await.unwrap();
        let before = pinned.read_all("n").await.unwrap();
        for number in 0..10_u64 {
            store
                .write("n", &[number % 8, 0], Array2::from_elem((1, 6), number as i32))
                .await
                .unwrap();
            store.resize("t", &[number]).unwrap();
            store.flush().await.unwrap();
            store.compact(CompactPolicy::Tiers).await.unwrap();
            let options = GcOptions { grace: Duration::ZERO, keep_versions: 1000 };
            let report = store.gc(options).await.unwrap();
            assert!(report.layers.is_empty() && report.versions.is_empty(), "{report:?}");
            assert_eq!(pinned.read_all("n").await.unwrap(), before);
            assert_eq!(pinned.meta("t").unwrap().shape(), [3]);
        }
        let now = contents(&store).await.unwrap();
        store.compact(CompactPolicy::All).await.unwrap();
        let report = store.gc(GcOptions { grace: Duration::ZERO, keep_versions: 1 }).await.unwrap();
        assert!(report.layers.len() > 5 && report.versions.len() > 10, "{report:?}");
        assert_eq!(contents(&store).await.unwrap(), now);
        let error = pinned.read_all("n").await.unwrap_err();
        assert!(matches!(error, ArrayError::SnapshotExpired { version: 2, .. }), "{error}");
        let error = store.open_at(2).await.unwrap_err();
        assert!(matches!(error, ArrayError::NotFound { what: "version", .. }), "{error}");
    });
}
