//! Items of structured content: which may stay, whole.

use dicom_core::{Tag, VR};

use super::profile::{DeidOption, DeidProfile};
use super::values;
use crate::dicom::charset::Charset;
use crate::dicom::object::{DataSet, Element, ElementValue};
use crate::dicom::text;

const VALUE_TYPE: Tag = Tag(0x0040, 0xA040);
const RELATIONSHIP: Tag = Tag(0x0040, 0xA010);
const CONCEPT: Tag = Tag(0x0040, 0xA043);
const TEXT_VALUE: Tag = Tag(0x0040, 0xA160);
const CODE_VALUE: Tag = Tag(0x0008, 0x0100);
const CODE_SCHEME: Tag = Tag(0x0008, 0x0102);
const CODE_MEANING: Tag = Tag(0x0008, 0x0104);

/// Kinds of items whose values are no free texts. Dates follow the options, UIDs are exchanged.
const KINDS: &[&str] = &[
    "CODE",
    "NUM",
    "CONTAINER",
    "UIDREF",
    "IMAGE",
    "COMPOSITE",
    "WAVEFORM",
    "SCOORD",
    "SCOORD3D",
    "TCOORD",
    "DATE",
    "TIME",
    "DATETIME",
];

/// Concepts of the context group of subjects and observers that tell who somebody is: name, id,
/// birth date of the subject, names and places of observers, accession number.
const IDENTIFYING: &[&str] = &[
    "121008", "121009", "121013", "121014", "121015", "121016", "121017", "121022", "121029",
    "121030", "121031",
];
/// Sex and age of the subject.
const CHARACTERISTICS: &[&str] = &["121032", "121033", "121038", "121039"];

/// Whether an item of a content tree may stay; its own elements are dealt with afterwards.
pub(super) fn may_stay(item: &DataSet, profile: &DeidProfile, outer: &Charset) -> bool {
    let concept = item.get(CONCEPT).and_then(|concept| concept.items()?.first());
    if let Some(concept) = concept {
        let code = concept.ascii(CODE_VALUE).unwrap_or_default();
        let ours = concept.ascii(CODE_SCHEME).is_some_and(|scheme| scheme == "DCM");
        if ours && IDENTIFYING.contains(&code.as_str()) {
            return false;
        }
        if ours
            && CHARACTERISTICS.contains(&code.as_str())
            && !profile.has(DeidOption::RetainPatientCharacteristics)
        {
            return false;
        }
    }
    let kind = item.ascii(VALUE_TYPE).unwrap_or_default();
    if kind == "TEXT" {
        let charset = super::Deidentifier::charset_of(item, outer);
        return profile.has(DeidOption::CleanDescriptors)
            && item
                .bytes(TEXT_VALUE)
                .is_some_and(|value| profile.knows(&text::parts(VR::UT, value, &charset)));
    }
    KINDS.contains(&kind.as_str())
}

/// A content item that says that there is nothing.
pub(super) fn dummy_content() -> DataSet {
    let text = |tag, vr, text: &str| Element::new(tag, vr, values::padded(vr, text));
    let concept = DataSet::from_elements(vec![
        text(CODE_VALUE, VR::SH, "121071"),
        text(CODE_SCHEME, VR::SH, "DCM"),
        text(CODE_MEANING, VR::LO, "Finding"),
    ]);
    DataSet::from_elements(vec![
        text(RELATIONSHIP, VR::CS, "CONTAINS"),
        text(VALUE_TYPE, VR::CS, "TEXT"),
        Element { tag: CONCEPT, vr: VR::SQ, value: ElementValue::Items(vec![concept]) },
        text(TEXT_VALUE, VR::UT, values::DUMMY),
    ])
}

/// Whether an item is the one of `dummy_content`.
pub(super) fn is_dummy_content(item: &DataSet) -> bool {
    *item == dummy_content()
}
