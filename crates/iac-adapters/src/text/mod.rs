//! Packs of clinical text (`clinical_text`): one patient is one record, which holds all documents
//! of the patient and is compressed on its own.
//!
//! | you want to | use |
//! |---|---|
//! | write a pack | [`ClinicalTextWriter`] |
//! | read patients, single documents, or only what there is | [`ClinicalTextReader`] |
//! | turn files into patients | [`import`] |
//! | check a pack | [`check`] |
//!
//! Paired texts have the same shape, with another kind of document:
//! [`text_pair`](crate::text_pair).
//!
//! A record decompresses to a *block*: the length of a manifest (four bytes), the manifest (JSON
//! with the labels of every document and where its text lies), and the texts. So what there is can
//! be told without the texts being decompressed, and a document without what lies behind it.

mod block;
pub mod check;
mod compress;
mod fault;
mod folder;
pub mod import;
mod lookup;
mod manifest;
pub(crate) mod model;
mod options;
mod reader;
pub(crate) mod schema;
#[cfg(feature = "text-search")]
pub mod search;
mod writer;

pub use block::{decode_block, decode_manifest, encode_block};
pub use fault::BlockError;
pub use folder::{FolderOptions, FolderSummary, WrittenDoc, WrittenPatient, write_folder};
pub use manifest::{Manifest, ManifestDoc, TextSpan};
pub use model::{
    ClinicalDoc, DocLabels, DocLabelsRef, NO_EPISODE, Patient, PatientText, SCHEMA_VERSION,
    TextDocument, TextField,
};
pub use options::{TextColumns, TextWriteOptions};
pub use reader::{InstitutionCounts, Patients, TextFilter, TextReadOptions, TextReader};
pub use writer::{TEXT_COLUMNS_EXTENSION, TextWriteSummary, TextWriter};

/// Reads packs of clinical text.
pub type ClinicalTextReader = TextReader<ClinicalDoc>;

/// Writes packs of clinical text.
pub type ClinicalTextWriter = TextWriter<ClinicalDoc>;
