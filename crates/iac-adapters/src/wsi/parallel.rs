//! Work on several threads, in order, without a pool that would outlive the call.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use iac_ops::ordered::{Bounds, for_each_ordered};
use iac_ops::{OpsError, Progress};

use crate::error::Result;

/// Does `work` for each job on up to `workers` threads, the calling one among them; the results
/// come in the order of the jobs. Whoever is free takes the next job.
pub(crate) fn in_parallel<J: Send, R: Send>(
    workers: NonZeroUsize,
    jobs: Vec<J>,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    let threads = workers.get().min(jobs.len());
    if threads <= 1 {
        return jobs.into_iter().map(work).collect();
    }
    let mut results: Vec<Option<R>> = Vec::new();
    results.resize_with(jobs.len(), || None);
    {
        let queue = Mutex::new(jobs.into_iter().zip(&mut results));
        let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work_off = || {
            while let Some((job, result)) = take() {
                *result = Some(work(job));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // A thread that cannot be had leaves the work to the others.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work_off);
            }
            work_off();
        });
    }
    results.into_iter().flatten().collect()
}

/// Does work for items on several threads and hands the results on in order, with so many of them in
/// memory that their costs stay within the bounds.
pub(crate) fn in_order<T: Send, R: Send>(
    items: impl Iterator<Item = T> + Send,
    bounds: Bounds,
    progress: &dyn Progress,
    cost: u64,
    work: impl Fn(T) -> Result<R> + Sync,
    mut emit: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    let mut failure = None;
    let result = for_each_ordered(
        items,
        bounds,
        progress,
        |_| cost,
        |item| Ok(work(item)),
        |result| {
            result.and_then(&mut emit).map_err(|error| {
                failure = Some(error);
                OpsError::Cancelled
            })
        },
    );
    match (failure, result) {
        (Some(error), _) => Err(error),
        (None, result) => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_jobs() {
        for workers in [1, 2, 5] {
            let workers = NonZeroUsize::new(workers).unwrap();
            let results = in_parallel(workers, (0..100_u32).collect(), |job| job * 2);
            assert_eq!(results, (0..100).map(|job| job * 2).collect::<Vec<_>>());
        }
    }
}
