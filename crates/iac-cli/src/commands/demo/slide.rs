//! A made-up slide that looks like tissue stained with haematoxylin and eosin, imported as a pack of a
//! whole slide.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use iatrocache::adapters::wsi::{
    Mpp, NativeRegion, Region, RegionImage, WsiImporter, WsiPackReader, WsiProfile, WsiReadOptions,
};
use iatrocache::ops::OpsError;
use iatrocache::ops::pictures::write_png;
use iatrocache::{ErrorKind, ImageShape, ImageView, compiled_codecs};
use serde_json::{Value, json};

use super::cohort::Random;
use crate::cli::Common;
use crate::failure::{Failure, Report, Result};
use crate::human;
use crate::place::NewFile;
use crate::progress::{Shown, Unit};

/// The source, its pack, a region and the whole of it as pictures.
pub(super) const NAMES: [&str; 4] =
    ["slide.png", "slide.pat.iac", "slide-region.png", "slide-thumbnail.png"];

/// Pixels of the slide.
const WIDTH: u32 = 2304;
const HEIGHT: u32 = 1536;
/// Cells of the noise along a side, and pixels of one.
const CELL: u32 = 64;
/// Places that are tried for nuclei.
const NUCLEI: usize = 5000;

/// What was done with the slide; nothing where this build cannot encode images.
pub(super) struct Slide(Option<Done>);

struct Done {
    source_bytes: u64,
    file_bytes: u64,
    stored: u64,
    background: u64,
    region: Duration,
    thumbnail: Duration,
}

/// Noise that changes slowly: values of a lattice, blended.
struct Noise {
    across: u32,
    values: Vec<f64>,
}

impl Noise {
    fn new(random: &mut Random) -> Self {
        let across = (WIDTH / CELL).saturating_add(2);
        let down = (HEIGHT / CELL).saturating_add(2);
        let count = usize::try_from(across.saturating_mul(down)).unwrap_or(0);
        let value = |random: &mut Random| {
            f64::from(u32::try_from(random.next() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
        };
        Self { across, values: (0..count).map(|_| value(random)).collect() }
    }

    fn at(&self, x: u32, y: u32) -> f64 {
        let corner = |x: u32, y: u32| {
            let at = y.saturating_mul(self.across).saturating_add(x);
            usize::try_from(at).ok().and_then(|at| self.values.get(at)).copied().unwrap_or(0.0)
        };
        let smooth = |at: u32| {
            let part = f64::from(at % CELL) / f64::from(CELL);
            part * part * (3.0 - 2.0 * part)
        };
        let (column, row) = (x / CELL, y / CELL);
        let (next_column, next_row) = (column.saturating_add(1), row.saturating_add(1));
        let (along, down) = (smooth(x), smooth(y));
        let upper = corner(column, row) * (1.0 - along) + corner(next_column, row) * along;
        let lower =
            corner(column, next_row) * (1.0 - along) + corner(next_column, next_row) * along;
        upper * (1.0 - down) + lower * down
    }
}

/// Rows of RGB: glass, a piece of tissue with eosin, and nuclei with haematoxylin in it.
fn pixels() -> Vec<u8> {
    let mut random = Random(11);
    let (edge, fibres) = (Noise::new(&mut random), Noise::new(&mut random));
    let nuclei = nuclei(&mut random);
    let (middle_x, middle_y) = (f64::from(WIDTH) * 0.45, f64::from(HEIGHT) * 0.5);
    let mut pixels = Vec::new();
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let (dx, dy) =
                ((f64::from(x) - middle_x) / middle_x, (f64::from(y) - middle_y) / middle_y);
            let is_tissue = dx * dx + dy * dy * 1.3 + edge.at(x, y) * 0.7 < 1.0;
            let color = if is_tissue {
                let fibre = fibres.at(x, y);
                let grain = f64::from(u8::try_from(random.next() % 13).unwrap_or(0)) - 6.0;
                let depth = nuclei.depth(x, y);
                let eosin = [225.0, 150.0 - 50.0 * fibre, 190.0 - 25.0 * fibre];
                let haematoxylin = [85.0, 55.0, 130.0];
                let mix = |channel: usize| {
                    let (pink, blue) = (
                        eosin.get(channel).copied().unwrap_or(0.0),
                        haematoxylin.get(channel).copied().unwrap_or(0.0),
                    );
                    byte(pink * (1.0 - depth) + blue * depth + grain)
                };
                [mix(0), mix(1), mix(2)]
            } else {
                [243, 242, 245]
            };
            pixels.extend(color);
        }
    }
    pixels
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn byte(value: f64) -> u8 {
    value.clamp(0.0, 255.0) as u8
}

/// How dark each pixel is by the nuclei that lie there.
struct Nuclei(Vec<u8>);

impl Nuclei {
    fn depth(&self, x: u32, y: u32) -> f64 {
        let at = usize::try_from(y.saturating_mul(WIDTH).saturating_add(x)).unwrap_or(0);
        f64::from(self.0.get(at).copied().unwrap_or(0)) / 255.0
    }
}

fn nuclei(random: &mut Random) -> Nuclei {
    let count = usize::try_from(WIDTH.saturating_mul(HEIGHT)).unwrap_or(0);
    let mut depths = vec![0_u8; count];
    for _ in 0..NUCLEI {
        let place = |random: &mut Random, side: u32| {
            u32::try_from(random.between(0, u64::from(side).saturating_sub(1))).unwrap_or(0)
        };
        let (x, y) = (place(random, WIDTH), place(random, HEIGHT));
        let radius = u32::try_from(random.between(5, 11)).unwrap_or(8);
        for row in y.saturating_sub(radius)..y.saturating_add(radius).min(HEIGHT) {
            for column in x.saturating_sub(radius)..x.saturating_add(radius).min(WIDTH) {
                let (dx, dy) = (f64::from(column.abs_diff(x)), f64::from(row.abs_diff(y)));
                let near = 1.0 - (dx * dx + dy * dy * 1.4).sqrt() / f64::from(radius);
                let depth = byte((near * 3.0).clamp(0.0, 1.0) * 230.0);
                let at = row.saturating_mul(WIDTH).saturating_add(column);
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                if let Some(place) = depths.get_mut(at) {
                    *place = (*place).max(depth);
                }
            }
        }
    }
    Nuclei(depths)
}

fn png(path: &std::path::Path, width: u32, height: u32, pixels: &[u8]) -> Result<Vec<u8>> {
    let failed = |source| {
        let path = path.to_owned();
        Failure::from(OpsError::Picture { path, row: None, source: Box::new(source) })
    };
    let view = ImageShape::new(height, width, 3).and_then(|shape| ImageView::new(shape, pixels));
    let view = view.map_err(|error| Report::new(ErrorKind::Damaged, error.to_string()))?;
    write_png(&view).map_err(failed)
}

fn save(path: &std::path::Path, bytes: &[u8]) -> Result<()> {
    let mut file = NewFile::create(path, false)?;
    file.write(bytes)?;
    file.publish()
}

fn picture(path: &std::path::Path, image: &RegionImage) -> Result<()> {
    save(path, &png(path, image.width, image.height, &image.pixels)?)
}

/// Makes the slide, imports it, compares its pixels, and writes a region and all of it.
pub(super) fn pack_slide(places: [PathBuf; 4], common: &Common) -> Result<Slide> {
    let [source, path, region_path, thumbnail_path] = &places;
    if !cfg!(feature = "jxl") || !compiled_codecs().contains(&"jxl") {
        return Ok(Slide(None));
    }
    let made = pixels();
    let file = png(source, WIDTH, HEIGHT, &made)?;
    save(source, &file)?;
    let importer = WsiImporter::new("demo-slide")
        .patient_id("P001")
        .profile(WsiProfile::Lossless)
        .effort(2)
        .tile_size(256, 256)
        .native_mpp(Mpp::both(0.5))
        .workers(common.workers);
    let summary = importer.import(source, path, &Shown::new(common, Unit::Rows))?;
    let slide = WsiPackReader::open(path)?;
    let reading = WsiReadOptions::new();
    let whole = NativeRegion { x: 0, y: 0, width: WIDTH, height: HEIGHT };
    if slide.read_native(&whole, &reading)?.pixels != made {
        let message = format!("{}: the slide differs from its source", path.display());
        return Err(Report::new(ErrorKind::Damaged, message).path(path).into());
    }
    let begun = Instant::now();
    let region = Region { x_um: 390.0, y_um: 250.0, width: 512, height: 512, mpp: Mpp::both(0.5) };
    let image = slide.read_region(&region, &reading)?;
    let region = begun.elapsed();
    picture(region_path, &image)?;
    let begun = Instant::now();
    let image = slide.read_thumbnail(512, &reading)?;
    let thumbnail = begun.elapsed();
    picture(thumbnail_path, &image)?;
    Ok(Slide(Some(Done {
        source_bytes: u64::try_from(file.len()).unwrap_or(u64::MAX),
        file_bytes: summary.written.file_bytes,
        stored: summary.stored_tiles,
        background: summary.background_tiles,
        region,
        thumbnail,
    })))
}

impl Slide {
    pub(super) fn line(&self) -> String {
        match &self.0 {
            None => {
                "  slide     skipped: this build cannot encode JPEG XL (feature jxl)".to_owned()
            }
            Some(done) => format!(
                "  slide     {WIDTH} x {HEIGHT} pixels of {} in a pack of {}, {} of {} glass; a region in {:.0} ms, all of it in {:.0} ms",
                human::bytes(done.source_bytes),
                human::bytes(done.file_bytes),
                done.background,
                human::counted(done.stored.saturating_add(done.background), "tile"),
                done.region.as_secs_f64() * 1000.0,
                done.thumbnail.as_secs_f64() * 1000.0
            ),
        }
    }

    pub(super) fn document(&self) -> Value {
        self.0.as_ref().map_or(Value::Null, |done| {
            json!({
                "width": WIDTH,
                "height": HEIGHT,
                "source_bytes": done.source_bytes,
                "file_bytes": done.file_bytes,
                "stored_tiles": done.stored,
                "background_tiles": done.background,
                "region_seconds": done.region.as_secs_f64(),
                "thumbnail_seconds": done.thumbnail.as_secs_f64(),
            })
        })
    }
}
