//! From a frame's bytes to its pixels.

use std::borrow::Cow;

use bytes::Bytes;
use iac_codec::jpeg::complete_stream;
use iac_codec::{
    Codec, CodecError, CodecSpec, DecodeOptions, Limits, Parameters, Registry, SampleType, Scale,
};

use super::instance::Instance;
use crate::dicom::PixelSamples;
use crate::dicom::fault::Fault;
use crate::dicom::pixels::says_ybr;
use crate::dicom::syntax::{JPEG_BASELINE, JPEG_EXTENDED, PixelEncoding};
use crate::error::Result;
use crate::wsi::codec_params::TileColors;
use crate::wsi::tile::{jpeg_parameters, own_colors, rgb_of_ycbcr, rgb_samples};

/// How the samples of frames become RGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colors {
    Rgb,
    YCbCr,
    /// Whether 0 is white.
    Grey(bool),
}

/// Decodes the frames of a raster.
pub(super) struct FrameDecoder {
    colors: Colors,
    /// JPEG frames are decoded as the tiles of a pack are: what their components are, and the codec.
    jpeg: Option<(TileColors, std::result::Result<Codec, CodecError>)>,
    jpeg2000: Option<std::result::Result<Codec, CodecError>>,
    limits: Limits,
    tile: (u64, u64),
}

impl FrameDecoder {
    pub(super) fn new(instance: &Instance, limits: Limits) -> Result<Self> {
        let pixel = &instance.form.pixel;
        let photometric = pixel.photometric.as_str();
        let colors = match photometric {
            "MONOCHROME1" => Colors::Grey(true),
            "MONOCHROME2" => Colors::Grey(false),
            "YBR_FULL" | "YBR_FULL_422" => Colors::YCbCr,
            // Frames of these are converted by what decodes them.
            "RGB" | "YBR_RCT" | "YBR_ICT" | "XYB" => Colors::Rgb,
            _ => {
                let fault = Fault::unsupported(
                    "frames of this photometric interpretation cannot become RGB",
                );
                return Err(instance.fault(0, &fault.at(crate::dicom::pixels::PHOTOMETRIC)));
            }
        };
        let is_jpeg = matches!(instance.syntax.as_str(), JPEG_BASELINE | JPEG_EXTENDED);
        let jpeg = if is_jpeg && pixel.shape.channels() == 3 {
            // Without a word in the stream the object's own is believed.
            let says_ybr = colors != Colors::Rgb || says_ybr(&instance.stream(0)?);
            let components = if says_ybr { TileColors::YCbCr } else { TileColors::Rgb };
            let parameters = jpeg_parameters(components.name(), None);
            Some((components, Registry::global().create(&CodecSpec::new("jpeg", parameters))))
        } else {
            None
        };
        let is_2000 = instance.encoding == PixelEncoding::Codec("jpeg2000");
        let jpeg2000 = is_2000
            .then(|| Registry::global().create(&CodecSpec::new("jpeg2000", Parameters::new())));
        Ok(Self { colors, jpeg, jpeg2000, limits, tile: instance.tile })
    }

    /// The mode of the source, as the reference names them.
    pub(super) const fn mode(&self) -> &'static str {
        match self.colors {
            Colors::Grey(_) => "L",
            _ => "RGB",
        }
    }

    /// What the components of JPEG frames are.
    pub(super) fn jpeg_colors(&self) -> Option<TileColors> {
        self.jpeg.as_ref().map(|(colors, _)| *colors)
    }

    /// Whether frames are JPEG 2000 that decodes to RGB by itself.
    pub(super) fn is_jpeg2000_rgb(&self) -> bool {
        self.jpeg2000.is_some() && self.colors == Colors::Rgb
    }

    fn codec(&self) -> Option<std::result::Result<&Codec, CodecError>> {
        let codec = self.jpeg.as_ref().map(|(_, codec)| codec).or(self.jpeg2000.as_ref())?;
        Some(codec.as_ref().map_err(Clone::clone))
    }

    /// Whether a stream has the size and samples of a tile of a pack.
    pub(super) fn fits(&self, stream: &[u8]) -> bool {
        let Some(Ok(codec)) = self.codec() else { return false };
        codec.image_info(&self.passed_on(stream)).is_ok_and(|info| {
            let size = (u64::from(info.shape.width()), u64::from(info.shape.height()));
            size == self.tile && info.shape.channels() == 3 && info.sample_type == SampleType::U8
        })
    }

    /// Tests a stream that is passed on against what the first one is.
    pub(super) fn check(&self, instance: &Instance, frame: u64, stream: &[u8]) -> Result<()> {
        let wrong = |reason: &str| Err(instance.fault(frame, &Fault::decode(reason)));
        if !self.fits(stream) {
            return wrong("its stream has another size or other samples than the object says");
        }
        let is_rgb = self.jpeg_colors() == Some(TileColors::Rgb);
        if is_rgb && says_ybr(stream) {
            return wrong("its stream has other colours than the first frame's");
        }
        Ok(())
    }

    /// A stream as it becomes a record.
    pub(super) fn passed_on(&self, stream: &[u8]) -> Vec<u8> {
        // Values have even lengths: a zero may follow.
        let stream = match stream {
            [whole @ .., 0] if whole.ends_with(&[0xFF, 0xD9]) => whole,
            all => all,
        };
        match self.jpeg_colors() {
            Some(colors) => own_colors(stream, colors == TileColors::Rgb).into_owned(),
            None => stream.to_vec(),
        }
    }

    /// A stream as a JPEG file of its own.
    pub(super) fn complete(&self, stream: &[u8]) -> Option<Vec<u8>> {
        let colors = self.jpeg_colors()?;
        let parameters = jpeg_parameters(colors.name(), None);
        complete_stream(&parameters, &self.passed_on(stream)).ok().map(Cow::into_owned)
    }

    /// A JPEG frame at 1/8 of its size, where that is possible.
    pub(super) fn eighth(
        &self,
        instance: &Instance,
        frame: u64,
        payload: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let fail = |error: CodecError| instance.codec_error(frame, &error);
        let Some((_, codec)) = &self.jpeg else { return Ok(None) };
        let codec = codec.as_ref().map_err(|error| fail(error.clone()))?;
        if !codec.image_capabilities().map_err(fail)?.scales.contains(&Scale::Eighth) {
            return Ok(None);
        }
        let options = DecodeOptions::from(self.limits).with_scale(Scale::Eighth);
        let image = codec.decode_image(payload, &options).map_err(fail)?;
        let shape = image.shape();
        let fits = u64::from(shape.width()).saturating_mul(8) == self.tile.0
            && u64::from(shape.height()).saturating_mul(8) == self.tile.1;
        Ok(fits.then(|| rgb_samples(image)))
    }

    /// A frame's pixels: rows of RGB.
    pub(super) fn decode(&self, instance: &Instance, frame: u64) -> Result<Vec<u8>> {
        if let Some((_, codec)) = &self.jpeg {
            let fail = |error: CodecError| instance.codec_error(frame, &error);
            let codec = codec.as_ref().map_err(|error| fail(error.clone()))?;
            let stream: Bytes = instance.stream(frame)?;
            let is_rgb = self.jpeg_colors() == Some(TileColors::Rgb);
            if is_rgb && says_ybr(&stream) {
                let fault = Fault::decode("its stream has other colours than the first frame's");
                return Err(instance.fault(frame, &fault));
            }
            let options = DecodeOptions::from(self.limits);
            let image = codec.decode_image(&self.passed_on(&stream), &options).map_err(fail)?;
            if image.shape() != instance.form.pixel.shape || image.sample_type() != SampleType::U8 {
                let fault = Fault::decode(format!(
                    "its stream is {} of type {} instead of {} of type uint8",
                    image.shape(),
                    image.sample_type(),
                    instance.form.pixel.shape
                ));
                return Err(instance.fault(frame, &fault));
            }
            return Ok(rgb_samples(image));
        }
        let coded = instance.coded(frame)?;
        let imported = instance.form.import(instance.encoding, coded, &self.limits);
        let imported = imported.map_err(|fault| instance.fault(frame, &fault))?;
        let PixelSamples::U8(samples) = imported.samples else {
            let fault = Fault::unsupported("its samples are signed");
            return Err(instance.fault(frame, &fault));
        };
        Ok(match self.colors {
            Colors::Rgb => samples,
            Colors::YCbCr => {
                let mut samples = samples;
                for pixel in samples.as_chunks_mut::<3>().0 {
                    *pixel = rgb_of_ycbcr(*pixel);
                }
                samples
            }
            Colors::Grey(inverted) => samples
                .iter()
                .flat_map(|grey| [if inverted { 255_u8.saturating_sub(*grey) } else { *grey }; 3])
                .collect(),
        })
    }
}
