//! Tables against files of the reference, public streams, damaged bytes and our own writer.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::string_slice
)]

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Schema};
use bytes::Bytes;
use iac_format::table::TableStream;
use iac_format::{FormatError, TableKind};

mod arrays;
mod corpus;
mod golden;
mod hostile;
mod roundtrip;
mod sharing;

/// What an error says when the library panicked behind our checks.
const PANICKED: &str = "the Arrow library failed";

fn parse(bytes: impl Into<Bytes>) -> Result<TableStream, FormatError> {
    TableStream::parse(bytes.into(), TableKind::Index)
}

fn parse_all(bytes: impl Into<Bytes>) -> Vec<RecordBatch> {
    parse(bytes).unwrap().decode().unwrap()
}

/// Goes every way through a stream; whatever happens, it must be a result.
fn exercise(bytes: &[u8]) -> Result<Vec<RecordBatch>, FormatError> {
    let table = parse(bytes.to_vec())?;
    let schema = Arc::clone(table.schema());
    for (index, field) in schema.fields().iter().enumerate() {
        let fixed = table.fixed_column(field.name(), &[field.data_type().clone()]);
        if let Ok(Some(column)) = fixed {
            for (chunk, rows) in column.chunks.iter().zip(table.batch_rows()) {
                assert_eq!(chunk.len() as u64, rows * column.width as u64);
            }
        }
        let checked = table.decode_columns(&[index]);
        let as_bytes = table.decode_columns_as_bytes(&[index]);
        // What is text can be had as bytes; what is none may still be bytes.
        assert!(checked.is_err() || as_bytes.is_ok());
        for error in [checked.err(), as_bytes.err()].into_iter().flatten() {
            assert!(!error.to_string().contains(PANICKED), "{error}");
        }
    }
    let result = table.decode();
    if let Err(error) = &result {
        assert!(!error.to_string().contains(PANICKED), "{error}");
    }
    if let Ok(batches) = &result {
        let rows: Vec<u64> = batches.iter().map(|b| b.num_rows() as u64).collect();
        assert_eq!(rows, table.batch_rows());
    }
    result
}

/// A stream as other writers may write it.
fn stream_with(options: IpcWriteOptions, schema: &Schema, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), schema, options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn modern() -> IpcWriteOptions {
    IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
        .unwrap()
        .with_dictionary_handling(DictionaryHandling::Delta)
}

/// Framing without the continuation word, metadata V4.
fn legacy() -> IpcWriteOptions {
    IpcWriteOptions::try_new(8, true, MetadataVersion::V4).unwrap()
}

fn damaged(error: &FormatError) -> &str {
    match error {
        FormatError::Table { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

fn unsupported(error: &FormatError) -> &str {
    match error {
        FormatError::UnsupportedTable { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

fn limit(error: &FormatError) -> &str {
    match error {
        FormatError::TableLimit { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// How pyarrow calls a type.
fn pyarrow_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "null".into(),
        DataType::Boolean => "bool".into(),
        DataType::Int8 => "int8".into(),
        DataType::Int16 => "int16".into(),
        DataType::Int32 => "int32".into(),
        DataType::Int64 => "int64".into(),
        DataType::UInt8 => "uint8".into(),
        DataType::UInt16 => "uint16".into(),
        DataType::UInt32 => "uint32".into(),
        DataType::UInt64 => "uint64".into(),
        DataType::Float16 => "halffloat".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Utf8 => "string".into(),
        DataType::LargeUtf8 => "large_string".into(),
        DataType::Binary => "binary".into(),
        DataType::LargeBinary => "large_binary".into(),
        DataType::FixedSizeBinary(width) => format!("fixed_size_binary[{width}]"),
        DataType::Date32 => "date32[day]".into(),
        DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, Some(zone)) => {
            format!("timestamp[us, tz={zone}]")
        }
        DataType::List(item) => {
            format!("list<{}: {}>", item.name(), pyarrow_name(item.data_type()))
        }
        DataType::FixedSizeList(item, size) => {
            format!("fixed_size_list<{}: {}>[{size}]", item.name(), pyarrow_name(item.data_type()))
        }
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|field| format!("{}: {}", field.name(), pyarrow_name(field.data_type())))
                .collect();
            format!("struct<{}>", fields.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => format!(
                "map<{}, {}>",
                pyarrow_name(fields[0].data_type()),
                pyarrow_name(fields[1].data_type())
            ),
            other => panic!("{other}"),
        },
        DataType::Dictionary(keys, values) => format!(
            "dictionary<values={}, indices={}, ordered=0>",
            pyarrow_name(values),
            pyarrow_name(keys)
        ),
        other => panic!("no name for {other}"),
    }
}
