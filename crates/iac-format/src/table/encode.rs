//! Writes tables the way the reference does: metadata V5, buffers at multiples of 8, no
//! compression.

use std::io::{self, Write};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Schema};

use super::schema::{any_type, children};
use crate::{FormatError, Result};

/// Encodes batches as one stream that ends with the end marker.
///
/// Each batch becomes one record batch, those without rows included; without batches the stream
/// holds the schema alone. Dictionary columns stay dictionaries: the first batch brings them, and
/// a later batch whose dictionary differs replaces or extends it.
///
/// # Errors
///
/// [`FormatError::Argument`] when a batch does not fit the schema or has a type that a stream
/// cannot express.
pub fn encode_table(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write(&mut bytes, schema, batches).map_err(format_error)?;
    Ok(bytes)
}

/// The number of bytes that [`encode_table`] would give, without keeping them.
///
/// # Errors
///
/// As [`encode_table`].
pub fn encoded_table_len(schema: &Schema, batches: &[RecordBatch]) -> Result<u64> {
    write(&mut io::sink(), schema, batches).map_err(format_error)
}

/// Writes batches as [`encode_table`] does, buffer by buffer; gives the number of bytes.
///
/// The sink sees many small writes, so it should be buffered.
///
/// # Errors
///
/// What the sink reports. A batch that does not fit the schema is an error of the kind
/// [`io::ErrorKind::InvalidInput`] that holds a [`FormatError::Argument`].
pub fn write_table<W: Write>(
    mut sink: W,
    schema: &Schema,
    batches: &[RecordBatch],
) -> io::Result<u64> {
    write(&mut sink, schema, batches)
}

fn write(sink: &mut dyn Write, schema: &Schema, batches: &[RecordBatch]) -> io::Result<u64> {
    for (number, batch) in batches.iter().enumerate() {
        check_fit(schema, number, batch).map_err(invalid)?;
    }
    let unified = unify_nested_dictionaries(schema, batches).map_err(io_error)?;
    let batches = unified.as_deref().unwrap_or(batches);
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
        .map_err(io_error)?
        .with_dictionary_handling(DictionaryHandling::Delta);
    let mut counted = Counted { sink, bytes: 0 };
    let mut writer =
        StreamWriter::try_new_with_options(&mut counted, schema, options).map_err(io_error)?;
    for batch in batches {
        writer.write(batch).map_err(io_error)?;
    }
    writer.finish().map_err(io_error)?;
    drop(writer);
    Ok(counted.bytes)
}

fn check_fit(schema: &Schema, number: usize, batch: &RecordBatch) -> Result<()> {
    let wrong = |reason: String| FormatError::Argument {
        reason: format!("batch {number} does not fit the schema: {reason}"),
    };
    let (found, expected) = (batch.num_columns(), schema.fields().len());
    if found != expected {
        return Err(wrong(format!("{found} columns instead of {expected}")));
    }
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        if array.data_type() != field.data_type() {
            return Err(wrong(format!(
                "column `{}` has type {} instead of {}",
                field.name(),
                array.data_type(),
                field.data_type()
            )));
        }
        if !field.is_nullable() && array.null_count() > 0 {
            return Err(wrong(format!(
                "column `{}` is declared without nulls and has {}",
                field.name(),
                array.null_count()
            )));
        }
    }
    Ok(())
}

/// Gives all batches the same dictionaries where dictionaries contain others.
///
/// A reader may look inner dictionaries up when it meets a batch or when it meets the outer
/// dictionary. If an inner one changes in between, the two ways give different values, so nothing
/// may change. Nothing is given back when there is no such column or only one batch.
fn unify_nested_dictionaries(
    schema: &Schema,
    batches: &[RecordBatch],
) -> std::result::Result<Option<Vec<RecordBatch>>, ArrowError> {
    let nested: Vec<bool> = schema
        .fields()
        .iter()
        .map(|field| any_type(field.data_type(), &contains_dictionary))
        .collect();
    if batches.len() < 2 || !nested.contains(&true) {
        return Ok(None);
    }
    let mut columns: Vec<std::vec::IntoIter<ArrayRef>> = Vec::with_capacity(nested.len());
    for (index, nested) in nested.iter().enumerate() {
        let parts: Vec<&ArrayRef> =
            batches.iter().filter_map(|batch| batch.columns().get(index)).collect();
        if !*nested {
            let parts: Vec<ArrayRef> = parts.into_iter().cloned().collect();
            columns.push(parts.into_iter());
            continue;
        }
        let arrays: Vec<&dyn Array> = parts.iter().map(|array| array.as_ref()).collect();
        let joined = arrow_select::concat::concat(&arrays)?;
        let mut start = 0_usize;
        let mut slices = Vec::with_capacity(parts.len());
        for part in parts {
            slices.push(joined.slice(start, part.len()));
            start = start.saturating_add(part.len());
        }
        columns.push(slices.into_iter());
    }
    let mut unified = Vec::with_capacity(batches.len());
    for batch in batches {
        let arrays = columns.iter_mut().filter_map(Iterator::next).collect();
        unified.push(RecordBatch::try_new(batch.schema(), arrays)?);
    }
    Ok(Some(unified))
}

/// Whether a type is a dictionary whose values contain dictionaries.
fn contains_dictionary(data_type: &DataType) -> bool {
    let is_dictionary = |t: &DataType| matches!(t, DataType::Dictionary(..));
    is_dictionary(data_type)
        && children(data_type).into_iter().any(|child| any_type(child.data_type(), &is_dictionary))
}

/// Counts what passes.
struct Counted<'w> {
    sink: &'w mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        let more = u64::try_from(written).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(more);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn invalid(error: FormatError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

fn io_error(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => invalid(FormatError::Argument {
            reason: format!("the table cannot be encoded: {other}"),
        }),
    }
}

/// The other way round, for sinks that cannot fail themselves.
fn format_error(error: io::Error) -> FormatError {
    let reason = error.to_string();
    match error.into_inner().map(|inner| inner.downcast::<FormatError>()) {
        Some(Ok(error)) => *error,
        _ => FormatError::Argument { reason },
    }
}
