//! The walk over an object's elements.

use std::collections::HashMap;

use bytes::Bytes;
use dicom_core::{Tag, VR};

use super::family::Resolved;
use super::profile::{DeidOption, PrivateTag};
use super::report::{DeidAction, DeidReport};
use super::rules::{
    self, CONTENT_SEQUENCE, Decision, PATIENT_ID, PATIENT_NAME, Rules, is_well_known, known_vr,
};
use super::{Deidentifier, dates, structured, values};
use crate::dicom::charset::Charset;
use crate::dicom::encode::CHARACTER_SET;
use crate::dicom::object::{DataSet, Element, ElementValue, PIXEL_DATA};
use crate::dicom::parse::DicomFile;
use crate::dicom::patient;
use crate::dicom::text::{self, is_text};

/// Digits of a hashed value.
const HASH_DIGITS: usize = 16;

/// Whose object it is.
pub(super) struct Patient {
    /// Nothing for objects without a patient id.
    pub(super) pseudonym: Option<String>,
    /// Days that dates move.
    pub(super) days: i64,
}

/// One object on its way.
pub(super) struct Walk<'a> {
    pub(super) rules: Rules<'a>,
    pub(super) deidentifier: &'a Deidentifier,
    pub(super) patient: Patient,
    pub(super) report: DeidReport,
}

/// Where in an object an element stands.
struct Scope {
    charset: Charset,
    root: bool,
    /// Inside of descriptions, whose texts must be known.
    cleaning: bool,
    /// The pseudonym that belongs to the patient id in this very item.
    pseudonym: Option<String>,
    /// Who reserved which block: the group, and the upper byte of the element.
    creators: HashMap<(u16, u16), String>,
    /// Blocks of which something stays.
    blocks: Vec<(u16, u16)>,
}

const fn block_of(tag: Tag) -> (u16, u16) {
    (tag.0, tag.1 >> 8)
}

impl Walk<'_> {
    pub(super) fn file(&mut self, file: &mut DicomFile) {
        file.preamble = None;
        let meta = std::mem::take(&mut file.meta);
        file.meta = self.meta(meta);
        let data = std::mem::take(&mut file.data);
        file.data = self.set(data, &Charset::default(), true, false);
    }

    /// Of the file meta stays what makes the file readable.
    fn meta(&mut self, meta: DataSet) -> DataSet {
        let mut kept = Vec::new();
        for element in meta.into_elements() {
            let uids = element.bytes().and_then(|value| values::sound(VR::UI, value));
            match element.tag {
                Tag(2, 0x0001) if element.bytes().is_some_and(|value| value.len() == 2) => {
                    kept.push(element);
                }
                Tag(2, 0x0002 | 0x0010) if uids.is_some() => {
                    kept.push(Element::new(element.tag, VR::UI, uids.unwrap_or_default()));
                }
                Tag(2, 0x0003) => {
                    if let Some(element) = self.uids(element) {
                        kept.push(element);
                    }
                }
                tag => self.report.count(tag, DeidAction::Removed),
            }
        }
        DataSet::from_elements(kept)
    }

    fn set(&mut self, data: DataSet, outer: &Charset, root: bool, cleaning: bool) -> DataSet {
        let mut scope = Scope {
            charset: Deidentifier::charset_of(&data, outer),
            root,
            cleaning,
            pseudonym: None,
            creators: HashMap::new(),
            blocks: Vec::new(),
        };
        scope.pseudonym = if root {
            self.patient.pseudonym.clone()
        } else {
            patient::patient_id(&data)
                .map(|id| self.deidentifier.pseudonym(&patient::issuer(&data), &id))
        };
        self.look_at_private(&data, &mut scope);
        let elements = data.into_elements().into_iter();
        let kept: Vec<Element> =
            elements.filter_map(|element| self.element(element, &scope)).collect();
        DataSet::from_elements(kept)
    }

    fn look_at_private(&self, data: &DataSet, scope: &mut Scope) {
        if !self.rules.profile.has(DeidOption::RetainSafePrivate) {
            return;
        }
        for element in data.elements() {
            let tag = element.tag;
            if tag.0 % 2 == 1 && (0x10..=0xFF).contains(&tag.1) {
                let value = element.bytes().map_or(&[][..], |value| values::trimmed(value));
                if let Ok(creator) = str::from_utf8(value) {
                    scope.creators.insert((tag.0, tag.1), creator.to_owned());
                }
            }
        }
        for element in data.elements() {
            if self.is_safe(element.tag, scope) && !scope.blocks.contains(&block_of(element.tag)) {
                scope.blocks.push(block_of(element.tag));
            }
        }
    }

    /// Whether a private element is on the allow-list.
    fn is_safe(&self, tag: Tag, scope: &Scope) -> bool {
        let Some(creator) = scope.creators.get(&block_of(tag)) else {
            return false;
        };
        let element = u8::try_from(tag.1 & 0xFF).unwrap_or(0);
        let wanted = PrivateTag { creator: creator.clone(), group: tag.0, element };
        tag.0 % 2 == 1 && tag.1 >= 0x1000 && self.rules.profile.private.contains(&wanted)
    }

    fn element(&mut self, element: Element, scope: &Scope) -> Option<Element> {
        let (tag, vr) = (element.tag, element.vr);
        if tag == PIXEL_DATA {
            // An image within an item is shown to nobody who checks the object's own.
            return if scope.root { Some(element) } else { self.remove(tag) };
        }
        if tag.0 % 2 == 1 {
            return self.private(element, scope);
        }
        if tag == CHARACTER_SET {
            return self.charset(element);
        }
        match self.rules.decide(tag, effective(tag, vr), scope.cleaning) {
            Decision::Keep => self.keep(element, scope, scope.cleaning, None),
            Decision::Retain => {
                self.keep(element, scope, scope.cleaning, Some(DeidAction::Retained))
            }
            Decision::Remove => self.remove(tag),
            Decision::Empty => Some(self.empty(element)),
            Decision::Dummy => Some(self.dummy(element)),
            Decision::Uid => self.uids(element),
            Decision::Shift => self.shift(element),
            Decision::Pseudonym => Some(self.pseudonym(element, scope)),
            Decision::Hash => self.hash(element, scope),
            Decision::Replace(text) => {
                self.report.count(tag, DeidAction::Replaced);
                let vr = known_vr(tag).unwrap_or(VR::LO);
                Some(Element::new(tag, vr, values::padded(vr, &text)))
            }
            Decision::Vocabulary(otherwise) => self.vocabulary(element, scope, otherwise),
            Decision::Structured => self.structured(element, scope),
        }
    }

    fn remove(&mut self, tag: Tag) -> Option<Element> {
        self.report.count(tag, DeidAction::Removed);
        None
    }

    fn unsound(&mut self, tag: Tag) -> Option<Element> {
        self.report.count(tag, DeidAction::Unsound);
        None
    }

    fn private(&mut self, element: Element, scope: &Scope) -> Option<Element> {
        let (tag, vr) = (element.tag, element.vr);
        if (0x10..=0xFF).contains(&tag.1) && scope.blocks.contains(&(tag.0, tag.1)) {
            // The creator is the allow-list's own text.
            return Some(element);
        }
        if !self.is_safe(tag, scope) {
            return self.remove(tag);
        }
        match vr {
            VR::PN | VR::UR => self.remove(tag),
            VR::UI if !self.rules.profile.has(DeidOption::RetainUids) => self.uids(element),
            VR::DA | VR::DT | VR::TM if self.rules.profile.has(DeidOption::RetainFullDates) => {
                self.keep(element, scope, false, Some(DeidAction::Retained))
            }
            VR::DA | VR::DT if self.rules.profile.has(DeidOption::RetainModifiedDates) => {
                self.shift(element)
            }
            VR::DA | VR::DT | VR::TM => self.remove(tag),
            _ => self.keep(element, scope, false, Some(DeidAction::Retained)),
        }
    }

    /// The name of the character set: what is none, may be anything.
    fn charset(&mut self, element: Element) -> Option<Element> {
        let known = element.bytes().is_some_and(|value| values::is_charset(value));
        if known { self.sound(element, None) } else { self.unsound(CHARACTER_SET) }
    }

    fn keep(
        &mut self,
        element: Element,
        scope: &Scope,
        cleaning: bool,
        action: Option<DeidAction>,
    ) -> Option<Element> {
        let Element { tag, vr, value } = element;
        match value {
            ElementValue::Items(items) => {
                if let Some(action) = action {
                    self.report.count(tag, action);
                }
                let items = self.items(items, scope, cleaning);
                Some(Element { tag, vr, value: ElementValue::Items(items) })
            }
            value => self.sound(Element { tag, vr, value }, action),
        }
    }

    fn items(&mut self, items: Vec<DataSet>, scope: &Scope, cleaning: bool) -> Vec<DataSet> {
        items.into_iter().map(|item| self.set(item, &scope.charset, false, cleaning)).collect()
    }

    /// Keeps a value that is what it claims to be.
    fn sound(&mut self, element: Element, action: Option<DeidAction>) -> Option<Element> {
        let Element { tag, vr, value } = element;
        let ElementValue::Bytes(value) = value else {
            return self.unsound(tag);
        };
        let fits = tag.0 % 2 == 1 || rules::is_told(tag, vr);
        let as_known = values::sound(effective(tag, vr), &value).is_some();
        match values::sound(vr, &value) {
            Some(value) if fits && as_known => {
                if let Some(action) = action {
                    self.report.count(tag, action);
                }
                Some(Element::new(tag, vr, self.capped(tag, value)))
            }
            _ => self.unsound(tag),
        }
    }

    /// Ages beyond the profile's cap become the next year.
    fn capped(&self, tag: Tag, value: Bytes) -> Bytes {
        let (Some(cap), Tag(0x0010, 0x1010)) = (self.rules.profile.age_cap, tag) else {
            return value;
        };
        let years = values::ascii_parts(&value)
            .and_then(|parts| parts.first().copied())
            .and_then(|age| age.strip_suffix('Y')?.parse::<u16>().ok());
        if years.is_some_and(|years| years > cap) {
            return values::padded(VR::AS, &format!("{:03}Y", cap.saturating_add(1)));
        }
        value
    }

    fn empty(&mut self, element: Element) -> Element {
        let Element { tag, vr, value } = element;
        self.report.count(tag, DeidAction::Emptied);
        match value {
            ElementValue::Items(_) => Element { tag, vr, value: ElementValue::Items(Vec::new()) },
            _ => Element::new(tag, vr, Bytes::new()),
        }
    }

    fn dummy(&mut self, element: Element) -> Element {
        let Element { tag, vr, value } = element;
        self.report.count(tag, DeidAction::Replaced);
        match value {
            ElementValue::Items(items) => {
                let items = match items.first() {
                    None => Vec::new(),
                    Some(_) if tag == CONTENT_SEQUENCE => vec![structured::dummy_content()],
                    Some(first) => vec![self.dummy_item(first)],
                };
                Element { tag, vr, value: ElementValue::Items(items) }
            }
            ElementValue::Bytes(bytes) if bytes.is_empty() => Element::new(tag, vr, bytes),
            _ if vr == VR::SQ => Element { tag, vr, value: ElementValue::Items(Vec::new()) },
            _ => Element::new(tag, vr, values::dummy(vr)),
        }
    }

    /// An item with the elements of another one, none of which says anything.
    fn dummy_item(&mut self, item: &DataSet) -> DataSet {
        let mut elements = Vec::new();
        for element in item.elements() {
            let (tag, vr) = (element.tag, element.vr);
            if tag.0 % 2 == 1 || tag == PIXEL_DATA || !rules::is_known(tag) {
                continue;
            }
            let value = match &element.value {
                ElementValue::Items(items) => {
                    let first = items.first().map(|first| self.dummy_item(first));
                    ElementValue::Items(first.into_iter().collect())
                }
                ElementValue::Bytes(bytes) if bytes.is_empty() => ElementValue::Bytes(Bytes::new()),
                ElementValue::Bytes(_) if vr == VR::UI => {
                    elements.extend(self.uids(element.clone()));
                    continue;
                }
                // Counts of numbers are often fixed.
                ElementValue::Bytes(bytes) if values::is_number(vr) => {
                    ElementValue::Bytes(vec![0; bytes.len()].into())
                }
                ElementValue::Bytes(_) if vr != VR::SQ => ElementValue::Bytes(values::dummy(vr)),
                _ => continue,
            };
            elements.push(Element { tag, vr, value });
        }
        DataSet::from_elements(elements)
    }

    /// Exchanges UIDs for new ones; those that the standard defines stay.
    fn uids(&mut self, element: Element) -> Option<Element> {
        let Element { tag, vr, value } = element;
        let ElementValue::Bytes(value) = value else {
            return self.unsound(tag);
        };
        if value.is_empty() {
            return Some(Element::new(tag, vr, value));
        }
        if !is_text(vr) && vr != VR::UN {
            return self.unsound(tag);
        }
        let retained = self.rules.profile.has(DeidOption::RetainUids);
        if retained && tag == Tag(2, 3) {
            return self.sound(Element::new(tag, vr, value), None);
        }
        let parts = value.split(|byte| *byte == b'\\').map(|part| {
            let uid = String::from_utf8_lossy(values::trimmed(part)).into_owned();
            if uid.is_empty() || is_well_known(&uid) && values::is_uid(&uid) {
                uid
            } else {
                self.deidentifier.new_uid(&uid)
            }
        });
        let new: Vec<String> = parts.collect();
        self.report.count(tag, DeidAction::Remapped);
        Some(Element::new(tag, VR::UI, values::padded(VR::UI, &new.join("\\"))))
    }

    fn shift(&mut self, element: Element) -> Option<Element> {
        let Element { tag, vr, value } = element;
        let ElementValue::Bytes(value) = value else {
            return self.unsound(tag);
        };
        let days = self.patient.days;
        let parts =
            values::ascii_parts(&value).unwrap_or_default().into_iter().map(
                |part| match effective(tag, vr) {
                    _ if part.is_empty() => Some(String::new()),
                    VR::DA => dates::shift_date(part, days),
                    VR::DT => dates::shift_date_time(part, days),
                    _ => None,
                },
            );
        let moved: Option<Vec<String>> = parts.collect();
        match moved {
            Some(moved) if is_text(vr) => {
                self.report.count(tag, DeidAction::Shifted);
                Some(Element::new(tag, vr, values::padded(vr, &moved.join("\\"))))
            }
            // What is no date cannot be moved, and may be anything.
            _ => {
                self.report.count(tag, DeidAction::Unsound);
                Some(Element::new(tag, known_vr(tag).unwrap_or(vr), Bytes::new()))
            }
        }
    }

    fn pseudonym(&mut self, element: Element, scope: &Scope) -> Element {
        let vr = if element.tag == PATIENT_NAME { VR::PN } else { VR::LO };
        let is_empty = element.bytes().is_none_or(|value| values::trimmed(value).is_empty());
        match &scope.pseudonym {
            Some(pseudonym) if !is_empty => {
                self.report.count(element.tag, DeidAction::Pseudonymised);
                Element::new(element.tag, vr, values::padded(vr, pseudonym))
            }
            _ => {
                debug_assert!(element.tag == PATIENT_NAME || element.tag == PATIENT_ID);
                self.report.count(element.tag, DeidAction::Emptied);
                Element::new(element.tag, vr, Bytes::new())
            }
        }
    }

    fn hash(&mut self, element: Element, scope: &Scope) -> Option<Element> {
        let Element { tag, vr, value } = element;
        let ElementValue::Bytes(value) = value else {
            return self.unsound(tag);
        };
        if !is_text(vr) {
            return self.unsound(tag);
        }
        if effective(tag, vr) == VR::UI {
            return self.uids(Element::new(tag, vr, value));
        }
        let parts = text::parts(vr, &value, &scope.charset);
        let hashed: Vec<String> = parts
            .iter()
            .map(|part| {
                let part = part.trim();
                if part.is_empty() {
                    return String::new();
                }
                let key = &self.deidentifier.key;
                key.hex("value", &[part.as_bytes()], HASH_DIGITS).to_ascii_uppercase()
            })
            .collect();
        self.report.count(tag, DeidAction::Hashed);
        Some(Element::new(tag, vr, values::padded(vr, &hashed.join("\\"))))
    }

    fn vocabulary(
        &mut self,
        element: Element,
        scope: &Scope,
        otherwise: Resolved,
    ) -> Option<Element> {
        let (tag, vr) = (element.tag, element.vr);
        let known = match &element.value {
            ElementValue::Items(_) => true,
            ElementValue::Bytes(value) => {
                is_text(vr)
                    && rules::is_told(tag, vr)
                    && self.rules.profile.knows(&text::parts(vr, value, &scope.charset))
            }
            ElementValue::Fragments(_) => false,
        };
        if known {
            return self.keep(element, scope, true, Some(DeidAction::Retained));
        }
        match otherwise {
            Resolved::Empty => Some(self.empty(element)),
            Resolved::Dummy => Some(self.dummy(element)),
            Resolved::Remove | Resolved::Uid => self.remove(tag),
        }
    }

    fn structured(&mut self, element: Element, scope: &Scope) -> Option<Element> {
        let Element { tag, vr, value } = element;
        let ElementValue::Items(items) = value else {
            return self.unsound(tag);
        };
        let profile = self.rules.profile;
        let kept: Vec<DataSet> = items
            .into_iter()
            .filter(|item| structured::may_stay(item, profile, &scope.charset))
            .collect();
        if kept.is_empty() && tag == CONTENT_SEQUENCE {
            // Reports have content, and items have no empty one.
            if !scope.root {
                return self.remove(tag);
            }
            self.report.count(tag, DeidAction::Replaced);
            let value = ElementValue::Items(vec![structured::dummy_content()]);
            return Some(Element { tag, vr, value });
        }
        self.report.count(tag, DeidAction::Retained);
        let items = self.items(kept, scope, false);
        Some(Element { tag, vr, value: ElementValue::Items(items) })
    }
}

/// The representation that counts: the dictionary's where both are texts, so that a name does not
/// pass as a description.
pub(super) fn effective(tag: Tag, vr: VR) -> VR {
    let is_string = |vr| is_text(vr) || matches!(vr, VR::DS | VR::IS);
    match known_vr(tag) {
        Some(known) if tag.0.is_multiple_of(2) && is_string(known) && is_string(vr) => known,
        _ => vr,
    }
}
