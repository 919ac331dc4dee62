//! Which of several actions the type of an attribute calls for.
//!
//! The table of the standard has rows such as X/Z/D: remove the attribute, unless the object needs
//! it there (type 2: it may be empty; type 1: it may not). Which it is depends on what sort of object
//! it is, so SOP classes are put into families and exceptions are listed for each.

use dicom_core::Tag;

use super::table::Codes;

/// Objects whose modules demand the same of the attributes in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Single frames: CT, MR, US, CR, SC, XA, NM, PET.
    Image,
    /// Digital X-ray, mammography, intra-oral.
    DigitalXRay,
    /// Multi-frame with functional groups, and slides.
    Enhanced,
    /// Photographs of the eye and tomography of it.
    Ophthalmic,
    /// Segmentations, parametric maps, registrations, surfaces.
    Derived,
    /// Structured reports and key object selections.
    Report,
    /// Presentation states.
    Presentation,
    /// Plans, structure sets, treatment records.
    Radiotherapy,
    /// Waveforms.
    Waveform,
    /// Documents in a wrapper.
    Encapsulated,
    /// Not known: what every object can have is done.
    Unknown,
}

/// What is done in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    Remove,
    Empty,
    Dummy,
    Uid,
}

/// The type that an attribute has in some families, and in the others.
struct Needs {
    group: u16,
    element: u16,
    of: &'static [Family],
    then: u8,
    else_: u8,
}

const fn needs(tag: (u16, u16), of: &'static [Family], then: u8, else_: u8) -> Needs {
    Needs { group: tag.0, element: tag.1, of, then, else_ }
}

/// Attributes of several actions that are not of type 3 everywhere.
const NEEDS: &[Needs] = {
    use Family::{
        Derived, DigitalXRay, Encapsulated, Enhanced, Image, Ophthalmic, Radiotherapy, Report,
        Waveform,
    };
    &[
        needs((0x0008, 0x0022), &[DigitalXRay], 2, 3),
        needs((0x0008, 0x0023), &[Image, DigitalXRay, Encapsulated, Radiotherapy], 2, 1),
        needs((0x0008, 0x002A), &[Enhanced, Ophthalmic, Waveform], 1, 3),
        needs((0x0008, 0x0032), &[DigitalXRay], 2, 3),
        needs((0x0008, 0x0033), &[Image, DigitalXRay, Encapsulated, Radiotherapy], 2, 1),
        needs((0x0008, 0x1070), &[Radiotherapy], 2, 3),
        needs((0x0008, 0x1111), &[Report], 2, 3),
        needs((0x0018, 0x0010), &[Enhanced], 1, 2),
        needs((0x0018, 0x1000), &[Enhanced, Derived], 1, 3),
        needs((0x0018, 0x700A), &[DigitalXRay], 2, 3),
        needs((0x0018, 0x9516), &[Enhanced], 1, 3),
        needs((0x0018, 0x9517), &[Enhanced], 1, 3),
        needs((0x0018, 0x9919), &[], 1, 1),
        needs((0x0040, 0x0555), &[Enhanced, Derived, DigitalXRay, Ophthalmic, Waveform], 2, 3),
        needs((0x0040, 0xA032), &[Report], 1, 3),
        needs((0x0040, 0xB020), &[Waveform], 1, 3),
        needs((0x0070, 0x0084), &[], 2, 2),
        needs((0x2200, 0x0002), &[], 2, 2),
        needs((0x2200, 0x0005), &[], 2, 2),
        needs((0x3008, 0x0054), &[], 2, 2),
        needs((0x3008, 0x0056), &[], 2, 2),
        needs((0x3008, 0x0105), &[], 2, 2),
        needs((0x3008, 0x0250), &[], 2, 2),
        needs((0x3008, 0x0251), &[], 2, 2),
        needs((0x300A, 0x0006), &[Radiotherapy], 2, 3),
        needs((0x300A, 0x0007), &[Radiotherapy], 2, 3),
        needs((0x300A, 0x00B2), &[], 2, 2),
        needs((0x300E, 0x0008), &[], 2, 2),
        needs((0x3010, 0x0077), &[], 1, 1),
    ]
};

impl Family {
    /// The family of a SOP class.
    pub(crate) fn of(class: &str) -> Self {
        let Some(rest) = class.strip_prefix("1.2.840.10008.5.1.4.") else {
            return Self::Unknown;
        };
        let Some(storage) = rest.strip_prefix("1.1.") else {
            return if rest.starts_with("34.") { Self::Radiotherapy } else { Self::Unknown };
        };
        let starts = |prefixes: &[&str]| {
            prefixes.iter().any(|prefix| {
                storage
                    .strip_prefix(prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        match () {
            () if starts(&["1.1", "1.2", "1.3"]) => Self::DigitalXRay,
            () if starts(&[
                "2.1", "2.2", "4.1", "4.2", "4.3", "4.4", "6.2", "12.1.1", "12.2.1", "13.1",
                "77.1.6", "128.1", "130",
            ]) =>
            {
                Self::Enhanced
            }
            () if starts(&["77.1.5"]) => Self::Ophthalmic,
            () if starts(&["66", "30", "67", "68", "77.1.7"]) => Self::Derived,
            () if starts(&["88", "40", "34"]) => Self::Report,
            () if starts(&["11"]) => Self::Presentation,
            () if starts(&["481"]) => Self::Radiotherapy,
            () if starts(&["9"]) => Self::Waveform,
            () if starts(&["104"]) => Self::Encapsulated,
            () if starts(&[
                "1", "2", "3", "3.1", "4", "5", "6", "6.1", "7", "12", "13", "20", "77.1", "128",
                "129",
            ]) =>
            {
                Self::Image
            }
            () => Self::Unknown,
        }
    }

    /// What an object of the family needs of an attribute: 1 (a value), 2 (the element), 3 (nothing).
    fn type_of(self, tag: Tag) -> u8 {
        if self == Self::Unknown {
            return 1;
        }
        let needs = NEEDS.iter().find(|needs| (needs.group, needs.element) == (tag.0, tag.1));
        needs.map_or(3, |needs| if needs.of.contains(&self) { needs.then } else { needs.else_ })
    }

    /// What is done with an attribute. Inside of items the object's own family counts too.
    pub(crate) fn resolve(self, tag: Tag, codes: Codes) -> Resolved {
        if codes.uid {
            return Resolved::Uid;
        }
        let wanted = self.type_of(tag);
        match codes {
            // A value that says nothing is allowed wherever none is.
            Codes { dummy: true, .. } if wanted == 1 => Resolved::Dummy,
            Codes { empty: true, .. } if wanted <= 2 => Resolved::Empty,
            Codes { dummy: true, .. } if wanted <= 2 => Resolved::Dummy,
            Codes { remove: true, .. } => Resolved::Remove,
            Codes { empty: true, .. } => Resolved::Empty,
            Codes { dummy: true, .. } => Resolved::Dummy,
            _ => Resolved::Remove,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::row;
    use super::*;

    fn resolved(class: &str, group: u16, element: u16) -> Resolved {
        let tag = Tag(group, element);
        Family::of(class).resolve(tag, row(tag).unwrap().codes)
    }

    #[test]
    fn the_sort_of_object_decides_between_actions() {
        let (ct, enhanced_ct) = ("1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.5.1.4.1.1.2.1");
        assert_eq!(resolved(ct, 0x0008, 0x002A), Resolved::Remove);
        assert_eq!(resolved(enhanced_ct, 0x0008, 0x002A), Resolved::Dummy);
        assert_eq!(resolved(ct, 0x0008, 0x0023), Resolved::Empty);
        assert_eq!(resolved(enhanced_ct, 0x0008, 0x0023), Resolved::Dummy);
        assert_eq!(resolved("1.2.3", 0x0008, 0x0080), Resolved::Dummy);
        assert_eq!(resolved("1.2.3", 0x0010, 0x0010), Resolved::Empty);
        assert_eq!(resolved(ct, 0x0010, 0x0010), Resolved::Empty);
        assert_eq!(resolved(ct, 0x0010, 0x1000), Resolved::Remove);
        assert_eq!(resolved(ct, 0x0020, 0x000D), Resolved::Uid);
        assert_eq!(resolved(ct, 0x0012, 0x0010), Resolved::Dummy);
    }

    #[test]
    fn classes_are_told_apart_by_whole_components() {
        assert_eq!(Family::of("1.2.840.10008.5.1.4.1.1.1.1.1"), Family::DigitalXRay);
        assert_eq!(Family::of("1.2.840.10008.5.1.4.1.1.12.1"), Family::Image);
        assert_eq!(Family::of("1.2.840.10008.5.1.4.1.1.88.22"), Family::Report);
        assert_eq!(Family::of("1.2.840.10008.5.1.4.1.1.481.3"), Family::Radiotherapy);
        assert_eq!(Family::of("1.2.840.10008.5.1.4.1.1.77.1.6"), Family::Enhanced);
        assert_eq!(Family::of("1.2.840.10008.5.1.4.1.1.9.1.1"), Family::Waveform);
        assert_eq!(Family::of("1.2.840.10008.5.1.4.1.1.991"), Family::Unknown);
        assert_eq!(Family::of(""), Family::Unknown);
    }
}
