//! Reading records: owned, contiguous, as views.
//!
//! A batch is resolved to pieces first, which are then visited in the order of the file: on small
//! records that is what the memory system likes, whatever order the caller asked for.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::batch::ContiguousBatch;
use crate::error::{ReadError, Result};
use crate::pack::{Content, PackReader};
use crate::source::ByteSource;

/// Batches with fewer bytes stay on the calling thread: handing a part over costs about as much as
/// copying this many.
const SPLIT_BYTES: usize = 1 << 20;

/// One record of a batch.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// First byte in the file.
    start: u64,
    length: usize,
    row: u64,
    crc32: Option<u32>,
    /// Position in the caller's batch.
    slot: usize,
}

impl PackReader {
    /// Reads one record's stored bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the row does not exist or its span is damaged,
    /// [`ReadError::Checksum`] when its bytes are, [`ReadError::Io`] when the system fails or the
    /// file was cut.
    pub fn read(&self, row: u64) -> Result<Bytes> {
        let content = &self.inner.content;
        content.guarded(|| {
            let piece = self.piece(row, 0)?;
            let mut buffer = reserve(content, piece.length)?;
            append(content, piece.start, piece.length, &mut buffer)?;
            self.check(&piece, &buffer)?;
            Ok(Bytes::from(buffer))
        })
    }

    /// Reads many records' stored bytes, in the order asked for, duplicates included.
    ///
    /// The batch is one allocation (one for each thread that takes part), which its records share.
    /// One bad row fails the whole call.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read`].
    pub fn read_rows(&self, rows: &[u64]) -> Result<Vec<Bytes>> {
        let content = &self.inner.content;
        content.guarded(|| {
            let mut pieces = self.pieces(rows)?;
            let total = total_length(content, &pieces)?;
            pieces.sort_unstable_by_key(|piece| piece.start);
            let mut records = vec![Bytes::new(); rows.len()];
            let parts = self.parts(total, pieces.len());
            if parts == 1 {
                self.read_part(&pieces, total, |slot, record| put(&mut records, slot, record))?;
                return Ok(records);
            }
            let mut done = Vec::new();
            done.resize_with(parts, || Ok(Vec::new()));
            self.options.workers.scope(|scope| {
                let mut rest = pieces.as_slice();
                let mut slots = done.iter_mut();
                for left in (1..=parts).rev() {
                    let (part, behind) = split_pieces(rest, left);
                    rest = behind;
                    let Some(result) = slots.next() else { break };
                    let mut work = move || {
                        let mut found = Vec::with_capacity(part.len());
                        let bytes = part
                            .iter()
                            .fold(0_usize, |sum, piece| sum.saturating_add(piece.length));
                        *result = self
                            .read_part(part, bytes, |slot, record| found.push((slot, record)))
                            .map(|()| found);
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
                    put(&mut records, slot, record);
                }
            }
            Ok(records)
        })
    }

    /// Reads many records one after the other into one buffer.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read`].
    pub fn read_contiguous(&self, rows: &[u64]) -> Result<ContiguousBatch> {
        let mut batch = ContiguousBatch::new();
        self.read_contiguous_into(rows, &mut batch)?;
        Ok(batch)
    }

    /// Reads many records into a batch whose memory is used again. After an error the batch is
    /// empty.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read`].
    pub fn read_contiguous_into(&self, rows: &[u64], batch: &mut ContiguousBatch) -> Result<()> {
        let content = &self.inner.content;
        let result = content.guarded(|| self.fill(rows, batch));
        if result.is_err() {
            batch.clear();
        }
        result
    }

    fn fill(&self, rows: &[u64], batch: &mut ContiguousBatch) -> Result<()> {
        let content = &self.inner.content;
        let mut pieces = self.pieces(rows)?;
        let total = total_length(content, &pieces)?;
        batch.offsets.clear();
        batch.offsets.push(0);
        let mut end = 0_u64;
        for piece in &pieces {
            end = end.saturating_add(u64::try_from(piece.length).unwrap_or(u64::MAX));
            batch.offsets.push(end);
        }
        let missing = total.saturating_sub(batch.buffer.len());
        batch.buffer.try_reserve(missing).map_err(|_| no_memory(content, total))?;
        batch.buffer.resize(total, 0);

        let parts = self.parts(total, pieces.len());
        if parts == 1 {
            return self.fill_part(&mut pieces, 0, &batch.offsets, &mut batch.buffer);
        }
        let mut done = Vec::new();
        done.resize_with(parts, || Ok(()));
        let offsets = batch.offsets.as_slice();
        self.options.workers.scope(|scope| {
            let mut rest = pieces.as_mut_slice();
            let mut buffer = batch.buffer.as_mut_slice();
            let mut slots = done.iter_mut();
            let mut first = 0_usize;
            for left in (1..=parts).rev() {
                let count = split_pieces(rest, left).0.len();
                let (part, behind) = rest.split_at_mut(count);
                rest = behind;
                let bytes =
                    part.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.length));
                let (target, behind) = buffer.split_at_mut(bytes.min(buffer.len()));
                buffer = behind;
                let Some(result) = slots.next() else { break };
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

    /// Fills the part of a contiguous buffer that starts at record `first` of the batch.
    fn fill_part(
        &self,
        pieces: &mut [Piece],
        first: usize,
        offsets: &[u64],
        target: &mut [u8],
    ) -> Result<()> {
        let content = &self.inner.content;
        pieces.sort_unstable_by_key(|piece| piece.start);
        let base = offsets.get(first).copied().unwrap_or(0);
        for piece in pieces.iter() {
            let record = offsets
                .get(piece.slot)
                .and_then(|start| usize::try_from(start.checked_sub(base)?).ok())
                .and_then(|start| target.get_mut(start..)?.get_mut(..piece.length))
                .ok_or_else(|| lost(content))?;
            copy_into(content, piece.start, record)?;
            self.check(piece, record)?;
        }
        Ok(())
    }

    /// One record as a view of the source's memory: nothing is copied, nothing compared with its
    /// checksum. The view stays valid when the reader is dropped.
    ///
    /// # Errors
    ///
    /// [`ReadError::NoViews`] when the source only copies, [`ReadError::Format`] when the row does
    /// not exist or its span is damaged, [`ReadError::Io`] when the file was cut.
    pub fn view(&self, row: u64) -> Result<Bytes> {
        let content = &self.inner.content;
        content.guarded(|| {
            let memory = self.memory()?;
            self.view_of(memory, self.piece(row, 0)?)
        })
    }

    /// Many records as views, in the order asked for.
    ///
    /// # Errors
    ///
    /// As [`PackReader::view`].
    pub fn views(&self, rows: &[u64]) -> Result<Vec<Bytes>> {
        let mut views = Vec::new();
        self.views_into(rows, &mut views)?;
        Ok(views)
    }

    /// Many records as views in a vector whose memory is used again. After an error it is empty.
    ///
    /// # Errors
    ///
    /// As [`PackReader::view`].
    pub fn views_into(&self, rows: &[u64], views: &mut Vec<Bytes>) -> Result<()> {
        views.clear();
        let content = &self.inner.content;
        let result = content.guarded(|| {
            let memory = self.memory()?;
            views.reserve(rows.len());
            for row in rows {
                views.push(self.view_of(memory, self.piece(*row, 0)?)?);
            }
            Ok(())
        });
        if result.is_err() {
            views.clear();
        }
        result
    }

    fn memory(&self) -> Result<&Bytes> {
        let content = &self.inner.content;
        content
            .source
            .memory()
            .ok_or_else(|| ReadError::NoViews { path: Arc::clone(&content.path) })
    }

    #[inline]
    fn view_of(&self, memory: &Bytes, piece: Piece) -> Result<Bytes> {
        let range = usize::try_from(piece.start)
            .ok()
            .and_then(|start| Some((start, start.checked_add(piece.length)?)))
            .filter(|(_, end)| *end <= memory.len());
        match range {
            Some((start, end)) => Ok(memory.slice(start..end)),
            None => Err(lost(&self.inner.content)),
        }
    }

    /// Reads a span of the data segment, unchecked against any checksum.
    ///
    /// # Errors
    ///
    /// [`ReadError::DataSpan`] when the span does not lie inside the data segment,
    /// [`ReadError::Io`] when the system fails or the file was cut.
    pub fn read_data_span(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.read_data_spans(&[(offset, length)])
    }

    /// Reads spans (offset, length) of the data segment, joined in the order given.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read_data_span`].
    pub fn read_data_spans(&self, spans: &[(u64, u64)]) -> Result<Bytes> {
        let content = &self.inner.content;
        content.guarded(|| {
            let mut total = 0_usize;
            let mut pieces = Vec::with_capacity(spans.len());
            for (offset, length) in spans {
                let start = self.data_start(*offset, *length)?;
                let length =
                    usize::try_from(*length).map_err(|_| no_memory(content, usize::MAX))?;
                total = total.checked_add(length).ok_or_else(|| no_memory(content, usize::MAX))?;
                pieces.push((start, length));
            }
            let mut buffer = reserve(content, total)?;
            for (start, length) in pieces {
                append(content, start, length, &mut buffer)?;
            }
            Ok(Bytes::from(buffer))
        })
    }

    /// A span of the data segment as a view of the source's memory.
    ///
    /// # Errors
    ///
    /// [`ReadError::NoViews`] when the source only copies, otherwise as
    /// [`PackReader::read_data_span`].
    pub fn data_view(&self, offset: u64, length: u64) -> Result<Bytes> {
        let content = &self.inner.content;
        content.guarded(|| {
            let start = self.data_start(offset, length)?;
            let length = usize::try_from(length).map_err(|_| lost(content))?;
            let piece = Piece { start, length, row: 0, crc32: None, slot: 0 };
            self.view_of(self.memory()?, piece)
        })
    }

    /// The place in the file of a span of the data segment.
    fn data_start(&self, offset: u64, length: u64) -> Result<u64> {
        let data = self.layout().data;
        match offset.checked_add(length) {
            Some(end) if end <= data.length => Ok(data.offset.saturating_add(offset)),
            _ => Err(ReadError::DataSpan {
                path: Arc::clone(&self.inner.content.path),
                offset,
                length,
                data_length: data.length,
            }),
        }
    }

    #[inline]
    fn piece(&self, row: u64, slot: usize) -> Result<Piece> {
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

    fn pieces(&self, rows: &[u64]) -> Result<Vec<Piece>> {
        let mut pieces = Vec::with_capacity(rows.len());
        for (slot, row) in rows.iter().enumerate() {
            pieces.push(self.piece(*row, slot)?);
        }
        Ok(pieces)
    }

    /// Threads that a batch is worth.
    fn parts(&self, bytes: usize, records: usize) -> usize {
        let worth = (bytes / SPLIT_BYTES).saturating_add(1).min(records).max(1);
        if worth == 1 { 1 } else { worth.min(self.options.workers.count()) }
    }

    /// Reads pieces, which are in the order of the file, into one allocation.
    fn read_part(
        &self,
        pieces: &[Piece],
        bytes: usize,
        mut put: impl FnMut(usize, Bytes),
    ) -> Result<()> {
        let content = &self.inner.content;
        let mut buffer = reserve(content, bytes)?;
        if content.source.memory().is_some() {
            for piece in pieces {
                let start = buffer.len();
                append(content, piece.start, piece.length, &mut buffer)?;
                self.check(piece, buffer.get(start..).unwrap_or_default())?;
            }
        } else {
            for run in runs(pieces) {
                let start = buffer.len();
                let length = run.iter().fold(0_usize, |sum, p| sum.saturating_add(p.length));
                let first = run.first().map_or(0, |piece| piece.start);
                append(content, first, length, &mut buffer)?;
                let mut rest = buffer.get(start..).unwrap_or_default();
                for piece in run {
                    let (record, behind) =
                        rest.split_at_checked(piece.length).ok_or_else(|| lost(content))?;
                    self.check(piece, record)?;
                    rest = behind;
                }
            }
        }
        let buffer = Bytes::from(buffer);
        let mut start = 0_usize;
        for piece in pieces {
            let end = start.saturating_add(piece.length).min(buffer.len());
            put(piece.slot, buffer.slice(start..end));
            start = end;
        }
        Ok(())
    }

    #[inline]
    fn check(&self, piece: &Piece, bytes: &[u8]) -> Result<()> {
        match piece.crc32 {
            Some(stored) if self.options.check_crc => {
                let computed = crc32fast::hash(bytes);
                if computed == stored {
                    return Ok(());
                }
                Err(ReadError::Checksum {
                    path: Arc::clone(&self.inner.content.path),
                    row: piece.row,
                    stored,
                    computed,
                })
            }
            _ => Ok(()),
        }
    }
}

/// Groups pieces that follow each other in the file, so that one read serves them.
fn runs(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    pieces.chunk_by(|a, b| {
        u64::try_from(a.length).ok().and_then(|length| a.start.checked_add(length)) == Some(b.start)
    })
}

/// Cuts off the first of `left` parts with about the same number of bytes each.
fn split_pieces(pieces: &[Piece], left: usize) -> (&[Piece], &[Piece]) {
    let total = pieces.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.length));
    if left <= 1 {
        return (pieces, &[]);
    }
    let share = total.checked_div(left).unwrap_or(total);
    let mut bytes = 0_usize;
    let count = pieces
        .iter()
        .take_while(|piece| {
            let take = bytes < share;
            bytes = bytes.saturating_add(piece.length);
            take
        })
        .count();
    pieces.split_at(count)
}

fn put(records: &mut [Bytes], slot: usize, record: Bytes) {
    if let Some(place) = records.get_mut(slot) {
        *place = record;
    }
}

fn total_length(content: &Content, pieces: &[Piece]) -> Result<usize> {
    pieces
        .iter()
        .try_fold(0_usize, |sum, piece| sum.checked_add(piece.length))
        .ok_or_else(|| no_memory(content, usize::MAX))
}

fn reserve(content: &Content, bytes: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).map_err(|_| no_memory(content, bytes))?;
    Ok(buffer)
}

#[cold]
fn no_memory(content: &Content, bytes: usize) -> ReadError {
    ReadError::Memory {
        path: Arc::clone(&content.path),
        what: "a batch of records",
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        allowed: "that much is not available".to_owned(),
    }
}

#[cold]
fn lost(content: &Content) -> ReadError {
    content.io_error("read", io::ErrorKind::UnexpectedEof.into())
}

/// The bytes of a span in the source's memory.
#[inline]
fn in_memory(source: &dyn ByteSource, start: u64, length: usize) -> Option<&[u8]> {
    source.memory()?.get(usize::try_from(start).ok()?..)?.get(..length)
}

#[inline]
fn copy_into(content: &Content, start: u64, target: &mut [u8]) -> Result<()> {
    if let Some(found) = in_memory(&*content.source, start, target.len()) {
        target.copy_from_slice(found);
        return Ok(());
    }
    content.source.read_into(start, target).map_err(|source| content.io_error("read", source))
}

#[inline]
fn append(content: &Content, start: u64, length: usize, buffer: &mut Vec<u8>) -> Result<()> {
    if let Some(found) = in_memory(&*content.source, start, length) {
        buffer.extend_from_slice(found);
        return Ok(());
    }
    let from = buffer.len();
    buffer.resize(from.saturating_add(length), 0);
    let target = buffer.get_mut(from..).unwrap_or_default();
    content.source.read_into(start, target).map_err(|source| content.io_error("read", source))
}
