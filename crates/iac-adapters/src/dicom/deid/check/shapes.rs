//! What documents, texts and streams look like from outside.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::dicom::document::{Document, MAX_DOCUMENT_BYTES};
use crate::dicom::object::parse_tag;
use crate::dicom::restore;
use crate::dicom::schema2::bulk::hash_of;
use crate::dicom::schema2::document_value;

pub(super) fn record_path(record: &Value) -> String {
    let steps = record.get("path").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let steps = steps.iter().take(512).map(|step| match step {
        Value::Number(number) => number.to_string(),
        // Only what is a tag is shown.
        Value::String(text) if parse_tag(text).is_some() => text.clone(),
        _ => "?".to_owned(),
    });
    steps.collect::<Vec<_>>().join("/")
}

/// Names of members and columns, without what could be a value.
pub(super) fn shown_member(name: &str) -> String {
    let plain = name.len() <= 64
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain { name.to_owned() } else { "?".to_owned() }
}

/// Whether a text looks like the path of a file.
pub(super) fn looks_like_path(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let drive =
        matches!(text.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    text.starts_with('/') && text.len() > 1
        // Empty parts of a value are separated in the same way as the parts of such a path.
        || text.starts_with("\\\\") && text.bytes().any(|byte| !matches!(byte, b'\\' | b' '))
        || drive
        || lower.starts_with("file:")
        || [".dcm", ".dicom", ".ima", ".zip"].iter().any(|suffix| lower.ends_with(suffix))
        || text.contains('/') && text.split('/').filter(|part| !part.is_empty()).count() > 1
}

pub(super) fn holds_path(value: &Value) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if looks_like_path(text) => return true,
            Value::Array(values) => open.extend(values),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    false
}

/// Whether a document has members that no reader of data sets looks at: unknown ones, and those
/// that stand there twice, of which the last one counts.
pub(super) fn has_strangers(stored: &[u8], codec: &iac_codec::Codec, known: &[&str]) -> bool {
    let limits = iac_codec::Limits::default();
    let Ok(text) = codec.decode_bytes(stored, &limits) else {
        return true;
    };
    Document::parse(&text).is_err() || plain_members(&text, Some(known)).is_none()
}

/// The members of a JSON object, unless some stand there twice, or are not known where names are
/// given.
pub(super) fn plain_members(text: &[u8], known: Option<&[&str]>) -> Option<Map<String, Value>> {
    // This bounds how deep it is nested, so that the stack bears what follows.
    let Ok(Value::Object(members)) = document_value(text, MAX_DOCUMENT_BYTES) else {
        return None;
    };
    let strange = known.is_some_and(|known| members.keys().any(|it| !known.contains(&it.as_str())))
        || written_keys(text) != members.len().saturating_add(inner_keys(members.values()));
    (!strange).then_some(members)
}

/// Keys in a JSON text, repeated ones counted each time.
fn written_keys(text: &[u8]) -> usize {
    let (mut keys, mut quoted, mut escaped, mut ended) = (0_usize, false, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => {
                quoted = !quoted;
                ended = !quoted;
            }
            _ if quoted => {}
            b':' if ended => {
                keys = keys.saturating_add(1);
                ended = false;
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => ended = false,
        }
    }
    keys
}

/// Keys of objects in parsed values.
fn inner_keys<'a>(values: impl Iterator<Item = &'a Value>) -> usize {
    let mut open: Vec<&Value> = values.collect();
    let mut keys = 0_usize;
    while let Some(value) = open.pop() {
        match value {
            Value::Array(values) => open.extend(values),
            Value::Object(members) => {
                keys = keys.saturating_add(members.len());
                open.extend(members.values());
            }
            _ => {}
        }
    }
    keys
}

/// Whether elements have the members that readers look at, and no others.
pub(super) fn is_plain(elements: &Map<String, Value>) -> bool {
    elements.iter().all(|(tag, element)| {
        let Some(members) = element.as_object() else {
            return false;
        };
        let names = ["vr", "Value", "InlineBinary", "BulkDataURI"];
        let bulk = members.get("BulkDataURI");
        let vr = members.get("vr").and_then(Value::as_str).unwrap_or_default();
        let values = members.get("Value").and_then(Value::as_array);
        let inner = values.map(Vec::as_slice).unwrap_or_default().iter().all(|value| match value {
            Value::Object(item) if vr == "SQ" => is_plain(item),
            Value::Object(name) => {
                let groups = ["Alphabetic", "Ideographic", "Phonetic"];
                vr == "PN" && name.keys().all(|group| groups.contains(&group.as_str()))
            }
            Value::Array(_) => false,
            _ => vr != "SQ",
        });
        parse_tag(tag).is_some()
            && members.keys().all(|name| names.contains(&name.as_str()))
            && members.keys().filter(|name| *name != "vr").count() <= 1
            && bulk.is_none_or(|name| name.as_str().and_then(hash_of).is_some())
            && inner
    })
}

pub(super) fn has_preamble(text: Option<&str>) -> bool {
    text.is_some_and(|text| {
        restore::base64(text).is_none_or(|preamble| preamble.iter().any(|byte| *byte != 0))
    })
}

/// Whether a JPEG XL container has boxes for something else than the image.
pub(super) fn has_boxes(payload: &[u8]) -> bool {
    if !payload.starts_with(crate::dicom::pixels::JXL_CONTAINER) {
        return false;
    }
    let mut rest = payload;
    while let Some(head) = rest.first_chunk::<8>() {
        let [a, b, c, d, kind @ ..] = *head;
        if !matches!(&kind, b"JXL " | b"ftyp" | b"jxll" | b"jxlc" | b"jxlp" | b"jxli") {
            return true;
        }
        let length = match u32::from_be_bytes([a, b, c, d]) {
            // To the end.
            0 => return false,
            1 => {
                let long = rest.get(8..16).and_then(|long| long.first_chunk::<8>());
                long.map_or(u64::MAX, |long| u64::from_be_bytes(*long))
            }
            length => length.into(),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        match rest.get(length.max(8)..) {
            Some(behind) => rest = behind,
            None => return true,
        }
    }
    !rest.is_empty()
}

/// Whether a stream of JPEG-LS or JPEG 2000 has segments for something else than the image in its
/// header, or bytes behind its end.
pub(super) fn has_comments(payload: &[u8]) -> bool {
    if !payload.ends_with(&[0xFF, 0xD9]) {
        return true;
    }
    let mut rest = payload.get(2..).unwrap_or_default();
    while let Some([0xFF, marker, high, low]) = rest.first_chunk::<4>() {
        match marker {
            // Data begins: a scan, or a tile.
            0xDA | 0x90 => return false,
            0xE0..=0xEF | 0xFE => return true,
            // The comment that says which library made a stream.
            0x64 if !is_of_a_library(rest.get(6..).unwrap_or_default()) => return true,
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        rest = rest.get(length.saturating_add(2)..).unwrap_or_default();
    }
    true
}

/// Whether a comment begins as encoders sign their streams.
fn is_of_a_library(text: &[u8]) -> bool {
    [&b"Created by OpenJPEG version "[..], b"OpenJPH Ver ", b"Kakadu"]
        .iter()
        .any(|name| text.starts_with(name))
}

/// The large values that a document names.
pub(super) fn add_named(values: &Value, used: &mut BTreeSet<String>) {
    let mut open = vec![values];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(values) => open.extend(values),
            Value::Object(members) => {
                used.extend(members.get("BulkDataURI").and_then(Value::as_str).map(str::to_owned));
                open.extend(members.values());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_other_words() {
        for path in [
            "/data/smith/1.dcm",
            "C:\\smith\\a",
            "\\\\server\\share",
            "smith/1/2",
            "IMG1.DCM",
            "file:x",
        ] {
            assert!(looks_like_path(path), "{path}");
        }
        for word in
            ["", "MONOCHROME2", "1.2.840.10008.1.2", "dicom_patient", "iatrocache 0.1.0", "/"]
        {
            assert!(!looks_like_path(word), "{word}");
        }
    }

    #[test]
    fn documents_with_unknown_or_repeated_members_are_strange() {
        let codec = crate::dicom::document::metadata_codec().unwrap();
        let known = ["dataset", "file_meta", "preamble"];
        let strange = |text: &str| {
            has_strangers(&codec.encode_bytes(text.as_bytes()).unwrap(), &codec, &known)
        };
        assert!(!strange(
            r#"{"dataset":{"00080060":{"vr":"LO","Value":["a\":\"b"]}},"file_meta":{}}"#
        ));
        assert!(strange(r#"{"dataset":{},"file_meta":{},"note":"SMITH"}"#));
        assert!(strange(r#"{"dataset":{"00080060":1,"00080060":2},"file_meta":{}}"#));
        assert!(strange(r#"{"dataset":{"00081140":{"Value":[{"a":1, "a" : 2}]}},"file_meta":{}}"#));
        assert!(strange(&format!(
            r#"{{"dataset":{{"x":{}}},"file_meta":{{}}}}"#,
            "[".repeat(100_000)
        )));
        assert!(has_strangers(b"no frame", &codec, &known));
    }

    #[test]
    fn boxes_beside_the_image_are_found() {
        let mut container = crate::dicom::pixels::JXL_CONTAINER.to_vec();
        container.extend_from_slice(b"\0\0\0\x0Cftypjxl ");
        let mut with_exif = container.clone();
        with_exif.extend_from_slice(b"\0\0\0\x0CExif\0\0\0\0");
        with_exif.extend_from_slice(b"\0\0\0\0jxlc\xFF\x0A");
        container.extend_from_slice(b"\0\0\0\0jxlc\xFF\x0A");
        assert!(!has_boxes(&container));
        assert!(has_boxes(&with_exif));
        assert!(has_boxes(&container[..20]));
        assert!(!has_boxes(b"\xFF\x0A"));
    }
}
