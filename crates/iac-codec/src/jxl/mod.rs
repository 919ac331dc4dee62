//! The codec `jxl`: one JPEG XL image per record, with or without loss.
//!
//! Images have samples of type u8, u16, f16 or f32 and 1 to 4 channels: grey, grey and alpha, RGB,
//! RGB and alpha, alpha not multiplied into the colours. Integers are declared as sRGB, floats as
//! linear sRGB. Without loss every finite image comes back bit for bit. Streams are bare unless
//! a container is asked for, or the library needs one to say that it uses level 10 of the standard:
//! that is so for floats, and for u16 without loss.
//!
//! Read is every still image, bare or in a container: up to 8 bits as u8, 9 to 16 as u16, floats
//! of 16 and 32 bits. No conversion of colours is asked for, an orientation is applied, channels
//! beyond colours and the first alpha are left out, and so is whatever follows the codestream.
//! Depths in between are stretched to the range of their type, as the reference packages do it,
//! unless [`DepthHandling::Unscaled`](crate::DepthHandling) asks for the numbers themselves. An
//! animation needs [`DecodeOptions::frame`].
//!
//! Parameters: `lossless`, false unless given; `distance`, 1.0 unless given, where a greater one
//! loses more and 1.0 is about what an eye can tell; `effort`, 7 unless given; `usecontainer`,
//! null (automatic) unless given. Further names serve encoding only and are never stored under
//! `codec_params`: `bits` ([`JxlOptions::with_bits`]) and `verify` ([`JxlOptions::with_verify`]).
//!
//! Two backends: libjxl (feature `jxl`), which is used when it is compiled in, and pure Rust
//! (feature `jxl-decoder`), which decodes only.

#[cfg(feature = "jxl")]
mod encode;
mod header;
#[cfg(feature = "jxl")]
mod native;
mod parameters;
#[cfg(feature = "jxl-decoder")]
mod pure;
#[cfg(feature = "jxl")]
mod transcode;

pub(crate) use parameters::from_parameters;
#[cfg(feature = "jxl")]
pub use transcode::{TranscodeOptions, reconstruct_jpeg, transcode_jpeg};

use crate::image::{misfit, reduce_into};
use crate::{
    Codec, CodecError, DecodeOptions, Image, ImageCapabilities, ImageCodec, ImageInfo, ImageView,
    ImageViewMut, Limits, Parameters, Result, Scale,
};
use header::{Header, Pixels};
use parameters::{BITS, DISTANCE, EFFORT, LOSSLESS, USE_CONTAINER, VERIFY};

pub(crate) const NAME: &str = "jxl";

/// The distance of packs that name none.
pub const DEFAULT_DISTANCE: f64 = 1.0;

/// The effort of packs that name none.
pub const DEFAULT_EFFORT: u8 = 7;

/// The library that does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JxlBackend {
    /// The reference implementation, in C++.
    #[cfg(feature = "jxl")]
    Libjxl,
    /// The crate `jxl`, which decodes only.
    #[cfg(feature = "jxl-decoder")]
    PureRust,
}

impl JxlBackend {
    /// The one that can do most among those that are compiled in.
    #[must_use]
    pub const fn preferred() -> Self {
        #[cfg(feature = "jxl")]
        return Self::Libjxl;
        #[cfg(not(feature = "jxl"))]
        return Self::PureRust;
    }
}

/// How images are encoded.
///
/// ```
/// # #[cfg(feature = "jxl")] {
/// use iac_codec::jxl::JxlOptions;
/// use iac_codec::{DecodeOptions, ImageShape, ImageView};
///
/// let codec = JxlOptions::lossless().with_effort(3).codec()?;
/// let pixels: Vec<u16> = (0..32 * 32).collect();
/// let image = ImageView::new(ImageShape::new(32, 32, 1)?, &pixels[..])?;
/// let payload = codec.encode_image(&image)?;
/// assert_eq!(codec.decode_image(&payload, &DecodeOptions::default())?.as_view(), image);
/// # }
/// # Ok::<(), iac_codec::CodecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JxlOptions {
    lossless: bool,
    distance: f64,
    effort: u8,
    container: Option<bool>,
    bits: Option<u8>,
    verify: bool,
    backend: JxlBackend,
}

impl JxlOptions {
    /// Without loss.
    #[must_use]
    pub fn lossless() -> Self {
        Self { lossless: true, ..Self::default() }
    }

    /// With a loss that a distance bounds, above 0 and up to 25; 1.0 is about what an eye can tell.
    #[must_use]
    pub fn lossy(distance: f64) -> Self {
        Self { distance, ..Self::default() }
    }

    /// From 1 (fast) to 10 (small); default [`DEFAULT_EFFORT`].
    #[must_use]
    pub const fn with_effort(mut self, effort: u8) -> Self {
        self.effort = effort;
        self
    }

    /// Whether the stream is put into a container; default where the library needs one, which
    /// `Some(false)` cannot prevent.
    #[must_use]
    pub const fn with_container(mut self, container: Option<bool>) -> Self {
        self.container = container;
        self
    }

    /// The bits that integer samples use: 1 to 8 of u8, 9 to 16 of u16; default all of them.
    ///
    /// The numbers are stored as they are, so a sample that needs more bits is an error. Decoding
    /// gives them back with [`DepthHandling::Unscaled`](crate::DepthHandling), and otherwise
    /// stretched to the range of their type, as the reference packages do it. For images whose
    /// range is smaller than their type's this makes streams smaller, and tells a lossy encoder
    /// how bright they are.
    #[must_use]
    pub const fn with_bits(mut self, bits: Option<u8>) -> Self {
        self.bits = bits;
        self
    }

    /// Whether each stream is decoded after it was encoded, and compared bit for bit where
    /// nothing may be lost; default false.
    #[must_use]
    pub const fn with_verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// The library to use; default [`JxlBackend::preferred`].
    #[must_use]
    pub const fn with_backend(mut self, backend: JxlBackend) -> Self {
        self.backend = backend;
        self
    }

    /// The codec.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] when an option is out of its range.
    pub fn codec(self) -> Result<Codec> {
        self.check()?;
        Ok(Codec::from_image_codec(Jxl { options: self, problem: None }))
    }

    /// Tests what only encoding depends on.
    fn check(&self) -> Result<()> {
        if !self.distance.is_finite() {
            return Err(wrong(DISTANCE, format!("{} is not finite", self.distance)));
        }
        let in_range = self.distance > 0.0 && self.distance <= 25.0;
        if !self.lossless && !in_range {
            return Err(wrong(
                DISTANCE,
                format!("{} instead of a number above 0 and up to 25", self.distance),
            ));
        }
        if !(1..=10).contains(&self.effort) {
            return Err(wrong(EFFORT, format!("{} instead of 1 to 10", self.effort)));
        }
        match self.bits {
            Some(bits) if !(1..=16).contains(&bits) => {
                Err(wrong(BITS, format!("{bits} instead of 1 to 16")))
            }
            _ => Ok(()),
        }
    }
}

impl Default for JxlOptions {
    /// What a pack without parameters has: lossy, distance 1.0, effort 7.
    fn default() -> Self {
        Self {
            lossless: false,
            distance: DEFAULT_DISTANCE,
            effort: DEFAULT_EFFORT,
            container: None,
            bits: None,
            verify: false,
            backend: JxlBackend::preferred(),
        }
    }
}

#[derive(Debug)]
struct Jxl {
    options: JxlOptions,
    /// What makes the parameters unfit for encoding, beyond their ranges.
    problem: Option<CodecError>,
}

/// A stream whose header was read, in one of the backends.
enum Stream<'p> {
    #[cfg(feature = "jxl")]
    Native(native::Decoder<'p>),
    #[cfg(feature = "jxl-decoder")]
    Pure(pure::Decoder<'p>),
}

impl<'p> Stream<'p> {
    fn open(
        backend: JxlBackend,
        payload: &'p [u8],
        limits: &Limits,
        wanted: Pixels,
    ) -> Result<(Self, Header)> {
        match backend {
            #[cfg(feature = "jxl")]
            JxlBackend::Libjxl => native::Decoder::open(payload, limits, wanted)
                .map(|(decoder, header)| (Self::Native(decoder), header)),
            #[cfg(feature = "jxl-decoder")]
            JxlBackend::PureRust => {
                let _ = wanted;
                pure::Decoder::open(payload, limits)
                    .map(|(decoder, header)| (Self::Pure(decoder), header))
            }
        }
    }

    /// Decodes into a place of the full image.
    fn pixels(
        self,
        header: &Header,
        options: &DecodeOptions,
        out: &mut ImageViewMut<'_>,
    ) -> Result<()> {
        match self {
            #[cfg(feature = "jxl")]
            Self::Native(decoder) => decoder.pixels(header, options.frame, options.depth, out),
            #[cfg(feature = "jxl-decoder")]
            Self::Pure(decoder) => decoder.pixels(header, options.frame, options.depth, out),
        }
    }
}

#[cfg(feature = "jxl")]
const CHANNELS: &[u32] = &[1, 2, 3, 4];

#[cfg(feature = "jxl")]
const TYPES: &[crate::SampleType] = &{
    use crate::SampleType;
    [SampleType::U8, SampleType::U16, SampleType::F16, SampleType::F32]
};

/// Streams with loss hold a preview of an eighth of each side, and smaller ones are made from it.
#[cfg(feature = "jxl")]
const SCALES: &[Scale] = &[Scale::Full, Scale::Eighth, Scale::Sixteenth, Scale::ThirtySecond];

impl ImageCodec for Jxl {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::new();
        parameters.insert(LOSSLESS.to_owned(), self.options.lossless.into());
        parameters.insert(DISTANCE.to_owned(), self.options.distance.into());
        parameters.insert(EFFORT.to_owned(), self.options.effort.into());
        parameters.insert(USE_CONTAINER.to_owned(), self.options.container.into());
        parameters
    }

    fn capabilities(&self) -> ImageCapabilities {
        match self.options.backend {
            #[cfg(feature = "jxl")]
            JxlBackend::Libjxl => ImageCapabilities::new(native::BACKEND)
                .with_encoding(TYPES, CHANNELS)
                .with_scales(SCALES),
            #[cfg(feature = "jxl-decoder")]
            JxlBackend::PureRust => ImageCapabilities::new(pure::BACKEND),
        }
    }

    fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
        self.check_encode()?;
        match self.options.backend {
            #[cfg(feature = "jxl")]
            JxlBackend::Libjxl => encode::encode(&self.options, image),
            #[cfg(feature = "jxl-decoder")]
            JxlBackend::PureRust => {
                let _ = image;
                Err(CodecError::MissingFeature { name: NAME, feature: NAME })
            }
        }
    }

    fn info(&self, payload: &[u8]) -> Result<ImageInfo> {
        let limits = Limits::default();
        let (_, header) = Stream::open(self.options.backend, payload, &limits, Pixels::All)?;
        header.info()
    }

    fn decode(&self, payload: &[u8], options: &DecodeOptions) -> Result<Image> {
        let wanted = Pixels::for_scale(options.scale);
        let (stream, header) =
            Stream::open(self.options.backend, payload, &options.limits, wanted)?;
        let info = header.decodable(options)?;
        let mut full = Image::zeroed(info.shape, info.sample_type, &options.limits)?;
        stream.pixels(&header, options, &mut full.as_view_mut())?;
        if options.scale == Scale::Full {
            return Ok(full);
        }
        let shape = options.scale.apply(info.shape);
        let mut small = Image::zeroed(shape, info.sample_type, &options.limits)?;
        reduce_into(NAME, &full.as_view(), options.scale, &mut small.as_view_mut())?;
        Ok(small)
    }

    fn decode_into(
        &self,
        payload: &[u8],
        out: &mut ImageViewMut<'_>,
        options: &DecodeOptions,
    ) -> Result<()> {
        let wanted = Pixels::for_scale(options.scale);
        let (stream, header) =
            Stream::open(self.options.backend, payload, &options.limits, wanted)?;
        let info = header.decodable(options)?;
        let found = (options.scale.apply(info.shape), info.sample_type);
        let place = (out.shape(), out.sample_type());
        if found != place {
            return Err(misfit(NAME, found, place));
        }
        if options.scale == Scale::Full {
            return stream.pixels(&header, options, out);
        }
        let mut full = Image::zeroed(info.shape, info.sample_type, &options.limits)?;
        stream.pixels(&header, options, &mut full.as_view_mut())?;
        reduce_into(NAME, &full.as_view(), options.scale, out)
    }

    fn check_encode(&self) -> Result<()> {
        self.options.check()?;
        self.problem.clone().map_or(Ok(()), Err)
    }

    fn encode_members(&self) -> Parameters {
        let mut members = Parameters::new();
        if let Some(bits) = self.options.bits {
            members.insert(BITS.to_owned(), bits.into());
        }
        if self.options.verify {
            members.insert(VERIFY.to_owned(), true.into());
        }
        members
    }
}

/// Tests the first bytes, so that other kinds of files are named as such.
fn with_signature(payload: &[u8]) -> Result<()> {
    const CODESTREAM: &[u8] = &[0xFF, 0x0A];
    const CONTAINER: &[u8] = b"\0\0\0\x0CJXL \r\n\x87\n";
    if payload.starts_with(CODESTREAM) || payload.starts_with(CONTAINER) {
        return Ok(());
    }
    let cut = CODESTREAM.starts_with(payload) || CONTAINER.starts_with(payload);
    let first = payload.get(..12).unwrap_or(payload);
    Err(damaged(if cut {
        format!("its {} bytes end before the image does", payload.len())
    } else {
        format!("it starts with \"{}\", as no JPEG XL stream does", first.escape_ascii())
    }))
}

fn wrong(parameter: &str, reason: String) -> CodecError {
    CodecError::parameter(NAME, parameter, reason)
}

fn damaged(reason: String) -> CodecError {
    CodecError::decode(NAME, reason)
}
