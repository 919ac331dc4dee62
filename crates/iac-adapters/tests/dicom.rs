//! Patient packs: golden packs of the reference, packs built from the golden inputs, exports.
#![cfg(feature = "dicom")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::result_large_err,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

#[path = "dicom/build.rs"]
mod build;
#[path = "dicom/corpus.rs"]
mod corpus;
#[path = "dicom/deid.rs"]
mod deid;
#[path = "dicom/deid_frames.rs"]
mod deid_frames;
#[path = "dicom/deid_tampered.rs"]
mod deid_tampered;
#[path = "dicom/frames.rs"]
mod frames;
#[path = "dicom/frames_altered.rs"]
mod frames_altered;
#[path = "dicom/frames_odd.rs"]
mod frames_odd;
#[path = "dicom/goldens.rs"]
mod goldens;
#[path = "dicom/handmade.rs"]
mod handmade;
#[path = "dicom/hostile.rs"]
mod hostile;
#[path = "dicom/hostile_frames.rs"]
mod hostile_frames;
#[path = "dicom/kept.rs"]
mod kept;
#[path = "dicom/made.rs"]
mod made;
#[path = "dicom/secrets.rs"]
mod secrets;
#[path = "dicom/support.rs"]
mod support;
#[path = "dicom/tools.rs"]
mod tools;
#[path = "dicom/unindexed.rs"]
mod unindexed;
#[path = "dicom/values.rs"]
mod values;
