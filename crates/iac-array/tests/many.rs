//! Stores of many arrays: what opening one takes.
#![allow(missing_docs, unsafe_code, clippy::unwrap_used, clippy::arithmetic_side_effects)]

#[path = "../../iac-codec/tests/common/counting.rs"]
mod counting;

use iac_array::blocking::ArrayStore;
use iac_array::{ArraySpec, DType, Location, StoreOptions};

#[test]
fn opening_takes_little_more_memory_than_is_kept() {
    const ARRAYS: usize = 40_000;
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let location = Location::folder(folder.path()).unwrap();
        ArrayStore::open(location, StoreOptions::default()).unwrap()
    };
    let location = Location::folder(folder.path()).unwrap();
    let mut store = ArrayStore::create(location, StoreOptions::default()).unwrap();
    for at in 0..ARRAYS {
        let mut spec = ArraySpec::new(DType::Int32, &[256]);
        for key in 0..20 {
            spec = spec.attr(&format!("key{key}"), format!("value {}", (at + key) % 97));
        }
        store.define(&format!("array-{at:06}"), spec).unwrap();
    }
    store.flush().unwrap();
    drop(store);
    // What the process keeps anyhow.
    drop(open());
    let start = counting::begin();
    let store = open();
    let most = counting::most_above(start) / ARRAYS;
    let kept = (counting::begin() - start) / ARRAYS;
    assert!(kept < 520, "{kept} bytes are kept for an array");
    // With all batches of the catalogue decoded at once it was 400 more.
    assert!(most < kept + 320, "{most} bytes at most, of which {kept} are kept");
    assert_eq!(store.snapshot().as_async().attr_column("key7").count(), ARRAYS);
}
