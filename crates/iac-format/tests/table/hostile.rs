//! Damaged and malicious streams.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::{CompressionType, Endianness, FieldNode, MessageHeader, MetadataVersion, Type};
use arrow_schema::{DataType, Field, Schema};
use iac_format::table::encode_table;
use iac_format::{FormatError, TableKind};

use super::arrays::{KINDS, Numbers, batch_of, make, schema_of};
use super::{damaged, exercise, legacy, limit, modern, parse, stream_with, unsupported};

/// Small streams that between them use everything that the decoder knows.
fn streams() -> Vec<Vec<u8>> {
    let mut streams = Vec::new();
    for kinds in KINDS.chunks(10) {
        let schema = schema_of(kinds);
        let batches = [batch_of(&schema, 3, 1)];
        streams.push(encode_table(&schema, &batches).unwrap());
    }
    let schema = schema_of(&["dict", "nested_dict", "utf8_view"]);
    let batches = [batch_of(&schema, 3, 1), batch_of(&schema, 2, 2)];
    streams.push(encode_table(&schema, &batches).unwrap());
    let schema = schema_of(&["plain_u64", "utf8", "dense"]);
    let batches = [batch_of(&schema, 40, 1)];
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = modern().try_with_compression(Some(codec)).unwrap();
        streams.push(stream_with(options, &schema, &batches));
    }
    streams.push(stream_with(legacy(), &schema, &batches));
    streams
}

#[test]
fn every_truncation_is_an_error_or_the_end() {
    for stream in streams() {
        let whole = exercise(&stream).unwrap();
        for length in 0..stream.len() {
            let result = exercise(&stream[..length]);
            // Without the end marker, or at the start of a message, fewer batches are a stream too.
            if let Ok(batches) = result {
                assert_eq!(batches, whole[..batches.len()], "{length}");
            }
        }
    }
}

#[test]
fn no_changed_byte_stops_the_process() {
    let all = std::env::var_os("IAC_FLIPS").is_some_and(|size| size == "full");
    let changes = [0x01, 0x80, 0xff];
    for stream in streams() {
        for at in 0..stream.len() {
            // Words have four bytes, so that each change comes at each place of one.
            for change in if all { &changes[..] } else { &changes[at % 3..=at % 3] } {
                let mut changed = stream.clone();
                changed[at] ^= change;
                let _ = exercise(&changed);
            }
        }
    }
}

#[test]
fn an_empty_stream_is_damage() {
    let error = parse(Vec::new()).unwrap_err();
    assert_eq!(damaged(&error), "the stream is empty");
    let error = parse(vec![0; 8]).unwrap_err();
    assert_eq!(damaged(&error), "the stream ends before its schema");
}

fn nulls_of(rows: usize) -> (Schema, RecordBatch) {
    let schema = Schema::new(vec![Field::new("nothing", DataType::Null, true)]);
    let column = Arc::new(NullArray::new(rows));
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![column]).unwrap();
    (schema, batch)
}

#[test]
fn rows_without_bytes_cost_no_memory() {
    let rows = 1_u64 << 40;
    let (schema, batch) = nulls_of(rows as usize);
    let table = parse(encode_table(&schema, &[batch]).unwrap()).unwrap();
    assert_eq!(table.num_rows(), rows);
    let error = table.decode().unwrap_err();
    assert!(limit(&error).contains("bytes beyond the stream's own"));

    let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
    let schema = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
    let table = parse(encode_table(&schema, &[batch]).unwrap()).unwrap();
    assert_eq!(table.decode().unwrap()[0].num_rows() as u64, rows);
}

#[test]
fn an_overflowing_row_count_is_damage() {
    let rows = usize::MAX >> 1;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
    let two = [batch.clone(), batch.clone()];
    let table = parse(encode_table(&schema, &two).unwrap()).unwrap();
    assert_eq!(table.num_rows(), u64::MAX - 1);
    let error = parse(encode_table(&schema, &[batch.clone(), batch.clone(), batch]).unwrap());
    assert!(damaged(&error.unwrap_err()).ends_with("the row count overflows"));
}

/// Replaces the only place where `old` stands.
fn patch(stream: &mut [u8], old: &[u8], new: &[u8]) {
    let places: Vec<usize> =
        (0..=stream.len() - old.len()).filter(|at| stream[*at..].starts_with(old)).collect();
    assert_eq!(places.len(), 1, "{places:?}");
    stream[places[0]..places[0] + new.len()].copy_from_slice(new);
}

/// One batch of 777 rows with one `u64` column: node (777, 0), buffers (0, 0) and (0, 6216).
fn one_column() -> Vec<u8> {
    let schema = schema_of(&["plain_u64"]);
    encode_table(&schema, &[batch_of(&schema, 777, 1)]).unwrap()
}

fn words(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

#[test]
fn numbers_of_a_batch_are_compared_with_what_is_there() {
    for (old, new, reason) in [
        (
            vec![777, 0],
            vec![1 << 40, 0],
            "8796093022208 bytes of values expected, 6216 bytes there",
        ),
        (vec![777, 0], vec![776, 0], "776 rows in a batch of 777 rows"),
        (vec![777, 0], vec![777, 778], "a column claims 778 nulls in 777 rows"),
        (vec![777, 0], vec![777, 3], "98 bytes of validity expected, 0 bytes there"),
        (vec![777, 0], vec![-1, 0], "a column's row count -1 is not a size"),
        (vec![777, 0], vec![777, -1], "a column's null count -1 is not a size"),
        (vec![777, 0], vec![i64::MAX, 0], "9223372036854775807 rows of 8 bytes are too many"),
        (
            vec![0, 6216],
            vec![8, 6216],
            "a buffer of 6216 bytes at offset 8 reaches past the body of 6216 bytes",
        ),
        (vec![0, 6216], vec![-8, 6216], "a buffer's offset -8 is not a size"),
        (vec![0, 6216], vec![0, -6216], "a buffer's length -6216 is not a size"),
        (vec![0, 6216], vec![i64::MAX, i64::MAX], "reaches past the body"),
        (vec![0, 6216], vec![0, 6215], "6216 bytes of values expected, 6215 bytes there"),
        (vec![0, 0, 0, 6216], vec![0, 8, 0, 6216], "the buffers overlap"),
    ] {
        let mut stream = one_column();
        patch(&mut stream, &words(&old), &words(&new));
        let error = parse(stream).unwrap_err();
        assert!(damaged(&error).contains(reason), "{error}");
        assert!(damaged(&error).starts_with("record batch 0 at byte "), "{error}");
    }
}

#[test]
fn body_lengths_are_compared_with_the_stream() {
    for length in [-1, i64::MAX, 1 << 40, 1 << 50, 6216 + 9] {
        let mut stream = one_column();
        // The number also stands in the buffer (behind a zero offset), so look for it elsewhere.
        let place = (8..stream.len() - 8)
            .filter(|at| stream[*at..].starts_with(&words(&[6216])))
            .find(|at| !stream[at - 8..].starts_with(&words(&[0])))
            .unwrap();
        stream[place..place + 8].copy_from_slice(&words(&[length]));
        let error = parse(stream).unwrap_err();
        let reason = damaged(&error);
        assert!(
            reason.contains("is not a size") || reason.contains("bytes of a body expected"),
            "{error}"
        );
    }
}

#[test]
fn errors_name_the_table_and_the_place() {
    let stream = one_column();
    let cut = stream[..stream.len() - 100].to_vec();
    let error = iac_format::table::TableStream::parse(cut.into(), TableKind::Slide).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("slide table: message at byte "), "{text}");
    assert!(text.ends_with("6216 bytes of a body expected, 6124 bytes left"), "{text}");
}

fn one(field: Field, column: ArrayRef) -> (Schema, RecordBatch) {
    let schema = Schema::new(vec![field]);
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![column]).unwrap();
    (schema, batch)
}

#[test]
fn text_that_is_not_utf8_fails_alone() {
    let text = Arc::new(StringArray::from(vec!["nuclei", "stroma"]));
    let numbers = Arc::new(Int32Array::from(vec![1, 2]));
    let fields =
        vec![Field::new("i32", DataType::Int32, true), Field::new("name", DataType::Utf8, true)];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![numbers, text]).unwrap();
    let mut stream = encode_table(&batch.schema(), &[batch]).unwrap();
    patch(&mut stream, b"nucleistroma", b"nucl\xffistroma");
    let table = parse(stream).unwrap();
    assert!(matches!(table.decode(), Err(FormatError::Table { .. })));
    assert!(matches!(table.decode_columns(&[1]), Err(FormatError::Table { .. })));
    assert_eq!(table.decode_columns(&[0]).unwrap()[0].num_rows(), 2);
}

#[test]
fn offsets_beyond_the_values_are_damage() {
    let column = Arc::new(StringArray::from(vec!["nuclei", "stroma", "x"]));
    let (schema, batch) = one(Field::new("t", DataType::Utf8, true), column);
    let stream = encode_table(&schema, &[batch]).unwrap();
    let offsets =
        |numbers: [i32; 4]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
    for bad in [[0, 6, 12, 14], [0, 6, 5, 13], [0, -6, 12, 13], [-1, 6, 12, 13]] {
        let mut stream = stream.clone();
        patch(&mut stream, &offsets([0, 6, 12, 13]), &offsets(bad));
        let error = parse(stream).unwrap().decode().unwrap_err();
        assert!(damaged(&error).starts_with("record batch at byte "), "{error}");
    }
}

#[test]
fn dictionary_indices_are_bounded() {
    let keys = Int16Array::from(vec![0x0101, 0x0202, 0x0101]);
    let values = Arc::new(UInt16Array::from_iter_values(0..0x0203)) as ArrayRef;
    let column = Arc::new(DictionaryArray::new(keys, values));
    let (schema, batch) = one(Field::new("d", column.data_type().clone(), true), column);
    let stream = encode_table(&schema, &[batch]).unwrap();
    let good = [1, 1, 2, 2, 1, 1, 0, 0];
    for bad in [[1, 1, 3, 2, 1, 1, 0, 0], [1, 1, 2, 0x82, 1, 1, 0, 0]] {
        let mut stream = stream.clone();
        patch(&mut stream, &good, &bad);
        assert!(matches!(parse(stream).unwrap().decode(), Err(FormatError::Table { .. })));
    }
}

#[test]
fn a_huge_compressed_length_is_refused_before_it_is_allocated() {
    let schema = schema_of(&["plain_u64"]);
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let column = Arc::new(UInt64Array::from(vec![7_u64; 1000]));
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![column]).unwrap();
        let options = modern().try_with_compression(Some(codec)).unwrap();
        let stream = stream_with(options, &schema, &[batch]);
        for length in [1 << 40, i64::MAX, -2, 7999] {
            let mut stream = stream.clone();
            patch(&mut stream, &words(&[8000]), &words(&[length]));
            let table = parse(stream).unwrap();
            let error = table.decode().unwrap_err();
            damaged(&error);
            let error = table.fixed_column("plain_u64", &[DataType::UInt64]);
            damaged(&error.unwrap_err());
        }
    }
}

#[test]
fn decompression_stops_at_the_limit() {
    // Ten batches of 160 MB that take some 5 KB each: every single one could be genuine.
    let schema = schema_of(&["plain_u64"]);
    let column = Arc::new(UInt64Array::from(vec![0_u64; 20_000_000]));
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![column]).unwrap();
    let options = modern().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let one = stream_with(options.clone(), &schema, std::slice::from_ref(&batch));
    let none = stream_with(options, &schema, &[]);
    let message = &one[none.len() - 8..one.len() - 8];
    assert!(message.len() < 100_000);
    let mut stream = none[..none.len() - 8].to_vec();
    for _ in 0..7 {
        stream.extend_from_slice(message);
    }
    let table = parse(stream).unwrap();
    assert_eq!(table.num_rows(), 140_000_000);
    let error = table.fixed_column("plain_u64", &[DataType::UInt64]);
    assert!(limit(&error.unwrap_err()).contains("more than 1073741824 bytes"));
}

#[test]
fn views_of_the_same_text_cannot_stall_the_check() {
    let mut builder = builder::StringViewBuilder::new();
    let block = builder.append_block(vec![b'a'; 1 << 20].into());
    for _ in 0..20_000 {
        builder.try_append_view(block, 0, 1 << 20).unwrap();
    }
    let column = Arc::new(builder.finish());
    let (schema, batch) = one(Field::new("v", DataType::Utf8View, true), column);
    let table = parse(encode_table(&schema, &[batch]).unwrap()).unwrap();
    let error = table.decode().unwrap_err();
    assert!(limit(&error).contains("string views show more than"));
}

#[test]
fn a_second_schema_and_strange_messages_are_damage() {
    let (schema, _) = nulls_of(1);
    let stream = encode_table(&schema, &[]).unwrap();
    let mut twice = stream[..stream.len() - 8].to_vec();
    twice.extend_from_slice(&stream);
    let error = parse(twice).unwrap_err();
    assert!(damaged(&error).ends_with("a second schema"), "{error}");
    // A batch in front of the schema.
    let one = one_column();
    let (schema, start) = (schema_of(&["plain_u64"]), 0);
    let first = encode_table(&schema, &[]).unwrap().len() - 8;
    let error = parse(one[start + first..].to_vec()).unwrap_err();
    assert!(damaged(&error).contains("the first message is not a schema"));
}

#[test]
fn a_delta_for_nothing_and_an_undeclared_dictionary_are_damage() {
    let column = make("dict", 4, 1);
    let (schema, batch) = one(Field::new("d", column.data_type().clone(), true), column);
    let stream = encode_table(&schema, &[batch]).unwrap();
    let schema_bytes = encode_table(&schema, &[]).unwrap().len() - 8;
    // The stream of another schema in front of the same messages.
    let other = schema_of(&["i8"]);
    let mut moved = encode_table(&other, &[]).unwrap();
    moved.truncate(moved.len() - 8);
    moved.extend_from_slice(&stream[schema_bytes..]);
    let error = parse(moved).unwrap_err();
    assert!(damaged(&error).ends_with("the schema does not declare it"), "{error}");
}

/// A stream that consists of messages of our own making and ends.
macro_rules! stream {
    ($version:expr, |$builder:ident| $( $kind:ident => $header:expr ),+) => {{
        let mut stream: Vec<u8> = Vec::new();
        $(
            let mut encoder = IpcSchemaEncoder::new();
            let mut $builder = encoder.schema_to_fb(&Schema::empty());
            $builder.reset();
            let header = $header;
            let mut message = arrow_ipc::MessageBuilder::new(&mut $builder);
            message.add_version($version);
            message.add_header_type(MessageHeader::$kind);
            message.add_header(header.as_union_value());
            let root = message.finish();
            $builder.finish(root, None);
            let data = $builder.finished_data();
            stream.extend_from_slice(&[0xff; 4]);
            stream.extend_from_slice(&(data.len() as u32).to_le_bytes());
            stream.extend_from_slice(data);
        )+
        stream
    }};
}

#[test]
fn byte_orders_and_versions_are_checked() {
    let with = |endianness: Endianness, version: MetadataVersion| {
        parse(stream!(version, |b| Schema => {
            let mut schema = arrow_ipc::SchemaBuilder::new(&mut b);
            schema.add_endianness(endianness);
            schema.finish()
        }))
    };
    let error = with(Endianness::Big, MetadataVersion::V5).unwrap_err();
    assert_eq!(unsupported(&error), "big-endian tables are not supported");
    let error = with(Endianness(2), MetadataVersion::V5).unwrap_err();
    assert_eq!(damaged(&error), "the schema's byte order 2 is not known");
    let error = with(Endianness::Little, MetadataVersion::V3).unwrap_err();
    assert!(unsupported(&error).ends_with("metadata version V3 is not supported (V4 and V5 are)"));
    for version in [5, 131, -1] {
        let error = with(Endianness::Little, MetadataVersion(version)).unwrap_err();
        assert!(damaged(&error).contains("is not known"), "{error}");
    }
    // Without the list of fields.
    let error = with(Endianness::Little, MetadataVersion::V5).unwrap_err();
    assert!(damaged(&error).contains("IPC schema has no fields"), "{error}");
}

#[test]
fn union_type_ids_outside_a_byte_are_refused() {
    for id in [-1, 128, 256, i32::MIN] {
        let error = parse(stream!(MetadataVersion::V5, |b| Schema => {
            let null = arrow_ipc::NullBuilder::new(&mut b).finish();
            let mut child = arrow_ipc::FieldBuilder::new(&mut b);
            child.add_type_type(Type::Null);
            child.add_type_(null.as_union_value());
            let child = child.finish();
            let children = b.create_vector(&[child]);
            let ids = b.create_vector(&[id]);
            let mut union = arrow_ipc::UnionBuilder::new(&mut b);
            union.add_typeIds(ids);
            let union = union.finish();
            let mut field = arrow_ipc::FieldBuilder::new(&mut b);
            field.add_type_type(Type::Union);
            field.add_type_(union.as_union_value());
            field.add_children(children);
            let field = field.finish();
            let fields = b.create_vector(&[field]);
            let mut schema = arrow_ipc::SchemaBuilder::new(&mut b);
            schema.add_fields(fields);
            schema.finish()
        }))
        .unwrap_err();
        assert!(damaged(&error).contains(&format!("type id {id} ")), "{error}");
    }
}

/// A schema in which each of `levels` structs has the next one twice: 2^levels fields in few bytes.
#[test]
fn fields_that_share_their_children_cannot_exhaust_memory() {
    let error = parse(stream!(MetadataVersion::V5, |b| Schema => {
        let name = b.create_string(&"x".repeat(1000));
        let null = arrow_ipc::NullBuilder::new(&mut b).finish();
        let mut leaf = arrow_ipc::FieldBuilder::new(&mut b);
        leaf.add_name(name);
        leaf.add_type_type(Type::Null);
        leaf.add_type_(null.as_union_value());
        let mut field = leaf.finish();
        for _ in 0..16 {
            let children = b.create_vector(&[field, field]);
            let kind = arrow_ipc::Struct_Builder::new(&mut b).finish();
            let mut parent = arrow_ipc::FieldBuilder::new(&mut b);
            parent.add_name(name);
            parent.add_type_type(Type::Struct_);
            parent.add_type_(kind.as_union_value());
            parent.add_children(children);
            field = parent.finish();
        }
        let fields = b.create_vector(&[field]);
        let mut schema = arrow_ipc::SchemaBuilder::new(&mut b);
        schema.add_fields(fields);
        schema.finish()
    }))
    .unwrap_err();
    assert_eq!(damaged(&error), "the schema repeats one text too often");
}

#[test]
fn deep_nesting_is_read_up_to_a_limit() {
    let nested = |depth: usize| {
        let mut column = make("i8", 3, 1);
        for _ in 0..depth {
            let field = Field::new_list_field(column.data_type().clone(), true);
            let offsets = OffsetBuffer::from_lengths([1, 1, 1]);
            column = Arc::new(ListArray::new(Arc::new(field), offsets, column, None));
        }
        let (schema, batch) = one(Field::new("deep", column.data_type().clone(), true), column);
        let stream = encode_table(&schema, std::slice::from_ref(&batch)).unwrap();
        exercise(&stream).map(|batches| assert_eq!(batches, [batch]))
    };
    nested(50).unwrap();
    assert!(nested(80).is_err());
}

#[test]
fn many_small_batches_take_linear_time() {
    let schema = schema_of(&["plain_u64", "dict", "utf8"]);
    let batch = batch_of(&schema, 1, 1);
    let batches = vec![batch; 20_000];
    let stream = encode_table(&schema, &batches).unwrap();
    let start = std::time::Instant::now();
    let table = parse(stream).unwrap();
    println!("walked in {:?}", start.elapsed());
    assert_eq!(table.batch_rows().len(), 20_000);
    let column = table.fixed_column("plain_u64", &[DataType::UInt64]);
    println!("fixed column in {:?}", start.elapsed());
    assert_eq!(column.unwrap().unwrap().chunks.len(), 20_000);
    assert_eq!(table.decode().unwrap(), batches);
    println!("decoded in {:?}", start.elapsed());
}

#[test]
fn a_delta_in_front_of_its_dictionary_is_damage() {
    let column = make("dict", 4, 1);
    let (schema, batch) = one(Field::new("d", column.data_type().clone(), true), column);
    let start = encode_table(&schema, &[]).unwrap().len() - 8;
    let mut stream = encode_table(&schema, &[batch]).unwrap();
    stream.truncate(start);
    stream.extend(stream!(MetadataVersion::V5, |b| DictionaryBatch => {
        let nodes = b.create_vector(&[FieldNode::new(0, 0)]);
        let empty = arrow_ipc::Buffer::new(0, 0);
        let buffers = b.create_vector(&[empty, empty, empty]);
        let mut batch = arrow_ipc::RecordBatchBuilder::new(&mut b);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        let batch = batch.finish();
        let mut dictionary = arrow_ipc::DictionaryBatchBuilder::new(&mut b);
        dictionary.add_data(batch);
        dictionary.add_isDelta(true);
        dictionary.finish()
    }));
    let error = parse(stream).unwrap_err();
    assert!(damaged(&error).ends_with("it extends nothing"), "{error}");
}

#[test]
fn messages_of_other_kinds_are_damage() {
    let start = encode_table(&Schema::empty(), &[]).unwrap();
    let mut stream = start[..start.len() - 8].to_vec();
    stream.extend(stream!(MetadataVersion::V5, |b| SparseTensor => {
        arrow_ipc::NullBuilder::new(&mut b).finish()
    }));
    assert!(matches!(parse(stream), Err(FormatError::Table { .. })));
}

/// Damage of all sizes at once, which single bytes do not cover.
#[test]
fn no_damage_of_several_bytes_stops_the_process() {
    let rounds = std::env::var("IAC_TABLE_DAMAGE_ROUNDS");
    let rounds = rounds.map_or(300, |rounds| rounds.parse::<u64>().unwrap());
    for (number, stream) in streams().iter().enumerate() {
        for round in 0..rounds {
            let numbers = &mut Numbers::new(round * 1000 + number as u64);
            let mut changed = stream.clone();
            for _ in 0..=numbers.below(4) {
                let width = 1 << numbers.below(4);
                let at = numbers.below((changed.len() - 8) as u64) as usize / width * width;
                let value = match numbers.below(6) {
                    0 => u64::MAX,
                    1 => 1 << numbers.below(64),
                    2 => numbers.below(300),
                    3 => u64::MAX << numbers.below(64),
                    4 => 0,
                    _ => numbers.next(),
                };
                changed[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            let _ = exercise(&changed);
        }
    }
}

/// A stream of a schema with two columns, the second of them of the given type.
fn with_type_tag(tag: u8) -> Vec<u8> {
    stream!(MetadataVersion::V5, |b| Schema => {
        let mut columns = Vec::new();
        for (name, tag) in [("known", Type::Null), ("of another world", Type(tag))] {
            let name = b.create_string(name);
            let null = arrow_ipc::NullBuilder::new(&mut b).finish();
            let mut field = arrow_ipc::FieldBuilder::new(&mut b);
            field.add_name(name);
            field.add_type_type(tag);
            field.add_type_(null.as_union_value());
            columns.push(field.finish());
        }
        let fields = b.create_vector(&columns);
        let mut schema = arrow_ipc::SchemaBuilder::new(&mut b);
        schema.add_fields(fields);
        schema.finish()
    })
}

#[test]
fn type_tags_that_nobody_knows_are_refused_by_the_name_of_the_column() {
    for tag in 0..=255 {
        let is_known = (1..=Type::ENUM_MAX).contains(&tag);
        match parse(with_type_tag(tag)) {
            Err(error) => {
                let text = error.to_string();
                // Of a column without a type, or whose type is damaged, the library tells no name.
                let named = text.contains("of another world") || is_known || tag == 0;
                assert!(named, "{tag}: {text}");
                assert!(!text.contains(super::PANICKED), "{tag}: {text}");
            }
            Ok(table) => {
                assert!(is_known, "{tag}: {:?}", table.schema());
                assert!(table.decode().unwrap().is_empty());
            }
        }
    }
}

/// Removes a member of a table: its place in the list of places becomes 0.
fn without_member(message: &mut [u8], table: (usize, usize), member: u16) {
    let (_, places) = table;
    let at = places + usize::from(member);
    assert_ne!(message[at..at + 2], [0, 0], "the member is not there");
    message[at..at + 2].fill(0);
}

/// Where a message's table begins in its bytes, and the list of its members' places.
fn table_at(message: &[u8], at: usize) -> (usize, usize) {
    let back = i32::from_le_bytes(message[at..at + 4].try_into().unwrap());
    (at, usize::try_from(i64::try_from(at).unwrap() - i64::from(back)).unwrap())
}

/// The table that a member points at.
fn member_table(message: &[u8], table: (usize, usize), member: u16) -> (usize, usize) {
    let place = table.1 + usize::from(member);
    let offset = usize::from(u16::from_le_bytes([message[place], message[place + 1]]));
    let at = table.0 + offset;
    let to = u32::from_le_bytes(message[at..at + 4].try_into().unwrap()) as usize;
    table_at(message, at + to)
}

#[test]
fn schemas_and_batches_without_their_lists_are_damaged() {
    let stream = one_column();
    // Each message: 8 bytes, metadata of the length that the last four say.
    let length =
        |at: usize| u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
    let second = 8 + length(0);
    for (start, member, reason) in [
        (0, arrow_ipc::Schema::VT_FIELDS, "no fields"),
        (second, arrow_ipc::RecordBatch::VT_NODES, "node"),
        (second, arrow_ipc::RecordBatch::VT_BUFFERS, "buffer"),
    ] {
        let mut altered = stream.clone();
        let end = start + 8 + length(start);
        let message = &mut altered[start + 8..end];
        let root = u32::from_le_bytes(message[..4].try_into().unwrap()) as usize;
        let root = table_at(message, root);
        let header = member_table(message, root, arrow_ipc::Message::VT_HEADER);
        without_member(message, header, member);
        let error = exercise(&altered).unwrap_err();
        let text = damaged(&error);
        assert!(text.contains(reason), "{reason}: {text}");
        assert!(!text.contains(super::PANICKED), "{text}");
    }
    // A message without a header, and a header whose kind is missing.
    for member in [arrow_ipc::Message::VT_HEADER, arrow_ipc::Message::VT_HEADER_TYPE] {
        for start in [0, second] {
            let mut altered = stream.clone();
            let end = start + 8 + length(start);
            let message = &mut altered[start + 8..end];
            let root = u32::from_le_bytes(message[..4].try_into().unwrap()) as usize;
            let root = table_at(message, root);
            without_member(message, root, member);
            let error = exercise(&altered).unwrap_err();
            assert!(!damaged(&error).contains(super::PANICKED), "{error}");
        }
    }
}
