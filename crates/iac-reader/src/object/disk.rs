//! Blocks on disk.
//!
//! Each block is a file, made under another name and renamed, so that readers of any process see
//! it whole or not at all; what it holds is compared before it is believed. Nothing here is an
//! error: a cache that cannot be written or read is one that has nothing.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::ranges::length_of;

const MAGIC: [u8; 8] = *b"IACBLK1\n";
/// Length of the name, length of the block, CRC-32 of both.
const FIXED_BYTES: u64 = 8 + 4 + 4 + 4;
const ENDING: &str = "block";
const UNFINISHED: &str = "part";
/// Unfinished files of writers that are gone.
const ABANDONED: Duration = Duration::from_secs(3600);
/// What is left after a clean-up, in percent of the budget: so that not every write is one.
const KEPT_PERCENT: u64 = 90;

/// A folder of blocks within a budget.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    budget: u64,
    /// Bytes that are there, as far as this process knows.
    bytes: AtomicU64,
    /// For the names of unfinished files.
    counter: AtomicU64,
}

impl Disk {
    pub(crate) fn open(folder: &Path, budget: u64) -> io::Result<Self> {
        make_folder(folder)?;
        let disk = Self {
            folder: folder.to_owned(),
            budget,
            bytes: AtomicU64::new(0),
            counter: AtomicU64::new(0),
        };
        let found = disk.list()?;
        disk.bytes.store(total(&found), Ordering::Relaxed);
        if total(&found) > budget {
            disk.clean_up();
        }
        Ok(disk)
    }

    /// A block of the length that it must have.
    pub(crate) fn read(&self, name: &str, block: u64, number: u64, length: u64) -> Option<Bytes> {
        let path = self.path(name, block, number);
        let mut file = File::open(&path).ok()?;
        let block = read_block(&mut file, name, length);
        if block.is_some() {
            // The time of the last use, for whoever cleans up.
            drop(file.set_modified(SystemTime::now()));
        } else {
            drop(fs::remove_file(&path));
        }
        block
    }

    pub(crate) fn write(&self, name: &str, block: u64, number: u64, bytes: &[u8]) {
        let Some(head) = head(name, bytes) else {
            return;
        };
        let length = length_of(&head).saturating_add(length_of(bytes));
        if length > self.budget {
            return;
        }
        let path = self.path(name, block, number);
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let unfinished =
            path.with_extension(format!("{}-{counter}.{UNFINISHED}", std::process::id()));
        let written = create(&unfinished)
            .and_then(|mut file| file.write_all(&head).and_then(|()| file.write_all(bytes)))
            .and_then(|()| fs::rename(&unfinished, &path));
        if written.is_err() {
            drop(fs::remove_file(&unfinished));
            return;
        }
        let before = self.bytes.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) > self.budget {
            self.clean_up();
        }
    }

    /// Removes what was not used for longest. One process at a time does it.
    fn clean_up(&self) {
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join(".lock"));
        let Ok(lock) = lock else {
            return;
        };
        if lock.try_lock().is_err() {
            // Whoever has it cleans up for all; how much is left shows at the next turn.
            return;
        }
        let Ok(mut found) = self.list() else {
            return;
        };
        found.sort_unstable_by_key(|file| file.used);
        let mut left = total(&found);
        let goal = self.budget.saturating_mul(KEPT_PERCENT).checked_div(100).unwrap_or(0);
        let now = SystemTime::now();
        for file in found {
            let is_old = now.duration_since(file.used).is_ok_and(|age| age > ABANDONED);
            let is_abandoned = file.is_unfinished && is_old;
            let goes = is_abandoned || (left > goal && !file.is_unfinished);
            if goes && fs::remove_file(&file.path).is_ok() {
                left = left.saturating_sub(file.bytes);
            }
        }
        self.bytes.store(left, Ordering::Relaxed);
    }

    fn list(&self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for folder in fs::read_dir(&self.folder)?.flatten() {
            // Only what looks like ours is ever touched.
            if folder.file_name().len() != 2 {
                continue;
            }
            let Ok(entries) = fs::read_dir(folder.path()) else {
                continue;
            };
            for entry in entries.flatten() {
                let path = entry.path();
                let ending = path.extension().and_then(|ending| ending.to_str());
                let is_unfinished = ending == Some(UNFINISHED);
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if (is_unfinished || ending == Some(ENDING)) && metadata.is_file() {
                    let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push(Found { path, bytes: metadata.len(), used, is_unfinished });
                }
            }
        }
        Ok(found)
    }

    fn path(&self, name: &str, block: u64, number: u64) -> PathBuf {
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(salt);
            hasher.write(name.as_bytes());
            hasher.finish()
        };
        // Two names that meet in one file only take turns: the file says whose it is.
        let name = format!("{:016x}{:016x}", hash(0), hash(1));
        let folder: String = name.chars().take(2).collect();
        self.folder.join(folder).join(format!("{name}-{block:x}-{number:x}.{ENDING}"))
    }
}

struct Found {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
    is_unfinished: bool,
}

fn total(found: &[Found]) -> u64 {
    found.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
}

/// Records may be patients' data: what is made here is for its owner only.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folder(path.parent().unwrap_or(path))?;
            options.open(path)
        }
        opened => opened,
    }
}

fn head(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&u32::try_from(name.len()).ok()?.to_le_bytes());
    head.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
    head.extend_from_slice(&sum(name, bytes).to_le_bytes());
    head.extend_from_slice(name.as_bytes());
    Some(head)
}

fn sum(name: &str, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(name.as_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// The block in a file, if it is the one that was asked for and sound.
fn read_block(file: &mut File, name: &str, length: u64) -> Option<Bytes> {
    let expected = FIXED_BYTES.checked_add(u64::try_from(name.len()).ok()?)?.checked_add(length)?;
    if file.metadata().ok()?.len() != expected {
        return None;
    }
    let mut content = Vec::new();
    file.take(expected).read_to_end(&mut content).ok()?;
    if length_of(&content) != expected {
        return None;
    }
    let start = usize::try_from(expected.checked_sub(length)?).ok()?;
    let block = content.get(start..)?;
    if content.get(..start)? != head(name, block)? {
        return None;
    }
    Some(Bytes::from(content).slice(start..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_or_foreign_block_counts_as_missing_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), 1 << 20).unwrap();
        disk.write("a", 8, 3, b"12345678");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(disk.path("a", 8, 3)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "for its owner only");
        }
        assert_eq!(disk.read("a", 8, 3, 8).unwrap(), &b"12345678"[..]);
        assert_eq!(disk.read("a", 8, 2, 8), None);
        assert_eq!(disk.read("b", 8, 3, 8), None);
        assert_eq!(disk.read("a", 4, 3, 8), None);
        let path = disk.path("a", 8, 3);
        let sound = fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(disk.read("a", 8, 3, 8), None, "byte {at}");
            assert!(!path.exists());
        }
        for cut in 0..sound.len() {
            fs::write(&path, &sound[..cut]).unwrap();
            assert_eq!(disk.read("a", 8, 3, 8), None, "cut to {cut}");
        }
        fs::rename(folder.path(), folder.path().with_extension("gone")).unwrap();
        assert_eq!(disk.read("a", 8, 3, 8), None);
        disk.write("a", 8, 3, b"12345678");
        assert!(disk.read("a", 8, 3, 8).is_some(), "the folder may be deleted at any time");
        fs::remove_dir_all(folder.path().with_extension("gone")).unwrap();
    }

    #[test]
    fn the_longest_unused_blocks_go_when_the_budget_is_spent() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), 10_000).unwrap();
        for number in 0..30 {
            disk.write("a", 1000, number, &[7; 1000]);
            let path = disk.path("a", 1000, number);
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
            File::open(path).unwrap().set_modified(used).unwrap();
        }
        assert!(total(&disk.list().unwrap()) <= 10_000);
        assert!(disk.read("a", 1000, 29, 1000).is_some());
        assert!(disk.read("a", 1000, 0, 1000).is_none());
        drop(disk);
        let smaller = Disk::open(folder.path(), 3000).unwrap();
        assert!(total(&smaller.list().unwrap()) <= 3000, "also when it is opened");
    }
}
