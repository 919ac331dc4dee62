//! Packs files as they are, or the images in them: `payload_type` `raw_files`.

mod find;
mod source;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use iac_codec::{Codec, CodecKind, CodecSpec, Image, Limits, Registry, SampleType};
use iac_format::FormatError;
use iac_writer::{PackWriter, Table, VariablePackBuilder, WriteError, WriteOptions, WriteSummary};
use serde_json::{Map, Value};

use crate::error::{OpsError, Result};
use crate::ordered::{Bounds, for_each_ordered};
use crate::pictures::read_picture;
use crate::progress::{Progress, Task};
use source::SourceFile;

/// The `payload_type` of packs of files.
pub const RAW_FILES: &str = "raw_files";
/// Index column: the file's path relative to its source, with `/` between folders (utf8).
pub const PATH_COLUMN: &str = "path";
/// Index column: bytes of the file (uint64).
pub const BYTES_COLUMN: &str = "bytes";
/// Index column: when the file was modified last (timestamp in microseconds, UTC).
pub const MODIFIED_COLUMN: &str = "modified";

/// Skipped entries that a summary lists.
const MAX_SKIPPED: usize = 1000;
/// Rows of one record batch: even with paths of 4 KiB their text stays below 2 GiB.
const BATCH_ROWS: usize = 1 << 18;

/// How files are packed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RawPackOptions {
    /// Also files in folders below the named ones; default `false`.
    pub recursive: bool,
    /// How records are coded; default `none`. With a codec for images, the files must be images
    /// that [`read_picture`] understands, and the records are their pixels.
    pub codec: CodecSpec,
    /// Bounds on what one image may have.
    pub limits: Limits,
    /// Header members beside `payload_type` and `codec`; default none.
    pub header: Map<String, Value>,
    /// How the pack is written.
    pub write: WriteOptions,
    /// Most threads that read and encode; default (`None`) all cores. The pack's bytes do not
    /// depend on it.
    pub workers: Option<NonZeroUsize>,
    /// Bytes of files that are in memory at once, unless one file has more; default 64 MiB.
    pub memory: u64,
}

impl Default for RawPackOptions {
    fn default() -> Self {
        Self {
            recursive: false,
            codec: CodecSpec::none(),
            limits: Limits::default(),
            header: Map::new(),
            write: WriteOptions::new(),
            workers: None,
            memory: 64 << 20,
        }
    }
}

/// What was packed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RawPackSummary {
    /// Files in the pack.
    pub files: u64,
    /// Bytes of these files.
    pub source_bytes: u64,
    /// What was found in folders and is not in the pack, at most 1,000 of them.
    pub skipped: Vec<Skipped>,
    /// Everything that was found in folders and is not in the pack.
    pub total_skipped: u64,
    /// What was written.
    pub written: WriteSummary,
}

/// Something that was found in a folder and not packed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The entry.
    pub path: PathBuf,
    /// Why it is not in the pack.
    pub reason: &'static str,
}

/// Packs files and the files in folders, one record for each, sorted by the bytes of their paths.
///
/// A file that is named goes in under its file name. Of a folder that is named, the files inside go
/// in under their paths relative to it, those in deeper folders only with
/// [`recursive`](RawPackOptions::recursive). Symbolic links are not followed, and the pack itself
/// is never packed. The same files give the same bytes, whatever the number of threads.
///
/// A codec for images encodes what is in PNG, TIFF, JPEG and `.npy` files. When the first one holds
/// signed samples of 16 bits, all have to, and the pack says so.
///
/// Progress counts bytes.
///
/// # Errors
///
/// [`OpsError::Source`] when a source is a link or no file, a name is not UTF-8, or two files would
/// have the same path in the pack; [`OpsError::TooLarge`] for a file of more than 4,294,967,295
/// bytes; [`OpsError::Picture`] for a file that is no image where the codec wants one;
/// [`OpsError::Changed`] when a file changes while the pack is made; [`OpsError::Codec`];
/// [`OpsError::Write`], also when the destination exists; [`OpsError::Io`];
/// [`OpsError::Cancelled`].
pub fn pack_raw(
    sources: &[PathBuf],
    out: &Path,
    options: &RawPackOptions,
    progress: &dyn Progress,
) -> Result<RawPackSummary> {
    if sources.is_empty() {
        return Err(OpsError::usage("no files or folders to pack were named"));
    }
    let codec = Registry::global()
        .create_encoder(&options.codec)
        .map_err(|source| OpsError::codec(out.display().to_string(), None, source))?;
    // The writer says so too, but only after all sources have been looked at.
    if !options.write.overwrite && out.exists() {
        return Err(OpsError::Write(WriteError::Exists { path: out.to_owned() }));
    }
    let found = {
        let _task = Task::begin(progress, "looking for files", None);
        find::find(sources, out, options.recursive, progress)?
    };
    let codec = match (codec.kind(), found.files.first()) {
        (CodecKind::Image, Some(first)) => {
            let signed = picture(first, options)?.sample_type() == SampleType::I16;
            let codec = if signed { codec.with_int16_samples() } else { Ok(codec) };
            codec.map_err(|source| codec_error(first, 0, source))?
        }
        _ => codec,
    };
    let mut header = options.header.clone();
    // What these are is known here better than by the caller.
    for member in ["payload_type", "codec", "codec_params"] {
        header.remove(member);
    }
    let index = index_table(&found.files)
        .map_err(|source| OpsError::Write(WriteError::Format { path: out.to_owned(), source }))?;
    let writer = VariablePackBuilder::new(RAW_FILES, index)
        .codec(codec.clone())
        .header(header)
        .options(options.write)
        .begin_from_payloads(out)?;
    let source_bytes =
        found.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.state.bytes));
    let written = write_files(&found.files, writer, &codec, source_bytes, options, progress)?;
    Ok(RawPackSummary {
        files: u64::try_from(found.files.len()).unwrap_or(u64::MAX),
        source_bytes,
        skipped: found.skipped,
        total_skipped: found.total_skipped,
        written,
    })
}

fn write_files(
    files: &[SourceFile],
    mut writer: PackWriter,
    codec: &Codec,
    total: u64,
    options: &RawPackOptions,
    progress: &dyn Progress,
) -> Result<WriteSummary> {
    let is_image = codec.kind() == CodecKind::Image;
    let task = Task::begin(progress, "packing", Some(total));
    let bounds = Bounds { workers: options.workers, cost: options.memory };
    for_each_ordered(
        (0_u64..).zip(files),
        bounds,
        progress,
        // The pixels of an image take a multiple of its file.
        |(_, file)| file.state.bytes.saturating_mul(if is_image { 8 } else { 1 }),
        |(row, file)| Ok((file.state.bytes, encode(codec, row, file, options)?)),
        |(bytes, payload)| {
            writer.push(&payload)?;
            task.advance(bytes);
            Ok(())
        },
    )?;
    Ok(writer.finish()?)
}

fn encode(codec: &Codec, row: u64, file: &SourceFile, options: &RawPackOptions) -> Result<Vec<u8>> {
    if codec.kind() == CodecKind::Image {
        let image = picture(file, options)?;
        return codec
            .encode_image(&image.as_view())
            .map_err(|source| codec_error(file, row, source));
    }
    let content = file.read()?;
    if codec.is_identity() {
        return Ok(content);
    }
    codec.encode_bytes(&content).map_err(|source| codec_error(file, row, source))
}

/// The image in a file.
fn picture(file: &SourceFile, options: &RawPackOptions) -> Result<Image> {
    read_picture(&file.read()?, &options.limits).map_err(|source| OpsError::Picture {
        path: file.path.clone(),
        row: None,
        source: Box::new(source),
    })
}

fn codec_error(file: &SourceFile, row: u64, source: iac_codec::CodecError) -> OpsError {
    OpsError::codec(file.path.display().to_string(), Some(row), source)
}

fn index_table(files: &[SourceFile]) -> Result<Table, FormatError> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let schema = Arc::new(Schema::new(vec![
        Field::new(PATH_COLUMN, DataType::Utf8, true),
        Field::new(BYTES_COLUMN, DataType::UInt64, true),
        Field::new(MODIFIED_COLUMN, time, true),
    ]));
    let argument =
        |reason: String| FormatError::Argument { reason: format!("index table: {reason}") };
    let mut batches = Vec::new();
    for part in files.chunks(BATCH_ROWS) {
        let paths = StringArray::from_iter_values(part.iter().map(|file| &file.name));
        let bytes = UInt64Array::from_iter_values(part.iter().map(|file| file.state.bytes));
        let modified: TimestampMicrosecondArray =
            part.iter().map(|file| file.state.modified_micros()).collect();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(paths), Arc::new(bytes), Arc::new(modified.with_timezone("UTC"))];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
        batches.push(batch.map_err(|error| argument(error.to_string()))?);
    }
    Table::new(schema, batches).map_err(|error| argument(error.to_string()))
}
