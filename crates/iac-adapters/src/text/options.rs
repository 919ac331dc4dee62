//! How packs of text are written.

use std::num::NonZeroUsize;

use iac_codec::brotli::BrotliOptions;
use iac_codec::{Codec, Parameters};
use iac_writer::WriteOptions;
use serde_json::{Map, Value};

/// Optional columns of the index, which the reference ignores. They say something about documents
/// without a block being decompressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextColumns {
    /// `doc_ids`: a list of texts.
    pub doc_ids: bool,
    /// `doc_types`: a list of texts.
    pub doc_types: bool,
    /// `doc_timestamps`: a list of texts.
    pub doc_timestamps: bool,
    /// `raw_bytes`: bytes of the block before compression.
    pub raw_bytes: bool,
}

impl TextColumns {
    /// All of them.
    #[must_use]
    pub const fn all() -> Self {
        Self { doc_ids: true, doc_types: true, doc_timestamps: true, raw_bytes: true }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        !(self.doc_ids || self.doc_types || self.doc_timestamps || self.raw_bytes)
    }
}

/// How a pack of text is written.
///
/// ```
/// use iac_adapters::text::{TextColumns, TextWriteOptions};
/// use iac_codec::brotli::BrotliOptions;
///
/// let options = TextWriteOptions::default()
///     .codec(BrotliOptions::default().with_quality(9).codec()?)
///     .columns(TextColumns::all());
/// # let _ = options;
/// # Ok::<(), iac_codec::CodecError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TextWriteOptions {
    pub(crate) codec: Option<Codec>,
    pub(crate) duplicates: bool,
    pub(crate) columns: TextColumns,
    pub(crate) header: Map<String, Value>,
    pub(crate) workers: Option<NonZeroUsize>,
    pub(crate) memory: u64,
    pub(crate) write: WriteOptions,
}

impl Default for TextWriteOptions {
    fn default() -> Self {
        Self {
            codec: None,
            duplicates: false,
            columns: TextColumns::default(),
            header: Map::new(),
            workers: None,
            memory: 64 << 20,
            write: WriteOptions::new(),
        }
    }
}

impl TextWriteOptions {
    /// Sets the codec. Default: `brotli` with quality 11. The reference reads `brotli`, `none`, and
    /// `zstd` without a dictionary; a pack with a dictionary says in its header that it needs the
    /// extension.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Sets whether several patients may have one id. Default: no. Readers that look for an id find
    /// the last of them.
    #[must_use]
    pub const fn duplicates(mut self, allowed: bool) -> Self {
        self.duplicates = allowed;
        self
    }

    /// Sets the optional columns. Default: none.
    #[must_use]
    pub const fn columns(mut self, columns: TextColumns) -> Self {
        self.columns = columns;
        self
    }

    /// Sets further header members. Those that the schema needs cannot be replaced.
    #[must_use]
    pub fn header(mut self, members: Map<String, Value>) -> Self {
        self.header = members;
        self
    }

    /// Sets the number of threads that compress. Default (`None`): all cores.
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        self.workers = workers.into();
        self
    }

    /// Sets how many bytes of blocks and compressed records may be in memory at once, unless one
    /// patient has more. Default: 64 MiB.
    #[must_use]
    pub const fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets how the pack is written.
    #[must_use]
    pub const fn write(mut self, options: WriteOptions) -> Self {
        self.write = options;
        self
    }

    pub(crate) fn encoder(&self) -> iac_codec::Result<Codec> {
        let codec = match &self.codec {
            Some(codec) => codec.clone(),
            None => BrotliOptions::default().codec()?,
        };
        codec.check_encode()?;
        if codec.as_byte_codec().is_none() {
            return Err(iac_codec::CodecError::Unsupported {
                name: codec.name().to_owned(),
                reason: "its records are images, not texts".to_owned(),
            });
        }
        Ok(codec)
    }
}

/// The parameters of a codec that a header is to state.
pub(crate) fn codec_members(codec: &Codec) -> Map<String, Value> {
    let mut members: Parameters = Map::new();
    codec.spec().write_to_header(&mut members);
    members
}
