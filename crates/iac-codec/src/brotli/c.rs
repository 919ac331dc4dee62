//! The C library, for payloads that it can be trusted with.
//!
//! Its releases up to the one in use take a switch of blocks where there is but one kind of block
//! for input that is missing: then they loop for ever, or copy what is left of the payload over the
//! end of a buffer of eight bytes inside the decoder's state. A block of the only kind ends after
//! 2^24 literals, commands or distances, so within [`INPUT`] and [`OUTPUT`] no payload gets there:
//!
//! - A metablock has at most 2^24 bytes, and what claims more is found out whenever the window,
//!   which is no larger, has been filled. So 2^24 literals cannot be passed before at least 2^23
//!   bytes were handed out.
//! - Commands and distances give two bytes at least, so 2^23 of them fill a metablock; or they give
//!   none or one, as words of the dictionary that a transform shortens, and these have distances of
//!   at least one bit. So 2^24 of them take at least 2^20 bytes.

use brotlic::decode::{BrotliDecoder, DecoderInfo};
use brotlic::{CompressionMode, Quality, WindowSize};

use super::{NAME, Status, Stream};
use crate::{CodecError, Result};

/// Payloads must be shorter.
pub(super) const INPUT: usize = 1 << 20;

/// Most bytes that are taken of a record: half of what is dangerous.
pub(super) const OUTPUT: u64 = 4 << 20;

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
