//! Elements as bytes: how chunks hold them, and how they are copied from box to box.

use crate::dtype::DType;
use crate::error::{ArrayError, Result, u64_len, usize_len, zeroed};
use crate::expand::check_element as check_element_repeats;
use crate::grid::Selection;

/// Elements as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Values {
    /// All of one width, back to back, little-endian.
    Fixed(Vec<u8>),
    /// Each with its own length.
    Variable(Vec<Vec<u8>>),
}

/// Refuses elements that their type does not have.
pub(crate) fn check_elements(dtype: &DType, values: &Values) -> std::result::Result<(), String> {
    match (dtype, values) {
        (DType::Bool, Values::Fixed(bytes)) => bytes
            .iter()
            .find(|byte| **byte > 1)
            .map_or(Ok(()), |byte| Err(format!("a `bool` element has the byte {byte}"))),
        (DType::Utf8, Values::Variable(values)) => values
            .iter()
            .all(|value| std::str::from_utf8(value).is_ok())
            .then_some(())
            .ok_or_else(|| "a `utf8` element is not UTF-8".to_owned()),
        _ => Ok(()),
    }
}

/// Places elements are read into.
#[derive(Debug)]
pub(crate) enum Target<'a> {
    Fixed(&'a mut [u8]),
    Variable(&'a mut [Vec<u8>]),
}

/// Where elements come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    Fixed(&'a [u8]),
    Variable(&'a [Vec<u8>]),
    /// One element, wherever one is asked for.
    Every(&'a [u8]),
}

fn repeated(element: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(element.len()).map_err(|error| ArrayError::System {
        what: "memory",
        reason: format!("{} bytes of an element: {error}", element.len()),
    })?;
    copy.extend_from_slice(element);
    Ok(copy)
}

impl Values {
    /// So many elements of a width in memory, each the fill value.
    pub(crate) fn filled(width: Option<usize>, fill: Option<&[u8]>, elements: u64) -> Result<Self> {
        let Some(width) = width else {
            let elements = usize_len("elements", elements)?;
            let mut values: Vec<Vec<u8>> = Vec::new();
            values.try_reserve_exact(elements).map_err(|error| ArrayError::System {
                what: "memory",
                reason: format!("{elements} elements: {error}"),
            })?;
            let fill = fill.unwrap_or_default();
            check_element_repeats(fill, u64_len(elements))?;
            for _ in 0..elements {
                values.push(repeated(fill)?);
            }
            return Ok(Self::Variable(values));
        };
        let bytes = elements.checked_mul(u64_len(width)).ok_or(ArrayError::TooLarge {
            what: "box (bytes)",
            found: u64::MAX,
            allowed: u64_len(usize::MAX),
        })?;
        let mut bytes = zeroed("elements", bytes)?;
        fill_bytes(&mut bytes, width, fill);
        Ok(Self::Fixed(bytes))
    }

    pub(crate) fn as_source(&self) -> Source<'_> {
        match self {
            Self::Fixed(bytes) => Source::Fixed(bytes),
            Self::Variable(values) => Source::Variable(values),
        }
    }

    pub(crate) fn as_target(&mut self) -> Target<'_> {
        match self {
            Self::Fixed(bytes) => Target::Fixed(bytes),
            Self::Variable(values) => Target::Variable(values),
        }
    }

    /// The bytes of elements of one width; none of others.
    pub(crate) fn fixed(&self) -> &[u8] {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Variable(_) => &[],
        }
    }

    /// Bytes of memory, roughly.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => u64_len(bytes.len()),
            Self::Variable(values) => values
                .iter()
                .fold(0, |all, value| all.saturating_add(u64_len(value.len()).saturating_add(24))),
        }
    }

    /// The one element that all are equal to, if there is one.
    pub(crate) fn constant(&self, width: Option<usize>) -> Option<&[u8]> {
        match self {
            Self::Fixed(bytes) => {
                let width = width?;
                let first = bytes.get(..width)?;
                // Equal to itself moved on by one element: all are alike.
                (bytes.get(width..)? == bytes.get(..bytes.len().checked_sub(width)?)?)
                    .then_some(first)
            }
            Self::Variable(values) => {
                let first = values.first()?;
                values.iter().all(|value| value == first).then_some(first)
            }
        }
    }

    /// The bytes of a chunk.
    pub(crate) fn encode(&self, dtype: &DType) -> Result<Vec<u8>> {
        let values = match self {
            Self::Fixed(bytes) => return Ok(bytes.clone()),
            Self::Variable(values) => values,
        };
        let unit = u64_len(list_unit(dtype));
        let mut bytes = Vec::new();
        let mut end = 0_u64;
        let too_large = |found| ArrayError::TooLarge {
            what: "chunk (bytes)",
            found,
            allowed: u64::from(u32::MAX),
        };
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        for value in values {
            end = end.saturating_add(u64_len(value.len()));
            let offset = end.checked_div(unit).unwrap_or(0);
            let offset = u32::try_from(offset).map_err(|_| too_large(end))?;
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
        values.iter().for_each(|value| bytes.extend_from_slice(value));
        Ok(bytes)
    }
}

fn list_unit(dtype: &DType) -> usize {
    match dtype {
        DType::List(element) => element.width().unwrap_or(1).max(1),
        _ => 1,
    }
}

/// Fills memory that holds zeros.
pub(crate) fn fill_bytes(bytes: &mut [u8], width: usize, fill: Option<&[u8]>) {
    let Some(fill) = fill.filter(|fill| fill.iter().any(|byte| *byte != 0)) else {
        return;
    };
    bytes.chunks_exact_mut(width.max(1)).for_each(|slot| slot.copy_from_slice(fill));
}

/// Reads the elements of a chunk whose bytes are not checked yet.
pub(crate) fn decode_variable(
    dtype: &DType,
    bytes: &[u8],
    elements: u64,
) -> std::result::Result<Vec<Vec<u8>>, String> {
    let unit = list_unit(dtype);
    let table = elements
        .checked_add(1)
        .and_then(|entries| usize::try_from(entries.checked_mul(4)?).ok())
        .and_then(|table| bytes.split_at_checked(table));
    let Some((table, body)) = table else {
        return Err(format!("{} bytes are too few for {elements} offsets", bytes.len()));
    };
    let mut offsets = table
        .chunks_exact(4)
        .filter_map(|entry| entry.try_into().ok().map(u32::from_le_bytes))
        .filter_map(|offset| usize::try_from(offset).ok());
    let mut before = offsets.next().unwrap_or(0);
    if before != 0 {
        return Err(format!("the first offset is {before} instead of 0"));
    }
    let mut values = Vec::new();
    for offset in offsets {
        let span = before.checked_mul(unit).zip(offset.checked_mul(unit));
        let value = span.and_then(|(from, end)| body.get(from..end));
        let Some(value) = value else {
            return Err(format!(
                "offsets {before} and {offset} do not rise within {} bytes",
                body.len()
            ));
        };
        values.push(value.to_vec());
        before = offset;
    }
    if before.checked_mul(unit) != Some(body.len()) {
        return Err(format!("the last offset is {before}, {} bytes follow", body.len()));
    }
    let values = Values::Variable(values);
    check_elements(dtype, &values)?;
    match values {
        Values::Variable(values) => Ok(values),
        Values::Fixed(_) => Ok(Vec::new()),
    }
}

/// Checks the bytes of a chunk of elements with one width.
pub(crate) fn check_fixed(
    dtype: &DType,
    bytes: &[u8],
    elements: u64,
) -> std::result::Result<(), String> {
    let expected = dtype.width().and_then(|width| elements.checked_mul(u64_len(width)));
    if expected != Some(u64_len(bytes.len())) {
        return Err(format!("{} bytes for {elements} elements of `{dtype}`", bytes.len()));
    }
    if *dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
        return Err("a `bool` element is neither 0 nor 1".to_owned());
    }
    Ok(())
}

/// Checks the bytes of one element, which have the width of its type.
pub(crate) fn check_element(dtype: &DType, element: &[u8]) -> std::result::Result<(), String> {
    match dtype {
        DType::Bool if element.iter().any(|byte| *byte > 1) => {
            Err("a `bool` element is neither 0 nor 1".to_owned())
        }
        DType::Utf8 if std::str::from_utf8(element).is_err() => {
            Err("a `utf8` element is not UTF-8".to_owned())
        }
        DType::List(_) if !element.len().is_multiple_of(list_unit(dtype)) => {
            Err(format!("{} bytes are no elements of `{dtype}`", element.len()))
        }
        _ => Ok(()),
    }
}

/// A box of elements in memory: where it begins, how it is laid out, how much of it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) origin: &'a [u64],
    pub(crate) extents: &'a [u64],
    pub(crate) visible: &'a [u64],
}

fn span(start: u64, elements: u64, width: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(start).ok()?.checked_mul(width)?;
    let length = usize::try_from(elements).ok()?.checked_mul(width)?;
    Some(start..start.checked_add(length)?)
}

fn lost() -> ArrayError {
    ArrayError::argument("a box of elements is shorter than its shape")
}

/// Copies the selected elements of a box to their places in the selection.
pub(crate) fn copy_out(
    from: Source<'_>,
    place: Place<'_>,
    to: &mut Target<'_>,
    selection: &Selection,
    width: usize,
) -> Result<()> {
    selection.runs(place.origin, place.extents, place.visible, |source, target, elements| {
        transfer(from, source, to, target, elements, width)
    })
}

/// Copies elements of a selection, which lie row-major in `from`, into a box.
pub(crate) fn copy_in(
    from: Source<'_>,
    place: Place<'_>,
    to: &mut Target<'_>,
    selection: &Selection,
    width: usize,
) -> Result<()> {
    selection.runs(place.origin, place.extents, place.visible, |target, source, elements| {
        transfer(from, source, to, target, elements, width)
    })
}

fn transfer(
    from: Source<'_>,
    source: u64,
    to: &mut Target<'_>,
    target: u64,
    elements: u64,
    width: usize,
) -> Result<()> {
    match (from, to) {
        (Source::Fixed(from), Target::Fixed(to)) => {
            let from = span(source, elements, width).and_then(|span| from.get(span));
            let to = span(target, elements, width).and_then(|span| to.get_mut(span));
            let (from, to) = from.zip(to).ok_or_else(lost)?;
            to.copy_from_slice(from);
        }
        (Source::Every(element), Target::Fixed(to)) => {
            let to = span(target, elements, width).and_then(|span| to.get_mut(span));
            let to = to.filter(|_| element.len() == width).ok_or_else(lost)?;
            to.chunks_exact_mut(width.max(1)).for_each(|slot| slot.copy_from_slice(element));
        }
        (Source::Every(element), Target::Variable(to)) => {
            let to = span(target, elements, 1).and_then(|span| to.get_mut(span));
            let to = to.ok_or_else(lost)?;
            check_element_repeats(element, u64_len(to.len()))?;
            for slot in to {
                *slot = repeated(element)?;
            }
        }
        (Source::Variable(from), Target::Variable(to)) => {
            let from = span(source, elements, 1).and_then(|span| from.get(span));
            let to = span(target, elements, 1).and_then(|span| to.get_mut(span));
            let (from, to) = from.zip(to).ok_or_else(lost)?;
            to.clone_from_slice(from);
        }
        _ => return Err(lost()),
    }
    Ok(())
}
