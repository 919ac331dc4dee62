//! Compression on several threads, for a caller that hands blocks over one by one. Records come
//! back in order, and memory is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use iac_codec::{Codec, CodecError};

/// Blocks in flight for each thread, however small: enough to go on while one takes long.
const BLOCKS_PER_WORKER: u64 = 64;

/// A compressed record, or why its block cannot be compressed.
type Record = Result<Vec<u8>, CodecError>;

/// Compresses blocks; with one worker on the calling thread.
#[derive(Debug)]
pub(crate) struct Compressor {
    codec: Codec,
    memory: u64,
    most: u64,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Blocks handed over.
    pushed: u64,
    /// Records handed out.
    handed_out: u64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told of blocks, and of the end.
    work: Condvar,
    /// Told of records.
    results: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(u64, Vec<u8>)>,
    done: BTreeMap<u64, Record>,
    /// Bytes of blocks and records that are not handed out; a block counts until its record does.
    bytes: u64,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.work.notify_all();
        self.results.notify_all();
    }
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl Compressor {
    pub(crate) fn new(codec: Codec, workers: Option<NonZeroUsize>, memory: u64) -> Self {
        let workers = workers
            .unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
        let workers = workers.get();
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        if workers > 1 && !codec.is_identity() {
            for _ in 0..workers {
                let shared = Arc::clone(&shared);
                let codec = codec.clone();
                let builder = std::thread::Builder::new().name("iac-text".to_owned());
                // Where no thread can be had, fewer do, down to the calling one.
                if let Ok(thread) = builder.spawn(move || work(&shared, &codec)) {
                    threads.push(thread);
                }
            }
        }
        let most = u64::try_from(threads.len()).unwrap_or(1).saturating_mul(BLOCKS_PER_WORKER);
        Self { codec, memory, most, shared, threads, pushed: 0, handed_out: 0 }
    }

    /// Takes the next block, and hands out the records that are due.
    pub(crate) fn push<E>(
        &mut self,
        block: Vec<u8>,
        hand_out: &mut impl FnMut(u64, Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let position = self.pushed;
        self.pushed = position.saturating_add(1);
        if self.threads.is_empty() {
            let record =
                if self.codec.is_identity() { Ok(block) } else { self.codec.encode_bytes(&block) };
            self.handed_out = self.pushed;
            return hand_out(position, record);
        }
        let mut state = self.shared.lock();
        state.bytes = state.bytes.saturating_add(size(&block));
        state.waiting.push_back((position, block));
        drop(state);
        self.shared.work.notify_one();
        self.drain(hand_out, false)
    }

    /// Hands out the rest.
    pub(crate) fn finish<E>(
        &mut self,
        hand_out: &mut impl FnMut(u64, Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.drain(hand_out, true)
    }

    /// Hands out records that are due; waits for more while too much is in flight, or for all.
    fn drain<E>(
        &mut self,
        hand_out: &mut impl FnMut(u64, Record) -> Result<(), E>,
        all: bool,
    ) -> Result<(), E> {
        let mut state = self.shared.lock();
        while self.handed_out < self.pushed {
            if let Some(record) = state.done.remove(&self.handed_out) {
                let position = self.handed_out;
                self.handed_out = position.saturating_add(1);
                let bytes = record.as_ref().map_or(0, |record| size(record));
                state.bytes = state.bytes.saturating_sub(bytes);
                drop(state);
                hand_out(position, record)?;
                state = self.shared.lock();
                continue;
            }
            if state.stopped {
                drop(state);
                let position = self.handed_out;
                self.handed_out = self.pushed;
                let died = CodecError::encode(self.codec.name(), "the thread that did it panicked");
                return hand_out(position, Err(died));
            }
            let in_flight = self.pushed.saturating_sub(self.handed_out);
            if !all && in_flight < self.most && state.bytes < self.memory {
                return Ok(());
            }
            state = self.shared.results.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has been told of.
            drop(thread.join());
        }
    }
}

/// Stops everybody when a thread panics, so that nobody waits for its record.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

fn work(shared: &Shared, codec: &Codec) {
    let _alarm = Alarm(shared);
    loop {
        let mut state = shared.lock();
        let (position, block) = loop {
            if state.stopped {
                return;
            }
            if let Some(next) = state.waiting.pop_front() {
                break next;
            }
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        let record = codec.encode_bytes(&block);
        let taken = size(&block);
        drop(block);
        let added = record.as_ref().map_or(0, |record| size(record));
        let mut state = shared.lock();
        state.bytes = state.bytes.saturating_sub(taken).saturating_add(added);
        state.done.insert(position, record);
        drop(state);
        shared.results.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iac_codec::{ByteCodec, Limits, Parameters};
    use std::time::Duration;

    /// Reverses a block; slow for some, and picky or worse about others.
    struct Reverse;

    impl ByteCodec for Reverse {
        fn name(&self) -> &str {
            "test.reverse"
        }

        fn parameters(&self) -> Parameters {
            Parameters::new()
        }

        fn encode(&self, record: &[u8]) -> iac_codec::Result<Vec<u8>> {
            assert!(record != b"panic", "test");
            if record == b"refuse" {
                return Err(CodecError::encode("test.reverse", "no"));
            }
            if record.len().is_multiple_of(7) {
                std::thread::sleep(Duration::from_micros(300));
            }
            Ok(record.iter().rev().copied().collect())
        }

        fn decode(&self, payload: &[u8], _: &Limits) -> iac_codec::Result<Vec<u8>> {
            self.encode(payload)
        }
    }

    fn compressor(workers: usize, memory: u64) -> Compressor {
        Compressor::new(Codec::from_byte_codec(Reverse), NonZeroUsize::new(workers), memory)
    }

    #[test]
    fn records_come_in_order_whatever_the_threads_do() {
        for (workers, memory) in [(1, 1), (2, 1), (3, 4000), (8, 1 << 20)] {
            let mut compressor = compressor(workers, memory);
            let mut seen = Vec::new();
            let mut hand_out = |position: u64, record: Record| {
                assert_eq!(position, u64::try_from(seen.len()).unwrap());
                seen.push(record.unwrap());
                Ok::<(), ()>(())
            };
            let block =
                |number: usize| format!("{number}:{}", "x".repeat(number % 97)).into_bytes();
            for number in 0..2000 {
                compressor.push(block(number), &mut hand_out).unwrap();
            }
            compressor.finish(&mut hand_out).unwrap();
            assert_eq!(seen.len(), 2000);
            for (number, record) in seen.iter().enumerate() {
                let expected: Vec<u8> = block(number).into_iter().rev().collect();
                assert_eq!(record, &expected);
            }
        }
    }

    #[test]
    fn a_block_that_cannot_be_compressed_is_told_of_in_its_place() {
        for workers in [1, 3] {
            let mut compressor = compressor(workers, 1 << 20);
            let mut failed = None;
            let mut hand_out = |position: u64, record: Record| {
                record.map(|_| ()).map_err(|_| failed = Some(position))
            };
            let mut result = Ok(());
            for number in 0..100 {
                let block = if number == 40 { b"refuse".to_vec() } else { vec![b'a'; number] };
                result = compressor.push(block, &mut hand_out);
                if result.is_err() {
                    break;
                }
            }
            let result = result.and_then(|()| compressor.finish(&mut hand_out));
            assert_eq!((result, failed), (Err(()), Some(40)));
        }
    }

    #[test]
    fn a_codec_that_panics_ends_the_work_and_does_not_hang_it() {
        let mut compressor = compressor(2, 1 << 20);
        let mut hand_out = |_: u64, record: Record| record.map(|_| ()).map_err(|e| e.to_string());
        let mut result = Ok(());
        for number in 0..500 {
            let block = if number == 3 { b"panic".to_vec() } else { vec![b'a'; 50] };
            result = compressor.push(block, &mut hand_out);
            if result.is_err() {
                break;
            }
        }
        let result = result.and_then(|()| compressor.finish(&mut hand_out));
        assert!(result.unwrap_err().contains("panicked"));
    }
}
