//! Rows of documents, brought together to patients.

use std::collections::HashMap;
use std::path::Path;

use super::fault;
use super::mapping::{ColumnMapping, Grouping, Places};
use crate::error::{AdapterError, Result, short};
use crate::text::model::{DocLabels, NO_EPISODE, Patient, TextDocument};

/// Where a value stands in its file, for messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct At {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// One row: a document and whose it is.
#[derive(Debug)]
pub(super) struct DocRow<D> {
    pub(super) at: At,
    pub(super) patient_id: String,
    pub(super) institution: String,
    pub(super) doc: D,
}

/// Makes a row out of its cells; an absent cell is an empty one.
pub(super) fn row_of<D: TextDocument>(
    path: &Path,
    mapping: &ColumnMapping,
    places: &Places,
    at: At,
    mut cell: impl FnMut(usize) -> (String, At),
) -> Result<DocRow<D>> {
    let mut take = |place: Option<usize>| place.map(&mut cell).unwrap_or_default();
    let [patient_id, institution, doc_id, doc_type, encounter, doc_category, source, time, episode] =
        places.labels.map(&mut take);
    let texts = places.texts.map(&mut take);
    let text = episode.0.trim();
    let episode_index = if text.is_empty() {
        NO_EPISODE
    } else {
        text.parse().map_err(|_| {
            let reason = format!("\"{}\" is no integer", short(text));
            fault(path, episode.1.line, episode.1.column, Some("episode_index"), reason)
        })?
    };
    let mut labels = DocLabels::new(doc_id.0);
    labels.doc_type = doc_type.0;
    labels.encounter = encounter.0;
    labels.doc_category = doc_category.0;
    labels.source = source.0;
    labels.doc_timestamp = time.0;
    labels.episode_index = episode_index;
    Ok(DocRow {
        at,
        patient_id: patient_id.0,
        institution: mapping.fixed_institution().map_or(institution.0, str::to_owned),
        doc: D::from_parts(labels, texts.map(|(text, _)| text)),
    })
}

/// Brings rows together.
#[derive(Debug)]
pub(super) struct Grouped<D> {
    grouping: Grouping,
    current: Option<Patient<D>>,
    ready: std::vec::IntoIter<Patient<D>>,
    ended: bool,
}

impl<D: TextDocument> Grouped<D> {
    pub(super) fn new(mapping: &ColumnMapping) -> Self {
        let ready = Vec::new().into_iter();
        Self { grouping: mapping.grouped(), current: None, ready, ended: false }
    }

    /// The next patient, whose rows `next` gives.
    pub(super) fn next(
        &mut self,
        path: &Path,
        mut next: impl FnMut() -> Result<Option<DocRow<D>>>,
    ) -> Option<Result<Patient<D>>> {
        if let Some(patient) = self.ready.next() {
            return Some(Ok(patient));
        }
        if self.ended {
            return None;
        }
        let result = match self.grouping {
            Grouping::Consecutive => self.consecutive(path, &mut next),
            Grouping::Anywhere => self.anywhere(path, &mut next),
        };
        match result {
            Ok(Some(patient)) => Some(Ok(patient)),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }

    fn consecutive(
        &mut self,
        path: &Path,
        next: &mut impl FnMut() -> Result<Option<DocRow<D>>>,
    ) -> Result<Option<Patient<D>>> {
        loop {
            let Some(row) = next()? else {
                self.ended = true;
                return Ok(self.current.take());
            };
            match &mut self.current {
                Some(patient) if patient.patient_id == row.patient_id => add(path, patient, row)?,
                current => {
                    let done = current.replace(begin(row));
                    if done.is_some() {
                        return Ok(done);
                    }
                }
            }
        }
    }

    fn anywhere(
        &mut self,
        path: &Path,
        next: &mut impl FnMut() -> Result<Option<DocRow<D>>>,
    ) -> Result<Option<Patient<D>>> {
        let mut patients: Vec<Patient<D>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some(row) = next()? {
            let place = places.get(&row.patient_id).and_then(|at| patients.get_mut(*at));
            match place {
                Some(patient) => add(path, patient, row)?,
                None => {
                    places.insert(row.patient_id.clone(), patients.len());
                    patients.push(begin(row));
                }
            }
        }
        self.ended = true;
        self.ready = patients.into_iter();
        Ok(self.ready.next())
    }
}

fn begin<D>(row: DocRow<D>) -> Patient<D> {
    Patient { patient_id: row.patient_id, institution: row.institution, docs: vec![row.doc] }
}

fn add<D>(path: &Path, patient: &mut Patient<D>, row: DocRow<D>) -> Result<()> {
    if patient.institution != row.institution {
        let reason = format!(
            "patient \"{}\" belongs to \"{}\" here, but to \"{}\" before",
            short(&patient.patient_id),
            short(&row.institution),
            short(&patient.institution)
        );
        return Err(fault(path, row.at.line, row.at.column, Some("institution"), reason));
    }
    patient.docs.push(row.doc);
    Ok(())
}

/// A row that has another number of cells than the table has columns.
pub(super) fn wrong_width(path: &Path, at: At, found: u64, expected: usize) -> AdapterError {
    let reason = format!("{found} fields instead of {expected}");
    fault(path, at.line, at.column, None, reason)
}
