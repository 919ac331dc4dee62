//! The codec `jpeg2000`: JPEG 2000 (ITU-T T.800) and high-throughput JPEG 2000 (T.814), as bare
//! codestreams or JP2 files.
//!
//! Any of them is read, whatever the parameters say: 1 to 16 bits, signed ones as `i16`, any
//! number of components, tiles and layers. Subsampled components are repeated over the image, and
//! palettes, channel definitions and the colour space sYCC of JP2 files are applied, unless
//! [`ColorHandling::Stored`] asks for the components as they are. A cut stream is an error, and so
//! is a damaged one as far as its structure tells; only a checksum finds every flipped bit.
//!
//! # Parameters
//!
//! - `profile`: `classic` or `ht`. Encoding `ht` needs the feature `htj2k`;
//! - `container`: `j2k` for a bare codestream, or `jp2` (with `classic` only); `codestream` is a
//!   synonym;
//! - `lossless`: true for the reversible 5/3 wavelet, false for 9/7.
//!
//! Parameters of encoding that only this implementation has: [`Jpeg2000Options::with_quality`],
//! [`Jpeg2000Options::with_rate`], [`Jpeg2000Options::with_levels`],
//! [`Jpeg2000Options::with_bits_per_sample`], [`Jpeg2000Options::with_color_transform`] and
//! [`Jpeg2000Options::extended`].
//!
//! # Colour transforms and streams that lie about them
//!
//! Classic streams of colour images use the colour transform of the standard. High-throughput
//! streams do not unless asked to, because the reference packages never invert it there. Their
//! own streams of colour images carry the transform's flag without the transform; they are
//! recognised by their headers and decoded as they were meant, unless
//! [`Jpeg2000Options::trusting_transform_flag`] is set.
//!
//! ```
//! use iac_codec::jpeg2000::Jpeg2000Options;
//! use iac_codec::{DecodeOptions, ImageShape, ImageView, Scale};
//!
//! # fn main() -> Result<(), iac_codec::CodecError> {
//! let codec = Jpeg2000Options::lossless().codec()?;
//! let pixels = [120_u8; 64 * 64 * 3];
//! let tile = ImageView::new(ImageShape::new(64, 64, 3)?, &pixels[..])?;
//! let payload = codec.encode_image(&tile)?;
//! assert_eq!(codec.decode_image(&payload, &DecodeOptions::default())?.as_view(), tile);
//! let small = codec.decode_image(&payload, &DecodeOptions::default().with_scale(Scale::Eighth))?;
//! assert_eq!(small.shape(), ImageShape::new(8, 8, 3)?);
//! # Ok(())
//! # }
//! ```

mod assemble;
mod codestream;
mod encode;
#[cfg(feature = "htj2k")]
mod ht;
mod jp2;
mod native;
mod options;
mod parameters;

pub use options::{Container, Jpeg2000Options, Loss, Profile};

use crate::image::{EXTENDED, misfit, reduce};
use crate::{
    CodecError, ColorHandling, DecodeOptions, Image, ImageCapabilities, ImageCodec, ImageInfo,
    ImageShape, ImageView, ImageViewMut, Parameters, Result, SampleType, SamplesMut, SamplesRef,
    Scale,
};
use assemble::Plan;
use codestream::{Area, Codestream, Header};
use jp2::File;
use native::Request;
pub(crate) use parameters::from_parameters;

const NAME: &str = "jpeg2000";

/// The numbers of channels that the option `extended` allows.
const MANY_CHANNELS: [u32; 255] = {
    let mut channels = [0; 255];
    let mut at = 0;
    let mut number = 1;
    while at < channels.len() {
        #[allow(clippy::indexing_slicing, reason = "the loop ends before the array does")]
        {
            channels[at] = number;
        }
        number += 1;
        at += 1;
    }
    channels
};

fn damaged(reason: impl Into<String>) -> CodecError {
    CodecError::decode(NAME, reason)
}

fn unsupported(reason: impl Into<String>) -> CodecError {
    CodecError::Unsupported { name: NAME.to_owned(), reason: reason.into() }
}

struct Jpeg2000 {
    options: Jpeg2000Options,
}

impl ImageCodec for Jpeg2000 {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Parameters {
        parameters::persisted(&self.options)
    }

    fn encode_members(&self) -> Parameters {
        parameters::encode_members(&self.options)
    }

    fn required_extensions(&self) -> &[&str] {
        if self.options.extended { &[EXTENDED] } else { &[] }
    }

    fn capabilities(&self) -> ImageCapabilities {
        let capabilities = ImageCapabilities::new("OpenJPEG 2.5.3").with_scales(&Scale::ALL);
        if self.options.profile == Profile::Ht && !cfg!(feature = "htj2k") {
            capabilities
        } else if self.options.extended {
            let types = &[SampleType::U8, SampleType::U16, SampleType::I16];
            capabilities.with_encoding(types, &MANY_CHANNELS)
        } else {
            capabilities.with_encoding(&[SampleType::U8, SampleType::U16], &[1, 3, 4])
        }
    }

    fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
        encode::encode(&self.options, image)
    }

    fn info(&self, payload: &[u8]) -> Result<ImageInfo> {
        let file = jp2::read(payload)?;
        let header = Header::read(file.codestream)?;
        let plan = Plan::new(&file, &header.components, header.image, ColorHandling::Interpreted)?;
        Ok(plan.info)
    }

    fn decode(&self, payload: &[u8], options: &DecodeOptions) -> Result<Image> {
        Stream::read(payload, options, self.options.trust_transform_flag)?.decode(options)
    }

    fn decode_into(
        &self,
        payload: &[u8],
        out: &mut ImageViewMut<'_>,
        options: &DecodeOptions,
    ) -> Result<()> {
        let stream = Stream::read(payload, options, self.options.trust_transform_flag)?;
        let (halvings, rest) = stream.way_to(options.scale);
        if rest != Scale::Full {
            return out.copy_from(NAME, &stream.decode(options)?.as_view());
        }
        let info = stream.plan.info;
        let found = (options.scale.apply(info.shape), info.sample_type);
        let place = (out.shape(), out.sample_type());
        if found != place {
            return Err(misfit(NAME, found, place));
        }
        stream.fill(halvings, None, out.samples_mut())
    }
}

/// A payload whose structure holds, and what becomes of it.
struct Stream<'a> {
    file: File<'a>,
    codestream: Codestream,
    plan: Plan,
    trust_transform_flag: bool,
}

impl<'a> Stream<'a> {
    fn read(
        payload: &'a [u8],
        options: &DecodeOptions,
        trust_transform_flag: bool,
    ) -> Result<Self> {
        let file = jp2::read(payload)?;
        let codestream = Codestream::read(file.codestream, &options.limits)?;
        let plan = Plan::new(&file, &codestream.components, codestream.image, options.color)?;
        plan.info.shape.check(&options.limits)?;
        Ok(Self { file, codestream, plan, trust_transform_flag })
    }

    /// How often the library halves the resolution on the way to a scale, and what is then left
    /// to be averaged.
    fn way_to(&self, scale: Scale) -> (u32, Scale) {
        let halvings = scale.halvings().min(self.codestream.levels);
        let made = Scale::from_denominator(1_u32.wrapping_shl(halvings)).unwrap_or(Scale::Full);
        let reduced = self.codestream.image.halved(halvings);
        let wanted = made.apply(self.plan.info.shape);
        // An image that does not start at 0 can have one column or row less when halved.
        if (reduced.height(), reduced.width()) != (wanted.height(), wanted.width()) {
            return (0, scale);
        }
        // A component that is sampled sparsely may vanish before the image does.
        let vanishes = self.codestream.components.iter().any(|component| {
            let own = self.codestream.image.sampled(component.dx, component.dy).halved(halvings);
            own.width() == 0 || own.height() == 0
        });
        if vanishes {
            return (0, scale);
        }
        let rest = scale.halvings().saturating_sub(halvings);
        (halvings, Scale::from_denominator(1_u32.wrapping_shl(rest)).unwrap_or(Scale::Full))
    }

    fn decode(&self, options: &DecodeOptions) -> Result<Image> {
        let (halvings, rest) = self.way_to(options.scale);
        let made = Scale::from_denominator(1_u32.wrapping_shl(halvings)).unwrap_or(Scale::Full);
        let info = self.plan.info;
        let mut image = Image::zeroed(made.apply(info.shape), info.sample_type, &options.limits)?;
        self.fill(halvings, None, image.as_view_mut().samples_mut())?;
        if rest == Scale::Full { Ok(image) } else { reduce(&image.as_view(), rest) }
    }

    /// Decodes into a place of the right size and type.
    fn fill(&self, halvings: u32, area: Option<Area>, out: SamplesMut<'_>) -> Result<()> {
        let cleared = self.codestream.false_transform.filter(|_| !self.trust_transform_flag);
        let request = Request { codestream: self.file.codestream, cleared, halvings, area };
        native::decode(&request, |planes| {
            self.plan.fill(
                planes,
                &self.codestream.components,
                self.file.palette.as_ref(),
                area.unwrap_or(self.codestream.image),
                halvings,
                out,
            )
        })
    }
}

/// A part of an image, in pixels of the full size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// The left edge.
    pub x: u32,
    /// The upper edge.
    pub y: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// Decodes a part of an image, at full size, without decoding what lies far from it.
///
/// HTJ2K streams are decoded as a whole, and the part is cut out. The samples are those that the part has in the full image. `options.scale` has no meaning here.
///
/// ```
/// use iac_codec::jpeg2000::{Jpeg2000Options, Region, decode_region};
/// use iac_codec::{DecodeOptions, ImageShape, ImageView};
///
/// # fn main() -> Result<(), iac_codec::CodecError> {
/// let codec = Jpeg2000Options::lossless().codec()?;
/// let pixels: Vec<u8> = (0..100).collect();
/// let image = ImageView::new(ImageShape::new(10, 10, 1)?, &pixels[..])?;
/// let payload = codec.encode_image(&image)?;
/// let region = Region { x: 4, y: 2, width: 2, height: 2 };
/// let part = decode_region(&payload, region, &DecodeOptions::default())?;
/// assert_eq!(part.samples().to_le_bytes()[..], [24, 25, 34, 35]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`CodecError::Image`] when the region is empty or reaches out of the image, and those of
/// [`ImageCodec::decode`].
pub fn decode_region(payload: &[u8], region: Region, options: &DecodeOptions) -> Result<Image> {
    let mut stream = Stream::read(payload, options, false)?;
    let image = stream.codestream.image;
    let within = |start: u32, length: u32, side: u32| {
        length > 0 && start.checked_add(length).is_some_and(|end| end <= side)
    };
    if !within(region.x, region.width, image.width())
        || !within(region.y, region.height, image.height())
    {
        return Err(CodecError::Image {
            reason: format!(
                "{} x {} pixels from row {} and column {} are no part of {} x {}",
                region.height,
                region.width,
                region.y,
                region.x,
                image.height(),
                image.width()
            ),
        });
    }
    let x0 = image.x0.saturating_add(region.x);
    let y0 = image.y0.saturating_add(region.y);
    let area =
        Area { x0, y0, x1: x0.saturating_add(region.width), y1: y0.saturating_add(region.height) };
    // Sparse components may have their samples outside of a small region.
    let sparse = stream.codestream.components.iter().any(|component| {
        let own = area.sampled(component.dx, component.dy);
        own.width() == 0 || own.height() == 0 || component.dx > 1 || component.dy > 1
    });
    if sparse {
        return Err(unsupported("parts of images with subsampled components are not supported"));
    }
    if stream.codestream.is_ht {
        // The library gives wrong samples for a part of an image with high-throughput blocks.
        let whole = stream.decode(&options.with_scale(Scale::Full))?;
        return crop(&whole, region);
    }
    stream.plan = Plan::new(&stream.file, &stream.codestream.components, area, options.color)?;
    let info = stream.plan.info;
    let mut part = Image::zeroed(info.shape, info.sample_type, &options.limits)?;
    stream.fill(0, Some(area), part.as_view_mut().samples_mut())?;
    Ok(part)
}

/// The part of an image that a region within it covers.
fn crop(image: &Image, region: Region) -> Result<Image> {
    fn cut<T: Copy>(samples: &[T], image: ImageShape, region: Region) -> Vec<T> {
        let side = |side: u32| usize::try_from(side).unwrap_or(usize::MAX);
        let channels = side(image.channels());
        let row = side(image.width()).saturating_mul(channels).max(1);
        let start = side(region.x).saturating_mul(channels);
        let end = start.saturating_add(side(region.width).saturating_mul(channels));
        let rows = samples.chunks_exact(row).skip(side(region.y)).take(side(region.height));
        rows.flat_map(|row| row.get(start..end).unwrap_or_default()).copied().collect()
    }
    let whole = image.shape();
    let shape = ImageShape::new(region.height, region.width, whole.channels())?;
    match image.samples() {
        SamplesRef::U8(samples) => Image::new(shape, cut(samples, whole, region)),
        SamplesRef::U16(samples) => Image::new(shape, cut(samples, whole, region)),
        SamplesRef::I16(samples) => Image::new(shape, cut(samples, whole, region)),
        _ => Err(unsupported("it decodes to integers only")),
    }
}
