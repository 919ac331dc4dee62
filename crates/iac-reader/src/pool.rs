//! The threads that large reads are split over.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::{Scope, ThreadPool, ThreadPoolBuilder, Yield};

use crate::per_process::PerProcess;

static POOL: PerProcess<Own> = PerProcess::new();

/// How long a thread looks out for work, or for the end of a call, before it sleeps. Waking it takes
/// about twice as long on virtual machines, a part of a whole batch of short records.
const LINGER: Duration = Duration::from_micros(50);
/// Turns of a waiting loop between two looks.
const TURNS: usize = 16;

/// A pool of this crate.
struct Own {
    pool: ThreadPool,
    /// Threads that a call may use, itself included: one for each core.
    threads: usize,
}

thread_local! {
    static LINGERS: Cell<bool> = const { Cell::new(false) };
}

/// Who does the work of a call: the calling thread, and perhaps a pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workers {
    /// At most so many threads; absent: all cores.
    pub(crate) limit: Option<NonZeroUsize>,
    /// The caller's pool; absent: the one that the caller is in, or this crate's own.
    pub(crate) pool: Option<Arc<ThreadPool>>,
}

impl Workers {
    /// Threads that a call may use, itself included.
    pub(crate) fn count(&self) -> usize {
        if self.limit.is_some_and(|limit| limit.get() == 1) {
            return 1;
        }
        let available = match &self.pool {
            Some(pool) => pool.current_num_threads(),
            None if rayon::current_thread_index().is_some() => rayon::current_num_threads(),
            None => own_pool().map_or(1, |own| own.threads),
        };
        self.limit.map_or(available, |limit| available.min(limit.get())).max(1)
    }

    /// Does `work` for each job on so many threads, the calling one among them. Whoever is free
    /// takes the next job, so that a thread that wakes late holds nobody up. The results come in
    /// the order of the jobs.
    pub(crate) fn run<J: Send, R: Send>(
        &self,
        threads: usize,
        jobs: Vec<J>,
        work: impl Fn(J) -> R + Sync,
    ) -> Vec<R> {
        let threads = threads.min(jobs.len());
        if threads <= 1 {
            return jobs.into_iter().map(work).collect();
        }
        let mut results: Vec<Option<R>> = Vec::new();
        results.resize_with(jobs.len(), || None);
        let queue = Mutex::new(jobs.into_iter().zip(&mut results));
        let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work_off = || {
            while let Some((job, result)) = take() {
                *result = Some(work(job));
            }
        };
        let helpers = threads.saturating_sub(1);
        let lingers = self.takes_all_of_own_pool(helpers);
        let ended = AtomicUsize::new(0);
        self.scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|_| {
                    work_off();
                    ended.fetch_add(1, Ordering::Release);
                    if lingers && !LINGERS.get() {
                        rayon::spawn(linger);
                    }
                });
            }
            work_off();
            wait_briefly(|| ended.load(Ordering::Acquire) == helpers);
        });
        results.into_iter().flatten().collect()
    }

    /// Whether so many helpers are all threads of this crate's own pool. With fewer of them, one
    /// that lingers would have another one woken.
    fn takes_all_of_own_pool(&self, helpers: usize) -> bool {
        self.pool.is_none()
            && rayon::current_thread_index().is_none()
            && own_pool().is_some_and(|own| own.pool.current_num_threads() == helpers)
    }

    /// Runs `work` on the calling thread; what it spawns runs in the pool.
    pub(crate) fn scope<'scope, R>(&self, work: impl FnOnce(&Scope<'scope>) -> R) -> R {
        match &self.pool {
            Some(pool) => pool.in_place_scope(work),
            None if rayon::current_thread_index().is_some() => rayon::in_place_scope(work),
            None => match own_pool() {
                Some(own) => own.pool.in_place_scope(work),
                None => rayon::in_place_scope(work),
            },
        }
    }
}

/// Keeps a thread of the pool awake for a while, doing what comes up.
fn linger() {
    LINGERS.set(true);
    let mut begun = Instant::now();
    loop {
        match rayon::yield_now() {
            Some(Yield::Executed) => begun = Instant::now(),
            Some(Yield::Idle) if begun.elapsed() < LINGER => turn(),
            _ => break,
        }
    }
    LINGERS.set(false);
}

/// Waits for what is about to be over; sleeping is left to others.
fn wait_briefly(is_over: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_over() {
        if begun.elapsed() >= LINGER {
            return;
        }
        turn();
    }
    // A thread says that it has ended just before the pool takes note of it.
    turn();
}

/// Passes a moment, and lets others have the processor if they want it.
fn turn() {
    for _ in 0..TURNS {
        std::hint::spin_loop();
    }
    std::thread::yield_now();
}

/// This process's pool: threads do not survive a fork, so a child makes its own. The calling thread
/// works too, so there is one thread less than there are cores.
fn own_pool() -> Option<&'static Own> {
    POOL.get(|| {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let builder = ThreadPoolBuilder::new()
            .num_threads(threads.saturating_sub(1).max(1))
            .thread_name(|n| format!("iac-reader-{n}"));
        Some(Own { pool: builder.build().ok()?, threads })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(workers: &Workers, threads: usize, jobs: u64) {
        let found = workers.run(threads, (0..jobs).collect(), |job| job ^ 5);
        assert!(found.into_iter().eq((0..jobs).map(|job| job ^ 5)));
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs_call_after_call() {
        let workers = Workers::default();
        let threads = workers.count();
        for call in 0..3000 {
            squares(&workers, threads, 1 + call % 9);
            if call % 500 == 0 {
                // Long enough for everybody to go to sleep.
                std::thread::sleep(LINGER * 10);
            }
        }
    }

    #[test]
    fn callers_share_the_pool() {
        std::thread::scope(|scope| {
            for threads in [1, 2, 3, 5, 8] {
                scope.spawn(move || {
                    for _ in 0..300 {
                        squares(&Workers::default(), threads, 7);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_in_a_job_is_handed_on_and_the_pool_goes_on() {
        let workers = Workers::default();
        for _ in 0..20 {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                workers.run(4, (0..64).collect(), |job: u64| assert_ne!(job, 40, "test"))
            }));
            assert!(panicked.is_err());
            squares(&workers, 4, 64);
        }
    }

    #[test]
    fn a_call_within_a_call_is_served() {
        let workers = Workers::default();
        for _ in 0..200 {
            let found = workers.run(3, vec![3_u64, 4, 5], |jobs| {
                squares(&Workers::default(), 3, jobs);
                jobs
            });
            assert_eq!(found, [3, 4, 5]);
        }
    }
}
