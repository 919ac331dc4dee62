//! Planes in the patient's space, and what makes one unusable.

use std::fmt;

/// Three coordinates in millimetres, or a direction: towards left, posterior, head.
pub(crate) type Vector = [f64; 3];

/// By how much the cosine between the two directions of an image may differ from 0, and their
/// lengths from 1: orientations are often written with three or four digits.
const ORTHONORMAL: f64 = 1e-3;

/// Millimetres beyond which numbers are no places of anything, and reckoning with them ends in
/// infinities.
const FARTHEST: f64 = 1e9;
/// Millimetres below which there is no distance between voxels.
const CLOSEST: f64 = 1e-9;

/// Whether a distance between voxels can be reckoned with.
pub(crate) fn is_distance(millimetres: f64) -> bool {
    (CLOSEST..=FARTHEST).contains(&millimetres)
}

/// Refuses places that are too far away to be any.
pub(crate) fn check_place(position: Vector) -> Result<(), Misplaced> {
    match position.into_iter().find(|one| one.is_nan() || one.abs() > FARTHEST) {
        None => Ok(()),
        Some(coordinate) => Err(Misplaced::TooFar { coordinate }),
    }
}

pub(crate) fn dot([a, b, c]: Vector, [x, y, z]: Vector) -> f64 {
    a * x + b * y + c * z
}

pub(crate) fn cross([a, b, c]: Vector, [x, y, z]: Vector) -> Vector {
    [b * z - c * y, c * x - a * z, a * y - b * x]
}

pub(crate) fn plus([a, b, c]: Vector, [x, y, z]: Vector) -> Vector {
    [a + x, b + y, c + z]
}

pub(crate) fn minus([a, b, c]: Vector, [x, y, z]: Vector) -> Vector {
    [a - x, b - y, c - z]
}

pub(crate) fn times(vector: Vector, factor: f64) -> Vector {
    vector.map(|one| one * factor)
}

pub(crate) fn length(vector: Vector) -> f64 {
    dot(vector, vector).sqrt()
}

/// Where the voxels of one slice lie.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Plane {
    /// Centre of the first voxel in millimetres, in DICOM's axes (left, posterior, head).
    pub position: [f64; 3],
    /// The direction in which columns count up, of length 1.
    pub row: [f64; 3],
    /// The direction in which rows count up, of length 1.
    pub column: [f64; 3],
    /// Distance between rows, and between columns, in millimetres.
    pub spacing: [f64; 2],
}

impl Plane {
    /// A plane from the numbers of Image Position, Image Orientation and Pixel Spacing.
    pub(crate) fn new(
        position: Numbers<3>,
        orientation: Numbers<6>,
        spacing: Numbers<2>,
    ) -> Result<Self, Misplaced> {
        let position = match position {
            Numbers::Absent => return Err(Misplaced::NoPosition),
            Numbers::Unusable => return Err(Misplaced::BadPosition),
            Numbers::Are(position) => position,
        };
        check_place(position)?;
        let [a, b, c, x, y, z] = match orientation {
            Numbers::Absent => return Err(Misplaced::NoOrientation),
            Numbers::Unusable => return Err(Misplaced::BadOrientation),
            Numbers::Are(orientation) => orientation,
        };
        let (row, column) = ([a, b, c], [x, y, z]);
        let (lengths, cosine) = ([length(row), length(column)], dot(row, column));
        if cosine.abs() > ORTHONORMAL || lengths.iter().any(|one| (one - 1.0).abs() > ORTHONORMAL) {
            return Err(Misplaced::NotOrthonormal { lengths, cosine });
        }
        let spacing = match spacing {
            Numbers::Absent => return Err(Misplaced::NoSpacing),
            Numbers::Unusable => return Err(Misplaced::BadSpacing { spacing: None }),
            Numbers::Are(spacing) => spacing,
        };
        if !spacing.iter().all(|one| is_distance(*one)) {
            return Err(Misplaced::BadSpacing { spacing: Some(spacing) });
        }
        // What is left is rounding of the digits that files hold.
        let [of_row, of_column] = lengths;
        let (row, column) = (times(row, 1.0 / of_row), times(column, 1.0 / of_column));
        Ok(Self { position, row, column, spacing })
    }

    /// The direction across the plane, of length 1.
    #[must_use]
    pub fn normal(&self) -> [f64; 3] {
        let normal = cross(self.row, self.column);
        times(normal, 1.0 / length(normal))
    }

    /// Where a point lies in this plane: column, row, and the distance from it along the normal.
    pub(crate) fn locate(&self, point: Vector) -> [f64; 3] {
        let from = minus(point, self.position);
        let [between_rows, between_columns] = self.spacing;
        // The two directions may be a little off a right angle, so solve for both at once.
        let (rr, cc, rc) =
            (dot(self.row, self.row), dot(self.column, self.column), dot(self.row, self.column));
        let (r, c) = (dot(from, self.row), dot(from, self.column));
        let determinant = rr * cc - rc * rc;
        let along_row = (r * cc - c * rc) / determinant;
        let along_column = (c * rr - r * rc) / determinant;
        [along_row / between_columns, along_column / between_rows, dot(from, self.normal())]
    }
}

/// Numbers of an element that is to hold so many finite ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Numbers<const N: usize> {
    /// The element is not there, or empty.
    Absent,
    /// Too few or too many, no numbers, or not finite.
    Unusable,
    Are([f64; N]),
}

/// Why a slice has no place in a volume.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Misplaced {
    /// It has no Image Position.
    NoPosition,
    /// Its Image Position is not three finite numbers.
    BadPosition,
    /// A coordinate of its place is beyond a thousand kilometres.
    TooFar {
        /// The coordinate in millimetres.
        coordinate: f64,
    },
    /// It has no Image Orientation.
    NoOrientation,
    /// Its Image Orientation is not six finite numbers.
    BadOrientation,
    /// The directions of its Image Orientation have not length 1, or no right angle between them.
    NotOrthonormal {
        /// Lengths of the two directions.
        lengths: [f64; 2],
        /// Their scalar product.
        cosine: f64,
    },
    /// It has no Pixel Spacing.
    NoSpacing,
    /// Its Pixel Spacing is not two numbers from 1e-9 to 1e9.
    BadSpacing {
        /// What it is, as far as it is numbers.
        spacing: Option<[f64; 2]>,
    },
    /// It has more than one sample in each pixel, which volumes do not hold.
    Coloured {
        /// Samples of a pixel.
        samples: u32,
    },
    /// The frames of its object have no offsets that tell where they lie, or not as many as frames.
    NoOffset {
        /// Offsets that are there.
        found: usize,
        /// Frames that the object has.
        frames: u32,
    },
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPosition => f.write_str("no image position"),
            Self::BadPosition => f.write_str("the image position is not three finite numbers"),
            Self::TooFar { coordinate } => {
                write!(f, "it lies {coordinate:e} mm away, where {FARTHEST:e} are allowed")
            }
            Self::NoOrientation => f.write_str("no image orientation"),
            Self::BadOrientation => f.write_str("the image orientation is not six finite numbers"),
            Self::NotOrthonormal { lengths: [row, column], cosine } => write!(
                f,
                "the directions of the image orientation have lengths {row:.4} and {column:.4} and the scalar product {cosine:.4}, where 1, 1 and 0 are needed"
            ),
            Self::NoSpacing => f.write_str("no pixel spacing"),
            Self::BadSpacing { spacing: None } => {
                f.write_str("the pixel spacing is not two finite numbers")
            }
            Self::BadSpacing { spacing: Some([rows, columns]) } => {
                write!(
                    f,
                    "the pixel spacing {rows:?} x {columns:?} is not from {CLOSEST:e} to {FARTHEST:e} mm"
                )
            }
            Self::Coloured { samples } => {
                write!(f, "{samples} samples in each pixel, where volumes hold one")
            }
            Self::NoOffset { found, frames } => {
                write!(f, "{found} frame offsets for {frames} frames")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIAL: [f64; 6] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];

    #[test]
    fn numbers_that_place_nothing_are_told_apart() {
        let (position, spacing) = (Numbers::Are([0.0; 3]), Numbers::Are([1.0, 1.0]));
        let axial = Numbers::Are(AXIAL);
        for (plane, why) in [
            (Plane::new(Numbers::Absent, axial, spacing), Misplaced::NoPosition),
            (Plane::new(Numbers::Unusable, axial, spacing), Misplaced::BadPosition),
            (Plane::new(position, Numbers::Absent, spacing), Misplaced::NoOrientation),
            (Plane::new(position, Numbers::Unusable, spacing), Misplaced::BadOrientation),
            (Plane::new(position, axial, Numbers::Absent), Misplaced::NoSpacing),
            (
                Plane::new(position, axial, Numbers::Are([0.0, 1.0])),
                Misplaced::BadSpacing { spacing: Some([0.0, 1.0]) },
            ),
            (
                Plane::new(position, axial, Numbers::Are([1e-320, 1.0])),
                Misplaced::BadSpacing { spacing: Some([1e-320, 1.0]) },
            ),
            (
                Plane::new(position, axial, Numbers::Are([1.0, 1e308])),
                Misplaced::BadSpacing { spacing: Some([1.0, 1e308]) },
            ),
            (
                Plane::new(Numbers::Are([0.0, 0.0, -1e308]), axial, spacing),
                Misplaced::TooFar { coordinate: -1e308 },
            ),
            (
                Plane::new(position, Numbers::Are([1.0, 0.0, 0.0, 0.6, 0.8, 0.0]), spacing),
                Misplaced::NotOrthonormal { lengths: [1.0, 1.0], cosine: 0.6 },
            ),
            (
                Plane::new(position, Numbers::Are([0.0; 6]), spacing),
                Misplaced::NotOrthonormal { lengths: [0.0, 0.0], cosine: 0.0 },
            ),
        ] {
            assert_eq!(plane.unwrap_err(), why);
        }
    }

    #[test]
    fn a_point_is_located_in_columns_rows_and_millimetres_from_the_plane() {
        let orientation = [0.8, 0.6, 0.0, 0.0, 0.0, -1.0];
        let plane = Plane::new(
            Numbers::Are([10.0, 20.0, 30.0]),
            Numbers::Are(orientation),
            Numbers::Are([2.0, 0.5]),
        )
        .unwrap();
        let point =
            plus(plane.position, plus(times(plane.row, 3.0 * 0.5), times(plane.column, 8.0)));
        let point = plus(point, times(plane.normal(), -1.25));
        let [column, row, off] = plane.locate(point);
        assert!((column - 3.0).abs() < 1e-9 && (row - 4.0).abs() < 1e-9);
        assert!((off + 1.25).abs() < 1e-9);
    }
}
