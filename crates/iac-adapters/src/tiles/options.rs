//! What is decided when image files become tiles.

/// Channels of the tiles that are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TileColor {
    /// Always RGB, as every other builder stores it.
    #[default]
    Rgb,
    /// Grey images with one channel, images with an alpha channel with four, and others as RGB.
    /// Every reader knows such tiles: it repeats the one channel, and drops the fourth.
    Native,
}

/// What happens to an alpha channel that is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Alpha {
    /// It is dropped; colours stay as they are, also where they are transparent.
    #[default]
    Drop,
    /// Colours are blended with white.
    BlendWhite,
}

/// What happens to samples of more than 8 bits, and to floating-point ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WideSamples {
    /// The build fails.
    #[default]
    Refuse,
    /// As the reference packages do it: grey samples are cut off at 255, of coloured 16-bit samples
    /// and of grey ones beside an alpha channel the upper half is taken.
    Clip,
    /// 16 bits are scaled to 8, and floating-point numbers from 0 to 1 become 0 to 255.
    Scale,
    /// 16-bit samples and floating-point ones (of 32 bits) are stored as they are. The pack's
    /// payload type is then `image_tiles_v2`, which the reference packages do not read.
    Keep,
}

/// What happens to JPEG files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum JpegSources {
    /// They are decoded and encoded again, as other images are.
    #[default]
    Decode,
    /// Their bytes are stored untouched, which needs all images to be JPEG files. The codec is
    /// `jpeg` and the payload type `image_tiles_v2`, which the reference packages do not read.
    Keep,
    /// They become JPEG XL without loss, some 20% smaller; every JPEG XL reader decodes them, the
    /// reference packages included. Needs the feature `jxl`.
    Transcode,
}

/// How an image file becomes a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ImageRules {
    pub(crate) color: TileColor,
    pub(crate) alpha: Alpha,
    pub(crate) wide: WideSamples,
    pub(crate) apply_orientation: bool,
}
