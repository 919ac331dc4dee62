//! Parquet: one row for each document.

mod pages;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use arrow_array::RecordBatch;
use iac_format::ErrorKind;

use super::fault;
use super::mapping::{ColumnMapping, Places};
use super::rows::{At, DocRow, Grouped, row_of};
use crate::columns::{IntColumn, TextColumn};
use crate::error::{AdapterError, Result};
use crate::text::model::{Patient, TextDocument};

/// Rows that are read together.
const BATCH_ROWS: usize = 256;

/// Patients out of a Parquet file: each row is a document, and rows of one patient become one
/// patient.
///
/// Columns hold texts, or integers; nulls are absent values, which ids and texts cannot be. Columns
/// that are not mapped are not read. After an error there are no more patients.
pub struct ParquetPatients<D> {
    path: PathBuf,
    batches: ParquetRecordBatchReader,
    names: Vec<String>,
    mapping: ColumnMapping,
    places: Places,
    grouped: Grouped<D>,
    batch: Vec<Cells>,
    /// Rows of the batch, and the next one of them.
    rows: usize,
    next: usize,
    /// Rows of the batches before.
    before: u64,
}

impl<D> std::fmt::Debug for ParquetPatients<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetPatients").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A column of a batch.
#[derive(Debug)]
enum Cells {
    Text(TextColumn),
    Integer(IntColumn),
}

impl Cells {
    fn get(&self, row: u64) -> Option<String> {
        match self {
            Self::Text(column) => column.get(row).map(str::to_owned),
            Self::Integer(column) => column.get(row).map(|number| number.to_string()),
        }
    }
}

impl<D: TextDocument> ParquetPatients<D> {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Io`] when it cannot be read; [`AdapterError::Source`] when it is no sound
    /// Parquet file; [`AdapterError::MissingColumns`] and [`AdapterError::Usage`] when its columns
    /// do not fit the mapping.
    pub fn open(path: impl AsRef<Path>, mapping: &ColumnMapping) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(AdapterError::io(path, "cannot open"))?;
        let unread = file.try_clone().map_err(AdapterError::io(path, "cannot open"))?;
        let builder = guarded(path, || ParquetRecordBatchReaderBuilder::try_new(unread))?;
        let fields = builder.schema().fields();
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let wanted = mapping.places::<D>(path, &names)?;
        let used = wanted.labels.iter().chain(&wanted.texts).flatten().copied();
        let schema = builder.parquet_schema();
        let mask = ProjectionMask::roots(schema, used.clone());
        let leaves: Vec<usize> =
            (0..schema.num_columns()).filter(|leaf| mask.leaf_included(*leaf)).collect();
        guarded(path, || pages::check(&file, builder.metadata(), &leaves))?;
        // What is left stands in the order of the file.
        let left: Vec<String> = (0..names.len())
            .filter(|place| used.clone().any(|used| used == *place))
            .filter_map(|place| names.get(place).cloned())
            .collect();
        let places = mapping.places::<D>(path, &left)?;
        let batches =
            guarded(path, || builder.with_projection(mask).with_batch_size(BATCH_ROWS).build())?;
        Ok(Self {
            path: path.to_owned(),
            batches,
            names: left,
            places,
            grouped: Grouped::new(mapping),
            mapping: mapping.clone(),
            batch: Vec::new(),
            rows: 0,
            next: 0,
            before: 0,
        })
    }
}

/// Runs the library on a file that nobody has checked: its panics are faults of the file.
fn guarded<T, E: std::fmt::Display>(path: &Path, work: impl FnOnce() -> Result<T, E>) -> Result<T> {
    let source = |reason: String| AdapterError::Source {
        path: path.to_owned(),
        row: None,
        kind: ErrorKind::Damaged,
        reason,
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| source(error.to_string())),
        Err(_) => Err(source("the Parquet file is damaged".to_owned())),
    }
}

fn cells(path: &Path, names: &[String], batch: &RecordBatch) -> Result<Vec<Cells>> {
    let columns = batch.columns().iter().zip(names).enumerate();
    columns
        .map(|(number, (array, name))| {
            let mut text = TextColumn::default();
            if text.push(array).is_some() {
                return Ok(Cells::Text(text));
            }
            let alone = batch.project(&[number]).ok();
            let integers = alone.and_then(|alone| IntColumn::of_batches(&[alone]));
            integers.map(Cells::Integer).ok_or_else(|| AdapterError::Source {
                path: path.to_owned(),
                row: None,
                kind: ErrorKind::Schema,
                reason: format!(
                    "column `{name}` is of type {}, neither texts nor integers",
                    array.data_type()
                ),
            })
        })
        .collect()
}

impl<D: TextDocument> Iterator for ParquetPatients<D> {
    type Item = Result<Patient<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { path, batches, names, mapping, places, grouped, batch, rows, next, before } =
            self;
        grouped.next(path, || {
            while *next >= *rows {
                *before = before.saturating_add(u64::try_from(*rows).unwrap_or(u64::MAX));
                let read = guarded(path, || batches.next().transpose())?;
                let Some(read) = read else { return Ok(None::<DocRow<D>>) };
                *batch = cells(path, names, &read)?;
                (*rows, *next) = (read.num_rows(), 0);
            }
            let row = u64::try_from(*next).unwrap_or(u64::MAX);
            *next = next.saturating_add(1);
            let at = At { line: before.saturating_add(row).saturating_add(1), column: 1 };
            // An id or a text that is null is none; everything else may be absent.
            let [patient_id, _, doc_id, ..] = places.labels;
            for place in [patient_id, doc_id].into_iter().chain(places.texts).flatten() {
                if batch.get(place).is_some_and(|cells| cells.get(row).is_none()) {
                    let name = names.get(place).map(String::as_str);
                    return Err(fault(path, at.line, at.column, name, "is null"));
                }
            }
            let cell = |place: usize| {
                let text = batch.get(place).and_then(|cells| cells.get(row));
                (text.unwrap_or_default(), at)
            };
            row_of(path, mapping, places, at, cell).map(Some)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use ::parquet::arrow::ArrowWriter;
    use arrow_array::{ArrayRef, Float64Array, Int32Array, LargeStringArray, StringArray};

    use crate::text::ClinicalDoc;

    fn written(columns: Vec<(&str, ArrayRef)>) -> tempfile::NamedTempFile {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer =
            ArrowWriter::try_new(file.reopen().unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file
    }

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    #[test]
    fn rows_become_patients() {
        let file = written(vec![
            ("unused", Arc::new(Float64Array::from(vec![1.0; 3]))),
            ("MRN", Arc::new(Int32Array::from(vec![7, 7, 8]))),
            ("doc_id", texts(&[Some("1"), Some("2"), Some("1")])),
            ("episode_index", Arc::new(Int32Array::from(vec![Some(4), None, Some(-2)]))),
            ("note", Arc::new(LargeStringArray::from(vec!["x", "y", "é"]))),
            ("doc_type", texts(&[None, Some("t"), None])),
        ]);
        let mapping = ColumnMapping::default().column("patient_id", "MRN").column("text", "note");
        let patients: Vec<Patient<ClinicalDoc>> =
            ParquetPatients::open(file.path(), &mapping).unwrap().map(Result::unwrap).collect();
        assert_eq!(patients.len(), 2);
        assert_eq!((patients[0].patient_id.as_str(), patients[0].docs.len()), ("7", 2));
        assert_eq!(patients[0].docs[1].doc_type, "t");
        assert_eq!(patients[0].docs[1].episode_index, -1);
        assert_eq!(
            (patients[1].docs[0].text.as_str(), patients[1].docs[0].episode_index),
            ("é", -2)
        );
    }

    #[test]
    fn nulls_and_files_that_are_none_are_refused() {
        let file = written(vec![
            ("patient_id", texts(&[Some("a"), None])),
            ("doc_id", texts(&[Some("1"), Some("2")])),
            ("text", texts(&[Some("x"), Some("y")])),
        ]);
        let plain = ColumnMapping::default();
        let patients = ParquetPatients::<ClinicalDoc>::open(file.path(), &plain).unwrap();
        let error = patients.last().unwrap().unwrap_err();
        assert!(error.to_string().ends_with(":2:1: patient_id: is null"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"PAR1 no such thing PAR1").unwrap();
        let error = ParquetPatients::<ClinicalDoc>::open(file.path(), &plain).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
}
