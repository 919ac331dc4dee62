//! Records of bytes copied straight from a mapped file into `bytes` objects.
//!
//! Going through a buffer costs a second copy of every record, about as much as reading it.
#![allow(unsafe_code)] // objects are filled before anybody else sees them, without the lock

use std::ptr::NonNull;

use bytes::Bytes;
use iatrocache::format::RowSpan;
use iatrocache::{FormatError, PackReader, ReadError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors::{Fault, Raise};

/// Bytes that are copied before they are compared: a part of the second-level cache.
const GROUP_BYTES: usize = 32 << 10;

/// Batches up to this size are fetched into the cache while their objects are made. Longer records
/// than [`AHEAD_BYTES`] are found by the processor's own prefetching.
const AHEAD_BATCH: usize = 1 << 20;
const AHEAD_BYTES: usize = 4096;

/// Has the start of a record loaded into the cache while other work goes on.
fn load_ahead(record: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in record.get(..AHEAD_BYTES).unwrap_or(record).chunks(64) {
        // SAFETY: a prefetch reads nothing and never faults, whatever the address; this one is that
        // of a slice.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
                line.as_ptr().cast(),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = record;
}

/// A `bytes` object whose content is not written yet.
struct Blank<'py> {
    object: Bound<'py, PyBytes>,
    place: Place,
}

/// Where the content of a [`Blank`] goes.
#[derive(Clone, Copy)]
struct Place {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is that of an object which only this call knows of yet, and each place is
// written by one thread only.
unsafe impl Send for Place {}
// SAFETY: as above; a shared place is never read or written.
unsafe impl Sync for Place {}

impl<'py> Blank<'py> {
    fn new(py: Python<'py>, length: usize) -> PyResult<Self> {
        let size = isize::try_from(length).map_err(|_| Fault::value("the record is too large"))?;
        // SAFETY: a null pointer asks for an object with content that is not initialised; what
        // comes back is such an object or an exception.
        let object = unsafe {
            Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), size))
        }?;
        let object = object.cast_into::<PyBytes>()?;
        // SAFETY: the object is a `bytes`, so this is where its content is.
        let start = unsafe { ffi::PyBytes_AsString(object.as_ptr()) };
        let start = NonNull::new(start.cast()).ok_or_else(|| Fault::value("no memory"))?;
        Ok(Self { object, place: Place { start, length } })
    }
}

impl Place {
    /// Fills the place; nothing where the record is not of its length.
    fn fill(self, record: &[u8]) -> Option<()> {
        if record.len() != self.length {
            return None;
        }
        // SAFETY: the object was made with room for this many bytes, is alive (the caller holds
        // it), is known to nobody else, and is not part of a mapped file.
        unsafe {
            std::ptr::copy_nonoverlapping(record.as_ptr(), self.start.as_ptr(), record.len());
        }
        Some(())
    }

    /// The content, after it was filled.
    fn filled(&self) -> &[u8] {
        // SAFETY: as above; `fill` wrote all of it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

/// What a call needs of a mapped pack: the spans of its rows and the data segment.
struct Mapped {
    spans: Vec<RowSpan>,
    data: Bytes,
}

fn look_up(pack: &PackReader, rows: &[u64]) -> Result<Option<Mapped>, Fault> {
    let Some(index) = pack.record_index()? else {
        return Err(FormatError::NoRecordIndex.into());
    };
    let data = match pack.data_view(0, pack.layout().data.length) {
        Ok(data) => data,
        Err(ReadError::NoViews { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut spans = Vec::new();
    let path = || pack.path().into();
    index
        .gather(rows, true, &mut spans)
        .map_err(|source| ReadError::Format { path: path(), source })?;
    Ok(Some(Mapped { spans, data }))
}

impl Mapped {
    fn record(&self, span: &RowSpan) -> Option<&[u8]> {
        let start = usize::try_from(span.offset).ok()?;
        let length = usize::try_from(span.length).ok()?;
        self.data.get(start..)?.get(..length)
    }

    /// Copies all records to their places, and compares them group by group.
    fn copy(
        &self,
        pack: &PackReader,
        rows: &[u64],
        places: &[Place],
        check_crc: bool,
    ) -> Result<(), Fault> {
        let lost = || Fault::value(format!("{}: a record lies outside of its file", pack.path()));
        // Which instructions the processor has is asked once, not for each record.
        let fresh = crc32fast::Hasher::new();
        let mut from = 0_usize;
        let mut bytes = 0_usize;
        for (at, (span, place)) in self.spans.iter().zip(places).enumerate() {
            let record = self.record(span).ok_or_else(lost)?;
            place.fill(record).ok_or_else(lost)?;
            bytes = bytes.saturating_add(place.length);
            let behind = at.saturating_add(1);
            if !check_crc || (bytes < GROUP_BYTES && behind < places.len()) {
                continue;
            }
            for group in from..behind {
                let (Some(span), Some(place), Some(row)) =
                    (self.spans.get(group), places.get(group), rows.get(group))
                else {
                    continue;
                };
                let Some(stored) = span.crc32 else { continue };
                let mut sum = fresh.clone();
                sum.update(place.filled());
                let computed = sum.finalize();
                if computed != stored {
                    let path = pack.path().into();
                    return Err(ReadError::Checksum { path, row: *row, stored, computed }.into());
                }
            }
            (from, bytes) = (behind, 0);
        }
        // A file that was cut meanwhile reads as zeros where the guard stepped in.
        Ok(pack.check_intact()?)
    }
}

/// The stored bytes of rows as a list of `bytes`; nothing where the file is not mapped.
pub(crate) fn records<'py>(
    py: Python<'py>,
    pack: &PackReader,
    rows: &[u64],
    check_crc: bool,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let Some(mapped) = py.detach(|| look_up(pack, rows)).raise()? else { return Ok(None) };
    let mut objects = Vec::with_capacity(mapped.spans.len());
    let mut places = Vec::with_capacity(mapped.spans.len());
    let total: u64 = mapped.spans.iter().map(|span| u64::from(span.length)).sum();
    let ahead = usize::try_from(total).is_ok_and(|total| total <= AHEAD_BATCH);
    for span in &mapped.spans {
        if ahead && let Some(record) = mapped.record(span) {
            load_ahead(record);
        }
        let length =
            usize::try_from(span.length).map_err(|_| Fault::value("the record is too large"))?;
        // There is one empty `bytes`, which everybody knows; nothing is written to it.
        let blank = Blank::new(py, length)?;
        places.push(blank.place);
        objects.push(blank.object);
    }
    py.detach(|| mapped.copy(pack, rows, &places, check_crc)).raise()?;
    PyList::new(py, objects).map(Some)
}
