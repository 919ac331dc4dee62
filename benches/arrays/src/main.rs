//! Measures stores of arrays beside `array-format` 0.15 (0.14 for layers, which 0.15 has not) and
//! `zarrs`, on the same numbers, in turns, in one run, and says which targets are reached.
//!
//! `cargo run --release --manifest-path benches/arrays/Cargo.toml -- [--quick] [--rounds N] [--only A1,A7]`

mod counting;
mod layers;
mod many;
mod remote;
mod table;
mod volume;

use clap::Parser;

use table::Table;

/// What can go wrong ends the program with a message.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Stores of arrays beside array-format and zarrs
///
/// Every figure is the median of several rounds, in which the sides take turns. Times are those of
/// the wall clock.
#[derive(Debug, Clone, Parser)]
pub struct Arguments {
    /// Small arrays and few rounds: shows that the program works, not how fast anything is
    #[arg(long)]
    pub quick: bool,
    /// Repetitions of each measurement
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Checks to measure: all, if none is named
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Opens a file or store of many arrays and prints the memory that this takes
    #[arg(long, hide = true, num_args = 2)]
    pub memory_of: Vec<String>,
}

impl Arguments {
    fn wants(&self, names: &[&str]) -> bool {
        self.only.is_empty() || names.iter().any(|name| self.only.iter().any(|it| it == name))
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 7 }).max(1)
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let [side, path] = arguments.memory_of.as_slice() {
        return many::memory_of(side, path);
    }
    let folder = tempfile::tempdir()?;
    let mut table = Table::default();
    if arguments.wants(&["A1", "A2", "A3", "A4"]) {
        volume::measure(&arguments, folder.path(), &mut table)?;
    }
    if arguments.wants(&["A5", "A6"]) {
        many::arrays(&arguments, folder.path(), &mut table)?;
    }
    if arguments.wants(&["A7", "A8", "A13"]) {
        many::chunks(&arguments, folder.path(), &mut table)?;
    }
    if arguments.wants(&["A9", "A10"]) {
        remote::far(&arguments, &mut table)?;
    }
    if arguments.wants(&["A11", "A12", "A14"]) {
        layers::measure(&arguments, folder.path(), &mut table)?;
    }
    println!("{table}");
    Ok(())
}
