//! The columns of the index table that frames are found, decoded and placed by.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{Array, ArrayRef};
use iac_format::TableKind;
use iac_reader::PackReader;

use super::facts::FrameFacts;
use crate::columns::{IntColumn, TextColumn, has_column, int_column, text_column};
use crate::error::{AdapterError, Result};

/// The columns that frames are found and decoded by.
pub(super) struct FrameColumns {
    /// The first row of each instance, and the number of rows.
    pub(super) starts: Vec<u64>,
    pub(super) frame: IntColumn,
    pub(super) codec: TextColumn,
    pub(super) syntax: TextColumn,
    pub(super) stream: Option<TextColumn>,
    pub(super) photometric: Option<TextColumn>,
    pub(super) allocated: IntColumn,
    pub(super) stored: IntColumn,
    pub(super) high_bit: IntColumn,
    pub(super) delta: [IntColumn; 2],
    pub(super) delta_crc32: Option<IntColumn>,
    pub(super) extra: Option<[IntColumn; 3]>,
}

/// What the table says of where frames lie.
pub(super) struct FactColumns {
    reals: HashMap<&'static str, Vec<(u64, ArrayRef)>>,
    dimensions: Vec<(u64, ArrayRef)>,
}

const REALS: [&str; 15] = [
    "position_x",
    "position_y",
    "position_z",
    "row_x",
    "row_y",
    "row_z",
    "column_x",
    "column_y",
    "column_z",
    "row_spacing",
    "column_spacing",
    "slice_thickness",
    "slice_spacing",
    "rescale_slope",
    "rescale_intercept",
];

impl FrameColumns {
    pub(super) fn load(pack: &PackReader) -> Result<Self> {
        let index = pack.index_table()?;
        let int = |name: &str| int_column(pack, TableKind::Index, name);
        let text = |name: &str| text_column(pack, TableKind::Index, name);
        let maybe = |name: &str| has_column(index, name).then(|| text(name)).transpose();
        let (instance, frame) = (int("instance_idx")?, int("frame_idx")?);
        let mut starts = Vec::new();
        let mut before: Option<(i128, i128)> = None;
        let wrong = |row: u64, field: &str, reason: &str| {
            Err(AdapterError::schema_row(pack.path(), row, field, reason.to_owned()))
        };
        for row in 0..index.num_rows() {
            let (Some(object), Some(number)) = (instance.get(row), frame.get(row)) else {
                return wrong(row, "instance_idx", "no number");
            };
            match before {
                Some((last, frame)) if last == object => {
                    if number != frame.saturating_add(1) {
                        return wrong(row, "frame_idx", "frames of an object are not in order");
                    }
                }
                _ => {
                    if before.is_some_and(|(last, _)| last >= object) {
                        return wrong(row, "instance_idx", "objects are not in ascending order");
                    }
                    if number != 0 {
                        return wrong(
                            row,
                            "frame_idx",
                            "the frames of an object do not begin with 0",
                        );
                    }
                    starts.push(row);
                }
            }
            before = Some((object, number));
        }
        starts.push(index.num_rows());
        let extra = if has_column(index, "extra_offset") {
            Some([int("extra_offset")?, int("extra_length")?, int("extra_crc32")?])
        } else {
            None
        };
        let delta_crc32 =
            has_column(index, "delta_crc32").then(|| int("delta_crc32")).transpose()?;
        Ok(Self {
            starts,
            frame,
            codec: text("codec")?,
            syntax: text("source_transfer_syntax")?,
            stream: maybe("stream_photometric")?,
            photometric: maybe("photometric_interpretation")?,
            allocated: int("bits_allocated")?,
            stored: int("bits_stored")?,
            high_bit: int("high_bit")?,
            delta: [int("delta_offset")?, int("delta_length")?],
            delta_crc32,
            extra,
        })
    }
}

impl FactColumns {
    pub(super) fn load(pack: &PackReader) -> Result<Self> {
        let index = pack.index_table()?;
        let mut reals = HashMap::new();
        let mut dimensions = Vec::new();
        let parts = |name: &str| -> Result<Vec<(u64, ArrayRef)>> {
            let mut parts = Vec::new();
            let mut start = 0_u64;
            if has_column(index, name) {
                for batch in index.columns(&[name])? {
                    if let Some(array) = batch.columns().first() {
                        parts.push((start, array.clone()));
                        start =
                            start.saturating_add(u64::try_from(array.len()).unwrap_or(u64::MAX));
                    }
                }
            }
            Ok(parts)
        };
        for name in REALS {
            reals.insert(name, parts(name)?);
        }
        dimensions.extend(parts("dimension_index")?);
        Ok(Self { reals, dimensions })
    }

    /// The array of a row, and its place there.
    fn place(parts: &[(u64, ArrayRef)], row: u64) -> Option<(&ArrayRef, usize)> {
        let behind = parts.partition_point(|(start, _)| *start <= row);
        let (start, array) = parts.get(behind.checked_sub(1)?)?;
        let place = usize::try_from(row.checked_sub(*start)?).ok()?;
        (place < array.len() && array.is_valid(place)).then_some((array, place))
    }

    fn real(&self, name: &str, row: u64) -> Option<f64> {
        let (array, place) = Self::place(self.reals.get(name)?, row)?;
        let number = array.as_primitive_opt::<Float64Type>()?.value(place);
        number.is_finite().then_some(number)
    }

    fn reals<const N: usize>(&self, names: [&str; N], row: u64) -> Option<[f64; N]> {
        let mut found = [0.0; N];
        for (number, name) in found.iter_mut().zip(names) {
            *number = self.real(name, row)?;
        }
        Some(found)
    }

    pub(super) fn facts(&self, row: u64) -> FrameFacts {
        let dimensions = Self::place(&self.dimensions, row).and_then(|(array, place)| {
            let list = array.as_list_opt::<i32>()?.value(place);
            Some(list.as_primitive_opt::<UInt32Type>()?.values().to_vec())
        });
        FrameFacts {
            position: self.reals(["position_x", "position_y", "position_z"], row),
            orientation: self
                .reals(["row_x", "row_y", "row_z", "column_x", "column_y", "column_z"], row),
            pixel_spacing: self.reals(["row_spacing", "column_spacing"], row),
            slice_thickness: self.real("slice_thickness", row),
            slice_spacing: self.real("slice_spacing", row),
            rescale_slope: self.real("rescale_slope", row),
            rescale_intercept: self.real("rescale_intercept", row),
            dimension_index: dimensions.unwrap_or_default(),
        }
    }
}
