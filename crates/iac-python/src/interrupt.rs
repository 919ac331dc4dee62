//! Long work without the interpreter's lock, which Ctrl-C ends.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use iatrocache::{Cancel, Progress};
use pyo3::prelude::*;

/// How long Ctrl-C may go unnoticed.
const LOOK: Duration = Duration::from_millis(50);

/// Says that the work has ended, however it did.
struct Ended<'a>(&'a (Mutex<bool>, Condvar));

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Runs work on a thread of its own, while this one looks for signals, as only Python's main thread
/// can. A signal whose handler raises sets the flag that the work is given; when the work has
/// ended, the exception goes on.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> T + Send,
) -> PyResult<T> {
    let cancel = Cancel::new();
    let ended = (Mutex::new(false), Condvar::new());
    py.detach(|| {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _ended = Ended(&ended);
                work(&cancel)
            });
            let mut raised = None;
            loop {
                let guard = ended.0.lock().unwrap_or_else(PoisonError::into_inner);
                let (done, _) = ended
                    .1
                    .wait_timeout_while(guard, LOOK, |done| !*done)
                    .unwrap_or_else(PoisonError::into_inner);
                let done = *done;
                if done {
                    break;
                }
                if raised.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    cancel.cancel();
                    raised = Some(error);
                }
            }
            match (worker.join(), raised) {
                (_, Some(error)) => Err(error),
                (Ok(result), None) => Ok(result),
                (Err(panic), None) => std::panic::resume_unwind(panic),
            }
        })
    })
}

/// Tells a function of Python how far the work is, and passes a wish to stop on to the work.
pub(crate) struct Watch<'a> {
    cancel: &'a Cancel,
    tell: Option<&'a Py<PyAny>>,
    state: Mutex<Watched>,
}

struct Watched {
    what: String,
    total: Option<u64>,
    done: u64,
    told: Instant,
}

/// How often progress is told.
const TELL: Duration = Duration::from_millis(100);

impl<'a> Watch<'a> {
    pub(crate) fn new(cancel: &'a Cancel, tell: Option<&'a Py<PyAny>>) -> Self {
        let state = Watched { what: String::new(), total: None, done: 0, told: Instant::now() };
        Self { cancel, tell, state: Mutex::new(state) }
    }

    fn tell(&self, what: &str, done: u64, total: Option<u64>) {
        let Some(tell) = self.tell else { return };
        // A function that raises stops the work; its exception is printed, for there is no caller
        // to give it to.
        Python::attach(|py| {
            if let Err(error) = tell.call1(py, (what, done, total)) {
                error.print(py);
                self.cancel.cancel();
            }
        });
    }
}

impl Progress for Watch<'_> {
    fn begin(&self, what: &str, total: Option<u64>) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            what.clone_into(&mut state.what);
            (state.total, state.done, state.told) = (total, 0, Instant::now());
        }
        self.tell(what, 0, total);
    }

    fn advance(&self, units: u64) {
        let news = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.done = state.done.saturating_add(units);
            let due = state.told.elapsed() >= TELL || Some(state.done) == state.total;
            due.then(|| {
                state.told = Instant::now();
                (state.what.clone(), state.done, state.total)
            })
        };
        if let Some((what, done, total)) = news {
            self.tell(&what, done, total);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_set()
    }
}
