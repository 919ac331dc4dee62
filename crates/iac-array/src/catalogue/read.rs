//! Reading the slide table of a layer, one record batch after the other.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, BinaryArray, BooleanArray, ListArray, RecordBatch, StringArray, UInt8Array, UInt64Array,
};
use bytes::Bytes;
use iac_format::table::TableStream;
use iac_format::{FormatError, TableKind};

use super::{CatalogueRow, NULLABLE, PACKING, THROUGH, same_type, schema};
use crate::attrs::AttrColumn;
use crate::dtype::DType;
use crate::error::{ArrayError, Result};
use crate::grid::Grid;
use crate::meta::{ArrayMeta, Form, NodeKind};

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
