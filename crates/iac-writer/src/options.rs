//! How a pack is written.

use std::path::Path;

use crate::error::{Result, WriteError};

/// The largest alignment of the data segment: a large page of common machines is a multiple of
/// no more than this, and the padding stays small beside any pack worth aligning.
const MAX_ALIGNMENT: u64 = 1 << 20;

/// How a pack is written. The default suits packs that are meant to stay.
///
/// ```
/// use iac_writer::WriteOptions;
///
/// let options = WriteOptions::new().overwrite(true).data_alignment(4096);
/// assert!(options.overwrite && options.sync && options.checksums);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Replace an existing file; default `false`. The old file stays whole until the new one
    /// takes its name.
    pub overwrite: bool,
    /// Wait until file and folder are on the disk before reporting success; default `true`.
    /// Without it a power failure can leave an empty or partial file under the final name.
    pub sync: bool,
    /// The data segment starts on a multiple of this many bytes: a power of two from 1 (no
    /// padding) to 1,048,576; default 64.
    pub data_alignment: u64,
    /// Write the checksums extension; default `true`.
    pub checksums: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { overwrite: false, sync: true, data_alignment: 64, checksums: true }
    }
}

impl WriteOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether an existing file is replaced.
    #[must_use]
    pub const fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Sets whether success is reported only once the pack is on the disk.
    #[must_use]
    pub const fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Sets the alignment of the data segment.
    #[must_use]
    pub const fn data_alignment(mut self, bytes: u64) -> Self {
        self.data_alignment = bytes;
        self
    }

    /// Sets whether the checksums extension is written.
    #[must_use]
    pub const fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        if self.data_alignment.is_power_of_two() && self.data_alignment <= MAX_ALIGNMENT {
            return Ok(());
        }
        Err(WriteError::argument(
            path,
            format!(
                "data alignment of {} bytes is not a power of two from 1 to {MAX_ALIGNMENT}",
                self.data_alignment
            ),
        ))
    }
}
