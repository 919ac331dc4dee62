//! Samples of an image, with their type.

use std::borrow::Cow;
use std::fmt;

use half::f16;

use crate::codec::u64_len;
use crate::{CodecError, Result};

/// The type of an image's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SampleType {
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Floating point, 16 bits.
    F16,
    /// Floating point, 32 bits.
    F32,
}

impl SampleType {
    /// Bytes of one sample.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// The name that headers and NumPy use: `uint8`, `float16`, ...
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::F16 => "float16",
            Self::F32 => "float32",
        }
    }
}

impl fmt::Display for SampleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! samples {
    ($($variant:ident: $type:ty),*) => {
        /// Samples that are owned.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Samples {
            $(#[doc = concat!("Of type `", stringify!($type), "`.")] $variant(Vec<$type>)),*
        }

        /// Samples that are borrowed.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[non_exhaustive]
        pub enum SamplesRef<'a> {
            $(#[doc = concat!("Of type `", stringify!($type), "`.")] $variant(&'a [$type])),*
        }

        /// Samples to be written.
        #[derive(Debug, PartialEq)]
        #[non_exhaustive]
        pub enum SamplesMut<'a> {
            $(#[doc = concat!("Of type `", stringify!($type), "`.")] $variant(&'a mut [$type])),*
        }

        impl Samples {
            /// Samples of value 0.
            ///
            /// # Errors
            ///
            /// [`CodecError::Limit`] when there is no memory for them.
            pub fn zeroed(sample_type: SampleType, count: usize) -> Result<Self> {
                Ok(match sample_type {
                    $(SampleType::$variant => {
                        let mut samples: Vec<$type> = Vec::new();
                        samples.try_reserve_exact(count).map_err(|_| CodecError::Limit {
                            what: "samples",
                            found: u64_len(count),
                            allowed: 0,
                        })?;
                        samples.resize(count, <$type>::default());
                        Self::$variant(samples)
                    })*
                })
            }

            /// The same samples, borrowed.
            #[must_use]
            pub fn as_ref(&self) -> SamplesRef<'_> {
                match self {
                    $(Self::$variant(samples) => SamplesRef::$variant(samples)),*
                }
            }

            /// The same samples, to be written.
            #[must_use]
            pub fn as_mut(&mut self) -> SamplesMut<'_> {
                match self {
                    $(Self::$variant(samples) => SamplesMut::$variant(samples)),*
                }
            }
        }

        impl<'a> SamplesRef<'a> {
            /// Their type.
            #[must_use]
            pub const fn sample_type(&self) -> SampleType {
                match self {
                    $(Self::$variant(_) => SampleType::$variant),*
                }
            }

            /// Their number.
            #[must_use]
            pub const fn len(&self) -> usize {
                match self {
                    $(Self::$variant(samples) => samples.len()),*
                }
            }

            /// Whether there are none.
            #[must_use]
            pub const fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Samples of their own.
            #[must_use]
            pub fn to_owned(&self) -> Samples {
                match self {
                    $(Self::$variant(samples) => Samples::$variant(samples.to_vec())),*
                }
            }

            /// Their bytes, little-endian; borrowed where that is how they lie in memory.
            #[must_use]
            pub fn to_le_bytes(&self) -> Cow<'a, [u8]> {
                match self {
                    $(Self::$variant(samples) => {
                        if cfg!(target_endian = "little") {
                            Cow::Borrowed(bytemuck::cast_slice(samples))
                        } else {
                            samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
                        }
                    })*
                }
            }
        }

        impl<'a> SamplesMut<'a> {
            /// Parts of `count` samples, and a last one of what remains.
            #[must_use]
            pub fn split(self, count: usize) -> Vec<Self> {
                match self {
                    $(Self::$variant(samples) => {
                        samples.chunks_mut(count.max(1)).map(Self::$variant).collect()
                    })*
                }
            }

            /// The same samples, to be read.
            #[must_use]
            pub fn as_ref(&self) -> SamplesRef<'_> {
                match self {
                    $(Self::$variant(samples) => SamplesRef::$variant(samples)),*
                }
            }

            /// The same samples, for a shorter time.
            #[must_use]
            pub fn reborrow(&mut self) -> SamplesMut<'_> {
                match self {
                    $(Self::$variant(samples) => SamplesMut::$variant(samples)),*
                }
            }
        }

        $(
            impl From<Vec<$type>> for Samples {
                fn from(samples: Vec<$type>) -> Self {
                    Self::$variant(samples)
                }
            }

            impl<'a> From<&'a [$type]> for SamplesRef<'a> {
                fn from(samples: &'a [$type]) -> Self {
                    Self::$variant(samples)
                }
            }

            impl<'a> From<&'a mut [$type]> for SamplesMut<'a> {
                fn from(samples: &'a mut [$type]) -> Self {
                    Self::$variant(samples)
                }
            }
        )*
    };
}

samples!(U8: u8, U16: u16, I16: i16, F16: f16, F32: f32);
