//! The contract of codecs whose records are plain bytes.

use serde_json::{Map, Value};

use crate::codec::{copy_exactly, output_size, u64_len};
use crate::{CodecError, Limits, Result};

/// Parameters of a codec: a JSON object, as a header stores it under `codec_params`.
pub type Parameters = Map<String, Value>;

/// A codec whose records are plain bytes.
///
/// One value serves any number of threads at once, so state that encoding or decoding needs
/// (contexts, scratch memory) is kept per thread or per call. Decoding may never depend on the
/// parameters that a record was encoded with beyond what [`ByteCodec::parameters`] hands on.
///
/// Implementers of decoders get bytes that nobody has checked: a payload that is cut, altered or
/// empty is an error, never a panic, and nothing may be allocated past the [`Limits`].
///
/// ```
/// use iac_codec::{ByteCodec, Codec, CodecError, Limits, Parameters};
///
/// /// Stores every byte inverted.
/// struct Inverted;
///
/// impl ByteCodec for Inverted {
///     fn name(&self) -> &str {
///         "example.inverted"
///     }
///
///     fn parameters(&self) -> Parameters {
///         Parameters::new()
///     }
///
///     fn encode(&self, record: &[u8]) -> Result<Vec<u8>, CodecError> {
///         Ok(record.iter().map(|byte| !byte).collect())
///     }
///
///     fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>, CodecError> {
///         limits.check_decoded_bytes(payload.len() as u64)?;
///         self.encode(payload)
///     }
/// }
///
/// # fn main() -> Result<(), CodecError> {
/// let codec = Codec::from_byte_codec(Inverted);
/// let payload = codec.encode_bytes(b"abc")?;
/// assert_eq!(codec.decode_bytes(&payload, &Limits::default())?, b"abc");
/// # Ok(())
/// # }
/// ```
pub trait ByteCodec: Send + Sync {
    /// The name that a header stores under `codec`.
    fn name(&self) -> &str;

    /// The parameters that a header stores under `codec_params`; a codec made from them is equal
    /// to this one.
    fn parameters(&self) -> Parameters;

    /// Encodes one record.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] when the parameters serve reading only, [`CodecError::Encode`]
    /// when this record cannot be encoded.
    fn encode(&self, record: &[u8]) -> Result<Vec<u8>>;

    /// Decodes one record.
    ///
    /// # Errors
    ///
    /// [`CodecError::Decode`] for a payload that is no sound stream of this codec,
    /// [`CodecError::Limit`] for one that decodes to more than the limits allow.
    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>>;

    /// The size that the payload claims to decode to, where it says so without being decoded.
    ///
    /// The claim is not checked: a payload may lie, so callers test it against their limits
    /// before they allocate, and [`ByteCodec::decode_into`] tests it against the truth.
    ///
    /// # Errors
    ///
    /// [`CodecError::Decode`] when the part of the payload that holds the size is damaged.
    fn decoded_len(&self, payload: &[u8]) -> Result<Option<u64>> {
        let _ = payload;
        Ok(None)
    }

    /// Decodes one record into a buffer that it must fill exactly.
    ///
    /// The buffer's contents are unspecified after an error. The provided implementation
    /// decodes into memory of its own and copies.
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::decode`], and [`CodecError::OutputSize`] when the record has
    /// another size than the buffer.
    fn decode_into(&self, payload: &[u8], out: &mut [u8], limits: &Limits) -> Result<()> {
        // More than the buffer holds is an error anyway, so nothing larger need be allocated
        // for it; one byte past it keeps "too large for the buffer" apart from "over the limit".
        let room = u64_len(out.len()).saturating_add(1);
        let bound = limits.with_max_decoded_bytes(limits.max_decoded_bytes.min(room));
        let record = match self.decode(payload, &bound) {
            Err(CodecError::Limit { what: _, found, allowed })
                if allowed == room && room < limits.max_decoded_bytes =>
            {
                return Err(output_size(self.name(), out.len(), found));
            }
            other => other?,
        };
        copy_exactly(self.name(), &record, out)
    }

    /// Decodes one record behind what a buffer already holds, so that many records can share one.
    ///
    /// After an error the buffer holds what it held before. The provided implementation decodes
    /// into memory of its own and copies.
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::decode`].
    fn decode_append(&self, payload: &[u8], out: &mut Vec<u8>, limits: &Limits) -> Result<()> {
        let record = self.decode(payload, limits)?;
        limits.check_decoded_bytes(u64_len(record.len()))?;
        out.extend_from_slice(&record);
        Ok(())
    }

    /// Decodes the beginning of one record: as much as `wanted` asks for, or somewhat more.
    ///
    /// `wanted` is shown what is decoded so far and answers how many bytes it needs in all, which
    /// may grow as it sees more. Less comes back only where the record ends. What lies behind is
    /// not looked at, so it may be damaged. The provided implementation decodes everything.
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::decode`], as far as the payload is decoded.
    fn decode_prefix(
        &self,
        payload: &[u8],
        wanted: &mut dyn FnMut(&[u8]) -> usize,
        limits: &Limits,
    ) -> Result<Vec<u8>> {
        let _ = wanted;
        self.decode(payload, limits)
    }

    /// Whether payload and record are the same bytes, so that callers may skip decoding.
    fn is_identity(&self) -> bool {
        false
    }

    /// Whether the parameters allow encoding; those that serve reading only may not.
    ///
    /// [`ByteCodec::encode`] fails in the same way; this tells before the first record.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] for a parameter that is unknown, or has a wrong type or value.
    fn check_encode(&self) -> Result<()> {
        Ok(())
    }

    /// Names that a header must list under `required_extensions` for records of this codec with
    /// these parameters.
    fn required_extensions(&self) -> &[&str] {
        &[]
    }
}
