//! The same records with another codec.

use std::num::NonZeroUsize;
use std::path::Path;

use bytes::Bytes;
use iac_codec::{Codec, CodecKind, CodecSpec, Limits, Registry, SampleMapping, SampleType};
use iac_format::{EXTENSIONS_MEMBER, REQUIRED_EXTENSIONS_MEMBER};
use iac_reader::PackReader;
use iac_writer::{Table, VariablePackBuilder, WriteError, WriteOptions, WriteSummary};
use serde_json::{Map, Value};

use crate::carry::{check_carried, check_one_codec};
use crate::decode::{Decoder, byte_count, no_records, of_image, stored_bytes};
use crate::error::{OpsError, Result};
use crate::no_record::NoRecord;
use crate::ordered::{Bounds, for_each_ordered};
use crate::progress::{Progress, Task};
use crate::shared::Shared;
use crate::transcode::Transcoder;

/// Header member that says how records were encoded, where the codec's parameters do not.
pub(crate) const ENCODE_MEMBER: &str = "iac_encode";

/// How a pack is recoded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecodeOptions {
    /// The new codec; default `none`.
    pub codec: CodecSpec,
    /// Put each JPEG file into a JPEG XL stream that gives it back bit by bit (the new codec is
    /// `jxl`, the old one `jpeg`), or take it out again (`jpeg`, from `jxl`); default `false`. Of
    /// the new codec's parameters only `effort` matters then.
    pub transcode: bool,
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
            transcode: false,
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
/// payloads lie. Records of bytes go to codecs for bytes, images to codecs for images; signed
/// samples stay signed; rows that store no record (of objects without an image) stay so. Checksums
/// are compared on the way. Progress counts rows.
///
/// Packs that keep metadata in front of their records, as those of DICOM objects do, keep it, but
/// only the effort of their codec can be changed.
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
/// not there or a record cannot be encoded; [`OpsError::Usage`] when one of the codecs is for bytes
/// and the other for images, or JPEG files are to be transcoded that are not there;
/// [`OpsError::Source`] for packs that hold more than their rows, where that cannot be kept;
/// [`OpsError::Read`] when the pack is damaged, addresses
/// no records, or its codec is not there; [`OpsError::Cancelled`]. Nothing is left then.
pub fn recode(
    pack: &PackReader,
    out: &Path,
    options: &RecodeOptions,
    progress: &dyn Progress,
) -> Result<RecodeSummary> {
    if !options.transcode {
        // A codec that is not there, or not such, is the caller's first mistake.
        Registry::global()
            .create_encoder(&options.codec)
            .map_err(|source| OpsError::codec(pack.path(), None, source))?;
    }
    // The writer says so too, but only after the tables have been decoded.
    if !options.write.overwrite && out.exists() {
        return Err(OpsError::Write(WriteError::Exists { path: out.to_owned() }));
    }
    check_one_codec(pack)?;
    if options.transcode {
        let transcoder = Transcoder::new(pack, options)?;
        check_carried(pack)?;
        let rows = pack.num_records()?;
        let (spec, header) = transcoder.describe(pack);
        let builder = VariablePackBuilder::new("", table(pack.index_table()?)?).codec_spec(spec);
        return Work { pack, options, progress, shared: Shared::default() }.run(
            builder,
            header,
            out,
            rows,
            &|row| transcoder.record(pack, row),
        );
    }
    let codec_error = |row, source| OpsError::codec(pack.path(), row, source);
    let shared = Shared::of(pack)?;
    let spec = shared.codec(pack, &options.codec)?;
    let mut codec =
        Registry::global().create_encoder(&spec).map_err(|source| codec_error(None, source))?;
    let decoder = Decoder::new(pack, options.limits)?;
    let old = decoder.codec().ok_or_else(|| no_records(pack))?;
    if codec.kind() != old.kind() {
        return Err(OpsError::usage(kinds_differ(pack, old, &codec)));
    }
    let rows = pack.num_records()?;
    let absent = NoRecord::of(pack)?;
    let first = (0..rows).find(|row| !absent.contains(pack, *row));
    if let (Some(images), Some(first)) = (decoder.images(), first) {
        let signed = match old.sample_mapping() {
            Some(mapping) => mapping == SampleMapping::Int16,
            // Streams of others may hold signed samples as such.
            None => images.image_info(first)?.sample_type == SampleType::I16,
        };
        if signed {
            codec = codec.with_int16_samples().map_err(|source| codec_error(None, source))?;
        }
    }
    let header = header_without(pack, Some(old));
    let builder = VariablePackBuilder::new("", table(pack.index_table()?)?).codec(codec.clone());
    Work { pack, options, progress, shared }.run(builder, header, out, rows, &|row| {
        if absent.contains(pack, row) {
            return Ok((0, Bytes::new()));
        }
        if let Some(images) = decoder.images() {
            let image = images.read_image(row)?;
            let payload = codec
                .encode_image(&image.as_view())
                .map_err(|source| codec_error(Some(row), source))?;
            return Ok((byte_count(&of_image(row, image).bytes), payload.into()));
        }
        let record = decoder.decode(row)?.bytes;
        let decoded = byte_count(&record);
        let payload = if codec.is_identity() {
            record
        } else {
            codec.encode_bytes(&record).map_err(|source| codec_error(Some(row), source))?.into()
        };
        Ok((decoded, payload))
    })
}

/// Why records of one codec are none for another.
fn kinds_differ(pack: &PackReader, old: &Codec, new: &Codec) -> String {
    let (old, new) = (old.name(), new.name());
    let path = pack.path();
    match Registry::global().create(&CodecSpec::new(new, Default::default())) {
        Ok(codec) if codec.kind() == CodecKind::Image => format!(
            "{path}: its records are bytes (codec `{old}`), which codec `{new}` for images cannot \
             hold"
        ),
        _ => format!(
            "{path}: its records are images (codec `{old}`), which codec `{new}` for bytes cannot \
             hold: choose a codec for images, or write pixels to files with `decode`"
        ),
    }
}

/// Where records come from and where they go.
struct Work<'a> {
    pack: &'a PackReader,
    options: &'a RecodeOptions,
    progress: &'a dyn Progress,
    shared: Shared,
}

impl Work<'_> {
    /// Writes the new pack; `record` gives the decoded size of a record and its new payload.
    fn run(
        &self,
        builder: VariablePackBuilder,
        header: Map<String, Value>,
        out: &Path,
        rows: u64,
        record: &(dyn Fn(u64) -> Result<(u64, Bytes)> + Sync),
    ) -> Result<RecodeSummary> {
        let Self { pack, options, progress, ref shared } = *self;
        let is_typed = header.contains_key("payload_type");
        let mut writer = builder
            .slides(table(pack.slide_table()?)?)
            .header(header)
            .options(options.write)
            .begin_from_payloads(out)?;
        if !is_typed {
            writer.header_mut().remove("payload_type");
        }
        shared.write(pack, &mut writer)?;
        let task = Task::begin(progress, "recoding", Some(rows));
        let bounds = Bounds { workers: options.workers, cost: options.memory };
        let costs = Decoder::new(pack, options.limits).ok();
        let mut sums = (0_u64, 0_u64);
        for_each_ordered(
            0..rows,
            bounds,
            progress,
            |row| {
                let stored = stored_bytes(pack, *row);
                costs
                    .as_ref()
                    .map_or(stored, |decoder| decoder.cost(*row, stored))
                    .saturating_mul(2)
            },
            |row| {
                let (decoded, payload) = record(row)?;
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
}

/// The pack's header members without those that describe its codec.
pub(crate) fn header_without(pack: &PackReader, old: Option<&Codec>) -> Map<String, Value> {
    let mut members = pack.header().members().clone();
    for member in ["codec", "codec_params", ENCODE_MEMBER, SampleMapping::MEMBER] {
        members.remove(member);
    }
    let of_old = old.map_or(&[] as &[&str], Codec::required_extensions);
    for (member, gone) in [
        (REQUIRED_EXTENSIONS_MEMBER, of_old),
        (EXTENSIONS_MEMBER, &[SampleMapping::EXTENSION] as &[&str]),
    ] {
        if let Some(Value::Array(names)) = members.get_mut(member) {
            names.retain(|name| !name.as_str().is_some_and(|name| gone.contains(&name)));
            if names.is_empty() {
                members.remove(member);
            }
        }
    }
    members
}

fn table(table: &iac_reader::Table) -> Result<Table> {
    Ok(Table::new(table.schema().clone(), table.batches()?.to_vec())?)
}
