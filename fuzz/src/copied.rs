//! A source like a file that is never mapped.

use std::io;

use bytes::Bytes;
use iac_reader::ByteSource;

/// A source that has no memory to share.
#[derive(Debug)]
pub struct Copied(pub Bytes);

impl ByteSource for Copied {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.0.get(offset..)?.get(..buffer.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }
}
