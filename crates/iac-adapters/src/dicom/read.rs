//! Reading patient packs.

mod documents;
mod images;

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;
use iac_codec::{Codec, CodecError, DecodeOptions};
use iac_format::TableKind;
use iac_reader::{PackReader, ReadOptions, RecordOptions, VariableRecordPack};

use super::document::{Document, MAX_DOCUMENT_BYTES, metadata_codec};
use super::fault::Fault;
use super::opening::{check_header, read_series};
use super::schema2::read::Loaded;
use crate::columns::{IntColumn, TextColumn, has_column, int_column, text_column};
use crate::error::{AdapterError, Result};

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
    images: DecodeOptions,
    check_crc: bool,
    max_document_bytes: u64,
}

struct Shared {
    schema: u32,
    instance_count: u64,
    second: Loaded,
    series: Vec<Series>,
    /// Positions in `series` by number.
    by_idx: Vec<Option<usize>>,
    templates: Vec<OnceLock<Arc<Document>>>,
    /// Bytes of the documents in `templates`.
    kept_templates: AtomicU64,
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
        let (schema, stated) = check_header(&pack)?;
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
            schema,
            instance_count: stated.unwrap_or(rows),
            second: Loaded::default(),
            series,
            by_idx,
            templates,
            kept_templates: AtomicU64::new(0),
            instances: OnceLock::new(),
            deltas: OnceLock::new(),
            codec,
            rows,
        };
        Ok(Self {
            records,
            shared: Arc::new(shared),
            images: DecodeOptions::default(),
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
        Self { records: self.records.with_images(options), images: options, ..self.clone() }
    }

    /// The same pack with another bound on what one template or delta may decompress to. Default
    /// 1 GiB. Twice as much is allowed for what a document takes in memory, and for the large
    /// values and functional groups of one object together.
    #[must_use]
    pub fn with_max_document_bytes(&self, bytes: u64) -> Self {
        Self { max_document_bytes: bytes, ..self.clone() }
    }

    /// The series, in the order of the table.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.shared.series
    }

    /// Number of instances. In packs of schema 1 this is also the number of rows.
    #[must_use]
    pub fn instance_count(&self) -> u64 {
        self.shared.instance_count
    }

    /// The schema of the pack, 1 or 2.
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.shared.schema
    }

    pub(crate) fn rows(&self) -> u64 {
        self.shared.rows
    }

    pub(crate) fn second(&self) -> &Loaded {
        &self.shared.second
    }

    pub(crate) const fn images(&self) -> &DecodeOptions {
        &self.images
    }

    pub(crate) const fn checks(&self) -> bool {
        self.check_crc
    }

    pub(crate) const fn max_document(&self) -> u64 {
        self.max_document_bytes
    }

    pub(crate) fn metadata(&self) -> &Codec {
        &self.shared.codec
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

    pub(crate) fn check_row(&self, row: u64) -> Result<()> {
        if row < self.shared.rows { Ok(()) } else { Err(self.row_out_of_range(row)) }
    }

    pub(crate) fn row_out_of_range(&self, row: u64) -> AdapterError {
        AdapterError::RowOutOfRange {
            path: self.reader().path().to_owned(),
            row,
            rows: self.shared.rows,
        }
    }

    pub(crate) fn schema_row(
        &self,
        row: u64,
        field: &str,
        reason: impl Into<String>,
    ) -> AdapterError {
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

    /// The number of the series that a row belongs to.
    pub(crate) fn series_number(&self, row: u64) -> Result<u64> {
        let position = self.series_position(row)?;
        Ok(u64::try_from(position).unwrap_or(u64::MAX))
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
