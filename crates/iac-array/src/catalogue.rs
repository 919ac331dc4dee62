//! The slide table of a layer: one row for each array that the layer defines, changes or deletes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, ListBuilder, StringBuilder, StructBuilder, UInt8Builder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use iac_format::TableKind;
use iac_format::table::{MAX_EXPANDED_BYTES, TableStream};

use crate::attr::Attr;
use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len};
use crate::meta::{ArrayMeta, NodeKind};

/// Rows of one record batch of the catalogue.
const BATCH_ROWS: usize = 65_536;

/// One row: an array at the version that the layer brought.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CatalogueRow {
    /// Everything about the array, never a patch of an older row.
    pub(crate) meta: Arc<ArrayMeta>,
    pub(crate) deleted: bool,
    /// How far chunks of older layers still count along each axis.
    pub(crate) clip: Option<Vec<u64>>,
    /// Chunks of the array in the layer.
    pub(crate) chunks_written: u64,
}

/// The column of how arrays are packed, which readers need not have.
const PACKING: &str = "packing";

fn attr_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Binary, false),
    ])
}

fn item(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", data_type, false)))
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("slide_idx", DataType::UInt32, false),
        Field::new("slide_id", DataType::Utf8, false),
        Field::new("patient_id", DataType::Utf8, false),
        Field::new("array_id", DataType::UInt64, false),
        Field::new("state", DataType::UInt8, false),
        Field::new("dtype", DataType::Utf8, false),
        Field::new("shape", item(DataType::UInt64), false),
        Field::new("chunk_shape", item(DataType::UInt64), false),
        Field::new("dims", item(DataType::Utf8), false),
        Field::new("fill", DataType::Binary, true),
        Field::new("clip", item(DataType::UInt64), true),
        Field::new("attrs", item(DataType::Struct(attr_fields())), false),
        Field::new("chunks_written", DataType::UInt64, false),
        Field::new(PACKING, DataType::Utf8, true),
    ])
}

fn numbers() -> ListBuilder<UInt64Builder> {
    ListBuilder::new(UInt64Builder::new()).with_field(Field::new("item", DataType::UInt64, false))
}

/// The table as a stream of record batches with compressed buffers.
pub(crate) fn encode(rows: &[CatalogueRow]) -> Result<Vec<u8>> {
    let schema = schema();
    let mut batches = Vec::new();
    let mut first = 0_u32;
    for part in rows.chunks(BATCH_ROWS) {
        batches.push(batch(&schema, part, first)?);
        let more = u32::try_from(part.len()).unwrap_or(u32::MAX);
        first = first.checked_add(more).ok_or(ArrayError::TooLarge {
            what: "number of arrays in a layer",
            found: u64_len(rows.len()),
            allowed: u64::from(u32::MAX),
        })?;
    }
    // More than readers give memory to must not be written either.
    let bytes = batches
        .iter()
        .fold(0_u64, |all, batch| all.saturating_add(u64_len(batch.get_array_memory_size())));
    if bytes > MAX_EXPANDED_BYTES {
        return Err(ArrayError::TooLarge {
            what: "catalogue of a layer (bytes; flush more often)",
            found: bytes,
            allowed: MAX_EXPANDED_BYTES,
        });
    }
    Ok(crate::stream::encode(&schema, &batches)?.bytes)
}

fn batch(schema: &Schema, rows: &[CatalogueRow], first: u32) -> Result<RecordBatch> {
    let mut index = UInt32Builder::new();
    let (mut names, mut patients, mut dtypes) =
        (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let (mut ids, mut written) = (UInt64Builder::new(), UInt64Builder::new());
    let mut states = UInt8Builder::new();
    let mut packings = StringBuilder::new();
    let (mut shapes, mut chunks, mut clips) = (numbers(), numbers(), numbers());
    let mut dims = ListBuilder::new(StringBuilder::new()).with_field(Field::new(
        "item",
        DataType::Utf8,
        false,
    ));
    let mut fills = BinaryBuilder::new();
    let parts: Vec<Box<dyn arrow_array::builder::ArrayBuilder>> =
        vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())];
    let mut attrs = ListBuilder::new(StructBuilder::new(attr_fields(), parts))
        .with_field(Field::new("item", DataType::Struct(attr_fields()), false));
    for (number, row) in (first..).zip(rows) {
        let meta = &row.meta;
        index.append_value(number);
        names.append_value(&meta.name);
        patients.append_value("");
        ids.append_value(meta.id);
        states.append_value(u8::from(row.deleted));
        match meta.kind {
            NodeKind::Array => dtypes.append_value(meta.dtype.to_string()),
            NodeKind::Group => dtypes.append_value("group"),
            NodeKind::Store => dtypes.append_value("none"),
        }
        for (builder, values) in [(&mut shapes, &meta.shape), (&mut chunks, &meta.chunk)] {
            builder.values().append_slice(values);
            builder.append(true);
        }
        clips.values().append_slice(row.clip.as_deref().unwrap_or_default());
        clips.append(row.clip.is_some());
        meta.dims.iter().for_each(|dim| dims.values().append_value(dim));
        dims.append(true);
        fills.append_option(meta.fill.as_deref());
        for (key, value) in &meta.attrs {
            let entry = attrs.values();
            if let Some(keys) = entry.field_builder::<StringBuilder>(0) {
                keys.append_value(key);
            }
            if let Some(values) = entry.field_builder::<BinaryBuilder>(1) {
                values.append_value(value.encode());
            }
            entry.append(true);
        }
        attrs.append(true);
        written.append_value(row.chunks_written);
        packings.append_option(meta.packing.as_deref());
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(index.finish()),
        Arc::new(names.finish()),
        Arc::new(patients.finish()),
        Arc::new(ids.finish()),
        Arc::new(states.finish()),
        Arc::new(dtypes.finish()),
        Arc::new(shapes.finish()),
        Arc::new(chunks.finish()),
        Arc::new(dims.finish()),
        Arc::new(fills.finish()),
        Arc::new(clips.finish()),
        Arc::new(attrs.finish()),
        Arc::new(written.finish()),
        Arc::new(packings.finish()),
    ];
    RecordBatch::try_new(Arc::new(schema.clone()), columns)
        .map_err(|error| ArrayError::argument(format!("the catalogue has no table: {error}")))
}

/// Reads the table; what no writer makes is an error.
pub(crate) fn decode(object: &str, bytes: Bytes) -> Result<Vec<CatalogueRow>> {
    let corrupt = |reason: String| ArrayError::corrupt(object, reason);
    let table =
        TableStream::parse(bytes, TableKind::Slide).map_err(|error| corrupt(error.to_string()))?;
    let batches = table.decode().map_err(|error| corrupt(error.to_string()))?;
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = Columns::of(batch).map_err(corrupt)?;
        for row in 0..batch.num_rows() {
            let read = columns.row(row);
            let read = read.map_err(|reason| corrupt(format!("slide row {row}: {reason}")))?;
            rows.push(read);
        }
    }
    Ok(rows)
}

struct Columns<'a> {
    batch: &'a RecordBatch,
    attrs: &'a StructArray,
}

type Check<T> = std::result::Result<T, String>;

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Check<Self> {
        let expected = schema();
        for field in expected.fields() {
            let name = field.name();
            if name == PACKING && batch.column_by_name(name).is_none() {
                continue;
            }
            let column =
                batch.column_by_name(name).ok_or_else(|| format!("there is no column `{name}`"))?;
            if !same_type(column.data_type(), field.data_type()) {
                return Err(format!(
                    "column `{name}` has type {} instead of {}",
                    column.data_type(),
                    field.data_type()
                ));
            }
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(format!("column `{name}` has {} nulls", column.null_count()));
            }
        }
        let attrs = batch.column_by_name("attrs").and_then(|column| column.as_list_opt::<i32>());
        let attrs = attrs.and_then(|list| list.values().as_struct_opt());
        Ok(Self { batch, attrs: attrs.ok_or("column `attrs` has no entries")? })
    }

    fn column(&self, name: &str) -> Check<&'a ArrayRef> {
        self.batch.column_by_name(name).ok_or_else(|| format!("there is no column `{name}`"))
    }

    fn text(&self, name: &str, row: usize) -> Check<String> {
        let column = self.column(name)?.as_string_opt::<i32>().ok_or("no text")?;
        Ok(column.value(row).to_owned())
    }

    fn number(&self, name: &str, row: usize) -> Check<u64> {
        let column = self.column(name)?.as_primitive_opt::<UInt64Type>().ok_or("no numbers")?;
        Ok(column.value(row))
    }

    fn list(&self, name: &str, row: usize) -> Check<Option<ArrayRef>> {
        let column = self.column(name)?.as_list_opt::<i32>().ok_or("no list")?;
        Ok((!column.is_null(row)).then(|| column.value(row)))
    }

    fn numbers(&self, name: &str, row: usize) -> Check<Option<Vec<u64>>> {
        let Some(values) = self.list(name, row)? else {
            return Ok(None);
        };
        let values = values.as_primitive_opt::<UInt64Type>().ok_or("no numbers")?;
        if values.null_count() > 0 {
            return Err(format!("`{name}` has a null"));
        }
        Ok(Some(values.values().to_vec()))
    }

    fn row(&self, row: usize) -> Check<CatalogueRow> {
        let state = self.column("state")?.as_primitive_opt::<UInt8Type>().ok_or("no numbers")?;
        let deleted = match state.value(row) {
            0 => false,
            1 => true,
            other => return Err(format!("state {other} is not known")),
        };
        let dtype = self.text("dtype", row)?;
        let (kind, dtype) = match dtype.as_str() {
            "group" => (NodeKind::Group, DType::UInt8),
            "none" => (NodeKind::Store, DType::UInt8),
            name => (NodeKind::Array, name.parse::<DType>().map_err(|error| error.to_string())?),
        };
        let dims = self.list("dims", row)?.ok_or("no `dims`")?;
        let dims = dims.as_string_opt::<i32>().ok_or("`dims` is no text")?;
        let fill = self.column("fill")?.as_binary_opt::<i32>().ok_or("`fill` is no bytes")?;
        let meta = ArrayMeta {
            id: self.number("array_id", row)?,
            name: self.text("slide_id", row)?,
            kind,
            dtype,
            shape: self.numbers("shape", row)?.ok_or("no `shape`")?,
            chunk: self.numbers("chunk_shape", row)?.ok_or("no `chunk_shape`")?,
            dims: (0..dims.len()).map(|axis| dims.value(axis).to_owned()).collect(),
            fill: (!fill.is_null(row)).then(|| fill.value(row).to_vec()),
            attrs: self.attrs(row)?,
            packing: self.packing(row)?,
        };
        meta.check()?;
        let named = crate::meta::check_name(&meta.name).is_ok();
        if (kind == NodeKind::Store) != (meta.id == 0) || named == (kind == NodeKind::Store) {
            return Err(format!("array id {} with name `{}`", meta.id, meta.name));
        }
        let clip = self.numbers("clip", row)?;
        if clip.as_ref().is_some_and(|clip| clip.len() != meta.shape.len()) {
            return Err("`clip` has another number of axes than the array".to_owned());
        }
        let chunks_written = self.number("chunks_written", row)?;
        let total = meta.grid().map_or(0, |grid| grid.total());
        if chunks_written > total {
            return Err(format!("{chunks_written} chunks were written of {total}"));
        }
        Ok(CatalogueRow { meta: Arc::new(meta), deleted, clip, chunks_written })
    }

    fn packing(&self, row: usize) -> Check<Option<String>> {
        let Some(column) = self.batch.column_by_name(PACKING) else {
            return Ok(None);
        };
        let column = column.as_string_opt::<i32>().ok_or("`packing` is no text")?;
        Ok((!column.is_null(row)).then(|| column.value(row).to_owned()))
    }

    fn attrs(&self, row: usize) -> Check<BTreeMap<String, Attr>> {
        let list = self.column("attrs")?.as_list_opt::<i32>().ok_or("`attrs` is no list")?;
        let offsets = list.value_offsets();
        let at = |row: usize| offsets.get(row).and_then(|offset| usize::try_from(*offset).ok());
        let (first, end) = at(row).zip(at(row.saturating_add(1))).ok_or("`attrs` is cut")?;
        let keys =
            self.attrs.column_by_name("key").and_then(|column| column.as_string_opt::<i32>());
        let values =
            self.attrs.column_by_name("value").and_then(|column| column.as_binary_opt::<i32>());
        let (keys, values) = keys.zip(values).ok_or("`attrs` has no keys or no values")?;
        let mut attrs = BTreeMap::new();
        for entry in first..end {
            let key = keys.value(entry).to_owned();
            let value = Attr::decode(values.value(entry))
                .ok_or_else(|| format!("attribute `{key}` has no value that is known"))?;
            if attrs.insert(key, value).is_some() {
                return Err(format!("attribute `{}` occurs twice", keys.value(entry)));
            }
        }
        Ok(attrs)
    }
}

/// Types are the same if they differ in nothing but whether nulls are allowed.
pub(crate) fn same_type(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::List(found), DataType::List(expected)) => {
            same_type(found.data_type(), expected.data_type())
        }
        (DataType::Struct(found), DataType::Struct(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| {
                    found.name() == expected.name()
                        && same_type(found.data_type(), expected.data_type())
                })
        }
        _ => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::ArraySpec;

    fn rows() -> Vec<CatalogueRow> {
        let spec = ArraySpec::new(DType::Float32, &[6, 4])
            .chunks(&[2, 4])
            .dims(&["y", "x"])
            .fill(1.5_f32)
            .attr("unit", "mm")
            .attr("spacing", vec![0.5, 0.25]);
        let array = CatalogueRow {
            meta: Arc::new(ArrayMeta::define(9, "ct/volume", spec).unwrap()),
            deleted: false,
            clip: Some(vec![6, 2]),
            chunks_written: 3,
        };
        let group = CatalogueRow {
            meta: Arc::new(ArrayMeta::node(4, "ct", NodeKind::Group)),
            deleted: true,
            clip: None,
            chunks_written: 0,
        };
        vec![array, group]
    }

    #[test]
    fn rows_read_back() {
        let bytes = Bytes::from(encode(&rows()).unwrap());
        assert_eq!(decode("x", bytes).unwrap(), rows());
        assert!(decode("x", Bytes::from(encode(&[]).unwrap())).unwrap().is_empty());
    }

    #[test]
    fn damage_without_a_checksum_is_an_error_or_sound_rows() {
        let sound = encode(&rows()).unwrap();
        for at in 0..sound.len() {
            for change in [0x01, 0x80, 0xFF] {
                let mut bytes = sound.clone();
                bytes[at] ^= change;
                if let Ok(rows) = decode("x", Bytes::from(bytes)) {
                    rows.iter().for_each(|row| row.meta.check().unwrap());
                }
            }
            drop(decode("x", Bytes::from(sound[..at].to_vec())));
        }
    }

    #[test]
    fn a_catalogue_that_readers_would_refuse_is_not_written() {
        let mut row = rows().remove(1);
        let mut meta = ArrayMeta::clone(&row.meta);
        meta.attrs.insert("big".to_owned(), Attr::Bytes(vec![0; 16 << 20]));
        row.meta = Arc::new(meta);
        let error = encode(&vec![row; 65]).unwrap_err();
        assert!(matches!(error, ArrayError::TooLarge { .. }), "{error}");
    }
}
