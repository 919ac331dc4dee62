//! A file that is read with positional reads and never mapped.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{Advice, ByteSource, check_file_size, open_regular, read_file};

/// A file read by offset (`pread`): slower than a mapping on small records, and no cut of the file
/// by another process can hurt more than the read that meets it.
#[derive(Debug)]
pub struct PositionalFile {
    file: File,
    size: u64,
}

impl PositionalFile {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// What the operating system reports; a directory or a pipe is refused.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let (file, size) = open_regular(path.as_ref())?;
        Ok(Self { file, size })
    }

    pub(crate) const fn from_file(file: File, size: u64) -> Self {
        Self { file, size }
    }
}

impl ByteSource for PositionalFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_file(&self.file, offset, buffer).map_err(|error| {
            if error.kind() != io::ErrorKind::UnexpectedEof {
                return error;
            }
            let length = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
            match check_file_size(&self.file, offset.saturating_add(length)) {
                Err(cut) => cut,
                Ok(_) => error,
            }
        })
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::Advice as FileAdvice;
            let advice = match advice {
                Advice::Normal => FileAdvice::Normal,
                Advice::Random => FileAdvice::Random,
                Advice::Sequential => FileAdvice::Sequential,
            };
            rustix::fs::fadvise(&self.file, 0, None, advice)?;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = advice;
        Ok(())
    }

    fn will_need(&self, offset: u64, length: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(length) = std::num::NonZeroU64::new(length) {
            rustix::fs::fadvise(&self.file, offset, Some(length), rustix::fs::Advice::WillNeed)?;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, length);
        Ok(())
    }
}
