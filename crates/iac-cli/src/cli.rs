//! What can be written on the command line.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapKind};
use clap::{Args, Parser, Subcommand};
use iatrocache::ErrorKind;

use crate::commands::{
    bench, cat, completions, decode, demo, digest, extract, info, ls, montage, pack, recode,
    salvage, verify,
};
use crate::commands::{merge, stats, subset, validate};
use crate::failure::{Failure, Report, human_safe, is_unsafe};
use crate::progress::When;

/// Look into, check, pack and unpack IatroCache (.iac) files
///
/// A pack is one file with many small records, and two tables that describe them. Results go to
/// standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "iac",
    version = version(),
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "\
Examples:
  iac demo                          see it work, on made-up data
  iac pack raw notes/ -o notes.iac  make a pack of files
  iac info notes.iac                what a pack is, at a glance
  iac ls notes.iac --limit 5        its rows
  iac verify notes.iac              is every byte as it was written?

Exit codes: 0 sound, 1 damaged data, 2 wrong usage, 3 system failure, 4 not supported,
130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Common {
    /// Print JSON: one document, or one line for each item of a list; errors too
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print results and errors only: no progress, no notes
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// When to show progress
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = When::Auto, hide_possible_values = true, help = "When to show progress: auto (on a terminal), always, never")]
    pub(crate) progress: When,
    /// Most threads to use; results never depend on it [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = workers)]
    pub(crate) workers: Option<NonZeroUsize>,
}

/// Threads that can be asked for: starting more takes longer than what they would do.
const MAX_WORKERS: usize = 1024;

fn workers(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= MAX_WORKERS);
    number.ok_or_else(|| format!("threads are a number from 1 to {MAX_WORKERS}"))
}

/// The commands, in the order in which help lists them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Info(info::InfoArgs),
    Ls(ls::LsArgs),
    Cat(cat::CatArgs),
    Decode(decode::DecodeArgs),
    Digest(digest::DigestArgs),
    Stats(stats::StatsArgs),
    Verify(verify::VerifyArgs),
    Validate(validate::ValidateArgs),
    Salvage(salvage::SalvageArgs),
    Pack(pack::PackArgs),
    Recode(recode::RecodeArgs),
    Subset(subset::SubsetArgs),
    #[cfg(feature = "object-store")]
    Cp(crate::commands::cp::CpArgs),
    Merge(merge::MergeArgs),
    Montage(montage::MontageArgs),
    Extract(extract::ExtractArgs),
    Bench(bench::BenchArgs),
    #[cfg(feature = "text")]
    Text(crate::commands::text::TextArgs),
    #[cfg(feature = "dicom")]
    Dicom(crate::commands::dicom::DicomArgs),
    #[cfg(feature = "wsi")]
    Wsi(crate::commands::wsi::WsiArgs),
    #[cfg(feature = "arrays")]
    Arrays(crate::commands::arrays::ArraysArgs),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
}

/// What this build can do beside codecs and adapters.
fn compiled_features() -> Vec<&'static str> {
    let all = [
        ("arrays", cfg!(feature = "arrays")),
        ("htj2k", cfg!(feature = "htj2k")),
        ("object-store", cfg!(feature = "object-store")),
        ("parquet", cfg!(feature = "parquet")),
        ("text-search", cfg!(feature = "text-search")),
        ("volume-arrays", cfg!(feature = "volume-arrays")),
        ("wsi-icc", cfg!(feature = "wsi-icc")),
        ("wsi-import", cfg!(feature = "wsi-import")),
        ("wsi-openslide", cfg!(feature = "wsi-openslide")),
        ("zarr", cfg!(feature = "zarr")),
    ];
    all.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
}

fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{}\nformat version {}\ncodecs: {}\nadapters: {}\nfeatures: {}",
            env!("CARGO_PKG_VERSION"),
            iatrocache::format::FORMAT_VERSION,
            iatrocache::compiled_codecs().join(", "),
            iatrocache::adapters::compiled_adapters().join(", "),
            compiled_features().join(", ")
        )
    });
    &TEXT
}

/// Reads the command line; where it is wrong, or asks for help, that is printed.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Cli, ExitCode> {
    let error = match Cli::try_parse_from(arguments) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    if let Some(failure) = absent(&error, ABSENT) {
        return Err(failure.report(json_wanted(std::env::args_os().skip(1))));
    }
    let wants_help = matches!(error.kind(), ClapKind::DisplayHelp | ClapKind::DisplayVersion);
    if !wants_help && json_wanted(arguments.iter().skip(1)) {
        let report = Report::new(ErrorKind::Usage, message_of(&error));
        return Err(Failure::from(report).report(true));
    }
    let text = error.render().to_string();
    if !wants_help && text.chars().any(|character| character != '\n' && is_unsafe(character)) {
        // An argument that a terminal should not see as it is.
        for line in text.lines() {
            crate::output::error_line(&human_safe(line));
        }
    } else {
        // Nobody is left to be told when this fails.
        drop(error.print());
    }
    Err(ExitCode::from(if wants_help { 0 } else { 2 }))
}

/// Commands and options that this build lacks, with the feature that brings each.
const ABSENT: &[(&str, &str)] = &[
    #[cfg(not(feature = "object-store"))]
    ("cp", "object-store"),
    #[cfg(not(feature = "tiles"))]
    ("tiles", "tiles"),
    #[cfg(not(feature = "features"))]
    ("features", "features"),
    #[cfg(not(feature = "text"))]
    ("text", "text"),
    #[cfg(not(feature = "text"))]
    ("text-pair", "text"),
    #[cfg(not(feature = "text-search"))]
    ("index", "text-search"),
    #[cfg(not(feature = "text-search"))]
    ("search", "text-search"),
    #[cfg(not(feature = "dicom"))]
    ("dicom", "dicom"),
    #[cfg(not(feature = "wsi-import"))]
    ("wsi", "wsi-import"),
    #[cfg(not(feature = "wsi-icc"))]
    ("--srgb", "wsi-icc"),
];

/// What to say about a command or an option that only other builds have.
fn absent(error: &clap::Error, known: &[(&str, &str)]) -> Option<Failure> {
    let (context, what) = match error.kind() {
        ClapKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, "command"),
        ClapKind::UnknownArgument => (ContextKind::InvalidArg, "option"),
        _ => return None,
    };
    let Some(ContextValue::String(found)) = error.get(context) else { return None };
    let (name, feature) = known.iter().find(|(name, _)| name == found)?;
    Some(Failure::not_compiled_in(&format!("{what} `{name}`"), feature))
}

/// Whether `--json` was among the options of a command line that could not be read.
fn json_wanted(arguments: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    arguments
        .take_while(|argument| argument.as_ref() != "--")
        .any(|argument| argument.as_ref() == "--json")
}

/// The first paragraph of a usage error, on one line.
fn message_of(error: &clap::Error) -> String {
    if error.kind() == ClapKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command or an argument is missing (see --help)".to_owned();
    }
    let text = error.render().to_string();
    let first: Vec<&str> =
        text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let joined = first.join(" ");
    human_safe(joined.strip_prefix("error: ").unwrap_or(&joined))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.contains("Example") && help.contains("iac "),
                "`{}` has no example",
                command.get_name()
            );
            for sub in command.get_subcommands() {
                check(sub);
            }
        }
        check(&Cli::command());
    }

    #[test]
    fn lines_of_examples_are_not_wrapped() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                let length = line.chars().count();
                assert!(length <= 100, "`{}`: {length} characters: {line}", command.get_name());
            }
            for sub in command.get_subcommands() {
                check(sub);
            }
        }
        check(&Cli::command());
    }

    #[test]
    fn commands_and_options_of_other_builds_are_told_with_their_feature() {
        let known = [("frobnicate", "frob"), ("--frob", "frob")];
        for arguments in [["iac", "frobnicate", "x"], ["iac", "info", "--frob"]] {
            let error = Cli::try_parse_from(arguments).unwrap_err();
            assert!(absent(&error, &known).is_some(), "{arguments:?}");
            assert!(absent(&error, &[]).is_none(), "{arguments:?}");
        }
        let error = Cli::try_parse_from(["iac", "info"]).unwrap_err();
        assert!(absent(&error, &known).is_none());
    }

    #[test]
    fn json_after_two_dashes_is_no_option() {
        assert!(json_wanted(["ls", "--json"].iter()));
        assert!(!json_wanted(["ls", "--", "--json"].iter()));
    }
}
