//! Stored samples as values: rescaled, windowed, in colours.

use dicom_core::{Tag, VR};
use iac_codec::ImageShape;

use super::object::DataSet;
use super::pixels::PHOTOMETRIC;
use super::read::DicomPackReader;
use super::samples::{PixelSamples, Pixels};
use crate::error::{AdapterError, Result};

const MODALITY_LUT: Tag = Tag(0x0028, 0x3000);
const LUT_DESCRIPTOR: Tag = Tag(0x0028, 0x3002);
const LUT_DATA: Tag = Tag(0x0028, 0x3006);
const SLOPE: Tag = Tag(0x0028, 0x1053);
const INTERCEPT: Tag = Tag(0x0028, 0x1052);
const WINDOW_CENTER: Tag = Tag(0x0028, 0x1050);
const WINDOW_WIDTH: Tag = Tag(0x0028, 0x1051);

/// A linear window: what is shown from black to white.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The value in the middle, in the unit of the rescaled values: Hounsfield units for CT.
    pub center: f64,
    /// The number of values from black to white, in the same unit; at least 1.
    pub width: f64,
}

/// A table that samples are looked up in.
#[derive(Debug, PartialEq)]
pub(super) struct Lut {
    first: i32,
    entries: Vec<u16>,
}

impl Lut {
    pub(super) fn get(&self, sample: i32) -> u16 {
        let last = self.entries.len().saturating_sub(1);
        let place = usize::try_from(sample.saturating_sub(self.first)).unwrap_or(0).min(last);
        self.entries.get(place).copied().unwrap_or(0)
    }
}

impl DicomPackReader {
    /// An image as real values: the modality LUT or rescale slope and intercept applied. An object
    /// without either gives its samples.
    ///
    /// # Errors
    ///
    /// As [`read_pixels`](Self::read_pixels) and [`attributes`](Self::attributes).
    pub fn read_values(&self, row: u64) -> Result<(ImageShape, Vec<f32>)> {
        let pixels = self.read_pixels(row)?;
        let data = self.frame_data_set(row)?;
        Ok((pixels.shape, values(&pixels, &data)))
    }

    /// An image as it is shown: 8 bits, grey or RGB. Grey images go through the modality LUT and a
    /// window (the given one, that of the object, or the range of its values) and are inverted for
    /// MONOCHROME1; palettes are applied and YBR is converted.
    ///
    /// # Errors
    ///
    /// As [`read_values`](Self::read_values); [`AdapterError::Schema`] when a palette is missing or
    /// damaged.
    pub fn read_rendered(&self, row: u64, window: Option<Window>) -> Result<(ImageShape, Vec<u8>)> {
        let pixels = self.read_pixels(row)?;
        let data = self.frame_data_set(row)?;
        let photometric = data.ascii(PHOTOMETRIC).unwrap_or_default();
        if pixels.shape.channels() == 3 || photometric == "PALETTE COLOR" {
            return self.rgb(row, &pixels, &data, &photometric);
        }
        let values = values(&pixels, &data);
        let window = window.or_else(|| stated_window(&data)).unwrap_or_else(|| range(&values));
        let inverted = photometric == "MONOCHROME1";
        let shown = values.iter().map(|value| {
            let grey = windowed((*value).into(), window);
            if inverted { 255_u8.saturating_sub(grey) } else { grey }
        });
        Ok((pixels.shape, shown.collect()))
    }

    /// A colour image as RGB of 8 bits: palettes are applied and YBR is converted. A grey image
    /// comes as three equal channels of its upper 8 bits.
    ///
    /// # Errors
    ///
    /// As [`read_rendered`](Self::read_rendered).
    pub fn read_rgb(&self, row: u64) -> Result<(ImageShape, Vec<u8>)> {
        let pixels = self.read_pixels(row)?;
        let data = self.frame_data_set(row)?;
        let photometric = data.ascii(PHOTOMETRIC).unwrap_or_default();
        self.rgb(row, &pixels, &data, &photometric)
    }

    fn rgb(
        &self,
        row: u64,
        pixels: &Pixels,
        data: &DataSet,
        photometric: &str,
    ) -> Result<(ImageShape, Vec<u8>)> {
        let shape = pixels.shape;
        let wide = ImageShape::new(shape.height(), shape.width(), 3).map_err(|source| {
            AdapterError::Codec { path: self.reader().path().to_owned(), row: Some(row), source }
        })?;
        if photometric == "PALETTE COLOR" {
            let mut tables = Vec::with_capacity(3);
            for (descriptor, entries) in [(0x1101, 0x1201), (0x1102, 0x1202), (0x1103, 0x1203)] {
                let table = palette(data, Tag(0x0028, descriptor), Tag(0x0028, entries));
                tables.push(table.ok_or_else(|| {
                    AdapterError::schema_row(
                        self.reader().path(),
                        row,
                        "dicom_delta",
                        "its palette is missing or damaged",
                    )
                })?);
            }
            let samples = pixels.samples.words().flat_map(|sample| {
                tables.iter().map(move |(table, depth)| {
                    let entry = table.get(sample);
                    u8::try_from((if *depth > 8 { entry >> 8 } else { entry }) & 0xFF).unwrap_or(0)
                })
            });
            return Ok((wide, samples.collect()));
        }
        let bytes = upper_bytes(&pixels.samples);
        if shape.channels() != 3 {
            return Ok((wide, bytes.iter().flat_map(|grey| [*grey; 3]).collect()));
        }
        if !photometric.starts_with("YBR_FULL") {
            return Ok((wide, bytes));
        }
        let (triples, _) = bytes.as_chunks::<3>();
        Ok((wide, triples.iter().flat_map(|triple| from_ybr(*triple)).collect()))
    }
}

/// The upper 8 bits of each sample.
fn upper_bytes(samples: &PixelSamples) -> Vec<u8> {
    let byte = |[.., last]: [u8; 4]| last;
    match samples {
        PixelSamples::U32(samples) => samples.iter().map(|it| byte(it.to_le_bytes())).collect(),
        PixelSamples::I32(samples) => samples.iter().map(|it| byte(it.to_le_bytes())).collect(),
        PixelSamples::F32(_) | PixelSamples::F64(_) => samples.iter().map(to_byte).collect(),
        other => {
            let shift = if other.pixel_type().bytes() == 2 { 8 } else { 0 };
            other.words().map(|it| u8::try_from((it >> shift) & 0xFF).unwrap_or(0)).collect()
        }
    }
}

fn from_ybr([luma, blue, red]: [u8; 3]) -> [u8; 3] {
    let (luma, blue, red) = (f64::from(luma), f64::from(blue) - 128.0, f64::from(red) - 128.0);
    [luma + 1.402 * red, luma - 0.344_136 * blue - 0.714_136 * red, luma + 1.772 * blue]
        .map(to_byte)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Clamped to the range of u8.
fn to_byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

#[allow(clippy::cast_possible_truncation)] // The nearest value that the type can express is meant.
fn values(pixels: &Pixels, data: &DataSet) -> Vec<f32> {
    if let Some(lut) = modality_lut(data).filter(|_| pixels.samples.pixel_type().bytes() <= 2) {
        return pixels.samples.words().map(|sample| f32::from(lut.get(sample))).collect();
    }
    let (slope, intercept) =
        (real(data, SLOPE).unwrap_or(1.0), real(data, INTERCEPT).unwrap_or(0.0));
    pixels.samples.iter().map(|sample| (sample * slope + intercept) as f32).collect()
}

/// The modality LUT of an object.
pub(super) fn modality_lut(data: &DataSet) -> Option<Lut> {
    let item = data.get(MODALITY_LUT)?.items()?.first()?;
    table(item, LUT_DESCRIPTOR, LUT_DATA).map(|(lut, _)| lut)
}

fn real(data: &DataSet, tag: Tag) -> Option<f64> {
    let text = data.ascii(tag)?;
    super::number::decimal(text.split('\\').next()?).filter(|number| number.is_finite())
}

fn stated_window(data: &DataSet) -> Option<Window> {
    let (center, width) = (real(data, WINDOW_CENTER)?, real(data, WINDOW_WIDTH)?);
    (width >= 1.0).then_some(Window { center, width })
}

fn range(values: &[f32]) -> Window {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let least = f64::from(finite().fold(f32::INFINITY, f32::min));
    let most = f64::from(finite().fold(f32::NEG_INFINITY, f32::max));
    if least > most {
        return Window { center: 0.0, width: 1.0 };
    }
    Window { center: (least + most) / 2.0 + 0.5, width: (most - least + 1.0).max(1.0) }
}

/// The linear function of PS3.3 C.11.2.1.2.
pub(super) fn windowed(value: f64, window: Window) -> u8 {
    let (center, width) = (window.center - 0.5, window.width - 1.0);
    if value <= center - width / 2.0 {
        return 0;
    }
    if value > center + width / 2.0 {
        return 255;
    }
    to_byte(((value - center) / width + 0.5) * 255.0)
}

fn palette(data: &DataSet, descriptor: Tag, entries: Tag) -> Option<(Lut, u16)> {
    table(data, descriptor, entries)
}

/// A table with its descriptor: number of entries, first sample, bits of an entry.
fn table(data: &DataSet, descriptor: Tag, entries: Tag) -> Option<(Lut, u16)> {
    let element = data.get(descriptor)?;
    let (words, _) = element.bytes()?.as_chunks::<2>();
    let [count, first, bits] = words.first_chunk::<3>()?;
    let count = match u16::from_le_bytes(*count) {
        0 => 65_536,
        count => usize::from(count),
    };
    let first = match element.vr {
        VR::SS => i32::from(i16::from_le_bytes(*first)),
        _ => i32::from(u16::from_le_bytes(*first)),
    };
    let bits = u16::from_le_bytes(*bits);
    let bytes = data.bytes(entries)?;
    // Entries of 8 bits may be packed two to a word.
    let entries: Vec<u16> = if bits <= 8 && bytes.len() < count.saturating_mul(2) {
        bytes.iter().map(|byte| u16::from(*byte)).collect()
    } else {
        let (words, _) = bytes.as_chunks::<2>();
        words.iter().map(|two| u16::from_le_bytes(*two)).collect()
    };
    let entries = entries.get(..count)?.to_vec();
    Some((Lut { first, entries }, bits))
}
