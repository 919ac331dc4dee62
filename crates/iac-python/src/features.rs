//! Packs of teacher features.

use std::path::PathBuf;

use iatrocache::adapters::features::{FeaturePackBuilder, FeaturePackReader, FeatureRow};
use iatrocache::adapters::{AdapterError, RecordTable};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::buffer::{Buffer, Held, numbers_mut};
use crate::errors::{Fault, Raise};
use crate::reader::Reader;
use crate::rows::{self, Negative};
use crate::tiles::{RecordParts, parts, record};
use crate::write::{Writing, element};

/// The vectors of an open pack.
#[pyclass(frozen, module = "iatrocache._native")]
pub(crate) struct Features {
    pack: FeaturePackReader,
}

#[pymethods]
impl Features {
    #[new]
    fn new(py: Python<'_>, reader: &Reader) -> PyResult<Self> {
        let pack = reader.pack()?;
        Ok(Self { pack: py.detach(|| FeaturePackReader::from_reader(pack)).raise()? })
    }

    #[getter]
    fn record_count(&self) -> u64 {
        self.pack.record_count()
    }

    #[getter]
    fn dim(&self) -> usize {
        self.pack.dim()
    }

    #[getter]
    fn teacher(&self) -> Option<&str> {
        self.pack.teacher()
    }

    fn tile_id(&self, row: &Bound<'_, PyAny>) -> PyResult<String> {
        let row = rows::row(row, || Ok(self.pack.record_count()), Negative::Refused)?;
        Ok(self.pack.tile_id(row).raise()?.to_owned())
    }

    fn row_of(&self, py: Python<'_>, tile_id: &str) -> PyResult<u64> {
        py.detach(|| self.pack.row_of(tile_id)).raise()
    }

    fn records(&self, py: Python<'_>) -> PyResult<Vec<RecordParts>> {
        let records = py.detach(|| -> Result<Vec<_>, AdapterError> {
            self.pack.records()?.map(|record| record.map(parts)).collect()
        });
        records.raise()
    }

    /// Vectors as 32-bit floats, one after the other: memory and number.
    fn read<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, Buffer>, usize)> {
        let rows = rows::rows(rows, || Ok(self.pack.record_count()), Negative::Refused)?;
        let numbers = py.detach(|| self.pack.read_many_f32(&rows)).raise()?;
        Ok((Bound::new(py, Buffer::owned(numbers))?, rows.len()))
    }

    /// A vector as 32-bit floats.
    fn read_one<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Buffer>> {
        let row = rows::row(row, || Ok(self.pack.record_count()), Negative::Refused)?;
        let numbers = py.detach(|| self.pack.read_f32(row)).raise()?;
        Bound::new(py, Buffer::owned(numbers))
    }

    /// Vectors as 32-bit floats, into the caller's buffer.
    fn read_into(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let rows = rows::rows(rows, || Ok(self.pack.record_count()), Negative::Refused)?;
        let mut held = Held::writable(out)?;
        py.detach(|| -> Result<(), Fault> {
            let numbers = numbers_mut(held.bytes_mut())
                .map_err(|error| Fault::value(format!("the buffer cannot hold floats: {error}")))?;
            Ok(self.pack.read_many_f32_into(&rows, numbers)?)
        })
        .raise()
    }
}

/// Vectors of an iterator of Python: pairs of the name of a type and memory in one piece.
struct Vectors {
    iterator: Py<PyIterator>,
    /// What Python raised, which is not lost on the way through the builder.
    raised: std::sync::Arc<std::sync::Mutex<Option<PyErr>>>,
}

impl Iterator for Vectors {
    type Item = Result<FeatureRow<'static>, AdapterError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::attach(|py| {
            if let Err(error) = py.check_signals() {
                return Some(Err(error));
            }
            let next = self.iterator.bind(py).clone().next()?;
            Some(next.and_then(|pair| {
                let (dtype, memory): (String, Bound<'_, PyAny>) = pair.extract()?;
                let held = Held::readable(&memory)?;
                Ok(FeatureRow::from_bytes(element(&dtype)?, held.bytes().to_vec()))
            }))
        })?;
        Some(next.map_err(|error| {
            let reason = error.to_string();
            *self.raised.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
            AdapterError::Usage { reason }
        }))
    }
}

/// Writes a pack of vectors.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "those of the specification")]
pub(crate) fn build_features(
    py: Python<'_>,
    records: Vec<RecordParts>,
    vectors: &Bound<'_, PyAny>,
    output: PathBuf,
    teacher: &str,
    dtype: &str,
    dim: Option<u64>,
    tile_size: (Option<u64>, Option<u64>),
    stride: (Option<u64>, Option<u64>),
    keep_split: bool,
    writing: Writing,
) -> PyResult<u64> {
    let mut table = RecordTable::new();
    for one in records {
        table.push(&record(one)).raise()?;
    }
    let builder = FeaturePackBuilder::new(teacher)
        .dtype(element(dtype)?)
        .dim(dim)
        .tile_size(tile_size.0, tile_size.1)
        .stride(stride.0, stride.1)
        .keep_split(keep_split)
        .options(writing.options());
    let raised = std::sync::Arc::default();
    let vectors =
        Vectors { iterator: vectors.try_iter()?.unbind(), raised: std::sync::Arc::clone(&raised) };
    let built =
        py.detach(|| builder.build_streaming(&output, table, vectors, &iatrocache::NoProgress));
    if let Some(error) = raised.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
        return Err(error);
    }
    Ok(built.raise()?.non_finite)
}
