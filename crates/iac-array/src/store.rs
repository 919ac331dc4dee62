//! A store that is open for reading and writing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::attr::Attr;
use crate::backend::{Backend, Commit};
use crate::data::ArrayData;
use crate::error::{ArrayError, Result};
use crate::grid::Selection;
use crate::layer::{LayerId, random};
use crate::manifest::Manifest;
use crate::meta::{ArrayMeta, ArraySpec, NodeKind};
use crate::options::{Location, StoreOptions};
use crate::pending::{PendingArray, PendingChunk};
use crate::snapshot::{Inner, Snapshot, read_boxes, read_into, read_one};
use crate::spool::Spool;

/// A store of arrays, open at a version, with changes that [`ArrayStore::flush`] publishes.
///
/// Reading sees the changes. Everybody else sees them when they are published, all at once.
/// Waiting is asynchronous for the object store alone: compression runs on threads of the store,
/// and the caller waits for them, as it does for the files of a [folder](Location::folder), which
/// are read directly. A forked process must open stores of its own.
#[derive(Debug)]
pub struct ArrayStore {
    pub(crate) backend: Arc<Backend>,
    pub(crate) options: StoreOptions,
    pub(crate) base: Snapshot,
    pub(crate) pending: BTreeMap<u64, PendingArray>,
    /// Ids of what `pending` holds and has not deleted, by name.
    pub(crate) held: HashMap<String, u64>,
    /// Grows with every change, so that a repeated flush knows whether it is the same one.
    pub(crate) changes: u64,
    pub(crate) attempts: Vec<Attempt>,
    /// Bytes that changes hold in memory.
    pub(crate) memory: u64,
    /// Where changes are that memory had no room for.
    pub(crate) spool: Option<Arc<Spool>>,
    /// The id of the next array that is made, for the process that made the last one.
    next_id: Option<(u32, u64)>,
}

/// A flush whose end is not known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) layer: LayerId,
    pub(crate) changes: u64,
}

impl ArrayStore {
    /// Makes a store; version 0 has no arrays.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Exists`] when there is one, [`ArrayError::NoConditionalPut`] when the object
    /// store cannot keep two writers apart, else what the object store reports.
    pub async fn create(location: Location, options: StoreOptions) -> Result<Self> {
        let root = location.root.clone();
        let backend = options.backend(location)?;
        let exists = || ArrayError::Exists { what: "store", name: root.clone() };
        if !backend.versions().await?.is_empty() {
            return Err(exists());
        }
        let store_id = LayerId::random()?;
        let manifest = Manifest::new(0, 0, store_id.to_string(), Vec::new());
        match backend.commit(&manifest, store_id).await? {
            Commit::Taken => {
                // Ours after all, if only the answer was lost.
                let found = backend.manifest(0).await?;
                if found.is_none_or(|found| found.store_id != manifest.store_id) {
                    return Err(exists());
                }
            }
            Commit::Done => {}
        }
        let base = Snapshot { inner: Arc::new(Inner::open(&backend, manifest, &[]).await?) };
        Ok(Self::at(backend, options, base))
    }

    /// Opens a store at its newest version.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`] when there is none, else what the object store reports and what
    /// is damaged.
    pub async fn open(location: Location, options: StoreOptions) -> Result<Self> {
        let backend = options.backend(location)?;
        let base = newest(&backend, &[]).await?;
        Ok(Self::at(backend, options, base))
    }

    fn at(backend: Arc<Backend>, options: StoreOptions, base: Snapshot) -> Self {
        Self {
            backend,
            options,
            base,
            pending: BTreeMap::new(),
            held: HashMap::new(),
            changes: 0,
            attempts: Vec::new(),
            memory: 0,
            spool: None,
            next_id: None,
        }
    }

    /// The version that changes build upon, without them.
    #[must_use]
    pub const fn snapshot(&self) -> &Snapshot {
        &self.base
    }

    /// The versions that can be opened, oldest first.
    ///
    /// # Errors
    ///
    /// What the object store reports.
    pub async fn history(&self) -> Result<Vec<u64>> {
        let versions = self.backend.versions().await?;
        Ok(versions.into_iter().map(|(version, _)| version).collect())
    }

    /// A version of the past.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`], [`ArrayError::SnapshotExpired`], else as [`ArrayStore::open`].
    pub async fn open_at(&self, version: u64) -> Result<Snapshot> {
        let manifest = self.backend.manifest(version).await?;
        let manifest = manifest
            .ok_or_else(|| ArrayError::NotFound { what: "version", name: version.to_string() })?;
        let inner = Inner::open(&self.backend, manifest, &self.base.inner.layers).await?;
        Ok(Snapshot { inner: Arc::new(inner) })
    }

    /// Moves on to the newest version; its number.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] while changes are pending, else as [`ArrayStore::open`].
    pub async fn refresh(&mut self) -> Result<u64> {
        if !self.pending.is_empty() {
            return Err(ArrayError::argument(format!(
                "changes of {} arrays are pending: flush or discard them first",
                self.pending.len()
            )));
        }
        self.base = newest(&self.backend, &self.base.inner.layers).await?;
        Ok(self.base.version())
    }

    /// Forgets all changes since the last flush.
    pub fn discard(&mut self) {
        self.pending.clear();
        self.held.clear();
        self.attempts.clear();
        self.memory = 0;
        self.spool = None;
    }

    /// Bytes of changes that wait for the next flush in memory, up to about
    /// [`StoreOptions::pending_bytes`].
    #[must_use]
    pub const fn pending_bytes(&self) -> u64 {
        self.memory
    }

    /// Bytes that were written to the temporary file since the last flush, because there was no room
    /// in memory. Those of chunks that were written again are counted too; the layer will not have
    /// them.
    #[must_use]
    pub fn spooled_bytes(&self) -> u64 {
        self.spool.as_ref().map_or(0, |spool| spool.len())
    }

    /// Puts chunks among the changes of their array.
    pub(crate) fn put_chunks(&mut self, meta: &ArrayMeta, chunks: Vec<(Vec<u64>, PendingChunk)>) {
        let (mut more, mut less) = (0_u64, 0_u64);
        let held = self.touch(meta.id, meta);
        for (at, chunk) in chunks {
            more = more.saturating_add(chunk.memory());
            let before = held.chunks.insert(at, chunk);
            less = less.saturating_add(before.map_or(0, |before| before.memory()));
        }
        self.memory = self.memory.saturating_add(more).saturating_sub(less);
    }

    /// Gives the changes of an array another shape.
    pub(crate) fn reshape_pending(&mut self, meta: &ArrayMeta, shape: &[u64]) -> Result<()> {
        let held = self.touch(meta.id, meta);
        // Growing changes no chunk.
        if held.meta.shape.iter().zip(shape).all(|(before, now)| now >= before) {
            return held.resize(shape);
        }
        let before = held.memory();
        let resized = held.resize(shape);
        let after = held.memory();
        self.memory = self.memory.saturating_add(after).saturating_sub(before);
        resized
    }

    /// Makes an array.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Exists`]; [`ArrayError::Argument`] and [`ArrayError::TooLarge`] for what
    /// cannot be, before anything is changed.
    pub fn define(&mut self, name: &str, spec: ArraySpec) -> Result<()> {
        let meta = ArrayMeta::define(self.fresh_id()?, name, spec)?;
        self.add(meta, "array")
    }

    /// Makes a group: a name with attributes. Arrays need none to have `/` in their names.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Exists`], [`ArrayError::Argument`].
    pub fn define_group(&mut self, name: &str) -> Result<()> {
        crate::meta::check_name(name)?;
        let meta = ArrayMeta::node(self.fresh_id()?, name, NodeKind::Group);
        self.add(meta, "group")
    }

    fn add(&mut self, meta: ArrayMeta, what: &'static str) -> Result<()> {
        if self.current(&meta.name).is_some() {
            return Err(ArrayError::Exists { what, name: meta.name });
        }
        self.changes = self.changes.saturating_add(1);
        self.held.insert(meta.name.clone(), meta.id);
        self.pending.insert(meta.id, PendingArray::of(meta, true));
        Ok(())
    }

    /// A number that no array has. The first of a store is random, those after it follow: arrays
    /// that are made together then lie together. A forked child begins anew.
    ///
    /// From there on to the next that is free: a source of numbers that repeats itself needs no more
    /// steps than there are ids.
    fn fresh_id(&mut self) -> Result<u64> {
        let process = std::process::id();
        let follows = self.next_id.take().filter(|(owner, _)| *owner == process);
        let first = match follows {
            Some((_, id)) => id,
            None => {
                let mut bytes = [0; 8];
                random(&mut bytes)?;
                u64::from_le_bytes(bytes)
            }
        };
        let taken = |id: &u64| {
            self.pending.contains_key(id)
                || self.base.inner.layers.iter().any(|layer| layer.rows.contains_key(id))
        };
        let id = next_free(first, taken);
        self.next_id = Some((process, id.wrapping_add(1)));
        Ok(id)
    }

    /// An array or group as it is with all changes.
    pub(crate) fn current(&self, name: &str) -> Option<&ArrayMeta> {
        if let Some(held) = self.held.get(name).and_then(|id| self.pending.get(id)) {
            return Some(&held.meta);
        }
        let meta = self.base.inner.catalogue.get(name)?;
        (!self.pending.contains_key(&meta.id)).then_some(&**meta)
    }

    pub(crate) fn current_array(&self, name: &str) -> Result<&ArrayMeta> {
        let found = self.current(name).filter(|meta| meta.kind == NodeKind::Array);
        found.ok_or_else(|| ArrayError::no_array(name))
    }

    /// What is known of an array or group, changes included.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`].
    pub fn meta(&self, name: &str) -> Result<&ArrayMeta> {
        self.current(name).filter(|_| !name.is_empty()).ok_or_else(|| ArrayError::no_array(name))
    }

    /// Names of all arrays and groups, changes included, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let kept = self.base.inner.catalogue.nodes().iter();
        let kept = kept.filter(|meta| !self.pending.contains_key(&meta.id)).map(|meta| &meta.name);
        let held = self.pending.values().filter(|held| !held.deleted).map(|held| &held.meta.name);
        let mut names: Vec<String> =
            kept.chain(held).filter(|name| !name.is_empty()).cloned().collect();
        names.sort_unstable();
        names
    }

    /// The changes of an array, begun when there are none.
    pub(crate) fn touch(&mut self, id: u64, meta: &ArrayMeta) -> &mut PendingArray {
        self.changes = self.changes.saturating_add(1);
        let held = &mut self.held;
        self.pending.entry(id).or_insert_with(|| {
            held.insert(meta.name.clone(), id);
            PendingArray::of(meta.clone(), false)
        })
    }

    /// Removes an array or group. Another of this name will not see its chunks.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`].
    pub fn delete(&mut self, name: &str) -> Result<()> {
        let meta = self.meta(name)?.clone();
        if self.pending.get(&meta.id).is_some_and(|held| held.is_new) {
            self.changes = self.changes.saturating_add(1);
            // An attempt whose end is not known may have published it.
            if self.attempts.is_empty() {
                let gone = self.pending.remove(&meta.id);
                let bytes = gone.map_or(0, |gone| gone.memory());
                self.memory = self.memory.saturating_sub(bytes);
                self.held.remove(name);
                return Ok(());
            }
        }
        let held = self.touch(meta.id, &meta);
        held.deleted = true;
        let bytes = held.memory();
        held.chunks.clear();
        self.memory = self.memory.saturating_sub(bytes);
        self.held.remove(name);
        Ok(())
    }

    /// Sets an attribute of an array or group.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`]; [`ArrayError::Argument`] for a value above 16 MiB.
    pub fn set_attr(&mut self, name: &str, key: &str, value: impl Into<Attr>) -> Result<()> {
        let meta = self.meta(name)?.clone();
        self.put_attr(meta, key, value.into())
    }

    fn put_attr(&mut self, mut meta: ArrayMeta, key: &str, value: Attr) -> Result<()> {
        let mut attrs = meta.attrs().clone();
        attrs.insert(key.to_owned(), value);
        meta.attrs = attrs.into();
        meta.check().map_err(ArrayError::argument)?;
        let held = self.touch(meta.id, &meta);
        held.meta.attrs = meta.attrs;
        Ok(())
    }

    /// Sets an attribute of the store.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Argument`] for a value above 16 MiB.
    pub fn set_store_attr(&mut self, key: &str, value: impl Into<Attr>) -> Result<()> {
        let known = self.current("").cloned();
        let meta = known.unwrap_or_else(|| ArrayMeta::node(0, "", NodeKind::Store));
        self.put_attr(meta, key, value.into())
    }

    /// Removes an attribute of an array or group.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`] when there is no such array or attribute.
    pub fn remove_attr(&mut self, name: &str, key: &str) -> Result<()> {
        let mut meta = self.meta(name)?.clone();
        let mut attrs = meta.attrs().clone();
        if attrs.remove(key).is_none() {
            return Err(ArrayError::NotFound { what: "attribute", name: key.to_owned() });
        }
        meta.attrs = attrs.into();
        let held = self.touch(meta.id, &meta);
        held.meta.attrs = meta.attrs;
        Ok(())
    }

    /// Reads a box, changes included; see [`Snapshot::read`].
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read`].
    pub async fn read(&self, name: &str, start: &[u64], shape: &[u64]) -> Result<ArrayData> {
        let meta = self.current_array(name)?;
        let selection = Selection::new(name, &meta.shape, start, shape, None)?;
        read_one(&self.base.inner, meta, self.pending.get(&meta.id), selection).await
    }

    /// Reads a whole array, changes included.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read`].
    pub async fn read_all(&self, name: &str) -> Result<ArrayData> {
        if let Some(read) = self.read_now(name) {
            return Ok(read);
        }
        let shape = self.current_array(name)?.shape.clone();
        self.read(name, &vec![0; shape.len()], &shape).await
    }

    /// A whole array, if that takes no waiting.
    pub(crate) fn read_now(&self, name: &str) -> Option<ArrayData> {
        if self.pending.is_empty() { self.base.read_now(name) } else { None }
    }

    /// Reads elements that lie `step` apart, changes included; see [`Snapshot::read_step`].
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read_step`].
    pub async fn read_step(
        &self,
        name: &str,
        start: &[u64],
        count: &[u64],
        step: &[u64],
    ) -> Result<ArrayData> {
        let meta = self.current_array(name)?;
        let selection = Selection::new(name, &meta.shape, start, count, Some(step))?;
        read_one(&self.base.inner, meta, self.pending.get(&meta.id), selection).await
    }

    /// Reads a box into memory of the caller, changes included; see [`Snapshot::read_into`].
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read_into`].
    pub async fn read_into(
        &self,
        name: &str,
        start: &[u64],
        shape: &[u64],
        out: &mut [u8],
    ) -> Result<()> {
        let meta = self.current_array(name)?;
        let selection = Selection::new(name, &meta.shape, start, shape, None)?;
        read_into(&self.base.inner, meta, self.pending.get(&meta.id), selection, out).await
    }

    /// Reads boxes of several arrays, changes included; see [`Snapshot::read_many`].
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read_many`].
    pub async fn read_many(&self, boxes: &[(&str, &[u64], &[u64])]) -> Result<Vec<ArrayData>> {
        let mut asked = Vec::with_capacity(boxes.len());
        for (name, start, shape) in boxes {
            let meta = self.current_array(name)?;
            let selection = Selection::new(name, &meta.shape, start, shape, None)?;
            asked.push((meta, self.pending.get(&meta.id), selection));
        }
        read_boxes(&self.base.inner, asked).await
    }
}

/// The newest version.
pub(crate) async fn newest(
    backend: &Arc<Backend>,
    known: &[Arc<crate::layer::Layer>],
) -> Result<Snapshot> {
    let gone = || ArrayError::NotFound { what: "store", name: backend.root.to_string() };
    let (mut before, mut empty) = (None, false);
    loop {
        let versions = backend.versions().await?;
        let Some(newest) = versions.last().map(|(version, _)| *version) else {
            // A list that is made while versions come and go may have neither the old nor the new.
            if empty {
                return Err(gone());
            }
            empty = true;
            continue;
        };
        let found = match backend.manifest(newest).await? {
            Some(manifest) => Inner::open(backend, manifest, known).await,
            None => Err(gone()),
        };
        match found {
            // A newer one was published and this one collected since the list was made: look again,
            // unless nothing has changed.
            Err(ArrayError::SnapshotExpired { .. } | ArrayError::NotFound { .. })
                if before.replace(newest).is_none_or(|before| before < newest) => {}
            other => return Ok(Snapshot { inner: Arc::new(other?) }),
        }
    }
}

/// The first number from `start` on, around the end, that is neither 0 nor taken.
fn next_free(start: u64, taken: impl Fn(&u64) -> bool) -> u64 {
    let mut id = start;
    while id == 0 || taken(&id) {
        id = id.wrapping_add(1);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::next_free;

    #[test]
    fn ids_are_found_where_the_random_number_repeats_itself() {
        let mut taken = std::collections::HashSet::new();
        for _ in 0..1000 {
            assert!(taken.insert(next_free(u64::MAX - 2, |id| taken.contains(id))));
        }
        assert!(!taken.contains(&0));
        assert!(taken.contains(&u64::MAX) && taken.contains(&1));
    }
}
