//! What several tests of stores need.

#![allow(unreachable_pub)]

use futures_util::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

/// All objects of a store in memory, by path.
pub async fn objects(memory: &InMemory) -> Vec<(Path, Vec<u8>)> {
    let listed: Vec<ObjectMeta> = memory.list(None).try_collect().await.unwrap();
    let mut all = Vec::new();
    for object in listed {
        let bytes = memory.get(&object.location).await.unwrap().bytes().await.unwrap();
        all.push((object.location, bytes.to_vec()));
    }
    all
}
