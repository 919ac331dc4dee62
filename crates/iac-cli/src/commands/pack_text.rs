//! `iac pack text` and `iac pack text-pair`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use iatrocache::adapters::AdapterError;
use iatrocache::adapters::text::import::{
    ColumnMapping, CsvPatients, FolderPatients, Grouping, JsonPatients, pack, train_dictionary,
};
use iatrocache::adapters::text::{
    ClinicalDoc, Patient, TextColumns, TextDocument, TextWriteOptions, TextWriteSummary,
};
use iatrocache::adapters::text_pair::ClinicalDocPair;
use iatrocache::codec::brotli::BrotliOptions;
use iatrocache::codec::zstd::ZstdOptions;
use iatrocache::{Registry, WriteOptions};
use serde_json::json;

use super::codec::CodecArg;
use super::select::shown;
use crate::cli::Common;
use crate::failure::{Failure, Result, human_safe};
use crate::human;
use crate::interrupt;
use crate::output::Out;
use crate::progress::{Shown, Unit};

/// Pack clinical text, one record for each patient
///
/// The source is JSON (an object for each patient, one in a line or in one array), CSV or a folder
/// of text files. An object has the members patient_id, institution and docs; a document doc_id and
/// text, and perhaps doc_type, encounter, doc_category, source, doc_timestamp and episode_index.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac pack text patients.jsonl -o notes.iac
  iac pack text patients.jsonl -o notes.iac --quality 9 --index-columns
  iac pack text notes.csv -o notes.iac --column patient_id=MRN --column text=NOTE_TEXT
  iac pack text notes/ -o notes.iac --institution site_a     notes/PATIENT/NOTE.txt
  iac pack text patients.jsonl -o notes.iac --codec zstd:level=19 --dictionary 32768

With --json, one object: {\"path\",\"patients\",\"documents\",\"text_bytes\",\"file_bytes\"}.")]
pub(crate) struct TextArgs {
    #[command(flatten)]
    common: PackTextArgs,
}

/// Pack paired clinical text: documents with a source text and a compressed one
///
/// As `iac pack text`, with the members source_text and compressed_text in place of text; a folder
/// cannot be the source.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iac pack text-pair pairs.jsonl -o pairs.iac
  iac pack text-pair pairs.csv -o p.iac --column source_text=NOTE --column compressed_text=SHORT

With --json, one object: {\"path\",\"patients\",\"documents\",\"text_bytes\",\"file_bytes\"}.")]
pub(crate) struct TextPairArgs {
    #[command(flatten)]
    common: PackTextArgs,
}

#[derive(Debug, Args)]
struct PackTextArgs {
    /// A JSON file (- for standard input), a CSV file or a folder
    source: PathBuf,
    /// The pack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// What the source is [default: by its name]
    #[arg(long, value_enum, value_name = "KIND")]
    from: Option<From>,
    /// How hard brotli tries, from 0 (fast) to 11 (small)
    #[arg(long, value_name = "Q", default_value_t = 11, value_parser = clap::value_parser!(u8).range(0..=11), conflicts_with = "codec")]
    quality: u8,
    /// Another codec than brotli, as NAME or NAME:KEY=VALUE,KEY=VALUE
    #[arg(long, value_name = "CODEC")]
    codec: Option<CodecArg>,
    /// Train a dictionary of so many bytes on the source (with --codec zstd); other programs may
    /// not be able to read the pack then
    #[arg(long, value_name = "BYTES", requires = "codec")]
    dictionary: Option<usize>,
    /// In a table: the column that holds a member
    #[arg(long, value_name = "MEMBER=COLUMN", value_parser = column)]
    column: Vec<(String, String)>,
    /// In a table or a folder: the institution of every patient
    #[arg(long, value_name = "NAME")]
    institution: Option<String>,
    /// In a table: rows of one patient may stand apart (all patients are in memory then)
    #[arg(long)]
    group: bool,
    /// Allow several records of one patient
    #[arg(long)]
    duplicates: bool,
    /// Add columns with the ids, types and timestamps of documents, and sizes, to the index
    #[arg(long)]
    index_columns: bool,
    /// Replace an existing pack
    #[arg(long)]
    overwrite: bool,
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// One object for each patient, in lines or in an array
    Json,
    /// One row for each document
    Csv,
    /// One row for each document
    #[cfg(feature = "parquet")]
    Parquet,
    /// A folder for each patient, a text file for each document
    Folder,
}

impl From {
    fn is_table(self) -> bool {
        #[cfg(feature = "parquet")]
        if self == Self::Parquet {
            return true;
        }
        self == Self::Csv
    }
}

fn column(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(member, _)| !member.is_empty());
    let (member, column) = parts.ok_or_else(|| "is not MEMBER=COLUMN".to_owned())?;
    Ok((member.to_owned(), column.to_owned()))
}

pub(crate) fn text(arguments: &TextArgs, common: &Common) -> Result<ExitCode> {
    let arguments = &arguments.common;
    run(arguments, common, |from| match from {
        From::Folder => {
            let patients = FolderPatients::open(&arguments.source)?;
            let institution = arguments.institution.clone().unwrap_or_default();
            Ok(Box::new(patients.institution(institution)) as Patients<'_, ClinicalDoc>)
        }
        other => table_or_json(arguments, other),
    })
}

pub(crate) fn text_pair(arguments: &TextPairArgs, common: &Common) -> Result<ExitCode> {
    let arguments = &arguments.common;
    run(arguments, common, |from| match from {
        From::Folder => {
            Err(Failure::usage("a folder has no pairs of texts: name a JSON or CSV file"))
        }
        other => table_or_json::<ClinicalDocPair>(arguments, other),
    })
}

type Patients<'a, D> = Box<dyn Iterator<Item = Result<Patient<D>, AdapterError>> + 'a>;

fn table_or_json<D: TextDocument>(arguments: &PackTextArgs, from: From) -> Result<Patients<'_, D>> {
    let source = &arguments.source;
    if from.is_table() {
        let grouping = if arguments.group { Grouping::Anywhere } else { Grouping::Consecutive };
        let mut mapping = ColumnMapping::default().grouping(grouping);
        for (member, column) in &arguments.column {
            mapping = mapping.column(member, column);
        }
        if let Some(institution) = &arguments.institution {
            mapping = mapping.institution(institution);
        }
        #[cfg(feature = "parquet")]
        if from == From::Parquet {
            use iatrocache::adapters::text::import::ParquetPatients;
            return Ok(Box::new(ParquetPatients::<D>::open(source, &mapping).map_err(unmapped)?));
        }
        return Ok(Box::new(CsvPatients::<D>::open(source, &mapping).map_err(unmapped)?));
    }
    if !arguments.column.is_empty() || arguments.group || arguments.institution.is_some() {
        return Err(Failure::usage("--column, --group and --institution are not for JSON"));
    }
    let input: Box<dyn Read> = if is_stdin(source) {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(source).map_err(|error| Failure::io(source, "cannot open", &error))?)
    };
    Ok(Box::new(JsonPatients::<D, _>::new(source, input)))
}

/// A table that lacks columns may only have other names for them.
fn unmapped(error: AdapterError) -> Failure {
    let lacks_columns = matches!(error, AdapterError::MissingColumns { .. });
    let failure = Failure::from(error);
    if lacks_columns {
        return failure.with_hint("--column MEMBER=COLUMN says which column holds a member");
    }
    failure
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new("-")
}

/// What a source is, by its name.
fn by_name(source: &Path) -> Result<From> {
    let ending = source.extension().map(|ending| ending.to_ascii_lowercase());
    Ok(match ending {
        _ if source.is_dir() => From::Folder,
        Some(ending) if ending == "csv" => From::Csv,
        #[cfg(feature = "parquet")]
        Some(ending) if ending == "parquet" => From::Parquet,
        #[cfg(not(feature = "parquet"))]
        Some(ending) if ending == "parquet" => {
            return Err(Failure::not_compiled_in("reading Parquet files", "parquet"));
        }
        _ => From::Json,
    })
}

fn run<'a, D: TextDocument>(
    arguments: &'a PackTextArgs,
    common: &Common,
    open: impl Fn(From) -> Result<Patients<'a, D>>,
) -> Result<ExitCode> {
    let source = &arguments.source;
    let from = match arguments.from {
        Some(from) => from,
        None => by_name(source)?,
    };
    let codec = match (&arguments.codec, arguments.dictionary) {
        (None, _) => BrotliOptions::default().with_quality(arguments.quality).codec(),
        (Some(CodecArg(spec)), None) => Registry::global().create_encoder(spec),
        (Some(CodecArg(spec)), Some(bytes)) => {
            if is_stdin(source) {
                return Err(Failure::usage("a dictionary needs a source that can be read twice"));
            }
            let dictionary = train_dictionary(open(from)?, bytes)?;
            ZstdOptions::from_spec(spec).and_then(|zstd| zstd.with_dictionary(dictionary).codec())
        }
    };
    let codec = codec.map_err(|error| Failure::codec(&error))?;
    let mut options = TextWriteOptions::default()
        .codec(codec)
        .duplicates(arguments.duplicates)
        .workers(common.workers)
        .write(WriteOptions::new().overwrite(arguments.overwrite));
    if arguments.index_columns {
        options = options.columns(TextColumns::all());
    }
    let progress = Shown::new(common, Unit::Rows);
    let writing = interrupt::writing()?;
    let summary = pack(open(from)?, &arguments.output, &options, &progress)?;
    drop(writing);
    tell(&summary, common)
}

fn tell(summary: &TextWriteSummary, common: &Common) -> Result<ExitCode> {
    let mut out = Out::new();
    if common.json {
        out.json(&json!({
            "path": shown(&summary.written.path),
            "patients": summary.patients,
            "documents": summary.documents,
            "text_bytes": summary.text_bytes,
            "file_bytes": summary.written.file_bytes,
        }))?;
    } else {
        out.line(&format!(
            "{} with {} of {} packed into {} ({})",
            human::counted(summary.patients, "patient"),
            human::counted(summary.documents, "document"),
            human::bytes(summary.text_bytes),
            human_safe(&shown(&summary.written.path)),
            human::bytes(summary.written.file_bytes)
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
