//! What several threads put aside until its place in the pack is known.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use iac_format::ErrorKind;

use crate::dicom::fault::{Fault, Result};

/// Offset and length in a spool.
pub(crate) type Place = (u64, u64);

/// A nameless file beside the target. The order in which things lie there has no meaning.
#[derive(Debug)]
pub(crate) struct SharedSpool {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    length: u64,
    /// Bulk data by its hash: place and size before compression.
    bulk: HashMap<[u8; 32], (Place, u64)>,
}

impl SharedSpool {
    pub(crate) fn new(target: &Path) -> Self {
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Self { folder: folder.to_owned(), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, action: &str, error: &std::io::Error) -> Fault {
        let folder = self.folder.display();
        Fault::new(ErrorKind::Io, format!("cannot {action} a temporary file in {folder}: {error}"))
    }

    fn append_locked(&self, state: &mut State, bytes: &[u8]) -> Result<Place> {
        let mut file = match state.file.take() {
            Some(file) => file,
            None => {
                tempfile::tempfile_in(&self.folder).map_err(|error| self.failed("make", &error))?
            }
        };
        let written = file.seek(SeekFrom::Start(state.length)).and_then(|_| file.write_all(bytes));
        state.file = Some(file);
        written.map_err(|error| self.failed("write", &error))?;
        let place = (state.length, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        state.length = state.length.saturating_add(place.1);
        Ok(place)
    }

    pub(crate) fn append(&self, bytes: &[u8]) -> Result<Place> {
        let mut state = self.lock();
        self.append_locked(&mut state, bytes)
    }

    /// Whether bulk data of a hash is there.
    pub(crate) fn has_bulk(&self, hash: &[u8; 32]) -> bool {
        self.lock().bulk.contains_key(hash)
    }

    /// Keeps compressed bulk data; once for each hash.
    pub(crate) fn add_bulk(&self, hash: [u8; 32], compressed: &[u8], size: u64) -> Result<()> {
        let mut state = self.lock();
        if !state.bulk.contains_key(&hash) {
            let place = self.append_locked(&mut state, compressed)?;
            state.bulk.insert(hash, (place, size));
        }
        Ok(())
    }

    pub(crate) fn bulk(&self, hash: &[u8; 32]) -> Option<(Place, u64)> {
        self.lock().bulk.get(hash).copied()
    }

    pub(crate) fn read(&self, (offset, length): Place) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let mut state = self.lock();
        let file = state.file.as_mut();
        let file = file.ok_or_else(|| Fault::decode("a temporary file is missing"))?;
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| self.failed("read", &error))?;
        Ok(bytes)
    }
}

/// A number of places for work that needs a lot of memory.
#[derive(Debug)]
pub(crate) struct Permits {
    free: Mutex<usize>,
    changed: Condvar,
}

/// One of them; given back when it is dropped.
pub(crate) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), changed: Condvar::new() }
    }

    /// Waits for a place.
    pub(crate) fn take(&self) -> Permit<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.changed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free = free.saturating_sub(1);
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = free.saturating_add(1);
        self.0.changed.notify_one();
    }
}
