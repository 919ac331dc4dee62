//! Tags: versions that have a name and stay until it is taken away.

use std::collections::BTreeMap;

use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Created, is_missing};
use crate::error::{ArrayError, Result};
use crate::manifest::{seal, unseal};
use crate::snapshot::Snapshot;
use crate::store::ArrayStore;

/// Bytes that the file of a tag may have.
const MAX_BYTES: u64 = 4096;
/// Bytes that the name of a tag may have.
const MAX_NAME: usize = 128;
const FORMAT: &str = "iac-array-tag";
const FOLDER: &str = "tags";

/// What the file of a tag says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Tag {
    format: String,
    store_id: String,
    name: String,
    version: u64,
}

impl Tag {
    fn encode(&self) -> Result<Vec<u8>> {
        let body = serde_json::to_string(self)
            .map_err(|error| ArrayError::argument(format!("the tag has no text: {error}")))?;
        Ok(seal(&body))
    }

    /// Reads the file of a tag, which must be the one that its name says.
    fn decode(object: &Path, bytes: &[u8], name: &str, store_id: &str) -> Result<Self> {
        let corrupt = |reason: String| ArrayError::corrupt(object, reason);
        let text = unseal(bytes, MAX_BYTES).map_err(corrupt)?;
        let tag: Self = serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
        let members = [
            ("format", &*tag.format, FORMAT),
            ("name", &*tag.name, name),
            ("store_id", &*tag.store_id, store_id),
        ];
        for (member, found, expected) in members {
            if found != expected {
                let found: String = found.chars().take(64).collect();
                return Err(corrupt(format!("`{member}` is `{found}` instead of `{expected}`")));
            }
        }
        Ok(tag)
    }
}

/// Names of tags are names of files everywhere, and none looks like the number of a version.
fn check_name(name: &str) -> Result<()> {
    let sound = name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if sound {
        return Ok(());
    }
    Err(ArrayError::argument(format!(
        "`{}` is no name of a tag: a letter, then letters, digits, `.`, `_` and `-`, {MAX_NAME} at most",
        name.chars().take(64).collect::<String>()
    )))
}

fn path_of(backend: &Backend, name: &str) -> Path {
    backend.within(&format!("{FOLDER}/{name}.json"))
}

impl ArrayStore {
    /// Gives a version a name; garbage collection keeps the version as long as it has one.
    ///
    /// Names begin with a letter; letters and digits of ASCII, `.`, `_` and `-` follow. A name that stands for this version
    /// already is left as it is. Tags that are made while another process collects garbage can come
    /// too late for a version that it was about to delete: this is an error here, or
    /// [`ArrayError::SnapshotExpired`] when the tag is opened.
    ///
    /// ```
    /// use iac_array::blocking::ArrayStore;
    /// use iac_array::{Location, StoreOptions};
    ///
    /// let mut store = ArrayStore::create(Location::memory(), StoreOptions::default())?;
    /// store.set_store_attr("study", 7_i64)?;
    /// let version = store.flush()?.version;
    /// store.tag("paper-2026", version)?;
    /// assert_eq!(store.open_tag("paper-2026")?.version(), version);
    /// # Ok::<(), iac_array::ArrayError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] for a name that cannot be, [`ArrayError::NotFound`] when there is no
    /// such version, [`ArrayError::Exists`] when the name stands for another one,
    /// [`ArrayError::NoConditionalPut`], else what the object store reports.
    pub async fn tag(&self, name: &str, version: u64) -> Result<()> {
        check_name(name)?;
        let no_version = || ArrayError::NotFound { what: "version", name: version.to_string() };
        let manifest = self.backend.manifest(version).await?.ok_or_else(no_version)?;
        let tag = Tag {
            format: FORMAT.to_owned(),
            store_id: manifest.store_id,
            name: name.to_owned(),
            version,
        };
        let path = path_of(&self.backend, name);
        if let Created::Unclear(error) = self.backend.create(&path, tag.encode()?.into()).await? {
            // The name was taken, or the answer was lost.
            match self.tagged(name).await? {
                Some(found) if found == version => {}
                Some(_) => return Err(ArrayError::Exists { what: "tag", name: name.to_owned() }),
                None => return Err(error),
            }
        }
        // Garbage collection that had looked for tags before may have taken the version away.
        if self.backend.manifest(version).await?.is_none() {
            self.backend.delete(&path).await?;
            return Err(no_version());
        }
        Ok(())
    }

    /// Takes the name from a version, which stays until garbage collection finds it old.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`] when there is no such tag, else what the object store reports.
    pub async fn untag(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.backend.check_own_folders()?;
        let path = path_of(&self.backend, name);
        // Some stores call it a success to delete what is not there. What a damaged tag says does
        // not matter here.
        if !self.backend.exists(&path).await? {
            return Err(ArrayError::NotFound { what: "tag", name: name.to_owned() });
        }
        self.backend.delete(&path).await
    }

    /// The versions that have names, by name.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Corrupt`] for a damaged tag (which [`ArrayStore::untag`] removes), else what the
    /// object store reports.
    pub async fn tags(&self) -> Result<BTreeMap<String, u64>> {
        let mut tags = BTreeMap::new();
        for object in self.backend.list(FOLDER).await? {
            let name = object.name.strip_suffix(".json").filter(|name| check_name(name).is_ok());
            let own = |name: &&str| path_of(&self.backend, name) == object.path;
            // What else lies there is not ours.
            let Some(name) = name.filter(own) else {
                continue;
            };
            // One that vanished meanwhile is none.
            if let Some(version) = self.tagged(name).await? {
                tags.insert(name.to_owned(), version);
            }
        }
        Ok(tags)
    }

    /// The version of a tag.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`], [`ArrayError::Corrupt`], [`ArrayError::SnapshotExpired`], else as
    /// [`ArrayStore::open_at`].
    pub async fn open_tag(&self, name: &str) -> Result<Snapshot> {
        check_name(name)?;
        let missing = || ArrayError::NotFound { what: "tag", name: name.to_owned() };
        let version = self.tagged(name).await?.ok_or_else(missing)?;
        match self.open_at(version).await {
            Err(ArrayError::NotFound { what: "version", .. }) => {
                let object = self.backend.version_path(version).to_string();
                Err(ArrayError::SnapshotExpired { object, version })
            }
            other => other,
        }
    }

    /// What a tag says, if there is one.
    async fn tagged(&self, name: &str) -> Result<Option<u64>> {
        let path = path_of(&self.backend, name);
        let bytes = match self.backend.small(&path, MAX_BYTES).await {
            Err(error) if is_missing(&error) => return Ok(None),
            other => other?,
        };
        let store_id = &self.base.inner.manifest.store_id;
        Tag::decode(&path, &bytes, name, store_id).map(|tag| Some(tag.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_files_everywhere() {
        for name in ["a", "v1.0", "paper-2026_b", &"x".repeat(128)] {
            check_name(name).unwrap();
        }
        for name in
            ["", ".", "..", "a/b", "-a", "7", ".a", "ä", "a b", "a\0", "a:b", &"x".repeat(129)]
        {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let tag = Tag {
            format: FORMAT.to_owned(),
            store_id: "00".to_owned(),
            name: "a".to_owned(),
            version: 7,
        };
        let (path, sound) = (Path::from("tags/a.json"), tag.encode().unwrap());
        let decode = |bytes: &[u8]| Tag::decode(&path, bytes, "a", "00");
        assert_eq!(decode(&sound).unwrap(), tag);
        assert!(Tag::decode(&path, &sound, "b", "00").is_err());
        assert!(Tag::decode(&path, &sound, "a", "01").is_err());
        for at in 0..sound.len() {
            assert!(decode(&sound[..at]).is_err());
            for bit in 0..8 {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                assert!(decode(&bytes).is_err(), "byte {at} bit {bit}");
            }
        }
        let long = Tag { name: "n".repeat(5000), ..tag };
        assert!(decode(&long.encode().unwrap()).is_err());
    }
}
