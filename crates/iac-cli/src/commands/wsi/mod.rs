//! `iac wsi`: pixels of whole slides, and what lies beside them.

mod args;
mod glance;
mod pixels;

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;

use iatrocache::adapters::wsi::{
    DeepZoomOptions, NativeRegion, OverviewOptions, Region, Resolution, WsiOpenOptions,
    WsiPackReader, build_overview,
};
use serde_json::json;

pub(crate) use args::WsiArgs;
pub(super) use args::mpp;
use args::{
    Action, AssociatedArgs, DeepzoomArgs, IccArgs, NativeArgs, OriginalArgs, OverviewArgs,
    RegionArgs,
};
pub(super) use glance::{facts, render};
use pixels::{Format, pixels, told};

use super::select::shown;
use super::wsi_export;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::place::NewFile;
use crate::progress::{Shown, Unit};

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
