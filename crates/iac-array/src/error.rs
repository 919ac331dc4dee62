//! What can go wrong with a store of arrays.

#[cfg(feature = "convert")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use iac_codec::{CodecError, CodecErrorKind};
use iac_format::{ErrorKind, FormatError};

/// The result of this crate's calls.
pub type Result<T, E = ArrayError> = std::result::Result<T, E>;

/// Why a call on a store of arrays failed.
///
/// Three families: the caller asked wrongly ([`ArrayError::Argument`], [`ArrayError::NotFound`],
/// [`ArrayError::Exists`], [`ArrayError::OutOfBounds`], [`ArrayError::TooLarge`]), the data is
/// damaged or foreign ([`ArrayError::Corrupt`], [`ArrayError::Unsupported`],
/// [`ArrayError::UnknownCodec`]), or the world got in the way ([`ArrayError::Store`],
/// [`ArrayError::Conflict`], [`ArrayError::SnapshotExpired`], [`ArrayError::Lock`],
/// [`ArrayError::System`]).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The call cannot be carried out as it was asked.
    #[error("{reason}")]
    Argument {
        /// What does not fit, with the values.
        reason: String,
    },
    /// There is no array, group, version, tag or store of this name.
    #[error("there is no {what} `{name}`")]
    NotFound {
        /// `array`, `group`, `version`, `tag`, `store`, `attribute`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The name is taken.
    #[error("{what} `{name}` exists already")]
    Exists {
        /// `array`, `group`, `store`, `tag`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A box reaches past the array.
    #[error("array `{name}`: axis {axis} ends at {extent}, the box at {end}")]
    OutOfBounds {
        /// The array.
        name: String,
        /// The axis.
        axis: usize,
        /// Where the box ends.
        end: u64,
        /// Where the array ends.
        extent: u64,
    },
    /// Something is larger than the format or a limit allows.
    #[error("{what} of {found} is above the {allowed} allowed")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much there may be.
        allowed: u64,
    },
    /// An object's bytes are not what was written.
    #[error("{object}: {reason}")]
    Corrupt {
        /// The object in the store.
        object: String,
        /// What is wrong, where, with the values.
        reason: String,
    },
    /// An object needs a newer reader.
    #[error("{object} needs {reason}, which this version does not know")]
    Unsupported {
        /// The object in the store.
        object: String,
        /// What it needs.
        reason: String,
    },
    /// A block's codec is not in the reader's registry.
    #[error("there is no codec `{name}` to decode with")]
    UnknownCodec {
        /// The codec.
        name: String,
    },
    /// Somebody else changed the same arrays; what was to be published is still pending.
    #[error("version {version} changed {what} meanwhile")]
    Conflict {
        /// The version that was found.
        version: u64,
        /// What both changed.
        what: String,
    },
    /// Garbage collection removed what this snapshot needs.
    #[error("{object} is gone: the snapshot of version {version} is older than the store keeps")]
    SnapshotExpired {
        /// The missing object.
        object: String,
        /// The version that named it.
        version: u64,
    },
    /// The store cannot create an object only if there is none, so publishing is not safe without a
    /// [lock](crate::StoreOptions::lock).
    #[error(
        "this store cannot create objects conditionally, so nothing can be published in it without a \
         lock"
    )]
    NoConditionalPut,
    /// The caller's lock could not be taken or given back.
    #[error("cannot {action} the lock of the store")]
    Lock {
        /// `acquire`, `release`.
        action: &'static str,
        /// The lock's own words.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The object store failed.
    #[error("cannot {action} {object}")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The object.
        object: String,
        /// Why it failed.
        source: Arc<object_store::Error>,
    },
    /// A codec failed to encode, or its parameters are wrong.
    #[error("cannot encode a block")]
    Codec {
        /// The codec's own words.
        #[from]
        source: CodecError,
    },
    /// A table or header could not be built.
    #[error("cannot build a layer")]
    Format {
        /// Why not.
        #[from]
        source: FormatError,
    },
    /// A file outside of any store could not be read or written.
    #[error("{}: cannot {action}", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: Arc<std::io::Error>,
    },
    /// The operating system refused threads, random numbers or memory.
    #[error("the system refused {what}: {reason}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        reason: String,
    },
}

impl ArrayError {
    /// What kind of failure this is, in the words that all crates of the workspace share.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Argument { .. } | Self::OutOfBounds { .. } => ErrorKind::Usage,
            // A store that is not there is the system's matter, like a file.
            Self::NotFound { what: "store", .. } => ErrorKind::Io,
            Self::NotFound { .. } => ErrorKind::Usage,
            Self::Exists { .. } => ErrorKind::Exists,
            Self::TooLarge { .. } => ErrorKind::Limit,
            Self::Corrupt { .. } => ErrorKind::Damaged,
            Self::Unsupported { .. } | Self::NoConditionalPut => ErrorKind::Unsupported,
            Self::UnknownCodec { .. } => ErrorKind::UnknownCodec,
            Self::Codec { source } => match source.kind() {
                CodecErrorKind::MissingFeature => ErrorKind::MissingFeature,
                CodecErrorKind::Limit => ErrorKind::Limit,
                _ => ErrorKind::Usage,
            },
            Self::Format { source } => source.kind(),
            Self::Conflict { .. }
            | Self::SnapshotExpired { .. }
            | Self::Lock { .. }
            | Self::Store { .. }
            | Self::File { .. }
            | Self::System { .. } => ErrorKind::Io,
        }
    }

    /// Wraps what the system says of a file.
    #[cfg(feature = "convert")]
    pub(crate) fn file(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |error| Self::File { action, path, source: Arc::new(error) }
    }

    /// A foreign file that needs what is not known here.
    #[cfg(feature = "convert")]
    pub(crate) fn foreign(path: &Path, needs: impl Into<String>) -> Self {
        Self::Unsupported { object: path.display().to_string(), reason: needs.into() }
    }

    /// A foreign file that is not what it should be.
    #[cfg(feature = "convert")]
    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Corrupt { object: path.display().to_string(), reason: reason.into() }
    }

    pub(crate) fn argument(reason: impl Into<String>) -> Self {
        Self::Argument { reason: reason.into() }
    }

    pub(crate) fn corrupt(object: impl ToString, reason: impl Into<String>) -> Self {
        Self::Corrupt { object: object.to_string(), reason: reason.into() }
    }

    pub(crate) fn no_array(name: &str) -> Self {
        Self::NotFound { what: "array", name: name.to_owned() }
    }
}

/// Lengths of memory as the format counts them.
pub(crate) fn u64_len(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A length that has to fit into memory.
pub(crate) fn usize_len(what: &'static str, length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| ArrayError::TooLarge {
        what,
        found: length,
        allowed: u64_len(usize::MAX),
    })
}

/// Memory from this size on is left to the system to fill with zeros.
const LAZY_BYTES: usize = 1 << 20;

/// Zeroed memory, or an error where there is not so much.
pub(crate) fn zeroed(what: &'static str, length: u64) -> Result<Vec<u8>> {
    let length = usize_len(what, length)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|error| ArrayError::System {
        what: "memory",
        reason: format!("{length} bytes for {what}: {error}"),
    })?;
    if length < LAZY_BYTES {
        bytes.resize(length, 0);
        return Ok(bytes);
    }
    // There is room for it, which is all that was to be found out: pages that the system gives as
    // zeros are made when they are first written, by the thread that does so.
    drop(bytes);
    Ok(vec![0; length])
}
