//! One file that is packed: found first, read later, and refused when it changed in between.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{OpsError, Result};

/// A file that was found.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    /// Name in the pack: relative, with `/` between folders.
    pub(super) name: String,
    /// Where it is.
    pub(super) path: PathBuf,
    pub(super) state: FileState,
}

/// What tells whether a file is still the one that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
    pub(super) identity: Option<(u64, u64)>,
}

impl FileState {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            identity: identity(metadata),
        }
    }

    /// Time of the last change in microseconds since 1970, if it can be expressed so.
    pub(super) fn modified_micros(&self) -> Option<i64> {
        let time = self.modified?;
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).ok(),
            Err(before) => {
                // Rounded down on both sides of 1970, so that order is kept.
                let micros = before.duration().as_nanos().div_ceil(1000);
                i64::try_from(micros).ok()?.checked_neg()
            }
        }
    }

    /// How a later state differs, in words.
    fn difference(&self, later: &Self) -> Option<String> {
        if later == self {
            return None;
        }
        Some(if later.identity != self.identity {
            "another file took its place".to_owned()
        } else if later.bytes != self.bytes {
            format!("it had {} bytes, now {}", self.bytes, later.bytes)
        } else {
            "it was written to".to_owned()
        })
    }
}

impl SourceFile {
    /// The file's content, if it is still what was found.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let changed = |reason: String| OpsError::Changed { path: self.path.clone(), reason };
        let file = open(&self.path)?;
        self.compare(&file)?;
        let mut content = Vec::new();
        let wanted = usize::try_from(self.state.bytes).unwrap_or(usize::MAX);
        // One byte more shows a file that has grown.
        let wanted = wanted.saturating_add(1);
        content.try_reserve_exact(wanted).map_err(|_| {
            let error = std::io::ErrorKind::OutOfMemory.into();
            OpsError::io(&self.path, "cannot read the file into memory")(error)
        })?;
        (&file)
            .take(self.state.bytes.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(OpsError::io(&self.path, "cannot read the file"))?;
        self.compare(&file)?;
        let found = u64::try_from(content.len()).unwrap_or(u64::MAX);
        if found < self.state.bytes {
            return Err(changed(format!("it ended after {found} of {} bytes", self.state.bytes)));
        }
        if found > self.state.bytes {
            return Err(changed(format!("it has more than its {} bytes", self.state.bytes)));
        }
        Ok(content)
    }

    fn compare(&self, file: &File) -> Result<()> {
        let metadata =
            file.metadata().map_err(OpsError::io(&self.path, "cannot examine the file"))?;
        match self.state.difference(&FileState::of(&metadata)) {
            None => Ok(()),
            Some(reason) => Err(OpsError::Changed { path: self.path.clone(), reason }),
        }
    }
}

/// Opens a file for reading; a link or a pipe that took its place is neither followed nor waited
/// for.
fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    options.open(path).map_err(OpsError::io(path, "cannot open the file"))
}

/// What tells one file from another, whatever their names: device and number.
#[cfg(unix)]
pub(super) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
pub(super) fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn found(path: &Path) -> SourceFile {
        SourceFile {
            name: "x".to_owned(),
            path: path.to_owned(),
            state: FileState::of(&std::fs::metadata(path).unwrap()),
        }
    }

    #[test]
    fn a_file_that_changed_since_it_was_found_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        let source = found(&path);
        assert_eq!(source.read().unwrap(), b"12345");

        std::fs::write(&path, "1234567").unwrap();
        let error = source.read().unwrap_err();
        assert!(error.to_string().contains("5 bytes, now 7"), "{error}");

        let source = found(&path);
        let later = SystemTime::now() + Duration::from_secs(60);
        File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        let error = source.read().unwrap_err();
        assert!(error.to_string().contains("written to"), "{error}");

        let source = found(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(source.read().unwrap_err().kind(), iac_format::ErrorKind::Io);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_took_a_files_place_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "12345").unwrap();
        std::fs::write(&other, "secre").unwrap();
        let source = found(&path);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(source.read().is_err());
    }

    #[test]
    fn times_before_1970_are_rounded_down() {
        let state = |nanos| FileState {
            bytes: 0,
            modified: UNIX_EPOCH.checked_sub(Duration::from_nanos(nanos)),
            identity: None,
        };
        assert_eq!(state(0).modified_micros(), Some(0));
        assert_eq!(state(1).modified_micros(), Some(-1));
        assert_eq!(state(1000).modified_micros(), Some(-1));
        assert_eq!(state(1001).modified_micros(), Some(-2));
    }
}
