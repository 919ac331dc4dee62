//! Where elements are read to, shared by the threads that bring them.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::data::{Place, Source, Target, copy_out};
use crate::error::{Result, u64_len, usize_len};
use crate::grid::{Selection, product};

/// Parts that a result is cut into, so that threads seldom want the same one.
const BANDS: u64 = 64;
/// Bytes that a part has at least.
const BAND_BYTES: u64 = 64 << 10;
/// Bytes from which on several threads copy one chunk.
const SHARED_COPY: u64 = 4 << 20;

/// The memory of one request.
pub(super) enum Sink<'a> {
    /// Parts along one axis, which lie one after the other in memory.
    Fixed { axis: usize, rows: u64, width: usize, bands: Vec<Band<'a>> },
    /// Elements that each have memory of their own.
    Variable { selection: Selection, values: Mutex<&'a mut [Vec<u8>]> },
}

/// A part of a result, and which elements go there.
pub(super) struct Band<'a> {
    selection: Selection,
    bytes: Mutex<&'a mut [u8]>,
}

impl<'a> Sink<'a> {
    /// Memory for the selected elements, which have a width of so many bytes where it is one.
    pub(super) fn new(selection: &Selection, target: Target<'a>, width: usize) -> Result<Self> {
        let bytes = match target {
            Target::Fixed(bytes) => bytes,
            Target::Variable(values) => {
                return Ok(Self::Variable {
                    selection: selection.clone(),
                    values: Mutex::new(values),
                });
            }
        };
        // The axes in front of this one have one element, so its rows lie one after the other.
        let axis = selection.count.iter().position(|count| *count != 1).unwrap_or(0);
        let count = selection.count.get(axis).copied().unwrap_or(1);
        let row = selection.count.iter().skip(axis.saturating_add(1)).copied();
        let row = product(&row.collect::<Vec<u64>>()).unwrap_or(u64::MAX);
        let row_bytes = row.saturating_mul(u64_len(width)).max(1);
        let rows = count.div_ceil(BANDS).max(BAND_BYTES.div_ceil(row_bytes)).max(1);
        let band_bytes = usize_len("part", rows.saturating_mul(row_bytes))?.max(1);
        let mut bands = Vec::new();
        let mut first = 0_u64;
        for bytes in bytes.chunks_mut(band_bytes) {
            let mut own = selection.clone();
            if let (Some(start), Some(count), Some(step)) =
                (own.start.get_mut(axis), own.count.get_mut(axis), own.step.get(axis))
            {
                *start = start.saturating_add(first.saturating_mul(*step));
                *count = count.saturating_sub(first).min(rows);
            }
            bands.push(Band { selection: own, bytes: Mutex::new(bytes) });
            first = first.saturating_add(rows);
        }
        Ok(Self::Fixed { axis, rows, width, bands })
    }

    /// Bytes of memory, where elements have one width.
    pub(super) fn bytes(&self) -> u64 {
        let Self::Fixed { bands, .. } = self else {
            return 0;
        };
        let length = |band: &Band<'_>| u64_len(lock(&band.bytes).len());
        bands.iter().map(length).fold(0, u64::saturating_add)
    }

    /// Copies what is selected of a box to its places.
    pub(super) fn paste(&self, from: Source<'_>, place: Place<'_>) -> Result<()> {
        let (axis, rows, width, bands) = match self {
            Self::Fixed { axis, rows, width, bands } => (*axis, *rows, *width, bands),
            Self::Variable { selection, values } => {
                let mut values = lock(values);
                return copy_out(from, place, &mut Target::Variable(&mut values), selection, 1);
            }
        };
        let at = |values: &[u64]| values.get(axis).copied().unwrap_or(0);
        let touched = match (bands.first(), bands.len()) {
            (None, _) => return Ok(()),
            (Some(_), 1) => bands.as_slice(),
            (Some(band), count) => {
                // That of the first band begins where the whole selection does.
                let mut whole = band.selection.clone();
                if let Some(all) = whole.count.get_mut(axis) {
                    *all = rows.saturating_mul(u64_len(count));
                }
                let origin = at(place.origin);
                let end = origin.saturating_add(at(place.visible));
                let (first, last) = whole.within(axis, origin, end);
                let place = |k: u64| k.checked_div(rows).and_then(|at| usize::try_from(at).ok());
                let end = place(last.saturating_sub(1)).unwrap_or(count).saturating_add(1);
                let range = place(first).unwrap_or(0)..end.min(count);
                if first == last { &[] } else { bands.get(range).unwrap_or_default() }
            }
        };
        let copy = |band: &Band<'_>| {
            let mut bytes = lock(&band.bytes);
            copy_out(from, place, &mut Target::Fixed(&mut bytes), &band.selection, width)
        };
        let bytes = product(place.visible).unwrap_or(u64::MAX).saturating_mul(u64_len(width));
        if touched.len() > 1 && bytes >= SHARED_COPY && rayon::current_thread_index().is_some() {
            return touched.par_iter().try_for_each(copy);
        }
        touched.iter().try_for_each(copy)
    }
}

/// A thread that panicked left no element half written that anybody gets to see.
fn lock<T: ?Sized>(memory: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
