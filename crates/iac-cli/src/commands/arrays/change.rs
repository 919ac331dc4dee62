//! What writes: `write`, `import`, `export`, `compact`, `gc`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use iatrocache::arrays::convert::{self, ExportOptions, FileKind, ImportOptions, parse_npy};
use iatrocache::arrays::{
    ArrayData, ArrayError, ArraySpec, CompactPolicy, FlushReport, GcOptions, Location,
};
use serde_json::json;

use super::{Numbers, PackingArgs, Source, Written, folder_of, numbers, open};
use crate::cli::Common;
use crate::failure::{Failure, Result};
use crate::human;
use crate::interrupt;
use crate::output::Out;

/// Write the elements of a NumPy file into an array, as a new version
///
/// An array that is not there is made, when --start is not given: with the type and the shape of
/// the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays write study.arrays mask mask.npy
  iac arrays write study.arrays mask patch.npy --start 40,100,100
  iac arrays write study.arrays ct ct.npy --codec zstd:level=9 --filters bitshuffle --fill -1024

With --json, one object: {\"version\",\"chunks\",\"layer_bytes\",\"needs_compaction\"}.")]
pub(super) struct WriteArgs {
    /// The store
    store: PathBuf,
    /// The array
    name: String,
    /// The NumPy file (.npy)
    file: PathBuf,
    /// Where the box begins [default: 0 along each axis]
    #[arg(long, value_name = "N,N,...", value_parser = numbers)]
    start: Option<Numbers>,
    /// The shape of chunks of a new array [default: automatic]
    #[arg(long, value_name = "N,N,...", value_parser = numbers)]
    chunks: Option<Numbers>,
    /// The element of a new array that nobody wrote: a number, true, NaN, a text [default: zero]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    fill: Option<String>,
    #[command(flatten)]
    packing: PackingArgs,
}

pub(super) fn write(arguments: &WriteArgs, common: &Common) -> Result<ExitCode> {
    let bytes = whole(&arguments.file)?;
    let data = parse_npy(&bytes)?;
    drop(bytes);
    let packing = arguments.packing.packing()?;
    let writing = interrupt::writing()?;
    let mut store = open(&arguments.store, common)?;
    let known = store.meta(&arguments.name).is_ok();
    if (known || arguments.start.is_some()) && (packing.is_some() || arguments.fill.is_some()) {
        return Err(Failure::usage(format!(
            "--codec, --filters and --fill are of new arrays; a box of `{}` is written as it is",
            arguments.name
        )));
    }
    let start = match (&arguments.start, known) {
        (Some(start), _) => start.0.clone(),
        (None, true) => vec![0; data.shape().len()],
        (None, false) => {
            let mut spec = ArraySpec::new(data.dtype().clone(), data.shape());
            if let Some(chunks) = &arguments.chunks {
                spec = spec.chunks(&chunks.0);
            }
            if let Some(fill) = &arguments.fill {
                spec = spec.fill_data(ArrayData::parse_element(data.dtype(), fill)?);
            }
            if let Some(packing) = &packing {
                spec = spec.packing(packing);
            }
            store.define(&arguments.name, spec)?;
            vec![0; data.shape().len()]
        }
    };
    store.write(&arguments.name, &start, data)?;
    let report = store.flush()?;
    drop(writing);
    told(&report, "published", common)
}

/// Reads a file of elements that is no larger than those that are imported: a file need not have on
/// the disk what it says it has, and a pipe need not end.
fn whole(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Failure::io(path, "cannot read the file", &error);
    let found = path.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(Failure::usage(format!("{}: it is no regular file", path.display())));
    }
    let allowed = ImportOptions::default().max_bytes;
    if found.len() > allowed {
        let what = "file of elements (bytes)";
        return Err(ArrayError::TooLarge { what, found: found.len(), allowed }.into());
    }
    std::fs::read(path).map_err(failed)
}

/// Bring arrays of other files into a store, which is made where nothing is
///
/// NumPy (.npy, .npz), NIfTI (.nii, .nii.gz, .hdr with .img), Zarr folders, files of the crate
/// array-format (.af), and single .iac files. All of them become one version, or none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays import chest.nii.gz -o study.arrays
  iac arrays import a.npy b.npy -o study.arrays --chunks 64,64,64
  iac arrays import volume.npy -o study.arrays --name ct/volume
  iac arrays import labels.nii.gz -o study.arrays --codec lz4 --filters bitshuffle

With --json, one object: {\"arrays\",\"bytes\",\"version\",\"chunks\",\"layer_bytes\",\"needs_compaction\"}.")]
pub(super) struct ImportArgs {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The store
    #[arg(short, long, value_name = "STORE")]
    output: PathBuf,
    /// The name of the array, or of the group for files with many [default: that of the file]
    #[arg(long)]
    name: Option<String>,
    /// The shape of chunks [default: that of the file, or automatic]
    #[arg(long, value_name = "N,N,...", value_parser = numbers)]
    chunks: Option<Numbers>,
    /// NIfTI: real values in place of stored ones
    #[arg(long)]
    scaled: bool,
    /// NumPy, NIfTI: the element that nobody wrote: a number, true, NaN, a text [default: zero]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    fill: Option<String>,
    #[command(flatten)]
    packing: PackingArgs,
}

pub(super) fn import(arguments: &ImportArgs, common: &Common) -> Result<ExitCode> {
    let mut options = ImportOptions::default().scaled(arguments.scaled);
    options.name.clone_from(&arguments.name);
    options.chunks = arguments.chunks.as_ref().map(|chunks| chunks.0.clone());
    options.fill.clone_from(&arguments.fill);
    let packing = arguments.packing.packing()?;
    if let Some(packing) = &packing {
        options = options.packing(packing);
    }
    let singles =
        arguments.files.iter().filter(|path| FileKind::of(path) == Some(FileKind::Iac)).count();
    if singles > 0 && (packing.is_some() || options.fill.is_some()) {
        return Err(Failure::usage(
            "a single .iac file comes as it is: --codec, --filters and --fill do not go with it",
        ));
    }
    if singles > 0 && arguments.files.len() > 1 {
        return Err(Failure::usage("a single .iac file is a version of its own: import it alone"));
    }
    let writing = interrupt::writing()?;
    let mut written = Written::open(&arguments.output, common)?;
    let store = &mut written.store;
    let (mut arrays, mut bytes) = (Vec::new(), 0_u64);
    let report = if let (1, Some(file)) = (singles, arguments.files.first()) {
        let (folder, name) = split(file)?;
        let report = store.import_file(Location::folder(folder)?, name)?;
        arrays.extend(store.snapshot().as_async().names().map(str::to_owned));
        report
    } else {
        for file in &arguments.files {
            interrupt::check()?;
            let imported = convert::import(store, file, &options)?;
            arrays.extend(imported.arrays);
            bytes = bytes.saturating_add(imported.bytes);
        }
        store.flush()?
    };
    written.publish()?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "arrays": arrays,
            "bytes": bytes,
            "version": report.version,
            "chunks": report.chunks,
            "layer_bytes": report.layer_bytes,
            "needs_compaction": report.needs_compaction,
        }))?;
    } else {
        let count = u64::try_from(arrays.len()).unwrap_or(u64::MAX);
        out.line(&format!(
            "{} in version {}, {}",
            human::counted(count, "array"),
            report.version,
            human::bytes(report.layer_bytes)
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn split(file: &Path) -> Result<(&Path, &str)> {
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Failure::usage(format!("{}: no file", file.display())))?;
    Ok((folder_of(file), name))
}

/// Write a version, or one array of it, as a file of another kind
///
/// The name says which: .npy and .nii(.gz) hold one array, .npz and .zarr all (or the one that is
/// named), .iac the whole version.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays export study.arrays chest -o chest.nii.gz
  iac arrays export study.arrays --at 3 -o study.iac

With --json, one object: {\"path\",\"bytes\"}.")]
pub(super) struct ExportArgs {
    #[command(flatten)]
    source: Source,
    /// The array [default: all, or the only one]
    name: Option<String>,
    /// The file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// NIfTI-2 also where NIfTI-1 could hold the array
    #[arg(long)]
    nifti2: bool,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn export(arguments: &ExportArgs, common: &Common) -> Result<ExitCode> {
    let snapshot = arguments.source.open(common)?;
    let options = ExportOptions::default().overwrite(arguments.overwrite).nifti2(arguments.nifti2);
    let writing = interrupt::writing()?;
    let path = &arguments.output;
    convert::export(&snapshot, arguments.name.as_deref(), path, &options)?;
    drop(writing);
    let found =
        path.metadata().map_err(|error| Failure::io(path, "cannot look at the result", &error))?;
    let bytes = found.is_file().then_some(found.len());
    let mut out = Out::new();
    if common.json {
        out.json(&json!({"path": path.to_string_lossy(), "bytes": bytes}))?;
    } else {
        let size = bytes.map(|bytes| format!("  {}", human::bytes(bytes))).unwrap_or_default();
        out.line(&format!("{}{size}", path.display()))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Join layers into one; the arrays do not change
///
/// Small layers are joined, large ones are left alone unless --all is given. Nothing is deleted: see
/// `iac arrays gc`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays compact study.arrays
  iac arrays compact study.arrays --all

With --json, one object: {\"version\",\"chunks\",\"layer_bytes\",\"needs_compaction\"}.")]
pub(super) struct CompactArgs {
    /// The store
    store: PathBuf,
    /// Join all layers
    #[arg(long)]
    all: bool,
}

pub(super) fn compact(arguments: &CompactArgs, common: &Common) -> Result<ExitCode> {
    let writing = interrupt::writing()?;
    let mut store = open(&arguments.store, common)?;
    let policy = if arguments.all { CompactPolicy::All } else { CompactPolicy::Tiers };
    let report = store.compact(policy)?;
    drop(writing);
    told(&report, "compacted", common)
}

fn told(report: &FlushReport, what: &str, common: &Common) -> Result<ExitCode> {
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "version": report.version,
            "chunks": report.chunks,
            "layer_bytes": report.layer_bytes,
            "needs_compaction": report.needs_compaction,
        }))?;
    } else if report.layer_bytes == 0 {
        out.line(&format!("nothing to do: version {}", report.version))?;
    } else {
        out.line(&format!(
            "{what} version {}: {}, {}",
            report.version,
            human::counted(report.chunks, "chunk"),
            human::bytes(report.layer_bytes)
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Delete old versions, and layers that no version needs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays gc study.arrays
  iac arrays gc study.arrays --keep 1 --grace 0    nothing else uses the store

With --json, one object: {\"versions\",\"layers\"}.")]
pub(super) struct GcArgs {
    /// The store
    store: PathBuf,
    /// Versions and objects younger than this stay, in seconds; longer than any flush takes
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    grace: u64,
    /// So many of the newest versions stay
    #[arg(long, value_name = "N", default_value_t = 10)]
    keep: usize,
}

pub(super) fn gc(arguments: &GcArgs, common: &Common) -> Result<ExitCode> {
    let writing = interrupt::writing()?;
    let store = open(&arguments.store, common)?;
    let grace = Duration::from_secs(arguments.grace);
    let report = store.gc(GcOptions { grace, keep_versions: arguments.keep })?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({"versions": report.versions, "layers": report.layers}))?;
    } else {
        let counted =
            |count: usize, noun| human::counted(u64::try_from(count).unwrap_or(u64::MAX), noun);
        out.line(&format!(
            "deleted {} and {}",
            counted(report.versions.len(), "version"),
            counted(report.layers.len(), "layer")
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
