//! The handle of a codec that readers and writers hold.

use std::fmt;
use std::sync::Arc;

use crate::image::{
    DecodeOptions, Image, ImageCapabilities, ImageCodec, ImageInfo, ImageView, ImageViewMut,
    SampleMapping, Scale, Signed, reduce, reduce_into,
};
use crate::none::NoneCodec;
use crate::{ByteCodec, CodecError, CodecSpec, Limits, Parameters, Result};

/// What the records of a codec are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodecKind {
    /// Plain bytes.
    Bytes,
    /// Images: rows of pixels with interleaved channels.
    Image,
}

/// A codec with its parameters, ready to use.
///
/// Clones share one codec and cost a reference count.
///
/// The handle also watches over codecs from elsewhere: whatever a [`ByteCodec`] or an
/// [`ImageCodec`] returns is tested against the limits once more.
#[derive(Clone)]
pub struct Codec {
    inner: Inner,
}

#[derive(Clone)]
enum Inner {
    Bytes(Arc<dyn ByteCodec>),
    Image(Arc<dyn ImageCodec>),
}

impl Codec {
    /// Wraps a byte codec.
    pub fn from_byte_codec(codec: impl ByteCodec + 'static) -> Self {
        Self { inner: Inner::Bytes(Arc::new(codec)) }
    }

    /// Wraps an image codec.
    pub fn from_image_codec(codec: impl ImageCodec + 'static) -> Self {
        Self { inner: Inner::Image(Arc::new(codec)) }
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
            Inner::Image(codec) => codec.name(),
        }
    }

    /// The parameters that a header stores under `codec_params`.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        match &self.inner {
            Inner::Bytes(codec) => codec.parameters(),
            Inner::Image(codec) => codec.parameters(),
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
            Inner::Image(_) => CodecKind::Image,
        }
    }

    /// The byte codec behind the handle, if its records are bytes.
    #[must_use]
    pub fn as_byte_codec(&self) -> Option<&dyn ByteCodec> {
        match &self.inner {
            Inner::Bytes(codec) => Some(&**codec),
            Inner::Image(_) => None,
        }
    }

    /// The image codec behind the handle, if its records are images.
    #[must_use]
    pub fn as_image_codec(&self) -> Option<&dyn ImageCodec> {
        match &self.inner {
            Inner::Bytes(_) => None,
            Inner::Image(codec) => Some(&**codec),
        }
    }

    /// Whether the parameters allow encoding; [`Registry::create`](crate::Registry::create) takes
    /// some that serve reading only.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] for a parameter that is unknown, or has a wrong type or value.
    pub fn check_encode(&self) -> Result<()> {
        match &self.inner {
            Inner::Bytes(codec) => codec.check_encode(),
            Inner::Image(codec) => codec.check_encode(),
        }
    }

    /// Names that a header must list under `required_extensions` for records of this codec:
    /// writers put them there, and readers refuse to decode when one of theirs is not among them.
    #[must_use]
    pub fn required_extensions(&self) -> &[&str] {
        match &self.inner {
            Inner::Bytes(codec) => codec.required_extensions(),
            Inner::Image(codec) => codec.required_extensions(),
        }
    }

    /// Whether payload and record are the same bytes, so that callers may skip decoding.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        match &self.inner {
            Inner::Bytes(codec) => codec.is_identity(),
            Inner::Image(_) => false,
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

    /// Decodes one record of bytes behind what a buffer already holds.
    ///
    /// After an error the buffer holds what it held before.
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::decode_append`]; [`CodecError::Unsupported`] when this codec's
    /// records are not bytes.
    pub fn decode_bytes_append(
        &self,
        payload: &[u8],
        out: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<()> {
        let before = out.len();
        let decoded = self
            .byte_codec()?
            .decode_append(payload, out, limits)
            .and_then(|()| limits.check_decoded_bytes(u64_len(out.len().saturating_sub(before))));
        if decoded.is_err() {
            out.truncate(before);
        }
        decoded
    }

    /// Decodes the beginning of one record of bytes: as much as `wanted` asks for, or somewhat
    /// more; less only where the record ends.
    ///
    /// `wanted` is shown what is decoded so far and answers how many bytes it needs in all. The
    /// codecs `none`, `brotli` and `zstd` stop early; others decode everything.
    ///
    /// ```
    /// # #[cfg(feature = "brotli")] {
    /// use iac_codec::{Limits, brotli::BrotliOptions};
    ///
    /// let codec = BrotliOptions::default().with_quality(1).codec()?;
    /// let payload = codec.encode_bytes(b"three, then a long rest")?;
    /// let start = codec.decode_bytes_prefix(&payload, &mut |_| 5, &Limits::default())?;
    /// assert!(start.starts_with(b"three"));
    /// # }
    /// # Ok::<(), iac_codec::CodecError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`ByteCodec::decode_prefix`]; [`CodecError::Unsupported`] when this codec's records
    /// are not bytes.
    pub fn decode_bytes_prefix(
        &self,
        payload: &[u8],
        wanted: &mut dyn FnMut(&[u8]) -> usize,
        limits: &Limits,
    ) -> Result<Vec<u8>> {
        let start = self.byte_codec()?.decode_prefix(payload, wanted, limits)?;
        limits.check_decoded_bytes(u64_len(start.len()))?;
        Ok(start)
    }

    /// Encodes one image.
    ///
    /// # Errors
    ///
    /// Those of [`ImageCodec::encode`]; [`CodecError::Unsupported`] when this codec's records are
    /// not images.
    pub fn encode_image(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
        self.image_codec()?.encode(image)
    }

    /// What a payload says about its image, without its pixels being decoded.
    ///
    /// # Errors
    ///
    /// Those of [`ImageCodec::info`]; [`CodecError::Unsupported`] when this codec's records are
    /// not images.
    pub fn image_info(&self, payload: &[u8]) -> Result<ImageInfo> {
        self.image_codec()?.info(payload)
    }

    /// Decodes one image.
    ///
    /// Every [`Scale`] works with every codec: where the backend has no cheaper way, the full image
    /// is decoded and its pixels are averaged.
    ///
    /// # Errors
    ///
    /// Those of [`ImageCodec::decode`]; [`CodecError::Unsupported`] when this codec's records are
    /// not images.
    pub fn decode_image(&self, payload: &[u8], options: &DecodeOptions) -> Result<Image> {
        let codec = self.image_codec()?;
        let (asked, averaged) = way_to(codec, options);
        let image = codec.decode(payload, &asked)?;
        image.shape().check(&options.limits)?;
        match averaged {
            None => Ok(image),
            Some(scale) => reduce(&image.as_view(), scale),
        }
    }

    /// Decodes one image into a place of its shape and type, such as a slot of a batch.
    ///
    /// The samples there are unspecified after an error.
    ///
    /// # Errors
    ///
    /// Those of [`ImageCodec::decode_into`]; [`CodecError::Unsupported`] when this codec's records
    /// are not images.
    pub fn decode_image_into(
        &self,
        payload: &[u8],
        out: &mut ImageViewMut<'_>,
        options: &DecodeOptions,
    ) -> Result<()> {
        let codec = self.image_codec()?;
        out.shape().check(&options.limits)?;
        let (asked, averaged) = way_to(codec, options);
        let Some(scale) = averaged else { return codec.decode_into(payload, out, &asked) };
        let image = codec.decode(payload, &asked)?;
        image.shape().check(&options.limits)?;
        reduce_into(self.name(), &image.as_view(), scale, out)
    }

    /// What this build's backend of an image codec can do.
    ///
    /// # Errors
    ///
    /// [`CodecError::Unsupported`] when this codec's records are not images.
    pub fn image_capabilities(&self) -> Result<ImageCapabilities> {
        Ok(self.image_codec()?.capabilities())
    }

    /// The same codec for signed samples of 16 bits, which no codec of the format stores as they
    /// are: each goes into the stream with 32,768 added, as unsigned.
    ///
    /// ```
    /// # #[cfg(feature = "jxl")] {
    /// use iac_codec::jxl::JxlOptions;
    /// use iac_codec::{DecodeOptions, ImageShape, ImageView};
    ///
    /// let codec = JxlOptions::lossless().codec()?.with_int16_samples()?;
    /// let hounsfield = [-1024_i16, -30, 40, 3071];
    /// let slice = ImageView::new(ImageShape::new(2, 2, 1)?, &hounsfield[..])?;
    /// let payload = codec.encode_image(&slice)?;
    /// assert_eq!(codec.decode_image(&payload, &DecodeOptions::default())?.as_view(), slice);
    /// # }
    /// # Ok::<(), iac_codec::CodecError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CodecError::Unsupported`] when this codec's records are not images.
    pub fn with_int16_samples(&self) -> Result<Self> {
        self.image_codec()?;
        Ok(match &self.inner {
            Inner::Image(codec) if codec.sample_mapping().is_none() => {
                Self { inner: Inner::Image(Arc::new(Signed::new(codec.clone()))) }
            }
            _ => self.clone(),
        })
    }

    /// How decoded samples differ from those in the streams; writers put it into the header.
    #[must_use]
    pub fn sample_mapping(&self) -> Option<SampleMapping> {
        self.as_image_codec().and_then(ImageCodec::sample_mapping)
    }

    /// Parameters of encoding that a header stores under `iac_encode`, for people to read.
    #[must_use]
    pub fn encode_members(&self) -> Parameters {
        self.as_image_codec().map_or_else(Parameters::new, ImageCodec::encode_members)
    }

    fn image_codec(&self) -> Result<&dyn ImageCodec> {
        self.as_image_codec().ok_or_else(|| CodecError::Unsupported {
            name: self.name().to_owned(),
            reason: "its records are not images".to_owned(),
        })
    }

    fn byte_codec(&self) -> Result<&dyn ByteCodec> {
        self.as_byte_codec().ok_or_else(|| CodecError::Unsupported {
            name: self.name().to_owned(),
            reason: "its records are not bytes".to_owned(),
        })
    }
}

/// How a backend is asked for a scale: directly, or for the full image that is then averaged.
fn way_to(codec: &dyn ImageCodec, options: &DecodeOptions) -> (DecodeOptions, Option<Scale>) {
    let scale = options.scale;
    if scale == Scale::Full || codec.capabilities().scales.contains(&scale) {
        (*options, None)
    } else {
        (options.with_scale(Scale::Full), Some(scale))
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

pub(crate) fn output_size(name: &str, expected: usize, found: u64) -> CodecError {
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

    /// Decodes to a grey line as long as the payload.
    struct Line;

    impl ImageCodec for Line {
        fn name(&self) -> &str {
            "test.line"
        }

        fn parameters(&self) -> Parameters {
            Parameters::new()
        }

        fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
            Ok(image.samples().to_le_bytes().into_owned())
        }

        fn info(&self, payload: &[u8]) -> Result<ImageInfo> {
            let width = u32::try_from(payload.len()).unwrap();
            let shape = crate::ImageShape::new(1, width, 1)?;
            Ok(ImageInfo::new(shape, crate::SampleType::U8))
        }

        fn capabilities(&self) -> ImageCapabilities {
            ImageCapabilities::new("test").with_encoding(&[crate::SampleType::U8], &[1])
        }

        fn decode(&self, payload: &[u8], _: &DecodeOptions) -> Result<Image> {
            Image::new(self.info(payload)?.shape, payload.to_vec())
        }
    }

    #[test]
    fn image_codec_decodes_images_within_limits_and_no_bytes() {
        let codec = Codec::from_image_codec(Line);
        assert_eq!(codec.kind(), CodecKind::Image);
        assert!(codec.as_byte_codec().is_none());
        let limits = Limits::default();
        let options = DecodeOptions::default();
        let mut image = codec.decode_image(b"abc", &options).unwrap();
        assert_eq!(codec.image_info(b"abc").unwrap().shape, image.shape());
        assert_eq!(codec.encode_image(&image.as_view()).unwrap(), b"abc");
        let error = codec.decode_image(b"abc", &limits.with_max_samples(2).into()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Limit);
        codec.decode_image_into(b"xyz", &mut image.as_view_mut(), &options).unwrap();
        assert_eq!(codec.encode_image(&image.as_view()).unwrap(), b"xyz");
        let error =
            codec.decode_image_into(b"wxyz", &mut image.as_view_mut(), &options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "codec `test.line`: cannot decode the record: it is 1 x 4 x 1 of type uint8, but the \
             place for it is 1 x 3 x 1 of type uint8"
        );
        for error in [
            codec.encode_bytes(b"a").unwrap_err(),
            codec.decode_bytes(b"a", &limits).unwrap_err(),
            codec.decode_bytes_append(b"a", &mut Vec::new(), &limits).unwrap_err(),
            codec.decode_bytes_into(b"a", &mut [0], &limits).unwrap_err(),
            codec.decoded_len(b"a").unwrap_err(),
            Codec::none().decode_image(b"a", &options).unwrap_err(),
        ] {
            assert_eq!(error.kind(), CodecErrorKind::Unsupported);
        }
    }

    #[test]
    fn scale_that_a_backend_lacks_is_averaged() {
        let codec = Codec::from_image_codec(Line);
        let options = DecodeOptions::default().with_scale(Scale::Half);
        let small = codec.decode_image(&[10, 20, 30], &options).unwrap();
        let expected = Image::new(crate::ImageShape::new(1, 2, 1).unwrap(), vec![15_u8, 30]);
        assert_eq!(small, expected.unwrap());
        let mut place = small.clone();
        codec.decode_image_into(&[0, 2, 9], &mut place.as_view_mut(), &options).unwrap();
        assert_eq!(place.samples(), crate::SamplesRef::U8(&[1, 9]));
        let error = codec
            .decode_image_into(&[0, 2, 9, 1, 1], &mut place.as_view_mut(), &options)
            .unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode);
    }

    #[test]
    fn spec_holds_name_and_parameters() {
        let codec = Codec::from_byte_codec(Repeat { obeys: true });
        let spec = codec.spec();
        assert_eq!(spec.name(), "test.repeat");
        assert_eq!(spec.parameters().unwrap(), &codec.parameters());
    }
}
