//! What a stream says about its image.

use super::{NAME, damaged};
#[cfg(feature = "jxl-decoder")]
use crate::DepthHandling;
use crate::{CodecError, DecodeOptions, ImageInfo, ImageShape, Result, SampleType, Scale};

/// The header of a stream, as both backends read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) height: u32,
    pub(super) width: u32,
    /// 1 or 3.
    pub(super) color_channels: u32,
    pub(super) alpha: bool,
    pub(super) bits: u32,
    /// 0 for integers.
    pub(super) exponent_bits: u32,
    pub(super) animated: bool,
}

/// The pixels that a backend is asked for, and gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pixels {
    /// Every one.
    All,
    /// As many, but of a preview that has one value for a square of 8 x 8.
    Eighth,
}

impl Pixels {
    /// What serves a scale.
    pub(super) fn for_scale(scale: Scale) -> Self {
        if scale < Scale::Eighth { Self::All } else { Self::Eighth }
    }
}

impl Header {
    /// Height, width, and the channels that are decoded: colours and one alpha.
    pub(super) fn shape(&self) -> Result<ImageShape> {
        let channels = self.color_channels.saturating_add(u32::from(self.alpha));
        ImageShape::new(self.height, self.width, channels)
            .map_err(|error| damaged(error.to_string()))
    }

    fn sample_type(&self) -> Result<SampleType> {
        match (self.bits, self.exponent_bits) {
            (1..=8, 0) => Ok(SampleType::U8),
            (9..=16, 0) => Ok(SampleType::U16),
            (16, 5) => Ok(SampleType::F16),
            (32, 8) => Ok(SampleType::F32),
            (bits, 0) => Err(unsupported(format!(
                "its samples are integers of {bits} bits, there is a type for 1 to 16"
            ))),
            (bits, exponent) => Err(unsupported(format!(
                "its samples are floats of {bits} bits with {exponent} for the exponent, there is \
                 a type for 16 with 5 and 32 with 8"
            ))),
        }
    }

    pub(super) fn info(&self) -> Result<ImageInfo> {
        let mut info = ImageInfo::new(self.shape()?, self.sample_type()?);
        if self.exponent_bits == 0 {
            info.bits = u8::try_from(self.bits).ok();
        }
        Ok(info)
    }

    /// The same, once limits and the choice of a frame were tested.
    pub(super) fn decodable(&self, options: &DecodeOptions) -> Result<ImageInfo> {
        let info = self.info()?;
        info.shape.check(&options.limits)?;
        if self.animated && options.frame.is_none() {
            return Err(unsupported(
                "it is an animation, and no frame of it was chosen".to_owned(),
            ));
        }
        Ok(info)
    }

    /// The number that the largest sample of an integer type is stretched from, where samples are
    /// wanted as they were encoded and backends would stretch them.
    #[cfg(feature = "jxl-decoder")]
    pub(super) fn output_bits(&self, depth: DepthHandling, full: u8) -> u8 {
        match depth {
            DepthHandling::Unscaled => u8::try_from(self.bits).unwrap_or(full).min(full),
            DepthHandling::Compatible => full,
        }
    }
}

fn unsupported(reason: String) -> CodecError {
    CodecError::Unsupported { name: NAME.to_owned(), reason }
}
