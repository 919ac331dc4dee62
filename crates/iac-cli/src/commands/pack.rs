//! `iac pack`: makes packs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Subcommand};
use iatrocache::ops::raw::{RawPackOptions, RawPackSummary, pack_raw};
use iatrocache::serde_json::Value;
use iatrocache::{CodecSpec, WriteOptions};
use serde_json::json;

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::progress::{Shown, Unit};

/// Make a pack
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac pack raw notes/ -o notes.iac")]
pub(crate) struct PackArgs {
    #[command(subcommand)]
    source: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    Raw(RawArgs),
}

/// Pack files as they are, one record for each
///
/// The index table has the columns `path` (relative, with `/`), `bytes` and `modified`; records are
/// sorted by path. Symbolic links are not followed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac pack raw notes/ -o notes.iac              the files of a folder
  iac pack raw cohort/ -o all.iac --recursive   and of the folders in it
  iac pack raw a.txt b.txt -o two.iac           some files

With --json, one object: {\"path\",\"files\",\"source_bytes\",\"file_bytes\",\"skipped\"}.")]
struct RawArgs {
    /// Files, and folders of files
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// The pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// How records are encoded, as NAME or NAME:KEY=VALUE,KEY=VALUE
    #[arg(long, value_name = "CODEC", default_value = "none")]
    codec: CodecArg,
    /// Also the files of folders below the named ones
    #[arg(long, short)]
    recursive: bool,
    /// Replace an existing pack
    #[arg(long)]
    overwrite: bool,
}

/// A codec with its parameters.
#[derive(Debug, Clone)]
struct CodecArg(CodecSpec);

impl FromStr for CodecArg {
    type Err = String;

    /// Values that are JSON keep their type; all others are text.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if name.is_empty() {
            return Err("the name of the codec is missing".to_owned());
        }
        let mut parameters = iatrocache::codec::Parameters::new();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| format!("`{part}` is not KEY=VALUE"))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            if parameters.insert(key.to_owned(), value).is_some() {
                return Err(format!("`{key}` is given twice"));
            }
        }
        Ok(Self(CodecSpec::new(name, parameters)))
    }
}

pub(crate) fn run(arguments: &PackArgs, common: &Common) -> Result<ExitCode> {
    match &arguments.source {
        Source::Raw(arguments) => raw(arguments, common),
    }
}

fn raw(arguments: &RawArgs, common: &Common) -> Result<ExitCode> {
    let mut options = RawPackOptions::default();
    options.recursive = arguments.recursive;
    options.codec = arguments.codec.0.clone();
    options.write = WriteOptions::new().overwrite(arguments.overwrite);
    options.workers = common.workers;
    let progress = Shown::new(common, Unit::Bytes);
    let writing = interrupt::writing()?;
    let summary = pack_raw(&arguments.sources, &arguments.output, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.written.path),
            "files": summary.files,
            "source_bytes": summary.source_bytes,
            "file_bytes": summary.written.file_bytes,
            "skipped": summary.total_skipped,
        }))?;
    } else {
        out.line(&format!(
            "{} of {} packed into {} ({})",
            human::counted(summary.files, "file"),
            human::bytes(summary.source_bytes),
            human_safe(&shown(&summary.written.path)),
            human::bytes(summary.written.file_bytes)
        ))?;
    }
    out.finish()?;
    if !common.quiet {
        tell_skipped(&summary);
    }
    Ok(ExitCode::SUCCESS)
}

fn tell_skipped(summary: &RawPackSummary) {
    const TOLD: usize = 20;
    for skipped in summary.skipped.iter().take(TOLD) {
        output::note(&format!(
            "{} was left out: {}",
            human_safe(&shown(&skipped.path)),
            skipped.reason
        ));
    }
    let told = u64::try_from(summary.skipped.len().min(TOLD)).unwrap_or(u64::MAX);
    let rest = summary.total_skipped.saturating_sub(told);
    if rest > 0 {
        output::note(&format!("{} more were left out", human::count(rest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_values_keep_their_types() {
        let CodecArg(spec) = "zstd:level=3,dict=abc,flag=true".parse().unwrap();
        let parameters = spec.parameters().unwrap();
        assert_eq!(spec.name(), "zstd");
        assert_eq!(parameters.get("level"), Some(&json!(3)));
        assert_eq!(parameters.get("dict"), Some(&json!("abc")));
        assert_eq!(parameters.get("flag"), Some(&json!(true)));
    }

    #[test]
    fn odd_codec_texts_are_refused() {
        for text in ["", ":a=1", "zstd:level", "zstd:=3", "zstd:a=1,a=2"] {
            assert!(text.parse::<CodecArg>().is_err(), "{text}");
        }
    }
}
