//! Arrow types by the names that pyarrow prints: `uint64`, `timestamp[us, tz=UTC]`.

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit, UnionMode};

/// The name of a type.
///
/// A dictionary's `ordered` flag belongs to the field, not to the type; [`field_type_name`] knows
/// it.
///
/// ```
/// use arrow_schema::DataType;
/// use iac_ops::type_name::type_name;
///
/// assert_eq!(type_name(&DataType::LargeUtf8), "large_string");
/// assert_eq!(type_name(&DataType::Float16), "halffloat");
/// ```
#[must_use]
pub fn type_name(data_type: &DataType) -> String {
    named(data_type, false)
}

/// The name of a column's type.
#[must_use]
pub fn field_type_name(field: &Field) -> String {
    named(field.data_type(), field.dict_is_ordered().unwrap_or(false))
}

fn named(data_type: &DataType, ordered: bool) -> String {
    match data_type {
        DataType::Null => "null".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Int8 => "int8".to_owned(),
        DataType::Int16 => "int16".to_owned(),
        DataType::Int32 => "int32".to_owned(),
        DataType::Int64 => "int64".to_owned(),
        DataType::UInt8 => "uint8".to_owned(),
        DataType::UInt16 => "uint16".to_owned(),
        DataType::UInt32 => "uint32".to_owned(),
        DataType::UInt64 => "uint64".to_owned(),
        DataType::Float16 => "halffloat".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Timestamp(unit, None) => format!("timestamp[{}]", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => {
            format!("timestamp[{}, tz={zone}]", unit_name(*unit))
        }
        DataType::Date32 => "date32[day]".to_owned(),
        DataType::Date64 => "date64[ms]".to_owned(),
        DataType::Time32(unit) => format!("time32[{}]", unit_name(*unit)),
        DataType::Time64(unit) => format!("time64[{}]", unit_name(*unit)),
        DataType::Duration(unit) => format!("duration[{}]", unit_name(*unit)),
        DataType::Interval(unit) => match unit {
            IntervalUnit::YearMonth => "month_interval",
            IntervalUnit::DayTime => "day_time_interval",
            IntervalUnit::MonthDayNano => "month_day_nano_interval",
        }
        .to_owned(),
        DataType::Binary => "binary".to_owned(),
        DataType::LargeBinary => "large_binary".to_owned(),
        DataType::BinaryView => "binary_view".to_owned(),
        DataType::FixedSizeBinary(width) => format!("fixed_size_binary[{width}]"),
        DataType::Utf8 => "string".to_owned(),
        DataType::LargeUtf8 => "large_string".to_owned(),
        DataType::Utf8View => "string_view".to_owned(),
        DataType::List(item) => format!("list<{}>", child(item)),
        DataType::LargeList(item) => format!("large_list<{}>", child(item)),
        DataType::ListView(item) => format!("list_view<{}>", child(item)),
        DataType::LargeListView(item) => format!("large_list_view<{}>", child(item)),
        DataType::FixedSizeList(item, size) => {
            format!("fixed_size_list<{}>[{size}]", child(item))
        }
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|field| child(field)).collect();
            format!("struct<{}>", fields.join(", "))
        }
        DataType::Union(fields, mode) => {
            let mode = match mode {
                UnionMode::Dense => "dense_union",
                UnionMode::Sparse => "sparse_union",
            };
            let fields: Vec<String> =
                fields.iter().map(|(id, field)| format!("{}={id}", child(field))).collect();
            format!("{mode}<{}>", fields.join(", "))
        }
        DataType::Dictionary(keys, values) => format!(
            "dictionary<values={}, indices={}, ordered={}>",
            type_name(values),
            type_name(keys),
            u8::from(ordered)
        ),
        DataType::Decimal32(precision, scale) => format!("decimal32({precision}, {scale})"),
        DataType::Decimal64(precision, scale) => format!("decimal64({precision}, {scale})"),
        DataType::Decimal128(precision, scale) => format!("decimal128({precision}, {scale})"),
        DataType::Decimal256(precision, scale) => format!("decimal256({precision}, {scale})"),
        DataType::Map(entries, sorted) => {
            let sorted = if *sorted { ", keys_sorted" } else { "" };
            match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    let parts: Vec<String> =
                        fields.iter().map(|field| field_type_name(field)).collect();
                    format!("map<{}{sorted}>", parts.join(", "))
                }
                other => format!("map<{}{sorted}>", type_name(other)),
            }
        }
        DataType::RunEndEncoded(ends, values) => format!(
            "run_end_encoded<run_ends: {}, values: {}>",
            field_type_name(ends),
            field_type_name(values)
        ),
    }
}

/// A child as pyarrow prints it inside its parent.
fn child(field: &Field) -> String {
    let name = format!("{}: {}", field.name(), field_type_name(field));
    if field.is_nullable() { name } else { format!("{name} not null") }
}

const fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn nested_types_are_named_as_pyarrow_does() {
        let item = |data_type, nullable| Arc::new(Field::new("item", data_type, nullable));
        for (data_type, name) in [
            (
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                "timestamp[us, tz=UTC]",
            ),
            (
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
                "dictionary<values=string, indices=int32, ordered=0>",
            ),
            (DataType::List(item(DataType::Int32, true)), "list<item: int32>"),
            (
                DataType::FixedSizeList(item(DataType::Float16, false), 3),
                "fixed_size_list<item: halffloat not null>[3]",
            ),
            (DataType::Decimal128(10, -2), "decimal128(10, -2)"),
            (
                DataType::Map(
                    Arc::new(Field::new(
                        "entries",
                        DataType::Struct(
                            vec![
                                Field::new("key", DataType::Utf8, false),
                                Field::new("value", DataType::Int8, true),
                            ]
                            .into(),
                        ),
                        false,
                    )),
                    false,
                ),
                "map<string, int8>",
            ),
        ] {
            assert_eq!(type_name(&data_type), name);
        }
    }
}
