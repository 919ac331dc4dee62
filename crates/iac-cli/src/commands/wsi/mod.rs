//! `iac wsi`: pixels of whole slides, and what lies beside them.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use iatrocache::adapters::AdapterError;
use iatrocache::adapters::wsi::{
    DeepZoomOptions, Mpp, NativeRegion, OnDamage, OverviewOptions, Region, RegionImage, Resolution,
    WSI_IMAGE, WsiOpenOptions, WsiPackReader, WsiReadOptions, build_overview,
};
use iatrocache::ops::OpsError;
use iatrocache::ops::montage::{MontageOptions, Renderer};
use iatrocache::ops::pictures::{PictureError, write_npy, write_png};
use iatrocache::ops::rows::RowSelection;
use iatrocache::{ImageShape, ImageView, PackReader};
use serde_json::json;

use super::select::shown;
use super::wsi_export;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::place::NewFile;
use crate::progress::{Shown, Unit};

/// Read regions of whole slides, their associated images and profiles
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi thumbnail slide.pat.iac --size 1024 -o slide.png
  iac wsi region slide.pat.iac --x-um 1000 --y-um 2000 --width 512 --height 512 --mpp 1 -o r.png
  iac wsi overview slide.pat.iac                    make --fast fast")]
pub(crate) struct WsiArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Region(RegionArgs),
    Native(NativeArgs),
    Thumbnail(ThumbnailArgs),
    Associated(AssociatedArgs),
    Icc(IccArgs),
    Overview(OverviewArgs),
    Original(OriginalArgs),
    Deepzoom(DeepzoomArgs),
    Tiff(wsi_export::TiffArgs),
    Tiles(wsi_export::TilesArgs),
}

/// Read a region by micrometres
///
/// The region may reach out of the slide; background is there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi region s.pat.iac --x-um 1000 --y-um 2000 --width 512 --height 512 --mpp 0.5 -o r.png
  iac wsi region s.pat.iac --x-um 0 --y-um 0 --width 800 --height 600 --mpp 16 --fast -o r.npy

With --json, one object: {\"path\",\"width\",\"height\",\"damaged\":[{\"tile_x\",\"tile_y\",\"row\",
\"kind\",\"message\"}]}.")]
struct RegionArgs {
    /// The pack
    path: PathBuf,
    /// The left edge, in micrometres
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    x_um: f64,
    /// The upper edge, in micrometres
    #[arg(long, value_name = "Y", allow_hyphen_values = true)]
    y_um: f64,
    /// Pixels of a row
    #[arg(long, value_name = "PIXELS")]
    width: u32,
    /// Rows
    #[arg(long, value_name = "PIXELS")]
    height: u32,
    /// Micrometres per pixel: one number, or two for x and y
    #[arg(long, value_name = "M[,N]", value_parser = mpp)]
    mpp: Mpp,
    /// Allow micrometres per pixel below those of the slide by up to this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    upsample: f64,
    #[command(flatten)]
    quality: Quality,
    #[command(flatten)]
    to: To,
}

/// Read a region in native pixels
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac wsi native slide.pat.iac --x 2048 --y 4096 --width 512 --height 512 -o tile.png

With --json, one object as of `iac wsi region`.")]
struct NativeArgs {
    /// The pack
    path: PathBuf,
    /// The left edge, in pixels
    #[arg(long, allow_hyphen_values = true)]
    x: i64,
    /// The upper edge, in pixels
    #[arg(long, allow_hyphen_values = true)]
    y: i64,
    /// Pixels of a row
    #[arg(long, value_name = "PIXELS")]
    width: u32,
    /// Rows
    #[arg(long, value_name = "PIXELS")]
    height: u32,
    #[command(flatten)]
    to: To,
}

/// Read the whole slide, made small
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac wsi thumbnail slide.pat.iac --size 1024 -o slide.png

With --json, one object as of `iac wsi region`.")]
struct ThumbnailArgs {
    /// The pack
    path: PathBuf,
    /// Pixels of the longer side
    #[arg(long, value_name = "PIXELS", default_value_t = 1024)]
    size: u32,
    #[command(flatten)]
    quality: Quality,
    #[command(flatten)]
    to: To,
}

/// Read an associated image, or list them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi associated slide.pat.iac
  iac wsi associated slide.pat.iac label -o label.png

With --json and without NAME, one line for each: {\"name\",\"width\",\"height\",\"icc\",\"row\"}; with
NAME, one object as of `iac wsi region`.")]
struct AssociatedArgs {
    /// The pack
    path: PathBuf,
    /// Its name [default: list all]
    #[arg(requires = "output")]
    name: Option<String>,
    /// The file: .png, .npy or .raw
    #[arg(short, long, value_name = "FILE", requires = "name")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

/// Write the slide's ICC profile to a file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi icc slide.pat.iac -o slide.icc
  iac wsi icc slide.pat.iac --of label -o label.icc")]
struct IccArgs {
    /// The pack
    path: PathBuf,
    /// The profile of this associated image
    #[arg(long, value_name = "NAME")]
    of: Option<String>,
    /// The file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

/// Make the overview that --fast uses
///
/// Averages of the whole slide at 1/8 and 1/64 go to PATH.overview.iac. That file can be deleted
/// and made anew at any time; it is passed over when it is not the slide's.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi overview slide.pat.iac
  iac wsi overview slide.pat.iac --levels 2,4,6

With --json, one object: {\"path\",\"levels\",\"tiles\",\"bytes\"}.")]
struct OverviewArgs {
    /// The pack
    path: PathBuf,
    /// Levels: L stands for one pixel for a square of 2^L pixels along each side
    #[arg(long, value_name = "L,...", value_delimiter = ',', default_values_t = [3, 6])]
    levels: Vec<u32>,
}

/// Write a tile as it was in the slide's file
///
/// Of packs whose tiles were passed through, or transcoded from JPEG. Tables that JPEG tiles share are
/// not in it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac wsi original slide.pat.iac --x 3 --y 4 -o tile.jpg

With --json, one object: {\"path\",\"bytes\"}.")]
struct OriginalArgs {
    /// The pack
    path: PathBuf,
    /// The tile's column
    #[arg(long)]
    x: u64,
    /// The tile's row
    #[arg(long)]
    y: u64,
    /// The file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

/// Write the slide as a Deep Zoom folder, which viewers in web pages read
///
/// NAME.dzi describes it, and NAME_files beside it has the tiles. PNG tiles have the native pixels.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi deepzoom slide.pat.iac -o slide.dzi
  iac wsi deepzoom slide.pat.iac -o slide.dzi --png --exact

With --json, one object: {\"path\",\"folder\",\"levels\",\"tiles\"}.")]
struct DeepzoomArgs {
    /// The pack
    path: PathBuf,
    /// The description: NAME.dzi
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The quality of JPEG tiles, from 1 to 100
    #[arg(long, value_name = "Q", default_value_t = 90)]
    quality: u8,
    /// Write PNG tiles, which lose nothing
    #[arg(long, conflicts_with = "quality")]
    png: bool,
    /// Pixels of tiles, without what they share
    #[arg(long, value_name = "N", default_value_t = 254)]
    tile_size: u32,
    /// Pixels that tiles share with each neighbour
    #[arg(long, value_name = "N", default_value_t = 1)]
    overlap: u32,
    /// Average all native pixels for the smaller sizes too
    #[arg(long)]
    exact: bool,
}

/// What pixels are made of.
#[derive(Debug, Args)]
struct Quality {
    /// Average all native pixels, to the last bit as specified (the default)
    #[arg(long, conflicts_with = "fast")]
    exact: bool,
    /// Use what is there at a lower resolution, or can be decoded at one
    #[arg(long)]
    fast: bool,
}

/// Where pixels go.
#[derive(Debug, Args)]
struct To {
    /// The file: .png, .npy or .raw (rows of RGB)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// Put background in the place of tiles that are damaged, tell which, and end with code 1
    #[arg(long)]
    fill_damage: bool,
    /// Leave components of JPEG 2000 tiles as they are stored
    #[arg(long)]
    raw_components: bool,
    /// Convert colours to sRGB by the slide's profile
    #[cfg(feature = "wsi-icc")]
    #[arg(long)]
    srgb: bool,
}

pub(super) fn mpp(text: &str) -> Result<Mpp, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0);
        number.ok_or_else(|| format!("`{text}` is no number above 0"))
    };
    match text.split_once(',') {
        Some((x, y)) => Ok(Mpp { x: number(x)?, y: number(y)? }),
        None => number(text).map(Mpp::both),
    }
}

pub(crate) fn run(arguments: &WsiArgs, common: &Common) -> Result<ExitCode> {
    match &arguments.action {
        Action::Region(arguments) => {
            let RegionArgs { x_um, y_um, width, height, mpp, .. } = *arguments;
            let region = Region { x_um, y_um, width, height, mpp };
            pixels(&arguments.path, &arguments.to, common, |slide, options| {
                let options = arguments.quality.apply(options).allow_upsample(arguments.upsample);
                slide.read_region(&region, &options)
            })
        }
        Action::Native(arguments) => {
            let NativeArgs { x, y, width, height, .. } = *arguments;
            let region = NativeRegion { x, y, width, height };
            pixels(&arguments.path, &arguments.to, common, |slide, options| {
                slide.read_native(&region, &options)
            })
        }
        Action::Thumbnail(arguments) => {
            pixels(&arguments.path, &arguments.to, common, |slide, options| {
                slide.read_thumbnail(arguments.size, &arguments.quality.apply(options))
            })
        }
        Action::Associated(arguments) => associated(arguments, common),
        Action::Icc(arguments) => icc(arguments, common),
        Action::Overview(arguments) => overview(arguments, common),
        Action::Original(arguments) => original(arguments, common),
        Action::Deepzoom(arguments) => deepzoom(arguments, common),
        Action::Tiff(arguments) => wsi_export::tiff(arguments, common),
        Action::Tiles(arguments) => wsi_export::tiles(arguments, common),
    }
}

impl Quality {
    const fn apply(&self, options: WsiReadOptions) -> WsiReadOptions {
        options.resolution(if self.fast { Resolution::Fast } else { Resolution::Exact })
    }
}

pub(super) fn open(path: &Path, common: &Common) -> Result<WsiPackReader> {
    let pack = super::open(path, common)?;
    Ok(WsiPackReader::from_reader(pack, &WsiOpenOptions::default())?)
}

fn workers(common: &Common) -> NonZeroUsize {
    common
        .workers
        .or_else(|| std::thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN)
}

/// Reads pixels and writes them to a file.
fn pixels(
    path: &Path,
    to: &To,
    common: &Common,
    read: impl FnOnce(&WsiPackReader, WsiReadOptions) -> Result<RegionImage, AdapterError>,
) -> Result<ExitCode> {
    let format = Format::of(&to.output)?;
    let slide = open(path, common)?;
    let on_damage = if to.fill_damage { OnDamage::Fill } else { OnDamage::Fail };
    let options = WsiReadOptions::new()
        .workers(workers(common))
        .on_damage(on_damage)
        .raw_components(to.raw_components);
    let writing = interrupt::writing()?;
    let mut file = NewFile::create_from(path, &to.output, to.overwrite)?;
    #[cfg_attr(not(feature = "wsi-icc"), allow(unused_mut, reason = "colours are converted"))]
    let mut image = read(&slide, options)?;
    #[cfg(feature = "wsi-icc")]
    if to.srgb && !iatrocache::adapters::wsi::to_srgb(&slide, &mut image.pixels)? && !common.quiet {
        output::note("the slide has no profile, so that its colours stay as they are");
    }
    file.write(&format.content(&image, &to.output)?)?;
    file.publish()?;
    drop(writing);
    told(&image, &to.output, common)
}

/// How pixels are written.
#[derive(Debug, Clone, Copy)]
enum Format {
    Png,
    Npy,
    Raw,
}

impl Format {
    /// The format that a file's name asks for.
    fn of(path: &Path) -> Result<Self> {
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        match suffix.to_ascii_lowercase().as_str() {
            "png" => Ok(Self::Png),
            "npy" => Ok(Self::Npy),
            "raw" => Ok(Self::Raw),
            _ => Err(Failure::usage(format!(
                "{}: the file's name must end in .png, .npy or .raw",
                path.display()
            ))),
        }
    }

    fn content(self, image: &RegionImage, path: &Path) -> Result<Vec<u8>> {
        if matches!(self, Self::Raw) {
            return Ok(image.pixels.clone());
        }
        let view = ImageShape::new(image.height, image.width, 3)
            .and_then(|shape| ImageView::new(shape, &image.pixels[..]));
        let written = view.map_err(PictureError::from).and_then(|view| match self {
            Self::Png => write_png(&view),
            _ => write_npy(&view),
        });
        written.map_err(|source| {
            Failure::from(OpsError::Picture {
                path: path.to_owned(),
                row: None,
                source: Box::new(source),
            })
        })
    }
}

/// Says what was written, and which tiles are damaged.
fn told(image: &RegionImage, path: &Path, common: &Common) -> Result<ExitCode> {
    let mut out = Out::new();
    if common.json {
        let damaged: Vec<_> = image
            .damaged
            .iter()
            .map(|tile| {
                json!({
                    "tile_x": tile.tile_x,
                    "tile_y": tile.tile_y,
                    "row": tile.row,
                    "kind": tile.kind.as_str(),
                    "message": tile.reason,
                })
            })
            .collect();
        out.json(&json!({
            "path": shown(path),
            "width": image.width,
            "height": image.height,
            "damaged": damaged,
        }))?;
    } else {
        out.line(&format!(
            "{} x {} pixels in {}",
            image.width,
            image.height,
            human_safe(&shown(path))
        ))?;
    }
    out.finish()?;
    if !common.json {
        for tile in &image.damaged {
            output::note(&format!(
                "the tile at ({}, {}), row {}, is background: {}",
                tile.tile_x,
                tile.tile_y,
                tile.row,
                human_safe(&tile.reason)
            ));
        }
    }
    Ok(if image.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn associated(arguments: &AssociatedArgs, common: &Common) -> Result<ExitCode> {
    let slide = open(&arguments.path, common)?;
    if let (Some(name), Some(path)) = (&arguments.name, &arguments.output) {
        let format = Format::of(path)?;
        let writing = interrupt::writing()?;
        let mut file = NewFile::create_from(&arguments.path, path, arguments.overwrite)?;
        let image = slide.read_associated(name)?;
        file.write(&format.content(&image, path)?)?;
        file.publish()?;
        drop(writing);
        return told(&image, path, common);
    }
    let mut out = Out::new();
    if slide.associated_images().is_empty() && !common.quiet && !common.json {
        output::note("the slide has no associated images");
    }
    for image in slide.associated_images() {
        if common.json {
            out.json(&json!({
                "name": image.name,
                "width": image.width,
                "height": image.height,
                "icc": image.has_icc,
                "row": image.row,
            }))?;
        } else {
            let icc = if image.has_icc { ", with a profile" } else { "" };
            out.line(&format!(
                "{}  {} x {}{icc}",
                human_safe(&image.name),
                image.width,
                image.height
            ))?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn icc(arguments: &IccArgs, common: &Common) -> Result<ExitCode> {
    let slide = open(&arguments.path, common)?;
    let (profile, whose) = match &arguments.of {
        Some(name) => (slide.associated_icc(name)?, format!("the image \"{name}\"")),
        None => (slide.icc_profile()?, "the slide".to_owned()),
    };
    let profile = profile.ok_or_else(|| {
        Failure::usage(format!("{}: {whose} has no profile", arguments.path.display()))
    })?;
    let writing = interrupt::writing()?;
    let mut file = NewFile::create_from(&arguments.path, &arguments.output, arguments.overwrite)?;
    file.write(&profile)?;
    file.publish()?;
    drop(writing);
    let mut out = Out::new();
    let bytes = u64::try_from(profile.len()).unwrap_or(u64::MAX);
    if common.json {
        out.json(&json!({"path": shown(&arguments.output), "bytes": bytes}))?;
    } else {
        out.line(&format!("{} in {}", human::bytes(bytes), human_safe(&shown(&arguments.output))))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn overview(arguments: &OverviewArgs, common: &Common) -> Result<ExitCode> {
    let slide = open(&arguments.path, common)?;
    let mut options = OverviewOptions::new();
    options.levels.clone_from(&arguments.levels);
    options.workers = workers(common);
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let made = build_overview(&slide, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&made.path),
            "levels": made.levels,
            "tiles": made.tiles,
            "bytes": made.bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} of {} in {}",
            human::counted(made.tiles, "tile"),
            human::bytes(made.bytes),
            human_safe(&shown(&made.path))
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// What a person wants to know of a slide at a glance; nothing for other packs.
pub(super) fn facts(pack: &PackReader) -> Vec<(&'static str, String)> {
    if pack.header().payload_type() != Some(WSI_IMAGE) {
        return Vec::new();
    }
    let Ok(slide) = WsiPackReader::from_reader(pack.clone(), &WsiOpenOptions::default()) else {
        return Vec::new();
    };
    let info = slide.info();
    let (width, height) = info.physical_size();
    let images: Vec<String> = slide
        .associated_images()
        .into_iter()
        .map(|image| format!("{} ({} x {})", image.name, image.width, image.height))
        .collect();
    let levels = slide.overview_levels();
    let overview = if levels.is_empty() {
        "none; `iac wsi overview` makes one".to_owned()
    } else {
        let parts: Vec<String> =
            levels.iter().map(|level| format!("1/{}", 1_u64.wrapping_shl(*level))).collect();
        parts.join(", ")
    };
    vec![
        ("slide", info.slide_id.clone()),
        (
            "raster",
            format!(
                "{} x {} pixels, {:.2} x {:.2} mm",
                info.width,
                info.height,
                width / 1000.0,
                height / 1000.0
            ),
        ),
        ("resolution", format!("{} micrometres per pixel", info.mpp)),
        (
            "tiles",
            format!(
                "{} of {} stored, {} x {} pixels, {}",
                human::count(info.stored_tiles),
                human::count(info.grid_width.saturating_mul(info.grid_height)),
                info.tile_width,
                info.tile_height,
                info.codec.name()
            ),
        ),
        ("images", if images.is_empty() { "none".to_owned() } else { images.join(", ") }),
        ("overview", overview),
    ]
}

/// Has a sheet show the tiles of a slide. Gives the rows that are shown: where nobody named any, some
/// of those that are tiles.
pub(super) fn render(
    pack: &PackReader,
    rows: Option<RowSelection>,
    options: &mut MontageOptions,
) -> Result<Option<RowSelection>> {
    const SPREAD: usize = 100;
    if pack.header().payload_type() != Some(WSI_IMAGE) {
        return Ok(rows);
    }
    let reader = WsiPackReader::from_reader(pack.clone(), &WsiOpenOptions::default())?;
    let rows = rows.unwrap_or_else(|| {
        let tiles = reader.tile_rows();
        let every = tiles.len().div_ceil(SPREAD).max(1);
        tiles.into_iter().step_by(every).collect()
    });
    options.render = Some(Renderer::new(move |row| Ok(reader.read_row_image(row)?)));
    Ok(Some(rows))
}

fn original(arguments: &OriginalArgs, common: &Common) -> Result<ExitCode> {
    let slide = open(&arguments.path, common)?;
    let tile = slide.original_tile(arguments.x, arguments.y)?.ok_or_else(|| {
        Failure::usage(format!(
            "{}: the pack has no original tile at ({}, {})",
            arguments.path.display(),
            arguments.x,
            arguments.y
        ))
    })?;
    let writing = interrupt::writing()?;
    let mut file = NewFile::create_from(&arguments.path, &arguments.output, arguments.overwrite)?;
    file.write(&tile)?;
    file.publish()?;
    drop(writing);
    let bytes = u64::try_from(tile.len()).unwrap_or(u64::MAX);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({ "path": shown(&arguments.output), "bytes": bytes }))?;
    } else {
        out.line(&format!("{} in {}", human::bytes(bytes), human_safe(&shown(&arguments.output))))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn deepzoom(arguments: &DeepzoomArgs, common: &Common) -> Result<ExitCode> {
    let slide = open(&arguments.path, common)?;
    let mut options = DeepZoomOptions::new();
    options.tile = arguments.tile_size;
    options.overlap = arguments.overlap;
    options.quality = (!arguments.png).then_some(arguments.quality);
    options.resolution = if arguments.exact { Resolution::Exact } else { Resolution::Fast };
    options.workers = workers(common);
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = slide.export_deep_zoom(&arguments.output, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.path),
            "folder": shown(&summary.folder),
            "levels": summary.levels,
            "tiles": summary.tiles,
        }))?;
    } else {
        out.line(&format!(
            "{} of {} sizes described by {}",
            human::counted(summary.tiles, "tile"),
            summary.levels,
            human_safe(&shown(&summary.path))
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
