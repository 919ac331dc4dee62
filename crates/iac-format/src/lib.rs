//! Layout of IatroCache (`.iac`) files: header, Arrow tables, record index.
//!
//! An `.iac` file holds a fixed header of 65,536 bytes (magic number and JSON), two Arrow IPC
//! streams (slide table and index table) and a data segment of payload bytes:
//!
//! ```text
//! 0        64 KiB                                                        end
//! | header | slide table (Arrow) | index table (Arrow) | data segment     |
//! ```
//!
//! This crate turns bytes into checked structures and back. It touches no file, starts no thread
//! and holds no `unsafe` code; `iac-reader` and `iac-writer` do the I/O. Everything that it is
//! given to parse counts as hostile: sizes are checked before anything is allocated, and what is
//! wrong is reported as a [`FormatError`] that names the field, column or row.
//!
//! ```
//! use iac_format::{Header, HeaderFacts, Layout, build_header_text, header_block};
//! use serde_json::{Map, Value};
//!
//! let mut members = Map::new();
//! members.insert("payload_type".to_owned(), Value::from("raw_files"));
//! let facts = HeaderFacts {
//!     layout: Layout::new(64, 64, 1000)?,
//!     num_slides: 0,
//!     num_records: 0,
//!     checksums: None,
//! };
//! let block = header_block(&build_header_text(&members, &facts)?)?;
//! let header = Header::parse(&block, facts.layout.end())?;
//! assert_eq!(header.payload_type(), Some("raw_files"));
//! assert_eq!(header.layout().data.length, 1000);
//! # Ok::<(), iac_format::FormatError>(())
//! ```
//!
//! # Features
//!
//! <!-- features of iac-format -->
//!
//! | feature | what it adds |
//! |---|---|
//! | `serde-json-extremes` | For tests of this crate: switches on the features of serde_json that must not change a header's text |
//!
//! <!-- end -->

mod checksums;
mod element;
mod error;
mod fixed;
mod header;
mod index;
mod json;
mod layout;
pub mod names;
pub mod table;

pub use checksums::{CHECKSUMS_EXTENSION, CHECKSUMS_MEMBER, Checksums};
pub use element::{Element, swap_if_big_endian};
pub use error::{ErrorKind, FormatError, Result, TableKind};
pub use fixed::{ElementType, FixedShape};
pub use header::{
    CONTAINER_MEMBERS, EXTENSIONS_MEMBER, Header, HeaderFacts, REQUIRED_EXTENSIONS_MEMBER,
    build_header_text, header_block, header_text,
};
pub use index::{
    CRC32_COLUMN, Crc32State, LENGTH_COLUMN, OFFSET_COLUMN, RecordIndex, RowSpan, RowSums,
    STORAGE_COLUMNS,
};
pub use layout::{Layout, Segment};

/// The first eight bytes of every `.iac` file.
pub const MAGIC: [u8; 8] = *b"IATROC\0\x02";
/// Bytes of the fixed header in front of the tables.
pub const HEADER_BYTES: u64 = 65_536;
/// Bytes that the header's JSON text may have.
pub const MAX_HEADER_TEXT: u64 = HEADER_BYTES - 16;
/// The format version that this crate reads and writes.
pub const FORMAT_VERSION: u32 = 2;
