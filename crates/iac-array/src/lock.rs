//! Locks of the caller, for object stores that cannot create an object only if there is none.

use std::error::Error;
use std::fmt::Debug;
use std::pin::Pin;

/// What the calls of a lock give: a value in the future, or the caller's own error.
pub type LockFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

/// Keeps writers of one store apart where its object store cannot: a row of a database, a lease of a
/// coordination service, a file on a file system with locks.
///
/// With a lock ([`StoreOptions::lock`](crate::StoreOptions::lock)) every name that must be taken
/// once only (of a version, of a tag) is looked for and written while it is held. It is not held
/// while layers are uploaded. All writers of a store must use the same lock; readers need none.
///
/// A lock that is taken away from a holder that is too slow must give it longer than any request
/// can take: nothing here can stop a request that the object store carries out later.
///
/// ```
/// use std::sync::Arc;
///
/// use iac_array::{LockFuture, PublishGuard, PublishLock};
/// use tokio::sync::{Mutex, OwnedMutexGuard};
///
/// /// For writers that are all in this process.
/// #[derive(Debug, Default)]
/// struct InProcess(Arc<Mutex<()>>);
///
/// struct Held(OwnedMutexGuard<()>);
///
/// impl PublishLock for InProcess {
///     fn acquire<'a>(&'a self, _root: &'a str) -> LockFuture<'a, Box<dyn PublishGuard>> {
///         Box::pin(async {
///             let guard = Arc::clone(&self.0).lock_owned().await;
///             Ok(Box::new(Held(guard)) as Box<dyn PublishGuard>)
///         })
///     }
/// }
///
/// impl PublishGuard for Held {
///     fn release(self: Box<Self>) -> LockFuture<'static, ()> {
///         drop(self.0);
///         Box::pin(async { Ok(()) })
///     }
/// }
/// # let _ = iac_array::StoreOptions::default().lock(Arc::new(InProcess::default()));
/// ```
pub trait PublishLock: Debug + Send + Sync {
    /// Waits until nobody holds the lock of the store whose objects begin with `root`, and takes it.
    fn acquire<'a>(&'a self, root: &'a str) -> LockFuture<'a, Box<dyn PublishGuard>>;
}

/// A lock that is held. One that is dropped without [`release`](Self::release), as when a call is
/// cancelled or a process dies, must become free in the end.
pub trait PublishGuard: Send {
    /// Lets the next writer in.
    fn release(self: Box<Self>) -> LockFuture<'static, ()>;
}
