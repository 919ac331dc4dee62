//! The slide table of a layer: one row for each array that the layer defines, changes or deletes.

mod read;

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, ListBuilder, StringBuilder, StructBuilder, UInt8Builder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema};
use iac_format::table::MAX_EXPANDED_BYTES;

pub(crate) use self::read::decode;
use crate::error::{ArrayError, Result, u64_len};
use crate::meta::{ArrayMeta, NodeKind};

/// Rows of one record batch of the catalogue. Readers decode one after the other, and what the
/// attributes of a batch take meanwhile is a multiple of what is kept.
const BATCH_ROWS: usize = 8_192;

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
    /// The newest version that changed the array, as far as a joined layer goes; where it is not
    /// noted, that is the version through which the layer goes.
    pub(crate) through: Option<u64>,
}

/// The rows of a layer, found by the array's id.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Rising, each of the row at its place.
    ids: Vec<u64>,
    rows: Vec<CatalogueRow>,
}

impl Rows {
    /// The id that two rows have, if there is one.
    pub(crate) fn new(mut rows: Vec<CatalogueRow>) -> std::result::Result<Self, u64> {
        // They come sorted from every writer.
        rows.sort_by_key(|row| row.meta.id);
        let ids: Vec<u64> = rows.iter().map(|row| row.meta.id).collect();
        let twice = ids.windows(2).find_map(|pair| match pair {
            [one, other] if one == other => Some(*one),
            _ => None,
        });
        twice.map_or(Ok(Self { ids, rows }), Err)
    }

    pub(crate) fn get(&self, id: &u64) -> Option<&CatalogueRow> {
        // Arrays that are made together have ids that follow each other, so most lie where
        // counting from the first leads.
        let first = *self.ids.first()?;
        let near = id.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        let at = match near.filter(|at| self.ids.get(*at) == Some(id)) {
            Some(at) => at,
            None => self.ids.binary_search(id).ok()?,
        };
        self.rows.get(at)
    }

    pub(crate) fn contains_key(&self, id: &u64) -> bool {
        self.get(id).is_some()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &u64> {
        self.ids.iter()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&u64, &CatalogueRow)> {
        self.ids.iter().zip(&self.rows)
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = (&'a u64, &'a CatalogueRow);
    type IntoIter = std::iter::Zip<std::slice::Iter<'a, u64>, std::slice::Iter<'a, CatalogueRow>>;

    fn into_iter(self) -> Self::IntoIter {
        self.ids.iter().zip(&self.rows)
    }
}

/// The column of how arrays are packed, which readers need not have.
const PACKING: &str = "packing";
/// The column of when arrays of a joined layer changed, which only writers need.
const THROUGH: &str = "through";
/// The column of whether elements can be null, in layers with the feature `validity`.
const NULLABLE: &str = "nullable";

fn attr_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Binary, false),
    ])
}

fn item(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", data_type, false)))
}

/// Whether a layer of these rows needs the feature `validity`.
pub(crate) fn has_nullable(rows: &[CatalogueRow]) -> bool {
    rows.iter().any(|row| row.meta.nullable)
}

fn schema(nullable: bool) -> Schema {
    let mut fields = vec![
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
        Field::new(THROUGH, DataType::UInt64, true),
    ];
    fields.extend(nullable.then(|| Field::new(NULLABLE, DataType::Boolean, false)));
    Schema::new(fields)
}

fn numbers() -> ListBuilder<UInt64Builder> {
    ListBuilder::new(UInt64Builder::new()).with_field(Field::new("item", DataType::UInt64, false))
}

/// The table as a stream of record batches with compressed buffers.
pub(crate) fn encode(rows: &[CatalogueRow]) -> Result<Vec<u8>> {
    let schema = schema(has_nullable(rows));
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
    let mut through = UInt64Builder::new();
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
        meta.attrs.for_each(|key, value| {
            let entry = attrs.values();
            if let Some(keys) = entry.field_builder::<StringBuilder>(0) {
                keys.append_value(key);
            }
            if let Some(values) = entry.field_builder::<BinaryBuilder>(1) {
                values.append_value(value);
            }
            entry.append(true);
        });
        attrs.append(true);
        written.append_value(row.chunks_written);
        packings.append_option(meta.packing.as_deref());
        through.append_option(row.through);
    }
    let mut columns: Vec<ArrayRef> = vec![
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
        Arc::new(through.finish()),
    ];
    if schema.column_with_name(NULLABLE).is_some() {
        let nullable: Vec<bool> = rows.iter().map(|row| row.meta.nullable).collect();
        columns.push(Arc::new(BooleanArray::from(nullable)));
    }
    RecordBatch::try_new(Arc::new(schema.clone()), columns)
        .map_err(|error| ArrayError::argument(format!("the catalogue has no table: {error}")))
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
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use iac_format::TableKind;
    use iac_format::table::TableStream;

    use super::*;
    use crate::attr::Attr;
    use crate::dtype::DType;
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
            through: Some(5),
        };
        let group = CatalogueRow {
            meta: Arc::new(ArrayMeta::node(4, "ct", NodeKind::Group)),
            deleted: true,
            clip: None,
            chunks_written: 0,
            through: None,
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
    fn rows_of_several_batches_read_back_and_are_counted_through() {
        let row = |id: u64| {
            let spec = ArraySpec::new(DType::Int16, &[4]).attr("n", i64::try_from(id).unwrap());
            CatalogueRow {
                meta: Arc::new(ArrayMeta::define(id, &format!("a{id:06}"), spec).unwrap()),
                deleted: false,
                clip: None,
                chunks_written: 1,
                through: None,
            }
        };
        let mut all: Vec<CatalogueRow> = (1..=BATCH_ROWS as u64 * 2 + 5).map(row).collect();
        let bytes = Bytes::from(encode(&all).unwrap());
        let table = TableStream::parse(bytes.clone(), TableKind::Slide).unwrap();
        assert_eq!(table.batch_rows(), [BATCH_ROWS as u64, BATCH_ROWS as u64, 5]);
        assert_eq!(decode("x", bytes).unwrap(), all);
        let at = BATCH_ROWS + 2;
        all[at].chunks_written = 9;
        let error = decode("x", Bytes::from(encode(&all).unwrap())).unwrap_err().to_string();
        assert!(error.contains(&format!("slide row {at}: 9 chunks")), "{error}");
    }

    #[test]
    fn rows_that_are_alike_share_what_they_have_in_common() {
        let row = |id: u64, unit: &str| {
            let spec = ArraySpec::new(DType::Int16, &[4]).attr("unit", unit).attr("z", 1_i64);
            CatalogueRow {
                meta: Arc::new(ArrayMeta::define(id, &format!("a{id}"), spec).unwrap()),
                deleted: false,
                clip: None,
                chunks_written: 1,
                through: None,
            }
        };
        let mut all = vec![row(3, "mm"), row(4, "s"), rows().remove(0), row(5, "mm")];
        all[2].meta = Arc::new(ArrayMeta { id: 9, ..ArrayMeta::clone(&all[2].meta) });
        let back = decode("x", Bytes::from(encode(&all).unwrap())).unwrap();
        assert_eq!(back, all);
        assert!(Arc::ptr_eq(&back[0].meta.form, &back[1].meta.form));
        let mut own = ArrayMeta::clone(&back[0].meta);
        own.shape[0] = 2;
        assert_eq!(back[0].meta.shape, [4]);
        let found = Rows::new(back).unwrap();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [3, 4, 5, 9]);
        assert_eq!(found.get(&9).unwrap().meta.name, "ct/volume");
        assert!(found.get(&6).is_none() && found.get(&1).is_none());
        all.push(row(3, "mm"));
        assert_eq!(Rows::new(all).unwrap_err(), 3);
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
        let big = (String::from("big"), Attr::Bytes(vec![0; 16 << 20]));
        meta.attrs = BTreeMap::from([big]).into();
        row.meta = Arc::new(meta);
        let error = encode(&vec![row; 65]).unwrap_err();
        assert!(matches!(error, ArrayError::TooLarge { .. }), "{error}");
    }
}
