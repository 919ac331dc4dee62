//! Patients as folders of text files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use iac_format::ErrorKind;
use iac_ops::{OpsError, Progress};
use serde::Serialize;

use super::model::{DocLabels, Patient, TextDocument};
use super::reader::TextReader;
use crate::error::{AdapterError, Result};

/// Most bytes of a name; the rest of the usual 255 is for what is appended to it.
const MAX_NAME: usize = 180;

/// How patients are written into a folder.
#[derive(Debug, Clone, Default)]
pub struct FolderOptions {
    rows: Option<Vec<u64>>,
    overwrite: bool,
}

impl FolderOptions {
    /// Sets the rows that are written. Default (`None`): all.
    #[must_use]
    pub fn rows(mut self, rows: impl Into<Option<Vec<u64>>>) -> Self {
        self.rows = rows.into();
        self
    }

    /// Sets whether existing files are replaced. Default: no.
    #[must_use]
    pub const fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }
}

/// A patient that was written. As JSON, an object with the members of a patient, `row` and `dir`;
/// documents have `files`, from the name of a text to that of its file, and `bytes` in place of
/// texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WrittenPatient {
    /// Row of the index table.
    pub row: u64,
    /// Name of the patient's folder.
    pub dir: String,
    /// The patient's id.
    pub patient_id: String,
    /// Where the documents come from.
    pub institution: String,
    /// The documents.
    pub docs: Vec<WrittenDoc>,
}

/// A document of a [`WrittenPatient`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WrittenDoc {
    /// The labels.
    #[serde(flatten)]
    pub labels: DocLabels,
    /// Files of the texts, by the names of these.
    pub files: BTreeMap<&'static str, String>,
    /// Bytes of the texts.
    pub bytes: u64,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderSummary {
    /// Patients, a folder for each.
    pub patients: u64,
    /// Text files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Folders and files whose name is not the id in the pack.
    pub renamed: u64,
}

/// Writes patients into a folder, which is made if need be: a folder for each patient, in it a file
/// for each text (`ID.txt`; `ID.source_text.txt` and `ID.compressed_text.txt` for pairs) and
/// `patient.json` with all labels and the names of the files.
///
/// Names are ids with characters replaced that are not safe in file names; names that occur again
/// get a number. So nothing is ever written outside of the folder. Every file appears whole or not
/// at all. Progress counts patients.
///
/// # Errors
///
/// [`AdapterError::Source`] (kind `exists`) for a file that is there and may not be replaced, and
/// for a link in the place of a folder; [`AdapterError::Io`]; as [`TextReader::read_at`];
/// [`AdapterError::Ops`] when the work was stopped, and what `on_patient` reports.
pub fn write_folder<D: TextDocument>(
    reader: &TextReader<D>,
    folder: &Path,
    options: &FolderOptions,
    progress: &dyn Progress,
    on_patient: &mut dyn FnMut(WrittenPatient) -> Result<()>,
) -> Result<FolderSummary> {
    fs::create_dir_all(folder).map_err(AdapterError::io(folder, "cannot make the folder"))?;
    let all: Vec<u64>;
    let rows = match &options.rows {
        Some(rows) => rows.as_slice(),
        None => {
            all = (0..reader.len()).collect();
            all.as_slice()
        }
    };
    progress.begin("extracting", u64::try_from(rows.len()).ok());
    let mut summary = FolderSummary::default();
    let mut names = Names::default();
    let result = rows.iter().try_for_each(|row| {
        if progress.is_cancelled() {
            return Err(OpsError::Cancelled.into());
        }
        let patient = write_patient(reader, *row, folder, options, &mut names, &mut summary)?;
        on_patient(patient)?;
        progress.advance(1);
        Ok(())
    });
    progress.finish();
    result.map(|()| summary)
}

fn write_patient<D: TextDocument>(
    reader: &TextReader<D>,
    row: u64,
    folder: &Path,
    options: &FolderOptions,
    names: &mut Names,
    summary: &mut FolderSummary,
) -> Result<WrittenPatient> {
    let patient = reader.read_at(row)?;
    let name = names.claim(&patient.patient_id);
    count(&mut summary.renamed, name != patient.patient_id);
    let home = folder.join(&name);
    make_folder(&home)?;
    let mut inner = Names::default();
    // The labels stand in a file of their own.
    inner.claim("patient");
    let mut docs = Vec::with_capacity(patient.docs.len());
    for doc in &patient.docs {
        let labels = doc.labels();
        let base = inner.claim(labels.doc_id);
        count(&mut summary.renamed, base != labels.doc_id);
        let mut written = WrittenDoc { labels: labels.owned(), files: BTreeMap::new(), bytes: 0 };
        for (number, field) in D::TEXTS.iter().enumerate() {
            let file = if D::TEXTS.len() == 1 {
                format!("{base}.txt")
            } else {
                format!("{base}.{}.txt", field.name)
            };
            let text = doc.text(number).as_bytes();
            write_file(&home, &file, text, options.overwrite)?;
            summary.files = summary.files.saturating_add(1);
            let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
            written.bytes = written.bytes.saturating_add(bytes);
            written.files.insert(field.name, file);
        }
        summary.bytes = summary.bytes.saturating_add(written.bytes);
        docs.push(written);
    }
    let Patient { patient_id, institution, .. } = patient;
    let about = serde_json::json!({
        "patient_id": patient_id, "institution": institution, "docs": docs,
    });
    write_file(&home, "patient.json", format!("{about:#}\n").as_bytes(), options.overwrite)?;
    summary.patients = summary.patients.saturating_add(1);
    Ok(WrittenPatient { row, dir: name, patient_id, institution, docs })
}

fn count(counter: &mut u64, counts: bool) {
    *counter = counter.saturating_add(u64::from(counts));
}

fn refused(path: PathBuf, reason: &str) -> AdapterError {
    let reason = reason.to_owned();
    AdapterError::Source { path, row: None, kind: ErrorKind::Exists, reason }
}

/// Makes a patient's folder; what is there must be a folder and no link to one.
fn make_folder(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            match fs::symlink_metadata(path) {
                Ok(found) if found.is_dir() => Ok(()),
                _ => Err(refused(path.to_owned(), "is there already and no folder")),
            }
        }
        other => other.map_err(AdapterError::io(path, "cannot make the folder")),
    }
}

fn write_file(folder: &Path, name: &str, bytes: &[u8], overwrite: bool) -> Result<()> {
    let path = folder.join(name);
    if !overwrite && fs::symlink_metadata(&path).is_ok() {
        return Err(refused(path, "the file exists already"));
    }
    let failed = "cannot write the file";
    let mut file = tempfile::Builder::new()
        .prefix(".iac-text.")
        .suffix(".part")
        .tempfile_in(folder)
        .map_err(AdapterError::io(&path, failed))?;
    file.write_all(bytes).map_err(AdapterError::io(&path, failed))?;
    let kept = if overwrite { file.persist(&path) } else { file.persist_noclobber(&path) };
    match kept {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(refused(path, "the file exists already"))
        }
        Err(error) => Err(AdapterError::io(&path, failed)(error.error)),
    }
}

/// Names that are taken, without regard to case, as some systems have none for it, with the number
/// to try next for each.
#[derive(Debug, Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// A safe name for an id that is not taken yet.
    fn claim(&mut self, id: &str) -> String {
        let name = safe(id);
        let next = self.0.entry(name.to_lowercase()).or_insert(1);
        let number = *next;
        *next = number.saturating_add(1);
        // No safe name has a tilde, so that the same number is nobody else's.
        if number == 1 { name } else { format!("{name}~{number}") }
    }
}

/// A name that is one part of a path everywhere: nothing special, nothing invisible, not too long.
fn safe(id: &str) -> String {
    let mut name = String::with_capacity(id.len().min(MAX_NAME));
    for character in id.chars() {
        let plain = character.is_alphanumeric() || matches!(character, '-' | '_' | '.' | ' ' | '+');
        let shown = if plain { character } else { '_' };
        if name.len().saturating_add(shown.len_utf8()) > MAX_NAME {
            break;
        }
        name.push(shown);
    }
    // Windows drops these at the end, and a dot in front hides a file.
    let mut name = name.trim_end_matches(['.', ' ']).to_owned();
    if name.is_empty() || name.starts_with(['.', ' ']) {
        name.insert(0, '_');
    }
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let stem = stem.to_ascii_lowercase();
    // A port has one digit, which may stand above the line.
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    let is_device = matches!(stem.as_str(), "con" | "prn" | "aux" | "nul")
        || port.is_some_and(|number| number.chars().count() == 1);
    if is_device {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_safe_part_of_a_path() {
        for (id, name) in [
            ("P1", "P1"),
            ("合成患者-001/d0", "合成患者-001_d0"),
            ("../../etc/passwd", "_.._.._etc_passwd"),
            ("", "_"),
            ("..", "_"),
            ("a\0b\n", "a_b_"),
            ("NUL.txt", "_NUL.txt"),
            ("com1", "_com1"),
            ("LPT³.txt", "_LPT³.txt"),
            ("con .txt", "_con .txt"),
            ("company", "company"),
            ("x. ", "x"),
            ("C:\\x", "C__x"),
            ("\u{202e}gpj", "_gpj"),
        ] {
            assert_eq!(safe(id), name, "{id:?}");
        }
        assert!(safe(&"é".repeat(1000)).len() <= MAX_NAME);
    }

    #[test]
    fn names_that_occur_again_get_a_number() {
        let mut names = Names::default();
        let claimed = ["a", "A", "a~2", "a/", "a_"].map(|id| names.claim(id));
        assert_eq!(claimed, ["a", "A~2", "a_2", "a_", "a_~2"]);
    }

    #[test]
    fn a_name_that_occurs_very_often_takes_no_time() {
        // Trying each number anew would be two billion tries.
        let mut names = Names::default();
        let last = (0..65_536).map(|_| names.claim("same")).last();
        assert_eq!(last.as_deref(), Some("same~65536"));
    }
}
