//! Where a store lies, and how it is read and written.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use iac_codec::Registry;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::backend::{Backend, store_error};
use crate::cache::ArrayCache;
use crate::codec::Packing;
use crate::error::{ArrayError, Result};
use crate::lock::PublishLock;
use crate::pack::Scratch;
use crate::per_process::PerProcess;

/// How a store is read and written; the default is Zstandard at level 3 behind `shuffle`, and 256
/// MiB of cache.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    pub(crate) packing: Packing,
    pub(crate) block_bytes: u64,
    pub(crate) statistics: bool,
    pub(crate) scratch: Scratch,
    registry: Option<Arc<Registry>>,
    cache: ArrayCache,
    pool: Option<Arc<ThreadPool>>,
    lock: Option<Arc<dyn PublishLock>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        let packing = Packing::zstd(3).unwrap_or_else(|_| Packing::lz4());
        Self {
            packing: packing.with_filters(&[crate::Filter::Shuffle]),
            block_bytes: 1 << 20,
            statistics: true,
            scratch: Scratch { memory: 512 << 20, folder: None },
            registry: None,
            cache: ArrayCache::default(),
            pool: None,
            lock: None,
        }
    }
}

impl StoreOptions {
    /// How blocks are packed that are written from now on; reading goes by what each says.
    #[must_use]
    pub fn packing(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    /// Raw bytes of the blocks that small chunks are packed into; 1 MiB unless set.
    #[must_use]
    pub fn block_bytes(mut self, bytes: u32) -> Self {
        self.block_bytes = u64::from(bytes).max(1);
        self
    }

    /// Whether the least and greatest element of each chunk is noted; on unless set.
    #[must_use]
    pub const fn statistics(mut self, statistics: bool) -> Self {
        self.statistics = statistics;
        self
    }

    /// Bytes of changes that wait in memory for the next flush, and of blocks that a flush or
    /// compaction makes; 512 MiB unless set. The rest goes into a temporary file, which has no name
    /// and is gone with the store. Making blocks takes up to about as much again for a while.
    #[must_use]
    pub fn pending_bytes(mut self, bytes: u64) -> Self {
        self.scratch.memory = bytes;
        self
    }

    /// Where temporary files are made; where the system keeps them unless set, which is memory on
    /// some systems.
    #[must_use]
    pub fn temporary_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scratch.folder = Some(folder.into());
        self
    }

    /// The codecs that blocks are decoded with; those of this build unless set.
    #[must_use]
    pub fn registry(mut self, registry: Arc<Registry>) -> Self {
        self.registry = Some(registry);
        self
    }

    /// The cache, which other stores may share.
    #[must_use]
    pub fn cache(mut self, cache: &ArrayCache) -> Self {
        self.cache = cache.clone();
        self
    }

    /// The threads that compress and decompress; the store's own unless set.
    #[must_use]
    pub fn pool(mut self, pool: Arc<ThreadPool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// The lock that writers hold while they publish: needed where the object store cannot create an
    /// object only if there is none ([`ArrayError::NoConditionalPut`]), or is not to be trusted with
    /// it.
    #[must_use]
    pub fn lock(mut self, lock: Arc<dyn PublishLock>) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Threads of the store's own, so many.
    ///
    /// # Errors
    ///
    /// [`ArrayError::System`] when the system has none to give.
    pub fn workers(self, workers: NonZeroUsize) -> Result<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(workers.get())
            .build()
            .map_err(|error| ArrayError::System { what: "threads", reason: error.to_string() })?;
        Ok(self.pool(Arc::new(pool)))
    }

    pub(crate) fn backend(&self, location: Location) -> Result<Arc<Backend>> {
        let Location { store, root, local } = location;
        let root = Path::parse(&root)
            .map_err(|error| ArrayError::argument(format!("`{root}` is no path: {error}")))?;
        Ok(Arc::new(Backend {
            store,
            local,
            root,
            registry: self.registry.clone().unwrap_or_else(|| Arc::new(Registry::builtin())),
            cache: self.cache.clone(),
            pool: self.pool.clone(),
            own_pool: PerProcess::default(),
            lock: self.lock.clone(),
            in_flight: self.scratch.memory,
        }))
    }
}

/// Where a store lies.
#[derive(Debug, Clone)]
pub struct Location {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) root: String,
    /// The same store, where it is a folder.
    pub(crate) local: Option<Arc<LocalFileSystem>>,
}

impl Location {
    /// A prefix of an object store; empty for the whole of it.
    pub fn object_store(store: Arc<dyn ObjectStore>, root: &str) -> Self {
        Self { store, root: root.to_owned(), local: None }
    }

    /// A folder, made when it is not there. What is published is synced to disk.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Store`] when it cannot be made or is no folder.
    pub fn folder(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let failed = |source: object_store::Error| {
            store_error("open", &Path::from(folder.to_string_lossy().as_ref()), source)
        };
        std::fs::create_dir_all(&folder).map_err(|error| {
            failed(object_store::Error::Generic { store: "folder", source: Box::new(error) })
        })?;
        let store = LocalFileSystem::new_with_prefix(&folder).map_err(failed)?.with_fsync(true);
        let store = Arc::new(store);
        Ok(Self { local: Some(Arc::clone(&store)), store, root: String::new() })
    }

    /// Memory, which is gone with its last user.
    #[must_use]
    pub fn memory() -> Self {
        Self { store: Arc::new(InMemory::new()), root: String::new(), local: None }
    }
}
