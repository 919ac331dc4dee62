//! Keeping a store in order: garbage collection, verification, single files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::backend::{Listed, store_error};
use crate::compact::join;
use crate::error::{ArrayError, Result};
use crate::index::{Block, ChunkKind};
use crate::layer::{self, LayerId};
use crate::manifest::{LayerEntry, Manifest};
use crate::meta::NodeKind;
use crate::options::{Location, StoreOptions};
use crate::snapshot::{Inner, Snapshot, check_head, head_sum};
use crate::store::ArrayStore;

/// What garbage collection keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcOptions {
    /// Versions and objects younger than this stay; 24 hours unless set. It must be longer than
    /// any flush takes and than any snapshot is read.
    pub grace: Duration,
    /// So many of the newest versions stay; 10 unless set, and at least one always.
    pub keep_versions: usize,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { grace: Duration::from_secs(24 * 60 * 60), keep_versions: 10 }
    }
}

/// What garbage collection deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcReport {
    /// Versions that cannot be opened any more.
    pub versions: Vec<u64>,
    /// Layers, by object.
    pub layers: Vec<String>,
}

/// A fault that verification found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ArrayFault {
    /// The array, where the fault touches one.
    pub array: Option<String>,
    /// What is wrong.
    pub error: ArrayError,
}

impl ArrayStore {
    /// Deletes versions that are no longer kept, then layers that no version needs. Versions with a
    /// [tag](ArrayStore::tag) are kept.
    ///
    /// Age is measured against the newest object of the store, so no clock but the store's counts.
    /// Files that no store names so are left alone.
    ///
    /// # Errors
    ///
    /// What the object store reports, damaged tags and manifests of versions that are kept, and
    /// [`ArrayError::Argument`] where the folder of layers or versions is a link to another place: nothing
    /// is deleted then.
    pub async fn gc(&self, options: GcOptions) -> Result<GcReport> {
        self.backend.check_own_folders()?;
        // Layers are listed first: one that is uploaded later is not on the list.
        let layers = self.backend.list("layers").await?;
        let versions = self.backend.versions().await?;
        let objects = layers.iter().chain(versions.iter().map(|(_, object)| object));
        let now = objects.map(|object| object.modified).max();
        let Some(now) = now else {
            return Ok(GcReport::default());
        };
        let kept_from = versions.len().saturating_sub(options.keep_versions.max(1));
        let tagged: HashSet<u64> = self.tags().await?.into_values().collect();
        let mut report = GcReport::default();
        let mut needed = HashSet::new();
        let mut dropped: Vec<(u64, &Listed)> = Vec::new();
        for (at, (version, object)) in versions.iter().enumerate() {
            let kept = at >= kept_from || tagged.contains(version);
            if kept || young(object, now, options.grace) {
                self.need(*version, &mut needed).await?;
            } else {
                dropped.push((*version, object));
            }
        }
        // Versions that got a name meanwhile: nothing has been deleted yet.
        for version in self.tags().await?.into_values().filter(|it| !tagged.contains(it)) {
            self.need(version, &mut needed).await?;
            dropped.retain(|(dropped, _)| *dropped != version);
        }
        for (version, object) in dropped {
            self.backend.delete(&object.path).await?;
            report.versions.push(version);
        }
        for object in layers.into_iter().filter(|object| self.backend.is_layer(object)) {
            if !needed.contains(&object.path) && !young(&object, now, options.grace) {
                self.backend.delete(&object.path).await?;
                report.layers.push(object.path.to_string());
            }
        }
        Ok(report)
    }

    /// Adds the layers of a version to those that are needed; one that vanished needs nothing.
    async fn need(&self, version: u64, needed: &mut HashSet<Path>) -> Result<()> {
        let manifest = self.backend.manifest(version).await?;
        let layers = manifest.iter().flat_map(|manifest| &manifest.layers);
        needed.extend(layers.map(|layer| self.backend.within(&layer.path)));
        Ok(())
    }
}

fn young(object: &Listed, now: SystemTime, grace: Duration) -> bool {
    !grace.is_zero() && now.duration_since(object.modified).is_ok_and(|age| age < grace)
}

impl Snapshot {
    /// Reads every table and block of the version and compares every checksum; what is wrong.
    ///
    /// Chunks that newer layers hide are looked at too.
    ///
    /// # Errors
    ///
    /// What the object store reports; damage is in the list.
    pub async fn verify(&self) -> Result<Vec<ArrayFault>> {
        let inner = &self.inner;
        let mut faults = Vec::new();
        for number in 0..inner.layers.len() {
            verify_layer(inner, number, &mut faults).await?;
        }
        Ok(faults)
    }

    /// Writes the version as a single `.iac` file, which [`Snapshot::open_file`] opens.
    ///
    /// # Errors
    ///
    /// What reading and the object store report.
    pub async fn export(
        &self,
        store: &dyn ObjectStore,
        path: &Path,
        options: &StoreOptions,
    ) -> Result<()> {
        let inner = &self.inner;
        let (run, id) = (0..inner.layers.len(), LayerId::random()?);
        let (built, _) = join(inner, run, id, options, false).await?;
        crate::backend::put_pieces(store, path, &built, options.scratch.memory).await
    }

    /// Opens a layer as a store of its own that cannot be written: a single file.
    ///
    /// # Errors
    ///
    /// What the object store reports, and damage.
    pub async fn open_file(location: Location, path: &str, options: &StoreOptions) -> Result<Self> {
        let backend = options.backend(location)?;
        let object = backend.within(path);
        let failed = |error| store_error("open", &object, error);
        let bytes = backend.store.head(&object).await.map_err(failed)?.size;
        let first = backend.range(&object, 0..bytes.min(FIRST_READ)).await?;
        let layout = iac_format::Header::parse(first.get(..HEADER).unwrap_or(&first), bytes)
            .map_err(|error| ArrayError::corrupt(&object, error.to_string()))?
            .layout();
        let head_bytes = layout.index_table.offset;
        check_head(head_bytes)?;
        let held = usize::try_from(head_bytes).ok().filter(|end| *end <= first.len());
        let head = match held {
            Some(end) => first.slice(..end),
            None => backend.range(&object, 0..head_bytes).await?,
        };
        let layer = layer::open(object.as_ref(), &head, bytes, &backend.registry)?;
        if layer.layout.end() != bytes {
            return Err(ArrayError::corrupt(
                &object,
                format!("it has {bytes} bytes instead of {}", layer.layout.end()),
            ));
        }
        let entry = LayerEntry {
            layer_id: layer.id,
            path: path.to_owned(),
            bytes,
            head_bytes,
            header_crc32: head_sum(&head),
            rows: layer.batches.iter().fold(0, |all, place| all.saturating_add(place.rows)),
            through: 0,
            joined: false,
        };
        let manifest = Manifest::new(0, 0, layer.id.to_string(), vec![entry]);
        let known = [Arc::new(layer)];
        Ok(Self { inner: Arc::new(Inner::open(&backend, manifest, &known).await?) })
    }
}

/// Bytes of a single file that are read at once: header, and tables where they are small.
const FIRST_READ: u64 = 256 << 10;
const HEADER: usize = 65_536;
/// Bytes that verification reads at once.
const STRETCH: u64 = 16 << 20;

async fn verify_layer(inner: &Inner, number: usize, faults: &mut Vec<ArrayFault>) -> Result<()> {
    let (Some(layer), Some(path)) = (inner.layers.get(number), inner.paths.get(number)) else {
        return Ok(());
    };
    let fault = |reason: String| ArrayFault {
        array: None,
        error: ArrayError::corrupt(&layer.object, reason),
    };
    let tables = [
        ("slide", layer.layout.slide_table, layer.checksums.slide_table),
        ("index", layer.layout.index_table, layer.checksums.index_table),
    ];
    for (name, segment, stored) in tables {
        let mut sum = crc32fast::Hasher::new();
        let end = segment.offset.saturating_add(segment.length);
        let mut at = segment.offset;
        while at < end {
            let next = end.min(at.saturating_add(STRETCH));
            match keep_going(inner, inner.backend.range(path, at..next).await)? {
                Ok(bytes) => sum.update(&bytes),
                Err(error) => {
                    faults.push(ArrayFault { array: None, error });
                    return Ok(());
                }
            }
            at = next;
        }
        let sum = sum.finalize();
        if sum != stored {
            faults.push(fault(format!(
                "checksum of the {name} table is {sum:08x} instead of {stored:08x}"
            )));
        }
    }
    let mut seen: HashMap<u64, u64> = HashMap::new();
    for batch in 0..layer.batches.len() {
        let rows = match keep_going(inner, inner.batches(number, &[batch]).await)? {
            Ok(rows) => rows,
            Err(error) => {
                faults.push(ArrayFault { array: None, error });
                continue;
            }
        };
        for row in rows.values().flat_map(|rows| rows.iter()) {
            let row = &row;
            let count = seen.entry(row.array_id).or_default();
            *count = count.saturating_add(1);
            if let Err(error) = keep_going(inner, verify_chunk(inner, number, row).await)? {
                let array = layer.rows.get(&row.array_id).map(|row| row.meta.name.clone());
                faults.push(ArrayFault { array, error });
            }
        }
    }
    for (id, row) in &layer.rows {
        let found = seen.get(id).copied().unwrap_or(0);
        if found != row.chunks_written {
            faults.push(fault(format!(
                "array `{}` has {found} chunks, its row says {}",
                row.meta.name, row.chunks_written
            )));
        }
    }
    Ok(())
}

/// Failures of the object store end verification; anything else is a finding.
fn keep_going<T>(inner: &Inner, result: Result<T>) -> Result<Result<T>> {
    match result.map_err(|error| inner.explained(error)) {
        Err(error @ (ArrayError::Store { .. } | ArrayError::System { .. })) => Err(error),
        other => Ok(other),
    }
}

async fn verify_chunk(inner: &Inner, number: usize, row: &crate::index::ChunkRow) -> Result<()> {
    let Some(layer) = inner.layers.get(number) else {
        return Ok(());
    };
    let corrupt = |reason: String| ArrayError::corrupt(&layer.object, reason);
    let entry = layer.rows.get(&row.array_id).filter(|row| row.meta.kind == NodeKind::Array);
    let entry = entry.ok_or_else(|| {
        corrupt(format!("chunk {} is of no array ({:016x})", row.chunk, row.array_id))
    })?;
    let grid = entry.meta.grid()?;
    let chunk = grid.coordinates(row.chunk).ok_or_else(|| {
        corrupt(format!("array `{}` has no chunk {}", entry.meta.name, row.chunk))
    })?;
    let clip = vec![u64::MAX; chunk.len()];
    let found = crate::read::found(number, row.clone(), &grid, &chunk, &clip);
    let wanted: &[(usize, Block)] = &[(number, row.block)];
    let wanted = if row.kind == ChunkKind::Data { wanted } else { &[] };
    let blocks = inner.blocks(wanted, true).await?;
    inner.check_chunk(&entry.meta, &found, &blocks)
}
