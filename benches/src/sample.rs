//! Packs and row lists, the same in every run.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use iac_writer::{Table, WriteOptions, build_pack_data_segment, build_pack_streaming};
use serde_json::{Map, Value};

use crate::Result;
use crate::random::Random;

/// Rows that one call asks for.
pub const BATCH_ROWS: usize = 256;

/// Records that have between the first and the second number of bytes.
pub type Lengths = (u64, u64);

/// About 1 KB.
pub const KILOBYTE: Lengths = (900, 1100);
/// From 4 to 60 KiB.
pub const TILES: Lengths = (4096, 61_440);
/// Notes: from 200 to 2,000 bytes.
pub const NOTES: Lengths = (200, 2000);
/// Long texts: 64 KiB each.
pub const LONG: Lengths = (65_536, 65_536);

/// An index table with one column of ids.
///
/// # Errors
///
/// When the table library refuses the column.
pub fn index_table(rows: u64) -> Result<Table> {
    let count = usize::try_from(rows)?;
    let mut ids = StringBuilder::with_capacity(count, count.saturating_mul(13));
    for row in 0..rows {
        ids.append_value(format!("item-{row:08}"));
    }
    let ids: ArrayRef = Arc::new(ids.finish());
    Ok(Table::from(RecordBatch::try_from_iter([("item_id", ids)])?))
}

/// The members of a plain pack's header.
#[must_use]
pub fn header() -> Map<String, Value> {
    let mut header = Map::new();
    header.insert("payload_type".into(), "benchmark".into());
    header.insert("codec".into(), "none".into());
    header
}

/// Lengths of records that have about `bytes` together.
#[must_use]
pub fn record_lengths(bytes: u64, lengths: Lengths, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut found = Vec::new();
    let mut total = 0;
    while total < bytes {
        let length = random.within(lengths.0, lengths.1);
        total += length;
        found.push(length);
    }
    found
}

/// Writes a variable pack of random bytes with default options, but not synced. Gives the number
/// of its records.
///
/// # Errors
///
/// What the writer reports.
pub fn write_variable(path: &Path, bytes: u64, lengths: Lengths, seed: u64) -> Result<u64> {
    let lengths = record_lengths(bytes, lengths, seed);
    let rows = u64::try_from(lengths.len())?;
    let mut random = Random::new(seed ^ 0x5eed);
    let payloads = lengths.iter().map(|length| {
        let mut payload = vec![0; usize::try_from(*length).unwrap_or(0)];
        random.fill(&mut payload);
        Ok::<_, Infallible>(payload)
    });
    build_pack_streaming(
        path,
        &header(),
        &Table::empty(),
        &index_table(rows)?,
        payloads,
        &options(),
    )?;
    Ok(rows)
}

/// Writes a pack whose records have eight bytes each, so that its index is most of it.
///
/// # Errors
///
/// What the writer reports.
pub fn write_small_records(path: &Path, rows: u64) -> Result<()> {
    build_pack_streaming(
        path,
        &header(),
        &Table::empty(),
        &index_table(rows)?,
        (0..rows).map(|row| Ok::<_, Infallible>(row.to_le_bytes())),
        &options(),
    )?;
    Ok(())
}

/// Writes a fixed pack of random `uint8` rows.
///
/// # Errors
///
/// What the writer reports.
pub fn write_fixed(path: &Path, rows: u64, row_bytes: u64, seed: u64) -> Result<()> {
    let mut data = vec![0; usize::try_from(rows * row_bytes)?];
    Random::new(seed).fill(&mut data);
    let (header, index) = (fixed_header(row_bytes), index_table(rows)?);
    build_pack_data_segment(path, &header, &Table::empty(), &index, &data, &options())?;
    Ok(())
}

/// Writes a fixed pack of random `float16` rows; some of the numbers are NaN, which nobody minds
/// who copies them.
///
/// # Errors
///
/// What the writer reports.
pub fn write_halves(path: &Path, rows: u64, dim: u64, seed: u64) -> Result<()> {
    let mut data = vec![0; usize::try_from(rows * dim * 2)?];
    Random::new(seed).fill(&mut data);
    let (mut header, index) = (fixed_header(dim * 2), index_table(rows)?);
    header.insert("feature_dim".into(), dim.into());
    header.insert("dtype".into(), "float16".into());
    build_pack_data_segment(path, &header, &Table::empty(), &index, &data, &options())?;
    Ok(())
}

/// The members of a fixed pack's header.
#[must_use]
pub fn fixed_header(row_bytes: u64) -> Map<String, Value> {
    let mut header = header();
    header.insert("feature_dim".into(), row_bytes.into());
    header.insert("dtype".into(), "uint8".into());
    header.insert("feature_record_bytes".into(), row_bytes.into());
    header
}

/// Default options, but what is written need not survive a power failure.
#[must_use]
pub fn options() -> WriteOptions {
    WriteOptions::new().overwrite(true).sync(false)
}

/// Random rows in batches of [`BATCH_ROWS`].
#[must_use]
pub fn random_batches(rows: u64, batches: usize, seed: u64) -> Vec<Vec<u64>> {
    let mut random = Random::new(seed);
    (0..batches).map(|_| (0..BATCH_ROWS).map(|_| random.below(rows)).collect()).collect()
}

/// Writes row lists as little-endian 64-bit numbers, one after the other.
///
/// # Errors
///
/// What the system reports.
pub fn save_batches(path: &Path, batches: &[Vec<u64>]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for row in batches.iter().flatten() {
        file.write_all(&row.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

/// Writes random bytes that payloads are cut from.
///
/// # Errors
///
/// What the system reports.
pub fn write_pool(path: &Path, bytes: usize, seed: u64) -> Result<()> {
    let mut pool = vec![0; bytes];
    Random::new(seed).fill(&mut pool);
    Ok(fs::write(path, pool)?)
}

/// Reads a file once, so that the page cache holds it. Gives its size.
///
/// # Errors
///
/// What the system reports.
pub fn warm(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(total);
        }
        total += u64::try_from(count)?;
    }
}

/// A folder for the files of one run; it goes with its value.
///
/// # Errors
///
/// What the system reports.
pub fn scratch(parent: Option<&Path>) -> Result<(tempfile::TempDir, PathBuf)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("iac-bench-");
    let folder = match parent {
        Some(parent) => {
            fs::create_dir_all(parent)?;
            builder.tempdir_in(parent)?
        }
        None => builder.tempdir()?,
    };
    let path = folder.path().to_owned();
    Ok((folder, path))
}
