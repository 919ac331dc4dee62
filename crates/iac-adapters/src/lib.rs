//! Schemas of IatroCache (`.iac`) files: tile manifests, image tiles, teacher features.
//!
//! A schema says which tables, header members and codecs packs of one `payload_type` have. Each
//! module here builds and reads packs of one schema, over `iac-reader` and `iac-writer`.
//!
//! | module | what it is for |
//! |---|---|
//! | [`manifest`] | comma-separated files that list tiles |
//! | [`tiles`] | packs of image tiles (`image_tiles`) |
//! | [`features`] | packs of vectors, one for each tile (`teacher_features`) |
//! | `text` | packs of clinical text (`clinical_text`) |
//! | `text_pair` | packs of clinical text, each with a text made of it (`clinical_text_pair`) |
//! | `wsi` | packs of one whole slide (`wsi_image`) |
//! | [`validate`] | whether a pack keeps the rules of its schema |
//!
//! # Features
//!
//! - `tiles` (default): image tiles, from PNG, JPEG, TIFF, BMP, WebP and JPEG XL files;
//! - `features` (default): teacher features.
//! - `text` (default): clinical text and paired text;
//! - `volumes`: series of DICOM images as volumes (`dicom::volume`);
//! - `wsi`: whole slides; `wsi-icc`: their colours by their own profiles.
//!
//! Which image codecs there are is decided by the features of `iac-codec`: `jxl` is what tile packs
//! are made with.

#![cfg_attr(
    not(all(feature = "tiles", feature = "features")),
    allow(dead_code, reason = "what adapters share is not all used by each of them")
)]

mod columns;
#[cfg(feature = "dicom")]
pub mod dicom;
mod error;
#[cfg(feature = "features")]
pub mod features;
#[cfg(any(feature = "features", feature = "tiles"))]
mod grid;
mod ids;
pub mod manifest;
#[cfg(any(feature = "dicom", feature = "wsi"))]
mod new_file;
mod record;
#[cfg(any(feature = "features", feature = "tiles"))]
mod table;
#[cfg(any(feature = "dicom", feature = "features", feature = "tiles", feature = "wsi"))]
mod task;
#[cfg(feature = "text")]
pub mod text;
#[cfg(feature = "text")]
pub mod text_pair;
#[cfg(feature = "tiles")]
pub mod tiles;
pub mod validate;
#[cfg(feature = "wsi")]
pub mod wsi;

/// The adapters that this build has.
///
/// ```
/// let adapters = iac_adapters::compiled_adapters();
/// assert_eq!(adapters.contains(&"tiles"), cfg!(feature = "tiles"));
/// ```
#[must_use]
pub fn compiled_adapters() -> Vec<&'static str> {
    [
        ("tiles", cfg!(feature = "tiles")),
        ("features", cfg!(feature = "features")),
        ("text", cfg!(feature = "text")),
        ("dicom", cfg!(feature = "dicom")),
        ("wsi", cfg!(feature = "wsi")),
    ]
    .into_iter()
    .filter(|(_, is_there)| *is_there)
    .map(|(name, _)| name)
    .collect()
}

pub use error::{AdapterError, Result};
pub use record::{RecordTable, Slide, TileRecord};
