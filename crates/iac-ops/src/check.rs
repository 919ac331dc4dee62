//! Verifies packs, one or many, and lists every fault.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iac_codec::Limits;
use iac_format::ErrorKind;
use iac_reader::{PackKind, PackReader, ReadOptions, VerifyOptions};
use serde::Serialize;

use crate::decode::{Decoder, stored_bytes};
use crate::error::{OpsError, Result};
use crate::ordered::{Bounds, for_each_ordered};
use crate::progress::{NoProgress, Progress, Task, check_cancelled};
use crate::schema::{SchemaCheck, SchemaFault};
use crate::walk::walk;

/// Bytes of records that are decoded at once, unless one record has more.
const DECODE_BYTES: u64 = 64 << 20;
/// Bytes that checks of packs in object stores keep of them.
pub const OBJECT_CACHE: u64 = 64 << 20;

/// What is checked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckOptions {
    /// Compare the checksums of only so many records, spread over the file; default (`None`) all.
    pub sample: Option<u64>,
    /// Decode so many records, spread over the file; default 16. `u64::MAX`: all.
    pub decode: u64,
    /// Most faults that are listed for one pack; the others are only counted. Default 10,000.
    pub max_faults: usize,
    /// Notes (what could not be checked) count as faults; default `false`.
    pub strict: bool,
    /// Most threads; default (`None`) all cores.
    pub workers: Option<NonZeroUsize>,
    /// Bounds on what one record may decode to.
    pub limits: Limits,
    /// The rules of payload types; default none.
    pub schemas: Vec<Arc<dyn SchemaCheck>>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            sample: None,
            decode: 16,
            max_faults: 10_000,
            strict: false,
            workers: None,
            limits: Limits::default(),
            schemas: Vec::new(),
        }
    }
}

/// One fault. As JSON: `{"path","check","row","field","message"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckFault {
    /// The pack.
    pub path: String,
    /// What was checked: `open`, `layout`, `table`, `span`, `checksum`, `read`, `decode`,
    /// `schema`, `note`.
    pub check: &'static str,
    /// Row of the index table, where one row is at fault.
    pub row: Option<u64>,
    /// Header member or column, where one is at fault.
    pub field: Option<String>,
    /// What is wrong, without the pack's name.
    pub message: String,
    /// The kind of the fault.
    #[serde(skip)]
    pub kind: ErrorKind,
}

/// What was found in one pack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackCheck {
    /// The pack.
    pub path: PathBuf,
    /// Rows of the index table.
    pub rows: u64,
    /// Rows whose bytes were compared with a checksum.
    pub rows_compared: u64,
    /// Rows that were decoded.
    pub rows_decoded: u64,
    /// The faults that are listed.
    pub faults: Vec<CheckFault>,
    /// All faults, the listed ones included.
    pub total_faults: u64,
    /// What is no fault, but good to know; empty in a strict check.
    pub notes: Vec<String>,
}

impl PackCheck {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.total_faults == 0
    }
}

/// What was found in all. As JSON: `{"packs","rows","faults"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckSummary {
    /// Packs checked, those that could not be opened included.
    pub packs: u64,
    /// Rows of all packs.
    pub rows: u64,
    /// Faults of all packs.
    pub faults: u64,
    /// Kinds of the faults, each once.
    #[serde(skip)]
    pub kinds: Vec<ErrorKind>,
}

/// The packs that paths stand for: a file for itself, whatever its name, a folder for every file
/// below it whose name ends in `.iac`, sorted. Links to folders are not followed, links to files
/// are.
///
/// # Errors
///
/// [`OpsError::Io`] when a path does not exist or a folder cannot be read, [`OpsError::Source`]
/// when a folder holds no pack.
pub fn find_packs(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut packs = Vec::new();
    for path in paths {
        packs.extend(packs_of(path, &NoProgress)?);
    }
    Ok(packs)
}

fn packs_of(path: &Path, progress: &dyn Progress) -> Result<Vec<PathBuf>> {
    if iac_reader::is_url(path) {
        return Ok(vec![path.to_owned()]);
    }
    let metadata = fs::metadata(path).map_err(OpsError::io(path, "cannot find it"))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut packs = Vec::new();
    walk(path, progress, &mut |entry, metadata| {
        // By the end of the name: a file that is called nothing but `.iac` counts too.
        let named =
            entry.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".iac"));
        let is_file = metadata.is_file()
            || (metadata.is_symlink() && fs::metadata(entry).is_ok_and(|target| target.is_file()));
        if named && is_file {
            packs.push(entry.to_owned());
        }
        Ok(metadata.is_dir())
    })?;
    if packs.is_empty() {
        return Err(OpsError::source(path, "no file below this folder ends in .iac"));
    }
    packs.sort_unstable();
    Ok(packs)
}

/// Checks packs (see [`find_packs`]) one after the other; what is wrong with one does not keep the
/// others from being checked.
///
/// `on_pack` hears of every pack in order. Progress counts the bytes of the packs.
///
/// # Errors
///
/// [`OpsError::Cancelled`], and whatever `on_pack` returns. What is wrong with a pack or a path is
/// no error of this function, also when it cannot be found or opened: it is a fault like others.
pub fn check(
    paths: &[PathBuf],
    options: &CheckOptions,
    progress: &dyn Progress,
    on_pack: &mut dyn FnMut(PackCheck) -> Result<()>,
) -> Result<CheckSummary> {
    let mut work = Vec::new();
    for path in paths {
        match packs_of(path, progress) {
            Ok(packs) => work.extend(packs.into_iter().map(Ok)),
            Err(OpsError::Cancelled) => return Err(OpsError::Cancelled),
            Err(error) => work.push(Err((path.clone(), error))),
        }
    }
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let total = work
        .iter()
        .map(|item| item.as_ref().map_or(0, |path| bytes(path)))
        .fold(0, u64::saturating_add);
    let task = Task::begin(progress, "verifying", Some(total));
    let mut summary = CheckSummary::default();
    for item in work {
        check_cancelled(progress)?;
        let (found, done) = match item {
            Ok(path) => (check_pack(&path, options, progress)?, bytes(&path)),
            Err((path, error)) => (not_opened(&path, &error), 0),
        };
        task.advance(done);
        summary.packs = summary.packs.saturating_add(1);
        summary.rows = summary.rows.saturating_add(found.rows);
        summary.faults = summary.faults.saturating_add(found.total_faults);
        for fault in &found.faults {
            if !summary.kinds.contains(&fault.kind) {
                summary.kinds.push(fault.kind);
            }
        }
        on_pack(found)?;
    }
    Ok(summary)
}

fn not_opened(path: &Path, error: &OpsError) -> PackCheck {
    let mut found = PackCheck { path: path.to_owned(), ..PackCheck::default() };
    found.add(usize::MAX, "open", error, None);
    found
}

fn check_pack(path: &Path, options: &CheckOptions, progress: &dyn Progress) -> Result<PackCheck> {
    let read = ReadOptions::default()
        .use_header_cache(false)
        .object_cache(OBJECT_CACHE)
        .workers(options.workers);
    let pack = match PackReader::open_with(path, &read) {
        Ok(pack) => pack,
        Err(error) => return Ok(not_opened(path, &error.into())),
    };
    let verify = VerifyOptions::default()
        .sample(options.sample)
        .max_faults(options.max_faults)
        .workers(options.workers);
    let report = pack.verify(&verify);
    let shown = path.display().to_string();
    let mut found = PackCheck {
        path: path.to_owned(),
        rows: report.rows,
        rows_compared: report.rows_compared,
        total_faults: report.total_faults,
        notes: report.notes,
        ..PackCheck::default()
    };
    found.faults.extend(report.faults.into_iter().map(|fault| CheckFault {
        path: shown.clone(),
        check: fault.check,
        row: fault.row,
        field: fault.field,
        message: fault.message,
        kind: fault.kind,
    }));
    let schema = schema_of(&pack, options);
    decode_some(&pack, options, schema, progress, &mut found)?;
    if let Some(schema) = schema {
        check_schema(&pack, schema, options, &mut found);
    }
    if options.strict {
        for note in std::mem::take(&mut found.notes) {
            found.push(
                options.max_faults,
                CheckFault {
                    path: shown.clone(),
                    check: "note",
                    row: None,
                    field: None,
                    message: note,
                    kind: ErrorKind::Damaged,
                },
            );
        }
    }
    Ok(found)
}

/// The rules of a pack's payload type, where somebody gave them.
fn schema_of<'a>(pack: &PackReader, options: &'a CheckOptions) -> Option<&'a dyn SchemaCheck> {
    let payload_type = pack.header().payload_type()?;
    let schema = options.schemas.iter().find(|schema| schema.handles(payload_type))?;
    Some(schema.as_ref())
}

fn check_schema(
    pack: &PackReader,
    schema: &dyn SchemaCheck,
    options: &CheckOptions,
    found: &mut PackCheck,
) {
    match schema.check(pack, options.max_faults) {
        Ok(report) => {
            let listed = u64::try_from(report.faults.len()).unwrap_or(u64::MAX);
            for fault in report.faults {
                found.push_schema(options.max_faults, fault);
            }
            let rest = report.total.saturating_sub(listed);
            found.total_faults = found.total_faults.saturating_add(rest);
            found.notes.extend(report.warnings);
        }
        // Tables that cannot be decoded are faults already.
        Err(_) if !found.faults.is_empty() => {}
        Err(error) => found.add(options.max_faults, "schema", &error, None),
    }
}

/// Decodes records that are spread over the pack, those aside that are known to be damaged.
fn decode_some(
    pack: &PackReader,
    options: &CheckOptions,
    schema: Option<&dyn SchemaCheck>,
    progress: &dyn Progress,
    found: &mut PackCheck,
) -> Result<()> {
    let rows = found.rows;
    let wanted = options.decode.min(rows);
    // A damaged table is a fault already, and a segment has no records.
    if wanted == 0 || !matches!(pack.kind(), Ok(PackKind::Variable | PackKind::Fixed)) {
        return Ok(());
    }
    let decoder = match Decoder::new(pack, options.limits) {
        Ok(decoder) => decoder,
        Err(error) => {
            match error.kind() {
                ErrorKind::MissingFeature
                | ErrorKind::UnknownCodec
                | ErrorKind::UnsupportedExtension => {
                    found.notes.push(format!("records were not decoded: {}", error.reason()));
                }
                _ if found.faults.is_empty() => {
                    found.add(options.max_faults, "decode", &error, None);
                }
                _ => {}
            }
            return Ok(());
        }
    };
    let bad: HashSet<u64> = found.faults.iter().filter_map(|fault| fault.row).collect();
    let has_record = |row: &u64| schema.is_none_or(|schema| schema.has_record(pack, *row));
    let sample = (0..wanted)
        .map(|position| spread(position, wanted, rows))
        .filter(|row| !bad.contains(row) && has_record(row));
    let bounds = Bounds { workers: options.workers, cost: DECODE_BYTES };
    for_each_ordered(
        sample,
        bounds,
        progress,
        |row| decoder.cost(*row, stored_bytes(pack, *row)),
        |row| {
            let decoded = decoder.decode(row);
            let fault = match (&decoded, schema) {
                (Ok(record), Some(schema)) => schema.check_record(pack, record),
                _ => None,
            };
            Ok((row, decoded.map(|_| fault)))
        },
        |(row, decoded)| {
            found.rows_decoded = found.rows_decoded.saturating_add(1);
            if let Ok(Some(fault)) = decoded {
                found.push_schema(options.max_faults, fault);
                return Ok(());
            }
            if let Err(error) = decoded {
                let check = match error.kind() {
                    // Counted already, whether or not it is listed: spans were checked for all
                    // rows, and checksums too unless a sample was asked for.
                    ErrorKind::Damaged => return Ok(()),
                    ErrorKind::Checksum if options.sample.is_none() => return Ok(()),
                    ErrorKind::Checksum => "checksum",
                    ErrorKind::Io => "read",
                    _ => "decode",
                };
                found.add(options.max_faults, check, &error, Some(row));
            }
            Ok(())
        },
    )
}

/// The row at one of so many places that are spread evenly over all rows, the first and the last
/// included. Of one place, the first row.
///
/// ```
/// use iac_ops::check::spread;
///
/// let rows: Vec<u64> = (0..4).map(|position| spread(position, 4, 100)).collect();
/// assert_eq!(rows, [0, 33, 66, 99]);
/// ```
#[must_use]
pub fn spread(position: u64, places: u64, rows: u64) -> u64 {
    let row = u128::from(position)
        .saturating_mul(u128::from(rows.saturating_sub(1)))
        .checked_div(u128::from(places.saturating_sub(1)))
        .unwrap_or(0);
    u64::try_from(row).unwrap_or(u64::MAX)
}

impl PackCheck {
    fn add(&mut self, most: usize, check: &'static str, error: &OpsError, row: Option<u64>) {
        let fault = CheckFault {
            path: self.path.display().to_string(),
            check,
            row: row.or_else(|| error.row()),
            field: error.field().map(str::to_owned),
            message: error.reason(),
            kind: error.kind(),
        };
        self.push(most, fault);
    }

    fn push_schema(&mut self, most: usize, fault: SchemaFault) {
        let fault = CheckFault {
            path: self.path.display().to_string(),
            check: "schema",
            row: fault.row,
            field: fault.field,
            message: fault.message,
            kind: fault.kind,
        };
        self.push(most, fault);
    }

    fn push(&mut self, most: usize, fault: CheckFault) {
        self.total_faults = self.total_faults.saturating_add(1);
        if self.faults.len() < most {
            self.faults.push(fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_rows_are_spread_and_never_repeat() {
        let rows = |places, rows| -> Vec<u64> {
            (0..places).map(|position| spread(position, places, rows)).collect()
        };
        assert_eq!(rows(4, 100), [0, 33, 66, 99]);
        assert_eq!(rows(1, 100), [0]);
        assert_eq!(rows(2, 1000), [0, 999]);
        assert_eq!(rows(3, 3), [0, 1, 2]);
        assert_eq!(rows(3, u64::MAX), [0, u64::MAX / 2, u64::MAX - 1]);
    }
}
