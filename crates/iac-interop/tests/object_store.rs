//! Packs in an S3-compatible store that other people wrote, over its own protocol.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use iac_format::ErrorKind;
use iac_interop::reference::python;
use iac_ops::NoProgress;
use iac_ops::object::{CopyOptions, PublishOptions, build, copy};
use iac_reader::object::{
    BlockCache, ObjectLocation, ObjectOptions, ObjectPack, StoreOptions, block_on,
};
use iac_reader::{PackReader, ReadAheadOptions, ReadOptions, VariableRecordPack, VerifyOptions};

const BUCKET: &str = "cohort";

/// The server, for as long as it lives.
struct Store {
    process: Child,
    port: u16,
}

impl Store {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/s3_server.py");
        let mut process = Command::new(python())
            .arg("-B")
            .arg(script)
            .arg(BUCKET)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| line.unwrap().trim().parse().ok()).unwrap();
        Self { process, port }
    }

    fn place(&self, key: &str) -> ObjectLocation {
        self.place_with(key, "test")
    }

    fn place_with(&self, key: &str, secret: &str) -> ObjectLocation {
        let options = StoreOptions::default()
            .retries(2, Duration::from_secs(20))
            .first_wait(Duration::from_millis(10))
            .setting("aws_endpoint", format!("http://127.0.0.1:{}", self.port))
            .setting("aws_access_key_id", "test")
            .setting("aws_secret_access_key", secret)
            .setting("aws_region", "us-east-1");
        ObjectLocation::parse(&format!("s3://{BUCKET}/{key}"), &options).unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn payloads(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|row| (0..bytes).map(|at| (at * 31 + row * 7) as u8).collect()).collect()
}

fn make(path: &Path, payloads: &[Vec<u8>]) -> iac_ops::Result<()> {
    let ids = arrow_array::UInt32Array::from_iter_values(0..payloads.len() as u32);
    let ids = Arc::new(ids) as arrow_array::ArrayRef;
    let index = arrow_array::RecordBatch::try_from_iter([("n", ids)]).unwrap();
    iac_writer::build_pack(
        path,
        &serde_json::Map::new(),
        &iac_writer::Table::empty(),
        &iac_writer::Table::from(index),
        payloads,
        &iac_writer::WriteOptions::default().sync(false),
    )?;
    Ok(())
}

fn open(place: &ObjectLocation) -> iac_reader::Result<PackReader> {
    PackReader::open_object(place, &ReadOptions::default(), &ObjectOptions::default())
}

#[test]
fn packs_are_published_read_copied_and_pinned() {
    let store = Store::start();
    let small = payloads(200, 3000);
    let options = PublishOptions::default();
    // Keys with characters that URLs have to encode.
    let place = store.place("a folder/50% größe+1.iac");
    build(&place, None, &options, &NoProgress, |path| make(path, &small)).unwrap();

    let pack = open(&place).unwrap();
    assert!(pack.verify(&VerifyOptions::default()).is_sound());
    let rows: Vec<u64> = (0..256).map(|at| at * 7919 % 200).collect();
    let expected: Vec<&[u8]> = rows.iter().map(|row| &small[*row as usize][..]).collect();
    assert_eq!(pack.read_rows(&rows).unwrap(), expected);
    let records = VariableRecordPack::from_reader(pack.clone());
    let plan: Vec<Vec<u64>> = rows.chunks(30).map(<[u64]>::to_vec).collect();
    let ahead = records.read_ahead(plan, ReadAheadOptions::default());
    let found: Vec<_> = ahead.flat_map(|batch| batch.unwrap()).collect();
    assert_eq!(found, expected);
    let cache = Arc::new(BlockCache::new(1 << 20));
    let (read, object) = (ReadOptions::default(), ObjectOptions::default());
    let cached = PackReader::open_cached(&place, &read, &object, &cache).unwrap();
    assert_eq!(cached.read_rows(&rows).unwrap(), expected);
    let fetched = block_on(async {
        ObjectPack::open(&place, &read, &object).await.unwrap().fetch(&rows).await.unwrap()
    });
    assert_eq!(fetched.unwrap().read_rows(&rows).unwrap(), expected);

    // Nothing is replaced unasked.
    let again = build(&place, None, &options, &NoProgress, |path| make(path, &small[..10]));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Exists);
    let copied = store.place("copy.iac");
    copy(&place, &copied, &CopyOptions::default(), &NoProgress).unwrap();
    let twice = copy(&place, &copied, &CopyOptions::default(), &NoProgress);
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Exists);

    // Whoever reads meets one object, never two.
    let pack = open(&copied).unwrap().with_crc(false);
    assert_eq!(pack.read(3).unwrap(), small[3]);
    let mut replacing = PublishOptions::default();
    replacing.overwrite = true;
    let other: Vec<Vec<u8>> = small.iter().map(|record| vec![1; record.len()]).collect();
    build(&copied, None, &replacing, &NoProgress, |path| make(path, &other)).unwrap();
    let error = pack.read(4).unwrap_err();
    assert!(error.to_string().contains("was replaced while it was open"), "{error}");
    assert_eq!(open(&copied).unwrap().read(4).unwrap(), other[4]);
    let missing = open(&store.place("nothing.iac")).unwrap_err();
    assert!(missing.to_string().contains("the store has no such object"), "{missing}");
}

#[test]
fn large_packs_go_in_parts_and_appear_only_if_nothing_is_there() {
    let store = Store::start();
    // Two parts of the least size that the protocol allows.
    let large = payloads(120, 90_000);
    let mut options = PublishOptions::default();
    options.single_put_bytes = 1 << 20;
    options.part_bytes = 5 << 20;
    let place = store.place("large.iac");
    build(&place, None, &options, &NoProgress, |path| make(path, &large)).unwrap();
    assert_eq!(open(&place).unwrap().read(119).unwrap(), large[119]);
    let again = build(&place, None, &options, &NoProgress, |path| make(path, &large[..60]));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Exists);
    options.overwrite = true;
    build(&place, None, &options, &NoProgress, |path| make(path, &large[..80])).unwrap();
    assert_eq!(open(&place).unwrap().num_records().unwrap(), 80);
}
