//! What the checks find, before it is known which table and which message it concerns.

use crate::{FormatError, TableKind};

/// A broken rule, without the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes cannot be a valid stream.
    Damaged(String),
    /// The bytes may be valid, but are not read.
    Unsupported(String),
    /// Decoding would cost too much.
    Limit(String),
}

/// Result of a check.
pub(super) type Check<T> = Result<T, Fault>;

impl Fault {
    pub(super) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged(reason.into())
    }

    pub(super) fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported(reason.into())
    }

    pub(super) fn limit(reason: impl Into<String>) -> Self {
        Self::Limit(reason.into())
    }

    /// Puts the place in front of the reason.
    pub(super) fn within(self, place: &str) -> Self {
        match self {
            Self::Damaged(reason) => Self::Damaged(format!("{place}: {reason}")),
            Self::Unsupported(reason) => Self::Unsupported(format!("{place}: {reason}")),
            Self::Limit(reason) => Self::Limit(format!("{place}: {reason}")),
        }
    }

    pub(super) fn into_error(self, table: TableKind) -> FormatError {
        match self {
            Self::Damaged(reason) => FormatError::table(table, reason),
            Self::Unsupported(reason) => FormatError::UnsupportedTable { table, reason },
            Self::Limit(reason) => FormatError::TableLimit { table, reason },
        }
    }
}
