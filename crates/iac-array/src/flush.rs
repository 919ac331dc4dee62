//! Publishing: changes become a layer, and the layer part of a version.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Commit;
use crate::error::{ArrayError, Result};
use crate::index::{Block, ChunkKind, ChunkRow};
use crate::layer::{self, LayerId};
use crate::manifest::{LayerEntry, Manifest};
use crate::snapshot::{Inner, Snapshot};
use crate::store::{ArrayStore, Attempt, newest};

/// Times that publishing begins anew because others were faster.
pub(crate) const TRIES: u32 = 16;
/// Layers from which on a store should be compacted.
const MANY_LAYERS: usize = 32;

/// What a flush, or a compaction, did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushReport {
    /// The version that the store is at now.
    pub version: u64,
    /// Chunks that were stored, those that are erased or of one value included.
    pub chunks: u64,
    /// Bytes of the new layer; 0 when there was nothing to publish.
    pub layer_bytes: u64,
    /// Whether compacting pays: there are more than 32 layers, or more than a quarter of all
    /// chunks are certainly hidden by newer ones or belong to no array any more.
    pub needs_compaction: bool,
}

impl ArrayStore {
    /// Publishes all changes as one new version; without changes it does nothing.
    ///
    /// Whatever happens, readers see the old version or the new one. After an error all changes
    /// are still pending, and calling again is safe, even when the version had been published and
    /// only the answer was lost.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Conflict`] when another writer changed the same arrays, else what compressing
    /// and the object store report.
    pub async fn flush(&mut self) -> Result<FlushReport> {
        if self.pending.is_empty() {
            return Ok(self.report(0, 0));
        }
        if self.already_published().await? {
            self.settle().await?;
            return Ok(self.report(0, 0));
        }
        let id = LayerId::random()?;
        let (layer, chunks) = self.build(id)?;
        let path = format!("layers/{id}.iac");
        self.backend.put_layer(&self.backend.within(&path), &layer).await?;
        let mut entry = LayerEntry {
            layer_id: id,
            path,
            bytes: layer.bytes,
            head_bytes: layer.head_bytes,
            header_crc32: layer.header_sum,
            rows: chunks,
            through: 0,
            joined: false,
        };
        let mut top = self.base.clone();
        for tries in 0..TRIES {
            let version = next_version(&top)?;
            entry.through = version;
            let mut layers = top.inner.manifest.layers.clone();
            layers.push(entry.clone());
            let store_id = top.inner.manifest.store_id.clone();
            let manifest = Manifest::new(version, top.version(), store_id, layers);
            self.attempts.push(Attempt { layer: id, changes: self.changes });
            match self.backend.commit(&manifest, id).await? {
                Commit::Done => {
                    let known = &top.inner.layers;
                    let opened = Inner::open(&self.backend, manifest, known).await?;
                    self.base = Snapshot { inner: Arc::new(opened) };
                    self.discard();
                    return Ok(self.report(chunks, layer.bytes));
                }
                Commit::Taken => {
                    self.attempts.pop();
                    pause(tries).await;
                    top = newest(&self.backend, &top.inner.layers).await?;
                    if let Some(what) = self.overlap(&top) {
                        return Err(ArrayError::Conflict { version: top.version(), what });
                    }
                }
            }
        }
        Err(ArrayError::Conflict {
            version: top.version(),
            what: format!("the store {TRIES} times"),
        })
    }

    pub(crate) fn report(&self, chunks: u64, layer_bytes: u64) -> FlushReport {
        FlushReport {
            version: self.base.version(),
            chunks,
            layer_bytes,
            needs_compaction: self.base.layers() > MANY_LAYERS || self.base.inner.is_mostly_dead(),
        }
    }

    /// Whether an earlier call published exactly these changes without learning of it.
    async fn already_published(&self) -> Result<bool> {
        let Some(last) = self.attempts.last().filter(|last| last.changes == self.changes) else {
            return Ok(false);
        };
        for (version, _) in self.backend.versions().await? {
            if version <= self.base.version() {
                continue;
            }
            let manifest = self.backend.manifest(version).await?;
            if manifest.is_some_and(|found| names(&found, last.layer)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn settle(&mut self) -> Result<()> {
        self.base = newest(&self.backend, &self.base.inner.layers).await?;
        self.discard();
        Ok(())
    }

    /// What others changed, since the version that the changes build upon, of what changes here.
    ///
    /// Joining layers changes no array: each row of a joined layer tells which version did.
    fn overlap(&self, top: &Snapshot) -> Option<String> {
        let shown = |name: &str| match name {
            "" => "the attributes of the store".to_owned(),
            name => format!("`{name}`"),
        };
        let (base, top) = (&self.base.inner, &top.inner);
        let known: HashSet<LayerId> = base.layers.iter().map(|layer| layer.id).collect();
        let own: HashSet<LayerId> = self.attempts.iter().map(|attempt| attempt.layer).collect();
        let new_names: HashSet<&str> = (self.pending.values())
            .filter(|held| held.is_new)
            .map(|held| held.meta.name.as_str())
            .collect();
        let pairs = top.manifest.layers.iter().zip(&top.layers);
        for (entry, layer) in pairs {
            let same = known.contains(&layer.id) || own.contains(&layer.id);
            if same || entry.through <= base.manifest.version {
                continue;
            }
            for (id, row) in &layer.rows {
                let name = row.meta.name.as_str();
                let touched = self.pending.contains_key(id) || new_names.contains(name);
                if touched && entry.changed(row) > base.manifest.version {
                    return Some(shown(name));
                }
            }
        }
        // Joining down to the oldest layer leaves no row of an array that was deleted.
        let ids = |inner: &Inner| -> HashSet<u64> {
            inner.catalogue.nodes().iter().map(|meta| meta.id).collect()
        };
        let (before, now) = (ids(base), ids(top));
        let gone = self.pending.iter().find(|(id, _)| before.contains(id) && !now.contains(id));
        if let Some((_, held)) = gone {
            return Some(shown(&held.meta.name));
        }
        let taken = |name: &&&str| {
            let taken = top.catalogue.get(name);
            taken.is_some_and(|meta| !self.pending.get(&meta.id).is_some_and(|held| held.deleted))
        };
        new_names.iter().find(taken).map(|name| shown(name))
    }
}

impl Inner {
    /// Whether more than a quarter of the chunks are of no use, as far as the catalogues tell: an
    /// array cannot have more chunks in use than its grid has.
    fn is_mostly_dead(&self) -> bool {
        let mut written: HashMap<u64, u64> = HashMap::new();
        for (id, row) in self.layers.iter().flat_map(|layer| &layer.rows) {
            let sum = written.entry(*id).or_default();
            *sum = sum.saturating_add(row.chunks_written);
        }
        let (mut all, mut dead) = (0_u64, 0_u64);
        let mut count = |written: u64, most: u64| {
            all = all.saturating_add(written);
            dead = dead.saturating_add(written.saturating_sub(most));
        };
        for meta in self.catalogue.nodes() {
            if let Some(written) = written.remove(&meta.id) {
                count(written, meta.grid().map_or(0, |grid| grid.total()));
            }
        }
        // What is left is of arrays that are deleted.
        written.into_values().for_each(|written| count(written, 0));
        dead > all / 4
    }
}

pub(crate) fn next_version(top: &Snapshot) -> Result<u64> {
    top.version().checked_add(1).ok_or_else(|| ArrayError::argument("there are no more versions"))
}

fn names(manifest: &Manifest, layer: LayerId) -> bool {
    manifest.layers.iter().any(|entry| entry.layer_id == layer)
}

/// Lets other writers go first, for a time that no two of them share.
pub(crate) async fn pause(tries: u32) {
    let mut random = [0; 2];
    if tries > 0 && layer::random(&mut random).is_ok() {
        let longest = 1_u64 << tries.min(7);
        let wait = u64::from(u16::from_le_bytes(random)).checked_rem(longest).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}

pub(crate) fn without_bytes(array_id: u64, chunk: u64, kind: ChunkKind) -> ChunkRow {
    ChunkRow {
        array_id,
        chunk,
        block: Block::default(),
        in_offset: 0,
        in_length: 0,
        kind,
        stats: None,
    }
}
