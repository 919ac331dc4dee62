//! Where decoded records go.

use iac_codec::{Codec, CodecError, Limits};

/// Where decoded records go, one behind the other.
pub(crate) trait Target {
    /// The next `length` bytes; nothing where they cannot be had.
    fn room(&mut self, length: usize) -> Option<&mut [u8]>;
    /// Counts the next `length` bytes as filled.
    fn advance(&mut self, length: usize);
    /// Decodes a payload whose size is not known behind what is there, and counts its bytes.
    fn append(
        &mut self,
        codec: &Codec,
        stored: &[u8],
        limits: &Limits,
    ) -> Result<usize, CodecError>;
}

/// A buffer that grows. What an earlier use left behind `filled` is written over, not cleared.
pub(crate) struct Growing<'a> {
    pub(crate) buffer: &'a mut Vec<u8>,
    pub(crate) filled: usize,
}

impl Target for Growing<'_> {
    #[inline]
    fn room(&mut self, length: usize) -> Option<&mut [u8]> {
        let end = self.filled.checked_add(length)?;
        if end > self.buffer.len() {
            self.buffer.try_reserve(end.saturating_sub(self.buffer.len())).ok()?;
            self.buffer.resize(end, 0);
        }
        self.buffer.get_mut(self.filled..end)
    }

    fn advance(&mut self, length: usize) {
        self.filled = self.filled.saturating_add(length);
    }

    fn append(
        &mut self,
        codec: &Codec,
        stored: &[u8],
        limits: &Limits,
    ) -> Result<usize, CodecError> {
        self.buffer.truncate(self.filled);
        codec.decode_bytes_append(stored, self.buffer, limits)?;
        let length = self.buffer.len().saturating_sub(self.filled);
        self.filled = self.buffer.len();
        Ok(length)
    }
}

/// A part of a buffer that another thread fills the rest of.
pub(crate) struct Part<'a> {
    pub(crate) buffer: &'a mut [u8],
    pub(crate) filled: usize,
}

impl Target for Part<'_> {
    #[inline]
    fn room(&mut self, length: usize) -> Option<&mut [u8]> {
        self.buffer.get_mut(self.filled..self.filled.checked_add(length)?)
    }

    fn advance(&mut self, length: usize) {
        self.filled = self.filled.saturating_add(length);
    }

    fn append(
        &mut self,
        codec: &Codec,
        stored: &[u8],
        limits: &Limits,
    ) -> Result<usize, CodecError> {
        // Places are laid out for payloads of known size only, so this is for codecs that change
        // their mind.
        let record = codec.decode_bytes(stored, limits)?;
        let expected = self.buffer.len().saturating_sub(self.filled);
        let room = self.room(record.len()).ok_or_else(|| CodecError::OutputSize {
            name: codec.name().to_owned(),
            expected: u64::try_from(expected).unwrap_or(u64::MAX),
            found: u64::try_from(record.len()).unwrap_or(u64::MAX),
        })?;
        room.copy_from_slice(&record);
        self.advance(record.len());
        Ok(record.len())
    }
}
