//! Files that appear whole or not at all.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{AdapterError, Result};

/// A file under a temporary name.
pub(crate) struct NewFile {
    path: PathBuf,
    overwrite: bool,
    file: NamedTempFile,
}

impl NewFile {
    /// Makes the file beside the place where it will appear.
    pub(crate) fn create(path: &Path, overwrite: bool) -> Result<Self> {
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(folder)
            .map_err(AdapterError::io(folder, "cannot make the folder"))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".iac.").suffix(".part");
        // What an ordinary new file would get; the system takes the umask off.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder
            .tempfile_in(folder)
            .map_err(AdapterError::io(path, "cannot create the file"))?;
        Ok(Self { path: path.to_owned(), overwrite, file })
    }

    /// The file, to be written.
    pub(crate) fn file(&mut self) -> &mut NamedTempFile {
        &mut self.file
    }

    /// Gives the file its name, once its content is on the disk.
    pub(crate) fn publish(self) -> Result<()> {
        let path = self.path.clone();
        let failed = || AdapterError::io(&path, "cannot sync the file");
        self.file.as_file().sync_all().map_err(failed())?;
        self.publish_unsynced()?;
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        iac_writer::sync_folder(folder).map_err(failed())
    }

    /// Gives one of many files its name, and leaves it to the system when all are on the disk.
    pub(crate) fn publish_unsynced(self) -> Result<()> {
        let Self { path, overwrite, file } = self;
        let published = if overwrite { file.persist(&path) } else { file.persist_noclobber(&path) };
        match published {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
            Err(error) => Err(AdapterError::io(&path, "cannot write the file")(error.error)),
        }
    }
}

fn exists(path: &Path) -> AdapterError {
    AdapterError::from(iac_writer::WriteError::Exists { path: path.to_owned() })
}
