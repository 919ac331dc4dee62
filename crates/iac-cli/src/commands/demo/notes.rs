//! The cohort's notes as a pack of clinical text, where every patient is one record.

use std::path::Path;
use std::time::{Duration, Instant};

use iatrocache::adapters::text::import::{FolderPatients, pack};
use iatrocache::adapters::text::{
    ClinicalTextReader, PatientText, TextWriteOptions, TextWriteSummary,
};
use iatrocache::codec::brotli::BrotliOptions;
use iatrocache::{ErrorKind, ReadOptions};
use serde_json::{Value, json};

use crate::cli::Common;
use crate::failure::{Failure, Report, Result};
use crate::human;
use crate::progress::{Shown, Unit};

/// What was done with the notes.
pub(super) struct Notes {
    summary: TextWriteSummary,
    /// Patients that were read one by one, and how long that took.
    read: u64,
    time: Duration,
}

/// Packs the notes of a cohort, reads every patient and compares it with its files.
pub(super) fn pack_notes(sources: &Path, path: &Path, common: &Common) -> Result<Notes> {
    // Not the smallest pack, but one that is there at once.
    let codec = BrotliOptions::default().with_quality(5).codec();
    let codec = codec.map_err(|error| Failure::usage(error.to_string()))?;
    let options = TextWriteOptions::default().codec(codec).workers(common.workers);
    let patients = || Ok::<_, Failure>(FolderPatients::open(sources)?.institution("made-up"));
    let summary = pack(patients()?, path, &options, &Shown::new(common, Unit::Rows))?;
    let read = ReadOptions::default().workers(common.workers);
    let reader = ClinicalTextReader::open_with(path, &read, Default::default())?;
    let expected: Vec<PatientText> = patients()?.collect::<Result<_, _>>()?;
    let start = Instant::now();
    let mut equal = true;
    for patient in &expected {
        equal &= &reader.read(&patient.patient_id)? == patient;
    }
    let time = start.elapsed();
    if !equal {
        let message = format!("{}: a patient differs from its files", path.display());
        return Err(Report::new(ErrorKind::Damaged, message).path(path).into());
    }
    Ok(Notes { summary, read: u64::try_from(expected.len()).unwrap_or(u64::MAX), time })
}

impl Notes {
    pub(super) fn line(&self) -> String {
        format!(
            "  notes     {} of {} in a text pack of {}, read back and compared at {}",
            human::counted(self.summary.documents, "note"),
            human::counted(self.summary.patients, "patient"),
            human::bytes(self.summary.written.file_bytes),
            human::record_rate(self.read, self.time)
        )
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "patients": self.summary.patients,
            "documents": self.summary.documents,
            "file_bytes": self.summary.written.file_bytes,
            "reads_per_second": human::per_second(self.read, self.time),
        })
    }
}
