//! What is no error in the records of a build, but seldom meant.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::error::short;
use crate::grid::Grid;
use crate::record::CheckedRecords;

/// Something about the records of a build that is allowed, but seldom meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TileWarning {
    /// Tiles of one slide lie at the same position.
    RepeatedPositions {
        /// How many lie where another one does.
        count: u64,
        /// The first of them.
        row: u64,
    },
    /// Tiles of one patient are in several splits.
    SplitLeaks {
        /// Patients that this is true of.
        count: u64,
        /// The first of them.
        patient_id: String,
        /// Its splits.
        splits: Vec<String>,
    },
    /// One position made the stride smaller than all others would have it.
    NarrowStride {
        /// `x` or `y`.
        axis: &'static str,
        /// The stride.
        stride: u64,
        /// The record.
        row: u64,
        /// Its tile.
        tile_id: String,
    },
}

impl fmt::Display for TileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RepeatedPositions { count, row } => write!(
                f,
                "{count} tiles lie where another one of their slide does (the first is record {row})"
            ),
            Self::SplitLeaks { count, patient_id, splits } => write!(
                f,
                "{count} {} tiles in several splits (the first is \"{}\": {})",
                if *count == 1 { "patient has" } else { "patients have" },
                short(patient_id),
                short(&splits.join(", "))
            ),
            Self::NarrowStride { axis, stride, row, tile_id } => write!(
                f,
                "the stride in {axis} is only {stride} because of record {row}, tile \"{}\"",
                short(tile_id)
            ),
        }
    }
}

/// Strides below this share of a tile are told about.
const NARROW_SHARE: u64 = 8;

pub(super) fn of_records(
    records: &CheckedRecords,
    grid: Option<(&Grid, [u32; 2])>,
) -> Vec<TileWarning> {
    let mut warnings = Vec::new();
    warnings.extend(repeated_positions(records));
    warnings.extend(split_leaks(records));
    if let Some((grid, size)) = grid {
        let axes = ["x", "y"].into_iter().zip(grid.stride).zip(grid.narrowed_by).zip(size);
        for (((axis, stride), narrowed_by), size) in axes {
            if let Some(row) = narrowed_by
                && stride.saturating_mul(NARROW_SHARE) < u64::from(size)
            {
                let tile_id = records.id(row).to_owned();
                warnings.push(TileWarning::NarrowStride { axis, stride, row, tile_id });
            }
        }
    }
    warnings
}

fn repeated_positions(records: &CheckedRecords) -> Option<TileWarning> {
    let mut places: Vec<(u32, i64, i64, u64)> = (0_u64..)
        .zip(&records.slide)
        .zip(records.x.iter().zip(&records.y))
        .map(|((row, slide), (x, y))| (*slide, *y, *x, row))
        .collect();
    places.sort_unstable();
    let same = |first: &(u32, i64, i64, u64), second: &(u32, i64, i64, u64)| {
        (first.0, first.1, first.2) == (second.0, second.1, second.2)
    };
    let pairs = places.iter().zip(places.iter().skip(1));
    let repeated: Vec<u64> =
        pairs.filter(|(first, second)| same(first, second)).map(|(_, second)| second.3).collect();
    let row = *repeated.iter().min()?;
    let count = u64::try_from(repeated.len()).unwrap_or(u64::MAX);
    Some(TileWarning::RepeatedPositions { count, row })
}

fn split_leaks(records: &CheckedRecords) -> Option<TileWarning> {
    // Patients in the order of their first slide, so that the first one is always the same.
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut patients: Vec<(&str, BTreeSet<&str>)> = Vec::new();
    let patient_of: Vec<usize> = records
        .slides
        .iter()
        .map(|slide| {
            *numbers.entry(&slide.patient_id).or_insert_with(|| {
                patients.push((&slide.patient_id, BTreeSet::new()));
                patients.len().saturating_sub(1)
            })
        })
        .collect();
    let splits = records.texts.iter().flat_map(|texts| texts.splits.iter());
    for (slide, split) in records.slide.iter().zip(splits) {
        let slide = usize::try_from(*slide).ok();
        let patient = slide.and_then(|slide| patient_of.get(slide));
        if let Some((_, splits)) = patient.and_then(|patient| patients.get_mut(*patient))
            && let Some(split) = split.filter(|split| !split.is_empty())
            && !splits.contains(split)
        {
            splits.insert(split);
        }
    }
    let mut leaking = patients.into_iter().filter(|(_, splits)| splits.len() > 1);
    let (patient_id, splits) = leaking.next()?;
    Some(TileWarning::SplitLeaks {
        count: u64::try_from(leaking.count()).unwrap_or(u64::MAX).saturating_add(1),
        patient_id: patient_id.to_owned(),
        splits: splits.into_iter().map(str::to_owned).collect(),
    })
}
