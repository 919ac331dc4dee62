//! `iac validate`: the checks, lines and exit codes of the reference's validator.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use iatrocache::adapters::validate::{ValidateOptions, find_packs, validate_pack};
use serde_json::json;

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Report, Result, human_safe};
use crate::interrupt;
use crate::output::{self, Out};

/// Check packs as the reference's validator does, for scripts that call it
///
/// `iac verify` looks at more, lists every fault, and takes several paths.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac validate --input cohort.tiles.iac
  iac validate --input packs/ --fail-fast
  iac validate --input packs/ --max-decode 0     every image decoded

One line for each pack:
  package_valid type=image_tiles records=R codec=jxl decoded=D crc_checked=C
  package_valid type=teacher_features records=R teacher=NAME dim=N dtype=TYPE rows_checked=D
and, where there are several packs, the path in front and a last line
  validation_summary total=T ok=K failed=F

Exit code 1 when a pack is not valid, or there is none.")]
pub(crate) struct ValidateArgs {
    /// A pack, or a folder that is searched for *.iac
    #[arg(long, value_name = "PATH")]
    input: PathBuf,
    /// Decode at most N records of each pack; 0 stands for all
    #[arg(long, value_name = "N", default_value_t = 8)]
    max_decode: u64,
    /// Compare at most N records of each pack with their checksums; 0 stands for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_crc: u64,
    /// Stop at the first pack that is not valid
    #[arg(long)]
    fail_fast: bool,
}

/// Packs that the last line names.
const SAMPLE: usize = 5;

pub(crate) fn run(arguments: &ValidateArgs, common: &Common) -> Result<ExitCode> {
    let options =
        ValidateOptions::default().max_decode(arguments.max_decode).max_crc(arguments.max_crc);
    let packs = match find_packs(&arguments.input) {
        Ok(packs) => packs,
        Err(error) => return Ok(failed(&arguments.input, &error.to_string(), common)),
    };
    let mut out = Out::new();
    if let [only] = packs.as_slice() {
        return match validate_pack(only, &options) {
            Ok(valid) => {
                if common.json {
                    out.json(
                        &json!({"path": shown(only), "valid": true, "line": valid.to_string()}),
                    )?;
                } else {
                    out.line(&valid.to_string())?;
                }
                out.finish()?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Ok(failed(only, &error.to_string(), common)),
        };
    }
    let mut invalid = Vec::new();
    let mut valid = 0_u64;
    for path in &packs {
        interrupt::check()?;
        let name = shown(path);
        match validate_pack(path, &options) {
            Ok(found) if common.json => {
                valid = valid.saturating_add(1);
                out.json(&json!({"path": name, "valid": true, "line": found.to_string()}))?;
            }
            Ok(found) => {
                valid = valid.saturating_add(1);
                out.line(&format!("package_valid path={name} {found}"))?;
            }
            Err(error) => {
                let reason = error.reason();
                if common.json {
                    let kind = error.kind().as_str();
                    out.json(
                        &json!({"path": name, "valid": false, "kind": kind, "message": reason}),
                    )?;
                } else {
                    out.line(&format!(
                        "package_invalid path={name} error={}",
                        human_safe(&reason)
                    ))?;
                }
                invalid.push(format!("{name}: {reason}"));
                if arguments.fail_fast {
                    break;
                }
            }
        }
    }
    let failed = invalid.len();
    if common.json {
        let total = packs.len();
        out.json(&json!({"summary": {"total": total, "ok": valid, "failed": failed}}))?;
    } else {
        let total = packs.len();
        out.line(&format!("validation_summary total={total} ok={valid} failed={failed}"))?;
    }
    out.finish()?;
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let sample: Vec<String> =
        invalid.iter().take(SAMPLE).map(|reason| human_safe(reason)).collect();
    output::error_line(&format!("validation_failed count={failed} sample={}", sample.join("; ")));
    Ok(ExitCode::from(1))
}

/// Tells why there is nothing valid; whatever the reason, the code is 1.
fn failed(path: &Path, message: &str, common: &Common) -> ExitCode {
    let report = Report::new(iatrocache::ErrorKind::Schema, human_safe(message)).path(path);
    Failure::from(report).report(common.json)
}
