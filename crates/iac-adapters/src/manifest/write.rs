//! Writing manifests.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{AdapterError, Result};
use crate::manifest::COLUMNS;
use crate::record::TileRecord;

/// Writes a manifest; missing folders are made, and an existing file is replaced.
///
/// # Errors
///
/// [`AdapterError::Io`].
pub fn write_manifest<'a>(
    path: impl AsRef<Path>,
    records: impl IntoIterator<Item = &'a TileRecord>,
) -> Result<()> {
    let path = path.as_ref();
    let fail = |source| AdapterError::io(path, "cannot write the manifest")(source);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(AdapterError::io(folder, "cannot make the folder"))?;
    }
    let file = fs::File::create(path).map_err(fail)?;
    let mut writer = ManifestWriter::new(BufWriter::new(file)).map_err(fail)?;
    for record in records {
        writer.write(record).map_err(fail)?;
    }
    writer.finish().map_err(fail)?.flush().map_err(fail)
}

/// Writes a manifest record by record.
#[derive(Debug)]
pub struct ManifestWriter<W> {
    target: W,
    line: Vec<u8>,
}

impl<W: Write> ManifestWriter<W> {
    /// Begins a manifest with its first row.
    ///
    /// # Errors
    ///
    /// Those of the target.
    pub fn new(target: W) -> io::Result<Self> {
        let mut writer = Self { target, line: Vec::new() };
        writer.row(COLUMNS)?;
        Ok(writer)
    }

    /// Writes one record; no split becomes an empty field.
    ///
    /// # Errors
    ///
    /// Those of the target.
    pub fn write(&mut self, record: &TileRecord) -> io::Result<()> {
        let path = record.tile_path.to_string_lossy();
        self.row([
            record.tile_id.as_str(),
            &record.patient_id,
            &record.slide_id,
            &path,
            &record.x.to_string(),
            &record.y.to_string(),
            record.split.as_deref().unwrap_or_default(),
        ])
    }

    /// Gives the target back.
    ///
    /// # Errors
    ///
    /// Those of the target.
    pub fn finish(mut self) -> io::Result<W> {
        self.target.flush()?;
        Ok(self.target)
    }

    fn row(&mut self, fields: [&str; 7]) -> io::Result<()> {
        self.line.clear();
        for (number, field) in fields.into_iter().enumerate() {
            if number > 0 {
                self.line.push(b',');
            }
            push_field(&mut self.line, field);
        }
        self.line.extend_from_slice(b"\r\n");
        self.target.write_all(&self.line)
    }
}

/// Adds a field, in quotes where it needs them.
pub(crate) fn push_field(line: &mut Vec<u8>, field: &str) {
    if !field.contains([',', '"', '\r', '\n']) {
        line.extend_from_slice(field.as_bytes());
        return;
    }
    line.push(b'"');
    for byte in field.bytes() {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}
