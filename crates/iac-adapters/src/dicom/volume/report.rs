//! What was found in a series.

use super::divide;
use super::slice::{Found, Unplaced};
use super::stack::VolumeStack;

/// The stacks of a series or of an object, and the images that belong to none.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VolumeReport {
    /// Stacks, in the order of their first rows.
    pub stacks: Vec<VolumeStack>,
    /// Images whose place is not known.
    pub unplaced: Vec<Unplaced>,
}

impl VolumeReport {
    pub(super) fn of(found: Found, placed: bool) -> Self {
        Self { stacks: divide::stacks(found.slices, placed), unplaced: found.unplaced }
    }
}
