//! Raw access to fixed-width columns, the way to address records without decoding a table.

use std::fmt;

use arrow_schema::DataType;
use bytes::Bytes;

use super::fault::{Check, Fault};
use super::layout::{Cursor, Need, Skip, Span, Visit};
use super::limits::Allowance;
use super::{Inner, Part, PartKind, decode};
use crate::{FormatError, Result};

/// The raw little-endian values of a fixed-width column without nulls.
#[derive(Clone)]
pub struct FixedColumn {
    /// The column's type.
    pub data_type: DataType,
    /// Bytes of one value.
    pub width: usize,
    /// The values of each record batch: exactly its rows times `width` bytes, at any alignment.
    pub chunks: Vec<Bytes>,
}

impl fmt::Debug for FixedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedColumn")
            .field("data_type", &self.data_type)
            .field("chunks", &self.chunks.len())
            .finish_non_exhaustive()
    }
}

/// What reading one batch can find.
enum Found {
    Values(Bytes),
    Nulls(u64),
}

pub(super) fn read(inner: &Inner, index: usize, allowed: &[DataType]) -> Result<FixedColumn> {
    let Some(field) = inner.schema.fields().get(index) else {
        return Err(FormatError::Argument {
            reason: format!("the {} has no column {index}", inner.table),
        });
    };
    let data_type = field.data_type();
    let wrong = |reason: String| FormatError::column(inner.table, field.name(), reason);
    if !allowed.contains(data_type) {
        let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        return Err(wrong(format!("has type {data_type}, expected {}", allowed.join(" or "))));
    }
    let width = data_type
        .primitive_width()
        .filter(|_| !matches!(data_type, DataType::Dictionary(..)))
        .ok_or_else(|| FormatError::Argument {
            reason: format!("values of type {data_type} have no fixed width"),
        })?;
    let mut allowance = Allowance::new();
    let mut chunks = Vec::with_capacity(inner.batch_rows.len());
    let mut nulls = 0_u64;
    for part in inner.parts.iter().filter(|p| p.kind == PartKind::Batch) {
        let found = batch(inner, part, index, width, &mut allowance)
            .map_err(|fault| decode::at_part(fault, part).into_error(inner.table))?;
        match found {
            Found::Values(values) => chunks.push(values),
            Found::Nulls(more) => nulls = nulls.saturating_add(more),
        }
    }
    if nulls > 0 {
        return Err(wrong(format!("has {nulls} nulls in {} rows, expected none", inner.rows)));
    }
    Ok(FixedColumn { data_type: data_type.clone(), width, chunks })
}

fn batch(
    inner: &Inner,
    part: &Part,
    index: usize,
    width: usize,
    allowance: &mut Allowance,
) -> Check<Found> {
    let (message, metadata) = inner.open(part)?;
    let mut cursor = Cursor::new(&metadata);
    let mut last = Last(None);
    for (position, field) in inner.schema.fields().iter().take(index.saturating_add(1)).enumerate()
    {
        if position < index {
            cursor.column(field, &mut Skip)?;
            continue;
        }
        let node = cursor.column(field, &mut last)?;
        if node.nulls > 0 {
            return Ok(Found::Nulls(node.nulls));
        }
    }
    let short = || Fault::damaged("the values are shorter than the rows need");
    let length = usize::try_from(metadata.rows)
        .ok()
        .and_then(|rows| rows.checked_mul(width))
        .ok_or_else(short)?;
    if metadata.codec.is_some() {
        let selected = [index];
        let values = decode::raw_values(inner, part, &message, &metadata, &selected, allowance)?;
        return Ok(Found::Values(
            (length <= values.len()).then(|| values.slice(..length)).ok_or_else(short)?,
        ));
    }
    // The column's last buffer holds its values.
    let start = last
        .0
        .and_then(|span| usize::try_from(span.offset).ok())
        .and_then(|offset| offset.checked_add(part.place.body.start));
    let range = start
        .and_then(|start| Some(start..start.checked_add(length)?))
        .filter(|range| range.end <= part.place.body.end)
        .ok_or_else(short)?;
    Ok(Found::Values(inner.bytes.slice(range)))
}

/// Remembers the last buffer of a column.
struct Last(Option<Span>);

impl Visit for Last {
    fn buffer(&mut self, span: Span, _: Need) -> Check<()> {
        self.0 = Some(span);
        Ok(())
    }

    fn bodiless(&mut self, _: u64) -> Check<()> {
        Ok(())
    }
}
