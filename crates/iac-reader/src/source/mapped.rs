//! A file mapped into memory.
#![allow(unsafe_code)] // mapping a file, and handing its bytes out as a slice

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use memmap2::{Mmap, MmapOptions};

use super::{Advice, ByteSource, check_file_size, cut_error, open_regular, read_file};
use crate::guard::{self, Registration};

/// A file mapped read-only: views borrow the mapping, and owned reads copy out of it after one
/// check of the file's size for each call. Reads of single records share a check with those of the
/// same tick of the system's coarse clock (4 ms on most machines; Linux only).
///
/// The mapping is made when the memory is first asked for: whoever only looks at the header and at
/// a small table never pays for one.
///
/// Packs are immutable: writers publish new files and never change one in place. Where another
/// process cuts the file all the same, [`crate::guard`] keeps this process alive.
#[derive(Debug)]
pub struct MappedFile {
    file: File,
    length: usize,
    /// Nothing in it when the file could not be mapped: then it is read like any other.
    mapped: OnceLock<Option<Mapped>>,
    seen: Seen,
}

/// When the file was last seen, and how long it was then.
#[derive(Debug, Default)]
struct Seen {
    /// A tick of the coarse clock; 0 for never.
    tick: AtomicU64,
    size: AtomicU64,
}

impl Seen {
    fn note(&self, tick: u64, size: u64) {
        self.size.store(size, Ordering::Relaxed);
        // Whoever reads this tick reads that size, or one that another thread has noted since: that
        // may be older than the tick if the thread was held up between asking and noting.
        self.tick.store(tick, Ordering::Release);
    }

    /// Whether the file had its first `needed` bytes at this tick.
    fn is_noted(&self, tick: u64, needed: u64) -> bool {
        self.tick.load(Ordering::Acquire) == tick && self.size.load(Ordering::Relaxed) >= needed
    }
}

/// The tick of the system's coarse clock, which costs no call of the system; nothing where there is
/// no such clock.
#[cfg(target_os = "linux")]
fn tick() -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure that it is given.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) } != 0 {
        return None;
    }
    let seconds = u64::try_from(now.tv_sec).ok()?;
    let nanoseconds = u64::try_from(now.tv_nsec).ok()?;
    // Never 0, which stands for never.
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?.checked_add(1)
}

#[cfg(not(target_os = "linux"))]
const fn tick() -> Option<u64> {
    None
}

#[derive(Debug)]
struct Mapped {
    mapping: Arc<Mapping>,
    bytes: Bytes,
}

#[derive(Debug)]
struct Mapping {
    // Dropped in this order: the guard must forget the addresses before they can mean another mapping.
    registration: Registration,
    map: Mmap,
}

/// What [`Bytes`] keeps alive: views share the mapping and outlive the reader.
struct Owner(Arc<Mapping>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

impl MappedFile {
    /// Opens a file that is mapped on first use.
    ///
    /// # Errors
    ///
    /// What the operating system reports; a directory, a pipe or an empty file is refused.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let (file, size) = open_regular(path.as_ref())?;
        Self::from_file(file, size).map_err(|(_, error)| error)
    }

    /// Takes an open file; gives it back when it is one that cannot be mapped.
    pub(crate) fn from_file(file: File, size: u64) -> Result<Self, (File, io::Error)> {
        match usize::try_from(size) {
            Ok(length) if length > 0 => {
                Ok(Self { file, length, mapped: OnceLock::new(), seen: Seen::default() })
            }
            _ => Err((file, io::ErrorKind::InvalidInput.into())),
        }
    }

    fn mapped(&self) -> Option<&Mapped> {
        self.mapped.get_or_init(|| self.map().ok()).as_ref()
    }

    fn map(&self) -> io::Result<Mapped> {
        // SAFETY: the mapping is read-only and private to this process, and stays until the last
        // `Bytes` over it is gone. Its content is not written by us; that others leave it alone is
        // the format's promise (a published pack is immutable). Where they break it, what was
        // copied is checked against its checksum before anybody interprets it, and a cut file is
        // met by the size checks and the guard.
        let map = unsafe { MmapOptions::new().len(self.length).map(&self.file) }?;
        let registration = guard::register(map.as_ptr() as usize, map.len());
        let mapping = Arc::new(Mapping { registration, map });
        let bytes = Bytes::from_owner(Owner(Arc::clone(&mapping)));
        Ok(Mapped { mapping, bytes })
    }
}

impl ByteSource for MappedFile {
    fn size(&self) -> u64 {
        u64::try_from(self.length).unwrap_or(u64::MAX)
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_file(&self.file, offset, buffer)
    }

    fn memory(&self) -> Option<&Bytes> {
        self.mapped().map(|mapped| &mapped.bytes)
    }

    fn memory_at_hand(&self) -> Option<&Bytes> {
        self.mapped.get()?.as_ref().map(|mapped| &mapped.bytes)
    }

    fn check_size(&self, needed: u64) -> io::Result<()> {
        check_file_size(&self.file, needed).map(drop)
    }

    fn check_size_lately(&self, needed: u64) -> io::Result<()> {
        let tick = tick();
        if tick.is_some_and(|tick| self.seen.is_noted(tick, needed)) {
            return Ok(());
        }
        let size = check_file_size(&self.file, needed)?;
        if let Some(tick) = tick {
            self.seen.note(tick, size);
        }
        Ok(())
    }

    fn check_lost(&self) -> io::Result<()> {
        let mapped = self.mapped.get().and_then(Option::as_ref);
        if mapped.is_some_and(|mapped| mapped.mapping.registration.is_lost()) {
            let found = self.file.metadata().map_or(0, |metadata| metadata.len());
            return Err(cut_error(found, self.size()));
        }
        Ok(())
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(mapped) = self.mapped() {
            mapped.mapping.map.advise(match advice {
                Advice::Normal => memmap2::Advice::Normal,
                Advice::Random => memmap2::Advice::Random,
                Advice::Sequential => memmap2::Advice::Sequential,
            })?;
        }
        #[cfg(not(unix))]
        let _ = advice;
        Ok(())
    }

    fn will_need(&self, offset: u64, length: u64) -> io::Result<()> {
        #[cfg(unix)]
        if let (Ok(offset), Ok(length), Some(mapped)) =
            (usize::try_from(offset), usize::try_from(length), self.mapped())
        {
            mapped.mapping.map.advise_range(memmap2::Advice::WillNeed, offset, length)?;
        }
        #[cfg(not(unix))]
        let _ = (offset, length);
        Ok(())
    }
}
