//! Atomic publication: a pack appears under its name whole, or not at all.
//!
//! The pack is made under a temporary name in the destination's folder, locked while its writer
//! lives, and renamed at the end. A writer that was killed leaves such a file behind without a
//! lock; the next write of the same name removes it.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Result, WriteError};
use crate::options::WriteOptions;
use crate::platform;

/// The end of every temporary name; it must not look like a finished pack.
const SUFFIX: &str = ".part";
/// Longer names are shortened, so that temporary ones fit where 143 bytes is the limit.
const LONGEST_NAME: usize = 115;
/// Bytes of a long name that are kept for people to recognise it by.
const KEPT_OF_NAME: usize = 80;
/// Tries to find an unused temporary name; one suffices unless something is badly wrong.
const ATTEMPTS: usize = 64;

/// Where a pack is to appear.
#[derive(Debug)]
pub(crate) struct Target {
    /// As the caller gave it, for messages.
    shown: PathBuf,
    /// Absolute, so that a change of the working folder does not matter.
    path: PathBuf,
    folder: PathBuf,
    /// What temporary names start with.
    prefix: OsString,
    overwrite: bool,
    sync: bool,
    /// Folders that received a new subfolder on the way to the destination.
    extended: Vec<PathBuf>,
}

impl Target {
    /// Checks whether the destination may be written, before any work is done.
    pub(crate) fn new(shown: &Path, options: &WriteOptions) -> Result<Self> {
        check_free(shown, options.overwrite)?;
        options.check(shown)?;
        let name = shown.file_name().filter(|_| !names_a_folder(shown));
        let Some(name) = name else {
            return Err(WriteError::argument(shown, "the path has no file name"));
        };
        let path = std::path::absolute(shown)
            .map_err(WriteError::io(shown, "cannot find the current folder"))?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self {
            shown: shown.to_owned(),
            prefix: temporary_prefix(name),
            path,
            folder,
            overwrite: options.overwrite,
            sync: options.sync,
            extended: Vec::new(),
        })
    }

    /// The destination as the caller gave it.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Creates missing folders and removes what killed writers of this name left.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        let mut missing = self.folder.as_path();
        while let Some(parent) = missing.parent() {
            if missing.exists() {
                break;
            }
            self.extended.push(parent.to_owned());
            missing = parent;
        }
        fs::create_dir_all(&self.folder)
            .map_err(WriteError::io(&self.folder, "cannot create the folder"))?;
        self.remove_leftovers();
        Ok(())
    }

    /// Creates a locked file under a fresh temporary name.
    pub(crate) fn create_temporary(&self) -> Result<Temporary> {
        for _ in 0..ATTEMPTS {
            let path = self.folder.join(self.temporary_name());
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true);
            let file = match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => {
                    opened.map_err(WriteError::io(&path, "cannot create a temporary file"))?
                }
            };
            // Another writer's clean-up may come between creation and lock. It then holds the
            // lock, or has removed the name already; in both cases a new name is needed. Where
            // the file system has no locks, nobody cleans up either.
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock))
                || !platform::names_this_file(&path, &file)
            {
                continue;
            }
            return Ok(Temporary { path: Some(path), file, process: std::process::id() });
        }
        Err(WriteError::Io {
            path: self.folder.clone(),
            action: "cannot create a temporary file",
            source: io::ErrorKind::AlreadyExists.into(),
        })
    }

    /// Gives a finished file the destination's name.
    pub(crate) fn publish(&self, mut temporary: Temporary) -> Result<()> {
        let shown = &self.shown;
        if self.sync {
            let synced = temporary.file.sync_all();
            synced.map_err(WriteError::io(shown, "cannot sync the file"))?;
        }
        let Some(from) = temporary.path.as_deref() else {
            return Err(WriteError::argument(shown, "the temporary file has no name"));
        };
        if self.overwrite {
            fs::rename(from, &self.path)
                .map_err(WriteError::io(shown, "cannot replace the file"))?;
        } else {
            platform::rename_without_replacing(from, &self.path).map_err(|error| {
                if error.kind() == io::ErrorKind::AlreadyExists {
                    WriteError::Exists { path: shown.clone() }
                } else {
                    WriteError::io(
                        shown,
                        "cannot rename the temporary file without replacing another",
                    )(error)
                }
            })?;
        }
        temporary.path = None;
        if self.sync {
            for folder in std::iter::once(&self.folder).chain(&self.extended) {
                platform::sync_folder(folder)
                    .map_err(WriteError::io(folder, "cannot sync the folder"))?;
            }
        }
        Ok(())
    }

    /// `.NAME.RANDOM.part`
    fn temporary_name(&self) -> OsString {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        if let Ok(time) = std::time::UNIX_EPOCH.elapsed() {
            hasher.write_u128(time.as_nanos());
        }
        let mut name = self.prefix.clone();
        name.push(format!("{:016x}", hasher.finish()));
        name.push(SUFFIX);
        name
    }

    /// Removes temporary files of this name whose writers are gone. What cannot be listed, opened
    /// or locked stays: cleaning up is a favour, not a condition.
    fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            if !is_temporary_name(&entry.file_name(), &self.prefix) {
                continue;
            }
            let path = entry.path();
            let Ok(file) = platform::open_leftover(&path) else {
                continue;
            };
            // The lock is held until the name is gone: a writer that has just created the file
            // and finds it locked, or gone, takes another name.
            if file.try_lock().is_ok() && platform::names_this_file(&path, &file) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// A file that nobody has seen yet; it goes with its value unless it is published.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: Option<PathBuf>,
    file: File,
    /// A forked child must not remove its parent's file.
    process: u32,
}

impl Temporary {
    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// Whether this process made the file. A forked child shares it with its parent, and whatever
    /// it wrote would end up in the parent's pack.
    pub(crate) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Takes the name away at once where the system allows that, so that not even a killed
    /// writer leaves the file behind.
    pub(crate) fn make_unnamed(&mut self) {
        if !platform::UNNAMED_FILES {
            return;
        }
        if let Some(path) = self.path.take()
            && fs::remove_file(&path).is_err()
        {
            self.path = Some(path);
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = self.path.take()
            && self.process == std::process::id()
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn check_free(path: &Path, overwrite: bool) -> Result<()> {
    let examine = |found: io::Result<fs::Metadata>| match found {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(WriteError::io(path, "cannot examine the destination")(error)),
    };
    // A link in the way is replaced itself, but what it points to counts: nobody who names a
    // device, a pipe or a link to one wants a pack in its place.
    let Some(metadata) = examine(fs::metadata(path))? else {
        return Ok(());
    };
    if !overwrite {
        return Err(WriteError::Exists { path: path.to_owned() });
    }
    let link = examine(fs::symlink_metadata(path))?.is_some_and(|found| found.is_symlink());
    let (action, kind) = match () {
        () if metadata.is_file() || (link && metadata.is_dir()) => return Ok(()),
        () if metadata.is_dir() => ("cannot replace a folder", io::ErrorKind::IsADirectory),
        () => ("cannot replace what is no regular file", io::ErrorKind::InvalidInput),
    };
    Err(WriteError::Io { path: path.to_owned(), action, source: kind.into() })
}

/// Whether a path ends in a separator or a dot, which `Path` hides.
fn names_a_folder(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let is_separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    match bytes {
        [.., last] if is_separator(last) => true,
        [.., before, b'.'] => is_separator(before),
        _ => false,
    }
}

/// `.NAME.`; of a long name its beginning and a sum.
fn temporary_prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    if name.len() <= LONGEST_NAME {
        prefix.push(name);
    } else {
        let readable = name.to_string_lossy();
        let mut kept = String::new();
        for character in readable.chars() {
            if kept.len().saturating_add(character.len_utf8()) > KEPT_OF_NAME {
                break;
            }
            kept.push(character);
        }
        let sum = crc32fast::hash(name.as_encoded_bytes());
        prefix.push(format!("{kept}~{sum:08x}"));
    }
    prefix.push(".");
    prefix
}

fn is_temporary_name(name: &OsStr, prefix: &OsStr) -> bool {
    name.as_encoded_bytes()
        .strip_prefix(prefix.as_encoded_bytes())
        .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()))
        .is_some_and(|random| {
            !random.is_empty() && random.iter().all(|byte| byte.is_ascii_alphanumeric())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_belong_to_one_destination_only() {
        let prefix = temporary_prefix(OsStr::new("a.iac"));
        for (name, ours) in [
            (".a.iac.0123456789abcdef.part", true),
            (".a.iac.x7.part", true),
            (".a.iac..part", false),
            (".a.iac.part", false),
            (".b.a.iac.x7.part", false),
            (".a.iac.b.x7.part", false),
            (".a.iac.x7.part2", false),
            ("a.iac.x7.part", false),
        ] {
            assert_eq!(is_temporary_name(OsStr::new(name), &prefix), ours, "{name}");
        }
    }

    #[test]
    fn long_names_are_shortened_always_in_the_same_way() {
        for name in ["x".repeat(116), "é".repeat(127), "名".repeat(85)] {
            let target = Target::new(Path::new(&name), &WriteOptions::new()).unwrap();
            let temporary = target.temporary_name();
            assert!(temporary.len() <= 143, "{}", temporary.len());
            let prefix = temporary_prefix(OsStr::new(&name));
            assert!(is_temporary_name(&temporary, &prefix));
            let other = temporary_prefix(OsStr::new(&format!("{name}2")));
            assert!(!is_temporary_name(&temporary, &other));
        }
    }

    #[test]
    fn paths_that_name_no_file_are_refused() {
        for path in ["", "/", "..", "a/..", "a/", "a/.", "."] {
            assert!(Target::new(Path::new(path), &WriteOptions::new()).is_err(), "{path}");
        }
        for path in ["a", "./a", "a.", "..a", "b/.a"] {
            assert!(Target::new(Path::new(path), &WriteOptions::new()).is_ok(), "{path}");
        }
    }

    #[test]
    fn the_lock_of_a_living_writer_keeps_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.iac");
        let mut target = Target::new(&path, &WriteOptions::new()).unwrap();
        target.prepare().unwrap();
        let living = target.create_temporary().unwrap();
        let dead = folder.path().join(".a.iac.dead.part");
        let foreign = folder.path().join(".b.iac.dead.part");
        fs::write(&dead, "x").unwrap();
        fs::write(&foreign, "x").unwrap();
        target.prepare().unwrap();
        assert!(living.path.as_ref().unwrap().exists());
        assert!(!dead.exists());
        assert!(foreign.exists());
        drop(living);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn writers_and_cleaners_that_race_never_lose_a_living_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.iac");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let mut target = Target::new(&path, &WriteOptions::new()).unwrap();
                        target.prepare().unwrap();
                        let temporary = target.create_temporary().unwrap();
                        target.remove_leftovers();
                        assert!(temporary.path.as_ref().unwrap().exists());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
