//! `iac dicom`: what is in packs of DICOM objects.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use iatrocache::PackReader;
use iatrocache::adapters::AdapterError;
use iatrocache::adapters::dicom::{
    DICOM_PATIENT, DicomPackReader, ExportOptions, ExportSyntax, SeriesReport, SliceGap, Stack,
};
use iatrocache::codec::Image;
use iatrocache::ops::OpsError;
use iatrocache::ops::montage::{MontageOptions, Renderer};
use iatrocache::ops::rows::RowSelection;
use serde_json::{Value, json};

use super::select::{check_rows, shown};
use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Look into packs of DICOM objects, and write their files
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac dicom series patient.rad.iac
  iac dicom frames patient.rad.iac --instance 3
  iac dicom export patient.rad.iac --dir out/ --transfer-syntax explicit
  iac dicom deid-check patient.rad.iac
  iac dicom volume patient.rad.iac --series 0 -o chest.nii.gz")]
pub(crate) struct DicomArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Series(SeriesArgs),
    Frames(super::dicom_frames::FramesArgs),
    Export(ExportArgs),
    DeidCheck(super::deid::CheckArgs),
    Volume(super::dicom_volume::VolumeArgs),
}

/// List series with their geometry, and slices that are missing
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac dicom series patient.rad.iac

With --json, one line for each series: {\"series_idx\",\"study_uid\",\"series_uid\",\"modality\",
\"description\",\"instances\",\"images\",\"sizes\",\"stacks\",\"gaps\"}.")]
struct SeriesArgs {
    /// The pack
    path: PathBuf,
}

/// Write objects as DICOM files
///
/// Files are named after their SOP instance UIDs. Objects without images, and those that --as-is
/// packed as they were, keep the transfer syntax of their source.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac dicom export patient.rad.iac --dir out/
  iac dicom export patient.rad.iac --dir out/ --rows 10..20 --transfer-syntax jpegls --verify

With --json, one line for each file {\"row\",\"path\",\"bytes\"}, and the last one
{\"summary\":{\"dir\",\"files\",\"bytes\"}}.")]
struct ExportArgs {
    /// The pack
    path: PathBuf,
    /// The folder to write to; it is made if need be
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Rows: 3, or 3,9,4, or 10..20 (without 20); counted from 0. The row of a frame stands for its
    /// whole object [default: all]
    #[arg(long, value_name = "ROWS", allow_hyphen_values = true)]
    rows: Option<RowSelection>,
    /// How images are encoded: jxl, explicit, deflated, jpegls, j2k, htj2k, rle, source (the source's
    /// own streams, where the pack keeps them)
    #[arg(long, value_name = "SYNTAX", default_value = "jxl", value_parser = syntax)]
    transfer_syntax: ExportSyntax,
    /// Decode every image that was encoded, and compare
    #[arg(long)]
    verify: bool,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
}

fn syntax(text: &str) -> Result<ExportSyntax, String> {
    ExportSyntax::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = ExportSyntax::ALL.iter().map(|one| one.name()).collect();
        format!("is none of {}", names.join(", "))
    })
}

pub(crate) fn run(arguments: &DicomArgs, common: &Common) -> Result<ExitCode> {
    match &arguments.action {
        Action::Series(arguments) => series(arguments, common),
        Action::Frames(arguments) => super::dicom_frames::run(arguments, common),
        Action::Export(arguments) => export(arguments, common),
        Action::DeidCheck(arguments) => super::deid::check(arguments, common),
        Action::Volume(arguments) => super::dicom_volume::run(arguments, common),
    }
}

pub(super) fn open(path: &std::path::Path, common: &Common) -> Result<DicomPackReader> {
    Ok(DicomPackReader::from_reader(super::open(path, common)?, true)?)
}

/// Has a sheet show the images of a DICOM pack as they are meant to be seen. Gives the rows that are
/// shown: where nobody named any, some that have images.
pub(super) fn render(
    pack: &PackReader,
    rows: Option<RowSelection>,
    options: &mut MontageOptions,
) -> Result<Option<RowSelection>> {
    const SPREAD: usize = 100;
    if pack.header().payload_type() != Some(DICOM_PATIENT) {
        return Ok(rows);
    }
    let reader = DicomPackReader::from_reader(pack.clone(), true)?;
    let rows = match rows {
        Some(rows) => rows,
        None => {
            let mut with_images = Vec::new();
            for row in 0..reader.row_count() {
                if reader.has_pixels(row)? {
                    with_images.push(row);
                }
            }
            let every = with_images.len().div_ceil(SPREAD).max(1);
            with_images.into_iter().step_by(every).collect()
        }
    };
    options.render = Some(Renderer::new(move |row| {
        let (shape, shades) = reader.read_rendered(row, None)?;
        Image::new(shape, shades).map_err(|source| {
            let path = reader.reader().path().to_owned();
            OpsError::from(AdapterError::Codec { path, row: Some(row), source })
        })
    }));
    Ok(Some(rows))
}

fn series(arguments: &SeriesArgs, common: &Common) -> Result<ExitCode> {
    let reports = open(&arguments.path, common)?.series_report()?;
    let mut out = Out::new();
    for report in &reports {
        interrupt::check()?;
        if common.json {
            out.json(&to_json(report))?;
        } else {
            tell(&mut out, report)?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn tell(out: &mut Out, report: &SeriesReport) -> Result<()> {
    let modality = if report.series.modality.is_empty() { "?" } else { &report.series.modality };
    let sizes: Vec<String> =
        report.sizes.iter().map(|[height, width]| format!("{width} x {height}")).collect();
    let title = out.bold(&format!("{:>3}  {:<4}", report.series.series_idx, human_safe(modality)));
    out.line(&format!(
        "{title} {}, {} {}  {}",
        human::counted(report.instances, "instance"),
        human::counted(report.images, "image"),
        sizes.join(", "),
        human_safe(&report.description)
    ))?;
    for (number, stack) in report.stacks.iter().enumerate() {
        out.line(&format!("     stack {number}: {}", stack_text(stack)))?;
    }
    for gap in &report.gaps {
        let line = out.bad(&gap_text(gap));
        out.line(&format!("     {line}"))?;
    }
    Ok(())
}

fn stack_text(stack: &Stack) -> String {
    let mut text = format!("{} images at {} positions", stack.images, stack.positions);
    if let (Some([first, last]), Some(spacing)) = (stack.extent, stack.spacing) {
        text.push_str(&format!(", {first:.2} to {last:.2} mm, {spacing:.3} mm apart"));
    }
    text
}

fn gap_text(gap: &SliceGap) -> String {
    format!(
        "stack {}: slices are missing between {:.2} mm (instance {}) and {:.2} mm (instance {})",
        gap.stack,
        gap.before.position,
        gap.before.instance_number,
        gap.after.position,
        gap.after.instance_number
    )
}

fn to_json(report: &SeriesReport) -> Value {
    let stacks: Vec<Value> = report
        .stacks
        .iter()
        .map(|stack| {
            json!({
                "images": stack.images,
                "positions": stack.positions,
                "extent": stack.extent,
                "spacing": stack.spacing,
            })
        })
        .collect();
    let gaps: Vec<Value> = report
        .gaps
        .iter()
        .map(|gap| {
            json!({
                "stack": gap.stack,
                "expected_spacing": gap.expected_spacing,
                "before": gap.before.position,
                "after": gap.after.position,
                "sop_instance_uids": [gap.before.sop_instance_uid, gap.after.sop_instance_uid],
            })
        })
        .collect();
    json!({
        "series_idx": report.series.series_idx,
        "study_uid": report.series.study_uid,
        "series_uid": report.series.series_uid,
        "modality": report.series.modality,
        "description": report.description,
        "instances": report.instances,
        "images": report.images,
        "sizes": report.sizes,
        "stacks": stacks,
        "gaps": gaps,
    })
}

fn export(arguments: &ExportArgs, common: &Common) -> Result<ExitCode> {
    let pack = open(&arguments.path, common)?;
    let rows: Vec<u64> = match &arguments.rows {
        Some(rows) => {
            check_rows(pack.reader(), rows)?;
            // An object is written once, whichever of its frames are named.
            let mut objects = Vec::new();
            let mut seen = HashSet::new();
            for row in rows.iter() {
                let instance = pack.instance_of(row)?;
                if seen.insert(instance) {
                    objects.push(pack.instance_rows(instance)?.start);
                }
            }
            objects
        }
        None => pack.first_rows()?,
    };
    let options = ExportOptions::default()
        .with_syntax(arguments.transfer_syntax)
        .with_verify(arguments.verify)
        .with_overwrite(arguments.overwrite);
    let progress = Shown::beside_list(common, Unit::Rows);
    let mut written = Vec::new();
    let writing = interrupt::writing()?;
    pack.export_many(&rows, &arguments.dir, &options, common.workers, &progress, &mut |file| {
        written.push(file);
        Ok(())
    })?;
    drop(writing);
    let mut out = Out::new();
    let bytes = written.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
    let files = u64::try_from(written.len()).unwrap_or(u64::MAX);
    if common.json {
        for file in &written {
            out.json(&json!({"row": file.row, "path": shown(&file.path), "bytes": file.bytes}))?;
        }
        let dir = shown(&arguments.dir);
        out.json(&json!({"summary": {"dir": dir, "files": files, "bytes": bytes}}))?;
    } else {
        out.line(&format!(
            "{}, {} in {}",
            human::counted(files, "file"),
            human::bytes(bytes),
            human_safe(&shown(&arguments.dir))
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
