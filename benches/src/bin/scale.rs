//! Very large packs and many of them: memory and time, with pictures.
#![allow(
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a program that reports, and reckons with numbers of its own"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use iac_benches::{Result, process, sample, scale};
use serde_json::{Value, json};

/// Up to 100 million index rows, a pack of 1 TiB, 10,000 packs, 255 threads
///
/// Takes 3 GB of disk and of memory.
#[derive(Debug, Parser)]
#[command(name = "scale")]
struct Arguments {
    /// Less of everything: shows that the program works
    #[arg(long)]
    quick: bool,
    /// Folder for the packs; default: the system's temporary folder
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the figures go as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Folder for the pictures
    #[arg(long)]
    pictures: Option<PathBuf>,
    /// One measurement: rows, sparse, packs or threads
    #[arg(long, hide = true, requires = "dir")]
    one: Option<String>,
    /// Of how many
    #[arg(long, hide = true, default_value_t = 0)]
    count: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let (Some(one), Some(dir)) = (&arguments.one, &arguments.dir) {
        let count = arguments.count;
        let found = match one.as_str() {
            "rows" => scale::rows(dir, count)?,
            "sparse" => scale::sparse(dir)?,
            "packs" => scale::packs(dir, count)?,
            "threads" => scale::threads(dir, usize::try_from(count)?)?,
            other => return Err(format!("unknown measurement {other}").into()),
        };
        println!("{found}");
        return Ok(());
    }
    let (_folder, folder) = sample::scratch(arguments.dir.as_deref())?;
    let many = |name: &str, counts: &[u64]| -> Result<Vec<Value>> {
        counts.iter().map(|count| one(&folder, name, *count)).collect()
    };
    let (rows, packs, threads): (&[u64], &[u64], &[u64]) = if arguments.quick {
        (&[1000, 100_000, 1_000_000], &[10, 100], &[1, 8, 32])
    } else {
        (
            &[10_000, 100_000, 1_000_000, 10_000_000, 100_000_000],
            &[10, 100, 1000, 10_000],
            &[1, 2, 4, 16, 64, 255],
        )
    };
    let found = json!({
        "machine": process::machine(),
        "quick": arguments.quick,
        "rows": many("rows", rows)?,
        "sparse": one(&folder, "sparse", 0)?,
        "packs": many("packs", packs)?,
        "threads": many("threads", threads)?,
    });
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{found:#}\n"))?;
    }
    if let Some(folder) = &arguments.pictures {
        pictures(folder, &found)?;
    }
    Ok(())
}

/// One measurement in a process of its own, which may open as many files as the system allows.
fn one(folder: &Path, name: &str, count: u64) -> Result<Value> {
    let output = Command::new("sh")
        .args(["-c", "ulimit -n \"$(ulimit -H -n)\"; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe()?)
        .args(["--one", name, "--count", &count.to_string(), "--dir"])
        .arg(folder)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} of {count}: {text}").into());
    }
    let found: Value = serde_json::from_slice(&output.stdout)?;
    println!("{name}: {found}");
    Ok(found)
}

fn pictures(folder: &Path, found: &Value) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let curve = |list: &str, x: &str, y: &str, unit: f64| -> Vec<(f64, f64)> {
        let entries = found[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let number = |entry: &Value, name: &str| entry[name].as_f64().unwrap_or(0.0);
        entries.iter().map(|entry| (number(entry, x), number(entry, y) / unit)).collect()
    };
    let rows = |y, unit| curve("rows", "rows", y, unit);
    let draw = |name: &str, text: String| std::fs::write(folder.join(name), text);
    draw(
        "scale-time.svg",
        scale::svg(
            "Time over index rows",
            "rows",
            &[
                ("open and first record, ms", rows("open_and_first_record_seconds", 1e-3)),
                ("one random record, us", rows("single_read_cpu_seconds", 1e-6)),
                ("write all, s", rows("write_seconds", 1.0)),
            ],
        ),
    )?;
    draw(
        "scale-memory.svg",
        scale::svg(
            "Memory over index rows, MB",
            "rows",
            &[
                ("file", rows("file_bytes", 1e6)),
                ("peak of writing", rows("write_peak_bytes", 1e6)),
                ("held after 200,000 random reads", rows("own_bytes_after_reads", 1e6)),
            ],
        ),
    )?;
    draw(
        "scale-threads.svg",
        scale::svg(
            "Threads reading one pack, million records a second",
            "threads",
            &[
                ("batches on each", curve("threads", "threads", "records_a_second", 1e6)),
                (
                    "one batch on all",
                    curve("threads", "threads", "records_a_second_of_one_batch_on_all", 1e6),
                ),
            ],
        ),
    )?;
    Ok(())
}
