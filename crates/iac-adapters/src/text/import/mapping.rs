//! Which column is which member of a document.

use std::collections::BTreeMap;

use crate::error::{AdapterError, Result};
use crate::text::model::TextDocument;

/// Members of a patient and its documents, apart from the texts.
pub(super) const LABELS: [&str; 9] = [
    "patient_id",
    "institution",
    "doc_id",
    "doc_type",
    "encounter",
    "doc_category",
    "source",
    "doc_timestamp",
    "episode_index",
];

/// Which column of a table holds which member; a member that is not mapped is looked for under its
/// own name, and may be absent unless it is `patient_id`, `doc_id` or a text.
///
/// ```
/// use iac_adapters::text::import::ColumnMapping;
///
/// let mapping = ColumnMapping::default().column("patient_id", "MRN").column("text", "Note");
/// # let _ = mapping;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnMapping {
    columns: BTreeMap<String, String>,
    institution: Option<String>,
    grouping: Grouping,
}

/// How rows of one patient are brought together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grouping {
    /// They stand together in the table: nothing but one patient is in memory.
    #[default]
    Consecutive,
    /// They may stand anywhere: all patients are in memory, in the order of their first rows.
    Anywhere,
}

impl ColumnMapping {
    /// Says which column holds a member.
    #[must_use]
    pub fn column(mut self, member: impl Into<String>, column: impl Into<String>) -> Self {
        self.columns.insert(member.into(), column.into());
        self
    }

    /// Sets the institution of every patient, for tables without such a column.
    #[must_use]
    pub fn institution(mut self, institution: impl Into<String>) -> Self {
        self.institution = Some(institution.into());
        self
    }

    /// Sets how rows of one patient are brought together. Default: [`Grouping::Consecutive`].
    #[must_use]
    pub const fn grouping(mut self, grouping: Grouping) -> Self {
        self.grouping = grouping;
        self
    }

    pub(super) const fn grouped(&self) -> Grouping {
        self.grouping
    }

    pub(super) fn fixed_institution(&self) -> Option<&str> {
        self.institution.as_deref()
    }

    /// Where the members stand among columns of these names.
    pub(super) fn places<D: TextDocument>(
        &self,
        path: &std::path::Path,
        names: &[String],
    ) -> Result<Places> {
        let texts = D::TEXTS.iter().map(|text| text.name);
        for member in self.columns.keys() {
            if !LABELS.contains(&member.as_str()) && !texts.clone().any(|text| text == member) {
                let known: Vec<&str> = LABELS.into_iter().chain(texts.clone()).collect();
                return Err(AdapterError::usage(format!(
                    "`{member}` is no member of a document (there are: {})",
                    known.join(", ")
                )));
            }
        }
        if self.institution.is_some() && self.columns.contains_key("institution") {
            return Err(AdapterError::usage("the institution is given twice"));
        }
        let mut missing = Vec::new();
        let mut find = |member: &str, required: bool| -> Result<Option<usize>> {
            let column = self.columns.get(member);
            let name = column.map_or(member, String::as_str);
            let mut found = names.iter().enumerate().filter(|(_, found)| *found == name);
            let place = found.next().map(|(place, _)| place);
            if place.is_none() && (required || column.is_some()) {
                missing.push(name.to_owned());
            }
            if found.next().is_some() {
                return Err(AdapterError::usage(format!(
                    "{}: there are several columns `{name}`",
                    path.display()
                )));
            }
            Ok(place)
        };
        let mut labels = [None; LABELS.len()];
        for (place, member) in labels.iter_mut().zip(LABELS) {
            *place = find(member, matches!(member, "patient_id" | "doc_id"))?;
        }
        let mut texts = [None; 2];
        for (place, text) in texts.iter_mut().zip(D::TEXTS) {
            *place = find(text.name, true)?;
        }
        if !missing.is_empty() {
            missing.sort();
            return Err(AdapterError::MissingColumns { path: path.to_owned(), columns: missing });
        }
        if self.institution.is_some() {
            // Another column of that name is not what is wanted.
            if let Some(place) = labels.get_mut(1) {
                *place = None;
            }
        }
        Ok(Places { labels, texts })
    }
}

/// Columns of the members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) labels: [Option<usize>; LABELS.len()],
    pub(super) texts: [Option<usize>; 2],
}
