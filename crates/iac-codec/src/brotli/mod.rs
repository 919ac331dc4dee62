//! The codec `brotli`: one raw Brotli stream (RFC 7932) per record.
//!
//! Reading stops at the end of the stream and ignores what follows, as every reader of the format
//! does. Streams with a "large window" are not part of RFC 7932 and are refused. Nothing in a
//! stream tells its decoded size, so memory grows as it is decoded.
//!
//! Parameters: `quality`, 0 to 11, 11 unless given; `lgwin`, the logarithm of the window's size,
//! 10 to 24, 24 unless given.
//!
//! Two backends encode: pure Rust (feature `brotli`), and the C library (feature `brotli-c`), which is
//! used when it is compiled in. Decoding is done in Rust always, which is as fast. The C library's
//! decoder, in its releases up to the one that can be had as a crate, is not safe: where the only kind
//! of block runs out, it takes that for missing input, and loops for ever or writes past the end of a
//! buffer.

#[cfg(feature = "brotli-c")]
mod c;
mod pure;

use pure::Decoder;

use crate::codec::{output_size, u64_len};
use crate::params::ParameterReader;
use crate::scratch::{SCRATCH_BYTES, with_scratch};
use crate::{ByteCodec, Codec, CodecError, Limits, Parameters, Result};

const NAME: &str = "brotli";
const QUALITY: &str = "quality";
const LGWIN: &str = "lgwin";

/// The quality of packs that name none.
pub const DEFAULT_QUALITY: u8 = 11;

/// The logarithm of the window's size in packs that name none.
pub const DEFAULT_LGWIN: u8 = 24;

/// The library that encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrotliBackend {
    /// The crate `brotli`.
    PureRust,
    /// Google's library in C.
    #[cfg(feature = "brotli-c")]
    C,
}

impl BrotliBackend {
    /// The faster one of those that are compiled in.
    #[must_use]
    pub const fn preferred() -> Self {
        #[cfg(feature = "brotli-c")]
        return Self::C;
        #[cfg(not(feature = "brotli-c"))]
        return Self::PureRust;
    }
}

/// How records are encoded.
///
/// ```
/// use iac_codec::{Limits, brotli::BrotliOptions};
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let codec = BrotliOptions::default().with_quality(5).codec()?;
/// let payload = codec.encode_bytes(b"a record, a record, a record, a record")?;
/// let record = codec.decode_bytes(&payload, &Limits::default())?;
/// assert_eq!(record, b"a record, a record, a record, a record");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrotliOptions {
    quality: u8,
    lgwin: u8,
    backend: BrotliBackend,
}

impl BrotliOptions {
    /// From 0 (fast) to 11 (small); default [`DEFAULT_QUALITY`].
    #[must_use]
    pub const fn with_quality(mut self, quality: u8) -> Self {
        self.quality = quality;
        self
    }

    /// Logarithm of the window's size, from 10 to 24; default [`DEFAULT_LGWIN`].
    #[must_use]
    pub const fn with_lgwin(mut self, lgwin: u8) -> Self {
        self.lgwin = lgwin;
        self
    }

    /// The library that encodes; default [`BrotliBackend::preferred`].
    #[must_use]
    pub const fn with_backend(mut self, backend: BrotliBackend) -> Self {
        self.backend = backend;
        self
    }

    /// The codec.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] when a parameter is out of its range.
    pub fn codec(self) -> Result<Codec> {
        let mut parameters = Parameters::new();
        parameters.insert(QUALITY.to_owned(), self.quality.into());
        parameters.insert(LGWIN.to_owned(), self.lgwin.into());
        let codec = Brotli { backend: self.backend, ..Brotli::new(&parameters)? };
        Ok(Codec::from_byte_codec(codec))
    }
}

impl Default for BrotliOptions {
    fn default() -> Self {
        Self { quality: DEFAULT_QUALITY, lgwin: DEFAULT_LGWIN, backend: BrotliBackend::preferred() }
    }
}

pub(crate) fn from_parameters(parameters: &Parameters) -> Result<Codec> {
    Brotli::new(parameters).map(Codec::from_byte_codec)
}

#[derive(Debug)]
struct Brotli {
    quality: i32,
    lgwin: i32,
    backend: BrotliBackend,
    /// What makes the parameters unfit for encoding.
    problem: Option<CodecError>,
}

/// Where a decoder stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Finished,
    /// The output is full; there may be more, or only the end of the stream.
    Full,
    /// The input ends before the stream does.
    Cut,
}

impl Brotli {
    fn new(parameters: &Parameters) -> Result<Self> {
        let mut reader = ParameterReader::new(NAME, parameters);
        let quality = reader.integer(QUALITY, DEFAULT_QUALITY.into(), 0..=11)?;
        let lgwin = reader.integer(LGWIN, DEFAULT_LGWIN.into(), 10..=24)?;
        let problem = reader.finish(&[LGWIN, QUALITY]);
        Ok(Self { quality, lgwin, backend: BrotliBackend::preferred(), problem })
    }
}

fn stream(payload: &[u8]) -> Result<Decoder<'_>> {
    if payload.is_empty() {
        return Err(damaged("the payload is empty"));
    }
    Ok(Decoder::new(payload))
}

/// Whether a stream ends here, its output being full.
fn ends_here(stream: &mut Decoder<'_>) -> Result<bool> {
    match stream.decode(&mut [0])? {
        (0, Status::Finished) => Ok(true),
        (0, Status::Cut) => Err(cut()),
        _ => Ok(false),
    }
}

fn append(stream: &mut Decoder<'_>, out: &mut Vec<u8>, limits: &Limits) -> Result<()> {
    let most = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX);
    let over = || limits.check_decoded_bytes(limits.max_decoded_bytes.saturating_add(1));
    let first = most.min(SCRATCH_BYTES);
    let status = with_scratch(|scratch| {
        let room = scratch.get_mut(..first).unwrap_or_default();
        let (written, status) = stream.decode(room)?;
        out.extend_from_slice(room.get(..written).unwrap_or_default());
        Ok(status)
    });
    let mut status = status?;
    let mut decoded = first;
    loop {
        match status {
            Status::Finished => return Ok(()),
            Status::Cut => return Err(cut()),
            Status::Full if decoded >= most => {
                return if ends_here(stream)? { Ok(()) } else { over() };
            }
            Status::Full => {}
        }
        let more = decoded.min(most.saturating_sub(decoded));
        let before = out.len();
        out.try_reserve_exact(more)
            .map_err(|_| damaged(&format!("no memory for {more} more decoded bytes")))?;
        out.resize(before.saturating_add(more), 0);
        let result = stream.decode(out.get_mut(before..).unwrap_or_default());
        let written = result.as_ref().map_or(0, |(written, _)| *written);
        out.truncate(before.saturating_add(written));
        status = result?.1;
        decoded = decoded.saturating_add(more);
    }
}

/// Input that is decoded before somebody is asked whether that is enough. A decoder hands out what
/// it has when its input ends, and not before its window is full otherwise.
const PREFIX_STEP: usize = 1 << 10;
/// Most room that is made at once, whatever is wanted.
const PREFIX_ROOM: usize = 64 << 10;

fn prefix(
    stream: &mut Decoder<'_>,
    wanted: &mut dyn FnMut(&[u8]) -> usize,
    limits: &Limits,
) -> Result<Vec<u8>> {
    // One byte more shows that there is more.
    let most = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX).saturating_add(1);
    let mut out = Vec::new();
    let mut ended = false;
    loop {
        let filled = out.len();
        let missing = wanted(&out).saturating_sub(filled);
        if ended || missing == 0 {
            limits.check_decoded_bytes(u64_len(filled))?;
            return Ok(out);
        }
        if filled >= most {
            limits.check_decoded_bytes(u64_len(filled))?;
        }
        let room =
            missing.clamp(PREFIX_STEP, PREFIX_ROOM.max(filled)).min(most.saturating_sub(filled));
        out.try_reserve(room)
            .map_err(|_| damaged(&format!("no memory for {room} more decoded bytes")))?;
        out.resize(filled.saturating_add(room), 0);
        let step = stream.decode_some(PREFIX_STEP, out.get_mut(filled..).unwrap_or_default());
        let (written, status) = step?;
        out.truncate(filled.saturating_add(written));
        match status {
            Status::Finished => ended = true,
            Status::Cut if stream.is_at_end() => return Err(cut()),
            Status::Cut | Status::Full => {}
        }
    }
}

impl ByteCodec for Brotli {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::new();
        parameters.insert(LGWIN.to_owned(), self.lgwin.into());
        parameters.insert(QUALITY.to_owned(), self.quality.into());
        parameters
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
        self.check_encode()?;
        match self.backend {
            BrotliBackend::PureRust => pure::encode(record, self.quality, self.lgwin),
            #[cfg(feature = "brotli-c")]
            BrotliBackend::C => c::encode(record, self.quality, self.lgwin),
        }
    }

    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        self.decode_append(payload, &mut record, limits)?;
        record.shrink_to_fit();
        Ok(record)
    }

    fn decode_into(&self, payload: &[u8], out: &mut [u8], limits: &Limits) -> Result<()> {
        limits.check_decoded_bytes(u64_len(out.len()))?;
        let room = out.len();
        let mut stream = stream(payload)?;
        match stream.decode(out)? {
            (written, Status::Finished) if written == room => Ok(()),
            (written, Status::Finished) => Err(output_size(NAME, room, u64_len(written))),
            (_, Status::Cut) => Err(cut()),
            (_, Status::Full) if ends_here(&mut stream)? => Ok(()),
            (_, Status::Full) => Err(output_size(NAME, room, u64_len(room).saturating_add(1))),
        }
    }

    fn decode_append(&self, payload: &[u8], out: &mut Vec<u8>, limits: &Limits) -> Result<()> {
        let before = out.len();
        let decoded = stream(payload).and_then(|mut stream| append(&mut stream, out, limits));
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
        prefix(&mut stream(payload)?, wanted, limits)
    }

    fn check_encode(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), Err)
    }
}

fn damaged(reason: &str) -> CodecError {
    CodecError::decode(NAME, reason)
}

fn cut() -> CodecError {
    damaged("the stream is cut")
}
