//! Operations on IatroCache (.iac) files: packing, extracting, verifying, salvaging, selecting.
//!
//! What the `iac` command does, as library calls: each module is one operation.
//!
//! | module | what it does |
//! |---|---|
//! | [`raw`] | packs files as they are |
//! | [`extract`] | writes records as files into a folder |
//! | [`check`] | verifies packs, one or many, and lists every fault |
//! | [`schema`] | what higher crates know of the rules of payload types |
//! | [`salvage`] | copies what is sound out of a damaged pack |
//! | [`digest`] | SHA-256 of stored and decoded records, which compares packs by content |
//! | [`decode`] | records as their codec's output |
//! | [`recode`] | writes the records of a pack with another codec |
//! | [`montage`] | a contact sheet of images |
//! | [`pictures`] | image files of other programs: PNG, TIFF, JPEG, `.npy` |
//! | [`bench`](mod@bench) | how fast a pack is read on this machine |
//! | [`subset`] | some rows of a pack as a pack of their own |
//! | [`merge`] | several packs as one |
//! | `object` | packs to and between object stores (feature `object-store`) |
//! | [`info`] | what a pack is, at a glance |
//! | [`stats`] | sizes, and rows by split, slide and patient |
//! | [`dicom`] | counts of studies, series and instances |
//! | [`view`] | rows of a table as JSON, CSV or Arrow |
//! | [`predicate`] | conditions that select rows |
//! | [`rows`] | row numbers as people write them |
//! | [`ordered`] | work on several threads whose results come in order |
//!
//! Long work tells about itself through [`Progress`], which can also stop it. Results never depend
//! on the number of threads.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # std::fs::write(folder.path().join("a.txt"), "hello")?;
//! # let source = folder.path().join("a.txt");
//! # let pack = folder.path().join("out.iac");
//! use iac_ops::raw::{RawPackOptions, pack_raw};
//! use iac_ops::{NoProgress, digest};
//! use iac_reader::PackReader;
//!
//! let summary = pack_raw(&[source], &pack, &RawPackOptions::default(), &NoProgress)?;
//! assert_eq!(summary.files, 1);
//!
//! let pack = PackReader::open(&pack)?;
//! let options = digest::DigestOptions::default();
//! digest::digest(&pack, None, &options, &NoProgress, &mut |row| {
//!     assert_eq!(row.bytes, Some(5));
//!     Ok(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! <!-- features of iac-ops -->
//!
//! | feature | what it adds |
//! |---|---|
//! | `jxl` | Turning JPEG records into JPEG XL and keeping every bit of them, with `recode` |
//! | `object-store` | Packs to and between object stores |
//!
//! <!-- end -->

pub mod bench;
mod carry;
pub mod cell;
pub mod check;
pub mod decode;
pub mod dicom;
pub mod digest;
mod error;
mod expansion;
pub mod extract;
mod gather;
pub mod info;
pub mod merge;
pub mod montage;
mod names;
mod no_record;
#[cfg(feature = "object-store")]
pub mod object;
pub mod ordered;
pub mod pictures;
pub mod predicate;
mod progress;
pub mod raw;
pub mod recode;
pub mod rows;
pub mod salvage;
pub mod schema;
mod sha;
mod shared;
pub mod stats;
pub mod subset;
mod transcode;
pub mod type_name;
mod values;
pub mod view;
mod walk;

pub use error::{OpsError, Result};
pub use iac_format::{ErrorKind, TableKind};
pub use progress::{Cancel, NoProgress, Progress, Task};
