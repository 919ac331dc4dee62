//! Object stores that cannot create an object only if there is none.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use iac_array::{
    ArrayCache, ArrayError, ArraySpec, ArrayStore, CompactPolicy, DType, Location, LockFuture,
    Packing, PublishGuard, PublishLock, StoreOptions,
};
use ndarray::{Array1, array};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// Memory without conditional puts; what `lies` says that it has them and overwrites.
#[derive(Debug, Default)]
struct Plain {
    inner: InMemory,
    lies: bool,
    puts: AtomicUsize,
    overwritten: AtomicUsize,
}

impl std::fmt::Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("plain")
    }
}

#[async_trait]
impl ObjectStore for Plain {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> object_store::Result<PutResult> {
        if options.mode == PutMode::Create && !self.lies {
            return Err(object_store::Error::NotImplemented {
                operation: "`put_opts` with mode `PutMode::Create`".into(),
                implementer: self.to_string(),
            });
        }
        options.mode = PutMode::Overwrite;
        self.puts.fetch_add(1, Ordering::SeqCst);
        // Time for another writer between its look and its put.
        tokio::task::yield_now().await;
        if self.inner.get_opts(path, GetOptions::default()).await.is_ok() {
            self.overwritten.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let found = self.inner.get_opts(path, options).await;
        tokio::task::yield_now().await;
        found
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A lock that counts who holds it, and can refuse.
#[derive(Debug, Default)]
struct Lock {
    mutex: Arc<Mutex<()>>,
    holders: Arc<AtomicUsize>,
    taken: AtomicUsize,
    refuse_acquire: AtomicUsize,
    refuse_release: Arc<AtomicUsize>,
}

struct Held {
    _guard: OwnedMutexGuard<()>,
    holders: Arc<AtomicUsize>,
    refuse: Arc<AtomicUsize>,
}

/// Whether one more of so many refusals is due.
fn due(left: &AtomicUsize) -> bool {
    let due = left.load(Ordering::SeqCst) > 0;
    left.fetch_sub(usize::from(due), Ordering::SeqCst);
    due
}

impl PublishLock for Lock {
    fn acquire<'a>(&'a self, root: &'a str) -> LockFuture<'a, Box<dyn PublishGuard>> {
        Box::pin(async move {
            assert_eq!(root, "s");
            if due(&self.refuse_acquire) {
                return Err("the lock service is down".into());
            }
            let guard = Arc::clone(&self.mutex).lock_owned().await;
            assert_eq!(self.holders.fetch_add(1, Ordering::SeqCst), 0);
            self.taken.fetch_add(1, Ordering::SeqCst);
            let (holders, refuse) = (Arc::clone(&self.holders), Arc::clone(&self.refuse_release));
            Ok(Box::new(Held { _guard: guard, holders, refuse }) as Box<dyn PublishGuard>)
        })
    }
}

impl PublishGuard for Held {
    fn release(self: Box<Self>) -> LockFuture<'static, ()> {
        self.holders.fetch_sub(1, Ordering::SeqCst);
        Box::pin(async move {
            if due(&self.refuse) { Err("the lock service is down".into()) } else { Ok(()) }
        })
    }
}

fn at(plain: &Arc<Plain>) -> Location {
    Location::object_store(Arc::clone(plain) as Arc<dyn ObjectStore>, "s")
}

fn options() -> StoreOptions {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    StoreOptions::default().packing(Packing::lz4()).cache(&ArrayCache::new(0)).pool(Arc::new(pool))
}

async fn with_arrays(location: Location, options: StoreOptions, names: &[&str]) -> ArrayStore {
    let mut store = ArrayStore::create(location, options).await.unwrap();
    for name in names {
        store.define(name, ArraySpec::new(DType::UInt64, &[40]).chunks(&[1])).unwrap();
    }
    store.flush().await.unwrap();
    store
}

#[test]
fn without_a_lock_nothing_is_written() {
    block_on(async {
        let plain = Arc::new(Plain::default());
        let error = ArrayStore::create(at(&plain), options()).await.unwrap_err();
        assert!(matches!(error, ArrayError::NoConditionalPut), "{error}");
        let lock = Arc::new(Lock::default());
        drop(with_arrays(at(&plain), options().lock(lock), &["a"]).await);
        let before = plain.puts.load(Ordering::SeqCst);
        let mut store = ArrayStore::open(at(&plain), options()).await.unwrap();
        store.write("a", &[0], array![7_u64]).await.unwrap();
        for error in [
            store.flush().await.unwrap_err(),
            store.tag("x", 1).await.unwrap_err(),
            ArrayStore::create(Location::object_store(plain.clone(), "other"), options())
                .await
                .unwrap_err(),
        ] {
            assert!(matches!(error, ArrayError::NoConditionalPut), "{error}");
        }
        assert_eq!(plain.puts.load(Ordering::SeqCst), before);
        // What was to be published is still there.
        assert_eq!(store.read("a", &[0], &[1]).await.unwrap(), array![7_u64].into());
    });
}

#[test]
fn with_a_lock_two_writers_lose_nothing() {
    block_on(async {
        for lies in [false, true] {
            let plain = Arc::new(Plain { lies, ..Plain::default() });
            let lock = Arc::new(Lock::default());
            let with_lock = || options().lock(Arc::clone(&lock) as Arc<dyn PublishLock>);
            drop(with_arrays(at(&plain), with_lock(), &["a", "b"]).await);
            let write = |name: &'static str| {
                let (location, options) = (at(&plain), with_lock());
                async move {
                    let mut store = ArrayStore::open(location, options).await.unwrap();
                    for number in 0..40_u64 {
                        store.write(name, &[number], array![number + 1]).await.unwrap();
                        while let Err(error) = store.flush().await {
                            // All tries lost is no loss.
                            assert!(error.to_string().contains("the store 16 times"), "{error}");
                        }
                        if number % 16 == 15 {
                            drop(store.compact(CompactPolicy::Tiers).await);
                        }
                    }
                }
            };
            let (a, b) = tokio::join!(tokio::spawn(write("a")), tokio::spawn(write("b")));
            a.and(b).unwrap();
            let store = ArrayStore::open(at(&plain), options()).await.unwrap();
            for name in ["a", "b"] {
                let found = store.read_all(name).await.unwrap().to_ndarray::<u64>().unwrap();
                assert_eq!(found, (1..=40).collect::<Array1<u64>>().into_dyn());
            }
            assert!(store.snapshot().verify().await.unwrap().is_empty());
            assert_eq!(plain.overwritten.load(Ordering::SeqCst), 0);
            assert!(lock.taken.load(Ordering::SeqCst) > 80);
            assert_eq!(lock.holders.load(Ordering::SeqCst), 0);
        }
    });
}

#[test]
fn with_a_lock_one_of_two_writers_of_an_array_wins() {
    block_on(async {
        let plain = Arc::new(Plain::default());
        let lock = Arc::new(Lock::default());
        let with_lock = || options().lock(Arc::clone(&lock) as Arc<dyn PublishLock>);
        let mut first = with_arrays(at(&plain), with_lock(), &["a"]).await;
        let mut second = ArrayStore::open(at(&plain), with_lock()).await.unwrap();
        first.write("a", &[0], array![1_u64]).await.unwrap();
        second.write("a", &[0], array![2_u64]).await.unwrap();
        let (one, other) = tokio::join!(first.flush(), second.flush());
        let won = [one.is_ok(), other.is_ok()];
        assert!(won[0] != won[1], "{won:?}");
        let error = one.err().or(other.err()).unwrap();
        assert!(matches!(error, ArrayError::Conflict { .. }), "{error}");
        let store = ArrayStore::open(at(&plain), options()).await.unwrap();
        let expected = if won[0] { 1_u64 } else { 2 };
        assert_eq!(store.read("a", &[0], &[1]).await.unwrap(), array![expected].into());
        let (one, other) = tokio::join!(first.tag("t", 1), second.tag("t", 2));
        assert!(one.is_ok() != other.is_ok());
    });
}

#[test]
fn a_lock_that_fails_leaves_changes_that_can_be_flushed_again() {
    block_on(async {
        let plain = Arc::new(Plain::default());
        let lock = Arc::new(Lock::default());
        let with_lock = options().lock(Arc::clone(&lock) as Arc<dyn PublishLock>);
        let mut store = with_arrays(at(&plain), with_lock, &["a"]).await;
        for (acquire, release) in [(1, 0), (0, 1)] {
            let before = store.snapshot().version();
            store.write("a", &[3], array![before]).await.unwrap();
            lock.refuse_acquire.store(acquire, Ordering::SeqCst);
            lock.refuse_release.store(release, Ordering::SeqCst);
            let error = store.flush().await.unwrap_err();
            assert!(matches!(error, ArrayError::Lock { .. }), "{error}");
            let report = store.flush().await.unwrap();
            assert_eq!(report.version, before + 1);
            let other = ArrayStore::open(at(&plain), options()).await.unwrap();
            assert_eq!(other.read("a", &[3], &[1]).await.unwrap(), array![before].into());
        }
    });
}

#[test]
fn layers_never_lie_over_another_object() {
    block_on(async {
        let plain = Arc::new(Plain { lies: false, ..Plain::default() });
        let lock = Arc::new(Lock::default());
        let mut store = with_arrays(at(&plain), options().lock(lock), &["a"]).await;
        for number in 0..20_u64 {
            store.write("a", &[number], array![number]).await.unwrap();
            store.flush().await.unwrap();
        }
        store.compact(CompactPolicy::All).await.unwrap();
        assert_eq!(plain.overwritten.load(Ordering::SeqCst), 0);
        let objects: Vec<ObjectMeta> = plain.list(None).try_collect().await.unwrap();
        assert_eq!(objects.len(), plain.puts.load(Ordering::SeqCst));
    });
}
