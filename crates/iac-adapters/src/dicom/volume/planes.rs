//! A picture of three planes through the middle of a volume.

use iac_codec::{Image, ImageShape};

use super::affine::{Affine, count};
use super::array::{Volume, Voxels};
use super::label::LabelVolume;
use crate::dicom::values::{Window, windowed};
use crate::error::{AdapterError, Result};

/// Pixels between the planes.
const GAP: usize = 8;
/// Colours of labels, in the order of their values.
const COLORS: [[u8; 3]; 8] = [
    [230, 60, 60],
    [70, 190, 90],
    [70, 130, 240],
    [240, 200, 60],
    [200, 90, 220],
    [60, 210, 220],
    [245, 140, 50],
    [160, 160, 160],
];

/// How a picture is made.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PlaneOptions {
    /// What becomes black and white; default that of the volume, or, where it has none, from the 1st
    /// to the 99th percentile of what is shown.
    pub window: Option<Window>,
    /// Pixels that the longest axis of the volume gets, at most 4096; default 384.
    pub side: u32,
}

impl Default for PlaneOptions {
    fn default() -> Self {
        Self { window: None, side: 384 }
    }
}

impl PlaneOptions {
    /// The same with another window.
    #[must_use]
    pub const fn with_window(mut self, window: Option<Window>) -> Self {
        self.window = window;
        self
    }

    /// The same with another size.
    #[must_use]
    pub const fn with_side(mut self, side: u32) -> Self {
        self.side = side;
        self
    }
}

/// The patient's axes on the voxels: which axis of the voxels each of them is, and how long.
struct Axes {
    /// Axis of the voxels (0 columns, 1 rows, 2 slices), and whether it runs against.
    along: [(usize, bool); 3],
    counts: [usize; 3],
    /// Pixels of the picture.
    pixels: [usize; 3],
}

impl Axes {
    fn of(affine: &Affine, voxel_counts: [usize; 3], side: u32) -> Option<Self> {
        let along = affine.closest_axes();
        let lengths = affine.lengths();
        let counts = along.map(|(axis, _)| voxel_counts.get(axis).copied().unwrap_or(0));
        let extents = along.map(|(axis, _)| {
            let voxels = voxel_counts.get(axis).copied().unwrap_or(0);
            count(voxels) * lengths.get(axis).copied().unwrap_or(0.0)
        });
        let longest = extents.iter().copied().fold(0.0, f64::max);
        if !longest.is_finite() || longest <= 0.0 || counts.contains(&0) {
            return None;
        }
        let side = f64::from(side.clamp(1, 4096));
        let pixels = extents.map(|extent| whole((extent / longest * side).round()).max(1));
        Some(Self { along, counts, pixels })
    }

    /// The voxel that a pixel of each of the patient's axes shows: column, row, slice.
    fn voxel(&self, pixels: [Option<usize>; 3]) -> [f64; 3] {
        let mut voxel = [0.0; 3];
        for (axis, pixel) in pixels.iter().enumerate() {
            let get = |values: &[usize; 3]| values.get(axis).copied().unwrap_or(1);
            let (voxels, shown) = (count(get(&self.counts)), count(get(&self.pixels)));
            let last = voxels - 1.0;
            // The middle of the axis where no pixel says anything else.
            let place = pixel.map_or(last / 2.0, |pixel| {
                ((count(pixel) + 0.5) * voxels / shown - 0.5).clamp(0.0, last)
            });
            if let Some((of_voxels, backwards)) = self.along.get(axis)
                && let Some(slot) = voxel.get_mut(*of_voxels)
            {
                *slot = if *backwards { last - place } else { place };
            }
        }
        voxel
    }
}

/// Part of the picture: which of the patient's axes run to the right and down, and whether upwards.
struct View {
    right: usize,
    down: usize,
    upwards: bool,
}

/// From below, from the front, from the left: as radiologists look at a patient.
const VIEWS: [View; 3] = [
    View { right: 0, down: 1, upwards: false },
    View { right: 0, down: 2, upwards: true },
    View { right: 1, down: 2, upwards: true },
];

impl Volume {
    /// A picture of the three planes through the middle, each along two of the volume's axes: those
    /// nearest to axial, coronal and sagittal, from left to right. The patient's left is on the
    /// right, the head is up; voxels have their true proportions. Grey, or, with labels, RGB.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] when the volume has no extent, or the labels are those of another
    /// one.
    pub fn planes(&self, labels: Option<&LabelVolume>, options: &PlaneOptions) -> Result<Image> {
        let counts = self.counts();
        let axes = Axes::of(&self.affine, counts, options.side)
            .ok_or_else(|| AdapterError::usage("a volume without extent cannot be shown"))?;
        if labels.is_some_and(|labels| labels.volume.counts() != counts) {
            return Err(AdapterError::usage("the labels are those of another volume"));
        }
        let size = |axis: usize| axes.pixels.get(axis).copied().unwrap_or(1);
        let width = VIEWS
            .iter()
            .map(|view| size(view.right))
            .fold(GAP.saturating_mul(2), usize::saturating_add);
        let height = VIEWS.iter().map(|view| size(view.down)).max().unwrap_or(1);
        let mut shown: Vec<Option<f64>> = vec![None; width.saturating_mul(height)];
        let mut drawn: Vec<u16> = vec![0; if labels.is_some() { shown.len() } else { 0 }];
        let mut left = 0_usize;
        for view in &VIEWS {
            let (across, along) = (size(view.right), size(view.down));
            let top = height.saturating_sub(along) / 2;
            for y in 0..along {
                for x in 0..across {
                    let mut pixels = [None; 3];
                    let row =
                        if view.upwards { along.saturating_sub(y).saturating_sub(1) } else { y };
                    for (axis, pixel) in [(view.right, x), (view.down, row)] {
                        if let Some(place) = pixels.get_mut(axis) {
                            *place = Some(pixel);
                        }
                    }
                    let voxel = axes.voxel(pixels);
                    let at = top.saturating_add(y).saturating_mul(width);
                    let at = at.saturating_add(left).saturating_add(x);
                    if let Some(place) = shown.get_mut(at) {
                        *place = between(&self.voxels, voxel);
                    }
                    if let (Some(labels), Some(place)) = (labels, drawn.get_mut(at)) {
                        *place = label_at(&labels.volume.voxels, voxel);
                    }
                }
            }
            left = left.saturating_add(across).saturating_add(GAP);
        }
        let [slope, intercept] = self.scale.unwrap_or([1.0, 0.0]);
        for value in shown.iter_mut().flatten() {
            *value = *value * slope + intercept;
        }
        let window = options.window.or(self.window).unwrap_or_else(|| percentiles(&shown));
        let grey = shown.iter().map(|value| value.map_or(0, |value| windowed(value, window)));
        let pixels: Vec<u8> = if labels.is_some() {
            grey.zip(&drawn).flat_map(|(grey, label)| tinted(grey, *label)).collect()
        } else {
            grey.collect()
        };
        let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        let channels = if labels.is_some() { 3 } else { 1 };
        ImageShape::new(side(height), side(width), channels)
            .and_then(|shape| Image::new(shape, pixels))
            .map_err(|source| AdapterError::Codec { path: "planes".to_owned(), row: None, source })
    }
}

fn tinted(grey: u8, label: u16) -> [u8; 3] {
    let Some(number) = label.checked_sub(1) else {
        return [grey; 3];
    };
    let color = COLORS.iter().cycle().nth(usize::from(number)).copied().unwrap_or([255; 3]);
    color.map(|part| {
        let sum =
            u16::from(grey).saturating_mul(3).saturating_add(u16::from(part).saturating_mul(2));
        u8::try_from(sum / 5).unwrap_or(u8::MAX)
    })
}

fn label_at(voxels: &Voxels, [column, row, slice]: [f64; 3]) -> u16 {
    let at = [slice, row, column].map(|one| whole(one.round()));
    let label = voxels.get(at).unwrap_or(0.0);
    u16::try_from(super::slice::to_whole(label)).unwrap_or(0)
}

/// The value between voxels, linearly.
fn between(voxels: &Voxels, [column, row, slice]: [f64; 3]) -> Option<f64> {
    let low = [slice, row, column].map(f64::floor);
    let parts = [slice - low[0], row - low[1], column - low[2]];
    let mut sum = 0.0;
    for corner in 0..8_u8 {
        let mut weight = 1.0;
        let mut at = [0; 3];
        for (axis, place) in at.iter_mut().enumerate() {
            let upper = (corner >> axis) & 1 == 1;
            let (start, part) = (low.get(axis)?, parts.get(axis)?);
            weight *= if upper { *part } else { 1.0 - part };
            *place = whole(*start).saturating_add(usize::from(upper));
        }
        if weight > 0.0 {
            sum += weight * voxels.get(at)?;
        }
    }
    sum.is_finite().then_some(sum)
}

fn percentiles(shown: &[Option<f64>]) -> Window {
    let mut values: Vec<f64> = shown.iter().copied().flatten().collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = |part: f64| values.get(whole((count(last) * part).round()).min(last)).copied();
    let (low, high) = (at(0.01).unwrap_or(0.0), at(0.99).unwrap_or(1.0));
    if high <= low {
        return Window { center: low + 0.5, width: 2.0 };
    }
    // A window's bounds lie half a step inside, which matters where values are small.
    let width = (high - low) + 1.0;
    Window { center: (low + high) / 2.0 + 0.5, width }
}

/// A number that is whole and not negative.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // As it says.
const fn whole(number: f64) -> usize {
    number as usize
}
