//! The elements of a data set and of file meta.

use dicom_core::{Tag, VR};

use super::super::family::Family;
use super::super::profile::{DeidOption, DeidProfile, PrivateTag};
use super::super::rules::{self, Decision, PATIENT_ID, PATIENT_NAME, Rules, known_vr};
use super::super::{Deidentifier, PSEUDONYM_DIGITS, apply, dates, provenance, structured, values};
use super::Checking;
use crate::dicom::charset::Charset;
use crate::dicom::object::{DataSet, Element, ElementValue, PIXEL_DATA, tag_text};
use crate::dicom::text::{self, is_text};

impl Checking {
    pub(super) fn meta(&mut self, meta: &DataSet) {
        for element in meta.elements() {
            let fits = match element.tag {
                Tag(2, 0x0000) => element.bytes().is_some_and(|value| value.len() == 4),
                Tag(2, 0x0001) => element.bytes().is_some_and(|value| value.len() == 2),
                Tag(2, 0x0002 | 0x0010) => {
                    element.bytes().is_some_and(|value| values::sound(VR::UI, value).is_some())
                }
                Tag(2, 0x0003) => self.uids_fit(element),
                _ => false,
            };
            if !fits {
                self.tell(tag_text(element.tag), "file_meta");
            }
        }
    }

    pub(super) fn object(&mut self, data: &DataSet, meta: &DataSet) {
        let class = data.ascii(Tag(0x0008, 0x0016)).or_else(|| meta.ascii(Tag(2, 2)));
        let family = Family::of(&class.unwrap_or_default());
        let mut path = Vec::new();
        self.set(data, &Charset::default(), family, &mut path, false);
    }

    fn set(
        &mut self,
        data: &DataSet,
        outer: &Charset,
        family: Family,
        path: &mut Vec<String>,
        cleaning: bool,
    ) {
        let charset = Deidentifier::charset_of(data, outer);
        for element in data.elements() {
            path.push(tag_text(element.tag));
            let into = self.element(element, data, &charset, family, path, cleaning);
            if let (Some(cleaning), ElementValue::Items(items)) = (into, &element.value) {
                for (position, item) in items.iter().enumerate() {
                    path.push(position.to_string());
                    self.set(item, &charset, family, path, cleaning);
                    path.pop();
                }
            }
            path.pop();
        }
    }

    /// Looks at one element. Says whether the items of a sequence are to be looked into, and whether
    /// their texts must be known.
    fn element(
        &mut self,
        element: &Element,
        data: &DataSet,
        charset: &Charset,
        family: Family,
        path: &[String],
        cleaning: bool,
    ) -> Option<bool> {
        let (tag, vr) = (element.tag, element.vr);
        let root = path.len() == 1;
        let place = || path.join("/");
        if is_blank(&element.value) {
            return None;
        }
        if tag == PIXEL_DATA && root {
            return None;
        }
        if tag.0 % 2 == 1 {
            let into = self.private(element, data);
            if into.is_none() {
                self.tell(place(), "private");
            }
            return into.filter(|into| *into).map(|_| false);
        }
        if root && self.is_mark(element) {
            return None;
        }
        if tag == Tag(0x0008, 0x0005) {
            if !element.bytes().is_some_and(|value| values::is_charset(value)) {
                self.tell(place(), "unsound");
            }
            return None;
        }
        let code = code_of(tag, vr);
        let rules = Rules { profile: &self.profile, family };
        let decision = rules.decide(tag, apply::effective(tag, vr), cleaning);
        let bytes = element.bytes().map_or(&[][..], |value| value);
        let fits = match &decision {
            Decision::Keep | Decision::Retain => return self.kept(element, path, cleaning),
            Decision::Structured => {
                let sound = element.items().is_some_and(|items| {
                    items.iter().all(|item| {
                        structured::is_dummy_content(item)
                            || structured::may_stay(item, &self.profile, charset)
                    })
                });
                if !sound {
                    self.tell(place(), code);
                }
                return Some(false);
            }
            Decision::Vocabulary(_) => match &element.value {
                ElementValue::Items(_) => return Some(true),
                _ => {
                    values::is_dummy(bytes)
                        || is_text(vr) && self.profile.knows(&text::parts(vr, bytes, charset))
                }
            },
            Decision::Uid => self.uids_fit(element),
            Decision::Shift => is_moment(apply::effective(tag, vr), bytes),
            Decision::Pseudonym => self.is_pseudonym(bytes),
            Decision::Hash if apply::effective(tag, vr) == VR::UI => self.uids_fit(element),
            Decision::Hash => values::ascii_parts(bytes)
                .is_some_and(|parts| parts.iter().all(|part| part.is_empty() || is_hash(part))),
            // What a profile puts there is its own text.
            Decision::Replace(wanted) if wanted.is_empty() => true,
            Decision::Replace(wanted) => values::trimmed(bytes) == wanted.trim().as_bytes(),
            Decision::Remove | Decision::Empty | Decision::Dummy => {
                self.is_dummy(&element.value, tag)
            }
        };
        if !fits {
            self.tell(place(), code);
        }
        None
    }

    fn kept(&mut self, element: &Element, path: &[String], cleaning: bool) -> Option<bool> {
        let ElementValue::Bytes(value) = &element.value else {
            return Some(cleaning);
        };
        let (tag, vr) = (element.tag, element.vr);
        let as_known = values::sound(apply::effective(tag, vr), value);
        let sound = values::sound(vr, value);
        // What differs had something behind a NUL.
        let same =
            sound.as_ref().is_some_and(|kept| values::trimmed(kept) == values::trimmed(value));
        if !same || as_known.is_none() || !rules::is_told(tag, vr) {
            self.tell(path.join("/"), "unsound");
        }
        None
    }

    /// Whether a private element may be there (and whether it is one to look into).
    fn private(&self, element: &Element, data: &DataSet) -> Option<bool> {
        if !self.profile.has(DeidOption::RetainSafePrivate) {
            return None;
        }
        let tag = element.tag;
        if (0x10..=0xFF).contains(&tag.1) {
            let creator = str::from_utf8(values::trimmed(element.bytes()?)).ok()?;
            let known = self.profile.private.iter();
            return known
                .filter(|it| it.group == tag.0)
                .any(|it| it.creator == creator)
                .then_some(false);
        }
        let creator = data.get(Tag(tag.0, tag.1 >> 8))?.bytes()?;
        let creator = str::from_utf8(values::trimmed(creator)).ok()?.to_owned();
        let low = u8::try_from(tag.1 & 0xFF).ok()?;
        let wanted = PrivateTag { creator, group: tag.0, element: low };
        if !self.profile.private.contains(&wanted) {
            return None;
        }
        let bytes = element.bytes().map_or(&[][..], |value| value);
        let dates = self.profile.has(DeidOption::RetainFullDates)
            || self.profile.has(DeidOption::RetainModifiedDates);
        match element.vr {
            VR::PN | VR::UR => None,
            VR::UI => self.uids_fit(element).then_some(false),
            VR::DA | VR::DT | VR::TM => (dates && is_moment(element.vr, bytes)).then_some(false),
            VR::SQ => Some(true),
            vr => values::sound(vr, bytes).map(|_| false),
        }
    }

    fn profiles(&self) -> impl Iterator<Item = &DeidProfile> {
        std::iter::once(&self.profile).chain(&self.stated)
    }

    /// The marks of de-identification in their own words.
    fn is_mark(&self, element: &Element) -> bool {
        let text = element.bytes().map(|value| values::trimmed(value)).unwrap_or_default();
        match element.tag {
            Tag(0x0012, 0x0062) => matches!(text, b"YES" | b"NO"),
            Tag(0x0012, 0x0063) => {
                self.profiles().any(|it| text == provenance::method(it).as_bytes())
            }
            Tag(0x0012, 0x0064) => {
                self.profiles().any(|it| *element == provenance::method_codes(it))
            }
            Tag(0x0028, 0x0303) => matches!(text, b"REMOVED" | b"MODIFIED" | b"UNMODIFIED"),
            _ => false,
        }
    }

    fn uids_fit(&self, element: &Element) -> bool {
        element
            .bytes()
            .and_then(|value| values::ascii_parts(value))
            .is_some_and(|parts| parts.iter().all(|part| part.is_empty() || self.may_be_uid(part)))
    }

    fn is_pseudonym(&self, value: &[u8]) -> bool {
        let text = str::from_utf8(values::trimmed(value)).unwrap_or_default();
        text.strip_prefix(self.profile.prefix.as_str()).is_some_and(|digits| {
            digits.len() == PSEUDONYM_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }

    fn is_dummy(&self, value: &ElementValue, tag: Tag) -> bool {
        match value {
            ElementValue::Bytes(bytes) => {
                values::is_dummy(bytes)
                    || (tag == PATIENT_ID || tag == PATIENT_NAME) && self.is_pseudonym(bytes)
            }
            ElementValue::Items(items) => items.iter().all(|item| {
                structured::is_dummy_content(item)
                    || item.elements().iter().all(|element| {
                        is_blank(&element.value)
                            || self.is_dummy(&element.value, element.tag)
                            || self.uids_fit(element)
                    })
            }),
            ElementValue::Fragments(_) => false,
        }
    }
}

fn is_blank(value: &ElementValue) -> bool {
    match value {
        ElementValue::Bytes(bytes) => bytes.is_empty(),
        ElementValue::Items(items) => items.iter().all(|item| item.elements().is_empty()),
        ElementValue::Fragments(pieces) => pieces.is_empty(),
    }
}

pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_moment(vr: VR, value: &[u8]) -> bool {
    values::ascii_parts(value).is_some_and(|parts| {
        parts.iter().all(|part| match vr {
            _ if part.is_empty() => true,
            VR::DA => dates::shift_date(part, 0).is_some(),
            VR::DT => dates::shift_date_time(part, 0).is_some(),
            VR::TM => dates::is_time(part),
            _ => false,
        })
    })
}

fn code_of(tag: Tag, vr: VR) -> &'static str {
    match known_vr(tag).unwrap_or(vr) {
        VR::PN => "person_name",
        VR::DA | VR::DT | VR::TM => "date",
        VR::UI => "uid",
        _ => "attribute",
    }
}
