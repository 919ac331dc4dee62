//! What the pages of a file claim, compared with what they have, before the library believes it.
//!
//! The library takes memory for the size that a page's header states, for the entries that a
//! dictionary states, and for the lengths that the delta encodings of texts state. An allocation
//! that fails ends the process, so none of these may be a lie.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use ::parquet::basic::{Encoding, Type};
use ::parquet::column::page::{Page, PageReader};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use ::parquet::file::reader::FileReader;
use ::parquet::file::serialized_reader::SerializedFileReader;

/// Bytes that a page may have when it is unpacked.
const MAX_PAGE: u64 = 256 << 20;
/// Structures within structures of a page's header; the format has fewer.
const MAX_DEPTH: u32 = 16;

type Check<T> = Result<T, ParquetError>;

fn damaged(reason: impl Into<String>) -> ParquetError {
    ParquetError::General(reason.into())
}

/// Checks the pages of columns, by their numbers.
pub(super) fn check(file: &File, metadata: &ParquetMetaData, columns: &[usize]) -> Check<()> {
    for (number, group) in metadata.row_groups().iter().enumerate() {
        for column in columns {
            let chunk = group
                .columns()
                .get(*column)
                .ok_or_else(|| damaged(format!("row group {number} lacks column {column}")))?;
            if has_delta_texts(file, chunk)? {
                lengths(file, number, *column, chunk)?;
            }
        }
    }
    Ok(())
}

/// Checks what the headers of a column's pages state, and tells whether a page has delta-encoded texts.
fn has_delta_texts(file: &File, chunk: &ColumnChunkMetaData) -> Check<bool> {
    // What bytes of numbers and texts begin with, or all they are.
    let least = match chunk.column_type() {
        Type::BYTE_ARRAY | Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BOOLEAN => 0,
        // No text and no integer, as is said when its type is looked at.
        Type::FIXED_LEN_BYTE_ARRAY => {
            u64::try_from(chunk.column_descr().type_length()).unwrap_or_default()
        }
    };
    let (start, length) = chunk.byte_range();
    let mut source = BufReader::new(file);
    source.seek(SeekFrom::Start(start))?;
    let mut found = false;
    let mut left = length;
    while left > 0 {
        let mut head = (&mut source).take(left);
        let page = PageHeader::read(&mut head)?;
        left = head.limit();
        let unpacked = u64::try_from(page.unpacked)
            .ok()
            .filter(|size| *size <= MAX_PAGE)
            .ok_or_else(|| damaged(format!("a page of {} bytes is refused", page.unpacked)))?;
        let behind = u64::try_from(page.stored).ok().and_then(|stored| left.checked_sub(stored));
        left = behind.ok_or_else(|| damaged(format!("a page of {} bytes is cut", page.stored)))?;
        if let Some(entries) = page.entries
            && u64::try_from(entries).map_or(u64::MAX, |entries| entries.saturating_mul(least))
                > unpacked
        {
            return Err(damaged(format!("a dictionary of {entries} entries has {unpacked} bytes")));
        }
        found |= page.has_delta_texts;
        source.seek_relative(page.stored)?;
    }
    Ok(found)
}

/// Compares the lengths that pages of delta-encoded texts begin with with the values that they have.
fn lengths(file: &File, group: usize, column: usize, chunk: &ColumnChunkMetaData) -> Check<()> {
    let reader = SerializedFileReader::new(file.try_clone()?)?;
    let mut pages: Box<dyn PageReader> =
        reader.get_row_group(group)?.get_column_page_reader(column)?;
    let has_levels = chunk.column_descr().max_def_level() > 0;
    while let Some(page) = pages.get_next_page()? {
        let (bytes, values, encoding, levels) = match &page {
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                let levels = match (has_levels, def_level_encoding) {
                    (false, _) => Some(0),
                    (true, Encoding::RLE) => buf.first_chunk::<4>().and_then(|length| {
                        usize::try_from(u32::from_le_bytes(*length)).ok()?.checked_add(4)
                    }),
                    (true, _) => None,
                };
                (buf, *num_values, *encoding, levels)
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = def_levels_byte_len.checked_add(*rep_levels_byte_len);
                let levels = levels.and_then(|levels| usize::try_from(levels).ok());
                (buf, *num_values, *encoding, levels)
            }
            Page::DictionaryPage { .. } => continue,
        };
        let texts = levels.and_then(|levels| bytes.get(levels..));
        let texts = texts.ok_or_else(|| damaged("the levels of a page are cut"))?;
        let sound = match encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => delta_end(texts, values).is_some(),
            Encoding::DELTA_BYTE_ARRAY => delta_end(texts, values)
                .and_then(|end| delta_end(texts.get(end..)?, values))
                .is_some(),
            _ => true,
        };
        if !sound {
            return Err(damaged("a page states more lengths than it has values, or is cut"));
        }
    }
    Ok(())
}

/// Where packed differences of at most `most` numbers end; nothing where they are more, or cut.
fn delta_end(bytes: &[u8], most: u32) -> Option<usize> {
    let mut rest = bytes;
    let block = varint(&mut rest).ok()?;
    let parts = varint(&mut rest).ok()?;
    let total = varint(&mut rest).ok()?;
    varint(&mut rest).ok()?;
    if total > u64::from(most) {
        return None;
    }
    let parts = usize::try_from(parts).ok().filter(|parts| *parts > 0)?;
    let part = block.checked_div(u64::try_from(parts).ok()?)?;
    // The first number stands in front.
    let mut left = total.saturating_sub(1);
    while left > 0 {
        varint(&mut rest).ok()?;
        let widths = rest.split_off(..parts)?;
        for width in widths {
            if left == 0 {
                break;
            }
            let bytes = u64::from(*width).checked_mul(part)?.checked_div(8)?;
            rest.split_off(..usize::try_from(bytes).ok()?)?;
            left = left.saturating_sub(part.max(1));
        }
    }
    bytes.len().checked_sub(rest.len())
}

/// What is needed of a page's header.
#[derive(Debug, Default)]
struct PageHeader {
    unpacked: i64,
    stored: i64,
    /// Entries of a dictionary.
    entries: Option<i64>,
    has_delta_texts: bool,
}

impl PageHeader {
    /// Reads a header, in the compact protocol of Thrift.
    fn read(source: &mut impl Read) -> Check<Self> {
        let mut header = Self::default();
        fields(source, MAX_DEPTH, &mut |source, depth, number, kind| {
            match (number, kind) {
                (2, 5) => header.unpacked = integer(source)?,
                (3, 5) => header.stored = integer(source)?,
                // Of data pages of both versions, the encoding; of dictionaries their entries.
                (5 | 7 | 8, 12) => fields(source, depth, &mut |source, depth, inner, kind| {
                    match (number, inner, kind) {
                        (7, 1, 5) => header.entries = Some(integer(source)?),
                        (5, 2, 5) | (8, 4, 5) => {
                            // DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY.
                            header.has_delta_texts |= matches!(integer(source)?, 6 | 7);
                        }
                        _ => skip(source, depth, kind)?,
                    }
                    Ok(())
                })?,
                _ => skip(source, depth, kind)?,
            }
            Ok(())
        })?;
        Ok(header)
    }
}

type OnField<'a, R> = dyn FnMut(&mut R, u32, i64, u8) -> Check<()> + 'a;

/// Hands on the number and kind of each field of a structure.
fn fields<R: Read>(source: &mut R, depth: u32, on_field: &mut OnField<'_, R>) -> Check<()> {
    let depth =
        depth.checked_sub(1).ok_or_else(|| damaged("a page's header is nested too deep"))?;
    let mut number = 0_i64;
    loop {
        let head = byte(source)?;
        if head == 0 {
            return Ok(());
        }
        number = match head >> 4 {
            0 => integer(source)?,
            more => number.saturating_add(i64::from(more)),
        };
        on_field(source, depth, number, head & 15)?;
    }
}

/// Passes over a value.
fn skip<R: Read>(source: &mut R, depth: u32, kind: u8) -> Check<()> {
    match kind {
        // Truth values of fields stand in their kind.
        1 | 2 => Ok(()),
        3 => byte(source).map(drop),
        4..=6 => varint(source).map(drop),
        7 => pass(source, 8),
        8 => {
            let length = varint(source)?;
            pass(source, length)
        }
        9 | 10 => {
            let head = byte(source)?;
            let count = match head >> 4 {
                15 => varint(source)?,
                count => count.into(),
            };
            let depth = depth
                .checked_sub(1)
                .ok_or_else(|| damaged("a page's header is nested too deep"))?;
            for _ in 0..count {
                match head & 15 {
                    1 | 2 => byte(source).map(drop)?,
                    kind => skip(source, depth, kind)?,
                }
            }
            Ok(())
        }
        12 => fields(source, depth, &mut |source, depth, _, kind| skip(source, depth, kind)),
        other => Err(damaged(format!("a page's header has a value of kind {other}"))),
    }
}

fn pass(source: &mut impl Read, length: u64) -> Check<()> {
    let passed = io::copy(&mut source.take(length), &mut io::sink())?;
    if passed == length { Ok(()) } else { Err(damaged("a page's header is cut")) }
}

fn byte(source: &mut impl Read) -> Check<u8> {
    let mut byte = [0; 1];
    source.read_exact(&mut byte)?;
    let [byte] = byte;
    Ok(byte)
}

/// A number of seven bits a byte.
fn varint(source: &mut impl Read) -> Check<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let next = byte(source)?;
        number |= u64::from(next & 0x7F).wrapping_shl(shift);
        if next & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(damaged("a number is longer than 64 bits"))
}

/// A number whose sign stands in its lowest bit.
fn integer(source: &mut impl Read) -> Check<i64> {
    let number = varint(source)?;
    let half = (number >> 1).cast_signed();
    Ok(if number & 1 == 0 { half } else { !half })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_differences_end_where_their_last_block_does() {
        // 128 numbers a block in 4 parts, one number, which stands in front.
        assert_eq!(delta_end(&[0x80, 1, 4, 1, 0, 99], 1), Some(5));
        // 33 numbers: 32 differences of 1 bit in the first part; the other widths count for nothing.
        let mut bytes = vec![0x80, 1, 4, 33, 0, 0, 1, 9, 9, 9, 1, 2, 3, 4];
        assert_eq!(delta_end(&bytes, 33), Some(14));
        assert_eq!(delta_end(&bytes, 32), None, "more than there are values");
        bytes.pop();
        assert_eq!(delta_end(&bytes, 33), None, "cut");
        // 2^35 numbers that take no bits.
        let claim = [0x80, 0x80, 0x80, 0x80, 0x80, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0, 0, 0];
        assert_eq!(delta_end(&claim, u32::MAX), None);
        assert_eq!(delta_end(&[0x80, 1, 0, 5, 0], 9), None, "no parts");
    }

    #[test]
    fn headers_without_end_are_refused() {
        // A structure in a structure in a structure.
        let nested = [0x1C; 100];
        assert!(PageHeader::read(&mut &nested[..]).is_err());
        // A list of lists.
        let lists = [0x19; 100];
        assert!(PageHeader::read(&mut &lists[..]).is_err());
        // A text of 2^63 bytes.
        let text = [0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert!(PageHeader::read(&mut &text[..]).is_err());
        assert!(PageHeader::read(&mut &[][..]).is_err());
    }
}
