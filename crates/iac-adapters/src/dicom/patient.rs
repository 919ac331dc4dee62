//! Whose objects these are.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use caseless::Caseless;
use dicom_core::{Tag, VR};
use unicode_normalization::UnicodeNormalization;

use iac_ops::Progress;
use sha2::{Digest as _, Sha256};

use super::build::SkippedInput;
use super::charset::Charset;
use super::inputs::{DicomInput, DicomInputs, MEDIA_DIRECTORY};
use super::object::DataSet;
use super::ordered::for_each_ordered;
use super::parse;
use super::text;
use crate::error::{AdapterError, Result};
use crate::task::{Task, check_cancelled};

const PATIENT_ID: Tag = Tag(0x0010, 0x0020);
const ISSUER: Tag = Tag(0x0010, 0x0021);

fn value(data: &DataSet, tag: Tag) -> Option<String> {
    let charset = Charset::of(data).unwrap_or_default();
    let parts = text::parts(VR::LO, data.bytes(tag)?, &charset);
    Some(parts.join("\\")).filter(|text| !text.is_empty())
}

/// The identifier as it is written; nothing where it is missing or empty.
pub(crate) fn patient_id(data: &DataSet) -> Option<String> {
    value(data, PATIENT_ID)
}

/// Who gave the identifier.
pub(crate) fn issuer(data: &DataSet) -> String {
    value(data, ISSUER).unwrap_or_default()
}

/// What identifiers are compared by: NFKC, without white space at the ends, case folded.
pub(crate) fn normalised(id: &str) -> String {
    let composed: String = id.nfkc().collect();
    composed.trim().chars().default_case_fold().collect()
}

/// Counts the spellings of each identifier.
#[derive(Debug, Default)]
pub(crate) struct Patients {
    spellings: BTreeMap<String, Vec<String>>,
}

impl Patients {
    /// Whether an object's identifier would make it another patient's.
    pub(crate) fn is_other(&self, id: Option<&str>) -> bool {
        id.map(normalised).is_some_and(|id| {
            !id.is_empty() && !self.spellings.is_empty() && !self.spellings.contains_key(&id)
        })
    }

    pub(crate) fn add(&mut self, id: Option<&str>) {
        let Some(id) = id else {
            return;
        };
        let key = normalised(id);
        if key.is_empty() {
            return;
        }
        let spellings = self.spellings.entry(key).or_default();
        if !spellings.iter().any(|known| known == id) {
            spellings.push(id.to_owned());
        }
    }

    /// Whether one identifier was written in several ways.
    pub(crate) fn are_spelled_differently(&self) -> bool {
        self.spellings.values().any(|spellings| spellings.len() > 1)
    }
}

/// The objects of one patient.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PatientInputs {
    /// A name for the patient's pack: the same for the same issuer and identifier, and telling
    /// neither.
    pub name: String,
    /// The objects, in the order in which they were found.
    pub inputs: Vec<DicomInput>,
}

/// Objects, patient by patient.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Grouped {
    /// The patients, in the order in which they were found.
    pub patients: Vec<PatientInputs>,
    /// Objects without an identifier of a patient.
    pub without_id: Vec<String>,
    /// Inputs that could not be read.
    pub unreadable: Vec<SkippedInput>,
}

impl DicomInputs {
    /// Reads the metadata of every object, and groups them by the issuer of the patient's identifier
    /// and the normalised identifier itself.
    ///
    /// # Errors
    ///
    /// When `progress` asks to stop. What cannot be read is listed.
    pub fn by_patient(
        self,
        workers: Option<NonZeroUsize>,
        progress: &dyn Progress,
    ) -> Result<Grouped> {
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let task = Task::begin(progress, "reading patients", u64::try_from(self.len()).ok());
        let most = 4 << 30;
        let look = |input: DicomInput| {
            let found = input.clone().load(most).and_then(|bytes| parse::parse(&bytes, most));
            let found = found.map(|file| {
                let class = file.data.ascii(Tag(0x0008, 0x0016));
                let directory = class.as_deref() == Some(MEDIA_DIRECTORY);
                (directory, issuer(&file.data), patient_id(&file.data))
            });
            (input, found)
        };
        let mut grouped = Grouped::default();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let workers = workers.unwrap_or_else(all).get();
        for_each_ordered(self.into_places(), workers, look, |(input, found)| {
            check_cancelled(progress)?;
            task.advance(1);
            match found {
                Err(fault) => grouped.unreadable.push(SkippedInput {
                    input: input.name(),
                    kind: fault.kind,
                    reason: fault.to_string(),
                }),
                Ok((true, ..)) => {}
                Ok((false, issuer, id)) => match id.map(|id| normalised(&id)) {
                    Some(id) if !id.is_empty() => {
                        let name = group_name(&issuer, &id);
                        let next = grouped.patients.len();
                        let place = *places.entry(name.clone()).or_insert(next);
                        if place == next {
                            grouped.patients.push(PatientInputs { name, inputs: Vec::new() });
                        }
                        if let Some(patient) = grouped.patients.get_mut(place) {
                            patient.inputs.push(input);
                        }
                    }
                    _ => grouped.without_id.push(input.name()),
                },
            }
            Ok::<(), AdapterError>(())
        })?;
        Ok(grouped)
    }
}

/// Names that tell nothing about whom they stand for, as long as identifiers are not guessed.
pub(crate) fn group_name(issuer: &str, id: &str) -> String {
    let digest = Sha256::new().chain_update(issuer).chain_update([0]).chain_update(id).finalize();
    digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_compared_folded_and_composed() {
        assert_eq!(normalised(" straße "), normalised("STRASSE"));
        assert_eq!(normalised("Ｃａｓｅ－ID"), normalised("case-id"));
        assert_ne!(normalised("001"), normalised("1"));
        assert_ne!(normalised("a\u{AD}b"), normalised("ab"));
    }
}
