//! Shape and samples together.

use super::{ImageShape, SampleType, Samples, SamplesMut, SamplesRef};
use crate::{CodecError, Limits, Result};

/// A borrowed image: rows of pixels with interleaved channels, without gaps.
///
/// ```
/// use iac_codec::{ImageShape, ImageView, SampleType};
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let pixels = [0u16; 4 * 5 * 3];
/// let image = ImageView::new(ImageShape::new(4, 5, 3)?, &pixels[..])?;
/// assert_eq!(image.sample_type(), SampleType::U16);
/// assert!(ImageView::new(ImageShape::new(4, 5, 1)?, &pixels[..]).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImageView<'a> {
    shape: ImageShape,
    samples: SamplesRef<'a>,
}

impl<'a> ImageView<'a> {
    /// Takes samples of a shape.
    ///
    /// # Errors
    ///
    /// [`CodecError::Image`] when there are more or fewer samples than the shape has.
    pub fn new(shape: ImageShape, samples: impl Into<SamplesRef<'a>>) -> Result<Self> {
        let samples = samples.into();
        check_count(shape, samples.len())?;
        Ok(Self { shape, samples })
    }

    /// Height, width and channels.
    #[must_use]
    pub const fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The type of the samples.
    #[must_use]
    pub const fn sample_type(&self) -> SampleType {
        self.samples.sample_type()
    }

    /// The samples.
    #[must_use]
    pub const fn samples(&self) -> SamplesRef<'a> {
        self.samples
    }

    /// An image of its own.
    #[must_use]
    pub fn to_image(&self) -> Image {
        Image { shape: self.shape, samples: self.samples.to_owned() }
    }
}

/// What decoding into a place of another shape or type fails with.
pub(crate) fn misfit(
    codec: &str,
    found: (ImageShape, SampleType),
    place: (ImageShape, SampleType),
) -> CodecError {
    CodecError::decode(
        codec,
        format!(
            "it is {} of type {}, but the place for it is {} of type {}",
            found.0, found.1, place.0, place.1
        ),
    )
}

/// A place for an image that a codec decodes into.
#[derive(Debug, PartialEq)]
pub struct ImageViewMut<'a> {
    shape: ImageShape,
    samples: SamplesMut<'a>,
}

impl<'a> ImageViewMut<'a> {
    /// Takes room for samples of a shape.
    ///
    /// # Errors
    ///
    /// [`CodecError::Image`] when there is room for more or fewer samples than the shape has.
    pub fn new(shape: ImageShape, samples: impl Into<SamplesMut<'a>>) -> Result<Self> {
        let samples = samples.into();
        check_count(shape, samples.as_ref().len())?;
        Ok(Self { shape, samples })
    }

    /// Height, width and channels.
    #[must_use]
    pub const fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The type of the samples.
    #[must_use]
    pub fn sample_type(&self) -> SampleType {
        self.samples.as_ref().sample_type()
    }

    /// The samples, to be written.
    #[must_use]
    pub fn samples_mut(&mut self) -> SamplesMut<'_> {
        self.samples.reborrow()
    }

    /// Copies an image that was decoded, for implementers of codecs.
    ///
    /// # Errors
    ///
    /// [`CodecError::Decode`] when it has another shape or type than this place; `codec` is the
    /// name that the error carries.
    pub fn copy_from(&mut self, codec: &str, image: &ImageView<'_>) -> Result<()> {
        let wanted = (self.shape, self.sample_type());
        match (self.samples.reborrow(), image.samples) {
            _ if image.shape != self.shape => {}
            (SamplesMut::U8(to), SamplesRef::U8(from)) => return copy(to, from),
            (SamplesMut::U16(to), SamplesRef::U16(from)) => return copy(to, from),
            (SamplesMut::I16(to), SamplesRef::I16(from)) => return copy(to, from),
            (SamplesMut::F16(to), SamplesRef::F16(from)) => return copy(to, from),
            (SamplesMut::F32(to), SamplesRef::F32(from)) => return copy(to, from),
            _ => {}
        }
        Err(misfit(codec, (image.shape, image.sample_type()), wanted))
    }

    /// The image as it is.
    #[must_use]
    pub fn as_view(&self) -> ImageView<'_> {
        ImageView { shape: self.shape, samples: self.samples.as_ref() }
    }
}

/// An image that owns its samples: rows of pixels with interleaved channels, without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    shape: ImageShape,
    samples: Samples,
}

impl Image {
    /// Takes samples of a shape.
    ///
    /// # Errors
    ///
    /// [`CodecError::Image`] when there are more or fewer samples than the shape has.
    pub fn new(shape: ImageShape, samples: impl Into<Samples>) -> Result<Self> {
        let samples = samples.into();
        check_count(shape, samples.as_ref().len())?;
        Ok(Self { shape, samples })
    }

    /// An image of value 0, for a codec to decode into.
    ///
    /// # Errors
    ///
    /// [`CodecError::Limit`] when the image is above the limits on samples or bytes, or memory.
    pub fn zeroed(shape: ImageShape, sample_type: SampleType, limits: &Limits) -> Result<Self> {
        shape.check(limits)?;
        let bytes = shape.samples().saturating_mul(sample_type.bytes());
        limits.check_decoded_bytes(crate::codec::u64_len(bytes))?;
        Ok(Self { shape, samples: Samples::zeroed(sample_type, shape.samples())? })
    }

    /// Height, width and channels.
    #[must_use]
    pub const fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The type of the samples.
    #[must_use]
    pub fn sample_type(&self) -> SampleType {
        self.samples.as_ref().sample_type()
    }

    /// The samples.
    #[must_use]
    pub fn samples(&self) -> SamplesRef<'_> {
        self.samples.as_ref()
    }

    /// The samples, handed over.
    #[must_use]
    pub fn into_samples(self) -> Samples {
        self.samples
    }

    /// The image, borrowed.
    #[must_use]
    pub fn as_view(&self) -> ImageView<'_> {
        ImageView { shape: self.shape, samples: self.samples.as_ref() }
    }

    /// The image, to be written.
    #[must_use]
    pub fn as_view_mut(&mut self) -> ImageViewMut<'_> {
        ImageViewMut { shape: self.shape, samples: self.samples.as_mut() }
    }
}

/// Equal shapes have equally many samples.
fn copy<T: Copy>(to: &mut [T], from: &[T]) -> Result<()> {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    Ok(())
}

fn check_count(shape: ImageShape, found: usize) -> Result<()> {
    if found != shape.samples() {
        return Err(CodecError::Image {
            reason: format!("{found} samples instead of the {} of {shape}", shape.samples()),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodecErrorKind;
    use half::f16;

    fn shape(height: u32, width: u32, channels: u32) -> ImageShape {
        ImageShape::new(height, width, channels).unwrap()
    }

    #[test]
    fn count_of_samples_must_be_that_of_the_shape() {
        let error = Image::new(shape(2, 3, 1), vec![0u8; 5]).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage);
        assert_eq!(error.to_string(), "no image: 5 samples instead of the 6 of 2 x 3 x 1");
        assert!(ImageView::new(shape(1, 1, 2), &[1i16][..]).is_err());
        assert!(ImageViewMut::new(shape(1, 1, 2), &mut [1.0f32; 3][..]).is_err());
    }

    #[test]
    fn shapes_without_samples_or_beyond_addresses_are_refused() {
        for (height, width, channels) in [(0, 1, 1), (1, 0, 1), (1, 1, 0)] {
            assert!(ImageShape::new(height, width, channels).is_err());
        }
        assert!(ImageShape::new(u32::MAX, u32::MAX, u32::MAX).is_err());
        assert_eq!(shape(u32::MAX, 1, 1).dimensions(), [u64::from(u32::MAX), 1]);
        assert_eq!(shape(1, 2, 3).dimensions(), [1, 2, 3]);
    }

    #[test]
    fn limits_are_tested_before_memory_is_taken() {
        let large = shape(1 << 20, 1 << 10, 1);
        let limits = Limits::default();
        let error = Image::zeroed(large, SampleType::U8, &limits).unwrap_err();
        assert!(matches!(error, CodecError::Limit { what: "samples", .. }));
        let limits = limits.with_max_samples(u64::MAX).with_max_decoded_bytes(1 << 20);
        let error = Image::zeroed(large, SampleType::F32, &limits).unwrap_err();
        assert!(matches!(error, CodecError::Limit { what: "decoded bytes", found, .. }
            if found == 1 << 32));
    }

    #[test]
    fn samples_of_all_types_have_little_endian_bytes() {
        let one = shape(1, 1, 1);
        for (samples, bytes) in [
            (Samples::from(vec![7u8]), &[7][..]),
            (vec![0x0102u16].into(), &[2, 1]),
            (vec![-2i16].into(), &[0xFE, 0xFF]),
            (vec![f16::from_f32(1.0)].into(), &[0, 0x3C]),
            (vec![1.0f32].into(), &[0, 0, 0x80, 0x3F]),
        ] {
            let image = Image::new(one, samples).unwrap();
            let sample_type = image.sample_type();
            assert_eq!(image.samples().to_le_bytes(), bytes);
            assert_eq!(sample_type.bytes(), bytes.len());
            assert_eq!(image.as_view().to_image(), image);
            let zeroed = Image::zeroed(one, sample_type, &Limits::default()).unwrap();
            assert_eq!(zeroed.sample_type(), sample_type);
            assert!(zeroed.samples().to_le_bytes().iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn views_to_write_reach_the_image() {
        let mut image = Image::zeroed(shape(1, 2, 1), SampleType::U16, &Limits::default()).unwrap();
        let mut view = image.as_view_mut();
        let SamplesMut::U16(samples) = view.samples_mut() else { panic!() };
        samples.copy_from_slice(&[3, 4]);
        assert_eq!(view.as_view().samples(), SamplesRef::U16(&[3, 4]));
        assert_eq!(image.into_samples(), Samples::U16(vec![3, 4]));
    }
}
