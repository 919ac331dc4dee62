//! Result files: made under a temporary name and renamed, so that they are there whole or not at
//! all.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use iatrocache::ErrorKind;
use tempfile::NamedTempFile;

use crate::failure::{Failure, Report, Result, hint_at};

/// A result file on its way. Dropped before [`publish`](Self::publish), it leaves nothing behind.
pub(crate) struct NewFile {
    path: PathBuf,
    overwrite: bool,
    file: BufWriter<NamedTempFile>,
}

impl NewFile {
    /// Begins a file in its final folder, which is made when it is missing.
    pub(crate) fn create(path: &Path, overwrite: bool) -> Result<Self> {
        if overwrite {
            check_replaceable(path)?;
        } else {
            check_free(path)?;
        }
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(folder)
            .map_err(|error| Failure::io(folder, "cannot make the folder", &error))?;
        let name = path.file_name().ok_or_else(|| {
            Failure::usage(format!("{}: the name of a file is missing", path.display()))
        })?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".part");
        // What an ordinary new file would get; the system takes the umask off.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder
            .tempfile_in(folder)
            .map_err(|error| Failure::io(path, "cannot create the file", &error))?;
        Ok(Self {
            path: path.to_owned(),
            overwrite,
            file: BufWriter::with_capacity(256 << 10, file),
        })
    }

    /// The same for what is made out of a file, which is never replaced by it.
    pub(crate) fn create_from(input: &Path, path: &Path, overwrite: bool) -> Result<Self> {
        if overwrite && same_place(input, path) {
            return Err(Failure::usage(format!(
                "{}: the result cannot go where its source is",
                path.display()
            )));
        }
        Self::create(path, overwrite)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.failed(&error))
    }

    /// Gives the file its name, once its content is on the disk.
    pub(crate) fn publish(mut self) -> Result<()> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().as_file().sync_all());
        synced.map_err(|error| self.failed(&error))?;
        let folder = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        self.publish_unsynced()?;
        iatrocache::writer::sync_folder(&folder)
            .map_err(|error| Failure::io(&folder, "cannot sync the folder", &error))
    }

    /// Gives one of many files its name, and leaves it to the system when all are on the disk.
    pub(crate) fn publish_unsynced(self) -> Result<()> {
        let Self { path, overwrite, file } = self;
        let failed = |error: &io::Error| Failure::io(&path, "cannot write the file", error);
        let file = file.into_inner().map_err(|error| failed(&error.into_error()))?;
        let published = if overwrite { file.persist(&path) } else { file.persist_noclobber(&path) };
        match published {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
            Err(error) => Err(failed(&error.error)),
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::io(&self.path, "cannot write the file", error)
    }
}

/// Refuses a path at which something is, a dangling link too.
pub(crate) fn check_free(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    Ok(())
}

/// Refuses to replace what is no file: a device or a pipe is not meant to become one. A link is
/// replaced itself, so it may point to a file or to nothing.
fn check_replaceable(path: &Path) -> Result<()> {
    let refused = match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => path.metadata().is_ok_and(|target| !target.is_file()),
        Ok(found) => !found.is_file(),
        // Nothing is there, or making the file says what is wrong.
        Err(_) => false,
    };
    if refused {
        let message = format!("{}: is not a regular file, so it is not replaced", path.display());
        return Err(Report::new(ErrorKind::Usage, message).path(path).into());
    }
    Ok(())
}

/// Whether two paths are one place, as far as can be told.
pub(crate) fn same_place(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (one.canonicalize(), other.canonicalize()) {
        return one == other;
    }
    // What is still to be made has a folder and a name.
    let resolved = |path: &Path| {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok()?;
        Some(folder.join(path.file_name()?))
    };
    resolved(one).is_some_and(|place| Some(place) == resolved(other))
}

fn exists(path: &Path) -> Failure {
    let message = format!("{}: the file exists already", path.display());
    let hint = hint_at(ErrorKind::Exists, Some(path)).unwrap_or_default();
    Report::new(ErrorKind::Exists, message).path(path).hint(hint).into()
}
