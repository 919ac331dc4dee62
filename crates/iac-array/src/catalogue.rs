//! The slide table of a layer: one row for each array that the layer defines, changes or deletes.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, ListBuilder, StringBuilder, StructBuilder, UInt8Builder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, ListArray, RecordBatch, StringArray, UInt8Array,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use iac_format::table::{MAX_EXPANDED_BYTES, TableStream};
use iac_format::{FormatError, TableKind};

use crate::attrs::AttrColumn;
use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len};
use crate::grid::Grid;
use crate::meta::{ArrayMeta, Form, NodeKind};

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

/// Why a table is refused.
struct Reason(String);

impl From<String> for Reason {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<FormatError> for Reason {
    fn from(error: FormatError) -> Self {
        Self(error.to_string())
    }
}

/// Reads the table; what no writer makes is an error.
pub(crate) fn decode(object: &str, bytes: Bytes) -> Result<Vec<CatalogueRow>> {
    let corrupt = |reason: String| ArrayError::corrupt(object, reason);
    let table =
        TableStream::parse(bytes, TableKind::Slide).map_err(|error| corrupt(error.to_string()))?;
    let mut rows: Vec<CatalogueRow> = Vec::new();
    table
        .decode_each(|batch| {
            let mut columns = Columns::of(&batch)?;
            let mut known = None;
            let first = rows.len();
            rows.reserve(batch.num_rows());
            for row in 0..batch.num_rows() {
                let read = columns.row(row, &mut known).map_err(|reason| {
                    format!("slide row {}: {reason}", first.saturating_add(row))
                })?;
                rows.push(read);
            }
            Ok::<(), Reason>(())
        })
        .map_err(|Reason(reason)| corrupt(reason))?;
    rows.shrink_to_fit();
    Ok(rows)
}

/// The columns of a batch with their types.
struct Columns<'a> {
    names: &'a StringArray,
    ids: &'a UInt64Array,
    states: &'a UInt8Array,
    dtypes: &'a StringArray,
    shapes: Lists<'a, UInt64Array>,
    chunks: Lists<'a, UInt64Array>,
    dims: Lists<'a, StringArray>,
    fills: &'a BinaryArray,
    clips: Lists<'a, UInt64Array>,
    attrs: &'a ListArray,
    entries: AttrColumn<'a>,
    written: &'a UInt64Array,
    packings: Option<&'a StringArray>,
    through: Option<&'a UInt64Array>,
    nullable: Option<&'a BooleanArray>,
}

/// Lists within a column, whose elements lie one after the other.
struct Lists<'a, T> {
    list: &'a ListArray,
    values: &'a T,
}

type Check<T> = std::result::Result<T, String>;

/// The elements of a list, by their places.
fn span(list: &ListArray, row: usize) -> Check<Range<usize>> {
    let at =
        |row: usize| list.value_offsets().get(row).and_then(|offset| usize::try_from(*offset).ok());
    let span = at(row).zip(at(row.saturating_add(1)));
    let (first, end) = span.ok_or_else(|| format!("list {row} is cut"))?;
    (first <= end && end <= list.values().len())
        .then_some(first..end)
        .ok_or_else(|| format!("list {row} lies outside"))
}

impl<'a, T: Array + 'static> Lists<'a, T> {
    fn of(batch: &'a RecordBatch, name: &str) -> Check<Self> {
        let list = column::<ListArray>(batch, name)?;
        let values = list.values().as_any().downcast_ref::<T>();
        let values = values.ok_or_else(|| format!("`{name}` has other elements"))?;
        if values.null_count() > 0 {
            return Err(format!("`{name}` has a null"));
        }
        Ok(Self { list, values })
    }
}

impl Lists<'_, UInt64Array> {
    fn get(&self, row: usize) -> Check<Option<&[u64]>> {
        if self.list.is_null(row) {
            return Ok(None);
        }
        let span = span(self.list, row)?;
        let values = self.values.values().get(span).ok_or("a list lies outside")?;
        Ok(Some(values))
    }
}

fn column<'a, T: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Check<&'a T> {
    let column = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref::<T>());
    column.ok_or_else(|| format!("there is no column `{name}` of its type"))
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Check<Self> {
        let expected = schema(true);
        for field in expected.fields() {
            let name = field.name();
            let optional = matches!(name.as_str(), PACKING | THROUGH | NULLABLE);
            if optional && batch.column_by_name(name).is_none() {
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
        let attrs = column::<ListArray>(batch, "attrs")?;
        let entries = attrs.values().as_struct_opt().ok_or("column `attrs` has no entries")?;
        let keys = entries.column_by_name("key").and_then(|keys| keys.as_string_opt::<i32>());
        let values =
            entries.column_by_name("value").and_then(|values| values.as_binary_opt::<i32>());
        let (keys, values) = keys.zip(values).ok_or("`attrs` has no keys or no values")?;
        if entries.null_count() > 0 || keys.null_count() > 0 || values.null_count() > 0 {
            return Err("`attrs` has a null".to_owned());
        }
        Ok(Self {
            names: column(batch, "slide_id")?,
            ids: column(batch, "array_id")?,
            states: column(batch, "state")?,
            dtypes: column(batch, "dtype")?,
            shapes: Lists::of(batch, "shape")?,
            chunks: Lists::of(batch, "chunk_shape")?,
            dims: Lists::of(batch, "dims")?,
            fills: column(batch, "fill")?,
            clips: Lists::of(batch, "clip")?,
            attrs,
            entries: AttrColumn::new(keys, values),
            written: column(batch, "chunks_written")?,
            packings: column(batch, PACKING).ok(),
            through: column(batch, THROUGH).ok(),
            nullable: column(batch, NULLABLE).ok(),
        })
    }

    /// One row; `known` is the form of an array before, as most arrays of a store have the same.
    fn row(&mut self, row: usize, known: &mut Option<Known>) -> Check<CatalogueRow> {
        let deleted = match self.states.value(row) {
            0 => false,
            1 => true,
            other => return Err(format!("state {other} is not known")),
        };
        let kind = match self.dtypes.value(row) {
            "group" => NodeKind::Group,
            "none" => NodeKind::Store,
            _ => NodeKind::Array,
        };
        let (form, chunks) = match known.as_ref().filter(|known| self.is_like(row, known.row)) {
            Some(known) => (Arc::clone(&known.form), known.chunks),
            None => {
                let form = self.form(row, kind)?;
                form.check()?;
                let chunks = Grid::new(&form.shape, &form.chunk).map_or(0, |grid| grid.total());
                let form = Arc::new(form);
                *known = Some(Known { row, form: Arc::clone(&form), chunks });
                (form, chunks)
            }
        };
        let attrs = self.entries.attrs(span(self.attrs, row)?)?;
        let name = self.names.value(row).to_owned();
        let meta = ArrayMeta { id: self.ids.value(row), name, kind, attrs, form };
        if meta.nullable && kind != NodeKind::Array {
            return Err(format!("`{}` is no array and nullable", meta.name));
        }
        let named = crate::meta::check_name(&meta.name).is_ok();
        if (kind == NodeKind::Store) != (meta.id == 0) || named == (kind == NodeKind::Store) {
            return Err(format!("array id {} with name `{}`", meta.id, meta.name));
        }
        let clip = self.clips.get(row)?.map(<[u64]>::to_vec);
        if clip.as_ref().is_some_and(|clip| clip.len() != meta.shape.len()) {
            return Err("`clip` has another number of axes than the array".to_owned());
        }
        let chunks_written = self.written.value(row);
        if chunks_written > chunks {
            return Err(format!("{chunks_written} chunks were written of {chunks}"));
        }
        let through = self.through.filter(|through| !through.is_null(row));
        let through = through.map(|through| through.value(row));
        Ok(CatalogueRow { meta: Arc::new(meta), deleted, clip, chunks_written, through })
    }

    fn form(&self, row: usize, kind: NodeKind) -> Check<Form> {
        let dtype = match kind {
            NodeKind::Array => {
                self.dtypes.value(row).parse().map_err(|error: ArrayError| error.to_string())?
            }
            NodeKind::Group | NodeKind::Store => DType::UInt8,
        };
        let dims = span(self.dims.list, row)?;
        let packings = self.packings.filter(|packings| !packings.is_null(row));
        Ok(Form {
            dtype,
            shape: self.shapes.get(row)?.ok_or("no `shape`")?.to_vec(),
            chunk: self.chunks.get(row)?.ok_or("no `chunk_shape`")?.to_vec(),
            dims: dims.map(|axis| self.dims.values.value(axis).to_owned()).collect(),
            fill: (!self.fills.is_null(row)).then(|| self.fills.value(row).to_vec()),
            packing: packings.map(|packings| packings.value(row).to_owned()),
            nullable: self.is_nullable(row),
        })
    }

    fn is_nullable(&self, row: usize) -> bool {
        self.nullable.is_some_and(|nullable| nullable.value(row))
    }

    /// Whether two rows have the same form.
    fn is_like(&self, row: usize, other: usize) -> bool {
        let same = |lists: &Lists<'_, UInt64Array>| matches!((lists.get(row), lists.get(other)), (Ok(one), Ok(other)) if one == other);
        let dims = |row| {
            let span = span(self.dims.list, row).ok()?;
            Some(span.map(|axis| self.dims.values.value(axis)))
        };
        let fill = |row| (!self.fills.is_null(row)).then(|| self.fills.value(row));
        let packing = |row| {
            let packings = self.packings.filter(|packings| !packings.is_null(row));
            packings.map(|packings| packings.value(row))
        };
        self.dtypes.value(row) == self.dtypes.value(other)
            && same(&self.shapes)
            && same(&self.chunks)
            && dims(row).zip(dims(other)).is_some_and(|(one, other)| one.eq(other))
            && fill(row) == fill(other)
            && packing(row) == packing(other)
            && self.is_nullable(row) == self.is_nullable(other)
    }
}

/// What was made of a row before.
struct Known {
    row: usize,
    form: Arc<Form>,
    /// Chunks of its grid.
    chunks: u64,
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

    use super::*;
    use crate::attr::Attr;
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
