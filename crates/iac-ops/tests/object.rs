//! Packs to and between object stores: whole or not at all, and nothing replaced unasked.
#![cfg(feature = "object-store")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::arithmetic_side_effects)]

use std::fmt;
use std::path::Path as FilePath;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use iac_format::ErrorKind;
use iac_ops::object::{CopyOptions, PublishOptions, build, copy, publish};
use iac_ops::{Cancel, NoProgress, OpsError};
use iac_reader::object::object_store::memory::InMemory;
use iac_reader::object::object_store::path::Path;
use iac_reader::object::object_store::{
    CopyMode, CopyOptions as StoreCopy, Error, GetOptions, GetResult, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use iac_reader::object::{ObjectLocation, ObjectOptions, block_on};
use iac_reader::{PackReader, ReadOptions};
use serde_json::Map;

/// A store that lacks something, or fails.
#[derive(Debug, Default)]
struct Lacking {
    inner: InMemory,
    no_create: bool,
    no_copy: bool,
    no_parts: bool,
    /// Fails from this request that writes on.
    fails_from: Option<usize>,
    writes: AtomicUsize,
    /// Stores another byte than it was given.
    alters: bool,
}

impl Lacking {
    fn write(&self) -> Result<()> {
        let number = self.writes.fetch_add(1, Ordering::SeqCst);
        if self.fails_from.is_some_and(|from| number >= from) {
            return Err(Error::Generic { store: "test", source: "the cable is cut".into() });
        }
        Ok(())
    }

    fn unknown(&self, operation: &str) -> Error {
        let (operation, implementer) = (operation.to_owned(), self.to_string());
        Error::NotImplemented { operation, implementer }
    }

    fn names(self: &Arc<Self>) -> Vec<String> {
        let list = self.inner.list(None);
        let mut names: Vec<String> = block_on(list.collect::<Vec<_>>())
            .unwrap()
            .into_iter()
            .map(|found| found.unwrap().location.to_string())
            .collect();
        names.sort();
        names
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lacking")
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl ObjectStore for Lacking {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Boxed<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            self.write()?;
            if self.no_create && options.mode == PutMode::Create {
                return Err(self.unknown("create"));
            }
            let mut bytes: Vec<u8> = payload.iter().flat_map(|part| part.to_vec()).collect();
            if self.alters {
                *bytes.last_mut().unwrap() ^= 1;
            }
            self.inner.put_opts(location, bytes.into(), options).await
        })
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        options: PutMultipartOptions,
    ) -> Boxed<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            self.write()?;
            if self.no_parts {
                return Err(self.unknown("parts"));
            }
            self.inner.put_multipart_opts(location, options).await
        })
    }

    fn get_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        options: GetOptions,
    ) -> Boxed<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.inner.get_opts(location, options)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, prefix: Option<&'b Path>) -> Boxed<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.inner.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'd, 'c>(
        &'a self,
        from: &'b Path,
        to: &'d Path,
        options: StoreCopy,
    ) -> Boxed<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            self.write()?;
            if self.no_copy && options.mode == CopyMode::Create {
                return Err(self.unknown("copy"));
            }
            self.inner.copy_opts(from, to, options).await
        })
    }
}

fn make(path: &FilePath, records: u8) -> iac_ops::Result<()> {
    let payloads: Vec<Vec<u8>> = (0..records).map(|n| vec![n; 1000]).collect();
    let ids = (0..records).map(u32::from);
    let ids = Arc::new(arrow_array::UInt32Array::from_iter_values(ids)) as arrow_array::ArrayRef;
    let index = arrow_array::RecordBatch::try_from_iter([("n", ids)]).unwrap();
    iac_writer::build_pack(
        path,
        &Map::new(),
        &iac_writer::Table::empty(),
        &iac_writer::Table::from(index),
        &payloads,
        &iac_writer::WriteOptions::default().sync(false),
    )?;
    Ok(())
}

fn place(store: &Arc<Lacking>) -> ObjectLocation {
    let store = Arc::clone(store) as Arc<dyn ObjectStore>;
    ObjectLocation::in_store(store, Path::from("x/pack.iac"), "test://x/pack.iac")
}

fn in_parts() -> PublishOptions {
    let mut options = PublishOptions::default();
    options.single_put_bytes = 1000;
    options.part_bytes = 30_000;
    options
}

fn records(store: &Arc<Lacking>) -> u64 {
    let place = place(store);
    let pack = PackReader::open_object(&place, &ReadOptions::default(), &ObjectOptions::default())
        .unwrap();
    assert!(pack.verify(&iac_reader::VerifyOptions::default()).is_sound());
    pack.num_records().unwrap()
}

#[test]
fn a_pack_appears_in_one_request_or_in_parts_and_replaces_nothing() {
    for (options, lacking) in [
        (PublishOptions::default(), Lacking::default()),
        (in_parts(), Lacking::default()),
        // Through a temporary object, since the store cannot create conditionally.
        (PublishOptions::default(), Lacking { no_create: true, ..Lacking::default() }),
        (in_parts(), Lacking { no_create: true, ..Lacking::default() }),
    ] {
        let store = Arc::new(lacking);
        let to = place(&store);
        let (_, published) =
            build(&to, None, &options, &NoProgress, |path| make(path, 100)).unwrap();
        assert_eq!(records(&store), 100);
        assert_eq!(store.names(), ["x/pack.iac"]);
        assert!(published.bytes > 100_000 && published.sha256.len() == 64);
        let error = build(&to, None, &options, &NoProgress, |_| -> iac_ops::Result<()> {
            panic!("nothing is made where something is in the way")
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Exists);
        let mut replacing = options.clone();
        replacing.overwrite = true;
        build(&to, None, &replacing, &NoProgress, |path| make(path, 60)).unwrap();
        assert_eq!((records(&store), store.names().len()), (60, 1));
    }
}

#[test]
fn of_two_who_upload_at_once_one_wins() {
    for options in [PublishOptions::default(), in_parts()] {
        let store = Arc::new(Lacking::default());
        let to = place(&store);
        let results: Vec<_> = std::thread::scope(|scope| {
            let upload = |records| {
                let (to, options) = (&to, &options);
                scope.spawn(move || {
                    build(to, None, options, &NoProgress, |path| make(path, records)).map(drop)
                })
            };
            let threads: Vec<_> = (1..6).map(|n| upload(n * 20)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let lost = results.iter().filter_map(|result| result.as_ref().err());
        assert!(lost.clone().all(|error| error.kind() == ErrorKind::Exists));
        assert_eq!(lost.count(), 4);
        assert_eq!(records(&store) % 20, 0);
        assert_eq!(store.names(), ["x/pack.iac"], "nothing temporary is left");
    }
}

#[test]
fn stores_that_offer_no_condition_are_refused_unless_overwriting_is_asked_for() {
    for mut options in [PublishOptions::default(), in_parts()] {
        let store = Arc::new(Lacking { no_create: true, no_copy: true, ..Lacking::default() });
        let to = place(&store);
        let made = build(&to, None, &options, &NoProgress, |path| make(path, 100));
        let error = made.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("can neither create"), "{error}");
        assert!(store.names().is_empty(), "{:?}", store.names());
        options.overwrite = true;
        build(&to, None, &options, &NoProgress, |path| make(path, 100)).unwrap();
        assert_eq!(records(&store), 100);
    }
    let store = Arc::new(Lacking { no_parts: true, ..Lacking::default() });
    let made = build(&place(&store), None, &in_parts(), &NoProgress, |path| make(path, 100));
    assert!(made.unwrap_err().to_string().contains("takes nothing in parts"));
}

#[test]
fn nothing_is_visible_after_a_failed_upload() {
    for (options, lacking) in
        [(PublishOptions::default(), false), (in_parts(), false), (in_parts(), true)]
    {
        for fails_from in 0..3 {
            let store = Arc::new(Lacking {
                fails_from: Some(fails_from),
                no_create: lacking,
                ..Lacking::default()
            });
            let made = build(&place(&store), None, &options, &NoProgress, |path| make(path, 100));
            match made {
                Ok(_) => assert_eq!(records(&store), 100),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    assert!(error.to_string().contains("the cable is cut"), "{error}");
                    assert!(store.names().is_empty(), "{:?}", store.names());
                }
            }
        }
    }
    let store = Arc::new(Lacking::default());
    let made = build(&place(&store), None, &in_parts(), &NoProgress, |path| {
        make(path, 10)?;
        Err::<(), _>(OpsError::Cancelled)
    });
    assert!(made.unwrap_err().is_cancelled() && store.names().is_empty());
}

#[test]
fn an_upload_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pack.iac");
    make(&file, 100).unwrap();
    let store = Arc::new(Lacking::default());
    let cancel = Cancel::new();
    cancel.cancel();
    let result = publish(&file, &place(&store), &in_parts(), &cancel);
    assert!(result.unwrap_err().is_cancelled());
    assert!(store.names().is_empty());
}

#[test]
fn what_the_store_alters_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pack.iac");
    make(&file, 100).unwrap();
    let store = Arc::new(Lacking { alters: true, ..Lacking::default() });
    let error = publish(&file, &place(&store), &PublishOptions::default(), &NoProgress);
    let error = error.unwrap_err();
    assert!(error.to_string().contains("SHA-256"), "{error}");
}

#[test]
fn packs_are_copied_between_files_and_stores() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pack.iac");
    make(&file, 100).unwrap();
    let original = std::fs::read(&file).unwrap();
    let (first, second) = (Arc::new(Lacking::default()), Arc::new(Lacking::default()));
    let back = folder.path().join("sub/back.iac");
    let places = [
        ObjectLocation::local(&file),
        place(&first),
        place(&second),
        ObjectLocation::local(&back),
        ObjectLocation::local(folder.path().join("again.iac")),
    ];
    let options = CopyOptions::default();
    for pair in places.windows(2) {
        let summary = copy(&pair[0], &pair[1], &options, &NoProgress).unwrap();
        assert_eq!((summary.rows, summary.bytes), (Some(100), original.len() as u64));
        let again = copy(&pair[0], &pair[1], &options, &NoProgress);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Exists);
    }
    assert_eq!(std::fs::read(&back).unwrap(), original);
    assert_eq!(std::fs::read(folder.path().join("again.iac")).unwrap(), original);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing temporary is left");
    assert_eq!(second.names(), ["x/pack.iac"]);
}

#[test]
fn a_damaged_pack_is_copied_only_if_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pack.iac");
    make(&file, 100).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let store = Arc::new(Lacking::default());
    let from = ObjectLocation::local(&file);
    let error = copy(&from, &place(&store), &CopyOptions::default(), &NoProgress).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Checksum, Some(99)), "{error}");
    assert!(store.names().is_empty());
    let mut options = CopyOptions::default();
    options.unchecked = true;
    assert_eq!(copy(&from, &place(&store), &options, &NoProgress).unwrap().rows, None);
    let object = block_on(store.inner.get(&Path::from("x/pack.iac"))).unwrap().unwrap();
    let stored = block_on(object.bytes()).unwrap().unwrap();
    assert_eq!(stored, bytes);
}
