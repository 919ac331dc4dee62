//! How objects are read.

use std::num::NonZeroUsize;
use std::time::Duration;

/// How a store is talked to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoreOptions {
    pub(crate) retries: usize,
    pub(crate) retry_time: Duration,
    pub(crate) first_wait: Duration,
    pub(crate) stall_time: Duration,
    pub(crate) settings: Vec<(String, String)>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            retries: 10,
            retry_time: Duration::from_secs(180),
            first_wait: Duration::from_millis(100),
            stall_time: Duration::from_secs(30),
            settings: Vec::new(),
        }
    }
}

impl StoreOptions {
    /// How often a request that failed for a passing reason is repeated, and for how long that may
    /// go on in all. Default: 10 times within 180 seconds.
    #[must_use]
    pub fn retries(mut self, times: usize, within: Duration) -> Self {
        self.retries = times;
        self.retry_time = within;
        self
    }

    /// The wait before the first repetition; later ones grow. Default: 100 milliseconds.
    #[must_use]
    pub fn first_wait(mut self, wait: Duration) -> Self {
        self.first_wait = wait;
        self
    }

    /// How long a server may be silent before a request counts as failed. Default: 30 seconds.
    #[must_use]
    pub fn stall_time(mut self, time: Duration) -> Self {
        self.stall_time = time;
        self
    }

    /// A setting of the store, by the names that the crate `object_store` knows
    /// (`aws_access_key_id`, `aws_endpoint`, `google_service_account`, `azure_storage_account_name`,
    /// `allow_http`, ...). It wins over the environment.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }
}

/// How objects are read.
///
/// ```
/// use iac_reader::object::ObjectOptions;
///
/// let options = ObjectOptions::default().join_gap(1 << 20).in_flight(std::num::NonZeroUsize::MIN);
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
pub struct ObjectOptions {
    pub(crate) join_gap: u64,
    pub(crate) request_bytes: u64,
    pub(crate) in_flight: NonZeroUsize,
    pub(crate) first_read: Option<u64>,
    pub(crate) max_open_bytes: u64,
    pub(crate) max_whole_bytes: u64,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            join_gap: 64 << 10,
            request_bytes: 8 << 20,
            in_flight: NonZeroUsize::MIN.saturating_add(31),
            first_read: None,
            max_open_bytes: 256 << 20,
            max_whole_bytes: 64 << 20,
        }
    }
}

impl ObjectOptions {
    /// Bytes between two stretches that are fetched along rather than making a request of their
    /// own. Default: 64 KiB.
    #[must_use]
    pub fn join_gap(mut self, bytes: u64) -> Self {
        self.join_gap = bytes;
        self
    }

    /// Most bytes of one request; longer stretches are fetched in several at once. Default: 8 MiB,
    /// at least 4 KiB.
    #[must_use]
    pub fn request_bytes(mut self, bytes: u64) -> Self {
        self.request_bytes = bytes.max(4 << 10);
        self
    }

    /// Most requests for one object that are under way at once, whoever asks. Default: 32.
    #[must_use]
    pub fn in_flight(mut self, requests: NonZeroUsize) -> Self {
        self.in_flight = requests;
        self
    }

    /// Bytes of the first request, which should bring header and tables. Default (`None`): what the
    /// same object needed when this process opened it before, else 256 KiB.
    #[must_use]
    pub fn first_read(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.first_read = bytes.into();
        self
    }

    /// Most bytes of header and tables that are fetched when an object is opened. Larger tables are
    /// fetched when they are needed. Default: 256 MiB.
    #[must_use]
    pub fn max_open_bytes(mut self, bytes: u64) -> Self {
        self.max_open_bytes = bytes;
        self
    }

    /// Most bytes of an object that is fetched as a whole because its server ignores ranges.
    /// Default: 64 MiB; 0 refuses such servers.
    #[must_use]
    pub fn max_whole_bytes(mut self, bytes: u64) -> Self {
        self.max_whole_bytes = bytes;
        self
    }
}
