//! `iac merge`: several packs as one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::WriteOptions;
use iatrocache::ops::merge::{MergeOptions, merge};
use serde_json::json;

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Write the rows of several packs into a new one
///
/// The packs must be alike: same type, codec and columns. Slides that are the same in several packs
/// become one. Stored bytes are copied as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac merge a.tiles.iac b.tiles.iac -o both.tiles.iac

With --json, one object: {\"path\",\"packs\",\"rows\",\"slides\",\"file_bytes\"}.")]
pub(crate) struct MergeArgs {
    /// The packs
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The new pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace an existing pack
    #[arg(long)]
    overwrite: bool,
}

pub(crate) fn run(arguments: &MergeArgs, common: &Common) -> Result<ExitCode> {
    let packs = arguments.paths.iter().map(|path| super::open(path, common));
    let packs = packs.collect::<Result<Vec<_>>>()?;
    let mut options = MergeOptions::default();
    options.write = WriteOptions::new().overwrite(arguments.overwrite);
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = merge(&packs, &arguments.output, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.written.path),
            "packs": summary.packs,
            "rows": summary.rows,
            "slides": summary.slides,
            "file_bytes": summary.written.file_bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} of {} written into {} ({})",
            human::counted(summary.rows, "row"),
            human::counted(summary.packs, "pack"),
            human_safe(&shown(&summary.written.path)),
            human::bytes(summary.written.file_bytes),
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
