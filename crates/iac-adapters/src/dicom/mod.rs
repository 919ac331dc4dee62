//! Packs of one patient's DICOM objects (`dicom_patient`).
//!
//! One pack holds every object of a patient: metadata that a series shares once, what differs with
//! each instance, and images without loss, one record each. What a file says is kept to the byte:
//! spelling of numbers, padding, texts that could not be decoded, bits that no image uses. On request
//! a [`Deidentifier`] takes from objects what identifies their patient before they are stored
//! (`docs/deidentification.md`).
//!
//! There are two schemas. The first one is the reference's: an instance is a row with at most one
//! image, as JPEG XL. The second one has a row for each frame, samples of 1 and 32 bits and
//! floating-point ones, and other codecs; it is written when an object needs it or when
//! [`SchemaChoice`] says so. [`DicomPackReader`] reads both in the same way. See `docs/dicom.md`.

mod attributes;
mod build;
mod charset;
mod deid;
mod document;
mod encode;
mod export;
pub(crate) mod fault;
mod frames;
mod geometry;
mod inputs;
mod kept;
pub(crate) mod number;
pub(crate) mod object;
mod opening;
mod ordered;
pub(crate) mod parse;
mod patient;
pub(crate) mod pixels;
mod prepare;
mod private;
mod publish;
mod read;
mod restore;
mod rle;
mod samples;
pub(crate) mod schema;
pub(crate) mod schema2;
mod series;
mod spool;
pub(crate) mod syntax;
mod tables;
mod text;
mod values;
#[cfg(feature = "volumes")]
pub mod volume;
mod write;

pub use attributes::Attributes;
pub use build::{DicomBuildReport, DicomPackBuilder, MalformedInput, OnBadInput, SkippedInput};
pub use deid::{
    BurnedIn, BurnedInPolicy, DEFAULT_KEY_VARIABLE, DEID_EXTENSION, DeidAction, DeidCheck,
    DeidFinding, DeidKey, DeidOption, DeidProfile, DeidReport, Deidentifier, ElementRule,
    KeySource,
};
pub use dicom_core::{Tag, VR};
pub use encode::Malformed;
pub use export::{ExportOptions, ExportSyntax, ExportedFile};
pub use geometry::{GapSide, ShortAcquisition, SliceGap, Stack};
pub use inputs::{DicomInput, DicomInputs};
pub use object::{DataSet, Element, ElementValue, MAX_NESTING};
pub use parse::DicomFile;
pub use patient::{Grouped, PatientInputs};
pub use read::{DicomPackReader, Series};
pub use samples::{PixelBatch, PixelSamples, PixelSamplesMut, PixelType, Pixels};
pub use schema2::build::FrameCountReport;
pub use schema2::{FrameFacts, LossyOriginals, PayloadCodec, SCHEMA_VERSION_2, SchemaChoice};
pub use series::SeriesReport;
pub use values::Window;

/// The payload type of these packs.
pub const DICOM_PATIENT: &str = "dicom_patient";

/// The version of their schema that is written unless an object needs the second one; both are
/// read.
pub const SCHEMA_VERSION: u32 = 1;

/// What the header lists under `extensions` when objects hold more than the schema has places for.
pub const SOURCE_EXTENSION: &str = "iac.dicom_source";
