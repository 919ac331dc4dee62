//! How much memory and time a stream may cost beyond its own bytes.

use super::fault::{Check, Fault};

/// Bytes that one decoding call may allocate beyond the stream itself: for decompressed buffers,
/// for dictionaries joined from deltas, and for rows that no bytes stand behind.
///
/// A column of ten million records costs 40 to 200 MB, so real tables stay well below.
pub const MAX_EXPANDED_BYTES: u64 = 1 << 30;

/// Bytes that the strings of `utf8_view` columns may have together in one decoding call.
///
/// Many views may show the same bytes, so their sum is not bounded by the size of the stream, yet
/// each is checked to be UTF-8. The limit keeps that to seconds.
pub const MAX_VIEWED_BYTES: u64 = 1 << 34;

/// Most bytes that one byte of a Zstandard body may stand for: a block of 128 KiB takes four.
const ZSTD_EXPANSION: u64 = 1 << 16;
/// Most bytes that one byte of an LZ4 body may stand for: a length byte counts up to 255.
const LZ4_EXPANSION: u64 = 1 << 8;
/// Allocations from this size on are tried out before the library makes them.
const PROBED_BYTES: usize = 1 << 20;
/// Bytes that are never called too many for a compressed buffer, whatever its size.
const EXPANSION_FLOOR: u64 = 1 << 16;

/// Compression of a message body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Lz4Frame,
    Zstd,
}

impl Codec {
    /// Refuses sizes that the codec cannot reach from `stored` bytes.
    pub(super) fn check_expansion(self, stored: u64, expanded: u64) -> Check<()> {
        let factor = match self {
            Self::Lz4Frame => LZ4_EXPANSION,
            Self::Zstd => ZSTD_EXPANSION,
        };
        let most = stored.saturating_mul(factor).max(EXPANSION_FLOOR);
        if expanded > most {
            return Err(Fault::damaged(format!(
                "a compressed buffer of {stored} bytes claims to hold {expanded} bytes"
            )));
        }
        Ok(())
    }
}

/// What is left of the limits during one decoding call.
#[derive(Debug)]
pub(super) struct Allowance {
    expanded: u64,
    viewed: u64,
}

impl Allowance {
    pub(super) const fn new() -> Self {
        Self { expanded: MAX_EXPANDED_BYTES, viewed: MAX_VIEWED_BYTES }
    }

    /// Takes bytes that will be allocated.
    pub(super) fn expand(&mut self, bytes: u64) -> Check<()> {
        self.expanded = self.expanded.checked_sub(bytes).ok_or_else(|| {
            Fault::limit(format!(
                "decoding needs more than {MAX_EXPANDED_BYTES} bytes beyond the stream's own \
                 ({bytes} more, {} left)",
                self.expanded
            ))
        })?;
        // The library allocates without asking: a shortage would end the process there.
        let probed = usize::try_from(bytes).ok().is_some_and(|bytes| {
            bytes < PROBED_BYTES || Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
        });
        if !probed {
            return Err(Fault::limit(format!(
                "decoding needs {bytes} bytes of memory, and that much is not available"
            )));
        }
        Ok(())
    }

    /// Takes bytes that views show.
    pub(super) fn view(&mut self, bytes: u64) -> Check<()> {
        self.viewed = self.viewed.checked_sub(bytes).ok_or_else(|| {
            Fault::limit(format!(
                "the string views show more than {MAX_VIEWED_BYTES} bytes together"
            ))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowance_is_used_up_not_wrapped() {
        let mut allowance = Allowance::new();
        allowance.expand(MAX_EXPANDED_BYTES).unwrap();
        assert!(matches!(allowance.expand(1), Err(Fault::Limit(_))));
        assert!(matches!(allowance.view(u64::MAX), Err(Fault::Limit(_))));
    }

    #[test]
    fn expansion_beyond_the_codec_is_damage() {
        assert!(Codec::Zstd.check_expansion(8192, 80 << 20).is_ok());
        assert!(Codec::Lz4Frame.check_expansion(8192, 80 << 20).is_err());
        assert!(Codec::Zstd.check_expansion(0, 1 << 17).is_err());
    }
}
