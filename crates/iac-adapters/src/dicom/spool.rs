//! Payloads until it is known where they go: a bounded part of them in memory, the rest on the disk.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::{AdapterError, Result};

/// Bytes that stay in memory: a series of some hundred slices never touches the disk twice.
const IN_MEMORY: u64 = 64 << 20;

/// Where some bytes are.
#[derive(Debug, Clone)]
pub(crate) enum Spooled {
    Memory(Bytes),
    /// First byte, and number of bytes.
    Disk(u64, u64),
}

impl Spooled {
    pub(crate) const fn nothing() -> Self {
        Self::Memory(Bytes::new())
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::Disk(_, length) => *length,
        }
    }
}

/// Takes bytes and gives them back. Its file has no name, so nothing stays behind.
pub(crate) struct Spool {
    file: File,
    folder: PathBuf,
    written: u64,
    in_memory: u64,
}

impl Spool {
    /// A spool in the folder of a file that will be written.
    pub(crate) fn beside(target: &Path) -> Result<Self> {
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Made even if it will not be needed: a folder that cannot be written is told at once.
        let file = tempfile::tempfile_in(folder)
            .map_err(AdapterError::io(folder, "cannot make a temporary file"))?;
        Ok(Self { file, folder: folder.to_owned(), written: 0, in_memory: 0 })
    }

    pub(crate) fn append(&mut self, bytes: Bytes) -> Result<Spooled> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let held = self.in_memory.saturating_add(length);
        if held <= IN_MEMORY {
            self.in_memory = held;
            return Ok(Spooled::Memory(bytes));
        }
        let place = Spooled::Disk(self.written, length);
        let write =
            self.file.seek(SeekFrom::Start(self.written)).and_then(|_| self.file.write_all(&bytes));
        write.map_err(AdapterError::io(&self.folder, "cannot write a temporary file"))?;
        self.written = self.written.saturating_add(length);
        Ok(place)
    }

    pub(crate) fn read(&mut self, place: &Spooled) -> Result<Bytes> {
        let (offset, length) = match place {
            Spooled::Memory(bytes) => return Ok(bytes.clone()),
            Spooled::Disk(offset, length) => (*offset, *length),
        };
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read =
            self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(AdapterError::io(&self.folder, "cannot read a temporary file"))?;
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_memory_and_from_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::beside(&folder.path().join("a.iac")).unwrap();
        let large = Bytes::from(vec![7; 40 << 20]);
        let places: Vec<Spooled> =
            [large.clone(), large.clone(), Bytes::from_static(b"small"), large.clone()]
                .into_iter()
                .map(|bytes| spool.append(bytes).unwrap())
                .collect();
        let on_disk: Vec<bool> =
            places.iter().map(|place| matches!(place, Spooled::Disk(..))).collect();
        assert_eq!(on_disk, [false, true, false, true]);
        for (place, wanted) in places.iter().zip([&large[..], &large, b"small", &large]).rev() {
            assert_eq!(spool.read(place).unwrap(), wanted);
            assert_eq!(place.len(), wanted.len() as u64);
        }
        let nowhere = folder.path().join("missing/a.iac");
        assert!(Spool::beside(&nowhere).is_err());
    }
}
