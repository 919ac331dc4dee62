//! `iac dicom frames`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::adapters::dicom::{DicomPackReader, Tag};
use serde_json::{Value, json};

use super::dicom::open;
use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;

/// List objects with their frames, or the frames of one object
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac dicom frames patient.rad.iac
  iac dicom frames patient.rad.iac --instance 3

With --json, one line for each object with an image: {\"instance\",\"row\",\"series_idx\",
\"sop_instance_uid\",\"frames\",\"shape\",\"dtype\",\"codec\",\"bytes\"}; with --instance one for each
frame: {\"frame\",\"row\",\"codec\",\"bytes\",\"position\",\"orientation\",\"pixel_spacing\",
\"slice_thickness\",\"slice_spacing\",\"rescale_slope\",\"rescale_intercept\",\"dimension_index\"}.")]
pub(super) struct FramesArgs {
    /// The pack
    path: PathBuf,
    /// An object, counted from 0: its frames are listed
    #[arg(long, value_name = "N")]
    instance: Option<u64>,
}

pub(super) fn run(arguments: &FramesArgs, common: &Common) -> Result<ExitCode> {
    let pack = open(&arguments.path, common)?;
    let mut out = Out::new();
    match arguments.instance {
        Some(instance) => frames(&pack, instance, common, &mut out)?,
        None => {
            for instance in 0..pack.instance_count() {
                interrupt::check()?;
                object(&pack, instance, common, &mut out)?;
            }
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn object(pack: &DicomPackReader, instance: u64, common: &Common, out: &mut Out) -> Result<()> {
    let frames = pack.frame_count(instance)?;
    if frames == 0 {
        return Ok(());
    }
    let rows = pack.instance_rows(instance)?;
    let mut bytes = 0_u64;
    for row in rows.clone() {
        bytes = bytes.saturating_add(pack.reader().span(row)?.length);
    }
    let row = rows.start;
    let shape = pack.shape(row)?;
    let dtype = pack.pixel_type(row)?.map_or("", |it| it.name());
    let codec = pack.stored_as(row)?;
    let series = pack.series_of(row)?;
    if common.json {
        let attributes = pack.attributes(row)?;
        return out.json(&json!({
            "instance": instance,
            "row": row,
            "series_idx": series.series_idx,
            "sop_instance_uid": attributes.text(Tag(0x0008, 0x0018)),
            "frames": frames,
            "shape": shape.dimensions(),
            "dtype": dtype,
            "codec": codec,
            "bytes": bytes,
        }));
    }
    let modality = if series.modality.is_empty() { "?" } else { &series.modality };
    let title = out.bold(&format!("{instance:>5}  {:<4}", human_safe(modality)));
    out.line(&format!(
        "{title} {} of {shape} {dtype}, {codec}, {}",
        human::counted(frames, "frame"),
        human::bytes(bytes)
    ))
}

fn frames(pack: &DicomPackReader, instance: u64, common: &Common, out: &mut Out) -> Result<()> {
    for frame in 0..pack.frame_count(instance)? {
        interrupt::check()?;
        let row = pack.frame_row(instance, frame)?;
        let facts = pack.frame_facts(instance, frame)?;
        let codec = pack.stored_as(row)?;
        let bytes = pack.reader().span(row)?.length;
        if common.json {
            out.json(&json!({
                "frame": frame,
                "row": row,
                "codec": codec,
                "bytes": bytes,
                "position": facts.position,
                "orientation": facts.orientation,
                "pixel_spacing": facts.pixel_spacing,
                "slice_thickness": facts.slice_thickness,
                "slice_spacing": facts.slice_spacing,
                "rescale_slope": facts.rescale_slope,
                "rescale_intercept": facts.rescale_intercept,
                "dimension_index": facts.dimension_index,
            }))?;
            continue;
        }
        let mut line = format!("{frame:>5}  {codec}, {}", human::bytes(bytes));
        if let Some([x, y, z]) = facts.position {
            line.push_str(&format!(", at {x:.2} {y:.2} {z:.2} mm"));
        }
        if !facts.dimension_index.is_empty() {
            line.push_str(&format!(", index {}", Value::from(facts.dimension_index)));
        }
        out.line(&line)?;
    }
    Ok(())
}
