//! Finds the files that are to be packed, and names them.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::source::{FileState, SourceFile, identity};
use super::{MAX_SKIPPED, Skipped};
use crate::error::{OpsError, Result};
use crate::progress::{Progress, check_cancelled};
use crate::walk::walk;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Sorted by the bytes of their names, each name once.
    pub(super) files: Vec<SourceFile>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) total_skipped: u64,
}

/// Looks at every source.
pub(super) fn find(
    sources: &[PathBuf],
    out: &Path,
    recursive: bool,
    progress: &dyn Progress,
) -> Result<Found> {
    let output = Output::new(out);
    let mut found = Found::default();
    for source in sources {
        check_cancelled(progress)?;
        let metadata =
            fs::symlink_metadata(source).map_err(OpsError::io(source, "cannot find the source"))?;
        if metadata.is_dir() {
            found.add_folder(source, &output, recursive, progress)?;
        } else if metadata.is_file() {
            if output.is(source, &metadata) {
                return Err(OpsError::source(source, "is the pack that is to be written"));
            }
            let name = source.file_name().map(PathBuf::from).unwrap_or_default();
            found.add(source, Path::new(&name), &metadata)?;
        } else if metadata.is_symlink() {
            return Err(OpsError::source(
                source,
                "is a symbolic link, which is not followed (name what it points to)",
            ));
        } else {
            return Err(OpsError::source(source, "is neither a file nor a folder"));
        }
    }
    found.files.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    for pair in found.files.windows(2) {
        if let [first, second] = pair
            && first.name == second.name
        {
            return Err(OpsError::source(
                &second.path,
                format!(
                    "would be `{}` in the pack, and so would {}",
                    second.name,
                    first.path.display()
                ),
            ));
        }
    }
    Ok(found)
}

impl Found {
    fn add_folder(
        &mut self,
        folder: &Path,
        output: &Output,
        recursive: bool,
        progress: &dyn Progress,
    ) -> Result<()> {
        walk(folder, progress, &mut |path, metadata| {
            if metadata.is_dir() {
                if !recursive {
                    self.skip(path, "is a folder");
                }
                return Ok(recursive);
            }
            if metadata.is_symlink() {
                self.skip(path, "is a symbolic link");
            } else if !metadata.is_file() {
                self.skip(path, "is neither a file nor a folder");
            } else if output.is(path, metadata) {
                self.skip(path, "is the pack that is written");
            } else {
                let name = path.strip_prefix(folder).map_err(|_| {
                    OpsError::source(path, "does not lie in the folder that lists it")
                })?;
                self.add(path, name, metadata)?;
            }
            Ok(false)
        })
    }

    fn add(&mut self, path: &Path, name: &Path, metadata: &fs::Metadata) -> Result<()> {
        let state = FileState::of(metadata);
        let allowed = u64::from(u32::MAX);
        if state.bytes > allowed {
            return Err(OpsError::TooLarge {
                path: path.to_owned(),
                what: "a record",
                found: state.bytes,
                allowed,
            });
        }
        self.files.push(SourceFile { name: pack_name(path, name)?, path: path.to_owned(), state });
        Ok(())
    }

    fn skip(&mut self, path: &Path, reason: &'static str) {
        self.total_skipped = self.total_skipped.saturating_add(1);
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(Skipped { path: path.to_owned(), reason });
        }
    }
}

/// A relative path as it is written in the pack.
fn pack_name(path: &Path, name: &Path) -> Result<String> {
    let mut parts = Vec::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(|| {
                OpsError::source(path, "its name is not UTF-8, which a pack cannot hold")
            })?),
            _ => return Err(OpsError::source(path, "has no name of its own")),
        }
    }
    if parts.is_empty() {
        return Err(OpsError::source(path, "has no name of its own"));
    }
    Ok(parts.join("/"))
}

/// The pack that is written, which must not be found among its own sources.
struct Output {
    folder: Option<PathBuf>,
    name: OsString,
    identity: Option<(u64, u64)>,
}

impl Output {
    fn new(out: &Path) -> Self {
        let absolute = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        Self {
            folder: absolute.parent().and_then(|folder| folder.canonicalize().ok()),
            name: absolute.file_name().map(OsString::from).unwrap_or_default(),
            identity: fs::symlink_metadata(out)
                .ok()
                .filter(fs::Metadata::is_file)
                .and_then(|metadata| identity(&metadata)),
        }
    }

    /// Whether a file is the output, or a temporary file that a killed writer of it left behind
    /// (and that the next one, which is us, removes).
    fn is(&self, path: &Path, metadata: &fs::Metadata) -> bool {
        if self.identity.is_some() && identity(metadata) == self.identity {
            return true;
        }
        let Some(name) = path.file_name() else {
            return false;
        };
        if name != self.name && !self.is_temporary(name.as_encoded_bytes()) {
            return false;
        }
        let folder = path
            .parent()
            .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        folder.and_then(|folder| folder.canonicalize().ok()) == self.folder
    }

    /// Temporary names are `.NAME.RANDOM.part`.
    fn is_temporary(&self, name: &[u8]) -> bool {
        name.strip_prefix(b".")
            .and_then(|rest| rest.strip_prefix(self.name.as_encoded_bytes()))
            .is_some_and(|rest| rest.starts_with(b".") && rest.ends_with(b".part"))
    }
}
