//! NumPy's `.npz` files: zip archives of `.npy` files.

use std::io::Read;
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::slabs::Intake;
use super::{ExportOptions, arrays, npy, place};
use crate::blocking::Snapshot;
use crate::error::{ArrayError, Result};

/// Members that an archive may have.
const MAX_MEMBERS: usize = 1 << 20;

pub(super) fn import(intake: &mut Intake<'_>) -> Result<()> {
    let path = intake.path;
    let broken = |error: zip::result::ZipError| {
        ArrayError::damaged(path, format!("no zip archive: {error}"))
    };
    let (file, _) = place::open(path)?;
    let mut archive = ZipArchive::new(std::io::BufReader::new(file)).map_err(broken)?;
    if archive.len() > MAX_MEMBERS {
        return Err(ArrayError::damaged(path, format!("{} members", archive.len())));
    }
    for at in 0..archive.len() {
        let mut member = archive.by_index(at).map_err(broken)?;
        let inner = member.name().map_err(broken)?.into_owned();
        let Some(inner) = inner.strip_suffix(".npy") else {
            return Err(ArrayError::foreign(path, format!("the member `{inner}`")));
        };
        let (size, stored) = (member.size(), member.compressed_size());
        let array = npy::describe(path, &mut member)?;
        let bytes = array.bytes(intake)?;
        intake.check_room(size, stored, true)?;
        if array.start.checked_add(bytes) != Some(size) {
            return Err(ArrayError::damaged(
                path,
                format!("member `{inner}` has {size} bytes, its elements {bytes}"),
            ));
        }
        let name = intake.member_name(inner);
        array.take(intake, &name, &mut member)?;
        // The end of the member is where its checksum is compared.
        let mut rest = [0; 1];
        match member.read(&mut rest) {
            Ok(0) => {}
            Ok(_) => return Err(ArrayError::damaged(path, format!("`{inner}` is too long"))),
            Err(error) => return Err(ArrayError::damaged(path, format!("`{inner}`: {error}"))),
        }
    }
    Ok(())
}

pub(super) fn export(
    snapshot: &Snapshot,
    name: Option<&str>,
    path: &Path,
    options: &ExportOptions,
) -> Result<()> {
    let names = name.map_or_else(|| arrays(snapshot), |name| vec![name.to_owned()]);
    let failed = |error: zip::result::ZipError| {
        ArrayError::file("write the file", path)(std::io::Error::other(error))
    };
    place::publish(path, options.overwrite, |out| {
        let mut archive = ZipWriter::new(out);
        // No time of day, so that equal arrays make equal files.
        let member = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(3))
            .last_modified_time(zip::DateTime::default())
            .large_file(true);
        for name in names {
            place::check_inside(path, &name)?;
            archive.start_file(format!("{name}.npy"), member).map_err(failed)?;
            npy::write(snapshot, &name, path, &mut archive)?;
        }
        archive.finish().map_err(failed)?;
        Ok(())
    })
}
