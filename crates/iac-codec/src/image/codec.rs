//! The contract of codecs whose records are images.

use super::{Image, ImageShape, ImageView, ImageViewMut, SampleType};
use crate::{Limits, Parameters, Result};

/// What a payload says about its image before pixels are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// Height, width and channels of what decoding gives.
    pub shape: ImageShape,
    /// The type of the samples that decoding gives.
    pub sample_type: SampleType,
    /// Significant bits of a sample, where the stream tells: 12 for many CT images.
    pub bits: Option<u8>,
}

impl ImageInfo {
    /// Shape and type; `bits` is unset.
    #[must_use]
    pub const fn new(shape: ImageShape, sample_type: SampleType) -> Self {
        Self { shape, sample_type, bits: None }
    }
}

/// A codec whose records are images.
///
/// One value serves any number of threads at once. Decoded samples are in the order that
/// [`Image`] describes and in the host's byte order. Payloads come from anywhere: see
/// [`ByteCodec`](crate::ByteCodec) for what implementers owe.
///
/// ```
/// use iac_codec::{
///     Codec, CodecError, Image, ImageCodec, ImageInfo, ImageShape, ImageView, Limits,
///     Parameters, SampleType, SamplesRef,
/// };
///
/// /// Stores single grey pixels.
/// struct Pixel;
///
/// impl ImageCodec for Pixel {
///     fn name(&self) -> &str {
///         "example.pixel"
///     }
///
///     fn parameters(&self) -> Parameters {
///         Parameters::new()
///     }
///
///     fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>, CodecError> {
///         match image.samples() {
///             SamplesRef::U8(&[grey]) => Ok(vec![grey]),
///             _ => Err(CodecError::encode(self.name(), "more than one grey pixel")),
///         }
///     }
///
///     fn info(&self, _: &[u8]) -> Result<ImageInfo, CodecError> {
///         Ok(ImageInfo::new(ImageShape::new(1, 1, 1)?, SampleType::U8))
///     }
///
///     fn decode(&self, payload: &[u8], _: &Limits) -> Result<Image, CodecError> {
///         Image::new(ImageShape::new(1, 1, 1)?, payload.to_vec())
///     }
/// }
///
/// # fn main() -> Result<(), CodecError> {
/// let codec = Codec::from_image_codec(Pixel);
/// let image = codec.decode_image(&[200], &Limits::default())?;
/// assert_eq!(codec.encode_image(&image.as_view())?, [200]);
/// # Ok(())
/// # }
/// ```
pub trait ImageCodec: Send + Sync {
    /// The name that a header stores under `codec`.
    fn name(&self) -> &str;

    /// The parameters that a header stores under `codec_params`; a codec made from them is equal
    /// to this one.
    fn parameters(&self) -> Parameters;

    /// Encodes one image.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`](crate::CodecError::Parameter) when the parameters serve reading
    /// only, [`CodecError::Encode`](crate::CodecError::Encode) when this codec cannot hold an
    /// image of this shape and type.
    fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>>;

    /// Reads what the payload says about its image. The claim is not checked against the pixels.
    ///
    /// # Errors
    ///
    /// [`CodecError::Decode`](crate::CodecError::Decode) when the part of the payload that holds
    /// it is damaged.
    fn info(&self, payload: &[u8]) -> Result<ImageInfo>;

    /// Decodes one image.
    ///
    /// # Errors
    ///
    /// [`CodecError::Decode`](crate::CodecError::Decode) for a payload that is no sound stream of
    /// this codec, [`CodecError::Limit`](crate::CodecError::Limit) for one that needs more than
    /// the limits allow.
    fn decode(&self, payload: &[u8], limits: &Limits) -> Result<Image>;

    /// Decodes one image into a place of its shape and type.
    ///
    /// The samples there are unspecified after an error. The provided implementation decodes
    /// into memory of its own and copies.
    ///
    /// # Errors
    ///
    /// Those of [`ImageCodec::decode`], and [`CodecError::Decode`](crate::CodecError::Decode)
    /// when the image has another shape or type than the place.
    fn decode_into(
        &self,
        payload: &[u8],
        out: &mut ImageViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let image = self.decode(payload, limits)?;
        out.copy_from(self.name(), &image.as_view())
    }

    /// Whether the parameters allow encoding; those that serve reading only may not.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`](crate::CodecError::Parameter) for a parameter that is unknown,
    /// or has a wrong type or value.
    fn check_encode(&self) -> Result<()> {
        Ok(())
    }

    /// Names that a header must list under `required_extensions` for records of this codec with
    /// these parameters.
    fn required_extensions(&self) -> &[&str] {
        &[]
    }
}
