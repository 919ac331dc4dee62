//! Arrow tables in the JSON form of `python/wire.py`.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, RunEndIndexType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field, IntervalUnit, Metadata, Schema, TimeUnit, UnionMode};
use serde_json::{Value, json};

use crate::json::hex;

/// Schema and values of a table. How it is cut into batches is left out.
#[must_use]
pub fn table(schema: &Schema, batches: &[RecordBatch]) -> Value {
    let columns: Vec<Value> = (0..schema.fields().len())
        .map(|column| {
            let values = batches.iter().flat_map(|batch| values(batch.column(column)));
            values.collect()
        })
        .collect();
    json!({
        "fields": schema.fields().iter().map(|f| field(f)).collect::<Vec<_>>(),
        "metadata": metadata(schema.metadata()),
        "rows": batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
        "columns": columns,
    })
}

/// One field: name, type, nullability, metadata.
#[must_use]
pub fn field(field: &Field) -> Value {
    json!({
        "name": field.name(),
        "type": kind(field),
        "nullable": field.is_nullable(),
        "metadata": metadata(field.metadata()),
    })
}

fn metadata(of: &Metadata) -> Value {
    let pairs = of.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Value::Object(pairs.collect())
}

/// The type of a field: a word, or a list of a word and its parameters.
fn kind(of: &Field) -> Value {
    match of.data_type() {
        DataType::Dictionary(keys, values) => json!([
            "dictionary",
            simple_kind(keys),
            simple_kind(values),
            of.dict_is_ordered().unwrap_or(false)
        ]),
        DataType::RunEndEncoded(ends, values) => {
            json!(["run_end_encoded", kind(ends), kind(values)])
        }
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else {
                panic!("map entries are {}", entries.data_type());
            };
            json!(["map", field(&pair[0]), field(&pair[1]), sorted])
        }
        DataType::List(item) => json!(["list", field(item)]),
        DataType::LargeList(item) => json!(["large_list", field(item)]),
        DataType::ListView(item) => json!(["list_view", field(item)]),
        DataType::LargeListView(item) => json!(["large_list_view", field(item)]),
        DataType::FixedSizeList(item, size) => json!(["fixed_size_list", size, field(item)]),
        DataType::Struct(fields) => {
            json!(["struct", fields.iter().map(|f| field(f)).collect::<Vec<_>>()])
        }
        DataType::Union(fields, mode) => {
            let (codes, fields): (Vec<i8>, Vec<Value>) =
                fields.iter().map(|(code, f)| (code, field(f))).unzip();
            let mode = match mode {
                UnionMode::Sparse => "sparse",
                UnionMode::Dense => "dense",
            };
            json!(["union", mode, codes, fields])
        }
        simple => simple_kind(simple),
    }
}

fn unit(of: TimeUnit) -> &'static str {
    match of {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn simple_kind(of: &DataType) -> Value {
    let word = match of {
        DataType::Null => "null",
        DataType::Boolean => "bool",
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Float16 => "float16",
        DataType::Float32 => "float32",
        DataType::Float64 => "float64",
        DataType::Utf8 => "utf8",
        DataType::LargeUtf8 => "large_utf8",
        DataType::Utf8View => "utf8_view",
        DataType::Binary => "binary",
        DataType::LargeBinary => "large_binary",
        DataType::BinaryView => "binary_view",
        DataType::Date32 => "date32",
        DataType::Date64 => "date64",
        DataType::Interval(IntervalUnit::MonthDayNano) => "month_day_nano",
        DataType::Timestamp(per, zone) => {
            return json!(["timestamp", unit(*per), zone.as_deref()]);
        }
        DataType::Time32(per) => return json!(["time", 32, unit(*per)]),
        DataType::Time64(per) => return json!(["time", 64, unit(*per)]),
        DataType::Duration(per) => return json!(["duration", unit(*per)]),
        DataType::Decimal32(precision, scale) => return json!(["decimal", 32, precision, scale]),
        DataType::Decimal64(precision, scale) => return json!(["decimal", 64, precision, scale]),
        DataType::Decimal128(precision, scale) => return json!(["decimal", 128, precision, scale]),
        DataType::Decimal256(precision, scale) => return json!(["decimal", 256, precision, scale]),
        DataType::FixedSizeBinary(width) => return json!(["fixed_size_binary", width]),
        other => panic!("no JSON form for the type {other}"),
    };
    Value::from(word)
}

/// The values of one array, nulls as `null`.
///
/// # Panics
///
/// For types that the tests do not use.
#[must_use]
pub fn values(array: &ArrayRef) -> Vec<Value> {
    match array.data_type() {
        DataType::Null => vec![Value::Null; array.len()],
        DataType::Boolean => each(array, |i| Value::from(array.as_boolean().value(i))),
        DataType::Int8 => numbers::<Int8Type>(array, Value::from),
        DataType::Int16 => numbers::<Int16Type>(array, Value::from),
        DataType::Int32 => numbers::<Int32Type>(array, Value::from),
        DataType::Int64 => numbers::<Int64Type>(array, Value::from),
        DataType::UInt8 => numbers::<UInt8Type>(array, Value::from),
        DataType::UInt16 => numbers::<UInt16Type>(array, Value::from),
        DataType::UInt32 => numbers::<UInt32Type>(array, Value::from),
        DataType::UInt64 => numbers::<UInt64Type>(array, Value::from),
        DataType::Float16 => {
            numbers::<Float16Type>(array, |v| Value::from(format!("{:04x}", v.to_bits())))
        }
        DataType::Float32 => {
            numbers::<Float32Type>(array, |v| Value::from(format!("{:08x}", v.to_bits())))
        }
        DataType::Float64 => {
            numbers::<Float64Type>(array, |v| Value::from(format!("{:016x}", v.to_bits())))
        }
        DataType::Timestamp(per, _) => match per {
            TimeUnit::Second => numbers::<TimestampSecondType>(array, Value::from),
            TimeUnit::Millisecond => numbers::<TimestampMillisecondType>(array, Value::from),
            TimeUnit::Microsecond => numbers::<TimestampMicrosecondType>(array, Value::from),
            TimeUnit::Nanosecond => numbers::<TimestampNanosecondType>(array, Value::from),
        },
        DataType::Duration(per) => match per {
            TimeUnit::Second => numbers::<DurationSecondType>(array, Value::from),
            TimeUnit::Millisecond => numbers::<DurationMillisecondType>(array, Value::from),
            TimeUnit::Microsecond => numbers::<DurationMicrosecondType>(array, Value::from),
            TimeUnit::Nanosecond => numbers::<DurationNanosecondType>(array, Value::from),
        },
        DataType::Time32(TimeUnit::Second) => numbers::<Time32SecondType>(array, Value::from),
        DataType::Time32(_) => numbers::<Time32MillisecondType>(array, Value::from),
        DataType::Time64(TimeUnit::Microsecond) => {
            numbers::<Time64MicrosecondType>(array, Value::from)
        }
        DataType::Time64(_) => numbers::<Time64NanosecondType>(array, Value::from),
        DataType::Date32 => numbers::<Date32Type>(array, Value::from),
        DataType::Date64 => numbers::<Date64Type>(array, Value::from),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            numbers::<IntervalMonthDayNanoType>(array, |v| json!([v.months, v.days, v.nanoseconds]))
        }
        DataType::Decimal32(..) => numbers::<Decimal32Type>(array, |v| Value::from(v.to_string())),
        DataType::Decimal64(..) => numbers::<Decimal64Type>(array, |v| Value::from(v.to_string())),
        DataType::Decimal128(..) => {
            numbers::<Decimal128Type>(array, |v| Value::from(v.to_string()))
        }
        DataType::Decimal256(..) => {
            numbers::<Decimal256Type>(array, |v| Value::from(v.to_string()))
        }
        DataType::Utf8 => each(array, |i| Value::from(array.as_string::<i32>().value(i))),
        DataType::LargeUtf8 => each(array, |i| Value::from(array.as_string::<i64>().value(i))),
        DataType::Utf8View => each(array, |i| Value::from(array.as_string_view().value(i))),
        DataType::Binary => each(array, |i| Value::from(hex(array.as_binary::<i32>().value(i)))),
        DataType::LargeBinary => {
            each(array, |i| Value::from(hex(array.as_binary::<i64>().value(i))))
        }
        DataType::BinaryView => each(array, |i| Value::from(hex(array.as_binary_view().value(i)))),
        DataType::FixedSizeBinary(_) => {
            each(array, |i| Value::from(hex(array.as_fixed_size_binary().value(i))))
        }
        _ => nested(array),
    }
}

fn nested(array: &ArrayRef) -> Vec<Value> {
    match array.data_type() {
        DataType::List(_) => each(array, |i| values(&array.as_list::<i32>().value(i)).into()),
        DataType::LargeList(_) => each(array, |i| values(&array.as_list::<i64>().value(i)).into()),
        DataType::ListView(_) => {
            each(array, |i| values(&array.as_list_view::<i32>().value(i)).into())
        }
        DataType::LargeListView(_) => {
            each(array, |i| values(&array.as_list_view::<i64>().value(i)).into())
        }
        DataType::FixedSizeList(..) => {
            each(array, |i| values(&array.as_fixed_size_list().value(i)).into())
        }
        DataType::Struct(_) => {
            let children: Vec<Vec<Value>> =
                array.as_struct().columns().iter().map(values).collect();
            each(array, |i| children.iter().map(|child| child[i].clone()).collect())
        }
        DataType::Map(..) => each(array, |i| {
            let entries = array.as_map().value(i);
            let (keys, items) = (values(entries.column(0)), values(entries.column(1)));
            keys.into_iter().zip(items).map(|(k, v)| json!([k, v])).collect()
        }),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let words = values(dictionary.values());
            // Keys of null rows may point anywhere.
            let keys = dictionary.keys();
            let places = dictionary_places(keys);
            each(array, |i| words[places[i]].clone())
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(array),
            DataType::Int32 => runs::<Int32Type>(array),
            _ => runs::<Int64Type>(array),
        },
        DataType::Union(..) => {
            let union = array.as_union();
            (0..union.len())
                .map(|i| json!([union.type_id(i), values(&union.value(i))[0]]))
                .collect()
        }
        other => panic!("no JSON form for values of the type {other}"),
    }
}

fn each(array: &ArrayRef, value: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..array.len()).map(|i| if array.is_null(i) { Value::Null } else { value(i) }).collect()
}

fn numbers<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    value: impl Fn(T::Native) -> Value,
) -> Vec<Value> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    array.iter().map(|v| v.map_or(Value::Null, &value)).collect()
}

fn runs<E: RunEndIndexType>(array: &ArrayRef) -> Vec<Value> {
    let array = array.as_run::<E>();
    let words = values(array.values());
    (0..array.len()).map(|i| words[array.get_physical_index(i)].clone()).collect()
}

/// Places in the dictionary, 0 for null rows.
fn dictionary_places(keys: &dyn Array) -> Vec<usize> {
    fn places<T: ArrowPrimitiveType>(keys: &dyn Array) -> Vec<usize>
    where
        T::Native: ArrowNativeTypeOp + TryInto<usize>,
    {
        let keys: &PrimitiveArray<T> = keys.as_primitive();
        keys.iter()
            .map(|key| key.map_or(0, |k| k.try_into().ok().expect("a key is not negative")))
            .collect()
    }
    match keys.data_type() {
        DataType::Int8 => places::<Int8Type>(keys),
        DataType::Int16 => places::<Int16Type>(keys),
        DataType::Int32 => places::<Int32Type>(keys),
        DataType::Int64 => places::<Int64Type>(keys),
        DataType::UInt8 => places::<UInt8Type>(keys),
        DataType::UInt16 => places::<UInt16Type>(keys),
        DataType::UInt32 => places::<UInt32Type>(keys),
        DataType::UInt64 => places::<UInt64Type>(keys),
        other => panic!("dictionary keys are {other}"),
    }
}
