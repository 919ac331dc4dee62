//! Rows that store no record.

use arrow_array::cast::AsArray;
use iac_reader::PackReader;

use crate::carry::column;
use crate::error::{OpsError, Result};
use crate::rows::RowSelection;

/// The column that says whether a row has an image.
const HAS_RECORD: &str = "has_pixel_data";

/// The rows of a pack that store no record: tables of objects with and without images say so in a
/// column, and nothing is stored for those without.
#[derive(Debug, Default)]
pub(crate) struct NoRecord {
    flags: Vec<bool>,
}

impl NoRecord {
    /// Reads the column, where there is one.
    pub(crate) fn of(pack: &PackReader) -> Result<Self> {
        let Some(arrays) = column(pack.index_table()?, HAS_RECORD)? else {
            return Ok(Self::default());
        };
        let mut flags = Vec::new();
        for array in &arrays {
            let Some(column) = array.as_boolean_opt() else {
                return Ok(Self::default());
            };
            // What is not known is looked at.
            flags.extend(column.iter().map(|flag| flag == Some(false)));
        }
        pack.check_intact()?;
        Ok(Self { flags })
    }

    /// Whether a row stores no record. Bytes that a row has all the same are no affair of a flag.
    pub(crate) fn contains(&self, pack: &PackReader, row: u64) -> bool {
        let flag = usize::try_from(row).ok().and_then(|row| self.flags.get(row));
        flag == Some(&true) && pack.span(row).is_ok_and(|span| span.length == 0)
    }

    /// The rows that store a record, and how many do not.
    pub(crate) fn split(
        &self,
        pack: &PackReader,
        rows: RowSelection,
    ) -> Result<(RowSelection, u64)> {
        if self.flags.is_empty() {
            return Ok((rows, 0));
        }
        let found: RowSelection = rows.iter().filter(|row| !self.contains(pack, *row)).collect();
        let without = rows.len().saturating_sub(found.len());
        if let (true, Some(first)) = (found.is_empty() && without > 0, rows.iter().next()) {
            let others =
                if without == 1 { "stores" } else { "and the others that were asked for store" };
            return Err(OpsError::usage(format!(
                "{}: row {first} {others} no record",
                pack.path()
            )));
        }
        Ok((found, without))
    }
}
