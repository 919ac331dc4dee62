//! Work on several threads whose results come in order, a bounded number of them at a time.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

struct State<I, R> {
    inputs: I,
    taken: u64,
    emitted: u64,
    done: BTreeMap<u64, R>,
    ended: bool,
    stopped: bool,
}

struct Shared<I, R> {
    state: Mutex<State<I, R>>,
    changed: Condvar,
}

impl<I, R> Shared<I, R> {
    fn lock(&self) -> MutexGuard<'_, State<I, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes everybody when a thread ends in a panic or the receiver fails, so that nobody waits.
struct Stop<'a, I, R>(&'a Shared<I, R>);

impl<I, R> Drop for Stop<'_, I, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().stopped = true;
        }
        self.0.changed.notify_all();
    }
}

/// Ends the work with the calling thread's part of it, however that ends.
struct Finish<'a, I, R>(&'a Shared<I, R>);

impl<I, R> Drop for Finish<'_, I, R> {
    fn drop(&mut self) {
        self.0.lock().stopped = true;
        self.0.changed.notify_all();
    }
}

/// Does `work` for each input on so many threads, and hands results to `emit` on the calling one,
/// in the order of the inputs. At most two results for each thread are there at once.
pub(crate) fn for_each_ordered<T, R: Send, E>(
    inputs: impl Iterator<Item = T> + Send,
    workers: usize,
    work: impl Fn(T) -> R + Sync,
    mut emit: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let most = u64::try_from(workers.max(1)).unwrap_or(u64::MAX).saturating_mul(2);
    let state = State {
        inputs: inputs.fuse(),
        taken: 0,
        emitted: 0,
        done: BTreeMap::new(),
        ended: false,
        stopped: false,
    };
    let shared = Shared { state: Mutex::new(state), changed: Condvar::new() };
    let worker = || {
        let _stop = Stop(&shared);
        loop {
            let (position, input) = {
                let mut state = shared.lock();
                while !state.stopped
                    && !state.ended
                    && state.taken.saturating_sub(state.emitted) >= most
                {
                    state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.stopped || state.ended {
                    return;
                }
                let Some(input) = state.inputs.next() else {
                    state.ended = true;
                    shared.changed.notify_all();
                    return;
                };
                let position = state.taken;
                state.taken = position.saturating_add(1);
                (position, input)
            };
            let result = work(input);
            shared.lock().done.insert(position, result);
            shared.changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(worker);
        }
        let _finish = Finish(&shared);
        loop {
            let result = {
                let mut state = shared.lock();
                loop {
                    let due = state.emitted;
                    if let Some(result) = state.done.remove(&due) {
                        state.emitted = due.saturating_add(1);
                        break Some(result);
                    }
                    if state.stopped || (state.ended && state.emitted == state.taken) {
                        break None;
                    }
                    state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            };
            shared.changed.notify_all();
            let Some(result) = result else {
                return Ok(());
            };
            emit(result)?;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_failures_end_the_work() {
        for workers in [1, 2, 5] {
            let mut seen = Vec::new();
            let slow = |n: u64| {
                if n.is_multiple_of(3) {
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
                n * 2
            };
            for_each_ordered(0..200, workers, slow, |n| {
                seen.push(n);
                Ok::<(), ()>(())
            })
            .unwrap();
            assert_eq!(seen, (0..200).map(|n| n * 2).collect::<Vec<_>>());
            let stopped =
                for_each_ordered(0.., workers, slow, |n| if n == 40 { Err(n) } else { Ok(()) });
            assert_eq!(stopped, Err(40));
        }
    }

    #[test]
    fn a_panic_is_handed_on_not_waited_for() {
        let work = |n: u32| {
            assert!(n != 7, "test");
            n
        };
        let result =
            std::panic::catch_unwind(|| for_each_ordered(0..100, 3, work, |_| Ok::<(), ()>(())));
        assert!(result.is_err());
    }
}
