//! Reading patient packs.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use bytes::Bytes;
use dicom_core::Tag;
use iac_codec::{Codec, CodecError, DecodeOptions, ImageShape, SampleType, Samples, SamplesMut};
use iac_format::TableKind;
use iac_reader::{PackReader, ReadOptions, RecordOptions, VariableRecordPack};
use serde_json::{Map, Value};

use super::document::{Document, metadata_codec};
use super::fault::Fault;
use super::object::{DataSet, tag_text};
use super::restore;
use super::{DICOM_PATIENT, SCHEMA_VERSION};
use crate::columns::{IntColumn, TextColumn, has_column, int_column, text_column};
use crate::error::{AdapterError, Result};

/// Bytes that one template or delta may decompress to, unless the caller says otherwise.
const MAX_DOCUMENT_BYTES: u64 = 1 << 30;

/// One series of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Series {
    /// Its number in the pack.
    pub series_idx: u32,
    /// The study that it belongs to.
    pub study_uid: String,
    /// Its own identifier.
    pub series_uid: String,
    /// Modality of its first instance; empty when there is none.
    pub modality: String,
    /// Instances that it has, as the pack says.
    pub instance_count: Option<u64>,
    pub(crate) template: (u64, u64, Option<u32>),
}

/// The type of an image's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PixelType {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
}

impl PixelType {
    /// The name that packs and NumPy use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
        }
    }

    /// Bytes of one sample.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::U8, Self::I8, Self::U16, Self::I16].into_iter().find(|one| one.name() == name)
    }
}

/// Samples, row after row, channels interleaved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PixelSamples {
    /// Unsigned, 8 bits.
    U8(Vec<u8>),
    /// Signed, 8 bits.
    I8(Vec<i8>),
    /// Unsigned, 16 bits.
    U16(Vec<u16>),
    /// Signed, 16 bits.
    I16(Vec<i16>),
}

impl PixelSamples {
    /// Their type.
    #[must_use]
    pub const fn pixel_type(&self) -> PixelType {
        match self {
            Self::U8(_) => PixelType::U8,
            Self::I8(_) => PixelType::I8,
            Self::U16(_) => PixelType::U16,
            Self::I16(_) => PixelType::I16,
        }
    }

    /// Little-endian bytes.
    #[must_use]
    pub fn to_le_bytes(&self) -> Vec<u8> {
        match self {
            Self::U8(samples) => samples.clone(),
            Self::I8(samples) => samples.iter().map(|sample| sample.cast_unsigned()).collect(),
            Self::U16(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
            Self::I16(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
        }
    }

    /// The samples as numbers.
    pub fn iter(&self) -> Box<dyn Iterator<Item = i32> + '_> {
        match self {
            Self::U8(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::I8(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::U16(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::I16(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
        }
    }

    fn from_unsigned(pixel_type: PixelType, samples: Samples) -> Option<Self> {
        Some(match (pixel_type, samples) {
            (PixelType::U8, Samples::U8(samples)) => Self::U8(samples),
            (PixelType::I8, Samples::U8(samples)) => {
                Self::I8(samples.into_iter().map(u8::cast_signed).collect())
            }
            (PixelType::U16, Samples::U16(samples)) => Self::U16(samples),
            (PixelType::I16, Samples::U16(samples)) => {
                Self::I16(samples.into_iter().map(u16::cast_signed).collect())
            }
            _ => return None,
        })
    }
}

/// The image of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pixels {
    /// Height, width and channels.
    pub shape: ImageShape,
    /// The stored samples: never rescaled, inverted or windowed.
    pub samples: PixelSamples,
}

/// Images of one shape and type, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PixelBatch {
    /// Height, width and channels of each.
    pub shape: ImageShape,
    /// How many there are.
    pub count: usize,
    /// The samples of all of them.
    pub samples: PixelSamples,
}

/// Reads a pack of one patient's DICOM objects.
///
/// Opening reads the header and the table of series; columns of instances are decoded when they are
/// first needed. Templates are kept once they were read. CRC-32 sums are compared unless the
/// options say otherwise. Clones share everything and work from any number of threads at once.
///
/// ```no_run
/// use iac_adapters::dicom::DicomPackReader;
///
/// let pack = DicomPackReader::open("patient.rad.iac")?;
/// for series in pack.series() {
///     println!("{} {}", series.modality, series.series_uid);
/// }
/// let slice = pack.read_pixels(0)?;
/// println!("{}", slice.shape);
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Clone)]
pub struct DicomPackReader {
    records: VariableRecordPack,
    shared: Arc<Shared>,
    check_crc: bool,
}

struct Shared {
    series: Vec<Series>,
    /// Positions in `series` by number.
    by_idx: Vec<Option<usize>>,
    templates: Vec<OnceLock<Arc<Document>>>,
    instances: OnceLock<Instances>,
    deltas: OnceLock<Vec<RecordBatch>>,
    codec: Codec,
    rows: u64,
}

/// The columns that reading needs.
pub(crate) struct Instances {
    pub(crate) series_idx: IntColumn,
    pub(crate) rows: IntColumn,
    pub(crate) columns: IntColumn,
    pub(crate) dtype: TextColumn,
    pub(crate) channels: Option<IntColumn>,
    pub(crate) has_pixels: Option<Vec<bool>>,
}

impl DicomPackReader {
    /// Opens a pack with default options.
    ///
    /// # Errors
    ///
    /// As [`from_reader`](Self::from_reader), and those of [`PackReader::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::from_reader(PackReader::open(path)?, true)
    }

    /// Opens a pack; `check_crc` is whether the sums of templates and deltas are compared, the
    /// options tell it for payloads.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(
        path: impl AsRef<Path>,
        options: &ReadOptions,
        check_crc: bool,
    ) -> Result<Self> {
        Self::from_reader(PackReader::open_with(path, options)?, check_crc)
    }

    /// Reads a pack that is open already.
    ///
    /// # Errors
    ///
    /// [`AdapterError::PayloadType`] when it holds no DICOM objects; [`AdapterError::Unsupported`]
    /// for other schema versions; [`AdapterError::Schema`] when header or series table break a rule
    /// of the schema; [`AdapterError::Read`] when they are damaged.
    pub fn from_reader(pack: PackReader, check_crc: bool) -> Result<Self> {
        check_header(&pack)?;
        let series = read_series(&pack)?;
        let most =
            series.iter().map(|one| one.series_idx).max().map_or(0, |most| most.saturating_add(1));
        let mut by_idx = vec![None; usize::try_from(most.min(1 << 16)).unwrap_or(0)];
        for (position, one) in series.iter().enumerate() {
            let place = usize::try_from(one.series_idx).ok().and_then(|idx| by_idx.get_mut(idx));
            match place {
                Some(place @ None) => *place = Some(position),
                _ => {
                    return Err(AdapterError::schema(
                        pack.path(),
                        "series_idx",
                        format!("{} stands twice in the series table", one.series_idx),
                    ));
                }
            }
        }
        let mut templates = Vec::new();
        templates.resize_with(series.len(), OnceLock::new);
        let codec = metadata_codec().map_err(|source| codec_error(&pack, None, source))?;
        // What the header says is compared with the table when that is first used.
        let rows = pack.header().num_records().or_else(|_| pack.num_records())?;
        let records = VariableRecordPack::from_reader_with(pack, RecordOptions::default());
        let shared = Shared {
            series,
            by_idx,
            templates,
            instances: OnceLock::new(),
            deltas: OnceLock::new(),
            codec,
            rows,
        };
        Ok(Self { records, shared: Arc::new(shared), check_crc })
    }

    /// The pack: header, tables, stored bytes.
    #[must_use]
    pub const fn reader(&self) -> &PackReader {
        self.records.reader()
    }

    /// The payloads as images.
    #[must_use]
    pub const fn records(&self) -> &VariableRecordPack {
        &self.records
    }

    /// The same pack with other limits for decoding images.
    #[must_use]
    pub fn with_images(&self, options: DecodeOptions) -> Self {
        Self { records: self.records.with_images(options), ..self.clone() }
    }

    /// The series, in the order of the table.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.shared.series
    }

    /// Number of instances.
    #[must_use]
    pub fn instance_count(&self) -> u64 {
        self.shared.rows
    }

    pub(crate) fn instances(&self) -> Result<&Instances> {
        if let Some(instances) = self.shared.instances.get() {
            return Ok(instances);
        }
        let pack = self.reader();
        let index = pack.index_table()?;
        let int = |name| int_column(pack, TableKind::Index, name);
        let channels =
            has_column(index, "samples_per_pixel").then(|| int("samples_per_pixel")).transpose()?;
        let has_pixels = if has_column(index, "has_pixel_data") {
            Some(bool_column(pack, "has_pixel_data")?)
        } else {
            None
        };
        let loaded = Instances {
            series_idx: int("series_idx")?,
            rows: int("rows")?,
            columns: int("columns")?,
            dtype: text_column(pack, TableKind::Index, "pixel_dtype")?,
            channels,
            has_pixels,
        };
        Ok(self.shared.instances.get_or_init(|| loaded))
    }

    fn check_row(&self, row: u64) -> Result<()> {
        if row < self.shared.rows {
            return Ok(());
        }
        Err(AdapterError::RowOutOfRange {
            path: self.reader().path().to_owned(),
            row,
            rows: self.shared.rows,
        })
    }

    fn schema_row(&self, row: u64, field: &str, reason: impl Into<String>) -> AdapterError {
        AdapterError::schema_row(self.reader().path(), row, field, reason)
    }

    pub(crate) fn fault(&self, row: u64, fault: Fault) -> AdapterError {
        AdapterError::Source {
            path: self.reader().path().into(),
            row: Some(row),
            kind: fault.kind,
            reason: format!("row {row}: {fault}"),
        }
    }

    /// The series that an instance belongs to.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Schema`] when the series does not exist.
    pub fn series_of(&self, row: u64) -> Result<&Series> {
        let position = self.series_position(row)?;
        self.shared
            .series
            .get(position)
            .ok_or_else(|| self.schema_row(row, "series_idx", "unknown series"))
    }

    fn series_position(&self, row: u64) -> Result<usize> {
        self.check_row(row)?;
        let found = self.instances()?.series_idx.get(row);
        let known = found
            .and_then(|idx| usize::try_from(idx).ok())
            .and_then(|idx| self.shared.by_idx.get(idx).copied().flatten());
        known.ok_or_else(|| {
            let shown = found.map_or_else(|| "null".to_owned(), |idx| idx.to_string());
            self.schema_row(row, "series_idx", format!("series {shown} is not in the series table"))
        })
    }

    /// Rows of the instances of a series, in the order of the table.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] and [`AdapterError::Read`] when the column is missing or damaged.
    pub fn rows_of(&self, series: &Series) -> Result<Vec<u64>> {
        let wanted = i128::from(series.series_idx);
        let column = &self.instances()?.series_idx;
        Ok((0_u64..)
            .zip(column.iter())
            .filter(|(_, idx)| *idx == Some(wanted))
            .map(|(row, _)| row)
            .collect())
    }

    /// Whether an instance has an image.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; those of damaged columns.
    pub fn has_pixels(&self, row: u64) -> Result<bool> {
        self.check_row(row)?;
        let Some(column) = &self.instances()?.has_pixels else {
            return Ok(true);
        };
        Ok(usize::try_from(row).ok().and_then(|row| column.get(row)).copied().unwrap_or(true))
    }

    /// The type of an instance's samples; nothing for an instance without an image.
    ///
    /// # Errors
    ///
    /// As [`read_pixels`](Self::read_pixels).
    pub fn pixel_type(&self, row: u64) -> Result<Option<PixelType>> {
        if !self.has_pixels(row)? {
            return Ok(None);
        }
        let name = self.instances()?.dtype.get(row).unwrap_or_default();
        PixelType::from_name(name).map(Some).ok_or_else(|| {
            self.schema_row(
                row,
                "pixel_dtype",
                format!("\"{}\" is no known type", crate::error::short(name)),
            )
        })
    }

    /// Height, width and channels of an instance's image, as the table says.
    ///
    /// # Errors
    ///
    /// As [`read_pixels`](Self::read_pixels).
    pub fn shape(&self, row: u64) -> Result<ImageShape> {
        self.check_row(row)?;
        let instances = self.instances()?;
        let number = |column: &IntColumn| column.get(row).and_then(|it| u32::try_from(it).ok());
        let channels = match &instances.channels {
            Some(column) => number(column).unwrap_or(1).max(1),
            None => 1,
        };
        let (Some(height), Some(width)) = (number(&instances.rows), number(&instances.columns))
        else {
            return Err(self.schema_row(row, "rows", "no usable size"));
        };
        ImageShape::new(height, width, channels).map_err(|_| {
            self.schema_row(
                row,
                "rows",
                format!("{height} x {width} x {channels} is no size of an image"),
            )
        })
    }

    fn image_form(&self, row: u64) -> Result<(ImageShape, PixelType)> {
        let Some(pixel_type) = self.pixel_type(row)? else {
            return Err(AdapterError::usage(format!(
                "row {row} of {} has no pixel data",
                self.reader().path()
            )));
        };
        Ok((self.shape(row)?, pixel_type))
    }

    /// Reads the image of one instance: samples as they are stored, in their own type.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Usage`] when the instance has no image;
    /// [`AdapterError::Read`] when its payload is damaged; [`AdapterError::Schema`] when it holds
    /// an image of another shape or type than the table says.
    pub fn read_pixels(&self, row: u64) -> Result<Pixels> {
        let (shape, pixel_type) = self.image_form(row)?;
        let image = self.records.read_image(row)?;
        if image.shape() != shape {
            return Err(self.schema_row(
                row,
                "rows",
                format!(
                    "the payload holds an image of {}, but the table says {shape}",
                    image.shape()
                ),
            ));
        }
        let found = image.sample_type();
        let samples = PixelSamples::from_unsigned(pixel_type, image.into_samples());
        let samples = samples.ok_or_else(|| {
            let wanted = pixel_type.name();
            self.schema_row(
                row,
                "pixel_dtype",
                format!("the payload holds samples of type {found}, but the table says {wanted}"),
            )
        })?;
        Ok(Pixels { shape, samples })
    }

    /// Reads images of one shape and type into one buffer, in the order asked for, duplicates
    /// included. They are decoded on all workers of the reader's options.
    ///
    /// # Errors
    ///
    /// As [`read_pixels`](Self::read_pixels); [`AdapterError::Usage`] when there are no rows, or
    /// images differ in shape or type.
    pub fn read_pixel_batch(&self, rows: &[u64]) -> Result<PixelBatch> {
        let Some(first) = rows.first() else {
            return Err(AdapterError::usage("no rows were asked for"));
        };
        let (shape, pixel_type) = self.image_form(*first)?;
        for row in rows {
            let other = self.image_form(*row)?;
            if other != (shape, pixel_type) {
                return Err(AdapterError::usage(format!(
                    "row {row} of {} is an image of {} and type {}, row {first} one of {shape} and type {}",
                    self.reader().path(),
                    other.0,
                    other.1.name(),
                    pixel_type.name()
                )));
            }
        }
        let count = rows.len().checked_mul(shape.samples());
        let count =
            count.ok_or_else(|| AdapterError::usage("the images do not fit into memory"))?;
        let sample_type = if pixel_type.bytes() == 1 { SampleType::U8 } else { SampleType::U16 };
        let mut samples = Samples::zeroed(sample_type, count)
            .map_err(|source| codec_error(self.reader(), None, source))?;
        self.records.read_image_batch_into(rows, shape, samples.as_mut())?;
        let samples = PixelSamples::from_unsigned(pixel_type, samples)
            .ok_or_else(|| AdapterError::usage("the images cannot be read together"))?;
        Ok(PixelBatch { shape, count: rows.len(), samples })
    }

    /// Reads images of one shape into memory of the caller's: unsigned samples of the stored width,
    /// where signed ones are their two's complement.
    ///
    /// # Errors
    ///
    /// As [`read_pixel_batch`](Self::read_pixel_batch), but any number of rows is fine.
    pub fn read_pixel_batch_into<'a>(
        &self,
        rows: &[u64],
        out: impl Into<SamplesMut<'a>>,
    ) -> Result<()> {
        let out = out.into();
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let shape = self.shape(*first)?;
        for row in rows {
            self.image_form(*row)?;
        }
        Ok(self.records.read_image_batch_into(rows, shape, out)?)
    }

    fn template(&self, row: u64) -> Result<Arc<Document>> {
        let position = self.series_position(row)?;
        let (Some(series), Some(cell)) =
            (self.shared.series.get(position), self.shared.templates.get(position))
        else {
            return Err(self.schema_row(row, "series_idx", "unknown series"));
        };
        if let Some(template) = cell.get() {
            return Ok(Arc::clone(template));
        }
        let document = self.read_template(series).map_err(|error| match error {
            AdapterError::Source { kind, reason, path, .. } => {
                AdapterError::Source { kind, path, row: Some(row), reason }
            }
            other => other,
        })?;
        Ok(Arc::clone(cell.get_or_init(|| Arc::new(document))))
    }

    pub(crate) fn template_bytes(&self, series: &Series) -> Result<Bytes> {
        let (offset, length, crc32) = series.template;
        let stored = self.reader().read_data_span(offset, length)?;
        if let Some(expected) = crc32.filter(|_| self.check_crc) {
            let found = crc32fast::hash(&stored);
            if found != expected {
                return Err(AdapterError::schema(
                    self.reader().path(),
                    "template_crc32",
                    format!(
                        "checksum mismatch in the template of series {} (stored {expected:#010x}, computed {found:#010x})",
                        series.series_idx
                    ),
                ));
            }
        }
        Ok(stored)
    }

    pub(crate) fn read_template(&self, series: &Series) -> Result<Document> {
        let stored = self.template_bytes(series)?;
        Document::read(&stored, &self.shared.codec, MAX_DOCUMENT_BYTES).map_err(|fault| {
            AdapterError::Source {
                path: self.reader().path().into(),
                row: None,
                kind: fault.kind,
                reason: format!("template of series {}: {fault}", series.series_idx),
            }
        })
    }

    pub(crate) fn delta_bytes(&self, row: u64) -> Result<Vec<u8>> {
        self.check_row(row)?;
        let batches = match self.shared.deltas.get() {
            Some(batches) => batches,
            None => {
                let columns =
                    self.reader().index_table()?.columns(&["dicom_delta", "dicom_delta_crc32"])?;
                self.shared.deltas.get_or_init(|| columns)
            }
        };
        let mut place = usize::try_from(row).unwrap_or(usize::MAX);
        for batch in batches {
            if place >= batch.num_rows() {
                place = place.saturating_sub(batch.num_rows());
                continue;
            }
            let [delta, sums] = batch.columns() else {
                break;
            };
            let stored = binary_cell(delta.as_ref(), place)
                .ok_or_else(|| self.schema_row(row, "dicom_delta", "no bytes"))?;
            let expected = sums
                .as_primitive_opt::<UInt32Type>()
                .filter(|sums| sums.is_valid(place))
                .map(|sums| sums.value(place));
            if let Some(expected) = expected.filter(|_| self.check_crc) {
                let found = crc32fast::hash(stored);
                if found != expected {
                    return Err(self.schema_row(
                        row,
                        "dicom_delta_crc32",
                        format!(
                            "checksum mismatch (stored {expected:#010x}, computed {found:#010x})"
                        ),
                    ));
                }
            }
            return Ok(stored.to_vec());
        }
        Err(self.schema_row(row, "dicom_delta", "no bytes"))
    }

    pub(crate) fn delta(&self, row: u64) -> Result<Document> {
        let stored = self.delta_bytes(row)?;
        Document::read(&stored, &self.shared.codec, MAX_DOCUMENT_BYTES)
            .map_err(|fault| self.fault(row, fault))
    }

    /// The template of a series as JSON: what all its instances share.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes).
    pub fn template_json(&self, series: &Series) -> Result<Value> {
        Ok(self.read_template(series)?.to_json(true))
    }

    /// The delta of one instance as JSON: what it has for itself.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes).
    pub fn delta_json(&self, row: u64) -> Result<Value> {
        Ok(self.delta(row)?.to_json(false))
    }

    /// The metadata of one instance, without an object being built from it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Schema`] when a sum differs;
    /// [`AdapterError::Source`] when a document is damaged.
    pub fn attributes(&self, row: u64) -> Result<Attributes> {
        let delta = self.delta(row)?;
        Ok(Attributes { template: self.template(row)?, delta })
    }

    /// The data set of one instance, restored from its metadata; without pixel data.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes), and when a document does not describe a data set.
    pub fn data_set(&self, row: u64) -> Result<DataSet> {
        self.attributes(row)?
            .restore()
            .map(|(data, _)| data)
            .map_err(|fault| self.fault(row, fault))
    }

    /// The bits of an instance's samples that its payload does not hold.
    pub(crate) fn aside(&self, row: u64, attributes: &Attributes) -> Result<Option<Vec<u8>>> {
        let Some(bits) = attributes.delta.iac.get("bits") else {
            return Ok(None);
        };
        let number = |name: &str| bits.get(name).and_then(Value::as_u64);
        let (Some(offset), Some(length)) = (number("offset"), number("length")) else {
            return Err(self.schema_row(row, "dicom_delta", "its bits have no span"));
        };
        let stored = self.reader().read_data_span(offset, length)?;
        if let Some(expected) = number("crc32")
            && u64::from(crc32fast::hash(&stored)) != expected
        {
            return Err(self.schema_row(
                row,
                "dicom_delta",
                "checksum mismatch in the bits beside its payload",
            ));
        }
        let limits = DecodeOptions::default().limits;
        let bytes = self.shared.codec.decode_bytes(&stored, &limits);
        bytes.map(Some).map_err(|source| codec_error(self.reader(), Some(row), source))
    }
}

impl fmt::Debug for DicomPackReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DicomPackReader")
            .field("path", &self.reader().path())
            .field("series", &self.shared.series.len())
            .field("instances", &self.shared.rows)
            .finish()
    }
}

/// The metadata of one instance: what its series shares, and what is its own.
#[derive(Clone)]
pub struct Attributes {
    pub(crate) template: Arc<Document>,
    pub(crate) delta: Document,
}

impl Attributes {
    /// Understands a template and a delta, given as JSON; both may come from anywhere. The messages
    /// of errors hold no values.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`] when one of them is no document of a pack.
    pub fn parse(template: &[u8], delta: &[u8]) -> Result<Self> {
        let parse = |name: &str, text: &[u8]| {
            Document::parse(text).map_err(|fault| super::build::source_error(name, &fault))
        };
        Ok(Self { template: Arc::new(parse("template", template)?), delta: parse("delta", delta)? })
    }

    /// The data set that they describe, without pixel data.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`] when they describe none.
    pub fn to_data_set(&self) -> Result<DataSet> {
        let restored = self.restore();
        restored.map(|(data, _)| data).map_err(|fault| super::build::source_error("delta", &fault))
    }

    /// The JSON of an element: `{"vr": ..., "Value": [...]}`. Elements that JSON could not hold
    /// are among the [`records`](Self::records).
    #[must_use]
    pub fn get(&self, tag: Tag) -> Option<&Value> {
        let key = tag_text(tag);
        self.delta.dataset.get(&key).or_else(|| self.template.dataset.get(&key))
    }

    /// The values of an element.
    #[must_use]
    pub fn values(&self, tag: Tag) -> &[Value] {
        self.get(tag)
            .and_then(|element| element.get("Value"))
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The first value of an element as text; a name as its alphabetic part.
    #[must_use]
    pub fn text(&self, tag: Tag) -> Option<&str> {
        let first = self.values(tag).first()?;
        first.as_str().or_else(|| first.get("Alphabetic")?.as_str())
    }

    /// The first value of an element as a number.
    #[must_use]
    pub fn number(&self, tag: Tag) -> Option<f64> {
        restore::real(self.values(tag).first()?)
    }

    /// All values of an element as numbers; nothing when one is none.
    #[must_use]
    pub fn numbers(&self, tag: Tag) -> Option<Vec<f64>> {
        let numbers: Option<Vec<f64>> = self.values(tag).iter().map(restore::real).collect();
        numbers.filter(|numbers| !numbers.is_empty())
    }

    /// Records of elements that JSON could not hold as they were.
    #[must_use]
    pub fn records(&self) -> &[Value] {
        &self.delta.errors
    }

    /// Every element in one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut members = self.template.dataset.clone();
        members.extend(self.delta.dataset.clone());
        members
    }

    pub(crate) fn preamble(&self) -> Option<Vec<u8>> {
        let text = self.delta.preamble.as_deref().or(self.template.preamble.as_deref())?;
        restore::base64(text)
    }

    /// Data set and file meta.
    pub(crate) fn restore(&self) -> super::fault::Result<(DataSet, DataSet)> {
        let mut data = restore::data_set(&self.template.dataset, &self.delta.dataset)?;
        let mut meta = restore::data_set(&self.template.file_meta, &self.delta.file_meta)?;
        restore::apply_records(&self.delta.errors, &mut data, &mut meta)?;
        if let Some(kept) = self.delta.iac.get("text").and_then(Value::as_array) {
            restore::apply_kept(kept, &mut data, &mut meta)?;
        }
        Ok((data, meta))
    }
}

/// Shows tags only: values belong to patients.
impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributes")
            .field("shared", &self.template.dataset.len())
            .field("own", &self.delta.dataset.len())
            .field("records", &self.delta.errors.len())
            .finish()
    }
}

fn codec_error(pack: &PackReader, row: Option<u64>, source: CodecError) -> AdapterError {
    AdapterError::Codec { path: pack.path().to_owned(), row, source }
}

fn binary_cell(array: &dyn Array, place: usize) -> Option<&[u8]> {
    if place >= array.len() || array.is_null(place) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(place),
        DataType::LargeBinary => array.as_binary::<i64>().value(place),
        DataType::BinaryView => array.as_binary_view().value(place),
        _ => return None,
    })
}

fn bool_column(pack: &PackReader, name: &str) -> Result<Vec<bool>> {
    let mut values = Vec::new();
    for batch in pack.index_table()?.columns(&[name])? {
        let Some(column) =
            batch.columns().first().filter(|it| *it.data_type() == DataType::Boolean)
        else {
            return Err(AdapterError::schema(
                pack.path(),
                name,
                "the column holds no truth values",
            ));
        };
        // What is not known counts as there, as a missing column does.
        values.extend(column.as_boolean().iter().map(|value| value.unwrap_or(true)));
    }
    Ok(values)
}

fn check_header(pack: &PackReader) -> Result<()> {
    let header = pack.header();
    let found = header.payload_type();
    if found != Some(DICOM_PATIENT) {
        return Err(AdapterError::PayloadType {
            path: pack.path().to_owned(),
            found: found.map(str::to_owned),
            expected: DICOM_PATIENT,
        });
    }
    let version = header.get("dicom_schema_version").and_then(restore::whole);
    if version != Some(SCHEMA_VERSION.into()) {
        let shown =
            version.map_or_else(|| "that is not stated".to_owned(), |version| version.to_string());
        return Err(AdapterError::Unsupported {
            path: pack.path().to_owned(),
            reason: format!(
                "its DICOM schema has a version {shown}, but this library reads {SCHEMA_VERSION}"
            ),
        });
    }
    if header.get("codec").and_then(Value::as_str) != Some("jxl") {
        return Err(AdapterError::schema(pack.path(), "codec", "is not jxl"));
    }
    let params = header.get("codec_params");
    let truthy = |value: &Value| match value {
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    };
    if !params.and_then(|params| params.get("lossless")).is_some_and(truthy) {
        return Err(AdapterError::schema(pack.path(), "codec_params", "does not say lossless"));
    }
    Ok(())
}

fn read_series(pack: &PackReader) -> Result<Vec<Series>> {
    let table = pack.slide_table()?;
    let int = |name| int_column(pack, TableKind::Slide, name);
    let text = |name: &str| {
        has_column(table, name).then(|| text_column(pack, TableKind::Slide, name)).transpose()
    };
    let (idx, offset, length) =
        (int("series_idx")?, int("template_offset")?, int("template_length")?);
    let crc32 = has_column(table, "template_crc32").then(|| int("template_crc32")).transpose()?;
    let count = has_column(table, "instance_count").then(|| int("instance_count")).transpose()?;
    let (study, series, modality) = (text("study_uid")?, text("series_uid")?, text("modality")?);
    let mut found = Vec::new();
    for row in 0..table.num_rows() {
        let number = |column: &IntColumn, name: &str| {
            column.get(row).and_then(|it| u64::try_from(it).ok()).ok_or_else(|| {
                AdapterError::schema(
                    pack.path(),
                    name,
                    format!("no usable number in row {row} of the series table"),
                )
            })
        };
        let word = |column: &Option<TextColumn>| {
            column.as_ref().and_then(|column| column.get(row)).unwrap_or_default().to_owned()
        };
        let series_idx = number(&idx, "series_idx")?;
        let series_idx =
            u32::try_from(series_idx).ok().filter(|idx| *idx <= 0xFFFF).ok_or_else(|| {
                AdapterError::schema(
                    pack.path(),
                    "series_idx",
                    format!("{series_idx} is beyond 65535"),
                )
            })?;
        found.push(Series {
            series_idx,
            study_uid: word(&study),
            series_uid: word(&series),
            modality: word(&modality),
            instance_count: count
                .as_ref()
                .and_then(|it| it.get(row))
                .and_then(|it| u64::try_from(it).ok()),
            template: (
                number(&offset, "template_offset")?,
                number(&length, "template_length")?,
                crc32.as_ref().and_then(|it| it.get(row)).and_then(|it| u32::try_from(it).ok()),
            ),
        });
    }
    Ok(found)
}
