//! The threads that large reads are split over.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

use crate::per_process::PerProcess;

static POOL: PerProcess<ThreadPool> = PerProcess::new();

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
            None => own_pool().map_or(1, ThreadPool::current_num_threads),
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
        self.scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| work_off());
            }
            work_off();
        });
        results.into_iter().flatten().collect()
    }

    /// Runs `work` on the calling thread; what it spawns runs in the pool.
    pub(crate) fn scope<'scope, R>(&self, work: impl FnOnce(&Scope<'scope>) -> R) -> R {
        match &self.pool {
            Some(pool) => pool.in_place_scope(work),
            None if rayon::current_thread_index().is_some() => rayon::in_place_scope(work),
            None => match own_pool() {
                Some(pool) => pool.in_place_scope(work),
                None => rayon::in_place_scope(work),
            },
        }
    }
}

/// This process's pool: threads do not survive a fork, so a child makes its own.
fn own_pool() -> Option<&'static ThreadPool> {
    POOL.get(|| ThreadPoolBuilder::new().thread_name(|n| format!("iac-reader-{n}")).build().ok())
}
