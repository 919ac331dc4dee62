//! Counts the instructions of hot paths and compares them with those on record in
//! `benches/instructions.json`.
#![allow(
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a program that reports, and reckons with numbers of its own"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use iac_benches::guard::{PATHS, prepare, run};
use iac_benches::{Result, sample};
use serde_json::{Map, Value, json};

/// Counts the instructions of hot paths beside those on record
///
/// Fails when a path takes more than the tolerance. Needs valgrind.
#[derive(Debug, Parser)]
#[command(name = "guard")]
struct Arguments {
    /// Write what was counted as the new record
    #[arg(long)]
    record: bool,
    /// The record
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json"))]
    file: PathBuf,
    /// Run one path only, not under valgrind's eyes
    #[arg(long, hide = true, requires_all = ["times", "dir"])]
    path: Option<String>,
    /// How often
    #[arg(long, hide = true)]
    times: Option<u32>,
    /// Where the files are
    #[arg(long, hide = true)]
    dir: Option<PathBuf>,
}

/// Counts differ a little from machine to machine (what memory is given, which instructions its
/// processor has), and more between compilers.
const TOLERANCE: f64 = 0.05;
const OTHER_COMPILER: f64 = 0.20;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let (Some(path), Some(times), Some(dir)) = (&arguments.path, arguments.times, &arguments.dir)
    {
        run(path, dir, times)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (_folder, folder) = sample::scratch(None)?;
    prepare(&folder)?;
    let mut counts = Map::new();
    for path in PATHS {
        let (once, thrice) = (count(path, &folder, 1)?, count(path, &folder, 3)?);
        counts.insert(path.to_owned(), json!(thrice.saturating_sub(once) / 2));
    }
    if arguments.record {
        let record = json!({
            "what": "instructions of each path, counted by `make bench-guard` with the profile ci; \
                     to record them anew: make bench-guard ARGS=--record",
            "compiler": compiler()?,
            "tolerance": TOLERANCE,
            "tolerance_of_other_compilers": OTHER_COMPILER,
            "instructions": counts,
        });
        std::fs::write(&arguments.file, format!("{record:#}\n"))?;
        println!("recorded {} paths in {}", counts.len(), arguments.file.display());
        return Ok(ExitCode::SUCCESS);
    }
    let record: Value = serde_json::from_slice(&std::fs::read(&arguments.file)?)?;
    compare(&record, &counts)
}

fn compare(record: &Value, counts: &Map<String, Value>) -> Result<ExitCode> {
    let same = record["compiler"] == json!(compiler()?);
    let tolerance = if same { TOLERANCE } else { OTHER_COMPILER };
    if !same {
        println!("The record is of {}, so {OTHER_COMPILER} is tolerated.", record["compiler"]);
    }
    println!("{:<34} {:>12} {:>12} {:>7}", "instructions", "now", "on record", "ratio");
    let mut dearer = Vec::new();
    for (path, now) in counts {
        let (Some(now), Some(then)) = (now.as_f64(), record["instructions"][path].as_f64()) else {
            println!("{path:<34} {now:>12} {:>12}", "none");
            dearer.push(path.as_str());
            continue;
        };
        let ratio = now / then;
        let mark = match ratio {
            _ if ratio > 1.0 + tolerance => "DEARER",
            _ if ratio < 1.0 - tolerance => "cheaper: record it",
            _ => "",
        };
        println!("{path:<34} {now:>12} {then:>12} {ratio:>7.3} {mark}");
        if ratio > 1.0 + tolerance {
            dearer.push(path);
        }
    }
    if dearer.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("dearer than on record, or not on record: {}", dearer.join("; "));
    println!("if that must be: make bench-guard ARGS=--record");
    Ok(ExitCode::FAILURE)
}

/// Instructions of a process that runs a path so many times.
fn count(path: &str, folder: &Path, times: u32) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["--path", path, "--times", &times.to_string(), "--dir"])
        .arg(folder)
        .output()
        .map_err(|error| format!("could not start valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let found = text.lines().find_map(|line| line.split_once("Collected : "));
    match found {
        Some((_, number)) if output.status.success() => Ok(number.trim().parse()?),
        _ => Err(format!("{path} did not run under valgrind:\n{text}").into()),
    }
}

fn compiler() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
