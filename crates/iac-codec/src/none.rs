//! The codec `none`.

use crate::codec::{copy_exactly, u64_len};
use crate::{ByteCodec, Limits, Parameters, Result};

/// Payload and record are the same bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoneCodec;

pub(crate) const NAME: &str = "none";

impl ByteCodec for NoneCodec {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
        Ok(record.to_vec())
    }

    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        limits.check_decoded_bytes(u64_len(payload.len()))?;
        Ok(payload.to_vec())
    }

    fn decoded_len(&self, payload: &[u8]) -> Result<Option<u64>> {
        Ok(Some(u64_len(payload.len())))
    }

    fn decode_into(&self, payload: &[u8], out: &mut [u8], limits: &Limits) -> Result<()> {
        limits.check_decoded_bytes(u64_len(payload.len()))?;
        copy_exactly(NAME, payload, out)
    }

    fn decode_append(&self, payload: &[u8], out: &mut Vec<u8>, limits: &Limits) -> Result<()> {
        limits.check_decoded_bytes(u64_len(payload.len()))?;
        out.extend_from_slice(payload);
        Ok(())
    }

    fn decode_prefix(
        &self,
        payload: &[u8],
        wanted: &mut dyn FnMut(&[u8]) -> usize,
        limits: &Limits,
    ) -> Result<Vec<u8>> {
        let mut start: &[u8] = &[];
        loop {
            let end = wanted(start).min(payload.len());
            if end <= start.len() {
                break;
            }
            start = payload.get(..end).unwrap_or_default();
        }
        self.decode(start, limits)
    }

    fn is_identity(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::{Codec, CodecError, Limits};

    #[test]
    fn records_come_back_as_they_are() {
        let codec = Codec::none();
        assert!(codec.is_identity());
        assert!(codec.parameters().is_empty());
        for record in [&b""[..], b"a", &[0, 255, 128]] {
            let payload = codec.encode_bytes(record).unwrap();
            assert_eq!(payload, record);
            assert_eq!(codec.decode_bytes(&payload, &Limits::default()).unwrap(), record);
            let len = codec.decoded_len(&payload).unwrap().unwrap();
            let mut out = vec![1; usize::try_from(len).unwrap()];
            codec.decode_bytes_into(&payload, &mut out, &Limits::default()).unwrap();
            assert_eq!(out, record);
        }
    }

    #[test]
    fn limit_and_buffer_size_are_kept() {
        let codec = Codec::none();
        let limits = Limits::default().with_max_decoded_bytes(2);
        assert!(codec.decode_bytes(b"ab", &limits).is_ok());
        assert!(matches!(
            codec.decode_bytes(b"abc", &limits),
            Err(CodecError::Limit { found: 3, allowed: 2, .. })
        ));
        assert!(matches!(
            codec.decode_bytes_into(b"ab", &mut [0; 1], &limits),
            Err(CodecError::OutputSize { expected: 1, found: 2, .. })
        ));
    }
}
