//! Variable packs from records that a codec encodes.

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use iac_codec::{
    Codec, CodecError, CodecKind, CodecSpec, Image, ImageView, Registry, SampleMapping,
};
use iac_format::{EXTENSIONS_MEMBER, REQUIRED_EXTENSIONS_MEMBER};
use serde_json::{Map, Value};

use crate::builders::{build_pack, build_pack_streaming};
use crate::draft::WriteSummary;
use crate::error::{Result, WriteError};
use crate::image_writer::ImagePackWriter;
use crate::options::WriteOptions;
use crate::pack_writer::PackWriter;
use crate::pipeline::{Bounds, Failure, encode_ordered};
use crate::table::Table;

/// Header member that says how records were encoded, where the codec's parameters do not.
const ENCODE_MEMBER: &str = "iac_encode";

/// Builds variable packs: one record for each row of the index table, encoded by a codec.
///
/// Records are encoded on several threads and written in order; the same input gives the same
/// bytes, whatever the number of threads. A record that cannot be encoded fails the build, with its
/// row, and nothing is published then.
///
/// Records are bytes ([`build`](Self::build) and its kin) or images
/// ([`build_images`](Self::build_images) and its kin), as the codec has it.
///
/// The header gets `payload_type`, `codec`, `codec_params` where the codec has parameters, and
/// `required_extensions`, `iac_sample` and `iac_encode` where the codec has something to say there;
/// members of the caller's own go in last and may replace these, apart from `iac_sample`.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.iac");
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray};
/// use iac_codec::CodecSpec;
/// use iac_writer::{Table, VariablePackBuilder};
///
/// let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
/// let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
/// let summary = VariablePackBuilder::new("notes", index)
///     .codec_spec(CodecSpec::none())
///     .build(&path, &["first note", "second note"])?;
/// assert_eq!((summary.rows, summary.data_bytes), (2, 21));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct VariablePackBuilder {
    payload_type: String,
    codec: CodecSource,
    registry: Option<Arc<Registry>>,
    index: Table,
    slides: Table,
    header: Map<String, Value>,
    options: WriteOptions,
    workers: Option<NonZeroUsize>,
    memory: u64,
}

#[derive(Debug, Clone)]
enum CodecSource {
    Spec(CodecSpec),
    Ready(Codec),
}

impl VariablePackBuilder {
    /// A pack of records of that type, with one row of `index` for each; codec `none`.
    pub fn new(payload_type: impl Into<String>, index: Table) -> Self {
        Self {
            payload_type: payload_type.into(),
            codec: CodecSource::Spec(CodecSpec::none()),
            registry: None,
            index,
            slides: Table::empty(),
            header: Map::new(),
            options: WriteOptions::new(),
            workers: None,
            memory: 64 << 20,
        }
    }

    /// Sets the codec by name and parameters. Default: `none`.
    #[must_use]
    pub fn codec_spec(mut self, spec: CodecSpec) -> Self {
        self.codec = CodecSource::Spec(spec);
        self
    }

    /// Sets the codec.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = CodecSource::Ready(codec);
        self
    }

    /// Sets where a codec that is given by name comes from. Default (`None`):
    /// [`Registry::global`].
    #[must_use]
    pub fn registry(mut self, registry: impl Into<Option<Arc<Registry>>>) -> Self {
        self.registry = registry.into();
        self
    }

    /// Sets the slide table. Default: without columns and rows.
    #[must_use]
    pub fn slides(mut self, slides: Table) -> Self {
        self.slides = slides;
        self
    }

    /// Sets further header members. They replace the builder's own members of their names, except
    /// that entries of `required_extensions` are added to the codec's.
    #[must_use]
    pub fn header(mut self, members: Map<String, Value>) -> Self {
        self.header = members;
        self
    }

    /// Sets how the pack is written.
    #[must_use]
    pub fn options(mut self, options: WriteOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the number of threads that encode. Default (`None`): all cores.
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        self.workers = workers.into();
        self
    }

    /// Sets how many bytes of records and payloads may be in memory at once, unless one record has
    /// more. Default: 64 MiB.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Encodes records that are in memory, and writes the pack.
    ///
    /// # Errors
    ///
    /// [`WriteError::Codec`] when the codec is not known or cannot be used for encoding as its
    /// parameters stand, and, with the row, when a record cannot be encoded; otherwise as
    /// [`build_pack`].
    pub fn build<R: AsRef<[u8]> + Sync>(
        &self,
        path: impl AsRef<Path>,
        records: &[R],
    ) -> Result<WriteSummary> {
        let path = path.as_ref();
        let codec = self.encoder(path, CodecKind::Bytes)?;
        let header = self.header_of(path, &codec.spec(), Some(&codec))?;
        if codec.is_identity() {
            return build_pack(path, &header, &self.slides, &self.index, records, &self.options);
        }
        self.check_count(path, records.len())?;
        let writer =
            PackWriter::with_index(path, header, &self.slides, &self.index, &self.options)?;
        let records =
            records.iter().map(|record| Ok::<_, std::convert::Infallible>(record.as_ref()));
        let encode = |record: &&[u8]| codec.encode_bytes(record);
        self.encode(writer, records, false, |record| record.len(), encode)
    }

    /// Encodes records that come one by one, and writes the pack.
    ///
    /// The iterator is used on the calling thread. An error from it ends the build; nothing is
    /// published then.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build), and [`WriteError::Payload`] with what the iterator reported.
    pub fn build_streaming<I, R, E>(
        &self,
        path: impl AsRef<Path>,
        records: I,
    ) -> Result<WriteSummary>
    where
        I: IntoIterator<Item = Result<R, E>>,
        R: AsRef<[u8]> + Send,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let path = path.as_ref();
        let codec = self.encoder(path, CodecKind::Bytes)?;
        let header = self.header_of(path, &codec.spec(), Some(&codec))?;
        if codec.is_identity() {
            let Self { slides, index, options, .. } = self;
            return build_pack_streaming(path, &header, slides, index, records, options);
        }
        let writer =
            PackWriter::with_index(path, header, &self.slides, &self.index, &self.options)?;
        let encode = |record: &R| codec.encode_bytes(record.as_ref());
        self.encode(writer, records.into_iter(), true, |record| record.as_ref().len(), encode)
    }

    /// Encodes images that are in memory, and writes the pack.
    ///
    /// Where the codec maps samples ([`Codec::with_int16_samples`]) or has parameters of encoding
    /// alone ([`Codec::encode_members`]), the header says so.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, RecordBatch, StringArray};
    /// use iac_codec::{CodecSpec, ImageShape, ImageView, Parameters};
    /// use iac_writer::{Table, VariablePackBuilder};
    ///
    /// let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    /// let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
    /// let pixels = [128_u8; 16 * 16 * 3];
    /// let tile = ImageView::new(ImageShape::new(16, 16, 3)?, &pixels[..])?;
    /// VariablePackBuilder::new("tiles", index)
    ///     .codec_spec(CodecSpec::new("jxl", Parameters::new()))
    ///     .build_images("tiles.iac", &[tile, tile])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build); kind `unsupported` when the codec's records are no images.
    pub fn build_images(
        &self,
        path: impl AsRef<Path>,
        images: &[ImageView<'_>],
    ) -> Result<WriteSummary> {
        let path = path.as_ref();
        let codec = self.encoder(path, CodecKind::Image)?;
        let header = self.header_of(path, &codec.spec(), Some(&codec))?;
        self.check_count(path, images.len())?;
        let writer =
            PackWriter::with_index(path, header, &self.slides, &self.index, &self.options)?;
        let images = images.iter().map(Ok::<_, std::convert::Infallible>);
        let encode = |image: &&ImageView<'_>| codec.encode_image(image);
        self.encode(writer, images, false, |image| bytes_of(image), encode)
    }

    /// Encodes images that come one by one, and writes the pack.
    ///
    /// The iterator is used on the calling thread. An error from it ends the build; nothing is
    /// published then.
    ///
    /// # Errors
    ///
    /// As [`build_images`](Self::build_images), and [`WriteError::Payload`] with what the iterator
    /// reported.
    pub fn build_images_streaming<I, E>(
        &self,
        path: impl AsRef<Path>,
        images: I,
    ) -> Result<WriteSummary>
    where
        I: IntoIterator<Item = Result<Image, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let path = path.as_ref();
        let codec = self.encoder(path, CodecKind::Image)?;
        let header = self.header_of(path, &codec.spec(), Some(&codec))?;
        let writer =
            PackWriter::with_index(path, header, &self.slides, &self.index, &self.options)?;
        let encode = |image: &Image| codec.encode_image(&image.as_view());
        let size = |image: &Image| bytes_of(&image.as_view());
        self.encode(writer, images.into_iter(), true, size, encode)
    }

    /// Begins the pack for a caller that pushes images itself; they are encoded on several threads,
    /// many at a time.
    ///
    /// # Errors
    ///
    /// As [`build_images`](Self::build_images) before the first image.
    pub fn begin_images(&self, path: impl AsRef<Path>) -> Result<ImagePackWriter> {
        let path = path.as_ref();
        let codec = self.encoder(path, CodecKind::Image)?;
        let header = self.header_of(path, &codec.spec(), Some(&codec))?;
        let writer =
            PackWriter::with_index(path, header, &self.slides, &self.index, &self.options)?;
        Ok(ImagePackWriter::new(writer, codec, self.threads(), self.memory))
    }

    /// Writes the pack from records that are encoded already. The codec need not be compiled in;
    /// its name and parameters go into the header as they are.
    ///
    /// # Errors
    ///
    /// As [`build_pack`].
    pub fn build_from_payloads<P: AsRef<[u8]>>(
        &self,
        path: impl AsRef<Path>,
        payloads: &[P],
    ) -> Result<WriteSummary> {
        let path = path.as_ref();
        let header = self.payload_header(path)?;
        build_pack(path, &header, &self.slides, &self.index, payloads, &self.options)
    }

    /// The same from payloads that come one by one.
    ///
    /// # Errors
    ///
    /// As [`build_pack_streaming`].
    pub fn build_from_payloads_streaming<I, P, E>(
        &self,
        path: impl AsRef<Path>,
        payloads: I,
    ) -> Result<WriteSummary>
    where
        I: IntoIterator<Item = Result<P, E>>,
        P: AsRef<[u8]>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let path = path.as_ref();
        let header = self.payload_header(path)?;
        build_pack_streaming(path, &header, &self.slides, &self.index, payloads, &self.options)
    }

    /// Begins the pack for a caller that pushes payloads itself, encoded by this builder's codec.
    ///
    /// # Errors
    ///
    /// As [`PackWriter::with_index`].
    pub fn begin_from_payloads(&self, path: impl AsRef<Path>) -> Result<PackWriter> {
        let path = path.as_ref();
        let header = self.payload_header(path)?;
        PackWriter::with_index(path, header, &self.slides, &self.index, &self.options)
    }

    fn check_count(&self, path: &Path, records: usize) -> Result<()> {
        let count = u64::try_from(records).unwrap_or(u64::MAX);
        if count != self.index.num_rows() {
            return Err(WriteError::RowCount {
                path: path.to_owned(),
                rows: self.index.num_rows(),
                payloads: count,
                more: false,
            });
        }
        Ok(())
    }

    fn threads(&self) -> NonZeroUsize {
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.workers.unwrap_or_else(all)
    }

    fn encode<R: Send, E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        mut writer: PackWriter,
        records: impl Iterator<Item = Result<R, E>>,
        counts_records: bool,
        size: impl Fn(&R) -> usize,
        encode: impl Fn(&R) -> Result<Vec<u8>, CodecError> + Sync,
    ) -> Result<WriteSummary> {
        let workers = self.threads().get();
        // More threads than records would only wait.
        let rows = usize::try_from(self.index.num_rows()).unwrap_or(usize::MAX);
        let bounds = Bounds { workers: workers.min(rows), memory: self.memory, counts_records };
        let encoded = encode_ordered(records, bounds, size, encode, |payload| {
            writer.push(payload).map(|_| ())
        });
        let path = || writer.path().to_owned();
        match encoded {
            Ok(()) => writer.finish(),
            Err(Failure::Emit(error)) => Err(error),
            Err(Failure::Codec(row, source)) => {
                Err(WriteError::Codec { path: path(), row: Some(row), source: Box::new(source) })
            }
            Err(Failure::Source(row, error)) => {
                Err(WriteError::Payload { path: path(), row, source: error.into() })
            }
        }
    }

    /// The codec, able to encode records of that kind.
    fn encoder(&self, path: &Path, kind: CodecKind) -> Result<Codec> {
        let codec = match &self.codec {
            CodecSource::Ready(codec) => codec.check_encode().map(|()| codec.clone()),
            CodecSource::Spec(spec) => self.codecs().create_encoder(spec),
        };
        let fail = |source| WriteError::Codec {
            path: path.to_owned(),
            row: None,
            source: Box::new(source),
        };
        let codec = codec.map_err(fail)?;
        if codec.kind() != kind {
            let reason = match kind {
                CodecKind::Image => "its records are bytes, not images",
                _ => "its records are images, not bytes",
            };
            return Err(fail(CodecError::Unsupported {
                name: codec.name().to_owned(),
                reason: reason.to_owned(),
            }));
        }
        Ok(codec)
    }

    fn codecs(&self) -> &Registry {
        self.registry.as_deref().unwrap_or_else(|| Registry::global())
    }

    fn payload_header(&self, path: &Path) -> Result<Map<String, Value>> {
        match &self.codec {
            CodecSource::Ready(codec) => self.header_of(path, &codec.spec(), Some(codec)),
            CodecSource::Spec(spec) => {
                // What an absent codec would require, only the caller knows.
                let codec = self.codecs().create(spec).ok();
                self.header_of(path, spec, codec.as_ref())
            }
        }
    }

    fn header_of(
        &self,
        path: &Path,
        spec: &CodecSpec,
        codec: Option<&Codec>,
    ) -> Result<Map<String, Value>> {
        let mut members = Map::new();
        members.insert("payload_type".to_owned(), Value::from(self.payload_type.as_str()));
        spec.write_to_header(&mut members);
        let encode = codec.map(Codec::encode_members).unwrap_or_default();
        if !encode.is_empty() {
            members.insert(ENCODE_MEMBER.to_owned(), Value::Object(encode));
        }
        members.extend(self.header.clone());
        let Some(codec) = codec else { return Ok(members) };
        let field = REQUIRED_EXTENSIONS_MEMBER;
        self.list(path, &mut members, field, codec.required_extensions())?;
        if let Some(mapping) = codec.sample_mapping() {
            // Without it, samples would be read as other numbers: it is no matter of taste.
            members.insert(SampleMapping::MEMBER.to_owned(), mapping.to_header_value());
            self.list(path, &mut members, EXTENSIONS_MEMBER, &[SampleMapping::EXTENSION])?;
        }
        Ok(members)
    }

    /// Adds names to a list of extensions.
    fn list(
        &self,
        path: &Path,
        members: &mut Map<String, Value>,
        field: &str,
        names: &[&str],
    ) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let Value::Array(listed) = members.entry(field).or_insert_with(|| Value::Array(Vec::new()))
        else {
            return Err(WriteError::HeaderField {
                path: path.to_owned(),
                field: field.to_owned(),
                reason: "must be an array, as the codec has entries of its own for it".to_owned(),
            });
        };
        for name in names {
            if !listed.iter().any(|listed| listed.as_str() == Some(name)) {
                listed.push(Value::from(*name));
            }
        }
        Ok(())
    }
}

/// Bytes of an image's samples.
pub(crate) fn bytes_of(image: &ImageView<'_>) -> usize {
    image.shape().samples().saturating_mul(image.sample_type().bytes())
}
