//! `iac ls`: rows of a table.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::TableKind;
use iatrocache::ops::rows::RowSelection;
use iatrocache::ops::view::{TableQuery, TableView};

use super::select::{predicate, with_caret};
use crate::cli::Common;
use crate::failure::{Relay, Result, human_safe};
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Rows that are looked at for the widths of columns.
const MEASURED_ROWS: usize = 1000;
/// Bytes of rows that wait for that.
const MEASURED_BYTES: usize = 1 << 20;
/// Widest cell of a table on a terminal, in characters.
const WIDEST: usize = 60;
/// Widest column that cells are aligned to elsewhere: one long cell must not fill every row.
const ALIGNED: usize = 200;

/// List the rows of a table
///
/// The first column is `row`, the row's number, which other commands take. Binary values are
/// base64, nested ones JSON.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac ls notes.iac --limit 10
  iac ls notes.iac --columns path,bytes --where \"bytes > 4096\"
  iac ls tiles.iac --where \"slide.patient_id = 'P1' and not (x < 10 or x is null)\" --json
  iac ls slide.iac --table slide --format csv > slides.csv
  iac ls notes.iac --format arrow > rows.arrows    # an Arrow IPC stream

Conditions compare columns with numbers or 'texts': = != < <= > >=, in (...), is null,
like 'a%', joined by and, or, not, and parentheses. A name with special characters stands in
double quotes. slide.NAME is a column of the slide table.")]
pub(crate) struct LsArgs {
    /// The pack
    path: PathBuf,
    /// Which table
    #[arg(long, value_enum, default_value_t = Which::Index)]
    table: Which,
    /// Columns, in the order wanted [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Only rows for which a condition holds
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<String>,
    /// Rows: 3, or 3,9,4, or 10..20 (without 20); counted from 0 [default: all]
    #[arg(long, value_name = "ROWS", allow_hyphen_values = true)]
    rows: Option<RowSelection>,
    /// At most so many rows
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// How rows are written [default: table, or jsonl with --json]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// One row for each record
    Index,
    /// One row for each slide
    Slide,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns for people
    Table,
    /// Comma-separated values with a line of names
    Csv,
    /// One JSON object in a line
    Jsonl,
    /// An Arrow IPC stream
    Arrow,
}

pub(crate) fn run(arguments: &LsArgs, common: &Common) -> Result<ExitCode> {
    let format = match (arguments.format, common.json) {
        (Some(format), _) => format,
        (None, true) => Format::Jsonl,
        (None, false) => Format::Table,
    };
    let mut query = TableQuery::default();
    query.table = match arguments.table {
        Which::Index => TableKind::Index,
        Which::Slide => TableKind::Slide,
    };
    query.columns.clone_from(&arguments.columns);
    query.rows.clone_from(&arguments.rows);
    query.limit = arguments.limit;
    let condition = arguments.condition.as_deref();
    query.predicate = condition.map(predicate).transpose()?;
    let pack = super::open(&arguments.path, common)?;
    let view = TableView::new(&pack, &query)
        .map_err(|error| with_caret(error, condition.unwrap_or_default()))?;
    let mut out = match format {
        Format::Arrow => {
            Out::binary("an Arrow stream", "send the output to a file or a program: > rows.arrows")?
        }
        _ => Out::new(),
    };
    let progress = Shown::beside_list(common, Unit::Rows);
    match format {
        Format::Table => table(&view, &mut out, &progress)?,
        Format::Csv => view.write_csv(&mut out, &progress)?,
        Format::Jsonl => view.write_json_lines(&mut out, &progress)?,
        Format::Arrow => view.write_arrow(&mut out)?,
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints rows as columns, whose widths the first rows decide.
fn table(view: &TableView, out: &mut Out, progress: &Shown) -> Result<()> {
    let mut columns = Columns::new(view, out.is_terminal());
    let mut relay = Relay::default();
    let result =
        view.for_each_row_text(progress, &mut |cells| relay.pass(columns.take(cells, out)));
    relay.settle(result)?;
    columns.flush(out)
}

/// Cells on their way to aligned columns.
struct Columns {
    names: Vec<String>,
    numeric: Vec<bool>,
    widths: Vec<usize>,
    widest: usize,
    /// Rows that wait for the widths; absent once these are known.
    waiting: Option<Vec<Vec<String>>>,
    /// Bytes of these rows.
    waiting_bytes: usize,
}

impl Columns {
    fn new(view: &TableView, terminal: bool) -> Self {
        let names: Vec<String> = view.names().iter().map(|name| human_safe(name)).collect();
        Self {
            numeric: view
                .schema()
                .fields()
                .iter()
                .map(|field| field.data_type().is_numeric())
                .collect(),
            widths: names.iter().map(|name| name.chars().count().min(ALIGNED)).collect(),
            names,
            widest: if terminal { WIDEST } else { usize::MAX },
            waiting: Some(Vec::new()),
            waiting_bytes: 0,
        }
    }

    fn take(&mut self, cells: Vec<String>, out: &mut Out) -> Result<()> {
        let cells: Vec<String> =
            cells.iter().map(|cell| shortened(&human_safe(cell), self.widest)).collect();
        let Some(waiting) = &mut self.waiting else {
            return self.line(&cells, out);
        };
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = cell.chars().count().min(ALIGNED).max(*width);
            self.waiting_bytes = self.waiting_bytes.saturating_add(cell.len());
        }
        waiting.push(cells);
        if waiting.len() >= MEASURED_ROWS || self.waiting_bytes >= MEASURED_BYTES {
            self.flush(out)?;
        }
        Ok(())
    }

    /// Prints the names and what has waited.
    fn flush(&mut self, out: &mut Out) -> Result<()> {
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        let names = out.bold(&self.aligned(&self.names));
        out.line(&names)?;
        waiting.iter().try_for_each(|cells| self.line(cells, out))
    }

    fn line(&self, cells: &[String], out: &mut Out) -> Result<()> {
        out.line(&self.aligned(cells))
    }

    fn aligned(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for ((cell, width), numeric) in cells.iter().zip(&self.widths).zip(&self.numeric) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            if *numeric {
                line.push_str(&padding);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&padding);
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn shortened(text: &str, widest: usize) -> String {
    if text.chars().count() <= widest {
        return text.to_owned();
    }
    let kept = text.chars().take(widest.saturating_sub(1));
    kept.chain(['…']).collect()
}
