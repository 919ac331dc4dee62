//! What can be wrong with the bytes of a pack, and how callers tell the cases apart.

use std::fmt;

/// The kinds of failure that callers branch on, shared by every crate of the workspace.
///
/// The names ([`ErrorKind::as_str`]) are part of the interface: the command line prints them in
/// its JSON errors and derives its exit codes from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something that makes no sense (argument, unknown column, ...).
    Usage,
    /// A row number lies outside the table.
    RowOutOfRange,
    /// The destination exists and may not be replaced.
    Exists,
    /// A record was asked for in a pack whose index addresses none.
    NoRecordIndex,
    /// The bytes are not an `.iac` file at all.
    NotIac,
    /// The file breaks a rule of the format.
    Damaged,
    /// Bytes differ from the checksum stored for them.
    Checksum,
    /// The pack is sound as a container but breaks the rules of its payload type.
    Schema,
    /// A record's payload could not be decoded.
    Decode,
    /// A limit on sizes or counts was exceeded.
    Limit,
    /// The operating system failed.
    Io,
    /// The format version is not known to this library.
    UnsupportedVersion,
    /// The codec is known, but its feature was not compiled in.
    MissingFeature,
    /// The codec's name is not known.
    UnknownCodec,
    /// The file needs an extension that this library does not know.
    UnsupportedExtension,
    /// Valid input of a kind that is not supported.
    Unsupported,
}

impl ErrorKind {
    /// The stable name, in snake case: `row_out_of_range`, `not_iac`, ...
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::RowOutOfRange => "row_out_of_range",
            Self::Exists => "exists",
            Self::NoRecordIndex => "no_record_index",
            Self::NotIac => "not_iac",
            Self::Damaged => "damaged",
            Self::Checksum => "checksum",
            Self::Schema => "schema",
            Self::Decode => "decode",
            Self::Limit => "limit",
            Self::Io => "io",
            Self::UnsupportedVersion => "unsupported_version",
            Self::MissingFeature => "missing_feature",
            Self::UnknownCodec => "unknown_codec",
            Self::UnsupportedExtension => "unsupported_extension",
            Self::Unsupported => "unsupported",
        }
    }
}

impl ErrorKind {
    const ALL: [Self; 16] = [
        Self::Usage,
        Self::RowOutOfRange,
        Self::Exists,
        Self::NoRecordIndex,
        Self::NotIac,
        Self::Damaged,
        Self::Checksum,
        Self::Schema,
        Self::Decode,
        Self::Limit,
        Self::Io,
        Self::UnsupportedVersion,
        Self::MissingFeature,
        Self::UnknownCodec,
        Self::UnsupportedExtension,
        Self::Unsupported,
    ];

    /// The kind of that name, which is what [`ErrorKind::as_str`] gives.
    ///
    /// Crates that this one knows nothing of use the same names for kinds of their own.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One of the two tables of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// The slide table: one row per slide, patient or other parent object.
    Slide,
    /// The index table: one row per record.
    Index,
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slide => "slide table",
            Self::Index => "index table",
        })
    }
}

/// A rule of the container format that bytes or arguments break.
///
/// This crate never touches files, so the messages name fields, columns and rows but no path;
/// the reader and the writer add it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The first bytes are not the magic number.
    #[error("not an IAC file: {}", first_bytes(.found))]
    NotIac {
        /// The first bytes of the file, at most eight.
        found: Vec<u8>,
    },
    /// The file ends inside the fixed header.
    #[error("header cut at {len} bytes (a header has {} bytes)", crate::HEADER_BYTES)]
    HeaderCut {
        /// Bytes that are there.
        len: u64,
    },
    /// The version word is not 2.
    #[error(
        "format version {found} is not supported (this library reads version {})",
        crate::FORMAT_VERSION
    )]
    UnsupportedVersion {
        /// The version word of the file.
        found: u32,
    },
    /// The header's JSON is longer than the header has room for.
    #[error("header text has {len} bytes, but at most {} fit", crate::MAX_HEADER_TEXT)]
    HeaderTooLong {
        /// Length of the JSON text in bytes.
        len: u64,
    },
    /// The header's JSON cannot be parsed, or a member has a value that cannot be.
    #[error("header text: {reason}")]
    HeaderText {
        /// What is wrong with the text.
        reason: String,
    },
    /// A member of the header is missing or has a wrong value.
    #[error("header field `{field}`: {reason}")]
    HeaderField {
        /// Name of the member.
        field: String,
        /// Found and expected value.
        reason: String,
    },
    /// A checksum that the pack stores differs from the bytes.
    #[error("{what}: checksum mismatch (stored {stored:#010x}, computed {computed:#010x})")]
    Checksum {
        /// `header`, `slide table` or `index table`.
        what: &'static str,
        /// The stored CRC-32.
        stored: u32,
        /// The CRC-32 of the bytes that are there.
        computed: u32,
    },
    /// A table's Arrow stream is damaged.
    #[error("{table}: {reason}")]
    Table {
        /// Which table.
        table: TableKind,
        /// What is wrong, with the byte offset inside the table where it helps.
        reason: String,
    },
    /// A column of a table is missing or has a type or content that is not allowed.
    #[error("{table}: column `{column}`: {reason}")]
    Column {
        /// Which table.
        table: TableKind,
        /// Name of the column.
        column: String,
        /// Found and expected.
        reason: String,
    },
    /// A table is valid Arrow of a kind that this library does not read.
    #[error("{table}: {reason}")]
    UnsupportedTable {
        /// Which table.
        table: TableKind,
        /// What is not supported.
        reason: String,
    },
    /// Decoding a table would cost more than is allowed, or more memory than there is.
    #[error("{table}: {reason}")]
    TableLimit {
        /// Which table.
        table: TableKind,
        /// The found and the allowed amount.
        reason: String,
    },
    /// A record's span reaches past the data segment.
    #[error(
        "row {row}: span of {length} bytes at offset {offset} reaches past the data segment of {data_length} bytes"
    )]
    Span {
        /// Row of the index table.
        row: u64,
        /// Offset relative to the data segment; the bits of a negative value in a signed column.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Bytes of the data segment.
        data_length: u64,
    },
    /// A row number lies outside the table.
    #[error("row {row} is out of range (the pack has {rows} rows)")]
    RowOutOfRange {
        /// The row asked for.
        row: u64,
        /// Rows that are there.
        rows: u64,
    },
    /// The pack's index has no `offset` column, so it addresses no records.
    #[error("the pack has no record index (its index table has no `offset` column)")]
    NoRecordIndex,
    /// An argument cannot be used.
    #[error("{reason}")]
    Argument {
        /// What is wrong with it.
        reason: String,
    },
}

impl FormatError {
    /// The kind that callers branch on.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotIac { .. } => ErrorKind::NotIac,
            Self::UnsupportedVersion { .. } => ErrorKind::UnsupportedVersion,
            Self::Checksum { .. } => ErrorKind::Checksum,
            Self::UnsupportedTable { .. } => ErrorKind::Unsupported,
            Self::TableLimit { .. } => ErrorKind::Limit,
            Self::RowOutOfRange { .. } => ErrorKind::RowOutOfRange,
            Self::NoRecordIndex => ErrorKind::NoRecordIndex,
            Self::Argument { .. } => ErrorKind::Usage,
            Self::HeaderCut { .. }
            | Self::HeaderTooLong { .. }
            | Self::HeaderText { .. }
            | Self::HeaderField { .. }
            | Self::Table { .. }
            | Self::Column { .. }
            | Self::Span { .. } => ErrorKind::Damaged,
        }
    }

    /// The header member or column that is wrong, where one is.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::HeaderField { field, .. } => Some(field),
            Self::Column { column, .. } => Some(column),
            _ => None,
        }
    }

    /// The row that is wrong, where one is.
    #[must_use]
    pub const fn row(&self) -> Option<u64> {
        match self {
            Self::Span { row, .. } | Self::RowOutOfRange { row, .. } => Some(*row),
            _ => None,
        }
    }

    pub(crate) fn table(table: TableKind, reason: impl Into<String>) -> Self {
        Self::Table { table, reason: reason.into() }
    }

    pub(crate) fn column(table: TableKind, column: &str, reason: impl Into<String>) -> Self {
        Self::Column { table, column: column.to_owned(), reason: reason.into() }
    }

    pub(crate) fn field_error(field: &str, reason: impl Into<String>) -> Self {
        Self::HeaderField { field: field.to_owned(), reason: reason.into() }
    }
}

/// Says how a file starts, readable for text and for binary signatures alike.
fn first_bytes(found: &[u8]) -> String {
    if found.is_empty() {
        return "the file is empty".to_owned();
    }
    format!("starts with \"{}\"", found.escape_ascii())
}

/// Result of this crate's operations.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(ErrorKind::from_name("Usage"), None);
    }
}
