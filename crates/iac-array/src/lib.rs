//! Stores of n-dimensional arrays with versions, on IatroCache (`.iac`) files.
//!
//! A store holds any number of arrays with attributes, in memory, in a folder, or in any object
//! store. Writers collect changes and publish them at once; readers pin a version and never see it
//! change. Every file of a store is an ordinary `.iac` file, and every byte that is read has been
//! compared with a checksum.
//!
//! ```
//! use iac_array::blocking::ArrayStore;
//! use iac_array::{ArraySpec, DType, Location, Packing, StoreOptions};
//! use ndarray::array;
//!
//! let options = StoreOptions::default().packing(Packing::lz4());
//! let mut store = ArrayStore::create(Location::memory(), options)?;
//! store.define("signal", ArraySpec::new(DType::Float32, &[4]))?;
//! store.write("signal", &[0], array![1.0_f32, 2.0, 3.0, 4.0])?;
//! store.flush()?;
//!
//! let signal = store.read_all("signal")?.to_ndarray::<f32>()?;
//! assert_eq!(signal, array![1.0, 2.0, 3.0, 4.0].into_dyn());
//! # Ok::<(), iac_array::ArrayError>(())
//! ```
//!
//! [`ArrayStore`] and [`Snapshot`] are asynchronous; [`blocking`] has the same calls for everybody
//! else. `docs/arrays.md` describes the files.
//!
//! # Features
//!
//! <!-- features of iac-array -->
//!
//! | feature | what it adds | `default` |
//! |---|---|---|
//! | `convert` | Arrays out of and into files of NumPy and NIfTI, out of files of the crate `array-format` | yes |
//! | `zarr` | Arrays out of and into folders of Zarr | |
//! | `fixed-ids` | Ids that are the same in each run, for fuzzing only: stores of two processes would share them | |
//! | `jxl` | Chunks as JPEG XL images (C++ library, needs cmake) | |
//! | `htj2k` | Chunks as HTJ2K images | |
//! | `jpegls` | Chunks as JPEG-LS images (C++ library, needs cmake) | |
//!
//! <!-- end -->

mod attr;
mod attrs;
mod backend;
pub mod blocking;
mod build;
mod cache;
mod catalogue;
mod codec;
mod compact;
#[cfg(feature = "convert")]
pub mod convert;
mod data;
mod dtype;
mod error;
mod expand;
mod filter;
mod flush;
mod grid;
mod import;
mod index;
mod json;
mod layer;
mod literal;
mod lock;
mod maintain;
mod manifest;
mod meta;
mod nullable;
mod options;
mod pack;
mod pending;
mod per_process;
mod planes;
mod read;
mod snapshot;
mod spool;
mod stats;
mod store;
mod stream;
mod tag;
mod values;
mod write;

pub use attr::Attr;
pub use cache::ArrayCache;
pub use codec::Packing;
pub use compact::CompactPolicy;
pub use data::{ArrayData, Scalar};
pub use dtype::{DType, TimeUnit};
pub use error::{ArrayError, Result};
pub use filter::Filter;
pub use flush::FlushReport;
pub use grid::MAX_RANK;
pub use lock::{LockFuture, PublishGuard, PublishLock};
pub use maintain::{ArrayFault, GcOptions, GcReport};
pub use meta::{ArrayMeta, ArraySpec, NodeKind};
pub use options::{Location, StoreOptions};
pub use snapshot::Snapshot;
pub use stats::{ChunkStats, Number, Stats};
pub use store::ArrayStore;
