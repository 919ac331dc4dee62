//! The commands, one module each.

#[cfg(feature = "arrays")]
pub(crate) mod arrays;
pub(crate) mod bench;
pub(crate) mod cat;
mod codec;
pub(crate) mod completions;
#[cfg(feature = "object-store")]
pub(crate) mod cp;
pub(crate) mod decode;
#[cfg(feature = "dicom")]
pub(crate) mod deid;
pub(crate) mod demo;
#[cfg(feature = "dicom")]
pub(crate) mod dicom;
#[cfg(feature = "dicom")]
mod dicom_frames;
#[cfg(feature = "dicom")]
mod dicom_volume;
pub(crate) mod digest;
pub(crate) mod extract;
pub(crate) mod info;
pub(crate) mod ls;
pub(crate) mod merge;
pub(crate) mod montage;
pub(crate) mod pack;
#[cfg(feature = "dicom")]
mod pack_dicom;
#[cfg(feature = "features")]
mod pack_features;
#[cfg(feature = "text")]
pub(crate) mod pack_text;
#[cfg(feature = "tiles")]
mod pack_tiles;
#[cfg(feature = "wsi-import")]
mod pack_wsi;
pub(crate) mod recode;
pub(crate) mod salvage;
mod select;
pub(crate) mod stats;
pub(crate) mod subset;
#[cfg(feature = "text")]
pub(crate) mod text;
#[cfg(feature = "text-search")]
pub(crate) mod text_search;
pub(crate) mod validate;
pub(crate) mod verify;
#[cfg(feature = "wsi")]
pub(crate) mod wsi;
#[cfg(feature = "wsi")]
mod wsi_export;

use std::path::Path;
use std::process::ExitCode;

use iatrocache::{PackReader, ReadOptions};

use crate::cli::{Cli, Command, Common};
use crate::failure::Result;

/// Runs the command that was asked for.
pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let common = &cli.common;
    match &cli.command {
        Command::Info(arguments) => info::run(arguments, common),
        Command::Ls(arguments) => ls::run(arguments, common),
        Command::Cat(arguments) => cat::run(arguments, common),
        Command::Decode(arguments) => decode::run(arguments, common),
        Command::Digest(arguments) => digest::run(arguments, common),
        Command::Stats(arguments) => stats::run(arguments, common),
        Command::Verify(arguments) => verify::run(arguments, common),
        Command::Validate(arguments) => validate::run(arguments, common),
        Command::Salvage(arguments) => salvage::run(arguments, common),
        Command::Pack(arguments) => pack::run(arguments, common),
        Command::Recode(arguments) => recode::run(arguments, common),
        Command::Subset(arguments) => subset::run(arguments, common),
        #[cfg(feature = "object-store")]
        Command::Cp(arguments) => cp::run(arguments, common),
        Command::Merge(arguments) => merge::run(arguments, common),
        Command::Montage(arguments) => montage::run(arguments, common),
        Command::Extract(arguments) => extract::run(arguments, common),
        Command::Bench(arguments) => bench::run(arguments, common),
        #[cfg(feature = "text")]
        Command::Text(arguments) => text::run(arguments, common),
        #[cfg(feature = "dicom")]
        Command::Dicom(arguments) => dicom::run(arguments, common),
        #[cfg(feature = "wsi")]
        Command::Wsi(arguments) => wsi::run(arguments, common),
        #[cfg(feature = "arrays")]
        Command::Arrays(arguments) => arrays::run(arguments, common),
        Command::Demo(arguments) => demo::run(arguments, common),
        Command::Completions(arguments) => completions::run(arguments),
    }
}

/// A pack of which nothing is kept that was read, so that reading again asks its source again.
fn open_without_cache(path: &Path, common: &Common) -> Result<PackReader> {
    #[cfg(not(feature = "object-store"))]
    refuse_url(path)?;
    Ok(PackReader::open_with(path, &read_options(common).object_cache(0))?)
}

/// How packs are opened.
fn read_options(common: &Common) -> ReadOptions {
    ReadOptions::default()
        .workers(common.workers)
        .object_cache(iatrocache::ops::check::OBJECT_CACHE)
}

fn open(path: &Path, common: &Common) -> Result<PackReader> {
    #[cfg(not(feature = "object-store"))]
    refuse_url(path)?;
    Ok(PackReader::open_with(path, &read_options(common))?)
}

/// A URL would only be a file that is not there.
#[cfg(not(feature = "object-store"))]
fn refuse_url(path: &Path) -> Result<()> {
    use iatrocache::ErrorKind;

    let scheme = path.to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    let known = ["s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https", "file"];
    if scheme.is_some_and(|scheme| known.contains(&scheme)) {
        let message =
            format!("{}: this build reads no URLs (feature `object-store`)", path.display());
        let report = crate::failure::Report::new(ErrorKind::MissingFeature, message);
        return Err(report.path(path).into());
    }
    Ok(())
}
