//! Slices put together: which belong to one stack, where they lie, and what is wrong with them.

use std::fmt;

use super::affine::{Affine, count};
use super::geometry::{Vector, dot, length, minus, times};
use super::marks::Attribute;
use super::slice::Slice;

/// Distances between slices are alike within the larger of this (in millimetres) and a hundredth.
pub(super) const TOLERANCE: f64 = 0.01;
const RELATIVE_TOLERANCE: f64 = 0.01;

/// What the slices of a volume are allowed to differ by: the larger of 0.01 mm and 1 %.
pub(super) fn tolerance(distance: f64) -> f64 {
    TOLERANCE.max(RELATIVE_TOLERANCE * distance)
}

/// Slices of one series, or frames of one object, that make a volume.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VolumeStack {
    /// The slices in the order in which they lie along the normal; those of one place by instance
    /// number.
    pub slices: Vec<Slice>,
    /// Where each of them lies along the normal, in millimetres.
    pub positions: Vec<f64>,
    /// By what the stack differs from others of the series that lie in the same place.
    pub told_by: Vec<(Attribute, String)>,
    /// The direction across the slices: row direction times column direction.
    pub normal: [f64; 3],
    /// Different places.
    pub places: usize,
    /// Distance between neighbouring places along the normal, in millimetres: the mean where they
    /// are alike, else the median. A single place has none.
    pub spacing: Option<f64>,
    /// What distances may differ by, in millimetres.
    pub tolerance: f64,
    /// How far the slice that lies worst is away from where the affine has it, in millimetres.
    pub deviation: f64,
    /// Column, row and place to millimetres (LPS). A single place has a step of 1 mm.
    pub affine: Affine,
    /// Whether the affine says where the slices lie: not for those that were taken in the order of
    /// rows and frames.
    pub placed: bool,
    /// What stands in the way of a volume, or should be known of it.
    pub problems: Vec<StackProblem>,
}

/// What is wrong with a stack, or unusual.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StackProblem {
    /// Slices are missing between two neighbours.
    Gap {
        /// Positions of the two along the normal.
        positions: [f64; 2],
        /// Rows of the two.
        rows: [u64; 2],
        /// Slices that would fit in between.
        missing: u64,
    },
    /// Neighbours lie closer together or farther apart than others, by no whole number of slices.
    Uneven {
        /// The least and the largest distance.
        distances: [f64; 2],
        /// Positions of pairs whose distance is not the usual one.
        pairs: Vec<[f64; 2]>,
    },
    /// Several slices lie in one place, and nothing tells them apart.
    Duplicate {
        /// The position along the normal.
        position: f64,
        /// Rows and frames of the slices.
        slices: Vec<(u64, u32)>,
    },
    /// The slices' first voxels lie on no straight line.
    Unaligned {
        /// How far the worst of them is away from it, in millimetres.
        deviation: f64,
        /// What is allowed.
        tolerance: f64,
        /// Its row.
        row: u64,
    },
    /// Slices are shifted against each other, as those of a tilted gantry are. The affine says so,
    /// and nothing stands in the way of a volume.
    Tilt {
        /// Angle between the normal and the line through the first voxels.
        degrees: f64,
        /// The shift from one slice to the next along rows and along columns, in millimetres.
        shift: [f64; 2],
    },
    /// Slices have different units, so their values cannot be put together.
    Units {
        /// What they have.
        found: Vec<String>,
    },
}

impl StackProblem {
    /// Whether a volume would misrepresent the slices.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        !matches!(self, Self::Tilt { .. })
    }

    /// Positions along the normal that it is about, in millimetres.
    #[must_use]
    pub fn positions(&self) -> Vec<f64> {
        match self {
            Self::Gap { positions, .. } => positions.to_vec(),
            Self::Uneven { pairs, .. } => pairs.as_flattened().to_vec(),
            Self::Duplicate { position, .. } => vec![*position],
            Self::Unaligned { .. } | Self::Tilt { .. } | Self::Units { .. } => Vec::new(),
        }
    }

    /// Rows that it is about.
    #[must_use]
    pub fn rows(&self) -> Vec<u64> {
        match self {
            Self::Gap { rows, .. } => rows.to_vec(),
            Self::Duplicate { slices, .. } => slices.iter().map(|(row, _)| *row).collect(),
            Self::Unaligned { row, .. } => vec![*row],
            Self::Uneven { .. } | Self::Tilt { .. } | Self::Units { .. } => Vec::new(),
        }
    }

    /// A name for reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Gap { .. } => "gap",
            Self::Uneven { .. } => "uneven",
            Self::Duplicate { .. } => "duplicate",
            Self::Unaligned { .. } => "unaligned",
            Self::Tilt { .. } => "tilt",
            Self::Units { .. } => "units",
        }
    }
}

impl fmt::Display for StackProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { positions: [before, after], rows: [one, other], missing } => write!(
                f,
                "{missing} missing between {before:.3} mm (row {one}) and {after:.3} mm (row {other})"
            ),
            Self::Uneven { distances: [least, most], pairs } => {
                write!(f, "distances from {least:.3} to {most:.3} mm; ")?;
                for (number, [before, after]) in pairs.iter().take(3).enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    write!(f, "{comma}{before:.3} to {after:.3} mm")?;
                }
                match pairs.len().saturating_sub(3) {
                    0 => f.write_str(" are not the usual one"),
                    more => write!(f, " and {more} more are not the usual one"),
                }
            }
            Self::Duplicate { position, slices } => {
                write!(f, "{} slices at {position:.3} mm: rows ", slices.len())?;
                for (number, (row, frame)) in slices.iter().take(4).enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    match frame {
                        0 => write!(f, "{comma}{row}")?,
                        frame => write!(f, "{comma}{row} frame {frame}")?,
                    }
                }
                if slices.len() > 4 { f.write_str(", ...") } else { Ok(()) }
            }
            Self::Unaligned { deviation, tolerance, row } => write!(
                f,
                "slices do not lie behind each other: row {row} is {deviation:.3} mm off the line, where {tolerance:.3} mm are allowed"
            ),
            Self::Tilt { degrees, shift: [row, column] } => write!(
                f,
                "tilted by {degrees:.3} degrees: each slice is shifted by {row:.4} mm along rows and {column:.4} mm along columns"
            ),
            Self::Units { found } => write!(f, "slices have the units {}", found.join(", ")),
        }
    }
}

impl VolumeStack {
    /// Whether the affine describes every slice: no gaps, no duplicates, one distance.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        !self.problems.iter().any(StackProblem::is_fatal)
    }

    /// Rows and columns of its slices.
    #[must_use]
    pub fn size(&self) -> [u32; 2] {
        self.slices.first().map_or([0, 0], |first| first.size)
    }

    /// Slices of sorted ones, put together. `slices` must not be empty.
    pub(super) fn assemble(
        mut slices: Vec<Slice>,
        told_by: Vec<(Attribute, String)>,
        placed: bool,
    ) -> Option<Self> {
        let normal = slices.iter().min_by_key(|it| (it.row, it.frame))?.plane.normal();
        slices.sort_by(|a, b| {
            let by_place = a.along(normal).total_cmp(&b.along(normal));
            let key = |it: &Slice| (it.instance_number, it.row, it.frame);
            by_place.then_with(|| key(a).cmp(&key(b)))
        });
        let positions: Vec<f64> = slices.iter().map(|slice| slice.along(normal)).collect();
        let groups = places(&positions);
        let mut problems = Vec::new();
        for group in &groups {
            if let [first, _, ..] = group.as_slice()
                && let Some(position) = positions.get(*first)
            {
                let slices = group.iter().filter_map(|at| slices.get(*at));
                problems.push(StackProblem::Duplicate {
                    position: *position,
                    slices: slices.map(|slice| (slice.row, slice.frame)).collect(),
                });
            }
        }
        let firsts: Vec<(&Slice, f64)> = groups
            .iter()
            .filter_map(|group| {
                let at = *group.first()?;
                Some((slices.get(at)?, *positions.get(at)?))
            })
            .collect();
        let line = Line::through(&firsts);
        problems.extend(line.problems);
        let mut units: Vec<String> =
            slices.iter().map(|slice| slice.mapping(None).1.to_owned()).collect();
        units.sort_unstable();
        units.dedup();
        if units.len() > 1 {
            problems.push(StackProblem::Units { found: units });
        }
        Some(Self {
            told_by,
            normal,
            places: groups.len(),
            spacing: line.spacing,
            tolerance: line.tolerance,
            deviation: line.deviation,
            affine: line.affine,
            placed,
            problems,
            positions,
            slices,
        })
    }
}

/// Positions of one place, in ascending order: indices into the sorted positions.
pub(super) fn places(positions: &[f64]) -> Vec<Vec<usize>> {
    let extent = positions.first().zip(positions.last()).map_or(0.0, |(first, last)| last - first);
    let steps = count(positions.len().saturating_sub(1)).max(1.0);
    // Slices may be thinner than the tolerance.
    let same = (0.1 * extent / steps).clamp(1e-3, TOLERANCE);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut begun = f64::NEG_INFINITY;
    for (at, position) in positions.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if position - begun <= same => group.push(at),
            _ => {
                begun = *position;
                groups.push(vec![at]);
            }
        }
    }
    groups
}

/// The line on which first voxels lie.
struct Line {
    affine: Affine,
    spacing: Option<f64>,
    tolerance: f64,
    deviation: f64,
    problems: Vec<StackProblem>,
}

impl Line {
    /// Through slices of different places, in their order.
    fn through(slices: &[(&Slice, f64)]) -> Self {
        let Some(((first, start), (last, end))) =
            slices.first().copied().zip(slices.last().copied())
        else {
            let affine = Affine::new([[0.0; 3]; 3], [0.0; 3]);
            let (tolerance, problems) = (TOLERANCE, Vec::new());
            return Self { affine, spacing: None, tolerance, deviation: 0.0, problems };
        };
        let plane = first.plane;
        let [between_rows, between_columns] = plane.spacing;
        let in_plane = [times(plane.row, between_columns), times(plane.column, between_rows)];
        let [column_step, row_step] = in_plane;
        let affine = |step: Vector| Affine::new([column_step, row_step, step], plane.position);
        let steps = slices.len().saturating_sub(1);
        if steps == 0 {
            return Self {
                affine: affine(plane.normal()),
                spacing: None,
                tolerance: TOLERANCE,
                deviation: 0.0,
                problems: Vec::new(),
            };
        }
        let mut problems = Vec::new();
        let usual = median(slices).unwrap_or(0.0);
        let allowed = tolerance(usual);
        uneven(slices, usual, allowed, &mut problems);
        let all = minus(last.plane.position, plane.position);
        let spacing = if problems.is_empty() { (end - start) / count(steps) } else { usual };
        let step = times(all, spacing / (end - start));

        // First voxels away from the line, in the plane of the slices.
        let allowed_in_plane = tolerance(between_rows.min(between_columns));
        let mut worst = (0.0, first.row);
        let mut deviation = 0.0_f64;
        for (number, (slice, position)) in slices.iter().enumerate() {
            let from = minus(slice.plane.position, plane.position);
            let on_line = times(all, (position - start) / (end - start));
            let off = length(minus(from, on_line));
            if off > worst.0 {
                worst = (off, slice.row);
            }
            deviation = deviation.max(length(minus(from, times(step, count(number)))));
        }
        if worst.0 > allowed_in_plane {
            let (deviation, row) = worst;
            problems.push(StackProblem::Unaligned { deviation, tolerance: allowed_in_plane, row });
        }
        let normal = plane.normal();
        let aside = minus(all, times(normal, dot(all, normal)));
        if length(aside) > allowed_in_plane {
            let shift = |direction| dot(step, direction);
            problems.push(StackProblem::Tilt {
                degrees: length(aside).atan2(dot(all, normal)).to_degrees(),
                shift: [shift(plane.row), shift(plane.column)],
            });
        }
        Self {
            affine: affine(step),
            spacing: Some(spacing),
            tolerance: allowed,
            deviation,
            problems,
        }
    }
}

/// The median of the distances between neighbours.
fn median(slices: &[(&Slice, f64)]) -> Option<f64> {
    let mut distances: Vec<f64> = pairs(slices).map(|(_, _, distance)| distance).collect();
    distances.sort_by(f64::total_cmp);
    distances.get(distances.len().saturating_sub(1) / 2).copied()
}

type Pair<'a> = ((&'a Slice, f64), (&'a Slice, f64), f64);

fn pairs<'a>(slices: &'a [(&'a Slice, f64)]) -> impl Iterator<Item = Pair<'a>> {
    slices.windows(2).filter_map(|pair| match pair {
        [before, after] => Some((*before, *after, after.1 - before.1)),
        _ => None,
    })
}

/// Distances that are not the usual one.
fn uneven(slices: &[(&Slice, f64)], usual: f64, allowed: f64, problems: &mut Vec<StackProblem>) {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    let mut odd = Vec::new();
    for ((before, at), (after, behind), distance) in pairs(slices) {
        (least, most) = (least.min(distance), most.max(distance));
        if (distance - usual).abs() <= allowed {
            continue;
        }
        let steps = (distance / usual).round();
        if steps >= 2.0 && (distance - steps * usual).abs() <= allowed * steps {
            problems.push(StackProblem::Gap {
                positions: [at, behind],
                rows: [before.row, after.row],
                missing: super::slice::to_whole(steps - 1.0).unsigned_abs(),
            });
        } else {
            odd.push([at, behind]);
        }
    }
    if !odd.is_empty() {
        problems.push(StackProblem::Uneven { distances: [least, most], pairs: odd });
    }
}
