//! Which row of the slide table each row of the index table belongs to.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;

use super::error::{PredicateError, Result};
use super::eval::{Values, integers};
use super::{SLIDE_IDX, find_column, shown};

/// From the values of the index column `slide_idx` to rows of the slide table.
pub(super) enum Slides {
    /// The slide table has no column `slide_idx`: the value is the row number.
    ByRow {
        rows: usize,
    },
    ByNumber(HashMap<i128, u32>),
}

/// Stands for "no row of the slide table".
const NO_SLIDE: u32 = u32::MAX;

impl Slides {
    /// Reads the slide table's `slide_idx`; `at` is where the expression uses a slide column.
    pub(super) fn new(slides: &[RecordBatch], at: usize) -> Result<Self> {
        let has_numbers = match slides.first() {
            Some(batch) => number_column(batch.schema_ref(), true, at)?.is_some(),
            None => false,
        };
        if !has_numbers {
            let count = |sum: usize, batch: &RecordBatch| sum.saturating_add(batch.num_rows());
            return Ok(Self::ByRow { rows: slides.iter().fold(0, count) });
        }
        let mut numbers = HashMap::new();
        let mut row = 0_u32;
        for batch in slides {
            let Some((column, value)) = numbers_of(batch, true, at)? else {
                return Err(PredicateError::Damaged {
                    column: shown(true, SLIDE_IDX),
                    reason: "only some batches have it".to_owned(),
                });
            };
            for i in 0..column.len() {
                if column.is_valid(i)
                    && let Some(value) = value(i)
                    && let Some(first) = numbers.insert(value, row)
                {
                    return Err(PredicateError::RepeatedSlide {
                        value,
                        first: first.into(),
                        second: row.into(),
                    });
                }
                row = row.checked_add(1).filter(|&row| row != NO_SLIDE).ok_or_else(|| {
                    PredicateError::Damaged {
                        column: shown(true, SLIDE_IDX),
                        reason: format!("more than {} slides", NO_SLIDE.wrapping_sub(1)),
                    }
                })?;
            }
        }
        Ok(Self::ByNumber(numbers))
    }

    /// The slide of each row of an index batch.
    pub(super) fn of_rows(&self, batch: &RecordBatch, at: usize) -> Result<SlideRows> {
        let Some((column, value)) = numbers_of(batch, false, at)? else {
            return Err(PredicateError::NoSlideIndex { at });
        };
        // Rows of one slide mostly stand together.
        let mut last = None;
        let rows = (0..column.len())
            .map(|i| {
                let Some(value) = value(i).filter(|_| column.is_valid(i)) else {
                    return NO_SLIDE;
                };
                if let Some((known, row)) = last
                    && known == value
                {
                    return row;
                }
                let row = match self {
                    Self::ByRow { rows } => usize::try_from(value)
                        .ok()
                        .filter(|row| row < rows)
                        .and_then(|row| u32::try_from(row).ok())
                        .unwrap_or(NO_SLIDE),
                    Self::ByNumber(numbers) => numbers.get(&value).copied().unwrap_or(NO_SLIDE),
                };
                last = Some((value, row));
                row
            })
            .collect();
        Ok(SlideRows(rows))
    }
}

/// A row of the slide table, or none, for each row of an index batch.
pub(super) struct SlideRows(Vec<u32>);

impl SlideRows {
    pub(super) fn get(&self, row: usize) -> Option<usize> {
        let slide = *self.0.get(row)?;
        usize::try_from(slide).ok().filter(|_| slide != NO_SLIDE)
    }
}

/// Tests that slide columns can be used with tables of these schemas.
pub(super) fn check(index: &Schema, slides: &Schema, at: usize) -> Result<()> {
    number_column(slides, true, at)?;
    match number_column(index, false, at)? {
        Some(_) => Ok(()),
        None => Err(PredicateError::NoSlideIndex { at }),
    }
}

/// Where a table has its slide numbers, if it has any.
fn number_column(schema: &Schema, slide: bool, at: usize) -> Result<Option<usize>> {
    let (position, field) = match find_column(schema, SLIDE_IDX, slide, at) {
        Ok(found) => found,
        Err(PredicateError::UnknownColumn { .. }) => return Ok(None),
        Err(other) => return Err(other),
    };
    if field.data_type().is_integer() {
        return Ok(Some(position));
    }
    Err(PredicateError::Type {
        at,
        column: shown(slide, SLIDE_IDX),
        data_type: field.data_type().clone(),
        reason: "rows are assigned to slides by integers".to_owned(),
    })
}

fn numbers_of(
    batch: &RecordBatch,
    slide: bool,
    at: usize,
) -> Result<Option<(&ArrayRef, Values<'_, i128>)>> {
    let position = number_column(batch.schema_ref(), slide, at)?;
    Ok(position.and_then(|position| {
        let column = batch.column(position);
        Some((column, integers(column)?))
    }))
}
