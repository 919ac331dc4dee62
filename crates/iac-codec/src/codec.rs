//! The contract of a codec, and the handle that readers and writers hold.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::none::NoneCodec;
use crate::{CodecError, CodecSpec, Limits, Result};

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

    /// Whether payload and record are the same bytes, so that callers may skip decoding.
    fn is_identity(&self) -> bool {
        false
    }
}

/// What the records of a codec are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodecKind {
    /// Plain bytes.
    Bytes,
}

/// A codec with its parameters, ready to use.
///
/// Clones share one codec and cost a reference count.
///
/// The handle also watches over codecs from elsewhere: whatever a [`ByteCodec`] returns is
/// tested against the limits once more.
#[derive(Clone)]
pub struct Codec {
    inner: Inner,
}

// Image codecs become a second variant; callers see it through `kind` and a second accessor.
#[derive(Clone)]
enum Inner {
    Bytes(Arc<dyn ByteCodec>),
}

impl Codec {
    /// Wraps a byte codec.
    pub fn from_byte_codec(codec: impl ByteCodec + 'static) -> Self {
        Self { inner: Inner::Bytes(Arc::new(codec)) }
    }

    /// The codec `none`: payload and record are the same bytes.
    #[must_use]
    pub fn none() -> Self {
        Self::from_byte_codec(NoneCodec)
    }

    /// The name that a header stores under `codec`.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.inner {
            Inner::Bytes(codec) => codec.name(),
        }
    }

    /// The parameters that a header stores under `codec_params`.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        match &self.inner {
            Inner::Bytes(codec) => codec.parameters(),
        }
    }

    /// Name and parameters, as a header stores them.
    #[must_use]
    pub fn spec(&self) -> CodecSpec {
        CodecSpec::new(self.name(), self.parameters())
    }

    /// What this codec's records are.
    #[must_use]
    pub const fn kind(&self) -> CodecKind {
        match &self.inner {
            Inner::Bytes(_) => CodecKind::Bytes,
        }
    }

    /// The byte codec behind the handle, if its records are bytes.
    #[must_use]
    pub fn as_byte_codec(&self) -> Option<&dyn ByteCodec> {
        match &self.inner {
            Inner::Bytes(codec) => Some(&**codec),
        }
    }

    /// Whether payload and record are the same bytes, so that callers may skip decoding.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        match &self.inner {
            Inner::Bytes(codec) => codec.is_identity(),
        }
    }

    /// Encodes one record of bytes.
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::encode`]; [`CodecError::Unsupported`] when this codec's records are
    /// not bytes.
    pub fn encode_bytes(&self, record: &[u8]) -> Result<Vec<u8>> {
        self.byte_codec()?.encode(record)
    }

    /// Decodes one record to bytes.
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::decode`]; [`CodecError::Unsupported`] when this codec's records are
    /// not bytes.
    pub fn decode_bytes(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        let record = self.byte_codec()?.decode(payload, limits)?;
        limits.check_decoded_bytes(u64_len(record.len()))?;
        Ok(record)
    }

    /// The size that a payload claims to decode to, where it says so without being decoded.
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::decoded_len`]; [`CodecError::Unsupported`] when this codec's records
    /// are not bytes.
    pub fn decoded_len(&self, payload: &[u8]) -> Result<Option<u64>> {
        self.byte_codec()?.decoded_len(payload)
    }

    /// Decodes one record of bytes into a buffer that it must fill exactly.
    ///
    /// The buffer's contents are unspecified after an error.
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::decode_into`]; [`CodecError::Unsupported`] when this codec's records
    /// are not bytes.
    pub fn decode_bytes_into(&self, payload: &[u8], out: &mut [u8], limits: &Limits) -> Result<()> {
        limits.check_decoded_bytes(u64_len(out.len()))?;
        self.byte_codec()?.decode_into(payload, out, limits)
    }

    fn byte_codec(&self) -> Result<&dyn ByteCodec> {
        self.as_byte_codec().ok_or_else(|| CodecError::Unsupported {
            name: self.name().to_owned(),
            reason: "its records are not bytes".to_owned(),
        })
    }
}

impl Default for Codec {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("name", &self.name())
            .field("parameters", &self.parameters())
            .finish()
    }
}

/// A length in memory as the number that errors and limits use.
pub(crate) fn u64_len(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

pub(crate) fn copy_exactly(name: &str, record: &[u8], out: &mut [u8]) -> Result<()> {
    if record.len() != out.len() {
        return Err(output_size(name, out.len(), u64_len(record.len())));
    }
    out.copy_from_slice(record);
    Ok(())
}

fn output_size(name: &str, expected: usize, found: u64) -> CodecError {
    CodecError::OutputSize { name: name.to_owned(), expected: u64_len(expected), found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodecErrorKind;

    /// Repeats the payload's first byte as often as the second says; ignores limits if told to.
    struct Repeat {
        obeys: bool,
    }

    impl ByteCodec for Repeat {
        fn name(&self) -> &str {
            "test.repeat"
        }

        fn parameters(&self) -> Parameters {
            let mut parameters = Parameters::new();
            parameters.insert("obeys".into(), self.obeys.into());
            parameters
        }

        fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
            let count = u8::try_from(record.len())
                .map_err(|_| CodecError::encode(self.name(), "over 255 bytes"))?;
            Ok(vec![record.first().copied().unwrap_or(0), count])
        }

        fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
            let &[byte, count] = payload else {
                return Err(CodecError::decode(self.name(), "not two bytes"));
            };
            if self.obeys {
                limits.check_decoded_bytes(count.into())?;
            }
            Ok(vec![byte; count.into()])
        }
    }

    #[test]
    fn handle_is_cheap_to_clone_and_crosses_threads() {
        fn assert_shared<T: Send + Sync + Clone + 'static>() {}
        assert_shared::<Codec>();
        let codec = Codec::from_byte_codec(Repeat { obeys: true });
        let clone = codec.clone();
        let payload =
            std::thread::spawn(move || clone.encode_bytes(b"xxx").unwrap()).join().unwrap();
        assert_eq!(codec.decode_bytes(&payload, &Limits::default()).unwrap(), b"xxx");
        assert_eq!(codec.kind(), CodecKind::Bytes);
        assert!(!codec.is_identity());
        assert!(format!("{codec:?}").contains("test.repeat"));
    }

    #[test]
    fn output_of_a_codec_that_ignores_limits_is_still_refused() {
        let limits = Limits::default().with_max_decoded_bytes(10);
        for obeys in [true, false] {
            let codec = Codec::from_byte_codec(Repeat { obeys });
            let error = codec.decode_bytes(&[7, 11], &limits).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Limit);
        }
    }

    #[test]
    fn decode_into_wants_exactly_the_size_of_the_record() {
        for obeys in [true, false] {
            let codec = Codec::from_byte_codec(Repeat { obeys });
            let mut out = [0; 4];
            let limits = Limits::default();
            codec.decode_bytes_into(&[9, 4], &mut out, &limits).unwrap();
            assert_eq!(out, [9; 4]);
            for count in [3, 5, 200] {
                let error = codec.decode_bytes_into(&[9, count], &mut out, &limits).unwrap_err();
                assert!(matches!(&error, CodecError::OutputSize { expected: 4, .. }), "{error}");
                assert_eq!(error.kind(), CodecErrorKind::Decode);
            }
            let tight = limits.with_max_decoded_bytes(3);
            let error = codec.decode_bytes_into(&[9, 4], &mut out, &tight).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Limit);
        }
    }

    #[test]
    fn spec_holds_name_and_parameters() {
        let codec = Codec::from_byte_codec(Repeat { obeys: true });
        let spec = codec.spec();
        assert_eq!(spec.name(), "test.repeat");
        assert_eq!(spec.parameters().unwrap(), &codec.parameters());
    }
}
