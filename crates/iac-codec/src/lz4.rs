//! The codec `lz4`: fast, in pure Rust, for packs that only this implementation has to read.
//!
//! A payload is the size of the record (four bytes, little-endian), then one raw LZ4 block that
//! decodes to exactly that size; an empty record is the size alone. Other implementations of the
//! format do not know this codec, so a pack must name [`EXTENSION`] under `required_extensions`.
//! There are no parameters.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::codec::{output_size, u64_len};
use crate::params::ParameterReader;
use crate::{ByteCodec, Codec, CodecError, Limits, Parameters, Result};

const NAME: &str = "lz4";

/// What `required_extensions` of a pack with such records names.
pub const EXTENSION: &str = "iac.codec.lz4";

/// Bytes that a record may have.
pub const MAX_RECORD_BYTES: u32 = 0x7FFF_FFFF;

const SIZE_BYTES: usize = 4;

/// A length is written in steps of 255, so a byte of a block stands for at most that many.
const MAX_EXPANSION: u64 = 255;

/// The codec `lz4`.
///
/// ```
/// use iac_codec::{Limits, lz4};
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let codec = lz4::codec();
/// let payload = codec.encode_bytes(&[7; 1000])?;
/// assert!(payload.len() < 100);
/// assert_eq!(codec.decode_bytes(&payload, &Limits::default())?, [7; 1000]);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn codec() -> Codec {
    Codec::from_byte_codec(Lz4 { problem: None })
}

pub(crate) fn from_parameters(parameters: &Parameters) -> Result<Codec> {
    let problem = ParameterReader::new(NAME, parameters).finish(&[]);
    Ok(Codec::from_byte_codec(Lz4 { problem }))
}

struct Lz4 {
    problem: Option<CodecError>,
}

impl Lz4 {
    /// The size that the payload claims, tested against what its block can stand for at most.
    fn split(payload: &[u8]) -> Result<(usize, &[u8])> {
        let Some((size, block)) = payload.split_first_chunk::<SIZE_BYTES>() else {
            return Err(damaged(format!(
                "the payload has {} bytes, fewer than the 4 of its size",
                payload.len()
            )));
        };
        let size = u32::from_le_bytes(*size);
        if size > MAX_RECORD_BYTES {
            return Err(damaged(format!(
                "it claims {size} decoded bytes, above the {MAX_RECORD_BYTES} that are allowed"
            )));
        }
        if size == 0 && !block.is_empty() {
            return Err(damaged(format!("{} bytes follow an empty record", block.len())));
        }
        let most = u64_len(block.len()).saturating_mul(MAX_EXPANSION);
        if u64::from(size) > most {
            return Err(damaged(format!(
                "it claims {size} decoded bytes, but a block of {} bytes has {most} at most",
                block.len()
            )));
        }
        let size = usize::try_from(size)
            .map_err(|_| damaged(format!("it claims {size} decoded bytes, too many to address")))?;
        Ok((size, block))
    }

    fn decode_block(block: &[u8], out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let written = decompress_into(block, out).map_err(|error| CodecError::Decode {
            name: NAME.to_owned(),
            reason: "the block is damaged or has another size than it claims".to_owned(),
            source: Some(std::sync::Arc::new(error)),
        })?;
        if written != out.len() {
            return Err(damaged(format!(
                "it claims {} decoded bytes, but has {written}",
                out.len()
            )));
        }
        Ok(())
    }
}

impl ByteCodec for Lz4 {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
        self.check_encode()?;
        let size = u32::try_from(record.len()).ok().filter(|size| *size <= MAX_RECORD_BYTES);
        let Some(size) = size else {
            return Err(CodecError::encode(
                NAME,
                format!("it has {} bytes, above the {MAX_RECORD_BYTES} allowed", record.len()),
            ));
        };
        let mut payload = size.to_le_bytes().to_vec();
        if record.is_empty() {
            return Ok(payload);
        }
        let room = SIZE_BYTES.saturating_add(get_maximum_output_size(record.len()));
        payload.resize(room, 0);
        let block = payload.get_mut(SIZE_BYTES..).unwrap_or_default();
        let written = compress_into(record, block).map_err(|error| CodecError::Encode {
            name: NAME.to_owned(),
            reason: "the library refused it".to_owned(),
            source: Some(std::sync::Arc::new(error)),
        })?;
        payload.truncate(SIZE_BYTES.saturating_add(written));
        payload.shrink_to_fit();
        Ok(payload)
    }

    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        self.decode_append(payload, &mut record, limits)?;
        Ok(record)
    }

    fn decoded_len(&self, payload: &[u8]) -> Result<Option<u64>> {
        Ok(Some(u64_len(Self::split(payload)?.0)))
    }

    fn decode_into(&self, payload: &[u8], out: &mut [u8], limits: &Limits) -> Result<()> {
        let (size, block) = Self::split(payload)?;
        limits.check_decoded_bytes(u64_len(size))?;
        if size != out.len() {
            return Err(output_size(NAME, out.len(), u64_len(size)));
        }
        Self::decode_block(block, out)
    }

    fn decode_append(&self, payload: &[u8], out: &mut Vec<u8>, limits: &Limits) -> Result<()> {
        let (size, block) = Self::split(payload)?;
        limits.check_decoded_bytes(u64_len(size))?;
        let before = out.len();
        out.resize(before.saturating_add(size), 0);
        let decoded = Self::decode_block(block, out.get_mut(before..).unwrap_or_default());
        if decoded.is_err() {
            out.truncate(before);
        }
        decoded
    }

    fn check_encode(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), Err)
    }

    fn required_extensions(&self) -> &[&str] {
        &[EXTENSION]
    }
}

fn damaged(reason: String) -> CodecError {
    CodecError::decode(NAME, reason)
}
