//! Packs for tests of sources.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use iac_writer::{Table, WriteOptions, build_pack};
use serde_json::Map;

/// A pack of such records, as the bytes of its file.
pub(crate) fn pack_of(payloads: &[Vec<u8>]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let ids = StringArray::from_iter_values((0..payloads.len()).map(|row| format!("r{row}")));
    let index = RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap();
    build_pack(
        &path,
        &Map::new(),
        &Table::empty(),
        &Table::from(index),
        payloads,
        &WriteOptions::default().sync(false),
    )
    .unwrap();
    std::fs::read(path).unwrap()
}

pub(crate) fn payloads(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|row| (0..bytes + row % 7).map(|at| (at * 31 + row * 7) as u8).collect())
        .collect()
}
