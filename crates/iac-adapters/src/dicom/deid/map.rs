//! Who is who: kept in memory while packs are made, and written where the user says.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::{AdapterError, Result};

/// Originals and what stands for them.
#[derive(Default)]
pub(super) struct PseudonymMap {
    /// Pseudonym and days by issuer and patient id.
    patients: BTreeMap<(String, String), (String, Option<i64>)>,
    uids: BTreeMap<String, String>,
}

/// Shows numbers only.
impl fmt::Debug for PseudonymMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PseudonymMap")
            .field("patients", &self.patients.len())
            .field("uids", &self.uids.len())
            .finish()
    }
}

impl PseudonymMap {
    pub(super) fn add_patient(
        &mut self,
        issuer: &str,
        id: &str,
        pseudonym: &str,
        days: Option<i64>,
    ) {
        let patient = (issuer.to_owned(), id.to_owned());
        self.patients.insert(patient, (pseudonym.to_owned(), days));
    }

    pub(super) fn add_uid(&mut self, uid: &str, new: &str) {
        if !self.uids.contains_key(uid) {
            self.uids.insert(uid.to_owned(), new.to_owned());
        }
    }

    fn to_json(&self) -> Value {
        let patients: Vec<Value> = self
            .patients
            .iter()
            .map(|((issuer, id), (pseudonym, days))| {
                let mut patient =
                    json!({"patient_id": id, "issuer": issuer, "pseudonym": pseudonym});
                if let (Some(days), Some(members)) = (days, patient.as_object_mut()) {
                    members.insert("days".to_owned(), (*days).into());
                }
                patient
            })
            .collect();
        json!({"patients": patients, "uids": self.uids})
    }

    /// Writes it for the user alone, whole or not at all.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Temporary files are made with the mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)
            .map_err(AdapterError::io(folder, "cannot make a temporary file"))?;
        let mut text = self.to_json().to_string();
        text.push('\n');
        file.write_all(text.as_bytes())
            .and_then(|()| file.as_file().sync_all())
            .map_err(AdapterError::io(path, "cannot be written"))?;
        file.persist_noclobber(path)
            .map_err(|error| AdapterError::io(path, "cannot be written")(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_written_once_for_the_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.json");
        let mut map = PseudonymMap::default();
        map.add_patient("HOSP", "4711", "P1", Some(-3));
        map.add_uid("1.2", "2.25.1");
        map.write(&path).unwrap();
        let read: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read["patients"][0]["pseudonym"], "P1");
        assert_eq!(read["uids"]["1.2"], "2.25.1");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(map.write(&path).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
