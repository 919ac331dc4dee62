//! Files that appear whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{AdapterError, Result};
use crate::new_file::NewFile;

/// Has a file written under a temporary name, and gives it its own once it is on the disk.
pub(crate) fn publish(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    written(path, overwrite, write)?.publish()
}

/// The same for one of many files: when they are on the disk is left to the system.
pub(crate) fn publish_unsynced(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    written(path, overwrite, write)?.publish_unsynced()
}

fn written(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<NewFile> {
    let mut file = NewFile::create(path, overwrite)?;
    let mut out = BufWriter::with_capacity(1 << 18, file.file());
    write(&mut out)
        .and_then(|()| out.flush())
        .map_err(AdapterError::io(path, "cannot write the file"))?;
    drop(out);
    Ok(file)
}
