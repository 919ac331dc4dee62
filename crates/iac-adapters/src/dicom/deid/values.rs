//! Values that say nothing, and values that are what they claim to be.

use bytes::Bytes;
use dicom_core::VR;

use super::dates;
use crate::dicom::number;
use crate::dicom::parse::unit_bytes;
use crate::dicom::text::{is_text, padding};

/// The text that stands for one that was removed.
pub(crate) const DUMMY: &str = "REMOVED";
const DUMMY_DATE: &str = "19000101";
const DUMMY_MOMENT: &str = "19000101000000";
const DUMMY_TIME: &str = "000000";
const DUMMY_AGE: &str = "000Y";

/// A value that says nothing, of even length.
pub(crate) fn dummy(vr: VR) -> Bytes {
    let text = match vr {
        VR::DA => DUMMY_DATE,
        VR::DT => DUMMY_MOMENT,
        VR::TM => DUMMY_TIME,
        VR::AS => DUMMY_AGE,
        VR::DS | VR::IS => "0",
        _ if is_text(vr) => DUMMY,
        VR::AT => return Bytes::from_static(&[0; 4]),
        _ => return Bytes::from(vec![0; unit_bytes(vr).max(2)]),
    };
    padded(vr, text)
}

/// Whether values are numbers in binary form, or tags.
pub(crate) const fn is_number(vr: VR) -> bool {
    use VR::{AT, FD, FL, SL, SS, SV, UL, US, UV};
    matches!(vr, AT | FD | FL | SL | SS | SV | UL | US | UV)
}

/// Whether a value is one of those that `dummy` gives, whatever representation it was given for.
pub(crate) fn is_dummy(value: &[u8]) -> bool {
    let known = [DUMMY, DUMMY_DATE, DUMMY_MOMENT, DUMMY_TIME, DUMMY_AGE, "0", "0.0"];
    known.iter().any(|one| one.as_bytes() == trimmed(value)) || value.iter().all(|byte| *byte == 0)
}

/// ASCII text as a value of even length.
pub(crate) fn padded(vr: VR, text: &str) -> Bytes {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(padding(vr));
    }
    bytes.into()
}

/// Without spaces and NULs at both ends.
pub(crate) fn trimmed(value: &[u8]) -> &[u8] {
    let is_padding = |byte: &u8| matches!(byte, b' ' | 0);
    let start = value.iter().position(|byte| !is_padding(byte)).unwrap_or(value.len());
    let end =
        value.iter().rposition(|byte| !is_padding(byte)).map_or(start, |end| end.saturating_add(1));
    value.get(start..end).unwrap_or_default()
}

/// Whether a text of a profile can become a value of the representation.
pub(crate) const fn is_writable(vr: VR) -> bool {
    is_text(vr) || matches!(vr, VR::DS | VR::IS)
}

/// ASCII parts of a value, without padding.
pub(crate) fn ascii_parts(value: &[u8]) -> Option<Vec<&str>> {
    let text = str::from_utf8(value).ok().filter(|text| text.is_ascii())?;
    Some(text.split('\\').map(|part| part.trim_matches([' ', '\0'])).collect())
}

/// Whether a text has the form of a UID.
pub(crate) fn is_uid(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Whether a value names character sets: what does not, may be anything.
pub(crate) fn is_charset(value: &[u8]) -> bool {
    let is_number =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'I' | b'R' | b' ' | b'_' | b'-');
    let named = |part: &str| {
        matches!(part, "GB18030" | "GBK" | "GB2312")
            || part.strip_prefix("ISO").is_some_and(|rest| rest.bytes().all(is_number))
    };
    sound(VR::CS, value).is_some()
        && ascii_parts(value)
            .is_some_and(|parts| parts.iter().all(|part| part.is_empty() || named(part)))
}

/// The value as it may stay: nothing when it is not what its representation says, since then nobody
/// knows what it is. What stands behind a NUL in a text is not seen by readers, and is cut off.
pub(crate) fn sound(vr: VR, value: &[u8]) -> Option<Bytes> {
    let each = |test: &dyn Fn(&str) -> bool| {
        ascii_parts(value)
            .is_some_and(|parts| parts.iter().all(|part| part.is_empty() || test(part)))
    };
    // A part without a number among others cannot be read as numbers.
    let numbers = |test: &dyn Fn(&str) -> bool| {
        ascii_parts(value).is_some_and(|parts| parts == [""] || parts.iter().all(|part| test(part)))
    };
    let fits = match vr {
        VR::CS => {
            each(&|part| part.len() <= 16 && part.bytes().all(|byte| (0x20..0x7F).contains(&byte)))
        }
        VR::AS => each(&|part| {
            part.len() == 4
                && part.ends_with(['D', 'W', 'M', 'Y'])
                && part.bytes().take(3).all(|byte| byte.is_ascii_digit())
        }),
        VR::DS => numbers(&|part| part.len() <= 32 && number::decimal(part).is_some()),
        VR::IS => numbers(&|part| part.len() <= 32 && number::integer(part).is_some()),
        VR::DA => each(&|part| dates::shift_date(part, 0).is_some()),
        VR::DT => each(&|part| dates::shift_date_time(part, 0).is_some()),
        VR::TM => each(&dates::is_time),
        VR::UI => each(&is_uid),
        VR::AE => each(&|part| part.len() <= 16),
        VR::UR => each(&|_| true),
        _ if is_text(vr) => return Some(visible(vr, value)),
        VR::SQ => false,
        VR::UN => true,
        _ => value.len().is_multiple_of(unit_bytes(vr)),
    };
    if !fits {
        return None;
    }
    Some(if is_text(vr) || matches!(vr, VR::DS | VR::IS) {
        visible(vr, value)
    } else {
        Bytes::copy_from_slice(value)
    })
}

/// A text up to its first NUL. Padding is made anew.
fn visible(vr: VR, value: &[u8]) -> Bytes {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    let mut kept = value.get(..end).unwrap_or_default().to_vec();
    if kept.len() % 2 == 1 {
        kept.push(padding(vr));
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_people_are_no_character_sets() {
        for known in ["", "ISO_IR 100", "\\ISO 2022 IR 87 ", "ISO-IR 192", "GB18030", "GBK\\"] {
            assert!(is_charset(known.as_bytes()), "{known}");
        }
        for other in ["ISOLDE MAYER", "GBENGA ADE", "ISO_IR 100\\GBR", "iso_ir 100", "SMITH"] {
            assert!(!is_charset(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn dummies_are_known_again_and_have_even_lengths() {
        for vr in [
            VR::LO,
            VR::PN,
            VR::DA,
            VR::DT,
            VR::TM,
            VR::DS,
            VR::IS,
            VR::AS,
            VR::OB,
            VR::US,
            VR::FD,
            VR::AT,
            VR::UN,
        ] {
            let value = dummy(vr);
            assert!(is_dummy(&value), "{vr}");
            assert_eq!(value.len() % 2, 0, "{vr}");
            assert!(!value.is_empty());
            assert!(sound(vr, &value).is_some(), "{vr}");
        }
        assert_eq!(dummy(VR::AT).len(), 4);
        assert!(!is_dummy(b"SMITH"));
    }

    #[test]
    fn values_that_are_not_what_they_claim_are_refused() {
        for (vr, bad) in [
            (VR::DS, "SMITH"),
            (VR::IS, "12 JOHN"),
            (VR::IS, "1\\\\3"),
            (VR::DS, "\\ "),
            (VR::AS, "45 Y"),
            (VR::DA, "JOHN"),
            (VR::TM, "JOHN"),
            (VR::UI, "1.2.JOHN"),
            (VR::CS, "A NAME THAT IS TOO LONG FOR CODES"),
            (VR::CS, "M\u{dc}LLER"),
            (VR::US, "JON"),
            (VR::SQ, ""),
        ] {
            assert!(sound(vr, bad.as_bytes()).is_none(), "{vr} {bad}");
        }
        assert_eq!(sound(VR::LO, b"CHEST\0SMITH").unwrap(), &b"CHEST "[..]);
        assert_eq!(sound(VR::DS, b"1.5\\-2e3").unwrap(), &b"1.5\\-2e3"[..]);
        assert_eq!(sound(VR::IS, b"").unwrap().len(), 0);
    }
}
