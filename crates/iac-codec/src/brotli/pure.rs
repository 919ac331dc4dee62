//! The crate `brotli`: encoding, and all decoding.

use ::brotli::enc::StandardAlloc;
use ::brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderStateStruct};
use ::brotli::{BrotliDecompressStream, BrotliResult, BrotliState};

use super::{NAME, Status, damaged};
use crate::{CodecError, Result};

/// One stream on its way through the decoder.
pub(super) struct Decoder<'a> {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        let allocator = StandardAlloc::default;
        // "Strict" refuses large windows.
        let state = BrotliState::new_strict(allocator(), allocator(), allocator());
        Self { state, rest: payload }
    }

    /// Decodes on to the end of the stream, the input or the output, and tells the bytes written.
    pub(super) fn decode(&mut self, out: &mut [u8]) -> Result<(usize, Status)> {
        self.decode_some(usize::MAX, out)
    }

    /// Whether the input is used up.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The same with so many bytes of the input at most; [`Status::Cut`] says that these are used
    /// up.
    pub(super) fn decode_some(&mut self, input: usize, out: &mut [u8]) -> Result<(usize, Status)> {
        let input = self.rest.get(..input).unwrap_or(self.rest);
        let mut available_in = input.len();
        let mut read = 0;
        let mut available_out = out.len();
        let mut written = 0;
        let mut total = 0;
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut read,
            input,
            &mut available_out,
            &mut written,
            out,
            &mut total,
            &mut self.state,
        );
        self.rest = self.rest.get(read..).unwrap_or_default();
        let status = match result {
            BrotliResult::ResultSuccess => Status::Finished,
            BrotliResult::NeedsMoreInput => Status::Cut,
            BrotliResult::NeedsMoreOutput => Status::Full,
            BrotliResult::ResultFailure => return Err(damaged("the stream is damaged")),
        };
        Ok((written, status))
    }
}

pub(super) fn encode(record: &[u8], quality: i32, lgwin: i32) -> Result<Vec<u8>> {
    let refused = || CodecError::encode(NAME, "the library refused it");
    let mut encoder = BrotliEncoderStateStruct::new(StandardAlloc::default());
    encoder.params.quality = quality;
    encoder.params.lgwin = lgwin;
    encoder.params.size_hint = record.len();
    let mut payload = vec![0; record.len().div_ceil(2).saturating_add(64)];
    let mut available_in = record.len();
    let (mut read, mut written) = (0, 0);
    loop {
        let mut available_out = payload.len().saturating_sub(written);
        let sound = encoder.compress_stream(
            BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
            &mut available_in,
            record,
            &mut read,
            &mut available_out,
            &mut payload,
            &mut written,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !sound {
            return Err(refused());
        }
        if encoder.is_finished() {
            break;
        }
        if available_out != 0 {
            return Err(refused());
        }
        payload.resize(payload.len().saturating_mul(2), 0);
    }
    payload.truncate(written);
    payload.shrink_to_fit();
    Ok(payload)
}
