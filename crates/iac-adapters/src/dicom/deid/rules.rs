//! What is to be done with each element: the table, the options, and the profile's own rules.

use dicom_core::dictionary::{DataDictionary as _, DataDictionaryEntry as _, VirtualVr};
use dicom_core::{Tag, VR};
use dicom_dictionary_std::StandardDataDictionary;

use super::family::{Family, Resolved};
use super::profile::{DeidOption, DeidProfile, ElementRule};
use super::table::{self, Cells, Row};
use crate::dicom::text::is_text;

pub(crate) const PATIENT_NAME: Tag = Tag(0x0010, 0x0010);
pub(crate) const PATIENT_ID: Tag = Tag(0x0010, 0x0020);
pub(crate) const CONTENT_SEQUENCE: Tag = Tag(0x0040, 0xA730);
/// The marks of de-identification that are made anew.
pub(crate) const MARKS: [Tag; 4] =
    [Tag(0x0012, 0x0062), Tag(0x0012, 0x0063), Tag(0x0012, 0x0064), Tag(0x0028, 0x0303)];

/// UIDs that name sorts of things and never things.
const CLASSES: &[Tag] = &[
    Tag(0x0002, 0x0002),
    Tag(0x0002, 0x0010),
    Tag(0x0004, 0x1510),
    Tag(0x0004, 0x1512),
    Tag(0x0008, 0x0016),
    Tag(0x0008, 0x001A),
    Tag(0x0008, 0x001B),
    Tag(0x0008, 0x0062),
    Tag(0x0008, 0x010C),
    Tag(0x0008, 0x0117),
    Tag(0x0008, 0x0118),
    Tag(0x0008, 0x1150),
    Tag(0x0008, 0x115A),
    Tag(0x0008, 0x3002),
    Tag(0x0400, 0x0010),
];

/// Attributes that the table leaves out although their values tell who somebody is: dates of birth
/// and death in other calendars, numbers of animals, addresses of stations, retired numbers of
/// orders, people to be told, owners of print jobs, journeys of passengers, and what others have
/// put aside encrypted.
const IDENTIFYING: &[Tag] = &[
    Tag(0x0010, 0x0033),
    Tag(0x0010, 0x0034),
    Tag(0x0010, 0x2295),
    Tag(0x0018, 0x1803),
    Tag(0x0040, 0x1006),
    Tag(0x0040, 0x1007),
    Tag(0x0040, 0x2006),
    Tag(0x0040, 0x2007),
    Tag(0x0074, 0x100C),
    Tag(0x0400, 0x0500),
    Tag(0x2100, 0x0160),
    Tag(0x4010, 0x101A),
    Tag(0x4010, 0x1051),
];

/// What is done with an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It stays; the items of a sequence are looked into.
    Keep,
    /// It stays, and that is worth telling: the table would have it go.
    Retain,
    Remove,
    Empty,
    Dummy,
    /// UIDs are exchanged.
    Uid,
    /// Dates are moved.
    Shift,
    /// The patient's pseudonym.
    Pseudonym,
    /// A keyed hash.
    Hash,
    /// A text of the profile.
    Replace(String),
    /// It stays if all of it is in the vocabulary; what happens otherwise stands beside.
    Vocabulary(Resolved),
    /// Items of structured content are sorted out.
    Structured,
}

impl From<Resolved> for Decision {
    fn from(resolved: Resolved) -> Self {
        match resolved {
            Resolved::Remove => Self::Remove,
            Resolved::Empty => Self::Empty,
            Resolved::Dummy => Self::Dummy,
            Resolved::Uid => Self::Uid,
        }
    }
}

/// The rules for one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) profile: &'a DeidProfile,
    pub(crate) family: Family,
}

impl Rules<'_> {
    /// What is done with an element that is not private. `cleaning` is whether it lies in a sequence
    /// of descriptions, whose texts must be known.
    pub(crate) fn decide(&self, tag: Tag, vr: VR, cleaning: bool) -> Decision {
        if let Some(rule) = self.profile.elements.get(&tag) {
            return match rule {
                ElementRule::Keep => Decision::Retain,
                ElementRule::Remove => Decision::Remove,
                ElementRule::Empty => Decision::Empty,
                ElementRule::Replace(text) => Decision::Replace(text.clone()),
                ElementRule::Hash => Decision::Hash,
                ElementRule::Shift => Decision::Shift,
            };
        }
        // Lengths of groups are wrong now, marks are made anew, and commands, file meta and directories
        // have no place in data sets.
        if tag.1 == 0 || tag.0 < 0x0008 || MARKS.contains(&tag) {
            return Decision::Remove;
        }
        if tag == PATIENT_ID || tag == PATIENT_NAME {
            return Decision::Pseudonym;
        }
        // Curves and overlays go as a whole: their labels are free texts, and a plane without its
        // data is none.
        if is_plane(tag) {
            return Decision::Remove;
        }
        match table::row(tag) {
            Some(row) => self.listed(tag, vr, row),
            None => self.unlisted(tag, vr, cleaning),
        }
    }

    fn listed(&self, tag: Tag, vr: VR, row: Row) -> Decision {
        let Row { codes, cells } = row;
        let has = |option| self.profile.has(option);
        let resolved = self.family.resolve(tag, codes);
        if cells.dates {
            return self.dated(vr, resolved.into());
        }
        let Cells { uids, device, institution, patient, .. } = cells;
        if uids && has(DeidOption::RetainUids)
            || device && has(DeidOption::RetainDeviceIdentity)
            || institution && has(DeidOption::RetainInstitutionIdentity)
            || patient && has(DeidOption::RetainPatientCharacteristics)
        {
            return Decision::Retain;
        }
        if cells.structured && has(DeidOption::CleanStructuredContent) {
            return Decision::Structured;
        }
        if cells.descriptors && has(DeidOption::CleanDescriptors)
            || cells.patient_cleaned
                && has(DeidOption::RetainPatientCharacteristics)
                && has(DeidOption::CleanDescriptors)
        {
            return Decision::Vocabulary(resolved);
        }
        // References inside of a pack are worth keeping: their UIDs are exchanged.
        if resolved == Resolved::Uid && vr == VR::SQ {
            return Decision::Keep;
        }
        // The dummy of a UID is another UID.
        if resolved == Resolved::Dummy && vr == VR::UI {
            return Decision::Uid;
        }
        resolved.into()
    }

    /// Dates and times, listed or not.
    fn dated(&self, vr: VR, otherwise: Decision) -> Decision {
        if self.profile.has(DeidOption::RetainFullDates) {
            return Decision::Retain;
        }
        if !self.profile.has(DeidOption::RetainModifiedDates) {
            return otherwise;
        }
        match vr {
            VR::DA | VR::DT => Decision::Shift,
            // The time of the day stays: days are moved as a whole.
            VR::TM | VR::SH => Decision::Retain,
            _ => otherwise,
        }
    }

    fn unlisted(&self, tag: Tag, vr: VR, cleaning: bool) -> Decision {
        if IDENTIFYING.contains(&tag) {
            return Decision::Remove;
        }
        let Some(entry) = StandardDataDictionary.by_tag(tag) else {
            // Nobody can tell what it holds.
            return Decision::Remove;
        };
        let known = entry.vr();
        if !is_compatible(known, vr) {
            return Decision::Remove;
        }
        let wanted = match known {
            VirtualVr::Exact(exact) => exact,
            _ => vr,
        };
        match wanted {
            VR::PN => Decision::Empty,
            VR::DA | VR::DT | VR::TM => self.dated(wanted, Decision::Remove),
            VR::UI if CLASSES.contains(&tag) => Decision::Keep,
            VR::UI if self.profile.has(DeidOption::RetainUids) => Decision::Keep,
            VR::UI => Decision::Uid,
            // Addresses of services name hosts, and objects by their UIDs.
            VR::UR => Decision::Remove,
            VR::AE if !self.profile.has(DeidOption::RetainDeviceIdentity) => Decision::Remove,
            VR::LO | VR::SH | VR::UC if cleaning => Decision::Vocabulary(Resolved::Dummy),
            // Room for whole sentences, of which nobody knows what they say.
            VR::ST | VR::LT | VR::UT if self.profile.has(DeidOption::CleanDescriptors) => {
                Decision::Vocabulary(Resolved::Dummy)
            }
            VR::ST | VR::LT | VR::UT => Decision::Dummy,
            _ => Decision::Keep,
        }
    }
}

/// Whether an element may have this representation, when the dictionary has another one for it.
fn is_compatible(known: VirtualVr, found: VR) -> bool {
    let is_string = |vr| is_text(vr) || matches!(vr, VR::DS | VR::IS);
    match known {
        VirtualVr::Exact(VR::SQ) => found == VR::SQ,
        VirtualVr::Exact(exact) if is_string(exact) => is_string(found),
        VirtualVr::Exact(VR::UN) => true,
        VirtualVr::Exact(exact) if is_bytes(exact) => is_bytes(found),
        VirtualVr::Exact(_) => found != VR::SQ && !is_string(found) && !is_bytes(found),
        // Words whose sign depends on the samples; data of tables, overlays and pixels.
        VirtualVr::Xs => matches!(found, VR::US | VR::SS),
        VirtualVr::Lt => matches!(found, VR::US | VR::SS | VR::OW),
        _ => is_bytes(found),
    }
}

/// Whether an element's representation is one that it may have, and not just unknown.
pub(crate) fn is_told(tag: Tag, found: VR) -> bool {
    let entry = StandardDataDictionary.by_tag(tag);
    found != VR::UN && entry.is_none_or(|entry| is_compatible(entry.vr(), found))
}

const fn is_bytes(vr: VR) -> bool {
    matches!(vr, VR::OB | VR::OD | VR::OF | VR::OL | VR::OV | VR::OW | VR::UN)
}

/// Whether an element belongs to a curve or an overlay.
pub(crate) const fn is_plane(tag: Tag) -> bool {
    matches!(tag.0, 0x5000..=0x50FF | 0x6000..=0x60FF)
}

/// Whether the dictionary knows an element.
pub(crate) fn is_known(tag: Tag) -> bool {
    StandardDataDictionary.by_tag(tag).is_some()
}

/// The representation that a value must fit beside the one that its file states.
pub(crate) fn known_vr(tag: Tag) -> Option<VR> {
    match StandardDataDictionary.by_tag(tag)?.vr() {
        VirtualVr::Exact(vr) => Some(vr),
        _ => None,
    }
}

/// Whether a UID names something that the standard itself defines, in every object the same.
pub(crate) fn is_well_known(uid: &str) -> bool {
    // Frames of reference and palettes; everything else of the standard is a class.
    ["1.2.840.10008.1.4.", "1.2.840.10008.1.5."].iter().any(|root| uid.starts_with(root))
        && uid.len() <= 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(profile: &DeidProfile, group: u16, element: u16, vr: VR) -> Decision {
        Rules { profile, family: Family::Image }.decide(Tag(group, element), vr, false)
    }

    fn with(options: &[&str]) -> DeidProfile {
        let options: Vec<String> = options.iter().map(|it| format!("\"{it}\"")).collect();
        let text = format!("name = \"t\"\noptions = [{}]", options.join(","));
        DeidProfile::parse(&text, "t").unwrap()
    }

    #[test]
    fn options_open_what_the_basic_profile_closes() {
        let basic = with(&[]);
        for (tag, vr, closed, option, open) in [
            (
                (0x0008, 0x0080),
                VR::LO,
                Decision::Remove,
                "retain-institution-identity",
                Decision::Retain,
            ),
            (
                (0x0018, 0x1000),
                VR::LO,
                Decision::Remove,
                "retain-device-identity",
                Decision::Retain,
            ),
            (
                (0x0010, 0x1010),
                VR::AS,
                Decision::Remove,
                "retain-patient-characteristics",
                Decision::Retain,
            ),
            ((0x0008, 0x0020), VR::DA, Decision::Empty, "retain-full-dates", Decision::Retain),
            ((0x0008, 0x0020), VR::DA, Decision::Empty, "retain-modified-dates", Decision::Shift),
            ((0x0008, 0x0030), VR::TM, Decision::Empty, "retain-modified-dates", Decision::Retain),
            ((0x0008, 0x0201), VR::SH, Decision::Remove, "retain-modified-dates", Decision::Retain),
            ((0x0020, 0x000D), VR::UI, Decision::Uid, "retain-uids", Decision::Retain),
            (
                (0x0008, 0x1030),
                VR::LO,
                Decision::Remove,
                "clean-descriptors",
                Decision::Vocabulary(Resolved::Remove),
            ),
            (
                (0x0040, 0xA730),
                VR::SQ,
                Decision::Dummy,
                "clean-structured-content",
                Decision::Structured,
            ),
        ] {
            assert_eq!(decide(&basic, tag.0, tag.1, vr), closed, "{tag:?}");
            assert_eq!(decide(&with(&[option]), tag.0, tag.1, vr), open, "{tag:?}");
        }
        // Never opened by any option.
        let all = with(&[
            "retain-uids",
            "retain-device-identity",
            "retain-institution-identity",
            "retain-patient-characteristics",
            "retain-full-dates",
            "clean-descriptors",
        ]);
        assert_eq!(decide(&all, 0x0010, 0x0030, VR::DA), Decision::Empty);
        assert_eq!(decide(&all, 0x0010, 0x1000, VR::LO), Decision::Remove);
        assert_eq!(decide(&all, 0x0010, 0x0020, VR::LO), Decision::Pseudonym);
    }

    #[test]
    fn what_is_not_listed_stays_only_where_it_can_be_understood() {
        let basic = with(&[]);
        assert_eq!(decide(&basic, 0x0008, 0x0060, VR::CS), Decision::Keep);
        assert_eq!(decide(&basic, 0x0008, 0x0016, VR::UI), Decision::Keep);
        assert_eq!(decide(&basic, 0x0008, 0x0061, VR::UN), Decision::Remove);
        assert_eq!(decide(&basic, 0x0028, 0x0010, VR::US), Decision::Keep);
        assert_eq!(decide(&basic, 0x0028, 0x0010, VR::LO), Decision::Remove);
        assert_eq!(decide(&basic, 0x0028, 0x0106, VR::SS), Decision::Keep);
        // Bytes, in which anything may stand, where the dictionary has numbers.
        assert_eq!(decide(&basic, 0x0028, 0x0106, VR::OB), Decision::Remove);
        assert_eq!(decide(&basic, 0x0028, 0x3006, VR::OB), Decision::Remove);
        assert_eq!(decide(&basic, 0x0028, 0x3006, VR::OW), Decision::Keep);
        assert_eq!(decide(&basic, 0x0018, 0x9FFF, VR::LO), Decision::Remove);
        assert_eq!(decide(&basic, 0x5002, 0x3000, VR::OW), Decision::Remove);
        assert_eq!(decide(&basic, 0x6002, 0x1500, VR::LO), Decision::Remove);
        assert_eq!(decide(&basic, 0x0008, 0x1190, VR::UR), Decision::Remove);
        assert_eq!(decide(&basic, 0x0008, 0x0000, VR::UL), Decision::Remove);
        assert_eq!(decide(&basic, 0x0002, 0x0016, VR::AE), Decision::Remove);
        assert_eq!(decide(&basic, 0x0004, 0x1500, VR::CS), Decision::Remove);
        assert_eq!(decide(&basic, 0x0042, 0x0010, VR::ST), Decision::Dummy);
        // A date of birth, whatever its calendar and whatever the options are.
        let all = with(&["retain-full-dates", "retain-patient-characteristics"]);
        for profile in [&basic, &all] {
            assert_eq!(decide(profile, 0x0010, 0x0033, VR::LO), Decision::Remove);
            assert_eq!(decide(profile, 0x0040, 0x2007, VR::SH), Decision::Remove);
        }
        for tag in IDENTIFYING {
            assert!(is_known(*tag) && table::row(*tag).is_none(), "{tag:?}");
        }
    }
}
