//! From structure sets and segmentations to the series that they were made on.

use super::read::refused;
use super::rtstruct::StructureSet;
use super::segmentation::Segmentation;
use super::stack::VolumeStack;
use crate::dicom::read::{DicomPackReader, Series};
use crate::error::Result;
use iac_format::ErrorKind;

impl DicomPackReader {
    /// The RT structure set of an instance.
    ///
    /// # Errors
    ///
    /// As [`data_set`](Self::data_set) and [`StructureSet::of`].
    pub fn structure_set(&self, row: u64) -> Result<StructureSet> {
        let name = format!("row {row} of {}", self.reader().path());
        StructureSet::of(&self.data_set(row)?, &name)
    }

    /// The segmentation of an instance.
    ///
    /// # Errors
    ///
    /// As [`data_set`](Self::data_set); [`AdapterError::Source`](crate::AdapterError::Source) (kind
    /// `schema`) when it is none.
    pub fn segmentation(&self, row: u64) -> Result<Segmentation<'_>> {
        let data = self.data_set(row)?;
        Segmentation::new(self, &data, self.slices(&[row], false)?)
    }

    /// The stack of the series that an instance refers to: the one that holds most of `images` where
    /// there are several, else the only one. `row` is the instance that refers to it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Source`](crate::AdapterError::Source): kind `unsupported` when no series of
    /// the pack is referred to, when it is the instance's own or has no slices, or when several
    /// stacks are as good.
    pub fn referenced_stack(
        &self,
        row: u64,
        series_uids: &[String],
        images: &[String],
    ) -> Result<VolumeStack> {
        let wrong = |reason: String| {
            let reason = format!("row {row}: {reason}");
            refused(self.reader().path(), ErrorKind::Unsupported, reason)
        };
        let own = self.series_of(row)?;
        let named = |series: &&Series| series_uids.contains(&series.series_uid);
        let mut stacks = Vec::new();
        let mut found = false;
        for series in self.series().iter().filter(named) {
            found = true;
            // One step, never further: references may lead in circles.
            if series.series_idx == own.series_idx {
                return Err(wrong("it refers to its own series".to_owned()));
            }
            stacks.extend(self.volume_stacks(series)?.stacks);
        }
        if !found {
            return Err(wrong(format!(
                "none of the {} series that it refers to is in the pack",
                series_uids.len()
            )));
        }
        let images: std::collections::HashSet<&str> = images.iter().map(String::as_str).collect();
        let score = |stack: &VolumeStack| {
            let slices = stack.slices.iter();
            slices.filter(|slice| images.contains(slice.sop_instance_uid.as_str())).count()
        };
        let scores: Vec<usize> = stacks.iter().map(score).collect();
        let best = scores.iter().max().copied().unwrap_or(0);
        if scores.iter().filter(|score| **score == best).count() > 1 {
            return Err(wrong(format!(
                "the series that it refers to has {} stacks, and it does not tell which it means",
                stacks.len()
            )));
        }
        let at = scores.iter().position(|score| *score == best);
        at.and_then(|at| stacks.into_iter().nth(at))
            .ok_or_else(|| wrong("the series that it refers to has no slices".to_owned()))
    }
}
