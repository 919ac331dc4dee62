//! Batches of a plan, fetched and decoded before they are asked for.
//!
//! Some threads wait for bytes, one decodes (with the reader's workers), and the caller takes what
//! is ready. Each of them waits when the next one has not kept up, so memory is bounded.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;

use crate::batch::ContiguousRecordBatch;
use crate::error::{ReadError, Result};
use crate::image_batch::ImageBatch;
use crate::pack::PackReader;
use crate::variable::VariableRecordPack;

/// More threads than these would only wait.
const MOST_THREADS: usize = 64;

/// How far a [`ReadAhead`] goes ahead of its caller.
///
/// ```
/// use std::num::NonZeroUsize;
/// use iac_reader::ReadAheadOptions;
///
/// let options = ReadAheadOptions::default().depth(NonZeroUsize::new(8).unwrap());
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ReadAheadOptions {
    depth: NonZeroUsize,
    decoded: NonZeroUsize,
}

impl Default for ReadAheadOptions {
    fn default() -> Self {
        let one = NonZeroUsize::MIN;
        Self { depth: one.saturating_add(3), decoded: one }
    }
}

impl ReadAheadOptions {
    /// Most batches whose bytes are being fetched, or were and wait to be decoded. Default: 4.
    #[must_use]
    pub fn depth(mut self, batches: NonZeroUsize) -> Self {
        self.depth = batches;
        self
    }

    /// Most decoded batches that wait for the caller, beside the one that is being decoded.
    /// Default: 1.
    #[must_use]
    pub fn decoded(mut self, batches: NonZeroUsize) -> Self {
        self.decoded = batches;
        self
    }
}

/// The decoded batches of a plan, in its order; made by [`VariableRecordPack::read_ahead`] and its
/// like.
///
/// A batch that cannot be read is an error in its place, and the next ones follow. When this is
/// dropped, no further batch is begun; requests that are under way end by themselves.
pub struct ReadAhead<T> {
    shared: Arc<Shared>,
    results: Option<Receiver<Result<T>>>,
    decoder: Option<JoinHandle<()>>,
    path: Arc<str>,
    process: u32,
}

impl<T> fmt::Debug for ReadAhead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead").field("pack", &self.path).finish_non_exhaustive()
    }
}

type Panic = Box<dyn Any + Send>;
type Plan = Box<dyn Iterator<Item = Vec<u64>> + Send>;

struct Shared {
    state: Mutex<State>,
    /// Something in the state changed.
    changed: Condvar,
    depth: u64,
}

struct State {
    plan: Plan,
    /// Batches that were taken from the plan.
    begun: u64,
    /// Batches that were handed to the decoder.
    taken: u64,
    fetched: BTreeMap<u64, Fetched>,
    /// The plan has no more.
    ended: bool,
    /// Nobody wants more.
    stopped: bool,
    panic: Option<Panic>,
}

struct Fetched {
    rows: Vec<u64>,
    pack: Result<PackReader>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The next batch of the plan with its number, as soon as there is room for it.
    fn next_to_fetch(&self) -> Option<(u64, Vec<u64>)> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.ended {
                return None;
            }
            if state.begun < state.taken.saturating_add(self.depth) {
                break;
            }
            state = self.wait(state);
        }
        let Some(rows) = state.plan.next() else {
            state.ended = true;
            drop(state);
            self.changed.notify_all();
            return None;
        };
        let number = state.begun;
        state.begun = number.saturating_add(1);
        Some((number, rows))
    }

    /// Fetches batch after batch.
    fn fetch_all(&self, pack: &PackReader) {
        let worked = catch_unwind(AssertUnwindSafe(|| {
            while let Some((number, rows)) = self.next_to_fetch() {
                let pack = pack.fetch(&rows);
                self.lock().fetched.insert(number, Fetched { rows, pack });
                self.changed.notify_all();
            }
        }));
        if let Err(panic) = worked {
            let mut state = self.lock();
            state.panic = Some(panic);
            state.stopped = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The next batch for the decoder.
    fn next_to_decode(&self) -> Option<Fetched> {
        let mut state = self.lock();
        loop {
            if let Some(panic) = state.panic.take() {
                drop(state);
                resume_unwind(panic);
            }
            if state.stopped {
                return None;
            }
            let number = state.taken;
            if let Some(fetched) = state.fetched.remove(&number) {
                state.taken = number.saturating_add(1);
                drop(state);
                self.changed.notify_all();
                return Some(fetched);
            }
            if state.ended && number == state.begun {
                return None;
            }
            state = self.wait(state);
        }
    }

    fn decode_all<T>(
        &self,
        decode: impl Fn(PackReader, &[u64]) -> Result<T>,
        results: &SyncSender<Result<T>>,
    ) {
        while let Some(Fetched { rows, pack }) = self.next_to_decode() {
            let result = pack.and_then(|pack| decode(pack, &rows));
            if results.send(result).is_err() {
                self.stop();
            }
        }
    }
}

impl<T: Send + 'static> ReadAhead<T> {
    fn begin(
        pack: &PackReader,
        plan: Plan,
        options: ReadAheadOptions,
        decode: impl Fn(PackReader, &[u64]) -> Result<T> + Send + 'static,
    ) -> Self {
        let state = State {
            plan,
            begun: 0,
            taken: 0,
            fetched: BTreeMap::new(),
            ended: false,
            stopped: false,
            panic: None,
        };
        let depth = u64::try_from(options.depth.get()).unwrap_or(u64::MAX);
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), depth });
        let (sender, results) = sync_channel(options.decoded.get());
        let path = Arc::clone(&pack.inner.content.path);
        let mut begun = 0_usize;
        let mut failed = None;
        for _ in 0..options.depth.get().min(MOST_THREADS) {
            let (shared, pack) = (Arc::clone(&shared), pack.clone());
            let builder = std::thread::Builder::new().name("iac-fetch".to_owned());
            match builder.spawn(move || shared.fetch_all(&pack)) {
                Ok(_) => begun = begun.saturating_add(1),
                Err(error) => failed = Some(error),
            }
        }
        let decoder = {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            let builder = std::thread::Builder::new().name("iac-decode".to_owned());
            builder.spawn(move || shared.decode_all(decode, &sender))
        };
        let decoder = decoder.map_err(|error| failed = Some(error)).ok();
        // One of each kind suffices; without, there is an error in place of all batches.
        if (begun == 0 || decoder.is_none())
            && let Some(source) = failed
        {
            shared.stop();
            let action = "start a thread to read ahead";
            let path = Arc::clone(&path);
            drop(sender.try_send(Err(ReadError::Io { path, action, source })));
        }
        drop(sender);
        Self { shared, results: Some(results), decoder, path, process: std::process::id() }
    }
}

impl<T> Iterator for ReadAhead<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let results = self.results.as_ref()?;
        if self.process != std::process::id() {
            // The threads stayed with the parent.
            self.results = None;
            let source = io::Error::other("reading ahead does not go on in a forked process");
            let path = Arc::clone(&self.path);
            return Some(Err(ReadError::Io { path, action: "read ahead", source }));
        }
        if let Ok(result) = results.recv() {
            return Some(result);
        }
        self.results = None;
        // A panic on the way must not look like the end of the plan.
        if let Some(Err(panic)) = self.decoder.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        None
    }
}

impl<T> Drop for ReadAhead<T> {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.shared.stop();
        }
    }
}

impl VariableRecordPack {
    /// Reads and decodes the batches of a plan before they are asked for, in its order.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.iac");
    /// use iac_reader::{ReadAheadOptions, VariableRecordPack};
    /// # use iac_writer::{Table, WriteOptions, build_pack};
    /// # use arrow_array::{ArrayRef, RecordBatch, StringArray};
    /// # let ids: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["a", "b"]));
    /// # let index = Table::from(RecordBatch::try_from_iter([("item_id", ids)])?);
    /// # let options = WriteOptions::new();
    /// # build_pack(&path, &serde_json::Map::new(), &Table::empty(), &index, &["one", "two"], &options)?;
    ///
    /// let pack = VariableRecordPack::open(&path)?;
    /// let plan = vec![vec![0, 1], vec![1]];
    /// for batch in pack.read_ahead(plan, ReadAheadOptions::default()) {
    ///     let records = batch?;
    ///     assert_eq!(records.last().unwrap(), "two");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_ahead<P>(&self, plan: P, options: ReadAheadOptions) -> ReadAhead<Vec<Bytes>>
    where
        P: IntoIterator<Item = Vec<u64>>,
        P::IntoIter: Send + 'static,
    {
        self.read_ahead_with(plan, options, |pack, rows| pack.read_many(rows))
    }

    /// The same with the records of each batch in one buffer.
    pub fn read_contiguous_ahead<P>(
        &self,
        plan: P,
        options: ReadAheadOptions,
    ) -> ReadAhead<ContiguousRecordBatch>
    where
        P: IntoIterator<Item = Vec<u64>>,
        P::IntoIter: Send + 'static,
    {
        self.read_ahead_with(plan, options, |pack, rows| pack.read_many_contiguous(rows))
    }

    /// The same for images: each batch as [`read_image_batch`](Self::read_image_batch) gives it.
    pub fn read_images_ahead<P>(&self, plan: P, options: ReadAheadOptions) -> ReadAhead<ImageBatch>
    where
        P: IntoIterator<Item = Vec<u64>>,
        P::IntoIter: Send + 'static,
    {
        self.read_ahead_with(plan, options, |pack, rows| pack.read_image_batch(rows))
    }

    /// The same with the caller's way to decode a batch, which is run on a thread of its own, one
    /// batch after the other. The pack that it is given has the stored bytes of the rows in memory.
    pub fn read_ahead_with<P, T: Send + 'static>(
        &self,
        plan: P,
        options: ReadAheadOptions,
        decode: impl Fn(&Self, &[u64]) -> Result<T> + Send + 'static,
    ) -> ReadAhead<T>
    where
        P: IntoIterator<Item = Vec<u64>>,
        P::IntoIter: Send + 'static,
    {
        let like = self.clone();
        ReadAhead::begin(&self.pack, Box::new(plan.into_iter()), options, move |pack, rows| {
            let mut fetched = like.clone();
            fetched.pack = pack;
            decode(&fetched, rows)
        })
    }
}
