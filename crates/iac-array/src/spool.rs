//! A temporary file for blocks that do not fit into the memory they may take.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::codec::BlockCodec;
use crate::error::{ArrayError, Result, u64_len, zeroed};

/// What the file is called in errors: it has no name.
const NAME: &str = "the temporary file of pending changes";

/// A file without a name, which is gone with its last user, whatever happens to the process.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    /// Where the next bytes go. Positions are never used twice.
    end: Mutex<u64>,
}

impl Spool {
    /// Makes a file in a folder, or where the system keeps temporary files.
    pub(crate) fn new(folder: Option<&Path>) -> Result<Arc<Self>> {
        let file = match folder {
            Some(folder) => tempfile::tempfile_in(folder),
            None => tempfile::tempfile(),
        };
        let file = file.map_err(|error| failed("make", &error))?;
        Ok(Arc::new(Self { file, end: Mutex::new(0) }))
    }

    /// Writes bytes behind all others; where they begin.
    pub(crate) fn append(&self, pieces: &[Bytes]) -> Result<u64> {
        // What a failed call wrote in part is overwritten by the next: the end moves last.
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let start = *end;
        let mut at = start;
        for piece in pieces {
            self.write(piece, at).map_err(|error| failed("write", &error))?;
            at = at.saturating_add(u64_len(piece.len()));
        }
        *end = at;
        Ok(start)
    }

    /// Bytes that were written.
    pub(crate) fn len(&self) -> u64 {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        let mut bytes = zeroed("a block", length)?;
        self.fill(&mut bytes, offset).map_err(|error| failed("read", &error))?;
        Ok(Bytes::from(bytes))
    }

    #[cfg(unix)]
    fn write(&self, bytes: &[u8], at: u64) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, at)
    }

    #[cfg(unix)]
    fn fill(&self, bytes: &mut [u8], at: u64) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, at)
    }

    // The lock of the end is held by the one who writes; readers take it for the position of the file.
    #[cfg(not(unix))]
    fn write(&self, bytes: &[u8], at: u64) -> std::io::Result<()> {
        use std::io::{Seek, SeekFrom, Write};

        (&self.file).seek(SeekFrom::Start(at))?;
        (&self.file).write_all(bytes)
    }

    #[cfg(not(unix))]
    fn fill(&self, bytes: &mut [u8], at: u64) -> std::io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};

        let _end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.file).seek(SeekFrom::Start(at))?;
        (&self.file).read_exact(bytes)
    }
}

fn failed(action: &'static str, error: &std::io::Error) -> ArrayError {
    ArrayError::System { what: "a temporary file", reason: format!("cannot {action} it: {error}") }
}

/// Part of a layer in the making: in memory, or in a temporary file.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Held(Bytes),
    Spooled(SpooledBytes),
}

/// Bytes in a temporary file, which are compared with their checksum whenever they are read.
#[derive(Debug, Clone)]
pub(crate) struct SpooledBytes {
    pub(crate) spool: Arc<Spool>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) crc32: u32,
}

impl Piece {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Held(bytes) => u64_len(bytes.len()),
            Self::Spooled(bytes) => bytes.length,
        }
    }

    pub(crate) fn bytes(&self) -> Result<Bytes> {
        match self {
            Self::Held(bytes) => Ok(bytes.clone()),
            Self::Spooled(bytes) => bytes.read(),
        }
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Self::Held(bytes)
    }
}

impl SpooledBytes {
    fn read(&self) -> Result<Bytes> {
        let bytes = self.spool.read(self.offset, self.length)?;
        let sum = crc32fast::hash(&bytes);
        if sum != self.crc32 {
            let (offset, stored) = (self.offset, self.crc32);
            let reason =
                format!("checksum of the block at {offset} is {sum:08x}, not {stored:08x}");
            return Err(ArrayError::corrupt(NAME, reason));
        }
        Ok(bytes)
    }
}

/// A finished block that waits for the flush, with one chunk or several in it.
#[derive(Debug)]
pub(crate) struct SpooledBlock {
    pub(crate) bytes: SpooledBytes,
    pub(crate) raw_length: u32,
    pub(crate) codec: BlockCodec,
}

impl SpooledBlock {
    /// Its chunks as they were before they were packed.
    pub(crate) fn decode(&self) -> Result<Bytes> {
        let stored = self.bytes.read()?;
        if self.codec.is_none() {
            return Ok(stored);
        }
        self.codec.decode(NAME, &stored, self.raw_length).map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_and_cut_blocks_are_refused() {
        let spool = Spool::new(None).unwrap();
        spool.append(&[Bytes::from_static(b"first")]).unwrap();
        let block = Bytes::from_static(b"some block");
        let offset = spool.append(&[block.slice(..4), block.slice(4..)]).unwrap();
        let (crc32, length) = (crc32fast::hash(&block), u64_len(block.len()));
        let spooled = SpooledBytes { spool: Arc::clone(&spool), offset, length, crc32 };
        assert_eq!(Piece::Spooled(spooled.clone()).bytes().unwrap(), block);
        assert_eq!((offset, spool.len()), (5, 15));
        spool.write(b"x", offset).unwrap();
        assert!(matches!(spooled.read().unwrap_err(), ArrayError::Corrupt { .. }));
        let cut = SpooledBytes { length: length + 1, ..spooled };
        assert!(matches!(cut.read().unwrap_err(), ArrayError::System { .. }));
        let missing = Path::new("/nowhere/at/all");
        assert!(matches!(Spool::new(Some(missing)), Err(ArrayError::System { .. })));
    }
}
