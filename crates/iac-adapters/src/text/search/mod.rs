//! Full-text search over a pack of text.
//!
//! The index is a folder beside the pack (`notes.iac.index` for `notes.iac`). It is made on
//! request, holds the words of every document but not the texts, knows the content of the pack that
//! it was made from, and can be thrown away at any time: the pack stays the truth, and snippets come
//! out of it.
//!
//! Words are those of the texts, so an index holds patient data: the folder is made readable by its
//! owner alone.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("notes.iac");
//! # use iac_adapters::text::{ClinicalDoc, ClinicalTextWriter, PatientText, TextWriteOptions};
//! # let mut writer = ClinicalTextWriter::create(&path, &TextWriteOptions::default())?;
//! # let mut patient = PatientText::new("P1");
//! # patient.docs.push(ClinicalDoc::new("P1/1", "No residual tumour."));
//! # writer.push(&patient)?;
//! # writer.finish()?;
//! use iac_adapters::text::ClinicalTextReader;
//! use iac_adapters::text::search::{SearchIndex, build_index};
//!
//! let reader = ClinicalTextReader::open(&path)?;
//! build_index(&reader, &iac_ops::NoProgress)?;
//! let index = SearchIndex::open(&reader)?;
//! let hits = index.search("residual tumour", 10)?;
//! assert_eq!((hits[0].patient_id.as_str(), hits[0].snippet.as_str()), ("P1", "No residual tumour"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod digest;
mod folder;
mod tokens;

use std::path::{Path, PathBuf};

use iac_format::ErrorKind;
use iac_ops::Progress;
use serde::Serialize;
use tantivy::collector::TopDocs;
use tantivy::query::{Query, QueryParser};
use tantivy::schema::{
    Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value as _,
};
use tantivy::snippet::SnippetGenerator;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, TantivyError};

use super::model::TextDocument;
use super::reader::TextReader;
use crate::error::{AdapterError, Result, short};
use digest::digest;
use folder::{replace, seal, stale};

pub use folder::index_folder;

/// Memory of the writer.
const WRITER_BYTES: usize = 64 << 20;
/// Characters of a snippet.
const SNIPPET: usize = 160;
/// Most bytes of a query.
const QUERY_BYTES: usize = 8 << 10;
/// Parentheses of a query that may be open at once.
const QUERY_DEPTH: usize = 8;
const TOKENIZER: &str = "iac_words";

/// One document that fits a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// Row of the index table.
    pub row: u64,
    /// Position of the document.
    pub document: u64,
    /// The patient, as the block has it.
    pub patient_id: String,
    /// The document's id.
    pub doc_id: String,
    /// Which of its texts the snippet is from: `text`, `source_text` or `compressed_text`.
    pub field: &'static str,
    /// How well it fits: comparable within one search only.
    pub score: f32,
    /// A part of the text; empty where the query is about labels alone.
    pub snippet: String,
    /// Bytes of the snippet that fit the query: beginnings and ends.
    pub highlights: Vec<(usize, usize)>,
}

struct Fields {
    schema: Schema,
    row: Field,
    document: Field,
    patient_id: Field,
    institution: Field,
    doc_id: Field,
    doc_type: Field,
    text: Field,
}

impl Fields {
    fn new() -> Self {
        let mut builder = Schema::builder();
        let words = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqsAndPositions);
        Self {
            row: builder.add_u64_field("row", STORED),
            document: builder.add_u64_field("document", STORED),
            patient_id: builder.add_text_field("patient_id", STRING),
            institution: builder.add_text_field("institution", STRING),
            doc_id: builder.add_text_field("doc_id", STRING),
            doc_type: builder.add_text_field("doc_type", STRING),
            text: builder
                .add_text_field("text", TextOptions::default().set_indexing_options(words)),
            schema: builder.build(),
        }
    }
}

/// Makes the index of a pack, in place of one that is there. It appears whole or not at all.
/// Progress counts patients; the number of documents comes back.
///
/// # Errors
///
/// [`AdapterError::Usage`] for a pack that is no file; [`AdapterError::Read`] and its like when the
/// pack cannot be read; [`AdapterError::Io`] and [`AdapterError::Source`] when the index cannot be
/// written; [`AdapterError::Ops`] when the work was stopped.
pub fn build_index<D: TextDocument>(
    reader: &TextReader<D>,
    progress: &dyn Progress,
) -> Result<u64> {
    let pack = Path::new(reader.pack().path());
    if !pack.is_file() {
        return Err(AdapterError::usage(format!(
            "{}: an index lies beside a file, and this pack is none",
            pack.display()
        )));
    }
    let target = index_folder(pack);
    let parent = match pack.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut folder = tempfile::Builder::new();
    // Nobody but the owner may read patients' words, from the first moment on.
    #[cfg(unix)]
    folder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = folder
        .prefix(&format!(".{}.", name.unwrap_or_default()))
        .suffix(".part")
        .tempdir_in(parent)
        .map_err(AdapterError::io(parent, "cannot make a folder for the index"))?;
    let documents = fill(reader, folder.path(), progress)?;
    seal(folder.path(), digest(reader.pack())?, documents)?;
    replace(folder, &target)?;
    Ok(documents)
}

fn fill<D: TextDocument>(
    reader: &TextReader<D>,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<u64> {
    let failed = |error: TantivyError| index_error(folder, &error);
    let fields = Fields::new();
    let index = Index::create_in_dir(folder, fields.schema.clone()).map_err(failed)?;
    index.tokenizers().register(TOKENIZER, tokens::Words);
    // One thread: results of equal rank must come in the same order each time.
    let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES).map_err(failed)?;
    progress.begin("indexing", Some(reader.len()));
    let mut documents = 0_u64;
    let added = (0_u64..).zip(reader.iter()).try_for_each(|(row, patient)| {
        if progress.is_cancelled() {
            return Err(AdapterError::from(iac_ops::OpsError::Cancelled));
        }
        let patient = patient?;
        for (number, doc) in (0_u64..).zip(&patient.docs) {
            let labels = doc.labels();
            let mut entry = TantivyDocument::new();
            entry.add_u64(fields.row, row);
            entry.add_u64(fields.document, number);
            entry.add_text(fields.patient_id, &patient.patient_id);
            entry.add_text(fields.institution, &patient.institution);
            entry.add_text(fields.doc_id, labels.doc_id);
            entry.add_text(fields.doc_type, labels.doc_type);
            for text in 0..D::TEXTS.len() {
                entry.add_text(fields.text, doc.text(text));
            }
            writer.add_document(entry).map_err(failed)?;
            documents = documents.saturating_add(1);
        }
        progress.advance(1);
        Ok(())
    });
    progress.finish();
    added?;
    writer.commit().map_err(failed)?;
    writer.wait_merging_threads().map_err(failed)?;
    Ok(documents)
}

/// An index that is open, together with its pack.
pub struct SearchIndex<'r, D> {
    reader: &'r TextReader<D>,
    folder: PathBuf,
    index: Index,
    searcher: IndexReader,
    fields: Fields,
    documents: u64,
}

impl<D> std::fmt::Debug for SearchIndex<'_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SearchIndex")
            .field("folder", &self.folder)
            .field("documents", &self.documents)
            .finish_non_exhaustive()
    }
}

impl<'r, D: TextDocument> SearchIndex<'r, D> {
    /// Opens the index that lies beside a pack. All of its files are compared with their CRC-32
    /// before; links are not followed.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] when there is none, or when it was made from another content of the
    /// pack or by another version, or was altered since: [`build_index`] helps;
    /// [`AdapterError::Io`] and [`AdapterError::Source`] when it cannot be read.
    pub fn open(reader: &'r TextReader<D>) -> Result<Self> {
        let folder = index_folder(Path::new(reader.pack().path()));
        let about = folder::about(&folder)?;
        if about.pack_digest != digest(reader.pack())? {
            return Err(stale(&folder, "the index was made from another content of the pack"));
        }
        folder::check(&folder, &about)?;
        let opened = folder::guarded(&folder, || {
            let failed = |error: TantivyError| index_error(&folder, &error);
            let index = Index::open_in_dir(&folder).map_err(failed)?;
            let fields = Fields::new();
            if index.schema() != fields.schema {
                return Err(stale(&folder, "the index has other fields"));
            }
            index.tokenizers().register(TOKENIZER, tokens::Words);
            let searcher = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into();
            let searcher: IndexReader = searcher.map_err(failed)?;
            Ok((index, searcher, fields))
        });
        let (index, searcher, fields) = opened?;
        let documents = about.documents;
        Ok(Self { reader, folder, index, searcher, fields, documents })
    }

    /// Documents that the index has.
    #[must_use]
    pub const fn documents(&self) -> u64 {
        self.documents
    }

    /// Documents that fit a query, the best first, at most so many.
    ///
    /// All words must occur; `OR`, `-word`, `"words in this order"` and parentheses do what one
    /// expects, `doc_type:NAME`, `institution:NAME`, `patient_id:ID` and `doc_id:ID` ask for labels.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] for a query that cannot be understood; otherwise as
    /// [`open`](Self::open) and [`TextReader::read_doc`].
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        check_query(query)?;
        folder::guarded(&self.folder, || self.find(query, limit))
    }

    fn find(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>> {
        let failed = |error: TantivyError| index_error(&self.folder, &error);
        let mut parser = QueryParser::for_index(&self.index, vec![self.fields.text]);
        parser.set_conjunction_by_default();
        let query: Box<dyn Query> = parser.parse_query(query).map_err(|error| {
            AdapterError::usage(format!("the query \"{}\": {error}", short(query)))
        })?;
        let searcher = self.searcher.searcher();
        // No more than there are: memory is taken for so many.
        let most = usize::try_from(searcher.num_docs()).unwrap_or(usize::MAX);
        let limit = limit.min(most.max(1));
        let found = searcher
            .search(&query, &TopDocs::with_limit(limit).order_by_score())
            .map_err(failed)?;
        let mut snippets = SnippetGenerator::create(&searcher, query.as_ref(), self.fields.text)
            .map_err(failed)?;
        snippets.set_max_num_chars(SNIPPET);
        let mut hits = Vec::with_capacity(found.len());
        for (score, address) in found {
            let entry: TantivyDocument = searcher.doc(address).map_err(failed)?;
            let number = |field| entry.get_first(field).and_then(|value| value.as_u64());
            let (Some(row), Some(document)) =
                (number(self.fields.row), number(self.fields.document))
            else {
                return Err(stale(&self.folder, "the index is damaged"));
            };
            hits.push(self.hit(row, document, score, &snippets)?);
        }
        hits.sort_by(|a, b| {
            b.score.total_cmp(&a.score).then((a.row, a.document).cmp(&(b.row, b.document)))
        });
        Ok(hits)
    }

    fn hit(
        &self,
        row: u64,
        document: u64,
        score: f32,
        snippets: &SnippetGenerator,
    ) -> Result<SearchHit> {
        let (patient_id, doc) = self.reader.read_doc_of(row, document)?;
        let mut hit = SearchHit {
            row,
            document,
            patient_id,
            doc_id: doc.labels().doc_id.to_owned(),
            field: D::TEXTS.first().map_or("text", |text| text.name),
            score,
            snippet: String::new(),
            highlights: Vec::new(),
        };
        for (number, field) in D::TEXTS.iter().enumerate() {
            let snippet = snippets.snippet(doc.text(number));
            if !snippet.fragment().is_empty() {
                hit.field = field.name;
                hit.snippet = snippet.fragment().to_owned();
                let ranges = snippet.highlighted().iter();
                hit.highlights = ranges.map(|range| (range.start, range.end)).collect();
                break;
            }
        }
        Ok(hit)
    }
}

/// Queries that nobody types are refused before they are parsed, which takes a stack frame for each
/// parenthesis and more.
fn check_query(query: &str) -> Result<()> {
    let refused = |reason: String| {
        Err(AdapterError::usage(format!("the query \"{}\": {reason}", short(query))))
    };
    if query.len() > QUERY_BYTES {
        return refused(format!("it has {} bytes, more than {QUERY_BYTES}", query.len()));
    }
    let mut depth = 0_usize;
    for byte in query.bytes() {
        match byte {
            b'(' => depth = depth.saturating_add(1),
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > QUERY_DEPTH {
            return refused(format!("parentheses are nested deeper than {QUERY_DEPTH}"));
        }
    }
    Ok(())
}

fn index_error(folder: &Path, error: &TantivyError) -> AdapterError {
    AdapterError::Source {
        path: folder.to_owned(),
        row: None,
        kind: ErrorKind::Io,
        reason: format!("the index: {error}"),
    }
}
