//! `iac demo`: a made-up cohort, packed, verified, read back and measured.

#[cfg(feature = "arrays")]
mod arrays;
mod cohort;
mod measure;
#[cfg(feature = "text")]
mod notes;
#[cfg(feature = "dicom")]
mod scans;
#[cfg(feature = "wsi-import")]
mod slide;
#[cfg(all(feature = "tiles", feature = "features"))]
mod tiles;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use iatrocache::ops::check::{CheckOptions, check};
use iatrocache::ops::raw::{RawPackOptions, pack_raw};
use iatrocache::{ErrorKind, WriteOptions, WriteSummary};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::cohort::{Kind, Made, PATIENTS};
use self::measure::{BATCH, Cohort, Rate, Rates};
use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Report, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Folder of the source files, and the pack.
const SOURCES: &str = "cohort";
const PACK: &str = "cohort.iac";
/// The notes as a pack of clinical text.
const NOTES_PACK: &str = "notes.iac";
/// A series of slices, its pack, and three planes of it.
#[cfg(feature = "dicom")]
const SCANS: [&str; 3] = ["scans", "scans.rad.iac", "scans.png"];

/// Make a small synthetic cohort, pack it, verify it, read it back, and show the rates
///
/// Nothing real is used: files are made up from a fixed seed. Without --dir everything is removed
/// at the end.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac demo
  iac demo --dir my-demo     keeps files and packs in my-demo

With --json, one object: {\"files\",\"source_bytes\",\"pack_bytes\",\"pack_seconds\",
\"verify_seconds\",\"compared\",\"rates\":{WAY:{\"records_per_second\",\"bytes_per_second\"}},
\"notes\":{\"patients\",\"documents\",\"file_bytes\",\"reads_per_second\"},
\"tiles\":{\"tiles\",\"slides\",\"file_bytes\",\"sheet_bytes\",\"reads_per_second\"} or {\"skipped\"},
\"features\":{\"rows\",\"dim\",\"dtype\",\"file_bytes\",\"reads_per_second\"},
\"scans\":{\"instances\",\"source_bytes\",\"file_bytes\",\"volume\"} or {\"skipped\"},
\"slide\":{\"width\",\"height\",\"source_bytes\",\"file_bytes\",\"stored_tiles\",\"background_tiles\",
\"region_seconds\",\"thumbnail_seconds\"},
\"arrays\":{\"shape\",\"raw_bytes\",\"store_bytes\",\"chunks\",\"chunks_with_bone\"},\"pack\"} (\"pack\" only
with --dir).")]
pub(crate) struct DemoArgs {
    /// Keep what is made in this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// What the demo has done.
struct Done {
    made: Made,
    written: WriteSummary,
    pack_time: Duration,
    verify_time: Duration,
    compared: u64,
    rates: Rates,
    #[cfg(feature = "text")]
    notes: notes::Notes,
    #[cfg(all(feature = "tiles", feature = "features"))]
    tiles: tiles::Tiles,
    #[cfg(feature = "dicom")]
    scans: scans::Scans,
    #[cfg(feature = "wsi-import")]
    slide: slide::Slide,
    #[cfg(feature = "arrays")]
    arrays: arrays::Arrays,
}

pub(crate) fn run(arguments: &DemoArgs, common: &Common) -> Result<ExitCode> {
    let writing = interrupt::writing()?;
    let kept = arguments.dir.as_deref();
    let temporary = match kept {
        Some(dir) => {
            check_free(dir)?;
            fs::create_dir_all(dir)
                .map_err(|error| Failure::io(dir, "cannot make the folder", &error))?;
            None
        }
        None => Some(temporary_folder(&std::env::temp_dir())?),
    };
    let home = match (kept, &temporary) {
        (Some(dir), _) => dir,
        (None, Some(temporary)) => temporary.path(),
        (None, None) => Path::new("."),
    };
    let done = work(home, common)?;
    if let Some(temporary) = temporary {
        let path = temporary.path().to_owned();
        temporary
            .close()
            .map_err(|error| Failure::io(&path, "cannot remove the folder", &error))?;
    }
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&document(&done, kept))?;
    } else {
        page(&done, kept, &mut out)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a folder that already holds what the demo makes.
fn check_free(dir: &Path) -> Result<()> {
    let names = [
        SOURCES,
        PACK,
        NOTES_PACK,
        #[cfg(feature = "dicom")]
        SCANS[0],
        #[cfg(feature = "dicom")]
        SCANS[1],
        #[cfg(feature = "dicom")]
        SCANS[2],
    ];
    #[cfg(all(feature = "tiles", feature = "features"))]
    let names = names.into_iter().chain(tiles::NAMES);
    #[cfg(feature = "wsi-import")]
    let names = names.into_iter().chain(slide::NAMES);
    #[cfg(feature = "arrays")]
    let names = names.into_iter().chain(arrays::NAMES);
    for name in names {
        let path = dir.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(Report::new(
                ErrorKind::Exists,
                format!("{}: exists already", path.display()),
            )
            .path(&path)
            .hint("remove it, or name another folder")
            .into());
        }
    }
    Ok(())
}

fn temporary_folder(parent: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(".iac-demo.")
        .suffix(".part")
        .tempdir_in(parent)
        .map_err(|error| Failure::io(parent, "cannot make a temporary folder", &error))
}

fn work(home: &Path, common: &Common) -> Result<Done> {
    // Under a temporary name until it is complete, as a pack is.
    let unfinished = temporary_folder(home)?;
    let made = cohort::make(unfinished.path())?;
    let sources = home.join(SOURCES);
    give_name(unfinished, &sources)?;

    let pack = home.join(PACK);
    let mut options = RawPackOptions::default();
    options.recursive = true;
    options.workers = common.workers;
    options.write = WriteOptions::new();
    let start = Instant::now();
    let progress = Shown::new(common, Unit::Bytes);
    let summary = pack_raw(std::slice::from_ref(&sources), &pack, &options, &progress)?;
    let pack_time = start.elapsed();

    let mut options = CheckOptions::default();
    options.workers = common.workers;
    options.decode = u64::MAX;
    let start = Instant::now();
    let progress = Shown::new(common, Unit::Bytes);
    let found = check(std::slice::from_ref(&pack), &options, &progress, &mut |_| Ok(()))?;
    let verify_time = start.elapsed();
    if found.faults > 0 {
        let message = format!(
            "{}: {} right after writing",
            pack.display(),
            human::counted(found.faults, "fault")
        );
        return Err(Report::new(ErrorKind::Damaged, message).path(&pack).into());
    }

    let reader = super::open(&pack, common)?;
    let cohort = Cohort::load(&reader, &sources)?;
    let compared = cohort.compare()?;
    if compared != made.files() {
        let message = format!(
            "{}: {} where {} were packed",
            pack.display(),
            human::counted(compared, "record"),
            human::counted(made.files(), "file")
        );
        return Err(Report::new(ErrorKind::Damaged, message).path(&pack).into());
    }
    let rates = cohort.measure()?;
    Ok(Done {
        made,
        written: summary.written,
        pack_time,
        verify_time,
        compared,
        rates,
        #[cfg(feature = "text")]
        notes: notes::pack_notes(&sources, &home.join(NOTES_PACK), common)?,
        #[cfg(all(feature = "tiles", feature = "features"))]
        tiles: tiles::pack_tiles(home, common)?,
        #[cfg(feature = "dicom")]
        scans: scans::pack_scans(SCANS.map(|name| home.join(name)), common)?,
        #[cfg(feature = "wsi-import")]
        slide: slide::pack_slide(slide::NAMES.map(|name| home.join(name)), common)?,
        #[cfg(feature = "arrays")]
        arrays: arrays::store_volume(home, common)?,
    })
}

/// Renames a finished folder to what it is called, with the rights of an ordinary one.
fn give_name(folder: TempDir, name: &Path) -> Result<()> {
    let failed = |error| Failure::io(name, "cannot make the folder", &error);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The patients' folders were made the ordinary way, so theirs are the usual rights.
        if let Some(Ok(inner)) = fs::read_dir(folder.path()).map_err(failed)?.next() {
            let mode = inner.metadata().map_err(failed)?.permissions().mode();
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).map_err(failed)?;
        }
    }
    fs::rename(folder.path(), name).map_err(failed)?;
    // Nothing is left under the temporary name.
    drop(folder.keep());
    Ok(())
}

/// The ways of reading with their names, slowest first as a rule.
const fn ways(rates: &Rates) -> [(&'static str, &'static str, Rate); 6] {
    [
        ("files", "source files, opened one by one", rates.files),
        ("single", "pack, one record at a time", rates.single),
        ("batches", "pack, batches of 256", rates.batches),
        ("contiguous", "pack, batches into one buffer", rates.contiguous),
        ("views", "pack, views (nothing copied)", rates.views),
        ("memory_copy", "plain copy of them in memory", rates.copy),
    ]
}

fn document(done: &Done, kept: Option<&Path>) -> Value {
    let rates: serde_json::Map<String, Value> = ways(&done.rates)
        .into_iter()
        .map(|(name, _, rate)| {
            let mut object = serde_json::Map::new();
            if rate.records > 0 {
                let records = human::per_second(rate.records, rate.time);
                object.insert("records_per_second".into(), json!(records));
            }
            if rate.bytes > 0 {
                let bytes = human::per_second(rate.bytes, rate.time);
                object.insert("bytes_per_second".into(), json!(bytes));
            }
            (name.to_owned(), Value::Object(object))
        })
        .collect();
    let mut document = json!({
        "files": done.made.files(),
        "source_bytes": done.made.bytes(),
        "pack_bytes": done.written.file_bytes,
        "pack_seconds": done.pack_time.as_secs_f64(),
        "verify_seconds": done.verify_time.as_secs_f64(),
        "compared": done.compared,
        "rates": rates,
    });
    #[cfg(feature = "text")]
    if let Some(members) = document.as_object_mut() {
        members.insert("notes".into(), done.notes.document());
    }
    #[cfg(all(feature = "tiles", feature = "features"))]
    if let Some(members) = document.as_object_mut() {
        members.extend(done.tiles.documents().map(|(name, value)| (name.to_owned(), value)));
    }
    #[cfg(feature = "dicom")]
    if let Some(members) = document.as_object_mut() {
        members.insert("scans".into(), done.scans.document());
    }
    #[cfg(feature = "wsi-import")]
    if let Some(members) = document.as_object_mut() {
        members.insert("slide".into(), done.slide.document());
    }
    #[cfg(feature = "arrays")]
    if let Some(members) = document.as_object_mut() {
        members.insert("arrays".into(), done.arrays.document());
    }
    if let (Some(dir), Some(members)) = (kept, document.as_object_mut()) {
        members.insert("pack".into(), shown(&dir.join(PACK)).into());
    }
    document
}

fn page(done: &Done, kept: Option<&Path>, out: &mut Out) -> Result<()> {
    let title = out.bold("IatroCache demo: many small files become one pack");
    out.line(&title)?;
    out.line("")?;
    let made = &done.made;
    out.line(&format!(
        "  made      {} of {} for {PATIENTS} made-up patients:",
        human::counted(made.files(), "file"),
        human::bytes(made.bytes())
    ))?;
    let kinds: [(&str, Kind); 3] =
        [("notes", made.notes), ("feature vectors", made.vectors), ("image tiles", made.tiles)];
    let kinds = kinds.map(|(name, kind)| {
        format!("{} {name} ({})", human::count(kind.files), human::bytes(kind.bytes))
    });
    out.line(&format!("            {}", kinds.join(", ")))?;
    out.line(&format!(
        "  packed    into one file of {} in {:.2} s ({}, on the disk)",
        human::bytes(done.written.file_bytes),
        done.pack_time.as_secs_f64(),
        human::byte_rate(made.bytes(), done.pack_time)
    ))?;
    let sound = out.good("sound");
    out.line(&format!(
        "  verified  {sound}: header, tables and {} match their checksums ({:.2} s)",
        human::counted(done.written.rows, "record"),
        done.verify_time.as_secs_f64()
    ))?;
    let equal = out.good("equal");
    out.line(&format!(
        "  compared  {equal}: {}, read at random in three ways, have the bytes of their files",
        human::counted(done.compared, "record")
    ))?;
    #[cfg(feature = "text")]
    out.line(&done.notes.line())?;
    #[cfg(all(feature = "tiles", feature = "features"))]
    for line in done.tiles.lines() {
        out.line(&line)?;
    }
    #[cfg(feature = "dicom")]
    out.line(&done.scans.line())?;
    #[cfg(feature = "wsi-import")]
    out.line(&done.slide.line())?;
    #[cfg(feature = "arrays")]
    out.line(&done.arrays.line())?;
    out.line("")?;
    let title = out.bold(&format!(
        "{:<36}{:>14}{:>12}",
        "Reading at random, files in memory", "records", "bytes"
    ));
    out.line(&title)?;
    for (_, name, rate) in ways(&done.rates) {
        let records = match rate.records {
            0 => "-".to_owned(),
            records => human::record_rate(records, rate.time),
        };
        let bytes = match rate.bytes {
            0 => "-".to_owned(),
            bytes => human::byte_rate(bytes, rate.time),
        };
        out.line(&format!("  {name:<34}{records:>14}{bytes:>12}"))?;
    }
    for note in [
        format!("  Batches have {BATCH} records and may use all cores; the plain copy uses one."),
        "  Records are compared with their checksums, views are not.".to_owned(),
    ] {
        let note = out.dim(&note);
        out.line(&note)?;
    }
    out.line("")?;
    next(kept, out)?;
    #[cfg(all(feature = "tiles", feature = "features"))]
    if let Some(dir) = kept {
        for command in done.tiles.commands(dir) {
            out.line(&format!("  {command}"))?;
        }
    }
    Ok(())
}

fn next(kept: Option<&Path>, out: &mut Out) -> Result<()> {
    let title = out.bold("What to try next");
    out.line(&title)?;
    let Some(dir) = kept else {
        out.line("  iac demo --dir my-demo     the same again, and the files stay")?;
        return out.line("  iac --help                 all commands");
    };
    let pack = quoted(&dir.join(PACK));
    let out_dir = quoted(&dir.join("copies"));
    for command in [
        format!("iac info {pack}"),
        format!("iac ls {pack} --where \"path like 'P001/%' and bytes > 4096\""),
        format!("iac cat {pack} --rows 10 | less"),
        format!("iac extract {pack} --dir {out_dir} --where \"path like '%.txt'\""),
        format!("iac verify {pack}"),
        #[cfg(feature = "text")]
        format!("iac text show {} P001 --list", quoted(&dir.join(NOTES_PACK))),
        #[cfg(feature = "arrays")]
        format!("iac arrays info {} ct", quoted(&dir.join(arrays::NAMES[0]))),
    ] {
        out.line(&format!("  {command}"))?;
    }
    Ok(())
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = human_safe(&shown(path));
    let plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
