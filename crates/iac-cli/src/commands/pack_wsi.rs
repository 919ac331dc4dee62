//! `iac pack wsi`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::adapters::AdapterError;
use iatrocache::adapters::wsi::{Mpp, WsiImporter, WsiProfile};
use iatrocache::{ErrorKind, WriteOptions};
use serde_json::json;

use super::select::shown;
use super::wsi::mpp;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::progress::{Shown, Unit};

/// Import a whole slide
///
/// Read are TIFF and BigTIFF files in tiles or strips, among them SVS, NDPI, SCN, BIF, OME-TIFF, QPTIFF and
/// Philips TIFF of bright fields; DICOM files of a slide, by their folder or one of them; and plain
/// images (PNG, JPEG, BMP, WebP, JPEG XL). Without a profile, tiles are kept as they are, encoded
/// without loss, or with the smallest loss that makes the pack smaller, whichever suits the source.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac pack wsi CMU-1.svs -o CMU-1.pat.iac
  iac pack wsi CMU-1.svs -o CMU-1.pat.iac --transcode       JPEG tiles smaller, nothing lost
  iac pack wsi scan.png -o scan.pat.iac --lossless --mpp 0.5
  iac pack wsi CMU-1.svs -o CMU-1.pat.iac --drop label,macro --scrub-metadata

With --transcode, the reference packages show pixels that differ by some levels from those of the
JPEG tiles; iac itself shows the same.

With --json, one object: {\"path\",\"slide_id\",\"width\",\"height\",\"mpp\",\"codec\",\"strategy\",
\"stored_tiles\",\"background_tiles\",\"missing_tiles\",\"kept_tiles\",\"associated\",\"file_bytes\"}.")]
pub(super) struct WsiArgs {
    /// The slide: a file, or a folder of DICOM files
    slide: PathBuf,
    /// The pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Id of the slide [default: the file's name without its ending]
    #[arg(long, value_name = "ID")]
    slide_id: Option<String>,
    /// Id of the patient
    #[arg(long, value_name = "ID", default_value = "")]
    patient_id: String,
    /// Id of the specimen
    #[arg(long, value_name = "ID", default_value = "")]
    specimen_id: String,
    /// Encode without loss
    #[arg(long, group = "profile")]
    lossless: bool,
    /// Encode with a loss: above 0, up to 25
    #[arg(long, value_name = "D", group = "profile")]
    distance: Option<f64>,
    /// Keep tiles as they are, to the byte
    #[arg(long, group = "profile")]
    passthrough: bool,
    /// Make JPEG tiles smaller so that they come back to the byte
    #[arg(long, group = "profile")]
    transcode: bool,
    /// From 1 (fast) to 10 (small)
    #[arg(long, value_name = "E", default_value_t = 7)]
    effort: u8,
    /// Pixels of tiles that are encoded: one number, or width and height
    #[arg(long, value_name = "N[,M]", value_parser = tile_size, default_value = "512")]
    tile_size: (u32, u32),
    /// Micrometres per pixel in the slide's own orientation: one number, or two for x and y
    #[arg(long, value_name = "M[,N]", value_parser = mpp)]
    mpp: Option<Mpp>,
    /// Micrometres per pixel in the orientation in which the pack stores the slide
    #[arg(long, value_name = "M[,N]", value_parser = mpp, conflicts_with = "mpp")]
    mpp_stored: Option<Mpp>,
    /// Leave out these associated images
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    drop: Vec<String>,
    /// Leave out what the scanner wrote about the slide
    #[arg(long)]
    scrub_metadata: bool,
    /// How associated images are stored that are JPEG in the slide: as the same JPEG, smaller, or by
    /// their exact pixels
    #[arg(long, value_enum, default_value_t = AssociatedArg::Jpeg)]
    associated: AssociatedArg,
    /// Keep no averages at 1/8 and 1/64 in the pack, which let coarse regions be read fast
    #[arg(long)]
    no_overview: bool,
    /// The optical path of a DICOM slide that has several, by its identifier
    #[arg(long, value_name = "ID")]
    optical_path: Option<String>,
    /// The focal plane of a slide that has several, counted from 1
    #[arg(long, value_name = "N")]
    focal_plane: Option<u32>,
    /// Read the slide by OpenSlide, whatever it is
    #[cfg(feature = "wsi-openslide")]
    #[arg(long)]
    openslide: bool,
    /// Keep tiles in OUT.journal until the pack is complete, and go on from one that is there
    #[arg(long)]
    resume: bool,
    /// Replace an existing pack
    #[arg(long)]
    overwrite: bool,
}

/// How associated images are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AssociatedArg {
    Jpeg,
    Lossless,
}

fn tile_size(text: &str) -> Result<(u32, u32), String> {
    let side = |text: &str| {
        let side = text.trim().parse::<u32>().ok().filter(|side| (1..=65_535).contains(side));
        side.ok_or_else(|| format!("`{text}` is no number from 1 to 65535"))
    };
    match text.split_once(',') {
        Some((width, height)) => Ok((side(width)?, side(height)?)),
        None => side(text).map(|side| (side, side)),
    }
}

pub(super) fn run(arguments: &WsiArgs, common: &Common) -> Result<ExitCode> {
    let profile = match arguments.distance {
        Some(distance) => WsiProfile::Distance(distance),
        None if arguments.lossless => WsiProfile::Lossless,
        None if arguments.passthrough => WsiProfile::Passthrough,
        None if arguments.transcode => WsiProfile::Transcode,
        None => WsiProfile::Auto,
    };
    let slide_id = match &arguments.slide_id {
        Some(id) => id.clone(),
        None => arguments
            .slide
            .file_stem()
            .and_then(|name| name.to_str())
            .map(str::to_owned)
            .ok_or_else(|| Failure::usage("the slide's file has no name: give --slide-id"))?,
    };
    let (tile_width, tile_height) = arguments.tile_size;
    let mut importer = WsiImporter::new(slide_id.as_str())
        .patient_id(arguments.patient_id.as_str())
        .specimen_id(arguments.specimen_id.as_str())
        .profile(profile)
        .effort(arguments.effort)
        .tile_size(tile_width, tile_height)
        .drop_associated(arguments.drop.iter().map(String::as_str))
        .scrub_metadata(arguments.scrub_metadata)
        .lossless_associated(arguments.associated == AssociatedArg::Lossless)
        .overview(!arguments.no_overview)
        .workers(common.workers)
        .optical_path(arguments.optical_path.clone())
        .focal_plane(arguments.focal_plane)
        .resume(arguments.resume)
        .options(WriteOptions::new().overwrite(arguments.overwrite));
    #[cfg(feature = "wsi-openslide")]
    {
        importer = importer.openslide(arguments.openslide);
    }
    if let Some(mpp) = arguments.mpp {
        importer = importer.native_mpp(mpp);
    }
    if let Some(mpp) = arguments.mpp_stored {
        importer = importer.stored_mpp(mpp);
    }
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let imported = importer.import(&arguments.slide, &arguments.output, &progress);
    let summary = imported.map_err(|error| {
        let lacks_mpp = matches!(&error, AdapterError::Source { kind: ErrorKind::Usage, .. })
            && arguments.slide.is_file();
        let failure = Failure::from(error);
        if lacks_mpp { failure.with_hint("--mpp M gives them, as in --mpp 0.5") } else { failure }
    })?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.written.path),
            "slide_id": slide_id,
            "width": summary.width,
            "height": summary.height,
            "mpp": [summary.mpp.x, summary.mpp.y],
            "codec": summary.codec,
            "strategy": summary.strategy,
            "stored_tiles": summary.stored_tiles,
            "background_tiles": summary.background_tiles,
            "missing_tiles": summary.missing_tiles,
            "kept_tiles": summary.kept_tiles,
            "associated": summary.associated,
            "file_bytes": summary.written.file_bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} x {} pixels at {} µm in {} of {} ({}), {} of background, packed into {} ({})",
            summary.width,
            summary.height,
            summary.mpp,
            human::counted(summary.stored_tiles, "tile"),
            summary.codec,
            summary.strategy,
            human::counted(summary.background_tiles, "tile"),
            human_safe(&shown(&summary.written.path)),
            human::bytes(summary.written.file_bytes)
        ))?;
    }
    out.finish()?;
    if !common.quiet && !common.json {
        if summary.missing_tiles > 0 {
            let missing = human::counted(summary.missing_tiles, "tile");
            output::note(&format!("the slide has no data for {missing}, which are white"));
        }
        if summary.kept_tiles > 0 {
            let kept = human::counted(summary.kept_tiles, "tile");
            output::note(&format!("{kept} could not be transcoded, and are kept as they are too"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
