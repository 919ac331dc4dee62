//! Files that appear whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{AdapterError, Result};

/// Has a file written under a temporary name, and gives it its own.
pub(crate) fn publish(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let exists = || AdapterError::from(iac_writer::WriteError::Exists { path: path.to_owned() });
    if !overwrite && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder).map_err(AdapterError::io(folder, "cannot make the folder"))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".iac.").suffix(".part");
    // What an ordinary new file would get; the system takes the umask off.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file =
        builder.tempfile_in(folder).map_err(AdapterError::io(path, "cannot create the file"))?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let failed = || AdapterError::io(path, "cannot write the file");
    write(&mut out).map_err(failed())?;
    let file = out.into_inner().map_err(|error| failed()(error.into_error()))?;
    let published = if overwrite { file.persist(path) } else { file.persist_noclobber(path) };
    match published {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists()),
        Err(error) => Err(failed()(error.error)),
    }
}
