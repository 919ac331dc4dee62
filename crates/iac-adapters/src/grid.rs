//! From pixel positions to the grid that packs store.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, NullArray, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use iac_writer::Table;
use serde_json::{Map, Value, json};

use crate::error::{AdapterError, Result, short};
use crate::record::{CheckedRecords, Slide};

/// Widths of the integers that a pack stores slide numbers and grid positions with: the narrowest
/// of those that every reader knows, and wider ones where the records need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Width {
    U8,
    U16,
    U32,
}

impl Width {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
        }
    }

    const fn max(self) -> u32 {
        match self {
            Self::U8 => 0xff,
            Self::U16 => 0xffff,
            Self::U32 => 0xffff_ffff,
        }
    }

    pub(crate) const fn data_type(self) -> DataType {
        match self {
            Self::U8 => DataType::UInt8,
            Self::U16 => DataType::UInt16,
            Self::U32 => DataType::UInt32,
        }
    }

    /// Numbers as an array of this width; what does not fit would be a mistake of the caller.
    pub(crate) fn array(self, numbers: impl Iterator<Item = u32>) -> ArrayRef {
        match self {
            Self::U8 => Arc::new(UInt8Array::from_iter_values(
                numbers.map(|number| u8::try_from(number).unwrap_or(u8::MAX)),
            )),
            Self::U16 => Arc::new(UInt16Array::from_iter_values(
                numbers.map(|number| u16::try_from(number).unwrap_or(u16::MAX)),
            )),
            Self::U32 => Arc::new(UInt32Array::from_iter_values(numbers)),
        }
    }
}

/// The grid that records lie on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Distance between columns and between rows, in pixels.
    pub(crate) stride: [u64; 2],
    pub(crate) slide_width: Width,
    pub(crate) xy_width: Width,
    /// For an inferred stride: the record after which it was as small as it is.
    pub(crate) narrowed_by: [Option<u64>; 2],
}

/// The largest grid that the reference's builders know.
const MAX_NARROW: u64 = 0xffff;

impl Grid {
    /// Infers strides that are not given from the positions, and checks every position.
    ///
    /// `fallback` is the stride of an axis on which every tile lies at 0.
    pub(crate) fn new(
        records: &CheckedRecords,
        stride: [Option<u64>; 2],
        fallback: [u64; 2],
    ) -> Result<Self> {
        let mut narrowed_by = [None; 2];
        let mut strides = [0_u64; 2];
        let axes = [&records.x, &records.y];
        let each = strides.iter_mut().zip(&mut narrowed_by).zip(axes);
        for (((found, narrowed), positions), (given, fallback)) in
            each.zip(stride.iter().zip(fallback))
        {
            (*found, *narrowed) = match given {
                Some(given) => (*given, None),
                None => infer(positions).unwrap_or((fallback, None)),
            };
        }
        let [stride_x, stride_y] = strides;
        if stride_x == 0 || stride_y == 0 {
            return Err(AdapterError::usage(format!(
                "stride must be positive, but it is ({stride_x}, {stride_y})"
            )));
        }
        let mut most = 0_u64;
        let mut most_row = 0_u64;
        for (row, (x, y)) in (0_u64..).zip(records.x.iter().zip(&records.y)) {
            let (Ok(px), Ok(py)) = (u64::try_from(*x), u64::try_from(*y)) else {
                return Err(AdapterError::records(
                    row,
                    if *x < 0 { "x" } else { "y" },
                    format!(
                        "tile \"{}\" has a negative position ({x}, {y})",
                        short(records.id(row))
                    ),
                ));
            };
            let on_grid = |position: u64, stride: u64| position.checked_rem(stride) == Some(0);
            if !on_grid(px, stride_x) || !on_grid(py, stride_y) {
                return Err(AdapterError::records(
                    row,
                    if on_grid(px, stride_x) { "y" } else { "x" },
                    format!(
                        "tile \"{}\" at ({x}, {y}) is not aligned to the stride ({stride_x}, {stride_y})",
                        short(records.id(row))
                    ),
                ));
            }
            let place = |position: u64, stride: u64| position.checked_div(stride).unwrap_or(0);
            let farthest = place(px, stride_x).max(place(py, stride_y));
            if farthest > most {
                (most, most_row) = (farthest, row);
            }
        }
        if most > u64::from(u32::MAX) {
            return Err(AdapterError::records(
                most_row,
                None,
                format!(
                    "tile \"{}\" has grid position {most}, but {} is the largest that can be stored (the stride is ({stride_x}, {stride_y}))",
                    short(records.id(most_row)),
                    u32::MAX
                ),
            ));
        }
        let slides = records.slides.len();
        let slide_width = match slides {
            0..=0xff => Width::U8,
            0x100..=0xffff => Width::U16,
            _ => Width::U32,
        };
        let xy_width = if most <= MAX_NARROW { Width::U16 } else { Width::U32 };
        Ok(Self { stride: strides, slide_width, xy_width, narrowed_by })
    }

    /// Header members that describe the grid, as both tile and feature packs have them.
    pub(crate) fn write_to_header(&self, members: &mut Map<String, Value>) {
        let [stride_x, stride_y] = self.stride;
        for (name, value) in [
            ("stride_x", json!(stride_x)),
            ("stride_y", json!(stride_y)),
            ("coordinate_mode", json!("tile_grid")),
            ("origin", json!("top_left")),
            ("slide_idx_dtype", json!(self.slide_width.name())),
            ("tile_xy_dtype", json!(self.xy_width.name())),
            ("flags_dtype", json!("uint8")),
            ("checksum", json!("crc32")),
            ("created_by", json!(CREATED_BY)),
        ] {
            members.insert(name.to_owned(), value);
        }
    }

    /// Most slides that the width of slide numbers allows.
    pub(crate) const fn max_slides(&self) -> u32 {
        self.slide_width.max()
    }

    /// The slide table.
    pub(crate) fn slide_table(&self, slides: &[Slide]) -> Result<Table> {
        slide_table(self.slide_width, slides)
    }

    /// The columns `slide_idx`, `tile_x`, `tile_y` and `tile_id` of a run of records.
    fn position_columns(
        &self,
        records: &CheckedRecords,
        start: usize,
        count: usize,
    ) -> [ArrayRef; 3] {
        let places = |positions: &[i64], stride: u64| {
            let positions = positions.iter().skip(start).take(count);
            let place = move |position: &i64| {
                let position = u64::try_from(*position).unwrap_or(0);
                u32::try_from(position.checked_div(stride).unwrap_or(0)).unwrap_or(u32::MAX)
            };
            self.xy_width.array(positions.map(place))
        };
        let [stride_x, stride_y] = self.stride;
        let slide = records.slide.iter().skip(start).take(count).copied();
        [self.slide_width.array(slide), places(&records.x, stride_x), places(&records.y, stride_y)]
    }

    /// The index table with the columns that tile and feature packs share, `split` among them if
    /// wanted, then `flags`; the storage columns of a variable pack have their places before it.
    pub(crate) fn index_table(
        &self,
        records: &CheckedRecords,
        with_split: bool,
        is_variable: bool,
    ) -> Result<Table> {
        let xy = self.xy_width.data_type();
        let mut fields = vec![
            Field::new("slide_idx", self.slide_width.data_type(), true),
            Field::new("tile_x", xy.clone(), true),
            Field::new("tile_y", xy, true),
        ];
        index_table(records, &mut fields, with_split, is_variable, |start, count| {
            self.position_columns(records, start, count).to_vec()
        })
    }
}

/// Value of the header member `created_by`, by which readers know the layout of these tables.
pub(crate) const CREATED_BY: &str = "iatro-base-iac";

/// The slide table with numbers of a width.
pub(crate) fn slide_table(width: Width, slides: &[Slide]) -> Result<Table> {
    let numbers = width.array((0_u32..).take(slides.len()));
    let texts = |text: fn(&Slide) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(slides.iter().map(text)))
    };
    let bytes: usize = slides
        .iter()
        .map(|slide| slide.slide_id.len().saturating_add(slide.patient_id.len()))
        .fold(0, usize::saturating_add);
    if bytes > 1 << 30 {
        return Err(AdapterError::records(
            None,
            "slide_id",
            format!("{bytes} bytes of slide and patient ids are too many for one table"),
        ));
    }
    let schema = Schema::new(vec![
        Field::new("slide_idx", width.data_type(), true),
        Field::new("slide_id", DataType::Utf8, true),
        Field::new("patient_id", DataType::Utf8, true),
    ]);
    let columns = vec![numbers, texts(|slide| &slide.slide_id), texts(|slide| &slide.patient_id)];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| bug(&error))?;
    Ok(Table::from(batch))
}

/// An index table: the given columns, then ids, splits, storage columns and flags.
pub(crate) fn index_table(
    records: &CheckedRecords,
    fields: &mut Vec<Field>,
    with_split: bool,
    is_variable: bool,
    positions: impl Fn(usize, usize) -> Vec<ArrayRef>,
) -> Result<Table> {
    fields.push(Field::new("tile_id", DataType::Utf8, true));
    // Where no record has a split there is nothing to say of its type either.
    let split_type = if records.has_split { DataType::Utf8 } else { DataType::Null };
    if with_split {
        fields.push(Field::new("split", split_type.clone(), true));
    }
    if is_variable {
        // Their values are the writer's; what is here only keeps their places.
        for (name, data_type) in [
            ("offset", DataType::UInt64),
            ("length", DataType::UInt32),
            ("crc32", DataType::UInt32),
        ] {
            fields.push(Field::new(name, data_type, true));
        }
    }
    fields.push(Field::new("flags", DataType::UInt8, true));
    let schema = Arc::new(Schema::new(std::mem::take(fields)));
    let mut start = 0_usize;
    let mut batches = Vec::with_capacity(records.texts.len());
    for texts in &records.texts {
        let count = arrow_array::Array::len(&texts.ids);
        let mut columns = positions(start, count);
        columns.push(Arc::new(texts.ids.clone()));
        if with_split {
            columns.push(match split_type {
                DataType::Null => Arc::new(NullArray::new(count)),
                _ => Arc::new(texts.splits.clone()),
            });
        }
        if is_variable {
            for data_type in [DataType::UInt64, DataType::UInt32, DataType::UInt32] {
                columns.push(arrow_array::new_null_array(&data_type, count));
            }
        }
        columns.push(Arc::new(UInt8Array::from_value(0, count)));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
        batches.push(batch.map_err(|error| bug(&error))?);
        start = start.saturating_add(count);
    }
    Ok(Table::new(schema, batches)?)
}

fn bug(error: &ArrowError) -> AdapterError {
    AdapterError::usage(format!("the tables cannot be made: {error}"))
}

/// The greatest common divisor of all positive positions, and the record that made it so small.
fn infer(positions: &[i64]) -> Option<(u64, Option<u64>)> {
    let mut divisor = 0_u64;
    let mut narrowed = None;
    let mut seen = 0_u64;
    for (row, position) in (0_u64..).zip(positions) {
        let Some(position) = u64::try_from(*position).ok().filter(|position| *position > 0) else {
            continue;
        };
        let next = greatest_common_divisor(divisor, position);
        if next != divisor {
            narrowed = (seen > 0).then_some(row);
            divisor = next;
        }
        seen = seen.saturating_add(1);
    }
    (divisor > 0).then_some((divisor, narrowed))
}

const fn greatest_common_divisor(mut first: u64, mut second: u64) -> u64 {
    while let Some(rest) = first.checked_rem(second) {
        (first, second) = (second, rest);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_the_greatest_common_divisors() {
        assert_eq!(infer(&[0, 32, 16, 0, 48]), Some((16, Some(2))));
        assert_eq!(infer(&[0, 0]), None);
        assert_eq!(infer(&[]), None);
        assert_eq!(infer(&[-5, 0, 7]), Some((7, None)));
        assert_eq!(infer(&[i64::MAX, 1]), Some((1, Some(1))));
    }
}
