//! Copies selected rows of a column, within bounds.
//!
//! Lists of run-end encoded values and of list views stand for far more than the bytes they lie
//! in, and a copy writes all of it out. What a copy takes is therefore estimated first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, RunArray, UInt64Array};
use arrow_schema::{DataType, UnionMode};

/// Bytes that copies of nested values may take beyond the size of what is copied from.
pub(crate) const MAX_GATHERED_BYTES: u64 = 1 << 30;

/// Why rows cannot be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GatherError {
    /// The copy would be too large.
    TooLarge,
    /// The array library does not do it.
    Failed(String),
}

impl GatherError {
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::TooLarge => format!(
                "a copy of the selected rows needs more than {MAX_GATHERED_BYTES} bytes beyond the column's own"
            ),
            Self::Failed(reason) => format!("rows cannot be gathered: {reason}"),
        }
    }
}

/// What copies may still take.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: u64,
}

impl Allowance {
    /// The allowance for copies from these columns: each of their bytes may be copied once.
    pub(crate) fn of<'a>(columns: impl Iterator<Item = &'a ArrayRef>) -> Self {
        let own = columns
            .filter(|column| column.data_type().is_nested())
            .map(|column| fenced(|| column.to_data().get_slice_memory_size()).unwrap_or(0))
            .fold(0_u64, |sum, bytes| sum.saturating_add(count(bytes)));
        Self { left: MAX_GATHERED_BYTES.saturating_add(own) }
    }

    fn spend(&mut self, bytes: u64) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }

    fn spend_each(&mut self, number: usize, bytes: u64) -> Option<()> {
        self.spend(count(number).checked_mul(bytes)?)
    }

    /// What copying rows one by one takes. Rows of flat columns share nothing, so they are free.
    fn rows(&mut self, array: &dyn Array, rows: &[usize]) -> Option<()> {
        match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list_opt::<i32>()?;
                self.lists(lists.value_offsets(), lists.values(), rows)
            }
            DataType::LargeList(_) => {
                let lists = array.as_list_opt::<i64>()?;
                self.lists(lists.value_offsets(), lists.values(), rows)
            }
            DataType::Map(..) => {
                let maps = array.as_map_opt()?;
                self.lists(maps.value_offsets(), maps.entries(), rows)
            }
            // The values stay where they are; only their places are copied.
            DataType::ListView(_) | DataType::LargeListView(_) => self.spend_each(rows.len(), 16),
            DataType::FixedSizeList(_, size) => {
                let size = usize::try_from(*size).ok()?;
                self.spend_each(rows.len().checked_mul(size)?, 8)?;
                let values = array.as_fixed_size_list_opt()?.values();
                if !values.data_type().is_nested() {
                    return rows
                        .iter()
                        .try_for_each(|row| self.range(values, row.checked_mul(size)?, size));
                }
                let mut places = Vec::new();
                for row in rows {
                    let start = row.checked_mul(size)?;
                    places.extend(start..start.checked_add(size)?);
                }
                self.rows(values, &places)
            }
            DataType::Struct(_) => {
                let columns = array.as_struct_opt()?.columns();
                columns.iter().try_for_each(|column| self.rows(column, rows))
            }
            DataType::Union(fields, mode) => {
                let union = array.as_union_opt()?;
                for (id, _) in fields.iter() {
                    let child = union.child(id);
                    if *mode == UnionMode::Sparse {
                        self.rows(child, rows)?;
                        continue;
                    }
                    let here = rows.iter().filter(|row| union.type_id(**row) == id);
                    let places: Vec<usize> = here.map(|row| union.value_offset(*row)).collect();
                    self.rows(child, &places)?;
                    self.estimate_children(child, places.len())?;
                }
                Some(())
            }
            DataType::RunEndEncoded(ends, _) => match ends.data_type() {
                DataType::Int16 => self.run_rows::<Int16Type>(array, rows),
                DataType::Int32 => self.run_rows::<Int32Type>(array, rows),
                DataType::Int64 => self.run_rows::<Int64Type>(array, rows),
                _ => None,
            },
            _ => Some(()),
        }
    }

    fn run_rows<E: RunEndIndexType>(&mut self, array: &dyn Array, rows: &[usize]) -> Option<()> {
        let runs: &RunArray<E> = array.as_any().downcast_ref()?;
        let places: Vec<usize> = rows.iter().map(|row| runs.get_physical_index(*row)).collect();
        self.spend_each(rows.len(), 24)?;
        self.rows(runs.values(), &places)
    }

    /// Lists are copied value by value, into room that is laid out for lists of average length.
    fn lists<O: OffsetSizeTrait>(
        &mut self,
        offsets: &[O],
        values: &dyn Array,
        rows: &[usize],
    ) -> Option<()> {
        let (first, last) = (offsets.first()?.as_usize(), offsets.last()?.as_usize());
        let average = last.checked_sub(first)?.checked_div(offsets.len().saturating_sub(1));
        let expected = average.unwrap_or(0).checked_mul(rows.len())?;
        self.spend_each(expected, slot_bytes(values.data_type()))?;
        rows.iter().try_for_each(|row| {
            let (start, end) = list(offsets, *row, 1)?;
            self.range(values, start, end.checked_sub(start)?)
        })
    }

    /// Nothing more is needed for children of dense unions than their rows.
    fn estimate_children(&mut self, child: &dyn Array, rows: usize) -> Option<()> {
        self.spend_each(rows, slot_bytes(child.data_type()).min(64))
    }

    /// What writing out neighbouring values takes.
    fn range(&mut self, array: &dyn Array, start: usize, length: usize) -> Option<()> {
        if length == 0 {
            return Some(());
        }
        let inside = |offsets: Option<(usize, usize)>| {
            let (start, end) = offsets?;
            Some((start, end.checked_sub(start)?))
        };
        match array.data_type() {
            DataType::Null => Some(()),
            DataType::Utf8 => {
                let offsets = array.as_string_opt::<i32>()?.value_offsets();
                let (_, bytes) = inside(list(offsets, start, length))?;
                self.spend(count(bytes).checked_add(count(length).checked_mul(4)?)?)
            }
            DataType::LargeUtf8 => {
                let offsets = array.as_string_opt::<i64>()?.value_offsets();
                let (_, bytes) = inside(list(offsets, start, length))?;
                self.spend(count(bytes).checked_add(count(length).checked_mul(8)?)?)
            }
            DataType::Binary => {
                let offsets = array.as_binary_opt::<i32>()?.value_offsets();
                let (_, bytes) = inside(list(offsets, start, length))?;
                self.spend(count(bytes).checked_add(count(length).checked_mul(4)?)?)
            }
            DataType::LargeBinary => {
                let offsets = array.as_binary_opt::<i64>()?.value_offsets();
                let (_, bytes) = inside(list(offsets, start, length))?;
                self.spend(count(bytes).checked_add(count(length).checked_mul(8)?)?)
            }
            DataType::List(_) => {
                let lists = array.as_list_opt::<i32>()?;
                let (from, values) = inside(list(lists.value_offsets(), start, length))?;
                self.spend_each(length, 4)?;
                self.range(lists.values(), from, values)
            }
            DataType::LargeList(_) => {
                let lists = array.as_list_opt::<i64>()?;
                let (from, values) = inside(list(lists.value_offsets(), start, length))?;
                self.spend_each(length, 8)?;
                self.range(lists.values(), from, values)
            }
            DataType::Map(..) => {
                let maps = array.as_map_opt()?;
                let (from, values) = inside(list(maps.value_offsets(), start, length))?;
                self.spend_each(length, 4)?;
                self.range(maps.entries(), from, values)
            }
            DataType::ListView(_) => {
                let lists = array.as_list_view_opt::<i32>()?;
                self.views(lists.offsets(), lists.sizes(), lists.values(), start, length)
            }
            DataType::LargeListView(_) => {
                let lists = array.as_list_view_opt::<i64>()?;
                self.views(lists.offsets(), lists.sizes(), lists.values(), start, length)
            }
            DataType::FixedSizeList(_, size) => {
                let size = usize::try_from(*size).ok()?;
                let values = array.as_fixed_size_list_opt()?.values();
                self.range(values, start.checked_mul(size)?, length.checked_mul(size)?)
            }
            DataType::Struct(_) => {
                let columns = array.as_struct_opt()?.columns();
                self.spend_each(length, 1)?;
                columns.iter().try_for_each(|column| self.range(column, start, length))
            }
            DataType::Union(fields, mode) => {
                let union = array.as_union_opt()?;
                self.spend_each(length, 16)?;
                if *mode == UnionMode::Sparse {
                    return fields
                        .iter()
                        .try_for_each(|(id, _)| self.range(union.child(id), start, length));
                }
                (start..start.checked_add(length)?).try_for_each(|row| {
                    self.range(union.child(union.type_id(row)), union.value_offset(row), 1)
                })
            }
            DataType::RunEndEncoded(ends, _) => match ends.data_type() {
                DataType::Int16 => self.runs::<Int16Type>(array, start, length),
                DataType::Int32 => self.runs::<Int32Type>(array, start, length),
                DataType::Int64 => self.runs::<Int64Type>(array, start, length),
                _ => None,
            },
            flat => self.spend_each(length, slot_bytes(flat)),
        }
    }

    fn views<O: OffsetSizeTrait>(
        &mut self,
        offsets: &[O],
        sizes: &[O],
        values: &dyn Array,
        start: usize,
        length: usize,
    ) -> Option<()> {
        let end = start.checked_add(length)?;
        self.spend_each(length, 16)?;
        let (offsets, sizes) = (offsets.get(start..end)?, sizes.get(start..end)?);
        offsets
            .iter()
            .zip(sizes)
            .try_for_each(|(offset, size)| self.range(values, offset.as_usize(), size.as_usize()))
    }

    fn runs<E: RunEndIndexType>(
        &mut self,
        array: &dyn Array,
        start: usize,
        length: usize,
    ) -> Option<()> {
        let runs: &RunArray<E> = array.as_any().downcast_ref()?;
        let first = runs.get_physical_index(start);
        let last = runs.get_physical_index(start.checked_add(length)?.checked_sub(1)?);
        let touched = last.checked_sub(first)?.checked_add(1)?;
        // Looking for the first one goes through all runs, which takes time in place of memory.
        self.spend(count(runs.values().len()))?;
        self.spend_each(touched, 8)?;
        self.range(runs.values(), first, touched)
    }
}

/// Copies the rows in `places`.
pub(crate) fn take(
    column: &ArrayRef,
    places: &UInt64Array,
    allowance: &mut Allowance,
) -> Result<ArrayRef, GatherError> {
    if column.data_type().is_nested() {
        let rows: Option<Vec<usize>> =
            places.values().iter().map(|place| usize::try_from(*place).ok()).collect();
        let rows = rows.filter(|rows| rows.iter().all(|row| *row < column.len()));
        let Some(rows) = rows else {
            return Err(GatherError::Failed("a row lies behind the column's end".to_owned()));
        };
        // The estimate walks through the same values, so it is fenced as the copy is.
        let fits = fenced(|| Ok::<_, String>(allowance.rows(column, &rows).is_some()));
        if !fits.map_err(GatherError::Failed)? {
            return Err(GatherError::TooLarge);
        }
    }
    fenced(|| arrow_select::take::take(column, places, None)).map_err(GatherError::Failed)
}

/// Calls the array library. It panics where sums of lengths overflow and where it has no code for
/// a combination of types; the estimates above foresee what is known, and nothing that is read may
/// end the process.
fn fenced<T, E: ToString>(work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the array library gave up".to_owned()),
    }
}

/// The places of the values of neighbouring lists.
fn list<O: OffsetSizeTrait>(offsets: &[O], row: usize, rows: usize) -> Option<(usize, usize)> {
    let start = offsets.get(row)?.as_usize();
    Some((start, offsets.get(row.checked_add(rows)?)?.as_usize()))
}

/// Bytes that are laid out for one value before its size is known.
fn slot_bytes(data_type: &DataType) -> u64 {
    let nested = |own: u64, child: &DataType| own.saturating_add(slot_bytes(child));
    match data_type {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(size) => u64::try_from(*size).unwrap_or(0).saturating_add(1),
        DataType::Utf8 | DataType::Binary => 5,
        DataType::LargeUtf8 | DataType::LargeBinary => 9,
        DataType::Dictionary(keys, _) => slot_bytes(keys),
        DataType::List(field) | DataType::Map(field, _) => nested(4, field.data_type()),
        DataType::LargeList(field) | DataType::ListView(field) => nested(8, field.data_type()),
        DataType::LargeListView(field) => nested(16, field.data_type()),
        DataType::FixedSizeList(field, size) => {
            let size = u64::try_from(*size).unwrap_or(0);
            slot_bytes(field.data_type()).saturating_mul(size).saturating_add(1)
        }
        DataType::Struct(fields) => fields
            .iter()
            .fold(1, |sum: u64, field| sum.saturating_add(slot_bytes(field.data_type()))),
        DataType::Union(fields, _) => fields
            .iter()
            .fold(5, |sum: u64, (_, field)| sum.saturating_add(slot_bytes(field.data_type()))),
        DataType::RunEndEncoded(ends, values) => {
            nested(slot_bytes(ends.data_type()), values.data_type())
        }
        flat => flat.primitive_width().map_or(16, count),
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{
        Int8Array, Int32Array, Int64Array, LargeListArray, ListArray, ListViewArray, NullArray,
        StringArray,
    };
    use arrow_buffer::{OffsetBuffer, ScalarBuffer};
    use arrow_schema::Field;
    use std::sync::Arc;

    fn try_take(column: ArrayRef, rows: &[u64]) -> Result<ArrayRef, GatherError> {
        let mut allowance = Allowance::of(std::iter::once(&column));
        take(&column, &UInt64Array::from(rows.to_vec()), &mut allowance)
    }

    fn field(array: &dyn Array) -> Arc<Field> {
        Arc::new(Field::new("item", array.data_type().clone(), true))
    }

    /// `count` views of all of `values` each.
    fn views(values: ArrayRef, count: usize) -> ArrayRef {
        let size = i32::try_from(values.len()).unwrap();
        let offsets = ScalarBuffer::from(vec![0_i32; count]);
        let sizes = ScalarBuffer::from(vec![size; count]);
        Arc::new(ListViewArray::new(field(&values), offsets, sizes, values, None))
    }

    fn singles(values: ArrayRef) -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, values.len()));
        Arc::new(ListArray::new(field(&values), offsets, values, None))
    }

    #[test]
    fn runs_that_stand_for_billions_of_values_are_refused() {
        let length = (1_i64 << 33) - 8;
        let ends = Int64Array::from(vec![length]);
        let runs: ArrayRef =
            Arc::new(RunArray::try_new(&ends, &StringArray::from(vec!["y"])).unwrap());
        let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 0, length]));
        let lists: ArrayRef = Arc::new(LargeListArray::new(field(&runs), offsets, runs, None));
        assert_eq!(try_take(Arc::clone(&lists), &[0]), Err(GatherError::TooLarge));
        assert_eq!(try_take(lists, &[1]), Err(GatherError::TooLarge));
    }

    #[test]
    fn overlapping_views_inside_lists_are_refused_and_outside_they_stay_views() {
        let values: ArrayRef = Arc::new(Int8Array::from(vec![1; 1_000_000]));
        let overlapping = views(values, 2000);
        let rows: Vec<u64> = (1..2000).collect();
        let taken = try_take(Arc::clone(&overlapping), &rows).unwrap();
        assert_eq!(taken.len(), 1999);
        assert_eq!(try_take(singles(Arc::clone(&overlapping)), &rows), Err(GatherError::TooLarge));
        let deep = singles(views(views(overlapping, 3000), 3000));
        assert_eq!(try_take(deep, &[0, 5]), Err(GatherError::TooLarge));
    }

    #[test]
    fn ordinary_nested_columns_are_copied() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
        let lists = singles(singles(values));
        let taken = try_take(Arc::clone(&lists), &[3, 1, 1]).unwrap();
        assert_eq!(taken.slice(1, 1).as_ref(), lists.slice(1, 1).as_ref());
        assert_eq!(taken.slice(0, 1).as_ref(), lists.slice(3, 1).as_ref());
        assert!(matches!(try_take(lists, &[4]), Err(GatherError::Failed(_))));
        let nulls: ArrayRef = Arc::new(NullArray::new(2_000_000_000));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 0, 2_000_000_000]));
        let lists: ArrayRef = Arc::new(ListArray::new(field(&nulls), offsets, nulls, None));
        assert_eq!(try_take(lists, &[1]).unwrap().len(), 1);
    }

    #[test]
    fn the_allowance_is_one_for_all_copies_that_share_it() {
        let values: ArrayRef = Arc::new(Int8Array::from(vec![1; 400_000]));
        let lists = singles(views(values, 1000));
        let mut allowance = Allowance::of(std::iter::once(&lists));
        let all = UInt64Array::from_iter_values(0..1000);
        let results = [(); 3].map(|()| take(&lists, &all, &mut allowance).is_ok());
        assert_eq!(results, [true, true, false]);
    }
}
