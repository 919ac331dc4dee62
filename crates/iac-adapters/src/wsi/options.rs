//! How slides are opened and read, and what regions are.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use iac_codec::{DamageHandling, Limits};
use iac_format::ErrorKind;
use iac_reader::ReadOptions;

use super::schema::Mpp;
use super::stream::StreamOptions;

/// Whether derived overviews serve [`Resolution::Fast`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverviewUse {
    /// The file beside the pack if it fits the raster, else records inside of the pack, else none.
    #[default]
    Automatic,
    /// None.
    Never,
    /// This file, which must fit the raster.
    File(PathBuf),
}

/// How a pack is opened.
#[derive(Debug, Clone)]
pub struct WsiOpenOptions {
    pub(super) read: ReadOptions,
    pub(super) limits: Limits,
    pub(super) damage: DamageHandling,
    pub(super) tile_cache: usize,
    pub(super) render_cache: usize,
    pub(super) overview: OverviewUse,
}

impl Default for WsiOpenOptions {
    fn default() -> Self {
        Self {
            read: ReadOptions::default(),
            limits: Limits::default(),
            damage: DamageHandling::Refuse,
            tile_cache: 64 << 20,
            render_cache: 32 << 20,
            overview: OverviewUse::Automatic,
        }
    }
}

impl WsiOpenOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how bytes are read: the source, and whether checksums are compared (by default they
    /// are, before anything is decoded).
    #[must_use]
    pub fn reading(mut self, options: ReadOptions) -> Self {
        self.read = options;
        self
    }

    /// Sets bounds on what one tile or associated image may decode to.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets what happens at irregularities of JPEG tiles that the library can pass over, which
    /// scanners do write. Default: an error.
    #[must_use]
    pub const fn damage(mut self, damage: DamageHandling) -> Self {
        self.damage = damage;
        self
    }

    /// Sets the bytes of decoded tiles that are kept for later calls, of all clones of the reader
    /// together; default 64 MiB, 0 keeps none.
    #[must_use]
    pub const fn tile_cache(mut self, bytes: usize) -> Self {
        self.tile_cache = bytes;
        self
    }

    /// Sets the bytes of regions read at [`Resolution::Fast`] that are kept; default 32 MiB, 0
    /// keeps none.
    #[must_use]
    pub const fn render_cache(mut self, bytes: usize) -> Self {
        self.render_cache = bytes;
        self
    }

    /// Sets which overview is used.
    #[must_use]
    pub fn overview(mut self, overview: OverviewUse) -> Self {
        self.overview = overview;
        self
    }
}

/// What pixels of a region are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Resolution {
    /// The average of all native pixels that each covers, to the last bit as specified.
    #[default]
    Exact,
    /// What is there already at a lower resolution, or can be decoded at one: overviews, then
    /// tiles decoded smaller than they are, then the averages of native pixels. Within a mean of
    /// 1/255 of the exact region.
    Fast,
}

/// What happens when a tile cannot be read or decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDamage {
    /// The call fails.
    #[default]
    Fail,
    /// Background takes its place, and [`RegionImage::damaged`] names it.
    Fill,
}

/// How regions are read.
#[derive(Debug, Clone, Copy)]
pub struct WsiReadOptions {
    pub(super) workers: NonZeroUsize,
    pub(super) memory: u64,
    pub(super) resolution: Resolution,
    pub(super) on_damage: OnDamage,
    pub(super) raw_components: bool,
    pub(super) upsample: f64,
}

impl Default for WsiReadOptions {
    fn default() -> Self {
        Self {
            workers: NonZeroUsize::MIN,
            memory: 96 << 20,
            resolution: Resolution::Exact,
            on_damage: OnDamage::Fail,
            raw_components: false,
            upsample: 1.0,
        }
    }
}

impl WsiReadOptions {
    /// The defaults: one thread, exact, no damage, no enlargement.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the threads of a call, the calling one included; pixels never depend on it.
    #[must_use]
    pub const fn workers(mut self, workers: NonZeroUsize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the bytes of decoded tiles that a call has in memory at once, beside the pixels that it
    /// returns; default 96 MiB. A call never has less than two rows of the tiles that one column of
    /// its region covers.
    #[must_use]
    pub const fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets what pixels are made of.
    #[must_use]
    pub const fn resolution(mut self, resolution: Resolution) -> Self {
        self.resolution = resolution;
        self
    }

    /// Sets what happens at damage.
    #[must_use]
    pub const fn on_damage(mut self, on_damage: OnDamage) -> Self {
        self.on_damage = on_damage;
        self
    }

    /// Sets whether components of JPEG 2000 tiles are left as they are stored. By default those of
    /// TIFF compression 33003 are converted from YCbCr, which the reference does not do.
    #[must_use]
    pub const fn raw_components(mut self, raw: bool) -> Self {
        self.raw_components = raw;
        self
    }

    /// Allows regions finer than native by up to a factor, interpolated bilinearly; default 1, which
    /// refuses them. For data sets of several scanners: 0.25 from 0.2527 needs 1.011.
    #[must_use]
    pub const fn allow_upsample(mut self, factor: f64) -> Self {
        self.upsample = factor;
        self
    }

    pub(super) const fn stream(&self) -> StreamOptions {
        StreamOptions { workers: self.workers, memory: self.memory }
    }
}

/// A part of a slide in micrometres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// The left edge, in micrometres from that of the raster.
    pub x_um: f64,
    /// The upper edge, in micrometres from that of the raster.
    pub y_um: f64,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Micrometres per pixel of the region.
    pub mpp: Mpp,
}

/// A part of a slide in native pixels; it may reach out of the raster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeRegion {
    /// The left edge, in native pixels from that of the raster.
    pub x: i64,
    /// The upper edge, in native pixels from that of the raster.
    pub y: i64,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// Pixels of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionImage {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Red, green and blue of each pixel, row after row.
    pub pixels: Vec<u8>,
    /// Tiles in whose place is background, with [`OnDamage::Fill`].
    pub damaged: Vec<DamagedTile>,
}

/// A tile that could not be read or decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedTile {
    /// Column of the grid.
    pub tile_x: u64,
    /// Row of the grid.
    pub tile_y: u64,
    /// Row of the index table.
    pub row: u64,
    /// The kind of damage.
    pub kind: ErrorKind,
    /// What is wrong.
    pub reason: String,
}
