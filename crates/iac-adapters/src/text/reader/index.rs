//! What the index says, without a record being read.

use std::collections::BTreeMap;

use iac_format::TableKind;

use super::{INSTITUTION, NUM_DOCS, TextReader, loaded};
use crate::columns::{IntColumn, TextColumn, int_column, text_column};
use crate::error::Result;
use crate::text::model::TextDocument;

/// Which patients are wanted, by what the index says: nothing is decompressed for it.
///
/// ```
/// use iac_adapters::text::TextFilter;
///
/// let some = TextFilter::default().institution("site_b").min_docs(2);
/// # let _ = some;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextFilter {
    institutions: Vec<String>,
    min_docs: Option<u64>,
    max_docs: Option<u64>,
}

impl TextFilter {
    /// Adds an institution whose patients are wanted. Default: all.
    #[must_use]
    pub fn institution(mut self, institution: impl Into<String>) -> Self {
        self.institutions.push(institution.into());
        self
    }

    /// Sets the fewest documents that a patient has. Default: none.
    #[must_use]
    pub const fn min_docs(mut self, documents: u64) -> Self {
        self.min_docs = Some(documents);
        self
    }

    /// Sets the most documents that a patient has. Default: any number.
    #[must_use]
    pub const fn max_docs(mut self, documents: u64) -> Self {
        self.max_docs = Some(documents);
        self
    }
}

/// What the index says about an institution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstitutionCounts {
    /// Rows of the index.
    pub rows: u64,
    /// Documents of these rows.
    pub documents: u64,
}

impl<D: TextDocument> TextReader<D> {
    /// The institution of a row, as the index has it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`](crate::AdapterError::RowOutOfRange); [`AdapterError::Schema`](crate::AdapterError::Schema) when the index has no such column.
    pub fn institution(&self, row: u64) -> Result<Option<&str>> {
        self.check_row(row)?;
        Ok(self.institutions()?.get(row))
    }

    /// The number of documents of a row, as the index has it.
    ///
    /// # Errors
    ///
    /// As [`institution`](Self::institution).
    pub fn num_docs_at(&self, row: u64) -> Result<Option<u64>> {
        self.check_row(row)?;
        Ok(self.num_docs()?.get(row).and_then(|number| u64::try_from(number).ok()))
    }

    pub(super) fn institutions(&self) -> Result<&TextColumn> {
        let load = || text_column(self.pack(), TableKind::Index, INSTITUTION);
        loaded(&self.shared.institutions, load)
    }

    pub(super) fn num_docs(&self) -> Result<&IntColumn> {
        let load = || int_column(self.pack(), TableKind::Index, NUM_DOCS);
        loaded(&self.shared.num_docs, load)
    }

    /// Rows that a filter lets through, in order; by the index alone.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`](crate::AdapterError::Schema) when the index lacks a column that the filter needs.
    pub fn select(&self, filter: &TextFilter) -> Result<Vec<u64>> {
        let institutions =
            if filter.institutions.is_empty() { None } else { Some(self.institutions()?) };
        let counts = match (filter.min_docs, filter.max_docs) {
            (None, None) => None,
            _ => Some(self.num_docs()?),
        };
        let wanted = |row: &u64| {
            let institution = institutions.is_none_or(|column| {
                column.get(*row).is_some_and(|found| filter.institutions.iter().any(|n| n == found))
            });
            let count = counts.is_none_or(|column| {
                column.get(*row).is_some_and(|found| {
                    filter.min_docs.is_none_or(|least| found >= i128::from(least))
                        && filter.max_docs.is_none_or(|most| found <= i128::from(most))
                })
            });
            institution && count
        };
        let rows = (0..self.len()).filter(wanted).collect();
        self.pack().check_intact()?;
        Ok(rows)
    }

    /// Rows and documents of each institution, by the index alone. Rows without an institution
    /// count under the empty name.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`](crate::AdapterError::Schema) when the index lacks the columns `institution` or `num_docs`.
    pub fn counts(&self) -> Result<BTreeMap<String, InstitutionCounts>> {
        let mut counts: BTreeMap<String, InstitutionCounts> = BTreeMap::new();
        let rows = self.institutions()?.iter().zip(self.num_docs()?.iter());
        for (institution, documents) in rows {
            let name = institution.unwrap_or_default();
            if !counts.contains_key(name) {
                counts.insert(name.to_owned(), InstitutionCounts::default());
            }
            if let Some(found) = counts.get_mut(name) {
                let documents = documents.and_then(|number| u64::try_from(number).ok());
                found.rows = found.rows.saturating_add(1);
                found.documents = found.documents.saturating_add(documents.unwrap_or(0));
            }
        }
        self.pack().check_intact()?;
        Ok(counts)
    }
}
