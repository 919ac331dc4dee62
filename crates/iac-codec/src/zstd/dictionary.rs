//! Trained dictionaries.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zstd_safe::{CDict, DDict};

use super::{NAME, backend_reason};
use crate::{CodecError, Result};

/// Bytes that a dictionary may have.
pub const MAX_DICTIONARY_BYTES: usize = 32 << 10;

/// A dictionary, ready for decoding by any number of threads.
pub(super) struct Dictionary {
    bytes: Vec<u8>,
    id: NonZeroU32,
    decoder: DDict<'static>,
    /// Made when the first record is encoded, as it costs more memory and depends on the level.
    encoder: OnceLock<Option<CDict<'static>>>,
}

impl Dictionary {
    /// Takes a trained dictionary; the error says what is wrong with it.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() > MAX_DICTIONARY_BYTES {
            return Err(format!(
                "has {} bytes, above the {MAX_DICTIONARY_BYTES} that are allowed",
                bytes.len()
            ));
        }
        // Also refuses what has no dictionary's header: such bytes would count as raw content
        // with the id 0, which no frame can name.
        let Some(id) = zstd_safe::get_dict_id_from_dict(&bytes) else {
            return Err("is no trained dictionary with an id other than 0".to_owned());
        };
        let Some(decoder) = DDict::try_create(&bytes) else {
            return Err("is damaged".to_owned());
        };
        Ok(Self { bytes, id, decoder, encoder: OnceLock::new() })
    }

    /// Takes what a header stores.
    pub(super) fn from_base64(text: &str) -> Result<Self, String> {
        // Four characters stand for three bytes; decoding more would only be thrown away.
        let most = MAX_DICTIONARY_BYTES.div_ceil(3).saturating_mul(4);
        if text.len() > most {
            return Err(format!(
                "has {} characters of base64, above the {most} that are allowed",
                text.len()
            ));
        }
        let bytes = STANDARD.decode(text).map_err(|error| format!("is no base64: {error}"))?;
        Self::new(bytes)
    }

    pub(super) fn to_base64(&self) -> String {
        STANDARD.encode(&self.bytes)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn id(&self) -> u32 {
        self.id.get()
    }

    pub(super) fn decoder(&self) -> &DDict<'static> {
        &self.decoder
    }

    /// The dictionary for encoding at a level, which must be the same in every call.
    pub(super) fn encoder(&self, level: i32) -> Result<&CDict<'static>> {
        let encoder = self.encoder.get_or_init(|| CDict::try_create(&self.bytes, level));
        encoder
            .as_ref()
            .ok_or_else(|| CodecError::encode(NAME, "its dictionary cannot be prepared"))
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("id", &self.id())
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// Trains a dictionary on records like those that are to be encoded.
///
/// It pays off for many short records that resemble each other, such as notes. Some hundred
/// records serve, a few thousand are better; together they should have about a hundred times the
/// bytes of the dictionary. The result has at most `max_bytes`, of which a pack stores up to
/// [`MAX_DICTIONARY_BYTES`] in its header.
///
/// ```
/// use iac_codec::zstd::{ZstdOptions, train_dictionary};
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let notes: Vec<String> = (0..500)
///     .map(|n| format!("Case {n}: specimen received in formalin, {} mm, benign.", n % 37))
///     .collect();
/// let dictionary = train_dictionary(&notes, 4096)?;
/// let codec = ZstdOptions::new(3).with_dictionary(dictionary).codec()?;
/// assert_eq!(codec.required_extensions(), ["iac.zstd.dictionary"]);
/// let payload = codec.encode_bytes(notes[7].as_bytes())?;
/// assert!(payload.len() < notes[7].len());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`CodecError::Parameter`] when `max_bytes` is above [`MAX_DICTIONARY_BYTES`] or when the
/// samples are too few or too much alike to train on.
pub fn train_dictionary<S: AsRef<[u8]>>(
    samples: impl IntoIterator<Item = S>,
    max_bytes: usize,
) -> Result<Vec<u8>> {
    let complain = |reason: String| CodecError::parameter(NAME, "dictionary", reason);
    if max_bytes > MAX_DICTIONARY_BYTES {
        return Err(complain(format!(
            "of {max_bytes} bytes is above the {MAX_DICTIONARY_BYTES} that are allowed"
        )));
    }
    let mut buffer = Vec::new();
    let mut sizes = Vec::new();
    for sample in samples {
        buffer.extend_from_slice(sample.as_ref());
        sizes.push(sample.as_ref().len());
    }
    // The library counts samples in 32 bits.
    if sizes.is_empty() || u32::try_from(sizes.len()).is_err() {
        return Err(complain(format!("cannot be trained on {} samples", sizes.len())));
    }
    let mut dictionary = Vec::with_capacity(max_bytes);
    zstd_safe::train_from_buffer(&mut dictionary, &buffer, &sizes).map_err(|code| {
        complain(format!(
            "cannot be trained on {} samples with {} bytes in all: {}",
            sizes.len(),
            buffer.len(),
            backend_reason(code)
        ))
    })?;
    Ok(dictionary)
}
