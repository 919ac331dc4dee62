//! What can go wrong in a codec, and how callers tell the cases apart.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The kinds of failure that callers branch on.
///
/// The names ([`CodecErrorKind::as_str`]) are those that the whole workspace uses for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodecErrorKind {
    /// The caller asked for something that makes no sense (parameters, names, inputs).
    Usage,
    /// The payload, or what the header says about its codec, is damaged.
    Decode,
    /// A limit on sizes was exceeded.
    Limit,
    /// The codec is known, but its feature was not compiled in.
    MissingFeature,
    /// The codec's name is not known.
    UnknownCodec,
    /// Valid input of a kind that is not supported.
    Unsupported,
}

impl CodecErrorKind {
    /// The stable name, in snake case: `decode`, `missing_feature`, ...
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Decode => "decode",
            Self::Limit => "limit",
            Self::MissingFeature => "missing_feature",
            Self::UnknownCodec => "unknown_codec",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for CodecErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure of a codec, or of making one.
///
/// Codecs know neither file nor row, so the messages name codec, member and sizes; the reader
/// and the writer add the rest.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// No codec of this name is built in or registered.
    #[error("codec `{name}` is not known (it is neither built in nor registered)")]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The codec belongs to the format, but this build lacks it.
    #[error("codec `{name}` is not compiled in (it needs the feature `{feature}`)")]
    MissingFeature {
        /// The name asked for.
        name: &'static str,
        /// The cargo feature that brings it.
        feature: &'static str,
    },
    /// A header member that describes the codec has a value that cannot be.
    #[error("header field `{member}`: {reason}")]
    HeaderMember {
        /// `codec` or `codec_params`.
        member: &'static str,
        /// Found and expected value.
        reason: String,
    },
    /// A parameter in a header is one that its codec cannot be made with: the pack is damaged, or
    /// was written wrongly.
    #[error("codec `{name}`: parameter `{parameter}`: {reason}")]
    HeaderParameter {
        /// The codec.
        name: String,
        /// The parameter, a member of `codec_params`.
        parameter: String,
        /// Found and expected value.
        reason: String,
    },
    /// A codec was given for a pack whose records are of another.
    #[error("the records are of codec `{expected}`, not of `{found}`")]
    OtherCodec {
        /// The codec of the pack.
        expected: String,
        /// The codec that was given.
        found: String,
    },
    /// A parameter of a codec is unknown, or has a wrong type or value.
    #[error("codec `{name}`: parameter `{parameter}`: {reason}")]
    Parameter {
        /// The codec.
        name: String,
        /// The parameter.
        parameter: String,
        /// Found and expected value.
        reason: String,
    },
    /// A record cannot be encoded as asked.
    #[error("codec `{name}`: cannot encode the record: {reason}")]
    Encode {
        /// The codec.
        name: String,
        /// What is wrong with the record.
        reason: String,
        /// The backend's own error, if it gave one.
        #[source]
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// A payload is no sound stream of its codec.
    #[error("codec `{name}`: cannot decode the record: {reason}")]
    Decode {
        /// The codec.
        name: String,
        /// What is wrong with the payload.
        reason: String,
        /// The backend's own error, if it gave one.
        #[source]
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// A record decodes to another size than the buffer that was given for it.
    #[error(
        "codec `{name}`: the record decodes to {found} bytes, but the buffer for it has {expected}"
    )]
    OutputSize {
        /// The codec.
        name: String,
        /// Bytes of the buffer.
        expected: u64,
        /// Bytes of the record; at least this many, where decoding stopped at the buffer's end.
        found: u64,
    },
    /// A record needs more than a limit allows.
    #[error("a record has {found} {what}, but the limit is {allowed}")]
    Limit {
        /// What is counted: `decoded bytes`, `samples` or `bytes of native memory`.
        what: &'static str,
        /// The count found; at least this many, where decoding stopped at the limit.
        found: u64,
        /// The limit.
        allowed: u64,
    },
    /// Shape, type and samples of an image do not go together.
    #[error("no image: {reason}")]
    Image {
        /// What does not fit.
        reason: String,
    },
    /// A codec cannot be registered.
    #[error("cannot register a codec as `{name}`: {reason}")]
    Registration {
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A registered factory made a codec of another name.
    #[error("the factory registered for codec `{requested}` made a codec named `{found}`")]
    WrongName {
        /// The registered name.
        requested: String,
        /// The name of what the factory made.
        found: String,
    },
    /// One of many records failed.
    #[error("item {position}: {source}")]
    Item {
        /// Its position in what was given, from 0.
        position: usize,
        /// What is wrong with it.
        source: Box<CodecError>,
    },
    /// Something is valid, but this codec or build has no support for it.
    #[error("codec `{name}`: {reason}")]
    Unsupported {
        /// The codec.
        name: String,
        /// What is not supported.
        reason: String,
    },
}

impl CodecError {
    /// The kind that callers branch on.
    #[must_use]
    pub const fn kind(&self) -> CodecErrorKind {
        match self {
            Self::Item { source, .. } => source.kind(),
            Self::Unknown { .. } => CodecErrorKind::UnknownCodec,
            Self::MissingFeature { .. } => CodecErrorKind::MissingFeature,
            Self::HeaderMember { .. }
            | Self::HeaderParameter { .. }
            | Self::Decode { .. }
            | Self::OutputSize { .. } => CodecErrorKind::Decode,
            Self::Limit { .. } => CodecErrorKind::Limit,
            Self::Parameter { .. }
            | Self::Encode { .. }
            | Self::Image { .. }
            | Self::Registration { .. }
            | Self::OtherCodec { .. }
            | Self::WrongName { .. } => CodecErrorKind::Usage,
            Self::Unsupported { .. } => CodecErrorKind::Unsupported,
        }
    }

    /// The header member that is wrong, where one is.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::HeaderMember { member, .. } => Some(member),
            Self::HeaderParameter { .. } => Some("codec_params"),
            _ => None,
        }
    }

    /// The same where the parameters come from a header.
    pub(crate) fn of_header(self) -> Self {
        match self {
            Self::Parameter { name, parameter, reason } => {
                Self::HeaderParameter { name, parameter, reason }
            }
            other => other,
        }
    }

    /// Says that a payload cannot be decoded; for implementers of codecs.
    pub fn decode(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Decode { name: name.into(), reason: reason.into(), source: None }
    }

    /// Says that a record cannot be encoded; for implementers of codecs.
    pub fn encode(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Encode { name: name.into(), reason: reason.into(), source: None }
    }

    /// Says what is wrong with a parameter; for implementers of codecs.
    pub fn parameter(
        name: impl Into<String>,
        parameter: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Parameter { name: name.into(), parameter: parameter.into(), reason: reason.into() }
    }
}

/// Result of this crate's operations.
pub type Result<T, E = CodecError> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_of_the_workspace() {
        let names = [
            (CodecErrorKind::Usage, "usage"),
            (CodecErrorKind::Decode, "decode"),
            (CodecErrorKind::Limit, "limit"),
            (CodecErrorKind::MissingFeature, "missing_feature"),
            (CodecErrorKind::UnknownCodec, "unknown_codec"),
            (CodecErrorKind::Unsupported, "unsupported"),
        ];
        for (kind, name) in names {
            assert_eq!(kind.to_string(), name);
        }
    }

    #[test]
    fn the_cause_of_a_backend_error_is_its_source() {
        let error = CodecError::Decode {
            name: "zstd".into(),
            reason: "frame cut".into(),
            source: Some(Arc::new(std::io::Error::other("deep"))),
        };
        assert_eq!(error.source().unwrap().to_string(), "deep");
        assert_eq!(error.to_string(), "codec `zstd`: cannot decode the record: frame cut");
        assert!(CodecError::decode("zstd", "x").source().is_none());
    }
}
