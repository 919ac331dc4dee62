//! Checks that end with the first fault, as scripts expect them.

use iac_reader::{PackReader, ReadError};

use crate::error::{AdapterError, Result};

/// Records that are read together.
const GROUP: u64 = 256;

/// What every pack must keep: both tables can be read, and spans lie inside of the data segment.
pub(super) fn open_tables(pack: &PackReader) -> Result<()> {
    pack.slide_table()?.batches()?;
    pack.index_table()?.batches()?;
    if !crate::columns::has_column(pack.index_table()?, iac_format::OFFSET_COLUMN) {
        return Ok(());
    }
    let Err(error) = pack.check_spans() else { return Ok(()) };
    let row = error.row();
    let index = pack.record_index()?;
    match row.zip(index).and_then(|(row, index)| Some((row, index.stated_span(row).ok()?))) {
        Some((row, span)) => Err(AdapterError::schema_row(
            pack.path(),
            row,
            "offset",
            format!(
                "payload span outside data segment at row {row}: offset={} length={}",
                span.offset, span.length
            ),
        )),
        None => Err(error.into()),
    }
}

/// Compares the first records with their checksums.
pub(super) fn check_sums(pack: &PackReader, rows: u64) -> Result<()> {
    let pack = pack.with_crc(true);
    let mut start = 0_u64;
    while start < rows {
        let end = start.saturating_add(GROUP).min(rows);
        let group: Vec<u64> = (start..end).collect();
        pack.read_rows(&group).map_err(|error| match error {
            ReadError::Checksum { row, stored, computed, .. } => AdapterError::schema_row(
                pack.path(),
                row,
                iac_format::CRC32_COLUMN,
                format!("crc32 mismatch at row {row}: expected={stored} actual={computed}"),
            ),
            other => other.into(),
        })?;
        start = end;
    }
    Ok(())
}
