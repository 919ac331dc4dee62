//! Images as they are read: samples in their own type.

use iac_codec::{ImageShape, Samples};

/// The type of an image's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PixelType {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
}

impl PixelType {
    /// The name that packs and NumPy use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
        }
    }

    /// Bytes of one sample.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::U8, Self::I8, Self::U16, Self::I16].into_iter().find(|one| one.name() == name)
    }
}

/// Samples, row after row, channels interleaved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PixelSamples {
    /// Unsigned, 8 bits.
    U8(Vec<u8>),
    /// Signed, 8 bits.
    I8(Vec<i8>),
    /// Unsigned, 16 bits.
    U16(Vec<u16>),
    /// Signed, 16 bits.
    I16(Vec<i16>),
}

impl PixelSamples {
    /// Their type.
    #[must_use]
    pub const fn pixel_type(&self) -> PixelType {
        match self {
            Self::U8(_) => PixelType::U8,
            Self::I8(_) => PixelType::I8,
            Self::U16(_) => PixelType::U16,
            Self::I16(_) => PixelType::I16,
        }
    }

    /// Little-endian bytes.
    #[must_use]
    pub fn to_le_bytes(&self) -> Vec<u8> {
        match self {
            Self::U8(samples) => samples.clone(),
            Self::I8(samples) => samples.iter().map(|sample| sample.cast_unsigned()).collect(),
            Self::U16(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
            Self::I16(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
        }
    }

    /// The samples as numbers.
    pub fn iter(&self) -> Box<dyn Iterator<Item = i32> + '_> {
        match self {
            Self::U8(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::I8(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::U16(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::I16(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
        }
    }

    pub(super) fn from_unsigned(pixel_type: PixelType, samples: Samples) -> Option<Self> {
        Some(match (pixel_type, samples) {
            (PixelType::U8, Samples::U8(samples)) => Self::U8(samples),
            // Collected in place: the memory stays the same.
            (PixelType::I8, Samples::U8(samples)) => {
                Self::I8(samples.into_iter().map(u8::cast_signed).collect())
            }
            (PixelType::U16, Samples::U16(samples)) => Self::U16(samples),
            (PixelType::I16, Samples::U16(samples)) => {
                Self::I16(samples.into_iter().map(u16::cast_signed).collect())
            }
            _ => return None,
        })
    }
}

/// The image of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pixels {
    /// Height, width and channels.
    pub shape: ImageShape,
    /// The stored samples: never rescaled, inverted or windowed.
    pub samples: PixelSamples,
}

/// Images of one shape and type, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PixelBatch {
    /// Height, width and channels of each.
    pub shape: ImageShape,
    /// How many there are.
    pub count: usize,
    /// The samples of all of them.
    pub samples: PixelSamples,
}
