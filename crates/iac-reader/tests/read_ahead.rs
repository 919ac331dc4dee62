//! Batches that are fetched and decoded ahead: in order, bounded, and stopped when nobody wants
//! them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

#[path = "common/packs.rs"]
mod packs;

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use iac_format::ErrorKind;
use iac_reader::{
    ByteSource, Memory, PackReader, ReadAheadOptions, ReadOptions, SourceRead, VariableRecordPack,
};
use packs::{pack_of, payloads};

/// Takes a different time for each call.
#[derive(Debug)]
struct Slow {
    bytes: Memory,
    calls: AtomicU64,
}

impl ByteSource for Slow {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.bytes.read_into(offset, buffer)
    }

    fn read_batch(&self, reads: &mut [SourceRead<'_>]) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(call * 7 % 5));
        reads.iter_mut().try_for_each(|read| self.read_into(read.offset, read.buffer))
    }

    fn prefers_batches(&self) -> bool {
        true
    }
}

fn slow(payloads: &[Vec<u8>]) -> (Arc<Slow>, VariableRecordPack) {
    let bytes = Memory::new(pack_of(payloads));
    let slow = Arc::new(Slow { bytes, calls: AtomicU64::new(0) });
    let source = Arc::clone(&slow) as Arc<dyn ByteSource>;
    let pack = PackReader::from_source(source, "far away", &ReadOptions::default()).unwrap();
    (slow, VariableRecordPack::from_reader(pack))
}

fn options(depth: usize, decoded: usize) -> ReadAheadOptions {
    ReadAheadOptions::default()
        .depth(NonZeroUsize::new(depth).unwrap())
        .decoded(NonZeroUsize::new(decoded).unwrap())
}

fn plan(batches: u64) -> Vec<Vec<u64>> {
    (0..batches).map(|batch| vec![batch % 50, (batch * 7) % 50, batch % 50]).collect()
}

#[test]
fn batches_come_in_the_order_of_the_plan() {
    let payloads = payloads(50, 300);
    let (_, far) = slow(&payloads);
    let near = VariableRecordPack::from_reader(PackReader::from_bytes(pack_of(&payloads)).unwrap());
    for pack in [far, near] {
        for (depth, decoded) in [(1, 1), (4, 1), (9, 3), (100, 2)] {
            let mut found = pack.read_ahead(plan(60), options(depth, decoded));
            for rows in plan(60) {
                let records = found.next().unwrap().unwrap();
                let expected: Vec<&[u8]> =
                    rows.iter().map(|row| &payloads[*row as usize][..]).collect();
                assert_eq!(records, expected);
            }
            assert!(found.next().is_none() && found.next().is_none());
        }
        let mut contiguous = pack.read_contiguous_ahead(plan(3), options(2, 1));
        assert_eq!(contiguous.next().unwrap().unwrap().len(), 3);
        assert!(pack.read_ahead(Vec::new(), options(2, 1)).next().is_none());
    }
}

#[test]
fn no_more_than_depth_and_decoded_batches_are_begun() {
    let (_, pack) = slow(&payloads(50, 300));
    let begun = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&begun);
    let plan = plan(1000).into_iter().inspect(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
    });
    let mut found = pack.read_ahead(plan, options(4, 2));
    for taken in 1..20 {
        found.next().unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        // Four that are fetched, two that wait, one in the decoder's hands.
        let begun = begun.load(Ordering::SeqCst);
        assert!(begun <= taken + 7, "{begun} begun, {taken} taken");
    }
    drop(found);
    std::thread::sleep(Duration::from_millis(50));
    let stopped = begun.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(begun.load(Ordering::SeqCst), stopped, "nothing is begun after the end");
}

#[test]
fn a_batch_that_fails_is_an_error_in_its_place() {
    let payloads = payloads(50, 300);
    let (_, pack) = slow(&payloads);
    let plan = vec![vec![1], vec![99], vec![2]];
    let found: Vec<_> = pack.read_ahead(plan, options(4, 1)).collect();
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].as_ref().unwrap(), &[payloads[1].clone()]);
    assert_eq!(found[1].as_ref().unwrap_err().kind(), ErrorKind::RowOutOfRange);
    assert_eq!(found[2].as_ref().unwrap(), &[payloads[2].clone()]);
}

#[test]
fn a_panic_on_the_way_reaches_the_caller() {
    let (_, pack) = slow(&payloads(50, 300));
    let decoding = pack.read_ahead_with(plan(10), options(2, 1), |_, rows| {
        assert_ne!(rows[0], 3, "test");
        Ok(())
    });
    let planning = plan(10).into_iter().inspect(|rows| assert_ne!(rows[0], 3, "test"));
    let planning = pack.read_ahead_with(planning, options(2, 1), |_, _| Ok(()));
    for mut found in [decoding, planning] {
        let counted = catch_unwind(AssertUnwindSafe(|| found.by_ref().count()));
        assert!(counted.is_err(), "an end that is none");
    }
}
