//! `iac text`: what is in packs of clinical text.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use iatrocache::adapters::text::{
    ClinicalDoc, DocLabelsRef, FolderOptions, Manifest, ManifestDoc, TextDocument, TextFilter,
    TextReadOptions, TextReader, write_folder,
};
use iatrocache::adapters::text_pair::ClinicalDocPair;
use iatrocache::{ErrorKind, PackReader, RowSelection};
use serde_json::{Value, json};

use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Relay, Report, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::{self, Out};
use crate::place::NewFile;
use crate::progress::{Shown, Unit};

/// Look into packs of clinical text
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac text show notes.iac P001")]
pub(crate) struct TextArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(ShowArgs),
    Export(ExportArgs),
    Counts(CountsArgs),
    #[cfg(feature = "text-search")]
    Index(super::text_search::IndexArgs),
    #[cfg(feature = "text-search")]
    Search(super::text_search::SearchArgs),
}

/// Show the documents of a patient
///
/// Texts come as they are when standard output is no terminal; on a terminal, characters that could
/// steer it are escaped. With --doc only as much is decompressed as the document needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac text show notes.iac P001
  iac text show notes.iac P001 --list             what there is, without the texts
  iac text show notes.iac P001 --doc P001/note-3 > note.txt
  iac text show notes.iac --row 17 --json

With --json, the patient as one object, as `iac pack text` takes it; with --doc, the document;
with --list {\"row\",\"patient_id\",\"institution\",\"docs\":[{labels, \"bytes\"}]}.")]
struct ShowArgs {
    /// The pack
    path: PathBuf,
    /// The patient; where several rows have the id, the last one is shown
    #[arg(required_unless_present = "row")]
    patient: Option<String>,
    /// A row of the index in place of a patient
    #[arg(long, value_name = "ROW", conflicts_with = "patient")]
    row: Option<u64>,
    /// Only the document with this id
    #[arg(long, value_name = "ID")]
    doc: Option<String>,
    /// Labels and sizes of the documents, without their texts
    #[arg(long, conflicts_with = "doc")]
    list: bool,
}

/// Write patients as JSON lines, or as folders of text files
///
/// JSON lines are what `iac pack text` or `iac pack text-pair` takes. With --dir, each patient
/// becomes a folder with a file for each text, named after ids with unsafe characters replaced, and
/// patient.json with all labels.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac text export notes.iac -o patients.jsonl
  iac text export notes.iac --institution site_a | head -n 1
  iac text export notes.iac --dir notes            notes/PATIENT/DOCUMENT.txt")]
struct ExportArgs {
    /// The pack
    path: PathBuf,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "dir")]
    output: Option<PathBuf>,
    /// Write text files into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Only patients of this institution; may be given several times
    #[arg(long, value_name = "NAME")]
    institution: Vec<String>,
    /// Only patients with so many documents at least
    #[arg(long, value_name = "N")]
    min_docs: Option<u64>,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
}

/// Count patients and documents of each institution
///
/// The index is all that is read.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  iac text counts notes.iac

With --json, one object: {\"rows\",\"patients\",\"documents\",\"institutions\":{NAME:{\"rows\",
\"documents\"}}}.")]
struct CountsArgs {
    /// The pack
    path: PathBuf,
}

pub(crate) fn run(arguments: &TextArgs, common: &Common) -> Result<ExitCode> {
    match &arguments.action {
        Action::Show(arguments) => match open(&arguments.path, common)? {
            Opened::Text(reader) => show(&reader, arguments, common),
            Opened::Pair(reader) => show(&reader, arguments, common),
        },
        Action::Export(arguments) => match open(&arguments.path, common)? {
            Opened::Text(reader) => export(&reader, arguments, common),
            Opened::Pair(reader) => export(&reader, arguments, common),
        },
        Action::Counts(arguments) => match open(&arguments.path, common)? {
            Opened::Text(reader) => counts(&reader, common),
            Opened::Pair(reader) => counts(&reader, common),
        },
        #[cfg(feature = "text-search")]
        Action::Index(arguments) => super::text_search::index(arguments, common),
        #[cfg(feature = "text-search")]
        Action::Search(arguments) => super::text_search::search(arguments, common),
    }
}

/// A pack of either kind of text.
pub(super) enum Opened {
    Text(TextReader<ClinicalDoc>),
    Pair(TextReader<ClinicalDocPair>),
}

pub(super) fn open(path: &std::path::Path, common: &Common) -> Result<Opened> {
    opened(super::open(path, common)?)
}

fn opened(pack: PackReader) -> Result<Opened> {
    let path = pack.path().to_owned();
    let path = std::path::Path::new(&path);
    let options = TextReadOptions::default();
    match pack.header().payload_type() {
        Some(name) if name == ClinicalDocPair::PAYLOAD_TYPE => {
            Ok(Opened::Pair(TextReader::from_reader(pack, options)?))
        }
        Some(name) if name == ClinicalDoc::PAYLOAD_TYPE => {
            Ok(Opened::Text(TextReader::from_reader(pack, options)?))
        }
        other => Err(Report::new(
            ErrorKind::Schema,
            format!(
                "{}: is no pack of clinical text (its payload type is {})",
                path.display(),
                other.unwrap_or("not stated")
            ),
        )
        .path(path)
        .into()),
    }
}

fn show<D: TextDocument>(
    reader: &TextReader<D>,
    arguments: &ShowArgs,
    common: &Common,
) -> Result<ExitCode> {
    let row = match (&arguments.patient, arguments.row) {
        (_, Some(row)) => row,
        (Some(patient), None) => {
            let rows = reader.rows_of(patient)?;
            if rows.len() > 1 && !common.quiet {
                output::note(&format!(
                    "rows {rows:?} have this id; the last one is shown (--row shows another)"
                ));
            }
            match rows.last() {
                Some(row) => *row,
                None => reader.row_of(patient)?,
            }
        }
        (None, None) => return Err(Failure::usage("a patient or --row is missing")),
    };
    let mut out = Out::new();
    if arguments.list {
        let manifest = reader.read_manifest_at(row)?;
        list::<D>(row, &manifest, common, &mut out)?;
    } else if let Some(id) = &arguments.doc {
        let Some((_, doc)) = reader.read_doc_by_id(row, id)? else {
            let patient = reader.read_manifest_at(row)?.patient_id;
            return Err(Failure::usage(format!(
                "patient {} has no document {}",
                human_safe(&patient),
                human_safe(id)
            )));
        };
        if common.json {
            out.serialized(&doc)?;
        } else {
            texts(&doc, &mut out)?;
        }
    } else {
        let patient = reader.read_at(row)?;
        if common.json {
            out.serialized(&patient)?;
        } else {
            let count = u64::try_from(patient.docs.len()).unwrap_or(u64::MAX);
            let title = out.bold(&human_safe(&patient.patient_id));
            let institution = human_safe(&patient.institution);
            out.line(&format!("{title}  {institution}  {}", human::counted(count, "document")))?;
            for doc in &patient.docs {
                let line = label_line(&doc.labels());
                let line = out.dim(&format!("--- {line}"));
                out.line(&line)?;
                texts(doc, &mut out)?;
            }
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Id and labels that say something, on one line.
fn label_line(labels: &DocLabelsRef<'_>) -> String {
    let mut line = human_safe(labels.doc_id);
    for label in [
        labels.doc_type,
        labels.doc_category,
        labels.doc_timestamp,
        labels.encounter,
        labels.source,
    ] {
        if !label.is_empty() {
            line.push_str("  ");
            line.push_str(&human_safe(label));
        }
    }
    if labels.episode_index >= 0 {
        line.push_str(&format!("  episode {}", labels.episode_index));
    }
    line
}

fn texts<D: TextDocument>(doc: &D, out: &mut Out) -> Result<()> {
    for (number, field) in D::TEXTS.iter().enumerate() {
        if D::TEXTS.len() > 1 {
            let name = out.dim(&format!("{}:", field.name));
            out.line(&name)?;
        }
        let text = doc.text(number);
        if out.is_terminal() {
            for line in text.split('\n') {
                out.line(&human_safe(line.strip_suffix('\r').unwrap_or(line)))?;
            }
        } else {
            out.bytes(text.as_bytes())?;
            if !text.ends_with('\n') {
                out.bytes(b"\n")?;
            }
        }
    }
    Ok(())
}

fn list<D: TextDocument>(
    row: u64,
    manifest: &Manifest,
    common: &Common,
    out: &mut Out,
) -> Result<()> {
    let bytes = |doc: &ManifestDoc| {
        let spans = doc.spans.iter().take(D::TEXTS.len());
        spans.fold(0_u64, |sum, span| sum.saturating_add(span.length))
    };
    if common.json {
        let docs: Vec<Value> = manifest
            .docs
            .iter()
            .map(|doc| {
                json!({
                    "doc_id": doc.labels.doc_id, "doc_type": doc.labels.doc_type,
                    "encounter": doc.labels.encounter, "doc_category": doc.labels.doc_category,
                    "source": doc.labels.source, "doc_timestamp": doc.labels.doc_timestamp,
                    "episode_index": doc.labels.episode_index, "bytes": bytes(doc),
                })
            })
            .collect();
        return out.json(&json!({
            "row": row, "patient_id": manifest.patient_id, "institution": manifest.institution,
            "docs": docs,
        }));
    }
    let title = out.bold(&human_safe(&manifest.patient_id));
    out.line(&format!("{title}  {}", human_safe(&manifest.institution)))?;
    for doc in &manifest.docs {
        let labels = doc.labels.borrowed();
        out.line(&format!("{:>10}  {}", human::bytes(bytes(doc)), label_line(&labels)))?;
    }
    Ok(())
}

fn export<D: TextDocument>(
    reader: &TextReader<D>,
    arguments: &ExportArgs,
    common: &Common,
) -> Result<ExitCode> {
    let mut filter = TextFilter::default();
    for institution in &arguments.institution {
        filter = filter.institution(institution);
    }
    if let Some(least) = arguments.min_docs {
        filter = filter.min_docs(least);
    }
    let rows = if filter == TextFilter::default() { None } else { Some(reader.select(&filter)?) };
    if let Some(dir) = &arguments.dir {
        return to_folder(reader, dir, rows, arguments.overwrite, common);
    }
    let writing = arguments.output.as_ref().map(|_| interrupt::writing()).transpose()?;
    let mut file = match &arguments.output {
        Some(path) => Some(NewFile::create_from(&arguments.path, path, arguments.overwrite)?),
        None => None,
    };
    let mut out = Out::new();
    let patients: Box<dyn Iterator<Item = Result<_>>> = match &rows {
        None => Box::new(reader.iter().map(|patient| patient.map_err(Failure::from))),
        Some(rows) => Box::new(rows.iter().map(|row| Ok(reader.read_at(*row)?))),
    };
    for patient in patients {
        interrupt::check()?;
        let patient = patient?;
        match &mut file {
            None => out.serialized(&patient)?,
            Some(file) => {
                let mut line = serde_json::to_vec(&patient)
                    .map_err(|error| Failure::output(&std::io::Error::other(error)))?;
                line.push(b'\n');
                file.write(&line)?;
            }
        }
    }
    match file {
        Some(file) => file.publish()?,
        None => out.finish()?,
    }
    drop(writing);
    Ok(ExitCode::SUCCESS)
}

/// `iac extract` for packs of text; nothing for other packs.
pub(super) fn extract(
    pack: &PackReader,
    rows: Option<&RowSelection>,
    (dir, overwrite): (&std::path::Path, bool),
    common: &Common,
) -> Result<Option<ExitCode>> {
    let name = pack.header().payload_type();
    if ![Some(ClinicalDoc::PAYLOAD_TYPE), Some(ClinicalDocPair::PAYLOAD_TYPE)].contains(&name) {
        return Ok(None);
    }
    let rows = match rows {
        None => None,
        Some(rows) => {
            super::select::check_rows(pack, rows)?;
            Some(rows.iter().collect())
        }
    };
    let code = match opened(pack.clone())? {
        Opened::Text(reader) => to_folder(&reader, dir, rows, overwrite, common),
        Opened::Pair(reader) => to_folder(&reader, dir, rows, overwrite, common),
    };
    code.map(Some)
}

fn to_folder<D: TextDocument>(
    reader: &TextReader<D>,
    dir: &std::path::Path,
    rows: Option<Vec<u64>>,
    overwrite: bool,
    common: &Common,
) -> Result<ExitCode> {
    let options = FolderOptions::default().rows(rows).overwrite(overwrite);
    let progress = Shown::beside_list(common, Unit::Rows);
    let mut out = Out::new();
    let mut relay = Relay::default();
    let writing = interrupt::writing()?;
    let result = write_folder(reader, dir, &options, &progress, &mut |patient| {
        if common.json {
            relay.pass(out.serialized(&patient))?;
        }
        Ok(())
    });
    let summary = relay.settle(result)?;
    drop(writing);
    if common.json {
        out.json(&json!({ "summary": {
            "dir": shown(dir), "patients": summary.patients, "files": summary.files,
            "bytes": summary.bytes, "renamed": summary.renamed,
        } }))?;
    } else {
        out.line(&format!(
            "{} with {}, {} in {}",
            human::counted(summary.patients, "patient"),
            human::counted(summary.files, "text"),
            human::bytes(summary.bytes),
            human_safe(&shown(dir))
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn counts<D: TextDocument>(reader: &TextReader<D>, common: &Common) -> Result<ExitCode> {
    let counts = reader.counts()?;
    let patients = u64::try_from(reader.patient_ids()?.len()).unwrap_or(u64::MAX);
    let documents = counts.values().fold(0_u64, |sum, found| sum.saturating_add(found.documents));
    let mut out = Out::new();
    if common.json {
        let institutions: serde_json::Map<String, Value> = counts
            .into_iter()
            .map(|(name, found)| {
                (name, json!({ "rows": found.rows, "documents": found.documents }))
            })
            .collect();
        out.json(&json!({
            "rows": reader.len(), "patients": patients, "documents": documents,
            "institutions": institutions,
        }))?;
    } else {
        let path = human_safe(&shown(std::path::Path::new(reader.pack().path())));
        out.line(&format!(
            "{path}: {} with {}",
            human::counted(patients, "patient"),
            human::counted(documents, "document")
        ))?;
        for (name, found) in counts {
            let name = if name.is_empty() { "(none)".to_owned() } else { human_safe(&name) };
            out.line(&format!(
                "{name}  {} with {}",
                human::counted(found.rows, "row"),
                human::counted(found.documents, "document")
            ))?;
        }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
