//! What the kernel counts about this process.

use std::fs;

use serde_json::{Value, json};

use crate::Result;

/// Bytes of memory that are resident: of files and of the process's own.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn resident_bytes() -> Result<u64> {
    Ok(status("RssAnon")? + status("RssFile")?)
}

/// Bytes that are resident and no file's.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn own_bytes() -> Result<u64> {
    status("RssAnon")
}

/// The most that was ever resident.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn peak_resident_bytes() -> Result<u64> {
    status("VmHWM")
}

/// Lets the kernel count the largest resident size anew.
///
/// # Errors
///
/// When `/proc` cannot be written.
pub fn forget_peak() -> Result<()> {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

/// Bytes handed to `write` and its relatives, and bytes of dirtied page cache.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn written_bytes() -> Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/io")?;
    Ok((field(&text, "wchar")?, field(&text, "write_bytes")?))
}

/// What the comparison's report says about the machine.
#[must_use]
pub fn machine() -> Value {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
    json!({
        "processor": model,
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "load": load(),
    })
}

/// Processes that want to run, averaged over a minute; a busy machine makes figures doubtful.
#[must_use]
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().unwrap_or(0.0)
}

fn status(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    Ok(field(&text, name)? * 1024)
}

fn field(text: &str, name: &str) -> Result<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next())
        .ok_or_else(|| format!("the kernel does not tell {name}"))?;
    Ok(value.parse()?)
}
