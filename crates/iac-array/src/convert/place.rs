//! Files that appear whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use tempfile::NamedTempFile;

use super::ExportOptions;
use crate::blocking::Snapshot;
use crate::error::{ArrayError, Result};
use crate::options::{Location, StoreOptions};

/// Has a file written under a temporary name, and gives it its own.
pub(super) fn publish(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut BufWriter<NamedTempFile>) -> Result<()>,
) -> Result<()> {
    if !overwrite {
        check_free(path)?;
    }
    let folder = folder_of(path);
    std::fs::create_dir_all(folder).map_err(ArrayError::file("make the folder", folder))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".iac.").suffix(".part");
    // What an ordinary new file would get; the system takes the umask off.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(folder).map_err(ArrayError::file("create the file", path))?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    write(&mut out)?;
    let failed = || ArrayError::file("write the file", path);
    let file = out.into_inner().map_err(|error| failed()(error.into_error()))?;
    file.as_file().sync_all().map_err(failed())?;
    let published = if overwrite { file.persist(path) } else { file.persist_noclobber(path) };
    match published {
        Ok(_) => sync_folder(folder).map_err(failed()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(failed()(error.error)),
    }
}

/// Waits until a folder's names are on the disk, where the system and this user's rights allow it.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Opens a file for reading, with its length. Pipes and devices are refused: opening one may wait for
/// ever, and reading it need not end.
pub(super) fn open(path: &Path) -> Result<(File, u64)> {
    let failed = || ArrayError::file("open the file", path);
    if !std::fs::metadata(path).map_err(failed())?.is_file() {
        let reason = "it is no regular file";
        return Err(failed()(io::Error::new(io::ErrorKind::InvalidInput, reason)));
    }
    let file = File::open(path).map_err(failed())?;
    let length = file.metadata().map_err(failed())?.len();
    Ok((file, length))
}

/// What reading a file's content failed with: what the system did not say is said by whoever unpacks,
/// of damage.
pub(super) fn unread(path: &Path, error: io::Error) -> ArrayError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArrayError::damaged(path, "it ends too early"),
        _ if error.raw_os_error().is_none() => ArrayError::damaged(path, error.to_string()),
        _ => ArrayError::file("read the file", path)(error),
    }
}

/// Refuses the name of an array that would mean another place for a folder, or for whoever unpacks
/// an archive.
pub(super) fn check_inside(path: &Path, name: &str) -> Result<()> {
    let leads_out =
        name.contains('\\') || name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if leads_out {
        let shown: String = name.chars().take(64).collect();
        let reason = format!("an array whose name means another place (`{shown}`)");
        return Err(ArrayError::foreign(path, reason));
    }
    Ok(())
}

pub(super) fn check_free(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    Ok(())
}

pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn exists(path: &Path) -> ArrayError {
    ArrayError::Exists { what: "file", name: path.display().to_string() }
}

/// Writes a snapshot as a single `.iac` file.
pub(super) fn export_iac(snapshot: &Snapshot, path: &Path, options: &ExportOptions) -> Result<()> {
    if !options.overwrite {
        check_free(path)?;
    }
    let folder = Location::folder(folder_of(path))?;
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| ArrayError::argument(format!("{}: the name is no UTF-8", path.display())))?;
    let name = object_store::path::Path::parse(name)
        .map_err(|error| ArrayError::argument(format!("`{name}` is no name: {error}")))?;
    snapshot.export(&*folder.store, &name, &StoreOptions::default())
}
