//! Tables as callers hand them in.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use crate::error::{Result, WriteError};

/// A slide or index table: a schema and record batches that follow it.
///
/// The batches are written as they are, one record batch of the Arrow stream for each, except
/// that empty ones at the end are left out (so a table without rows has no record batch).
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray};
/// use iac_writer::Table;
///
/// let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
/// let table = Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
/// assert_eq!(table.num_rows(), 2);
/// # Ok::<(), arrow_schema::ArrowError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// Makes a table; its schema's metadata is kept, that of the batches' own schemas is not.
    ///
    /// # Errors
    ///
    /// [`WriteError::Batch`] when the fields of a batch differ from those of the schema.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        for (position, batch) in batches.iter().enumerate() {
            check_fields(&schema, batch, position)?;
        }
        Ok(Self { schema, batches })
    }

    /// The table without columns and rows.
    #[must_use]
    pub fn empty() -> Self {
        Self { schema: Arc::new(Schema::empty()), batches: Vec::new() }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The batches as they were given.
    #[must_use]
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Rows of all batches together.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.batches
            .iter()
            .map(|batch| u64::try_from(batch.num_rows()).unwrap_or(u64::MAX))
            .fold(0, u64::saturating_add)
    }

    /// The batches that are written: without the empty ones at the end.
    pub(crate) fn written_batches(&self) -> &[RecordBatch] {
        let behind_last = self
            .batches
            .iter()
            .rposition(|batch| batch.num_rows() > 0)
            .map_or(0, |last| last.saturating_add(1));
        self.batches.get(..behind_last).unwrap_or_default()
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<RecordBatch> for Table {
    fn from(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }
}

/// Without batches: [`Table::empty`].
impl TryFrom<Vec<RecordBatch>> for Table {
    type Error = WriteError;

    fn try_from(batches: Vec<RecordBatch>) -> Result<Self> {
        match batches.first() {
            None => Ok(Self::empty()),
            Some(first) => Self::new(first.schema(), batches),
        }
    }
}

pub(crate) fn check_fields(schema: &Schema, batch: &RecordBatch, position: usize) -> Result<()> {
    let found = batch.schema_ref().fields();
    let expected = schema.fields();
    if found == expected {
        return Ok(());
    }
    let names = |fields: &arrow_schema::Fields| {
        let list: Vec<String> =
            fields.iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect();
        list.join(", ")
    };
    let reason = if found.len() == expected.len() {
        match found.iter().zip(expected).find(|(a, b)| a != b) {
            Some((found, expected)) => format!("field {found} where {expected} is expected"),
            None => "fields differ".to_owned(),
        }
    } else {
        format!("columns ({}) where ({}) are expected", names(found), names(expected))
    };
    Err(WriteError::Batch { batch: position, reason })
}
