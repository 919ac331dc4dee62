//! What only reads: `ls`, `info`, `history`, `read`, `verify`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::arrays::blocking::Snapshot;
use iatrocache::arrays::convert::npy_bytes;
use iatrocache::arrays::{ArrayMeta, NodeKind, Number, Stats};
use serde_json::{Map, Value, json};

use super::{Numbers, Source, numbers, open, shape};
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::output::Out;
use crate::place::NewFile;

/// Elements that are shown in a terminal.
const SHOWN: u64 = 10_000;

/// List the arrays and groups of a store
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays ls study.arrays
  iac arrays ls study.arrays --at 3 --json

With --json, one line for each array or group: {\"name\",\"kind\",\"dtype\",\"shape\",\"chunks\",\"dims\",
\"fill\",\"attrs\"}; groups have \"name\", \"kind\" and \"attrs\" only.")]
pub(super) struct LsArgs {
    #[command(flatten)]
    source: Source,
}

pub(super) fn ls(arguments: &LsArgs, common: &Common) -> Result<ExitCode> {
    let snapshot = arguments.source.open(common)?;
    let mut out = Out::new();
    for name in snapshot.as_async().names() {
        let meta = snapshot.meta(name)?;
        if common.json {
            out.json(&meta.to_json())?;
        } else {
            let name = out.bold(&human_safe(name));
            out.line(&format!("{name}  {}", described(meta)))?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn described(meta: &ArrayMeta) -> String {
    match meta.kind() {
        NodeKind::Array => format!(
            "{} of {}, chunks {}",
            shape(meta.shape()),
            human_safe(&meta.dtype().to_string()),
            shape(meta.chunks())
        ),
        _ => "group".to_owned(),
    }
}

/// Show a store, or one of its arrays with its attributes and statistics
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays info study.arrays
  iac arrays info study.arrays chest

With --json, one object: of a store {\"version\",\"layers\",\"layer_bytes\",\"arrays\",\"groups\",\"attrs\"};
of an array its line of `ls` and {\"stats\":{\"min\",\"max\",\"fill\",\"nan\",\"null\",\"values\",\"exact\"}}.")]
pub(super) struct InfoArgs {
    #[command(flatten)]
    source: Source,
    /// An array or group
    name: Option<String>,
}

pub(super) fn info(arguments: &InfoArgs, common: &Common) -> Result<ExitCode> {
    let snapshot = arguments.source.open(common)?;
    let mut out = Out::new();
    match &arguments.name {
        Some(name) => array(&snapshot, name, common, &mut out)?,
        None => store(&snapshot, common, &mut out)?,
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn store(snapshot: &Snapshot, common: &Common, out: &mut Out) -> Result<()> {
    let inner = snapshot.as_async();
    let (mut arrays, mut groups) = (0_u64, 0_u64);
    for name in inner.names() {
        match snapshot.meta(name)?.kind() {
            NodeKind::Array => arrays = arrays.saturating_add(1),
            _ => groups = groups.saturating_add(1),
        }
    }
    let attrs: Map<String, Value> =
        inner.store_attrs().iter().map(|(key, value)| (key.clone(), value.to_json())).collect();
    if common.json {
        return out.json(&json!({
            "version": inner.version(),
            "layers": inner.layers(),
            "layer_bytes": inner.layer_bytes(),
            "arrays": arrays,
            "groups": groups,
            "attrs": attrs,
        }));
    }
    let layers = u64::try_from(inner.layers()).unwrap_or(u64::MAX);
    out.line(&format!("version     {}", inner.version()))?;
    out.line(&format!(
        "layers      {}, {}",
        human::counted(layers, "layer"),
        human::bytes(inner.layer_bytes())
    ))?;
    out.line(&format!(
        "contents    {}, {}",
        human::counted(arrays, "array"),
        human::counted(groups, "group")
    ))?;
    attributes(&attrs, out)
}

fn array(snapshot: &Snapshot, name: &str, common: &Common, out: &mut Out) -> Result<()> {
    let meta = snapshot.meta(name)?;
    let stats = match meta.kind() {
        NodeKind::Array => Some(snapshot.stats(name)?),
        _ => None,
    };
    let mut document = meta.to_json();
    if common.json {
        if let (Some(members), Some(stats)) = (document.as_object_mut(), &stats) {
            members.insert("stats".to_owned(), stats_json(stats));
        }
        return out.json(&document);
    }
    let title = out.bold(&human_safe(name));
    out.line(&format!("{title}  {}", described(meta)))?;
    if meta.dims().iter().any(|dim| !dim.is_empty()) {
        out.line(&format!("axes        {}", human_safe(&meta.dims().join(", "))))?;
    }
    if let Some(fill) = document.get("fill").filter(|fill| !fill.is_null()) {
        out.line(&format!("fill        {fill}"))?;
    }
    if let Some(stats) = stats {
        let range = match stats.range {
            Some((least, greatest)) => format!("{} to {}", number(least), number(greatest)),
            None => "no range".to_owned(),
        };
        let kind = if stats.exact { "" } else { " (a bound)" };
        let nulls = match stats.null_count {
            0 => String::new(),
            nulls => format!("{} null, ", human::count(nulls)),
        };
        out.line(&format!(
            "elements    {range}{kind}, {} fill, {} NaN, {nulls}{} others",
            human::count(stats.fill_count),
            human::count(stats.nan_count),
            human::count(stats.value_count)
        ))?;
    }
    let attrs = document.get("attrs").and_then(Value::as_object).cloned().unwrap_or_default();
    attributes(&attrs, out)
}

fn attributes(attrs: &Map<String, Value>, out: &mut Out) -> Result<()> {
    for (key, value) in attrs {
        let text = value.to_string();
        let short: String = text.chars().take(200).collect();
        let more = if short.len() < text.len() { "…" } else { "" };
        out.line(&format!("  {} = {}{more}", human_safe(key), human_safe(&short)))?;
    }
    Ok(())
}

fn number(number: Number) -> String {
    match number {
        Number::Int(value) => value.to_string(),
        Number::Float(value) => value.to_string(),
    }
}

fn stats_json(stats: &Stats) -> Value {
    json!({
        "min": stats.range.map(|range| range.0.to_json()),
        "max": stats.range.map(|range| range.1.to_json()),
        "fill": stats.fill_count,
        "nan": stats.nan_count,
        "null": stats.null_count,
        "values": stats.value_count,
        "exact": stats.exact,
    })
}

/// List the versions of a store that can be opened
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays history study.arrays

With --json, one line for each version: {\"version\",\"layers\",\"layer_bytes\",\"arrays\"}.")]
pub(super) struct HistoryArgs {
    /// The store
    store: PathBuf,
}

pub(super) fn history(arguments: &HistoryArgs, common: &Common) -> Result<ExitCode> {
    let store = open(&arguments.store, common)?;
    let mut out = Out::new();
    for version in store.history()? {
        let snapshot = store.open_at(version)?;
        let inner = snapshot.as_async();
        let names = inner.names().count();
        if common.json {
            out.json(&json!({
                "version": version,
                "layers": inner.layers(),
                "layer_bytes": inner.layer_bytes(),
                "arrays": names,
            }))?;
            continue;
        }
        out.line(&format!(
            "{version:>6}  {}, {}, {}",
            human::counted(u64::try_from(names).unwrap_or(u64::MAX), "array"),
            human::counted(u64::try_from(inner.layers()).unwrap_or(u64::MAX), "layer"),
            human::bytes(inner.layer_bytes())
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// How elements are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Nested lists
    Json,
    /// A NumPy file
    Npy,
    /// Their bytes, row-major and little-endian
    Raw,
}

/// Read elements of an array
///
/// Without -o, elements are printed as nested lists. A box that reaches past the array is an error;
/// nothing is clipped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays read study.arrays spacing
  iac arrays read study.arrays chest --start 40,0,0 --shape 1,512,512 -o slice.npy
  iac arrays read study.arrays chest --step 4,4,4 -o small.npy

With --json and -o, one object: {\"path\",\"dtype\",\"shape\"}.")]
pub(super) struct ReadArgs {
    #[command(flatten)]
    source: Source,
    /// The array
    name: String,
    /// Where the box begins [default: 0 along each axis]
    #[arg(long, value_name = "N,N,...", value_parser = numbers)]
    start: Option<Numbers>,
    /// Elements along each axis [default: all behind the start]
    #[arg(long, value_name = "N,N,...", value_parser = numbers)]
    shape: Option<Numbers>,
    /// Takes every n-th element along each axis [default: every one]
    #[arg(long, value_name = "N,N,...", value_parser = numbers)]
    step: Option<Numbers>,
    /// How elements are written [default: npy with -o, json without]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn read(arguments: &ReadArgs, common: &Common) -> Result<ExitCode> {
    let snapshot = arguments.source.open(common)?;
    let meta = snapshot.meta(&arguments.name)?;
    let rank = meta.shape().len();
    let given = |numbers: &Option<Numbers>| numbers.as_ref().map(|numbers| numbers.0.clone());
    let start = given(&arguments.start).unwrap_or_else(|| vec![0; rank]);
    let step = given(&arguments.step).unwrap_or_else(|| vec![1; rank]);
    let count = given(&arguments.shape).unwrap_or_else(|| {
        let axes = meta.shape().iter().zip(start.iter().zip(&step));
        axes.map(|(extent, (start, step))| extent.saturating_sub(*start).div_ceil((*step).max(1)))
            .collect()
    });
    let default = if arguments.output.is_some() { Format::Npy } else { Format::Json };
    let format = arguments.format.unwrap_or(default);
    let elements = count.iter().fold(1_u64, |all, extent| all.saturating_mul(*extent));
    if format == Format::Json && arguments.output.is_none() && elements > SHOWN {
        return Err(Failure::usage(format!(
            "{} are too many to print (at most {SHOWN}): name a file with -o, or a smaller --shape",
            human::counted(elements, "element")
        )));
    }
    let data = snapshot.read_step(&arguments.name, &start, &count, &step)?;
    let bytes = match format {
        Format::Json => {
            let mut text = data.to_json()?.to_string().into_bytes();
            text.push(b'\n');
            text
        }
        Format::Npy => npy_bytes(&data)?,
        Format::Raw => data
            .as_bytes()
            .ok_or_else(|| Failure::usage("texts and lists have no raw form: take json or npy"))?
            .to_vec(),
    };
    let Some(path) = &arguments.output else {
        let mut out = match format {
            Format::Json => Out::new(),
            _ => Out::binary("elements", "-o names a file")?,
        };
        out.bytes(&bytes)?;
        out.finish()?;
        return Ok(ExitCode::SUCCESS);
    };
    let writing = crate::interrupt::writing()?;
    let mut file = NewFile::create(path, arguments.overwrite)?;
    file.write(&bytes)?;
    file.publish()?;
    drop(writing);
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": path.to_string_lossy(),
            "dtype": data.dtype().to_string(),
            "shape": data.shape(),
        }))?;
    } else {
        out.line(&format!("{}  {} of {}", path.display(), shape(data.shape()), data.dtype()))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Read every table and block of a version and compare every checksum
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac arrays verify study.arrays

With --json, one line for each fault: {\"array\",\"message\"}, and a last one {\"faults\"}.")]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    source: Source,
}

pub(super) fn verify(arguments: &VerifyArgs, common: &Common) -> Result<ExitCode> {
    let snapshot = arguments.source.open(common)?;
    let faults = snapshot.verify()?;
    let mut out = Out::new();
    for fault in &faults {
        if common.json {
            let message = fault.error.to_string();
            out.json(&json!({"array": fault.array, "message": message}))?;
        } else {
            let bad = out.bad("fault");
            let array = fault.array.as_deref().map(|name| format!(" in `{name}`"));
            let text = format!("{}: {}", array.unwrap_or_default(), fault.error);
            out.line(&format!("{bad}{}", human_safe(&text)))?;
        }
    }
    let count = u64::try_from(faults.len()).unwrap_or(u64::MAX);
    if common.json {
        out.json(&json!({"faults": count}))?;
    } else if count == 0 {
        let good = out.good("sound");
        out.line(&format!("{good}: version {}", snapshot.version()))?;
    } else {
        out.line(&human::counted(count, "fault"))?;
    }
    out.finish()?;
    Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
