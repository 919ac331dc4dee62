//! Where the bytes of a pack come from. Nothing above this module knows which source it has.

mod mapped;
mod memory;
mod positional;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use bytes::Bytes;

pub use mapped::MappedFile;
pub use memory::Memory;
pub use positional::PositionalFile;

/// How the operating system should expect a pack to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// No special pattern.
    Normal,
    /// Rows in no order: reading ahead is of no use.
    Random,
    /// Rows one after the other: read far ahead.
    Sequential,
}

/// A stretch of a source, and the buffer that takes it.
#[derive(Debug)]
pub struct SourceRead<'a> {
    /// First byte.
    pub offset: u64,
    /// Filled as a whole.
    pub buffer: &'a mut [u8],
}

/// The bytes of one pack, readable from any thread.
///
/// A source either only copies, or also has all its bytes in memory ([`ByteSource::memory`]); of
/// the latter, the ones whose memory can vanish (a mapped file that another process cuts) say so
/// through [`ByteSource::check_size`] and [`ByteSource::check_lost`], which the reader calls
/// around everything that it copies.
pub trait ByteSource: Send + Sync + fmt::Debug {
    /// Number of bytes when the source was opened.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// An error of kind [`io::ErrorKind::UnexpectedEof`] when the source ends before that, or
    /// whatever the operating system reports.
    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Fills many buffers, in any order.
    ///
    /// # Errors
    ///
    /// As [`read_into`](Self::read_into); what the buffers hold is unspecified then.
    fn read_batch(&self, reads: &mut [SourceRead<'_>]) -> io::Result<()> {
        reads.iter_mut().try_for_each(|read| self.read_into(read.offset, read.buffer))
    }

    /// Whether each call costs so much that many stretches should come in one
    /// [`read_batch`](Self::read_batch), as with a server that is far away. Then the reader splits
    /// no batch over threads, and leaves it to the source which stretches to join.
    fn prefers_batches(&self) -> bool {
        false
    }

    /// A stretch that the source has in memory, without a copy.
    fn shared(&self, offset: u64, length: usize) -> Option<Bytes> {
        let memory = self.memory()?;
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(length)?;
        (end <= memory.len()).then(|| memory.slice(start..end))
    }

    /// All bytes of the source as memory, where it has them.
    fn memory(&self) -> Option<&Bytes> {
        None
    }

    /// The same where it costs nothing: a file that is not mapped yet has no memory at hand.
    fn memory_at_hand(&self) -> Option<&Bytes> {
        self.memory()
    }

    /// Whether the first `needed` bytes are still there.
    ///
    /// # Errors
    ///
    /// An error of kind [`io::ErrorKind::UnexpectedEof`] when they are not.
    fn check_size(&self, needed: u64) -> io::Result<()> {
        let _ = needed;
        Ok(())
    }

    /// The same for reads so short that asking would cost as much as the read: a source may rely on
    /// an answer that is a few milliseconds old.
    ///
    /// # Errors
    ///
    /// As [`check_size`](Self::check_size).
    fn check_size_lately(&self, needed: u64) -> io::Result<()> {
        self.check_size(needed)
    }

    /// Whether bytes were lost since the source was opened, which then read as zeros.
    ///
    /// # Errors
    ///
    /// An error of kind [`io::ErrorKind::UnexpectedEof`] when they were.
    fn check_lost(&self) -> io::Result<()> {
        Ok(())
    }

    /// Tells the operating system how the source will be read.
    ///
    /// # Errors
    ///
    /// What the operating system reports; the advice has no effect then.
    fn advise(&self, advice: Advice) -> io::Result<()> {
        let _ = advice;
        Ok(())
    }

    /// Asks the operating system to load a span that will be read soon.
    ///
    /// # Errors
    ///
    /// What the operating system reports; the span is then loaded when it is read.
    fn will_need(&self, offset: u64, length: u64) -> io::Result<()> {
        let _ = (offset, length);
        Ok(())
    }
}

/// Opens a regular file for reading; anything else would block or have no size.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe without a writer would block the open itself.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "is not a regular file"));
    }
    Ok((file, metadata.len()))
}

/// The error for a file that has become shorter than it was.
pub(crate) fn cut_error(found: u64, needed: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("file was cut to {found} bytes while it was open ({needed} are needed)"),
    )
}

/// Whether an open file still has its first `needed` bytes, and how many it has.
fn check_file_size(file: &File, needed: u64) -> io::Result<u64> {
    #[cfg(unix)]
    let found = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    #[cfg(not(unix))]
    let found = file.metadata()?.len();
    if found < needed {
        return Err(cut_error(found, needed));
    }
    Ok(found)
}

/// Fills `buffer` from a file, wherever the file's cursor stands.
pub(crate) fn read_file(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::FileExt;
        let (mut buffer, mut offset) = (buffer, offset);
        while !buffer.is_empty() {
            let count = file.seek_read(buffer, offset)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = buffer.get_mut(count..).unwrap_or_default();
            offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}
