//! Opening a pack, and reading regions of its slide.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use iac_codec::{CodecError, Image, ImageShape, Limits, Scale};
use iac_reader::PackReader;

use super::cache::{Cache, TileKey};
use super::fast::Renders;
use super::native::NativeRaster;
use super::options::{
    DamagedTile, NativeRegion, OverviewUse, Region, RegionImage, Resolution, WsiOpenOptions,
    WsiReadOptions,
};
use super::overview::Overview;
use super::plan::Axis;
use super::rows::{Rows, read_records, read_slide};
use super::schema::{Mpp, WsiInfo, as_f64};
use super::stream::render;
use super::tile::TileDecoder;
use super::{fast, upsample};
use crate::error::{AdapterError, Result};

/// Bytes that the pixels of one call may have.
const MAX_OUTPUT: u64 = 8 << 30;

/// Pixels that a side of a region may have.
const MAX_SIDE: u32 = 1 << 20;

/// Reads a whole slide.
///
/// Header and tables are checked when the pack is opened, without looking at any payload; see
/// [`from_reader`](Self::from_reader). Payloads are compared with their checksums before they are
/// decoded, unless the options say otherwise. Clones share everything, decoded tiles included, and
/// work from any number of threads at once; threads that need the same tile decode it once.
///
/// See the [module](crate::wsi) for an example.
#[derive(Clone)]
pub struct WsiPackReader {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) pack: PackReader,
    pub(super) info: WsiInfo,
    pub(super) rows: Rows,
    pub(super) decoder: TileDecoder,
    pub(super) limits: Limits,
    pub(super) tiles: Cache<TileKey>,
    pub(super) renders: Renders,
    overview_use: OverviewUse,
    overview: OnceLock<Option<Overview>>,
}

impl fmt::Debug for WsiPackReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsiPackReader")
            .field("path", &self.inner.pack.path())
            .field("info", &self.inner.info)
            .finish_non_exhaustive()
    }
}

impl WsiPackReader {
    /// Opens a pack with default options.
    ///
    /// # Errors
    ///
    /// As [`from_reader`](Self::from_reader), and those of [`PackReader::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &WsiOpenOptions::default())
    }

    /// Opens a pack.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &WsiOpenOptions) -> Result<Self> {
        Self::from_reader(PackReader::open_with(path, &options.read)?, options)
    }

    /// Reads a pack that is open already.
    ///
    /// # Errors
    ///
    /// [`AdapterError::PayloadType`] when it holds no slide; [`AdapterError::Unsupported`] for
    /// another version of the schema; [`AdapterError::Schema`] when header or tables break a rule;
    /// [`AdapterError::Read`] when they are damaged.
    pub fn from_reader(pack: PackReader, options: &WsiOpenOptions) -> Result<Self> {
        let mut info = WsiInfo::from_header(&pack)?;
        read_slide(&pack, &mut info)?;
        let rows = read_records(&pack, &info)?;
        let decoder = TileDecoder::new(&info, options.limits, options.damage);
        let reader = Self {
            inner: Arc::new(Inner {
                pack,
                info,
                rows,
                decoder,
                limits: options.limits,
                tiles: Cache::new(options.tile_cache),
                renders: Renders::new(options.render_cache),
                overview_use: options.overview.clone(),
                overview: OnceLock::new(),
            }),
        };
        if let OverviewUse::File(path) = &options.overview {
            let overview = Overview::open_file(&reader, path)?;
            let _ = reader.inner.overview.set(Some(overview));
        }
        Ok(reader)
    }

    /// What header and slide table say.
    #[must_use]
    pub fn info(&self) -> &WsiInfo {
        &self.inner.info
    }

    /// The pack: header, tables, stored bytes.
    #[must_use]
    pub fn reader(&self) -> &PackReader {
        &self.inner.pack
    }

    /// The row of the tile at a place of the grid, where one is stored.
    #[must_use]
    pub fn tile_row(&self, tile_x: u64, tile_y: u64) -> Option<u64> {
        self.inner.rows.tile(tile_x, tile_y)
    }

    /// The stored bytes of the tile at a place of the grid, where one is stored.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Read`] when they cannot be read.
    pub fn tile_payload(&self, tile_x: u64, tile_y: u64) -> Result<Option<Bytes>> {
        self.tile_row(tile_x, tile_y).map(|row| Ok(self.inner.pack.read(row)?)).transpose()
    }

    /// Rows of the index table that hold tiles, in the order of the table.
    #[must_use]
    pub fn tile_rows(&self) -> Vec<u64> {
        self.inner.rows.tiles.iter().map(|tile| tile.row.into()).collect()
    }

    /// The image of a row: a whole tile, without regard to where the raster ends, or an associated
    /// image.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Unsupported`] for a row that holds no image; [`AdapterError::Read`] and
    /// [`AdapterError::Codec`] when it is damaged.
    pub fn read_row_image(&self, row: u64) -> Result<Image> {
        let rows = &self.inner.rows;
        let (width, height, pixels) = if let Some(tile) = rows.tile_of(row) {
            let at = (tile.x.into(), tile.y.into());
            let pixels = self.decoded(at, row, Scale::Full, false, true)?;
            (self.info().tile_width, self.info().tile_height, pixels.to_vec())
        } else if let Some(image) =
            self.associated_images().into_iter().find(|image| image.row == row)
        {
            let image = self.read_associated(&image.name)?;
            (image.width, image.height, image.pixels)
        } else {
            return Err(AdapterError::Unsupported {
                path: self.reader().path().to_owned(),
                reason: format!("row {row} holds no image"),
            });
        };
        ImageShape::new(height, width, 3)
            .and_then(|shape| Image::new(shape, pixels))
            .map_err(|source| self.codec_error(row, source))
    }

    /// The overview that [`Resolution::Fast`] uses: its levels, as binary logarithms of how many
    /// native pixels a side of one of its pixels covers. Empty where there is none.
    #[must_use]
    pub fn overview_levels(&self) -> Vec<u32> {
        self.overview().map(Overview::levels).unwrap_or_default()
    }

    pub(super) fn overview(&self) -> Option<&Overview> {
        let overview = self.inner.overview.get_or_init(|| match self.inner.overview_use {
            OverviewUse::Never | OverviewUse::File(_) => None,
            OverviewUse::Automatic => Overview::find(self),
        });
        overview.as_ref()
    }

    /// A part of the raster as it is; background outside of it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for a region without pixels, or with more than fit into memory;
    /// [`AdapterError::Read`] and [`AdapterError::Codec`] when a tile that it touches is damaged.
    pub fn read_native(
        &self,
        region: &NativeRegion,
        options: &WsiReadOptions,
    ) -> Result<RegionImage> {
        let mut pixels = output(1, region.width, region.height)?;
        let keep = self.worth_keeping(f64::from(region.width) * f64::from(region.height));
        let source = self.native(options, keep);
        let info = self.info();
        let x = Axis::new(from_i64(region.x), 1.0, region.width, info.width);
        let y = Axis::new(from_i64(region.y), 1.0, region.height, info.height);
        render(&source, &x, &y, &mut pixels, options.stream())?;
        Ok(source.image(region.width, region.height, pixels))
    }

    /// A part of the slide, by micrometres.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for numbers that are not finite, a region without pixels or with
    /// more than fit into memory, and micrometres per pixel below those of the raster;
    /// [`AdapterError::Read`] and [`AdapterError::Codec`] when a tile that it touches is damaged.
    pub fn read_region(&self, region: &Region, options: &WsiReadOptions) -> Result<RegionImage> {
        let placed = self.place(region, options)?;
        let mut pixels = output(1, region.width, region.height)?;
        let damaged = self.render_placed(&placed, &mut pixels, options)?;
        Ok(RegionImage { width: region.width, height: region.height, pixels, damaged })
    }

    /// The whole slide, so small that neither side is longer than `size` pixels: its aspect ratio
    /// is kept to the pixel.
    ///
    /// # Errors
    ///
    /// As [`read_region`](Self::read_region).
    pub fn read_thumbnail(&self, size: u32, options: &WsiReadOptions) -> Result<RegionImage> {
        self.read_region(&self.thumbnail_region(size)?, options)
    }

    /// The region that [`read_thumbnail`](Self::read_thumbnail) reads.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for a size of 0.
    pub fn thumbnail_region(&self, size: u32) -> Result<Region> {
        let info = self.info();
        if size == 0 {
            return Err(AdapterError::usage("a thumbnail must have at least 1 pixel"));
        }
        let factor = (as_f64(info.width.max(info.height)) / f64::from(size)).max(1.0);
        let side = |pixels: u64| to_u32((as_f64(pixels) / factor).round()).clamp(1, size);
        let (width, height) = (side(info.width), side(info.height));
        // Each axis has a step of its own, so that the whole slide is covered.
        let mpp =
            |pixels: u64, side: u32, mpp: f64| mpp * (as_f64(pixels) / f64::from(side)).max(1.0);
        Ok(Region {
            x_um: 0.0,
            y_um: 0.0,
            width,
            height,
            mpp: Mpp {
                x: mpp(info.width, width, info.mpp.x),
                y: mpp(info.height, height, info.mpp.y),
            },
        })
    }

    /// Where a region lies in native pixels, checked.
    pub(super) fn place(&self, region: &Region, options: &WsiReadOptions) -> Result<Placed> {
        let info = self.info();
        for (name, value) in [("x_um", region.x_um), ("y_um", region.y_um)] {
            if !value.is_finite() {
                return Err(AdapterError::usage(format!("{name} must be finite, found {value}")));
            }
        }
        if region.width == 0 || region.height == 0 {
            return Err(no_pixels(region.width, region.height));
        }
        if !region.mpp.is_valid() {
            return Err(AdapterError::usage(format!(
                "micrometres per pixel must be finite and above 0, found {}",
                region.mpp
            )));
        }
        let (x, y) = (region.mpp.x / info.mpp.x, region.mpp.y / info.mpp.y);
        let is_finer = region.mpp.x + 1e-12 < info.mpp.x || region.mpp.y + 1e-12 < info.mpp.y;
        if is_finer {
            let allowed = options.upsample.is_finite()
                && options.upsample > 1.0
                && x * options.upsample >= 1.0 - 1e-9
                && y * options.upsample >= 1.0 - 1e-9;
            if !allowed {
                return Err(AdapterError::usage(format!(
                    "{} micrometres per pixel are finer than the native {}, which is refused unless \
                     an upsampling by {:.4} is allowed",
                    region.mpp,
                    info.mpp,
                    (1.0 / x).max(1.0 / y)
                )));
            }
        }
        Ok(Placed {
            start: [region.x_um / info.mpp.x, region.y_um / info.mpp.y],
            step: if is_finer { [x, y] } else { [x.max(1.0), y.max(1.0)] },
            size: [region.width, region.height],
            upsample: is_finer,
        })
    }

    /// Makes the pixels of a placed region; gives the tiles that are damaged.
    pub(super) fn render_placed(
        &self,
        placed: &Placed,
        pixels: &mut [u8],
        options: &WsiReadOptions,
    ) -> Result<Vec<DamagedTile>> {
        if placed.upsample {
            return upsample::render(self, placed, pixels, options);
        }
        if options.resolution == Resolution::Fast {
            return fast::render_fast(self, placed, pixels, options);
        }
        self.render_exact(placed, pixels, options)
    }

    pub(super) fn render_exact(
        &self,
        placed: &Placed,
        pixels: &mut [u8],
        options: &WsiReadOptions,
    ) -> Result<Vec<DamagedTile>> {
        let source = self.native(options, self.worth_keeping(placed.native_pixels()));
        let info = self.info();
        let (x, y) = placed.axes((1.0, 0.0), info.width, info.height);
        render(&source, &x, &y, pixels, options.stream())?;
        Ok(source.damaged())
    }

    /// Whether decoded tiles of a region are kept: those of a large one would push out all others.
    pub(super) fn worth_keeping(&self, pixels: f64) -> bool {
        let budget = as_f64(u64::try_from(self.inner.tiles.budget()).unwrap_or(u64::MAX));
        pixels * 3.0 <= budget / 2.0
    }

    pub(super) fn native(&self, options: &WsiReadOptions, keep: bool) -> NativeRaster<'_> {
        NativeRaster {
            reader: self,
            scale: Scale::Full,
            raw: options.raw_components,
            keep,
            on_damage: options.on_damage,
            damaged: Mutex::new(Vec::new()),
        }
    }

    /// A tile's pixels, from the cache or decoded.
    pub(super) fn decoded(
        &self,
        (x, y): (u64, u64),
        row: u64,
        scale: Scale,
        raw: bool,
        keep: bool,
    ) -> Result<Bytes> {
        let key = TileKey { level: 0, row, scale: scale.denominator(), raw };
        self.inner.tiles.get_or_make(key, keep, || self.decode_tile((x, y), row, scale, raw))
    }

    /// A tile's pixels, decoded. At a smaller scale, tiles that reach out of the raster are averaged
    /// with background there.
    fn decode_tile(&self, at: (u64, u64), row: u64, scale: Scale, raw: bool) -> Result<Bytes> {
        let payload = self.inner.pack.read(row)?;
        let decode = |scale| {
            let pixels = self.inner.decoder.decode(&payload, scale, raw);
            pixels.map_err(|source| self.codec_error(row, source))
        };
        if scale == Scale::Full || self.fills_blocks(at, scale) {
            return Ok(Bytes::from(decode(scale)?));
        }
        Ok(Bytes::from(fast::reduce_edge_tile(self.info(), at, &decode(Scale::Full)?, scale)))
    }

    /// Whether the part of a tile that lies in the raster is made of whole blocks.
    fn fills_blocks(&self, (x, y): (u64, u64), scale: Scale) -> bool {
        let info = self.info();
        let fills = |size: u64, tile: u32, at: u64| {
            let left = size.saturating_sub(at.saturating_mul(tile.into()));
            left >= u64::from(tile) || left.is_multiple_of(scale.denominator().into())
        };
        fills(info.width, info.tile_width, x) && fills(info.height, info.tile_height, y)
    }

    pub(super) fn codec_error(&self, row: u64, source: CodecError) -> AdapterError {
        AdapterError::Codec { path: self.inner.pack.path().to_owned(), row: Some(row), source }
    }
}

/// A region in native pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placed {
    pub(super) start: [f64; 2],
    /// Native pixels for each pixel of the region.
    pub(super) step: [f64; 2],
    pub(super) size: [u32; 2],
    pub(super) upsample: bool,
}

impl Placed {
    /// The axes in a raster of which each pixel covers `factor` native ones along each side, and
    /// lies `shift` of its own pixels behind their middle.
    pub(super) fn axes(
        &self,
        (factor, shift): (f64, f64),
        width: u64,
        height: u64,
    ) -> (Axis, Axis) {
        let axis = |start: f64, step: f64, count, size| {
            let axis = Axis::new(start / factor + shift, step / factor, count, size);
            if factor == 1.0 { axis } else { axis.softened(size) }
        };
        let ([x, y], [step_x, step_y], [across, down]) = (self.start, self.step, self.size);
        (axis(x, step_x, across, width), axis(y, step_y, down, height))
    }

    /// Native pixels that it covers.
    pub(super) fn native_pixels(&self) -> f64 {
        let [across, down] = self.size.map(f64::from);
        let [step_x, step_y] = self.step;
        across * step_x * down * step_y
    }
}

/// Room for the pixels of regions.
pub(super) fn output(count: usize, width: u32, height: u32) -> Result<Vec<u8>> {
    if width == 0 || height == 0 {
        return Err(no_pixels(width, height));
    }
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(AdapterError::usage(format!(
            "a region of {width} x {height} pixels has a side above {MAX_SIDE}"
        )));
    }
    let bytes = u64::from(width)
        .checked_mul(height.into())
        .and_then(|pixels| pixels.checked_mul(3))
        .and_then(|bytes| bytes.checked_mul(u64::try_from(count).ok()?))
        .filter(|bytes| *bytes <= MAX_OUTPUT);
    let mut pixels = Vec::new();
    let fits = bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| pixels.try_reserve_exact(*bytes).is_ok());
    let Some(bytes) = fits else {
        return Err(AdapterError::usage(format!(
            "{count} regions of {width} x {height} pixels do not fit into memory (the limit is \
             {MAX_OUTPUT} bytes)"
        )));
    };
    pixels.resize(bytes, 0);
    Ok(pixels)
}

fn no_pixels(width: u32, height: u32) -> AdapterError {
    AdapterError::usage(format!("a region of {width} x {height} pixels has no pixels"))
}

#[allow(clippy::cast_precision_loss, reason = "beyond 2^53 there is background alone")]
const fn from_i64(number: i64) -> f64 {
    number as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is meant")]
const fn to_u32(number: f64) -> u32 {
    number as u32
}
