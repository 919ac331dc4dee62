//! A pack that is in memory already.

use std::io;

use bytes::Bytes;

use super::{ByteSource, cut_error};

/// Bytes in memory as a source: views share them, nothing can vanish.
#[derive(Debug, Clone)]
pub struct Memory {
    bytes: Bytes,
}

impl Memory {
    /// Wraps bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into() }
    }
}

impl ByteSource for Memory {
    fn size(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.bytes.get(offset..)?.get(..buffer.len()))
            .ok_or_else(|| {
                let length = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
                cut_error(self.size(), offset.saturating_add(length))
            })?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn memory(&self) -> Option<&Bytes> {
        Some(&self.bytes)
    }
}
