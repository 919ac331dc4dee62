//! Columns of foreign tables, whatever type they have.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ByteArrayType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, GenericByteArray, LargeBinaryArray, LargeStringArray,
    RecordBatch, StringArray, StringViewArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;
use iac_format::TableKind;
use iac_reader::{PackReader, Table};

use crate::error::{AdapterError, Result};

/// A column of texts: of any text type, or a dictionary of one.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextColumn {
    parts: Vec<(u64, Text)>,
    rows: u64,
}

#[derive(Debug, Clone)]
enum Text {
    Utf8(StringArray),
    Large(LargeStringArray),
    View(StringViewArray),
    /// Bytes that each text is checked for being one when it is asked for.
    Bytes(BinaryArray),
    LargeBytes(LargeBinaryArray),
    Dictionary {
        keys: Vec<u32>,
        nulls: Option<NullBuffer>,
        words: Box<Text>,
    },
    Null(usize),
}

impl Text {
    fn new(array: &ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => Self::Utf8(array.as_string::<i32>().clone()),
            DataType::LargeUtf8 => Self::Large(array.as_string::<i64>().clone()),
            DataType::Utf8View => Self::View(array.as_string_view().clone()),
            DataType::Null => Self::Null(array.len()),
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary_opt()?;
                let words = Self::new(dictionary.values()).filter(|words| words.is_plain())?;
                let keys = if dictionary.values().is_empty() {
                    vec![0; array.len()]
                } else {
                    let keys = dictionary.normalized_keys();
                    keys.into_iter()
                        .map(|key| u32::try_from(key).ok())
                        .collect::<Option<Vec<u32>>>()?
                };
                let nulls = dictionary.keys().nulls().cloned();
                Self::Dictionary { keys, nulls, words: Box::new(words) }
            }
            _ => return None,
        })
    }

    /// Of texts that come as bytes.
    fn of_bytes(array: &ArrayRef) -> Option<Self> {
        match array.data_type() {
            DataType::Binary => Some(Self::Bytes(array.as_binary::<i32>().clone())),
            DataType::LargeBinary => Some(Self::LargeBytes(array.as_binary::<i64>().clone())),
            _ => Self::new(array),
        }
    }

    const fn is_plain(&self) -> bool {
        !matches!(self, Self::Dictionary { .. })
    }

    fn get(&self, row: usize) -> Option<&str> {
        match self {
            Self::Utf8(array) => {
                (row < array.len() && array.is_valid(row)).then(|| array.value(row))
            }
            Self::Large(array) => {
                (row < array.len() && array.is_valid(row)).then(|| array.value(row))
            }
            Self::View(array) => {
                (row < array.len() && array.is_valid(row)).then(|| array.value(row))
            }
            Self::Bytes(_) | Self::LargeBytes(_) => str::from_utf8(self.bytes(row)?).ok(),
            Self::Dictionary { keys, nulls, words } => {
                let key = *keys.get(row)?;
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return None;
                }
                words.get(usize::try_from(key).ok()?)
            }
            Self::Null(_) => None,
        }
    }

    /// The same, also where it is no text.
    fn bytes(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Bytes(array) => {
                (row < array.len() && array.is_valid(row)).then(|| array.value(row))
            }
            Self::LargeBytes(array) => {
                (row < array.len() && array.is_valid(row)).then(|| array.value(row))
            }
            other => other.get(row).map(str::as_bytes),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Bytes(array) => array.len(),
            Self::LargeBytes(array) => array.len(),
            Self::Utf8(array) => array.len(),
            Self::Large(array) => array.len(),
            Self::View(array) => array.len(),
            Self::Dictionary { keys, .. } => keys.len(),
            Self::Null(rows) => *rows,
        }
    }
}

impl TextColumn {
    /// Takes the first column of batches; nothing when it holds no texts.
    pub(crate) fn of_batches(batches: &[RecordBatch]) -> Option<Self> {
        let mut column = Self::default();
        for batch in batches {
            column.push(batch.columns().first()?)?;
        }
        Some(column)
    }

    pub(crate) fn push(&mut self, array: &ArrayRef) -> Option<()> {
        self.add(Text::new(array)?)
    }

    fn add(&mut self, text: Text) -> Option<()> {
        let rows = u64::try_from(text.len()).ok()?;
        if rows > 0 {
            self.parts.push((self.rows, text));
            self.rows = self.rows.checked_add(rows)?;
        }
        Some(())
    }

    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    /// The text of a row; nothing for a null and behind the last row.
    pub(crate) fn get(&self, row: u64) -> Option<&str> {
        let (text, row) = self.part_of(row)?;
        text.get(row)
    }

    /// The bytes of a row's text, also where they are none; nothing for a null and behind the last
    /// row.
    pub(crate) fn bytes(&self, row: u64) -> Option<&[u8]> {
        let (text, row) = self.part_of(row)?;
        text.bytes(row)
    }

    fn part_of(&self, row: u64) -> Option<(&Text, usize)> {
        let (start, text) = match self.parts.as_slice() {
            [only] => only,
            parts => {
                let behind = parts.partition_point(|(start, _)| *start <= row);
                parts.get(behind.checked_sub(1)?)?
            }
        };
        Some((text, usize::try_from(row.checked_sub(*start)?).ok()?))
    }

    /// Hands the texts' bytes on in order until one is refused; quicker than iterating.
    pub(crate) fn try_for_each_bytes<E>(
        &self,
        mut on_text: impl FnMut(u64, Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (start, text) in &self.parts {
            let rows = *start..;
            match text {
                Text::Bytes(array) => {
                    rows.zip(array.iter()).try_for_each(|(row, text)| on_text(row, text))?;
                }
                Text::Utf8(array) => {
                    let texts = array.iter().map(|text| text.map(str::as_bytes));
                    rows.zip(texts).try_for_each(|(row, text)| on_text(row, text))?;
                }
                other => {
                    let texts = (0..other.len()).map(|row| other.bytes(row));
                    rows.zip(texts).try_for_each(|(row, text)| on_text(row, text))?;
                }
            }
        }
        Ok(())
    }

    /// Hands the texts on in order until one is refused; quicker than iterating.
    #[cfg(feature = "wsi")]
    pub(crate) fn try_for_each<E>(
        &self,
        mut on_text: impl FnMut(u64, Option<&str>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (start, text) in &self.parts {
            let rows = *start..;
            if let Text::Utf8(array) = text {
                rows.zip(array.iter()).try_for_each(|(row, text)| on_text(row, text))?;
            } else {
                let texts = (0..text.len()).map(|row| text.get(row));
                rows.zip(texts).try_for_each(|(row, text)| on_text(row, text))?;
            }
        }
        Ok(())
    }

    /// Hands on every row with this text, in order.
    pub(crate) fn rows_with(&self, text: &[u8], mut on_row: impl FnMut(u64)) {
        for (start, part) in &self.parts {
            let on_row = |row| on_row(start.saturating_add(u64::try_from(row).unwrap_or(0)));
            match part {
                Text::Bytes(array) => look_through(array, text, on_row),
                Text::LargeBytes(array) => look_through(array, text, on_row),
                Text::Utf8(array) => look_through(array, text, on_row),
                other => {
                    (0..other.len()).filter(|row| other.bytes(*row) == Some(text)).for_each(on_row);
                }
            }
        }
    }

    /// The texts in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        self.parts.iter().flat_map(|(_, text)| (0..text.len()).map(|row| text.get(row)))
    }
}

/// Hands on the rows of an array that have these bytes.
///
/// Ids of one slide often begin alike and have one length, so their ends are compared first.
fn look_through<T: ByteArrayType>(
    array: &GenericByteArray<T>,
    wanted: &[u8],
    mut on_row: impl FnMut(usize),
) {
    let values = array.value_data();
    let place = |offset: &T::Offset| offset.to_usize().unwrap_or(usize::MAX);
    let end_of = |bytes: &[u8]| bytes.last_chunk::<8>().copied();
    let wanted_end = end_of(wanted);
    let ends = array.value_offsets();
    let mut start = ends.first().map_or(0, place);
    for (row, end) in ends.iter().skip(1).map(place).enumerate() {
        let begin = std::mem::replace(&mut start, end);
        if end.wrapping_sub(begin) != wanted.len() {
            continue;
        }
        let Some(found) = values.get(begin..end) else { continue };
        if end_of(found) == wanted_end && found == wanted && array.is_valid(row) {
            on_row(row);
        }
    }
}

/// A column of integers of any width.
#[derive(Debug, Clone, Default)]
pub(crate) struct IntColumn {
    parts: Vec<(u64, ArrayRef)>,
    rows: u64,
}

impl IntColumn {
    /// Takes the first column of batches; nothing when it holds no integers.
    pub(crate) fn of_batches(batches: &[RecordBatch]) -> Option<Self> {
        let mut column = Self::default();
        for batch in batches {
            column.push(batch.columns().first()?)?;
        }
        Some(column)
    }

    /// Adds an array; nothing when it holds no integers.
    pub(crate) fn push(&mut self, array: &ArrayRef) -> Option<()> {
        if !array.data_type().is_integer() {
            return None;
        }
        let rows = u64::try_from(array.len()).ok()?;
        if rows > 0 {
            self.parts.push((self.rows, array.clone()));
            self.rows = self.rows.checked_add(rows)?;
        }
        Some(())
    }

    /// The number of a row; nothing for a null and behind the last row.
    pub(crate) fn get(&self, row: u64) -> Option<i128> {
        let (start, array) = match self.parts.as_slice() {
            [only] => only,
            parts => {
                let behind = parts.partition_point(|(start, _)| *start <= row);
                parts.get(behind.checked_sub(1)?)?
            }
        };
        value(array, usize::try_from(row.checked_sub(*start)?).ok()?)
    }

    /// The numbers in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<i128>> {
        self.parts.iter().flat_map(|(_, array)| (0..array.len()).map(|row| value(array, row)))
    }
}

fn value(array: &ArrayRef, row: usize) -> Option<i128> {
    if row >= array.len() || array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        _ => return None,
    })
}

/// Whether a table has a column of that name.
pub(crate) fn has_column(table: &Table, name: &str) -> bool {
    table.schema().fields().iter().any(|field| field.name() == name)
}

/// Columns that a table lacks, in the order asked for.
pub(crate) fn missing_columns<'a>(table: &Table, names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().filter(|name| !has_column(table, name)).collect()
}

/// A column of texts of an open pack.
pub(crate) fn text_column(pack: &PackReader, kind: TableKind, name: &str) -> Result<TextColumn> {
    let table = table_of(pack, kind)?;
    TextColumn::of_batches(&column(pack, table, name)?)
        .ok_or_else(|| wrong_type(pack, table, name, "texts"))
}

/// The same for texts that are mostly compared: each is checked for being text when it is asked
/// for.
pub(crate) fn id_column(pack: &PackReader, kind: TableKind, name: &str) -> Result<TextColumn> {
    check_text_column(pack, kind, name)?;
    let table = table_of(pack, kind)?;
    if !has_column(table, name) {
        return Err(no_column(pack, table, name));
    }
    let mut column = TextColumn::default();
    for batch in table.columns_as_bytes(&[name])? {
        let part = batch.columns().first().and_then(Text::of_bytes);
        part.and_then(|part| column.add(part))
            .ok_or_else(|| wrong_type(pack, table, name, "texts"))?;
    }
    Ok(column)
}

/// Whether a column of an open pack can hold texts; nothing of it is decoded.
pub(crate) fn check_text_column(pack: &PackReader, kind: TableKind, name: &str) -> Result<()> {
    let table = table_of(pack, kind)?;
    let is_text = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, words) => is_plain_text(words),
        plain => is_plain_text(plain),
    };
    match table.schema().fields().iter().find(|field| field.name() == name) {
        Some(field) if !is_text(field.data_type()) => Err(wrong_type(pack, table, name, "texts")),
        _ => Ok(()),
    }
}

const fn is_plain_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
}

/// A column of integers of an open pack.
pub(crate) fn int_column(pack: &PackReader, kind: TableKind, name: &str) -> Result<IntColumn> {
    let table = table_of(pack, kind)?;
    let batches = column(pack, table, name)?;
    IntColumn::of_batches(&batches).ok_or_else(|| wrong_type(pack, table, name, "integers"))
}

fn table_of(pack: &PackReader, kind: TableKind) -> Result<&Table> {
    Ok(match kind {
        TableKind::Slide => pack.slide_table()?,
        TableKind::Index => pack.index_table()?,
    })
}

fn column(pack: &PackReader, table: &Table, name: &str) -> Result<Vec<RecordBatch>> {
    if !has_column(table, name) {
        return Err(no_column(pack, table, name));
    }
    Ok(table.columns(&[name])?)
}

fn no_column(pack: &PackReader, table: &Table, name: &str) -> AdapterError {
    let reason = format!("the {} has no column `{name}`", table.kind());
    AdapterError::schema(pack.path(), name, reason)
}

fn wrong_type(pack: &PackReader, table: &Table, name: &str, wanted: &str) -> AdapterError {
    let found = table.schema().fields().iter().find(|field| field.name() == name);
    let found = found.map_or_else(String::new, |field| field.data_type().to_string());
    AdapterError::schema(
        pack.path(),
        name,
        format!("column `{name}` of the {} is of type {found} instead of {wanted}", table.kind()),
    )
}
