//! `iac recode`: the same records with another codec.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::ops::recode::{RecodeOptions, recode};
use iatrocache::{CodecSpec, WriteOptions};
use serde_json::{Value, json};

use super::codec::CodecArg;
use super::select::shown;
use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Write a pack's records into a new one with another codec
///
/// Tables and header stay, apart from what describes the codec. Every record is compared with its
/// checksum on the way. Packs of bytes take codecs for bytes, packs of images those for images.
///
/// `jxl:transcode` puts JPEG records into JPEG XL so that `jpeg:transcode` takes the same files out
/// again, bit by bit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac recode notes.iac --codec zstd:level=9 -o small.iac
  iac recode small.iac --codec none -o plain.iac
  iac recode ct.iac --codec jpegls -o ct-jls.iac
  iac recode slide.iac --codec jxl:lossless -o slide-jxl.iac
  iac recode jpegs.iac --codec jxl:transcode -o smaller.iac

With --json, one object: {\"path\",\"rows\",\"stored_bytes\",\"decoded_bytes\",\"file_bytes\"}.")]
pub(crate) struct RecodeArgs {
    /// The pack
    path: PathBuf,
    /// How records are encoded, as NAME or NAME:KEY=VALUE,KEY=VALUE
    #[arg(long, value_name = "CODEC")]
    codec: CodecArg,
    /// The new pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace an existing pack
    #[arg(long)]
    overwrite: bool,
}

/// The codec without the word that asks for transcoding.
fn transcoding(spec: &CodecSpec) -> (CodecSpec, bool) {
    match spec.parameters() {
        Ok(parameters) if parameters.get("transcode") == Some(&Value::Bool(true)) => {
            let mut parameters = parameters.clone();
            parameters.remove("transcode");
            (CodecSpec::new(spec.name(), parameters), true)
        }
        _ => (spec.clone(), false),
    }
}

pub(crate) fn run(arguments: &RecodeArgs, common: &Common) -> Result<ExitCode> {
    let mut options = RecodeOptions::default();
    (options.codec, options.transcode) = transcoding(&arguments.codec.0);
    options.write = WriteOptions::new().overwrite(arguments.overwrite);
    options.workers = common.workers;
    let pack = super::open(&arguments.path, common)?;
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = recode(&pack, &arguments.output, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.written.path),
            "rows": summary.rows,
            "stored_bytes": summary.stored_bytes,
            "decoded_bytes": summary.decoded_bytes,
            "file_bytes": summary.written.file_bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} recoded into {}: {} stored, {} before, {} decoded",
            human::counted(summary.rows, "record"),
            human_safe(&shown(&summary.written.path)),
            human::bytes(summary.written.data_bytes),
            human::bytes(summary.stored_bytes),
            human::bytes(summary.decoded_bytes),
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
