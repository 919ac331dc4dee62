//! Building packs of tiles.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iac_codec::{CodecSpec, Limits, Parameters, Registry, SampleType};
use iac_ops::ordered::{Bounds, for_each_ordered};
use iac_ops::{NoProgress, OpsError, Progress};
use iac_writer::{PackWriter, WriteError, WriteOptions, WriteSummary};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::error::{AdapterError, Result, short};
use crate::manifest::ManifestReader;
use crate::record::{CheckedRecords, RecordTable, TileRecord};
use crate::task::{Task, check_cancelled};
use crate::tiles::IMAGE_TILES;
use crate::tiles::images::{Encoder, Found, Sources, changed, listed};
use crate::tiles::journal::Journal;
use crate::tiles::options::{Alpha, ImageRules, JpegSources, TileColor, WideSamples};
use crate::tiles::plan::{Kinds, Plan};
use crate::tiles::source::{FileStamp, SourceReader};
use crate::tiles::warnings::TileWarning;

/// Width and height of a tile in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileSize {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// Builds packs of image tiles.
///
/// By default tiles are RGB, encoded by JPEG XL at a distance of 1, and the pack is one that every
/// reader knows. Whatever manifest, files and destination make impossible is said before the first
/// tile is encoded.
///
/// ```no_run
/// use iac_adapters::tiles::TilePackBuilder;
/// use iac_ops::NoProgress;
///
/// let builder = TilePackBuilder::new().tile_root("images").effort(3).journal(true);
/// let summary = builder.build_from_manifest("tiles.csv", "cohort.tiles.iac", &NoProgress)?;
/// println!("{} tiles of {} slides", summary.rows, summary.slides);
/// for warning in &summary.warnings {
///     eprintln!("{warning}");
/// }
/// # Ok::<(), iac_adapters::AdapterError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TilePackBuilder {
    pub(super) lossless: bool,
    pub(super) distance: Option<f64>,
    pub(super) effort: Option<u64>,
    pub(super) stride: [Option<u64>; 2],
    pub(super) tile_root: Option<PathBuf>,
    pub(super) beside_manifest: bool,
    pub(super) several_sizes: bool,
    pub(super) rules: ImageRules,
    pub(super) jpeg: JpegSources,
    pub(super) header: Map<String, Value>,
    pub(super) check_payloads: bool,
    pub(super) journal: bool,
    pub(super) workers: Option<NonZeroUsize>,
    pub(super) memory: u64,
    pub(super) limits: Limits,
    pub(super) write: WriteOptions,
}

/// What was built.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TileSummary {
    /// Tiles.
    pub rows: u64,
    /// Slides that they were cut from.
    pub slides: u64,
    /// The size of the tiles, where all have the same.
    pub tile_size: Option<TileSize>,
    /// Distances between columns and rows of tiles, where positions are stored in them.
    pub stride: Option<[u64; 2]>,
    /// Tiles whose payloads came out of a journal.
    pub resumed: u64,
    /// What is allowed, but seldom meant.
    pub warnings: Vec<TileWarning>,
    /// What was written.
    pub written: WriteSummary,
}

impl Default for TilePackBuilder {
    fn default() -> Self {
        Self {
            lossless: false,
            distance: Some(1.0),
            effort: Some(7),
            stride: [None; 2],
            tile_root: None,
            beside_manifest: false,
            several_sizes: false,
            rules: ImageRules::default(),
            jpeg: JpegSources::Decode,
            header: Map::new(),
            check_payloads: true,
            journal: false,
            workers: None,
            memory: 256 << 20,
            limits: Limits::default(),
            write: WriteOptions::new(),
        }
    }
}

impl TilePackBuilder {
    /// The defaults: lossy at a distance of 1, effort 7.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether nothing may be lost. Default: no.
    #[must_use]
    pub const fn lossless(mut self, lossless: bool) -> Self {
        self.lossless = lossless;
        self
    }

    /// Sets how much may be lost: above 0 and up to 25, of no effect in lossless packs. Default:
    /// 1.0, which an absent value stands for too.
    #[must_use]
    pub fn distance(mut self, distance: impl Into<Option<f64>>) -> Self {
        self.distance = distance.into();
        self
    }

    /// Sets how much time encoding may take, from 1 (fast) to 10 (small). Default: 7, which an
    /// absent value stands for too.
    #[must_use]
    pub fn effort(mut self, effort: impl Into<Option<u64>>) -> Self {
        self.effort = effort.into();
        self
    }

    /// Sets the distances between columns and rows of tiles. Default (`None`): the greatest common
    /// divisor of all positions.
    #[must_use]
    pub fn stride(mut self, x: impl Into<Option<u64>>, y: impl Into<Option<u64>>) -> Self {
        self.stride = [x.into(), y.into()];
        self
    }

    /// Sets the folder that relative paths of a manifest start at. Default: the current one.
    #[must_use]
    pub fn tile_root(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tile_root = Some(folder.into());
        self
    }

    /// Sets whether relative paths start at the manifest's own folder, unless a
    /// [root](Self::tile_root) is given. Default: no.
    #[must_use]
    pub const fn beside_manifest(mut self, beside: bool) -> Self {
        self.beside_manifest = beside;
        self
    }

    /// Sets whether tiles may be of several sizes. Default: no. A pack that has some is of payload
    /// type `image_tiles_v2`, which the reference packages do not read.
    #[must_use]
    pub const fn several_sizes(mut self, allow: bool) -> Self {
        self.several_sizes = allow;
        self
    }

    /// Sets which channels are stored.
    #[must_use]
    pub const fn color(mut self, color: TileColor) -> Self {
        self.rules.color = color;
        self
    }

    /// Sets what happens to alpha channels that are not stored.
    #[must_use]
    pub const fn alpha(mut self, alpha: Alpha) -> Self {
        self.rules.alpha = alpha;
        self
    }

    /// Sets what happens to samples of more than 8 bits.
    #[must_use]
    pub const fn wide_samples(mut self, wide: WideSamples) -> Self {
        self.rules.wide = wide;
        self
    }

    /// Sets whether images are turned as their orientation tag says. Default: no, as tiles of a
    /// slide have to lie as they were cut.
    #[must_use]
    pub const fn apply_orientation(mut self, apply: bool) -> Self {
        self.rules.apply_orientation = apply;
        self
    }

    /// Sets what happens to JPEG files.
    #[must_use]
    pub const fn jpeg_sources(mut self, what: JpegSources) -> Self {
        self.jpeg = what;
        self
    }

    /// Sets further header members, which replace the builder's own of their names.
    #[must_use]
    pub fn header(mut self, members: Map<String, Value>) -> Self {
        self.header = members;
        self
    }

    /// Sets whether payloads that are encoded already are looked at: whether they are of the codec,
    /// and of the stated size. Default: yes, where this build has the codec.
    #[must_use]
    pub const fn check_payloads(mut self, check: bool) -> Self {
        self.check_payloads = check;
        self
    }

    /// Sets whether a journal is kept beside the pack while it is built (`.NAME.journal.part`).
    /// Default: no.
    ///
    /// A build that was killed then continues where it was; tiles whose files have changed since,
    /// and those behind them, are encoded again. The journal goes when the pack is there. It takes
    /// as much space as the pack, for as long as it is there.
    #[must_use]
    pub const fn journal(mut self, keep: bool) -> Self {
        self.journal = keep;
        self
    }

    /// Sets the number of threads that load and encode. Default (`None`): all cores. The pack does
    /// not depend on it.
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Option<NonZeroUsize>>) -> Self {
        self.workers = workers.into();
        self
    }

    /// Sets how many bytes of images may be in memory at once, unless one has more. Default: 256
    /// MiB.
    #[must_use]
    pub const fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets bounds on the images.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how the pack is written.
    #[must_use]
    pub const fn options(mut self, options: WriteOptions) -> Self {
        self.write = options;
        self
    }

    /// Builds a pack from the images that a manifest lists.
    ///
    /// The manifest is read several times, as a stream; the paths in it are not kept in memory.
    /// Progress counts tiles.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Manifest`] and [`AdapterError::MissingColumns`] for a manifest that cannot
    /// be read; [`AdapterError::Listed`] with the line of a record that does not fit the others
    /// ([`AdapterError::Records`]) or whose image cannot become a tile ([`AdapterError::Source`],
    /// [`AdapterError::Io`], [`AdapterError::Codec`]); [`AdapterError::Records`] for a manifest
    /// without records; [`AdapterError::Codec`] for arguments that the codec refuses or when it is
    /// not compiled in;
    /// [`AdapterError::Write`], also when the destination exists. Nothing but the journal is left
    /// then.
    pub fn build_from_manifest(
        &self,
        manifest: impl AsRef<Path>,
        output: impl AsRef<Path>,
        progress: &dyn Progress,
    ) -> Result<TileSummary> {
        let (manifest, output) = (manifest.as_ref(), output.as_ref());
        let encoder = self.encoder(output)?;
        self.check_free(output)?;
        let before = FileStamp::of(manifest)?;
        let of_record = |error: AdapterError| match error.row() {
            Some(row) => listed(manifest, row, error),
            None => error,
        };
        let mut records = RecordTable::new();
        for record in ManifestReader::open(manifest)? {
            records.push(&record?).map_err(of_record)?;
            if records.len().is_multiple_of(1 << 16) {
                check_cancelled(progress)?;
            }
        }
        let records = records.check().map_err(of_record)?;
        let sources = Sources {
            manifest,
            root: self.root(manifest),
            reader: SourceReader::new(self.rules, self.limits),
        };
        let found = self.look_at(&sources, &records, progress)?;
        let plan = self.plan(&records, &found, &encoder).map_err(of_record)?;
        if FileStamp::of(manifest)? != before {
            return Err(changed(manifest));
        }
        let build = self.fingerprint(&records, &sources)?;
        let mut journal = match self.journal {
            true => Some(Journal::open(output, &build)?),
            false => None,
        };
        let mut writer = PackWriter::with_index(
            output,
            plan.header.clone(),
            &plan.slides,
            &plan.index,
            &self.write,
        )?;
        let task = Task::begin(progress, "encoding", Some(records.rows()));
        let mut kinds = Kinds::default();
        let resumed = match &mut journal {
            None => 0,
            Some(journal) => {
                let mut paths = sources.paths()?;
                journal.replay(
                    records.rows(),
                    |_, stamp| match paths.next() {
                        Some(Ok((_, path))) => FileStamp::of(&path).is_ok_and(|now| now == stamp),
                        _ => false,
                    },
                    |payload| {
                        check_cancelled(progress)?;
                        kinds.add_payload(&encoder, payload);
                        writer.push(payload)?;
                        task.advance(1);
                        Ok(())
                    },
                )?
            }
        };
        let cost = found.cost();
        let mut failure = None;
        let paths = sources.paths()?.skip(usize::try_from(resumed).unwrap_or(usize::MAX));
        let bounds = Bounds { workers: self.workers, cost: self.memory };
        let result = for_each_ordered(
            (resumed..).zip(paths),
            bounds,
            progress,
            |_| cost,
            |(row, item)| Ok(self.encode(&records, &sources, &encoder, &plan, row, item)),
            |encoded| {
                let encoded = encoded.map_err(|error| listed(manifest, writer.rows(), error));
                let emitted = encoded.and_then(|encoded| {
                    kinds.add(encoded.kind);
                    if let Some(journal) = &mut journal {
                        journal.append(encoded.stamp, &encoded.payload)?;
                    }
                    writer.push(&encoded.payload)?;
                    task.advance(1);
                    Ok(())
                });
                emitted.map_err(|error| {
                    failure = Some(error);
                    OpsError::Cancelled
                })
            },
        );
        match (failure, result) {
            (Some(error), _) => return Err(error),
            (None, result) => result?,
        }
        if writer.rows() != records.rows() {
            return Err(changed(manifest));
        }
        drop(task);
        kinds.write_to_header(writer.header_mut());
        let written = writer.finish()?;
        if let Some(journal) = journal {
            journal.remove()?;
        }
        Ok(self.summary(&records, plan, resumed, written))
    }

    /// Builds a pack from tiles of one size that are encoded already, by JPEG XL.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Records`] for records and payloads that do not make a pack, with the row;
    /// [`AdapterError::Usage`] for arguments that cannot be used; [`AdapterError::Write`], also
    /// when the destination exists.
    pub fn build_from_records<P: AsRef<[u8]>>(
        &self,
        records: &[TileRecord],
        payloads: &[P],
        tile_size: TileSize,
        output: impl AsRef<Path>,
    ) -> Result<TileSummary> {
        self.build_from_records_with(records, payloads, tile_size, output, &NoProgress)
    }

    /// The same, which can be stopped. Nothing is left then.
    ///
    /// # Errors
    ///
    /// As [`build_from_records`](Self::build_from_records), and an error that
    /// [`is_cancelled`](AdapterError::is_cancelled) when `progress` asks to stop.
    pub fn build_from_records_with<P: AsRef<[u8]>>(
        &self,
        records: &[TileRecord],
        payloads: &[P],
        tile_size: TileSize,
        output: impl AsRef<Path>,
        progress: &dyn Progress,
    ) -> Result<TileSummary> {
        let output = output.as_ref();
        let mut table = RecordTable::new();
        records.iter().try_for_each(|record| table.push(record))?;
        if records.len() != payloads.len() {
            return Err(AdapterError::records(
                None,
                None,
                format!("there are {} payloads for {} records", payloads.len(), records.len()),
            ));
        }
        let records = table.check()?;
        if tile_size.width == 0 || tile_size.height == 0 {
            return Err(AdapterError::usage(format!(
                "tile size must be positive, but it is ({}, {})",
                tile_size.width, tile_size.height
            )));
        }
        self.check_free(output)?;
        let found = Found { size: Some(tile_size), ..Found::default() };
        let encoder = Encoder::Stored;
        let plan = self.plan(&records, &found, &encoder)?;
        if self.check_payloads {
            self.look_at_payloads(&records, payloads, tile_size, progress)?;
        }
        let mut writer = PackWriter::with_index(
            output,
            plan.header.clone(),
            &plan.slides,
            &plan.index,
            &self.write,
        )?;
        for payload in payloads {
            check_cancelled(progress)?;
            writer.push(payload)?;
        }
        let written = writer.finish()?;
        Ok(self.summary(&records, plan, 0, written))
    }

    fn look_at_payloads<P: AsRef<[u8]>>(
        &self,
        records: &CheckedRecords,
        payloads: &[P],
        size: TileSize,
        progress: &dyn Progress,
    ) -> Result<()> {
        // A build without the codec can still write what others have encoded.
        let Ok(codec) = Registry::global().create(&CodecSpec::new("jxl", Parameters::new())) else {
            return Ok(());
        };
        for (row, payload) in (0_u64..).zip(payloads) {
            check_cancelled(progress)?;
            let at = |reason: String| {
                let id = short(records.id(row));
                AdapterError::records(row, None, format!("the payload of tile \"{id}\" {reason}"))
            };
            let info = codec
                .image_info(payload.as_ref())
                .map_err(|error| at(format!("is no JPEG XL image: {error}")))?;
            let shape = info.shape;
            if (shape.width(), shape.height()) != (size.width, size.height) {
                return Err(at(format!(
                    "is {} x {} instead of {} x {}",
                    shape.width(),
                    shape.height(),
                    size.width,
                    size.height
                )));
            }
            if info.sample_type != SampleType::U8 {
                return Err(at(format!(
                    "has samples of type {}, which not every reader of {IMAGE_TILES} knows",
                    info.sample_type
                )));
            }
        }
        Ok(())
    }

    fn check_free(&self, output: &Path) -> Result<()> {
        if !self.write.overwrite && output.symlink_metadata().is_ok() {
            return Err(WriteError::Exists { path: output.to_owned() }.into());
        }
        Ok(())
    }

    fn root(&self, manifest: &Path) -> PathBuf {
        match &self.tile_root {
            Some(root) => root.clone(),
            None if self.beside_manifest => {
                manifest.parent().map(Path::to_owned).unwrap_or_default()
            }
            None => PathBuf::new(),
        }
    }

    fn encoder(&self, output: &Path) -> Result<Encoder> {
        if self.jpeg == JpegSources::Keep {
            return Ok(Encoder::KeptJpeg);
        }
        let mut parameters = Parameters::new();
        parameters.insert("lossless".to_owned(), json!(self.lossless));
        // Ignored in lossless packs, whatever it is.
        if !self.lossless {
            parameters.insert("distance".to_owned(), json!(self.distance.unwrap_or(1.0)));
        }
        parameters.insert("effort".to_owned(), json!(self.effort.unwrap_or(7)));
        let codec_error =
            |source| AdapterError::Codec { path: output.display().to_string(), row: None, source };
        let spec = CodecSpec::new("jxl", parameters);
        let codec = Registry::global().create_encoder(&spec).map_err(codec_error)?;
        #[cfg(not(feature = "jxl"))]
        if self.jpeg == JpegSources::Transcode {
            return Err(codec_error(iac_codec::CodecError::MissingFeature {
                name: "jxl",
                feature: "jxl",
            }));
        }
        Ok(Encoder::Jxl(codec))
    }

    /// A sum over everything that payloads depend on, apart from the content of the images.
    fn fingerprint(&self, records: &CheckedRecords, sources: &Sources<'_>) -> Result<[u8; 32]> {
        let mut sum = Sha256::new();
        if !self.journal {
            return Ok(sum.finalize().into());
        }
        let Self { lossless, distance, effort, rules, jpeg, .. } = self;
        sum.update(format!("{lossless} {distance:?} {effort:?} {rules:?} {jpeg:?}\n"));
        sum.update(env!("CARGO_PKG_VERSION"));
        sum.update(records.rows().to_le_bytes());
        for item in sources.paths()? {
            let (record, path) = item?;
            for text in [record.tile_id.as_bytes(), path.as_os_str().as_encoded_bytes()] {
                sum.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
                sum.update(text);
            }
        }
        Ok(sum.finalize().into())
    }

    fn summary(
        &self,
        records: &CheckedRecords,
        plan: Plan,
        resumed: u64,
        written: WriteSummary,
    ) -> TileSummary {
        TileSummary {
            rows: records.rows(),
            slides: u64::try_from(records.slides.len()).unwrap_or(u64::MAX),
            tile_size: plan.size,
            stride: plan.stride,
            resumed,
            warnings: plan.warnings,
            written,
        }
    }
}
