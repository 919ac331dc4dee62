//! From an image to a stream that is sure to hold it.

use super::header::Pixels;
use super::native::{self, Care, Plan};
use super::{JxlBackend, JxlOptions, NAME, Stream};
use crate::{
    CodecError, DecodeOptions, DepthHandling, Image, ImageView, Limits, Result, SampleType,
    SamplesRef,
};

pub(super) fn encode(options: &JxlOptions, image: &ImageView<'_>) -> Result<Vec<u8>> {
    let sample_type = image.sample_type();
    if sample_type == SampleType::I16 {
        return Err(refused(
            "its samples are of type int16, which a codec for signed samples stores".to_owned(),
        ));
    }
    let channels = image.shape().channels();
    if channels > 4 {
        return Err(refused(format!("it has {channels} channels instead of 1 to 4")));
    }
    let bits = used_bits(options, image)?;
    if !options.lossless {
        check_finite(image)?;
    }
    #[allow(clippy::cast_possible_truncation, reason = "the library has this precision")]
    let distance = (!options.lossless).then_some(options.distance as f32);
    let mut plan = Plan {
        distance,
        effort: options.effort,
        container: options.container == Some(true),
        bits,
        care: care(image, options.lossless),
    };
    let first = run(options, image, &plan);
    if first.is_ok() || plan.care != Care::Differences {
        return first;
    }
    plan.care = Care::Unpredicted;
    run(options, image, &plan)
}

/// Floats of 32 bits are coded as the integers that their bits are where nothing is lost, and so is
/// an alpha of them in any case.
fn care(image: &ImageView<'_>, lossless: bool) -> Care {
    let SamplesRef::F32(samples) = image.samples() else { return Care::None };
    let channels = usize::try_from(image.shape().channels()).unwrap_or(1);
    let every = match (lossless, channels) {
        (true, _) => 1,
        (false, 2 | 4) => channels,
        (false, _) => return Care::None,
    };
    let coded = samples.iter().skip(every.saturating_sub(1)).step_by(every.max(1));
    let signs = coded.fold((false, false), |(plus, minus), sample| {
        let negative = sample.is_sign_negative();
        (plus | !negative, minus | negative)
    });
    if signs == (true, true) { Care::Unpredicted } else { Care::Differences }
}

fn run(options: &JxlOptions, image: &ImageView<'_>, plan: &Plan) -> Result<Vec<u8>> {
    let payload = native::encode(image, plan).map_err(refused)?;
    if options.verify {
        verify(image, &payload, plan)?;
    }
    Ok(payload)
}

/// The bits to declare; nothing where they are those of the type.
fn used_bits(options: &JxlOptions, image: &ImageView<'_>) -> Result<Option<u8>> {
    let Some(bits) = options.bits else { return Ok(None) };
    let (allowed, largest) = match image.samples() {
        SamplesRef::U8(samples) => (1..=8, samples.iter().max().copied().map(u16::from)),
        SamplesRef::U16(samples) => (9..=16, samples.iter().max().copied()),
        other => {
            return Err(refused(format!(
                "its samples are of type {}, {bits} bits can be declared for integers",
                other.sample_type()
            )));
        }
    };
    if !allowed.contains(&bits) {
        return Err(refused(format!(
            "its samples are of type {}, for which {} to {} bits can be declared, not {bits}",
            image.sample_type(),
            allowed.start(),
            allowed.end()
        )));
    }
    let room = u16::MAX >> 16_u8.saturating_sub(bits).min(15);
    match largest {
        Some(largest) if largest > room => {
            Err(refused(format!("a sample of it is {largest}, but {bits} bits hold up to {room}")))
        }
        _ => Ok((bits != *allowed.end()).then_some(bits)),
    }
}

/// A sample that is no number would spoil its surroundings.
fn check_finite(image: &ImageView<'_>) -> Result<()> {
    let place = match image.samples() {
        SamplesRef::F16(samples) => samples.iter().position(|sample| !sample.is_finite()),
        SamplesRef::F32(samples) => samples.iter().position(|sample| !sample.is_finite()),
        _ => None,
    };
    match place {
        None => Ok(()),
        Some(place) => Err(refused(format!(
            "sample {place} of it is not finite, which only lossless coding keeps"
        ))),
    }
}

fn verify(image: &ImageView<'_>, payload: &[u8], plan: &Plan) -> Result<()> {
    let options = DecodeOptions::from(Limits::unlimited()).with_depth(DepthHandling::Unscaled);
    let (stream, header) = Stream::open(JxlBackend::Libjxl, payload, &options.limits, Pixels::All)?;
    let info = header.info()?;
    if (info.shape, info.sample_type) != (image.shape(), image.sample_type()) {
        return Err(unequal("shape or type"));
    }
    let mut decoded = Image::zeroed(info.shape, info.sample_type, &options.limits)?;
    stream.pixels(&header, &options, &mut decoded.as_view_mut())?;
    // Bytes, as a zero may be negative and a float need not be equal to itself.
    if plan.distance.is_none() && decoded.samples().to_le_bytes() != image.samples().to_le_bytes() {
        return Err(unequal("samples"));
    }
    Ok(())
}

fn unequal(what: &str) -> CodecError {
    refused(format!("the stream decodes to other {what}"))
}

fn refused(reason: String) -> CodecError {
    CodecError::encode(NAME, reason)
}
