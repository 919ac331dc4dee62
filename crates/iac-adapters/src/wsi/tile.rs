//! From the stored bytes of a tile to its pixels.

use std::borrow::Cow;

use iac_codec::{
    Codec, CodecError, CodecSpec, DamageHandling, DecodeOptions, Image, Limits, Parameters,
    Registry, SampleType, SamplesRef, Scale,
};
use serde_json::Value;

use super::codec_params::{RasterCodec, TileColors};
use super::schema::{Transcode, WsiInfo};

/// How tiles of a pack are decoded. Made when a pack is opened; a codec that this build lacks is
/// told when a tile is asked for.
pub(crate) struct TileDecoder {
    codec: Result<Codec, CodecError>,
    kind: TileKind,
    /// Height and width.
    size: (u32, u32),
    limits: Limits,
    /// Samples that a stream may have which is no tile of this size, but not absurd either.
    most: u64,
    damage: DamageHandling,
}

/// How the pixels of a tile that is decoded at a smaller scale lie over those of the full one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// Each is about the average of a square.
    Areas,
    /// Each lies on the first pixel of its square, and takes some of those around that: what wavelets
    /// leave.
    Corners,
}

enum TileKind {
    Jxl,
    /// JPEG XL of a JPEG file, with the codec for that and whether it is RGB.
    #[cfg_attr(not(feature = "jxl"), allow(dead_code, reason = "rebuilding needs libjxl"))]
    Transcoded {
        jpeg: Result<Codec, CodecError>,
        is_rgb: bool,
    },
    Jpeg {
        is_rgb: bool,
    },
    /// Whether what the stream decodes to is YCbCr.
    Jpeg2000 {
        stores_ycbcr: bool,
    },
}

/// Compression names of TIFF tiles whose components are YCbCr.
const YCBCR_2000: &str = "APERIO_JP2000_YCBC";

impl TileDecoder {
    pub(crate) fn new(info: &WsiInfo, limits: Limits, damage: DamageHandling) -> Self {
        let make = |name: &str, parameters: Parameters| {
            Registry::global().create(&CodecSpec::new(name, parameters))
        };
        let (codec, kind) = match (&info.codec, &info.transcode) {
            (RasterCodec::Jxl { .. }, Some(Transcode { tables, colors })) => {
                let jpeg = make("jpeg", jpeg_parameters(colors, tables.as_deref()));
                let is_rgb = colors == TileColors::Rgb.name();
                (make("jxl", Parameters::new()), TileKind::Transcoded { jpeg, is_rgb })
            }
            (RasterCodec::Jxl { .. }, None) => (make("jxl", Parameters::new()), TileKind::Jxl),
            (RasterCodec::Jpeg { colors, tables, .. }, _) => {
                let is_rgb = *colors == TileColors::Rgb;
                // JFIF markers would beat the declared colours.
                let tables = tables.as_deref().map(|tables| own_colors(tables, is_rgb));
                let parameters = jpeg_parameters(colors.name(), tables.as_deref());
                (make("jpeg", parameters), TileKind::Jpeg { is_rgb })
            }
            (RasterCodec::Jpeg2000 { source_compression, .. }, _) => {
                let stores_ycbcr = source_compression == YCBCR_2000;
                (make("jpeg2000", Parameters::new()), TileKind::Jpeg2000 { stores_ycbcr })
            }
        };
        let size = (info.tile_height, info.tile_width);
        let most = limits.max_samples.min(samples_of(size));
        Self { codec, kind, size, limits, most, damage }
    }

    /// The scales that decoding has a cheaper way to than the full size.
    pub(crate) fn scales(&self) -> &'static [Scale] {
        let capabilities = self.codec.as_ref().ok().and_then(|it| it.image_capabilities().ok());
        capabilities.map_or(&[], |capabilities| capabilities.scales)
    }

    /// How pixels of smaller scales lie.
    pub(crate) const fn sampling(&self) -> Sampling {
        match self.kind {
            TileKind::Jpeg2000 { .. } => Sampling::Corners,
            _ => Sampling::Areas,
        }
    }

    /// Decodes a tile to rows of RGB pixels, at a scale that its sides are multiples of.
    ///
    /// `raw` leaves components of JPEG 2000 tiles as they are stored.
    pub(crate) fn decode(
        &self,
        payload: &[u8],
        scale: Scale,
        raw: bool,
    ) -> Result<Vec<u8>, CodecError> {
        self.decode_bounded(payload, scale, raw).map_err(|error| match error {
            // The stream is sound by itself, but larger than a tile.
            CodecError::Limit { what: "samples", found, .. }
                if found <= self.limits.max_samples =>
            {
                CodecError::decode(
                    self.codec.as_ref().map_or("image", Codec::name),
                    format!(
                        "the tile has {found} samples instead of {} x {} x 3",
                        self.size.0, self.size.1
                    ),
                )
            }
            other => other,
        })
    }

    fn decode_bounded(
        &self,
        payload: &[u8],
        scale: Scale,
        raw: bool,
    ) -> Result<Vec<u8>, CodecError> {
        let codec = self.codec.as_ref().map_err(Clone::clone)?;
        let options = DecodeOptions::from(self.limits.with_max_samples(self.most))
            .with_scale(scale)
            .with_damage(self.damage);
        match &self.kind {
            TileKind::Jxl => self.rgb(codec.decode_image(payload, &options)?, scale, true),
            #[cfg(feature = "jxl")]
            TileKind::Transcoded { jpeg, is_rgb } if scale == Scale::Full => {
                match iac_codec::jxl::reconstruct_jpeg(payload, &self.limits)? {
                    Some(file) => {
                        let jpeg = jpeg.as_ref().map_err(Clone::clone)?;
                        let file = own_colors(&file, *is_rgb);
                        self.rgb(jpeg.decode_image(&file, &options)?, scale, false)
                    }
                    None => self.rgb(codec.decode_image(payload, &options)?, scale, true),
                }
            }
            #[cfg(not(feature = "jxl"))]
            TileKind::Transcoded { .. } if scale == Scale::Full => {
                Err(CodecError::MissingFeature { name: "jxl", feature: "jxl" })
            }
            TileKind::Transcoded { .. } => {
                self.rgb(codec.decode_image(payload, &options)?, scale, true)
            }
            TileKind::Jpeg { is_rgb } => {
                let payload = own_colors(payload, *is_rgb);
                self.rgb(codec.decode_image(&payload, &options)?, scale, false)
            }
            TileKind::Jpeg2000 { stores_ycbcr } => {
                let image = codec.decode_image(payload, &options)?;
                let mut pixels = self.rgb(image, scale, false)?;
                if *stores_ycbcr && !raw {
                    for pixel in pixels.as_chunks_mut::<3>().0 {
                        *pixel = rgb_of_ycbcr(*pixel);
                    }
                }
                Ok(pixels)
            }
        }
    }

    /// Checks shape and type of a decoded tile. JPEG XL may repeat one channel, and drop those
    /// behind the third.
    fn rgb(&self, image: Image, scale: Scale, adapt: bool) -> Result<Vec<u8>, CodecError> {
        let divide = |side: u32| side.div_ceil(scale.denominator());
        let (height, width) = (divide(self.size.0), divide(self.size.1));
        let shape = image.shape();
        let channels = shape.channels();
        let fits = shape.height() == height
            && shape.width() == width
            && image.sample_type() == SampleType::U8
            && (channels == 3 || (adapt && channels != 2));
        if !fits {
            return Err(CodecError::decode(
                self.codec.as_ref().map_or("image", Codec::name),
                format!(
                    "the tile is {shape} of type {} instead of {height} x {width} x 3 of type uint8",
                    image.sample_type()
                ),
            ));
        }
        Ok(rgb_samples(image))
    }
}

/// Samples that an image of a size has with more channels than are ever seen, so that a stream of
/// another size is refused before it is decoded.
pub(crate) fn samples_of((height, width): (u32, u32)) -> u64 {
    const MOST_CHANNELS: u64 = 16;
    u64::from(height).saturating_mul(width.into()).saturating_mul(MOST_CHANNELS)
}

/// Samples of an image of 1, 3 or more channels of bytes as RGB.
pub(crate) fn rgb_samples(image: Image) -> Vec<u8> {
    let channels = usize::try_from(image.shape().channels()).unwrap_or(3);
    if channels == 3 {
        return match image.into_samples() {
            iac_codec::Samples::U8(samples) => samples,
            _ => Vec::new(),
        };
    }
    let SamplesRef::U8(samples) = image.samples() else { return Vec::new() };
    match channels {
        1 => samples.iter().flat_map(|grey| [*grey; 3]).collect(),
        _ => {
            samples.chunks_exact(channels).flat_map(|pixel| pixel.iter().copied().take(3)).collect()
        }
    }
}

pub(crate) fn jpeg_parameters(colors: &str, tables: Option<&[u8]>) -> Parameters {
    use base64::Engine as _;
    let tables = tables.map(|tables| base64::engine::general_purpose::STANDARD.encode(tables));
    let mut parameters = Parameters::new();
    parameters.insert("encoded_color_space".to_owned(), colors.into());
    parameters.insert("tables_base64".to_owned(), tables.map_or(Value::Null, Value::String));
    parameters
}

/// A JPEG stream without its JFIF markers where the pack declares RGB: the marker says YCbCr, and
/// would be believed.
pub(crate) fn own_colors(stream: &[u8], is_rgb: bool) -> Cow<'_, [u8]> {
    const APP0: u8 = 0xE0;
    const START_OF_SCAN: u8 = 0xDA;
    if !is_rgb || !stream.windows(4).any(|four| four == b"JFIF") {
        return Cow::Borrowed(stream);
    }
    let mut kept: Vec<u8> = Vec::with_capacity(stream.len());
    let mut rest = stream;
    loop {
        match rest {
            [0xFF, 0xFF, ..] => rest = rest.get(1..).unwrap_or_default(),
            [0xFF, marker @ (0x01 | 0xD0..=0xD9), after @ ..] => {
                kept.extend([0xFF, *marker]);
                rest = after;
            }
            [0xFF, marker, high, low, ..] if *marker != START_OF_SCAN => {
                let length = usize::from(u16::from_be_bytes([*high, *low])).saturating_add(2);
                let Some((segment, after)) = rest.split_at_checked(length) else { break };
                if *marker != APP0 {
                    kept.extend(segment);
                }
                rest = after;
            }
            _ => break,
        }
    }
    kept.extend(rest);
    Cow::Owned(kept)
}

/// A pixel of full-range YCbCr (ITU-R BT.601) as RGB.
pub(crate) fn rgb_of_ycbcr([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    let (y, cb, cr) = (f32::from(y), f32::from(cb) - 128.0, f32::from(cr) - 128.0);
    let red = 1.402_f32.mul_add(cr, y);
    let green = y - 0.344_136_f32 * cb - 0.714_136_f32 * cr;
    let blue = 1.772_f32.mul_add(cb, y);
    [red, green, blue].map(to_byte)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn to_byte(value: f32) -> u8 {
    value.clamp(0.0, 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jfif_markers_are_left_out_of_rgb_streams_alone() {
        let stream = b"\xFF\xD8\xFF\xE0\x00\x08JFIF\0\0\xFF\xDB\x00\x03q\xFF\xDA\x00\x02scan";
        assert_eq!(own_colors(stream, false).as_ref(), stream);
        assert_eq!(
            own_colors(stream, true).as_ref(),
            b"\xFF\xD8\xFF\xDB\x00\x03q\xFF\xDA\x00\x02scan"
        );
        let cut = b"\xFF\xD8\xFF\xE0\xFF\xFFJFIF";
        assert_eq!(own_colors(cut, true).as_ref(), cut);
    }

    #[test]
    fn grey_of_ycbcr_is_grey() {
        for level in [0, 77, 255] {
            assert_eq!(rgb_of_ycbcr([level, 128, 128]), [level; 3]);
        }
        assert_eq!(rgb_of_ycbcr([76, 85, 255]), [254, 0, 0]);
    }
}
