//! `iac salvage`: what is sound in a damaged pack, as a new pack.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::ops::salvage::{Action, SalvageOptions, salvage};
use iatrocache::{ErrorKind, WriteOptions};

use super::verify::at_row;
use crate::cli::Common;
use crate::failure::{Failure, Result, exit_code, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::place::{NewFile, same_place};
use crate::progress::{Shown, Unit};

/// Copy every sound record of a damaged pack into a new one
///
/// The damaged pack stays as it is. The exit code is 1 when anything was wrong with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac salvage broken.iac -o saved.iac
  iac salvage broken.iac -o saved.iac --report lost.jsonl

The report (--report, or standard output with --json) has one line for each fault
  {\"path\",\"check\",\"row\",\"field\",\"message\",\"action\":\"dropped\"|\"kept\"}
and a last line with a summary.")]
pub(crate) struct SalvageArgs {
    /// The damaged pack
    path: PathBuf,
    /// The new pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Write what was lost, and why, to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
    /// Also write far more than the pack holds, where records overlap
    #[arg(long)]
    allow_expansion: bool,
}

pub(crate) fn run(arguments: &SalvageArgs, common: &Common) -> Result<ExitCode> {
    if let Some(report) = &arguments.report {
        for (other, what) in [(&arguments.path, "damaged pack"), (&arguments.output, "new pack")] {
            if same_place(report, other) {
                return Err(Failure::usage(format!(
                    "{}: the report cannot go where the {what} is",
                    report.display()
                )));
            }
        }
    }
    let writing = interrupt::writing()?;
    let report_file = match &arguments.report {
        Some(path) => Some(NewFile::create(path, arguments.overwrite)?),
        None => None,
    };
    let mut options = SalvageOptions::default();
    options.allow_expansion = arguments.allow_expansion;
    options.write = WriteOptions::new().overwrite(arguments.overwrite);
    let progress = Shown::new(common, Unit::Rows);
    let report = salvage(&arguments.path, &arguments.output, &options, &progress)?;
    if let Some(mut file) = report_file {
        file.write(report.to_json_lines().as_bytes())?;
        file.publish()?;
    }
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.bytes(report.to_json_lines().as_bytes())?;
    } else {
        out.line(&format!(
            "{} of {} saved to {}",
            human::count(report.kept),
            human::counted(report.rows, "record"),
            human_safe(&arguments.output.to_string_lossy())
        ))?;
        for line in &report.lines {
            let action = match line.action {
                Action::Kept => "kept",
                _ => "dropped",
            };
            let text = at_row(line.row, &line.message);
            out.line(&format!("  {action}: {}: {text}", line.check))?;
        }
    }
    out.finish()?;
    if !common.quiet {
        for note in &report.notes {
            output::note(&human_safe(note));
        }
    }
    Ok(if report.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit_code(ErrorKind::Damaged))
    })
}
