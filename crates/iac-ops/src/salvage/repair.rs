//! Repairs a header in which one byte was altered.
//!
//! The header's checksum is linear: altering a byte changes it by an amount that depends on place
//! and difference alone. The amounts of all single bytes are easily listed, and as there are far
//! fewer of them than checksums, the one that explains the mismatch is almost surely what happened.
//! Only text that satisfies every check of an undamaged header is accepted, and only if no other
//! text does too.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use iac_format::{ErrorKind, FORMAT_VERSION, HEADER_BYTES, Header, MAGIC, header_block};
use iac_reader::{ByteSource, PackReader, PositionalFile, ReadOptions};

/// Bytes in front of the header's text: magic, length, version.
const PREFIX: usize = 16;
/// What stands in front of the digits of the header's own sum.
const SUM_START: &[u8] = b"\n    \"header\": \"";
const DIGITS: usize = 8;

/// The pack with its header as it was, and what was wrong with it; nothing when that cannot be
/// made out.
pub(super) fn repaired(path: &Path, options: &ReadOptions) -> Option<(PackReader, String)> {
    let file = PositionalFile::open(path).ok()?;
    let size = file.size();
    if size < HEADER_BYTES {
        return None;
    }
    let mut block = vec![0; usize::try_from(HEADER_BYTES).ok()?];
    file.read_into(0, &mut block).ok()?;
    let (text, what) = repaired_text(&block, size)?;
    let header = header_block(&text).ok()?;
    let source = Arc::new(Patched { file, header });
    let name = path.to_string_lossy();
    let pack = PackReader::from_source(source, &name, options).ok()?;
    Some((pack, what))
}

/// The header's text as it was, and what was wrong.
fn repaired_text(block: &[u8], size: u64) -> Option<(String, String)> {
    let prefix = block.get(..PREFIX)?;
    let mut wanted = [0; PREFIX];
    let body = block.get(PREFIX..)?;
    // Whatever the length says: text ends in a brace, and zeros follow it.
    let end = body.iter().rposition(|byte| *byte == b'}')?.checked_add(1)?;
    let text = body.get(..end)?;
    wanted.get_mut(..8)?.copy_from_slice(&MAGIC);
    wanted.get_mut(8..12)?.copy_from_slice(&u32::try_from(end).ok()?.to_le_bytes());
    wanted.get_mut(12..16)?.copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let different = prefix.iter().zip(&wanted).filter(|(a, b)| a != b).count();
    // A foreign file is not made a pack.
    if different > 1 {
        return None;
    }

    let at = text.windows(SUM_START.len()).position(|window| window == SUM_START)?;
    let digits = at.checked_add(SUM_START.len())?;
    let behind = digits.checked_add(DIGITS)?;
    let mut blanked = text.to_vec();
    let stored = std::str::from_utf8(text.get(digits..behind)?).ok().map(str::to_owned);
    blanked.get_mut(digits..behind)?.fill(b'0');
    let computed = crc32fast::hash(&blanked);

    let mut found = Vec::new();
    let mut consider = |mut candidate: Vec<u8>, sum: u32, what: String| {
        let sum = format!("{sum:08x}");
        if let Some(place) = candidate.get_mut(digits..behind) {
            place.copy_from_slice(sum.as_bytes());
        }
        if let Ok(candidate) = String::from_utf8(candidate)
            && is_sound(&candidate, size)
        {
            found.push((candidate, what));
        }
    };
    let sum = stored.as_deref().and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match sum {
        Some(sum) if sum == computed => {
            let what = "header: the magic number, the version or the text's length was altered";
            consider(blanked, computed, what.to_owned());
        }
        _ => {
            let as_text = format!("{computed:08x}");
            let wrong = text.get(digits..behind)?.iter().zip(as_text.as_bytes());
            if wrong.filter(|(a, b)| a != b).count() == 1 {
                let what = "header: a digit of its own checksum was altered".to_owned();
                consider(blanked.clone(), computed, what);
            }
            if let Some(sum) = sum {
                for (position, difference) in explanations(blanked.len(), sum ^ computed) {
                    let mut candidate = blanked.clone();
                    let Some(byte) = candidate.get_mut(position) else { continue };
                    let now = *byte;
                    *byte ^= difference;
                    let what = format!(
                        "header: byte {} is {now:#04x}, but only with {:#04x} the header's checksum fits",
                        position.saturating_add(PREFIX),
                        *byte
                    );
                    consider(candidate, sum, what);
                }
            }
        }
    }
    match found.as_slice() {
        [_] => found.pop(),
        _ => None,
    }
}

/// Whether text passes every check of a header; that the data segment was cut is another matter.
fn is_sound(text: &str, size: u64) -> bool {
    Header::from_damaged_text(text, size).is_ok_and(|(header, damage)| {
        header.checksums().is_some()
            && damage.iter().all(|error| error.kind() != ErrorKind::Checksum)
    })
}

/// Every single altered byte (place and difference) of so many that changes the checksum by
/// `change`.
fn explanations(length: usize, change: u32) -> Vec<(usize, u8)> {
    let table = table();
    let step = |sum: u32| {
        let low = usize::from(sum.to_le_bytes()[0]);
        (sum >> 8) ^ table.get(low).copied().unwrap_or(0)
    };
    let mut found = Vec::new();
    // What each difference changes in the last byte; one place further to the front, zeros follow.
    let mut effects: Vec<(u8, u32)> =
        (1..=u8::MAX).map(|difference| (difference, step(u32::from(difference)))).collect();
    for position in (0..length).rev() {
        for (difference, effect) in &mut effects {
            if *effect == change {
                found.push((position, *difference));
            }
            *effect = step(*effect);
        }
    }
    found
}

/// What a byte adds to a CRC-32 (IEEE 802.3).
fn table() -> Vec<u32> {
    (0..=u32::from(u8::MAX))
        .map(|byte| {
            (0..8).fold(
                byte,
                |sum, _| {
                    if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 }
                },
            )
        })
        .collect()
}

/// A file with another header in front of it.
#[derive(Debug)]
struct Patched {
    file: PositionalFile,
    header: Vec<u8>,
}

impl ByteSource for Patched {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_into(offset, buffer)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let patch = self.header.get(start..).unwrap_or_default();
        for (byte, patched) in buffer.iter_mut().zip(patch) {
            *byte = *patched;
        }
        Ok(())
    }

    fn memory(&self) -> Option<&Bytes> {
        None
    }

    fn check_size(&self, needed: u64) -> io::Result<()> {
        self.file.check_size(needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_format::{Checksums, HeaderFacts, Layout, build_header_text};
    use serde_json::{Map, json};

    fn block() -> (Vec<u8>, u64) {
        let mut members = Map::new();
        members.insert("payload_type".to_owned(), json!("raw_files"));
        members.insert("codec".to_owned(), json!("zstd"));
        members.insert("note".to_owned(), json!({"header": "ä", "n": [1, 2.5, null]}));
        let facts = HeaderFacts {
            layout: Layout::new(560, 664, 52).unwrap(),
            num_slides: 1,
            num_records: 3,
            checksums: Some(Checksums::of_tables(7, 8)),
        };
        let text = build_header_text(&members, &facts).unwrap();
        (header_block(&text).unwrap(), facts.layout.end())
    }

    #[test]
    fn any_altered_byte_is_found_and_put_right() {
        let (whole, size) = block();
        let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let text = String::from_utf8(whole[16..end].to_vec()).unwrap();
        let mut lost = Vec::new();
        for at in 0..end {
            for flip in [0x01, 0x80] {
                let mut block = whole.clone();
                block[at] ^= flip;
                match repaired_text(&block, size) {
                    Some((found, _)) => assert_eq!(found, text, "byte {at} ^ {flip:#x}"),
                    None => lost.push(at),
                }
            }
        }
        lost.dedup();
        // The end of the text, and what marks the place of the sum, are needed to begin with.
        assert!(lost.len() <= SUM_START.len() + 1, "{lost:?}");
    }

    #[test]
    fn what_cannot_be_made_out_is_left_alone() {
        let (whole, size) = block();
        let mut two = whole.clone();
        two[30] ^= 1;
        two[90] ^= 1;
        assert!(repaired_text(&two, size).is_none());
        assert!(repaired_text(&vec![0; whole.len()], size).is_none());
        let mut foreign = whole.clone();
        foreign[..4].copy_from_slice(b"PK\x03\x04");
        assert!(repaired_text(&foreign, size).is_none());
        // An undamaged header comes back as it is.
        let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        assert_eq!(repaired_text(&whole, size).unwrap().0.as_bytes(), &whole[16..end]);
    }

    #[test]
    fn effects_of_single_bytes_are_those_of_the_checksum() {
        let zeros = vec![0; 300];
        for (position, difference) in [(0, 1), (7, 0x80), (150, 0xff), (299, 3)] {
            let mut altered = zeros.clone();
            altered[position] = difference;
            let change = crc32fast::hash(&zeros) ^ crc32fast::hash(&altered);
            assert_eq!(explanations(300, change), [(position, difference)]);
        }
    }
}
