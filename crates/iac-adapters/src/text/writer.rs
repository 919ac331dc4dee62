//! Writing packs of text, patient by patient.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt8Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use iac_codec::CodecError;
use iac_format::{EXTENSIONS_MEMBER, REQUIRED_EXTENSIONS_MEMBER};
use iac_writer::{PackWriter, Table, WriteError, WriteSummary};
use serde_json::{Map, Value};

use super::block::encode_block;
use super::compress::Compressor;
use super::model::{Patient, SCHEMA_VERSION, TextDocument};
use super::options::{TextColumns, TextWriteOptions, codec_members};
use super::reader::{INSTITUTION, NUM_DOCS, PATIENT_ID, RAW_BYTES};
use crate::error::{AdapterError, Result, short};

/// What `extensions` of a header names when the index has optional columns.
pub const TEXT_COLUMNS_EXTENSION: &str = "iac.text.columns";

/// Rows of one batch of the index.
const BATCH_ROWS: usize = 1 << 16;
/// Most bytes of texts in one batch of the index: far below what a batch can address.
const BATCH_BYTES: usize = 64 << 20;
/// Most bytes of one row's texts in the index, which one batch must be able to address.
const ROW_BYTES: usize = 1 << 30;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextWriteSummary {
    /// The pack.
    pub written: WriteSummary,
    /// Patients, as many as rows.
    pub patients: u64,
    /// Documents of all patients.
    pub documents: u64,
    /// Bytes of all texts.
    pub text_bytes: u64,
    /// Bytes of all blocks before compression.
    pub block_bytes: u64,
}

/// Writes a pack of text, patient by patient.
///
/// Blocks are compressed on several threads and written in the order in which patients come; the
/// same patients give the same bytes, whatever the number of threads. Memory holds the blocks and
/// records that are under way, bounded by [`TextWriteOptions::memory`], and the index.
///
/// Nothing appears under the destination's name before [`finish`](Self::finish) succeeds. A writer
/// that is dropped leaves nothing behind.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.iac");
/// use iac_adapters::text::{ClinicalDoc, ClinicalTextWriter, PatientText, TextWriteOptions};
///
/// let mut writer = ClinicalTextWriter::create(&path, &TextWriteOptions::default())?;
/// for number in 0..3 {
///     let mut patient = PatientText::new(format!("P{number}"));
///     patient.institution = "site_a".to_owned();
///     patient.docs.push(ClinicalDoc::new("note-1", "Clear margins."));
///     writer.push(&patient)?;
/// }
/// assert!(writer.push(&PatientText::new("P0")).is_err(), "P0 was there already");
/// assert_eq!(writer.finish()?.documents, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TextWriter<D> {
    writer: PackWriter,
    compressor: Compressor,
    rows: Rows,
    /// Ids so far, where they must differ.
    ids: Option<HashSet<Box<str>>>,
    counts: Counts,
    /// After an error nobody knows which records are missing.
    failed: bool,
    kind: PhantomData<fn(D)>,
}

#[derive(Debug, Default)]
struct Counts {
    patients: u64,
    documents: u64,
    text_bytes: u64,
    block_bytes: u64,
}

impl<D: TextDocument> TextWriter<D> {
    /// Begins a pack.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Write`] when the destination exists and may not be replaced, or cannot be
    /// written; [`AdapterError::Codec`] for a codec that cannot encode bytes;
    /// [`AdapterError::Usage`] for header members that belong to the schema.
    pub fn create(path: impl AsRef<Path>, options: &TextWriteOptions) -> Result<Self> {
        let path = path.as_ref();
        let codec_error = |source| AdapterError::Codec {
            path: path.to_string_lossy().into_owned(),
            row: None,
            source,
        };
        let codec = options.encoder().map_err(codec_error)?;
        let mut header = codec_members(&codec);
        header.insert("payload_type".to_owned(), D::PAYLOAD_TYPE.into());
        header.insert(D::VERSION_FIELD.to_owned(), SCHEMA_VERSION.into());
        for (name, value) in &options.header {
            let is_own = matches!(name.as_str(), "payload_type" | "codec" | "codec_params")
                || name == D::VERSION_FIELD;
            if is_own {
                return Err(AdapterError::usage(format!(
                    "the header member `{name}` belongs to the schema and cannot be replaced"
                )));
            }
            header.insert(name.clone(), value.clone());
        }
        list(&mut header, REQUIRED_EXTENSIONS_MEMBER, codec.required_extensions())?;
        if !options.columns.is_empty() {
            list(&mut header, EXTENSIONS_MEMBER, &[TEXT_COLUMNS_EXTENSION])?;
        }
        let rows = Rows::new::<D>(options.columns);
        let slides = placeholder::<D>()?;
        let schema = Arc::clone(&rows.schema);
        let writer = PackWriter::create(path, header, &slides, schema, &options.write)?;
        Ok(Self {
            writer,
            compressor: Compressor::new(codec, options.workers, options.memory),
            rows,
            ids: (!options.duplicates).then(HashSet::new),
            counts: Counts::default(),
            failed: false,
            kind: PhantomData,
        })
    }

    /// Patients pushed so far.
    #[must_use]
    pub const fn patients(&self) -> u64 {
        self.counts.patients
    }

    /// Adds a patient as the next row.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Records`] for an id that is there already, unless duplicates are allowed,
    /// and for what does not fit into a row: the writer stays usable. [`AdapterError::Codec`] and
    /// [`AdapterError::Write`] when a patient, perhaps an earlier one, cannot be compressed or
    /// written: the pack cannot be finished then.
    pub fn push(&mut self, patient: &Patient<D>) -> Result<()> {
        self.check_usable()?;
        let row = self.counts.patients;
        if let Some(ids) = &self.ids
            && ids.contains(patient.patient_id.as_str())
        {
            return Err(AdapterError::records(
                row,
                PATIENT_ID,
                format!("the patient_id \"{}\" is there already", short(&patient.patient_id)),
            ));
        }
        let block = encode_block(patient)
            .map_err(|fault| AdapterError::records(row, "docs", fault.to_string()))?;
        let block_bytes = size(block.len());
        let sums = self.rows.add(row, patient, block_bytes)?;
        if let Some(ids) = &mut self.ids {
            ids.insert(patient.patient_id.as_str().into());
        }
        self.counts.patients = row.saturating_add(1);
        let docs = size(patient.docs.len());
        self.counts.documents = self.counts.documents.saturating_add(docs);
        self.counts.text_bytes =
            sums.iter().fold(self.counts.text_bytes, |a, b| a.saturating_add(*b));
        self.counts.block_bytes = self.counts.block_bytes.saturating_add(block_bytes);
        // Until all went well, the pack lacks something.
        self.failed = true;
        if self.rows.is_full() {
            let batch = self.rows.take()?;
            self.writer.push_rows(&batch)?;
        }
        let writer = &mut self.writer;
        self.compressor.push(block, &mut |row, record| write_record(writer, row, record))?;
        self.failed = false;
        Ok(())
    }

    /// Completes the pack and publishes it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Usage`] when no patient was pushed, and after a push that failed; otherwise
    /// as [`push`](Self::push). Nothing is published then.
    pub fn finish(mut self) -> Result<TextWriteSummary> {
        self.check_usable()?;
        if self.counts.patients == 0 {
            return Err(AdapterError::usage("there is no patient to pack"));
        }
        let writer = &mut self.writer;
        self.compressor.finish(&mut |row, record| write_record(writer, row, record))?;
        if self.rows.count > 0 {
            let batch = self.rows.take()?;
            self.writer.push_rows(&batch)?;
        }
        let written = self.writer.finish()?;
        let Counts { patients, documents, text_bytes, block_bytes } = self.counts;
        Ok(TextWriteSummary { written, patients, documents, text_bytes, block_bytes })
    }

    fn check_usable(&self) -> Result<()> {
        if self.failed {
            return Err(AdapterError::usage(
                "an earlier patient could not be written, so the pack cannot be completed",
            ));
        }
        Ok(())
    }
}

fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn write_record(
    writer: &mut PackWriter,
    row: u64,
    record: Result<Vec<u8>, CodecError>,
) -> Result<()> {
    let record = record.map_err(|source| {
        let path = writer.path().to_owned();
        WriteError::Codec { path, row: Some(row), source: Box::new(source) }
    })?;
    writer.push(record)?;
    Ok(())
}

/// Adds names to a list of extensions that the caller may have begun.
fn list(header: &mut Map<String, Value>, member: &str, names: &[&str]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let entry = header.entry(member).or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(listed) = entry else {
        return Err(AdapterError::usage(format!("the header member `{member}` must be an array")));
    };
    for name in names {
        if !listed.iter().any(|listed| listed.as_str() == Some(name)) {
            listed.push(Value::from(*name));
        }
    }
    Ok(())
}

/// The slide table, which means nothing here: one row.
fn placeholder<D: TextDocument>() -> Result<Table> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("slide_idx", DataType::UInt8, true),
        Field::new("slide_id", DataType::Utf8, true),
        Field::new("patient_id", DataType::Utf8, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt8Array::from(vec![0])),
        Arc::new(StringArray::from(vec![D::PAYLOAD_TYPE])),
        Arc::new(StringArray::from(vec![""])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(table_error)?;
    Ok(Table::new(schema, vec![batch])?)
}

fn table_error(error: arrow_schema::ArrowError) -> AdapterError {
    AdapterError::records(None, None, format!("the rows do not form a table: {error}"))
}

/// Rows of the index that are not handed on yet.
#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    columns: TextColumns,
    count: usize,
    bytes: usize,
    ids: StringBuilder,
    institutions: StringBuilder,
    num_docs: UInt32Builder,
    /// One for each text that has a column of sums.
    sums: Vec<UInt64Builder>,
    doc_ids: ListBuilder<StringBuilder>,
    doc_types: ListBuilder<StringBuilder>,
    doc_timestamps: ListBuilder<StringBuilder>,
    raw_bytes: UInt64Builder,
}

impl Rows {
    fn new<D: TextDocument>(columns: TextColumns) -> Self {
        let text = || Field::new("item", DataType::Utf8, true);
        let list = |name: &str| Field::new(name, DataType::List(Arc::new(text())), true);
        let mut fields = vec![
            Field::new(PATIENT_ID, DataType::Utf8, true),
            Field::new(INSTITUTION, DataType::Utf8, true),
            Field::new(NUM_DOCS, DataType::UInt32, true),
        ];
        let sums = D::TEXTS.iter().filter_map(|text| text.sum_column);
        fields.extend(sums.map(|name| Field::new(name, DataType::UInt64, true)));
        for (wanted, name) in [
            (columns.doc_ids, "doc_ids"),
            (columns.doc_types, "doc_types"),
            (columns.doc_timestamps, "doc_timestamps"),
        ] {
            if wanted {
                fields.push(list(name));
            }
        }
        if columns.raw_bytes {
            fields.push(Field::new(RAW_BYTES, DataType::UInt64, true));
        }
        let sums = D::TEXTS.iter().filter(|text| text.sum_column.is_some());
        Self {
            schema: Arc::new(Schema::new(fields)),
            columns,
            count: 0,
            bytes: 0,
            ids: StringBuilder::new(),
            institutions: StringBuilder::new(),
            num_docs: UInt32Builder::new(),
            sums: sums.map(|_| UInt64Builder::new()).collect(),
            doc_ids: ListBuilder::new(StringBuilder::new()),
            doc_types: ListBuilder::new(StringBuilder::new()),
            doc_timestamps: ListBuilder::new(StringBuilder::new()),
            raw_bytes: UInt64Builder::new(),
        }
    }

    /// Adds the row of a patient, and tells the sums of its texts; nothing is added on an error.
    fn add<D: TextDocument>(
        &mut self,
        row: u64,
        patient: &Patient<D>,
        block_bytes: u64,
    ) -> Result<[u64; 2]> {
        let documents = u32::try_from(patient.docs.len()).map_err(|_| {
            let reason = format!("{} documents are more than a row can count", patient.docs.len());
            AdapterError::records(row, NUM_DOCS, reason)
        })?;
        let mut bytes = patient.patient_id.len().saturating_add(patient.institution.len());
        let mut sums = [0_u64; 2];
        for doc in &patient.docs {
            for (number, sum) in sums.iter_mut().enumerate() {
                *sum = sum.saturating_add(size(doc.text(number).len()));
            }
            let labels = doc.labels();
            for (wanted, label) in [
                (self.columns.doc_ids, labels.doc_id),
                (self.columns.doc_types, labels.doc_type),
                (self.columns.doc_timestamps, labels.doc_timestamp),
            ] {
                if wanted {
                    bytes = bytes.saturating_add(label.len()).saturating_add(size_of::<u32>());
                }
            }
        }
        if bytes > ROW_BYTES {
            return Err(AdapterError::records(
                row,
                PATIENT_ID,
                format!("ids and labels of {bytes} bytes are too many for one row of the index"),
            ));
        }
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.ids.append_value(&patient.patient_id);
        self.institutions.append_value(&patient.institution);
        self.num_docs.append_value(documents);
        for (column, sum) in self.sums.iter_mut().zip(sums) {
            column.append_value(sum);
        }
        let fill = |wanted: bool, list: &mut ListBuilder<StringBuilder>, pick: fn(&D) -> &str| {
            if wanted {
                for doc in &patient.docs {
                    list.values().append_value(pick(doc));
                }
                list.append(true);
            }
        };
        fill(self.columns.doc_ids, &mut self.doc_ids, |doc| doc.labels().doc_id);
        fill(self.columns.doc_types, &mut self.doc_types, |doc| doc.labels().doc_type);
        fill(self.columns.doc_timestamps, &mut self.doc_timestamps, |doc| {
            doc.labels().doc_timestamp
        });
        if self.columns.raw_bytes {
            self.raw_bytes.append_value(block_bytes);
        }
        Ok(sums)
    }

    const fn is_full(&self) -> bool {
        self.count >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// The rows as a batch; none are left.
    fn take(&mut self) -> Result<RecordBatch> {
        self.count = 0;
        self.bytes = 0;
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.ids.finish()),
            Arc::new(self.institutions.finish()),
            Arc::new(self.num_docs.finish()),
        ];
        arrays.extend(self.sums.iter_mut().map(|sum| Arc::new(sum.finish()) as ArrayRef));
        if self.columns.doc_ids {
            arrays.push(Arc::new(self.doc_ids.finish()));
        }
        if self.columns.doc_types {
            arrays.push(Arc::new(self.doc_types.finish()));
        }
        if self.columns.doc_timestamps {
            arrays.push(Arc::new(self.doc_timestamps.finish()));
        }
        if self.columns.raw_bytes {
            arrays.push(Arc::new(self.raw_bytes.finish()));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(table_error)
    }
}
