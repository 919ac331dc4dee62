//! The C library.

use brotlic::decode::{BrotliDecoder, DecoderInfo};
use brotlic::{CompressionMode, Quality, WindowSize};

use super::{NAME, Status, Stream};
use crate::{CodecError, Result};

pub(super) struct Decoder<'a> {
    /// Refuses large windows unless told otherwise.
    state: BrotliDecoder,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self { state: BrotliDecoder::new(), rest: payload }
    }
}

impl Stream for Decoder<'_> {
    fn decode(&mut self, out: &mut [u8]) -> Result<(usize, Status)> {
        self.decode_some(usize::MAX, out)
    }

    fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn decode_some(&mut self, input: usize, out: &mut [u8]) -> Result<(usize, Status)> {
        let input = self.rest.get(..input).unwrap_or(self.rest);
        let step = self.state.decompress(input, out).map_err(|error| CodecError::Decode {
            name: NAME.to_owned(),
            reason: "the stream is damaged".to_owned(),
            source: Some(std::sync::Arc::new(error)),
        })?;
        self.rest = self.rest.get(step.bytes_read..).unwrap_or_default();
        let status = match step.info {
            DecoderInfo::Finished => Status::Finished,
            DecoderInfo::NeedsMoreInput => Status::Cut,
            DecoderInfo::NeedsMoreOutput => Status::Full,
        };
        Ok((step.bytes_written, status))
    }
}

pub(super) fn encode(record: &[u8], quality: i32, lgwin: i32) -> Result<Vec<u8>> {
    let range = |_| CodecError::encode(NAME, "its parameters are out of range");
    let quality = Quality::new(u8::try_from(quality).unwrap_or(u8::MAX)).map_err(range)?;
    let window = WindowSize::new(u8::try_from(lgwin).unwrap_or(u8::MAX)).map_err(range)?;
    // The library stores a record as it is when nothing shorter fits, so the bound holds for
    // every quality; the crate gives it only for those from 2 upwards.
    let bound = Quality::new(2)
        .ok()
        .and_then(|quality| brotlic::compress_bound(record.len(), quality))
        .filter(|bound| *bound != 0);
    let bound =
        bound.ok_or_else(|| CodecError::encode(NAME, format!("it has {} bytes", record.len())))?;
    let mut payload = vec![0; bound];
    let mode = CompressionMode::Generic;
    let written = brotlic::compress(record, &mut payload, quality, window, mode)
        .map_err(|_| CodecError::encode(NAME, "the library refused it"))?;
    payload.truncate(written);
    payload.shrink_to_fit();
    Ok(payload)
}
