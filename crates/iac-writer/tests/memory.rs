//! Streaming builds hold no more than their budget and a fixed amount, counted in the allocator.
#![allow(unsafe_code)] // an allocator that counts
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use iac_codec::{ByteCodec, Codec, Limits, Parameters, Result};
use iac_writer::{Table, VariablePackBuilder, WriteOptions};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may be there while bytes are moved.
        grow(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Copies, and takes its time for some records, so that others pile up behind them. Payloads have
/// spare capacity, as those of codecs do that do not know the size beforehand.
struct Slow {
    /// Payloads get so many percent of the bytes of their records.
    percent: usize,
}

impl ByteCodec for Slow {
    fn name(&self) -> &str {
        "test.slow"
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
        if record.first() == Some(&1) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let length = record.len() * self.percent / 100;
        let mut payload = Vec::with_capacity(record.len());
        payload.extend(record.iter().cycle().take(length));
        Ok(payload)
    }

    fn decode(&self, payload: &[u8], _: &Limits) -> Result<Vec<u8>> {
        Ok(payload.to_vec())
    }
}

const SPARE: usize = 32 << 20;

#[test]
fn streaming_build_holds_its_budget_and_32_mib_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mib = 1_usize << 20;
    for (rows, bytes, budget, workers) in [
        (800_u32, 64 << 10, mib, 2),
        (800, 64 << 10, 16 * mib, 8),
        (60_000, 700, 4 * mib, 3),
        (60, 3 * mib, 8 * mib, 2),
        // Records that take the spare memory for themselves.
        (12, 20 * mib, 64 * mib, 3),
    ] {
        for percent in [30, 100] {
            let ids: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..rows));
            let index = RecordBatch::try_from_iter([("item_id", ids)]).unwrap();
            let builder = VariablePackBuilder::new("test", Table::from(index))
                .codec(Codec::from_byte_codec(Slow { percent }))
                .workers(NonZeroUsize::new(workers))
                .memory(u64::try_from(budget).unwrap())
                .options(WriteOptions::new().sync(false).overwrite(true));
            let every = (rows / 10).max(1);
            let records =
                (0..rows).map(|row| Ok::<_, Infallible>(vec![u8::from(row % every == 0); bytes]));
            let before = NOW.load(Ordering::Relaxed);
            MOST.store(before, Ordering::Relaxed);
            builder.build_streaming(&path, records).unwrap();
            let most = MOST.load(Ordering::Relaxed) - before;
            let kept = most.saturating_sub(budget) >> 10;
            eprintln!(
                "{rows} records of {bytes} bytes to {percent} %, {workers} workers: \
                 budget {} KiB, at most {} KiB, {kept} KiB beside it",
                budget >> 10,
                most >> 10
            );
            assert!(most <= budget + SPARE, "{most} bytes, budget {budget}");
        }
    }
}
