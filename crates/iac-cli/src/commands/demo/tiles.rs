//! Made-up slides cut into tiles: a pack of image tiles with a contact sheet of them, and a pack of
//! feature vectors that is joined to them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use iatrocache::adapters::features::{
    ElementType, FeatureJoin, FeaturePackBuilder, FeaturePackReader, FeatureSummary,
};
use iatrocache::adapters::manifest::write_manifest;
use iatrocache::adapters::tiles::{TilePackBuilder, TilePackReader, TileReadOptions, TileSummary};
use iatrocache::adapters::{RecordTable, TileRecord};
use iatrocache::codec::{Image, ImageShape};
use iatrocache::ops::OpsError;
use iatrocache::ops::montage::{MontageOptions, montage};
use iatrocache::ops::pictures::write_png;
use iatrocache::{ErrorKind, ReadOptions};
use serde_json::{Value, json};

use super::cohort::Random;
use super::quoted;
use crate::cli::Common;
use crate::failure::{Failure, Report, Result};
use crate::human;
use crate::interrupt;
use crate::place::NewFile;
use crate::progress::{Shown, Unit};

/// What this makes in the demo's folder.
pub(super) const NAMES: [&str; 5] = [IMAGES, MANIFEST, TILE_PACK, FEATURE_PACK, SHEET];
const IMAGES: &str = "tiles";
const MANIFEST: &str = "tiles.csv";
const TILE_PACK: &str = "cohort.tiles.iac";
const FEATURE_PACK: &str = "cohort.features.iac";
const SHEET: &str = "tiles.png";

/// Patients that have a slide; the last one is for validation.
const SLIDES: u64 = 5;
/// Columns and rows of tiles on a slide.
const GRID: (u32, u32) = (6, 4);
/// Pixels of each side of a tile.
const EDGE: u32 = 96;
/// Elements of a vector.
const DIM: usize = 256;
/// Tiles that are read in one call.
const BATCH: usize = 64;
/// Fast, which is what counts here.
const EFFORT: u64 = 1;

/// What was done with tiles and vectors.
pub(super) struct Tiles {
    /// Nothing where this build cannot encode JPEG XL.
    packed: Option<Packed>,
    features: FeatureSummary,
    /// Time in which all vectors were read.
    features_time: Duration,
}

struct Packed {
    summary: TileSummary,
    sheet_bytes: u64,
    /// Time in which all tiles were read.
    time: Duration,
}

/// Makes slides, packs tiles and vectors, reads them back and compares them.
pub(super) fn pack_tiles(home: &Path, common: &Common) -> Result<Tiles> {
    let records = records();
    let packed = match cfg!(feature = "jxl") {
        true => Some(pack_images(home, &records, common)?),
        false => None,
    };
    let (features, features_time) = pack_vectors(home, &records, packed.is_some(), common)?;
    Ok(Tiles { packed, features, features_time })
}

/// The tiles of all slides, slide after slide.
fn records() -> Vec<TileRecord> {
    let (columns, rows) = GRID;
    let mut records = Vec::new();
    for slide in 0..SLIDES {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |at| (row, at))) {
            let tile_id = format!("P{slide:03}-{row}-{column}");
            let is_last = slide.saturating_add(1) == SLIDES;
            records.push(TileRecord {
                patient_id: format!("P{slide:03}"),
                slide_id: format!("P{slide:03}-S0"),
                tile_path: Path::new(IMAGES).join(format!("{tile_id}.png")),
                x: i64::from(column.saturating_mul(EDGE)),
                y: i64::from(row.saturating_mul(EDGE)),
                split: Some(if is_last { "val" } else { "train" }.to_owned()),
                tile_id,
            });
        }
    }
    records
}

fn pack_images(home: &Path, records: &[TileRecord], common: &Common) -> Result<Packed> {
    let images = home.join(IMAGES);
    fs::create_dir(&images)
        .map_err(|error| Failure::io(&images, "cannot make the folder", &error))?;
    let spots: Vec<Vec<Spot>> = (0..SLIDES).map(spots).collect();
    let (columns, rows) = GRID;
    let of_slide = usize::try_from(columns.saturating_mul(rows)).unwrap_or(1);
    let mut pictures = Vec::with_capacity(records.len());
    for (slide, records) in spots.iter().zip(records.chunks(of_slide)) {
        interrupt::check()?;
        for record in records {
            let picture = picture(record, slide)?;
            let path = home.join(&record.tile_path);
            let png = write_png(&picture.as_view()).map_err(|source| {
                let source = Box::new(source);
                Failure::from(OpsError::Picture { path: path.clone(), row: None, source })
            })?;
            fs::write(&path, png)
                .map_err(|error| Failure::io(&path, "cannot write the file", &error))?;
            pictures.push(picture.samples().to_le_bytes().into_owned());
        }
    }
    let manifest = home.join(MANIFEST);
    write_manifest(&manifest, records)?;

    let path = home.join(TILE_PACK);
    let progress = Shown::new(common, Unit::Rows);
    let summary = TilePackBuilder::new()
        .lossless(true)
        .effort(EFFORT)
        .beside_manifest(true)
        .workers(common.workers)
        .build_from_manifest(&manifest, &path, &progress)?;
    let read = ReadOptions::default().workers(common.workers);
    let tiles = TilePackReader::open_with(&path, &TileReadOptions::new().reading(read))?;
    let order = random_rows(records.len());
    let start = Instant::now();
    let mut batches = Vec::new();
    for rows in order.chunks(BATCH) {
        batches.push(tiles.read_rgb_many(rows)?);
    }
    let time = start.elapsed();
    let found = order.iter().zip(batches.iter().flatten());
    let is_equal = found.clone().count() == pictures.len()
        && found.clone().all(|(row, tile)| {
            let place = usize::try_from(*row).unwrap_or(usize::MAX);
            pictures.get(place).is_some_and(|picture| *picture == tile.pixels)
        });
    if !is_equal {
        return Err(differs(&path, "a tile differs from its image"));
    }
    let sheet_bytes = sheet(tiles.reader(), &home.join(SHEET), common)?;
    Ok(Packed { summary, sheet_bytes, time })
}

/// All tiles on one sheet.
fn sheet(pack: &iatrocache::PackReader, path: &Path, common: &Common) -> Result<u64> {
    let mut options = MontageOptions::default();
    options.workers = common.workers;
    options.cell = EDGE;
    let sheet = montage(pack, None, &options, &Shown::new(common, Unit::Rows))?;
    let png = write_png(&sheet.image.as_view()).map_err(|source| {
        let source = Box::new(source);
        Failure::from(OpsError::Picture { path: path.to_owned(), row: None, source })
    })?;
    let mut file = NewFile::create(path, false)?;
    file.write(&png)?;
    file.publish()?;
    Ok(u64::try_from(png.len()).unwrap_or(u64::MAX))
}

/// Packs a vector for each tile; where there is a pack of tiles, they are read through a join.
fn pack_vectors(
    home: &Path,
    records: &[TileRecord],
    has_tiles: bool,
    common: &Common,
) -> Result<(FeatureSummary, Duration)> {
    let mut random = Random(11);
    let vectors: Vec<Vec<f32>> = records.iter().map(|_| vector(&mut random)).collect();
    let path = home.join(FEATURE_PACK);
    let mut builder = FeaturePackBuilder::new("made-up").dtype(ElementType::Float16);
    let tiles = match has_tiles {
        true => Some(TilePackReader::open(home.join(TILE_PACK))?),
        false => None,
    };
    let table = match &tiles {
        Some(tiles) => {
            builder = builder.for_tiles(tiles)?;
            tiles.record_table()?
        }
        None => {
            builder = builder.tile_size(u64::from(EDGE), u64::from(EDGE));
            let mut table = RecordTable::new();
            for record in records {
                table.push(record)?;
            }
            table
        }
    };
    let summary = builder.build(&path, table, &vectors)?;
    let read = ReadOptions::default().workers(common.workers);
    let pack = FeaturePackReader::open_with(&path, &read)?;
    let order = random_rows(records.len());
    let join = match &tiles {
        Some(tiles) => FeatureJoin::with_tiles(tiles, [&pack])?,
        None => FeatureJoin::with_features(&pack, [&pack])?,
    };
    let start = Instant::now();
    let elements = join.read_f32(&order)?;
    let time = start.elapsed();
    let is_equal = elements.len() == order.len().saturating_mul(DIM)
        && order.iter().zip(elements.chunks_exact(DIM)).all(|(row, found)| {
            let place = usize::try_from(*row).unwrap_or(usize::MAX);
            vectors.get(place).is_some_and(|vector| vector.as_slice() == found)
        });
    if !is_equal {
        return Err(differs(&path, "a vector differs from the one that was packed"));
    }
    Ok((summary, time))
}

fn differs(path: &Path, what: &str) -> Failure {
    Report::new(ErrorKind::Damaged, format!("{}: {what}", path.display())).path(path).into()
}

fn random_rows(count: usize) -> Vec<u64> {
    let mut rows: Vec<u64> = (0..u64::try_from(count).unwrap_or(u64::MAX)).collect();
    Random(2).shuffle(&mut rows);
    rows
}

/// Numbers between -1 and 1 that 16 bits hold exactly.
fn vector(random: &mut Random) -> Vec<f32> {
    (0..DIM)
        .map(|_| {
            let [byte, _] = random.two_bytes();
            f32::from(i8::from_le_bytes([byte])) / 128.0
        })
        .collect()
}

/// A round place of another colour.
#[derive(Debug, Clone, Copy)]
struct Spot {
    x: u64,
    y: u64,
    radius: u64,
}

/// The spots of a slide, some of which lie on several tiles.
fn spots(slide: u64) -> Vec<Spot> {
    let (columns, rows) = GRID;
    let side = |tiles: u32| u64::from(tiles.saturating_mul(EDGE));
    let mut random = Random(slide.wrapping_add(1000));
    (0..120)
        .map(|_| Spot {
            x: random.between(0, side(columns)),
            y: random.between(0, side(rows)),
            radius: random.between(3, 22),
        })
        .collect()
}

/// What a tile shows of its slide: a bright ground that changes slowly, spots, a little noise.
fn picture(record: &TileRecord, spots: &[Spot]) -> Result<Image> {
    let origin = |position: i64| u64::try_from(position).unwrap_or(0);
    let (left, top, edge) = (origin(record.x), origin(record.y), u64::from(EDGE));
    let mut random = Random(left.wrapping_mul(7919).wrapping_add(top));
    let mut pixels = Vec::new();
    for y in top..top.saturating_add(edge) {
        for x in left..left.saturating_add(edge) {
            let is_inside = spots.iter().any(|spot| {
                let (dx, dy) = (x.abs_diff(spot.x), y.abs_diff(spot.y));
                dx.saturating_mul(dx).saturating_add(dy.saturating_mul(dy))
                    <= spot.radius.saturating_mul(spot.radius)
            });
            let [noise, _] = random.two_bytes();
            let shade = u8::try_from(x.saturating_add(y) >> 5 & 31).unwrap_or(0);
            let ground: [u8; 3] = if is_inside { [96, 64, 130] } else { [205, 150, 190] };
            pixels
                .extend(ground.map(|level| level.saturating_add(shade).saturating_add(noise & 7)));
        }
    }
    let made = ImageShape::new(EDGE, EDGE, 3).and_then(|shape| Image::new(shape, pixels));
    made.map_err(|error| Failure::usage(error.to_string()))
}

impl Tiles {
    pub(super) fn lines(&self) -> [String; 2] {
        let tiles = match &self.packed {
            Some(packed) => format!(
                "  tiles     {} of {EDGE} x {EDGE} on {} in a pack of {}, read back and compared at {}, \
                 and a sheet of them",
                human::counted(packed.summary.rows, "tile"),
                human::counted(packed.summary.slides, "slide"),
                human::bytes(packed.summary.written.file_bytes),
                human::record_rate(packed.summary.rows, packed.time),
            ),
            None => {
                "  tiles     skipped: this build cannot encode JPEG XL (feature jxl)".to_owned()
            }
        };
        let joined = if self.packed.is_some() { ", joined to the tiles" } else { "" };
        let features = format!(
            "  features  {} of {} {} in a pack of {}{joined}, read back and compared at {}",
            human::counted(self.features.rows, "vector"),
            human::count(self.features.dim),
            self.features.dtype,
            human::bytes(self.features.written.file_bytes),
            human::record_rate(self.features.rows, self.features_time)
        );
        [tiles, features]
    }

    pub(super) fn documents(&self) -> [(&'static str, Value); 2] {
        let tiles = match &self.packed {
            Some(packed) => json!({
                "tiles": packed.summary.rows,
                "slides": packed.summary.slides,
                "file_bytes": packed.summary.written.file_bytes,
                "sheet_bytes": packed.sheet_bytes,
                "reads_per_second": human::per_second(packed.summary.rows, packed.time),
            }),
            None => json!({"skipped": "this build cannot encode JPEG XL (feature jxl)"}),
        };
        let features = json!({
            "rows": self.features.rows,
            "dim": self.features.dim,
            "dtype": self.features.dtype.name(),
            "file_bytes": self.features.written.file_bytes,
            "reads_per_second": human::per_second(self.features.rows, self.features_time),
        });
        [("tiles", tiles), ("features", features)]
    }

    /// Commands to try on what lies in a folder.
    pub(super) fn commands(&self, dir: &Path) -> Vec<String> {
        let features = format!("iac stats {}", quoted(&dir.join(FEATURE_PACK)));
        let tiles = self.packed.as_ref().map(|_| {
            let (pack, out) = (quoted(&dir.join(TILE_PACK)), quoted(&dir.join("val.tiles.iac")));
            format!("iac subset {pack} --where \"split = 'val'\" -o {out}")
        });
        tiles.into_iter().chain([features]).collect()
    }
}
