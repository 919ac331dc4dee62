//! Variable packs, record by record as their codec gives them.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use iac_codec::{Codec, CodecError, CodecSpec, DecodeOptions, Limits, Registry, SampleMapping};
use iac_format::{CHECKSUMS_EXTENSION, FormatError, RecordIndex};

use crate::batch::ContiguousRecordBatch;
use crate::decode::{Decoding, SkippedRows};
use crate::error::{ReadError, Result};
use crate::options::ReadOptions;
use crate::pack::PackReader;
use crate::sizes::Sizes;

const UNLIMITED: Limits = Limits::unlimited();

/// How the records of a pack are decoded.
///
/// ```
/// use iac_codec::Limits;
/// use iac_reader::RecordOptions;
///
/// let options = RecordOptions::default().limits(Limits::unlimited());
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Default)]
pub struct RecordOptions {
    pub(crate) decode: DecodeOptions,
    registry: Option<Arc<Registry>>,
    extensions: Vec<String>,
    size_column: Option<String>,
}

impl RecordOptions {
    /// Bounds on what one record may decode to. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.decode.limits = limits;
        self
    }

    /// How images are decoded: scale, colours, treatment of damage; and the limits. Default:
    /// [`DecodeOptions::default`].
    #[must_use]
    pub fn images(mut self, options: DecodeOptions) -> Self {
        self.decode = options;
        self
    }

    /// Where the codec comes from. Default (`None`): [`Registry::global`].
    #[must_use]
    pub fn registry(mut self, registry: impl Into<Option<Arc<Registry>>>) -> Self {
        self.registry = registry.into();
        self
    }

    /// Extensions that the caller can deal with, beside those that this library knows: a pack that
    /// requires any other is not decoded. Default: none.
    #[must_use]
    pub fn extensions<I: IntoIterator<Item: Into<String>>>(mut self, names: I) -> Self {
        self.extensions = names.into_iter().map(Into::into).collect();
        self
    }

    /// A column (`uint64`) of the index that says how many bytes each record decodes to. Records of
    /// bytes are decoded straight to memory of that size then, as far as it can be believed, and
    /// one of another size is an error. Without effect where there is no such column. Default: none.
    #[must_use]
    pub fn size_column(mut self, name: impl Into<Option<String>>) -> Self {
        self.size_column = name.into();
        self
    }
}

/// Reads the records of a variable pack, decoded by the codec that its header names.
///
/// The codec is made when the first record is decoded, so a pack whose codec this build lacks
/// still opens, and its stored bytes can be read. Stored bytes are compared with their CRC-32
/// before they are decoded, unless the reader's options say otherwise. Clones are cheap and work
/// from any number of threads at once.
///
/// Rows count from 0. Counting from the end is a call of its own
/// ([`row_from_end`](Self::row_from_end)), so that a wrong subtraction never reads another row.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.iac");
/// use iac_reader::{ContiguousRecordBatch, VariableRecordPack};
/// # use iac_writer::{Table, WriteOptions, build_pack};
/// # use arrow_array::{ArrayRef, RecordBatch, StringArray};
/// # let ids: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["a", "b"]));
/// # let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
/// # let options = WriteOptions::new();
/// # build_pack(&path, &serde_json::Map::new(), &Table::empty(), &index, &["one", "two"], &options)?;
///
/// let pack = VariableRecordPack::open(&path)?;
/// assert_eq!(pack.read(0)?, "one");
/// assert_eq!(pack.read(pack.row_from_end(1)?)?, "two");
///
/// // A batch whose memory is used again and again.
/// let mut batch = ContiguousRecordBatch::new();
/// pack.read_many_contiguous_into(&[1, 0, 1], &mut batch)?;
/// assert_eq!(batch.view(2)?, b"two");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct VariableRecordPack {
    pub(crate) pack: PackReader,
    pub(crate) options: Arc<RecordOptions>,
    codec: Arc<OnceLock<Codec>>,
    sizes: Arc<OnceLock<Option<Sizes>>>,
}

impl VariableRecordPack {
    /// Opens a pack with default options.
    ///
    /// # Errors
    ///
    /// As [`PackReader::open`]. Whether the pack is a variable one, and whether its codec is known,
    /// shows when a record is read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::from_reader(PackReader::open(path)?))
    }

    /// Opens a pack.
    ///
    /// # Errors
    ///
    /// As [`PackReader::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        read: &ReadOptions,
        records: RecordOptions,
    ) -> Result<Self> {
        Ok(Self::from_reader_with(PackReader::open_with(path, read)?, records))
    }

    /// Reads the records of a pack that is open already.
    #[must_use]
    pub fn from_reader(pack: PackReader) -> Self {
        Self::from_reader_with(pack, RecordOptions::default())
    }

    /// Reads the records of a pack that is open already; how bytes are read is the reader's
    /// affair.
    #[must_use]
    pub fn from_reader_with(pack: PackReader, options: RecordOptions) -> Self {
        Self {
            pack,
            options: Arc::new(options),
            codec: Arc::new(OnceLock::new()),
            sizes: Arc::new(OnceLock::new()),
        }
    }

    /// The same pack, codec included, with calls that use at most so many threads; `None`: all
    /// cores.
    #[must_use]
    pub fn with_workers(&self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        Self { pack: self.pack.with_workers(workers), ..self.clone() }
    }

    /// The pack: header, tables, stored bytes.
    #[must_use]
    pub const fn reader(&self) -> &PackReader {
        &self.pack
    }

    /// Number of records.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the index table is damaged.
    pub fn record_count(&self) -> Result<u64> {
        self.pack.num_records()
    }

    /// The row that is the n-th from the end: 1 is the last row.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] (kind `row_out_of_range`) when `n` is 0 or larger than the number of
    /// rows.
    pub fn row_from_end(&self, n: u64) -> Result<u64> {
        let rows = self.record_count()?;
        match rows.checked_sub(n) {
            Some(row) if n > 0 => Ok(row),
            _ => {
                let error = FormatError::RowOutOfRange { row: n, rows };
                Err(self.pack.inner.content.format_error(error))
            }
        }
    }

    /// Name and parameters of the codec, as the header states them.
    ///
    /// # Errors
    ///
    /// [`ReadError::Codec`] when the header's `codec` is no text.
    pub fn codec_spec(&self) -> Result<CodecSpec> {
        CodecSpec::from_header(self.pack.header().members())
            .map_err(|source| self.codec_error(source))
    }

    /// The codec that the header names, made on first use.
    ///
    /// # Errors
    ///
    /// [`ReadError::RequiredExtension`] when the pack needs an extension that is not known;
    /// [`ReadError::Codec`] when the codec is not known or not compiled in, or the header describes
    /// it wrongly.
    pub fn codec(&self) -> Result<&Codec> {
        if let Some(codec) = self.codec.get() {
            return Ok(codec);
        }
        let registry = self.options.registry.as_deref().unwrap_or_else(|| Registry::global());
        let codec = CodecSpec::from_header(self.pack.header().members())
            .and_then(|spec| registry.create(&spec));
        let codec = self.fit(codec)?;
        Ok(self.codec.get_or_init(|| codec))
    }

    /// The same pack read with another codec of the same name, for options of codecs that no header
    /// states.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.iac");
    /// use iac_codec::zstd::ZstdOptions;
    /// use iac_reader::VariableRecordPack;
    /// # use arrow_array::{ArrayRef, RecordBatch, StringArray};
    /// # let ids: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["a"]));
    /// # let index = iac_writer::Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
    /// # iac_writer::VariablePackBuilder::new("notes", index)
    /// #     .codec(ZstdOptions::new(3).codec()?)
    /// #     .build(&path, &["one"])?;
    ///
    /// let pack = VariableRecordPack::open(&path)?;
    /// let strict = ZstdOptions::from_spec(&pack.codec_spec()?)?.with_strict(true).codec()?;
    /// let pack = pack.with_codec(strict)?;
    /// assert_eq!(pack.read(0)?, "one");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError::Codec`] (kind `usage`) when the header names another codec, and as
    /// [`codec`](Self::codec).
    pub fn with_codec(self, codec: Codec) -> Result<Self> {
        let spec = self.codec_spec()?;
        if spec.name() != codec.name() {
            return Err(self.codec_error(CodecError::OtherCodec {
                expected: spec.name().to_owned(),
                found: codec.name().to_owned(),
            }));
        }
        let codec = self.fit(Ok(codec))?;
        Ok(Self { codec: Arc::new(OnceLock::from(codec)), ..self })
    }

    /// The codec as the rest of the header wants it, if all that the pack requires is known.
    fn fit(&self, codec: Result<Codec, CodecError>) -> Result<Codec> {
        let members = self.pack.header().members();
        let codec = codec.and_then(|codec| match members.get(SampleMapping::MEMBER) {
            None => Ok(codec),
            Some(value) => match SampleMapping::from_header_value(value)? {
                SampleMapping::Int16 => codec.with_int16_samples(),
                _ => Err(CodecError::Unsupported {
                    name: codec.name().to_owned(),
                    reason: "its samples are stored in a way that is not known".to_owned(),
                }),
            },
        });
        let of_codec = codec.as_ref().map_or(&[] as &[&str], |codec| codec.required_extensions());
        check_extensions(&self.pack, |name| {
            of_codec.contains(&name) || self.options.extensions.iter().any(|known| known == name)
        })?;
        codec.map_err(|source| self.codec_error(source))
    }

    /// Reads one record's stored bytes.
    ///
    /// # Errors
    ///
    /// As [`PackReader::read`]; [`ReadError::Format`] (kind `no_record_index`) when the pack is no
    /// variable one.
    pub fn read_bytes(&self, row: u64) -> Result<Bytes> {
        self.index()?;
        self.pack.read(row)
    }

    /// Reads and decodes one record.
    ///
    /// # Errors
    ///
    /// As [`read_bytes`](Self::read_bytes) and [`codec`](Self::codec); [`ReadError::Codec`] with
    /// the row when its bytes cannot be decoded, or decode to more than the limits allow.
    pub fn read(&self, row: u64) -> Result<Bytes> {
        match self.decoding()? {
            None => self.pack.read(row),
            Some(decoding) => self.pack.inner.content.guarded_lately(|| decoding.one(row)),
        }
    }

    /// Reads and decodes many records, in the order asked for, duplicates included.
    ///
    /// Large batches are split over the reader's workers. The records that one thread decoded share
    /// one allocation. One bad row fails the whole call: the first one in the order asked for,
    /// where rows that do not exist come before records that cannot be decoded.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_many(&self, rows: &[u64]) -> Result<Vec<Bytes>> {
        match self.decoding()? {
            None => self.pack.read_rows(rows),
            Some(decoding) => self.guarded(|| decoding.owned(rows)),
        }
    }

    /// Decodes many records and keeps only what `look` makes of each, in the order asked for.
    ///
    /// `look` is given the row and its record, on the threads that decode, so work on records is
    /// split over the reader's workers too, and no more than one record for each thread is in
    /// memory.
    ///
    /// # Errors
    ///
    /// As [`read_many`](Self::read_many).
    pub fn read_many_with<T: Send>(
        &self,
        rows: &[u64],
        look: impl Fn(u64, &[u8]) -> T + Sync,
    ) -> Result<Vec<T>> {
        let decoding = self.lossy_decoding()?;
        self.guarded(|| decoding.mapped(rows, look))
    }

    /// Reads and decodes many records one after the other into one buffer.
    ///
    /// # Errors
    ///
    /// As [`read_many`](Self::read_many).
    pub fn read_many_contiguous(&self, rows: &[u64]) -> Result<ContiguousRecordBatch> {
        let mut batch = ContiguousRecordBatch::new();
        self.read_many_contiguous_into(rows, &mut batch)?;
        Ok(batch)
    }

    /// Reads and decodes many records into a batch whose memory is used again. After an error the
    /// batch is empty.
    ///
    /// Records whose payloads say their size, as those written by this library with `zstd` do, are
    /// decoded straight to their place.
    ///
    /// # Errors
    ///
    /// As [`read_many`](Self::read_many).
    pub fn read_many_contiguous_into(
        &self,
        rows: &[u64],
        batch: &mut ContiguousRecordBatch,
    ) -> Result<()> {
        let result = self.decoding().and_then(|decoding| match decoding {
            None => self.pack.read_contiguous_into(rows, batch),
            Some(decoding) => self.guarded(|| decoding.contiguous(rows, batch)),
        });
        if result.is_err() {
            batch.clear();
        }
        result
    }

    /// Reads and decodes many records, and leaves out those that are damaged: their places are
    /// `None`, and the report says what is wrong with each.
    ///
    /// Damaged are records whose span, checksum or payload is wrong, and those that exceed a limit.
    ///
    /// # Errors
    ///
    /// As [`read_many`](Self::read_many) for everything that concerns more than one record, and
    /// for rows that do not exist.
    pub fn read_many_lossy(&self, rows: &[u64]) -> Result<(Vec<Option<Bytes>>, SkippedRows)> {
        let decoding = self.lossy_decoding()?;
        self.guarded(|| decoding.owned_lossy(rows))
    }

    /// Reads and decodes many records one after the other into one buffer, and leaves out those
    /// that are damaged: the batch holds the others only, and the report says which are missing
    /// and why.
    ///
    /// # Errors
    ///
    /// As [`read_many_lossy`](Self::read_many_lossy).
    pub fn read_many_contiguous_lossy(
        &self,
        rows: &[u64],
    ) -> Result<(ContiguousRecordBatch, SkippedRows)> {
        let decoding = self.lossy_decoding()?;
        self.guarded(|| decoding.contiguous_lossy(rows))
    }

    pub(crate) fn guarded<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.pack.inner.content.guarded(call)
    }

    /// What decodes the records; nothing where stored bytes and records are the same.
    fn decoding(&self) -> Result<Option<Decoding<'_>>> {
        let decoding = self.lossy_decoding()?;
        Ok((!decoding.codec.is_identity()).then_some(decoding))
    }

    fn lossy_decoding(&self) -> Result<Decoding<'_>> {
        self.index()?;
        let codec = self.codec()?;
        if codec.as_byte_codec().is_none() {
            return Err(self.codec_error(CodecError::Unsupported {
                name: codec.name().to_owned(),
                reason: "its records are images, not bytes".to_owned(),
            }));
        }
        // Where nothing grows there is nothing to limit: the file holds the bytes already.
        let limits = if codec.is_identity() { &UNLIMITED } else { &self.options.decode.limits };
        let sizes = if codec.is_identity() { None } else { self.sizes()? };
        Ok(Decoding { pack: &self.pack, codec, limits, sizes, loaded: None })
    }

    /// The bytes that a record decodes to, as far as the column that the options name says it.
    ///
    /// # Errors
    ///
    /// [`ReadError::Format`] when the index table is damaged.
    pub fn decoded_size(&self, row: u64) -> Result<Option<u64>> {
        Ok(self.sizes()?.and_then(|sizes| sizes.get(row)))
    }

    /// The sizes of decoded records, where a column says them.
    fn sizes(&self) -> Result<Option<&Sizes>> {
        let Some(name) = &self.options.size_column else { return Ok(None) };
        if let Some(sizes) = self.sizes.get() {
            return Ok(sizes.as_ref());
        }
        let sizes = Sizes::new(self.pack.index_table()?, name)?;
        Ok(self.sizes.get_or_init(|| sizes).as_ref())
    }

    pub(crate) fn index(&self) -> Result<&RecordIndex> {
        self.pack
            .record_index()?
            .ok_or_else(|| self.pack.inner.content.format_error(FormatError::NoRecordIndex))
    }

    #[cold]
    pub(crate) fn codec_error(&self, source: CodecError) -> ReadError {
        let path = Arc::clone(&self.pack.inner.content.path);
        ReadError::Codec { path, row: None, source: Box::new(source) }
    }
}

/// Extensions that this library knows. Those of codecs are among them whether or not the codec is
/// compiled in: its absence is an error that says more.
const KNOWN_EXTENSIONS: [&str; 4] =
    [CHECKSUMS_EXTENSION, "iac.codec.lz4", "iac.zstd.dictionary", "iac.image.extended"];

/// Refuses a pack that cannot be understood without an extension that nobody here knows.
pub(crate) fn check_extensions(pack: &PackReader, is_known: impl Fn(&str) -> bool) -> Result<()> {
    for extension in pack.header().required_extensions() {
        if !KNOWN_EXTENSIONS.contains(&extension) && !is_known(extension) {
            return Err(ReadError::RequiredExtension {
                path: Arc::clone(&pack.inner.content.path),
                extension: extension.to_owned(),
            });
        }
    }
    Ok(())
}
