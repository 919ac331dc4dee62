//! `iac cp`: packs between files and object stores.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use iatrocache::ErrorKind;
use iatrocache::ops::object::{CopyOptions, copy};
use iatrocache::reader::object::{ObjectLocation, StoreOptions};
use serde_json::json;

use crate::cli::Common;
use crate::failure::{Report, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Copy a pack between files and object stores, verified
///
/// Every checksum of the pack is compared on the way, and the copy is read back. It appears when it
/// is complete, and replaces nothing unless that is asked for. Places are paths or URLs: s3://,
/// gs://, az://, http(s)://, file://. Credentials come from the environment (AWS_ACCESS_KEY_ID, ...,
/// GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_NAME, ...).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac cp slide.tiles.iac s3://cohort/tiles/
  iac cp s3://cohort/tiles/slide.tiles.iac gs://backup/slide.tiles.iac
  iac cp https://example.org/notes.iac notes.iac

With --json, one object: {\"from\",\"to\",\"bytes\",\"rows\",\"sha256\"}.")]
pub(crate) struct CpArgs {
    /// The pack
    from: String,
    /// Where the copy goes; what ends in / gets the pack's name added
    to: String,
    /// Replace what is there
    #[arg(long)]
    overwrite: bool,
    /// Copy what is damaged, or no pack at all
    #[arg(long)]
    unchecked: bool,
    /// Do not read the copy back
    #[arg(long)]
    no_read_back: bool,
}

pub(crate) fn run(arguments: &CpArgs, common: &Common) -> Result<ExitCode> {
    let to = destination(&arguments.from, &arguments.to);
    let (from, to) = (place(&arguments.from)?, place(&to)?);
    let mut options = CopyOptions::default();
    options.unchecked = arguments.unchecked;
    options.publish.overwrite = arguments.overwrite;
    options.publish.verify = !arguments.no_read_back;
    let progress = Shown::new(common, Unit::Bytes);
    let writing = interrupt::writing()?;
    let copied = copy(&from, &to, &options, &progress)?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "from": from.name(),
            "to": to.name(),
            "bytes": copied.bytes,
            "rows": copied.rows,
            "sha256": copied.sha256,
        }))?;
    } else {
        let what = match copied.rows {
            Some(rows) => human::counted(rows, "record"),
            None => "no sound pack".to_owned(),
        };
        out.line(&format!(
            "{} copied to {}: {what}, SHA-256 {}",
            human::bytes(copied.bytes),
            human_safe(to.name()),
            copied.sha256
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// A path or a URL.
fn place(text: &str) -> Result<ObjectLocation> {
    if !text.contains("://") {
        return Ok(ObjectLocation::local(text));
    }
    ObjectLocation::parse(text, &StoreOptions::default())
        .map_err(|error| Report::new(ErrorKind::Usage, human_safe(&error.to_string())).into())
}

/// The destination with the name of the pack, where it is a folder.
fn destination(from: &str, to: &str) -> String {
    let name = from.split('?').next().and_then(|from| from.rsplit('/').next()).unwrap_or(from);
    if to.ends_with('/') {
        format!("{to}{name}")
    } else if !to.contains("://") && Path::new(to).is_dir() {
        format!("{to}/{name}")
    } else {
        to.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gets_the_name_of_the_pack() {
        for (from, to, expected) in [
            ("a/b.iac", "s3://bucket/", "s3://bucket/b.iac"),
            ("b.iac", "s3://bucket/c.iac", "s3://bucket/c.iac"),
            ("https://host/x/b.iac?key=1/2", "gs://bucket/x/", "gs://bucket/x/b.iac"),
            ("s3://bucket/b.iac", "/", "/b.iac"),
            ("s3://bucket/b.iac", "c.iac", "c.iac"),
        ] {
            assert_eq!(destination(from, to), expected);
        }
    }
}
