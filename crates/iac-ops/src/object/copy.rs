//! Copying packs between files and object stores.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use iac_reader::object::{ObjectLocation, ObjectOptions, ObjectSource};
use iac_reader::{ByteSource, PackReader, ReadOptions, SourceRead, VerifyOptions};
use sha2::{Digest, Sha256};

use super::publish::{PublishOptions, check_free, publish, publish_locally};
use crate::error::{OpsError, Result};
use crate::progress::{Progress, Task};
use crate::sha::hex;

/// Bytes that are fetched at once: several requests of the default size.
const STRETCH: u64 = 64 << 20;

/// How a pack is copied.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CopyOptions {
    /// How it is written: overwriting, and reading back.
    pub publish: PublishOptions,
    /// How it is read.
    pub object: ObjectOptions,
    /// Copy what is no sound pack too; default `false`.
    pub unchecked: bool,
    /// Where a pack from a store is kept until it is complete; default: beside a local
    /// destination, else the system's temporary folder.
    pub folder: Option<PathBuf>,
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopySummary {
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of all bytes, which source and destination have in common.
    pub sha256: String,
    /// Rows of the pack; nothing for what was copied unchecked and is no pack.
    pub rows: Option<u64>,
}

/// Copies a pack from one place to another: files and object stores alike.
///
/// The source is read once, pinned to one state of the object, into a local file, where every
/// checksum of the pack is compared. The destination appears when it is complete, and is read back
/// and compared.
///
/// # Errors
///
/// [`OpsError::Exists`] when the destination exists, [`OpsError::Read`] for a source that cannot be
/// read or is no sound pack, and as [`publish`].
pub fn copy(
    from: &ObjectLocation,
    to: &ObjectLocation,
    options: &CopyOptions,
    progress: &dyn Progress,
) -> Result<CopySummary> {
    check_free(to, &options.publish)?;
    // A local source is used where it lies.
    if let Some(path) = from.local_path() {
        return write(path, to, options, progress);
    }
    let beside = match to.local_path() {
        Some(path) => path.parent().filter(|folder| folder.is_dir()),
        None => None,
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".iac-").suffix(".part");
    let file = match options.folder.as_deref().or(beside) {
        Some(folder) => builder.tempfile_in(folder),
        None => builder.tempfile(),
    };
    let place = PathBuf::from(to.name());
    let file = file.map_err(OpsError::io(&place, "cannot create a temporary file"))?;
    let name = Path::new(from.name());
    let source =
        ObjectSource::open(from, &options.object).map_err(OpsError::io(name, "cannot open"))?;
    let task = Task::begin(progress, "downloading", Some(source.size()));
    each_stretch(&source, name, progress, |stretch| {
        let mut file: &File = file.as_file();
        file.write_all(stretch).map_err(OpsError::io(&place, "cannot write a temporary file"))?;
        task.advance(u64::try_from(stretch.len()).unwrap_or(u64::MAX));
        Ok(())
    })?;
    drop(task);
    write(file.path(), to, options, progress).map_err(|error| match error {
        // The temporary file is nobody's business.
        OpsError::Changed { path, reason } if path == file.path() => {
            OpsError::Changed { path: name.to_owned(), reason }
        }
        error => error,
    })
}

/// Checks a local file and writes it to its destination.
fn write(
    file: &Path,
    to: &ObjectLocation,
    options: &CopyOptions,
    progress: &dyn Progress,
) -> Result<CopySummary> {
    let rows = match check(file) {
        Ok(rows) => Some(rows),
        Err(_) if options.unchecked => None,
        Err(error) => return Err(error),
    };
    let Some(local) = to.local_path() else {
        let published = publish(file, to, &options.publish, progress)?;
        return Ok(CopySummary { bytes: published.bytes, sha256: published.sha256, rows });
    };
    publish_locally(file, local, options.publish.overwrite)?;
    let (bytes, sha256) = sha256_of(to, progress)?;
    if options.publish.verify {
        let source = sha256_of(&ObjectLocation::local(file), progress)?;
        if source != (bytes, sha256.clone()) {
            let reason = format!("{} bytes were copied, {bytes} others are there", source.0);
            return Err(OpsError::Changed { path: file.to_owned(), reason });
        }
    }
    Ok(CopySummary { bytes, sha256, rows })
}

/// The rows of a pack whose every byte is sound.
fn check(file: &Path) -> Result<u64> {
    let pack = PackReader::open_with(file, &ReadOptions::default().use_header_cache(false))?;
    let report = pack.verify(&VerifyOptions::default().max_faults(1));
    match report.faults.into_iter().next() {
        None => Ok(report.rows),
        Some(fault) => Err(OpsError::Unsound {
            path: pack.path().to_owned(),
            kind: fault.kind,
            row: fault.row,
            reason: fault.message,
            faults: report.total_faults,
        }),
    }
}

/// Size and SHA-256 of an object.
pub(super) fn sha256_of(place: &ObjectLocation, progress: &dyn Progress) -> Result<(u64, String)> {
    let name = Path::new(place.name());
    let source = ObjectSource::open(place, &ObjectOptions::default())
        .map_err(OpsError::io(name, "cannot read it back"))?;
    let task = Task::begin(progress, "comparing", Some(source.size()));
    let mut hasher = Sha256::new();
    each_stretch(&source, name, progress, |stretch| {
        hasher.update(stretch);
        task.advance(u64::try_from(stretch.len()).unwrap_or(u64::MAX));
        Ok(())
    })?;
    Ok((source.size(), hex(&hasher.finalize())))
}

/// Hands out all bytes of an object, in order.
fn each_stretch(
    source: &ObjectSource,
    name: &Path,
    progress: &dyn Progress,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = Vec::new();
    let mut offset = 0_u64;
    while offset < source.size() {
        if progress.is_cancelled() {
            return Err(OpsError::Cancelled);
        }
        let length = source.size().saturating_sub(offset).min(STRETCH);
        buffer.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        source
            .read_batch(&mut [SourceRead { offset, buffer: &mut buffer }])
            .map_err(OpsError::io(name, "cannot read"))?;
        take(&buffer)?;
        offset = offset.saturating_add(length);
    }
    Ok(())
}
