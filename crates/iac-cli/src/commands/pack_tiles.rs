//! `iac pack tiles`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::adapters::AdapterError;
use iatrocache::adapters::tiles::{Alpha, JpegSources, TileColor, TilePackBuilder, WideSamples};
use iatrocache::{ErrorKind, WriteOptions};
use serde_json::json;

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::progress::{Shown, Unit};

/// Pack image tiles that a manifest lists
///
/// The manifest is a comma-separated file with the columns tile_id, patient_id, slide_id,
/// tile_path, x, y and split. Images are PNG, JPEG, TIFF, BMP, WebP or JPEG XL files, all of one
/// size, and are stored as JPEG XL.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac pack tiles tiles.csv -o cohort.tiles.iac                 lossy, at a distance of 1
  iac pack tiles tiles.csv -o cohort.tiles.iac --lossless --effort 3
  iac pack tiles tiles.csv -o cohort.tiles.iac --tile-root images/ --resume
  iac pack tiles tiles.csv -o cohort.tiles.iac --jpeg transcode JPEG files without further loss

With --resume, what is encoded is also kept in a hidden file beside the pack, until the pack is
there: the same command continues after an interruption.

Packs made with --jpeg keep, --wide keep, or tiles of several sizes are of type image_tiles_v2,
which the reference packages do not read.

With --json, one object: {\"path\",\"tiles\",\"slides\",\"tile_width\",\"tile_height\",\"stride_x\",
\"stride_y\",\"resumed\",\"file_bytes\",\"warnings\"}.")]
pub(super) struct TilesArgs {
    /// The manifest
    manifest: PathBuf,
    /// The pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Folder that relative paths start at [default: the current one]
    #[arg(long, value_name = "DIR")]
    tile_root: Option<PathBuf>,
    /// Relative paths start at the manifest's folder
    #[arg(long, conflicts_with = "tile_root")]
    beside_manifest: bool,
    /// Lose nothing
    #[arg(long)]
    lossless: bool,
    /// How much may be lost: above 0, up to 25
    #[arg(long, value_name = "D", default_value_t = 1.0, conflicts_with = "lossless")]
    distance: f64,
    /// From 1 (fast) to 10 (small)
    #[arg(long, value_name = "E", default_value_t = 7)]
    effort: u64,
    /// Pixels between columns of tiles [default: the greatest common divisor of all x]
    #[arg(long, value_name = "N")]
    stride_x: Option<u64>,
    /// Pixels between rows of tiles [default: the greatest common divisor of all y]
    #[arg(long, value_name = "N")]
    stride_y: Option<u64>,
    /// Which channels are stored: always rgb, or the images' own
    #[arg(long, value_enum, default_value_t = ColorArg::Rgb)]
    color: ColorArg,
    /// What happens to transparency that is not stored
    #[arg(long, value_enum, default_value_t = AlphaArg::Drop)]
    alpha: AlphaArg,
    /// What happens to samples of more than 8 bits
    #[arg(long, value_enum, default_value_t = WideArg::Refuse)]
    wide: WideArg,
    /// What happens to JPEG files
    #[arg(long, value_enum, default_value_t = JpegArg::Decode)]
    jpeg: JpegArg,
    /// Turn images as their orientation tag says
    #[arg(long)]
    apply_orientation: bool,
    /// Allow tiles of several sizes
    #[arg(long)]
    several_sizes: bool,
    /// Continue a build of this pack that was interrupted, and make this one fit for it
    #[arg(long)]
    resume: bool,
    /// Replace an existing pack
    #[arg(long)]
    overwrite: bool,
}

/// Which channels are stored.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ColorArg {
    Rgb,
    Native,
}

/// What happens to transparency.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum AlphaArg {
    Drop,
    White,
}

/// What happens to samples of more than 8 bits.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum WideArg {
    Refuse,
    Clip,
    Scale,
    Keep,
}

/// What happens to JPEG files.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum JpegArg {
    Decode,
    Keep,
    Transcode,
}

pub(super) fn tiles(arguments: &TilesArgs, common: &Common) -> Result<ExitCode> {
    let mut builder = TilePackBuilder::new()
        .lossless(arguments.lossless)
        .distance(arguments.distance)
        .effort(arguments.effort)
        .stride(arguments.stride_x, arguments.stride_y)
        .beside_manifest(arguments.beside_manifest)
        .color(match arguments.color {
            ColorArg::Rgb => TileColor::Rgb,
            ColorArg::Native => TileColor::Native,
        })
        .alpha(match arguments.alpha {
            AlphaArg::Drop => Alpha::Drop,
            AlphaArg::White => Alpha::BlendWhite,
        })
        .wide_samples(match arguments.wide {
            WideArg::Refuse => WideSamples::Refuse,
            WideArg::Clip => WideSamples::Clip,
            WideArg::Scale => WideSamples::Scale,
            WideArg::Keep => WideSamples::Keep,
        })
        .jpeg_sources(match arguments.jpeg {
            JpegArg::Decode => JpegSources::Decode,
            JpegArg::Keep => JpegSources::Keep,
            JpegArg::Transcode => JpegSources::Transcode,
        })
        .apply_orientation(arguments.apply_orientation)
        .several_sizes(arguments.several_sizes)
        .journal(arguments.resume)
        .workers(common.workers)
        .options(WriteOptions::new().overwrite(arguments.overwrite));
    if let Some(root) = &arguments.tile_root {
        builder = builder.tile_root(root);
    }
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = builder
        .build_from_manifest(&arguments.manifest, &arguments.output, &progress)
        .map_err(|error| with_advice(error, arguments))?;
    drop(writing);
    let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    let mut out = Out::new();
    if common.json {
        let [stride_x, stride_y] = summary.stride.map_or([None; 2], |stride| stride.map(Some));
        out.json(&json!({
            "path": shown(&summary.written.path),
            "tiles": summary.rows,
            "slides": summary.slides,
            "tile_width": summary.tile_size.map(|size| size.width),
            "tile_height": summary.tile_size.map(|size| size.height),
            "stride_x": stride_x,
            "stride_y": stride_y,
            "resumed": summary.resumed,
            "file_bytes": summary.written.file_bytes,
            "warnings": warnings,
        }))?;
    } else {
        out.line(&format!(
            "{} of {} packed into {} ({})",
            human::counted(summary.rows, "tile"),
            human::counted(summary.slides, "slide"),
            human_safe(&shown(&summary.written.path)),
            human::bytes(summary.written.file_bytes)
        ))?;
    }
    out.finish()?;
    if !common.quiet {
        if summary.resumed > 0 {
            let resumed = human::counted(summary.resumed, "tile");
            output::note(&format!("{resumed} came from the interrupted build"));
        }
        if !common.json {
            warnings.iter().for_each(|warning| output::note(&human_safe(warning)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells whoever gave paths from the manifest's folder of the option for it.
fn with_advice(error: AdapterError, arguments: &TilesArgs) -> Failure {
    let is_at_hand = || {
        let AdapterError::Listed { source, .. } = &error else { return false };
        let AdapterError::Source { kind: ErrorKind::Io, path, .. } = &**source else {
            return false;
        };
        let folder = arguments.manifest.parent().unwrap_or(Path::new(""));
        arguments.tile_root.is_none()
            && !arguments.beside_manifest
            && path.is_relative()
            && !path.exists()
            && folder.join(path).exists()
    };
    let is_at_hand = is_at_hand();
    let failure = Failure::from(error);
    if is_at_hand {
        return failure.with_hint("it is there with --beside-manifest");
    }
    failure
}
