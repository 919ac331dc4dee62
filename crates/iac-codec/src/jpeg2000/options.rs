//! How streams are made.

use super::{Jpeg2000, NAME};
use crate::{Codec, CodecError, Result};

/// The kind of code blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Profile {
    /// Those of JPEG 2000 part 1: smallest.
    #[default]
    Classic,
    /// Those of part 15 (HTJ2K): several times faster to decode, a few per cent larger.
    Ht,
}

/// What stands around a codestream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Container {
    /// Nothing.
    #[default]
    J2k,
    /// The boxes of a JP2 file, which name the colour space and an opacity channel.
    Jp2,
}

/// How much a lossy stream may lose.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// As the reference packages do: half the size of the samples for classic streams, a base
    /// step of 1/100 for high-throughput ones.
    Default,
    /// A peak signal to noise ratio in dB.
    Quality(f32),
    /// The size of the samples through that of the stream.
    Rate(f32),
}

/// How JPEG 2000 streams are made; reading takes all of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Jpeg2000Options {
    pub(super) profile: Profile,
    pub(super) container: Container,
    /// Nothing for lossless streams.
    pub(super) loss: Option<Loss>,
    pub(super) levels: Option<u8>,
    pub(super) bits_per_sample: Option<u8>,
    pub(super) color_transform: Option<bool>,
    pub(super) extended: bool,
    pub(super) trust_transform_flag: bool,
}

impl Jpeg2000Options {
    /// Exact streams of the classic profile without a container.
    #[must_use]
    pub fn lossless() -> Self {
        Self::default()
    }

    /// Lossy streams as the reference packages make them; see [`Loss::Default`].
    #[must_use]
    pub fn lossy() -> Self {
        Self { loss: Some(Loss::Default), ..Self::default() }
    }

    /// Lossy streams of a peak signal to noise ratio, 1 to 200 dB.
    #[must_use]
    pub fn with_quality(psnr: f32) -> Self {
        Self { loss: Some(Loss::Quality(psnr)), ..Self::default() }
    }

    /// Lossy streams of the size of the samples divided by `ratio`, 1 to 10,000. Classic only.
    #[must_use]
    pub fn with_rate(ratio: f32) -> Self {
        Self { loss: Some(Loss::Rate(ratio)), ..Self::default() }
    }

    /// The kind of code blocks.
    #[must_use]
    pub const fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// What stands around the codestream. JP2 goes together with the classic profile only.
    #[must_use]
    pub const fn with_container(mut self, container: Container) -> Self {
        self.container = container;
        self
    }

    /// How often resolution is halved, 0 to 32; 5 unless set. Never so often that a side of the
    /// image would vanish.
    #[must_use]
    pub const fn with_levels(mut self, levels: u8) -> Self {
        self.levels = Some(levels);
        self
    }

    /// The significant bits of a sample, 1 to 16; the width of its type unless set. More than 8
    /// bits decode to 16-bit types, so a `u8` image takes up to 8 and a `u16` image 9 to 16.
    #[must_use]
    pub const fn with_bits_per_sample(mut self, bits: u8) -> Self {
        self.bits_per_sample = Some(bits);
        self
    }

    /// Whether the first three channels go through the colour transform of the standard, which
    /// makes photographs about a sixth smaller. On for classic streams unless set. Off for
    /// high-throughput streams unless set: the reference packages read such streams wrongly.
    #[must_use]
    pub const fn with_color_transform(mut self, transform: bool) -> Self {
        self.color_transform = Some(transform);
        self
    }

    /// Allows 2 and more than 4 channels and signed samples, which other implementations of the
    /// format refuse.
    #[must_use]
    pub const fn extended(mut self) -> Self {
        self.extended = true;
        self
    }

    /// Believes the flag of the colour transform in all streams, also where the reference
    /// packages' encoder is known to set it without the transform.
    #[must_use]
    pub const fn trusting_transform_flag(mut self) -> Self {
        self.trust_transform_flag = true;
        self
    }

    /// The codec with these options.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] when a number is out of its range, or two options do not go
    /// together.
    pub fn codec(self) -> Result<Codec> {
        let wrong =
            |parameter: &str, reason: String| Err(CodecError::parameter(NAME, parameter, reason));
        if self.profile == Profile::Ht && self.container == Container::Jp2 {
            return wrong("container", "`jp2` goes together with `profile` `classic` only".into());
        }
        match self.loss {
            Some(Loss::Quality(psnr)) if !(1.0..=200.0).contains(&psnr) => {
                return wrong("quality", format!("{psnr} instead of a number from 1 to 200"));
            }
            Some(Loss::Rate(ratio)) if !(1.0..=10_000.0).contains(&ratio) => {
                return wrong("rate", format!("{ratio} instead of a number from 1 to 10000"));
            }
            Some(Loss::Rate(_)) if self.profile == Profile::Ht => {
                return wrong("rate", "goes together with `profile` `classic` only".into());
            }
            _ => {}
        }
        if let Some(levels) = self.levels.filter(|levels| *levels > 32) {
            return wrong("levels", format!("{levels} instead of an integer from 0 to 32"));
        }
        if let Some(bits) = self.bits_per_sample.filter(|bits| !(1..=16).contains(bits)) {
            return wrong("bits_per_sample", format!("{bits} instead of an integer from 1 to 16"));
        }
        Ok(Codec::from_image_codec(Jpeg2000 { options: self }))
    }
}
