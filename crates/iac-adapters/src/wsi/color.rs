//! Colours by the slide's own profile.

use qcms::{DataType, Intent, Profile, Transform};

use super::read::WsiPackReader;
use crate::error::{AdapterError, Result};

/// Bytes that a profile may have.
const MAX_PROFILE: usize = 32 << 20;

/// A conversion of RGB pixels from a profile to sRGB.
pub struct SrgbTransform {
    transform: Transform,
}

impl std::fmt::Debug for SrgbTransform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SrgbTransform")
    }
}

impl SrgbTransform {
    /// The conversion from an ICC profile of RGB, perceptual intent.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Unsupported`] for a profile that is damaged, or not one of RGB.
    pub fn new(profile: &[u8]) -> Result<Self> {
        let unsupported = |reason: &str| AdapterError::Unsupported {
            path: "ICC profile".to_owned(),
            reason: reason.to_owned(),
        };
        // Bytes 16 to 19 name the profile's own colour space.
        if profile.get(16..20) != Some(&b"RGB "[..]) {
            return Err(unsupported("its colour space is not RGB"));
        }
        if profile.len() > MAX_PROFILE {
            return Err(unsupported("it is larger than 32 MiB"));
        }
        let input = Profile::new_from_slice(profile, false)
            .ok_or_else(|| unsupported("it is damaged, or of a kind that is not known"))?;
        let mut output = Profile::new_sRGB();
        output.precache_output_transform();
        let transform = Transform::new(&input, &output, DataType::RGB8, Intent::Perceptual)
            .ok_or_else(|| unsupported("no conversion to sRGB can be made from it"))?;
        Ok(Self { transform })
    }

    /// Converts pixels of three bytes in place.
    pub fn apply(&self, pixels: &mut [u8]) {
        let whole = pixels.as_chunks_mut::<3>().0.as_flattened_mut();
        self.transform.apply(whole);
    }
}

/// Converts pixels of a slide to sRGB by the slide's profile; those of a slide without one stay as
/// they are. Tells whether there was one. For many regions make an [`SrgbTransform`] once.
///
/// # Errors
///
/// As [`SrgbTransform::new`] and [`WsiPackReader::icc_profile`].
pub fn to_srgb(reader: &WsiPackReader, pixels: &mut [u8]) -> Result<bool> {
    let Some(profile) = reader.icc_profile()? else { return Ok(false) };
    SrgbTransform::new(&profile)?.apply(pixels);
    Ok(true)
}
