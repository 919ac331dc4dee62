//! The same calls for programs that are not asynchronous.
//!
//! Each store has a runtime of its own, so these must not be called from within another one: use
//! the asynchronous types there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path as ObjectPath;
use tokio::runtime::{Builder, Runtime};

use crate::attr::Attr;
use crate::data::ArrayData;
use crate::error::{ArrayError, Result};
use crate::meta::{ArrayMeta, ArraySpec};
use crate::per_process::PerProcess;
use crate::stats::{ChunkStats, Number, Stats};
use crate::{ArrayFault, CompactPolicy, FlushReport, GcOptions, GcReport, Location, StoreOptions};

/// [`ArrayStore`](crate::ArrayStore), whose calls wait.
#[derive(Debug)]
pub struct ArrayStore {
    inner: crate::ArrayStore,
    runtime: Waiting,
}

/// [`Snapshot`](crate::Snapshot), whose calls wait.
#[derive(Debug, Clone)]
pub struct Snapshot {
    inner: crate::Snapshot,
    runtime: Waiting,
}

/// The threads that requests run on. A forked child gets its own.
#[derive(Debug, Clone, Default)]
struct Waiting(Arc<PerProcess<Runtime>>);

impl Waiting {
    fn new() -> Result<Self> {
        let waiting = Self::default();
        waiting.runtime()?;
        Ok(waiting)
    }

    fn runtime(&self) -> Result<&Runtime> {
        let build = || Builder::new_multi_thread().worker_threads(1).enable_all().build().ok();
        self.0.get(build).ok_or_else(|| ArrayError::System {
            what: "threads",
            reason: "none could be started for requests".to_owned(),
        })
    }

    fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime()?.block_on(future)
    }
}

/// A store that is missing is told by its path, since its place within its folder has no name.
fn named(error: ArrayError, path: &Path) -> ArrayError {
    match error {
        ArrayError::NotFound { what: "store", name } if name.is_empty() => {
            ArrayError::NotFound { what: "store", name: path.display().to_string() }
        }
        other => other,
    }
}

macro_rules! reading {
    ($type:ident) => {
        impl $type {
            /// See [`Snapshot::read`](crate::Snapshot::read).
            ///
            /// # Errors
            ///
            /// Those of the asynchronous call.
            pub fn read(&self, name: &str, start: &[u64], shape: &[u64]) -> Result<ArrayData> {
                self.runtime.block_on(self.inner.read(name, start, shape))
            }

            /// See [`Snapshot::read_all`](crate::Snapshot::read_all).
            ///
            /// # Errors
            ///
            /// Those of the asynchronous call.
            pub fn read_all(&self, name: &str) -> Result<ArrayData> {
                // Waiting costs more than a small array that is in memory.
                if let Some(read) = self.inner.read_now(name) {
                    return Ok(read);
                }
                self.runtime.block_on(self.inner.read_all(name))
            }

            /// See [`Snapshot::read_step`](crate::Snapshot::read_step).
            ///
            /// # Errors
            ///
            /// Those of the asynchronous call.
            pub fn read_step(
                &self,
                name: &str,
                start: &[u64],
                count: &[u64],
                step: &[u64],
            ) -> Result<ArrayData> {
                self.runtime.block_on(self.inner.read_step(name, start, count, step))
            }

            /// See [`Snapshot::read_into`](crate::Snapshot::read_into).
            ///
            /// # Errors
            ///
            /// Those of the asynchronous call.
            pub fn read_into(
                &self,
                name: &str,
                start: &[u64],
                shape: &[u64],
                out: &mut [u8],
            ) -> Result<()> {
                self.runtime.block_on(self.inner.read_into(name, start, shape, out))
            }

            /// See [`Snapshot::read_many`](crate::Snapshot::read_many).
            ///
            /// # Errors
            ///
            /// Those of the asynchronous call.
            pub fn read_many(&self, boxes: &[(&str, &[u64], &[u64])]) -> Result<Vec<ArrayData>> {
                self.runtime.block_on(self.inner.read_many(boxes))
            }

            /// What is known of an array or group.
            ///
            /// # Errors
            ///
            /// [`ArrayError::NotFound`].
            pub fn meta(&self, name: &str) -> Result<&ArrayMeta> {
                self.inner.meta(name)
            }
        }
    };
}

reading!(ArrayStore);
reading!(Snapshot);

impl Snapshot {
    /// Opens what is at a path for reading: the newest version of a store in a folder, or a single
    /// `.iac` file. Nothing is made where nothing is.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`] where there is no store, else those of [`ArrayStore::open`] and
    /// [`Snapshot::open_file`].
    pub fn open_path(path: impl AsRef<Path>, options: &StoreOptions) -> Result<Self> {
        let path = path.as_ref();
        let missing = || ArrayError::NotFound { what: "store", name: path.display().to_string() };
        let found = path.metadata().map_err(|_| missing())?;
        if found.is_dir() {
            let store = ArrayStore::open(Location::folder(path)?, options.clone());
            return Ok(store.map_err(|error| named(error, path))?.snapshot());
        }
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(missing)?;
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = Location::folder(folder.unwrap_or(Path::new(".")))?;
        Self::open_file(folder, name, options)
    }

    /// See [`Snapshot::open_file`](crate::Snapshot::open_file).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn open_file(location: Location, path: &str, options: &StoreOptions) -> Result<Self> {
        let runtime = Waiting::new()?;
        let inner = runtime.block_on(crate::Snapshot::open_file(location, path, options))?;
        Ok(Self { inner, runtime })
    }

    /// See [`Snapshot::export`](crate::Snapshot::export).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn export(
        &self,
        store: &dyn ObjectStore,
        path: &ObjectPath,
        options: &StoreOptions,
    ) -> Result<()> {
        self.runtime.block_on(self.inner.export(store, path, options))
    }

    /// See [`Snapshot::chunk_stats`](crate::Snapshot::chunk_stats).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn chunk_stats(&self, name: &str) -> Result<Vec<ChunkStats>> {
        self.runtime.block_on(self.inner.chunk_stats(name))
    }

    /// See [`Snapshot::stats`](crate::Snapshot::stats).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn stats(&self, name: &str) -> Result<Stats> {
        self.runtime.block_on(self.inner.stats(name))
    }

    /// See [`Snapshot::select`](crate::Snapshot::select).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn select(
        &self,
        name: &str,
        least: impl Into<Number>,
        greatest: impl Into<Number>,
    ) -> Result<Vec<(Vec<u64>, Vec<u64>)>> {
        self.runtime.block_on(self.inner.select(name, least, greatest))
    }

    /// See [`Snapshot::verify`](crate::Snapshot::verify).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn verify(&self) -> Result<Vec<ArrayFault>> {
        self.runtime.block_on(self.inner.verify())
    }

    /// The number of the version; the first is 0.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.inner.version()
    }

    /// The asynchronous snapshot.
    #[must_use]
    pub const fn as_async(&self) -> &crate::Snapshot {
        &self.inner
    }
}

impl ArrayStore {
    /// See [`ArrayStore::create`](crate::ArrayStore::create).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn create(location: Location, options: StoreOptions) -> Result<Self> {
        let runtime = Waiting::new()?;
        let inner = runtime.block_on(crate::ArrayStore::create(location, options))?;
        Ok(Self { inner, runtime })
    }

    /// Opens the store in a folder, which is not made when it is missing.
    ///
    /// # Errors
    ///
    /// [`ArrayError::NotFound`] where there is no store, else those of [`ArrayStore::open`].
    pub fn open_path(path: impl AsRef<Path>, options: StoreOptions) -> Result<Self> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Err(ArrayError::NotFound { what: "store", name: path.display().to_string() });
        }
        Self::open(Location::folder(path)?, options).map_err(|error| named(error, path))
    }

    /// See [`ArrayStore::open`](crate::ArrayStore::open).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn open(location: Location, options: StoreOptions) -> Result<Self> {
        let runtime = Waiting::new()?;
        let inner = runtime.block_on(crate::ArrayStore::open(location, options))?;
        Ok(Self { inner, runtime })
    }

    /// The asynchronous store.
    #[must_use]
    pub const fn as_async(&self) -> &crate::ArrayStore {
        &self.inner
    }

    /// The version that changes build upon, without them.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { inner: self.inner.snapshot().clone(), runtime: self.runtime.clone() }
    }

    /// See [`ArrayStore::history`](crate::ArrayStore::history).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn history(&self) -> Result<Vec<u64>> {
        self.runtime.block_on(self.inner.history())
    }

    /// See [`ArrayStore::open_at`](crate::ArrayStore::open_at).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn open_at(&self, version: u64) -> Result<Snapshot> {
        let inner = self.runtime.block_on(self.inner.open_at(version))?;
        Ok(Snapshot { inner, runtime: self.runtime.clone() })
    }

    /// See [`ArrayStore::tag`](crate::ArrayStore::tag).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn tag(&self, name: &str, version: u64) -> Result<()> {
        self.runtime.block_on(self.inner.tag(name, version))
    }

    /// See [`ArrayStore::untag`](crate::ArrayStore::untag).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn untag(&self, name: &str) -> Result<()> {
        self.runtime.block_on(self.inner.untag(name))
    }

    /// See [`ArrayStore::tags`](crate::ArrayStore::tags).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn tags(&self) -> Result<BTreeMap<String, u64>> {
        self.runtime.block_on(self.inner.tags())
    }

    /// See [`ArrayStore::open_tag`](crate::ArrayStore::open_tag).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn open_tag(&self, name: &str) -> Result<Snapshot> {
        let inner = self.runtime.block_on(self.inner.open_tag(name))?;
        Ok(Snapshot { inner, runtime: self.runtime.clone() })
    }

    /// See [`ArrayStore::refresh`](crate::ArrayStore::refresh).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn refresh(&mut self) -> Result<u64> {
        self.runtime.block_on(self.inner.refresh())
    }

    /// See [`ArrayStore::discard`](crate::ArrayStore::discard).
    pub fn discard(&mut self) {
        self.inner.discard();
    }

    /// See [`ArrayStore::define`](crate::ArrayStore::define).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn define(&mut self, name: &str, spec: ArraySpec) -> Result<()> {
        self.inner.define(name, spec)
    }

    /// See [`ArrayStore::define_group`](crate::ArrayStore::define_group).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn define_group(&mut self, name: &str) -> Result<()> {
        self.inner.define_group(name)
    }

    /// Names of all arrays and groups, changes included, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.inner.names()
    }

    /// See [`ArrayStore::write`](crate::ArrayStore::write).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn write(&mut self, name: &str, start: &[u64], data: impl Into<ArrayData>) -> Result<()> {
        self.runtime.block_on(self.inner.write(name, start, data))
    }

    /// See [`ArrayStore::erase`](crate::ArrayStore::erase).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn erase(&mut self, name: &str, start: &[u64], shape: &[u64]) -> Result<()> {
        self.runtime.block_on(self.inner.erase(name, start, shape))
    }

    /// See [`ArrayStore::resize`](crate::ArrayStore::resize).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn resize(&mut self, name: &str, shape: &[u64]) -> Result<()> {
        self.inner.resize(name, shape)
    }

    /// See [`ArrayStore::append`](crate::ArrayStore::append).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn append(&mut self, name: &str, axis: usize, data: impl Into<ArrayData>) -> Result<()> {
        self.runtime.block_on(self.inner.append(name, axis, data))
    }

    /// See [`ArrayStore::delete`](crate::ArrayStore::delete).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        self.inner.delete(name)
    }

    /// See [`ArrayStore::set_attr`](crate::ArrayStore::set_attr).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn set_attr(&mut self, name: &str, key: &str, value: impl Into<Attr>) -> Result<()> {
        self.inner.set_attr(name, key, value)
    }

    /// See [`ArrayStore::set_store_attr`](crate::ArrayStore::set_store_attr).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn set_store_attr(&mut self, key: &str, value: impl Into<Attr>) -> Result<()> {
        self.inner.set_store_attr(key, value)
    }

    /// See [`ArrayStore::remove_attr`](crate::ArrayStore::remove_attr).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn remove_attr(&mut self, name: &str, key: &str) -> Result<()> {
        self.inner.remove_attr(name, key)
    }

    /// See [`ArrayStore::flush`](crate::ArrayStore::flush).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn flush(&mut self) -> Result<FlushReport> {
        self.runtime.block_on(self.inner.flush())
    }

    /// See [`ArrayStore::compact`](crate::ArrayStore::compact).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn compact(&mut self, policy: CompactPolicy) -> Result<FlushReport> {
        self.runtime.block_on(self.inner.compact(policy))
    }

    /// See [`ArrayStore::import_file`](crate::ArrayStore::import_file).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn import_file(&mut self, location: Location, path: &str) -> Result<FlushReport> {
        self.runtime.block_on(self.inner.import_file(location, path))
    }

    /// See [`ArrayStore::gc`](crate::ArrayStore::gc).
    ///
    /// # Errors
    ///
    /// Those of the asynchronous call.
    pub fn gc(&self, options: GcOptions) -> Result<GcReport> {
        self.runtime.block_on(self.inner.gc(options))
    }
}
