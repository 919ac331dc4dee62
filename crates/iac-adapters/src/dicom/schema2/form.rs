//! How an object describes its frames, whatever their samples are.

use bytes::Bytes;
use dicom_core::Tag;
use iac_codec::{ImageShape, Limits};

use super::filter;
use crate::dicom::fault::{Fault, Result};
use crate::dicom::object::{DataSet, PIXEL_DATA};
use crate::dicom::pixels::{
    self, BITS_ALLOCATED, BITS_STORED, COLUMNS, Coded, HIGH_BIT, PHOTOMETRIC, PIXEL_REPRESENTATION,
    PLANAR, PixelForm, ROWS, SAMPLES_PER_PIXEL,
};
use crate::dicom::rle;
use crate::dicom::samples::{PixelSamples, PixelType};
use crate::dicom::syntax::PixelEncoding;

/// The element with floating-point samples of 32 bits.
pub(crate) const FLOAT_PIXELS: Tag = Tag(0x7FE0, 0x0008);
/// The element with floating-point samples of 64 bits.
pub(crate) const DOUBLE_PIXELS: Tag = Tag(0x7FE0, 0x0009);
/// The elements that hold frames.
pub(crate) const PIXEL_ELEMENTS: [Tag; 3] = [PIXEL_DATA, FLOAT_PIXELS, DOUBLE_PIXELS];

/// What the samples of a frame are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One bit each, packed.
    Bits,
    /// Whole numbers of 8 or 16 bits.
    Words,
    /// Whole numbers of 32 bits.
    Longs,
    /// Floating-point numbers of so many bytes.
    Floats(usize),
}

/// How the frames of an object are described. For samples of one bit, `pixel` describes the bytes
/// that they are read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrameForm {
    pub(crate) pixel: PixelForm,
    pub(crate) kind: Kind,
}

/// One frame, decoded.
pub(crate) struct ImportedFrame {
    pub(crate) samples: PixelSamples,
    /// Each stored word with the bits of the samples cleared, little-endian, where one holds
    /// anything.
    pub(crate) aside: Option<Vec<u8>>,
    /// The photometric interpretation of the samples, where it is not the source's.
    pub(crate) label: Option<&'static str>,
}

impl FrameForm {
    /// Reads and checks the description of the frames in `element`.
    pub(crate) fn of(data: &DataSet, element: Tag) -> Result<Self> {
        let number = |tag: Tag| {
            data.u16(tag).ok_or_else(|| {
                Fault::schema(tag, "is missing or empty, but the object has pixel data")
            })
        };
        let allocated = number(BITS_ALLOCATED)?;
        let kind = match (element, allocated) {
            (FLOAT_PIXELS, 32) => Kind::Floats(4),
            (DOUBLE_PIXELS, 64) => Kind::Floats(8),
            (PIXEL_DATA, 8 | 16) => {
                return Ok(Self { pixel: PixelForm::of_frame(data)?, kind: Kind::Words });
            }
            (PIXEL_DATA, 1) => Kind::Bits,
            (PIXEL_DATA, 32) => Kind::Longs,
            _ => {
                return Err(Fault::unsupported(format!(
                    "{allocated} bits allocated are not supported for this pixel data"
                ))
                .at(BITS_ALLOCATED));
            }
        };
        let (rows, columns) = (number(ROWS)?, number(COLUMNS)?);
        if rows == 0 || columns == 0 {
            return Err(Fault::schema(
                ROWS,
                format!("the image has {rows} rows and {columns} columns"),
            ));
        }
        let channels = data.u16(SAMPLES_PER_PIXEL).unwrap_or(1);
        if !matches!(channels, 1 | 3) || (channels == 3 && kind != Kind::Longs) {
            return Err(Fault::unsupported(format!(
                "{channels} samples for each pixel are not supported for this pixel data"
            ))
            .at(SAMPLES_PER_PIXEL));
        }
        let float = matches!(kind, Kind::Floats(_));
        let stored = match data.u16(BITS_STORED) {
            Some(stored) => stored,
            None => allocated,
        };
        if stored == 0 || stored > allocated {
            return Err(Fault::schema(
                BITS_STORED,
                format!("is {stored}, but {allocated} bits are allocated"),
            ));
        }
        let signed = match data.u16(PIXEL_REPRESENTATION) {
            Some(1) if !float => true,
            Some(0 | 1) | None => false,
            Some(other) => return Err(Fault::schema(PIXEL_REPRESENTATION, format!("is {other}"))),
        };
        let photometric = data.ascii(PHOTOMETRIC).unwrap_or_default();
        Ok(Self::new(
            kind,
            ImageShape::new(rows.into(), columns.into(), channels.into())
                .map_err(|error| pixels::of_codec(&error))?,
            [stored, data.u16(HIGH_BIT).unwrap_or(stored.saturating_sub(1))],
            signed,
            photometric,
            channels > 1 && data.u16(PLANAR) == Some(1),
        ))
    }

    /// A form of another kind than words.
    fn new(
        kind: Kind,
        shape: ImageShape,
        [stored, high_bit]: [u16; 2],
        signed: bool,
        photometric: String,
        planar: bool,
    ) -> Self {
        let (allocated, stored, high_bit, signed) = match kind {
            Kind::Bits => (8, 1, 0, false),
            Kind::Floats(bytes) => {
                (u16::try_from(bytes.saturating_mul(8)).unwrap_or(0), stored, high_bit, false)
            }
            _ => (32, stored, high_bit, signed),
        };
        let pixel = PixelForm { shape, allocated, stored, high_bit, signed, photometric, planar };
        Self { pixel, kind }
    }

    /// The form that a row of the frame table describes.
    pub(crate) fn of_row(
        pixel_type: PixelType,
        shape: ImageShape,
        [allocated, stored, high_bit]: [u16; 3],
        photometric: String,
    ) -> Self {
        let kind = match pixel_type {
            PixelType::U8 if allocated == 1 => Kind::Bits,
            PixelType::U32 | PixelType::I32 => Kind::Longs,
            PixelType::F32 | PixelType::F64 => Kind::Floats(pixel_type.bytes()),
            _ => Kind::Words,
        };
        let signed = pixel_type.is_signed();
        if kind != Kind::Words {
            return Self::new(kind, shape, [stored, high_bit], signed, photometric, false);
        }
        let allocated = if pixel_type.bytes() == 1 { 8 } else { 16 };
        let stored = if stored == 0 || stored > allocated { allocated } else { stored };
        let pixel =
            PixelForm { shape, allocated, stored, high_bit, signed, photometric, planar: false };
        Self { pixel, kind }
    }

    pub(crate) fn is_bits(&self) -> bool {
        self.kind == Kind::Bits
    }

    /// Whether image codecs hold these samples.
    pub(crate) fn fits_image_codecs(&self) -> bool {
        self.kind == Kind::Words
    }

    pub(crate) fn channels(&self) -> usize {
        if self.pixel.shape.channels() == 3 { 3 } else { 1 }
    }

    /// The type that samples are read as.
    pub(crate) fn pixel_type(&self) -> PixelType {
        match (self.kind, self.pixel.allocated, self.pixel.signed) {
            (Kind::Bits, ..) | (Kind::Words, 8, false) => PixelType::U8,
            (Kind::Words, 8, true) => PixelType::I8,
            (Kind::Words, _, false) => PixelType::U16,
            (Kind::Words, _, true) => PixelType::I16,
            (Kind::Longs, _, false) => PixelType::U32,
            (Kind::Longs, _, true) => PixelType::I32,
            (Kind::Floats(8), ..) => PixelType::F64,
            (Kind::Floats(_), ..) => PixelType::F32,
        }
    }

    /// Bits of a sample that may be set.
    pub(crate) fn used_bits(&self) -> u16 {
        let PixelForm { allocated, stored, high_bit, .. } = self.pixel;
        if high_bit == stored.saturating_sub(1) { stored.clamp(1, allocated) } else { allocated }
    }

    /// Bytes of a frame, bits packed.
    pub(crate) fn stored_bytes(&self) -> usize {
        let samples = self.pixel.shape.samples();
        if self.is_bits() {
            samples.div_ceil(8)
        } else {
            samples.saturating_mul(self.pixel_type().bytes())
        }
    }

    /// Bits of a frame in native pixel data.
    pub(crate) fn native_bits(&self) -> u64 {
        let samples = u64::try_from(self.pixel.shape.samples()).unwrap_or(u64::MAX);
        if self.is_bits() {
            return samples;
        }
        let width = u64::try_from(self.pixel_type().bytes()).unwrap_or(8);
        samples.saturating_mul(width).saturating_mul(8)
    }

    /// The same when two pixels share their colours.
    pub(crate) fn halved_bits(&self) -> Option<u64> {
        let halved = self.pixel.photometric == "YBR_FULL_422" && self.pixel.allocated == 8;
        halved.then(|| {
            let samples = u64::try_from(self.pixel.shape.samples()).unwrap_or(u64::MAX);
            // Two of three samples.
            samples.checked_div(3).unwrap_or(0).saturating_mul(16)
        })
    }

    /// Decodes one frame. Native bits begin with the first one.
    pub(crate) fn import(
        &self,
        encoding: PixelEncoding,
        coded: Coded,
        limits: &Limits,
    ) -> Result<ImportedFrame> {
        let plain = |samples| Ok(ImportedFrame { samples, aside: None, label: None });
        match (self.kind, coded) {
            (Kind::Bits, Coded::Native(bytes)) => {
                let count = self.pixel.shape.samples();
                let short = bytes.len() < count.div_ceil(8);
                if short {
                    return Err(self.too_short(bytes.len()));
                }
                plain(PixelSamples::U8(filter::unpack_bits(&bytes, 0, count)))
            }
            (Kind::Longs | Kind::Floats(_), Coded::Native(bytes)) => {
                let expected = self.stored_bytes();
                let bytes = bytes.get(..expected).ok_or_else(|| self.too_short(bytes.len()))?;
                let samples = if self.pixel.planar {
                    let width = self.pixel_type().bytes();
                    PixelSamples::from_le_bytes(
                        self.pixel_type(),
                        &interleaved(bytes, self.channels(), width),
                    )
                } else {
                    PixelSamples::from_le_bytes(self.pixel_type(), bytes)
                };
                plain(samples)
            }
            (Kind::Longs, Coded::Stream(stream)) if encoding == PixelEncoding::Rle => {
                let pixels = self.pixel.shape.samples().checked_div(self.channels()).unwrap_or(0);
                let bytes = rle::decode(&stream, pixels, self.channels(), 4)?;
                plain(PixelSamples::from_le_bytes(self.pixel_type(), &bytes))
            }
            (Kind::Longs | Kind::Floats(_), Coded::Stream(_)) => {
                Err(Fault::unsupported("compressed samples of 32 and 64 bits are not supported")
                    .at(PIXEL_DATA))
            }
            (Kind::Bits | Kind::Words, coded) => {
                let native = match &coded {
                    Coded::Native(bytes) if !self.pixel.planar => Some(bytes.clone()),
                    _ => None,
                };
                let imported = pixels::import_image(self.pixel.clone(), encoding, coded, limits)?;
                let samples =
                    PixelSamples::from_unsigned(self.pixel_type(), imported.image.into_samples())
                        .ok_or_else(|| Fault::decode("a frame has samples of another type"))?;
                let aside = imported
                    .aside
                    .or_else(|| native.and_then(|bytes| self.unused_bits(&bytes, &samples)));
                Ok(ImportedFrame { samples, aside, label: imported.label })
            }
        }
    }

    /// Bits of native words above those of samples, where they are not what samples are filled up
    /// with: zeros in place of the sign are also something that a file says.
    fn unused_bits(&self, bytes: &[u8], samples: &PixelSamples) -> Option<Vec<u8>> {
        let PixelForm { allocated, stored, .. } = self.pixel;
        if !self.pixel.signed || stored == allocated {
            return None;
        }
        let words = samples.to_le_bytes();
        let bytes = bytes.get(..words.len()).filter(|bytes| **bytes != *words)?;
        let mask = 1_u16.checked_shl(stored.into()).unwrap_or(0).wrapping_sub(1);
        let [low, high] = mask.to_le_bytes();
        let masks = if allocated == 8 { [low, low] } else { [low, high] };
        Some(bytes.iter().zip(masks.iter().cycle()).map(|(byte, mask)| byte & !mask).collect())
    }

    fn too_short(&self, found: usize) -> Fault {
        Fault::schema(
            PIXEL_DATA,
            format!("a frame has {found} bytes where {} are expected", self.stored_bytes()),
        )
    }
}

/// Planes of colours as pixels.
fn interleaved(bytes: &[u8], channels: usize, width: usize) -> Bytes {
    let plane = bytes.len().checked_div(channels.max(1)).unwrap_or(0).max(1);
    let mut mixed = Vec::with_capacity(bytes.len());
    for position in (0..plane).step_by(width.max(1)) {
        for plane in bytes.chunks_exact(plane) {
            let end = position.saturating_add(width);
            mixed.extend_from_slice(plane.get(position..end).unwrap_or_default());
        }
    }
    mixed.into()
}
