//! Bounds on what one payload may decode to.

use crate::{CodecError, Result};

/// Bounds that decoding one record keeps, so that a small hostile payload cannot exhaust memory.
///
/// A limit is inclusive: a record of exactly that size still decodes. Going past one is
/// [`CodecError::Limit`] with the found and the allowed value. There is no limit on the ratio of
/// decoded to stored size.
///
/// ```
/// use iac_codec::Limits;
///
/// let limits = Limits::default().with_max_decoded_bytes(16 << 20);
/// assert!(limits.check_decoded_bytes(16 << 20).is_ok());
/// assert!(limits.check_decoded_bytes((16 << 20) + 1).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// Samples (height x width x channels) that an image may have; 2^28 by default.
    pub max_samples: u64,
    /// Bytes that a record may decode to; 1 GiB by default.
    pub max_decoded_bytes: u64,
    /// Bytes that a native library may use for a record, where they can be counted; 2 GiB by
    /// default.
    pub max_native_memory: u64,
}

impl Limits {
    /// No bounds at all, for input that is trusted.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { max_samples: u64::MAX, max_decoded_bytes: u64::MAX, max_native_memory: u64::MAX }
    }

    /// The same limits with another bound on samples.
    #[must_use]
    pub const fn with_max_samples(mut self, samples: u64) -> Self {
        self.max_samples = samples;
        self
    }

    /// The same limits with another bound on decoded bytes.
    #[must_use]
    pub const fn with_max_decoded_bytes(mut self, bytes: u64) -> Self {
        self.max_decoded_bytes = bytes;
        self
    }

    /// The same limits with another bound on native memory.
    #[must_use]
    pub const fn with_max_native_memory(mut self, bytes: u64) -> Self {
        self.max_native_memory = bytes;
        self
    }

    /// Tests a number of samples.
    ///
    /// # Errors
    ///
    /// [`CodecError::Limit`] when it is above [`Limits::max_samples`].
    pub const fn check_samples(&self, found: u64) -> Result<()> {
        check("samples", found, self.max_samples)
    }

    /// Tests a number of decoded bytes.
    ///
    /// # Errors
    ///
    /// [`CodecError::Limit`] when it is above [`Limits::max_decoded_bytes`].
    pub const fn check_decoded_bytes(&self, found: u64) -> Result<()> {
        check("decoded bytes", found, self.max_decoded_bytes)
    }

    /// Tests an amount of native memory.
    ///
    /// # Errors
    ///
    /// [`CodecError::Limit`] when it is above [`Limits::max_native_memory`].
    pub const fn check_native_memory(&self, found: u64) -> Result<()> {
        check("bytes of native memory", found, self.max_native_memory)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_samples: 1 << 28, max_decoded_bytes: 1 << 30, max_native_memory: 2 << 30 }
    }
}

const fn check(what: &'static str, found: u64, allowed: u64) -> Result<()> {
    if found > allowed {
        return Err(CodecError::Limit { what, found, allowed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodecErrorKind;

    #[test]
    fn defaults_are_those_of_the_format() {
        let limits = Limits::default();
        assert_eq!(limits.max_samples, 268_435_456);
        assert_eq!(limits.max_decoded_bytes, 1_073_741_824);
        assert_eq!(limits.max_native_memory, 2_147_483_648);
    }

    #[test]
    fn a_value_at_the_limit_passes_and_one_more_names_both() {
        let limits = Limits::default().with_max_samples(7);
        limits.check_samples(7).unwrap();
        let error = limits.check_samples(8).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Limit);
        assert_eq!(error.to_string(), "a record has 8 samples, but the limit is 7");
        assert!(limits.with_max_native_memory(1).check_native_memory(2).is_err());
    }

    #[test]
    fn unlimited_lets_everything_pass() {
        let limits = Limits::unlimited();
        limits.check_samples(u64::MAX).unwrap();
        limits.check_decoded_bytes(u64::MAX).unwrap();
        limits.check_native_memory(u64::MAX).unwrap();
    }
}
