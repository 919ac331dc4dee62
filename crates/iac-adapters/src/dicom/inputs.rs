//! Where objects come from: files, folders, zip archives, media directories, memory.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dicom_core::Tag;
use iac_format::ErrorKind;

use super::fault::Fault;
use super::parse;
use crate::error::{AdapterError, Result};

/// Bytes of a file that tell whether it may be an object.
const SNIFFED: usize = 132;

/// The class of directories of media, which describe objects and are none to be packed.
pub(crate) const MEDIA_DIRECTORY: &str = "1.2.840.10008.1.3.10";

/// One object to be packed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DicomInput {
    /// A file.
    File(PathBuf),
    /// Bytes, with a name for messages.
    Bytes(String, Bytes),
    /// An entry of a zip archive, by its position.
    Entry(PathBuf, usize),
    /// Something that turned out not to be readable, reported when its turn comes.
    Failed(String, ErrorKind, String),
}

impl DicomInput {
    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Bytes(name, _) | Self::Failed(name, ..) => name.clone(),
            Self::Entry(path, position) => format!("{}:{position}", path.display()),
        }
    }

    pub(crate) fn load(self, most: u64) -> std::result::Result<Bytes, Fault> {
        match self {
            Self::Bytes(_, bytes) => Ok(bytes),
            Self::Failed(_, kind, reason) => Err(Fault::new(kind, reason)),
            Self::Entry(path, position) => {
                let mut archive =
                    open_zip(&path).map_err(|error| Fault::new(error.kind(), error.reason()))?;
                unzip(&path, &mut archive, position, most).load(most)
            }
            Self::File(path) => {
                let io = |error: std::io::Error| {
                    Fault::new(ErrorKind::Io, format!("cannot be read: {error}"))
                };
                let file = File::open(&path).map_err(io)?;
                let length = file.metadata().map_err(io)?.len();
                if length > most {
                    return Err(Fault::new(
                        ErrorKind::Limit,
                        format!("has {length} bytes, and at most {most} are allowed"),
                    ));
                }
                let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
                file.take(most).read_to_end(&mut bytes).map_err(io)?;
                Ok(bytes.into())
            }
        }
    }
}

impl From<PathBuf> for DicomInput {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

#[derive(Debug, Clone)]
enum Source {
    File(PathBuf),
    /// Entries of an archive, by position.
    Zip(PathBuf, Vec<usize>),
}

/// Objects that were found; archives are opened when their turn comes.
#[derive(Debug, Clone, Default)]
pub struct DicomInputs {
    sources: Vec<Source>,
    count: usize,
}

impl DicomInputs {
    /// Finds objects under paths.
    ///
    /// Folders are searched to any depth, in the order of their paths, without following links to
    /// folders: files whose names end in `.dcm`, `.dicom` or `.ima` in any case, files without a
    /// suffix that begin like an object, and the entries of `.zip` archives by the same rules. A
    /// file that is given itself is taken whatever its name; of a media directory (`DICOMDIR`) the
    /// files that it lists.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`] when a path cannot be read; [`AdapterError::Source`] for an archive or
    /// media directory that is damaged.
    pub fn find(paths: &[PathBuf]) -> Result<Self> {
        let mut found = Self::default();
        for path in paths {
            let metadata =
                std::fs::metadata(path).map_err(AdapterError::io(path, "cannot be examined"))?;
            if metadata.is_dir() {
                found.search(path)?;
            } else if has_suffix(path, &["zip"]) {
                found.add_zip(path)?;
            } else if is_media_directory(path) {
                found.add_listed(path)?;
            } else {
                found.add_file(path.clone());
            }
        }
        Ok(found)
    }

    /// Number of objects.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing was found.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add_file(&mut self, path: PathBuf) {
        self.sources.push(Source::File(path));
        self.count = self.count.saturating_add(1);
    }

    fn search(&mut self, folder: &Path) -> Result<()> {
        let mut open = vec![folder.to_owned()];
        let mut files = Vec::new();
        while let Some(folder) = open.pop() {
            let entries = std::fs::read_dir(&folder)
                .map_err(AdapterError::io(&folder, "cannot be listed"))?;
            for entry in entries {
                let entry = entry.map_err(AdapterError::io(&folder, "cannot be listed"))?;
                let path = entry.path();
                let kind =
                    entry.file_type().map_err(AdapterError::io(&path, "cannot be examined"))?;
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() || (kind.is_symlink() && path.is_file()) {
                    files.push(path);
                }
            }
        }
        files.sort();
        for path in files {
            if has_suffix(&path, &["zip"]) {
                self.add_zip(&path)?;
            } else if is_wanted(&path, || sniff(&path)) {
                self.add_file(path);
            }
        }
        Ok(())
    }

    fn add_zip(&mut self, path: &Path) -> Result<()> {
        let mut archive = open_zip(path)?;
        let mut names: Vec<(String, usize)> = Vec::new();
        for position in 0..archive.len() {
            let damaged = |error: zip::result::ZipError| {
                source_error(path, format!("entry {position} cannot be read: {error}"))
            };
            let mut entry = archive.by_index(position).map_err(damaged)?;
            if !entry.is_file() {
                continue;
            }
            let name = entry.name().map_or_else(|_| position.to_string(), |name| name.into_owned());
            let begin = || {
                let mut head = Vec::new();
                let read = entry.by_ref().take(132).read_to_end(&mut head);
                read.is_ok() && begins_like_an_object(&head)
            };
            if is_wanted(Path::new(&name), begin) {
                names.push((name, position));
            }
        }
        names.sort();
        self.count = self.count.saturating_add(names.len());
        let positions = names.into_iter().map(|(_, position)| position).collect();
        self.sources.push(Source::Zip(path.to_owned(), positions));
        Ok(())
    }

    /// The files that a media directory lists.
    fn add_listed(&mut self, path: &Path) -> Result<()> {
        let bytes = DicomInput::File(path.to_owned())
            .load(1 << 30)
            .and_then(|bytes| parse::parse(&bytes, 1 << 30))
            .map_err(|fault| source_error(path, fault.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let records = bytes.data.get(Tag(0x0004, 0x1220)).and_then(|element| element.items());
        for record in records.unwrap_or_default() {
            let Some(id) = record.ascii(Tag(0x0004, 0x1500)).filter(|id| !id.is_empty()) else {
                continue;
            };
            let mut file = folder.to_owned();
            for part in id.split('\\') {
                let part = part.trim();
                if part.is_empty() || part == "." || part == ".." || part.contains(['/', '\0']) {
                    return Err(source_error(
                        path,
                        "it lists a file that lies outside of its folder",
                    ));
                }
                file.push(part);
            }
            self.add_file(file);
        }
        Ok(())
    }

    /// The objects without their bytes, to be read in any order.
    pub(crate) fn into_places(self) -> impl Iterator<Item = DicomInput> + Send {
        self.sources.into_iter().flat_map(|source| match source {
            Source::File(path) => vec![DicomInput::File(path)],
            Source::Zip(path, entries) => {
                entries.into_iter().map(|entry| DicomInput::Entry(path.clone(), entry)).collect()
            }
        })
    }

    pub(crate) fn into_iter_bounded(self, most: u64) -> impl Iterator<Item = DicomInput> + Send {
        self.sources.into_iter().flat_map(move |source| {
            let inputs: Box<dyn Iterator<Item = DicomInput> + Send> = match source {
                Source::File(path) => Box::new(std::iter::once(DicomInput::File(path))),
                Source::Zip(path, entries) => match open_zip(&path) {
                    Ok(mut archive) => Box::new(
                        entries
                            .into_iter()
                            .map(move |position| unzip(&path, &mut archive, position, most)),
                    ),
                    Err(error) => {
                        let failed = DicomInput::Failed(
                            path.display().to_string(),
                            error.kind(),
                            error.reason(),
                        );
                        Box::new(std::iter::once(failed))
                    }
                },
            };
            inputs
        })
    }
}

fn unzip(
    path: &Path,
    archive: &mut zip::ZipArchive<File>,
    position: usize,
    most: u64,
) -> DicomInput {
    let failed = |name: String, kind, reason: String| DicomInput::Failed(name, kind, reason);
    match archive.by_index(position) {
        Ok(entry) => {
            let inner =
                entry.name().map_or_else(|_| position.to_string(), |name| name.into_owned());
            let name = format!("{}:{inner}", path.display());
            let mut bytes = Vec::new();
            match entry.take(most.saturating_add(1)).read_to_end(&mut bytes) {
                Ok(_) if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most => failed(
                    name,
                    ErrorKind::Limit,
                    format!("has more than the allowed {most} bytes"),
                ),
                Ok(_) => DicomInput::Bytes(name, bytes.into()),
                Err(error) => {
                    failed(name, ErrorKind::Decode, format!("cannot be unpacked: {error}"))
                }
            }
        }
        Err(error) => failed(
            format!("{}:{position}", path.display()),
            ErrorKind::Decode,
            format!("cannot be unpacked: {error}"),
        ),
    }
}

fn open_zip(path: &Path) -> Result<zip::ZipArchive<File>> {
    let file = File::open(path).map_err(AdapterError::io(path, "cannot be opened"))?;
    zip::ZipArchive::new(file)
        .map_err(|error| source_error(path, format!("is no sound zip archive: {error}")))
}

fn source_error(path: &Path, reason: impl Into<String>) -> AdapterError {
    AdapterError::Source {
        path: path.to_owned(),
        row: None,
        kind: ErrorKind::Decode,
        reason: reason.into(),
    }
}

fn has_suffix(path: &Path, suffixes: &[&str]) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str()).map(str::to_ascii_lowercase);
    suffix.is_some_and(|suffix| suffixes.contains(&suffix.as_str()))
}

fn is_wanted(path: &Path, begins_like_one: impl FnOnce() -> bool) -> bool {
    if has_suffix(path, &["dcm", "dicom", "ima"]) {
        return true;
    }
    // Names that are identifiers have dots, which are no suffixes.
    let plain = match path.extension().and_then(|suffix| suffix.to_str()) {
        None => true,
        Some(suffix) => suffix.bytes().all(|byte| byte.is_ascii_digit()),
    };
    let directory = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("DICOMDIR"));
    plain && !directory && begins_like_one()
}

fn begins_like_an_object(head: &[u8]) -> bool {
    head.get(128..132) == Some(b"DICM") || matches!(head, [2 | 8, 0, _, 0, ..])
}

fn sniff(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| {
        file.take(u64::try_from(SNIFFED).unwrap_or(u64::MAX)).read_to_end(&mut head)
    });
    read.is_ok() && begins_like_an_object(&head)
}

fn is_media_directory(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("DICOMDIR"))
}
