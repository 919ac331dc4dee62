//! Which rows a command works on, and where records go.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use iatrocache::ops::OpsError;
use iatrocache::ops::rows::RowSelection;
use iatrocache::ops::view::select_rows;
use iatrocache::{PackReader, Predicate, TableKind};

use crate::cli::Common;
use crate::failure::{Failure, Result};
use crate::interrupt::{self, Writing};
use crate::output::{self, Out};
use crate::place::{self, NewFile};

/// Rows that must be named.
#[derive(Debug, Args)]
pub(crate) struct Rows {
    /// Rows: 3, or 3,9,4, or 10..20 (without 20); counted from 0
    #[arg(long, value_name = "ROWS", allow_hyphen_values = true)]
    pub(crate) rows: RowSelection,
}

/// Where a command's bytes go.
#[derive(Debug, Args)]
pub(crate) struct Destination {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "dir")]
    pub(crate) output: Option<PathBuf>,
    /// Write one file for each record into this folder, named after the row
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// Takes records one by one to where they go.
pub(crate) enum Sink {
    Stdout(Out),
    File(NewFile, Writing),
    Folder {
        /// The pack that the records come from.
        pack: PathBuf,
        dir: PathBuf,
        suffix: &'static str,
        overwrite: bool,
        /// Rows that are there; asking for one twice makes one file.
        written: HashSet<u64>,
        writing: Writing,
    },
}

impl Sink {
    /// Opens a destination for the records of `rows` of the pack at `path`; `what` names bytes that a terminal does not
    /// get, absent for text.
    pub(crate) fn open(
        pack: &Path,
        to: &Destination,
        rows: &RowSelection,
        what: Option<&str>,
        suffix: &'static str,
    ) -> Result<Self> {
        if let Some(path) = &to.output {
            let writing = interrupt::writing()?;
            return Ok(Self::File(NewFile::create_from(pack, path, to.overwrite)?, writing));
        }
        if let Some(dir) = &to.dir {
            if !to.overwrite && dir.is_dir() {
                // All of them before the first one is written.
                for row in rows.iter() {
                    place::check_free(&file_in(dir, row, suffix))?;
                }
            }
            return Ok(Self::Folder {
                pack: pack.to_owned(),
                dir: dir.clone(),
                suffix,
                overwrite: to.overwrite,
                written: HashSet::new(),
                writing: interrupt::writing()?,
            });
        }
        Ok(Self::Stdout(match what {
            Some(what) => Out::binary(what, "name a file with -o, or pipe the output")?,
            None => Out::new(),
        }))
    }

    /// Takes one record.
    pub(crate) fn record(&mut self, row: u64, bytes: &[u8]) -> Result<()> {
        interrupt::check()?;
        match self {
            Self::Stdout(out) => out.bytes(bytes),
            Self::File(file, _) => file.write(bytes),
            Self::Folder { pack, dir, suffix, overwrite, written, .. } => {
                if !written.insert(row) {
                    return Ok(());
                }
                let place = file_in(dir, row, suffix);
                let mut file = NewFile::create_from(pack, &place, *overwrite)?;
                file.write(bytes)?;
                file.publish_unsynced()
            }
        }
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Stdout(out) => out.finish(),
            Self::File(file, writing) => {
                file.publish()?;
                drop(writing);
                Ok(())
            }
            Self::Folder { writing, .. } => {
                drop(writing);
                Ok(())
            }
        }
    }
}

fn file_in(dir: &Path, row: u64, suffix: &str) -> PathBuf {
    dir.join(format!("{row}{suffix}"))
}

/// Reads a row condition; where it is wrong, the hint points at the place.
pub(crate) fn predicate(text: &str) -> Result<Predicate> {
    Predicate::parse(text).map_err(|error| {
        let caret = error.caret(text).unwrap_or_default();
        Failure::from(OpsError::from(error)).with_hint(caret)
    })
}

/// The rows for which a condition holds. None is seldom meant, so people are told.
pub(crate) fn rows_where(pack: &PackReader, text: &str, common: &Common) -> Result<RowSelection> {
    let condition = predicate(text)?;
    let rows = select_rows(pack, &condition).map_err(|error| with_caret(error, text))?;
    if rows.is_empty() && !common.quiet && !common.json {
        output::note("the condition holds for no row");
    }
    Ok(rows)
}

/// An error about a condition, with a pointer to the place.
pub(crate) fn with_caret(error: OpsError, text: &str) -> Failure {
    let caret = match &error {
        OpsError::Predicate(inner) => inner.caret(text),
        _ => None,
    };
    let failure = Failure::from(error);
    match caret {
        Some(caret) => failure.with_hint(caret),
        None => failure,
    }
}

/// Checks rows against the index table before anything is opened for writing.
pub(crate) fn check_rows(pack: &PackReader, rows: &RowSelection) -> Result<()> {
    let known = pack.num_records()?;
    Ok(rows.check(pack.path(), TableKind::Index, known)?)
}

/// A path as JSON and messages show it.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
