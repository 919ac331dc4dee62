//! Labels on the grid of a volume.

use std::collections::BTreeMap;
use std::fmt;

use ndarray::Array3;

use super::affine::Affine;
use super::array::{Volume, VolumeSlice, Voxels};
use super::geometry::Plane;
use super::read::{VolumeOptions, array, chosen, voxel_count, zeros};
use super::stack::VolumeStack;
use crate::error::Result;

/// One label of a label volume.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// The voxels' value.
    pub value: u16,
    /// Segment Number or ROI Number.
    pub number: i64,
    /// Segment Label or ROI Name.
    pub name: String,
    /// Voxels that belong to it, also where another label covers it.
    pub voxels: u64,
}

/// Shows no name: somebody wrote it.
impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Label")
            .field("value", &self.value)
            .field("number", &self.number)
            .field("voxels", &self.voxels)
            .finish_non_exhaustive()
    }
}

/// Voxels that two labels claim; they show the later one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlap {
    /// Values of the label that is covered, and of the one that shows.
    pub values: [u16; 2],
    /// How many voxels.
    pub voxels: u64,
}

/// What could not be put into a label volume.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LabelFault {
    /// Segment Number or ROI Number; nothing where none is known.
    pub number: Option<i64>,
    /// Number of the contour or frame, counted from 0; nothing for the whole segment or region.
    pub part: Option<usize>,
    /// Why.
    pub reason: LabelFaultReason,
}

/// Why a contour, a frame or a region is not in a label volume.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LabelFaultReason {
    /// It lies in none of the slices' planes.
    OffPlane {
        /// Distance to the nearest slice in millimetres.
        distance: f64,
        /// What is allowed.
        tolerance: f64,
    },
    /// Its points do not lie in one plane of a slice.
    NotPlanar {
        /// The distance of the point that is farthest off, in millimetres.
        distance: f64,
        /// What is allowed.
        tolerance: f64,
    },
    /// A polygon needs three points.
    TooFewPoints {
        /// What it has.
        points: usize,
    },
    /// Its edges, and those of contours before it, cross more rows than any contour that somebody
    /// drew.
    TooComplex {
        /// Rows that its edges cross.
        steps: u64,
    },
    /// Coordinates are missing, no numbers, or farther away than anything can be.
    NotNumbers,
    /// Only closed planar contours hold voxels.
    NotClosed {
        /// Its geometric type.
        kind: String,
    },
    /// It belongs to another frame of reference than the slices.
    OtherFrameOfReference,
    /// Its voxels are not those of the slices: another orientation, another size, or an offset that
    /// is no whole number of voxels.
    OtherGrid,
    /// Voxels lie beside the slices.
    Outside {
        /// How many.
        voxels: u64,
    },
    /// The object does not say which segment it belongs to, or describes no such segment.
    UnknownSegment,
    /// It has no place.
    Unplaced {
        /// Why.
        reason: super::geometry::Misplaced,
    },
}

impl fmt::Display for LabelFaultReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OffPlane { distance, tolerance } => write!(
                f,
                "{distance:.3} mm away from the nearest slice, where {tolerance:.3} mm are allowed"
            ),
            Self::NotPlanar { distance, tolerance } => write!(
                f,
                "a point is {distance:.3} mm away from the slice, where {tolerance:.3} mm are allowed"
            ),
            Self::TooFewPoints { points } => write!(f, "{points} points make no polygon"),
            Self::TooComplex { steps } => {
                write!(f, "its edges cross {steps} rows, which is too much")
            }
            Self::NotNumbers => f.write_str("its coordinates are no usable numbers"),
            Self::NotClosed { kind } => write!(f, "{kind} is no closed planar contour"),
            Self::OtherFrameOfReference => f.write_str("it has another frame of reference"),
            Self::OtherGrid => f.write_str("its voxels are not those of the slices"),
            Self::Outside { voxels } => write!(f, "{voxels} of its voxels lie beside the slices"),
            Self::UnknownSegment => f.write_str("it belongs to no segment that is described"),
            Self::Unplaced { reason } => write!(f, "{reason}"),
        }
    }
}

/// Labels of the voxels of a volume: 0 where there is none.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LabelVolume {
    /// The labels, `[slice, row, column]`, of type `uint16`.
    pub volume: Volume,
    /// What the values stand for, in the order in which they were drawn.
    pub labels: Vec<Label>,
    /// Voxels that several labels claim.
    pub overlaps: Vec<Overlap>,
    /// What is not in the volume.
    pub faults: Vec<LabelFault>,
}

/// The voxels that labels are put on.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    pub(super) planes: Vec<Plane>,
    /// Where the planes lie along the normal, ascending.
    pub(super) positions: Vec<f64>,
    pub(super) slices: Vec<VolumeSlice>,
    /// Rows and columns.
    pub(super) size: [usize; 2],
    pub(super) affine: Affine,
    pub(super) placed: bool,
    pub(super) normal: [f64; 3],
    pub(super) tolerance: f64,
    pub(super) frame_of_reference: String,
    pub(super) max_bytes: u64,
}

impl Grid {
    /// The voxels that [`read_volume`](super::read::read_volume) gives for a stack.
    pub(super) fn of(path: &str, stack: &VolumeStack, options: &VolumeOptions) -> Result<Self> {
        let chosen = chosen(path, stack, options)?;
        let size = stack.size().map(|side| usize::try_from(side).unwrap_or(usize::MAX));
        let frame_of_reference = chosen.first().map(|(it, _)| it.frame_of_reference.clone());
        Ok(Self {
            planes: chosen.iter().map(|(slice, _)| slice.plane).collect(),
            positions: chosen.iter().map(|(_, position)| *position).collect(),
            slices: chosen
                .iter()
                .map(|(slice, position)| VolumeSlice {
                    row: slice.row,
                    frame: slice.frame,
                    position: *position,
                })
                .collect(),
            size,
            affine: stack.affine,
            placed: stack.placed,
            normal: stack.normal,
            tolerance: stack.tolerance,
            frame_of_reference: frame_of_reference.unwrap_or_default(),
            max_bytes: options.max_bytes,
        })
    }

    pub(super) fn shape(&self) -> [usize; 3] {
        let [rows, columns] = self.size;
        [self.planes.len(), rows, columns]
    }

    /// The plane nearest to a position along the normal, and how far away it is.
    pub(super) fn nearest(&self, position: f64) -> Option<(usize, f64)> {
        let behind = self.positions.partition_point(|one| *one < position);
        [behind.checked_sub(1), Some(behind)]
            .into_iter()
            .flatten()
            .filter_map(|at| Some((at, (self.positions.get(at)? - position).abs())))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Labels on their way.
pub(super) struct Canvas<'a> {
    path: &'a str,
    grid: &'a Grid,
    voxels: Vec<u16>,
    per_slice: usize,
    overlaps: BTreeMap<[u16; 2], u64>,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(path: &'a str, grid: &'a Grid) -> Result<Self> {
        let count = voxel_count(path, grid.shape(), size_of::<u16>(), grid.max_bytes)?;
        let [rows, columns] = grid.size;
        Ok(Self {
            path,
            grid,
            voxels: zeros(path, count)?,
            per_slice: rows.saturating_mul(columns),
            overlaps: BTreeMap::new(),
        })
    }

    /// Draws a label where `holds` says so; gives the number of voxels.
    pub(super) fn draw(&mut self, slice: usize, value: u16, holds: &[bool]) -> u64 {
        let mut drawn = 0_u64;
        for (index, _) in holds.iter().enumerate().filter(|(_, holds)| **holds) {
            if self.put(slice, index, value) {
                drawn = drawn.saturating_add(1);
            }
        }
        drawn
    }

    /// Draws one voxel of a slice; says whether it is new to the label.
    pub(super) fn put(&mut self, slice: usize, index: usize, value: u16) -> bool {
        let at = slice.saturating_mul(self.per_slice).saturating_add(index);
        let Some(voxel) = self.voxels.get_mut(at) else {
            return false;
        };
        let before = std::mem::replace(voxel, value);
        if before != 0 && before != value {
            let count = self.overlaps.entry([before, value]).or_default();
            *count = count.saturating_add(1);
        }
        before != value
    }

    pub(super) fn finish(self, labels: Vec<Label>, faults: Vec<LabelFault>) -> Result<LabelVolume> {
        let voxels: Array3<u16> = array(self.path, self.grid.shape(), self.voxels)?;
        let overlaps = self.overlaps.into_iter();
        Ok(LabelVolume {
            volume: Volume {
                voxels: Voxels::U16(voxels),
                affine: self.grid.affine,
                placed: self.grid.placed,
                scale: Some([1.0, 0.0]),
                units: String::new(),
                window: None,
                slices: self.grid.slices.clone(),
            },
            labels,
            overlaps: overlaps.map(|(values, voxels)| Overlap { values, voxels }).collect(),
            faults,
        })
    }
}
