//! The secret that pseudonyms depend on.

use std::fmt;
use std::io::Read;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use iac_format::ErrorKind;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::error::{AdapterError, Result};

/// Bytes that a key needs at least.
const LEAST: usize = 16;
/// Bytes that a file with a key may have.
const MOST: u64 = 4096;

/// A secret from which new identifiers and the shift of dates are derived with HMAC-SHA-256. The
/// same key gives the same pseudonyms; who has it can find out whose they are by trying
/// identifiers. It is overwritten in memory when it is dropped, and never written anywhere.
#[derive(Clone)]
pub struct DeidKey(Zeroizing<Vec<u8>>);

impl fmt::Debug for DeidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeidKey(..)")
    }
}

impl DeidKey {
    /// A key from its bytes, at least 16; 32 random ones are best.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] when there are fewer.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = Zeroizing::new(bytes.into());
        if bytes.len() < LEAST {
            return Err(AdapterError::usage(format!(
                "the key has {} bytes, and at least {LEAST} are needed",
                bytes.len()
            )));
        }
        Ok(Self(bytes))
    }

    /// A key from a file: all of its bytes, but for white space at the end.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`] when it cannot be read; as [`new`](Self::new), and for more than
    /// 4096 bytes.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = AdapterError::io(path, "cannot be read");
        let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(MOST).unwrap_or(0)));
        std::fs::File::open(path)
            .and_then(|file| file.take(MOST.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(io)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST) {
            return Err(AdapterError::Source {
                path: path.to_owned(),
                row: None,
                kind: ErrorKind::Usage,
                reason: format!("a key has at most {MOST} bytes"),
            });
        }
        Self::new(trimmed(&bytes).to_vec())
    }

    /// A key from an environment variable.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] when it is not set; as [`new`](Self::new).
    pub fn from_env(name: &str) -> Result<Self> {
        let value = std::env::var_os(name).ok_or_else(|| {
            AdapterError::usage(format!("the environment variable {name} with the key is not set"))
        })?;
        let bytes = Zeroizing::new(value.into_encoded_bytes());
        Self::new(trimmed(&bytes).to_vec())
    }

    /// A keyed hash of parts, each of which counts with its length. Different labels give hashes that
    /// have nothing to do with each other.
    pub(crate) fn mac(&self, label: &str, parts: &[&[u8]]) -> [u8; 32] {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            // HMAC takes keys of every length.
            return [0; 32];
        };
        for part in std::iter::once(label.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// The UID that stands for another one: `2.25.` and a UUID (version 8: made of a hash) as one
    /// decimal number, as PS3.5 annex B.2 has it.
    pub(crate) fn uid(&self, uid: &str) -> String {
        let mac = self.mac("uid", &[uid.as_bytes()]);
        let half = mac.first_chunk::<16>().copied().unwrap_or_default();
        let number = u128::from_be_bytes(half);
        let version = number & !(0xF_u128 << 76) | (8_u128 << 76);
        let variant = version & !(0x3_u128 << 62) | (2_u128 << 62);
        format!("2.25.{variant}")
    }

    /// So many hexadecimal digits of a keyed hash, at most 64.
    pub(crate) fn hex(&self, label: &str, parts: &[&[u8]], digits: usize) -> String {
        let text: String =
            self.mac(label, parts).iter().map(|byte| format!("{byte:02x}")).collect();
        text.chars().take(digits).collect()
    }

    /// A number from 1 to `most`.
    pub(crate) fn number(&self, label: &str, parts: &[&[u8]], most: u32) -> u32 {
        let mac = self.mac(label, parts);
        let eight = mac.first_chunk::<8>().copied().unwrap_or_default();
        let rest = u64::from_le_bytes(eight).checked_rem(most.into()).unwrap_or(0);
        u32::try_from(rest).unwrap_or(0).saturating_add(1)
    }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_end()
}

/// Whether a text is a UID of the form that `DeidKey::uid` gives.
pub(crate) fn is_new_uid(uid: &str) -> bool {
    uid.strip_prefix("2.25.").is_some_and(|number| {
        !number.starts_with('0')
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && number
                .parse::<u128>()
                .is_ok_and(|number| (number >> 76) & 0xF == 8 && (number >> 62) & 0x3 == 2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> DeidKey {
        DeidKey::new(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn uids_depend_on_key_and_uid_and_are_uuids() {
        let (one, other) = (key("0123456789abcdef"), key("0123456789abcdeg"));
        let uid = one.uid("1.2.3");
        assert_eq!(uid, one.uid("1.2.3"));
        assert_ne!(uid, one.uid("1.2.4"));
        assert_ne!(uid, other.uid("1.2.3"));
        assert!(is_new_uid(&uid), "{uid}");
        assert!(uid.len() <= 44);
        assert!(!is_new_uid("2.25.1"));
        assert!(!is_new_uid("1.2.3"));
    }

    #[test]
    fn the_hash_is_hmac_sha_256_of_parts_with_their_lengths() {
        // By hand: HMAC over the length (eight bytes, little-endian) and the bytes of each part.
        let mut mac = Hmac::<Sha256>::new_from_slice(b"0123456789abcdef").unwrap();
        mac.update(b"\x01\0\0\0\0\0\0\0a\x02\0\0\0\0\0\0\0bc");
        let wanted: [u8; 32] = mac.finalize().into_bytes().into();
        assert_eq!(key("0123456789abcdef").mac("a", &[b"bc"]), wanted);
        assert_ne!(key("0123456789abcdef").mac("a", &[b"b", b"c"]), wanted);
    }

    #[test]
    fn keys_are_refused_when_they_are_short_and_never_shown() {
        assert!(DeidKey::new(b"0123456789abcde".to_vec()).is_err());
        assert_eq!(format!("{:?}", key("0123456789abcdef")), "DeidKey(..)");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789abcdef\n").unwrap();
        let read = DeidKey::from_file(file.path()).unwrap();
        assert_eq!(read.uid("1"), key("0123456789abcdef").uid("1"));
        std::fs::write(file.path(), vec![b'x'; 5000]).unwrap();
        assert!(DeidKey::from_file(file.path()).is_err());
        assert!(DeidKey::from_env("IAC_TEST_NO_SUCH_VARIABLE").is_err());
    }
}
