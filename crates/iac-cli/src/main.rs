//! The `iac` command: look into, check, pack and unpack IatroCache (`.iac`) files.

use std::process::ExitCode;

fn main() -> ExitCode {
    iac_cli::run(std::env::args_os())
}
