//! Packs in an object store that answers after 20 milliseconds, and local files through the same
//! source.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use iac_codec::jxl::JxlOptions;
use iac_codec::{Image, ImageShape};
use iac_reader::object::object_store::memory::InMemory;
use iac_reader::object::object_store::path::Path as Key;
use iac_reader::object::object_store::throttle::{ThrottleConfig, ThrottledStore};
use iac_reader::object::object_store::{ObjectStoreExt, PutPayload};
use iac_reader::object::{ObjectLocation, ObjectOptions, block_on};
use iac_reader::{
    ContiguousRecordBatch, PackReader, ReadAheadOptions, ReadOptions, SourceKind,
    VariableRecordPack,
};
use iac_writer::VariablePackBuilder;

use crate::Result;
use crate::clock::{Sample, measure};
use crate::images;
use crate::random::Random;
use crate::report::{Basis, Goal, Line, Section, Series};
use crate::sample::{self, BATCH_ROWS};

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Objects {
    /// Records of 64 KiB.
    pub records: u64,
    /// Batches of them per round.
    pub batches: usize,
    /// Tiles of 512 x 512 per round.
    pub tiles: usize,
    /// Repetitions.
    pub rounds: usize,
}

const LATENCY: Duration = Duration::from_millis(20);
const IN_FLIGHT: usize = 32;
const RECORD: u64 = 64 << 10;
/// Tiles of a batch that is read ahead.
const TILE_BATCH: usize = 16;
const IMAGES: usize = 16;
const EDGE: u32 = 512;
const ONE: Option<NonZeroUsize> = NonZeroUsize::new(1);

/// A pack in a store far away.
fn far(path: &Path, options: &ObjectOptions) -> Result<PackReader> {
    let store = InMemory::new();
    let key = Key::from("pack.iac");
    block_on(store.put(&key, PutPayload::from(std::fs::read(path)?)))??;
    let config = ThrottleConfig { wait_get_per_call: LATENCY, ..ThrottleConfig::default() };
    let store = Arc::new(ThrottledStore::new(store, config));
    let place = ObjectLocation::in_store(store, key, "far away");
    Ok(PackReader::open_object(&place, &ReadOptions::default().workers(ONE), options)?)
}

impl Objects {
    /// Makes the packs in `folder`, measures, and removes them.
    ///
    /// # Errors
    ///
    /// What a codec, a reader, the writer or the system reports, or when something else is read
    /// than was written.
    pub fn run(&self, folder: &Path) -> Result<Vec<Section>> {
        Ok(vec![self.batches(folder)?, self.ahead(folder)?, self.local(folder)?])
    }

    fn batches(&self, folder: &Path) -> Result<Section> {
        let path = folder.join("far.iac");
        let rows = sample::write_variable(&path, self.records * RECORD, (RECORD, RECORD), 71)?;
        // Without joining of what is merely near, the number of requests is known.
        let pack = far(&path, &ObjectOptions::default().join_gap(0))?;
        let near = PackReader::open(&path)?;
        let mut series = Series::default();
        for batch in sample::random_batches(rows, self.batches * self.rounds, 72) {
            let (records, took) = measure(|| Ok(pack.read_rows(&batch)?))?;
            if records != near.read_rows(&batch)? {
                return Err("the store's records are not the file's".into());
            }
            series.add("batch", took);
            let turns = requests(&batch).div_ceil(IN_FLIGHT);
            let wall = LATENCY.as_secs_f64() * turns as f64;
            series.add("ideal", Sample { cpu: wall, wall });
        }
        std::fs::remove_file(&path)?;
        Ok(Section {
            title: format!("object store, 20 ms, random batches of {BATCH_ROWS} x 64 KiB"),
            unit: ("ms/batch", 1e-3),
            series,
            lines: vec![Line {
                what: "read_rows; plain: 20 ms for each 32 requests",
                ours: "batch",
                reference: None,
                plain: Some("ideal"),
                basis: Basis::Wall,
                goal: Some(Goal::TimesPlain(1.3)),
            }],
            facts: Vec::new(),
        })
    }

    fn ahead(&self, folder: &Path) -> Result<Section> {
        let path = folder.join("far.tiles.iac");
        write_tiles(&path, self.tiles)?;
        let open = |pack| VariableRecordPack::from_reader(pack);
        let pack = open(far(&path, &ObjectOptions::default())?);
        let near = open(PackReader::open_with(&path, &ReadOptions::default().workers(ONE))?);
        let mut random = Random::new(73);
        let mut order: Vec<u64> = (0..u64::try_from(self.tiles)?).collect();
        let mut series = Series::default();
        let tiles = u64::try_from(self.tiles)?;
        for _ in 0..self.rounds {
            for at in (1..order.len()).rev() {
                let other = usize::try_from(random.within(0, u64::try_from(at)?))?;
                order.swap(at, other);
            }
            let plan: Vec<Vec<u64>> = order.chunks(TILE_BATCH).map(<[u64]>::to_vec).collect();
            let ((), decoding) = measure(|| {
                for rows in &plan {
                    black_box(near.read_image_batch(rows)?);
                }
                Ok(())
            })?;
            series.add("decoding alone", decoding.per(tiles));
            let ((), ahead) = measure(|| {
                let options = ReadAheadOptions::default();
                for batch in pack.read_images_ahead(plan.clone(), options) {
                    black_box(batch?);
                }
                Ok(())
            })?;
            series.add("ahead", ahead.per(tiles));
            let ((), waiting) = measure(|| {
                for rows in &plan {
                    black_box(pack.read_image_batch(rows)?);
                }
                Ok(())
            })?;
            series.add("waiting", waiting.per(tiles));
        }
        std::fs::remove_file(&path)?;
        let line = |what, ours, goal| Line {
            what,
            ours,
            reference: None,
            plain: Some("decoding alone"),
            basis: Basis::Wall,
            goal,
        };
        Ok(Section {
            title: format!(
                "object store, 20 ms, batches of {TILE_BATCH} JPEG XL tiles of 512 x 512, one core"
            ),
            unit: ("ms/tile", 1e-3),
            series,
            lines: vec![
                line("read_images_ahead", "ahead", Some(Goal::PartOfPlain(0.95))),
                line("read_image_batch, which waits", "waiting", None),
            ],
            facts: Vec::new(),
        })
    }

    fn local(&self, folder: &Path) -> Result<Section> {
        let mut series = Series::default();
        let names = [
            (sample::KILOBYTE, "1 KB, object source", "1 KB, positional"),
            (sample::TILES, "4 to 60 KiB, object source", "4 to 60 KiB, positional"),
        ];
        for (lengths, ours, plain) in names {
            let path = folder.join("local.iac");
            let bytes = self.records * RECORD / 2;
            let rows = sample::write_variable(&path, bytes, lengths, 74)?;
            sample::warm(&path)?;
            let read = ReadOptions::default().workers(ONE).source(SourceKind::Positional);
            let place = ObjectLocation::local(&path);
            let object = PackReader::open_object(&place, &read, &ObjectOptions::default())?;
            let positional = PackReader::open_with(&path, &read)?;
            let mut batch = ContiguousRecordBatch::new();
            let batches = sample::random_batches(rows, self.batches * 4 * self.rounds, 75);
            for some in batches.chunks(self.batches * 4) {
                let count = u64::try_from(some.len() * BATCH_ROWS)?;
                for (name, pack) in [(ours, &object), (plain, &positional)] {
                    let ((), took) = measure(|| {
                        for rows in some {
                            pack.read_contiguous_into(rows, &mut batch)?;
                            black_box(&batch);
                        }
                        Ok(())
                    })?;
                    series.add(name, took.per(count));
                }
            }
            std::fs::remove_file(&path)?;
        }
        let lines = names.map(|(_, ours, plain)| Line {
            what: ours,
            ours,
            reference: None,
            plain: Some(plain),
            basis: Basis::Cpu,
            goal: Some(Goal::TimesPlain(1.3)),
        });
        Ok(Section {
            title: format!("local file through the object source, random batches of {BATCH_ROWS}"),
            unit: ("us/record", 1e-6),
            series,
            lines: lines.to_vec(),
            facts: Vec::new(),
        })
    }
}

/// Requests that a batch of equal records takes when only neighbours share one.
fn requests(rows: &[u64]) -> usize {
    let mut sorted = rows.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.chunk_by(|a, b| a + 1 == *b).count()
}

fn write_tiles(path: &Path, count: usize) -> Result<()> {
    let codec = JxlOptions::lossy(1.0).with_effort(3).codec()?;
    let tissue = images::tissue()?;
    let pixels = tissue.samples().to_le_bytes().into_owned();
    let shape = ImageShape::new(EDGE, EDGE, 3)?;
    let pictures = (0..IMAGES.min(count)).map(|number| {
        let mut moved = pixels.clone();
        moved.rotate_left(number * 3 * 4099);
        Ok(Image::new(shape, moved)?)
    });
    let pictures = pictures.collect::<Result<Vec<Image>>>()?;
    let views: Vec<_> = pictures.iter().map(Image::as_view).cycle().take(count).collect();
    VariablePackBuilder::new("benchmark", sample::index_table(u64::try_from(count)?)?)
        .codec(codec)
        .options(sample::options())
        .build_images(path, &views)?;
    Ok(())
}
