//! Packs of paired clinical text (`clinical_text_pair`): each document has a source text and a
//! compressed one, such as a summary.
//!
//! Everything is as in [`text`](crate::text), with another kind of document.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("summaries.iac");
//! use iac_adapters::text::TextWriteOptions;
//! use iac_adapters::text_pair::{
//!     ClinicalDocPair, ClinicalTextPairReader, ClinicalTextPairWriter, PatientTextPair,
//! };
//!
//! let mut patient = PatientTextPair::new("P1");
//! patient.docs.push(ClinicalDocPair::new("P1/1", "A long report.", "Short."));
//! let mut writer = ClinicalTextPairWriter::create(&path, &TextWriteOptions::default())?;
//! writer.push(&patient)?;
//! writer.finish()?;
//!
//! let reader = ClinicalTextPairReader::open(&path)?;
//! assert_eq!(reader.read("P1")?.docs[0].compressed_text, "Short.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::text::model::{Sealed, no_episode};
use crate::text::{
    DocLabels, DocLabelsRef, Patient, TextDocument, TextField, TextReader, TextWriter,
};

/// A patient of a pack of paired text.
pub type PatientTextPair = Patient<ClinicalDocPair>;

/// Reads packs of paired text.
pub type ClinicalTextPairReader = TextReader<ClinicalDocPair>;

/// Writes packs of paired text.
pub type ClinicalTextPairWriter = TextWriter<ClinicalDocPair>;

/// One document: two texts and labels. `source` is a label and has nothing to do with
/// `source_text`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClinicalDocPair {
    /// The document's id.
    pub doc_id: String,
    /// The text as it was.
    pub source_text: String,
    /// The text that was made of it.
    pub compressed_text: String,
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
    /// Number of the episode; -1 when there is none.
    #[serde(default = "no_episode")]
    pub episode_index: i64,
}

impl ClinicalDocPair {
    /// A document without labels.
    pub fn new(
        doc_id: impl Into<String>,
        source_text: impl Into<String>,
        compressed_text: impl Into<String>,
    ) -> Self {
        Self::from_parts(DocLabels::new(doc_id), [source_text.into(), compressed_text.into()])
    }
}

impl Sealed for ClinicalDocPair {}

impl TextDocument for ClinicalDocPair {
    const PAYLOAD_TYPE: &'static str = "clinical_text_pair";
    const VERSION_FIELD: &'static str = "pair_schema_version";
    const TEXTS: &'static [TextField] = &[
        TextField {
            name: "source_text",
            offset: "source_offset",
            length: "source_length",
            sum_column: Some("source_raw_bytes"),
        },
        TextField {
            name: "compressed_text",
            offset: "compressed_offset",
            length: "compressed_length",
            sum_column: Some("compressed_raw_bytes"),
        },
    ];

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
        match number {
            0 => &self.source_text,
            1 => &self.compressed_text,
            _ => "",
        }
    }

    fn from_parts(labels: DocLabels, [source_text, compressed_text]: [String; 2]) -> Self {
        Self {
            doc_id: labels.doc_id,
            source_text,
            compressed_text,
            doc_type: labels.doc_type,
            encounter: labels.encounter,
            doc_category: labels.doc_category,
            source: labels.source,
            doc_timestamp: labels.doc_timestamp,
            episode_index: labels.episode_index,
        }
    }
}
