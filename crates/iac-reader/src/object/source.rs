//! An object as a source of bytes.

use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{FutureExt, TryStreamExt, stream};
use iac_format::{HEADER_BYTES, Header};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, ObjectStore};
use tokio::sync::Semaphore;

use super::error::{Attempt, REPLACED, ignores_ranges, io_error, is_no_http, wrong_length};
use super::location::ObjectLocation;
use super::options::ObjectOptions;
use super::ranges::{Request, length_of, plan};
use super::runtime::{block_on, run};
use crate::per_process::PerProcess;
use crate::source::{Advice, ByteSource, PositionalFile, SourceRead, open_regular};

/// First request for an object that nobody has opened before.
const FIRST_READ: u64 = 256 << 10;
/// How much the first request for an object should bring, by the object.
static NEEDED: PerProcess<Mutex<std::collections::HashMap<String, u64>>> = PerProcess::new();
/// Most objects that this is remembered of.
const REMEMBERED: usize = 65_536;

/// An object in a store, on a web server, or in a local file.
///
/// Reads block the calling thread. Clones of what is above (a [`PackReader`](crate::PackReader))
/// share one source, and with it the bound on requests under way.
pub struct ObjectSource {
    backend: Backend,
    size: u64,
}

enum Backend {
    /// An open file, read by offset on the calling thread: what is local needs no requests.
    Local(PositionalFile),
    /// All of an object whose server ignores ranges.
    Whole(Bytes),
    Remote(Arc<Remote>),
}

struct Remote {
    location: ObjectLocation,
    identity: Identity,
    /// The first bytes: header and tables.
    prefix: Bytes,
    options: ObjectOptions,
    /// Requests that may still begin. A child of a fork has its own, since those that the parent's
    /// threads took are never given back there.
    permits: PerProcess<Semaphore>,
}

/// What tells an object from its successors.
#[derive(Debug, Clone)]
struct Identity {
    size: u64,
    e_tag: Option<String>,
    version: Option<String>,
    /// Nothing where the server does not say.
    modified: Option<i64>,
    meta: ObjectMeta,
}

impl Identity {
    fn of(meta: &ObjectMeta) -> Self {
        let modified = meta.last_modified.timestamp();
        Self {
            size: meta.size,
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
            modified: (modified != 0).then_some(modified),
            meta: meta.clone(),
        }
    }

    /// Asks for nothing but this object.
    fn pin(&self, options: GetOptions) -> GetOptions {
        match &self.e_tag {
            // A weak tag never matches where a strong comparison is asked for.
            Some(tag) if !tag.starts_with("W/") => {
                GetOptions { if_match: Some(tag.clone()), ..options }
            }
            _ if self.modified.is_some() => {
                GetOptions { if_unmodified_since: Some(self.meta.last_modified), ..options }
            }
            _ => options,
        }
    }

    /// Compares an answer with what was opened: not every server minds conditions.
    fn check(&self, meta: &ObjectMeta) -> io::Result<()> {
        let found = Self::of(meta);
        let same_tag = self.e_tag == found.e_tag;
        let same_version = self.version == found.version;
        // Copies of one object on several servers may differ in time; with a tag it says nothing.
        let same_time = self.e_tag.is_some() || self.modified == found.modified;
        if self.size == found.size && same_tag && same_version && same_time {
            return Ok(());
        }
        Err(io::Error::other(REPLACED))
    }

    /// A name that no other object has, where the server gives what that takes.
    fn text(&self) -> Option<String> {
        match (&self.e_tag, self.modified) {
            (Some(tag), _) => Some(format!("{}\n{tag}", self.size)),
            (None, Some(time)) => Some(format!("{}\n{time}", self.size)),
            (None, None) => None,
        }
    }
}

impl ObjectSource {
    /// Opens an object, with one request, or two where header and tables are larger than expected.
    /// A local file is opened as such.
    ///
    /// # Errors
    ///
    /// Kind `NotFound`, `PermissionDenied`, `Unsupported` (the server ignores ranges, and the
    /// object is too large to be fetched as a whole) or what else the store reports.
    pub fn open(location: &ObjectLocation, options: &ObjectOptions) -> io::Result<Self> {
        if let Some(path) = location.local_path() {
            let (file, size) = open_regular(path)?;
            let backend = Backend::Local(PositionalFile::from_file(file, size));
            return Ok(Self { backend, size });
        }
        block_on(open(location.clone(), options.clone()))?
    }

    /// The same for asynchronous callers, from any executor.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_async(
        location: &ObjectLocation,
        options: &ObjectOptions,
    ) -> io::Result<Self> {
        if location.local_path().is_some() {
            // An `open` of a local file takes no longer than handing it over.
            return Self::open(location, options);
        }
        run(open(location.clone(), options.clone())).await
    }

    /// Fetches stretches of the object, in the order given: sorted, joined, a bounded number of
    /// requests at once. From any executor.
    ///
    /// # Errors
    ///
    /// Kind `UnexpectedEof` for a stretch behind the end, otherwise as
    /// [`read_into`](ByteSource::read_into).
    pub async fn read_ranges(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        let mut buffers = Vec::with_capacity(ranges.len());
        for range in ranges {
            check_inside(self.size, range)?;
            let length = range.end.saturating_sub(range.start);
            let length = usize::try_from(length).map_err(io::Error::other)?;
            buffers.push((range.start, length));
        }
        let allocate = |buffers: &[(u64, usize)]| -> io::Result<Vec<Vec<u8>>> {
            let mut made = Vec::with_capacity(buffers.len());
            for (_, length) in buffers {
                let mut buffer = Vec::new();
                // How much an object has is only what its server says.
                buffer.try_reserve_exact(*length).map_err(io::Error::other)?;
                buffer.resize(*length, 0);
                made.push(buffer);
            }
            Ok(made)
        };
        let Backend::Remote(remote) = &self.backend else {
            let mut made = allocate(&buffers)?;
            for ((offset, _), buffer) in buffers.iter().zip(&mut made) {
                self.read_into(*offset, buffer)?;
            }
            return Ok(made.into_iter().map(Bytes::from).collect());
        };
        let remote = Arc::clone(remote);
        run(async move {
            let mut made = allocate(&buffers)?;
            let mut reads: Vec<SourceRead<'_>> = buffers
                .iter()
                .zip(&mut made)
                .map(|((offset, _), buffer)| SourceRead { offset: *offset, buffer })
                .collect();
            remote.read(&mut reads).await?;
            drop(reads);
            Ok(made.into_iter().map(Bytes::from).collect())
        })
        .await
    }

    /// What the object is known by, beyond its place: changes when it is replaced. Nothing where
    /// the server says neither tag nor time, and for local files.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        match &self.backend {
            Backend::Remote(remote) => remote.identity.text(),
            Backend::Local(_) | Backend::Whole(_) => None,
        }
    }

    /// Whether reads go to a server.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        matches!(self.backend, Backend::Remote(_))
    }
}

impl fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.backend {
            Backend::Local(_) => "local",
            Backend::Whole(_) => "whole",
            Backend::Remote(remote) => remote.location.name(),
        };
        f.debug_struct("ObjectSource").field("object", &kind).field("size", &self.size).finish()
    }
}

impl ByteSource for ObjectSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if let Backend::Local(file) = &self.backend {
            return file.read_into(offset, buffer);
        }
        self.read_batch(&mut [SourceRead { offset, buffer }])
    }

    fn read_batch(&self, reads: &mut [SourceRead<'_>]) -> io::Result<()> {
        match &self.backend {
            Backend::Local(file) => file.read_batch(reads),
            Backend::Whole(bytes) => reads.iter_mut().try_for_each(|read| {
                let range = read.offset..read.offset.saturating_add(length_of(read.buffer));
                check_inside(self.size, &range)?;
                copy_from(bytes, read);
                Ok(())
            }),
            Backend::Remote(remote) => {
                // Header and tables are here: no future is needed for them.
                let mut missing: Vec<SourceRead<'_>> = Vec::new();
                for read in reads {
                    let end = read.offset.saturating_add(length_of(read.buffer));
                    check_inside(self.size, &(read.offset..end))?;
                    if end <= length_of(&remote.prefix) {
                        copy_from(&remote.prefix, read);
                    } else {
                        missing.push(SourceRead { offset: read.offset, buffer: read.buffer });
                    }
                }
                if missing.is_empty() {
                    return Ok(());
                }
                block_on(remote.read(&mut missing))?
            }
        }
    }

    fn prefers_batches(&self) -> bool {
        matches!(self.backend, Backend::Remote(_))
    }

    fn shared(&self, offset: u64, length: usize) -> Option<Bytes> {
        let bytes = match &self.backend {
            Backend::Local(_) => return None,
            Backend::Whole(bytes) => bytes,
            Backend::Remote(remote) => &remote.prefix,
        };
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(length)?;
        (end <= bytes.len()).then(|| bytes.slice(start..end))
    }

    fn memory(&self) -> Option<&Bytes> {
        match &self.backend {
            Backend::Whole(bytes) => Some(bytes),
            Backend::Local(_) | Backend::Remote(_) => None,
        }
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        match &self.backend {
            Backend::Local(file) => file.advise(advice),
            Backend::Whole(_) | Backend::Remote(_) => Ok(()),
        }
    }

    fn will_need(&self, offset: u64, length: u64) -> io::Result<()> {
        match &self.backend {
            Backend::Local(file) => file.will_need(offset, length),
            Backend::Whole(_) | Backend::Remote(_) => Ok(()),
        }
    }
}

impl Remote {
    /// Fills all buffers, which lie inside the object.
    async fn read(&self, reads: &mut [SourceRead<'_>]) -> io::Result<()> {
        let (store, path) = self.location.store()?;
        let permits = self.permits.get(|| Some(Semaphore::new(self.options.in_flight.get())));
        let permits =
            permits.ok_or_else(|| io::Error::other("too many generations of forked processes"))?;
        let requests = plan(reads, self.options.join_gap, self.options.request_bytes);
        stream::iter(requests.into_iter().map(Ok))
            .try_for_each_concurrent(self.options.in_flight.get(), |mut request| {
                let (store, path) = (&store, &path);
                async move {
                    let _permit = permits.acquire().await.map_err(io::Error::other)?;
                    self.fetch(store, path, &mut request).await
                }
            })
            .await
    }

    async fn fetch(
        &self,
        store: &Arc<dyn ObjectStore>,
        path: &Path,
        request: &mut Request<'_>,
    ) -> io::Result<()> {
        let range = request.range.clone();
        let options = self.identity.pin(ranged(range.clone()));
        let result = get(store, path, options).await.map_err(|e| io_error(&e, Attempt::Read))?;
        self.identity.check(&result.meta)?;
        check_range(&result, &range)?;
        receive(result, &range, Attempt::Read, |offset, part| request.hand_out(offset, part)).await
    }
}

/// How often a request is sent whose answer is no HTTP.
const ATTEMPTS: usize = 3;

/// Sends a request. What the crates below make of a hostile answer must not end this process.
///
/// What a server sent too much in an earlier answer may be taken for the beginning of this one, so a
/// request whose answer is no HTTP is sent again: it goes over another connection then.
async fn get(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    options: GetOptions,
) -> object_store::Result<GetResult> {
    let mut attempt = 1_usize;
    loop {
        let asked = AssertUnwindSafe(store.get_opts(path, options.clone())).catch_unwind().await;
        match asked {
            Ok(Err(error)) if attempt < ATTEMPTS && is_no_http(&error) => {
                attempt = attempt.saturating_add(1);
            }
            Ok(result) => return result,
            Err(_) => {
                return Err(object_store::Error::Generic {
                    store: "object store",
                    source: "the answer of the server is nonsense".into(),
                });
            }
        }
    }
}

fn ranged(range: Range<u64>) -> GetOptions {
    GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() }
}

/// Compares the range of an answer with the one that was asked for.
fn check_range(result: &GetResult, range: &Range<u64>) -> io::Result<()> {
    if result.range == *range {
        return Ok(());
    }
    let message = format!(
        "the server sent bytes {} to {} instead of {} to {}",
        result.range.start, result.range.end, range.start, range.end
    );
    Err(io::Error::other(message))
}

/// Receives a body, which must have exactly the bytes of its range.
async fn receive(
    result: GetResult,
    range: &Range<u64>,
    attempt: Attempt,
    mut take: impl FnMut(u64, &[u8]),
) -> io::Result<()> {
    let expected = range.end.saturating_sub(range.start);
    let mut found = 0_u64;
    let mut body = result.into_stream();
    while let Some(part) = body.try_next().await.map_err(|error| io_error(&error, attempt))? {
        let offset = range.start.saturating_add(found);
        found = found.saturating_add(length_of(&part));
        if found > expected {
            return Err(wrong_length(range.start, expected, found, true));
        }
        take(offset, &part);
    }
    if found < expected {
        return Err(wrong_length(range.start, expected, found, false));
    }
    Ok(())
}

/// Receives a body to memory.
async fn collect(result: GetResult, range: &Range<u64>) -> io::Result<Vec<u8>> {
    let length = usize::try_from(range.end.saturating_sub(range.start));
    let mut bytes = Vec::new();
    // What the server claims is taken as it comes: it may not have that much.
    bytes.try_reserve(length.map_err(io::Error::other)?.min(1 << 20)).map_err(io::Error::other)?;
    receive(result, range, Attempt::Open, |_, part| bytes.extend_from_slice(part)).await?;
    Ok(bytes)
}

async fn open(location: ObjectLocation, options: ObjectOptions) -> io::Result<ObjectSource> {
    let (store, path) = location.store()?;
    let remembered = location.memory_key().and_then(|key| needed().and_then(|n| n.get(&key)));
    let first = options.first_read.or(remembered).unwrap_or(FIRST_READ);
    let first = first.min(options.max_open_bytes).max(HEADER_BYTES);
    let failed = |error| io_error(&error, Attempt::Open);
    let result = match get(&store, &path, ranged(0..first)).await {
        Ok(result) => result,
        Err(error) => return open_otherwise(&store, &path, error, &options).await,
    };
    let identity = Identity::of(&result.meta);
    let range = 0..first.min(identity.size);
    check_range(&result, &range)?;
    if let GetResultPayload::File(file, _) = result.payload {
        let size = file.metadata()?.len();
        return Ok(ObjectSource {
            backend: Backend::Local(PositionalFile::from_file(file, size)),
            size,
        });
    }
    let mut prefix = collect(result, &range).await?;
    if let Some(end) = tables_end(&prefix, identity.size) {
        if end <= options.max_open_bytes {
            remember(&location, end);
            let have = length_of(&prefix);
            if end > have {
                let options = identity.pin(ranged(have..end));
                let result = get(&store, &path, options).await.map_err(failed)?;
                identity.check(&result.meta)?;
                check_range(&result, &(have..end))?;
                prefix.extend_from_slice(&collect(result, &(have..end)).await?);
            }
        }
        // Records that came along are not kept: whoever reads them will ask for them.
        prefix.truncate(usize::try_from(end).unwrap_or(usize::MAX));
        prefix.shrink_to_fit();
    }
    let size = identity.size;
    let remote = Remote {
        location,
        identity,
        prefix: Bytes::from(prefix),
        options,
        permits: PerProcess::new(),
    };
    Ok(ObjectSource { backend: Backend::Remote(Arc::new(remote)), size })
}

/// Opens what cannot be asked for a first stretch: nothing at all, or an object of a server that
/// ignores ranges.
async fn open_otherwise(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    error: object_store::Error,
    options: &ObjectOptions,
) -> io::Result<ObjectSource> {
    let as_it_is = || Err(io_error(&error, Attempt::Open));
    match &error {
        object_store::Error::NotFound { .. }
        | object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => return as_it_is(),
        error if ignores_ranges(error) => {
            let result = get(store, path, GetOptions::default()).await;
            let result = result.map_err(|error| io_error(&error, Attempt::Open))?;
            let size = result.meta.size;
            if size > options.max_whole_bytes {
                let message = format!(
                    "the server ignores requests for ranges, and the {size} bytes of the object are more than the {} that may be fetched as a whole",
                    options.max_whole_bytes
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, message));
            }
            let bytes = Bytes::from(collect(result, &(0..size)).await?);
            return Ok(ObjectSource { backend: Backend::Whole(bytes), size });
        }
        _ => {}
    }
    // No range of an empty object can be asked for.
    let head = GetOptions { head: true, ..GetOptions::default() };
    match get(store, path, head).await {
        Ok(result) if result.meta.size == 0 => {
            Ok(ObjectSource { backend: Backend::Whole(Bytes::new()), size: 0 })
        }
        _ => as_it_is(),
    }
}

/// Where the tables end, if the first bytes of an object are those of a pack.
fn tables_end(prefix: &[u8], size: u64) -> Option<u64> {
    let block = prefix.get(..prefix.len().min(usize::try_from(HEADER_BYTES).ok()?))?;
    let layout = Header::parse(block, size).ok()?.layout();
    let end = |segment: iac_format::Segment| segment.offset.saturating_add(segment.length);
    Some(end(layout.slide_table).max(end(layout.index_table)).min(size))
}

/// The sizes that are remembered; nothing where the lock cannot be had.
struct Needed(&'static Mutex<std::collections::HashMap<String, u64>>);

fn needed() -> Option<Needed> {
    NEEDED.get(|| Some(Mutex::default())).map(Needed)
}

impl Needed {
    fn get(&self, key: &str) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }
}

fn remember(location: &ObjectLocation, bytes: u64) {
    if let (Some(key), Some(needed)) = (location.memory_key(), needed()) {
        let mut sizes = needed.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sizes.len() >= REMEMBERED {
            sizes.clear();
        }
        sizes.insert(key, bytes);
    }
}

fn check_inside(size: u64, range: &Range<u64>) -> io::Result<()> {
    if range.start <= range.end && range.end <= size {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!(
            "bytes {} to {} do not lie inside the object of {size} bytes",
            range.start, range.end
        ),
    ))
}

/// Copies what is known to lie inside.
fn copy_from(bytes: &[u8], read: &mut SourceRead<'_>) {
    let start = usize::try_from(read.offset).unwrap_or(usize::MAX);
    let found = bytes.get(start..).and_then(|bytes| bytes.get(..read.buffer.len()));
    if let Some(found) = found {
        read.buffer.copy_from_slice(found);
    }
}
