//! Writing the pack of a source.

use std::path::Path;

use iac_ops::Progress;
use serde_json::{Map, Value, json};

use super::profile::{Choice, choose, codec_error, encode, encoder};
use super::raster::StoredRaster;
use super::source::{Description, NativeTiles, RasterSource};
use super::{DEFAULT_TILE, WsiImportSummary, WsiImporter, in_order};
use crate::error::{AdapterError, Result};
use crate::task::Task;
use crate::wsi::TRANSCODE_EXTENSION;
use crate::wsi::codec_params::RasterCodec;
use crate::wsi::schema::Mpp;
use crate::wsi::write::{EncodedTile, WsiAssociated, WsiHeader, WsiPackWriter};

/// A tile as it goes into the pack.
pub(super) struct MadeTile {
    pub(super) place: (u32, u32),
    pub(super) payload: Vec<u8>,
    /// The bytes that it was made of, where they do not come back from the payload.
    pub(super) original: Option<Vec<u8>>,
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
        let choice = choose(path, source, &raster, self, progress)?;
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
                self.tiles(
                    &raster,
                    raster.places(),
                    "copying tiles",
                    progress,
                    &mut writer,
                    |place| {
                        let payload = source.native_tile(place.0, place.1)?;
                        Ok(payload.map(|payload| MadeTile { place, payload, original: None }))
                    },
                )?;
                (writer, strategy)
            }
            Choice::Transcoded => {
                let native = native_of(source)?;
                (header.tile_width, header.tile_height) = native.tile;
                header.codec =
                    RasterCodec::Jxl { lossless: false, distance: 1.0, effort: self.effort };
                header.extra = transcode_members(native);
                let mut writer = WsiPackWriter::create(pack, header, &self.write)?;
                kept = self.transcode(source, native, progress, &mut writer)?;
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
                self.tiles(&raster, stored, "encoding tiles", progress, &mut writer, |place| {
                    let pixels = raster.padded(place, scan.background)?;
                    let payload = encode(&codec, &pixels, tile).map_err(codec_error)?;
                    Ok(Some(MadeTile { place, payload, original: None }))
                })?;
                (writer, strategy)
            }
        };
        let codec = writer.header().codec.name();
        let stored_tiles = writer.tiles();
        let background_tiles = writer.cells().saturating_sub(stored_tiles);
        let associated = self.associated(source, progress)?;
        let names = associated.iter().map(|image| image.name.clone()).collect();
        let metadata = self.metadata(description, provenance);
        let written = writer.finish(metadata, description.icc.as_deref(), associated)?;
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
        writer: &mut WsiPackWriter,
        make: impl Fn((u32, u32)) -> Result<Option<MadeTile>> + Sync,
    ) -> Result<()> {
        let (across, down) = raster.grid();
        let task = Task::begin(progress, what, Some(across.saturating_mul(down)));
        let cost = raster.tile_bytes().saturating_mul(4);
        in_order(places, self, progress, cost, make, |tile| {
            if let Some(MadeTile { place: (x, y), payload, original }) = tile {
                writer.push_tile(&EncodedTile { x, y, payload: &payload })?;
                if let Some(original) = original {
                    writer.push_private(&format!("iac.jpeg/{x}/{y}"), &original)?;
                }
            }
            task.advance(1);
            Ok(())
        })
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
            let payload =
                encode(&codec, &pixels, (image.width, image.height)).map_err(codec_error)?;
            images.push(WsiAssociated {
                name: image.name.clone(),
                width: image.width,
                height: image.height,
                payload,
                icc: image.icc.clone(),
                source_mode: image.mode.clone(),
                composited_on_white: image.has_alpha,
                source_info: if self.scrub { Map::new() } else { image.info.clone() },
            });
        }
        Ok(images)
    }

    #[cfg(not(feature = "jxl"))]
    fn transcode(
        &self,
        _: &dyn RasterSource,
        _: &NativeTiles,
        _: &dyn Progress,
        _: &mut WsiPackWriter,
    ) -> Result<u64> {
        Err(codec_error(iac_codec::CodecError::MissingFeature { name: "jxl", feature: "jxl" }))
    }
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
