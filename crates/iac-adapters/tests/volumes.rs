//! Volumes of files with many frames: doses, segmentations, parametric maps, structures on them.
#![cfg(feature = "volumes")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    missing_docs
)]

#[path = "volumes/corpus.rs"]
mod corpus;
#[path = "volumes/files.rs"]
mod files;
#[path = "volumes/hostile.rs"]
mod hostile;
#[path = "volumes/labels.rs"]
mod labels;
#[path = "volumes/packs.rs"]
mod packs;
#[path = "volumes/support.rs"]
mod support;
#[path = "volumes/values.rs"]
mod values;
