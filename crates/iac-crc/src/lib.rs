//! CRC-32 of bytes while they are copied.
//!
//! A record that is copied and then compared with its checksum goes through the cache twice, and a
//! batch of records spends a third of its time on the second pass. Here every byte is loaded once:
//! what was loaded is stored and goes into the sum, so the sum is also that of the very bytes at the
//! destination, whatever happens to the source meanwhile.
//!
//! The sum is the CRC-32 of ISO-HDLC, which zip, PNG and the records of `.iac` files have.
//!
//! ```
//! use iac_crc::Crc32;
//!
//! let mut copied = Vec::new();
//! let mut sum = Crc32::new();
//! sum.append(b"12345", &mut copied);
//! sum.append(b"6789", &mut copied);
//! assert_eq!((sum.value(), copied.as_slice()), (0xCBF4_3926, &b"123456789"[..]));
//! ```
//!
//! Rust's safe `copy_from_slice` and the crate `crc32fast`, one after the other, do the work for
//! short pieces and on processors without carry-less multiplication of 256 bits (VPCLMULQDQ).

mod fused;

use std::mem::MaybeUninit;

/// The CRC-32 of what it was given so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crc32 {
    sum: u32,
}

impl Crc32 {
    /// The sum of no bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self { sum: 0 }
    }

    /// The sum.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.sum
    }

    /// Takes bytes in that stay where they are.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sum = fused::continued(self.sum, bytes);
    }

    /// Copies bytes to a destination of the same length and takes them in.
    ///
    /// # Panics
    ///
    /// When the lengths differ, as `copy_from_slice` does.
    #[inline]
    pub fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        self.sum = fused::copy(self.sum, from, to);
    }

    /// Writes bytes to memory of their length that need not hold any yet, and takes them in.
    ///
    /// # Panics
    ///
    /// As [`copy`](Self::copy).
    #[inline]
    pub fn write(&mut self, from: &[u8], to: &mut [MaybeUninit<u8>]) {
        self.sum = fused::write(self.sum, from, to);
    }

    /// Copies bytes behind those of a vector and takes them in.
    #[inline]
    pub fn append(&mut self, from: &[u8], to: &mut Vec<u8>) {
        self.sum = fused::append(self.sum, from, to);
    }
}
