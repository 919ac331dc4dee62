//! Texts of elements: their parts, and the bytes that parts are written as.

use dicom_core::VR;

use super::charset::{Charset, TextKind};

/// How the texts of a representation are parted and trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trim {
    /// At the end of the whole value.
    ValueEnd,
    /// At the end of each part.
    PartEnds,
    /// At both sides of each part.
    PartSides,
}

const PADDING: [char; 2] = [' ', '\0'];

/// Whether the representation is text other than numbers.
pub(crate) const fn is_text(vr: VR) -> bool {
    matches!(
        vr,
        VR::AE
            | VR::AS
            | VR::CS
            | VR::DA
            | VR::DT
            | VR::LO
            | VR::LT
            | VR::PN
            | VR::SH
            | VR::ST
            | VR::TM
            | VR::UC
            | VR::UI
            | VR::UR
            | VR::UT
    )
}

/// Whether texts are in the character set that the object names.
const fn has_charset(vr: VR) -> bool {
    matches!(vr, VR::LO | VR::LT | VR::PN | VR::SH | VR::ST | VR::UC | VR::UT)
}

const fn has_parts(vr: VR) -> bool {
    !matches!(vr, VR::LT | VR::ST | VR::UT | VR::UR)
}

const fn kind(vr: VR) -> TextKind {
    match vr {
        VR::PN => TextKind::Name,
        VR::LT | VR::ST | VR::UT | VR::UR => TextKind::Lines,
        _ => TextKind::Values,
    }
}

const fn trim(vr: VR) -> Trim {
    match vr {
        VR::AE => Trim::PartSides,
        VR::LO | VR::SH | VR::UC => Trim::PartEnds,
        _ => Trim::ValueEnd,
    }
}

/// The parts of a text value.
pub(crate) fn parts(vr: VR, bytes: &[u8], charset: &Charset) -> Vec<String> {
    let default = Charset::default();
    let charset = if has_charset(vr) { charset } else { &default };
    let text = charset.decode(bytes, kind(vr));
    let text = match trim(vr) {
        Trim::ValueEnd => text.trim_end_matches(PADDING),
        _ => text.as_str(),
    };
    if text.is_empty() {
        return Vec::new();
    }
    if !has_parts(vr) {
        return vec![text.to_owned()];
    }
    let parts: Vec<String> = text
        .split('\\')
        .map(|part| match trim(vr) {
            Trim::ValueEnd => part,
            Trim::PartEnds => part.trim_end_matches(PADDING),
            Trim::PartSides => part.trim_matches(PADDING),
        })
        .map(str::to_owned)
        .collect();
    if matches!(parts.as_slice(), [only] if only.is_empty()) {
        return Vec::new();
    }
    parts
}

/// The bytes of parts, without padding; nothing when a character cannot be written.
pub(crate) fn join(vr: VR, parts: &[String], charset: &Charset) -> Option<Vec<u8>> {
    let default = Charset::default();
    let charset = if has_charset(vr) { charset } else { &default };
    charset.encode(&parts.join("\\"), kind(vr))
}

/// The same with question marks for characters that cannot be written.
pub(crate) fn join_lossy(vr: VR, mut parts: Vec<String>, charset: &Charset) -> Vec<u8> {
    if let Some(bytes) = join(vr, &parts, charset) {
        return bytes;
    }
    for part in &mut parts {
        let writable = |one: char| join(vr, &[one.to_string()], charset).is_some();
        *part = part.chars().map(|one| if writable(one) { one } else { '?' }).collect();
    }
    join(vr, &parts, charset).unwrap_or_default()
}

/// What makes a value's length even.
pub(crate) const fn padding(vr: VR) -> u8 {
    if (is_text(vr) && !matches!(vr, VR::UI)) || matches!(vr, VR::DS | VR::IS) { b' ' } else { 0 }
}

/// Whether two values are the same apart from what makes lengths even.
pub(crate) fn same_but_padding(vr: VR, source: &[u8], canonical: &[u8]) -> bool {
    match source.strip_prefix(canonical) {
        Some([]) => true,
        Some([last]) => canonical.len() % 2 == 1 && *last == padding(vr),
        _ => false,
    }
}
