//! Table stream: whatever the bytes, parsing and decoding fail or give columns that agree with each
//! other, however they are asked for and wherever the bytes lie in memory. The Arrow library never
//! gets to panic behind our checks.
//!
//! An input is the bytes of a stream.
#![no_main]

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_data::ArrayData;
use arrow_ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::DataType;
use bytes::Bytes;
use iac_format::table::{TableStream, encode_table};
use iac_format::{Crc32State, FormatError, RecordIndex, RowSums, TableKind};
use iac_fuzz::{Limited, seeds};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

#[allow(dead_code)]
#[path = "../../crates/iac-format/tests/table/arrays.rs"]
mod arrays;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let table = match TableStream::parse(aligned(input, 0), TableKind::Index) {
            Ok(table) => table,
            Err(error) => return judge(&error),
        };
        assert!(table.stream_bytes() <= input.len() as u64);
        assert_eq!(table.batch_rows().iter().sum::<u64>(), table.num_rows());
        let whole = table.decode();
        let whole = whole.inspect_err(judge).ok();
        if let Some(batches) = &whole {
            let rows: Vec<u64> = batches.iter().map(|batch| batch.num_rows() as u64).collect();
            assert_eq!(rows, table.batch_rows());
        }
        single_columns(&table, whole.as_deref());
        storage_columns(&table);
        elsewhere(input, whole.as_deref());
    }
);

/// The bytes at an address that lies `past` bytes behind a multiple of 64.
fn aligned(input: &[u8], past: usize) -> Bytes {
    let mut bytes = vec![0; input.len() + 128];
    let start = bytes.as_ptr().align_offset(64) + past;
    bytes[start..start + input.len()].copy_from_slice(input);
    Bytes::from(bytes).slice(start..start + input.len())
}

/// Damage and limits are what may come up here.
fn judge(error: &FormatError) {
    assert!(
        matches!(error, FormatError::Table { .. } | FormatError::UnsupportedTable { .. }),
        "{error:?}"
    );
}

fn single_columns(table: &TableStream, whole: Option<&[RecordBatch]>) {
    let schema = Arc::clone(table.schema());
    let count = schema.fields().len();
    for (position, field) in schema.fields().iter().enumerate().take(64) {
        let alone = table.decode_columns(&[position]).inspect_err(judge).ok();
        if let (Some(whole), Some(alone)) = (whole, &alone) {
            for (whole, alone) in whole.iter().zip(alone) {
                let (whole, alone) = (whole.column(position).to_data(), alone.column(0).to_data());
                assert!(same(&whole, &alone), "{whole:?}, alone {alone:?}");
            }
        }
        // What is sound as a whole is sound in parts; limits apply to each call, so they cannot
        // come up for less.
        assert!(whole.is_none() || alone.is_some(), "column {position} of {count}");
        let fixed = table.fixed_column(field.name(), std::slice::from_ref(field.data_type()));
        let Ok(Some(fixed)) = fixed else { continue };
        assert_eq!(fixed.chunks.len(), table.batch_rows().len());
        for (number, (chunk, rows)) in fixed.chunks.iter().zip(table.batch_rows()).enumerate() {
            assert_eq!(chunk.len() as u64, rows * fixed.width as u64);
            let Some(alone) = &alone else { continue };
            let data = alone[number].column(0).to_data();
            assert_eq!(data.null_count(), 0);
            if matches!(field.data_type(), DataType::Dictionary(..)) {
                continue;
            }
            let start = data.offset() * fixed.width;
            assert_eq!(data.buffers()[0][start..start + chunk.len()], chunk[..]);
        }
    }
}

/// Whether two arrays are the same byte for byte: equality of values does not hold for NaN.
fn same(a: &ArrayData, b: &ArrayData) -> bool {
    a.data_type() == b.data_type()
        && (a.len(), a.offset()) == (b.len(), b.offset())
        && a.nulls() == b.nulls()
        && a.buffers().iter().map(|x| x.as_slice()).eq(b.buffers().iter().map(|x| x.as_slice()))
        && a.child_data().len() == b.child_data().len()
        && a.child_data().iter().zip(b.child_data()).all(|(a, b)| same(a, b))
}

/// The way in which a reader looks at an index.
fn storage_columns(table: &TableStream) {
    let _ = RowSums::new(table).map(|sums| sums.map(|sums| (sums.get(0), sums.get(u64::MAX))));
    let Ok(Some(index)) = RecordIndex::new(table, 1000) else { return };
    assert_eq!(index.len(), table.num_rows());
    for row in (0..index.len()).take(300) {
        let stated = index.stated_span(row).unwrap();
        assert_eq!(stated.crc32.is_some(), *index.crc32_state() == Crc32State::Present);
        if let Ok(span) = index.span(row) {
            assert_eq!(span, stated);
            assert!(span.offset + u64::from(span.length) <= 1000);
        }
    }
    assert!(index.span(index.len()).is_err());
    assert!(index.stated_span(u64::MAX).is_err());
}

/// The same bytes at an odd address, in memory of exactly their size.
fn elsewhere(input: &[u8], whole: Option<&[RecordBatch]>) {
    let table = TableStream::parse(aligned(input, 1), TableKind::Index).unwrap();
    let other = table.decode();
    match (whole, other) {
        (Some(whole), Ok(other)) => {
            for (a, b) in whole.iter().zip(&other) {
                for (a, b) in a.columns().iter().zip(b.columns()) {
                    assert!(
                        same(&a.to_data(), &b.to_data()),
                        "{a:?} where aligned, {b:?} where not"
                    );
                }
            }
        }
        (None, Err(_)) => {}
        (whole, other) => panic!("{whole:?} where aligned, {other:?} where not"),
    }
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    let mut made = Vec::new();
    for pack in seeds::packs() {
        made.push((format!("{}.slides", pack.name), pack.slides));
        made.push((format!("{}.index", pack.name), pack.index));
    }
    let options = |legacy, version, codec| {
        IpcWriteOptions::try_new(8, legacy, version)
            .unwrap()
            .with_dictionary_handling(DictionaryHandling::Delta)
            .try_with_compression(codec)
            .unwrap()
    };
    let forms = [
        ("lz4", options(false, MetadataVersion::V5, Some(CompressionType::LZ4_FRAME))),
        ("zstd", options(false, MetadataVersion::V5, Some(CompressionType::ZSTD))),
        ("legacy", options(true, MetadataVersion::V4, None)),
    ];
    for kind in arrays::KINDS {
        let schema = arrays::schema_of(&[kind]);
        let batches = [arrays::batch_of(&schema, 3, 1), arrays::batch_of(&schema, 2, 2)];
        if let Ok(stream) = encode_table(&schema, &batches) {
            made.push((format!("kind.{kind}"), stream));
        }
        for (name, options) in &forms {
            let write = || {
                let mut writer =
                    StreamWriter::try_new_with_options(Vec::new(), &schema, options.clone())?;
                batches.iter().try_for_each(|batch| writer.write(batch))?;
                writer.into_inner()
            };
            if let Ok(stream) = write() {
                made.push((format!("kind.{kind}.{name}"), stream));
            }
        }
    }
    made
}
