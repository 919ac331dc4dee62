//! Taking a single file into a store, as a layer of it.

use std::collections::HashSet;
use std::sync::Arc;

use object_store::{ObjectStoreExt, PutPayload, WriteMultipart};

use crate::backend::{Commit, store_error};
use crate::error::{ArrayError, Result};
use crate::flush::{FlushReport, TRIES, next_version, pause};
use crate::layer::LayerId;
use crate::manifest::{LayerEntry, Manifest};
use crate::options::Location;
use crate::snapshot::{Inner, Snapshot};
use crate::store::{ArrayStore, newest};

/// Bytes that are copied at once.
const STRETCH: u64 = 16 << 20;

impl ArrayStore {
    /// Publishes the arrays of a single `.iac` file as a version: its bytes become a layer as they
    /// are, and no block is decoded but to verify it.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Exists`] when the store has an array of one of the names, or has this file
    /// already, [`ArrayError::Argument`] while changes are pending, the first fault of a damaged
    /// file, and what the object stores report. The store is as before then.
    pub async fn import_file(&mut self, location: Location, path: &str) -> Result<FlushReport> {
        self.refresh().await?;
        let file = Snapshot::open_file(location, path, &self.options).await?;
        if let Some(fault) = file.verify().await?.into_iter().next() {
            return Err(fault.error);
        }
        let from = &file.inner;
        let one = from.manifest.layers.first().zip(from.paths.first());
        let Some((entry, object)) = one else {
            return Err(ArrayError::argument(format!("{path} has no layer")));
        };
        refuse_known(&self.base.inner, from)?;
        // A name of its own: what other versions name is never written again, whatever is in the file.
        let name = format!("layers/{}.iac", LayerId::random()?);
        let target = self.backend.within(&name);
        let failed = |error| store_error("write", &target, error);
        if entry.bytes <= STRETCH {
            let bytes = from.backend.range(object, 0..entry.bytes).await?;
            let header = usize::try_from(iac_format::HEADER_BYTES).unwrap_or(usize::MAX);
            let header_sum = crc32fast::hash(bytes.get(..header).unwrap_or(&bytes));
            let payload = PutPayload::from(bytes);
            self.backend.put_new(&target, payload, entry.bytes, header_sum).await?;
        } else {
            self.backend.refuse_known(&target).await?;
            let upload = self.backend.store.put_multipart(&target).await.map_err(failed)?;
            let size = usize::try_from(STRETCH).unwrap_or(usize::MAX);
            let mut upload = WriteMultipart::new_with_chunk_size(upload, size);
            let mut at = 0;
            while at < entry.bytes {
                let end = entry.bytes.min(at.saturating_add(STRETCH));
                let bytes = match from.backend.range(object, at..end).await {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        // What is half there must go; the error that matters is the first one.
                        drop(upload.abort().await);
                        return Err(error);
                    }
                };
                upload.wait_for_capacity(8).await.map_err(failed)?;
                upload.put(bytes);
                at = end;
            }
            upload.finish().await.map_err(failed)?;
        }
        self.list(LayerEntry { path: name, ..entry.clone() }, from).await
    }

    /// Puts a layer on top of the newest version.
    async fn list(&mut self, mut entry: LayerEntry, from: &Inner) -> Result<FlushReport> {
        let id: LayerId = entry.layer_id;
        let mut top = self.base.clone();
        for tries in 0..TRIES {
            let version = next_version(&top)?;
            entry.through = version;
            let mut layers = top.inner.manifest.layers.clone();
            layers.push(entry.clone());
            let store_id = top.inner.manifest.store_id.clone();
            let manifest = Manifest::new(version, top.version(), store_id, layers);
            match self.backend.commit(&manifest, id).await? {
                Commit::Done => {
                    let opened = Inner::open(&self.backend, manifest, &top.inner.layers).await?;
                    self.base = Snapshot { inner: Arc::new(opened) };
                    return Ok(self.report(entry.rows, entry.bytes));
                }
                Commit::Taken => {
                    pause(tries).await;
                    top = newest(&self.backend, &top.inner.layers).await?;
                    refuse_known(&top.inner, from)?;
                }
            }
        }
        Err(ArrayError::Conflict {
            version: top.version(),
            what: format!("the store {TRIES} times"),
        })
    }
}

/// Refuses arrays that a store has already, by number or by name.
fn refuse_known(base: &Inner, new: &Inner) -> Result<()> {
    let exists = |what, name: &str| Err(ArrayError::Exists { what, name: name.to_owned() });
    let layers: HashSet<LayerId> = base.layers.iter().map(|layer| layer.id).collect();
    for layer in &new.layers {
        if layers.contains(&layer.id) {
            return exists("layer", &layer.id.to_string());
        }
        for (id, row) in &layer.rows {
            let name = row.meta.name.as_str();
            let known = base.layers.iter().any(|layer| layer.rows.contains_key(id));
            if known || base.catalogue.get(name).is_some() {
                return match name {
                    "" => exists("store with attributes of its own, as the file has them,", "*"),
                    name => exists("array", name),
                };
            }
        }
    }
    Ok(())
}
