//! The `iac` command: look into, check, pack and unpack IatroCache (`.iac`) files.
//!
//! It parses arguments, calls the library and prints; what it does is in the crates below.

mod cli;
mod commands;
mod failure;
mod human;
mod interrupt;
mod output;
mod place;
mod progress;
mod signals;

use std::process::ExitCode;

fn main() -> ExitCode {
    signals::ignore_file_size_limit();
    let cli = match cli::parse() {
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
