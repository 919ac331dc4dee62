//! What is in a pack, series by series, with geometry.

use super::geometry::{
    Place, ShortAcquisition, SliceGap, Stack, examine_series, short_acquisitions,
};
use super::prepare::description;
use super::read::{DicomPackReader, Series};
use crate::error::Result;

/// One series with what its images show.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SeriesReport {
    /// The row of the series table.
    pub series: Series,
    /// Series Description of its first instance; empty where there is none.
    pub description: String,
    /// Instances, counted.
    pub instances: u64,
    /// Images: frames of instances.
    pub images: u64,
    /// Sizes of the images: height and width, in the order in which they first occur.
    pub sizes: Vec<[u32; 2]>,
    /// Groups of parallel slices, in the order of their first rows.
    pub stacks: Vec<Stack>,
    /// Places where slices are missing.
    pub gaps: Vec<SliceGap>,
}

impl DicomPackReader {
    /// Describes every series: instances, sizes, stacks of slices and the gaps in them. Reads the
    /// metadata of every instance.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes).
    pub fn series_report(&self) -> Result<Vec<SeriesReport>> {
        self.series().iter().map(|series| self.report_of(series)).collect()
    }

    /// Acquisitions with fewer images than their objects declare.
    ///
    /// # Errors
    ///
    /// As [`attributes`](Self::attributes).
    pub fn short_acquisitions(&self) -> Result<Vec<ShortAcquisition>> {
        let mut images = Vec::new();
        for series in self.series() {
            for row in self.rows_of(series)? {
                if self.has_pixels(row)? {
                    images.push((series.study_uid.as_str(), self.place_of_row(row)?));
                }
            }
        }
        Ok(short_acquisitions(images.iter().map(|(study, place)| (*study, place))))
    }

    fn report_of(&self, series: &Series) -> Result<SeriesReport> {
        let rows = self.rows_of(series)?;
        let mut sizes: Vec<[u32; 2]> = Vec::new();
        let mut places = Vec::new();
        let mut instances = 0_u64;
        for row in &rows {
            instances = instances.saturating_add((self.frame_of(*row)? == 0).into());
            if !self.has_pixels(*row)? {
                continue;
            }
            let shape = self.shape(*row)?;
            let size = [shape.height(), shape.width()];
            if !sizes.contains(&size) {
                sizes.push(size);
            }
            places.push(self.place_of_row(*row)?);
        }
        let shown: Vec<&Place> = places.iter().collect();
        let (stacks, gaps) = examine_series(&series.study_uid, &series.series_uid, &shown);
        let description = match rows.first() {
            Some(first) => description(&self.data_set(*first)?),
            None => String::new(),
        };
        Ok(SeriesReport {
            series: series.clone(),
            description,
            instances,
            images: u64::try_from(places.len()).unwrap_or(u64::MAX),
            sizes,
            stacks,
            gaps: gaps.into_iter().flatten().collect(),
        })
    }
}
