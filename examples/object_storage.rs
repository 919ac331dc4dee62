//! Reads records of a pack that lies in an object store, without fetching the pack.
//!
//! ```console
//! AWS_REGION=… cargo run -p iac-examples --bin object_storage -- s3://bucket/cohort.iac CACHE/
//! ```
//!
//! `gs://`, `az://`, `https://` and `file://` work in the same way; keys and regions come from the
//! environment, as `docs/object-storage.md` says.

use std::error::Error;
use std::sync::Arc;

use iatrocache::reader::ReadAheadOptions;
use iatrocache::reader::object::{BlockCache, ObjectLocation, ObjectOptions, StoreOptions};
use iatrocache::{PackReader, ReadOptions, VariableRecordPack};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: object_storage URL CACHE/".into());
    };

    // Blocks that were fetched once stay in memory, then on disk, for other packs and processes too.
    let cache = Arc::new(BlockCache::new(64 << 20).with_disk(&folder, 1 << 30)?);
    let place = ObjectLocation::parse(&url, &StoreOptions::default())?;
    let options = ObjectOptions::default().join_gap(1 << 20);
    let pack = PackReader::open_cached(&place, &ReadOptions::default(), &options, &cache)?;
    let count = pack.num_records()?;
    println!("{count} records, of {} bytes in all", pack.file_bytes());
    if count == 0 {
        return Ok(());
    }

    // Ranges that lie close together become one request.
    let batch = pack.read_rows(&[0, count - 1, count / 2])?;
    println!("a batch of {} records", batch.len());

    // For training: the next batches are on their way while this one is used.
    let records = VariableRecordPack::from_reader(pack);
    let plan: Vec<Vec<u64>> = (0..count).map(|row| vec![row, count - 1 - row]).collect();
    let mut bytes = 0;
    for batch in records.read_ahead(plan, ReadAheadOptions::default()) {
        bytes += batch?.iter().map(|record| record.len()).sum::<usize>();
    }
    println!("{bytes} bytes read ahead");
    Ok(())
}
