//! Opening packs by URL, and reading them from asynchronous code.

use std::io;
use std::sync::Arc;

use super::cache::BlockCache;
use super::location::ObjectLocation;
use super::options::{ObjectOptions, StoreOptions};
use super::source::ObjectSource;
use crate::error::{ReadError, Result};
use crate::options::ReadOptions;
use crate::overlay::merged;
use crate::pack::PackReader;

impl PackReader {
    /// Opens a pack by its URL, see [`ObjectLocation::parse`].
    ///
    /// # Errors
    ///
    /// As [`PackReader::open`]; [`ReadError::Io`] with what the store reports.
    pub fn open_url(url: &str, read: &ReadOptions, options: &ObjectOptions) -> Result<Self> {
        let location = ObjectLocation::parse(url, &StoreOptions::default());
        let shown = url.split('?').next().unwrap_or_default();
        let location = location.map_err(|source| failed(shown, source))?;
        Self::open_object(&location, read, options)
    }

    /// Opens a pack that is an object.
    ///
    /// # Errors
    ///
    /// As [`PackReader::open_url`].
    pub fn open_object(
        location: &ObjectLocation,
        read: &ReadOptions,
        options: &ObjectOptions,
    ) -> Result<Self> {
        let source = ObjectSource::open(location, options);
        let source = source.map_err(|source| failed(location.name(), source))?;
        Self::from_source(Arc::new(source), location.name(), read)
    }
}

/// Opens what no local file is, as the options for all packs say.
pub(crate) fn open_remote(location: &ObjectLocation, read: &ReadOptions) -> Result<PackReader> {
    let options = ObjectOptions::default();
    if read.object_cache == 0 {
        return PackReader::open_object(location, read, &options);
    }
    let cache = Arc::new(BlockCache::new(read.object_cache));
    PackReader::open_cached(location, read, &options, &cache)
}

fn failed(name: &str, source: io::Error) -> ReadError {
    ReadError::Io { path: Arc::from(name), action: "open", source }
}

/// A pack in an object store for asynchronous code: requests are waited for without blocking a
/// thread, and what they bring is decoded by the reader's ordinary calls.
///
/// ```no_run
/// use iac_reader::object::{ObjectLocation, ObjectOptions, ObjectPack, StoreOptions};
/// use iac_reader::{ReadOptions, VariableRecordPack};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let place = ObjectLocation::parse("s3://cohort/notes.iac", &StoreOptions::default())?;
/// let pack = ObjectPack::open(&place, &ReadOptions::default(), &ObjectOptions::default()).await?;
/// let rows = [12, 7, 12];
/// // Waits for the requests; nothing after it does.
/// let fetched = pack.fetch(&rows).await?;
/// let records = VariableRecordPack::from_reader(fetched).read_many(&rows)?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct ObjectPack {
    pack: PackReader,
    source: Arc<ObjectSource>,
}

impl ObjectPack {
    /// Opens a pack.
    ///
    /// # Errors
    ///
    /// As [`PackReader::open_object`].
    pub async fn open(
        location: &ObjectLocation,
        read: &ReadOptions,
        options: &ObjectOptions,
    ) -> Result<Self> {
        let source = ObjectSource::open_async(location, options).await;
        let source = Arc::new(source.map_err(|source| failed(location.name(), source))?);
        let pack = PackReader::from_source(Arc::clone(&source) as _, location.name(), read)?;
        Ok(Self { pack, source })
    }

    /// The pack for blocking calls. Header and tables are here already, unless they are larger
    /// than [`ObjectOptions::max_open_bytes`].
    #[must_use]
    pub const fn reader(&self) -> &PackReader {
        &self.pack
    }

    /// Fetches the stored bytes of rows: gives the pack with these in memory, so that reading and
    /// decoding them waits for nothing.
    ///
    /// # Errors
    ///
    /// As [`PackReader::fetch`].
    pub async fn fetch(&self, rows: &[u64]) -> Result<PackReader> {
        let merged = merged(self.pack.stretches(rows)?);
        let bytes = self.source.read_ranges(&merged).await;
        let bytes = bytes.map_err(|source| self.pack.inner.content.io_error("read", source))?;
        let fetched = merged.into_iter().map(|stretch| stretch.start).zip(bytes).collect();
        Ok(self.pack.with_fetched(fetched))
    }
}
