//! Figures that the documentation states. Not run with the other tests: they need a folder
//! (`IAC_MEASURE_DIR`) and time.
#![cfg(all(feature = "tiles", feature = "features"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::print_stdout
)]

use std::path::PathBuf;
use std::time::Instant;

use iac_adapters::features::{ElementType, FeaturePackBuilder, FeaturePackReader};
use iac_adapters::tiles::{TilePackBuilder, TilePackReader, TileSize};
use iac_adapters::{RecordTable, TileRecord};
use iac_writer::WriteOptions;

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os("IAC_MEASURE_DIR").unwrap())
}

fn record(row: i64) -> TileRecord {
    TileRecord {
        tile_id: format!("slide-{:03}-tile-{row:08}", row % 200),
        patient_id: format!("p{}", row % 200),
        slide_id: format!("s{}", row % 200),
        x: row / 200 % 1000 * 8,
        y: row / 200 / 1000 * 8,
        split: Some("train".to_owned()),
        ..TileRecord::default()
    }
}

#[test]
#[ignore = "takes long and needs a folder"]
fn lookup_in_a_million_tiles() {
    let path = folder().join("million.tiles.iac");
    if !path.exists() {
        let records: Vec<TileRecord> = (0..1_000_000).map(record).collect();
        let payload = std::fs::read(
            PathBuf::from(env!("CARGO_MANIFEST_DIR"))
                .join("tests/data/tiles/from_records/payload1.jxl"),
        )
        .unwrap();
        let payloads = vec![payload; records.len()];
        TilePackBuilder::new()
            .check_payloads(false)
            .options(WriteOptions::new().sync(false))
            .build_from_records(&records, &payloads, TileSize { width: 12, height: 12 }, &path)
            .unwrap();
    }
    for _ in 0..5 {
        let start = Instant::now();
        let pack = TilePackReader::open(&path).unwrap();
        let opened = start.elapsed();
        let row = pack.row_of(&record(777_777).tile_id).unwrap();
        println!("open {opened:?}, open and first lookup {:?}, row {row}", start.elapsed());
        let start = Instant::now();
        for row in (0..1_000_000).step_by(97) {
            pack.row_of(&record(row).tile_id).unwrap();
        }
        println!("10,309 further lookups {:?}", start.elapsed());
    }
}

#[test]
#[ignore = "takes long and needs a folder"]
fn batches_of_features() {
    let path = folder().join("many.features.iac");
    if !path.exists() {
        let mut records = RecordTable::new();
        (0..100_000).for_each(|row| records.push(&record(row)).unwrap());
        let vectors: Vec<Vec<f32>> = (0..100_000_u32)
            .map(|row| (0..1024).map(|at| ((row ^ at) % 1000) as f32).collect())
            .collect();
        FeaturePackBuilder::new("t")
            .dtype(ElementType::Float16)
            .options(WriteOptions::new().sync(false))
            .build(&path, records, &vectors)
            .unwrap();
    }
    let pack = FeaturePackReader::open(&path).unwrap();
    let mut state = 1_u64;
    let mut rows = || -> Vec<u64> {
        (0..256)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % 100_000
            })
            .collect()
    };
    for _ in 0..3 {
        let batches: Vec<Vec<u64>> = (0..200).map(|_| rows()).collect();
        let start = Instant::now();
        for batch in &batches {
            assert_eq!(pack.read_many_f32(batch).unwrap().len(), 256 * 1024);
        }
        println!("256 rows of 1024 float16 as float32: {:?}", start.elapsed() / 200);
    }
}
