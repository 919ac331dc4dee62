//! Reading packs of text.

mod index;
mod patients;

use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use iac_codec::Limits;
use iac_format::TableKind;
use iac_reader::{PackReader, ReadOptions, RecordOptions, VariableRecordPack};
use serde_json::Value;

use crate::columns::{IntColumn, TextColumn, has_column, text_column};
use crate::error::{AdapterError, Result, short};
use crate::text::block::{decode_within, doc_end, document, manifest_end, split};
use crate::text::fault::BlockError;
use crate::text::lookup::PatientRows;
use crate::text::manifest::{self, Keep, Manifest, Parsed};
use crate::text::model::{Patient, SCHEMA_VERSION, TextDocument};
use crate::text::writer::TEXT_COLUMNS_EXTENSION;

pub use index::{InstitutionCounts, TextFilter};
pub use patients::Patients;

pub(crate) const PATIENT_ID: &str = "patient_id";
pub(crate) const INSTITUTION: &str = "institution";
pub(crate) const NUM_DOCS: &str = "num_docs";
pub(crate) const RAW_BYTES: &str = "raw_bytes";

/// How packs of text are read.
#[derive(Debug, Clone, Default)]
pub struct TextReadOptions {
    limits: Limits,
    strict: bool,
}

impl TextReadOptions {
    /// Sets the bounds on what one patient may decode to, and on the memory that its documents take.
    /// Default: [`Limits::default`].
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets whether a patient whose block and index disagree is an error. Default: no; then the block
    /// is what counts, and the index serves for finding rows.
    #[must_use]
    pub const fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}

/// Reads a pack of text, patient by patient.
///
/// A patient is found by a column of the index, read in one go and decompressed alone. Stored bytes
/// are compared with their CRC-32 unless the [`ReadOptions`] say otherwise. Clones are cheap and
/// work from any number of threads at once.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.iac");
/// use iac_adapters::text::{
///     ClinicalDoc, ClinicalTextReader, ClinicalTextWriter, PatientText, TextWriteOptions,
/// };
///
/// let mut writer = ClinicalTextWriter::create(&path, &TextWriteOptions::default())?;
/// let mut patient = PatientText::new("P1");
/// patient.docs.push(ClinicalDoc::new("P1/1", "No residual tumour."));
/// writer.push(&patient)?;
/// writer.finish()?;
///
/// let reader = ClinicalTextReader::open(&path)?;
/// assert_eq!(reader.read("P1")?, patient);
/// assert_eq!(reader.read_manifest_at(0)?.docs[0].spans[0].length, 19);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TextReader<D> {
    shared: Arc<Shared>,
    kind: PhantomData<fn() -> D>,
}

#[derive(Debug)]
struct Shared {
    pack: VariableRecordPack,
    options: TextReadOptions,
    rows: u64,
    ids: OnceLock<TextColumn>,
    by_id: OnceLock<PatientRows>,
    institutions: OnceLock<TextColumn>,
    num_docs: OnceLock<IntColumn>,
}

/// One document and whose it is.
struct OneDoc<D> {
    #[cfg_attr(not(feature = "text-search"), allow(dead_code))]
    patient_id: String,
    position: u64,
    /// The document, or how many there are.
    found: Result<D, u64>,
}

impl<D> Clone for TextReader<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), kind: PhantomData }
    }
}

impl<D: TextDocument> TextReader<D> {
    /// Opens a pack with default options.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Read`] when the file cannot be opened or is no pack;
    /// [`AdapterError::PayloadType`] when it is a pack of something else; [`AdapterError::Schema`]
    /// when the header's version of the schema is not known.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default(), TextReadOptions::default())
    }

    /// Opens a pack.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(
        path: impl AsRef<Path>,
        read: &ReadOptions,
        options: TextReadOptions,
    ) -> Result<Self> {
        Self::from_reader(PackReader::open_with(path, read)?, options)
    }

    /// Reads a pack that is open already.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_reader(pack: PackReader, options: TextReadOptions) -> Result<Self> {
        let members = pack.header().members();
        let found = members.get("payload_type").and_then(Value::as_str);
        if found != Some(D::PAYLOAD_TYPE) {
            return Err(AdapterError::PayloadType {
                path: pack.path().to_owned(),
                found: found.map(str::to_owned),
                expected: D::PAYLOAD_TYPE,
            });
        }
        check_version(&pack, D::VERSION_FIELD)?;
        pack.num_records()?;
        Ok(Self::for_index(pack, options))
    }

    /// A reader of whatever the pack is; rows are none where they cannot be counted.
    pub(crate) fn for_index(pack: PackReader, options: TextReadOptions) -> Self {
        let rows = pack.num_records().unwrap_or(0);
        let has_sizes = pack.header().extensions().contains(&TEXT_COLUMNS_EXTENSION);
        let records = RecordOptions::default()
            .limits(options.limits)
            .size_column(has_sizes.then(|| RAW_BYTES.to_owned()));
        let shared = Shared {
            pack: VariableRecordPack::from_reader_with(pack, records),
            options,
            rows,
            ids: OnceLock::new(),
            by_id: OnceLock::new(),
            institutions: OnceLock::new(),
            num_docs: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), kind: PhantomData }
    }

    /// The pack: header, tables, stored bytes.
    #[must_use]
    pub fn pack(&self) -> &PackReader {
        self.shared.pack.reader()
    }

    /// Number of rows: patients, where no id repeats.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.shared.rows
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn ids(&self) -> Result<&TextColumn> {
        let load = || text_column(self.pack(), TableKind::Index, PATIENT_ID);
        loaded(&self.shared.ids, load)
    }

    fn by_id(&self) -> Result<(&TextColumn, &PatientRows)> {
        let ids = self.ids()?;
        let rows = loaded(&self.shared.by_id, || {
            let rows = PatientRows::new(ids);
            // Texts lie in the file's mapping, which reads as zeros where the file was cut.
            self.pack().check_intact()?;
            Ok(rows)
        })?;
        Ok((ids, rows))
    }

    /// The different patients, in the order in which they first appear.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] when the index has no column of ids, or an id is null.
    pub fn patient_ids(&self) -> Result<Vec<&str>> {
        let (ids, by_id) = self.by_id()?;
        if let Some((row, _)) = (0_u64..).zip(ids.iter()).find(|(_, id)| id.is_none()) {
            return Err(self.null_id(row));
        }
        Ok(by_id.first_rows(ids).into_iter().filter_map(|row| ids.get(row)).collect())
    }

    fn null_id(&self, row: u64) -> AdapterError {
        AdapterError::schema_row(self.pack().path(), row, PATIENT_ID, "patient_id is null")
    }

    /// The id of a row, as the index has it.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Schema`] when there is no id.
    pub fn patient_id(&self, row: u64) -> Result<&str> {
        self.check_row(row)?;
        self.ids()?.get(row).ok_or_else(|| self.null_id(row))
    }

    /// The row of a patient: the last one, where several have the id.
    ///
    /// # Errors
    ///
    /// [`AdapterError::UnknownId`] when no row has it; [`AdapterError::Schema`] when the index has
    /// no column of ids.
    pub fn row_of(&self, patient_id: &str) -> Result<u64> {
        let (ids, by_id) = self.by_id()?;
        by_id.rows(ids, patient_id).next_back().ok_or_else(|| AdapterError::UnknownId {
            path: self.pack().path().to_owned(),
            field: PATIENT_ID,
            id: short(patient_id),
        })
    }

    /// All rows of a patient, in order; none when no row has the id.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Schema`] when the index has no column of ids.
    pub fn rows_of(&self, patient_id: &str) -> Result<Vec<u64>> {
        let (ids, by_id) = self.by_id()?;
        Ok(by_id.rows(ids, patient_id).collect())
    }

    fn check_row(&self, row: u64) -> Result<()> {
        if row < self.len() {
            return Ok(());
        }
        Err(AdapterError::RowOutOfRange {
            path: self.pack().path().to_owned(),
            row,
            rows: self.len(),
        })
    }

    /// Reads a patient; the last row, where several have the id.
    ///
    /// # Errors
    ///
    /// As [`row_of`](Self::row_of) and [`read_at`](Self::read_at).
    pub fn read(&self, patient_id: &str) -> Result<Patient<D>> {
        self.read_at(self.row_of(patient_id)?)
    }

    /// Reads the patient of a row. What counts is the block: where it has another id than the
    /// index, it is that id which the patient gets.
    ///
    /// # Errors
    ///
    /// [`AdapterError::RowOutOfRange`]; [`AdapterError::Read`] when the stored bytes are damaged or
    /// cannot be decompressed; [`AdapterError::Block`] when what they decompress to is no sound
    /// block.
    pub fn read_at(&self, row: u64) -> Result<Patient<D>> {
        self.read_many(&[row])?.pop().ok_or_else(|| self.lost(row))
    }

    /// Reads many patients, in the order asked for, duplicates included; large batches are split
    /// over the workers of the [`ReadOptions`].
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), for the first row that cannot be read.
    pub fn read_many(&self, rows: &[u64]) -> Result<Vec<Patient<D>>> {
        for row in rows {
            self.check_row(*row)?;
        }
        let limits = &self.shared.options.limits;
        let look = |_, block: &[u8]| decode_within::<D>(block, limits);
        let read = self.shared.pack.read_many_with(rows, look)?;
        let mut patients = Vec::with_capacity(read.len());
        for (row, patient) in rows.iter().zip(read) {
            let patient = patient.map_err(|fault| self.block_error(*row, fault))?;
            if self.shared.options.strict {
                let docs = u64::try_from(patient.docs.len()).unwrap_or(u64::MAX);
                self.check_index(*row, &patient.patient_id, &patient.institution, docs).and_then(
                    |fault| fault.map_or(Ok(()), |fault| Err(self.block_error(*row, fault))),
                )?;
            }
            patients.push(patient);
        }
        Ok(patients)
    }

    /// Where block and index differ.
    pub(crate) fn check_index(
        &self,
        row: u64,
        patient_id: &str,
        institution: &str,
        docs: u64,
    ) -> Result<Option<BlockError>> {
        let differs = |field, block: String, index: String| {
            Some(BlockError::IndexDiffers { field, block, index })
        };
        let shown = |text: Option<&str>| {
            text.map_or_else(|| "null".to_owned(), |text| format!("\"{}\"", short(text)))
        };
        let id = self.ids()?.get(row);
        if id != Some(patient_id) {
            return Ok(differs(PATIENT_ID, shown(Some(patient_id)), shown(id)));
        }
        if has_column(self.pack().index_table()?, INSTITUTION) {
            let of_index = self.institutions()?.get(row);
            if of_index != Some(institution) {
                return Ok(differs(INSTITUTION, shown(Some(institution)), shown(of_index)));
            }
        }
        if has_column(self.pack().index_table()?, NUM_DOCS) {
            let of_index = self.num_docs()?.get(row);
            if of_index != Some(i128::from(docs)) {
                let of_index = of_index.map_or_else(|| "null".to_owned(), |n| n.to_string());
                return Ok(differs(NUM_DOCS, docs.to_string(), of_index));
            }
        }
        Ok(None)
    }

    /// The decompressed block of a row.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), apart from the block itself, which is not looked at.
    pub fn block_at(&self, row: u64) -> Result<Bytes> {
        self.check_row(row)?;
        Ok(self.shared.pack.read(row)?)
    }

    /// What a row's block says about its patient and documents. Decompression ends with the
    /// manifest, where the codec can stop: so the texts may be damaged, and spans are not compared
    /// with the body.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), as far as the block is read.
    pub fn read_manifest_at(&self, row: u64) -> Result<Manifest> {
        let block = self.prefix(row, &mut manifest_end)?;
        let parsed = split(&block)
            .and_then(|(manifest, _)| self.parse(manifest, Keep::All))
            .map_err(|fault| self.block_error(row, fault))?;
        Ok(parsed.manifest)
    }

    /// Reads one document of a row, by its position. Decompression ends with its last byte, where
    /// the codec can stop: so an early document of a long block comes much faster than the block,
    /// and what lies behind may be damaged.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), as far as the block is read; [`AdapterError::Block`] with
    /// [`BlockError::NoDocument`] when there is no such document.
    pub fn read_doc(&self, row: u64, document: u64) -> Result<D> {
        let none = |documents| BlockError::NoDocument { document, documents };
        let found = self.one_doc(row, Keep::Position(document))?.found;
        found.map_err(|documents| self.block_error(row, none(documents)))
    }

    /// The same with the id of its patient.
    #[cfg(feature = "text-search")]
    pub(crate) fn read_doc_of(&self, row: u64, document: u64) -> Result<(String, D)> {
        let none = |documents| BlockError::NoDocument { document, documents };
        let one = self.one_doc(row, Keep::Position(document))?;
        let doc = one.found.map_err(|documents| self.block_error(row, none(documents)))?;
        Ok((one.patient_id, doc))
    }

    /// Reads the first document of a row that has an id, as [`read_doc`](Self::read_doc), with its
    /// position; nothing where none has it.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), as far as the block is read.
    pub fn read_doc_by_id(&self, row: u64, doc_id: &str) -> Result<Option<(u64, D)>> {
        let OneDoc { position, found, .. } = self.one_doc(row, Keep::Id(doc_id))?;
        Ok(found.ok().map(|doc| (position, doc)))
    }

    fn one_doc(&self, row: u64, keep: Keep<'_>) -> Result<OneDoc<D>> {
        let mut parsed: Option<Result<Parsed, BlockError>> = None;
        let mut end = 0_usize;
        let block = self.prefix(row, &mut |start| {
            if parsed.is_none() {
                end = manifest_end(start);
                if start.len() < end || end <= 4 {
                    return end;
                }
                let manifest = start.get(4..end).unwrap_or_default();
                let read = self.parse(manifest, keep);
                if let Some(doc) = read.as_ref().ok().and_then(|read| read.manifest.docs.first()) {
                    let text = usize::try_from(doc_end::<D>(doc)).unwrap_or(usize::MAX);
                    end = end.saturating_add(text);
                }
                parsed = Some(read);
            }
            end
        })?;
        let fail = |fault| self.block_error(row, fault);
        let (manifest, body) = split(&block).map_err(fail)?;
        let parsed = match parsed {
            Some(parsed) => parsed,
            None => self.parse(manifest, keep),
        };
        let mut parsed = parsed.map_err(fail)?;
        let position = parsed.position;
        let found = match parsed.manifest.docs.pop() {
            None => Err(parsed.documents),
            Some(doc) => Ok(document::<D>(position, doc, body).map_err(fail)?),
        };
        Ok(OneDoc { patient_id: parsed.manifest.patient_id, position, found })
    }

    fn parse(&self, bytes: &[u8], keep: Keep<'_>) -> Result<Parsed, BlockError> {
        manifest::parse::<D>(bytes, keep, self.shared.options.limits.max_decoded_bytes)
    }

    /// The beginning of a row's block.
    fn prefix(&self, row: u64, wanted: &mut dyn FnMut(&[u8]) -> usize) -> Result<Vec<u8>> {
        self.check_row(row)?;
        let codec = self.shared.pack.codec()?;
        let stored = self.shared.pack.read_bytes(row)?;
        let mut limits = self.shared.options.limits;
        if let Some(size) = self.shared.pack.decoded_size(row)? {
            limits.max_decoded_bytes = limits.max_decoded_bytes.min(size);
        }
        codec.decode_bytes_prefix(&stored, wanted, &limits).map_err(|source| AdapterError::Codec {
            path: self.pack().path().to_owned(),
            row: Some(row),
            source,
        })
    }

    /// Patients in the order of the rows, read many at a time, on several threads.
    #[must_use]
    pub fn iter(&self) -> Patients<'_, D> {
        Patients::new(self)
    }

    /// Compares the stored bytes of a row with their CRC-32, whatever the options say.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Read`] when they differ or cannot be read; [`AdapterError::Schema`] when the
    /// pack has no checksums.
    pub fn verify_crc(&self, row: u64) -> Result<()> {
        self.check_row(row)?;
        let pack = self.pack().with_crc(true);
        if pack.span(row)?.crc32.is_none() {
            return Err(AdapterError::schema(pack.path(), "crc32", "the index has no checksums"));
        }
        pack.read(row)?;
        Ok(())
    }

    pub(crate) fn block_error(&self, row: u64, source: BlockError) -> AdapterError {
        let source = Box::new(source);
        AdapterError::Block { path: self.pack().path().to_owned(), row, source }
    }

    fn lost(&self, row: u64) -> AdapterError {
        AdapterError::schema_row(self.pack().path(), row, PATIENT_ID, "the row was not read")
    }
}

fn loaded<T>(cell: &OnceLock<T>, load: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let value = load()?;
    // Threads that come here together load the same; one result is kept.
    Ok(cell.get_or_init(|| value))
}

/// The header's version of the schema must be one that is known, or absent.
pub(crate) fn check_version(pack: &PackReader, field: &str) -> Result<()> {
    match pack.header().members().get(field) {
        None => Ok(()),
        Some(version) if version.as_u64() == Some(SCHEMA_VERSION) => Ok(()),
        Some(version) if version.as_u64().is_some_and(|version| version > SCHEMA_VERSION) => {
            Err(AdapterError::Unsupported {
                path: pack.path().to_owned(),
                reason: format!("{field} is {version}, but only {SCHEMA_VERSION} is known"),
            })
        }
        Some(version) => Err(AdapterError::schema(
            pack.path(),
            field,
            format!("{field} is {version} instead of {SCHEMA_VERSION}"),
        )),
    }
}
