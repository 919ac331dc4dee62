//! Headers and manifests whose checksums are right and whose members are not.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use iac_array::blocking::{ArrayStore, Snapshot};
use iac_array::{ArrayData, ArraySpec, DType, Location, Packing, StoreOptions};
use iac_format::{Header, HeaderFacts, Layout, build_header_text, header_block};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(future)
}

fn options() -> StoreOptions {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    StoreOptions::default().packing(Packing::lz4()).pool(Arc::new(pool))
}

fn sample(memory: &Arc<InMemory>) -> (ArrayStore, ArrayData) {
    let location = Location::object_store(Arc::clone(memory) as Arc<dyn ObjectStore>, "");
    let mut store = ArrayStore::create(location, options()).unwrap();
    store.define("a", ArraySpec::new(DType::Int32, &[40]).chunks(&[8])).unwrap();
    let numbers: ndarray::Array1<i32> = (0..40).map(|at| at / 3).collect();
    store.write("a", &[0], numbers).unwrap();
    store.flush().unwrap();
    let expected = store.read_all("a").unwrap();
    (store, expected)
}

/// A value with one of its leaves, or one of its branches, replaced or gone.
fn mutations(value: &Value) -> Vec<Value> {
    let hostile = [
        json!(null),
        json!(0),
        json!(-1),
        json!(1),
        json!(u64::MAX),
        json!(i64::MAX),
        json!(1e300),
        json!("x"),
        json!([]),
        json!({}),
        json!(["validity"]),
        json!([[0, 1, u64::MAX, 0, 0, u64::MAX, u64::MAX]]),
    ];
    let mut all = hostile.to_vec();
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let mut without = members.clone();
                without.remove(name);
                all.push(Value::Object(without));
                for mutated in mutations(member) {
                    let mut with = members.clone();
                    with.insert(name.clone(), mutated);
                    all.push(Value::Object(with));
                }
            }
        }
        Value::Array(entries) => {
            for (at, entry) in entries.iter().enumerate() {
                for mutated in mutations(entry) {
                    let mut with = entries.clone();
                    with[at] = mutated;
                    all.push(Value::Array(with));
                }
            }
        }
        _ => {}
    }
    all
}

#[test]
fn headers_with_hostile_members_give_an_error_or_the_right_values() {
    let memory = Arc::new(InMemory::new());
    let (store, expected) = sample(&memory);
    let path = Path::from("x.iac");
    store.snapshot().export(&*memory, &path, &options()).unwrap();
    let bytes = block_on(async { memory.get(&path).await.unwrap().bytes().await.unwrap() });
    let header = Header::parse(&bytes[..65_536], bytes.len() as u64).unwrap();
    let layout = header.layout();
    let facts = HeaderFacts {
        layout: Layout::new(
            layout.slide_table.length,
            layout.index_table.length,
            layout.data.length,
        )
        .unwrap(),
        num_slides: header.num_slides().unwrap(),
        num_records: header.num_records().unwrap(),
        checksums: header.checksums(),
    };
    let (mut opened, mut refused) = (0, 0);
    for mutated in mutations(header.get("nd_array").unwrap()) {
        let mut members = header.members().clone();
        members.insert("nd_array".to_owned(), mutated.clone());
        let mut file = header_block(&build_header_text(&members, &facts).unwrap()).unwrap();
        file.extend_from_slice(&bytes[65_536..]);
        block_on(async { memory.put(&path, file.into()).await.unwrap() });
        let location = Location::object_store(Arc::clone(&memory) as Arc<dyn ObjectStore>, "");
        match Snapshot::open_file(location, "x.iac", &options()) {
            Ok(snapshot) => {
                opened += 1;
                if let Ok(found) = snapshot.read_all("a") {
                    assert_eq!(found, expected, "{mutated}");
                }
                drop(snapshot.verify().unwrap());
            }
            Err(_) => refused += 1,
        }
    }
    assert!(opened > 10 && refused > 100, "{opened} opened, {refused} refused");
}

#[test]
fn manifests_with_hostile_members_give_an_error_or_the_right_values() {
    let memory = Arc::new(InMemory::new());
    let (_, expected) = sample(&memory);
    let path = Path::from("versions/18446744073709551614.json");
    let text = block_on(async { memory.get(&path).await.unwrap().bytes().await.unwrap() });
    let value: Value = serde_json::from_slice(&text).unwrap();
    let (mut opened, mut refused) = (0, 0);
    for mutated in mutations(&value) {
        let Value::Object(mut members) = mutated else {
            continue;
        };
        members.remove("crc32");
        let body = serde_json::to_string(&members).unwrap();
        let blank = format!("{{\"crc32\":\"00000000\",{}", body.strip_prefix("{").unwrap());
        let sum = format!("{:08x}", crc32fast::hash(blank.as_bytes()));
        let text = blank.replacen("00000000", &sum, 1);
        block_on(async { memory.put(&path, text.clone().into()).await.unwrap() });
        let location = Location::object_store(Arc::clone(&memory) as Arc<dyn ObjectStore>, "");
        match ArrayStore::open(location, options()) {
            Ok(store) => {
                opened += 1;
                if let Ok(found) = store.read_all("a") {
                    assert_eq!(found, expected, "{text}");
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(opened > 2 && refused > 50, "{opened} opened, {refused} refused");
}
