//! De-identification of objects on their way into a pack: the basic application level
//! confidentiality profile of PS3.15 annex E with options.
//!
//! Elements are dealt with as wholes, at every depth. Pixels and free texts are not cleaned: what
//! the attributes say of burned-in text is reported. `docs/deidentification.md` says what is
//! claimed, what is not, and how profile files look.

mod apply;
mod burned;
mod check;
mod dates;
mod family;
mod key;
mod map;
mod pixels;
mod profile;
mod profile_file;
mod provenance;
mod report;
mod rules;
mod structured;
mod table;
mod values;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use dicom_core::{Tag, VR};
use serde_json::Value;

pub use self::burned::BurnedIn;
pub use self::check::{DeidCheck, DeidFinding};
pub use self::key::DeidKey;
pub use self::profile::{
    BurnedInPolicy, DEFAULT_KEY_VARIABLE, DeidOption, DeidProfile, ElementRule, KeySource,
};
pub(crate) use self::provenance::HEADER_MEMBER;
pub use self::report::{DeidAction, DeidReport};

use self::apply::{Patient, Walk};
use self::family::Family;
use self::map::PseudonymMap;
use self::rules::Rules;
use super::charset::Charset;
use super::fault::{Fault, Result};
use super::object::{DataSet, Element};
use super::parse::DicomFile;
use super::patient;

/// What the header lists under `extensions` when a pack was de-identified on its way in.
pub const DEID_EXTENSION: &str = "iac.dicom_deid";

/// Digits of pseudonyms behind their prefix: 80 bits.
const PSEUDONYM_DIGITS: usize = 20;

/// Takes from objects what identifies patients. Shared by all threads of a build, and by the builds
/// whose packs are to agree.
///
/// ```
/// use iac_adapters::dicom::{DataSet, DeidKey, DeidProfile, Deidentifier, DicomFile, Element, Tag, VR};
///
/// let key = DeidKey::new(b"32 bytes of a secret that is kept".to_vec())?;
/// let deidentifier = Deidentifier::new(DeidProfile::new(), key);
/// let name = Element::new(Tag(0x0010, 0x0010), VR::PN, b"Smith^John".to_vec());
/// let mut file = DicomFile::new(DataSet::from_elements(vec![name]));
/// deidentifier.deidentify(&mut file);
/// assert!(!file.data.bytes(Tag(0x0010, 0x0010)).is_some_and(|name| name.starts_with(b"Smith")));
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Debug)]
pub struct Deidentifier {
    profile: DeidProfile,
    key: DeidKey,
    map: Option<Mutex<PseudonymMap>>,
}

impl Deidentifier {
    /// Does what a profile says, with pseudonyms that depend on a key.
    #[must_use]
    pub const fn new(profile: DeidProfile, key: DeidKey) -> Self {
        Self { profile, key, map: None }
    }

    /// Remembers which pseudonym and which UID stands for which, so that
    /// [`write_map`](Self::write_map) can tell. Off by default.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.map = Some(Mutex::default());
        self
    }

    /// The profile.
    #[must_use]
    pub const fn profile(&self) -> &DeidProfile {
        &self.profile
    }

    /// The name of a patient's pack: the pseudonym of the patient, of whom
    /// [`by_patient`](super::DicomInputs::by_patient) gave the name of the group.
    #[must_use]
    pub fn pack_name(&self, group: &str) -> String {
        self.pseudonym_of_group(group)
    }

    fn pseudonym_of_group(&self, group: &str) -> String {
        let digits = self.key.hex("patient", &[group.as_bytes()], PSEUDONYM_DIGITS);
        format!("{}{digits}", self.profile.prefix)
    }

    /// Writes what was [recorded](Self::recording): a JSON document with the original and the new
    /// patient ids, days and UIDs. It tells whom the packs show, so it belongs to where the sources
    /// are. Only the user may read the file, which appears whole or not at all.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`](crate::AdapterError::Usage) when nothing was recorded, and
    /// [`AdapterError::Io`](crate::AdapterError::Io) when it cannot be written or exists already.
    pub fn write_map(&self, path: impl AsRef<Path>) -> crate::Result<()> {
        let Some(map) = &self.map else {
            return Err(crate::AdapterError::usage("pseudonyms were not recorded"));
        };
        map.lock().unwrap_or_else(PoisonError::into_inner).write(path.as_ref())
    }

    /// De-identifies one file: data set, file meta and preamble. Pixel data stays as it is; packs that
    /// are built lose the bits that are no samples as well.
    pub fn deidentify(&self, file: &mut DicomFile) -> DeidReport {
        let patient = self.patient(&file.data);
        let class = file.data.ascii(Tag(0x0008, 0x0016)).or_else(|| file.meta.ascii(Tag(2, 2)));
        let family = Family::of(&class.unwrap_or_default());
        let mut walk = Walk {
            rules: Rules { profile: &self.profile, family },
            deidentifier: self,
            patient,
            report: DeidReport { objects: 1, ..DeidReport::default() },
        };
        if walk.patient.pseudonym.is_none() {
            walk.report.without_patient_id = 1;
        }
        walk.file(file);
        self.mark(&mut file.data);
        walk.report
    }

    /// The same on the way into a pack, where the profile may refuse objects.
    pub(crate) fn apply(&self, file: &mut DicomFile, input: &str) -> Result<DeidReport> {
        let signs = burned::signs(&file.data);
        if !signs.is_empty() && self.profile.burned_in == BurnedInPolicy::Refuse {
            let names: Vec<&str> = signs.iter().map(|sign| sign.name()).collect();
            return Err(Fault::unsupported(format!(
                "text may be burned into its pixels ({}), which the profile refuses",
                names.join(", ")
            )));
        }
        let mut report = self.deidentify(file);
        if !signs.is_empty() {
            report.burned_in.push((input.to_owned(), signs));
        }
        Ok(report)
    }

    /// Leaves nothing in samples but samples.
    pub(crate) fn clear_pixels(imported: &mut super::pixels::Imported) -> Result<()> {
        pixels::clear(imported)
    }

    /// The same for a frame of schema 2.
    pub(crate) fn clear_frame(
        form: &super::schema2::form::FrameForm,
        imported: &mut super::schema2::form::ImportedFrame,
    ) -> Result<()> {
        pixels::clear_frame(form, imported)
    }

    /// The UID of an object that has none, of which a hash of its file was made up: who has the
    /// file could make that up as well.
    pub(crate) fn uid_of_nameless(&self, made_up: &str) -> String {
        self.key.uid(made_up)
    }

    fn new_uid(&self, uid: &str) -> String {
        let new = self.key.uid(uid);
        if let Some(map) = &self.map {
            map.lock().unwrap_or_else(PoisonError::into_inner).add_uid(uid, &new);
        }
        new
    }

    fn pseudonym(&self, issuer: &str, id: &str) -> String {
        let issuer = if self.profile.use_issuer { issuer } else { "" };
        self.pseudonym_of_group(&patient::group_name(issuer, &patient::normalised(id)))
    }

    /// Who the object is of, and by how many days its dates move.
    fn patient(&self, data: &DataSet) -> Patient {
        let id = patient::patient_id(data).filter(|id| !patient::normalised(id).is_empty());
        let issuer = patient::issuer(data);
        let pseudonym = id.as_ref().map(|id| self.pseudonym(&issuer, id));
        let study = || data.ascii(Tag(0x0020, 0x000D)).unwrap_or_default();
        let subject = pseudonym.clone().unwrap_or_else(study);
        let days = self.key.number("days", &[subject.as_bytes()], self.profile.max_days);
        let days = i64::from(days).saturating_neg();
        if let (Some(map), Some(id), Some(pseudonym)) = (&self.map, &id, &pseudonym) {
            let shifted = self.profile.has(DeidOption::RetainModifiedDates).then_some(days);
            map.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add_patient(&issuer, id, pseudonym, shifted);
        }
        Patient { pseudonym, days }
    }

    /// Says in the object what was done.
    fn mark(&self, data: &mut DataSet) {
        let text = |group, element, vr, text: &str| {
            Element::new(Tag(group, element), vr, values::padded(vr, text))
        };
        let identity = if self.keeps_identity() { "NO" } else { "YES" };
        data.put(text(0x0012, 0x0062, VR::CS, identity));
        data.put(text(0x0012, 0x0063, VR::LO, &provenance::method(&self.profile)));
        data.put(provenance::method_codes(&self.profile));
        let profile = &self.profile;
        let ruled = |wanted: &ElementRule| {
            profile.elements.iter().any(|(tag, rule)| {
                let vr = rules::known_vr(*tag);
                rule == wanted && matches!(vr, Some(VR::DA | VR::DT | VR::TM))
            })
        };
        let dates = if profile.has(DeidOption::RetainModifiedDates) || ruled(&ElementRule::Shift) {
            "MODIFIED"
        } else if profile.has(DeidOption::RetainFullDates) || ruled(&ElementRule::Keep) {
            "UNMODIFIED"
        } else {
            "REMOVED"
        };
        data.put(text(0x0028, 0x0303, VR::CS, dates));
    }

    /// Whether a rule of the profile keeps a name or what else tells directly who somebody is.
    fn keeps_identity(&self) -> bool {
        self.profile.exceptions().any(|tag| {
            tag.0 == 0x0010 || rules::known_vr(tag) == Some(VR::PN) || tag == Tag(0x0008, 0x0050)
        })
    }

    /// What the header of a pack says of it.
    pub(crate) fn provenance(&self, report: &DeidReport) -> Value {
        provenance::header(&self.profile, report)
    }

    fn charset_of(data: &DataSet, outer: &Charset) -> Charset {
        Charset::of(data).unwrap_or_else(|| outer.clone())
    }
}
