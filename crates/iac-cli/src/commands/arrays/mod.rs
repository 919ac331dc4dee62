//! `iac arrays`: stores of n-dimensional arrays.

mod change;
mod show;
mod tag;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use iatrocache::Registry;
use iatrocache::arrays::blocking::{ArrayStore, Snapshot};
use iatrocache::arrays::{Filter, Location, Packing, StoreOptions};
use tempfile::TempDir;

use super::codec::CodecArg;
use crate::cli::Common;
use crate::failure::{Failure, Result};

/// Look into, read, write and keep stores of n-dimensional arrays
///
/// A store is a folder (or a prefix of an object store) that holds any number of arrays in versions.
/// A version can be a single .iac file as well, which the commands that only read take in place of
/// a store.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  iac arrays import chest.nii.gz -o study.arrays
  iac arrays ls study.arrays
  iac arrays read study.arrays chest --start 40,0,0 --shape 1,512,512 -o slice.npy"
)]
pub(crate) struct ArraysArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ls(show::LsArgs),
    Info(show::InfoArgs),
    History(show::HistoryArgs),
    Read(show::ReadArgs),
    Write(change::WriteArgs),
    Import(change::ImportArgs),
    Export(change::ExportArgs),
    Compact(change::CompactArgs),
    Gc(change::GcArgs),
    Verify(show::VerifyArgs),
    Tag(tag::TagArgs),
}

pub(crate) fn run(arguments: &ArraysArgs, common: &Common) -> Result<ExitCode> {
    match &arguments.command {
        Command::Ls(arguments) => show::ls(arguments, common),
        Command::Info(arguments) => show::info(arguments, common),
        Command::History(arguments) => show::history(arguments, common),
        Command::Read(arguments) => show::read(arguments, common),
        Command::Verify(arguments) => show::verify(arguments, common),
        Command::Tag(arguments) => tag::tag(arguments, common),
        Command::Write(arguments) => change::write(arguments, common),
        Command::Import(arguments) => change::import(arguments, common),
        Command::Export(arguments) => change::export(arguments, common),
        Command::Compact(arguments) => change::compact(arguments, common),
        Command::Gc(arguments) => change::gc(arguments, common),
    }
}

/// A store, or a version as a single file.
#[derive(Debug, Args)]
struct Source {
    /// The store: a folder, a URL, or a single .iac file
    store: PathBuf,
    /// A version of the past, by its number or tag [default: the newest]
    #[arg(long, value_name = "VERSION")]
    at: Option<tag::At>,
}

impl Source {
    fn open(&self, common: &Common) -> Result<Snapshot> {
        let Some(at) = &self.at else {
            return match remote(&self.store)? {
                Some(location) => Ok(ArrayStore::open(location, options(common)?)?.snapshot()),
                None => Ok(Snapshot::open_path(&self.store, &options(common)?)?),
            };
        };
        at.open(&open(&self.store, common)?)
    }
}

/// Opens a store that is there.
fn open(path: &Path, common: &Common) -> Result<ArrayStore> {
    Ok(match remote(path)? {
        Some(location) => ArrayStore::open(location, options(common)?)?,
        None => ArrayStore::open_path(path, options(common)?)?,
    })
}

/// A store that is written to: one that is there, or a new one in a folder, which gets its name when
/// something is in it.
struct Written {
    store: ArrayStore,
    new: Option<(TempDir, PathBuf)>,
}

impl Written {
    /// Opens a store, or makes one where nothing is.
    fn open(path: &Path, common: &Common) -> Result<Self> {
        let options = options(common)?;
        let there = |store| Self { store, new: None };
        if let Some(location) = remote(path)? {
            return Ok(there(match ArrayStore::open(location.clone(), options.clone()) {
                Err(iatrocache::arrays::ArrayError::NotFound { .. }) => {
                    ArrayStore::create(location, options)?
                }
                other => other?,
            }));
        }
        if path.join("versions").is_dir() {
            return Ok(there(ArrayStore::open_path(path, options)?));
        }
        if path.symlink_metadata().is_ok() {
            let empty = path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
            if !empty {
                return Err(Failure::usage(format!(
                    "{}: this is no store of arrays",
                    path.display()
                )));
            }
        }
        // An empty folder may be a link or have a file system of its own, so it stays what it is.
        let folder = if path.is_dir() { path } else { folder_of(path) };
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::io(folder, "cannot make the folder", &error))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".iac.").suffix(".part");
        // What an ordinary new folder would get; the system takes the umask off.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let made = builder
            .tempdir_in(folder)
            .map_err(|error| Failure::io(path, "cannot make the store", &error))?;
        let store = ArrayStore::create(Location::folder(made.path())?, options)?;
        Ok(Self { store, new: Some((made, path.to_owned())) })
    }

    /// Gives a new store its name. Whoever made one there meanwhile keeps it.
    fn publish(self) -> Result<()> {
        let Some((made, path)) = self.new else {
            return Ok(());
        };
        let failed = |error| Failure::io(&path, "cannot give the store its name", &error);
        let folder = if made.path().parent() == Some(path.as_path()) {
            // What makes a folder a store comes last.
            let mut inner = std::fs::read_dir(made.path())
                .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
                .map_err(failed)?;
            inner.sort_by_key(|entry| entry.file_name() == "versions");
            for entry in inner {
                std::fs::rename(entry.path(), path.join(entry.file_name())).map_err(failed)?;
            }
            made.close().map_err(failed)?;
            path.as_path()
        } else {
            // A folder takes the place of an empty one and of nothing else.
            std::fs::rename(made.path(), &path).map_err(failed)?;
            drop(made.keep());
            folder_of(&path)
        };
        iatrocache::writer::sync_folder(folder)
            .map_err(|error| Failure::io(folder, "cannot sync the folder", &error))
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Adds an array to a store, which is made where nothing is, as a new version.
#[cfg(feature = "volume-arrays")]
pub(super) fn add(
    path: &Path,
    name: &str,
    spec: iatrocache::arrays::ArraySpec,
    data: iatrocache::arrays::ArrayData,
    common: &Common,
) -> Result<()> {
    let mut written = Written::open(path, common)?;
    written.store.define(name, spec)?;
    written.store.write(name, &vec![0; data.shape().len()], data)?;
    written.store.flush()?;
    written.publish()
}

/// Where a store lies whose place is a URL.
#[cfg(feature = "object-store")]
fn remote(path: &Path) -> Result<Option<Location>> {
    use iatrocache::reader::object::{ObjectLocation, StoreOptions};

    let Some(url) = path.to_str().filter(|text| ObjectLocation::is_url(text)) else {
        return Ok(None);
    };
    let failed = |error| Failure::io(path, "cannot reach the store", &error);
    let place = ObjectLocation::parse(url, &StoreOptions::default()).map_err(failed)?;
    if let Some(local) = place.local_path() {
        return Ok(Some(Location::folder(local)?));
    }
    let (store, root) = place.store().map_err(failed)?;
    Ok(Some(Location::object_store(store, root.as_ref())))
}

#[cfg(not(feature = "object-store"))]
fn remote(path: &Path) -> Result<Option<Location>> {
    super::refuse_url(path)?;
    Ok(None)
}

fn options(common: &Common) -> Result<StoreOptions> {
    let options = StoreOptions::default();
    Ok(match common.workers {
        Some(workers) => options.workers(workers)?,
        None => options,
    })
}

/// How chunks of new arrays are packed.
#[derive(Debug, Args)]
struct PackingArgs {
    /// How chunks are packed, as NAME or NAME:KEY=VALUE,KEY=VALUE; a codec of images packs planes of
    /// samples [default: zstd:level=3]
    #[arg(long, value_name = "CODEC")]
    codec: Option<CodecArg>,
    /// What numbers pass through before the codec, in this order [default: shuffle, and none where
    /// the codec is none]
    #[arg(long, value_name = "FILTER,...", value_delimiter = ',')]
    filters: Vec<FilterArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FilterArg {
    /// All first bytes of the numbers, then all second bytes
    Shuffle,
    /// All lowest bits of the numbers, then all second bits
    Bitshuffle,
    /// Every byte less that of the number before
    Delta,
    /// Nothing
    None,
}

impl PackingArgs {
    /// What was asked for; none if nothing was.
    fn packing(&self) -> Result<Option<Packing>> {
        if self.codec.is_none() && self.filters.is_empty() {
            return Ok(None);
        }
        let codec =
            self.codec.as_ref().map(|CodecArg(spec)| Registry::global().create_encoder(spec));
        let codec = codec.transpose().map_err(|error| Failure::codec(&error))?;
        let (bytes, images) = match codec {
            Some(codec) if codec.as_image_codec().is_some() => (None, Some(codec)),
            other => (other, None),
        };
        let stored = bytes.as_ref().is_some_and(|codec| codec.is_identity());
        let mut packing = match bytes {
            Some(codec) => Packing::new(codec)?,
            None => Packing::zstd(3)?,
        };
        let filters = self.filters()?;
        match filters {
            Some(filters) if stored && !filters.is_empty() => {
                return Err(Failure::usage(
                    "filters make nothing smaller alone: --filters needs a --codec other than none",
                ));
            }
            Some(filters) => packing = packing.with_filters(&filters),
            None if !stored => packing = packing.with_filters(&[Filter::Shuffle]),
            None => {}
        }
        Ok(Some(match images {
            Some(codec) => packing.with_images(codec)?,
            None => packing,
        }))
    }

    fn filters(&self) -> Result<Option<Vec<Filter>>> {
        if self.filters.is_empty() {
            return Ok(None);
        }
        if self.filters.contains(&FilterArg::None) && self.filters.len() > 1 {
            return Err(Failure::usage("--filters none leaves no room for others"));
        }
        let filters = self.filters.iter().filter_map(|filter| match filter {
            FilterArg::Shuffle => Some(Filter::Shuffle),
            FilterArg::Bitshuffle => Some(Filter::BitShuffle),
            FilterArg::Delta => Some(Filter::Delta),
            FilterArg::None => None,
        });
        Ok(Some(filters.collect()))
    }
}

/// Numbers with commas between them: `64,64,64`.
fn numbers(text: &str) -> std::result::Result<Numbers, String> {
    let numbers: Option<Vec<u64>> = match text.trim() {
        "" => Some(Vec::new()),
        text => text.split(',').map(|part| part.trim().parse().ok()).collect(),
    };
    numbers.map(Numbers).ok_or_else(|| format!("`{text}` is no list of numbers, as 64,64,64"))
}

/// A shape or a place in an array.
#[derive(Debug, Clone)]
struct Numbers(Vec<u64>);

/// A shape as people read it.
fn shape(extents: &[u64]) -> String {
    if extents.is_empty() {
        return "scalar".to_owned();
    }
    extents.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}
