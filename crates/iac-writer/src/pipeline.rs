//! Encoding on several threads, handed on in order, with bounded memory.
//!
//! The calling thread takes records from their source and writes payloads; threads of this call
//! encode in between, several small records at a time. Nobody waits for one slow record before the
//! budget is used up.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use iac_codec::CodecError;

/// Records are encoded in groups of about so many bytes: a lock costs as much as encoding some
/// hundred.
const GROUP_BYTES: u64 = 64 << 10;
/// Most records of a group, however small they are.
const GROUP_RECORDS: usize = 256;
/// Groups in flight for each thread: enough to go on while one takes long, and few enough to stay
/// in the processor's cache.
const GROUPS_PER_WORKER: usize = 16;
/// What a record takes beside its bytes.
const RECORD_COST: u64 = 128;

/// How much may be done at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Threads that encode.
    pub(crate) workers: usize,
    /// Most bytes of records and payloads in flight, unless a single record has more.
    pub(crate) memory: u64,
    /// Whether taking a record from its source takes memory: not when all are there already.
    pub(crate) counts_records: bool,
}

/// Why encoding ended early.
#[derive(Debug)]
pub(crate) enum Failure<S, E> {
    /// The source of records failed in place of the record of this row.
    Source(u64, S),
    /// The record of this row cannot be encoded.
    Codec(u64, CodecError),
    /// A payload could not be handed on.
    Emit(E),
}

/// Encodes records and hands the payloads on, on the calling thread and in the order of the
/// records. The first failure in that order ends the work, whatever the threads did meanwhile.
///
/// `size` says how many bytes a record has.
pub(crate) fn encode_ordered<R: Send, S, E>(
    records: impl Iterator<Item = Result<R, S>>,
    bounds: Bounds,
    size: impl Fn(&R) -> usize,
    encode: impl Fn(&R) -> Result<Vec<u8>, CodecError> + Sync,
    mut emit: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Failure<S, E>> {
    if bounds.workers <= 1 {
        for (row, record) in (0_u64..).zip(records) {
            let record = record.map_err(|error| Failure::Source(row, error))?;
            let payload = encode(&record).map_err(|error| Failure::Codec(row, error))?;
            drop(record);
            emit(&payload).map_err(Failure::Emit)?;
        }
        return Ok(());
    }
    let shared = Shared::new();
    let worker = || {
        let _alarm = Alarm(&shared);
        while let Some(group) = shared.take() {
            let position = group.position;
            let cost = group.cost;
            shared.put(position, encode_group(group.records, &encode), cost);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..bounds.workers {
            scope.spawn(worker);
        }
        // Whatever happens here, the threads must not wait for it.
        let _stop = Stop(&shared);
        let mut feed =
            Feed { records, bounds, size, first: None, failed: None, ended: false, row: 0 };
        let mut row = 0_u64;
        let mut taken: Option<(Vec<R>, u64)> = None;
        loop {
            let wanted = match &taken {
                Some((_, cost)) => Wanted::Cost(*cost),
                None if feed.ended => Wanted::Nothing,
                None => Wanted::Any,
            };
            match shared.next(bounds, wanted) {
                // What a group costs is known once it was taken from the source.
                Next::Room => match taken.take() {
                    Some((records, cost)) => shared.add(records, cost),
                    None => {
                        taken = feed.next_group();
                        feed.ended = taken.is_none();
                    }
                },
                Next::Done(done) => {
                    for payload in done.payloads {
                        emit(&payload).map_err(Failure::Emit)?;
                        row = row.saturating_add(1);
                    }
                    if let Some(error) = done.error {
                        return Err(Failure::Codec(row, error));
                    }
                }
                Next::End => break,
            }
        }
        match feed.failed {
            Some((row, error)) => Err(Failure::Source(row, error)),
            None => Ok(()),
        }
    })
}

/// The source of records, taken group by group.
struct Feed<I, F, R, S> {
    records: I,
    bounds: Bounds,
    size: F,
    /// A record that did not fit into the last group.
    first: Option<R>,
    failed: Option<(u64, S)>,
    ended: bool,
    row: u64,
}

impl<R, S, I: Iterator<Item = Result<R, S>>, F: Fn(&R) -> usize> Feed<I, F, R, S> {
    fn next_group(&mut self) -> Option<(Vec<R>, u64)> {
        let share = u64::try_from(self.bounds.workers.saturating_mul(4)).unwrap_or(u64::MAX);
        let most = self.bounds.memory.checked_div(share).unwrap_or(0).min(GROUP_BYTES);
        let mut group = Vec::new();
        let (mut bytes, mut cost) = (0_u64, 0_u64);
        while group.len() < GROUP_RECORDS && bytes < most.max(1) {
            let Some(record) = self.next_record() else {
                break;
            };
            let length = u64::try_from((self.size)(&record)).unwrap_or(u64::MAX);
            if !group.is_empty() && bytes.saturating_add(length) > most {
                self.first = Some(record);
                break;
            }
            bytes = bytes.saturating_add(length);
            // While a record is encoded there are two of it: count the payload beforehand.
            let copies = if self.bounds.counts_records { 2 } else { 1 };
            let taken = length.saturating_mul(copies).saturating_add(RECORD_COST);
            cost = cost.saturating_add(taken);
            group.push(record);
        }
        (!group.is_empty()).then_some((group, cost))
    }

    fn next_record(&mut self) -> Option<R> {
        if let Some(record) = self.first.take() {
            return Some(record);
        }
        if self.failed.is_some() {
            return None;
        }
        match self.records.next()? {
            Ok(record) => {
                self.row = self.row.saturating_add(1);
                Some(record)
            }
            Err(error) => {
                self.failed = Some((self.row, error));
                None
            }
        }
    }
}

struct Group<R> {
    position: u64,
    records: Vec<R>,
    cost: u64,
}

/// An encoded group: payloads up to the first record that could not be encoded.
struct Done {
    payloads: Vec<Vec<u8>>,
    error: Option<CodecError>,
}

fn encode_group<R>(
    records: Vec<R>,
    encode: &(impl Fn(&R) -> Result<Vec<u8>, CodecError> + Sync),
) -> Done {
    let mut done = Done { payloads: Vec::with_capacity(records.len()), error: None };
    for record in records {
        match encode(&record) {
            Ok(payload) => done.payloads.push(payload),
            Err(error) => {
                done.error = Some(error);
                break;
            }
        }
    }
    done
}

/// What the calling thread wants room for.
#[derive(Clone, Copy)]
enum Wanted {
    /// A group that is still to be taken from the source.
    Any,
    /// A group of this cost.
    Cost(u64),
    /// The source has ended.
    Nothing,
}

/// What the calling thread does next.
enum Next {
    /// There is room for what it wants.
    Room,
    Done(Done),
    End,
}

struct State<R> {
    waiting: VecDeque<Group<R>>,
    done: BTreeMap<u64, (Done, u64)>,
    added: u64,
    emitted: u64,
    /// Cost of what is added and not handed on.
    cost: u64,
    stopped: bool,
}

struct Shared<R> {
    state: Mutex<State<R>>,
    /// Told of groups to encode, and of the end.
    work: Condvar,
    /// Told of groups that are encoded.
    results: Condvar,
}

impl<R> Shared<R> {
    fn new() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                done: BTreeMap::new(),
                added: 0,
                emitted: 0,
                cost: 0,
                stopped: false,
            }),
            work: Condvar::new(),
            results: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, records: Vec<R>, cost: u64) {
        let mut state = self.lock();
        let position = state.added;
        state.added = state.added.saturating_add(1);
        state.cost = state.cost.saturating_add(cost);
        state.waiting.push_back(Group { position, records, cost });
        drop(state);
        self.work.notify_one();
    }

    /// The next group to encode; nothing at the end.
    fn take(&self) -> Option<Group<R>> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(group) = state.waiting.pop_front() {
                return Some(group);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, position: u64, done: Done, cost: u64) {
        let bytes = done.payloads.iter().fold(0_u64, |sum, payload| {
            let held = u64::try_from(payload.capacity()).unwrap_or(u64::MAX);
            sum.saturating_add(held).saturating_add(RECORD_COST)
        });
        let mut state = self.lock();
        state.cost = state.cost.saturating_sub(cost).saturating_add(bytes);
        state.done.insert(position, (done, bytes));
        drop(state);
        self.results.notify_one();
    }

    /// What to do next on the calling thread: payloads that are due go first, so that they free
    /// their memory.
    fn next(&self, bounds: Bounds, wanted: Wanted) -> Next {
        let most = bounds.workers.saturating_mul(GROUPS_PER_WORKER);
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let mut state = self.lock();
        loop {
            let due = state.emitted;
            if let Some((done, cost)) = state.done.remove(&due) {
                state.emitted = due.saturating_add(1);
                state.cost = state.cost.saturating_sub(cost);
                return Next::Done(done);
            }
            let in_flight = state.added.saturating_sub(state.emitted);
            if state.stopped {
                return Next::End;
            }
            let next = match wanted {
                Wanted::Nothing if in_flight == 0 => return Next::End,
                Wanted::Nothing => None,
                Wanted::Any => Some(1),
                Wanted::Cost(cost) => Some(cost),
            };
            let fits = |cost: u64| {
                in_flight == 0
                    || (in_flight < most && state.cost.saturating_add(cost) <= bounds.memory)
            };
            if next.is_some_and(fits) {
                return Next::Room;
            }
            state = self.results.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.work.notify_all();
        self.results.notify_all();
    }
}

/// Stops the threads when the calling one is done, well or not.
struct Stop<'a, R>(&'a Shared<R>);

impl<R> Drop for Stop<'_, R> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Stops everybody when a thread panics, so that nobody waits for its result; the scope then hands
/// the panic on.
struct Alarm<'a, R>(&'a Shared<R>);

impl<R> Drop for Alarm<'_, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    fn bounds(workers: usize, memory: u64) -> Bounds {
        Bounds { workers, memory, counts_records: true }
    }

    fn encode_bytes<R: AsRef<[u8]> + Send, S, E>(
        records: impl Iterator<Item = Result<R, S>>,
        bounds: Bounds,
        encode: impl Fn(&[u8]) -> Result<Vec<u8>, CodecError> + Sync,
        emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), Failure<S, E>> {
        let size = |record: &R| record.as_ref().len();
        encode_ordered(records, bounds, size, |record| encode(record.as_ref()), emit)
    }

    fn reversed(record: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(record.iter().rev().copied().collect())
    }

    fn records(count: usize) -> impl Iterator<Item = Result<Vec<u8>, String>> {
        (0..count).map(|row| Ok(format!("{row}:{}", "x".repeat(row % 301)).into_bytes()))
    }

    #[test]
    fn payloads_come_in_order_whatever_the_threads_do() {
        for (workers, memory) in [(1, 1), (2, 1), (3, 5_000), (8, 1 << 20)] {
            let mut seen = Vec::new();
            let slow = |record: &[u8]| {
                if record.len().is_multiple_of(50) {
                    std::thread::sleep(Duration::from_micros(300));
                }
                reversed(record)
            };
            encode_bytes(records(3000), bounds(workers, memory), slow, |payload| {
                seen.push(payload.to_vec());
                Ok::<(), ()>(())
            })
            .unwrap();
            let expected: Vec<Vec<u8>> =
                records(3000).map(|record| reversed(&record.unwrap()).unwrap()).collect();
            assert_eq!(seen, expected, "{workers} workers");
        }
    }

    #[test]
    fn the_first_failure_in_order_ends_the_work() {
        for workers in [1, 2, 5] {
            let mut emitted = 0;
            let picky = |record: &[u8]| {
                if record.starts_with(b"1700:") {
                    return Err(CodecError::encode("picky", "no"));
                }
                if record.starts_with(b"1500:") {
                    std::thread::sleep(Duration::from_millis(5));
                    return Err(CodecError::encode("picky", "slow no"));
                }
                reversed(record)
            };
            // The source fails soon after, but behind the record.
            let source = records(1720).chain([Err("gone".to_owned())]);
            let failure = encode_bytes(source, bounds(workers, 1 << 20), picky, |_| {
                emitted += 1;
                Ok::<(), ()>(())
            })
            .unwrap_err();
            assert!(matches!(&failure, Failure::Codec(1500, _)), "{failure:?}");
            assert_eq!(emitted, 1500);
        }
    }

    #[test]
    fn a_source_that_fails_is_reported_behind_the_records_before_it() {
        for workers in [1, 3] {
            let mut emitted = 0;
            let source = records(700).chain([Err("gone".to_owned())]).chain(records(5));
            let failure = encode_bytes(source, bounds(workers, 1 << 16), reversed, |_| {
                emitted += 1;
                Ok::<(), ()>(())
            })
            .unwrap_err();
            assert!(matches!(&failure, Failure::Source(700, error) if error == "gone"));
            assert_eq!(emitted, 700);
        }
    }

    #[test]
    fn a_receiver_that_fails_ends_an_endless_source() {
        for workers in [1, 3] {
            let endless = std::iter::repeat_with(|| Ok::<_, ()>(b"abc"));
            let mut left = 1000;
            let failure = encode_bytes(endless, bounds(workers, 1 << 16), reversed, |_| {
                left -= 1;
                if left == 0 { Err("full") } else { Ok(()) }
            })
            .unwrap_err();
            assert!(matches!(failure, Failure::Emit("full")));
        }
    }

    #[test]
    fn memory_in_flight_stays_within_the_budget_and_a_larger_record_still_passes() {
        let taken = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        let sizes = [30_000_usize, 10_000, 40_000, 900_000, 20_000, 5_000];
        let source = (0..600).map(|row| {
            let size = sizes[row % sizes.len()];
            let now = taken.fetch_add(size as u64, Ordering::SeqCst) + size as u64;
            most.fetch_max(now, Ordering::SeqCst);
            Ok::<_, ()>(vec![1_u8; size])
        });
        let mut at = 0;
        encode_bytes(
            source,
            bounds(4, 1 << 20),
            |record| Ok(record.to_vec()),
            |payload| {
                assert_eq!(payload.len(), sizes[at % sizes.len()]);
                at += 1;
                taken.fetch_sub(payload.len() as u64, Ordering::SeqCst);
                Ok::<(), ()>(())
            },
        )
        .unwrap();
        // Besides, a group was taken that does not fit yet, and a record that did not fit into it.
        assert!(most.into_inner() <= (1 << 20) + 900_000 + (64 << 10));
    }

    #[test]
    fn a_panic_in_a_codec_is_handed_on_not_waited_for() {
        let result = std::panic::catch_unwind(|| {
            encode_bytes(
                records(500),
                bounds(3, 1 << 16),
                |record| {
                    assert!(!record.starts_with(b"300:"), "test");
                    reversed(record)
                },
                |_| Ok::<(), ()>(()),
            )
        });
        assert!(result.is_err());
    }
}
