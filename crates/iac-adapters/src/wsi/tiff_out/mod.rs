//! A slide as one BigTIFF file: its raster in tiles, smaller versions of it, and its associated images.

mod encode;
mod layout;
mod ome;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_ops::Progress;
use iac_ops::ordered::Bounds;

use self::encode::{StoredJpeg, TileEncoder};
use self::layout::{Directory, TiffWriter};
use self::ome::Named;
use super::options::{NativeRegion, Resolution, WsiReadOptions};
use super::parallel::in_order;
use super::read::{Placed, WsiPackReader, output};
use super::schema::{Mpp, as_f64};
use crate::error::{AdapterError, Result};
use crate::new_file::NewFile;
use crate::task::{Task, check_cancelled};

const SUBFILE_TYPE: u16 = 254;
const WIDTH: u16 = 256;
const LENGTH: u16 = 257;
const BITS: u16 = 258;
const DESCRIPTION: u16 = 270;
const STRIP_OFFSETS: u16 = 273;
const SAMPLES: u16 = 277;
const ROWS_PER_STRIP: u16 = 278;
const STRIP_COUNTS: u16 = 279;
const X_RESOLUTION: u16 = 282;
const Y_RESOLUTION: u16 = 283;
const PLANAR: u16 = 284;
const PAGE_NAME: u16 = 285;
const UNIT: u16 = 296;
const SOFTWARE: u16 = 305;
const TILE_WIDTH: u16 = 322;
const TILE_LENGTH: u16 = 323;
const TILE_OFFSETS: u16 = 324;
const TILE_COUNTS: u16 = 325;
const ICC: u16 = 34675;

/// Sides of a version below which no smaller one is made.
const LEAST: u64 = 1024;
/// Bytes that the lists of a page's tiles are allowed to take.
const MAX_TILES: u64 = 1 << 26;

/// How the smaller versions and the description of a file are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TiffFlavor {
    /// Smaller versions are pages that follow the raster, as `OpenSlide` and most programs read them.
    #[default]
    Pages,
    /// OME-TIFF: the description is XML of OME, and smaller versions lie below the raster's page.
    Ome,
}

/// How the tiles of the raster are written. All but JPEG have the native pixels of the pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TiffTiles {
    /// JPEG tiles as they were in the slide's file, where the pack has such; otherwise deflated.
    #[default]
    Stored,
    /// Deflated, which every program reads, and which takes most bytes.
    Deflate,
    /// As JPEG of a quality from 1 to 100.
    Jpeg(u8),
}

/// How a slide becomes a TIFF file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TiffExportOptions {
    /// How versions and description are laid out.
    pub flavor: TiffFlavor,
    /// How tiles are written.
    pub tiles: TiffTiles,
    /// Pixels along both sides of tiles that are encoded, a multiple of 16; default 512.
    pub tile: u32,
    /// How much smaller each version is than the one before, 2 to 16, or 0 for none; default 4.
    pub step: u32,
    /// The quality of smaller versions where the raster is JPEG; default 90.
    pub quality: u8,
    /// How smaller versions are made; default [`Resolution::Fast`].
    pub resolution: Resolution,
    /// Whether associated images become pages; default yes.
    pub associated: bool,
    /// Whether an existing file is replaced; default no.
    pub overwrite: bool,
    /// Threads; default (`None`) all cores. The file does not depend on it.
    pub workers: Option<NonZeroUsize>,
    /// Bytes that tiles in work may take; default 96 MiB.
    pub memory: u64,
}

impl Default for TiffExportOptions {
    fn default() -> Self {
        Self {
            flavor: TiffFlavor::Pages,
            tiles: TiffTiles::Stored,
            tile: 512,
            step: 4,
            quality: 90,
            resolution: Resolution::Fast,
            associated: true,
            overwrite: false,
            workers: None,
            memory: 96 << 20,
        }
    }
}

impl TiffExportOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TiffExportSummary {
    /// The file.
    pub path: PathBuf,
    /// Versions, the raster among them.
    pub levels: u32,
    /// How the raster is compressed: `jpeg` or `deflate`.
    pub compression: &'static str,
    /// Whether its tiles are the bytes that they were in the slide's file.
    pub as_stored: bool,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Places of the tiles of a page.
#[derive(Default)]
struct Spans {
    offsets: Vec<u64>,
    counts: Vec<u64>,
}

impl Spans {
    fn add(&mut self, (offset, count): (u64, u64)) {
        self.offsets.push(offset);
        self.counts.push(count);
    }
}

/// A version of the raster.
struct Version {
    width: u64,
    height: u64,
    /// Native pixels along a side of one of its pixels.
    scale: u64,
}

impl WsiPackReader {
    /// Writes the slide as a BigTIFF file in tiles, with smaller versions. It appears once it is complete.
    ///
    /// The raster has the native pixels of the pack, unless [`TiffTiles::Jpeg`] is asked for. JPEG tiles
    /// that are as they were in the slide's file are not decoded for it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for options out of their range; [`AdapterError::Write`] when the file
    /// exists, [`AdapterError::Io`] when it cannot be written; [`AdapterError::Read`] and
    /// [`AdapterError::Codec`] for damaged tiles; [`AdapterError::Ops`] when stopped through `progress`.
    pub fn export_tiff(
        &self,
        path: impl AsRef<Path>,
        options: &TiffExportOptions,
        progress: &dyn Progress,
    ) -> Result<TiffExportSummary> {
        let path = path.as_ref();
        check(options)?;
        let mut file = NewFile::create(path, options.overwrite)?;
        let export = Export { slide: self, path, options, progress };
        let summary = export.run(file.file())?;
        file.publish()?;
        Ok(summary)
    }
}

fn check(options: &TiffExportOptions) -> Result<()> {
    if options.tile == 0 || options.tile > 16_384 || !options.tile.is_multiple_of(16) {
        return Err(AdapterError::usage(format!(
            "tiles of TIFF files have sides that are multiples of 16 up to 16384, found {}",
            options.tile
        )));
    }
    if options.step == 1 || options.step > 16 {
        return Err(AdapterError::usage(format!(
            "smaller versions are smaller by 2 to 16, or there are none (0), found {}",
            options.step
        )));
    }
    let qualities = match options.tiles {
        TiffTiles::Jpeg(quality) => [quality, options.quality],
        _ => [options.quality; 2],
    };
    if let Some(quality) = qualities.iter().find(|quality| !(1..=100).contains(*quality)) {
        return Err(AdapterError::usage(format!("the quality is {quality} instead of 1 to 100")));
    }
    Ok(())
}

/// An export on its way.
struct Export<'a> {
    slide: &'a WsiPackReader,
    path: &'a Path,
    options: &'a TiffExportOptions,
    progress: &'a dyn Progress,
}

type Out<'a> = TiffWriter<&'a mut tempfile::NamedTempFile>;

impl Export<'_> {
    fn run(&self, file: &mut tempfile::NamedTempFile) -> Result<TiffExportSummary> {
        let mut out = TiffWriter::new(file).map_err(self.io())?;
        let versions = self.versions();
        let tiles: u64 = versions.iter().map(|it| grid(it, self.options.tile).2).sum();
        if tiles > MAX_TILES {
            return Err(AdapterError::usage(format!(
                "{tiles} tiles are more than the {MAX_TILES} that are written: choose larger ones"
            )));
        }
        let task = Task::begin(self.progress, "writing tiles", None);
        let (mut raster, compression, as_stored) = self.raster(&mut out, &versions, &task)?;
        let mut below = Vec::new();
        let encoder = if compression == "jpeg" {
            // A build without an encoder of JPEG writes larger files.
            TileEncoder::jpeg(self.options.quality).unwrap_or(TileEncoder::Deflate)
        } else {
            TileEncoder::Deflate
        };
        for version in versions.iter().skip(1) {
            let mut directory = self.page(version, &encoder, true);
            self.encoded(&mut out, version, &encoder, &task)?.put(
                &mut directory,
                TILE_OFFSETS,
                TILE_COUNTS,
            );
            below.push(directory);
        }
        let associated = self.associated(&mut out)?;
        raster.text(DESCRIPTION, &self.description(associated.iter().map(|it| &it.image)));
        let mut directories = Vec::new();
        match self.options.flavor {
            TiffFlavor::Pages => {
                directories.push(raster);
                directories.extend(below);
            }
            TiffFlavor::Ome => {
                for directory in below {
                    raster.add_below(directory);
                }
                directories.push(raster);
            }
        }
        directories.extend(associated.into_iter().map(|it| it.directory));
        let bytes = out.finish(directories).map_err(self.io())?;
        Ok(TiffExportSummary {
            path: self.path.to_owned(),
            levels: u32::try_from(versions.len()).unwrap_or(u32::MAX),
            compression,
            as_stored,
            bytes,
        })
    }

    fn io(&self) -> impl FnOnce(std::io::Error) -> AdapterError + use<> {
        AdapterError::io(self.path, "cannot write the file")
    }

    fn codec_error(&self, source: iac_codec::CodecError) -> AdapterError {
        AdapterError::Codec { path: self.slide.reader().path().to_owned(), row: None, source }
    }

    fn bounds(&self) -> Bounds {
        Bounds { workers: self.options.workers, cost: self.options.memory }
    }

    /// The raster, and what is smaller.
    fn versions(&self) -> Vec<Version> {
        let info = self.slide.info();
        let mut versions = vec![Version { width: info.width, height: info.height, scale: 1 }];
        let step = u64::from(self.options.step);
        if step < 2 {
            return versions;
        }
        let mut scale = step;
        while versions.last().is_some_and(|last| last.width.max(last.height) > LEAST) {
            let side = |side: u64| side.div_ceil(scale);
            versions.push(Version { width: side(info.width), height: side(info.height), scale });
            scale = scale.saturating_mul(step);
        }
        versions
    }

    /// Writes the tiles of the raster.
    fn raster(
        &self,
        out: &mut Out<'_>,
        versions: &[Version],
        task: &Task<'_>,
    ) -> Result<(Directory, &'static str, bool)> {
        let Some(version) = versions.first() else {
            return Err(AdapterError::usage("the slide has no pixels"));
        };
        let stored = match self.options.tiles {
            TiffTiles::Stored => self.stored_jpeg()?,
            _ => None,
        };
        if let Some(stored) = stored {
            let info = self.slide.info();
            let mut directory = self.form(version, (info.tile_width, info.tile_height), false);
            stored.describe(&mut directory);
            let spans = self.copied(out, &stored, task)?;
            spans.put(&mut directory, TILE_OFFSETS, TILE_COUNTS);
            return Ok((directory, "jpeg", true));
        }
        let (encoder, name) = match self.options.tiles {
            TiffTiles::Jpeg(quality) => {
                (TileEncoder::jpeg(quality).map_err(|error| self.codec_error(error))?, "jpeg")
            }
            _ => (TileEncoder::Deflate, "deflate"),
        };
        let mut directory = self.page(version, &encoder, false);
        let spans = self.encoded(out, version, &encoder, task)?;
        spans.put(&mut directory, TILE_OFFSETS, TILE_COUNTS);
        Ok((directory, name, false))
    }

    /// How tiles are written as they are, where they can be.
    fn stored_jpeg(&self) -> Result<Option<StoredJpeg>> {
        let info = self.slide.info();
        // Other readers of TIFF files refuse tiles of other sides.
        if !info.tile_width.is_multiple_of(16) || !info.tile_height.is_multiple_of(16) {
            return Ok(None);
        }
        let tiles = &self.slide.inner.rows.tiles;
        let Some(first) = tiles.first() else { return Ok(None) };
        let Some(first) = self.slide.original_tile(first.x.into(), first.y.into())? else {
            return Ok(None);
        };
        let cells = info.grid_width.saturating_mul(info.grid_height);
        Ok(StoredJpeg::of(info, &first, info.stored_tiles < cells))
    }

    /// Writes stored tiles.
    fn copied(&self, out: &mut Out<'_>, stored: &StoredJpeg, task: &Task<'_>) -> Result<Spans> {
        let info = self.slide.info();
        let (across, down) = (info.grid_width, info.grid_height);
        let cost = u64::from(info.tile_width).saturating_mul(info.tile_height.into());
        let places = (0..down).flat_map(|y| (0..across).map(move |x| (x, y)));
        let mut spans = Spans::default();
        let mut white = None;
        in_order(
            places,
            self.bounds(),
            self.progress,
            cost,
            |(x, y)| {
                let original = self.slide.original_tile(x, y)?;
                let is_there = original.is_some();
                let tile = stored.tile(original.as_deref());
                Ok((is_there, tile.map_err(|error| self.codec_error(error))?))
            },
            |(is_there, tile)| {
                self.put_tile(out, &mut spans, (!is_there).then_some(&mut white), &tile)?;
                task.advance(1);
                Ok(())
            },
        )?;
        Ok(spans)
    }

    /// Makes and writes the tiles of a version.
    fn encoded(
        &self,
        out: &mut Out<'_>,
        version: &Version,
        encoder: &TileEncoder,
        task: &Task<'_>,
    ) -> Result<Spans> {
        let tile = self.options.tile;
        let (across, down, _) = grid(version, tile);
        let cost = u64::from(tile).saturating_mul(tile.into()).saturating_mul(8);
        let places = (0..down).flat_map(|y| (0..across).map(move |x| (x, y)));
        let background = self.slide.info().background;
        let mut spans = Spans::default();
        let mut empty = None;
        in_order(
            places,
            self.bounds(),
            self.progress,
            cost,
            |(x, y)| {
                let pixels = self.pixels(version, x, y)?;
                let is_empty = pixels.as_chunks::<3>().0.iter().all(|pixel| *pixel == background);
                let bytes = encoder.encode(&pixels, (tile, tile));
                Ok((is_empty, bytes.map_err(|error| self.codec_error(error))?))
            },
            |(is_empty, bytes)| {
                self.put_tile(out, &mut spans, is_empty.then_some(&mut empty), &bytes)?;
                task.advance(1);
                Ok(())
            },
        )?;
        Ok(spans)
    }

    /// Writes a tile, or names the one that is the same.
    fn put_tile(
        &self,
        out: &mut Out<'_>,
        spans: &mut Spans,
        same: Option<&mut Option<(u64, u64)>>,
        tile: &[u8],
    ) -> Result<()> {
        let mut push = || -> Result<(u64, u64)> {
            let count = u64::try_from(tile.len()).unwrap_or(u64::MAX);
            Ok((out.push(tile).map_err(self.io())?, count))
        };
        let span = match same {
            Some(Some(span)) => *span,
            Some(none) => *none.insert(push()?),
            None => push()?,
        };
        spans.add(span);
        Ok(())
    }

    /// A tile of a version, with background where it reaches out of the raster.
    fn pixels(&self, version: &Version, x: u64, y: u64) -> Result<Vec<u8>> {
        let tile = self.options.tile;
        let start = |at: u64| at.saturating_mul(tile.into());
        let reading = WsiReadOptions::new().memory(self.options.memory);
        if version.scale == 1 {
            let at = |at: u64| i64::try_from(start(at)).unwrap_or(i64::MAX);
            let region = NativeRegion { x: at(x), y: at(y), width: tile, height: tile };
            return Ok(self.slide.read_native(&region, &reading)?.pixels);
        }
        let step = as_f64(version.scale);
        let placed = Placed {
            start: [as_f64(start(x)) * step, as_f64(start(y)) * step],
            step: [step, step],
            size: [tile, tile],
            upsample: false,
        };
        let mut pixels = output(1, tile, tile)?;
        let reading = reading.resolution(self.options.resolution);
        self.slide.render_placed(&placed, &mut pixels, &reading)?;
        Ok(pixels)
    }

    /// The directory of a version without its tiles.
    fn page(&self, version: &Version, encoder: &TileEncoder, reduced: bool) -> Directory {
        let mut directory = self.form(version, (self.options.tile, self.options.tile), reduced);
        encoder.describe(&mut directory);
        directory
    }

    fn form(&self, version: &Version, tile: (u32, u32), reduced: bool) -> Directory {
        let side = |side: u64| u32::try_from(side).unwrap_or(u32::MAX);
        let mut directory = Directory::default();
        directory.long(SUBFILE_TYPE, u32::from(reduced));
        directory.long(WIDTH, side(version.width));
        directory.long(LENGTH, side(version.height));
        directory.shorts(BITS, &[8, 8, 8]);
        directory.shorts(SAMPLES, &[3]);
        directory.shorts(PLANAR, &[1]);
        directory.long(TILE_WIDTH, tile.0);
        directory.long(TILE_LENGTH, tile.1);
        let info = self.slide.info();
        let scale = as_f64(version.scale);
        let mpp = Mpp { x: info.mpp.x * scale, y: info.mpp.y * scale };
        directory.rational(X_RESOLUTION, per_centimetre(mpp.x));
        directory.rational(Y_RESOLUTION, per_centimetre(mpp.y));
        directory.shorts(UNIT, &[3]);
        directory.text(SOFTWARE, "IatroCache");
        if !reduced && let Ok(Some(profile)) = self.slide.icc_profile() {
            directory.bytes(ICC, &profile);
        }
        directory
    }

    /// Writes associated images, each in one strip.
    fn associated(&self, out: &mut Out<'_>) -> Result<Vec<Associated>> {
        let mut made = Vec::new();
        if !self.options.associated {
            return Ok(made);
        }
        for image in self.slide.associated_images() {
            check_cancelled(self.progress)?;
            let pixels = self.slide.read_associated(&image.name)?.pixels;
            let strip = TileEncoder::Deflate
                .encode(&pixels, (image.width, image.height))
                .map_err(|error| self.codec_error(error))?;
            let mut spans = Spans::default();
            self.put_tile(out, &mut spans, None, &strip)?;
            let mut directory = Directory::default();
            directory.long(SUBFILE_TYPE, 0);
            directory.long(WIDTH, image.width);
            directory.long(LENGTH, image.height);
            directory.shorts(BITS, &[8, 8, 8]);
            directory.shorts(SAMPLES, &[3]);
            directory.shorts(PLANAR, &[1]);
            directory.long(ROWS_PER_STRIP, image.height);
            if self.options.flavor == TiffFlavor::Pages {
                directory.text(DESCRIPTION, &image.name);
            }
            directory.text(PAGE_NAME, &image.name);
            TileEncoder::Deflate.describe(&mut directory);
            spans.put(&mut directory, STRIP_OFFSETS, STRIP_COUNTS);
            if let Some(profile) = self.slide.associated_icc(&image.name)? {
                directory.bytes(ICC, &profile);
            }
            made.push(Associated {
                image: Named { name: image.name, width: image.width, height: image.height },
                directory,
            });
        }
        Ok(made)
    }

    /// What the first page says of the slide.
    fn description<'a>(&self, associated: impl Iterator<Item = &'a Named>) -> String {
        let info = self.slide.info();
        if self.options.flavor == TiffFlavor::Pages {
            return format!("slide {}", info.slide_id);
        }
        ome::description(info, associated)
    }
}

/// An associated image on its way.
struct Associated {
    image: Named,
    directory: Directory,
}

impl Spans {
    fn put(&self, directory: &mut Directory, offsets: u16, counts: u16) {
        directory.longs8(offsets, &self.offsets);
        directory.longs8(counts, &self.counts);
    }
}

/// Tiles across, down, and in all.
fn grid(version: &Version, tile: u32) -> (u64, u64, u64) {
    let count = |side: u64| side.div_ceil(u64::from(tile).max(1));
    let (across, down) = (count(version.width), count(version.height));
    (across, down, across.saturating_mul(down))
}

/// Pixels of a centimetre, as exactly as two numbers of 32 bits can tell.
fn per_centimetre(mpp: f64) -> (u32, u32) {
    let wanted = 10_000.0 / mpp;
    let mut bottom = 1_u32;
    while let Some(next) = bottom.checked_mul(10) {
        if wanted * f64::from(next) > f64::from(u32::MAX) {
            break;
        }
        bottom = next;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating is meant"
    )]
    let top = (wanted * f64::from(bottom)).round() as u32;
    (top, bottom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_come_back_nearly_exactly() {
        for mpp in [0.25, 0.2527, 0.499, 1.0, 17.3, 0.05] {
            let (top, bottom) = per_centimetre(mpp);
            let back = 10_000.0 / (f64::from(top) / f64::from(bottom));
            assert!((back / mpp - 1.0).abs() < 2e-9, "{mpp} {back}");
        }
        assert_eq!(per_centimetre(f64::MIN_POSITIVE), (u32::MAX, 1));
    }
}
