//! Records of bytes copied straight from a mapped file into `bytes` objects.
//!
//! Going through a buffer costs a second copy of every record, about as much as reading it.
#![allow(unsafe_code)] // objects are filled before anybody else sees them, without the lock

use std::ptr::NonNull;

use iatrocache::format::{RecordIndex, RowSpan};
use iatrocache::{FormatError, PackReader, ReadError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors::{Fault, Raise};

/// Bytes that are copied before they are compared: a part of the first-level cache. Comparing each
/// short record at once instead makes the processor wait for its own copy.
const GROUP_BYTES: usize = 8 << 10;

/// Bytes of long records that are copied, and compared while the next ones are loaded.
const BLOCK_BYTES: usize = 4096;

/// Batches up to this size are fetched into the cache while their objects are made. Longer records
/// than [`AHEAD_BYTES`] are found by the processor's own prefetching.
const AHEAD_BATCH: usize = 1 << 20;
const AHEAD_BYTES: usize = 4096;

/// Has bytes loaded into the cache while other work goes on.
fn load_ahead(record: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in record.chunks(64) {
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
        // SAFETY: nothing else comes from that call.
        let object = unsafe { object.cast_into_unchecked::<PyBytes>() };
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

    /// Fills the place and computes the CRC-32 of what is in it then, block by block: while a block
    /// is summed up, the next one is loaded. Nothing where the record is not of its length.
    fn fill_and_sum(self, record: &[u8], mut sum: crc32fast::Hasher) -> Option<u32> {
        if record.len() < 2 * BLOCK_BYTES {
            self.fill(record)?;
            sum.update(self.filled());
            return Some(sum.finalize());
        }
        if record.len() != self.length {
            return None;
        }
        let mut rest = record;
        let mut start = 0_usize;
        while !rest.is_empty() {
            let (block, behind) = rest.split_at(BLOCK_BYTES.min(rest.len()));
            // SAFETY: `start` and what is copied lie inside the object's content, as its length is
            // that of the record; otherwise as in `fill`.
            let copied = unsafe {
                let target = self.start.as_ptr().add(start);
                std::ptr::copy_nonoverlapping(block.as_ptr(), target, block.len());
                std::slice::from_raw_parts(target, block.len())
            };
            load_ahead(behind.get(..BLOCK_BYTES).unwrap_or(behind));
            sum.update(copied);
            start = start.saturating_add(block.len());
            rest = behind;
        }
        Some(sum.finalize())
    }

    /// The content, after it was filled.
    fn filled(&self) -> &[u8] {
        // SAFETY: as above; `fill` wrote all of it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

/// The storage columns of a pack of records.
fn index_of(pack: &PackReader) -> Result<&RecordIndex, Fault> {
    pack.record_index()?.ok_or_else(|| FormatError::NoRecordIndex.into())
}

fn in_pack(pack: &PackReader, source: FormatError) -> Fault {
    ReadError::Format { path: pack.path().into(), source }.into()
}

#[cold]
fn lost(pack: &PackReader) -> Fault {
    Fault::value(format!("{}: a record lies outside of its file", pack.path()))
}

/// The bytes of a record in the data segment.
fn find<'a>(data: &'a [u8], span: &RowSpan) -> Option<&'a [u8]> {
    let start = usize::try_from(span.offset).ok()?;
    let length = usize::try_from(span.length).ok()?;
    data.get(start..)?.get(..length)
}

fn compare(pack: &PackReader, row: u64, stored: u32, computed: u32) -> Result<(), Fault> {
    if computed == stored {
        return Ok(());
    }
    let path = pack.path().into();
    Err(ReadError::Checksum { path, row, stored, computed }.into())
}

/// A copy of records into objects, and what they are compared with.
struct Copy<'a> {
    pack: &'a PackReader,
    data: &'a [u8],
    rows: &'a [u64],
    spans: &'a [RowSpan],
    places: &'a [Place],
}

impl Copy<'_> {
    /// Copies all records to their places, and compares them group by group.
    fn run(&self, check_crc: bool) -> Result<(), Fault> {
        // Which instructions the processor has is asked once, not for each record.
        let fresh = crc32fast::Hasher::new();
        let mut from = 0_usize;
        let mut bytes = 0_usize;
        for (at, (span, place)) in self.spans.iter().zip(self.places).enumerate() {
            let record = find(self.data, span).ok_or_else(|| lost(self.pack))?;
            if let (true, Some(stored)) = (check_crc && record.len() >= GROUP_BYTES, span.crc32) {
                let computed = place.fill_and_sum(record, fresh.clone());
                let computed = computed.ok_or_else(|| lost(self.pack))?;
                let row = self.rows.get(at).copied().unwrap_or_default();
                compare(self.pack, row, stored, computed)?;
                continue;
            }
            place.fill(record).ok_or_else(|| lost(self.pack))?;
            bytes = bytes.saturating_add(place.length);
            if check_crc && bytes >= GROUP_BYTES {
                let behind = at.saturating_add(1);
                self.compare_all(from, behind, &fresh)?;
                (from, bytes) = (behind, 0);
            }
        }
        if check_crc {
            self.compare_all(from, self.places.len(), &fresh)?;
        }
        Ok(())
    }

    /// Compares the short records of a group.
    fn compare_all(
        &self,
        from: usize,
        behind: usize,
        fresh: &crc32fast::Hasher,
    ) -> Result<(), Fault> {
        let places = self.places.get(from..behind).unwrap_or_default();
        let spans = self.spans.get(from..behind).unwrap_or_default();
        let rows = self.rows.get(from..behind).unwrap_or_default();
        for ((place, span), row) in places.iter().zip(spans).zip(rows) {
            let Some(stored) = span.crc32 else { continue };
            if place.length >= GROUP_BYTES {
                continue;
            }
            let mut sum = fresh.clone();
            sum.update(place.filled());
            compare(self.pack, *row, stored, sum.finalize())?;
        }
        Ok(())
    }
}

/// The stored bytes of one row of a mapped pack, whose data segment is given.
pub(crate) fn record<'py>(
    py: Python<'py>,
    pack: &PackReader,
    data: &[u8],
    row: u64,
    check_crc: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    pack.check_intact_lately().raise()?;
    let span = index_of(pack).raise()?.span(row);
    let span = span.map_err(|source| in_pack(pack, source)).raise()?;
    let record = find(data, &span).ok_or_else(|| lost(pack)).raise()?;
    let blank = Blank::new(py, record.len())?;
    let place = blank.place;
    py.detach(|| -> Result<(), Fault> {
        match span.crc32 {
            Some(stored) if check_crc => {
                let computed = place.fill_and_sum(record, crc32fast::Hasher::new());
                compare(pack, row, stored, computed.ok_or_else(|| lost(pack))?)?;
            }
            _ => place.fill(record).ok_or_else(|| lost(pack))?,
        }
        // A file that was cut meanwhile reads as zeros where the guard stepped in.
        Ok(pack.check_intact_lately()?)
    })
    .raise()?;
    Ok(blank.object)
}

/// The stored bytes of rows of a mapped pack, whose data segment is given, as a list of `bytes`.
pub(crate) fn records<'py>(
    py: Python<'py>,
    pack: &PackReader,
    data: &[u8],
    rows: &[u64],
    check_crc: bool,
) -> PyResult<Bound<'py, PyList>> {
    let mut spans = Vec::new();
    py.detach(|| -> Result<(), Fault> {
        pack.check_intact()?;
        let gathered = index_of(pack)?.gather(rows, check_crc, &mut spans);
        gathered.map_err(|source| in_pack(pack, source))
    })
    .raise()?;
    let mut objects = Vec::with_capacity(spans.len());
    let mut places = Vec::with_capacity(spans.len());
    let total: u64 = spans.iter().map(|span| u64::from(span.length)).sum();
    let ahead = usize::try_from(total).is_ok_and(|total| total <= AHEAD_BATCH);
    for span in &spans {
        if ahead && let Some(record) = find(data, span) {
            load_ahead(record.get(..AHEAD_BYTES).unwrap_or(record));
        }
        let length =
            usize::try_from(span.length).map_err(|_| Fault::value("the record is too large"))?;
        // There is one empty `bytes`, which everybody knows; nothing is written to it.
        let blank = Blank::new(py, length)?;
        places.push(blank.place);
        objects.push(blank.object);
    }
    let copy = Copy { pack, data, rows, spans: &spans, places: &places };
    py.detach(|| -> Result<(), Fault> {
        let copied = copy.run(check_crc);
        // A file that was cut meanwhile reads as zeros where the guard stepped in, and that
        // explains every other error.
        pack.check_intact_lately()?;
        copied
    })
    .raise()?;
    PyList::new(py, objects)
}
