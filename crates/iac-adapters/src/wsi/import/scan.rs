//! Which tiles are background, and which colour that is.

use std::collections::BTreeMap;

use iac_ops::Progress;

use super::WsiImporter;
use super::in_order;
use super::raster::StoredRaster;
use crate::error::Result;
use crate::task::Task;

/// What a look at every tile has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) background: [u8; 3],
    /// Whether that is the most frequent colour of uniform tiles, not white by default.
    pub(super) counted: bool,
    /// The tiles to be stored, row by row.
    pub(super) stored: Vec<(u32, u32)>,
}

impl Scan {
    /// Looks at every tile.
    pub(super) fn run(
        raster: &StoredRaster<'_>,
        options: &WsiImporter,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let (across, down) = raster.grid();
        let task =
            Task::begin(progress, "looking for background", Some(across.saturating_mul(down)));
        // What the source says to be white is not handed to threads: it may be nearly all.
        let mut looked_at = Vec::new();
        in_order(
            raster.places().filter(|place| !raster.is_blank(*place)),
            options,
            progress,
            raster.tile_bytes(),
            |place| Ok((place, uniform(&raster.pixels(place)?))),
            |found| {
                looked_at.push(found);
                task.advance(1);
                Ok(())
            },
        )?;
        let mut looked_at = looked_at.into_iter().peekable();
        let colors: Vec<Option<[u8; 3]>> = raster
            .places()
            .map(|place| match looked_at.next_if(|(found, _)| *found == place) {
                Some((_, color)) => color,
                None => Some([255; 3]),
            })
            .collect();
        Ok(Self::of(raster.places(), &colors))
    }

    fn of(places: impl Iterator<Item = (u32, u32)>, colors: &[Option<[u8; 3]>]) -> Self {
        let mut counts: BTreeMap<[u8; 3], u64> = BTreeMap::new();
        for color in colors.iter().flatten() {
            let count = counts.entry(*color).or_default();
            *count = count.saturating_add(1);
        }
        let most = counts.values().copied().max().unwrap_or(0);
        // Of several, the first in order of red, green and blue.
        let winner = counts.iter().find(|(_, count)| **count == most).map(|(color, _)| *color);
        let stored = places
            .zip(colors)
            .filter(|(_, color)| color.is_none() || **color != winner)
            .map(|(place, _)| place);
        Self {
            stored: stored.collect(),
            background: winner.unwrap_or([255; 3]),
            counted: winner.is_some(),
        }
    }
}

/// The colour of all pixels, where there is only one.
fn uniform(pixels: &[u8]) -> Option<[u8; 3]> {
    let (pixels, _) = pixels.as_chunks::<3>();
    let first = pixels.first()?;
    pixels.iter().all(|pixel| pixel == first).then_some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_colour_wins_and_of_several_the_smallest() {
        let (a, b) = ([1, 2, 3], [1, 2, 4]);
        let places = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)];
        let scan = Scan::of(places.into_iter(), &[Some(b), None, Some(a), Some(b), Some(a)]);
        assert_eq!((scan.background, scan.counted), (a, true));
        assert_eq!(scan.stored, [(0, 0), (1, 0), (3, 0)]);
        let scan = Scan::of(places.into_iter(), &[None; 5]);
        assert_eq!((scan.background, scan.counted), ([255; 3], false));
        assert_eq!(scan.stored, places);
    }
}
