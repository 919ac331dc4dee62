//! Packs in an object store: how many requests, how many at once, and the same results as from
//! memory.
#![cfg(feature = "object-store")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]
#![allow(clippy::single_range_in_vec_init)]

#[path = "common/counting.rs"]
mod counting;
#[path = "common/image_codec.rs"]
#[allow(dead_code)]
mod image_codec;
#[path = "common/packs.rs"]
mod packs;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use counting::Counting;
use iac_format::ErrorKind;
use iac_reader::object::object_store::path::Path;
use iac_reader::object::object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use iac_reader::object::{ObjectLocation, ObjectOptions, ObjectPack, block_on};
use iac_reader::{PackReader, ReadOptions, VariableRecordPack, VerifyOptions};
use packs::{pack_of, payloads};

fn put(store: &Counting, bytes: Vec<u8>) {
    let path = Path::from("a/pack.iac");
    block_on(store.inner.put(&path, PutPayload::from(bytes))).unwrap().unwrap();
}

fn location(store: &Arc<Counting>) -> ObjectLocation {
    let store = Arc::clone(store) as Arc<dyn ObjectStore>;
    ObjectLocation::in_store(store, Path::from("a/pack.iac"), "test://a/pack.iac")
}

fn open(store: &Arc<Counting>, options: &ObjectOptions) -> PackReader {
    PackReader::open_object(&location(store), &ReadOptions::default(), options).unwrap()
}

fn stored(payloads: &[Vec<u8>]) -> Arc<Counting> {
    let store = Arc::new(Counting::default());
    put(&store, pack_of(payloads));
    store
}

#[test]
fn one_request_opens_a_pack_and_two_one_with_larger_tables() {
    let store = stored(&payloads(500, 100));
    let pack = open(&store, &ObjectOptions::default());
    assert_eq!(pack.num_records().unwrap(), 500);
    pack.index_table().unwrap().batches().unwrap();
    pack.span(499).unwrap();
    assert_eq!(store.ranges(), [0..256 << 10]);

    let pack = open(&store, &ObjectOptions::default().first_read(1));
    pack.index_table().unwrap().batches().unwrap();
    let data = pack.layout().data.offset;
    let ranges = store.ranges();
    assert_eq!(ranges.len(), 2);
    assert_eq!(ranges[0], 0..65_536, "the header is fetched as a whole in any case");
    assert!(ranges[1].start == 65_536 && ranges[1].end <= data, "{ranges:?}");
}

#[test]
fn tables_that_are_too_large_to_fetch_on_suspicion_come_when_they_are_needed() {
    let store = stored(&payloads(3000, 10));
    let options = ObjectOptions::default().max_open_bytes(70_000).first_read(65_536);
    let pack = open(&store, &options);
    assert_eq!(store.ranges().len(), 1);
    assert_eq!(pack.num_records().unwrap(), 3000);
    assert!(!store.ranges().is_empty());
    assert_eq!(pack.read(2999).unwrap(), payloads(3000, 10)[2999]);
}

#[test]
fn records_are_the_same_as_from_memory_in_every_way() {
    let payloads = payloads(300, 2000);
    let bytes = pack_of(&payloads);
    let store = stored(&payloads);
    let memory = PackReader::from_bytes(bytes).unwrap();
    let rows: Vec<u64> = (0..400).map(|at| (at * 7919) % 300).collect();
    for options in [
        ObjectOptions::default(),
        ObjectOptions::default().join_gap(0),
        ObjectOptions::default().join_gap(u64::MAX),
        ObjectOptions::default().request_bytes(4096).in_flight(NonZeroUsize::new(3).unwrap()),
    ] {
        let pack = open(&store, &options);
        assert_eq!(pack.read_rows(&rows).unwrap(), memory.read_rows(&rows).unwrap());
        assert_eq!(pack.read_contiguous(&rows).unwrap(), memory.read_contiguous(&rows).unwrap());
        assert_eq!(
            pack.read_data_spans(&[(5, 100), (0, 3), (90_000, 9000)]).unwrap(),
            memory.read_data_spans(&[(5, 100), (0, 3), (90_000, 9000)]).unwrap()
        );
        assert_eq!(pack.iter_payloads().unwrap().count(), 300);
        let records = VariableRecordPack::from_reader(pack.clone());
        let expected: Vec<&[u8]> = rows.iter().map(|row| &payloads[*row as usize][..]).collect();
        assert_eq!(records.read_many(&rows).unwrap(), expected);
        let fetched = pack.fetch(&rows).unwrap();
        store.ranges();
        assert_eq!(fetched.read_rows(&rows).unwrap(), expected);
        assert_eq!(fetched.read(rows[3]).unwrap(), expected[3]);
        assert_eq!(store.ranges(), [], "everything is here already");
        assert!(pack.verify(&VerifyOptions::default()).is_sound());
        assert_eq!(pack.view(0).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(pack.read(300).unwrap_err().kind(), ErrorKind::RowOutOfRange);
    }
}

/// The requests that a sorted, joined reading takes, by hand.
fn joined(pack: &PackReader, rows: &[u64], gap: u64, most: u64) -> usize {
    let mut spans: Vec<(u64, u64)> = rows
        .iter()
        .map(|row| pack.span(*row).unwrap())
        .map(|span| (span.offset, span.offset + span.length))
        .collect();
    spans.sort_unstable();
    let mut requests = 0;
    let mut current: Option<(u64, u64)> = None;
    for (start, end) in spans {
        match &mut current {
            Some((first, last)) if start <= *last + gap && end.max(*last) - *first <= most => {
                *last = end.max(*last);
            }
            _ => {
                requests += 1;
                current = Some((start, end));
            }
        }
    }
    requests
}

#[test]
fn a_batch_takes_as_many_requests_as_joined_ranges_and_never_more_than_32_at_once() {
    let payloads = payloads(4000, 4096);
    let store = Arc::new(Counting::new(Duration::from_millis(2)));
    put(&store, pack_of(&payloads));
    for (gap, most) in [(64 << 10, 8 << 20), (0, 8 << 20), (16 << 10, 64 << 10)] {
        let options = ObjectOptions::default().join_gap(gap).request_bytes(most);
        let pack = open(&store, &options);
        let rows: Vec<u64> = (0..256).map(|at| (at * 2_654_435_761) % 4000).collect();
        let expected = joined(&pack, &rows, gap, most);
        store.ranges();
        let records = pack.read_rows(&rows).unwrap();
        let ranges = store.ranges();
        assert_eq!(ranges.len(), expected, "gap {gap}");
        assert!(ranges.iter().all(|range| range.end - range.start <= most));
        let at_once = store.most();
        assert!(at_once <= 32 && (expected < 32 || at_once > 16), "{at_once} of {expected}");
        for (row, record) in rows.iter().zip(records) {
            assert_eq!(record, payloads[*row as usize]);
        }
        // Several threads share the bound.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| pack.read_rows(&rows).unwrap());
            }
        });
        assert!(store.most() <= 32);
    }
}

#[test]
fn latency_is_paid_once_for_each_32_requests() {
    let payloads = payloads(2000, 4096);
    let store = Arc::new(Counting::new(Duration::from_millis(20)));
    put(&store, pack_of(&payloads));
    let pack = open(&store, &ObjectOptions::default().join_gap(0));
    let rows: Vec<u64> = (0..128).map(|at| at * 15).collect();
    store.ranges();
    let begun = Instant::now();
    pack.read_rows(&rows).unwrap();
    let took = begun.elapsed();
    assert_eq!(store.ranges().len(), 128);
    // Four rounds of 20 milliseconds; one after the other would take 2.6 seconds.
    assert!(took >= Duration::from_millis(80) && took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_replaced_object_is_an_error_and_never_a_mixture() {
    let first = payloads(300, 2000);
    let store = stored(&first);
    let pack = open(&store, &ObjectOptions::default());
    pack.read(5).unwrap();
    let second: Vec<Vec<u8>> = first.iter().map(|payload| vec![9; payload.len()]).collect();
    put(&store, pack_of(&second));
    let error = pack.with_crc(false).read_rows(&[1, 200]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("was replaced while it was open"), "{error}");
    assert!(error.to_string().starts_with("test://a/pack.iac: "), "{error}");
    assert!(open(&store, &ObjectOptions::default()).read(5).is_ok());
}

#[test]
fn a_deleted_object_is_an_error() {
    let store = stored(&payloads(300, 2000));
    let pack = open(&store, &ObjectOptions::default());
    block_on(store.inner.delete(&Path::from("a/pack.iac"))).unwrap().unwrap();
    let error = pack.read(1).unwrap_err();
    assert!(error.to_string().contains("was deleted while it was open"), "{error}");
    let options = ObjectOptions::default();
    let error = PackReader::open_object(&location(&store), &ReadOptions::default(), &options);
    let error = error.unwrap_err();
    assert!(error.to_string().contains("the store has no such object"), "{error}");
}

#[test]
fn a_damaged_record_fails_with_its_row_and_verify_lists_it() {
    let payloads = payloads(300, 2000);
    let mut bytes = pack_of(&payloads);
    let sound = PackReader::from_bytes(bytes.clone()).unwrap();
    let at = sound.layout().data.offset + sound.span(217).unwrap().offset + 5;
    bytes[at as usize] ^= 4;
    let store = Arc::new(Counting::default());
    put(&store, bytes);
    let pack = open(&store, &ObjectOptions::default());
    let error = pack.read_rows(&[1, 217]).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Checksum, Some(217)));
    let report = pack.verify(&VerifyOptions::default());
    assert_eq!((report.total_faults, report.faults[0].row), (1, Some(217)));
    assert_eq!(report.rows_compared, 300);
}

#[test]
fn verifying_takes_few_requests() {
    let store = stored(&payloads(3000, 1000));
    let pack = open(&store, &ObjectOptions::default());
    store.ranges();
    assert!(pack.verify(&VerifyOptions::default()).is_sound());
    let requests = store.ranges().len();
    assert!(requests < 10, "{requests}");
}

#[test]
fn what_is_no_pack_is_reported_as_that() {
    let store = Arc::new(Counting::default());
    for bytes in [b"".to_vec(), b"PK\x03\x04".to_vec(), vec![7; 100_000]] {
        put(&store, bytes);
        let options = ObjectOptions::default();
        let opened = PackReader::open_object(&location(&store), &ReadOptions::default(), &options);
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotIac);
    }
    let whole = pack_of(&payloads(10, 10_000));
    put(&store, whole[..whole.len() - 1].to_vec());
    let options = ObjectOptions::default();
    let opened = PackReader::open_object(&location(&store), &ReadOptions::default(), &options);
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Damaged, "cut");
    let rescue = ReadOptions::default().rescue(true);
    let pack = PackReader::open_object(&location(&store), &rescue, &options).unwrap();
    assert!(!pack.damage().is_empty());
    assert!(pack.read(8).is_ok() && pack.read(9).is_err());
}

#[test]
fn image_batches_come_in_one_round_of_requests() {
    use iac_codec::{CodecSpec, Image, ImageShape, Parameters, Samples};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pack.iac");
    let shape = ImageShape::new(40, 30, 3).unwrap();
    let images: Vec<Image> = (0..200_u8)
        .map(|n| Image::new(shape, Samples::U8(vec![n; shape.samples()])).unwrap())
        .collect();
    let ids: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let ids = Arc::new(arrow_array::StringArray::from(ids)) as arrow_array::ArrayRef;
    let index = arrow_array::RecordBatch::try_from_iter([("item_id", ids)]).unwrap();
    iac_writer::VariablePackBuilder::new("test", iac_writer::Table::from(index))
        .codec_spec(CodecSpec::new("test.pixels", Parameters::new()))
        .registry(Arc::new(image_codec::registry()))
        .build_images(&path, &images.iter().map(Image::as_view).collect::<Vec<_>>())
        .unwrap();
    let store = Arc::new(Counting::default());
    put(&store, std::fs::read(&path).unwrap());
    let records = iac_reader::RecordOptions::default().registry(Arc::new(image_codec::registry()));
    let pack = open(&store, &ObjectOptions::default().join_gap(0));
    let pack = VariableRecordPack::from_reader_with(pack, records);
    let rows: Vec<u64> = (0..50).map(|at| at * 4 % 199).collect();
    store.ranges();
    let batch = pack.read_image_batch(&rows).unwrap();
    let requests = store.ranges().len();
    assert!(requests <= 50, "{requests}");
    for (row, image) in rows.iter().zip(batch.iter()) {
        assert_eq!(image, images[*row as usize].as_view());
    }
    assert_eq!(pack.read_images(&rows).unwrap().len(), 50);
    assert!(store.ranges().len() <= 50);
    assert_eq!(pack.read_images_lossy(&rows).unwrap().0.len(), 50);
    assert_eq!(pack.read_image_batch_lossy(&rows).unwrap().0.unwrap().len(), 50);
}

#[test]
fn asynchronous_code_waits_for_requests_only() {
    let payloads = payloads(300, 2000);
    let store = stored(&payloads);
    let place = location(&store);
    // Another runtime than the one that does the I/O, with a single thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (read, options) = (ReadOptions::default(), ObjectOptions::default());
        let pack = ObjectPack::open(&place, &read, &options).await.unwrap();
        let rows = [5, 200, 5];
        let fetched = pack.fetch(&rows).await.unwrap();
        store.ranges();
        let records = fetched.read_rows(&rows).unwrap();
        assert_eq!(store.ranges(), []);
        assert_eq!(records, rows.map(|row| payloads[row as usize].clone()));
        // Blocking calls work here too, though they block.
        assert_eq!(pack.reader().read(7).unwrap(), payloads[7]);
        assert!(pack.fetch(&[300]).await.is_err());
    });
}

#[test]
fn local_files_are_read_by_offset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a pack.iac");
    let payloads = payloads(50, 500);
    std::fs::write(&path, pack_of(&payloads)).unwrap();
    let url = format!("file://{}", path.display()).replace(' ', "%20");
    let pack = PackReader::open(&url).unwrap();
    assert_eq!(pack.read(7).unwrap(), payloads[7]);
    assert!(pack.view(7).is_ok(), "opened by URL, a file is mapped like any other");
    let (read, options) = (ReadOptions::default(), ObjectOptions::default());
    let local = ObjectLocation::local(&path);
    let (store, key) = local.store().unwrap();
    for place in [local, ObjectLocation::in_store(store, key, "local")] {
        let pack = PackReader::open_object(&place, &read, &options).unwrap();
        let kept = path.with_extension("kept");
        std::fs::rename(&path, &kept).unwrap();
        assert_eq!(pack.read_rows(&[7, 3]).unwrap(), [&payloads[7][..], &payloads[3]]);
        std::fs::rename(&kept, &path).unwrap();
    }
}
