//! Whole slides: regions at several resolutions, exact and fast, opening, memory, and OpenSlide on the
//! same tiles.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_adapters::wsi::{
    EncodedTile, Mpp, NativeRegion, OverviewOptions, OverviewUse, RasterCodec, Region, Resolution,
    TileColors, WsiHeader, WsiOpenOptions, WsiPackReader, WsiPackWriter, WsiReadOptions,
    build_overview, overview_path,
};
use iac_codec::jpeg::JpegOptions;
use iac_codec::jpeg2000::Jpeg2000Options;
use iac_codec::jxl::JxlOptions;
use iac_codec::{Codec, ImageShape, ImageView};
use iac_ops::NoProgress;
use iac_reader::ReadOptions;
use serde_json::{Map, Value, json};

use crate::clock::{Sample, measure};
use crate::peer::{Program, number};
use crate::random::Random;
use crate::report::{Basis, Fact, Goal, Line, Section, Series};
use crate::{Result, images, sample};

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Slides {
    /// Pixels of each side of the slide.
    pub edge: u32,
    /// Pixels of each side of a region.
    pub region: u32,
    /// Tiles of the pack that is opened.
    pub tiles: u32,
    /// Repetitions.
    pub rounds: usize,
}

/// Pixels of each side of a tile.
pub(crate) const TILE: u32 = 512;
/// Different tiles; each is stored many times.
const IMAGES: usize = 16;
/// Micrometres per native pixel.
const NATIVE: f64 = 0.25;
/// How much coarser regions are than the raster, with how many of them are read in a round.
const FACTORS: [(u32, usize); 4] = [(1, 12), (2, 6), (8, 2), (32, 1)];
/// The series of each factor: exact on two threads and on one, the reference, fast with an overview
/// and without.
const NAMES: [[&str; 5]; 4] = [
    ["1 exact", "1 alone", "1 reference", "1 overview", "1 fast"],
    ["2 exact", "2 alone", "2 reference", "2 overview", "2 fast"],
    ["8 exact", "8 alone", "8 reference", "8 overview", "8 fast"],
    ["32 exact", "32 alone", "32 reference", "32 overview", "32 fast"],
];
const WHAT: [[&str; 6]; 4] = [
    [
        "native, exact, 2 workers",
        "  beside 1 worker",
        "  beside the reference (all cores' time)",
        "native, fast, with overview",
        "native, fast, without",
        "  the same (all cores' time)",
    ],
    [
        "2x, exact, 2 workers",
        "  beside 1 worker",
        "  beside the reference (all cores' time)",
        "2x, fast, with overview",
        "2x, fast, without",
        "  the same (all cores' time)",
    ],
    [
        "8x, exact, 2 workers",
        "  beside 1 worker",
        "  beside the reference (all cores' time)",
        "8x, fast, with overview",
        "8x, fast, without",
        "  the same (all cores' time)",
    ],
    [
        "32x, exact, 2 workers",
        "  beside 1 worker",
        "  beside the reference (all cores' time)",
        "32x, fast, with overview",
        "32x, fast, without",
        "  the same (all cores' time)",
    ],
];
const ONE: NonZeroUsize = NonZeroUsize::MIN;
const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
/// Opens per round on our side.
const OPENS: u64 = 10;

/// A codec of tiles.
struct Kind {
    name: &'static str,
    codec: RasterCodec,
    encoder: Codec,
    /// What fast regions without an overview must reach beside the reference.
    fast: f64,
}

fn kinds() -> Result<Vec<Kind>> {
    Ok(vec![
        Kind {
            name: "JPEG",
            codec: RasterCodec::Jpeg {
                colors: TileColors::YCbCr,
                tables: None,
                associated_effort: 3,
            },
            encoder: JpegOptions::default().with_quality(85).codec()?,
            fast: 1.15,
        },
        Kind {
            name: "JPEG XL",
            codec: RasterCodec::Jxl { lossless: false, distance: 1.0, effort: 3 },
            encoder: JxlOptions::lossy(1.0).with_effort(3).codec()?,
            fast: 1.15,
        },
        Kind {
            name: "JPEG 2000",
            codec: RasterCodec::Jpeg2000 {
                source_compression: "JPEG2000".to_owned(),
                associated_effort: 3,
            },
            encoder: Jpeg2000Options::with_rate(12.0).codec()?,
            fast: 5.0,
        },
    ])
}

/// Different tiles of tissue.
fn pictures() -> Result<Vec<Vec<u8>>> {
    let tissue = images::tissue()?;
    let pixels = tissue.samples().to_le_bytes().into_owned();
    Ok((0..IMAGES)
        .map(|number| {
            let mut moved = pixels.clone();
            moved.rotate_left(number * 3 * 4099);
            moved
        })
        .collect())
}

pub(crate) fn encode(encoder: &Codec) -> Result<Vec<Vec<u8>>> {
    let shape = ImageShape::new(TILE, TILE, 3)?;
    let encode = |pixels: &Vec<u8>| Ok(encoder.encode_image(&ImageView::new(shape, &pixels[..])?)?);
    pictures()?.iter().map(encode).collect()
}

/// Writes a slide of `edge` pixels a side, in tiles of `tile`.
fn write(
    path: &Path,
    (width, height): (u32, u32),
    tile: u32,
    codec: RasterCodec,
    payloads: &[Vec<u8>],
) -> Result<()> {
    let header = WsiHeader {
        slide_id: "slide".to_owned(),
        patient_id: String::new(),
        specimen_id: String::new(),
        width: width.into(),
        height: height.into(),
        mpp: Mpp::both(NATIVE),
        mpp_provenance: "user_override".to_owned(),
        tile_width: tile,
        tile_height: tile,
        background: [255; 3],
        background_is_counted: false,
        codec,
        selection: Value::Null,
        original_orientation: 1,
        source_format: "tiff".to_owned(),
        import_backend: "benchmark".to_owned(),
        associated_images_preserved: false,
        extra: Map::new(),
    };
    let mut writer = WsiPackWriter::create(path, header, &sample::options())?;
    let mut payloads = payloads.iter().cycle();
    for y in 0..height.div_ceil(tile) {
        for x in 0..width.div_ceil(tile) {
            let payload = payloads.next().ok_or("no tiles")?;
            writer.push_tile(&EncodedTile { x, y, payload })?;
        }
    }
    writer.finish(Map::new(), None, Vec::new())?;
    Ok(())
}

fn open(path: &Path, overview: OverviewUse) -> Result<WsiPackReader> {
    // Every region is made anew.
    let options = WsiOpenOptions::new()
        .reading(ReadOptions::default().use_header_cache(false))
        .tile_cache(0)
        .render_cache(0)
        .overview(overview);
    Ok(WsiPackReader::open_with(path, &options)?)
}

impl Slides {
    /// Makes the packs in `folder`, measures, and removes them.
    ///
    /// # Errors
    ///
    /// What a codec, a reader, the writer, the system or the reference reports, or when the sides
    /// read different pixels.
    pub fn run(&self, folder: &Path, reference: Option<&Program>) -> Result<Vec<Section>> {
        let mut sections = Vec::new();
        for kind in kinds()? {
            sections.push(self.regions(&kind, folder, reference)?);
        }
        sections.push(self.opening(folder, reference)?);
        if let Some(section) = self.openslide(folder, reference)? {
            sections.push(section);
        }
        Ok(sections)
    }

    /// Where regions of a factor begin: on the grid of the coarsest.
    fn places(&self, factor: u32, count: usize, seed: u64) -> Vec<Region> {
        let mut random = Random::new(seed);
        let room = u64::from(self.edge.saturating_sub(self.region * factor)) / 64 + 1;
        let mut at = || f64::from(u32::try_from(random.below(room) * 64).unwrap_or(0)) * NATIVE;
        (0..count)
            .map(|_| Region {
                x_um: at(),
                y_um: at(),
                width: self.region,
                height: self.region,
                mpp: Mpp::both(NATIVE * f64::from(factor)),
            })
            .collect()
    }

    fn regions(&self, kind: &Kind, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        let path = folder.join("bench.pat.iac");
        write(&path, (self.edge, self.edge), TILE, kind.codec.clone(), &encode(&kind.encoder)?)?;
        sample::warm(&path)?;
        let plain = open(&path, OverviewUse::Never)?;
        let mut options = OverviewOptions::new();
        options.workers = TWO;
        let (made, building) = measure(|| Ok(build_overview(&plain, &options, &NoProgress)?))?;
        let overview = open(&path, OverviewUse::Automatic)?;
        let mut peer = reference.map(Program::start).transpose()?;
        if let Some(peer) = &mut peer {
            peer.call(&json!({"op": "use_slide", "path": path}))?;
        }
        let mut series = Series::default();
        for _ in 0..self.rounds {
            for ((factor, count), names) in FACTORS.iter().zip(NAMES) {
                let places = self.places(*factor, *count, u64::from(*factor));
                let count = u64::try_from(places.len())?;
                let [exact, alone, theirs, with, without] = names;
                let read = |reader: &WsiPackReader, workers, resolution| -> Result<Sample> {
                    let options = WsiReadOptions::new().workers(workers).resolution(resolution);
                    let ((), time) = measure(|| {
                        for place in &places {
                            black_box(reader.read_region(place, &options)?);
                        }
                        Ok(())
                    })?;
                    Ok(time.per(count))
                };
                series.add(exact, read(&plain, TWO, Resolution::Exact)?);
                series.add(alone, read(&plain, ONE, Resolution::Exact)?);
                series.add(with, read(&overview, TWO, Resolution::Fast)?);
                series.add(without, read(&plain, TWO, Resolution::Fast)?);
                if let Some(peer) = &mut peer {
                    let list: Vec<_> = places.iter().map(|it| (it.x_um, it.y_um)).collect();
                    let command = json!({
                        "op": "read_slide",
                        "places": list,
                        "size": self.region,
                        "mpp": NATIVE * f64::from(*factor),
                        "workers": 2,
                    });
                    let answer = peer.call(&command)?;
                    let time =
                        Sample { cpu: number(&answer, "cpu")?, wall: number(&answer, "wall")? };
                    series.add(theirs, time.per(count));
                    let last = places.last().ok_or("no regions")?;
                    let image = plain.read_region(last, &WsiReadOptions::new().workers(TWO))?;
                    let sum: u64 = image.pixels.iter().map(|sample| u64::from(*sample)).sum();
                    if number(&answer, "sum")? != sum as f64 {
                        return Err(
                            format!("{}: the sides read different pixels", kind.name).into()
                        );
                    }
                }
            }
        }
        drop(peer);
        let facts = self.memory(&path, made.bytes, building, reference)?;
        std::fs::remove_file(overview_path(&path))?;
        std::fs::remove_file(&path)?;
        let mut lines = Vec::new();
        for ((names, what), (factor, _)) in NAMES.iter().zip(WHAT).zip(FACTORS) {
            let [exact, alone, theirs, with, without] = *names;
            let line = |what, ours, reference, plain, goal| Line {
                what,
                ours,
                reference,
                plain,
                basis: Basis::Wall,
                goal,
            };
            lines.push(line(what[1], exact, None, Some(alone), Some(Goal::PartOfPlain(1.8))));
            let goal = Some(Goal::TimesReference(1.15));
            lines.push(line(what[0], exact, Some(theirs), None, goal));
            let time = line(what[2], exact, Some(theirs), None, goal);
            lines.push(Line { basis: Basis::Cpu, ..time });
            let goal = match factor {
                8 => Some(20.0),
                32 => Some(100.0),
                _ => None,
            };
            let goal = goal.map(Goal::TimesReference);
            lines.push(line(what[3], with, Some(theirs), None, goal));
            let time = line(what[5], with, Some(theirs), None, goal);
            lines.push(Line { basis: Basis::Cpu, ..time });
            let goal = (factor >= 8).then_some(Goal::TimesReference(kind.fast));
            lines.push(line(what[4], without, Some(theirs), None, goal));
            let time = line(what[5], without, Some(theirs), None, goal);
            lines.push(Line { basis: Basis::Cpu, ..time });
        }
        Ok(Section {
            title: format!(
                "slide of {0} x {0} pixels, {1} tiles of {TILE}, regions of {2} x {2} (wall unless said)",
                self.edge, kind.name, self.region
            ),
            unit: ("ms/region", 1e-3),
            series,
            lines,
            facts,
        })
    }

    /// The most memory that a region of the whole slide at 32x takes.
    fn memory(
        &self,
        path: &Path,
        overview: u64,
        building: Sample,
        reference: Option<&Program>,
    ) -> Result<Vec<Fact>> {
        let size = self.edge / 32;
        let command = json!({
            "op": "slide_memory",
            "path": path,
            "size": size,
            "mpp": NATIVE * 32.0,
            "workers": 2,
        });
        let mebibytes =
            |answer: &Value| -> Result<f64> { Ok(number(answer, "peak")? / 1_048_576.0) };
        let ours = mebibytes(&Program::Ours.once(&command)?)?;
        let theirs = reference.map(|program| mebibytes(&program.once(&command)?)).transpose()?;
        let fact =
            |what, unit, ours, reference, at_most| Fact { what, unit, ours, reference, at_most };
        Ok(vec![
            fact("peak memory, whole slide at 32x", "MiB", ours, theirs, Some(256.0)),
            fact("overview, bytes", "MiB", overview as f64 / 1_048_576.0, None, None),
            fact("overview, made in (wall)", "s", building.wall, None, None),
        ])
    }

    fn opening(&self, folder: &Path, reference: Option<&Program>) -> Result<Section> {
        const SMALL: u32 = 16;
        let path = folder.join("many.pat.iac");
        let encoder = JxlOptions::lossless().with_effort(3).codec()?;
        let shape = ImageShape::new(SMALL, SMALL, 3)?;
        let pixels = vec![120_u8; shape.samples()];
        let payload = encoder.encode_image(&ImageView::new(shape, &pixels[..])?)?;
        let across = 150;
        let size = (across * SMALL, self.tiles.div_ceil(across) * SMALL);
        let codec = RasterCodec::Jxl { lossless: true, distance: 0.0, effort: 3 };
        write(&path, size, SMALL, codec, &[payload])?;
        sample::warm(&path)?;
        let mut series = Series::default();
        for _ in 0..self.rounds.max(3) {
            let ((), ours) = measure(|| {
                for _ in 0..OPENS {
                    black_box(open(&path, OverviewUse::Never)?);
                }
                Ok(())
            })?;
            series.add("ours", ours.per(OPENS));
            if let Some(program) = reference {
                let command = json!({"op": "open_slide", "path": path});
                series.add("reference", program.start()?.sample(&command)?);
            }
        }
        std::fs::remove_file(&path)?;
        Ok(Section {
            title: format!("opening a slide of {} tiles", self.tiles),
            unit: ("ms", 1e-3),
            series,
            lines: vec![Line {
                what: "open, all checks of the schema",
                ours: "ours",
                reference: Some("reference"),
                plain: None,
                basis: Basis::Cpu,
                goal: Some(Goal::TimesReference(50.0)),
            }],
            facts: Vec::new(),
        })
    }

    /// OpenSlide on a TIFF file of the same tiles, where its library and Python package are there.
    fn openslide(&self, folder: &Path, reference: Option<&Program>) -> Result<Option<Section>> {
        let Some(program) = reference else { return Ok(None) };
        let mut peer = program.start()?;
        if peer.call(&json!({"op": "has_openslide"}))?.get("has") != Some(&Value::Bool(true)) {
            return Ok(None);
        }
        // Old libraries keep 32 MiB of tiles in any case: the slide is so large, and places differ so
        // much, that this is of no use.
        let (edge, region) = (self.edge.max(20_000), 512);
        let (path, tiff) = (folder.join("bench.pat.iac"), folder.join("bench.tif"));
        let codec =
            RasterCodec::Jpeg { colors: TileColors::YCbCr, tables: None, associated_effort: 3 };
        let payloads = encode(&JpegOptions::default().with_quality(85).codec()?)?;
        write(&path, (edge, edge), TILE, codec, &payloads)?;
        write_tiff(&tiff, edge, &payloads)?;
        sample::warm(&path)?;
        sample::warm(&tiff)?;
        let reader = open(&path, OverviewUse::Never)?;
        peer.call(&json!({"op": "use_openslide", "path": tiff}))?;
        let mut random = Random::new(77);
        let room = u64::from(edge - region);
        let mut series = Series::default();
        for _ in 0..self.rounds.max(5) {
            let places: Vec<(i64, i64)> = (0..24)
                .map(|_| Ok((random.below(room).try_into()?, random.below(room).try_into()?)))
                .collect::<Result<_>>()?;
            let count = u64::try_from(places.len())?;
            let ((), ours) = measure(|| {
                for (x, y) in &places {
                    let region = NativeRegion { x: *x, y: *y, width: region, height: region };
                    black_box(reader.read_native(&region, &WsiReadOptions::new())?);
                }
                Ok(())
            })?;
            series.add("ours", ours.per(count));
            let command = json!({"op": "read_openslide", "places": places, "size": region});
            series.add("openslide", peer.sample(&command)?.per(count));
        }
        drop(peer);
        std::fs::remove_file(&path)?;
        std::fs::remove_file(&tiff)?;
        Ok(Some(Section {
            title: "the same JPEG tiles in a TIFF file without pyramid, read by OpenSlide"
                .to_owned(),
            unit: ("ms/region", 1e-3),
            series,
            lines: [("native, random places, one thread, no cache (wall)", Basis::Wall), {
                ("  the same (processor time)", Basis::Cpu)
            }]
            .map(|(what, basis)| Line {
                what,
                ours: "ours",
                reference: Some("openslide"),
                plain: None,
                basis,
                goal: Some(Goal::TimesReference(1.2)),
            })
            .to_vec(),
            facts: Vec::new(),
        }))
    }
}

/// A tiled TIFF file of JPEG tiles, without pyramid.
pub(crate) fn write_tiff(path: &Path, edge: u32, payloads: &[Vec<u8>]) -> Result<()> {
    let across = edge.div_ceil(TILE);
    let tiles: Vec<&Vec<u8>> =
        payloads.iter().cycle().take(usize::try_from(across * across)?).collect();
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(b"II*\0")?;
    // The directory comes last: its place is filled in once it is known.
    let data: usize = tiles.iter().map(|tile| tile.len() + tile.len() % 2).sum();
    let lists = 8 + data;
    let count = u32::try_from(tiles.len())?;
    let directory = lists + tiles.len() * 8 + 6 + 16;
    file.write_all(&u32::try_from(directory)?.to_le_bytes())?;
    let mut offsets = Vec::new();
    let mut at = 8;
    for tile in &tiles {
        offsets.push(u32::try_from(at)?);
        file.write_all(tile)?;
        if tile.len() % 2 == 1 {
            file.write_all(&[0])?;
        }
        at += tile.len() + tile.len() % 2;
    }
    for offset in &offsets {
        file.write_all(&offset.to_le_bytes())?;
    }
    for tile in &tiles {
        file.write_all(&u32::try_from(tile.len())?.to_le_bytes())?;
    }
    for bits in [8_u16; 3] {
        file.write_all(&bits.to_le_bytes())?;
    }
    for number in [10_000_u32, 1, 10_000, 1] {
        file.write_all(&number.to_le_bytes())?;
    }
    let lists = u32::try_from(lists)?;
    let bits = lists + count * 8;
    let (short, long, rational) = (3_u16, 4_u16, 5_u16);
    let entries: [(u16, u16, u32, u32); 15] = [
        (256, long, 1, edge),
        (257, long, 1, edge),
        (258, short, 3, bits),
        (259, short, 1, 7),
        (262, short, 1, 6),
        (277, short, 1, 3),
        (282, rational, 1, bits + 6),
        (283, rational, 1, bits + 14),
        (284, short, 1, 1),
        (296, short, 1, 3),
        (322, long, 1, TILE),
        (323, long, 1, TILE),
        (324, long, count, lists),
        (325, long, count, lists + count * 4),
        (530, short, 2, 2 | (2 << 16)),
    ];
    file.write_all(&u16::try_from(entries.len())?.to_le_bytes())?;
    for (tag, kind, count, value) in entries {
        file.write_all(&tag.to_le_bytes())?;
        file.write_all(&kind.to_le_bytes())?;
        file.write_all(&count.to_le_bytes())?;
        file.write_all(&value.to_le_bytes())?;
    }
    file.write_all(&[0; 4])?;
    file.flush()?;
    Ok(())
}

/// Our answer to `slide_memory`.
///
/// # Errors
///
/// What the reader reports.
pub fn read_whole(path: &PathBuf, size: u32, mpp: f64) -> Result<()> {
    let region = Region { x_um: 0.0, y_um: 0.0, width: size, height: size, mpp: Mpp::both(mpp) };
    // With the defaults, caches included.
    let reader = WsiPackReader::open(path)?;
    black_box(reader.read_region(&region, &WsiReadOptions::new().workers(TWO))?);
    Ok(())
}
