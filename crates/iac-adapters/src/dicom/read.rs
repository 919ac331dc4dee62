//! Reading patient packs.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use bytes::Bytes;
use iac_codec::{Codec, CodecError, DecodeOptions, ImageShape, SampleType, Samples, SamplesMut};
use iac_format::TableKind;
use iac_reader::{PackReader, ReadOptions, RecordOptions, VariableRecordPack};
use serde_json::Value;

use super::attributes::Attributes;
use super::document::{Document, metadata_codec};
use super::fault::Fault;
use super::object::DataSet;
use super::opening::{check_header, read_series};
use super::samples::{PixelBatch, PixelSamples, PixelType, Pixels};
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
    max_document_bytes: u64,
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
        Ok(Self {
            records,
            shared: Arc::new(shared),
            check_crc,
            max_document_bytes: MAX_DOCUMENT_BYTES,
        })
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

    /// The same pack with another bound on what one template or delta may decompress to. Default
    /// 1 GiB.
    #[must_use]
    pub fn with_max_document_bytes(&self, bytes: u64) -> Self {
        Self { max_document_bytes: bytes, ..self.clone() }
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
        Document::read(&stored, &self.shared.codec, self.max_document_bytes).map_err(|fault| {
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
        Document::read(&stored, &self.shared.codec, self.max_document_bytes)
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

    /// What the pack keeps of an instance behind its payloads, under a member of `iac`.
    pub(crate) fn aside(
        &self,
        row: u64,
        attributes: &Attributes,
        member: &str,
    ) -> Result<Option<Vec<u8>>> {
        let Some(kept) = attributes.delta.iac.get(member) else {
            return Ok(None);
        };
        let number = |name: &str| kept.get(name).and_then(Value::as_u64);
        let (Some(offset), Some(length)) = (number("offset"), number("length")) else {
            return Err(self.schema_row(
                row,
                "dicom_delta",
                format!("its {member} have no span in the data segment"),
            ));
        };
        let stored = self.reader().read_data_span(offset, length)?;
        if let Some(expected) = number("crc32")
            && u64::from(crc32fast::hash(&stored)) != expected
        {
            return Err(self.schema_row(
                row,
                "dicom_delta",
                format!("checksum mismatch in the {member} beside its payload"),
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
