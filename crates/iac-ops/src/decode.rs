//! Records as their codec's output.

use std::num::NonZeroUsize;

use bytes::Bytes;
use iac_codec::{
    Codec, CodecError, CodecKind, ColorHandling, DamageHandling, DepthHandling, Image, Limits,
    Samples, Scale,
};
use iac_format::{FixedShape, FormatError, TableKind};
use iac_reader::{FixedRecordPack, PackKind, PackReader, RecordOptions, VariableRecordPack};
use serde::Serialize;

use crate::carry::check_one_codec;
use crate::error::{OpsError, Result};
use crate::no_record::NoRecord;
use crate::ordered::{Bounds, for_each_ordered};
use crate::progress::{Progress, Task};
use crate::rows::RowSelection;

/// How records are decoded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// Bounds on what one record may decode to.
    pub limits: Limits,
    /// The size of decoded images; default the full one.
    pub scale: Scale,
    /// Colours of decoded images; default as their streams declare them.
    pub color: ColorHandling,
    /// What samples of odd depths decode to; default as the reference packages do.
    pub depth: DepthHandling,
    /// What happens at damage that a codec can pass over; default an error.
    pub damage: DamageHandling,
    /// The frame of animations; default (`None`) refuses animations.
    pub frame: Option<u32>,
    /// Most threads; default (`None`) all cores.
    pub workers: Option<NonZeroUsize>,
    /// Bytes of records that are in memory at once, unless one record has more; default 64 MiB.
    pub memory: u64,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            scale: Scale::default(),
            color: ColorHandling::default(),
            depth: DepthHandling::default(),
            damage: DamageHandling::default(),
            frame: None,
            workers: None,
            memory: 64 << 20,
        }
    }
}

impl DecodeOptions {
    /// What the codec is told.
    #[must_use]
    pub fn for_codec(&self) -> iac_codec::DecodeOptions {
        let mut options = iac_codec::DecodeOptions::from(self.limits)
            .with_scale(self.scale)
            .with_color(self.color)
            .with_depth(self.depth)
            .with_damage(self.damage);
        options.frame = self.frame;
        options
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

/// What was decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeSummary {
    /// Records that were handed on.
    pub records: u64,
    /// Rows that were passed over because they store no record.
    pub without_record: u64,
}

/// Decodes the records of one pack.
#[derive(Debug, Clone)]
pub struct Decoder {
    pack: PackReader,
    how: How,
    options: iac_codec::DecodeOptions,
}

#[derive(Debug, Clone)]
enum How {
    Codec(VariableRecordPack, Codec),
    Fixed(FixedShape),
}

impl Decoder {
    /// Makes the codec that the pack's header names; images are decoded at full size.
    ///
    /// # Errors
    ///
    /// As [`with_options`](Self::with_options).
    pub fn new(pack: &PackReader, limits: Limits) -> Result<Self> {
        Self::with_options(pack, limits.into())
    }

    /// Makes the codec that the pack's header names.
    ///
    /// # Errors
    ///
    /// [`OpsError::Read`] when this build has no such codec or the header describes it wrongly,
    /// when the pack needs an extension that is not known, and when it addresses no records or is
    /// damaged.
    pub fn with_options(pack: &PackReader, options: iac_codec::DecodeOptions) -> Result<Self> {
        let how = match pack.kind()? {
            PackKind::Variable => {
                let records = RecordOptions::default().images(options);
                let records = VariableRecordPack::from_reader_with(pack.clone(), records);
                let codec = records.codec()?.clone();
                How::Codec(records, codec)
            }
            PackKind::Fixed => How::Fixed(FixedRecordPack::from_reader(pack.clone())?.shape()),
            PackKind::Segment => return Err(no_records(pack)),
        };
        Ok(Self { pack: pack.clone(), how, options })
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
            How::Codec(records, codec) if codec.kind() == CodecKind::Image => {
                Ok(of_image(row, records.read_image(row)?))
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
                let bytes = if shape.big_endian {
                    let mut elements = stored.to_vec();
                    shape.to_little_endian(&mut elements);
                    Bytes::from(elements)
                } else {
                    stored
                };
                return Ok(Decoded {
                    row,
                    kind: DecodedKind::Vector,
                    shape: vec![shape.dim],
                    dtype: shape.element.name(),
                    bytes,
                });
            }
            How::Codec(_, codec) => codec,
        };
        let decoded = match codec.kind() {
            // Nothing grows, so there is nothing to limit: the bytes are in memory already.
            CodecKind::Bytes if codec.is_identity() => Ok(stored),
            CodecKind::Bytes => codec.decode_bytes(&stored, &self.options.limits).map(Bytes::from),
            CodecKind::Image => {
                return match codec.decode_image(&stored, &self.options) {
                    Ok(image) => Ok(of_image(row, image)),
                    Err(source) => Err(self.codec_error(row, source)),
                };
            }
            _ => Err(CodecError::Unsupported {
                name: codec.name().to_owned(),
                reason: "records of its kind cannot be decoded here".to_owned(),
            }),
        };
        let bytes = decoded.map_err(|source| self.codec_error(row, source))?;
        Ok(of_bytes(row, bytes))
    }

    fn codec_error(&self, row: u64, source: CodecError) -> OpsError {
        OpsError::codec(self.pack.path(), Some(row), source)
    }

    /// The pack's records, where they are images.
    pub(crate) fn images(&self) -> Option<&VariableRecordPack> {
        match &self.how {
            How::Codec(records, codec) if codec.kind() == CodecKind::Image => Some(records),
            _ => None,
        }
    }

    /// The codec of a variable pack.
    pub(crate) const fn codec(&self) -> Option<&Codec> {
        match &self.how {
            How::Codec(_, codec) => Some(codec),
            How::Fixed(_) => None,
        }
    }

    /// What a record with so many stored bytes takes of a memory budget while it is decoded.
    pub(crate) fn cost(&self, row: u64, stored: u64) -> u64 {
        if let Some(images) = self.images() {
            // Whatever the claim is worth: one that is too high costs time, not memory.
            let claimed = images.image_info(row).map_or(0, |info| {
                let samples = u64::try_from(info.shape.samples()).unwrap_or(u64::MAX);
                samples.saturating_mul(u64::try_from(info.sample_type.bytes()).unwrap_or(4))
            });
            return claimed.saturating_add(stored);
        }
        match &self.how {
            How::Codec(_, codec) if !codec.is_identity() => stored.saturating_mul(4),
            _ => stored,
        }
    }
}

/// Decodes records in the order of `rows` (absent: all) and hands them on one by one.
///
/// The first record that cannot be decoded ends the call. Rows that store no record (of objects
/// without an image) are passed over. Progress counts rows.
///
/// # Errors
///
/// Those of [`Decoder::new`] and [`Decoder::decode`], [`OpsError::RowOutOfRange`] before anything
/// is read, [`OpsError::Usage`] when none of the rows stores a record, and whatever `on_record`
/// returns.
pub fn decode(
    pack: &PackReader,
    rows: Option<&RowSelection>,
    options: &DecodeOptions,
    progress: &dyn Progress,
    on_record: &mut dyn FnMut(Decoded) -> Result<()>,
) -> Result<DecodeSummary> {
    let rows = selected_rows(pack, rows)?;
    check_one_codec(pack)?;
    let decoder = Decoder::with_options(pack, options.for_codec())?;
    let (rows, without_record) = NoRecord::of(pack)?.split(pack, rows)?;
    let task = Task::begin(progress, "decoding", Some(rows.len()));
    let bounds = Bounds { workers: options.workers, cost: options.memory };
    for_each_ordered(
        rows.iter(),
        bounds,
        progress,
        |row| decoder.cost(*row, stored_bytes(pack, *row)),
        |row| decoder.decode(row),
        |record| {
            on_record(record)?;
            task.advance(1);
            Ok(())
        },
    )?;
    Ok(DecodeSummary { records: rows.len(), without_record })
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

/// An image as its elements.
pub(crate) fn of_image(row: u64, image: Image) -> Decoded {
    let (shape, dtype) = (image.shape().dimensions(), image.sample_type().name());
    let bytes = match image.into_samples() {
        Samples::U8(samples) => Bytes::from(samples),
        other => Bytes::from(other.as_ref().to_le_bytes().into_owned()),
    };
    Decoded { row, kind: DecodedKind::Image, shape, dtype, bytes }
}

fn of_bytes(row: u64, bytes: Bytes) -> Decoded {
    let shape = vec![byte_count(&bytes)];
    Decoded { row, kind: DecodedKind::Bytes, shape, dtype: "uint8", bytes }
}

pub(crate) fn byte_count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
