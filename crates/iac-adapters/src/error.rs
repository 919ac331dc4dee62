//! What can go wrong between a schema and its packs.

use std::io;
use std::path::{Path, PathBuf};

use iac_codec::CodecError;
use iac_format::{ErrorKind, TableKind};
use iac_ops::OpsError;
use iac_reader::ReadError;
use iac_writer::WriteError;

/// Why an adapter failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// A pack could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A pack could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An operation failed, or was stopped from outside.
    #[error(transparent)]
    Ops(Box<OpsError>),
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
    /// A manifest, or a table of texts, lacks columns.
    #[error("{}: there is no column {}", path.display(), columns.join(", "))]
    MissingColumns {
        /// The file.
        path: PathBuf,
        /// Their names, sorted.
        columns: Vec<String>,
    },
    /// A place in a manifest is wrong.
    #[error("{}:{line}:{column}: {}{reason}", path.display(), of_field(.field))]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Line of the file, counted from 1.
        line: u64,
        /// Character in the line, counted from 1.
        column: u64,
        /// The column's name, where the place lies in one that has a meaning.
        field: Option<String>,
        /// What is wrong.
        reason: String,
    },
    /// Records that are to be written break a rule of the schema.
    #[error("{}{reason}", in_record(*.row))]
    Records {
        /// Position of the record, where one is at fault.
        row: Option<u64>,
        /// The member that is at fault.
        field: Option<&'static str>,
        /// What is wrong.
        reason: String,
    },
    /// A record that a manifest lists, or the file that it names, cannot be used.
    #[error("{source} (listed in {}, line {line})", path.display())]
    Listed {
        /// The manifest.
        path: PathBuf,
        /// Line of the manifest at which the record begins, counted from 1.
        line: u64,
        /// What is wrong.
        #[source]
        source: Box<AdapterError>,
    },
    /// An argument cannot be used.
    #[error("{reason}")]
    Usage {
        /// What is wrong with it.
        reason: String,
    },
    /// A source file cannot become a record.
    #[error("{}: {reason}", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// The record that it was to become.
        row: Option<u64>,
        /// Whose fault it is.
        kind: ErrorKind,
        /// Why not.
        reason: String,
    },
    /// A codec cannot be made, or an image cannot be encoded or decoded.
    #[error("{}{path}: {source}", of_row(*.row))]
    Codec {
        /// The pack, or the file whose content was to be encoded.
        path: String,
        /// Row of the index table, where one record is at fault.
        row: Option<u64>,
        /// What the codec says.
        #[source]
        source: CodecError,
    },
    /// A pack is of another payload type than was asked for.
    #[error("{path}: payload type is {}, but {expected} is expected", or_none(.found))]
    PayloadType {
        /// The pack.
        path: String,
        /// What its header says.
        found: Option<String>,
        /// What was asked for.
        expected: &'static str,
    },
    /// A pack breaks a rule of its payload type.
    #[error("{}{path}: {}{reason}", of_row(*.row), unnamed_field(field.as_deref(), reason))]
    Schema {
        /// The pack.
        path: String,
        /// Row of the index table, where one is at fault.
        row: Option<u64>,
        /// Header member or column that is at fault.
        field: Option<String>,
        /// What is wrong.
        reason: String,
    },
    /// What a record of a text pack decompresses to is no sound block.
    #[cfg(feature = "text")]
    #[error("row {row} of {path}: {source}")]
    Block {
        /// The pack.
        path: String,
        /// Row of the index table.
        row: u64,
        /// What is wrong with it.
        #[source]
        source: Box<crate::text::BlockError>,
    },
    /// No record of a pack has an id.
    #[error("{path}: no record has the {field} \"{}\"", short(.id))]
    UnknownId {
        /// The pack.
        path: String,
        /// The column that was searched.
        field: &'static str,
        /// The id.
        id: String,
    },
    /// A row number lies outside the index table.
    #[error("{path}: row {row} is out of range (the {} has {rows} rows)", TableKind::Index)]
    RowOutOfRange {
        /// The pack.
        path: String,
        /// The row asked for.
        row: u64,
        /// Rows that are there.
        rows: u64,
    },
    /// A sound pack or source is of a kind that is not supported here.
    #[error("{path}: {reason}")]
    Unsupported {
        /// The pack or source.
        path: String,
        /// What is not supported.
        reason: String,
    },
}

impl AdapterError {
    /// The kind that callers branch on; ask [`is_cancelled`](Self::is_cancelled) first.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Read(error) => error.kind(),
            Self::Write(error) => error.kind(),
            Self::Ops(error) => error.kind(),
            Self::Listed { source, .. } => source.kind(),
            Self::Io { .. } => ErrorKind::Io,
            Self::MissingColumns { .. } | Self::Manifest { .. } | Self::Records { .. } => {
                ErrorKind::Schema
            }
            Self::Usage { .. } | Self::UnknownId { .. } => ErrorKind::Usage,
            Self::Source { kind, .. } => *kind,
            Self::Codec { source, .. } => {
                ErrorKind::from_name(source.kind().as_str()).unwrap_or(ErrorKind::Decode)
            }
            Self::PayloadType { .. } | Self::Schema { .. } => ErrorKind::Schema,
            #[cfg(feature = "text")]
            Self::Block { source, .. } => source.kind(),
            Self::RowOutOfRange { .. } => ErrorKind::RowOutOfRange,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
        }
    }

    /// Whether the work was stopped from outside, which is no failure.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Ops(error) => error.is_cancelled(),
            Self::Listed { source, .. } => source.is_cancelled(),
            _ => false,
        }
    }

    /// The file that the error is about, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Read(error) => Some(Path::new(error.path())),
            Self::Write(error) => error.path(),
            Self::Ops(error) => error.path(),
            Self::Listed { path, source, .. } => source.path().or(Some(path)),
            Self::Io { path, .. }
            | Self::MissingColumns { path, .. }
            | Self::Manifest { path, .. }
            | Self::Source { path, .. } => Some(path),
            Self::Codec { path, .. }
            | Self::PayloadType { path, .. }
            | Self::Schema { path, .. }
            | Self::UnknownId { path, .. }
            | Self::RowOutOfRange { path, .. }
            | Self::Unsupported { path, .. } => Some(Path::new(path)),
            #[cfg(feature = "text")]
            Self::Block { path, .. } => Some(Path::new(path)),
            Self::Records { .. } | Self::Usage { .. } => None,
        }
    }

    /// The row that the error is about, where there is one.
    #[must_use]
    pub fn row(&self) -> Option<u64> {
        match self {
            Self::Read(error) => error.row(),
            Self::Write(error) => error.row(),
            Self::Ops(error) => error.row(),
            Self::Listed { source, .. } => source.row(),
            Self::Records { row, .. }
            | Self::Source { row, .. }
            | Self::Codec { row, .. }
            | Self::Schema { row, .. } => *row,
            Self::RowOutOfRange { row, .. } => Some(*row),
            #[cfg(feature = "text")]
            Self::Block { row, .. } => Some(*row),
            _ => None,
        }
    }

    /// The header member or column that the error is about, where there is one.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Read(error) => error.field(),
            Self::Write(error) => error.field(),
            Self::Ops(error) => error.field(),
            Self::Listed { source, .. } => source.field(),
            Self::Manifest { field, .. } | Self::Schema { field, .. } => field.as_deref(),
            Self::Records { field, .. } => *field,
            Self::Codec { source, .. } => source.field(),
            Self::PayloadType { .. } => Some("payload_type"),
            Self::UnknownId { field, .. } => Some(field),
            _ => None,
        }
    }

    /// The message without the pack's name and row, for lists that state them once.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Read(error) => error.reason(),
            Self::Ops(error) => error.reason(),
            Self::Schema { reason, .. } => reason.clone(),
            Self::Codec { source, .. } => source.to_string(),
            #[cfg(feature = "text")]
            Self::Block { source, .. } => source.to_string(),
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

    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, action, source }
    }

    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Self::Usage { reason: reason.into() }
    }

    pub(crate) fn records(
        row: impl Into<Option<u64>>,
        field: impl Into<Option<&'static str>>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Records { row: row.into(), field: field.into(), reason: reason.into() }
    }

    pub(crate) fn schema(path: &str, field: &str, reason: impl Into<String>) -> Self {
        Self::Schema {
            path: path.to_owned(),
            row: None,
            field: Some(field.to_owned()),
            reason: reason.into(),
        }
    }

    pub(crate) fn schema_row(path: &str, row: u64, field: &str, reason: impl Into<String>) -> Self {
        Self::Schema {
            path: path.to_owned(),
            row: Some(row),
            field: Some(field.to_owned()),
            reason: reason.into(),
        }
    }
}

/// Boxed, as it is the largest of the causes.
impl From<OpsError> for AdapterError {
    fn from(error: OpsError) -> Self {
        Self::Ops(Box::new(error))
    }
}

/// For the operations of `iac-ops` that call back into this crate.
impl From<AdapterError> for OpsError {
    fn from(error: AdapterError) -> Self {
        match error {
            AdapterError::Read(error) => error.into(),
            AdapterError::Write(error) => error.into(),
            AdapterError::Ops(error) => *error,
            other => {
                let path = other.path().map(Path::to_owned).unwrap_or_default();
                Self::Source { path, reason: other.reason() }
            }
        }
    }
}

/// The field, unless the reason names it.
fn unnamed_field(field: Option<&str>, reason: &str) -> String {
    field
        .filter(|field| !reason.contains(field))
        .map_or_else(String::new, |field| format!("{field}: "))
}

fn of_row(row: Option<u64>) -> String {
    row.map_or_else(String::new, |row| format!("row {row} of "))
}

fn in_record(row: Option<u64>) -> String {
    row.map_or_else(String::new, |row| format!("record {row}: "))
}

fn of_field(field: &Option<String>) -> String {
    field.as_ref().map_or_else(String::new, |field| format!("{field}: "))
}

fn or_none(found: &Option<String>) -> String {
    found.as_ref().map_or_else(|| "not stated".to_owned(), |found| format!("\"{}\"", short(found)))
}

/// Characters of an id that a message shows.
const SHOWN: usize = 100;

/// The beginning of a text, for messages.
pub(crate) fn short(text: &str) -> String {
    let mut characters = text.chars();
    let mut shown: String = characters.by_ref().take(SHOWN).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// The beginning and the end of a message in whose middle a value may stand, of any length.
#[cfg(feature = "text")]
pub(crate) fn short_middle(text: &str) -> String {
    let count = text.chars().count();
    if count <= SHOWN.saturating_mul(3) {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count.saturating_sub(SHOWN)).collect();
    format!("{}{end}", short(text))
}

/// Result of this crate's operations.
pub type Result<T, E = AdapterError> = std::result::Result<T, E>;
