//! Files that appear whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{AdapterError, Result};
use crate::new_file::NewFile;

/// Has a file written under a temporary name, and gives it its own.
pub(crate) fn publish(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let mut file = NewFile::create(path, overwrite)?;
    let mut out = BufWriter::with_capacity(1 << 18, file.file());
    write(&mut out)
        .and_then(|()| out.flush())
        .map_err(AdapterError::io(path, "cannot write the file"))?;
    drop(out);
    file.publish()
}
