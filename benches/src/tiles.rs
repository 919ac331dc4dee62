//! Packs of image tiles: random batches of tiles, and the row of one id in a large pack.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use iac_adapters::TileRecord;
use iac_adapters::tiles::{RgbTile, TilePackBuilder, TilePackReader, TileReadOptions, TileSize};
use iac_codec::jxl::JxlOptions;
use iac_codec::{Image, ImageShape, SamplesMut};
use iac_reader::ReadOptions;
use serde_json::{Value, json};

use crate::Result;
use crate::clock::{Sample, measure};
use crate::images::{self, Bare};
use crate::peer::{Program, number};
use crate::random::Random;
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::sample;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Tiles {
    /// Tiles of 512 x 512.
    pub tiles: usize,
    /// Rows of the pack in which an id is looked up.
    pub rows: usize,
    /// Repetitions.
    pub rounds: usize,
}

/// Pixels of each side of a tile.
const EDGE: u32 = 512;
/// The same where ids are looked up, so that decoding the tile costs next to nothing.
const SMALL: u32 = 16;
/// Tiles of a batch.
const BATCH: usize = 64;
/// Different images that the tiles are made of; each is stored many times.
pub(crate) const IMAGES: usize = 16;
/// The effort that the tiles are encoded at, which decoding does not depend on much.
const EFFORT: u8 = 3;
const ONE: Option<NonZeroUsize> = NonZeroUsize::new(1);
const TWO: Option<NonZeroUsize> = NonZeroUsize::new(2);
/// Opens per round on our side.
const OPENS: u64 = 5;

/// Records on a square grid of tiles, on one slide.
#[must_use]
pub fn records(count: usize) -> Vec<TileRecord> {
    let side = count.isqrt().max(1);
    let position = |at: usize| i64::try_from(at).unwrap_or(0) * i64::from(EDGE);
    (0..count)
        .map(|at| TileRecord {
            tile_id: format!("slide-0001_tile_{at:08}"),
            patient_id: "patient-0001".to_owned(),
            slide_id: "slide-0001".to_owned(),
            tile_path: format!("tiles/{at:08}.png").into(),
            x: position(at % side),
            y: position(at / side),
            split: Some("train".to_owned()),
        })
        .collect()
}

/// The same tissue, moved and mirrored, so that no two images are equal.
pub(crate) fn pictures() -> Result<Vec<Image>> {
    let tissue = images::tissue()?;
    let pixels = tissue.samples().to_le_bytes().into_owned();
    let shape = ImageShape::new(EDGE, EDGE, 3)?;
    (0..IMAGES)
        .map(|number| {
            let mut moved = pixels.clone();
            moved.rotate_left(number * 3 * 4099);
            Ok(Image::new(shape, moved)?)
        })
        .collect()
}

fn build(path: &Path, records: &[TileRecord], payloads: &[&[u8]], edge: u32) -> Result<()> {
    let size = TileSize { width: edge, height: edge };
    TilePackBuilder::new()
        .options(sample::options())
        .build_from_records(records, payloads, size, path)?;
    Ok(())
}

fn open(path: &Path, workers: Option<NonZeroUsize>) -> Result<TilePackReader> {
    let read = ReadOptions::default().workers(workers).use_header_cache(false);
    Ok(TilePackReader::open_with(path, &TileReadOptions::new().reading(read))?)
}

impl Tiles {
    /// Random batches of tiles, out of a pack that is made in `folder` and removed.
    ///
    /// # Errors
    ///
    /// What a codec, a reader, the writer, the system or the reference reports, or when the sides
    /// read different tiles.
    pub fn batches(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let (path, rows_path) = (folder.join("bench.tiles.iac"), folder.join("tiles.rows"));
        let codec = JxlOptions::lossy(1.0).with_effort(EFFORT).codec()?;
        let pictures = pictures()?;
        let encoded = pictures
            .iter()
            .map(|picture| Ok(codec.encode_image(&picture.as_view())?))
            .collect::<Result<Vec<Vec<u8>>>>()?;
        let payloads: Vec<&[u8]> =
            encoded.iter().map(Vec::as_slice).cycle().take(self.tiles).collect();
        build(&path, &records(self.tiles), &payloads, EDGE)?;
        sample::warm(&path)?;

        // Every tile once in random order in each round.
        let mut random = Random::new(31);
        let mut order: Vec<u64> = (0..u64::try_from(self.tiles)?).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, usize::try_from(random.below(u64::try_from(at)? + 1))?);
        }
        let batches: Vec<Vec<u64>> = order.chunks(BATCH).map(<[u64]>::to_vec).collect();
        sample::save_batches(&rows_path, &batches)?;
        let (one, two) = (open(&path, ONE)?, open(&path, TWO)?);
        let mut peer = reference.map(Program::start).transpose()?;
        if let Some(peer) = &mut peer {
            peer.call(&json!({"op": "use_tiles", "path": path, "rows": rows_path,
                              "batch": BATCH}))?;
            let answer = peer.call(&json!({"op": "check_tiles", "row": order[0]}))?;
            compare(&answer, &one.read_rgb(order[0])?)?;
        }
        let mut bare = images::jxl::decoder(&pictures[0])?;
        let place = one.read_rgb(0)?.pixels.len();
        let mut batch = vec![1; place * BATCH];

        let mut series = Series::default();
        let count = u64::try_from(order.len())?;
        for _ in 0..self.rounds {
            let alone = decode_alone(bare.as_mut(), &payloads, &batches, &mut batch)?;
            series.add("bare", alone.per(count));
            let ours = over(&batches, |rows| {
                Ok(one.read_rgb_batch_into(rows, &mut batch[..rows.len() * place])?)
            })?;
            series.add("one", ours.per(count));
            let ours = over(&batches, |rows| {
                Ok(two.read_rgb_batch_into(rows, &mut batch[..rows.len() * place])?)
            })?;
            series.add("two", ours.per(count));
            if let Some(peer) = &mut peer {
                let command = json!({"op": "read_tiles", "workers": 2});
                series.add("reference", peer.sample(&command)?.per(count));
            }
            let ours = over(&batches, |rows| {
                black_box(two.read_rgb_many(rows)?);
                Ok(())
            })?;
            series.add("many", ours.per(count));
        }
        drop(peer);
        std::fs::remove_file(&path)?;
        std::fs::remove_file(&rows_path)?;
        let line = |what, ours, reference, basis, goal| Line {
            what,
            ours,
            reference,
            plain: Some("bare"),
            basis,
            goal,
        };
        let reference = Some("reference");
        Ok(Section {
            title: format!(
                "tiles, {} JPEG XL of {EDGE} x {EDGE}, random batches of {BATCH}",
                self.tiles
            ),
            unit: ("ms/tile", 1e-3),
            series,
            lines: vec![
                line("into one buffer, 1 worker", "one", None, Basis::Cpu, None),
                line("into one buffer, 2 workers (all cores' time)", "two", None, Basis::Cpu, {
                    Some(Goal::PartOfPlain(0.95))
                }),
                // Two cores: nobody can be twice as fast as the bare codec on one.
                line("  the same (wall)", "two", reference, Basis::Wall, {
                    Some(Goal::PartOfPlain(1.9))
                }),
                line("  the same beside the reference (wall)", "two", reference, Basis::Wall, {
                    Some(Goal::TimesReference(1.0))
                }),
                line("an array for each tile, 2 workers (wall)", "many", reference, Basis::Wall, {
                    Some(Goal::TimesReference(1.0))
                }),
            ],
            facts: Vec::new(),
        })
    }

    /// From the path of a pack to the tile of an id; the pack is made in `folder` and removed.
    ///
    /// # Errors
    ///
    /// As [`batches`](Self::batches).
    pub fn lookup(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let path = folder.join("many.tiles.iac");
        let records = records(self.rows);
        let shape = ImageShape::new(SMALL, SMALL, 3)?;
        let picture = Image::new(shape, vec![200_u8; shape.samples()])?;
        let payload = JxlOptions::lossy(1.0).codec()?.encode_image(&picture.as_view())?;
        build(&path, &records, &vec![payload.as_slice(); self.rows], SMALL)?;
        sample::warm(&path)?;
        let id = records[self.rows / 3].tile_id.clone();
        drop(records);
        let command = json!({"op": "find_tile", "path": path, "id": id, "repeat": 1});
        let mut series = Series::default();
        for round in 0..=self.rounds {
            let ((), ours) = measure(|| {
                for _ in 0..OPENS {
                    black_box(open(&path, ONE)?.read_rgb_by_id(&id)?);
                }
                Ok(())
            })?;
            // A process of its own, as the reference keeps what it found in earlier ones.
            let theirs = reference.map(|program| program.start()?.sample(&command)).transpose()?;
            // The first round of each side is for warming up.
            if round == 0 {
                continue;
            }
            series.add("ours", ours.per(OPENS));
            if let Some(theirs) = theirs {
                series.add("reference", theirs);
            }
        }
        let command = json!({"op": "find_tile_memory", "path": path, "id": id});
        let ours = number(&Program::Ours.once(&command)?, "bytes")?;
        let theirs = reference.map(|program| program.once(&command)).transpose()?;
        let theirs = theirs.map(|answer| number(&answer, "bytes")).transpose()?;
        // Ids all over the pack, found by a reader that has its index.
        let tiles = open(&path, ONE)?;
        tiles.row_of(&id)?;
        let (_, index) = measure(|| Ok(black_box(tiles.row_of(&id)?)))?;
        let mut further = Vec::new();
        for row in (0..u64::try_from(self.rows)?).step_by(97) {
            further.push(tiles.tile_id(row)?.to_owned());
        }
        let ((), each) = measure(|| {
            for id in &further {
                black_box(tiles.row_of(id)?);
            }
            Ok(())
        })?;
        let each = each.per(u64::try_from(further.len())?).cpu * 1e9;
        drop(tiles);
        std::fs::remove_file(&path)?;
        let per_row = |bytes: f64| bytes / self.rows as f64;
        Ok(Section {
            title: format!("tiles, opening a pack of {} and reading the tile of one id", self.rows),
            unit: ("ms", 1e-3),
            series,
            lines: vec![Line {
                what: "open and tile of an id",
                ours: "ours",
                reference: Some("reference"),
                plain: None,
                basis: Basis::Cpu,
                goal: Some(Goal::TimesReference(20.0)),
            }],
            facts: vec![
                Fact {
                    what: "indexing all ids, at the second lookup",
                    unit: "ms",
                    ours: index.cpu * 1e3,
                    reference: None,
                    at_most: None,
                },
                Fact {
                    what: "looking up one more id",
                    unit: "ns",
                    ours: each,
                    reference: None,
                    at_most: None,
                },
                Fact {
                    what: "memory of its own after that, for each row",
                    unit: "bytes",
                    ours: per_row(ours),
                    reference: theirs.map(per_row),
                    at_most: Some(40.0),
                },
            ],
        })
    }
}

/// The library alone, on one thread, into the places of a batch that is there: whoever makes
/// batches has to write them.
fn decode_alone(
    bare: &mut dyn Bare,
    payloads: &[&[u8]],
    batches: &[Vec<u64>],
    batch: &mut [u8],
) -> Result<Sample> {
    let place = batch.len() / BATCH;
    let ((), sample) = measure(|| {
        for rows in batches {
            for (row, place) in rows.iter().zip(batch.chunks_mut(place)) {
                bare.decode(payloads[usize::try_from(*row)?], SamplesMut::U8(place))?;
            }
        }
        Ok(())
    })?;
    Ok(sample)
}

/// Decoders of the same library may differ by a level, no more.
fn compare(answer: &Value, ours: &RgbTile) -> Result<()> {
    let sum: f64 = ours.pixels.iter().map(|sample| f64::from(*sample)).sum();
    let mean = |sum: f64| sum / ours.pixels.len() as f64;
    if (mean(number(answer, "sum")?) - mean(sum)).abs() > 1.0 {
        return Err("the reference's tiles are not ours".into());
    }
    Ok(())
}

fn over(batches: &[Vec<u64>], mut work: impl FnMut(&[u64]) -> Result<()>) -> Result<Sample> {
    let ((), sample) = measure(|| batches.iter().try_for_each(|rows| work(rows)))?;
    Ok(sample)
}
