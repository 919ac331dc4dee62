//! A folder of text files.

use std::fs;
use std::path::{Path, PathBuf};

use iac_format::ErrorKind;

use crate::error::{AdapterError, Result};
use crate::text::model::{ClinicalDoc, PatientText};

/// Patients out of a folder: each folder in it is a patient with its files as documents, and each
/// file in it a patient with that one document.
///
/// Ids are names without the ending `.txt`; documents in deeper folders have their path as id, with
/// `/`. Everything is sorted by name; symbolic links and files of other endings are left out, and
/// counted. Files must be UTF-8. After an error there are no more patients.
#[derive(Debug)]
pub struct FolderPatients {
    institution: String,
    entries: std::vec::IntoIter<(PathBuf, bool)>,
    left_out: u64,
}

const ENDING: &str = "txt";

impl FolderPatients {
    /// Lists a folder.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`] when it cannot be listed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let mut left_out = 0_u64;
        let entries = list(path.as_ref(), &mut left_out)?.into_iter();
        Ok(Self { institution: String::new(), entries, left_out })
    }

    /// Sets the institution of every patient. Default: none.
    #[must_use]
    pub fn institution(mut self, institution: impl Into<String>) -> Self {
        self.institution = institution.into();
        self
    }

    /// Files and links that were left out so far.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    fn read(&mut self, path: &Path, is_folder: bool) -> Result<PatientText> {
        let mut patient = PatientText::new(name_of(path, is_folder)?);
        patient.institution.clone_from(&self.institution);
        if !is_folder {
            let id = patient.patient_id.clone();
            patient.docs.push(ClinicalDoc::new(id, text_of(path)?));
            return Ok(patient);
        }
        let mut open = vec![(String::new(), list(path, &mut self.left_out)?.into_iter())];
        while let Some((prefix, entries)) = open.last_mut() {
            let Some((path, is_folder)) = entries.next() else {
                open.pop();
                continue;
            };
            let id = format!("{prefix}{}", name_of(&path, is_folder)?);
            if is_folder {
                let inner = list(&path, &mut self.left_out)?.into_iter();
                open.push((format!("{id}/"), inner));
            } else {
                patient.docs.push(ClinicalDoc::new(id, text_of(&path)?));
            }
        }
        Ok(patient)
    }
}

impl Iterator for FolderPatients {
    type Item = Result<PatientText>;

    fn next(&mut self) -> Option<Self::Item> {
        let (path, is_folder) = self.entries.next()?;
        let patient = self.read(&path, is_folder);
        if patient.is_err() {
            self.entries = Vec::new().into_iter();
        }
        Some(patient)
    }
}

/// Folders and text files of a folder, sorted.
fn list(folder: &Path, left_out: &mut u64) -> Result<Vec<(PathBuf, bool)>> {
    let failed = "cannot list the folder";
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(AdapterError::io(folder, failed))? {
        let entry = entry.map_err(AdapterError::io(folder, failed))?;
        let kind = entry.file_type().map_err(AdapterError::io(&entry.path(), "cannot examine"))?;
        let path = entry.path();
        if kind.is_dir() {
            found.push((path, true));
        } else if kind.is_file() && path.extension().is_some_and(|ending| ending == ENDING) {
            found.push((path, false));
        } else {
            *left_out = left_out.saturating_add(1);
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn name_of(path: &Path, is_folder: bool) -> Result<String> {
    let name = if is_folder { path.file_name() } else { path.file_stem() };
    let name = name.and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| source(path, "its name is not UTF-8"))
}

fn text_of(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(AdapterError::io(path, "cannot read"))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        source(path, &format!("the text is not UTF-8 at byte {at}"))
    })
}

fn source(path: &Path, reason: &str) -> AdapterError {
    AdapterError::Source {
        path: path.to_owned(),
        row: None,
        kind: ErrorKind::Schema,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_become_patients_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("P2/2023")).unwrap();
        fs::create_dir_all(root.join("P9")).unwrap();
        fs::write(root.join("P2/b.txt"), "zwei ü").unwrap();
        fs::write(root.join("P2/2023/a.txt"), "one\r\n").unwrap();
        fs::write(root.join("P2/scan.png"), "x").unwrap();
        fs::write(root.join("P1.txt"), "alone").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(root.join("P1.txt"), root.join("P3.txt")).unwrap();
        let mut patients = FolderPatients::open(root).unwrap().institution("here");
        let read: Vec<PatientText> = patients.by_ref().map(Result::unwrap).collect();
        let ids: Vec<&str> = read.iter().map(|patient| patient.patient_id.as_str()).collect();
        assert_eq!(ids, ["P1", "P2", "P9"]);
        assert_eq!(read[0].docs[0].text, "alone");
        let docs: Vec<(&str, &str)> =
            read[1].docs.iter().map(|doc| (doc.doc_id.as_str(), doc.text.as_str())).collect();
        assert_eq!(docs, [("2023/a", "one\r\n"), ("b", "zwei ü")]);
        assert_eq!(read[1].institution, "here");
        assert_eq!(patients.left_out(), if cfg!(unix) { 2 } else { 1 });
    }

    #[test]
    fn a_file_that_is_no_text_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), b"ab\xff").unwrap();
        fs::write(folder.path().join("b.txt"), b"ab").unwrap();
        let mut patients = FolderPatients::open(folder.path()).unwrap();
        let message = patients.next().unwrap().unwrap_err().to_string();
        assert!(message.contains("a.txt") && message.contains("at byte 2"), "{message}");
        assert!(patients.next().is_none());
    }
}
