//! Row numbers and spans as callers give them.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyRange, PyTuple};

use crate::errors::{Fault, Raise};

/// What a negative row number means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Negative {
    /// It counts from the end.
    FromEnd,
    /// It does not exist.
    Refused,
}

/// A row number among so many rows.
fn among(row: i64, count: u64, negative: Negative) -> Option<u64> {
    let row = match u64::try_from(row) {
        Ok(row) => row,
        Err(_) if negative == Negative::FromEnd => count.checked_sub(row.unsigned_abs())?,
        Err(_) => return None,
    };
    (row < count).then_some(row)
}

fn out_of_range(row: i64, count: u64) -> Fault {
    Fault::row(format!("row {row} is out of range of {count} rows"))
}

/// One row number; anything that Python takes for an integer.
pub(crate) fn row(
    row: &Bound<'_, PyAny>,
    count: impl FnOnce() -> PyResult<u64>,
    negative: Negative,
) -> PyResult<u64> {
    let row = row.extract::<i64>()?;
    let count = count()?;
    among(row, count, negative).ok_or_else(|| out_of_range(row, count)).raise()
}

/// Row numbers: any iterable, and arrays of integers without going through it number by number.
pub(crate) fn rows(
    rows: &Bound<'_, PyAny>,
    count: impl FnOnce() -> PyResult<u64>,
    negative: Negative,
) -> PyResult<Vec<u64>> {
    let count = count()?;
    let take = |found: &mut Vec<u64>, row: i64| match among(row, count, negative) {
        Some(row) => {
            found.push(row);
            Ok(())
        }
        None => Err(out_of_range(row, count)),
    };
    let mut found = Vec::new();
    if let Ok(list) = rows.cast::<PyList>() {
        found.reserve(list.len());
        for row in list.iter() {
            take(&mut found, row.extract()?).raise()?;
        }
    } else if let Ok(tuple) = rows.cast::<PyTuple>() {
        for row in tuple.iter() {
            take(&mut found, row.extract()?).raise()?;
        }
    } else if let Some(numbers) = from_buffer(rows)? {
        numbers.into_iter().try_for_each(|row| take(&mut found, row)).raise()?;
    } else {
        for row in rows.try_iter()? {
            take(&mut found, row?.extract()?).raise()?;
        }
    }
    Ok(found)
}

/// The numbers of an array; nothing where the object is none, or not of integers of these widths.
fn from_buffer(rows: &Bound<'_, PyAny>) -> PyResult<Option<Vec<i64>>> {
    let py = rows.py();
    if rows.is_instance_of::<PyBytes>() || rows.is_instance_of::<PyRange>() {
        return Ok(None);
    }
    if let Ok(buffer) = PyBuffer::<i64>::get(rows) {
        return flat(&buffer).then(|| buffer.to_vec(py)).transpose();
    }
    if let Ok(buffer) = PyBuffer::<i32>::get(rows) {
        let wide = |rows: Vec<i32>| rows.into_iter().map(i64::from).collect();
        return flat(&buffer).then(|| buffer.to_vec(py).map(wide)).transpose();
    }
    if let Ok(buffer) = PyBuffer::<u32>::get(rows) {
        let wide = |rows: Vec<u32>| rows.into_iter().map(i64::from).collect();
        return flat(&buffer).then(|| buffer.to_vec(py).map(wide)).transpose();
    }
    if let Ok(buffer) = PyBuffer::<u64>::get(rows) {
        if !flat(&buffer) {
            return Ok(None);
        }
        let narrow = |row: u64| {
            i64::try_from(row)
                .map_err(|_| PyOverflowError::new_err(format!("row {row} is beyond 64 bits")))
        };
        return buffer.to_vec(py)?.into_iter().map(narrow).collect::<PyResult<_>>().map(Some);
    }
    Ok(None)
}

/// Whether the array is a plain list of numbers. Iterating over one of more dimensions gives arrays,
/// which are no row numbers.
fn flat<T: pyo3::buffer::Element>(buffer: &PyBuffer<T>) -> bool {
    buffer.dimensions() == 1
}

/// Most threads, where the caller says so.
pub(crate) fn workers(workers: Option<usize>) -> PyResult<Option<std::num::NonZeroUsize>> {
    match workers {
        None => Ok(None),
        Some(count) => std::num::NonZeroUsize::new(count)
            .map(Some)
            .ok_or_else(|| Fault::value("workers must be a positive integer or None"))
            .raise(),
    }
}

/// A span of the data segment. What no span can be is a `ValueError`, as one outside is.
pub(crate) fn span(offset: &Bound<'_, PyAny>, length: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
    let number = |value: &Bound<'_, PyAny>| -> PyResult<u64> {
        // Whatever is an integer but does not fit lies outside of every pack.
        let index = value.py().import("operator")?.getattr("index")?.call1((value,))?;
        index.extract::<u64>().map_err(|_| {
            Fault::value(format!("a span with {index} does not lie inside the data segment")).into()
        })
    };
    match (offset.extract::<u64>(), length.extract::<u64>()) {
        (Ok(offset), Ok(length)) => Ok((offset, length)),
        _ => Ok((number(offset)?, number(length)?)),
    }
}
