//! Stores of arrays for the targets that put hostile layers and manifests on top of them.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::TryStreamExt;
use iac_array::{
    ArrayCache, ArrayData, ArraySpec, ArrayStore, DType, Filter, Location, Packing, Snapshot,
    StoreOptions,
};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// Bytes of elements that are worth the time.
const MOST: u64 = 1 << 20;

static RUNTIME: LazyLock<Mutex<Runtime>> =
    LazyLock::new(|| Mutex::new(Builder::new_current_thread().build().unwrap()));

static OPTIONS: LazyLock<StoreOptions> = LazyLock::new(|| {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    StoreOptions::default()
        .packing(Packing::lz4().with_filters(&[Filter::Shuffle]))
        .cache(&ArrayCache::new(0))
        .pool(Arc::new(pool))
});

/// A sound store that hostile layers are put on top of, by object.
pub static SOUND: LazyLock<Vec<(Path, Bytes)>> = LazyLock::new(|| block_on(sound()));

fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner).block_on(future)
}

fn at(memory: &Arc<InMemory>) -> Location {
    Location::object_store(Arc::clone(memory) as Arc<dyn ObjectStore>, "")
}

async fn with_sound(sound: &[(Path, Bytes)]) -> Arc<InMemory> {
    let memory = InMemory::new();
    for (path, bytes) in sound {
        memory.put(path, bytes.clone().into()).await.unwrap();
    }
    Arc::new(memory)
}

/// A manifest whose checksum is right.
fn summed(manifest: &Value) -> Option<String> {
    let mut members = manifest.as_object()?.clone();
    members.remove("crc32");
    let body = Value::Object(members).to_string();
    let blank = format!("{{\"crc32\":\"00000000\",{}", body.strip_prefix('{')?);
    let sum = format!("{:08x}", crc32fast::hash(blank.as_bytes()));
    Some(blank.replacen("00000000", &sum, 1))
}

/// Puts a manifest on top of a sound store, and reads all that comes of it.
pub fn manifest(text: &[u8]) {
    block_on(with_manifest(text, &SOUND));
}

/// Puts a layer on top of a sound store, and reads all that comes of it; also as a file by itself.
/// `text` has the header's own members.
pub fn layer(text: &[u8], file: Vec<u8>) {
    block_on(with_layer(text, file, &SOUND));
}

async fn with_manifest(text: &[u8], sound: &[(Path, Bytes)]) {
    let text = match serde_json::from_slice::<Value>(text).ok().as_ref().and_then(summed) {
        Some(text) => text.into_bytes(),
        None => text.to_vec(),
    };
    let memory = with_sound(sound).await;
    let path = Path::from(format!("versions/{:020}.json", u64::MAX - 9));
    memory.put(&path, text.into()).await.unwrap();
    let Ok(store) = ArrayStore::open(at(&memory), OPTIONS.clone()).await else { return };
    exercise(store.snapshot(), &memory).await;
}

async fn with_layer(text: &[u8], file: Vec<u8>, sound: &[(Path, Bytes)]) {
    let memory = with_sound(sound).await;
    let bytes = file.len() as u64;
    let head = file.get(..65_536).map_or(0, crc32fast::hash);
    let header = iac_format::Header::parse(file.get(..65_536).unwrap_or(&file), bytes).ok();
    memory.put(&Path::from("layers/x.iac"), file.into()).await.unwrap();
    if let Ok(single) = Snapshot::open_file(at(&memory), "layers/x.iac", &OPTIONS).await {
        exercise(&single, &memory).await;
    }
    // The same as a layer on top of others.
    let id = serde_json::from_slice::<Value>(text).ok();
    let id = id.as_ref().and_then(|text| text.get("nd_array")?.get("layer_id")).cloned();
    let (Some(id), Some(header)) = (id, header) else { return };
    let newest = sound.iter().find(|(path, _)| path.as_ref().starts_with("versions")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&newest.1).unwrap();
    manifest["version"] = 9.into();
    let layers = manifest["layers"].as_array_mut().unwrap();
    layers.push(json!({
        "layer_id": id,
        "path": "layers/x.iac",
        "bytes": bytes,
        "head_bytes": header.layout().index_table.offset,
        "header_crc32": head,
        "rows": header.num_records().unwrap_or(0),
        "through": 9,
    }));
    let text = summed(&manifest).unwrap();
    let path = Path::from(format!("versions/{:020}.json", u64::MAX - 9));
    memory.put(&path, text.into()).await.unwrap();
    let Ok(store) = ArrayStore::open(at(&memory), OPTIONS.clone()).await else { return };
    exercise(store.snapshot(), &memory).await;
}

/// Bytes of a box, if it has few.
fn few(dtype: &DType, extents: &[u64]) -> bool {
    let width = dtype.width().map_or(32, |width| width as u64);
    let bytes = extents.iter().try_fold(width, |all, extent| all.checked_mul(*extent));
    bytes.is_some_and(|bytes| bytes <= MOST)
}

async fn exercise(snapshot: &Snapshot, memory: &Arc<InMemory>) {
    let names: Vec<String> = snapshot.names().take(8).map(str::to_owned).collect();
    let mut read = Vec::new();
    let mut small = true;
    for name in &names {
        let meta = snapshot.meta(name).unwrap();
        let _ = meta.to_json();
        let (dtype, shape) = (meta.dtype().clone(), meta.shape().to_vec());
        let cut: Vec<u64> = meta.chunks().iter().zip(&shape).map(|(a, b)| *a.min(b)).collect();
        small &= few(&dtype, &cut) && few(&dtype, &shape);
        if few(&dtype, &shape) {
            if let Ok(data) = snapshot.read_all(name).await {
                assert_eq!(data.shape(), shape);
                read.push((name, data));
            }
            let _ = snapshot.stats(name).await;
        } else if !shape.contains(&0) {
            let (start, one) = (vec![0; shape.len()], vec![1; shape.len()]);
            let _ = snapshot.read(name, &start, &one).await;
        }
    }
    let _ = snapshot.verify().await;
    if !small || names.len() == 8 {
        return;
    }
    let path = Path::from("out.iac");
    if snapshot.export(&**memory, &path, &OPTIONS).await.is_err() {
        return;
    }
    let again = Snapshot::open_file(at(memory), "out.iac", &OPTIONS).await.unwrap();
    for (name, data) in read {
        assert_eq!(again.read_all(name).await.unwrap(), data, "`{name}` changed");
    }
}

async fn sound() -> Vec<(Path, Bytes)> {
    let memory = Arc::new(InMemory::new());
    let mut store = ArrayStore::create(at(&memory), OPTIONS.clone()).await.unwrap();
    let spec = ArraySpec::new(DType::Int16, &[6, 5]).chunks(&[2, 3]).fill(-1_i16);
    store.define("n", spec.attr("unit", "mm")).unwrap();
    store.define("t", ArraySpec::new(DType::Utf8, &[4]).chunks(&[3])).unwrap();
    store.define_group("g").unwrap();
    let numbers = ndarray::Array2::from_shape_fn((6, 4), |(y, x)| (y * 7 + x / 2) as i16);
    store.write("n", &[0, 0], numbers).await.unwrap();
    let texts = ArrayData::from_texts(&[4], ["a", "", "long", "a"]).unwrap();
    store.write("t", &[0], texts).await.unwrap();
    store.flush().await.unwrap();
    objects(&memory).await
}

/// All objects of a store, sorted.
pub async fn objects(memory: &InMemory) -> Vec<(Path, Bytes)> {
    let listed: Vec<_> = memory.list(None).try_collect().await.unwrap();
    let mut objects = Vec::new();
    for object in listed {
        let bytes = memory.get(&object.location).await.unwrap().bytes().await.unwrap();
        objects.push((object.location, bytes));
    }
    objects.sort();
    objects
}
