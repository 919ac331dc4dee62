//! The folder of an index: what it was made from, and whether it is still what was made.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind as IoKind, Read};
use std::path::{Path, PathBuf};

use iac_format::ErrorKind;
use serde::{Deserialize, Serialize};

use crate::error::{AdapterError, Result};

/// The file that says what an index was made from.
const ABOUT: &str = "iac-index.json";
/// The version of what is in an index.
const VERSION: u32 = 2;
/// Most bytes of that file: a few files of each segment are named in it.
const ABOUT_BYTES: u64 = 16 << 20;
/// Files that come and go with those who use an index.
const LOCK: &str = ".lock";

/// What an index was made from, and its files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    version: u32,
    /// See [`digest`](super::digest::digest).
    pub(super) pack_digest: String,
    pub(super) documents: u64,
    files: BTreeMap<String, Content>,
    /// For those who find the folder.
    note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    bytes: u64,
    crc32: u32,
}

/// The folder of a pack's index: its name with `.index` behind it.
#[must_use]
pub fn index_folder(pack: &Path) -> PathBuf {
    let mut name = pack.as_os_str().to_owned();
    name.push(".index");
    PathBuf::from(name)
}

/// What helps with an index that is not usable.
pub(super) fn stale(folder: &Path, reason: &str) -> AdapterError {
    AdapterError::usage(format!("{}: {reason}; make it anew", folder.display()))
}

/// Says what an index was made from; the last file of a new one.
pub(super) fn seal(folder: &Path, pack_digest: String, documents: u64) -> Result<()> {
    let mut files = BTreeMap::new();
    for name in names(folder)? {
        let content = content(&folder.join(&name))?;
        files.insert(name, content);
    }
    let note = "words of the pack beside this folder, patient data among them; the folder can be \
                removed and made anew";
    let about = About { version: VERSION, pack_digest, documents, files, note: note.to_owned() };
    let path = folder.join(ABOUT);
    let failed = |error: std::io::Error| AdapterError::io(&path, "cannot write")(error);
    let text = serde_json::to_string_pretty(&about).map_err(|error| failed(error.into()))?;
    fs::write(&path, text).map_err(failed)
}

/// Files of a folder that belong to its content.
fn names(folder: &Path) -> Result<Vec<String>> {
    let failed = || AdapterError::io(folder, "cannot list");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let name = entry.map_err(failed())?.file_name().to_string_lossy().into_owned();
        if !name.ends_with(LOCK) && name != ABOUT {
            names.push(name);
        }
    }
    Ok(names)
}

fn content(path: &Path) -> Result<Content> {
    let failed = || AdapterError::io(path, "cannot read");
    let mut file = File::open(path).map_err(failed())?;
    let mut sum = crc32fast::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0_u64;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok(Content { bytes, crc32: sum.finalize() }),
            Ok(read) => read,
            Err(error) if error.kind() == IoKind::Interrupted => continue,
            Err(error) => return Err(failed()(error)),
        };
        sum.update(buffer.get(..read).unwrap_or_default());
        bytes = bytes.saturating_add(u64::try_from(read).unwrap_or(0));
    }
}

/// What the index in a folder was made from. Links are not followed, neither to a folder nor to its
/// files: they may lead anywhere.
pub(super) fn about(folder: &Path) -> Result<About> {
    match fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            let reason = format!("{}: is no folder, so it is no index", folder.display());
            return Err(AdapterError::usage(reason));
        }
        Err(error) if error.kind() == IoKind::NotFound => {
            let reason = format!("{}: there is no index yet; make one", folder.display());
            return Err(AdapterError::usage(reason));
        }
        Err(error) => return Err(AdapterError::io(folder, "cannot look at")(error)),
    }
    let path = folder.join(ABOUT);
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() && found.len() <= ABOUT_BYTES => {}
        _ => return Err(stale(folder, "the index is damaged")),
    }
    let mut text = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(ABOUT_BYTES).read_to_end(&mut text))
        .map_err(AdapterError::io(&path, "cannot read"))?;
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    match serde_json::from_slice(&text) {
        Ok(Version { version: VERSION }) => {}
        Ok(_) => return Err(stale(folder, "the index is of another version")),
        Err(_) => return Err(stale(folder, "the index is damaged")),
    }
    serde_json::from_slice(&text).map_err(|_| stale(folder, "the index is damaged"))
}

/// Whether the files are those that were made.
pub(super) fn check(folder: &Path, about: &About) -> Result<()> {
    for (name, expected) in &about.files {
        let damaged = || stale(folder, &format!("the index is damaged (its file {name:?})"));
        // A name is a file of this folder and nothing else.
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(damaged());
        }
        let path = folder.join(name);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() && found.len() == expected.bytes => {}
            _ => return Err(damaged()),
        }
        if content(&path)? != *expected {
            return Err(damaged());
        }
    }
    // What is there beside them could be taken for a part of the index.
    match names(folder)?.into_iter().find(|name| !about.files.contains_key(name)) {
        Some(name) => Err(stale(folder, &format!("{name:?} in the index is not what was made"))),
        None => Ok(()),
    }
}

/// Puts a new folder in the place of an old one.
pub(super) fn replace(folder: tempfile::TempDir, target: &Path) -> Result<()> {
    let refused = |reason: &str| {
        AdapterError::usage(format!("{}: {reason}, so it is not replaced", target.display()))
    };
    let old = match fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() => {
            // Only what is an index may be thrown away.
            if !fs::symlink_metadata(target.join(ABOUT)).is_ok_and(|found| found.is_file()) {
                return Err(refused("is there already and no index"));
            }
            let old = folder.path().with_extension("old");
            fs::rename(target, &old).map_err(AdapterError::io(target, "cannot replace"))?;
            Some(old)
        }
        Ok(_) => return Err(refused("is there already and no folder")),
        Err(_) => None,
    };
    if let Err(error) = fs::rename(folder.path(), target) {
        if let Some(old) = &old
            && fs::rename(old, target).is_err()
        {
            // Somebody else's index is there by now; words of patients must not be left behind.
            drop(fs::remove_dir_all(old));
        }
        return Err(AdapterError::io(target, "cannot make")(error));
    }
    drop(folder.keep());
    if let Some(old) = old {
        fs::remove_dir_all(&old).map_err(AdapterError::io(&old, "cannot remove"))?;
    }
    Ok(())
}

/// Runs what reads an index. The library that does it panics on some damaged files.
pub(super) fn guarded<T>(folder: &Path, run: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(AdapterError::Source {
            path: folder.to_owned(),
            row: None,
            kind: ErrorKind::Damaged,
            reason: "the index cannot be read; make it anew".to_owned(),
        })
    })
}
