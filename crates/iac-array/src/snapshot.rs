//! One version of a store, which never changes.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;

use crate::attr::Attr;
use crate::attrs::WantedKey;
use crate::backend::{Backend, CONCURRENCY};
use crate::catalogue::CatalogueRow;
use crate::data::ArrayData;
use crate::error::{ArrayError, Result};
use crate::grid::Selection;
use crate::layer::{self, Layer, LayerId};
use crate::manifest::{LayerEntry, Manifest};
use crate::meta::{ArrayMeta, NodeKind};
use crate::read::{Request, Trails};

/// Bytes of header and slide table that are read of a layer: writers make no catalogue that would take
/// more memory than this.
const MAX_HEAD: u64 = iac_format::HEADER_BYTES + iac_format::table::MAX_EXPANDED_BYTES;

/// A version of a store: arrays, attributes and elements as they were when it was published.
///
/// Clones share everything. Later versions, compaction and other writers change nothing here; only
/// garbage collection can take a version away ([`ArrayError::SnapshotExpired`]).
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) backend: Arc<Backend>,
    pub(crate) manifest: Manifest,
    /// Oldest first, as in the manifest.
    pub(crate) layers: Vec<Arc<Layer>>,
    pub(crate) paths: Vec<Path>,
    pub(crate) catalogue: Catalogue,
    pub(crate) trails: Trails,
}

/// The newest row of every array that is there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalogue {
    /// Sorted by name.
    nodes: Vec<Arc<ArrayMeta>>,
    /// The same by a table, once enough of them were looked for.
    by_name: OnceLock<HashSet<Named>>,
    searches: Arc<AtomicUsize>,
}

/// Lookups that search the sorted names: who wants a few arrays needs no table of all.
const SEARCHES: usize = 64;

/// An array that is known by its name.
#[derive(Debug, Clone)]
struct Named(Arc<ArrayMeta>);

impl Borrow<str> for Named {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.as_str().hash(state);
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Named {}

impl Catalogue {
    /// What has this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<ArrayMeta>> {
        if self.by_name.get().is_none() && self.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES
        {
            let at = self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok()?;
            return self.nodes.get(at);
        }
        if self.by_name.get().is_none() {
            // Made before it is set: nobody ever waits for it, a forked child least of all.
            drop(self.by_name.set(self.nodes.iter().cloned().map(Named).collect()));
        }
        self.by_name.get()?.get(name).map(|named| &named.0)
    }

    /// An array, or an error that says there is none of this name.
    pub(crate) fn array(&self, name: &str) -> Result<&Arc<ArrayMeta>> {
        let found = self.get(name).filter(|meta| meta.kind == NodeKind::Array);
        found.ok_or_else(|| ArrayError::no_array(name))
    }

    /// Arrays, groups and the row of the store, sorted by name.
    pub(crate) fn nodes(&self) -> &[Arc<ArrayMeta>] {
        &self.nodes
    }

    fn of(layers: &[Arc<Layer>]) -> Result<Self> {
        // By id, older rows first: runs that are sorted already, and mostly the order of names.
        let mut rows: Vec<&CatalogueRow> =
            layers.iter().flat_map(|layer| layer.rows.iter().map(|(_, row)| row)).collect();
        if layers.len() > 1 {
            rows.sort_by_key(|row| row.meta.id);
        }
        let mut nodes: Vec<Arc<ArrayMeta>> = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let newer = at.checked_add(1).and_then(|next| rows.get(next));
            if !row.deleted && newer.is_none_or(|newer| newer.meta.id != row.meta.id) {
                nodes.push(Arc::clone(&row.meta));
            }
        }
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        for pair in nodes.windows(2) {
            if let [one, other] = pair
                && one.name == other.name
            {
                return Err(ArrayError::corrupt(
                    "catalogue",
                    format!(
                        "`{}` is the name of {:016x} and of {:016x}",
                        one.name, other.id, one.id
                    ),
                ));
            }
        }
        nodes.shrink_to_fit();
        Ok(Self { nodes, by_name: OnceLock::new(), searches: Arc::default() })
    }
}

impl Inner {
    /// Opens the layers that a manifest names; those that are open already are used again.
    pub(crate) async fn open(
        backend: &Arc<Backend>,
        manifest: Manifest,
        known: &[Arc<Layer>],
    ) -> Result<Self> {
        let known: HashMap<LayerId, &Arc<Layer>> =
            known.iter().map(|layer| (layer.id, layer)).collect();
        // Boxed, so that the whole may be sent to other threads.
        let mut opened = Vec::with_capacity(manifest.layers.len());
        for entry in &manifest.layers {
            let known = known.get(&entry.layer_id).map(|layer| Arc::clone(layer));
            let open = async move {
                match known {
                    Some(layer) => Ok(layer),
                    None => open_layer(backend, entry).await.map(Arc::new),
                }
            };
            opened.push(open.boxed());
        }
        let layers: Result<Vec<Arc<Layer>>> =
            stream::iter(opened).buffered(CONCURRENCY).try_collect().await;
        let paths = manifest.layers.iter().map(|entry| backend.within(&entry.path)).collect();
        let layers = match layers {
            Err(ArrayError::Store { object, source, .. })
                if matches!(*source, object_store::Error::NotFound { .. }) =>
            {
                return Err(ArrayError::SnapshotExpired { object, version: manifest.version });
            }
            other => other?,
        };
        let catalogue = Catalogue::of(&layers)?;
        let trails = Trails::default();
        Ok(Self { backend: Arc::clone(backend), manifest, layers, paths, catalogue, trails })
    }
}

async fn open_layer(backend: &Backend, entry: &LayerEntry) -> Result<Layer> {
    let path = backend.within(&entry.path);
    check_head(entry.head_bytes)?;
    let head = backend.range(&path, 0..entry.head_bytes).await?;
    let found = head_sum(&head);
    if found != entry.header_crc32 {
        return Err(ArrayError::corrupt(
            &path,
            format!("checksum of the header is {found:08x} instead of {:08x}", entry.header_crc32),
        ));
    }
    let layer = layer::open(path.as_ref(), &head, entry.bytes, &backend.registry)?;
    if layer.id != entry.layer_id
        || layer.layout.end() != entry.bytes
        || layer.layout.index_table.offset != entry.head_bytes
    {
        return Err(ArrayError::corrupt(&path, "it is another layer than its manifest names"));
    }
    Ok(layer)
}

/// Refuses slide tables that no writer makes, before memory is taken for them.
pub(crate) const fn check_head(found: u64) -> Result<()> {
    if found > MAX_HEAD {
        return Err(ArrayError::TooLarge {
            what: "header and catalogue of a layer (bytes)",
            found,
            allowed: MAX_HEAD,
        });
    }
    Ok(())
}

pub(crate) fn head_sum(head: &Bytes) -> u32 {
    let header = usize::try_from(iac_format::HEADER_BYTES).unwrap_or(usize::MAX);
    crc32fast::hash(head.get(..header).unwrap_or(head))
}

impl Snapshot {
    /// The number of the version; the first is 0.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.inner.manifest.version
    }

    /// Layers that the version is made of.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.inner.layers.len()
    }

    /// Bytes of these layers.
    #[must_use]
    pub fn layer_bytes(&self) -> u64 {
        let layers = &self.inner.manifest.layers;
        layers.iter().fold(0, |all, layer| all.saturating_add(layer.bytes))
    }

    /// Names of all arrays and groups, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let nodes = self.inner.catalogue.nodes().iter();
        nodes.map(|meta| meta.name.as_str()).filter(|name| !name.is_empty())
    }

    /// What is known of an array or a group.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`].
    pub fn meta(&self, name: &str) -> Result<&ArrayMeta> {
        let found = self.inner.catalogue.get(name).filter(|_| !name.is_empty());
        found.map(Arc::as_ref).ok_or_else(|| ArrayError::no_array(name))
    }

    /// The attributes of the store itself.
    #[must_use]
    pub fn store_attrs(&self) -> BTreeMap<String, Attr> {
        self.inner.catalogue.get("").map(|meta| meta.attrs().clone()).unwrap_or_default()
    }

    /// One attribute of every array and group that has it, by name.
    pub fn attr_column<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a str, Attr)> {
        let metas = self.inner.catalogue.nodes().iter().filter(|meta| !meta.name.is_empty());
        let mut wanted = WantedKey::new(key);
        metas.filter_map(move |meta| Some((meta.name.as_str(), meta.attrs.find(&mut wanted)?)))
    }

    /// Reads a box.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`], [`ArrayError::OutOfBounds`] (nothing is ever clipped), and what
    /// reading and decoding find.
    pub async fn read(&self, name: &str, start: &[u64], shape: &[u64]) -> Result<ArrayData> {
        self.read_stepped(name, start, shape, None).await
    }

    /// Reads a whole array.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read`].
    pub async fn read_all(&self, name: &str) -> Result<ArrayData> {
        let meta = self.inner.catalogue.array(name)?;
        if let Some(read) = self.inner.read_warm(meta) {
            return Ok(read);
        }
        let selection = Selection::whole(&meta.shape);
        read_one(&self.inner, meta, None, selection).await
    }

    /// A whole array, if that takes no waiting.
    pub(crate) fn read_now(&self, name: &str) -> Option<ArrayData> {
        self.inner.read_warm(self.inner.catalogue.array(name).ok()?)
    }

    /// Reads `count` elements along each axis, `step` apart.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read`]; [`ArrayError::Argument`] for a step of 0.
    pub async fn read_step(
        &self,
        name: &str,
        start: &[u64],
        count: &[u64],
        step: &[u64],
    ) -> Result<ArrayData> {
        self.read_stepped(name, start, count, Some(step)).await
    }

    async fn read_stepped(
        &self,
        name: &str,
        start: &[u64],
        count: &[u64],
        step: Option<&[u64]>,
    ) -> Result<ArrayData> {
        let meta = self.inner.catalogue.array(name)?;
        let selection = Selection::new(name, &meta.shape, start, count, step)?;
        read_one(&self.inner, meta, None, selection).await
    }

    /// Reads a box into memory of the caller, which must have exactly its bytes.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read`]; [`ArrayError::Argument`] when the memory has another size or the
    /// elements have no fixed width.
    pub async fn read_into(
        &self,
        name: &str,
        start: &[u64],
        shape: &[u64],
        out: &mut [u8],
    ) -> Result<()> {
        let meta = self.inner.catalogue.array(name)?;
        let selection = Selection::new(name, &meta.shape, start, shape, None)?;
        read_into(&self.inner, meta, None, selection, out).await
    }

    /// Reads boxes of several arrays with as few requests as they need together.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read`]; one box that cannot be read fails the call.
    pub async fn read_many(&self, boxes: &[(&str, &[u64], &[u64])]) -> Result<Vec<ArrayData>> {
        let mut metas = Vec::with_capacity(boxes.len());
        for (name, start, shape) in boxes {
            let meta = self.inner.catalogue.array(name)?;
            metas.push((&**meta, None, Selection::new(name, &meta.shape, start, shape, None)?));
        }
        read_boxes(&self.inner, metas).await
    }
}

type Asked<'a> = (&'a ArrayMeta, Option<&'a crate::pending::PendingArray>, Selection);

/// Reads boxes into fresh memory.
pub(crate) async fn read_boxes(inner: &Inner, asked: Vec<Asked<'_>>) -> Result<Vec<ArrayData>> {
    let mut values = Vec::with_capacity(asked.len());
    let mut repeated = 0_u64;
    for (meta, _, selection) in &asked {
        let elements = selection.elements()?;
        repeated = repeated.saturating_add(crate::expand::fill_bytes(meta, elements));
        crate::expand::check_repeated(repeated)?;
        values.push(meta.filled(elements)?);
    }
    let mut results = Vec::with_capacity(asked.len());
    let mut requests = Vec::with_capacity(asked.len());
    for ((meta, pending, selection), values) in asked.into_iter().zip(&mut values) {
        results.push((meta, selection.count.clone()));
        requests.push(Request { meta, pending, selection, target: values.as_target() });
    }
    inner.read(requests).await?;
    let whole = results.into_iter().zip(values);
    Ok(whole.map(|((meta, shape), values)| ArrayData::of(meta, shape, values)).collect())
}

pub(crate) async fn read_one(
    inner: &Inner,
    meta: &ArrayMeta,
    pending: Option<&crate::pending::PendingArray>,
    selection: Selection,
) -> Result<ArrayData> {
    if pending.is_none()
        && let Some(read) = inner.read_warm_box(meta, &selection)
    {
        return Ok(read);
    }
    let mut read = read_boxes(inner, vec![(meta, pending, selection)]).await?;
    read.pop().ok_or_else(|| ArrayError::no_array(&meta.name))
}

pub(crate) async fn read_into(
    inner: &Inner,
    meta: &ArrayMeta,
    pending: Option<&crate::pending::PendingArray>,
    selection: Selection,
    out: &mut [u8],
) -> Result<()> {
    if meta.nullable {
        let name = &meta.name;
        return Err(ArrayError::argument(format!(
            "array `{name}` is nullable: a mask has no place"
        )));
    }
    let width = meta.dtype.width().ok_or_else(|| {
        ArrayError::argument(format!("elements of `{}` have no fixed width", meta.dtype))
    })?;
    let elements = selection.elements()?;
    let bytes = elements.checked_mul(crate::error::u64_len(width));
    if bytes != Some(crate::error::u64_len(out.len())) {
        return Err(ArrayError::argument(format!(
            "{} bytes of memory for {elements} elements of `{}`",
            out.len(),
            meta.dtype
        )));
    }
    out.fill(0);
    crate::data::fill_bytes(out, width, meta.fill.as_deref());
    let target = crate::data::Target::Fixed(out);
    inner.read(vec![Request { meta, pending, selection, target }]).await
}
