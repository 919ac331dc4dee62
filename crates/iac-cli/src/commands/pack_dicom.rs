//! `iac pack dicom`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use iatrocache::WriteOptions;
use iatrocache::adapters::dicom::{
    DicomBuildReport, DicomInputs, DicomPackBuilder, FrameCountReport, LossyOriginals, OnBadInput,
    PayloadCodec, SchemaChoice, SkippedInput,
};
use serde_json::{Value, json};

use super::deid;
use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::progress::{Shown, Unit};

/// Notes of one sort that are printed.
const TOLD: usize = 20;

/// Pack the DICOM objects of one patient
///
/// Folders are searched to any depth for .dcm, .dicom and .ima files, files without a suffix that
/// begin like an object, and zip archives of such files; of a DICOMDIR its files are taken. What a
/// file says is kept to the byte; images become lossless JPEG XL. Files of other patients stop the
/// work, unless --by-patient sorts them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac pack dicom study/ -o patient.rad.iac
  iac pack dicom study/ -o patient.rad.iac --effort 3 --verify
  iac pack dicom export.zip more/ -o patient.rad.iac --keep-going
  iac pack dicom study/ -o patient.rad.iac --as-is
  iac pack dicom archive/ -o packs/ --by-patient
  iac pack dicom archive/ -o packs/ --by-patient --deidentify trial.toml
  iac pack dicom study/ -o patient.rad.iac --schema 2 --payload zstd

Schema 1 is what the reference packages read: one frame of 8 or 16 bits for each object. Objects
with several frames, 1 or 32 bits or floating-point samples need schema 2, which has a record for
each frame. There, images that come compressed with loss keep their own streams, unless --lossy
says otherwise.

With --keep-going and --as-is the exit code is 1 when inputs were left out. Messages and headers
name no patient; packs of --by-patient are named after a hash of the identifier.

With --json, one object for each pack: {\"path\",\"instances\",\"series\",\"images\",\"file_bytes\",
\"diagnostics\",\"skipped\",\"kept\",\"duplicates\",\"malformed\",\"gaps\",\"short_acquisitions\",\"schema\",
\"frames\",\"frame_counts\"}, and with --deidentify \"deidentification\": {\"objects\",
\"without_patient_id\",\"totals\",\"elements\",\"burned_in\"}.")]
pub(crate) struct DicomArgs {
    /// Folders, files, zip archives
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// The pack; with --by-patient the folder of the packs
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// How hard images are compressed, from 1 (fast) to 10 (small)
    #[arg(long, value_name = "E", default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=10))]
    effort: u8,
    /// The schema: auto (1 unless an object needs 2), 1 or 2
    #[arg(long, value_name = "SCHEMA", default_value = "auto", value_parser = schema)]
    schema: SchemaChoice,
    /// What frames are compressed with: jxl, htj2k, jpegls, zstd, none; all but jxl ask for schema 2
    #[arg(long, value_name = "CODEC", default_value = "jxl", value_parser = payload)]
    payload: PayloadCodec,
    /// What becomes of images with loss in schema 2: keep, transcode (JPEG into JPEG XL and back byte
    /// for byte), decode
    #[arg(long, value_name = "HOW", default_value = "keep", value_parser = lossy)]
    lossy: LossyOriginals,
    /// Decode every image again, and compare
    #[arg(long)]
    verify: bool,
    /// Leave out what cannot be used, and list it
    #[arg(long)]
    keep_going: bool,
    /// Store pixel data that cannot be used as an image (several frames, unknown syntaxes, damaged
    /// streams) as it is, for export alone, and leave out what cannot be used at all
    #[arg(long)]
    as_is: bool,
    /// One pack for each patient
    #[arg(long)]
    by_patient: bool,
    /// Replace existing packs
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    deid: deid::DeidArgs,
}

fn schema(text: &str) -> Result<SchemaChoice, String> {
    match text {
        "auto" => Ok(SchemaChoice::WhenNeeded),
        "1" => Ok(SchemaChoice::One),
        "2" => Ok(SchemaChoice::Two),
        _ => Err("is none of auto, 1, 2".to_owned()),
    }
}

fn payload(text: &str) -> Result<PayloadCodec, String> {
    PayloadCodec::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = PayloadCodec::ALL.iter().map(|one| one.name()).collect();
        format!("is none of {}", names.join(", "))
    })
}

fn lossy(text: &str) -> Result<LossyOriginals, String> {
    LossyOriginals::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = LossyOriginals::ALL.iter().map(|one| one.name()).collect();
        format!("is none of {}", names.join(", "))
    })
}

pub(crate) fn run(arguments: &DicomArgs, common: &Common) -> Result<ExitCode> {
    let policy = match (arguments.as_is, arguments.keep_going) {
        (true, _) => OnBadInput::Keep,
        (false, true) => OnBadInput::Skip,
        (false, false) => OnBadInput::Stop,
    };
    let deidentifier = deid::deidentifier(&arguments.deid)?;
    let builder = DicomPackBuilder::new()
        .deidentify(deidentifier.clone())
        .effort(arguments.effort)
        .workers(common.workers)
        .verify(arguments.verify)
        .schema(arguments.schema)
        .payload(arguments.payload)
        .originals(arguments.lossy)
        .on_bad_input(policy)
        .options(WriteOptions::new().overwrite(arguments.overwrite));
    let inputs = DicomInputs::find(&arguments.sources)?;
    if inputs.is_empty() {
        return Err(Failure::usage("there are no DICOM files"));
    }
    let progress = Shown::new(common, Unit::Rows);
    let mut out = Out::new();
    let mut complete = true;
    if arguments.by_patient {
        let grouped = inputs.by_patient(common.workers, &progress)?;
        if policy == OnBadInput::Stop
            && let Some(first) = grouped.unreadable.first()
        {
            return Err(Failure::usage(format!(
                "{}: {} (--keep-going leaves such files out)",
                first.input, first.reason
            )));
        }
        complete &= grouped.unreadable.is_empty() && grouped.without_id.is_empty();
        for patient in grouped.patients {
            interrupt::check()?;
            std::fs::create_dir_all(&arguments.output).map_err(|error| {
                Failure::io(&arguments.output, "cannot make the folder", &error)
            })?;
            let name = deid::pack_name(deidentifier.as_deref(), patient.name);
            let path = arguments.output.join(format!("{name}.rad.iac"));
            let writing = interrupt::writing()?;
            let report = builder.build_from(&path, patient.inputs)?;
            drop(writing);
            complete &= report.skipped.is_empty();
            tell(&mut out, &report, &path, common)?;
        }
        if !common.quiet {
            notes(&grouped.unreadable);
            for input in grouped.without_id.iter().take(TOLD) {
                output::note(&format!("{} was left out: it has no patient id", human_safe(input)));
            }
            rest(grouped.without_id.len());
        }
    } else {
        let writing = interrupt::writing()?;
        let report = builder.build_with(&arguments.output, inputs, &progress)?;
        drop(writing);
        complete &= report.skipped.is_empty();
        tell(&mut out, &report, &arguments.output, common)?;
    }
    if let Some(deidentifier) = deidentifier {
        deid::write_map(&arguments.deid, &deidentifier)?;
    }
    out.finish()?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn tell(out: &mut Out, report: &DicomBuildReport, path: &Path, common: &Common) -> Result<()> {
    if common.json {
        return out.json(&to_json(report, path));
    }
    out.line(&format!(
        "{} in {} packed into {} ({})",
        human::counted(report.instances, "instance"),
        if report.series == 1 {
            "1 series".to_owned()
        } else {
            format!("{} series", human::count(report.series))
        },
        human_safe(&shown(path)),
        human::bytes(report.written.file_bytes)
    ))?;
    if common.quiet {
        return Ok(());
    }
    if let Some(report) = &report.deidentification {
        deid::tell(report);
    }
    notes(&report.skipped);
    for input in report.kept.iter().take(TOLD) {
        output::note(&format!(
            "the pixel data of {} is stored as it is: {}",
            human_safe(&input.input),
            human_safe(&input.reason)
        ));
    }
    rest(report.kept.len());
    for (code, count) in &report.diagnostics {
        output::note(&format!("{code}: {}", human::count(*count)));
    }
    if report.schema_version > 1 {
        output::note(&format!(
            "{} in schema {}, which the reference packages do not read",
            human::counted(report.frames, "frame"),
            report.schema_version
        ));
    }
    for odd in report.frame_counts.iter().take(TOLD) {
        output::note(&frame_count_text(odd));
    }
    rest(report.frame_counts.len());
    for gap in report.gaps.iter().take(TOLD) {
        output::note(&format!(
            "slices are missing between {:.2} mm (instance {}) and {:.2} mm (instance {}), where {:.2} mm are usual",
            gap.before.position,
            gap.before.instance_number,
            gap.after.position,
            gap.after.instance_number,
            gap.expected_spacing
        ));
    }
    rest(report.gaps.len());
    for input in report.malformed.iter().take(TOLD) {
        let paths: Vec<&str> = input.elements.iter().map(|element| element.path.as_str()).collect();
        output::note(&format!(
            "{}: elements that cannot be interpreted are kept as they are: {}",
            human_safe(&input.input),
            paths.join(", ")
        ));
    }
    rest(report.malformed.len());
    Ok(())
}

fn frame_count_text(odd: &FrameCountReport) -> String {
    let mut text = format!("{}:", human_safe(&odd.input));
    if let Some(found) = odd.found {
        let stated = odd.stated.map_or_else(|| "no number of".to_owned(), |it| it.to_string());
        text.push_str(&format!(" {stated} frames stated, {found} found"));
    }
    if let Some(groups) = odd.groups {
        let comma = if odd.found.is_some() { "," } else { "" };
        text.push_str(&format!("{comma} {groups} functional groups, not one for each frame"));
    }
    text
}

fn notes(skipped: &[SkippedInput]) {
    for input in skipped.iter().take(TOLD) {
        output::note(&format!(
            "{} was left out: {}",
            human_safe(&input.input),
            human_safe(&input.reason)
        ));
    }
    rest(skipped.len());
}

fn rest(count: usize) {
    if let Some(more) = count.checked_sub(TOLD).filter(|more| *more > 0) {
        output::note(&format!(
            "{} more like these",
            human::count(u64::try_from(more).unwrap_or(u64::MAX))
        ));
    }
}

fn skipped_json(skipped: &[SkippedInput]) -> Value {
    skipped
        .iter()
        .map(|it| json!({"input": it.input, "kind": it.kind.as_str(), "reason": it.reason}))
        .collect()
}

fn to_json(report: &DicomBuildReport, path: &Path) -> Value {
    let side = |side: &iatrocache::adapters::dicom::GapSide| {
        json!({
            "sop_instance_uid": side.sop_instance_uid,
            "instance_number": side.instance_number,
            "position": side.position,
        })
    };
    let gaps: Vec<Value> = report
        .gaps
        .iter()
        .map(|gap| {
            json!({
                "study_uid": gap.study_uid,
                "series_uid": gap.series_uid,
                "stack": gap.stack,
                "expected_spacing": gap.expected_spacing,
                "before": side(&gap.before),
                "after": side(&gap.after),
            })
        })
        .collect();
    let malformed: Vec<Value> = report
        .malformed
        .iter()
        .map(|input| {
            let elements: Vec<Value> = input
                .elements
                .iter()
                .map(|element| json!({"path": element.path, "code": element.code}))
                .collect();
            json!({
                "input": input.input,
                "sop_instance_uid": input.sop_instance_uid,
                "elements": elements,
            })
        })
        .collect();
    let short: Vec<Value> = report
        .short_acquisitions
        .iter()
        .map(|it| json!({"study_uid": it.study_uid, "declared": it.declared, "found": it.found}))
        .collect();
    let diagnostics: Vec<Value> = report
        .diagnostics
        .iter()
        .map(|(code, count)| json!({"code": code, "count": count}))
        .collect();
    let frame_counts: Vec<Value> = report
        .frame_counts
        .iter()
        .map(|it| {
            json!({
                "input": it.input,
                "stated": it.stated,
                "found": it.found,
                "groups": it.groups,
            })
        })
        .collect();
    let mut told = json!({
        "path": shown(path),
        "instances": report.instances,
        "series": report.series,
        "images": report.images,
        "file_bytes": report.written.file_bytes,
        "diagnostics": diagnostics,
        "skipped": skipped_json(&report.skipped),
        "kept": skipped_json(&report.kept),
        "duplicates": report.duplicates,
        "malformed": malformed,
        "gaps": gaps,
        "short_acquisitions": short,
        "schema": report.schema_version,
        "frames": report.frames,
        "frame_counts": frame_counts,
    });
    if let (Some(report), Some(members)) = (&report.deidentification, told.as_object_mut()) {
        members.insert("deidentification".to_owned(), report.to_json());
    }
    told
}
