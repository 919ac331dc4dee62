//! `iac cat`: stored bytes of records.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::ops::Progress;

use super::select::{Destination, Rows, Sink, check_rows};
use crate::cli::Common;
use crate::failure::Result;
use crate::progress::{Shown, Unit};

/// Write the stored bytes of records, as they are in the pack
///
/// Every record is compared with its checksum. What was encoded stays so; `iac decode` undoes it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac cat notes.iac --rows 3 | less       look at record 3
  iac cat tiles.iac --rows 0..10 --dir t  one file for each: t/0.bin, t/1.bin, ...
  iac cat slide.iac --rows 7 -o tile.jpg  the bytes as a file")]
pub(crate) struct CatArgs {
    /// The pack
    path: PathBuf,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    to: Destination,
}

pub(crate) fn run(arguments: &CatArgs, common: &Common) -> Result<ExitCode> {
    let pack = super::open(&arguments.path, common)?;
    let rows = &arguments.rows.rows;
    check_rows(&pack, rows)?;
    if let Some(first) = rows.iter().next() {
        // A pack without records is reported as that, not as a matter of terminals.
        pack.span(first)?;
    }
    let mut sink = Sink::open(&arguments.path, &arguments.to, rows, Some("stored bytes"), ".bin")?;
    let progress = Shown::beside_list(common, Unit::Rows);
    progress.begin("reading", Some(rows.len()));
    for row in rows.iter() {
        sink.record(row, &pack.read(row)?)?;
        progress.advance(1);
    }
    progress.finish();
    sink.finish()?;
    Ok(ExitCode::SUCCESS)
}
