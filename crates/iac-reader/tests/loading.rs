//! Decoding from sources that only copy: few reads, in the order of the file, with the same result
//! as from memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

#[path = "common/codecs.rs"]
mod codecs;

use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use bytes::Bytes;
use iac_codec::{CodecSpec, Parameters};
use iac_format::ErrorKind;
use iac_reader::{ByteSource, Memory, PackReader, ReadOptions, RecordOptions, VariableRecordPack};
use iac_writer::{Table, VariablePackBuilder, WriteOptions};

/// Copies only, notes its reads, and fails from a given one on.
#[derive(Debug)]
struct Noting {
    bytes: Memory,
    reads: Mutex<Vec<(u64, usize)>>,
    fail_from: AtomicU64,
}

impl Noting {
    fn new(bytes: Bytes) -> Arc<Self> {
        let fail_from = AtomicU64::new(u64::MAX);
        Arc::new(Self { bytes: Memory::new(bytes), reads: Mutex::default(), fail_from })
    }

    fn reads(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }
}

impl ByteSource for Noting {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut reads = self.reads.lock().unwrap();
        if reads.len() as u64 >= self.fail_from.load(Ordering::SeqCst) {
            return Err(io::Error::other("the cable is cut"));
        }
        reads.push((offset, buffer.len()));
        self.bytes.read_into(offset, buffer)
    }
}

/// A pack of records that take about as many bytes as they have.
fn pack_of(codec: &str, count: usize, bytes: usize) -> (Bytes, Vec<Vec<u8>>) {
    let records: Vec<Vec<u8>> = (0..count)
        .map(|row| (0..bytes + row % 7).map(|at| (at * 31 + row) as u8).collect())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let ids = StringArray::from_iter_values((0..count).map(|row| format!("r{row}")));
    let index = RecordBatch::try_from_iter([("item_id", Arc::new(ids) as ArrayRef)]).unwrap();
    VariablePackBuilder::new("test", Table::from(index))
        .codec_spec(CodecSpec::new(codec, Parameters::new()))
        .registry(Arc::new(codecs::registry()))
        .options(WriteOptions::new().sync(false))
        .build(&path, &records)
        .unwrap();
    (Bytes::from(std::fs::read(path).unwrap()), records)
}

fn open(source: &Arc<Noting>, workers: usize) -> VariableRecordPack {
    let source = Arc::clone(source) as Arc<dyn ByteSource>;
    let options = ReadOptions::default().workers(NonZeroUsize::new(workers));
    let pack = PackReader::from_source(source, "test", &options).unwrap();
    // Tables are read on first use.
    pack.index_table().unwrap();
    pack.span(0).unwrap();
    let records = RecordOptions::default().registry(Arc::new(codecs::registry()));
    VariableRecordPack::from_reader_with(pack, records)
}

/// Reads rows in all ways for many; each must take as many reads as expected.
fn read_in_every_way(
    source: &Arc<Noting>,
    pack: &VariableRecordPack,
    records: &[Vec<u8>],
    rows: &[u64],
) -> Vec<Vec<(u64, usize)>> {
    source.reads();
    let expected: Vec<&[u8]> = rows.iter().map(|row| &records[*row as usize][..]).collect();
    let mut reads = Vec::new();
    assert_eq!(pack.read_many(rows).unwrap(), expected);
    reads.push(source.reads());
    let batch = pack.read_many_contiguous(rows).unwrap();
    assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
    reads.push(source.reads());
    let (found, skipped) = pack.read_many_lossy(rows).unwrap();
    assert!(skipped.is_empty());
    assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), expected);
    reads.push(source.reads());
    let (batch, skipped) = pack.read_many_contiguous_lossy(rows).unwrap();
    assert!(skipped.is_empty());
    assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
    reads.push(source.reads());
    reads
}

#[test]
fn neighbours_and_duplicates_take_one_read_in_any_order() {
    for codec in ["test.reversed", "test.runs", "test.sized_runs"] {
        let (bytes, records) = pack_of(codec, 100, 300);
        let source = Noting::new(bytes);
        for workers in [1, 4] {
            let pack = open(&source, workers);
            let mut rows: Vec<u64> = (0..100).map(|n| n * 37 % 100).collect();
            rows.extend([99, 0, 0, 99]);
            for reads in read_in_every_way(&source, &pack, &records, &rows) {
                assert_eq!(reads.len(), 1, "{codec}, {workers}: {reads:?}");
            }
        }
    }
}

#[test]
fn small_gaps_are_read_along_and_large_ones_are_not() {
    let (bytes, records) = pack_of("test.reversed", 60, 1000);
    let source = Noting::new(bytes);
    let pack = open(&source, 1);
    // Two records lie between 10 and 13, nine between 13 and 23.
    for reads in read_in_every_way(&source, &pack, &records, &[23, 10, 13]) {
        assert_eq!(reads.len(), 2, "{reads:?}");
        assert!(reads.is_sorted(), "in the order of the file");
        let bytes: usize = reads.iter().map(|(_, bytes)| bytes).sum();
        assert!((5000..5100).contains(&bytes), "{reads:?}");
    }
}

#[test]
fn one_read_has_a_bound_that_only_a_single_record_exceeds() {
    let (bytes, records) = pack_of("test.reversed", 50, 100_000);
    let source = Noting::new(bytes);
    let rows: Vec<u64> = (0..50).rev().collect();
    for workers in [1, 4] {
        let pack = open(&source, workers);
        for reads in read_in_every_way(&source, &pack, &records, &rows) {
            assert_eq!(reads.len(), 5, "{reads:?}");
            assert!(reads.iter().all(|(_, bytes)| *bytes <= 1 << 20), "{reads:?}");
        }
    }
    let (bytes, records) = pack_of("test.reversed", 3, 2_000_000);
    let source = Noting::new(bytes);
    let pack = open(&source, 1);
    for reads in read_in_every_way(&source, &pack, &records, &[2, 1, 0]) {
        assert_eq!(reads.len(), 3);
    }
}

#[test]
fn one_record_is_one_read() {
    let (bytes, records) = pack_of("test.runs", 10, 300);
    let source = Noting::new(bytes);
    let pack = open(&source, 1);
    source.reads();
    assert_eq!(pack.read(4).unwrap(), records[4]);
    assert_eq!(source.reads().len(), 1);
    assert!(pack.read_many(&[]).unwrap().is_empty());
    assert!(source.reads().is_empty());
}

#[test]
fn a_source_that_fails_fails_the_whole_batch() {
    let (bytes, _) = pack_of("test.runs", 60, 2000);
    let source = Noting::new(bytes);
    let pack = open(&source, 1);
    for fail_from in 0..3 {
        source.reads();
        source.fail_from.store(fail_from, Ordering::SeqCst);
        let rows = [50, 3, 28];
        for result in [
            pack.read_many(&rows).map(drop),
            pack.read_many_contiguous(&rows).map(drop),
            pack.read_many_lossy(&rows).map(drop),
            pack.read_many_contiguous_lossy(&rows).map(drop),
        ] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Io);
            source.reads();
        }
    }
}
