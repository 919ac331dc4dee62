//! Writes records as files into a folder, and never outside of it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_array::{Array, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::DataType;
use iac_codec::Limits;
use iac_format::TableKind;
use iac_reader::{PackReader, Table};
use serde::Serialize;

use tempfile::TempPath;

use crate::carry::check_one_codec;
use crate::decode::{Decoder, byte_count, selected_rows, stored_bytes};
use crate::error::{OpsError, Result};
use crate::expansion::check_expansion;
use crate::names::{self, Names, Rules, safe_parts};
use crate::no_record::NoRecord;
use crate::ordered::{Bounds, for_each_ordered};
use crate::progress::{Progress, Task, check_cancelled};
use crate::raw::{MODIFIED_COLUMN, PATH_COLUMN, RAW_FILES};
use crate::rows::RowSelection;
use crate::view::{ShortText, TableQuery, TableView};

/// What kind of files records become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ExtractFormat {
    /// Records of bytes as they were packed, images as the stream that is stored, with the usual
    /// extension of its codec.
    #[default]
    Native,
    /// Images as PNG files.
    Png,
    /// Decoded records as NumPy files.
    Npy,
}

/// How records are extracted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExtractOptions {
    /// What kind of files records become; default as they are.
    pub format: ExtractFormat,
    /// Column of the index table that names the files; default (`None`) the first text column of
    /// [`ID_COLUMNS`] that the pack has, else the row number.
    pub name_column: Option<String>,
    /// Replace existing files; default `false`: nothing is written when one exists.
    pub overwrite: bool,
    /// Bounds on what one record may decode to.
    pub limits: Limits,
    /// Most threads; default (`None`) all cores.
    pub workers: Option<NonZeroUsize>,
    /// Bytes of records that are in memory at once, unless one record has more; default 64 MiB.
    pub memory: u64,
    /// Also write far more than the pack holds, where records overlap; default `false`.
    pub allow_expansion: bool,
}

impl ExtractOptions {
    /// Sets whether far more may be written than the pack holds.
    #[must_use]
    pub const fn allow_expansion(mut self, allow: bool) -> Self {
        self.allow_expansion = allow;
        self
    }
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self {
            format: ExtractFormat::Native,
            name_column: None,
            overwrite: false,
            limits: Limits::default(),
            workers: None,
            memory: 64 << 20,
            allow_expansion: false,
        }
    }
}

/// Index columns that name records, the best first.
pub const ID_COLUMNS: [&str; 7] =
    ["path", "record_id", "item_id", "tile_id", "sop_instance_uid", "patient_id", "id"];

/// Bytes of a name that is looked at: records with longer ones are named after their row.
const MAX_NAME: u64 = 1 << 20;

/// One file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Extracted {
    /// Row of the index table.
    pub row: u64,
    /// The file, below the folder, with `/` between folders.
    pub file: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// The name that the pack gives to the record, where the file's differs from it; its first 200
    /// characters and `…` where it has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_name: Option<String>,
}

/// What was written in all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExtractSummary {
    /// The folder.
    pub dir: PathBuf,
    /// Files written.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files whose name differs from the one in the pack.
    pub renamed: u64,
    /// Rows that were passed over because they store no record.
    pub without_record: u64,
}

/// Writes records into a folder, which is made if need be, one file each; `rows` absent: all.
///
/// Records of bytes are decoded; images are written as [`ExtractFormat`] says, and their files have
/// its extension. Files are named after a column of the index table, with characters replaced
/// that are not safe in file names; names that occur again get a number. In packs of files the
/// column `path` gives folders too, and files get back the time of their last change. Whatever the
/// names are, nothing is written outside of the folder, and no link below it is followed; nobody
/// else should be at work in the folder meanwhile.
///
/// Rows that store no record (of objects without an image) are passed over.
///
/// Every file appears whole or not at all. `on_file` hears of every file in the order of the rows.
/// Progress counts rows.
///
/// # Errors
///
/// [`OpsError::Exists`] before anything is written when a file is there that may not be replaced;
/// [`OpsError::Expansion`] when records overlap so much that far more would be written than the
/// pack holds; [`OpsError::Destination`] for a link or a file in the place of a folder, and the other way
/// round; [`OpsError::Column`] for an unknown name column; [`OpsError::RowOutOfRange`];
/// [`OpsError::Picture`] for a record that is no image, or none that PNG files can hold;
/// [`OpsError::Read`] and [`OpsError::Codec`] for a record that cannot be read or decoded, and
/// [`OpsError::Io`]: files of the rows before it stay.
pub fn extract(
    pack: &PackReader,
    rows: Option<&RowSelection>,
    dir: &Path,
    options: &ExtractOptions,
    progress: &dyn Progress,
    on_file: &mut dyn FnMut(Extracted) -> Result<()>,
) -> Result<ExtractSummary> {
    let rows = selected_rows(pack, rows)?;
    check_one_codec(pack)?;
    let decoder = Decoder::new(pack, options.limits)?;
    let (rows, without_record) = NoRecord::of(pack)?.split(pack, rows)?;
    if !options.allow_expansion {
        check_expansion(pack, rows.iter(), progress)?;
    }
    let is_image = decoder.images().is_some();
    let extension = match options.format {
        ExtractFormat::Png => Some("png"),
        ExtractFormat::Npy => Some("npy"),
        ExtractFormat::Native => {
            decoder.codec().filter(|_| is_image).and_then(|codec| match codec.name() {
                "jxl" => Some("jxl"),
                "jpeg" => Some("jpg"),
                "jpeg2000" => Some("j2k"),
                "jpegls" => Some("jls"),
                _ => None,
            })
        }
    };
    let files = plan(pack, &rows, options, extension, progress)?;
    let folder = Folder { dir, overwrite: options.overwrite };
    folder.prepare(&files, progress)?;
    let task = Task::begin(progress, "extracting", Some(rows.len()));
    let bounds = Bounds { workers: options.workers, cost: options.memory };
    let dir = dir.to_owned();
    let mut summary = ExtractSummary { dir, files: 0, bytes: 0, renamed: 0, without_record };
    for_each_ordered(
        files.into_iter(),
        bounds,
        progress,
        |file| decoder.cost(file.row, stored_bytes(pack, file.row)),
        |file| {
            let content = match options.format {
                ExtractFormat::Native if is_image => pack.read(file.row)?,
                ExtractFormat::Native => decoder.decode(file.row)?.bytes,
                ExtractFormat::Npy => decoder.decode(file.row)?.to_npy().into(),
                ExtractFormat::Png => {
                    let png = decoder.decode(file.row)?.to_png();
                    png.map_err(|source| OpsError::Picture {
                        path: PathBuf::from(pack.path()),
                        row: Some(file.row),
                        source: Box::new(source),
                    })?
                    .into()
                }
            };
            let temporary = folder.write(&file, &content)?;
            let extracted = Extracted {
                row: file.row,
                bytes: byte_count(&content),
                file: file.file,
                original_name: file.original_name,
            };
            Ok((temporary, extracted))
        },
        // Files get their names in order, so that those behind a bad record do not appear, however
        // far ahead the threads were.
        |(temporary, file)| {
            folder.publish(temporary, &file.file)?;
            summary.files = summary.files.saturating_add(1);
            summary.bytes = summary.bytes.saturating_add(file.bytes);
            let renamed = u64::from(file.original_name.is_some());
            summary.renamed = summary.renamed.saturating_add(renamed);
            task.advance(1);
            on_file(file)
        },
    )?;
    Ok(summary)
}

/// A file that is to be written.
#[derive(Debug)]
struct Planned {
    row: u64,
    /// Below the folder, with `/` between folders.
    file: String,
    original_name: Option<String>,
    modified: Option<SystemTime>,
}

/// Names every file.
fn plan(
    pack: &PackReader,
    rows: &RowSelection,
    options: &ExtractOptions,
    extension: Option<&str>,
    progress: &dyn Progress,
) -> Result<Vec<Planned>> {
    let table = pack.index_table()?;
    let raw_files = pack.header().payload_type() == Some(RAW_FILES);
    let column = match &options.name_column {
        Some(column) => Some(column.clone()),
        None => id_column(table),
    };
    let has_folders = column.as_deref() == Some(PATH_COLUMN);
    let rules = if raw_files && has_folders { Rules::Host } else { Rules::Portable };
    let times = if raw_files { Times::of(table)? } else { None };
    let width = table.num_rows().saturating_sub(1).to_string().len();

    let query = TableQuery {
        table: TableKind::Index,
        columns: Some(column.into_iter().collect()),
        rows: Some(rows.clone()),
        ..TableQuery::default()
    };
    let mut names = Names::new(rules);
    let mut files = Vec::new();
    TableView::new(pack, &query)?.for_each_short_text(MAX_NAME, progress, &mut |row, name| {
        let is_too_long = matches!(name, Some(ShortText::TooLong));
        let name = match name {
            Some(ShortText::Whole(name)) => Some(name).filter(|name| !name.is_empty()),
            _ => None,
        };
        let name = name.map(|name| with_extension(&name, extension));
        let parts = match &name {
            Some(name) => safe_parts(name, has_folders, rules),
            None => vec![with_extension(&format!("{row:0width$}"), extension)],
        };
        let file = names.claim(&parts);
        let mut original_name = name.filter(|name| *name != file).map(|name| names::shown(&name));
        if is_too_long {
            original_name = Some("…".to_owned());
        }
        let modified = times.as_ref().and_then(|times| times.get(row));
        files.push(Planned { row, file, original_name, modified });
        Ok(())
    })?;
    Ok(files)
}

/// A name with the extension of what is written in place of that of what was packed.
fn with_extension(name: &str, extension: Option<&str>) -> String {
    let Some(extension) = extension else { return name.to_owned() };
    let stem = match name.rsplit_once('.') {
        Some((stem, old)) if !stem.is_empty() && !stem.ends_with('/') && is_image_name(old) => stem,
        _ => name,
    };
    format!("{stem}.{extension}")
}

/// Whether files with this extension are images.
fn is_image_name(extension: &str) -> bool {
    let known =
        ["png", "tif", "tiff", "jpg", "jpeg", "npy", "jxl", "jp2", "j2k", "j2c", "jls", "bmp"];
    known.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// The first text column that names records.
fn id_column(table: &Table) -> Option<String> {
    let is_text = |data_type: &DataType| {
        matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    let usable = |name: &&&str| {
        let mut fields = table.schema().fields().iter().filter(|field| field.name() == **name);
        match (fields.next(), fields.next()) {
            (Some(field), None) => match field.data_type() {
                DataType::Dictionary(_, values) => is_text(values),
                other => is_text(other),
            },
            _ => false,
        }
    };
    ID_COLUMNS.iter().find(usable).map(|&name| name.to_owned())
}

/// The column `modified` of a pack of files.
struct Times {
    batches: Vec<(u64, TimestampMicrosecondArray)>,
}

impl Times {
    fn of(table: &Table) -> Result<Option<Self>> {
        if !matches!(table.stream().column_index(MODIFIED_COLUMN), Ok(Some(_))) {
            return Ok(None);
        }
        let mut batches = Vec::new();
        let mut start = 0_u64;
        for batch in table.columns(&[MODIFIED_COLUMN])? {
            let Some(times) = times_of(&batch) else { return Ok(None) };
            let rows = u64::try_from(times.len()).unwrap_or(u64::MAX);
            if rows > 0 {
                batches.push((start, times));
                start = start.saturating_add(rows);
            }
        }
        Ok(Some(Self { batches }))
    }

    fn get(&self, row: u64) -> Option<SystemTime> {
        let behind = self.batches.partition_point(|(start, _)| *start <= row);
        let (start, times) = self.batches.get(behind.checked_sub(1)?)?;
        let at = usize::try_from(row.checked_sub(*start)?).ok()?;
        if at >= times.len() || times.is_null(at) {
            return None;
        }
        let micros = times.value(at);
        let distance = Duration::from_micros(micros.unsigned_abs());
        if micros < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
    }
}

fn times_of(batch: &RecordBatch) -> Option<TimestampMicrosecondArray> {
    batch.columns().first()?.as_any().downcast_ref::<TimestampMicrosecondArray>().cloned()
}

/// The folder that files are written into.
struct Folder<'a> {
    dir: &'a Path,
    overwrite: bool,
}

impl Folder<'_> {
    /// Makes sure that every file can be written before the first one is: nothing in the way, no
    /// link to anywhere else; then makes the folders.
    fn prepare(&self, files: &[Planned], progress: &dyn Progress) -> Result<()> {
        let mut present = HashSet::new();
        let mut missing = HashSet::new();
        let exists = match fs::metadata(self.dir) {
            Ok(found) if found.is_dir() => true,
            Ok(_) => return Err(OpsError::destination(self.dir, "is not a folder")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(OpsError::io(self.dir, "cannot examine the folder")(error)),
        };
        if exists {
            for file in files {
                check_cancelled(progress)?;
                if self.look_at_folders(&file.file, &mut present, &mut missing)? {
                    self.look_at_file(&self.dir.join(&file.file))?;
                }
            }
        }
        fs::create_dir_all(self.dir).map_err(OpsError::io(self.dir, "cannot make the folder"))?;
        let mut made = HashSet::new();
        for file in files {
            if let Some((folder, _)) = file.file.rsplit_once('/')
                && made.insert(folder)
            {
                let folder = self.dir.join(folder);
                fs::create_dir_all(&folder)
                    .map_err(OpsError::io(&folder, "cannot make the folder"))?;
            }
        }
        Ok(())
    }

    /// Looks at the folders above a file; whether all of them are there.
    fn look_at_folders(
        &self,
        file: &str,
        present: &mut HashSet<String>,
        missing: &mut HashSet<String>,
    ) -> Result<bool> {
        for (end, _) in file.match_indices('/') {
            let folder = file.get(..end).unwrap_or(file);
            if present.contains(folder) {
                continue;
            }
            if missing.contains(folder) {
                return Ok(false);
            }
            let path = self.dir.join(folder);
            match examine(&path)? {
                None => {
                    missing.insert(folder.to_owned());
                    return Ok(false);
                }
                Some(found) if found.is_dir() => {
                    present.insert(folder.to_owned());
                }
                Some(found) if found.is_symlink() => {
                    return Err(OpsError::destination(
                        &path,
                        "is a symbolic link, which is not followed when records are extracted",
                    ));
                }
                Some(_) => {
                    return Err(OpsError::destination(&path, "is a file where a folder is needed"));
                }
            }
        }
        Ok(true)
    }

    fn look_at_file(&self, path: &Path) -> Result<()> {
        match examine(path)? {
            None => Ok(()),
            Some(_) if !self.overwrite => Err(OpsError::Exists { path: path.to_owned() }),
            Some(found) if found.is_dir() => {
                Err(OpsError::destination(path, "is a folder where a file is needed"))
            }
            Some(found) if !found.is_file() && !found.is_symlink() => {
                Err(OpsError::destination(path, "is not a regular file"))
            }
            Some(_) => Ok(()),
        }
    }

    /// Writes one file under a temporary name; it goes when nobody gives it its own. A link in
    /// its place is replaced, not followed.
    fn write(&self, file: &Planned, content: &[u8]) -> Result<TempPath> {
        let path = self.dir.join(&file.file);
        let folder = path.parent().unwrap_or(self.dir);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".iac-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As any new file: the process's mask takes away what it should.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let mut temporary = builder
            .tempfile_in(folder)
            .map_err(OpsError::io(&path, "cannot create a temporary file beside it"))?;
        temporary.write_all(content).map_err(OpsError::io(&path, "cannot write the file"))?;
        if let Some(modified) = file.modified {
            // Some file systems cannot express every time: the content matters more.
            let _ = temporary.as_file().set_modified(modified);
        }
        // Closed at once: many may wait for their turn.
        Ok(temporary.into_temp_path())
    }

    /// Gives a written file its name.
    fn publish(&self, temporary: TempPath, file: &str) -> Result<()> {
        let path = self.dir.join(file);
        let published = if self.overwrite {
            temporary.persist(&path)
        } else {
            temporary.persist_noclobber(&path)
        };
        match published {
            Ok(()) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(OpsError::Exists { path })
            }
            Err(error) => Err(OpsError::io(&path, "cannot give the file its name")(error.error)),
        }
    }
}

fn examine(path: &Path) -> Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpsError::io(path, "cannot examine it")(error)),
    }
}
