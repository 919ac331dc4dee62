//! A source with some stretches in memory.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::pack::PackReader;
use crate::source::{Advice, ByteSource, SourceRead};

/// A source of which some stretches were fetched already.
#[derive(Debug)]
pub(crate) struct Overlay {
    beneath: Arc<dyn ByteSource>,
    /// In the order of their offsets, none inside another.
    fetched: Vec<(u64, Bytes)>,
}

impl Overlay {
    /// The fetched stretch that holds another one.
    fn find(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let behind = self.fetched.partition_point(|(start, _)| *start <= offset);
        let (start, bytes) = self.fetched.get(behind.checked_sub(1)?)?;
        let inside = usize::try_from(offset.checked_sub(*start)?).ok()?;
        bytes.get(inside..)?.get(..length)
    }
}

impl ByteSource for Overlay {
    fn size(&self) -> u64 {
        self.beneath.size()
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self.find(offset, buffer.len()) {
            Some(found) => {
                buffer.copy_from_slice(found);
                Ok(())
            }
            None => self.beneath.read_into(offset, buffer),
        }
    }

    fn read_batch(&self, reads: &mut [SourceRead<'_>]) -> io::Result<()> {
        let mut missing = Vec::new();
        for read in reads {
            match self.find(read.offset, read.buffer.len()) {
                Some(found) => read.buffer.copy_from_slice(found),
                None => missing.push(SourceRead { offset: read.offset, buffer: read.buffer }),
            }
        }
        if missing.is_empty() { Ok(()) } else { self.beneath.read_batch(&mut missing) }
    }

    /// Reads should be just those that were fetched, not joined with what lies between.
    fn prefers_batches(&self) -> bool {
        true
    }

    fn shared(&self, offset: u64, length: usize) -> Option<Bytes> {
        self.beneath.shared(offset, length)
    }

    fn check_size(&self, needed: u64) -> io::Result<()> {
        self.beneath.check_size(needed)
    }

    fn check_lost(&self) -> io::Result<()> {
        self.beneath.check_lost()
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        self.beneath.advise(advice)
    }

    fn will_need(&self, offset: u64, length: u64) -> io::Result<()> {
        self.beneath.will_need(offset, length)
    }
}

/// Stretches in the order of the file, without those that lie inside others; ones that overlap or
/// touch are one.
pub(crate) fn merged(mut stretches: Vec<Range<u64>>) -> Vec<Range<u64>> {
    stretches.sort_unstable_by_key(|stretch| stretch.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for stretch in stretches {
        match merged.last_mut() {
            Some(last) if stretch.start <= last.end => last.end = last.end.max(stretch.end),
            _ => merged.push(stretch),
        }
    }
    merged
}

impl PackReader {
    /// The same pack with what was fetched of it, which comes in the order of the file.
    pub(crate) fn with_fetched(&self, fetched: Vec<(u64, Bytes)>) -> Self {
        let beneath = Arc::clone(&self.inner.content.source);
        self.with_source(Arc::new(Overlay { beneath, fetched }))
    }

    /// The same pack with the stored bytes of some rows in memory, so that reading these waits for
    /// nothing. Sources that have everything in memory stay as they are.
    ///
    /// # Errors
    ///
    /// As [`read_rows`](Self::read_rows), but records are compared with their checksums only when
    /// they are read.
    pub fn fetch(&self, rows: &[u64]) -> Result<Self> {
        let content = &self.inner.content;
        if content.source.memory().is_some() {
            return Ok(self.clone());
        }
        let merged = merged(self.stretches(rows)?);
        let total = merged.iter().fold(0_u64, |sum, stretch| {
            sum.saturating_add(stretch.end.saturating_sub(stretch.start))
        });
        let no_memory =
            || crate::gather::no_memory(content, usize::try_from(total).unwrap_or(usize::MAX));
        let mut buffer =
            crate::gather::reserve(content, usize::try_from(total).map_err(|_| no_memory())?)?;
        buffer.resize(usize::try_from(total).map_err(|_| no_memory())?, 0);
        let mut reads = Vec::with_capacity(merged.len());
        let mut rest = buffer.as_mut_slice();
        for stretch in &merged {
            let length = usize::try_from(stretch.end.saturating_sub(stretch.start));
            let length = length.map_err(|_| no_memory())?;
            let (target, behind) = rest.split_at_mut_checked(length).ok_or_else(no_memory)?;
            reads.push(SourceRead { offset: stretch.start, buffer: target });
            rest = behind;
        }
        content.source.read_batch(&mut reads).map_err(|e| content.io_error("read", e))?;
        drop(reads);
        let buffer = Bytes::from(buffer);
        let mut start = 0_usize;
        let fetched = merged.iter().map(|stretch| {
            let length = usize::try_from(stretch.end.saturating_sub(stretch.start)).unwrap_or(0);
            let end = start.saturating_add(length).min(buffer.len());
            let bytes = buffer.slice(start..end);
            start = end;
            (stretch.start, bytes)
        });
        Ok(self.with_fetched(fetched.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Memory;

    #[test]
    fn what_was_fetched_is_not_read_again_and_the_rest_is() {
        let beneath = Arc::new(Memory::new(vec![7_u8; 100]));
        let fetched = vec![(10, Bytes::from(vec![1; 10])), (30, Bytes::from(vec![2; 5]))];
        let overlay = Overlay { beneath, fetched };
        let read = |offset, length| {
            let mut buffer = vec![0; length];
            overlay.read_into(offset, &mut buffer).map(|()| buffer)
        };
        assert_eq!(read(10, 10).unwrap(), [1; 10]);
        assert_eq!(read(12, 3).unwrap(), [1; 3]);
        assert_eq!(read(30, 5).unwrap(), [2; 5]);
        assert_eq!(read(9, 3).unwrap(), [7; 3], "partly fetched counts as not fetched");
        assert_eq!(read(18, 3).unwrap(), [7; 3]);
        assert_eq!(read(0, 2).unwrap(), [7; 2]);
        assert!(read(99, 2).is_err());
    }

    #[test]
    fn overlapping_stretches_are_fetched_once() {
        assert_eq!(merged(vec![5..9, 0..2, 6..7, 9..12, 20..20, 5..9]), [0..2, 5..12, 20..20]);
    }
}
