//! What can be read of a damaged pack's tables.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{ArrowError, FieldRef, Schema, SchemaRef};
use iac_format::FormatError;
use iac_reader::Table;

/// The columns of a table that can be decoded.
#[derive(Debug, Clone)]
pub(super) struct SoundColumns {
    schema: SchemaRef,
    /// For each record batch its rows and columns.
    batches: Vec<(usize, Vec<ArrayRef>)>,
}

/// A column that cannot be decoded.
#[derive(Debug)]
pub(super) struct LostColumn {
    pub(super) name: String,
    pub(super) error: FormatError,
}

impl SoundColumns {
    /// Decodes each column by itself, so that a damaged one does not take the others along.
    /// `wanted` says which ones, by position and field.
    pub(super) fn of(
        table: &Table,
        wanted: &dyn Fn(usize, &FieldRef) -> bool,
    ) -> (Self, Vec<LostColumn>) {
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut lost = Vec::new();
        let mut batches: Vec<(usize, Vec<ArrayRef>)> = table
            .batch_rows()
            .iter()
            .map(|rows| (usize::try_from(*rows).unwrap_or(usize::MAX), Vec::new()))
            .collect();
        for (position, field) in table.schema().fields().iter().enumerate() {
            if !wanted(position, field) {
                continue;
            }
            match table.stream().decode_columns(&[position]) {
                Ok(decoded) if decoded.len() == batches.len() => {
                    for ((_, columns), batch) in batches.iter_mut().zip(&decoded) {
                        columns.extend(batch.columns().first().cloned());
                    }
                    fields.push(Arc::clone(field));
                }
                Ok(_) => {
                    let error = FormatError::Column {
                        table: table.kind(),
                        column: field.name().clone(),
                        reason: "has another number of batches than the table".to_owned(),
                    };
                    lost.push(LostColumn { name: field.name().clone(), error });
                }
                Err(error) => lost.push(LostColumn { name: field.name().clone(), error }),
            }
        }
        let metadata = table.schema().metadata().clone();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        (Self { schema, batches }, lost)
    }

    /// The columns as a table with all rows, or with those in `rows` (ascending).
    pub(super) fn to_table(&self, rows: Option<&[u64]>) -> Result<iac_writer::Table, ArrowError> {
        let mut batches = Vec::with_capacity(self.batches.len());
        let mut start = 0_u64;
        let mut rest = rows.unwrap_or_default();
        for (count, columns) in &self.batches {
            let end = start.saturating_add(u64::try_from(*count).unwrap_or(u64::MAX));
            let batch = match rows {
                None => self.batch(columns.clone(), *count)?,
                Some(_) => {
                    let (here, behind) = rest.split_at(rest.partition_point(|row| *row < end));
                    rest = behind;
                    if u64::try_from(here.len()).unwrap_or(u64::MAX) == end.saturating_sub(start) {
                        self.batch(columns.clone(), *count)?
                    } else {
                        let places = here.iter().map(|row| row.saturating_sub(start));
                        let places = UInt64Array::from_iter_values(places);
                        let taken: Result<Vec<ArrayRef>, ArrowError> = columns
                            .iter()
                            .map(|column| arrow_select::take::take(column, &places, None))
                            .collect();
                        self.batch(taken?, here.len())?
                    }
                }
            };
            batches.push(batch);
            start = end;
        }
        iac_writer::Table::new(Arc::clone(&self.schema), batches)
            .map_err(|error| ArrowError::SchemaError(error.to_string()))
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}
