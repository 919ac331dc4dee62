//! `iac wsi tiff` and `iac wsi tiles`: slides for other programs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::adapters::wsi::{
    Mpp, Resolution, TiffExportOptions, TiffFlavor, TiffTiles, TileFolderOptions,
};
use serde_json::json;

use super::select::shown;
use super::wsi::{mpp, open};
use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Write the slide as a BigTIFF file in tiles, with smaller versions, which other programs read
///
/// JPEG tiles are written as they were in the slide's file, others deflated: both have the native pixels
/// of the pack. A file whose name ends in .ome.tif or .ome.tiff is an OME-TIFF.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi tiff slide.pat.iac -o slide.tif
  iac wsi tiff slide.pat.iac -o slide.ome.tif --tiles deflate
  iac wsi tiff slide.pat.iac -o small.tif --tiles jpeg --quality 80

With --json, one object: {\"path\",\"levels\",\"compression\",\"as_stored\",\"file_bytes\"}.")]
pub(super) struct TiffArgs {
    /// The pack
    path: PathBuf,
    /// The file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How tiles are written: as stored where they are JPEG, deflated, or as JPEG with a loss
    #[arg(long, value_enum, default_value_t = TilesArg::Stored)]
    tiles: TilesArg,
    /// The quality of JPEG tiles that are encoded, from 1 to 100
    #[arg(long, value_name = "Q", default_value_t = 90)]
    quality: u8,
    /// Pixels along both sides of tiles that are encoded: a multiple of 16
    #[arg(long, value_name = "N", default_value_t = 512)]
    tile_size: u32,
    /// How much smaller each version is than the one before; 0 for none
    #[arg(long, value_name = "N", default_value_t = 4)]
    step: u32,
    /// Write an OME-TIFF whatever the file's name is
    #[arg(long)]
    ome: bool,
    /// Average all native pixels for the smaller versions
    #[arg(long)]
    exact: bool,
    /// Leave associated images out
    #[arg(long)]
    no_associated: bool,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

/// How tiles are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TilesArg {
    Stored,
    Deflate,
    Jpeg,
}

/// Write the tiles of a grid as image files of a new folder
///
/// Tiles are called COLUMN_ROW.png; tiles.csv tells of each where it lies, and is the manifest that
/// `iac pack tiles DIR/tiles.csv --beside-manifest` takes. Those at the right and lower edge are
/// filled up with background.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi tiles slide.pat.iac -d tiles --mpp 0.5 --size 256
  iac wsi tiles slide.pat.iac -d tiles --mpp 1 --size 224 --tissue 0.5 --jpeg 90

With --json, one object: {\"path\",\"list\",\"tiles\"}.")]
pub(super) struct TilesArgs {
    /// The pack
    path: PathBuf,
    /// The folder, which must not be there
    #[arg(short, long, value_name = "DIR")]
    dir: PathBuf,
    /// Micrometres per pixel: one number, or two for x and y [default: those of the slide]
    #[arg(long, value_name = "M[,N]", value_parser = mpp)]
    mpp: Option<Mpp>,
    /// Pixels along both sides of tiles
    #[arg(long, value_name = "PIXELS", default_value_t = 512)]
    size: u32,
    /// Pixels from one tile to the next [default: their size]
    #[arg(long, value_name = "PIXELS")]
    stride: Option<u32>,
    /// Write tiles alone of which more than this share is tissue, from 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    tissue: Option<f64>,
    /// Write JPEG files of this quality, from 1 to 100, in place of PNG files
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u8).range(1..=100))]
    jpeg: Option<u8>,
    /// Use what is there at a lower resolution, or can be decoded at one
    #[arg(long)]
    fast: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is no share from 0 to 1"))
}

pub(super) fn tiff(arguments: &TiffArgs, common: &Common) -> Result<ExitCode> {
    let slide = open(&arguments.path, common)?;
    let name = arguments.output.to_string_lossy().to_ascii_lowercase();
    let is_ome = arguments.ome || name.ends_with(".ome.tif") || name.ends_with(".ome.tiff");
    let mut options = TiffExportOptions::new();
    options.flavor = if is_ome { TiffFlavor::Ome } else { TiffFlavor::Pages };
    options.tiles = match arguments.tiles {
        TilesArg::Stored => TiffTiles::Stored,
        TilesArg::Deflate => TiffTiles::Deflate,
        TilesArg::Jpeg => TiffTiles::Jpeg(arguments.quality),
    };
    options.tile = arguments.tile_size;
    options.step = arguments.step;
    options.quality = arguments.quality;
    options.resolution = if arguments.exact { Resolution::Exact } else { Resolution::Fast };
    options.associated = !arguments.no_associated;
    options.overwrite = arguments.overwrite;
    options.workers = common.workers;
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = slide.export_tiff(&arguments.output, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.path),
            "levels": summary.levels,
            "compression": summary.compression,
            "as_stored": summary.as_stored,
            "file_bytes": summary.bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} in {} ({}), tiles in {}{}",
            human::counted(summary.levels.into(), "size"),
            human_safe(&shown(&summary.path)),
            human::bytes(summary.bytes),
            summary.compression,
            if summary.as_stored { " as they were" } else { "" }
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn tiles(arguments: &TilesArgs, common: &Common) -> Result<ExitCode> {
    let slide = open(&arguments.path, common)?;
    let mut options = TileFolderOptions::new();
    options.mpp = arguments.mpp;
    options.tile = arguments.size;
    options.stride = arguments.stride;
    options.min_tissue = arguments.tissue;
    options.quality = arguments.jpeg;
    options.resolution = if arguments.fast { Resolution::Fast } else { Resolution::Exact };
    options.workers = common.workers;
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = slide.export_tiles(&arguments.dir, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.path),
            "list": shown(&summary.list),
            "tiles": summary.tiles,
        }))?;
    } else {
        out.line(&format!(
            "{} in {}",
            human::counted(summary.tiles, "tile"),
            human_safe(&shown(&summary.path))
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
