//! Files with volumes: there whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::array::Volume;
use super::nifti::LABELS;
use crate::error::{AdapterError, Result};

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SaveOptions {
    /// Replace a file that exists; default no.
    pub overwrite: bool,
    /// Level of gzip, 0 to 9, for names that end in `.gz`; default 3.
    pub level: u32,
    pub(super) intent: i16,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { overwrite: false, level: 3, intent: 0 }
    }
}

impl SaveOptions {
    /// The same with existing files replaced, or not.
    #[must_use]
    pub const fn with_overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// The same with another level of gzip.
    #[must_use]
    pub const fn with_level(mut self, level: u32) -> Self {
        self.level = level;
        self
    }

    /// The same with voxels that are labels, which NIfTI files say.
    #[must_use]
    pub const fn with_labels(mut self) -> Self {
        self.intent = LABELS;
        self
    }
}

/// Has a file written under a temporary name, and gives it its own.
pub(super) fn publish(
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
    builder.prefix(".volume.").suffix(".part");
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

impl Volume {
    /// Writes the voxels as a NumPy file of shape `[slice, row, column]`. It appears whole or not at
    /// all. Where the voxels lie is not in it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Write`] when the file exists and is not to be replaced; [`AdapterError::Io`]
    /// when it cannot be written.
    pub fn save_npy(&self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<()> {
        let [slices, rows, columns] = self.voxels.shape();
        let descr = self.voxels.descr();
        let mut header = format!(
            "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({slices}, {rows}, {columns}), }}"
        );
        // Magic, version, length, text and a line's end fill whole blocks of 64 bytes.
        while header.len().saturating_add(11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        publish(path.as_ref(), options.overwrite, |out| {
            out.write_all(b"\x93NUMPY\x01\x00")?;
            let length = u16::try_from(header.len()).map_err(io::Error::other)?;
            out.write_all(&length.to_le_bytes())?;
            out.write_all(header.as_bytes())?;
            self.write_voxels(out)
        })
    }
}
