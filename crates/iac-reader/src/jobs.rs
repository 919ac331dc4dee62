//! Work of callers on the threads that reading is split over.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{ReadError, Result};
use crate::gather::{append, lost, reserve};
use crate::pack::PackReader;

impl PackReader {
    /// Hands a record's stored bytes to `work`, compared with their checksum as in
    /// [`read`](Self::read): in place where the source has them in memory, else in a buffer. For
    /// schemas whose records are not decoded by the header's codec.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and those of `work`. A source that lost its bytes meanwhile explains
    /// every other error.
    pub fn with_record<T, E: From<ReadError>>(
        &self,
        row: u64,
        work: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<T, E> {
        let content = &self.inner.content;
        content.guarded(|| {
            let piece = self.piece(row, 0)?;
            if let Some(memory) = content.source.memory() {
                let stored = piece.find_in(memory).ok_or_else(|| lost(content))?;
                self.check(&piece, stored)?;
                return Ok(work(stored));
            }
            let mut buffer = reserve(content, piece.length)?;
            append(content, piece.start, piece.length, &mut buffer)?;
            self.check(&piece, &buffer)?;
            Ok(work(&buffer))
        })?
    }

    /// Does jobs on the reader's workers, the calling thread among them, and gives the results in
    /// their order, or the first error in that order. Schemas whose records are not decoded by the
    /// header's codec read batches so.
    ///
    /// ```no_run
    /// use iac_reader::{PackReader, ReadError};
    ///
    /// let pack = PackReader::open("cohort.tiles.iac")?;
    /// let lengths = pack.run_jobs(vec![5, 1, 9], |row| Ok::<_, ReadError>(pack.read(row)?.len()))?;
    /// # Ok::<(), ReadError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the first job that fails.
    pub fn run_jobs<J: Send, R: Send, E: Send>(
        &self,
        jobs: Vec<J>,
        work: impl Fn(J) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        // Jobs behind one that failed need not be done, those before it must be.
        let failed = AtomicUsize::new(usize::MAX);
        let jobs: Vec<(usize, J)> = jobs.into_iter().enumerate().collect();
        let workers = &self.options.workers;
        let results = workers.run(workers.count(), jobs, |(position, job)| {
            if position > failed.load(Ordering::Relaxed) {
                return None;
            }
            let result = work(job);
            if result.is_err() {
                failed.fetch_min(position, Ordering::Relaxed);
            }
            Some(result)
        });
        results.into_iter().flatten().collect()
    }
}
