//! Packs put together from a short input, so that nobody has to guess 64 KiB of zeros.
//!
//! An input is one byte of flags, three little-endian lengths of two bytes (header text, slide
//! table, index table), the three parts, and the data segment, which is all that is left. Lengths
//! that reach past the end are cut to what is there.

use iac_format::table::TableStream;
use iac_format::{
    Checksums, HEADER_BYTES, HeaderFacts, Layout, TableKind, build_header_text, header_block,
};
use serde_json::{Map, Value};

/// The text is a JSON object of the caller's members; layout and row counts are filled in.
pub const FILL_IN: u8 = 1;
/// With [`FILL_IN`]: the pack keeps checksums of itself, which are right.
pub const SUMS: u8 = 2;
/// With [`SUMS`]: index column `crc32` holds sums of fixed rows.
pub const ROW_SUMS: u8 = 4;
/// With [`SUMS`]: the data segment has a sum.
pub const DATA_SUM: u8 = 8;
/// With [`FILL_IN`]: row counts come from the text.
pub const OWN_COUNTS: u8 = 16;
/// The last data byte is left out of the file.
pub const CUT: u8 = 32;

/// The parts of an input.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// What to do with them.
    pub flags: u8,
    /// JSON text.
    pub text: &'a [u8],
    /// Arrow stream.
    pub slides: &'a [u8],
    /// Arrow stream.
    pub index: &'a [u8],
    /// Payload bytes.
    pub data: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes an input apart.
    pub fn new(input: &'a [u8]) -> Option<Self> {
        let (head, rest) = input.split_first_chunk::<7>()?;
        let [flags, a, b, c, d, e, f] = *head;
        let length = |low, high| usize::from(u16::from_le_bytes([low, high]));
        let (text, rest) = rest.split_at(length(a, b).min(rest.len()));
        let (slides, rest) = rest.split_at(length(c, d).min(rest.len()));
        let (index, data) = rest.split_at(length(e, f).min(rest.len()));
        Some(Self { flags, text, slides, index, data })
    }

    /// The input that [`Parts::new`] takes apart to these parts; nothing for parts of 64 KiB.
    pub fn to_input(self) -> Option<Vec<u8>> {
        let mut input = vec![self.flags];
        for part in [self.text, self.slides, self.index] {
            input.extend(u16::try_from(part.len()).ok()?.to_le_bytes());
        }
        for part in [self.text, self.slides, self.index, self.data] {
            input.extend(part);
        }
        Some(input)
    }

    fn header_text(&self) -> Option<String> {
        let text = std::str::from_utf8(self.text).ok()?;
        if self.flags & FILL_IN == 0 {
            return Some(text.to_owned());
        }
        let members: Map<String, Value> = serde_json::from_str(text).ok()?;
        let length = |part: &[u8]| u64::try_from(part.len()).ok();
        let layout =
            Layout::new(length(self.slides)?, length(self.index)?, length(self.data)?).ok()?;
        let count = |name: &str, part: &[u8], table| {
            if self.flags & OWN_COUNTS != 0 {
                return members.get(name).and_then(Value::as_u64).unwrap_or(0);
            }
            let stream = TableStream::parse(bytes::Bytes::copy_from_slice(part), table);
            stream.map_or(0, |stream| stream.num_rows())
        };
        let checksums = (self.flags & SUMS != 0).then(|| {
            let hash = crc32fast::hash;
            let mut sums = Checksums::of_tables(hash(self.slides), hash(self.index));
            if self.flags & ROW_SUMS != 0 {
                sums = sums.with_rows();
            }
            if self.flags & DATA_SUM != 0 {
                sums = sums.with_data(hash(self.data));
            }
            sums
        });
        let facts = HeaderFacts {
            layout,
            num_slides: count("num_slides", self.slides, TableKind::Slide),
            num_records: count("num_records", self.index, TableKind::Index),
            checksums,
        };
        build_header_text(&members, &facts).ok()
    }
}

/// The file that an input stands for.
pub fn assemble(input: &[u8]) -> Option<Vec<u8>> {
    let parts = Parts::new(input)?;
    let mut file = header_block(&parts.header_text()?).ok()?;
    debug_assert_eq!(u64::try_from(file.len()), Ok(HEADER_BYTES));
    for part in [parts.slides, parts.index, parts.data] {
        file.extend_from_slice(part);
    }
    if parts.flags & CUT != 0 {
        file.pop();
    }
    Some(file)
}
