//! Answers of object stores: whatever a store sends instead of what was asked for, reads give the
//! object's bytes or an error, with and without a cache of blocks whose files are altered; so do reads
//! of arrays.
//!
//! An input is what `arbitrary` makes a [`Script`] of.
#![no_main]

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use iac_array::{ArrayCache, ArraySpec, ArrayStore, DType, Location, Packing, StoreOptions};
use iac_fuzz::{Limited, seeds, stores};
use iac_reader::object::{BlockCache, ObjectLocation, ObjectOptions};
use iac_reader::{PackReader, ReadOptions, VerifyOptions};
use iac_writer::{Table, WriteOptions, build_pack};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// How an object is opened and read, and what the store does meanwhile.
#[derive(Debug, Arbitrary)]
struct Script {
    arrays: bool,
    cache: bool,
    join_gap: u16,
    request_bytes: u16,
    first_read: Option<u16>,
    max_whole_bytes: bool,
    rows: Vec<u8>,
    files: [(u16, u8); 2],
    /// One for each answer; those behind are right.
    answers: Vec<Fault>,
}

/// What is wrong with an answer.
#[derive(Debug, Clone, Arbitrary)]
enum Fault {
    None,
    Short(u16),
    Long(u16),
    /// Bytes of another place.
    Elsewhere(u16),
    Flipped(u16, u8),
    Claims(i16, i16),
    Size(i16),
    Huge(u64),
    Tag(bool),
    Time(u32),
    Pieces(u8),
    Broken(u16),
    Whole,
    NotFound,
    Precondition,
    Failed,
    NotSupported,
}

impl Fault {
    /// Whether the object's bytes come out of it otherwise.
    const fn alters(&self) -> bool {
        matches!(self, Self::Elsewhere(_) | Self::Flipped(..))
    }
}

/// The records of the pack, and the file.
struct Sound {
    records: Vec<Vec<u8>>,
    file: Vec<u8>,
    arrays: Vec<(Path, Bytes)>,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let mut noise = seeds::Noise::new(1);
    let records: Vec<Vec<u8>> =
        (0..40_usize).map(|row| (0..row * 97 % 1500).map(|_| noise.next()).collect()).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let ids = StringArray::from_iter_values((0..records.len()).map(|row| format!("r{row}")));
    let index = RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap();
    let (table, options) = (Table::from(index), WriteOptions::default().sync(false));
    build_pack(&path, &Default::default(), &Table::empty(), &table, &records, &options).unwrap();
    let arrays = block_on(sound_arrays());
    Sound { records, file: std::fs::read(path).unwrap(), arrays }
});

/// For what this program asks of stores itself.
static RUNTIME: LazyLock<Mutex<Runtime>> =
    LazyLock::new(|| Mutex::new(Builder::new_current_thread().build().unwrap()));

fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner).block_on(future)
}

/// A folder for cached blocks, in memory where that is possible.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = FilePath::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("iac-fuzz-objects-{}", std::process::id()))
});

fuzz_target!(
    init: seeds::write(seeds::noise),
    |input: &[u8]| {
        let Ok(script) = Script::arbitrary_take_rest(Unstructured::new(input)) else { return };
        let sound = &*SOUND;
        if script.arrays {
            block_on(arrays(script.answers, &sound.arrays));
        } else {
            pack(&script, sound);
        }
    }
);

fn pack(script: &Script, sound: &Sound) {
    let store = Arc::new(Faulty::default());
    let path = Path::from("pack.iac");
    block_on(put(&store.inner, &path, Bytes::copy_from_slice(&sound.file)));
    store.script(script.answers.clone());
    let object = Arc::clone(&store) as Arc<dyn ObjectStore>;
    let location = ObjectLocation::in_store(object, path, "test://pack.iac");
    let options = ObjectOptions::default()
        .join_gap(script.join_gap.into())
        .request_bytes(u64::from(script.request_bytes) + 1)
        .first_read(script.first_read.map(|first| u64::from(first) * 2))
        .max_whole_bytes(if script.max_whole_bytes { 1 << 20 } else { 1 << 10 })
        .in_flight(NonZeroUsize::new(2).unwrap());
    let read = ReadOptions::default().workers(NonZeroUsize::MIN);
    let altered = script.answers.iter().any(Fault::alters);
    let rows: Vec<u64> = script
        .rows
        .iter()
        .take(16)
        .map(|row| u64::from(*row) % sound.records.len() as u64)
        .collect();
    if !script.cache {
        let Ok(pack) = PackReader::open_object(&location, &read, &options) else { return };
        return reads(&pack, &rows, sound, altered);
    }
    drop(std::fs::remove_dir_all(&*FOLDER));
    for (at, byte) in script.files {
        let cache = BlockCache::new(1 << 14).block_bytes(4096);
        let cache = Arc::new(cache.with_disk(&*FOLDER, 1 << 20).unwrap());
        if let Ok(pack) = PackReader::open_cached(&location, &read, &options, &cache) {
            reads(&pack, &rows, sound, altered);
        }
        alter_files(at, byte);
    }
    drop(std::fs::remove_dir_all(&*FOLDER));
}

fn reads(pack: &PackReader, rows: &[u64], sound: &Sound, altered: bool) {
    // What says where records lie has no checksum of its own while it is on its way: then only what
    // a record's own checksum covers is certain.
    let same = altered.then(|| pack.header().text() == header_text(&sound.file));
    if same == Some(false) {
        let _ = pack.read_rows(rows);
        return;
    }
    for row in rows {
        if let Ok(record) = pack.read(*row) {
            assert!(record == sound.records[*row as usize], "row {row} is another one");
        }
    }
    if let Ok(records) = pack.read_rows(rows) {
        for (row, record) in rows.iter().zip(&records) {
            assert!(*record == sound.records[*row as usize], "row {row} is another one");
        }
    }
    let data = pack.layout().data;
    if let Ok(bytes) = pack.read_data_span(0, data.length)
        && !altered
    {
        assert!(bytes == sound.file[data.offset as usize..], "other bytes");
    }
    let report = pack.verify(&VerifyOptions::default());
    if report.is_sound() && !altered {
        assert_eq!(report.rows, sound.records.len() as u64);
    }
}

fn header_text(file: &[u8]) -> &str {
    iac_format::header_text(file, file.len() as u64).unwrap()
}

/// Alters a byte of each file of the cache.
fn alter_files(at: u16, byte: u8) {
    let Ok(folders) = std::fs::read_dir(&*FOLDER) else { return };
    for folder in folders.flatten() {
        let Ok(files) = std::fs::read_dir(folder.path()) else { continue };
        for file in files.flatten() {
            let Ok(mut bytes) = std::fs::read(file.path()) else { continue };
            let at = usize::from(at) % bytes.len().max(1);
            if let Some(found) = bytes.get_mut(at) {
                *found ^= byte;
            }
            if byte == 255 {
                bytes.truncate(at);
            }
            std::fs::write(file.path(), bytes).unwrap();
        }
    }
}

static ARRAY_OPTIONS: LazyLock<StoreOptions> = LazyLock::new(|| {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    StoreOptions::default().packing(Packing::lz4()).cache(&ArrayCache::new(0)).pool(Arc::new(pool))
});

fn numbers() -> ndarray::Array2<i16> {
    ndarray::Array2::from_shape_fn((40, 30), |(y, x)| (y * 7 + x * x) as i16)
}

async fn sound_arrays() -> Vec<(Path, Bytes)> {
    let memory = Arc::new(InMemory::new());
    let place = Location::object_store(Arc::clone(&memory) as Arc<dyn ObjectStore>, "");
    let mut store = ArrayStore::create(place, ARRAY_OPTIONS.clone()).await.unwrap();
    let numbers = numbers();
    store.define("n", ArraySpec::new(DType::Int16, &[40, 30]).chunks(&[16, 7])).unwrap();
    store.write("n", &[0, 0], numbers.slice(ndarray::s![..20, ..]).to_owned()).await.unwrap();
    store.flush().await.unwrap();
    store.write("n", &[20, 0], numbers.slice(ndarray::s![20.., ..]).to_owned()).await.unwrap();
    store.flush().await.unwrap();
    stores::objects(&memory).await
}

/// Everything of a store of arrays is under a checksum, so what is read is right.
async fn arrays(answers: Vec<Fault>, sound: &[(Path, Bytes)]) {
    let store = Arc::new(Faulty::default());
    for (path, bytes) in sound {
        put(&store.inner, path, bytes.clone()).await;
    }
    store.script(answers);
    let place = Location::object_store(Arc::clone(&store) as Arc<dyn ObjectStore>, "");
    let Ok(store) = ArrayStore::open(place, ARRAY_OPTIONS.clone()).await else { return };
    let snapshot = store.snapshot();
    // An answer that there is no newer version is believed: then the last half is not there yet.
    let whole = numbers();
    let mut half = whole.clone();
    half.slice_mut(ndarray::s![20.., ..]).fill(0);
    let (whole, half) = (iac_array::ArrayData::from(&whole), iac_array::ArrayData::from(&half));
    for _ in 0..2 {
        if let Ok(data) = snapshot.read_all("n").await {
            assert!(data == whole || data == half, "other elements");
        }
    }
    let _ = snapshot.stats("n").await;
    let _ = snapshot.verify().await;
}

async fn put(inner: &InMemory, path: &Path, bytes: Bytes) {
    inner.put(path, PutPayload::from(bytes)).await.unwrap();
}

/// A store whose answers are wrong as a script says.
#[derive(Debug, Default)]
struct Faulty {
    inner: InMemory,
    script: Mutex<VecDeque<Fault>>,
}

impl Faulty {
    fn script(&self, answers: Vec<Fault>) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = answers.into();
    }

    fn next(&self) -> Fault {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.pop_front().unwrap_or(Fault::None)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

fn failed() -> Box<dyn std::error::Error + Send + Sync> {
    "on purpose".into()
}

async fn answer(
    inner: &InMemory,
    location: &Path,
    mut options: GetOptions,
    fault: Fault,
) -> Result<GetResult> {
    let (path, source) = (location.to_string(), failed());
    match fault {
        Fault::NotFound => return Err(Error::NotFound { path, source }),
        Fault::Precondition => return Err(Error::Precondition { path, source }),
        Fault::Failed => return Err(Error::Generic { store: "faulty", source }),
        Fault::NotSupported => return Err(Error::NotSupported { source }),
        Fault::Whole => options.range = None,
        Fault::Elsewhere(shift) => {
            if let Some(GetRange::Bounded(range)) = &mut options.range {
                let length = range.end.saturating_sub(range.start);
                let size = inner.head(location).await?.size;
                let start = u64::from(shift).min(size.saturating_sub(length));
                let asked = range.clone();
                *range = start..start.saturating_add(length);
                let mut result = inner.get_opts(location, options).await?;
                let real = result.range.end - result.range.start;
                result.range = asked.start..asked.start.saturating_add(real);
                return Ok(result);
            }
        }
        _ => {}
    }
    let mut result = inner.get_opts(location, options).await?;
    let near = |number: u64, by: i16| number.saturating_add_signed(by.into());
    match fault {
        Fault::Claims(start, end) => {
            result.range = near(result.range.start, start)..near(result.range.end, end);
            return Ok(result);
        }
        Fault::Size(by) => result.meta.size = near(result.meta.size, by),
        Fault::Huge(size) => result.meta.size = size,
        Fault::Tag(there) => result.meta.e_tag = there.then(|| "\"other\"".to_owned()),
        Fault::Time(by) => {
            let by = std::time::Duration::from_secs(by.into());
            result.meta.last_modified = result.meta.last_modified + by;
        }
        Fault::Short(_)
        | Fault::Long(_)
        | Fault::Flipped(..)
        | Fault::Pieces(_)
        | Fault::Broken(_) => {
            return body(result, &fault).await;
        }
        _ => {}
    }
    Ok(result)
}

/// An answer whose body is another one, or comes otherwise.
async fn body(mut result: GetResult, fault: &Fault) -> Result<GetResult> {
    let range = result.range.clone();
    let meta = result.meta.clone();
    let attributes = result.attributes.clone();
    let extensions = std::mem::take(&mut result.extensions);
    let mut bytes = result.bytes().await?.to_vec();
    let mut parts: Vec<Result<Bytes>> = Vec::new();
    match fault {
        Fault::Short(by) => bytes.truncate(bytes.len().saturating_sub(usize::from(*by))),
        Fault::Long(by) => bytes.resize(bytes.len() + usize::from(*by), 0x5A),
        Fault::Flipped(at, by) => {
            let length = bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(usize::from(*at) % length) {
                *byte ^= *by;
            }
        }
        Fault::Pieces(size) => {
            let size = usize::from(*size) * 64 + 1;
            parts.extend(bytes.chunks(size).map(|part| Ok(Bytes::copy_from_slice(part))));
            bytes.clear();
        }
        Fault::Broken(at) => {
            bytes.truncate(usize::from(*at));
            parts.push(Ok(Bytes::from(std::mem::take(&mut bytes))));
            parts.push(Err(Error::Generic { store: "faulty", source: failed() }));
        }
        _ => {}
    }
    if !bytes.is_empty() {
        parts.push(Ok(Bytes::from(bytes)));
    }
    let payload = GetResultPayload::Stream(stream::iter(parts).boxed());
    Ok(GetResult { payload, meta, range, attributes, extensions })
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.next();
        answer(&self.inner, location, options, fault).await
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

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
