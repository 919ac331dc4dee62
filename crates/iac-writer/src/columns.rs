//! The columns that a writer computes, and where they go in the caller's index table
//! (docs/format.md, "Tables").

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use iac_format::{CRC32_COLUMN, FormatError, LENGTH_COLUMN, OFFSET_COLUMN, TableKind};

use crate::Table;
use crate::error::{Result, WriteError};

/// One column of the written index table.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// The caller's column at this position.
    Caller(usize),
    Offset,
    Length,
    Crc32,
}

/// An index table whose computed columns are still missing: enough to know its size.
#[derive(Debug)]
pub(crate) struct IndexPlan {
    schema: SchemaRef,
    sources: Vec<Source>,
    batches: Vec<RecordBatch>,
    rows: u64,
}

/// Values of the computed columns; those that the plan does not ask for stay empty.
#[derive(Debug, Default)]
pub(crate) struct ComputedColumns {
    pub(crate) offsets: Vec<u64>,
    pub(crate) lengths: Vec<u32>,
    pub(crate) crc32s: Vec<u32>,
}

impl IndexPlan {
    /// For a variable pack: `offset`, `length` and `crc32` replace columns of their names or
    /// follow the caller's.
    pub(crate) fn variable(path: &Path, index: &Table) -> Result<Self> {
        let wanted = [
            (OFFSET_COLUMN, Source::Offset),
            (LENGTH_COLUMN, Source::Length),
            (CRC32_COLUMN, Source::Crc32),
        ];
        Self::new(path, index, &wanted)
    }

    /// For a fixed pack with checksums: `crc32` follows the caller's columns.
    pub(crate) fn with_row_sums(path: &Path, index: &Table) -> Result<Self> {
        if occurrences(index, CRC32_COLUMN) > 0 {
            return Err(column_error(
                path,
                CRC32_COLUMN,
                "the name is taken by the checksums of the rows (rename the column, or switch checksums off)",
            ));
        }
        Self::new(path, index, &[(CRC32_COLUMN, Source::Crc32)])
    }

    /// For a data segment: the caller's columns and nothing else.
    pub(crate) fn unchanged(path: &Path, index: &Table) -> Result<Self> {
        Self::new(path, index, &[])
    }

    fn new(path: &Path, index: &Table, wanted: &[(&str, Source)]) -> Result<Self> {
        let caller = index.schema().fields();
        let mut fields: Vec<FieldRef> = caller.iter().cloned().collect();
        let mut sources: Vec<Source> = (0..caller.len()).map(Source::Caller).collect();
        for &(name, source) in wanted {
            let data_type = match source {
                Source::Offset => DataType::UInt64,
                _ => DataType::UInt32,
            };
            let field = Arc::new(Field::new(name, data_type, true));
            match occurrences(index, name) {
                0 => {
                    fields.push(field);
                    sources.push(source);
                }
                1 => {
                    let place =
                        fields.iter_mut().zip(&mut sources).find(|(field, _)| field.name() == name);
                    if let Some((old_field, old_source)) = place {
                        *old_field = field;
                        *old_source = source;
                    }
                }
                several => {
                    return Err(column_error(
                        path,
                        name,
                        &format!("occurs {several} times, so nobody could tell which one counts"),
                    ));
                }
            }
        }
        let metadata = index.schema().metadata().clone();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
            sources,
            batches: index.written_batches().to_vec(),
            rows: index.num_rows(),
        })
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    /// The batches as they are written.
    pub(crate) fn fill(&self, values: ComputedColumns) -> Result<Vec<RecordBatch>, FormatError> {
        let computed = Arrays::new(values);
        let mut start = 0_usize;
        let mut filled = Vec::with_capacity(self.batches.len());
        for batch in &self.batches {
            filled.push(self.fill_batch(batch, &computed, start)?);
            start = start.saturating_add(batch.num_rows());
        }
        Ok(filled)
    }

    /// The same with zeros for the computed columns: of the same size as the real ones.
    pub(crate) fn fill_blank(&self) -> Result<Vec<RecordBatch>, FormatError> {
        let longest = self.batches.iter().map(RecordBatch::num_rows).max();
        let longest = longest.unwrap_or(0);
        let wants = |wanted: fn(&Source) -> bool| {
            if self.sources.iter().any(wanted) { longest } else { 0 }
        };
        // Zeroed pages cost no memory until somebody writes to them.
        let blank = Arrays::new(ComputedColumns {
            offsets: vec![0; wants(|source| matches!(source, Source::Offset))],
            lengths: vec![0; wants(|source| matches!(source, Source::Length))],
            crc32s: vec![0; wants(|source| matches!(source, Source::Crc32))],
        });
        self.batches.iter().map(|batch| self.fill_batch(batch, &blank, 0)).collect()
    }

    fn fill_batch(
        &self,
        batch: &RecordBatch,
        computed: &Arrays,
        start: usize,
    ) -> Result<RecordBatch, FormatError> {
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let column = match source {
                Source::Caller(position) => batch.columns().get(*position).cloned(),
                Source::Offset => slice(&computed.offsets, start, rows),
                Source::Length => slice(&computed.lengths, start, rows),
                Source::Crc32 => slice(&computed.crc32s, start, rows),
            };
            columns.push(column.ok_or_else(|| FormatError::Argument {
                reason: format!("index table: rows {start} and following have no spans"),
            })?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| FormatError::Argument { reason: format!("index table: {error}") })
    }
}

struct Arrays {
    offsets: ArrayRef,
    lengths: ArrayRef,
    crc32s: ArrayRef,
}

impl Arrays {
    fn new(values: ComputedColumns) -> Self {
        Self {
            offsets: Arc::new(UInt64Array::from(values.offsets)),
            lengths: Arc::new(UInt32Array::from(values.lengths)),
            crc32s: Arc::new(UInt32Array::from(values.crc32s)),
        }
    }
}

fn slice(column: &ArrayRef, start: usize, rows: usize) -> Option<ArrayRef> {
    (start.checked_add(rows)? <= column.len()).then(|| column.slice(start, rows))
}

/// Refuses columns that a reader would take for a record index in a pack that has none.
pub(crate) fn refuse_span_columns(path: &Path, index: &Table) -> Result<()> {
    for name in [OFFSET_COLUMN, LENGTH_COLUMN] {
        if occurrences(index, name) > 0 {
            return Err(column_error(
                path,
                name,
                "readers would take it for a record index, which a data segment has not (rename the column)",
            ));
        }
    }
    Ok(())
}

fn occurrences(index: &Table, name: &str) -> usize {
    let fields = index.schema().fields();
    fields.iter().filter(|field| field.name() == name).count()
}

fn column_error(path: &Path, column: &str, reason: &str) -> WriteError {
    WriteError::Column {
        path: path.to_owned(),
        table: TableKind::Index,
        column: column.to_owned(),
        reason: reason.to_owned(),
    }
}
