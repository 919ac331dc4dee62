//! Bringing the records of a batch together.
//!
//! A batch is resolved to pieces first. From memory they are copied in the order asked for, while
//! the processor is told which come next; from a source that only copies they are read in the order
//! of the file, neighbours at once. Large batches are split over threads.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use iac_crc::Crc32;

use crate::batch::ContiguousRecordBatch;
use crate::content::{Content, RowAddresses};
use crate::error::{ReadError, Result};
use crate::pack::PackReader;
use crate::prefetch::{find_ahead, load_ahead};
use crate::source::SourceRead;
use crate::spare;

/// Batches with fewer bytes stay on the calling thread: handing a part over costs about as much as
/// copying this many.
const SPLIT_BYTES: usize = 1 << 20;
/// How many records ahead of the one that is copied the processor is told of.
pub(crate) const AHEAD: usize = 8;
/// How many ahead it is told where they begin.
const FAR_AHEAD: usize = 4 * AHEAD;

/// One record of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// First byte in the file.
    pub(crate) start: u64,
    pub(crate) length: usize,
    pub(crate) row: u64,
    pub(crate) crc32: Option<u32>,
    /// Position in the caller's batch.
    pub(crate) slot: usize,
}

/// What records are copied to, one behind the other.
trait Sink {
    fn put(&mut self, record: &[u8]) -> Option<()>;
    /// The same, with the record's sum.
    fn put_summed(&mut self, record: &[u8]) -> Option<u32>;
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, record: &[u8]) -> Option<()> {
        self.extend_from_slice(record);
        Some(())
    }

    #[inline]
    fn put_summed(&mut self, record: &[u8]) -> Option<u32> {
        let mut sum = Crc32::new();
        sum.append(record, self);
        Some(sum.value())
    }
}

/// A part of a buffer that another thread fills the rest of.
struct Part<'a> {
    buffer: &'a mut [u8],
    filled: usize,
}

impl Part<'_> {
    #[inline]
    fn next(&mut self, length: usize) -> Option<&mut [u8]> {
        let start = self.filled;
        self.filled = start.checked_add(length)?;
        self.buffer.get_mut(start..self.filled)
    }
}

impl Sink for Part<'_> {
    #[inline]
    fn put(&mut self, record: &[u8]) -> Option<()> {
        self.next(record.len())?.copy_from_slice(record);
        Some(())
    }

    #[inline]
    fn put_summed(&mut self, record: &[u8]) -> Option<u32> {
        let mut sum = Crc32::new();
        sum.copy(record, self.next(record.len())?);
        Some(sum.value())
    }
}

impl PackReader {
    /// The records of a batch, each a slice of what its thread allocated.
    pub(crate) fn gather_owned(&self, rows: &[u64]) -> Result<Vec<Bytes>> {
        let mut pieces = self.pieces(rows)?;
        if self.inner.content.source.memory().is_none() {
            pieces.sort_unstable_by_key(|piece| piece.start);
        }
        let total = total_length(&self.inner.content, &pieces)?;
        let mut records = vec![Bytes::new(); rows.len()];
        let mut put = |slot: usize, record: Bytes| {
            if let Some(place) = records.get_mut(slot) {
                *place = record;
            }
        };
        let parts = self.parts(total, pieces.len());
        if parts == 1 {
            self.read_part(&pieces, total, put)?;
            return Ok(records);
        }
        let mut done = Vec::new();
        done.resize_with(parts, || Ok(Vec::new()));
        self.options.workers.scope(|scope| {
            let mut rest = pieces.as_slice();
            for (left, result) in (1..=parts).rev().zip(&mut done) {
                let (part, behind) = rest.split_at(share_of(rest, left));
                rest = behind;
                let mut work = move || {
                    let mut found = Vec::with_capacity(part.len());
                    let put = |slot, record| found.push((slot, record));
                    *result = self.read_part(part, length_of(part), put).map(|()| found);
                };
                if left == 1 {
                    work();
                } else {
                    scope.spawn(move |_| work());
                }
            }
        });
        for part in done {
            for (slot, record) in part? {
                put(slot, record);
            }
        }
        Ok(records)
    }

    /// The records of a batch one behind the other in the batch's buffer.
    pub(crate) fn gather_contiguous(
        &self,
        rows: &[u64],
        batch: &mut ContiguousRecordBatch,
    ) -> Result<()> {
        let content = &self.inner.content;
        let mut pieces = self.pieces(rows)?;
        let total = total_length(content, &pieces)?;
        let ContiguousRecordBatch { buffer, offsets } = batch;
        offsets.clear();
        offsets.push(0);
        let mut end = 0_u64;
        for piece in &pieces {
            end = end.saturating_add(u64::try_from(piece.length).unwrap_or(u64::MAX));
            offsets.push(end);
        }
        if buffer.capacity() < total {
            let larger = spare::buffer(total).ok_or_else(|| no_memory(content, total))?;
            spare::keep(std::mem::replace(buffer, larger));
        }
        let parts = self.parts(total, pieces.len());
        if let (1, Some(memory)) = (parts, content.source.memory()) {
            buffer.clear();
            return self.copy_from_memory(memory, &pieces, buffer);
        }
        buffer.resize(total, 0);
        self.fill(&mut pieces, offsets, buffer, parts)
    }

    /// The rows of a fixed pack one behind the other in a buffer of just their size.
    pub(crate) fn gather_fixed(&self, rows: &[u64], buffer: &mut [u8]) -> Result<()> {
        let mut pieces = self.pieces(rows)?;
        let parts = self.parts(buffer.len(), pieces.len());
        if let (1, Some(memory)) = (parts, self.inner.content.source.memory()) {
            return self.copy_from_memory(memory, &pieces, &mut Part { buffer, filled: 0 });
        }
        let mut offsets = Vec::with_capacity(pieces.len());
        let mut end = 0_u64;
        for piece in &pieces {
            offsets.push(end);
            end = end.saturating_add(u64::try_from(piece.length).unwrap_or(u64::MAX));
        }
        self.fill(&mut pieces, &offsets, buffer, parts)
    }

    /// Reads pieces to their places in a buffer of just their size, split over so many threads.
    fn fill(
        &self,
        pieces: &mut [Piece],
        offsets: &[u64],
        buffer: &mut [u8],
        parts: usize,
    ) -> Result<()> {
        if parts == 1 {
            return self.fill_part(pieces, 0, offsets, buffer);
        }
        let mut done = Vec::new();
        done.resize_with(parts, || Ok(()));
        self.options.workers.scope(|scope| {
            let mut rest = pieces;
            let mut buffer = buffer;
            let mut first = 0_usize;
            for (left, result) in (1..=parts).rev().zip(&mut done) {
                let count = share_of(rest, left);
                let (part, behind) = rest.split_at_mut(count);
                rest = behind;
                let (target, behind) = buffer.split_at_mut(length_of(part).min(buffer.len()));
                buffer = behind;
                let mut work = move || *result = self.fill_part(part, first, offsets, target);
                first = first.saturating_add(count);
                if left == 1 {
                    work();
                } else {
                    scope.spawn(move |_| work());
                }
            }
        });
        done.into_iter().collect()
    }

    /// Reads pieces into one allocation and hands each record out with its slot.
    fn read_part(
        &self,
        pieces: &[Piece],
        bytes: usize,
        mut put: impl FnMut(usize, Bytes),
    ) -> Result<()> {
        let content = &self.inner.content;
        let mut buffer = spare::buffer(bytes).ok_or_else(|| no_memory(content, bytes))?;
        buffer.clear();
        if let Some(memory) = content.source.memory() {
            self.copy_from_memory(memory, pieces, &mut buffer)?;
        } else {
            if content.source.prefers_batches() {
                buffer.resize(bytes, 0);
                read_each(content, pieces, &mut buffer)?;
                self.check_all(pieces, &buffer)?;
            } else {
                for run in runs(pieces) {
                    let start = buffer.len();
                    let first = run.first().map_or(0, |piece| piece.start);
                    append(content, first, length_of(run), &mut buffer)?;
                    self.check_all(run, buffer.get(start..).unwrap_or_default())?;
                }
            }
        }
        let buffer = spare::share(buffer);
        let mut start = 0_usize;
        for piece in pieces {
            let end = start.saturating_add(piece.length).min(buffer.len());
            put(piece.slot, buffer.slice(start..end));
            start = end;
        }
        Ok(())
    }

    /// One record, compared with its checksum.
    pub(crate) fn owned(&self, piece: &Piece) -> Result<Vec<u8>> {
        let content = &self.inner.content;
        let mut buffer = reserve(content, piece.length)?;
        match content.source.memory() {
            Some(memory) => self.copy_piece(memory, piece, &mut buffer)?,
            None => {
                append(content, piece.start, piece.length, &mut buffer)?;
                self.check(piece, &buffer)?;
            }
        }
        Ok(buffer)
    }

    /// Copies pieces one behind the other, and compares each with its checksum.
    fn copy_from_memory(
        &self,
        memory: &[u8],
        pieces: &[Piece],
        sink: &mut impl Sink,
    ) -> Result<()> {
        // A copy alone is quick enough for the processor to find the rest of a record by itself.
        let is_summed =
            self.options.check_crc && pieces.first().is_some_and(|piece| piece.crc32.is_some());
        let mut coming = pieces.iter().skip(if is_summed { AHEAD } else { pieces.len() });
        let mut far = pieces.iter().skip(FAR_AHEAD);
        for piece in pieces {
            if let Some(record) = far.next().and_then(|piece| piece.find_in(memory)) {
                find_ahead(record);
            }
            if let Some(record) = coming.next().and_then(|piece| piece.find_in(memory)) {
                load_ahead(record);
            }
            self.copy_piece(memory, piece, sink)?;
        }
        Ok(())
    }

    #[inline]
    fn copy_piece(&self, memory: &[u8], piece: &Piece, sink: &mut impl Sink) -> Result<()> {
        let lost = || lost(&self.inner.content);
        let record = piece.find_in(memory).ok_or_else(lost)?;
        match piece.crc32.filter(|_| self.options.check_crc) {
            Some(stored) => {
                let computed = sink.put_summed(record).ok_or_else(lost)?;
                self.compare_sums(piece.row, stored, computed)
            }
            None => sink.put(record).ok_or_else(lost),
        }
    }

    /// Fills the part of a contiguous buffer that starts at record `first` of the batch.
    fn fill_part(
        &self,
        pieces: &mut [Piece],
        first: usize,
        offsets: &[u64],
        target: &mut [u8],
    ) -> Result<()> {
        let content = &self.inner.content;
        if let Some(memory) = content.source.memory() {
            return self.copy_from_memory(memory, pieces, &mut Part { buffer: target, filled: 0 });
        }
        if content.source.prefers_batches() {
            read_each(content, pieces, target)?;
            return self.check_all(pieces, target);
        }
        pieces.sort_unstable_by_key(|piece| piece.start);
        let base = offsets.get(first).copied().unwrap_or(0);
        for piece in pieces.iter() {
            let start = offsets.get(piece.slot).and_then(|start| start.checked_sub(base));
            let record = start
                .and_then(|start| usize::try_from(start).ok())
                .and_then(|start| target.get_mut(start..)?.get_mut(..piece.length))
                .ok_or_else(|| lost(content))?;
            content
                .source
                .read_into(piece.start, record)
                .map_err(|source| content.io_error("read", source))?;
            self.check(piece, record)?;
        }
        Ok(())
    }

    /// Compares records that lie one behind the other with their checksums.
    fn check_all(&self, pieces: &[Piece], mut bytes: &[u8]) -> Result<()> {
        if !self.options.check_crc {
            return Ok(());
        }
        // Which instructions the processor has is asked once, not for each record.
        let fresh = crc32fast::Hasher::new();
        for piece in pieces {
            let (record, behind) =
                bytes.split_at_checked(piece.length).ok_or_else(|| lost(&self.inner.content))?;
            if let Some(stored) = piece.crc32 {
                let mut hasher = fresh.clone();
                hasher.update(record);
                self.compare_sums(piece.row, stored, hasher.finalize())?;
            }
            bytes = behind;
        }
        Ok(())
    }

    /// Compares one record with its checksum, where it has one and the options ask for it.
    pub(crate) fn check(&self, piece: &Piece, bytes: &[u8]) -> Result<()> {
        match piece.crc32 {
            Some(stored) if self.options.check_crc => {
                self.compare_sums(piece.row, stored, crc32fast::hash(bytes))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn compare_sums(&self, row: u64, stored: u32, computed: u32) -> Result<()> {
        if computed == stored {
            return Ok(());
        }
        let path = Arc::clone(&self.inner.content.path);
        Err(ReadError::Checksum { path, row, stored, computed })
    }

    #[inline]
    pub(crate) fn piece(&self, row: u64, slot: usize) -> Result<Piece> {
        let content = &self.inner.content;
        let span =
            self.row_addresses()?.span(row).map_err(|source| content.format_error(source))?;
        Ok(Piece {
            // Cannot overflow: the span lies inside the data segment, and that inside the file.
            start: self.layout().data.offset.saturating_add(span.offset),
            length: usize::try_from(span.length).map_err(|_| no_memory(content, usize::MAX))?,
            row,
            crc32: span.crc32,
            slot,
        })
    }

    pub(crate) fn pieces(&self, rows: &[u64]) -> Result<Vec<Piece>> {
        let content = &self.inner.content;
        let mut pieces = Vec::with_capacity(rows.len());
        let data = self.layout().data.offset;
        let addresses = self.row_addresses()?;
        let RowAddresses::Variable(index) = addresses else {
            for (slot, row) in rows.iter().enumerate() {
                let span = addresses.span(*row).map_err(|source| content.format_error(source))?;
                pieces.push(Piece {
                    start: data.saturating_add(span.offset),
                    length: usize::try_from(span.length)
                        .map_err(|_| no_memory(content, usize::MAX))?,
                    row: *row,
                    crc32: span.crc32,
                    slot,
                });
            }
            return Ok(pieces);
        };
        let mut spans = Vec::new();
        index
            .gather(rows, self.options.check_crc, &mut spans)
            .map_err(|source| content.format_error(source))?;
        for (slot, (span, row)) in spans.iter().zip(rows).enumerate() {
            pieces.push(Piece {
                start: data.saturating_add(span.offset),
                length: usize::try_from(span.length).map_err(|_| no_memory(content, usize::MAX))?,
                row: *row,
                crc32: span.crc32,
                slot,
            });
        }
        Ok(pieces)
    }

    /// The row behind the longest stretch from `first` on that has at most so many rows and bytes,
    /// or one row. A damaged span counts as nothing: reading it will say what is wrong.
    pub(crate) fn rows_within(&self, first: u64, rows: u64, bytes: u64) -> u64 {
        let end = first.saturating_add(rows);
        let content = &self.inner.content;
        let counted = content.guarded(|| {
            let addresses = self.row_addresses()?;
            let mut sum = 0_u64;
            let behind = (first..end).find(|row| {
                sum = sum.saturating_add(addresses.span(*row).map_or(0, |span| span.length));
                sum > bytes && *row > first
            });
            Ok(behind.unwrap_or(end))
        });
        counted.unwrap_or(end)
    }

    /// Threads that a batch is worth.
    pub(crate) fn parts(&self, bytes: usize, records: usize) -> usize {
        let worth = (bytes / SPLIT_BYTES).saturating_add(1).min(records).max(1);
        if worth == 1 || self.inner.content.source.prefers_batches() {
            1
        } else {
            worth.min(self.options.workers.count())
        }
    }
}

impl Piece {
    #[inline]
    pub(crate) fn find_in<'a>(&self, memory: &'a [u8]) -> Option<&'a [u8]> {
        memory.get(usize::try_from(self.start).ok()?..)?.get(..self.length)
    }
}

/// Groups pieces that follow each other in the file, so that one read serves them.
fn runs(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    pieces.chunk_by(|a, b| {
        u64::try_from(a.length).ok().and_then(|length| a.start.checked_add(length)) == Some(b.start)
    })
}

/// How many pieces the first of `left` parts takes, so that all have about the same bytes.
pub(crate) fn share_of(pieces: &[Piece], left: usize) -> usize {
    if left <= 1 {
        return pieces.len();
    }
    let share = length_of(pieces).checked_div(left).unwrap_or(0);
    let mut bytes = 0_usize;
    let is_in_share = |piece: &&Piece| {
        let is_in = bytes < share;
        bytes = bytes.saturating_add(piece.length);
        is_in
    };
    pieces.iter().take_while(is_in_share).count()
}

pub(crate) fn length_of(pieces: &[Piece]) -> usize {
    pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.length))
}

fn total_length(content: &Content, pieces: &[Piece]) -> Result<usize> {
    pieces
        .iter()
        .try_fold(0_usize, |sum, piece| sum.checked_add(piece.length))
        .ok_or_else(|| no_memory(content, usize::MAX))
}

/// Reads pieces one behind the other into a buffer of just their size, in one call of the source.
pub(crate) fn read_each(content: &Content, pieces: &[Piece], buffer: &mut [u8]) -> Result<()> {
    let mut reads = Vec::with_capacity(pieces.len());
    let mut rest = buffer;
    for piece in pieces {
        let (target, behind) =
            rest.split_at_mut_checked(piece.length).ok_or_else(|| lost(content))?;
        reads.push(SourceRead { offset: piece.start, buffer: target });
        rest = behind;
    }
    content.source.read_batch(&mut reads).map_err(|source| content.io_error("read", source))
}

pub(crate) fn reserve(content: &Content, bytes: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).map_err(|_| no_memory(content, bytes))?;
    Ok(buffer)
}

#[cold]
pub(crate) fn no_memory(content: &Content, bytes: usize) -> ReadError {
    ReadError::Memory {
        path: Arc::clone(&content.path),
        what: "a batch of records",
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        allowed: "that much is not available".to_owned(),
    }
}

#[cold]
pub(crate) fn lost(content: &Content) -> ReadError {
    content.io_error("read", io::ErrorKind::UnexpectedEof.into())
}

/// A span of the source's memory, sharing it.
#[inline]
pub(crate) fn slice_of(memory: &Bytes, start: u64, length: impl TryInto<usize>) -> Option<Bytes> {
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(length.try_into().ok()?)?;
    (end <= memory.len()).then(|| memory.slice(start..end))
}

/// Adds a span of the file to a buffer, by copying from the source.
pub(crate) fn append(
    content: &Content,
    start: u64,
    length: usize,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let from = buffer.len();
    buffer.resize(from.saturating_add(length), 0);
    let target = buffer.get_mut(from..).unwrap_or_default();
    content.source.read_into(start, target).map_err(|source| content.io_error("read", source))
}
