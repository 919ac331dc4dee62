//! `iac decode`: records as their codec's output.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::bytes::Bytes;
use iatrocache::codec::Scale;
use iatrocache::ops::OpsError;
use iatrocache::ops::decode::{DecodeOptions, Decoded, Decoder, decode};

use super::select::{Destination, Rows, Sink, check_rows};
use crate::cli::Common;
use crate::failure::{Failure, Relay, Result};
use crate::human;
use crate::output::{self, Out};
use crate::progress::{Shown, Unit};

/// Decode records
///
/// `raw` is the elements in little-endian order, row by row, one record after the other. `png` and
/// `npy` are one file for each record; `json` is a line for each, numbers in one list.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac decode notes.iac --rows 3 | less              look at record 3
  iac decode features.iac --rows 0..100 -o m.raw    100 rows of a matrix
  iac decode tiles.iac --rows 5,9 --dir out --json  out/5.raw, out/9.raw, and their shapes
  iac decode tiles.iac --rows 5 --format png -o 5.png
  iac decode ct.iac --rows 0..40 --format npy --dir slices
  iac decode tiles.iac --rows 5 --format png --scale 4 -o small.png

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
    /// Make images smaller: one pixel for a square of N, which is 1, 2, 4, 8, 16 or 32
    #[arg(long, value_name = "N", default_value = "1", value_parser = scale)]
    scale: Scale,
    #[command(flatten)]
    to: Destination,
}

fn scale(text: &str) -> Result<Scale, String> {
    let scale = text.parse().ok().and_then(Scale::from_denominator);
    scale.ok_or_else(|| format!("`{text}` is none of 1, 2, 4, 8, 16 and 32"))
}

/// How decoded records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Little-endian elements, row-major
    Raw,
    /// NumPy file
    Npy,
    /// PNG file: images of uint8 and uint16 with 1 to 4 channels
    Png,
    /// JSON line: {"row","kind","shape","dtype","data"}, or "text" or "base64" for bytes
    Json,
}

impl Format {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Raw => ".raw",
            Self::Npy => ".npy",
            Self::Png => ".png",
            Self::Json => ".json",
        }
    }

    /// Refuses the name of a file that says another format of pictures or arrays.
    fn check_name(self, path: &Path) -> Result<()> {
        let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let ending = ending.to_ascii_lowercase();
        let says = match ending.as_str() {
            "png" => Some(Self::Png),
            "npy" => Some(Self::Npy),
            "jpg" | "jpeg" | "tif" | "tiff" | "webp" => None,
            _ => return Ok(()),
        };
        if says == Some(self) {
            return Ok(());
        }
        let what = self.suffix().trim_start_matches('.');
        let mut message = format!("{}: what is written is {what}", path.display());
        if says.is_some() {
            message.push_str(&format!(", unless you ask for --format {ending}"));
        }
        Err(Failure::usage(message))
    }

    /// What is written of a record.
    fn content(self, record: &Decoded, path: &Path) -> Result<Bytes, OpsError> {
        Ok(match self {
            Self::Raw => record.bytes.clone(),
            Self::Npy => record.to_npy().into(),
            Self::Png => record
                .to_png()
                .map_err(|source| OpsError::Picture {
                    path: path.to_owned(),
                    row: Some(record.row),
                    source: Box::new(source),
                })?
                .into(),
            Self::Json => {
                let mut line = record.to_json();
                line.push('\n');
                line.into()
            }
        })
    }
}

pub(crate) fn run(arguments: &DecodeArgs, common: &Common) -> Result<ExitCode> {
    let to = &arguments.to;
    if common.json && to.output.is_none() && to.dir.is_none() {
        return Err(Failure::usage(
            "--json describes records on standard output, so the records need -o or --dir",
        ));
    }
    let format = arguments.format;
    let is_single = matches!(format, Format::Npy | Format::Png);
    if is_single && to.dir.is_none() && arguments.rows.rows.len() > 1 {
        return Err(Failure::usage(format!(
            "one {} file holds one record, so several records need --dir",
            format.suffix()
        )));
    }
    if let Some(output) = &to.output {
        format.check_name(output)?;
    }
    let pack = super::open(&arguments.path, common)?;
    let rows = &arguments.rows.rows;
    check_rows(&pack, rows)?;
    let mut options = DecodeOptions::default();
    options.workers = common.workers;
    options.scale = arguments.scale;
    // A codec that is missing is reported as that, not as a matter of terminals.
    Decoder::new(&pack, options.limits)?;
    let what = if format == Format::Json { None } else { Some("decoded bytes") };
    let mut sink = Sink::open(&arguments.path, to, rows, what, format.suffix())?;
    let mut described = common.json.then(Out::new);
    let progress = Shown::beside_list(common, Unit::Rows);
    let mut relay = Relay::default();
    let result = decode(&pack, Some(rows), &options, &progress, &mut |record| {
        let content = format.content(&record, &arguments.path)?;
        let taken = sink.record(record.row, &content);
        let told = taken.and_then(|()| match &mut described {
            Some(out) => out.serialized(&record.describe()),
            None => Ok(()),
        });
        relay.pass(told)
    });
    let summary = relay.settle(result)?;
    sink.finish()?;
    if summary.without_record > 0 && !common.quiet {
        let rows = human::counted(summary.without_record, "row");
        output::note(&format!("{rows} left out, which store no record"));
    }
    if let Some(out) = described {
        out.finish()?;
    }
    Ok(ExitCode::SUCCESS)
}
