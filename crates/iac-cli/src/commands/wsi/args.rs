//! Arguments of `iac wsi`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use iatrocache::adapters::wsi::{Mpp, Resolution, WsiReadOptions};

use crate::commands::wsi_export;
use crate::failure::Result;

/// Read regions of whole slides, their associated images and profiles
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi thumbnail slide.pat.iac --size 1024 -o slide.png
  iac wsi region slide.pat.iac --x-um 1000 --y-um 2000 --width 512 --height 512 --mpp 1 -o r.png
  iac wsi overview slide.pat.iac                    make --fast fast")]
pub(crate) struct WsiArgs {
    #[command(subcommand)]
    pub(super) action: Action,
}

#[derive(Debug, Subcommand)]
pub(super) enum Action {
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
pub(super) struct RegionArgs {
    /// The pack
    pub(super) path: PathBuf,
    /// The left edge, in micrometres
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(super) x_um: f64,
    /// The upper edge, in micrometres
    #[arg(long, value_name = "Y", allow_hyphen_values = true)]
    pub(super) y_um: f64,
    /// Pixels of a row
    #[arg(long, value_name = "PIXELS")]
    pub(super) width: u32,
    /// Rows
    #[arg(long, value_name = "PIXELS")]
    pub(super) height: u32,
    /// Micrometres per pixel: one number, or two for x and y
    #[arg(long, value_name = "M[,N]", value_parser = mpp)]
    pub(super) mpp: Mpp,
    /// Allow micrometres per pixel below those of the slide by up to this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(super) upsample: f64,
    #[command(flatten)]
    pub(super) quality: Quality,
    #[command(flatten)]
    pub(super) to: To,
}

/// Read a region in native pixels
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac wsi native slide.pat.iac --x 2048 --y 4096 --width 512 --height 512 -o tile.png

With --json, one object as of `iac wsi region`.")]
pub(super) struct NativeArgs {
    /// The pack
    pub(super) path: PathBuf,
    /// The left edge, in pixels
    #[arg(long, allow_hyphen_values = true)]
    pub(super) x: i64,
    /// The upper edge, in pixels
    #[arg(long, allow_hyphen_values = true)]
    pub(super) y: i64,
    /// Pixels of a row
    #[arg(long, value_name = "PIXELS")]
    pub(super) width: u32,
    /// Rows
    #[arg(long, value_name = "PIXELS")]
    pub(super) height: u32,
    #[command(flatten)]
    pub(super) to: To,
}

/// Read the whole slide, made small
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac wsi thumbnail slide.pat.iac --size 1024 -o slide.png

With --json, one object as of `iac wsi region`.")]
pub(super) struct ThumbnailArgs {
    /// The pack
    pub(super) path: PathBuf,
    /// Pixels of the longer side
    #[arg(long, value_name = "PIXELS", default_value_t = 1024)]
    pub(super) size: u32,
    #[command(flatten)]
    pub(super) quality: Quality,
    #[command(flatten)]
    pub(super) to: To,
}

/// Read an associated image, or list them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi associated slide.pat.iac
  iac wsi associated slide.pat.iac label -o label.png

With --json and without NAME, one line for each: {\"name\",\"width\",\"height\",\"icc\",\"row\"}; with
NAME, one object as of `iac wsi region`.")]
pub(super) struct AssociatedArgs {
    /// The pack
    pub(super) path: PathBuf,
    /// Its name [default: list all]
    #[arg(requires = "output")]
    pub(super) name: Option<String>,
    /// The file: .png, .npy or .raw
    #[arg(short, long, value_name = "FILE", requires = "name")]
    pub(super) output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub(super) overwrite: bool,
}

/// Write the slide's ICC profile to a file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac wsi icc slide.pat.iac -o slide.icc
  iac wsi icc slide.pat.iac --of label -o label.icc")]
pub(super) struct IccArgs {
    /// The pack
    pub(super) path: PathBuf,
    /// The profile of this associated image
    #[arg(long, value_name = "NAME")]
    pub(super) of: Option<String>,
    /// The file
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub(super) overwrite: bool,
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
pub(super) struct OverviewArgs {
    /// The pack
    pub(super) path: PathBuf,
    /// Levels: L stands for one pixel for a square of 2^L pixels along each side
    #[arg(long, value_name = "L,...", value_delimiter = ',', default_values_t = [3, 6])]
    pub(super) levels: Vec<u32>,
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
pub(super) struct OriginalArgs {
    /// The pack
    pub(super) path: PathBuf,
    /// The tile's column
    #[arg(long)]
    pub(super) x: u64,
    /// The tile's row
    #[arg(long)]
    pub(super) y: u64,
    /// The file
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub(super) overwrite: bool,
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
pub(super) struct DeepzoomArgs {
    /// The pack
    pub(super) path: PathBuf,
    /// The description: NAME.dzi
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// The quality of JPEG tiles, from 1 to 100
    #[arg(long, value_name = "Q", default_value_t = 90)]
    pub(super) quality: u8,
    /// Write PNG tiles, which lose nothing
    #[arg(long, conflicts_with = "quality")]
    pub(super) png: bool,
    /// Pixels of tiles, without what they share
    #[arg(long, value_name = "N", default_value_t = 254)]
    pub(super) tile_size: u32,
    /// Pixels that tiles share with each neighbour
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) overlap: u32,
    /// Average all native pixels for the smaller sizes too
    #[arg(long)]
    pub(super) exact: bool,
}

/// What pixels are made of.
#[derive(Debug, Args)]
pub(super) struct Quality {
    /// Average all native pixels, to the last bit as specified (the default)
    #[arg(long, conflicts_with = "fast")]
    pub(super) exact: bool,
    /// Use what is there at a lower resolution, or can be decoded at one
    #[arg(long)]
    pub(super) fast: bool,
}

/// Where pixels go.
#[derive(Debug, Args)]
pub(super) struct To {
    /// The file: .png, .npy or .raw (rows of RGB)
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Put background in the place of tiles that are damaged, tell which, and end with code 1
    #[arg(long)]
    pub(super) fill_damage: bool,
    /// Leave components of JPEG 2000 tiles as they are stored
    #[arg(long)]
    pub(super) raw_components: bool,
    /// Convert colours to sRGB by the slide's profile
    #[cfg(feature = "wsi-icc")]
    #[arg(long)]
    pub(super) srgb: bool,
}

impl Quality {
    pub(super) const fn apply(&self, options: WsiReadOptions) -> WsiReadOptions {
        options.resolution(if self.fast { Resolution::Fast } else { Resolution::Exact })
    }
}

pub(in crate::commands) fn mpp(text: &str) -> Result<Mpp, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0);
        number.ok_or_else(|| format!("`{text}` is no number above 0"))
    };
    match text.split_once(',') {
        Some((x, y)) => Ok(Mpp { x: number(x)?, y: number(y)? }),
        None => number(text).map(Mpp::both),
    }
}
