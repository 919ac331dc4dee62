//! What the data segment of a pack holds before and behind its records.

use std::path::Path;

use iac_codec::CodecSpec;
use iac_reader::PackReader;
use iac_writer::PackWriter;

use crate::carry::check_carried;
use crate::error::{OpsError, Result};

/// The only parameter that can be changed in packs with metadata: their schemas fix the others.
const EFFORT: &str = "effort";
/// Bytes that are copied at once.
const PIECE: u64 = 4 << 20;

/// Metadata in front of the records, whose length the header states, and what lies behind them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shared {
    bytes: u64,
    /// Where what lies behind the records begins and ends; the metadata may say so too.
    tail: (u64, u64),
}

impl Shared {
    /// Finds metadata and tail, where the header tells of metadata.
    pub(crate) fn find(pack: &PackReader) -> Result<Option<Self>> {
        let member = |name| pack.header().get(name).and_then(serde_json::Value::as_u64);
        let data = pack.layout().data.length;
        let (Some(0), Some(bytes)) = (member("metadata_offset"), member("metadata_length")) else {
            return Ok(None);
        };
        if bytes > data {
            return Ok(None);
        }
        let (mut end, mut start) = (bytes, None);
        for row in 0..pack.num_records()? {
            // What is wrong with a span is told when the record is read.
            if let Ok(span) = pack.span(row) {
                end = end.max(span.offset.saturating_add(span.length));
                if span.length > 0 {
                    start = Some(start.map_or(span.offset, |start: u64| start.min(span.offset)));
                }
            }
        }
        // What lies between the metadata that the header states and the first record belongs to it.
        let bytes = start.unwrap_or(bytes).max(bytes);
        Ok(Some(Self { bytes, tail: (end, data) }))
    }

    /// The same for packs whose records will have other sizes: those with a tail are refused, and
    /// those that hold more than their rows in another way.
    pub(crate) fn of(pack: &PackReader) -> Result<Self> {
        let Some(found) = Self::find(pack)? else {
            check_carried(pack)?;
            return Ok(Self::default());
        };
        let (end, data) = found.tail;
        if end != data {
            return Err(OpsError::source(
                Path::new(pack.path()),
                format!(
                    "{} bytes lie behind its records, which its metadata finds by their place, so records cannot change their size",
                    data.saturating_sub(end)
                ),
            ));
        }
        Ok(found)
    }

    /// The codec of the new pack: the one asked for, or, in packs with metadata, the old one with
    /// another effort.
    pub(crate) fn codec(&self, pack: &PackReader, wanted: &CodecSpec) -> Result<CodecSpec> {
        if self.bytes == 0 {
            return Ok(wanted.clone());
        }
        let failed = |source| OpsError::codec(pack.path(), None, source);
        let old = CodecSpec::from_header(pack.header().members()).map_err(failed)?;
        let changed = wanted.parameters().map_err(failed)?;
        let others = changed.keys().any(|name| name != EFFORT);
        if wanted.name() != old.name() || others {
            return Err(OpsError::usage(format!(
                "{}: of a pack of type {} only the effort of its codec `{}` can be changed",
                pack.path(),
                pack.header().payload_type().unwrap_or("without a name"),
                old.name()
            )));
        }
        let mut parameters = old.parameters().map_err(failed)?.clone();
        parameters.extend(changed.clone());
        Ok(CodecSpec::new(old.name(), parameters))
    }

    /// Copies the metadata.
    pub(crate) fn write(self, pack: &PackReader, writer: &mut PackWriter) -> Result<()> {
        copy(pack, writer, (0, self.bytes))
    }

    /// Copies the tail behind records of so many bytes, to the place that it has in the old pack:
    /// zeros stand for the records that are not there.
    pub(crate) fn write_tail(
        self,
        pack: &PackReader,
        writer: &mut PackWriter,
        records: u64,
    ) -> Result<()> {
        let (start, end) = self.tail;
        if start == end {
            return Ok(());
        }
        let written = self.bytes.saturating_add(records);
        let Some(mut missing) = start.checked_sub(written) else {
            return Err(OpsError::source(
                Path::new(pack.path()),
                "records overlap, so what lies behind them cannot keep its place",
            ));
        };
        let zeros = vec![0; usize::try_from(missing.min(PIECE)).unwrap_or(0)];
        while missing > 0 {
            let length = missing.min(PIECE);
            let piece = usize::try_from(length).ok().and_then(|length| zeros.get(..length));
            writer.push_unindexed(piece.unwrap_or_default())?;
            missing = missing.saturating_sub(length);
        }
        copy(pack, writer, (start, end))
    }
}

/// Copies bytes of the data segment that belong to no record.
fn copy(pack: &PackReader, writer: &mut PackWriter, (start, end): (u64, u64)) -> Result<()> {
    let mut offset = start;
    while offset < end {
        let length = end.saturating_sub(offset).min(PIECE);
        writer.push_unindexed(pack.read_data_span(offset, length)?)?;
        offset = offset.saturating_add(length);
    }
    Ok(())
}
