//! Arrow streams whose buffers are compressed and whose batches can be fetched one by one.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{ArrowError, Schema};

use crate::error::{ArrayError, Result, u64_len};

/// A table and where its record batches lie.
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the schema message in front.
    pub(crate) schema_bytes: u64,
    /// Begin and end of each batch.
    pub(crate) batches: Vec<(u64, u64)>,
}

/// The end of every stream.
pub(crate) const END: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];

pub(crate) fn encode(schema: &Schema, batches: &[RecordBatch]) -> Result<Encoded> {
    let failed =
        |error: ArrowError| ArrayError::argument(format!("a table cannot be encoded: {error}"));
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
        .and_then(|options| options.try_with_compression(Some(CompressionType::ZSTD)))
        .map_err(failed)?;
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), schema, options).map_err(failed)?;
    let schema_bytes = u64_len(writer.get_ref().len());
    let mut places = Vec::with_capacity(batches.len());
    let mut start = schema_bytes;
    for batch in batches {
        writer.write(batch).map_err(failed)?;
        let end = u64_len(writer.get_ref().len());
        places.push((start, end));
        start = end;
    }
    writer.finish().map_err(failed)?;
    let bytes = writer.into_inner().map_err(failed)?;
    Ok(Encoded { bytes, schema_bytes, batches: places })
}
