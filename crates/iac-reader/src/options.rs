//! How a pack is opened and read.

use std::num::NonZeroUsize;
use std::sync::Arc;

use rayon::ThreadPool;

use crate::pool::Workers;

/// How the bytes of a file are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SourceKind {
    /// Mapped into memory: fastest, and the only one with views. Falls back to positional reads
    /// where the file cannot be mapped.
    #[default]
    Mapped,
    /// Read by offset, never mapped: for files that others may cut while they are read.
    Positional,
}

/// How a pack is opened and read.
///
/// ```
/// use iac_reader::{ReadOptions, SourceKind};
///
/// let options = ReadOptions::default().source(SourceKind::Positional).check_crc(false);
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
pub struct ReadOptions {
    pub(crate) source: SourceKind,
    pub(crate) check_crc: bool,
    pub(crate) use_header_cache: bool,
    pub(crate) max_table_bytes: u64,
    pub(crate) rescue: bool,
    #[cfg_attr(
        not(feature = "object-store"),
        allow(dead_code, reason = "nothing is opened by URL")
    )]
    pub(crate) object_cache: u64,
    pub(crate) workers: Workers,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            source: SourceKind::Mapped,
            check_crc: true,
            use_header_cache: true,
            max_table_bytes: 8 << 30,
            rescue: false,
            object_cache: 0,
            workers: Workers::default(),
        }
    }
}

impl ReadOptions {
    /// How the bytes are reached. Default: [`SourceKind::Mapped`].
    #[must_use]
    pub fn source(mut self, source: SourceKind) -> Self {
        self.source = source;
        self
    }

    /// Whether owned reads compare each record with its CRC-32. Default: yes. Views and data spans
    /// are never compared.
    #[must_use]
    pub fn check_crc(mut self, check: bool) -> Self {
        self.check_crc = check;
        self
    }

    /// Whether the process-wide header cache may answer. Default: yes.
    #[must_use]
    pub fn use_header_cache(mut self, cache: bool) -> Self {
        self.use_header_cache = cache;
        self
    }

    /// Largest table that a source which only copies may load into memory. Default: 8 GiB.
    #[must_use]
    pub fn max_table_bytes(mut self, bytes: u64) -> Self {
        self.max_table_bytes = bytes;
        self
    }

    /// Whether a damaged pack is opened as far as it can be, to rescue what is left of it. Default:
    /// no.
    ///
    /// Then a header or a table that differs from its checksum, row counts that do not agree, and a
    /// data segment that was cut are no errors; [`PackReader::damage`](crate::PackReader::damage)
    /// and [`Table::damage`](crate::Table::damage) tell about them. Only records whose own checksum
    /// is sound can be relied on.
    #[must_use]
    pub fn rescue(mut self, rescue: bool) -> Self {
        self.rescue = rescue;
        self
    }

    /// Bytes of memory that a pack which is opened by a URL may take to keep what was read of it, and
    /// to read ahead where reads follow each other. Default: 0, every read goes to the server, and
    /// brings what was asked for: best for batches at random. Work that reads record after record
    /// wants 32 MiB or more. Files are not concerned.
    #[must_use]
    pub fn object_cache(mut self, bytes: u64) -> Self {
        self.object_cache = bytes;
        self
    }

    /// Most threads that one call may use. Default (`None`): all cores, or the threads of the rayon
    /// pool that the caller is in. Small batches stay on the calling thread in any case.
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        self.workers.limit = workers.into();
        self
    }

    /// The pool that large calls are split over. Default (`None`): the pool that the caller is in,
    /// or one that this crate keeps for the process.
    #[must_use]
    pub fn pool(mut self, pool: impl Into<Option<Arc<ThreadPool>>>) -> Self {
        self.workers.pool = pool.into();
        self
    }
}
