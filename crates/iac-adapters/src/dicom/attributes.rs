//! The metadata of one instance, as its documents hold it.

use std::fmt;
use std::sync::Arc;

use dicom_core::Tag;
use serde_json::{Map, Value};

use super::document::Document;
use super::object::{DataSet, tag_text};
use super::restore;
use super::schema2::{Budget, Rest};
use crate::error::Result;

/// The metadata of one instance: what its series shares, and what is its own.
#[derive(Clone)]
pub struct Attributes {
    pub(crate) template: Arc<Document>,
    pub(crate) delta: Arc<Document>,
    /// Where large values and functional groups of frames are, in packs that keep them apart.
    pub(crate) rest: Option<Rest>,
}

impl Attributes {
    /// Understands a template and a delta, given as JSON; both may come from anywhere. The messages
    /// of errors hold no values.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`](crate::AdapterError::Source) when one of them is no document of a pack.
    pub fn parse(template: &[u8], delta: &[u8]) -> Result<Self> {
        let parse = |name: &str, text: &[u8]| {
            Document::parse(text).map_err(|fault| super::build::source_error(name, &fault))
        };
        let template = Arc::new(parse("template", template)?);
        Ok(Self { template, delta: Arc::new(parse("delta", delta)?), rest: None })
    }

    /// The data set that they describe, without pixel data.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`](crate::AdapterError::Source) when they describe none.
    pub fn to_data_set(&self) -> Result<DataSet> {
        let restored = self.restore();
        restored.map(|(data, _)| data).map_err(|fault| super::build::source_error("delta", &fault))
    }

    /// The JSON of an element: `{"vr": ..., "Value": [...]}`. Elements that JSON could not hold
    /// are among the [`records`](Self::records). In packs of schema 2 a large value has only its
    /// name here (`BulkDataURI`), and functional groups of frames are left out;
    /// [`to_data_set`](Self::to_data_set) has both.
    #[must_use]
    pub fn get(&self, tag: Tag) -> Option<&Value> {
        let key = tag_text(tag);
        self.delta.dataset.get(&key).or_else(|| self.template.dataset.get(&key))
    }

    /// The values of an element.
    #[must_use]
    pub fn values(&self, tag: Tag) -> &[Value] {
        self.get(tag)
            .and_then(|element| element.get("Value"))
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The first value of an element as text; a name as its alphabetic part.
    #[must_use]
    pub fn text(&self, tag: Tag) -> Option<&str> {
        let first = self.values(tag).first()?;
        first.as_str().or_else(|| first.get("Alphabetic")?.as_str())
    }

    /// The first value of an element as a number.
    #[must_use]
    pub fn number(&self, tag: Tag) -> Option<f64> {
        restore::real(self.values(tag).first()?)
    }

    /// All values of an element as numbers; nothing when one is none.
    #[must_use]
    pub fn numbers(&self, tag: Tag) -> Option<Vec<f64>> {
        let numbers: Option<Vec<f64>> = self.values(tag).iter().map(restore::real).collect();
        numbers.filter(|numbers| !numbers.is_empty())
    }

    /// Records of elements that JSON could not hold as they were.
    #[must_use]
    pub fn records(&self) -> &[Value] {
        &self.delta.errors
    }

    /// Every element in one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut members = self.template.dataset.clone();
        members.extend(self.delta.dataset.clone());
        members
    }

    pub(crate) fn preamble(&self) -> Option<Vec<u8>> {
        let text = self.delta.preamble.as_deref().or(self.template.preamble.as_deref())?;
        restore::base64(text)
    }

    /// Data set and file meta.
    pub(crate) fn restore(&self) -> super::fault::Result<(DataSet, DataSet)> {
        let budget = self.rest.as_ref().map(Rest::budget);
        let (mut data, meta) = self.restore_within(budget.as_ref())?;
        if let (Some(rest), Some(budget)) = (&self.rest, &budget) {
            rest.add_groups(self, &mut data, budget)?;
        }
        Ok((data, meta))
    }

    /// The same without the functional groups of frames, where those are kept apart.
    pub(crate) fn restore_shared(&self) -> super::fault::Result<(DataSet, DataSet)> {
        self.restore_within(self.rest.as_ref().map(Rest::budget).as_ref())
    }

    fn restore_within(&self, budget: Option<&Budget>) -> super::fault::Result<(DataSet, DataSet)> {
        let bulk = |name: &str| match (&self.rest, budget) {
            (Some(rest), Some(budget)) => rest.bulk(name, budget),
            _ => restore::no_bulk(name),
        };
        let mut data = restore::data_set(&self.template.dataset, &self.delta.dataset, &bulk)?;
        let mut meta = restore::data_set(&self.template.file_meta, &self.delta.file_meta, &bulk)?;
        restore::apply_records(&self.delta.errors, &mut data, &mut meta)?;
        if let Some(kept) = self.delta.iac.get("text").and_then(Value::as_array) {
            restore::apply_kept(kept, &mut data, &mut meta)?;
        }
        Ok((data, meta))
    }
}

/// Shows tags only: values belong to patients.
impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributes")
            .field("shared", &self.template.dataset.len())
            .field("own", &self.delta.dataset.len())
            .field("records", &self.delta.errors.len())
            .finish()
    }
}
