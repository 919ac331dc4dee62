//! Series and multi-frame objects as volumes.
//!
//! A volume is an array `[slice, row, column]` with an [`Affine`] that maps column, row and slice to
//! millimetres. Slices are put in order by where they lie along the normal of their orientation;
//! distances come from these positions, never from Slice Thickness. What stands in the way of a
//! volume (gaps, slices in one place, unlike distances) is reported with positions before anything
//! is read, and refused unless the caller says otherwise; nothing is ever filled in.
//!
//! [`DicomPackReader::volume_stacks`](super::DicomPackReader::volume_stacks) finds the stacks of a
//! series, [`read_volume`](super::DicomPackReader::read_volume) reads one. [`VolumeFile`] does the
//! same for the frames of a file: doses, segmentations, parametric maps, enhanced CT and MR.
//! [`StructureSet`] and [`Segmentation`] draw labels on the voxels of a stack. See `docs/volumes.md`.

mod affine;
mod array;
mod divide;
mod file;
mod geometry;
mod groups;
mod label;
mod mapping;
mod marks;
mod nifti;
mod pack;
mod planes;
mod polygon;
mod read;
mod reference;
mod report;
mod rtstruct;
mod save;
mod segmentation;
mod slice;
mod stack;
#[cfg(feature = "volume-arrays")]
mod store;
#[cfg(test)]
mod tests;
mod words;

pub use affine::Affine;
pub use array::{Volume, VolumeSlice, Voxels};
pub use file::VolumeFile;
pub use geometry::{Misplaced, Plane};
pub use label::{Label, LabelFault, LabelFaultReason, LabelVolume, Overlap};
pub use marks::Attribute;
pub use planes::PlaneOptions;
pub use read::{OnDuplicate, VolumeOptions, VolumeValues};
pub use report::VolumeReport;
pub use rtstruct::{Contour, Region, StructureSet};
pub use save::SaveOptions;
pub use segmentation::{Segment, Segmentation, SegmentationKind};
pub use slice::{Slice, Unplaced};
pub use stack::{StackProblem, VolumeStack};
pub use words::VoxelType;
