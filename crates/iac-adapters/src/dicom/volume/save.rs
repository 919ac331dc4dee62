//! Files with volumes: there whole or not at all.

use std::io;
use std::path::Path;

use super::array::Volume;
use super::nifti::LABELS;
use crate::dicom::publish::publish;
use crate::error::Result;

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

impl Volume {
    /// Writes the voxels as a NumPy file of shape `[slice, row, column]`. It appears whole or not at
    /// all. Where the voxels lie is not in it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Write`](crate::AdapterError::Write) when the file exists and is not to be
    /// replaced; [`AdapterError::Io`](crate::AdapterError::Io) when it cannot be written.
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
