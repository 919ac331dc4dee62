//! Reads IatroCache (`.iac`) files: mapped, positional or in memory.
//!
//! [`PackReader`] opens a pack, checks its header, and reads records in three ways, each with one
//! clear owner of the memory:
//!
//! - *owned* ([`PackReader::read`], [`PackReader::read_rows`]): bytes of the caller's own, compared
//!   with their CRC-32 unless that is switched off;
//! - *contiguous* ([`PackReader::read_contiguous`]): one buffer and offsets, fresh or used again;
//! - *views* ([`PackReader::view`], [`PackReader::views_into`]): slices of the mapping, which stay
//!   valid when the reader is gone; never compared.
//!
//! Where the bytes come from is the business of a [`ByteSource`]. Files are mapped by default;
//! [`guard`] protects a process against files that others cut while they are mapped.
//!
//! ```no_run
//! use iac_reader::{ContiguousBatch, PackReader};
//!
//! let pack = PackReader::open("cohort.tiles.iac")?;
//! let mut batch = ContiguousBatch::new();
//! pack.read_contiguous_into(&[5, 1, 9], &mut batch)?;
//! for record in batch.iter() {
//!     println!("{} bytes", record.len());
//! }
//! # Ok::<(), iac_reader::ReadError>(())
//! ```

mod batch;
mod error;
mod gather;
pub mod guard;
mod header_cache;
mod iter;
mod options;
mod pack;
mod per_process;
mod pool;
mod prefetch;
mod records;
mod source;
mod table;
mod verify;

pub use batch::ContiguousBatch;
pub use error::{ReadError, Result};
pub use header_cache::{CacheConfig, clear_caches, configure_cache};
pub use iter::Payloads;
pub use options::{ReadOptions, SourceKind};
pub use pack::{PackKind, PackReader, RecordSpan, read_header};
pub use source::{Advice, ByteSource, MappedFile, Memory, PositionalFile};
pub use table::Table;
pub use verify::{Fault, VerifyOptions, VerifyReport};
