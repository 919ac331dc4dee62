//! What was found in a series.

use super::slice::Unplaced;
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
