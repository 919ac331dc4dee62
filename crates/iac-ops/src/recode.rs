//! The same records with another codec.

use std::num::NonZeroUsize;
use std::path::Path;

use iac_codec::{Codec, CodecSpec, Limits, Registry};
use iac_format::REQUIRED_EXTENSIONS_MEMBER;
use iac_reader::PackReader;
use iac_writer::{Table, VariablePackBuilder, WriteError, WriteOptions, WriteSummary};
use serde_json::{Map, Value};

use crate::decode::{Decoder, byte_count, no_records, stored_bytes};
use crate::error::{OpsError, Result};
use crate::ordered::{Bounds, for_each_ordered};
use crate::progress::{Progress, Task};

/// Header member that says how records were encoded, where the codec's parameters do not.
const ENCODE_MEMBER: &str = "iac_encode";

/// How a pack is recoded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecodeOptions {
    /// The new codec; default `none`.
    pub codec: CodecSpec,
    /// How the pack is written.
    pub write: WriteOptions,
    /// Bounds on what one record may decode to.
    pub limits: Limits,
    /// Most threads that decode and encode; default (`None`) all cores. The pack's bytes do not
    /// depend on it.
    pub workers: Option<NonZeroUsize>,
    /// Bytes of records that are in memory at once, unless one record has more; default 64 MiB.
    pub memory: u64,
}

impl Default for RecodeOptions {
    fn default() -> Self {
        Self {
            codec: CodecSpec::none(),
            write: WriteOptions::new(),
            limits: Limits::default(),
            workers: None,
            memory: 64 << 20,
        }
    }
}

/// What was recoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecodeSummary {
    /// Records.
    pub rows: u64,
    /// Bytes of the old payloads.
    pub stored_bytes: u64,
    /// Bytes of the decoded records.
    pub decoded_bytes: u64,
    /// What was written.
    pub written: WriteSummary,
}

/// Writes the records of a variable pack into a new one, encoded by another codec.
///
/// Rows, tables and header members stay, apart from those that describe the codec and where
/// payloads lie. Only records whose decoded form is bytes can be recoded. Checksums are compared on
/// the way. Progress counts rows.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let source = folder.path().join("a.txt");
/// # std::fs::write(&source, "hello")?;
/// # let (old, new) = (folder.path().join("old.iac"), folder.path().join("new.iac"));
/// use iac_ops::NoProgress;
/// use iac_ops::raw::{RawPackOptions, pack_raw};
/// use iac_ops::recode::{RecodeOptions, recode};
/// use iac_reader::PackReader;
///
/// pack_raw(&[source], &old, &RawPackOptions::default(), &NoProgress)?;
/// let pack = PackReader::open(&old)?;
/// let summary = recode(&pack, &new, &RecodeOptions::default(), &NoProgress)?;
/// assert_eq!(summary.rows, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`OpsError::Write`], also when the destination exists; [`OpsError::Codec`] when the new codec is
/// not there or a record cannot be encoded; [`OpsError::Read`] when the pack is damaged, addresses
/// no records, or its codec is not there; [`OpsError::Cancelled`]. Nothing is left then.
pub fn recode(
    pack: &PackReader,
    out: &Path,
    options: &RecodeOptions,
    progress: &dyn Progress,
) -> Result<RecodeSummary> {
    // The writer says so too, but only after the tables have been decoded.
    if !options.write.overwrite && out.exists() {
        return Err(OpsError::Write(WriteError::Exists { path: out.to_owned() }));
    }
    let codec_error = |row, source| OpsError::Codec { path: pack.path().to_owned(), row, source };
    let codec = Registry::global()
        .create_encoder(&options.codec)
        .map_err(|source| codec_error(None, source))?;
    let decoder = Decoder::new(pack, options.limits)?;
    let old = decoder.codec().ok_or_else(|| no_records(pack))?;
    let header = header_without(pack, old);
    let is_typed = header.contains_key("payload_type");
    let mut writer = VariablePackBuilder::new("", table(pack.index_table()?)?)
        .codec(codec.clone())
        .slides(table(pack.slide_table()?)?)
        .header(header)
        .options(options.write)
        .begin_from_payloads(out)?;
    if !is_typed {
        writer.header_mut().remove("payload_type");
    }
    let rows = pack.num_records()?;
    let task = Task::begin(progress, "recoding", Some(rows));
    let bounds = Bounds { workers: options.workers, cost: options.memory };
    let mut sums = (0_u64, 0_u64);
    for_each_ordered(
        0..rows,
        bounds,
        progress,
        |row| decoder.cost(stored_bytes(pack, *row)).saturating_mul(2),
        |row| {
            let record = decoder.decode(row)?.bytes;
            let decoded = byte_count(&record);
            let payload = if codec.is_identity() {
                record
            } else {
                codec.encode_bytes(&record).map_err(|source| codec_error(Some(row), source))?.into()
            };
            Ok((stored_bytes(pack, row), decoded, payload))
        },
        |(stored, decoded, payload)| {
            sums = (sums.0.saturating_add(stored), sums.1.saturating_add(decoded));
            writer.push(&payload)?;
            task.advance(1);
            Ok(())
        },
    )?;
    let (stored_bytes, decoded_bytes) = sums;
    Ok(RecodeSummary { rows, stored_bytes, decoded_bytes, written: writer.finish()? })
}

/// The pack's header members without those that describe its codec.
fn header_without(pack: &PackReader, old: &Codec) -> Map<String, Value> {
    let mut members = pack.header().members().clone();
    for member in ["codec", "codec_params", ENCODE_MEMBER] {
        members.remove(member);
    }
    if let Some(Value::Array(names)) = members.get_mut(REQUIRED_EXTENSIONS_MEMBER) {
        let of_old = old.required_extensions();
        names.retain(|name| !name.as_str().is_some_and(|name| of_old.contains(&name)));
        if names.is_empty() {
            members.remove(REQUIRED_EXTENSIONS_MEMBER);
        }
    }
    members
}

fn table(table: &iac_reader::Table) -> Result<Table> {
    Ok(Table::new(table.schema().clone(), table.batches()?.to_vec())?)
}
