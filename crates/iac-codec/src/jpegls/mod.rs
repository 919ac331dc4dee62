//! The codec `jpegls`: JPEG-LS streams (ITU-T T.87), lossless and near-lossless.
//!
//! Samples have 2 to 16 bits and decode to their own numbers, as unsigned bytes up to 8 bits and
//! as 16-bit integers above. All three ways of interleaving components are read, and so are
//! preset parameters, restart intervals, sides above 65,535 and the three HP colour transforms
//! (on interleaved scans). Mapping tables and subsampled components are refused.
//!
//! Parameters: `near_lossless`, 0 (lossless) to 255, by how much a decoded sample may differ;
//! `bits_per_sample`, 2 to 16, or null for the width of the samples' type. Parameters of encoding
//! that only this implementation has are those of [`JpeglsOptions::with_interleave`],
//! [`JpeglsOptions::with_preset`] and [`JpeglsOptions::extended`].
//!
//! ```
//! use iac_codec::jpegls::JpeglsOptions;
//! use iac_codec::{DecodeOptions, ImageShape, ImageView};
//!
//! # fn main() -> Result<(), iac_codec::CodecError> {
//! let codec = JpeglsOptions::lossless().with_bits_per_sample(12).codec()?;
//! let slice = ImageView::new(ImageShape::new(2, 2, 1)?, &[0_u16, 4095, 7, 1024][..])?;
//! let payload = codec.encode_image(&slice)?;
//! assert_eq!(codec.decode_image(&payload, &DecodeOptions::default())?.as_view(), slice);
//! # Ok(())
//! # }
//! ```

mod header;
mod native;
mod parameters;

pub use header::Interleave;

use crate::codec::u64_len;
use crate::image::EXTENDED;
use crate::{
    Codec, CodecError, DecodeOptions, Image, ImageCapabilities, ImageCodec, ImageInfo, ImageShape,
    ImageView, ImageViewMut, Parameters, Result, SampleType, SamplesMut, SamplesRef, Scale,
};
use header::Header;
use native::Frame;
pub(crate) use parameters::from_parameters;

const NAME: &str = "jpegls";

/// Preset coding parameters (T.87, C.2.4.1.1). A 0 stands for the value that the standard gives.
/// The highest sample value is always that of the bits of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Preset {
    /// The first threshold of gradients (T1).
    pub threshold1: u16,
    /// The second threshold of gradients (T2).
    pub threshold2: u16,
    /// The third threshold of gradients (T3).
    pub threshold3: u16,
    /// After how many samples of a context its statistics are halved (RESET), 3 to 255; others
    /// than 64 not together with [`Interleave::Sample`].
    pub reset_value: u16,
}

/// How JPEG-LS streams are made; reading takes all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JpeglsOptions {
    near_lossless: u8,
    bits_per_sample: Option<u8>,
    interleave: Option<Interleave>,
    preset: Option<Preset>,
    extended: bool,
}

impl JpeglsOptions {
    /// Exact streams with as many bits for a sample as its type has; components of colour images
    /// are interleaved by sample.
    #[must_use]
    pub fn lossless() -> Self {
        Self::default()
    }

    /// Lets decoded samples differ by up to `bound`; 0 is lossless.
    #[must_use]
    pub const fn with_near_lossless(mut self, bound: u8) -> Self {
        self.near_lossless = bound;
        self
    }

    /// The significant bits of a sample, 2 to 16: 12 for many CT images. Smaller and faster than
    /// the width of the type. A sample above 2^bits - 1 cannot be encoded.
    #[must_use]
    pub const fn with_bits_per_sample(mut self, bits: u8) -> Self {
        self.bits_per_sample = Some(bits);
        self
    }

    /// How components follow each other; by sample unless set, or by line where four channels of
    /// bytes would suffer from a defect of the library. Images of one channel have nothing to
    /// interleave, and those of two channels always get separate scans.
    #[must_use]
    pub const fn with_interleave(mut self, interleave: Interleave) -> Self {
        self.interleave = Some(interleave);
        self
    }

    /// Coding parameters in place of the standard's.
    #[must_use]
    pub const fn with_preset(mut self, preset: Preset) -> Self {
        self.preset = Some(preset);
        self
    }

    /// Allows images of two channels, which other implementations of the format refuse.
    #[must_use]
    pub const fn extended(mut self) -> Self {
        self.extended = true;
        self
    }

    /// The codec with these options.
    ///
    /// # Errors
    ///
    /// [`CodecError::Parameter`] when `bits_per_sample` is not from 2 to 16.
    pub fn codec(self) -> Result<Codec> {
        if let Some(bits) = self.bits_per_sample.filter(|bits| !(2..=16).contains(bits)) {
            return Err(CodecError::parameter(
                NAME,
                "bits_per_sample",
                format!("{bits} instead of an integer from 2 to 16"),
            ));
        }
        Ok(Codec::from_image_codec(Jpegls { options: self }))
    }
}

struct Jpegls {
    options: JpeglsOptions,
}

fn unsupported(reason: impl Into<String>) -> CodecError {
    CodecError::Unsupported { name: NAME.to_owned(), reason: reason.into() }
}

fn refused(reason: impl Into<String>) -> CodecError {
    CodecError::encode(NAME, reason)
}

impl ImageCodec for Jpegls {
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
        let channels: &'static [u32] =
            if self.options.extended { &[1, 2, 3, 4] } else { &[1, 3, 4] };
        ImageCapabilities::new("CharLS 2.4.5")
            .with_encoding(&[SampleType::U8, SampleType::U16], channels)
    }

    fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
        let shape = image.shape();
        let width = match image.samples() {
            SamplesRef::U8(_) => 8,
            SamplesRef::U16(_) => 16,
            other => {
                return Err(refused(format!(
                    "samples of type {} instead of uint8 or uint16",
                    other.sample_type()
                )));
            }
        };
        crate::Limits::default().check_samples(u64_len(shape.samples()))?;
        let channels = self.channels(shape)?;
        let bits = self.options.bits_per_sample.unwrap_or(width);
        if bits > width {
            return Err(refused(format!(
                "{bits} bits for samples of type {}",
                image.sample_type()
            )));
        }
        if width == 16 && bits <= 8 {
            return Err(refused(format!(
                "{bits} bits for samples of type uint16 instead of 9 to 16, they would come back as uint8"
            )));
        }
        let allowed = u16::MAX >> 16_u32.saturating_sub(u32::from(bits));
        if bits < width && any_bits(image.samples()) > allowed {
            return Err(refused(format!(
                "a sample is {}, but the highest that {bits} bits may hold is {allowed}",
                highest(image.samples())
            )));
        }
        if u16::from(self.options.near_lossless) > allowed >> 1 {
            return Err(refused(format!(
                "a near-lossless bound of {} instead of at most {}, half the highest sample value",
                self.options.near_lossless,
                allowed >> 1
            )));
        }
        let interleave = match (channels, self.options.interleave) {
            (1 | 2, _) => Interleave::None,
            (_, chosen) => chosen.unwrap_or(Interleave::Sample),
        };
        let interleave = self.safe_interleave(interleave, image, bits)?;
        let reset = self.options.preset.map_or(0, |preset| preset.reset_value);
        if !matches!(reset, 0 | 64) && (interleave == Interleave::Sample || reset > 255) {
            return Err(refused(format!(
                "a reset value of {reset}: up to 255 go together with scans that are not interleaved \
                 by sample"
            )));
        }
        let frame = Frame {
            height: shape.height(),
            width: shape.width(),
            bits,
            channels,
            interleave,
            near_lossless: self.options.near_lossless,
            preset: self.options.preset,
        };
        if interleave == Interleave::None && channels > 1 {
            let count = usize::from(channels);
            match image.samples() {
                SamplesRef::U8(samples) => encode(&frame, &to_planes(samples, count)?),
                SamplesRef::U16(samples) => {
                    encode(&frame, bytemuck::cast_slice(&to_planes(samples, count)?))
                }
                _ => Err(refused("samples of another type than uint8 or uint16")),
            }
        } else {
            match image.samples() {
                SamplesRef::U8(samples) => encode(&frame, samples),
                SamplesRef::U16(samples) => encode(&frame, bytemuck::cast_slice(samples)),
                _ => Err(refused("samples of another type than uint8 or uint16")),
            }
        }
    }

    fn info(&self, payload: &[u8]) -> Result<ImageInfo> {
        let header = Header::read_first(payload)?;
        let mut info = ImageInfo::new(header.shape, header.sample_type());
        info.bits = Some(header.bits);
        Ok(info)
    }

    fn decode(&self, payload: &[u8], options: &DecodeOptions) -> Result<Image> {
        let header = admitted(payload, options)?;
        let mut image = Image::zeroed(header.shape, header.sample_type(), &options.limits)?;
        decode_samples(payload, &header, image.as_view_mut().samples_mut(), options)?;
        Ok(image)
    }

    fn decode_into(
        &self,
        payload: &[u8],
        out: &mut ImageViewMut<'_>,
        options: &DecodeOptions,
    ) -> Result<()> {
        let header = admitted(payload, options)?;
        let found = (header.shape, header.sample_type());
        let place = (out.shape(), out.sample_type());
        if found != place {
            return Err(crate::image::misfit(NAME, found, place));
        }
        decode_samples(payload, &header, out.samples_mut(), options)
    }
}

impl Jpegls {
    /// Another interleave where the library would lose samples with the wanted one.
    fn safe_interleave(
        &self,
        wanted: Interleave,
        image: &ImageView<'_>,
        bits: u8,
    ) -> Result<Interleave> {
        let shape = image.shape();
        let SamplesRef::U8(samples) = image.samples() else { return Ok(wanted) };
        if wanted != Interleave::Sample
            || (shape.channels(), bits, self.options.near_lossless) != (4, 8, 0)
            || !fourth_alone_changes(samples, shape.width())
        {
            return Ok(wanted);
        }
        if self.options.interleave.is_some() {
            return Err(refused(
                "pixels that differ in their fourth channel alone cannot be interleaved by sample",
            ));
        }
        Ok(Interleave::Line)
    }

    fn channels(&self, shape: ImageShape) -> Result<u8> {
        match u8::try_from(shape.channels()) {
            Ok(channels @ (1 | 3 | 4)) => Ok(channels),
            Ok(2) if self.options.extended => Ok(2),
            Ok(2) => Err(refused(
                "2 channels are stored with the option `extended` only, other readers refuse them",
            )),
            _ => Err(refused(format!("{} channels instead of 1 to 4", shape.channels()))),
        }
    }
}

/// All bits that any sample has: above a number of ones if and only if a sample is.
fn any_bits(samples: SamplesRef<'_>) -> u16 {
    match samples {
        SamplesRef::U8(samples) => samples.iter().fold(0, |any, sample| any | sample).into(),
        SamplesRef::U16(samples) => samples.iter().fold(0, |any, sample| any | sample),
        _ => 0,
    }
}

fn highest(samples: SamplesRef<'_>) -> u16 {
    match samples {
        SamplesRef::U8(samples) => samples.iter().max().map_or(0, |most| u16::from(*most)),
        SamplesRef::U16(samples) => samples.iter().max().copied().unwrap_or(0),
        _ => 0,
    }
}

/// Whether a pixel differs from the one before it in the fourth channel alone.
///
/// The library's encoder for four interleaved bytes takes such pixels for equal, and drops the
/// difference. Before the first pixel of a row stands the one above it, above the first row 0.
fn fourth_alone_changes(pixels: &[u8], width: u32) -> bool {
    let row = usize::try_from(width).unwrap_or(usize::MAX).saturating_mul(4).max(4);
    let mut above = [0; 4];
    pixels.chunks(row).any(|row| {
        let (pixels, _) = row.as_chunks::<4>();
        let mut left = above;
        above = pixels.first().copied().unwrap_or_default();
        pixels.iter().any(|pixel| {
            let [a, b, c, fourth] = left;
            left = *pixel;
            pixel.starts_with(&[a, b, c]) && !pixel.ends_with(&[fourth])
        })
    })
}

fn encode(frame: &Frame, source: &[u8]) -> Result<Vec<u8>> {
    // Streams are nearly always smaller than their samples. No sample has a code longer than
    // 64 bits for 16-bit types and 32 for bytes, and 0xFF is followed by a stuffed bit.
    const HEADERS: usize = 4096;
    let usual = source.len().saturating_add(HEADERS);
    let most = source.len().saturating_mul(5).saturating_add(HEADERS);
    for room in [usual, most] {
        let mut out = Vec::new();
        out.try_reserve_exact(room).map_err(|_| CodecError::Limit {
            what: "bytes of native memory",
            found: u64_len(room),
            allowed: 0,
        })?;
        if native::encode(frame, source, &mut out)?.is_some() {
            out.shrink_to_fit();
            return Ok(out);
        }
    }
    Err(refused(format!("its stream does not fit into {most} bytes")))
}

/// The headers of a payload that the limits allow to decode.
fn admitted(payload: &[u8], options: &DecodeOptions) -> Result<Header> {
    let header = Header::read_all(payload)?;
    if options.scale != Scale::Full {
        return Err(unsupported(format!("it has no way to decode at scale {}", options.scale)));
    }
    header.shape.check(&options.limits)?;
    Ok(header)
}

fn decode_samples(
    payload: &[u8],
    header: &Header,
    out: SamplesMut<'_>,
    options: &DecodeOptions,
) -> Result<()> {
    let payload = header::up_to_end_marker(payload)?;
    match out {
        SamplesMut::U8(out) if header.is_planar() => {
            decode_planes(payload, header, out, options, |planes| planes)
        }
        SamplesMut::U16(out) if header.is_planar() => {
            decode_planes(payload, header, out, options, bytemuck::cast_slice_mut)
        }
        SamplesMut::U8(out) => native::decode(payload, out),
        SamplesMut::U16(out) => native::decode(payload, bytemuck::cast_slice_mut(out)),
        _ => Err(unsupported("it decodes to uint8 and uint16 only")),
    }
}

fn decode_planes<T: Copy + Default>(
    payload: &[u8],
    header: &Header,
    out: &mut [T],
    options: &DecodeOptions,
    bytes: impl Fn(&mut [T]) -> &mut [u8],
) -> Result<()> {
    let needed = u64_len(out.len()).saturating_mul(u64_len(size_of::<T>()));
    options.limits.check_native_memory(needed)?;
    let mut planes = zeroed::<T>(out.len())?;
    native::decode(payload, bytes(&mut planes))?;
    let channels = header.channels.len();
    let pixels = out.len().checked_div(channels).unwrap_or(0).max(1);
    for (plane, channel) in planes.chunks_exact(pixels).zip(&header.channels) {
        let places = out.iter_mut().skip(*channel).step_by(channels.max(1));
        for (to, from) in places.zip(plane) {
            *to = *from;
        }
    }
    Ok(())
}

fn to_planes<T: Copy + Default>(samples: &[T], channels: usize) -> Result<Vec<T>> {
    let mut planes = zeroed::<T>(samples.len())?;
    let pixels = samples.len().checked_div(channels).unwrap_or(0).max(1);
    for (channel, plane) in planes.chunks_exact_mut(pixels).enumerate() {
        let from = samples.iter().skip(channel).step_by(channels.max(1));
        for (to, from) in plane.iter_mut().zip(from) {
            *to = *from;
        }
    }
    Ok(planes)
}

fn zeroed<T: Copy + Default>(count: usize) -> Result<Vec<T>> {
    let mut samples = Vec::new();
    samples.try_reserve_exact(count).map_err(|_| CodecError::Limit {
        what: "samples",
        found: u64_len(count),
        allowed: 0,
    })?;
    samples.resize(count, T::default());
    Ok(samples)
}
