//! What can go wrong in an operation.

use std::io;
use std::path::{Path, PathBuf};

use iac_codec::CodecError;
use iac_format::{ErrorKind, FormatError, TableKind};
use iac_reader::ReadError;
use iac_writer::WriteError;

use crate::pictures::PictureError;
use crate::predicate::PredicateError;

/// Columns that a message lists before it only counts the rest.
const LISTED_COLUMNS: usize = 40;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpsError {
    /// A pack could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A pack could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A row condition cannot be read, or does not fit the pack's tables.
    #[error(transparent)]
    Predicate(#[from] PredicateError),
    /// A codec cannot be made, or a record cannot be encoded or decoded.
    #[error("{}{path}: {source}", of_row(*.row))]
    Codec {
        /// The pack, or the file whose content was to be encoded.
        path: String,
        /// Row of the index table, where one record is at fault.
        row: Option<u64>,
        /// What the codec says.
        #[source]
        source: Box<CodecError>,
    },
    /// A file is no image that can be used, or a record cannot be written as such a file.
    #[error("{}{}: {source}", of_row(*.row), path.display())]
    Picture {
        /// The file, or the pack.
        path: PathBuf,
        /// Row of the index table, where a record is at fault.
        row: Option<u64>,
        /// What is wrong.
        #[source]
        source: Box<PictureError>,
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
    /// An argument cannot be used.
    #[error("{reason}")]
    Usage {
        /// What is wrong with it.
        reason: String,
    },
    /// A file or folder that was named as a source cannot be used as one.
    #[error("{}: {reason}", path.display())]
    Source {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A source changed while it was read.
    #[error("{}: changed while it was read ({reason})", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// How.
        reason: String,
    },
    /// A destination exists and may not be replaced.
    #[error("{}: exists already (allow overwriting to replace it)", path.display())]
    Exists {
        /// The destination.
        path: PathBuf,
    },
    /// A destination cannot be written where it would have to be.
    #[error("{}: {reason}", path.display())]
    Destination {
        /// The destination.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A row number lies outside the table.
    #[error("{path}: row {row} is out of range (the {table} has {rows} rows)")]
    RowOutOfRange {
        /// The pack.
        path: String,
        /// Which table.
        table: TableKind,
        /// The row asked for.
        row: u64,
        /// Rows that are there.
        rows: u64,
    },
    /// A column that was asked for does not exist, or several of its name do.
    #[error("{path}: {table}: {} column `{column}` ({})", if *.several { "more than one" } else { "no" }, known_columns(.known))]
    Column {
        /// The pack.
        path: String,
        /// Which table.
        table: TableKind,
        /// The name.
        column: String,
        /// Whether there are several rather than none.
        several: bool,
        /// The columns that the table has.
        known: Vec<String>,
    },
    /// A value of a table cannot be shown.
    #[error("{path}: {table}: column `{column}`: {reason}")]
    Value {
        /// The pack.
        path: String,
        /// Which table.
        table: TableKind,
        /// The column.
        column: String,
        /// Why not.
        reason: String,
    },
    /// A value of a table is larger than is shown or copied.
    #[error("{path}: {table}: column `{column}`: {}{reason}", in_row(*.row))]
    ValueTooLarge {
        /// The pack.
        path: String,
        /// Which table.
        table: TableKind,
        /// The column.
        column: String,
        /// Row of the table, where one is concerned.
        row: Option<u64>,
        /// What is too much.
        reason: String,
    },
    /// Records overlap so much that far more would be written than the pack holds.
    #[error(
        "{path}: records overlap: {bytes} bytes would be written out of a data segment of {data_length} bytes (without permission to expand, at most {allowed})"
    )]
    Expansion {
        /// The pack.
        path: String,
        /// Bytes that would be written.
        bytes: u64,
        /// Bytes of the data segment that are there.
        data_length: u64,
        /// Bytes that are written without being asked.
        allowed: u64,
    },
    /// A limit on sizes is exceeded.
    #[error("{}: has {found} bytes, but {what} may have at most {allowed}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is limited.
        what: &'static str,
        /// Its size in bytes.
        found: u64,
        /// The limit.
        allowed: u64,
    },
    /// Nothing can be saved from a pack.
    #[error("{path}: nothing can be salvaged: {reason}")]
    BeyondSalvage {
        /// The pack.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A pack that was to be copied is damaged.
    #[error("{}{path}: {reason}{}", of_row(*.row), and_more(*.faults))]
    Unsound {
        /// The pack.
        path: String,
        /// The kind of its first fault.
        kind: ErrorKind,
        /// Row of the index table, where one record is at fault.
        row: Option<u64>,
        /// The first fault.
        reason: String,
        /// All faults.
        faults: u64,
    },
    /// A result could not be handed to whoever wanted it.
    #[error("cannot write the result: {source}")]
    Output {
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The work was stopped from outside.
    #[error("interrupted")]
    Cancelled,
}

impl OpsError {
    /// The kind that callers branch on.
    ///
    /// [`OpsError::Cancelled`] counts as [`ErrorKind::Io`]; ask
    /// [`is_cancelled`](OpsError::is_cancelled) first.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Read(error) => error.kind(),
            Self::Write(error) => error.kind(),
            Self::Unsound { kind, .. } => *kind,
            Self::Predicate(error) => error.kind(),
            Self::Codec { source, .. } => codec_error_kind(source),
            Self::Picture { source, .. } => source.kind(),
            Self::Io { .. } | Self::Changed { .. } | Self::Output { .. } | Self::Cancelled => {
                ErrorKind::Io
            }
            Self::Usage { .. }
            | Self::Source { .. }
            | Self::Destination { .. }
            | Self::Column { .. } => ErrorKind::Usage,
            Self::Exists { .. } => ErrorKind::Exists,
            Self::RowOutOfRange { .. } => ErrorKind::RowOutOfRange,
            Self::Value { .. } | Self::BeyondSalvage { .. } => ErrorKind::Damaged,
            Self::TooLarge { .. } | Self::ValueTooLarge { .. } | Self::Expansion { .. } => {
                ErrorKind::Limit
            }
        }
    }

    /// Whether the work was stopped from outside, which is no failure.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Whether the reader of the result went away, which is no failure of a command either.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output { source } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The file that the error is about, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Read(error) => Some(Path::new(error.path())),
            Self::Write(error) => error.path(),
            Self::Codec { path, .. }
            | Self::RowOutOfRange { path, .. }
            | Self::Column { path, .. }
            | Self::Value { path, .. }
            | Self::ValueTooLarge { path, .. }
            | Self::Expansion { path, .. }
            | Self::Unsound { path, .. }
            | Self::BeyondSalvage { path, .. } => Some(Path::new(path)),
            Self::Io { path, .. }
            | Self::Picture { path, .. }
            | Self::Source { path, .. }
            | Self::Changed { path, .. }
            | Self::Exists { path }
            | Self::Destination { path, .. }
            | Self::TooLarge { path, .. } => Some(path),
            Self::Predicate(_) | Self::Usage { .. } | Self::Output { .. } | Self::Cancelled => None,
        }
    }

    /// The row that the error is about, where there is one.
    #[must_use]
    pub fn row(&self) -> Option<u64> {
        match self {
            Self::Read(error) => error.row(),
            Self::Write(error) => error.row(),
            Self::Codec { row, .. }
            | Self::Unsound { row, .. }
            | Self::Picture { row, .. }
            | Self::ValueTooLarge { row, .. } => *row,
            Self::RowOutOfRange { row, .. } => Some(*row),
            _ => None,
        }
    }

    /// The header member or column that the error is about, where there is one.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Read(error) => error.field(),
            Self::Write(error) => error.field(),
            Self::Predicate(error) => error.field(),
            Self::Codec { source, .. } => source.field(),
            Self::Column { column, .. }
            | Self::Value { column, .. }
            | Self::ValueTooLarge { column, .. } => Some(column),
            _ => None,
        }
    }

    /// The message without the pack's name and row, for lists that state them once.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Read(error) => error.reason(),
            Self::Codec { source, .. } => source.to_string(),
            Self::Picture { source, .. } => source.to_string(),
            other => {
                let message = other.to_string();
                let path = other.path().map(|path| format!("{}: ", path.display()));
                match path.and_then(|path| message.strip_prefix(&path).map(str::to_owned)) {
                    Some(rest) => rest,
                    None => message,
                }
            }
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, action, source }
    }

    pub(crate) fn codec(path: impl Into<String>, row: Option<u64>, source: CodecError) -> Self {
        Self::Codec { path: path.into(), row, source: Box::new(source) }
    }

    pub(crate) fn output(source: io::Error) -> Self {
        Self::Output { source }
    }

    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Self::Usage { reason: reason.into() }
    }

    pub(crate) fn source(path: &Path, reason: impl Into<String>) -> Self {
        Self::Source { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn destination(path: &Path, reason: impl Into<String>) -> Self {
        Self::Destination { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn format(path: &str, source: FormatError) -> Self {
        Self::Read(ReadError::Format { path: path.into(), source })
    }
}

/// The workspace's kind for a codec's error.
fn codec_error_kind(error: &CodecError) -> ErrorKind {
    // What a later release may add is about payloads first of all.
    ErrorKind::from_name(error.kind().as_str()).unwrap_or(ErrorKind::Decode)
}

fn of_row(row: Option<u64>) -> String {
    row.map_or_else(String::new, |row| format!("row {row} of "))
}

fn and_more(faults: u64) -> String {
    match faults.saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    }
}

fn in_row(row: Option<u64>) -> String {
    row.map_or_else(String::new, |row| format!("row {row}: "))
}

fn known_columns(known: &[String]) -> String {
    if known.is_empty() {
        return "the table has no columns".to_owned();
    }
    let shown: Vec<&str> = known.iter().take(LISTED_COLUMNS).map(String::as_str).collect();
    let more = known.len().saturating_sub(shown.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("its columns are: {}{rest}", shown.join(", "))
}

/// Result of this crate's operations.
pub type Result<T, E = OpsError> = std::result::Result<T, E>;
