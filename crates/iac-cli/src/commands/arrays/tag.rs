//! Names of versions: `tag`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use iatrocache::arrays::blocking::{ArrayStore, Snapshot};
use serde_json::json;

use super::open;
use crate::cli::Common;
use crate::failure::Result;
use crate::interrupt;
use crate::output::Out;

/// Name a version, so that `gc` keeps it; without a name, list the names
///
/// Commands that take --at read a version by its name as well.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays tag study.arrays
  iac arrays tag study.arrays paper-2026
  iac arrays tag study.arrays before-cleanup --of 12
  iac arrays tag study.arrays paper-2026 --delete

With --json, one line for each name that was listed, given or taken away: {\"name\",\"version\"}; the
version of a name that was taken away is null when its file is damaged.")]
pub(super) struct TagArgs {
    /// The store
    store: PathBuf,
    /// The name: a letter, then letters, digits, `.`, `_` and `-`
    name: Option<String>,
    /// The version that gets the name [default: the newest]
    #[arg(long, value_name = "VERSION", requires = "name", conflicts_with = "delete")]
    of: Option<u64>,
    /// Take the name away; the version stays until `gc` finds it old
    #[arg(long, requires = "name")]
    delete: bool,
}

pub(super) fn tag(arguments: &TagArgs, common: &Common) -> Result<ExitCode> {
    let store = open(&arguments.store, common)?;
    let mut out = Out::new();
    let mut show = |name: &str, version: Option<u64>| -> Result<()> {
        match (common.json, version) {
            (true, _) => out.json(&json!({"name": name, "version": version})),
            (false, Some(version)) => out.line(&format!("{name}  version {version}")),
            (false, None) => out.line(name),
        }
    };
    match &arguments.name {
        None => {
            for (name, version) in store.tags()? {
                show(&name, Some(version))?;
            }
        }
        Some(name) if arguments.delete => {
            let writing = interrupt::writing()?;
            let version = store.open_tag(name).ok().map(|snapshot| snapshot.version());
            store.untag(name)?;
            drop(writing);
            if common.json {
                show(name, version)?;
            }
        }
        Some(name) => {
            let writing = interrupt::writing()?;
            let version = arguments.of.unwrap_or_else(|| store.snapshot().version());
            store.tag(name, version)?;
            drop(writing);
            show(name, Some(version))?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// A version as `--at` takes it: a number, or a name.
#[derive(Debug, Clone)]
pub(super) enum At {
    Version(u64),
    Tag(String),
}

impl std::str::FromStr for At {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Tag(text.to_owned()), Self::Version))
    }
}

impl At {
    /// Opens the version in a store.
    pub(super) fn open(&self, store: &ArrayStore) -> Result<Snapshot> {
        Ok(match self {
            Self::Version(version) => store.open_at(*version)?,
            Self::Tag(name) => store.open_tag(name)?,
        })
    }
}
