//! `iac pack`: makes packs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use iatrocache::WriteOptions;
use iatrocache::ops::raw::{RawPackOptions, RawPackSummary, pack_raw};
use serde_json::json;

use super::codec::CodecArg;
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
    #[cfg(feature = "dicom")]
    Dicom(super::pack_dicom::DicomArgs),
    #[cfg(feature = "tiles")]
    Tiles(super::pack_tiles::TilesArgs),
    #[cfg(feature = "features")]
    Features(super::pack_features::FeaturesArgs),
    #[cfg(feature = "text")]
    Text(super::pack_text::TextArgs),
    #[cfg(feature = "text")]
    TextPair(super::pack_text::TextPairArgs),
    #[cfg(feature = "wsi-import")]
    Wsi(super::pack_wsi::WsiArgs),
}

/// Pack files as they are, one record for each
///
/// With a codec for images (jxl, jpeg, jpeg2000, jpegls) the files are images (PNG, TIFF, JPEG,
/// .npy), and the records are their pixels; signed samples of 16 bits stay signed.
///
/// The index table has the columns `path` (relative, with `/`), `bytes` and `modified`; records are
/// sorted by path. Symbolic links are not followed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac pack raw notes/ -o notes.iac              the files of a folder
  iac pack raw cohort/ -o all.iac --recursive   and of the folders in it
  iac pack raw a.txt b.txt -o two.iac           some files
  iac pack raw notes/ -o notes.iac --codec zstd:level=9
  iac pack raw tiles/ -o tiles.iac --codec jxl:distance=0.5,effort=7
  iac pack raw slices/ -o ct.iac --codec jpegls

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

pub(crate) fn run(arguments: &PackArgs, common: &Common) -> Result<ExitCode> {
    match &arguments.source {
        Source::Raw(arguments) => raw(arguments, common),
        #[cfg(feature = "dicom")]
        Source::Dicom(arguments) => super::pack_dicom::run(arguments, common),
        #[cfg(feature = "tiles")]
        Source::Tiles(arguments) => super::pack_tiles::tiles(arguments, common),
        #[cfg(feature = "features")]
        Source::Features(arguments) => super::pack_features::features(arguments, common),
        #[cfg(feature = "text")]
        Source::Text(arguments) => super::pack_text::text(arguments, common),
        #[cfg(feature = "text")]
        Source::TextPair(arguments) => super::pack_text::text_pair(arguments, common),
        #[cfg(feature = "wsi-import")]
        Source::Wsi(arguments) => super::pack_wsi::run(arguments, common),
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
        if summary.files == 0 && !arguments.recursive {
            output::note("the pack is empty: --recursive takes the files of folders below");
        }
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
