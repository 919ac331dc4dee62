//! How often reading allocates.
#![allow(unsafe_code)] // an allocator that counts
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

#[path = "common/codecs.rs"]
mod codecs;
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use iac_codec::{CodecSpec, Parameters};
use iac_reader::{
    ContiguousRecordBatch, FixedRecordPack, ReadOptions, RecordOptions, VariableRecordPack,
};
use iac_writer::{FixedPackBuilder, Table, VariablePackBuilder};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = COUNT.try_with(|count| count.set(count.get().wrapping_add(1)));
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get).wrapping_sub(before)
}

fn index(rows: u64) -> Table {
    let ids = UInt64Array::from_iter_values(0..rows);
    Table::from(RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap())
}

#[test]
fn batches_that_are_used_again_allocate_for_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let records: Vec<Vec<u8>> = (0..1000).map(|row| vec![7; row]).collect();
    let registry = Arc::new(codecs::registry());
    VariablePackBuilder::new("test", index(1000))
        .codec_spec(CodecSpec::new("test.reversed", Parameters::new()))
        .registry(Arc::clone(&registry))
        .build(&path, &records)
        .unwrap();
    let options = ReadOptions::default().workers(NonZeroUsize::new(1));
    let records = RecordOptions::default().registry(registry);
    let pack = VariableRecordPack::open_with(&path, &options, records).unwrap();
    let rows: Vec<u64> = (0..256).map(|at| (at * 389) % 1000).collect();
    let mut batch = ContiguousRecordBatch::new();
    pack.read_many_contiguous_into(&rows, &mut batch).unwrap();
    let found = allocations(|| pack.read_many_contiguous_into(&rows, &mut batch).unwrap());
    assert!(found <= 4, "{found} allocations");
    let found = allocations(|| drop(pack.read_many(&rows).unwrap()));
    assert!(found <= 20, "{found} allocations");

    let path = folder.path().join("fixed.iac");
    let values: Vec<f32> = (0..64_000_u16).map(f32::from).collect();
    FixedPackBuilder::new("test", index(1000)).build(&path, 64, &values).unwrap();
    let pack = FixedRecordPack::open_with(&path, &options).unwrap();
    let mut batch = vec![0.0_f32; 256 * 64];
    pack.read_matrix_as_into(&rows, &mut batch).unwrap();
    let found = allocations(|| pack.read_matrix_as_into(&rows, &mut batch).unwrap());
    assert!(found <= 4, "{found} allocations");
    let found = allocations(|| pack.read_many_f32_into(&rows, &mut batch).unwrap());
    assert!(found <= 6, "{found} allocations");
}
