//! PNG files.

use std::io::Cursor;

use iac_codec::{Image, ImageShape, ImageView, Limits, SampleType, SamplesRef};
use png::{BitDepth, ColorType, Compression, Decoder, Encoder, Transformations};

use super::PictureError;
use crate::decode::{Decoded, DecodedKind};

pub(super) const MAGIC: &[u8] = b"\x89PNG\r\n\x1A\n";
const KIND: &str = "PNG";

pub(super) fn read(file: &[u8], limits: &Limits) -> Result<Image, PictureError> {
    let bytes = usize::try_from(limits.max_decoded_bytes).unwrap_or(usize::MAX);
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), png::Limits { bytes });
    decoder.set_ignore_text_chunk(true);
    // Palettes become colours, small depths 8 bits, transparent colours a channel.
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(wrong)?;
    if reader.info().animation_control().is_some_and(|control| control.num_frames > 1) {
        return Err(PictureError::unsupported(KIND, "it is animated"));
    }
    let (color, depth) = reader.output_color_type();
    let channels = match color {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
        ColorType::Indexed => {
            return Err(PictureError::damaged(KIND, "its palette is missing"));
        }
    };
    let shape = ImageShape::new(reader.info().height, reader.info().width, channels)?;
    let sample_type = if depth == BitDepth::Sixteen { SampleType::U16 } else { SampleType::U8 };
    let wanted = shape.samples().saturating_mul(sample_type.bytes());
    if reader.output_buffer_size() != Some(wanted) {
        return Err(PictureError::damaged(KIND, "its size is not that of its samples"));
    }
    shape.check(limits)?;
    limits.check_decoded_bytes(u64::try_from(wanted).unwrap_or(u64::MAX))?;
    let mut samples = Vec::new();
    samples.try_reserve_exact(wanted).map_err(|_| no_memory(wanted))?;
    samples.resize(wanted, 0);
    reader.next_frame(&mut samples).map_err(wrong)?;
    if sample_type == SampleType::U8 {
        return Ok(Image::new(shape, samples)?);
    }
    let (pairs, _) = samples.as_chunks::<2>();
    let samples: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
    Ok(Image::new(shape, samples)?)
}

fn wrong(error: png::DecodingError) -> PictureError {
    match error {
        png::DecodingError::LimitsExceeded => {
            PictureError::damaged(KIND, "it needs more memory than the limits allow")
        }
        other => PictureError::damaged(KIND, other.to_string()),
    }
}

pub(super) fn no_memory(bytes: usize) -> PictureError {
    PictureError::Codec(iac_codec::CodecError::Limit {
        what: "decoded bytes",
        found: u64::try_from(bytes).unwrap_or(u64::MAX),
        allowed: 0,
    })
}

pub(super) fn write(image: &ImageView<'_>) -> Result<Vec<u8>, PictureError> {
    let shape = image.shape();
    let sides = [shape.height(), shape.width(), shape.channels()];
    match image.samples() {
        SamplesRef::U8(samples) => encode(sides, BitDepth::Eight, samples),
        SamplesRef::U16(samples) => {
            let samples: Vec<u8> = samples.iter().flat_map(|sample| sample.to_be_bytes()).collect();
            encode(sides, BitDepth::Sixteen, &samples)
        }
        other => Err(unfit(other.sample_type().name())),
    }
}

pub(super) fn write_decoded(record: &Decoded) -> Result<Vec<u8>, PictureError> {
    if record.kind != DecodedKind::Image {
        return Err(PictureError::unsupported(KIND, "the record is no image"));
    }
    let side = |at: usize, absent: u32| {
        record.shape.get(at).map_or(absent, |side| u32::try_from(*side).unwrap_or(u32::MAX))
    };
    let sides = [side(0, 0), side(1, 0), side(2, 1)];
    match record.dtype {
        "uint8" => encode(sides, BitDepth::Eight, &record.bytes),
        "uint16" => {
            let (pairs, _) = record.bytes.as_chunks::<2>();
            let samples: Vec<u8> = pairs.iter().flat_map(|[low, high]| [*high, *low]).collect();
            encode(sides, BitDepth::Sixteen, &samples)
        }
        other => Err(unfit(other)),
    }
}

fn unfit(sample_type: &str) -> PictureError {
    PictureError::unsupported(
        KIND,
        format!("it holds uint8 and uint16, but the samples are {sample_type} (.npy holds them)"),
    )
}

fn encode(
    [height, width, channels]: [u32; 3],
    depth: BitDepth,
    samples: &[u8],
) -> Result<Vec<u8>, PictureError> {
    let color = match channels {
        1 => ColorType::Grayscale,
        2 => ColorType::GrayscaleAlpha,
        3 => ColorType::Rgb,
        4 => ColorType::Rgba,
        more => {
            let reason = format!("it holds 1 to 4 channels, but the image has {more}");
            return Err(PictureError::unsupported(KIND, reason));
        }
    };
    let wrong = |error: png::EncodingError| PictureError::unsupported(KIND, error.to_string());
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header().map_err(wrong)?;
    writer.write_image_data(samples).map_err(wrong)?;
    writer.finish().map_err(wrong)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_codec::Samples;

    #[test]
    fn every_shape_and_type_that_png_holds_comes_back() {
        for channels in 1..=4 {
            for (height, width) in [(1, 1), (3, 5), (17, 4)] {
                let shape = ImageShape::new(height, width, channels).unwrap();
                let bytes: Vec<u8> = (0..=250).cycle().step_by(7).take(shape.samples()).collect();
                let words: Vec<u16> = bytes.iter().map(|byte| u16::from(*byte) * 257 + 1).collect();
                for samples in [Samples::U8(bytes), Samples::U16(words)] {
                    let image = Image::new(shape, samples).unwrap();
                    let file = write(&image.as_view()).unwrap();
                    assert_eq!(
                        super::super::read_picture(&file, &Limits::default()).unwrap(),
                        image
                    );
                    let record = crate::decode::of_image(0, image);
                    assert_eq!(record.to_png().unwrap(), file);
                }
            }
        }
    }

    #[test]
    fn what_png_does_not_hold_is_refused() {
        let shape = ImageShape::new(1, 1, 5).unwrap();
        assert!(write(&ImageView::new(shape, &[0_u8; 5][..]).unwrap()).is_err());
        let shape = ImageShape::new(1, 1, 1).unwrap();
        let error = write(&ImageView::new(shape, &[0_i16][..]).unwrap()).unwrap_err();
        assert!(error.to_string().contains("int16"), "{error}");
    }

    #[test]
    fn claims_and_cuts_are_errors() {
        let shape = ImageShape::new(40, 40, 3).unwrap();
        let image = Image::new(shape, vec![9_u8; 4800]).unwrap();
        let file = write(&image.as_view()).unwrap();
        for length in 0..file.len() - 12 {
            assert!(super::super::read_picture(&file[..length], &Limits::default()).is_err());
        }
        let small = Limits::default().with_max_samples(100);
        assert!(read(&file, &small).is_err());
        let mut huge = file;
        huge[16..20].copy_from_slice(&0x4000_0000_u32.to_be_bytes());
        assert!(read(&huge, &Limits::default()).is_err());
    }
}
