//! The codec `jpeg`: JPEG streams, lossy and lossless.
//!
//! Read are sequential and progressive streams of 8 and 12 bits, Huffman or arithmetic coded, and
//! lossless ones (SOF3) of 2 to 16 bits, with one, three or four components, any whole sampling
//! factors and restart markers. Samples are never rescaled: up to 8 bits they become `u8`, above
//! that `u16`. What the components mean follows the rules of libjpeg: a JFIF marker says `YCbCr`,
//! else a marker of Adobe decides, else the identifiers of the components. Three components become
//! RGB. Four stay four, CMYK: the numbers are those in the stream, which Adobe's programs store
//! inverted (0 is full ink); YCCK is converted to CMYK, inverted or not as it was stored. Profiles
//! and orientation are ignored, bytes after the end marker too.
//!
//! Anything that libjpeg warns of is an error: missing data, a missing end marker, bytes between
//! segments, a Huffman code that does not exist. With
//! [`DamageHandling::Tolerate`] what there is comes back.
//!
//! # Parameters
//!
//! `quality` (1 to 100, default 90), `lossless`, `progressive` (default false), `subsampling`
//! (`444`, `422`, `420`, the default), `tables_base64`, `encoded_color_space` (`RGB`, `YCbCr`).
//! When one of the last two is there, each record is part of a TIFF file: it is joined with the
//! tables, and its components are what the colour space says, unless it carries a JFIF marker.
//! Further ones for encoding: `bits`, `predictor`, `restart_rows`, `optimize`; see
//! [`JpegOptions`].
//!
//! # Backends
//!
//! libjpeg-turbo (feature `jpeg`) encodes and decodes everything above. The crate `jpeg-decoder`
//! (feature `jpeg-decoder`) decodes lossy streams of 8 bits with Huffman codes, which its own
//! arithmetic makes differ by a few levels; lossless ones are decoded by this crate, exactly. The
//! first is used when both are compiled in.

#[cfg(feature = "jpeg-decoder")]
mod huffman;
#[cfg(feature = "jpeg-decoder")]
mod lossless;
mod marker;
#[cfg(feature = "jpeg")]
mod native;
mod options;
#[cfg(feature = "jpeg-decoder")]
mod pure;
#[cfg(feature = "jpeg-decoder")]
mod scans;

use std::borrow::Cow;
use std::cell::Cell;

pub use options::{DEFAULT_QUALITY, EncodedColorSpace, JpegBackend, JpegOptions, Subsampling};

use crate::codec::u64_len;
use crate::image::{misfit, reduce_into};
use crate::{
    Codec, CodecError, ColorHandling, DamageHandling, DecodeOptions, Image, ImageCapabilities,
    ImageCodec, ImageInfo, ImageShape, ImageView, ImageViewMut, Parameters, Result, SampleType,
    SamplesMut, Scale,
};
use marker::{Color, Header, Process, Transform, join_tiff, unsupported, without_transform};

const NAME: &str = "jpeg";

/// Bytes of a thread's buffer for joined streams that are kept from one to the next.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Scans of a stream that are decoded at most; writers of progressive streams make about ten.
const MAX_SCANS: u16 = 500;

/// Scans that are decoded of an image of any size.
const LEAST_SCANS: u16 = 32;

/// How often scans may come upon a block of 8 x 8 in all, beyond [`LEAST_SCANS`]. A scan of a large
/// image can have a few bytes, and still takes time for each block.
const MAX_BLOCK_VISITS: u64 = 1 << 27;

const SCALES: [Scale; 4] = [Scale::Full, Scale::Half, Scale::Quarter, Scale::Eighth];

pub(crate) fn from_parameters(parameters: &Parameters) -> Result<Codec> {
    Ok(Codec::from_image_codec(Jpeg::new(JpegOptions::from_parameters(parameters)?)))
}

/// A record of a pack with these parameters as a JPEG file of its own: one that was taken out of a
/// TIFF file is joined with the tables, and says what its components are.
///
/// # Errors
///
/// [`CodecError::Parameter`] for wrong parameters, [`CodecError::Decode`] when the record's segments
/// do not lead to a scan.
pub fn complete_stream<'a>(parameters: &Parameters, payload: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    let options = JpegOptions::from_parameters(parameters)?;
    if !options.is_tiff() {
        return Ok(Cow::Borrowed(payload));
    }
    let mut joined = Vec::new();
    options.join(payload, &mut joined)?;
    Ok(Cow::Owned(joined))
}

#[derive(Debug)]
struct Jpeg {
    options: JpegOptions,
}

impl JpegOptions {
    /// Joins a part of a TIFF file with the tables.
    fn join(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let transform = match self.color_space.unwrap_or_default() {
            EncodedColorSpace::Rgb => Transform::None,
            EncodedColorSpace::YCbCr => Transform::YCbCr,
        };
        join_tiff(self.tables.as_deref().unwrap_or_default(), payload, transform, out)
    }
}

impl Jpeg {
    const fn new(options: JpegOptions) -> Self {
        Self { options }
    }

    /// Runs with the stream that is decoded for a payload, and its header.
    fn with_stream<T>(
        &self,
        payload: &[u8],
        options: &DecodeOptions,
        run: impl FnOnce(&[u8], &Header) -> Result<T>,
    ) -> Result<T> {
        let lenient = options.damage == DamageHandling::Tolerate;
        let stored = options.color == ColorHandling::Stored;
        if !self.options.is_tiff() && !stored {
            return run(payload, &Header::read(payload, lenient)?);
        }
        with_joined(|joined| {
            if self.options.is_tiff() {
                self.options.join(payload, joined)?;
                let header = Header::read(joined, lenient)?;
                // The end marker that joining puts there hides it when later scans are missing.
                let several = header.process == Process::Progressive || header.several_scans;
                if several && !lenient && !payload.windows(2).any(|two| two == [0xFF, marker::EOI])
                {
                    return Err(damaged("it is cut: there is no end-of-image marker".to_owned()));
                }
                if !stored {
                    return run(joined, &header);
                }
                let whole = joined.clone();
                without_transform(&whole, lenient, joined)?;
            } else {
                // Damage to the start is told apart before anything is copied.
                Header::read(payload, lenient)?;
                without_transform(payload, lenient, joined)?;
            }
            run(joined, &Header::read(joined, lenient)?)
        })
    }

    /// What a stream decodes to, tested against the limits.
    fn plan(
        &self,
        stream: &[u8],
        header: &Header,
        options: &DecodeOptions,
    ) -> Result<(ImageShape, SampleType)> {
        let full = header.shape()?;
        full.check(&options.limits)?;
        let (shape, sample_type) = (options.scale.apply(full), sample_type(header));
        let bytes = u64_len(shape.samples().saturating_mul(sample_type.bytes()));
        options.limits.check_decoded_bytes(bytes)?;
        options.limits.check_native_memory(self.working_memory(header, full))?;
        if options.damage == DamageHandling::Refuse {
            if let Some(transform) = header.odd_transform() {
                return Err(damaged(format!(
                    "its Adobe marker has transform {transform}, which {} components cannot have",
                    header.count
                )));
            }
            let (least, found) = (header.least_bytes(), u64_len(stream.len()));
            if found < least {
                return Err(damaged(format!(
                    "{} by {} pixels take {least} bytes at least, and it has {found}",
                    header.height, header.width
                )));
            }
        }
        let convert = matches!(header.color(), Color::YCbCr | Color::Ycck);
        if header.process == Process::Lossless && convert {
            return Err(unsupported(
                "a lossless stream that declares YCbCr or YCCK; its components can be had as they \
                 are stored",
            ));
        }
        Ok((shape, sample_type))
    }

    /// Bytes that the library holds beyond the image itself, where they grow with it.
    fn working_memory(&self, header: &Header, full: ImageShape) -> u64 {
        let samples = u64_len(full.samples());
        let several = header.process == Process::Progressive || header.several_scans;
        match self.options.backend {
            #[cfg(feature = "jpeg")]
            JpegBackend::Turbo => match header.process {
                Process::Lossless if several => samples.saturating_mul(2),
                _ if several => header.coefficient_bytes(),
                _ => 0,
            },
            #[cfg(feature = "jpeg-decoder")]
            JpegBackend::PureRust => match header.process {
                Process::Lossless => 0,
                // Planes and joined image, and the coefficients of several scans.
                _ => {
                    let coefficients = header.coefficient_bytes();
                    let planes = coefficients >> 1;
                    let coefficients = if several { coefficients } else { 0 };
                    planes.saturating_add(samples).saturating_add(coefficients)
                }
            },
        }
    }

    /// Decodes into a place of the shape and type that [`Jpeg::plan`] gave.
    fn fill(
        &self,
        stream: &[u8],
        header: &Header,
        options: &DecodeOptions,
        out: &mut ImageViewMut<'_>,
    ) -> Result<()> {
        let lenient = options.damage == DamageHandling::Tolerate;
        if header.process == Process::Lossless && options.scale != Scale::Full {
            // There is nothing to scale before the samples are there.
            let mut full = Image::zeroed(header.shape()?, sample_type(header), &options.limits)?;
            let at_full = options.with_scale(Scale::Full);
            self.fill(stream, header, &at_full, &mut full.as_view_mut())?;
            return reduce_into(NAME, &full.as_view(), options.scale, out);
        }
        let out = out.samples_mut();
        match self.options.backend {
            #[cfg(feature = "jpeg")]
            JpegBackend::Turbo => {
                native::decode(stream, header, options.scale, lenient, &options.limits, out)
            }
            #[cfg(feature = "jpeg-decoder")]
            JpegBackend::PureRust => pure::decode(stream, header, options.scale, lenient, out),
        }
    }

    /// The bits that an image is encoded with; an error if it cannot be.
    #[cfg(feature = "jpeg")]
    fn encoded_bits(&self, image: &ImageView<'_>) -> Result<u8> {
        let (shape, sample_type) = (image.shape(), image.sample_type());
        let refuse = |reason: String| Err(CodecError::encode(NAME, reason));
        if !matches!(shape.channels(), 1 | 3) {
            return refuse(format!("{} channels instead of 1 or 3", shape.channels()));
        }
        let most = u32::from(marker::MAX_SIDE);
        if shape.height() > most || shape.width() > most {
            return refuse(format!("{shape} has a side above {most}"));
        }
        let limit = crate::Limits::default().max_samples;
        if u64_len(shape.samples()) > limit {
            return refuse(format!("{shape} has more than {limit} samples"));
        }
        let (least, most) = match (sample_type, self.options.lossless) {
            (SampleType::U8, true) => (2, 8),
            (SampleType::U8, false) => (8, 8),
            (SampleType::U16, true) => (9, 16),
            (SampleType::U16, false) => (12, 12),
            (other, _) => return refuse(format!("type {other} instead of uint8 or uint16")),
        };
        let bits = match (self.options.bits, sample_type, self.options.lossless) {
            (None, SampleType::U16, false) => {
                return refuse(
                    "type uint16 is stored without loss, or with the option of 12 bits".to_owned(),
                );
            }
            (bits, ..) => bits.unwrap_or(most),
        };
        if !(least..=most).contains(&bits) {
            return refuse(format!("{bits} bits instead of {least} to {most} for {sample_type}"));
        }
        let largest = match image.samples() {
            crate::SamplesRef::U8(samples) if bits < 8 => {
                samples.iter().copied().max().map_or(0, u32::from)
            }
            crate::SamplesRef::U16(samples) if bits < 16 => {
                samples.iter().copied().max().map_or(0, u32::from)
            }
            _ => 0,
        };
        if largest >> bits != 0 {
            return refuse(format!("a sample is {largest}, which does not fit {bits} bits"));
        }
        Ok(bits)
    }
}

impl ImageCodec for Jpeg {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Parameters {
        self.options.parameters()
    }

    fn capabilities(&self) -> ImageCapabilities {
        match self.options.backend {
            #[cfg(feature = "jpeg")]
            JpegBackend::Turbo => ImageCapabilities::new(native::VERSION)
                .with_encoding(&[SampleType::U8, SampleType::U16], &[1, 3])
                .with_scales(&SCALES),
            #[cfg(feature = "jpeg-decoder")]
            JpegBackend::PureRust => {
                ImageCapabilities::new("jpeg-decoder 0.3").with_scales(&SCALES)
            }
        }
    }

    fn encode(&self, image: &ImageView<'_>) -> Result<Vec<u8>> {
        self.check_encode()?;
        match self.options.backend {
            #[cfg(feature = "jpeg")]
            JpegBackend::Turbo => native::encode(image, &self.options, self.encoded_bits(image)?),
            #[cfg(feature = "jpeg-decoder")]
            JpegBackend::PureRust => {
                let _ = image;
                Err(decodes_only())
            }
        }
    }

    fn info(&self, payload: &[u8]) -> Result<ImageInfo> {
        self.with_stream(payload, &DecodeOptions::default(), |_, header| {
            let mut info = ImageInfo::new(header.shape()?, sample_type(header));
            info.bits = Some(header.precision);
            Ok(info)
        })
    }

    fn decode(&self, payload: &[u8], options: &DecodeOptions) -> Result<Image> {
        self.with_stream(payload, options, |stream, header| {
            let (shape, sample_type) = self.plan(stream, header, options)?;
            let mut image = Image::zeroed(shape, sample_type, &options.limits)?;
            self.fill(stream, header, options, &mut image.as_view_mut())?;
            Ok(image)
        })
    }

    fn decode_into(
        &self,
        payload: &[u8],
        out: &mut ImageViewMut<'_>,
        options: &DecodeOptions,
    ) -> Result<()> {
        self.with_stream(payload, options, |stream, header| {
            let found = self.plan(stream, header, options)?;
            let place = (out.shape(), out.sample_type());
            if found != place {
                return Err(misfit(NAME, found, place));
            }
            if options.damage == DamageHandling::Tolerate {
                // What damage leaves out is not to be what the caller had there before.
                match out.samples_mut() {
                    SamplesMut::U8(samples) => samples.fill(0),
                    SamplesMut::U16(samples) => samples.fill(0),
                    _ => {}
                }
            }
            self.fill(stream, header, options, out)
        })
    }

    fn check_encode(&self) -> Result<()> {
        match self.options.backend {
            #[cfg(feature = "jpeg")]
            JpegBackend::Turbo => Ok(()),
            #[cfg(feature = "jpeg-decoder")]
            JpegBackend::PureRust => Err(decodes_only()),
        }
    }

    fn encode_members(&self) -> Parameters {
        self.options.encode_members()
    }
}

const fn sample_type(header: &Header) -> SampleType {
    if header.precision <= 8 { SampleType::U8 } else { SampleType::U16 }
}

#[cfg(feature = "jpeg-decoder")]
const fn decodes_only() -> CodecError {
    CodecError::MissingFeature { name: NAME, feature: NAME }
}

/// Scans that a stream may have.
fn max_scans(header: &Header) -> u16 {
    let blocks = header.coefficient_bytes() >> 7;
    let scans = MAX_BLOCK_VISITS.checked_div(blocks).unwrap_or(u64::MAX);
    u16::try_from(scans).unwrap_or(u16::MAX).clamp(LEAST_SCANS, MAX_SCANS)
}

fn too_many_scans(header: &Header) -> CodecError {
    let allowed = u64::from(max_scans(header));
    CodecError::Limit { what: "scans", found: allowed.saturating_add(1), allowed }
}

fn damaged(reason: String) -> CodecError {
    CodecError::decode(NAME, reason)
}

thread_local! {
    static JOINED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Runs with this thread's buffer for streams that are put together.
///
/// The buffer is taken out for the time of the call, so a use within a use gets a fresh one.
fn with_joined<T>(run: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = JOINED.try_with(Cell::take).unwrap_or_default();
    let result = run(&mut buffer);
    if buffer.capacity() <= MAX_KEPT_BYTES {
        let _ = JOINED.try_with(|cell| cell.set(buffer));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scans_of(side: u16) -> u16 {
        let [high, low] = side.to_be_bytes();
        let mut stream = vec![0xFF, marker::SOI];
        stream.extend([0xFF, 0xC2, 0, 11, 8, high, low, high, low, 1, 1, 0x11, 0]);
        stream.extend([0xFF, marker::SOS, 0, 8, 1, 1, 0, 0, 0, 0, 0]);
        max_scans(&Header::read(&stream, false).unwrap())
    }

    #[test]
    fn large_images_may_have_fewer_scans() {
        assert_eq!([8, 4000, 8000, 16_000, 65_500].map(scans_of), [500, 500, 134, 33, 32]);
    }
}
