//! What can go wrong while a pack is read.

use std::io;
use std::sync::Arc;

use iac_codec::{CodecError, CodecErrorKind};
use iac_format::{ElementType, ErrorKind, FormatError};

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
    /// The pack's codec cannot be made, or a record cannot be decoded.
    #[error("{}{path}: {source}", of_row(*.row))]
    Codec {
        /// The pack.
        path: Arc<str>,
        /// Row of the index table, where one record is at fault.
        row: Option<u64>,
        /// What the codec says.
        #[source]
        source: Box<CodecError>,
    },
    /// The pack needs an extension that is not known, so its records cannot be decoded.
    #[error(
        "{path}: the pack needs the extension `{extension}`, which is not known here; its stored bytes can be read, but not decoded"
    )]
    RequiredExtension {
        /// The pack.
        path: Arc<str>,
        /// The extension's name.
        extension: String,
    },
    /// The rows of a fixed pack were asked for as elements of another type.
    #[error("{path}: the pack's elements are of type {found}, not {asked}")]
    ElementType {
        /// The pack.
        path: Arc<str>,
        /// The type asked for.
        asked: ElementType,
        /// The type in the header.
        found: ElementType,
    },
    /// The caller's buffer has another size than what is to be read into it.
    #[error("{path}: the buffer has {found} {unit}, but the rows need {expected}")]
    BufferSize {
        /// The pack.
        path: Arc<str>,
        /// What is counted: `bytes` or `elements`.
        unit: &'static str,
        /// Size that is needed.
        expected: u64,
        /// Size of the buffer.
        found: u64,
    },
    /// The data segment cannot be looked at as elements where it lies.
    #[error("{path}: no typed view: {reason} (read the rows instead)")]
    NoTypedView {
        /// The pack.
        path: Arc<str>,
        /// Why not.
        reason: &'static str,
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
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Codec { source, .. } => codec_kind(source),
            Self::RequiredExtension { .. } => ErrorKind::UnsupportedExtension,
            Self::ElementType { .. } | Self::BufferSize { .. } => ErrorKind::Usage,
            Self::NoTypedView { .. } => ErrorKind::Unsupported,
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
            | Self::Codec { path, .. }
            | Self::RequiredExtension { path, .. }
            | Self::ElementType { path, .. }
            | Self::BufferSize { path, .. }
            | Self::NoTypedView { path, .. }
            | Self::Memory { path, .. } => path,
        }
    }

    /// The row that is wrong, where one is.
    #[must_use]
    pub const fn row(&self) -> Option<u64> {
        match self {
            Self::Checksum { row, .. } => Some(*row),
            Self::Codec { row, .. } => *row,
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
            Self::Codec { source, .. } => source.field(),
            _ => None,
        }
    }

    /// The message without the pack's name, for lists that name it once.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Format { source, .. } => source.to_string(),
            Self::Codec { source, .. } => source.to_string(),
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

/// The workspace's kind for what a codec says about a pack that is read.
fn codec_kind(error: &CodecError) -> ErrorKind {
    match error.kind() {
        // A parameter that cannot be stands in the pack's header: nobody used it wrongly here.
        CodecErrorKind::Usage if matches!(error, CodecError::Parameter { .. }) => ErrorKind::Decode,
        kind => ErrorKind::from_name(kind.as_str()).unwrap_or(ErrorKind::Decode),
    }
}

fn of_row(row: Option<u64>) -> String {
    row.map_or_else(String::new, |row| format!("row {row} of "))
}

/// Result of this crate's operations.
pub type Result<T, E = ReadError> = std::result::Result<T, E>;
