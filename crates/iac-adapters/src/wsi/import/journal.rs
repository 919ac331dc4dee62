//! A journal of tiles that were made, so that an import which was stopped need not make them again.
//!
//! It lies beside the pack and names what it was made for: source, options, codec. Tiles are appended as
//! they are written; one that was cut off by the stop, or was damaged since, counts as missing.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use iac_format::ErrorKind;
use sha2::{Digest, Sha256};

use super::build::MadeTile;
use super::source_error;
use crate::error::{AdapterError, Result};

/// What such files begin with; another form gets another number.
const MAGIC: &[u8; 8] = b"IACTILE1";
/// What journals of any form begin with; nothing else is written over.
const KIND: &[u8] = b"IACTILE";
/// Bytes of the beginning: that, and the name of what it was made for.
const HEAD: u64 = 40;
/// Bytes before each tile: place, three lengths, a checksum.
const ENTRY: u64 = 24;
/// The length of a part that is not there.
const NONE: u32 = u32::MAX;

/// The journal of an import.
pub(super) struct Journal {
    path: PathBuf,
    /// Where the parts of each tile begin, their lengths, and the checksum.
    known: HashMap<(u32, u32), (u64, [u32; 3], u32)>,
    reader: Mutex<File>,
    writer: Mutex<BufWriter<File>>,
}

impl Journal {
    /// Where the journal of a pack lies.
    pub(super) fn place(pack: &Path) -> PathBuf {
        let mut name = pack.as_os_str().to_owned();
        name.push(".journal");
        PathBuf::from(name)
    }

    /// Opens the journal of a pack; one that was made for something else is begun anew.
    pub(super) fn open(pack: &Path, made_for: &str) -> Result<Self> {
        let path = Self::place(pack);
        let failed = || AdapterError::io(&path, "cannot use the journal");
        check_is_ours(&path)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(source_error(
                    &path,
                    ErrorKind::Usage,
                    "is in use by another import of this pack",
                ));
            }
            // Where the file system has no locks, nobody else can be seen.
            Err(TryLockError::Error(_)) => {}
        }
        let name: [u8; 32] = Sha256::digest(made_for.as_bytes()).into();
        let mut head = Vec::new();
        Read::by_ref(&mut file).take(HEAD).read_to_end(&mut head).map_err(failed())?;
        let (known, end) = if head == [&MAGIC[..], &name].concat() {
            scan(&mut file).map_err(failed())?
        } else if !head.starts_with(KIND) && !KIND.starts_with(&head) {
            return Err(source_error(
                &path,
                ErrorKind::Usage,
                "is no journal of an import, and is not replaced by one",
            ));
        } else {
            file.set_len(0).map_err(failed())?;
            file.seek(SeekFrom::Start(0)).map_err(failed())?;
            file.write_all(MAGIC).and_then(|()| file.write_all(&name)).map_err(failed())?;
            (HashMap::new(), HEAD)
        };
        file.set_len(end).map_err(failed())?;
        file.seek(SeekFrom::Start(end)).map_err(failed())?;
        let reader = File::open(&path).map_err(failed())?;
        Ok(Self {
            known,
            reader: Mutex::new(reader),
            writer: Mutex::new(BufWriter::with_capacity(1 << 20, file)),
            path,
        })
    }

    /// A tile that was made before; nothing where it was not, or is damaged.
    pub(super) fn get(&self, place: (u32, u32)) -> Option<MadeTile> {
        let (start, lengths, stored) = *self.known.get(&place)?;
        let length = |length: u32| if length == NONE { 0 } else { u64::from(length) };
        let whole = lengths.iter().map(|it| length(*it)).sum::<u64>();
        let mut bytes = vec![0; usize::try_from(whole).ok()?];
        {
            let mut file = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(start)).ok()?;
            file.read_exact(&mut bytes).ok()?;
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head_of(place, lengths));
        hasher.update(&bytes);
        if hasher.finalize() != stored {
            return None;
        }
        let mut rest = bytes.as_slice();
        let mut part = |length: u32| -> Option<Option<Vec<u8>>> {
            if length == NONE {
                return Some(None);
            }
            let (part, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            rest = behind;
            Some(Some(part.to_vec()))
        };
        let [payload, original, small] = lengths;
        Some(MadeTile {
            place,
            payload: part(payload)??,
            original: part(original)?,
            small: part(small)?,
        })
    }

    /// Appends a tile.
    pub(super) fn add(&self, tile: &MadeTile) -> Result<()> {
        let parts = [Some(&tile.payload), tile.original.as_ref(), tile.small.as_ref()];
        let lengths = parts.map(|part| {
            part.map_or(Some(NONE), |part| {
                u32::try_from(part.len()).ok().filter(|length| *length != NONE)
            })
        });
        // So large a tile is made again if need be.
        let [Some(payload), Some(original), Some(small)] = lengths else { return Ok(()) };
        let mut head = head_of(tile.place, [payload, original, small]);
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        parts.iter().flatten().for_each(|part| hasher.update(part));
        head.extend(hasher.finalize().to_le_bytes());
        let mut file = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut write = || -> std::io::Result<()> {
            file.write_all(&head)?;
            parts.iter().flatten().try_for_each(|part| file.write_all(part))
        };
        write().map_err(AdapterError::io(&self.path, "cannot use the journal"))
    }

    /// Removes the journal of a pack that is complete.
    pub(super) fn remove(self) {
        let Self { path, reader, writer, .. } = self;
        drop((reader, writer));
        // The pack is there; a journal that stays is begun anew or deleted by hand.
        let _ = std::fs::remove_file(path);
    }
}

/// Refuses what is no file: a link would lead elsewhere, and a pipe has no end.
fn check_is_ours(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => {
            Err(source_error(path, ErrorKind::Usage, "is no file, as a journal would be"))
        }
        _ => Ok(()),
    }
}

/// What stands before a tile, without the checksum.
fn head_of((x, y): (u32, u32), [payload, original, small]: [u32; 3]) -> Vec<u8> {
    [x, y, payload, original, small].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Finds the tiles of a journal, and where the last whole one ends.
#[allow(clippy::type_complexity, reason = "the field of a journal")]
fn scan(file: &mut File) -> std::io::Result<(HashMap<(u32, u32), (u64, [u32; 3], u32)>, u64)> {
    let size = file.metadata()?.len();
    let mut known = HashMap::new();
    let mut at = HEAD;
    while at.saturating_add(ENTRY) <= size {
        let mut head = [0; 24];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut head)?;
        let mut words = head.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let (place, lengths, stored) = ((next(), next()), [next(), next(), next()], next());
        let start = at.saturating_add(ENTRY);
        let parts = lengths.iter().filter(|length| **length != NONE);
        let end = parts.fold(start, |end, length| end.saturating_add((*length).into()));
        if end > size || lengths.first() == Some(&NONE) {
            break;
        }
        known.insert(place, (start, lengths, stored));
        at = end;
    }
    Ok((known, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(x: u8, original: Option<&[u8]>) -> MadeTile {
        MadeTile {
            place: (x.into(), 7),
            payload: vec![1, 2, x],
            original: original.map(<[u8]>::to_vec),
            small: (x == 2).then(|| vec![9; 5]),
        }
    }

    fn same(one: &MadeTile, other: &MadeTile) -> bool {
        (one.place, &one.payload, &one.original, &one.small)
            == (other.place, &other.payload, &other.original, &other.small)
    }

    fn filled(pack: &Path) {
        let journal = Journal::open(pack, "this").unwrap();
        for made in [tile(1, None), tile(2, Some(b"abc")), tile(3, Some(b""))] {
            assert!(journal.get(made.place).is_none());
            journal.add(&made).unwrap();
        }
    }

    #[test]
    fn tiles_come_back_and_a_journal_of_something_else_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("a.pat.iac");
        filled(&pack);
        let journal = Journal::open(&pack, "this").unwrap();
        for made in [tile(1, None), tile(2, Some(b"abc")), tile(3, Some(b""))] {
            assert!(same(&journal.get(made.place).unwrap(), &made));
        }
        assert!(Journal::open(&pack, "this").err().unwrap().to_string().contains("in use"));
        drop(journal);
        assert!(Journal::open(&pack, "that").unwrap().get((1, 7)).is_none());
        let journal = Journal::open(&pack, "this").unwrap();
        assert!(journal.get((1, 7)).is_none());
        journal.remove();
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }

    #[test]
    fn cut_and_damaged_tiles_count_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("a.pat.iac");
        filled(&pack);
        let path = Journal::place(&pack);
        let whole = std::fs::read(&path).unwrap();
        let made = [tile(1, None), tile(2, Some(b"abc")), tile(3, Some(b""))];
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let journal = Journal::open(&pack, "this").unwrap();
            for made in &made {
                assert!(journal.get(made.place).is_none_or(|found| same(&found, made)));
            }
            journal.add(&tile(4, None)).unwrap();
            drop(journal);
            let journal = Journal::open(&pack, "this").unwrap();
            assert!(same(&journal.get((4, 7)).unwrap(), &tile(4, None)), "{cut}");
        }
        for at in 40..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            let journal = Journal::open(&pack, "this").unwrap();
            for made in &made {
                assert!(journal.get(made.place).is_none_or(|found| same(&found, made)), "{at}");
            }
        }
    }
}
