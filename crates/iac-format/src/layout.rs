//! Where the parts of a pack lie: arithmetic only, all of it checked.

use serde_json::{Map, Value};

use crate::HEADER_BYTES;
use crate::error::{FormatError, Result};
use crate::json::kind_name;

/// A span of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// First byte, counted from the start of the file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Segment {
    /// The byte behind the segment, if it can be expressed.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }
}

/// The three segments behind the fixed header, which follow each other without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Arrow stream of the slide table.
    pub slide_table: Segment,
    /// Arrow stream of the index table, with alignment padding behind its end marker.
    pub index_table: Segment,
    /// Payload bytes.
    pub data: Segment,
}

impl Layout {
    /// Lays out a pack from the lengths of its segments.
    ///
    /// # Errors
    ///
    /// [`FormatError::Argument`] when the file would exceed 2^64 - 1 bytes.
    pub fn new(slide_table: u64, index_table: u64, data: u64) -> Result<Self> {
        let too_large = || FormatError::Argument {
            reason: format!(
                "segments of {slide_table}, {index_table} and {data} bytes do not fit into one file"
            ),
        };
        let slide = Segment { offset: HEADER_BYTES, length: slide_table };
        let index = Segment { offset: slide.end().ok_or_else(too_large)?, length: index_table };
        let data_segment = Segment { offset: index.end().ok_or_else(too_large)?, length: data };
        data_segment.end().ok_or_else(too_large)?;
        Ok(Self { slide_table: slide, index_table: index, data: data_segment })
    }

    /// Bytes of padding that a stream of `stream` bytes at `offset` needs so that what follows
    /// starts on a multiple of `alignment`.
    ///
    /// # Errors
    ///
    /// [`FormatError::Argument`] when the alignment is no power of two, or the sum overflows.
    pub fn padding(offset: u64, stream: u64, alignment: u64) -> Result<u64> {
        if !alignment.is_power_of_two() {
            return Err(FormatError::Argument {
                reason: format!("alignment of {alignment} bytes is not a power of two"),
            });
        }
        let end = offset
            .checked_add(stream)
            .and_then(|end| end.checked_next_multiple_of(alignment).map(|aligned| (end, aligned)));
        end.and_then(|(end, aligned)| aligned.checked_sub(end)).ok_or_else(|| {
            FormatError::Argument { reason: format!("segment of {stream} bytes is too large") }
        })
    }

    /// The byte behind the data segment: the file's size, unless something was appended.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.data.offset.saturating_add(self.data.length)
    }

    /// The largest power of two, at most 4096, that divides the start of the data segment.
    #[must_use]
    pub const fn data_alignment(&self) -> u64 {
        let zeros = self.data.offset.trailing_zeros();
        if zeros >= 12 { 4096 } else { 1 << zeros }
    }

    /// Reads the layout from header members and checks it against the size of the file
    /// (docs/format.md, "Header").
    pub(crate) fn from_members(members: &Map<String, Value>, file_len: u64) -> Result<Self> {
        let header_bytes = integer(members, "header_bytes")?;
        expect("header_bytes", header_bytes, HEADER_BYTES, "the size of the fixed header")?;
        let slide = Segment {
            offset: integer(members, "slide_table_offset")?,
            length: integer(members, "slide_table_length")?,
        };
        let index = Segment {
            offset: integer(members, "index_table_offset")?,
            length: integer(members, "index_table_length")?,
        };
        let data = Segment {
            offset: integer(members, "data_offset")?,
            length: integer(members, "data_length")?,
        };
        expect("slide_table_offset", slide.offset, HEADER_BYTES, "the end of the header")?;
        let slide_end = end_within("slide_table_length", slide, file_len)?;
        let index_end = end_within("index_table_length", index, file_len)?;
        expect("index_table_offset", index.offset, slide_end, "the end of the slide table")?;
        expect("data_offset", data.offset, index_end, "the end of the index table")?;
        end_within("data_length", data, file_len)?;
        Ok(Self { slide_table: slide, index_table: index, data })
    }

    /// The same for a file that may have been cut: a data segment that reaches past the file's end
    /// is shortened to what is there, and the complaint about it comes beside the layout.
    pub(crate) fn from_cut_members(
        members: &Map<String, Value>,
        file_len: u64,
    ) -> Result<(Self, Option<FormatError>)> {
        match Self::from_members(members, file_len) {
            Err(error) if error.field() == Some("data_length") => {
                let mut layout = Self::from_members(members, u64::MAX)?;
                // The data segment's start was within the file, or the complaint were another.
                layout.data.length = file_len.saturating_sub(layout.data.offset);
                Ok((layout, Some(error)))
            }
            strict => strict.map(|layout| (layout, None)),
        }
    }

    /// Writes the layout's members over whatever the caller has under their names.
    pub(crate) fn write_members(&self, members: &mut Map<String, Value>) {
        for (name, value) in [
            ("header_bytes", HEADER_BYTES),
            ("slide_table_offset", self.slide_table.offset),
            ("slide_table_length", self.slide_table.length),
            ("index_table_offset", self.index_table.offset),
            ("index_table_length", self.index_table.length),
            ("data_offset", self.data.offset),
            ("data_length", self.data.length),
        ] {
            members.insert(name.to_owned(), Value::from(value));
        }
    }
}

/// A member that must be an integer from 0 to 2^64 - 1.
pub(crate) fn integer(members: &Map<String, Value>, field: &str) -> Result<u64> {
    match members.get(field) {
        None => Err(FormatError::field_error(field, "missing")),
        Some(Value::Number(number)) => number.as_u64().ok_or_else(|| {
            FormatError::field_error(
                field,
                format!("{number} is not an integer from 0 to 18446744073709551615"),
            )
        }),
        Some(other) => Err(FormatError::field_error(
            field,
            format!("{} where an integer is expected", kind_name(other)),
        )),
    }
}

fn expect(field: &str, found: u64, expected: u64, what: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(FormatError::field_error(field, format!("found {found}, expected {expected} ({what})")))
}

fn end_within(field: &str, segment: Segment, file_len: u64) -> Result<u64> {
    match segment.end() {
        Some(end) if end <= file_len => Ok(end),
        _ => Err(FormatError::field_error(
            field,
            format!(
                "{} bytes from offset {} reach past the file's {file_len} bytes (the file was cut \
                 short, or its header is wrong)",
                segment.length, segment.offset
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other() {
        let layout = Layout::new(64, 128, 1000).unwrap();
        assert_eq!(layout.slide_table, Segment { offset: 65_536, length: 64 });
        assert_eq!(layout.index_table, Segment { offset: 65_600, length: 128 });
        assert_eq!(layout.data, Segment { offset: 65_728, length: 1000 });
        assert_eq!(layout.end(), 66_728);
        assert_eq!(layout.data_alignment(), 64);
    }

    #[test]
    fn sizes_beyond_64_bits_are_refused() {
        assert!(Layout::new(u64::MAX, 0, 0).is_err());
        assert!(Layout::new(1 << 63, 1 << 63, 0).is_err());
        assert!(Layout::new(8, 8, u64::MAX - 10).is_err());
        assert!(Layout::padding(u64::MAX - 3, 0, 64).is_err());
        assert!(Layout::padding(u64::MAX, 1, 64).is_err());
    }

    #[test]
    fn padding_reaches_the_next_multiple() {
        assert_eq!(Layout::padding(65_600, 8, 64).unwrap(), 56);
        assert_eq!(Layout::padding(65_600, 64, 64).unwrap(), 0);
        assert_eq!(Layout::padding(65_536, 1, 4096).unwrap(), 4095);
        assert!(Layout::padding(0, 0, 48).is_err());
    }

    #[test]
    fn written_members_read_back() {
        let layout = Layout::new(560, 664, 52).unwrap();
        let mut members = Map::new();
        layout.write_members(&mut members);
        assert_eq!(Layout::from_members(&members, layout.end()).unwrap(), layout);
        let error = Layout::from_members(&members, layout.end() - 1).unwrap_err();
        assert_eq!(error.field(), Some("data_length"));
    }

    #[test]
    fn the_data_segment_of_a_cut_file_is_what_is_left_of_it() {
        let layout = Layout::new(560, 664, 52).unwrap();
        let mut members = Map::new();
        layout.write_members(&mut members);
        let cut = |len| Layout::from_cut_members(&members, len);
        assert!(cut(layout.end()).unwrap().1.is_none());
        for left in [0, 1, 51] {
            let (found, complaint) = cut(layout.data.offset + left).unwrap();
            assert_eq!(found.data.length, left);
            assert_eq!(found.index_table, layout.index_table);
            assert_eq!(complaint.unwrap().field(), Some("data_length"));
        }
        let error = cut(layout.data.offset - 1).unwrap_err();
        assert_eq!(error.field(), Some("index_table_length"));
        members.insert("data_length".to_owned(), Value::from(-1));
        assert!(Layout::from_cut_members(&members, layout.end()).is_err());
    }
}
