//! The backend without native code: the crate `jpeg-decoder`, and [`lossless`](super::lossless).

use std::panic::{AssertUnwindSafe, catch_unwind};

use jpeg_decoder::{ColorTransform, Decoder, Error};

use super::marker::{Color, EOI, Header, Process, SOS, Walk, unsupported, without_transform};
use super::{NAME, damaged, lossless, scans};
use crate::Result;
use crate::image::{ImageView, ImageViewMut, SamplesMut, Scale, reduce_into};

/// Decodes a stream into a place that its header was read for.
///
/// The place has the size that `scale` gives; lossless streams have no other than the full one.
pub(super) fn decode(
    stream: &[u8],
    header: &Header,
    scale: Scale,
    lenient: bool,
    out: SamplesMut<'_>,
) -> Result<()> {
    if header.process == Process::Lossless {
        return lossless::decode(stream, header, lenient, out);
    }
    if header.arithmetic || header.precision != 8 {
        let what = if header.arithmetic { "arithmetic coding" } else { "12 bits per sample" };
        return Err(unsupported(format!("{what}; the feature `jpeg` of this crate decodes it")));
    }
    let SamplesMut::U8(out) = out else {
        return Err(damaged("a place for 16 bits is not its type".to_owned()));
    };
    let shape = scale.apply(header.shape()?);
    let decoded = if lenient {
        let mut cleaned = Vec::new();
        without_transform(stream, true, &mut cleaned)?;
        match run(&cleaned, header, scale) {
            Err(_) => {
                // What is missing at the end reads as zeros up to an end marker.
                cleaned.truncate(sound_part(&cleaned));
                cleaned.extend_from_slice(&[0xFF, EOI]);
                run(&cleaned, header, scale)?
            }
            other => other?,
        }
    } else {
        // The library takes zeros for what is missing and says nothing.
        scans::check(stream, header)?;
        run(stream, header, scale)?
    };
    let (mut pixels, scale_left) = decoded;
    convert(header, &mut pixels);
    let mut out = ImageViewMut::new(shape, out)?;
    let found = if scale_left { header.shape()? } else { shape };
    let view = ImageView::new(found, &pixels[..])
        .map_err(|error| damaged(format!("the library gave another size: {error}")))?;
    if scale_left { reduce_into(NAME, &view, scale, &mut out) } else { out.copy_from(NAME, &view) }
}

/// Where the last whole segment or the data of its scan ends.
fn sound_part(stream: &[u8]) -> usize {
    let mut walk = Walk::new(stream, 2, true);
    loop {
        let start = walk.position();
        match walk.next_segment() {
            Ok(segment) if segment.marker == SOS => {
                let data = stream.get(walk.position()..).unwrap_or_default();
                let ends =
                    |two: &[u8]| matches!(two, [0xFF, code] if !matches!(code, 0 | 0xD0..=0xD7));
                match data.windows(2).position(ends) {
                    Some(length) => walk.seek(walk.position().saturating_add(length)),
                    None if data.last() == Some(&0xFF) => return stream.len().saturating_sub(1),
                    None => return stream.len(),
                }
            }
            Ok(segment) if segment.marker == EOI => return start,
            Ok(_) => {}
            Err(_) => return start,
        }
    }
}

/// The components as they are stored, and whether they still have to be made smaller.
fn run(stream: &[u8], header: &Header, scale: Scale) -> Result<(Vec<u8>, bool)> {
    // The library indexes and asserts; a mistake in it must not end the caller's thread.
    let decoded = catch_unwind(AssertUnwindSafe(|| -> Result<_, Error> {
        let mut decoder = Decoder::new(stream);
        // What the components are is decided by us; three come as they are under this name, four
        // inverted.
        decoder.set_color_transform(match header.count {
            1 => ColorTransform::Grayscale,
            3 => ColorTransform::RGB,
            _ => ColorTransform::CMYK,
        });
        let mut left = false;
        if scale != Scale::Full {
            let side = |pixels: u16| {
                u16::try_from(u32::from(pixels).div_ceil(scale.denominator())).unwrap_or(pixels)
            };
            let wanted = (side(header.width), side(header.height));
            // It takes the smallest size of which one side is large enough, so for sides of few
            // pixels another one.
            left = decoder.scale(wanted.0, wanted.1)? != wanted;
            if left {
                decoder.scale(header.width, header.height)?;
            }
        }
        Ok((decoder.decode()?, left))
    }));
    match decoded {
        Ok(Ok(decoded)) => Ok(decoded),
        Ok(Err(Error::Unsupported(feature))) => {
            Err(unsupported(format!("{feature:?}; the feature `jpeg` of this crate may decode it")))
        }
        Ok(Err(Error::Io(error))) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(damaged(format!("it ends after {} bytes without an end marker", stream.len())))
        }
        Ok(Err(Error::Format(words))) => Err(damaged(words)),
        Ok(Err(error)) => Err(damaged(error.to_string())),
        Err(_) => Err(damaged("the library failed on it".to_owned())),
    }
}

/// Converts what is not yet grey, RGB or CMYK, with the numbers of libjpeg.
fn convert(header: &Header, pixels: &mut [u8]) {
    let color = header.color();
    if header.count == 4 {
        for sample in pixels.iter_mut() {
            *sample = !*sample;
        }
    }
    let width = match color {
        Color::YCbCr => 3,
        Color::Ycck => 4,
        Color::Grey | Color::Rgb | Color::Cmyk => return,
    };
    for pixel in pixels.chunks_exact_mut(width) {
        let [y, cb, cr, ..] = pixel else { continue };
        let rgb = rgb(*y, *cb, *cr);
        // Of YCCK, the first three are the complements of RGB.
        let [red, green, blue] = if color == Color::Ycck { rgb.map(|c| !c) } else { rgb };
        (*y, *cb, *cr) = (red, green, blue);
    }
}

/// Sixteen bits behind the point, as libjpeg counts.
const fn fixed(number: f64) -> i32 {
    #[allow(clippy::cast_possible_truncation, reason = "below 2 x 65,536")]
    let scaled = (number * 65_536.0 + 0.5) as i32;
    scaled
}

fn rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) =
        (i32::from(y), i32::from(cb).wrapping_sub(128), i32::from(cr).wrapping_sub(128));
    let part = |factor: i32, sample: i32| factor.wrapping_mul(sample);
    let red = part(const { fixed(1.402) }, cr).wrapping_add(HALF) >> 16;
    let blue = part(const { fixed(1.772) }, cb).wrapping_add(HALF) >> 16;
    let green = HALF
        .wrapping_sub(part(const { fixed(0.344_14) }, cb))
        .wrapping_sub(part(const { fixed(0.714_14) }, cr))
        >> 16;
    [red, green, blue]
        .map(|offset| u8::try_from(y.wrapping_add(offset).clamp(0, 255)).unwrap_or(u8::MAX))
}
