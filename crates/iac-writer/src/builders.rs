//! The four builders: packs from data that is at hand, or comes in one stream.

use std::error::Error;
use std::path::Path;

use serde_json::{Map, Value};

use crate::draft::WriteSummary;
use crate::error::{Result, WriteError};
use crate::options::WriteOptions;
use crate::pack_writer::{PackWriter, record_length};
use crate::publish::Target;
use crate::segment::{STRETCH, SegmentWriter, SourceFile};
use crate::table::Table;

/// Writes a variable pack from payloads in memory: one record for each row of the index table.
///
/// The columns `offset`, `length` and `crc32` are computed; the caller's columns of these names
/// are replaced.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.iac");
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray};
/// use iac_writer::{Table, WriteOptions, build_pack};
///
/// let mut header = serde_json::Map::new();
/// header.insert("payload_type".into(), "notes".into());
/// let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
/// let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
/// let payloads = ["first note", "second note"];
/// let options = WriteOptions::new();
/// let summary = build_pack(&path, &header, &Table::empty(), &index, &payloads, &options)?;
/// assert_eq!(summary.rows, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`WriteError::Exists`] when the destination exists and may not be replaced;
/// [`WriteError::RowCount`] when rows and payloads differ in number;
/// [`WriteError::RecordTooLarge`], [`WriteError::Column`], [`WriteError::Argument`] and
/// [`WriteError::Format`] for what cannot be written; [`WriteError::Io`].
pub fn build_pack<P: AsRef<[u8]>>(
    path: impl AsRef<Path>,
    header: &Map<String, Value>,
    slides: &Table,
    index: &Table,
    payloads: &[P],
    options: &WriteOptions,
) -> Result<WriteSummary> {
    let path = path.as_ref();
    Target::new(path, options)?;
    let count = u64::try_from(payloads.len()).unwrap_or(u64::MAX);
    if count != index.num_rows() {
        return Err(WriteError::RowCount {
            path: path.to_owned(),
            rows: index.num_rows(),
            payloads: count,
            more: false,
        });
    }
    let mut data = 0_u64;
    for (row, payload) in (0_u64..).zip(payloads) {
        let length = record_length(path, row, payload.as_ref().len())?;
        data = data.saturating_add(u64::from(length));
    }
    let header = header.clone();
    let mut writer = PackWriter::with_index_and_data(path, header, slides, index, options, data)?;
    for payload in payloads {
        writer.push(payload)?;
    }
    writer.finish()
}

/// Writes a variable pack from a stream of payloads: one record for each row of the index table.
///
/// Only one payload is in memory at a time. An error from the iterator ends the write; nothing is
/// published then.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("files.iac");
/// # let inputs: Vec<std::path::PathBuf> = Vec::new();
/// use iac_writer::{Table, WriteOptions, build_pack_streaming};
///
/// let payloads = inputs.iter().map(std::fs::read);
/// let (header, empty) = (serde_json::Map::new(), Table::empty());
/// build_pack_streaming(&path, &header, &empty, &empty, payloads, &WriteOptions::new())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`build_pack`], and [`WriteError::Payload`] with what the iterator reported.
pub fn build_pack_streaming<I, P, E>(
    path: impl AsRef<Path>,
    header: &Map<String, Value>,
    slides: &Table,
    index: &Table,
    payloads: I,
    options: &WriteOptions,
) -> Result<WriteSummary>
where
    I: IntoIterator<Item = Result<P, E>>,
    P: AsRef<[u8]>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let mut writer = PackWriter::with_index(path, header.clone(), slides, index, options)?;
    for payload in payloads {
        match payload {
            Ok(payload) => writer.push(payload)?,
            Err(error) => {
                return Err(WriteError::Payload {
                    path: writer.path().to_owned(),
                    row: writer.rows(),
                    source: error.into(),
                });
            }
        };
    }
    writer.finish()
}

/// Writes a pack whose data segment is given as a whole: a dense matrix, or anything else whose
/// parts the header or the index describes in its own way.
///
/// With `feature_dim`, `dtype` and `feature_record_bytes` in the header it is a fixed pack: the
/// data must be one row of that size for each row of the index table, and with checksums on the
/// index gets a column `crc32` over the rows.
///
/// # Errors
///
/// [`WriteError::Exists`] when the destination exists and may not be replaced;
/// [`WriteError::Column`] for an index column `offset` or `length`, which readers would take for a
/// record index, and for a column `crc32` where the rows' sums belong;
/// [`WriteError::HeaderField`] when the members of a fixed pack do not fit each other or the data;
/// [`WriteError::Argument`], [`WriteError::Format`] and [`WriteError::Io`].
pub fn build_pack_data_segment(
    path: impl AsRef<Path>,
    header: &Map<String, Value>,
    slides: &Table,
    index: &Table,
    data: &[u8],
    options: &WriteOptions,
) -> Result<WriteSummary> {
    let path = path.as_ref();
    let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
    let target = Target::new(path, options)?;
    let mut segment = SegmentWriter::begin(target, header, slides, index, length, options)?;
    for stretch in data.chunks(STRETCH) {
        segment.write(stretch)?;
    }
    segment.finish(header)
}

/// Writes a pack whose data segment comes in stretches of any length, `data_length` bytes in all.
///
/// Otherwise as [`build_pack_data_segment`].
///
/// # Errors
///
/// As [`build_pack_data_segment`]; [`WriteError::Payload`] with what the iterator reported, where
/// `row` counts stretches, and [`WriteError::Argument`] when there are more or fewer bytes.
pub fn build_pack_data_segment_streaming<I, P, E>(
    path: impl AsRef<Path>,
    header: &Map<String, Value>,
    slides: &Table,
    index: &Table,
    data_length: u64,
    stretches: I,
    options: &WriteOptions,
) -> Result<WriteSummary>
where
    I: IntoIterator<Item = Result<P, E>>,
    P: AsRef<[u8]>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let path = path.as_ref();
    let target = Target::new(path, options)?;
    let mut segment = SegmentWriter::begin(target, header, slides, index, data_length, options)?;
    let wrong = |found: u64, more: &str| {
        let reason = format!("{more}{found} bytes of data where {data_length} were announced");
        Err(WriteError::argument(path, reason))
    };
    let mut found = 0_u64;
    for (row, stretch) in (0_u64..).zip(stretches) {
        let stretch = stretch.map_err(|error| WriteError::Payload {
            path: path.to_owned(),
            row,
            source: error.into(),
        })?;
        let bytes = stretch.as_ref();
        found = found.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if found > data_length {
            return wrong(found, "at least ");
        }
        segment.write(bytes)?;
    }
    if found < data_length {
        return wrong(found, "");
    }
    segment.finish(header)
}

/// Writes a pack whose data segment is the content of a file, which must have exactly
/// `data_length` bytes.
///
/// The whole file is copied, through a small buffer or, where no sums are wanted, inside the
/// kernel. Otherwise as [`build_pack_data_segment`].
///
/// # Errors
///
/// As [`build_pack_data_segment`]; [`WriteError::DataLength`] when the file is shorter or longer,
/// [`WriteError::SourceChanged`] when it is modified meanwhile, and [`WriteError::Io`] when it
/// cannot be read.
pub fn build_pack_data_segment_from_file(
    path: impl AsRef<Path>,
    header: &Map<String, Value>,
    slides: &Table,
    index: &Table,
    source: impl AsRef<Path>,
    data_length: u64,
    options: &WriteOptions,
) -> Result<WriteSummary> {
    let target = Target::new(path.as_ref(), options)?;
    let source = SourceFile::open(path.as_ref(), source.as_ref(), data_length)?;
    let mut segment = SegmentWriter::begin(target, header, slides, index, data_length, options)?;
    source.copy_to(&mut segment)?;
    segment.finish(header)
}
