//! Images as they are read: samples in their own type.

use std::fmt;

use iac_codec::{ImageShape, Samples};

/// The type of an image's samples, or of a volume's voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PixelType {
    /// Unsigned, 8 bits. Samples of one bit are read as such, 0 or 1.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Floating point, 32 bits.
    F32,
    /// Floating point, 64 bits.
    F64,
}

/// Says something for each type and its samples.
macro_rules! each_type {
    ($value:expr, $samples:ident => $result:expr) => {
        match $value {
            Self::U8($samples) => $result,
            Self::I8($samples) => $result,
            Self::U16($samples) => $result,
            Self::I16($samples) => $result,
            Self::U32($samples) => $result,
            Self::I32($samples) => $result,
            Self::F32($samples) => $result,
            Self::F64($samples) => $result,
        }
    };
}

impl PixelType {
    /// Every type.
    pub const ALL: [Self; 8] =
        [Self::U8, Self::I8, Self::U16, Self::I16, Self::U32, Self::I32, Self::F32, Self::F64];

    /// The name that packs and NumPy use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::F32 => "float32",
            Self::F64 => "float64",
        }
    }

    /// Bytes of one sample.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Whether samples can be negative whole numbers.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32)
    }

    /// Whether samples are floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for PixelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Samples, row after row, channels interleaved.
#[derive(Debug, Clone, PartialEq)]
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
    /// Unsigned, 32 bits.
    U32(Vec<u32>),
    /// Signed, 32 bits.
    I32(Vec<i32>),
    /// Floating point, 32 bits.
    F32(Vec<f32>),
    /// Floating point, 64 bits.
    F64(Vec<f64>),
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
            Self::U32(_) => PixelType::U32,
            Self::I32(_) => PixelType::I32,
            Self::F32(_) => PixelType::F32,
            Self::F64(_) => PixelType::F64,
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        each_type!(self, samples => samples.len())
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Little-endian bytes.
    #[must_use]
    pub fn to_le_bytes(&self) -> Vec<u8> {
        match self {
            Self::U8(samples) => samples.clone(),
            Self::I8(samples) => samples.iter().map(|sample| sample.cast_unsigned()).collect(),
            Self::U16(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
            Self::I16(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
            Self::U32(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
            Self::I32(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
            Self::F32(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
            Self::F64(samples) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
        }
    }

    /// Samples from little-endian bytes; an incomplete last one is left out.
    #[must_use]
    pub fn from_le_bytes(pixel_type: PixelType, bytes: &[u8]) -> Self {
        fn numbers<T, const N: usize>(bytes: &[u8], number: fn([u8; N]) -> T) -> Vec<T> {
            let (whole, _) = bytes.as_chunks::<N>();
            whole.iter().map(|bytes| number(*bytes)).collect()
        }
        match pixel_type {
            PixelType::U8 => Self::U8(bytes.to_vec()),
            PixelType::I8 => Self::I8(numbers(bytes, i8::from_le_bytes)),
            PixelType::U16 => Self::U16(numbers(bytes, u16::from_le_bytes)),
            PixelType::I16 => Self::I16(numbers(bytes, i16::from_le_bytes)),
            PixelType::U32 => Self::U32(numbers(bytes, u32::from_le_bytes)),
            PixelType::I32 => Self::I32(numbers(bytes, i32::from_le_bytes)),
            PixelType::F32 => Self::F32(numbers(bytes, f32::from_le_bytes)),
            PixelType::F64 => Self::F64(numbers(bytes, f64::from_le_bytes)),
        }
    }

    /// So many zeros of a type; nothing when there is no memory for them.
    pub(crate) fn zeroed(pixel_type: PixelType, count: usize) -> Option<Self> {
        fn zeros<T: Clone + Default>(count: usize) -> Option<Vec<T>> {
            // Asked for first, as the way to memory that is zero already cannot be refused.
            Vec::<T>::new().try_reserve_exact(count).ok()?;
            Some(vec![T::default(); count])
        }
        Some(match pixel_type {
            PixelType::U8 => Self::U8(zeros(count)?),
            PixelType::I8 => Self::I8(zeros(count)?),
            PixelType::U16 => Self::U16(zeros(count)?),
            PixelType::I16 => Self::I16(zeros(count)?),
            PixelType::U32 => Self::U32(zeros(count)?),
            PixelType::I32 => Self::I32(zeros(count)?),
            PixelType::F32 => Self::F32(zeros(count)?),
            PixelType::F64 => Self::F64(zeros(count)?),
        })
    }

    /// The samples, to be written to.
    pub fn as_mut(&mut self) -> PixelSamplesMut<'_> {
        match self {
            Self::U8(samples) => PixelSamplesMut::U8(samples),
            Self::I8(samples) => PixelSamplesMut::I8(samples),
            Self::U16(samples) => PixelSamplesMut::U16(samples),
            Self::I16(samples) => PixelSamplesMut::I16(samples),
            Self::U32(samples) => PixelSamplesMut::U32(samples),
            Self::I32(samples) => PixelSamplesMut::I32(samples),
            Self::F32(samples) => PixelSamplesMut::F32(samples),
            Self::F64(samples) => PixelSamplesMut::F64(samples),
        }
    }

    /// The samples as numbers; each value of each type is exact.
    pub fn iter(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        match self {
            Self::U8(samples) => Box::new(samples.iter().map(|sample| f64::from(*sample))),
            Self::I8(samples) => Box::new(samples.iter().map(|sample| f64::from(*sample))),
            Self::U16(samples) => Box::new(samples.iter().map(|sample| f64::from(*sample))),
            Self::I16(samples) => Box::new(samples.iter().map(|sample| f64::from(*sample))),
            Self::U32(samples) => Box::new(samples.iter().map(|sample| f64::from(*sample))),
            Self::I32(samples) => Box::new(samples.iter().map(|sample| f64::from(*sample))),
            Self::F32(samples) => Box::new(samples.iter().map(|sample| f64::from(*sample))),
            Self::F64(samples) => Box::new(samples.iter().copied()),
        }
    }

    /// Samples of 8 and 16 bits as whole numbers, which look-up tables need; nothing of others.
    pub(crate) fn words(&self) -> Box<dyn Iterator<Item = i32> + '_> {
        match self {
            Self::U8(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::I8(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::U16(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            Self::I16(samples) => Box::new(samples.iter().map(|sample| i32::from(*sample))),
            _ => Box::new(std::iter::empty()),
        }
    }

    pub(crate) fn from_unsigned(pixel_type: PixelType, samples: Samples) -> Option<Self> {
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

/// Memory that samples are read into.
///
/// ```
/// use iac_adapters::dicom::{PixelSamplesMut, PixelType};
///
/// let mut buffer = vec![0_i16; 6];
/// let place = PixelSamplesMut::from(&mut buffer[..]);
/// assert_eq!((place.pixel_type(), place.len()), (PixelType::I16, 6));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PixelSamplesMut<'a> {
    /// Unsigned, 8 bits.
    U8(&'a mut [u8]),
    /// Signed, 8 bits.
    I8(&'a mut [i8]),
    /// Unsigned, 16 bits.
    U16(&'a mut [u16]),
    /// Signed, 16 bits.
    I16(&'a mut [i16]),
    /// Unsigned, 32 bits.
    U32(&'a mut [u32]),
    /// Signed, 32 bits.
    I32(&'a mut [i32]),
    /// Floating point, 32 bits.
    F32(&'a mut [f32]),
    /// Floating point, 64 bits.
    F64(&'a mut [f64]),
}

macro_rules! from_slices {
    ($($kind:ident $number:ty),*) => {$(
        impl<'a> From<&'a mut [$number]> for PixelSamplesMut<'a> {
            fn from(samples: &'a mut [$number]) -> Self {
                Self::$kind(samples)
            }
        }
    )*};
}
from_slices!(U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, F32 f32, F64 f64);

impl<'a> PixelSamplesMut<'a> {
    /// Their type.
    #[must_use]
    pub const fn pixel_type(&self) -> PixelType {
        match self {
            Self::U8(_) => PixelType::U8,
            Self::I8(_) => PixelType::I8,
            Self::U16(_) => PixelType::U16,
            Self::I16(_) => PixelType::I16,
            Self::U32(_) => PixelType::U32,
            Self::I32(_) => PixelType::I32,
            Self::F32(_) => PixelType::F32,
            Self::F64(_) => PixelType::F64,
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        each_type!(self, samples => samples.len())
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parts of `count` samples each; a rest is left out.
    pub(crate) fn split(self, count: usize) -> Vec<Self> {
        let count = count.max(1);
        match self {
            Self::U8(samples) => samples.chunks_exact_mut(count).map(Self::U8).collect(),
            Self::I8(samples) => samples.chunks_exact_mut(count).map(Self::I8).collect(),
            Self::U16(samples) => samples.chunks_exact_mut(count).map(Self::U16).collect(),
            Self::I16(samples) => samples.chunks_exact_mut(count).map(Self::I16).collect(),
            Self::U32(samples) => samples.chunks_exact_mut(count).map(Self::U32).collect(),
            Self::I32(samples) => samples.chunks_exact_mut(count).map(Self::I32).collect(),
            Self::F32(samples) => samples.chunks_exact_mut(count).map(Self::F32).collect(),
            Self::F64(samples) => samples.chunks_exact_mut(count).map(Self::F64).collect(),
        }
    }

    /// Takes samples over; says whether type and number are the same.
    pub(crate) fn copy_from(&mut self, samples: &PixelSamples) -> bool {
        fn copy<T: Copy>(to: &mut [T], from: &[T]) -> bool {
            let fits = to.len() == from.len();
            if fits {
                to.copy_from_slice(from);
            }
            fits
        }
        match (self, samples) {
            (Self::U8(to), PixelSamples::U8(from)) => copy(to, from),
            (Self::I8(to), PixelSamples::I8(from)) => copy(to, from),
            (Self::U16(to), PixelSamples::U16(from)) => copy(to, from),
            (Self::I16(to), PixelSamples::I16(from)) => copy(to, from),
            (Self::U32(to), PixelSamples::U32(from)) => copy(to, from),
            (Self::I32(to), PixelSamples::I32(from)) => copy(to, from),
            (Self::F32(to), PixelSamples::F32(from)) => copy(to, from),
            (Self::F64(to), PixelSamples::F64(from)) => copy(to, from),
            _ => false,
        }
    }
}

/// The image of one instance, or one frame of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Pixels {
    /// Height, width and channels.
    pub shape: ImageShape,
    /// The stored samples: never rescaled, inverted or windowed.
    pub samples: PixelSamples,
}

/// Images of one shape and type, one behind the other.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PixelBatch {
    /// Height, width and channels of each.
    pub shape: ImageShape,
    /// How many there are.
    pub count: usize,
    /// The samples of all of them.
    pub samples: PixelSamples,
}
