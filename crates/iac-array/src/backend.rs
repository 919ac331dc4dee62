//! What a store of arrays asks of an object store.

use std::error::Error;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use iac_codec::Registry;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Error as StoreError, GetOptions, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, WriteMultipart,
};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::cache::ArrayCache;
use crate::error::{ArrayError, Result, u64_len, usize_len};
use crate::layer::{BuiltLayer, LayerId};
use crate::lock::PublishLock;
use crate::manifest::{MAX_BYTES, Manifest};
use crate::per_process::PerProcess;
use crate::spool::Piece;

/// Requests of one call that are on their way at once.
pub(crate) const CONCURRENCY: usize = 32;
/// Ranges with so small a gap are fetched as one.
const JOIN_GAP: u64 = 64 << 10;
/// Bytes that a joined range may have.
const JOIN_BYTES: u64 = 16 << 20;
/// Objects up to this size go up in one request.
const SINGLE_PUT: u64 = 64 << 20;
/// Bytes of a part of a larger one.
const PART: u64 = 16 << 20;
/// Bytes that object stores want a part to have at least.
const LEAST_PART: u64 = 5 << 20;

/// A prefix of an object store, and what reading it needs.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The folder, where the store is one: its files are read without going through `store`.
    pub(crate) local: Option<Arc<LocalFileSystem>>,
    pub(crate) root: Path,
    pub(crate) registry: Arc<Registry>,
    pub(crate) cache: ArrayCache,
    pub(crate) pool: Option<Arc<ThreadPool>>,
    pub(crate) own_pool: PerProcess<ThreadPool>,
    pub(crate) lock: Option<Arc<dyn PublishLock>>,
    /// Bytes of an upload that are in memory at once beside what is there anyway.
    pub(crate) in_flight: u64,
}

/// An object that was found.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) path: Path,
    pub(crate) name: String,
    pub(crate) modified: SystemTime,
}

/// An object that is a file.
#[derive(Debug)]
pub(crate) struct LocalFile {
    path: Path,
    file: File,
    /// What it had when it was opened: layers do not change.
    length: u64,
}

impl LocalFile {
    /// How many bytes a part has, which must be within the file before memory is taken for it.
    fn check(&self, range: &Range<u64>) -> Result<usize> {
        if range.end > self.length {
            let reason =
                format!("it ends at {}, bytes up to {} are needed", self.length, range.end);
            return Err(ArrayError::corrupt(&self.path, reason));
        }
        usize_len("a block", range.end.saturating_sub(range.start))
    }

    /// Part of the file, exactly.
    #[cfg(unix)]
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let length = self.check(&range)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|error| ArrayError::System {
            what: "memory",
            reason: format!("{length} bytes for a block: {error}"),
        })?;
        while bytes.len() < length {
            let at = range.start.saturating_add(u64_len(bytes.len()));
            // Into memory that nobody has filled with zeros before.
            match rustix::io::pread(&self.file, rustix::buffer::spare_capacity(&mut bytes), at) {
                Ok(0) => {
                    return Err(io_error(&self.path, std::io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io_error(&self.path, error.into())),
            }
        }
        bytes.truncate(length);
        Ok(Bytes::from(bytes))
    }

    /// Part of the file in memory that is there already, which grows where it is too small.
    #[cfg(unix)]
    pub(crate) fn read_into<'a>(
        &self,
        range: Range<u64>,
        room: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        use std::os::unix::fs::FileExt;

        let length = self.check(&range)?;
        if room.len() < length {
            *room = crate::error::zeroed("a block", u64_len(length))?;
        }
        let bytes = room.get_mut(..length).unwrap_or_default();
        let read = self.file.read_exact_at(bytes, range.start);
        read.map_err(|error| io_error(&self.path, error))?;
        Ok(bytes)
    }

    #[cfg(not(unix))]
    pub(crate) fn read(&self, _: Range<u64>) -> Result<Bytes> {
        Err(ArrayError::corrupt(&self.path, "files are read by their store here"))
    }

    #[cfg(not(unix))]
    pub(crate) fn read_into<'a>(&self, _: Range<u64>, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Err(ArrayError::corrupt(&self.path, "files are read by their store here"))
    }
}

fn io_error(path: &Path, error: std::io::Error) -> ArrayError {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return ArrayError::corrupt(path, "it became shorter while it was read");
    }
    let (path_text, source) = (path.to_string(), Box::new(error));
    let error = if source.kind() == std::io::ErrorKind::NotFound {
        StoreError::NotFound { path: path_text, source }
    } else {
        StoreError::Generic { store: "folder", source }
    };
    store_error("read", path, error)
}

/// How an attempt to publish ended.
pub(crate) enum Commit {
    Done,
    /// Somebody else has published this version.
    Taken,
}

/// How an attempt to create an object ended.
pub(crate) enum Created {
    Done,
    /// There is one already, or it is not known whether it was created: look.
    Unclear(ArrayError),
}

impl Backend {
    /// Runs work on the caller's threads or, absent those, on the store's own.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        if let Some(pool) = &self.pool {
            return pool.install(work);
        }
        let own = self.own_pool.get(|| {
            ThreadPoolBuilder::new().thread_name(|n| format!("iac-array-{n}")).build().ok()
        });
        match own {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    pub(crate) fn within(&self, name: &str) -> Path {
        name.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    pub(crate) fn version_path(&self, version: u64) -> Path {
        self.root.clone().join("versions").join(Manifest::name(version))
    }

    /// The file of an object, where the store is a folder.
    pub(crate) fn open_local(&self, path: &Path) -> Result<Option<LocalFile>> {
        let Some(local) = self.local.as_ref().filter(|_| cfg!(unix)) else {
            return Ok(None);
        };
        let at =
            local.path_to_filesystem(path).map_err(|error| store_error("read", path, error))?;
        let file = File::open(at).map_err(|error| io_error(path, error))?;
        let length = file.metadata().map_err(|error| io_error(path, error))?.len();
        Ok(Some(LocalFile { path: path.clone(), file, length }))
    }

    /// Whether an object has the name of a layer, in the place of layers.
    pub(crate) fn is_layer(&self, object: &Listed) -> bool {
        let id = object.name.strip_suffix(".iac").and_then(LayerId::parse);
        id.is_some() && object.path == self.within(&format!("layers/{}", object.name))
    }

    /// Refuses folders of the store that are links: what lies behind them may be another store's.
    pub(crate) fn check_own_folders(&self) -> Result<()> {
        let Some(local) = &self.local else { return Ok(()) };
        for folder in ["layers", "versions", "tags"] {
            let path = self.root.clone().join(folder);
            let at = local
                .path_to_filesystem(&path)
                .map_err(|error| store_error("look at", &path, error))?;
            if std::fs::symlink_metadata(&at).is_ok_and(|found| found.is_symlink()) {
                return Err(ArrayError::argument(format!(
                    "{}: it is a symbolic link, behind which nothing is deleted",
                    at.display()
                )));
            }
        }
        Ok(())
    }

    /// Refuses what is no regular file, where the store is a folder: opening a pipe would wait for ever.
    /// What is not there is told by whoever reads it.
    fn check_regular(&self, path: &Path) -> Result<()> {
        let Some(local) = self.local.as_ref().filter(|_| cfg!(unix)) else {
            return Ok(());
        };
        let at =
            local.path_to_filesystem(path).map_err(|error| store_error("read", path, error))?;
        match std::fs::metadata(at) {
            Ok(found) if !found.is_file() => {
                Err(ArrayError::corrupt(path, "it is no regular file"))
            }
            _ => Ok(()),
        }
    }

    /// The objects of a folder of the store.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<Listed>> {
        let prefix = self.root.clone().join(folder);
        let failed = |error| store_error("list", &prefix, error);
        let listed =
            self.store.list(Some(&prefix)).try_collect::<Vec<_>>().await.map_err(failed)?;
        let objects = listed.into_iter().map(|object| Listed {
            name: object.location.filename().unwrap_or_default().to_owned(),
            path: object.location,
            modified: object.last_modified.into(),
        });
        Ok(objects.collect())
    }

    /// The versions that are there, oldest first.
    pub(crate) async fn versions(&self) -> Result<Vec<(u64, Listed)>> {
        let listed = self.list("versions").await?;
        let mut versions: Vec<(u64, Listed)> = listed
            .into_iter()
            .filter_map(|object| Some((Manifest::version_of(&object.name)?, object)))
            .collect();
        versions.sort_by_key(|(version, _)| *version);
        Ok(versions)
    }

    /// A manifest, if there is one of this version.
    pub(crate) async fn manifest(&self, version: u64) -> Result<Option<Manifest>> {
        let path = self.version_path(version);
        let bytes = match self.small(&path, MAX_BYTES).await {
            Err(error) if is_missing(&error) => return Ok(None),
            other => other?,
        };
        Manifest::decode(path.as_ref(), &bytes, version).map(Some)
    }

    /// A whole object, which is not read when it has more bytes than it may have.
    pub(crate) async fn small(&self, path: &Path, allowed: u64) -> Result<Bytes> {
        self.check_regular(path)?;
        let failed = |error| store_error("read", path, error);
        let answer = self.store.get(path).await.map_err(failed)?;
        if answer.meta.size > allowed {
            let reason = format!("{} bytes, above the {allowed} allowed", answer.meta.size);
            return Err(ArrayError::corrupt(path, reason));
        }
        let all = 0..answer.meta.size;
        collect(path, answer, all).await
    }

    /// Whether there is an object.
    pub(crate) async fn exists(&self, path: &Path) -> Result<bool> {
        match self.store.head(path).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(store_error("look at", path, error)),
        }
    }

    /// Deletes an object, which may be gone already.
    pub(crate) async fn delete(&self, path: &Path) -> Result<()> {
        match self.store.delete(path).await.map_err(|error| store_error("delete", path, error)) {
            Err(error) if !is_missing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Part of an object, exactly.
    pub(crate) async fn range(&self, path: &Path, range: Range<u64>) -> Result<Bytes> {
        let length = range.end.saturating_sub(range.start);
        if length == 0 {
            return Ok(Bytes::new());
        }
        self.check_regular(path)?;
        if let Some(file) = self.open_local(path)? {
            return file.read(range);
        }
        let options = GetOptions::new().with_range(Some(range.clone()));
        let answer = self.store.get_opts(path, options).await;
        collect(path, answer.map_err(|error| store_error("read", path, error))?, range).await
    }

    /// Parts of objects, given in the order of their places; near ones share a request.
    pub(crate) async fn ranges(&self, wanted: &[(Path, Range<u64>)]) -> Result<Vec<Bytes>> {
        let mut joined: Vec<(Path, Range<u64>)> = Vec::new();
        let mut of = Vec::with_capacity(wanted.len());
        for (path, range) in wanted {
            let open = joined.last_mut().filter(|(other, open)| {
                other == path
                    && range.start >= open.start
                    && range.start <= open.end.saturating_add(JOIN_GAP)
                    && range.end.saturating_sub(open.start) <= JOIN_BYTES
            });
            match open {
                Some((_, open)) => open.end = open.end.max(range.end),
                None => joined.push((path.clone(), range.clone())),
            }
            of.push(joined.len().saturating_sub(1));
        }
        // Boxed, so that the whole may be sent to other threads.
        let mut requests = Vec::with_capacity(joined.len());
        for (path, range) in &joined {
            requests.push(self.range(path, range.clone()).boxed());
        }
        let fetched: Vec<Bytes> =
            stream::iter(requests).buffered(CONCURRENCY).try_collect().await?;
        let mut parts = Vec::with_capacity(wanted.len());
        for ((path, range), number) in wanted.iter().zip(of) {
            let whole = joined.get(number).zip(fetched.get(number));
            let part = whole.and_then(|((_, open), bytes)| {
                let from = usize::try_from(range.start.checked_sub(open.start)?).ok()?;
                let end = usize::try_from(range.end.checked_sub(open.start)?).ok()?;
                (from <= end && end <= bytes.len()).then(|| bytes.slice(from..end))
            });
            let cut = || ArrayError::corrupt(path, format!("bytes {} are missing", range.start));
            parts.push(part.ok_or_else(cut)?);
        }
        Ok(parts)
    }

    /// Stores a layer under its name, which nobody has used.
    pub(crate) async fn put_layer(&self, path: &Path, layer: &BuiltLayer) -> Result<()> {
        if layer.bytes > single_put(self.in_flight) {
            self.refuse_known(path).await?;
            return put_pieces(&*self.store, path, layer, self.in_flight).await;
        }
        let payload = whole(layer)?;
        self.put_new(path, payload, layer.bytes, layer.header_sum).await
    }

    /// Stores an object of the store's own naming in one request, over nothing that is there. Names
    /// are random, so one that is taken is ours after all: sent twice because an answer was lost.
    pub(crate) async fn put_new(
        &self,
        path: &Path,
        payload: PutPayload,
        bytes: u64,
        header_sum: u32,
    ) -> Result<()> {
        let failed = |error| store_error("write", path, error);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let error = match self.store.put_opts(path, payload.clone(), options).await {
            Ok(_) => return Ok(()),
            Err(error) if !is_unconditional(&error) => error,
            Err(_) if self.lock.is_none() => return Err(ArrayError::NoConditionalPut),
            Err(_) => {
                self.refuse_known(path).await?;
                self.store.put(path, payload).await.map_err(failed)?;
                return Ok(());
            }
        };
        if matches!(error, StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) {
            let found = self.store.head(path).await.map_err(failed)?.size;
            let header = self.range(path, 0..found.min(iac_format::HEADER_BYTES)).await?;
            if found == bytes && crc32fast::hash(&header) == header_sum {
                return Ok(());
            }
        }
        Err(failed(error))
    }

    /// Refuses a name that is taken.
    pub(crate) async fn refuse_known(&self, path: &Path) -> Result<()> {
        if self.exists(path).await? {
            return Err(ArrayError::Exists { what: "object", name: path.to_string() });
        }
        Ok(())
    }

    /// Creates an object if there is none of its name.
    pub(crate) async fn create(&self, path: &Path, payload: PutPayload) -> Result<Created> {
        let Some(lock) = &self.lock else {
            return self.create_unlocked(path, payload).await;
        };
        let failed = |action| {
            move |error: Box<dyn Error + Send + Sync>| ArrayError::Lock {
                action,
                source: Arc::from(error),
            }
        };
        let guard = lock.acquire(self.root.as_ref()).await.map_err(failed("acquire"))?;
        let created = self.create_locked(path, payload).await;
        let released = guard.release().await.map_err(failed("release"));
        let created = created?;
        released?;
        Ok(created)
    }

    async fn create_unlocked(&self, path: &Path, payload: PutPayload) -> Result<Created> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(path, payload, options).await {
            Ok(_) => Ok(Created::Done),
            Err(error) if is_unconditional(&error) => Err(ArrayError::NoConditionalPut),
            Err(error) => Ok(Created::Unclear(store_error("publish", path, error))),
        }
    }

    /// The same while nobody else may create objects.
    async fn create_locked(&self, path: &Path, payload: PutPayload) -> Result<Created> {
        // Also where the store says that it can: some that say so do not.
        if let Err(taken) = self.refuse_known(path).await {
            return match taken {
                ArrayError::Exists { .. } => Ok(Created::Unclear(taken)),
                other => Err(other),
            };
        }
        match self.create_unlocked(path, payload.clone()).await {
            Err(ArrayError::NoConditionalPut) => match self.store.put(path, payload).await {
                Ok(_) => Ok(Created::Done),
                Err(error) => Ok(Created::Unclear(store_error("publish", path, error))),
            },
            other => other,
        }
    }

    /// Publishes a version if nobody has; `ours` tells our manifest from that of somebody else.
    pub(crate) async fn commit(&self, manifest: &Manifest, ours: LayerId) -> Result<Commit> {
        let path = self.version_path(manifest.version);
        let error = match self.create(&path, manifest.encode()?.into()).await? {
            Created::Done => return Ok(Commit::Done),
            Created::Unclear(error) => error,
        };
        // The answer may have been lost after the manifest was stored: look.
        match self.manifest(manifest.version).await {
            Ok(Some(found)) if found.layers.iter().any(|layer| layer.layer_id == ours) => {
                Ok(Commit::Done)
            }
            Ok(Some(_)) => Ok(Commit::Taken),
            Ok(None) | Err(_) => Err(error),
        }
    }
}

/// Whether an error says that the store cannot do what makes a request conditional.
const fn is_unconditional(error: &StoreError) -> bool {
    matches!(error, StoreError::NotImplemented { .. } | StoreError::NotSupported { .. })
}

/// Bytes up to which an object goes up in one request.
fn single_put(in_flight: u64) -> u64 {
    SINGLE_PUT.min(in_flight.max(LEAST_PART))
}

fn whole(layer: &BuiltLayer) -> Result<PutPayload> {
    let pieces: Vec<Bytes> = layer.pieces.iter().map(Piece::bytes).collect::<Result<_>>()?;
    Ok(pieces.into_iter().collect())
}

/// The bytes of an answer, which must be those that were asked for: the library takes memory for what
/// an answer says of itself.
async fn collect(path: &Path, answer: GetResult, wanted: Range<u64>) -> Result<Bytes> {
    let shown = |range: &Range<u64>| format!("bytes {} to {}", range.start, range.end);
    if answer.range != wanted {
        let reason = format!("{} came for {}", shown(&answer.range), shown(&wanted));
        return Err(ArrayError::corrupt(path, reason));
    }
    let bytes = answer.bytes().await.map_err(|error| store_error("read", path, error))?;
    if u64_len(bytes.len()) != wanted.end.saturating_sub(wanted.start) {
        let reason = format!("{} bytes came for {}", bytes.len(), shown(&wanted));
        return Err(ArrayError::corrupt(path, reason));
    }
    Ok(bytes)
}

/// Stores a layer, in parts when it is large; it appears whole or not at all.
pub(crate) async fn put_pieces(
    store: &dyn ObjectStore,
    path: &Path,
    layer: &BuiltLayer,
    in_flight: u64,
) -> Result<()> {
    let failed = |error| store_error("write", path, error);
    if layer.bytes <= single_put(in_flight) {
        store.put(path, whole(layer)?).await.map_err(failed)?;
        return Ok(());
    }
    let upload = store.put_multipart(path).await.map_err(failed)?;
    // Little memory makes small parts, of which few are on their way.
    let part = PART.min((in_flight / 4).max(LEAST_PART));
    let parts = in_flight.checked_div(part).and_then(|parts| usize::try_from(parts).ok());
    let parts = parts.unwrap_or(1).clamp(1, 8);
    let part = usize::try_from(part).unwrap_or(usize::MAX);
    let mut upload = WriteMultipart::new_with_chunk_size(upload, part);
    for piece in &layer.pieces {
        upload.wait_for_capacity(parts).await.map_err(failed)?;
        match piece.bytes() {
            Ok(bytes) => upload.put(bytes),
            Err(error) => {
                // What is half there must go; the error that matters is the first one.
                drop(upload.abort().await);
                return Err(error);
            }
        }
    }
    upload.finish().await.map_err(failed)?;
    Ok(())
}

pub(crate) fn store_error(action: &'static str, path: &Path, error: StoreError) -> ArrayError {
    ArrayError::Store { action, object: path.to_string(), source: Arc::new(error) }
}

/// Whether an error says that the object is not there.
pub(crate) fn is_missing(error: &ArrayError) -> bool {
    matches!(error, ArrayError::Store { source, .. }
        if matches!(**source, StoreError::NotFound { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Location, StoreOptions};

    #[test]
    fn a_layer_is_never_put_over_another_object() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for location in [Location::memory(), Location::folder(folder.path()).unwrap()] {
            let backend = StoreOptions::default().backend(location).unwrap();
            let path = backend.within("layers/x.iac");
            let layer = |fill: u8| {
                let header = vec![fill; usize::try_from(iac_format::HEADER_BYTES).unwrap()];
                let pieces = vec![Bytes::from(header), Bytes::from_static(b"data")];
                let header_sum = crc32fast::hash(&pieces[0]);
                let bytes = pieces.iter().map(|piece| u64_len(piece.len())).sum();
                let pieces = pieces.into_iter().map(Piece::from).collect();
                BuiltLayer { pieces, bytes, head_bytes: bytes, header_sum }
            };
            runtime.block_on(async {
                backend.put_layer(&path, &layer(1)).await.unwrap();
                // The same again is what a request that is repeated in secret looks like.
                backend.put_layer(&path, &layer(1)).await.unwrap();
                let error = backend.put_layer(&path, &layer(2)).await.unwrap_err();
                assert!(matches!(error, ArrayError::Store { action: "write", .. }), "{error}");
                let found = backend.store.get(&path).await.unwrap().bytes().await.unwrap();
                assert_eq!(found.len() as u64, layer(1).bytes);
                assert_eq!(crc32fast::hash(&found[..found.len() - 4]), layer(1).header_sum);
                let error = backend.refuse_known(&path).await.unwrap_err();
                assert!(matches!(error, ArrayError::Exists { .. }), "{error}");
            });
        }
    }
}
