//! Decoding the records of a batch, split over threads where that pays.
//!
//! Records are decoded out of the source's memory straight to their place where the payload says
//! how large they are. What a payload says is believed within bounds only: beyond them memory is
//! taken as decoding goes on.

use std::sync::Arc;

use bytes::Bytes;
use iac_codec::{Codec, CodecError, Limits};
use iac_format::ErrorKind;

use crate::batch::ContiguousRecordBatch;
use crate::error::{ReadError, Result};
use crate::gather::{Piece, length_of, lost, no_memory, share_of};
use crate::pack::PackReader;
use crate::prefetch::load_ahead;
use crate::sizes::Sizes;
use crate::spare;
use crate::target::{Growing, Part, Target};

/// Stored bytes that are worth a thread: fast codecs take about 20 microseconds for these, several
/// times what handing them over costs.
const SPLIT_BYTES: usize = 32 << 10;
/// Parts of a batch for each thread, so that one that wakes late, or meets slow records, is helped.
const PARTS_PER_THREAD: usize = 4;
/// How many records ahead of the one that is decoded the processor is told of.
const AHEAD: usize = 2;
/// The same while only the starts of records are looked at.
const CLAIMS_AHEAD: usize = 8;
/// Memory that is taken on the mere word of payloads, for each record and for a batch.
const BELIEVED_BYTES: usize = 16 << 20;
/// The same in relation to the payload's own bytes.
const BELIEVED_RATIO: usize = 64;

/// A row that was left out because its record is damaged.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkippedRow {
    /// Position in the rows that were asked for.
    pub position: usize,
    /// Row of the index table.
    pub row: u64,
    /// What is wrong with its record.
    pub error: ReadError,
}

/// The rows that a lossy read left out, in the order asked for.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SkippedRows {
    /// One entry for each position that was left out.
    pub rows: Vec<SkippedRow>,
}

impl SkippedRows {
    /// Whether nothing was left out.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of positions that were left out.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }
}

/// What records are decoded with.
#[derive(Clone, Copy)]
pub(crate) struct Decoding<'a> {
    pub(crate) pack: &'a PackReader,
    pub(crate) codec: &'a Codec,
    pub(crate) limits: &'a Limits,
    /// What the index says of the sizes of decoded records.
    pub(crate) sizes: Option<&'a Sizes>,
    /// Where the pieces of the batch start, if not in the file.
    pub(crate) loaded: Option<&'a [u8]>,
}

/// What one thread decoded.
#[derive(Default)]
struct Done {
    buffer: Vec<u8>,
    /// Slot and length of each record, in the order of the buffer.
    records: Vec<(usize, usize)>,
    skipped: Vec<SkippedRow>,
}

impl Decoding<'_> {
    /// One record in memory of its own.
    pub(crate) fn one(&self, row: u64) -> Result<Bytes> {
        let piece = self.pack.piece(row, 0)?;
        let mut scratch = Vec::new();
        let stored = self.stored(&piece, self.memory(), &mut scratch)?;
        self.pack.check(&piece, stored)?;
        let mut record = Vec::new();
        self.decode(&piece, stored, &mut Growing { buffer: &mut record, filled: 0 })?;
        record.shrink_to_fit();
        Ok(Bytes::from(record))
    }

    /// The records of a batch, each a slice of what its thread allocated.
    pub(crate) fn owned(&self, rows: &[u64]) -> Result<Vec<Bytes>> {
        self.loaded(self.pack.pieces(rows)?, |decoding, pieces| {
            let mut records = vec![Bytes::new(); rows.len()];
            for done in decoding.parts(pieces, false) {
                hand_out(done?, &mut records, |record| record);
            }
            Ok(records)
        })
    }

    /// The same without the damaged ones.
    pub(crate) fn owned_lossy(&self, rows: &[u64]) -> Result<(Vec<Option<Bytes>>, SkippedRows)> {
        let (pieces, mut skipped) = self.sound_pieces(rows)?;
        self.loaded(pieces, |decoding, pieces| {
            let mut records = vec![None; rows.len()];
            for done in decoding.parts(pieces, true) {
                let mut done = done?;
                skipped.append(&mut done.skipped);
                hand_out(done, &mut records, Some);
            }
            Ok((records, in_order(skipped)))
        })
    }

    /// What `look` makes of each decoded record, in the order asked for.
    pub(crate) fn mapped<T: Send>(
        &self,
        rows: &[u64],
        look: impl Fn(u64, &[u8]) -> T + Sync,
    ) -> Result<Vec<T>> {
        self.loaded(self.pack.pieces(rows)?, |decoding, pieces| {
            let count = decoding.count(pieces);
            let parts = if count == 1 { 1 } else { count.saturating_mul(PARTS_PER_THREAD) };
            let jobs: Vec<&[Piece]> = split(pieces, parts).collect();
            let done = decoding.pack.options.workers.run(count, jobs, |part| {
                let mut buffer = Vec::new();
                let mut seen = Vec::with_capacity(part.len());
                for piece in part {
                    let mut target = Growing { buffer: &mut buffer, filled: 0 };
                    let one = std::slice::from_ref(piece);
                    decoding.part(one, &mut target, None, |_, _| {})?;
                    let filled = target.filled;
                    let record = buffer.get(..filled).unwrap_or_default();
                    seen.push((piece.slot, look(piece.row, record)));
                }
                Ok(seen)
            });
            let mut results = Vec::new();
            results.resize_with(rows.len(), || None);
            for part in done {
                for (slot, result) in part? {
                    if let Some(place) = results.get_mut(slot) {
                        *place = Some(result);
                    }
                }
            }
            Ok(results.into_iter().flatten().collect())
        })
    }

    /// The records of a batch one behind the other in the batch's buffer.
    pub(crate) fn contiguous(&self, rows: &[u64], batch: &mut ContiguousRecordBatch) -> Result<()> {
        self.loaded(self.pack.pieces(rows)?, |decoding, pieces| {
            decoding.contiguous_pieces(pieces, batch)
        })
    }

    fn contiguous_pieces(&self, pieces: &[Piece], batch: &mut ContiguousRecordBatch) -> Result<()> {
        let ContiguousRecordBatch { buffer, offsets } = batch;
        offsets.clear();
        offsets.push(0);
        let count = self.count(pieces);
        if count == 1 {
            let mut end = 0_u64;
            let mut target = Growing { buffer, filled: 0 };
            self.part(pieces, &mut target, None, |_, length| {
                end = end.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
                offsets.push(end);
            })?;
            let filled = target.filled;
            buffer.truncate(filled);
            return Ok(());
        }
        if self.lay_out(pieces, offsets)? {
            return self.fill(pieces, offsets, buffer, count);
        }
        buffer.clear();
        let mut parts = self.parts(pieces, false).into_iter();
        while let Some(done) = parts.next() {
            self.append(done?, parts.as_slice().is_empty(), buffer, offsets)?;
        }
        Ok(())
    }

    /// The same without the damaged ones.
    pub(crate) fn contiguous_lossy(
        &self,
        rows: &[u64],
    ) -> Result<(ContiguousRecordBatch, SkippedRows)> {
        let (pieces, mut skipped) = self.sound_pieces(rows)?;
        self.loaded(pieces, |decoding, pieces| {
            let mut batch = ContiguousRecordBatch::new();
            let mut parts = decoding.parts(pieces, true).into_iter();
            while let Some(done) = parts.next() {
                let mut done = done?;
                skipped.append(&mut done.skipped);
                let last = parts.as_slice().is_empty();
                decoding.append(done, last, &mut batch.buffer, &mut batch.offsets)?;
            }
            Ok((batch, in_order(skipped)))
        })
    }

    /// Adds what a thread decoded to a contiguous buffer.
    fn append(
        &self,
        done: Done,
        is_last: bool,
        buffer: &mut Vec<u8>,
        offsets: &mut Vec<u64>,
    ) -> Result<()> {
        let mut end = offsets.last().copied().unwrap_or(0);
        for (_, length) in &done.records {
            end = end.saturating_add(u64::try_from(*length).unwrap_or(u64::MAX));
            offsets.push(end);
        }
        if buffer.is_empty() && is_last && buffer.capacity() < done.buffer.len() {
            *buffer = done.buffer;
            return Ok(());
        }
        let bytes = done.buffer.len();
        buffer.try_reserve(bytes).map_err(|_| no_memory(self.content(), bytes))?;
        buffer.extend_from_slice(&done.buffer);
        spare::keep(done.buffer);
        Ok(())
    }

    /// Adds the end of each record to `offsets`, where all payloads say their sizes and these can
    /// be believed; else leaves `offsets` as it was.
    fn lay_out(&self, pieces: &[Piece], offsets: &mut Vec<u64>) -> Result<bool> {
        let kept = offsets.len();
        let laid_out = self.claims(pieces, |end| {
            offsets.push(u64::try_from(end).unwrap_or(u64::MAX));
        })?;
        if laid_out.is_none() {
            offsets.truncate(kept);
        }
        Ok(laid_out.is_some())
    }

    /// What all records together claim to have, where all of them say so and it can be believed.
    fn claims(&self, pieces: &[Piece], mut on_end: impl FnMut(usize)) -> Result<Option<usize>> {
        let Some(memory) = self.memory() else {
            return Ok(None);
        };
        let mut end = 0_usize;
        let mut coming = pieces.iter().skip(CLAIMS_AHEAD);
        for piece in pieces {
            // The claim stands at the start of the payload.
            if let Some(head) = coming.next().and_then(|next| next.find_in(memory)?.first_chunk()) {
                load_ahead(head as &[u8; 16]);
            }
            let stored = piece.find_in(memory).ok_or_else(|| lost(self.content()))?;
            // What is wrong with a payload is said when it is decoded.
            let Ok(Some(length)) = self.believed_length(piece, stored) else {
                return Ok(None);
            };
            let Some(sum) = end.checked_add(length) else {
                return Ok(None);
            };
            end = sum;
            on_end(end);
        }
        let believed = length_of(pieces).saturating_mul(BELIEVED_RATIO).max(BELIEVED_BYTES);
        Ok((end <= believed).then_some(end))
    }

    /// Decodes records to places that are known beforehand.
    fn fill(
        &self,
        pieces: &[Piece],
        offsets: &[u64],
        buffer: &mut Vec<u8>,
        count: usize,
    ) -> Result<()> {
        let total = offsets.last().and_then(|end| usize::try_from(*end).ok());
        let total = total.ok_or_else(|| no_memory(self.content(), usize::MAX))?;
        if buffer.capacity() < total {
            let larger = spare::buffer(total).ok_or_else(|| no_memory(self.content(), total))?;
            spare::keep(std::mem::replace(buffer, larger));
        }
        buffer.resize(total, 0);
        let mut rest = buffer.as_mut_slice();
        let mut jobs = Vec::new();
        let mut first = 0_usize;
        for part in split(pieces, count.saturating_mul(PARTS_PER_THREAD)) {
            let behind = first.saturating_add(part.len());
            let at = |record: usize| offsets.get(record).copied().unwrap_or(0);
            let bytes = usize::try_from(at(behind).saturating_sub(at(first))).unwrap_or(0);
            let (target, others) = rest.split_at_mut(bytes.min(rest.len()));
            rest = others;
            first = behind;
            jobs.push((part, target));
        }
        let results = self.pack.options.workers.run(count, jobs, |(part, buffer)| {
            let mut target = Part { buffer, filled: 0 };
            self.part(part, &mut target, None, |_, _| {})?;
            // A codec that changes its mind about sizes must not leave old bytes between records.
            let missing = target.buffer.len().saturating_sub(target.filled);
            if missing == 0 { Ok(()) } else { Err(no_memory(self.content(), missing)) }
        });
        results.into_iter().collect()
    }

    /// Decodes records into one buffer for each thread, in the order of the pieces.
    fn parts(&self, pieces: &[Piece], lossy: bool) -> Vec<Result<Done>> {
        let count = self.count(pieces);
        let parts = if count == 1 { 1 } else { count.saturating_mul(PARTS_PER_THREAD) };
        let jobs: Vec<&[Piece]> = split(pieces, parts).collect();
        self.pack.options.workers.run(count, jobs, |part| {
            let mut done = Done::default();
            done.records.reserve_exact(part.len());
            if let Some(bytes) = self.claims(part, |_| {})? {
                let reserved = spare::buffer(bytes);
                done.buffer = reserved.ok_or_else(|| no_memory(self.content(), bytes))?;
            }
            let Done { buffer, records, skipped } = &mut done;
            let mut target = Growing { buffer, filled: 0 };
            let skipped = lossy.then_some(skipped);
            self.part(part, &mut target, skipped, |slot, length| records.push((slot, length)))?;
            let filled = target.filled;
            done.buffer.truncate(filled);
            Ok(done)
        })
    }

    /// Decodes records one after the other; damaged ones are skipped where that is wanted.
    fn part(
        &self,
        pieces: &[Piece],
        target: &mut impl Target,
        mut skipped: Option<&mut Vec<SkippedRow>>,
        mut on_record: impl FnMut(usize, usize),
    ) -> Result<()> {
        let memory = self.memory();
        let mut scratch = Vec::new();
        // Which instructions the processor has is asked once, not for each record.
        let sum = crc32fast::Hasher::new();
        let mut coming = pieces.iter().skip(AHEAD);
        for piece in pieces {
            if let (Some(memory), Some(next)) = (memory, coming.next())
                && let Some(next) = next.find_in(memory)
            {
                load_ahead(next);
            }
            match self.next(piece, memory, &mut scratch, &sum, target) {
                Ok(length) => on_record(piece.slot, length),
                Err(error) => match &mut skipped {
                    Some(skipped) if concerns_one_record(&error) => {
                        skipped.push(SkippedRow { position: piece.slot, row: piece.row, error });
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Decodes one record behind those that the target has.
    #[inline]
    fn next(
        &self,
        piece: &Piece,
        memory: Option<&[u8]>,
        scratch: &mut Vec<u8>,
        sum: &crc32fast::Hasher,
        target: &mut impl Target,
    ) -> Result<usize> {
        let stored = self.stored(piece, memory, scratch)?;
        if let (true, Some(expected)) = (self.pack.options.check_crc, piece.crc32) {
            let mut sum = sum.clone();
            sum.update(stored);
            self.pack.compare_sums(piece.row, expected, sum.finalize())?;
        }
        self.decode(piece, stored, target)
    }

    /// Decodes stored bytes behind what the target has.
    #[inline]
    fn decode(&self, piece: &Piece, stored: &[u8], target: &mut impl Target) -> Result<usize> {
        let stated = self.stated(piece);
        let Some(length) = self.believed_length(piece, stored)? else {
            let limits = stated.map_or(*self.limits, |size| bounded(self.limits, size));
            let length = target
                .append(self.codec, stored, &limits)
                .map_err(|source| self.decode_error(piece, stated, source))?;
            let found = u64::try_from(length).unwrap_or(u64::MAX);
            return match stated {
                Some(stated) if stated != found => Err(self.other_size(piece, stated, found)),
                _ => Ok(length),
            };
        };
        let room = target.room(length).ok_or_else(|| no_memory(self.content(), length))?;
        self.codec
            .decode_bytes_into(stored, room, self.limits)
            .map_err(|source| self.decode_error(piece, stated, source))?;
        target.advance(length);
        Ok(length)
    }

    /// What the index says of the size of a decoded record.
    fn stated(&self, piece: &Piece) -> Option<u64> {
        self.sizes.and_then(|sizes| sizes.get(piece.row))
    }

    /// The size that a payload or the index claims, where one does and memory may be taken on its
    /// word.
    #[inline]
    fn believed_length(&self, piece: &Piece, stored: &[u8]) -> Result<Option<usize>> {
        let claimed =
            self.codec.decoded_len(stored).map_err(|source| self.codec_error(piece, source))?;
        let stated = self.stated(piece);
        if let (Some(stated), Some(claimed)) = (stated, claimed)
            && stated != claimed
        {
            return Err(self.other_size(piece, stated, claimed));
        }
        let Some(claimed) = claimed.or(stated) else {
            return Ok(None);
        };
        self.limits
            .check_decoded_bytes(claimed)
            .map_err(|source| self.codec_error(piece, source))?;
        let believed = stored.len().saturating_mul(BELIEVED_RATIO).max(BELIEVED_BYTES);
        Ok(usize::try_from(claimed).ok().filter(|claimed| *claimed <= believed))
    }

    /// A record's stored bytes: where they lie, or copied to `scratch`.
    #[inline]
    pub(crate) fn stored<'b>(
        &self,
        piece: &Piece,
        memory: Option<&'b [u8]>,
        scratch: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        let content = self.content();
        if let Some(memory) = memory {
            return piece.find_in(memory).ok_or_else(|| lost(content));
        }
        let missing = piece.length.saturating_sub(scratch.len());
        scratch.try_reserve(missing).map_err(|_| no_memory(content, piece.length))?;
        scratch.resize(piece.length, 0);
        content
            .source
            .read_into(piece.start, scratch)
            .map_err(|source| content.io_error("read", source))?;
        Ok(scratch)
    }

    /// Pieces of the rows whose spans are sound, and the others.
    pub(crate) fn sound_pieces(&self, rows: &[u64]) -> Result<(Vec<Piece>, Vec<SkippedRow>)> {
        let mut pieces = Vec::with_capacity(rows.len());
        let mut skipped = Vec::new();
        for (position, row) in rows.iter().enumerate() {
            match self.pack.piece(*row, position) {
                Ok(piece) => pieces.push(piece),
                Err(error) if concerns_one_record(&error) => {
                    skipped.push(SkippedRow { position, row: *row, error });
                }
                Err(error) => return Err(error),
            }
        }
        Ok((pieces, skipped))
    }

    /// Threads that a batch is worth.
    fn count(&self, pieces: &[Piece]) -> usize {
        let worth = (length_of(pieces) / SPLIT_BYTES).min(pieces.len());
        if worth <= 1 { 1 } else { worth.min(self.pack.options.workers.count()) }
    }

    pub(crate) fn memory(&self) -> Option<&[u8]> {
        self.loaded.or_else(|| self.content().source.memory().map(|memory| memory.as_ref()))
    }

    pub(crate) fn content(&self) -> &crate::content::Content {
        &self.pack.inner.content
    }

    /// An error of a codec that was held to what the index says.
    #[cold]
    fn decode_error(&self, piece: &Piece, stated: Option<u64>, source: CodecError) -> ReadError {
        match (stated, &source) {
            (Some(stated), CodecError::OutputSize { found, .. }) => {
                self.other_size(piece, stated, *found)
            }
            (Some(stated), CodecError::Limit { found, allowed, .. }) if *allowed == stated => {
                self.other_size(piece, stated, *found)
            }
            _ => self.codec_error(piece, source),
        }
    }

    #[cold]
    fn other_size(&self, piece: &Piece, stated: u64, found: u64) -> ReadError {
        let reason = format!("the record has {found} bytes, but the index says {stated}");
        self.codec_error(piece, CodecError::decode(self.codec.name(), reason))
    }

    #[cold]
    pub(crate) fn codec_error(&self, piece: &Piece, source: CodecError) -> ReadError {
        let path = Arc::clone(&self.content().path);
        ReadError::Codec { path, row: Some(piece.row), source: Box::new(source) }
    }
}

fn bounded(limits: &Limits, size: u64) -> Limits {
    limits.with_max_decoded_bytes(limits.max_decoded_bytes.min(size))
}

/// Splits pieces into parts of about the same stored bytes.
fn split(pieces: &[Piece], count: usize) -> impl Iterator<Item = &[Piece]> {
    let mut rest = pieces;
    (1..=count).rev().map(move |left| {
        let (part, behind) = rest.split_at(share_of(rest, left));
        rest = behind;
        part
    })
}

/// Puts what a thread decoded into the caller's places.
fn hand_out<T>(done: Done, records: &mut [T], wrap: impl Fn(Bytes) -> T) {
    let buffer = spare::share(done.buffer);
    let mut start = 0_usize;
    for (slot, length) in done.records {
        let end = start.saturating_add(length).min(buffer.len());
        if let Some(place) = records.get_mut(slot) {
            *place = wrap(buffer.slice(start..end));
        }
        start = end;
    }
}

pub(crate) fn in_order(mut rows: Vec<SkippedRow>) -> SkippedRows {
    rows.sort_by_key(|row| row.position);
    SkippedRows { rows }
}

/// Whether only the record is damaged, and others may be sound.
pub(crate) fn concerns_one_record(error: &ReadError) -> bool {
    error.row().is_some()
        && matches!(
            error.kind(),
            ErrorKind::Damaged
                | ErrorKind::Checksum
                | ErrorKind::Decode
                | ErrorKind::Limit
                | ErrorKind::Unsupported
        )
}
