//! Decoded arrays point into the stream; what is misaligned is copied.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch, StringArray, UInt8Array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use iac_format::table::encode_table;

use super::arrays::{KINDS, batch_of, schema_of};
use super::{modern, parse, stream_with};

/// The stream at an address that is `shift` bytes behind a multiple of 64.
fn placed(stream: &[u8], shift: usize) -> Bytes {
    let mut room = vec![0_u8; stream.len() + 128];
    let start = room.as_ptr().align_offset(64) + shift;
    room[start..start + stream.len()].copy_from_slice(stream);
    Bytes::from(room).slice(start..start + stream.len())
}

/// Calls `test` with each buffer that has bytes.
fn each_buffer(data: &ArrayData, test: &mut dyn FnMut(&DataType, &[u8])) {
    for buffer in data.buffers().iter().filter(|buffer| !buffer.is_empty()) {
        test(data.data_type(), buffer.as_slice());
    }
    for child in data.child_data() {
        each_buffer(child, test);
    }
}

fn within(bytes: &Bytes, buffer: &[u8]) -> bool {
    let (outer, inner) = (bytes.as_ptr_range(), buffer.as_ptr_range());
    outer.start <= inner.start && inner.end <= outer.end
}

#[test]
fn aligned_buffers_are_not_copied() {
    let schema = schema_of(KINDS);
    let batches = [batch_of(&schema, 20, 1), batch_of(&schema, 9, 2)];
    // Alignment 64 suits every type; at 8 the 16-byte ones may need a copy.
    let options =
        arrow_ipc::writer::IpcWriteOptions::try_new(64, false, arrow_ipc::MetadataVersion::V5);
    let bytes = placed(&stream_with(options.unwrap(), &schema, &batches), 0);
    for batch in parse(bytes.clone()).unwrap().decode().unwrap() {
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            each_buffer(&column.to_data(), &mut |data_type, buffer| {
                assert!(within(&bytes, buffer), "{} {data_type}", field.name());
            });
        }
    }
}

#[test]
fn misaligned_buffers_are_copied_and_equal() {
    let schema = schema_of(KINDS);
    let batches = [batch_of(&schema, 20, 1), batch_of(&schema, 9, 2)];
    let stream = encode_table(&schema, &batches).unwrap();
    for shift in 1..16 {
        let bytes = placed(&stream, shift);
        let table = parse(bytes.clone()).unwrap();
        assert_eq!(table.decode().unwrap(), batches);
        let index = table.column_index("u64").unwrap().unwrap();
        let column = table.decode_columns(&[index]).unwrap().remove(0);
        each_buffer(&column.column(0).to_data(), &mut |_, buffer| {
            assert_eq!(within(&bytes, buffer), shift % 8 == 0, "{shift}");
        });
    }
}

#[test]
fn raw_columns_point_into_the_stream_at_any_alignment() {
    let schema = schema_of(&["utf8", "plain_u64", "list"]);
    let batches = [batch_of(&schema, 20, 1), batch_of(&schema, 0, 2), batch_of(&schema, 3, 3)];
    let stream = encode_table(&schema, &batches).unwrap();
    for shift in 0..8 {
        let bytes = placed(&stream, shift);
        let table = parse(bytes.clone()).unwrap();
        let column = table.fixed_column("plain_u64", &[DataType::UInt64]);
        let column = column.unwrap().unwrap();
        assert_eq!(column.width, 8);
        for (chunk, batch) in column.chunks.iter().zip(&batches) {
            assert_eq!(chunk.len(), batch.num_rows() * 8);
            assert!(chunk.is_empty() || within(&bytes, chunk));
            let data = batch.column(1).to_data();
            assert_eq!(chunk, &data.buffers()[0].as_slice()[..chunk.len()]);
        }
    }
}

#[test]
fn columns_outlive_the_table() {
    let schema = schema_of(&["plain_u64"]);
    let batch = batch_of(&schema, 20, 1);
    let stream = stream_with(modern(), &schema, std::slice::from_ref(&batch));
    let table = parse(stream).unwrap();
    let column = table.fixed_column("plain_u64", &[DataType::UInt64]);
    let batches = table.decode().unwrap();
    drop(table);
    let column = column.unwrap().unwrap();
    assert_eq!(column.chunks[0].len(), 160);
    assert_eq!(batches, [batch]);
}

#[test]
fn texts_can_be_had_as_bytes_whatever_these_are() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("large", DataType::LargeUtf8, true),
        Field::new("x", DataType::UInt8, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![Some("needle"), None, Some("b")])),
        Arc::new(LargeStringArray::from(vec![Some(""), Some("haystack"), None])),
        Arc::new(UInt8Array::from(vec![1, 2, 3])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let mut bytes = encode_table(&schema, &[batch]).unwrap();
    let read = |bytes: &[u8]| parse(bytes.to_vec()).unwrap();
    let found = read(&bytes).decode_columns_as_bytes(&[2, 0, 1]).unwrap();
    let found = &found[0];
    assert_eq!(found.schema().field(1).data_type(), &DataType::Binary);
    assert_eq!(found.column(0).as_primitive::<UInt8Type>().values(), &[1, 2, 3]);
    let ids: Vec<Option<&[u8]>> = found.column(1).as_binary::<i32>().iter().collect();
    assert_eq!(ids, [Some(&b"needle"[..]), None, Some(b"b")]);
    let large: Vec<Option<&[u8]>> = found.column(2).as_binary::<i64>().iter().collect();
    assert_eq!(large, [Some(&b""[..]), Some(b"haystack"), None]);
    let at = bytes.windows(6).position(|found| found == b"needle").unwrap();
    bytes[at] = 0xff;
    assert!(read(&bytes).decode_columns(&[0]).is_err());
    let found = read(&bytes).decode_columns_as_bytes(&[0]).unwrap();
    assert_eq!(found[0].column(0).as_binary::<i32>().value(0), b"\xffeedle");
    assert!(read(&bytes).decode_columns_as_bytes(&[3]).is_err());
}
