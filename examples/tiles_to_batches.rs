//! Packs image tiles that a manifest lists, and reads them in shuffled batches as training does.
//!
//! ```console
//! cargo run -p iac-examples --bin tiles_to_batches -- TILES.csv PACK.tiles.iac
//! ```
//!
//! The manifest has the columns `tile_id`, `patient_id`, `slide_id`, `tile_path`, `x`, `y`, `split`;
//! `docs/tiles.md` says more.

use std::error::Error;
use std::path::PathBuf;

use iatrocache::adapters::tiles::{TilePackBuilder, TilePackReader};
use iatrocache::ops::NoProgress;
use iatrocache::prelude::*;
use iatrocache::reader::ReadAheadOptions;

/// Tiles of a batch.
const BATCH: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(manifest), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tiles_to_batches TILES.csv PACK.tiles.iac".into());
    };

    // Decoding of JPEG XL takes as long at effort 3 as at 7; building is much faster.
    let made = TilePackBuilder::new()
        .distance(1.0)
        .effort(3)
        .beside_manifest(true)
        .build_from_manifest(&manifest, &path, &NoProgress)?;
    println!("{} tiles of {} slides packed", made.rows, made.slides);

    let tiles = TilePackReader::open(&path)?;
    let first = tiles.record(0)?;
    println!("row 0 is {} at ({}, {}) of {}", first.tile_id, first.x, first.y, first.slide_id);

    // The rows of the training split, shuffled.
    let predicate = Predicate::parse("split = 'train'")?;
    let index = tiles.reader().index_table()?;
    let mut rows = predicate.select(&index.columns(&["split"])?, &[])?;
    shuffle(&mut rows, 7);

    // The next batches are read and decoded on other threads while this one is used. A batch is one
    // buffer: [tile, row, column, red-green-blue].
    let pack = VariableRecordPack::open(&path)?;
    let plan: Vec<Vec<u64>> = rows.chunks(BATCH).map(<[u64]>::to_vec).collect();
    let mut seen = 0;
    for batch in pack.read_images_ahead(plan, ReadAheadOptions::default()) {
        let batch = batch?;
        let samples = batch.samples();
        seen += batch.len();
        println!("a batch of {} tiles: {} samples", batch.len(), samples.len());
    }
    println!("{seen} tiles of the training split were read");
    Ok(())
}

/// The same order for the same seed.
fn shuffle(rows: &mut [u64], mut seed: u64) {
    for last in (1..rows.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = usize::try_from(seed >> 33).unwrap_or(0) % (last + 1);
        rows.swap(last, place);
    }
}
