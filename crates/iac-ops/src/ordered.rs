//! Work that is done by several threads and handed on in order, with bounded memory.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::progress::{Progress, check_cancelled};

/// Items that are taken but not handed on yet, for each thread: enough to keep threads busy while
/// one item takes long.
const AHEAD_PER_WORKER: usize = 16;

/// How much may be done at once.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most threads; absent: all cores.
    pub workers: Option<NonZeroUsize>,
    /// Most cost of items in flight, unless a single one costs more.
    pub cost: u64,
}

impl Bounds {
    pub(crate) fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.workers.map_or(cores, NonZeroUsize::get)
    }
}

/// Does `work` for each item and hands the results to `emit` on the calling thread, in the order
/// of the items. `cost` says what an item and its result take of the budget.
///
/// The first error, in the order of the items, ends the work.
///
/// # Errors
///
/// Whatever `work` and `emit` return, and [`OpsError::Cancelled`](crate::OpsError::Cancelled).
pub fn for_each_ordered<T, R, I, W>(
    items: I,
    bounds: Bounds,
    progress: &dyn Progress,
    cost: impl Fn(&T) -> u64 + Sync,
    work: W,
    mut emit: impl FnMut(R) -> Result<()>,
) -> Result<()>
where
    I: Iterator<Item = T> + Send,
    T: Send,
    R: Send,
    W: Fn(T) -> Result<R> + Sync,
{
    let threads = bounds.threads();
    if threads <= 1 {
        for item in items {
            check_cancelled(progress)?;
            emit(work(item)?)?;
        }
        return Ok(());
    }
    let most = threads.saturating_mul(AHEAD_PER_WORKER);
    let shared = Shared {
        state: Mutex::new(State {
            items,
            held: None,
            taken: 0,
            emitted: 0,
            cost: 0,
            exhausted: false,
            stopped: false,
            done: BTreeMap::new(),
        }),
        changed: Condvar::new(),
    };
    let worker = || {
        let _alarm = Alarm(&shared);
        while let Some((position, item, cost)) = shared.take(bounds.cost, most, &cost) {
            let result = work(item);
            shared.put(position, result, cost);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(worker);
        }
        // Whatever happens here, the workers must not wait for it.
        let _alarm = Stop(&shared);
        while let Some(result) = shared.next() {
            check_cancelled(progress)?;
            emit(result?)?;
        }
        Ok(())
    })
}

struct State<T, R, I> {
    items: I,
    /// An item that was too expensive to begin so far, with its cost.
    held: Option<(T, u64)>,
    taken: u64,
    emitted: u64,
    /// Cost of what is taken and not emitted.
    cost: u64,
    exhausted: bool,
    stopped: bool,
    done: BTreeMap<u64, (Result<R>, u64)>,
}

struct Shared<T, R, I> {
    state: Mutex<State<T, R, I>>,
    changed: Condvar,
}

impl<T, R, I: Iterator<Item = T>> Shared<T, R, I> {
    fn lock(&self) -> MutexGuard<'_, State<T, R, I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next item, once the budget allows it; nothing when there are no more.
    fn take(
        &self,
        budget: u64,
        most: usize,
        cost: &(impl Fn(&T) -> u64 + Sync),
    ) -> Option<(u64, T, u64)> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if state.held.is_none() && !state.exhausted {
                match state.items.next() {
                    Some(item) => {
                        let cost = cost(&item);
                        state.held = Some((item, cost));
                    }
                    None => {
                        state.exhausted = true;
                        self.changed.notify_all();
                    }
                }
            }
            let (_, needed) = state.held.as_ref()?;
            let in_flight = state.taken.saturating_sub(state.emitted);
            let fits = in_flight < most && state.cost.saturating_add(*needed) <= budget;
            if (in_flight == 0 || fits)
                && let Some((item, cost)) = state.held.take()
            {
                let position = state.taken;
                state.taken = state.taken.saturating_add(1);
                state.cost = state.cost.saturating_add(cost);
                return Some((position, item, cost));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, position: u64, result: Result<R>, cost: u64) {
        let mut state = self.lock();
        state.done.insert(position, (result, cost));
        self.changed.notify_all();
    }

    /// The next result in order; nothing when all were handed on, or a worker died.
    fn next(&self) -> Option<Result<R>> {
        let mut state = self.lock();
        loop {
            let position = state.emitted;
            if let Some((result, cost)) = state.done.remove(&position) {
                state.emitted = state.emitted.saturating_add(1);
                state.cost = state.cost.saturating_sub(cost);
                self.changed.notify_all();
                return Some(result);
            }
            let all = state.exhausted && state.held.is_none() && state.emitted == state.taken;
            if all || state.stopped {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }
}

/// Stops everybody when the handing on ends, well or not.
struct Stop<'a, T, R, I: Iterator<Item = T>>(&'a Shared<T, R, I>);

impl<T, R, I: Iterator<Item = T>> Drop for Stop<'_, T, R, I> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Stops everybody when a worker panics, so that nobody waits for its result; the scope then
/// hands the panic on.
struct Alarm<'a, T, R, I: Iterator<Item = T>>(&'a Shared<T, R, I>);

impl<T, R, I: Iterator<Item = T>> Drop for Alarm<'_, T, R, I> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::OpsError;
    use crate::progress::{Cancel, NoProgress};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn bounds(workers: usize, cost: u64) -> Bounds {
        Bounds { workers: NonZeroUsize::new(workers), cost }
    }

    #[test]
    fn results_come_in_order_whatever_the_threads_do() {
        for workers in [1, 2, 7] {
            let mut seen = Vec::new();
            for_each_ordered(
                0..500_u64,
                bounds(workers, 10),
                &NoProgress,
                |item| item % 13,
                |item| {
                    if item % 50 == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                    Ok(item * 2)
                },
                |result| {
                    seen.push(result);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(seen, (0..500).map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_budget_bounds_what_is_in_flight_and_a_single_large_item_still_passes() {
        let in_flight = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        for_each_ordered(
            [3_u64, 3, 3, 100, 3, 3, 3].into_iter(),
            bounds(4, 6),
            &NoProgress,
            |item| *item,
            |item| {
                let now = in_flight.fetch_add(item, Ordering::SeqCst) + item;
                most.fetch_max(now, Ordering::SeqCst);
                Ok(item)
            },
            |item| {
                in_flight.fetch_sub(item, Ordering::SeqCst);
                Ok(())
            },
        )
        .unwrap();
        // What is handed over is freed just before `emit` sees it.
        assert!(most.into_inner() <= 106);
    }

    #[test]
    fn the_first_error_in_order_ends_the_work() {
        for workers in [1, 4] {
            let mut emitted = Vec::new();
            let error = for_each_ordered(
                0..100_u64,
                bounds(workers, 1 << 20),
                &NoProgress,
                |_| 1,
                |item| {
                    if item >= 20 {
                        return Err(OpsError::usage(format!("{item}")));
                    }
                    std::thread::sleep(std::time::Duration::from_micros(200));
                    Ok(item)
                },
                |item| {
                    emitted.push(item);
                    Ok(())
                },
            )
            .unwrap_err();
            assert_eq!(error.to_string(), "20");
            assert_eq!(emitted.len(), 20);
        }
    }

    #[test]
    fn cancelled_work_ends() {
        let cancel = Cancel::new();
        let mut emitted = 0;
        let error = for_each_ordered(
            0..u64::MAX,
            bounds(3, 100),
            &cancel,
            |_| 1,
            Ok,
            |_| {
                emitted += 1;
                if emitted == 10 {
                    cancel.cancel();
                }
                Ok(())
            },
        )
        .unwrap_err();
        assert!(error.is_cancelled());
        assert_eq!(emitted, 10);
    }

    #[test]
    fn a_panic_in_a_worker_is_handed_on_not_waited_for() {
        let result = std::panic::catch_unwind(|| {
            for_each_ordered(
                0..100_u64,
                bounds(3, 100),
                &NoProgress,
                |_| 1,
                |item| {
                    assert!(item != 50, "test");
                    Ok(item)
                },
                |_| Ok(()),
            )
        });
        assert!(result.is_err());
    }
}
