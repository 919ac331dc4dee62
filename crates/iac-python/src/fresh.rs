//! Records of bytes copied straight from a mapped file into `bytes` objects.
//!
//! Going through a buffer costs a second copy of every record, about as much as reading it.
#![allow(unsafe_code)] // objects are filled before anybody else sees them, without the lock

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Once;

use iac_crc::Crc32;
use iatrocache::format::{RecordIndex, RowSpan};
use iatrocache::{FormatError, PackReader, ReadError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors::{Fault, Raise};

/// Batches up to this size are fetched into the cache while their objects are made, the records of
/// larger ones while those before them are copied.
const AHEAD_BATCH: usize = 1 << 20;
/// How many records ahead of the one that is copied.
const AHEAD: usize = 8;
/// What lies behind these bytes of a record is fetched when it is copied.
const AHEAD_BYTES: usize = 4096;

/// Has bytes loaded into the cache while other work goes on.
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

/// Lets the allocator keep the memory of a batch that was dropped, for the next one.
///
/// That of glibc gives the end of its heap back whenever 128 KiB of it are free, and takes as much
/// from the system again, page by page, which costs a fifth of a batch's time; but no longer once
/// the program has released a larger block (`mallopt(3)`, `M_MMAP_THRESHOLD`), as most programs with
/// arrays have. From then on it keeps twice that block. This one is never touched.
fn keep_memory() {
    // Below the 32 MiB of which glibc takes notice.
    const RELEASED_BYTES: usize = 16 << 20;
    static RELEASED: Once = Once::new();
    RELEASED.call_once(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(RELEASED_BYTES))));
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

    /// Fills the place, and gives the CRC-32 of what is in it then; nothing where the record is not
    /// of its length.
    fn fill_and_sum(self, record: &[u8]) -> Option<u32> {
        if record.len() != self.length {
            return None;
        }
        // SAFETY: as in `fill`; nobody else has a reference to the content.
        let content = unsafe {
            std::slice::from_raw_parts_mut(
                self.start.as_ptr().cast::<MaybeUninit<u8>>(),
                self.length,
            )
        };
        let mut sum = Crc32::new();
        sum.write(record, content);
        Some(sum.value())
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

/// Copies the record of a row to its place, and compares it with its checksum where it has one and
/// that is wanted.
fn copy(
    pack: &PackReader,
    row: u64,
    record: &[u8],
    stored: Option<u32>,
    place: Place,
) -> Result<(), Fault> {
    let Some(stored) = stored else { return place.fill(record).ok_or_else(|| lost(pack)) };
    let computed = place.fill_and_sum(record).ok_or_else(|| lost(pack))?;
    if computed == stored {
        return Ok(());
    }
    let path = pack.path().into();
    Err(ReadError::Checksum { path, row, stored, computed }.into())
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
        copy(pack, row, record, span.crc32.filter(|_| check_crc), place)?;
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
    if !ahead {
        keep_memory();
    }
    for span in &spans {
        if ahead && let Some(record) = find(data, span) {
            load_ahead(record);
        }
        let length =
            usize::try_from(span.length).map_err(|_| Fault::value("the record is too large"))?;
        // There is one empty `bytes`, which everybody knows; nothing is written to it.
        let blank = Blank::new(py, length)?;
        places.push(blank.place);
        objects.push(blank.object);
    }
    py.detach(|| -> Result<(), Fault> {
        let mut each = spans.iter().zip(rows).zip(&places);
        let mut coming = spans.iter().skip(if ahead { spans.len() } else { AHEAD });
        let copied = each.try_for_each(|((span, row), place)| {
            if let Some(next) = coming.next().and_then(|span| find(data, span)) {
                load_ahead(next);
            }
            let record = find(data, span).ok_or_else(|| lost(pack))?;
            copy(pack, *row, record, span.crc32, *place)
        });
        // A file that was cut meanwhile reads as zeros where the guard stepped in, and that
        // explains every other error.
        pack.check_intact_lately()?;
        copied
    })
    .raise()?;
    PyList::new(py, objects)
}
