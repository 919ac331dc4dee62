//! Opening and reading packs of a few MiB.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    missing_docs
)]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iac_benches::sample;
use iac_reader::{ContiguousRecordBatch, PackReader, ReadOptions, SourceKind};

const PACK_BYTES: u64 = 64 << 20;
const BATCHES: usize = 64;

/// A pack, with rows to read from it.
struct Pack {
    name: &'static str,
    path: PathBuf,
    rows: u64,
    batches: Vec<Vec<u64>>,
}

impl Pack {
    fn new(folder: &Path, name: &'static str, write: impl FnOnce(&Path) -> u64) -> Self {
        let path = folder.join(name).with_extension("iac");
        let rows = write(&path);
        let batches = sample::random_batches(rows, BATCHES, 3);
        Self { name, path, rows, batches }
    }

    fn open(&self) -> PackReader {
        let one = ReadOptions::default().workers(NonZeroUsize::new(1));
        PackReader::open_with(&self.path, &one).unwrap()
    }

    /// Bytes of an average batch.
    fn batch_bytes(&self) -> u64 {
        let data = self.open().layout().data.length;
        data / self.rows * u64::try_from(sample::BATCH_ROWS).unwrap()
    }
}

fn packs(folder: &Path) -> Vec<Pack> {
    vec![
        Pack::new(folder, "1k", |path| {
            sample::write_variable(path, PACK_BYTES, sample::KILOBYTE, 1).unwrap()
        }),
        Pack::new(folder, "4-60k", |path| {
            sample::write_variable(path, PACK_BYTES, sample::TILES, 2).unwrap()
        }),
        Pack::new(folder, "fixed-2k", |path| {
            let rows = PACK_BYTES / 2048;
            sample::write_fixed(path, rows, 2048, 3).unwrap();
            rows
        }),
    ]
}

/// Measures a way to read batches of every pack.
fn batches(
    c: &mut Criterion,
    group: &str,
    packs: &[Pack],
    open: impl Fn(&Pack) -> PackReader,
    mut read: impl FnMut(&PackReader, &[u64]),
) {
    let mut group = c.benchmark_group(group);
    for pack in packs {
        let reader = open(pack);
        let mut batches = pack.batches.iter().cycle();
        group.throughput(Throughput::Bytes(pack.batch_bytes()));
        group.bench_function(BenchmarkId::from_parameter(pack.name), |b| {
            b.iter(|| read(&reader, batches.next().unwrap()));
        });
    }
}

fn read(c: &mut Criterion) {
    let (_folder, folder) = sample::scratch(None).unwrap();
    let packs = packs(&folder);

    let mut group = c.benchmark_group("open_to_first_record");
    for cached in [true, false] {
        let options = ReadOptions::default().use_header_cache(cached);
        let name = if cached { "cached_header" } else { "no_cache" };
        group.bench_function(name, |b| {
            b.iter(|| PackReader::open_with(&packs[0].path, &options)?.read(7));
        });
    }
    drop(group);

    let mut group = c.benchmark_group("single");
    for pack in &packs {
        let reader = pack.open();
        let mut rows = pack.batches.iter().flatten().cycle();
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::from_parameter(pack.name), |b| {
            b.iter(|| reader.read(*rows.next().unwrap()));
        });
    }
    drop(group);

    batches(c, "batch", &packs, Pack::open, |pack, rows| {
        black_box(pack.read_rows(rows).unwrap());
    });
    let no_crc = |pack: &Pack| pack.open().with_crc(false);
    batches(c, "batch_no_crc", &packs, no_crc, |pack, rows| {
        black_box(pack.read_rows(rows).unwrap());
    });
    let mut buffer = ContiguousRecordBatch::new();
    batches(c, "contiguous", &packs, Pack::open, |pack, rows| {
        pack.read_contiguous_into(rows, &mut buffer).unwrap();
        black_box(buffer.buffer());
    });
    batches(c, "contiguous_no_crc", &packs, no_crc, |pack, rows| {
        pack.read_contiguous_into(rows, &mut buffer).unwrap();
        black_box(buffer.buffer());
    });
    let positional = |pack: &Pack| {
        let options = ReadOptions::default()
            .workers(NonZeroUsize::new(1))
            .source(SourceKind::Positional)
            .check_crc(false);
        PackReader::open_with(&pack.path, &options).unwrap()
    };
    batches(c, "positional_no_crc", &packs, positional, |pack, rows| {
        pack.read_contiguous_into(rows, &mut buffer).unwrap();
        black_box(buffer.buffer());
    });
    let mut views = Vec::new();
    batches(c, "views", &packs, Pack::open, |pack, rows| {
        pack.views_into(rows, &mut views).unwrap();
        black_box(&views);
    });

    let mut group = c.benchmark_group("sequential");
    group.sample_size(10);
    for pack in &packs {
        let reader = pack.open();
        group.throughput(Throughput::Bytes(reader.layout().data.length));
        group.bench_function(BenchmarkId::from_parameter(pack.name), |b| {
            b.iter(|| {
                for record in reader.iter_payloads().unwrap() {
                    black_box(record.unwrap());
                }
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = read
}
criterion_main!(benches);
