//! Refuses packs whose records overlap so much that they would fill a disk.

use iac_reader::{PackKind, PackReader};

use crate::error::{OpsError, Result};
use crate::progress::{Progress, check_cancelled};

/// How many times the data segment's length may be written.
const FACTOR: u64 = 64;
/// What may be written in any case, so that small packs may share as they like.
const FLOOR: u64 = 64 << 20;
/// Rows between two looks at whether the work should stop.
const ROWS_AT_ONCE: usize = 1 << 16;

/// Compares the stored bytes of rows with those of the data segment. Rows that the file does not
/// hold do not count: what is wrong with them is said elsewhere.
pub(crate) fn check_expansion(
    pack: &PackReader,
    rows: impl Iterator<Item = u64>,
    progress: &dyn Progress,
) -> Result<()> {
    // Fixed records cannot overlap.
    if pack.kind()? != PackKind::Variable {
        return Ok(());
    }
    let data = pack.layout().data;
    let there = data.length.min(pack.file_bytes().saturating_sub(data.offset));
    let mut bytes = 0_u64;
    for (count, row) in rows.enumerate() {
        if count.is_multiple_of(ROWS_AT_ONCE) {
            check_cancelled(progress)?;
        }
        if let Ok(span) = pack.span(row)
            && span.offset.checked_add(span.length).is_some_and(|end| end <= there)
        {
            bytes = bytes.saturating_add(span.length);
        }
    }
    let allowed = there.saturating_mul(FACTOR).saturating_add(FLOOR);
    if bytes > allowed {
        let path = pack.path().to_owned();
        return Err(OpsError::Expansion { path, bytes, data_length: there, allowed });
    }
    Ok(())
}
