//! Tiles as TIFF files hold them.

use std::io::Write;

use iac_codec::jpeg::{JpegOptions, Subsampling, complete_stream};
use iac_codec::{Codec, CodecError, CodecSpec, ImageShape, ImageView, Parameters, Registry};

use super::layout::Directory;
use crate::wsi::codec_params::{RasterCodec, TileColors};
use crate::wsi::schema::WsiInfo;
use crate::wsi::tile::{jpeg_parameters, own_colors};

const COMPRESSION: u16 = 259;
const PHOTOMETRIC: u16 = 262;
const PREDICTOR: u16 = 317;
const JPEG_TABLES: u16 = 347;
const SUBSAMPLING: u16 = 530;

/// How the tiles of a page are made of pixels.
pub(super) enum TileEncoder {
    /// Deflate behind differences of neighbours.
    Deflate,
    Jpeg(Codec),
}

impl TileEncoder {
    pub(super) fn jpeg(quality: u8) -> Result<Self, CodecError> {
        let mut parameters = Parameters::new();
        parameters.insert("quality".to_owned(), quality.into());
        parameters.insert("subsampling".to_owned(), "420".into());
        Registry::global().create_encoder(&CodecSpec::new("jpeg", parameters)).map(Self::Jpeg)
    }

    /// What the directory says of the tiles.
    pub(super) fn describe(&self, directory: &mut Directory) {
        match self {
            Self::Deflate => {
                directory.shorts(COMPRESSION, &[8]);
                directory.shorts(PHOTOMETRIC, &[2]);
                directory.shorts(PREDICTOR, &[2]);
            }
            Self::Jpeg(_) => {
                directory.shorts(COMPRESSION, &[7]);
                directory.shorts(PHOTOMETRIC, &[6]);
                directory.shorts(SUBSAMPLING, &[2, 2]);
            }
        }
    }

    /// Rows of RGB as a tile.
    pub(super) fn encode(
        &self,
        pixels: &[u8],
        (width, height): (u32, u32),
    ) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Deflate => deflated(pixels, width),
            Self::Jpeg(codec) => {
                codec.encode_image(&ImageView::new(ImageShape::new(height, width, 3)?, pixels)?)
            }
        }
    }
}

/// Rows of RGB as differences of neighbours, deflated.
fn deflated(pixels: &[u8], width: u32) -> Result<Vec<u8>, CodecError> {
    let fail = |error: std::io::Error| CodecError::encode("deflate", error.to_string());
    let row = usize::try_from(width).unwrap_or(usize::MAX).saturating_mul(3).max(1);
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let mut differences = Vec::with_capacity(row.min(pixels.len()));
    for line in pixels.chunks(row) {
        differences.clear();
        differences.extend_from_slice(line.get(..3).unwrap_or(line));
        let behind = line.get(3..).unwrap_or_default();
        differences.extend(behind.iter().zip(line).map(|(one, before)| one.wrapping_sub(*before)));
        out.write_all(&differences).map_err(fail)?;
    }
    out.finish().map_err(fail)
}

/// JPEG tiles that are written as they were in the slide's file.
pub(super) struct StoredJpeg {
    colors: TileColors,
    tables: Option<Vec<u8>>,
    sampling: (u8, u8),
    /// Whether each tile brings the tables along.
    complete: bool,
    /// What stands for tiles that are not stored.
    white: Option<Vec<u8>>,
}

impl StoredJpeg {
    /// Finds out whether the tiles of a slide can be written so; `first` is one of them. Where tiles are
    /// missing, others must be made that show nothing but white.
    pub(super) fn of(info: &WsiInfo, first: &[u8], some_missing: bool) -> Option<Self> {
        let (colors, tables) = match (&info.codec, &info.transcode) {
            (RasterCodec::Jpeg { colors, tables, .. }, _) => (*colors, tables.clone()),
            (_, Some(transcode)) => {
                (TileColors::from_name(&transcode.colors)?, transcode.tables.clone())
            }
            _ => return None,
        };
        let is_rgb = colors == TileColors::Rgb;
        // Markers of JFIF say YCbCr.
        let tables = tables.map(|tables| own_colors(&tables, is_rgb).into_owned());
        let sampling = sampling(first)?;
        let mut made = Self { colors, tables, sampling, complete: false, white: None };
        if some_missing {
            // A decoder of TIFF files would keep the tables of these for the tiles that follow.
            made.complete = made.tables.is_some();
            made.white = Some(made.white_tile(info)?);
        }
        Some(made)
    }

    fn white_tile(&self, info: &WsiInfo) -> Option<Vec<u8>> {
        let subsampling = match self.sampling {
            (1, 1) => Subsampling::S444,
            (2, 1) => Subsampling::S422,
            (2, 2) => Subsampling::S420,
            _ => return None,
        };
        if self.colors != TileColors::YCbCr || info.background != [255; 3] {
            return None;
        }
        let options = JpegOptions::default().with_quality(90).with_subsampling(subsampling);
        let codec = options.codec().ok()?;
        let shape = ImageShape::new(info.tile_height, info.tile_width, 3).ok()?;
        let pixels = vec![255_u8; shape.samples()];
        codec.encode_image(&ImageView::new(shape, &pixels[..]).ok()?).ok()
    }

    pub(super) fn describe(&self, directory: &mut Directory) {
        directory.shorts(COMPRESSION, &[7]);
        if self.colors == TileColors::Rgb {
            directory.shorts(PHOTOMETRIC, &[2]);
        } else {
            directory.shorts(PHOTOMETRIC, &[6]);
            directory.shorts(SUBSAMPLING, &[self.sampling.0.into(), self.sampling.1.into()]);
        }
        if let Some(tables) = self.tables.as_ref().filter(|_| !self.complete) {
            directory.bytes(JPEG_TABLES, tables);
        }
    }

    /// A stored tile as it is written; nothing stands for one that is not stored.
    pub(super) fn tile(&self, stored: Option<&[u8]>) -> Result<Vec<u8>, CodecError> {
        let Some(stored) = stored else {
            return self.white.clone().ok_or_else(|| {
                CodecError::encode("jpeg", "a tile is missing that was there before")
            });
        };
        let own = own_colors(stored, self.colors == TileColors::Rgb);
        if !self.complete {
            return Ok(own.into_owned());
        }
        let parameters = jpeg_parameters(self.colors.name(), self.tables.as_deref());
        complete_stream(&parameters, &own).map(std::borrow::Cow::into_owned)
    }
}

/// How often the first component is sampled along both sides for each sample of the second.
fn sampling(stream: &[u8]) -> Option<(u8, u8)> {
    let mut rest = stream.strip_prefix(&[0xFF, 0xD8])?;
    loop {
        match rest {
            [0xFF, 0xFF, ..] => rest = rest.get(1..)?,
            [0xFF, 0xC0..=0xC2, ..] => {
                let components = rest.get(10..)?;
                let factors = |at: usize| {
                    let byte = components.get(at.checked_mul(3)?.checked_add(1)?)?;
                    Some((byte >> 4, byte & 15))
                };
                let (first, second) = (factors(0)?, factors(1)?);
                return Some((
                    first.0.checked_div(second.0)?.max(1),
                    first.1.checked_div(second.1)?.max(1),
                ));
            }
            [0xFF, 0xDA, ..] => return None,
            [0xFF, _, high, low, ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low])).checked_add(2)?;
                rest = rest.get(length..)?;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_is_read_from_the_frame() {
        let stream =
            b"\xFF\xD8\xFF\xDB\x00\x03q\xFF\xFF\xC0\x00\x11\x08\x00\x10\x00\x20\x03\x01\x22\x00\
                       \x02\x11\x01\x03\x11\x01\xFF\xDA";
        assert_eq!(sampling(stream), Some((2, 2)));
        for cut in 0..22 {
            assert_eq!(sampling(&stream[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn differences_come_back_as_pixels() {
        use std::io::Read;
        let pixels = [1, 2, 3, 4, 4, 4, 0, 255, 9, 7, 7, 7];
        let mut back = Vec::new();
        let packed = deflated(&pixels, 2).unwrap();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 3, 2, 1, 0, 255, 9, 7, 8, 254]);
    }
}
