//! Building packs of image tiles from files, beside the codec alone, and what each effort costs.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::BufWriter;
use std::num::NonZeroUsize;
use std::path::Path;

use iac_adapters::manifest::write_manifest;
use iac_adapters::tiles::TilePackBuilder;
use iac_codec::Image;
use iac_codec::jxl::JxlOptions;
use iac_ops::NoProgress;
use serde_json::json;

use crate::Result;
use crate::clock::measure;
use crate::images;
use crate::peer::{Program, number};
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::sample;
use crate::tiles::{IMAGES, pictures, records};

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct TilesBuild {
    /// Tiles of 512 x 512 in the pack that is timed.
    pub tiles: usize,
    /// Efforts that are tabulated, from 1 on.
    pub efforts: u8,
    /// Repetitions.
    pub rounds: usize,
}

const ONE: Option<NonZeroUsize> = NonZeroUsize::new(1);
const TWO: Option<NonZeroUsize> = NonZeroUsize::new(2);
const MIB: f64 = 1_048_576.0;
/// The builder's default.
const EFFORT: u8 = 7;
/// Quick to encode, for packs whose building is only watched for its memory.
const QUICK: u8 = 1;

/// A builder with the settings of these measurements.
#[must_use]
pub fn builder(effort: u8, workers: Option<NonZeroUsize>) -> TilePackBuilder {
    TilePackBuilder::new().effort(u64::from(effort)).workers(workers).options(sample::options())
}

/// Writes images as PNG files, and a manifest in which each stands many times.
fn write_sources(folder: &Path, pictures: &[Image], tiles: usize) -> Result<()> {
    for (number, picture) in pictures.iter().enumerate() {
        let shape = picture.shape();
        let file = BufWriter::new(File::create(folder.join(format!("{number}.png")))?);
        let mut encoder = png::Encoder::new(file, shape.width(), shape.height());
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&picture.samples().to_le_bytes())?;
        writer.finish()?;
    }
    let mut records = records(tiles);
    for (at, record) in records.iter_mut().enumerate() {
        record.tile_path = folder.join(format!("{}.png", at % pictures.len()));
    }
    Ok(write_manifest(folder.join("tiles.csv"), &records)?)
}

impl TilesBuild {
    /// Makes the files in `folder`, measures, and removes them.
    ///
    /// # Errors
    ///
    /// What a codec, the builder or the system reports.
    pub fn run(&self, folder: &Path) -> Result<Vec<Section>> {
        let pictures = pictures()?;
        Ok(vec![self.build(folder, &pictures)?, self.efforts(&pictures)?])
    }

    fn build(&self, folder: &Path, pictures: &[Image]) -> Result<Section> {
        let sources = folder.join("tile-sources");
        fs::create_dir(&sources)?;
        write_sources(&sources, pictures, self.tiles)?;
        let (manifest, pack) = (sources.join("tiles.csv"), folder.join("built.tiles.iac"));
        let mut bare = pictures
            .iter()
            .map(|picture| images::jxl::bare(picture, Some(1.0), EFFORT))
            .collect::<Result<Vec<_>>>()?;
        let count = u64::try_from(self.tiles)?;
        let mut series = Series::default();
        for _ in 0..self.rounds {
            let ((), alone) = measure(|| {
                for at in 0..self.tiles {
                    black_box(bare[at % IMAGES].encode()?);
                }
                Ok(())
            })?;
            series.add("bare", alone.per(count));
            for (name, workers) in [("one", ONE), ("two", TWO)] {
                let ((), ours) = measure(|| {
                    builder(EFFORT, workers).build_from_manifest(&manifest, &pack, &NoProgress)?;
                    Ok(())
                })?;
                series.add(name, ours.per(count));
            }
        }
        // Each pack in a process of its own: what the allocator has kept does not count.
        let mut peaks = Vec::new();
        for times in [1, 8] {
            write_sources(&sources, pictures, self.tiles * times)?;
            let command = json!({"op": "build_tiles", "manifest": manifest, "path": pack,
                                 "effort": QUICK});
            let answer = Program::Ours.once(&command)?;
            peaks.push((self.tiles * times, number(&answer, "peak")? / MIB));
        }
        fs::remove_file(&pack)?;
        fs::remove_dir_all(&sources)?;
        let least = peaks.iter().map(|(_, peak)| *peak).fold(f64::INFINITY, f64::min);
        let line = |what, ours, basis, goal| Line {
            what,
            ours,
            reference: None,
            plain: Some("bare"),
            basis,
            goal: Some(goal),
        };
        Ok(Section {
            title: format!(
                "building a pack of {} tiles from PNG files, effort {EFFORT}, beside encoding alone",
                self.tiles
            ),
            unit: ("ms/tile", 1e-3),
            series,
            lines: vec![
                line("1 worker", "one", Basis::Cpu, Goal::TimesPlain(1.05)),
                line("2 workers (all cores' time)", "two", Basis::Cpu, Goal::TimesPlain(1.05)),
                line("  the same (wall)", "two", Basis::Wall, Goal::PartOfPlain(1.9)),
            ],
            facts: peaks
                .iter()
                .map(|(tiles, peak)| Fact {
                    what: Box::leak(
                        format!("peak memory of building {tiles} tiles").into_boxed_str(),
                    ),
                    unit: "MiB",
                    ours: *peak,
                    reference: None,
                    at_most: Some(least * 1.2),
                })
                .collect(),
        })
    }

    /// Time and bytes of a tile at each effort.
    fn efforts(&self, pictures: &[Image]) -> Result<Section> {
        let mut series = Series::default();
        let (mut lines, mut facts) = (Vec::new(), Vec::new());
        let count = u64::try_from(pictures.len())?;
        for (kind, options) in
            [("lossy, distance 1", JxlOptions::lossy(1.0)), ("lossless", JxlOptions::lossless())]
        {
            for effort in 1..=self.efforts {
                let name: &'static str = Box::leak(format!("{kind}, effort {effort}").into());
                let codec = options.with_effort(effort).codec()?;
                let (bytes, time) = measure(|| {
                    let mut bytes = 0;
                    for picture in pictures {
                        bytes += codec.encode_image(&picture.as_view())?.len();
                    }
                    Ok(bytes)
                })?;
                series.add(name, time.per(count));
                lines.push(Line {
                    what: name,
                    ours: name,
                    reference: None,
                    plain: None,
                    basis: Basis::Cpu,
                    goal: None,
                });
                facts.push(Fact {
                    what: name,
                    unit: "bytes/tile",
                    ours: bytes as f64 / count as f64,
                    reference: None,
                    at_most: None,
                });
            }
        }
        Ok(Section {
            title: format!("encoding {count} tiles of 512 x 512, one round"),
            unit: ("ms/tile", 1e-3),
            series,
            lines,
            facts,
        })
    }
}
