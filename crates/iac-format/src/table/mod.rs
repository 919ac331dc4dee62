//! The two tables of a pack: Arrow IPC streams, checked before anything is decoded.
//!
//! [`TableStream::parse`] walks the messages of a stream and compares every number in them with
//! the bytes that are there and with the schema. Only message metadata is touched, so a table of
//! ten million rows in one batch costs as much as one of ten rows. Columns are decoded on request:
//! [`TableStream::decode`] gives all, [`TableStream::decode_columns`] some of them, and
//! [`TableStream::fixed_column`] the raw values of one fixed-width column without decoding
//! anything. All three refer to the bytes of the stream wherever these are aligned, instead of
//! copying them.
//!
//! [`encode_table`] and [`write_table`] are the way back.
//!
//! # What is read
//!
//! Streams of metadata versions V4 and V5, also in the framing from before Arrow 0.15, of any
//! number of batches, with dictionaries that later messages replace or extend, of all types that
//! the Arrow library knows, with bodies compressed by LZ4 or Zstandard. The end marker may be
//! missing at the exact end of the bytes; what follows the marker is ignored.
//!
//! Not read, and reported as [`FormatError::UnsupportedTable`]: big-endian streams and V4 unions with
//! nulls of their own. Reported as [`FormatError::TableLimit`]: streams that decoding would blow up
//! beyond [`MAX_EXPANDED_BYTES`] or [`MAX_VIEWED_BYTES`].

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::{Message, MessageHeader};
use arrow_schema::{DataType, Schema, SchemaRef};
use bytes::Bytes;

mod column;
mod decode;
mod encode;
mod fault;
mod layout;
mod limits;
mod schema;
mod stream;

pub use column::FixedColumn;
pub use encode::{encode_table, encoded_table_len, write_table};
pub use limits::{MAX_EXPANDED_BYTES, MAX_VIEWED_BYTES};

use crate::{FormatError, Result, TableKind};
use decode::Texts;
use fault::{Check, Fault};
use layout::{BatchMetadata, Cursor, Need, Span, Visit};
use schema::{Dictionary, TableSchema};
use stream::{Place, Walk, message_at};

/// A table's Arrow IPC stream: walked and checked, nothing decoded.
///
/// A clone shares everything with its original.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{RecordBatch, UInt64Array};
/// use arrow_schema::{DataType, Field, Schema};
/// use iac_format::TableKind;
/// use iac_format::table::{TableStream, encode_table};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("offset", DataType::UInt64, true)]));
/// let offsets = Arc::new(UInt64Array::from(vec![0, 10, 30]));
/// let batch = RecordBatch::try_new(schema.clone(), vec![offsets])?;
/// let bytes = encode_table(&schema, &[batch.clone()])?;
///
/// let table = TableStream::parse(bytes.into(), TableKind::Index)?;
/// assert_eq!(table.num_rows(), 3);
/// assert_eq!(table.decode()?, [batch]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TableStream {
    inner: Arc<Inner>,
}

impl fmt::Debug for TableStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the bytes, which may be gigabytes.
        f.debug_struct("TableStream")
            .field("table", &self.inner.table)
            .field("columns", &self.inner.schema.fields().len())
            .field("rows", &self.inner.rows)
            .field("batches", &self.inner.batch_rows.len())
            .finish_non_exhaustive()
    }
}

struct Inner {
    bytes: Bytes,
    table: TableKind,
    schema: SchemaRef,
    dictionaries: HashMap<i64, Dictionary>,
    parts: Vec<Part>,
    batch_rows: Vec<u64>,
    rows: u64,
    stream_bytes: u64,
}

/// A message behind the schema.
#[derive(Debug, Clone)]
struct Part {
    place: Place,
    kind: PartKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Dictionary { id: i64, delta: bool },
    Batch,
}

impl TableStream {
    /// Walks the stream and checks the metadata of all its messages.
    ///
    /// A column that is declared without nulls and yet has some appears as nullable in
    /// [`schema`](Self::schema): other writers do not enforce their declarations.
    ///
    /// # Errors
    ///
    /// [`FormatError::Table`] for a damaged stream, [`FormatError::UnsupportedTable`] for one that
    /// may be valid but is not read.
    pub fn parse(bytes: Bytes, table: TableKind) -> Result<Self> {
        let inner = Inner::parse(bytes, table).map_err(|fault| fault.into_error(table))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Which of the two tables this is.
    #[must_use]
    pub fn table(&self) -> TableKind {
        self.inner.table
    }

    /// The schema, metadata included.
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

    /// Bytes up to and including the end marker; what follows is padding.
    #[must_use]
    pub fn stream_bytes(&self) -> u64 {
        self.inner.stream_bytes
    }

    /// Position of the column called `name`, if there is one.
    ///
    /// # Errors
    ///
    /// [`FormatError::Column`] when several columns are called so. That is legal as long as nobody
    /// asks for them by name.
    pub fn column_index(&self, name: &str) -> Result<Option<usize>> {
        let mut found = (self.inner.schema.fields().iter().enumerate())
            .filter(|(_, field)| field.name() == name)
            .map(|(index, _)| index);
        let first = found.next();
        let more = found.count();
        if more > 0 {
            return Err(FormatError::column(
                self.inner.table,
                name,
                format!("{} columns have this name", more.saturating_add(1)),
            ));
        }
        Ok(first)
    }

    /// Decodes and validates all columns, batch by batch.
    ///
    /// # Errors
    ///
    /// [`FormatError::Table`] when the content is damaged (offsets or indices out of bounds, text
    /// that is not UTF-8, wrong null counts, broken compression), [`FormatError::TableLimit`]
    /// when a limit is exceeded.
    pub fn decode(&self) -> Result<Vec<RecordBatch>> {
        decode::decode(&self.inner, None, Texts::Checked)
    }

    /// The same, handing over one batch after the other: for those who need no batch once they have
    /// the next, as a table can take many times the memory of what is made of it.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and those of `each`, after which no further batch is decoded.
    pub fn decode_each<E: From<FormatError>>(
        &self,
        each: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        decode::decode_each(&self.inner, None, Texts::Checked, each)
    }

    /// Decodes and validates the columns at the given positions, in the order given.
    ///
    /// Other columns are neither decoded nor validated.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and [`FormatError::Argument`] for a position that the schema
    /// does not have.
    pub fn decode_columns(&self, columns: &[usize]) -> Result<Vec<RecordBatch>> {
        decode::decode(&self.inner, Some(columns), Texts::Checked)
    }

    /// The same with columns of type utf8 and large_utf8 as binary and large_binary: whether their
    /// bytes are text is not looked at. For those who only compare them, which takes a fraction of
    /// the time.
    ///
    /// # Errors
    ///
    /// As [`decode_columns`](Self::decode_columns).
    pub fn decode_columns_as_bytes(&self, columns: &[usize]) -> Result<Vec<RecordBatch>> {
        decode::decode(&self.inner, Some(columns), Texts::AsBytes)
    }

    /// The raw values of a fixed-width column that has no nulls, or nothing if there is no such
    /// column.
    ///
    /// The chunks refer to the bytes of the stream, which need not be aligned; only compressed
    /// buffers are copied. Nothing is looked at row by row.
    ///
    /// # Errors
    ///
    /// [`FormatError::Column`] when the type is none of `allowed`, when there are nulls, or when
    /// several columns have the name; [`FormatError::Table`] when a compressed buffer is damaged;
    /// [`FormatError::TableLimit`] when a limit is exceeded.
    pub fn fixed_column(&self, name: &str, allowed: &[DataType]) -> Result<Option<FixedColumn>> {
        let Some(index) = self.column_index(name)? else {
            return Ok(None);
        };
        column::read(&self.inner, index, allowed).map(Some)
    }
}

impl Inner {
    fn parse(bytes: Bytes, table: TableKind) -> Check<Self> {
        if bytes.is_empty() {
            return Err(Fault::damaged("the stream is empty"));
        }
        let mut walk = Walk::new(&bytes);
        let Some((place, message)) = walk.next()? else {
            return Err(Fault::damaged("the stream ends before its schema"));
        };
        let TableSchema { schema, dictionaries } =
            TableSchema::read(&message, place.metadata.len())?;

        let mut parts = Vec::new();
        let mut batch_rows = Vec::new();
        let mut rows = 0_u64;
        let mut known = HashSet::new();
        let mut has_nulls = vec![false; schema.fields().len()];
        while let Some((place, message)) = walk.next()? {
            let number = batch_rows.len();
            let within = |fault: Fault| fault.within(&part_name(&message, number, &place));
            let kind = match message.header_type() {
                MessageHeader::RecordBatch => {
                    let batch = batch_metadata(&message, &place).map_err(within)?;
                    check_batch(&batch, &schema, &mut has_nulls).map_err(within)?;
                    rows = rows
                        .checked_add(batch.rows)
                        .ok_or_else(|| within(Fault::damaged("the row count overflows")))?;
                    batch_rows.push(batch.rows);
                    PartKind::Batch
                }
                MessageHeader::DictionaryBatch => {
                    let batch = batch_metadata(&message, &place).map_err(within)?;
                    let (id, delta) = dictionary_header(&message).map_err(within)?;
                    let Some(dictionary) = dictionaries.get(&id) else {
                        return Err(within(Fault::damaged("the schema does not declare it")));
                    };
                    check_batch(&batch, &dictionary.schema, &mut [false]).map_err(within)?;
                    if known.insert(id) && delta {
                        return Err(within(Fault::damaged("it extends nothing")));
                    }
                    PartKind::Dictionary { id, delta }
                }
                MessageHeader::Schema => {
                    return Err(within(Fault::damaged("a second schema")));
                }
                MessageHeader(other) => {
                    return Err(within(Fault::damaged(format!(
                        "message type {other} does not belong into a table"
                    ))));
                }
            };
            parts.push(Part { place, kind });
        }
        let stream_bytes = u64::try_from(walk.position())
            .map_err(|_| Fault::unsupported("the stream is too long"))?;
        let schema = with_nullable(schema, &has_nulls);
        Ok(Self {
            schema: Arc::new(schema),
            bytes,
            table,
            dictionaries,
            parts,
            batch_rows,
            rows,
            stream_bytes,
        })
    }

    /// The verified message of a part and its metadata.
    fn open(&self, part: &Part) -> Check<(Message<'_>, BatchMetadata)> {
        let message = message_at(&self.bytes, &part.place.metadata)?;
        let batch = batch_metadata(&message, &part.place)?;
        Ok((message, batch))
    }
}

/// How a message is called in errors.
fn part_name(message: &Message<'_>, number: usize, place: &Place) -> String {
    let start = place.start;
    match dictionary_header(message) {
        Ok((id, _)) => format!("dictionary {id} at byte {start}"),
        Err(_) => format!("record batch {number} at byte {start}"),
    }
}

fn dictionary_header(message: &Message<'_>) -> Check<(i64, bool)> {
    let header = message
        .header_as_dictionary_batch()
        .ok_or_else(|| Fault::damaged("the message has no dictionary"))?;
    Ok((header.id(), header.isDelta()))
}

/// The record batch that a message is or, for a dictionary, contains.
fn batch_header<'a>(message: &Message<'a>) -> Check<arrow_ipc::RecordBatch<'a>> {
    let header = match message.header_type() {
        MessageHeader::DictionaryBatch => {
            message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
        }
        _ => message.header_as_record_batch(),
    };
    header.ok_or_else(|| Fault::damaged("the message has no batch"))
}

fn batch_metadata(message: &Message<'_>, place: &Place) -> Check<BatchMetadata> {
    let body = u64::try_from(place.body.len())
        .map_err(|_| Fault::unsupported("the message is too long"))?;
    BatchMetadata::read(&batch_header(message)?, message.version(), body)
}

/// Compares a batch with the schema; notes which columns have nulls that they may not have.
fn check_batch(batch: &BatchMetadata, schema: &Schema, has_nulls: &mut [bool]) -> Check<()> {
    let mut sizes = Sizes { compressed: batch.codec.is_some() };
    let mut cursor = Cursor::new(batch);
    for (field, has_nulls) in schema.fields().iter().zip(has_nulls) {
        let node = cursor.column(field, &mut sizes)?;
        *has_nulls |= node.nulls > 0;
    }
    cursor.finish()
}

/// Checks that buffers are as long as the rows need.
struct Sizes {
    compressed: bool,
}

impl Visit for Sizes {
    fn buffer(&mut self, span: Span, need: Need) -> Check<()> {
        // How long a compressed buffer will be stands in the body, which is not touched here.
        if self.compressed {
            return Ok(());
        }
        need.check(span.length)
    }

    fn bodiless(&mut self, _: u64) -> Check<()> {
        Ok(())
    }
}

/// Drops the declaration "no nulls" where it does not hold.
fn with_nullable(schema: Schema, has_nulls: &[bool]) -> Schema {
    let holds = |field: &arrow_schema::Field, has_nulls: bool| {
        field.is_nullable()
            || !has_nulls
            || matches!(
                field.data_type(),
                DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..)
            )
    };
    if (schema.fields().iter().zip(has_nulls)).all(|(field, nulls)| holds(field, *nulls)) {
        return schema;
    }
    let fields: Vec<_> = (schema.fields().iter().zip(has_nulls))
        .map(|(field, nulls)| {
            if holds(field, *nulls) {
                Arc::clone(field)
            } else {
                Arc::new(field.as_ref().clone().with_nullable(true))
            }
        })
        .collect();
    Schema::new_with_metadata(fields, schema.metadata)
}
