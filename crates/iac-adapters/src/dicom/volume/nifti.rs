//! NIfTI-1 files.
//!
//! The header is written here because its scaling (`scl_slope`, `scl_inter`) is needed for stored
//! samples; readers of other projects check it in the tests.

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::affine::Affine;
use super::array::{Volume, Voxels, with_voxels};
use super::geometry::{Vector, length, times};
use super::save::SaveOptions;
use super::words::VoxelType;
use crate::dicom::publish::publish;
use crate::error::{AdapterError, Result};

/// Bytes before the voxels: the header and four that say that there are no extensions.
const HEADER_BYTES: usize = 352;
/// How far the rotation and the lengths that a quaternion can express may be off, in millimetres,
/// before only the matrix is written.
const QFORM_TOLERANCE: f64 = 0.01;
/// `NIFTI_XFORM_SCANNER_ANAT`.
const SCANNER: i16 = 1;
/// `NIFTI_INTENT_LABEL`.
pub(super) const LABELS: i16 = 1002;

impl Volume {
    /// The header of a NIfTI-1 file with this volume, as far as the voxels. The axes are turned to
    /// right, front and head; the array is not.
    ///
    /// `sform` holds the affine; `qform` is given as well when a rotation expresses it within 0.01
    /// mm, which it does not for sheared (tilted) stacks. A volume that is not placed has neither,
    /// only the sizes of its voxels.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] when an axis has more than 32,767 voxels, or stored voxels have no
    /// common scale.
    pub fn nifti_header(&self) -> Result<Vec<u8>> {
        self.header(0)
    }

    fn header(&self, intent: i16) -> Result<Vec<u8>> {
        let counts = self.counts();
        let mut dim = [3_i16, 1, 1, 1, 1, 1, 1, 1];
        for (place, side) in dim.iter_mut().skip(1).zip(counts) {
            *place = i16::try_from(side).map_err(|_| {
                AdapterError::usage(format!(
                    "NIfTI-1 holds up to 32767 voxels along an axis, and there are {side}"
                ))
            })?;
        }
        let Some([slope, intercept]) = self.scale else {
            return Err(AdapterError::usage(
                "stored voxels whose scale differs from slice to slice cannot go into a NIfTI file; rescaled ones can",
            ));
        };
        let (datatype, bits) = match self.voxels.voxel_type() {
            VoxelType::U8 => (2_i16, 8_i16),
            VoxelType::I16 => (4, 16),
            VoxelType::I32 => (8, 32),
            VoxelType::F32 => (16, 32),
            VoxelType::F64 => (64, 64),
            VoxelType::I8 => (256, 8),
            VoxelType::U16 => (512, 16),
            VoxelType::U32 => (768, 32),
        };
        let ras = self.affine.to_ras();
        let turn = Rotation::of(&ras);
        let right =
            turn.is_some_and(|turn| turn.to_affine().distance(&ras, counts) <= QFORM_TOLERANCE);
        let turn = turn.filter(|_| right).unwrap_or(Rotation::of_lengths(&ras));

        let mut out = Header(Vec::with_capacity(HEADER_BYTES));
        out.i32(348);
        out.zeros(34); // Parts of the older Analyze header.
        out.bytes(b"r\0");
        out.i16s(&dim);
        out.f32s(&[0.0; 3]);
        out.i16s(&[intent, datatype, bits, 0]);
        let [x, y, z] = turn.lengths;
        out.f32s(&[turn.handedness, x, y, z, 0.0, 0.0, 0.0, 0.0]);
        out.f32s(&[f64_of(HEADER_BYTES), slope, intercept]);
        out.i16s(&[0]);
        out.bytes(&[0, 2]); // Millimetres.
        out.f32s(&[0.0; 4]);
        out.zeros(8);
        out.zeros(80 + 24);
        // Without a place, only the sizes of voxels count.
        let code = |holds: bool| if holds && self.placed { SCANNER } else { 0 };
        out.i16s(&[code(right), code(true)]);
        out.f32s(&turn.quaternion);
        out.f32s(&ras.origin());
        for row in ras.matrix().iter().take(3) {
            out.f32s(row);
        }
        out.zeros(16);
        out.bytes(b"n+1\0");
        out.zeros(4);
        Ok(out.0)
    }

    /// Writes the voxels as little-endian bytes, columns fastest and slices slowest.
    ///
    /// # Errors
    ///
    /// What `out` returns.
    pub fn write_voxels(&self, out: &mut dyn Write) -> io::Result<()> {
        let (lots, mut bytes) = (1 << 15, Vec::new());
        with_voxels!(&self.voxels, array => {
            let array = array.as_standard_layout();
            for part in array.as_slice().unwrap_or_default().chunks(lots) {
                bytes.clear();
                for voxel in part {
                    bytes.extend_from_slice(&voxel.to_le_bytes());
                }
                out.write_all(&bytes)?;
            }
        });
        Ok(())
    }

    /// Writes a NIfTI-1 file, compressed when its name ends in `.gz`. It appears whole or not at
    /// all.
    ///
    /// # Errors
    ///
    /// As [`nifti_header`](Self::nifti_header); [`AdapterError::Write`] when the file exists and is
    /// not to be replaced; [`AdapterError::Io`] when it cannot be written.
    pub fn save_nifti(&self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<()> {
        let path = path.as_ref();
        let header = self.header(options.intent)?;
        let gzip = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz"));
        publish(path, options.overwrite, |out| {
            if !gzip {
                out.write_all(&header)?;
                return self.write_voxels(out);
            }
            let mut packed = GzEncoder::new(out, Compression::new(options.level.min(9)));
            packed.write_all(&header)?;
            self.write_voxels(&mut packed)?;
            packed.finish().map(|_| ())
        })
    }
}

impl Voxels {
    /// NumPy's name of the type, with its byte order.
    pub(super) const fn descr(&self) -> &'static str {
        match self.voxel_type() {
            VoxelType::U8 => "|u1",
            VoxelType::I8 => "|i1",
            VoxelType::U16 => "<u2",
            VoxelType::I16 => "<i2",
            VoxelType::U32 => "<u4",
            VoxelType::I32 => "<i4",
            VoxelType::F32 => "<f4",
            VoxelType::F64 => "<f8",
        }
    }
}

#[allow(clippy::cast_precision_loss)] // Small.
const fn f64_of(number: usize) -> f64 {
    number as f64
}

/// A header on its way; numbers are little-endian.
struct Header(Vec<u8>);

impl Header {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn zeros(&mut self, count: usize) {
        self.0.resize(self.0.len().saturating_add(count), 0);
    }

    fn i32(&mut self, number: i32) {
        self.bytes(&number.to_le_bytes());
    }

    fn i16s(&mut self, numbers: &[i16]) {
        for number in numbers {
            self.bytes(&number.to_le_bytes());
        }
    }

    #[allow(clippy::cast_possible_truncation)] // The format has no more digits.
    fn f32s(&mut self, numbers: &[f64]) {
        for number in numbers {
            self.bytes(&(*number as f32).to_le_bytes());
        }
    }
}

/// A rotation with three lengths, as `qform` has it.
#[derive(Debug, Clone, Copy)]
struct Rotation {
    /// b, c and d of the quaternion; a is what makes its length 1, and not negative.
    quaternion: [f64; 3],
    lengths: [f64; 3],
    /// -1 when the third axis is mirrored.
    handedness: f64,
    origin: Vector,
}

impl Rotation {
    /// The rotation nearest to the steps of an affine, if they are near to one at all.
    fn of(affine: &Affine) -> Option<Self> {
        let lengths = affine.lengths();
        if lengths.iter().any(|one| *one <= 0.0 || !one.is_finite()) {
            return None;
        }
        let handedness = if affine.determinant() < 0.0 { -1.0 } else { 1.0 };
        let [x, y, z] = affine.steps();
        let [a, b, c] = lengths;
        let unit = [times(x, 1.0 / a), times(y, 1.0 / b), times(z, handedness / c)];
        let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = unit;
        // Each of these is four times a square; the largest gives the others without loss.
        let squares =
            [1.0 + xx + yy + zz, 1.0 + xx - yy - zz, 1.0 - xx + yy - zz, 1.0 - xx - yy + zz];
        let mut largest = 0;
        for (at, square) in squares.iter().enumerate() {
            if squares.get(largest).is_some_and(|most| square > most) {
                largest = at;
            }
        }
        let most = squares.get(largest).copied().filter(|square| *square > 0.0)?;
        let root = most.sqrt() / 2.0;
        let part = |sum: f64| sum / (4.0 * root);
        let whole = match largest {
            0 => [root, part(yz - zy), part(zx - xz), part(xy - yx)],
            1 => [part(yz - zy), root, part(xy + yx), part(xz + zx)],
            2 => [part(zx - xz), part(xy + yx), root, part(yz + zy)],
            _ => [part(xy - yx), part(xz + zx), part(yz + zy), root],
        };
        let norm = whole.iter().map(|one| one * one).sum::<f64>().sqrt();
        let [first, b, c, d] = whole;
        let sign = if first < 0.0 { -1.0 / norm } else { 1.0 / norm };
        Some(Self {
            quaternion: [b * sign, c * sign, d * sign],
            lengths,
            handedness,
            origin: affine.origin(),
        })
    }

    /// No rotation, for a file whose matrix alone counts.
    fn of_lengths(affine: &Affine) -> Self {
        Self {
            quaternion: [0.0; 3],
            lengths: affine.lengths(),
            handedness: 1.0,
            origin: affine.origin(),
        }
    }

    fn to_affine(self) -> Affine {
        let [b, c, d] = self.quaternion;
        let a = (1.0 - (b * b + c * c + d * d)).max(0.0).sqrt();
        let x = [a * a + b * b - c * c - d * d, 2.0 * (b * c + a * d), 2.0 * (b * d - a * c)];
        let y = [2.0 * (b * c - a * d), a * a + c * c - b * b - d * d, 2.0 * (c * d + a * b)];
        let z = [2.0 * (b * d + a * c), 2.0 * (c * d - a * b), a * a + d * d - b * b - c * c];
        let [along_x, along_y, along_z] = self.lengths;
        let steps = [times(x, along_x), times(y, along_y), times(z, along_z * self.handedness)];
        debug_assert!(steps.iter().all(|step| length(*step).is_finite()));
        Affine::new(steps, self.origin)
    }
}
