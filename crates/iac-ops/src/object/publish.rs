//! Uploading: what appears is whole, and replaces nothing unless that was asked for.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, TryStreamExt};
use iac_reader::object::object_store::path::Path as Key;
use iac_reader::object::object_store::{
    CopyMode, CopyOptions, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use iac_reader::object::{ObjectLocation, block_on, error_of};
use iac_reader::{ByteSource, MappedFile};
use sha2::{Digest, Sha256};

use crate::error::{OpsError, Result};
use crate::progress::{Progress, Task};
use crate::sha::hex;

/// The largest object that stores take in one request.
const SINGLE_PUT_BYTES: u64 = 5 << 30;
/// Bytes of one part, unless there would be too many.
const PART_BYTES: u64 = 64 << 20;
/// Parts that every store takes, and some room.
const MOST_PARTS: u64 = 9_000;
/// Pieces of the file that one request consists of: each is taken out of the mapping as it goes.
const PIECE_BYTES: usize = 1 << 20;
const IN_FLIGHT: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

/// How a pack is uploaded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PublishOptions {
    /// Replace what is there; default `false`.
    pub overwrite: bool,
    /// Read the object back and compare it with what was uploaded; default `true`.
    pub verify: bool,
    /// Most bytes of one request that creates an object; larger packs go in parts. Default 5 GiB,
    /// which is what stores allow.
    pub single_put_bytes: u64,
    /// Bytes of a part; default 64 MiB. Stores take at least 5 MiB and at most 10,000 parts.
    pub part_bytes: u64,
    /// Parts that are on their way at once; default 4.
    pub in_flight: NonZeroUsize,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self {
            overwrite: false,
            verify: true,
            single_put_bytes: SINGLE_PUT_BYTES,
            part_bytes: PART_BYTES,
            in_flight: IN_FLIGHT,
        }
    }
}

/// What was uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Size of the object.
    pub bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// The store's entity tag, where it says one.
    pub e_tag: Option<String>,
}

/// Makes a pack in a local temporary file and uploads it.
///
/// `make` is given the path to write to, on the file system of the system's temporary folder (or
/// `folder`), which must have room for the pack.
///
/// # Errors
///
/// What `make` reports, and as [`publish`]. Whether something is in the way is looked up before
/// anything is made.
pub fn build<T, E: From<OpsError>>(
    to: &ObjectLocation,
    folder: Option<&Path>,
    options: &PublishOptions,
    progress: &dyn Progress,
    make: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<(T, Published), E> {
    check_free(to, options)?;
    let place = PathBuf::from(to.name());
    let mut builder = tempfile::Builder::new();
    builder.prefix("iac-");
    let made = match folder {
        Some(folder) => builder.tempdir_in(folder),
        None => builder.tempdir(),
    };
    let made = made.map_err(OpsError::io(&place, "cannot make a temporary folder"))?;
    let file = made.path().join("pack.iac");
    let result = make(&file)?;
    let published = publish(&file, to, options, progress)?;
    Ok((result, published))
}

/// Refuses a place where something is.
pub(super) fn check_free(to: &ObjectLocation, options: &PublishOptions) -> Result<()> {
    let place = PathBuf::from(to.name());
    if options.overwrite {
        return Ok(());
    }
    if let Some(path) = to.local_path() {
        return match path.symlink_metadata() {
            Ok(_) => Err(OpsError::Exists { path: place }),
            Err(_) => Ok(()),
        };
    }
    let (store, key) = to.store().map_err(OpsError::io(&place, "cannot reach the store"))?;
    let head = block_on(async move {
        store.get_opts(&key, GetOptions { head: true, ..GetOptions::default() }).await
    });
    match head.map_err(OpsError::io(&place, "cannot look at the destination"))? {
        Ok(_) => Err(OpsError::Exists { path: place }),
        Err(Error::NotFound { .. }) => Ok(()),
        // Some who may write may not look. The upload itself will not replace anything.
        Err(Error::PermissionDenied { .. }) => Ok(()),
        Err(error) => Err(failed(&place, "cannot look at the destination", &error)),
    }
}

/// Uploads a local file.
///
/// # Errors
///
/// [`OpsError::Exists`] when something is there already; [`OpsError::Destination`] when the store
/// can neither create conditionally nor copy conditionally, and overwriting was not asked for;
/// [`OpsError::Io`] with what the store reports; [`OpsError::Changed`] when what is read back is not
/// what was uploaded; [`OpsError::Cancelled`]. Nothing has appeared then, unless a store that
/// answered with an error, or not at all, has taken the object all the same.
pub fn publish(
    file: &Path,
    to: &ObjectLocation,
    options: &PublishOptions,
    progress: &dyn Progress,
) -> Result<Published> {
    let size = file.metadata().map_err(OpsError::io(file, "cannot examine the file"))?.len();
    let bytes = if size == 0 {
        Bytes::new()
    } else {
        let mapped = MappedFile::open(file).map_err(OpsError::io(file, "cannot open the file"))?;
        mapped.memory().cloned().unwrap_or_default()
    };
    let place = PathBuf::from(to.name());
    let task = Task::begin(progress, "uploading", Some(size));
    let mut hasher = Sha256::new();
    for piece in bytes.chunks(PIECE_BYTES) {
        check_running(progress)?;
        hasher.update(piece);
    }
    let sha256 = hex(&hasher.finalize());
    check_free(to, options)?;
    let (store, key) = to.store().map_err(OpsError::io(&place, "cannot reach the store"))?;
    let upload = Upload { store, key, place: &place, options, progress, task: &task };
    let e_tag = block_on(upload.run(&bytes)).map_err(OpsError::io(&place, "cannot upload"))??.e_tag;
    drop(task);
    if options.verify {
        let found = super::copy::sha256_of(to, progress)?;
        if found != (size, sha256.clone()) {
            let reason = format!(
                "{size} bytes with the SHA-256 {sha256} were uploaded, {} with {} are there",
                found.0, found.1
            );
            return Err(OpsError::Changed { path: place, reason });
        }
    }
    Ok(Published { bytes: size, sha256, e_tag })
}

fn check_running(progress: &dyn Progress) -> Result<()> {
    if progress.is_cancelled() { Err(OpsError::Cancelled) } else { Ok(()) }
}

fn failed(place: &Path, action: &'static str, error: &Error) -> OpsError {
    OpsError::io(place, action)(error_of(error))
}

/// Whether a store says that it does not know how.
const fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::NotImplemented { .. } | Error::NotSupported { .. })
}

struct Upload<'a> {
    store: Arc<dyn ObjectStore>,
    key: Key,
    place: &'a Path,
    options: &'a PublishOptions,
    progress: &'a dyn Progress,
    task: &'a Task<'a>,
}

impl Upload<'_> {
    async fn run(&self, bytes: &Bytes) -> Result<PutResult> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let fits = size <= self.options.single_put_bytes;
        if self.options.overwrite {
            return if fits {
                let put = self.put(&self.key, bytes, PutMode::Overwrite).await?;
                put.map_err(|error| failed(self.place, "cannot upload", &error))
            } else {
                self.in_parts(&self.key, bytes).await
            };
        }
        if fits {
            match self.put(&self.key, bytes, PutMode::Create).await? {
                Ok(put) => return Ok(put),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                    return Err(OpsError::Exists { path: self.place.to_owned() });
                }
                Err(error) if is_unknown(&error) => {}
                Err(error) => return Err(failed(self.place, "cannot upload", &error)),
            }
        }
        self.through_temporary(bytes, fits).await
    }

    /// Uploads under another name, and has the store copy that where nothing is.
    async fn through_temporary(&self, bytes: &Bytes, fits: bool) -> Result<PutResult> {
        let name = format!("{}.uploading-{:016x}", self.key, random());
        let temporary = Key::parse(name).map_err(|error| {
            OpsError::destination(self.place, format!("no temporary name is possible: {error}"))
        })?;
        let uploaded = if fits {
            let put = self.put(&temporary, bytes, PutMode::Overwrite).await;
            put.and_then(|put| {
                put.map_err(|error| failed(self.place, "cannot upload", &error)).map(drop)
            })
        } else {
            self.in_parts(&temporary, bytes).await.map(drop)
        };
        let copied = match uploaded {
            Ok(()) => {
                let mode = CopyOptions { mode: CopyMode::Create, ..CopyOptions::default() };
                let copied = self.store.copy_opts(&temporary, &self.key, mode).await;
                copied.map_err(|error| match error {
                    Error::AlreadyExists { .. } | Error::Precondition { .. } => {
                        OpsError::Exists { path: self.place.to_owned() }
                    }
                    error if is_unknown(&error) => OpsError::destination(
                        self.place,
                        "the store can neither create an object only if nothing is there, nor copy in that way (allow overwriting to write without that certainty)",
                    ),
                    error => failed(self.place, "cannot copy the upload to its place", &error),
                })
            }
            Err(error) => Err(error),
        };
        // It is ours whatever happened; a store that is gone keeps it.
        drop(self.store.delete(&temporary).await);
        copied?;
        let head = GetOptions { head: true, ..GetOptions::default() };
        let found = self.store.get_opts(&self.key, head).await;
        let e_tag = found.ok().and_then(|found| found.meta.e_tag);
        Ok(PutResult { e_tag, version: None, extensions: Default::default() })
    }

    /// One request.
    async fn put(
        &self,
        key: &Key,
        bytes: &Bytes,
        mode: PutMode,
    ) -> Result<Result<PutResult, Error>> {
        check_running(self.progress)?;
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.store.put_opts(key, payload(bytes), options).await;
        if put.is_ok() {
            self.task.advance(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        }
        Ok(put)
    }

    /// Many requests, of which the last makes the object appear.
    async fn in_parts(&self, key: &Key, bytes: &Bytes) -> Result<PutResult> {
        let failed = |error: Error| match error {
            error if is_unknown(&error) => OpsError::destination(
                self.place,
                format!(
                    "the store takes nothing in parts, and {} bytes are too many for one request",
                    bytes.len()
                ),
            ),
            error => failed(self.place, "cannot upload", &error),
        };
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let part = self.options.part_bytes.max(size.div_ceil(MOST_PARTS)).max(1);
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        let options = PutMultipartOptions::default();
        let mut upload = self.store.put_multipart_opts(key, options).await.map_err(failed)?;
        let sent = async {
            let mut under_way = FuturesUnordered::new();
            let mut start = 0_usize;
            while start < bytes.len() {
                check_running(self.progress)?;
                let end = start.saturating_add(part).min(bytes.len());
                let piece = bytes.slice(start..end);
                let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                let sending = upload.put_part(payload(&piece));
                under_way.push(async move { sending.await.map(|()| length) });
                start = end;
                if under_way.len() >= self.options.in_flight.get()
                    && let Some(done) = under_way.next().await
                {
                    self.task.advance(done.map_err(failed)?);
                }
            }
            while let Some(done) = under_way.try_next().await.map_err(failed)? {
                self.task.advance(done);
            }
            check_running(self.progress)
        };
        let sent = sent.await;
        let completed = match sent {
            Ok(()) => upload.complete().await.map_err(failed),
            Err(error) => Err(error),
        };
        if completed.is_err() {
            // What cannot be taken back now is for the bucket's own rules.
            drop(upload.abort().await);
        }
        completed
    }
}

/// A body that shares the file's memory.
fn payload(bytes: &Bytes) -> PutPayload {
    let mut pieces = Vec::new();
    let mut start = 0_usize;
    while start < bytes.len() {
        let end = start.saturating_add(PIECE_BYTES).min(bytes.len());
        pieces.push(bytes.slice(start..end));
        start = end;
    }
    PutPayload::from_iter(pieces)
}

fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    if let Ok(time) = std::time::UNIX_EPOCH.elapsed() {
        hasher.write_u128(time.as_nanos());
    }
    hasher.finish()
}

/// Writes a local file, whole or not at all.
pub(super) fn publish_locally(from: &Path, to: &Path, overwrite: bool) -> Result<()> {
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = to.file_name().ok_or_else(|| OpsError::destination(to, "has no file name"))?;
    std::fs::create_dir_all(folder).map_err(OpsError::io(folder, "cannot make the folder"))?;
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file =
        builder.tempfile_in(folder).map_err(OpsError::io(to, "cannot create the file"))?;
    let mut source =
        std::fs::File::open(from).map_err(OpsError::io(from, "cannot open the file"))?;
    io::copy(&mut source, &mut file).map_err(OpsError::io(to, "cannot write the file"))?;
    file.as_file().sync_all().map_err(OpsError::io(to, "cannot sync the file"))?;
    let published = if overwrite { file.persist(to) } else { file.persist_noclobber(to) };
    match published {
        Ok(_) => {
            iac_writer::sync_folder(folder).map_err(OpsError::io(folder, "cannot sync the folder"))
        }
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(OpsError::Exists { path: to.to_owned() })
        }
        Err(error) => Err(OpsError::io(to, "cannot rename the file")(error.error)),
    }
}
