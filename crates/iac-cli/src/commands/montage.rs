//! `iac montage`: a contact sheet of images.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::ops::OpsError;
use iatrocache::ops::montage::{MontageOptions, Window, montage};
use iatrocache::ops::pictures::write_png;
use iatrocache::ops::rows::RowSelection;
use serde_json::json;

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Result, exit_code, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::place::NewFile;
use crate::progress::{Shown, Unit};

/// Put images on one sheet
///
/// Each image is reduced to fit into its place, in the order of the rows, from left to right.
/// Samples with more than 8 bits, signed ones and floats become shades between the 1st and the
/// 99th percentile of their image, or those of --window. Images of DICOM packs are shown through their
/// own windows and palettes, tiles of slides as colours. An image that cannot be decoded is a
/// cross, and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac montage tiles.iac -o sheet.png                 up to 100 images, spread over the pack
  iac montage tiles.iac --rows 0..60 --columns 10 -o sheet.png
  iac montage ct.iac --window minmax --cell 256 -o sheet.png

With --json, one object: {\"path\",\"rows\",\"columns\",\"shape\",\"failed\":[{\"row\",\"kind\",\"message\"}]}.")]
pub(crate) struct MontageArgs {
    /// The pack
    path: PathBuf,
    /// Rows: 3, or 3,9,4, or 10..20 (without 20); counted from 0 [default: 100 that are spread]
    #[arg(long, value_name = "ROWS", allow_hyphen_values = true)]
    rows: Option<RowSelection>,
    /// Images in a row of the sheet [default: as many as there are rows]
    #[arg(long, value_name = "N")]
    columns: Option<NonZeroUsize>,
    /// Pixels of each side of the place for one image
    #[arg(long, value_name = "PIXELS", default_value_t = 128)]
    cell: u32,
    /// What becomes black and white: minmax, or two percentiles as 1,99
    #[arg(long, value_name = "WINDOW", default_value = "1,99", value_parser = window)]
    window: Window,
    /// The sheet
    #[arg(short, long, value_name = "PNG")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

fn window(text: &str) -> Result<Window, String> {
    if text == "minmax" {
        return Ok(Window::MinMax);
    }
    let bounds = text
        .split_once(',')
        .and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
    match bounds {
        Some((low, high)) => Ok(Window::Percentiles { low, high }),
        None => Err(format!("`{text}` is neither minmax nor two percentiles, as 1,99")),
    }
}

pub(crate) fn run(arguments: &MontageArgs, common: &Common) -> Result<ExitCode> {
    let mut options = MontageOptions::default();
    options.columns = arguments.columns;
    options.cell = arguments.cell;
    options.window = arguments.window;
    options.workers = common.workers;
    if let Some(other) = arguments.output.extension().filter(|it| !it.eq_ignore_ascii_case("png")) {
        return Err(Failure::usage(format!(
            "{}: the sheet is a PNG file, which a name in .{} does not say",
            arguments.output.display(),
            other.display()
        )));
    }
    let pack = super::open(&arguments.path, common)?;
    let rows = arguments.rows.clone();
    #[cfg(feature = "dicom")]
    let rows = super::dicom::render(&pack, rows, &mut options)?;
    #[cfg(feature = "wsi")]
    let rows = super::wsi::render(&pack, rows, &mut options)?;
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let mut file = NewFile::create_from(&arguments.path, &arguments.output, arguments.overwrite)?;
    let sheet = montage(&pack, rows.as_ref(), &options, &progress)?;
    let png = write_png(&sheet.image.as_view()).map_err(|source| {
        Failure::from(OpsError::Picture {
            path: arguments.output.clone(),
            row: None,
            source: Box::new(source),
        })
    })?;
    file.write(&png)?;
    file.publish()?;
    drop(writing);
    let mut out = Out::new();
    let shape = sheet.image.shape();
    if common.json {
        let failed: Vec<_> = sheet
            .failed
            .iter()
            .map(|failed| {
                json!({
                    "row": failed.row,
                    "kind": failed.kind.as_str(),
                    "message": failed.message,
                })
            })
            .collect();
        out.json(&json!({
            "path": shown(&arguments.output),
            "rows": sheet.rows,
            "columns": sheet.columns,
            "shape": shape.dimensions(),
            "failed": failed,
        }))?;
    } else {
        let images = u64::try_from(sheet.rows.len()).unwrap_or(u64::MAX);
        out.line(&format!(
            "{} on {} ({} x {} pixels)",
            human::counted(images, "image"),
            human_safe(&shown(&arguments.output)),
            shape.width(),
            shape.height()
        ))?;
    }
    out.finish()?;
    if !common.json {
        for failed in &sheet.failed {
            output::note(&format!(
                "row {} is a cross: {}",
                failed.row,
                human_safe(&failed.message)
            ));
        }
    }
    Ok(sheet
        .failed
        .first()
        .map_or(ExitCode::SUCCESS, |failed| ExitCode::from(exit_code(failed.kind))))
}
