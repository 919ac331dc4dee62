//! Small arrays of every type, with values that depend on a seed.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryViewBuilder, FixedSizeBinaryBuilder, Int32Builder, LargeListBuilder, ListBuilder,
    MapBuilder, StringBuilder, StringViewBuilder,
};
use arrow_array::types::{Int8Type, Int16Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, UnionFields};

/// Numbers that look random and are the same on each run.
#[derive(Clone)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Values, one in four missing.
fn some<T>(rows: usize, numbers: &mut Numbers, make: impl Fn(u64) -> T) -> Vec<Option<T>> {
    (0..rows)
        .map(|_| {
            let number = numbers.next();
            (!number.is_multiple_of(4)).then(|| make(number >> 8))
        })
        .collect()
}

fn text(number: u64) -> String {
    let words = ["", "a", "stroma", "nuclei – Zellkerne, länger als ein View", "日本語"];
    format!("{}{}", words[(number % 5) as usize], number % 100)
}

fn texts(rows: usize, numbers: &mut Numbers) -> Vec<Option<String>> {
    some(rows, numbers, text)
}

/// The names that [`make`] knows.
pub(crate) const KINDS: &[&str] = &[
    "null",
    "bool",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f16",
    "f32",
    "f64",
    "dec32",
    "dec64",
    "dec128",
    "dec256",
    "date32",
    "date64",
    "time32",
    "time64",
    "ts",
    "dur",
    "ym",
    "dt",
    "mdn",
    "utf8",
    "large_utf8",
    "utf8_view",
    "bin",
    "large_bin",
    "bin_view",
    "fsb",
    "fsb0",
    "list",
    "large_list",
    "list_view",
    "large_list_view",
    "fsl",
    "fsl0",
    "struct",
    "empty_struct",
    "map",
    "sparse",
    "dense",
    "ree",
    "dict",
    "dict_u64",
    "list_dict",
    "nested_dict",
    "plain_u64",
];

/// An array of the kind called `kind`.
pub(crate) fn make(kind: &str, rows: usize, seed: u64) -> ArrayRef {
    let numbers = &mut Numbers::new(seed.wrapping_add(kind.len() as u64 * 977 + 1));
    let n = numbers;
    match kind {
        "null" => Arc::new(NullArray::new(rows)),
        "bool" => Arc::new(BooleanArray::from(some(rows, n, |x| x % 2 == 0))),
        "i8" => Arc::new(Int8Array::from(some(rows, n, |x| x as i8))),
        "i16" => Arc::new(Int16Array::from(some(rows, n, |x| x as i16))),
        "i32" => Arc::new(Int32Array::from(some(rows, n, |x| x as i32))),
        "i64" => Arc::new(Int64Array::from(some(rows, n, |x| x as i64))),
        "u8" => Arc::new(UInt8Array::from(some(rows, n, |x| x as u8))),
        "u16" => Arc::new(UInt16Array::from(some(rows, n, |x| x as u16))),
        "u32" => Arc::new(UInt32Array::from(some(rows, n, |x| x as u32))),
        "u64" => Arc::new(UInt64Array::from(some(rows, n, |x| x))),
        "plain_u64" => Arc::new(UInt64Array::from_iter_values((0..rows).map(|_| n.next()))),
        "f16" => {
            let values = UInt16Array::from(some(rows, n, |x| x as u16 & 0x3fff));
            let data = values.into_data();
            let data = data.into_builder().data_type(DataType::Float16);
            make_array(data.build().unwrap())
        }
        "f32" => Arc::new(Float32Array::from(some(rows, n, |x| x as f32 / 3.0))),
        "f64" => Arc::new(Float64Array::from(some(rows, n, |x| x as f64 / 7.0))),
        "dec32" => Arc::new(
            Decimal32Array::from(some(rows, n, |x| (x % 9999) as i32))
                .with_precision_and_scale(9, 2)
                .unwrap(),
        ),
        "dec64" => Arc::new(
            Decimal64Array::from(some(rows, n, |x| (x % 9999) as i64))
                .with_precision_and_scale(18, 2)
                .unwrap(),
        ),
        "dec128" => Arc::new(
            Decimal128Array::from(some(rows, n, i128::from))
                .with_precision_and_scale(38, 10)
                .unwrap(),
        ),
        "dec256" => Arc::new(
            Decimal256Array::from(some(rows, n, |x| arrow_buffer::i256::from_i128(-i128::from(x))))
                .with_precision_and_scale(76, -3)
                .unwrap(),
        ),
        "date32" => Arc::new(Date32Array::from(some(rows, n, |x| (x % 30000) as i32))),
        "date64" => Arc::new(Date64Array::from(some(rows, n, |x| (x % 30000) as i64 * 86_400_000))),
        "time32" => Arc::new(Time32SecondArray::from(some(rows, n, |x| (x % 86400) as i32))),
        "time64" => Arc::new(Time64NanosecondArray::from(some(rows, n, |x| (x % 86400) as i64))),
        "ts" => Arc::new(
            TimestampMicrosecondArray::from(some(rows, n, |x| x as i64 >> 10))
                .with_timezone("Europe/Berlin"),
        ),
        "dur" => Arc::new(DurationMillisecondArray::from(some(rows, n, |x| x as i64))),
        "ym" => Arc::new(IntervalYearMonthArray::from(some(rows, n, |x| x as i32))),
        "dt" => Arc::new(IntervalDayTimeArray::from(some(rows, n, |x| {
            IntervalDayTime::new(x as i32, (x >> 32) as i32)
        }))),
        "mdn" => Arc::new(IntervalMonthDayNanoArray::from(some(rows, n, |x| {
            IntervalMonthDayNano::new(x as i32, 3, (x >> 5) as i64)
        }))),
        "utf8" => Arc::new(StringArray::from(texts(rows, n))),
        "large_utf8" => Arc::new(LargeStringArray::from(texts(rows, n))),
        "utf8_view" => {
            let mut builder = StringViewBuilder::new().with_fixed_block_size(64);
            builder.extend(texts(rows, n));
            Arc::new(builder.finish())
        }
        "bin" => Arc::new(BinaryArray::from_iter(texts(rows, n))),
        "large_bin" => Arc::new(LargeBinaryArray::from_iter(texts(rows, n))),
        "bin_view" => {
            let mut builder = BinaryViewBuilder::new();
            builder.extend(texts(rows, n));
            Arc::new(builder.finish())
        }
        "fsb" => {
            let mut builder = FixedSizeBinaryBuilder::new(5);
            for value in some(rows, n, |x| x.to_le_bytes()) {
                match value {
                    Some(bytes) => builder.append_value(&bytes[..5]).unwrap(),
                    None => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        "fsb0" => Arc::new(
            FixedSizeBinaryArray::try_new_with_len(0, Vec::<u8>::new().into(), None, rows).unwrap(),
        ),
        "list" => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for number in some(rows, n, |x| x) {
                let items = number.map(|x| (0..x % 4).map(move |i| (i > 0).then(|| text(x + i))));
                builder.append_option(items);
            }
            Arc::new(builder.finish())
        }
        "large_list" => {
            let mut builder = LargeListBuilder::new(Int32Builder::new());
            for number in some(rows, n, |x| x) {
                builder.append_option(number.map(|x| (0..x % 3).map(|i| Some(i as i32))));
            }
            Arc::new(builder.finish())
        }
        "list_view" => {
            let field = Arc::new(Field::new_list_field(DataType::Int32, true));
            let offsets: Vec<i32> = (0..rows).map(|_| n.below(5) as i32).collect();
            let sizes: Vec<i32> = (0..rows).map(|_| n.below(5) as i32).collect();
            let values = make("i32", 10, seed);
            let nulls = NullBuffer::from_iter((0..rows).map(|row| row % 3 != 1));
            let array =
                ListViewArray::new(field, offsets.into(), sizes.into(), values, Some(nulls));
            Arc::new(array)
        }
        "large_list_view" => {
            let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
            let offsets: Vec<i64> = (0..rows).map(|_| n.below(5) as i64).collect();
            let sizes: Vec<i64> = (0..rows).map(|_| n.below(5) as i64).collect();
            let values = make("utf8", 10, seed);
            let array = LargeListViewArray::new(field, offsets.into(), sizes.into(), values, None);
            Arc::new(array)
        }
        "fsl" => {
            let field = Arc::new(Field::new_list_field(DataType::UInt16, true));
            let nulls = NullBuffer::from_iter((0..rows).map(|row| row % 5 != 2));
            let values = make("u16", rows * 3, seed);
            Arc::new(FixedSizeListArray::new(field, 3, values, Some(nulls)))
        }
        "fsl0" => {
            let field = Arc::new(Field::new_list_field(DataType::UInt16, true));
            let values = make("u16", 0, seed);
            Arc::new(FixedSizeListArray::try_new_with_length(field, 0, values, None, rows).unwrap())
        }
        "struct" => {
            let fields =
                vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Utf8, true)];
            let nulls = NullBuffer::from_iter((0..rows).map(|row| row % 4 != 3));
            let children = vec![make("i64", rows, seed), make("utf8", rows, seed)];
            Arc::new(StructArray::new(fields.into(), children, Some(nulls)))
        }
        "empty_struct" => Arc::new(StructArray::new_empty_fields(rows, None)),
        "map" => {
            let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
            for number in some(rows, n, |x| x % 3) {
                for key in 0..number.unwrap_or(0) {
                    builder.keys().append_value(text(key));
                    builder.values().append_option((key > 0).then_some(key as i32));
                }
                builder.append(number.is_some()).unwrap();
            }
            Arc::new(builder.finish())
        }
        "sparse" => {
            let fields = union_fields();
            let ids: ScalarBuffer<i8> = (0..rows).map(|_| [2, 7][n.below(2) as usize]).collect();
            let children = vec![make("i32", rows, seed), make("utf8", rows, seed)];
            Arc::new(UnionArray::try_new(fields, ids, None, children).unwrap())
        }
        "dense" => {
            let fields = union_fields();
            let ids: ScalarBuffer<i8> = (0..rows).map(|_| [2, 7][n.below(2) as usize]).collect();
            let offsets: ScalarBuffer<i32> = (0..rows).map(|_| n.below(5) as i32).collect();
            let children = vec![make("i32", 5, seed), make("utf8", 5, seed)];
            Arc::new(UnionArray::try_new(fields, ids, Some(offsets), children).unwrap())
        }
        "ree" => {
            let runs = rows.div_ceil(3);
            let ends = (1..=runs).map(|run| (run * 3).min(rows) as i32);
            let ends = Int32Array::from_iter_values(ends);
            let values = make("utf8", runs, seed);
            Arc::new(RunArray::<Int32Type>::try_new(&ends, &values).unwrap())
        }
        "dict" => {
            let keys: Int8Array = some(rows, n, |x| (x % 6) as i8).into_iter().collect();
            Arc::new(DictionaryArray::<Int8Type>::new(keys, make("utf8", 6, seed)))
        }
        "dict_u64" => {
            let keys: UInt64Array = some(rows, n, |x| x % 6).into_iter().collect();
            Arc::new(DictionaryArray::new(keys, make("i64", 6, seed)))
        }
        "list_dict" => {
            let lengths = (0..rows).map(|row| row % 3);
            let offsets = OffsetBuffer::from_lengths(lengths.clone());
            let values = make("dict", lengths.sum(), seed);
            let field = Field::new_list_field(values.data_type().clone(), true);
            Arc::new(ListArray::new(Arc::new(field), offsets, values, None))
        }
        "nested_dict" => {
            let inner = make("dict", 4, seed);
            let field = Field::new("inner", inner.data_type().clone(), true);
            let values = StructArray::new(vec![field].into(), vec![inner], None);
            let keys: Int16Array = some(rows, n, |x| (x % 4) as i16).into_iter().collect();
            Arc::new(DictionaryArray::<Int16Type>::new(keys, Arc::new(values)))
        }
        other => panic!("no arrays of kind {other}"),
    }
}

fn union_fields() -> UnionFields {
    let fields =
        [Field::new("number", DataType::Int32, true), Field::new("text", DataType::Utf8, true)];
    UnionFields::try_new([2, 7], fields).unwrap()
}

/// A schema with a column of each kind, named after it.
pub(crate) fn schema_of(kinds: &[&str]) -> Schema {
    let fields: Vec<Field> = kinds
        .iter()
        .map(|kind| {
            let nullable = *kind != "plain_u64";
            Field::new(*kind, make(kind, 0, 0).data_type().clone(), nullable)
        })
        .collect();
    Schema::new(fields)
}

/// A batch with a column of each kind.
pub(crate) fn batch_of(schema: &Schema, rows: usize, seed: u64) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| make(field.name(), rows, seed)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(schema.clone()), columns, &options).unwrap()
}
