//! Height, width and channels.

use std::fmt;

use crate::{CodecError, Limits, Result};

/// Height, width and channels of an image, none of them 0, whose product fits into 64 bits and
/// into memory addresses.
///
/// ```
/// use iac_codec::ImageShape;
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let shape = ImageShape::new(512, 256, 3)?;
/// assert_eq!((shape.height(), shape.width(), shape.channels()), (512, 256, 3));
/// assert_eq!(shape.samples(), 393_216);
/// assert!(ImageShape::new(512, 0, 3).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImageShape {
    height: u32,
    width: u32,
    channels: u32,
    samples: usize,
}

impl ImageShape {
    /// Takes height, width and channels.
    ///
    /// # Errors
    ///
    /// [`CodecError::Image`] when one of them is 0 or their product cannot be addressed.
    pub fn new(height: u32, width: u32, channels: u32) -> Result<Self> {
        if height == 0 || width == 0 || channels == 0 {
            return Err(CodecError::Image {
                reason: format!("{height} x {width} x {channels} has no samples"),
            });
        }
        let samples = u64::from(height)
            .checked_mul(u64::from(width))
            .and_then(|pixels| pixels.checked_mul(u64::from(channels)))
            .and_then(|samples| usize::try_from(samples).ok())
            .ok_or_else(|| CodecError::Image {
                reason: format!("{height} x {width} x {channels} samples cannot be addressed"),
            })?;
        Ok(Self { height, width, channels, samples })
    }

    /// Rows.
    #[must_use]
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// Pixels in a row.
    #[must_use]
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// Samples of a pixel.
    #[must_use]
    pub const fn channels(&self) -> u32 {
        self.channels
    }

    /// Height x width x channels.
    #[must_use]
    pub const fn samples(&self) -> usize {
        self.samples
    }

    /// Tests the number of samples.
    ///
    /// # Errors
    ///
    /// [`CodecError::Limit`] when it is above [`Limits::max_samples`].
    pub fn check(&self, limits: &Limits) -> Result<()> {
        limits.check_samples(crate::codec::u64_len(self.samples))
    }

    /// The shape at a smaller size; sides are rounded up.
    #[must_use]
    pub(crate) fn reduced(self, denominator: u32) -> Self {
        let side = denominator.max(1);
        let (height, width) = (self.height.div_ceil(side), self.width.div_ceil(side));
        // Neither is larger than before, so their product is not either.
        Self::new(height, width, self.channels).unwrap_or(self)
    }

    /// The shape as an array's: `[height, width]` for one channel, `[height, width, channels]`
    /// for more.
    #[must_use]
    pub fn dimensions(&self) -> Vec<u64> {
        let mut dimensions = vec![self.height.into(), self.width.into()];
        if self.channels != 1 {
            dimensions.push(self.channels.into());
        }
        dimensions
    }
}

impl fmt::Display for ImageShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.height, self.width, self.channels)
    }
}
