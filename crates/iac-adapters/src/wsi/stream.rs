//! Regions from rasters: bands of tiles are decoded while the band before is averaged.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::Range;

use bytes::Bytes;

use super::parallel::in_parallel;
use super::plan::{Axis, Span};
use super::raster::{Grid, TileSource};
use super::resample::{
    Sum, add_columns, add_outside_rows, add_row, average, average_columns, is_whole,
};
use crate::error::{AdapterError, Result};

/// Bytes of decoded tiles in a band, where memory allows: enough that threads are kept busy.
const BAND_BYTES: u64 = 32 << 20;
/// Pixels of a raster that a region may cover: a square of a million along each side.
const MAX_COVERED: u64 = 1 << 40;
/// Tiles of a raster, stored or not, that a region may cover.
const MAX_TILES: u64 = 1 << 28;
/// Pixels of a row, and tiles of a row, that one column of a region may need.
const MAX_ACROSS: (u64, u64) = (1 << 26, 1 << 20);
/// Pixels of a band below which one thread averages them alone.
const SHARED_PIXELS: u64 = 1 << 17;

/// How a region is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamOptions {
    pub(crate) workers: NonZeroUsize,
    /// Bytes of decoded tiles in memory at once.
    pub(crate) memory: u64,
}

/// Averages a region of a raster into `out`: rows of RGB pixels.
pub(crate) fn render(
    source: &dyn TileSource,
    x: &Axis,
    y: &Axis,
    out: &mut [u8],
    options: StreamOptions,
) -> Result<()> {
    let grid = source.grid();
    let width = x.spans.len();
    let all_inside = x.inside == (0..width) && y.inside == (0..y.spans.len());
    if !all_inside {
        for pixel in out.as_chunks_mut::<3>().0 {
            *pixel = grid.background;
        }
    }
    if x.inside.is_empty() || y.inside.is_empty() {
        return Ok(());
    }
    check_work(&grid, x, y)?;
    // Two bands are in memory: the one that is averaged and the one that is decoded.
    let budget = (options.memory / 2).clamp(1, BAND_BYTES);
    let tile_rows = tiles(&y.covered, grid.tile_height);
    for columns in stripes(x, &grid, options.memory / 2) {
        let pixels = covered(x, &columns);
        let tile_columns = tiles(&pixels, grid.tile_width);
        check_across(&grid, length(&pixels), length(&tile_columns))?;
        let row_bytes = grid
            .tile_cost()
            .saturating_mul(tile_columns.end.saturating_sub(tile_columns.start))
            .max(1);
        let rows_at_once = budget.checked_div(row_bytes).unwrap_or(1).max(1);
        let mut stripe = Stripe::new(&grid, x, y, columns, tile_columns, options.workers);
        let mut next = tile_rows.start;
        let mut current: Option<Band> = None;
        while next < tile_rows.end || current.is_some() {
            let rows = next..next.saturating_add(rows_at_once).min(tile_rows.end);
            next = rows.end;
            let decoded = stripe.step(source, current.as_ref(), rows.clone(), out)?;
            // Rounding may let the last row cover one row more than the region does; it is then made
            // of background.
            let end = if rows.end == tile_rows.end {
                grid.height
            } else {
                rows.end.saturating_mul(grid.tile_height)
            };
            let pixels = rows.start.saturating_mul(grid.tile_height)..end;
            current = (!rows.is_empty()).then(|| Band::new(&grid, rows, pixels, decoded));
        }
    }
    Ok(())
}

/// Refuses what nobody waits for: sizes are what a header claims, and nothing of it need be stored.
fn check_work(grid: &Grid, x: &Axis, y: &Axis) -> Result<()> {
    let pixels = (length(&x.covered), length(&y.covered));
    let tiles = |pixels: &Range<u64>, tile: u64| length(&tiles(pixels, tile));
    let count =
        tiles(&x.covered, grid.tile_width).saturating_mul(tiles(&y.covered, grid.tile_height));
    if pixels.0.saturating_mul(pixels.1) <= MAX_COVERED && count <= MAX_TILES {
        return Ok(());
    }
    Err(AdapterError::usage(format!(
        "the region covers {} x {} pixels in {count} tiles of a raster of {} x {}, but at most \
         {MAX_COVERED} pixels in {MAX_TILES} tiles are averaged at once",
        pixels.0, pixels.1, grid.width, grid.height
    )))
}

/// Refuses regions of which one column alone needs more of a row than memory is meant to hold.
fn check_across(grid: &Grid, pixels: u64, tiles: u64) -> Result<()> {
    if pixels <= MAX_ACROSS.0 && tiles <= MAX_ACROSS.1 {
        return Ok(());
    }
    Err(AdapterError::usage(format!(
        "a column of the region covers {pixels} pixels in {tiles} tiles of each row of a raster of {} x \
         {}, but at most {} pixels in {} tiles are averaged at once",
        grid.width, grid.height, MAX_ACROSS.0, MAX_ACROSS.1
    )))
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Tiles that a range of pixels touches.
pub(crate) fn tiles(pixels: &Range<u64>, tile: u64) -> Range<u64> {
    if pixels.is_empty() {
        return 0..0;
    }
    let tile = tile.max(1);
    pixels.start.checked_div(tile).unwrap_or(0)..pixels.end.div_ceil(tile)
}

/// Pixels of the raster that spans cover, as far as the region as a whole does.
pub(super) fn covered(axis: &Axis, spans: &Range<usize>) -> Range<u64> {
    let spans = axis.spans.get(spans.clone()).unwrap_or_default();
    let first = spans.first().map_or(0, |span| span.first);
    let end = spans.last().map_or(0, |span| span.end);
    first.max(axis.covered.start)..end.min(axis.covered.end)
}

/// Ranges of the region's columns whose tiles fit into memory, one row of tiles at a time.
fn stripes(x: &Axis, grid: &Grid, memory: u64) -> Vec<Range<usize>> {
    let tile = grid.tile_cost();
    let most = memory.checked_div(tile).unwrap_or(1).max(1);
    let mut stripes = Vec::new();
    let mut start = x.inside.start;
    while start < x.inside.end {
        let from = x.spans.get(start).map_or(0, |span| span.first);
        let last = from
            .checked_div(grid.tile_width.max(1))
            .unwrap_or(0)
            .saturating_add(most)
            .saturating_mul(grid.tile_width);
        let fitting = x
            .spans
            .get(start..x.inside.end)
            .unwrap_or_default()
            .partition_point(|span| span.end <= last);
        // A single column of the region may need more; there is no smaller piece of work.
        let end = start.saturating_add(fitting.max(1)).min(x.inside.end);
        stripes.push(start..end);
        start = end;
    }
    stripes
}

/// Decoded tiles of some rows of the grid.
struct Band {
    tile_rows: Range<u64>,
    /// Pixels.
    rows: Range<u64>,
    tile_height: u64,
    /// Row after row.
    tiles: Vec<Option<Bytes>>,
    /// Of each row of tiles, whether none of it is stored.
    blank: Vec<bool>,
}

impl Band {
    fn new(
        grid: &Grid,
        tile_rows: Range<u64>,
        rows: Range<u64>,
        tiles: Vec<Option<Bytes>>,
    ) -> Self {
        let across = tiles.len().checked_div(to_usize(length(&tile_rows))).unwrap_or(0).max(1);
        let blank = tiles.chunks(across).map(|row| row.iter().all(Option::is_none)).collect();
        Self { tile_rows, rows, tile_height: grid.tile_height.max(1), tiles, blank }
    }

    /// Whether nothing of these rows of pixels is stored.
    fn is_blank(&self, rows: &Range<u64>) -> bool {
        let tiles = tiles(rows, self.tile_height);
        let place = |row: u64| to_usize(row.saturating_sub(self.tile_rows.start));
        // The rows behind the last tile are background.
        let end = place(tiles.end).min(self.blank.len());
        self.blank
            .get(place(tiles.start).min(end)..end)
            .is_some_and(|rows| rows.iter().all(|it| *it))
    }
}

/// Columns of the region that are made together.
struct Stripe<'a> {
    grid: &'a Grid,
    x: &'a Axis,
    y: &'a Axis,
    tile_columns: Range<u64>,
    workers: NonZeroUsize,
    chunks: Vec<Chunk>,
    /// Rows of the region up to this one are done.
    done: usize,
}

/// Columns of the region that one thread averages at a time.
struct Chunk {
    columns: Range<usize>,
    /// Pixels of the raster that they cover.
    pixels: Range<u64>,
    /// Rows of the region that the next band goes on with.
    pending: VecDeque<(usize, Sums)>,
    line: Vec<u8>,
}

/// What was added up for a row of the region.
enum Sums {
    /// Nothing but background so far: slides that only their headers claim cost no time.
    Blank,
    /// For each of its pixels.
    Weighted(Vec<Sum>),
    /// For each byte of the raster's row.
    Columns(Vec<u32>),
}

/// What a thread does in a step.
enum Job<'a, 'o> {
    Decode { x: u64, y: u64 },
    Average { chunk: &'a mut Chunk, band: &'a Band, rows: Range<usize>, out: Vec<&'o mut [u8]> },
}

impl<'a> Stripe<'a> {
    fn new(
        grid: &'a Grid,
        x: &'a Axis,
        y: &'a Axis,
        columns: Range<usize>,
        tile_columns: Range<u64>,
        workers: NonZeroUsize,
    ) -> Self {
        let width = columns.len();
        let pixels = covered(x, &columns);
        let area = pixels
            .end
            .saturating_sub(pixels.start)
            .saturating_mul(grid.tile_height.min(grid.height));
        let parts = if area < SHARED_PIXELS { 1 } else { workers.get().saturating_mul(2) };
        let each = width.div_ceil(parts.clamp(1, width.max(1))).max(1);
        let mut chunks = Vec::new();
        let mut start = columns.start;
        while start < columns.end {
            let end = start.saturating_add(each).min(columns.end);
            let spans = x.spans.get(start..end).unwrap_or_default();
            let pixels =
                spans.first().map_or(0, |span| span.first)..spans.last().map_or(0, |span| span.end);
            chunks.push(Chunk {
                columns: start..end,
                pixels,
                pending: VecDeque::new(),
                line: Vec::new(),
            });
            start = end;
        }
        Self { grid, x, y, tile_columns, workers, chunks, done: y.inside.start }
    }

    /// Averages a band, and decodes the next one.
    fn step(
        &mut self,
        source: &dyn TileSource,
        band: Option<&Band>,
        rows: Range<u64>,
        out: &mut [u8],
    ) -> Result<Vec<Option<Bytes>>> {
        let (grid, x, y) = (self.grid, self.x, self.y);
        let tile_columns = self.tile_columns.clone();
        let mut jobs = Vec::new();
        if let Some(band) = band {
            let spans = y.spans.get(self.done..y.inside.end).unwrap_or_default();
            let finished = spans.partition_point(|span| span.end <= band.rows.end);
            let rows = self.done..self.done.saturating_add(finished);
            self.done = rows.end;
            let mut pieces: Vec<Vec<&mut [u8]>> = Vec::new();
            pieces.resize_with(self.chunks.len(), || Vec::with_capacity(rows.len()));
            let row_bytes = x.spans.len().saturating_mul(3).max(1);
            let lines = out.chunks_exact_mut(row_bytes).skip(rows.start).take(rows.len());
            for line in lines {
                let mut rest = line;
                let mut at = 0_usize;
                for (chunk, pieces) in self.chunks.iter().zip(&mut pieces) {
                    let skip = chunk.columns.start.saturating_sub(at).saturating_mul(3);
                    let bytes = chunk.columns.len().saturating_mul(3);
                    let (_, behind) = rest.split_at_mut_checked(skip).unwrap_or_default();
                    let (piece, behind) = behind.split_at_mut_checked(bytes).unwrap_or_default();
                    pieces.push(piece);
                    rest = behind;
                    at = chunk.columns.end;
                }
            }
            for (chunk, out) in self.chunks.iter_mut().zip(pieces) {
                jobs.push(Job::Average { chunk, band, rows: rows.clone(), out });
            }
        }
        let averages = jobs.len();
        for y in rows {
            jobs.extend(tile_columns.clone().map(|x| Job::Decode { x, y }));
        }
        let results = in_parallel(self.workers, jobs, |job| match job {
            Job::Decode { x, y } => source.tile(x, y),
            Job::Average { chunk, band, rows, out } => {
                Averaging { grid, x, y, band, tile_columns: &tile_columns }.run(chunk, rows, out);
                Ok(None)
            }
        });
        results.into_iter().skip(averages).collect()
    }
}

/// A band on its way into a chunk.
struct Averaging<'a> {
    grid: &'a Grid,
    x: &'a Axis,
    y: &'a Axis,
    band: &'a Band,
    tile_columns: &'a Range<u64>,
}

impl Averaging<'_> {
    fn run(&self, chunk: &mut Chunk, rows: Range<usize>, mut out: Vec<&mut [u8]>) {
        let spans = self.x.spans.get(chunk.columns.clone()).unwrap_or_default();
        let background = self.grid.background.map(f64::from);
        let area = self.x.step * self.y.step;
        let whole = is_whole(self.x, self.y);
        let is_native = whole && self.x.step == 1.0 && self.y.step == 1.0;
        let mut line = std::mem::take(&mut chunk.line);
        let mut kept = VecDeque::new();
        let begun = self.y.spans.iter().enumerate().take(self.y.inside.end).skip(rows.start);
        for (number, span) in begun {
            if span.first >= self.band.rows.end {
                break;
            }
            let here = span.first.max(self.band.rows.start)..span.end.min(self.band.rows.end);
            let place = number.checked_sub(rows.start).and_then(|at| out.get_mut(at));
            if is_native && spans.iter().all(|span| span.is_inside()) {
                if let Some(place) = place {
                    place.copy_from_slice(self.line(chunk, here.start, &mut line, place.len()));
                }
                continue;
            }
            let mut sums = match chunk.pending.pop_front() {
                Some((pending, sums)) if pending == number => sums,
                _ => Sums::Blank,
            };
            if matches!(sums, Sums::Blank) {
                if self.band.is_blank(&here) {
                    match place {
                        Some(place) => place
                            .as_chunks_mut::<3>()
                            .0
                            .iter_mut()
                            .for_each(|pixel| *pixel = self.grid.background),
                        None => kept.push_back((number, sums)),
                    }
                    continue;
                }
                sums = self.begun(chunk, spans, span, span.first..here.start, whole);
            }
            let length = bytes_of(&chunk.pixels);
            match &mut sums {
                Sums::Blank => {}
                Sums::Columns(columns) => {
                    for row in here {
                        add_columns(self.line(chunk, row, &mut line, length), columns);
                    }
                }
                Sums::Weighted(sums) => {
                    for row in here {
                        let pixels = self.line(chunk, row, &mut line, length);
                        let weight = span.weight(row);
                        let start = chunk.pixels.start;
                        add_row(Some(pixels), start, spans, weight, &background, sums);
                    }
                }
            }
            let Some(place) = place else {
                kept.push_back((number, sums));
                continue;
            };
            match sums {
                Sums::Blank => {}
                Sums::Columns(columns) => average_columns(
                    &columns,
                    chunk.pixels.start,
                    spans,
                    (span.inside(), span.count()),
                    area,
                    self.grid.background,
                    place,
                ),
                Sums::Weighted(mut sums) => {
                    if span.after > 0 {
                        add_outside_rows(
                            spans,
                            span.after.saturating_sub(1),
                            &background,
                            &mut sums,
                        );
                        add_row(None, 0, spans, span.last_weight, &background, &mut sums);
                    }
                    for (out, sum) in place.as_chunks_mut::<3>().0.iter_mut().zip(&sums) {
                        *out = sum.map(|sum| average(sum, area));
                    }
                }
            }
        }
        chunk.pending = kept;
        chunk.line = line;
    }

    /// What a row of the region has added up before the first tile that is stored: background, added
    /// as if it were read, so that the order of additions is that of any other slide.
    fn begun(
        &self,
        chunk: &Chunk,
        spans: &[Span],
        span: &Span,
        passed: Range<u64>,
        whole: bool,
    ) -> Sums {
        let pixels = to_usize(length(&chunk.pixels));
        let blank: Vec<u8> = std::iter::repeat_n(self.grid.background, pixels).flatten().collect();
        if whole {
            let mut columns = vec![0; bytes_of(&chunk.pixels)];
            for _ in passed {
                add_columns(&blank, &mut columns);
            }
            return Sums::Columns(columns);
        }
        let background = self.grid.background.map(f64::from);
        let mut sums = vec![[0.0; 3]; spans.len()];
        if span.before > 0 {
            add_row(None, 0, spans, span.first_weight, &background, &mut sums);
            add_outside_rows(spans, span.before.saturating_sub(1), &background, &mut sums);
        }
        for row in passed {
            let weight = span.weight(row);
            add_row(Some(&blank), chunk.pixels.start, spans, weight, &background, &mut sums);
        }
        Sums::Weighted(sums)
    }

    /// The bytes of a row of the raster that a chunk covers: a part of a tile, or brought together.
    fn line<'b>(
        &'b self,
        chunk: &Chunk,
        row: u64,
        line: &'b mut Vec<u8>,
        length: usize,
    ) -> &'b [u8] {
        let tile_height = self.grid.tile_height.max(1);
        let tile_width = self.grid.tile_width.max(1);
        let tile_row = row.checked_div(tile_height).unwrap_or(0);
        let inner = row.saturating_sub(tile_row.saturating_mul(tile_height));
        let across = self.tile_columns.end.saturating_sub(self.tile_columns.start);
        let first =
            to_usize(tile_row.saturating_sub(self.band.tile_rows.start).saturating_mul(across));
        let end = first.saturating_add(to_usize(across));
        let tiles = self.band.tiles.get(first..end).unwrap_or_default();
        // A part of one tile needs no copy.
        let column = chunk.pixels.start.checked_div(tile_width).unwrap_or(0);
        let alone = chunk.pixels.end <= column.saturating_add(1).saturating_mul(tile_width);
        let part = |tile: &'b Bytes, from: u64, to: u64| {
            let start = inner.saturating_mul(tile_width).saturating_add(from).saturating_mul(3);
            let end = inner.saturating_mul(tile_width).saturating_add(to).saturating_mul(3);
            tile.get(to_usize(start)..to_usize(end)).unwrap_or_default()
        };
        let tile_at = |column: u64| {
            let at = column.checked_sub(self.tile_columns.start)?;
            tiles.get(to_usize(at))?.as_ref()
        };
        if alone && let Some(tile) = tile_at(column) {
            let left = column.saturating_mul(tile_width);
            return part(
                tile,
                chunk.pixels.start.saturating_sub(left),
                chunk.pixels.end.saturating_sub(left),
            );
        }
        line.clear();
        line.reserve(length);
        let mut at = chunk.pixels.start;
        while at < chunk.pixels.end {
            let column = at.checked_div(tile_width).unwrap_or(0);
            let left = column.saturating_mul(tile_width);
            let end = left.saturating_add(tile_width).min(chunk.pixels.end);
            match tile_at(column) {
                Some(tile) => line.extend_from_slice(part(
                    tile,
                    at.saturating_sub(left),
                    end.saturating_sub(left),
                )),
                None => {
                    let pixels = to_usize(end.saturating_sub(at));
                    line.extend(std::iter::repeat_n(self.grid.background, pixels).flatten());
                }
            }
            at = end.max(at.saturating_add(1));
        }
        line
    }
}

fn bytes_of(pixels: &Range<u64>) -> usize {
    to_usize(pixels.end.saturating_sub(pixels.start).saturating_mul(3))
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
