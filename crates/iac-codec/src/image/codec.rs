//! The contract of codecs whose records are images.

use super::{DecodeOptions, Image, ImageShape, ImageView, ImageViewMut, SampleType, Scale};
use crate::{Parameters, Result};

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

/// What an image codec of this build can do.
///
/// ```
/// use iac_codec::{ImageCapabilities, SampleType};
///
/// let capabilities = ImageCapabilities::new("example 1.0")
///     .with_encoding(&[SampleType::U8, SampleType::U16], &[1, 3]);
/// assert!(capabilities.encodes(SampleType::U8, 3));
/// assert!(!capabilities.encodes(SampleType::U8, 2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageCapabilities {
    /// The library that does the work, with its version.
    pub backend: &'static str,
    /// The types of samples that can be encoded; none where a backend decodes only.
    pub sample_types: &'static [SampleType],
    /// The numbers of channels that can be encoded.
    pub channels: &'static [u32],
    /// The scales that decoding has a cheaper way to than decoding the full image.
    pub scales: &'static [Scale],
}

impl ImageCapabilities {
    /// A backend that decodes at full size.
    #[must_use]
    pub const fn new(backend: &'static str) -> Self {
        Self { backend, sample_types: &[], channels: &[], scales: &[Scale::Full] }
    }

    /// The same with images that can be encoded.
    #[must_use]
    pub const fn with_encoding(
        mut self,
        sample_types: &'static [SampleType],
        channels: &'static [u32],
    ) -> Self {
        self.sample_types = sample_types;
        self.channels = channels;
        self
    }

    /// The same with scales that are decoded cheaply; [`Scale::Full`] is to be among them.
    #[must_use]
    pub const fn with_scales(mut self, scales: &'static [Scale]) -> Self {
        self.scales = scales;
        self
    }

    /// Whether images of this type and number of channels can be encoded.
    #[must_use]
    pub fn encodes(&self, sample_type: SampleType, channels: u32) -> bool {
        self.sample_types.contains(&sample_type) && self.channels.contains(&channels)
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
///     Codec, CodecError, DecodeOptions, Image, ImageCapabilities, ImageCodec, ImageInfo,
///     ImageShape, ImageView, Parameters, SampleType, SamplesRef,
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
///     fn capabilities(&self) -> ImageCapabilities {
///         ImageCapabilities::new("example").with_encoding(&[SampleType::U8], &[1])
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
///     fn decode(&self, payload: &[u8], _: &DecodeOptions) -> Result<Image, CodecError> {
///         Image::new(ImageShape::new(1, 1, 1)?, payload.to_vec())
///     }
/// }
///
/// # fn main() -> Result<(), CodecError> {
/// let codec = Codec::from_image_codec(Pixel);
/// let image = codec.decode_image(&[200], &DecodeOptions::default())?;
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

    /// What this backend can do.
    fn capabilities(&self) -> ImageCapabilities;

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
    /// [`Codec`](crate::Codec) asks for the scales of [`ImageCodec::capabilities`] only, and makes
    /// the others from the full image.
    ///
    /// # Errors
    ///
    /// [`CodecError::Decode`](crate::CodecError::Decode) for a payload that is no sound stream of
    /// this codec, [`CodecError::Limit`](crate::CodecError::Limit) for one that needs more than
    /// the limits allow, [`CodecError::Unsupported`](crate::CodecError::Unsupported) for a sound
    /// one of a kind that the backend cannot decode.
    fn decode(&self, payload: &[u8], options: &DecodeOptions) -> Result<Image>;

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
        options: &DecodeOptions,
    ) -> Result<()> {
        let image = self.decode(payload, options)?;
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

    /// Parameters of encoding that the reference packages do not know: a header stores them under
    /// `iac_encode`, for people to read. Decoding never needs them.
    fn encode_members(&self) -> Parameters {
        Parameters::new()
    }

    /// How decoded samples differ from those in the streams; a header says so under `iac_sample`.
    fn sample_mapping(&self) -> Option<super::SampleMapping> {
        None
    }
}
