//! What we write is what we read.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::{Int8Type, Int16Type};
use arrow_array::*;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::DictionaryHandling;
use arrow_schema::{DataType, Field, Schema};
use iac_format::FormatError;
use iac_format::table::{encode_table, write_table};
use proptest::prelude::*;

use super::arrays::{KINDS, batch_of, make, schema_of};
use super::{exercise, legacy, modern, parse, parse_all, stream_with};

#[test]
fn every_type_comes_back_from_several_batches() {
    let schema = schema_of(KINDS);
    let batches = [7, 0, 1, 30].map(|rows| batch_of(&schema, rows, rows as u64));
    let bytes = encode_table(&schema, &batches).unwrap();
    let table = parse(bytes.clone()).unwrap();
    assert_eq!(table.schema().as_ref(), &schema);
    assert_eq!(table.batch_rows(), [7, 0, 1, 30]);
    assert_eq!(exercise(&bytes).unwrap(), batches);
}

#[test]
fn batches_are_handed_over_one_by_one_until_one_is_refused() {
    let schema = schema_of(KINDS);
    let batches = [7, 0, 1, 30].map(|rows| batch_of(&schema, rows, rows as u64));
    let table = parse(encode_table(&schema, &batches).unwrap()).unwrap();
    let mut seen = Vec::new();
    let mut see = |batch| {
        seen.push(batch);
        Ok::<_, FormatError>(())
    };
    table.decode_each(&mut see).unwrap();
    assert_eq!(seen, batches);
    let mut left = 2;
    let refused = table.decode_each(|_| {
        left -= 1;
        if left == 0 { Err(FormatError::Argument { reason: "enough".into() }) } else { Ok(()) }
    });
    assert!(matches!(refused, Err(FormatError::Argument { .. })) && left == 0);
}

#[test]
fn compressed_bodies_of_every_type_come_back() {
    let schema = schema_of(KINDS);
    let batches = [40, 0, 300].map(|rows| batch_of(&schema, rows, rows as u64));
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = modern().try_with_compression(Some(codec)).unwrap();
        let bytes = stream_with(options, &schema, &batches);
        let table = parse(bytes.clone()).unwrap();
        assert_eq!(exercise(&bytes).unwrap(), batches);
        let fixed = table.fixed_column("plain_u64", &[DataType::UInt64]);
        let fixed = fixed.unwrap().unwrap();
        for (chunk, batch) in fixed.chunks.iter().zip(&batches) {
            let column = batch.column_by_name("plain_u64").unwrap().to_data();
            assert_eq!(chunk, &column.buffers()[0].as_slice()[..chunk.len()]);
        }
    }
}

#[test]
fn old_framing_and_metadata_come_back() {
    let kinds: Vec<&str> = KINDS
        .iter()
        .copied()
        // Not in the format when V4 was current, and not written consistently for it.
        .filter(|kind| !kind.contains("view") && *kind != "ree")
        .collect();
    let schema = schema_of(&kinds);
    let batches = [9, 0, 12].map(|rows| batch_of(&schema, rows, rows as u64));
    let bytes = stream_with(legacy(), &schema, &batches);
    assert_ne!(bytes[..4], [0xff; 4]);
    assert_eq!(exercise(&bytes).unwrap(), batches);
    // The old end marker has four bytes; without it the stream ends at the exact end.
    let table = parse(bytes.clone()).unwrap();
    assert_eq!(table.stream_bytes(), bytes.len() as u64);
    assert_eq!(parse_all(bytes[..bytes.len() - 4].to_vec()), batches);
}

#[test]
fn end_marker_may_be_missing_and_is_not_crossed() {
    let schema = schema_of(&["u64", "utf8"]);
    let batches = [batch_of(&schema, 5, 1)];
    let bytes = encode_table(&schema, &batches).unwrap();
    let table = parse(bytes[..bytes.len() - 8].to_vec()).unwrap();
    assert_eq!(table.stream_bytes(), bytes.len() as u64 - 8);
    assert_eq!(table.decode().unwrap(), batches);
    for tail in [&[0_u8; 40][..], b"anything, even \xff\xff\xff\xff"] {
        let mut padded = bytes.clone();
        padded.extend_from_slice(tail);
        let table = parse(padded).unwrap();
        assert_eq!(table.stream_bytes(), bytes.len() as u64);
        assert_eq!(table.decode().unwrap(), batches);
    }
}

#[test]
fn a_sliced_batch_is_written_as_what_it_shows() {
    let schema = schema_of(KINDS);
    let batch = batch_of(&schema, 40, 3);
    let slice = batch.slice(11, 13);
    let batches = parse_all(encode_table(&schema, std::slice::from_ref(&slice)).unwrap());
    assert_eq!(batches, [slice]);
}

#[test]
fn batches_without_columns_keep_their_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(12));
    let schema = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
    let table = parse(encode_table(&schema, &[batch]).unwrap()).unwrap();
    assert_eq!(table.num_rows(), 12);
    assert_eq!(table.decode().unwrap()[0].num_rows(), 12);
    let selected = table.decode_columns(&[]).unwrap();
    assert_eq!(selected[0].num_rows(), 12);
}

#[test]
fn metadata_of_schema_and_fields_is_kept() {
    let field = Field::new("x", DataType::Int8, false)
        .with_metadata(HashMap::from([("unit".to_owned(), "µm".to_owned())]));
    let schema = Schema::new_with_metadata(
        vec![field],
        HashMap::from([("owner".to_owned(), "Ünit".to_owned())]),
    );
    let column = Arc::new(Int8Array::from(vec![1, 2]));
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![column]).unwrap();
    let table = parse(encode_table(&schema, &[batch]).unwrap()).unwrap();
    assert_eq!(table.schema().as_ref(), &schema);
    let batches = table.decode_columns(&[0, 0]).unwrap();
    assert_eq!(batches[0].num_columns(), 2);
    assert_eq!(batches[0].schema().metadata(), schema.metadata());
}

fn dictionary_batches() -> (Schema, Vec<RecordBatch>) {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    builder.append_value("tumor");
    builder.append_null();
    builder.append_value("stroma");
    let first = builder.finish_preserve_values();
    builder.append_value("fat");
    builder.append_value("tumor");
    let extended = builder.finish_preserve_values();
    let replaced: DictionaryArray<Int8Type> = vec!["necrosis", "fat"].into_iter().collect();
    let arrays = [first.clone(), extended, replaced, first];
    let field = Field::new("tissue", arrays[0].data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batches = arrays
        .into_iter()
        .map(|array| RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(array)]).unwrap())
        .collect();
    (schema.as_ref().clone(), batches)
}

#[test]
fn dictionaries_may_be_extended_and_replaced() {
    let (schema, batches) = dictionary_batches();
    let delta = encode_table(&schema, &batches).unwrap();
    let resend = modern().with_dictionary_handling(DictionaryHandling::Resend);
    let resend = stream_with(resend, &schema, &batches);
    assert!(delta.len() < resend.len());
    assert_eq!(exercise(&delta).unwrap(), batches);
    assert_eq!(exercise(&resend).unwrap(), batches);
}

#[test]
fn a_dictionary_is_written_once_while_it_stays_the_same() {
    let (schema, batches) = dictionary_batches();
    let length = |count: usize| {
        let same = vec![batches[0].clone(); count];
        encode_table(&schema, &same).unwrap().len()
    };
    assert_eq!(length(3) - length(2), length(2) - length(1));
    assert!(length(1) - length(0) > length(2) - length(1));
}

#[test]
fn dictionaries_inside_dictionaries_change_with_their_batches() {
    let batches: Vec<RecordBatch> = [1_u64, 2, 3]
        .map(|seed| {
            let schema = Arc::new(schema_of(&["nested_dict"]));
            let column = make("nested_dict", 9, seed);
            RecordBatch::try_new(schema, vec![column]).unwrap()
        })
        .to_vec();
    let schema = schema_of(&["nested_dict"]);
    let bytes = encode_table(&schema, &batches).unwrap();
    assert_eq!(exercise(&bytes).unwrap(), batches);
}

#[test]
fn an_undeclared_null_makes_the_column_nullable() {
    // Written with the declaration of one schema and the values of another.
    let declared = Schema::new(vec![Field::new("x", DataType::Int16, false)]);
    let real = Arc::new(Schema::new(vec![Field::new("x", DataType::Int16, true)]));
    let column = Arc::new(Int16Array::from(vec![Some(1), None]));
    let batch = RecordBatch::try_new(real, vec![column]).unwrap();
    let bytes = stream_with(modern(), &declared, std::slice::from_ref(&batch));
    let table = parse(bytes).unwrap();
    assert!(table.schema().field(0).is_nullable());
    assert_eq!(table.decode().unwrap(), std::slice::from_ref(&batch));
    assert!(matches!(encode_table(&declared, &[batch]), Err(FormatError::Argument { .. })));
}

#[test]
fn a_batch_that_does_not_fit_is_not_written() {
    let schema = schema_of(&["u64"]);
    for other in [schema_of(&["u32"]), schema_of(&["u64", "u64"])] {
        let batch = batch_of(&other, 3, 1);
        match encode_table(&schema, std::slice::from_ref(&batch)) {
            Err(FormatError::Argument { reason }) => {
                assert!(reason.starts_with("batch 0 does not fit the schema: "));
            }
            other => panic!("{other:?}"),
        }
        let mut sink = Vec::new();
        let error = write_table(&mut sink, &schema, &[batch]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.get_ref().unwrap().is::<FormatError>());
        assert!(sink.is_empty());
    }
}

#[test]
fn an_error_of_the_sink_arrives_as_it_is() {
    let schema = schema_of(&["u64"]);
    let batch = batch_of(&schema, 30, 1);
    let mut small = [0_u8; 100];
    let error = write_table(&mut small[..], &schema, &[batch]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WriteZero);
}

#[test]
fn written_bytes_are_those_encoded() {
    let schema = schema_of(KINDS);
    let batches = [batch_of(&schema, 5, 1), batch_of(&schema, 6, 2)];
    let mut written = Vec::new();
    let length = write_table(&mut written, &schema, &batches).unwrap();
    assert_eq!(length, written.len() as u64);
    assert_eq!(written, encode_table(&schema, &batches).unwrap());
}

#[test]
fn a_dictionary_of_text_views_comes_back() {
    let keys: PrimitiveArray<Int16Type> = vec![Some(1), None, Some(0)].into();
    let column = DictionaryArray::new(keys, make("utf8_view", 4, 5));
    let field = Field::new("x", column.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).unwrap();
    let bytes = encode_table(&schema, std::slice::from_ref(&batch)).unwrap();
    assert_eq!(exercise(&bytes).unwrap(), [batch]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn generated_tables_come_back(
        kinds in proptest::sample::subsequence(KINDS.to_vec(), 0..8),
        rows in proptest::collection::vec(0_usize..20, 0..5),
        seed in any::<u64>(),
        shift in 0_usize..8,
        compress in 0_usize..3,
    ) {
        let schema = schema_of(&kinds);
        let batches: Vec<RecordBatch> = rows
            .iter()
            .enumerate()
            .map(|(number, rows)| batch_of(&schema, *rows, seed.wrapping_add(number as u64)))
            .collect();
        let bytes = match compress {
            0 => encode_table(&schema, &batches).unwrap(),
            codec => {
                let codec = [CompressionType::LZ4_FRAME, CompressionType::ZSTD][codec - 1];
                let options = modern().try_with_compression(Some(codec)).unwrap();
                stream_with(options, &schema, &batches)
            }
        };
        let mut moved = vec![0; shift];
        moved.extend_from_slice(&bytes);
        let table = parse(bytes::Bytes::from(moved).slice(shift..)).unwrap();
        prop_assert_eq!(table.num_rows(), rows.iter().sum::<usize>() as u64);
        prop_assert_eq!(table.decode().unwrap(), batches.clone());
        for index in 0..kinds.len() {
            let alone = table.decode_columns(&[index]).unwrap();
            for (alone, batch) in alone.iter().zip(&batches) {
                prop_assert_eq!(alone.column(0), batch.column(index));
            }
        }
    }
}
