//! An image codec without compression, for tests that are about everything around a codec.

use iac_codec::{
    Codec, CodecError, DecodeOptions, Image, ImageCapabilities, ImageCodec, ImageInfo, ImageShape,
    ImageView, Parameters, Registry, Result, SampleType, Samples, SamplesRef,
};

const TYPES: &[SampleType] = &[SampleType::U8, SampleType::U16];

/// Height, width, channels and bytes of a sample, one byte each; then the samples.
pub(crate) struct Pixels;

impl ImageCodec for Pixels {
    fn name(&self) -> &str {
        "test.pixels"
    }

    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    fn capabilities(&self) -> ImageCapabilities {
        ImageCapabilities::new("test").with_encoding(TYPES, &[1, 3])
    }

    fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
        let shape = image.shape();
        if !self.capabilities().encodes(image.sample_type(), shape.channels()) {
            return Err(CodecError::encode(self.name(), "samples of this type and number"));
        }
        let mut payload: Vec<u8> = [shape.height(), shape.width(), shape.channels()]
            .map(|side| u8::try_from(side).unwrap())
            .to_vec();
        payload.push(u8::try_from(image.sample_type().bytes()).unwrap());
        payload.extend_from_slice(&image.samples().to_le_bytes());
        Ok(payload)
    }

    fn info(&self, payload: &[u8]) -> Result<ImageInfo> {
        let Some(&[height, width, channels, bytes]) = payload.first_chunk() else {
            return Err(CodecError::decode(self.name(), "no shape"));
        };
        let sample_type = if bytes == 1 { SampleType::U8 } else { SampleType::U16 };
        // 255 stands for a claim that nobody can keep.
        let side = |side: u8| if side == 255 { 1 << 20 } else { u32::from(side) };
        Ok(ImageInfo::new(
            ImageShape::new(side(height), side(width), channels.into())?,
            sample_type,
        ))
    }

    fn decode(&self, payload: &[u8], options: &DecodeOptions) -> Result<Image> {
        let info = self.info(payload)?;
        info.shape.check(&options.limits)?;
        let samples = &payload[4..];
        if samples.len() != info.shape.samples() * info.sample_type.bytes() {
            return Err(CodecError::decode(self.name(), "cut"));
        }
        let samples = match info.sample_type {
            SampleType::U8 => Samples::U8(samples.to_vec()),
            _ => Samples::U16(
                samples.chunks(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect(),
            ),
        };
        Image::new(info.shape, samples)
    }
}

pub(crate) fn registry() -> Registry {
    let registry = Registry::builtin();
    registry.register("test.pixels", |_| Ok(Codec::from_image_codec(Pixels))).unwrap();
    registry
}

/// A picture that differs from row to row.
pub(crate) fn picture(row: u64, shape: ImageShape) -> Image {
    let samples: Vec<u8> = (0..shape.samples() as u64)
        .map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(row * 977) >> 3) as u8)
        .collect();
    Image::new(shape, samples).unwrap()
}

pub(crate) fn u8_samples<'a>(samples: SamplesRef<'a>) -> &'a [u8] {
    let SamplesRef::U8(samples) = samples else { panic!("{samples:?}") };
    samples
}
