//! Decoding by the Arrow library, fenced by our own checks.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::Message;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, UnionFields};
use bytes::Bytes;

use super::fault::{Check, Fault};
use super::layout::{BatchMetadata, Cursor, Need, Skip, Span, UNION_OFFSETS, Visit};
use super::limits::{Allowance, Codec};
use super::schema::{any_type, column_dictionaries};
use super::{Inner, Part, PartKind, batch_header};
use crate::{FormatError, Result};

/// What becomes of columns of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    /// They are text, and found to be.
    Checked,
    /// They are bytes, whatever these are.
    AsBytes,
}

pub(super) fn decode(
    inner: &Inner,
    columns: Option<&[usize]>,
    texts: Texts,
) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::with_capacity(inner.batch_rows.len());
    decode_each(inner, columns, texts, |batch| {
        batches.push(batch);
        Ok::<_, FormatError>(())
    })?;
    Ok(batches)
}

/// Hands over one batch after the other.
pub(super) fn decode_each<E: From<FormatError>>(
    inner: &Inner,
    columns: Option<&[usize]>,
    texts: Texts,
    mut each: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let full = match texts {
        Texts::Checked => Arc::clone(&inner.schema),
        Texts::AsBytes => texts_as_bytes(&inner.schema),
    };
    let width = full.fields().len();
    let mut selected = vec![columns.is_none(); width];
    for column in columns.into_iter().flatten() {
        *selected.get_mut(*column).ok_or_else(|| FormatError::Argument {
            reason: format!("the {} has no column {column} (it has {width} columns)", inner.table),
        })? = true;
    }
    let broken = |fault: Fault| fault.into_error(inner.table);
    let schema = project(&full, columns).map_err(broken)?;
    let wanted = wanted_dictionaries(inner, &selected);
    let mut allowance = Allowance::new();
    let mut dictionaries = Dictionaries::default();
    for part in &inner.parts {
        let place = |fault: Fault| broken(at_part(fault, part));
        match part.kind {
            PartKind::Dictionary { id, delta } if wanted.contains(&id) => {
                dictionaries.read(inner, part, id, delta, &mut allowance).map_err(place)?;
            }
            PartKind::Dictionary { .. } => {}
            PartKind::Batch => {
                dictionaries.settle(&mut allowance).map_err(place)?;
                let (message, metadata) = inner.open(part).map_err(place)?;
                let batch = Job {
                    inner,
                    part,
                    message: &message,
                    metadata: &metadata,
                    schema: &full,
                    columns,
                    selected: &selected,
                    dictionaries: &dictionaries.ready,
                }
                .run(&mut allowance)
                .map_err(place)?;
                let rows = batch.num_rows();
                let (_, arrays, _) = batch.into_parts();
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                let batch =
                    RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)
                        .map_err(|error| place(Fault::damaged(error.to_string())))?;
                each(batch)?;
            }
        }
    }
    Ok(())
}

/// The decompressed values of one column, for [`super::column`].
pub(super) fn raw_values(
    inner: &Inner,
    part: &Part,
    message: &Message<'_>,
    metadata: &BatchMetadata,
    columns: &[usize; 1],
    allowance: &mut Allowance,
) -> Check<Bytes> {
    let mut selected = vec![false; inner.schema.fields().len()];
    if let Some(selected) = columns.first().and_then(|index| selected.get_mut(*index)) {
        *selected = true;
    }
    let batch = Job {
        inner,
        part,
        message,
        metadata,
        schema: &inner.schema,
        columns: Some(columns),
        selected: &selected,
        dictionaries: &HashMap::new(),
    }
    .run(allowance)?;
    batch
        .columns()
        .first()
        .and_then(|array| array.to_data().buffers().first().cloned())
        .map(Bytes::from)
        .ok_or_else(|| Fault::damaged("the column has no values"))
}

/// Puts the message's place in front of a reason.
pub(super) fn at_part(fault: Fault, part: &Part) -> Fault {
    let start = part.place.start;
    fault.within(&match part.kind {
        PartKind::Dictionary { id, .. } => format!("dictionary {id} at byte {start}"),
        PartKind::Batch => format!("record batch at byte {start}"),
    })
}

fn project(schema: &SchemaRef, columns: Option<&[usize]>) -> Check<SchemaRef> {
    match columns {
        None => Ok(Arc::clone(schema)),
        Some(columns) => {
            schema.project(columns).map(Arc::new).map_err(|error| Fault::damaged(error.to_string()))
        }
    }
}

fn wanted_dictionaries(inner: &Inner, selected: &[bool]) -> HashSet<i64> {
    (inner.schema.fields().iter().zip(selected))
        .filter(|(_, selected)| **selected)
        .flat_map(|(field, _)| column_dictionaries(field))
        .collect()
}

/// The dictionaries as they stand at one point of the stream.
#[derive(Default)]
struct Dictionaries {
    ready: HashMap<i64, ArrayRef>,
    /// Deltas wait here until a batch needs them, so that a run of them is joined once.
    pending: HashMap<i64, Vec<ArrayRef>>,
}

impl Dictionaries {
    fn read(
        &mut self,
        inner: &Inner,
        part: &Part,
        id: i64,
        delta: bool,
        allowance: &mut Allowance,
    ) -> Check<()> {
        let Some(dictionary) = inner.dictionaries.get(&id) else {
            return Err(Fault::damaged("the schema does not declare it"));
        };
        if !dictionary.nested.is_empty() {
            self.settle(allowance)?;
        }
        let (message, metadata) = inner.open(part)?;
        let batch = Job {
            inner,
            part,
            message: &message,
            metadata: &metadata,
            schema: &dictionary.schema,
            columns: None,
            selected: &[true],
            dictionaries: &self.ready,
        }
        .run(allowance)?;
        let Some(values) = batch.columns().first() else {
            return Err(Fault::damaged("it has no values"));
        };
        if delta {
            // Joining copies each list view on its own, however often the views overlap.
            if any_type(values.data_type(), &|data_type| {
                matches!(data_type, DataType::ListView(_) | DataType::LargeListView(_))
            }) {
                return Err(Fault::unsupported(
                    "extending a dictionary of list views is not supported",
                ));
            }
            self.pending.entry(id).or_default().push(Arc::clone(values));
        } else {
            self.pending.remove(&id);
            self.ready.insert(id, Arc::clone(values));
        }
        Ok(())
    }

    fn settle(&mut self, allowance: &mut Allowance) -> Check<()> {
        for (id, deltas) in self.pending.drain() {
            let Some(first) = self.ready.get(&id) else {
                return Err(Fault::damaged(format!("dictionary {id} extends nothing")));
            };
            let arrays: Vec<&dyn Array> =
                std::iter::once(first).chain(&deltas).map(AsRef::as_ref).collect();
            for array in &arrays {
                allowance.expand(array_bytes(&array.to_data()))?;
            }
            let joined = fenced(|| arrow_select::concat::concat(&arrays))?;
            self.ready.insert(id, joined);
        }
        Ok(())
    }
}

/// Bytes that a copy of an array takes at most, counting one for each row that has none.
fn array_bytes(data: &ArrayData) -> u64 {
    let mut bytes = bytes_of(data.len());
    for buffer in data.buffers() {
        bytes = bytes.saturating_add(bytes_of(buffer.len()));
    }
    for child in data.child_data() {
        bytes = bytes.saturating_add(array_bytes(child));
    }
    bytes
}

fn bytes_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// One call of the library: a batch or dictionary with all it is decoded from.
struct Job<'j> {
    inner: &'j Inner,
    part: &'j Part,
    message: &'j Message<'j>,
    metadata: &'j BatchMetadata,
    schema: &'j SchemaRef,
    columns: Option<&'j [usize]>,
    selected: &'j [bool],
    dictionaries: &'j HashMap<i64, ArrayRef>,
}

impl Job<'_> {
    fn run(&self, allowance: &mut Allowance) -> Check<RecordBatch> {
        let body = self.inner.bytes.slice(self.part.place.body.clone());
        self.check_content(&body, allowance)?;
        let types = || {
            (self.schema.fields().iter().zip(self.selected))
                .filter(|(_, selected)| **selected)
                .map(|(field, _)| field.data_type())
        };
        let has = |test: &dyn Fn(&DataType) -> bool| types().any(|t| any_type(t, test));
        let mut buffer = Buffer::from(body);
        // The library copies misaligned buffers one by one, except those of unions.
        if has(&|data_type| matches!(data_type, DataType::Union(..)))
            && buffer.as_ptr().align_offset(8) != 0
        {
            buffer = Buffer::from(buffer.as_slice());
        }
        if has(&|data_type| matches!(data_type, DataType::Utf8View)) {
            let plain = self.call(&buffer, &without_text(self.schema))?;
            for array in plain.columns() {
                charge_views(&array.to_data(), allowance)?;
            }
        }
        self.call(&buffer, self.schema)
    }

    fn call(&self, body: &Buffer, schema: &SchemaRef) -> Check<RecordBatch> {
        let header = batch_header(self.message)?;
        let version = self.message.version();
        fenced(|| {
            RecordBatchDecoder::try_new(
                body,
                header,
                Arc::clone(schema),
                self.dictionaries,
                &version,
            )?
            .with_projection(self.columns)
            .with_require_alignment(false)
            .read_record_batch()
        })
    }

    /// Checks what stands in the body of the selected columns and takes what they will cost.
    fn check_content(&self, body: &Bytes, allowance: &mut Allowance) -> Check<()> {
        let mut content = Content { body, codec: self.metadata.codec, allowance };
        let mut cursor = Cursor::new(self.metadata);
        for (field, selected) in self.schema.fields().iter().zip(self.selected) {
            if *selected {
                cursor.column(field, &mut content)?;
            } else {
                cursor.column(field, &mut Skip)?;
            }
        }
        cursor.finish()
    }
}

/// Checks buffers that are about to be decoded.
struct Content<'c> {
    body: &'c Bytes,
    codec: Option<Codec>,
    allowance: &'c mut Allowance,
}

impl Visit for Content<'_> {
    fn buffer(&mut self, span: Span, need: Need) -> Check<()> {
        let length = match self.codec {
            Some(codec) => self.decompressed(span, codec)?,
            None => span.length,
        };
        need.check(length)?;
        if need.what == UNION_OFFSETS && span.offset.checked_rem(4) != Some(0) {
            return Err(Fault::damaged(format!(
                "{UNION_OFFSETS} at offset {} of the body, which is not a multiple of 4",
                span.offset
            )));
        }
        Ok(())
    }

    fn bodiless(&mut self, rows: u64) -> Check<()> {
        // The library may build a bitmap of them.
        self.allowance.expand(rows.div_ceil(8))
    }
}

impl Content<'_> {
    /// Length of a buffer after decompression, from the number in front of it.
    fn decompressed(&mut self, span: Span, codec: Codec) -> Check<u64> {
        if span.length == 0 {
            return Ok(0);
        }
        let prefix = usize::try_from(span.offset)
            .ok()
            .and_then(|start| self.body.get(start..))
            .and_then(|bytes| bytes.first_chunk::<8>());
        let (Some(prefix), Some(stored)) = (prefix, span.length.checked_sub(8)) else {
            return Err(Fault::damaged(format!(
                "a compressed buffer has only {} bytes",
                span.length
            )));
        };
        match i64::from_le_bytes(*prefix) {
            -1 => Ok(stored),
            length => {
                let length = u64::try_from(length).map_err(|_| {
                    Fault::damaged(format!("a compressed buffer claims to hold {length} bytes"))
                })?;
                codec.check_expansion(stored, length)?;
                self.allowance.expand(length)?;
                Ok(length)
            }
        }
    }
}

/// Runs the library and turns a panic into an error.
///
/// Our checks are meant to keep every panic of the library out of reach, and the tests hold them
/// to that. But its code changes, and a table that stops the process of whoever opens it would be
/// worse than an error without detail.
fn fenced<T>(call: impl FnOnce() -> std::result::Result<T, ArrowError>) -> Check<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Fault::damaged(error.to_string())),
        Err(_) => Err(Fault::damaged(PANICKED)),
    }
}

/// Reason of an error that was a panic of the library.
const PANICKED: &str = "the Arrow library failed on it";

/// The same layout with `utf8_view` read as `binary_view`, which the library takes without looking
/// at the text.
fn without_text(schema: &SchemaRef) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(|f| plain_field(f)).collect();
    Arc::new(Schema::new(fields))
}

/// The same layout with texts read as bytes; those inside of other columns stay what they are.
fn texts_as_bytes(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Binary)),
        DataType::LargeUtf8 => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::LargeBinary))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

fn plain_field(field: &Field) -> Field {
    let data_type = plain_type(field.data_type());
    field.clone().with_data_type(data_type)
}

fn plain_type(data_type: &DataType) -> DataType {
    let plain = |field: &Arc<Field>| Arc::new(plain_field(field));
    match data_type {
        DataType::Utf8View => DataType::BinaryView,
        DataType::List(field) => DataType::List(plain(field)),
        DataType::LargeList(field) => DataType::LargeList(plain(field)),
        DataType::ListView(field) => DataType::ListView(plain(field)),
        DataType::LargeListView(field) => DataType::LargeListView(plain(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(plain(field), *size),
        DataType::Map(field, sorted) => DataType::Map(plain(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        DataType::RunEndEncoded(ends, values) => {
            DataType::RunEndEncoded(Arc::clone(ends), plain(values))
        }
        DataType::Union(fields, mode) => {
            let fields: UnionFields = fields.iter().map(|(id, f)| (id, plain(f))).collect();
            DataType::Union(fields, *mode)
        }
        // A dictionary's values were checked when the dictionary was read.
        other => other.clone(),
    }
}

fn charge_views(data: &ArrayData, allowance: &mut Allowance) -> Check<()> {
    match data.data_type() {
        DataType::BinaryView => {
            let views = data.buffers().first().map(Buffer::as_slice);
            let (views, _) = views.unwrap_or_default().as_chunks::<16>();
            let mut bytes = 0_u64;
            for view in views {
                // A view starts with the length of what it shows.
                let length = view.first_chunk::<4>().copied().unwrap_or_default();
                bytes = bytes.saturating_add(u64::from(u32::from_le_bytes(length)));
            }
            allowance.view(bytes)
        }
        DataType::Dictionary(..) => Ok(()),
        _ => data.child_data().iter().try_for_each(|child| charge_views(child, allowance)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_becomes_an_error() {
        let result: Check<()> = fenced(|| panic!("on purpose"));
        assert_eq!(result, Err(Fault::damaged(PANICKED)));
    }

    #[test]
    fn an_error_of_the_library_keeps_its_text() {
        let result: Check<()> = fenced(|| Err(ArrowError::IpcError("no".into())));
        assert_eq!(result, Err(Fault::damaged("Ipc error: no")));
    }
}
