//! Patients out of files.
//!
//! Each importer is an iterator of patients that reads its source once and holds one patient (or
//! one file) in memory; [`pack`] writes what it gives into a pack.
//!
//! | source | importer |
//! |---|---|
//! | JSON: one object for each patient, one behind the other or in an array | [`JsonPatients`] |
//! | CSV: one row for each document | [`CsvPatients`] |
//! | a folder of text files | [`FolderPatients`] |
#![cfg_attr(
    feature = "parquet",
    doc = "| Parquet: one row for each document | [`ParquetPatients`] |"
)]

mod csv;
mod folder;
mod json;
mod mapping;
#[cfg(feature = "parquet")]
mod parquet;
mod rows;

use std::path::Path;

use iac_ops::Progress;

pub use csv::CsvPatients;
pub use folder::FolderPatients;
pub use json::JsonPatients;
pub use mapping::{ColumnMapping, Grouping};
#[cfg(feature = "parquet")]
pub use parquet::ParquetPatients;

use super::block::encode_block;
use super::model::{Patient, TextDocument};
use super::options::TextWriteOptions;
use super::writer::{TextWriteSummary, TextWriter};
use crate::error::{AdapterError, Result};

/// Writes patients into a pack; progress counts patients.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.iac");
/// # let source = folder.path().join("patients.jsonl");
/// # std::fs::write(&source, r#"{"patient_id": "P1", "docs": [{"doc_id": "1", "text": "ok"}]}"#)?;
/// use iac_adapters::text::{ClinicalDoc, TextWriteOptions, import};
///
/// let patients = import::JsonPatients::<ClinicalDoc>::open(&source)?;
/// let options = TextWriteOptions::default();
/// let summary = import::pack(patients, &path, &options, &iac_ops::NoProgress)?;
/// assert_eq!(summary.documents, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// What the importer reports, as [`TextWriter`], and [`AdapterError::Ops`] when the work was
/// stopped. Nothing is published then.
pub fn pack<D: TextDocument>(
    patients: impl IntoIterator<Item = Result<Patient<D>>>,
    path: impl AsRef<Path>,
    options: &TextWriteOptions,
    progress: &dyn Progress,
) -> Result<TextWriteSummary> {
    let mut writer = TextWriter::<D>::create(path, options)?;
    progress.begin("packing", None);
    let result = patients.into_iter().try_for_each(|patient| {
        if progress.is_cancelled() {
            return Err(AdapterError::from(iac_ops::OpsError::Cancelled));
        }
        writer.push(&patient?)?;
        progress.advance(1);
        Ok(())
    });
    progress.finish();
    result?;
    writer.finish()
}

/// Trains a dictionary for the codec `zstd` on the first patients of a source: as many as have
/// about a hundred times its bytes.
///
/// # Errors
///
/// What the importer reports; [`AdapterError::Usage`] when there are too few patients to train on.
pub fn train_dictionary<D: TextDocument>(
    patients: impl IntoIterator<Item = Result<Patient<D>>>,
    max_bytes: usize,
) -> Result<Vec<u8>> {
    let enough = max_bytes.saturating_mul(100);
    let mut samples = Vec::new();
    let mut bytes = 0_usize;
    for patient in patients {
        let mut block =
            encode_block(&patient?).map_err(|fault| AdapterError::usage(fault.to_string()))?;
        // What is beyond the library's window of interest would only take memory.
        block.truncate(128 << 10);
        bytes = bytes.saturating_add(block.len());
        samples.push(block);
        if bytes >= enough {
            break;
        }
    }
    iac_codec::zstd::train_dictionary(samples, max_bytes)
        .map_err(|error| AdapterError::usage(format!("no dictionary could be made: {error}")))
}

pub(crate) fn fault(
    path: &Path,
    line: u64,
    column: u64,
    field: Option<&str>,
    reason: impl Into<String>,
) -> AdapterError {
    AdapterError::Manifest {
        path: path.to_owned(),
        line,
        column,
        field: field.map(str::to_owned),
        reason: reason.into(),
    }
}
