//! From voxels to millimetres.

use super::geometry::{Vector, cross, dot, length, minus, plus, times};

/// Maps column, row and slice of a voxel to millimetres.
///
/// The axes are DICOM's: towards the patient's left, back and head (LPS).
/// [`to_ras`](Self::to_ras) gives those of NIfTI. Half a voxel is nothing special: whole numbers are
/// centres of voxels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    columns: [Vector; 3],
    origin: Vector,
}

impl Affine {
    /// From the steps of one column, one row and one slice, and the place of the first voxel.
    #[must_use]
    pub const fn new(steps: [[f64; 3]; 3], origin: [f64; 3]) -> Self {
        Self { columns: steps, origin }
    }

    /// The step of one column, of one row and of one slice, in millimetres.
    #[must_use]
    pub const fn steps(&self) -> [[f64; 3]; 3] {
        self.columns
    }

    /// The centre of the first voxel, in millimetres of the patient's coordinates.
    #[must_use]
    pub const fn origin(&self) -> [f64; 3] {
        self.origin
    }

    /// The matrix, row after row; it is multiplied with (column, row, slice, 1).
    #[must_use]
    pub const fn matrix(&self) -> [[f64; 4]; 4] {
        let [[a, b, c], [d, e, f], [g, h, i]] = self.columns;
        let [x, y, z] = self.origin;
        [[a, d, g, x], [b, e, h, y], [c, f, i, z], [0.0, 0.0, 0.0, 1.0]]
    }

    /// The same in axes towards right, front and head turned into left and back, or the other way:
    /// the first two coordinates change their signs. NIfTI has right, front, head (RAS).
    #[must_use]
    pub fn to_ras(&self) -> Self {
        let turn = |[x, y, z]: Vector| [-x, -y, z];
        Self { columns: self.columns.map(turn), origin: turn(self.origin) }
    }

    /// Where a voxel lies; fractions lie between centres.
    #[must_use]
    pub fn apply(&self, [column, row, slice]: [f64; 3]) -> [f64; 3] {
        let [columns, rows, slices] = self.columns;
        let inside = plus(times(columns, column), times(rows, row));
        plus(self.origin, plus(inside, times(slices, slice)))
    }

    /// Lengths of the three steps in millimetres. Where slices are sheared, that of a slice is
    /// longer than their distance.
    #[must_use]
    pub fn lengths(&self) -> [f64; 3] {
        self.columns.map(length)
    }

    /// Volume of a voxel in cubic millimetres; negative where the axes are left-handed.
    #[must_use]
    pub fn determinant(&self) -> f64 {
        let [columns, rows, slices] = self.columns;
        dot(cross(columns, rows), slices)
    }

    /// The way back: from millimetres to column, row and slice. Nothing when voxels have no volume.
    #[must_use]
    pub fn inverse(&self) -> Option<Self> {
        let determinant = self.determinant();
        if determinant == 0.0 || !determinant.is_finite() {
            return None;
        }
        let [columns, rows, slices] = self.columns;
        let of_rows = [cross(rows, slices), cross(slices, columns), cross(columns, rows)];
        let [[a, b, c], [d, e, f], [g, h, i]] = of_rows.map(|one| times(one, 1.0 / determinant));
        let linear = Self { columns: [[a, d, g], [b, e, h], [c, f, i]], origin: [0.0; 3] };
        let origin = times(linear.apply(self.origin), -1.0);
        Some(Self { origin, ..linear })
    }

    /// The largest cosine between two of the axes: 0 where all are at right angles, which a
    /// rotation and three lengths can express.
    #[must_use]
    pub fn shear(&self) -> f64 {
        let [a, b, c] = self.columns.map(|one| times(one, 1.0 / length(one)));
        dot(a, b).abs().max(dot(a, c).abs()).max(dot(b, c).abs())
    }

    /// Which axis of the voxels (0 columns, 1 rows, 2 slices) runs along each axis of the space,
    /// and whether it runs against it. Each axis of the voxels is named once.
    #[must_use]
    pub fn closest_axes(&self) -> [(usize, bool); 3] {
        const ORDERS: [[usize; 3]; 6] =
            [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let units = self.columns.map(|one| times(one, 1.0 / length(one)));
        let along = |axis: usize, space: usize| {
            units.get(axis).and_then(|unit| unit.get(space)).copied().unwrap_or(0.0)
        };
        let fit = |[x, y, z]: [usize; 3]| along(x, 0).abs() + along(y, 1).abs() + along(z, 2).abs();
        let mut best = [0, 1, 2];
        for order in ORDERS {
            if fit(order) > fit(best) {
                best = order;
            }
        }
        let [x, y, z] = best;
        [(x, along(x, 0) < 0.0), (y, along(y, 1) < 0.0), (z, along(z, 2) < 0.0)]
    }

    /// The affine of an array whose axes were exchanged and reversed: its axis `n` is the axis
    /// `axes[n].0` of the old one, backwards where `axes[n].1` says so. `counts` are those of the
    /// old one's columns, rows and slices.
    pub(crate) fn rearranged(&self, axes: [(usize, bool); 3], counts: [usize; 3]) -> Self {
        let mut origin = self.origin;
        let columns = axes.map(|(axis, backwards)| {
            let step = self.columns.get(axis).copied().unwrap_or_default();
            if !backwards {
                return step;
            }
            let last = counts.get(axis).copied().unwrap_or(1).saturating_sub(1);
            origin = plus(origin, times(step, count(last)));
            times(step, -1.0)
        });
        Self { columns, origin }
    }

    /// The largest difference between places that two affines give the corners of an array.
    #[must_use]
    pub fn distance(&self, other: &Self, counts: [usize; 3]) -> f64 {
        let [columns, rows, slices] = counts.map(|one| count(one.saturating_sub(1)));
        let mut most = 0.0_f64;
        for column in [0.0, columns] {
            for row in [0.0, rows] {
                for slice in [0.0, slices] {
                    let corner = [column, row, slice];
                    let apart = length(minus(self.apply(corner), other.apply(corner)));
                    // A NaN must not look like an agreement.
                    most = if apart > most || apart.is_nan() { apart } else { most };
                }
            }
        }
        most
    }
}

/// A number of things as a double, exact below 2^53.
#[allow(clippy::cast_precision_loss)] // Arrays have fewer elements.
pub(crate) const fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oblique() -> Affine {
        Affine::new([[0.4, 0.3, 0.0], [0.0, 0.1, -0.7], [0.2, 0.1, 3.0]], [-120.5, 33.0, 711.25])
    }

    #[test]
    fn the_inverse_leads_back() {
        let affine = oblique();
        let back = affine.inverse().unwrap();
        for voxel in [[0.0, 0.0, 0.0], [511.0, 0.0, 3.0], [1.5, -2.0, 100.0]] {
            let found = back.apply(affine.apply(voxel));
            assert!(length(minus(found, voxel)) < 1e-9, "{found:?}");
        }
        let flat = Affine::new([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]], [0.0; 3]);
        assert_eq!(flat.inverse(), None);
    }

    #[test]
    fn the_matrix_does_what_apply_does() {
        let affine = oblique();
        let [column, row, slice] = [7.0, 5.0, 3.0];
        let found = affine.matrix().map(|[a, b, c, d]| a * column + b * row + c * slice + d);
        assert_eq!(found[..3], affine.apply([column, row, slice]));
        assert_eq!(found[3], 1.0);
    }

    #[test]
    fn rearranged_arrays_keep_every_voxel_in_its_place() {
        let (affine, counts) = (oblique(), [4, 5, 6]);
        let axes = [(2, true), (0, false), (1, true)];
        let other = affine.rearranged(axes, counts);
        // Voxel (1, 2, 3) of the new array is slice 6 - 1 - 1, column 2, row 5 - 1 - 3 of the old.
        let (new, old) = (other.apply([1.0, 2.0, 3.0]), affine.apply([2.0, 1.0, 4.0]));
        assert!(length(minus(new, old)) < 1e-9);
    }

    #[test]
    fn axes_are_found_for_turned_and_mirrored_arrays() {
        assert_eq!(oblique().closest_axes(), [(0, false), (1, false), (2, false)]);
        let sagittal = Affine::new([[0.0, 1.0, 0.0], [0.0, 0.0, -1.0], [-2.0, 0.0, 0.0]], [0.0; 3]);
        assert_eq!(sagittal.closest_axes(), [(2, true), (0, false), (1, true)]);
    }
}
