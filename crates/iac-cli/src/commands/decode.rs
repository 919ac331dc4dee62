//! `iac decode`: records as their codec's output.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::ops::decode::{DecodeOptions, Decoder, decode};

use super::select::{Destination, Rows, Sink, check_rows};
use crate::cli::Common;
use crate::failure::{Failure, Relay, Result};
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Decode records
///
/// `raw` is the elements in little-endian order, row by row, one record after the other.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac decode notes.iac --rows 3 | less              look at record 3
  iac decode features.iac --rows 0..100 -o m.raw    100 rows of a matrix
  iac decode tiles.iac --rows 5,9 --dir out --json  out/5.raw, out/9.raw, and their shapes

With --json (needs -o or --dir), one line for each record:
  {\"row\",\"kind\",\"shape\",\"dtype\",\"bytes\",\"sha256\"}")]
pub(crate) struct DecodeArgs {
    /// The pack
    path: PathBuf,
    #[command(flatten)]
    rows: Rows,
    /// How decoded records are written
    #[arg(long, value_enum, default_value_t = Format::Raw)]
    format: Format,
    #[command(flatten)]
    to: Destination,
}

/// How decoded records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Little-endian elements, row-major
    Raw,
}

pub(crate) fn run(arguments: &DecodeArgs, common: &Common) -> Result<ExitCode> {
    let to = &arguments.to;
    if common.json && to.output.is_none() && to.dir.is_none() {
        return Err(Failure::usage(
            "--json describes records on standard output, so the records need -o or --dir",
        ));
    }
    let suffix = match arguments.format {
        Format::Raw => ".raw",
    };
    let pack = super::open(&arguments.path, common)?;
    let rows = &arguments.rows.rows;
    check_rows(&pack, rows)?;
    let mut options = DecodeOptions::default();
    options.workers = common.workers;
    // A codec that is missing is reported as that, not as a matter of terminals.
    Decoder::new(&pack, options.limits)?;
    let mut sink = Sink::open(to, rows, "decoded bytes", suffix)?;
    let mut described = common.json.then(Out::new);
    let progress = Shown::beside_list(common, Unit::Rows);
    let mut relay = Relay::default();
    let result = decode(&pack, Some(rows), &options, &progress, &mut |record| {
        let taken = sink.record(record.row, &record.bytes);
        let told = taken.and_then(|()| match &mut described {
            Some(out) => out.serialized(&record.describe()),
            None => Ok(()),
        });
        relay.pass(told)
    });
    relay.settle(result)?;
    sink.finish()?;
    if let Some(out) = described {
        out.finish()?;
    }
    Ok(ExitCode::SUCCESS)
}
