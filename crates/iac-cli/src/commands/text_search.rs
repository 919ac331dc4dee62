//! `iac text index` and `iac text search`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use iatrocache::adapters::text::search::{SearchHit, SearchIndex, build_index, index_folder};
use iatrocache::adapters::text::{TextDocument, TextReader};
use serde_json::json;

use super::select::shown;
use super::text::{Opened, open};
use crate::cli::Common;
use crate::failure::{Failure, Report, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::progress::{Shown, Unit};

/// Make a full-text index beside a pack
///
/// The index is the folder PATH.index. It holds the words of the texts, patient data among them, so
/// it is made readable by its owner alone; it can be removed at any time.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac text index notes.iac

With --json, one object: {\"index\",\"documents\"}.")]
pub(crate) struct IndexArgs {
    /// The pack
    path: PathBuf,
}

/// Search the texts of a pack
///
/// All words must occur. OR, -word, \"words in this order\" and parentheses do what one expects;
/// doc_type:NAME, institution:NAME, patient_id:ID and doc_id:ID ask for labels. The index must have
/// been made (`iac text index`).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac text search notes.iac \"residual tumour\"
  iac text search notes.iac '\"no residual tumour\" doc_type:pathology' --limit 5
  iac text search notes.iac 癌细胞 --json

With --json, one line for each document: {\"row\",\"document\",\"patient_id\",\"doc_id\",\"field\",
\"score\",\"snippet\",\"highlights\"}.")]
pub(crate) struct SearchArgs {
    /// The pack
    path: PathBuf,
    /// What is looked for
    query: String,
    /// At most so many documents
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Make the index first, where it is missing or of another content
    #[arg(long)]
    build: bool,
}

/// An index lies beside its pack, and beside an object nothing can lie.
fn check_place(path: &Path) -> Result<()> {
    if !iatrocache::reader::is_url(path) {
        return Ok(());
    }
    let message = format!("{}: an index is made beside a local pack only", path.display());
    let report = Report::new(iatrocache::ErrorKind::Unsupported, human_safe(&message));
    Err(Failure::from(report.path(path)).with_hint("iac cp brings the pack here"))
}

pub(crate) fn index(arguments: &IndexArgs, common: &Common) -> Result<ExitCode> {
    check_place(&arguments.path)?;
    match open(&arguments.path, common)? {
        Opened::Text(reader) => make(&reader, arguments, common),
        Opened::Pair(reader) => make(&reader, arguments, common),
    }
}

fn make<D: TextDocument>(
    reader: &TextReader<D>,
    arguments: &IndexArgs,
    common: &Common,
) -> Result<ExitCode> {
    let documents = build(reader, common)?;
    let folder = shown(&index_folder(&arguments.path));
    let mut out = Out::new();
    if common.json {
        out.json(&json!({ "index": folder, "documents": documents }))?;
    } else {
        let count = human::counted(documents, "document");
        out.line(&format!("{count} indexed in {}", human_safe(&folder)))?;
    }
    out.finish()?;
    if !common.quiet {
        output::note("the index holds patients' words; it is readable by its owner alone");
    }
    Ok(ExitCode::SUCCESS)
}

fn build<D: TextDocument>(reader: &TextReader<D>, common: &Common) -> Result<u64> {
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let documents = build_index(reader, &progress)?;
    drop(writing);
    Ok(documents)
}

pub(crate) fn search(arguments: &SearchArgs, common: &Common) -> Result<ExitCode> {
    check_place(&arguments.path)?;
    match open(&arguments.path, common)? {
        Opened::Text(reader) => find(&reader, arguments, common),
        Opened::Pair(reader) => find(&reader, arguments, common),
    }
}

fn find<D: TextDocument>(
    reader: &TextReader<D>,
    arguments: &SearchArgs,
    common: &Common,
) -> Result<ExitCode> {
    let opened = match SearchIndex::open(reader) {
        Err(_) if arguments.build => {
            build(reader, common)?;
            SearchIndex::open(reader)
        }
        other => other,
    };
    let index = opened.map_err(|error| {
        let usage = error.kind() == iatrocache::ErrorKind::Usage;
        let failure = Failure::from(error);
        if usage { failure.with_hint("iac text index makes it, or --build") } else { failure }
    })?;
    let hits = index.search(&arguments.query, arguments.limit)?;
    let mut out = Out::new();
    for hit in &hits {
        if common.json {
            out.serialized(hit)?;
        } else {
            line(hit, &mut out)?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn line(hit: &SearchHit, out: &mut Out) -> Result<()> {
    let patient = out.bold(&human_safe(&hit.patient_id));
    out.line(&format!("{patient}  {}  (row {})", human_safe(&hit.doc_id), hit.row))?;
    let mut shown = String::new();
    let mut end = 0_usize;
    for (start, behind) in &hit.highlights {
        shown.push_str(&human_safe(hit.snippet.get(end..*start).unwrap_or_default()));
        shown
            .push_str(&out.bold(&human_safe(hit.snippet.get(*start..*behind).unwrap_or_default())));
        end = *behind;
    }
    shown.push_str(&human_safe(hit.snippet.get(end..).unwrap_or_default()));
    out.line(&format!("    {}", shown.replace("\\n", " ")))
}
