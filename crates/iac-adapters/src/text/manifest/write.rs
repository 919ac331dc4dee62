//! Writing manifests, to the byte as the reference does.

use crate::text::model::{Patient, SCHEMA_VERSION, TextDocument};

/// Writes a patient's manifest behind what `out` holds.
pub(crate) fn write<D: TextDocument>(patient: &Patient<D>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"docs\": [");
    let mut offset = 0_u64;
    for (position, doc) in patient.docs.iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(b", ");
        }
        write_doc(doc, &mut offset, out);
    }
    out.extend_from_slice(b"], \"institution\": ");
    write_text(&patient.institution, out);
    // `patient_id` stands before or behind the version, whose name begins with `t` or `p`.
    let version = |out: &mut Vec<u8>| {
        write_text(D::VERSION_FIELD, out);
        out.extend_from_slice(b": ");
        write_number(SCHEMA_VERSION, out);
    };
    out.extend_from_slice(b", ");
    if D::VERSION_FIELD < "patient_id" {
        version(out);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(b"\"patient_id\": ");
    write_text(&patient.patient_id, out);
    if D::VERSION_FIELD > "patient_id" {
        out.extend_from_slice(b", ");
        version(out);
    }
    out.push(b'}');
}

fn write_doc<D: TextDocument>(doc: &D, offset: &mut u64, out: &mut Vec<u8>) {
    let labels = doc.labels();
    let texts = [
        ("doc_category", labels.doc_category),
        ("doc_id", labels.doc_id),
        ("doc_timestamp", labels.doc_timestamp),
        ("doc_type", labels.doc_type),
        ("encounter", labels.encounter),
        ("source", labels.source),
    ];
    let mut numbers = [("", 0); 4];
    let mut places = numbers.iter_mut();
    for (number, field) in D::TEXTS.iter().enumerate() {
        let length = u64::try_from(doc.text(number).len()).unwrap_or(u64::MAX);
        let pair = [(field.offset, *offset), (field.length, length)];
        for (member, place) in pair.into_iter().zip(places.by_ref()) {
            *place = member;
        }
        *offset = offset.saturating_add(length);
    }
    // The order of code points, over texts and numbers together.
    let mut members: [(&str, Option<&str>, u64); 11] = [("", None, 0); 11];
    let all = texts.iter().map(|(name, text)| (*name, Some(*text), 0));
    let all = all.chain(numbers.iter().map(|(name, number)| (*name, None, *number)));
    for (place, member) in members.iter_mut().zip(all) {
        *place = member;
    }
    if let Some(last) = members.last_mut() {
        *last = ("episode_index", None, 0);
    }
    members.sort_unstable_by_key(|(name, ..)| *name);
    out.push(b'{');
    let mut is_first = true;
    for (name, text, number) in members.iter().filter(|(name, ..)| !name.is_empty()) {
        if !is_first {
            out.extend_from_slice(b", ");
        }
        is_first = false;
        write_text(name, out);
        out.extend_from_slice(b": ");
        match text {
            Some(text) => write_text(text, out),
            None if *name == "episode_index" => {
                if labels.episode_index < 0 {
                    out.push(b'-');
                }
                write_number(labels.episode_index.unsigned_abs(), out);
            }
            None => write_number(*number, out),
        }
    }
    out.push(b'}');
}

fn write_number(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut rest = number;
    let mut used = 0_usize;
    for place in digits.iter_mut().rev() {
        *place = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
        used = used.saturating_add(1);
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(digits.len().saturating_sub(used)..).unwrap_or_default());
}

/// Writes a JSON string: escapes only what has to be escaped.
fn write_text(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        let (plain, behind) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, behind)) = behind.split_first() else { break };
        rest = behind;
        let letter = match byte {
            b'"' | b'\\' => *byte,
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            other => {
                let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[digit(other >> 4), digit(other & 15)]);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_text(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_what_must_be_escaped_is() {
        assert_eq!(written(""), "\"\"");
        assert_eq!(written("a/<é\u{7f}\u{2028}🙂"), "\"a/<é\u{7f}\u{2028}🙂\"");
        assert_eq!(
            written("\"\\\u{8}\u{c}\n\r\t\0\u{1f}z"),
            "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001fz\""
        );
    }

    #[test]
    fn numbers_are_plain_decimals() {
        for number in [0, 9, 10, 12345, u64::MAX] {
            let mut out = Vec::new();
            write_number(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
