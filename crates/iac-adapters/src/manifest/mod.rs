//! Tile manifests: comma-separated files that list tiles, one to a row.
//!
//! A manifest names, in its first row and in any order, the columns of [`COLUMNS`]; further ones are
//! ignored. It is UTF-8, with or without a byte order mark.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("tiles.csv");
//! use iac_adapters::manifest::ManifestReader;
//!
//! std::fs::write(
//!     &path,
//!     "tile_id,patient_id,slide_id,tile_path,x,y,split\n\
//!      t0,p1,s1,images/t0.png,0,512,train\n",
//! )?;
//! for record in ManifestReader::open(&path)? {
//!     let record = record?;
//!     assert_eq!((record.tile_id.as_str(), record.y), ("t0", 512));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod csv;
mod integer;
mod write;

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

#[cfg(feature = "wsi")]
pub(crate) use write::push_field;
pub use write::{ManifestWriter, write_manifest};

use crate::error::{AdapterError, Result};
use crate::record::TileRecord;
use csv::{CsvError, CsvReader, Place, Row};
use integer::{NoInteger, parse_integer};

/// The columns of a manifest, in the order in which they are written.
pub const COLUMNS: [&str; 7] =
    ["tile_id", "patient_id", "slide_id", "tile_path", "x", "y", "split"];

/// Reads the records of a manifest one by one, in bounded memory.
///
/// The first error ends the iteration.
#[derive(Debug)]
pub struct ManifestReader<R = File> {
    path: PathBuf,
    rows: CsvReader<R>,
    /// Number of each of [`COLUMNS`] in the file.
    places: [u64; 7],
    values: [Field; 7],
    /// Where the record begins that was handed out last.
    line: u64,
    ended: bool,
}

/// The value of a column in the row that is being read.
#[derive(Debug, Clone, Default)]
struct Field {
    text: String,
    place: Option<Place>,
}

/// Reads a whole manifest.
///
/// # Errors
///
/// As [`ManifestReader::open`], and those of the rows.
pub fn read_manifest(path: impl AsRef<Path>) -> Result<Vec<TileRecord>> {
    ManifestReader::open(path)?.collect()
}

impl ManifestReader {
    /// Opens a manifest and reads its first row.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`]; [`AdapterError::MissingColumns`] when the first row does not name all
    /// [`COLUMNS`], and [`AdapterError::Manifest`] when it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(AdapterError::io(path, "cannot open the manifest"))?;
        Self::from_source(file, path)
    }
}

impl<R: Read> ManifestReader<R> {
    /// Reads a manifest from any source; `path` stands in messages.
    ///
    /// # Errors
    ///
    /// As [`ManifestReader::open`].
    pub fn from_source(source: R, path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let mut rows = CsvReader::new(source);
        let mut places: [Option<u64>; 7] = [None; 7];
        let mut separator = None;
        rows.next_row::<CsvError>(|number, _, name| {
            separator = match number {
                0 => name.chars().find(|character| matches!(character, ';' | '\t' | '|')),
                _ => None,
            };
            for (column, place) in COLUMNS.iter().zip(&mut places) {
                // Where a name stands twice, the last column counts.
                if *column == name {
                    *place = Some(number);
                }
            }
            Ok(())
        })
        .map_err(|error| csv_error(&path, error))?;
        let mut missing: Vec<String> = COLUMNS
            .iter()
            .zip(&places)
            .filter(|(_, place)| place.is_none())
            .map(|(column, _)| (*column).to_owned())
            .collect();
        // What spreadsheets write where the comma belongs to numbers.
        if let Some(separator) = separator.filter(|_| missing.len() == COLUMNS.len()) {
            return Err(AdapterError::Manifest {
                path,
                line: 1,
                column: 1,
                field: None,
                reason: format!("columns are separated by {separator:?}, but commas are expected"),
            });
        }
        if !missing.is_empty() {
            missing.sort_unstable();
            return Err(AdapterError::MissingColumns { path, columns: missing });
        }
        let places = places.map(|place| place.unwrap_or(u64::MAX));
        Ok(Self { path, rows, places, values: Default::default(), line: 1, ended: false })
    }

    /// The manifest's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line at which the record begins that was handed out last, counted from 1; before that,
    /// the first.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.line
    }

    fn next_record(&mut self) -> Result<Option<TileRecord>> {
        loop {
            for value in &mut self.values {
                value.text.clear();
                value.place = None;
            }
            let start = self.rows.place();
            let Self { rows, places, values, path, .. } = self;
            let found = rows
                .next_row::<CsvError>(|number, place, text| {
                    for (wanted, value) in places.iter().zip(values.iter_mut()) {
                        if *wanted == number {
                            value.text.push_str(text);
                            value.place = Some(place);
                        }
                    }
                    Ok(())
                })
                .map_err(|error| csv_error(path, error))?;
            match found {
                Row::End => return Ok(None),
                Row::Fields(0) => {}
                Row::Fields(_) => {
                    self.line = start.line;
                    return self.record(start).map(Some);
                }
            }
        }
    }

    fn record(&mut self, start: Place) -> Result<TileRecord> {
        let [tile_id, patient_id, slide_id, tile_path, x, y, split] = &mut self.values;
        let path = &self.path;
        let present = |field: &Field, name: &str| match field.place {
            Some(_) => Ok(()),
            None => Err(AdapterError::Manifest {
                path: path.clone(),
                line: start.line,
                column: start.column,
                field: Some(name.to_owned()),
                reason: "missing, because the row is too short".to_owned(),
            }),
        };
        let integer = |field: &Field, name: &str| {
            present(field, name)?;
            let place = field.place.unwrap_or(start);
            parse_integer(&field.text).map_err(|error| AdapterError::Manifest {
                path: path.clone(),
                line: place.line,
                column: place.column,
                field: Some(name.to_owned()),
                reason: match error {
                    NoInteger::Malformed => {
                        format!("\"{}\" is no integer", crate::error::short(&field.text))
                    }
                    NoInteger::TooLarge => {
                        format!("{} is beyond 64 bits", crate::error::short(field.text.trim()))
                    }
                },
            })
        };
        present(tile_id, "tile_id")?;
        present(patient_id, "patient_id")?;
        present(slide_id, "slide_id")?;
        present(tile_path, "tile_path")?;
        Ok(TileRecord {
            x: integer(x, "x")?,
            y: integer(y, "y")?,
            tile_id: std::mem::take(&mut tile_id.text),
            patient_id: std::mem::take(&mut patient_id.text),
            slide_id: std::mem::take(&mut slide_id.text),
            tile_path: normal_path(&tile_path.text),
            split: split.place.map(|_| std::mem::take(&mut split.text)),
        })
    }
}

impl<R: Read> Iterator for ManifestReader<R> {
    type Item = Result<TileRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// A path without repeated separators and `.`; `..` stays, and no text means the folder itself.
pub(crate) fn normal_path(text: &str) -> PathBuf {
    let path: PathBuf =
        Path::new(text).components().filter(|part| *part != Component::CurDir).collect();
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

fn csv_error(path: &Path, error: CsvError) -> AdapterError {
    let at = |place: Place, reason: String| AdapterError::Manifest {
        path: path.to_owned(),
        line: place.line,
        column: place.column,
        field: None,
        reason,
    };
    match error {
        CsvError::Io(source) => AdapterError::io(path, "cannot read the manifest")(source),
        CsvError::TooLong(place) => at(
            place,
            format!("the field that begins here has more than {} characters", csv::MAX_FIELD),
        ),
        CsvError::NotUtf8(place) => at(place, "the field that begins here is not UTF-8".to_owned()),
    }
}
