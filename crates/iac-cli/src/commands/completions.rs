//! `iac completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Result;
use crate::output::Out;

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac completions bash > ~/.local/share/bash-completion/completions/iac
  iac completions fish > ~/.config/fish/completions/iac.fish
  iac completions zsh > ~/.zfunc/_iac     # a folder of your $fpath")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "iac", &mut script);
    let mut out = Out::new();
    out.bytes(&script)?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
