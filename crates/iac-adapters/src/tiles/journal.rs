//! What a build has encoded so far, so that the next attempt need not do it again.
//!
//! A journal is a file beside the pack: a head that says which build it belongs to, then one entry
//! for each record, in order, with the payload and the state of its source. Every entry has a
//! checksum, so one that was being written when the process ended is noticed and written again.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{AdapterError, Result};
use crate::tiles::source::FileStamp;

const MAGIC: &[u8; 8] = b"IACTILE1";
const HEAD_BYTES: u64 = 8 + 32;
/// Source bytes, seconds, nanoseconds, payload bytes, checksum.
const ENTRY_BYTES: usize = 8 + 8 + 4 + 4 + 4;

/// The journal of one build; it is kept when it is dropped.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// End of the last sound entry.
    end: u64,
    buffer: Vec<u8>,
}

/// Where the journal of a pack lies.
pub(crate) fn path_of(pack: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(pack.file_name().unwrap_or_default());
    name.push(".journal.part");
    pack.with_file_name(name)
}

impl Journal {
    /// Opens the journal of a build, or begins one; that of another build is thrown away.
    pub(crate) fn open(pack: &Path, build: &[u8; 32]) -> Result<Self> {
        let path = path_of(pack);
        let fail = |action: &'static str| AdapterError::io(&path, action);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fail("cannot open the journal"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(AdapterError::usage(format!(
                    "{}: another build of this pack is at work",
                    path.display()
                )));
            }
            // Where files cannot be locked, two builds at once are the caller's affair.
            Err(TryLockError::Error(_)) => {}
        }
        let mut head = Vec::new();
        (&file).take(HEAD_BYTES).read_to_end(&mut head).map_err(fail("cannot read the journal"))?;
        let mut expected = MAGIC.to_vec();
        expected.extend_from_slice(build);
        let mut journal = Self { path, file, end: HEAD_BYTES, buffer: Vec::new() };
        if head != expected {
            journal.write_at(0, &expected).map_err(journal.fail())?;
            journal.file.set_len(HEAD_BYTES).map_err(journal.fail())?;
        }
        Ok(journal)
    }

    /// Hands on the payloads of the records that the journal has, as long as `is_current` finds
    /// their sources unchanged; gives their number. What is behind them is thrown away.
    pub(crate) fn replay(
        &mut self,
        records: u64,
        mut is_current: impl FnMut(u64, FileStamp) -> bool,
        mut on_payload: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<u64> {
        let fail = |path: &Path, error| AdapterError::io(path, "cannot read the journal")(error);
        let length = self.file.metadata().map_err(|error| fail(&self.path, error))?.len();
        self.file.seek(SeekFrom::Start(self.end)).map_err(|error| fail(&self.path, error))?;
        let mut source = BufReader::with_capacity(1 << 18, &self.file);
        let mut found = 0_u64;
        let mut payload = Vec::new();
        while found < records {
            let left = length.saturating_sub(self.end);
            let entry = read_entry(&mut source, left, &mut payload);
            let Some(stamp) = entry.map_err(|error| fail(&self.path, error))? else { break };
            if !is_current(found, stamp) {
                break;
            }
            on_payload(&payload)?;
            let bytes = ENTRY_BYTES.saturating_add(payload.len());
            self.end = self.end.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            found = found.saturating_add(1);
        }
        self.file.set_len(self.end).map_err(self.fail())?;
        Ok(found)
    }

    /// Adds the payload of the next record.
    pub(crate) fn append(&mut self, stamp: FileStamp, payload: &[u8]) -> Result<()> {
        let Ok(length) = u32::try_from(payload.len()) else { return Ok(()) };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.extend_from_slice(&facts(stamp, length));
        let sum = entry_sum(&buffer, payload);
        buffer.extend_from_slice(&sum.to_le_bytes());
        buffer.extend_from_slice(payload);
        let written = self.write_at(self.end, &buffer);
        self.end = self.end.saturating_add(u64::try_from(buffer.len()).unwrap_or(u64::MAX));
        self.buffer = buffer;
        written.map_err(self.fail())
    }

    /// Removes the journal, when the pack is there.
    pub(crate) fn remove(self) -> Result<()> {
        fs::remove_file(&self.path)
            .map_err(AdapterError::io(&self.path, "cannot remove the journal"))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)
    }

    fn fail(&self) -> impl FnOnce(io::Error) -> AdapterError + use<> {
        AdapterError::io(&self.path, "cannot write the journal")
    }
}

fn facts(stamp: FileStamp, length: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ENTRY_BYTES);
    bytes.extend_from_slice(&stamp.bytes.to_le_bytes());
    bytes.extend_from_slice(&stamp.seconds.to_le_bytes());
    bytes.extend_from_slice(&stamp.nanos.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes
}

fn entry_sum(facts: &[u8], payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(facts);
    sum.update(payload);
    sum.finalize()
}

/// Reads one entry; nothing when there is none that is sound.
fn read_entry(
    source: &mut impl Read,
    left: u64,
    payload: &mut Vec<u8>,
) -> io::Result<Option<FileStamp>> {
    let entry = u64::try_from(ENTRY_BYTES).unwrap_or(u64::MAX);
    let Some(left) = left.checked_sub(entry) else { return Ok(None) };
    let mut bytes = [0_u8; ENTRY_BYTES];
    source.read_exact(&mut bytes)?;
    let [
        a0,
        a1,
        a2,
        a3,
        a4,
        a5,
        a6,
        a7,
        s0,
        s1,
        s2,
        s3,
        s4,
        s5,
        s6,
        s7,
        n0,
        n1,
        n2,
        n3,
        l0,
        l1,
        l2,
        l3,
        c0,
        c1,
        c2,
        c3,
    ] = bytes;
    let stamp = FileStamp {
        bytes: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
        seconds: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
        nanos: u32::from_le_bytes([n0, n1, n2, n3]),
    };
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    if u64::from(length) > left {
        return Ok(None);
    }
    payload.resize(usize::try_from(length).unwrap_or(0), 0);
    source.read_exact(payload)?;
    let sum = entry_sum(&facts(stamp, length), payload);
    Ok((sum == u32::from_le_bytes([c0, c1, c2, c3])).then_some(stamp))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: FileStamp = FileStamp { bytes: 7, seconds: 1, nanos: 2 };

    fn replayed(pack: &Path, build: u8, records: u64) -> (Journal, Vec<Vec<u8>>) {
        let mut journal = Journal::open(pack, &[build; 32]).unwrap();
        let mut payloads = Vec::new();
        journal
            .replay(
                records,
                |_, stamp| stamp == STAMP,
                |payload| {
                    payloads.push(payload.to_vec());
                    Ok(())
                },
            )
            .unwrap();
        (journal, payloads)
    }

    #[test]
    fn entries_come_back_up_to_the_first_that_is_not_sound() {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("a.iac");
        let (mut journal, payloads) = replayed(&pack, 1, 9);
        assert!(payloads.is_empty());
        for payload in [b"one".as_slice(), b"", b"three"] {
            journal.append(STAMP, payload).unwrap();
        }
        drop(journal);
        let path = path_of(&pack);
        assert_ne!(path.extension().unwrap(), "iac");
        let whole = fs::read(&path).unwrap();
        for cut in 40..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let expected = [40 + 31, 40 + 31 + 28, 40 + 31 + 28 + 33]
                .iter()
                .filter(|end| **end <= cut)
                .count();
            let (mut journal, payloads) = replayed(&pack, 1, 9);
            assert_eq!(payloads.len(), expected, "{cut}");
            journal.append(STAMP, b"next").unwrap();
            drop(journal);
            assert_eq!(replayed(&pack, 1, 9).1.last().unwrap(), b"next");
        }
        for at in 71..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(replayed(&pack, 1, 9).1.len(), if at < 99 { 1 } else { 2 }, "{at}");
        }
    }

    #[test]
    fn journals_of_other_builds_and_builds_at_once_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("a.iac");
        let (mut journal, _) = replayed(&pack, 1, 9);
        journal.append(STAMP, b"one").unwrap();
        journal.append(FileStamp { nanos: 3, ..STAMP }, b"changed").unwrap();
        assert!(Journal::open(&pack, &[1; 32]).is_err());
        drop(journal);
        assert_eq!(replayed(&pack, 1, 9).1, [b"one"]);
        assert!(replayed(&pack, 2, 9).1.is_empty());
        let (journal, payloads) = replayed(&pack, 1, 9);
        assert!(payloads.is_empty());
        journal.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
