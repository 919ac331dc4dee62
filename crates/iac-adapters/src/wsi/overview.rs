//! Overviews: area averages of the raster that are derived from it and can be made anew at any time.
//!
//! A level L has one pixel for each square of 2^L native pixels, also where the square reaches out
//! of the raster: background counts there. Levels are cut into tiles, without those of background
//! alone.
//!
//! They lie in records of the pack (`iac.level/L/X/Y`, extension `iac.overview`), as JPEG XL tiles of
//! the pack's size, or in a file beside it, which is preferred. That file has tiles of a size of its
//! own, which are read faster. It names the raster by the SHA-256 of its tiles' places, lengths and
//! checksums, and is passed over when it is another one's.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use bytes::Bytes;
use iac_codec::{CodecError, ImageShape};
use iac_format::TableKind;
use iac_ops::Progress;
use iac_reader::{PackReader, ReadOptions};
use iac_writer::{PackWriter, WriteOptions};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::cache::TileKey;
use super::level_tile::{FILTER, LevelCodec};
use super::options::WsiReadOptions;
use super::parallel::in_parallel;
use super::plan::Axis;
use super::raster::{Grid, TileSource};
use super::read::{WsiPackReader, output};
use super::stream::{StreamOptions, render};
use super::write::table;
use super::{OVERVIEW_EXTENSION, WSI_OVERVIEW, kind};
use crate::columns::int_column;
use crate::error::{AdapterError, Result};
use crate::task::{Task, check_cancelled};

/// The largest level: one pixel for a million along each side.
const MAX_LEVEL: u32 = 20;
/// The largest side of a tile in a file beside a pack: regions seldom lie on the grid, and what they do
/// not need of a tile is read in vain.
const TILE: u32 = 256;
/// How records in a pack are named.
const PREFIX: &str = "iac.level/";

/// How an overview is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OverviewOptions {
    /// Levels, as binary logarithms; default 3 and 6: 1/8 and 1/64.
    pub levels: Vec<u32>,
    /// Threads; default 1.
    pub workers: NonZeroUsize,
    /// Bytes of decoded tiles in memory at once; default 96 MiB.
    pub memory: u64,
    /// Whether an existing file is replaced; default yes, as it can be made anew.
    pub overwrite: bool,
}

impl Default for OverviewOptions {
    fn default() -> Self {
        Self { levels: vec![3, 6], workers: NonZeroUsize::MIN, memory: 96 << 20, overwrite: true }
    }
}

impl OverviewOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverviewSummary {
    /// The file.
    pub path: PathBuf,
    /// Its levels.
    pub levels: Vec<u32>,
    /// Tiles in it.
    pub tiles: u64,
    /// Bytes of its tiles.
    pub bytes: u64,
}

/// The file beside a pack that holds its overview: `PATH.overview.iac`.
#[must_use]
pub fn overview_path(pack: &Path) -> PathBuf {
    let mut name = pack.as_os_str().to_owned();
    name.push(".overview.iac");
    PathBuf::from(name)
}

/// An encoded tile of a level.
pub(crate) struct LevelTile {
    pub(crate) level: u32,
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) payload: Vec<u8>,
}

/// The name of a tile's record inside of a pack.
#[cfg(feature = "wsi-import")]
pub(crate) fn level_name(level: u32, x: u32, y: u32) -> String {
    format!("{PREFIX}{level}/{x}/{y}")
}

/// Makes the overview of a slide and writes it beside the pack, to [`overview_path`].
///
/// The whole slide is decoded once.
///
/// # Errors
///
/// [`AdapterError::Usage`] for levels that make none; [`AdapterError::Read`] and
/// [`AdapterError::Codec`] when a tile is damaged; [`AdapterError::Write`]; [`AdapterError::Ops`] when stopped through `progress`.
pub fn build_overview(
    reader: &WsiPackReader,
    options: &OverviewOptions,
    progress: &dyn Progress,
) -> Result<OverviewSummary> {
    let path = overview_path(Path::new(reader.reader().path()));
    let info = reader.info();
    let levels = checked_levels(&options.levels)?;
    let tile = (info.tile_width.min(TILE), info.tile_height.min(TILE));
    let header = json!({
        "payload_type": WSI_OVERVIEW,
        "wsi_overview_version": 1,
        "raster_sha256": raster_identity(reader)?,
        "slide_id": info.slide_id,
        "width": info.width,
        "height": info.height,
        "levels": levels,
        "tile_width": tile.0,
        "tile_height": tile.1,
        "background_rgb": info.background,
        "codec": "zstd",
        "tile_filter": FILTER,
        "created_by": concat!("iatrocache ", env!("CARGO_PKG_VERSION")),
    });
    let Value::Object(header) = header else {
        return Err(AdapterError::usage("the header is no object"));
    };
    let mut places: [Vec<u32>; 3] = Default::default();
    let index = |places: &[Vec<u32>; 3]| {
        let column =
            |numbers: &Vec<u32>| -> ArrayRef { Arc::new(UInt32Array::from(numbers.clone())) };
        let [level, x, y] = places.each_ref().map(column);
        table(&[("level", level), ("tile_x", x), ("tile_y", y)])
    };
    let write = WriteOptions::new().overwrite(options.overwrite);
    let schema = Arc::clone(index(&places)?.schema());
    let empty = iac_writer::Table::empty();
    let mut writer = PackWriter::create(&path, header, &empty, schema, &write)?;
    let codec = LevelCodec::beside().map_err(|source| codec_error(reader, source))?;
    let form = Form { codec: &codec, tile };
    make_levels(reader, &levels, &form, options, progress, &mut |tile| {
        writer.push(&tile.payload)?;
        for (places, number) in places.iter_mut().zip([tile.level, tile.x, tile.y]) {
            places.push(number);
        }
        Ok(())
    })?;
    let summary = writer.finish_with_index(&index(&places)?)?;
    Ok(OverviewSummary { path, levels, tiles: summary.rows, bytes: summary.data_bytes })
}

fn checked_levels(levels: &[u32]) -> Result<Vec<u32>> {
    let mut levels = levels.to_vec();
    levels.sort_unstable();
    levels.dedup();
    let in_range = levels.iter().all(|level| (1..=MAX_LEVEL).contains(level));
    if levels.is_empty() || !in_range {
        return Err(AdapterError::usage(format!(
            "levels of an overview are numbers from 1 to {MAX_LEVEL}, and there must be one"
        )));
    }
    Ok(levels)
}

/// What a raster is known by: the SHA-256 of its tiles' places, lengths and checksums.
pub(crate) fn raster_identity(reader: &WsiPackReader) -> Result<String> {
    let inner = &reader.inner;
    let mut tiles = inner.rows.tiles.clone();
    tiles.sort_unstable_by_key(|tile| (tile.y, tile.x));
    let mut digest = Sha256::new();
    for tile in tiles {
        let span = inner.pack.span(tile.row.into())?;
        let length = u32::try_from(span.length).unwrap_or(u32::MAX);
        for number in [tile.x, tile.y, length, span.crc32.unwrap_or(0)] {
            digest.update(number.to_le_bytes());
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The form in which tiles are made.
pub(crate) struct Form<'a> {
    pub(super) codec: &'a LevelCodec,
    /// Width and height.
    pub(super) tile: (u32, u32),
}

fn codec_error(reader: &WsiPackReader, source: CodecError) -> AdapterError {
    AdapterError::Codec { path: reader.reader().path().to_owned(), row: None, source }
}

/// A level that is made from a finer one.
struct Coarse {
    level: u32,
    /// Pixels of the finest level along each side of one of this level's.
    factor: usize,
    width: usize,
    sums: Vec<[u64; 3]>,
}

/// Makes the tiles of levels, finest level first, row by row.
pub(crate) fn make_levels(
    reader: &WsiPackReader,
    levels: &[u32],
    form: &Form<'_>,
    options: &OverviewOptions,
    progress: &dyn Progress,
    emit: &mut dyn FnMut(LevelTile) -> Result<()>,
) -> Result<()> {
    let info = reader.info();
    let Some((finest, coarser)) = levels.split_first() else { return Ok(()) };
    let fine = level_size(info.width, info.height, *finest);
    let (width, height) = fine;
    let (across, down) = (to_u32(width)?, to_u32(height)?);
    let mut coarse: Vec<Coarse> = Vec::new();
    for level in coarser {
        let (width, height) = level_size(info.width, info.height, *level);
        let pixels = to_usize(width).saturating_mul(to_usize(height));
        // Room for sums must be there before the work begins.
        output(8, to_u32(width)?, to_u32(height)?)?;
        coarse.push(Coarse {
            level: *level,
            factor: 1_usize.wrapping_shl(level.saturating_sub(*finest)),
            width: to_usize(width),
            sums: vec![[0; 3]; pixels],
        });
    }
    let step = super::schema::as_f64(1_u64.wrapping_shl(*finest));
    let stream = StreamOptions { workers: options.workers, memory: options.memory };
    let source = reader.native(&WsiReadOptions::default(), false);
    let tile_height = u64::from(form.tile.1).max(1);
    let bands = height.div_ceil(tile_height);
    let task = Task::begin(progress, "averaging the slide", Some(bands));
    // What is too large is refused before anything is made for it.
    output(1, across, 1)?;
    let x = Axis::new(0.0, step, across, info.width);
    for band in 0..bands {
        check_cancelled(progress)?;
        let first = band.saturating_mul(tile_height);
        let rows = to_u32(u64::from(down).saturating_sub(first).min(tile_height))?;
        let y = Axis::new(super::schema::as_f64(first) * step, step, rows, info.height);
        let mut pixels = output(1, across, rows)?;
        render(&source, &x, &y, &mut pixels, stream)?;
        let line = to_usize(width).saturating_mul(3).max(1);
        for (row, line) in pixels.chunks_exact(line).enumerate() {
            let row = to_usize(first).saturating_add(row);
            coarse.iter_mut().for_each(|coarse| coarse.add(row, line));
        }
        emit_row(reader, form, (*finest, band), &pixels, to_usize(width), options, emit)?;
        task.advance(1);
    }
    for coarse in coarse {
        let level = coarse.level;
        let (width, height) = level_size(info.width, info.height, level);
        let pixels =
            coarse.finish(to_usize(height), (to_usize(fine.0), to_usize(fine.1)), info.background);
        let line = to_usize(width).saturating_mul(3).max(1);
        let band_bytes = line.saturating_mul(side(form.tile.1));
        for (band, rows) in (0_u64..).zip(pixels.chunks(band_bytes.max(1))) {
            emit_row(reader, form, (level, band), rows, to_usize(width), options, emit)?;
        }
    }
    Ok(())
}

impl Coarse {
    /// Adds a row of the finest level.
    fn add(&mut self, row: usize, line: &[u8]) {
        let start = row.checked_div(self.factor).unwrap_or(0).saturating_mul(self.width);
        let sums = self.sums.get_mut(start..).unwrap_or_default();
        for (sum, pixels) in sums.iter_mut().zip(line.as_chunks::<3>().0.chunks(self.factor)) {
            for pixel in pixels {
                for (sum, value) in sum.iter_mut().zip(pixel) {
                    *sum = sum.wrapping_add(u64::from(*value));
                }
            }
        }
    }

    /// The level's pixels; squares that reach out of the finest level are filled with background.
    fn finish(
        self,
        height: usize,
        (fine_width, fine_height): (usize, usize),
        background: [u8; 3],
    ) -> Vec<u8> {
        let area = self.factor.saturating_mul(self.factor).max(1);
        let mut pixels = Vec::with_capacity(self.sums.len().saturating_mul(3));
        let inside = |at: usize, size: usize| {
            size.saturating_sub(at.saturating_mul(self.factor)).min(self.factor)
        };
        for (row, sums) in self.sums.chunks(self.width.max(1)).enumerate().take(height) {
            for (column, sum) in sums.iter().enumerate() {
                let covered = inside(row, fine_height).saturating_mul(inside(column, fine_width));
                let outside = u64::try_from(area.saturating_sub(covered)).unwrap_or(0);
                let area = u64::try_from(area).unwrap_or(1).max(1);
                pixels.extend(sum.iter().zip(background).map(|(sum, color)| {
                    let sum = sum.saturating_add(outside.saturating_mul(color.into()));
                    let mean = sum.saturating_add(area / 2).checked_div(area).unwrap_or(0);
                    u8::try_from(mean).unwrap_or(u8::MAX)
                }));
            }
        }
        pixels
    }
}

/// Encodes a row of tiles of a level, and hands on those that are not background alone.
fn emit_row(
    reader: &WsiPackReader,
    form: &Form<'_>,
    (level, band): (u32, u64),
    pixels: &[u8],
    width: usize,
    options: &OverviewOptions,
    emit: &mut dyn FnMut(LevelTile) -> Result<()>,
) -> Result<()> {
    let info = reader.info();
    let (tile_width, tile_height) = (side(form.tile.0), side(form.tile.1));
    let shape = ImageShape::new(form.tile.1, form.tile.0, 3)
        .map_err(|source| codec_error(reader, source))?;
    let columns: Vec<usize> = (0..width.div_ceil(tile_width.max(1))).collect();
    let encoded = in_parallel(options.workers, columns, |column| {
        let left = column.saturating_mul(tile_width);
        let right = left.saturating_add(tile_width).min(width);
        let mut tile: Vec<u8> = Vec::with_capacity(shape.samples());
        let mut is_background = true;
        for line in pixels.chunks_exact(width.saturating_mul(3).max(1)) {
            let part =
                line.get(left.saturating_mul(3)..right.saturating_mul(3)).unwrap_or_default();
            is_background &= part.as_chunks::<3>().0.iter().all(|pixel| *pixel == info.background);
            tile.extend_from_slice(part);
            let missing = tile_width.saturating_sub(right.saturating_sub(left));
            tile.extend(std::iter::repeat_n(info.background, missing).flatten());
        }
        if is_background {
            return Ok(None);
        }
        let missing = tile_height.saturating_mul(tile_width).saturating_sub(tile.len() / 3);
        tile.extend(std::iter::repeat_n(info.background, missing).flatten());
        form.codec.encode(&tile, shape).map(|payload| Some((column, payload)))
    });
    for tile in encoded {
        let tile = tile.map_err(|source| codec_error(reader, source))?;
        if let Some((column, payload)) = tile {
            let x = u32::try_from(column).unwrap_or(u32::MAX);
            emit(LevelTile { level, x, y: to_u32(band)?, payload })?;
        }
    }
    Ok(())
}

/// Width and height of a level.
const fn level_size(width: u64, height: u64, level: u32) -> (u64, u64) {
    let step = 1_u64.wrapping_shl(level);
    (width.div_ceil(step), height.div_ceil(step))
}

/// An overview that is there.
pub(super) struct Overview {
    /// The pack that holds the tiles: a file of its own, or the slide's.
    pack: PackReader,
    levels: BTreeMap<u32, HashMap<(u32, u32), u64>>,
    codec: LevelCodec,
    /// Width and height of tiles.
    tile: (u32, u32),
}

impl Overview {
    /// The overview of a slide, where there is a sound one.
    pub(super) fn find(reader: &WsiPackReader) -> Option<Self> {
        let path = overview_path(Path::new(reader.reader().path()));
        // A file that cannot be used is as good as none: it can be made anew.
        let beside = path.is_file().then(|| Self::open_file(reader, &path).ok()).flatten();
        beside.or_else(|| Self::inside(reader))
    }

    /// The overview in a file, which must be that of the slide.
    pub(super) fn open_file(reader: &WsiPackReader, path: &Path) -> Result<Self> {
        let pack = PackReader::open_with(path, &ReadOptions::default().use_header_cache(false))?;
        let found = pack.header().payload_type();
        if found != Some(WSI_OVERVIEW) {
            return Err(AdapterError::PayloadType {
                path: pack.path().to_owned(),
                found: found.map(str::to_owned),
                expected: WSI_OVERVIEW,
            });
        }
        let info = reader.info();
        let member = |name: &str| pack.header().get(name);
        let wrong = |field: &str, reason: String| AdapterError::schema(pack.path(), field, reason);
        let identity = raster_identity(reader)?;
        if member("raster_sha256").and_then(Value::as_str) != Some(identity.as_str()) {
            return Err(wrong(
                "raster_sha256",
                format!(
                    "it is the overview of another raster than that of {}",
                    reader.reader().path()
                ),
            ));
        }
        for (name, size) in [("width", info.width), ("height", info.height)] {
            if member(name).and_then(Value::as_u64) != Some(size) {
                return Err(wrong(name, format!("{name} is not {size}, as that of the slide")));
            }
        }
        if member("background_rgb") != Some(&json!(info.background)) {
            let [red, green, blue] = info.background;
            return Err(wrong(
                "background_rgb",
                format!("background_rgb is not [{red}, {green}, {blue}], as that of the slide"),
            ));
        }
        let side = |name: &str| {
            let side = member(name).and_then(Value::as_u64).and_then(|it| u32::try_from(it).ok());
            side.filter(|side| (1..=65_535).contains(side))
                .ok_or_else(|| wrong(name, format!("{name} is no size of a tile")))
        };
        let tile = (side("tile_width")?, side("tile_height")?);
        let (codec, filter) = (member("codec"), member("tile_filter"));
        if codec.and_then(Value::as_str) != Some("zstd")
            || filter.and_then(Value::as_str) != Some(FILTER)
        {
            return Err(wrong(
                "codec",
                "its tiles are stored in a way that is not known".to_owned(),
            ));
        }
        let column = |name| int_column(&pack, TableKind::Index, name);
        let (level, x, y) = (column("level")?, column("tile_x")?, column("tile_y")?);
        let stated = member("levels").and_then(Value::as_array).map(Vec::as_slice);
        let stated = stated.unwrap_or_default().iter().filter_map(Value::as_u64);
        let mut levels: BTreeMap<u32, HashMap<(u32, u32), u64>> = stated
            .filter_map(|level| u32::try_from(level).ok())
            .filter(|level| (1..=MAX_LEVEL).contains(level))
            .map(|level| (level, HashMap::new()))
            .collect();
        for row in 0..pack.num_records()? {
            let number = |column: &crate::columns::IntColumn| {
                column.get(row).and_then(|number| u32::try_from(number).ok())
            };
            let place = number(&level).zip(number(&x).zip(number(&y)));
            let tiles = place.and_then(|(level, place)| Some((levels.get_mut(&level)?, place)));
            let Some((tiles, place)) = tiles else {
                return Err(AdapterError::schema_row(
                    pack.path(),
                    row,
                    "level",
                    "the row is no tile of a level",
                ));
            };
            tiles.insert(place, row);
        }
        let codec = LevelCodec::beside().map_err(|source| codec_error(reader, source))?;
        Ok(Self { pack: pack.clone(), levels, codec, tile })
    }

    /// The overview inside of a slide's own pack.
    fn inside(reader: &WsiPackReader) -> Option<Self> {
        if !reader.reader().header().extensions().contains(&OVERVIEW_EXTENSION) {
            return None;
        }
        let mut levels: BTreeMap<u32, HashMap<(u32, u32), u64>> = BTreeMap::new();
        for one in reader.inner.rows.auxiliary.iter().filter(|one| one.kind == kind::BINARY) {
            let Some(place) = one.name.strip_prefix(PREFIX) else { continue };
            let mut numbers = place.split('/').map(|number| number.parse::<u32>().ok());
            let (level, x, y) = (numbers.next()??, numbers.next()??, numbers.next()??);
            if (1..=MAX_LEVEL).contains(&level) {
                levels.entry(level).or_default().insert((x, y), one.row);
            }
        }
        let tile = (reader.info().tile_width, reader.info().tile_height);
        let codec = LevelCodec::inside().ok()?;
        Some(Self { pack: reader.reader().clone(), levels, codec, tile })
    }

    /// The levels, finest first.
    pub(super) fn levels(&self) -> Vec<u32> {
        self.levels.keys().copied().collect()
    }

    /// The raster of a level.
    pub(super) fn level<'a>(&'a self, reader: &'a WsiPackReader, level: u32) -> Result<Level<'a>> {
        let tiles = self.levels.get(&level);
        let tiles =
            tiles.ok_or_else(|| AdapterError::usage(format!("there is no level {level}")))?;
        Ok(Level { overview: self, reader, level, tiles })
    }
}

/// A level as a raster.
pub(super) struct Level<'a> {
    overview: &'a Overview,
    reader: &'a WsiPackReader,
    level: u32,
    tiles: &'a HashMap<(u32, u32), u64>,
}

impl Level<'_> {
    fn row(&self, x: u64, y: u64) -> Option<u64> {
        let place = (u32::try_from(x).ok()?, u32::try_from(y).ok()?);
        self.tiles.get(&place).copied()
    }
}

impl TileSource for Level<'_> {
    fn grid(&self) -> Grid {
        let info = self.reader.info();
        let (width, height) = level_size(info.width, info.height, self.level);
        Grid {
            width,
            height,
            tile_width: self.overview.tile.0.into(),
            tile_height: self.overview.tile.1.into(),
            background: info.background,
        }
    }

    fn tile(&self, x: u64, y: u64) -> Result<Option<Bytes>> {
        let Some(row) = self.row(x, y) else { return Ok(None) };
        let key = TileKey { level: self.level, row, scale: 1, raw: false };
        let pack = &self.overview.pack;
        let make = || {
            let payload = pack.read(row)?;
            let (width, height) = self.overview.tile;
            let pixels = ImageShape::new(height, width, 3).and_then(|shape| {
                self.overview.codec.decode(&payload, shape, &self.reader.inner.limits)
            });
            pixels.map(Bytes::from).map_err(|source| AdapterError::Codec {
                path: pack.path().to_owned(),
                row: Some(row),
                source,
            })
        };
        self.reader.inner.tiles.get_or_make(key, true, make).map(Some)
    }
}

fn to_u32(number: u64) -> Result<u32> {
    u32::try_from(number)
        .map_err(|_| AdapterError::usage(format!("a level of {number} pixels is too large")))
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn side(pixels: u32) -> usize {
    usize::try_from(pixels).unwrap_or(usize::MAX)
}
