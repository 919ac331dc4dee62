//! JPEG files in JPEG XL streams: smaller, and the same file again when it is asked for.

use super::{NAME, native};
use crate::{CodecError, Limits, Result};

/// How JPEG files are transcoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranscodeOptions {
    effort: u8,
    limits: Limits,
}

impl TranscodeOptions {
    /// From 1 (fast) to 10 (small); default 3, as more makes streams hardly smaller.
    #[must_use]
    pub const fn with_effort(mut self, effort: u8) -> Self {
        self.effort = effort;
        self
    }

    /// Bounds on the file and on what rebuilding it for the test needs.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Default for TranscodeOptions {
    fn default() -> Self {
        Self { effort: 3, limits: Limits::default() }
    }
}

/// Puts a complete JPEG file into a JPEG XL stream from which [`reconstruct_jpeg`] rebuilds it
/// byte for byte; that is tested each time.
///
/// Decoded as an image, the stream gives pixels that are close to those of a JPEG decoder, though
/// not always the same: rebuild the file where they must be.
///
/// # Errors
///
/// [`CodecError::Parameter`] for an effort other than 1 to 10, [`CodecError::Limit`] for a file
/// above the limits, and [`CodecError::Encode`] when the library cannot hold this file: some valid
/// ones are beyond it (arithmetic coding, 12 bits, lossless, shared tables that are not in the
/// file), and some odd ones do not come back the same. The file is then best kept as it is.
pub fn transcode_jpeg(jpeg: &[u8], options: TranscodeOptions) -> Result<Vec<u8>> {
    if !(1..=10).contains(&options.effort) {
        let reason = format!("{} instead of 1 to 10", options.effort);
        return Err(CodecError::parameter(NAME, super::EFFORT, reason));
    }
    options.limits.check_decoded_bytes(crate::codec::u64_len(jpeg.len()))?;
    if !jpeg.starts_with(&[0xFF, 0xD8]) {
        let first = jpeg.get(..12).unwrap_or(jpeg).escape_ascii();
        return Err(refused(format!("it starts with \"{first}\", as no JPEG file does")));
    }
    // The library takes memory for all that the file claims before it has read any of it.
    options.limits.check_samples(claimed_samples(jpeg))?;
    let stream = native::transcode(jpeg, options.effort).map_err(refused)?;
    match native::reconstruct(&stream, &options.limits)? {
        Some(rebuilt) if rebuilt == jpeg => Ok(stream),
        _ => Err(refused("the stream does not rebuild the same file".to_owned())),
    }
}

/// Rebuilds the JPEG file that a stream was made from by [`transcode_jpeg`] or another transcoder;
/// nothing where the stream holds no such file.
///
/// # Errors
///
/// [`CodecError::Decode`] for a damaged stream, [`CodecError::Limit`] for a file above the limits.
pub fn reconstruct_jpeg(payload: &[u8], limits: &Limits) -> Result<Option<Vec<u8>>> {
    native::reconstruct(payload, limits)
}

/// The largest height x width x components that any frame header claims (ITU-T T.81, B.2.2).
///
/// The library passes over bytes between segments, so that headers can be anywhere. What looks like
/// one inside another segment counts too, which can only refuse a file that none would hold by
/// chance: length, precision and components must fit together.
fn claimed_samples(jpeg: &[u8]) -> u64 {
    let claims = jpeg.windows(10).filter_map(|window| {
        let [0xFF, 0xC0..=0xCF, long, short, 8, high, low, wide, narrow, components @ 1..=4] =
            *window
        else {
            return None;
        };
        let length = u64::from(u16::from_be_bytes([long, short]));
        let components = u64::from(components);
        if length != components.saturating_mul(3).saturating_add(8) {
            return None;
        }
        let height = u64::from(u16::from_be_bytes([high, low]));
        let width = u64::from(u16::from_be_bytes([wide, narrow]));
        Some(height.saturating_mul(width).saturating_mul(components))
    });
    claims.max().unwrap_or(0)
}

fn refused(reason: String) -> CodecError {
    CodecError::encode(NAME, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodecErrorKind;

    #[test]
    fn sizes_that_a_jpeg_file_claims_are_tested_before_the_library_believes_them() {
        let frame = [0xFF, 0xC2, 0, 11, 8, 0xFF, 0xDC, 0xFF, 0xDC, 1, 1, 0x11, 0];
        let mut jpeg = vec![0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2, 0xFF];
        jpeg.extend(frame);
        assert_eq!(claimed_samples(&jpeg), 65_500 * 65_500);
        let error = transcode_jpeg(&jpeg, TranscodeOptions::default()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Limit);
        // Bytes that belong to no segment do not hide it.
        jpeg.splice(8..8, [1, 2, 3]);
        let error = transcode_jpeg(&jpeg, TranscodeOptions::default()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Limit);
        for cut in 0..jpeg.len() {
            let _ = transcode_jpeg(&jpeg[..cut], TranscodeOptions::default());
        }
    }
}
