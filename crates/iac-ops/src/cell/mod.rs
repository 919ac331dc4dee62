//! Single values of a table as JSON and as text.
//!
//! | Arrow | JSON |
//! |---|---|
//! | integers | numbers, exactly |
//! | floating-point numbers | numbers in their shortest form; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | decimals | texts: `"12.50"` |
//! | texts | texts |
//! | binary | texts in base64 |
//! | dates, times, timestamps | ISO 8601 texts; a column with a time zone gives UTC (`...Z`) |
//! | durations, intervals | ISO 8601 texts: `"PT1.5S"`, `"P1M2DT3S"` |
//! | lists | arrays |
//! | structs | objects |
//! | maps | arrays of `{"key": ..., "value": ...}` |
//! | unions, dictionaries, run-end encoded columns | the value that stands there |
//! | null | `null` |

mod time;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type,
    Decimal64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalYearMonthType, RunEndIndexType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, DictionaryArray, PrimitiveArray, RunArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use iac_format::ErrorKind;
use serde_json::{Map, Number, Value};

/// A value that contradicts its column's type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {row} of the batch: {reason}")]
pub struct CellError {
    /// The row inside the record batch.
    pub row: usize,
    /// What is wrong.
    pub reason: &'static str,
    /// The kind that callers branch on: `damaged`, or `limit` for a value that is too large.
    pub kind: ErrorKind,
}

/// Bytes of text that one cell may become.
pub const MAX_CELL_BYTES: u64 = 16 << 20;
/// Values that one cell may have inside, itself included.
pub const MAX_CELL_VALUES: u64 = 1_000_000;

/// What is left of a bound on one cell: list views and dictionaries may stand for endless copies
/// of a few bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    values: u64,
}

impl Budget {
    pub(crate) const fn of_bytes(bytes: u64) -> Self {
        Self { bytes, values: MAX_CELL_VALUES }
    }

    pub(crate) const fn of_cell() -> Self {
        Self::of_bytes(MAX_CELL_BYTES)
    }

    /// Bytes that were used of [`MAX_CELL_BYTES`], those of the values' own kept places included.
    pub(crate) const fn used(&self) -> u64 {
        let values = MAX_CELL_VALUES.saturating_sub(self.values);
        MAX_CELL_BYTES.saturating_sub(self.bytes).saturating_add(values.saturating_mul(32))
    }

    fn spend(&mut self, row: usize, bytes: usize) -> Result<()> {
        let too_large = |reason| CellError { row, reason, kind: ErrorKind::Limit };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes = self
            .bytes
            .checked_sub(bytes)
            .ok_or_else(|| too_large("the value is larger than is shown (16777216 bytes)"))?;
        Ok(())
    }

    fn begin(&mut self, row: usize) -> Result<()> {
        self.values = self.values.checked_sub(1).ok_or(CellError {
            row,
            reason: "the value holds more than is shown (1000000 values)",
            kind: ErrorKind::Limit,
        })?;
        Ok(())
    }
}

type Result<T> = std::result::Result<T, CellError>;

impl CellError {
    /// Says what damage inside means outside; a limit stays one.
    fn or(self, reason: &'static str, row: usize) -> Self {
        match self.kind {
            ErrorKind::Limit => Self { row, ..self },
            kind => Self { row, reason, kind },
        }
    }
}

/// A value as JSON.
///
/// ```
/// use arrow_array::Int64Array;
/// use iac_ops::cell::to_json;
///
/// let column = Int64Array::from(vec![Some(3), None]);
/// assert_eq!(to_json(&column, 0)?, serde_json::json!(3));
/// assert_eq!(to_json(&column, 1)?, serde_json::Value::Null);
/// # Ok::<(), iac_ops::cell::CellError>(())
/// ```
///
/// # Errors
///
/// [`CellError`] when the row does not exist, the array contradicts its type, or the value is larger
/// than [`MAX_CELL_BYTES`] and [`MAX_CELL_VALUES`] allow.
pub fn to_json(array: &dyn Array, row: usize) -> Result<Value> {
    to_json_within(array, row, &mut Budget::of_cell())
}

pub(crate) fn to_json_within(array: &dyn Array, row: usize, budget: &mut Budget) -> Result<Value> {
    let wrong = |reason| CellError { row, reason, kind: ErrorKind::Damaged };
    budget.begin(row)?;
    if row >= array.len() {
        return Err(wrong("the column ends before it"));
    }
    if matches!(array.data_type(), DataType::Null) || array.is_null(row) {
        return Ok(Value::Null);
    }
    let value = match array.data_type() {
        DataType::Null => Some(Value::Null),
        DataType::Boolean => array.as_boolean_opt().map(|a| Value::Bool(a.value(row))),
        DataType::Int8 => integer::<Int8Type>(array, row),
        DataType::Int16 => integer::<Int16Type>(array, row),
        DataType::Int32 => integer::<Int32Type>(array, row),
        DataType::Int64 => integer::<Int64Type>(array, row),
        DataType::UInt8 => integer::<UInt8Type>(array, row),
        DataType::UInt16 => integer::<UInt16Type>(array, row),
        DataType::UInt32 => integer::<UInt32Type>(array, row),
        DataType::UInt64 => integer::<UInt64Type>(array, row),
        DataType::Float16 => primitive::<Float16Type>(array, row).map(|v| short_float(v.to_f32())),
        DataType::Float32 => primitive::<Float32Type>(array, row).map(short_float),
        DataType::Float64 => primitive::<Float64Type>(array, row).map(float),
        DataType::Decimal32(..) => decimal::<Decimal32Type>(array, row),
        DataType::Decimal64(..) => decimal::<Decimal64Type>(array, row),
        DataType::Decimal128(..) => decimal::<Decimal128Type>(array, row),
        DataType::Decimal256(..) => decimal::<Decimal256Type>(array, row),
        DataType::Utf8 => {
            let value = array.as_string_opt::<i32>().map(|a| a.value(row));
            value.map(|value| text(value, row, budget)).transpose()?
        }
        DataType::LargeUtf8 => {
            let value = array.as_string_opt::<i64>().map(|a| a.value(row));
            value.map(|value| text(value, row, budget)).transpose()?
        }
        DataType::Utf8View => {
            let value = array.as_string_view_opt().map(|a| a.value(row));
            value.map(|value| text(value, row, budget)).transpose()?
        }
        DataType::Binary => {
            let value = array.as_binary_opt::<i32>().map(|a| a.value(row));
            value.map(|value| binary(value, row, budget)).transpose()?
        }
        DataType::LargeBinary => {
            let value = array.as_binary_opt::<i64>().map(|a| a.value(row));
            value.map(|value| binary(value, row, budget)).transpose()?
        }
        DataType::BinaryView => {
            let value = array.as_binary_view_opt().map(|a| a.value(row));
            value.map(|value| binary(value, row, budget)).transpose()?
        }
        DataType::FixedSizeBinary(_) => {
            let value = array.as_fixed_size_binary_opt().map(|a| a.value(row));
            value.map(|value| binary(value, row, budget)).transpose()?
        }
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Interval(_) => temporal(array, row).map(Value::String),
        DataType::List(_) => nested(array.as_list_opt::<i32>().map(|a| a.value(row)), row, budget)?,
        DataType::LargeList(_) => {
            nested(array.as_list_opt::<i64>().map(|a| a.value(row)), row, budget)?
        }
        DataType::ListView(_) => {
            nested(array.as_list_view_opt::<i32>().map(|a| a.value(row)), row, budget)?
        }
        DataType::LargeListView(_) => {
            nested(array.as_list_view_opt::<i64>().map(|a| a.value(row)), row, budget)?
        }
        DataType::FixedSizeList(..) => {
            nested(array.as_fixed_size_list_opt().map(|a| a.value(row)), row, budget)?
        }
        DataType::Struct(fields) => match array.as_struct_opt() {
            Some(a) => {
                let mut object = Map::new();
                for (field, column) in fields.iter().zip(a.columns()) {
                    budget.spend(row, field.name().len())?;
                    object.insert(field.name().clone(), to_json_within(column, row, budget)?);
                }
                Some(Value::Object(object))
            }
            None => None,
        },
        DataType::Map(..) => match array.as_map_opt() {
            Some(a) => Some(map_entries(&a.value(row), budget)?),
            None => None,
        },
        DataType::Union(..) => match array.as_union_opt() {
            Some(a) => return to_json_within(&a.value(row), 0, budget),
            None => None,
        },
        DataType::Dictionary(keys, _) => {
            let place = match keys.as_ref() {
                DataType::Int8 => in_dictionary::<Int8Type>(array, row),
                DataType::Int16 => in_dictionary::<Int16Type>(array, row),
                DataType::Int32 => in_dictionary::<Int32Type>(array, row),
                DataType::Int64 => in_dictionary::<Int64Type>(array, row),
                DataType::UInt8 => in_dictionary::<UInt8Type>(array, row),
                DataType::UInt16 => in_dictionary::<UInt16Type>(array, row),
                DataType::UInt32 => in_dictionary::<UInt32Type>(array, row),
                DataType::UInt64 => in_dictionary::<UInt64Type>(array, row),
                _ => None,
            };
            match place {
                Some((values, at)) => {
                    return to_json_within(values, at, budget)
                        .map_err(|error| error.or("its dictionary has no such value", row));
                }
                None => None,
            }
        }
        DataType::RunEndEncoded(ends, _) => {
            let place = match ends.data_type() {
                DataType::Int16 => in_run::<Int16Type>(array, row),
                DataType::Int32 => in_run::<Int32Type>(array, row),
                DataType::Int64 => in_run::<Int64Type>(array, row),
                _ => None,
            };
            match place {
                Some((values, at)) => {
                    return to_json_within(values, at, budget)
                        .map_err(|error| error.or("its run has no value", row));
                }
                None => None,
            }
        }
    };
    value.ok_or_else(|| wrong("the column is not of the type that it claims"))
}

/// A value as the text of one cell, for CSV and for people: texts as they are, nested values as
/// JSON; nothing for null.
///
/// # Errors
///
/// As [`to_json`].
pub fn to_text(array: &dyn Array, row: usize) -> Result<Option<String>> {
    to_text_within(array, row, &mut Budget::of_cell())
}

pub(crate) fn to_text_within(
    array: &dyn Array,
    row: usize,
    budget: &mut Budget,
) -> Result<Option<String>> {
    Ok(match to_json_within(array, row, budget)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    })
}

fn primitive<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Option<T::Native> {
    array.as_primitive_opt::<T>().map(|a| a.value(row))
}

fn integer<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Option<Value>
where
    T::Native: Into<Number>,
{
    primitive::<T>(array, row).map(|value| Value::Number(value.into()))
}

fn decimal<T>(array: &dyn Array, row: usize) -> Option<Value>
where
    T: arrow_array::types::DecimalType,
    T::Native: ArrowNativeTypeOp,
{
    let array: &PrimitiveArray<T> = array.as_primitive_opt()?;
    Some(Value::String(array.value_as_string(row)))
}

/// A double; JSON has no text for what is not finite.
fn float(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::from("NaN"),
        None if value.is_sign_positive() => Value::from("Infinity"),
        None => Value::from("-Infinity"),
    }
}

/// A single: as the double whose shortest text is the single's own (0.1, not 0.10000000149).
fn short_float(value: f32) -> Value {
    let double = value.to_string().parse().unwrap_or(f64::from(value));
    float(if value.is_finite() { double } else { f64::from(value) })
}

fn text(value: &str, row: usize, budget: &mut Budget) -> Result<Value> {
    budget.spend(row, value.len())?;
    Ok(Value::String(value.to_owned()))
}

fn binary(value: &[u8], row: usize, budget: &mut Budget) -> Result<Value> {
    budget.spend(row, value.len().div_ceil(3).saturating_mul(4))?;
    Ok(Value::String(STANDARD.encode(value)))
}

fn nested(items: Option<ArrayRef>, row: usize, budget: &mut Budget) -> Result<Option<Value>> {
    let Some(items) = items else { return Ok(None) };
    let values: Result<Vec<Value>> =
        (0..items.len()).map(|item| to_json_within(&items, item, budget)).collect();
    // The row of the cell, not of the value inside it.
    values.map(|values| Some(Value::Array(values))).map_err(|error| CellError { row, ..error })
}

fn map_entries(entries: &arrow_array::StructArray, budget: &mut Budget) -> Result<Value> {
    let mut list = Vec::new();
    for entry in 0..entries.len() {
        let mut object = Map::new();
        for (name, column) in ["key", "value"].into_iter().zip(entries.columns()) {
            object.insert(name.to_owned(), to_json_within(column, entry, budget)?);
        }
        list.push(Value::Object(object));
    }
    Ok(Value::Array(list))
}

/// Where a dictionary has the value of a row.
fn in_dictionary<K: ArrowDictionaryKeyType>(
    array: &dyn Array,
    row: usize,
) -> Option<(&ArrayRef, usize)> {
    let array: &DictionaryArray<K> = array.as_any().downcast_ref()?;
    let key = array.keys().value(row).to_usize()?;
    Some((array.values(), key))
}

/// Where a run-end encoded column has the value of a row.
fn in_run<E: RunEndIndexType>(array: &dyn Array, row: usize) -> Option<(&ArrayRef, usize)> {
    let array: &RunArray<E> = array.as_any().downcast_ref()?;
    Some((array.values(), array.get_physical_index(row)))
}

fn temporal(array: &dyn Array, row: usize) -> Option<String> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    Some(match array.data_type() {
        DataType::Date32 => time::date(i64::from(primitive::<Date32Type>(array, row)?)),
        DataType::Date64 => time::date_of_millis(primitive::<Date64Type>(array, row)?),
        DataType::Time32(Second) => {
            time::time_of_day(i64::from(primitive::<Time32SecondType>(array, row)?), Second)
        }
        DataType::Time32(_) => time::time_of_day(
            i64::from(primitive::<Time32MillisecondType>(array, row)?),
            Millisecond,
        ),
        DataType::Time64(Microsecond) => {
            time::time_of_day(primitive::<Time64MicrosecondType>(array, row)?, Microsecond)
        }
        DataType::Time64(_) => {
            time::time_of_day(primitive::<Time64NanosecondType>(array, row)?, Nanosecond)
        }
        DataType::Timestamp(unit, zone) => {
            let value = match unit {
                Second => primitive::<TimestampSecondType>(array, row),
                Millisecond => primitive::<TimestampMillisecondType>(array, row),
                Microsecond => primitive::<TimestampMicrosecondType>(array, row),
                Nanosecond => primitive::<TimestampNanosecondType>(array, row),
            }?;
            time::timestamp(value, *unit, zone.is_some())
        }
        DataType::Duration(unit) => {
            let value = match unit {
                Second => primitive::<DurationSecondType>(array, row),
                Millisecond => primitive::<DurationMillisecondType>(array, row),
                Microsecond => primitive::<DurationMicrosecondType>(array, row),
                Nanosecond => primitive::<DurationNanosecondType>(array, row),
            }?;
            time::duration(value, *unit)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            time::interval(primitive::<IntervalYearMonthType>(array, row)?, 0, 0)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = primitive::<IntervalDayTimeType>(array, row)?;
            let nanos = i64::from(value.milliseconds).saturating_mul(1_000_000);
            time::interval(0, value.days, nanos)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = primitive::<IntervalMonthDayNanoType>(array, row)?;
            time::interval(value.months, value.days, value.nanoseconds)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{
        FixedSizeListBuilder, Int32Builder, ListBuilder, ListViewBuilder, MapBuilder,
        StringBuilder, UnionBuilder,
    };
    use arrow_array::types::Int32Type;
    use arrow_array::{
        BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, Float16Array,
        Float32Array, Float64Array, Int8Array, LargeBinaryArray, LargeStringArray, NullArray,
        StringArray, StringViewArray, StructArray, TimestampMicrosecondArray, UInt64Array,
    };
    use arrow_schema::Field;
    use serde_json::json;
    use std::sync::Arc;

    fn all(array: &dyn Array) -> Vec<Value> {
        (0..array.len()).map(|row| to_json(array, row).unwrap()).collect()
    }

    #[test]
    fn integers_stay_exact() {
        assert_eq!(all(&UInt64Array::from(vec![u64::MAX, 0])), [json!(u64::MAX), json!(0)]);
        assert_eq!(all(&Int8Array::from(vec![Some(-128), None])), [json!(-128), json!(null)]);
    }

    #[test]
    fn floats_are_short_and_what_json_lacks_is_a_text() {
        let singles = Float32Array::from(vec![0.1, f32::MAX, -0.0, f32::NAN, f32::INFINITY]);
        let shown: Vec<String> = all(&singles).iter().map(Value::to_string).collect();
        assert_eq!(shown[0], "0.1");
        assert_eq!(shown[1].parse::<f32>().unwrap(), f32::MAX);
        assert_eq!(shown[2], "-0.0");
        assert_eq!(&shown[3..], ["\"NaN\"", "\"Infinity\""]);
        let doubles = Float64Array::from(vec![0.1, f64::NEG_INFINITY, 1e300]);
        assert_eq!(all(&doubles), [json!(0.1), json!("-Infinity"), json!(1e300)]);
        let halves = Float16Array::from_iter_values(
            [1.5_f32, f32::NAN].map(<Float16Type as ArrowPrimitiveType>::Native::from_f32),
        );
        assert_eq!(all(&halves), [json!(1.5), json!("NaN")]);
    }

    #[test]
    fn decimals_are_texts() {
        let decimals =
            Decimal128Array::from(vec![1250, -5]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(all(&decimals), [json!("12.50"), json!("-0.05")]);
        let wide = Decimal256Array::from(vec![arrow_buffer::i256::MAX])
            .with_precision_and_scale(76, 0)
            .unwrap();
        assert!(all(&wide)[0].as_str().unwrap().starts_with("578960446186"));
    }

    #[test]
    fn texts_and_binary_in_every_form() {
        let texts = ["", "é\"\n"];
        for array in [
            Arc::new(StringArray::from(texts.to_vec())) as ArrayRef,
            Arc::new(LargeStringArray::from(texts.to_vec())),
            Arc::new(StringViewArray::from(texts.to_vec())),
        ] {
            assert_eq!(all(&array), texts);
        }
        let bytes: [&[u8]; 2] = [b"", b"\x00\xff\x10"];
        for array in [
            Arc::new(BinaryArray::from(bytes.to_vec())) as ArrayRef,
            Arc::new(LargeBinaryArray::from(bytes.to_vec())),
            Arc::new(BinaryViewArray::from(bytes.to_vec())),
        ] {
            assert_eq!(all(&array), ["", "AP8Q"]);
        }
        let fixed =
            arrow_array::FixedSizeBinaryArray::try_from_iter([[1_u8, 2], [3, 4]].iter()).unwrap();
        assert_eq!(all(&fixed), ["AQI=", "AwQ="]);
    }

    #[test]
    fn lists_of_every_form_are_arrays() {
        let mut list = ListBuilder::new(Int32Builder::new());
        list.append_value([Some(1), None]);
        list.append_null();
        list.append_value([]);
        let expected = [json!([1, null]), json!(null), json!([])];
        assert_eq!(all(&list.finish()), expected);
        let mut list = ListViewBuilder::new(Int32Builder::new());
        list.append_value([Some(1), None]);
        list.append_null();
        list.append_value([]);
        assert_eq!(all(&list.finish()), expected);
        let mut list = FixedSizeListBuilder::new(Int32Builder::new(), 2);
        list.values().append_slice(&[1, 2]);
        list.append(true);
        assert_eq!(all(&list.finish()), [json!([1, 2])]);
    }

    #[test]
    fn nested_values_are_objects_and_maps_keep_their_order() {
        let ids: ArrayRef = Arc::new(Int8Array::from(vec![1, 2]));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let rows = StructArray::from(vec![
            (Arc::new(Field::new("id", DataType::Int8, true)), ids),
            (Arc::new(Field::new("name", DataType::Utf8, true)), names),
        ]);
        assert_eq!(all(&rows), [json!({"id": 1, "name": "a"}), json!({"id": 2, "name": null})]);
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        map.keys().append_value("z");
        map.values().append_value(1);
        map.keys().append_value("a");
        map.values().append_null();
        map.append(true).unwrap();
        assert_eq!(
            all(&map.finish()),
            [json!([{"key": "z", "value": 1}, {"key": "a", "value": null}])]
        );
    }

    #[test]
    fn encodings_show_the_value_that_stands_there() {
        let dictionary: DictionaryArray<Int8Type> =
            vec![Some("tumor"), None, Some("tumor")].into_iter().collect();
        assert_eq!(all(&dictionary), [json!("tumor"), json!(null), json!("tumor")]);
        let runs: RunArray<Int32Type> = ["a", "a", "b"].into_iter().collect();
        assert_eq!(all(&runs), ["a", "a", "b"]);
        assert_eq!(all(&runs.slice(1, 2)), ["a", "b"]);
        let mut union = UnionBuilder::new_dense();
        union.append::<Int32Type>("i", 7).unwrap();
        union.append::<Float64Type>("f", 0.5).unwrap();
        assert_eq!(all(&union.build().unwrap()), [json!(7), json!(0.5)]);
        assert_eq!(all(&NullArray::new(1)), [json!(null)]);
    }

    #[test]
    fn text_cells_are_bare_and_nulls_are_told_from_empty_texts() {
        let texts = StringArray::from(vec![Some("a b"), Some(""), None]);
        let cells: Vec<_> = (0..3).map(|row| to_text(&texts, row).unwrap()).collect();
        assert_eq!(cells, [Some("a b".to_owned()), Some(String::new()), None]);
        let flags = BooleanArray::from(vec![true]);
        assert_eq!(to_text(&flags, 0).unwrap().unwrap(), "true");
        let times = TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC");
        assert_eq!(to_text(&times, 0).unwrap().unwrap(), "1970-01-01T00:00:00.000001Z");
    }

    #[test]
    fn a_cell_that_stands_for_endless_copies_is_refused() {
        let mut values: ArrayRef = Arc::new(Int8Array::from(vec![1; 30]));
        for _ in 0..6 {
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            let size = i32::try_from(values.len()).unwrap();
            values = Arc::new(arrow_array::ListViewArray::new(
                field,
                vec![0_i32; 30].into(),
                vec![size; 30].into(),
                values,
                None,
            ));
        }
        let error = to_json(&values, 3).unwrap_err();
        assert_eq!((error.kind, error.row), (ErrorKind::Limit, 3));
        let long = StringArray::from(vec!["x".repeat(17 << 20)]);
        assert_eq!(to_text(&long, 0).unwrap_err().kind, ErrorKind::Limit);
        let bytes = BinaryArray::from_vec(vec![&[0_u8; 13 << 20]]);
        assert_eq!(to_json(&bytes, 0).unwrap_err().kind, ErrorKind::Limit);
    }

    #[test]
    fn a_row_behind_the_end_is_an_error() {
        assert!(to_json(&Int8Array::from(vec![1]), 1).is_err());
    }
}
