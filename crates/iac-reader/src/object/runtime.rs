//! The runtime that does the I/O, one for each process.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::per_process::PerProcess;

static RUNTIME: PerProcess<Runtime> = PerProcess::new();
/// More threads than these bring nothing: they only wait, decrypt and copy.
const MOST_THREADS: usize = 4;

fn runtime() -> io::Result<&'static Runtime> {
    let mut failed = None;
    let made = RUNTIME.get(|| {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.min(MOST_THREADS))
            .thread_name("iac-object")
            .enable_all()
            .build();
        runtime.map_err(|error| failed = Some(error)).ok()
    });
    made.ok_or_else(|| {
        failed.unwrap_or_else(|| io::Error::other("too many generations of forked processes"))
    })
}

/// Waits for a future on the calling thread, while this process's runtime for object stores does
/// its I/O. Works within another runtime too, whose thread is blocked meanwhile.
///
/// # Errors
///
/// When the runtime cannot be made.
pub fn block_on<F>(future: F) -> io::Result<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = runtime()?;
    if Handle::try_current().is_err() {
        return Ok(runtime.block_on(future));
    }
    // A thread that runs tasks must not wait for another runtime; one that is made for it may.
    std::thread::scope(|scope| {
        let waiting =
            std::thread::Builder::new().spawn_scoped(scope, || runtime.block_on(future))?;
        Ok(waiting.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Runs a future on this process's runtime, wherever it is waited for. Dropping the returned one
/// ends it.
pub(crate) async fn run<T: Send + 'static>(
    future: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    let mut task = Ending(runtime()?.spawn(future));
    match (&mut task.0).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Ends a task with the one who waits for it.
struct Ending<T>(JoinHandle<T>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
