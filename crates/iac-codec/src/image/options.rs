//! How an image is decoded.

use std::fmt;

use crate::Limits;

/// By how much an image is made smaller while it is decoded: one pixel for a square of pixels.
///
/// An image of height H and width W decodes to ceil(H / n) rows of ceil(W / n) pixels, whatever
/// the codec.
///
/// ```
/// use iac_codec::{ImageShape, Scale};
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let shape = ImageShape::new(513, 512, 3)?;
/// assert_eq!(Scale::Eighth.apply(shape), ImageShape::new(65, 64, 3)?);
/// assert_eq!(Scale::from_denominator(4), Some(Scale::Quarter));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Scale {
    /// Every pixel.
    #[default]
    Full,
    /// Half the height and half the width.
    Half,
    /// A quarter of each.
    Quarter,
    /// An eighth of each.
    Eighth,
    /// A sixteenth of each.
    Sixteenth,
    /// A thirty-second of each.
    ThirtySecond,
}

impl Scale {
    /// Every scale, from the full size to the smallest.
    pub const ALL: [Self; 6] =
        [Self::Full, Self::Half, Self::Quarter, Self::Eighth, Self::Sixteenth, Self::ThirtySecond];

    /// Pixels of the full image along each side of one pixel of the small one: 1, 2, 4, ...
    #[must_use]
    pub const fn denominator(self) -> u32 {
        1 << self.halvings()
    }

    /// How often height and width are halved: the resolution levels that JPEG 2000 leaves out.
    #[must_use]
    pub const fn halvings(self) -> u32 {
        match self {
            Self::Full => 0,
            Self::Half => 1,
            Self::Quarter => 2,
            Self::Eighth => 3,
            Self::Sixteenth => 4,
            Self::ThirtySecond => 5,
        }
    }

    /// The scale of a denominator; nothing for numbers that are none.
    #[must_use]
    pub fn from_denominator(denominator: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|scale| scale.denominator() == denominator)
    }

    /// The shape that an image of `shape` decodes to.
    #[must_use]
    pub fn apply(self, shape: super::ImageShape) -> super::ImageShape {
        shape.reduced(self.denominator())
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator() {
            1 => f.write_str("1"),
            denominator => write!(f, "1/{denominator}"),
        }
    }
}

/// Which colours decoding gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ColorHandling {
    /// Grey, RGB and so on, as the stream declares its components; palettes are applied.
    #[default]
    Interpreted,
    /// The components as they are stored (YCbCr, palette indices), where the backend can hand
    /// them out.
    Stored,
}

/// What samples of 9 to 15 significant bits decode to, where codec and stream leave a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum DepthHandling {
    /// As the reference packages do: JPEG XL stretches samples to the range of their type, the
    /// other codecs leave them.
    #[default]
    Compatible,
    /// The numbers that were encoded.
    Unscaled,
}

/// What happens at damage that a backend could pass over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum DamageHandling {
    /// Decoding fails.
    #[default]
    Refuse,
    /// What can be decoded is given, the rest is whatever the backend makes of it. JPEG only.
    Tolerate,
}

/// How an image is decoded.
///
/// ```
/// use iac_codec::{DecodeOptions, Limits, Scale};
///
/// let options = DecodeOptions::default()
///     .with_scale(Scale::Quarter)
///     .with_limits(Limits::default().with_max_samples(1 << 20));
/// assert_eq!(options.scale, Scale::Quarter);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// Bounds on what one record may need. [`Limits::max_samples`] counts the full image, also
    /// where a smaller one is asked for.
    pub limits: Limits,
    /// The size asked for; default the full one.
    pub scale: Scale,
    /// Which colours; default as the stream declares them.
    pub color: ColorHandling,
    /// What samples of odd depths decode to; default as the reference packages do.
    pub depth: DepthHandling,
    /// What happens at damage; default an error.
    pub damage: DamageHandling,
    /// The frame of an animation; default (`None`) refuses animations.
    pub frame: Option<u32>,
}

impl DecodeOptions {
    /// The same with other bounds.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same with another size.
    #[must_use]
    pub const fn with_scale(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }

    /// The same with other colours.
    #[must_use]
    pub const fn with_color(mut self, color: ColorHandling) -> Self {
        self.color = color;
        self
    }

    /// The same with another treatment of odd depths.
    #[must_use]
    pub const fn with_depth(mut self, depth: DepthHandling) -> Self {
        self.depth = depth;
        self
    }

    /// The same with another treatment of damage.
    #[must_use]
    pub const fn with_damage(mut self, damage: DamageHandling) -> Self {
        self.damage = damage;
        self
    }

    /// The same for one frame of an animation, counted from 0.
    #[must_use]
    pub const fn with_frame(mut self, frame: u32) -> Self {
        self.frame = Some(frame);
        self
    }
}

impl From<Limits> for DecodeOptions {
    fn from(limits: Limits) -> Self {
        Self::default().with_limits(limits)
    }
}
