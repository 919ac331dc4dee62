//! `iac verify`: is every byte as it was written?

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use iatrocache::ErrorKind;
use iatrocache::ops::check::{CheckOptions, CheckSummary, PackCheck, check};
use serde_json::json;

use crate::cli::Common;
use crate::failure::{Relay, Result, exit_code, human_safe};
use crate::human;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Check packs: layout, tables, every checksum, the rules of their type, and that records decode
///
/// Lists every fault, not the first. A folder is searched for packs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac verify notes.iac                  every checksum, and 16 records decoded
  iac verify cohort/ --json             all packs in a folder, for scripts
  iac verify big.iac --sample 1000      a look at 1,000 records, spread over the file
  iac verify notes.iac --full           every record decoded

Exit code 1 when a pack is damaged, another one but 0 when it could not be checked. With --json, one
line for each fault
  {\"path\",\"check\",\"row\",\"field\",\"message\"}
and a last line {\"summary\":{\"packs\",\"rows\",\"faults\"}}, with \"notes\" where some things could not
be checked.")]
pub(crate) struct VerifyArgs {
    /// Packs, or folders that are searched for *.iac
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Compare the checksums of N records, spread over the file [default: all]
    #[arg(long, value_name = "N")]
    sample: Option<u64>,
    /// Decode N records, spread over the file, or `all`
    #[arg(long, value_name = "N", default_value = "16")]
    decode: HowMany,
    /// Compare and decode every record
    #[arg(long, conflicts_with_all = ["sample", "decode"])]
    full: bool,
    /// List at most K faults of one pack; the others are only counted
    #[arg(long, value_name = "K", default_value_t = 10_000)]
    max_errors: usize,
    /// What could not be checked counts as a fault
    #[arg(long)]
    strict: bool,
}

/// Most notes that the JSON summary lists.
const MOST_NOTES: usize = 1000;

/// A number of records, or all.
#[derive(Debug, Clone, Copy)]
struct HowMany(u64);

impl FromStr for HowMany {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(u64::MAX));
        }
        text.parse().map(Self).map_err(|_| "neither a number nor `all`".to_owned())
    }
}

pub(crate) fn run(arguments: &VerifyArgs, common: &Common) -> Result<ExitCode> {
    let mut options = CheckOptions::default();
    options.sample = arguments.sample;
    options.decode = if arguments.full { u64::MAX } else { arguments.decode.0 };
    options.max_faults = arguments.max_errors;
    options.strict = arguments.strict;
    options.workers = common.workers;
    options.schemas = iatrocache::adapters::validate::Schemas::all();
    let progress = Shown::beside_list(common, Unit::Bytes);
    let mut out = Out::new();
    let mut relay = Relay::default();
    let mut notes = Vec::new();
    let result = check(&arguments.paths, &options, &progress, &mut |pack| {
        let room = MOST_NOTES.saturating_sub(notes.len());
        let path = pack.path.to_string_lossy();
        notes.extend(
            pack.notes.iter().take(room).map(|note| json!({"path": path, "message": note})),
        );
        relay.pass(if common.json {
            pack.faults.iter().try_for_each(|fault| out.serialized(fault))
        } else {
            tell(&mut out, &pack, common.quiet, arguments.sample.is_some())
        })
    });
    let summary = relay.settle(result)?;
    if common.json {
        let mut last = json!({ "summary": summary });
        if !notes.is_empty()
            && let Some(members) = last.get_mut("summary").and_then(|found| found.as_object_mut())
        {
            members.insert("notes".to_owned(), notes.into());
        }
        out.json(&last)?;
    } else if summary.packs != 1 {
        out.line(&format!(
            "{}, {}, {}",
            human::counted(summary.packs, "pack"),
            human::counted(summary.rows, "row"),
            human::counted(summary.faults, "fault")
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::from(code(&summary)))
}

fn tell(out: &mut Out, pack: &PackCheck, quiet: bool, sampled: bool) -> Result<()> {
    let path = human_safe(&pack.path.to_string_lossy());
    let numbers = format!(
        "{}, {} compared with checksums, {} decoded",
        human::counted(pack.rows, "row"),
        human::count(pack.rows_compared),
        human::count(pack.rows_decoded)
    );
    if pack.is_sound() {
        // Of a sample nobody can say more.
        let ok = out.good(if sampled { "no fault found" } else { "sound" });
        out.line(&format!("{ok}  {path}: {numbers}"))?;
    } else {
        let faults = out.bad(&human::counted(pack.total_faults, "fault"));
        out.line(&format!("{faults}  {path}: {numbers}"))?;
    }
    for fault in &pack.faults {
        let text = at_row(fault.row, &fault.message);
        out.line(&format!("  {}: {text}", fault.check))?;
    }
    let listed = u64::try_from(pack.faults.len()).unwrap_or(u64::MAX);
    let hidden = pack.total_faults.saturating_sub(listed);
    if hidden > 0 {
        out.line(&format!("  and {} more (--max-errors lists more)", human::count(hidden)))?;
    }
    if !quiet {
        for note in &pack.notes {
            let note = out.dim(&format!("  note: {}", human_safe(note)));
            out.line(&note)?;
        }
    }
    Ok(())
}

/// What is wrong, with the row in front unless it is there already.
pub(super) fn at_row(row: Option<u64>, message: &str) -> String {
    let message = human_safe(message);
    match row.map(|row| format!("row {row}: ")) {
        Some(place) if !message.starts_with(&place) => place + &message,
        _ => message,
    }
}

/// Damage outweighs what could not be checked.
fn code(summary: &CheckSummary) -> u8 {
    if summary.faults == 0 {
        return 0;
    }
    let damaged = exit_code(ErrorKind::Damaged);
    let codes: Vec<u8> = summary.kinds.iter().copied().map(exit_code).collect();
    match codes.first() {
        Some(first) if !codes.contains(&damaged) => *first,
        _ => damaged,
    }
}
