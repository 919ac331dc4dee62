//! Signed samples in streams that hold unsigned ones.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    DecodeOptions, Image, ImageCapabilities, ImageCodec, ImageInfo, ImageView, ImageViewMut,
    SampleType, Samples, SamplesMut, SamplesRef,
};
use crate::{CodecError, Parameters, Result};

/// How the samples of a pack differ from those in its streams.
///
/// ```
/// use iac_codec::SampleMapping;
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let member = SampleMapping::Int16.to_header_value();
/// assert_eq!(SampleMapping::from_header_value(&member)?, SampleMapping::Int16);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SampleMapping {
    /// Samples are signed and have 16 bits; streams hold them with 32,768 added, as unsigned.
    Int16,
}

impl SampleMapping {
    /// The header member that holds a mapping.
    pub const MEMBER: &'static str = "iac_sample";
    /// The name that a header with a mapping lists under `extensions`.
    pub const EXTENSION: &'static str = "iac.sample";

    /// What a header stores.
    #[must_use]
    pub fn to_header_value(self) -> Value {
        match self {
            Self::Int16 => json!({"type": "int16", "offset": 32_768}),
        }
    }

    /// Understands what a header stores.
    ///
    /// # Errors
    ///
    /// [`CodecError::HeaderMember`] for anything that no mapping stores.
    pub fn from_header_value(value: &Value) -> Result<Self> {
        if *value == Self::Int16.to_header_value() {
            return Ok(Self::Int16);
        }
        let mut found = value.to_string();
        if found.len() > 80 {
            found = "another value".to_owned();
        }
        Err(CodecError::HeaderMember {
            member: Self::MEMBER,
            reason: format!("{found} instead of {}", Self::Int16.to_header_value()),
        })
    }
}

/// The number that moves signed samples into the range of unsigned ones; adding it is the same as
/// flipping the highest bit.
const HIGHEST_BIT: u16 = 1 << 15;

const TYPES: &[SampleType] = &[SampleType::I16];

/// An image codec whose images are signed.
pub(crate) struct Signed {
    unsigned: Arc<dyn ImageCodec>,
}

impl Signed {
    pub(crate) fn new(unsigned: Arc<dyn ImageCodec>) -> Self {
        Self { unsigned }
    }

    fn wrong_type(&self, found: SampleType) -> CodecError {
        CodecError::decode(
            self.name(),
            format!("its samples are of type {found}, but signed samples are stored as uint16"),
        )
    }
}

impl ImageCodec for Signed {
    fn name(&self) -> &str {
        self.unsigned.name()
    }

    fn parameters(&self) -> Parameters {
        self.unsigned.parameters()
    }

    fn capabilities(&self) -> ImageCapabilities {
        let unsigned = self.unsigned.capabilities();
        let encodes = unsigned.sample_types.contains(&SampleType::U16);
        ImageCapabilities { sample_types: if encodes { TYPES } else { &[] }, ..unsigned }
    }

    fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
        let SamplesRef::I16(samples) = image.samples() else {
            return Err(CodecError::encode(
                self.name(),
                format!("its samples are of type {} instead of int16", image.sample_type()),
            ));
        };
        let unsigned: Vec<u16> =
            samples.iter().map(|sample| sample.cast_unsigned() ^ HIGHEST_BIT).collect();
        self.unsigned.encode(&ImageView::new(image.shape(), &unsigned[..])?)
    }

    fn info(&self, payload: &[u8]) -> Result<ImageInfo> {
        let info = self.unsigned.info(payload)?;
        match info.sample_type {
            SampleType::U16 => Ok(ImageInfo { sample_type: SampleType::I16, ..info }),
            found => Err(self.wrong_type(found)),
        }
    }

    fn decode(&self, payload: &[u8], options: &DecodeOptions) -> Result<Image> {
        let image = self.unsigned.decode(payload, options)?;
        let shape = image.shape();
        match image.into_samples() {
            Samples::U16(samples) => {
                let signed: Vec<i16> = samples
                    .into_iter()
                    .map(|sample| (sample ^ HIGHEST_BIT).cast_signed())
                    .collect();
                Image::new(shape, signed)
            }
            other => Err(self.wrong_type(other.as_ref().sample_type())),
        }
    }

    fn decode_into(
        &self,
        payload: &[u8],
        out: &mut ImageViewMut<'_>,
        options: &DecodeOptions,
    ) -> Result<()> {
        let shape = out.shape();
        let SamplesMut::I16(signed) = out.samples_mut() else {
            // The place is of another type than these images are: this says so.
            let image = self.decode(payload, options)?;
            return out.copy_from(self.name(), &image.as_view());
        };
        let unsigned: &mut [u16] = bytemuck::cast_slice_mut(signed);
        self.unsigned.decode_into(
            payload,
            &mut ImageViewMut::new(shape, &mut unsigned[..])?,
            options,
        )?;
        for sample in unsigned {
            *sample ^= HIGHEST_BIT;
        }
        Ok(())
    }

    fn check_encode(&self) -> Result<()> {
        self.unsigned.check_encode()
    }

    fn required_extensions(&self) -> &[&str] {
        self.unsigned.required_extensions()
    }

    fn encode_members(&self) -> Parameters {
        self.unsigned.encode_members()
    }

    fn sample_mapping(&self) -> Option<SampleMapping> {
        Some(SampleMapping::Int16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, ImageShape};

    /// Stores samples of 16 bits, little-endian, in one row.
    struct Row;

    impl ImageCodec for Row {
        fn name(&self) -> &str {
            "test.row"
        }

        fn parameters(&self) -> Parameters {
            Parameters::new()
        }

        fn capabilities(&self) -> ImageCapabilities {
            ImageCapabilities::new("test").with_encoding(&[SampleType::U16], &[1])
        }

        fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
            assert_eq!(image.sample_type(), SampleType::U16);
            Ok(image.samples().to_le_bytes().into_owned())
        }

        fn info(&self, payload: &[u8]) -> Result<ImageInfo> {
            let width = u32::try_from(payload.len() / 2).unwrap();
            Ok(ImageInfo::new(ImageShape::new(1, width, 1)?, SampleType::U16))
        }

        fn decode(&self, payload: &[u8], _: &DecodeOptions) -> Result<Image> {
            let samples: Vec<u16> =
                payload.chunks(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
            Image::new(self.info(payload)?.shape, samples)
        }
    }

    #[test]
    fn signed_samples_go_into_the_stream_with_half_the_range_added() {
        let codec = Codec::from_image_codec(Row).with_int16_samples().unwrap();
        let samples = [i16::MIN, -1024, -1, 0, 1, i16::MAX];
        let shape = ImageShape::new(1, 6, 1).unwrap();
        let view = ImageView::new(shape, &samples[..]).unwrap();
        let payload = codec.encode_image(&view).unwrap();
        let stored: Vec<u16> =
            payload.chunks(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
        assert_eq!(stored, [0, 31_744, 32_767, 32_768, 32_769, 65_535]);
        let options = DecodeOptions::default();
        assert_eq!(codec.decode_image(&payload, &options).unwrap().as_view(), view);
        assert_eq!(codec.image_info(&payload).unwrap().sample_type, SampleType::I16);
        let mut place = [0_i16; 6];
        let mut out = ImageViewMut::new(shape, &mut place[..]).unwrap();
        codec.decode_image_into(&payload, &mut out, &options).unwrap();
        assert_eq!(place, samples);
        let mut wrong = [0_u16; 6];
        let mut out = ImageViewMut::new(shape, &mut wrong[..]).unwrap();
        assert!(codec.decode_image_into(&payload, &mut out, &options).is_err());
        assert!(codec.encode_image(&ImageView::new(shape, &[0_u16; 6][..]).unwrap()).is_err());
        assert!(codec.image_capabilities().unwrap().encodes(SampleType::I16, 1));
        assert!(!codec.image_capabilities().unwrap().encodes(SampleType::U16, 1));
    }

    #[test]
    fn mapping_is_told_once_and_understood_exactly() {
        let codec = Codec::from_image_codec(Row);
        assert_eq!(codec.sample_mapping(), None);
        let signed = codec.with_int16_samples().unwrap().with_int16_samples().unwrap();
        assert_eq!(signed.sample_mapping(), Some(SampleMapping::Int16));
        for odd in [json!(null), json!({"type": "int16"}), json!({"type": "int8", "offset": 32768})]
        {
            assert!(SampleMapping::from_header_value(&odd).is_err());
        }
        assert!(Codec::none().with_int16_samples().is_err());
    }
}
