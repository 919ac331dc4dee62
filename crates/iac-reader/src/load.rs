//! Bringing the stored bytes of a batch into memory before they are decoded.
//!
//! Sources that only copy are read in the order of the file, neighbours at once, and what several
//! rows share once; decoding then finds its records in any order, as in a mapped file.

use crate::decode::Decoding;
use crate::error::Result;
use crate::gather::{Piece, no_memory};
use crate::source::SourceRead;

/// Bytes between two records that are read along, as a read costs more than copying these.
const GAP_BYTES: u64 = 4 << 10;
/// Bytes that one read takes for several records.
const READ_BYTES: u64 = 1 << 20;
/// Stored bytes of a batch that are held besides the decoded ones; batches with more are read
/// record by record, when each is decoded.
const LOADED_BYTES: u64 = 256 << 20;

/// The same for sources whose calls are dear: there, reading record by record would take for ever.
const LOADED_FROM_AFAR: u64 = 2 << 30;

/// How the pieces of a batch are brought together.
#[derive(Debug, Clone, Copy)]
struct Joining {
    gap: u64,
    read: u64,
    loaded: u64,
}

impl Joining {
    const NEAR: Self = Self { gap: GAP_BYTES, read: READ_BYTES, loaded: LOADED_BYTES };
    /// The source knows better which stretches to join.
    const FAR: Self = Self { gap: 0, read: READ_BYTES, loaded: LOADED_FROM_AFAR };
}

/// A stretch of the file that one read serves.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
}

impl Run {
    fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The same with one more record, if that is worth while.
    fn with(self, start: u64, end: u64, joining: Joining) -> Option<Self> {
        let is_near = start <= self.end.saturating_add(joining.gap);
        let longer = Self { start: self.start, end: self.end.max(end) };
        (is_near && (longer.end == self.end || longer.length() <= joining.read)).then_some(longer)
    }
}

impl Decoding<'_> {
    /// Decodes pieces after their bytes were brought into memory, where the source has none.
    pub(crate) fn loaded<R>(
        &self,
        mut pieces: Vec<Piece>,
        work: impl FnOnce(Decoding<'_>, &[Piece]) -> Result<R>,
    ) -> Result<R> {
        if self.memory().is_some() || pieces.len() < 2 {
            return work(*self, &pieces);
        }
        let is_far = self.content().source.prefers_batches();
        let joining = if is_far { Joining::FAR } else { Joining::NEAR };
        let Some(runs) = place(&mut pieces, joining) else {
            return work(*self, &pieces);
        };
        let bytes = self.load(&runs)?;
        work(Decoding { loaded: Some(&bytes), ..*self }, &pieces)
    }

    /// The same where only a batch is worth it: near sources are read when each piece is decoded.
    pub(crate) fn loaded_from_afar<R>(
        &self,
        pieces: Vec<Piece>,
        work: impl FnOnce(Decoding<'_>, &[Piece]) -> Result<R>,
    ) -> Result<R> {
        if self.content().source.prefers_batches() {
            return self.loaded(pieces, work);
        }
        work(*self, &pieces)
    }

    /// Reads runs one behind the other.
    fn load(&self, runs: &[Run]) -> Result<Vec<u8>> {
        let content = self.content();
        let total = runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.length()));
        let total = usize::try_from(total).map_err(|_| no_memory(content, usize::MAX))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(total).map_err(|_| no_memory(content, total))?;
        bytes.resize(total, 0);
        let mut jobs = Vec::with_capacity(runs.len());
        let mut rest = bytes.as_mut_slice();
        for run in runs {
            let length = usize::try_from(run.length()).unwrap_or(usize::MAX).min(rest.len());
            let (target, behind) = rest.split_at_mut(length);
            jobs.push((run.start, target));
            rest = behind;
        }
        if content.source.prefers_batches() {
            let mut reads: Vec<SourceRead<'_>> =
                jobs.into_iter().map(|(offset, buffer)| SourceRead { offset, buffer }).collect();
            content
                .source
                .read_batch(&mut reads)
                .map_err(|source| content.io_error("read", source))?;
            drop(reads);
            return Ok(bytes);
        }
        let threads = self.pack.parts(total, runs.len());
        let results = self.pack.options.workers.run(threads, jobs, |(start, target)| {
            content
                .source
                .read_into(start, target)
                .map_err(|source| content.io_error("read", source))
        });
        results.into_iter().collect::<Result<()>>()?;
        Ok(bytes)
    }
}

/// The reads that serve all pieces, which afterwards start where their bytes will lie; nothing, and
/// the pieces as they were, where that is more than should be held at once.
fn place(pieces: &mut [Piece], joining: Joining) -> Option<Vec<Run>> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_unstable_by_key(|position| pieces.get(*position).map(|piece| piece.start));
    let mut starts = vec![0_u64; pieces.len()];
    let mut runs: Vec<Run> = Vec::new();
    // Where the bytes of the last run start in memory.
    let mut base = 0_u64;
    for position in order {
        let piece = pieces.get(position)?;
        let end = piece.start.checked_add(u64::try_from(piece.length).ok()?)?;
        let last = runs.last_mut();
        match last.as_ref().and_then(|run| run.with(piece.start, end, joining)).zip(last) {
            Some((longer, run)) => *run = longer,
            None => {
                base = base.checked_add(runs.last().map_or(0, |run| run.length()))?;
                runs.push(Run { start: piece.start, end });
            }
        }
        let run = runs.last()?;
        if base.checked_add(run.length())? > joining.loaded {
            return None;
        }
        *starts.get_mut(position)? = base.checked_add(piece.start.checked_sub(run.start)?)?;
    }
    for (piece, start) in pieces.iter_mut().zip(starts) {
        piece.start = start;
    }
    Some(runs)
}
