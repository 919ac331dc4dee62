//! Volumes as arrays.

use std::fmt;

use ndarray::{Array3, Axis};

use super::affine::Affine;
use super::words::VoxelType;
use crate::dicom::values::Window;

/// Voxels of a volume, `[slice, row, column]`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Voxels {
    /// Unsigned, 8 bits.
    U8(Array3<u8>),
    /// Signed, 8 bits.
    I8(Array3<i8>),
    /// Unsigned, 16 bits.
    U16(Array3<u16>),
    /// Signed, 16 bits.
    I16(Array3<i16>),
    /// Unsigned, 32 bits.
    U32(Array3<u32>),
    /// Signed, 32 bits.
    I32(Array3<i32>),
    /// Floating point, 32 bits.
    F32(Array3<f32>),
    /// Floating point, 64 bits.
    F64(Array3<f64>),
}

/// Does the same with an array of any type.
macro_rules! with_voxels {
    ($voxels:expr, $array:ident => $work:expr) => {
        match $voxels {
            $crate::dicom::volume::Voxels::U8($array) => $work,
            $crate::dicom::volume::Voxels::I8($array) => $work,
            $crate::dicom::volume::Voxels::U16($array) => $work,
            $crate::dicom::volume::Voxels::I16($array) => $work,
            $crate::dicom::volume::Voxels::U32($array) => $work,
            $crate::dicom::volume::Voxels::I32($array) => $work,
            $crate::dicom::volume::Voxels::F32($array) => $work,
            $crate::dicom::volume::Voxels::F64($array) => $work,
        }
    };
}
pub(super) use with_voxels;

impl Voxels {
    /// Their type.
    #[must_use]
    pub const fn voxel_type(&self) -> VoxelType {
        match self {
            Self::U8(_) => VoxelType::U8,
            Self::I8(_) => VoxelType::I8,
            Self::U16(_) => VoxelType::U16,
            Self::I16(_) => VoxelType::I16,
            Self::U32(_) => VoxelType::U32,
            Self::I32(_) => VoxelType::I32,
            Self::F32(_) => VoxelType::F32,
            Self::F64(_) => VoxelType::F64,
        }
    }

    /// Slices, rows and columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        let (slices, rows, columns) = with_voxels!(self, array => array.dim());
        [slices, rows, columns]
    }

    /// One voxel as a number; nothing outside of the volume.
    #[must_use]
    pub fn get(&self, [slice, row, column]: [usize; 3]) -> Option<f64> {
        let at = [slice, row, column];
        Some(match self {
            Self::U8(array) => f64::from(*array.get(at)?),
            Self::I8(array) => f64::from(*array.get(at)?),
            Self::U16(array) => f64::from(*array.get(at)?),
            Self::I16(array) => f64::from(*array.get(at)?),
            Self::U32(array) => f64::from(*array.get(at)?),
            Self::I32(array) => f64::from(*array.get(at)?),
            Self::F32(array) => f64::from(*array.get(at)?),
            Self::F64(array) => *array.get(at)?,
        })
    }

    /// The array, if it is of 32-bit floating point.
    #[must_use]
    pub const fn as_f32(&self) -> Option<&Array3<f32>> {
        match self {
            Self::F32(array) => Some(array),
            _ => None,
        }
    }

    /// Axis `n` of the result is the axis `axes[n].0` of the array, backwards where `axes[n].1`
    /// says so.
    fn rearranged(&self, axes: [(usize, bool); 3]) -> Self {
        fn one<T: Clone>(array: &Array3<T>, axes: [(usize, bool); 3]) -> Array3<T> {
            let mut view = array.view().permuted_axes(axes.map(|(axis, _)| axis));
            for (axis, (_, backwards)) in axes.into_iter().enumerate() {
                if backwards {
                    view.invert_axis(Axis(axis));
                }
            }
            view.as_standard_layout().into_owned()
        }
        match self {
            Self::U8(array) => Self::U8(one(array, axes)),
            Self::I8(array) => Self::I8(one(array, axes)),
            Self::U16(array) => Self::U16(one(array, axes)),
            Self::I16(array) => Self::I16(one(array, axes)),
            Self::U32(array) => Self::U32(one(array, axes)),
            Self::I32(array) => Self::I32(one(array, axes)),
            Self::F32(array) => Self::F32(one(array, axes)),
            Self::F64(array) => Self::F64(one(array, axes)),
        }
    }
}

/// One slice of a volume that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct VolumeSlice {
    /// Its row in the pack; 0 for a file.
    pub row: u64,
    /// Which frame of the instance it is, counted from 0.
    pub frame: u32,
    /// Where it lies along the normal, in millimetres.
    pub position: f64,
}

/// A volume: voxels, and where they lie.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Volume {
    /// The voxels, `[slice, row, column]`.
    pub voxels: Voxels,
    /// Column, row and slice of a voxel to millimetres in DICOM's axes (left, posterior, head).
    pub affine: Affine,
    /// Whether the affine says where the volume lies, not only how large voxels are.
    pub placed: bool,
    /// Slope and intercept that make values of stored voxels; nothing when that differs from slice
    /// to slice, or takes more. Values that were rescaled have 1 and 0.
    pub scale: Option<[f64; 2]>,
    /// The unit of the values, as the objects name it (`HU`, `BQML`, a UCUM code); empty where none
    /// is stated.
    pub units: String,
    /// The window of the first slice.
    pub window: Option<Window>,
    /// Where the slices came from, in the order of the array. Empty once axes were exchanged.
    pub slices: Vec<VolumeSlice>,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("shape", &self.voxels.shape())
            .field("type", &self.voxels.voxel_type())
            .field("affine", &self.affine)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

impl Volume {
    /// Columns, rows and slices: the counts that go with the affine.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        let [slices, rows, columns] = self.voxels.shape();
        [columns, rows, slices]
    }

    /// The same volume with its axes exchanged and reversed so that columns count up towards the
    /// patient's right, rows towards the front and slices towards the head, as far as right-angled
    /// turns can do that. Nothing is interpolated; every voxel keeps its place.
    #[must_use]
    pub fn to_ras_order(&self) -> Self {
        // Towards right and front is against DICOM's axes.
        let [x, y, z] = self.affine.closest_axes();
        self.rearranged([(x.0, !x.1), (y.0, !y.1), z])
    }

    /// The same in the order of DICOM's axes: columns towards the left, rows towards the back,
    /// slices towards the head.
    #[must_use]
    pub fn to_lps_order(&self) -> Self {
        self.rearranged(self.affine.closest_axes())
    }

    fn rearranged(&self, axes: [(usize, bool); 3]) -> Self {
        let [x, y, z] = axes;
        // The array counts its axes from slices to columns.
        let of_array = |(axis, backwards): (usize, bool)| (2_usize.saturating_sub(axis), backwards);
        Self {
            voxels: self.voxels.rearranged([of_array(z), of_array(y), of_array(x)]),
            affine: self.affine.rearranged(axes, self.counts()),
            placed: self.placed,
            scale: self.scale,
            units: self.units.clone(),
            window: self.window,
            slices: Vec::new(),
        }
    }
}
