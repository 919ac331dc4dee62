//! Schema 2 of patient packs: one record for each frame.
//!
//! Beside what schema 1 holds there are objects of several frames, samples of 1 and 32 bits and
//! floating-point ones, large values in the data segment, and other codecs than JPEG XL. It is
//! specified in `docs/format.md`. [`DicomPackReader`](super::DicomPackReader) reads both.

pub(crate) mod build;
pub(crate) mod bulk;
pub(crate) mod check;
mod columns;
pub(crate) mod export;
pub(crate) mod facts;
pub(crate) mod filter;
pub(crate) mod form;
pub(crate) mod groups;
pub(crate) mod payload;
pub(crate) mod prepare;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod source;
pub(crate) mod spool;
pub(crate) mod tables;

use serde_json::Value;

use super::fault::{Fault, Result};
pub use facts::FrameFacts;
pub use payload::{LossyOriginals, PayloadCodec};
pub(crate) use read::{Budget, Rest};

/// The version of this schema.
pub const SCHEMA_VERSION_2: u32 = 2;

/// Which schema a build writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SchemaChoice {
    /// Schema 1, which the reference reads, unless an object needs schema 2.
    #[default]
    WhenNeeded,
    /// Schema 1; objects that need schema 2 cannot be used.
    One,
    /// Schema 2.
    Two,
}

/// A JSON object of any depth and memory that documents may have.
pub(crate) fn document_value(text: &[u8], max_bytes: u64) -> Result<Value> {
    super::document::check_extent(text, max_bytes)?;
    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.disable_recursion_limit();
    let value: Value = serde::Deserialize::deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|_| Fault::decode("its metadata is no JSON"))?;
    Ok(value)
}
