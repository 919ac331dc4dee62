//! `iac subset`: some rows of a pack as a pack of their own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use iatrocache::ops::rows::RowSelection;
use iatrocache::ops::subset::{SubsetOptions, subset};
use iatrocache::{TableKind, WriteOptions};
use serde_json::json;

use super::select::{rows_where, shown};
use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Write some rows of a pack into a new one
///
/// Stored bytes are copied as they are; header and columns stay. Of the slide table, those rows
/// stay that a selected row belongs to.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["condition", "rows"])), after_help = "\
Examples:
  iac subset cohort.tiles.iac --where \"split = 'val'\" -o val.tiles.iac
  iac subset cohort.tiles.iac --where \"slide.patient_id = 'p1'\" -o p1.tiles.iac
  iac subset notes.iac --rows 10..20 -o ten.iac

With --json, one object: {\"path\",\"rows\",\"of_rows\",\"slides\",\"file_bytes\"}.")]
pub(crate) struct SubsetArgs {
    /// The pack
    path: PathBuf,
    /// Rows for which a condition holds (see `iac ls --help`)
    #[arg(long = "where", value_name = "EXPR", id = "condition")]
    condition: Option<String>,
    /// Rows: 3, or 3,9,4, or 10..20 (without 20); counted from 0
    #[arg(long, value_name = "ROWS", allow_hyphen_values = true)]
    rows: Option<RowSelection>,
    /// The new pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Keep the whole slide table
    #[arg(long)]
    keep_slides: bool,
    /// Replace an existing pack
    #[arg(long)]
    overwrite: bool,
    /// Also write far more than the pack holds, where records overlap
    #[arg(long)]
    allow_expansion: bool,
}

pub(crate) fn run(arguments: &SubsetArgs, common: &Common) -> Result<ExitCode> {
    let pack = super::open(&arguments.path, common)?;
    let rows = match (&arguments.rows, &arguments.condition) {
        (Some(rows), _) => rows.clone(),
        (None, Some(text)) => rows_where(&pack, text, common)?,
        (None, None) => RowSelection::default(),
    };
    rows.check(pack.path(), TableKind::Index, pack.num_records()?)?;
    let mut options = SubsetOptions::default();
    options.keep_slides = arguments.keep_slides;
    options.write = WriteOptions::new().overwrite(arguments.overwrite);
    options.allow_expansion = arguments.allow_expansion;
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = subset(&pack, &rows, &arguments.output, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.written.path),
            "rows": summary.rows,
            "of_rows": summary.of_rows,
            "slides": summary.slides,
            "file_bytes": summary.written.file_bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} of {} written into {} ({})",
            human::count(summary.rows),
            human::counted(summary.of_rows, "row"),
            human_safe(&shown(&summary.written.path)),
            human::bytes(summary.written.file_bytes),
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
