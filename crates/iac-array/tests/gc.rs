//! What garbage collection takes away from readers, and what tags keep from it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use iac_array::blocking::ArrayStore;
use iac_array::{
    ArrayCache, ArrayError, ArraySpec, CompactPolicy, DType, GcOptions, Location, Packing,
    StoreOptions,
};
use ndarray::{Array1, array};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

const ALL_BUT_ONE: GcOptions = GcOptions { grace: Duration::ZERO, keep_versions: 1 };

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(future)
}

fn options() -> StoreOptions {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    StoreOptions::default().packing(Packing::lz4()).cache(&ArrayCache::new(0)).pool(Arc::new(pool))
}

/// Memory whose clock the test sets, and whose next list of versions can be an old one.
#[derive(Debug, Default)]
struct Clock {
    inner: InMemory,
    now: Mutex<Duration>,
    made: Mutex<HashMap<Path, Duration>>,
    stale: Mutex<Option<Vec<ObjectMeta>>>,
}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("clock")
    }
}

#[async_trait]
impl ObjectStore for Clock {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.made.lock().unwrap().insert(path.clone(), *self.now.lock().unwrap());
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
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        if prefix.is_some_and(|prefix| prefix.as_ref().ends_with("versions"))
            && let Some(stale) = self.stale.lock().unwrap().take()
        {
            return futures_util::stream::iter(stale.into_iter().map(Ok)).boxed();
        }
        let made = self.made.lock().unwrap().clone();
        let later = move |mut object: ObjectMeta| {
            // All times of a test are the same but for what it adds.
            object.last_modified = std::time::SystemTime::UNIX_EPOCH.into();
            object.last_modified += made.get(&object.location).copied().unwrap_or_default();
            object
        };
        self.inner.list(prefix).map_ok(later).boxed()
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

fn at(clock: &Arc<Clock>) -> Location {
    Location::object_store(Arc::clone(clock) as Arc<dyn ObjectStore>, "s")
}

fn with_array(location: Location) -> ArrayStore {
    let mut store = ArrayStore::create(location, options()).unwrap();
    store.define("n", ArraySpec::new(DType::UInt64, &[8]).chunks(&[2])).unwrap();
    store.write("n", &[0], (0..8).collect::<Array1<u64>>()).unwrap();
    store.flush().unwrap();
    store
}

fn next(store: &mut ArrayStore, number: u64) -> u64 {
    store.write("n", &[number % 8], array![100 + number]).unwrap();
    store.flush().unwrap().version
}

#[test]
fn a_pinned_reader_reads_the_same_or_is_told_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    for location in [Location::memory(), Location::folder(folder.path()).unwrap()] {
        let mut store = with_array(location);
        let mut pinned = Vec::new();
        let (mut same, mut expired, mut deleted) = (0, 0, 0);
        for number in 0..24 {
            let version = next(&mut store, number);
            pinned.push((store.open_at(version).unwrap(), store.read_all("n").unwrap()));
            if number % 3 == 2 {
                store.compact(CompactPolicy::Tiers).unwrap();
            }
            if number % 4 == 3 {
                deleted += store.gc(ALL_BUT_ONE).unwrap().layers.len();
            }
            for (reader, before) in &pinned {
                for _ in 0..2 {
                    match reader.read_all("n") {
                        Ok(found) => {
                            assert_eq!(found, *before);
                            same += 1;
                        }
                        Err(ArrayError::SnapshotExpired { object, version }) => {
                            assert!(object.contains("layers/"), "{object}");
                            assert_eq!(version, reader.version());
                            expired += 1;
                        }
                        Err(error) => panic!("version {}: {error}", reader.version()),
                    }
                }
            }
        }
        assert!(same > 20 && expired > 20 && deleted > 5, "{same}, {expired}, {deleted}");
        assert!(store.snapshot().verify().unwrap().is_empty());
    }
}

#[test]
fn readers_of_a_folder_stay_right_while_another_thread_collects() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::folder(folder.path()).unwrap();
    let mut store = with_array(location.clone());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            // Bounded, in case that the other thread fails.
            for read in 0..100_000_u32 {
                if done.load(Ordering::SeqCst) && read >= 20 {
                    break;
                }
                // Opening moves on to what is there; it must not fail because of what is gone.
                let store = ArrayStore::open(location.clone(), options()).unwrap();
                match store.read_all("n") {
                    // Elements are numbers of the array's own place, or of a version.
                    Ok(found) => {
                        let found = found.to_ndarray::<u64>().unwrap();
                        let sound = |(at, value): (usize, &u64)| {
                            *value == at as u64 || (*value >= 100 && (value - 100) % 8 == at as u64)
                        };
                        assert!(found.iter().enumerate().all(sound), "{found}");
                    }
                    Err(ArrayError::SnapshotExpired { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for number in 0..60 {
            next(&mut store, number);
            store.compact(CompactPolicy::All).unwrap();
            store.gc(ALL_BUT_ONE).unwrap();
        }
        done.store(true, Ordering::SeqCst);
        reader.join().unwrap();
    });
}

#[test]
fn the_clock_of_the_store_says_what_is_old() {
    let clock = Arc::new(Clock::default());
    let hours = |hours: u64| *clock.now.lock().unwrap() = Duration::from_secs(hours * 3600);
    let mut store = with_array(at(&clock));
    next(&mut store, 0);
    hours(20);
    next(&mut store, 1);
    store.compact(CompactPolicy::All).unwrap();
    let gc = GcOptions { keep_versions: 1, ..GcOptions::default() };
    let report = store.gc(gc).unwrap();
    assert!(report.versions.is_empty() && report.layers.is_empty(), "{report:?}");
    hours(30);
    next(&mut store, 2);
    let report = store.gc(gc).unwrap();
    assert_eq!(report.versions, [0, 1, 2]);
    // Version 3 is ten hours old: it stays, and the layers that it joins with it.
    assert_eq!(store.history().unwrap(), [3, 4, 5]);
    assert!(report.layers.is_empty(), "{report:?}");
    let pinned = store.open_at(3).unwrap();
    let before = pinned.read_all("n").unwrap();
    hours(60);
    store.tag("kept", 4).unwrap();
    next(&mut store, 3);
    let report = store.gc(gc).unwrap();
    assert_eq!(report.versions, [3, 5]);
    assert_eq!(report.layers.len(), 3);
    let error = pinned.read_all("n").unwrap_err();
    assert!(matches!(error, ArrayError::SnapshotExpired { version: 3, .. }), "{error}");
    assert_eq!(store.open_tag("kept").unwrap().read_all("n").unwrap(), before);
}

#[test]
fn opening_moves_on_when_the_version_it_found_is_collected() {
    let clock = Arc::new(Clock::default());
    let mut store = with_array(at(&clock));
    let prefix = Path::from("s/versions");
    let old: Vec<ObjectMeta> =
        block_on(async { clock.inner.list(Some(&prefix)).try_collect().await.unwrap() });
    next(&mut store, 0);
    store.compact(CompactPolicy::All).unwrap();
    store.gc(ALL_BUT_ONE).unwrap();
    *clock.stale.lock().unwrap() = Some(old);
    let other = ArrayStore::open(at(&clock), options()).unwrap();
    assert_eq!(other.snapshot().version(), 3);
    // A layer that the newest version needs is not waited for.
    let layers = Path::from("s/layers");
    let layers: Vec<ObjectMeta> =
        block_on(async { clock.inner.list(Some(&layers)).try_collect().await.unwrap() });
    for layer in layers {
        block_on(async { clock.inner.delete(&layer.location).await.unwrap() });
    }
    let error = ArrayStore::open(at(&clock), options()).unwrap_err();
    assert!(matches!(error, ArrayError::SnapshotExpired { version: 3, .. }), "{error}");
}

#[test]
fn tags_keep_versions_until_they_are_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    for location in [Location::memory(), Location::folder(folder.path()).unwrap()] {
        let mut store = with_array(location.clone());
        let version = next(&mut store, 3);
        let expected = store.read_all("n").unwrap();
        assert!(store.tags().unwrap().is_empty());
        store.tag("paper-1.0", version).unwrap();
        store.tag("paper-1.0", version).unwrap();
        store.tag("first", 1).unwrap();
        let taken = store.tag("first", 2).unwrap_err();
        assert!(matches!(taken, ArrayError::Exists { what: "tag", .. }), "{taken}");
        let missing = store.tag("x", 99).unwrap_err();
        assert!(matches!(missing, ArrayError::NotFound { what: "version", .. }), "{missing}");
        for name in ["", "a/b", "../x", ".hidden", "-a", "ä", "a b", &"x".repeat(129)] {
            let error = store.tag(name, version).unwrap_err();
            assert!(matches!(error, ArrayError::Argument { .. }), "{name}: {error}");
            assert!(matches!(store.open_tag(name), Err(ArrayError::Argument { .. })));
            assert!(matches!(store.untag(name), Err(ArrayError::Argument { .. })));
        }
        for number in 4..20 {
            next(&mut store, number);
        }
        store.compact(CompactPolicy::All).unwrap();
        let report = store.gc(ALL_BUT_ONE).unwrap();
        assert!(!report.versions.contains(&version) && !report.versions.contains(&1));
        let other = ArrayStore::open(location.clone(), options()).unwrap();
        let tags: Vec<_> = other.tags().unwrap().into_iter().collect();
        assert_eq!(tags, [("first".to_owned(), 1), ("paper-1.0".to_owned(), version)]);
        let tagged = other.open_tag("paper-1.0").unwrap();
        assert_eq!((tagged.version(), tagged.read_all("n").unwrap()), (version, expected));
        assert!(tagged.verify().unwrap().is_empty());
        let missing = other.open_tag("second").err().unwrap();
        assert!(matches!(missing, ArrayError::NotFound { what: "tag", .. }), "{missing}");
        other.untag("paper-1.0").unwrap();
        let missing = other.untag("paper-1.0").unwrap_err();
        assert!(matches!(missing, ArrayError::NotFound { what: "tag", .. }), "{missing}");
        let report = other.gc(ALL_BUT_ONE).unwrap();
        assert_eq!(report.versions, [version]);
        other.open_tag("first").unwrap();
    }
}

#[test]
fn damaged_tags_stop_garbage_collection_and_can_be_taken_away() {
    let memory = Arc::new(InMemory::new());
    let location = || Location::object_store(Arc::clone(&memory) as Arc<dyn ObjectStore>, "s");
    let mut store = with_array(location());
    store.tag("good", 1).unwrap();
    for number in 0..12 {
        next(&mut store, number);
    }
    let put = |path: &str, bytes: Vec<u8>| {
        block_on(async { memory.put(&Path::from(path), bytes.into()).await.unwrap() });
    };
    let good = Path::from("s/tags/good.json");
    let good = block_on(async { memory.get(&good).await.unwrap().bytes().await.unwrap() });
    // What is not ours does not disturb.
    put("s/tags/README.txt", b"notes".to_vec());
    put("s/tags/sub/good.json", b"{}".to_vec());
    put("s/tags/.x.json", b"{}".to_vec());
    assert_eq!(store.tags().unwrap().len(), 1);
    let sealed = |body: &str| {
        let blank = format!("{{\"crc32\":\"00000000\",{body}");
        let sum = format!("{:08x}", crc32fast::hash(blank.as_bytes()));
        blank.replacen("00000000", &sum, 1).into_bytes()
    };
    let other = "\"format\":\"iac-array-tag\",\"store_id\":\"00\",\"name\":\"bad\",\"version\":1}";
    let hostile: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"{}".to_vec(),
        vec![b' '; 1 << 20],
        vec![0xFF; 100],
        // Under another name, of another store, with other members.
        good.to_vec(),
        sealed(other),
        sealed("\"version\":-1}"),
        sealed("\"version\":1e300}"),
        sealed(&"[".repeat(2000)),
    ];
    for bytes in hostile {
        put("s/tags/bad.json", bytes.clone());
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        for error in [
            store.tags().unwrap_err(),
            store.open_tag("bad").err().unwrap(),
            store.tag("bad", 1).unwrap_err(),
            store.gc(ALL_BUT_ONE).unwrap_err(),
        ] {
            let named =
                matches!(&error, ArrayError::Corrupt { object, .. } if object == "s/tags/bad.json");
            assert!(named, "{shown}: {error}");
        }
        assert_eq!(store.history().unwrap().len(), 14);
        assert_eq!(store.open_tag("good").unwrap().version(), 1);
        store.untag("bad").unwrap();
    }
    // A tag of a version that is gone keeps nothing and says so.
    block_on(async {
        memory.delete(&Path::from("s/versions/18446744073709551614.json")).await.unwrap();
    });
    let error = store.open_tag("good").err().unwrap();
    assert!(matches!(error, ArrayError::SnapshotExpired { version: 1, .. }), "{error}");
    assert!(!store.gc(ALL_BUT_ONE).unwrap().versions.is_empty());
}
