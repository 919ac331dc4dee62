//! SHA-256 of stored and decoded records: compares packs by content, whatever their layout.

use iac_format::ErrorKind;
use iac_reader::{PackKind, PackReader};
use serde::Serialize;

use crate::carry::has_own_codecs;
use crate::decode::{
    DecodeOptions, DecodedKind, Decoder, byte_count, no_records, selected_rows, stored_bytes,
};
use crate::error::{OpsError, Result};
use crate::no_record::NoRecord;
use crate::ordered::{Bounds, for_each_ordered};
use crate::progress::{Progress, Task};
use crate::rows::RowSelection;
use crate::sha::sha256_hex;

/// How records are summed up: as they are decoded.
pub type DigestOptions = DecodeOptions;

/// The sums of one record.
///
/// As JSON: `{"row","bytes","crc32","crc_ok","stored_sha256","decoded":{...}}`, with `error` in
/// place of `decoded` where the record cannot be decoded, and neither where the row stores none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RowDigest {
    /// Row of the index table.
    pub row: u64,
    /// Stored bytes; absent when the record cannot be read.
    pub bytes: Option<u64>,
    /// CRC-32 in the index; absent in packs that keep none.
    pub crc32: Option<u32>,
    /// Whether the stored bytes have that CRC-32.
    pub crc_ok: Option<bool>,
    /// SHA-256 of the stored bytes, in hex.
    pub stored_sha256: Option<String>,
    /// The sums of the decoded record; absent too in rows that store none, of objects without an
    /// image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoded: Option<DecodedDigest>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<DigestError>,
}

/// The decoded side of a [`RowDigest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DecodedDigest {
    /// What the record is.
    pub kind: DecodedKind,
    /// `[H, W]` or `[H, W, C]` of an image, `[dim]` of a vector, `[n]` of bytes.
    pub shape: Vec<u64>,
    /// NumPy's name of the element type.
    pub dtype: &'static str,
    /// Number of bytes.
    pub bytes: u64,
    /// SHA-256 of the little-endian, row-major elements, in hex.
    pub sha256: String,
}

/// Why a record has no decoded side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DigestError {
    /// The kind that callers branch on.
    #[serde(serialize_with = "crate::digest::kind_name")]
    pub kind: ErrorKind,
    /// The message.
    pub message: String,
}

/// What a digest found in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DigestSummary {
    /// Records summed up.
    pub rows: u64,
    /// Records with an error.
    pub failed: u64,
    /// Kind of the first such error.
    pub first_error: Option<ErrorKind>,
}

pub(crate) fn kind_name<S: serde::Serializer>(
    kind: &ErrorKind,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

/// Sums up records in the order of `rows` (absent: all) and hands the sums on one by one.
///
/// A record that cannot be read or decoded is handed on with its error, and the others follow.
/// Progress counts rows.
///
/// # Errors
///
/// [`OpsError::RowOutOfRange`] before anything is read, [`OpsError::Read`] when the tables are
/// damaged or the pack addresses no records (kind `no_record_index`), and whatever `on_row`
/// returns.
pub fn digest(
    pack: &PackReader,
    rows: Option<&RowSelection>,
    options: &DigestOptions,
    progress: &dyn Progress,
    on_row: &mut dyn FnMut(RowDigest) -> Result<()>,
) -> Result<DigestSummary> {
    if pack.kind()? == PackKind::Segment {
        return Err(no_records(pack));
    }
    let rows = selected_rows(pack, rows)?;
    // Where no row can be found, the same error for each of them would never end.
    pack.record_index()?;
    // Sums of damaged records are wanted too, so nothing is refused for its checksum here.
    let unchecked = pack.with_crc(false);
    let decoder = Decoder::with_options(&unchecked, options.for_codec())
        .map_err(|error| DigestError::of(&error));
    let absent = NoRecord::of(pack)?;
    let has_own_codecs = has_own_codecs(pack)?;
    let task = Task::begin(progress, "digesting", Some(rows.len()));
    let bounds = Bounds { workers: options.workers, cost: options.memory };
    let mut summary = DigestSummary::default();
    for_each_ordered(
        rows.iter(),
        bounds,
        progress,
        |row| {
            let stored = stored_bytes(pack, *row);
            decoder.as_ref().map_or(stored, |decoder| decoder.cost(*row, stored))
        },
        |row| {
            let decoder = (!has_own_codecs).then_some(&decoder);
            Ok(digest_row(&unchecked, decoder, &absent, row))
        },
        |row| {
            summary.rows = summary.rows.saturating_add(1);
            if let Some(error) = &row.error {
                summary.failed = summary.failed.saturating_add(1);
                summary.first_error.get_or_insert(error.kind);
            }
            task.advance(1);
            on_row(row)
        },
    )?;
    Ok(summary)
}

impl DigestError {
    fn of(error: &OpsError) -> Self {
        Self { kind: error.kind(), message: error.reason() }
    }
}

fn digest_row(
    pack: &PackReader,
    decoder: Option<&std::result::Result<Decoder, DigestError>>,
    absent: &NoRecord,
    row: u64,
) -> RowDigest {
    let mut digest = RowDigest {
        row,
        bytes: None,
        crc32: None,
        crc_ok: None,
        stored_sha256: None,
        decoded: None,
        error: None,
    };
    let read = pack.span(row).and_then(|span| Ok((span.crc32, pack.read(row)?)));
    let (crc32, stored) = match read {
        Ok(read) => read,
        Err(error) => {
            digest.error = Some(DigestError::of(&OpsError::Read(error)));
            return digest;
        }
    };
    digest.bytes = Some(byte_count(&stored));
    digest.stored_sha256 = Some(sha256_hex(&stored));
    if let Some(sum) = crc32 {
        let computed = crc32fast::hash(&stored);
        digest.crc32 = Some(sum);
        digest.crc_ok = Some(sum == computed);
        if sum != computed {
            // What damaged bytes decode to says nothing about the record.
            digest.error = Some(DigestError {
                kind: ErrorKind::Checksum,
                message: format!(
                    "checksum mismatch (stored {sum:#010x}, computed {computed:#010x})"
                ),
            });
            return digest;
        }
    }
    // Where each row has a codec of its own, only what is stored can be told.
    let Some(decoder) = decoder.filter(|_| !absent.contains(pack, row)) else {
        return digest;
    };
    let decoded = match decoder {
        Ok(decoder) => decoder.decode_stored(row, stored).map_err(|error| DigestError::of(&error)),
        Err(error) => Err(error.clone()),
    };
    match decoded {
        Ok(decoded) => {
            digest.decoded = Some(DecodedDigest {
                bytes: byte_count(&decoded.bytes),
                sha256: sha256_hex(&decoded.bytes),
                kind: decoded.kind,
                shape: decoded.shape,
                dtype: decoded.dtype,
            });
        }
        Err(error) => digest.error = Some(error),
    }
    digest
}
