//! Turns the schema message into a schema that is safe to hand to the Arrow library.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Endianness, Message, Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::fault::{Check, Fault};

/// Nested types may be this deep, which is also what pyarrow reads unless told otherwise.
const MAX_DEPTH: usize = 64;

/// One dictionary of the stream, as the schema declares it.
#[derive(Debug)]
pub(super) struct Dictionary {
    /// A schema of one column, the dictionary's values.
    pub(super) schema: SchemaRef,
    /// Dictionaries that the values are made of.
    pub(super) nested: Vec<i64>,
}

/// What the first message of a stream says.
#[derive(Debug)]
pub(super) struct TableSchema {
    pub(super) schema: Schema,
    pub(super) dictionaries: HashMap<i64, Dictionary>,
}

impl TableSchema {
    /// Reads the schema message; `metadata_bytes` is the size of its flatbuffer.
    pub(super) fn read(message: &Message<'_>, metadata_bytes: usize) -> Check<Self> {
        let schema = message
            .header_as_schema()
            .ok_or_else(|| Fault::damaged("the first message is not a schema"))?;
        match schema.endianness() {
            Endianness::Little => {}
            Endianness::Big => {
                return Err(Fault::unsupported("big-endian tables are not supported"));
            }
            Endianness(other) => {
                return Err(Fault::damaged(format!(
                    "the schema's byte order {other} is not known"
                )));
            }
        }
        let mut text = Text::new(metadata_bytes);
        for pair in schema.custom_metadata().into_iter().flatten() {
            text.take(pair.key())?;
            text.take(pair.value())?;
        }
        for field in schema.fields().into_iter().flatten() {
            check_flatbuffer_field(&field, &mut text, 0)?;
        }
        let schema = try_fb_to_schema(schema)
            .map_err(|error| Fault::damaged(format!("the schema cannot be read ({error})")))?;
        let mut dictionaries = HashMap::new();
        for field in schema.fields() {
            check_type(field.data_type())
                .map_err(|fault| fault.within(&format!("the type of column `{}`", field.name())))?;
            collect_dictionaries(field, &mut dictionaries)?;
        }
        Ok(Self { schema, dictionaries })
    }
}

/// Bounds the text that the schema's names and metadata may turn into.
///
/// A flatbuffer may refer to one string from many places, and each of them becomes a string of
/// its own.
struct Text {
    left: usize,
}

impl Text {
    const fn new(metadata_bytes: usize) -> Self {
        Self { left: metadata_bytes.saturating_mul(16).saturating_add(1 << 20) }
    }

    fn take(&mut self, text: Option<&str>) -> Check<()> {
        let length = text.map_or(0, str::len);
        self.left = self
            .left
            .checked_sub(length)
            .ok_or_else(|| Fault::damaged("the schema repeats one text too often"))?;
        Ok(())
    }
}

/// What the conversion to Arrow's schema takes for granted.
fn check_flatbuffer_field(
    field: &arrow_ipc::Field<'_>,
    text: &mut Text,
    depth: usize,
) -> Check<()> {
    if depth >= MAX_DEPTH {
        return Err(Fault::unsupported(format!(
            "types nested deeper than {MAX_DEPTH} levels are not supported"
        )));
    }
    text.take(field.name())?;
    if field.type_type().variant_name().is_none() {
        return Err(Fault::unsupported(format!(
            "the type of column `{}` has the tag {}, which is not known",
            field.name().unwrap_or_default(),
            field.type_type().0,
        )));
    }
    for pair in field.custom_metadata().into_iter().flatten() {
        text.take(pair.key())?;
        text.take(pair.value())?;
    }
    if field.type_type() == Type::Timestamp {
        text.take(field.type_as_timestamp().and_then(|t| t.timezone()))?;
    }
    if field.type_type() == Type::Union {
        check_union(field)?;
    }
    for child in field.children().into_iter().flatten() {
        check_flatbuffer_field(&child, text, depth.saturating_add(1))?;
    }
    Ok(())
}

/// Type ids are signed bytes in the library but 32-bit numbers in the format.
fn check_union(field: &arrow_ipc::Field<'_>) -> Check<()> {
    let children = field.children().map_or(0, |children| children.len());
    if children > 128 {
        return Err(Fault::damaged(format!(
            "a union has {children} children (at most 128 are possible)"
        )));
    }
    let ids = field.type_as_union().and_then(|union| union.typeIds());
    for id in ids.into_iter().flatten() {
        if !(0..=127).contains(&id) {
            return Err(Fault::damaged(format!(
                "a union has the type id {id} (0 to 127 are possible)"
            )));
        }
    }
    Ok(())
}

/// Refuses types that no array can have.
fn check_type(data_type: &DataType) -> Check<()> {
    match data_type {
        DataType::FixedSizeBinary(width) if *width < 0 => {
            Err(Fault::damaged(format!("width {width} is negative")))
        }
        DataType::Decimal32(precision, _) => check_precision(*precision, 9),
        DataType::Decimal64(precision, _) => check_precision(*precision, 18),
        DataType::Decimal128(precision, _) => check_precision(*precision, 38),
        DataType::Decimal256(precision, _) => check_precision(*precision, 76),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => check_type(field.data_type()),
        DataType::FixedSizeList(field, size) => {
            if *size < 0 {
                return Err(Fault::damaged(format!("list size {size} is negative")));
            }
            check_type(field.data_type())
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => check_type(entries.data_type()),
            other => Err(Fault::damaged(format!(
                "a map's entries must be a struct of key and value, found {other}"
            ))),
        },
        DataType::Struct(fields) => {
            fields.iter().try_for_each(|field| check_type(field.data_type()))
        }
        DataType::Union(fields, _) => {
            fields.iter().try_for_each(|(_, field)| check_type(field.data_type()))
        }
        DataType::RunEndEncoded(ends, values) => {
            if !matches!(ends.data_type(), DataType::Int16 | DataType::Int32 | DataType::Int64) {
                return Err(Fault::damaged(format!(
                    "run ends must be int16, int32 or int64, found {}",
                    ends.data_type()
                )));
            }
            check_type(values.data_type())
        }
        DataType::Dictionary(_, values) => check_type(values),
        _ => Ok(()),
    }
}

fn check_precision(precision: u8, most: u8) -> Check<()> {
    if precision == 0 || precision > most {
        return Err(Fault::damaged(format!(
            "decimal precision {precision} is not between 1 and {most}"
        )));
    }
    Ok(())
}

fn collect_dictionaries(field: &Field, found: &mut HashMap<i64, Dictionary>) -> Check<()> {
    if let DataType::Dictionary(_, values) = field.data_type()
        && let Some(id) = dictionary_id(field)
    {
        let mut nested = Vec::new();
        nested_ids(values, &mut nested);
        if nested.contains(&id) {
            return Err(Fault::damaged(format!("dictionary {id} contains itself")));
        }
        match found.get(&id) {
            Some(known) => {
                let same = known
                    .schema
                    .fields()
                    .first()
                    .is_some_and(|field| field.data_type() == values.as_ref());
                if !same || known.nested != nested {
                    return Err(Fault::damaged(format!(
                        "dictionary {id} is declared with different types"
                    )));
                }
            }
            None => {
                let schema = Schema::new(vec![Field::new("", values.as_ref().clone(), true)]);
                let schema = Arc::new(schema);
                found.insert(id, Dictionary { schema, nested });
            }
        }
    }
    for child in children(field.data_type()) {
        collect_dictionaries(child, found)?;
    }
    Ok(())
}

/// Ids of all dictionaries that a column needs, those of its dictionaries' values included.
pub(super) fn column_dictionaries(field: &Field) -> Vec<i64> {
    let mut ids = Vec::new();
    if let Some(id) = dictionary_id(field) {
        ids.push(id);
    }
    nested_ids(field.data_type(), &mut ids);
    ids
}

fn nested_ids(data_type: &DataType, ids: &mut Vec<i64>) {
    for child in children(data_type) {
        ids.extend(dictionary_id(child));
        nested_ids(child.data_type(), ids);
    }
}

/// The fields that a type consists of; those of a dictionary's values count as its own.
pub(super) fn children(data_type: &DataType) -> Vec<&Field> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.as_ref()],
        DataType::Struct(fields) => fields.iter().map(AsRef::as_ref).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.as_ref()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends.as_ref(), values.as_ref()],
        DataType::Dictionary(_, values) => children(values),
        _ => Vec::new(),
    }
}

/// Whether a type or one that it is made of, dictionaries included, satisfies `test`.
pub(super) fn any_type(data_type: &DataType, test: &dyn Fn(&DataType) -> bool) -> bool {
    test(data_type)
        || match data_type {
            DataType::Dictionary(_, values) => any_type(values, test),
            _ => children(data_type).into_iter().any(|child| any_type(child.data_type(), test)),
        }
}

/// The dictionary's number in the stream.
///
/// The library wants to stop keeping these numbers in its fields, but decodes by them until then.
#[expect(deprecated)]
fn dictionary_id(field: &Field) -> Option<i64> {
    field.dict_id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_types_are_refused() {
        let item = |data_type| Arc::new(Field::new("item", data_type, true));
        for bad in [
            DataType::FixedSizeBinary(-1),
            DataType::Decimal128(0, 0),
            DataType::Decimal128(39, 0),
            DataType::Decimal256(77, 0),
            DataType::FixedSizeList(item(DataType::Int8), -2),
            DataType::Map(item(DataType::Int8), false),
            DataType::RunEndEncoded(item(DataType::Utf8), item(DataType::Int8)),
            DataType::List(item(DataType::FixedSizeBinary(-7))),
        ] {
            assert!(matches!(check_type(&bad), Err(Fault::Damaged(_))), "{bad:?}");
        }
    }

    #[test]
    fn repeated_text_is_bounded() {
        let mut text = Text::new(0);
        let name = "x".repeat(1 << 19);
        text.take(Some(&name)).unwrap();
        text.take(Some(&name)).unwrap();
        assert!(text.take(Some(&name)).is_err());
    }
}
