//! Where a slide shows tissue, and regions that do.

use super::options::{Region, Resolution, WsiReadOptions};
use super::read::WsiPackReader;
use super::schema::{Mpp, as_f64};
use crate::error::{AdapterError, Result};

/// Pixels that a mask may have.
const MAX_PIXELS: u64 = 1 << 26;

/// How tissue is told from glass.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TissueOptions {
    /// Micrometres per pixel of the mask; default 16, and never finer than the raster.
    pub mpp: f64,
    /// The least saturation of tissue, of 255; default 15.
    pub min_saturation: u8,
    /// The greatest value (the brightest colour) of tissue, of 255; default 240.
    pub max_value: u8,
}

impl Default for TissueOptions {
    fn default() -> Self {
        Self { mpp: 16.0, min_saturation: 15, max_value: 240 }
    }
}

impl TissueOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Which parts of a slide are tissue: coloured more than a threshold that the slide itself sets
/// (Otsu's, on the saturation of HSV), not nearly grey and not nearly white.
#[derive(Debug, Clone, PartialEq)]
pub struct TissueMask {
    width: usize,
    height: usize,
    mpp: Mpp,
    threshold: u8,
    pixels: Vec<bool>,
    /// Tissue above and to the left of each corner of a pixel: one row and one column more.
    sums: Vec<u64>,
}

impl TissueMask {
    /// The mask of a slide. `options` of reading decide about threads and damage; the resolution is
    /// always [`Resolution::Fast`].
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for micrometres per pixel that are no number above 0, or make a mask
    /// that is too large; otherwise as [`WsiPackReader::read_region`].
    pub fn compute(
        reader: &WsiPackReader,
        options: &TissueOptions,
        reading: &WsiReadOptions,
    ) -> Result<Self> {
        if !(options.mpp.is_finite() && options.mpp > 0.0) {
            return Err(AdapterError::usage(format!(
                "the mask's micrometres per pixel must be finite and above 0, found {}",
                options.mpp
            )));
        }
        let info = reader.info();
        // Whole steps, so that overviews and averages lie on one grid with it.
        let step = |native: f64| (options.mpp / native).round().max(1.0);
        let (step_x, step_y) = (step(info.mpp.x), step(info.mpp.y));
        let mpp = Mpp { x: info.mpp.x * step_x, y: info.mpp.y * step_y };
        let side = |pixels: u64, step: f64| {
            let side = (as_f64(pixels) / step).ceil();
            if side > f64::from(1_u32 << 20) {
                return Err(AdapterError::usage(format!("a mask of {side} pixels is too large")));
            }
            Ok(to_u32(side).max(1))
        };
        let (width, height) = (side(info.width, step_x)?, side(info.height, step_y)?);
        let pixels = u64::from(width).saturating_mul(height.into());
        if pixels > MAX_PIXELS {
            return Err(AdapterError::usage(format!(
                "a mask of {width} x {height} pixels has more than {MAX_PIXELS}"
            )));
        }
        let region = Region { x_um: 0.0, y_um: 0.0, width, height, mpp };
        let image = reader.read_region(&region, &reading.resolution(Resolution::Fast))?;
        Ok(Self::of_pixels(image.pixels.as_chunks::<3>().0, to_usize(width), mpp, options))
    }

    /// The mask of RGB pixels, `width` in a row.
    fn of_pixels(pixels: &[[u8; 3]], width: usize, mpp: Mpp, options: &TissueOptions) -> Self {
        let mut counts = [0_u64; 256];
        let saturations: Vec<(u8, u8)> = pixels.iter().map(saturation_and_value).collect();
        for (saturation, _) in &saturations {
            if let Some(count) = counts.get_mut(usize::from(*saturation)) {
                *count = count.saturating_add(1);
            }
        }
        let threshold = otsu(&counts);
        let pixels: Vec<bool> = saturations
            .into_iter()
            .map(|(saturation, value)| {
                saturation > threshold
                    && saturation >= options.min_saturation
                    && value <= options.max_value
            })
            .collect();
        let width = width.max(1);
        let height = pixels.len().checked_div(width).unwrap_or(0);
        let mut sums = vec![0_u64; width.saturating_add(1)];
        for row in pixels.chunks_exact(width) {
            let above = sums.len().saturating_sub(width).saturating_sub(1);
            let mut so_far = 0_u64;
            sums.push(0);
            for (column, is_tissue) in row.iter().enumerate() {
                so_far = so_far.saturating_add(u64::from(*is_tissue));
                let above = above.saturating_add(column).saturating_add(1);
                let above = sums.get(above).copied().unwrap_or(0);
                sums.push(above.saturating_add(so_far));
            }
        }
        Self { width, height, mpp, threshold, pixels, sums }
    }

    /// A mask without pixels, for grids that take all regions.
    pub(super) const fn none() -> Self {
        Self {
            width: 0,
            height: 0,
            mpp: Mpp::both(1.0),
            threshold: 0,
            pixels: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Pixels of a row of the mask.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Rows of the mask.
    #[must_use]
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Micrometres per pixel of the mask.
    #[must_use]
    pub const fn mpp(&self) -> Mpp {
        self.mpp
    }

    /// The saturation, of 255, above which pixels may be tissue: Otsu's threshold of this slide.
    #[must_use]
    pub const fn threshold(&self) -> u8 {
        self.threshold
    }

    /// Whether each pixel is tissue, row after row.
    #[must_use]
    pub fn pixels(&self) -> &[bool] {
        &self.pixels
    }

    /// The share of a region that is tissue, 0 to 1. Outside of the slide there is none.
    #[must_use]
    pub fn fraction(&self, region: &Region) -> f64 {
        let edges = |start: f64, count: u32, step: f64, mpp: f64, size: usize| {
            let end = start + f64::from(count) * step;
            let clip = |at: f64| (at / mpp).clamp(0.0, from_usize(size));
            (clip(start), clip(end), (end - start) / mpp)
        };
        let (left, right, across) =
            edges(region.x_um, region.width, region.mpp.x, self.mpp.x, self.width);
        let (top, bottom, down) =
            edges(region.y_um, region.height, region.mpp.y, self.mpp.y, self.height);
        let tissue = self.sum(right, bottom) - self.sum(left, bottom) - self.sum(right, top)
            + self.sum(left, top);
        let share = tissue / (across * down);
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Tissue above and to the left of a place, in pixels of the mask.
    fn sum(&self, x: f64, y: f64) -> f64 {
        let (column, row) = (x.floor(), y.floor());
        let (across, down) = (x - column, y - row);
        let (column, row) = (to_usize(to_u32(column)), to_usize(to_u32(row)));
        let at = |row: usize, column: usize| {
            let row = row.min(self.height);
            let column = column.min(self.width);
            let at = row.saturating_mul(self.width.saturating_add(1)).saturating_add(column);
            as_f64(self.sums.get(at).copied().unwrap_or(0))
        };
        let (next_row, next_column) = (row.saturating_add(1), column.saturating_add(1));
        let upper = at(row, column) * (1.0 - across) + at(row, next_column) * across;
        let lower = at(next_row, column) * (1.0 - across) + at(next_row, next_column) * across;
        upper * (1.0 - down) + lower * down
    }
}

/// Which regions of a slide are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct GridOptions {
    /// Pixels of a row of each region.
    pub width: u32,
    /// Rows of each region.
    pub height: u32,
    /// Micrometres per pixel of the regions.
    pub mpp: Mpp,
    /// Pixels from one region to the next, along x and y; default the region's size.
    pub stride: (u32, u32),
    /// The share of tissue that a region must exceed; default 0.5. Below 0 takes all.
    pub min_tissue: f64,
    /// Whether regions may reach out of the slide; default no.
    pub partial: bool,
}

impl GridOptions {
    /// Regions of so many pixels side by side, more than half of each being tissue.
    #[must_use]
    pub const fn new(width: u32, height: u32, mpp: Mpp) -> Self {
        Self { width, height, mpp, stride: (width, height), min_tissue: 0.5, partial: false }
    }
}

/// Regions of a grid, which begins at the slide's corner, that show enough tissue: row by row.
///
/// ```no_run
/// use iac_adapters::wsi::{
///     GridOptions, GridSampler, Mpp, TissueMask, TissueOptions, WsiPackReader, WsiReadOptions,
/// };
///
/// let slide = WsiPackReader::open("case-7.pat.iac")?;
/// let reading = WsiReadOptions::default();
/// let mask = TissueMask::compute(&slide, &TissueOptions::default(), &reading)?;
/// let options = GridOptions::new(224, 224, Mpp::both(0.5));
/// let regions: Vec<_> = GridSampler::new(&slide, &mask, options)?.collect();
/// let batch = slide.read_regions(&regions, &reading)?;
/// # let _ = batch;
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GridSampler<'a> {
    mask: &'a TissueMask,
    options: GridOptions,
    columns: u32,
    rows: u32,
    next: (u32, u32),
}

impl<'a> GridSampler<'a> {
    /// Lays the grid over a slide.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for regions without pixels, strides of 0, micrometres per pixel that
    /// are no numbers above 0, and grids beyond 2^32 regions along a side.
    pub fn new(reader: &WsiPackReader, mask: &'a TissueMask, options: GridOptions) -> Result<Self> {
        let (stride_x, stride_y) = options.stride;
        if options.width == 0 || options.height == 0 || stride_x == 0 || stride_y == 0 {
            return Err(AdapterError::usage("regions and strides must have at least 1 pixel"));
        }
        if !options.mpp.is_valid() || options.min_tissue.is_nan() {
            return Err(AdapterError::usage(format!(
                "micrometres per pixel must be finite and above 0, and the share of tissue a number, \
                 found {} and {}",
                options.mpp, options.min_tissue
            )));
        }
        let (width, height) = reader.info().physical_size();
        let count = |size: f64, pixels: u32, stride: u32, mpp: f64| {
            let (region, stride) = (f64::from(pixels) * mpp, f64::from(stride) * mpp);
            // A billionth of a step for numbers that rounding has moved.
            let count = if options.partial {
                (size / stride - 1e-9).ceil()
            } else {
                ((size - region) / stride + 1e-9).floor() + 1.0
            };
            if count > f64::from(u32::MAX) {
                return Err(AdapterError::usage(format!("a grid of {count} regions is too large")));
            }
            Ok(to_u32(count.max(0.0)))
        };
        Ok(Self {
            mask,
            columns: count(width, options.width, stride_x, options.mpp.x)?,
            rows: count(height, options.height, stride_y, options.mpp.y)?,
            options,
            next: (0, 0),
        })
    }
}

impl GridSampler<'_> {
    /// Regions of the grid, tissue or not.
    pub(super) fn cells(&self) -> u64 {
        u64::from(self.columns).saturating_mul(self.rows.into())
    }
}

impl Iterator for GridSampler<'_> {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        loop {
            let (column, row) = self.next;
            if row >= self.rows || self.columns == 0 {
                return None;
            }
            let following = column.saturating_add(1);
            self.next = if following < self.columns {
                (following, row)
            } else {
                (0, row.saturating_add(1))
            };
            let GridOptions { width, height, mpp, stride, .. } = self.options;
            let at =
                |number: u32, stride: u32, mpp: f64| f64::from(number) * f64::from(stride) * mpp;
            let region = Region {
                x_um: at(column, stride.0, mpp.x),
                y_um: at(row, stride.1, mpp.y),
                width,
                height,
                mpp,
            };
            if self.options.min_tissue < 0.0
                || self.mask.fraction(&region) > self.options.min_tissue
            {
                return Some(region);
            }
        }
    }
}

/// Saturation and value of HSV, of 255.
fn saturation_and_value(pixel: &[u8; 3]) -> (u8, u8) {
    let [red, green, blue] = pixel.map(u32::from);
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    let spread = most.saturating_sub(least).saturating_mul(255);
    let saturation = spread.saturating_add(most / 2).checked_div(most).unwrap_or(0);
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    (byte(saturation), byte(most))
}

/// The level that splits a histogram into two classes whose means differ most (Otsu): the first
/// class reaches up to it.
fn otsu(counts: &[u64; 256]) -> u8 {
    let total: u64 = counts.iter().sum();
    let weighted = |(level, count): (u8, &u64)| f64::from(level) * as_f64(*count);
    let whole: f64 = (0_u8..=255).zip(counts).map(weighted).sum();
    let (mut below, mut sum_below) = (0_u64, 0.0);
    let (mut best, mut threshold) = (0.0, 0);
    for (level, count) in (0_u8..=255).zip(counts) {
        below = below.saturating_add(*count);
        sum_below += weighted((level, count));
        let above = total.saturating_sub(below);
        if below == 0 || above == 0 {
            continue;
        }
        let distance = sum_below / as_f64(below) - (whole - sum_below) / as_f64(above);
        let between = as_f64(below) * as_f64(above) * distance * distance;
        if between > best {
            best = between;
            threshold = level;
        }
    }
    threshold
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn from_usize(number: usize) -> f64 {
    as_f64(u64::try_from(number).unwrap_or(u64::MAX))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is meant")]
const fn to_u32(number: f64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const PINK: [u8; 3] = [200, 80, 150];
    const GLASS: [u8; 3] = [244, 243, 245];

    fn half() -> TissueMask {
        // The left half of 8 x 4 pixels is tissue.
        let pixels: Vec<[u8; 3]> =
            (0..32).map(|at| if at % 8 < 4 { PINK } else { GLASS }).collect();
        TissueMask::of_pixels(&pixels, 8, Mpp::both(10.0), &TissueOptions::default())
    }

    fn region(x_um: f64, y_um: f64, size: u32) -> Region {
        Region { x_um, y_um, width: size, height: size, mpp: Mpp::both(1.0) }
    }

    #[test]
    fn shares_of_tissue_are_areas() {
        let mask = half();
        assert_eq!((mask.width(), mask.height()), (8, 4));
        let share = |x, y, size| mask.fraction(&region(x, y, size));
        assert!((share(0.0, 0.0, 20) - 1.0).abs() < 1e-12);
        assert!((share(30.0, 10.0, 20) - 0.5).abs() < 1e-12);
        assert!((share(35.0, 0.0, 20) - 0.25).abs() < 1e-12);
        assert!(share(60.0, 0.0, 20).abs() < 1e-12);
        assert!((share(-10.0, 0.0, 20) - 0.5).abs() < 1e-12);
        assert!(share(1e300, f64::MAX, 20).abs() < 1e-12);
    }

    #[test]
    fn white_and_grey_are_no_tissue_whatever_the_threshold() {
        let pixels: Vec<[u8; 3]> = vec![[250, 250, 250], [128, 127, 128], [245, 200, 245], [90; 3]];
        let mask = TissueMask::of_pixels(&pixels, 2, Mpp::both(1.0), &TissueOptions::default());
        assert_eq!(mask.pixels(), [false; 4]);
    }

    #[test]
    fn threshold_lies_between_two_heaps() {
        let mut counts = [0; 256];
        counts[10..20].fill(50);
        counts[100..140].fill(10);
        let threshold = otsu(&counts);
        assert!((19..100).contains(&threshold), "{threshold}");
        assert_eq!(otsu(&[0; 256]), 0);
    }
}
