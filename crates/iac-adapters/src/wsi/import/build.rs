//! Writing the pack of a source.

use std::path::Path;

use iac_format::ErrorKind;
use iac_ops::Progress;
use serde_json::{Map, Value, json};

use super::journal::Journal;
use super::levels::{Levels, smaller};
use super::profile::{Choice, choose, codec_error, encode, encoder};
use super::raster::StoredRaster;
use super::source::{Description, NativeTiles, RasterSource};
use super::{DEFAULT_TILE, WsiImportSummary, WsiImporter, in_order, source_error};
use crate::error::{AdapterError, Result};
use crate::task::Task;
use crate::wsi::codec_params::RasterCodec;
use crate::wsi::schema::Mpp;
use crate::wsi::write::{EncodedTile, WsiAssociated, WsiHeader, WsiPackWriter};
use crate::wsi::{OVERVIEW_EXTENSION, TRANSCODE_EXTENSION};

/// Tiles that a pack is given: in tiles of 512, a square of four million pixels along each side.
const MAX_TILES: u64 = 1 << 26;

/// A tile as it goes into the pack.
pub(super) struct MadeTile {
    pub(super) place: (u32, u32),
    pub(super) payload: Vec<u8>,
    /// The bytes that it was made of, where they do not come back from the payload.
    pub(super) original: Option<Vec<u8>>,
    /// Averages at 1/8, where an overview is made.
    pub(super) small: Option<Vec<u8>>,
}

/// Where tiles go.
pub(super) struct Sink<'a> {
    pub(super) writer: &'a mut WsiPackWriter,
    pub(super) levels: Option<Levels>,
    /// Where tiles are kept for another run.
    journal: Option<&'a Journal>,
    /// Tiles whose bytes do not come back from their payloads.
    pub(super) kept: u64,
}

impl Sink<'_> {
    /// Whether tiles are to bring averages along.
    pub(super) const fn wants_small(&self) -> bool {
        self.levels.is_some()
    }

    fn push(&mut self, tile: MadeTile) -> Result<()> {
        let MadeTile { place: (x, y), payload, original, small } = tile;
        self.writer.push_tile(&EncodedTile { x, y, payload: &payload })?;
        if let Some(original) = original {
            self.kept = self.kept.saturating_add(1);
            self.writer.push_private(&format!("iac.jpeg/{x}/{y}"), &original)?;
        }
        if let (Some(small), Some(levels)) = (small, &mut self.levels) {
            levels.add((x, y), &small, self.writer)?;
        }
        Ok(())
    }

    /// Writes what is left of levels, and says in the header that they are there.
    pub(super) fn finish(self) -> Result<()> {
        if let Some(levels) = self.levels {
            levels.finish(self.writer)?;
            let extensions =
                self.writer.extra_mut().entry("extensions").or_insert_with(|| json!([]));
            if let Value::Array(extensions) = extensions {
                extensions.push(OVERVIEW_EXTENSION.into());
            }
        }
        Ok(())
    }
}

impl WsiImporter {
    pub(super) fn import_source(
        &self,
        path: &Path,
        source: &dyn RasterSource,
        pack: &Path,
        progress: &dyn Progress,
    ) -> Result<WsiImportSummary> {
        let description = source.description();
        let (mpp, provenance) = self.resolution(path, description)?;
        let tile = self.tile.unwrap_or((DEFAULT_TILE, DEFAULT_TILE));
        let raster = StoredRaster::new(source, tile);
        check_grid(path, &raster)?;
        let choice = choose(path, source, &raster, self, progress)?;
        if let (Choice::Native { .. } | Choice::Transcoded, Some(native)) =
            (&choice, source.native())
        {
            check_grid(path, &StoredRaster::new(source, native.tile))?;
        }
        let journal = self.journal(source, pack, &choice)?;
        let journal_of = journal.as_ref();
        let mut header = self.header(description, mpp, provenance);
        (header.tile_width, header.tile_height) = tile;
        let mut kept = 0_u64;
        let (writer, strategy) = match choice {
            Choice::Native { codec, selection } => {
                let native = native_of(source)?;
                (header.tile_width, header.tile_height) = native.tile;
                header.codec = codec;
                header.selection = selection;
                let strategy = strategy(&header.selection);
                let mut writer = WsiPackWriter::create(pack, header, &self.write)?;
                let raster = StoredRaster::new(source, native.tile);
                let mut sink = self.sink(&raster, &mut writer, [255; 3], false, None)?;
                let wants_small = sink.wants_small();
                let make = |place: (u32, u32)| {
                    let Some(payload) = source.native_tile(place.0, place.1)? else {
                        return Ok(None);
                    };
                    let small = wants_small
                        .then(|| small_of(source, &raster, place, &payload))
                        .transpose()?;
                    Ok(Some(MadeTile { place, payload, original: None, small }))
                };
                self.tiles(&raster, raster.places(), "copying tiles", progress, &mut sink, make)?;
                sink.finish()?;
                (writer, strategy)
            }
            Choice::Transcoded => {
                let native = native_of(source)?;
                (header.tile_width, header.tile_height) = native.tile;
                header.codec =
                    RasterCodec::Jxl { lossless: false, distance: 1.0, effort: self.effort };
                header.extra = transcode_members(native);
                let mut writer = WsiPackWriter::create(pack, header, &self.write)?;
                kept = self.transcode(source, native, progress, &mut writer, journal_of)?;
                (writer, "transcode".to_owned())
            }
            Choice::Encoded { lossless, distance, selection, scan } => {
                header.codec = RasterCodec::Jxl { lossless, distance, effort: self.effort };
                header.selection = selection;
                header.background = scan.background;
                header.background_is_counted = scan.counted;
                let strategy = strategy(&header.selection);
                let codec = encoder(lossless, distance, self.effort).map_err(codec_error)?;
                let mut writer = WsiPackWriter::create(pack, header, &self.write)?;
                let stored = scan.stored.iter().copied();
                let mut sink =
                    self.sink(&raster, &mut writer, scan.background, lossless, journal_of)?;
                let wants_small = sink.wants_small();
                let width = usize::try_from(tile.0).unwrap_or(usize::MAX);
                let make = |place: (u32, u32)| {
                    let pixels = raster.padded(place, scan.background)?;
                    let payload = encode(&codec, &pixels, tile).map_err(codec_error)?;
                    let small = wants_small.then(|| smaller(&pixels, width));
                    Ok(Some(MadeTile { place, payload, original: None, small }))
                };
                self.tiles(&raster, stored, "encoding tiles", progress, &mut sink, make)?;
                sink.finish()?;
                (writer, strategy)
            }
        };
        let codec = writer.header().codec.name();
        let stored_tiles = writer.tiles();
        let background_tiles = writer.cells().saturating_sub(stored_tiles);
        let associated = self.associated(source, progress)?;
        let mut names: Vec<_> = associated.iter().map(|image| image.name.clone()).collect();
        names.sort_unstable();
        let metadata = self.metadata(description, provenance);
        let written = writer.finish(metadata, description.icc.as_deref(), associated)?;
        if let Some(journal) = journal {
            journal.remove();
        }
        let (width, height) = description.stored_size();
        Ok(WsiImportSummary {
            width,
            height,
            mpp,
            codec,
            strategy,
            stored_tiles,
            background_tiles,
            missing_tiles: source.missing(),
            kept_tiles: kept,
            associated: names,
            written,
        })
    }

    /// Makes tiles and writes those that there are.
    pub(super) fn tiles(
        &self,
        raster: &StoredRaster<'_>,
        places: impl Iterator<Item = (u32, u32)> + Send,
        what: &str,
        progress: &dyn Progress,
        sink: &mut Sink<'_>,
        make: impl Fn((u32, u32)) -> Result<Option<MadeTile>> + Sync,
    ) -> Result<()> {
        let (across, down) = raster.grid();
        let task = Task::begin(progress, what, Some(across.saturating_mul(down)));
        let cost = raster.tile_bytes().saturating_mul(4);
        let journal = sink.journal;
        // Whether there is an overview depends on memory too, of which the journal says nothing.
        let wants_small = sink.wants_small();
        let known = |place| {
            let tile = journal.and_then(|journal| journal.get(place));
            tile.filter(|tile| tile.small.is_some() || !wants_small)
        };
        let make = |place| match known(place) {
            Some(tile) => Ok((Some(tile), false)),
            None => Ok((make(place)?, true)),
        };
        in_order(places, self, progress, cost, make, |(tile, is_new)| {
            if let Some(tile) = tile {
                if let Some(journal) = journal.filter(|_| is_new) {
                    journal.add(&tile)?;
                }
                sink.push(tile)?;
            }
            task.advance(1);
            Ok(())
        })
    }

    /// The journal of an import that may go on from where an earlier one was stopped. It is only of use
    /// for exactly the same source, options and choice.
    fn journal(
        &self,
        source: &dyn RasterSource,
        pack: &Path,
        choice: &Choice,
    ) -> Result<Option<Journal>> {
        let (kind, selection, background) = match choice {
            Choice::Native { .. } => return Ok(None),
            Choice::Transcoded => ("transcoded", &Value::Null, [255; 3]),
            Choice::Encoded { selection, scan, .. } => ("encoded", selection, scan.background),
        };
        if !self.resume {
            return Ok(None);
        }
        let files: Vec<Value> = source
            .files()
            .iter()
            .map(|file| {
                let metadata = file.metadata();
                let changed = metadata.as_ref().ok().and_then(|it| it.modified().ok());
                json!([file, metadata.map_or(0, |it| it.len()), format!("{changed:?}")])
            })
            .collect();
        let description = source.description();
        let made_for = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "files": files,
            "storage": description.storage.to_json(),
            "info": description.info,
            "orientation": description.orientation,
            "size": [description.width, description.height],
            "kind": kind,
            "selection": selection,
            "background": background,
            "effort": self.effort,
            "tile": self.tile,
            "overview": self.overview,
            "plane": self.focal_plane,
            "path": self.optical_path,
            "openslide": self.openslide,
        });
        Journal::open(pack, &made_for.to_string()).map(Some)
    }

    /// Where the tiles of a raster go.
    pub(super) fn sink<'a>(
        &self,
        raster: &StoredRaster<'_>,
        writer: &'a mut WsiPackWriter,
        background: [u8; 3],
        lossless: bool,
        journal: Option<&'a Journal>,
    ) -> Result<Sink<'a>> {
        let levels = if self.overview {
            Levels::new(raster, background, lossless, self.effort, self.memory)?
        } else {
            None
        };
        Ok(Sink { writer, levels, journal, kept: 0 })
    }

    fn header(&self, description: &Description, mpp: Mpp, provenance: &str) -> WsiHeader {
        let (width, height) = description.stored_size();
        WsiHeader {
            slide_id: self.slide_id.clone(),
            patient_id: self.patient_id.clone(),
            specimen_id: self.specimen_id.clone(),
            width,
            height,
            mpp,
            mpp_provenance: provenance.to_owned(),
            tile_width: DEFAULT_TILE,
            tile_height: DEFAULT_TILE,
            background: [255; 3],
            background_is_counted: false,
            codec: RasterCodec::Jxl { lossless: true, distance: 0.0, effort: self.effort },
            selection: Value::Null,
            original_orientation: description.orientation,
            source_format: description.format.clone(),
            import_backend: description.backend.to_owned(),
            associated_images_preserved: description.keeps_associated,
            extra: Map::new(),
        }
    }

    fn metadata(&self, description: &Description, provenance: &str) -> Map<String, Value> {
        let info = if self.scrub { Map::new() } else { description.info.clone() };
        let mut metadata = Map::new();
        let mut put = |name: &str, value: Value| metadata.insert(name.to_owned(), value);
        put("backend", description.backend.into());
        put("source_format", description.format.clone().into());
        put("source_mode", description.mode.clone().into());
        put("source_dimensions", json!([description.width, description.height]));
        put("source_storage", description.storage.to_json());
        put("original_orientation", description.orientation.into());
        put("mpp_provenance", provenance.into());
        put("source_info", info.into());
        put("associated_images_preserved", description.keeps_associated.into());
        if self.scrub || !self.drop.is_empty() {
            put("iac.privacy", json!({ "metadata_scrubbed": self.scrub, "dropped": self.drop }));
        }
        metadata
    }

    fn associated(
        &self,
        source: &dyn RasterSource,
        progress: &dyn Progress,
    ) -> Result<Vec<WsiAssociated>> {
        let codec = encoder(true, 0.0, self.effort).map_err(codec_error)?;
        let mut images = Vec::new();
        for (position, image) in source.associated().iter().enumerate() {
            let names = [Some(image.name.as_str()), image.shows];
            if names.iter().flatten().any(|name| self.drop.iter().any(|it| it == name)) {
                continue;
            }
            crate::task::check_cancelled(progress)?;
            let pixels = source.read_associated(position)?;
            let size = (image.width, image.height);
            let kept = if self.lossless_associated {
                None
            } else {
                let jpeg = source.associated_jpeg(position)?;
                jpeg.and_then(|jpeg| self.transcoded_image(&jpeg, &pixels, size))
            };
            let mut info = if self.scrub { Map::new() } else { image.info.clone() };
            let payload = match kept {
                Some(payload) => {
                    info.insert("iac.stored".to_owned(), "jpeg_transcode".into());
                    payload
                }
                None => encode(&codec, &pixels, size).map_err(codec_error)?,
            };
            images.push(WsiAssociated {
                name: image.name.clone(),
                width: image.width,
                height: image.height,
                payload,
                icc: image.icc.clone(),
                source_mode: image.mode.clone(),
                composited_on_white: image.has_alpha,
                source_info: info,
            });
        }
        Ok(images)
    }

    #[cfg(not(feature = "jxl"))]
    #[allow(clippy::unused_self, reason = "needs libjxl")]
    const fn transcoded_image(&self, _: &[u8], _: &[u8], _: (u32, u32)) -> Option<Vec<u8>> {
        None
    }

    #[cfg(not(feature = "jxl"))]
    fn transcode(
        &self,
        _: &dyn RasterSource,
        _: &NativeTiles,
        _: &dyn Progress,
        _: &mut WsiPackWriter,
        _: Option<&Journal>,
    ) -> Result<u64> {
        Err(codec_error(iac_codec::CodecError::MissingFeature { name: "jxl", feature: "jxl" }))
    }
}

/// Averages at 1/8 of a tile that is passed on: decoded at that size where its codec can.
pub(super) fn small_of(
    source: &dyn RasterSource,
    raster: &StoredRaster<'_>,
    place: (u32, u32),
    payload: &[u8],
) -> Result<Vec<u8>> {
    let valid = raster.valid(place);
    let is_whole = (valid.width, valid.height) == (raster.tile.0.into(), raster.tile.1.into());
    // What a scanner puts outside of the raster is none of the averages' business.
    if is_whole && let Some(small) = source.small_tile(place, payload)? {
        return Ok(small);
    }
    let width = usize::try_from(raster.tile.0).unwrap_or(usize::MAX);
    Ok(smaller(&raster.padded(place, [255; 3])?, width))
}

/// Refuses more tiles than a pack is given.
fn check_grid(path: &Path, raster: &StoredRaster<'_>) -> Result<()> {
    let (across, down) = raster.grid();
    if across.saturating_mul(down) <= MAX_TILES {
        return Ok(());
    }
    Err(source_error(
        path,
        ErrorKind::Limit,
        format!(
            "{} x {} pixels make {across} x {down} tiles, but at most {MAX_TILES} are stored",
            raster.width, raster.height
        ),
    ))
}

fn native_of(source: &dyn RasterSource) -> Result<&NativeTiles> {
    source.native().ok_or_else(|| AdapterError::usage("the source has no tiles to pass through"))
}

fn strategy(selection: &Value) -> String {
    selection.get("strategy").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn transcode_members(native: &NativeTiles) -> Map<String, Value> {
    use super::source::NativeKind;
    let params = match &native.kind {
        NativeKind::Jpeg { colors, tables } => {
            RasterCodec::Jpeg { colors: *colors, tables: tables.clone(), associated_effort: 1 }
                .params()
        }
        NativeKind::Jpeg2000 { .. } => Map::new(),
    };
    let mut object = Map::new();
    for name in ["tables_base64", "encoded_color_space", "source_compression"] {
        object.insert(name.to_owned(), params.get(name).cloned().unwrap_or(Value::Null));
    }
    let mut members = Map::new();
    members.insert("jpeg_transcode".to_owned(), object.into());
    members.insert("extensions".to_owned(), json!([TRANSCODE_EXTENSION]));
    members
}
