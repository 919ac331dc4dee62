//! `iac extract`: records as files.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::ops::extract::{ExtractFormat, ExtractOptions, extract};
use iatrocache::ops::rows::RowSelection;
use iatrocache::{ErrorKind, PackReader};
use serde_json::json;

use super::select::{rows_where, shown};
use crate::cli::Common;
use crate::failure::{Failure, Relay, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::progress::{Shown, Unit};

/// Write records as files into a folder
///
/// Files are named after the records' paths or ids; characters that are not safe in file names are
/// replaced, and nothing is ever written outside of the folder. Clinical text becomes a folder for
/// each patient, with a file for each text.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac extract notes.iac --dir notes
  iac extract notes.iac --dir some --rows 0..10
  iac extract tiles.iac --dir tiles --format png
  iac extract notes.iac --dir big --where \"bytes > 1000000 and path like '%.txt'\"

With --json, one line for each file {\"row\",\"file\",\"bytes\"}, with \"original_name\" where the
file could not be named so, and a last line {\"summary\":{\"dir\",\"files\",\"bytes\",\"renamed\"}}.
Of clinical text, one line for each patient {\"row\",\"dir\",\"patient_id\",\"institution\",\"docs\":
[{labels, \"files\",\"bytes\"}]}; `iac text export` writes patients with their texts.")]
pub(crate) struct ExtractArgs {
    /// The pack
    path: PathBuf,
    /// The folder; made when it is missing
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Rows: 3, or 3,9,4, or 10..20 (without 20); counted from 0 [default: all]
    #[arg(long, value_name = "ROWS", allow_hyphen_values = true, conflicts_with = "condition")]
    rows: Option<RowSelection>,
    /// Rows for which a condition holds (see `iac ls --help`)
    #[arg(long = "where", value_name = "EXPR", id = "condition")]
    condition: Option<String>,
    /// How records are written
    #[arg(long, value_enum, default_value_t = Format::Native)]
    format: Format,
    /// Index column that names the files [default: path, or the record's id, or the row]
    #[arg(long, value_name = "COLUMN")]
    name_column: Option<String>,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
    /// Also write far more than the pack holds, where records overlap
    #[arg(long)]
    allow_expansion: bool,
}

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Bytes as they were before they were packed, images as the stream that is stored
    Native,
    /// PNG files: images of uint8 and uint16 with 1 to 4 channels
    Png,
    /// NumPy files
    Npy,
}

pub(crate) fn run(arguments: &ExtractArgs, common: &Common) -> Result<ExitCode> {
    let pack = super::open(&arguments.path, common)?;
    let rows = match (&arguments.rows, &arguments.condition) {
        (Some(rows), _) => Some(rows.clone()),
        (None, Some(text)) => Some(rows_where(&pack, text, common)?),
        (None, None) => None,
    };
    #[cfg(feature = "text")]
    if matches!(arguments.format, Format::Native) && arguments.name_column.is_none() {
        let to = (arguments.dir.as_path(), arguments.overwrite);
        if let Some(code) = super::text::extract(&pack, rows.as_ref(), to, common)? {
            return Ok(code);
        }
    }
    let mut options = ExtractOptions::default();
    options.format = match arguments.format {
        Format::Native => ExtractFormat::Native,
        Format::Png => ExtractFormat::Png,
        Format::Npy => ExtractFormat::Npy,
    };
    options.name_column = arguments.name_column.clone();
    options.overwrite = arguments.overwrite;
    options.allow_expansion = arguments.allow_expansion;
    options.workers = common.workers;
    let progress = Shown::beside_list(common, Unit::Rows);
    let mut out = Out::new();
    let mut relay = Relay::default();
    let writing = interrupt::writing()?;
    let result = extract(&pack, rows.as_ref(), &arguments.dir, &options, &progress, &mut |file| {
        if common.json {
            return relay.pass(out.serialized(&file));
        }
        if let Some(original) = &file.original_name
            && !common.quiet
        {
            output::note(&format!(
                "row {}: {} was written as {}",
                file.row,
                human_safe(original),
                human_safe(&file.file)
            ));
        }
        Ok(())
    });
    let summary = relay.settle(result).map_err(|failure| of_objects(&pack, failure))?;
    drop(writing);
    if common.json {
        out.json(&json!({ "summary": {
            "dir": shown(&summary.dir),
            "files": summary.files,
            "bytes": summary.bytes,
            "renamed": summary.renamed,
        } }))?;
    } else {
        out.line(&format!(
            "{}, {} in {}",
            human::counted(summary.files, "file"),
            human::bytes(summary.bytes),
            human_safe(&shown(&summary.dir))
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Objects of DICOM packs have a command of their own.
fn of_objects(pack: &PackReader, failure: Failure) -> Failure {
    let is_usage = matches!(failure.kind(), Some(ErrorKind::Usage));
    if is_usage && pack.header().payload_type() == Some("dicom_patient") {
        return failure.with_hint("`iac dicom export` writes the objects of such a pack");
    }
    failure
}
