//! What a column of the index says of the sizes of decoded records.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, UInt64Array};

use crate::error::Result;
use crate::table::Table;

/// A column of sizes; nulls say nothing.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// First rows of the batches, and their values.
    parts: Vec<(u64, UInt64Array)>,
}

impl Sizes {
    /// Nothing where there is no such column of `uint64`.
    pub(crate) fn new(table: &Table, name: &str) -> Result<Option<Self>> {
        if table.schema().index_of(name).is_err() {
            return Ok(None);
        }
        let mut parts = Vec::new();
        let mut first = 0_u64;
        for batch in table.columns(&[name])? {
            let values = batch
                .columns()
                .first()
                .and_then(|column| column.as_primitive_opt::<UInt64Type>().cloned());
            let Some(values) = values else { return Ok(None) };
            let rows = u64::try_from(values.len()).unwrap_or(u64::MAX);
            if rows > 0 {
                parts.push((first, values));
                first = first.saturating_add(rows);
            }
        }
        Ok(Some(Self { parts }))
    }

    pub(crate) fn get(&self, row: u64) -> Option<u64> {
        let behind = self.parts.partition_point(|(first, _)| *first <= row);
        let (first, values) = self.parts.get(behind.checked_sub(1)?)?;
        let place = usize::try_from(row.checked_sub(*first)?).ok()?;
        (place < values.len() && values.is_valid(place)).then(|| values.value(place))
    }
}
