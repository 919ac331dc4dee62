//! The two tables of a pack: Arrow IPC streams, checked before anything is decoded.

use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema, SchemaRef};
use bytes::Bytes;

use crate::{FormatError, Result, TableKind};

/// A table's Arrow IPC stream: walked and checked, nothing decoded.
#[derive(Debug, Clone)]
pub struct TableStream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    table: TableKind,
    schema: SchemaRef,
    batch_rows: Vec<u64>,
    rows: u64,
    stream_bytes: u64,
}

/// Raw little-endian values of a fixed-width column, one chunk for each record batch.
#[derive(Debug, Clone)]
pub struct FixedColumn {
    /// The column's type.
    pub data_type: DataType,
    /// Bytes of one value.
    pub width: usize,
    /// The values of each record batch: exactly rows times width bytes.
    pub chunks: Vec<Bytes>,
}

impl TableStream {
    /// Walks the stream and checks all metadata.
    ///
    /// # Errors
    ///
    /// `Table` for a damaged stream, `UnsupportedTable` for a kind that is not read.
    pub fn parse(_bytes: Bytes, table: TableKind) -> Result<Self> {
        Err(FormatError::table(table, "not there yet"))
    }
    /// Which table this is.
    #[must_use]
    pub fn table(&self) -> TableKind {
        self.inner.table
    }
    /// The schema, custom metadata included.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.schema
    }
    /// Rows of all record batches together.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.inner.rows
    }
    /// Rows of each record batch, batches without rows included.
    #[must_use]
    pub fn batch_rows(&self) -> &[u64] {
        &self.inner.batch_rows
    }
    /// Bytes up to and including the end marker; the rest of the segment is padding.
    #[must_use]
    pub fn stream_bytes(&self) -> u64 {
        self.inner.stream_bytes
    }
    /// Position of the column with this name, if there is one.
    ///
    /// # Errors
    ///
    /// `Column` when several columns have the name.
    pub fn column_index(&self, _name: &str) -> Result<Option<usize>> {
        Ok(None)
    }
    /// Decodes and validates all columns.
    ///
    /// # Errors
    ///
    /// `Table` when the content is damaged.
    pub fn decode(&self) -> Result<Vec<RecordBatch>> {
        Ok(Vec::new())
    }
    /// Decodes and validates some columns, in the order given.
    ///
    /// # Errors
    ///
    /// `Table` when the content is damaged, `Argument` for a position that is not there.
    pub fn decode_columns(&self, _columns: &[usize]) -> Result<Vec<RecordBatch>> {
        Ok(Vec::new())
    }
    /// The raw values of a fixed-width column without nulls.
    ///
    /// # Errors
    ///
    /// `Column` for another type, nulls, or a name that occurs twice.
    pub fn fixed_column(&self, _name: &str, _allowed: &[DataType]) -> Result<Option<FixedColumn>> {
        Ok(None)
    }
}

/// Encodes batches as one stream.
///
/// # Errors
///
/// `Argument` when a batch does not fit the schema.
pub fn encode_table(_schema: &Schema, _batches: &[RecordBatch]) -> Result<Vec<u8>> {
    Ok(Vec::new())
}

/// Writes batches as one stream; gives the bytes written.
///
/// # Errors
///
/// What the sink reports; a [`FormatError`] inside `InvalidInput` when a batch does not fit.
pub fn write_table<W: Write>(
    _sink: W,
    _schema: &Schema,
    _batches: &[RecordBatch],
) -> std::io::Result<u64> {
    Ok(0)
}
