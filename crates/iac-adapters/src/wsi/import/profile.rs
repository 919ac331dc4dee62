//! How tiles are encoded: what the caller asks for, or what suits the source.

use std::path::Path;

use iac_codec::{
    Codec, CodecError, CodecSpec, DecodeOptions, ImageShape, ImageView, Parameters, Registry,
    SamplesRef,
};
use iac_ops::Progress;
use serde_json::{Value, json};

use super::raster::StoredRaster;
use super::scan::Scan;
use super::source::{NativeKind, NativeTiles, RasterSource};
use super::{WsiImporter, WsiProfile, in_order};
use crate::error::{AdapterError, Result};
use crate::task::Task;
use crate::wsi::codec_params::RasterCodec;
use crate::wsi::schema::as_f64;

/// Bits per pixel below which tiles are passed through without a look at them.
const LOW_BITRATE: f64 = 1.0;
/// Distances that are tried, least loss first.
const DISTANCES: [f64; 9] = [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0];
/// Tiles that are tried.
const SAMPLES: usize = 48;
/// Decibels that a distance must keep.
const MIN_PSNR: f64 = 40.0;
/// Of the source's bytes, how many a pack may have.
const SIZE_RATIO: f64 = 0.97;
/// Bytes that a pack is expected to have besides its tiles: by itself, and for each tile.
const OVERHEAD: u64 = 2_097_152;
const TILE_OVERHEAD: u64 = 128;

/// What is written.
pub(super) enum Choice {
    /// Tiles as they are.
    Native { codec: RasterCodec, selection: Value },
    /// JPEG tiles in the form of JPEG XL, from which they come back.
    Transcoded,
    /// Pixels, encoded.
    Encoded { lossless: bool, distance: f64, selection: Value, scan: Scan },
}

/// Decides what is written. `raster` is cut as the caller wants it.
pub(super) fn choose(
    path: &Path,
    source: &dyn RasterSource,
    raster: &StoredRaster<'_>,
    options: &WsiImporter,
    progress: &dyn Progress,
) -> Result<Choice> {
    let explicit = |lossless: bool, distance: f64| -> Result<Choice> {
        Ok(Choice::Encoded {
            lossless,
            distance,
            selection: json!({
                "strategy": "explicit",
                "selected_lossless": lossless,
                "selected_distance": distance,
            }),
            scan: Scan::run(raster, options, progress)?,
        })
    };
    match options.profile {
        WsiProfile::Lossless => explicit(true, 0.0),
        WsiProfile::Distance(distance) => explicit(false, distance),
        WsiProfile::Passthrough => match source.native() {
            Some(native) => Ok(passthrough(source, native, options, "requested", None)),
            None => Err(unsuitable(
                path,
                "its tiles cannot be passed through: they must be JPEG or JPEG 2000 of three \
                 interleaved samples, upright, and no strips",
            )),
        },
        WsiProfile::Transcode => match source.native() {
            Some(NativeTiles { kind: NativeKind::Jpeg { .. }, .. }) => Ok(Choice::Transcoded),
            _ => Err(unsuitable(path, "its tiles are no JPEG tiles that could be transcoded")),
        },
        WsiProfile::Auto => automatic(path, source, raster, options, progress),
    }
}

fn unsuitable(path: &Path, reason: &str) -> AdapterError {
    AdapterError::Unsupported { path: path.display().to_string(), reason: reason.to_owned() }
}

fn automatic(
    path: &Path,
    source: &dyn RasterSource,
    raster: &StoredRaster<'_>,
    options: &WsiImporter,
    progress: &dyn Progress,
) -> Result<Choice> {
    // What the reference would show wrong is never passed through unasked.
    let native = source.native().filter(|native| native.hazard.is_none());
    let storage = &source.description().storage;
    if let Some(native) = native {
        if bits_per_pixel(source).is_some_and(|bits| bits < LOW_BITRATE) {
            return Ok(passthrough(source, native, options, "low_bitrate_source", None));
        }
        // No pack of whatever tiles is small enough, so that none needs to be looked at.
        if storage.lossy == Some(true) && !may_fit(0, storage.source_bytes) {
            let metrics = Some(Value::Array(Vec::new()));
            return Ok(passthrough(source, native, options, "jxl_profile_rejected", metrics));
        }
    }
    let matched = |lossy: bool, lossless: bool, distance: f64| {
        json!({
            "strategy": "source_matched_v1",
            "source_lossy": lossy,
            "sample_tiles": 0,
            "selected_lossless": lossless,
            "selected_distance": distance,
            "candidate_metrics": [],
        })
    };
    match storage.lossy {
        Some(false) => {
            let scan = Scan::run(raster, options, progress)?;
            let selection = matched(false, true, 0.0);
            return Ok(Choice::Encoded { lossless: true, distance: 0.0, selection, scan });
        }
        None => {
            return Err(unsuitable(
                path,
                "it cannot be told whether its pixels were stored with loss: say that nothing may \
                 be lost, or give a distance",
            ));
        }
        Some(true) => {}
    }
    let scan = Scan::run(raster, options, progress)?;
    if scan.stored.is_empty() {
        let selection = matched(true, false, 0.5);
        return Ok(Choice::Encoded { lossless: false, distance: 0.5, selection, scan });
    }
    let trial = Trial::run(raster, &scan, storage.source_bytes, options, progress)?;
    if let Some(distance) = trial.accepted {
        let selection = json!({
            "strategy": "source_matched_v1",
            "source_lossy": true,
            "sample_tiles": trial.samples,
            "selected_lossless": false,
            "selected_distance": distance,
            "candidate_metrics": trial.metrics,
            "quality_limits": { "minimum_psnr_db": MIN_PSNR },
            "target_source_ratio": SIZE_RATIO,
        });
        return Ok(Choice::Encoded { lossless: false, distance, selection, scan });
    }
    match native {
        Some(native) => {
            let metrics = Some(Value::Array(trial.metrics));
            Ok(passthrough(source, native, options, "jxl_profile_rejected", metrics))
        }
        None => {
            let why = source.native().and_then(|native| native.hazard);
            let why = why.map_or_else(String::new, |why| {
                format!(", and its tiles are not passed through by themselves ({why})")
            });
            Err(unsuitable(
                path,
                &format!(
                    "no JPEG XL profile both keeps its quality and makes it smaller{why}: say that \
                     nothing may be lost, give a distance, or ask to pass tiles through"
                ),
            ))
        }
    }
}

/// Whether a pack with so many tiles could be small enough if they took no bytes at all.
fn may_fit(tiles: u64, source_bytes: u64) -> bool {
    let least = OVERHEAD.saturating_add(TILE_OVERHEAD.saturating_mul(tiles));
    as_f64(least) <= SIZE_RATIO * as_f64(source_bytes)
}

fn bits_per_pixel(source: &dyn RasterSource) -> Option<f64> {
    let description = source.description();
    let pixels = as_f64(description.width.saturating_mul(description.height));
    let bytes = description.storage.native_bytes?;
    Some(as_f64(bytes.saturating_mul(8)) / pixels)
}

fn passthrough(
    source: &dyn RasterSource,
    native: &NativeTiles,
    options: &WsiImporter,
    reason: &str,
    metrics: Option<Value>,
) -> Choice {
    let codec = match &native.kind {
        NativeKind::Jpeg { colors, tables } => RasterCodec::Jpeg {
            colors: *colors,
            tables: tables.clone(),
            associated_effort: options.effort,
        },
        NativeKind::Jpeg2000 { compression } => RasterCodec::Jpeg2000 {
            source_compression: compression.clone(),
            associated_effort: options.effort,
        },
    };
    let mut selection = json!({
        "strategy": "native_passthrough_v1",
        "source_bpp": bits_per_pixel(source),
        "threshold_bpp": LOW_BITRATE,
        "pixel_transcode": false,
        "reason": reason,
    });
    if let (Some(metrics), Value::Object(members)) = (metrics, &mut selection) {
        members.insert("jxl_candidate_metrics".to_owned(), metrics);
    }
    Choice::Native { codec, selection }
}

/// An encoder of JPEG XL.
pub(super) fn encoder(lossless: bool, distance: f64, effort: u8) -> Result<Codec, CodecError> {
    let mut parameters = Parameters::new();
    parameters.insert("lossless".to_owned(), lossless.into());
    if !lossless {
        parameters.insert("distance".to_owned(), distance.into());
    }
    parameters.insert("effort".to_owned(), effort.into());
    Registry::global().create_encoder(&CodecSpec::new("jxl", parameters))
}

/// Encodes rows of RGB.
pub(super) fn encode(
    codec: &Codec,
    pixels: &[u8],
    (width, height): (u32, u32),
) -> Result<Vec<u8>, CodecError> {
    codec.encode_image(&ImageView::new(ImageShape::new(height, width, 3)?, pixels)?)
}

/// Distances tried on some tiles.
struct Trial {
    accepted: Option<f64>,
    samples: usize,
    metrics: Vec<Value>,
}

/// What one distance does to one tile.
struct Loss {
    bytes: u64,
    samples: u64,
    absolute: u64,
    squared: u64,
}

impl Trial {
    fn run(
        raster: &StoredRaster<'_>,
        scan: &Scan,
        source_bytes: u64,
        options: &WsiImporter,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let stored = u64::try_from(scan.stored.len()).unwrap_or(u64::MAX);
        let samples = sampled(&scan.stored);
        let count = u64::try_from(samples.len()).unwrap_or(u64::MAX);
        let mut trial = Self { accepted: None, samples: samples.len(), metrics: Vec::new() };
        if !may_fit(stored, source_bytes) {
            return Ok(trial);
        }
        let task = Task::begin(progress, "trying distances", None);
        for distance in DISTANCES {
            let codec = encoder(false, distance, options.effort).map_err(codec_error)?;
            let mut sum = Loss { bytes: 0, samples: 0, absolute: 0, squared: 0 };
            in_order(
                samples.iter().copied(),
                options,
                progress,
                raster.tile_bytes().saturating_mul(4),
                |place| Loss::of(raster, place, scan.background, &codec),
                |loss| {
                    sum.bytes = sum.bytes.saturating_add(loss.bytes);
                    sum.samples = sum.samples.saturating_add(loss.samples);
                    sum.absolute = sum.absolute.saturating_add(loss.absolute);
                    sum.squared = sum.squared.saturating_add(loss.squared);
                    task.advance(1);
                    Ok(())
                },
            )?;
            let number = as_f64(sum.samples);
            let squared = as_f64(sum.squared) / number;
            let psnr = if sum.squared == 0 { 99.0 } else { 10.0 * (65_025.0 / squared).log10() };
            let tiles = as_f64(sum.bytes) * as_f64(stored) / as_f64(count);
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "finite and not negative; too large stays too large"
            )]
            let tiles = tiles.round_ties_even() as u64;
            let overhead = OVERHEAD.saturating_add(TILE_OVERHEAD.saturating_mul(stored));
            let estimate = tiles.saturating_add(overhead);
            let quality = psnr >= MIN_PSNR;
            let size = as_f64(estimate) <= SIZE_RATIO * as_f64(source_bytes);
            trial.metrics.push(json!({
                "distance": distance,
                "mean_absolute_error": as_f64(sum.absolute) / number,
                "psnr_db": psnr,
                "estimated_package_bytes": estimate,
                "quality_accepted": quality,
                "size_accepted": size,
            }));
            if quality && size {
                trial.accepted = Some(distance);
                break;
            }
            // Larger distances lose more.
            if !quality {
                break;
            }
        }
        Ok(trial)
    }
}

impl Loss {
    fn of(
        raster: &StoredRaster<'_>,
        place: (u32, u32),
        background: [u8; 3],
        codec: &Codec,
    ) -> Result<Self> {
        let pixels = raster.padded(place, background)?;
        let payload = encode(codec, &pixels, raster.tile).map_err(codec_error)?;
        let decoded =
            codec.decode_image(&payload, &DecodeOptions::default()).map_err(codec_error)?;
        let SamplesRef::U8(decoded) = decoded.samples() else {
            return Err(AdapterError::usage("an encoded tile does not decode to bytes"));
        };
        let valid = raster.valid(place);
        let line = |side: u64| usize::try_from(side.saturating_mul(3)).unwrap_or(usize::MAX);
        let (line, whole) = (line(valid.width), line(raster.tile.0.into()).max(1));
        let rows = usize::try_from(valid.height).unwrap_or(usize::MAX);
        let mut loss = Self {
            bytes: u64::try_from(payload.len()).unwrap_or(u64::MAX),
            samples: valid.width.saturating_mul(valid.height).saturating_mul(3),
            absolute: 0,
            squared: 0,
        };
        for (one, other) in pixels.chunks(whole).zip(decoded.chunks(whole)).take(rows) {
            for (one, other) in one.iter().zip(other).take(line) {
                let difference = u64::from(one.abs_diff(*other));
                loss.absolute = loss.absolute.saturating_add(difference);
                loss.squared = loss.squared.saturating_add(difference.saturating_mul(difference));
            }
        }
        Ok(loss)
    }
}

pub(super) fn codec_error(source: CodecError) -> AdapterError {
    AdapterError::Codec { path: "a tile".to_owned(), row: None, source }
}

/// The tiles that are tried: all, or some that lie about evenly.
fn sampled(stored: &[(u32, u32)]) -> Vec<(u32, u32)> {
    const STEPS: usize = SAMPLES - 1;
    if stored.len() <= SAMPLES {
        return stored.to_vec();
    }
    let last = stored.len().saturating_sub(1);
    let mut positions: Vec<usize> = (0..SAMPLES)
        .map(|step| {
            // Halves go to the even neighbour.
            let product = step.saturating_mul(last);
            let (whole, rest) = (product / STEPS, product % STEPS);
            let up = match rest.saturating_mul(2).cmp(&STEPS) {
                std::cmp::Ordering::Less => false,
                std::cmp::Ordering::Equal => whole % 2 == 1,
                std::cmp::Ordering::Greater => true,
            };
            whole.saturating_add(usize::from(up))
        })
        .collect();
    positions.dedup();
    positions.into_iter().filter_map(|position| stored.get(position).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_evenly_and_none_stands_twice() {
        let places = |count: u32| (0..count).map(|at| (at, 0)).collect::<Vec<_>>();
        assert_eq!(sampled(&places(48)).len(), 48);
        let some = sampled(&places(1000));
        assert_eq!(some.len(), 48);
        assert_eq!((some[0].0, some[1].0, some[47].0), (0, 21, 999));
        let some = sampled(&places(49));
        assert_eq!(some.len(), 48);
    }

    #[test]
    fn packs_of_small_sources_never_fit() {
        assert!(!may_fit(0, 2_000_000));
        assert!(may_fit(0, 2_200_000));
        assert!(!may_fit(1000, 2_200_000));
    }
}
