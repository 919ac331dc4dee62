//! What can be read of a damaged pack's tables.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{ArrowError, FieldRef, Schema, SchemaRef};
use iac_format::{ErrorKind, FormatError};
use iac_reader::Table;

use crate::error::{OpsError, Result};
use crate::gather::{self, Allowance, GatherError};
use crate::progress::{Progress, check_cancelled};

/// Calls that decode a table where nothing is wrong: each goes through all of it once, and sees to
/// it that not all columns are in memory twice.
const DECODINGS: usize = 64;

/// The columns of a table that can be decoded.
#[derive(Debug, Clone)]
pub(super) struct SoundColumns {
    schema: SchemaRef,
    /// For each record batch its rows and columns.
    batches: Vec<(usize, Vec<ArrayRef>)>,
}

/// A column that is not in the new pack.
#[derive(Debug)]
pub(super) struct LostColumn {
    pub(super) name: String,
    pub(super) message: String,
    pub(super) kind: ErrorKind,
}

impl LostColumn {
    fn new(name: &str, error: &FormatError) -> Self {
        Self { name: name.to_owned(), message: error.to_string(), kind: error.kind() }
    }
}

impl SoundColumns {
    /// Decodes columns in groups, and those of a group that fails by themselves, so that a damaged
    /// one does not take the others along. `wanted` says which ones, by position and field.
    ///
    /// # Errors
    ///
    /// [`OpsError::Read`] when a column is too large for the limits or for the memory, which is no
    /// damage: a column that is dropped for it would be lost where another machine could keep it.
    pub(super) fn of(
        table: &Table,
        path: &str,
        wanted: &dyn Fn(usize, &FieldRef) -> bool,
        progress: &dyn Progress,
    ) -> Result<(Self, Vec<LostColumn>)> {
        let all = table.schema().fields();
        let positions: Vec<usize> = (0..all.len())
            .filter(|position| all.get(*position).is_some_and(|field| wanted(*position, field)))
            .collect();
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut lost = Vec::new();
        let mut batches: Vec<(usize, Vec<ArrayRef>)> = table
            .batch_rows()
            .iter()
            .map(|rows| (usize::try_from(*rows).unwrap_or(usize::MAX), Vec::new()))
            .collect();
        // The next group is the last one, so that columns come in order.
        let mut groups: Vec<&[usize]> =
            positions.chunks(positions.len().div_ceil(DECODINGS).max(1)).rev().collect();
        while let Some(group) = groups.pop() {
            check_cancelled(progress)?;
            let error = match decode(table, group, batches.len()) {
                Ok(decoded) => {
                    for ((_, columns), batch) in batches.iter_mut().zip(&decoded) {
                        columns.extend(batch.columns().iter().cloned());
                    }
                    fields.extend(group.iter().filter_map(|position| all.get(*position)).cloned());
                    continue;
                }
                Err(error) => error,
            };
            match group {
                [] => {}
                [position] => {
                    if is_shortage(&error) {
                        return Err(OpsError::format(path, error));
                    }
                    let name = all.get(*position).map_or("", |field| field.name());
                    lost.push(LostColumn::new(name, &error));
                }
                several => {
                    let (first, second) = several.split_at(several.len().div_euclid(2));
                    groups.push(second);
                    groups.push(first);
                }
            }
        }
        let metadata = table.schema().metadata().clone();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        Ok((Self { schema, batches }, lost))
    }

    /// The columns as a table with all rows, or with those in `rows` (ascending). Columns whose rows
    /// cannot be copied one by one are left out.
    pub(super) fn to_table(
        &self,
        rows: Option<&[u64]>,
    ) -> Result<(iac_writer::Table, Vec<LostColumn>), ArrowError> {
        let (parts, failures) = match rows {
            None => (self.batches.clone(), Vec::new()),
            Some(rows) => self.selected(rows),
        };
        let is_kept = |position: usize| failures.get(position).is_none_or(Option::is_none);
        let fields = self.schema.fields().iter().enumerate();
        let kept: Vec<FieldRef> = fields
            .filter(|(position, _)| is_kept(*position))
            .map(|(_, field)| Arc::clone(field))
            .collect();
        let metadata = self.schema.metadata().clone();
        let schema = Arc::new(Schema::new_with_metadata(kept, metadata));
        let mut batches = Vec::with_capacity(parts.len());
        for (count, columns) in parts {
            let columns = columns.into_iter().enumerate();
            let kept = columns.filter(|(position, _)| is_kept(*position));
            let kept = kept.map(|(_, column)| column).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            batches.push(RecordBatch::try_new_with_options(Arc::clone(&schema), kept, &options)?);
        }
        let lost = self.schema.fields().iter().zip(failures).filter_map(|(field, failure)| {
            let failure = failure?;
            Some(LostColumn {
                name: field.name().clone(),
                message: format!("column `{}`: {}", field.name(), failure.reason()),
                kind: match failure {
                    GatherError::TooLarge => ErrorKind::Limit,
                    GatherError::Failed(_) => ErrorKind::Unsupported,
                },
            })
        });
        let lost = lost.collect();
        let table = iac_writer::Table::new(schema, batches)
            .map_err(|error| ArrowError::SchemaError(error.to_string()))?;
        Ok((table, lost))
    }

    /// The rows of each batch, and why they cannot be had of a column. Such a column is in the
    /// batches with all its rows.
    #[expect(clippy::type_complexity, reason = "as the field, and what is wrong")]
    fn selected(&self, rows: &[u64]) -> (Vec<(usize, Vec<ArrayRef>)>, Vec<Option<GatherError>>) {
        let columns = self.schema.fields().len();
        let mut failures: Vec<Option<GatherError>> = vec![None; columns];
        let mut allowances: Vec<Allowance> = (0..columns)
            .map(|position| {
                let parts = self.batches.iter();
                Allowance::of(parts.filter_map(|(_, columns)| columns.get(position)))
            })
            .collect();
        let mut parts = Vec::with_capacity(self.batches.len());
        let (mut start, mut rest) = (0_u64, rows);
        for (count, columns) in &self.batches {
            let end = start.saturating_add(u64::try_from(*count).unwrap_or(u64::MAX));
            let (here, behind) = rest.split_at(rest.partition_point(|row| *row < end));
            rest = behind;
            if u64::try_from(here.len()).unwrap_or(u64::MAX) == end.saturating_sub(start) {
                parts.push((*count, columns.clone()));
            } else {
                let places = here.iter().map(|row| row.saturating_sub(start));
                let places = UInt64Array::from_iter_values(places);
                let mut taken = Vec::with_capacity(columns.len());
                for ((column, failure), allowance) in
                    columns.iter().zip(&mut failures).zip(&mut allowances)
                {
                    if failure.is_none() {
                        match gather::take(column, &places, allowance) {
                            Ok(rows) => {
                                taken.push(rows);
                                continue;
                            }
                            Err(error) => *failure = Some(error),
                        }
                    }
                    taken.push(Arc::clone(column));
                }
                parts.push((here.len(), taken));
            }
            start = end;
        }
        (parts, failures)
    }
}

fn decode(
    table: &Table,
    group: &[usize],
    batches: usize,
) -> std::result::Result<Vec<RecordBatch>, FormatError> {
    let decoded = table.stream().decode_columns(group)?;
    let fits =
        decoded.len() == batches && decoded.iter().all(|batch| batch.num_columns() == group.len());
    if fits {
        return Ok(decoded);
    }
    let field = group.first().and_then(|position| table.schema().fields().get(*position));
    Err(FormatError::Column {
        table: table.kind(),
        column: field.map(|field| field.name().clone()).unwrap_or_default(),
        reason: "has another number of batches than the table".to_owned(),
    })
}

/// Whether more memory, or higher limits, would have helped.
fn is_shortage(error: &FormatError) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Damaged | ErrorKind::Checksum | ErrorKind::Schema | ErrorKind::Unsupported
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_format::TableKind;

    #[test]
    fn only_limits_and_short_memory_are_a_shortage() {
        let (table, reason) = (TableKind::Index, String::new());
        assert!(is_shortage(&FormatError::TableLimit { table, reason: reason.clone() }));
        assert!(!is_shortage(&FormatError::UnsupportedTable { table, reason: reason.clone() }));
        assert!(!is_shortage(&FormatError::Table { table, reason }));
    }
}
