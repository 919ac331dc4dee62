//! Samples and nothing beside them.

use iac_codec::{Image, SamplesRef};

use crate::dicom::fault::{Fault, Result};
use crate::dicom::object::PIXEL_DATA;
use crate::dicom::pixels::{HIGH_BIT, Imported};

/// Drops what is no sample: bits that no image uses, in which overlays lie, and the source's own
/// stream, which may carry metadata.
pub(super) fn clear(imported: &mut Imported) -> Result<()> {
    imported.aside = None;
    imported.payload = None;
    let form = &imported.form;
    let (stored, high) = (form.stored, form.high_bit);
    if stored == form.allocated || high == stored.saturating_sub(1) {
        // Import has cleared the others.
        return Ok(());
    }
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
    let ones = 1_u16.checked_shl(stored.into()).unwrap_or(0).wrapping_sub(1);
    let mask = ones.checked_shl(lowest.into()).unwrap_or(0);
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
