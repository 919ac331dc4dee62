//! Patients and their documents.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The episode of a document that belongs to none.
pub const NO_EPISODE: i64 = -1;

/// One patient: an id, an institution, and documents in the caller's order.
///
/// As JSON, an object with these members, of which `institution` and `docs` may be absent. Members
/// that are not known are refused, so that a misspelt name does not lose anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "D: serde::de::DeserializeOwned"))]
pub struct Patient<D> {
    /// The id, by which patients are looked up.
    pub patient_id: String,
    /// Where the documents come from.
    #[serde(default)]
    pub institution: String,
    /// The documents.
    #[serde(default = "Vec::new")]
    pub docs: Vec<D>,
}

impl<D> Patient<D> {
    /// A patient without an institution and documents.
    pub fn new(patient_id: impl Into<String>) -> Self {
        Self { patient_id: patient_id.into(), institution: String::new(), docs: Vec::new() }
    }
}

/// A patient of a pack of clinical text.
pub type PatientText = Patient<ClinicalDoc>;

/// One document: a text and labels, all free text apart from the episode's number.
///
/// ```
/// use iac_adapters::text::ClinicalDoc;
///
/// let mut note = ClinicalDoc::new("P1/note-1", "No residual tumour.");
/// note.doc_type = "pathology_report".to_owned();
/// assert_eq!(note.episode_index, -1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClinicalDoc {
    /// The document's id.
    pub doc_id: String,
    /// The text, kept to the byte: nothing is normalised.
    pub text: String,
    /// Kind of document.
    #[serde(default)]
    pub doc_type: String,
    /// The encounter that it belongs to.
    #[serde(default)]
    pub encounter: String,
    /// A coarser kind.
    #[serde(default)]
    pub doc_category: String,
    /// Where the text comes from.
    #[serde(default)]
    pub source: String,
    /// When it was written, in whatever form the caller has.
    #[serde(default)]
    pub doc_timestamp: String,
    /// Number of the episode; [`NO_EPISODE`] when there is none.
    #[serde(default = "no_episode")]
    pub episode_index: i64,
}

pub(crate) const fn no_episode() -> i64 {
    NO_EPISODE
}

impl ClinicalDoc {
    /// A document without labels.
    pub fn new(doc_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::from_parts(DocLabels::new(doc_id), [text.into(), String::new()])
    }
}

/// What a document has beside its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DocLabels {
    /// The document's id.
    pub doc_id: String,
    /// Kind of document.
    pub doc_type: String,
    /// The encounter that it belongs to.
    pub encounter: String,
    /// A coarser kind.
    pub doc_category: String,
    /// Where the text comes from.
    pub source: String,
    /// When it was written.
    pub doc_timestamp: String,
    /// Number of the episode; [`NO_EPISODE`] when there is none.
    pub episode_index: i64,
}

impl DocLabels {
    /// Labels that are empty apart from the id.
    pub fn new(doc_id: impl Into<String>) -> Self {
        Self {
            doc_id: doc_id.into(),
            doc_type: String::new(),
            encounter: String::new(),
            doc_category: String::new(),
            source: String::new(),
            doc_timestamp: String::new(),
            episode_index: NO_EPISODE,
        }
    }

    /// The same, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> DocLabelsRef<'_> {
        DocLabelsRef {
            doc_id: &self.doc_id,
            doc_type: &self.doc_type,
            encounter: &self.encounter,
            doc_category: &self.doc_category,
            source: &self.source,
            doc_timestamp: &self.doc_timestamp,
            episode_index: self.episode_index,
        }
    }
}

/// The labels of a document, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The same names as in `DocLabels`.
#[non_exhaustive]
pub struct DocLabelsRef<'a> {
    pub doc_id: &'a str,
    pub doc_type: &'a str,
    pub encounter: &'a str,
    pub doc_category: &'a str,
    pub source: &'a str,
    pub doc_timestamp: &'a str,
    pub episode_index: i64,
}

impl DocLabelsRef<'_> {
    /// The same, owned.
    #[must_use]
    pub fn owned(self) -> DocLabels {
        DocLabels {
            doc_id: self.doc_id.to_owned(),
            doc_type: self.doc_type.to_owned(),
            encounter: self.encounter.to_owned(),
            doc_category: self.doc_category.to_owned(),
            source: self.source.to_owned(),
            doc_timestamp: self.doc_timestamp.to_owned(),
            episode_index: self.episode_index,
        }
    }
}

/// A text of a document: what it is called in a document, in a manifest and in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextField {
    /// Member of a document.
    pub name: &'static str,
    /// Member of a manifest's document that holds the offset.
    pub offset: &'static str,
    /// Member of a manifest's document that holds the length.
    pub length: &'static str,
    /// Column of the index that holds the sum of the lengths.
    pub sum_column: Option<&'static str>,
}

mod sealed {
    pub trait Sealed {}
}

pub(crate) use sealed::Sealed;

/// A kind of document, and with it a kind of pack. There are two: [`ClinicalDoc`] and
/// [`ClinicalDocPair`](crate::text_pair::ClinicalDocPair).
pub trait TextDocument:
    Sealed + Debug + Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The payload type of packs of such documents.
    const PAYLOAD_TYPE: &'static str;
    /// Header and manifest member with the version of the schema.
    const VERSION_FIELD: &'static str;
    /// The texts, one or two, in the order in which a block's body holds them.
    const TEXTS: &'static [TextField];

    /// The labels.
    fn labels(&self) -> DocLabelsRef<'_>;

    /// A text: 0, or 1 in a pair. Other numbers give an empty text.
    fn text(&self, number: usize) -> &str;

    /// Puts a document together. The second text is only there for pairs.
    fn from_parts(labels: DocLabels, texts: [String; 2]) -> Self;
}

/// The version of either schema.
pub const SCHEMA_VERSION: u64 = 1;

impl Sealed for ClinicalDoc {}

impl TextDocument for ClinicalDoc {
    const PAYLOAD_TYPE: &'static str = "clinical_text";
    const VERSION_FIELD: &'static str = "text_schema_version";
    const TEXTS: &'static [TextField] =
        &[TextField { name: "text", offset: "offset", length: "length", sum_column: None }];

    fn labels(&self) -> DocLabelsRef<'_> {
        DocLabelsRef {
            doc_id: &self.doc_id,
            doc_type: &self.doc_type,
            encounter: &self.encounter,
            doc_category: &self.doc_category,
            source: &self.source,
            doc_timestamp: &self.doc_timestamp,
            episode_index: self.episode_index,
        }
    }

    fn text(&self, number: usize) -> &str {
        if number == 0 { &self.text } else { "" }
    }

    fn from_parts(labels: DocLabels, [text, _]: [String; 2]) -> Self {
        Self {
            doc_id: labels.doc_id,
            text,
            doc_type: labels.doc_type,
            encounter: labels.encounter,
            doc_category: labels.doc_category,
            source: labels.source,
            doc_timestamp: labels.doc_timestamp,
            episode_index: labels.episode_index,
        }
    }
}
