//! The structure of TIFF and BigTIFF files: the chain of directories and the values of their tags.
//!
//! Everything is checked against the file's size before memory is taken for it: the chain may not
//! come back to a directory it has passed, and values must lie inside of the file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use iac_format::ErrorKind;
use iac_reader::ByteSource;

use super::tags::{self, Type};
use crate::error::{AdapterError, Result};

/// Directories that a file may have.
const MAX_PAGES: usize = 4096;
/// Tags that a directory may have; the largest ones seen have about a hundred.
const MAX_TAGS: u64 = 4096;
/// Tags that a file may have: directories may overlap, so that its size does not bound them.
const MAX_ALL_TAGS: u64 = 1 << 18;
/// Bytes that the values of one tag may have: offsets of 16 million tiles.
const MAX_VALUE: u64 = 128 << 20;

/// A file whose directories have been read; values are read when they are asked for.
pub(crate) struct TiffFile {
    path: PathBuf,
    source: Box<dyn ByteSource>,
    little: bool,
    pages: Vec<Vec<Entry>>,
    /// Tags of all of them.
    tags: u64,
}

/// How directories and their entries are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Classic,
    Big,
    /// Classic with offsets of 64 bits: those of directories where they stand, the upper halves of
    /// values in a list behind each directory. Hamamatsu's files of 4 GiB and more are such.
    Ndpi,
}

impl Form {
    /// Bytes of the count of entries, of an entry, and of the offset of the next directory.
    const fn sizes(self) -> (u64, u64, u64) {
        match self {
            Self::Classic => (2, 12, 4),
            Self::Big => (8, 20, 8),
            Self::Ndpi => (2, 12, 8),
        }
    }
}

/// A tag of a directory.
#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: u16,
    kind: Option<Type>,
    count: u64,
    /// Where the values are.
    at: u64,
    /// The upper half of a single integer that stands in the entry.
    upper: u32,
}

/// A value of a tag.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    /// Integers that are not negative.
    Integers(Vec<u64>),
    /// Numbers of other kinds.
    Numbers(Vec<f64>),
    /// Bytes of texts and of undefined types.
    Bytes(Vec<u8>),
}

/// Numbers as the file orders their bytes.
struct Order {
    little: bool,
}

impl Order {
    fn u16(&self, bytes: &[u8]) -> Option<u16> {
        let bytes = bytes.first_chunk::<2>()?;
        Some(if self.little { u16::from_le_bytes(*bytes) } else { u16::from_be_bytes(*bytes) })
    }

    fn u32(&self, bytes: &[u8]) -> Option<u32> {
        let bytes = bytes.first_chunk::<4>()?;
        Some(if self.little { u32::from_le_bytes(*bytes) } else { u32::from_be_bytes(*bytes) })
    }

    fn u64(&self, bytes: &[u8]) -> Option<u64> {
        let bytes = bytes.first_chunk::<8>()?;
        Some(if self.little { u64::from_le_bytes(*bytes) } else { u64::from_be_bytes(*bytes) })
    }
}

impl TiffFile {
    /// Reads the chain of directories.
    pub(crate) fn read(path: &Path, source: Box<dyn ByteSource>) -> Result<Self> {
        let mut file =
            Self { path: path.to_owned(), source, little: true, pages: Vec::new(), tags: 0 };
        let start = file.bytes(0, file.source.size().min(16), "the header")?;
        file.little = match start.get(..2) {
            Some(b"II") => true,
            Some(b"MM") => false,
            _ => {
                let shown = start.get(..4).unwrap_or(&start).escape_ascii().to_string();
                return Err(file.decode(format!("is no TIFF file (it starts with \"{shown}\")")));
            }
        };
        let order = file.order();
        let version = start.get(2..).and_then(|bytes| order.u16(bytes));
        let (form, first) = match version {
            Some(42) => {
                if let Some(first) = file.ndpi_start(&start) {
                    (Form::Ndpi, Some(first))
                } else {
                    let first = start.get(4..).and_then(|bytes| order.u32(bytes));
                    (Form::Classic, first.map(u64::from))
                }
            }
            Some(43) => {
                let sizes = start.get(4..).and_then(|bytes| order.u32(bytes));
                let size = start.get(4..).and_then(|bytes| order.u16(bytes));
                if size != Some(8) || sizes.is_none() {
                    return Err(file.decode(format!(
                        "a BigTIFF file has offsets of {} bytes instead of 8",
                        size.unwrap_or_default()
                    )));
                }
                (Form::Big, start.get(8..).and_then(|bytes| order.u64(bytes)))
            }
            _ => {
                return Err(file.decode(format!(
                    "is no TIFF file (its version is {} instead of 42 or 43)",
                    version.map_or_else(|| "cut off".to_owned(), |version| version.to_string())
                )));
            }
        };
        let mut next = first.ok_or_else(|| file.decode("the header is cut off".to_owned()))?;
        let mut seen = HashSet::new();
        while next != 0 {
            if !seen.insert(next) {
                return Err(file.decode(format!(
                    "the chain of directories comes back to the one at byte {next}"
                )));
            }
            if file.pages.len() >= MAX_PAGES {
                return Err(file.limit(format!("has more than {MAX_PAGES} directories")));
            }
            next = file.directory(next, form)?;
        }
        if file.pages.is_empty() {
            return Err(file.decode("has no directory".to_owned()));
        }
        Ok(file)
    }

    /// Where the first directory is by an offset of 64 bits, if the file is too large for others and
    /// one of Hamamatsu's.
    fn ndpi_start(&self, start: &[u8]) -> Option<u64> {
        if self.source.size() <= u64::from(u32::MAX) {
            return None;
        }
        let order = self.order();
        let first = start.get(4..).and_then(|bytes| order.u64(bytes))?;
        let (count_bytes, entry_bytes, _) = Form::Ndpi.sizes();
        let count = order.u16(&self.bytes(first, count_bytes, "").ok()?)?;
        let table = first.checked_add(count_bytes)?;
        let table = self.bytes(table, u64::from(count).checked_mul(entry_bytes)?, "").ok()?;
        let is_theirs = |row: &[u8]| order.u16(row) == Some(tags::NDPI_VERSION);
        table.chunks_exact(12).any(is_theirs).then_some(first)
    }

    /// Reads a directory and tells where the next one is.
    fn directory(&mut self, at: u64, form: Form) -> Result<u64> {
        let page = self.pages.len();
        let big = form == Form::Big;
        let what = format!("directory {page}");
        let order = self.order();
        let cut = |file: &Self| file.decode(format!("directory {page} is cut off"));
        let (count_bytes, entry_bytes, next_bytes) = form.sizes();
        let count = self.bytes(at, count_bytes, &what)?;
        let count = if big { order.u64(&count) } else { order.u16(&count).map(u64::from) };
        let count = count.ok_or_else(|| cut(self))?;
        if count > MAX_TAGS {
            return Err(self.limit(format!(
                "directory {page} has {count} tags, but at most {MAX_TAGS} are read"
            )));
        }
        self.tags = self.tags.saturating_add(count);
        if self.tags > MAX_ALL_TAGS {
            return Err(self.limit(format!(
                "directories 0 to {page} have {} tags, but at most {MAX_ALL_TAGS} are read",
                self.tags
            )));
        }
        let start = at.checked_add(count_bytes).ok_or_else(|| cut(self))?;
        let length = count.saturating_mul(entry_bytes);
        let table = self.bytes(start, length, &what)?;
        let end = start.saturating_add(length);
        let uppers = if form == Form::Ndpi {
            self.bytes(end.saturating_add(next_bytes), count.saturating_mul(4), &what)?
        } else {
            Vec::new()
        };
        let mut uppers = uppers.chunks_exact(4);
        let mut entries = Vec::new();
        let mut known = HashSet::new();
        for (number, row) in (0_u64..).zip(table.chunks_exact(if big { 20 } else { 12 })) {
            let (Some(tag), Some(kind)) =
                (order.u16(row), row.get(2..).and_then(|bytes| order.u16(bytes)))
            else {
                return Err(cut(self));
            };
            let tail = row.get(4..).unwrap_or_default();
            let (count, value) = if big {
                (order.u64(tail), tail.get(8..).and_then(|bytes| order.u64(bytes)))
            } else {
                let value = tail.get(4..).and_then(|bytes| order.u32(bytes));
                (order.u32(tail).map(u64::from), value.map(u64::from))
            };
            let (Some(count), Some(value)) = (count, value) else { return Err(cut(self)) };
            let kind = Type::from_number(kind);
            let upper = uppers.next().and_then(|bytes| order.u32(bytes)).unwrap_or(0);
            let bytes = kind.map_or(0, |kind| kind.bytes().saturating_mul(count));
            let value_bytes = if big { 8 } else { 4 };
            // Texts never stand in entries of these files.
            let outside = form == Form::Ndpi && kind == Some(Type::Ascii);
            let row_at = start.saturating_add(number.saturating_mul(entry_bytes));
            let (at, upper) = if bytes <= value_bytes && !outside {
                (row_at.saturating_add(entry_bytes.saturating_sub(value_bytes)), upper)
            } else {
                (value | u64::from(upper).wrapping_shl(32), 0)
            };
            // The first of several entries of one tag counts, as other readers have it.
            if known.insert(tag) {
                entries.push(Entry { tag, kind, count, at, upper });
            }
        }
        self.pages.push(entries);
        // Some writers end a file with the last directory's tags.
        if end >= self.source.size() {
            return Ok(0);
        }
        let next = self.bytes(end, next_bytes, &what)?;
        let next = match form {
            Form::Classic => order.u32(&next).map(u64::from),
            Form::Big | Form::Ndpi => order.u64(&next),
        };
        next.ok_or_else(|| cut(self))
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub(crate) fn size(&self) -> u64 {
        self.source.size()
    }

    /// How many directories it has.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    fn order(&self) -> Order {
        Order { little: self.little }
    }

    /// Bytes of the file, which must all be there.
    pub(crate) fn bytes(&self, at: u64, length: u64, what: &str) -> Result<Vec<u8>> {
        let size = self.source.size();
        if at.checked_add(length).is_none_or(|end| end > size) {
            return Err(self.decode(format!(
                "{what} lies at bytes {at} to {}, but the file has {size}",
                u128::from(at).saturating_add(length.into())
            )));
        }
        let count = usize::try_from(length)
            .map_err(|_| self.limit(format!("{what} has {length} bytes")))?;
        let mut buffer = Vec::new();
        buffer
            .try_reserve_exact(count)
            .map_err(|_| self.limit(format!("there is no memory for {what} of {length} bytes")))?;
        buffer.resize(count, 0);
        self.source
            .read_into(at, &mut buffer)
            .map_err(AdapterError::io(&self.path, "cannot read the slide"))?;
        Ok(buffer)
    }

    /// The values of a tag, where the directory has it.
    pub(crate) fn values(&self, page: usize, tag: u16) -> Result<Option<Values>> {
        self.first_values(page, tag, u64::MAX)
    }

    /// The values of a tag up to a count: nothing is read of those behind.
    fn first_values(&self, page: usize, tag: u16, most: u64) -> Result<Option<Values>> {
        let entry = self.pages.get(page).and_then(|page| page.iter().find(|it| it.tag == tag));
        let Some(entry) = entry else { return Ok(None) };
        let what = || format!("page {page}: {}", tags::name(tag));
        let Some(kind) = entry.kind else {
            return Err(self.decode(format!("{} is of an unknown type", what())));
        };
        let length = kind.bytes().saturating_mul(entry.count.min(most));
        if length > MAX_VALUE {
            return Err(self.limit(format!(
                "{} has {} values, which is more than is read",
                what(),
                entry.count
            )));
        }
        let bytes = self.bytes(entry.at, length, &what())?;
        let mut values = self.parse(kind, &bytes);
        if let (Values::Integers(integers), 1, true) = (&mut values, entry.count, entry.upper > 0) {
            for integer in integers {
                *integer |= u64::from(entry.upper).wrapping_shl(32);
            }
        }
        Ok(Some(values))
    }

    fn parse(&self, kind: Type, bytes: &[u8]) -> Values {
        let order = self.order();
        let each = |size: usize| bytes.chunks_exact(size.max(1));
        let integers = |size, read: &dyn Fn(&[u8]) -> Option<u64>| {
            Values::Integers(each(size).filter_map(read).collect())
        };
        let numbers = |size, read: &dyn Fn(&[u8]) -> Option<f64>| {
            Values::Numbers(each(size).filter_map(read).collect())
        };
        let signed = |bytes: &[u8]| order.u32(bytes).map(u32::cast_signed).map(f64::from);
        match kind {
            Type::Ascii | Type::Undefined => Values::Bytes(bytes.to_vec()),
            Type::Byte => integers(1, &|bytes| bytes.first().copied().map(u64::from)),
            Type::Short => integers(2, &|bytes| order.u16(bytes).map(u64::from)),
            Type::Long | Type::Ifd => integers(4, &|bytes| order.u32(bytes).map(u64::from)),
            Type::Long8 | Type::Ifd8 => integers(8, &|bytes| order.u64(bytes)),
            Type::SignedByte => {
                numbers(1, &|bytes| bytes.first().map(|byte| f64::from(byte.cast_signed())))
            }
            Type::SignedShort => {
                numbers(2, &|bytes| order.u16(bytes).map(|it| f64::from(it.cast_signed())))
            }
            Type::SignedLong => numbers(4, &signed),
            #[allow(clippy::cast_precision_loss, reason = "no tag that is read has such numbers")]
            Type::SignedLong8 => {
                numbers(8, &|bytes| order.u64(bytes).map(|it| it.cast_signed() as f64))
            }
            Type::Rational => numbers(8, &|bytes| {
                let (top, bottom) = (order.u32(bytes)?, order.u32(bytes.get(4..)?)?);
                Some(f64::from(top) / f64::from(bottom))
            }),
            Type::SignedRational => {
                numbers(8, &|bytes| Some(signed(bytes)? / signed(bytes.get(4..)?)?))
            }
            Type::Float => {
                numbers(4, &|bytes| order.u32(bytes).map(|it| f32::from_bits(it).into()))
            }
            Type::Double => numbers(8, &|bytes| order.u64(bytes).map(f64::from_bits)),
        }
    }

    /// All integers of a tag.
    pub(crate) fn integers(&self, page: usize, tag: u16) -> Result<Option<Vec<u64>>> {
        self.first_integers(page, tag, u64::MAX)
    }

    fn first_integers(&self, page: usize, tag: u16, most: u64) -> Result<Option<Vec<u64>>> {
        match self.first_values(page, tag, most)? {
            None => Ok(None),
            Some(Values::Integers(integers)) => Ok(Some(integers)),
            Some(_) => Err(self.wrong(page, tag, "is no integer that is not negative")),
        }
    }

    /// The first integer of a tag.
    pub(crate) fn integer(&self, page: usize, tag: u16) -> Result<Option<u64>> {
        match self.first_integers(page, tag, 1)? {
            None => Ok(None),
            Some(integers) => match integers.first() {
                Some(first) => Ok(Some(*first)),
                None => Err(self.wrong(page, tag, "has no value")),
            },
        }
    }

    /// The first number of a tag.
    pub(crate) fn number(&self, page: usize, tag: u16) -> Result<Option<f64>> {
        Ok(self.first_values(page, tag, 1)?.and_then(|values| match values {
            Values::Numbers(numbers) => numbers.first().copied(),
            Values::Integers(integers) => {
                integers.first().map(|it| crate::wsi::schema::as_f64(*it))
            }
            Values::Bytes(_) => None,
        }))
    }

    /// The text of a tag: up to the first zero, Latin-1 where it is no UTF-8.
    pub(crate) fn text(&self, page: usize, tag: u16) -> Result<Option<String>> {
        Ok(self.binary(page, tag)?.map(|bytes| {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8(text.to_vec())
                .unwrap_or_else(|_| text.iter().copied().map(char::from).collect())
        }))
    }

    /// The bytes of a tag.
    pub(crate) fn binary(&self, page: usize, tag: u16) -> Result<Option<Vec<u8>>> {
        match self.values(page, tag)? {
            None => Ok(None),
            Some(Values::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Values::Integers(integers)) => {
                let bytes = integers.iter().map(|it| u8::try_from(*it)).collect();
                let bytes: Result<Vec<u8>, _> = bytes;
                bytes.map(Some).map_err(|_| self.wrong(page, tag, "holds no bytes"))
            }
            Some(Values::Numbers(_)) => Err(self.wrong(page, tag, "holds no bytes")),
        }
    }

    /// A tag that is wrong.
    pub(crate) fn wrong(&self, page: usize, tag: u16, reason: impl AsRef<str>) -> AdapterError {
        self.decode(format!("page {page}: {} {}", tags::name(tag), reason.as_ref()))
    }

    pub(crate) fn decode(&self, reason: String) -> AdapterError {
        self.error(ErrorKind::Decode, reason)
    }

    pub(crate) fn unsupported(&self, reason: String) -> AdapterError {
        self.error(ErrorKind::Unsupported, reason)
    }

    pub(crate) fn limit(&self, reason: String) -> AdapterError {
        self.error(ErrorKind::Limit, reason)
    }

    pub(crate) fn error(&self, kind: ErrorKind, reason: String) -> AdapterError {
        AdapterError::Source { path: self.path.clone(), row: None, kind, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_reader::Memory;

    fn read(bytes: &[u8]) -> Result<TiffFile> {
        TiffFile::read(Path::new("a.tif"), Box::new(Memory::new(bytes.to_vec())))
    }

    fn message(bytes: &[u8]) -> String {
        read(bytes).err().map(|error| error.to_string()).unwrap_or_default()
    }

    /// A file of one directory with the given entries (tag, type, count, value).
    fn one(entries: &[(u16, u16, u32, u32)], next: u32) -> Vec<u8> {
        let mut bytes = b"II*\0\x08\0\0\0".to_vec();
        bytes.extend(u16::try_from(entries.len()).unwrap().to_le_bytes());
        for (tag, kind, count, value) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(count.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(next.to_le_bytes());
        bytes
    }

    #[test]
    fn chains_that_come_back_are_refused() {
        assert_eq!(
            message(&one(&[(256, 3, 1, 5)], 8)),
            "a.tif: the chain of directories comes back to the one at byte 8"
        );
    }

    #[test]
    fn directories_beyond_the_end_are_refused() {
        assert_eq!(
            message(&one(&[], 1000)),
            "a.tif: directory 1 lies at bytes 1000 to 1002, but the file has 14"
        );
        assert_eq!(
            message(b"II*\0\xff\xff\xff\xff"),
            "a.tif: directory 0 lies at bytes 4294967295 to 4294967297, but the file has 8"
        );
        assert_eq!(message(b"IJ"), "a.tif: is no TIFF file (it starts with \"IJ\")");
        assert!(
            message(b"MM\0+\0\x08\0\0\xff\xff\xff\xff\xff\xff\xff\xff").contains("directory 0")
        );
    }

    #[test]
    fn values_are_tested_against_the_file_before_memory_is_taken() {
        let file = read(&one(&[(324, 4, 1 << 24, 8), (325, 16, u32::MAX, 8)], 0)).unwrap();
        let error = file.integers(0, 324).unwrap_err().to_string();
        assert!(error.starts_with("a.tif: page 0: TileOffsets lies at bytes 8 to "), "{error}");
        let error = file.integers(0, 325).unwrap_err().to_string();
        assert!(error.contains("TileByteCounts has 4294967295 values"), "{error}");
        assert_eq!(file.integers(0, 256).unwrap(), None);
    }

    #[test]
    fn values_inside_of_entries_are_read_in_either_byte_order() {
        let file = read(&one(&[(256, 3, 1, 5), (258, 3, 2, 0x0008_0009)], 0)).unwrap();
        assert_eq!(file.integer(0, 256).unwrap(), Some(5));
        assert_eq!(file.integers(0, 258).unwrap(), Some(vec![9, 8]));
        let file = read(b"MM\0*\0\0\0\x08\0\x01\x01\0\0\x03\0\0\0\x01\0\x07\0\0\0\0\0\0").unwrap();
        assert_eq!(file.integer(0, 256).unwrap(), Some(7));
    }

    #[test]
    fn directories_that_overlap_do_not_multiply_their_tags() {
        // Directories 4 bytes apart, each of 4096 tags that differ.
        let (step, tags) = (4_usize, 4096_u16);
        let table = usize::from(tags) * 12;
        let mut bytes = b"II*\0\x08\0\0\0".to_vec();
        bytes.resize(8 + table + 5000 * step, 0);
        for at in (8..bytes.len() - 3).step_by(step) {
            bytes[at..at + 2].copy_from_slice(&tags.to_le_bytes());
            let tag = u16::try_from(at / step % 65_536).unwrap();
            bytes[at + 2..at + 4].copy_from_slice(&tag.to_le_bytes());
        }
        for number in 0..4000 {
            let at = 8 + number * step;
            let end = at + 2 + table;
            let next = u32::try_from(at + step).unwrap();
            bytes[end..end + 4].copy_from_slice(&next.to_le_bytes());
        }
        assert_eq!(
            message(&bytes),
            "a.tif: directories 0 to 64 have 266240 tags, but at most 262144 are read"
        );
    }

    #[test]
    fn of_tags_of_one_value_no_others_are_read() {
        let file = read(&one(&[(256, 3, 1 << 30, 4), (282, 5, u32::MAX, 4)], 0)).unwrap();
        assert_eq!(file.integer(0, 256).unwrap(), Some(8));
        assert!(file.number(0, 282).unwrap().is_some());
        assert!(file.integers(0, 256).is_err());
    }

    #[test]
    fn every_cut_of_a_file_gives_an_error_or_fewer_values() {
        let whole = one(&[(256, 4, 1, 5), (257, 4, 1, 6), (270, 2, 6, 40)], 0);
        for cut in 0..whole.len() {
            if let Ok(file) = read(&whole[..cut]) {
                for tag in [256, 257, 270] {
                    let _ = file.values(0, tag);
                }
            }
        }
    }
}
