//! Packs in object stores and on web servers.
//!
//! [`ObjectLocation`] says where an object is, by a URL (`s3://`, `gs://`, `az://`, `http(s)://`,
//! `file://`) or in a store of the caller's own. [`ObjectSource`] reads it: one speculative request
//! brings header and tables, batches of records become sorted and joined ranges, of which a bounded
//! number is under way at once. Everything above a [`ByteSource`](crate::ByteSource) works
//! unchanged.
//!
//! ```no_run
//! use iac_reader::object::ObjectOptions;
//! use iac_reader::{PackReader, ReadOptions};
//!
//! let url = "s3://cohort/slide.tiles.iac";
//! let pack = PackReader::open_url(url, &ReadOptions::default(), &ObjectOptions::default())?;
//! let batch = pack.read_rows(&[12, 7, 12])?;
//! # Ok::<(), iac_reader::ReadError>(())
//! ```
//!
//! # What is certain
//!
//! - An object is pinned when it is opened, by its entity tag, else by its time of modification,
//!   and by its size. When it is replaced or deleted afterwards, reads end in an error, and never
//!   give bytes of two objects. A local file stays open, so its reader goes on with what it opened.
//! - Each answer must be the range that was asked for, to the byte. Records are compared with their
//!   checksums, unless that is switched off.
//! - Requests that fail for a passing reason (overload, a lost connection) are repeated by the
//!   crate `object_store`, as [`StoreOptions::retries`] says.
//!
//! # Threads, asynchronous callers, forks
//!
//! All I/O is done by one small runtime of this process, made on first use. Blocking calls work
//! from any thread, also from within another runtime; asynchronous ones ([`ObjectPack`]) from any
//! executor. A forked child makes a runtime and connections of its own; only a store that the
//! caller made ([`ObjectLocation::in_store`]) must not be used on both sides of a fork.

mod cache;
mod disk;
mod error;
mod location;
mod options;
mod pack;
mod ranges;
mod runtime;
mod source;

pub use cache::{BlockCache, CacheUse, CachedSource};
pub use error::error_of;
pub use location::ObjectLocation;
pub(crate) use location::location_of;
pub use object_store;
pub use options::{ObjectOptions, StoreOptions};
pub use pack::ObjectPack;
pub(crate) use pack::open_remote;
pub use runtime::block_on;
pub use source::ObjectSource;
