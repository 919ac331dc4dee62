//! From images to streams.

use super::native::{self, Order, Quality};
use super::{Container, Jpeg2000Options, Loss, NAME, Profile, jp2};
use crate::codec::u64_len;
use crate::{CodecError, ImageView, Limits, Result, SamplesRef};

fn refused(reason: impl Into<String>) -> CodecError {
    CodecError::encode(NAME, reason)
}

pub(super) fn encode(options: &Jpeg2000Options, image: &ImageView<'_>) -> Result<Vec<u8>> {
    let shape = image.shape();
    Limits::default().check_samples(u64_len(shape.samples()))?;
    let channels = shape.channels();
    match channels {
        1 | 3 | 4 => {}
        2 | 5..=255 if options.extended => {}
        2 | 5..=255 => {
            return Err(refused(format!(
                "{channels} channels are stored with the option `extended` only, other readers \
                 refuse them"
            )));
        }
        _ => return Err(refused(format!("{channels} channels instead of 1 to 255"))),
    }
    let (bits, signed) = depth(options, image)?;
    let smaller = shape.height().min(shape.width());
    let levels = options.levels.unwrap_or(5).min(u8::try_from(smaller.ilog2()).unwrap_or(0));
    let is_ht = options.profile == Profile::Ht;
    let transform = channels >= 3 && options.color_transform.unwrap_or(!is_ht);
    let quality = match options.loss {
        None => Quality::Lossless,
        Some(Loss::Quality(psnr)) => Quality::Psnr(psnr),
        Some(Loss::Rate(ratio)) => Quality::Ratio(ratio),
        Some(Loss::Default) => Quality::Ratio(2.0),
    };
    let order = Order {
        height: shape.height(),
        width: shape.width(),
        channels,
        bits,
        signed,
        levels,
        transform,
        quality,
    };
    if is_ht {
        return encode_ht(&order, options, image);
    }
    let stride = usize::try_from(channels).unwrap_or(1).max(1);
    let codestream = native::encode(&order, |channel, place| match image.samples() {
        SamplesRef::U8(samples) => spread(samples, channel, stride, place),
        SamplesRef::U16(samples) => spread(samples, channel, stride, place),
        SamplesRef::I16(samples) => spread(samples, channel, stride, place),
        _ => {}
    })?;
    Ok(match options.container {
        Container::J2k => codestream,
        Container::Jp2 => jp2::write(&codestream, shape, bits, signed),
    })
}

#[cfg(feature = "htj2k")]
fn encode_ht(order: &Order, options: &Jpeg2000Options, image: &ImageView<'_>) -> Result<Vec<u8>> {
    super::ht::encode(order, options.loss, image)
}

#[cfg(not(feature = "htj2k"))]
fn encode_ht(_: &Order, _: &Jpeg2000Options, _: &ImageView<'_>) -> Result<Vec<u8>> {
    Err(CodecError::MissingFeature { name: NAME, feature: "htj2k" })
}

/// Bits and sign of the stream's samples; the image's must fit.
fn depth(options: &Jpeg2000Options, image: &ImageView<'_>) -> Result<(u8, bool)> {
    let width = match image.samples() {
        SamplesRef::U8(_) => 8,
        SamplesRef::U16(_) => 16,
        SamplesRef::I16(_) if options.extended => 16,
        SamplesRef::I16(_) => {
            return Err(refused(
                "signed samples are stored with the option `extended` only, other readers refuse \
                 them",
            ));
        }
        other => {
            return Err(refused(format!(
                "samples of type {} instead of uint8 or uint16",
                other.sample_type()
            )));
        }
    };
    let signed = matches!(image.samples(), SamplesRef::I16(_));
    let bits = options.bits_per_sample.unwrap_or(width);
    let allowed = if signed {
        1..=16
    } else if width == 8 {
        1..=8
    } else {
        9..=16
    };
    if !allowed.contains(&bits) {
        return Err(refused(format!(
            "{bits} bits for samples of type {} instead of {} to {}",
            image.sample_type(),
            allowed.start(),
            allowed.end()
        )));
    }
    if bits == width {
        return Ok((bits, signed));
    }
    let (lowest, highest) = match image.samples() {
        SamplesRef::U8(samples) => range(samples),
        SamplesRef::U16(samples) => range(samples),
        SamplesRef::I16(samples) => range(samples),
        _ => (0, 0),
    };
    let most = (1_i32.wrapping_shl(bits.into())).wrapping_sub(1);
    let (least, most) =
        if signed { ((most >> 1).wrapping_neg().wrapping_sub(1), most >> 1) } else { (0, most) };
    if lowest < least || highest > most {
        return Err(refused(format!(
            "samples go from {lowest} to {highest}, but {bits} bits hold {least} to {most} only"
        )));
    }
    Ok((bits, signed))
}

/// The lowest and the highest sample, or 0.
fn range<T: Copy + Into<i32>>(samples: &[T]) -> (i32, i32) {
    samples.iter().fold((0, 0), |(lowest, highest), sample| {
        let sample = (*sample).into();
        (lowest.min(sample), highest.max(sample))
    })
}

fn spread<T: Copy + Into<i32>>(samples: &[T], channel: usize, stride: usize, place: &mut [i32]) {
    for (to, from) in place.iter_mut().zip(samples.iter().skip(channel).step_by(stride)) {
        *to = (*from).into();
    }
}
