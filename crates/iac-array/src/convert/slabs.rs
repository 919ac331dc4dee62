//! Elements on their way from files into arrays and back, some rows of the first axis at a time.

use std::io::{self, Read};
use std::path::Path;

use super::{ImportOptions, Imported, name_of, place, wished};
use crate::blocking::{ArrayStore, Snapshot};
use crate::data::{ArrayData, Values};
use crate::error::{ArrayError, Result, u64_len, zeroed};
use crate::grid::product;
use crate::meta::ArraySpec;

/// Bytes that are read or written at once, unless a row of chunks has more.
const SLAB_BYTES: u64 = 64 << 20;

/// A file whose arrays go into a store.
pub(super) struct Intake<'a> {
    pub(super) store: &'a mut ArrayStore,
    pub(super) path: &'a Path,
    pub(super) options: &'a ImportOptions,
    report: Imported,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        store: &'a mut ArrayStore,
        path: &'a Path,
        options: &'a ImportOptions,
    ) -> Self {
        Self { store, path, options, report: Imported::default() }
    }

    /// The name for the array of a file that holds one.
    pub(super) fn single_name(&self) -> String {
        self.options.name.clone().unwrap_or_else(|| name_of(self.path))
    }

    /// The name for one of many arrays.
    pub(super) fn member_name(&self, inner: &str) -> String {
        match &self.options.name {
            Some(group) => format!("{group}/{inner}"),
            None => inner.to_owned(),
        }
    }

    /// Counts bytes of elements, of which there may be so many.
    pub(super) fn claim(&mut self, bytes: u64) -> Result<()> {
        let found = self.report.bytes.saturating_add(bytes);
        let allowed = self.options.max_bytes;
        if found > allowed {
            return Err(ArrayError::TooLarge { what: "file's elements (bytes)", found, allowed });
        }
        self.report.bytes = found;
        Ok(())
    }

    /// Defines an array whose elements have so many bytes in the file.
    pub(super) fn define(&mut self, name: &str, spec: ArraySpec, bytes: u64) -> Result<()> {
        self.claim(bytes)?;
        self.store.define(name, wished(name, spec, self.options, false)?)?;
        self.report.arrays.push(name.to_owned());
        Ok(())
    }

    /// The same for an array of which the file may lack parts.
    pub(super) fn define_sparse(&mut self, name: &str, spec: ArraySpec, bytes: u64) -> Result<()> {
        self.claim(bytes)?;
        self.store.define(name, wished(name, spec, self.options, true)?)?;
        self.report.arrays.push(name.to_owned());
        Ok(())
    }

    /// Defines an array and fills it from a stream of elements of `width` bytes, row-major, which
    /// `change` makes into elements of the array.
    pub(super) fn take(
        &mut self,
        name: &str,
        spec: ArraySpec,
        width: u64,
        source: &mut dyn Read,
        change: &dyn Fn(Vec<u8>) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let (dtype, shape) = (spec.dtype.clone(), spec.shape.clone());
        let bytes = self.bytes_of(&shape, width)?;
        self.define(name, spec, bytes)?;
        let chunk = self.store.meta(name)?.chunks().to_vec();
        let mut done = 0_u64;
        for (start, count) in slabs(&shape, &chunk, width) {
            let length = product(&count).unwrap_or(u64::MAX).saturating_mul(width);
            let mut slab = zeroed("slab", length)?;
            source.read_exact(&mut slab).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ArrayError::damaged(
                    self.path,
                    format!(
                        "the elements of `{name}` end behind byte {done} of {bytes}, or before"
                    ),
                ),
                _ => place::unread(self.path, error),
            })?;
            done = done.saturating_add(length);
            let values = Values::Fixed(change(slab)?);
            self.store.write(
                name,
                &start,
                ArrayData { dtype: dtype.clone(), shape: count, values, validity: None },
            )?;
        }
        Ok(())
    }

    /// Bytes of so many elements; more than numbers can say is damage.
    pub(super) fn bytes_of(&self, shape: &[u64], width: u64) -> Result<u64> {
        product(shape).and_then(|elements| elements.checked_mul(width)).ok_or_else(|| {
            ArrayError::damaged(self.path, format!("shape {shape:?} has too many elements"))
        })
    }

    /// Refuses elements that so many bytes, compressed, cannot stand for.
    pub(super) fn check_room(&self, elements: u64, stored: u64, packed: bool) -> Result<()> {
        // Deflate makes at most 1032 bytes of one.
        let most =
            if packed { stored.saturating_mul(1032).saturating_add(1 << 10) } else { stored };
        if elements > most {
            return Err(ArrayError::damaged(
                self.path,
                format!("elements of {elements} bytes cannot be in {stored} bytes"),
            ));
        }
        Ok(())
    }

    /// What the import has come to; one that failed leaves nothing.
    pub(super) fn end(self, done: Result<()>) -> Result<Imported> {
        match done {
            Ok(()) => Ok(self.report),
            Err(error) => {
                for name in &self.report.arrays {
                    drop(self.store.delete(name));
                }
                Err(error)
            }
        }
    }
}

/// Boxes of whole rows along the first axis that cover an array: start and extents.
fn slabs(shape: &[u64], chunk: &[u64], width: u64) -> impl Iterator<Item = (Vec<u64>, Vec<u64>)> {
    let shape = shape.to_vec();
    let rows = shape.first().copied().unwrap_or(1);
    let rows = if shape.contains(&0) { 0 } else { rows };
    let row = shape.get(1..).and_then(product).unwrap_or(1).saturating_mul(width).max(1);
    let step = chunk.first().copied().unwrap_or(1).max(1);
    let fitting = SLAB_BYTES.checked_div(row.saturating_mul(step)).unwrap_or(0).max(1);
    let height = step.saturating_mul(fitting).min(rows.max(1));
    let mut at = 0_u64;
    std::iter::from_fn(move || {
        let count = rows.checked_sub(at).filter(|left| *left > 0)?.min(height);
        let mut start = vec![0; shape.len()];
        let mut extents = shape.clone();
        if let (Some(start), Some(extent)) = (start.first_mut(), extents.first_mut()) {
            *start = at;
            *extent = count;
        }
        at = at.saturating_add(count);
        Some((start, extents))
    })
}

/// Why elements that are null are in no such file.
pub(super) const NO_MASK: &str = "such a file has no place for a mask";

/// Reads an array some rows at a time; nulls are refused.
pub(super) fn give(
    snapshot: &Snapshot,
    name: &str,
    mut each: impl FnMut(ArrayData) -> Result<()>,
) -> Result<()> {
    let meta = snapshot.meta(name)?;
    let width = u64_len(meta.dtype().width().unwrap_or(32));
    for (start, extents) in slabs(meta.shape(), meta.chunks(), width) {
        let slab = snapshot.read(name, &start, &extents)?;
        slab.refuse_nulls(NO_MASK)?;
        each(slab)?;
    }
    Ok(())
}

/// Reverses the bytes of every number of `lane` bytes.
pub(super) fn swap(bytes: &mut [u8], lane: usize) {
    if lane > 1 {
        bytes.chunks_exact_mut(lane).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_cover_every_row_once_in_whole_chunks() {
        for (shape, chunk) in [
            (vec![10, 4], vec![3, 4]),
            (vec![1000, 1 << 20], vec![7, 64]),
            (vec![], vec![]),
            (vec![0, 5], vec![1, 1]),
            (vec![5, 0], vec![1, 1]),
        ] {
            let mut next = 0;
            for (start, extents) in slabs(&shape, &chunk, 8) {
                assert_eq!(start.first().copied().unwrap_or(0), next);
                assert_eq!(next % chunk.first().copied().unwrap_or(1), 0);
                next += extents.first().copied().unwrap_or(1);
            }
            let rows = shape.first().copied().unwrap_or(1);
            assert_eq!(next, if shape.contains(&0) { 0 } else { rows }, "{shape:?}");
        }
    }
}
