//! The `iac` command as a library, for programs that offer it under another name.
//!
//! It parses arguments, calls the crates below and prints; what it does is in those.

mod cli;
mod commands;
#[cfg(all(
    test,
    feature = "jxl",
    feature = "object-store",
    feature = "text-search",
    feature = "wsi-icc"
))]
mod documented;
mod failure;
mod human;
mod interrupt;
mod output;
mod place;
mod progress;
mod signals;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command as if the process had been started with these arguments, the program's name
/// first.
///
/// It is made for processes that end with it: Ctrl-C ends the process from now on, files that grow
/// too large give an error in place of a signal, and the guard of mapped files is installed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    signals::ignore_file_size_limit();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match cli::parse(&arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    // Packs are mapped; without the guard, one that another process cuts would end this one. Where
    // it cannot be installed, reading works all the same.
    drop(iatrocache::reader::guard::install());
    interrupt::install();
    match commands::run(&cli) {
        Ok(code) => code,
        Err(failure) => failure.report(cli.common.json),
    }
}
