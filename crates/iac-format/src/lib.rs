//! Layout of IatroCache (`.iac`) files: header, Arrow tables, record index.

mod error;

pub use error::{ErrorKind, FormatError, Result, TableKind};

/// Bytes of the fixed header in front of the tables.
pub const HEADER_BYTES: u64 = 65_536;
/// Bytes that the header's JSON text may have.
pub const MAX_HEADER_TEXT: u64 = HEADER_BYTES - 16;
/// The format version that this crate reads and writes.
pub const FORMAT_VERSION: u32 = 2;
