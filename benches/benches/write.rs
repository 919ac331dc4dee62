//! Writing packs of a few MiB, unsynced: what the disk does is another question.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    missing_docs
)]

use std::convert::Infallible;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iac_benches::random::Random;
use iac_benches::sample;
use iac_writer::{Table, build_pack_data_segment, build_pack_streaming};

const PACK_BYTES: usize = 32 << 20;

fn write(c: &mut Criterion) {
    let (_folder, folder) = sample::scratch(None).unwrap();
    let path = folder.join("written.iac");
    let mut data = vec![0; PACK_BYTES];
    Random::new(4).fill(&mut data);
    let (header, slides, options) = (sample::header(), Table::empty(), sample::options());

    let mut group = c.benchmark_group("write");
    for (name, lengths) in [("1k", sample::KILOBYTE), ("4-60k", sample::TILES)] {
        let bytes = u64::try_from(PACK_BYTES).unwrap();
        let mut rest = data.as_slice();
        let mut payloads = Vec::new();
        for length in sample::record_lengths(bytes, lengths, 5) {
            let length = usize::try_from(length).unwrap().min(rest.len());
            let (payload, behind) = rest.split_at(length);
            payloads.push(payload);
            rest = behind;
        }
        let index = sample::index_table(u64::try_from(payloads.len()).unwrap()).unwrap();
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                let payloads = payloads.iter().map(Ok::<_, Infallible>);
                build_pack_streaming(&path, &header, &slides, &index, payloads, &options).unwrap()
            });
        });
    }

    let row_bytes = 2048;
    let rows = u64::try_from(PACK_BYTES).unwrap() / row_bytes;
    let (header, index) = (sample::fixed_header(row_bytes), sample::index_table(rows).unwrap());
    group.bench_function(BenchmarkId::from_parameter("fixed-2k"), |b| {
        b.iter(|| {
            build_pack_data_segment(&path, &header, &slides, &index, &data, &options).unwrap()
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3));
    targets = write
}
criterion_main!(benches);
