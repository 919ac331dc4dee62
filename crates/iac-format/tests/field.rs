//! Situations from the field: headers and tables at their limits, each made here.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

use iac_format::table::TableStream;
use iac_format::{ErrorKind, FormatError, Header, TableKind, header_block};
use serde_json::json;

const FILE_LEN: u64 = 65_536 + 16;

/// The text of a header whose tables have 8 bytes each, with a member filled up to so many bytes.
fn text_of(bytes: usize, more: &str) -> String {
    let made = |fill: &str| {
        format!(
            "{{\"data_length\":0,\"data_offset\":65552,\"format\":\"IatroCache\",\
             \"header_bytes\":65536,\"index_table_length\":8,\"index_table_offset\":65544,\
             \"slide_table_length\":8,\"slide_table_offset\":65536,\"version\":2,{more}\
             \"x\":\"{fill}\"}}"
        )
    };
    let empty = made("").len();
    made(&"y".repeat(bytes.saturating_sub(empty)))
}

/// A golden header's block, with another text in it, whatever its size.
fn block_of(text: &str) -> Vec<u8> {
    let mut block = header_block("{}").unwrap();
    block[8..12].copy_from_slice(&(text.len() as u32).to_le_bytes());
    let end = text.len().min(65_520);
    block[16..16 + end].copy_from_slice(&text.as_bytes()[..end]);
    block
}

#[test]
fn headers_of_65519_and_65520_bytes_are_read_and_one_more_is_refused() {
    for bytes in [65_519, 65_520] {
        let text = text_of(bytes, "");
        assert_eq!(text.len(), bytes);
        let header = Header::parse(&block_of(&text), FILE_LEN).unwrap();
        assert_eq!(header.text().len(), bytes);
    }
    let error = Header::parse(&block_of(&text_of(65_521, "")), FILE_LEN).unwrap_err();
    assert!(error.to_string().contains("65521"), "{error}");
}

#[test]
fn of_two_members_of_one_name_the_last_one_counts() {
    let text = text_of(0, "\"payload_type\":\"first\",\"payload_type\":\"second\",");
    let header = Header::parse(&block_of(&text), FILE_LEN).unwrap();
    assert_eq!(header.members()["payload_type"], json!("second"));
    // Also where it is the file's own layout that the first one would contradict.
    let text = text_of(0, "\"header_bytes\":9,\"header_bytes\":65536,");
    let (before, behind) = text.split_once("\"header_bytes\":65536,").unwrap();
    assert!(Header::parse(&block_of(&format!("{before}{behind}")), FILE_LEN).is_ok());
    let text = text_of(0, "\"header_bytes\":9,");
    assert!(Header::parse(&block_of(&text), FILE_LEN).is_err());
}

#[test]
fn offsets_at_the_end_of_64_bits_are_refused_by_name() {
    for name in ["slide_table_offset", "index_table_offset", "data_offset", "data_length"] {
        for value in ["18446744073709551615", "18446744073709551616", "9223372036854775808"] {
            let text = text_of(0, &format!("\"{name}\":{value},"));
            // The last one counts, so the true one must not come behind it.
            let (before, behind) = text.split_at(text.find(&format!("\"{name}\":")).unwrap());
            let behind = behind.split_once(',').unwrap().1;
            let error = Header::parse(&block_of(&format!("{before}{behind}")), FILE_LEN);
            let error = error.unwrap_err().to_string();
            // The fault may show in the length of the same part.
            let part = name.trim_end_matches("_offset").trim_end_matches("_length");
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}

#[test]
fn tables_of_four_bytes_that_claim_gigabytes_are_damaged_at_once() {
    for claim in [0x7FFF_FFFF_u32, 0x4000_0000, 0x8000_0000] {
        let error = TableStream::parse(claim.to_le_bytes().to_vec().into(), TableKind::Index);
        let error: FormatError = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    }
}
