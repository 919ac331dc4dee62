//! De-identification: options of `iac pack dicom`, and `iac dicom deid-check`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use iatrocache::adapters::dicom::{DeidCheck, DeidKey, DeidProfile, DeidReport, Deidentifier};
use serde_json::json;

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::output::{self, Out};

/// Findings and objects that are printed for people.
const TOLD: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct DeidArgs {
    /// Take from objects what identifies patients, as a profile says
    #[arg(long, value_name = "PROFILE.toml")]
    deidentify: Option<PathBuf>,
    /// The file with the key [default: what the profile names, else the variable IAC_DEID_KEY]
    #[arg(long, value_name = "FILE", requires = "deidentify")]
    deid_key: Option<PathBuf>,
    /// Write which pseudonym stands for whom: a file for you alone, never part of a pack
    #[arg(long, value_name = "FILE", requires = "deidentify")]
    pseudonym_map: Option<PathBuf>,
}

pub(crate) fn deidentifier(arguments: &DeidArgs) -> Result<Option<Arc<Deidentifier>>> {
    let Some(path) = &arguments.deidentify else {
        return Ok(None);
    };
    let profile = DeidProfile::from_file(path)?;
    let key = match &arguments.deid_key {
        Some(file) => DeidKey::from_file(file)?,
        None => profile
            .key_source()
            .read()
            .map_err(|error| Failure::from(error).with_hint("--deid-key FILE names another key"))?,
    };
    let mut deidentifier = Deidentifier::new(profile, key);
    if let Some(map) = &arguments.pseudonym_map {
        if map.symlink_metadata().is_ok() {
            // Said before all the work, not behind it.
            return Err(Failure::usage(format!("{} exists already", shown(map))));
        }
        deidentifier = deidentifier.recording();
    }
    Ok(Some(Arc::new(deidentifier)))
}

/// The name of a patient's pack.
pub(crate) fn pack_name(deidentifier: Option<&Deidentifier>, group: String) -> String {
    deidentifier.map_or_else(|| group.clone(), |it| it.pack_name(&group))
}

pub(crate) fn write_map(arguments: &DeidArgs, deidentifier: &Deidentifier) -> Result<()> {
    if let Some(map) = &arguments.pseudonym_map {
        deidentifier.write_map(map)?;
    }
    Ok(())
}

/// What was done, for people.
pub(crate) fn tell(report: &DeidReport) {
    let totals: Vec<String> = report
        .totals()
        .into_iter()
        .map(|(action, count)| format!("{} {}", human::count(count), action.name()))
        .collect();
    output::note(&format!("de-identified: elements {}", totals.join(", ")));
    if report.without_patient_id > 0 {
        output::note(&format!(
            "{} without a patient id",
            human::counted(report.without_patient_id, "object")
        ));
    }
    for (input, reasons) in report.burned_in.iter().take(TOLD) {
        let reasons: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
        output::note(&format!(
            "{}: text may be burned into the pixels ({})",
            human_safe(input),
            reasons.join(", ")
        ));
    }
    if let Some(more) = report.burned_in.len().checked_sub(TOLD).filter(|more| *more > 0) {
        output::note(&format!(
            "{} more like these",
            human::count(u64::try_from(more).unwrap_or(u64::MAX))
        ));
    }
}

/// Check that a pack holds nothing that identifies patients
///
/// Data sets, file meta, what is kept beside them, tables and header are looked at, by the rules
/// that the header states or those of a profile. Samples of images are not looked at. The exit code
/// is 1 when something was found.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac dicom deid-check patient.rad.iac
  iac dicom deid-check patient.rad.iac --profile trial.toml

With --json, one line for each finding {\"row\",\"place\",\"code\"}, without values, and the last one
{\"summary\":{\"path\",\"objects\",\"findings\",\"clean\"}}.")]
pub(crate) struct CheckArgs {
    /// The pack
    path: PathBuf,
    /// The rules [default: what the header states, else the basic profile]
    #[arg(long, value_name = "PROFILE.toml")]
    profile: Option<PathBuf>,
}

pub(crate) fn check(arguments: &CheckArgs, common: &Common) -> Result<ExitCode> {
    let profile = arguments.profile.as_ref().map(DeidProfile::from_file).transpose()?;
    let pack = super::dicom::open(&arguments.path, common)?;
    let found = DeidCheck::run(&pack, profile.as_ref())?;
    let mut out = Out::new();
    if common.json {
        for finding in &found.findings {
            out.json(&json!({"row": finding.row, "place": finding.place, "code": finding.code}))?;
        }
        out.json(&json!({"summary": {
            "path": shown(&arguments.path),
            "objects": found.objects,
            "findings": found.total,
            "clean": found.is_clean(),
        }}))?;
    } else {
        for finding in &found.findings {
            let row = finding.row.map_or_else(|| "-".to_owned(), |row| row.to_string());
            out.line(&format!("{row}  {}  {}", human_safe(&finding.place), finding.code))?;
        }
        out.line(&format!(
            "{}: {} looked at, {}",
            human_safe(&shown(&arguments.path)),
            human::counted(found.objects, "object"),
            if found.is_clean() {
                "nothing found".to_owned()
            } else {
                human::counted(found.total, "finding")
            }
        ))?;
    }
    out.finish()?;
    Ok(if found.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
