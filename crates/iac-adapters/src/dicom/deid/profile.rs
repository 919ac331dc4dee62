//! Which options of PS3.15 hold, and what is done otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use dicom_core::Tag;

use super::key::DeidKey;
use crate::error::Result;

/// The environment variable with the key, where a profile names neither this nor a file.
pub const DEFAULT_KEY_VARIABLE: &str = "IAC_DEID_KEY";

/// Days that dates are moved back by at most, unless the profile says otherwise.
pub(super) const DEFAULT_DAYS: u32 = 3650;

/// An option of PS3.15 annex E.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DeidOption {
    /// Private elements of an allow-list stay.
    RetainSafePrivate,
    /// UIDs stay.
    RetainUids,
    /// Device identity stays.
    RetainDeviceIdentity,
    /// The institution's identity stays.
    RetainInstitutionIdentity,
    /// Sex, age, size, weight and the like stay.
    RetainPatientCharacteristics,
    /// Dates and times stay.
    RetainFullDates,
    /// Dates are moved by a number of days that a patient's objects share.
    RetainModifiedDates,
    /// Descriptions stay where every value is one of a vocabulary.
    CleanDescriptors,
    /// Structured content stays without texts, names and what identifies the subject.
    CleanStructuredContent,
}

impl DeidOption {
    /// All options.
    pub const ALL: [Self; 9] = [
        Self::RetainSafePrivate,
        Self::RetainUids,
        Self::RetainDeviceIdentity,
        Self::RetainInstitutionIdentity,
        Self::RetainPatientCharacteristics,
        Self::RetainFullDates,
        Self::RetainModifiedDates,
        Self::CleanDescriptors,
        Self::CleanStructuredContent,
    ];

    /// What profiles call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetainSafePrivate => "retain-safe-private",
            Self::RetainUids => "retain-uids",
            Self::RetainDeviceIdentity => "retain-device-identity",
            Self::RetainInstitutionIdentity => "retain-institution-identity",
            Self::RetainPatientCharacteristics => "retain-patient-characteristics",
            Self::RetainFullDates => "retain-full-dates",
            Self::RetainModifiedDates => "retain-modified-dates",
            Self::CleanDescriptors => "clean-descriptors",
            Self::CleanStructuredContent => "clean-structured-content",
        }
    }

    /// The code of the option in the context group 7050, and its meaning.
    #[must_use]
    pub const fn code(self) -> (&'static str, &'static str) {
        match self {
            Self::RetainSafePrivate => ("113111", "Retain Safe Private Option"),
            Self::RetainUids => ("113110", "Retain UIDs Option"),
            Self::RetainDeviceIdentity => ("113109", "Retain Device Identity Option"),
            Self::RetainInstitutionIdentity => ("113112", "Retain Institution Identity Option"),
            Self::RetainPatientCharacteristics => {
                ("113108", "Retain Patient Characteristics Option")
            }
            Self::RetainFullDates => {
                ("113106", "Retain Longitudinal Temporal Information Full Dates Option")
            }
            Self::RetainModifiedDates => {
                ("113107", "Retain Longitudinal Temporal Information Modified Dates Option")
            }
            Self::CleanDescriptors => ("113105", "Clean Descriptors Option"),
            Self::CleanStructuredContent => ("113104", "Clean Structured Content Option"),
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|option| option.name() == name)
    }
}

/// What is done with one element, whatever the table says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElementRule {
    /// It stays as it is; the items of a sequence are still looked into.
    Keep,
    /// It goes.
    Remove,
    /// It loses its value.
    Empty,
    /// It gets this value.
    Replace(String),
    /// It gets a keyed hash of its value: the same for the same value.
    Hash,
    /// Its dates are moved by the patient's days.
    Shift,
}

impl ElementRule {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Remove => "remove",
            Self::Empty => "empty",
            Self::Replace(_) => "replace",
            Self::Hash => "hash",
            Self::Shift => "shift",
        }
    }
}

/// A private element that stays: who reserved its block, and its number within the block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PrivateTag {
    pub(crate) creator: String,
    pub(crate) group: u16,
    pub(crate) element: u8,
}

/// Private elements of the standard's list of safe ones that research asks for (PS3.15 table
/// E.3.10-1): diffusion weighting, scaling, and uptake factors.
pub(super) const SAFE_PRIVATE: &[(&str, u16, u8)] = &[
    ("GEMS_PARM_01", 0x0043, 0x39),
    ("Philips Imaging DD 001", 0x2001, 0x03),
    ("Philips MR Imaging DD 001", 0x2005, 0x0D),
    ("Philips MR Imaging DD 001", 0x2005, 0x0E),
    ("Philips PET Private Group", 0x7053, 0x00),
    ("Philips PET Private Group", 0x7053, 0x09),
    ("SIEMENS MR HEADER", 0x0019, 0x0A),
    ("SIEMENS MR HEADER", 0x0019, 0x0C),
    ("SIEMENS MR HEADER", 0x0019, 0x0D),
    ("SIEMENS MR HEADER", 0x0019, 0x0E),
    ("SIEMENS MR HEADER", 0x0019, 0x27),
];

/// What becomes of objects whose attributes say that text may be burned into their pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BurnedInPolicy {
    /// They are packed and listed.
    #[default]
    Warn,
    /// They are inputs that cannot be used.
    Refuse,
}

/// Where the key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// An environment variable.
    Variable(String),
    /// A file.
    File(PathBuf),
}

impl KeySource {
    /// Reads the key.
    ///
    /// # Errors
    ///
    /// As [`DeidKey::from_env`] and [`DeidKey::from_file`].
    pub fn read(&self) -> Result<DeidKey> {
        match self {
            Self::Variable(name) => DeidKey::from_env(name),
            Self::File(path) => DeidKey::from_file(path),
        }
    }
}

/// How objects lose what identifies patients. See `docs/deidentification.md` for the file's form.
///
/// ```
/// use iac_adapters::dicom::{DeidOption, DeidProfile};
///
/// let profile = DeidProfile::parse(
///     "name = \"trial\"\noptions = [\"retain-modified-dates\"]\n[elements]\nAccessionNumber = \"hash\"\n",
///     "profile.toml",
/// )?;
/// assert!(profile.has(DeidOption::RetainModifiedDates));
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeidProfile {
    pub(crate) name: String,
    pub(crate) options: BTreeSet<DeidOption>,
    pub(crate) key: KeySource,
    pub(crate) max_days: u32,
    pub(crate) prefix: String,
    pub(crate) use_issuer: bool,
    pub(crate) age_cap: Option<u16>,
    /// In lower case, without white space at the ends; nothing when everything is taken.
    pub(crate) vocabulary: Option<BTreeSet<String>>,
    pub(crate) private: BTreeSet<PrivateTag>,
    pub(crate) elements: BTreeMap<Tag, ElementRule>,
    pub(crate) burned_in: BurnedInPolicy,
}

impl Default for DeidProfile {
    fn default() -> Self {
        Self {
            name: "basic".to_owned(),
            options: BTreeSet::new(),
            key: KeySource::Variable(DEFAULT_KEY_VARIABLE.to_owned()),
            max_days: DEFAULT_DAYS,
            prefix: "P".to_owned(),
            use_issuer: true,
            age_cap: None,
            vocabulary: Some(BTreeSet::new()),
            private: BTreeSet::new(),
            elements: BTreeMap::new(),
            burned_in: BurnedInPolicy::Warn,
        }
    }
}

impl DeidProfile {
    /// The basic profile without options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether an option holds.
    #[must_use]
    pub fn has(&self, option: DeidOption) -> bool {
        self.options.contains(&option)
    }

    /// The options that hold.
    pub fn options(&self) -> impl Iterator<Item = DeidOption> + '_ {
        self.options.iter().copied()
    }

    /// Where the key comes from.
    #[must_use]
    pub const fn key_source(&self) -> &KeySource {
        &self.key
    }

    /// Whether every part of a value is in the vocabulary.
    pub(crate) fn knows(&self, parts: &[String]) -> bool {
        self.vocabulary.as_ref().is_none_or(|vocabulary| {
            parts
                .iter()
                .map(|part| normalised(part))
                .all(|part| part.is_empty() || vocabulary.contains(&part))
        })
    }

    /// Elements that stay although the standard would have them go.
    pub(crate) fn exceptions(&self) -> impl Iterator<Item = Tag> + '_ {
        let kept = self.elements.iter().filter(|(_, rule)| **rule == ElementRule::Keep);
        kept.map(|(tag, _)| *tag).filter(|tag| super::table::row(*tag).is_some())
    }
}

pub(crate) fn normalised(text: &str) -> String {
    text.trim_matches([' ', '\0']).to_lowercase()
}
