//! The fixed header: magic, version, JSON members.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::checksums::{self, CHECKSUMS_EXTENSION, CHECKSUMS_MEMBER, Checksums};
use crate::error::{FormatError, Result};
use crate::fixed::FixedShape;
use crate::json::{kind_name, parse_object, to_text};
use crate::layout::Layout;
use crate::{FORMAT_VERSION, HEADER_BYTES, MAGIC, MAX_HEADER_TEXT};

/// Bytes in front of the JSON text: magic, text length, version.
const PREFIX_BYTES: usize = 16;

/// Header member that lists the extensions in a file.
pub const EXTENSIONS_MEMBER: &str = "extensions";
/// Header member that lists the extensions without which records cannot be decoded.
pub const REQUIRED_EXTENSIONS_MEMBER: &str = "required_extensions";

/// Finds the JSON text in the first bytes of a file: the format's checks up to the text's encoding.
///
/// `block` holds the first `min(file_len, 65536)` bytes.
///
/// # Errors
///
/// [`FormatError::NotIac`], [`FormatError::HeaderCut`], [`FormatError::UnsupportedVersion`],
/// [`FormatError::HeaderTooLong`] or [`FormatError::HeaderText`].
pub fn header_text(block: &[u8], file_len: u64) -> Result<&str> {
    let magic = block.get(..MAGIC.len().min(block.len())).unwrap_or_default();
    if magic.is_empty() || !MAGIC.starts_with(magic) {
        return Err(FormatError::NotIac { found: magic.to_vec() });
    }
    let cut = || FormatError::HeaderCut { len: file_len };
    if file_len < HEADER_BYTES {
        return Err(cut());
    }
    let word = |from: usize| -> Result<u32> {
        let bytes = block.get(from..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(cut)?;
        Ok(u32::from_le_bytes(*bytes))
    };
    let version = word(12)?;
    if version != FORMAT_VERSION {
        return Err(FormatError::UnsupportedVersion { found: version });
    }
    let length = word(8)?;
    if u64::from(length) > MAX_HEADER_TEXT {
        return Err(FormatError::HeaderTooLong { len: u64::from(length) });
    }
    let text = usize::try_from(length)
        .ok()
        .and_then(|length| block.get(PREFIX_BYTES..)?.get(..length))
        .ok_or_else(cut)?;
    std::str::from_utf8(text).map_err(|error| FormatError::HeaderText { reason: error.to_string() })
}

/// The header of a pack: its members and the layout that they describe.
///
/// Clones are cheap and share the text and the members.
#[derive(Debug, Clone)]
pub struct Header {
    text: Arc<str>,
    members: Arc<Map<String, Value>>,
    layout: Layout,
    fixed: Option<FixedShape>,
    fixed_error: Option<FormatError>,
    checksums: Option<Checksums>,
}

impl Header {
    /// Parses the first bytes of a file of `file_len` bytes.
    ///
    /// `block` holds the first `min(file_len, 65536)` bytes.
    ///
    /// # Errors
    ///
    /// What [`header_text`] and [`Header::from_text`] report.
    pub fn parse(block: &[u8], file_len: u64) -> Result<Self> {
        Self::from_text(header_text(block, file_len)?, file_len)
    }

    /// Interprets a header's JSON text for a file of `file_len` bytes: members, layout, and its
    /// checksum where it has one.
    ///
    /// # Errors
    ///
    /// [`FormatError::HeaderText`] for bad JSON, [`FormatError::HeaderField`] for a member that is
    /// missing or wrong, [`FormatError::Checksum`] for altered text.
    pub fn from_text(text: impl Into<Arc<str>>, file_len: u64) -> Result<Self> {
        let text = text.into();
        let members = parse_object(&text)?;
        let layout = Layout::from_members(&members, file_len)?;
        let sums = sums_of(&members)?;
        if let Some(error) = sums.and_then(|sums| wrong_sum(&text, sums)) {
            return Err(error);
        }
        Ok(Self::assemble(text, members, layout, sums))
    }

    /// Interprets a header's JSON text as far as it can be, for those who rescue what is left of a
    /// damaged pack; what is wrong comes beside it.
    ///
    /// Altered text is accepted as long as it describes a layout, and a data segment that reaches
    /// past the file's end is shortened to what is there. Nothing that comes out of such a header
    /// can be relied on without a checksum of its own.
    ///
    /// # Errors
    ///
    /// As [`Header::from_text`] where the layout cannot be made out.
    pub fn from_damaged_text(
        text: impl Into<Arc<str>>,
        file_len: u64,
    ) -> Result<(Self, Vec<FormatError>)> {
        let text = text.into();
        let members = parse_object(&text)?;
        let (layout, cut) = Layout::from_cut_members(&members, file_len)?;
        let mut damage: Vec<FormatError> = cut.into_iter().collect();
        let sums = sums_of(&members).unwrap_or_else(|error| {
            damage.push(error);
            None
        });
        damage.extend(sums.and_then(|sums| wrong_sum(&text, sums)));
        Ok((Self::assemble(text, members, layout, sums), damage))
    }

    fn assemble(
        text: Arc<str>,
        members: Map<String, Value>,
        layout: Layout,
        checksums: Option<Checksums>,
    ) -> Self {
        // A wrong shape is reported when rows are read: header and tables stay readable.
        let (fixed, fixed_error) = match FixedShape::from_members(&members) {
            Ok(shape) => (shape, None),
            Err(error) => (None, Some(error)),
        };
        Self { text, members: Arc::new(members), layout, fixed, fixed_error, checksums }
    }

    /// The JSON text as it stands in the file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The shared text, for caches.
    #[must_use]
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// Every member, the caller's and the layout's.
    #[must_use]
    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// One member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// Where the segments lie.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// What the records are: `image_tiles`, `wsi_image`, ...
    #[must_use]
    pub fn payload_type(&self) -> Option<&str> {
        self.get("payload_type").and_then(Value::as_str)
    }

    /// Rows of the slide table, as the header states them.
    ///
    /// # Errors
    ///
    /// [`FormatError::HeaderField`] when `num_slides` is missing or no whole number.
    pub fn num_slides(&self) -> Result<u64> {
        count(&self.members, "num_slides")
    }

    /// Rows of the index table, as the header states them.
    ///
    /// # Errors
    ///
    /// [`FormatError::HeaderField`] when `num_records` is missing or no whole number.
    pub fn num_records(&self) -> Result<u64> {
        count(&self.members, "num_records")
    }

    /// Shape of the rows of a fixed pack; `None` for other packs.
    ///
    /// # Errors
    ///
    /// [`FormatError::HeaderField`] when `feature_record_bytes`, `feature_dim` and `dtype` do not
    /// belong together.
    pub fn fixed_shape(&self) -> Result<Option<FixedShape>> {
        match &self.fixed_error {
            Some(error) => Err(error.clone()),
            None => Ok(self.fixed),
        }
    }

    /// Whether the header has the members of a fixed pack, sound or not.
    #[must_use]
    pub const fn claims_fixed_shape(&self) -> bool {
        self.fixed.is_some() || self.fixed_error.is_some()
    }

    /// The sums of the checksums extension; `None` where the pack has none.
    #[must_use]
    pub const fn checksums(&self) -> Option<Checksums> {
        self.checksums
    }

    /// Names listed under `extensions`.
    #[must_use]
    pub fn extensions(&self) -> Vec<&str> {
        listed_extensions(&self.members, EXTENSIONS_MEMBER)
    }

    /// Names listed under `required_extensions`: without knowing these, records must not be
    /// decoded.
    #[must_use]
    pub fn required_extensions(&self) -> Vec<&str> {
        listed_extensions(&self.members, REQUIRED_EXTENSIONS_MEMBER)
    }
}

/// What a writer puts into a header beside the caller's members.
#[derive(Debug, Clone, Copy)]
pub struct HeaderFacts {
    /// Where the segments lie.
    pub layout: Layout,
    /// Rows of the slide table.
    pub num_slides: u64,
    /// Rows of the index table.
    pub num_records: u64,
    /// Sums of the segments, for the checksums extension.
    pub checksums: Option<Checksums>,
}

/// The members that the writer of a container sets in every header, whatever is in the pack.
pub const CONTAINER_MEMBERS: [&str; 11] = [
    "format",
    "version",
    "header_bytes",
    "slide_table_offset",
    "slide_table_length",
    "index_table_offset",
    "index_table_length",
    "data_offset",
    "data_length",
    "num_slides",
    "num_records",
];

/// Makes a header's JSON text from the caller's members and the writer's facts, which replace
/// members of the same names.
///
/// # Errors
///
/// [`FormatError::Argument`] for more than 65,520 bytes and for members that cannot be written.
pub fn build_header_text(members: &Map<String, Value>, facts: &HeaderFacts) -> Result<String> {
    let mut all = members.clone();
    all.insert("format".to_owned(), Value::from("IatroCache"));
    all.insert("version".to_owned(), Value::from(FORMAT_VERSION));
    facts.layout.write_members(&mut all);
    all.insert("num_slides".to_owned(), Value::from(facts.num_slides));
    all.insert("num_records".to_owned(), Value::from(facts.num_records));
    set_checksums(&mut all, facts.checksums)?;
    let mut text = to_text(&all)?;
    if facts.checksums.is_some() {
        text = checksums::fill_in(text);
    }
    if u64::try_from(text.len()).is_ok_and(|len| len <= MAX_HEADER_TEXT) {
        return Ok(text);
    }
    Err(too_long(&text))
}

/// Lays the fixed header out: 65,536 bytes.
///
/// # Errors
///
/// [`FormatError::Argument`] for more than 65,520 bytes of text.
pub fn header_block(text: &str) -> Result<Vec<u8>> {
    let length = u32::try_from(text.len()).map_err(|_| too_long(text))?;
    if u64::from(length) > MAX_HEADER_TEXT {
        return Err(too_long(text));
    }
    let size = usize::try_from(HEADER_BYTES).unwrap_or(usize::MAX);
    let mut block = Vec::with_capacity(size);
    block.extend_from_slice(&MAGIC);
    block.extend_from_slice(&length.to_le_bytes());
    block.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    block.extend_from_slice(text.as_bytes());
    block.resize(size, 0);
    Ok(block)
}

fn too_long(text: &str) -> FormatError {
    FormatError::Argument {
        reason: format!("header text has {} bytes, but at most {MAX_HEADER_TEXT} fit", text.len()),
    }
}

/// Puts the sums in, or takes out what is left of an earlier file's sums: members are often
/// copied from one pack to the next, and sums of other bytes would make the new one unreadable.
fn set_checksums(all: &mut Map<String, Value>, sums: Option<Checksums>) -> Result<()> {
    let listed = listed_extensions(all, EXTENSIONS_MEMBER).contains(&CHECKSUMS_EXTENSION);
    if listed || Checksums::from_members(all, false)?.is_some() {
        all.remove(CHECKSUMS_MEMBER);
    }
    let mut names = match all.remove(EXTENSIONS_MEMBER) {
        None => Vec::new(),
        Some(Value::Array(names)) => names,
        Some(other) if sums.is_none() => {
            all.insert(EXTENSIONS_MEMBER.to_owned(), other);
            return Ok(());
        }
        Some(other) => {
            return Err(FormatError::Argument {
                reason: format!(
                    "header field `{EXTENSIONS_MEMBER}` is {} where an array of names is expected",
                    kind_name(&other)
                ),
            });
        }
    };
    names.retain(|name| name.as_str() != Some(CHECKSUMS_EXTENSION));
    if let Some(sums) = sums {
        if all.contains_key(CHECKSUMS_MEMBER) {
            return Err(FormatError::Argument {
                reason: format!(
                    "header field `{CHECKSUMS_MEMBER}` is reserved for the pack's own sums (rename it, or switch the sums off)"
                ),
            });
        }
        names.push(Value::from(CHECKSUMS_EXTENSION));
        all.insert(CHECKSUMS_MEMBER.to_owned(), sums.to_member());
    }
    if !names.is_empty() {
        all.insert(EXTENSIONS_MEMBER.to_owned(), Value::Array(names));
    }
    Ok(())
}

/// The sums that a header keeps.
fn sums_of(members: &Map<String, Value>) -> Result<Option<Checksums>> {
    let listed = listed_extensions(members, EXTENSIONS_MEMBER);
    Checksums::from_members(members, listed.contains(&CHECKSUMS_EXTENSION))
}

/// What is wrong with the header's own sum.
fn wrong_sum(text: &str, sums: Checksums) -> Option<FormatError> {
    let computed = checksums::sum_of_text(text);
    (computed != sums.header).then_some(FormatError::Checksum {
        what: "header",
        stored: sums.header,
        computed,
    })
}

fn listed_extensions<'a>(members: &'a Map<String, Value>, name: &str) -> Vec<&'a str> {
    match members.get(name) {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A row count: an integer, or what older writers made of one (a float without fraction, decimal
/// digits in a string).
fn count(members: &Map<String, Value>, field: &str) -> Result<u64> {
    let value = members.get(field).ok_or_else(|| FormatError::field_error(field, "missing"))?;
    let found = match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok()
        }
        _ => None,
    };
    found.ok_or_else(|| FormatError::field_error(field, format!("{value} is not a row count")))
}

/// A double as the integer that it is, if it is one that doubles can count to.
fn whole(double: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if (0.0..=EXACT).contains(&double) && double.fract() == 0.0 {
        return format!("{double:.0}").parse().ok();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(checksums: Option<Checksums>) -> HeaderFacts {
        HeaderFacts {
            layout: Layout::new(560, 664, 52).unwrap(),
            num_slides: 1,
            num_records: 3,
            checksums,
        }
    }

    fn members(json: &str) -> Map<String, Value> {
        serde_json::from_str(json).unwrap()
    }

    fn block(json: &str, checksums: Option<Checksums>) -> Vec<u8> {
        header_block(&build_header_text(&members(json), &facts(checksums)).unwrap()).unwrap()
    }

    const FILE_LEN: u64 = 65_536 + 560 + 664 + 52;

    #[test]
    fn members_of_the_container_are_all_that_an_empty_header_gets() {
        let text = build_header_text(&Map::new(), &facts(None)).unwrap();
        let mut names: Vec<String> = members(&text).keys().cloned().collect();
        let mut stated = CONTAINER_MEMBERS.map(str::to_owned);
        names.sort();
        stated.sort();
        assert_eq!(names, stated);
    }

    #[test]
    fn a_written_header_reads_back() {
        let block = block(
            r#"{"payload_type":"raw_files","version":99,"num_records":"x"}"#,
            Some(Checksums::of_tables(7, 8)),
        );
        assert_eq!(block.len(), 65_536);
        let header = Header::parse(&block, FILE_LEN).unwrap();
        assert_eq!(header.payload_type(), Some("raw_files"));
        assert_eq!(header.num_records().unwrap(), 3);
        assert_eq!(header.get("version"), Some(&Value::from(2)));
        assert_eq!(header.checksums().unwrap().slide_table, 7);
        assert_eq!(header.extensions(), ["iac.checksums"]);
        assert_eq!(header.fixed_shape().unwrap(), None);
    }

    #[test]
    fn every_altered_byte_of_the_text_is_noticed() {
        let good = block(
            r#"{"payload_type":"raw_files","feature_dim":3,"checked":[1,2.5,"é"],"extensions":["x.y"]}"#,
            Some(Checksums::of_tables(7, 8)),
        );
        let text_len = header_text(&good, FILE_LEN).unwrap().len();
        for position in 0..16 + text_len {
            for flip in [1, 0x20, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[position] ^= flip;
                assert!(Header::parse(&bad, FILE_LEN).is_err(), "byte {position} ^ {flip}");
            }
        }
    }

    #[test]
    fn a_damaged_header_is_interpreted_only_for_those_who_ask_for_it() {
        let members = members(r#"{"payload_type":"raw_files"}"#);
        let sums = facts(Some(Checksums::of_tables(7, 8)));
        let text = build_header_text(&members, &sums).unwrap();
        let (header, damage) = Header::from_damaged_text(text.as_str(), FILE_LEN).unwrap();
        assert!(damage.is_empty());
        assert_eq!(header.text(), text);

        let altered = text.replace("raw_files", "row_files");
        assert!(Header::from_text(altered.as_str(), FILE_LEN).is_err());
        let (header, damage) = Header::from_damaged_text(altered, FILE_LEN - 2).unwrap();
        assert_eq!(header.payload_type(), Some("row_files"));
        assert_eq!(header.layout().data.length, 50);
        let kinds: Vec<crate::ErrorKind> = damage.iter().map(FormatError::kind).collect();
        assert_eq!(kinds, [crate::ErrorKind::Damaged, crate::ErrorKind::Checksum]);

        let broken = text.replace("\"header_bytes\": 65536", "\"header_bytes\": 65537");
        assert!(Header::from_damaged_text(broken, FILE_LEN).is_err());
    }

    #[test]
    fn foreign_files_are_told_from_cut_ones() {
        for (bytes, message) in [
            (&b""[..], "not an IAC file: the file is empty"),
            (b"PK\x03\x04abcdefgh", "not an IAC file: starts with \"PK\\x03\\x04abcd\""),
            (b"\x89PNG\r\n\x1a\n", "not an IAC file: starts with \"\\x89PNG\\r\\n\\x1a\\n\""),
            (b"hi", "not an IAC file: starts with \"hi\""),
            (b"IATRO", "header cut at 5 bytes (a header has 65536 bytes)"),
        ] {
            let error = Header::parse(bytes, bytes.len() as u64).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn sums_of_an_earlier_file_are_replaced_and_other_extensions_kept() {
        let mut copied = members(
            r#"{"extensions":["a.b","iac.checksums"],"checksums":{"header":"00000000","slide_table":1,"index_table":2}}"#,
        );
        let text = build_header_text(&copied, &facts(None)).unwrap();
        assert!(!text.contains("checksums"), "{text}");
        let text = build_header_text(&copied, &facts(Some(Checksums::of_tables(5, 6)))).unwrap();
        let header = Header::from_text(text, FILE_LEN).unwrap();
        assert_eq!(header.extensions(), ["a.b", "iac.checksums"]);
        assert_eq!(header.checksums().unwrap().index_table, 6);
        copied.remove("extensions");
        copied.insert("checksums".to_owned(), Value::from("my own"));
        assert!(build_header_text(&copied, &facts(Some(Checksums::of_tables(5, 6)))).is_err());
        assert!(build_header_text(&copied, &facts(None)).unwrap().contains("checksums"));
    }

    #[test]
    fn text_fits_to_the_byte() {
        let empty = build_header_text(&members(r#"{"x":""}"#), &facts(None)).unwrap().len();
        let room = 65_520 - empty;
        let fill = |bytes: usize| {
            let mut members = Map::new();
            members.insert("x".to_owned(), Value::from("y".repeat(bytes)));
            build_header_text(&members, &facts(None))
        };
        let full = header_block(&fill(room).unwrap()).unwrap();
        assert!(Header::parse(&full, FILE_LEN).is_ok());
        assert_eq!(fill(room + 1).unwrap_err().kind(), crate::ErrorKind::Usage);
    }

    #[test]
    fn row_counts_take_whole_numbers_only() {
        let parse = |json: &str| count(&members(json), "n").ok();
        assert_eq!(parse(r#"{"n":3}"#), Some(3));
        assert_eq!(parse(r#"{"n":3.0}"#), Some(3));
        assert_eq!(parse(r#"{"n":"3"}"#), Some(3));
        for bad in ["3.5", "null", "-1", "\"\"", "\"-1\"", "\"3.0\"", "1e300", "[3]", "true"] {
            assert_eq!(parse(&format!("{{\"n\":{bad}}}")), None, "{bad}");
        }
        assert_eq!(parse("{}"), None);
    }
}
