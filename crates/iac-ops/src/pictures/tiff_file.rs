//! TIFF files with one image.

use std::io::Cursor;

use iac_codec::half::f16;
use iac_codec::{Image, ImageShape, Limits, Samples};
use tiff::decoder::{Decoder, DecodingResult};
use tiff::{ColorType, TiffError};

use super::PictureError;

/// Little- and big-endian, classic and BigTIFF.
pub(super) const MAGICS: [&[u8]; 4] = [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"];
const KIND: &str = "TIFF";

pub(super) fn read(file: &[u8], limits: &Limits) -> Result<Image, PictureError> {
    let bytes = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX);
    let mut bounds = tiff::decoder::Limits::default();
    bounds.decoding_buffer_size = bytes;
    bounds.intermediate_buffer_size = bytes;
    let mut decoder = Decoder::new(Cursor::new(file)).map_err(wrong)?.with_limits(bounds);
    if decoder.more_images() {
        return Err(PictureError::unsupported(KIND, "it holds more than one image"));
    }
    let (width, height) = decoder.dimensions().map_err(wrong)?;
    let color = decoder.colortype().map_err(wrong)?;
    let channels = match color {
        ColorType::Gray(8 | 16 | 32) => 1,
        ColorType::GrayA(8 | 16 | 32) => 2,
        ColorType::RGB(8 | 16 | 32) => 3,
        ColorType::RGBA(8 | 16 | 32) | ColorType::CMYK(8 | 16) => 4,
        ColorType::Multiband { bit_depth: 8 | 16 | 32, num_samples } => u32::from(num_samples),
        other => {
            let reason = format!("colours of the form {other:?} are not supported");
            return Err(PictureError::unsupported(KIND, reason));
        }
    };
    let shape = ImageShape::new(height, width, channels)?;
    shape.check(limits)?;
    let layout = decoder.image_buffer_layout().map_err(wrong)?;
    if layout.planes > 1 {
        return Err(PictureError::unsupported(KIND, "its channels lie in planes of their own"));
    }
    // Of the right type; the decoder makes room within its bounds.
    let samples = match decoder.read_image().map_err(wrong)? {
        DecodingResult::U8(samples) => Samples::U8(samples),
        DecodingResult::U16(samples) => Samples::U16(samples),
        DecodingResult::I16(samples) => Samples::I16(samples),
        DecodingResult::F16(samples) => Samples::F16(
            samples.into_iter().map(|sample| f16::from_bits(sample.to_bits())).collect(),
        ),
        DecodingResult::F32(samples) => Samples::F32(samples),
        DecodingResult::I8(_) => return Err(unfit("signed samples of 8 bits")),
        DecodingResult::U32(_) | DecodingResult::I32(_) => {
            return Err(unfit("integers of 32 bits"));
        }
        _ => return Err(unfit("samples of 64 bits")),
    };
    Ok(Image::new(shape, samples)?)
}

fn unfit(what: &str) -> PictureError {
    PictureError::unsupported(KIND, format!("images with {what} are not supported"))
}

fn wrong(error: TiffError) -> PictureError {
    match error {
        TiffError::UnsupportedError(error) => PictureError::unsupported(KIND, error.to_string()),
        other => PictureError::damaged(KIND, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiff::encoder::{TiffEncoder, colortype};

    macro_rules! written {
        ($color:ty, $width:expr, $height:expr, $samples:expr) => {{
            let mut file = Cursor::new(Vec::new());
            let mut encoder = TiffEncoder::new(&mut file).unwrap();
            encoder.write_image::<$color>($width, $height, $samples).unwrap();
            file.into_inner()
        }};
    }

    #[test]
    fn images_of_every_type_come_back() {
        let limits = Limits::default();
        let shape = ImageShape::new(2, 3, 1).unwrap();
        let bytes = [1_u8, 2, 3, 250, 5, 6];
        let image = read(&written!(colortype::Gray8, 3, 2, &bytes), &limits).unwrap();
        assert_eq!(image, Image::new(shape, bytes.to_vec()).unwrap());
        let words = [1_u16, 2, 65_535, 4, 5, 6];
        let image = read(&written!(colortype::Gray16, 3, 2, &words), &limits).unwrap();
        assert_eq!(image, Image::new(shape, words.to_vec()).unwrap());
        let signed = [-1_i16, 2, i16::MIN, 4, 5, 6];
        let image = read(&written!(colortype::GrayI16, 3, 2, &signed), &limits).unwrap();
        assert_eq!(image, Image::new(shape, signed.to_vec()).unwrap());
        let floats = [0.5_f32, -1.0, 1e30, 4.0, 5.0, 6.0];
        let image = read(&written!(colortype::Gray32Float, 3, 2, &floats), &limits).unwrap();
        assert_eq!(image, Image::new(shape, floats.to_vec()).unwrap());
        let rgb: Vec<u8> = (0..18).collect();
        let image = read(&written!(colortype::RGB8, 3, 2, &rgb), &limits).unwrap();
        assert_eq!(image, Image::new(ImageShape::new(2, 3, 3).unwrap(), rgb).unwrap());
        let wide = written!(colortype::Gray32, 3, 2, &[1_u32; 6]);
        assert!(matches!(read(&wide, &limits), Err(PictureError::Unsupported { .. })));
        assert!(
            read(&written!(colortype::Gray8, 3, 2, &bytes), &limits.with_max_samples(5)).is_err()
        );
    }

    #[test]
    fn several_images_and_cut_files_are_refused() {
        let mut file = Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut file).unwrap();
        encoder.write_image::<colortype::Gray8>(1, 1, &[1]).unwrap();
        encoder.write_image::<colortype::Gray8>(1, 1, &[2]).unwrap();
        let error = read(&file.into_inner(), &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("more than one image"), "{error}");
        let file = written!(colortype::Gray8, 30, 20, &[7_u8; 600]);
        for length in 0..file.len() {
            // Whatever is left of it never stops the process.
            let _ = super::super::read_picture(&file[..length], &Limits::default());
        }
    }
}
