//! Records as their codec's output.

use std::num::NonZeroUsize;

use bytes::Bytes;
use iac_codec::{Codec, CodecError, CodecKind, Limits};
use iac_format::{FixedShape, FormatError, TableKind};
use iac_reader::{FixedRecordPack, PackKind, PackReader, RecordOptions, VariableRecordPack};
use serde::Serialize;

use crate::error::{OpsError, Result};
use crate::ordered::{Bounds, for_each_ordered};
use crate::progress::{Progress, Task};
use crate::rows::RowSelection;

/// How records are decoded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// Bounds on what one record may decode to.
    pub limits: Limits,
    /// Most threads; default (`None`) all cores.
    pub workers: Option<NonZeroUsize>,
    /// Bytes of records that are in memory at once, unless one record has more; default 64 MiB.
    pub memory: u64,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self { limits: Limits::default(), workers: None, memory: 64 << 20 }
    }
}

/// What a decoded record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecodedKind {
    /// Plain bytes.
    Bytes,
    /// Pixels: row-major, channels interleaved.
    Image,
    /// A row of a fixed pack.
    Vector,
}

/// A decoded record: little-endian elements, row-major.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Decoded {
    /// Row of the index table.
    pub row: u64,
    /// What it is.
    pub kind: DecodedKind,
    /// `[H, W]` or `[H, W, C]` of an image, `[dim]` of a vector, `[n]` of bytes.
    pub shape: Vec<u64>,
    /// NumPy's name of the element type: `uint8`, `float16`, ...
    pub dtype: &'static str,
    /// The elements.
    pub bytes: Bytes,
}

/// A decoded record in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DecodedDescription {
    /// Row of the index table.
    pub row: u64,
    /// What it is.
    pub kind: DecodedKind,
    /// As [`Decoded::shape`].
    pub shape: Vec<u64>,
    /// As [`Decoded::dtype`].
    pub dtype: &'static str,
    /// Number of bytes.
    pub bytes: u64,
    /// SHA-256 of the bytes, in hex.
    pub sha256: String,
}

impl Decoded {
    /// Describes the record, its sum included.
    #[must_use]
    pub fn describe(&self) -> DecodedDescription {
        DecodedDescription {
            row: self.row,
            kind: self.kind,
            shape: self.shape.clone(),
            dtype: self.dtype,
            bytes: byte_count(&self.bytes),
            sha256: crate::sha::sha256_hex(&self.bytes),
        }
    }
}

/// Decodes the records of one pack.
#[derive(Debug, Clone)]
pub struct Decoder {
    pack: PackReader,
    how: How,
    limits: Limits,
}

#[derive(Debug, Clone)]
enum How {
    Codec(VariableRecordPack, Codec),
    Fixed(FixedShape),
}

impl Decoder {
    /// Makes the codec that the pack's header names.
    ///
    /// # Errors
    ///
    /// [`OpsError::Read`] when this build has no such codec or the header describes it wrongly,
    /// when the pack needs an extension that is not known, and when it addresses no records or is
    /// damaged.
    pub fn new(pack: &PackReader, limits: Limits) -> Result<Self> {
        let how = match pack.kind()? {
            PackKind::Variable => {
                let options = RecordOptions::default().limits(limits);
                let records = VariableRecordPack::from_reader_with(pack.clone(), options);
                let codec = records.codec()?.clone();
                How::Codec(records, codec)
            }
            PackKind::Fixed => How::Fixed(FixedRecordPack::from_reader(pack.clone())?.shape()),
            PackKind::Segment => return Err(no_records(pack)),
        };
        Ok(Self { pack: pack.clone(), how, limits })
    }

    /// Reads and decodes one record.
    ///
    /// # Errors
    ///
    /// [`OpsError::Read`] when the stored bytes cannot be read or decoded.
    pub fn decode(&self, row: u64) -> Result<Decoded> {
        match &self.how {
            How::Codec(records, codec) if codec.kind() == CodecKind::Bytes => {
                Ok(of_bytes(row, records.read(row)?))
            }
            _ => self.decode_stored(row, self.pack.read(row)?),
        }
    }

    /// Decodes one record whose stored bytes are at hand.
    ///
    /// # Errors
    ///
    /// [`OpsError::Codec`] when they cannot be decoded.
    pub fn decode_stored(&self, row: u64, stored: Bytes) -> Result<Decoded> {
        let codec = match &self.how {
            How::Fixed(shape) => {
                return Ok(Decoded {
                    row,
                    kind: DecodedKind::Vector,
                    shape: vec![shape.dim],
                    dtype: shape.element.name(),
                    bytes: stored,
                });
            }
            How::Codec(_, codec) => codec,
        };
        let decoded = match codec.kind() {
            // Nothing grows, so there is nothing to limit: the bytes are in memory already.
            CodecKind::Bytes if codec.is_identity() => Ok(stored),
            CodecKind::Bytes => codec.decode_bytes(&stored, &self.limits).map(Bytes::from),
            _ => Err(CodecError::Unsupported {
                name: codec.name().to_owned(),
                reason: "records of its kind cannot be decoded here".to_owned(),
            }),
        };
        let bytes = decoded.map_err(|source| OpsError::Codec {
            path: self.pack.path().to_owned(),
            row: Some(row),
            source,
        })?;
        Ok(of_bytes(row, bytes))
    }

    /// The codec of a variable pack.
    pub(crate) const fn codec(&self) -> Option<&Codec> {
        match &self.how {
            How::Codec(_, codec) => Some(codec),
            How::Fixed(_) => None,
        }
    }

    /// What a stored record of so many bytes takes of a memory budget while it is decoded.
    pub(crate) fn cost(&self, stored: u64) -> u64 {
        match &self.how {
            How::Codec(_, codec) if !codec.is_identity() => stored.saturating_mul(4),
            _ => stored,
        }
    }
}

/// Decodes records in the order of `rows` (absent: all) and hands them on one by one.
///
/// The first record that cannot be decoded ends the call. Progress counts rows.
///
/// # Errors
///
/// Those of [`Decoder::new`] and [`Decoder::decode`], [`OpsError::RowOutOfRange`] before anything
/// is read, and whatever `on_record` returns.
pub fn decode(
    pack: &PackReader,
    rows: Option<&RowSelection>,
    options: &DecodeOptions,
    progress: &dyn Progress,
    on_record: &mut dyn FnMut(Decoded) -> Result<()>,
) -> Result<()> {
    let rows = selected_rows(pack, rows)?;
    let decoder = Decoder::new(pack, options.limits)?;
    let task = Task::begin(progress, "decoding", Some(rows.len()));
    let bounds = Bounds { workers: options.workers, cost: options.memory };
    for_each_ordered(
        rows.iter(),
        bounds,
        progress,
        |row| decoder.cost(stored_bytes(pack, *row)),
        |row| decoder.decode(row),
        |record| {
            on_record(record)?;
            task.advance(1);
            Ok(())
        },
    )
}

/// Rows that were asked for and that the pack has; absent ones stand for all.
pub(crate) fn selected_rows(
    pack: &PackReader,
    rows: Option<&RowSelection>,
) -> Result<RowSelection> {
    let available = pack.num_records()?;
    match rows {
        None => Ok(RowSelection::all(available)),
        Some(rows) => {
            rows.check(pack.path(), TableKind::Index, available)?;
            Ok(rows.clone())
        }
    }
}

/// Stored bytes of a row, for budgets: what is wrong with the row is said when it is read.
pub(crate) fn stored_bytes(pack: &PackReader, row: u64) -> u64 {
    pack.span(row).map_or(0, |span| span.length)
}

pub(crate) fn no_records(pack: &PackReader) -> OpsError {
    OpsError::format(pack.path(), FormatError::NoRecordIndex)
}

fn of_bytes(row: u64, bytes: Bytes) -> Decoded {
    let shape = vec![byte_count(&bytes)];
    Decoded { row, kind: DecodedKind::Bytes, shape, dtype: "uint8", bytes }
}

pub(crate) fn byte_count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
