//! Schemas of IatroCache (`.iac`) files: image tiles, teacher features, clinical text, DICOM, volumes,
//! whole slides.
//!
//! A schema says which tables, header members and codecs packs of one `payload_type` have. Each
//! module here builds, reads and checks packs of one schema, over `iac-reader` and `iac-writer`, and
//! imports what such packs are made of.
//!
//! | module | what it is for |
//! |---|---|
//! | [`manifest`] | comma-separated files that list tiles |
//! | `tiles` | packs of image tiles (`image_tiles`) |
//! | `features` | packs of vectors, one for each tile (`teacher_features`) |
//! | `text` | packs of clinical text (`clinical_text`) |
//! | `text_pair` | packs of clinical text, each with a text made of it (`clinical_text_pair`) |
//! | `dicom` | packs of the DICOM objects of one patient (`dicom_patient`); volumes, de-identification, export |
//! | `wsi` | packs of one whole slide (`wsi_image`); regions, overviews, import, export |
//! | [`validate`] | whether a pack keeps the rules of its schema |
//!
//! ```
//! # #[cfg(feature = "text")] {
//! use iac_adapters::text::{
//!     ClinicalDoc, ClinicalTextReader, ClinicalTextWriter, PatientText, TextWriteOptions,
//! };
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("notes.iac");
//! let mut writer = ClinicalTextWriter::create(&path, &TextWriteOptions::default())?;
//! let mut patient = PatientText::new("P001");
//! patient.docs.push(ClinicalDoc::new("P001/1", "No residual tumour."));
//! writer.push(&patient)?;
//! writer.finish()?;
//!
//! let reader = ClinicalTextReader::open(&path)?;
//! assert_eq!(reader.read("P001")?.docs.len(), 1);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! <!-- features of iac-adapters -->
//!
//! | feature | what it adds | `default` |
//! |---|---|---|
//! | `tiles` | Image tiles: building from PNG, JPEG, TIFF, BMP, WebP and JPEG XL files, and reading. Which codecs there are is decided by the features of `iac-codec` | yes |
//! | `features` | Teacher features: building from iterators, .npy and .safetensors files, and reading | yes |
//! | `text` | Clinical text and paired text: building from JSON, CSV and text files, and reading | yes |
//! | `parquet` | Importing text from Parquet files | |
//! | `text-search` | Full-text search over packs of text | |
//! | `dicom` | DICOM objects of one patient: building from files, reading, exporting | |
//! | `volumes` | Series of DICOM images as volumes, and their export to NIfTI | |
//! | `volume-arrays` | Volumes as arrays of a store | |
//! | `wsi` | Whole slides: reading, overviews, tissue masks, writing packs of encoded tiles. Which codecs there are is decided by the features of `iac-codec` | |
//! | `wsi-import` | Importing whole slides from TIFF files and plain images; with `dicom`, from DICOM files too | |
//! | `wsi-openslide` | Importing whole slides through libopenslide, which is looked for when it is needed | |
//! | `wsi-icc` | Colours of slides by their own profiles | |
//! | `jxl` | Turning JPEG files into JPEG XL tiles without loss | |
//!
//! <!-- end -->
//!
//! Which image codecs there are is decided by the features of `iac-codec`: `jxl` is what tile packs
//! are made with, unless another codec is asked for.

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
