//! What the data segment of a pack holds before its records.

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

/// Metadata in front of the records, whose length the header states.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shared {
    bytes: u64,
}

impl Shared {
    /// Finds the metadata, and refuses packs with more than that and records.
    pub(crate) fn of(pack: &PackReader) -> Result<Self> {
        let member = |name| pack.header().get(name).and_then(serde_json::Value::as_u64);
        let data = pack.layout().data.length;
        let bytes = match (member("metadata_offset"), member("metadata_length")) {
            (Some(0), Some(bytes)) if bytes <= data => bytes,
            _ => {
                check_carried(pack)?;
                return Ok(Self::default());
            }
        };
        let mut end = bytes;
        for row in 0..pack.num_records()? {
            let span = pack.span(row)?;
            end = end.max(span.offset.saturating_add(span.length));
        }
        if end != data {
            return Err(OpsError::source(
                Path::new(pack.path()),
                format!(
                    "{} bytes lie behind its records, which its metadata finds by their place, so records cannot change their size",
                    data.saturating_sub(end)
                ),
            ));
        }
        Ok(Self { bytes })
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
        let mut offset = 0_u64;
        while offset < self.bytes {
            let length = self.bytes.saturating_sub(offset).min(PIECE);
            writer.push_unindexed(pack.read_data_span(offset, length)?)?;
            offset = offset.saturating_add(length);
        }
        Ok(())
    }
}
