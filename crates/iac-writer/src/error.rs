//! Why a pack could not be written.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use iac_codec::CodecError;
use iac_format::{ErrorKind, FormatError, TableKind};

/// Why a pack could not be written. Whatever the reason, nothing was published.
///
/// One exception: when only the folder's own sync fails, the pack is in place and whole, but may
/// be gone again after a power failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The destination exists and may not be replaced.
    #[error("{}: the file exists already (allow overwriting to replace it)", path.display())]
    Exists {
        /// The destination.
        path: PathBuf,
    },
    /// The operating system failed.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What could not be done.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A part of the pack cannot be expressed in the format.
    #[error("{}: {source}", path.display())]
    Format {
        /// The destination.
        path: PathBuf,
        /// The rule that it would break.
        #[source]
        source: FormatError,
    },
    /// An argument cannot be used.
    #[error("{}: {reason}", path.display())]
    Argument {
        /// The destination.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Record batches that do not make one table.
    #[error("batch {batch}: {reason}")]
    Batch {
        /// Position of the first batch that does not fit.
        batch: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A column of a table that may not be there, or not twice.
    #[error("{}: {table}: column `{column}`: {reason}", path.display())]
    Column {
        /// The destination.
        path: PathBuf,
        /// Which table.
        table: TableKind,
        /// Name of the column.
        column: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A member of the header does not fit the data.
    #[error("{}: header field `{field}`: {reason}", path.display())]
    HeaderField {
        /// The destination.
        path: PathBuf,
        /// Name of the member.
        field: String,
        /// Found and expected value.
        reason: String,
    },
    /// Rows of the index table and payloads do not match one to one.
    #[error(
        "{}: the index table has {rows} rows, but there are {}{payloads} payloads",
        path.display(),
        at_least(*.more)
    )]
    RowCount {
        /// The destination.
        path: PathBuf,
        /// Rows of the index table.
        rows: u64,
        /// Payloads that were given.
        payloads: u64,
        /// Whether there may be more of them.
        more: bool,
    },
    /// A record is larger than the index can express.
    #[error("{}: row {row}: a record of {length} bytes is too large (at most {} fit)", path.display(), u32::MAX)]
    RecordTooLarge {
        /// The destination.
        path: PathBuf,
        /// Row of the index table.
        row: u64,
        /// Bytes of the record.
        length: u64,
    },
    /// The index has more rows than memory can hold the spans of.
    #[error("{}: no memory for the spans of {rows} rows", path.display())]
    TooManyRows {
        /// The destination.
        path: PathBuf,
        /// Rows of the index table.
        rows: u64,
    },
    /// The source of the data segment is shorter or longer than stated.
    #[error(
        "{}: source {} has {}{found} bytes where {expected} are expected",
        path.display(),
        source_path.display(),
        at_least(*.more)
    )]
    DataLength {
        /// The destination.
        path: PathBuf,
        /// The file that was to become the data segment.
        source_path: PathBuf,
        /// Bytes that were announced.
        expected: u64,
        /// Bytes that were found.
        found: u64,
        /// Whether there may be more of them.
        more: bool,
    },
    /// The source of the data segment was modified while it was copied.
    #[error("{}: source {} changed while it was copied", path.display(), source_path.display())]
    SourceChanged {
        /// The destination.
        path: PathBuf,
        /// The file that was to become the data segment.
        source_path: PathBuf,
    },
    /// The codec cannot be made or used, or a record cannot be encoded.
    #[error("{}: {}{source}", path.display(), of_row(*.row))]
    Codec {
        /// The destination.
        path: PathBuf,
        /// Row of the index table, where one record is at fault.
        row: Option<u64>,
        /// What the codec says.
        #[source]
        source: Box<CodecError>,
    },
    /// The caller's source of payloads failed.
    #[error("{}: row {row}: payload could not be made: {source}", path.display())]
    Payload {
        /// The destination.
        path: PathBuf,
        /// Row of the index table that the payload was for.
        row: u64,
        /// What the caller's iterator reported.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl WriteError {
    /// The kind that callers branch on.
    ///
    /// A failed payload counts as I/O unless its cause is an error of this crate or of
    /// `iac-format`, whose kind is kept.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Exists { .. } => ErrorKind::Exists,
            Self::Io { .. } | Self::SourceChanged { .. } => ErrorKind::Io,
            Self::Format { source, .. } => source.kind(),
            Self::Argument { .. }
            | Self::Batch { .. }
            | Self::Column { .. }
            | Self::HeaderField { .. }
            | Self::RowCount { .. }
            | Self::DataLength { .. } => ErrorKind::Usage,
            Self::RecordTooLarge { .. } | Self::TooManyRows { .. } => ErrorKind::Limit,
            Self::Codec { source, .. } => {
                ErrorKind::from_name(source.kind().as_str()).unwrap_or(ErrorKind::Usage)
            }
            Self::Payload { source, .. } => {
                if let Some(error) = source.downcast_ref::<Self>() {
                    error.kind()
                } else if let Some(error) = source.downcast_ref::<FormatError>() {
                    error.kind()
                } else {
                    ErrorKind::Io
                }
            }
        }
    }

    /// The destination, or the file or folder that could not be used.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Batch { .. } => None,
            Self::Exists { path }
            | Self::Io { path, .. }
            | Self::Format { path, .. }
            | Self::Argument { path, .. }
            | Self::Column { path, .. }
            | Self::HeaderField { path, .. }
            | Self::RowCount { path, .. }
            | Self::RecordTooLarge { path, .. }
            | Self::TooManyRows { path, .. }
            | Self::DataLength { path, .. }
            | Self::SourceChanged { path, .. }
            | Self::Codec { path, .. }
            | Self::Payload { path, .. } => Some(path),
        }
    }

    /// The row that is wrong, where one is.
    #[must_use]
    pub const fn row(&self) -> Option<u64> {
        match self {
            Self::RecordTooLarge { row, .. } | Self::Payload { row, .. } => Some(*row),
            Self::Codec { row, .. } => *row,
            Self::Format { source, .. } => source.row(),
            _ => None,
        }
    }

    /// The header member or column that is wrong, where one is.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Column { column, .. } => Some(column),
            Self::HeaderField { field, .. } => Some(field),
            Self::Codec { source, .. } => source.field(),
            Self::Format { source, .. } => source.field(),
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn format(path: &Path) -> impl FnOnce(FormatError) -> Self {
        move |source| Self::Format { path: path.to_owned(), source }
    }

    pub(crate) fn argument(path: &Path, reason: impl Into<String>) -> Self {
        Self::Argument { path: path.to_owned(), reason: reason.into() }
    }
}

fn of_row(row: Option<u64>) -> String {
    row.map_or_else(String::new, |row| format!("row {row}: "))
}

const fn at_least(more: bool) -> &'static str {
    if more { "at least " } else { "" }
}

/// Result of this crate's operations.
pub type Result<T, E = WriteError> = std::result::Result<T, E>;
