//! `iac bench`: how fast a pack is read here.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use iatrocache::ops::bench::{BenchOptions, BenchReport, Rate, bench};

use crate::cli::Common;
use crate::failure::{Result, human_safe};
use crate::human;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Longest time that can be asked for.
const MOST_SECONDS: f64 = 86_400.0;
/// Records that a batch may have.
const MOST_RECORDS: u32 = 1 << 20;

/// Measure how fast a pack is read on this machine
///
/// Rates of random batches, of batches in order, of views and of decoding, beside the rate at which
/// one thread copies memory. The first call of each is not counted, so a pack that fits memory is
/// read from the page cache.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac bench notes.iac
  iac bench notes.iac --batch 32 --seconds 20 --workers 1
  iac bench notes.iac --json | jq .decode.records_per_second

With --json, one object:
  path, kind, codec, records, data_bytes, batch
  span_bytes   instead of records, pieces of so many bytes were read (packs without records)
  memory_copy  one thread copying 64 MiB from memory to memory
  random       random batches, stored bytes copied to one buffer, checksums compared
  sequential   the same in the order of the rows
  view         random batches as views of the mapped file; their bytes are not touched
  decode       random batches decoded (bytes, images, or rows of a matrix as f32)
  absent       a list of {\"what\",\"kind\",\"message\"}: measurements that could not be made, and why
A measurement is {\"calls\",\"records\",\"bytes\",\"seconds\",\"records_per_second\",
\"bytes_per_second\"}; bytes of decode are decoded ones.")]
pub(crate) struct BenchArgs {
    /// The pack
    path: PathBuf,
    /// Records of a batch
    #[arg(long, value_name = "N", default_value = "256", value_parser = batch)]
    batch: NonZeroU32,
    /// Time for all measurements together, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    seconds: Duration,
}

fn batch(text: &str) -> Result<NonZeroU32, String> {
    text.parse()
        .ok()
        .filter(|batch: &NonZeroU32| batch.get() <= MOST_RECORDS)
        .ok_or_else(|| format!("it must be a number from 1 to {MOST_RECORDS}"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds: &f64| *seconds > 0.0 && *seconds <= MOST_SECONDS)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("it must be a number above 0, {MOST_SECONDS} at most"))
}

pub(crate) fn run(arguments: &BenchArgs, common: &Common) -> Result<ExitCode> {
    let pack = super::open_without_cache(&arguments.path, common)?;
    let mut options = BenchOptions::default();
    options.batch = arguments.batch;
    options.time = arguments.seconds;
    let report = bench(&pack, &options, &Shown::new(common, Unit::Rows))?;
    let mut out = Out::new();
    if common.json {
        out.serialized(&report)?;
    } else {
        page(&report, &mut out)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn page(report: &BenchReport, out: &mut Out) -> Result<()> {
    let title = out.bold(&human_safe(&report.path));
    let codec = report.codec.as_deref().map(human_safe).unwrap_or_default();
    let records = human::counted(report.records, "record");
    let data = human::bytes(report.data_bytes);
    out.line(&format!("{title}  {}, {codec}, {records}, {data} of data", report.kind))?;
    let batch = human::count(u64::from(report.batch));
    match report.span_bytes {
        None => out.line(&format!("in batches of {batch}"))?,
        Some(span) => {
            out.line(&format!("in batches of {batch} pieces of {}", human::bytes(span)))?
        }
    }
    out.line("")?;
    for (name, rate) in [
        ("random", &report.random),
        ("sequential", &report.sequential),
        ("view", &report.view),
        ("decode", &report.decode),
    ] {
        if let Some(rate) = rate {
            let records = human::record_rate(rate.records, rate.time);
            // Views touch no bytes, so a rate of theirs would mean nothing.
            let bytes = if name == "view" { String::new() } else { beside(rate, report) };
            out.line(format!("  {name:<12}{records:>16}  {bytes}").trim_end())?;
        }
    }
    let copy = human::byte_rate(report.memory_copy.bytes, report.memory_copy.time);
    out.line(&format!("  {:<12}{:>16}  {copy:>10}", "memory copy", ""))?;
    for absent in &report.absent {
        let (what, why) = (absent.what, human_safe(&absent.message));
        let what = out.dim(&format!("no {what}:"));
        out.line(&format!("  {what} {why}"))?;
    }
    Ok(())
}

/// A rate in bytes, and what it is of the rate of copying memory.
fn beside(rate: &Rate, report: &BenchReport) -> String {
    let bytes = human::byte_rate(rate.bytes, rate.time);
    let share = rate.bytes_per_second() / report.memory_copy.bytes_per_second().max(1.0) * 100.0;
    format!("{bytes:>10}  {share:.0} % of memory copy")
}
