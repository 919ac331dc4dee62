//! What the benchmarks of this workspace share: packs to read, clocks, and the other side of the
//! comparison with the reference packages.
//!
//! - `cargo bench -p iac-benches` gives our own numbers (criterion, packs of a few MiB).
//! - `cargo run --release -p iac-benches --bin compare` measures the reference packages and us on
//!   the same bytes in one run, beside the plain memory copy, `pread` or `write` that nobody can
//!   beat, and prints the ratios. Linux only: it reads `/proc`.
#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "only benchmarks use this crate, on numbers of its own"
)]

pub mod clinical;
pub mod clock;
pub mod codecs;
pub mod dicom;
pub mod features;
pub mod field;
pub mod fixed;
pub mod frames;
pub mod guard;
pub mod images;
pub mod objects;
pub mod opens;
pub mod peer;
pub mod process;
pub mod random;
pub mod reads;
pub mod report;
pub mod sample;
pub mod scale;
pub mod serve;
pub mod slide_import;
pub mod slides;
pub mod texts;
pub mod tiles;
pub mod tiles_build;
pub mod volume;
pub mod writes;

/// What can go wrong ends the program with a message.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
