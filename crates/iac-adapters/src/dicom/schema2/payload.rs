//! Payloads of schema 2: one frame each, in one of several codecs.

use std::borrow::Cow;
use std::cell::Cell;

use bytes::Bytes;
use iac_codec::zstd::ZstdOptions;
use iac_codec::{
    Codec, CodecSpec, DecodeOptions, DepthHandling, ImageView, Limits, Parameters, Registry,
    Samples,
};
use iac_format::ErrorKind;

use super::filter;
use super::form::FrameForm;
use crate::dicom::fault::{Fault, Result};
use crate::dicom::object::PIXEL_DATA;
use crate::dicom::pixels::{self, Coded};
use crate::dicom::samples::{PixelSamples, PixelSamplesMut, PixelType};
use crate::dicom::syntax::{self, PixelEncoding};

/// What new frames are compressed with.
///
/// Image codecs hold samples of 8 and 16 bits; frames of others go through Zstandard whatever is
/// chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PayloadCodec {
    /// JPEG XL without loss: the smallest, the slowest.
    #[default]
    JpegXl,
    /// High-throughput JPEG 2000 without loss.
    Htj2k,
    /// JPEG-LS without loss.
    JpegLs,
    /// Zstandard behind a filter: differences of neighbours, bytes of equal weight together.
    /// Quickest to read.
    Zstd,
    /// Samples as they are.
    None,
}

impl PayloadCodec {
    /// Every codec.
    pub const ALL: [Self; 5] = [Self::JpegXl, Self::Htj2k, Self::JpegLs, Self::Zstd, Self::None];

    /// The name that the command line takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JpegXl => "jxl",
            Self::Htj2k => "htj2k",
            Self::JpegLs => "jpegls",
            Self::Zstd => "zstd",
            Self::None => "none",
        }
    }

    /// The codec of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// What becomes of images that come compressed with loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LossyOriginals {
    /// They stay in their own codestream, which is smaller than their samples without loss.
    #[default]
    Keep,
    /// JPEG files become JPEG XL streams from which each is rebuilt byte for byte, where that is
    /// possible; the others are kept.
    Transcode,
    /// They are decoded and compressed again without loss.
    Decode,
}

impl LossyOriginals {
    /// Every treatment.
    pub const ALL: [Self; 3] = [Self::Keep, Self::Transcode, Self::Decode];

    /// The name that the command line takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Transcode => "transcode",
            Self::Decode => "decode",
        }
    }

    /// The treatment of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// How one frame is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FrameCodec {
    /// Little-endian samples; bits are packed.
    None,
    /// Zstandard; bytes of equal weight lie together.
    Zstd,
    /// The same behind differences of neighbours.
    ZstdDelta,
    /// An image codec of `iac-codec`; signed samples as two's complement.
    Jxl,
    Jpeg2000,
    JpegLs,
    /// The same; signed samples have a constant added, which makes neighbours lie together.
    JxlOffset,
    Jpeg2000Offset,
    JpegLsOffset,
    /// The stream of the source as it came.
    Source,
    /// A JPEG file of the source inside JPEG XL.
    JxlJpeg,
}

impl FrameCodec {
    const ALL: [Self; 11] = [
        Self::None,
        Self::Zstd,
        Self::ZstdDelta,
        Self::Jxl,
        Self::Jpeg2000,
        Self::JpegLs,
        Self::JxlOffset,
        Self::Jpeg2000Offset,
        Self::JpegLsOffset,
        Self::Source,
        Self::JxlJpeg,
    ];

    /// What the column `codec` says.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd => "zstd-shuffle",
            Self::ZstdDelta => "zstd-delta",
            Self::Jxl => "jxl",
            Self::Jpeg2000 => "jpeg2000",
            Self::JpegLs => "jpegls",
            Self::JxlOffset => "jxl+offset",
            Self::Jpeg2000Offset => "jpeg2000+offset",
            Self::JpegLsOffset => "jpegls+offset",
            Self::Source => "source",
            Self::JxlJpeg => "jxl-jpeg",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The same without anything being added to samples.
    const fn plain(self) -> Self {
        match self {
            Self::JxlOffset => Self::Jxl,
            Self::Jpeg2000Offset => Self::Jpeg2000,
            Self::JpegLsOffset => Self::JpegLs,
            other => other,
        }
    }

    /// The image codec, and whether signed samples are shifted.
    const fn image(self) -> Option<(&'static str, bool)> {
        Some(match self {
            Self::Jxl => ("jxl", false),
            Self::Jpeg2000 => ("jpeg2000", false),
            Self::JpegLs => ("jpegls", false),
            Self::JxlOffset => ("jxl", true),
            Self::Jpeg2000Offset => ("jpeg2000", true),
            Self::JpegLsOffset => ("jpegls", true),
            _ => return None,
        })
    }
}

/// Encodes frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameEncoder {
    pub(crate) codec: PayloadCodec,
    pub(crate) effort: u8,
    pub(crate) verify: bool,
    pub(crate) limits: Limits,
}

/// The level of Zstandard: higher ones take much longer and gain a few percent behind the filter.
const ZSTD_LEVEL: i32 = 3;

impl FrameEncoder {
    /// Says early whether this build can encode at all.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(codec) = self.image_codec() else {
            return Ok(());
        };
        self.encoder(codec, PixelType::U16, 16).map(|_| ())
    }

    const fn image_codec(&self) -> Option<FrameCodec> {
        match self.codec {
            PayloadCodec::JpegXl => Some(FrameCodec::JxlOffset),
            PayloadCodec::Htj2k => Some(FrameCodec::Jpeg2000Offset),
            PayloadCodec::JpegLs => Some(FrameCodec::JpegLsOffset),
            PayloadCodec::Zstd | PayloadCodec::None => None,
        }
    }

    fn encoder(&self, codec: FrameCodec, pixel_type: PixelType, bits: u16) -> Result<Codec> {
        let mut parameters = Parameters::new();
        let mut put = |name: &str, value: serde_json::Value| {
            parameters.insert(name.to_owned(), value);
        };
        let name = match codec.image() {
            Some(("jxl", _)) => {
                put("effort", self.effort.into());
                put("lossless", true.into());
                put("usecontainer", true.into());
                "jxl"
            }
            Some(("jpegls", _)) => {
                put("bits_per_sample", bits.max(2).into());
                "jpegls"
            }
            _ => {
                put("profile", "ht".into());
                put("lossless", true.into());
                put("trust_transform_flag", true.into());
                let least = if pixel_type.bytes() == 2 { 9 } else { 1 };
                put("bits_per_sample", bits.max(least).into());
                "jpeg2000"
            }
        };
        let made = Registry::global().create_encoder(&CodecSpec::new(name, parameters));
        made.map_err(|error| pixels::of_codec(&error))
    }

    /// The payload of one frame, and how it is stored.
    pub(crate) fn encode(
        &self,
        form: &FrameForm,
        samples: &PixelSamples,
    ) -> Result<(FrameCodec, Vec<u8>)> {
        let (codec, payload) = self.encode_unchecked(form, samples)?;
        if self.verify {
            let back = decode(codec, &payload, form, &DecodeOptions::from(self.limits), "")?;
            if back.to_le_bytes() != samples.to_le_bytes() {
                return Err(
                    Fault::decode("an encoded frame differs from its source").at(PIXEL_DATA)
                );
            }
        }
        Ok((codec, payload))
    }

    fn encode_unchecked(
        &self,
        form: &FrameForm,
        samples: &PixelSamples,
    ) -> Result<(FrameCodec, Vec<u8>)> {
        let channels = form.channels();
        if let Some(codec) = self.image_codec().filter(|_| form.fits_image_codecs()) {
            let bits = form.used_bits();
            let words = offset(samples, bits);
            // Only signed samples are shifted.
            let codec = if form.pixel.signed { codec } else { codec.plain() };
            let codec_of_type = self.encoder(codec, samples.pixel_type(), bits)?;
            let view = match &words {
                Words::Bytes(words) => ImageView::new(form.pixel.shape, &words[..]),
                Words::Shorts(words) => ImageView::new(form.pixel.shape, &words[..]),
            };
            let view = view.map_err(|error| pixels::of_codec(&error))?;
            let payload =
                codec_of_type.encode_image(&view).map_err(|error| pixels::of_codec(&error))?;
            return Ok((codec, payload));
        }
        let bytes: Cow<'_, [u8]> = match samples {
            PixelSamples::U8(bits) if form.is_bits() => filter::pack_bits(bits).into(),
            PixelSamples::U8(bytes) => bytes.into(),
            other => other.to_le_bytes().into(),
        };
        if self.codec == PayloadCodec::None {
            return Ok((FrameCodec::None, bytes.into_owned()));
        }
        let width = if form.is_bits() { 1 } else { samples.pixel_type().bytes() };
        let (codec, filtered) = if form.is_bits() || samples.pixel_type().is_float() {
            (FrameCodec::Zstd, filter::shuffle(&bytes, width))
        } else {
            let columns = usize::try_from(form.pixel.shape.width()).unwrap_or(0);
            let delta = filter::delta(&bytes, width, channels, columns.saturating_mul(channels));
            (FrameCodec::ZstdDelta, filter::shuffle(&delta, width))
        };
        let zstd = zstd()?;
        let payload = zstd.encode_bytes(&filtered).map_err(|error| pixels::of_codec(&error))?;
        Ok((codec, payload))
    }
}

fn zstd() -> Result<Codec> {
    ZstdOptions::new(ZSTD_LEVEL).codec().map_err(|error| pixels::of_codec(&error))
}

enum Words<'a> {
    Bytes(Cow<'a, [u8]>),
    Shorts(Cow<'a, [u16]>),
}

/// Samples as unsigned words; signed ones with half of their range added.
fn offset(samples: &PixelSamples, bits: u16) -> Words<'_> {
    let half = half_range(bits);
    let low = half.to_le_bytes().first().copied().unwrap_or(0);
    match samples {
        PixelSamples::U8(samples) => Words::Bytes(samples.into()),
        PixelSamples::I8(samples) => {
            Words::Bytes(samples.iter().map(|it| it.cast_unsigned().wrapping_add(low)).collect())
        }
        PixelSamples::I16(samples) => {
            Words::Shorts(samples.iter().map(|it| it.cast_unsigned().wrapping_add(half)).collect())
        }
        PixelSamples::U16(samples) => Words::Shorts(samples.into()),
        _ => Words::Bytes(Cow::Borrowed(&[])),
    }
}

/// Half of the range of so many bits.
fn half_range(bits: u16) -> u16 {
    1_u16.checked_shl(u32::from(bits.saturating_sub(1))).unwrap_or(0)
}

/// Decodes the payload of one frame. `syntax` is the transfer syntax of the source, for frames that
/// are kept as they came; `form` has their photometric interpretation then.
pub(crate) fn decode(
    codec: FrameCodec,
    payload: &[u8],
    form: &FrameForm,
    options: &DecodeOptions,
    syntax: &str,
) -> Result<PixelSamples> {
    let limits = &options.limits;
    form.pixel.shape.check(limits).map_err(|error| pixels::of_codec(&error))?;
    let pixel_type = form.pixel_type();
    match codec {
        FrameCodec::None => samples_of(form, payload),
        FrameCodec::Zstd => with_planes(payload, form, limits, |planes| {
            let width = if form.is_bits() { 1 } else { pixel_type.bytes() };
            samples_of(form, &filter::unshuffle(planes, width))
        })?,
        FrameCodec::ZstdDelta => {
            let count = form.pixel.shape.samples();
            let samples = PixelSamples::zeroed(pixel_type, count);
            let mut samples = samples.ok_or_else(|| {
                Fault::new(ErrorKind::Limit, format!("there is no memory for {count} samples"))
            })?;
            decode_into(codec, payload, form, options, syntax, samples.as_mut())?;
            Ok(samples)
        }
        FrameCodec::Source => from_source(form, Bytes::copy_from_slice(payload), limits, syntax),
        FrameCodec::JxlJpeg => from_source(form, rebuilt(payload, limits)?, limits, syntax),
        _ => decode_image(codec, payload, form, options),
    }
}

/// The same into memory of the caller's, which has the type and the size of the frame.
pub(crate) fn decode_into(
    codec: FrameCodec,
    payload: &[u8],
    form: &FrameForm,
    options: &DecodeOptions,
    syntax: &str,
    mut out: PixelSamplesMut<'_>,
) -> Result<()> {
    let fits = out.pixel_type() == form.pixel_type() && out.len() == form.pixel.shape.samples();
    if !fits {
        return Err(Fault::decode("a frame has another form than its place"));
    }
    if codec == FrameCodec::ZstdDelta && !form.pixel_type().is_float() && !form.is_bits() {
        let limits = &options.limits;
        form.pixel.shape.check(limits).map_err(|error| pixels::of_codec(&error))?;
        let channels = form.channels();
        let columns = usize::try_from(form.pixel.shape.width()).unwrap_or(0);
        return with_planes(payload, form, limits, |planes| {
            filter::undelta(planes, out, channels, columns.saturating_mul(channels));
        });
    }
    if codec == FrameCodec::ZstdDelta {
        return Err(Fault::decode("its samples have no differences"));
    }
    let samples = decode(codec, payload, form, options, syntax)?;
    if out.copy_from(&samples) {
        return Ok(());
    }
    Err(Fault::decode("a frame has another size than is stated"))
}

thread_local! {
    static PLANES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
/// The largest buffer that a thread keeps.
const KEPT_BYTES: usize = 16 << 20;

/// Decompresses a frame into a buffer of the thread, and does something with it.
fn with_planes<T>(
    payload: &[u8],
    form: &FrameForm,
    limits: &Limits,
    run: impl FnOnce(&[u8]) -> T,
) -> Result<T> {
    let expected = form.stored_bytes();
    limits
        .check_decoded_bytes(u64::try_from(expected).unwrap_or(u64::MAX))
        .map_err(|error| pixels::of_codec(&error))?;
    // The buffer is taken out for the time of the call, so calls within calls get another one.
    let mut buffer = PLANES.try_with(Cell::take).unwrap_or_default();
    buffer.resize(expected, 0);
    let decoded = zstd()?
        .decode_bytes_into(payload, &mut buffer, limits)
        .map_err(|error| pixels::of_codec(&error));
    let result = decoded.map(|()| run(&buffer));
    if buffer.capacity() <= KEPT_BYTES {
        let _ = PLANES.try_with(|kept| kept.set(buffer));
    }
    result
}

/// The JPEG file that a stream holds.
pub(crate) fn rebuilt(payload: &[u8], limits: &Limits) -> Result<Bytes> {
    #[cfg(feature = "jxl")]
    {
        let jpeg = iac_codec::jxl::reconstruct_jpeg(payload, limits);
        let jpeg = jpeg.map_err(|error| pixels::of_codec(&error))?;
        jpeg.map(Bytes::from).ok_or_else(|| Fault::decode("its payload holds no JPEG file"))
    }
    #[cfg(not(feature = "jxl"))]
    {
        let _ = (payload, limits);
        Err(Fault::new(ErrorKind::MissingFeature, "rebuilding JPEG files needs the feature jxl"))
    }
}

/// A JPEG file inside JPEG XL; nothing where that is not possible.
pub(crate) fn transcoded(jpeg: &[u8], limits: Limits) -> Option<Vec<u8>> {
    #[cfg(feature = "jxl")]
    {
        let options = iac_codec::jxl::TranscodeOptions::default().with_limits(limits);
        iac_codec::jxl::transcode_jpeg(jpeg, options).ok()
    }
    #[cfg(not(feature = "jxl"))]
    {
        let _ = (jpeg, limits);
        None
    }
}

fn from_source(
    form: &FrameForm,
    stream: Bytes,
    limits: &Limits,
    uid: &str,
) -> Result<PixelSamples> {
    let encoding = syntax::pixel_encoding(uid)
        .filter(|encoding| *encoding != PixelEncoding::Native)
        .ok_or_else(|| {
            Fault::unsupported(format!(
                "streams of the transfer syntax {} are not supported",
                crate::dicom::build::shown_uid(uid)
            ))
        })?;
    Ok(form.import(encoding, Coded::Stream(stream), limits)?.samples)
}

fn decode_image(
    codec: FrameCodec,
    payload: &[u8],
    form: &FrameForm,
    options: &DecodeOptions,
) -> Result<PixelSamples> {
    let Some((name, shifted)) = codec.image() else {
        return Err(Fault::decode("its codec holds no images"));
    };
    let mut parameters = Parameters::new();
    if name == "jpeg2000" {
        parameters.insert("trust_transform_flag".to_owned(), true.into());
    }
    let decoder = Registry::global()
        .create(&CodecSpec::new(name, parameters))
        .map_err(|error| pixels::of_codec(&error))?;
    let options = options.with_depth(DepthHandling::Unscaled);
    let image =
        decoder.decode_image(payload, &options).map_err(|error| pixels::of_codec(&error))?;
    if image.shape() != form.pixel.shape {
        return Err(Fault::schema(
            PIXEL_DATA,
            format!(
                "the payload holds an image of {}, but the table says {}",
                image.shape(),
                form.pixel.shape
            ),
        ));
    }
    let pixel_type = form.pixel_type();
    let half = if shifted { half_range(form.used_bits()) } else { 0 };
    let low = half.to_le_bytes().first().copied().unwrap_or(0);
    let found = image.sample_type();
    // Streams of few bits are read as bytes, whatever was stored.
    let samples = match (pixel_type, image.into_samples()) {
        (PixelType::U16 | PixelType::I16, Samples::U8(samples)) => {
            Samples::U16(samples.into_iter().map(u16::from).collect())
        }
        (_, samples) => samples,
    };
    Ok(match (pixel_type, samples) {
        (PixelType::U8, Samples::U8(samples)) => PixelSamples::U8(samples),
        (PixelType::U16, Samples::U16(samples)) => PixelSamples::U16(samples),
        (PixelType::I8, Samples::U8(samples)) => PixelSamples::I8(
            samples.into_iter().map(|it| it.wrapping_sub(low).cast_signed()).collect(),
        ),
        (PixelType::I16, Samples::U16(samples)) => PixelSamples::I16(
            samples.into_iter().map(|it| it.wrapping_sub(half).cast_signed()).collect(),
        ),
        _ => {
            return Err(Fault::schema(
                PIXEL_DATA,
                format!(
                    "the payload holds samples of type {found}, but the table says {}",
                    pixel_type.name()
                ),
            ));
        }
    })
}

/// Samples from their bytes; bits are unpacked.
fn samples_of(form: &FrameForm, bytes: &[u8]) -> Result<PixelSamples> {
    let expected = form.stored_bytes();
    if bytes.len() != expected {
        return Err(Fault::schema(
            PIXEL_DATA,
            format!("the payload has {} bytes where {expected} are expected", bytes.len()),
        ));
    }
    if form.is_bits() {
        return Ok(PixelSamples::U8(filter::unpack_bits(bytes, 0, form.pixel.shape.samples())));
    }
    Ok(PixelSamples::from_le_bytes(form.pixel_type(), bytes))
}
