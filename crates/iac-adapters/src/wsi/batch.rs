//! Many regions at once, for training: a tile that several of them touch is decoded once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;

use bytes::Bytes;

use super::fast::{Choice, choose, raster_of};
use super::native::{NativeRaster, is_damage};
use super::options::{DamagedTile, Region, WsiReadOptions};
use super::parallel::in_parallel;
use super::plan::Axis;
use super::raster::{Grid, TileSource};
use super::read::{Placed, WsiPackReader, output};
use super::stream::{StreamOptions, covered, render, tiles};
use crate::error::{AdapterError, Result};

/// Regions of one size in one buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionBatch {
    /// Regions.
    pub count: usize,
    /// Rows of each.
    pub height: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Region after region, rows of pixels of three bytes (NHWC).
    pub pixels: Vec<u8>,
    /// Tiles in whose place is background, with [`OnDamage::Fill`](super::OnDamage::Fill).
    pub damaged: Vec<DamagedTile>,
}

/// A region on its way: where it lies, and where its pixels go.
struct Item<'a> {
    placed: Placed,
    x: Axis,
    y: Axis,
    out: &'a mut [u8],
}

impl WsiPackReader {
    /// Many regions of one size, in the order asked for: N x H x W x 3. Tiles that several regions
    /// touch are decoded once, and regions are made on several threads if the options allow it.
    ///
    /// ```no_run
    /// use iac_adapters::wsi::{Mpp, Region, WsiPackReader, WsiReadOptions};
    ///
    /// let slide = WsiPackReader::open("case-7.pat.iac")?;
    /// let corner = |x_um| Region { x_um, y_um: 0.0, width: 224, height: 224, mpp: Mpp::both(0.5) };
    /// let regions: Vec<Region> = [0.0, 56.0, 112.0].map(corner).into();
    /// let batch = slide.read_regions(&regions, &WsiReadOptions::default())?;
    /// assert_eq!(batch.pixels.len(), 3 * 224 * 224 * 3);
    /// # Ok::<(), iac_adapters::AdapterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] when the regions are of several sizes; otherwise as
    /// [`read_region`](Self::read_region). One bad region fails the whole call.
    pub fn read_regions(
        &self,
        regions: &[Region],
        options: &WsiReadOptions,
    ) -> Result<RegionBatch> {
        let Some(first) = regions.first() else {
            return Ok(RegionBatch {
                count: 0,
                height: 0,
                width: 0,
                pixels: Vec::new(),
                damaged: Vec::new(),
            });
        };
        let mut pixels = output(regions.len(), first.width, first.height)?;
        let damaged = self.read_regions_into(regions, &mut pixels, options)?;
        Ok(RegionBatch {
            count: regions.len(),
            height: first.height,
            width: first.width,
            pixels,
            damaged,
        })
    }

    /// The same into a buffer of the caller's, which must have the size of the batch. Gives the
    /// tiles in whose place is background, with [`OnDamage::Fill`](super::OnDamage::Fill).
    ///
    /// # Errors
    ///
    /// As [`read_regions`](Self::read_regions), and [`AdapterError::Usage`] when the buffer has
    /// another size. What is in the buffer after an error is not specified.
    pub fn read_regions_into(
        &self,
        regions: &[Region],
        pixels: &mut [u8],
        options: &WsiReadOptions,
    ) -> Result<Vec<DamagedTile>> {
        let Some(first) = regions.first() else { return Ok(Vec::new()) };
        let other = regions
            .iter()
            .position(|region| (region.width, region.height) != (first.width, first.height));
        if let Some(position) = other {
            return Err(AdapterError::usage(format!(
                "regions of a batch must be of one size, but region {position} is not of {} x {} \
                 pixels",
                first.width, first.height
            )));
        }
        let each = u64::from(first.width).saturating_mul(first.height.into()).saturating_mul(3);
        let each = usize::try_from(each).unwrap_or(usize::MAX);
        if each.checked_mul(regions.len()) != Some(pixels.len()) || each == 0 {
            return Err(AdapterError::usage(format!(
                "a buffer of {} bytes is not one of {} regions of {} x {} pixels",
                pixels.len(),
                regions.len(),
                first.width,
                first.height
            )));
        }
        let mut groups: BTreeMap<Choice, Vec<Item<'_>>> = BTreeMap::new();
        let mut damaged = Vec::new();
        for (region, out) in regions.iter().zip(pixels.chunks_exact_mut(each)) {
            let placed = self.place(region, options)?;
            if placed.upsample {
                damaged.extend(self.render_placed(&placed, out, options)?);
                continue;
            }
            let choice = choose(self, &placed, options);
            let grid = match choice {
                Choice::Native(scale) => {
                    NativeRaster { scale, ..self.native(options, false) }.grid()
                }
                Choice::Level(level) => match self.overview() {
                    Some(overview) => overview.level(self, level)?.grid(),
                    None => self.native(options, false).grid(),
                },
            };
            let (x, y) = placed.axes(raster_of(self, choice), grid.width, grid.height);
            groups.entry(choice).or_default().push(Item { placed, x, y, out });
        }
        for (choice, items) in groups {
            damaged.extend(self.render_group(choice, items, options)?);
        }
        damaged.sort_unstable_by_key(|tile| (tile.tile_y, tile.tile_x));
        damaged.dedup();
        Ok(damaged)
    }

    fn render_group(
        &self,
        choice: Choice,
        items: Vec<Item<'_>>,
        options: &WsiReadOptions,
    ) -> Result<Vec<DamagedTile>> {
        match choice {
            Choice::Native(scale) => {
                // What the group shares is pinned here, so that the cache is spared.
                let source = NativeRaster { scale, ..self.native(options, true) };
                render_items(&source, items, options)?;
                Ok(source.damaged())
            }
            Choice::Level(level) => {
                let Some(overview) = self.overview() else { return Ok(Vec::new()) };
                let placed: Vec<Placed> = items.iter().map(|item| item.placed).collect();
                let source = overview.level(self, level)?;
                let mut items = items;
                let lent = items.iter_mut().map(|item| Item {
                    placed: item.placed,
                    x: item.x.clone(),
                    y: item.y.clone(),
                    out: &mut *item.out,
                });
                match render_items(&source, lent.collect(), options) {
                    Ok(()) => Ok(Vec::new()),
                    // An overview can be made anew; until then the raster serves.
                    Err(error) if is_damage(error.kind()) => {
                        let mut damaged = Vec::new();
                        for (placed, item) in placed.iter().zip(items) {
                            damaged.extend(self.render_exact(placed, item.out, options)?);
                        }
                        Ok(damaged)
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// Makes regions of one raster, neighbours together.
fn render_items(
    source: &dyn TileSource,
    mut items: Vec<Item<'_>>,
    options: &WsiReadOptions,
) -> Result<()> {
    let grid = source.grid();
    items.sort_by_key(|item| {
        let at = |start: u64, tile: u64| start.checked_div(tile.max(1)).unwrap_or(0);
        (at(item.y.covered.start, grid.tile_height), at(item.x.covered.start, grid.tile_width))
    });
    let budget = options.memory.checked_div(grid.tile_cost()).unwrap_or(1).max(1);
    let mut group: Vec<Item<'_>> = Vec::new();
    let mut wanted: BTreeSet<(u64, u64)> = BTreeSet::new();
    for item in items {
        // As for one region: a tile that none of its pixels shows is not decoded.
        let nothing = item.x.inside.is_empty() || item.y.inside.is_empty();
        let rows = if nothing { 0..0 } else { tiles(&item.y.covered, grid.tile_height) };
        let columns = tiles(&covered(&item.x, &item.x.inside), grid.tile_width);
        let count = |range: &std::ops::Range<u64>| range.end.saturating_sub(range.start);
        let own = count(&rows).saturating_mul(count(&columns));
        if own > budget {
            // Too large to be held: it streams through by itself.
            render(source, &item.x, &item.y, item.out, options.stream())?;
            continue;
        }
        let held = u64::try_from(wanted.len()).unwrap_or(u64::MAX);
        if held.saturating_add(own) > budget {
            render_together(source, std::mem::take(&mut group), &wanted, options)?;
            wanted.clear();
        }
        wanted.extend(rows.flat_map(|y| columns.clone().map(move |x| (y, x))));
        group.push(item);
    }
    render_together(source, group, &wanted, options)
}

/// Decodes the tiles that regions need, then makes the regions.
fn render_together(
    source: &dyn TileSource,
    group: Vec<Item<'_>>,
    wanted: &BTreeSet<(u64, u64)>,
    options: &WsiReadOptions,
) -> Result<()> {
    let places: Vec<(u64, u64)> = wanted.iter().copied().collect();
    let decoded = in_parallel(options.workers, places.clone(), |(y, x)| source.tile(x, y));
    let mut held = HashMap::with_capacity(places.len());
    for (place, tile) in places.into_iter().zip(decoded) {
        held.insert(place, tile?);
    }
    let held = Held { grid: source.grid(), tiles: held };
    // Each region on one thread.
    let stream = StreamOptions { workers: NonZeroUsize::MIN, memory: options.memory };
    let done = in_parallel(options.workers, group, |item| {
        render(&held, &item.x, &item.y, item.out, stream)
    });
    done.into_iter().collect()
}

/// Tiles that are there already.
struct Held {
    grid: Grid,
    tiles: HashMap<(u64, u64), Option<Bytes>>,
}

impl TileSource for Held {
    fn grid(&self) -> Grid {
        self.grid
    }

    fn tile(&self, x: u64, y: u64) -> Result<Option<Bytes>> {
        Ok(self.tiles.get(&(y, x)).cloned().flatten())
    }
}
