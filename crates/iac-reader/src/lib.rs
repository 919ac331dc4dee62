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
//! That is the pack as it is stored. [`VariableRecordPack`] gives records as their codec decodes
//! them, one by one or in batches, images also into one buffer for all; and [`FixedRecordPack`] the
//! rows of a matrix as numbers, where possible without a copy.
//!
//! Where the bytes come from is the business of a [`ByteSource`]. Files are mapped by default;
//! [`guard`] protects a process against files that others cut while they are mapped.
//!
//! ```no_run
//! use iac_reader::{ContiguousRecordBatch, PackReader};
//!
//! let pack = PackReader::open("cohort.tiles.iac")?;
//! let mut batch = ContiguousRecordBatch::new();
//! pack.read_contiguous_into(&[5, 1, 9], &mut batch)?;
//! for record in batch.iter() {
//!     println!("{} bytes", record.len());
//! }
//! # Ok::<(), iac_reader::ReadError>(())
//! ```
//!
//! # Features
//!
//! <!-- features of iac-reader -->
//!
//! | feature | what it adds |
//! |---|---|
//! | `ndarray` | Rows of fixed packs as two-dimensional arrays of the crate `ndarray` |
//! | `object-store` | Packs in object stores: S3, Google Cloud Storage, Azure, HTTP |
//!
//! <!-- end -->
//!
//! Codecs are features of `iac-codec`.

mod batch;
mod content;
mod convert;
mod decode;
mod error;
mod fixed;
mod gather;
pub mod guard;
mod header_cache;
mod image_batch;
mod images;
mod iter;
mod jobs;
mod load;
mod matrix;
#[cfg(feature = "object-store")]
pub mod object;
mod open;
mod options;
mod overlay;
mod pack;
mod per_process;
mod pool;
mod prefetch;
mod read_ahead;
mod records;
mod sizes;
mod source;
mod spare;
mod table;
mod target;
mod variable;
mod verify;

pub use batch::ContiguousRecordBatch;
pub use content::RecordSpan;
pub use decode::{SkippedRow, SkippedRows};
pub use error::{ReadError, Result};
pub use fixed::FixedRecordPack;
pub use header_cache::{CacheConfig, clear_caches, configure_cache};
pub use image_batch::ImageBatch;
pub use iter::Payloads;
pub use matrix::Matrix;
pub use open::{is_url, read_header};
pub use options::{ReadOptions, SourceKind};
pub use pack::{PackKind, PackReader};
pub use read_ahead::{ReadAhead, ReadAheadOptions};
pub use source::{Advice, ByteSource, MappedFile, Memory, PositionalFile, SourceRead};
pub use table::Table;
pub use variable::{RecordOptions, VariableRecordPack};
pub use verify::{Fault, VerifyOptions, VerifyReport};
