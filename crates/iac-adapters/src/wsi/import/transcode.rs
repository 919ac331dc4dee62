//! JPEG tiles in the form of JPEG XL.

use iac_codec::jpeg::complete_stream;
use iac_codec::jxl::{TranscodeOptions, transcode_jpeg};
use iac_codec::{CodecSpec, DecodeOptions, Parameters, Registry};
use iac_ops::Progress;

use super::WsiImporter;
use super::build::{MadeTile, small_of};
use super::journal::Journal;
use super::profile::{codec_error, encode, encoder};
use super::raster::StoredRaster;
use super::source::{NativeKind, NativeTiles, RasterSource};
use crate::error::Result;
use crate::wsi::codec_params::RasterCodec;
use crate::wsi::original::tile_of_stream;
use crate::wsi::tile::rgb_samples;
use crate::wsi::write::WsiPackWriter;

/// Levels by which the pixels of a JPEG file in the form of JPEG XL may differ on the average.
const MOST_DIFFERENT: u64 = 4;

impl WsiImporter {
    /// Writes all tiles, and tells how many could not be transcoded.
    pub(super) fn transcode(
        &self,
        source: &dyn RasterSource,
        native: &NativeTiles,
        progress: &dyn Progress,
        writer: &mut WsiPackWriter,
        journal: Option<&Journal>,
    ) -> Result<u64> {
        let NativeKind::Jpeg { colors, tables } = &native.kind else { return Ok(0) };
        let codec = RasterCodec::Jpeg {
            colors: *colors,
            tables: tables.clone(),
            associated_effort: self.effort,
        };
        let params = codec.params();
        let mut parameters = Parameters::new();
        for name in ["tables_base64", "encoded_color_space"] {
            if let Some(value) = params.get(name) {
                parameters.insert(name.to_owned(), value.clone());
            }
        }
        let options = TranscodeOptions::default().with_effort(self.effort).with_limits(self.limits);
        let lossless = encoder(true, 0.0, self.effort).map_err(codec_error)?;
        let raster = StoredRaster::new(source, native.tile);
        let mut sink = self.sink(&raster, writer, [255; 3], false, journal)?;
        let wants_small = sink.wants_small();
        let make = |place: (u32, u32)| {
            let Some(payload) = source.native_tile(place.0, place.1)? else { return Ok(None) };
            let small =
                wants_small.then(|| small_of(source, &raster, place, &payload)).transpose()?;
            let stream = complete_stream(&parameters, &payload).map_err(codec_error)?;
            // What does not come back to the byte is kept beside its pixels.
            let comes_back =
                tile_of_stream(&stream, tables.as_deref()).is_some_and(|tile| tile == payload);
            let transcoded = if comes_back { transcode_jpeg(&stream, options).ok() } else { None };
            if let Some(transcoded) = transcoded {
                return Ok(Some(MadeTile { place, payload: transcoded, original: None, small }));
            }
            let pixels = raster.padded(place, [255; 3])?;
            let encoded = encode(&lossless, &pixels, native.tile).map_err(codec_error)?;
            Ok(Some(MadeTile { place, payload: encoded, original: Some(payload), small }))
        };
        self.tiles(&raster, raster.places(), "transcoding tiles", progress, &mut sink, make)?;
        let kept = sink.kept;
        sink.finish()?;
        Ok(kept)
    }

    /// A JPEG file in the form of JPEG XL, if that shows about the pixels that were decoded from it.
    pub(super) fn transcoded_image(
        &self,
        jpeg: &[u8],
        pixels: &[u8],
        (width, height): (u32, u32),
    ) -> Option<Vec<u8>> {
        let options = TranscodeOptions::default().with_effort(self.effort).with_limits(self.limits);
        let payload = transcode_jpeg(jpeg, options).ok()?;
        let codec = Registry::global().create(&CodecSpec::new("jxl", Parameters::new())).ok()?;
        let image = codec.decode_image(&payload, &DecodeOptions::from(self.limits)).ok()?;
        let shape = image.shape();
        if (shape.width(), shape.height()) != (width, height) || shape.channels() == 2 {
            return None;
        }
        let shown = rgb_samples(image);
        if shown.len() != pixels.len() {
            return None;
        }
        let sum = shown.iter().zip(pixels).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>();
        let samples = u64::try_from(pixels.len()).ok()?;
        (sum <= samples.saturating_mul(MOST_DIFFERENT)).then_some(payload)
    }
}
