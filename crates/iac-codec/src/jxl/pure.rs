//! The crate `jxl`: decoding in Rust.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::jxl::api::{
    Endianness, Event, ExtraChannel, JxlBitDepth, JxlColorProfile, JxlColorType, JxlDataFormat,
    JxlDecoder, JxlDecoderOptions, JxlOutputBuffer, JxlPixelFormat, ProfileLevel,
};

use super::header::Header;
use super::{damaged, with_signature};
use crate::{CodecError, DepthHandling, ImageViewMut, Limits, Result, SampleType, SamplesMut};

pub(super) const BACKEND: &str = "jxl 0.8 (Rust)";

/// A stream on its way through the decoder.
pub(super) struct Decoder<'p> {
    decoder: Box<JxlDecoder>,
    rest: &'p [u8],
    bytes: usize,
}

impl<'p> Decoder<'p> {
    /// Reads the header of a stream.
    pub(super) fn open(payload: &'p [u8], limits: &Limits) -> Result<(Self, Header)> {
        with_signature(payload)?;
        let mut options = JxlDecoderOptions::default();
        options.max_profile_level = ProfileLevel::Main10;
        // The decoder counts three colours where there is one, and all extra channels.
        let samples = limits.max_samples.saturating_mul(4);
        options.sample_limit = Some(usize::try_from(samples).unwrap_or(usize::MAX));
        let mut opened = Self {
            decoder: Box::new(JxlDecoder::new(options)),
            rest: payload,
            bytes: payload.len(),
        };
        while opened.advance(None)? != Event::BasicInfo {}
        let header = opened.header()?;
        Ok((opened, header))
    }

    /// Runs to the next event; running out of input is an error.
    fn advance(&mut self, buffers: Option<&mut [JxlOutputBuffer<'_>]>) -> Result<Event> {
        let (decoder, rest) = (&mut self.decoder, &mut self.rest);
        // A decoder that panicked is not used again, so whatever state it is in does not matter.
        let result = catch_unwind(AssertUnwindSafe(|| decoder.process(rest, buffers, None)));
        let by = self.bytes.saturating_sub(self.rest.len());
        match result {
            Ok(Ok(Event::NeedMoreInput { .. })) => {
                Err(damaged(format!("its {} bytes end before the image does", self.bytes)))
            }
            Ok(Ok(event)) => Ok(event),
            Ok(Err(error)) => Err(CodecError::Decode {
                name: super::NAME.to_owned(),
                reason: format!("the library finds damage by byte {by} of {}", self.bytes),
                source: Some(std::sync::Arc::new(error)),
            }),
            Err(_) => Err(damaged(format!("the library fails by byte {by} of {}", self.bytes))),
        }
    }

    fn header(&self) -> Result<Header> {
        let (Some(info), Some(format)) =
            (self.decoder.basic_info(), self.decoder.current_pixel_format())
        else {
            return Err(damaged("it has no header".to_owned()));
        };
        let (width, height) = info.size;
        let side = |side: usize| {
            u32::try_from(side).map_err(|_| damaged(format!("a side of it has {side} pixels")))
        };
        let (bits, exponent_bits) = match info.bit_depth {
            JxlBitDepth::Int { bits_per_sample } => (bits_per_sample, 0),
            JxlBitDepth::Float { bits_per_sample, exponent_bits_per_sample } => {
                (bits_per_sample, exponent_bits_per_sample)
            }
        };
        Ok(Header {
            height: side(height)?,
            width: side(width)?,
            color_channels: if format.color_type.is_grayscale() { 1 } else { 3 },
            alpha: info.extra_channels.iter().any(|extra| extra.ec_type == ExtraChannel::Alpha),
            bits,
            exponent_bits,
            animated: info.animation.is_some(),
        })
    }

    /// Colours of the library's own kind are converted on the way out; the other backend gets the
    /// wanted ones out of a profile, which this one cannot.
    fn check_colors(&self) -> Result<()> {
        let converted = self.decoder.basic_info().is_some_and(|info| !info.uses_original_profile);
        let profile = self.decoder.embedded_color_profile();
        if converted && matches!(profile, Some(JxlColorProfile::Icc(_))) {
            return Err(CodecError::Unsupported {
                name: super::NAME.to_owned(),
                reason: "its colours are coded with loss and described by an ICC profile, which \
                         only the backend libjxl (feature `jxl`) can apply"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// Decodes the pixels into a place that has the header's shape and type.
    pub(super) fn pixels(
        mut self,
        header: &Header,
        frame: Option<u32>,
        depth: DepthHandling,
        out: &mut ImageViewMut<'_>,
    ) -> Result<()> {
        let extra_channels = self.decoder.basic_info().map_or(0, |info| info.extra_channels.len());
        let format = JxlPixelFormat {
            color_type: match (header.color_channels, header.alpha) {
                (1, false) => JxlColorType::Grayscale,
                (1, true) => JxlColorType::GrayscaleAlpha,
                (_, false) => JxlColorType::Rgb,
                (_, true) => JxlColorType::Rgba,
            },
            color_data_format: Some(data_format(out.sample_type(), header, depth)?),
            extra_channel_format: vec![None; extra_channels],
        };
        self.decoder
            .set_pixel_format(format)
            .map_err(|error| damaged(format!("the library refuses its format: {error}")))?;
        self.check_colors()?;
        let rows = usize::try_from(header.height).unwrap_or(usize::MAX);
        let bytes = bytes_of(out.samples_mut());
        let row = bytes.len().checked_div(rows).unwrap_or(0);
        let mut skipped = 0;
        loop {
            match self.advance(None)? {
                Event::FrameHeader if skipped == frame.unwrap_or(0) => break,
                Event::FrameHeader => skipped = skipped.saturating_add(1),
                Event::Complete => {
                    return Err(damaged(match frame {
                        Some(frame) => format!("it has no frame {frame}"),
                        None => "it has no frame".to_owned(),
                    }));
                }
                _ => {}
            }
        }
        let mut buffers = [JxlOutputBuffer::new(bytes, rows, row)];
        loop {
            match self.advance(Some(&mut buffers))? {
                Event::FrameComplete { .. } => return Ok(()),
                Event::Complete => return Err(damaged("its frame has no end".to_owned())),
                _ => {}
            }
        }
    }
}

fn data_format(
    sample_type: SampleType,
    header: &Header,
    depth: DepthHandling,
) -> Result<JxlDataFormat> {
    let endianness = Endianness::native();
    match sample_type {
        SampleType::U8 => Ok(JxlDataFormat::U8 { bit_depth: header.output_bits(depth, 8) }),
        SampleType::U16 => {
            Ok(JxlDataFormat::U16 { endianness, bit_depth: header.output_bits(depth, 16) })
        }
        SampleType::F16 => Ok(JxlDataFormat::F16 { endianness }),
        SampleType::F32 => Ok(JxlDataFormat::F32 { endianness }),
        SampleType::I16 => Err(damaged("it has no samples of type int16".to_owned())),
    }
}

fn bytes_of(samples: SamplesMut<'_>) -> &mut [u8] {
    match samples {
        SamplesMut::U8(samples) => samples,
        SamplesMut::U16(samples) => bytemuck::cast_slice_mut(samples),
        SamplesMut::I16(samples) => bytemuck::cast_slice_mut(samples),
        SamplesMut::F16(samples) => bytemuck::cast_slice_mut(samples),
        SamplesMut::F32(samples) => bytemuck::cast_slice_mut(samples),
    }
}
