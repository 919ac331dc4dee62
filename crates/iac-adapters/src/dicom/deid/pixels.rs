//! Samples and nothing beside them.

use iac_codec::{Image, SamplesRef};

use crate::dicom::fault::{Fault, Result};
use crate::dicom::object::PIXEL_DATA;
use crate::dicom::pixels::{HIGH_BIT, Imported, PixelForm};
use crate::dicom::samples::PixelSamples;
use crate::dicom::schema2::form::{FrameForm, ImportedFrame, Kind};

/// Drops what is no sample: bits that no image uses, in which overlays lie, and the source's own
/// stream, which may carry metadata.
pub(super) fn clear(imported: &mut Imported) -> Result<()> {
    imported.aside = None;
    imported.payload = None;
    let form = &imported.form;
    if form.stored == form.allocated || form.high_bit == form.stored.saturating_sub(1) {
        // Import has cleared the others.
        return Ok(());
    }
    let mask = u16::try_from(mask_of(form)? & 0xFFFF).unwrap_or(u16::MAX);
    let shape = imported.image.shape();
    let image = match imported.image.samples() {
        SamplesRef::U8(samples) => {
            let mask = u8::try_from(mask & 0xFF).unwrap_or(0);
            Image::new(shape, samples.iter().map(|sample| sample & mask).collect::<Vec<u8>>())
        }
        SamplesRef::U16(samples) => {
            Image::new(shape, samples.iter().map(|sample| sample & mask).collect::<Vec<u16>>())
        }
        _ => return Ok(()),
    };
    imported.image = image.map_err(|error| Fault::decode(error.to_string()).at(PIXEL_DATA))?;
    Ok(())
}

/// The bits of words that are samples.
fn mask_of(form: &PixelForm) -> Result<u32> {
    let (stored, high) = (form.stored, form.high_bit);
    let lowest = high.checked_add(1).and_then(|end| end.checked_sub(stored));
    let Some(lowest) = lowest.filter(|_| high < form.allocated) else {
        return Err(Fault::schema(
            HIGH_BIT,
            format!(
                "is {high}, and with {stored} of {} bits stored nobody knows which are samples",
                form.allocated
            ),
        ));
    };
    let ones = 1_u32.checked_shl(stored.into()).unwrap_or(0).wrapping_sub(1);
    Ok(ones.checked_shl(lowest.into()).unwrap_or(0))
}

/// The same for a frame of schema 2, whose own stream is not stored then either.
pub(super) fn clear_frame(form: &FrameForm, frame: &mut ImportedFrame) -> Result<()> {
    frame.aside = None;
    let pixel = &form.pixel;
    let is_plain = pixel.high_bit == pixel.stored.saturating_sub(1);
    // Import has cleared the unused bits of shorter words, where samples are the lowest ones.
    let is_done = match form.kind {
        Kind::Bits | Kind::Floats(_) => true,
        Kind::Words => is_plain,
        Kind::Longs => false,
    };
    if is_done || pixel.stored == pixel.allocated {
        return Ok(());
    }
    let mask = mask_of(pixel)?;
    let short = u16::try_from(mask & 0xFFFF).unwrap_or(u16::MAX);
    let byte = u8::try_from(mask & 0xFF).unwrap_or(u8::MAX);
    let fill = u32::from(32_u16.saturating_sub(pixel.stored));
    match &mut frame.samples {
        PixelSamples::U8(samples) => samples.iter_mut().for_each(|it| *it &= byte),
        PixelSamples::I8(samples) => samples.iter_mut().for_each(|it| *it &= byte.cast_signed()),
        PixelSamples::U16(samples) => samples.iter_mut().for_each(|it| *it &= short),
        PixelSamples::I16(samples) => samples.iter_mut().for_each(|it| *it &= short.cast_signed()),
        PixelSamples::U32(samples) => samples.iter_mut().for_each(|it| *it &= mask),
        // The sign goes on in the bits above.
        PixelSamples::I32(samples) if is_plain => {
            samples.iter_mut().for_each(|it| *it = it.wrapping_shl(fill).wrapping_shr(fill));
        }
        PixelSamples::I32(samples) => samples.iter_mut().for_each(|it| *it &= mask.cast_signed()),
        PixelSamples::F32(_) | PixelSamples::F64(_) => {}
    }
    Ok(())
}
