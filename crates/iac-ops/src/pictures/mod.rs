//! Images of other programs: PNG, TIFF, JPEG and `.npy` files in, PNG and `.npy` out.
//!
//! What a file is shows in its first bytes, not in its name. Samples are never changed: a file that
//! no [`Image`] can hold as it is, such as one with 32-bit integers, is refused.

mod npy;
mod png_file;
mod tiff_file;

use iac_codec::{CodecError, CodecSpec, DecodeOptions, Image, ImageView, Limits, Registry};
use iac_format::ErrorKind;

use crate::decode::Decoded;

/// Why a file is no image that can be used, or an image cannot be written as a file.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The first bytes are those of no known kind of file.
    #[error("no image that is known here: neither PNG, TIFF, JPEG, .npy nor a codec's own stream")]
    Unknown,
    /// The file breaks the rules of its kind.
    #[error("{kind}: {reason}")]
    Damaged {
        /// The kind of file: `PNG`, `TIFF`, `.npy`.
        kind: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The file is sound, but of a sort that cannot be used, or the image cannot be written so.
    #[error("{kind}: {reason}")]
    Unsupported {
        /// The kind of file: `PNG`, `TIFF`, `.npy`.
        kind: &'static str,
        /// What is not supported.
        reason: String,
    },
    /// A codec's own stream cannot be decoded, or the image exceeds a limit.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl PictureError {
    /// The kind that callers branch on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Damaged { .. } => ErrorKind::Decode,
            Self::Unknown | Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Codec(error) => {
                ErrorKind::from_name(error.kind().as_str()).unwrap_or(ErrorKind::Decode)
            }
        }
    }

    fn damaged(kind: &'static str, reason: impl Into<String>) -> Self {
        Self::Damaged { kind, reason: reason.into() }
    }

    fn unsupported(kind: &'static str, reason: impl Into<String>) -> Self {
        Self::Unsupported { kind, reason: reason.into() }
    }
}

/// First bytes of streams that codecs decode.
const STREAMS: [(&[u8], &str); 6] = [
    (b"\xFF\xD8\xFF\xF7", "jpegls"),
    (b"\xFF\xD8\xFF", "jpeg"),
    (b"\xFF\x4F\xFF\x51", "jpeg2000"),
    (b"\0\0\0\x0CjP  ", "jpeg2000"),
    (b"\0\0\0\x0CJXL ", "jxl"),
    (b"\xFF\x0A", "jxl"),
];

/// Reads the image in a file.
///
/// PNG: 8 and 16 bits, palettes and transparency resolved, smaller depths widened. TIFF: one image
/// of 8 or 16 bit integers or 16 or 32 bit floats, signed ones with 16 bits. `.npy`: `(H, W)` or
/// `(H, W, C)` of `uint8`, `uint16`, `int16`, `float16` or `float32`. JPEG and the streams of other
/// codecs: whatever the codec of this build decodes.
///
/// # Errors
///
/// [`PictureError`]; nothing is allocated beyond the limits.
pub fn read_picture(file: &[u8], limits: &Limits) -> Result<Image, PictureError> {
    if file.starts_with(png_file::MAGIC) {
        return png_file::read(file, limits);
    }
    if file.starts_with(npy::MAGIC) {
        return npy::read(file, limits);
    }
    if tiff_file::MAGICS.iter().any(|magic| file.starts_with(magic)) {
        return tiff_file::read(file, limits);
    }
    match STREAMS.iter().find(|(magic, _)| file.starts_with(magic)) {
        Some((_, codec)) => {
            let codec = Registry::global().create(&CodecSpec::new(*codec, Default::default()))?;
            Ok(codec.decode_image(file, &DecodeOptions::from(*limits))?)
        }
        None => Err(PictureError::Unknown),
    }
}

/// Writes an image as a PNG file.
///
/// # Errors
///
/// [`PictureError::Unsupported`] for samples other than `uint8` and `uint16`, and for more than
/// four channels, which PNG files cannot hold.
pub fn write_png(image: &ImageView<'_>) -> Result<Vec<u8>, PictureError> {
    png_file::write(image)
}

/// Writes an image as a NumPy file: `(H, W)` for one channel, `(H, W, C)` else.
///
/// # Errors
///
/// None so far.
pub fn write_npy(image: &ImageView<'_>) -> Result<Vec<u8>, PictureError> {
    let shape = image.shape().dimensions();
    let samples = image.samples();
    Ok(npy::write(samples.sample_type().name(), &shape, &samples.to_le_bytes()))
}

impl Decoded {
    /// The record as a PNG file.
    ///
    /// # Errors
    ///
    /// [`PictureError::Unsupported`] when it is no image, or none that PNG files can hold.
    pub fn to_png(&self) -> Result<Vec<u8>, PictureError> {
        png_file::write_decoded(self)
    }

    /// The record as a NumPy file.
    #[must_use]
    pub fn to_npy(&self) -> Vec<u8> {
        npy::write(self.dtype, &self.shape, &self.bytes)
    }
}
