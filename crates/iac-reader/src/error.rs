//! What can go wrong while a pack is read.

use std::io;
use std::sync::Arc;

use iac_format::{ErrorKind, FormatError};

/// Why a pack or a record could not be read. Every variant names the pack.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes break a rule of the format, or an argument does not fit them.
    #[error("{path}: {source}")]
    Format {
        /// The pack.
        path: Arc<str>,
        /// What is wrong with it.
        #[source]
        source: FormatError,
    },
    /// The operating system failed, or the file changed under the reader.
    #[error("{path}: {action}: {source}")]
    Io {
        /// The pack.
        path: Arc<str>,
        /// What could not be done.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A record's bytes differ from the checksum in the index.
    #[error(
        "row {row} of {path}: checksum mismatch (stored {stored:#010x}, computed {computed:#010x})"
    )]
    Checksum {
        /// The pack.
        path: Arc<str>,
        /// Row of the index table.
        row: u64,
        /// The index's CRC-32.
        stored: u32,
        /// The CRC-32 of the bytes that are there.
        computed: u32,
    },
    /// A span of the data segment was asked for that does not lie inside it.
    #[error(
        "{path}: span of {length} bytes at offset {offset} does not lie inside the data segment of {data_length} bytes"
    )]
    DataSpan {
        /// The pack.
        path: Arc<str>,
        /// Offset relative to the data segment.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Bytes of the data segment.
        data_length: u64,
    },
    /// Fixed rows were asked for in a pack that has none.
    #[error("{path}: the pack has no fixed rows (its header has no `feature_record_bytes`)")]
    NotFixed {
        /// The pack.
        path: Arc<str>,
    },
    /// A view was asked for from a source that only copies.
    #[error(
        "{path}: views need a mapped file or memory, and this source only copies (open it mapped, or read owned records)"
    )]
    NoViews {
        /// The pack.
        path: Arc<str>,
    },
    /// More memory would be needed than there is, or than the options allow.
    #[error("{path}: {what} needs {bytes} bytes of memory, but {allowed}")]
    Memory {
        /// The pack.
        path: Arc<str>,
        /// What the memory is for.
        what: &'static str,
        /// How much.
        bytes: u64,
        /// What is allowed instead.
        allowed: String,
    },
}

impl ReadError {
    /// The kind that callers branch on.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Format { source, .. } => source.kind(),
            Self::Io { .. } => ErrorKind::Io,
            Self::Checksum { .. } => ErrorKind::Checksum,
            Self::DataSpan { .. } | Self::NotFixed { .. } => ErrorKind::Usage,
            Self::NoViews { .. } => ErrorKind::Unsupported,
            Self::Memory { .. } => ErrorKind::Limit,
        }
    }

    /// The pack's path, or the name that its source was given.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Format { path, .. }
            | Self::Io { path, .. }
            | Self::Checksum { path, .. }
            | Self::DataSpan { path, .. }
            | Self::NotFixed { path }
            | Self::NoViews { path }
            | Self::Memory { path, .. } => path,
        }
    }

    /// The row that is wrong, where one is.
    #[must_use]
    pub const fn row(&self) -> Option<u64> {
        match self {
            Self::Checksum { row, .. } => Some(*row),
            Self::Format { source, .. } => source.row(),
            _ => None,
        }
    }

    /// The header member or column that is wrong, where one is.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Format { source, .. } => source.field(),
            Self::Checksum { .. } => Some(iac_format::CRC32_COLUMN),
            _ => None,
        }
    }

    /// The message without the pack's name, for lists that name it once.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Format { source, .. } => source.to_string(),
            Self::Checksum { stored, computed, .. } => {
                format!("checksum mismatch (stored {stored:#010x}, computed {computed:#010x})")
            }
            other => {
                let message = other.to_string();
                let rest = message.strip_prefix(other.path()).and_then(|m| m.strip_prefix(": "));
                rest.map_or_else(|| message.clone(), str::to_owned)
            }
        }
    }
}

/// Result of this crate's operations.
pub type Result<T, E = ReadError> = std::result::Result<T, E>;
