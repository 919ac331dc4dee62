//! Bringing the stored bytes of a batch into memory before they are decoded.
//!
//! Sources that only copy are read in the order of the file, neighbours at once, and what several
//! rows share once; decoding then finds its records in any order, as in a mapped file.

use crate::decode::Decoding;
use crate::error::Result;
use crate::gather::{Piece, no_memory};

/// Bytes between two records that are read along, as a read costs more than copying these.
const GAP_BYTES: u64 = 4 << 10;
/// Bytes that one read takes for several records.
const READ_BYTES: u64 = 1 << 20;
/// Stored bytes of a batch that are held besides the decoded ones; batches with more are read
/// record by record, when each is decoded.
const LOADED_BYTES: u64 = 256 << 20;

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
    fn with(self, start: u64, end: u64) -> Option<Self> {
        let is_near = start <= self.end.saturating_add(GAP_BYTES);
        let longer = Self { start: self.start, end: self.end.max(end) };
        (is_near && (longer.end == self.end || longer.length() <= READ_BYTES)).then_some(longer)
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
        let Some(runs) = place(&mut pieces) else {
            return work(*self, &pieces);
        };
        let bytes = self.load(&runs)?;
        work(Decoding { loaded: Some(&bytes), ..*self }, &pieces)
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
fn place(pieces: &mut [Piece]) -> Option<Vec<Run>> {
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
        match last.as_ref().and_then(|run| run.with(piece.start, end)).zip(last) {
            Some((longer, run)) => *run = longer,
            None => {
                base = base.checked_add(runs.last().map_or(0, |run| run.length()))?;
                runs.push(Run { start: piece.start, end });
            }
        }
        let run = runs.last()?;
        if base.checked_add(run.length())? > LOADED_BYTES {
            return None;
        }
        *starts.get_mut(position)? = base.checked_add(piece.start.checked_sub(run.start)?)?;
    }
    for (piece, start) in pieces.iter_mut().zip(starts) {
        piece.start = start;
    }
    Some(runs)
}
