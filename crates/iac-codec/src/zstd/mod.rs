//! The codec `zstd`: Zstandard frames, with or without a trained dictionary.
//!
//! A payload is one frame or several, skippable ones among them; the record is what they decode
//! to, joined. Written is always one frame that names the size of its content, so that reading
//! needs one allocation of the right size. Frames without that size, as other writers of the
//! format make them, are read as well.
//!
//! Parameters: `level`, any 32-bit integer, 19 unless given; the library clamps it. `dictionary`,
//! base64 of at most [`MAX_DICTIONARY_BYTES`] bytes with an id other than 0; a pack that uses one
//! must name [`DICTIONARY_EXTENSION`] under `required_extensions`, as other implementations of
//! the format cannot read it.

mod context;
mod dictionary;
mod frame;
mod prefix;

use serde_json::Value;
use zstd_safe::{SafeResult, WriteBuf, zstd_sys::ZSTD_ErrorCode};

pub use dictionary::{MAX_DICTIONARY_BYTES, train_dictionary};

use crate::codec::{output_size, u64_len};
use crate::params::ParameterReader;
use crate::scratch::{SCRATCH_BYTES, with_scratch};
use crate::spec::type_name;
use crate::{ByteCodec, Codec, CodecError, CodecSpec, Limits, Parameters, Result};
use context::{with_compressor, with_decompressor};
use dictionary::Dictionary;
use frame::{Survey, survey};

const NAME: &str = "zstd";
const LEVEL: &str = "level";
const DICTIONARY: &str = "dictionary";

/// The level of packs that name none.
pub const DEFAULT_LEVEL: i32 = 19;

/// What `required_extensions` of a pack names whose records need a dictionary.
pub const DICTIONARY_EXTENSION: &str = "iac.zstd.dictionary";

/// Where content has no known size, memory for it grows by this factor, each time that this much
/// was decoded; so it follows what was decoded, and little is decoded twice.
const GROWTH: usize = 8;

/// Records of which a part is decoded alone when that is enough: those of a few blocks, up to the
/// largest window that is taken without asking.
const STREAMED: (u64, u64) = (256 << 10, 64 << 20);

/// How records are encoded, and how strictly they are read.
///
/// ```
/// use iac_codec::{Limits, zstd::ZstdOptions};
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let codec = ZstdOptions::new(3).codec()?;
/// let payload = codec.encode_bytes(&[b'x'; 5000])?;
/// assert_eq!(codec.decoded_len(&payload)?, Some(5000));
/// assert_eq!(codec.decode_bytes(&payload, &Limits::default())?, [b'x'; 5000]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZstdOptions {
    level: i32,
    dictionary: Option<Vec<u8>>,
    strict: bool,
}

impl ZstdOptions {
    /// A level; default [`DEFAULT_LEVEL`]. The library clamps it to what it has, and takes 0 as
    /// its own default.
    #[must_use]
    pub const fn new(level: i32) -> Self {
        Self { level, dictionary: None, strict: false }
    }

    /// What a header describes, so that a pack can be read as the rest of these options say.
    ///
    /// ```
    /// use iac_codec::{CodecSpec, zstd::ZstdOptions};
    ///
    /// # fn main() -> Result<(), iac_codec::CodecError> {
    /// # let mut header = serde_json::Map::new();
    /// # header.insert("codec".into(), "zstd".into());
    /// let spec = CodecSpec::from_header(&header)?;
    /// let strict = ZstdOptions::from_spec(&spec)?.with_strict(true).codec()?;
    /// # let _ = strict;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CodecError::OtherCodec`] when it describes another codec;
    /// [`CodecError::HeaderParameter`] and [`CodecError::HeaderMember`] as
    /// [`Registry::create`](crate::Registry::create).
    pub fn from_spec(spec: &CodecSpec) -> Result<Self> {
        if spec.name() != NAME {
            return Err(CodecError::OtherCodec {
                expected: spec.name().to_owned(),
                found: NAME.to_owned(),
            });
        }
        let made = Zstd::from_parameters(spec.parameters()?).map_err(CodecError::of_header)?;
        Ok(Self {
            level: made.level,
            dictionary: made.dictionary.map(Dictionary::into_bytes),
            strict: made.strict,
        })
    }

    /// A dictionary made by [`train_dictionary`]; default none.
    #[must_use]
    pub fn with_dictionary(mut self, dictionary: Vec<u8>) -> Self {
        self.dictionary = Some(dictionary);
        self
    }

    /// Whether a payload must be exactly one frame, without any skippable ones; default false.
    ///
    /// This is how to read, so a header does not store it.
    #[must_use]
    pub const fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// The codec.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] when the dictionary is too large, damaged, or none.
    pub fn codec(self) -> Result<Codec> {
        let dictionary = self.dictionary.map(Dictionary::new).transpose();
        let dictionary =
            dictionary.map_err(|reason| CodecError::parameter(NAME, DICTIONARY, reason))?;
        let (level, strict) = (self.level, self.strict);
        Ok(Codec::from_byte_codec(Zstd { level, dictionary, strict, problem: None }))
    }
}

impl Default for ZstdOptions {
    fn default() -> Self {
        Self::new(DEFAULT_LEVEL)
    }
}

pub(crate) fn from_parameters(parameters: &Parameters) -> Result<Codec> {
    Zstd::from_parameters(parameters).map(Codec::from_byte_codec)
}

#[derive(Debug)]
struct Zstd {
    level: i32,
    dictionary: Option<Dictionary>,
    strict: bool,
    /// What makes the parameters unfit for encoding.
    problem: Option<CodecError>,
}

/// Why one call of the library failed.
enum Failure {
    /// The output is larger than the buffer.
    Full,
    Damaged(CodecError),
}

impl Zstd {
    fn from_parameters(parameters: &Parameters) -> Result<Self> {
        let mut reader = ParameterReader::new(NAME, parameters);
        let level = reader.integer(LEVEL, DEFAULT_LEVEL, i32::MIN..=i32::MAX)?;
        let dictionary = match parameters.get(DICTIONARY) {
            None => None,
            // The only parameter without which records cannot be read.
            Some(Value::String(text)) => {
                let dictionary = Dictionary::from_base64(text);
                Some(dictionary.map_err(|reason| CodecError::parameter(NAME, DICTIONARY, reason))?)
            }
            Some(other) => {
                reader.complain(DICTIONARY, format!("{} instead of a text", type_name(other)));
                None
            }
        };
        let problem = reader.finish(&[LEVEL, DICTIONARY]);
        Ok(Self { level, dictionary, strict: false, problem })
    }

    /// Looks over the payload; afterwards its claim about its size is one that can be true.
    fn survey(&self, payload: &[u8]) -> Result<Survey> {
        let survey = survey(payload).map_err(damaged)?;
        if self.strict && (survey.frames != 1 || survey.skippable != 0) {
            return Err(damaged(format!(
                "{} frames and {} skippable ones instead of exactly one frame",
                survey.frames, survey.skippable
            )));
        }
        if let Some(id) = survey.dictionary {
            match self.dictionary.as_ref().map(Dictionary::id) {
                Some(own) if own == id => {}
                Some(own) => {
                    return Err(damaged(format!(
                        "it needs dictionary {id}, but the codec has dictionary {own}"
                    )));
                }
                None => {
                    return Err(damaged(format!(
                        "it needs dictionary {id}, but the codec has none"
                    )));
                }
            }
        }
        match survey.content {
            Some(content) if content > survey.bound => Err(damaged(format!(
                "it claims {content} decoded bytes, but its blocks have {} at most",
                survey.bound
            ))),
            _ => Ok(survey),
        }
    }

    /// Decodes all frames into one buffer.
    fn run<C: WriteBuf + ?Sized>(&self, payload: &[u8], out: &mut C) -> Result<usize, Failure> {
        let result = with_decompressor(|context| match &self.dictionary {
            None => context.decompress(out, payload),
            Some(dictionary) => context.decompress_using_ddict(out, payload, dictionary.decoder()),
        });
        match result {
            Some(Ok(written)) => Ok(written),
            Some(Err(code))
                if zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) =>
            {
                Err(Failure::Full)
            }
            Some(Err(code)) => Err(Failure::Damaged(damaged(backend_reason(code).to_owned()))),
            None => Err(Failure::Damaged(damaged("no memory for the library".to_owned()))),
        }
    }

    /// Decodes what does not tell its size, or not for all of its frames.
    fn decode_unknown(
        &self,
        payload: &[u8],
        bound: u64,
        out: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<()> {
        let most = bound.min(limits.max_decoded_bytes);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let small = with_scratch(|scratch| {
            let room = scratch.get_mut(..most.min(SCRATCH_BYTES)).unwrap_or_default();
            let written = self.run(payload, room)?;
            out.extend_from_slice(room.get(..written).unwrap_or_default());
            Ok(())
        });
        match small {
            Ok(()) => return Ok(()),
            Err(Failure::Damaged(error)) => return Err(error),
            Err(Failure::Full) => {}
        }
        let mut tried = SCRATCH_BYTES;
        let mut room = payload.len().max(SCRATCH_BYTES).saturating_mul(GROWTH);
        while tried < most {
            room = room.min(most);
            let mut record = Vec::new();
            record.try_reserve_exact(room).map_err(|_| no_memory(room))?;
            match self.run(payload, &mut record) {
                Ok(_) if out.is_empty() => {
                    record.shrink_to_fit();
                    *out = record;
                    return Ok(());
                }
                Ok(_) => {
                    out.extend_from_slice(&record);
                    return Ok(());
                }
                Err(Failure::Damaged(error)) => return Err(error),
                Err(Failure::Full) => tried = room,
            }
            room = room.saturating_mul(GROWTH);
        }
        if bound > limits.max_decoded_bytes {
            return limits.check_decoded_bytes(limits.max_decoded_bytes.saturating_add(1));
        }
        Err(damaged("its blocks hold more than their sizes allow".to_owned()))
    }

    /// Decodes what tells its size into a buffer of that size.
    fn decode_claimed<C: WriteBuf + ?Sized>(
        &self,
        payload: &[u8],
        out: &mut C,
        claim: usize,
    ) -> Result<()> {
        match self.run(payload, out) {
            Ok(written) if written == claim => Ok(()),
            Ok(written) => {
                Err(damaged(format!("it claims {claim} decoded bytes, but has {written}")))
            }
            Err(Failure::Full) => {
                Err(damaged(format!("it claims {claim} decoded bytes, but has more")))
            }
            Err(Failure::Damaged(error)) => Err(error),
        }
    }

    fn encode_to<C: WriteBuf + ?Sized>(&self, record: &[u8], out: &mut C) -> Result<usize> {
        let encoder = self.dictionary.as_ref().map(|dictionary| dictionary.encoder(self.level));
        let encoder = encoder.transpose()?;
        let result: Option<SafeResult> = with_compressor(|context| match encoder {
            None => context.compress(out, record, self.level),
            Some(encoder) => context.compress_using_cdict(out, record, encoder),
        });
        match result {
            Some(Ok(written)) => Ok(written),
            Some(Err(code)) => Err(CodecError::encode(NAME, backend_reason(code))),
            None => Err(CodecError::encode(NAME, "no memory for the library")),
        }
    }
}

impl ByteCodec for Zstd {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::new();
        if let Some(dictionary) = &self.dictionary {
            parameters.insert(DICTIONARY.to_owned(), dictionary.to_base64().into());
        }
        parameters.insert(LEVEL.to_owned(), self.level.into());
        parameters
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
        self.check_encode()?;
        let bound = zstd_safe::compress_bound(record.len());
        if bound <= SCRATCH_BYTES {
            return with_scratch(|scratch| {
                let written = self.encode_to(record, scratch)?;
                Ok(scratch.get(..written).unwrap_or_default().to_vec())
            });
        }
        let mut payload = Vec::with_capacity(bound);
        self.encode_to(record, &mut payload)?;
        payload.shrink_to_fit();
        Ok(payload)
    }

    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        let survey = self.survey(payload)?;
        let Some(content) = survey.content else {
            let mut record = Vec::new();
            self.decode_unknown(payload, survey.bound, &mut record, limits)?;
            return Ok(record);
        };
        limits.check_decoded_bytes(content)?;
        let size = usize::try_from(content).map_err(|_| no_memory(usize::MAX))?;
        let mut record = Vec::new();
        record.try_reserve_exact(size).map_err(|_| no_memory(size))?;
        self.decode_claimed(payload, &mut record, size)?;
        Ok(record)
    }

    fn decoded_len(&self, payload: &[u8]) -> Result<Option<u64>> {
        Ok(self.survey(payload)?.content)
    }

    fn decode_into(&self, payload: &[u8], out: &mut [u8], limits: &Limits) -> Result<()> {
        limits.check_decoded_bytes(u64_len(out.len()))?;
        let survey = self.survey(payload)?;
        if let Some(content) = survey.content {
            limits.check_decoded_bytes(content)?;
            if content != u64_len(out.len()) {
                return Err(output_size(NAME, out.len(), content));
            }
            let claim = out.len();
            return self.decode_claimed(payload, out, claim);
        }
        match self.run(payload, out) {
            Ok(written) if written == out.len() => Ok(()),
            Ok(written) => Err(output_size(NAME, out.len(), u64_len(written))),
            Err(Failure::Full) => {
                Err(output_size(NAME, out.len(), u64_len(out.len()).saturating_add(1)))
            }
            Err(Failure::Damaged(error)) => Err(error),
        }
    }

    fn decode_append(&self, payload: &[u8], out: &mut Vec<u8>, limits: &Limits) -> Result<()> {
        let survey = self.survey(payload)?;
        let Some(content) = survey.content else {
            return self.decode_unknown(payload, survey.bound, out, limits);
        };
        limits.check_decoded_bytes(content)?;
        let before = out.len();
        let size = usize::try_from(content).map_err(|_| no_memory(usize::MAX))?;
        out.try_reserve(size).map_err(|_| no_memory(size))?;
        out.resize(before.saturating_add(size), 0);
        let room = out.get_mut(before..).unwrap_or_default();
        let decoded = self.decode_claimed(payload, room, size);
        if decoded.is_err() {
            out.truncate(before);
        }
        decoded
    }

    fn decode_prefix(
        &self,
        payload: &[u8],
        wanted: &mut dyn FnMut(&[u8]) -> usize,
        limits: &Limits,
    ) -> Result<Vec<u8>> {
        let survey = self.survey(payload)?;
        // Streaming keeps a window besides its output: little is gained for short records, and
        // the library refuses it for very long ones.
        match survey.content {
            Some(content) if (STREAMED.0..=STREAMED.1).contains(&content) => {
                let dictionary = self.dictionary.as_ref().map(Dictionary::decoder);
                prefix::prefix(payload, dictionary, wanted, limits)
            }
            _ => self.decode(payload, limits),
        }
    }

    fn check_encode(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), Err)
    }

    fn required_extensions(&self) -> &[&str] {
        if self.dictionary.is_some() { &[DICTIONARY_EXTENSION] } else { &[] }
    }
}

/// The library's own words, as part of a sentence.
fn backend_reason(code: usize) -> String {
    let words = zstd_safe::get_error_name(code);
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

fn damaged(reason: String) -> CodecError {
    CodecError::decode(NAME, reason)
}

fn no_memory(bytes: usize) -> CodecError {
    damaged(format!("no memory for {bytes} decoded bytes"))
}
