//! The checksums extension: CRC-32 sums over header text and tables, kept in the header.

use serde_json::{Map, Value};

use crate::error::{FormatError, Result};
use crate::json::kind_name;

/// Name of the extension in the header's `extensions`.
pub const CHECKSUMS_EXTENSION: &str = "iac.checksums";
/// Header member that holds the sums.
pub const CHECKSUMS_MEMBER: &str = "checksums";

/// What stands in the text while its own sum is computed.
const BLANK_SUM: &str = "00000000";
/// How the member starts in canonical text. A line break cannot occur inside a JSON string, so
/// this is found at the top level or nowhere.
const MEMBER_START: &str = "\n  \"checksums\": {";
const SUM_START: &str = "\n    \"header\": \"";

/// CRC-32 sums (IEEE 802.3, as zlib computes them) that a pack keeps of itself.
///
/// `header` covers the JSON text, with its own eight digits taken as `00000000`; the table sums
/// cover the whole segments, padding included. Payload bytes are covered row by row in the index
/// column `crc32`, or by `data` in packs without rows in the data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checksums {
    /// Sum of the header's JSON text.
    pub header: u32,
    /// Sum of the slide table's segment.
    pub slide_table: u32,
    /// Sum of the index table's segment.
    pub index_table: u32,
    /// Sum of the data segment, in packs whose index holds no sums of rows.
    pub data: Option<u32>,
    /// Whether the index column `crc32` of a fixed pack holds sums of its rows.
    pub rows: bool,
}

impl Checksums {
    /// Sums of the segments; the header's own is filled in when its text is made.
    #[must_use]
    pub const fn of_tables(slide_table: u32, index_table: u32) -> Self {
        Self { header: 0, slide_table, index_table, data: None, rows: false }
    }

    /// The same with the sum of the whole data segment.
    #[must_use]
    pub const fn with_data(mut self, data: u32) -> Self {
        self.data = Some(data);
        self
    }

    /// The same for a fixed pack whose index holds the sums of its rows.
    #[must_use]
    pub const fn with_rows(mut self) -> Self {
        self.rows = true;
        self
    }

    /// Reads the sums from header members: `None` where the pack has none.
    ///
    /// `listed` says whether the header lists the extension. A pack of ours both lists it and has
    /// the member, so that no single damaged byte can switch the check off; a member of another
    /// form in a header that does not list the extension is the caller's own.
    pub(crate) fn from_members(members: &Map<String, Value>, listed: bool) -> Result<Option<Self>> {
        match (members.get(CHECKSUMS_MEMBER), listed) {
            (None, false) => Ok(None),
            (None, true) => Err(FormatError::field_error(
                CHECKSUMS_MEMBER,
                format!("missing, although `extensions` lists {CHECKSUMS_EXTENSION}"),
            )),
            (Some(member), true) => Self::from_member(member).map(Some),
            (Some(member), false) => Ok(Self::from_member(member).ok()),
        }
    }

    fn from_member(member: &Value) -> Result<Self> {
        let Value::Object(sums) = member else {
            return Err(FormatError::field_error(
                CHECKSUMS_MEMBER,
                format!("{} where an object is expected", kind_name(member)),
            ));
        };
        let data = match sums.get("data") {
            None => None,
            Some(_) => Some(sum(sums, "data")?),
        };
        let rows = match sums.get("rows") {
            None => false,
            Some(Value::Bool(rows)) => *rows,
            Some(_) => return Err(FormatError::field_error("checksums.rows", "not a boolean")),
        };
        Ok(Self {
            header: header_sum(sums)?,
            slide_table: sum(sums, "slide_table")?,
            index_table: sum(sums, "index_table")?,
            data,
            rows,
        })
    }

    pub(crate) fn to_member(self) -> Value {
        let mut sums = Map::new();
        sums.insert("header".to_owned(), Value::from(format!("{:08x}", self.header)));
        sums.insert("slide_table".to_owned(), Value::from(self.slide_table));
        sums.insert("index_table".to_owned(), Value::from(self.index_table));
        if let Some(data) = self.data {
            sums.insert("data".to_owned(), Value::from(data));
        }
        if self.rows {
            sums.insert("rows".to_owned(), Value::Bool(true));
        }
        Value::Object(sums)
    }
}

/// The sum of header text, its own digits blanked.
pub(crate) fn sum_of_text(text: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    match digits_position(text).and_then(|at| {
        let end = at.checked_add(BLANK_SUM.len())?;
        Some((text.get(..at)?, text.get(end..)?))
    }) {
        Some((before, behind)) => {
            hasher.update(before.as_bytes());
            hasher.update(BLANK_SUM.as_bytes());
            hasher.update(behind.as_bytes());
        }
        // Not text that a writer of sums made: no digits to blank, and no sum that could match.
        None => hasher.update(text.as_bytes()),
    }
    hasher.finalize()
}

/// Puts the sum of `text` into it; the text must have been made with blank digits.
pub(crate) fn fill_in(mut text: String) -> String {
    let sum = format!("{:08x}", sum_of_text(&text));
    if let Some(at) = digits_position(&text) {
        let end = at.saturating_add(sum.len());
        if text.is_char_boundary(at) && text.is_char_boundary(end) {
            text.replace_range(at..end, &sum);
        }
    }
    text
}

fn digits_position(text: &str) -> Option<usize> {
    let member = text.find(MEMBER_START)?;
    let behind = text.get(member..)?;
    // The digits of the data sum sort before the header's, so look for the line, not the brace.
    let line = behind.find(SUM_START)?;
    member.checked_add(line)?.checked_add(SUM_START.len())
}

fn sum(sums: &Map<String, Value>, name: &str) -> Result<u32> {
    sums.get(name).and_then(Value::as_u64).and_then(|sum| u32::try_from(sum).ok()).ok_or_else(
        || FormatError::field_error(&format!("{CHECKSUMS_MEMBER}.{name}"), "not a 32-bit integer"),
    )
}

fn header_sum(sums: &Map<String, Value>) -> Result<u32> {
    sums.get("header")
        .and_then(Value::as_str)
        .filter(|digits| {
            digits.len() == 8
                && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        })
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or_else(|| {
            FormatError::field_error("checksums.header", "not a string of 8 lower-case hex digits")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_text;

    #[test]
    fn the_sum_covers_every_character_but_its_own_digits() {
        let mut members = Map::new();
        members.insert("a".to_owned(), Value::from("checksums\": {\n    \"header\": \""));
        members.insert(
            CHECKSUMS_MEMBER.to_owned(),
            Checksums::of_tables(1, 2).with_data(3).with_rows().to_member(),
        );
        members.insert("z".to_owned(), Value::from(1));
        let text = fill_in(to_text(&members).unwrap());
        let sum = sum_of_text(&text);
        assert!(text.contains(&format!("\"header\": \"{sum:08x}\"")));
        let at = digits_position(&text).unwrap();
        for position in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[position] ^= 1;
            if let Ok(altered) = String::from_utf8(bytes) {
                let inside = (at..at + 8).contains(&position);
                assert_eq!(sum_of_text(&altered) == sum, inside, "byte {position}");
            }
        }
    }

    #[test]
    fn sums_of_the_wrong_form_are_refused() {
        let parse = |json: &str| {
            let members: Map<String, Value> = serde_json::from_str(json).unwrap();
            Checksums::from_members(&members, true)
        };
        let good =
            r#"{"checksums":{"header":"0000abcd","slide_table":1,"index_table":4294967295}}"#;
        assert_eq!(parse(good).unwrap().unwrap().header, 0xabcd);
        for bad in [
            "{}",
            r#"{"checksums":3}"#,
            r#"{"checksums":{"header":"0000ABCD","slide_table":1,"index_table":1}}"#,
            r#"{"checksums":{"header":"0abcd","slide_table":1,"index_table":1}}"#,
            r#"{"checksums":{"header":"+000abcd","slide_table":1,"index_table":1}}"#,
            r#"{"checksums":{"header":"0000abcd","slide_table":-1,"index_table":1}}"#,
            r#"{"checksums":{"header":"0000abcd","slide_table":1,"index_table":4294967296}}"#,
            r#"{"checksums":{"header":"0000abcd","slide_table":1}}"#,
            r#"{"checksums":{"header":"0000abcd","slide_table":1,"index_table":1,"data":"x"}}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
