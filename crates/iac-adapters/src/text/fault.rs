//! What can be wrong with a block.

use iac_format::ErrorKind;

use crate::error::short;

/// Why the decoded record of a patient is no sound block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// There is no room for the manifest's length.
    #[error("the block has {bytes} bytes, too few for the length of its manifest")]
    TooShort {
        /// Bytes of the block.
        bytes: u64,
    },
    /// The manifest would reach past the block.
    #[error("the manifest of {manifest} bytes overruns the block of {bytes} bytes")]
    ManifestOverrun {
        /// Bytes that the manifest is said to have.
        manifest: u64,
        /// Bytes of the block.
        bytes: u64,
    },
    /// The manifest is no text.
    #[error("the manifest is not UTF-8 at byte {at}")]
    ManifestNotUtf8 {
        /// First byte that does not fit.
        at: u64,
    },
    /// The manifest is no JSON.
    #[error("the manifest is not JSON: {reason}")]
    ManifestNotJson {
        /// What the parser says.
        reason: String,
    },
    /// The manifest is JSON of another shape than it should be.
    #[error("the manifest has a wrong shape: {reason}")]
    ManifestShape {
        /// What is wrong with it.
        reason: String,
    },
    /// A text lies outside of the block's body.
    #[error(
        "document {document} (\"{}\"): {field} spans {length} bytes at offset {offset}, outside of the body of {body} bytes",
        short(.doc_id)
    )]
    Span {
        /// Position of the document.
        document: u64,
        /// Its id.
        doc_id: String,
        /// The text: `text`, `source_text` or `compressed_text`.
        field: &'static str,
        /// Its offset in the manifest.
        offset: u64,
        /// Its length in the manifest.
        length: u64,
        /// Bytes of the body.
        body: u64,
    },
    /// A text is not UTF-8.
    #[error(
        "document {document} (\"{}\"): {field} is not UTF-8 at its byte {at}",
        short(.doc_id)
    )]
    TextNotUtf8 {
        /// Position of the document.
        document: u64,
        /// Its id.
        doc_id: String,
        /// The text: `text`, `source_text` or `compressed_text`.
        field: &'static str,
        /// First byte that does not fit.
        at: u64,
    },
    /// The documents would take more memory than the limits allow. Texts may overlap, so they can
    /// have far more bytes than the block.
    #[error("the documents would take more than the {allowed} bytes that the limits allow")]
    TooLarge {
        /// Bytes that they may take.
        allowed: u64,
    },
    /// A document was asked for that is not there.
    #[error("the patient has {documents} documents, so there is no document {document}")]
    NoDocument {
        /// Position that was asked for.
        document: u64,
        /// Documents that are there.
        documents: u64,
    },
    /// Block and index say different things; only reported where that is asked for.
    #[error("{field} is {block} in the block, but {index} in the index")]
    IndexDiffers {
        /// The column.
        field: &'static str,
        /// The block's value.
        block: String,
        /// The index's value.
        index: String,
    },
    /// A block cannot be made, as a length would not fit.
    #[error("the manifest would have {bytes} bytes, above the 4294967295 that a block can hold")]
    ManifestTooLarge {
        /// Bytes that it would have.
        bytes: u64,
    },
}

impl BlockError {
    /// The kind that callers branch on.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoDocument { .. } => ErrorKind::Usage,
            Self::TooLarge { .. } | Self::ManifestTooLarge { .. } => ErrorKind::Limit,
            _ => ErrorKind::Schema,
        }
    }

    /// A short name of the kind of fault, for machines.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TooShort { .. } => "block_too_short",
            Self::ManifestOverrun { .. } => "manifest_overrun",
            Self::ManifestNotUtf8 { .. } => "manifest_not_utf8",
            Self::ManifestNotJson { .. } => "manifest_not_json",
            Self::ManifestShape { .. } => "manifest_shape",
            Self::Span { .. } => "span",
            Self::TextNotUtf8 { .. } => "text_not_utf8",
            Self::TooLarge { .. } => "too_large",
            Self::NoDocument { .. } => "no_document",
            Self::IndexDiffers { .. } => "index_differs",
            Self::ManifestTooLarge { .. } => "manifest_too_large",
        }
    }
}
