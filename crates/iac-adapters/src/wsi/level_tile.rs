//! How tiles of overviews are stored: as JPEG XL inside of packs, and in a form that is read faster
//! in files of their own.

use iac_codec::{
    Codec, CodecError, CodecSpec, DecodeOptions, ImageShape, ImageView, Limits, Parameters,
    Registry, SampleType,
};

use super::tile::rgb_samples;

/// The filter in front of Zstandard, as the header of a file names it.
pub(super) const FILTER: &str = "green_up";

/// How tiles of overviews are stored.
#[derive(Debug, Clone)]
pub(super) enum LevelCodec {
    /// JPEG XL images.
    Jxl(Codec),
    /// Differences from green and from the row above, under Zstandard: ten times as fast to read.
    Filtered(Codec),
}

impl LevelCodec {
    /// What records inside of packs are.
    pub(super) fn inside() -> Result<Self, CodecError> {
        let mut parameters = Parameters::new();
        parameters.insert("lossless".to_owned(), true.into());
        parameters.insert("effort".to_owned(), 3.into());
        Registry::global().create(&CodecSpec::new("jxl", parameters)).map(Self::Jxl)
    }

    /// What files beside packs hold.
    pub(super) fn beside() -> Result<Self, CodecError> {
        let mut parameters = Parameters::new();
        parameters.insert("level".to_owned(), 3.into());
        Registry::global().create(&CodecSpec::new("zstd", parameters)).map(Self::Filtered)
    }

    /// Encodes rows of RGB pixels of a shape.
    pub(super) fn encode(&self, pixels: &[u8], shape: ImageShape) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Jxl(codec) => codec.encode_image(&ImageView::new(shape, pixels)?),
            Self::Filtered(codec) => codec.encode_bytes(&filtered(pixels, row_bytes(shape))),
        }
    }

    /// Decodes to rows of RGB pixels of a shape.
    pub(super) fn decode(
        &self,
        payload: &[u8],
        shape: ImageShape,
        limits: &Limits,
    ) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Jxl(codec) => {
                let image = codec.decode_image(payload, &DecodeOptions::from(*limits))?;
                let found = image.shape();
                let fits = (found.height(), found.width()) == (shape.height(), shape.width())
                    && found.channels() != 2
                    && image.sample_type() == SampleType::U8;
                if fits {
                    return Ok(rgb_samples(image));
                }
                let of = image.sample_type();
                Err(CodecError::decode(
                    codec.name(),
                    format!("the tile is {found} of type {of} instead of {shape} of type uint8"),
                ))
            }
            Self::Filtered(codec) => {
                // The sides are what a header claims.
                limits.check_samples(u64::try_from(shape.samples()).unwrap_or(u64::MAX))?;
                let mut pixels = vec![0; shape.samples()];
                codec.decode_bytes_into(payload, &mut pixels, limits)?;
                restore(&mut pixels, row_bytes(shape));
                Ok(pixels)
            }
        }
    }
}

fn row_bytes(shape: ImageShape) -> usize {
    usize::try_from(shape.width()).unwrap_or(usize::MAX).saturating_mul(3).max(1)
}

/// Red and blue less green, and all of it less the row above.
fn filtered(pixels: &[u8], row_bytes: usize) -> Vec<u8> {
    let mut out = pixels.to_vec();
    for [red, green, blue] in out.as_chunks_mut::<3>().0 {
        *red = red.wrapping_sub(*green);
        *blue = blue.wrapping_sub(*green);
    }
    // From below, so that the row above is still what it was.
    let mut rest = out.as_mut_slice();
    while rest.len() >= row_bytes.saturating_mul(2) {
        let (above, last) = rest.split_at_mut(rest.len().saturating_sub(row_bytes));
        let start = above.len().saturating_sub(row_bytes);
        for (value, above) in last.iter_mut().zip(above.get(start..).unwrap_or_default()) {
            *value = value.wrapping_sub(*above);
        }
        rest = above;
    }
    out
}

fn restore(pixels: &mut [u8], row_bytes: usize) {
    let mut rest = &mut *pixels;
    while rest.len() >= row_bytes.saturating_mul(2) {
        let (above, below) = rest.split_at_mut(row_bytes);
        for (value, above) in below.iter_mut().zip(above.iter()) {
            *value = value.wrapping_add(*above);
        }
        rest = below;
    }
    for [red, green, blue] in pixels.as_chunks_mut::<3>().0 {
        *red = red.wrapping_add(*green);
        *blue = blue.wrapping_add(*green);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filtered_tiles_come_back() {
        let pixels: Vec<u8> = (0_u32..5 * 7 * 3).map(|at| (at * at % 251) as u8).collect();
        let shape = ImageShape::new(5, 7, 3).unwrap();
        let codec = LevelCodec::beside().unwrap();
        let payload = codec.encode(&pixels, shape).unwrap();
        let limits = Limits::default();
        assert_eq!(codec.decode(&payload, shape, &limits).unwrap(), pixels);
        let other = ImageShape::new(5, 8, 3).unwrap();
        assert!(codec.decode(&payload, other, &limits).is_err());
        assert!(codec.decode(b"nothing", shape, &limits).is_err());
        // No memory is taken for what a header claims.
        let claimed = ImageShape::new(65_535, 65_535, 3).unwrap();
        let error = codec.decode(&payload, claimed, &limits).unwrap_err();
        assert!(matches!(error, CodecError::Limit { .. }), "{error}");
    }
}
