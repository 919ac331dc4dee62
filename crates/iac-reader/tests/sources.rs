//! What a reader asks of its source: how often, how much, and what it makes of failures.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

mod common;

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use bytes::Bytes;
use iac_format::ErrorKind;
use iac_reader::{
    ByteSource, CacheConfig, ContiguousRecordBatch, MappedFile, Memory, PackReader, ReadOptions,
    SourceKind, read_header,
};
use iac_writer::{Table, WriteOptions, build_pack};
use proptest::prelude::*;
use serde_json::Map;

/// Copies only, counts its reads, and fails from a given one on.
#[derive(Debug)]
struct Counting {
    bytes: Memory,
    reads: AtomicU64,
    fail_from: u64,
}

impl Counting {
    fn new(bytes: Bytes, fail_from: u64) -> Arc<Self> {
        Arc::new(Self { bytes: Memory::new(bytes), reads: AtomicU64::new(0), fail_from })
    }

    fn reads(&self) -> u64 {
        self.reads.swap(0, Ordering::SeqCst)
    }
}

impl ByteSource for Counting {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.reads.fetch_add(1, Ordering::SeqCst) >= self.fail_from {
            return Err(io::Error::other("the cable is cut"));
        }
        self.bytes.read_into(offset, buffer)
    }
}

fn pack_of(payloads: &[Vec<u8>]) -> Bytes {
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
    Bytes::from(std::fs::read(path).unwrap())
}

fn payloads(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|row| vec![row as u8; bytes + row % 7]).collect()
}

fn open(source: &Arc<Counting>) -> PackReader {
    PackReader::from_source(
        Arc::clone(source) as Arc<dyn ByteSource>,
        "test",
        &ReadOptions::default(),
    )
    .unwrap()
}

#[test]
fn neighbours_are_read_together() {
    let source = Counting::new(pack_of(&payloads(100, 50)), u64::MAX);
    let pack = open(&source);
    assert_eq!(source.reads(), 1, "one read finds the header");
    pack.read(3).unwrap();
    assert_eq!(source.reads(), 2, "the index table, and the record");
    let rows: Vec<u64> = (0..100).rev().collect();
    assert_eq!(pack.read_rows(&rows).unwrap().len(), 100);
    assert_eq!(source.reads(), 1, "one stretch of the file");
    pack.read_rows(&[10, 30, 11, 50]).unwrap();
    assert_eq!(source.reads(), 3);
    assert_eq!(pack.iter_payloads().unwrap().count(), 100);
    assert_eq!(source.reads(), 1);
    assert_eq!(pack.view(0).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(source.reads(), 0);
}

#[test]
fn a_long_header_takes_one_more_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let mut header = Map::new();
    header.insert("note".to_owned(), "x".repeat(60_000).into());
    build_pack::<&[u8]>(
        &path,
        &header,
        &Table::empty(),
        &Table::empty(),
        &[],
        &WriteOptions::default().sync(false),
    )
    .unwrap();
    let source = Counting::new(Bytes::from(std::fs::read(&path).unwrap()), u64::MAX);
    assert_eq!(open(&source).header().get("note").unwrap().as_str().unwrap().len(), 60_000);
    assert_eq!(source.reads(), 2);
    assert!(PackReader::open(&path).unwrap().header().get("note").is_some());
}

#[test]
fn a_failing_source_is_an_io_error_wherever_it_fails() {
    let bytes = pack_of(&payloads(20, 1000));
    let rows = [3, 9, 1];
    for fail_from in 0..20 {
        let source = Counting::new(bytes.clone(), fail_from);
        let opened = PackReader::from_source(
            Arc::clone(&source) as Arc<dyn ByteSource>,
            "far away",
            &ReadOptions::default(),
        );
        let result = opened.and_then(|pack| {
            pack.slide_table()?;
            let mut batch = ContiguousRecordBatch::new();
            pack.read_contiguous_into(&rows, &mut batch)?;
            pack.read_rows(&rows)?;
            pack.read_data_spans(&[(0, 10), (50, 10)])?;
            pack.iter_payloads()?.collect::<Result<Vec<_>, _>>()
        });
        let needed = source.reads();
        match result {
            Ok(records) => assert_eq!((records.len(), needed <= fail_from), (20, true)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().starts_with("far away: "), "{error}");
            }
        }
    }
}

#[test]
fn a_failed_contiguous_read_leaves_an_empty_batch() {
    let pack = PackReader::from_bytes(pack_of(&payloads(5, 10))).unwrap();
    let mut batch = ContiguousRecordBatch::new();
    pack.read_contiguous_into(&[0, 1, 2], &mut batch).unwrap();
    assert_eq!(batch.len(), 3);
    assert!(pack.read_contiguous_into(&[0, 99], &mut batch).is_err());
    assert!(batch.is_empty() && batch.buffer().is_empty());
    assert_eq!(batch.offsets(), [0]);
    pack.read_contiguous_into(&[], &mut batch).unwrap();
    assert_eq!(batch.offsets(), [0]);
    assert!(pack.read_rows(&[]).unwrap().is_empty());
}

#[test]
fn large_batches_are_the_same_on_any_number_of_threads() {
    let payloads = payloads(300, 40_000);
    let bytes = pack_of(&payloads);
    let rows: Vec<u64> = (0..600).map(|at| (at * 7919) % 300).collect();
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap());
    let base = ReadOptions::default();
    for options in [
        base.clone().workers(NonZeroUsize::new(1)),
        base.clone().workers(NonZeroUsize::new(2)),
        base.clone(),
        base.clone().pool(Arc::clone(&pool)),
        base.clone().pool(Arc::clone(&pool)).workers(NonZeroUsize::new(7)),
    ] {
        let source: Arc<dyn ByteSource> = Arc::new(Memory::new(bytes.clone()));
        for source in [source, Counting::new(bytes.clone(), u64::MAX) as Arc<dyn ByteSource>] {
            let pack = PackReader::from_source(source, "test", &options).unwrap();
            let owned = pack.read_rows(&rows).unwrap();
            let contiguous = pool.install(|| pack.read_contiguous(&rows)).unwrap();
            assert_eq!((owned.len(), contiguous.len()), (rows.len(), rows.len()));
            for (at, row) in rows.iter().enumerate() {
                assert_eq!(owned[at], payloads[*row as usize]);
                assert_eq!(contiguous.get(at).unwrap(), payloads[*row as usize]);
            }
        }
    }
}

#[test]
fn a_damaged_record_fails_large_batches_with_its_row() {
    let mut bytes = pack_of(&payloads(300, 40_000)).to_vec();
    let pack = PackReader::from_bytes(bytes.clone()).unwrap();
    let span = pack.span(217).unwrap();
    bytes[(pack.layout().data.offset + span.offset + 5) as usize] ^= 4;
    let pack = PackReader::from_bytes(bytes).unwrap();
    let rows: Vec<u64> = (0..300).collect();
    assert_eq!(pack.read_rows(&rows).unwrap_err().row(), Some(217));
    assert_eq!(pack.read_contiguous(&rows).unwrap_err().row(), Some(217));
    assert!(pack.with_crc(false).read_rows(&rows).is_ok());
}

#[test]
fn a_damaged_column_does_not_keep_anybody_from_the_records() {
    // A foreign pack keeps no sums of its tables, so only decoding notices bad text.
    let path = common::data_dir("container").join("build_pack_a.iac");
    let mut bytes = std::fs::read(path).unwrap();
    let text = "日本".as_bytes();
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at] = 0xff;
    let pack = PackReader::from_bytes(bytes).unwrap();
    let rows: Vec<u64> = (0..pack.num_records().unwrap()).collect();
    assert_eq!(pack.read_rows(&rows).unwrap().len(), 6);
    let table = pack.index_table().unwrap();
    assert!(table.columns(&["length", "offset"]).is_ok());
    assert!(table.columns(&["item_id"]).is_err());
    assert!(table.batches().is_err());
    let error = table.columns(&["nothing"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("item_id, offset, length, crc32"), "{error}");
    assert_eq!(pack.verify(&Default::default()).total_faults, 1);
}

#[test]
fn views_and_records_outlive_the_reader_and_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let payloads = payloads(10, 5000);
    std::fs::write(&path, pack_of(&payloads)).unwrap();
    let pack = PackReader::open(&path).unwrap();
    let view = pack.view(7).unwrap();
    let batches = pack.index_table().unwrap().batches().unwrap().to_vec();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(pack.read(8).unwrap(), payloads[8], "the open file is read, not the path");
    drop(pack);
    assert_eq!(view, payloads[7]);
    assert_eq!(batches[0].num_rows(), 10);
}

#[test]
fn readers_and_views_cross_threads() {
    fn check<T: Send + Sync + Clone>() {}
    check::<PackReader>();
    check::<Bytes>();
    let pack = PackReader::from_bytes(pack_of(&payloads(64, 300))).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let pack = pack.clone();
            scope.spawn(move || {
                for round in 0..200 {
                    let row = (thread * 13 + round) % 64;
                    assert_eq!(pack.read(row).unwrap()[0], row as u8);
                    assert_eq!(pack.view(row).unwrap()[0], row as u8);
                }
            });
        }
    });
}

/// The cache is one for the process: the tests that change its settings share this one.
#[test]
fn the_header_cache_notices_every_change_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let write = |note: &str| {
        let mut header = Map::new();
        header.insert("note".to_owned(), note.into());
        let options = WriteOptions::default().overwrite(true).sync(false);
        build_pack::<&[u8]>(&path, &header, &Table::empty(), &Table::empty(), &[], &options)
            .unwrap();
    };
    let note = || read_header(&path).unwrap().get("note").unwrap().as_str().unwrap().to_owned();
    for config in [CacheConfig::default(), CacheConfig { enabled: false, ..CacheConfig::default() }]
    {
        iac_reader::configure_cache(config);
        write("one");
        assert_eq!(note(), "one");
        assert_eq!(note(), "one");
        write("two");
        assert_eq!(note(), "two");
        let old = PackReader::open(&path).unwrap();
        write("six");
        assert_eq!(note(), "six");
        assert_eq!(old.header().get("note").unwrap(), "two");
        assert_eq!(PackReader::open(&path).unwrap().header().get("note").unwrap(), "six");
        iac_reader::clear_caches();
        assert_eq!(note(), "six");
    }
    iac_reader::configure_cache(CacheConfig::default());
    assert_eq!(note(), "six");
    std::fs::write(&path, b"no pack any more").unwrap();
    assert_eq!(read_header(&path).unwrap_err().kind(), ErrorKind::NotIac);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read_header(&path).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_table_larger_than_allowed_is_not_copied() {
    let source = Counting::new(pack_of(&payloads(500, 1)), u64::MAX);
    let options = ReadOptions::default().max_table_bytes(1000);
    let pack = PackReader::from_source(source, "test", &options).unwrap();
    assert_eq!(pack.index_table().unwrap_err().kind(), ErrorKind::Limit);
    let mapped = PackReader::from_bytes(pack_of(&payloads(500, 1))).unwrap();
    assert!(mapped.with_options(&options).index_table().is_ok());
}

#[test]
fn advice_and_prefetch_reach_every_kind_of_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    std::fs::write(&path, pack_of(&payloads(50, 3000))).unwrap();
    for kind in [SourceKind::Mapped, SourceKind::Positional] {
        let pack = PackReader::open_with(&path, &ReadOptions::default().source(kind)).unwrap();
        for advice in
            [iac_reader::Advice::Random, iac_reader::Advice::Sequential, iac_reader::Advice::Normal]
        {
            pack.advise(advice).unwrap();
        }
        pack.prefetch(&[0, 49, 7]).unwrap();
        assert_eq!(pack.prefetch(&[50]).unwrap_err().kind(), ErrorKind::RowOutOfRange);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_selection_reads_what_was_written(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 1..40),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
    ) {
        let bytes = pack_of(&payloads);
        let rows: Vec<u64> = picks.iter().map(|pick| pick.index(payloads.len()) as u64).collect();
        let expected: Vec<&[u8]> = rows.iter().map(|row| payloads[*row as usize].as_slice()).collect();
        for source in [
            Arc::new(Memory::new(bytes.clone())) as Arc<dyn ByteSource>,
            Counting::new(bytes, u64::MAX) as Arc<dyn ByteSource>,
        ] {
            let pack = PackReader::from_source(source, "test", &ReadOptions::default()).unwrap();
            prop_assert_eq!(pack.read_rows(&rows).unwrap(), expected.clone());
            let batch = pack.read_contiguous(&rows).unwrap();
            prop_assert_eq!(batch.iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(batch.buffer(), expected.concat());
        }
    }
}

#[test]
fn files_are_mapped_when_their_memory_is_first_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iac");
    std::fs::write(&path, b"some bytes").unwrap();
    let file = MappedFile::open(&path).unwrap();
    let mut some = [0; 4];
    file.read_into(0, &mut some).unwrap();
    assert_eq!((&some, file.size()), (b"some", 10));
    file.check_lost().unwrap();
    assert!(file.memory_at_hand().is_none());
    assert_eq!(file.memory().unwrap(), "some bytes");
    assert_eq!(file.memory_at_hand().unwrap(), "some bytes");
    std::fs::write(&path, b"").unwrap();
    assert!(file.check_size(10).is_err());
    assert!(MappedFile::open(&path).is_err());
}

/// All orders of five things.
fn orders() -> Vec<[usize; 5]> {
    let mut all = Vec::new();
    for number in 0..120_usize {
        let (mut left, mut order) = (vec![0, 1, 2, 3, 4], [0; 5]);
        let mut rest = number;
        for (place, slot) in order.iter_mut().enumerate() {
            let choices = 5 - place;
            *slot = left.remove(rest % choices);
            rest /= choices;
        }
        all.push(order);
    }
    all
}

#[test]
fn lengths_0_1_70000_0_3_are_read_in_any_order_from_any_source() {
    let orders = orders();
    let folder = tempfile::tempdir().unwrap();
    for (number, stored) in orders.iter().enumerate() {
        let lengths = [0, 1, 70_000, 0, 3];
        let payloads: Vec<Vec<u8>> =
            stored.iter().map(|at| vec![*at as u8 + 1; lengths[*at]]).collect();
        let path = folder.path().join(format!("{number}.iac"));
        std::fs::write(&path, pack_of(&payloads)).unwrap();
        for (source, pack) in common::all_sources(&path) {
            let pack = pack.unwrap();
            for asked in orders.iter().skip(number % 7).step_by(7) {
                let rows: Vec<u64> = asked.iter().map(|row| *row as u64).collect();
                let wanted: Vec<&[u8]> =
                    asked.iter().map(|row| payloads[*row].as_slice()).collect();
                assert_eq!(
                    pack.read_rows(&rows).unwrap(),
                    wanted,
                    "{source}: {stored:?} {asked:?}"
                );
                let batch = pack.read_contiguous(&rows).unwrap();
                assert!(batch.iter().eq(wanted.iter().copied()), "{source}: {stored:?} {asked:?}");
                assert_eq!(batch.len(), 5);
                for row in rows {
                    assert_eq!(pack.read(row).unwrap(), payloads[row as usize], "{source}");
                }
            }
        }
    }
}
