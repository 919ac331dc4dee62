//! A file mapped into memory.
#![allow(unsafe_code)] // mapping a file, and handing its bytes out as a slice

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use memmap2::{Mmap, MmapOptions};

use super::{Advice, ByteSource, check_file_size, cut_error, open_regular, read_file};
use crate::guard::{self, Registration};

/// A file mapped read-only: views borrow the mapping, and owned reads copy out of it after one
/// check of the file's size for each call.
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
            Ok(length) if length > 0 => Ok(Self { file, length, mapped: OnceLock::new() }),
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
        check_file_size(&self.file, needed)
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
